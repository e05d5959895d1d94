"""Rows from CSV files, plain and compressed, by pyarrow's parser.

A line is a record: nothing in it changes what another line says. Where the parser finds anything but one row of all
columns in each line of a block, or a cell that is no number among numbers, lines and cells are read one by one.
"""

import codecs
import csv as standard
import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import lru_cache, partial
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pandas as pd
import pyarrow as pa
import pyarrow.compute as compute

from privreg.data.sources.arrow import batches_of, texts_of
from privreg.data.sources.source import CHUNK, Batch, Source, Wanted, ahead, beyond, check_labels, file_mark
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
    wrong = OptionError(
        f"encoding={shown(encoding)} must be 'utf-8', or of one byte a letter, such as 'latin-1' or 'cp1252'."
    )
    name, signs = quietly(lambda: codecs.lookup(encoding).name.removesuffix("-sig"), wrong), bytes(range(256))
    read = quietly(lambda: signs.decode(name, "replace"), wrong)
    if name != "utf-8" and (len(read) < len(signs) or read[:128] != signs[:128].decode()):
        raise wrong
    return Csv(Path(path) if isinstance(path, str | Path) else tuple(map(Path, path)), sep, decimal, dates, name)


def _iso(text: Any, written: Any) -> str:
    """An ISO text of a date that is written otherwise; empty where it is none."""
    try:
        return datetime.strptime(str(text), written).isoformat()
    except Exception:  # no cell decides whether others are read
        return ""


# --- lines -----------------------------------------------------------------------------------------------

BLOCK: Final = 1 << 18  # Bytes of the first block; later ones have so many that a batch of rows is in each
MOST: Final = 1 << 22  # Bytes of a block, about, where lines are long: some five are in memory
_ODD: Final = "\ufffd".encode()  # Stands for bytes that no number and no level holds
_PACKED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"PAR1", b"ARROW1")  # Begins of files of no text
_UNPACK: Final = {".gz": "gzip", ".bz2": "bz2", ".xz": "lzma"}


@lru_cache
def _fields(sep: bytes, count: str) -> re.Pattern[bytes]:
    """Fields of a line after which no quote is open. A quote that doesn't begin a field is a character."""
    mark = re.escape(sep)
    field = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?:[^"%b][^%b]*+)?|(?:[^"%b][^%b]*+)?)' % (mark, mark, mark, mark)
    return re.compile(rb"%b(?:%b%b)%b" % (field, mark, field, count.encode()), re.DOTALL)


