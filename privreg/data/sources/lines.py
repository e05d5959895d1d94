"""Lines of text files, plain and compressed. A line is a record: nothing in it changes what another line says."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.errors import DataError

PIECE: Final = 1 << 18  # Bytes that are read at a time, up to the end of the line
_FIELD: Final = rb'(?:"[^"]*+(?:""[^"]*+)*+"(?:[^"%b][^%b]*+)?|(?:[^"%b][^%b]*+)?)'


@lru_cache
def _line(sep: bytes) -> re.Pattern[bytes]:
    """A line after which pandas' parser is in no quoted field. A quote that doesn't begin a field is a character."""
    mark = re.escape(sep)
    field = _FIELD % (mark, mark, mark, mark)
    return re.compile(rb"%b(?:%b%b)*+" % (field, mark, field), re.DOTALL)


_ODD: Final = "\ufffd".encode()  # What stands for bytes that no number and no level holds


def opened(path: Path) -> Any:
    """Bytes of a file, unpacked if it is compressed."""
    match path.suffix.lower():
        case ".gz":
            import gzip

            return gzip.open(path)
        case ".bz2":
            import bz2

            return bz2.open(path)
        case ".xz":
            import lzma

            return lzma.open(path)
        case ".zip":
            import zipfile

            archive = zipfile.ZipFile(path)
            names = [name for name in archive.namelist() if not name.startswith("__MACOSX/") and name[-1] != "/"]
            if len(names) != 1:
                raise DataError(f"{path.name} holds {len(names)} files; unpack it and give a list of them.")
            return archive.open(names[0])
    return path.open("rb")


_PACKED: Final = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"PK\x03\x04", b"PAR1", b"ARROW1")  # Begins of files of no text


def header(file: Any, name: str, sep: bytes = b",") -> list[str]:
    """Read the column names off the first line that isn't blank.
    Raises DataError if that line is no UTF-8 or ends in carriage returns, or a quote isn't closed in it.
    """
    line: bytes = file.readline()
    while line and not line.removeprefix(b"\xef\xbb\xbf").strip():
        line = file.readline()
    line = line.rstrip(b"\r\n")
    try:
        text = line.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        if line.startswith(_PACKED):
            said = "compressed (.csv.gz, .bz2, .xz, .zip), of Parquet (.parquet) or Feather (.feather), or a workbook"
            raise DataError(f"{name} is no text, but {said}; give it the ending of what it is, or save it as CSV.")
        raise DataError(
            f"{name}: its first line is no UTF-8, but Latin-1 or UTF-16, say; save the file as UTF-8, or, of Latin-1, "
            "read it with encoding='latin-1'."
        )
    if b"\r" in line:
        raise DataError(f"{name}: lines end in carriage returns alone; write it anew with line feeds.")
    if not _line(sep).fullmatch(line):
        raise DataError(f"{name}: a quote in its header isn't closed on the same line; write it anew.")
    return next(csv.reader([text], delimiter=sep.decode()), [])


def pieces(file: Any, columns: int, skip: int = 0, sep: bytes = b",") -> Iterator[bytes]:
    """Whole lines of what is left of a file after `skip` records, each of them closed in itself."""
    while piece := file.read(PIECE):
        piece += file.readline()
        if b"\r" in piece:
            piece = re.sub(rb"\r+\n", b"\n", piece).replace(b"\r", _ODD)
        piece = piece.replace(b"\0", _ODD)
        piece += b"" if piece.endswith(b"\n") else b"\n"
        if skip:
            here = lines_in(piece, columns, sep)
            if here <= skip:
                skip -= here
                continue
            piece, skip = _after(piece, skip, columns, sep), 0
        yield _closed(piece, columns, sep) if b'"' in piece else piece


def lines_in(piece: bytes, columns: int, sep: bytes = b",") -> int:
    """Records of whole lines. In a table of one column a blank line is a missing value, in others no record."""
    return piece.count(b"\n") - (_blank_lines(piece, _blanks(sep)) if columns > 1 else 0)


def _blanks(sep: bytes) -> bytes:
    """What a blank line holds: a line of tabs is a record where tabs are between fields."""
    return b" \t".replace(sep, b"")


def _blank_lines(piece: bytes, blanks: bytes) -> int:
    """Lines with nothing but blanks; few lines begin with one, and those are looked at."""
    first = tuple(blanks + b"\n")
    if piece[0] not in first and not any(b"\n" + bytes([c]) in piece for c in first):
        return 0
    held = np.frombuffer(piece, dtype=np.uint8)
    starts = np.append(0, np.flatnonzero(held == ord("\n"))[:-1] + 1)
    odd = starts[np.isin(held[starts], first)].tolist()
    return sum(not piece[k : piece.find(b"\n", k)].strip(blanks) for k in odd)


def _after(piece: bytes, records: int, columns: int, sep: bytes) -> bytes:
    """Lines after so many records."""
    at = 0
    while records:
        end = piece.find(b"\n", at) + 1
        records -= columns == 1 or bool(piece[at:end].strip(_blanks(sep) + b"\n"))
        at = end
    return piece[at:]


def _closed(piece: bytes, columns: int, sep: bytes) -> bytes:
    """Lines in which a quote would stay open hold no value; they would take in the lines after them."""
    unusual = _unusual(piece, sep).tolist()
    if not unusual:
        return piece
    lines: list[bytes] = piece.split(b"\n")
    for k in unusual:
        if not _line(sep).fullmatch(lines[k]):
            lines[k] = sep * columns + b"-"  # too long, so that none of its fields is one that is empty
    return b"\n".join(lines)


def _unusual(piece: bytes, sep: bytes) -> NDArray[np.intp]:
    """Lines with quotes elsewhere than around whole fields, by number: all in which one stays open, and some others."""
    held = np.frombuffer(b"\n" + piece, dtype=np.uint8)
    quotes = np.flatnonzero(held == ord('"'))
    before = np.searchsorted(quotes, np.flatnonzero(held == ord("\n")))  # each line's end; the first is that above all
    each = np.diff(before)
    opens = (np.arange(len(quotes)) - np.repeat(before[:-1], each)) % 2 == 0
    beside = np.isin(np.arange(256), tuple(sep + b'\n"'))  # before a quote that opens a field, or after it ends
    usual = beside[held[quotes + np.where(opens, -1, 1)]]
    line = np.repeat(np.arange(len(each)), each)
    return np.union1d(line[~usual], np.flatnonzero(each % 2))
