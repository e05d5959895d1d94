"""Privacy budgets: the largest loss of one person, in any of its forms, and exact conversions between these.

Everything is about one release and one person, neighbours differing in one record (replace-one). The unit of account is
μ of Gaussian differential privacy (GDP). Other forms are converted to the largest μ they allow; pure ε-DP keeps its ε
as well and is accounted by the smallest μ that it implies. ε alone stands for pure differential privacy, (ε, δ) for the
approximate kind and ρ for zero-concentrated differential privacy (zCDP). μ, ρ and a pure ε are above 0, another ε is 0
or more, and δ is in (0, 1), or 0 beside an ε that is pure. Amplification by shuffling is the worth of pure local
reports once nobody knows who sent which.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import erfinv, log_ndtr, ndtr, ndtri, ndtri_exp

from privreg.base.arrays import Array
from privreg.errors import BudgetError, real, shown

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


# --- Gaussian differential privacy -----------------------------------------------------------------------


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
    # The root is found to rounding; step to its safe side.
    while gdp_delta(root, epsilon) > delta:
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


def gdp_rho(mu: float) -> float:
    """Smallest ρ for which μ-GDP implies ρ-zCDP: μ²/2.

    See Dong, Roth & Su (2022), Gaussian differential privacy, Corollary B.6 of arXiv 1905.02383.
    """
    return mu * mu / 2


def rho_mu(rho: float) -> float:
    """μ of the Gaussian mechanism that is exactly ρ-zCDP: √(2ρ).

    The converse of :func:`gdp_rho` for Gaussian noise only: another mechanism may be ρ-zCDP and not √(2ρ)-GDP.
    """
    return math.sqrt(2 * rho)


# --- pure differential privacy ---------------------------------------------------------------------------


def pure_mu(epsilon: float) -> float:
    """Smallest μ for which ε-DP implies μ-GDP.

    2 Φ⁻¹(e^ε/(1 + e^ε)): attained by randomised response.

    See Dong, Roth & Su (2022), Gaussian differential privacy, section 2: the trade-off curve of ε-DP consists of the
    chords from the ends of a convex G_μ to the point (1/(1 + e^ε), 1/(1 + e^ε)), which the smallest μ puts on G_μ.
    Randomised response attains it: it can simulate any ε-DP pair (Kairouz, Oh & Viswanath 2015).
    """
    if epsilon < 1:  # Φ(μ/2) − 1/2 = tanh(ε/2)/2, without the cancellation near one half
        return 2 * math.sqrt(2) * float(erfinv(math.tanh(epsilon / 2)))
    return -2 * float(ndtri_exp(-float(np.logaddexp(0.0, epsilon))))


def pure_delta(epsilon: float, at: float) -> float:
    """Smallest δ for which ε-DP implies (at, δ)-DP.

    (e^ε − e^at)/(1 + e^ε), and 0 from `at` = ε on: that of randomised response.

    See Kairouz, Oh & Viswanath (2015), The composition theorem for differential privacy.
    """
    return dp_delta(epsilon, 0.0, at)


def pure_epsilon(epsilon: float, delta: float) -> float:
    """Smallest ε' ≥ 0 for which ε-DP implies (ε', δ)-DP; the inverse of :func:`pure_delta`.

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
    if mu < 1:
        guess = 2 * math.atanh(math.erf(mu / (2 * math.sqrt(2))))
    else:
        guess = float(log_ndtr(mu / 2) - log_ndtr(-mu / 2))
    return _shrunk(guess, lambda e: pure_mu(e) <= mu)


def pure_for_dp(epsilon: float, delta: float) -> float:
    """Largest ε' for which ε'-DP implies (ε, δ)-DP: a little more than ε itself.

    log((e^ε + δ)/(1 − δ)), where :func:`pure_delta` reaches δ.
    """
    guess = epsilon + math.log1p(delta * math.exp(-epsilon)) - math.log1p(-delta)
    return max(_shrunk(guess, lambda e: pure_delta(e, epsilon) <= delta), epsilon)


def pure_for_rho(rho: float) -> float:
    """Largest ε for which ε-DP implies ρ-zCDP; the inverse of :func:`pure_rho`."""
    low, high = math.sqrt(2 * rho), math.sqrt(2 * rho) + rho + 1  # as ε tanh(ε/2) ≤ min(ε²/2, ε) and ≥ ε − 1
    return _shrunk(_root(lambda e: pure_rho(e) - rho, low, high, xtol=1e-300, rtol=1e-15), lambda e: pure_rho(e) <= rho)


# --- the other forms -------------------------------------------------------------------------------------


