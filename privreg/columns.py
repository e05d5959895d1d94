"""Raw columns: how values leave a frame as clamped numbers and codes of declared levels.

Used by the front end only. No error raised here quotes a value.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple, TypeVar

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.errors import DataError, PrivregError, SchemaError
from privreg.schema import Schema

__all__ = [
    "MISSING",
    "Codes",
    "Encoded",
    "Flags",
    "Floats",
    "clamped",
    "column_of",
    "complete_rows",
    "learn_levels",
    "learn_moments",
    "length",
    "level_codes",
    "log_exposure",
    "missing",
    "numbers",
    "plain_array",
    "prepare",
    "quietly",
    "read_numbers",
    "zero_one",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.intp]
T = TypeVar("T")

_MEND: Final = "drop or fill such rows (fits and means of people's reports can take missing='noise')."

MISSING: Final = ("raise", "noise", "drop")
"""What becomes of a row with a missing value: an error, a row of NaN (a report of noise alone), or no row."""

GAP: Final = -1
"""Code of a missing value of a factor."""
_UNKNOWN: Final = -2


class Encoded(NamedTuple):
    """One batch, encoded.

    Attributes
    ----------
    endog : ndarray (n,)
    exog : ndarray (n, p)
        C-contiguous float64.
    offset : ndarray (n,) or None
        What is added to the linear predictor: the offset and the log of the exposure.
    kept : ndarray of bool (raw rows,) or None
        The raw rows that are in the batch, for ``missing="drop"``; None if all of them are.
    """

    endog: Floats
    exog: Floats
    offset: Floats | None
    kept: Flags | None = None

    def settled(self, kept: Flags, missing: str) -> Encoded:
        """Complete rows as the batch that `missing` asks for; `kept` says which of the raw rows they are."""
        if missing == "drop":
            return self._replace(kept=kept)
        offset = None if self.offset is None else _spread(self.offset, kept)
        return Encoded(_spread(self.endog, kept), _spread(self.exog, kept), offset)


def _spread(values: Floats, kept: Flags) -> Floats:
    """Values at their raw rows, NaN in the others."""
    out = np.full((len(kept), *values.shape[1:]), np.nan)
    out[kept] = values
    return out


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


def plain_array(values: Any) -> NDArray[Any]:
    """Return a list as an array, in which a missing value among texts stays one: NumPy would write 'nan'."""
    out = np.asarray(values)
    lossy = out.dtype.kind in "US" and not hasattr(values, "dtype")
    return np.asarray(values, dtype=object) if lossy else out


def column_of(frame: Any, name: str) -> Any:
    """Return one raw column of a frame or mapping.

    Raises
    ------
    DataError
        If it isn't there, or more than once.
    """
    if not isinstance(frame, pd.DataFrame | Mapping):
        raise DataError(f"rows must come as a pandas DataFrame (or a dict of columns), got {type(frame).__name__}.")
    if name not in frame:
        raise missing(name, frame)
    column = frame[name]
    if getattr(column, "ndim", 1) == 0:
        raise DataError(f"column {name!r} is a single value; give a list of values, one for each row.")
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


def numbers(raw: Any, name: str, *, gaps: bool = False) -> Floats:
    """Return a numeric raw column as contiguous finite float64; with `gaps`, missing values as NaN."""
    wrong = DataError(f"column {name!r} must hold numbers only; convert it, or declare levels={{{name!r}: [...]}}.")
    values = read_numbers(raw, wrong)
    if not np.isfinite(values).all():
        if not gaps:
            raise DataError(f"column {name!r} has a missing or infinite value; {_MEND}")
        if np.isinf(values).any():
            raise DataError(
                f"column {name!r} has an infinite value, which doesn't count as missing; mend it, or make it NaN."
            )
    return values


def read_numbers(raw: Any, wrong: DataError) -> Floats:
    """Return a numeric raw column as contiguous float64, missing values as NaN; raise `wrong` if it isn't numeric."""
    if isinstance(getattr(raw, "dtype", None), np.dtype) and raw.dtype.kind in "biuf":
        return np.ascontiguousarray(raw, dtype=np.float64)
    return quietly(lambda: _to_numbers(raw, wrong), wrong)


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


