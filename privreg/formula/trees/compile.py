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

Knots, values and curvatures are lists of hex floats. A spline beyond its outermost knots is not finite. A record in
which a column that the design uses is missing, or a column of the design is not finite, has nothing to report.

For evaluation in this process alone there is one more, ``["numpy", name, a, ...]``: an elementwise NumPy function
that is not among these. `Trees` never holds it; some such functions are written out there, and the last digits differ.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.errors import FormulaError
from privreg.formula.language.allowlist import SPLINES
from privreg.formula.language.parse import ParsedFormula, constant_value, term_tree
from privreg.formula.trees import splines
from privreg.formula.trees.operations import (
    BINARY,
    CLOSED_ONLY,
    COMPARISONS,
    CONDITIONS,
    HEADS,
    OPERATORS,
    SAME,
    UNARY,
    WRITTEN,
    Tree,
    const,
)
from privreg.schema.declarations import Schema

EXACT: Final = 2.0**53
"""Whole numbers below it are doubles."""


class CompiledTerm(NamedTuple):
    """A term of the right-hand side."""

    name: str
    place: slice  # Its columns of the design
    trees: tuple[Tree, ...] | None  # One for each; None if it can't be compiled
    problem: str = ""  # Why it can't


class Trees(NamedTuple):
    """A design as expression trees: public, and all that a device needs to know of a formula."""

    endog: Tree  # The response, clamped to its public range; of levels their number from 0
    exog: tuple[Tree, ...]
    offset: Tree | None  # Offset and log of the exposure, added to the linear predictor


class _BeyondError(Exception):
    """Something that no tree says; the text says what, without the term."""


class _Value(NamedTuple):
    """A part of a term, and what NumPy would compute it with."""

    tree: Tree
    kind: str = "float"  # "float", "int" or "bool"
    most: float = math.inf  # The largest size of what is no decimal


def _truth(tree: Tree) -> _Value:
    return _Value(tree, "bool", 1.0)


def compile_trees(design: Any) -> Trees:
    """All trees of a design, of closed operations only.

    Parameters
    ----------
    design : Design or ArrayDesign

    Raises
    ------
    FormulaError
        If a term can't be compiled; the message names it, and why.
    """
    schema, offset = design.schema, None
    if design.offset is not None:
        offset = ["col", design.offset]
    if design.exposure is not None:
        log = ["log", ["col", design.exposure]]
        offset = log if offset is None else ["add", offset, log]
    if design.formula is None:
        return Trees(_response(design, ["col", design.endog_name], bare=True), _of_arrays(design), offset)
    exog: list[Tree] = [[]] * len(design.names)
    for term in compile_terms(design.info, design.parsed, schema, closed=True):
        if term.trees is None:
            raise FormulaError(
                f"formula term {term.name!r} can't be written for devices: {term.problem}. Write it with arithmetic, "
                "comparisons, np.log, np.log1p, np.exp, np.sqrt, np.abs, np.round, np.where, np.minimum, np.maximum, "
                "C(), bs() or cr()."
            )
        exog[term.place] = term.trees
    parsed = design.parsed
    try:
        (left,) = _factor(parsed.response, parsed, schema, closed=True)
    except _BeyondError as e:
        problem = FormulaError(f"the response {parsed.response!r} can't be written for devices: {e}.")
    else:
        return Trees(_response(design, left.tree, bare=parsed.response in parsed.plain), tuple(exog), offset)
    raise problem


def _of_arrays(design: Any) -> tuple[Tree, ...]:
    low, high = design.limits
    return tuple(const(a) if a == b else ["col", name] for name, a, b in zip(design.names, low, high, strict=True))


def _response(design: Any, tree: Tree, *, bare: bool) -> Tree:
    """A response within its public range."""
    levels = design.endog_levels
    if levels is not None:
        name = design.endog_sources[0]
        return _sum([_times(float(k), ["level", name, level]) for k, level in enumerate(levels) if k])
    low, high = design.endog_limits
    if not bare and math.isfinite(low) and math.isfinite(high):
        tree = ["min", ["max", tree, const(low)], const(high)]
    if design.kind == "binary":  # anything but 0 and 1 is nothing to report
        two = ["or", ["cmp", "eq", tree, const(0.0)], ["cmp", "eq", tree, const(1.0)]]
        tree = ["where", two, tree, ["div", const(0.0), const(0.0)]]
    return tree


