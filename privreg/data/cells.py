"""Single cells of raw data: a number, a day, a level; each is read by itself, and none decides what is raised."""

from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from datetime import date
from functools import lru_cache
from numbers import Complex, Number, Real
from typing import Any, Final
from unicodedata import normalize

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from privreg.schema.declarations import day_of, days_of_times

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Codes = NDArray[np.intp]
GAP: Final = -1  # Code of a factor's value that is missing, or not declared
UNKNOWN: Final = -2
_NUMBERS: Final = ("integer", "floating", "mixed-integer-float", "decimal", "boolean", "empty")
LARGEST: Final = 1e300  # Whole numbers are written out below it
_TRUTH: Final = {"true": 1, "false": 0}
_TOGETHER: Final = 1 << 12  # Rows
_PLAIN: Final = frozenset({str, int, float, bool, type(None)})
"""Types of cells that are compared with each other; the code of others could say that they equal any."""


def unmasked(values: Any) -> Any:
    """A masked array with missing values where it is masked; anything else as it is."""
    if not isinstance(values, np.ma.MaskedArray):
        return values
    real = values.dtype.kind == "f"
    out = np.array(values.data, dtype=None if real else object)
    out[np.ma.getmaskarray(values)] = np.nan if real else None
    return out


def plain_vector(values: Any) -> NDArray[Any]:
    """A list of cells as an array in which each stays what it is: NumPy would write 'nan' for a missing text.

    A cell that is a list, or an array itself, is no value. What comes neither so nor as an array is NumPy's to read.
    """
    if not _is_list(values):
        return np.asarray(unmasked(values))
    cells = list(values)
    kinds = set(map(type, cells))
    if kinds in ({float}, {int}, {bool}):
        out = np.array(cells)
        if out.dtype.kind != "f" or kinds == {float}:  # not whole numbers that only doubles hold together
            return out
    return np.fromiter((None if cell is np.ma.masked else cell for cell in cells), dtype=object, count=len(cells))


def plain_table(values: Any, width: int | None = None) -> NDArray[Any]:
    """A list of rows as an array, each by itself; a row that has not `width` cells is one of missing values.

    Without `width` it is what most rows have. Of a list of cells each is a row.
    """

    def cells(row: Any) -> list[Any]:
        try:
            if isinstance(row, list | tuple | deque | array | pd.Series):
                return list(row)
            if isinstance(row, np.ndarray) and row.ndim == 1:
                return list(unmasked(row))
        except Exception:  # whatever the row is, its own code may raise anything
            return []
        return [None if row is np.ma.masked else row]

    if not _is_list(values):
        return np.asarray(unmasked(values))
    rows = [cells(row) for row in values]
    if width is None:
        width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    rows = [row if len(row) == width else [None] * width for row in rows]
    return plain_vector([cell for row in rows for cell in row]).reshape(len(rows), width)


def _is_list(values: Any) -> bool:
    """True if values come one by one, and not as an array, a text or a mapping."""
    if isinstance(values, str | bytes | bytearray | memoryview | array | range | Mapping | Set):
        return False
    arrays = any(hasattr(values, name) for name in ("dtype", "__array__", "__array_interface__"))
    return not arrays and hasattr(values, "__len__") and hasattr(values, "__iter__")


def read_numbers(raw: Any, *, dates: bool = False) -> Floats:
    """Read a raw column as contiguous float64, every cell by itself; NaN where it is no finite number.

    What a cell means must not depend on the cells beside it, so neither on the type that a reader chose for the whole
    column: the text "39.5" is the number 39.5, a truth value 0 or 1, and anything else is unreadable. Of `dates` they
    are days since 1970-01-01: a cell is a date or a time, an ISO text of one, or a number of days.
    """
    dtype = getattr(raw, "dtype", None)
    with np.errstate(all="ignore"):  # a warning would reveal a value
        if isinstance(dtype, np.dtype) and dtype.kind in "biuf":
            values = np.ascontiguousarray(raw, dtype=np.float64)
        elif dates and isinstance(raw, np.ndarray) and raw.dtype.kind == "M":  # pandas has not all of NumPy's units
            values = days_of_times(raw)
        else:
            values = _each_number(as_series(raw), dates)
    # of what is no number, too: NaN that signals, as R's missing values do, would warn wherever it is computed with
    return values if all_finite(values) else np.where(np.isfinite(values), values, np.nan)


def all_finite(values: Floats) -> bool:
    """True if all numbers are finite; may be False of very large ones."""
    with np.errstate(all="ignore"):  # a warning would reveal a value
        return bool(np.isfinite(values.sum()))  # what is infinite or no number makes the sum so


def _cells(series: Any) -> NDArray[Any]:
    """Cells of a column as objects; one that can't be made one, as a date of Arrow's beyond the year 9999, is None."""
    try:
        return np.asarray(series.to_numpy(dtype=object))
    except Exception:  # of one cell, which must not decide whether others are read
        out = np.full(len(series), None, dtype=object)
        for k in range(len(series)):
            with suppress(Exception):
                out[k] = series.iloc[k]
        return out


