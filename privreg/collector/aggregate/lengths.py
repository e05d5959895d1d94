"""Noise that rounds bear: shares of the budget if all rows answer each, and the length L of rows that count whole."""

import math
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.optimize import brentq
from scipy.special import betaincinv, gammainccinv

from privreg.base.arrays import Array, Flags
from privreg.collector.aggregate.plan import CHECKED, LARGEST, MOST_MU, WIDER, Plan, Progress
from privreg.collector.aggregate.report import sd, unstacked
from privreg.collector.estimation.coordinates import SHARP

CHEAP: Final = 0.01  # Share of μ² of an early round at least: all of them cost main rounds some 6% of noise variance
WASTED: Final = 0.05  # Share of an estimate's variance that a start's noise may cost
NEAR: Final = 0.3  # Thresholds by which that noise may move the first main round
SURE: Final = 3.7  # Sds of noise beyond which one of 40 bins has somebody in it: at 1% for all of them
SHIFT: Final = 0.3  # Standard errors by which leaving out rows that aren't seen may move an estimate, about
LEFT: Final = 0.1  # Standard errors that a step may leave
AGAIN: Final = 12  # Main rounds at most
EXACT: Final = 1e-8  # Thresholds that the last step is shorter than where there is no noise
STEPS: Final = 64  # Main rounds at most then
TAILS: Final = 1.0 / (1.0 + np.exp(np.arange(-15.9, 16.0, 0.2)))  # Tail probabilities at even log-odds
NORMAL: Final = 50.0  # Sds from its bounds at which a beta variable is as good as normal
UNSEEN: Final = 0.1
"""Share of rows in one bin that its noise hides, times the root of their number: from here on rows may be longer than
those that are seen."""
MOVED: Final = 0.4
"""Part of (48) by which long rows move coefficients, root mean square over 42 data sets: `benchmarks.sums --shifts`."""
CLEAR: Final = 0.25
"""Edge of slopes' noise over the slope of a direction that (35) shortens, at most; twice that where L is chosen."""


def slope_and_square(plan: Plan, progress: Progress) -> tuple[float, float]:
    """Mean slope and mean squared score of a record, by the mean of the response if they follow from it."""
    return progress.expected or (plan.rules.slope, plan.square)


def paid(plan: Plan, progress: Progress) -> Progress:
    """Give the present round its budget; never more than is left, in decimals."""
    if not plan.noise.again or progress.state.role == "over":
        return progress
    mu = math.floor(plan.mu * math.sqrt(share(plan, progress)) * 1e6) / 1e6
    return progress._replace(state=progress.state._replace(mu=mu), spent=progress.spent + (mu / plan.mu) ** 2)


def share(plan: Plan, progress: Progress) -> float:
    """Share of μ² of the present round: Equation (33). Of a main round half of what is left, or, the last, the rest."""
    size, rules, n, state = plan.d + plan.rules.blocks, plan.rules, plan.mu * plan.rows, progress.state
    (slope, square), adders, role = slope_and_square(plan, progress), plan.noise.adders, state.role
    match role:
        case "clamping":
            asked = CHECKED**2 * (plan.bounded + 1.0) * adders / (2.0 * n**2)
        case "location":
            asked = 4.0 * (plan.located + 0.5 * bool(plan.persons)) * adders / (0.25 * SHARP * n) ** 2
            if plan.followed:
                asked = max(asked, (4.0 * plan.located + 3.0) * adders * (plan.apiece / n) ** 2)
        case "moments":
            asked = 4.0 * size**3 * adders / (SHARP * n) ** 2
        case "directions" | "lengths":
            asked = 4.0 * max(plan.d, 4.0 * SURE**2) * plan.rows * adders / (SHIFT * n) ** 2
        case "approach":
            top, reach = state.top(rules), state.reach(plan)
            reach2 = (state.span * reach) ** 2
            moved = (plan.delta2 * adders) ** 2 * top**2 * reach2 * reach**4 * plan.size * plan.rows
            moved /= 2.0 * WASTED * rules.shares[0] * rules.shares[1] * slope**2 * square * n**4
            near = plan.delta2 * adders * reach2 * plan.size / (NEAR**2 * rules.shares[0] * slope**2 * n**2)
            asked, role = max(moved, near), "several"
        case "measures":
            return plan.measured / plan.rows
        case _:
            rest = 1.0 - progress.spent - plan.measured / plan.rows
            return rest if progress.last else rest / (2.0 if plan.mu < MOST_MU else STEPS)
    return min(max(asked, CHEAP), LARGEST[role] * (1.0 - plan.measured / plan.rows))


