"""Privacy budgets, their conversions, and the ledger of releases.

The unit of account is μ of Gaussian differential privacy *per person*, neighbours differing in one
record (replace-one). Other forms are converted to the largest μ they allow.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from scipy.special import log_ndtr

from privreg.errors import BudgetError, real

__all__ = ["UNSET", "Budget", "Ledger", "Release", "at_least", "compose", "gdp_delta", "gdp_epsilon", "gdp_mu"]

REPORTED_DELTA: Final = 1e-6

_SMALLEST, _LARGEST = 1e-12, 1e12
"""Budgets outside are slips of the pen, and the conversions' arithmetic fails far beyond."""


class _Unset:
    """Marks a budget that was not given, since ``mu=None`` means the non-private fit."""

    def __repr__(self) -> str:
        return "<not given>"


UNSET: Final = _Unset()


def gdp_delta(mu: float, epsilon: float) -> float:
    """Smallest δ for which μ-GDP implies (ε, δ)-DP.

    Parameters
    ----------
    mu : float
        GDP parameter per person, > 0.
    epsilon : float
        ε ≥ 0.

    Returns
    -------
    float
        δ_μ(ε) = Φ(−ε/μ + μ/2) − e^ε Φ(−ε/μ − μ/2).

    References
    ----------
    Dong, Roth & Su (2022), Gaussian differential privacy, Corollary 1.

    Examples
    --------
    >>> round(gdp_delta(1.0, 1.0), 4)
    0.1269
    """
    upper = float(log_ndtr(-epsilon / mu + mu / 2))
    lower = epsilon + float(log_ndtr(-epsilon / mu - mu / 2))
    return math.exp(upper) * -math.expm1(min(lower - upper, 0.0))


def gdp_epsilon(mu: float, delta: float) -> float:
    """Smallest ε ≥ 0 for which μ-GDP implies (ε, δ)-DP.

    Parameters
    ----------
    mu : float
        GDP parameter per person, > 0.
    delta : float
        δ in (0, 1).

    Returns
    -------
    float

    Examples
    --------
    >>> round(gdp_epsilon(1.0, 1e-6), 3)
    4.887
    """
    from scipy.optimize import brentq  # here, because it would slow every import of the package

    if gdp_delta(mu, 0.0) <= delta:
        return 0.0
    high = 1.0
    while gdp_delta(mu, high) > delta:
        high *= 2
    return float(brentq(lambda e: math.log(gdp_delta(mu, e) or 1e-320) - math.log(delta), 0.0, high, xtol=1e-12))


def gdp_mu(epsilon: float, delta: float) -> float:
    """Largest μ for which μ-GDP implies (ε, δ)-DP: the exact Gaussian calibration.

    Parameters
    ----------
    epsilon, delta : float
        ε ≥ 0 and δ in (0, 1), per person.

    Returns
    -------
    float

    References
    ----------
    Balle & Wang (2018), Improving the Gaussian mechanism, Theorem 8.

    Examples
    --------
    >>> round(gdp_mu(1.0, gdp_delta(1.0, 1.0)), 9)
    1.0
    """
    from scipy.optimize import brentq

    low, high = 1e-8, 1.0
    while gdp_delta(high, epsilon) < delta:
        high *= 2
    while gdp_delta(low, epsilon) > delta:
        low /= 10
    root = float(
        brentq(
            lambda m: math.log(gdp_delta(m, epsilon) or 1e-320) - math.log(delta),
            low,
            high,
            xtol=1e-15 * low,
            rtol=1e-14,
            maxiter=1000,
        )
    )
    # The root is found to rounding; step to its safe side.
    while gdp_delta(root, epsilon) > delta:
        root *= 1 - 1e-14
    return root


