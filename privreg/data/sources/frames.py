"""Rows held in memory: arrays, DataFrames, mappings of arrays; and iterables of them."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Taken, coded_texts, plain_vector, taken, unmasked
from privreg.data.columns import check_mapping, row_labels
from privreg.data.sources.order import Piece, dealt_pieces, dealt_rows
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, beyond, once, part_of, rows_of
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.privacy.accounts import UNKNOWN, accounts_of, of_columns, of_mapping


def open_arrays(
    endog: np.ndarray,
    exog: np.ndarray,
    offset: np.ndarray | None,
    whose: Iterable[Any] = (),
    *,
    exposure: np.ndarray | None = None,
) -> Source:
    """Rows held as arrays of shapes (n,), (n, p) and, for the offset and the exposure, (n,).

    `whose` are the objects that they came in, by which the ledger knows their people.
    """
    parts = (endog, exog, offset, exposure)

    def deal(at: NDArray[np.int64]) -> Batch:
        return tuple(None if part is None else taken(part, at) for part in parts)

    return _in_memory("arrays", len(endog), of_columns(whose), lambda: parts, deal, exog.shape[1])


def _in_memory(
    kind: str, n: int, identity: Any, rows: Callable[[], Batch], deal: Callable[[Any], Batch], width: int
) -> Source:
    """Rows that are held; `rows` are what whoever reads all is given, and `deal` some of them."""

    def batches(skip: int) -> Iterator[Batch]:
        return (part_of(rows(), slice(a, a + CHUNK)) for a in range(skip, n, CHUNK))

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        return (deal(at) for at in dealt_rows(n, key, skip, width))

    return Source(kind, n, batches, identity, dealt=lambda key: partial(dealt, key), at=deal)


def _held(kind: str, columns: Mapping[str, Any], n: int, identity: Any, texts: Container[str]) -> Source:
    """Rows of columns that are held; those of another library, such as a file's, may be sliced only."""
    import pandas as pd

    @cache
    def coded() -> Mapping[str, Any]:  # once somebody reads all rows
        return {name: coded_texts(values) if name in texts else values for name, values in columns.items()}

    source = _in_memory(kind, n, identity, coded, lambda at: Taken(coded(), at), len(columns))
    free = all(isinstance(v, np.ndarray | pd.api.extensions.ExtensionArray) for v in columns.values())
    return source if free else replace(source, dealt=None, at=None)


def _values(column: Any) -> Any:
    """Return a column's values without index and copy: plain arrays of numbers, pandas' own of the rest."""
    if isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind in "biuf":
        return np.asarray(column)
    return getattr(column, "array", column)


def open_frame(data: Any, wanted: Wanted) -> Source:
    """Rows of a DataFrame."""
    columns = wanted.columns
    names = list(data.columns)
    twice = [c for c in columns if names.count(c) > 1]
    if twice:
        raise DataError(f"the data have more than one column named {twice[0]!r}; rename or drop one.")
    # Slices of single columns are views: nothing is copied but the chunk being encoded.
    held = {c: _values(data[c]) for c in columns if c in names}
    if len(held) < len(columns):
        return Source("DataFrame", len(data), lambda skip: iter([data.iloc[:1]]), accounts_of(data))
    # as they are now, for the columns are held: others may take their place in the frame
    return _held("DataFrame", held, len(data), accounts_of(data), wanted.coded)


def open_mapping(data: Mapping[str, Any], wanted: Wanted) -> Source:
    """Rows of a mapping of arrays."""
    columns = wanted.columns
    given = {c: data[c] for c in columns if c in data}
    held = {c: _column(values, c) for c, values in given.items()}
    lengths = {len(v) for v in held.values()}
    if len(held) < len(columns) or not held:
        return Source("mapping of arrays", None, lambda skip: iter([data]), None)
    if len(lengths) > 1:
        raise DataError("the columns of the mapping differ in length.")
    row_labels(data, columns)
    n = lengths.pop()
    held = {c: _values(v) for c, v in held.items()}
    return _held("mapping of arrays", held, n, of_mapping(data, given.values()), wanted.coded)


def _column(values: Any, name: str) -> Any:
    wrong = DataError(f"column {name!r} of the mapping must be one-dimensional, with one number or level a row.")
    values = unmasked(values)
    out = values if hasattr(values, "dtype") else quietly(lambda: plain_vector(values), wrong)
    if getattr(out, "ndim", 0) != 1:
        raise wrong
    return out


def open_frames(data: Iterable[Any], table: Callable[[Any, Wanted], Source | None], wanted: Wanted) -> Source:
    """Rows of an iterable's DataFrames, or mappings of arrays, or tables of another library, which `table` opens."""
    import pandas as pd

    def each(batch: Any) -> Iterator[Batch]:
        if isinstance(batch, pd.DataFrame):
            for a in range(0, max(len(batch), 1), CHUNK):
                yield batch.iloc[a : a + CHUNK]
        elif isinstance(batch, Mapping):
            check_mapping(batch, wanted.columns)
            yield batch
        elif (opened := table(batch, wanted)) is not None:
            yield from opened.batches(0)
        else:
            raise UnsupportedArgumentError(
                f"the iterable yields {type(batch).__name__}; it must yield DataFrames or mappings of arrays, or "
                "Arrow or polars tables."
            )

    def piece(batch: Any) -> Piece:
        if isinstance(batch, Mapping):
            check_mapping(batch, wanted.columns)  # which refuses a row by itself
        whole = isinstance(batch, pd.DataFrame | Mapping)
        rows = rows_of(batch) if whole else getattr(table(batch, wanted), "rows", None)
        return Piece(rows, lambda skip: beyond(each(batch), skip))

    def pieces() -> Iterator[Batch]:
        return (part for batch in data for part in each(batch))

    held = [piece(batch) for batch in data] if isinstance(data, list | tuple) else []
    dealt = dealt_pieces(lambda: held, wanted) if held and all(part.rows is not None for part in held) else None
    identity = list(data) if isinstance(data, tuple) else data if isinstance(data, list) else UNKNOWN
    again = not isinstance(data, Iterator)
    batches: Any = (lambda skip: beyond(pieces(), skip)) if again else once(pieces(), "the iterator of DataFrames")
    return Source("iterable of DataFrames", None, batches, identity, repeatable=again, dealt=dealt)