def slope_edge(plan: Plan, progress: Progress, square: float) -> float:
    """Edge of the noise's eigenvalues, relative to the mean slope, if rows of squared length `square` count whole."""
    rules, slope = plan.rules, slope_and_square(plan, progress)[0]
    noise = math.sqrt(plan.delta2 * plan.noise.adders / rules.shares[1]) * progress.state.top(rules) * square
    return math.sqrt(2.0 * plan.size) * noise / (slope * plan.mu * plan.rows)


def bearable(plan: Plan, progress: Progress) -> tuple[float, float]:
    """L² at which scores' noise is a quarter of their sampling, and at most where that of slopes is a fifth: (36)."""
    noise = plan.delta2 * plan.noise.adders * progress.state.span**2 / plan.rules.shares[0]
    square = 0.25 * slope_and_square(plan, progress)[1] * plan.mu**2 * plan.rows / noise
    return square, min(square, SHARP / slope_edge(plan, progress, 1.0))


def advance(plan: Plan, progress: Progress, mean: Array, count: int) -> Progress:
    """Take in shares by length and direction; first a metric of directions, then the length L: Equation (35)."""
    state, d = progress.state, plan.d
    noise, bins = sd(plan, state) / count, len(plan.ends)
    if state.role == "lengths":  # long rows were seen, though perhaps not the longest
        unseen = SURE * noise * math.sqrt(plan.rows) > UNSEEN
        return _of_length(plan, progress, mean, noise, bearable(plan, progress)[1] / 2.0 * unseen)
    mean, noise = mean * math.sqrt(2.0), noise * math.sqrt(2.0)
    values, vectors = np.linalg.eigh(unstacked(mean[bins:]))
    found = values > math.sqrt(2.0 * d) * noise
    if not found.any():
        return _of_length(plan, progress, mean[:bins], noise)
    longest = max(float(plan.ends[_seen(mean[:bins], noise)].max(initial=0.0)), plan.normal)
    part = np.where(found, values, 0.0) / values[found].sum()
    squares = plan.normal / d + (longest - plan.normal) * part  # squared reach by direction
    wide = np.sqrt(squares / squares.min())
    square = min(bearable(plan, progress)[1], longest)
    most = CLEAR / slope_edge(plan, progress, square)  # what is left of a direction's slope is clear of its noise
    by = np.sqrt(np.clip(wide, 1.0, max(most, 1.0)))
    turn = (vectors / by) @ vectors.T
    known, wider = progress.known, np.outer(np.diag(turn) ** 2, np.diag(turn) ** 2)
    progress = progress._replace(state=state._replace(role="lengths")).turned(turn, known.mean, known.variances * wider)
    usual = (~found).sum() / plan.normal  # other directions have what normal rows have, of those that are long at least
    pull = (turn @ vectors * np.where(found, (1.0 - usual) * part, 1.0 / plan.normal)) @ (turn @ vectors).T
    return progress._replace(pull=pull / float(np.trace(pull)), shortest=float(by.max()) ** -2)


def _box(plan: Plan, rows: Array) -> float:
    """Squared length that no row is longer than, by the bounds of its columns."""
    middle, half = 0.5 * (plan.lows + plan.highs), 0.5 * (plan.highs - plan.lows)
    return float(np.square(np.abs(rows @ middle) + np.abs(rows) @ half).sum())


