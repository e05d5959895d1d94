"""The chains' coordinates: a linear map of the covariates learned from reports, and the curvature to expect in them.

Collector side: public numbers in, public numbers out. `rows` is always the lower triangular map W of the whitened
covariates, shape (d, d), whose first row is (1, 0, …) if there is a constant.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector.reference import (
    correlated_matrix,
    curvature_matrix,
    matrix_at,
    mean_curvature,
    multinomial_at,
    newton_matrix,
    normal_points,
    two_point_length,
    two_point_share,
)
from privreg.families import scores
from privreg.protocol.codes import MULTINOMIAL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from privreg.collector.diagonal import Wide
    from privreg.families.constants import ChainRules

    Array = NDArray[np.float64]

__all__ = [
    "Expected",
    "bring_in",
    "expect",
    "expect_at",
    "expect_wide",
    "inside",
    "is_correlated",
    "rare",
    "scaled",
    "wide",
    "without_constant",
]

CORRELATED: Final = 2.5
"""Condition number of the learned correlation matrix from which on the optional round of moments is held."""

FARTHEST: Final = 5.0
"""Distance of the two values of a two-valued column in the chains' coordinates, at most."""

FEW: Final = 8.0
"""Error of the predictor of people with a rare value, in units of c, is to be at most one by this."""

SMALLEST_SHARE: Final = 0.035
"""Shares below it can't be told apart by as many rounds of moments as are held."""

MOST_SHARE: Final = 0.35
"""A value that more people have isn't called rare, however few they are in all."""

WIDE: Final = 20.0
"""Width of a column's bounds in learned sd from which on a note asks whether most people share one value."""

SINGULAR: Final = 1e-9
"""Part of their squares by which columns are told apart that reports make one."""

FLATTEST: Final = 0.01
"""Least eigenvalue of the expected curvature, relative to its largest, that is inverted as it is."""


class Expected(NamedTuple):
    """What chains are to expect."""

    newton: Array  # P, about the inverse of the curvature per unit of score bound and c; shape (d, d)
    curvature: float  # Mean curvature of the loss per unit of score bound and c: P(abs r ≤ c), or mean min(π, 1 − π)


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
    """Their correlation matrix."""
    cov = covariance(rows, constant)
    lost = np.diag(cov) == 0.0  # in rounding, beside a centre far away
    cov[lost, lost] = 1.0
    size = np.sqrt(np.diag(cov))
    return np.asarray(cov / np.outer(size, size))


