"""Factors of a formula on public rows: a value for each row by itself, and the range of a response."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.errors import FormulaError, PrivacyLeakError, quietly
from privreg.formula.language.allowlist import misfit
from privreg.formula.language.parse import ParsedFormula
from privreg.formula.language.rowwise import PIECE
from privreg.formula.probe import Prepared, probe_rows, shown_box, stand_in, take
from privreg.formula.trees.compile import FactorColumn, read_factor
from privreg.formula.trees.evaluate import Program
from privreg.schema.declarations import Schema

RESPONSE_ROWS: Final = 4096  # Public rows on which the range of a computed response is found
SINGLE_ROWS: Final = 12  # Public rows whose terms are computed one by one, too
UNBOUNDED: Final = (-np.inf, np.inf)


def unclamped(schema: Schema, name: str | None, kind: str) -> Schema:
    """Schema in which a response of 0 and 1 is not clamped: a 2 is no 1 but a value that can't be used."""
    if kind != "binary" or name not in schema.bounds:
        return schema
    return replace(schema, bounds={n: pair for n, pair in schema.bounds.items() if n != name})


def public_factor(
    code: str, parsed: ParsedFormula, schema: Schema, rows: Prepared
) -> tuple[list[FactorColumn], NDArray[Any]]:
    """A computed factor: its columns, and its values for public rows.
    Raises PrivacyLeakError if its value for a public row depends on the rows beside it; FormulaError if it can't be
    computed of public rows, or is not one number, or a few, for each.
    """
    factor = read_factor(code, parsed, schema, closed=False)
    program = Program([column.tree for column in factor], schema, parsed.functions)
    m = len(next(iter(rows.values())))

    def values(some: Prepared) -> NDArray[Any]:
        found = program(some)
        return np.asarray(found[0]) if len(found) == 1 else np.column_stack(found)

    def run() -> NDArray[Any] | None:
        whole = values(rows)
        if whole.ndim == 0 or len(whole) != m:
            return None
        if whole.ndim > 2 or whole.dtype.kind not in "biuf":
            raise FormulaError(f"formula term {code!r} must give numbers, one or a few for each row.")
        parts = [slice(i, i + 1) for i in np.linspace(0, m - 1, SINGLE_ROWS).astype(int)]
        for part in (*parts, slice(None, None, -3)):
            alone, expected = values(take(rows, part)), whole[part]
            if alone.shape != expected.shape or not np.allclose(alone, expected, rtol=1e-12, atol=0, equal_nan=True):
                return None
        if not parsed.functions:
            return whole
        # So many rows are cut into one piece of each length that functions are called with; in reverse, each but the
        # middle row is in a piece of another.
        more = take(probe_rows(list(rows), schema, rows=2 * PIECE - 1), slice(2 * PIECE - 1))
        there, again = values(more), values(more)
        back = values(take(more, slice(None, None, -1)))[::-1]
        same = there.shape == back.shape and np.array_equal(there, again, equal_nan=True)
        return whole if same and np.allclose(there, back, rtol=1e-12, atol=0, equal_nan=True) else None

    broken = FormulaError(
        f"formula term {code!r} fails on public probe rows; it must take arrays, and a spline's bounds "
        f"must hold its argument over the declared bounds.{stand_in(list(rows), schema)}"
    )
    try:
        found = quietly(run, broken)
    except PrivacyLeakError:  # a marked function's own words, without the term
        found = None
    if found is None:
        raise PrivacyLeakError(
            f"formula term {code!r} is not row by row: its value for a row changes with its neighbours. "
            "Use a function of each row alone, with public constants."
        )
    if len(factor) == 1 and found.ndim == 2:  # a function that gives several
        factor = [FactorColumn(["item", factor[0].tree, j], "other") for j in range(found.shape[1])]
    return factor, found


def response_of(parsed: ParsedFormula, schema: Schema, kind: str) -> tuple[Program | None, tuple[float, float]]:
    """Program of the response, None if it is a column itself, and its public range."""
    code, columns = parsed.response, parsed.response_columns
    column = parsed.plain.get(code)
    if column is not None and column in schema.levels:
        levels = schema.levels[column]
        if wrong := misfit(column, levels, kind):
            raise FormulaError(f"the response {code!r} {wrong}")
        return None, (0.0, len(levels) - 1.0)
    if column is not None and not schema.is_number(column):
        return None, (0.0, 1.0)
    program, limits = None, UNBOUNDED
    if column is not None:
        limits = schema.limits(column)
    else:
        rows = probe_rows(columns, schema, parsed.constants, rows=RESPONSE_ROWS)
        factor, values = public_factor(code, parsed, schema, rows)
        if len(factor) != 1:
            raise FormulaError(f"the response {code!r} has {len(factor)} columns; it must have one.")
        program = Program([factor[0].tree], schema, parsed.functions, rows)
        if not np.isfinite(values).all():
            raise FormulaError(
                f"the response {code!r} is not finite somewhere inside the declared bounds "
                f"{{{shown_box(columns, schema)}}}; tighten the bounds or change the transformation."
                f"{stand_in(columns, schema)}"
            )
        if values.dtype.kind == "b":
            limits = (0.0, 1.0)
        elif all(n in schema.levels or np.isfinite(schema.limits(n)[0]) for n in columns):
            limits = (float(values.min()), float(values.max()))
    if kind == "binary" and limits != (0.0, 1.0):
        raise FormulaError(
            f"a binary response is 0 or 1; {code!r} goes from {limits[0]:g} to {limits[1]:g}. "
            f"Write I({columns[0]} > cut), declare its two values, levels={{{columns[0]!r}: [...]}}, or, of 0 and 1, "
            f"bounds={{{columns[0]!r}: (0, 1)}}; or choose a family for numbers, such as family='huber'."
        )
    return program, limits
