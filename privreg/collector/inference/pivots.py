"""Pivots: the distribution of (estimate − truth) / standard error for each way of estimating the standard error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from scipy.special import chdtrc, fdtrc, ndtr, ndtri, stdtr, stdtrit

from privreg.base.arrays import Array
from privreg.collector.inference.wald import wald_sf
from privreg.errors import InferenceError

ENOUGH: Final = 20
"""Terms from which on a sum is taken for normal: updates of a lane, half as many of all lanes for each restriction, so
that joint tests hold their level, and clusters of a group."""


def scaling_sf(t: Array | float, lanes: int = 1) -> Array:
    """P(|T| > t) for T = W(1) / √(mean of `lanes` independent ∫bridge²), exactly; t = √n abs(θ̄_j − θ_j) / √V̂_jj.

    (2/π) ∫_0^{π/2} (u / sinh u)^{K/2} dφ with u = t / (√K sin φ), K lanes. With u = u₀ cosh w the integrand is even and
    analytic in w, so the trapezoidal rule converges geometrically; 0.04 is far inside its radius.

    See XSJKH (arXiv 2505.08227), section 4.2; the integral follows from the Laplace transform of ∫bridge².
    """
    u0 = np.abs(np.atleast_1d(np.asarray(t, dtype=np.float64))) / np.sqrt(lanes)
    h = 0.04
    w = np.arange(0.0, 42.0, h)
    with np.errstate(over="ignore", invalid="ignore"):
        u = u0[:, None] * np.cosh(w)
        # u / sinh u through logarithms; → 1 as u → 0
        log_ratio = np.where(
            u < 1e-6, 0.0, np.log(np.maximum(2 * u, 1e-300)) - u - np.log1p(-np.exp(-2 * np.maximum(u, 1e-6)))
        )
        f = np.exp(0.5 * lanes * log_ratio) / np.cosh(w)
    f = np.where(np.isnan(f), 0.0, f)
    f[:, 0] *= 0.5
    out = np.minimum(2.0 / np.pi * h * f.sum(axis=1), 1.0)
    return np.where(np.isnan(u0), np.nan, out)


def scaling_critical(alpha: float, lanes: int = 1) -> float:
    """Value that |T| of :func:`scaling_sf` exceeds with probability `alpha`."""
    from scipy.optimize import brentq  # slow to import

    high = 8.0
    while scaling_sf(high, lanes)[0] > alpha:
        high *= 2
    return float(brentq(lambda t: scaling_sf(t, lanes)[0] - alpha, 0.0, high, xtol=1e-12))


class Pivot(ABC):
    """Distribution of a t-ratio on the familiar scale."""

    @property
    @abstractmethod
    def label(self) -> str:
        """Name of the distribution, for tables."""

    def along(self, rows: Array) -> Pivot:
        """Distribution of linear combinations of the coefficients, `rows` of shape (q, p): the same."""
        del rows
        return self

    @abstractmethod
    def two_sided(self, t: Array) -> Array:
        """P(|T| > |t|), elementwise."""

    @abstractmethod
    def critical(self, alpha: float) -> float | Array:
        """Value that |T| exceeds with probability `alpha`, or one for each coefficient."""

    def joint_label(self, q: int) -> str:
        """Name of the distribution of a Wald statistic of `q` restrictions: the same."""
        del q
        return self.label

    @abstractmethod
    def joint_sf(self, statistic: float, q: int) -> float:
        """P-value of a Wald statistic of `q` restrictions formed with the reported covariance."""

    def of_one(self, statistic: float) -> float:
        """P-value of a single restriction."""
        return float(self.two_sided(np.sqrt(np.array([statistic])))[0])


def _degrees(df: int) -> str:
    return f"{df} degree{'' if df == 1 else 's'} of freedom"


@dataclass(frozen=True)
class Normal(Pivot):
    """Standard normal limit, for consistent standard errors."""

    label = "standard normal"

    def two_sided(self, t: Array) -> Array:
        """P(|Z| > |t|)."""
        return np.asarray(2 * ndtr(-np.abs(t)))

    def critical(self, alpha: float) -> float:
        """Two-sided critical value."""
        return float(-ndtri(alpha / 2))

    def joint_label(self, q: int) -> str:
        """Name of the distribution of a Wald statistic."""
        return f"χ² with {_degrees(q)}"

    def joint_sf(self, statistic: float, q: int) -> float:
        """χ²_q tail."""
        return float(chdtrc(q, statistic))


@dataclass(frozen=True)
class StudentT(Pivot):
    """Student's t, for a variance estimated from independent groups of people."""

    df: int  # Degrees of freedom: groups minus one

    @property
    def label(self) -> str:
        """Name of the distribution."""
        return f"t distribution with {_degrees(self.df)}"

    def two_sided(self, t: Array) -> Array:
        """P(|T| > |t|)."""
        return np.asarray(2 * stdtr(self.df, -np.abs(t)))

    def critical(self, alpha: float) -> float:
        """Two-sided critical value."""
        return float(-stdtrit(self.df, alpha / 2))

    def joint_label(self, q: int) -> str:
        """Name of the distribution of a Wald statistic."""
        scaled = "" if q == 1 else f"{q * self.df}/{self.df - q + 1} times "
        return f"{scaled}F with {q} and {_degrees(self.df - q + 1)}{'' if q == 1 else ' (Hotelling)'}"

    def joint_sf(self, statistic: float, q: int) -> float:
        """Tail of Hotelling's T².
        Raises InferenceError if there are more restrictions than degrees of freedom.
        """
        spare = self.df - q + 1
        if spare < 1:
            raise InferenceError(
                f"{q} restrictions can't be tested jointly with {self.df} degrees of freedom; test fewer, or fit with "
                "inference='random_scaling', or with more lanes= for between_lanes."
            )
        return float(fdtrc(q, spare, statistic * spare / (q * self.df)))


