"""How a design encodes: which terms are written directly, and which are left to patsy.

Built from the formula and the public schema; it learns nothing from the rows it encodes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from patsy import ModelDesc, NAAction, PatsyError, build_design_matrices, design_matrix_builders
from patsy.eval import EvalFactor

from privreg.data.columns import Flags, Floats
from privreg.errors import PrivacyLeakError
from privreg.formula.parse import PIECE, ParsedFormula, Rowwise, column_key
from privreg.formula.probe import Prepared, probe_rows, take
from privreg.schema.declarations import Schema

__all__ = [
    *("Evaluator", "Encoder", "by_rows", "coded_terms", "empty_plan", "make_plan", "right_hand_side", "same_in_pieces"),
]

_KEEP_ALL = NAAction(on_NA="raise", NA_types=[])
_UNBOUNDED = (-np.inf, np.inf)
_MANY = 16


class _Direct(NamedTuple):
    """A term written without patsy: the intercept, a numeric column, or a coded factor.

    A factor with `hot` and no `matrix` has one column, in which stands which of the level's columns is 1.
    """

    place: slice
    column: str | None
    matrix: Floats | None
    hot: NDArray[np.int64] | None  # column of each level's only 1, −1 for one that has none; of such a factor


class _Term(NamedTuple):
    """A term left to patsy."""

    name: str
    place: slice
    info: Any


@dataclass(frozen=True)
class Evaluator:
    """One factor of the formula, ready to be evaluated on prepared columns."""

    factor: Any
    state: dict[str, Any]

    @classmethod
    def build(cls, code: str, env: Any, data: Mapping[str, Any]) -> Evaluator:
        """Ready a factor; splines take their knots from its text, not from `data`."""
        factor = EvalFactor(code)
        state: dict[str, Any] = {}
        for step in range(factor.memorize_passes_needed(state, env)):
            factor.memorize_chunk(state, step, data)  # all knots are literals: nothing is learned from `data`
            factor.memorize_finish(state, step)
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
    direct: tuple[_Direct, ...]
    rest: tuple[_Term, ...]
    together: Any  # one DesignInfo for all of `rest`
    rest_columns: tuple[str, ...]
    response: Evaluator | None  # None when the response is a column itself

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
        kept = {d.place.start: d for d in self.direct if d.hot is not None and whole(d.place)}
        columns: list[tuple[int, int]] = []
        j = 0
        while j < self.width:
            wide = j in kept
            columns.append((j, kept[j].place.stop - j if wide else 0))
            j = kept[j].place.stop if wide else j + 1
        at = {j: c for c, (j, _) in enumerate(columns)}

        def moved(place: slice) -> slice:
            return slice(at[place.start], at[place.start] + (1 if place.start in kept else place.stop - place.start))

        direct = tuple(
            d._replace(place=moved(d.place), matrix=None if d.place.start in kept else d.matrix)
            for d in self.direct
            if d.place.stop > d.place.start
        )
        rest = tuple(t._replace(place=moved(t.place)) for t in self.rest)
        narrow = replace(self, width=len(columns), direct=direct, rest=rest)
        return narrow, np.array(columns, dtype=np.int64).reshape(-1, 2)

    def exog(self, rows: Prepared, n: int, clamp: bool) -> tuple[Floats, Flags | None, str | None]:
        """Build the matrix.

        A column that stands for itself is clamped on its way into the matrix: one pass over memory less.

        Returns
        -------
        ndarray, shape (n, width)
        ndarray of bool, shape (n,), or None
            Rows in which every term is a finite number; None if that is all of them.
        str or None
            Which term isn't in the others, without quoting a value.
        """
        out = np.empty((n, self.width))
        for place, column, matrix, hot in self.direct:
            if column is None:
                out[:, place] = 1.0
            elif hot is not None and matrix is None:
                out[:, place.start] = hot[rows[column]]
            elif matrix is None:
                low, high = self.schema.limits(column) if clamp else _UNBOUNDED
                np.clip(rows[column], low, high, out=out[:, place.start])
            elif hot is not None and matrix.shape[1] >= _MANY:  # one by one each would be a stride over all rows
                out[:, place] = 0.0
                at = hot[rows[column]]
                some = np.flatnonzero(at >= 0)
                out[some, place.start + at[some]] = 1.0
            else:
                for j in range(matrix.shape[1]):
                    out[:, place.start + j] = np.take(matrix[:, j], rows[column])
        if not self.rest or not n:
            return out, None, None
        data = self.data(rows, self.rest_columns)
        width = sum(term.place.stop - term.place.start for term in self.rest)
        block = by_rows(lambda part: _matrix(self.together, part), data, n, width)
        fine = np.isfinite(block)
        start, problem = 0, None
        for term in self.rest:
            stop = start + term.place.stop - term.place.start
            if problem is None and not fine[:, start:stop].all():
                problem = f"formula term {term.name!r} is not finite, or can't be computed,"
            out[:, term.place] = block[:, start:stop]
            start = stop
        usable: Flags | None = None if problem is None else np.asarray(fine.all(axis=1))
        return out, usable, problem


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
    while waiting:
        part = waiting.pop()
        m = part.stop - part.start
        try:
            with np.errstate(all="ignore"), warnings.catch_warnings():  # both would tell of a value
                warnings.simplefilter("ignore")
                block = make(data if m == n else {name: values[part] for name, values in data.items()})
                out[part] = block.astype(np.float64, casting="same_kind").reshape(m, width)
        except (Exception, SystemExit, GeneratorExit):  # its text could hold data
            if m > 1:
                middle = part.start + m // 2
                waiting += [slice(part.start, middle), slice(middle, part.stop)]
    return out


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
    return list(ModelDesc.from_formula(formula).rhs_termlist)


def coded_terms(terms: Sequence[Any], data: Mapping[str, Any], env: Any) -> Any:
    """Patsy's coding of terms, found from public probe rows."""
    return design_matrix_builders([terms], lambda: iter([data]), env, NA_action=_KEEP_ALL)[0]


