"""Raw columns become clamped numbers and codes of declared levels. No error raised here quotes a value."""

from collections import ChainMap
from collections.abc import Container, Iterable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Final, NamedTuple
from unicodedata import normalize

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.data.cells import (
    GAP,
    UNKNOWN,
    Codes,
    Flags,
    Floats,
    Taken,
    all_finite,
    as_series,
    factorized,
    places_of,
    read_numbers,
    unmasked,
)
from privreg.errors import DataError, SchemaError, quietly
from privreg.schema.declarations import Schema

_MEND: Final = "drop or fill such rows; fits and means let them send noise by missing='noise', their default."
_MEND_NEW: Final = "drop or fill such rows: new rows need every value."


class Encoded(NamedTuple):
    """One batch, encoded."""

    endog: Floats  # (n,), NaN in a row that can't be used, under ``missing="noise"``
    # (n, p), C-contiguous. NaN in a row whose covariates or offset can't be used; where the response alone can't be,
    # they stay, as ``private="response"`` makes them public
    exog: Floats
    offset: Floats | None  # (n,), what is added to the linear predictor: the offset and the log of the exposure
    kept: Flags | None = None  # the raw rows that are in the batch, for ``missing="drop"``; None if all of them are


def same_rows(**parties: Any) -> pd.Index | None:
    """The index that all pandas objects among these have, None if there are none: their rows are paired by position.
    Raises DataError if two differ, which is public as a table's form is. No label is quoted: labels may be data.
    """
    found = [(name, held.index) for name, held in parties.items() if isinstance(held, pd.Series | pd.DataFrame)]
    for name, index in found[1:]:
        if not found[0][1].equals(index):
            raise DataError(
                f"{found[0][0]} and {name} have different indexes, or the same in another order, so that rows can't be "
                f"paired. Bring {name} into the order of {found[0][0]} by .loc[...] or .reindex(...); if it is in that "
                "order already, drop both indexes by .reset_index(drop=True)."
            )
    return found[0][1] if found else None


def row_labels(table: Any, columns: Iterable[str]) -> pd.Index | None:
    """The index of a DataFrame, or of those columns of a mapping; see `same_rows`."""
    if isinstance(table, Mapping):
        return same_rows(**{f"column {name!r}": table[name] for name in columns if name in table})
    return table.index if isinstance(table, pd.DataFrame) else None


def check_mapping(table: Mapping[str, Any], columns: Iterable[str]) -> None:
    """Refuse columns that are single values, or have unlike indexes."""
    there = [name for name in columns if name in table]
    if single := [name for name in there if _is_single(table[name])]:
        raise _single(single[0], row=single == there)
    row_labels(table, columns)


def _single(name: str, *, row: bool = False) -> DataError:
    what = "a dict of single values is one row" if row else f"column {name!r} is a single value; give one for each row"
    return DataError(f"{what}. Rows one by one are made a table by pd.DataFrame(list(rows)).")


def repeated(rows: Any, columns: Iterable[str]) -> Any:
    """New rows, of a dict with what is the same in all rows in each of them; other columns than these aren't read."""
    plain = {normalize("NFKC", c) for c in columns}
    read = {c: rows[c] for c in rows if normalize("NFKC", str(c)) in plain} if isinstance(rows, Mapping) else {}
    single, many = {c for c in read if _is_single(read[c])}, {len(v) for v in read.values() if not _is_single(v)}
    return ChainMap({c: [read[c]] * max(many, default=1) for c in single}, rows) if single and len(many) < 2 else rows


def _is_single(values: Any) -> bool:
    return isinstance(values, str | bytes) or not hasattr(values, "__len__") or getattr(values, "ndim", 1) == 0


def column_of(frame: Any, name: str) -> Any:
    """Return one raw column of a frame or mapping."""
    if not isinstance(frame, pd.DataFrame | Mapping):
        raise DataError(
            f"rows must come as a table or a dict of columns, got {type(frame).__name__}. Rows one by one are made a "
            "DataFrame by pd.DataFrame(list(rows)), a single one by pd.DataFrame([row])."
        )
    plain = normalize("NFKC", name)  # as Python reads it, by which rows for prediction may call a column
    same = (c for c in frame if isinstance(c, str) and normalize("NFKC", c) == plain)
    label = name if name in frame else next(same, None)
    if label is None:
        raise missing(name, frame)
    column = unmasked(frame[label])
    if getattr(column, "ndim", 1) == 0:
        raise _single(name)
    if getattr(column, "ndim", 1) != 1:
        raise DataError(f"column {name!r} occurs more than once in the data; rename the others.")
    return column


