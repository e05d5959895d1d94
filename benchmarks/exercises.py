"""Fits that are meant to exercise each constant of the engine once: what no design of `benchmarks.conditional` has."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Mapping
from functools import cache
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

import privreg as pr
from benchmarks.conditional import FAMILIES, seeded
from benchmarks.conditional_designs import COUNTS, YES
from benchmarks.designs import ANSWERS, DESIGNS, FAR, Design, _many

SCHOOLS: Final = 200


class Fit(NamedTuple):
    """A design, and what is asked for."""

    design: Design
    model: Mapping[str, Any] = MappingProxyType({})  # Of `from_formula`
    fit: Mapping[str, Any] = MappingProxyType({})
    stream: bool = False  # Of unknown length
    persons: bool = False  # Two rows each


def _factor(p: int) -> Design:
    """A number and a factor of many levels."""
    levels = [f"l{k}" for k in range(p)]

    def rows(rng: np.random.Generator, m: int) -> dict[str, Any]:
        g, a = rng.integers(0, p, m), rng.standard_normal(m)
        return {"g": np.array(levels)[g], "a": a, "y": 0.5 * a + g / p + rng.standard_normal(m)}

    return Design("y ~ g + a", rows, {"a": FAR, "y": (-8.0, 10.0)}, {"g": levels})


def _far_off(rng: np.random.Generator, n: int) -> dict[str, Any]:
    """Numbers whose scales nobody declared, one of them thousands of sd away from 0."""
    a, b = rng.standard_normal((2, n))
    return {"a": 5e4 + 3.0 * a, "b": 1e-3 * b, "y": 1.0 + a + b + rng.standard_normal(n)}


_LEVELS = _factor(90)
_TANH = pr.families.custom("tanh", lambda eta, y: float(np.tanh(eta - y)), 1.0)
_CHARGES, _VISITS = DESIGNS["charges"], COUNTS["counts, ordinary"]
_TWO = {"trust": "two_collectors"}
_KEPT = {name: Fit(design) for designs in (*FAMILIES.values(), ANSWERS, DESIGNS) for name, design in designs.items()}
EXERCISES: Final[dict[str, Fit]] = _KEPT | {
    "thirty numbers": Fit(_many(30)),
    "90 levels": Fit(_LEVELS, {"mu": 8.0}),
    "90 levels, counts": Fit(_LEVELS._replace(family=pr.families.Poisson(y_max=10), bounds={"a": FAR}), {"mu": 8.0}),
    "stream": Fit(_CHARGES, stream=True),
    "much budget": Fit(_CHARGES, {"mu": 8.0}),
    "much budget, counts": Fit(_VISITS, {"mu": 8.0}),
    "much budget, mostly none": Fit(DESIGNS["mostly none"], {"mu": 8.0}),
    "no bounds": Fit(Design("y ~ a + b", _far_off, {}), {"scaling": "private", "mu": 4.0}),
    "hinge": Fit(YES["yes, skewed"]._replace(family="hinge")),
    "smoothed hinge": Fit(YES["yes, skewed"]._replace(family=pr.SmoothedHinge())),
    "squared": Fit(DESIGNS["tenfold"]._replace(family="squared")),
    "robust counts": Fit(_VISITS._replace(family=pr.families.Poisson(y_max=20, c=1.5))),
    "declared c": Fit(DESIGNS["fanned"]._replace(family=pr.Huber(1.345, scale=0.7))),
    "own score": Fit(DESIGNS["fanned"]._replace(family=_TANH)),
    "offset": Fit(COUNTS["counts, even"]._replace(formula="y ~ a + b"), {"offset": "c"}),
    "measures": Fit(_CHARGES, {}, {"measures": 0.2}),
    "bootstrap": Fit(DESIGNS["fanned"], {}, {"inference": "block_bootstrap"}),
    "persons": Fit(DESIGNS["fanned"], persons=True),
    "within persons": Fit(DESIGNS["fanned"]._replace(formula="y ~ a + b + c | person"), persons=True),
    "clusters": Fit(DESIGNS["fanned"], {"cluster": "school"}),
    "two collectors": Fit(_CHARGES, _TWO),
    "two collectors, counts": Fit(_VISITS, _TWO),
    "two collectors, yes": Fit(YES["yes, skewed"], _TWO),
    "two collectors, classes": Fit(ANSWERS["three answers"], _TWO),
    "two collectors, ten levels": Fit(DESIGNS["ten levels"], _TWO),
    "two collectors, persons": Fit(DESIGNS["fanned"], _TWO, persons=True),
    "two collectors, clusters": Fit(DESIGNS["fanned"], {"cluster": "school", **_TWO}),
    "two collectors, measures": Fit(_CHARGES, _TWO, {"measures": 0.2}),
    "curator": Fit(_CHARGES, {"trust": "central"}),
    "curator, yes": Fit(YES["yes, skewed"], {"trust": "central"}),
}  # fmt: skip
"""By name."""


@cache
def _rows(name: str, n: int, run: int) -> pd.DataFrame:
    exercise, rng = EXERCISES[name], seeded(name, run, n)
    rows = pd.DataFrame(exercise.design.make(rng, n))
    if exercise.persons:
        rows["person"] = np.arange(n) // 2
    return rows.assign(school=rng.integers(0, SCHOOLS, n)) if "cluster" in exercise.model else rows


def played(name: str, n: int, run: int) -> np.ndarray:
    """A fit's numbers of each coefficient, shape (k, 3): marked, estimate, standard error; a row more of its notes."""
    design, model, fit, stream, persons = EXERCISES[name]
    rows, levels = _rows(name, n, run), dict(design.levels or {})
    if "cluster" in model:
        levels["school"] = list(range(SCHOOLS))
    model = {"mu": 1.0, "family": design.family, **(design.more or {}), **model}
    model |= {"bounds": design.bounds} if design.bounds else {}
    model |= {"levels": levels} if levels else {}
    model |= {"id": "person", "k_max": 2} if persons else {}
    how = {"seed": zlib.crc32(f"{name} {n} {run}".encode())}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = pr.PrivateOnlineRegression.from_formula(design.formula, *([] if stream else [rows]), **model)
        if stream:
            begun = made.start(**how)
            begun.update(rows)
            res = begun.results()
        else:
            res = made.fit(**how, progress=False, threads=1, **fit)
        table = res.tidy()
    notes = zlib.crc32(repr(sorted(n.code for n in res.summary().notes)).encode())
    numbers = np.column_stack([~table["reliable"].to_numpy(bool), table["estimate"], table["std_error"]]).astype(float)
    return np.vstack([numbers, np.full(3, float(notes))])


