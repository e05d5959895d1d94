"""Coordinates of the scores: a whitening map of the covariates, learned from reports, and columns it may not fit.

Collector side: public numbers in, public numbers out. `rows` is always the lower triangular map W of the whitened
covariates, shape (d, d), whose first row is (1, 0, …) if there is a constant.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.covariates.points import FARTHEST, WIDE, two_point_share
from privreg.collector.levels import PART
from privreg.collector.plan import Crossed

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
    parts = {j: np.flatnonzero(np.abs(rows[j, first:j] * sd[first:j]) > PART * rows[j, j] * sd[j]) for j in columns}
    return {j: (first + k).tolist() for j, k in parts.items() if len(k) and WIDE * sd[j] >= 2.0}