def _parts(path: Path, how: Csv) -> Iterator[Any]:
    """Column names off the first line that isn't blank, then whole lines below it in UTF-8, some at a time.
    Raises DataError if that line is no UTF-8 or ends in carriage returns, or a quote isn't closed in it.
    """
    suffix = path.suffix.lower()
    opened: Any = partial(import_module(_UNPACK[suffix]).open, path) if suffix in _UNPACK else partial(path.open, "rb")
    if suffix == ".zip":
        archive = import_module("zipfile").ZipFile(path)
        names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and name[-1] != "/"]
        if len(names) != 1:
            raise DataError(f"{path.name} holds {len(names)} files; unpack it and give a list of them.")
        opened = partial(archive.open, names[0])
    with opened() as file:
        line: bytes = file.readline()
        while line and not line.removeprefix(b"\xef\xbb\xbf").strip():
            line = file.readline()
        utf8 = how.encoding == "utf-8"
        line = (line if utf8 else line.decode(how.encoding, "replace").encode()).rstrip(b"\r\n")
        text, wrong = "\0", ""
        with suppress(UnicodeDecodeError):
            text = line.decode("utf-8-sig")
        if "\0" in text:
            wrong = (
                ": its first line is no UTF-8, but Latin-1 or UTF-16, say; save the file as UTF-8, or, of Latin-1, "
                "read it with encoding='latin-1'."
            )
            if line.startswith(_PACKED):
                wrong = (
                    " is no text, but compressed (.csv.gz, .bz2, .xz, .zip) or of Parquet (.parquet), a workbook or "
                    "an Arrow file; give it the ending of what it is, or save it as CSV."
                )
        elif b"\r" in line:
            wrong = ": lines end in carriage returns alone; write it anew with line feeds."
        elif not _fields(how.sep.encode(), "*+").fullmatch(line):
            wrong = ": a quote in its header isn't closed on the same line; write it anew."
        if wrong:
            raise DataError(path.name + wrong)
        yield next(standard.reader([text], delimiter=how.sep), [])
        size = BLOCK
        while block := file.read(size):
            block += file.readline()
            block = block if block.endswith(b"\n") else block + b"\n"
            yield block if utf8 else block.decode(how.encoding, "replace").encode()
            size = min(len(block) * CHUNK // (block.count(b"\n") + 1), MOST)


def header_of(path: Path, how: Csv = PLAIN) -> list[str]:
    """Column names of a CSV file; nothing else is looked at."""
    unreadable = DataError(f"{path.name}: not a readable CSV file; mend or download it again.")
    names: list[str] = quietly(lambda: next(_parts(path, how)), unreadable)
    if not names:
        raise DataError(f"{path.name} is empty; its first line must hold the column names.")
    return names


_BLANK: Final = re.compile(rb"\n[\n\r \t]")  # The begin of a line that may be blank
_SPACE: Final = b" \t\r"  # A line of these alone is no record of several columns, unless it has tabs between fields


def _count_lines(path: Path, how: Csv = PLAIN) -> int | None:
    """Records of a file but its header, at a fraction of the cost of reading them; None if it can't be read."""
    space, count = _SPACE.replace(how.sep.encode(), b""), 0
    try:
        several = len(header_of(path, how)) > 1
        for block in islice(_parts(path, how), 1, None):
            count += block.count(b"\n")
            if several and (block[:1].isspace() or _BLANK.search(block)):  # few are
                count -= sum(not line.strip(space) for line in block.split(b"\n")[:-1])
    except Exception:  # whatever is wrong with the file, reading its rows says so in words of our own
        return None
    return count


# --- cells -----------------------------------------------------------------------------------------------

_MISSING: Final = (
    *("", "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN", "<NA>", "N/A"),
    *("NA", "NULL", "NaN", "None", "n/a", "nan", "null"),
)
"""Texts that stand for a missing number. In a column of texts none does: "NA" may be a level, and so may ""."""


def _parsed(block: bytes, types: Mapping[str, Any], columns: int, how: Csv) -> Any:
    """A block's rows as an Arrow table; columns are called by their places."""
    library = import_module("pyarrow.csv")
    return library.read_csv(
        pa.py_buffer(block),
        library.ReadOptions(use_threads=False, block_size=len(block) + 1, column_names=[*map(str, range(columns))]),
        library.ParseOptions(delimiter=how.sep, ignore_empty_lines=columns > 1),
        library.ConvertOptions(
            check_utf8=False,
            column_types=types,
            include_columns=[*types],
            null_values=_MISSING,
            decimal_point=how.decimal,
        ),
        memory_pool=pa.system_memory_pool(),  # so that readers of large arrays find Arrow's own as they left it
    )


def _read(block: bytes, types: Mapping[str, Any], columns: int, how: Csv) -> Any:
    """Cells of a block, each by itself: an Arrow table with a column for each place in `types`; None of blank lines."""
    if b"\r" not in block or block.count(b"\r") == block.count(b"\r\n"):  # one alone would end a line
        with suppress(pa.ArrowInvalid):
            lines, quoted = block.count(b"\n"), b'"' in block
            again = block + block[: block.index(b"\n") + 1] if quoted else block  # a line after the last one
            table = _parsed(again, types, columns, how)
            if table.num_rows == lines + quoted:  # so that no line is blank, and no quote open at its end
                return table.slice(0, lines)
    each = {place: pa.binary() if type_ == pa.float64() else type_ for place, type_ in types.items()}
    # lines of one field more than there are columns, which is empty but where a line holds too many; fields that are
    # absent are empty, and a line in which a quote stays open has none
    mended, sep = list[bytes](), how.sep.encode()
    known = _fields(sep, f"{{{columns - 1}}}+")
    for line in re.sub(rb"\r+\n", b"\n", block).replace(b"\r", _ODD).split(b"\n")[:-1]:
        if columns == 1 or line.strip(_SPACE.replace(sep, b"")):
            found = known.match(line + sep * columns)
            whole = sep * columns + b"-" if found is None else found[0] + sep + b"-" * (found.end() < len(line))
            mended.append(whole + b"\n")
    return _parsed(b"".join(mended), {**each, str(columns): pa.string()}, columns + 1, how) if mended else None


def _mapped(array: Any, change: Callable[[Any], Any]) -> Any:
    """Texts that are changed one by one; of codes those of the dictionary."""
    if not pa.types.is_dictionary(array.type):
        return change(array)
    return pa.DictionaryArray.from_arrays(array.indices, change(array.dictionary))


def open_csv(path: Path, wanted: Wanted, how: Csv = PLAIN) -> Source:
    """Rows of a CSV file that exists."""
    columns, schema = wanted.columns, wanted.schema
    if how.dates is not None and not schema.dates:
        raise OptionError(
            f"dates={how.dates!r} is for columns of dates, and none has dates as its bounds; give them, as in "
            "bounds={'day': ('2020-01-01', '2020-12-31')}, or leave dates= out."
        )
    texts, codes = dict.fromkeys(columns, pa.string()), pa.dictionary(pa.int32(), pa.string())
    coded = {c for c in columns if c in wanted.coded} - wanted.verbatim
    numbers = {c for c in columns if schema.is_number(c)} - coded - wanted.verbatim
    types = texts | dict.fromkeys(coded, codes) | dict.fromkeys(numbers, pa.float64())
    untold = {*columns} - coded - numbers - wanted.verbatim  # nobody declared whether they hold numbers
    worded = {c for c, levels in schema.levels.items() if any(isinstance(level, str) for level in levels)}
    commas = {*columns} - wanted.verbatim - {*schema.dates} - worded if how.decimal == "," else set[str]()
    # a personal budget is public, and needed for the noise of a record that can't be read, too
    checked = {c for c in columns if c in coded | wanted.verbatim or schema.declares(c)} | set(columns[:1])

    def pointed(texts: Any) -> Any:  # with a point, of numbers with a decimal comma; with one already it is none
        with_point = compute.replace_substring(texts, ",", ".")
        return compute.if_else(compute.match_substring(texts, "."), pa.scalar("", texts.type), with_point)

    def rows(block: bytes, header: Sequence[str]) -> list[Batch]:
        places, last = {c: str(header.index(c)) for c in columns}, str(len(header))
        table = _read(block, {places[c]: type_ for c, type_ in types.items()}, len(header), how)
        if table is None:
            return []
        (found,) = table.to_batches()
        held = {c: found[place] for c, place in places.items()}
        for c, array in held.items():
            if c in commas and array.type != pa.float64():
                held[c] = _mapped(array, pointed)
            if c in coded and c in schema.dates and how.dates is not None:  # of many records few dates differ
                held[c] = _mapped(array, lambda texts: pa.array([_iso(t, how.dates) for t in texts_of(texts)], "str"))
            if c in untold:  # whole numbers or numbers, if all cells of a block are some or missing; else texts
                none = pa.scalar(None, held[c].type)
                held[c] = compute.if_else(compute.is_in(held[c], pa.array(_MISSING)), none, held[c])
                with suppress(pa.ArrowInvalid):
                    held[c] = held[c].cast(pa.float64())
                    held[c] = held[c].cast(pa.int64())
        if last in table.column_names:  # a line with more fields than the header: nobody knows which is which
            whole = compute.equal(found[last], "")
            held |= {c: compute.if_else(whole, held[c], pa.scalar(None, held[c].type)) for c in checked}
        read = pa.RecordBatch.from_arrays([*held.values()], names=[*held])
        return [pd.DataFrame(batch, copy=False) for batch in batches_of(read, wanted, path.name)]

    def batches() -> Iterator[Batch]:
        header = header_of(path, how)
        check_commas(path, header, columns)
        check_labels(columns, header, path.name)
        cut = DataError(f"{path.name}: it can't be read to its end (cut off, or damaged); mend or download it again.")
        parts = ahead(islice(_parts(path, how), 1, None), lambda block: rows(block, header))
        while (some := quietly(lambda: next(parts, None), cut)) is not None:
            yield from some

    def stamp() -> list[Any] | None:  # workers and whoever goes on with a fit know a file by its path alone
        return [file_mark(path)] if replace(how, files=()) == PLAIN else None

    count = partial(_count_lines, path, how)
    return Source(f"CSV file {path.name}", None, lambda skip: beyond(batches(), skip), of_files([path]), count, stamp)


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