_SUMS = ("two collectors", "two collectors, persons", "two collectors, classes", "two collectors, measures")
SCREENED: Final = {
    "schedule": ("much budget", "counts, skewed", "stream", "no bounds"),
    "levels": ("charges", "heaped", "response", "yes, by group", "no bounds", "rare reference", "yes, strong"),
    "moments": ("charges", "interaction, skewed", "counts, skewed", "much budget, counts", "much budget, mostly none"),
    "whitening": ("charges", "mostly none", "counts, skewed", "correlated", "much budget, mostly none", "90 levels"),
    "weights": ("response",),
    "offsets": ("charges", "counts, skewed", "upper", "hinge", "mostly none", "much budget"),
    "steps": ("charges", "valley", "counts, skewed"),
    "curvature": ("charges", "upper", "counts, skewed", "90 levels"),
    "combination": ("charges", "valley", "counts, skewed", "90 levels"),
    "marks": ("charges", "heaped", "valley", "response", "rare reference"),
    "clamping": ("charges", "measures"),
    "two collectors": _SUMS,
    "sums": ("curator", "curator, yes", "two collectors, yes"),
    "resampling": ("charges",),
    "clusters": ("clusters", "two collectors, clusters"),
    "joint tests": ("clusters",),
}
"""Of each group of constants, the fits of a screen, in order."""
