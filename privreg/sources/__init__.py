"""Where rows come from: batches of raw columns from frames, arrays, iterables and files.

Only the columns asked for are touched. Nothing here computes anything from a value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.errors import DataError, UnsupportedArgumentError
from privreg.sources.csv import open_csv
from privreg.sources.frames import open_arrays, open_frame, open_frames, open_mapping
from privreg.sources.source import CHUNK, Batch, Source, rows_of

if TYPE_CHECKING:
    from privreg.schema import Schema

__all__ = ["CHUNK", "Batch", "Source", "open_arrays", "open_table", "rows_of"]


def open_table(data: Any, columns: tuple[str, ...], schema: Schema, text: Iterable[str] = ()) -> Source:
    """Rows held as a table of any supported kind.

    Parameters
    ----------
    data : DataFrame, mapping of str to array, str or Path of a CSV file, or iterable of DataFrames
    columns : tuple of str
        The only columns that are read.
    schema : Schema
        Public declarations, which say how text columns are to be read.
    text : iterable of str
        Columns that a CSV file's fields are kept of as they are written, such as ids: "007" is not 7.

    Raises
    ------
    DataError
        If the file is missing or the columns differ in length.
    UnsupportedArgumentError
        If `data` is of a kind that is not supported; the message lists what is.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return open_frame(data, columns)
    if isinstance(data, str | Path):
        return _file(Path(data), columns, schema, frozenset(text))
    if isinstance(data, Mapping):
        return open_mapping(data, columns)
    if isinstance(data, Iterable) and not isinstance(data, np.ndarray):
        return open_frames(data)
    raise UnsupportedArgumentError(
        f"data of type {type(data).__name__} can't be read; give a DataFrame, a mapping of arrays, the path of a "
        "CSV file, or an iterable of DataFrames."
    )


def _file(path: Path, columns: tuple[str, ...], schema: Schema, text: frozenset[str]) -> Source:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() in {".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".json", ".duckdb"}:
        raise UnsupportedArgumentError(
            f"{path.name!r} is not a CSV file; read it with pandas and give the DataFrame, or convert it to CSV."
        )
    return open_csv(path, columns, schema, text)
