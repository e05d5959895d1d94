"""The robust score of counts over many records, and its moments where the counts are Poisson's."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln, pdtr, xlogy

from privreg.base.arrays import Array
from privreg.protocol.counts import FARTHEST, LARGE


def unit(c: float | Array, eta: Array, y: Array) -> Array:
    """Unit score of every record, shape (n,): the NumPy twin of `protocol.counts.unit`."""
    root, a = _roots(eta)[0], correction(c, eta)
    with np.errstate(over="ignore", invalid="ignore"):
        return np.asarray((a - np.clip(y / root - root, -c, c)) / (c + np.abs(a)))


def correction(c: float | Array, eta: Array) -> Array:
    """Mean of the clipped Pearson residual under the Poisson distribution of mean exp(η), same shape as `eta`."""
    root, mean = _roots(eta)
    with np.errstate(over="ignore", invalid="ignore"):
        a = np.asarray(-c * np.exp(-0.5 * np.square(c)) / (3.0 * math.sqrt(2.0 * math.pi) * root))
    small = ~(eta > LARGE) & ~np.isnan(a)
    if not small.any():
        return a
    root, mean = root[small], mean[small]
    threshold = np.broadcast_to(c, a.shape)[small]
    out, total, p = np.zeros_like(mean), np.zeros_like(mean), np.exp(-mean)
    last = float(np.max(mean + np.minimum(threshold * root, 8.0 * root + 16.0)))
    for k in range(math.floor(last) + 1):
        out += np.clip((k - mean) / root, -threshold, threshold) * p
        total += p
        p *= mean / (k + 1.0)
    a[small] = out + threshold * (1.0 - total)
    return a


def moments(c: float, y_max: float, here: Array, there: Array) -> tuple[Array, Array, Array]:
    """Mean of the unit score at `here`, its derivative by `there`, and mean square; shape (m,).

    Counts are Poisson's of mean exp(there), clamped to `y_max`. Their distribution function F gives all: with j and l
    the counts just within the thresholds and the upper one u = min(c, (y_max − m)/√m),

        E ψ = u {1 − F(l)} − c F(j) + [λ {F(l − 1) − F(j − 1)} − m {F(l) − F(j)}]/√m.
    """
    root, mean = _roots(here)
    at = np.minimum(there, math.log(y_max))
    rate = np.exp(np.maximum(at, -FARTHEST))
    top = np.clip((y_max - mean) / root, -c, c)
    low, high = np.floor(mean - c * root), np.floor(mean + top * root)

    def below(j: Array) -> Array:
        return np.where(j >= 0.0, pdtr(np.maximum(j, 0.0), rate), 0.0)

    def chance(j: Array) -> Array:
        known = np.maximum(j, 0.0)
        return np.where(j >= 0.0, np.exp(xlogy(known, rate) - rate - gammaln(known + 1.0)), 0.0)

    first, last = below(low), below(high)
    inside = [last - first, *(below(high - k) - below(low - k) for k in (1.0, 2.0))]
    psi = top * (1.0 - last) - c * first + (rate * inside[1] - mean * inside[0]) / root
    rise = inside[1] / root + (top + (mean - high) / root) * chance(high) + (c - (mean - low) / root) * chance(low)
    middle = rate**2 * inside[2] + (rate - 2.0 * mean * rate) * inside[1] + mean**2 * inside[0]
    square = top**2 * (1.0 - last) + c**2 * first + np.maximum(middle, 0.0) / mean
    a = correction(c, here)
    most = c + np.abs(a)
    slope = np.where(there > at, 0.0, -rate * rise / most)
    return (a - psi) / most, slope, np.minimum((square - 2.0 * a * psi + a * a) / most**2, 1.0)


def _roots(eta: Array) -> tuple[Array, Array]:
    """√m and m at the linear predictor."""
    root = np.exp(0.5 * np.clip(eta, -FARTHEST, FARTHEST))
    return root, root * root