def borne(plan: Plan, progress: Progress, second: Array, people: int, last: int) -> float:
    """Length L of a round of scores of so many people before which nobody looked at lengths: Equation (36).

    Scores' noise in the main round, of `last` people, and what rows beyond L move an estimate by (15) are least in sum,
    if columns are as their `second` moments and bounds tell, see `missed`.
    """
    most = min(SHARP / slope_edge(plan._replace(rows=last), progress, 1.0), _box(plan, progress.state.rows))
    most, least = max(most, plan.reach**2), bearable(plan, progress)[1] / 2.0
    tried = np.geomspace(max(min(least, most), plan.reach**2), most, 40)
    score = slope_and_square(plan, progress)[1]
    noise = plan.delta2 * plan.noise.adders * tried / (plan.rules.shares[0] * plan.mu**2 * score)
    bias = last * (MOVED * missed(plan, second, progress.state.rows, tried).max(axis=1)) ** 2
    square = float(tried[(noise / last + bias).argmin()])
    return math.sqrt(max(min(square, 4.0 * bearable(plan._replace(rows=people), progress)[1]), plan.reach**2))


def missed(plan: Plan, second: Array, rows: Array, squares: Array) -> Array:
    """Mean score that rows longer than L may lack along each line, see `lines`, in sds of both: Equation (48).

    Of rounds with these `rows` and each of `squares`, L²; the last one is along any direction of a normal variable;
    shape (squares, lines + 1). `second`, shape (d, d), are second moments of columns.
    """
    part, whole, out = 0.2 * TAILS * (1.0 - TAILS), float(np.trace(rows @ second @ rows.T)) / second[0, 0], []
    # squared length, at `TAILS`, of a normal row of d numbers but one, relative to its mean
    others = np.asarray(1.0 + (2.0 * gammainccinv(0.5 * (plan.d - 2), TAILS) if plan.d > 2 else 0.0 * TAILS))
    along, ends = lines(plan, second, rows)
    sizes = [*np.square(along).sum(axis=1), whole / plan.d]
    for size, (near, far) in zip(sizes, [*ends.tolist(), (NORMAL, math.inf)], strict=True):
        kinds, rest = [0.0 * squares], (whole - size) / max(plan.d - 1, 1) * others
        for one in _far_off(near, far):
            length, weights = size * one[:, None] ** 2 + rest, np.outer(part * np.abs(one), part)
            kinds.append(np.array([(weights * np.maximum(1.0 - q / length, 0.0)).sum() for q in squares]))
        out.append(np.max(kinds, axis=0))
    return np.array(out).T


@lru_cache(1024)
def _far_off(near: float, far: float) -> list[Array]:
    """Distances of a number from its mean, in sds, at `TAILS`, of each kind that ends so `near` and `far` may have."""
    (least, end), kinds = np.clip([near, far], 0.01, NORMAL).tolist(), list[Array]()
    if near > 0.0:
        most = max(least * end - 1.0, 1e-3) / (least + end)  # gamma where the farther bound is far off
        kinds.append(end - (least + end) * betaincinv(most * end, most * least, TAILS))
    return [*kinds, heavy(end)] if 2.0 < far < math.inf else kinds


def lines(plan: Plan, second: Array, rows: Array) -> tuple[Array, Array]:
    """Rows z = `rows` @ x one sd off, and their ends in sds: the nearer one, 0 if there is none, and the farther one.

    First of each number alone, where other columns are as they are, then of each of the plan's corners, from the mean
    to it, where they are as they go with its columns; shapes (k, d) and (k, 2).
    """
    second = second / second[0, 0]
    mean, spread, j = second[0], second - np.outer(second[0], second[0]), plan.numbers
    sd = np.maximum(np.diag(np.linalg.inv(second)), 1e-12) ** -0.5
    ends = np.sort(np.array([mean - plan.lows, plan.highs - mean])[:, j].T / sd[j, None], axis=1)
    along = [*(rows * sd).T[j]]
    for corner in plan.corners:
        s = np.flatnonzero(~np.isnan(corner))
        by = np.linalg.solve(spread[np.ix_(s, s)], corner[s] - mean[s])
        far = math.sqrt(max(float(by @ (corner[s] - mean[s])), 1e-24))
        along.append(rows @ spread[:, s] @ by / far)
        ends = np.vstack([ends, [0.0, far]])
    return np.array(along).reshape(-1, plan.d), ends


