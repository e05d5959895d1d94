"""Encoding of a design: factors are looked up by their levels, and everything else is computed by trees.

Built from the formula and the public schema; it learns nothing from the rows it encodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import NAAction, Term, design_matrix_builders
from patsy.builtins import C
from patsy.eval import EvalFactor

from privreg.data.cells import Flags, Floats
from privreg.formula.language.parse import ParsedFormula, contrast_of
from privreg.formula.probe import Prepared
from privreg.formula.trees.compile import FactorColumn, term_trees
from privreg.formula.trees.evaluate import Program, Tree
from privreg.schema.declarations import Schema


class DesignTerm(NamedTuple):
    """One term of a formula, or one column of arrays."""

    name: str  # Name as patsy writes it: "Intercept", "age", "C(region)", "age:smoker"
    columns: tuple[int, ...]  # Positions of its design columns
    reads: tuple[str, ...] = ()  # Raw columns that it is made from; none for the intercept
    levels: tuple[Any, ...] = ()  # Declared levels, if the term is a factor by itself; none for other terms
    coding: Floats | None = None  # Values of its columns at each of these levels, shape (levels, columns)

    @property
    def reference(self) -> Any:
        """The level whose columns are all 0; None of a term that has no such level."""
        coded = np.ones(1, dtype=np.bool_) if self.coding is None else self.coding.any(axis=1)
        return None if coded.all() else self.levels[int(np.argmin(coded))]


LARGEST: Final = 1 << 14
"""Numbers of a factor's contrasts that are looked up as a table; of larger ones the ones are set."""


class TermPart(NamedTuple):
    """A term of the right-hand side, whose columns are made by levels or by trees."""

    name: str
    place: slice
    reads: tuple[str, ...]  # Raw columns
    trees: tuple[Tree, ...] = ()
    column: str = ""  # A factor that stands for itself
    matrix: Floats | None = None  # Contrasts of that factor, a row for each level
    hot: NDArray[np.int64] | None = None  # Column of each level's only 1, −1 for one that has none; None of others


@dataclass(frozen=True)
class Encoder:
    """Encoder of a design; rebuilt from the formula, never pickled or saved."""

    width: int
    parts: tuple[TermPart, ...]
    program: Program  # All trees of the parts, in order
    response: Program | None  # None when the response is a column itself
    affine: tuple[Floats, Floats] | None = None  # Centre and scale of each column, if it comes in internal units
    places: NDArray[np.intp] | None = None  # Place of each column, if not in the order of the design

    def scaled(self, centre: Floats, scale: Floats) -> Encoder:
        """Encoder whose column j is (x_j − centre_j) / scale_j."""
        return replace(self, affine=(centre, scale))

    def ordered(self, order: NDArray[np.intp]) -> Encoder:
        """Encoder with its columns in this order."""
        return replace(self, places=np.argsort(order))

    @property
    def computed_columns(self) -> tuple[str, ...]:
        """Raw columns that terms other than bare columns and factors read."""
        computed = [part for part in self.parts if part.matrix is None and not _is_bare(part)]
        return tuple(dict.fromkeys(name for part in computed for name in part.reads))

    @np.errstate(all="ignore")  # a warning would reveal a value
    def exog(
        self, rows: Prepared, n: int, known: Flags | None = None, *, beyond: bool = False
    ) -> tuple[Floats, Flags | None, str | None]:
        """Build the matrix, shape (n, width): in the user's units row by row, in internal ones column by column.

        Beside it, in which rows every term is a finite number, None if in all; and which term isn't in the others, or
        None, without a value. `rows` are numbers, and codes of levels, 0 for one that is missing, each of shape (n,);
        `known`, of that shape, says in which of them nothing is missing, None if in all. `beyond` says whether cubic
        splines go on beyond their knots, as for rows that are not clamped.
        """
        out = np.empty((self.width, n)).T
        values = iter(self.program(rows, known, beyond=beyond))
        fine: Any = None
        problem: str | None = None
        for part in self.parts:
            if part.matrix is not None:
                self._write_levels(out, part, rows[part.column])
                continue
            for j in range(part.place.start, part.place.stop):
                value = next(values)
                finite = np.True_ if _is_bare(part) else np.isfinite(value)
                if not finite.all():
                    fine = finite if fine is None else np.logical_and(fine, finite)
                    problem = problem or f"formula term {part.name!r} is not finite, or can't be computed,"
                self._write(out, j, value)
        return out if self.affine is not None else np.ascontiguousarray(out), fine, problem

    def _inside(self, j: Any, values: Any) -> Any:
        """Values of columns, in internal units if they come so."""
        return values if self.affine is None else (values - self.affine[0][j]) / self.affine[1][j]

    def _at(self, j: int) -> int:
        return j if self.places is None else int(self.places[j])

    def _write(self, out: Floats, j: int, value: Any) -> None:
        to = out[:, self._at(j)]
        centre, scale = (0.0, 1.0) if self.affine is None else (self.affine[0][j], self.affine[1][j])
        if centre != 0.0:
            value = np.subtract(value, centre, out=to)
        if scale != 1.0:
            np.divide(value, scale, out=to)
        elif centre == 0.0:
            to[:] = value

    @cached_property
    def _tables(self) -> dict[str, Floats]:
        """Columns of factors at each level, shape (columns, levels), those that are hot and large left out."""
        return {
            part.name: np.ascontiguousarray(self._inside(np.arange(part.place.start, part.place.stop), part.matrix).T)
            for part in self.parts
            if part.matrix is not None and not _is_large(part)
        }

    def _write_levels(self, out: Floats, part: TermPart, codes: NDArray[Any]) -> None:
        first, columns = part.place.start, range(part.place.start, part.place.stop)
        if part.hot is None or not _is_large(part):
            for j, values in zip(columns, self._tables[part.name], strict=True):
                values.take(
                    codes, out=out[:, self._at(j)], mode="clip"
                )  # all are inside; by default NumPy makes a copy
            return
        ends = self._inside(np.array(columns), np.array([[0.0], [1.0]]) * np.ones(len(columns)))
        for j in columns:
            out[:, self._at(j)] = ends[0, j - first]
        at = part.hot[codes]
        some = np.flatnonzero(at >= 0)
        to = first + at[some]
        out[some, to if self.places is None else self.places[to]] = ends[1][at[some]]


