"""Compiled: slopes of losses, and the descent by single records. One file: a cached caller elsewhere would go stale.

Twins in NumPy are in `tests/published/descent/twins.py`, operation by operation.
"""

from __future__ import annotations

import math
from typing import Any, Final

from numba import njit, vectorize

from privreg.arrays import Array, Ints

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
        s = -a if y - eta >= 0.0 else 1.0 - a
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
    `wait` have passed, both of shape (p,) and changed in place. Returned is how many are still to be left out.
    """
    p = w.shape[0]
    for t in range(order.shape[0]):
        i = order[t]
        eta = 0.0
        for j in range(p):
            eta += x[i, j] * w[j]
        move = step * slope(code, a, bound, eta, y[i])
        size = 0.0
        for j in range(p):
            w[j] -= move * x[i, j]
            size += w[j] * w[j]
        shrink = radius / math.sqrt(size) if radius > 0.0 and size > radius * radius else 1.0
        for j in range(p):
            w[j] *= shrink
            if wait <= 0:
                total[j] += w[j]
        wait -= wait > 0
    return wait