def compile_terms(info: Any, parsed: ParsedFormula, schema: Schema, *, closed: bool) -> list[CompiledTerm]:
    """Trees of every term of patsy's coding.

    Parameters
    ----------
    info : patsy.DesignInfo
    parsed : ParsedFormula
    schema : Schema
    closed : bool
        Whether operations are those of devices only. If not, every tree computes what patsy does to the last bit.
    """
    return [
        compile_term(term, subterms, info, parsed, schema, closed=closed)
        for term, subterms in info.term_codings.items()
    ]


def compile_term(
    term: Any, subterms: Sequence[Any], info: Any, parsed: ParsedFormula, schema: Schema, *, closed: bool
) -> CompiledTerm:
    """Trees of one term of patsy's coding; see `compile_terms`."""
    place = info.term_slices[term]
    try:
        trees = [t for sub in subterms for t in _columns(sub, info, parsed, schema, closed=closed)]
    except _BeyondError as e:
        return CompiledTerm(term.name(), place, None, str(e))
    return CompiledTerm(term.name(), place, tuple(trees))


def columns_of(tree: Tree) -> tuple[str, ...]:
    """Raw columns that a tree reads."""
    if tree[0] in {"col", "level"}:
        return (str(tree[1]),)
    inner = [part for part in tree[1:] if isinstance(part, list) and part and part[0] in HEADS]
    return tuple(dict.fromkeys(name for part in inner for name in columns_of(part)))


def _columns(subterm: Any, info: Any, parsed: ParsedFormula, schema: Schema, *, closed: bool) -> list[Tree]:
    """Columns of a product of factors, those of the first changing fastest."""
    columns: list[Tree | None] = [None]
    for factor in subterm.factors:
        values = _factor(factor.code, parsed, schema, closed=closed)
        if info.factor_infos[factor].type == "categorical":
            own = _contrasts(factor.code, values, subterm.contrast_matrices[factor].matrix, parsed, schema)
        else:
            own = [value.tree for value in values]
        columns = [tree if before is None else ["mul", before, tree] for tree in own for before in columns]
    return [const(1.0) if tree is None else tree for tree in columns]


def _contrasts(code: str, values: Sequence[_Value], matrix: Any, parsed: ParsedFormula, schema: Schema) -> list[Tree]:
    """Columns of a coded factor; of a condition, whose levels are False and True, too."""
    column = parsed.plain.get(code)
    if column is not None and column in schema.levels:
        levels = schema.levels[column]
        return [
            _sum([_times(v, ["level", column, lev]) for v, lev in zip(w, levels, strict=True) if v != 0.0])
            for w in np.asarray(matrix, dtype=np.float64).T.tolist()
        ]
    if len(values) != 1 or values[0].kind != "bool" or len(matrix) != 2:
        raise _BeyondError("its values are levels that are not declared")
    of = values[0].tree
    plain = {(0.0, 1.0): of, (1.0, 0.0): ["not", of]}
    pairs = [tuple(w) for w in np.asarray(matrix, dtype=np.float64).T.tolist()]
    return [plain[w] if w in plain else ["where", of, const(w[1]), const(w[0])] for w in pairs]


def _sum(trees: Sequence[Tree]) -> Tree:
    """A sum of which one part at most isn't 0, halved again and again: devices take no deep trees."""
    if len(trees) < 2:
        return trees[0] if trees else const(0.0)
    middle = (len(trees) + 1) // 2
    return ["add", _sum(trees[:middle]), _sum(trees[middle:])]


def _times(value: float, tree: Tree) -> Tree:
    return tree if value == 1.0 else ["mul", const(value), tree]


# --- one factor ------------------------------------------------------------------------------------------


