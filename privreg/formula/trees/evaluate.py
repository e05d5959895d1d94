"""Expression trees: their operations, those of splines, and their evaluation over batches of records.

Every operation is NumPy's, number by number, so that how rows are cut can't change a bit. Parts that several trees
share are computed once. Knots of splines are public; SciPy's evaluator writes beyond its memory where the degree is
high.
"""

import ast
import operator
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import Flags, Floats
from privreg.formula.language.rowwise import Rowwise
from privreg.protocol.codes import HIGHEST, LARGEST, MOST_KNOTS
from privreg.schema.declarations import Schema

Tree = list[Any]  # A nested list; see the table in `privreg.formula.trees.compile`


def const(value: float) -> Tree:
    """A constant."""
    return ["const", float(value).hex()]


OPERATORS: Final[Mapping[type, str]] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.BitAnd: "and", ast.BitOr: "or",
}  # fmt: skip
COMPARISONS: Final[Mapping[type, str]] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
PYTHON: Final = {"div": "truediv", "and": "and_", "or": "or_"}
"""Names of operations in the module `operator`, where it has others."""

SAME: Final = {"absolute": "abs", "fabs": "abs", "rint": "round", "radians": "deg2rad", "degrees": "rad2deg"}
BINARY: Final = {
    "add": "add", "subtract": "sub", "multiply": "mul", "divide": "div", "true_divide": "div", "mod": "mod",
    "remainder": "mod", "floor_divide": "floordiv", "maximum": "max", "minimum": "min",
}  # fmt: skip
CONDITIONS: Final = {
    "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge", "equal": "eq", "not_equal": "ne",
}  # fmt: skip
UNARY: Final = frozenset({"log", "log1p", "exp", "sqrt", "abs", "round"})


def problem(what: str, given: Mapping[str, Any]) -> str | None:
    """Fault of the numbers of a spline "bs", "cr" or "cc", with what is allowed; None if they are right.

    `given` are its "knots", "lower_bound" and "upper_bound"; of bs also "degree".
    """
    low, high, inner, degree = given["lower_bound"], given["upper_bound"], given["knots"], given.get("degree", 3)
    if degree not in range(HIGHEST + 1):
        return f"degree={degree}; a degree is a whole number from 0 to {HIGHEST}, and 3, the default, is cubic"
    most = MOST_KNOTS - 2 * (int(degree) + 1 if what == "bs" else 1)
    if len(inner) > most:
        return f"{len(inner)} knots; give at most {most}"
    if not low < high or not all(low <= k <= high for k in inner):
        return "bounds that don't hold its knots; give lower_bound < upper_bound, and knots between them"
    if what != "bs" and (not inner or not all(low < k < high for k in inner)):
        return "no knot between its bounds, or one on them; give knots=[...] inside"
    try:
        with np.errstate(all="ignore"):
            fine = all((np.abs(floats(tree[-1])) <= LARGEST).all() for tree in trees(what, [], given) if what != "bs")
    except ValueError:  # curvatures that are not finite
        fine = False
    return None if fine else "knots that are too near each other; give others"


def trees(what: str, of: Tree, given: Mapping[str, Any]) -> list[Tree]:
    """Trees of a spline's basis functions; `given` as in `problem`, of bs also "include_intercept"."""
    ends, inner = [float(given["lower_bound"]), float(given["upper_bound"])], map(float, given["knots"])
    if what == "bs":
        degree, first = int(given.get("degree", 3)), int(not given.get("include_intercept", False))
        hexed = [k.hex() for k in sorted([*ends * (degree + 1), *inner])]
        return [["bspline", of, degree, hexed, i] for i in range(first, len(hexed) - degree - 1)]
    from patsy.mgcv_cubic_splines import _get_cyclic_f, _get_natural_f

    knots = np.array(sorted({*ends, *inner}))
    at = np.arange(len(knots)) if what == "cr" else np.append(np.arange(len(knots) - 1), 0)  # cc: the first one again
    curvatures = np.asarray(_get_natural_f(knots) if what == "cr" else _get_cyclic_f(knots))[at]
    hexed, *pairs = [[v.hex() for v in row] for row in (knots.tolist(), *np.eye(at.max() + 1)[at].T.tolist())]
    return [["cr", of, hexed, v, [c.hex() for c in bent]] for v, bent in zip(pairs, curvatures.T.tolist(), strict=True)]


def floats(texts: list[str]) -> Floats:
    """Numbers as trees have them."""
    return np.array([float.fromhex(t) for t in texts])