def _is_bare(part: TermPart) -> bool:
    """True if a term is a raw column, and so finite."""
    return len(part.trees) == 1 and part.trees[0][0] == "col"


def _is_large(part: TermPart) -> bool:
    """True if a factor is so large that its ones are set one by one, rather than its columns looked up."""
    return part.hot is not None and part.matrix is not None and part.matrix.size > LARGEST


# --- from the formula ------------------------------------------------------------------------------------


class _Valued(EvalFactor):  # type: ignore[misc]
    """A factor of patsy's whose values, for public rows, are known."""

    def __init__(self, code: str, value: Any) -> None:
        super().__init__(code)
        self._value = value

    def memorize_passes_needed(self, state: Any, eval_env: Any) -> int:
        """None: nothing is learned from rows."""
        return 0

    def eval(self, state: Any, data: Any) -> Any:
        return self._value


_KEEP_ALL = NAAction(on_NA="raise", NA_types=[])


def coded_terms(
    terms: Sequence[Any], values: Mapping[str, NDArray[Any]], rows: Prepared, parsed: ParsedFormula, schema: Schema
) -> Any:
    """Patsy's coding, a `DesignInfo`, of its terms on public rows.

    `values` are those of factors that are computed, by code; factors that stand for themselves are columns of `rows`.
    """

    def valued(code: str) -> _Valued:
        name = parsed.plain.get(code)
        if name is None or name not in schema.levels:
            return _Valued(code, values[code] if name is None else rows[name])
        kind: Any = pd.CategoricalDtype(list(schema.levels[name]))
        return _Valued(code, C(pd.Categorical.from_codes(rows[name], dtype=kind), contrast_of(code, parsed.formula)))

    known = {code: valued(code) for code in parsed.reads}
    again = [Term([known[f.code] for f in term.factors]) for term in terms]
    return design_matrix_builders([again], lambda: iter([{}]), 0, NA_action=_KEEP_ALL)[0]


def make_encoder(
    info: Any,
    parsed: ParsedFormula,
    schema: Schema,
    factors: Mapping[str, Sequence[FactorColumn]],
    rows: Prepared,
    response: Program | None,
) -> Encoder:
    """Sort the terms of patsy's coding: factors that stand for themselves are looked up, all others are trees.

    `factors` are the columns of each factor, by code; `rows` are public.
    """
    parts: list[TermPart] = []
    for term, subterms in info.term_codings.items():
        plain = [parsed.plain.get(f.code) for f in term.factors]
        reads = tuple(dict.fromkeys(name for f in term.factors for name in parsed.reads[f.code]))
        part = TermPart(term.name(), info.term_slices[term], reads)
        contrast = None
        if len(plain) == 1 and plain[0] is not None and len(subterms) == 1:
            contrast = subterms[0].contrast_matrices.get(term.factors[0])
        if contrast is not None:
            matrix = np.asarray(contrast.matrix, dtype=np.float64)
            part = part._replace(column=str(plain[0]), matrix=matrix, hot=_one_hot(matrix))
        else:
            part = part._replace(trees=term_trees(subterms, info, parsed, schema, factors.__getitem__))
        parts.append(part)
    program = Program([tree for part in parts for tree in part.trees], schema, parsed.functions, rows)
    return Encoder(len(info.column_names), tuple(parts), program, response)


def _one_hot(matrix: Floats) -> NDArray[np.int64] | None:
    """Column of the only 1 of each level, −1 for a level without; None for other contrasts."""
    at = matrix.argmax(axis=1)
    hot = matrix[np.arange(len(matrix)), at] == 1.0
    single = ((matrix != 0.0).sum(axis=1) == hot).all()
    return np.where(hot, at, -1) if single and matrix.shape[1] > 1 else None
