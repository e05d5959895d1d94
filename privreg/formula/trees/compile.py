"""Expression trees: what each column of a public design computes of one record, as nested lists that JSON can hold.

A device evaluates such trees with nothing but its own language, and they say the same whoever reads them. patsy stays
the authority: names, contrasts and refusals are its own, and a tree is what its column computes. The operations:

=============================================  ===================================================================
``["const", hex]``                             a C99 hex float
``["col", name]``                              a number, clamped to its declared bounds
``["level", name, label]``                     1 if the factor has this declared level, else 0
``["add" | "sub" | "mul" | "div", a, b]``      also "mod", "floordiv", "pow", "min", "max"
``["log" | "log1p" | "exp" | "sqrt", a]``      also "abs" and "round" (half to even)
``["cmp", how, a, b]``                         1 or 0; `how` is lt, le, gt, ge, eq or ne
``["and" | "or", a, b]``, ``["not", a]``       of what is 0 or not
``["where", condition, a, b]``
``["bspline", a, degree, knots, i]``           basis function i, from 0, over all knots, boundaries repeated
``["cr", a, knots, values, curvatures]``       the cubic spline with these values and second derivatives at its knots
=============================================  ===================================================================

Lists of numbers are of hex floats; a spline beyond its outermost knots is not finite. In this process alone there are
more, which compute what patsy does to the last bit: "numpy" and "python" with the name of a function or an operator,
"as" with a type, "cc", a "cr" that goes around, "call" of a function marked with ``pr.rowwise``, "labels" of a factor
as it takes them, and "item", a column of several that it gives. `Trees` never holds these.
"""

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.errors import FormulaError
from privreg.formula.language.allowlist import SPLINES, column_name
from privreg.formula.language.parse import ParsedFormula, constant_value, term_tree
from privreg.formula.trees import evaluate
from privreg.formula.trees.evaluate import Tree, const
from privreg.schema.declarations import Schema

EXACT: Final = 2.0**53  # Whole numbers below it are doubles


class Trees(NamedTuple):
    """A design as expression trees: public, and all that a device needs to know of a formula."""

    endog: Tree  # The response, clamped to its public range; of levels their number from 0
    exog: tuple[Tree, ...]
    offset: Tree | None  # Offset and log of the exposure, added to the linear predictor


class _BeyondError(Exception):
    """An operation that no tree of a device has; the text names it, without the term."""


class FactorColumn(NamedTuple):
    """A factor, or a part of one, and what NumPy would compute it with."""

    tree: Tree
    kind: str = "float"  # "float", "int" or "bool"; "other" where NumPy alone knows
    most: float = math.inf  # The largest size of what is no decimal


_INSTEAD: Final = (
    " Write it with arithmetic, comparisons, np.log, np.log1p, np.exp, np.sqrt, np.abs, np.round, np.where, "
    "np.minimum, np.maximum, C(), bs() or cr()."
)


def compile_trees(design: Any) -> Trees:
    """Expressions of each column of a design, of its response and of its offset, for devices.
    Raises FormulaError if a term is not made of a device's operations; the message names it.
    """
    parsed, info = design.parsed, design.info
    added = [["col", design.offset]] * (design.offset is not None)
    added += [["log", ["col", design.exposure]]] * (design.exposure is not None)
    offset = None if not added else added[0] if len(added) == 1 else ["add", *added]
    if parsed is None:
        exog = tuple(tree for part in design.terms for tree in part.trees)
        return Trees(_response(design, ["col", design.endog_name], bare=True), exog, offset)
    made: list[Tree] = []
    factors = partial(read_factor, parsed=parsed, closed=True)
    what, instead = f"the response {parsed.response!r}", ""
    try:
        (left,) = factors(parsed.response)
        for term, subterms in info.term_codings.items():  # in the order of their columns
            what, instead = f"formula term {term.name()!r}", _INSTEAD
            made += term_trees(subterms, info, parsed, factors)
    except _BeyondError as e:
        raise FormulaError(f"{what} can't be written for devices: {e}.{instead}") from None
    if design.cuts is not None:  # whose columns come last, and take the place of the constant
        kept = [tree for name, tree in zip(info.column_names, made, strict=True) if name in design.names]
        made = [*kept, *design.terms[-1].trees]
    return Trees(_response(design, left.tree, bare=parsed.response in parsed.plain), tuple(made), offset)


