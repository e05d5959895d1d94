"""How a response is computed and what range it has, and whether a term is computed row by row: on public rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np

from privreg.errors import FormulaError, PrivacyLeakError, quietly
from privreg.formula.encoding import Encoder, Evaluator, same_in_pieces
from privreg.formula.language.allowlist import misfit
from privreg.formula.language.parse import ParsedFormula
from privreg.formula.probe import Prepared, probe_rows, shown_box, stand_in, take
from privreg.schema.declarations import Schema

RESPONSE_ROWS: Final = 4096
"""Public rows on which the range of a computed response is found."""

SINGLE_ROWS: Final = 12
"""Public rows whose terms are computed one by one, too."""

UNBOUNDED: Final = (-np.inf, np.inf)


def unclamped(schema: Schema, name: str | None, kind: str) -> Schema:
    """Declarations by which a response of 0 and 1 is not clamped: a 2 is no 1 but a value that can't be used."""
    if kind != "binary" or name not in schema.bounds:
        return schema
    return replace(schema, bounds={n: pair for n, pair in schema.bounds.items() if n != name})


def check_row_by_row(code: str, env: Any, plan: Encoder, rows: Prepared, names: Sequence[str]) -> None:
    """Refuse a term whose value for a public probe row depends on the rows beside it."""
    m = len(rows[names[0]])

    def run() -> bool:
        evaluate = Evaluator.build(code, env)
        whole = evaluate(plan.data(rows, names))
        if whole.ndim == 0 or len(whole) != m:
            return False
        if whole.ndim > 2 or whole.dtype.kind not in "biuf":
            raise FormulaError(f"formula term {code!r} must give numbers, one or a few for each row.")
        parts = [slice(i, i + 1) for i in np.linspace(0, m - 1, SINGLE_ROWS).astype(int)]
        for part in (*parts, slice(None, None, -3)):
            alone = evaluate(plan.data(take(rows, part), names))
            expected = whole[part]
            if alone.shape != expected.shape or not np.allclose(alone, expected, rtol=1e-12, atol=0, equal_nan=True):
                return False
        return not plan.functions or same_in_pieces(evaluate, plan, names)

    broken = FormulaError(
        f"formula term {code!r} fails on public probe rows; it must take arrays, and a spline's bounds "
        f"must hold its argument over the declared bounds.{stand_in(names, plan.schema)}"
    )
    try:
        alone = quietly(run, broken)
    except PrivacyLeakError:  # a marked function's own words, without the term
        alone = False
    if not alone:
        raise PrivacyLeakError(
            f"formula term {code!r} is not row by row: its value for a row changes with its neighbours. "
            "Use a function of each row alone, with public constants."
        )


def response_of(
    parsed: ParsedFormula, schema: Schema, env: Any, plan: Encoder, kind: str
) -> tuple[Evaluator | None, tuple[float, float]]:
    """Find how the response is computed, and its public range."""
    code, columns = parsed.response, parsed.response_columns
    column = parsed.plain.get(code)
    if column is not None and column in schema.levels:
        levels = schema.levels[column]
        if wrong := misfit(column, levels, kind):
            raise FormulaError(f"the response {code!r} {wrong}")
        return None, (0.0, len(levels) - 1.0)
    if column is not None and not schema.is_number(column):
        return None, (0.0, 1.0)
    evaluate, limits = None, UNBOUNDED
    if column is not None:
        limits = schema.limits(column)
    else:
        rows = probe_rows(columns, schema, parsed.constants, rows=RESPONSE_ROWS)
        check_row_by_row(code, env, plan, rows, columns)
        evaluate = Evaluator.build(code, env)
        with np.errstate(all="ignore"):
            values = evaluate(plan.data(rows, columns))
        if values.ndim > 1 and values.shape[1] != 1:
            raise FormulaError(f"the response {code!r} has {values.shape[1]} columns; it must have one.")
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
    return evaluate, limits
