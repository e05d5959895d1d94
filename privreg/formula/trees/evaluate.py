"""Expression trees over batches of records: parts that several trees share are computed once.

Every operation is NumPy's, number by number, so that how rows are cut can't change a bit. What depends on one factor
alone is looked up by the codes of its levels.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import Flags
from privreg.formula.language.rowwise import Rowwise
from privreg.formula.trees.operations import BINARY, CONDITIONS, UNARY
from privreg.formula.trees.splines import bsplines, cubic, floats, one_of
from privreg.schema.declarations import Schema

_NUMBERS: Final = {op: getattr(np, name) for name, op in [*BINARY.items(), *((name, name) for name in UNARY)]}
_NUMBERS.update(pow=np.power, round=np.rint)
_COMPARISONS: Final = {op: getattr(np, name) for name, op in CONDITIONS.items()}
_CONDITIONS: Final = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}
_TYPES: Final = {"int": (int, np.int64), "bool": (bool, np.bool_)}


class _Node(NamedTuple):
    """A part of a tree."""

    op: str
    args: tuple[int, ...]  # Numbers of the parts that it is computed from
    given: Any  # Whatever else the operation needs
    reads: frozenset[str] | None  # Factors that it depends on; None if it reads numbers, or calls a function
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
        self._steps = self._needed()
        self._like: dict[int, NDArray[Any]] = {}  # Values of functions on public rows
        called = sorted(frozenset().union(*(self._nodes[k].calls for k in self._wanted)))
        if public is not None and called:
            values = self._run(public, None, beyond=False)[0]
            self._like = {k: values[k] for k in called}

    def _add(self, tree: Any) -> int:
        """Number of a part, the same for equal ones."""
        key = repr(tree)
        if key in self._numbers:
            return self._numbers[key]
        op, *rest = tree
        given: Any = None
        parts: Sequence[Any] = ()
        reads: frozenset[str] | None = frozenset()
        match op:
            case "const":
                given = float.fromhex(rest[0])
            case "col":
                given, reads = rest[0], None
            case "codes":
                given, reads = rest[0], frozenset(rest)
            case "level":
                given, parts = rest[1], [["codes", rest[0]]]
            case "labels":
                kind = pd.CategoricalDtype(list(self._schema.levels[rest[0]]))
                given = np.asarray(pd.Categorical.from_codes(range(len(kind.categories)), dtype=kind))
                parts, reads = [["codes", rest[0]]], None
            case "cmp" | "numpy" | "python" | "as":
                given, parts = rest[0], rest[1:]
            case "call":
                # numbers stay as they are, and parts have their places among them
                parts = [arg for arg in rest[1:] if isinstance(arg, list)]
                given, reads = (rest[0], [None if isinstance(arg, list) else arg for arg in rest[1:]]), None
            case "item":
                given, parts = rest[1], rest[:1]
            case "bspline":  # all functions of a spline are computed at once
                given, parts = rest[3], [["bsplines", *rest[:3]]]
            case "bsplines":
                given, parts, reads = (rest[1], floats(rest[2])), rest[:1], None
            case "cr" | "cc":
                given, parts = tuple(map(floats, rest[1:])), rest[:1]
            case _:
                parts = rest
        args = tuple(map(self._add, parts))
        found = [reads, *(self._nodes[k].reads for k in args)]
        reads = None if None in found else frozenset().union(*(f for f in found if f is not None))
        calls = frozenset().union(*(self._nodes[k].calls for k in args))
        k = self._numbers[key] = len(self._nodes)
        node = _Node(op, args, given, reads, calls | {k} if op == "call" else calls)
        single = reads is not None and len(reads) == 1 and op != "codes"
        self._nodes.append(self._table(node) if single else node)
        return k

    def _table(self, node: _Node) -> _Node:
        """Table by level of a node that depends on one factor alone."""
        name = next(iter(node.reads or ()))
        levels = self._schema.levels[name]
        if node.op == "level":
            values = np.array([type(v) is type(node.given) and v == node.given for v in levels])
        else:
            held = [self._nodes[k] for k in node.args]
            with np.errstate(all="ignore"):
                of = [part.given[1] if part.op == "table" else part.given for part in held]
                values = np.broadcast_to(_computed(node.op, node.given, of, beyond=False), len(levels))
        return node._replace(op="table", args=(self._numbers[repr(["codes", name])],), given=(name, values))

    def _needed(self) -> list[int]:
        """Numbers of the parts that the trees need, in order."""
        needed, waiting = set[int](), list(self._wanted)
        while waiting:
            k = waiting.pop()
            if k not in needed:
                needed.add(k)
                waiting += self._nodes[k].args
        return sorted(needed)

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
        values: list[Any] = [None] * len(self._nodes)
        failed: dict[int, Flags] = {}
        with np.errstate(all="ignore"):  # a warning would reveal a value
            for k in self._steps:
                op, args, given = self._nodes[k][:3]
                of = [values[a] for a in args]
                if op in {"col", "codes"}:
                    values[k] = rows[given]
                elif op == "table":
                    values[k] = given[1].take(of[0])
                elif op == "call":
                    values[k] = self._called(k, of, known, failed)
                else:
                    values[k] = _computed(op, given, of, beyond=beyond)
        return values, failed

    def _called(self, k: int, of: Sequence[Any], known: Flags | None, failed: dict[int, Flags]) -> NDArray[Any]:
        name, places = self._nodes[k].given
        parts = map(_readonly, of)
        args = [next(parts) if place is None else place for place in places]
        if k not in self._like:
            made = np.asarray(self._functions[name](*args))
            return made.astype(np.float64) if made.dtype.kind in "iuf" else made
        n = next((len(a) for a in args if np.ndim(a)), None)
        if n is None:  # of public numbers alone
            return self._like[k]
        if known is None:
            out, without = self._functions[name].of_records(args, n, self._like[k])
        else:
            out, without = np.zeros((n, *self._like[k].shape[1:]), self._like[k].dtype), ~known
            some = [a[known] if np.ndim(a) else a for a in args]
            out[known], without[known] = self._functions[name].of_records(some, int(known.sum()), self._like[k])
        if without.any():
            failed[k] = without
        return out


def _readonly(values: Any) -> Any:
    """An argument of a function, which must not write into it."""
    if isinstance(values, np.ndarray):
        values = values.view()
        values.flags.writeable = False
    return values


def _computed(op: str, given: Any, args: Sequence[Any], *, beyond: bool) -> Any:
    """One operation, on arrays or numbers."""
    if op in _NUMBERS:
        return _NUMBERS[op](*args, dtype=np.float64)
    match op:
        case "const":
            return given
        case "cmp":
            return _COMPARISONS[given](*args)
        case "and" | "or" | "not":
            return _CONDITIONS[op](*args)
        case "where":
            return np.where(*args)
        case "numpy":
            return getattr(np, given)(*args)
        case "python":
            return getattr(operator, given)(*args)
        case "as":
            plain, type_ = _TYPES[given]
            return args[0].astype(type_) if isinstance(args[0], np.ndarray) else plain(args[0])
        case "labels":
            return given.take(args[0])
        case "item":
            return args[0][:, given]
        case "bspline":
            values, first = args[0]
            return one_of(values, first, given)
        case "bsplines":
            return bsplines(np.asarray(args[0], dtype=np.float64), *given)
    return cubic(np.asarray(args[0], dtype=np.float64), *given, beyond=beyond, around=op == "cc")
