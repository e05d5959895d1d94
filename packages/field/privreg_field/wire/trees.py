"""Columns that a study asks about, and columns of its design as trees of a closed list of operations; see `check`.

Trees are nested JSON lists:

["const", hex], ["col", name], ["level", name, label], ["add" | "sub" | "mul" | "div" | "mod" | "floordiv" | "pow" |
"min" | "max", a, b], ["log" | "log1p" | "exp" | "sqrt" | "abs" | "round", a],
["cmp", "lt" | "le" | "gt" | "ge" | "eq" | "ne", a, b], ["and" | "or", a, b], ["not", a], ["where", condition, a, b],
["bspline", a, degree, knots, index], and ["cr", a, knots, values, curvatures], the cubic spline with these values and
second derivatives at its knots. Splines are not finite outside their knots; powers 2, -1 and 0.5 are
a · a, 1/a and √a, which all languages round alike.
"""

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple
from unicodedata import normalize

from privreg.protocol.codes import DEEPEST, HIGHEST, MOST_COLUMNS, MOST_KNOTS

from .wire import MessageError, Record, is_whole, must_show, number_of, text_of

Label = str | int | bool

ONE: Final = ("log", "log1p", "exp", "sqrt", "abs", "round", "not")
TWO: Final = ("add", "sub", "mul", "div", "mod", "floordiv", "pow", "min", "max", "and", "or")
COMPARE: Final = ("lt", "le", "gt", "ge", "eq", "ne")
OPERATIONS: Final = ("const", "col", "level", *TWO, *ONE, "cmp", "where", "bspline", "cr")

MOST: Final = 20_000  # Operations of all columns of a design together, at most


class Column(NamedTuple):
    """A column of a respondent's row, as the plan declares it."""

    name: str
    levels: tuple[Label, ...]  # Levels of a factor, no two of the same text; empty for a number
    low: float  # A number is clamped to [low, high]
    high: float
    ask: str  # The question's text
    labels: tuple[str, ...] = ()  # Labels of the levels for respondents; none: their codes. No report depends on them


def label_text(label: Label) -> str:
    """Text of a label: true, false, digits, or its text in Unicode's form NFC."""
    if isinstance(label, bool):
        return "true" if label else "false"
    return normalize("NFC", str(label))


def check(tree: object, columns: Mapping[str, Column], what: str) -> int:
    """Check a tree, parsed JSON: operations of the list, declared columns and levels, finite numbers; their number.

    `what` is for errors, which are of the message.
    """
    count, left = 0, [(tree, 1)]
    while left:
        node, deep = left.pop()
        count += 1
        if deep > DEEPEST or count > MOST:
            raise MessageError(f"{what} is too large a tree.")
        left += [(a, deep + 1) for a in _checked(node, columns, what)]
    return count


def _checked(node: object, columns: Mapping[str, Column], what: str) -> list[Any]:
    """Arguments of a node that are trees themselves."""
    wrong = MessageError(f"{what} has an operation that this version doesn't know, or with other arguments.")
    if not isinstance(node, list) or not node or not isinstance(node[0], str):
        raise wrong
    name, args = node[0], node[1:]
    if name in TWO and len(args) == 2:
        return args
    if name in ONE and len(args) == 1:
        return args
    if name == "where" and len(args) == 3:
        return args
    if name == "cmp" and len(args) == 3 and isinstance(args[0], str) and args[0] in COMPARE:
        return args[1:]
    if name == "const" and len(args) == 1:
        number_of(args[0], what)
        return []
    if name == "col" and len(args) == 1:
        if len(_declared(args[0], columns, what).levels) in {0, 2}:
            return []
        raise MessageError(f"{what} takes a factor of more than two levels for a number.")
    if name == "level" and len(args) == 2:
        levels = _declared(args[0], columns, what).levels
        if isinstance(args[1], str | int) and label_text(args[1]) in map(label_text, levels):
            return []
        raise MessageError(f"{what} names a level that isn't declared.")
    if name == "bspline" and len(args) == 4:
        degree, knots, index = args[1:]
        size = _knots(knots, what)
        if is_whole(degree, 0, HIGHEST) and size > 2 * degree + 1 and is_whole(index, 0, size - int(degree) - 2):
            return args[:1]
    if name == "cr" and len(args) == 4:
        size = _knots(args[1], what, strict=True)
        if all(isinstance(v, list) and len(v) == size for v in args[2:]):
            for value in (*args[2], *args[3]):
                number_of(value, what)
            return args[:1]
    raise wrong


def _declared(name: object, columns: Mapping[str, Column], what: str) -> Column:
    if isinstance(name, str) and name in columns:
        return columns[name]
    raise MessageError(f"{what} reads a column that isn't declared.")


def _knots(value: object, what: str, *, strict: bool = False) -> int:
    if not isinstance(value, list) or not 2 <= len(value) <= MOST_KNOTS:
        raise MessageError(f"{what} must have from 2 to {MOST_KNOTS} knots.")
    knots = [number_of(v, what) for v in value]
    if any(b < a or (strict and a == b) for a, b in pairwise(knots)) or knots[0] == knots[-1]:
        raise MessageError(f"{what} must have knots in ascending order.")
    return len(knots)


def names(tree: object) -> Iterator[str]:
    """Columns that a tree reads, each as often as it does."""
    left = [tree]
    while left:
        node = left.pop()
        if isinstance(node, list) and node:
            if node[0] in {"col", "level"}:
                yield node[1]
            elif node[0] in {"bspline", "cr"}:
                left.append(node[1])
            elif node[0] != "const":
                left += node[1:]


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
        low, high, levels, labels = -math.inf, math.inf, tuple[Label, ...](), tuple[str, ...]()
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
            if len({label_text(v) for v in levels}) != len(levels) or len(levels) < 2:
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
    check(tree, columns, "a column of the design")
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
