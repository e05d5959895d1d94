"""One fit by rounds over many files: blocks of rows are dealt to rounds, and workers play pieces of a round, by Dask.

A piece is a run of records that answer one public state. Whoever plays it returns its sums with their noise, as whole
multiples of a public step; the noise belongs to the piece, so that one that is worked on twice, after a failure or to
be sure, gives the same sums, and is counted once. What goes from one place to another is public state, names of files,
numbers of rows, keys that print as nothing, and noised sums. Workers read rows themselves, so that no log of a failed
task, which quotes its arguments, holds one. Neither the number of workers nor their order changes a bit.
"""

import functools
import math
import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

import numpy as np

from privreg.base.arrays import Ints
from privreg.base.optional import need
from privreg.data.sources.open import Batch, Source, file_mark, refuse_few, rows_of
from privreg.data.sources.source import PUBLIC, Wanted, at_places, beyond, dealt_rows, spread
from privreg.errors import DataError, OptionError, PrivregError, StreamError, UnsupportedArgumentError
from privreg.fits.findings import before_role
from privreg.fits.settings import FitOptions
from privreg.formula.spec import ModelSpec
from privreg.options.running import progress_bar
from privreg.options.table import check
from privreg.privacy.ledger import LEDGER
from privreg.privacy.noise import Key, derived_key
from privreg.protocol.rounds import State
from privreg.results.results import PrivateResults
from privreg.simulation.rounds import MOST, PIECE, STEP, RoundsRun, Run, Sent
from privreg.simulation.streaming.stream import Stream, begin

P = ParamSpec("P")
T = TypeVar("T")


class Span(NamedTuple):
    """Consecutive rows of one file, or rows at consecutive places of a random order of those of a row group."""

    path: str
    first: int  # Place of the first row in the file, or in the order
    rows: int
    mark: tuple[int, ...] = ()  # Size and times of change of the file when the fit began; a key is for no other rows
    of: tuple[int, int] = (0, 0)  # First row of the row group, and its number of rows
    order: Key | None = None  # Key of the random order; None if rows are consecutive

    def places(self) -> Ints:
        """Numbers of the rows in the file."""
        if self.order is None:
            return np.arange(self.first, self.first + self.rows)
        held = dealt_rows(self.of[1], self.order.value, self.first, end=self.first + self.rows)
        return self.of[0] + np.concatenate(list(held))


def split(spans: Sequence[Span], rows: int) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """The first `rows` rows of spans, and the others."""
    first, rest = list[Span](), list[Span]()
    for span in spans:
        took = min(rows, span.rows)
        rows -= took
        first += [span._replace(rows=took)] if took else []
        rest += [span._replace(first=span.first + took, rows=span.rows - took)] if took < span.rows else []
    return tuple(first), tuple(rest)


@dataclass(frozen=True)
class Work:
    """Message to every worker: the model and the options of its fit; public."""

    spec: ModelSpec
    asked: FitOptions
    start: Any  # The user's first guess
    rows: int

    def __reduce__(self) -> tuple[Any, ...]:
        return _known, (pickle.dumps((self.spec, self.asked, self.start, self.rows)),)

    def stream(self) -> Stream:
        """A new stream of the plan."""
        return begin(self.spec, self.asked, self.start, None, self.rows)

    def batches(self, part: Sequence[Span], rows: int) -> Iterator[Batch]:
        """Batches of a part's first `rows` rows; a row group in random order is read once, for all its spans."""
        opened = functools.cache(self.spec.open)  # a file is looked into once
        groups: dict[tuple[object, ...], list[Span]] = {}
        for span in split(part, rows)[0]:
            groups.setdefault(span if span.order is None else (span.path, span.of), []).append(span)
        ones = [spans[0] for spans in groups.values()]
        batches = (batch for one in ones for batch in _read(opened(one.path), one))
        if all(one.order is None for one in ones):
            return batches
        before = np.cumsum([0, *(one.of[1] for one in ones)])[:-1]
        places = [s.places() - s.of[0] + n for n, some in zip(before, groups.values(), strict=True) for s in some]
        return at_places(batches, np.concatenate(places), Wanted(self.spec.columns, self.spec.design.schema))


