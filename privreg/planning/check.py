"""A plan against fits of made-up people."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom

from privreg.errors import OptionError
from privreg.planning.fits import fit_of
from privreg.planning.plan import Planned

USUAL: Final = 1.345  # Corner of Huber's and expectiles' scores in residual sd, where noise falls on sums

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
    spec, assumed, truth = plan.spec, plan.assumed, None
    widths, held, found = [], [], []
    for k, state in enumerate(np.random.SeedSequence(seed).spawn(reps)):
        rng = np.random.Generator(np.random.SFC64(state))
        res, settings = fit_of(spec, assumed, plan.n, rng, None if seed is None else (seed + k) % 2**63)
        efficient = None if settings is None else settings.efficient
        if truth is None:
            truth = assumed.truth(spec, USUAL if efficient is None else efficient.rules.ratio)
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