def level_codes(raw: Any, name: str, levels: Sequence[Any], *, gaps: bool = False) -> Codes:
    """Position of every value among the declared levels: one hash pass, then a small lookup table.

    With `gaps`, the code of a missing value is -1.
    """
    known = {level: i for i, level in enumerate(levels)}

    def encode() -> Codes:
        if isinstance(getattr(raw, "dtype", None), pd.CategoricalDtype):
            values = pd.Series(raw)
            codes, seen = values.cat.codes.to_numpy(), values.cat.categories
        else:
            codes, seen = pd.factorize(pd.Series(raw))
        table = [known.get(value, _UNKNOWN) for value in seen.tolist()]
        return np.array([*table, GAP], dtype=np.intp)[codes]  # a missing value has code -1: the last entry

    out = quietly(encode, DataError(f"column {name!r} holds something that can't be a level."))
    lowest = int(out.min()) if out.size else 0
    if lowest < 0 and not gaps and (out == GAP).any():
        raise DataError(f"column {name!r} has a missing value; {_MEND}")
    if lowest == _UNKNOWN:
        raise SchemaError(
            f"column {name!r} has a value that is not among its declared levels {list(levels)!r} (compared by type and "
            "letter by letter: 1 is not '1', ' yes' with a space is not 'yes'); correct levels= or the data (by "
            ".str.strip() if spaces may be in them)."
        )
    return out


def prepare(
    frame: Any, names: Iterable[str], schema: Schema, clamp: Container[str | None], *, gaps: bool = False
) -> dict[str, NDArray[Any]]:
    """Read the named columns: numbers as float64 (those in `clamp` clamped), factors as codes of levels.

    With `gaps`, missing values are NaN and -1; without, an error.
    """
    out: dict[str, NDArray[Any]] = {}
    for name in names:
        raw = column_of(frame, name)
        if name in schema.levels:
            out[name] = level_codes(raw, name, schema.levels[name], gaps=gaps)
        else:
            values = numbers(raw, name, gaps=gaps)
            out[name] = clamped(values, schema.limits(name)) if name in clamp else values
    if len({len(v) for v in out.values()}) > 1:
        raise DataError("the columns differ in length.")
    return out


def complete_rows(columns: Iterable[NDArray[Any]]) -> Flags | None:
    """Rows without a missing value in any of these numbers and codes; None if that is all of them."""
    flags = [np.isnan(v) if v.dtype.kind == "f" else v == GAP for v in columns]
    gaps = np.logical_or.reduce([f if f.ndim == 1 else f.any(axis=1) for f in flags])
    return ~gaps if gaps.any() else None


def clamped(values: Floats, limits: tuple[float, float]) -> Floats:
    """Clamp to declared limits; infinite limits leave the array as it is."""
    low, high = limits
    return values if np.isinf(low) and np.isinf(high) else np.clip(values, low, high)


def log_exposure(values: Floats, name: str) -> Floats:
    """Logarithm of an exposure that isn't clamped."""
    if not (values > 0).all():
        raise DataError(f"the exposure {name!r} must be positive in every row; mend such rows or leave them out.")
    return np.asarray(np.log(values))


def zero_one(values: Floats, name: str) -> Floats:
    """Check that a binary response holds 0 and 1 only."""
    if not ((values == 0) | (values == 1)).all():
        raise DataError(
            f"the response {name!r} has a value other than 0 and 1; give 0/1, booleans, a column with two "
            "levels declared in levels=, or a family for numbers, such as family='huber'."
        )
    return values


# --- opt-outs: what the two functions below return is learned from raw rows and is NOT private -----------
# They serve allow_leak=("levels", "scale") only; the caller warns and records it in Schema.leaked.


def learn_levels(frame: Any, column: str) -> tuple[Any, ...]:
    """Return the sorted distinct values of a raw column. Not private: for ``allow_leak=("levels",)``."""
    series = pd.Series(column_of(frame, column))
    if series.isna().any():
        raise DataError(f"column {column!r} has a missing value; {_MEND}")
    unlike = DataError(f"column {column!r} mixes values that have no order; declare levels={{{column!r}: [...]}}.")
    return tuple(quietly(lambda: sorted(series.drop_duplicates().tolist()), unlike))


def learn_moments(frame: Any, column: str) -> tuple[float, float]:
    """Return mean and sd of a raw column. Not private: for ``allow_leak=("scale",)``."""
    values = numbers(column_of(frame, column), column)
    mean, sd = (float(values.mean()), float(values.std())) if values.size else (0.0, 0.0)
    if not sd > 0 or not np.isfinite(sd):
        raise DataError(f"column {column!r} does not vary; it has no scale to learn. Leave it out or give bounds=.")
    return mean, sd
