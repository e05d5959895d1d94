"""How a design encodes: which terms are looked up by levels or computed as trees, and which are left to patsy.

Built from the formula and the public schema; it learns nothing from the rows it encodes.
"""

from __future__ import annotations

import math
import threading
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import NAAction, PatsyError, build_design_matrices, design_matrix_builders
from patsy.eval import EvalFactor

from privreg.data.cells import Flags, Floats
from privreg.data.columns import spread
from privreg.errors import PrivacyLeakError
from privreg.formula.language.limits import read
from privreg.formula.language.parse import PIECE, ParsedFormula, Rowwise, column_key
from privreg.formula.probe import Prepared, probe_rows, take
from privreg.formula.trees.compile import columns_of, compile_term
from privreg.formula.trees.evaluate import Program
from privreg.formula.trees.lookup import Block, Lookup
from privreg.formula.trees.operations import Tree
from privreg.schema.declarations import Schema

_KEEP_ALL = NAAction(on_NA="raise", NA_types=[])
LARGEST: Final = 1 << 14
"""Numbers of a factor's contrasts that are looked up as a table; of larger ones the ones are set."""

CELLS: Final = 1 << 10
"""Combinations of levels for which what depends on several factors is looked up."""


class _Part(NamedTuple):
    """A term of the right-hand side, and how its columns are made: by levels, by trees, or by patsy."""

    name: str
    place: slice
    info: Any = None  # Patsy's, of this term alone
    trees: tuple[Tree, ...] | None = None
    column: str | None = None  # A factor that stands for itself
    matrix: Floats | None = None  # Its contrasts, a row for each level
    hot: NDArray[np.int64] | None = None  # Column of each level's only 1, −1 for one that has none; None of others


class _Large(NamedTuple):
    """A factor whose contrasts are too many for a table: its columns one by one, or its ones."""

    place: slice
    column: str
    matrix: Floats
    hot: NDArray[np.int64] | None


class _Computed(NamedTuple):
    """A column that is computed from numbers."""

    at: int
    part: str  # Name of its term
    bare: bool  # Whether it is a column as it stands, and so finite


@dataclass(frozen=True)
class Evaluator:
    """One factor of the formula, ready to be evaluated on prepared columns."""

    factor: Any
    state: dict[str, Any]

    @classmethod
    def build(cls, code: str, env: Any) -> Evaluator:
        """Ready a factor."""
        factor, state = EvalFactor(code), dict[str, Any]()
        factor.memorize_passes_needed(state, env)  # none: all knots are literals, and nothing is learned from rows
        return cls(factor, state)

    def __call__(self, data: Mapping[str, Any]) -> NDArray[Any]:
        """Values of the factor, a row each.

        Raises
        ------
        PrivacyLeakError
            If a marked function doesn't return a value for each row.
        """
        try:
            return np.asarray(self.factor.eval(self.state, data))
        except PatsyError as e:
            leak = e.__cause__
            if not isinstance(leak, PrivacyLeakError):
                raise
        raise leak from None


