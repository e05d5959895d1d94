"""Where rows come from: batches of raw columns from frames, arrays, iterables and CSV files.

Only the columns asked for are touched. Nothing here computes anything from a value.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.columns import missing, plain_array, quietly
from privreg.errors import DataError, PrivregError, UnsupportedArgumentError

if TYPE_CHECKING:
    from privreg.schema import Schema

__all__ = ["CHUNK", "Source", "open_arrays", "open_table"]

CHUNK: Final = 16_384
"""Rows encoded at a time: enough that patsy's fixed cost vanishes, few enough that a batch stays in second cache."""

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
    count : callable
        Gives `rows`, or how many there are if counting is cheap beside reading them, or None.
    """

    kind: str
    rows: int | None
    batches: Callable[[], Iterator[Batch]] = field(repr=False)
    identity: Any = field(repr=False)  # often the rows themselves
    count: Callable[[], int | None] = field(repr=False, default=lambda: None)

    def expected(self) -> int | None:
        """How many people there are, as far as can be told before reading them; public, like their number."""
        return self.count() if self.rows is None else self.rows


def open_arrays(
    endog: np.ndarray,
    exog: np.ndarray,
    offset: np.ndarray | None,
    identity: Any,
    *,
    exposure: np.ndarray | None = None,
) -> Source:
    """Rows held as arrays of shapes (n,), (n, p) and, for the offset and the exposure, (n,)."""
    n = endog.shape[0]
    parts = (endog, exog, offset, exposure)

    def batches() -> Iterator[Batch]:
        for a in range(0, n, CHUNK):
            yield tuple(None if part is None else part[a : a + CHUNK] for part in parts)

    return Source("arrays", n, batches, identity)


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
        return _frame(data, columns)
    if isinstance(data, str | Path):
        return _csv(Path(data), columns, schema, frozenset(text))
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
    held = {c: _column(data[c], c) for c in columns if c in data}
    lengths = {len(v) for v in held.values()}
    if len(held) < len(columns) or not held:
        return Source("mapping of arrays", None, lambda: iter([data]), None)
    if len(lengths) > 1:
        raise DataError("the columns of the mapping differ in length.")
    n = lengths.pop()
    held = {c: _values(v) for c, v in held.items()}
    return Source("mapping of arrays", n, lambda: _slices(held, n), data[columns[0]])


def _column(values: Any, name: str) -> Any:
    wrong = DataError(f"column {name!r} of the mapping must be one-dimensional, with one number or level a row.")
    out = values if hasattr(values, "dtype") else quietly(lambda: plain_array(values), wrong)
    if getattr(out, "ndim", 0) != 1:
        raise wrong
    return out


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

    identity = data[0] if isinstance(data, list | tuple) and data else None
    return Source("iterable of DataFrames", None, batches, identity)


def _count_lines(path: Path) -> int | None:
    """Records of a file but its header, as pandas will read them, at a fraction of the cost; None if it can't be read.

    The count is public, so it must not depend on what is in a cell: with a quote anywhere pandas' own parser decides
    where records end. Lines that are blank are no records, for pandas as here.
    """
    try:
        with _text(path) as lines:
            _header(lines)
            n = 0
            for line in lines:
                if '"' in line:
                    break
                n += bool(line.strip(" \t\r\n"))
            else:
                return n
        return _count_quoted(path)
    except Exception:  # whatever is wrong with the file, reading its rows says so in words of our own
        return None


def _count_quoted(path: Path) -> int:
    """Records of a file that has quotes."""
    with _text(path) as lines:
        beyond = len(_header(lines))
        # The column beyond the last is empty: lines are split, and no cell is converted.
        with _reader(lines, beyond, usecols=[str(beyond)], dtype="category", na_values=[""]) as reader:
            return sum(len(chunk) for chunk in reader)


def _reader(lines: Any, columns: int, **how: Any) -> Any:
    """Pandas' reader of the records below a header, by chunks, with columns that go by position.

    Names that pandas would mend (duplicates) or guess (an index) can't slip in. There is one column more than the
    header has, filled only where a line is too long: pandas drops the rest.
    """
    import pandas as pd

    names = ",".join(map(str, range(columns + 1))) + "\n"
    fixed: dict[str, Any] = {"index_col": False, "keep_default_na": False, "low_memory": False}
    return pd.read_csv(_Headed(names, lines), chunksize=CHUNK, **fixed, **how)


def _csv(path: Path, columns: tuple[str, ...], schema: Schema, verbatim: frozenset[str]) -> Source:
    if not path.is_file():
        raise DataError(f"there is no file {str(path)!r}.")
    if path.suffix.lower() in {".parquet", ".pq", ".feather", ".arrow", ".xlsx", ".json", ".duckdb"}:
        raise UnsupportedArgumentError(
            f"{path.name!r} is not a CSV file; read it with pandas and give the DataFrame, or convert it to CSV."
        )
    text = {c for c in columns if c in verbatim or all(isinstance(v, str) for v in schema.levels.get(c, (0,)))}
    # ids are nearly all different: a chunk's categories would only cost time
    kinds = {c: "category" if c in schema.levels else "str" for c in text}

    def batches() -> Iterator[Batch]:
        import pandas as pd

        reader = lines = None
        read = 0
        try:
            lines = _text(path)
            header = _header(lines)
            if not header:
                raise DataError(f"{path.name} is empty; its first line must hold the column names.")
            place = {c: str(_place(c, header, path.name)) for c in columns}
            beyond = str(len(header))
            missing_texts: dict[str, Sequence[str]] = {j: [""] if c in text else _MISSING for c, j in place.items()}
            reader = _reader(
                lines,
                len(header),
                usecols=[*place.values(), beyond],
                dtype={place[c]: dtype for c, dtype in kinds.items()} | {beyond: "category"},
                na_values={**missing_texts, beyond: [""]},
            )
            for chunk in reader:
                long = np.flatnonzero(chunk[beyond].notna().to_numpy())
                if long.size:
                    raise DataError(
                        f"{path.name}, line {read + int(long[0]) + 2}: more fields than the header's {beyond}; quote "
                        "fields that hold commas, or mend the line."
                    )
                read += len(chunk)
                yield pd.DataFrame({c: chunk[j] for c, j in place.items()}, copy=False)
        except PrivregError:
            raise
        except Exception as e:
            problem = DataError(
                f"{path.name}{_line(e, read)}: not a readable CSV file (an open quote, bad encoding, or cut off); "
                "mend or download it again."
            )
        else:
            return
        finally:
            for opened in (reader, lines):
                if opened is not None:
                    opened.close()
        raise problem

    stat = path.stat()
    identity = (str(path.resolve()), stat.st_size, stat.st_mtime_ns)
    return Source(f"CSV file {path.name}", None, batches, identity, lambda: _count_lines(path))


_MISSING: Final = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for a missing number. For a text column only an empty field does: "NA" may be a level."""


