"""Report of a row, or of a person's rows, to a state or a table: numbers, clipped on the lattice by role, with noise.

The clip makes the guarantee, for any state, also one made up for one respondent: what `values` returns lies in the set
that the role's radius stands for, see `lattice`, whatever went before.
"""

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

from privreg.protocol import codes, lattice
from privreg.protocol.sums import Sums
from privreg_field.wire.messages import Ask
from privreg_field.wire.roles import Diary, Role
from privreg_field.wire.study import FAMILIES, PublicPlan
from privreg_field.wire.tables import levels_of

from . import design, score
from .design import Row, read
from .noise import Words, rounded_normal
from .score import clipped

# --- numbers -------------------------------------------------------------------------------------------------


def before_noise(plan: PublicPlan, ask: Ask, group: int, row: Row, weight: float | None = None) -> list[float]:
    """Report of a row to a state before noise: real numbers, shape (numbers,) of the role; of moments, the direction u.

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
    """Report of a person's rows before noise, by their parts: Equation (41) of docs/estimator.md.

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
    if role.form == lattice.BLOCKS:  # which `whole` makes; anything else gives zeros
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


Answers = Mapping[str, object]
Rows = Sequence[Answers]  # A person's; one of a study without a diary


def rows_of(plan: PublicPlan, rows: Rows) -> list[Row]:
    """Rows of a person that a report is made of; of levels in order each is one at every cut point.

    At cut point k the response is whether the level is above it: Equation (51) of docs/sums.md.
    """
    held, cuts = _records_of(plan, rows), () if plan.sums is None else plan.sums.cuts
    if not cuts:
        return held
    if plan.sums is not None and plan.sums.edges:
        return _intervals(plan.sums, held[0])
    return [
        row._replace(x=[u + v for u, v in zip(row.x, cut, strict=True)], y=above, part=row.part / len(cuts))
        for row in held
        for k, cut in enumerate(cuts)
        for above in [float(row.y > k) if math.isfinite(row.y) else math.nan]
    ]


def _intervals(sums: Sums, row: Row) -> list[Row]:
    """Rows of a person's intervals, of one whose response is the time, negative without an event, and offset the start.

    Their response is the event, their offset the logarithm of the time at risk, 1e-12 of the last cut point at least;
    neither is a number where the person isn't at risk: Equation (54) of docs/sums.md.
    """
    time, start, out = abs(row.y), row.offset, list[Row]()
    for cut, (begin, end) in zip(sums.cuts, pairwise(sums.edges), strict=True):
        at_risk = min(time, end) - max(start, begin) if 0.0 <= start < time else -math.inf
        x, event = [u + v for u, v in zip(row.x, cut, strict=True)], float(row.y > 0.0 and begin < time <= end)
        shift = score.log(max(at_risk, 1e-12 * sums.edges[-1])) if at_risk > 0.0 else math.nan
        out.append(row._replace(x=x, y=event, offset=shift))
    return out


def _records_of(plan: PublicPlan, rows: Rows) -> list[Row]:
    """Rows of the design that a report is made of, of answers by column, with their parts, which sum to 1 at most.

    Of a plan without a diary that is the first row, whatever it holds; of another at most K, those that can be used.
    """
    diary = plan.diary
    if diary is None:
        return [design.row_of(plan, rows[0] if rows else {})]
    made = ((design.row_of(plan, answers), answers) for answers in rows)
    held = [(row, answers) for row, answers in made if math.isfinite(row.y)][: diary.rows]
    if not held:
        return []
    weight = _weight(plan, [answers for _, answers in held])
    clamped = tuple(sum(one) / len(held) for one in zip(*(row.clamped for row, _ in held), strict=True))
    out = _without_level(diary, plan.family, [row for row, _ in held])
    if not out:  # of whom bounds may clamp rows all the same
        return [held[0][0]._replace(y=math.nan, clamped=clamped, part=0.0)]
    part = weight / ((len(out) or 1) if diary.mean else diary.slots(plan.family))
    return [row._replace(clamped=clamped, part=part) for row in out]


def _weight(plan: PublicPlan, rows: Rows) -> float:
    """The person's weight relative to the largest, in [0, 1]: the mean of the rows'."""
    assert plan.diary is not None
    column = next((c for c in plan.columns if c.name == plan.diary.weight), None)
    if column is None:
        return 1.0
    return sum((read(column, answers.get(column.name)) or 0.0) / column.high for answers in rows) / len(rows)


def _without_level(diary: Diary, family: str, rows: list[Row]) -> list[Row]:
    """Rows less their person's means, or differences of following rows, in both directions; none of a single row.

    With a logistic score two rows whose answers differ, each as it differs from the other.
    """
    if diary.effect == "none":
        return rows
    if len(rows) < 2:
        return []
    if family not in {"huber", "squared"}:
        one, two = rows
        if one.y == two.y:
            return []
        return [_less(a, b, y=a.y, offset=a.offset - b.offset) for a, b in ((one, two), (two, one))]
    rows = [row._replace(y=row.y - row.offset, offset=0.0) for row in rows]
    if diary.effect == "differences":
        pairs = list(zip(rows[1:], rows[:-1], strict=True))
        return [_less(a, b, y=a.y - b.y) for a, b in (*pairs, *((b, a) for a, b in pairs))]
    n = float(len(rows))
    y = sum(row.y for row in rows) / n
    x = [sum(column) / n for column in zip(*(row.x for row in rows), strict=True)]
    mean = rows[0]._replace(x=x, y=y)
    return [_less(row, mean, y=row.y - y) for row in rows]


def _less(row: Row, other: Row, *, y: float, offset: float = 0.0) -> Row:
    """A row less another one, but for the constant, which comes first."""
    x = [row.x[0], *(a - b for a, b in zip(row.x[1:], other.x[1:], strict=True))]
    return row._replace(x=x, y=y, offset=offset)


def whole(plan: PublicPlan, answers: Mapping[str, object]) -> list[int]:
    """A report to a table in whole numbers, shape (numbers,), of answers by column.

    Each value that is missing says so, or is zeros, by itself.
    """
    columns, gaps = {c.name: c for c in plan.columns}, plan.missing == "noise"
    out: list[int] = []
    squares: list[int] = []
    for block in plan.table:
        held = [columns[name] for name in block.columns]
        values = [read(column, answers.get(column.name)) for column in held]
        size, weight = levels_of(block, columns), block.weight
        if size:
            at = size if gaps else -1
            if None not in values:
                at = 0
                for column, value in zip(held, values, strict=True):
                    at = at * len(column.levels) + int(value or 0)
            out += [weight if k == at else 0 for k in range(size + int(gaps))]
            continue
        (column,), (value,) = held, values
        t = 0
        if value is not None:
            middle, half = 0.5 * (column.low + column.high), 0.5 * (column.high - column.low)
            t = int(weight * clipped((value - middle) / half, -1.0, 1.0))
        out += [t, weight if value is not None else 0] if gaps else [t]
        squares.append(math.isqrt(2 * t**4 // weight**2))
    return out + squares
