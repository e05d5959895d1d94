"""Results of formulas with given coefficients, for tests of what follows from estimates."""

import dataclasses

import numpy as np

from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import RandomScaling
from privreg.formula.design import formula_design
from privreg.results.results import PrivateResults
from privreg.schema.declarations import Schema

BOUNDS = {"x": (-3, 3), "z": (0.5, 4), "y": (0, 50), "o": (-1, 1), "t": (0.5, 4)}
LEVELS = {"g": ["a", "b", "c"], "s": ["no", "yes"], "w": ["lo", "mid", "hi"]}


def covariance(p, seed=0):
    root = np.random.default_rng(seed).normal(0, 0.1, (p, p + 3))
    return root @ root.T


def made(base, right, family, params=None, cov=None, response="y", pivot=None, **design):
    """A result of a formula with given coefficients."""
    levels = {k: v for k, v in LEVELS.items() if k in right or k == response}
    bounds = {k: v for k, v in BOUNDS.items() if k not in levels}
    formula = formula_design(f"{response} ~ {right}", Schema.declare(bounds, levels), kind=family.kind, **design)
    names, baseline = tuple(formula.names), ()
    if family.kind == "levels":
        baseline = tuple(LEVELS[response])
        names = tuple(f"{level}:{n}" for level in baseline[1:] for n in formula.names)
    p = len(names)
    params = np.random.default_rng(1).normal(0, 0.5, p) if params is None else np.asarray(params, dtype=float)
    estimates = (Estimate("random_scaling", covariance(p) if cov is None else cov, pivot or RandomScaling()),)
    fields = {"design": formula, "family": family, "names": names, "params": params, "last": params}
    return PrivateResults(dataclasses.replace(base, **fields, estimates=estimates, baseline=baseline))