def bsplines(x: Floats, degree: int, knots: Floats) -> tuple[list[Any], Any]:
    """The degree + 1 B-splines that aren't 0 at each x, and the number of the first; not finite outside the knots.

    See de Boor (1978), A practical guide to splines, chapter X.
    """
    at = np.clip(np.searchsorted(knots, x, "right") - 1, degree, len(knots) - degree - 2)
    values = [np.where((x >= knots[0]) & (x <= knots[-1]), 1.0, np.nan)]
    for k in range(1, degree + 1):
        before, values = values, [np.zeros(np.shape(x)) for _ in range(k + 1)]
        for r, value in enumerate(before):
            left, right = knots[at + r + 1 - k], knots[at + r + 1]
            # knots on the upper bound leave an interval without width
            share = np.divide(value, right - left, out=np.zeros(np.shape(x)), where=right != left)
            values[r] = values[r] + (right - x) * share
            values[r + 1] = values[r + 1] + (x - left) * share
    return values, at - degree


def cubic(
    x: Floats, knots: Floats, values: Floats, curvatures: Floats, *, beyond: bool = False, around: bool = False
) -> Floats:
    """A cubic spline of given values and second derivatives at its knots.

    Outside of them it is not finite; with `beyond` it goes on straight, with `around` too from the other end.

    See Wood, Generalized Additive Models, 2006, section 4.1.2.
    """
    if beyond and around:
        low, high = knots[0], knots[-1]
        x = np.where(x > high, low + (x - high) % (high - low), x)
        x = np.where(x < low, high - (low - x) % (high - low), x)
    j = np.clip(np.searchsorted(knots, x) - 1, 0, len(knots) - 2)
    h = np.diff(knots)[j]
    above, below, over, under = knots[j + 1] - x, x - knots[j], x > knots[-1], x < knots[0]
    bent_left = np.where(over, 0.0, above * above * above / (6.0 * h)) - h * above / 6.0
    bent_right = np.where(under, 0.0, below * below * below / (6.0 * h)) - h * below / 6.0
    out = above / h * values[j] + below / h * values[j + 1]
    out = out + bent_left * curvatures[j] + bent_right * curvatures[j + 1]
    return out if beyond else np.where(over | under, np.nan, out)


_NUMBERS: Final = {op: getattr(np, name) for name, op in [*BINARY.items(), *((name, name) for name in UNARY)]}
_NUMBERS.update(pow=np.power, round=np.rint)
_COMPARISONS: Final = {op: getattr(np, name) for name, op in CONDITIONS.items()}
_PLAIN: Final[dict[str, Any]] = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not, "where": np.where}
_TYPES: Final = {"int": (int, np.int64), "bool": (bool, np.bool_)}


class _Node(NamedTuple):
    """A part of a tree."""

    op: str
    args: tuple[int, ...]  # Numbers of the parts that it is computed from
    given: Any  # Whatever else the operation needs
    calls: frozenset[int]  # Parts below it, or itself, that call a function


