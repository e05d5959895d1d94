"""Deviations in HDR4ME*: their quantiles, and the probabilities of its Theorems 4 and 5."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array


def within(mean: Array, sd: Array, limit: Any) -> Array:
    """P(|N(mean, sd²)| ≤ limit)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = ndtr((limit - mean) / sd) - ndtr((-limit - mean) / sd)
    return np.asarray(np.where(sd > 0.0, inside, (np.abs(mean) <= limit).astype(np.float64)))


def absolute_quantile(mean: Array, sd: Array, q: float) -> Array:
    """Quantile of |N(mean, sd²)|, by bisection where the mean is not 0."""
    low, high = np.zeros_like(sd), np.abs(mean) + sd * float(-ndtri((1.0 - q) / 2.0))
    if not np.any(mean):
        return high
    for _ in range(60):
        middle = 0.5 * (low + high)
        short = within(mean, sd, middle) < q
        low, high = np.where(short, middle, low), np.where(short, high, middle)
    return np.asarray(high)


def threshold_probabilities(sds: ArrayLike, *, limit: float = 1.0) -> tuple[float, float]:
    """Probability that some, and that all, of independent deviations of mean 0 and these sds exceed a limit.

    Theorems 4 and 5 need the second and print the first; `sds` have shape (d,).
    """
    sd = np.asarray(sds, dtype=np.float64)
    beyond = 1.0 - within(np.zeros_like(sd), sd, limit)
    return float(1.0 - np.prod(1.0 - beyond)), float(np.prod(beyond))