def dp_delta(epsilon: float, delta: float, at: float) -> float:
    """Smallest δ' for which (ε, δ)-DP implies (at, δ')-DP.

    δ + (1 − δ)(e^ε − e^at)/(1 + e^ε) below ε, and δ from there on.

    See Dong, Roth & Su (2022), Gaussian differential privacy, section 2: the convex conjugate of :func:`dp_tradeoff`.
    """
    if at >= epsilon:
        return delta
    return delta + (1 - delta) * -math.expm1(at - epsilon) / (1 + math.exp(-epsilon))


def zcdp_delta(rho: float, epsilon: float) -> float:
    """Smallest δ known for which ρ-zCDP, by whatever mechanism, implies (ε, δ)-DP.

    The infimum over α > 1 of e^((α−1)(αρ−ε)) (1 − 1/α)^α/(α − 1), or what that at a larger ε implies, if less.
    Gaussian noise has the smaller exact value ``gdp_delta(rho_mu(rho), epsilon)``.

    See Canonne, Kamath & Steinke (2020), The discrete Gaussian for differential privacy, Corollary 13.
    """
    from scipy.optimize import minimize_scalar

    # Corollary 13 alone is not a trade-off curve: near ε = 0 its bound at a larger ε says more.
    width = 4 * math.sqrt(rho) + rho
    how: Any = {"bounds": (epsilon, epsilon + width), "method": "bounded", "options": {"xatol": 1e-10 * width}}
    found = minimize_scalar(lambda e: dp_delta(e, _concentrated(rho, e), epsilon), **how)
    return min(_concentrated(rho, epsilon), float(found.fun))


def _concentrated(rho: float, epsilon: float) -> float:
    """Corollary 13 of Canonne, Kamath & Steinke (2020), at the best α."""

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


# --- trade-off curves ------------------------------------------------------------------------------------


def gdp_tradeoff(mu: float, type_one: Array) -> Array:
    """Smallest type II error of any test at the given type I errors under μ-GDP: Φ(Φ⁻¹(1 − α) − μ).

    See Dong, Roth & Su (2022), Gaussian differential privacy, equation (6).
    """
    out: Array = ndtr(-ndtri(type_one) - mu)
    return out


def dp_tradeoff(epsilon: float, delta: float, type_one: Array) -> Array:
    """Smallest type II error of any test at the given type I errors under (ε, δ)-DP.

    max(0, 1 − δ − e^ε α, e^−ε (1 − δ − α)) at type I error α.

    See Wasserman & Zhou (2010), A statistical framework for differential privacy, Theorem 2.4; Dong, Roth & Su (2022),
    Gaussian differential privacy, section 2.
    """
    steep = 1 - delta - math.exp(min(epsilon, 700.0)) * type_one
    flat = math.exp(-epsilon) * (1 - delta - type_one)
    out: Array = np.maximum(0.0, np.maximum(steep, flat))
    return out


def pure_tradeoff(epsilon: float, type_one: Array) -> Array:
    """Smallest type II error of any test at the given type I errors under ε-DP: two straight pieces."""
    return dp_tradeoff(epsilon, 0.0, type_one)


def shuffling_limit(n: int, delta: float) -> float:
    """Largest local ε for which :func:`shuffled` has a theorem: log(n/(16 log(2/δ)))."""
    return math.log(n / (16 * math.log(2 / delta)))


def shuffled(epsilon0: float, n: int, delta: float) -> float:
    """Central ε of `n` people's reports, one each, once a trusted shuffler has hidden who sent which.

    `epsilon0` is the pure local ε of a person and report, above 0. What is returned is the ε of an (ε, δ)-DP guarantee
    towards whoever sees the shuffled reports only, never more than `epsilon0`:
    log(1 + (e^ε0 − 1)/(e^ε0 + 1) · (8√(e^ε0 log(4/δ))/√n + 8 e^ε0/n)).
    Raises BudgetError if a number is out of range, or ε0 > log(n/(16 log(2/δ))), where the theorem says nothing.

    The theorem permutes the *people* uniformly at random and then calls one ε0-DP randomiser after another. The i-th
    randomiser may depend on the earlier reports, not on who is called. So reports may be adaptive, provided that the
    order of the people is uniformly random and stays unknown to the attacker. Neighbours replace one record.

    See Feldman, McMillan & Talwar (2021), Hiding among the clones, FOCS, Theorem III.1 (3.1 of arXiv 2012.12803).
    """
    e, d, people = real(epsilon0), real(delta), real(n)
    if e is None or not 0 < e < math.inf:
        raise BudgetError(f"epsilon0={shown(epsilon0)} must be a positive number, the pure local ε of each report.")
    if d is None or not 0 < d < 1:
        raise BudgetError(f"delta={shown(delta)} must be in (0, 1); 1e-6 is usual.")
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


