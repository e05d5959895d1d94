"""Arrow's columns as the encoders take them: numbers without a copy, texts of factors as codes."""

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute

from privreg.data.cells import GAP, plain_vector, read_numbers
from privreg.data.sources.source import CHUNK, Batch, Wanted, beyond
from privreg.errors import DataError, quietly
from privreg.schema.declarations import days_of_times

_EXACT_DIGITS: Final = 15  # Decimals with so many are told apart by doubles

_TEXTS: Final = (pa.string(), pa.large_string(), pa.string_view())
_BYTES: Final = (pa.binary(), pa.large_binary(), pa.binary_view())
_KINDS: Final[dict[str, Callable[[Any], bool]]] = {
    "boolean": pa.types.is_boolean,
    "number": lambda t: pa.types.is_integer(t) or pa.types.is_floating(t) or pa.types.is_decimal(t),
    "text": lambda t: t in (*_TEXTS, *_BYTES) or pa.types.is_fixed_size_binary(t),  # bytes may be texts
    "empty": pa.types.is_null,
    "date": lambda t: pa.types.is_date(t) or pa.types.is_timestamp(t),
    "time or duration": pa.types.is_temporal,
}


def kind_of(type_: Any) -> str:
    """Kind of a column of an Arrow type, in a word; numbers of any width are one kind."""
    if pa.types.is_dictionary(type_) or pa.types.is_run_end_encoded(type_):
        return kind_of(type_.value_type)
    if isinstance(type_, pa.BaseExtensionType):
        return "of another kind" if pa.types.is_fixed_size_binary(type_.storage_type) else kind_of(type_.storage_type)
    return next((kind for kind, has in _KINDS.items() if has(type_)), "of another kind")


def _plain(array: Any) -> Any:
    """A column in a form that all of Arrow's functions take: no views, no runs, no types that an extension names."""
    if isinstance(array.type, pa.BaseExtensionType):
        return _plain(array.storage)
    if pa.types.is_run_end_encoded(array.type):
        return _plain(compute.run_end_decode(array))
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, _plain(array.dictionary))
    if pa.types.is_string_view(array.type):
        return array.cast(pa.large_string())
    fixed = pa.types.is_fixed_size_binary(array.type) or array.type == pa.binary_view()
    return array.cast(pa.large_binary()) if fixed else array


def texts_of(array: Any) -> list[Any]:
    """Texts of a column; bytes that are no UTF-8 make their own cell unreadable, and nothing else."""
    try:
        cells = array.to_pylist()
    except UnicodeDecodeError:
        cells = as_bytes(array).to_pylist()
    return [cell.decode("utf-8", "replace") if isinstance(cell, bytes) else cell for cell in cells]


_PLAIN: Final = r"^-?(?:[0-9]{1,20}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][-+]?[0-9]{1,2})?$"
"""Numbers in plain digits, of which none is beyond the doubles; others are read one by one."""


def as_bytes(array: Any) -> Any:
    """A column of texts as one of bytes, which may be any, also where they are a dictionary's; others as they are."""
    if pa.types.is_dictionary(array.type):
        return pa.DictionaryArray.from_arrays(array.indices, as_bytes(array.dictionary))
    return array.cast(pa.large_binary()) if array.type in _TEXTS else array


def batches_of(arrow: Any, wanted: Wanted, where: str, most: int = CHUNK) -> Iterator[Batch]:
    """An Arrow record batch as batches of at most so many rows; texts of factors become codes.
    Raises DataError if a column's type, which is no secret, holds neither numbers nor texts, or it is damaged.
    """
    for name in wanted.columns:
        kind = kind_of(arrow.schema.field(name).type)
        if kind == "date" and name in wanted.schema.dates:
            continue
        if kind == "date" and wanted.schema.is_number(name):
            raise DataError(
                f"{where}: column {name!r} holds dates and is declared a number; give two dates as "
                f"bounds={{{name!r}: ('2020-01-01', '2020-12-31')}}."
            )
        if kind in {"date", "time or duration", "of another kind"}:
            held = {"date": "holds dates", "time or duration": "holds times or durations"}.get(kind, f"is {kind}")
            raise DataError(f"{where}: column {name!r} {held}; make it a number or a text first.")
    unreadable = "a column can't be read; it is damaged, or of a type that holds neither numbers nor texts."
    numbers = {c for c in wanted.columns if wanted.schema.is_number(c)} - wanted.verbatim

    def columns(part: Any) -> Batch:
        return {c: _values(_plain(part.column(c)), c in wanted.coded, c in numbers) for c in wanted.columns}

    for a in range(0, arrow.num_rows, most):
        yield quietly(partial(columns, arrow.slice(a, most)), DataError(f"{where}: {unreadable}"))


