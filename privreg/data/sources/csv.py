"""Rows from CSV files, plain and compressed, by pandas' parser."""

from __future__ import annotations

import codecs
import io
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from privreg.data.sources import lines
from privreg.data.sources.arrow import coded
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, ahead, check_labels, file_mark
from privreg.errors import DataError, OptionError, quietly, shown
from privreg.options.unknown import known_arguments
from privreg.privacy.accounts import of_files


@dataclass(frozen=True)
class Csv:
    """A CSV file, or several, and how it is written; made by :func:`csv`."""

    files: Path | tuple[Path, ...] = ()
    sep: str = ","
    decimal: str = "."
    dates: str | None = None
    encoding: str = "utf-8"


PLAIN: Final = Csv()


@known_arguments
def csv(
    path: str | Path | Sequence[str | Path],
    *,
    sep: str = ",",
    decimal: str = ".",
    dates: str | None = None,
    encoding: str = "utf-8",
) -> Csv:
    """A CSV file that is written otherwise than with commas, points and ISO dates, to be given to a model as its data.

    Parameters
    ----------
    path : str, Path or list of them
    sep : str
        One character between fields: ";", a tab, "|" or ":".
    decimal : {".", ","}
        Mark before the decimals of numbers. Where it is a comma, a number with a point can't be read.
    dates : str, optional
        How dates are written, in the signs of `datetime.strptime`, such as "%d.%m.%Y" of 31.12.2020. It is for columns
        that have dates as their bounds; what is written otherwise is missing. ISO texts by default.
    encoding : str
        Of the text: "utf-8", or one that writes each letter in one byte, such as "latin-1" or "cp1252".

    Raises
    ------
    OptionError

    Examples
    --------
    >>> import privreg as pr
    >>> pr.csv("people.csv", sep=";", decimal=",").sep
    ';'
    """
    if sep not in (",", ";", "\t", "|", ":"):
        raise OptionError(f"sep={shown(sep)} must be one character: ',', ';', a tab, '|' or ':'.")
    if decimal not in (".", ",") or sep == decimal:
        raise OptionError(f"decimal={shown(decimal)} must be '.' or ',', and not the character between fields.")
    day = datetime(2001, 2, 3)
    if dates is not None and not (isinstance(dates, str) and _iso(day.strftime(dates), dates) == day.isoformat()):
        raise OptionError(f"dates={shown(dates)} must be a format with day, month and year, such as '%d.%m.%Y'.")
    files = Path(path) if isinstance(path, str | Path) else tuple(map(Path, path))
    return Csv(files, sep, decimal, dates, _named(encoding))


def _named(encoding: str) -> str:
    wrong = f"encoding={shown(encoding)} must be 'utf-8', or of one byte a letter, such as 'latin-1' or 'cp1252'."
    name = quietly(lambda: codecs.lookup(encoding).name.removesuffix("-sig"), OptionError(wrong))
    signs = bytes(range(256))
    read = quietly(lambda: signs.decode(name, "replace"), OptionError(wrong))
    if name != "utf-8" and (len(read) < len(signs) or read[:128] != signs[:128].decode()):
        raise OptionError(wrong)
    return name


def _iso(text: Any, written: str) -> str:
    """An ISO text of a date that is written otherwise; empty where it is none."""
    try:
        return datetime.strptime(str(text), written).isoformat()
    except Exception:  # no cell decides whether others are read
        return ""


def _opened(path: Path, how: Csv) -> Any:
    """Bytes of a file in UTF-8, whatever it is written in."""
    file = lines.opened(path)
    return file if how.encoding == "utf-8" else codecs.EncodedFile(file, "utf-8", how.encoding, "replace")


def _count_lines(path: Path, how: Csv = PLAIN) -> int | None:
    """Records of a file but its header, at a fraction of the cost of reading them; None if it can't be read."""
    sep = how.sep.encode()
    try:
        with _opened(path, how) as file:
            columns = len(lines.header(file, path.name, sep) or header_of(path, how))  # which refuses an empty file
            return sum(lines.lines_in(piece, columns, sep) for piece in lines.pieces(file, columns, sep=sep))
    except Exception:  # whatever is wrong with the file, reading its rows says so in words of our own
        return None


def _chunks(path: Path, how: Csv, columns: int, skip: int, text: dict[str, Any], **given: Any) -> Iterator[Any]:
    """Records after the first `skip`, by chunks.

    Some versions of pandas fail where one number has hundreds of digits. Then reading goes on from there with every
    column as `text`, of which each cell is read by itself: no cell decides whether a file can be read.
    """
    came = skip
    for dtype in (given.pop("dtype"), text):
        try:
            with _opened(path, how) as file:
                sep = how.sep.encode()
                lines.header(file, path.name, sep)
                below = lines.pieces(file, columns, came, sep)
                with _reader(below, columns, dtype=dtype, sep=how.sep, **given) as reader:
                    for chunk in ahead(reader):
                        came += len(chunk)
                        yield chunk
        except Exception as problem:
            if isinstance(problem, OSError) or dtype is text:
                raise
        else:
            return


def _reader(below: Iterator[bytes], columns: int, **how: Any) -> Any:
    """Pandas' reader of the records below a header, by chunks, with columns that go by position.

    Names that pandas would mend (duplicates) or guess (an index) can't slip in. There is one column more than the
    header has, filled only where a line is too long: pandas drops the rest.
    """
    import pandas as pd

    names = how["sep"].join(map(str, range(columns + 1))) + "\n"
    fixed: dict[str, Any] = {"index_col": False, "keep_default_na": False, "low_memory": False}
    fixed["skip_blank_lines"] = columns > 1  # in a table of one column a blank line is a missing value
    if tuple(map(int, pd.__version__.split(".")[:2])) < (3, 1):  # before it, the last bits of numbers are lost
        fixed["float_precision"] = "round_trip"
    return pd.read_csv(_Text(names, below), chunksize=CHUNK, **fixed, **how)


