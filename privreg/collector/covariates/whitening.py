"""Coordinates of the scores: a whitening map of the covariates, learned from reports, and columns it may not fit.

Collector side: public numbers in, public numbers out. `rows` is always the lower triangular map W of the whitened
covariates, shape (d, d), whose first row is (1, 0, …) if there is a constant. Before it is learned, the constant beside
which moments are reported is chosen, and the numbers that are drawn in: reports beside a large constant come nearer to
second moments, with more noise; see `moments.asked`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.covariates import factors as cells
from privreg.collector.covariates import moments
from privreg.collector.covariates.factors import Cells
from privreg.collector.covariates.moments import Scatter
from privreg.collector.covariates.points import FARTHEST, WIDE, two_point_share
from privreg.collector.plan import Crossed, Plan, Progress

OF_ONE: Final = 0.25  # Part of a sum's spread by one column from which on the sum is about that column
SLOPED: Final = 0.7  # Part of the usual length at which slopes by a level show

CORRELATED: Final = 2.5
"""Condition number of the learned correlation matrix from which on the optional round of moments is held."""

SINGULAR: Final = 1e-9  # Part of their squares by which columns are distinguished that reports make one


def inside(theta: Array, rows: Array) -> Array:
    """Coefficients of the covariates before the map, shape (m, d), from those after it."""
    if len(rows) == theta.shape[1]:
        return np.asarray(theta @ rows)
    out = theta * rows[0]
    out[:, 0] += theta @ rows[1]
    return np.asarray(out)


def covariance(rows: Array, constant: bool) -> Array:
    """Covariance of the covariates, internal units, that `rows` whitens; the constant left out."""
    first = int(constant)
    inverse = np.linalg.inv(rows)[first:, first:]
    return np.asarray(inverse @ inverse.T)


def correlation(rows: Array, constant: bool) -> Array:
    """Correlation matrix of the covariates that `rows` whitens; the constant left out."""
    cov = covariance(rows, constant)
    lost = np.diag(cov) == 0.0  # in rounding, beside a centre far away
    cov[lost, lost] = 1.0
    size = np.sqrt(np.diag(cov))
    return np.asarray(cov / np.outer(size, size))


def is_correlated(rows: Array, constant: bool) -> bool:
    """True if the covariates are so correlated that another round of moments pays."""
    cov = correlation(rows, constant)
    return bool(np.linalg.cond(cov) > CORRELATED) if len(cov) > 1 else False


def scaled(rows: Array, constant: bool) -> Array:
    """Map that centres and scales the covariates by what `rows` has learned, and leaves them correlated."""
    size = np.sqrt(np.diag(covariance(rows, constant)))
    first = int(constant)
    out = np.eye(len(rows))
    out[first:, first:] = np.diag(1.0 / size)
    if first:
        out[1:, 0] = -np.linalg.inv(rows)[1:, 0] / size
    return out


def without_constant(rows: Array, d: int) -> Array:
    """Map of a design without a constant, shape (d, d) or larger, from one learned beside a constant that was added.

    That whitens (1, x), then perhaps the response; this makes the second moments of x, about 0, the identity, and the
    response's row loses its constant.
    """
    inverse = np.linalg.inv(rows[: d + 1, : d + 1])
    out = np.array(rows[1:, 1:])
    second = inverse[1:] @ inverse[1:].T
    try:
        low: Array = np.asarray(np.linalg.cholesky(second))
    except np.linalg.LinAlgError:  # noise alone made columns go together, to all digits
        low = np.asarray(np.linalg.cholesky(second + SINGULAR * np.diag(np.diag(second))))
    out[:d, :d] = np.tril(np.linalg.inv(low))
    return out


def bring_in(rows: Array, gaps: Sequence[float], constant: bool, constant2: float = 1.0) -> tuple[Array, Array]:
    """Undo part of the stretch of rare values, which whitening would send far out.

    A step of the state moves the predictor of a record far out by far more than c, where scores are flat. `gaps` are
    distances between the two values of two-valued columns before the map; 0 for other columns. `constant2` is the
    square of the constant in the last reports on moments, see `moments.asked`. Returns the map, shape (d, d) or larger,
    and the share of people with each rarer value, shape (d,), NaN for other columns.
    """
    d = len(gaps)
    out, shares = np.array(rows), np.full(d, np.nan)
    for j, gap in enumerate(gaps):
        if gap > 0.0:
            stretched = float(rows[j, j]) * gap
            shares[j] = two_point_share(stretched, d, constant, constant2)
            out[j] *= min(1.0, FARTHEST / stretched)
    return out, shares


def wide(
    rows: Array,
    gaps: Sequence[float],
    unscaled: Sequence[int],
    constant: bool,
    crossed: Sequence[Crossed] = (),
    widened: float = 1.0,
) -> list[tuple[int, float]]:
    """Columns whose bounds, ±1 inside, are more than `WIDE` learned sd apart, each with that number of sd.

    A product of a factor and a number is 0 for other levels, which makes its learned sd small: it is judged by the
    number itself and the level's share. Bounds are `widened` times as wide, in sd, as numbers' are.
    """
    spans = 2.0 * np.diag(rows)[: len(gaps)]
    left = {c.column for c in crossed}
    columns = [j for j in range(int(constant), len(gaps)) if gaps[j] == 0.0 and j not in unscaled and j not in left]
    return [(j, float(spans[j])) for j in columns if spans[j] > WIDE * widened]


def collinear(rows: Array, columns: Sequence[int], constant: bool) -> dict[int, list[int]]:
    """Wide `columns` that are narrow only given others, each with the columns that nearly add up to it."""
    first = int(constant)
    sd = np.linalg.norm(np.linalg.inv(rows)[:, first:], axis=1)
    parts = {j: np.flatnonzero(np.abs(rows[j, first:j] * sd[first:j]) > OF_ONE * rows[j, j] * sd[j]) for j in columns}
    return {j: (first + k).tolist() for j, k in parts.items() if len(k) and WIDE * sd[j] >= 2.0}


SHARP: Final = 0.2  # Sd of a variance, relative to its size, that reports beside a larger constant may have

FULL: Final = 8.0
"""Square of that constant, relative to the columns' number, at most: of families whose curvature moves, always but with
splines. Intervals of those, far out in few records each, were then .56 times as long, and covered 81%
(`benchmarks.formulas`)."""

APART: Final = 3.0  # Square of a constant from which on what is reported beside it differs from directions alone


def constant2(plan: Plan, progress: Progress, number: int) -> float:
    """Square λ of the constant in reports on moments of this round: equation (6) of docs/estimator.md."""
    before = any(r.role == "moments" for r in plan.rounds[:number])  # the first has no scales to ask by
    if plan.label or not before:
        return 1.0
    people = sum([r.people for r in plan.rounds if r.role == "moments" and not r.optional][1:])
    most = FULL * (_others(plan) + 1.0)
    always = plan.rules.varying and not plan.bases
    wanted = most if always else _needed(plan, progress.scatter) - _others(plan)
    if progress.scatter.drawn_in:
        people, wanted = plan.rounds[number].people, most
    return max(min(_told(plan, people), wanted, most), 1.0)


def _others(plan: Plan) -> float:
    """Number of columns in reports on moments, without the constant."""
    return plan.direction - 1.0


def _told(plan: Plan, people: int) -> float:
    """Square of the constant beside which so many people give moments `SHARP` enough."""
    return SHARP * math.sqrt(people) / max(plan.sd("moments"), 1e-300) - _others(plan)


def _needed(plan: Plan, scatter: Scatter) -> float:
    """Mean squared length of rows, constant included, that white columns of levels with different slopes need.

    Only records of a level are not 0 in its column and in those that cross it: their squares there must add up to mean
    squares of 1.
    """
    if not plan.cells:
        return 0.0
    shares = cells.shrunk(plan.factors, scatter.shares)
    out = 0.0
    for levels, columns in _crossings(plan).items():
        here = [
            float(p.min()) for g, p in zip(plan.cells, shares, strict=True) if levels.issuperset(g.columns.tolist())
        ]
        out = max(out, columns / max(min(here, default=1.0), 1e-300))
    return out


def _crossings(plan: Plan) -> dict[frozenset[int], float]:
    """Number of columns that are 0 for other levels, by columns of a factor that is crossed with numbers."""
    return {
        levels: 1.0 + sum(levels.issuperset(c.levels) for c in plan.crossed) / len(levels)
        for levels in {frozenset(c.levels) for c in plan.crossed}
    }


def least_share(plan: Plan, group: Cells) -> float:
    """Least share of the records of a level at which slopes by it can be estimated; 0 without such slopes.

    Where numbers are skewed, slopes by rarer levels had intervals that were far too short even in right models.
    """
    if plan.label or plan.rules.varying:
        return 0.0
    people = sum([r.people for r in plan.rounds if r.role == "moments" and not r.optional][1:])
    own = set(group.columns.tolist())
    columns = max((n for levels, n in _crossings(plan).items() if levels & own), default=0.0)
    return SLOPED * columns / max(_told(plan, people) + _others(plan), 1e-300)


def overstretched(plan: Plan, progress: Progress, number: int) -> list[int]:
    """Columns of numbers that this round is to draw in, by their places in reports on moments."""
    if plan.rules.varying or plan.label or _told(plan, plan.rounds[number].people) < APART:
        return []
    return moments.overstretched(progress.scatter, [j + plan.extra for j in plan.alone], plan.widened)
