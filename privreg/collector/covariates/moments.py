"""Estimation of a linear map that makes rows white, from privatised second-moment reports.

Each round estimates E u uᵀ, u = z/‖z‖, in the current coordinates z = W v, compares it with what white coordinates
would give, and changes W by what stands out from the noise: section 2 of docs/estimator.md. Reports in, public numbers
out.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.covariates import whitening
from privreg.collector.covariates.whitening import LIMITS, Cells, Shares, moment_diagonal, triangle
from privreg.collector.levels import SURE
from privreg.protocol.rounds import GROUPS

ANSWERING: Final = 0.05  # Share of people with something to tell below which it isn't believed
FLATTEST: Final = 1e-8  # Least eigenvalue, relative to the largest, of second moments that are inverted as they are
NORMAL_LOG: Final = -0.6351814227307391  # E log abs z of a standard normal z
FORGET: Final = 4.0
DRAWN_IN: Final = 18.0
"""Width of its bounds, in learned sd, to which a column is brought that was stretched too far: from there one round
tells a number that is mostly 0 and narrows it, and a normal one within bounds that are too wide by far gets most of its
stretch back. From 12 the latter's intervals held less often."""
MANY: Final = 6
"""Numbers from which on their correlations are distinguished from those with levels, and what is left of the way of
their locations and correlations. Of three locations, and of correlations of four and five numbers, intervals were the
same without it; beside 20 levels the correlations of eight numbers were taken for half of what they are."""


class Layout(NamedTuple):
    """Layout of the coordinates of v."""

    constant: bool  # True if the first is the constant 1
    response: bool  # True if the last is the response, or the offset of the linear predictor, see `Plan.added`


class Scatter(NamedTuple):
    """The whitening map so far, with what was learned beside it."""

    rows: Array  # W, lower triangular; with a constant its first row is (1, 0, …); shape (d, d)
    # Deviation from white that earlier rounds measured and W has not taken up, current coordinates; shape (d, d)
    memory: Array
    weight: float  # People that `memory` is worth
    shares: Shares  # Shares of the levels of factors
    answers: float = 0.0  # Sum of the reports' traces: 1 of each usable record
    asked: float = 0.0  # People who reported
    noise2: float = 0.0  # Variance of `answers`
    answering: float = 1.0  # Share of usable records that is assumed
    constant2: float = 1.0  # Square of the constant in the last reports
    drawn_in: bool = False  # True if columns were drawn in since
    moved: Array | None = None  # Change of locations and correlations by the last round, current coordinates

    @property
    def usable(self) -> tuple[float, float]:
        """Share of usable records by the reports, and its standard error."""
        return (self.answers / self.asked, math.sqrt(self.noise2) / self.asked) if self.asked else (1.0, math.inf)


def start_from(rows: Array, before: Scatter | None = None) -> Scatter:
    """Begin from a public map; shares of levels and of usable records are kept from `before`."""
    begun = Scatter(np.array(rows), np.zeros_like(rows), 0.0, whitening.unknown(()))
    kept = ("shares", "answers", "asked", "noise2", "answering") if before else ()
    return begun._replace(**{name: getattr(before, name) for name in kept})


def start_even(rows: Array, factors: Sequence[Cells]) -> Scatter:
    """Begin with equal shares of the levels of each factor."""
    shares = whitening.unknown(factors)
    even = whitening.whiten(factors, whitening.shrunk(factors, shares), rows) if factors else rows
    return start_from(even)._replace(shares=shares)


