"""Distribution assumed of whitened covariates, z = (1, N(0, I)), and their largest length by declarations.

Public numbers by quadrature, no randomness.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import numpy as np
from scipy.special import betaincinv, gammaincinv, ndtr, ndtri

from privreg.base.arrays import Array

INSIDE: Final = (
    0.05  # Part by which mean and sd of a covariate fall short, at least, of the most that bounds let them be
)

_LATTICE = 2048
_FLAT = 1e-8

_GRID: Final = np.linspace(-4.0, 4.0, 129)

FARTHEST: Final = 5.0
"""Stretch of a column, at most, whatever reports say: of the two values that one takes, in the scores' coordinates;
relative to what its own factor's levels take; of numbers within ±1 for the first second moments of two collectors."""

WIDE: Final = 28.0
"""Width of a column's bounds, in learned sd, from which on it was stretched too far, by all appearances, and is drawn
in; if it still is, a note asks whether most people share one value. Skewed ones of `benchmarks.designs` reach 20, one
that is 0 for 85% has 34."""

LIMITS: Final = (0.15, 8.0)
"""Eigenvalues by which one round may shrink or stretch a direction: a wrong report must not flatten one for good."""


@lru_cache(maxsize=64)
def _chi2(df: int, points: int) -> Array:
    """Equally likely values of χ² with `df` degrees of freedom, to be read only; one zero if there are none."""
    even = (np.arange(points) + 0.5) / points
    out = np.asarray(2.0 * gammaincinv(df / 2.0, even)) if df else np.zeros(1)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def moment_diagonal(d: int, constant: bool, constant2: float = 1.0) -> Array:
    """Diagonal of E u uᵀ, u = z/‖z‖, which has no other entries: equation (4) of docs/estimator.md; shape (d,).

    With a constant z₀² is `constant2`; else every coordinate is normal. To be read only.

    Examples
    --------
    >>> moment_diagonal(4, False).round(6)
    array([0.25, 0.25, 0.25, 0.25])
    """
    slopes, out = d - int(constant), np.ones(d)
    if slopes:
        square = _chi2(slopes, 20_000)
        norm2 = square + (constant2 if constant else 0.0)
        out[:] = float(np.mean(square / norm2)) / slopes
        if constant:
            out[0] = float(np.mean(constant2 / norm2))
    out.setflags(write=False)
    return out


@lru_cache(maxsize=8)
def even_points(axes: int) -> Array:
    """Points spread evenly over the unit cube, shape (2048, `axes`); to be read only."""
    # Kronecker's sequence by powers of the generalised golden ratio: even in every dimension
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (axes + 1.0))
    out = np.asarray((0.5 + np.arange(1, _LATTICE + 1)[:, None] * ratio ** -np.arange(1.0, axes + 1.0)) % 1.0)
    out.setflags(write=False)
    return out


def made_white(z: Array, *, centred: bool = True) -> Array:
    """Points with exact mean, if `centred`, and second moments, by a triangular map; shape (m, k).

    Directions in which points hardly lie are left short.
    """
    if not z.shape[1]:
        return z
    z = z - z.mean(axis=0) if centred else z
    z = z / np.maximum(np.sqrt(np.mean(z**2, axis=0)), 1e-300)
    moments = z.T @ z / len(z)
    values, vectors = np.linalg.eigh(moments)
    if values[0] < _FLAT:
        moments = (vectors * np.maximum(values, _FLAT)) @ vectors.T
    return np.asarray(z @ np.linalg.inv(np.linalg.cholesky(moments)).T)


@lru_cache(maxsize=8)
def lattice(slopes: int) -> Array:
    """Points that stand for a standard normal vector, of exact moments, shape (2048, `slopes`); to be read only."""
    out = made_white(np.asarray(ndtri(even_points(slopes))))
    out.setflags(write=False)
    return out


def normal_points(cov: Array, constant: bool) -> Array:
    """Points that stand for correlated normal covariates, after the constant if there is one."""
    z = lattice(len(cov)) @ np.linalg.cholesky(cov).T
    return np.column_stack([np.ones(len(z)), z]) if constant else z


