"""Raw columns: how values leave a frame as clamped numbers and codes of declared levels.

Used by the front end only. No error raised here quotes a value.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import lru_cache
from numbers import Complex, Number, Real
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.errors import DataError, SchemaError, quietly
from privreg.schema.dates import day_of, days_of_times
from privreg.schema.declarations import Schema

__all__ = [
    "Codes",
    "Encoded",
    "Flags",
    "Floats",
    "all_finite",
    "as_dates",
    "as_series",
    "beyond",
    "clamped",
    "coded_texts",
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
    "plain_vector",
    "prepare",
    "read_days",
    "read_numbers",
    "settled",
    "spread",
    "zero_one",
]

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.intp]

_MEND: Final = "drop or fill such rows, or let them send noise (missing='noise', the default of fits and means)."


GAP: Final = -1
"""Code of a factor's value that is missing, or not declared."""
_UNKNOWN: Final = -2


class Encoded(NamedTuple):
    """One batch, encoded."""

    endog: Floats  # (n,), NaN in a row that can't be used, under ``missing="noise"``
    # (n, p), C-contiguous. NaN in a row whose covariates or offset can't be used; where the response alone can't be,
    # they stay, as ``private="response"`` makes them public
    exog: Floats
    offset: Floats | None  # (n,), what is added to the linear predictor: the offset and the log of the exposure
    kept: Flags | None = None  # the raw rows that are in the batch, for ``missing="drop"``; None if all of them are


def settled(rows: Encoded, usable: Flags | None, missing: str) -> Encoded:
    """Rows as `missing`, "noise" or "drop", asks for them; `usable` are rows with sound covariates, None if all are."""
    if usable is not None:
        rows.endog[~usable] = np.nan
        rows.exog[~usable] = np.nan
        if rows.offset is not None:
            rows.offset[~usable] = np.nan
    if missing == "noise":
        return rows
    kept = ~np.isnan(rows.endog)
    if kept.all():
        return rows
    return Encoded(rows.endog[kept], rows.exog[kept], None if rows.offset is None else rows.offset[kept], kept)


def spread(values: Floats, kept: Flags | None) -> Floats:
    """Values at the raw rows that `kept` says, all if None, and NaN in the others."""
    if kept is None:
        return values
    out = np.full((len(kept), *values.shape[1:]), np.nan)
    out[kept] = values
    return out


def plain_array(values: Any) -> NDArray[Any]:
    """Return a list as an array, in which a cell stays what it is: NumPy would write 'nan' for a missing text."""
    out = np.asarray(values)
    if hasattr(values, "dtype"):
        return out
    # whole numbers beside others become doubles, which hold some digits only
    rounded = out.dtype.kind == "f" and bool((np.abs(out) >= 2.0**53).any())
    return np.asarray(values, dtype=object) if rounded or out.dtype.kind not in "biufO" else out


def plain_vector(values: Any) -> NDArray[Any]:
    """The same of a list of cells, whatever a cell is."""
    try:
        return plain_array(values)
    except Exception:  # one of them is a list itself, say, or too long for the others
        return np.fromiter(values, dtype=object, count=len(values))


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


def numbers(raw: Any, name: str, *, gaps: bool = False, dates: bool = False) -> Floats:
    """Return a raw column as contiguous float64; cells that are no finite number are NaN with `gaps`, else an error.

    Of a column of `dates` the numbers are days since 1970-01-01.
    """
    return _numbers(raw, name, gaps=gaps, dates=dates)[0]


def _numbers(raw: Any, name: str, *, gaps: bool, dates: bool) -> tuple[Floats, bool]:
    """The same, and whether all are known to be finite."""
    values, whole = quietly(lambda: (read_days(raw), False) if dates else _read(raw), _unreadable(name))
    if gaps or whole or not np.isnan(values).any():
        return values, whole
    if dates:
        raise DataError(f"column {name!r} has a value that is missing or no date; write it as 2020-12-31, or {_MEND}")
    raise DataError(
        f"column {name!r} has a value that is missing, infinite or no number; convert it, declare "
        f"levels={{{name!r}: [...]}} if it is a factor, dates as its bounds if there are dates, or {_MEND}"
    )


def _unreadable(name: str) -> DataError:
    """For what no library should do: an error of its own could quote a value."""
    return DataError(f"column {name!r} can't be read; convert it to plain numbers or texts.")


def read_numbers(raw: Any) -> Floats:
    """Read a raw column as contiguous float64, every cell by itself; NaN where it is no finite number.

    What a cell means must not depend on the cells beside it, so neither on the type that a reader chose for the whole
    column: the text "39.5" is the number 39.5, a truth value 0 or 1, and anything else is unreadable.
    """
    return _read(raw)[0]


