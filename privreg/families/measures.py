"""Privately released measures of fit: the last people of a stream tell how well it predicts them, instead of a score.

Each of them sends a few numbers in [0, 1] at the final estimate, randomised like every other report, so the measures
cost people, and no budget. `values` is what a device computes; `summarise` turns the mean of the reports into
measures, with standard errors from the reports' own covariance.
"""

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.families.scores import Gauge, scoring_of

NORMAL_95: Final = 1.959963984540054
STEP: Final = 1e-6  # Step of a mean by which measures have slopes
_SHARES: Final = ("accuracy", "share below", "share censored", "share predicted censored")
_POSITIVE: Final = ("residual sd", "mean deviance", "mean response", "mean prediction", "hinge loss", "log-loss")
LEAST: Final = dict.fromkeys((*_SHARES, *_POSITIVE, "alpha", "sigma"), 0.0)
MOST: Final = dict.fromkeys((*_SHARES, "R²", "deviance explained"), 1.0)
"""Least and largest possible values of measures that have one."""


class Measure(NamedTuple):
    """One measure of fit."""

    name: str
    estimate: float
    std_error: float
    meaning: str


def values(gauge: Gauge, eta: Array, y: Array) -> Array:
    """Numbers of every person, in [0, 1], shape (n, m); NaN for unusable records.

    `eta`, shape (n, b), are linear predictors at the final estimate, `y`, shape (n,), responses.
    """
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        out = np.column_stack(scoring_of(gauge.family).values(gauge, eta, y))
    if not gauge.nonresponse:
        return out
    usable = np.asarray(~np.isnan(out).any(axis=1))
    return np.column_stack([np.where(usable[:, None], out, 0.0), usable.astype(np.float64)])


def summarise(gauge: Gauge, mean: Array, cov: Array, unit: float) -> tuple[Measure, ...]:
    """Measures of fit from the mean report, shape (m,), and its covariance; `unit` is the internal unit."""
    out = []
    for name, of_usable, meaning in scoring_of(gauge.family).measures(gauge, unit):

        def measure(means: Array, of_usable: Callable[[Array], float] = of_usable) -> float:
            # of usable records, from means over all records and the share of usable ones, which comes last
            return of_usable(means[:-1] / max(float(means[-1]), 1e-3) if gauge.nonresponse else means)

        at = measure(mean)
        slope = np.array([(measure(mean + h) - measure(mean - h)) / (2.0 * STEP) for h in STEP * np.eye(len(mean))])
        out.append(Measure(name, at, math.sqrt(max(float(slope @ cov @ slope), 0.0)), meaning))
    return tuple(out)


def frame(measures: Sequence[Measure]) -> pd.DataFrame:
    """Table of measures, with normal 95% limits."""
    out = pd.DataFrame(list(measures), columns=["measure", "estimate", "std_error", "meaning"])
    half = NORMAL_95 * out["std_error"]
    low, high = (out["measure"].map(end).astype(float) for end in (LEAST, MOST))
    # where a limit is beyond what is possible, what is possible is as good
    out.insert(3, "conf_low", (out["estimate"] - half).clip(lower=low.fillna(-np.inf)))
    out.insert(4, "conf_high", (out["estimate"] + half).clip(upper=high.fillna(np.inf)))
    return out
