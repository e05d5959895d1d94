"""Rows of Parquet files, one, a folder or a list of them, read a row group at a time; and of Feather files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import numpy as np
import pyarrow as pa

from privreg.data.sources.arrow import DAMAGED, as_bytes, batches_of, kind_of, streamed
from privreg.data.sources.source import (
    CHUNK,
    Batch,
    Piece,
    Source,
    Wanted,
    ahead,
    chained,
    check_labels,
    dealt_pieces,
    file_mark,
    first,
    held_rows,
)
from privreg.errors import DataError, quietly
from privreg.privacy.accounts import of_files

_READ: Final[dict[str, Any]] = {"memory_map": False, "pre_buffer": False, "buffer_size": 1 << 16}
"""Pages come through a small buffer; whole columns of a row group, or a mapped file, would be held in memory."""

OPEN: Final = 32  # Files that are open at a time


class _File(NamedTuple):
    """Content of a file's footer."""

    path: Path
    name: str
    groups: tuple[int, ...]
    kinds: Mapping[str, str]
    folders: Mapping[str, str | None]  # Columns that it hasn't, which the folders' names give


def partitions(path: Path) -> dict[str, str | None]:
    """Columns that the names of a file's folders give, as in ``year=2020/month=1``; None stands for a missing value."""
    parts = (part.partition("=") for part in path.parent.parts)
    texts = {unquote(name): unquote(text) for name, equals, text in parts if name and equals}
    return {name: None if text == "__HIVE_DEFAULT_PARTITION__" else text for name, text in texts.items()}


def open_parquet(files: Mapping[str, Path], wanted: Wanted, kind: str) -> Source:
    """Rows of Parquet files that exist, in their order; `files` are by the names that messages call them."""
    held = [_footer(name, path, wanted.columns) for name, path in files.items()]
    _check_kinds(held)

    blocks = [(place, group) for place, file in enumerate(held) for group in range(len(file.groups))]

    def read(how: Callable[[list[Piece], int], Iterator[Batch]], skip: int, most: int = CHUNK) -> Iterator[Batch]:
        opened: dict[int, Any] = {}

        def at(place: int) -> Any:  # the footer of a file with a thousand row groups takes as long as one of these
            if place not in opened and len(opened) == OPEN:
                opened.pop(next(iter(opened))).close()
            opened[place] = opened.get(place) or _open(held[place], wanted)
            return opened[place]

        try:
            groups = [
                Piece(held[i].groups[k], partial(_group, partial(at, i), held[i], k, wanted, most)) for i, k in blocks
            ]
            yield from how(groups, skip)
        finally:
            for file in opened.values():
                file.close()

    def dealt(key: bytes | None, groups: list[Piece], skip: int) -> Iterator[Batch]:
        return dealt_pieces(lambda: groups, wanted)(key)(skip)

    paths = [file.path for file in held]
    return Source(
        kind,
        sum(sum(file.groups) for file in held),
        lambda skip: ahead(read(chained, skip)),
        of_files(paths),
        stamp=lambda: [file_mark(path) for path in paths],
        part=lambda skip, rows: first(read(chained, skip), rows),
        dealt=lambda key: lambda skip: ahead(read(partial(dealt, key), skip, held_rows(len(wanted.columns)))),
        blocks=tuple(n for file in held for n in file.groups),
    )


def _footer(name: str, path: Path, columns: Sequence[str]) -> _File:
    import pyarrow.parquet as pq

    def read() -> tuple[tuple[int, ...], dict[str, str], list[str]]:
        with pq.ParquetFile(path, **_READ) as opened:
            meta, schema = opened.metadata, opened.schema_arrow
            groups = tuple(meta.row_group(g).num_rows for g in range(meta.num_row_groups))
            return groups, {f.name: kind_of(f.type) for f in schema if f.name in columns}, schema.names

    groups, kinds, names = quietly(read, DataError(f"{name}: {DAMAGED['Parquet']}"))
    folders = {c: text for c, text in partitions(path).items() if c in columns and c not in names}
    check_labels(columns, [*names, *folders], name)
    return _File(path, name, groups, kinds | dict.fromkeys(folders, "empty"), folders)


