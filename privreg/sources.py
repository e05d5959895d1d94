"""Where rows come from: batches of raw columns from frames, arrays, iterables and CSV files.

Only the columns asked for are touched. Nothing here computes anything from a value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import DataError, UnsupportedArgumentError

if TYPE_CHECKING:
    from privreg.schema import Schema

__all__ = ["CHUNK", "Source", "open_arrays", "open_table"]

CHUNK: Final = 16_384
"""Rows encoded at a time: enough that patsy's fixed cost vanishes, few enough that a batch stays in the second cache."""

Batch = Any


@dataclass(frozen=True)
class Source:
    """Rows to be read once per call of `batches`.

    Parameters
    ----------
    kind : str
        In words, for the summary.
    rows : int or None
        How many there are, if known without reading them.
    batches : callable
        Gives an iterator of batches.
    identity : object
        What the ledger knows these people by; None if nothing can tell.
    """

    kind: str
    rows: int | None
    batches: Callable[[], Iterator[Batch]]
    identity: Any


def open_arrays(endog: np.ndarray, exog: np.ndarray, offset: np.ndarray | None, identity: Any) -> Source:
    """Rows held as arrays of shapes (n,), (n, p) and, for the offset, (n,)."""
    n = endog.shape[0]

    def batches() -> Iterator[Batch]:
        for a in range(0, n, CHUNK):
            yield endog[a : a + CHUNK], exog[a : a + CHUNK], None if offset is None else offset[a : a + CHUNK]

    return Source("arrays", n, batches, identity)


def open_table(data: Any, columns: tuple[str, ...], schema: Schema) -> Source:
    """Rows held as a table of any supported kind.

    Parameters
    ----------
    data : DataFrame, mapping of str to array, str or Path of a CSV file, or iterable of DataFrames
    columns : tuple of str
        The only columns that are read.
    schema : Schema
        Public declarations, which say how text columns are to be read.

    Raises
    ------
    DataError
        If the file is missing or the columns differ in length.
    UnsupportedArgumentError
        If `data` is of a kind that is not supported; the message lists what is.
    """
    import pandas as pd

    if isinstance(data, pd.DataFrame):
        return _frame(data, columns)
    if isinstance(data, str | Path):
        return _csv(Path(data), columns, schema)
    if isinstance(data, Mapping):
        return _mapping(data, columns)
    if isinstance(data, Iterable) and not isinstance(data, np.ndarray):
        return _stream(data)
    raise UnsupportedArgumentError(
        f"data of type {type(data).__name__} can't be read; give a DataFrame, a mapping of arrays, the path of a "
        "CSV file, or an iterable of DataFrames."
    )


def _slices(columns: Mapping[str, Any], n: int) -> Iterator[Batch]:
    for a in range(0, n, CHUNK):
        yield {name: values[a : a + CHUNK] for name, values in columns.items()}


def _values(column: Any) -> Any:
    """Return a column's values without index and copy: plain arrays of numbers, pandas' own of the rest."""
    if isinstance(getattr(column, "dtype", None), np.dtype) and column.dtype.kind in "biuf":
        return np.asarray(column)
    return getattr(column, "array", column)


def _frame(data: Any, columns: tuple[str, ...]) -> Source:
    names = list(data.columns)
    twice = [c for c in columns if names.count(c) > 1]
    if twice:
        raise DataError(f"the data have more than one column named {twice[0]!r}; rename or drop one.")
    # Slices of single columns are views: nothing is copied but the chunk being encoded.
    held = {c: _values(data[c]) for c in columns if c in names}
    if len(held) < len(columns):
        return Source("DataFrame", len(data), lambda: iter([data.iloc[:1]]), data)
    return Source("DataFrame", len(data), lambda: _slices(held, len(data)), data)


def _mapping(data: Mapping[str, Any], columns: tuple[str, ...]) -> Source:
    held = {c: np.asarray(data[c]) if not hasattr(data[c], "dtype") else data[c] for c in columns if c in data}
    lengths = {len(v) for v in held.values()}
    if len(held) < len(columns) or not held:
        return Source("mapping of arrays", None, lambda: iter([dict(data)]), None)
    if len(lengths) > 1:
        raise DataError("the columns of the mapping differ in length.")
    n = lengths.pop()
    held = {c: _values(v) for c, v in held.items()}
    return Source("mapping of arrays", n, lambda: _slices(held, n), None)


def _stream(data: Iterable[Any]) -> Source:
    def batches() -> Iterator[Batch]:
        import pandas as pd

        for batch in data:
            if isinstance(batch, pd.DataFrame):
                for a in range(0, max(len(batch), 1), CHUNK):
                    yield batch.iloc[a : a + CHUNK]
            elif isinstance(batch, Mapping):
                yield batch
            else:
                raise UnsupportedArgumentError(
                    f"the iterable yields {type(batch).__name__}; it must yield DataFrames or mappings of arrays."
                )

    return Source("iterable of DataFrames", None, batches, None)


def _csv(path: Path, columns: tuple[str, ...], schema: Schema) -> Source:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() in {".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".json", ".duckdb"}:
        raise UnsupportedArgumentError(
            f"{path.name!r} is not a CSV file; read it with pandas and give the DataFrame, or convert it to CSV."
        )
    text = {c: "category" for c in columns if all(isinstance(v, str) for v in schema.levels.get(c, (0,)))}

    def batches() -> Iterator[Batch]:
        import pandas as pd

        wanted = set(columns)
        reader = None
        try:
            reader = pd.read_csv(path, usecols=lambda c: c in wanted, dtype=text, chunksize=CHUNK, low_memory=False)  # type: ignore[call-overload]
            yield from reader
        except (
            pd.errors.ParserError,
            pd.errors.EmptyDataError,
            UnicodeDecodeError,
            ValueError,
            EOFError,
            OSError,
        ) as e:
            # pandas' own text may quote a cell: only the line number is kept.
            line = re.search(r"line (\d+)", str(e))
            where = f", line {line.group(1)}" if line else ""
            problem = DataError(
                f"{path.name}{where}: not a readable CSV file (rows with too many fields, bad encoding, or cut off)."
            )
        else:
            return
        finally:
            if reader is not None:
                reader.close()
        raise problem

    stat = path.stat()
    return Source(f"CSV file {path.name}", None, batches, (str(path.resolve()), stat.st_size, stat.st_mtime_ns))
