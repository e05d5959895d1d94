"""From a row and a state to a report: numbers, clipped on the lattice by role, with noise.

The clip makes the guarantee, for any state, also one made up for one respondent: what `values` returns lies in the set
that the role's radius stands for, see `lattice`, whatever went before.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from privreg.protocol import codes, lattice
from privreg_field.wire.messages import Ask
from privreg_field.wire.roles import Role
from privreg_field.wire.study import FAMILIES, PublicPlan

from . import score
from .design import Row
from .noise import Words, rounded_normal

# --- numbers -------------------------------------------------------------------------------------------------


def before_noise(plan: PublicPlan, ask: Ask, group: int, row: Row, weight: float | None = None) -> list[float]:
    """What a row says to a state, as real numbers: shape (numbers,) of the role; of moments, the direction u.

    `group` is the random one of the respondent's token; `weight`, if given, stands for 1/‖z‖.
    """
    y = row.y if (ask.y_centre, ask.y_scale) == (0.0, 1.0) else score.divide(row.y - ask.y_centre, ask.y_scale)
    less = row.y - row.offset
    if (ask.y_centre, ask.y_scale) != (0.0, 1.0):
        less = score.divide(less - ask.y_centre, ask.y_scale)
    if ask.role == "location":
        return score.above([less if j == plan.d else row.x[j] for j in plan.unscaled], ask.thresholds[group])
    if ask.role == "clamping":
        return list(row.clamped)
    if ask.role == "moments" and plan.is_wide:
        return score.means_and_squares([row.x[j] for j in plan.wide], plan.edges)
    if ask.role == "moments":
        last = less if FAMILIES[plan.family] in codes.SCALED else row.offset
        v = [1.0] * plan.constant + row.x + [last] * plan.moment_response
        return score.direction(score.mapped(ask.rows, v))
    z, offset = score.mapped(ask.rows, row.x, wide=plan.is_wide), score.divide(row.offset, ask.y_scale)
    if ask.role == "measures":
        return _measured(plan, ask, z, y, offset)
    theta = ask.theta_of(group)
    if plan.family == "multinomial":
        return score.classes(theta, z, y)
    family, eta = FAMILIES[plan.family], score.dot(z, theta) + offset
    out = score.weighted(score.unit(family, plan.a, plan.b, ask.c, eta, y), z, weight)
    if plan.roles[ask.role].form == lattice.JOINT:
        out.append(score.number(family, plan.a, plan.b, ask.c, eta, y))
    return out


def _measured(plan: PublicPlan, ask: Ask, z: Sequence[float], y: float, offset: float) -> list[float]:
    assert ask.gauge is not None  # of every state that asks for measures
    gauge = score.Gauged(FAMILIES[plan.family], *ask.gauge, plan.y_max, plan.silent)
    d = plan.d
    return score.gauged(gauge, [score.dot(z, ask.theta[k * d : (k + 1) * d]) + offset for k in range(plan.blocks)], y)


def of_person(plan: PublicPlan, ask: Ask, group: int, rows: Sequence[Row]) -> list[float]:
    """The same of a person's rows, by their parts: Equation (41) of docs/estimator.md.

    Of moments the directions one after the other, each times the root of its part: their products sum to the report.
    """
    if plan.diary is None:
        return before_noise(plan, ask, group, rows[0])
    if ask.role == "clamping":  # in which part of the person's rows, whatever they weigh
        return list(rows[0].clamped) if rows else [0.0] * len(plan.clamping)
    weight = None
    if plan.diary.one and ask.role not in {"moments"}:
        each = (score.inverse_length(score.mapped(ask.rows, row.x)) for row in rows)
        weight = min((v for v in each if v > 0.0), default=0.0)
    made = [before_noise(plan, ask, group, row, weight) for row in rows]
    parts = [row.part for row in rows]
    if ask.role == "moments":
        return [v * math.sqrt(part) for u, part in zip(made, parts, strict=True) for v in u]
    return score.summed(made, parts) or [0.0] * plan.roles[ask.role].numbers


# --- the lattice ---------------------------------------------------------------------------------------------


def values(role: Role, report: Sequence[float]) -> list[int]:
    """Clip a report on the lattice, by the form of its role: integers that lie no farther apart than its noise is for.

    The report may be anything, also what is not finite; the integers have the shape (numbers,).
    """
    if role.form == lattice.MOMENTS:
        return _moments(report, role)
    if role.form == lattice.BLOCKS:  # which `table.whole` makes; anything else gives zeros
        return [0] * role.numbers
    if len(report) != role.numbers:
        report = [math.nan] * role.numbers
    if role.form == lattice.BOX:
        return [_share(v, role.radius, role.radius // 2) for v in report]
    if role.form == lattice.JOINT:
        return [*_ball(report[:-1], role.radius), _share(report[-1], role.radius, 0)]
    return _ball(report, role.radius)


def _share(v: float, radius: int, nothing: int) -> int:
    """A number in [0, 1] as an integer in [0, R]."""
    return nothing if math.isnan(v) else int(score.clipped(v, 0.0, 1.0) * radius)


def inside(v: Sequence[float]) -> list[float]:
    """Numbers with Σ v² ≤ 1 but for rounding: overlong vectors are scaled, those not finite become 0."""
    norm2 = score.dot(v, v)
    root = math.sqrt(max(norm2, 1.0)) if norm2 < math.inf else math.inf
    return [x / root if root < math.inf else 0.0 for x in v]


def _ball(v: Sequence[float], radius: int) -> list[int]:
    """Integers with Σ a² ≤ R²."""
    return shortened([int(radius * x) for x in inside(v)], radius)


def shortened(a: list[int], radius: int) -> list[int]:
    """Integers with Σ a² ≤ R²: the largest lose 1 until it is so, which rounding may ask for."""
    square = sum(x * x for x in a)
    while square > radius * radius:
        j = max(range(len(a)), key=lambda k: (abs(a[k]), -k))
        square -= 2 * abs(a[j]) - 1
        a[j] -= 1 if a[j] > 0 else -1
    return a


def _moments(u: Sequence[float], role: Role) -> list[int]:
    """Lower triangle of R Σ u uᵀ over rows u, one after the other, truncated; zeros if Σ u² is above 1, up to 2⁻³⁰."""
    entries = score.over_rows(u, role.numbers, score.outer)
    if len(entries) != role.numbers or not score.dot(u, u) <= 1.0 + score.NEAR_ONE:
        return [0] * role.numbers
    return [int(role.radius * v) for v in entries]


def randomised(a: Sequence[int], role: Role, bits: int, words: Words) -> list[int]:
    """Add noise to each number, and clamp it: what leaves the device."""
    most = lattice.most(role.radius, bits)
    return [min(max(v + rounded_normal(bits, words), -most), most) for v in a]
