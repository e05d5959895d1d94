"""A source of rows: batches of raw columns, read once from beginning to end, at random where they can be addressed.

A table is cut into strata, strata into blocks of consecutive rows. A run takes one block of every stratum, and their
rows in turn, so that it stands for the whole table; successive runs spread evenly inside strata, too. Files and their
row groups come piece by piece at random, and as many rows as can be held are dealt together, as those of a table are.
"""

import math
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.base.arrays import Ints
from privreg.data.cells import Taken
from privreg.data.columns import column_of, joined, missing
from privreg.data.participants import ids_of, texts_of, without_id
from privreg.errors import DataError
from privreg.privacy.accounts import named
from privreg.privacy.noise import KEY_BYTES, derived_key, words
from privreg.schema.declarations import Schema

CHUNK: Final = 65_536
"""Rows encoded at a time. With a quarter of them two threads took as long as one: they waited for one another."""

NUMBERS: Final = 1 << 20  # Numbers in a batch's encoded rows, at most, where there are many columns: 8 MB
FEWEST: Final = 256
Batch = Any


@dataclass(frozen=True)
class Wanted:
    """Columns that a model reads of its data."""

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
    # what the ledger knows these people by, see `privreg.privacy.ledger`, often the rows themselves; None if nothing
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

    def of(self, dataset: Any) -> "Source":
        """The source with a name for its people, see `privreg.privacy.accounts.named`."""
        return replace(self, identity=named(self.identity, dataset))

    def expected(self) -> int | None:
        """Number of people, as far as it is known before reading them; public."""
        with suppress(Exception):  # whatever is wrong, reading the rows says so in words of our own
            return self.count() if self.rows is None else self.rows
        return None


def refuse_few(rows: int | None, coefficients: int, kind: str, who: str | None = None) -> None:
    """Refuse so many rows, or people by the column `who`, of a source of this kind, if they determine no fit."""
    by = f" People are told apart by id={who!r}, which holds texts or whole numbers." if who else ""
    if rows == 0:
        raise DataError(f"the data ({kind}) have no rows; a fit needs more people than coefficients.{by}")
    if rows is not None and rows <= coefficients:
        raise DataError(f"{rows} rows can't determine {coefficients} coefficients; more people are needed.{by}")


def summed(counts: Iterable[int | None]) -> int | None:
    """Rows of several sources together, None if they aren't known of one."""
    known = list(counts)
    return None if None in known else sum(n or 0 for n in known)


