"""Tables of respondents: means of numbers, shares of levels and of pairs of levels, in one report.

A report has a block for each number or factor. With t a number on [−1, 1], a = 1 if there is one, and W the block's
weight, that is (W t, W a) and, at the report's end, √2 W t²; of a factor W for the level, 0 for the others. The sets
are those of `privreg.means.plan`, in whole numbers. Standard library only.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from .trees import Column
from .wire import MessageError, Record

MOST: Final = 200  # Blocks, at most


class Block(NamedTuple):
    """One number, one factor, or two factors whose levels are crossed."""

    columns: tuple[str, ...]
    weight: int  # Whole number that stands for 1


def read_blocks(record: Record, columns: Mapping[str, Column]) -> tuple[Block, ...]:
    """Read what a table is made of; raises `MessageError`."""
    out = []
    for one in record.items("table", most=MOST):
        each = Record(one, "a block of the table")
        names = tuple(each.items("columns", most=2))
        block = Block(names, each.integer("weight", 1, 1 << 30))
        each.done()
        found = [columns.get(name) if isinstance(name, str) else None for name in names]
        levels = all(c is not None and c.levels for c in found)
        if not names or None in found or (not levels and (len(names) > 1 or not _bounded(columns[names[0]]))):
            raise MessageError("a block of the table must be of a number with bounds, or of one or two factors.")
        if len(set(names)) < len(names):
            raise MessageError("a block of the table crosses a factor with itself.")
        out.append(block)
    if not out:
        raise MessageError("a table has at least one block.")
    return tuple(out)


def _bounded(column: Column) -> bool:
    return not column.levels and math.isfinite(column.low) and math.isfinite(column.high) and column.low < column.high


def levels_of(block: Block, columns: Mapping[str, Column]) -> int:
    """Levels of a block's factor, or pairs of them; 0 of a number."""
    return math.prod(len(columns[name].levels) for name in block.columns)


def width(blocks: Sequence[Block], columns: Mapping[str, Column], *, gaps: bool) -> int:
    """Numbers of a report; `gaps` says whether a value may be missing, which then is a number, or a level, more."""
    sizes = [levels_of(b, columns) for b in blocks]
    return sum(n + int(gaps) if n else 2 + int(gaps) for n in sizes)


def distance2(blocks: Sequence[Block], columns: Mapping[str, Column]) -> int:
    """Squared distance of two reports in whole numbers, at most.

    Of a factor's block two reports are √2 W apart. Of a number's, t and s in whole numbers and their squares rounded
    down, 2W + 1: with u = |t − s|/W the distance is at most W √(u² + (√2 u (2 − u) + 1/W)²) ≤ 2W + 1, as
    u² (1 + 2 (2 − u)²) ≤ 4 and √2 u (2 − u) ≤ 2 on [0, 2]; one that is missing is all zeros, √(1 + t² + 2t⁴) W ≤
    2W off.
    """
    return sum(2 * b.weight**2 if levels_of(b, columns) else (2 * b.weight + 1) ** 2 for b in blocks)
