"""Piecewise exponential hazards: counts of at most one event, whose rows are the intervals of one person."""

from functools import lru_cache
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array, Flags
from privreg.families.scores import Family, Function, Predicted, ScoreRules, SumRules
from privreg.protocol import codes
from privreg.protocol.plans import Shape

INTERVAL: Final = "interval"  # Factor of the public intervals
ENDED: Final = "Surv"  # Column that says whether an interval ended with an event
AT_RISK: Final = "time at risk"  # Column of exposures, which no formula can name
BEYOND: Final = 12.0
"""Cumulative hazard beyond log n up to which n people are followed where there is no noise: anybody has no event until
then in one of e^12 data sets."""
LARGEST: Final = 32.0  # Cumulative hazards that are tried
LEAST: Final = 0.05  # Cumulative hazard up to which people are followed at least
USUAL: Final = 0.3  # Share of people with an event, before any is seen
VARIED: Final = np.linspace(-2.5, 2.5, 41)
"""Log hazards of people of the reference model, in their sd of 1, by which A is chosen: Equation (55)."""


class HazardScore(Predicted):
    """ψ = Σ_j (h_j − d_j) over a person's intervals j, h = e^η, followed until the sum of h is A: Equation (54)."""

    code = codes.HAZARDS
    call = "Piecewise exponential()"
    title = "Piecewise exponential"
    estimand = (
        "log hazard ratios of people followed until their cumulative hazard reaches a public number; their projection "
        "if hazards are not proportional"
    )
    logs = ("log hazard", "hazard ratio")
    form = curved = separable = short_offsets = followed = True
    unsure = 4.0  # events may be rare
    shares = "followed"

    def unit(self, shape: Shape, c: Any, eta: Array, y: Array, function: Function = None) -> Array:
        return np.asarray(np.exp(eta) - y)

    def sums(self, family: Family, shape: Shape, known: ScoreRules, low: float, high: float) -> SumRules:
        return SumRules(1.0, USUAL, USUAL)

    def perfect(self, eta: Array) -> list[tuple[float, Array]]:
        return [(1.0, np.ones(len(eta)))]  # nobody has an event

    def mean(self, shape: Shape, there: Array) -> tuple[Array, Array]:
        mean = np.exp(np.minimum(there, 700.0))
        return mean, mean


def followed(eta: Array, y: Array, usable: Flags, most: float) -> tuple[Array, Array]:
    """Scores h − d and slopes h of intervals, each of shape (m, J), until cumulative hazards reach `most`: A of (54).

    `eta`, shape (m, J), has the logarithm of time at risk in it; `y` is 1 where the interval ends with an event.
    """
    hazard = np.where(usable, np.exp(eta), 0.0)
    upto = np.cumsum(hazard, axis=1)
    before = np.concatenate([np.zeros((len(upto), 1)), upto[:, :-1]], axis=1)
    slope = np.clip(most - before, 0.0, hazard)
    return slope - np.where(usable & (upto <= most), y, 0.0), slope


@lru_cache(256)
def longest(share: float, noise: float) -> float:
    """Cumulative hazard A up to which people are followed, of least variance: Equation (55).

    `share` is that of people who have an event, and `noise` the variance of a score's noise over A² + 1, of one record.
    """
    at = np.exp(VARIED)
    weight = np.exp(-0.5 * VARIED**2)
    weight /= weight.sum()
    share = min(max(share, 1e-3), 0.99)
    ends = np.geomspace(1e-4, LARGEST, 200)  # of the follow-up, as hazards of the usual person
    end = float(np.interp(share, -np.expm1(-np.outer(ends, at)) @ weight, ends))
    tried = np.geomspace(LEAST, LARGEST, 100)
    events = -np.expm1(-np.minimum(tried[:, None], end * at)) @ weight
    return float(tried[np.argmin(1.0 / events + noise * (1.0 + tried**2) / events**2)])


HAZARDS: Final = Family("Hazards", codes.HAZARDS, "log", "binary")
"""The family of a formula's ``Surv()``."""
