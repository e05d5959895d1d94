"""Data sets written to files batch by batch, under another name until they are whole."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from privreg.errors import DataError
from privreg.files.optional import need

if TYPE_CHECKING:
    import pandas as pd

    _Write = Callable[[pd.DataFrame], None]


def write_frames(frames: Iterable[pd.DataFrame], target: Path, rows: int, *, parquet: bool, progress: bool) -> Path:
    """Write frames one after the other as one CSV or Parquet file.

    They go to a temporary file beside the target, which is renamed at the end: a run that fails or is interrupted
    leaves the target as it was.
    Raises DataError if the file can't be written there.
    """
    from tqdm import tqdm

    if target.is_dir():
        raise DataError(f"{str(target)!r} is a folder; give the name of a file.")
    part = target.with_name(f".{target.name}.{secrets.token_hex(6)}.part")
    try:
        with (
            (_parquet if parquet else _csv)(part) as write,
            tqdm(total=rows, unit=" rows", unit_scale=True, disable=None if progress else True) as bar,
        ):
            for frame in frames:
                write(frame)
                bar.update(len(frame))
        part.replace(target)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise DataError(
            f"can't write {str(target)!r} ({reason}); give a file in a folder that can be written."
        ) from None
    finally:
        part.unlink(missing_ok=True)
    return target


@contextmanager
def _csv(part: Path) -> Iterator[_Write]:
    with part.open("x", encoding="utf-8", newline="") as out:
        yield lambda frame: frame.to_csv(out, index=False, header=out.tell() == 0, lineterminator="\n")


@contextmanager
def _parquet(part: Path) -> Iterator[_Write]:
    """A row group a frame: few enough rows that a reader holds little."""
    pa, pq = (need(name, "arrow", "a Parquet file") for name in ("pyarrow", "pyarrow.parquet"))
    writer = None

    def write(frame: pd.DataFrame) -> None:
        nonlocal writer
        table = pa.Table.from_pandas(frame, preserve_index=False)
        attrs = {b"PANDAS_ATTRS": json.dumps(frame.attrs).encode()}  # as pandas' own to_parquet has it
        table = table.replace_schema_metadata({**(table.schema.metadata or {}), **attrs})
        writer = writer or pq.ParquetWriter(out, table.schema, write_page_checksum=True)
        writer.write_table(table)

    with part.open("xb") as out:
        try:
            yield write
        finally:  # also of a run that failed: an open writer would complain when it is collected
            if writer is not None:
                writer.close()