def learn(
    scatter: Scatter,
    total: Array,
    people: float,
    sd: float,
    layout: Layout,
    factors: Sequence[Cells] = (),
    *,
    constant2: float = 1.0,
    nonresponse: bool = False,
    together: int = 1,
) -> Scatter:
    """Map with one round of reports added: equations (5), (6) and (8) of docs/estimator.md.

    `total`, shape (d (d + 1) / 2,), is their sum, made at `asked(scatter.rows, constant2)`, `constant2` being the
    square of the constant that was asked with; `people` are their weights, summed, and `sd` is the noise sd per
    coordinate of a report. `factors` are columns made of factors alone, with places as in v. `nonresponse` is True if
    some records are known to be unusable; else that is assumed once it is significant. `together` is the largest number
    of rows in a report: its trace is the part that a person's rows fill.
    """
    d = scatter.rows.shape[0]
    white = moment_diagonal(d, layout.constant, constant2)
    # share of usable records: reports of u uᵀ have a trace of 1, those of noise alone one of 0
    answers = scatter.answers + float(np.sum(total[np.arange(1, d + 1).cumsum() - 1]))
    noise2 = scatter.noise2 + people * d * sd**2
    scatter = scatter._replace(answers=answers, asked=scatter.asked + people, noise2=noise2)
    share, error = scatter.usable
    fewest, few = min(ANSWERING, max(ANSWERING / together, 2.0 * error)), nonresponse or share < 1.0 - SURE * error
    scatter = scatter._replace(answering=min(max(share, fewest), 1.0) if few else 1.0)
    if scatter.answering < 1.0:
        total, sd = total / scatter.answering, sd / scatter.answering
    length2 = constant2 + d - 1.0
    stretch = (length2 + 2.0) / length2  # a small change of scatter shows in E u uᵀ shrunk by this
    size = np.sqrt(np.outer(white, white)) / stretch
    before = scatter.weight if constant2 == scatter.constant2 else 0.0  # which is of another scatter
    weight = before + people
    pooled = (before * size * scatter.memory + people * (_from_lower(total / people, d) - np.diag(white))) / weight
    left, shares, made_at = np.ones((d, d)), scatter.shares, asked(scatter.rows, constant2)
    space = whitening.certain(factors, made_at) if factors else None
    if space is not None:
        shares = whitening.update(factors, shares, space, space.project(total / people), people, sd, made_at)
        pooled = _from_lower(space.project(_to_lower(pooled)), d)
        left = _from_lower(_to_lower(left) * space.left(len(total)), d)
    deviation = pooled / size
    left[0, 1:], left[1:, 0] = left[0, 1:] / constant2, left[1:, 0] / constant2
    noise2_of = (sd**2 + 2.0 / length2**2) / weight * (stretch * length2) ** 2 * left
    believed = _believed(deviation, noise2_of, layout, scatter.moved, [int(j) for g in factors for j in g.columns])
    values, vectors = np.linalg.eigh(np.eye(d) + believed)
    values = np.clip(values, *LIMITS)
    inverse = np.linalg.inv(np.linalg.cholesky((vectors * values) @ vectors.T))
    rows = inverse @ scatter.rows
    if layout.constant:
        rows /= rows[0, 0]
    if space is not None:
        whitened = whitening.whiten(factors, whitening.shrunk(factors, shares), np.tril(rows))
        inverse = whitened @ np.linalg.inv(rows) @ inverse
        rows = whitened
    # what was measured far from here counts for less: the correction is linear only nearby
    weight /= 1.0 + FORGET * max(float(values[-1]) - 1.0, 1.0 / float(values[0]) - 1.0) ** 2
    memory = inverse @ (np.eye(d) + deviation) @ inverse.T - np.eye(d)
    way = inverse @ (believed - np.diag(np.diag(believed))) @ inverse.T
    scatter = scatter._replace(rows=np.tril(rows), memory=memory, weight=weight, shares=shares)
    return scatter._replace(constant2=constant2, drawn_in=False, moved=way)


def asked(rows: Array, constant2: float) -> Array:
    """Map at which moments are asked for: the constant is multiplied by the root of `constant2`.

    Unit vectors u of rows far out are the same however far they are. If most records are in a plane, all others would
    have to be infinitely far out for E u uᵀ to be white: more than a share k/d in a subspace of k dimensions is too
    many, and more than (k + ν − 1)/(d + ν − 1) beside a constant of square ν (Kent and Tyler 1991).
    """
    out = np.array(rows)
    out[0] *= math.sqrt(constant2)
    return out


def drawn_in(scatter: Scatter, columns: Sequence[int], widened: float = 1.0) -> Scatter:
    """Bring columns that were stretched too far back to a width of `DRAWN_IN` sd, which reports can correct.

    If most records share a value, each round by directions alone stretches a column further.
    """
    rows = np.array(scatter.rows)
    for j in columns:
        rows[j] *= DRAWN_IN * widened / span(scatter, j)
    return scatter._replace(rows=rows, memory=np.zeros_like(rows), weight=0.0, drawn_in=True)


def span(scatter: Scatter, column: int) -> float:
    """Width of a column's bounds, ±1, in learned sd."""
    return 2.0 / float(np.linalg.norm(np.linalg.inv(scatter.rows)[column, 1:]))


