"""Mechanisms of means: how one of several public levels is randomised, and mechanisms of numbers in closed form.

A report of a level is a vector of one number per level, already made unbiased: averages of reports estimate
frequencies. Values by which mechanisms of numbers are compared are public or made up; after LDPTube, with r = nm/d
people asked of each of d columns, m of them each, at ε/m (or μ/√m).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, ClassVar, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.errors import DataError, OptionError, choose, number, whole
from privreg.privacy.ledger import UNSET, Budget, at_least, refuse_fitted
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
        "grr": "generalised randomised response", "oue": "optimised unary encoding",
        "histogram": "histogram encoding", "gaussian": "Gaussian histogram",
    }  # fmt: skip

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


BERRY_ESSEEN: Final = 0.56  # Constant for sums of independent terms that need not be alike; Shevtsova (2010)


@dataclass(frozen=True)
class Moments:
    """Mean and variance of one report of one column, for a distribution of values."""

    bias: float  # E(report) − E(value)
    variance: float  # E Var(report given the value), the mechanism's
    spread: float  # Var E(report given the value): that of the values, through the mechanism's line
    third: float  # E|report − its mean given the value|³


def moments(mechanism: NumberMechanism, values: ArrayLike, weights: ArrayLike | None = None) -> Moments:
    """Exact moments of a mechanism's reports for a distribution of values.

    `values`, shape (k,), are public or made up, and clamped to the mechanism's range; `weights`, shape (k,), are their
    probabilities up to a factor, equal by default.

    Examples
    --------
    >>> import numpy as np
    >>> from privreg import Budget
    >>> from privreg.privacy.scalar import number_mechanism
    >>> wave = number_mechanism("square_wave_biased", Budget.declare(epsilon=1), 0, 1)
    >>> round(moments(wave, np.arange(1, 11) / 10).bias, 4)
    -0.0316
    """
    refuse_fitted(values, "moments of them")
    try:
        x = np.asarray(values, dtype=np.float64).ravel()
        p = np.ones(len(x)) if weights is None else np.asarray(weights, dtype=np.float64).ravel()
    except (TypeError, ValueError):
        raise DataError("values and weights must be numbers.") from None
    if not len(x) or len(p) != len(x) or not np.isfinite(x).all() or not (p >= 0).all() or not 0 < p.sum() < math.inf:
        raise DataError("values must be one or more finite numbers, and weights as many that are not negative.")
    p = p / p.sum()
    x = np.clip(x, mechanism.low, mechanism.high)
    bias = mechanism.bias(x)
    spread = p @ (x + bias - p @ (x + bias)) ** 2
    return Moments(*map(float, (p @ bias, p @ mechanism.variance(x), spread, p @ mechanism.third_moment(x))))


def benchmark(
    values: ArrayLike,
    *,
    n: Any,
    bounds: Any,
    mechanisms: Sequence[str] | None = None,
    mu: Any = UNSET,
    epsilon: Any = None,
    delta: Any = None,
    rho: Any = None,
    d: Any = 1,
    m: Any = None,
    tolerance: float | None = None,
    weights: ArrayLike | None = None,
) -> pd.DataFrame:
    """Compare mechanisms for the mean of a column of n people without an experiment.

    Parameters
    ----------
    values, weights : array_like, shape (k,)
        Public or made-up values that stand for the distribution of every column, and their probabilities.
    n : int or sequence of int
        People, two or more.
    bounds : (float, float)
        Public range of the values.
    mechanisms : sequence of str, optional
        Names of `privreg.privacy.scalar`; all that the budget allows by default.
    mu, epsilon, delta, rho : float
        Budget per person.
    d, m : int
        Columns, and of how many each person is asked, all by default.
    tolerance : float, optional
        Half width, the values' units, of which the probability to stay within is wanted; 1% of the range by default.

    Returns
    -------
    DataFrame
        By n and mechanism: mechanism, n, d, m, bias δ; variance E Var/r of the mechanism, sampling (1 − m/d) Var(t)/r,
        which LDPTube omits; mse = bias² + both, about the mean of the n people; within, the normal probability of an
        error of at most `tolerance`; berry_esseen, by which any such distribution function is off at most: with m < d
        that of the mechanism's part. Duan (2025), sections 4.2 and 4.3; 0.56 by Shevtsova (2010).

    Examples
    --------
    >>> import numpy as np
    >>> table = benchmark(np.arange(1, 11) / 10, n=[1000, 10_000], bounds=(0, 1), epsilon=1,
    ...                   mechanisms=["piecewise", "square_wave_biased"])
    >>> table[["mechanism", "n", "mse"]].round(5).values.tolist()[:2]
    [['piecewise', 1000, 0.00105], ['square_wave_biased', 1000, 0.00115]]
    """

    def people(name: str, value: object, least: int = 1) -> int:
        return whole(name, int(value) if isinstance(value, float) and value.is_integer() else value, least)  # 1e6

    budget = Budget.declare(mu, epsilon, delta, rho)
    if not budget.private:
        raise OptionError("a benchmark of mechanisms needs a budget: epsilon=1, say, or mu=1.")
    columns = people("d", d)
    asked = columns if m is None else people("m", m)
    if asked > columns:
        raise OptionError(f"m={asked} must be at most d={columns}, the columns there are.")
    several = isinstance(n, np.ndarray | Sequence) and not isinstance(n, str)
    sizes = [people("n", k, 2) for k in (n if several else [n])]
    if mechanisms is None:
        mechanisms = [k for k in NUMBER_MECHANISMS if not (k == "gaussian" and budget.pure)]
    elif isinstance(mechanisms, str):
        raise OptionError(f"mechanisms must be a list of names, got {mechanisms!r}; write [{mechanisms!r}].")
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise OptionError("bounds must be a pair of numbers (low, high).")
    spent = share(budget if budget.form == "epsilon" else Budget.declare(mu=budget.mu), asked)
    names = [choose("mechanisms", k, NUMBER_MECHANISMS) for k in mechanisms]
    made = {name: number_mechanism(name, spent, *bounds) for name in names}
    within = None if tolerance is None else number("tolerance", tolerance, "be a positive number, the values' units")
    known = {name: moments(mechanism, values, weights) for name, mechanism in made.items()}
    rows: list[dict[str, Any]] = []
    for size, (name, k) in product(sizes, known.items()):
        r = size * asked / columns
        limit = 0.01 * (made[name].high - made[name].low) if within is None else within
        variance, sampling = k.variance / r, (1.0 - asked / columns) * k.spread / r
        sd = math.sqrt(variance + sampling)
        rows.append(
            {"mechanism": name, "n": size, "d": columns, "m": asked, "bias": k.bias}
            | {"variance": variance, "sampling": sampling, "mse": k.bias**2 + variance + sampling}
            | {"tolerance": limit, "within": float(ndtr((limit - k.bias) / sd) - ndtr((-limit - k.bias) / sd))}
            | {"berry_esseen": min(BERRY_ESSEEN * k.third / (k.variance**1.5 * math.sqrt(r)), 1.0)}
        )
    return pd.DataFrame(rows)


def break_even(
    first: str, second: str, values: ArrayLike, *, bounds: Any, second_bounds: Any = None, **options: Any
) -> float:
    """Number of people at which two mechanisms, names of `privreg.privacy.scalar`, have the same mean squared error.

    n' = [V₂ − V₁]/(δ₁² − δ₂²) · d/m, with V the variance of a report, sampling of columns included (Duan 2025, eq.
    4.32, whose evaluation ``python -m benchmarks.papers.duan`` corrects). Below it the one with the larger bias is
    better, above it the other. inf if one is better for every number of people. `second_bounds` is the range of the
    second mechanism, if it is another one; the budget and the other options are as of :func:`benchmark`.

    Examples
    --------
    >>> import numpy as np
    >>> round(break_even("square_wave_biased", "piecewise", np.arange(1, 11) / 10, epsilon=1, bounds=(0, 1)))
    904
    """
    asked = ((first, bounds), (second, bounds if second_bounds is None else second_bounds))
    a, b = (benchmark(values, n=2, bounds=of, mechanisms=[name], **options).iloc[0] for name, of in asked)
    gap, cost = a.bias**2 - b.bias**2, b.variance + b.sampling - a.variance - a.sampling
    return float(2.0 * cost / gap) if gap != 0.0 and cost / gap > 0.0 else math.inf
