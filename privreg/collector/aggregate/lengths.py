"""Lengths of rows and directions of long ones: the length L up to which rows count whole, and a metric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector.aggregate.budget import SURE, bearable, slope_edge
from privreg.collector.aggregate.lattice import sd
from privreg.collector.aggregate.plan import WIDER, turned
from privreg.collector.aggregate.report import unstacked

if TYPE_CHECKING:
    from privreg.base.arrays import Array, Flags
    from privreg.collector.aggregate.plan import Plan, Progress

UNSEEN: Final = 0.1
"""Share of rows in one bin that its noise hides, times the root of their number: from here on rows may be longer than
those that are seen."""

CLEAR: Final = 0.25  # Edges of its noise that a direction's slope is, at least, times this where it is half the mean


def advance(plan: Plan, progress: Progress, mean: Array, count: int) -> Progress:
    """Take in shares by length and direction; first a metric of directions, then the length L: Equation (35)."""
    state, d = progress.state, plan.d
    noise, bins = sd(plan, state) / count, len(plan.ends)
    if state.role == "lengths":  # long rows were seen, though perhaps not the longest
        unseen = SURE * noise * math.sqrt(plan.rows) > UNSEEN
        return _of_length(plan, progress, mean, noise, bearable(plan, progress) / 2.0 * unseen)
    mean, noise = mean * math.sqrt(2.0), noise * math.sqrt(2.0)
    values, vectors = np.linalg.eigh(unstacked(mean[bins:]))
    found = values > math.sqrt(2.0 * d) * noise
    if not found.any():
        return _of_length(plan, progress, mean[:bins], noise)
    longest = max(float(plan.ends[_seen(mean[:bins], noise)].max(initial=0.0)), plan.normal)
    part = np.where(found, values, 0.0) / values[found].sum()
    squares = plan.normal / d + (longest - plan.normal) * part  # squared reach by direction
    wide = np.sqrt(squares / squares.min())
    square = min(bearable(plan, progress), longest)
    most = CLEAR / slope_edge(plan, progress, square)  # what is left of a direction's slope is clear of its noise
    by = np.sqrt(np.clip(wide, 1.0, max(most, 1.0)))
    turn = (vectors / by) @ vectors.T
    known = progress.known
    known = known._replace(
        mean=turn @ known.mean @ turn.T,
        variances=known.variances * np.outer(np.diag(turn) ** 2, np.diag(turn) ** 2),
        points=known.points @ turn.T,
    )
    state = state._replace(role="lengths", rows=turn @ state.rows, theta=turned(turn, state.theta))
    pull = (turn @ vectors * part) @ (turn @ vectors).T
    return progress._replace(state=state, known=known, pull=pull / float(np.trace(pull)))


def _box(plan: Plan, rows: Array) -> float:
    """Squared length that no row is longer than, by the bounds of its columns."""
    middle, half = 0.5 * (plan.lows + plan.highs), 0.5 * (plan.highs - plan.lows)
    return float(np.square(np.abs(rows @ middle) + np.abs(rows) @ half).sum())


def borne(plan: Plan, progress: Progress) -> float:
    """Length L of a main round before which nobody looked at lengths: scores' noise is an eighth of their sampling."""
    square = min(bearable(plan, progress) / 2.0, _box(plan, progress.state.rows))
    return math.sqrt(max(square, plan.reach**2))


def few(plan: Plan, progress: Progress) -> Array:
    """Numbers whose variance is in part surely that of rows beyond L, as distances from a bound; shape (k, d).

    By mean and sd, and the nearer bound, at most a part (a + t) min(a, 1/2) of it is of rows within t sds beyond the
    mean: Equation (48).
    """
    rows = progress.seen[-1].state.rows
    x = np.linalg.inv(rows)
    second = x @ progress.known.mean @ x.T
    mean = second[0] / second[0, 0]
    sd = np.sqrt(np.maximum(np.diag(second) / second[0, 0] - mean**2, 0.0))
    near = np.maximum(np.minimum(mean - plan.lows, plan.highs - mean), 0.0)
    a, t = near[1:], sd[1:] * math.sqrt(progress.seen[-1].state.reach(plan) ** 2 - 1.0)
    bound = np.where(mean - plan.lows < plan.highs - mean, plan.lows, plan.highs)
    out = [j for j in plan.numbers if (a[j - 1] + t[j - 1]) * min(a[j - 1], 0.5 * sd[j]) < sd[j] ** 2]
    return np.asarray(x[out] - np.outer(bound[out], x[0]))


def _seen(shares: Array, noise: float) -> Flags:
    """Bins with a share, alone or with a neighbour, that stands out of its noise."""
    two = (shares[1:] + shares[:-1]) > SURE * math.sqrt(2.0) * noise
    return np.asarray((shares > SURE * noise) | np.append(two, False) | np.append(False, two), dtype=np.bool_)


def _of_length(plan: Plan, progress: Progress, shares: Array, noise: float, least: float = 0.0) -> Progress:
    """L² up to which noise is bearable, at most that of observed rows, at least that of normal ones: Equation (36).

    Where rows beyond it are so many that they may move estimates by a standard error, four times the noise is borne.
    """
    most, bounds = bearable(plan, progress), _box(plan, progress.state.rows)
    seen = np.flatnonzero(_seen(shares, noise) & (plan.ends < WIDER * bounds))
    longest = float(plan.ends[seen].max(initial=0.0))
    square = max(min(most, bounds, max(longest, plan.normal, least)), plan.reach**2)
    middle, shares = plan.ends[seen] / math.sqrt(WIDER), np.maximum(shares[seen], 0.0)

    def lost(square: float) -> tuple[float, float]:
        """Share of rows that are weighted down, and by how many standard errors scores that go with them may move."""
        part = shares * np.maximum(1.0 - square / middle, 0.0)
        return float(shares[middle > square].sum()), math.sqrt(plan.rows) * float(part @ np.sqrt(middle / plan.d))

    while lost(square)[1] > 1.0 and square * WIDER < 4.0 * most:
        square *= WIDER
    state = progress.state._replace(role="main", longest=math.sqrt(square))
    return progress._replace(state=state, lost=lost(square))
