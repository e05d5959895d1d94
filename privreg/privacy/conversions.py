"""Exact conversions between forms of differential privacy, and the trade-off curves behind them.

Everything is about one release and one person, neighbours differing in one record (replace-one): μ of Gaussian
differential privacy (GDP), ε alone of the pure and (ε, δ) of the approximate kind, ρ of the zero-concentrated (zCDP).
μ, ρ and a pure ε are above 0, another ε is 0 or more, and δ is in (0, 1), or 0 beside an ε that is pure.
"""

import math
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from scipy.special import erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

from privreg.base.arrays import Array
from privreg.errors import BudgetError, number, real, shown

_TINY: Final = 1e-320  # Stands for a δ that underflows where a logarithm is wanted


def _root(function: Callable[[float], float], low: float, high: float, **more: Any) -> float:
    from scipy.optimize import brentq  # here, because it would slow every import of the package

    return float(brentq(function, low, high, **more))


def _shrunk(value: float, kept: Callable[[float], bool]) -> float:
    """`value`, found to rounding, on the side where the promise is kept."""
    step = 2.0**-52
    while not kept(value):
        value, step = value * (1 - step), 2 * step
    return value


def gdp_delta(mu: float, epsilon: float) -> float:
    """Smallest δ for which μ-GDP implies (ε, δ)-DP.

    δ_μ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).

    See Dong, Roth & Su (2022), Gaussian differential privacy, Corollary 1.
    """
    upper = float(log_ndtr(-epsilon / mu + mu / 2))
    lower = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(upper) * -math.expm1(min(lower - upper, 0.0))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest ε ≥ 0 for which μ-GDP implies (ε, δ)-DP."""
    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2
    return _root(lambda e: math.log(gdp_delta(mu, e) or _TINY) - math.log(delta), 0.0, high, xtol=1e-12)


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest μ for which μ-GDP implies (ε, δ)-DP: the exact Gaussian calibration.

    See Balle & Wang (2018), Improving the Gaussian mechanism, Theorem 8.
    """
    low, high = 1e-8, 1.0
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    while gdp_delta(low, epsilon) > delta:
        low /= 10
    fine: Any = {"xtol": 1e-15 * low, "rtol": 1e-14, "maxiter": 1000}
    root = _root(lambda m: math.log(gdp_delta(m, epsilon) or _TINY) - math.log(delta), low, high, **fine)
    while gdp_delta(root, epsilon) > delta:  # to the safe side of rounding
        root *= 1 - 1e-14
    return root


def gdp_mus(epsilons: Array, delta: float) -> Array:
    """`gdp_mu` of many ε at once, shape (n,), to a relative 1e-9 on the safe side."""
    values, places = np.unique(epsilons, return_inverse=True)
    low, high = np.full(len(values), gdp_mu(float(values[0]), delta)), np.full(len(values), gdp_mu(values[-1], delta))
    while (high > low * (1.0 + 1e-9)).any():
        middle = np.sqrt(low * high)
        upper = log_ndtr(middle / 2 - values / middle)
        lower = values + log_ndtr(-middle / 2 - values / middle)
        kept = np.exp(upper) * -np.expm1(np.minimum(lower - upper, 0.0)) <= delta
        low, high = np.where(kept, middle, low), np.where(kept, high, middle)
    return np.asarray(low[places])


def pure_mu(epsilon: float) -> float:
    """Smallest μ for which ε-DP implies μ-GDP.

    2 Φ⁻¹(e^ε/(1 + e^ε)). See Dong, Roth & Su (2022), Gaussian differential privacy, section 2: the trade-off curve of
    ε-DP consists of the chords from the ends of a convex G_μ to the point (1/(1 + e^ε), 1/(1 + e^ε)), which the
    smallest μ puts on G_μ. Randomised response attains it: it simulates any ε-DP pair (Kairouz, Oh & Viswanath 2015).
    """
    if epsilon < 1:  # Φ(μ/2) − 1/2 = tanh(ε/2)/2, without the cancellation near one half
        return 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    return -2 * float(ndtri_exp(-float(np.logaddexp(0.0, epsilon))))


