"""Rows of tables: arrays, DataFrames, mappings and lists of them; Arrow's, polars' and DuckDB's; streams of Arrow's."""

from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from privreg.base.optional import recent
from privreg.data.cells import Taken, coded_texts, plain_vector, taken, unmasked
from privreg.data.columns import check_mapping, row_labels
from privreg.data.sources.arrow import streamed
from privreg.data.sources.source import (
    CHUNK,
    Batch,
    Piece,
    Source,
    Wanted,
    beyond,
    check_labels,
    dealt_pieces,
    dealt_rows,
    held_rows,
    of_pieces,
    once,
    part_of,
    rows_of,
)
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.privacy.accounts import UNKNOWN, accounts_of, comes_from, of_columns, of_mapping


class Table(NamedTuple):
    """Data of a model, by kind: their public facts, and the reading of their rows."""

    rows: Callable[[Wanted], Source]
    # Refuses columns that it doesn't have, and returns the names of those it has; None where only reading tells them
    check: Callable[[Collection[str]], list[Any] | None] = lambda columns: None
    # Carriers of declarations, by their name in messages: of Arrow its schema, others themselves
    holders: Callable[[], Iterable[tuple[str, Any]]] = tuple


class Kind(NamedTuple):
    """A kind of other libraries' tables, each of which hands out Arrow record batches."""

    called: str
    labels: Callable[[Any], Iterable[str]] | None  # Names of columns, unread; None if only reading tells them
    batches: Callable[[Any, list[str]], Iterable[Any]]  # of some columns of it
    # Further arguments of the source of its rows
    more: "Callable[[Kind, Source, Wanted], Source]" = lambda kind, source, wanted: source


def foreign(data: Any) -> Table | None:
    """A table of another library; None of anything else."""
    package, known = next(((names[0], kind) for names, kind in _KINDS if comes_from(data, *names)), ("pyarrow", None))
    if known is None and not hasattr(data, "__arrow_c_stream__"):
        return None
    recent("pyarrow", package)
    name = type(data).__name__

    def stream(data: Any, columns: list[str]) -> Any:
        reader = pa.RecordBatchReader.from_stream(data)
        check_labels(columns, reader.schema.names, f"the {name}")
        return reader

    kind = known or Kind(name, None, stream, lambda kind, source, _: replace(source, kind=f"Arrow stream of {name}"))

    def check(columns: Collection[str]) -> list[Any] | None:
        return None if kind.labels is None else check_labels(columns, kind.labels(data), f"the {kind.called}")

    def rows(wanted: Wanted) -> Source:
        check(wanted.columns)
        batches = streamed(partial(kind.batches, data, list(wanted.columns)), wanted, f"the {kind.called}")
        return kind.more(kind, Source(kind.called, None, batches, data), wanted)

    return Table(rows, check)


def _held(kind: Kind, source: Source, wanted: Wanted) -> Source:
    """A table in memory, whose rows are counted, and of which some can be taken."""
    data, columns = source.identity, list(wanted.columns)

    def pieces() -> Iterator[Piece]:
        for a in range(0, len(data), CHUNK):
            make = partial(kind.batches, data.slice(a, CHUNK), columns)
            yield Piece(min(CHUNK, len(data) - a), streamed(make, wanted, f"the {kind.called}"))

    return of_pieces(replace(source, rows=len(data)), pieces, wanted)


def _scanner(data: Any, columns: list[str], **more: Any) -> Any:
    """Record batches of a dataset or a fragment, of which little is read ahead; row groups are not held whole."""
    how: dict[str, Any] = {"columns": columns, "batch_size": CHUNK, "batch_readahead": 1, **more}
    if getattr(getattr(data, "format", None), "default_extname", None) == "parquet":
        options = import_module("pyarrow.dataset").ParquetFragmentScanOptions
        how["fragment_scan_options"] = options(use_buffered_stream=True, buffer_size=1 << 16, pre_buffer=False)
    return data.scanner(**how).to_batches()


