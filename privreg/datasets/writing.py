"""Synthetic data as files, of any number of rows in constant memory."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pandas as pd

from privreg.datasets.synthetic import RIDE_SHARING, SEED, US_INSURANCE, Recipe, blocks_of, frame_of
from privreg.errors import DataError, choose, whole

RECIPES: Final[dict[str, Recipe]] = {"us_insurance": US_INSURANCE, "ride_sharing": RIDE_SHARING}


def write_csv(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as CSV, in constant memory; the rows are those of the function of the same name.

    They go to a temporary file beside the target, which is renamed at the end: a run that fails or is interrupted
    leaves the target as it was.

    Parameters
    ----------
    name : {"us_insurance", "ride_sharing"}
        Which data; hyphens are read as underscores.
    path : path-like
        The file to write, which is returned; it is replaced if it exists.
    rows : int
    seed : int, optional
        Seed of the synthetic data; the data set's own default if not given.
    progress : bool
        Show a progress bar, if standard error is a terminal.

    Raises
    ------
    OptionError
        If the name, the number of rows or the seed isn't allowed.
    DataError
        If the file can't be written there.
    """
    return _written(name, path, rows, seed, progress, parquet=False)


def write_parquet(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None = None, progress: bool = True
) -> Path:
    """Write a synthetic data set as Parquet, factors as dictionary columns; as :func:`write_csv` otherwise."""
    return _written(name, path, rows, seed, progress, parquet=True)


def _written(
    name: str, path: str | os.PathLike[str], rows: int, seed: int | None, progress: bool, *, parquet: bool
) -> Path:
    key = name.replace("-", "_") if isinstance(name, str) else name
    recipe = RECIPES[choose("name", key, RECIPES)]
    total = whole("rows", rows, 1)
    blocks = blocks_of(recipe, total, SEED if seed is None else whole("seed", seed, 0))
    frames = (frame_of(recipe, columns, labels=True) for columns in blocks)
    return _write(frames, Path(path), total, parquet=parquet, progress=progress)


def _write(frames: Iterable[pd.DataFrame], target: Path, rows: int, *, parquet: bool, progress: bool) -> Path:
    """Frames one after the other as one CSV or Parquet file."""
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
def _csv(part: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    with part.open("x", encoding="utf-8", newline="") as out:
        yield lambda frame: frame.to_csv(out, index=False, header=out.tell() == 0, lineterminator="\n")


@contextmanager
def _parquet(part: Path) -> Iterator[Callable[[pd.DataFrame], None]]:
    """A row group a frame: few enough rows that a reader holds little."""
    import pyarrow as pa
    import pyarrow.parquet as pq

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