def _read(raw: Any) -> tuple[Floats, bool]:
    """The same, and whether all are known to be finite."""
    dtype = getattr(raw, "dtype", None)
    with np.errstate(all="ignore"):  # a warning would tell of one value
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            values = np.ascontiguousarray(raw, dtype=np.float64)
        else:
            values = _each_number(as_series(raw))
        if np.isfinite(values.sum()):  # as of `all_finite`
            return values, True
        return np.where(np.isinf(values), np.nan, values) if np.isinf(values).any() else values, False


def read_days(raw: Any) -> Floats:
    """Read a raw column of dates as days since 1970-01-01, every cell by itself; NaN where it is no date.

    A cell is a date or a time, an ISO text of one, or a number, which counts days.
    """
    dtype = getattr(raw, "dtype", None)
    if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
        return read_numbers(raw)
    if isinstance(raw, np.ndarray) and raw.dtype.kind == "M":  # pandas has not all of NumPy's units
        return days_of_times(raw)
    series = as_series(raw)
    if isinstance(series.dtype, pd.CategoricalDtype):
        table = np.append(read_days(as_series(series.cat.categories)), np.nan)
        return np.asarray(table[series.cat.codes.to_numpy()])
    if isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert(None)
    if isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        return days_of_times(series.to_numpy())
    if pd.api.types.is_numeric_dtype(series.dtype):
        return read_numbers(series)
    cells = _cells(series)
    texts = {c: _day(c) for c in {c for c in cells if type(c) is str}}  # of many records few dates differ
    out = np.fromiter((texts[c] if type(c) is str else _day(c) for c in cells), np.float64, len(cells))
    return np.where(np.isinf(out), np.nan, out)


def _cells(series: Any) -> NDArray[Any]:
    """Cells of a column as objects; one that can't be made one, as a date of Arrow's beyond the year 9999, is None."""
    try:
        return np.asarray(series.to_numpy(dtype=object))
    except Exception:  # of one cell, which must not decide whether others are read
        out = np.empty(len(series), dtype=object)
        for k in range(len(series)):
            try:
                out[k] = series.iloc[k]
            except Exception:
                out[k] = None
        return out


def _day(cell: Any) -> float:
    """Days since 1970-01-01 of a cell, NaN if it is neither a date nor a number."""
    try:
        cell = _decoded(cell) if isinstance(cell, bytes) else cell
        day = day_of(cell)
        return _number(cell) if day is None else day
    except Exception:  # whatever the cell is, its own code may raise anything
        return np.nan


def as_dates(name: str) -> str:
    """What to do with a column of dates."""
    return f"give two dates as bounds={{{name!r}: ('2020-01-01', '2020-12-31')}}."


def as_series(raw: Any) -> Any:
    """A raw column as a Series; cells that pandas would rather have as texts or dates, and can't, as they are."""
    if isinstance(raw, list | tuple):
        raw = plain_vector(raw)
    dtype = getattr(raw, "dtype", None)
    if isinstance(dtype, pd.SparseDtype):
        raw = np.asarray(raw)
    try:
        return pd.Series(raw, dtype=dtype if isinstance(dtype, np.dtype) and dtype.kind == "O" else None)
    except Exception:  # a text that is no Unicode, say
        return pd.Series(np.fromiter(raw, dtype=object, count=len(raw)), dtype=object)