def at_least(loss: float, digits: int) -> str:
    """Print a privacy loss with `digits` significant digits, never less than it is.

    Examples
    --------
    >>> at_least(2**0.5, 4), at_least(1.0, 4), at_least(12.347, 3)
    ('1.415', '1', '12.4')
    """
    if loss == 0 or not math.isfinite(loss):
        return f"{loss:g}"
    unit = 10.0 ** (math.floor(math.log10(loss)) - digits + 1)
    steps = loss / unit
    up = math.ceil(steps - 1e-9)  # 1.0 is 1, whatever its last bit
    return f"{up * unit:.{digits}g}"


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
    """What one person may lose, as asked for and as accounted.

    Parameters
    ----------
    mu : float
        GDP parameter per person; ``inf`` for the non-private fit.
    form : str
        How it was asked for: "mu", "epsilon, delta", "rho" or "none".
    asked : tuple of float
        The numbers asked for, in that form.
    """

    mu: float
    form: str
    asked: tuple[float, ...]

    @classmethod
    def declare(cls, mu: object = UNSET, epsilon: object = None, delta: object = None, rho: object = None) -> Budget:
        """Read exactly one form of budget.

        Parameters
        ----------
        mu : float or None
            μ-GDP per person, > 0. ``None`` asks for the non-private fit.
        epsilon, delta : float
            (ε, δ)-DP per person, ε > 0 and 0 < δ < 1.
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
                "or epsilon=1.0, delta=1e-6, or rho=0.5 (mu=None for a fit without privacy)."
            )
        if forms[0]:
            if mu is None:
                return cls(math.inf, "none", ())
            if isinstance(mu, str):
                raise BudgetError(
                    "mu must be a number: personal budgets read from a column are not supported yet; "
                    "use the smallest budget anybody has."
                )
            m = _number("mu", mu)
            if not _SMALLEST <= m <= _LARGEST:
                raise BudgetError(
                    f"mu={m:g} must be a positive number, 1e-12 to 1e12 (or None for a fit without privacy)."
                )
            return cls(m, "mu", (m,))
        if forms[1]:
            if epsilon is None or delta is None:
                missing = "delta" if delta is None else "epsilon"
                raise BudgetError(f"epsilon and delta go together; {missing} is missing (delta=1e-6 is usual).")
            e, d = _number("epsilon", epsilon), _number("delta", delta)
            if not _SMALLEST <= e <= _LARGEST:
                raise BudgetError(f"epsilon={e:g} must be a positive number, 1e-12 to 1e12.")
            if not 1e-100 <= d < 1:
                raise BudgetError(
                    f"delta={d:g} must lie in (0, 1), 1e-100 at least; 1e-6 is usual. Pure epsilon is not offered yet."
                )
            return cls(gdp_mu(e, d), "epsilon, delta", (e, d))
        r = _number("rho", rho)
        if not _SMALLEST <= r <= _LARGEST:
            raise BudgetError(f"rho={r:g} must be a positive number, 1e-12 to 1e12.")
        return cls(math.sqrt(2 * r), "rho", (r,))

    @property
    def private(self) -> bool:
        """Whether this budget protects anybody."""
        return math.isfinite(self.mu)

    def __str__(self) -> str:
        if not self.private:
            return "none: this fit is NOT private"
        if self.form == "epsilon, delta":
            return f"({self.asked[0]:g}, {self.asked[1]:g})-DP, calibrated exactly: {at_least(self.mu, 4)}-GDP"
        if self.form == "rho":
            return f"{self.asked[0]:g}-zCDP, accounted as {at_least(self.mu, 4)}-GDP"
        return f"{at_least(self.mu, 6)}-GDP"


@dataclass(frozen=True)
class Release:
    """One release as the ledger saw it.

    Parameters
    ----------
    number : int
        1 for the first release from these data in this process; 0 if nothing can tell whose data they are.
    total_mu : float
        GDP parameter of all of them together, per person.
    """

    number: int
    total_mu: float


class Ledger:
    """Releases from each data source in this process.

    A source is the object or file the rows came from, so a copy counts as another source: the ledger
    reminds, it can't know people. Entries go when the object goes.
    """

    def __init__(self) -> None:
        self._spent: dict[object, list[float]] = {}

    def spend(self, source: Any, mu: float) -> Release:
        """Enter a release of `mu` per person from `source` and return the running total."""
        if source is None:
            return Release(0, mu)
        key = source if isinstance(source, str | tuple) else id(source)
        if key not in self._spent:
            self._spent[key] = []
            if isinstance(key, int):
                try:
                    weakref.finalize(source, self._spent.pop, key, None).atexit = False
                except TypeError:  # not weakly referable: nothing can tell its end, so it isn't followed
                    del self._spent[key]
                    return Release(0, mu)
        spent = self._spent[key]
        spent.append(mu)
        return Release(len(spent), compose(spent))


LEDGER: Final = Ledger()