@dataclass(frozen=True)
class Encoder:
    """How a design encodes; rebuilt from the formula, never pickled or saved."""

    schema: Schema
    functions: Mapping[str, Rowwise]
    width: int
    parts: tuple[_Part, ...]
    response: Evaluator | Program | None  # None when the response is a column itself
    affine: tuple[Floats, Floats] | None = None  # Centre and scale of each column, if it comes in internal units
    places: NDArray[np.intp] | None = None  # Where each column comes, if not in the order of the design

    def data(self, rows: Prepared, names: Sequence[str]) -> dict[str, Any]:
        """Hand prepared columns to patsy: levels as a Categorical, numbers read-only."""
        out: dict[str, Any] = {}
        for name in names:
            if name in self.schema.levels:
                dtype = pd.CategoricalDtype(list(self.schema.levels[name]))
                value: Any = pd.Categorical.from_codes(rows[name], dtype=dtype)
            else:
                value = rows[name].view()
                value.flags.writeable = False  # a marked function must not write into its argument
            out[column_key(name, self.functions)] = value
        return out

    def narrowed(self, whole: Callable[[slice], bool]) -> tuple[Encoder, NDArray[np.int64]]:
        """Write factors with many levels as one column each.

        Parameters
        ----------
        whole : callable
            Says of a factor's columns whether they may become one.

        Returns
        -------
        Encoder
        ndarray of int, shape (m, 2)
            First column of the design that each column of this plan stands for, and how many if it is a factor's,
            else 0.
        """
        kept = {d.place.start: d for d in self.parts if d.hot is not None and whole(d.place)}
        columns: list[tuple[int, int]] = []
        j = 0
        while j < self.width:
            wide = j in kept
            columns.append((j, kept[j].place.stop - j if wide else 0))
            j = kept[j].place.stop if wide else j + 1
        at = {j: c for c, (j, _) in enumerate(columns)}

        def moved(part: _Part) -> _Part:
            start = at[part.place.start]
            if part.place.start not in kept:
                return part._replace(place=slice(start, start + part.place.stop - part.place.start))
            assert part.hot is not None
            return part._replace(place=slice(start, start + 1), matrix=part.hot[:, None].astype(np.float64), hot=None)

        parts = tuple(moved(part) for part in self.parts if part.place.stop > part.place.start)
        return replace(self, width=len(columns), parts=parts), np.array(columns, dtype=np.int64).reshape(-1, 2)

    def scaled(self, centre: Floats, scale: Floats) -> Encoder:
        """The same, but that column j comes as (x_j − centre_j) / scale_j."""
        return replace(self, affine=(centre, scale))

    def ordered(self, order: NDArray[np.intp]) -> Encoder | None:
        """The same, its columns in this order; None where that can't be."""
        if self._made[1]:
            return None
        return replace(self, places=np.argsort(order))

    @cached_property
    def extended(self) -> Encoder:
        """The same for rows that are not clamped: beyond their knots splines go on as patsy has them."""
        parts = [part._replace(trees=None) if "cr" in _operations(part.trees) else part for part in self.parts]
        return replace(self, parts=tuple(parts))

    @property
    def computed_columns(self) -> tuple[str, ...]:
        """Raw columns that terms other than bare columns and factors read."""
        plain = [part.matrix is not None or (part.trees and part.trees[0][0] == "col") for part in self.parts]
        reads = [part.info.reads for part, own in zip(self.parts, plain, strict=True) if not own]
        return tuple(dict.fromkeys(name for names in reads for name in names))

    @cached_property
    def _made(self) -> tuple[Lookup, list[_Large], list[_Computed], Program]:
        """What is looked up, and what is computed."""
        blocks: list[Block] = []
        large: list[_Large] = []
        computed: list[_Computed] = []
        trees: list[Tree] = []
        for part in self.parts:
            at = np.arange(part.place.start, part.place.stop)
            if part.matrix is not None and part.column is not None:
                if part.matrix.size > LARGEST:
                    large.append(_Large(part.place, part.column, part.matrix, part.hot))
                    continue
                blocks.append(self._block((part.column,), at, part.matrix))
            for j, tree in zip(at.tolist(), part.trees or (), strict=bool(part.trees)):
                reads = columns_of(tree)
                cells = math.prod(len(self.schema.levels.get(name, ())) for name in reads)
                if 0 < cells <= CELLS:
                    blocks.append(self._block(reads, np.array([j]), self._cells(tree, reads)))
                else:
                    computed.append(_Computed(j, part.name, tree[0] == "col"))
                    trees.append(tree)
        found = tuple(block for block in blocks if len(block.columns))
        return Lookup(self.width, found), large, computed, Program(trees, self.schema)

    def _block(self, factors: tuple[str, ...], at: NDArray[np.intp], table: Floats) -> Block:
        sizes = tuple(len(self.schema.levels[name]) for name in factors)
        if self.affine is not None:
            table = (table - self.affine[0][at]) / self.affine[1][at]
        if self.places is not None:
            at = self.places[at]
            table, at = table[:, np.argsort(at)], np.sort(at)
        return Block(factors, sizes, at, table)

    def _cells(self, tree: Tree, factors: tuple[str, ...]) -> Floats:
        """What a tree of factors alone is for each combination of their levels, shape (cells, 1)."""
        sizes = tuple(len(self.schema.levels[name]) for name in factors)
        grid = np.unravel_index(np.arange(math.prod(sizes)), sizes or (1,))
        (value,) = Program([tree], self.schema)(dict(zip(factors, grid, strict=False)))
        return np.array(np.broadcast_to(value, math.prod(sizes)), dtype=np.float64)[:, None]

    @cached_property
    def _rest(self) -> tuple[list[_Part], tuple[str, ...], Any]:
        """What is left to patsy: terms, the columns they read, and one DesignInfo for all of them."""
        rest = [part for part in self.parts if part.matrix is None and part.trees is None]
        if not rest:
            return rest, (), None
        reads = dict.fromkeys(name for part in rest for name in part.info.reads)
        return rest, tuple(reads), rest[0].info.whole.subset([part.info.term for part in rest])

    @np.errstate(all="ignore")  # a warning would tell of one value
    def exog(self, rows: Prepared, n: int, known: Flags | None = None) -> tuple[Floats, Flags | None, str | None]:
        """Build the matrix.

        Parameters
        ----------
        rows : mapping of str to ndarray, shape (n,)
            Numbers, and codes of levels, 0 for one that is missing.
        n : int
        known : ndarray of bool, shape (n,), optional
            Rows in which nothing is missing; None if that is all of them.

        Returns
        -------
        ndarray, shape (n, width)
            In the user's units row by row, in internal ones column by column.
        ndarray of bool, shape (n,), or None
            Rows in which every term is a finite number; None if that is all of them.
        str or None
            Which term isn't in the others, without quoting a value.
        """
        lookup, large, computed, program = self._made
        out = lookup.rows(rows, n)
        for one in large:
            self._write_large(out, one, rows[one.column])
        fine: Any = None
        problem: str | None = None
        for column, value in zip(computed, program(rows), strict=True):
            own: Any = None if column.bare else np.isfinite(value)
            if own is not None and not own.all():
                fine = own if fine is None else np.logical_and(fine, own)
                problem = column.part if problem is None else problem
            self._write(out, column.at, value)
        rest, names, together = self._rest
        if rest and n:
            block = self._by_patsy(rows, n, known, names, together)
            sound = np.isfinite(block)
            start = 0
            for part in rest:
                stop = start + part.place.stop - part.place.start
                if problem is None and not sound[:, start:stop].all():
                    problem = part.name
                for j in range(start, stop):
                    self._write(out, part.place.start + j - start, block[:, j])
                start = stop
            if not sound.all():
                fine = sound.all(axis=1) if fine is None else np.logical_and(fine, sound.all(axis=1))
        told = None if problem is None else f"formula term {problem!r} is not finite, or can't be computed,"
        return out if self.affine is not None else np.ascontiguousarray(out), fine, told

    def _by_patsy(self, rows: Prepared, n: int, known: Flags | None, names: Sequence[str], together: Any) -> Floats:
        """Terms left to patsy, NaN in incomplete rows: they are never computed with, as a term may fail on them."""
        width = sum(part.place.stop - part.place.start for part in self._rest[0])
        some = rows if known is None else take(rows, known)
        m = n if known is None else int(known.sum())
        return spread(by_rows(lambda part: _matrix(together, part), self.data(some, names), m, width), known)

    def _write(self, out: Floats, j: int, value: NDArray[Any]) -> None:
        to = out[:, j if self.places is None else self.places[j]]
        centre, scale = (0.0, 1.0) if self.affine is None else (self.affine[0][j], self.affine[1][j])
        if centre != 0.0:
            value = np.subtract(value, centre, out=to)
        if scale != 1.0:
            np.divide(value, scale, out=to)
        elif centre == 0.0:
            to[:] = value

    def _write_large(self, out: Floats, one: _Large, codes: NDArray[Any]) -> None:
        columns = np.arange(one.place.start, one.place.stop)
        ends = np.array([0.0, 1.0])[:, None] * np.ones(len(columns))
        if self.affine is not None:
            ends = (ends - self.affine[0][columns]) / self.affine[1][columns]
        if one.hot is not None:
            out[:, one.place] = ends[0]
            at = one.hot[codes]
            some = np.flatnonzero(at >= 0)
            out[some, one.place.start + at[some]] = ends[1][at[some]]
            return
        for j in range(one.matrix.shape[1]):
            self._write(out, one.place.start + j, one.matrix[:, j].take(codes))


