"""Rows of other libraries' tables: Arrow's, polars', DuckDB's, and whatever hands out Arrow's streams."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from privreg.data.sources.arrow import as_bytes, pyarrow, read_stream
from privreg.data.sources.order import dealt_rows
from privreg.data.sources.source import CHUNK, Batch, Source, beyond, check_labels, file_mark, once
from privreg.errors import DataError, UnsupportedArgumentError, quietly
from privreg.files.optional import comes_from
from privreg.privacy.accounts import of_files

__all__ = ["open_feather", "open_object"]


def open_object(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source | None:
    """Rows of a table of another library; None if it isn't one."""
    opening = next((opened for package, name, opened in _KINDS if comes_from(data, package, name)), None)
    if opening is None and hasattr(data, "__arrow_c_stream__"):
        opening = _stream
    return None if opening is None else opening(data, columns, factors)


def _table(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    check_labels(columns, data.column_names, "the Arrow table")
    wanted = data.select(list(columns))

    def batches(skip: int) -> Iterator[Batch]:
        return read_stream(wanted.slice(skip).to_batches(), columns, factors, "the Arrow table")

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        pa = pyarrow("an Arrow table")
        order = dealt_rows(data.num_rows, key, skip, len(columns))
        parts = (wanted.take(pa.array(at)).combine_chunks() for at in order)
        return read_stream(_flat(parts), columns, factors, "the Arrow table")

    return Source("Arrow table", data.num_rows, batches, data, dealt=lambda key: partial(dealt, key))


def _record_batch(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    return replace(_table(pyarrow("Arrow data").Table.from_batches([data]), columns, factors), identity=data)


def _reader(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    check_labels(columns, data.schema.names, "the Arrow reader")
    rows = read_stream(data, columns, factors, "the Arrow reader")
    return Source("Arrow reader", None, once(rows, "the Arrow reader"), None, repeatable=False)


def _dataset(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    where = "the Arrow dataset"
    check_labels(columns, data.schema.names, where)

    def scan() -> Iterator[Any]:
        # little is read ahead (by default 16 batches of 4 files), and row groups are not held whole
        how: dict[str, Any] = {"batch_size": CHUNK, "batch_readahead": 1, "fragment_readahead": 1}
        if getattr(getattr(data, "format", None), "default_extname", None) == "parquet":
            options = pyarrow(where, "pyarrow.dataset").ParquetFragmentScanOptions
            how["fragment_scan_options"] = options(use_buffered_stream=True, buffer_size=1 << 16, pre_buffer=False)
        return iter(data.scanner(columns=list(columns), **how).to_batches())

    def count() -> int | None:
        try:
            return int(data.count_rows())
        except Exception:  # whatever is wrong with its files, reading them says so in words of our own
            return None

    files = [Path(name) for name in getattr(data, "files", ())]
    whose = of_files(files) if files and all(file.exists() for file in files) else data
    return Source("Arrow dataset", None, _again(scan, columns, factors, where), whose, count)


def _stream(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    what = f"the {type(data).__name__}"
    stream = pyarrow("a table that comes as an Arrow stream").RecordBatchReader.from_stream

    def parts() -> Any:
        reader = stream(data)
        check_labels(columns, reader.schema.names, what)
        return reader

    return Source(f"Arrow stream of {what[4:]}", None, _again(parts, columns, factors, what), data)


def _polars(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    pyarrow("a polars DataFrame")
    check_labels(columns, data.columns, "the polars DataFrame")
    wanted = data.select(list(columns))

    def batches(skip: int) -> Iterator[Batch]:
        parts = (wanted.slice(a, CHUNK).to_arrow() for a in range(skip, len(wanted), CHUNK))
        return read_stream(_flat(parts), columns, factors, "the polars DataFrame")

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        order = dealt_rows(len(wanted), key, skip, len(columns))
        parts = (wanted[at].rechunk().to_arrow() for at in order)
        return read_stream(_flat(parts), columns, factors, "the polars DataFrame")

    return Source("polars DataFrame", len(data), batches, data, dealt=lambda key: partial(dealt, key))


def _lazy(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    pyarrow("a polars LazyFrame")
    if not hasattr(data, "collect_batches"):
        raise UnsupportedArgumentError(
            "this version of polars can't hand out a LazyFrame batch by batch; update polars, or give lazy.collect(), "
            "or the file written by lazy.sink_parquet(path)."
        )
    where = "the polars LazyFrame"
    labels = quietly(data.collect_schema, DataError(f"{where}: its query can't be planned; try lazy.head().collect()."))
    check_labels(columns, labels.names(), where)
    wanted = data.select(list(columns))

    def parts() -> Iterator[Any]:
        return _flat(b.to_arrow() for b in wanted.collect_batches(chunk_size=CHUNK, maintain_order=True, lazy=True))

    return Source("polars LazyFrame", None, _again(parts, columns, factors, where), data)


def _relation(data: Any, columns: Sequence[str], factors: Collection[str]) -> Source:
    pyarrow("a DuckDB relation")
    where = "the DuckDB relation"
    check_labels(columns, data.columns, where)
    wanted = ", ".join(quoted(c) for c in columns)

    def parts() -> Any:
        found = data.project(wanted)
        read = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader
        return read(CHUNK)

    return Source("DuckDB relation", None, _again(parts, columns, factors, where), data)


_KINDS = (
    ("pyarrow", "Table", _table),
    ("pyarrow", "RecordBatch", _record_batch),
    ("pyarrow", "RecordBatchReader", _reader),
    ("pyarrow", "Dataset", _dataset),
    ("polars", "DataFrame", _polars),
    ("polars", "LazyFrame", _lazy),
    ("duckdb", "DuckDBPyRelation", _relation),
)


def open_feather(path: Path, columns: Sequence[str], factors: Collection[str]) -> Source:
    """Rows of a Feather or Arrow IPC file that exists."""
    ipc = pyarrow("a Feather file", "pyarrow.ipc")
    pa = pyarrow("a Feather file")
    damaged = DataError(
        f"{path.name}: not a readable Feather or Arrow IPC file (cut off, damaged, or of another kind); write it again."
    )

    def opened(**how: Any) -> Any:  # not mapped: pages of a mapped file would count as memory
        return ipc.open_file(pa.OSFile(str(path)), **how)

    names = quietly(lambda: list(opened().schema.names), damaged)
    check_labels(columns, names, path.name)
    fields = [names.index(c) for c in columns]

    def parts() -> Iterator[Any]:
        file = opened(options=ipc.IpcReadOptions(included_fields=fields, use_threads=False))
        return (_whole(file.get_batch(i)) for i in range(file.num_record_batches))

    def count() -> int | None:
        try:
            return int(pyarrow("a Feather file", "pyarrow.dataset").dataset(path, format="ipc").count_rows())
        except Exception:  # reading the rows says what is wrong
            return None

    batches = _again(parts, columns, factors, path.name)
    return Source(f"Feather file {path.name}", count(), batches, of_files([path]), stamp=lambda: [file_mark(path)])


def _whole(batch: Any) -> Any:
    """A batch off a file, whose buffers are taken as they are: a damaged one would be read beyond its end.

    Texts go as bytes: one that is no UTF-8 is its record's own affair, and no damage.
    """
    pa = pyarrow("a Feather file")
    out = pa.RecordBatch.from_arrays([as_bytes(column) for column in batch.columns], names=batch.schema.names)
    out.validate(full=True)
    return out


def quoted(name: str, mark: str = '"') -> str:
    """An SQL identifier, whatever is in it."""
    return mark + name.replace(mark, 2 * mark) + mark


def _again(make: Any, columns: Sequence[str], factors: Collection[str], where: str) -> Any:
    """Batches of Arrow parts that are made anew for every reader."""

    def batches(skip: int) -> Iterator[Batch]:
        parts = quietly(make, DataError(f"{where} can't be read; mend it, or its query."))
        return beyond(read_stream(parts, columns, factors, where), skip)

    return batches


def _flat(tables: Iterable[Any]) -> Iterator[Any]:
    return (batch for table in tables for batch in table.to_batches())
