"""What whitened covariates are taken to look like: z = (1, N(0, I)), and expectations under it.

Public numbers by quadrature, no randomness. Where real covariates look different the Newton steps are only
roughly scaled, which the one-step corrections and the inference allow for.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import gammaincinv, ndtri

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "correlated_matrix",
    "curvature_matrix",
    "even_points",
    "lattice",
    "made_white",
    "matrix_at",
    "mean_curvature",
    "moment_diagonal",
    "multinomial_at",
    "newton_matrix",
    "normal_points",
    "two_point_length",
    "two_point_share",
]

_POINTS = 400
_LATTICE = 4096
_FLAT = 1e-8


def _midpoints(points: int) -> Array:
    return (np.arange(points) + 0.5) / points


def _chi2(df: int, points: int) -> Array:
    """Equally likely values of χ² with `df` degrees of freedom; one zero if there are none."""
    return np.asarray(2.0 * gammaincinv(df / 2.0, _midpoints(points))) if df else np.zeros(1)


@lru_cache(maxsize=256)
def _moments(d: int, constant: bool) -> tuple[float, float, float, float]:
    """E u₀², E u_j² of u = z/‖z‖, and E z₀²/‖z‖, E z_j²/‖z‖."""
    slopes = d - 1 if constant else d
    if slopes == 0:
        return 1.0, 0.0, 1.0, 0.0
    square = _chi2(slopes, 20_000)
    norm2 = square + (1.0 if constant else 0.0)
    share, length = float(np.mean(square / norm2)) / slopes, float(np.mean(square / np.sqrt(norm2))) / slopes
    return float(np.mean(1.0 / norm2)), share, float(np.mean(1.0 / np.sqrt(norm2))), length


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
    first, other, _, _ = _moments(d, constant)
    out = np.full(d, other)
    if constant:
        out[0] = first
    return out


def curvature_matrix(kappa: Callable[[Array], Array], theta: Array, constant: bool, *, unit: bool = True) -> Array:
    """E κ(zᵀθ) ω z zᵀ, ω = 1/‖z‖ or 1.

    Parameters
    ----------
    kappa : callable
        Curvature per unit of score bound as a function of the linear predictor.
    theta : ndarray, shape (d,)
    constant : bool
    unit : bool
        Whether ω = 1/‖z‖.

    Returns
    -------
    ndarray, shape (d, d)
        By symmetry only the constant, the direction of the slopes and the rest of the space matter.
    """
    d = theta.shape[0]
    intercept = float(theta[0]) if constant else 0.0
    slopes = theta[1:] if constant else theta
    k = slopes.shape[0]
    length = float(np.linalg.norm(slopes))
    if k == 0:
        return np.asarray(kappa(np.array([intercept]))).reshape(1, 1)
    along = ndtri(_midpoints(_POINTS))[:, None]
    rest = _chi2(k - 1, _POINTS // 4)[None, :]
    norm = np.sqrt(along**2 + rest + (1.0 if constant else 0.0))
    weight = kappa(intercept + length * along) / (norm if unit else np.ones_like(norm))
    direction = np.zeros(d)
    direction[d - k :] = slopes / length if length > 0.0 else np.eye(k)[0]
    a11 = float(np.mean(weight * along**2))
    across = float(np.mean(weight * rest)) / (k - 1) if k > 1 else 0.0
    out = np.zeros((d, d))
    out[d - k :, d - k :] = across * np.eye(k)
    out += (a11 - across) * np.outer(direction, direction)
    if constant:
        a01 = float(np.mean(weight * along))
        out[0, :] += a01 * direction
        out[:, 0] += a01 * direction
        out[0, 0] = float(np.mean(weight * np.ones_like(norm)))
    return out


def mean_curvature(kappa: Callable[[Array], Array], intercept: float, sd: float) -> float:
    """E κ(η), η normal."""
    return float(np.mean(kappa(intercept + sd * ndtri(_midpoints(_POINTS)))))


def even_points(axes: int) -> Array:
    """Points spread evenly over the unit cube, shape (4096, `axes`)."""
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


def lattice(slopes: int) -> Array:
    """Points that stand for a standard normal vector, with exact mean and covariance, shape (4096, `slopes`)."""
    return made_white(np.asarray(ndtri(even_points(slopes))))


def normal_points(cov: Array, constant: bool) -> Array:
    """Points that stand for correlated normal covariates, after the constant if there is one."""
    z = lattice(len(cov)) @ np.linalg.cholesky(cov).T
    return np.column_stack([np.ones(len(z)), z]) if constant else z


def matrix_at(kappa: Callable[[Array], Array], theta: Array, z: Array) -> Array:
    """E κ(zᵀθ) z zᵀ/‖z‖ over equally likely points `z`, shape (m, d); of shape (d, d)."""
    weight = kappa(z @ theta) / np.linalg.norm(z, axis=1) / len(z)
    return np.asarray((z * weight[:, None]).T @ z)


def multinomial_at(theta: Array, z: Array) -> Array:
    """E of the curvature of the balanced multinomial score, Kronecker z zᵀ/‖z‖, over equally likely points.

    Parameters
    ----------
    theta : ndarray, shape (b, d)
        Coefficients of the classes k ≥ 1.
    z : ndarray, shape (m, d)

    Returns
    -------
    ndarray, shape (b d, b d)
        (diag π − π πᵀ)/max_k ‖π − e_k‖ ⊗ z zᵀ/‖z‖.
    """
    blocks, d = theta.shape
    eta = np.column_stack([np.zeros(len(z)), z @ theta.T])
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    ends = np.eye(blocks + 1)[:, 1:]
    apart = np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1)
    weight = 1.0 / (apart * np.linalg.norm(z, axis=1)) / len(z)
    out = np.empty((blocks, d, blocks, d))
    for k in range(blocks):
        for m in range(blocks):
            kappa = weight * share[:, k + 1] * ((k == m) - share[:, m + 1])
            out[k, :, m, :] = (z * kappa[:, None]).T @ z
    return out.reshape(blocks * d, blocks * d)


def newton_matrix(target: float, d: int, constant: bool) -> Array:
    """Inverse of E κ z zᵀ/‖z‖ for a constant κ = `target`, shape (d, d)."""
    _, _, first, other = _moments(d, constant)
    diagonal = np.full(d, other)
    if constant:
        diagonal[0] = first
    return np.diag(1.0 / (target * diagonal))


def correlated_matrix(cov: Array, constant: bool) -> Array:
    """E z zᵀ/‖z‖ for correlated normal covariates.

    Parameters
    ----------
    cov : ndarray, shape (k, k)
        Covariance of the covariates, the constant left out.
    constant : bool
        Whether z begins with the constant 1.

    Returns
    -------
    ndarray, shape (d, d)

    Notes
    -----
    1/‖z‖ = (2/√π) ∫ exp(−s²‖z‖²) ds, and under the integral the coordinates along the eigenvectors part:
    E z_i² exp(−s² Σ z_j²) = λ_i (1 + 2 s² λ_i)^−1 Π (1 + 2 s² λ_j)^−½.
    """
    values, vectors = np.linalg.eigh(cov)
    values = np.maximum(values, 0.0)
    # s = tan of a midpoint turns the half line into an interval
    angle = 0.5 * np.pi * _midpoints(4_000)
    s2 = np.tan(angle) ** 2
    spread = 1.0 + 2.0 * s2[:, None] * values
    weight = np.exp(-s2 * constant) / np.sqrt(spread).prod(axis=1) / np.cos(angle) ** 2 * np.sqrt(np.pi)
    slopes = (weight[:, None] * values / spread).mean(axis=0)
    out: Array = (vectors * slopes) @ vectors.T
    if constant:
        whole = np.zeros((len(cov) + 1, len(cov) + 1))
        whole[1:, 1:], whole[0, 0] = out, float(weight.mean())
        return whole
    return out


def _two_point(share: float, gap: float, d: int, constant: bool, power: float) -> float:
    """E z_j²/‖z‖^power of a coordinate that is (1 − π) `gap` for a `share` π and −π `gap` for the rest."""
    rest = (1.0 if constant else 0.0) + _chi2(d - 1 - int(constant), 2_000)
    out = 0.0
    for weight, z in ((share, (1.0 - share) * gap), (1.0 - share, share * gap)):
        norm2 = np.maximum(z**2 + rest, 1e-300)
        out += weight * float(np.mean(z**2 / norm2 ** (power / 2.0)))
    return out


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
    if _two_point(high, gap, d, constant, 2.0) <= wanted:
        return high
    for _ in range(50):  # it grows with the share
        middle = math.sqrt(low * high)
        low, high = (low, middle) if _two_point(middle, gap, d, constant, 2.0) > wanted else (middle, high)
    return high


def two_point_length(share: float, gap: float, d: int, constant: bool) -> float:
    """E z_j²/‖z‖ of a two-valued coordinate, relative to that of a normal one."""
    return _two_point(share, gap, d, constant, 1.0) / _moments(d, constant)[3]
