"""Compiled loops of a curator's stochastic gradient descent. One file: a cached caller elsewhere would go stale.

Their twins in NumPy are in `tests/published/descent/twins.py`, operation by operation.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
from numba import njit, vectorize

from privreg.arrays import Array, Ints, Words

HINGE: Final = 0
LOGISTIC: Final = 1
SMOOTHED_HINGE: Final = 2
PINBALL: Final = 3
HUBER: Final = 4
Q_HINGE: Final = 5
Q_NORM: Final = 6


@njit(cache=True, nogil=True, error_model="numpy")
def slope(code: int, a: float, bound: float, eta: float, y: float) -> float:
    """φ'(η, y), clipped to [−bound, bound]: a slip of the bound may cost bias, never privacy.

    Clipping the derivative of a convex loss leaves a convex loss with the same Hölder constant.
    """
    s = 0.0
    if code == LOGISTIC:
        e = math.exp(-abs(eta))
        s = (1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)) - y
    elif code == HUBER:
        s = eta - y
        s = a if s > a else s
        s = -a if s < -a else s
    elif code == PINBALL:
        r = y - eta
        s = -a if r >= 0.0 else 1.0 - a
    elif code == Q_NORM:
        r = eta - y
        size = a * abs(r) ** (a - 1.0)
        s = size if r >= 0.0 else -size
    else:
        side = 2.0 * y - 1.0
        slack = 1.0 - side * eta
        if slack > 0.0:
            if code == HINGE:
                s = -side
            elif code == SMOOTHED_HINGE:
                s = -side * min(slack / a, 1.0)
            else:
                s = -side * a * slack ** (a - 1.0)
    s = bound if s > bound else s
    return -bound if s < -bound else s


slopes: Any = vectorize(cache=True)(slope.py_func)  # The same of many predictors at once


@njit(cache=True, nogil=True, error_model="numpy")
def _shorten(w: Array, radius: float) -> None:
    """Shorten `w` to length `radius` at most, in place."""
    size = 0.0
    for j in range(w.shape[0]):
        size += w[j] * w[j]
    if size > radius * radius:
        shrink = radius / math.sqrt(size)
        for j in range(w.shape[0]):
            w[j] *= shrink


@njit(cache=True, nogil=True, error_model="numpy")
def _summed(w: Array, total: Array, wait: int) -> int:
    """Add an iterate to `total` unless `wait` more are left out; gives how many then are."""
    if wait > 0:
        return wait - 1
    for j in range(w.shape[0]):
        total[j] += w[j]
    return 0


@njit(cache=True, nogil=True, error_model="numpy")
def walk(
    x: Array,
    y: Array,
    order: Ints,
    code: int,
    a: float,
    bound: float,
    step: float,
    radius: float,
    w: Array,
    total: Array,
    wait: int,
) -> int:
    """Descend by one record at a time, in this `order`; see :func:`slope` for code, a and bound.

    x has shape (n, p), y (n,). Iterates `w` are kept in the ball of `radius`, 0 for none, and summed in `total` once
    `wait` have passed, both of shape (p,) and changed in place. Gives how many are still to be left out.
    """
    p = w.shape[0]
    for t in range(order.shape[0]):
        i = order[t]
        eta = 0.0
        for j in range(p):
            eta += x[i, j] * w[j]
        move = step * slope(code, a, bound, eta, y[i])
        if move != 0.0:
            for j in range(p):
                w[j] -= move * x[i, j]
            if radius > 0.0:
                _shorten(w, radius)
        wait = _summed(w, total, wait)
    return wait


@njit(cache=True, nogil=True, error_model="numpy")
def noisy_walk(
    x: Array,
    y: Array,
    who: Ints,
    ends: Ints,
    noise: Array,
    code: int,
    a: float,
    bound: float,
    gains: Array,
    share: float,
    radius: float,
    w: Array,
    total: Array,
    wait: int,
) -> int:
    """Descend by noisy sums over batches; the rest as for :func:`walk`.

    `who` are the members of all batches, which end at `ends`, shape (k,); `noise`, shape (k, p), is added to the sums
    of gradients. These are multiplied by `share`, one over the expected size of a batch, a public number, and by
    `gains`, shape (p, p), steps along the principal directions.
    """
    p = w.shape[0]
    gradient = np.empty(p)
    begin = 0
    for t in range(ends.shape[0]):
        for j in range(p):
            gradient[j] = noise[t, j]
        for k in range(begin, ends[t]):
            i = who[k]
            eta = 0.0
            for j in range(p):
                eta += x[i, j] * w[j]
            s = slope(code, a, bound, eta, y[i])
            for j in range(p):
                gradient[j] += s * x[i, j]
        begin = ends[t]
        for j in range(p):
            for k in range(p):
                w[j] -= gains[j, k] * share * gradient[k]
        if radius > 0.0:
            _shorten(w, radius)
        wait = _summed(w, total, wait)
    return wait


@njit(cache=True, nogil=True, error_model="numpy")
def shorten_rows(x: Array, reach: float) -> None:
    """Shorten every row to length `reach` at most, in place: the bound that the noise is scaled by then holds."""
    for i in range(x.shape[0]):
        _shorten(x[i], reach)


@njit(cache=True, nogil=True, error_model="numpy")
def shuffle(words: Words) -> Ints:
    """Uniform order of as many records as there are words: Fisher and Yates' exchanges, each uniform up to n/2^64."""
    n = words.shape[0]
    order = np.arange(n)
    for i in range(n - 1, 0, -1):
        j = np.int64(words[i] % np.uint64(i + 1))
        order[i], order[j] = order[j], order[i]
    return order
