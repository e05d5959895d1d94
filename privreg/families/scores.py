"""Scores in internal units: the numbers the kernel needs, and readable NumPy twins of its functions."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.families import counts
from privreg.protocol import codes
from privreg.protocol.plans import Shape

_OF_PREDICTOR: Final = frozenset(
    {codes.LOGISTIC, codes.BALANCED, codes.POISSON, codes.ROBUST_POISSON, codes.SQUARED, codes.MULTINOMIAL}
)
"""Families whose curvature follows from the linear predictor."""


@dataclass(frozen=True)
class Score:
    """Scalar score ψ(η, y), so that a person's score is ψ·ω(x)·x, in internal units."""

    shape: Shape  # The score over its bound
    c: float  # Huber threshold in internal response units, where the family has one
    bound: float  # sup abs ψ
    curvature_bound: float  # sup ∂ψ/∂η; inf where curvature can't be reported
    # Range of ψ over all responses, where it is narrower than ± bound
    low: float | None = None
    high: float | None = None

    @property
    def range(self) -> tuple[float, float]:
        """Lowest and highest ψ."""
        return -self.bound if self.low is None else self.low, self.bound if self.high is None else self.high


def unit(
    shape: Shape, c: float | Array, eta: Array, y: Array, function: Callable[[float, float], float] | None = None
) -> Array:
    """Scalar score over its bound, in [−1, 1], shape (n,): equation (2) of docs/estimator.md.

    `eta` and `y`, the linear predictor and the response in internal units, have any one shape but for a family of one's
    own, whose score over its bound is `function`; the threshold `c` of Huber, Expectile and robust counts goes with
    them.

    See XSJKH (arXiv 2505.08227), section 5, for Huber, logistic and expectile.
    """
    a, b = shape.a, shape.b
    with np.errstate(over="ignore", invalid="ignore"):
        match shape.family:
            case codes.HUBER:
                r = np.asarray((y - eta) / c)
                return np.negative(np.clip(r, -1.0, 1.0, out=r), out=r)
            case codes.EXPECTILE:
                r = (y - eta) / c
                return np.asarray(-(np.where(r >= 0.0, a, 1.0 - a) / b) * np.clip(r, -1.0, 1.0))
            case codes.QUANTILE:
                r = y - eta
                return np.where(r >= 0.0, -a / b, np.where(r < 0.0, (1.0 - a) / b, np.nan))
            case codes.LOGISTIC:
                return np.asarray(_logistic(eta) - y)
            case codes.BALANCED:
                e = np.exp(-np.abs(eta))
                return np.where(eta >= 0, (1.0 - y) - (1.0 - (1.0 - y)) * e, -(y - (1.0 - y) * e))
            case codes.POISSON:
                mean = np.exp(eta)
                if b:
                    return np.asarray((np.minimum(mean, a) - y) / a)
                return np.where(eta > math.log(0.5 * a), 1.0 - y * np.exp(-eta), (mean - y) / (a - mean))
            case codes.ROBUST_POISSON:
                return counts.unit(c, eta, y)
            case codes.HINGE:
                side = 2.0 * y - 1.0
                margin = side * eta
                return np.where(margin < 1.0, -side, np.where(margin >= 1.0, 0.0, np.nan))
            case codes.SMOOTHED_HINGE:
                side = 2.0 * y - 1.0
                return np.asarray(-side * np.clip((1.0 - side * eta) / a, 0.0, 1.0))
            case codes.SQUARED:
                return np.asarray((np.clip(eta, a, b) - np.clip(y, a, b)) / (b - a))
            case codes.CUSTOM if function is not None:
                values = [function(float(e), float(v)) for e, v in zip(eta, y, strict=True)]
                return np.asarray(np.clip(np.array(values), -1.0, 1.0))
    raise ValueError("no scalar score of this code")


def ends(
    shape: Shape,
    c: float,
    eta: Array,
    y_low: float,
    y_high: float,
    function: Callable[[float, float], float] | None = None,
) -> tuple[Array, Array]:
    """Range of the unit score over the public limits of the response, lowest and highest, each of shape (n,)."""
    one = np.ones_like(eta)
    low, high = unit(shape, c, eta, y_high * one, function), unit(shape, c, eta, y_low * one, function)
    if shape.family == codes.CUSTOM:  # one that is not a number there, at infinity: its bound is known
        low, high = np.where(np.isnan(low), -1.0, low), np.where(np.isnan(high), 1.0, high)
    return low, high


def _logistic(eta: Array) -> Array:
    e = np.exp(-np.abs(eta))
    return np.where(eta >= 0, 1.0 / (1.0 + e), e / (1.0 + e))


def psi(score: Score, eta: Array, y: Array, function: Callable[[float, float], float] | None = None) -> Array:
    """Scalar score ψ(η, y) = ∂ρ/∂η; arguments as for :func:`unit`, shape (n,)."""
    if score.shape.family == codes.HUBER:
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(-np.clip(y - eta, -score.c, score.c))
    return score.bound * unit(score.shape, score.c, eta, y, function)


def near(
    shape: Shape, c: float, eta: Array, y: Array, function: Callable[[float, float], float] | None = None
) -> Array:
    """Number in [0, 1] that a joint report carries, shape (n,).

    abs r ≤ c for scores of residuals; min(1, c/2) where the linear predictor tells the curvature, so that c learns
    the share of those who answer; else half the rise of the score from η − c to η + c. Its mean over c is the
    curvature near c, and c is tracked so that the mean is a given one.
    """
    if shape.family in codes.RESIDUALS:
        with np.errstate(over="ignore", invalid="ignore"):
            return (np.abs(y - eta) <= c).astype(np.float64)
    if shape.family in _OF_PREDICTOR:
        return np.full(np.shape(y), min(0.5 * c, 1.0))
    with np.errstate(over="ignore", invalid="ignore"):
        rise = 0.5 * (unit(shape, 1.0, eta + c, y, function) - unit(shape, 1.0, eta - c, y, function))
        return np.where(rise > 0.0, np.minimum(rise, 1.0), 0.0)


def multinomial(theta: Array, z: Array, y: Array) -> Array:
    """Balanced multinomial score over classes k ≥ 1, before it is multiplied by the covariates, shape (n, K − 1).

    (π − e_y) / max_k ‖π − e_k‖, where e_0 = 0: of norm 1 at most, with mean zero where the model holds, as the divisor
    depends on covariates only. For two classes it is the balanced logistic score. `theta` has the shape (K − 1, d), `z`
    (n, d), and `y`, of classes 0 … K − 1, (n,).
    """
    eta = np.column_stack([np.zeros(len(z)), z @ theta.T])
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    ends = np.eye(eta.shape[1])[:, 1:]
    largest = np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1)
    return np.asarray((share[:, 1:] - ends[y.astype(np.intp)]) / largest[:, None])