def _response(design: Any, tree: Tree, *, bare: bool) -> Tree:
    """A response within its public range."""
    if (levels := design.endog_levels) is not None:
        name = design.endog_sources[0]
        return _sum([_times(float(k), ["level", name, level]) for k, level in enumerate(levels) if k])
    low, high = design.endog_limits
    if not bare and math.isfinite(low) and math.isfinite(high):
        tree = ["min", ["max", tree, const(low)], const(high)]
    if design.kind == "binary":  # anything but 0 and 1 is nothing to report
        two = ["or", ["cmp", "eq", tree, const(0.0)], ["cmp", "eq", tree, const(1.0)]]
        tree = ["where", two, tree, ["div", const(0.0), const(0.0)]]
    return tree


def term_trees(
    subterms: Sequence[Any], info: Any, parsed: ParsedFormula, factors: Callable[[str], Sequence[FactorColumn]]
) -> tuple[Tree, ...]:
    """Trees of one term of patsy's coding, a column each: products of factors, those of the first changing fastest."""
    out, declared = list[Tree](), parsed.schema.levels
    for subterm in subterms:
        columns: list[Tree | None] = [None]
        for factor in subterm.factors:
            made = [column.tree for column in factors(factor.code)]
            if info.factor_infos[factor].type == "categorical":  # of a condition, whose levels are False and True, too
                weights = np.asarray(subterm.contrast_matrices[factor].matrix, dtype=np.float64).T.tolist()
                column = parsed.plain.get(factor.code)
                if column is not None and column in declared:
                    levels = [["level", column, level] for level in declared[column]]
                    made = [
                        _sum([_times(v, tree) for v, tree in zip(w, levels, strict=True) if v != 0.0]) for w in weights
                    ]
                else:
                    of = made[0]
                    plain = {(0.0, 1.0): of, (1.0, 0.0): ["not", of]}
                    made = [plain.get((no, yes), ["where", of, const(yes), const(no)]) for no, yes in weights]
            columns = [tree if before is None else ["mul", before, tree] for tree in made for before in columns]
        out += [const(1.0) if tree is None else tree for tree in columns]
    return tuple(out)


def _sum(trees: Sequence[Tree]) -> Tree:
    """A sum of which one part at most isn't 0, halved again and again: devices take no deep trees."""
    if len(trees) < 2:
        return trees[0] if trees else const(0.0)
    middle = (len(trees) + 1) // 2
    return ["add", _sum(trees[:middle]), _sum(trees[middle:])]


def _times(value: float, tree: Tree) -> Tree:
    return tree if value == 1.0 else ["mul", const(value), tree]


# --- one factor ------------------------------------------------------------------------------------------


def read_factor(code: str, parsed: ParsedFormula, *, closed: bool) -> list[FactorColumn]:
    """Columns of one factor; of a function that gives several, the function itself.

    `closed` trees have operations of devices only; others compute what patsy does to the last bit.
    """
    node = term_tree(code, parsed.formula)
    if (column := parsed.plain.get(code)) is not None:
        return [FactorColumn(["col", column])]  # of levels it is never used: their contrasts are
    reader = _Reader(parsed.schema, closed)
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPLINES):
        return [reader.read(node)]
    given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
    of = reader.read(node.args[0])
    if of.kind != "float" and closed:
        raise _BeyondError(_NO_DOUBLES)
    made = evaluate.trees(node.func.id, of.tree, given)
    return [FactorColumn(["cc", *tree[1:]] if node.func.id == "cc" and not closed else tree) for tree in made]


_SIGNS: Final[Mapping[type, str]] = {ast.Invert: "invert", ast.UAdd: "pos", ast.USub: "neg"}
_truth: Final = partial(FactorColumn, kind="bool", most=1.0)
_LOGICAL: Final = {f"logical_{op}": [op] for op in ("and", "or", "not")} | {"logical_xor": ["cmp", "ne"]}
_OF_CONDITIONS: Final = {"add": "or", "mul": "and", "max": "or", "min": "and", "and": "and", "or": "or"}
"""Logical operations that NumPy's arithmetic is for two conditions."""

WRITTEN: Final = {"square": "a * a", "reciprocal": "1.0 / a", "clip": "np.minimum(np.maximum(a, b), c)"}
"""NumPy's functions, of a, b and c, that are computed by these very operations."""

