"""Rounds that the same rows answer: each round's share of the budget, and the length up to which rows count whole."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

from privreg.collector.aggregate.plan import CHECKED, LARGEST, MOST_MU
from privreg.collector.covariates.whitening import SHARP

if TYPE_CHECKING:
    from privreg.collector.aggregate.plan import Plan, Progress

CHEAP: Final = 0.01  # Share of μ² of an early round at least: all of them cost main rounds some 6% of noise variance

WASTED: Final = 0.05  # Share of an estimate's variance that a start's noise may cost

NEAR: Final = 0.3  # Thresholds by which that noise may move the first main round

SURE: Final = 3.7  # Sds of noise beyond which one of 40 bins has somebody in it: at 1% for all of them

SHIFT: Final = 0.3  # Standard errors by which leaving out rows that aren't seen may move an estimate, about

LEFT: Final = 0.1  # Standard errors that a step may leave

AGAIN: Final = 12  # Main rounds at most

EXACT: Final = 1e-8  # Thresholds that the last step is shorter than where there is no noise

STEPS: Final = 64  # Main rounds at most then


def expected(plan: Plan, progress: Progress) -> tuple[float, float]:
    """Mean slope and mean squared score of a record, by the mean of the response if they follow from it."""
    return progress.expected or (plan.rules.slope, plan.square)


def paid(plan: Plan, progress: Progress) -> Progress:
    """Give the present round its budget; never more than is left, in decimals."""
    if not plan.noise.again or progress.state.role == "over":
        return progress
    mu = math.floor(plan.mu * math.sqrt(share(plan, progress)) * 1e6) / 1e6
    spent = progress.spent + (mu / plan.mu) ** 2
    return progress._replace(state=progress.state._replace(mu=mu), spent=spent)


def share(plan: Plan, progress: Progress) -> float:
    """Share of μ² of the present round: Equation (33). Of a main round half of what is left, or, the last, the rest."""
    size, rules, n, role = plan.d + plan.rules.blocks, plan.rules, plan.mu * plan.rows, progress.state.role
    (slope, square), adders = expected(plan, progress), plan.noise.adders
    match role:
        case "clamping":
            asked = CHECKED**2 * (plan.bounded + 1.0) * adders / (2.0 * n**2)
        case "location":
            asked = 4.0 * (plan.located + 0.5 * bool(plan.persons)) * adders / (0.25 * SHARP * n) ** 2
            if plan.followed:
                asked = max(asked, (4.0 * plan.located + 3.0) * adders * (plan.apiece / n) ** 2)
        case "moments":
            asked = 4.0 * size**3 * adders / (SHARP * n) ** 2
        case "directions" | "lengths":
            asked = 4.0 * max(plan.d, 4.0 * SURE**2) * plan.rows * adders / (SHIFT * n) ** 2
        case "approach":
            top, reach2 = progress.state.top(rules), (progress.state.span * progress.state.reach(plan)) ** 2
            moved = (
                (plan.apart * adders) ** 2 * top**2 * reach2 * progress.state.reach(plan) ** 4 * plan.size * plan.rows
            )
            moved /= 2.0 * WASTED * rules.shares[0] * rules.shares[1] * slope**2 * square * n**4
            near = plan.apart * adders * reach2 * plan.size
            near /= NEAR**2 * rules.shares[0] * slope**2 * n**2
            asked, role = max(moved, near), "several"
        case "measures":
            return plan.measured / plan.rows
        case _:
            rest = 1.0 - progress.spent - plan.measured / plan.rows
            return rest if progress.last else rest / (2.0 if plan.mu < MOST_MU else STEPS)
    return min(max(asked, CHEAP), LARGEST[role])


def slope_edge(plan: Plan, progress: Progress, square: float) -> float:
    """Edge of the noise's eigenvalues, relative to the mean slope, if rows of squared length `square` count whole."""
    rules, slope = plan.rules, expected(plan, progress)[0]
    noise = math.sqrt(plan.apart * plan.noise.adders / rules.shares[1]) * progress.state.top(rules) * square
    return math.sqrt(2.0 * plan.size) * noise / (slope * plan.mu * plan.rows)


def bearable(plan: Plan, progress: Progress) -> float:
    """Largest L² at which scores' noise is a quarter of their sampling, and that of slopes a fifth: Equation (36)."""
    noise = plan.apart * plan.noise.adders * progress.state.span**2 / plan.rules.shares[0]
    score = 0.25 * expected(plan, progress)[1] * plan.mu**2 * plan.rows / noise
    return min(score, SHARP / slope_edge(plan, progress, 1.0))
