"""Columns of a design as trees of a closed list of operations, in nested JSON lists; see `check`.

["const", hex], ["col", name], ["level", name, label], ["add" | "sub" | "mul" | "div" | "mod" | "floordiv" | "pow" |
"min" | "max", a, b], ["log" | "log1p" | "exp" | "sqrt" | "abs" | "round", a],
["cmp", "lt" | "le" | "gt" | "ge" | "eq" | "ne", a, b], ["and" | "or", a, b], ["not", a], ["where", condition, a, b],
["bspline", a, degree, knots, index], and ["cr", a, knots, values, curvatures], the cubic spline with these values and
second derivatives at its knots. Splines are not finite outside their knots; powers 2, -1 and 0.5 are
a · a, 1/a and √a, which all languages round alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any, Final, NamedTuple
from unicodedata import normalize

from privreg.protocol.limits import DEEPEST, HIGHEST, MOST_KNOTS

from .wire import MessageError, is_whole, number_of

Label = str | int | bool

ONE: Final = ("log", "log1p", "exp", "sqrt", "abs", "round", "not")
TWO: Final = ("add", "sub", "mul", "div", "mod", "floordiv", "pow", "min", "max", "and", "or")
COMPARE: Final = ("lt", "le", "gt", "ge", "eq", "ne")
OPERATIONS: Final = ("const", "col", "level", *TWO, *ONE, "cmp", "where", "bspline", "cr")

MOST: Final = 20_000  # Operations of all columns of a design together, at most


class Column(NamedTuple):
    """A column of a respondent's row, as the plan declares it."""

    name: str
    levels: tuple[Label, ...]  # Of a factor, no two of the same text; empty for a number
    low: float  # A number is clamped to [low, high]
    high: float
    ask: str  # The question's text
    labels: tuple[str, ...] = ()  # What respondents read for each level; none: its code. No report depends on them


def label_text(label: Label) -> str:
    """How a label is told from others: true, false, digits, or its text in Unicode's form NFC."""
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
