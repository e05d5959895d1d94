"""Shares of clamped values: a few records report, for each bounded column, whether it was clamped. Collector side.

A clamped record sends 1, any other 0, a record without a usable value included. So the mean report is the share of all
records that were clamped; divided by the share of usable records, it is the share of these.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.covariates.moments import ANSWERING
from privreg.collector.plan import Bounded, Clamped, Plan, Progress
from privreg.protocol.rounds import Reports

SMALL: Final = 0.01  # Negligible share: of clamped records, and of a response's range
LARGE: Final = 0.05  # Clamped share that is detected: z times the standard error of a share is at most LARGE − SMALL
ALPHA: Final = 0.05  # Chance that any column is named though no share is above SMALL
HARM: Final = 0.5  # Standard errors by which clamping may move a coefficient: a 95% interval then covers 92%


class Shares(NamedTuple):
    """Share of usable records clamped, by column."""

    columns: tuple[Bounded, ...]
    share: Array  # shape (D,)
    error: Array  # Standard errors; shape (D,)
    people: int  # Number asked

    @property
    def surely(self) -> Array:
        """Simultaneous 95% lower limits of the shares, shape (D,)."""
        return np.asarray(self.share - quantile(len(self.columns)) * self.error)

    @property
    def most(self) -> float:
        """Upper limit of the largest share; negative estimates count as 0."""
        return min(float((np.maximum(self.share, 0.0) + quantile(len(self.columns)) * self.error).max()), 1.0)

    @property
    def noted(self) -> list[int]:
        """Places of the columns whose lower limit exceeds `SMALL`."""
        return np.flatnonzero(self.surely > SMALL).tolist()


def harmed(shares: Shares, ratios: Array, together: Array) -> list[int]:
    """Coefficients that clamping moves, at 95%, by more than `HARM` of their standard errors.

    A clamped share π moves the slopes of normal covariates by about π of themselves, so by π |t| standard errors:
    exactly by −π where least squares are of a clamped response. Skewed numbers move them up to 6 times as far. A
    clamped covariate moves the slopes of others by at most ρ/(2 (1 − ρ²)) times that (`benchmarks.clamping`). `ratios`,
    shape (b, d), are t of slopes, 0 of constants; `together`, shape (d, d), sizes ρ of correlations of the design's
    columns, 1 with the constant.

    References
    ----------
    Greene (1981), On the asymptotic bias of the ordinary least squares estimator of the Tobit model.
    """
    moved = np.zeros(len(together))
    for j in shares.noted:
        _, part, columns = shares.columns[j]
        own = list(columns) if part == "covariate" else list(range(len(together)))
        t = max(HARM / LARGE, float(np.abs(ratios[:, own]).max()))
        rho = together[own].max(axis=0)
        reach = np.minimum(0.5 * rho / np.maximum(1.0 - rho**2, 1e-300), 1.0)
        moved = np.maximum(moved, shares.surely[j] * t * reach)
    return np.flatnonzero(np.tile(moved, len(ratios)) > HARM).tolist()


def quantile(columns: int) -> float:
    """Normal quantile z of 95% intervals that hold for all columns together (Bonferroni)."""
    return float(-ndtri(0.5 * ALPHA / columns))


def people_for(columns: int, sd: float) -> int:
    """Records needed: D (z/(0.04 μ))², z of `quantile`; with hardly any noise, enough to distinguish 5% from chance.

    `sd` is the noise sd of a number of a report: √D/μ of D columns where the noise is Gaussian.

    Examples
    --------
    >>> people_for(4, 2.0)
    15597
    """
    if not columns:
        return 0
    return math.ceil((quantile(columns) / (LARGE - SMALL)) ** 2 * max(sd**2, LARGE * (1.0 - LARGE)))


def taken(number: int, reports: Reports) -> Clamped:
    """Sums of the reports of round `number`."""
    return Clamped(number, float(reports.weight.sum()), reports.total.sum(axis=(0, 1)), reports.people)


def later(clamped: Clamped, reports: Reports) -> Clamped:
    """Sums with late reports of that round added; `reports.people` counts those who were not counted before."""
    more = taken(clamped.number, reports)
    return Clamped(
        clamped.number, clamped.weight + more.weight, clamped.total + more.total, clamped.people + more.people
    )


def shares_of(plan: Plan, progress: Progress) -> Shares | None:
    """Share of usable records clamped, by column; None before anybody has reported.

    Reports on moments give the share of usable records. If covariates are public there are none, and shares are
    those of all records.
    """
    seen = progress.clamped
    if seen is None or seen.weight <= 0.0:
        return None
    mean = seen.total / seen.weight
    least = 1.0 / (seen.weight + 1.0)  # that nobody was seen doesn't make it sure that there is nobody
    inside = np.clip(mean, least, 1.0 - least)
    variance = (plan.sd("clamping") ** 2 + inside * (1.0 - inside)) / seen.weight
    answering = progress.scatter.answering
    if answering < 1.0 and plan.persons is None:  # of several rows that is how much of a report is filled
        _, error = progress.scatter.usable
        known = error if answering > ANSWERING else 0.0
        variance = (variance + (mean / answering * known) ** 2) / answering**2
        mean = mean / answering
    return Shares(plan.clamps, mean, np.sqrt(variance), seen.people)
