"""Critical values of the largest of several t-ratios, for intervals that hold together.

By simulation with a fixed seed, which is post-processing of numbers that have been released.
"""

from functools import lru_cache
from typing import Final

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.collector.inference.pivots import Normal, Pivot, RandomScaling, StudentT
from privreg.collector.inference.resampling import Bootstrap

_SEED: Final = 20_250_711
_SCALES: Final = 1 << 15  # Draws of the standard errors; fewer where `_NORMALS` would be exceeded
_USES: Final = 4  # Draws of the estimates for each of them
_NORMALS: Final = 12_000_000  # Standard normals drawn, about and at most
_CHUNK: Final = 1 << 20
_TERMS: Final = 32  # Terms of the Karhunen–Loève series for one lane; the mean over several needs fewer of each


def joint_critical(pivot: Pivot, cov: Array, alpha: float) -> float | Array:
    """Value that the largest of p t-ratios exceeds in absolute value with probability `alpha`, by a covariance.

    `pivot` is the distribution of each. The value is between ``pivot.critical(alpha)``, of one ratio, and Bonferroni's
    ``pivot.critical(alpha / p)``, which it is where only variances are known, `cov` of shape (p,), and of pivots other
    than those below. Shape (p,) where the distribution has one for each ratio.

    With R the correlation of the estimates and Z ~ N(0, R) the ratios are Z_j (Normal); Z_j/s_j with s² the diagonal of
    a Wishart(df, R)/df independent of Z (StudentT); W_j(1)/√(6 · mean over lanes of ∫bridge_j²) with W of covariance R
    (RandomScaling), its bridges by the Karhunen–Loève series with the tail's mean added, as in `pivots`. A bootstrap
    (`Bootstrap`, whose columns are the ratios) takes the largest ratio of each of its draws.

    P(some |T_j| > c) = p · P(|T_1| > c) · E(1/number of ratios beyond c), where a ratio chosen at random is drawn given
    that it is beyond c. Only the third factor is simulated, so that the level's Monte Carlo error is far below 0.1%.
    That R is estimated doesn't count: for up to 10 coefficients 95% becomes 94.4% at least with 8 lanes, and 94% with
    random scaling of one chain (measured as in `tests/collector/inference/test_simultaneous.py`).

    See Hothorn, Bretz & Westfall (2008), Simultaneous inference in general parametric models, for the intervals; Karp,
    Luby & Madras (1989), Monte-Carlo approximation algorithms for enumeration problems, for the simulation; XSJKH
    (arXiv 2505.08227), section 4.2, for random scaling.
    """
    p = len(cov)
    if p < 2:
        return pivot.critical(alpha)
    if isinstance(pivot, Bootstrap):
        return pivot.largest(alpha)
    if cov.ndim == 1 or not np.isfinite(cov).all() or not isinstance(pivot, Normal | StudentT | RandomScaling):
        return pivot.critical(alpha / p)
    sd = np.sqrt(np.diag(cov))
    size = np.where(sd > 0.0, sd, 1.0)
    correlation = np.where(sd > 0.0, cov / np.outer(size, size), 0.0)
    np.fill_diagonal(correlation, 1.0)
    return _simulated(pivot, p, np.ascontiguousarray(correlation, dtype=np.float64).tobytes(), alpha)


@lru_cache(maxsize=64)
def _simulated(pivot: Normal | StudentT | RandomScaling, p: int, matrix: bytes, alpha: float) -> float:
    """`joint_critical` of a correlation matrix: s_j² = Σ_r weights_r Y_rj² + rest, Z and rows Y_r ~ N(0, R)."""
    weights, rest = np.empty(0), 1.0
    match pivot:
        case StudentT(df):
            weights, rest = np.full(df, 1.0 / df), 0.0
        case RandomScaling(lanes):
            terms = max(4, int(np.ceil(_TERMS / np.sqrt(lanes))))
            each = 6.0 / (np.pi * np.arange(1, terms + 1)) ** 2
            weights, rest = np.repeat(each, lanes) / lanes, 1.0 - float(each.sum())
    rng, rows = np.random.Generator(np.random.SFC64(_SEED)), len(weights)
    correlation = np.frombuffer(matrix).reshape(p, p)
    values, vectors = np.linalg.eigh(correlation)
    root = (vectors * np.sqrt(np.maximum(values, 0.0))).T
    draws = max(1 << 10, min(_SCALES, _NORMALS // (max(rows, 40) * p)))
    s2 = np.full((draws, p), rest)
    chunk = max(1, _CHUNK // (max(rows, 1) * p))
    for start in range(0, draws if rows else 0, chunk):
        part = s2[start : start + chunk]
        y = rng.standard_normal((len(part) * rows, p)) @ root
        part += np.einsum("r,irj->ij", weights, (y * y).reshape(-1, rows, p))
    s = np.tile(np.sqrt(s2), (_USES, 1))
    z = rng.standard_normal(s.shape) @ root
    u, i = 1.0 - rng.random(len(s)), np.arange(len(s))
    j = (i + np.repeat(np.arange(_USES), draws)) % p  # other ratios of the same draw
    z_j, s_j, r_j = z[i, j], s[i, j], correlation[j]

    def excess(c: float) -> float:
        tail = ndtr(-c * s_j)
        beyond = -ndtri(u * tail)  # given that ratio j is beyond c
        given = z + r_j * (beyond - z_j)[:, None]
        count = np.maximum((np.abs(given) > c * s).sum(axis=1), 1)
        return p * float(pivot.two_sided(np.array([c]))[0]) * float(np.sum(tail / count) / np.sum(tail)) - alpha

    low, high = pivot.critical(alpha), pivot.critical(alpha / p)
    if excess(low) <= 0.0:
        return low
    if excess(high) >= 0.0:
        return high
    from scipy.optimize import brentq  # slow to import

    return float(brentq(excess, low, high, xtol=1e-5 * low))