def bounded(points: Array, rows: Array, columns: Iterable[int], *, constant: bool) -> Array:
    """Points with beta covariates within their bounds, from normal ones: equation (10) of docs/estimator.md.

    Where a covariate is even, has two peaks or is skewed, bounds, mean and sd tell as much of it as the reference model
    needs: with normal ones, which go beyond the bounds, curvature was off and intervals were too short
    (`benchmarks.validity`).

    `points`, shape (m, d), are whitened covariates, of which mean and covariance were asked; those that come back have
    the same mean and second moments, ranks of the covariates nearly kept, and are the same where none is past a bound.
    `rows`, shape (d, d), is the map W that whitens, lower triangular, and `columns` those that lie within ±1 before it.
    `constant` says whether the first coordinate is 1.
    """
    first = int(constant)
    x = points @ np.linalg.inv(rows).T
    mean, sd = x.mean(axis=0), x.std(axis=0)
    mean = np.clip(mean, INSIDE - 1.0, 1.0 - INSIDE)
    near = [j for j in columns if np.abs(x[:, j]).max() > 1.0]
    if not near:
        return points
    for j in near:
        share = min(sd[j] ** 2 / (1.0 - mean[j] ** 2), (1.0 - INSIDE) ** 2)
        a, b = (0.5 * (1.0 + way * mean[j]) * (1.0 / share - 1.0) for way in (1.0, -1.0))
        # quantiles between those of a grid: each takes as long as a point of the reference model for a whole round
        x[:, j] = np.interp((x[:, j] - x[:, j].mean()) / sd[j], _GRID, 2.0 * betaincinv(a, b, ndtr(_GRID)) - 1.0)
    z, size = x @ rows.T, np.sqrt(np.mean(points**2, axis=0))
    z[:, first:] = made_white(z[:, first:] / size[first:], centred=constant) * size[first:]
    return np.asarray(z)


def _two_point(share: float, gap: float, d: int, constant: bool, constant2: float) -> float:
    """E z_j²/‖z‖² of a two-valued coordinate: (1 − π) `gap` for a `share` π, −π `gap` for the rest."""
    rest = (constant2 if constant else 0.0) + _chi2(d - 1 - int(constant), 2_000)
    out = 0.0
    for weight, z in ((share, (1.0 - share) * gap), (1.0 - share, share * gap)):
        out += weight * float(np.mean(z**2 / np.maximum(z**2 + rest, 1e-300)))
    return out


@lru_cache(maxsize=256)
def two_point_share(gap: float, d: int, constant: bool, constant2: float = 1.0) -> float:
    """Share π ≤ ½ of people with the rarer value of a two-valued column, from its stretch by whitening.

    `gap` is the distance of its two values after whitening, at whose fixed point E u_j² is that of a normal coordinate
    of the `d` of z; with a constant z₀² is `constant2`.
    """
    wanted = float(moment_diagonal(d, constant, constant2)[-1])
    low, high = 1e-6, 0.5
    if _two_point(high, gap, d, constant, constant2) <= wanted:
        return high
    for _ in range(50):  # it grows with the share
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _two_point(middle, gap, d, constant, constant2) > wanted else (middle, high)
    return high


MOST: Final = 1 << 16  # Rows that are tried; of more the lengths of the rest are added
ROUNDING: Final = 1e-9  # Part by which rounding may make a row longer


class Extreme(NamedTuple):
    """Extreme rows of a set of columns that share no raw column with others, internal units; public."""

    # Candidates for the longest row, 0 in other columns: a length is convex in numbers on which columns depend
    # linearly; shape (m, d)
    rows: Array
    bends: tuple[Array, ...] = ()  # Second differences along numbers with curved columns; each of shape (·, d)


def longest(extremes: Sequence[Extreme], rows: Array) -> float:
    """B = sup ‖W x‖, W = `rows`, shape (d, d), for equation (45) of docs/estimator.md; 0 without `extremes`.

    Exact up to `MOST` combinations; beyond, the farthest of the rest are added. Between two values of a curve a row
    lies an eighth of a second difference from their chord, which is added.
    """
    if not extremes:
        return 0.0
    tried, more = np.zeros((1, len(rows))), 0.0
    for one in sorted(extremes, key=lambda e: len(e.rows)):
        z = one.rows @ rows.T
        more += sum(0.125 * float(np.linalg.norm(bend @ rows.T, axis=1).max()) for bend in one.bends)
        if len(tried) * len(z) <= MOST:
            tried = (tried[:, None] + z).reshape(-1, len(rows))
        else:
            middle = 0.5 * (z.min(axis=0) + z.max(axis=0))
            tried = tried + middle
            more += float(np.linalg.norm(z - middle, axis=1).max())
    return (float(np.linalg.norm(tried, axis=1).max()) + more) * (1.0 + ROUNDING)
