"""Rows from CSV files, plain and compressed, by pandas' parser."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from privreg.data.sources.arrow import coded
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, ahead, check_labels, file_mark
from privreg.errors import DataError, quietly
from privreg.privacy.accounts import of_files

__all__ = ["header_of", "open_csv"]


_PIECE: Final = 1 << 22
_BLANK: Final = tuple(b" \t\r\n")

TOGETHER: Final = 1
"""Batches that are parsed at a time: pandas' fixed cost for a chunk with factors is that of some thousand rows."""


def _count_lines(path: Path) -> int | None:
    """Records of a file but its header, as pandas will read them, at a fraction of the cost; None if it can't be read.

    The count is public, so it must not depend on what is in a cell: with a quote anywhere pandas' own parser decides
    where records end. Lines that are blank are no records, for pandas as here, unless there is one column only: there
    a blank line is somebody's missing value.
    """
    try:
        n = _count_plain(path)
        return _count_quoted(path) if n is None else n
    except Exception:  # whatever is wrong with the file, reading its rows says so in words of our own
        return None


def _count_plain(path: Path) -> int | None:
    """Records of a file without quotes whose lines end in line feeds; None if it is another."""
    with _text(path) as text:
        file = text.buffer
        line = _first_line(file)
        if not line:
            return 0
        if not _is_plain(line):
            return None
        n, single = 0, b"," not in line
        while piece := file.read(_PIECE):
            piece += file.readline()
            if not _is_plain(piece):
                return None
            n += piece.count(b"\n") + (not piece.endswith(b"\n"))
            if not single:
                n -= _blank_lines(piece)
        return n


def _is_plain(piece: bytes) -> bool:
    """Whether lines have neither quotes nor ends that could be taken for something else."""
    if b'"' in piece or b"\0" in piece:
        return False
    return b"\r" not in piece or piece.count(b"\r") == piece.count(b"\r\n")


def _blank_lines(piece: bytes) -> int:
    """Lines with nothing but blanks; few lines begin with one, and those are looked at."""
    if piece[0] not in _BLANK and not any(b"\n" + bytes([c]) in piece for c in _BLANK):
        return 0
    held = np.frombuffer(piece, dtype=np.uint8)
    starts = np.flatnonzero(held == ord("\n"))[: -1 if piece.endswith(b"\n") else None] + 1
    odd = starts[np.isin(held[starts], _BLANK)].tolist()
    odd += [0] if piece[0] in _BLANK else []
    return sum(not piece[k : piece.find(b"\n", k) + 1 or None].strip(b" \t\r\n") for k in odd)


def _first_line(file: Any) -> bytes:
    """The first line of a binary file that isn't blank, which is the header or its beginning; empty at the end."""
    line: bytes = file.readline(_PIECE)
    while line and not line.decode("utf-8-sig").strip():
        line = file.readline(_PIECE)
    return line


def _count_quoted(path: Path) -> int:
    """Records of a file that has quotes."""
    with _text(path) as lines:
        columns = len(_header(lines))
    # The column beyond the last is empty: lines are split, and no cell is converted.
    how = {"usecols": [str(columns)], "dtype": "category", "na_values": [""]}
    return sum(len(chunk) for chunk in _chunks(path, columns, 0, **how))


def _chunks(path: Path, columns: int, skip: int, **how: Any) -> Iterator[Any]:
    """Records after the first `skip`, by chunks.

    A quote that nobody closed would be an error: then the file is read again from the last record that came, with a
    quote set at its end, so that one record alone is lost.
    """
    came, closed = skip, [False, True]
    while closed:
        lines, passed = _opened(path, came, columns)
        reader = None
        try:
            reader = _reader(lines, columns, closed=closed.pop(0), **how)
            for chunk in ahead(reader):
                extra = max(came - passed, 0)
                passed += len(chunk)
                if passed > came:
                    came = passed
                    yield chunk.iloc[extra:] if extra else chunk
            closed = []
        except Exception as problem:
            if isinstance(problem, OSError) or not closed:
                raise
        finally:
            for opened in (reader, lines):
                if opened is not None:
                    opened.close()


def _opened(path: Path, records: int, columns: int) -> tuple[Any, int]:
    """A file after its header and as many of the first records as can be passed by lines, all or none; how many."""
    lines = _text(path)
    _header(lines)
    if not records or _pass(lines, records, blank=columns == 1):
        return lines, records
    lines.close()  # a quoted field may hold line breaks: pandas' parser counts the records
    lines = _text(path)
    _header(lines)
    return lines, 0


def _reader(lines: Any, columns: int, *, closed: bool, **how: Any) -> Any:
    """Pandas' reader of the records below a header, by chunks, with columns that go by position.

    Names that pandas would mend (duplicates) or guess (an index) can't slip in. There is one column more than the
    header has, filled only where a line is too long: pandas drops the rest.
    """
    import pandas as pd

    names = ",".join(map(str, range(columns + 1))) + "\n"
    fixed: dict[str, Any] = {"index_col": False, "keep_default_na": False, "low_memory": False}
    fixed["skip_blank_lines"] = columns > 1  # in a table of one column a blank line is a missing value
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # before it, the last bits of numbers are lost
        fixed["float_precision"] = "round_trip"
    return pd.read_csv(_Headed(names, lines, '"\n' if closed else ""), chunksize=TOGETHER * CHUNK, **fixed, **how)


