"""Theory of LDP-SGD as published: its table of rates, for steps γ_i = γ i^(−α). Nothing here is used by a fit.

The noise of reports and the upper bounds of SXJKH (arXiv 2507.07041), Theorems 3 to 6, are in
`benchmarks/papers/bounds.py`.
"""

from typing import NamedTuple

from privreg.errors import OptionError, real, shown


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