def _matrix(info: Any, data: Mapping[str, Any]) -> NDArray[Any]:
    return np.asarray(build_design_matrices([info], data, NA_action=_KEEP_ALL)[0])


def by_rows(make: Callable[[Mapping[str, Any]], NDArray[Any]], data: Mapping[str, Any], n: int, width: int) -> Floats:
    """What `make` computes of each row; NaN for a row of which it can't.

    A function may fail on a row that nobody has thought of: that row alone must suffer.

    Parameters
    ----------
    make : callable
        From columns of any length to an array of a row each, shape (m,) or (m, width).
    data : mapping of str to array
    n, width : int

    Returns
    -------
    ndarray, shape (n, width)
    """
    out = np.full((n, width), np.nan)
    waiting = [slice(0, n)]

    def block(part: slice) -> Floats:
        m = part.stop - part.start
        made = make(data if m == n else {name: values[part] for name, values in data.items()})
        return made.astype(np.float64, casting="same_kind").reshape(m, width)

    # what warns would tell of a value; warnings are silenced for all threads, so one after the other
    with _SILENT, np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while waiting:
            part = waiting.pop()
            made = _unless_it_fails(block, part)
            if made is not None:
                out[part] = made
            elif part.stop - part.start > 1:
                middle = (part.start + part.stop) // 2
                waiting += [slice(part.start, middle), slice(middle, part.stop)]
    return out