def _each_number(series: Any) -> Floats:
    """Cells of a column that is not of one of NumPy's types of numbers."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        table = np.append(_each_number(as_series(series.cat.categories)), np.nan)
        return np.asarray(table[series.cat.codes.to_numpy()])
    types = pd.api.types
    if types.is_complex_dtype(series.dtype):  # of plain numbers, too, if one cell among them is complex
        values = series.to_numpy(dtype=np.complex128, na_value=np.nan)
        return np.where(values.imag == 0, values.real, np.nan)
    known = types.is_numeric_dtype(series.dtype)
    try:
        if known or (series.dtype == object and types.infer_dtype(series, skipna=True) in _NUMBERS):
            return np.ascontiguousarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    except Exception:  # a number too large for a double, say; the others are read all the same
        pass
    if types.is_datetime64_any_dtype(series.dtype) or types.is_timedelta64_dtype(series.dtype):
        return np.full(len(series), np.nan)
    return np.fromiter((_number(v) for v in _cells(series)), np.float64, len(series))


_NUMBERS: Final = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")


def _number(cell: Any) -> float:
    """A cell as a double, NaN if it is no number."""
    try:
        return float(_exact(cell))
    except Exception:  # whatever the cell is, its own code may raise anything
        return np.nan


def _exact(cell: Any) -> Any:
    """The number a cell is or reads as, whole numbers exactly; NaN if it is none."""
    if isinstance(cell, bytes):
        cell = _decoded(cell)
    if isinstance(cell, str):
        text = cell.strip()
        if "_" in text:  # Python would read it
            return np.nan
        for read in (int, float):
            try:
                return read(text)
            except ValueError:  # also of a number with thousands of digits
                pass
        return _TRUTH.get(text.lower(), np.nan)
    if isinstance(cell, bool | np.bool_):
        return int(cell)
    if isinstance(cell, complex | np.complexfloating):
        return cell.real if cell.imag == 0 else np.nan
    real = isinstance(cell, Number) and not isinstance(cell, Complex)
    return cell if real or isinstance(cell, Real) else np.nan


_TRUTH: Final = {"true": 1, "false": 0}


def _decoded(cell: bytes) -> str:
    return cell.decode("utf-8", "replace")


class _Levels:
    """Positions of declared levels, by what a cell says: its text, or the number that it is or reads as.

    A reader that takes "1" for a number or "yes" for a truth value must not change what a cell means, so a number
    finds the level that reads as it, if there is only one.
    """

    def __init__(self, levels: Sequence[Any]) -> None:
        self.texts = {level: i for i, level in enumerate(levels) if isinstance(level, str)}
        self.numbers = {_exact(level): i for i, level in enumerate(levels) if not isinstance(level, str)}
        reads: dict[Any, list[int]] = {}
        for level, i in self.texts.items():
            number = _exact(level)
            if -np.inf < number < np.inf:
                reads.setdefault(number, []).append(i)
        for number, found in reads.items():
            if len(found) == 1:
                self.numbers.setdefault(number, found[0])

    def place(self, cell: Any) -> int:
        """Position of a cell's level, `_UNKNOWN` if it is none."""
        try:
            cell = _decoded(cell) if isinstance(cell, bytes) else cell
            if isinstance(cell, str) and cell in self.texts:
                return self.texts[cell]
            number = _exact(cell)
            found = self.numbers.get(number, _UNKNOWN)
            return self.numbers.get(float(number), _UNKNOWN) if found == _UNKNOWN else found
        except Exception:  # whatever the cell is, its own code may raise anything
            return _UNKNOWN


@lru_cache(maxsize=64)
def _known(levels: tuple[Any, ...]) -> _Levels:
    return _Levels(levels)


def level_codes(raw: Any, name: str, levels: Sequence[Any], *, gaps: bool = False) -> Codes:
    """Position of every value among the declared levels: one hash pass, then a small lookup table.

    With `gaps`, the code of a value that is missing or not declared is -1; without, it is an error.
    """
    codes, seen = quietly(lambda: _factorized(raw), _unreadable(name))
    known = _known(tuple(levels))
    table = np.array([*map(known.place, seen), GAP], dtype=np.intp)
    out: Codes = table.take(codes)  # a missing value has code -1: the last entry
    lowest = int(out.min()) if out.size else 0
    if gaps:
        return np.maximum(out, GAP) if lowest < GAP else out
    if lowest < 0 and (out == GAP).any():
        raise DataError(f"column {name!r} has a missing value; {_MEND}")
    if lowest == _UNKNOWN:
        raise SchemaError(
            f"column {name!r} has a value that is not among its declared levels {list(levels)!r} (texts are compared "
            "letter by letter: ' yes' with a space is not 'yes'); correct levels= or the data (by .str.strip() if "
            "spaces may be in them), or let such rows send noise (missing='noise')."
        )
    return out


def _factorized(raw: Any) -> tuple[NDArray[Any], list[Any]]:
    """Codes and distinct values of a column; -1 for a missing value."""
    held = raw if isinstance(raw, pd.Categorical) else getattr(raw, "array", None)
    if isinstance(held, pd.Categorical):
        return held.codes, held.categories.tolist()
    series = as_series(raw)
    plain = series.dtype != object or _PLAIN.issuperset(map(type, series.tolist()))
    try:
        if plain:
            codes, seen = pd.factorize(series)
            return codes, seen.tolist()
    except Exception:  # half of a character, say
        pass
    cells = np.fromiter(map(_sound, _cells(series)), dtype=object, count=len(series))
    codes, seen = pd.factorize(cells)
    return codes, seen.tolist()