def is_correlated(rows: Array, constant: bool, groups: Sequence[NDArray[np.int64]] = ()) -> bool:
    """Whether the covariates have turned out so correlated that another round of moments pays.

    What columns of one of the `groups` have to do with each other does not count.
    """
    cov = correlation(rows, constant)
    for k in groups:
        at = k - int(constant)
        own = np.linalg.inv(np.linalg.cholesky(cov[np.ix_(at, at)]))
        cov[at] = own @ cov[at]
        cov[:, at] = cov[:, at] @ own.T
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
    """Map of a design without a constant, from one learned beside a constant that was added.

    Parameters
    ----------
    rows : ndarray, shape (d + 1, d + 1) or larger
        Whitens (1, x), then perhaps the response.
    d : int

    Returns
    -------
    ndarray, shape (d, d) or larger
        Makes the second moments of x, about 0, the identity; the response's row loses its constant.
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


def bring_in(rows: Array, gaps: Sequence[float], constant: bool) -> tuple[Array, Array]:
    """Take back part of the stretch of rare values, which whitening would send far out.

    A step of the chains moves the predictor of somebody far out by far more than c, where scores are flat.

    Parameters
    ----------
    rows : ndarray, shape (d, d) or larger
    gaps : sequence of float, length d
        For each column that takes two values only, how far apart they are before the map; 0 for the others.
    constant : bool

    Returns
    -------
    rows : ndarray
    shares : ndarray, shape (d,)
        Share of people with the rarer value; NaN for other columns.
    """
    d = len(gaps)
    out, shares = np.array(rows), np.full(d, np.nan)
    for j, gap in enumerate(gaps):
        if gap > 0.0:
            stretched = float(rows[j, j]) * gap
            shares[j] = two_point_share(stretched, d, constant)
            out[j] *= min(1.0, FARTHEST / stretched)
    return out, shares


def expect(
    rules: ChainRules,
    theta: Array,
    rows: Array,
    gaps: Sequence[float],
    shares: Array,
    *,
    constant: bool,
    whitened: bool,
    unit: bool,
) -> Expected:
    """Curvature to expect at `theta`, shape (b d,), chains' coordinates; `unit` says whether ω = 1/‖z‖, or 1."""
    d = len(gaps)
    if not unit:
        newton, curvature = _plain(rules, theta, constant)
    elif rules.shape.family == MULTINOMIAL:
        cov = np.eye(d - int(constant)) if whitened else correlation(rows, constant)
        matrix = multinomial_at(theta.reshape(-1, d), normal_points(cov, constant))
        newton, curvature = _inverse(matrix), float(np.trace(matrix)) / math.sqrt(d) / (len(theta) // d)
    elif whitened and not (rules.from_predictor or rules.shaped):
        newton, curvature = newton_matrix(rules.curvature, d, constant), rules.curvature
    else:
        matrix = _curvature(rules, theta, rows, constant, whitened)
        newton = _inverse(matrix)
        curvature = float(np.trace(matrix)) / math.sqrt(d) if rules.from_predictor else rules.curvature
    size = np.ones(d)
    for j, gap in enumerate(gaps):
        if gap > 0.0:
            stretched = float(rows[j, j]) * gap
            share = float(shares[j])
            spread = two_point_length(share, stretched, d, constant) if unit else share * (1.0 - share) * stretched**2
            size[j] = max(spread, 1e-6) ** -0.5
    size = np.tile(size, len(theta) // d)
    return Expected(np.ascontiguousarray(newton * np.outer(size, size)), curvature)


def expect_at(rules: ChainRules, theta: Array, points: Array) -> Expected:
    """The same from points that stand for people, chains' coordinates, shape (m, d), with ω = 1/‖z‖."""
    d = points.shape[1]
    if rules.shape.family == MULTINOMIAL:
        matrix = multinomial_at(theta.reshape(-1, d), points)
        return Expected(_inverse(matrix), float(np.trace(matrix)) / math.sqrt(d) / (len(theta) // d))
    kappa = _kappa(rules) if rules.from_predictor or rules.shaped else np.ones_like
    matrix = matrix_at(kappa, theta, points)
    if rules.shaped or not rules.from_predictor:  # the tracked window tells the mean curvature
        matrix *= rules.curvature / float(np.mean(kappa(points @ theta)))
    return Expected(
        _inverse(matrix), float(np.trace(matrix)) / math.sqrt(d) if rules.from_predictor else rules.curvature
    )


def expect_wide(rules: ChainRules, theta: Array, rows: Array, wide: Wide, constant: bool) -> Expected:
    """The same for a wide design, by the diagonal: ‖z‖ is nearly the same for everybody.

    P has shape (1, d), or (b d, b d) for b blocks of a multinomial response.
    """
    d = len(wide.gaps)
    if rules.shape.family == MULTINOMIAL:
        share = np.exp(theta.reshape(-1, d)[:, 0]) if constant else np.ones(len(theta) // d)
        share = np.concatenate([[1.0], share]) / (1.0 + share.sum())
        ends = np.eye(len(share))
        weight = 1.0 / max(float(np.linalg.norm(share - e)) for e in ends)
        small = weight * (np.diag(share[1:]) - np.outer(share[1:], share[1:]))
        length = 1.0 / newton_matrix(1.0, d, constant).diagonal()
        return Expected(
            np.kron(np.linalg.inv(small), np.diag(_rarer(rows, wide) / length)),
            float(np.trace(small)) * float(length.sum()) / math.sqrt(d) / len(small),
        )
    kappa = rules.curvature
    if rules.from_predictor:
        kappa = _mean(rules, theta, np.eye(d - int(constant)), constant)
    newton = newton_matrix(kappa, d, constant).diagonal() * _rarer(rows, wide)
    return Expected(np.ascontiguousarray(newton[None]), kappa)


def _rarer(rows: Array, wide: Wide) -> Array:
    """How much less curvature a two-valued column has than one of variance 1."""
    spread = wide.shares * (1.0 - wide.shares) * (rows[0] * wide.gaps) ** 2
    return np.asarray(1.0 / np.maximum(np.where(wide.gaps > 0.0, spread, 1.0), 1e-6))


def _inverse(matrix: Array) -> Array:
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors / np.maximum(values, FLATTEST * values[-1])) @ vectors.T)


def _plain(rules: ChainRules, theta: Array, constant: bool) -> tuple[Array, float]:
    """Inverse and mean curvature under weights ω = 1: second moments of whitened covariates are the identity."""
    if not (rules.from_predictor or rules.shaped):
        return np.eye(len(theta)) / rules.curvature, rules.curvature
    matrix = curvature_matrix(_kappa(rules), theta, constant, unit=False)
    if rules.shaped:
        matrix *= rules.curvature / _mean(rules, theta, np.eye(len(theta) - int(constant)), constant)
        return _inverse(matrix), rules.curvature
    return _inverse(matrix), float(np.trace(matrix)) / len(theta)


def _mean(rules: ChainRules, theta: Array, cov: Array, constant: bool) -> float:
    slopes = theta[int(constant) :]
    intercept = float(theta[0]) if constant else 0.0
    return mean_curvature(_kappa(rules), intercept, math.sqrt(float(slopes @ cov @ slopes)))


def _kappa(rules: ChainRules) -> Callable[[Array], Array]:
    return lambda eta: scores.expected_curvature(rules.shape, eta)


def _curvature(rules: ChainRules, theta: Array, rows: Array, constant: bool, whitened: bool) -> Array:
    first = int(constant)
    cov = np.eye(len(theta) - first) if whitened else correlation(rows, constant)
    if not (rules.from_predictor or rules.shaped):
        return np.asarray(rules.curvature * correlated_matrix(cov, constant))
    if whitened:
        out = curvature_matrix(_kappa(rules), theta, constant)
    else:
        out = matrix_at(_kappa(rules), theta, normal_points(cov, constant))
    if rules.shaped:  # the tracked window tells the mean curvature
        out *= rules.curvature / _mean(rules, theta, cov, constant)
    return np.asarray(out)


def rare(shares: Array, rules: ChainRules, effective: float, people: int) -> list[int]:
    """Two-valued columns whose rarer value too few people have for its coefficient's interval to be relied on."""
    curvature = 0.25 if rules.from_predictor else rules.curvature
    far = math.sqrt(1.0 + (len(shares) - 1) / FARTHEST**2)
    needed = FEW * 2.0 * far / (curvature * effective * math.sqrt(max(people, 1)))
    known = np.nan_to_num(shares, nan=1.0)
    return [int(j) for j in np.flatnonzero(known < min(max(needed, SMALLEST_SHARE), MOST_SHARE))]


def wide(rows: Array, gaps: Sequence[float], unscaled: Sequence[int], constant: bool) -> list[tuple[int, float]]:
    """Columns bounded at ±1 inside that range over far more than their learned sd, and over how many sd."""
    spans = 2.0 * np.diag(rows)[: len(gaps)]
    columns = [j for j in range(int(constant), len(gaps)) if gaps[j] == 0.0 and j not in unscaled]
    return [(j, float(spans[j])) for j in columns if spans[j] > WIDE]
