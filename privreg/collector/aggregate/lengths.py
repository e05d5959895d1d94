"""How long rows are and where long ones point: the length L up to which rows count whole, and a metric; (34) to (36)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector.aggregate.budget import bearable, slope_edge
from privreg.collector.aggregate.lattice import sd
from privreg.collector.aggregate.report import unstacked

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.aggregate.plan import Plan, Progress

SURE: Final = 3.7  # Sds of noise beyond which one of 40 bins has somebody in it: at 1% for all of them

CLEAR: Final = 0.25  # Edges of its noise that a direction's slope is, at least, times this where it is half the mean


def advance(plan: Plan, progress: Progress, mean: Array, count: int) -> Progress:
    """Take in shares by length and direction; first a metric of directions, then the length L."""
    state, d = progress.state, plan.d
    noise, bins = sd(plan, state.role, state.mu) / count, len(plan.ends)
    if state.role == "lengths":
        return _of_length(plan, progress, mean, noise)
    mean, noise = mean * math.sqrt(2.0), noise * math.sqrt(2.0)
    values, vectors = np.linalg.eigh(unstacked(mean[bins:]))
    found = values > math.sqrt(2.0 * d) * noise
    if not found.any():
        return _of_length(plan, progress, mean[:bins], noise)
    longest = max(_longest(plan, mean[:bins], noise), plan.normal)
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
    from privreg.collector.aggregate.rounds import turned

    state = state._replace(role="lengths", rows=turn @ state.rows, theta=turned(turn, state.theta))
    return progress._replace(state=state, known=known)


def _longest(plan: Plan, shares: Array, noise: float) -> float:
    """End of the last bin of squared lengths, or pair of bins, with a share that stands out of its noise."""
    two = np.append(shares[1:] + shares[:-1], 0.0)
    seen = np.flatnonzero((shares > SURE * noise) | (np.roll(two, 1) > SURE * math.sqrt(2.0) * noise))
    return float(plan.ends[seen[-1]]) if len(seen) else float(plan.ends[-1])


def _of_length(plan: Plan, progress: Progress, shares: Array, noise: float) -> Progress:
    """L² up to which noise is borne, no longer than rows are seen to be, and as normal ones are: Equation (36)."""
    least = plan.reach**2
    square = min(bearable(plan, progress), max(_longest(plan, shares, noise), plan.normal))
    state = progress.state._replace(role="main", longest=math.sqrt(max(square, least)))
    return progress._replace(state=state)