def pure_epsilon(epsilon: float, delta: float) -> float:
    """Smallest ε' ≥ 0 for which ε-DP implies (ε', δ)-DP; the inverse of :func:`dp_delta`.

    log(e^ε − δ(1 + e^ε)), or 0.
    """
    spare = delta * (1 + math.exp(-epsilon))
    return max(epsilon + math.log1p(-spare), 0.0) if spare < 1 else 0.0


def pure_rho(epsilon: float) -> float:
    """Smallest ρ for which ε-DP implies ρ-zCDP.

    ε tanh(ε/2), less than the classical ε²/2: the Kullback–Leibler divergence of randomised response.

    See Steinke (2024), Tight RDP & zCDP bounds from pure DP, differentialprivacy.org/pdp-to-zcdp, Theorem 4: its Rényi
    divergence of order α, over α, is largest as α → 1.
    """
    return epsilon * math.tanh(epsilon / 2)


def pure_for_mu(mu: float) -> float:
    """Largest ε for which ε-DP implies μ-GDP; the inverse of :func:`pure_mu`.

    log(Φ(μ/2)/Φ(−μ/2)).
    """
    guess = 2 * math.atanh(math.erf(mu / (2 * math.sqrt(2)))) if mu < 1 else float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return _shrunk(guess, lambda e: pure_mu(e) <= mu)


def pure_for_dp(epsilon: float, delta: float) -> float:
    """Largest ε' for which ε'-DP implies (ε, δ)-DP: a little more than ε itself.

    log((e^ε + δ)/(1 − δ)), where :func:`dp_delta` of ε' and 0 reaches δ.
    """
    guess = epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta)
    return max(_shrunk(guess, lambda e: dp_delta(e, 0.0, epsilon) <= delta), epsilon)


def pure_for_rho(rho: float) -> float:
    """Largest ε for which ε-DP implies ρ-zCDP; the inverse of :func:`pure_rho`."""
    low, high = math.sqrt(2 * rho), math.sqrt(2 * rho) + rho + 1  # as ε tanh(ε/2) ≤ min(ε²/2, ε) and ≥ ε − 1
    return _shrunk(_root(lambda e: pure_rho(e) - rho, low, high, xtol=1e-300, rtol=1e-15), lambda e: pure_rho(e) <= rho)