def header_of(path: Path, how: Csv = PLAIN) -> list[str]:
    """Column names of a CSV file; nothing else is looked at."""

    def read() -> list[str]:
        with _opened(path, how) as file:
            return lines.header(file, path.name, how.sep.encode())

    names = quietly(read, DataError(f"{path.name}: not a readable CSV file; mend or download it again."))
    if not names:
        raise DataError(f"{path.name} is empty; its first line must hold the column names.")
    return names


def open_csv(path: Path, wanted: Wanted, how: Csv = PLAIN) -> Source:
    """Rows of a CSV file that exists."""
    columns, schema = wanted.columns, wanted.schema
    text = {c for c in columns if c in wanted.verbatim or c in wanted.coded}
    worded = {c for c, levels in schema.levels.items() if any(isinstance(level, str) for level in levels)}
    commas = {*columns} - wanted.verbatim - {*schema.dates} - worded if how.decimal == "," else set[str]()
    if how.dates is not None and not schema.dates:
        raise OptionError(
            f"dates={how.dates!r} is for columns of dates, and none has dates as its bounds; give them, as in "
            "bounds={'day': ('2020-01-01', '2020-12-31')}, or leave dates= out."
        )
    dates = {c for c in columns if how.dates is not None and c in schema.dates and c not in wanted.verbatim}
    text |= commas | dates  # each cell by itself: pandas reads a column so, or none of its cells
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

        header = header_of(path, how)
        check_commas(path, header, columns)
        check_labels(columns, header, path.name)
        place = {c: str(header.index(c)) for c in columns}
        last = str(len(header))
        missing_texts: dict[str, Sequence[str]] = {j: [] if c in text else _MISSING for c, j in place.items()}
        problem = DataError(
            f"{path.name}: it can't be read to its end (cut off, or damaged); mend or download it again."
        )
        dtype = {place[c]: kind for c, kind in kinds.items()} | {last: "category"}
        given = {"usecols": [*place.values(), last], "na_values": {**missing_texts, last: [""]}}
        texts = dict.fromkeys(place.values(), "str") | dtype
        chunks = _chunks(path, how, len(header), skip, texts, dtype=dtype, **given)
        while (chunk := quietly(lambda: next(chunks, None), problem)) is not None:
            whole = chunk[last].isna().to_numpy()
            held = {c: _as_codes(chunk[j], schema.levels[c]) if c in found else chunk[j] for c, j in place.items()}
            held |= {c: held[c].map(_pointed) for c in commas}
            for c in dates:  # of many records few dates differ
                held[c] = held[c].map({cell: _iso(cell, str(how.dates)) for cell in held[c].unique()})
            if not whole.all():  # a line with more fields than the header: nobody knows which is which
                held |= {c: held[c].astype(object).where(whole, None) for c in own}
            yield pd.DataFrame(held, copy=False)

    count = partial(_count_lines, path, how)

    def stamp() -> list[Any] | None:  # workers and whoever goes on with a fit know a file by its path alone
        return [file_mark(path)] if replace(how, files=()) == PLAIN else None

    return Source(f"CSV file {path.name}", None, batches, of_files([path]), count, stamp)


_OTHERS: Final = {";": "semicolons", "\t": "tabs", "|": "bars", " ": "spaces"}


def check_commas(path: Path, header: Sequence[str], columns: Collection[str]) -> None:
    """Refuse a file whose header is separated by something else: by the header alone."""
    mark = next((m for m in _OTHERS if m in header[0]), None)
    if set(columns) <= set(header):
        return
    if header[0].lower().startswith(("#", "sep=")):
        raise DataError(
            f"{path.name}: its first line begins with '#' or 'sep=', and nothing may stand before the column names; "
            "delete it. Other separators than commas are an argument of pr.csv(), at the shell --sep."
        )
    if len(header) > 1 or mark is None:
        return
    decimal = ", and decimal=',' too if its numbers have decimal commas" if mark == ";" else ""
    mend = f"give pr.csv(path, sep={mark!r}){decimal}; at the shell --sep and --decimal."
    if mark == " ":
        mend = "write it anew, as by pandas.read_csv(path, sep=r'\\s+').to_csv(new, index=False)."
    raise DataError(f"{path.name}: its header is separated by {_OTHERS[mark]}, and fields must be by commas; {mend}")


def _pointed(cell: Any) -> Any:
    """A number with a decimal comma, written with a point; a text with a point already is none."""
    return cell if not isinstance(cell, str) else "" if "." in cell else cell.replace(",", ".")


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


_MISSING: Final = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for a missing number. In a column of texts none does: "NA" may be a level, and so may ""."""


class _Text(io.TextIOBase):
    """A first line and pieces after it; pandas asks for nothing but `read`."""

    def __init__(self, first: str, rest: Iterator[bytes]) -> None:
        self._held, self._rest = first, rest

    def read(self, size: int | None = -1, /) -> str:
        if not self._held:  # bytes that are no UTF-8 make their own cell unreadable, and nothing else
            self._held = next(self._rest, b"").decode("utf-8", "replace")
        end = len(self._held) if size is None or size < 0 else size
        out, self._held = self._held[:end], self._held[end:]
        return out