CLOSED_ONLY: Final = {
    "log2": f"np.log(a) / {math.log(2.0)!r}",
    "log10": f"np.log(a) / {math.log(10.0)!r}",
    "exp2": "2.0 ** a",
    "expm1": "np.exp(a) - 1.0",
    "sinh": "(np.exp(a) - np.exp(-a)) / 2.0",
    "cosh": "(np.exp(a) + np.exp(-a)) / 2.0",
    "tanh": "np.copysign((1.0 - np.exp(-2.0 * np.abs(a))) / (1.0 + np.exp(-2.0 * np.abs(a))), a)",
    "arcsinh": "np.copysign(np.log(np.abs(a) + np.sqrt(a * a + 1.0)), a)",
    "arccosh": "np.log(a + np.sqrt(a * a - 1.0))",
    "arctanh": "np.log((1.0 + a) / (1.0 - a)) / 2.0",
    "float_power": "np.power(a, b)",
    "cbrt": "np.copysign(np.abs(a) ** (1.0 / 3.0), a)",
    "hypot": "np.sqrt(a * a + b * b)",
    "logaddexp": "np.maximum(a, b) + np.log1p(np.exp(-np.abs(a - b)))",
    "logaddexp2": f"np.maximum(a, b) + np.log1p(np.exp(-{math.log(2.0)!r} * np.abs(a - b))) / {math.log(2.0)!r}",
    "deg2rad": f"a * {math.pi / 180.0!r}",
    "rad2deg": f"a * {180.0 / math.pi!r}",
    "floor": "a // 1.0",
    "ceil": "-(-a // 1.0)",
    "trunc": "np.copysign(np.floor(np.abs(a)), a)",
    "fmin": "np.where(a != a, b, np.where(b != b, a, np.minimum(a, b)))",
    "fmax": "np.where(a != a, b, np.where(b != b, a, np.maximum(a, b)))",
    "fmod": "np.copysign(np.mod(np.abs(a), np.abs(b)), a)",
    "sign": "np.where(a > 0.0, 1.0, np.where(a < 0.0, -1.0, a))",
    "copysign": "np.where(b < 0.0, -np.abs(a), np.abs(a))",
    "heaviside": "np.where(a != a, a, np.where(a == 0.0, b, np.where(a > 0.0, 1.0, 0.0)))",
}
"""Functions that devices do without, by others: the last digits may differ from NumPy's, and the sign of 0."""

_NO_DOUBLES: Final = "it computes with whole numbers or truth values where this needs decimals"


