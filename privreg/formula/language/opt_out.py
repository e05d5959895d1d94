"""The user's explicit opt-outs, ``allow_leak=``: the one place where a declaration is taken from raw rows."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from privreg.data.columns import learn_levels, learn_moments
from privreg.errors import DataError, OptionError, PrivacyLeakError, PrivacyLeakWarning, choose, shown
from privreg.formula.language.parse import ParsedFormula
from privreg.options.table import check, find
from privreg.schema.declarations import Schema


def read_leaks(allow_leak: Any) -> tuple[str, ...]:
    """Read ``allow_leak=``: one or several of "levels" and "scale"."""
    given = (allow_leak,) if isinstance(allow_leak, str) else allow_leak
    known = find("local.formula", "allow_leak").choices
    if not isinstance(given, Sequence) or len(given) > len(known):
        raise OptionError(f"allow_leak={shown(allow_leak)} must be a tuple from {known}.")
    return tuple(choose("allow_leak", g, known) for g in given)


def read_scaling(scaling: Any, leaks: Sequence[str]) -> bool:
    """True if undeclared scales are learned from privatised reports: ``scaling=`` beside ``allow_leak=``."""
    private: bool = check("local.formula", "scaling", scaling) == "private"
    if private and "scale" in leaks:
        raise OptionError(
            'scaling="private" learns scales from privatised reports and allow_leak="scale" takes them from the raw '
            "rows; keep one."
        )
    return private


def _warn_leak(what: str) -> None:
    warnings.warn(
        f"{what} taken from the raw data: this step is not private, and the summary says so. Declare them to mend it.",
        PrivacyLeakWarning,
        stacklevel=4,
    )


def complete_scale(schema: Schema, data: Any, columns: Sequence[str]) -> Schema:
    """Add mean and sd of the undeclared `columns`, computed from the raw data, with a warning."""
    missing = [c for c in columns if not schema.is_number(c)]
    if not missing:
        return schema
    _warn_leak(f"mean and sd of {', '.join(missing)}")
    learned = {c: learn_moments(data, c) for c in missing}
    full = Schema.declare(schema.bounds_as_given(), schema.levels, {**schema.moments_as_given(), **learned})
    names = (*schema.leaked_columns, *missing)
    return replace(full, leaked=(*schema.leaked, "scale"), leaked_columns=names, carried=schema.carried)


def _in_memory(data: Any, columns: tuple[str, ...], schema: Schema) -> Any:
    """Columns of a file, table or query that can be read twice, as one DataFrame."""
    import pandas as pd

    from privreg.data.sources.open import open_table

    if isinstance(data, pd.DataFrame | Mapping):
        return data
    source = None if data is None else open_table(data, columns, schema)
    if source is None or not source.repeatable or source.kind == "iterable of DataFrames":
        raise PrivacyLeakError(
            "allow_leak needs the rows in memory, as a DataFrame, a table or a file; or declare levels= and bounds=."
        )
    batches = [pd.DataFrame(b) for b in source.batches(0)]
    if not batches:
        raise DataError(f"{source.kind}: there are no rows.")
    return pd.concat(batches, ignore_index=True)


def complete(
    schema: Schema, data: Any, parsed: ParsedFormula, offset: str | None, leaks: tuple[str, ...], kind: str
) -> Schema:
    """Complete the schema from raw data: the user's explicit opt-out."""
    wanted = tuple(dict.fromkeys([*parsed.columns, *([offset] if offset else [])]))
    held = _in_memory(data, wanted, schema)
    undeclared = [c for c in wanted if c in held and not schema.declares(c)]
    coded = {*parsed.coded, *(parsed.response_columns if kind == "levels" else ())}
    factors = [c for c in undeclared if c in coded or _is_text(held[c])]
    if "levels" in leaks and factors:
        _warn_leak(f"levels of {', '.join(factors)}")
        found = {c: learn_levels(held, c) for c in factors}
        full = Schema.declare(schema.bounds_as_given(), {**schema.levels, **found}, schema.moments_as_given())
        schema = replace(full, leaked=("levels",), leaked_columns=tuple(factors), carried=schema.carried)
    if "scale" in leaks:
        numeric = [c for c in undeclared if c not in factors and (kind == "number" or c not in parsed.response_columns)]
        schema = complete_scale(schema, held, numeric)
    return schema


def _is_text(values: Any) -> bool:
    import numpy as np
    import pandas as pd

    values = values if hasattr(values, "dtype") else np.asarray(values)
    return not (pd.api.types.is_numeric_dtype(values) or pd.api.types.is_bool_dtype(values))