def _values(array: Any, coded: bool, number: bool) -> Any:
    """A column of numbers, of texts, or as codes: of the texts of a factor or of dates."""
    type_, types, kind = array.type, pa.types, kind_of(array.type)
    if types.is_dictionary(type_):
        small = coded and kind != "date" and len(array.dictionary) <= max(len(array), 1)
        return _codes(array) if small else _values(array.dictionary_decode(), coded, number)
    text = kind == "text"
    if coded and text:
        return _codes(array.dictionary_encode())
    if kind == "date":
        return days_of_times(array.to_numpy(zero_copy_only=False))  # with a zone they are held in UTC
    if text and number:  # each by itself, NaN where it is none
        plain = compute.match_substring_regex(array, _PLAIN).fill_null(False)
        at, out = plain.to_numpy(zero_copy_only=False), np.empty(len(array))
        out[at] = array.filter(plain).cast(pa.string()).cast(pa.float64()).to_numpy()
        out[~at] = read_numbers(plain_vector(texts_of(array.filter(compute.invert(plain)))))
        return out
    if text:
        out = np.empty(len(array), dtype=object)
        out[:] = texts_of(array)
        return out
    if types.is_integer(type_) and array.null_count:  # not as doubles: a large id would be rounded
        held = array.fill_null(0).to_numpy(zero_copy_only=False)
        return pd.arrays.IntegerArray(held, array.is_null().to_numpy(zero_copy_only=False))
    if types.is_integer(type_) or types.is_floating(type_) or (types.is_boolean(type_) and not array.null_count):
        return array.to_numpy(zero_copy_only=False)  # a copy only where there are nulls, or booleans
    if types.is_decimal(type_) and not coded and type_.precision <= _EXACT_DIGITS:
        return array.cast(pa.string()).cast(pa.float64()).to_numpy(zero_copy_only=False)  # the nearest doubles
    return array.to_pandas()


def _codes(array: Any) -> Any:
    """A dictionary column as pandas' codes; one whose dictionary has nulls or doubles is decoded."""
    # pandas has no category of NaN
    levels = [None if isinstance(level, float) and math.isnan(level) else level for level in texts_of(array.dictionary)]
    codes = (array.indices.cast(pa.int64()).fill_null(GAP) if array.null_count else array.indices).to_numpy()
    if codes.size and not -1 <= int(codes.min()) <= int(codes.max()) < len(levels):
        raise ValueError("codes beyond the dictionary")
    if None in levels or len(set(levels)) < len(levels):
        cells = np.empty(len(levels) + 1, dtype=object)
        cells[:-1] = levels
        return cells[codes]  # a missing value has code -1: the last entry, None
    kind = pd.CategoricalDtype(pd.Index(levels, dtype=object))
    return pd.Categorical.from_codes(codes, dtype=kind, validate=False)


def streamed(make: Callable[[], Iterable[Any]], wanted: Wanted, where: str) -> Callable[[int], Iterator[Batch]]:
    """Batches of Arrow record batches that are made anew for every reader, as they are asked for."""

    def read(parts: Iterator[Any]) -> Iterator[Batch]:
        broke = DataError(f"{where}: reading broke off; mend the file, the table or the query.")
        while (part := quietly(lambda: next(parts, None), broke)) is not None:
            yield from batches_of(part, wanted, where)

    def batches(skip: int) -> Iterator[Batch]:
        parts = quietly(make, DataError(f"{where} can't be read; mend it, or its query."))
        return beyond(read(iter(parts)), skip)

    return batches