def _read(source: Source, span: Span) -> Iterator[Batch]:
    """Rows of a span, or of all its row group where they are dealt."""
    changed = DataError(f"{span.path!r} is not what it was when the fit began; files must not change under a fit.")
    if span.mark and tuple(file_mark(Path(span.path))[1:]) != span.mark:
        raise changed
    begin, n = (span.first, span.rows) if span.order is None else span.of
    for batch in beyond(source.batches(begin), 0, n) if source.part is None else source.part(begin, n):
        n -= rows_of(batch)
        yield batch
    if n:
        raise changed


@functools.lru_cache(maxsize=4)
def _known(public: bytes) -> Work:
    """Work made from its pickle, cached: a design takes longer to make than a batch to play."""
    return Work(*pickle.loads(public))


Each = Callable[[Callable[..., Any], Sequence[tuple[Any, ...]]], list[Any]]
"""Call a function with each of many sets of arguments, anywhere and in any order; results in the order of the sets."""


def quiet(play: Callable[P, T]) -> Callable[P, T]:
    """Let no text of another library leave a worker: it could quote a row."""

    @functools.wraps(play)
    def played(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return play(*args, **kwargs)
        except PrivregError:
            raise
        except MemoryError:
            problem = DataError("a worker has not enough memory; give it more, or fewer threads.")
        except Exception as e:
            kind = type(e).__name__
            problem = DataError(f"a part could not be worked on ({kind}; its text is withheld, as it may quote a row).")
        raise problem  # out here, where no other exception is its context

    return played


FEWEST: Final = 64  # Blocks that are dealt, at least: fewer and larger ones are cut
TASKS: Final = 16  # Tasks of a round, unless pieces are larger than that
FEWEST_OF_LINES: Final = 8  # `FEWEST` if no file has row groups: rows before a block are read, too


def blocks_of(files: Sequence[Span], spec: ModelSpec) -> list[Span]:
    """Blocks of rows: row groups of Parquet files, and even pieces of these, or of other files, where there are few.

    `files` are whole ones; the blocks are the same for any number of workers.
    """
    held: list[Span] = []
    groups = [spec.open(file.path).blocks for file in files]
    for file, rows_each in zip(files, groups, strict=True):
        first = 0
        for rows in rows_each or (file.rows,):
            held += [file._replace(first=first, rows=rows, of=(first, rows))] if rows else []
            first += rows
    pieces = math.ceil((FEWEST if any(groups) else FEWEST_OF_LINES) / max(len(held), 1))
    out = []
    for block in held:
        edges = [block.first + block.rows * k // pieces for k in range(pieces + 1)]
        out += [block._replace(first=a, rows=b - a) for a, b in pairwise(edges) if b > a]
    return out


@quiet
def _play(
    work: Work, part: Sequence[Span], rows: int, sizes: Sequence[int], keys: Sequence[Key | None], state: State
) -> list[Sent]:
    """Play the records of some pieces, which follow each other, at a public state; their sums, with their noise."""
    stream = work.stream()
    whole: Any = stream._run
    run = PieceRun(whole, state, sizes, [None if key is None else key.value for key in keys])
    stream._run = run
    for _ in stream._update_all(work.batches(part, rows), 1):
        pass
    if len(run.sent) < len(sizes):
        raise DataError("rows are missing")
    return run.sent


def fit_blocks(
    spec: ModelSpec,
    asked: FitOptions,
    start: Any,
    seed: int | None,
    blocks: Sequence[Span],
    each: Each,
    whose: Any = None,
) -> Stream:
    """Fit all blocks of some files; a stream that has had everybody.

    `start` is the user's first guess, `seed` for simulation only, `each` how functions are called, see `Each`.
    The release is entered before the first report for `whose` the ledger knows.
    Raises OptionError, InferenceError if an option or a method can't be used.
    """
    if asked.tuning == "published":
        raise OptionError("tuning='published' is a single chain, which can't be cut into parts; leave tuning= out.")
    if asked.measures is not None:
        raise OptionError("measures= takes the last people of one stream, and can't be used with parts; leave it out.")
    if spec.people.id is not None:
        raise OptionError("id= counts a person's rows, which workers can't do for each other; leave id= or Dask out.")
    if spec.people.missing == "drop":
        raise OptionError("missing='drop' can't be used with Dask; missing='noise' keeps secret who answered, too.")
    if spec.family.score is not None:
        raise OptionError("a family of your own can't be sent to workers, as code is never sent; fit it here.")
    rows = sum(block.rows for block in blocks)
    work = Work(spec, replace(asked, covariates=None), start, rows)  # of which what records are asked is no part
    stream = begin(spec, asked, start, seed, rows)
    stream.charge = None if whose is None else stream.charged(whose)
    run: Any = stream._run
    left, run.shuffled = tuple(blocks), 0.0 if asked.order == "position" else math.inf
    if asked.order != "position":  # rows of a group at random, and in early rounds some of each of many groups:
        # whole ones would be missing from the rounds that make the estimate
        key = PUBLIC if stream.deal_key is None else stream.deal_key
        orders = {(b.path, b.of): Key(derived_key(key, f"group {k}")) for k, b in enumerate(blocks)}
        mixed = [b._replace(first=b.first - b.of[0], order=orders[b.path, b.of]) for b in blocks]
        mixed = [mixed[k] for k in spread(key, 1, len(blocks))[0]]
        most = -(-before_role(run.plan, run.progress, "main") // min(FEWEST, len(mixed))) if mixed else 0
        heads = [b._replace(rows=min(b.rows, most)) for b in mixed[:FEWEST]]
        rests = [b._replace(first=b.first + most, rows=b.rows - most) for b in mixed[:FEWEST] if b.rows > most]
        left = (*heads, *rests, *mixed[FEWEST:])
    while many := sum(span.rows for span in left):
        number, state, given = len(run.progress.held), run.progress.state, []
        pieces = run.pieces(many)
        for some in _together([n for _, n in pieces], max(PIECE, sum(n for _, n in pieces) // TASKS)):
            sizes = [pieces[k][1] for k in some]
            keys = [None if run.key is None else Key(derived_key(run.key, f"piece {number} {k}")) for k in some]
            part, left = split(left, sum(sizes))
            given.append((work, part, sum(sizes), sizes, keys, state))
        if stream.charge is not None:
            stream.charge.enter()
        sums = [one for sent in each(_play, given) for one in sent]
        for (of, n), one in zip(pieces, sums, strict=True):
            run.add(of, n, one)
            stream.rows_read += n
        if run.key is not None:
            run.key = derived_key(run.key, "following")  # that of noise that was used is forgotten
    return stream


def _together(sizes: Sequence[int], most: int = PIECE) -> list[list[int]]:
    """Numbers of the pieces that are one task of so many records: row groups are read from their beginning."""
    out: list[list[int]] = []
    held = most
    for k, n in enumerate(sizes):
        if held + n > most:
            out.append([])
            held = 0
        out[-1].append(k)
        held += n
    return out


class PieceRun(RoundsRun):
    """Pieces of one round, one after another, whose sums are collected elsewhere.

    `run`, of the same plan, has had nobody, `state` is what the records answer, `sizes` are records of each piece, and
    `keys` those of each piece's noise and of no other's.
    """

    def __init__(self, run: RoundsRun, state: State, sizes: Sequence[int], keys: Sequence[bytes | None]) -> None:
        if any((key is None) != (run.key is None) for key in keys):
            raise ValueError("a piece needs a key where the fit has one")
        super().__init__(run.plan, keys[0], personal=run.personal, unusable=run.unusable)
        self.chain = self.chain._replace(history=(self.progress._replace(state=state),))
        self.sent: list[Sent] = []
        self._left = list(zip(sizes, keys, strict=True))
        self._follow()

    asks_clamping = Run.asks_clamping  # all records of a piece answer one state

    def _follow(self) -> None:
        self.size, self.key = self._left.pop(0)
        self.at = 0
        self._lay_out(self.size, 1)

    def _finish(self) -> None:
        """Keep the piece's sums, with their noise, and begin the next."""
        self.close()
        whole = np.rint(np.clip(self.total[0] / STEP, -MOST, MOST))
        self.sent.append(Sent(self.weight[0], np.asarray(whole, dtype=np.int64)))
        if self._left:
            self._follow()


# --- Dask -------------------------------------------------------------------------------------------------------

RETRIES: Final = 2
"""Retries of a task whose error is not about the rows. Dask gives tasks of workers that die to others."""
LOCAL: Final = "local"


def fit(
    spec: ModelSpec, source: Source, asked: FitOptions, start: Any, seed: Any, progress: bool | None, client: Any
) -> PrivateResults:
    """Fit the parts of a source's files on a cluster; see `PrivateOnlineRegression.fit`."""
    files = files_of(source, spec)
    total = sum(file.rows for file in files)
    refuse_few(total, len(spec.design.names), source.kind)
    LEDGER.check(source.identity, begin(spec, asked, start, seed, total).total_mu)
    with connected(client) as connection, progress_bar(total, progress) as bar:
        each, seed = calling(connection, bar.update), check("local.fit", "seed", seed)
        stream = fit_blocks(spec, asked, start, seed, blocks_of(files, spec), each, source.identity)
        bar.update(total - bar.n)
    return stream._results()


@contextmanager
def connected(client: Any) -> Iterator[Any]:
    """The user's client, or one of a cluster on this machine's processors that ends with the fit.
    Raises OptionError if it is neither a client nor "local"; MissingExtraError if Dask is not installed; StreamError if
    no cluster can be started here.
    """
    distributed = need("distributed", "dask", "a fit over several processes")
    if isinstance(client, distributed.Client):
        yield client
        return
    if client is not None and client != LOCAL:
        raise OptionError(
            f"client is of type {type(client).__name__}; give a distributed.Client, or 'local' for one of this machine."
        )
    problem = None
    try:
        started = distributed.LocalCluster(threads_per_worker=1, dashboard_address=":0")
    except Exception as e:
        problem = StreamError(
            f"no cluster could be started here ({type(e).__name__}). Workers are processes that import the script: "
            'what fits must stand below `if __name__ == "__main__":`. Nobody has reported.'
        )
    if problem is not None:
        raise problem
    with started as cluster, distributed.Client(cluster) as local:
        yield local


def calling(client: Any, done: Callable[[int], None]) -> Each:
    """Call functions on the workers of a client, see `Each`; `done` gets the people of each task that ends."""
    as_completed = need("distributed", "dask", "a fit over several processes").as_completed
    run = uuid.uuid4().hex[:8]

    def each(function: Callable[..., Any], given: Sequence[tuple[Any, ...]]) -> list[Any]:
        names = [f"privreg-{run}-{function.__name__.strip('_')}-{uuid.uuid4().hex[:8]}-{i}" for i in range(len(given))]
        futures = [
            client.submit(function, *some, key=name, pure=False, retries=RETRIES)
            for some, name in zip(given, names, strict=True)
        ]
        people = {future.key: some[2] for future, some in zip(futures, given, strict=True)}
        problem: PrivregError | None = None
        try:
            for future in as_completed(futures):
                future.result()
                if isinstance(people[future.key], int):
                    done(people[future.key])
            return list(client.gather(futures))
        except PrivregError:
            raise
        except Exception as e:  # of the scheduler: workers that died, a connection that was lost
            problem = StreamError(
                f"the workers could not finish ({type(e).__name__}); see that they have enough memory and see the same "
                "files, and fit again. What was reported counts as spent."
            )
        finally:
            client.cancel(futures)
        raise problem

    return each


def files_of(source: Source, spec: ModelSpec) -> list[Span]:
    """A source's files, whole.
    Raises UnsupportedArgumentError if the rows don't come from files that workers could read; DataError if nobody can
    tell how many rows a file has.
    """
    if (stamp := source.stamp()) is None:
        raise UnsupportedArgumentError(
            f"workers read rows from files, and these come from {source.kind}; write them to Parquet files and give "
            "their folder."
        )
    files = []
    for path, *mark in stamp:
        if (rows := spec.open(path).expected()) is None:
            raise DataError(f"{path!r} can't be read to count its rows.")
        files.append(Span(str(path), 0, rows, tuple(mark)))
    return files
