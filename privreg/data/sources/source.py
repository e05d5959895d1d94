"""What a source of rows is: batches of raw columns, read once from beginning to end."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Taken
from privreg.data.columns import missing
from privreg.errors import DataError
from privreg.privacy.accounts import named
from privreg.schema.declarations import Schema

CHUNK: Final = 65_536
"""Rows encoded at a time. With a quarter of them two threads took as long as one: they waited for one another."""

NUMBERS: Final = 1 << 20  # Numbers in a batch's encoded rows, at most, where there are many columns: 8 MB
FEWEST: Final = 256
Batch = Any


@dataclass(frozen=True)
class Wanted:
    """What a model reads of its data."""

    columns: tuple[str, ...]  # no others are touched
    schema: Schema
    verbatim: frozenset[str] = frozenset()  # read from CSV as they are written, such as ids: "007" is not 7

    @property
    def coded(self) -> Collection[str]:
        """Columns whose texts are best held as codes, as few differ: factors and dates."""
        return self.schema.levels.keys() | set(self.schema.dates)


@dataclass(frozen=True)
class Source:
    """Rows to be read once per call of `batches`."""

    kind: str  # in words, for the summary
    rows: int | None  # how many there are, if known without reading them
    batches: Callable[[int], Iterator[Batch]] = field(repr=False)  # those that follow so many rows
    # what the ledger knows these people by, see `privreg.privacy.accounts`, often the rows themselves; None if nothing
    identity: Any = field(repr=False)
    # `rows`, or how many there are if counting is cheap beside reading them
    count: Callable[[], int | None] = field(repr=False, default=lambda: None)
    # what must not change for the same rows to come in the same order again, as JSON has it; None if nothing can tell
    stamp: Callable[[], list[Any] | None] = field(repr=False, default=lambda: None)
    # `batches` from a row on, so many rows at most, with nothing read ahead; absent where the rows before are read, too
    part: Callable[[int, int], Iterator[Batch]] | None = field(repr=False, default=None)
    repeatable: bool = True  # what comes from a generator or a reader is gone once it was read
    parts: bool = False  # whether its files are to be worked on by Dask
    # from a secret key, or None for an order that anybody knows, `batches` in random order; absent where rows come by
    # position only
    dealt: Callable[[bytes | None], Callable[[int], Iterator[Batch]]] | None = field(repr=False, default=None)
    mixed: float = math.inf  # rows that `dealt` deals among each other, where it takes them one after another
    # rows at given places, where single ones can be had for little
    at: Callable[[NDArray[np.int64]], Batch] | None = field(repr=False, default=None)
    gathered: bool = False  # whether rows come person by person, everybody once, with their numbers in place of ids
    blocks: tuple[int, ...] = field(repr=False, default=())  # rows of the pieces that files are read by

    def of(self, dataset: Any) -> Source:
        """The same, of people with a name, see `privreg.privacy.accounts.named`."""
        return replace(self, identity=named(self.identity, dataset))

    def expected(self) -> int | None:
        """How many people there are, as far as is known before reading them; public, like their number."""
        return self.count() if self.rows is None else self.rows


def refuse_few(rows: int | None, coefficients: int, kind: str, who: str | None = None) -> None:
    """Refuse so many rows, or people by the column `who`, of a source of this kind, if they determine no fit."""
    by = f" People are told apart by id={who!r}, which holds texts or whole numbers." if who else ""
    if rows == 0:
        raise DataError(f"the data ({kind}) have no rows; a fit needs more people than coefficients.{by}")
    if rows is not None and rows <= coefficients:
        raise DataError(f"{rows} rows can't determine {coefficients} coefficients; more people are needed.{by}")


def chunk_of(columns: int) -> int:
    """Rows to encode at a time that have so many columns."""
    return max(min(CHUNK, NUMBERS // max(columns, 1)), FEWEST)


def rows_of(batch: Batch) -> int:
    """Rows of a batch."""
    if isinstance(batch, Taken):
        return len(batch.at)
    if isinstance(batch, tuple):
        return len(batch[0])
    if isinstance(batch, Mapping):
        return len(next(iter(batch.values()), ()))
    return len(batch)


def beyond(batches: Iterable[Batch], skip: int) -> Iterator[Batch]:
    """Batches without the first `skip` rows."""
    for batch in batches:
        n = rows_of(batch) if skip else 0
        if skip and skip >= n:
            skip -= n
        elif skip:
            yield part_of(batch, slice(skip, None))
            skip = 0
        else:
            yield batch


def first(batches: Iterable[Batch], rows: int) -> Iterator[Batch]:
    """The first `rows` rows, or as many as there are."""
    for batch in batches:
        n = rows_of(batch)
        yield batch if n <= rows else part_of(batch, slice(rows))
        rows -= n
        if rows <= 0:
            return


def ahead(items: Iterable[Any], work: Callable[[Any], Any] | None = None, most: int = 2) -> Iterator[Any]:
    """Batches, or results of `work` on each, the next ones in threads while one is worked on."""
    coming, waiting = iter(items), deque[Future[Any]]()
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(most) as pool:
        read = reader.submit(next, coming, None)
        while read.exception() is None and (item := read.result()) is not None:
            read = reader.submit(next, coming, None)
            if work is None:
                yield item
                continue
            waiting.append(pool.submit(work, item))
            if len(waiting) > most:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
        read.result()  # raises what ended the reading


def pieces(batches: Iterable[Batch], most: int) -> Iterator[Batch]:
    """Batches of at most so many rows, the same rows in the same order."""
    for batch in batches:
        n = rows_of(batch) if most < CHUNK else 0
        if n <= most:
            yield batch
        else:
            yield from (part_of(batch, slice(a, a + most)) for a in range(0, n, most))


def part_of(batch: Batch, rows: Any) -> Batch:
    """Rows of a batch, a slice of them or those at some places."""
    if isinstance(batch, tuple):
        return tuple(None if part is None else part[rows] for part in batch)
    if isinstance(batch, Taken):
        return Taken(batch.columns, batch.at[rows])
    if isinstance(batch, Mapping):
        return {name: values[rows] for name, values in batch.items()}
    return batch.iloc[rows]


def file_mark(path: Path) -> list[Any]:
    """What distinguishes a file from another, or from what it was before, without reading it: keys are bound to it.

    It has when anything about the file was changed last, which nobody can set back.
    """
    stat = path.stat()
    return [str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def check_labels(columns: Iterable[str], labels: Iterable[Any], where: str) -> None:
    """Refuse a table without one of the columns, or with several of that name."""
    names, wanted = list(labels), list(columns)
    for name in wanted:
        if name not in names:
            raise DataError(f"{where}: {missing(name, names, wanted)}")
        if names.count(name) > 1:
            raise DataError(f"{where}: there is more than one column named {name!r}; rename or drop one.")


def once(batches: Iterator[Batch], what: str) -> Callable[[int], Iterator[Batch]]:
    """Batches that can be read a single time; a second reader gets an error, rather than no rows."""
    taken: list[bool] = []

    def given(skip: int) -> Iterator[Batch]:
        if taken:
            raise DataError(
                f"{what} was read before, and its rows are gone; give a new one, or a table or file that can be read "
                "again."
            )
        taken.append(True)
        yield from beyond(batches, skip)

    return given