def as_series(raw: Any) -> Any:
    """A raw column as a Series; cells that pandas would rather have as texts or dates, and can't, as they are."""
    raw = plain_vector(raw) if isinstance(raw, list | tuple) else raw
    dtype = getattr(raw, "dtype", None)
    raw = np.asarray(raw) if isinstance(dtype, pd.SparseDtype) else raw
    try:
        return pd.Series(raw, dtype=dtype if isinstance(dtype, np.dtype) and dtype.kind == "O" else None)
    except Exception:  # a text that is no Unicode, say
        return pd.Series(np.fromiter(raw, dtype=object, count=len(raw)), dtype=object)


def _each_number(series: Any, dates: bool) -> Floats:
    """Cells of a column that is not of one of NumPy's types of numbers, or days of `dates`."""
    if isinstance(series.dtype, pd.CategoricalDtype):
        table = np.append(_each_number(as_series(series.cat.categories), dates), np.nan)
        return np.asarray(table[series.cat.codes.to_numpy()])
    if dates and isinstance(series.dtype, pd.DatetimeTZDtype):
        series = series.dt.tz_convert(None)
    if dates and isinstance(series.dtype, np.dtype) and series.dtype.kind == "M":
        return days_of_times(series.to_numpy())
    with suppress(Exception):  # a number too large for a double, say; the others are read all the same
        if series.dtype.kind in "biuf" or pd.api.types.infer_dtype(series, skipna=True) in _NUMBERS:
            return np.ascontiguousarray(series.to_numpy(dtype=np.float64, na_value=np.nan))
    cells = _cells(series)
    if dates:
        texts = {c: _number(c, True) for c in {c for c in cells if type(c) is str}}  # of many records few dates differ
        return np.fromiter((texts[c] if type(c) is str else _number(c, True) for c in cells), np.float64, len(cells))
    return np.fromiter(map(_number, cells), np.float64, len(cells))


def _number(cell: Any, dates: bool = False) -> float:
    """A cell as a double, or of `dates` the days since 1970-01-01 if it is a date; NaN if it is no number."""
    try:
        day = day_of(cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell) if dates else None
        return float(exact(cell)) if day is None else day
    except Exception:  # whatever the cell is, its own code may raise anything
        return np.nan


def exact(cell: Any) -> Any:
    """The number a cell is or reads as, whole numbers exactly; NaN if it is none."""
    cell = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
    if isinstance(cell, np.inexact):
        cell = cell.item()  # Python's own number, which doesn't warn of what is too large for a short one
    if isinstance(cell, str):
        text = cell.strip()
        if "_" in text:  # Python would read it
            return np.nan
        for kind in (int, float):
            try:
                return kind(text)
            except ValueError:  # also of a number with thousands of digits
                pass
        return _TRUTH.get(text.lower(), np.nan)
    if isinstance(cell, bool | np.bool_):
        return int(cell)
    if isinstance(cell, complex | np.complexfloating):
        return cell.real if cell.imag == 0 else np.nan
    real = isinstance(cell, Number) and not isinstance(cell, Complex)
    return cell if real or isinstance(cell, Real) else np.nan


def iso_text(cell: Any) -> Any:
    """A date as an ISO text, without a time of day if it is midnight; any other cell as it is."""
    cell = pd.Timestamp(cell) if isinstance(cell, np.datetime64) else cell
    return cell.isoformat().removesuffix("T00:00:00") if isinstance(cell, date) and cell is not pd.NaT else cell


@lru_cache(maxsize=64)  # once for a factor
def places_of(levels: Sequence[Any]) -> Callable[[Any], int]:
    """Position of a cell's level among those declared, `UNKNOWN` if it is none, by its text or the number it reads as.

    A reader that takes "1" for a number or "yes" for a truth value must not change what a cell means, so a number
    finds the level that reads as it, if there is only one.
    """
    texts = {normalize("NFC", level): i for i, level in enumerate(levels) if isinstance(level, str)}
    numbers = {exact(level): i for i, level in enumerate(levels) if not isinstance(level, str)}
    reads = [(number, i) for level, i in texts.items() if -np.inf < (number := exact(level)) < np.inf]
    often = Counter(number for number, _ in reads)
    numbers = {number: i for number, i in reads if often[number] == 1} | numbers

    def place(cell: Any) -> int:
        try:
            cell = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else iso_text(cell)
            if isinstance(cell, str) and (text := normalize("NFC", cell)) in texts:
                return texts[text]
            number = exact(cell)
            found = numbers.get(number, UNKNOWN)
            return numbers.get(float(number), UNKNOWN) if found == UNKNOWN else found
        except Exception:  # whatever the cell is, its own code may raise anything
            return UNKNOWN

    return place


