"""Rows of other libraries' tables: Arrow's, polars', DuckDB's, and whatever hands out Arrow's streams."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from operator import attrgetter
from typing import Any, Final, NamedTuple

import pyarrow as pa

from privreg.data.sources.arrow import read_stream, streamed
from privreg.data.sources.order import Piece, dealt_pieces, held_rows
from privreg.data.sources.source import CHUNK, Source, Wanted, check_labels, once
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.files.optional import comes_from
from privreg.privacy.accounts import UNKNOWN, accounts_of


class Kind(NamedTuple):
    """A kind of other libraries' tables."""

    package: str
    type: str
    called: str
    labels: Callable[[Any], Iterable[str]] | None  # Names of columns, unread; None if only reading tells them
    rows: Callable[[Any, Wanted], Source]

    def check(self, data: Any, columns: Iterable[str]) -> list[str] | None:
        """Refuse a table without one of the columns, and return the names of those it has, if they are told unread."""
        if self.labels is None:
            return None
        labels = list(self.labels(data))
        check_labels(columns, labels, f"the {self.called}")
        return labels


def kind_of_table(data: Any) -> Kind | None:
    """The kind of a table of another library; None if it isn't one."""
    stream = Kind("", "", type(data).__name__, None, _stream) if hasattr(data, "__arrow_c_stream__") else None
    return next((kind for kind in _KINDS if comes_from(data, kind.package, kind.type)), stream)


def _opened(
    kind: str, data: Any, labels: Iterable[Any], make: Callable[[], Iterable[Any]], wanted: Wanted, **more: Any
) -> Source:
    """A source of what `make` gives, Arrow record batches of the columns that are wanted."""
    check_labels(wanted.columns, labels, f"the {kind}")
    known = {"rows": None, "identity": data, **more}
    return Source(kind, batches=streamed(make, wanted, f"the {kind}"), **known)


def _held(data: Any, wanted: Wanted) -> Source:
    """A table in memory, of Arrow or polars."""
    arrow = hasattr(data, "column_names")
    kind, labels = ("Arrow table", data.column_names) if arrow else ("polars DataFrame", data.columns)

    def part(a: int) -> Iterable[Any]:
        some = data.select(list(wanted.columns)).slice(a, CHUNK)
        batches: Iterable[Any] = (some if arrow else some.to_arrow()).to_batches()
        return batches

    def make() -> Iterator[Any]:
        return (batch for a in range(0, len(data), CHUNK) for batch in part(a))

    def pieces() -> Iterator[Piece]:
        for a in range(0, len(data), CHUNK):
            yield Piece(min(CHUNK, len(data) - a), streamed(partial(part, a), wanted, f"the {kind}"))

    source = _opened(kind, data, labels, make, wanted, rows=len(data))
    return replace(source, dealt=dealt_pieces(pieces, wanted))


def _record_batch(data: Any, wanted: Wanted) -> Source:
    return replace(_held(pa.Table.from_batches([data]), wanted), identity=data)


def _reader(data: Any, wanted: Wanted) -> Source:
    where = "the Arrow reader"
    check_labels(wanted.columns, data.schema.names, where)
    return Source("Arrow reader", None, once(read_stream(data, wanted, where), where), UNKNOWN, repeatable=False)


