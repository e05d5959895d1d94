"""Where rows come from: batches of raw columns from frames, arrays, iterables, files, databases and other tables.

Only the columns asked for are touched. Nothing here computes anything from a value.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd

from privreg.base.optional import comes_from
from privreg.data.columns import check_mapping, missing
from privreg.data.sources.csv import PLAIN, Csv, check_commas, header_of
from privreg.data.sources.database import Sql, open_sql
from privreg.data.sources.files import FEATHER, PARQUET, arrow_schema, files_of, is_dask, open_files, paths_of
from privreg.data.sources.source import (
    CHUNK,
    Batch,
    Source,
    Wanted,
    check_labels,
    chunk_of,
    file_mark,
    first,
    pieces,
    refuse_few,
    rows_of,
)
from privreg.data.sources.tables import kind_of_table, open_arrays, open_frame, open_frames, open_mapping
from privreg.errors import DataError, NotPrivateError, PrivregError, UnsupportedArgumentError
from privreg.privacy.ledger import refuse_fitted
from privreg.schema.declarations import Schema

__all__ = [
    "CHUNK", "Batch", "Source", "as_frame", "chunk_of", "file_mark", "first", "one_batch", "open_arrays", "open_table",
    "pieces", "public_batches", "refuse_few", "rows_of", "table_of",
]  # fmt: skip

_QUERY: Final = re.compile(r"\s*(select|with|from)\s", re.IGNORECASE)


class Table(NamedTuple):
    """What a model takes as data, by its kind: what is public of it, and how its rows are read."""

    rows: Callable[[Wanted], Source]
    # Refuses columns that it doesn't have, and returns the names of those it has; None where only reading tells them
    check: Callable[[Collection[str]], list[Any] | None] = lambda columns: None
    # What may carry declarations, by the name that messages call it: of Arrow its schema, others themselves
    holders: Callable[[], Iterable[tuple[str, Any]]] = tuple


def table_of(data: Any) -> Table:
    """The table that data of any supported kind are; nothing is opened yet.

    Paths are of CSV, Parquet and Feather files, or of a folder of Parquet files; SQL comes by `privreg.sql`. A Dask
    DataFrame stands for the Parquet files it was read from.
    """
    holders = partial(_holders, data)
    if isinstance(data, pd.DataFrame):
        return Table(partial(open_frame, data), partial(_check_names, data), holders)
    if isinstance(data, str) and _QUERY.match(data) and not Path(data[:255]).exists():
        words = "a string is the path of a file; an SQL query is given as pr.sql(query, connection)."
        return Table(partial(_refuse, words))
    several = isinstance(data, list | tuple)
    if isinstance(data, str | Path) or (several and data and all(isinstance(path, str | Path) for path in data)):
        paths = Path(data) if isinstance(data, str | Path) else [Path(path) for path in data]
        return Table(partial(open_files, paths), partial(_check_file, paths, PLAIN), partial(_holders_of_files, paths))
    if isinstance(data, Csv):
        return Table(lambda wanted: open_files(data.files, wanted, data), partial(_check_file, data.files, data))
    if isinstance(data, Sql):
        return Table(partial(open_sql, data))
    if is_dask(data):
        return Table(
            lambda wanted: replace(open_files(paths_of(data), wanted), kind="Dask DataFrame", parts=True),
            holders=lambda: _holders_of_files(paths_of(data)),
        )
    single = isinstance(data, np.ndarray | pd.Series | pd.Index | str) or comes_from(data, "polars", "Series")
    kind = None if single else kind_of_table(data)
    if kind is not None:
        return Table(partial(kind.rows, data), partial(kind.check, data), holders)
    if isinstance(data, Mapping):
        return Table(partial(open_mapping, data), partial(_check_names, data), holders)
    read = partial(open_frames, data)
    if several:
        named = bool(data) and not isinstance(data[0], str | Path)  # as its first is
        check = {"check": table_of(data[0]).check} if named else {}
        return Table(read, **check, holders=partial(_holders_of_items, data))
    if isinstance(data, Iterable) and not single:
        return Table(read, holders=holders)
    words = (
        f"data of type {type(data).__name__} can't be read; give a DataFrame (pandas or polars), a mapping of arrays, "
        "the path of a CSV file or of Parquet files, an Arrow or DuckDB table, pr.sql(query, connection), or an "
        "iterable of DataFrames. Rows one by one are made a DataFrame by pd.DataFrame(list(rows))."
    )
    return Table(partial(_refuse, words), holders=holders)


def open_table(data: Any, columns: tuple[str, ...], schema: Schema, text: Iterable[str] = ()) -> Source:
    """Rows of data of any supported kind; only `columns` are read, `text` ones off CSV as they are written.
    Raises DataError if the file is missing or the columns differ in length; MissingExtraError if the package that reads
    it is not installed; UnsupportedArgumentError if `data` is of a kind that is not supported; the message lists what
    is.
    """
    return table_of(data).rows(Wanted(columns, schema, frozenset(text)))


_LONGEST: Final = 4096  # Characters of a path; a longer text is none


def _refuse(words: str, wanted: Wanted) -> Source:
    raise UnsupportedArgumentError(words)


def _check_names(data: Any, columns: Collection[str]) -> list[Any]:
    labels = list(data)
    absent = next((c for c in columns if c not in labels), None)
    if absent is not None:
        raise missing(absent, labels, columns)
    return labels


def _check_file(given: Any, how: Csv, columns: Collection[str]) -> list[Any] | None:
    """The same of a single file; what is wrong with a file is said in full where it is opened."""
    if not isinstance(given, Path) or len(str(given)) >= _LONGEST or not given.is_file():
        return None
    try:
        held = arrow_schema(given.name, given)
        labels = header_of(given, how) if held is None else list(held.names)
    except PrivregError:
        return None
    if held is None:
        check_commas(given, labels, columns)
    check_labels(columns, labels, given.name)
    return labels


def _holders(data: Any) -> list[tuple[str, Any]]:
    arrow = comes_from(data, "pyarrow", "Table", "RecordBatch", "RecordBatchReader", "Dataset")
    return [("the data", data.schema if arrow else data)]


def _holders_of_items(data: Sequence[Any]) -> Iterator[tuple[str, Any]]:
    for i, item in enumerate(data, 1):
        for where, held in table_of(item).holders():
            yield f"item {i}" if where == "the data" else where, held


def _holders_of_files(given: Path | Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """Of Parquet and Feather files; a CSV file carries nothing."""
    for path in [given] if isinstance(given, Path) else given:
        if path.suffix.lower() in PARQUET | FEATHER or os.path.isdir(path):  # which takes any text
            for name, file in files_of(path).items():
                yield name, arrow_schema(name, file)


def one_batch(data: Any, columns: tuple[str, ...], schema: Schema) -> Any:
    """A table of another library as one batch of the encoders; anything else as it is."""
    if isinstance(data, Mapping):
        check_mapping(data, columns)
    return as_frame(data, columns, schema)


def as_frame(data: Any, columns: tuple[str, ...] | None = None, schema: Schema | None = None) -> Any:
    """A table of another library as a DataFrame of these columns, all by default; anything else as it is."""
    kind = kind_of_table(data)
    if isinstance(data, pd.DataFrame | Mapping | tuple) or len(getattr(data, "shape", (0, 0))) == 1 or kind is None:
        return data
    columns = tuple(kind.check(data, ()) or ()) if columns is None else columns
    parts = [pd.DataFrame(part) for part in kind.rows(data, Wanted(columns, schema or Schema())).batches(0)]
    return pd.concat(parts, ignore_index=True) if parts else pd.DataFrame({c: [] for c in columns})


def public_batches(rows: Any, design: Any, what: str, more: Iterable[str] = (), *, simulated: bool = False) -> Any:
    """Rows that a user calls public, in the batches that a design encodes, with `more` columns; `what` tells of them.
    Raises NotPrivateError if there are none, or they were fitted privately in this process (unless with a seed, in a
    simulation); DataError if rows of an array model are no tuple of arrays, or those of a formula can't be read.
    """
    if rows is None:
        raise NotPrivateError("a fit keeps no rows; give public ones, such as a public test set, with the response.")
    if design.formula is not None:
        source = open_table(rows, (*design.columns, *more), design.schema)
        refuse_fitted(source.identity, what, simulated=simulated)
        return source.batches(0)
    if not isinstance(rows, tuple):
        raise DataError(
            "the rows or test set of an array model is (endog, exog), a tuple, with offset and exposure if it has "
            "them; a file has columns for a formula."
        )
    for part in rows:
        refuse_fitted(part, what, simulated=simulated)
    return iter([rows])