def header_of(path: Path) -> list[str]:
    """Column names of a CSV file; nothing else is looked at.

    Raises
    ------
    DataError
        If it has none that can be read.
    """

    def read() -> list[str]:
        with _text(path) as lines:
            return _header(lines)

    names = quietly(read, DataError(f"{path.name}: not a readable CSV file; mend or download it again."))
    if not names:
        raise DataError(f"{path.name} is empty; its first line must hold the column names.")
    return names


def open_csv(path: Path, wanted: Wanted) -> Source:
    """Rows of a CSV file that exists."""
    columns, schema = wanted.columns, wanted.schema
    text = {c for c in columns if c in wanted.verbatim or c in wanted.coded}
    # Ids are nearly all different: a chunk's categories would only cost time. Pandas makes numbers of categories that
    # all look like numbers. A column of which it finds out itself that there are texts it reads in half of the time:
    # if a chunk has none, it has no declared level either, as none looks like a number.
    words = {c for c in text if c in schema.levels and not any(map(_typed, schema.levels[c]))}
    found = words if _arrow_texts() else set()
    kinds = {c: "category" if c in words else "str" for c in text - found}

    # a personal budget is public, and needed for the noise of a record that can't be read, too
    own = {c for c in columns if c in text or schema.declares(c)} | set(columns[:1])

    def batches(skip: int) -> Iterator[Batch]:
        import pandas as pd

        header = header_of(path)
        check_labels(columns, header, path.name)
        place = {c: str(header.index(c)) for c in columns}
        last = str(len(header))
        missing_texts: dict[str, Sequence[str]] = {j: [""] if c in text else _MISSING for c, j in place.items()}
        problem = DataError(
            f"{path.name}: it can't be read to its end (cut off, or damaged); mend or download it again."
        )
        chunks = _chunks(
            path,
            len(header),
            skip,
            usecols=[*place.values(), last],
            dtype={place[c]: dtype for c, dtype in kinds.items()} | {last: "category"},
            na_values={**missing_texts, last: [""]},
        )
        while (chunk := quietly(lambda: next(chunks, None), problem)) is not None:
            whole = chunk[last].isna().to_numpy()
            held = {c: _as_codes(chunk[j], schema.levels[c]) if c in found else chunk[j] for c, j in place.items()}
            for a in range(0, len(chunk), CHUNK):
                part = {c: values.iloc[a : a + CHUNK] for c, values in held.items()}
                here = whole[a : a + CHUNK]
                if not here.all():  # a line with more fields than the header: nobody knows which is which
                    part |= {c: part[c].astype(object).where(here, None) for c in own}
                yield pd.DataFrame(part, copy=False)

    count, stamp = partial(_count_lines, path), lambda: [file_mark(path)]
    return Source(f"CSV file {path.name}", None, batches, of_files([path]), count, stamp)


def _arrow_texts() -> bool:
    """Whether pandas holds the texts that it finds in a file as Arrow does."""
    import pandas as pd

    dtype = pd.Series(["a"]).dtype
    return isinstance(dtype, pd.StringDtype) and dtype.storage == "pyarrow"


def _as_codes(column: Any, levels: Sequence[Any]) -> Any:
    """A column in which pandas has found texts as codes of them; where it has found none, as it is."""
    import pandas as pd

    if not isinstance(column.dtype, pd.StringDtype):
        return column
    return pd.Series(coded(column.array, tuple(levels)), index=column.index)


def _typed(level: Any) -> bool:
    """Whether a level is, or could be taken for, a number or a truth value."""
    import pandas as pd

    return (
        not isinstance(level, str)
        or level.lower() in {"true", "false"}
        or not np.isnan(pd.to_numeric(level, errors="coerce"))
    )


def _pass(lines: Any, records: int, *, blank: bool) -> bool:
    """Read past so many records; False, somewhere among them, where pandas alone knows: at a quote or a bare return.

    `blank` says whether a blank line is a record.
    """
    while records:
        line = lines.readline()
        if not line or '"' in line or line.endswith("\r"):
            return not line
        records -= blank or bool(line.strip(" \t\r\n"))
    return True


_MISSING: Final = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for a missing number. For a text column only an empty field does: "NA" may be a level."""


class _Headed(io.TextIOBase):
    """Text with another first line and a last one more; pandas asks for nothing but `read`."""

    def __init__(self, first: str, rest: Any, last: str) -> None:
        self._first, self._rest, self._last = first, rest, last

    def read(self, size: int | None = -1, /) -> str:
        first, self._first = self._first, ""
        if text := first or str(self._rest.read(size)):
            return text
        last, self._last = self._last, ""
        return last


def _text(path: Path) -> Any:
    """Open a text file, compressed or not."""
    # bytes that are no UTF-8 make their own cell unreadable, and nothing else
    how: dict[str, Any] = {"encoding": "utf-8-sig", "errors": "replace", "newline": ""}
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
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and name[-1] != "/"]
            if len(names) != 1:
                raise DataError(f"{path.name} holds {len(names)} files; unpack it and give a list of them.")
            return io.TextIOWrapper(archive.open(names[0]), **how)
    return path.open(**how)


def _header(lines: Any) -> list[str]:
    """Read the column names off the first line that isn't empty."""
    line = lines.readline()
    while line and not line.strip():
        line = lines.readline()
    while line.count('"') % 2 and (more := lines.readline()):  # a quoted name may hold a line break
        line += more
    if "\ufffd" in line or "\0" in line:
        raise ValueError("the header is no UTF-8")
    return next(csv.reader([line]), [])