def _fragments(kind: Kind, source: Source, wanted: Wanted) -> Source:
    """A dataset, which is dealt by its row groups."""
    data, source = source.identity, replace(source, count=source.identity.count_rows)

    def pieces() -> Iterator[Piece]:
        for fragment in data.get_fragments():
            for part in fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]:
                make = partial(_scanner, part, list(wanted.columns), schema=data.schema)
                yield Piece(part.count_rows(), streamed(make, wanted, f"the {source.kind}"))

    try:
        data.get_fragments()
    except ValueError:  # Arrow hands out no pieces of a dataset that is filtered
        return _by_position(kind, source, wanted)
    broken = DataError("the Arrow dataset can't be read; mend its files.")
    return replace(source, dealt=dealt_pieces(lambda: quietly(lambda: list(pieces()), broken), wanted))


def _by_position(kind: Kind, source: Source, wanted: Wanted) -> Source:
    """A source whose rows come one after another, dealt among as many as can be held."""
    data, dealt = source.identity, dealt_pieces(lambda: [Piece(None, source.batches)], wanted)
    # a relation is known by its accounts now, as no rows are read yet
    whose = accounts_of(data) if kind.called == "DuckDB relation" else data
    return replace(source, dealt=dealt, mixed=held_rows(len(wanted.columns)), identity=whose)


def _once(kind: Kind, source: Source, wanted: Wanted) -> Source:
    return replace(source, batches=once(source.batches(0), f"the {kind.called}"), identity=UNKNOWN, repeatable=False)


def _selected(data: Any, columns: list[str]) -> Any:
    """Record batches of some columns of whatever has `select` or `project`."""
    if hasattr(data, "project"):
        found = data.project(", ".join(quoted(c) for c in columns))
        return (found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader)(CHUNK)
    found = data.select(columns)
    if hasattr(found, "collect_batches"):
        frames = found.collect_batches(chunk_size=CHUNK, maintain_order=True, lazy=True)
        return (batch for frame in frames for batch in frame.to_arrow().to_batches())
    held = found.to_arrow() if hasattr(found, "to_arrow") else found
    return list(held.to_batches()) if hasattr(held, "to_batches") else [held]  # pyarrow 18 breaks at tables of tables


def _planned(data: Any) -> Any:
    wrong = DataError("the polars LazyFrame: its query can't be planned; try lazy.head().collect().")
    return quietly(data.collect_schema, wrong).names()


_names, _columns = attrgetter("schema.names"), attrgetter("columns")
_KINDS: Final = (
    (("pyarrow", "Table", "RecordBatch"), Kind("Arrow table", _names, _selected, _held)),
    (("pyarrow", "RecordBatchReader"), Kind("Arrow reader", _names, lambda data, columns: data, _once)),
    (("pyarrow", "Dataset"), Kind("Arrow dataset", _names, partial(_scanner, fragment_readahead=1), _fragments)),
    (("polars", "DataFrame"), Kind("polars DataFrame", _columns, _selected, _held)),
    (("polars", "LazyFrame"), Kind("polars LazyFrame", _planned, _selected, _by_position)),
    (("duckdb", "DuckDBPyRelation"), Kind("DuckDB relation", _columns, _selected, _by_position)),
)
"""Kinds by the package and the classes that tables of them are of."""


def quoted(name: str, mark: str = '"') -> str:
    """An SQL identifier, whatever is in it."""
    return mark + name.replace(mark, 2 * mark) + mark


# --- arrays, DataFrames, mappings and lists ----------------------------------------------------------------


def open_arrays(parts: tuple[Any, Any, Any, Any], whose: Iterable[Any] = ()) -> Source:
    """Rows held as arrays: endog and exog, shapes (n,) and (n, p), offset and exposure, (n,) or None.

    `whose` are the objects that they came in, by which the ledger knows their people.
    """

    def deal(at: NDArray[np.int64]) -> Batch:
        return tuple(None if part is None else taken(part, at) for part in parts)

    return _in_memory("arrays", len(parts[0]), of_columns(whose), lambda: parts, deal, parts[1].shape[1])