class Program:
    """Trees, ready to be computed of batches.

    Factors come as codes of the levels of `schema`, and `functions` are marked ones that the trees call. With `public`
    rows, for which they must work, they may fail for other rows; without, whatever a function raises is passed on.
    """

    def __init__(
        self,
        trees: Sequence[Any],
        schema: Schema,
        functions: Mapping[str, Rowwise] | None = None,
        public: Mapping[str, NDArray[Any]] | None = None,
    ) -> None:
        self._schema, self._functions = schema, functions or {}
        self._nodes: list[_Node] = []
        self._numbers: dict[str, int] = {}
        self._wanted = [self._add(tree) for tree in trees]
        self._like: dict[int, NDArray[Any]] = {}  # Values of functions on public rows
        called = sorted(frozenset().union(*(self._nodes[k].calls for k in self._wanted)))
        if public is not None and called:
            values = self._run(public, None, beyond=False)[0]
            self._like = {k: values[k] for k in called}

    def of(self, trees: Sequence[Any]) -> "Program":
        """Program of other trees, which call no function that this one doesn't."""
        made = copy(self)
        made._nodes, made._numbers = list(self._nodes), dict(self._numbers)
        made._wanted = [made._add(tree) for tree in trees]
        return made

    def _add(self, tree: Any) -> int:
        """Number of a part, the same for equal ones."""
        key = repr(tree)
        if key in self._numbers:
            return self._numbers[key]
        op, *rest = tree
        given: Any = None
        parts: Sequence[Any] = ()
        match op:
            case "const":
                given = float.fromhex(rest[0])
            case "col":
                given = rest[0]
            case "level":
                places = [k for k, v in enumerate(self._schema.levels[rest[0]]) if type(v) is type(rest[1])]
                given = rest[0], next((k for k in places if self._schema.levels[rest[0]][k] == rest[1]), -1)
            case "labels":
                kind = pd.CategoricalDtype(list(self._schema.levels[rest[0]]))
                given = rest[0], np.asarray(pd.Categorical.from_codes(range(len(kind.categories)), dtype=kind))
            case "cmp" | "numpy" | "python" | "as":
                given, parts = rest[0], rest[1:]
            case "call":
                # numbers stay as they are, and parts have their places among them
                parts = [arg for arg in rest[1:] if isinstance(arg, list)]
                given = rest[0], [None if isinstance(arg, list) else arg for arg in rest[1:]]
            case "item":
                given, parts = rest[1], rest[:1]
            case "bspline":  # all functions of a spline are computed at once
                given, parts = rest[3], [["bsplines", *rest[:3]]]
            case "bsplines":
                given, parts = (rest[1], floats(rest[2])), rest[:1]
            case "cr" | "cc":
                given, parts = tuple(map(floats, rest[1:])), rest[:1]
            case _:
                parts = rest
        args = tuple(map(self._add, parts))
        calls = frozenset().union(*(self._nodes[k].calls for k in args))
        k = self._numbers[key] = len(self._nodes)
        self._nodes.append(_Node(op, args, given, calls | {k} if op == "call" else calls))
        return k

    def __call__(
        self, rows: Mapping[str, NDArray[Any]], known: Flags | None = None, *, beyond: bool = False
    ) -> list[Any]:
        """Compute all trees: of each numbers or truth values, shape (n,), or a number that is the same for all rows.

        `rows` are numbers as doubles, and factors as codes of their declared levels, none below 0. Functions are called
        with `known` rows alone, in which nothing is missing (all by default); where one fails or isn't called there is
        NaN. `beyond` says whether cubic splines go on beyond their knots; else they are not finite there.
        """
        values, failed = self._run(rows, known, beyond=beyond)
        out = []
        for k in self._wanted:
            without = [failed[call] for call in self._nodes[k].calls if call in failed]
            out.append(np.where(np.logical_or.reduce(without), np.nan, values[k]) if without else values[k])
        return out

    def _run(
        self, rows: Mapping[str, NDArray[Any]], known: Flags | None, *, beyond: bool
    ) -> tuple[list[Any], dict[int, Flags]]:
        """Values of all parts that are needed, and rows for which a function has none, by its part."""
        values: list[Any] = []
        failed: dict[int, Flags] = {}
        with np.errstate(all="ignore"):  # a warning would reveal a value
            for k, (op, args, given, _) in enumerate(self._nodes):
                of = [values[a] for a in args]
                if op == "col":
                    values.append(rows[given])
                elif op == "level":
                    values.append(rows[given[0]] == given[1])
                elif op == "labels":
                    values.append(given[1].take(rows[given[0]]))
                elif op == "call":
                    made, without = self._called(k, of, known)
                    values.append(made)
                    failed |= {} if without is None else {k: without}
                else:
                    values.append(_computed(op, given, of, beyond=beyond))
        return values, failed

    def _called(self, k: int, of: Sequence[Any], known: Flags | None) -> tuple[NDArray[Any], Flags | None]:
        """Values of a function, and rows for which it has none, None if it has all."""
        name, places = self._nodes[k].given
        parts = iter(of)
        args = [next(parts) if place is None else place for place in places]
        for j, arg in enumerate(args):
            if isinstance(arg, np.ndarray):  # into which the function must not write
                args[j] = arg.view()
                args[j].flags.writeable = False
        function, like = self._functions[name], self._like.get(k)
        if like is None:
            made = np.asarray(function(*args))
            return made.astype(np.float64) if made.dtype.kind in "iuf" else made, None
        n = next((len(a) for a in args if np.ndim(a)), None)
        if n is None:  # of public numbers alone
            return like, None
        known = np.ones(n, dtype=np.bool_) if known is None else known
        out, without = np.zeros((n, *like.shape[1:]), like.dtype), ~known
        some = [a[known] if np.ndim(a) else a for a in args]
        out[known], without[known] = function.of_records(some, int(known.sum()), like)
        return out, without if without.any() else None


def _computed(op: str, given: Any, args: Sequence[Any], *, beyond: bool) -> Any:
    """One operation, on arrays or numbers."""
    if op in _NUMBERS:
        return _NUMBERS[op](*args, dtype=np.float64)
    match op:
        case "const":
            return given
        case "cmp":
            return _COMPARISONS[given](*args)
        case "and" | "or" | "not" | "where":
            return _PLAIN[op](*args)
        case "numpy":
            return getattr(np, given)(*args)
        case "python":
            return getattr(operator, given)(*args)
        case "as":
            plain, type_ = _TYPES[given]
            return args[0].astype(type_) if isinstance(args[0], np.ndarray) else plain(args[0])
        case "item":
            return args[0][:, given]
        case "bspline":
            values, first = args[0]
            return np.sum([np.where(first + r == given, value, 0.0 * value) for r, value in enumerate(values)], axis=0)
        case "bsplines":
            return bsplines(np.asarray(args[0], dtype=np.float64), *given)
    return cubic(np.asarray(args[0], dtype=np.float64), *given, beyond=beyond, around=op == "cc")
