"""Rows of a person, as a device holds them, to those that its one report is made of: levels out, parts of the report.

The same as `simulation.streaming.persons` does for many people. Nothing here raises, whatever rows hold.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from privreg_field.wire.diaries import Diary
from privreg_field.wire.study import PublicPlan

from . import design
from .design import Row, read

Answers = Mapping[str, object]
Rows = Sequence[Answers]  # A person's; one of a study without a diary


def rows_of(plan: PublicPlan, rows: Rows) -> list[Row]:
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