def missing(name: str, labels: Iterable[Any], others: Iterable[str] = ()) -> DataError:
    """Error for a column that is not among the data's labels; `others` are wanted, too.

    In a table without header the labels are its first row, and in a transposed table or a mapping by person they are
    people. So the nearest label is quoted only if it is the name but for capitals, or one of the others is a label.
    """
    names = list(labels)
    if any(not isinstance(c, str) or reads_as_number(c) for c in names):
        return DataError(
            f"column {name!r} is missing; the data's column labels look like values or positions. Give the table a "
            "header of names, or name its columns."
        )
    near = [c for c in names if c.lower() == name.lower()]
    if not near and not set(others).isdisjoint(names):
        near = get_close_matches(name, names, n=1) or get_close_matches(name.lower(), map(str.lower, names), n=1)
        near = [c for c in names if c.lower() == near[0].lower()] if near else []
    hint = f"Did you mean {near[0]!r}?" if near else "Rename a column of the data, or change the name where it is used."
    return DataError(
        f"column {name!r} is missing from the data, which have {len(names)} column{'s' * (len(names) != 1)}. {hint}"
    )


def reads_as_number(label: str) -> bool:
    """True if a label is no name but a number, as of a table without a header."""
    try:
        float(label)
    except ValueError:
        return False
    return True


def numbers(raw: Any, name: str, *, gaps: bool = False, dates: bool = False, new: bool = False) -> Floats:
    """Return a raw column as contiguous float64; cells that are no finite number are NaN with `gaps`, else an error.

    Of a column of `dates` the numbers are days since 1970-01-01. `new` rows are public ones, for predictions.
    """
    values: Floats = quietly(lambda: read_numbers(raw, dates=dates), DataError(_UNREADABLE.format(name)))
    return values if gaps else without_gaps(values, name, dates=dates, new=new)


_UNREADABLE: Final = "column {!r} can't be read; convert it to plain numbers or texts."
"""For what no library should do: an error of its own could quote a value."""


def without_gaps(values: Floats, name: str, *, dates: bool = False, new: bool = False) -> Floats:
    """The numbers of a column; an error if one is missing."""
    if np.isnan(values).any():
        wrong = "missing or no date; write it as 2020-12-31" if dates else "missing, infinite or no number; convert it"
        factor = f", declare levels={{{name!r}: [...]}} if it is a factor, dates as its bounds if there are dates"
        factor = "" if dates or new else factor
        raise DataError(f"column {name!r} has a value that is {wrong}{factor}, or {_MEND_NEW if new else _MEND}")
    return values


def level_codes(raw: Any, name: str, levels: Sequence[Any], *, gaps: bool = False, new: bool = False) -> Codes:
    """Position of every value among the declared levels: one hash pass, then a small lookup table.

    With `gaps`, the code of a value that is missing or not declared is -1; without, it is an error. `new` rows are
    public ones, for predictions.
    """
    codes, places = _coded(raw, name, levels)
    out: Codes = np.array([*places, GAP], dtype=np.intp).take(codes)  # a missing value has code -1: the last entry
    lowest = int(out.min()) if out.size else 0
    if gaps:
        return np.maximum(out, GAP) if lowest < GAP else out
    if lowest < 0 and (out == GAP).any():
        raise DataError(f"column {name!r} has a missing value; {_MEND_NEW if new else _MEND}")
    if lowest == UNKNOWN:
        strip = "(by .str.strip() if spaces may be in them)"
        mend = f"correct levels= or the data {strip}, or let such rows send noise (missing='noise')."
        raise SchemaError(
            f"column {name!r} has a value that is not among its declared levels {list(levels)!r} (texts are compared "
            f"letter by letter: ' yes' with a space is not 'yes'); {f'correct the new rows {strip}.' if new else mend}"
        )
    return out


def _coded(raw: Any, name: str, levels: Sequence[Any]) -> tuple[NDArray[Any], list[int]]:
    """Codes of a column's distinct values, -1 for a missing one, and their positions among the declared levels."""
    codes, seen = quietly(lambda: factorized(raw), DataError(_UNREADABLE.format(name)))
    return codes, [*map(places_of(tuple(levels)), seen)]