def _in_memory(
    kind: str, n: int, identity: Any, rows: Callable[[], Batch], deal: Callable[[Any], Batch], width: int
) -> Source:
    """Rows that are held; `rows` are what whoever reads all is given, and `deal` some of them."""

    def batches(skip: int) -> Iterator[Batch]:
        return (part_of(rows(), slice(a, a + CHUNK)) for a in range(skip, n, CHUNK))

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        return (deal(at) for at in dealt_rows(n, key, skip, width))

    return Source(kind, n, batches, identity, dealt=lambda key: partial(dealt, key), at=deal)


def _columnwise(kind: str, given: Mapping[str, Any], n: int, identity: Any, texts: Container[str]) -> Source:
    """Rows of columns that are held; those of another library, such as a file's, may be sliced only."""
    columns = dict[str, Any]()  # without index and copy: slices of single ones are views
    for name, column in given.items():  # plain arrays of numbers, pandas' own of the rest
        plain = isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind in "biuf"
        columns[name] = np.asarray(column) if plain else getattr(column, "array", column)

    @cache
    def coded() -> Mapping[str, Any]:  # once somebody reads all rows
        return {name: coded_texts(values) if name in texts else values for name, values in columns.items()}

    source = _in_memory(kind, n, identity, coded, lambda at: Taken(coded(), at), len(columns))
    free = all(isinstance(v, np.ndarray | pd.api.extensions.ExtensionArray) for v in columns.values())
    return source if free else replace(source, dealt=None, at=None)


def open_frame(data: Any, wanted: Wanted) -> Source:
    """Rows of a DataFrame, as they are now: others may take the place of columns in the frame."""
    check_labels(wanted.columns, data.columns)
    return _columnwise("DataFrame", {c: data[c] for c in wanted.columns}, len(data), accounts_of(data), wanted.coded)


def open_mapping(data: Mapping[str, Any], wanted: Wanted) -> Source:
    """Rows of a mapping of arrays."""
    check_labels(wanted.columns, data)
    given = {c: data[c] for c in wanted.columns}
    held = dict[str, Any]()
    for c, column in given.items():
        wrong = DataError(f"column {c!r} of the mapping must be one-dimensional, with one number or level a row.")
        values = unmasked(column)
        held[c] = values if hasattr(values, "dtype") else quietly(partial(plain_vector, values), wrong)
        if getattr(held[c], "ndim", 0) != 1:
            raise wrong
    n = len(next(iter(held.values())))
    if any(len(values) != n for values in held.values()):
        raise DataError("the columns of the mapping differ in length.")
    row_labels(data, wanted.columns)
    return _columnwise("mapping of arrays", held, n, of_mapping(data, given.values()), wanted.coded)


def open_frames(data: Iterable[Any], wanted: Wanted) -> Source:
    """Rows of an iterable's DataFrames, or mappings of arrays, or tables of another library."""

    def piece(batch: Any) -> Piece:
        if isinstance(batch, pd.DataFrame):
            n = len(batch)  # also of none, whose columns are looked at
            return Piece(n, lambda skip: (batch.iloc[a : a + CHUNK] for a in range(skip, max(n, 1), CHUNK)))
        if isinstance(batch, Mapping):
            check_mapping(batch, wanted.columns)  # which refuses a row by itself
            return Piece(rows_of(batch), lambda skip: beyond([batch], skip))
        if (found := foreign(batch)) is None:
            raise UnsupportedArgumentError(
                f"the iterable yields {type(batch).__name__}; it must yield DataFrames or mappings of arrays, or "
                "Arrow or polars tables."
            )
        source = found.rows(wanted)
        return Piece(source.rows, source.batches)

    def pieces() -> Iterator[Batch]:
        return (part for batch in data for part in piece(batch).batches(0))

    held = [piece(batch) for batch in data] if isinstance(data, list | tuple) else []
    dealt = dealt_pieces(lambda: held, wanted) if held and all(part.rows is not None for part in held) else None
    identity = list(data) if isinstance(data, tuple) else data if isinstance(data, list) else UNKNOWN
    again = not isinstance(data, Iterator)
    batches: Any = (lambda skip: beyond(pieces(), skip)) if again else once(pieces(), "the iterator of DataFrames")
    return Source("iterable of DataFrames", None, batches, identity, repeatable=again, dealt=dealt)
