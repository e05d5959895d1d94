"""Privacy budgets: the largest loss of one person, in any of its forms.

The unit of account is μ of Gaussian differential privacy *per person*, neighbours differing in one record
(replace-one). Other forms are converted to the largest μ they allow; pure ε-DP keeps its ε as well and is accounted by
the smallest μ that it implies.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from privreg.errors import BudgetError, real
from privreg.privacy import conversions
from privreg.privacy.conversions import gdp_delta, gdp_epsilon, gdp_mu

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
    return f"{math.ceil(loss / unit - 1e-9) * unit:.{digits}g}"  # 1.0 is 1, whatever its last bit


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


def _number(name: str, value: object, usual: str = "") -> float:
    """A number; one of at least `_SMALLEST` and at most `_LARGEST` where it is said which are `usual`."""
    if (number := real(value)) is None:
        raise BudgetError(f"{name} must be a number, got {type(value).__name__}.")
    if usual and not _SMALLEST <= number <= _LARGEST:
        raise BudgetError(
            f"{name}={number:g} must be a positive number, 1e-12 to 1e12{usual}, and smaller protects more."
        )
    return number


@dataclass(frozen=True)
class Budget:
    """Privacy budget of one person, as asked for and as accounted in μ.

    ``a <= b`` is True if the guarantee asked for in `a` implies the one asked for in `b`, whatever the mechanism:
    `a` is at least as private. Both ``a <= b`` and ``b <= a`` are False if neither is known to imply the other.
    """

    # GDP parameter per person, inf for the non-private fit. For pure ε the smallest that ε-DP implies; for (ε, δ) and ρ
    # that of the *Gaussian* mechanism calibrated to them
    mu: float
    form: str  # Form that was asked for: "mu", "epsilon" (pure), "epsilon, delta", "rho" or "none"
    asked: tuple[float, ...]  # The numbers asked for, in that form

    @classmethod
    def declare(cls, mu: object = UNSET, epsilon: object = None, delta: object = None, rho: object = None) -> "Budget":
        """Read exactly one form of budget, per person.

        `mu` > 0 for μ-GDP, None for the non-private fit; `epsilon` > 0 for pure ε-DP, with `delta` in (0, 1) for
        (ε, δ)-DP; `rho` > 0 for ρ-zCDP, accounted as μ = √(2ρ).
        Raises BudgetError if no form, or more than one, is given, or a number is out of range.
        """
        pure = epsilon is not None or delta is not None
        forms = {"mu": mu is not UNSET, "epsilon/delta": pure, "rho": rho is not None}
        if sum(forms.values()) != 1:
            raise BudgetError(
                f"Give exactly one privacy budget, got {' and '.join(n for n, v in forms.items() if v) or 'none'}: "
                "mu=1.0, or epsilon=1.0, delta=1e-6, or rho=0.5, or epsilon=1.0 alone for pure differential privacy "
                "(mu=None for a fit without privacy)."
            )
        if forms["mu"]:
            if mu is None:
                return cls(math.inf, "none", ())
            if isinstance(mu, str):
                raise BudgetError(
                    "mu must be a number here, such as mu=1.0; personal budgets are read from a column of a formula's "
                    "data, as in from_formula(..., mu='my_budget', mu_max=1.0)."
                )
            m = _number("mu", mu, " (or None for a fit without privacy); 0.5 to 2 is usual")
            return cls(m, "mu", (m,))
        if pure:
            if epsilon is None:
                raise BudgetError("epsilon and delta go together; epsilon is missing (epsilon=1.0, say).")
            usual = "1 to 8 is usual where people randomise their own records"
            e = _number("epsilon", epsilon, f", and so must each column's or round's share of it: {usual}")
            d = 0.0 if delta is None else _number("delta", delta)
            if d == 0:
                return cls._pure(e)
            if not 1e-100 <= d < 1:
                raise BudgetError(
                    f"delta={d:g} must be in (0, 1), 1e-100 at least; 1e-6 is usual, and 0 or none asks for pure "
                    "differential privacy."
                )
            return cls(gdp_mu(e, d), "epsilon, delta", (e, d))
        r = _number("rho", rho, ": 0.1 to 2 is usual")
        return cls(math.sqrt(2 * r), "rho", (r,))

    @classmethod
    def _pure(cls, epsilon: float) -> "Budget":
        return cls(conversions.pure_mu(epsilon), "epsilon", (epsilon,))

    @classmethod
    def restore(cls, form: str, asked: Sequence[float]) -> "Budget":
        """Rebuild from a file's `form` and `asked`."""
        return cls.declare(**({"mu": None} if form == "none" else dict(zip(form.split(", "), asked, strict=True))))

    @property
    def private(self) -> bool:
        """True if this budget is finite, and so protects anybody."""
        return math.isfinite(self.mu)

    @property
    def pure(self) -> bool:
        """True for pure ε-DP, which Gaussian noise can't satisfy."""
        return self.form == "epsilon"

    @property
    def epsilon(self) -> float:
        """ε of a pure budget, per person; ``inf`` for every other form."""
        return self.asked[0] if self.pure else math.inf

    def pure_epsilon(self) -> float:
        """Largest ε for which every ε-DP mechanism keeps this budget, per person; ``inf`` if it is not private.

        For (ε, δ) and ρ the field `mu` is the Gaussian mechanism's. A mechanism that uses this ε has lost more by
        that measure: account for it with :meth:`as_pure`. See ``pure_for_mu`` and so on of `conversions`.
        """
        match self.form:
            case "none" | "epsilon":
                return self.epsilon
            case "epsilon, delta":
                return conversions.pure_for_dp(*self.asked)
            case "rho":
                return conversions.pure_for_rho(self.asked[0])
        return conversions.pure_for_mu(self.mu)

    def as_pure(self) -> "Budget":
        """Pure budget with :meth:`pure_epsilon`: what a pure mechanism under this budget spends, ``<=`` this one."""
        return self if self.pure or not self.private else Budget._pure(self.pure_epsilon())

    def delta(self, epsilon: float) -> float:
        """Smallest δ for which what is accounted implies (ε, δ)-DP, per person, ε ≥ 0.

        That of μ-GDP for every form but pure ε, exact for the Gaussian mechanism; 1 without privacy.
        """
        if not self.private:
            return 1.0
        return conversions.dp_delta(self.epsilon, 0.0, epsilon) if self.pure else gdp_delta(self.mu, epsilon)

    def epsilon_at(self, delta: float) -> float:
        """Smallest ε ≥ 0 for which what is accounted implies (ε, δ)-DP, per person; the inverse of :meth:`delta`."""
        if not self.private:
            return math.inf
        return conversions.pure_epsilon(self.epsilon, delta) if self.pure else gdp_epsilon(self.mu, delta)

    def tradeoff(self, type_one: NDArray[np.float64]) -> NDArray[np.float64]:
        """Smallest type II error of any test between two neighbours, at each type I error in [0, 1], same shape.

        That of μ-GDP for every form but pure ε; zero without privacy.
        """
        if not self.private:
            return np.zeros_like(type_one)
        if self.pure:
            return conversions.dp_tradeoff(self.epsilon, 0.0, type_one)
        return conversions.gdp_tradeoff(self.mu, type_one)

    def times(self, releases: int) -> "Budget":
        """Budget of so many releases of this one about the same people, adaptively chosen or not.

        Pure ε adds up, and so does ρ; else μ is √k times as large. See Dong, Roth & Su (2022), section 3.
        """
        if releases == 1 or not self.private:
            return self
        if self.pure:
            return Budget._pure(self.epsilon * releases)
        mu = math.sqrt(releases) * self.mu
        return Budget.declare(rho=self.asked[0] * releases) if self.form == "rho" else Budget.declare(mu=mu)

    def __le__(self, other: object) -> bool:
        if not isinstance(other, Budget):
            return NotImplemented
        if not other.private:
            return True
        match self.form, other.form:
            case ("epsilon, delta", "epsilon, delta"):
                return conversions.dp_delta(self.asked[0], self.asked[1], other.asked[0]) <= other.asked[1]
            case (mine, theirs) if mine == theirs:
                return self.asked[0] <= other.asked[0]
            case ("epsilon", "mu"):
                return self.mu <= other.mu
            case ("epsilon", "rho"):
                return conversions.pure_rho(self.epsilon) <= other.asked[0]
            case ("epsilon", "epsilon, delta"):
                return conversions.dp_delta(self.epsilon, 0.0, other.asked[0]) <= other.asked[1]
            case ("mu", "rho"):
                return self.mu**2 / 2 <= other.asked[0]  # Dong, Roth & Su (2022), Corollary B.6 of arXiv 1905.02383
            case ("mu", "epsilon, delta"):
                return gdp_delta(self.mu, other.asked[0]) <= other.asked[1]
            case ("rho", "epsilon, delta"):
                return conversions.zcdp_delta(self.asked[0], other.asked[0]) <= other.asked[1]
        return False  # δ > 0 or an unbounded loss rules out the rest; for ρ-zCDP no μ is known in closed form

    def __lt__(self, other: object) -> bool:
        return self <= other and not other <= self if isinstance(other, Budget) else NotImplemented

    def __str__(self) -> str:
        if not self.private:
            return "none: this fit is NOT private"
        if self.pure:
            return f"{at_least(self.epsilon, 6)}-DP, pure"
        mu = f"{at_least(self.mu, 6 if self.form == 'mu' else 4)}-GDP"
        if self.form == "epsilon, delta":
            return f"({self.asked[0]:g}, {self.asked[1]:g})-DP, calibrated exactly: {mu}"
        return f"{self.asked[0]:g}-zCDP, accounted as {mu}" if self.form == "rho" else mu