@dataclass(frozen=True)
class RandomScaling(Pivot):
    """Limit under random scaling with standard errors √(6 V̂ / n), which makes t read as usual."""

    lanes: int = 1  # Chains whose matrices are averaged
    # Updates of the shortest of them, if joint tests are to look at it; not part of the distribution
    steps: int | None = field(default=None, compare=False)

    @property
    def label(self) -> str:
        """Name of the distribution."""
        return "random scaling (exact)" if self.lanes == 1 else f"random scaling, {self.lanes} groups (exact)"

    def two_sided(self, t: Array) -> Array:
        """P(|T| > √6 |t|)."""
        return scaling_sf(np.sqrt(6.0) * np.abs(t), self.lanes)

    def critical(self, alpha: float) -> float:
        """Two-sided critical value; 2.7546 at 5% for one lane."""
        return scaling_critical(alpha, self.lanes) / float(np.sqrt(6.0))

    def joint_label(self, q: int) -> str:
        """Name of the distribution of a Wald statistic."""
        return self.label if q == 1 else f"random scaling of {q} restrictions"

    def joint_sf(self, statistic: float, q: int) -> float:
        """Tail of the joint distribution at six times the statistic.
        Raises InferenceError if there are more than 20 restrictions, or so few steps that the matrix of the
        restrictions is far from its limit: fewer than 20 a lane, or than 10 for each restriction over all lanes, from
        where on a test at level 5% has at most 6% (tests/collector/inference/test_methods.py).
        """
        if q == 1:
            return self.of_one(statistic)
        out = wald_sf(6.0 * statistic, q, self.lanes)
        needed = max(ENOUGH, -(-ENOUGH * q // (2 * self.lanes)))
        if self.steps is not None and self.steps < needed:
            raise InferenceError(
                f"a joint test of {q} restrictions by random scaling needs {needed} updates of each of {self.lanes} "
                f"group(s), and there were {self.steps}: the matrix of the restrictions would be nearly singular; ask "
                "more people, set a smaller batch_size=, or test fewer restrictions."
            )
        return out
