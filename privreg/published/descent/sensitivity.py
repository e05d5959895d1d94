"""How far one replaced record can move a curator's averaged iterate: in this file, nowhere else.

Both perturbations take their noise from here: `sensitivity` bounds the average of the iterates (output perturbation),
`Constants.gradient` one record's gradient (gradient perturbation), `curvature_sensitivity` the sum of all records'
curvature.

References
----------
Wang, Lei, Ying & Zhang, Differentially private SGD with non-smooth losses, arXiv 2101.08925.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from privreg.errors import OptionError
from privreg.published.descent.losses import Loss

ROUNDING = 1e-9  # Relative slack for steps that are 2/L up to their last bits


class Constants(NamedTuple):
    """What the theory needs to know of a loss on its domain, internal units."""

    alpha: float  # Hölder exponent of the gradient
    holder: float  # L with ‖∂f(w) − ∂f(w')‖ ≤ L ‖w − w'‖^α
    gradient: float  # G = sup ‖∂f‖ over the domain
    slope: float  # The same for φ', to which the kernel clips: G/r
    domain: float  # Radius of a ball that holds all iterates; ``inf`` where none is needed


def sensitivity(times: int, c: Constants, step: float, steps: int) -> float:
    """Largest distance between the averaged iterates of two runs whose records differ in one, drawn K = `times` times.

    c η^(1/(1−α)) √T 1{K ≥ 1} + 2 G η K with c² = ((1−α)/(1+α)) (2^(−α) L)^(2/(1−α)); for α = 1 and η ≤ 2/L it is 2 G η
    K. Internal units; η is the `step`, T the number of `steps`.

    It bounds every single iterate, so it holds for any average of them with weights that don't depend on the records. A
    shared record moves two iterates at distance D to one of at most √(D² + c² η^(2/(1−α))), as the gradient is
    co-coercive; a record that differs adds 2Gη at most; projection on a convex set does not increase their distance;
    and until it is first drawn the runs are the same.

    The Hölder condition is needed only between predictors that occur, not around the ball: for a loss of ⟨x, w⟩
    co-coercivity is the Hölder condition of φ' read from right to left.
    Raises OptionError if α is outside [0, 1], or α = 1 and η > 2/L, where steps expand.
    """
    if not 0.0 <= c.alpha <= 1.0:
        raise OptionError(f"the Hölder exponent alpha={c.alpha:g} must be in [0, 1].")
    if times == 0:
        return 0.0
    drawn = 2.0 * c.gradient * step * times
    if c.alpha == 1.0:
        if step * c.holder > 2.0 * (1.0 + ROUNDING):
            raise OptionError(
                f"step={step:.6g} is too large: with a smooth loss the sensitivity is known for steps up to 2/L = "
                f"{2.0 / c.holder:.6g} (internal units, L = {c.holder:.4g}); take a smaller one, or leave step= out."
            )
        return drawn
    rest = 1.0 - c.alpha
    # in logs: L^(1/(1−α)) overflows as α nears 1 where the product with η^(1/(1−α)) is small
    log = 0.5 * math.log(rest / (1.0 + c.alpha)) + (math.log(step * c.holder) - c.alpha * math.log(2.0)) / rest
    return (math.exp(log) if log < 700.0 else math.inf) * math.sqrt(steps) + drawn


def curvature_sensitivity(steepest: float, reach: float) -> float:
    """Largest Frobenius distance between sums of a x xᵀ over neighbours, 0 ≤ a ≤ `steepest`, ‖x‖ ≤ `reach`.

    √2 · steepest · reach²: ‖a x xᵀ − b z zᵀ‖² = a²‖x‖⁴ + b²‖z‖⁴ − 2ab⟨x, z⟩², attained at right angles.
    """
    return math.sqrt(2.0) * steepest * reach**2


def constants(loss: Loss, reach: float, radius: float | None, step: float, steps: int) -> Constants:
    """What the theory needs to know of a loss on its domain, the ball of `radius` or, if that is None, all of ℝ^d.

    `reach` is r = sup ‖x‖ over the public box, internal units. η and T are for the reach of iterates that are not
    projected.
    Raises OptionError if iterates on all of ℝ^d have no known bound.
    """
    holder = loss.holder * reach ** (1.0 + loss.alpha)
    domain = math.inf if radius is None else radius
    if math.isinf(loss.slope) and radius is None:
        domain = iterates_within(loss.alpha, holder, loss.start, step, steps)
    top = loss.slope_within(reach * domain) if math.isfinite(domain) else loss.slope
    return Constants(loss.alpha, holder, reach * top, top, domain)


def iterates_within(alpha: float, holder: float, start: float, step: float, steps: int) -> float:
    """Radius R_T that T iterates from 0 without projection stay within, for a loss that is nowhere negative.

    R_T² = T sup_f {2ηf(0) + η²c₁²f^(2α/(1+α)) − 2ηf}, c₁ = (1 + 1/α)^(α/(1+α)) L^(1/(1+α)), L the gradient's Hölder
    constant on all of ℝ^d and `start` sup f(0); for α = 1 and η ≤ 1/L that is 2ηT f(0).
    Raises OptionError for α = 0, whose losses are Lipschitz and need no radius, or α = 1 with η > 1/L, where iterates
    may run away.
    """
    if not 0.0 < alpha <= 1.0:
        raise OptionError(f"iterates have a known reach for alpha in (0, 1], got {alpha:g}.")
    gain = 0.0
    if alpha == 1.0:
        if step * holder > 1.0 + ROUNDING:
            raise OptionError(
                f"step={step:.6g} is too large: without radius= it must be at most 1/L = {1.0 / holder:.6g} (internal "
                "units); take a smaller one, or give radius=."
            )
    else:
        power = 2.0 * alpha / (1.0 + alpha)
        c2 = (1.0 + 1.0 / alpha) ** power * holder ** (2.0 / (1.0 + alpha))
        at = (step * c2 * power / 2.0) ** (1.0 / (1.0 - power))  # where the derivative in f is 0
        gain = (step * step) * c2 * at**power - 2.0 * step * at
    return math.sqrt(steps * (2.0 * step * start + gain))
