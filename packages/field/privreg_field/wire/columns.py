"""Columns that a study asks about, and columns of its design, as a plan has them. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from privreg.protocol.limits import MOST_COLUMNS
from privreg_field.wire import trees

from .trees import Column
from .wire import MessageError, Record, must_show, text_of

MOST_LEVELS: Final = 200
LONGEST_LABEL: Final = 200  # Characters of what respondents read for a level, at most


class Cell(NamedTuple):
    """A column of the design: inside it is (tree − centre)/scale."""

    name: str
    tree: Any  # See `trees`
    centre: float
    scale: float


def read_columns(record: Record) -> dict[str, Column]:
    """Read the columns of a plan, by name."""
    out: dict[str, Column] = {}
    for one in record.items("columns", most=MOST_COLUMNS):
        each = Record(one, "a column")
        name, kind = each.text("name", 256), each.choice("kind", ("number", "levels"))
        low, high, levels, labels = -math.inf, math.inf, tuple[trees.Label, ...](), tuple[str, ...]()
        if kind == "number":
            low, high = each.real("low", infinite=True), each.real("high", infinite=True)
            if low > high or low == math.inf or high == -math.inf:
                raise MessageError("a column has empty bounds.")
        else:
            found = each.items("levels", most=MOST_LEVELS)
            if any(not isinstance(v, str | int) for v in found):
                raise MessageError("levels of a column must be strings, integers, true or false.")
            must_show(found, f"levels of the column {name!r}")
            levels = tuple(found)
            if len({trees.label_text(v) for v in levels}) != len(levels) or len(levels) < 2:
                raise MessageError("a column must have two levels or more, no two of the same text.")
            if each.has("labels"):  # of which columns whose levels are shown as they are say nothing
                held = (Record({"label": v}, f"the column {name!r}") for v in each.items("labels", len(levels)))
                labels = tuple(one.text("label", LONGEST_LABEL) for one in held)
                if len(set(labels)) != len(labels):
                    raise MessageError("a column has two labels that are alike.")
        ask = each.text("ask", 2000)
        each.done()
        if name in out:
            raise MessageError("a column is declared twice.")
        out[name] = Column(name, levels, low, high, ask, labels)
    return out


def read_cell(record: Record, columns: Mapping[str, Column]) -> Cell:
    """Read a column of the design, or the response."""
    name, tree = record.text("name", 1000), record.take("tree")
    centre, scale = record.real("centre"), record.real("scale")
    record.done()
    trees.check(tree, columns, "a column of the design")
    if scale == 0.0:
        raise MessageError("a column of the design has the scale 0.")
    return Cell(name, tree, centre, scale)


def column_object(column: Column) -> dict[str, Any]:
    """A column as JSON has it."""
    if column.levels:
        labels = {"labels": list(column.labels)} if column.labels else {}
        return {"name": column.name, "kind": "levels", "levels": list(column.levels), **labels, "ask": column.ask}
    bounds = {"low": text_of(column.low), "high": text_of(column.high)}
    return {"name": column.name, "kind": "number", **bounds, "ask": column.ask}