def _dataset(data: Any, wanted: Wanted) -> Source:
    # little is read ahead (by default 16 batches of 4 files), and row groups are not held whole
    how: dict[str, Any] = {"columns": list(wanted.columns), "batch_size": CHUNK, "batch_readahead": 1}
    if getattr(getattr(data, "format", None), "default_extname", None) == "parquet":
        options = import_module("pyarrow.dataset").ParquetFragmentScanOptions
        how["fragment_scan_options"] = options(use_buffered_stream=True, buffer_size=1 << 16, pre_buffer=False)

    def make() -> Any:
        return data.scanner(fragment_readahead=1, **how).to_batches()

    def pieces() -> Iterator[Piece]:
        for fragment in data.get_fragments():
            for part in fragment.split_by_row_group() if hasattr(fragment, "split_by_row_group") else [fragment]:
                yield Piece(part.count_rows(), streamed(partial(read, part), wanted, "the Arrow dataset"))

    def read(part: Any) -> Any:
        return part.scanner(schema=data.schema, **how).to_batches()

    def count() -> int | None:
        try:
            return int(data.count_rows())
        except Exception:  # whatever is wrong with its files, reading them says so in words of our own
            return None

    source = _opened("Arrow dataset", data, data.schema.names, make, wanted, count=count)
    try:
        data.get_fragments()
    except ValueError:  # Arrow hands out no pieces of a dataset that is filtered
        return _by_position(source, wanted)
    broken = DataError("the Arrow dataset can't be read; mend its files.")
    return replace(source, dealt=dealt_pieces(lambda: quietly(lambda: list(pieces()), broken), wanted))


def _by_position(source: Source, wanted: Wanted) -> Source:
    """A source whose rows come one after another, dealt among as many as can be held."""
    dealt = dealt_pieces(lambda: [Piece(None, source.batches)], wanted)
    return replace(source, dealt=dealt, mixed=held_rows(len(wanted.columns)))


def _stream(data: Any, wanted: Wanted) -> Source:
    name = type(data).__name__

    def make() -> Any:
        reader = pa.RecordBatchReader.from_stream(data)
        check_labels(wanted.columns, reader.schema.names, f"the {name}")
        return reader

    return Source(f"Arrow stream of {name}", None, streamed(make, wanted, f"the {name}"), data)


def _lazy(data: Any, wanted: Wanted) -> Source:
    if not hasattr(data, "collect_batches"):
        raise UnsupportedArgumentError(
            "this version of polars can't hand out a LazyFrame batch by batch; update polars, or give lazy.collect(), "
            "or the file written by lazy.sink_parquet(path)."
        )

    def make() -> Iterator[Any]:
        held = data.select(list(wanted.columns))
        return _flat(held.collect_batches(chunk_size=CHUNK, maintain_order=True, lazy=True))

    return _by_position(_opened("polars LazyFrame", data, _planned(data), make, wanted), wanted)


def _planned(data: Any) -> list[str]:
    unplanned = DataError("the polars LazyFrame: its query can't be planned; try lazy.head().collect().")
    return list(quietly(data.collect_schema, unplanned).names())


def open_relation(data: Any, wanted: Wanted) -> Source:
    """Rows of a relation of DuckDB."""

    def make() -> Any:
        found = data.project(", ".join(quoted(c) for c in wanted.columns))
        read = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader
        return read(CHUNK)

    source = _opened("DuckDB relation", data, data.columns, make, wanted)
    return _by_position(replace(source, identity=accounts_of(data)), wanted)  # now, as no rows are read yet


_names, _columns = attrgetter("schema.names"), attrgetter("columns")

_KINDS: Final = (
    Kind("pyarrow", "Table", "Arrow table", _names, _held),
    Kind("pyarrow", "RecordBatch", "Arrow table", _names, _record_batch),
    Kind("pyarrow", "RecordBatchReader", "Arrow reader", _names, _reader),
    Kind("pyarrow", "Dataset", "Arrow dataset", _names, _dataset),
    Kind("polars", "DataFrame", "polars DataFrame", _columns, _held),
    Kind("polars", "LazyFrame", "polars LazyFrame", _planned, _lazy),
    Kind("duckdb", "DuckDBPyRelation", "DuckDB relation", _columns, open_relation),
)


def quoted(name: str, mark: str = '"') -> str:
    """An SQL identifier, whatever is in it."""
    return mark + name.replace(mark, 2 * mark) + mark


def _flat(frames: Iterable[Any]) -> Iterator[Any]:
    return (batch for frame in frames for batch in frame.to_arrow().to_batches())
