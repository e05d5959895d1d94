"""Expression trees over batches of records: parts that several trees share are computed once.

Every operation is NumPy's own on doubles, number by number, so that how rows are cut can't change a bit. What depends
on one factor alone is looked up by the codes of its levels.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.formula.trees.operations import BINARY, CONDITIONS, UNARY
from privreg.formula.trees.splines import bsplines, cubic, floats, one_of
from privreg.schema.declarations import Schema

_NUMBERS: Final = {op: getattr(np, name) for name, op in [*BINARY.items(), *((name, name) for name in UNARY)]}
_NUMBERS.update(pow=np.power, round=np.rint)
_COMPARISONS: Final = {op: getattr(np, name) for name, op in CONDITIONS.items()}
_CONDITIONS: Final = {"and": np.logical_and, "or": np.logical_or, "not": np.logical_not}


class _Node(NamedTuple):
    """A part of a tree."""

    op: str
    args: tuple[int, ...]  # Numbers of the parts that it is computed from
    given: Any  # Whatever else the operation needs


class Program:
    """Trees, ready to be computed of batches.

    Parameters
    ----------
    trees : sequence of nested lists
        See `privreg.formula.trees.compile`.
    schema : Schema
        Whose levels the codes of factors are of.

    Attributes
    ----------
    columns : tuple of str
        Raw columns that they read.
    """

    def __init__(self, trees: Sequence[Any], schema: Schema) -> None:
        self._schema = schema
        self._nodes: list[_Node] = []
        self._numbers: dict[str, int] = {}
        # of each part: all that it depends on; None if it reads numbers
        self._factors: list[frozenset[str] | None] = []
        self._wanted = [self._add(tree) for tree in trees]
        self.columns = tuple(dict.fromkeys(n.given for n in self._nodes if n.op in {"col", "codes"}))
        self._steps = self._needed()

    def _add(self, tree: Any) -> int:
        """Number of a part, the same for equal ones."""
        key = json.dumps(tree)
        if key in self._numbers:
            return self._numbers[key]
        op, *rest = tree
        if op == "bspline":  # all functions of a spline are computed at once
            return self._append(key, _Node(op, (self._add(["bsplines", *rest[:3]]),), rest[3]), None)
        given: Any = None
        args: tuple[int, ...] = ()
        reads: frozenset[str] | None = frozenset()
        if op == "const":
            given = float.fromhex(rest[0])
        elif op == "col":
            given, reads = rest[0], None
        elif op == "level":
            codes = self._codes(rest[0])
            args, given, reads = (codes,), rest[1], frozenset({rest[0]})
        else:
            given, rest = self._given(op, rest)
            args = tuple(self._add(arg) for arg in rest)
            found = [self._factors[k] for k in args]
            known = [f for f in found if f is not None]
            reads = None if len(known) < len(found) or op == "bsplines" else frozenset().union(*known)
        node = self._table(op, args, given, reads) if reads is not None and len(reads) == 1 else _Node(op, args, given)
        return self._append(key, node, reads)

    def _given(self, op: str, rest: list[Any]) -> tuple[Any, list[Any]]:
        """What an operation needs beside trees, and these."""
        if op in {"cmp", "numpy"}:
            return rest[0], rest[1:]
        if op == "bsplines":
            return (rest[1], floats(rest[2])), rest[:1]
        if op == "cr":
            return tuple(map(floats, rest[1:])), rest[:1]
        return None, rest

    def _append(self, key: str, node: _Node, reads: frozenset[str] | None) -> int:
        self._nodes.append(node)
        self._factors.append(reads)
        self._numbers[key] = len(self._nodes) - 1
        return self._numbers[key]

    def _codes(self, name: str) -> int:
        key = json.dumps(["codes", name])
        if key not in self._numbers:
            self._append(key, _Node("codes", (), name), frozenset({name}))
        return self._numbers[key]

    def _table(self, op: str, args: tuple[int, ...], given: Any, reads: frozenset[str]) -> _Node:
        """What depends on one factor alone, computed for each of its levels."""
        (name,) = reads
        levels = self._schema.levels[name]
        if op == "level":
            values = np.array([type(v) is type(given) and v == given for v in levels])
        else:
            held = [self._nodes[k] for k in args]
            of = [node.given[1] if node.op == "table" else node.given for node in held]
            with np.errstate(all="ignore"):
                values = np.broadcast_to(_computed(op, given, of), len(levels))
        return _Node("table", (self._codes(name),), (name, values))

    def _needed(self) -> list[int]:
        """Numbers of the parts that the trees need, in order."""
        needed, waiting = set[int](), list(self._wanted)
        while waiting:
            k = waiting.pop()
            if k not in needed:
                needed.add(k)
                waiting += self._nodes[k].args
        return sorted(needed)

    def __call__(self, rows: Mapping[str, NDArray[Any]]) -> list[Any]:
        """Compute all trees.

        Parameters
        ----------
        rows : mapping of str to ndarray, shape (n,)
            Numbers as doubles, factors as codes of their declared levels, none of them below 0.

        Returns
        -------
        list
            A value for each tree: ndarray, shape (n,), of doubles or truth values; or a number, the same for all rows.
        """
        values: list[Any] = [None] * len(self._nodes)
        with np.errstate(all="ignore"):  # a warning would tell of one value
            for k in self._steps:
                op, args, given = self._nodes[k]
                if op in {"col", "codes"}:
                    values[k] = rows[given]
                elif op == "table":
                    values[k] = given[1].take(values[args[0]])
                else:
                    values[k] = _computed(op, given, [values[a] for a in args])
        return [values[k] for k in self._wanted]


def _computed(op: str, given: Any, args: Sequence[Any]) -> Any:
    """One operation, on arrays or numbers."""
    if op == "const":
        return given
    if op in _NUMBERS:
        return _NUMBERS[op](*args, dtype=np.float64)
    if op == "cmp":
        return _COMPARISONS[given](*args)
    if op in _CONDITIONS:
        return _CONDITIONS[op](*args)
    if op == "where":
        return np.where(*args)
    if op == "numpy":
        return getattr(np, given)(*args)
    if op == "bspline":
        values, first = args[0]
        return one_of(values, first, given)
    return (bsplines if op == "bsplines" else cubic)(np.asarray(args[0], dtype=np.float64), *given)