def coded_texts(values: Any) -> Any:
    """A whole column of texts as codes of its distinct cells, so that batches of it are cheap; any other as it is."""
    dtype = getattr(values, "dtype", None)
    text = isinstance(dtype, pd.StringDtype)
    if not text and getattr(dtype, "numpy_dtype", dtype) != np.dtype(object):
        return values
    seen: dict[Any, int] = {}
    codes = np.empty(len(values), dtype=np.int32)
    try:
        for a in range(0, len(values), _WHOLE):
            part = values[a : a + _WHOLE]
            if not text and not _TEXTS.issuperset(map(type, part.tolist())):
                return values
            own, cells = pd.factorize(part)
            table = [seen.setdefault(cell, len(seen)) for cell in cells.tolist()]
            codes[a : a + _WHOLE] = np.array([*table, GAP], dtype=np.int32).take(own)
        if not all(type(cell) is str for cell in seen):
            return values
        return pd.Categorical.from_codes(
            codes, dtype=pd.CategoricalDtype(pd.Index([*seen], dtype=object)), validate=False
        )
    except Exception:  # half of a character, say: each batch is looked at by itself
        return values


_WHOLE: Final = 1 << 17
_TEXTS: Final = frozenset({str, float, type(None)})

_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types of cells that are compared with each other; the code of others could say that they equal any."""


def _sound(cell: Any) -> Any:
    """A cell that may be a level; in place of any other, something that is none."""
    try:
        if isinstance(cell, bytes):
            cell = _decoded(cell)
        if isinstance(cell, str):
            cell.encode()
        if type(cell) not in _PLAIN:
            cell = _exact(cell)
            cell = int(cell) if cell == int(cell) else float(cell)
        return cell if type(cell) in _PLAIN else object()
    except Exception:  # whatever the cell is, its own code may raise anything
        return object()


def prepare(
    frame: Any,
    names: Iterable[str],
    schema: Schema,
    clamp: Container[str | None],
    *,
    gaps: bool = False,
    whole: set[str] | None = None,
) -> dict[str, NDArray[Any]]:
    """Read the named columns: numbers as float64 (those in `clamp` clamped), factors as codes of levels.

    With `gaps`, missing values are NaN and -1; without, an error. `whole` takes names of columns that are known to have
    none.
    """
    out: dict[str, NDArray[Any]] = {}
    for name in names:
        raw = column_of(frame, name)
        if name in schema.levels:
            out[name] = level_codes(raw, name, schema.levels[name], gaps=gaps)
        else:
            values, sure = _numbers(raw, name, gaps=gaps, dates=name in schema.dates)
            if sure and whole is not None:
                whole.add(name)
            out[name] = clamped(values, schema.limits(name)) if name in clamp else values
    if len({len(v) for v in out.values()}) > 1:
        raise DataError("the columns differ in length.")
    return out


def all_finite(values: Floats) -> bool:
    """Whether all numbers are finite; False may also be said of very large ones."""
    with np.errstate(all="ignore"):  # a warning would tell of one value
        return bool(np.isfinite(values.sum()))  # what is infinite or no number makes the sum so


def complete_rows(columns: Iterable[NDArray[Any]]) -> Flags | None:
    """Rows without a missing value in any of these numbers and codes; None if that is all of them."""
    found = (v for v in columns if not (v.dtype.kind == "f" and v.flags.c_contiguous and all_finite(v)))
    flags = [np.isnan(v) if v.dtype.kind == "f" else v == GAP for v in found]
    flags = [f if f.ndim == 1 else f.any(axis=1) for f in flags if f.any()]
    return ~np.logical_or.reduce(flags) if flags else None


def clamped(values: Floats, limits: tuple[float, float]) -> Floats:
    """Clamp to declared limits; infinite limits leave the array as it is."""
    low, high = limits
    return values if np.isinf(low) and np.isinf(high) else np.clip(values, low, high)


def beyond(values: Floats, limits: tuple[float, float]) -> Flags:
    """Which numbers lie outside limits; one that is missing doesn't."""
    return np.asarray((values < limits[0]) | (values > limits[1]))


def log_exposure(values: Floats, name: str) -> Floats:
    """Logarithm of an exposure that isn't clamped."""
    if not (values > 0).all():
        raise DataError(f"the exposure {name!r} must be positive in every row; mend such rows or leave them out.")
    return np.asarray(np.log(values))


def zero_one(values: Floats, name: str, *, gaps: bool = False) -> Floats:
    """Check that a binary response holds 0 and 1 only; with `gaps` anything else is NaN."""
    binary = (values == 0) | (values == 1)
    if gaps:
        return np.where(binary, values, np.nan)
    if not binary.all():
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