_SILENT: Final = threading.RLock()
"""Of the thread that has silenced warnings; a marked function may predict, and so come here again."""


def _unless_it_fails(block: Callable[[slice], Floats], part: slice) -> Floats | None:
    """The block of a part; None if its function raises anything, whose text could hold data."""
    try:
        return block(part)
    except KeyboardInterrupt:  # the user's, unless it comes again
        try:
            block(part)
        except BaseException:
            return None
        raise
    except BaseException:
        return None


def same_in_pieces(evaluate: Evaluator, plan: Encoder, names: Sequence[str]) -> bool:
    """Whether public rows get equal values in pieces of every length that marked functions are called with, and again.

    So many rows are cut into one piece of each length; in reverse, each but the middle row is in a piece of another.
    """
    rows = take(probe_rows(names, plan.schema, rows=2 * PIECE - 1), slice(2 * PIECE - 1))
    there, again = (evaluate(plan.data(rows, names)) for _ in range(2))
    back = evaluate(plan.data(take(rows, slice(None, None, -1)), names))[::-1]
    same = there.shape == back.shape and np.array_equal(there, again, equal_nan=True)
    return bool(same and np.allclose(there, back, rtol=1e-12, atol=0, equal_nan=True))


# --- from the formula ------------------------------------------------------------------------------------


def right_hand_side(formula: str) -> list[Any]:
    """Patsy's terms of the right-hand side."""
    return list(read(formula)[0].rhs_termlist)


def coded_terms(terms: Sequence[Any], data: Mapping[str, Any], env: Any) -> Any:
    """Patsy's coding of terms, found from public probe rows."""
    return design_matrix_builders([terms], lambda: iter([data]), env, NA_action=_KEEP_ALL)[0]


def _one_hot(matrix: Floats) -> NDArray[np.int64] | None:
    """For each level the column in which it has its only 1, −1 for one that has none; None for other contrasts."""
    at = matrix.argmax(axis=1)
    hot = matrix[np.arange(len(matrix)), at] == 1.0
    single = ((matrix != 0.0).sum(axis=1) == hot).all()
    return np.where(hot, at, -1) if single and matrix.shape[1] > 1 else None


def _operations(trees: Any) -> set[str]:
    """Words at the heads of trees."""
    if not isinstance(trees, list | tuple) or not trees:
        return set()
    return {str(trees[0])}.union(*map(_operations, trees))


class _Left(NamedTuple):
    """What patsy needs to compute one term."""

    whole: Any  # DesignInfo of the whole formula
    term: Any
    reads: tuple[str, ...]


def empty_plan(schema: Schema, functions: Mapping[str, Rowwise]) -> Encoder:
    """Encoder without terms, for handing columns to patsy."""
    return Encoder(schema, functions, 0, (), None)


def make_plan(info: Any, parsed: ParsedFormula, schema: Schema, response: Evaluator | Program | None) -> Encoder:
    """Sort the terms of a coding: factors are looked up, what trees say is computed, the rest is left to patsy."""
    parts: list[_Part] = []
    for term, subterms in info.term_codings.items():
        plain = [parsed.plain.get(f.code) for f in term.factors]
        reads = tuple(name for f in term.factors for name in parsed.reads[f.code])
        part = _Part(term.name(), info.term_slices[term], _Left(info, term, reads))
        contrast = None
        if len(plain) == 1 and plain[0] is not None and len(subterms) == 1:
            contrast = subterms[0].contrast_matrices.get(term.factors[0])
        if contrast is not None:
            matrix = np.asarray(contrast.matrix, dtype=np.float64)
            parts.append(part._replace(column=plain[0], matrix=matrix, hot=_one_hot(matrix)))
        else:
            compiled = compile_term(term, subterms, info, parsed, schema, closed=False)
            parts.append(part._replace(trees=compiled.trees))
    return Encoder(schema, parsed.functions, len(info.column_names), tuple(parts), response)
