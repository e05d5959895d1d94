"""What whitened covariates are taken to look like: z = (1, N(0, I)), and expectations under it.

Public numbers by quadrature, no randomness.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincinv, ndtri

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "even_points",
    "lattice",
    "made_white",
    "moment_diagonal",
    "normal_points",
    "two_point_share",
]

_LATTICE = 2048
_FLAT = 1e-8


def _midpoints(points: int) -> Array:
    return (np.arange(points) + 0.5) / points


@lru_cache(maxsize=64)
def _chi2(df: int, points: int) -> Array:
    """Equally likely values of χ² with `df` degrees of freedom, to be read only; one zero if there are none."""
    out = np.asarray(2.0 * gammaincinv(df / 2.0, _midpoints(points))) if df else np.zeros(1)
    out.setflags(write=False)
    return out


@lru_cache(maxsize=256)
def _moments(d: int, constant: bool) -> tuple[float, float]:
    """E u₀² and E u_j² of u = z/‖z‖."""
    slopes = d - 1 if constant else d
    if slopes == 0:
        return 1.0, 0.0
    square = _chi2(slopes, 20_000)
    norm2 = square + (1.0 if constant else 0.0)
    return float(np.mean(1.0 / norm2)), float(np.mean(square / norm2)) / slopes


def moment_diagonal(d: int, constant: bool) -> Array:
    """Diagonal of E u uᵀ, u = z/‖z‖; it has no other entries.

    Parameters
    ----------
    d : int
        Length of z.
    constant : bool
        Whether z₀ = 1; else every coordinate is normal.

    Returns
    -------
    ndarray, shape (d,)

    Examples
    --------
    >>> moment_diagonal(4, False).round(6)
    array([0.25, 0.25, 0.25, 0.25])
    """
    first, other = _moments(d, constant)
    out = np.full(d, other)
    if constant:
        out[0] = first
    return out


def even_points(axes: int) -> Array:
    """Points spread evenly over the unit cube, shape (2048, `axes`)."""
    # Kronecker's sequence by powers of the generalised golden ratio: even in every dimension
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (axes + 1.0))
    steps = ratio ** -np.arange(1.0, axes + 1.0)
    return np.asarray((0.5 + np.arange(1, _LATTICE + 1)[:, None] * steps) % 1.0)


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
    """Points that stand for a standard normal vector, with exact mean and covariance, shape (2048, `slopes`).

    To be read only.
    """
    out = made_white(np.asarray(ndtri(even_points(slopes))))
    out.setflags(write=False)
    return out


def normal_points(cov: Array, constant: bool) -> Array:
    """Points that stand for correlated normal covariates, after the constant if there is one."""
    z = lattice(len(cov)) @ np.linalg.cholesky(cov).T
    return np.column_stack([np.ones(len(z)), z]) if constant else z


def _two_point(share: float, gap: float, d: int, constant: bool) -> float:
    """E z_j²/‖z‖² of a coordinate that is (1 − π) `gap` for a `share` π and −π `gap` for the rest."""
    rest = (1.0 if constant else 0.0) + _chi2(d - 1 - int(constant), 2_000)
    out = 0.0
    for weight, z in ((share, (1.0 - share) * gap), (1.0 - share, share * gap)):
        out += weight * float(np.mean(z**2 / np.maximum(z**2 + rest, 1e-300)))
    return out


@lru_cache(maxsize=256)
def two_point_share(gap: float, d: int, constant: bool) -> float:
    """Share π ≤ ½ of people with the rarer value of a two-valued column, from how far whitening stretched it.

    Parameters
    ----------
    gap : float
        Distance of its two values after whitening, at whose fixed point E u_j² is that of a normal coordinate.
    d : int
        Length of z.
    constant : bool
        Whether z₀ = 1.

    Returns
    -------
    float
    """
    wanted = float(moment_diagonal(d, constant)[-1])
    low, high = 1e-6, 0.5
    if _two_point(high, gap, d, constant) <= wanted:
        return high
    for _ in range(50):  # it grows with the share
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _two_point(middle, gap, d, constant) > wanted else (middle, high)
    return high