class _Headed(io.TextIOBase):
    """Text with another first line; pandas asks for nothing but `read`."""

    def __init__(self, first: str, rest: Any) -> None:
        self._first, self._rest = first, rest

    def read(self, size: int | None = -1, /) -> str:
        first, self._first = self._first, ""
        return first or str(self._rest.read(size))


def _text(path: Path) -> Any:
    """Open a text file, compressed or not."""
    how: dict[str, Any] = {"encoding": "utf-8-sig", "newline": ""}
    match path.suffix.lower():
        case ".gz":
            import gzip

            return gzip.open(path, "rt", **how)
        case ".bz2":
            import bz2

            return bz2.open(path, "rt", **how)
        case ".xz":
            import lzma

            return lzma.open(path, "rt", **how)
        case ".zip":
            import zipfile

            archive = zipfile.ZipFile(path)
            return io.TextIOWrapper(archive.open(archive.namelist()[0]), **how)
    return path.open(**how)


def _header(lines: Any) -> list[str]:
    """Read the column names off the first line that isn't empty."""
    line = lines.readline()
    while line and not line.strip():
        line = lines.readline()
    while line.count('"') % 2 and (more := lines.readline()):  # a quoted name may hold a line break
        line += more
    return next(csv.reader([line]), [])


def _place(name: str, header: list[str], file: str) -> int:
    if name not in header:
        raise DataError(f"{file}: {missing(name, header)}")
    if header.count(name) > 1:
        raise DataError(f"{file} has more than one column named {name!r}; rename or drop one.")
    return header.index(name)


def _line(error: Exception, read: int) -> str:
    """Where reading stopped. A library's own text may quote a cell: only a line number is kept."""
    import pandas as pd

    found = re.search(r"starting at row (\d+)", str(error)) if isinstance(error, pd.errors.ParserError) else None
    if found:
        return f", line {int(found.group(1)) + 1}"
    return f", after line {read + 1}" if read else ""
