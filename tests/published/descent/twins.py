"""NumPy twins of the compiled loops: the same operations, to be read and to be tested against."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privreg.published.descent.kernels import HUBER, LOGISTIC, PINBALL, Q_NORM, SMOOTHED_HINGE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]
    Ints = NDArray[np.int64]

__all__ = ["loss_value", "noisy_walk", "slope", "walk"]


def loss_value(code: int, a: float, eta: Array, y: Array) -> Array:
    """φ(η, y), elementwise; for tests and benchmarks, never shown of private rows."""
    if code == LOGISTIC:
        side = 2.0 * y - 1.0
        return np.asarray(np.logaddexp(0.0, -side * eta))
    if code == HUBER:
        r = np.abs(y - eta)
        return np.where(r <= a, r * r / 2, a * (r - a / 2))
    if code == PINBALL:
        r = y - eta
        return np.maximum(a * r, (a - 1.0) * r)
    if code == Q_NORM:
        return np.asarray(np.abs(y - eta) ** a)
    slack = np.maximum(1.0 - (2.0 * y - 1.0) * eta, 0.0)
    if code == SMOOTHED_HINGE:
        return np.where(slack <= a, slack * slack / (2 * a), slack - a / 2)
    return np.asarray(slack**a)


def slope(code: int, a: float, bound: float, eta: Array, y: Array) -> Array:
    """φ'(η, y) clipped to [−bound, bound], elementwise; see `losses.slope`."""
    if code == LOGISTIC:
        e = np.exp(-np.abs(eta))
        s = np.where(eta >= 0, 1.0, e) / (1.0 + e) - y
    elif code == HUBER:
        s = np.clip(eta - y, -a, a)
    elif code == PINBALL:
        s = np.where(y - eta >= 0.0, -a, 1.0 - a)
    elif code == Q_NORM:
        r = eta - y
        s = np.where(r >= 0.0, 1.0, -1.0) * a * np.abs(r) ** (a - 1.0)
    else:
        side = 2.0 * y - 1.0
        slack = np.maximum(1.0 - side * eta, 0.0)
        if code == SMOOTHED_HINGE:
            s = -side * np.minimum(slack / a, 1.0)
        else:
            s = -side * a * np.where(slack > 0.0, slack ** (a - 1.0), 0.0)
    return np.asarray(np.clip(s, -bound, bound))


def _projected(w: Array, radius: float) -> Array:
    size = math.sqrt(float(w @ w))
    return w * (radius / size) if 0.0 < radius < size else w


def walk(x: Array, y: Array, order: Ints, code: int, a: float, bound: float, step: float, radius: float) -> Array:
    """Iterates of the descent by one record at a time, from 0, shape (k, p); see `kernels.walk`."""
    w, out = np.zeros(x.shape[1]), []
    for i in order:
        eta = np.array([x[i] @ w])
        w = _projected(w - step * slope(code, a, bound, eta, y[i : i + 1])[0] * x[i], radius)
        out.append(w)
    return np.array(out)


def noisy_walk(
    x: Array,
    y: Array,
    batches: list[Ints],
    noise: Array,
    code: int,
    a: float,
    bound: float,
    scale: float,
    radius: float,
) -> Array:
    """Iterates of the descent by noisy sums over batches, from 0, each times `scale`, shape (k, p)."""
    w, out = np.zeros(x.shape[1]), []
    for members, extra in zip(batches, noise, strict=True):
        rows = x[members]
        gradient = extra + slope(code, a, bound, rows @ w, y[members]) @ rows
        w = _projected(w - scale * gradient, radius)
        out.append(w)
    return np.array(out)