def joined(
    frames: Iterable[Any], names: Sequence[str], schema: Schema, verbatim: Container[str], most: int
) -> dict[str, Any]:
    """The named columns of frames of `most` rows together, or fewer, as one; read as :func:`prepare` would.

    Columns in `verbatim` stay as they are. Frames are read as they come; few need be in memory.
    """
    held: dict[str, NDArray[Any]] = {}
    rows = 0
    for frame in frames:
        some = dict[str, NDArray[Any]]()
        for name in names:
            raw, levels = column_of(frame, name), schema.levels.get(name)
            if name in verbatim:
                cells = as_series(raw).tolist()
                some[name] = np.fromiter(cells, dtype=object, count=len(cells))
            elif levels is not None:
                codes, places = _coded(raw, name, levels)
                known = (len(levels) if k == UNKNOWN else k for k in places)  # the last code is a level not declared
                some[name] = np.array([*known, GAP], dtype=np.min_scalar_type(-len(levels) - 1)).take(codes)
            else:  # doubles are looked at where they are encoded
                plain = isinstance(raw, np.ndarray) and raw.dtype == np.float64
                some[name] = raw if plain else numbers(raw, name, gaps=True, dates=name in schema.dates)
        if len({len(values) for values in some.values()}) > 1:
            raise DataError("the columns differ in length.")
        n = len(some[names[0]])
        if rows + n > most:
            raise DataError("there are more rows than were counted; data must not change while they are read.")
        if n == most:  # all of them in one frame, which needs no copy
            held, rows = some, n
            continue
        for name, values in some.items():
            held.setdefault(name, np.empty(most, dtype=values.dtype))[rows : rows + n] = values
        rows += n
    out: dict[str, Any] = {name: values[:rows] for name, values in held.items()}
    for name, levels in schema.levels.items():
        if name in out and name not in verbatim:
            factor = pd.CategoricalDtype(pd.Index([*levels, object()], dtype=object))  # the last is none of them
            out[name] = pd.Categorical.from_codes(out[name], dtype=factor, validate=False)
    return out


def prepare(
    frame: Any,
    names: Iterable[str],
    schema: Schema,
    clamp: Container[str | None],
    *,
    gaps: bool = False,
    new: bool = False,
) -> dict[str, NDArray[Any]]:
    """Read the named columns: numbers as float64 (those in `clamp` clamped), factors as codes of levels.

    With `gaps`, missing values are NaN and -1; without, an error. `new` as in `level_codes`.
    """
    out: dict[str, NDArray[Any]] = {}
    names = list(names)
    if isinstance(frame, Taken):
        # doubles in memory, in few operations on all: threads that do one little one after another wait for each other
        some, held = frame.doubles(name for name in names if name not in schema.levels and name not in schema.dates)
        with np.errstate(all="ignore"):  # a warning would reveal a value
            unsure = np.flatnonzero(~np.isfinite(held.sum(axis=1)))  # as of `all_finite`
            for name, values in ((some[k], held[k]) for k in unsure):
                values[~np.isfinite(values)] = np.nan  # NaN that signals, too
                if not gaps:
                    without_gaps(values, name, new=new)
            limits = np.array([schema.limits(n) if n in clamp else (-np.inf, np.inf) for n in some]).reshape(-1, 2)
            np.clip(held, limits[:, :1], limits[:, 1:], out=held)
        out.update(zip(some, held, strict=True))
    for name in names:
        if name in out:
            continue
        raw = column_of(frame, name)
        if name in schema.levels:
            out[name] = level_codes(raw, name, schema.levels[name], gaps=gaps, new=new)
        else:
            values = numbers(raw, name, gaps=gaps, dates=name in schema.dates, new=new)
            out[name] = clamped(values, schema.limits(name)) if name in clamp else values
    if len({len(v) for v in out.values()}) > 1:
        raise DataError("the columns differ in length.")
    return out


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
    """Which numbers are outside limits; one that is missing doesn't."""
    return np.asarray((values < limits[0]) | (values > limits[1]))


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


# --- opt-outs, learned from raw rows and NOT private; the caller warns, and records it in Schema.leaked -------


def learn_levels(frame: Any, column: str) -> tuple[Any, ...]:
    """Return the sorted distinct values of a raw column. Not private: for ``allow_leak=("levels",)``."""
    if (series := pd.Series(column_of(frame, column))).isna().any():
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
