"""What a device makes of its answers for a table: whole numbers, see `wire.tables`, before any noise.

What is made lies in the set that the role's radius stands for, whatever the answers are.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from privreg_field.wire.study import PublicPlan
from privreg_field.wire.tables import levels_of

from .design import read
from .score import clipped


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
