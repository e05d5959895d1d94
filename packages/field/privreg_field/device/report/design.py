"""One respondent's row through the plan's design: answers → columns → expression trees → numbers in internal units.

Arithmetic is IEEE 754's on doubles, as NumPy has it; nothing raises. A row that lacks a column the design uses, or one
of whose numbers comes out not finite, has nothing to report, whatever it holds beside.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from privreg_field.wire.study import PublicPlan
from privreg_field.wire.trees import Cell, Column, label_text

from .score import divide, exp, log

_NUMBER: Final = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")  # Texts that are numbers
LONGEST_NUMBER: Final = 64  # Characters of a text that is read as a number, at most

Answers = Mapping[str, float]  # Numbers, clamped; of a factor the place of its level


class Row(NamedTuple):
    """A row of the design, internal units; not numbers throughout if there is nothing to report."""

    x: list[float]
    y: float
    offset: float
    clamped: tuple[float, ...] = ()  # For each of the plan's `clamping`: 1 if bounds clamp the answer, else 0
    part: float = 1.0  # In its person's report, π in docs/sums.md (26), docs/estimator.md (41); of one row 1


# --- answers -------------------------------------------------------------------------------------------------


def read(column: Column, answer: object) -> float | None:
    """One answer: a number clamped to its bounds, or the place of a level; None if it is missing or can't be read."""
    value = _plain(column, answer)
    return value if value is None or column.levels else min(max(value, column.low), column.high)


def _item(answer: object) -> object:
    """An answer as Python has it, where it is one of NumPy's."""
    if not isinstance(answer, str | int | float) and hasattr(answer, "item"):
        try:
            return answer.item()
        except Exception:  # whatever it is, its own code may raise anything
            return object()  # which can't be read
    return answer


def _plain(column: Column, answer: object) -> float | None:
    """One answer before it is clamped."""
    answer = _item(answer)
    if column.levels:
        if not isinstance(answer, str | int | float):
            return None
        if isinstance(answer, float) and answer.is_integer():
            answer = int(answer)
        labels = [label_text(label) for label in column.levels]
        try:
            text = answer if isinstance(answer, float) else label_text(answer)
        except ValueError:  # a whole number that is too long to write
            return None
        return float(labels.index(str(text))) if text in labels else None
    if isinstance(answer, str):
        short = len(answer) <= LONGEST_NUMBER  # what a text costs to read must not tell what it says
        answer = float(answer) if short and _NUMBER.fullmatch(answer) else None
    if not isinstance(answer, int | float):  # true and false are 1 and 0
        return None
    try:
        value = float(answer)
    except OverflowError:
        return None
    return value if math.isfinite(value) else None


def beyond(column: Column, answer: object) -> float:
    """1 if an answer's number lies outside its bounds, else 0."""
    value = _plain(column, answer)
    return 0.0 if value is None else float(not column.low <= value <= column.high)


def unread(plan: PublicPlan, answers: Mapping[str, object]) -> list[str]:
    """Names of columns that are asked for and the answers lack; for the respondent's own eyes."""
    return [c.name for c in plan.form if read(c, answers.get(c.name)) is None]


def wrong(plan: PublicPlan, answers: Mapping[str, object]) -> list[str]:
    """Corrections of answers that can't be read, by column; public words, for the respondent's own eyes."""
    out = []
    for column in plan.form:
        answer = _item(answers.get(column.name))
        blank = answer is None or (isinstance(answer, str) and not answer.strip())
        missing = blank or (isinstance(answer, float) and math.isnan(answer))
        if not missing and read(column, answer) is None:
            labels = ", ".join(repr(label_text(label)) for label in column.levels)
            out.append(f"{column.name!r} must be {f'one of {labels}' if labels else 'a number'}")
    return out


def row_of(plan: PublicPlan, answers: Mapping[str, object]) -> Row:
    """A respondent's row of the design, of answers by column; what the plan doesn't name is not looked at."""
    nothing = Row([math.nan] * plan.d, math.nan, math.nan, (0.0,) * len(plan.clamping))
    columns = {c.name: c for c in plan.columns}
    values: dict[str, float] = {}
    for column in plan.used:
        value = read(column, answers.get(column.name))
        if value is None:
            return nothing
        values[column.name] = value
    x = [_inside(c, columns, values) for c in plan.design]
    y = _inside(plan.response, columns, values)
    offset = 0.0 if plan.offset is None else value_of(plan.offset, columns, values)
    if plan.mix is not None:
        x = [_mixed(row, x) for row in plan.mix]
    clamped = tuple(beyond(columns[name], answers.get(name)) for name in plan.clamping)
    return Row(x, y, offset, clamped) if all(map(math.isfinite, (*x, y, offset))) else nothing


def _inside(cell: Cell, columns: Mapping[str, Column], values: Answers) -> float:
    return divide(value_of(cell.tree, columns, values) - cell.centre, cell.scale)