class _Reader:
    """Reader that makes trees of the syntax of a factor that passed the allow-list."""

    def __init__(self, schema: Schema, closed: bool, given: Mapping[str, FactorColumn] | None = None) -> None:
        self.schema, self.closed, self.given = schema, closed, given or {}

    def read(self, node: ast.expr) -> FactorColumn:
        """The tree of a part of a factor."""
        if (known := constant_value(node)) is not None:
            kind = {"b": "bool", "f": "float"}.get(np.asarray(known).dtype.kind, "int")
            return FactorColumn(const(float(known)), kind, abs(float(known)))
        if (name := column_name(node)) is not None:
            return self.given.get(name) or FactorColumn(["col", name])
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.UnaryOp):
            return self._sign(_SIGNS[type(node.op)], self.read(node.operand))
        if isinstance(node, ast.BinOp):
            left = self.read(node.left)
            if isinstance(node.op, ast.Pow) and left.kind == "float":
                of = left.tree  # powers that NumPy's ** does not leave to its power function
                short = {2.0: ["mul", of, of], 1.0: of, 0.5: ["sqrt", of], -1.0: ["div", const(1.0), of]}
                power = constant_value(node.right)
                if power in short:
                    return FactorColumn(short[power])
            return self.arithmetic(evaluate.OPERATORS[type(node.op)], left, self.read(node.right))
        assert isinstance(node, ast.Compare)
        how, sides = evaluate.COMPARISONS[type(node.ops[0])], [node.left, node.comparators[0]]
        first = isinstance(sides[0], ast.Constant)
        name = column_name(sides[first])
        if name is not None and name in self.schema.levels:
            level = ast.literal_eval(sides[not first])
            tree = ["level", name, next(known for known in self.schema.levels[name] if known == level)]
            return _truth(tree if how == "eq" else ["not", tree])
        return _truth(["cmp", how, *(self.read(side).tree for side in sides)])

    def _typed(self, why: str, *operation: str | FactorColumn) -> FactorColumn:
        """Column that NumPy computes with other types than doubles, or by an operation that no device has."""
        if self.closed:
            raise _BeyondError(why)
        words = [word for word in operation if isinstance(word, str)]
        parts = [_as_typed(part) for part in operation if isinstance(part, FactorColumn)]
        return FactorColumn([*words, *parts], "other")

    def truth(self, value: FactorColumn) -> Tree:
        """The tree of a condition."""
        return value.tree if value.kind == "bool" else ["cmp", "ne", value.tree, const(0.0)]

    def _sign(self, op: str, value: FactorColumn) -> FactorColumn:
        if op == "invert" and value.kind == "bool":
            return _truth(["not", value.tree])
        if op == "invert" or value.kind in {"bool", "other"}:
            why = "~ of what is no condition" if op == "invert" else "the sign of a condition"
            return self._typed(why, "python", op, value)
        return value if op == "pos" else value._replace(tree=["mul", const(-1.0), value.tree])

    def arithmetic(self, op: str, a: FactorColumn, b: FactorColumn) -> FactorColumn:
        """Arithmetic of two parts with the types that NumPy gives them."""
        kinds = {a.kind, b.kind}
        if kinds == {"bool"} and op in _OF_CONDITIONS:
            return _truth([_OF_CONDITIONS[op], a.tree, b.tree])
        whole = kinds <= {"int", "bool"}
        sizes = {"add": a.most + b.most, "sub": a.most + b.most, "mul": a.most * b.most, "max": max(a.most, b.most)}
        most = sizes.get(op, sizes["max"] if op == "min" else math.inf)
        if op in {"and", "or"}:
            why = "& or | of what is no condition"
        elif kinds == {"bool"} and op != "div":
            why = "arithmetic of two conditions"
        elif op == "pow" and whole and b.kind == "int":
            why = "a power of whole numbers"
        elif whole and op != "div" and not most < EXACT:
            why = "arithmetic of whole numbers other than sums and products of small ones"
        elif "other" in kinds:
            why = "arithmetic of what is no double"
        else:
            return FactorColumn([op, a.tree, b.tree], *(("int", most) if whole and op != "div" else ()))
        if op in {"min", "max"}:
            return self._typed(why, "numpy", f"{op}imum", a, b)
        return self._typed(why, "python", evaluate.PYTHON.get(op, op), a, b)

    def _call(self, node: ast.Call) -> FactorColumn:
        if isinstance(node.func, ast.Name) and node.func.id == "I":
            return self.read(node.args[0])
        if isinstance(node.func, ast.Name):  # a function marked with ``pr.rowwise``
            if self.closed:
                raise _BeyondError(f"it calls the function {node.func.id}()")
            parts: list[Any] = []
            for arg in node.args:
                number, column = constant_value(arg), column_name(arg)
                if number is None and column in self.schema.levels:
                    parts.append(["labels", column])
                else:
                    parts.append(_as_typed(self.read(arg)) if number is None else number)
            return FactorColumn(["call", node.func.id, *parts], "other")
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        given = [self.read(arg) for arg in node.args]
        if name in {"round", "rint"} and len(given) == 2:
            of, places = given[0], constant_value(node.args[1])
            if of.kind != "float":
                return self._typed(_NO_DOUBLES, "numpy", "round", of, FactorColumn(const(places), "int"))
            ten = const(10.0 ** abs(places))
            to, back = ("mul", "div") if places > 0 else ("div", "mul")
            return FactorColumn([back, ["round", [to, of.tree, ten]], ten] if places else ["round", of.tree])
        name = evaluate.SAME.get(name, name)
        if name in evaluate.BINARY:
            return self.arithmetic(evaluate.BINARY[name], *given)
        if name in evaluate.CONDITIONS:
            return _truth(["cmp", evaluate.CONDITIONS[name], given[0].tree, given[1].tree])
        if name in _LOGICAL:
            return _truth([*_LOGICAL[name], *map(self.truth, given)])
        if name == "where":
            condition, a, b = given
            kind = next((k for k in ("other", "float", "int") if k in {a.kind, b.kind}), "bool")
            return FactorColumn(["where", self.truth(condition), a.tree, b.tree], kind, max(a.most, b.most))
        if name in {"negative", "positive"}:
            return self._sign(name[:3], given[0])
        if name == "abs" and given[0].kind == "int":
            return given[0]._replace(tree=["abs", given[0].tree])
        power = name == "power"  # NumPy's power of doubles, whatever is raised
        fixed = [v.kind == "int" and v.tree[0] == "const" and (power or k > 0) for k, v in enumerate(given)]
        if not all(v.kind == "float" or whole for v, whole in zip(given, fixed, strict=True)):
            return self._typed(_NO_DOUBLES, "numpy", name, *given)
        trees = [value.tree for value in given]
        if power:
            return FactorColumn(["pow", *trees])
        if name in evaluate.UNARY:
            return FactorColumn([name, *trees])
        if name in WRITTEN or (self.closed and name in CLOSED_ONLY):
            reader = _Reader(Schema(), self.closed, dict(zip("abc", given, strict=False)))
            return reader.read(ast.parse((WRITTEN | CLOSED_ONLY)[name], mode="eval").body)
        found = self._typed(f"np.{name}() is not among a device's functions", "numpy", name, *given)
        return found._replace(kind="float")


def _as_typed(value: FactorColumn) -> Tree:
    """The tree of what is computed with NumPy's own types; trees have doubles for whole numbers."""
    whole = value.kind == "int" or (value.kind == "bool" and value.tree[0] == "const")
    return ["as", value.kind, value.tree] if whole else value.tree
