"""Slopes of losses at many predictors at once, by NumPy: those of the compiled loops, one operation after another."""

from __future__ import annotations

import numpy as np

from privreg.arrays import Array
from privreg.central.kernels import HINGE, HUBER, LOGISTIC, PINBALL, Q_NORM, SMOOTHED_HINGE


def slope(code: int, a: float, bound: float, eta: Array, y: Array) -> Array:
    """φ'(η, y) clipped to [−bound, bound], elementwise; see `kernels.slope`."""
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
        if code == HINGE:
            s = -side * (slack > 0.0)
        elif code == SMOOTHED_HINGE:
            s = -side * np.minimum(slack / a, 1.0)
        else:
            s = -side * a * np.where(slack > 0.0, slack ** (a - 1.0), 0.0)
    return np.asarray(np.clip(s, -bound, bound))