def _mixed(row: Sequence[float], x: Sequence[float]) -> float:
    out = 0.0
    for m, v in zip(row, x, strict=True):
        if m != 0.0:
            out += v * m
    return out


# --- operations ----------------------------------------------------------------------------------------------


def _floordiv(a: float, b: float) -> float:
    if b == 0.0:
        return divide(a, b)
    if not math.isfinite(a):
        return math.nan
    return a // b


def _pow(a: float, b: float) -> float:
    if b in {2.0, -1.0, 0.5}:  # rounded correctly, so the same in every language
        return a * a if b == 2.0 else divide(1.0, a) if b == -1.0 else _sqrt(a)
    odd = math.isfinite(b) and b == math.floor(b) and math.fmod(b, 2.0) != 0.0
    try:
        return math.pow(a, b)
    except OverflowError:
        return -math.inf if a < 0.0 and odd else math.inf
    except ValueError:  # 0 to a negative power is infinite, a root of a negative number none
        return math.nan if a != 0.0 else math.copysign(math.inf, a) if odd else math.inf


def _sqrt(a: float) -> float:
    return math.sqrt(a) if a >= 0.0 else math.nan


_ONE: Final[dict[str, Callable[[float], float]]] = {
    "log": log,
    "log1p": lambda a: math.log1p(a) if a > -1.0 else -math.inf if a == -1.0 else math.nan,
    "exp": exp,
    "sqrt": _sqrt,
    "abs": abs,
    "round": lambda a: math.copysign(float(round(a)), a) if math.isfinite(a) else a,
    "not": lambda a: float(a == 0.0),
}

_TWO: Final[dict[str, Callable[[float, float], float]]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": divide,
    "mod": lambda a, b: a % b if b != 0.0 and math.isfinite(a) else math.nan,
    "floordiv": _floordiv,
    "pow": _pow,
    "min": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else min(a, b),
    "max": lambda a, b: math.nan if math.isnan(a) or math.isnan(b) else max(a, b),
    "and": lambda a, b: float(a != 0.0 and b != 0.0),
    "or": lambda a, b: float(a != 0.0 or b != 0.0),
}

_COMPARE: Final[dict[str, Callable[[float, float], bool]]] = {
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
}


def value_of(tree: Any, columns: Mapping[str, Column], values: Answers) -> float:
    """Value of a tree, which `trees.check` has let pass."""
    name, *args = tree

    def at(place: int) -> float:
        return value_of(args[place], columns, values)

    if name == "const":
        return float.fromhex(args[0])
    if name == "col":
        return values[args[0]]
    if name == "level":
        labels = [label_text(label) for label in columns[args[0]].levels]
        return float(values[args[0]] == labels.index(label_text(args[1])))
    if name in _ONE:
        return _ONE[name](at(0))
    if name in _TWO:
        return _TWO[name](at(0), at(1))
    if name == "cmp":
        return float(_COMPARE[args[0]](at(1), at(2)))
    if name == "where":
        yes, no = at(1), at(2)  # both, so that time does not tell which
        return yes if at(0) != 0.0 else no
    if name == "bspline":
        return _bspline(at(0), args[1], [float.fromhex(k) for k in args[2]], args[3])
    return _cubic(at(0), *([float.fromhex(k) for k in some] for some in args[1:]))


def _bspline(x: float, degree: int, knots: Sequence[float], index: int) -> float:
    """Basis function of B-splines over all knots, boundaries repeated; not finite outside them.

    References
    ----------
    de Boor (1978), A practical guide to splines, chapter X: B_{i,k} from the two of degree k − 1.
    """
    if not knots[0] <= x <= knots[-1]:
        return math.nan
    last = len(knots) - degree - 2
    at = degree  # the knot interval [t_at, t_at+1) that holds x, the last one closed
    while at < last and x >= knots[at + 1]:
        at += 1
    # the degree + 1 functions that aren't 0 there, of which the first is number at − degree
    values = [1.0]
    for k in range(1, degree + 1):
        before, values = values, [0.0] * (k + 1)
        for r, value in enumerate(before):
            left, right = knots[at + r + 1 - k], knots[at + r + 1]
            share = divide(value, right - left) if right > left else 0.0  # of knots on the upper bound
            values[r] += (right - x) * share
            values[r + 1] += (x - left) * share
    place = index - (at - degree)
    return values[place] if 0 <= place <= degree else 0.0


def _cubic(x: float, knots: Sequence[float], values: Sequence[float], bends: Sequence[float]) -> float:
    """Cubic spline of given values and second derivatives at its knots; not finite outside them."""
    if not knots[0] <= x <= knots[-1]:
        return math.nan
    j = 0
    while j < len(knots) - 2 and knots[j + 1] < x:
        j += 1
    h, above, below = knots[j + 1] - knots[j], knots[j + 1] - x, x - knots[j]
    left = above * above * above / (6.0 * h) - h * above / 6.0
    right = below * below * below / (6.0 * h) - h * below / 6.0
    out = above / h * values[j] + below / h * values[j + 1]
    return out + left * bends[j] + right * bends[j + 1]