def _one_hot(matrix: Floats) -> NDArray[np.int64] | None:
    """For each level the column in which it has its only 1, −1 for one that has none; None for other contrasts."""
    at = matrix.argmax(axis=1)
    hot = matrix[np.arange(len(matrix)), at] == 1.0
    single = ((matrix != 0.0).sum(axis=1) == hot).all()
    return np.where(hot, at, -1) if single and matrix.shape[1] > 1 else None


def empty_plan(schema: Schema, functions: Mapping[str, Rowwise]) -> Encoder:
    """Encoder without terms, for handing columns to patsy."""
    return Encoder(schema, functions, 0, (), (), None, (), None)


def make_plan(info: Any, parsed: ParsedFormula, schema: Schema, response: Evaluator | None) -> Encoder:
    """Sort the terms of a coding: bare columns and factors are written directly, the rest is left to patsy."""
    direct: list[_Direct] = []
    rest: list[tuple[Any, _Term]] = []
    for term, subterms in info.term_codings.items():
        place = info.term_slices[term]
        plain = [parsed.plain.get(f.code) for f in term.factors]
        if not plain:
            direct.append(_Direct(place, None, None, None))
        elif len(plain) > 1 or plain[0] is None or len(subterms) > 1:
            rest.append((term, _Term(term.name(), place, info.subset([term]))))
        else:
            contrast = subterms[0].contrast_matrices.get(term.factors[0])
            matrix = None if contrast is None else np.asarray(contrast.matrix, dtype=np.float64)
            direct.append(_Direct(place, plain[0], matrix, None if matrix is None else _one_hot(matrix)))
    together = info.subset([term for term, _ in rest]) if rest else None
    reads = dict.fromkeys(name for term, _ in rest for f in term.factors for name in parsed.reads[f.code])
    left = tuple(term for _, term in rest)
    width = len(info.column_names)
    return Encoder(schema, parsed.functions, width, tuple(direct), left, together, tuple(reads), response)