REPORTED_DELTA: Final = 1e-6

_SMALLEST, _LARGEST = 1e-12, 1e12
"""Budgets outside are slips of the pen, and the conversions' arithmetic fails far beyond."""


class _Unset:
    """Marks a budget that was not given, since ``mu=None`` means the non-private fit."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = _Unset()


def at_least(loss: float, digits: int) -> str:
    """Print a privacy loss with `digits` significant digits, never less than it is."""
    if loss == 0 or not math.isfinite(loss):
        return f"{loss:g}"
    unit = 10.0 ** (math.floor(math.log10(loss)) - digits + 1)
    steps = loss / unit
    up = math.ceil(steps - 1e-9)  # 1.0 is 1, whatever its last bit
    return f"{up * unit:.{digits}g}"


def within(loss: float, digits: int) -> str:
    """Print a privacy loss with `digits` significant digits, rounded up, and say so where it was."""
    text = at_least(loss, digits)
    return text if math.isclose(float(text), loss, rel_tol=1e-9) else f"at most {text}"


def at_most(loss: float, digits: int) -> str:
    """Print a privacy loss with `digits` significant digits, never more than it is."""
    unit = 10.0 ** (math.floor(math.log10(loss)) - digits + 1)
    return f"{math.floor(loss / unit + 1e-9) * unit:.{digits}g}"


def compose(mus: Iterable[float]) -> float:
    """GDP parameter of several releases about the same people: √Σμ²."""
    return math.sqrt(math.fsum(m * m for m in mus))


def _number(name: str, value: object) -> float:
    number = real(value)
    if number is None:
        raise BudgetError(f"{name} must be a number, got {type(value).__name__}.")
    return number


@dataclass(frozen=True)
class Budget:
    """Privacy budget of one person, as asked for and as accounted in μ.

    ``a <= b`` is True if the guarantee asked for in `a` implies the one asked for in `b`, whatever the mechanism:
    `a` is at least as private. Both ``a <= b`` and ``b <= a`` are False if neither is known to imply the other.

    Parameters
    ----------
    mu : float
        GDP parameter per person; ``inf`` for the non-private fit. For pure ε the smallest that ε-DP implies; for
        (ε, δ) and ρ that of the *Gaussian* mechanism calibrated to them.
    form : str
        How it was asked for: "mu", "epsilon" (pure), "epsilon, delta", "rho" or "none".
    asked : tuple of float
        The numbers asked for, in that form.

    Attributes
    ----------
    epsilon : float
        ε of a pure budget, per person; ``inf`` for every other form.
    """

    mu: float
    form: str
    asked: tuple[float, ...]
    epsilon: float = field(init=False, default=math.inf)

    def __post_init__(self) -> None:
        if self.form == "epsilon":
            object.__setattr__(self, "epsilon", self.asked[0])

    @classmethod
    def declare(cls, mu: object = UNSET, epsilon: object = None, delta: object = None, rho: object = None) -> Budget:
        """Read exactly one form of budget.

        Parameters
        ----------
        mu : float or None
            μ-GDP per person, > 0. ``None`` asks for the non-private fit.
        epsilon : float
            ε > 0 per person: pure ε-DP without `delta` or with ``delta=0``.
        delta : float
            With `epsilon`, (ε, δ)-DP per person, 0 < δ < 1.
        rho : float
            ρ-zCDP per person, > 0; accounted as μ = √(2ρ).

        Raises
        ------
        BudgetError
            If no form, or more than one, is given, or a number is out of range.
        """
        forms = [mu is not UNSET, epsilon is not None or delta is not None, rho is not None]
        if sum(forms) != 1:
            got = [n for n, v in (("mu", mu is not UNSET), ("epsilon/delta", forms[1]), ("rho", forms[2])) if v]
            raise BudgetError(
                f"Give exactly one privacy budget, got {' and '.join(got) if got else 'none'}: mu=1.0, "
                "or epsilon=1.0, delta=1e-6, or rho=0.5, or epsilon=1.0 alone for pure differential privacy "
                "(mu=None for a fit without privacy)."
            )
        if forms[0]:
            if mu is None:
                return cls(math.inf, "none", ())
            if isinstance(mu, str):
                raise BudgetError(
                    "mu must be a number here; personal budgets are read from a column of a formula's data, as in "
                    "from_formula(..., mu='my_budget', mu_max=1.0)."
                )
            m = _number("mu", mu)
            if not _SMALLEST <= m <= _LARGEST:
                raise BudgetError(
                    f"mu={m:g} must be a positive number, 1e-12 to 1e12 (or None for a fit without privacy); 0.5 to 2 "
                    "is usual, and smaller protects more."
                )
            return cls(m, "mu", (m,))
        if forms[1]:
            if epsilon is None:
                raise BudgetError("epsilon and delta go together; epsilon is missing (epsilon=1.0, say).")
            e = _number("epsilon", epsilon)
            if not _SMALLEST <= e <= _LARGEST:
                raise BudgetError(
                    f"epsilon={e:g}, or the share of it that a column or a round gets, must be a positive number, "
                    "1e-12 to 1e12: 1 to 8 is usual where people randomise "
                    "their own records, and smaller protects more."
                )
            d = 0.0 if delta is None else _number("delta", delta)
            if d == 0:
                return cls._pure(e)
            if not 1e-100 <= d < 1:
                raise BudgetError(
                    f"delta={d:g} must be in (0, 1), 1e-100 at least; 1e-6 is usual, and 0 or none asks for pure "
                    "differential privacy."
                )
            return cls(gdp_mu(e, d), "epsilon, delta", (e, d))
        r = _number("rho", rho)
        if not _SMALLEST <= r <= _LARGEST:
            raise BudgetError(
                f"rho={r:g} must be a positive number, 1e-12 to 1e12: 0.1 to 2 is usual, and smaller protects more."
            )
        return cls(math.sqrt(2 * r), "rho", (r,))

    @classmethod
    def _pure(cls, epsilon: float) -> Budget:
        return cls(pure_mu(epsilon), "epsilon", (epsilon,))

    @classmethod
    def restore(cls, form: str, asked: Sequence[float]) -> Budget:
        """Rebuild from a file's `form` and `asked`."""
        if form == "none":
            return cls.declare(mu=None)
        names = {"mu": ("mu",), "rho": ("rho",), "epsilon": ("epsilon",), "epsilon, delta": ("epsilon", "delta")}[form]
        return cls.declare(**dict(zip(names, asked, strict=True)))

    @property
    def private(self) -> bool:
        """True if this budget is finite, and so protects anybody."""
        return math.isfinite(self.mu)

    @property
    def pure(self) -> bool:
        """True for pure ε-DP, which Gaussian noise can't satisfy."""
        return self.form == "epsilon"

    def pure_epsilon(self) -> float:
        """Largest ε for which every ε-DP mechanism keeps this budget, per person; ``inf`` if it is not private.

        ε itself if it is pure; log(Φ(μ/2)/Φ(−μ/2)) under μ; log((e^ε + δ)/(1 − δ)) under (ε, δ); the root of ε
        tanh(ε/2) = ρ under ρ: see ``pure_for_mu``, ``pure_for_dp``, ``pure_for_rho`` of `privreg.privacy.budget`.

        Notes
        -----
        For (ε, δ) and ρ the field `mu` is the Gaussian mechanism's. A mechanism that uses this ε has lost more by
        that measure: account for it with :meth:`as_pure`.

        Examples
        --------
        >>> round(Budget.declare(mu=1).pure_epsilon(), 3)
        0.807
        """
        if self.form == "none":
            return math.inf
        if self.form == "epsilon, delta":
            return pure_for_dp(*self.asked)
        if self.form == "rho":
            return pure_for_rho(self.asked[0])
        return self.asked[0] if self.pure else pure_for_mu(self.mu)

    def as_pure(self) -> Budget:
        """Pure budget with :meth:`pure_epsilon`: what a pure mechanism under this budget spends, ``<=`` this one."""
        return self if self.pure or not self.private else Budget._pure(self.pure_epsilon())

    def delta(self, epsilon: float) -> float:
        """Smallest δ for which what is accounted implies (ε, δ)-DP, per person, ε ≥ 0.

        (e^ε0 − e^ε)/(1 + e^ε0) for a pure ε0; that of μ-GDP for every other form, exact for the Gaussian mechanism; 1
        without privacy.
        """
        if not self.private:
            return 1.0
        return pure_delta(self.epsilon, epsilon) if self.pure else gdp_delta(self.mu, epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Smallest ε ≥ 0 for which what is accounted implies (ε, δ)-DP, per person; the inverse of :meth:`delta`."""
        if not self.private:
            return math.inf
        return pure_epsilon(self.epsilon, delta) if self.pure else gdp_epsilon(self.mu, delta)

    def tradeoff(self, type_one: NDArray[np.float64]) -> NDArray[np.float64]:
        """Smallest type II error of any test between two neighbours, at each type I error in [0, 1], same shape.

        f_ε for a pure budget, G_μ for every other, zero without privacy.
        """
        if not self.private:
            return np.zeros_like(type_one)
        if self.pure:
            return pure_tradeoff(self.epsilon, type_one)
        return gdp_tradeoff(self.mu, type_one)

    def times(self, releases: int) -> Budget:
        """Budget of so many releases of this one about the same people; as :meth:`compose` has it."""
        if releases == 1 or not self.private:
            return self
        if self.pure:
            return Budget._pure(self.epsilon * releases)
        mu = math.sqrt(releases) * self.mu
        return Budget.declare(rho=self.asked[0] * releases) if self.form == "rho" else Budget.declare(mu=mu)

    @staticmethod
    def compose(*budgets: Budget, pure: bool = True) -> Budget:
        """Budget of several releases about the same people, adaptively chosen or not.

        Parameters
        ----------
        *budgets : Budget
            One or more, as accounted: those in (ε, δ) or ρ spent by Gaussian mechanisms.
        pure : bool
            Whether pure budgets give a pure one. False gives their GDP composition, which is the smaller in μ where
            they are many; both hold at once.

        Returns
        -------
        Budget
            Pure Σε if all are pure; Σρ if all are ρ; otherwise μ = √Σμ².

        Raises
        ------
        BudgetError
            If there is none.

        References
        ----------
        Dong, Roth & Su (2022), Gaussian differential privacy, section 3, for μ.

        Examples
        --------
        >>> once = Budget.declare(epsilon=1)
        >>> print(Budget.compose(once, once), Budget.compose(once, once, pure=False), sep="; ")
        2-DP, pure; 1.74237-GDP
        """
        if not budgets:
            raise BudgetError("compose() needs one budget or more, got none.")
        if len(budgets) == 1 and (pure or not budgets[0].pure):
            return budgets[0]
        if not all(b.private for b in budgets):
            return Budget.declare(mu=None)
        forms = {b.form for b in budgets}
        if forms == {"epsilon"} and pure:
            return Budget._pure(math.fsum(b.epsilon for b in budgets))
        if forms == {"rho"}:
            rho = math.fsum(b.asked[0] for b in budgets)
            return Budget(rho_mu(rho), "rho", (rho,))
        mu = compose(b.mu for b in budgets)
        return Budget(mu, "mu", (mu,))

    def _implies(self, other: Budget) -> bool:
        if not other.private:
            return True
        match self.form, other.form:
            case ("epsilon, delta", "epsilon, delta"):
                return dp_delta(self.asked[0], self.asked[1], other.asked[0]) <= other.asked[1]
            case (mine, theirs) if mine == theirs:
                return self.asked[0] <= other.asked[0]
            case ("epsilon", "mu"):
                return self.mu <= other.mu
            case ("epsilon", "rho"):
                return pure_rho(self.epsilon) <= other.asked[0]
            case ("epsilon", "epsilon, delta"):
                return pure_delta(self.epsilon, other.asked[0]) <= other.asked[1]
            case ("mu", "rho"):
                return gdp_rho(self.mu) <= other.asked[0]
            case ("mu", "epsilon, delta"):
                return gdp_delta(self.mu, other.asked[0]) <= other.asked[1]
            case ("rho", "epsilon, delta"):
                return zcdp_delta(self.asked[0], other.asked[0]) <= other.asked[1]
        return False  # δ > 0 or an unbounded loss rules out the rest; for ρ-zCDP no μ is known in closed form

    def __le__(self, other: object) -> bool:
        return self._implies(other) if isinstance(other, Budget) else NotImplemented

    def __ge__(self, other: object) -> bool:
        return other._implies(self) if isinstance(other, Budget) else NotImplemented

    def __lt__(self, other: object) -> bool:
        return self._implies(other) and not other._implies(self) if isinstance(other, Budget) else NotImplemented

    def __gt__(self, other: object) -> bool:
        return other._implies(self) and not self._implies(other) if isinstance(other, Budget) else NotImplemented

    def __str__(self) -> str:
        if not self.private:
            return "none: this fit is NOT private"
        if self.pure:
            return f"{at_least(self.epsilon, 6)}-DP, pure"
        if self.form == "epsilon, delta":
            return f"({self.asked[0]:g}, {self.asked[1]:g})-DP, calibrated exactly: {at_least(self.mu, 4)}-GDP"
        if self.form == "rho":
            return f"{self.asked[0]:g}-zCDP, accounted as {at_least(self.mu, 4)}-GDP"
        return f"{at_least(self.mu, 6)}-GDP"
