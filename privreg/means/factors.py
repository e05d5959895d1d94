"""Frequency oracles: how one of several public levels is randomised, with its exact moments. Device side.

A report is a vector of one number per level, already made unbiased: averages of reports estimate frequencies.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import numpy as np
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose
from privreg.privacy.ledger import Budget, at_least
from privreg.privacy.mechanisms import Randomiser, bits_sensitivity
from privreg.privacy.scalar import NUMBER_MECHANISMS, NumberMechanism, number_mechanism, share

FREQUENCIES: Final = ("grr", "oue", "histogram", "gaussian")


@dataclass(frozen=True)
class FactorMechanism(Randomiser):
    """Randomiser of one person's level, by a name of `FREQUENCIES`. Made by :func:`factor_mechanism`.

    "grr": the level itself with probability p = e^ε/(e^ε + L − 1), else any other. "oue": L bits, the person's
    reported as 1 with probability 1/2, the others with probability 1/(e^ε + 1). "histogram": L bits, each through a
    mechanism for numbers in [0, 1] at half the budget, since another level changes two of them. "gaussian": L bits plus
    normal noise of sd √2/μ.

    See Wang, Blocki, Li & Jha (2017), Locally differentially private protocols for frequency estimation, sections 4.1
    and 4.3; Duan (2025), section 4, for histogram encoding at ε/(2m).
    """

    TITLES: ClassVar = {
        "grr": "generalised randomised response",
        "oue": "optimised unary encoding",
        "histogram": "histogram encoding",
        "gaussian": "Gaussian histogram",
    }

    levels: int  # 2 or more
    bit: NumberMechanism | None = None  # For "histogram" only: mechanism of every bit

    @property
    def title(self) -> str:
        """Name in sentences."""
        return super().title + ("" if self.bit is None else f" by {self.bit.title}")

    @property
    def width(self) -> int:
        """Standard normals that a report takes."""
        return 2 if self.name == "grr" else self.levels * (1 if self.bit is None else self.bit.width)

    @property
    def sd(self) -> float:
        """Noise sd per level of the Gaussian histogram."""
        return bits_sensitivity(2) / self.budget.mu if self.budget.private else 0.0

    @property
    def chances(self) -> tuple[float, float]:
        """Probability that a level is reported where it is the person's, and where it is not: "grr" and "oue"."""
        e = math.exp(-self.epsilon)
        whole = 1.0 + (self.levels - 1) * e
        return (1.0 / whole, e / whole) if self.name == "grr" else (0.5, e / (1.0 + e))

    def randomise(self, codes: Any, normals: Any) -> Array:
        """Randomise levels, positions of shape (n,), each of another person: unbiased for their indicators, shape (n,
        levels). `normals`, shape (n, width), are independent standard ones, each used once.
        """
        at, z = np.asarray(codes, dtype=np.intp), np.asarray(normals, dtype=np.float64)
        indicators = np.equal.outer(at, np.arange(self.levels))
        if self.name == "gaussian":
            return np.asarray(indicators + self.sd * z)
        if self.bit is not None:
            return self.bit.randomise(indicators.ravel(), z.reshape(-1, self.bit.width)).reshape(indicators.shape)
        (p, q), uniforms = self.chances, ndtr(z)
        bits = uniforms < np.where(indicators, p, q) if self.name == "oue" else indicators
        if self.name == "grr":
            other = np.minimum((uniforms[:, 1] * (self.levels - 1)).astype(np.intp), self.levels - 2)
            other += other >= at
            bits = np.equal.outer(np.where(uniforms[:, 0] < p, at, other), np.arange(self.levels))
        return np.asarray((bits - q) / (p - q))

    def summed(self, waiting: Array, normals: Array) -> Array:
        """Sums of people's reports times r numbers that go with each, shape (r, levels), drawn at once with the same
        distribution.

        Noise Z of "gaussian" gives B'Z, which is √(B'B) times normals; B holds the numbers, a row a person. Bits of
        "oue" sum to two binomial numbers a level. "grr" reports one's level with probability p − q, and else any of the
        L. Binomial numbers are quantiles (Devroye 1986, Non-uniform random variate generation, section III.2).

        `waiting`, shape (r, levels + r), is B'O, O the indicators of levels, and B'B. But for "gaussian" r = 1, and B
        is 1 for everybody. `normals`, shape (r + 1, levels), are independent standard ones, each used once.
        """
        people, square = waiting[:, : self.levels], waiting[:, self.levels :]
        if self.name == "gaussian":
            values, vectors = np.linalg.eigh(square)
            root = vectors * np.sqrt(np.maximum(values, 0.0))
            return np.asarray(people + self.sd * root @ normals[:-1])
        from scipy.stats import binom

        people, n = people[0], float(square[0, 0])
        (p, q), (first, second) = self.chances, ndtr(normals)
        if self.name == "oue":
            bits = binom.ppf(first, people, p) + binom.ppf(second, n - people, q)
        else:
            bits = binom.ppf(first, people, p - q)
            left = n - bits.sum()
            for k, u in enumerate(second):
                some = binom.ppf(u, left, 1.0 / (self.levels - k))
                bits[k], left = bits[k] + some, left - some
        return np.asarray((bits - n * q) / (p - q))[None]

    def covariance(self, shares: Array) -> Array:
        """Covariance of a report's numbers where levels have these shares, shape (levels, levels).

        "grr" reports one level. Else bits are independent given the level: of two they have covariance −π_k π_l, shrunk
        where noise has made shares so large that it would be none.
        """
        at = np.clip(shares, 0.0, 1.0)
        least = self.variance(shares) + at * (1.0 - at)
        if self.name == "grr":
            p, q = self.chances
            bits = (q + (p - q) * shares) / (p - q)
            return np.asarray(np.diag(np.maximum(bits / (p - q), least + bits**2)) - np.outer(bits, bits))
        most = float(np.sum(at**2 / np.maximum(least + at**2, 1e-300)))
        return np.asarray(np.diag(least + at**2) - np.outer(at, at) / max(most, 1.0))

    def variance(self, shares: Array) -> Array:
        """Mean over people of the exact variance of a level's number, by the levels' shares; same shape."""
        held, other = self.variances()
        return np.asarray(other + np.clip(shares, 0.0, 1.0) * (held - other))

    def variances(self) -> tuple[float, float]:
        """Exact variance of a report's number where the level is the person's, and where it is not."""
        if self.name == "gaussian":
            return self.sd**2, self.sd**2
        if self.bit is not None:
            held, other = self.bit.variance(np.array([1.0, 0.0])).tolist()
            return held, other
        p, q = self.chances
        return p * (1.0 - p) / (p - q) ** 2, q * (1.0 - q) / (p - q) ** 2

    def shares_of_error(self, shares: Array) -> Array:
        """Part of the sum's distance from 1 that each level's estimate gives back, in proportion to noise; 0 of "grr".

        Shares of levels add up to 1, and independent bits do not: p̂ − k (Σ p̂ − 1) with k_l = v_l/Σ v has the least
        variance, which is (1 − 1/L) of that of p̂ for L levels that are as noisy (v the variances of reports).
        """
        noise = self.variance(shares)
        total = float(noise.sum())
        return np.zeros(len(noise)) if self.name == "grr" or total == 0.0 else np.asarray(noise / total)

    def mean_variance(self) -> float:
        """Variance of a level's estimate by one report, averaged over the levels: the same for every person."""
        first = np.arange(self.levels) == 0
        noise, k = self.variance(first), self.shares_of_error(first)
        return float(((1.0 - 2.0 * k) * noise + k**2 * noise.sum()).mean())

    def words(self) -> str:
        """Words on the randomisation of a level, for the privacy block."""
        if self.name == "gaussian":
            return f"noise sd {self.sd:.4g} = sqrt(2) / mu per level, {at_least(self.budget.mu, 4)}-GDP"
        if self.bit is not None:
            return f"{self.levels} bits, each by {self.bit.title} at epsilon {at_least(self.bit.epsilon, 4)}"
        said = "of {} levels, reported with probability {:.4g}, others {:.4g}".format(self.levels, *self.chances)
        return f"{said}, epsilon {at_least(self.epsilon, 4)}"

    def __repr__(self) -> str:
        return f"{self.title}({self.budget}, for one of {self.levels} levels)"


