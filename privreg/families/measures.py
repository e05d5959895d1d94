"""Privately released measures of fit: the last people of a stream tell how well it predicts them, instead of a score.

Each of them sends a few numbers in [0, 1] at the final estimate, randomised like every other report, so the measures
cost people, and no budget. `values` is what a device computes; `summarise` turns the mean of the reports into
measures, with standard errors from the reports' own covariance.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.families.family import Family
from privreg.protocol import codes

CAP: Final = 5.0  # Losses are clipped to it: log-losses and hinge losses are rarely larger

NORMAL_95: Final = 1.959963984540054

LEAST: Final = dict.fromkeys(
    (
        "residual sd",
        "share below",
        "mean deviance",
        "mean response",
        "mean prediction",
        "accuracy",
        "hinge loss",
        "log-loss",
    ),
    0.0,
)
MOST: Final = dict.fromkeys(("R²", "deviance explained", "share below", "accuracy"), 1.0)
"""Least and largest possible values of measures that have one."""

REACH: Final = 3.0  # Learned sd to which residuals and responses are clipped


class Gauge(NamedTuple):
    """Public constants of reports on measures of fit, internal units of the response."""

    family: int  # Kernel code
    tau: float
    classes: int
    # Limits to which residuals, and responses about `centre`, are clipped
    residual: float
    spread: float
    centre: float
    y_max: float  # Largest count
    # True if records may be unusable; then they send zeros, and all others a further 1
    nonresponse: bool = False

    @property
    def numbers(self) -> int:
        """Numbers that each person reports, without that 1."""
        return _count(self.family, self.classes)


class Measure(NamedTuple):
    """One measure of fit."""

    name: str
    estimate: float
    std_error: float
    meaning: str


def count(family: Family, classes: int) -> int:
    """Numbers that each person reports; 0 if a family has no measures."""
    return _count(family.code, classes)


def _count(family: int, classes: int) -> int:
    match family:
        case codes.HUBER | codes.SQUARED | codes.LOGISTIC | codes.POISSON:
            return 3
        case codes.MULTINOMIAL:
            return classes + 1
        case codes.EXPECTILE | codes.QUANTILE:
            return 1
        case codes.HINGE | codes.SMOOTHED_HINGE:
            return 2
    return 0


def values(gauge: Gauge, eta: Array, y: Array) -> Array:
    """Numbers of every person, in [0, 1], shape (n, m); NaN for unusable records.

    `eta`, shape (n, b), are linear predictors at the final estimate, `y`, shape (n,), responses.
    """
    first = eta[:, 0]
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        match gauge.family:
            case codes.HUBER | codes.SQUARED:
                r, centred = (y - first) / gauge.residual, (y - gauge.centre) / gauge.spread
                columns = [
                    np.clip(r**2, 0.0, 1.0),
                    np.clip(centred**2, 0.0, 1.0),
                    0.5 + 0.5 * np.clip(centred, -1.0, 1.0),
                ]
            case codes.EXPECTILE | codes.QUANTILE:
                columns = [np.where(np.isnan(y - first), np.nan, (y < first).astype(np.float64))]
            case codes.POISSON:
                mean, top = np.exp(np.minimum(first, 700.0)), gauge.y_max
                saturated = np.where(y > 0.0, y * np.log(np.maximum(y, 1e-300)), 0.0)
                unit = 2.0 * (saturated - y * first - (y - mean))
                columns = [np.clip(unit / (2.0 * CAP), 0.0, 1.0), y / top, np.clip(mean / top, 0.0, 1.0) + 0.0 * y]
            case codes.HINGE | codes.SMOOTHED_HINGE:
                margin = (2.0 * y - 1.0) * first
                right = np.where(np.isnan(margin), np.nan, (margin > 0.0).astype(np.float64))
                columns = [np.clip(np.maximum(1.0 - margin, 0.0) / CAP, 0.0, 1.0), right]
            case _:  # classes
                full = np.column_stack([np.zeros(len(y)), eta])
                top = full.max(axis=1, keepdims=True)
                log_share = full - top - np.log(np.exp(full - top).sum(axis=1, keepdims=True))
                known = ~np.isnan(log_share).any(axis=1) & ~np.isnan(y)
                k = np.where(known, y, 0.0).astype(np.intp)
                loss = -log_share[np.arange(len(y)), k]
                right = (log_share.argmax(axis=1) == k).astype(np.float64)
                shares = [(k == c).astype(np.float64) for c in range(1, gauge.classes)]
                columns = [np.where(known, v, np.nan) for v in (np.clip(loss / CAP, 0.0, 1.0), right, *shares)]
    out = np.column_stack(columns)
    if not gauge.nonresponse:
        return out
    usable = np.asarray(~np.isnan(out).any(axis=1))
    return np.column_stack([np.where(usable[:, None], out, 0.0), usable.astype(np.float64)])


def summarise(gauge: Gauge, mean: Array, cov: Array, unit: float) -> tuple[Measure, ...]:
    """Measures of fit from the mean report, shape (m,), and its covariance; `unit` is the internal unit."""
    out = []
    for name, of_usable, meaning in _measures(gauge, unit):
        measure = partial(_of_usable, of_usable) if gauge.nonresponse else of_usable
        at = measure(mean)
        slope = np.array([_slope(measure, mean, j) for j in range(len(mean))])
        out.append(Measure(name, at, math.sqrt(max(float(slope @ cov @ slope), 0.0)), meaning))
    return tuple(out)


def _of_usable(measure: Callable[[Array], float], means: Array) -> float:
    """Measure of usable records, from means over all records and the share of usable ones, which comes last."""
    return measure(means[:-1] / max(float(means[-1]), 1e-3))


def _slope(measure: Callable[[Array], float], mean: Array, j: int) -> float:
    step = 1e-6
    moved = np.zeros(len(mean))
    moved[j] = step
    return (measure(mean + moved) - measure(mean - moved)) / (2.0 * step)


def _measures(gauge: Gauge, unit: float) -> list[tuple[str, Callable[[Array], float], str]]:
    g = gauge

    def residual2(m: Array) -> float:
        return float(m[0]) * g.residual**2

    def residual_sd(m: Array) -> float:
        return math.copysign(math.sqrt(abs(residual2(m))), residual2(m)) * unit

    def r_squared(m: Array) -> float:
        total = float(m[1]) * g.spread**2 - ((2.0 * float(m[2]) - 1.0) * g.spread) ** 2
        return 1.0 - residual2(m) / total if total > 0.0 else math.nan

    def explained(m: Array) -> float:
        shares = np.clip([1.0 - float(m[2:].sum()), *m[2:]], 1e-9, 1.0)
        return 1.0 - CAP * float(m[0]) / max(-float(np.sum(shares * np.log(shares))), 1e-12)

    match g.family:
        case codes.HUBER | codes.SQUARED:
            clipped = f"residuals and responses clipped at {REACH:g} learned sd"
            return [
                ("R²", r_squared, f"share of the response's variance that the fit explains; {clipped}"),
                ("residual sd", residual_sd, f"in the response's units; {clipped}"),
            ]
        case codes.EXPECTILE | codes.QUANTILE:
            return [("share below", lambda m: float(m[0]), f"of responses below the line; {g.tau:g} for a quantile")]
        case codes.POISSON:
            return [
                ("mean deviance", lambda m: 2.0 * CAP * float(m[0]), f"of a person, clipped at {2 * CAP:g}"),
                ("mean response", lambda m: float(m[1]) * g.y_max, "mean count"),
                ("mean prediction", lambda m: float(m[2]) * g.y_max, "mean of what the fit predicts"),
            ]
        case codes.HINGE | codes.SMOOTHED_HINGE:
            return [
                ("accuracy", lambda m: float(m[1]), "share of people on their side of the hyperplane"),
                ("hinge loss", lambda m: CAP * float(m[0]), f"mean of max(0, 1 − margin), clipped at {CAP:g}"),
            ]
    return [
        ("deviance explained", explained, f"share of the null deviance (McFadden); log-losses clipped at {CAP:g}"),
        ("log-loss", lambda m: CAP * float(m[0]), f"mean −log probability of what was seen, clipped at {CAP:g}"),
        ("accuracy", lambda m: float(m[1]), "share of people whose likeliest class is their own"),
    ]


def frame(measures: Sequence[Measure]) -> pd.DataFrame:
    """Table of measures, with normal 95% limits."""
    out = pd.DataFrame(list(measures), columns=["measure", "estimate", "std_error", "meaning"])
    half = NORMAL_95 * out["std_error"]
    low, high = (out["measure"].map(end).astype(float) for end in (LEAST, MOST))
    # where a limit is beyond what is possible, what is possible is as good
    out.insert(3, "conf_low", (out["estimate"] - half).clip(lower=low.fillna(-np.inf)))
    out.insert(4, "conf_high", (out["estimate"] + half).clip(upper=high.fillna(np.inf)))
    return out
