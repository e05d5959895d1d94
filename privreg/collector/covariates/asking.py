"""How reports on moments are asked for: beside how large a constant, and which numbers are drawn in before.

What is reported beside a large constant comes nearer to second moments, with more noise; see `moments.asked`. Public
numbers in, public out.
"""

from __future__ import annotations

import math
from typing import Final

from privreg.collector.covariates import factors as cells
from privreg.collector.covariates import moments
from privreg.collector.covariates.factors import Cells
from privreg.collector.covariates.moments import Scatter
from privreg.collector.levels import BELIEVED
from privreg.collector.plan import Plan, Progress

SHARP: Final = 0.2  # Sd of a variance, relative to its size, that reports beside a larger constant may have

FULL: Final = 8.0
"""Square of that constant, relative to the columns' number, at most: of families whose curvature moves, always but with
splines. Intervals of those, far out in few records each, were then .56 times as long, and covered 81%
(`benchmarks.formulas`)."""

APART: Final = 3.0  # Square of a constant from which on what is reported beside it differs from directions alone


def constant2(plan: Plan, progress: Progress, number: int) -> float:
    """Square λ of the constant in reports on moments of this round: equation (6) of docs/estimator.md."""
    before = any(r.role == "moments" for r in plan.rounds[:number])  # the first has no scales to ask by
    if plan.label or not before:
        return 1.0
    people = sum([r.people for r in plan.rounds if r.role == "moments" and not r.optional][1:])
    most = FULL * (_others(plan) + 1.0)
    always = plan.rules.varying and not plan.bases
    wanted = most if always else _needed(plan, progress.scatter) - _others(plan)
    if progress.scatter.drawn_in:
        people, wanted = plan.rounds[number].people, most
    return max(min(_told(plan, people), wanted, most), 1.0)


def _others(plan: Plan) -> float:
    """Columns but the constant, where moments are reported."""
    return plan.direction - 1.0


def _told(plan: Plan, people: int) -> float:
    """Square of the constant beside which so many tell moments."""
    return SHARP * math.sqrt(people) / max(plan.sd("moments"), 1e-300) - _others(plan)


def _needed(plan: Plan, scatter: Scatter) -> float:
    """Mean squared length of rows, the constant's included, at which levels that slopes differ by can be white.

    Only records of a level have anything along its column and those that cross it: of mean squares that are all 1 they
    must hold that many.
    """
    if not plan.cells:
        return 0.0
    shares = cells.shrunk(plan.factors, scatter.shares)
    out = 0.0
    for levels, columns in _crossings(plan).items():
        here = [
            float(p.min()) for g, p in zip(plan.cells, shares, strict=True) if levels.issuperset(g.columns.tolist())
        ]
        out = max(out, columns / max(min(here, default=1.0), 1e-300))
    return out


def _crossings(plan: Plan) -> dict[frozenset[int], float]:
    """Columns of a factor that are crossed with numbers, and how many columns are 0 but for one of its levels."""
    return {
        levels: 1.0 + sum(levels.issuperset(c.levels) for c in plan.crossed) / len(levels)
        for levels in {frozenset(c.levels) for c in plan.crossed}
    }


def least_share(plan: Plan, group: Cells) -> float:
    """Share of the records that a level must have for slopes by it to show, if it has any.

    Where numbers are skewed, slopes by rarer levels had intervals that were far too short even in right models.
    """
    if plan.label or plan.rules.varying:
        return 0.0
    people = sum([r.people for r in plan.rounds if r.role == "moments" and not r.optional][1:])
    own = set(group.columns.tolist())
    columns = max((n for levels, n in _crossings(plan).items() if levels & own), default=0.0)
    return BELIEVED * columns / max(_told(plan, people) + _others(plan), 1e-300)


def overstretched(plan: Plan, progress: Progress, number: int) -> list[int]:
    """Numbers, by their places where moments are reported, that this round is to draw in."""
    if plan.rules.varying or plan.label or _told(plan, plan.rounds[number].people) < APART:
        return []
    return moments.overstretched(progress.scatter, [j + plan.extra for j in plan.alone], plan.widened)