def factor_mechanism(name: object, budget: Budget, levels: int, bit: str = "duchi") -> FactorMechanism:
    """Make a frequency oracle by a name of `FREQUENCIES`, for a report that may cost `budget`.

    "auto" takes the one of "grr" and "oue" with the smaller mean variance under a pure budget, and the best of these
    and "gaussian" under another. `bit` is the mechanism of the bits of "histogram".
    Raises OptionError if the name is unknown, Gaussian noise is to keep a pure ε, or the bits of a histogram would be
    biased.
    """
    got = choose("frequencies", name, ("auto", *FREQUENCIES))
    if got == "auto" and budget.private:
        some = ("grr", "oue") if budget.pure else ("grr", "oue", "gaussian")
        return min((factor_mechanism(kind, budget, levels) for kind in some), key=FactorMechanism.mean_variance)
    if got == "gaussian" and budget.pure:
        raise OptionError(
            f"frequencies='gaussian' can't give pure epsilon={budget.epsilon:g}; add delta= (1e-6 is usual), or use "
            "'grr', 'oue' or 'auto'."
        )
    if got == "gaussian" or not budget.private:
        return FactorMechanism("gaussian", budget, levels)
    if got != "histogram":
        return FactorMechanism(got, budget.as_pure(), levels)
    if choose("mechanism", bit, NUMBER_MECHANISMS) == "square_wave_biased":
        raise OptionError(
            "a histogram of biased bits has no frequencies to offer; use mechanism='square_wave', which inverts their "
            "mean, or frequencies='grr', 'oue' or 'auto'."
        )
    return FactorMechanism(got, budget, levels, number_mechanism(bit, share(budget, 2), 0.0, 1.0))