def factorized(raw: Any) -> tuple[NDArray[Any], list[Any]]:
    """Codes and distinct values of a column; -1 for a missing value."""
    held = raw if isinstance(raw, pd.Categorical) else getattr(raw, "array", None)
    if isinstance(held, pd.Categorical):
        return held.codes, held.categories.tolist()
    series = as_series(raw)
    plain = series.dtype != object or _PLAIN.issuperset(map(type, series.tolist()))
    with suppress(Exception):  # half of a character, say
        if plain:
            codes, seen = pd.factorize(series)
            return codes, seen.tolist()

    def sound(cell: Any) -> Any:  # which may be a level; in place of any other, something that is none
        try:
            cell = cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell
            if isinstance(cell, str):
                cell = str.__str__(cell)  # of NumPy's or another's kind of text, too
                cell.encode()
            cell = iso_text(cell)
            if type(cell) not in _PLAIN:
                cell = exact(cell)
                if not abs(cell) < LARGEST:  # a decimal number of a line may be one of millions of digits
                    return object()
                cell = int(cell) if cell == int(cell) else float(cell)
            return cell if type(cell) in _PLAIN else object()
        except Exception:  # whatever the cell is, its own code may raise anything
            return object()

    codes, seen = pd.factorize(np.fromiter(map(sound, _cells(series)), dtype=object, count=len(series)))
    return codes, seen.tolist()


def coded_texts(values: Any) -> Any:
    """A whole column of texts as codes of its distinct cells, so that batches of it are cheap; any other as it is."""
    dtype = getattr(values, "dtype", None)
    if not isinstance(dtype, pd.StringDtype) and getattr(dtype, "numpy_dtype", dtype) != np.dtype(object):
        return values
    try:
        cells = pa.array(values if isinstance(dtype, pd.StringDtype) else np.asarray(values), from_pandas=True)
        held = (cells.combine_chunks() if isinstance(cells, pa.ChunkedArray) else cells).dictionary_encode()
        if held.type.value_type not in (pa.string(), pa.large_string()):
            return values
        kind = pd.CategoricalDtype(pd.Index(held.dictionary.to_pylist(), dtype=object))
        return pd.Categorical.from_codes(held.indices.fill_null(GAP).to_numpy(), dtype=kind, validate=False)
    except Exception:  # cells of several types, or half of a character: each batch is looked at by itself
        return values


class Taken(Mapping[str, Any]):
    """Rows at some places of columns, all inside; each column is taken when it is asked for, by whoever encodes it."""

    def __init__(self, columns: Mapping[str, Any], at: NDArray[np.int64]) -> None:
        self.columns, self.at = columns, at

    def __getitem__(self, name: str) -> Any:
        return taken(self.columns[name], self.at)

    def __contains__(self, name: object) -> bool:
        return name in self.columns  # without taking it

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def doubles(self, names: Iterable[str]) -> tuple[list[str], Floats]:
        """Which of the columns are plain arrays of doubles, and their rows, shape (columns, n)."""

        def is_plain(values: Any) -> bool:
            one = isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1
            return one and values.flags.c_contiguous and values.flags.aligned

        some = [name for name in names if is_plain(self.columns.get(name))]
        out = np.empty((len(some), len(self.at)))
        runs = _in_turn(self.at)
        for name, to in zip(some, out, strict=True):
            values = self.columns[name]
            if runs is None:
                values.take(self.at, out=to, mode="clip")  # all are inside; by default, NumPy makes a copy
                continue
            rows = runs.shape[1]  # a block is copied as a whole, which waits less for memory
            blocks = values[: len(values) // rows * rows].reshape(-1, rows)
            to.reshape(runs.shape).swapaxes(1, 2)[...] = blocks.take(runs[:, 0] // rows, axis=0)
        return some, out


def _in_turn(at: NDArray[np.int64]) -> NDArray[np.int64] | None:
    """Places by run, row and block, if each run takes the rows of whole blocks in turn, all equally long; else None."""
    blocks = int(np.argmax(at == at[0] + 1)) if len(at) else 0  # the second row of the first block comes after all
    if not blocks or len(at) % blocks:
        return None
    rows = at.reshape(-1, blocks)
    ends = np.flatnonzero((rows[1:] != rows[:-1] + 1).any(axis=1)) + 1
    length = int(ends[0]) if len(ends) else len(rows)
    if len(rows) % length or (ends % length).any() or (rows[::length] % length).any():
        return None
    return rows.reshape(-1, length, blocks)


def taken(values: Any, at: NDArray[np.int64]) -> Any:
    """Rows of an array or a column at some places: of an array that isn't contiguous `take` would first copy all.

    Of rows of several numbers those of a column lie together, some rows at a time, so that they fit into the cache.
    """
    if not isinstance(values, np.ndarray):
        return values.take(at)
    if not values.flags.c_contiguous:
        return values[at]
    if values.ndim == 1:
        return values.take(at)
    out = np.empty((values.shape[1], len(at)), dtype=values.dtype)
    for a in range(0, len(at), _TOGETHER):
        out[:, a : a + _TOGETHER] = values.take(at[a : a + _TOGETHER], axis=0).T
    return out.T
