"""Theory of LDP-SGD as published: its table of rates, and the noise of its reports.

Steps are γ_i = γ i^(−α), reports are scores of norm at most B0 with noise of E‖noise‖² = Ω B0². Nothing here is used by
a fit. The upper bounds of SXJKH (arXiv 2507.07041), Theorems 3 to 6, are in `benchmarks/papers/bounds.py`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from privreg.errors import OptionError, choose, real, shown
from privreg.privacy.ledger import UNSET, Budget
from privreg.privacy.mechanisms import Mechanism

# --- the table of rates ----------------------------------------------------------------------------------


class Rates(NamedTuple):
    """Rates at which errors fall with the number n of people: exponents e of n^−e, None without a rate."""

    alpha: float  # Exponent of the steps
    delta_n: float  # Rate of E‖θ_n − θ0‖² of the last iterate, for a strongly convex loss
    bar_delta_n: float  # Rate of E‖θ̄_n − θ0‖² of the average
    Delta_n: float | None  # Rate of the excess loss E L(θ_n) − L(θ0) of the last iterate, for a loss that is convex
    bar_Delta_n: float | None  # Rate of the average's excess loss


def rates(alpha: float) -> Rates:
    """Rates at which private estimates approach the truth, by the exponent of the steps, `alpha` in (0, 1).

    Raises
    ------
    OptionError
        If `alpha` is not in (0, 1).

    Notes
    -----
    The columns of the table overlap at 1/3, 1/2 and 2/3, where they agree; at 1/3 the second column holds, in which the
    last iterate's excess loss has the exponent (3α − 1)/2 = 0, which is no rate. The table has none of an excess loss
    below 1/3, although the leading terms of its bound fall like n^−α there too.

    References
    ----------
    SXJKH: Shi, Xie, Jiang, Kong & He (arXiv 2507.07041), Table 1.

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


# --- arguments -------------------------------------------------------------------------------------------


def checked(alpha: object) -> float:
    """The exponent of the steps as a number; raises OptionError if it is not in (0, 1)."""
    a = real(alpha)
    if a == 1.0:
        raise OptionError(
            "alpha=1 has no rate of its own: it depends on gamma times the least eigenvalue of the Hessian, which is "
            "not known (n^(-2 gamma lambda) below 1/2, else 1/n), and intervals don't hold; give alpha in (0, 1)."
        )
    if a is None or not 0.0 < a < 1.0:
        raise OptionError(f"alpha={shown(alpha)} must be in (0, 1), above 1/2 for intervals.")
    return a
