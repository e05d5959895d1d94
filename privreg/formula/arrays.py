"""The public design of a model given as arrays: named numeric columns, each declared in the public schema."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from privreg.errors import SchemaError, choose
from privreg.formula.batches import CONSTANTS, EXPOSURE, OFFSET, ArrayRows
from privreg.formula.design import Design, unclamped
from privreg.formula.encoding import DesignTerm, Encoder, check_rank, probe_rows, public_constant, with_cuts
from privreg.formula.language.allowlist import (
    check_added,
    check_levels,
    misfit,
    undeclared,
)
from privreg.formula.trees.evaluate import Program, const
from privreg.schema.declarations import RESPONSE_KINDS, Schema


def check_array_levels(schema: Schema, endog_name: str) -> None:
    """Refuse levels of anything but the response of a model that is given as arrays."""
    others = [name for name in schema.levels if name != endog_name]
    if others:
        raise SchemaError(
            f"levels[{others[0]!r}]: levels= is for formulas; arrays hold numbers, except for the response "
            f"({endog_name!r} here): code factors first, or use from_formula."
        )


def array_design(
    exog_names: Sequence[str],
    endog_name: str,
    schema: Schema,
    *,
    offset: bool = False,
    exposure: bool = False,
    kind: str = "number",
) -> Design:
    """Build the public design of named array columns.

    Each is declared as a number, except "const" or "Intercept", which is the constant 1, and a response of 0 and 1.
    `offset` and `exposure` say whether such an array is given with each batch, declared under these names. `kind` is
    what the response is; "levels" needs its levels declared, 2 to 50 of them.
    Raises SchemaError if a column is not declared as a number; FormulaError if columns are linearly dependent whatever
    the data.
    """
    make = partial(array_design, offset=offset, exposure=exposure, kind=kind)
    if kind == "ordinal":
        given = tuple(exog_names), endog_name, schema
        return with_cuts(make(*given, kind="levels"), make, given)
    choose("kind", kind, RESPONSE_KINDS)
    names = tuple(exog_names)
    if not names or len({*names, endog_name}) != len(names) + 1:
        raise SchemaError(f"column names must be given and differ, got {[endog_name, *names]!r}.")
    known: dict[str, tuple[float, float]] = {n: (1.0, 1.0) for n in CONSTANTS if n in names and n not in schema.bounds}
    full = replace(schema, bounds={**schema.bounds, **known})
    for name in (*names, *([OFFSET] if offset else [])):
        if name in full.levels:
            raise SchemaError(f"column {name!r} of an array is a number, but levels= declares it; use a formula.")
        if name in names and not full.is_number(name):
            raise SchemaError(undeclared(name, schema, dates=False))
    check_added(OFFSET if offset else None, EXPOSURE if exposure else None, schema)
    if schema.dates:
        raise SchemaError(
            f"bounds[{schema.dates[0]!r}] are dates, and arrays hold numbers; use from_formula() for columns of dates."
        )
    rows = probe_rows(names, full)
    probe = np.column_stack([rows[name] for name in names])
    check_rank(probe, names)
    # "const" or "Intercept" is the constant 1 whatever the array holds, and a column with bounds (v, v) is v
    fixed = {name: low for name, (low, high) in ((name, full.limits(name)) for name in names) if low == high}
    sources = tuple(() if name in known else (name,) for name in names)
    parts = tuple(
        DesignTerm(name, slice(j, j + 1), sources[j], (const(fixed[name]) if name in fixed else ["col", name],))
        for j, name in enumerate(names)
    )
    encoder = Encoder(len(names), parts, Program([tree for part in parts for tree in part.trees], full), None)
    if kind == "levels":
        check_levels(endog_name, schema)
    levels, limits = schema.levels.get(endog_name), schema.limits(endog_name)
    if levels is not None:
        if wrong := misfit(endog_name, levels, kind):
            raise SchemaError(f"the response {endog_name!r} {wrong}")
        limits = 0.0, len(levels) - 1.0
    elif not schema.is_number(endog_name):
        if kind != "binary":
            raise SchemaError(undeclared(endog_name, schema, dates=False))
        limits = 0.0, 1.0
    elif kind == "binary" and limits != (0.0, 1.0):
        raise SchemaError(
            f"a binary response is 0 or 1; declare bounds={{{endog_name!r}: (0, 1)}} or leave them out; of a column of "
            f"two other values levels={{{endog_name!r}: [...]}}; or choose a family for numbers, such as "
            "family='huber'."
        )
    return Design(
        formula=None,
        schema=unclamped(schema, endog_name, kind),
        functions={},
        offset=OFFSET if offset else None,
        exposure=EXPOSURE if exposure else None,
        kind=kind,
        names=names,
        endog_name=endog_name,
        columns=(endog_name, *names, *([OFFSET] if offset else []), *([EXPOSURE] if exposure else [])),
        endog_sources=(endog_name,),
        covariates=tuple(name for name in names if name not in known),
        probe=probe,
        constant=public_constant(probe, names, [(name,) for name in names], full),
        endog_limits=limits,
        sources=sources,
        bare=tuple(None if name in known else name for name in names),
        endog_bare=None if levels else endog_name,
        endog_levels=levels,
        rows=ArrayRows(names, endog_name, offset, exposure),
        encoder=encoder,
        made=(make, (names, endog_name, schema)),
    )
