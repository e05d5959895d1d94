"""The noise Ω of reports, rates and upper bounds of the errors of LDP-SGD, SXJKH (arXiv 2507.07041), Theorems 3 to 6.

Steps are γ_i = γ i^(−α), reports are scores of norm at most B0 with noise of E‖noise‖² = Ω B0². The bounds hold the
leading terms only, with constants as published, and refuse what is out of range with an `OptionError`.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple, TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from privreg.base.arrays import Array
from privreg.errors import OptionError, choose, quietly, real, shown
from privreg.privacy.ledger import UNSET, Budget
from privreg.privacy.mechanisms import Mechanism


class Noise(TypedDict, total=False):
    """Arguments of `omega` that a bound takes in place of Omega."""

    mechanism: str
    d: int
    mu: float
    epsilon: float
    delta: float


# --- rates ----------------------------------------------------------------------------------------------


class Rates(NamedTuple):
    """Rates at which errors fall with the number n of people: exponents e of n^−e, None without a rate."""

    alpha: float  # Exponent of the steps
    delta_n: float  # Rate of E‖θ_n − θ0‖² of the last iterate, for a strongly convex loss
    bar_delta_n: float  # Rate of E‖θ̄_n − θ0‖² of the average
    Delta_n: float | None  # Rate of the excess loss E L(θ_n) − L(θ0) of the last iterate, for a loss that is convex
    bar_Delta_n: float | None  # Rate of the average's excess loss


def rates(alpha: float) -> Rates:
    """Rates at which private estimates approach the truth, by the exponent of the steps.

    The columns of SXJKH's Table 1 (arXiv 2507.07041) overlap at 1/3, 1/2 and 2/3, where they agree; at 1/3 the second
    holds, in which the last iterate's excess loss has the exponent (3α − 1)/2 = 0, which is no rate. It has none of an
    excess loss below 1/3. Raises OptionError if `alpha` is not in (0, 1).

    Examples
    --------
    >>> rates(0.6)
    Rates(alpha=0.6, delta_n=0.6, bar_delta_n=1.0, Delta_n=0.3, bar_Delta_n=0.4)
    """
    a = checked(alpha)
    last, average = None, None
    if a >= 1.0 / 3.0:
        average = a if a <= 0.5 else 1.0 - a
        last = min((3.0 * a - 1.0) / 2.0, a / 2.0, 1.0 - a)
    return Rates(a, a, min(2.0 * a, 1.0), last if last is not None and last > 0.0 else None, average)


def checked(alpha: object) -> float:
    """The exponent of the steps as a number; raises OptionError if it is not in (0, 1)."""
    a = real(alpha)
    if a == 1.0:
        raise OptionError(
            "alpha=1 has no rate of its own: it depends on gamma times the least eigenvalue of the Hessian, which is "
            "not known, and intervals don't hold; give alpha in (0, 1)."
        )
    if a is None or not 0.0 < a < 1.0:
        raise OptionError(f"alpha={shown(alpha)} must be in (0, 1), above 1/2 for intervals.")
    return a


# --- noise -----------------------------------------------------------------------------------------------


def omega(
    mechanism: str = "gaussian",
    *,
    d: int,
    mu: float | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> float:
    """Ω = E‖noise/B0‖², the noise of a report relative to its bound.

    Parameters
    ----------
    mechanism : {"gaussian", "laplace", "privunit"}
    d : int
        Numbers in a report.
    mu : float
        For "gaussian": μ-GDP per person, Ω = 4d/μ².
    epsilon : float
        For "laplace": ε-DP, Ω = 8d²/ε²; for "privunit" too, at the centre of the ball.
    delta : float
        With `epsilon`, for "gaussian": (ε, δ)-DP by the classical calibration, Ω = 8d ln(1.25/δ)/ε², which is proved
        for ε ≤ 1. Fits here take the exact conversion, whose Ω is smaller.

    Raises
    ------
    OptionError
        If the mechanism is not known or is given the wrong form of budget, or `d` is not a positive whole number.
    BudgetError
        If a budget is out of range.

    Notes
    -----
    Corrected where the text slips. Example 2 prints /ε for /ε². Example 3 prints the variance 4B0²/μ, where μ-GDP takes
    (2B0/μ)²; the Ω of the same paper has μ². Laplace's Ω is stated as O(d³ ln² d); it is exactly 8d²/ε², the variance
    2·(2√d B0/ε)² of each of d numbers over B0².

    References
    ----------
    SXJKH (arXiv 2507.07041), Examples 1 to 3.

    Examples
    --------
    >>> omega(d=3, mu=2), round(omega("laplace", d=3, epsilon=2), 6)
    (3.0, 18.0)
    """
    name = choose("mechanism", mechanism, ("gaussian", "laplace", "privunit"))
    size = real(d)
    if size is None or size < 1 or size != int(size):
        raise OptionError(f"d={shown(d)} must be a whole number, 1 or more: how many numbers a report holds.")
    budget = Budget.declare(UNSET if mu is None else mu, epsilon, delta)
    if name == "gaussian" and budget.form == "epsilon":
        raise OptionError(
            "Gaussian noise needs mu=, or epsilon= with delta=; for pure epsilon use mechanism='laplace'."
        )
    if name != "gaussian" and budget.form != "epsilon":
        raise OptionError(f"mechanism={name!r} is for pure differential privacy; give epsilon= alone.")
    if budget.form == "epsilon, delta":
        eps, least = budget.asked
        return 8.0 * size * math.log(1.25 / least) / eps**2
    return size * Mechanism(name, budget).sd(1.0, int(size)) ** 2


# --- upper bounds ----------------------------------------------------------------------------------------


def psi(beta: float, t: ArrayLike) -> Any:
    """ψ_β(t) = (t^β − 1)/β, and ln t at β = 0, of positive t; shape that of `t`.

    Examples
    --------
    >>> psi(0.5, 4.0), round(psi(0.0, 4.0), 4)
    (2.0, 1.3863)
    """
    log = np.log(np.asarray(t, dtype=np.float64))
    return _plain(log if beta == 0 else np.expm1(beta * log) / beta)


def delta_n(
    n: ArrayLike, *, gamma: float, alpha: float, B0: float, m: float, Omega: float | None = None, **noise: Unpack[Noise]
) -> Any:
    """Bound of the last iterate's error E‖θ_n − θ0‖² for a strongly convex loss: B0²(1 + Ω)γ/(m n^α), the shape of `n`.

    Parameters
    ----------
    n : int or array_like
        People, 1 or more.
    gamma, alpha : float
        Steps γ i^(−α), α in (0, 1).
    B0 : float
        Bound of a score's norm.
    m : float
        Strong convexity: the least eigenvalue of the loss's Hessian is at least m.
    Omega : float, optional
        Noise E‖noise/B0‖²; 0 without privacy.
    **noise
        In place of `Omega`: mechanism, d, and mu, epsilon or delta, as for :func:`omega`.

    Raises
    ------
    OptionError
        If an argument is out of range, or Omega and a mechanism are both given, or neither.

    References
    ----------
    SXJKH (arXiv 2507.07041), Theorems 3 to 6; leading term.

    Examples
    --------
    >>> delta_n(10_000, gamma=0.5, alpha=0.5, B0=2, m=1, mechanism="gaussian", d=1, mu=2)
    0.04
    """
    people, a, g, spread = _read(n, alpha, gamma, B0, Omega, noise)
    return _plain(spread * g / (_positive("m", m) * people**a))


def bar_delta_n(
    n: ArrayLike,
    *,
    gamma: float,
    alpha: float,
    B0: float,
    m: float,
    trace: float,
    C: float = 1.0,
    Omega: float | None = None,
    **noise: Unpack[Noise],
) -> Any:
    """Bound of the average's error E‖θ̄_n − θ0‖² for a strongly convex loss; other arguments as for :func:`delta_n`.

    tr(A⁻¹SA⁻¹)/n + B0²(1 + Ω)/(mn) + Cγ²ψ_{1−2α}(n)/(n m²), of which only the first term is exact in the limit.

    Parameters
    ----------
    trace : float
        tr(A⁻¹SA⁻¹), A the loss's Hessian and S the covariance of the reports. For 1/2 < α < 1 the error tends to
        trace/n, by the central limit theorem; the other terms of the bound are of the order 1/n too, and not sharp.
    C : float
        A constant that the theory does not give.

    Examples
    --------
    >>> round(bar_delta_n(100, gamma=1, alpha=0.5, B0=1, m=1, trace=2, Omega=0), 4)  # 0.02 + 0.01 + ln(100)/100
    0.0761
    """
    people, a, g, spread = _read(n, alpha, gamma, B0, Omega, noise)
    strong, limit = _positive("m", m), _positive("trace", trace, zero=True)
    more = _positive("C", C, zero=True) * g**2 * psi(1.0 - 2.0 * a, people) / strong**2
    return _plain((limit + spread / strong + more) / people)


def bar_Delta_n(
    n: ArrayLike,
    *,
    gamma: float,
    alpha: float,
    B0: float,
    delta0: float,
    Omega: float | None = None,
    **noise: Unpack[Noise],
) -> Any:
    """Bound of the average's excess loss E L(θ̄_n) − L(θ0) for a convex loss; other arguments as for :func:`delta_n`.

    {δ0 + B0²(1 + Ω)γ²ψ_{1−2α}(n)}/(2γn^{1−α}) + B0²(1 + Ω)γψ_{1−α}(n)/(2n), `delta0` being ‖θ_0 − θ0‖² of the start.

    Examples
    --------
    >>> round(bar_Delta_n(100, gamma=1, alpha=0.5, B0=1, delta0=1, Omega=0), 4)  # (1 + ln 100)/20 + 18/200
    0.3703
    """
    people, a, g, spread = _read(n, alpha, gamma, B0, Omega, noise)
    way = _way(people, a, g, spread, delta0)
    return _plain(way / (2.0 * g * people ** (1.0 - a)) + spread * g * psi(1.0 - a, people) / (2.0 * people))


def Delta_n(
    n: ArrayLike,
    *,
    gamma: float,
    alpha: float,
    B0: float,
    M: float,
    delta0: float,
    Omega: float | None = None,
    **noise: Unpack[Noise],
) -> Any:
    """Bound of the last iterate's excess loss E L(θ_n) − L(θ0) for a convex, smooth loss, 1/2 < α < 1; infinite at n =
    1.

    2G^{1/2}H/ψ_{1−α}(n) for α > 2/3 and 2G^{1/2}H/ψ_{α/2}(n) for α ≤ 2/3, with G = δ0 + B0²(1 + Ω)γ²ψ_{1−2α}(n) and H =
    (1 + 4M^{1/2}B0(1 + Ω)^{1/2}γ^{3/2})/γ. M is the loss's smoothness: the largest eigenvalue of its Hessian is at most
    M. Other arguments are those of :func:`bar_Delta_n`.

    Examples
    --------
    >>> round(Delta_n(10_000, gamma=1, alpha=0.75, B0=1, M=1, delta0=1, Omega=0), 4)
    0.4795
    """
    people, a, g, spread = _read(n, alpha, gamma, B0, Omega, noise)
    if a <= 0.5:
        raise OptionError(
            f"alpha={a:g} must be in (1/2, 1) for the last iterate's excess loss; bar_Delta_n bounds the average's "
            "for any alpha in (0, 1)."
        )
    steep = (1.0 + 4.0 * math.sqrt(_positive("M", M) * spread) * g**1.5) / g
    beta = 1.0 - a if a > 2.0 / 3.0 else a / 2.0
    with np.errstate(divide="ignore"):
        return _plain(2.0 * np.sqrt(_way(people, a, g, spread, delta0)) * steep / psi(beta, people))


def _way(people: Array, a: float, g: float, spread: float, delta0: float) -> Any:
    """G: how far the iterates get from θ0, squared."""
    return _positive("delta0", delta0, zero=True) + spread * g**2 * psi(1.0 - 2.0 * a, people)


# --- arguments -------------------------------------------------------------------------------------------


def _positive(name: str, value: object, *, zero: bool = False) -> float:
    number = real(value)
    if number is None or not (0.0 <= number < math.inf) or (number == 0.0 and not zero):
        raise OptionError(f"{name}={shown(value)} must be a {'non-negative' if zero else 'positive'} number.")
    return number


def _read(
    n: ArrayLike, alpha: object, gamma: object, B0: object, Omega: float | None, noise: Noise
) -> tuple[Array, float, float, float]:
    """People, α, γ, and B0²(1 + Ω), the bound of E‖report‖²."""
    wrong = OptionError("n must be a number of people, 1 or more, or an array of such numbers.")
    people = quietly(lambda: np.asarray(n, dtype=np.float64), wrong)
    if not (people >= 1.0).all():
        raise wrong
    if (Omega is None) == (not noise):
        raise OptionError(
            f"give either Omega= or a mechanism (mechanism=, d=, and mu= or epsilon=), got "
            f"{'both' if noise else 'neither'}; Omega=0 is no noise."
        )
    size = omega(**noise) if Omega is None else _positive("Omega", Omega, zero=True)
    return people, checked(alpha), _positive("gamma", gamma), _positive("B0", B0) ** 2 * (1.0 + size)


def _plain(values: Any) -> Any:
    """A float of a single number, else the array."""
    return float(values) if np.ndim(values) == 0 else values
