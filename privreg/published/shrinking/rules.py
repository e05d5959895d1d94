"""Shrinking many noisy means: HDR4ME* as published, beside SURE-tuned soft thresholding and James–Stein.

All of it is post-processing of estimates and their known standard deviations, on the scale where every range is [-1, 1]
and the value to shrink to is 0.

HDR4ME* needs two warnings. Its L2 rule takes the deviation's mean for the true mean θ̄ in λ = q/(2θ̄), q a quantile of
abs(deviation): that is 0 for an unbiased mechanism, so that λ is infinite and the estimate 0, whatever the reports say.
And its Theorems 4 and 5 take the probability that *some* deviation exceeds 1 for the probability that *all* do
(`threshold_probabilities` of `benchmarks/papers/duan.py`). ``python -m benchmarks.means shrinkage`` measures where each
wins.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr, ndtri

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, level

SHRINKAGE: Final = ("sure", "james_stein", "hdr4me")


def within(mean: Array, sd: Array, limit: Any) -> Array:
    """P(|N(mean, sd²)| ≤ limit)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inside = ndtr((limit - mean) / sd) - ndtr((-limit - mean) / sd)
    return np.asarray(np.where(sd > 0.0, inside, (np.abs(mean) <= limit).astype(np.float64)))


def soft_threshold(estimates: ArrayLike, thresholds: ArrayLike) -> Array:
    """Take estimates towards 0 by their thresholds, at most to 0; an L1 penalty's solution."""
    x = np.asarray(estimates, dtype=np.float64)
    return np.asarray(np.sign(x) * np.maximum(np.abs(x) - np.asarray(thresholds), 0.0))


def hdr4me(
    estimates: ArrayLike, sds: ArrayLike, *, bias: ArrayLike = 0.0, quantile: float = 0.95, rule: str = "mixture"
) -> Array:
    """Regularise estimates as HDR4ME* does, coordinate by coordinate, shape (d,); Duan (2025), PhD thesis.

    `sds` and `bias`, shape (d,), are standard deviations of the deviations from the true means, and their means, 0 for
    unbiased mechanisms. L1 has this `quantile` of abs(deviation) for λ. L2 divides by 2λ + 1 with λ = quantile/(2
    abs(bias)), eqs. 4.53 and 4.56, and so gives 0 for an unbiased mechanism, as published. The `rule` "mixture" takes
    none, "l1" and "l2" with weights P(abs(dev) ≤ 1), P(1 < abs(dev) ≤ 2) and the rest.
    Raises OptionError if the rule is unknown, or the quantile not in (0, 1).
    """
    choose("rule", rule, ("mixture", "l1", "l2"))
    x, sd = np.asarray(estimates, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    shift = np.broadcast_to(np.asarray(bias, dtype=np.float64), x.shape)
    q = 1.0 - level(1.0 - quantile)
    low, threshold = np.zeros_like(sd), np.abs(shift) + sd * float(-ndtri((1.0 - q) / 2.0))
    for _ in range(60 if np.any(shift) else 0):  # the quantile of abs(deviation), by bisection
        middle = 0.5 * (low + threshold)
        short = within(shift, sd, middle) < q
        low, threshold = np.where(short, middle, low), np.where(short, threshold, middle)
    one = soft_threshold(x, threshold)
    with np.errstate(divide="ignore", invalid="ignore"):
        two = np.where(threshold > 0.0, x / (threshold / np.abs(shift) + 1.0), x)  # λ is 0 without deviations
    if rule != "mixture":
        return one if rule == "l1" else two
    first, second = (within(shift, sd, t) for t in (1.0, 2.0))
    return np.asarray(first * x + (second - first) * one + (1.0 - second) * two)


def sure_threshold(estimates: ArrayLike, sds: ArrayLike) -> float:
    """Threshold, in units of each sd, that minimises Stein's unbiased estimate of the risk of soft thresholding.

    0 leaves the estimates, shape (d,), as they are; see Donoho & Johnstone (1995), section 2.
    """
    x, sd = np.asarray(estimates, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    some = sd > 0.0
    if not some.any():
        return 0.0
    z, v = np.abs(x[some] / sd[some]), sd[some] ** 2
    order = np.argsort(z)
    z, v = z[order], v[order]
    # risk at threshold t: Σ v − 2 Σ_{z ≤ t} v + Σ v min(z, t)²; its minimum is at 0 or at one of the |z|
    small, square = np.cumsum(v), np.cumsum(v * z**2)
    risk = v.sum() - 2.0 * small + square + (v.sum() - small) * z**2
    best = int(np.argmin(risk))
    return float(z[best]) if risk[best] < v.sum() else 0.0


def james_stein(estimates: ArrayLike, sds: ArrayLike) -> Array:
    """Shrink all estimates, shape (d,), by one factor, Stein's positive part; weighted by precision where sds differ.

    max(0, 1 − (d − 2)/Σ(x/sd)²) times the estimates; unchanged for d < 3. With equal sds its risk is below that of the
    estimates for all means; with unequal ones the risk in units of each sd is. See Efron & Morris (1973).
    """
    x, sd = np.asarray(estimates, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    d = len(x)
    if d < 3 or not (sd > 0.0).all():
        return x.copy()
    return np.asarray(max(0.0, 1.0 - (d - 2) / max(float(np.sum((x / sd) ** 2)), 1e-300)) * x)


def shrink(estimates: ArrayLike, sds: ArrayLike, method: str = "sure") -> Array:
    """Shrink unbiased estimates of many means on [-1, 1], with their sds, shapes (d,), towards 0.

    By "sure": soft thresholding at the threshold of least estimated risk, good where most means are near the middle and
    few are not. "james_stein": positive part, good where all are somewhat near. "hdr4me": as published, with λ the 95%
    quantile of abs(deviation); it gives up coordinates (0) whose sd is above about 1.
    Raises OptionError if the method is unknown, or the arrays are not finite and of one length.

    Examples
    --------
    >>> shrink([0.02, -0.04, 0.03, 0.9], [0.1] * 4).round(2).tolist()
    [0.0, -0.0, 0.0, 0.86]
    """
    kind = choose("method", method, SHRINKAGE)
    x, sd = np.asarray(estimates, dtype=np.float64), np.asarray(sds, dtype=np.float64)
    if x.ndim != 1 or x.shape != sd.shape or not np.isfinite(x).all() or not np.isfinite(sd).all() or (sd < 0).any():
        raise OptionError("estimates and their sds must be finite arrays of one length, sds not negative.")
    if kind == "sure":
        return soft_threshold(x, sure_threshold(x, sd) * sd)
    return (hdr4me if kind == "hdr4me" else james_stein)(x, sd)
