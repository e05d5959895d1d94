"""Raw columns: how values leave a frame as clamped numbers and codes of declared levels.

Used by :mod:`privreg.design` only. No error raised here quotes a value.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.errors import DataError, PrivregError, SchemaError
from privreg.schema import Schema

__all__ = [
    "Codes",
    "Encoded",
    "Floats",
    "clamped",
    "learn_levels",
    "learn_moments",
    "length",
    "level_codes",
    "missing",
    "numbers",
    "prepare",
    "quietly",
    "zero_one",
]

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
T = TypeVar("T")


class Encoded(NamedTuple):
    """One batch, encoded: ``endog (n,)``, ``exog (n, p)`` C-contiguous float64, ``offset (n,)`` or None."""

    endog: Floats
    exog: Floats
    offset: Floats | None


def quietly(make: Callable[[], T], error: PrivregError) -> T:
    """Return ``make()``; any foreign exception is replaced, not chained: its text could hold data."""
    try:
        with np.errstate(all="ignore"):
            return make()
    except PrivregError:
        raise
    except Exception:
        pass  # raised below, outside the handler, so that nothing is attached as context
    raise error


def _raw(frame: Any, name: str) -> Any:
    if not isinstance(frame, pd.DataFrame | Mapping):
        raise DataError(f"rows must come as a pandas DataFrame (or a dict of columns), got {type(frame).__name__}.")
    if name not in frame:
        raise missing(name, frame)
    column = frame[name]
    if getattr(column, "ndim", 1) != 1:
        raise DataError(f"column {name!r} occurs more than once in the data; rename the others.")
    return column


def missing(name: str, labels: Iterable[Any]) -> DataError:
    """Error for a column that is not among the data's labels.

    Only the nearest label is quoted: in a table without header the labels are its first row, and in a transposed
    table or a mapping by person they are people.
    """
    names = list(labels)
    if any(not isinstance(c, str) or _reads_as_number(c) for c in names):
        return DataError(
            f"column {name!r} is missing; the data's column labels look like values or positions. Give the table a "
            "header of names, or name its columns."
        )
    near = get_close_matches(name, names, n=1) or get_close_matches(name.lower(), map(str.lower, names), n=1)
    near = [c for c in names if c.lower() == near[0].lower()] if near else []
    hint = f"Did you mean {near[0]!r}?" if near else "Rename a column of the data, or change the formula."
    return DataError(f"column {name!r} is missing from the data, which have {len(names)} columns. {hint}")


def _reads_as_number(label: str) -> bool:
    try:
        float(label)
    except ValueError:
        return False
    return True


def length(frame: Any) -> int:
    """Count the rows of a frame."""
    return len(frame) if isinstance(frame, pd.DataFrame) else max((len(v) for v in frame.values()), default=0)


def numbers(raw: Any, name: str) -> Floats:
    """Return a numeric raw column as contiguous finite float64."""
    if isinstance(getattr(raw, "dtype", None), np.dtype) and raw.dtype.kind in "biuf":
        values = np.ascontiguousarray(raw, dtype=np.float64)
    else:
        wrong = DataError(f"column {name!r} must hold numbers only; convert it, or declare levels={{{name!r}: [...]}}.")
        values = quietly(lambda: _to_numbers(raw, wrong), wrong)
    if not np.isfinite(values).all():
        raise DataError(f"column {name!r} has a missing or infinite value; drop or fill such rows before fitting.")
    return values


def _to_numbers(raw: Any, wrong: DataError) -> Floats:
    series = pd.Series(raw)
    if isinstance(series.dtype, pd.CategoricalDtype):
        series = pd.Series(np.asarray(series))
    types = pd.api.types
    number = types.is_numeric_dtype(series.dtype) and not types.is_complex_dtype(series.dtype)
    if not number:  # text that looks like a number is refused, as is a date
        kinds = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")
        number = series.dtype == object and types.infer_dtype(series, skipna=True) in kinds
    if not number:
        raise wrong
    return np.ascontiguousarray(series.to_numpy(dtype=np.float64, na_value=np.nan))


def level_codes(raw: Any, name: str, levels: Sequence[Any]) -> Codes:
    """Position of every value among the declared levels: one hash pass, then a small lookup table."""
    known = {level: i for i, level in enumerate(levels)}

    def encode() -> Codes:
        if isinstance(getattr(raw, "dtype", None), pd.CategoricalDtype):
            values = pd.Series(raw)
            codes, seen = values.cat.codes.to_numpy(), values.cat.categories
        else:
            codes, seen = pd.factorize(pd.Series(raw))
        table = [known.get(value, -1) for value in seen.tolist()]
        return np.array([*table, -2], dtype=np.intp)[codes]  # a missing value has code -1: the last entry

    out = quietly(encode, DataError(f"column {name!r} holds something that can't be a level."))
    lowest = int(out.min()) if out.size else 0
    if lowest == -2:
        raise DataError(f"column {name!r} has a missing value; drop or fill such rows before fitting.")
    if lowest == -1:
        raise SchemaError(
            f"column {name!r} has a value that is not among its declared levels {list(levels)!r} "
            "(compared with their type: 1 is not '1'); correct levels= or the data."
        )
    return out


def prepare(frame: Any, names: Iterable[str], schema: Schema, clamp: Container[str | None]) -> dict[str, NDArray[Any]]:
    """Read the named columns: numbers as float64 (those in `clamp` clamped), factors as codes of levels."""
    out: dict[str, NDArray[Any]] = {}
    for name in names:
        raw = _raw(frame, name)
        if name in schema.levels:
            out[name] = level_codes(raw, name, schema.levels[name])
        else:
            values = numbers(raw, name)
            out[name] = clamped(values, schema.limits(name)) if name in clamp else values
    if len({len(v) for v in out.values()}) > 1:
        raise DataError("the columns differ in length.")
    return out


def clamped(values: Floats, limits: tuple[float, float]) -> Floats:
    """Clamp to declared limits; infinite limits leave the array as it is."""
    low, high = limits
    return values if np.isinf(low) and np.isinf(high) else np.clip(values, low, high)


def zero_one(values: Floats, name: str) -> Floats:
    """Check that a binary response holds 0 and 1 only."""
    if not ((values == 0) | (values == 1)).all():
        raise DataError(
            f"the response {name!r} has a value other than 0 and 1; give 0/1, booleans, or a column with "
            "two levels declared in levels=."
        )
    return values


# --- opt-outs: what the two functions below return is learned from raw rows and is NOT private -----------
# They serve allow_leak=("levels", "scale") only; the caller warns and records it in Schema.leaked.


def learn_levels(frame: Any, column: str) -> tuple[Any, ...]:
    """Return the sorted distinct values of a raw column. Not private: for ``allow_leak=("levels",)``."""
    series = pd.Series(_raw(frame, column))
    if series.isna().any():
        raise DataError(f"column {column!r} has a missing value; drop or fill such rows before fitting.")
    unlike = DataError(f"column {column!r} mixes values that have no order; declare levels={{{column!r}: [...]}}.")
    return tuple(quietly(lambda: sorted(series.drop_duplicates().tolist()), unlike))


def learn_moments(frame: Any, column: str) -> tuple[float, float]:
    """Return mean and sd of a raw column. Not private: for ``allow_leak=("scale",)``."""
    values = numbers(_raw(frame, column), column)
    mean, sd = (float(values.mean()), float(values.std())) if values.size else (0.0, 0.0)
    if not sd > 0 or not np.isfinite(sd):
        raise DataError(f"column {column!r} does not vary; it has no scale to learn. Leave it out or give bounds=.")
    return mean, sd
