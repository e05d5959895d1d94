"""Exact bias, variance and error of mechanisms for a distribution of values, without an experiment.

Values here are public or made up; nobody's report is needed. After LDPTube, with r = nm/d people asked of each of d
columns, m of them each, at ε/m (or μ/√m).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.special import ndtr

from privreg.errors import DataError, OptionError, choose, number, whole
from privreg.privacy.ledger import UNSET, Budget, refuse_fitted
from privreg.privacy.scalar import NUMBER_MECHANISMS, NumberMechanism, number_mechanism, share

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
    found = p @ bias, p @ mechanism.variance(x), spread, p @ mechanism.third_moment(x)
    return Moments(*map(float, found))


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
    must = "be a positive number, the values' units"
    within = None if tolerance is None else number("tolerance", tolerance, must)
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
