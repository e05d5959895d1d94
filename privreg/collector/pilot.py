"""Pilot fit: coefficients and residual scale by minimum distance between pilot reports and the reference model."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.estimation.curvature import COMMON
from privreg.collector.estimation.reference import Reference, expected
from privreg.families.scores import ScoreRules

MODELLED: Final = 0.7  # Part of the mean scores that the reference model gets right, at least
FLAT: Final = 0.25  # Part of its largest slope that a score of bounded curvature has at the longest slopes
HEAPED: Final = 2.5  # Standard errors by which a heap of residuals must exceed its normal share


def doubt() -> float:
    """Sd of the error of the reference model's mean scores, relative to the length of a round's mean.

    Also that of its variance of scores, relative to that variance. For the covariate of "two peaks"
    (`benchmarks.validity`) it is a third too small: with it alone, intervals at μ = 8 cover 89 and 91%, with
    `estimate.scattered`, 94 and 95%.
    """
    return 1.0 - MODELLED


TURNS: Final = 60
PRECISE: Final = 1e-2  # Gain, in units of a squared standard error, that is worth no further step
SHORTEST: Final = 1e-4  # Part of a step that is tried, at least


def farthest() -> float:
    """Length L of the slopes, whitened coordinates, beyond which a score of bounded curvature has little of it left.

    E p (1 − p) of a logistic one's normal predictors is near 1/(L √2π): a part `FLAT` of the largest.
    """
    return 4.0 / (FLAT * math.sqrt(2.0 * math.pi))


class Observed(NamedTuple):
    """Mean report of the records that answered one state."""

    theta: Array  # The state; shape (b d,)
    c: float
    score: Array  # shape (b d,)
    number: float | None  # Mean number of joint reports; None if the round has none
    variance: float  # Variance of a coordinate of the mean score, noise and sampling: (σ² + 1/(2d))/n of equation (16)
    number_variance: float  # Variance of the mean number, noise and sampling: (σ_J² + 1/4)/n


class Fitted(NamedTuple):
    """Coefficients and residual scale, with their covariance."""

    theta: Array  # shape (b d,)
    scale: float
    cov: Array  # Covariance of (θ, log s); shape (b d + 1, b d + 1)


def fit(model: Reference, seen: Sequence[Observed], guess: Fitted, prior: Fitted) -> Fitted:
    """Minimum-distance fit, equation (16) of docs/estimator.md, by Gauss–Newton steps, shortened until they gain.

    It begins at `guess`, unless the mean of `prior`, which holds before any pilot report, agrees better with the
    reports.
    """
    size = len(guess.theta)
    precision = np.asarray(np.linalg.inv(prior.cov), dtype=np.float64)
    at = np.append(guess.theta, math.log(guess.scale))
    origin = np.append(prior.theta, math.log(prior.scale))
    value, gradient, hessian = _distance(model, seen, at, origin, precision)
    if len(seen) == 1 and not np.array_equal(at, origin):
        found = _distance(model, seen, origin, origin, precision)
        if found[0] < value:
            at, (value, gradient, hessian) = origin, found
    for _ in range(TURNS):
        step = -np.linalg.solve(hessian, gradient)
        promised, enough = -float(gradient @ step), PRECISE * (1.0 + abs(value))  # if scores were straight
        if promised < enough:
            break
        part, new = 1.0, _held(at + step, model, size)
        found = _distance(model, seen, new, origin, precision)
        while not found[0] < value and part > SHORTEST:
            # D along the step is taken for a parabola: D(0) = value, D'(0) = −2 promised, D(part) = found; its minimum
            least = part * promised / (found[0] - value + 2.0 * part * promised)
            part *= min(max(least, 0.1), 0.5)
            new = _held(at + part * step, model, size)
            found = _distance(model, seen, new, origin, precision)
        gained = value - found[0]
        if not gained > 0.0:
            break
        at, (value, gradient, hessian) = new, found
        if gained < enough:
            break
    return Fitted(at[:size], math.exp(float(at[size])), np.asarray(np.linalg.inv(hessian), dtype=np.float64))


def threshold_of_counts(rules: ScoreRules, eta: Array, unsure: float) -> float:
    """Threshold c of Pearson residuals while predictors, shape (m,), are known to ± `unsure`; the declared c at 0.

    A predictor that is off by e moves Pearson residuals by about √m e: wide thresholds keep all from being clipped.
    """
    mean = float(np.mean(np.exp(np.minimum(eta, math.log(rules.shape.a)))))
    return math.hypot(rules.ratio, math.sqrt(mean) * min(unsure, 1.0))


def heaped(model: Reference, last: Observed, scale: float) -> bool:
    """True if the last pilot round has more residuals within its threshold c than a smooth density leaves there.

    The pilot brings c to half of the scale s at which normal residuals have the reported share within c: 2 Φ(1/2) − 1 =
    38%. Near the estimate a smooth density's share is in proportion to c: there is such an s whatever its shape. Where
    more than 38% of residuals are at one point there is none: s shrinks from round to round, the share stays, and the
    fit to all rounds, with 2 Φ(c/s) − 1 at most, expects too few at the last c. The difference is compared with the
    known noise of the share, than which it varies less as s, `scale`, was fitted to it, and with what `fit` lets a
    share be off.
    """
    if last.number is None:
        return False
    more = last.number - model.answering * math.erf(last.c / (math.sqrt(2.0) * scale))
    return more > max(HEAPED * math.sqrt(last.number_variance), COMMON * last.number)


def _held(at: Array, model: Reference, size: int) -> Array:
    """Limit the length of slopes to `farthest()`, where scores still bend, and the log of the scale to ±60."""
    out = np.array(at)
    out[size] = min(max(out[size], -60.0), 60.0)
    if not model.scaled:
        rows = out[:size].reshape(model.blocks, -1)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows *= np.minimum(1.0, farthest() / np.maximum(length, 1e-300))
    return out


def _distance(
    model: Reference, seen: Sequence[Observed], at: Array, origin: Array, precision: Array
) -> tuple[float, Array, Array]:
    """Squared distance, half its gradient and about half its Hessian: equation (16) of docs/estimator.md."""
    size = len(at) - 1
    theta, s = at[:size], math.exp(float(at[size]))
    away = at - origin
    value, gradient, hessian = float(away @ precision @ away), precision @ away, np.array(precision)
    for one in seen:
        there = expected(model, one.theta, one.c, theta, s)
        each = 1.0 / (one.variance + doubt() ** 2 * float(one.score @ one.score) / size)
        rest = there.score - one.score
        by = np.column_stack([there.slope, there.by_scale if model.scaled else np.zeros(size)])
        value += each * float(rest @ rest)
        gradient = gradient + each * (by.T @ rest)
        hessian = hessian + each * (by.T @ by)
        if one.number is not None and model.scaled:
            each = 1.0 / (one.number_variance + (COMMON * one.number) ** 2)
            off = there.number - one.number
            row = np.append(there.number_slope, there.number_by_scale)
            value += each * off**2
            gradient = gradient + each * off * row
            hessian = hessian + each * np.outer(row, row)
    return value, gradient, hessian