def chunk_of(columns: int) -> int:
    """Rows to encode at a time that have so many columns."""
    return max(min(CHUNK, NUMBERS // max(columns, 1)), FEWEST)


def rows_of(batch: Batch) -> int:
    """Rows of a batch."""
    if isinstance(batch, Taken):
        return len(batch.at)
    if isinstance(batch, tuple):
        return len(batch[0])
    return len(next(iter(batch.values()), ()) if isinstance(batch, Mapping) else batch)


def beyond(batches: Iterable[Batch], skip: int, rows: int | None = None) -> Iterator[Batch]:
    """Batches without the first `skip` rows, and with so many rows at most."""
    for batch in batches:
        n = rows_of(batch) if skip or rows is not None else 0
        if skip < n or not skip:
            whole = not skip and (rows is None or n <= rows)
            yield batch if whole else part_of(batch, slice(skip, None if rows is None else skip + rows))
            rows = None if rows is None else rows - (n - skip)
        skip = max(skip - n, 0)
        if rows is not None and rows <= 0:
            return


def ahead(items: Iterable[Any], work: Callable[[Any], Any] | None = None) -> Iterator[Any]:
    """Batches, or results of `work` on each, the next ones in threads while one is worked on."""
    coming, waiting = iter(items), deque[Future[Any]]()
    with ThreadPoolExecutor(1) as reader, ThreadPoolExecutor(2) as pool:
        read = reader.submit(next, coming, None)
        while read.exception() is None and (item := read.result()) is not None:
            read = reader.submit(next, coming, None)
            if work is None:
                yield item
                continue
            waiting.append(pool.submit(work, item))
            if len(waiting) > 2:
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
    """Marks of a file, with when it was changed last, which nobody can set back; keys are bound to them."""
    stat = path.stat()
    return [str(path.resolve()), stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns]


def check_labels(columns: Iterable[str], labels: Iterable[Any], where: str = "") -> list[Any]:
    """Refuse a table without one of the columns, or with several of that name, and return the names of all it has."""
    names, wanted, head = list(labels), list(columns), f"{where}: " if where else ""
    for name in wanted:
        if name not in names:
            raise DataError(f"{head}{missing(name, names, wanted)}")
        if names.count(name) > 1:
            raise DataError(f"{head}there is more than one column named {name!r}; rename or drop one.")
    return names


def once(batches: Iterator[Batch], what: str) -> Callable[[int], Iterator[Batch]]:
    """Batches that can be read a single time; a second reader gets an error, rather than no rows."""
    left = [batches]

    def given(skip: int) -> Iterator[Batch]:
        if not left:
            raise DataError(
                f"{what} was read before, and its rows are gone; give a new one, or a table or file that can be read "
                "again."
            )
        yield from beyond(left.pop(), skip)

    return given


STRATA: Final = 256
LONGEST: Final = 64  # Consecutive rows of a block, at most: with one of every stratum a run has 16,384 rows
BLOCKS: Final = 1 << 14
"""Blocks into which a table is cut at least, if it has so many rows: those of short ones are short."""

HELD: Final = 1 << 23  # Cells of pieces that are held at a time, at most: 64 MB of numbers
PUBLIC: Final = bytes(KEY_BYTES)  # Key of the order where nothing is private


class Piece(NamedTuple):
    """Rows that are read one after another."""

    rows: int | None  # None where only reading tells; then there is one piece
    batches: Callable[[int], Iterator[Batch]]  # those that follow so many rows


def held_rows(columns: int) -> int:
    """Rows of so many columns that are held at a time, at most."""
    return max(HELD // max(columns, 1), CHUNK)


def dealt_pieces(
    pieces: Callable[[], Iterable[Piece]], wanted: Wanted
) -> Callable[[bytes | None], Callable[[int], Iterator[Batch]]]:
    """`Source.dealt` of pieces, each read once; of a table that can be held, in the order of :func:`dealt_rows`.

    `pieces` makes them, for one reading. The order follows from their numbers of rows, and from the key.
    """
    most = held_rows(len(wanted.columns))

    def together(batches: Iterator[Batch]) -> Iterator[Iterator[Batch]]:  # each to be read before more are asked for
        waiting: list[Batch] = []

        def some(left: int) -> Iterator[Batch]:
            while left and (batch := waiting.pop() if waiting else next(batches, None)) is not None:
                took = min(rows_of(batch), left)
                waiting.extend(beyond([batch], took) if rows_of(batch) > took else ())
                left -= took
                yield from beyond([batch], 0, took)

        while (batch := waiting.pop() if waiting else next(batches, None)) is not None:
            waiting.append(batch)
            yield some(most)

    def dealt(key: bytes, skip: int) -> Iterator[Batch]:
        given = list(pieces())
        if len(given) > 1 and sum(piece.rows or 0 for piece in given) > most:
            given = [given[k] for k in spread(key, 1, len(given))[0]]
        counts = [piece.rows for piece in given]
        number, skip = divmod(skip, most)
        for held in together(chained(given, number * most)):
            left = most if None in counts else sum(n or 0 for n in counts) - number * most
            columns = joined(held, wanted.columns, wanted.schema, wanted.verbatim, min(left, most))
            rows = len(columns[wanted.columns[0]])
            mine = derived_key(key, f"rows {number}") if number else key
            yield from (Taken(columns, at) for at in dealt_rows(rows, mine, skip, len(columns)))
            number, skip = number + 1, 0
            del columns  # before more are read

    return lambda key: partial(dealt, PUBLIC if key is None else key)


def of_pieces(source: Source, pieces: Callable[[], Iterable[Piece]], wanted: Wanted) -> Source:
    """A source whose rows are those of pieces, in their order or dealt."""
    return replace(source, batches=lambda skip: chained(pieces(), skip), dealt=dealt_pieces(pieces, wanted))


def chained(pieces: Iterable[Piece], skip: int) -> Iterator[Batch]:
    """Batches of pieces after so many rows; pieces before them are not read."""
    for rows, batches in pieces:
        if rows is None or skip < rows:
            yield from batches(skip)
        skip = max(skip - (rows or 0), 0)


def at_places(batches: Iterable[Batch], places: Ints, wanted: Wanted) -> Iterator[Batch]:
    """Rows of batches at some places, counted over all of them, in the order of the places; only these are held."""
    turn = np.argsort(places)

    def some() -> Iterator[Batch]:
        begin = 0
        for batch in batches:
            end = begin + rows_of(batch)
            inside = slice(*np.searchsorted(places, (begin, end), sorter=turn))
            yield Taken(batch, places[turn[inside]] - begin)
            begin = end

    columns = joined(some(), wanted.columns, wanted.schema, wanted.verbatim, len(places))
    rows, most = len(columns[wanted.columns[0]]), chunk_of(len(columns))
    back = np.empty(rows, dtype=np.int64)
    back[turn[:rows]] = np.arange(rows)
    yield from (Taken(columns, back[a : a + most]) for a in range(0, rows, most))


def dealt_rows(rows: int, key: bytes | None, skip: int = 0, columns: int = 1, end: int | None = None) -> Iterator[Ints]:
    """Positions of all rows in random order, each once; the order doesn't depend on how it is cut into these.

    It follows from a secret `key`, None for an order that anybody knows. `skip` and `end` are places in it to begin and
    to end at, all of it by default. `columns` are those of a row, as those of one array are read together.
    """
    key, end = PUBLIC if key is None else key, rows if end is None else end
    most = chunk_of(columns)
    waiting: list[Ints] = []
    block = min(max(rows // BLOCKS, 1), LONGEST)
    blocks = -(-rows // block)
    strata = min(STRATA, blocks)
    edges = np.arange(strata + 1, dtype=np.int64) * blocks // max(strata, 1)
    sizes = np.diff(edges)
    longest = int(sizes.max(initial=0))
    # in strata of two lengths, the shorter ones miss the last run
    long = spread(derived_key(key, "long"), int((sizes == longest).sum()), longest)
    short = spread(derived_key(key, "short"), int((sizes < longest).sum()), longest - 1)
    at = np.full((longest, strata), -1, dtype=np.int32)
    at[:, sizes == longest] = long.T
    at[: longest - 1, sizes < longest] = short.T
    lengths = block * (at >= 0).sum(axis=1)
    lengths[(at == sizes - 1)[:, -1:].any(axis=1)] -= blocks * block - rows  # the last block is shorter
    ends = lengths.cumsum()
    within = np.arange(block)
    for r in np.flatnonzero((ends > skip) & (ends - lengths < end)):  # other runs are not made
        chosen, before = at[r], ends[r] - lengths[r]
        turn = np.argsort(words(derived_key(key, f"run {r}"), strata), kind="stable")
        turn = turn[chosen[turn] >= 0]
        begins = (edges[turn] + chosen[turn]) * block
        found = np.add.outer(within, begins).reshape(-1)
        found = found[found < rows] if begins.max() > rows - block else found
        here = found[max(skip - before, 0) : end - before]
        if waiting and sum(map(len, waiting)) + len(here) > most:
            yield np.concatenate(waiting)
            waiting = []
        while len(here) > most:
            yield here[:most]
            here = here[most:]
        waiting.append(here)
    if waiting and sum(map(len, waiting)):
        yield np.concatenate(waiting)


def spread(key: bytes, many: int, count: int) -> NDArray[np.int32]:
    """Random orders of 0 to `count` − 1 that spread evenly: of each 2^k in turn one is in every 2^k-th part.

    Shape (many, count).

    See Owen, Randomly permuted (t,m,s)-nets and (t,s)-sequences, 1995: van der Corput's sequence, scrambled.
    """
    levels = max(count - 1, 0).bit_length()
    turn = np.arange(1 << levels, dtype=np.int32)
    out = np.zeros((many, 1 << levels), dtype=np.int32)
    for j in range(levels):
        size = many << j
        drawn = words(derived_key(key, f"level {j}"), size // 8 + 1).view(np.uint8)[:size] & 1
        flips = drawn.astype(np.int32).reshape(many, 1 << j)
        out = 2 * out + ((turn >> j & 1) ^ np.take_along_axis(flips, out, axis=1))
    return out[out < count].reshape(many, max(count, 0))


def by_person(source: Source, column: str, *, gaps: bool) -> Source:
    """Rows of which those of one person come one after the other; `column` tells people apart.

    Rows that can be had at any place are gathered: people in the order in which they first come, or at random; `rows`
    are people then, and `column` has their numbers. A row without an id is nobody's with `gaps`, else an error. Rows of
    other sources are taken as they lie, and how many people there are isn't known, whatever the rows are.
    """
    if source.at is None:
        return replace(source, rows=None, count=lambda: None, part=None, dealt=None, blocks=())
    ids = [ids_of(column_of(batch, column)) for batch in source.batches(0)]
    if len({some.dtype for some in ids}) != 1:
        ids = [np.zeros(0, dtype=object), *map(texts_of, ids)]
    codes, found = pd.factorize(np.concatenate(ids))
    order = np.argsort(codes, kind="stable")[np.count_nonzero(codes < 0) :]  # of those with an id
    first = np.r_[0, np.bincount(codes[codes >= 0], minlength=len(found)).cumsum()]
    people = len(first) - 1
    if not gaps and first[-1] < len(codes):
        raise without_id(column)

    def rows(which: NDArray[np.int64], skip: int) -> Iterator[Batch]:
        ends = np.diff(first)[which].cumsum()
        moves = first[which + 1] - ends
        for a in range(skip, int(ends[-1]) if len(ends) else 0, chunk_of(1)):
            b = min(a + chunk_of(1), int(ends[-1]))
            i, j = np.searchsorted(ends, [a, b - 1], side="right")
            times = np.diff(np.minimum(ends[i : j + 1], b), prepend=a)
            places = order[np.arange(a, b) + np.repeat(moves[i : j + 1], times)]
            batch = source.at(places)  # type: ignore[misc]
            yield Taken({**batch.columns, column: codes}, places)

    def dealt(key: bytes | None, skip: int) -> Iterator[Batch]:
        return rows(np.concatenate([*dealt_rows(people, key), np.zeros(0, dtype=np.int64)]), skip)

    return replace(
        source,
        rows=people,
        batches=partial(rows, np.arange(people)),
        count=lambda: people,
        part=None,
        dealt=lambda key: partial(dealt, key),
        at=None,
        gathered=True,
    )