def compile_factor(code: str, parsed: ParsedFormula, schema: Schema) -> tuple[Tree, ...] | None:
    """Trees that compute, to the last bit, what a numeric factor of the formula does; None if there are none."""
    try:
        return tuple(value.tree for value in _factor(code, parsed, schema, closed=False))
    except _BeyondError:
        return None


def _factor(code: str, parsed: ParsedFormula, schema: Schema, *, closed: bool) -> list[_Value]:
    node = term_tree(code, parsed.formula)
    column = parsed.plain.get(code)
    if column is not None:
        return [_Value(["col", column])]  # of levels it is never used: their contrasts are
    reader = _Reader(schema, frozenset(parsed.functions), closed)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SPLINES:
        given = {str(word.arg): ast.literal_eval(word.value) for word in node.keywords}
        of = reader.real(reader.read(node.args[0]))
        return [_Value(tree) for tree in splines.trees(node.func.id, of, given)]
    return [reader.read(node)]


class _Reader:
    """From the syntax of a factor that passed the allow-list to trees."""

    def __init__(self, schema: Schema, functions: frozenset[str], closed: bool) -> None:
        self.schema, self.functions, self.closed = schema, functions, closed

    def read(self, node: ast.expr) -> _Value:
        """The tree of a part of a factor."""
        known = constant_value(node)
        if known is not None:
            kind = (
                "bool"
                if isinstance(known, bool | np.bool_)
                else "int"
                if isinstance(known, int | np.integer)
                else "float"
            )
            return _Value(const(float(known)), kind, abs(float(known)))
        name = _column(node)
        if name is not None:
            return _Value(["col", name])
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.UnaryOp):
            return self._sign(node.op, self.read(node.operand))
        if isinstance(node, ast.BinOp):
            return self._operator(node)
        assert isinstance(node, ast.Compare)
        return self._compare(node)

    def real(self, value: _Value) -> Tree:
        """The tree of what must be computed with as a double, as it is here."""
        if value.kind != "float":
            raise _BeyondError("it computes with whole numbers or truth values where this needs decimals")
        return value.tree

    def truth(self, value: _Value) -> Tree:
        """The tree of a condition."""
        return value.tree if value.kind == "bool" else ["cmp", "ne", value.tree, const(0.0)]

    def _compare(self, node: ast.Compare) -> _Value:
        how, sides = COMPARISONS[type(node.ops[0])], [node.left, node.comparators[0]]
        first = isinstance(sides[0], ast.Constant)
        name = _column(sides[first])
        if name is not None and name in self.schema.levels:
            level = ast.literal_eval(sides[not first])
            label = next(own for own in self.schema.levels[name] if own == level)
            tree = ["level", name, label]
            return _truth(tree if how == "eq" else ["not", tree])
        left, right = map(self.read, sides)
        return _truth(["cmp", how, left.tree, right.tree])

    def _sign(self, op: ast.unaryop, value: _Value) -> _Value:
        if isinstance(op, ast.Invert):
            if value.kind != "bool":
                raise _BeyondError("~ of what is no condition")
            return _truth(["not", value.tree])
        if value.kind == "bool":
            raise _BeyondError("the sign of a condition")
        return value if isinstance(op, ast.UAdd) else value._replace(tree=["mul", const(-1.0), value.tree])

    def _operator(self, node: ast.BinOp) -> _Value:
        left, right = self.read(node.left), self.read(node.right)
        if isinstance(node.op, ast.Pow) and (power := constant_value(node.right)) is not None:
            short = self._short_power(left, float(power))
            if short is not None:
                return short
        return self.arithmetic(OPERATORS[type(node.op)], left, right)

    def _short_power(self, of: _Value, power: float) -> _Value | None:
        """Powers that NumPy's ** does not leave to its power function."""
        if of.kind != "float":
            return None
        short = {
            2.0: ["mul", of.tree, of.tree],
            1.0: of.tree,
            0.5: ["sqrt", of.tree],
            -1.0: ["div", const(1.0), of.tree],
        }
        return _Value(short[power]) if power in short else None

    def arithmetic(self, op: str, a: _Value, b: _Value) -> _Value:
        """Arithmetic of two parts with the types that NumPy gives them."""
        kinds = {a.kind, b.kind}
        if kinds == {"bool"}:
            same = {"add": "or", "mul": "and", "max": "or", "min": "and", "and": "and", "or": "or"}
            if op in same:
                return _truth([same[op], a.tree, b.tree])
            if op != "div":
                raise _BeyondError("arithmetic of two conditions")
        if op in {"and", "or"}:
            raise _BeyondError("& or | of what is no condition")
        if "float" in kinds or op == "div":
            return _Value([op, a.tree, b.tree])
        if op == "pow" and b.kind == "int":
            raise _BeyondError("a power of whole numbers")
        sizes = {"add": a.most + b.most, "sub": a.most + b.most, "mul": a.most * b.most, "max": max(a.most, b.most)}
        most = sizes.get(op, sizes["max"] if op == "min" else math.inf)
        if not most < EXACT:
            raise _BeyondError("arithmetic of whole numbers other than sums and products of small ones")
        return _Value([op, a.tree, b.tree], "int", most)

    def _call(self, node: ast.Call) -> _Value:
        if isinstance(node.func, ast.Name):
            if node.func.id == "I":
                return self.read(node.args[0])
            raise _BeyondError(f"it calls the function {node.func.id}()")
        assert isinstance(node.func, ast.Attribute)
        name = node.func.attr
        if name in {"round", "rint"} and len(node.args) == 2:
            return self._decimals(node)
        given = [self.read(arg) for arg in node.args]
        name = SAME.get(name, name)
        if name in BINARY:
            return self.arithmetic(BINARY[name], *given)
        if name in CONDITIONS:
            return _truth(["cmp", CONDITIONS[name], given[0].tree, given[1].tree])
        if name in {"logical_and", "logical_or"}:
            return _truth([name[8:], *map(self.truth, given)])
        if name == "logical_not":
            return _truth(["not", self.truth(given[0])])
        if name == "logical_xor":
            return _truth(["cmp", "ne", *map(self.truth, given)])
        if name == "where":
            return self._where(*given)
        if name == "negative" or name == "positive":
            return self._sign(ast.USub() if name == "negative" else ast.UAdd(), given[0])
        if name == "abs" and given[0].kind == "int":
            return given[0]._replace(tree=["abs", given[0].tree])
        if name == "power":  # NumPy's power of doubles, whatever is raised
            return _Value(["pow", *map(self._as_double, given)])
        trees = list(map(self.real, given[:1])) + [self._as_double(value) for value in given[1:]]
        if name in UNARY:
            return _Value([name, *trees])
        if name in WRITTEN:
            return _Value(WRITTEN[name](*trees))
        if not self.closed:
            return _Value(["numpy", name, *trees])
        if name in CLOSED_ONLY:
            return _Value(CLOSED_ONLY[name](*trees))
        raise _BeyondError(f"np.{name}() is not among a device's functions")

    def _as_double(self, value: _Value) -> Tree:
        """A second argument: whole constants become doubles beside doubles."""
        return value.tree if value.kind == "int" and value.tree[0] == "const" else self.real(value)

    def _where(self, condition: _Value, a: _Value, b: _Value) -> _Value:
        kind = "float" if "float" in {a.kind, b.kind} else "int" if "int" in {a.kind, b.kind} else "bool"
        return _Value(["where", self.truth(condition), a.tree, b.tree], kind, max(a.most, b.most))

    def _decimals(self, node: ast.Call) -> _Value:
        places, tree = constant_value(node.args[1]), self.real(self.read(node.args[0]))
        ten = const(10.0 ** abs(places))
        to, back = ("mul", "div") if places > 0 else ("div", "mul")
        return _Value([back, ["round", [to, tree, ten]], ten] if places else ["round", tree])


def _column(node: ast.expr) -> str | None:
    """The column that a node is, if it is one."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Q":
        return str(ast.literal_eval(node.args[0]))
    return None
