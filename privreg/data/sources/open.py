"""Where rows come from: batches of raw columns from frames, arrays, iterables, files, databases and other tables.

Only the columns asked for are touched. Nothing here computes anything from a value.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from privreg.data.columns import check_mapping
from privreg.data.sources.csv import Csv
from privreg.data.sources.database import Sql, open_sql
from privreg.data.sources.files import is_dask, open_files, paths_of
from privreg.data.sources.frames import open_arrays, open_frame, open_frames, open_mapping
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, chunk_of, file_mark, first, pieces, rows_of
from privreg.data.sources.tables import labels_of_object, open_object
from privreg.errors import UnsupportedArgumentError
from privreg.files.optional import comes_from
from privreg.schema.declarations import Schema

__all__ = [
    "CHUNK",
    "Batch",
    "Source",
    "as_frame",
    "chunk_of",
    "file_mark",
    "first",
    "one_batch",
    "open_arrays",
    "open_table",
    "pieces",
    "rows_of",
]

_QUERY: Final = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)


def open_table(data: Any, columns: tuple[str, ...], schema: Schema, text: Iterable[str] = ()) -> Source:
    """Rows held as a table of any supported kind; only `columns` are read, `text` ones off CSV as they are written.

    Paths are of CSV, Parquet and Feather files, or of a folder of Parquet files; SQL comes by `privreg.sql`. A Dask
    DataFrame stands for the Parquet files it was read from.

    Raises
    ------
    DataError
        If the file is missing or the columns differ in length.
    MissingExtraError
        If the package that reads it is not installed.
    UnsupportedArgumentError
        If `data` is of a kind that is not supported; the message lists what is.
    """
    import pandas as pd

    wanted = Wanted(columns, schema, frozenset(text))
    if isinstance(data, pd.DataFrame):
        return open_frame(data, wanted)
    if isinstance(data, np.ndarray | pd.Series | pd.Index) or comes_from(data, "polars", "Series"):
        raise _unsupported(data)
    if isinstance(data, str) and _QUERY.match(data) and not Path(data[:255]).exists():
        raise UnsupportedArgumentError(
            "a string is the path of a file; an SQL query is given as pr.sql(query, connection)."
        )
    if isinstance(data, str | Path):
        return open_files(Path(data), wanted)
    if isinstance(data, list | tuple) and data and all(isinstance(path, str | Path) for path in data):
        return open_files([Path(path) for path in data], wanted)
    if isinstance(data, Csv):
        return open_files(data.files, wanted, data)
    if isinstance(data, Sql):
        return open_sql(data, wanted)
    if is_dask(data):
        return replace(open_files(paths_of(data), wanted), kind="Dask DataFrame", parts=True)
    table = open_object(data, wanted)
    if table is not None:
        return table
    if isinstance(data, Mapping):
        return open_mapping(data, wanted)
    if isinstance(data, Iterable):
        return open_frames(data, lambda batch: open_object(batch, wanted), wanted)
    raise _unsupported(data)


def _unsupported(data: Any) -> UnsupportedArgumentError:
    return UnsupportedArgumentError(
        f"data of type {type(data).__name__} can't be read; give a DataFrame (pandas or polars), a mapping of arrays, "
        "the path of a CSV file or of Parquet files, an Arrow or DuckDB table, pr.sql(query, connection), or an "
        "iterable of DataFrames. Rows one by one are made a DataFrame by pd.DataFrame(list(rows))."
    )


def one_batch(data: Any, columns: tuple[str, ...], schema: Schema) -> Any:
    """A table of another library as one batch of the encoders; anything else as it is.

    Raises
    ------
    DataError
        If a table lacks one of the columns, or can't be read, or a mapping's columns are no columns of one table.
    """
    if isinstance(data, Mapping):
        check_mapping(data, columns)
    return as_frame(data, columns, schema)


def as_frame(data: Any, columns: tuple[str, ...] | None = None, schema: Schema | None = None) -> Any:
    """A table of another library as a DataFrame of these columns, all by default; anything else as it is."""
    import pandas as pd

    columns = tuple((labels_of_object(data) or ("", ()))[1]) if columns is None else columns
    if isinstance(data, pd.DataFrame | Mapping | tuple) or len(getattr(data, "shape", (0, 0))) == 1:
        return data
    table = open_object(data, Wanted(columns, schema or Schema()))
    if table is None:
        return data
    parts = [pd.DataFrame(part) for part in table.batches(0)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({c: [] for c in columns})
