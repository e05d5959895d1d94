"""Piecewise exponential hazards: counts of at most one event, whose rows are the intervals of one person."""

from functools import lru_cache
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array, Flags
from privreg.families.scores import Family, Function, Predicted, ScoreRules, SumRules
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.sums import FALLS, farthest

INTERVAL: Final = "interval"  # Factor of the public intervals
ENDED: Final = "Surv"  # Column that says whether an interval ended with an event
AT_RISK: Final = "time at risk"  # Column of exposures, which no formula can name
BEYOND: Final = 12.0
"""Cumulative hazard beyond log n up to which n people count whole where there is no noise: anybody has no event until
then in one of e^12 data sets."""
LARGEST: Final = 32.0  # Cumulative hazards that are tried
LEAST: Final = 0.05  # Cumulative hazard up to which people are followed at least
DEARER: Final = 0.05
"""Part of a variance that a longer follow-up may cost, as where the model is wrong the target goes with it."""
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
    """Scores and slopes of intervals, each of shape (m, J), until cumulative hazards reach `most`: Equation (54).

    `eta`, shape (m, J), has the logarithm of time at risk in it; `y` is 1 where the interval ends with an event.
    """
    event = np.where(usable, y, 0.0)
    upto = np.minimum(np.cumsum(np.where(usable, np.exp(eta), 0.0), axis=1), most)
    if most < FALLS:  # until A
        slope = np.diff(upto, axis=1, prepend=0.0)
        return slope - event * (upto < most), slope
    weight = np.clip((most - upto) / FALLS, 0.0, 1.0)
    counted = upto - np.maximum(upto - (most - FALLS), 0.0) ** 2 / (2.0 * FALLS)
    falling = (event * ((weight > 0.0) & (weight < 1.0))).max(axis=1, keepdims=True)
    slope = np.diff(upto, axis=1, prepend=0.0) * (weight[:, -1:] + falling / FALLS)
    return np.diff(counted, axis=1, prepend=0.0) - event * weight, slope


@lru_cache(256)
def longest(share: float, noise: float, edge: float = 0.0) -> float:
    """Cumulative hazard up to which people are followed: Equation (55).

    `share` is that of people who have an event, `noise` the variance of a score's noise over the square of the largest
    one, of one record. Scores fall where a slope is `edge` times the largest one at least, which is clear of its noise.
    """
    tried, edges = np.geomspace(LEAST, LARGEST, 100), np.linspace(0.0, LARGEST, 1_001)
    middle, falls = 0.5 * (edges[1:] + edges[:-1]), tried >= FALLS
    at_risk = _at_risk(share, edges)
    counts = np.where(falls[:, None], np.clip((tried[:, None] - middle) / FALLS, 0.0, 1.0), middle < tried[:, None])
    known, (most, top) = counts @ at_risk, np.array([farthest(a) for a in tried]).T
    variance = (counts**2 @ at_risk + noise * most**2) / known**2
    clear = falls & (edge * top <= known)
    if not clear.any():
        return float(tried[np.argmin(np.where(falls, np.inf, variance))])
    return float(tried[clear & (variance <= (1.0 + DEARER) * variance[clear].min())].max())


@lru_cache(256)
def ending(share: float, most: float) -> float:
    """Part of the slope that may change as people are followed for another time, where weights fall: ½ A ρ of (68)."""
    edges = np.linspace(0.0, most, 1_001)
    at_risk, falls = _at_risk(share, edges), edges[1:] > most - FALLS
    return 0.5 * most * float(at_risk[falls].sum() / at_risk.sum()) * (most >= FALLS)


def _at_risk(share: float, edges: Array) -> Array:
    """Time at risk between cumulative hazards at `edges`, of the reference model, `share` of whom have an event."""
    at, middle = np.exp(VARIED), 0.5 * (edges[1:] + edges[:-1])
    weight = np.exp(-0.5 * VARIED**2)
    weight /= weight.sum()
    ends = np.geomspace(1e-4, LARGEST, 200)  # of the follow-up, as hazards of the usual person
    shares = -np.expm1(-np.outer(ends, at)) @ weight
    end = at * float(np.interp(min(max(share, 1e-3), 0.99), shares, ends))
    return np.asarray(np.exp(-middle) * (weight @ np.clip(end[:, None] - edges[:-1], 0.0, edges[1])))


HAZARDS: Final = Family("Hazards", codes.HAZARDS, "log", "binary")
"""The family of a formula's ``Surv()``."""