def dp_delta(epsilon: float, delta: float, at: float) -> float:
    """Smallest δ' for which (ε, δ)-DP implies (at, δ')-DP; δ = 0 is pure ε-DP, whose δ' is randomised response's.

    δ + (1 − δ)(e^ε − e^at)/(1 + e^ε) below ε, and δ from there on.

    See Dong, Roth & Su (2022), Gaussian differential privacy, section 2: the convex conjugate of :func:`dp_tradeoff`.
    """
    if at >= epsilon:
        return delta
    return delta + (1 - delta) * -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Smallest δ known for which ρ-zCDP, by whatever mechanism, implies (ε, δ)-DP.

    The infimum over α > 1 of e^((α−1)(αρ−ε)) (1 − 1/α)^α/(α − 1), or what that at a larger ε implies, if less.
    Gaussian noise has the smaller exact value ``gdp_delta(math.sqrt(2 * rho), epsilon)``.

    See Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, Corollary 13.
    """
    from scipy.optimize import minimize_scalar

    def concentrated(epsilon: float) -> float:  # Corollary 13 at the best α
        def slope(u: float) -> float:  # of the logarithm in α = 1 + e^u: increasing, so there is one minimum
            return (1 + 2 * math.exp(u)) * rho - epsilon - float(np.logaddexp(0.0, -u))

        low = high = 0.0
        while slope(low) > 0:
            low -= 8
        while slope(high) < 0:
            high += 8
        u = _root(slope, low, high) if low < high else low
        less = math.exp(u)  # α − 1; any α is a valid bound, so rounding does no harm
        log = less * ((1 + less) * rho - epsilon) - (1 + less) * float(np.logaddexp(0.0, -u)) - u
        return math.exp(min(log, 0.0))

    # Corollary 13 alone is not a trade-off curve: near ε = 0 its bound at a larger ε says more.
    width = 4 * math.sqrt(rho) + rho
    how: Any = {"bounds": (epsilon, epsilon + width), "method": "bounded", "options": {"xatol": 1e-10 * width}}
    found = minimize_scalar(lambda e: dp_delta(e, concentrated(e), epsilon), **how)
    return min(concentrated(epsilon), float(found.fun))


def gdp_tradeoff(mu: float, type_one: Array) -> Array:
    """Smallest type II error of any test at the given type I errors under μ-GDP: Φ(Φ⁻¹(1 − α) − μ).

    See Dong, Roth & Su (2022), Gaussian differential privacy, equation (6).
    """
    return np.asarray(ndtr(-ndtri(type_one) - mu))


def dp_tradeoff(epsilon: float, delta: float, type_one: Array) -> Array:
    """Smallest type II error of any test at the given type I errors under (ε, δ)-DP.

    max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α)) at type I error α.

    See Wasserman & Zhou (2010), A statistical framework for differential privacy, Theorem 2.4; Dong, Roth & Su (2022),
    Gaussian differential privacy, section 2.
    """
    steep = 1 - delta - math.exp(min(epsilon, 700.0)) * type_one
    return np.asarray(np.maximum(0.0, np.maximum(steep, math.exp(-epsilon) * (1 - delta - type_one))))


def shuffling_limit(n: int, delta: float) -> float:
    """Largest local ε for which :func:`shuffled` has a theorem: log(n/(16 log(2/δ)))."""
    return math.log(n / (16 * math.log(2 / delta)))


def shuffled(epsilon0: float, n: int, delta: float) -> float:
    """Central ε of `n` people's reports, one each, once a trusted shuffler has hidden who sent which.

    `epsilon0` is the pure local ε of a person and report. The ε of an (ε, δ)-DP guarantee towards whoever sees the
    shuffled reports only: log(1 + (e^ε0 − 1)/(e^ε0 + 1) · (8√(e^ε0 log(4/δ))/√n + 8 e^ε0/n)), `epsilon0` at most.
    Raises BudgetError if a number is out of range, or ε0 > log(n/(16 log(2/δ))), where the theorem says nothing.

    The theorem permutes the *people* uniformly at random and then calls one ε0-DP randomiser after another. The i-th
    randomiser may depend on the earlier reports, not on who is called. So reports may be adaptive, provided that the
    order of the people is uniformly random and stays unknown to the attacker. Neighbours replace one record.

    See Feldman, McMillan & Talwar (2021), Hiding among the clones, FOCS, Theorem III.1 (3.1 of arXiv 2012.12803).
    """
    e = number("epsilon0", epsilon0, "be a positive number, the pure local ε of each report", error=BudgetError)
    d = number("delta", delta, "be in (0, 1); 1e-6 is usual", high=1.0, error=BudgetError)
    people = real(n)
    if people is None or not 1 <= people < math.inf or people != int(people):
        raise BudgetError(f"n={shown(n)} must be a number of people, 1 or more.")
    limit = shuffling_limit(int(people), d)
    if e > limit:
        needed = math.exp(min(e, 100.0)) * 16 * math.log(2 / d)
        raise BudgetError(
            f"amplification by shuffling is proved for epsilon0 up to log(n/(16 log(2/delta))) = {limit:.3g} here, "
            f"got {e:g}; it takes {math.ceil(needed):,} people or more, a smaller epsilon0 or a larger delta."
        )
    grown = math.exp(e)
    size = 8 * math.sqrt(grown * math.log(4 / d) / people) + 8 * grown / people
    return min(e, math.log1p(math.tanh(e / 2) * size))
