"""Compiled slopes of the published descent's losses, and steps along them.

Twins are in `tests/published/descent/twins.py`, operation by operation.
"""

import math
from typing import Any

from numba import njit, vectorize

from privreg.base.arrays import Array, Ints

LOGISTIC, SMOOTHED_HINGE, PINBALL, HUBER, Q_HINGE, Q_NORM = range(6)


@njit(cache=True, nogil=True, error_model="numpy")
def slope(code: int, a: float, bound: float, eta: float, y: float) -> float:
    """φ'(η, y), clipped to [−bound, bound], which leaves a convex loss with the same Hölder constant."""
    r, side = eta - y, 2.0 * y - 1.0
    slack = 1.0 - side * eta
    s = 0.0
    if code == LOGISTIC:
        e = math.exp(-abs(eta))
        s = (1.0 / (1.0 + e) if eta >= 0 else e / (1.0 + e)) - y
    elif code == HUBER:
        s = min(max(r, -a), a)
    elif code == PINBALL:
        s = -a if r <= 0.0 else 1.0 - a
    elif code == Q_NORM:
        s = math.copysign(a * abs(r) ** (a - 1.0), r)
    elif slack > 0.0:
        s = -side * (min(slack / a, 1.0) if code == SMOOTHED_HINGE else a * slack ** (a - 1.0))
    return min(max(s, -bound), bound)


slopes: Any = vectorize(cache=True)(slope.py_func)  # `slope` of many predictors at once


@njit(cache=True, nogil=True, error_model="numpy")
def walk(
    x: Array, y: Array, order: Ints, loss: tuple[int, float, float], step: float, radius: float, w: Array, total: Array,
    wait: int,
) -> int:  # fmt: skip
    """Descend by one record at a time, in this `order`; `loss` is code, a and bound of :func:`slope`.

    x has shape (n, p), y (n,). Iterates `w` are kept in the ball of `radius`, 0 for none, and summed in `total` once
    `wait` have passed, both of shape (p,) and changed in place. Returned is how many are still to be left out.
    """
    p = w.shape[0]
    for i in order:
        eta = 0.0
        for j in range(p):
            eta += x[i, j] * w[j]
        move, size = step * slope(loss[0], loss[1], loss[2], eta, y[i]), 0.0
        for j in range(p):
            w[j] -= move * x[i, j]
            size += w[j] * w[j]
        shrink = radius / math.sqrt(size) if radius > 0.0 and size > radius * radius else 1.0
        for j in range(p):
            w[j] *= shrink
            total[j] += w[j] if wait <= 0 else 0.0
        wait -= wait > 0
    return wait