def sizes(scatter: Scatter, total: Array) -> Scatter:
    """Bring public covariates to a common scale, from `devices.public_sizes`.

    By their geometric mean, on which few people have little influence, however far out they are.
    """
    size = np.ones(scatter.rows.shape[0])
    for j in range(1, len(size)):
        log, count = float(total[j * (j + 1) // 2 + j]), float(total[j * (j + 1) // 2])
        size[j] = math.exp(log / count - NORMAL_LOG) if count > 0.0 else 1.0
    return start_from(scatter.rows / size[:, None])


def exact(scatter: Scatter, total: Array, gaps: Sequence[float]) -> Scatter:
    """Whiten public covariates of a common scale by their own second moments, from `devices.public_moments`.

    `gaps` are the distances of the two values of columns that have two, 0 for the others, in the order of the columns.
    """
    if not total[0] > 0.0:  # nobody's covariates could be used
        return scatter
    d, moments = len(scatter.rows), _from_lower(total / total[0], len(scatter.rows), 1.0)
    # a value that nobody has had yet is as rare as one that somebody had, rather than infinitely far out
    distances = np.diag(scatter.rows)[d - len(gaps) :] * np.array(gaps)
    moments[np.diag_indices(d)] += np.concatenate([np.zeros(d - len(gaps)), distances**2]) / (4.0 * total[0])
    values, vectors = np.linalg.eigh(moments)
    values = np.maximum(values, FLATTEST * values[-1])
    rows = np.tril(np.linalg.inv(np.linalg.cholesky((vectors * values) @ vectors.T)))
    return start_from(np.tril(rows / rows[0, 0] @ scatter.rows))


def _believed(
    deviation: Array, noise2: Array, layout: Layout, moved: Array | None = None, coded: Sequence[int] = ()
) -> Array:
    """Shrink the deviation group by group, positive-part James–Stein: equation (7) of docs/estimator.md.

    Groups: scales about their common mean, locations, correlations, the response's row, and correlations with levels
    (`coded` columns), which are mostly about 0, and many. Of many locations or correlations the part in the direction
    of their last move is shrunk by itself: rests on one side add up, which made the intercept's interval far too short.
    """
    d = deviation.shape[0]
    first, last = int(layout.constant), d - int(layout.response)
    out = np.diag(np.diag(deviation))
    scales, noise = np.diag(deviation)[first:last], np.diag(noise2)[first:last]
    if scales.size:
        middle = float(np.mean(scales))
        about = noise * ((scales.size - 1) / scales.size if scales.size > 1 else 1.0)  # about their own mean
        believed = middle + (scales - middle) * whitening.keep(scales - middle, about)
        out[np.arange(first, last), np.arange(first, last)] = believed
    i, j = np.tril_indices(d, -1)
    group = np.where((j == 0) & layout.constant, 1, 3)
    if layout.response:
        group = np.where(i == d - 1, 2, group)
    of_levels = np.isin(np.arange(d), coded)
    if np.sum(~of_levels[first:last]) >= MANY:
        group = np.where((group == 3) & (of_levels[i] | of_levels[j]), 4, group)
    for g in np.unique(group):
        at = i[group == g], j[group == g]
        # off-diagonal entries of a report carry √2, so their noise variance is half
        part, noise = deviation[at], noise2[at] / 2.0
        many = len(part) >= {1: MANY, 3: MANY * (MANY - 1) // 2}.get(int(g), math.inf)
        if many and moved is not None and moved[at].any():
            along = moved[at] / np.linalg.norm(moved[at])
            onward = float(part @ along)
            out[at] = max(1.0 - float(noise @ along**2) / max(onward**2, 1e-300), 0.0) * onward * along
            part = part - onward * along
        out[at] += part * whitening.keep(part, noise)
    return np.tril(out) + np.tril(out, -1).T


def _from_lower(entries: Array, d: int, times: float = math.sqrt(2.0)) -> Array:
    """Symmetric matrix of the entries of its lower triangle, those off the diagonal so many `times` too large."""
    out, at = np.zeros((d, d)), triangle(d)
    out[at] = np.where(at[0] == at[1], entries, entries / times)
    return out + np.tril(out, -1).T


def _to_lower(matrix: Array) -> Array:
    at = triangle(len(matrix))
    return np.asarray(matrix[at] * np.where(at[0] == at[1], 1.0, math.sqrt(2.0)))


# --- shares of records, by reports of 0 or 1: above thresholds, which locate columns; beyond bounds, which clamp them -

# Without declared bounds a record reports of each column whether it is above a threshold, another one in each group of
# a round. The first are spread over all orders of magnitude, the next over values that earlier reports leave likely.
# Columns are taken to be normal about there, some records to answer at random. Of bounded columns a few records report
# which were clamped: 1 if so, any other 0, a record without a usable value included.

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


def search(m: int) -> Search:
    """Thresholds of all orders of magnitude."""
    first, none = np.array([*(-v for v in FIRST), *FIRST[::-1]]), np.zeros((0, m))
    thresholds, unsure = np.repeat(first[:, None], m, axis=1), np.full((2, m), np.inf)
    return Search(thresholds, none, none, np.zeros(0), np.zeros(m), np.ones(m), unsure)


def narrowed(search: Search, total: Array, weight: Array, sd: float) -> Search:
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
