"""Lengths of rows and directions of long ones: the length L up to which rows count whole, and a metric."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import betaincinv, gammainccinv, ndtri

from privreg.collector.aggregate.budget import SURE, bearable, expected, slope_edge
from privreg.collector.aggregate.lattice import sd
from privreg.collector.aggregate.plan import WIDER, turned
from privreg.collector.aggregate.report import unstacked

if TYPE_CHECKING:
    from privreg.base.arrays import Array, Flags
    from privreg.collector.aggregate.plan import Plan, Progress

UNSEEN: Final = 0.1
"""Share of rows in one bin that its noise hides, times the root of their number: from here on rows may be longer than
those that are seen."""

TAILS: Final = np.arange(0.05, 16.0, 0.1)  # -log of tail probabilities at which made-up rows are, e^−TAILS/10 of each

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


def _lasting(plan: Plan, progress: Progress, times: float = 0.5) -> float:
    """L² at which scores' noise is an eighth of their sampling."""
    return max(min(times * bearable(plan, progress), _box(plan, progress.state.rows)), plan.reach**2)


def borne(plan: Plan, progress: Progress, second: Array, people: int, last: int) -> float:
    """Length L of a round of scores of so many people before which nobody looked at lengths: Equation (36).

    Scores' noise in the main round, of as many people as `last`, is an eighth of their sampling, or as much of it as
    keeps rows beyond L from moving an estimate by its standard error, if columns are as their `second` moments and
    bounds tell: Equation (48). Numbers for which nothing borne is enough are marked.
    """
    least, most = _lasting(plan, progress, 0.5), _lasting(plan, progress, 4.0)
    tried = np.geomspace(least, most, 40)
    by = missed(plan, second, progress.state.rows, tried)
    noise = plan.apart * plan.noise.adders * tried / (plan.rules.shares[0] * plan.mu**2 * expected(plan, progress)[1])
    enough = last * by**2 <= 1.0 + noise[:, None] / last
    enough[:, :-1] |= _hidden(plan, second, most)[0]
    square = float(tried[(enough | ~enough[-1]).all(axis=1).argmax()])
    return math.sqrt(max(min(square, 4.0 * bearable(plan._replace(rows=people), progress)), plan.reach**2))


def missed(plan: Plan, second: Array, rows: Array, squares: Array) -> Array:
    """Mean score along a number that rows longer than L may lack, in sds of both: Equation (48).

    For each of `squares`, L² of a round with these `rows`, and each number, then one that is normal; shape (squares,
    numbers + 1). `second`, shape (d, d), are second moments of columns.
    """
    second = second / second[0, 0]
    mean = second[0]
    spread = second - np.outer(mean, mean)
    sd = np.sqrt(np.maximum(np.diag(spread), 1e-12))
    turned = rows @ second @ rows.T
    one = np.square(beside(second, rows)).sum(axis=0)
    part, out = np.exp(-TAILS), []
    weights = np.outer(part, part) * (TAILS[1] - TAILS[0]) ** 2
    chi = 1.0 + (2.0 * gammainccinv(0.5 * (plan.d - 2), part) if plan.d > 2 else 0.0 * part)
    for j in (*plan.numbers, 0):
        low, high = mean[j] - plan.lows[j], plan.highs[j] - mean[j]
        near, far = (max(side / sd[j], 0.01) for side in sorted((low, high))) if j else (math.inf, math.inf)
        size = float(one[j]) if j else float(np.trace(turned)) / plan.d
        along = _upper(near, far, part)
        length = size * along[:, None] ** 2 + (float(np.trace(turned)) - size) / max(plan.d - 1, 1) * chi
        each = weights * np.abs(along)[:, None]
        out.append([float((each * np.maximum(1.0 - q / length, 0.0)).sum()) for q in squares])
    return np.array(out).T


def beside(second: Array, rows: Array) -> Array:
    """Rows at one sd of a column from the mean, other columns as they go with it, less the mean row; shape (d, d)."""
    second = second / second[0, 0]
    spread = second - np.outer(second[0], second[0])
    return np.asarray(rows @ (spread / np.sqrt(np.maximum(np.diag(spread), 1e-12))))


def skewed(plan: Plan, rows: Array, second: Array, reach: float) -> Array:
    """Rows that bend a score as a level's row does: of numbers, as long as their third moment says; shape (k, d).

    A beta variable with the number's mean, variance and bounds has that skewness; of two values it is a level. `second`
    are second moments of columns, shape (d, d).
    """
    mean, ranges = second[0] / second[0, 0], np.maximum(plan.highs - plan.lows, 1e-12)
    variance = np.maximum(np.diag(second) / second[0, 0] - mean**2, 1e-12)
    part = np.clip((mean - plan.lows) / ranges, 1e-3, 1.0 - 1e-3)
    size = np.maximum(part * (1.0 - part) * ranges**2 / variance - 1.0, 0.0)
    third = 2.0 * (1.0 - 2.0 * part) * np.sqrt(size + 1.0) / ((size + 2.0) * np.sqrt(part * (1.0 - part)))
    return np.asarray((beside(second, rows) * np.clip(third, -reach, reach)).T[plan.numbers])


def _upper(near: float, far: float, part: Array) -> Array:
    """Values that a `part` exceeds, in sds from the mean, of a beta variable this far from its bounds; far: normal."""
    if not near < 50.0:
        return np.asarray(-ndtri(part))
    sizes = max(near * far - 1.0, 1e-3) / (near + far) * np.array([far, near])
    return np.asarray(far - (near + far) * betaincinv(*sizes, part))


def few(plan: Plan, progress: Progress) -> Array:
    """Numbers whose variance is in part surely that of rows beyond L, as distances from a bound; shape (k, d)."""
    rows = progress.seen[-1].state.rows
    x = np.linalg.inv(rows)
    hidden, bound = _hidden(plan, x @ progress.known.mean @ x.T, _lasting(plan, progress, 4.0))
    return np.asarray(x[plan.numbers[hidden]] - np.outer(bound[plan.numbers[hidden]], x[0]))


def _hidden(plan: Plan, second: Array, square: float) -> tuple[Flags, Array]:
    """Whether the variance of a number is in part surely that of rows longer than L, and the nearer bound of a column.

    By mean and sd, and that bound, at most a part (a + t) min(a, 1/2) of it is of rows within t sds beyond the mean:
    Equation (48). `second` are second moments of columns, `square` is L²; shapes (numbers,) and (d,).
    """
    mean = second[0] / second[0, 0]
    sd = np.sqrt(np.maximum(np.diag(second) / second[0, 0] - mean**2, 0.0))
    near = np.maximum(np.minimum(mean - plan.lows, plan.highs - mean), 0.0)
    hidden = (near + sd * math.sqrt(square - 1.0)) * np.minimum(near, 0.5 * sd) < sd**2
    return hidden[plan.numbers], np.where(mean - plan.lows < plan.highs - mean, plan.lows, plan.highs)


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
