"""Coordinates of the scores, from reports on moments, and the way back. Reports and public numbers only."""

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import betaincinv, ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.covariates import moments, whitening
from privreg.collector.covariates.moments import Scatter
from privreg.collector.covariates.whitening import WIDE, Cells, even_points, made_white
from privreg.collector.estimation import reference
from privreg.collector.estimation.reference import Reference, reference_of
from privreg.collector.plan import End, Plan, Progress, longest_row
from privreg.protocol.rounds import State

AT_BOUND: Final = 0.5
"""Distance of a number's mean from a bound, in learned sd, below which most records are taken to be there: it is 1 for
an exponential one, a third for a number that 15% of the records have, else 0. Offsets along it are multiplied by this.
Its curvature is that of the few other records, farther out than the reference model can know, whose predictors offsets
moved by several c. For a number that 5% of 200,000 records have, else 0, its coefficient's sd was 2.2 times as large at
μ = 1 and 1.4 times at μ = 3, and a sixth of the intervals didn't hold. Offsets are as much shorter, too, where scores
of residuals have no weights: the estimand is that of no offsets. With exponential errors (200,000 records, μ = 5)
constants of medians and Huber fits were off by 1.0 and 0.6 standard errors with full length, with half by 0.3 and 0.1;
40 fits each."""
FAR: Final = 35.0
"""Product of a number's distances from its bounds, in sds from its mean, less 1, at which a few far out may have half
of what they may have of its variance, if its mean is in the middle; elsewhere it is as much smaller as the nearer bound
is nearer than the other one. It is 0 where all are at the bounds, 2 for a uniform number, 15 for a normal one within 4
sds, 4 for a number of illnesses of 0 to 6 with mean .9: without the part of its skewness, the intervals of its slope in
"counts, skewed" covered 90% (200,000 records, μ = 3)."""
HALF: Final = np.log([0.5])  # Linear predictor of the first mean count, relative to that of the largest count
LEAST: Final = 1e-3  # Share of records who distinguish factors that go together, at least: noise may make it none
OF_ONE: Final = 0.25  # Part of a sum's spread by one column from which on the sum is about that column
SLOPED: Final = 0.7  # Part of the usual length at which slopes by a level show
SHARP: Final = 0.2  # Sd of a variance, relative to its size, that reports beside a larger constant may have
FULL: Final = 8.0
"""Square of that constant, relative to the columns' number, at most: of families whose curvature moves, always but with
splines. Intervals of those, far out in few records each, were then .56 times as long, and covered 81%
(`benchmarks.formulas`)."""
APART: Final = 3.0  # Square of a constant from which on what is reported beside it differs from directions alone
INSIDE: Final = 0.05  # Part by which a covariate's mean and sd fall short, at least, of the most that bounds allow
_GRID: Final = np.linspace(-4.0, 4.0, 129)


