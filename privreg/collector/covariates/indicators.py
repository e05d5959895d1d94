"""Shares of records, by reports of 0 or 1: above thresholds, which locate columns; beyond bounds, which clamp them.

Without declared bounds a record reports of each column whether it is above a threshold, another one in each group of a
round. The first are spread over all orders of magnitude, the next over the values that earlier reports leave likely.
Columns are taken to be normal about there, some records to answer at random. Of bounded columns a few records report
which were clamped: 1 if so, any other 0, a record without a usable value included. Collector side.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.levels import SURE
from privreg.protocol.rounds import GROUPS

ROUGH: Final = 0.05  # Standard error of a share beside a normal one, at least, as columns are not normal
FIRST: Final = (1e15, 1e9, 1e6, 1e4, 1e2, 1.0, 1e-2, 1e-5)  # First thresholds, and their negatives
AT_RANDOM: Final = (0.02, 0.3, 0.6)  # Shares tried of records that answer at random, as unusable ones do
GRID: Final = 31
ZOOMS: Final = 3
RECENT: Final = 3  # Rounds whose thresholds centres are looked for at
SMALL: Final = 0.01  # Negligible share: of clamped records, and of a response's range
LARGE: Final = 0.05  # Clamped share that is detected: z times the standard error of a share is at most LARGE − SMALL
SMALLEST: Final = 1e-60  # Scale of a column that is searched for, at least: squares of numbers in it are to be numbers
NARROWEST: Final = 1e-9
"""Scale over distance from 0, at least: less of it is lost in rounding, and a map with it has no inverse."""


class Search(NamedTuple):
    """Search for the location and scale of m columns: thresholds, reported shares, estimates."""

    thresholds: Array  # Thresholds of the present round; shape (groups, m)
    tried: Array  # Thresholds of all rounds before; shape (k, m)
    shares: Array  # Reported shares of records above them; shape (k, m)
    variance: Array  # Variances of the shares; shape (k,)
    # Estimates, shape (m,); and posterior sds, of the centre in units of the scale, and of the logarithm of the scale
    centre: Array
    scale: Array
    unsure: Array  # shape (2, m)


def begin(m: int) -> Search:
    """Thresholds of all orders of magnitude."""
    first, none = np.array([*(-v for v in FIRST), *FIRST[::-1]]), np.zeros((0, m))
    thresholds, unsure = np.repeat(first[:, None], m, axis=1), np.full((2, m), np.inf)
    return Search(thresholds, none, none, np.zeros(0), np.zeros(m), np.ones(m), unsure)


def learn(search: Search, total: Array, weight: Array, sd: float) -> Search:
    """Search with one round added: sums of reports, (groups, m), of 1 above the threshold, else 0, randomised.

    `weight`, shape (groups,), are records, or their weights summed, and `sd` is the noise sd of a number.
    """
    heard = weight > 0.0
    tried = np.concatenate([search.tried, search.thresholds[heard]])
    shares = np.concatenate([search.shares, total[heard] / weight[heard, None]])
    variance = np.concatenate([search.variance, (sd**2 + 0.25) / weight[heard]])
    m = tried.shape[1]
    out = Search(np.empty((GROUPS, m)), tried, shares, variance, np.empty(m), np.empty(m), np.empty((2, m)))
    for j in range(m):
        found = _located(tried[:, j], shares[:, j], variance)
        out.centre[j], out.scale[j], out.unsure[:, j], out.thresholds[:, j] = found
    return out


def _likelihood(tried: Array, shares: Array, variance: Array, centre: Array, scale: Array) -> Array:
    """Log-likelihood of centres and scales of one shape, the best share of answers at random taken."""
    above = ndtr((centre[..., None] - tried) / scale[..., None])
    weight = 1.0 / (variance + ROUGH**2)  # columns aren't normal
    square = (above * above) @ weight
    out = np.full(centre.shape, np.inf)
    for q in AT_RANDOM:  # the weighted sum of squares of shares - ((1 - q) above + q / 2)
        off, times = shares - 0.5 * q, 1.0 - q
        out = np.minimum(out, off**2 @ weight - 2.0 * times * (above @ (weight * off)) + times**2 * square)
    return np.asarray(-0.5 * out)


def _located(tried: Array, shares: Array, variance: Array) -> tuple[float, float, Array, Array]:
    """Centre and scale of one column, their posterior sds, and thresholds for the next round."""
    ends = np.unique(tried[-RECENT * GROUPS :])
    centres = np.unique(np.concatenate([ends, 0.5 * (ends[1:] + ends[:-1])]))
    gap = max(float(np.diff(ends).min(initial=np.inf)), NARROWEST * float(np.median(np.abs(ends))))
    gap = gap if np.isfinite(gap) and gap > 0.0 else 1e-9
    sizes = np.geomspace(0.1 * gap, 3.0 * max(float(np.ptp(ends)), gap), 2 * GRID)
    c, s = np.meshgrid(centres, sizes, indexing="ij")
    value = _likelihood(tried, shares, variance, c, s)
    best = np.unravel_index(int(np.argmax(value)), value.shape)
    centre, scale = float(c[best]), float(s[best])
    # a scale far below the distance of thresholds is all one: the centre may be anywhere between its neighbours
    near = centres[[max(int(best[0]) - 1, 0), min(int(best[0]) + 1, len(centres) - 1)]]
    reach = (max(4.0, float(np.abs(near - centre).max()) / scale), 3.0)
    steps = np.linspace(-1.0, 1.0, GRID)
    for _ in range(ZOOMS):
        sizes = np.maximum(scale * np.exp(reach[1] * steps), 0.5 * reach[0] * scale / GRID)
        c, s = np.meshgrid(centre + scale * reach[0] * steps, sizes, indexing="ij")
        value = _likelihood(tried, shares, variance, c, s)
        best = np.unravel_index(int(np.argmax(value)), value.shape)
        likely, before = value > value[best] - 4.0, scale
        centre, scale = float(c[best]), float(s[best])
        wide = np.abs(c - centre)[likely].max() / scale, np.abs(np.log(s[likely] / scale)).max()
        spacing = reach[0] * before / scale / GRID, reach[1] / GRID
        reach = max(1.3 * float(wide[0]), 4.0 * spacing[0]), max(1.3 * float(wide[1]), 4.0 * spacing[1])
    weight = np.exp(value - value[best])
    weight /= weight.sum()
    centre, scale = float(np.sum(weight * c)), float(np.exp(np.sum(weight * np.log(s))))
    scale = min(max(scale, SMALLEST, NARROWEST * abs(centre)), 1.0 / SMALLEST)
    off = np.sqrt(np.sum(weight * (c - centre) ** 2)) / scale, np.sqrt(np.sum(weight * np.log(s / scale) ** 2))
    points = (c[..., None] + s[..., None] * ndtri((np.arange(9) + 0.5) / 9)).reshape(-1)
    order = np.argsort(points)
    share = np.cumsum(np.repeat(weight.reshape(-1), 9)[order])
    guards = np.array([-(SURE**2), -SURE, SURE, SURE**2])  # far out: by them a search that went astray comes back
    inside = GROUPS - len(guards)
    at = np.searchsorted(share, (np.arange(inside) + 0.5) / inside * share[-1])
    inner = points[order][np.minimum(at, len(points) - 1)]
    middle, half = 0.5 * (inner[0] + inner[-1]), 0.5 * (inner[-1] - inner[0])
    return centre, scale, np.array(off), np.concatenate([inner, middle + half * guards])


def converged(search: Search) -> NDArray[np.bool_]:
    """True for columns whose search converged: posterior sds of centre and log scale below 1; shape (m,)."""
    return np.asarray((search.unsure < 1.0).all(axis=0))


class Bounded(NamedTuple):
    """A bounded raw column, of which records report whether it was clamped."""

    name: str
    part: str  # Part of the model: "response", "covariate" or "offset"
    columns: tuple[int, ...] = ()  # Columns of the design made of it


class Clamped(NamedTuple):
    """Sums of the reports of a round on clamping."""

    number: int  # Number of the round
    weight: float  # Records, or weights of those with smaller budgets, summed
    total: Array  # Sum of the reports; shape (D,)
    people: int