def _check_kinds(files: Sequence[_File]) -> None:
    """Refuse files in which a column is of another kind; one without any value in a file goes with all kinds."""
    first: dict[str, tuple[str, str]] = {}
    for file in files:
        for column, kind in file.kinds.items():
            want, where = (kind, file.name) if kind == "empty" else first.setdefault(column, (kind, file.name))
            if kind != want:
                raise DataError(
                    f"{file.name}: column {column!r} is {kind} here and {want} in {where}; write the files again with "
                    "the same types."
                )


def _open(file: _File, wanted: Wanted) -> Any:
    """A file whose footer says what it said before."""
    import pyarrow.parquet as pq

    coded = [c for c in wanted.columns if c in wanted.coded and file.kinds[c] == "text"]
    # checksums, where the file has them: a flipped bit in a number can't be found otherwise
    opened = quietly(
        lambda: pq.ParquetFile(file.path, read_dictionary=coded, page_checksum_verification=True, **_READ),
        DataError(f"{file.name}: {DAMAGED['Parquet']}"),
    )
    meta = opened.metadata
    if tuple(meta.row_group(g).num_rows for g in range(meta.num_row_groups)) != file.groups:
        opened.close()
        raise DataError(f"{file.name} was changed after it was opened; build the model again.")
    return opened


def _group(opened: Callable[[], Any], file: _File, group: int, wanted: Wanted, most: int, skip: int) -> Iterator[Batch]:
    where = f"{file.name}, row group {group}"
    broken = DataError(f"{where}: it is damaged; write or download the file again.")
    # by batches in one thread: reading costs a tenth of a fit, and threads hold more of a row group at a time
    columns, held = [c for c in wanted.columns if c not in file.folders], opened()
    parts = quietly(
        lambda: held.iter_batches(most, row_groups=[group], columns=columns, use_threads=most > CHUNK), broken
    )
    read = 0
    while (part := quietly(lambda: next(parts, None), broken)) is not None:
        n = part.num_rows
        if read + n > skip:
            yield from batches_of(_with(part.slice(max(skip - read, 0)), file.folders), wanted, where, most)
        read += n
    if read != file.groups[group]:
        raise broken


def _with(part: Any, folders: Mapping[str, str | None]) -> Any:
    """A record batch with the columns that its folders' names give."""
    if not folders:
        return part
    codes = pa.array(np.zeros(part.num_rows, dtype=np.int32))
    more = [pa.DictionaryArray.from_arrays(codes, pa.array([text], pa.string())) for text in folders.values()]
    return pa.RecordBatch.from_arrays([*part.columns, *more], names=[*part.schema.names, *folders])


def open_feather(path: Path, wanted: Wanted) -> Source:
    """Rows of a Feather or Arrow IPC file that exists."""
    damaged = DataError(f"{path.name}: {DAMAGED['Feather']}")

    def opened(**how: Any) -> Any:  # not mapped: pages of a mapped file would count as memory
        return pa.ipc.open_file(pa.OSFile(str(path)), **how)

    names = quietly(lambda: list(opened().schema.names), damaged)
    check_labels(wanted.columns, names, path.name)
    fields = [names.index(c) for c in wanted.columns]

    def parts() -> Iterator[Any]:
        file = opened(options=pa.ipc.IpcReadOptions(included_fields=fields, use_threads=False))
        return (_whole(file.get_batch(i)) for i in range(file.num_record_batches))

    def count() -> int | None:
        try:
            return int(import_module("pyarrow.dataset").dataset(path, format="ipc").count_rows())
        except Exception:  # reading the rows says what is wrong
            return None

    batches = streamed(parts, wanted, path.name)
    return Source(f"Feather file {path.name}", count(), batches, of_files([path]), stamp=lambda: [file_mark(path)])


def _whole(batch: Any) -> Any:
    """A batch off a file, whose buffers are taken as they are: a damaged one would be read beyond its end.

    Texts go as bytes: one that is no UTF-8 is its record's own affair, and no damage.
    """
    out = pa.RecordBatch.from_arrays([as_bytes(column) for column in batch.columns], names=batch.schema.names)
    out.validate(full=True)
    return out