@lru_cache(1024)
def heavy(far: float) -> Array:
    """Distances, at `TAILS`, of a number whose distance is Cauchy's up to that of its farther bound, both in sds."""
    scale = brentq(lambda b: b * (far / math.atan(far / b) - b) - 1.0, 1e-9, far)
    return np.asarray(scale * np.tan((1.0 - TAILS) * math.atan(far / scale)))


def _columns(second: Array, rows: Array) -> tuple[Array, Array, Array]:
    """Means and sds of columns, and z of rows an sd of each from the mean, the others as they go with it; (d, d)."""
    second = second / second[0, 0]
    spread = second - np.outer(second[0], second[0])
    sd = np.sqrt(np.maximum(np.diag(spread), 1e-12))
    return second[0], sd, np.asarray(rows @ (spread / sd))


def far(progress: Progress) -> Array:
    """Part of long rows' squared lengths along each column but the constant, with what goes with it; shape (d - 1,)."""
    assert progress.pull is not None
    by = _columns(progress.second, progress.state.rows)[2][:, 1:]
    return np.asarray(np.einsum("kj,kl,lj->j", by, progress.pull, by) / np.square(by).sum(axis=0))


def means(progress: Progress) -> Array:
    """Estimated means of columns, shape (d,)."""
    return np.asarray(progress.second[0] / progress.second[0, 0])


def skewed(plan: Plan, second: Array, rows: Array, reach: float) -> Array:
    """Rows that bend a score as a level's row does: of numbers, as long as their third moment says; shape (k, d).

    It is that of beta variables between their bounds; of two values, a level's.
    """
    mean, sd, by = _columns(second, rows)
    low, high = np.maximum(mean - plan.lows, 1e-3) / sd, np.maximum(plan.highs - mean, 1e-3) / sd
    third = 2.0 * (high - low) / (1.0 + np.maximum(low * high, 1.0))
    return np.asarray((by * np.clip(third, -reach, reach)).T[plan.numbers])


def _seen(shares: Array, noise: float) -> Flags:
    """Bins with a share, alone or with a neighbour, that stands out of its noise."""
    two = (shares[1:] + shares[:-1]) > SURE * math.sqrt(2.0) * noise
    return np.asarray((shares > SURE * noise) | np.append(two, False) | np.append(False, two), dtype=np.bool_)


def _of_length(plan: Plan, progress: Progress, shares: Array, noise: float, least: float = 0.0) -> Progress:
    """L² up to which noise is bearable, at most that of observed rows, at least that of normal ones: Equation (36).

    It is longer where noise and what rows beyond it move an estimate by (15) are less in sum.
    """
    (score, most), bounds = bearable(plan, progress), _box(plan, progress.state.rows)
    seen = np.flatnonzero(_seen(shares, noise) & (plan.ends < WIDER * bounds))
    longest = float(plan.ends[seen].max(initial=0.0))
    square = max(min(most, bounds, max(longest, plan.normal, least)), plan.reach**2)
    middle, shares = plan.ends[seen] / math.sqrt(WIDER), np.maximum(shares[seen], 0.0)

    def lost(square: float) -> tuple[float, float]:
        """Share of rows that are weighted down, and by how many standard errors scores that go with them may move."""
        part = shares * np.maximum(1.0 - square / middle, 0.0)
        return float(shares[middle > square].sum()), math.sqrt(plan.rows) * float(part @ np.sqrt(middle / plan.d))

    edge = slope_edge(plan, progress, 1.0)
    top = min(bounds, max(SHARP / edge, 4.0 * most), 2.0 * CLEAR * progress.shortest / edge)
    tried = np.geomspace(square, max(top, square), 40)
    square = float(tried[np.argmin([0.25 * q / score + (MOVED * lost(q)[1]) ** 2 for q in tried])])
    state = progress.state._replace(role="main", longest=math.sqrt(square))
    hidden, (share, moved) = SURE * noise * math.sqrt(bounds), lost(square)
    return progress._replace(state=state, lost=(share, moved, moved * math.sqrt(plan.d / plan.rows) + hidden))