def placed(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """Coordinates of the scores, and the pilot's first state, from the response's row of W; see docs/estimator.md."""
    rules, d, constant, learned = plan.rules, plan.d, plan.layout.constant, progress.scatter
    rows = whitening.without_constant(learned.rows, d) if plan.extra else learned.rows
    gaps, cells = (0.0,) * d if plan.label else plan.columns.gaps, plan.columns.cells
    near, shares = whitening.bring_in(rows, gaps, constant, learned.constant2)
    scatter = moments.start_from(near, learned)
    whitener = np.ascontiguousarray(near[:d, :d] if plan.whitened else whitening.scaled(near[:d, :d], constant))
    scale, theta, by_moments = 1.0, np.zeros(plan.size), plan.layout.response and plan.added is None
    if by_moments:
        last = near[d]
        theta = np.asarray(-np.linalg.solve(near[:d, :d].T, last[:d] / last[d]))
        if not plan.whitened:
            theta = np.asarray(np.linalg.solve(whitener.T, near[:d, :d].T @ theta))
        scale = 1.0 / last[d]
        theta[0] += rules.centre * scale if constant else 0.0
    elif rules.track and not rules.varying:  # the response was scaled by itself
        theta[0] += rules.centre if constant else 0.0
    tied = np.zeros(d, dtype=np.bool_)  # columns tied to other factors' levels
    if cells:  # shares of the rarer values
        known, here = whitening.shrunk(cells, learned.shares), slice(plan.extra, plan.extra + d)
        rarest = whitening.rarer(cells, known, d)
        shares = np.where(np.isnan(rarest), shares, rarest)
        n = len(learned.rows)  # mean squares of the coordinates of u = z/‖z‖ by the rounds' reports
        squares = whitening.moment_diagonal(n, True, learned.constant2) * (1.0 + np.diag(learned.memory) * n / (n + 2))
        tied = whitening.tied(plan.factors, known, learned.rows)[here]
        shares[tied] = np.clip(squares[here][tied], LEAST, 0.5)
    points = _points(plan, scatter, shares, rows, near) if plan.covariates is None else plan.covariates @ whitener.T
    added = None if plan.added is None else _added(points, whitener, near[d], plan.added)
    if rules.scoring.counts and constant:
        theta[0] = math.log(0.5 * rules.shape.a) - (0.0 if added is None else math.log(np.mean(np.exp(added))))
    known_theta = theta
    if plan.theta is not None:
        guess = np.array(plan.theta) / state.y_scale
        if constant:
            guess[0] -= state.y_centre / state.y_scale
        theta = np.asarray(np.linalg.solve(whitener.T, guess.reshape(-1, d).T).T.reshape(-1))
    before = known_theta if by_moments else theta  # else moments say nothing of coefficients
    prior = np.full(plan.size + 1, 9.0 if rules.varying else 16.0 * scale**2)
    prior[-1] = 2.0
    c = plan.c / state.y_scale if not rules.track and not rules.varying else rules.ratio * scale
    if rules.scoring.pearson:
        c = reference.threshold_of_counts(rules, HALF + np.log(rules.shape.a), 1.0)
    if plan.like is not None:  # another map of the same covariates; what was learned of these stays
        back = np.linalg.solve(whitener.T, plan.like[0].T)  # z of the earlier map are z back, shape (d, d)
        points, whitener = points @ back, plan.like[0]
        theta, before = (np.linalg.solve(back, t.reshape(-1, d).T).T.reshape(-1) for t in (theta, before))
    fitted = reference.Fitted(theta, scale if not rules.varying else 1.0, np.diag(prior))
    state = state._replace(rows=whitener, theta=theta, c=c, longest=longest_row(plan.extremes, whitener))
    # a guess that is far off must not hold the pilot back
    progress = progress._replace(scatter=scatter, fitted=fitted, prior=fitted._replace(theta=before), points=points)
    return progress._replace(added=added, shares=shares, tied=tied, state=state), state


def _points(plan: Plan, scatter: Scatter, shares: Array, rows: Array, near: Array) -> Array:
    """Points that stand for records, coordinates of the scores, shape (m, d): equation (10) of docs/estimator.md."""
    d, constant, whitener = plan.d, plan.layout.constant, near[: plan.d, : plan.d]
    if d == int(constant):
        return np.ones((1 if plan.added is None else len(lattice(1)), 1))
    if plan.whitened:
        stretch = (np.diag(near) / np.diag(rows))[:d]
        known = whitening.shrunk(plan.columns.cells, scatter.shares) if plan.columns.cells else []
        points, _ = whitening.stand_ins(
            plan.columns.cells, known, whitener, stretch, np.nan_to_num(shares), constant=constant
        )
    else:
        points = lattice(d - int(constant)) @ np.linalg.cholesky(whitening.correlation(whitener, constant)).T
        points = np.column_stack([np.ones((len(points), int(constant))), points])
        whitener = whitening.scaled(whitener, constant)
    points = bounded(points, whitener, _numbers(plan, shares), constant=constant)
    if not plan.columns.made:
        return points
    rows = whitener if plan.columns.mix is None else whitener @ plan.columns.mix
    v = points @ np.linalg.inv(rows).T
    moved = np.zeros_like(v)
    for made in plan.columns.made:
        product = made.parts(v) @ made.by
        moved[:, made.column] = product - v[:, made.column]
        v[:, made.column] = product
    return np.asarray(points + moved @ rows.T)


def _added(points: Array, whitener: Array, last: Array, limits: tuple[float, float]) -> Array:
    """Offset of the linear predictor of each point, shape (m,): normal about its regression on covariates.

    `last` is its row of W, shape (d + 1,): a regression's coefficients, over the negative residual sd, and one over
    that. `limits` are public ones.
    """
    rest = np.random.Generator(np.random.PCG64(41)).permutation(ndtri((np.arange(len(points)) + 0.5) / len(points)))
    rest = rest - points @ np.linalg.lstsq(points, rest, rcond=None)[0]
    d, x = len(whitener), points @ np.linalg.inv(whitener).T
    return np.asarray(np.clip((rest / np.std(rest) - x @ last[:d]) / last[d], *limits))


@lru_cache(maxsize=8)
def lattice(slopes: int) -> Array:
    """Points that stand for a standard normal vector, of exact moments, shape (2048, `slopes`); to be read only."""
    out = made_white(np.asarray(ndtri(even_points(slopes))))
    out.setflags(write=False)
    return out


def bounded(points: Array, rows: Array, columns: Iterable[int], *, constant: bool) -> Array:
    """Points with beta covariates within their bounds, from normal ones: equation (10) of docs/estimator.md.

    With normal ones, which go beyond the bounds, intervals were too short (`benchmarks.validity`). `points`, shape (m,
    d), are whitened covariates; those that come back have the same mean and second moments, ranks of the covariates
    nearly kept, and are the same where none is past a bound. `rows`, shape (d, d), is the map W that whitens, lower
    triangular, and `columns` those that lie within ±1 before it. `constant` says whether the first coordinate is 1.
    """
    first = int(constant)
    x = points @ np.linalg.inv(rows).T
    mean, sd = x.mean(axis=0), x.std(axis=0)
    mean = np.clip(mean, INSIDE - 1.0, 1.0 - INSIDE)
    if not (near := [j for j in columns if np.abs(x[:, j]).max() > 1.0]):
        return points
    for j in near:
        share = min(sd[j] ** 2 / (1.0 - mean[j] ** 2), (1.0 - INSIDE) ** 2)
        a, b = (0.5 * (1.0 + way * mean[j]) * (1.0 / share - 1.0) for way in (1.0, -1.0))
        # quantiles between those of a grid: each takes as long as a point of the reference model for a whole round
        x[:, j] = np.interp((x[:, j] - x[:, j].mean()) / sd[j], _GRID, 2.0 * betaincinv(a, b, ndtr(_GRID)) - 1.0)
    z, size = x @ rows.T, np.sqrt(np.mean(points**2, axis=0))
    z[:, first:] = made_white(z[:, first:] / size[first:], centred=constant) * size[first:]
    return np.asarray(z)


def _numbers(plan: Plan, shares: Array) -> list[int]:
    """Columns of numbers within ±1; `shares` are those of the rarer of two values, NaN of others."""
    other = {int(j) for g in plan.columns.cells for j in g.columns} | set(plan.unscaled)
    first = int(plan.layout.constant)
    return [j for j in range(first, plan.d) if j not in other and not plan.columns.gaps[j] and np.isnan(shares[j])]


def at_a_bound(plan: Plan, progress: Progress, state: State) -> list[int]:
    """Columns of numbers that are at or near one of their bounds for most records, by their learned mean and sd."""
    if progress.points is None or progress.shares is None or plan.blocks > 1:
        return []
    x = progress.points @ np.linalg.inv(state.rows[: plan.d, : plan.d]).T
    near = 1.0 - np.abs(x.mean(axis=0)) < AT_BOUND * x.std(axis=0)
    return [j for j in _numbers(plan, progress.shares) if near[j]]


def unbound(plan: Plan, progress: Progress, state: State) -> Array:
    """Part of a covariate's variance that few records may make, from 0 to 1: τ of equation (15) of docs/estimator.md.

    Shape (k,), without the constant; 0 for columns made of factors alone, 1 for a number without bounds, and for a sum
    of several columns the largest of theirs.
    """
    assert progress.points is not None
    assert progress.shares is not None
    mix = np.eye(plan.d) if plan.columns.mix is None else plan.columns.mix
    numbers, out = _numbers(plan, progress.shares), np.zeros(plan.d)
    x = progress.points @ np.linalg.inv(state.rows[: plan.d, : plan.d] @ mix).T
    mean, sd = x.mean(axis=0), x.std(axis=0)
    room = np.maximum((1.0 - mean**2) / np.maximum(sd**2, 1e-300) - 1.0, 0.0)
    even = np.maximum(1.0 - np.abs(mean), 0.0) / (1.0 + np.abs(mean))
    out[numbers] = (room / np.maximum(FAR * even + room, 1e-300))[numbers]
    out[[j for j in plan.unscaled if j < plan.d]] = 1.0
    return np.asarray(np.where(mix != 0.0, out, 0.0).max(axis=1)[int(plan.layout.constant) :])


def far_ends(plan: Plan, progress: Progress) -> list[End]:
    """Bounds of numbers with splines that are more than `WIDE` learned sd from most records.

    The distance D is that of the spline's row there from its mean in the metric of its k columns' covariance: at most
    k/D² of the records are as far (Markov).
    """
    d, out = plan.d, list[End]()
    rows = progress.scatter.rows[:d, :d] @ (np.eye(d) if plan.columns.mix is None else plan.columns.mix)
    for end in plan.columns.ends:
        columns = np.linalg.inv(rows)[end.columns]
        spread, away = columns[:, 1:], end.row - columns[:, 0]
        square = float(away @ np.linalg.lstsq(spread @ spread.T, away, rcond=None)[0])
        out += [end] if square > WIDE**2 else []
    return out


def reference_model(plan: Plan, progress: Progress) -> Reference:
    """The reference model in the coordinates of the scores: equation (11) of docs/estimator.md."""
    assert progress.points is not None
    part, persons, far = progress.scatter.answering, plan.persons, progress.state.longest
    rows = persons.rows if persons is not None and persons.one else 1
    model = reference_of(
        plan.rules, progress.points, blocks=plan.blocks, unit=not plan.label, answering=part, rows=rows, longest=far
    )
    return model._replace(added=progress.added, least=1.0 if persons is None else part / persons.rows)


def inside(plan: Plan, state: State, theta: Array) -> Array:
    """Coefficients in internal units, shape (b d,), from those of the scores' coordinates."""
    out = state.y_scale * whitening.inside(theta.reshape(-1, plan.d), state.rows).reshape(-1)
    if plan.layout.constant:
        out[0] += state.y_centre
    return np.asarray(out)


def linear(plan: Plan, state: State) -> Array:
    """Linear part of `inside`, shape (b d, b d); W' of equation (37) of docs/estimator.md."""
    return np.asarray(np.kron(np.eye(plan.blocks), state.y_scale * state.rows.T))


def wide(plan: Plan, rows: Array) -> list[tuple[int, float]]:
    """Columns whose bounds, ±1 inside, are more than `WIDE` learned sd apart, each with that number of sd.

    A product of a factor and a number, which is 0 for other levels, is judged by the number and the level's share.
    """
    spans, left = 2.0 * np.diag(rows), {*plan.unscaled, *(c.column for c in plan.columns.crossed)}
    columns = [j for j in range(int(plan.layout.constant), plan.d) if plan.columns.gaps[j] == 0.0 and j not in left]
    return [(j, float(spans[j])) for j in columns if spans[j] > WIDE * plan.widened]


def collinear(rows: Array, columns: Sequence[int], constant: bool) -> dict[int, list[int]]:
    """Wide `columns` that are narrow only given others, each with the columns that nearly add up to it."""
    first = int(constant)
    sd = np.linalg.norm(np.linalg.inv(rows)[:, first:], axis=1)
    parts = {j: np.flatnonzero(np.abs(rows[j, first:j] * sd[first:j]) > OF_ONE * rows[j, j] * sd[j]) for j in columns}
    return {j: (first + k).tolist() for j, k in parts.items() if len(k) and WIDE * sd[j] >= 2.0}


def constant2(plan: Plan, progress: Progress, number: int) -> float:
    """Square λ of the constant in reports on moments of this round: equation (6) of docs/estimator.md."""
    if plan.label or not any(r.role == "moments" for r in plan.rounds[:number]):  # the first has no scales to ask by
        return 1.0
    others, scatter = plan.direction - 1.0, progress.scatter
    people, most = _people(plan), FULL * (others + 1.0)
    wanted = most if plan.rules.varying and not plan.columns.bases else _needed(plan, scatter) - others
    if scatter.drawn_in:
        people, wanted = plan.rounds[number].people, most
    return max(min(_sharp(plan, people), wanted, most), 1.0)


def _needed(plan: Plan, scatter: Scatter) -> float:
    """Mean squared length of rows, constant included, that white columns of levels with different slopes need.

    Only records of a level are not 0 in its column and in those that cross it, where mean squares are to be 1.
    """
    shares, out = zip(plan.columns.cells, whitening.shrunk(plan.factors, scatter.shares), strict=True), 0.0
    least = [(g.columns.tolist(), float(p.min())) for g, p in shares]
    for levels, columns in _crossings(plan).items() if least else ():
        out = max(out, columns / max(min((p for some, p in least if levels.issuperset(some)), default=1.0), 1e-300))
    return out


def _people(plan: Plan) -> int:
    """Records in usual rounds of moments after the first."""
    return sum([r.people for r in plan.rounds if r.role == "moments" and not r.optional][1:])


def _sharp(plan: Plan, people: int) -> float:
    """Square of the constant beside which so many people give moments `SHARP` enough."""
    return SHARP * math.sqrt(people) / max(plan.sd("moments"), 1e-300) - (plan.direction - 1.0)


def _crossings(plan: Plan) -> dict[frozenset[int], float]:
    """Number of columns that are 0 for other levels, by columns of a factor that is crossed with numbers."""
    return {
        levels: 1.0 + sum(levels.issuperset(c.levels) for c in plan.columns.crossed) / len(levels)
        for levels in {frozenset(c.levels) for c in plan.columns.crossed}
    }


def least_share(plan: Plan, group: Cells) -> float:
    """Least share of the records of a level at which slopes by it can be estimated; 0 without such slopes.

    Where numbers are skewed, slopes by rarer levels had intervals that were far too short even in right models.
    """
    if plan.label or plan.rules.varying:
        return 0.0
    members = set(group.columns.tolist())
    columns = max((n for levels, n in _crossings(plan).items() if levels & members), default=0.0)
    return SLOPED * columns / max(_sharp(plan, _people(plan)) + (plan.direction - 1.0), 1e-300)


def overstretched(plan: Plan, progress: Progress, number: int) -> list[int]:
    """Columns of numbers that this round is to draw in, by their places in reports: wider than `WIDE` learned sd."""
    if plan.rules.varying or plan.label or _sharp(plan, plan.rounds[number].people) < APART:
        return []
    columns = [j + plan.extra for j in plan.columns.alone]
    return [j for j in columns if moments.span(progress.scatter, j) > WIDE * plan.widened]
