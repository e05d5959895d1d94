"""Rows of plain CSV files by pyarrow's parser, as far as they are plain.

Plain is what two parsers can't take for different things: no quotes, lines that end in line feeds, as many fields in
every line as the header has, numbers that read as numbers. Where a file stops being plain, pandas' parser goes on, so
that no cell means anything else for having been read here.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from privreg.data.sources.arrow import batches_of, pyarrow
from privreg.data.sources.source import Batch, Wanted
from privreg.errors import MissingExtraError

__all__ = ["available", "plain", "plain_batches"]

_WHAT: Final = "a CSV file"

PIECE: Final = 1 << 20
"""Bytes that are parsed at a time."""

THREADS: Final = 2
"""Pieces that are parsed at the same time, while others are played."""


def available() -> bool:
    """Whether pyarrow and its parser are installed."""
    try:
        pyarrow(_WHAT, "pyarrow.csv")
    except MissingExtraError:
        return False
    return True


def plain(piece: bytes) -> bool:
    """Whether lines have neither quotes nor ends that parsers differ about."""
    if b'"' in piece or b"\0" in piece:
        return False
    return b"\r" not in piece or piece.count(b"\r") == piece.count(b"\r\n")


def _piece(file: Any) -> bytes | None:
    """The next lines of a file, empty at its end; None where they are not plain, or can't be read."""
    try:
        piece: bytes = file.read(PIECE)
        if piece and not piece.endswith(b"\n"):
            piece += file.readline(PIECE)
    except Exception:  # cut off, say: the other parser finds it out again, and says so
        return None
    return piece if plain(piece) and len(piece) < 2 * PIECE else None


def plain_batches(
    file: Any, names: Sequence[str], wanted: Wanted, text: set[str], missing: Sequence[str], done: Callable[[], None]
) -> Iterator[Batch]:
    """Batches of the plain records of a file, in order, up to the first that is not.

    Parameters
    ----------
    file : binary file
        After its header.
    names : sequence of str
        All columns of the header, which are more than one: in one column a blank line is a missing value.
    wanted : Wanted
    text : set of str
        Columns that stay as they are written.
    missing : sequence of str
        Texts that stand for a missing number.
    done : callable
        Called at the end, if the whole file was plain.
    """
    pa, parser = pyarrow(_WHAT), pyarrow(_WHAT, "pyarrow.csv")
    place = {c: str(names.index(c)) for c in wanted.columns}
    # the few texts of a factor come as codes; those of ids are nearly all different
    texts = {c: pa.dictionary(pa.int32(), pa.binary()) if c in wanted.coded else pa.binary() for c in text}
    reading = parser.ReadOptions(
        column_names=[str(k) for k in range(len(names))], block_size=2 * PIECE, use_threads=False
    )
    parsing = parser.ParseOptions(quote_char=False)
    converting = parser.ConvertOptions(
        check_utf8=False,
        column_types={j: texts.get(c, pa.float64()) for c, j in place.items()},
        include_columns=list(place.values()),
        null_values=list(missing),
        strings_can_be_null=False,
    )

    def parsed(piece: bytes) -> list[Batch]:
        table = parser.read_csv(pa.BufferReader(piece), reading, parsing, converting).rename_columns(list(place))
        return [
            {c: _unwritten(values) if c in text else values for c, values in batch.items()}
            for part in table.to_batches()
            for batch in batches_of(part, wanted, _WHAT)
        ]

    with ThreadPoolExecutor(THREADS) as pool:
        waiting: deque[Future[list[Batch]]] = deque()
        piece = _piece(file)
        while piece or waiting:
            if piece and len(waiting) <= THREADS:
                waiting.append(pool.submit(parsed, piece))
                piece = _piece(file)
                continue
            try:
                held = waiting.popleft().result()
            except Exception:  # a line that is not plain: whose it is, the other parser finds out
                return
            yield from held
    if piece is not None:
        done()


def _unwritten(values: Any) -> Any:
    """Texts of a column; an empty field is a missing value."""
    import pandas as pd

    if isinstance(values, pd.Categorical):
        return values.remove_categories([""]) if "" in values.categories else values
    values[values == ""] = None
    return values
