"""A plan against fits of made-up people."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom

from privreg.errors import OptionError
from privreg.planning.plan import Planned
from privreg.planning.precision import ASKED
from privreg.regression import PrivateOnlineRegression
from privreg.simulation.streaming.begin import begin

CHUNK: Final = 65_536
MOST_ROWS: Final = 10**8
SURE: Final = 0.999


def simulate(plan: Planned, reps: int, seed: int | None, done: Callable[[], Any]) -> pd.DataFrame:
    """Fit `reps` samples of people as the plan assumes them; see `StudyPlan.check`."""
    if plan.n * reps > MOST_ROWS:
        most = MOST_ROWS // plan.n
        raise OptionError(
            f"{reps} fits of {plan.n:,} records are more than {MOST_ROWS:,} rows; "
            + (f"give reps={most} at most." if most > 1 else "check a plan of fewer records with the same budget.")
        )
    spec, assumed = plan.spec, plan.assumed
    model = PrivateOnlineRegression.__new__(PrivateOnlineRegression)
    model._build(spec, None, plan.n)
    streams = np.random.SeedSequence(seed).spawn(reps)
    widths, held, found, truth = [], [], [], None
    name = spec.design.endog_bare if spec.design.endog_bare is not None else spec.design.endog_name
    for k, state in enumerate(streams):
        rng = np.random.Generator(np.random.SFC64(state))
        stream = begin(model._spec, ASKED, None, None if seed is None else (seed + k) % 2**63, plan.n)
        left = plan.n
        while left:
            m = min(left, CHUNK)
            rows, x, scale = assumed.exog(spec, m, rng)
            stream.update({**rows, name: assumed.responses(spec, x, scale, rng)})
            left -= m
        if truth is None:
            efficient = stream._settings.efficient
            assert efficient is not None
            truth = assumed.truth(spec, efficient.rules.ratio)
        res = stream._so_far()  # a plan of few people says so itself
        low, high = res.conf_int(plan.alpha).to_numpy().T
        widths.append(high - low)
        held.append((low <= truth) & (truth <= high))
        found.append((low > 0.0) | (high < 0.0))
        done()
    assert truth is not None
    table = plan.table()
    mean = np.mean(widths, axis=0)
    out = pd.DataFrame({"planned": table["width"], "simulated": mean})
    out["ratio"] = out["simulated"] / out["planned"]
    out["ratio_se"] = np.std(widths, axis=0, ddof=1) / math.sqrt(reps) / out["planned"]
    out["coverage"] = np.where(np.isnan(truth), math.nan, np.mean(held, axis=0))
    low_, high_ = binom.interval(SURE, reps, 1.0 - plan.alpha)
    out["at_least"], out["at_most"] = low_ / reps, high_ / reps
    if plan.goal.effects:
        out["power"], out["told"] = table["power"], np.mean(found, axis=0)
    return out
