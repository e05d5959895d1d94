"""Rows of Feather and Arrow IPC files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from privreg.data.sources.arrow import DAMAGED, as_bytes, pyarrow, streamed
from privreg.data.sources.source import Source, Wanted, check_labels, file_mark
from privreg.errors import DataError, quietly
from privreg.privacy.accounts import of_files


def open_feather(path: Path, wanted: Wanted) -> Source:
    """Rows of a Feather or Arrow IPC file that exists."""
    ipc, pa = pyarrow("a Feather file", "pyarrow.ipc"), pyarrow("a Feather file")
    damaged = DataError(f"{path.name}: {DAMAGED['Feather']}")

    def opened(**how: Any) -> Any:  # not mapped: pages of a mapped file would count as memory
        return ipc.open_file(pa.OSFile(str(path)), **how)

    names = quietly(lambda: list(opened().schema.names), damaged)
    check_labels(wanted.columns, names, path.name)
    fields = [names.index(c) for c in wanted.columns]

    def parts() -> Iterator[Any]:
        file = opened(options=ipc.IpcReadOptions(included_fields=fields, use_threads=False))
        return (_whole(file.get_batch(i)) for i in range(file.num_record_batches))

    def count() -> int | None:
        try:
            return int(pyarrow("a Feather file", "pyarrow.dataset").dataset(path, format="ipc").count_rows())
        except Exception:  # reading the rows says what is wrong
            return None

    batches = streamed(parts, wanted, path.name)
    return Source(f"Feather file {path.name}", count(), batches, of_files([path]), stamp=lambda: [file_mark(path)])


def _whole(batch: Any) -> Any:
    """A batch off a file, whose buffers are taken as they are: a damaged one would be read beyond its end.

    Texts go as bytes: one that is no UTF-8 is its record's own affair, and no damage.
    """
    pa = pyarrow("a Feather file")
    out = pa.RecordBatch.from_arrays([as_bytes(column) for column in batch.columns], names=batch.schema.names)
    out.validate(full=True)
    return out
