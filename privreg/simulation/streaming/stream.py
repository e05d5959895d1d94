"""A private regression in progress: rows in, estimates out at any time, and its description in a file."""

import hashlib
import math
import secrets
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.base import archive
from privreg.base.arrays import Array
from privreg.data.sources.open import Source, as_frame, chunk_of, pieces, rows_of
from privreg.errors import (
    DataError,
    InferenceError,
    PrivregError,
    SavedFileError,
    StreamError,
    UnsupportedArgumentError,
    warn,
)
from privreg.fits.fit_plan import plain
from privreg.fits.outcome import results
from privreg.fits.plan import guess_of
from privreg.fits.settings import FitOptions, Settings
from privreg.formula.describe import PublicRows
from privreg.formula.spec import ModelSpec
from privreg.options.running import one_thread
from privreg.options.table import check
from privreg.privacy.accounts import named
from privreg.privacy.ledger import LEDGER, Charge, Release
from privreg.privacy.noise import Key, derived_key, fresh_key, seeded_key
from privreg.results.results import PrivateResults
from privreg.simulation.rounds import ALONE, Crew
from privreg.simulation.streaming.encoding import Block, Gatherer, picked
from privreg.simulation.tuning import begun, outcome_of, resolve_tuning

AHEAD: Final = 2
"""Batches a thread that are encoded before they are played, at most: while the collector makes the next state, too."""


class Stream:
    """A fit in progress. Made by ``model.start()``; rows come in by :meth:`update`.

    `options` are the user's, by which a saved stream is rebuilt, and `start`, shape (p,), the public first guess,
    internal units. A seed is for simulation only.
    """

    def __init__(
        self, spec: ModelSpec, settings: Settings, options: dict[str, Any], *, seed: int | None, start: Array | None
    ) -> None:
        self._spec, self._settings, self._options, self._seed = spec, settings, options, seed
        self._start = None if start is None else start.tolist()
        key = None
        if spec.budget.private:
            key = fresh_key() if seed is None else seeded_key(seed)
        self._counter = spec.people.counter()
        self._run: Any  # A `Run`, or the published chain's
        self._run, self._encoder = begun(spec, settings, key, start, self._counter)
        # of the order in which rows are read
        self._deal = Key(derived_key(key, "order")) if key is not None and self._run.parallel else None
        cuts = None if spec.cuts is None else spec.cuts[:, self._encoder.order]
        rows = Gatherer(spec.people, binary=spec.family.binary, cuts=cuts)
        self._gather = None if spec.persons is None else rows
        self._lock = threading.Lock()
        self._broken = False
        self._cautioned = False  # whether results have warned that they should not be relied on
        self.rows_read = 0
        self._marks: list[tuple[int, int]] = []  # Rows read and people before the batches that open sums are of
        self._skip = 0  # People of the next rows whose reports are in sums already
        self._origin = object()
        self._release = secrets.token_hex()  # by which the ledger knows batches of the same memory for one release
        self.dataset: Any = None  # Names of the people who are to come
        self.charge: Charge | None = None  # of rows that are all given at once; batches are entered one by one

    def charged(self, whose: Any, stream: str = "") -> Charge:
        """Charge of the release for the ledger, on the data `whose`: a batch of `stream`, or all of it."""
        return Charge(whose, self.total_mu, seeded=self._seed is not None, stream=stream)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """Refuse other threads, and any use once a call was interrupted between a report and its bookkeeping."""
        if not self._lock.acquire(blocking=False):
            raise StreamError("another thread is using this stream; people report one after another: use one thread.")
        try:
            if self._broken:
                raise StreamError(
                    "this stream was interrupted in update(), results() or save(), so it can't tell which noise was "
                    "used; go on from the last saved state, or start again with other people."
                )
            yield
        finally:
            self._lock.release()

    @property
    def nobs(self) -> int:
        """People whose report has been taken so far."""
        return int(self._run.people)

    @property
    def again(self) -> bool:
        """True if rows are held or read again, as all of them answer in each round."""
        return bool(self._run.again)

    @property
    def total_mu(self) -> float:
        """GDP parameter of the whole release, per person."""
        return self._settings.total_mu(self._spec.people.max_per_id)

    @property
    def parallel(self) -> bool:
        """True if several threads are of use."""
        return bool(self._run.parallel) or self.again

    if not TYPE_CHECKING:  # to a type checker a stream has what is written here, and nothing else

        def __getattr__(self, name: str) -> Any:
            """Say which call of its results was meant."""
            from privreg.results.results import PrivateResults

            ours = not name.startswith("_") and hasattr(PrivateResults, name)
            fix = f"; its results so far have it: stream.results().{name}" if ours else "; see dir(stream)"
            raise AttributeError(f"a stream in progress has no {name!r}{fix}.")

    def update(self, batch: Any) -> "Stream":
        """Play the devices of the people in `batch`, each once, in order.

        Parameters
        ----------
        batch : DataFrame, mapping of str to array, table of Arrow or polars, or (endog, exog[, offset]) of array models
            New people; nobody's rows may come twice. Longer tables and files are better given to the model. With
            `k_max` all rows of a person are in one batch, in any order: who comes again reports zeros.

        Returns
        -------
        Stream
            Itself.

        Raises
        ------
        DataError, SchemaError
            If the rows can't be encoded. Nobody of this batch has then sent a report.
        NotPrivateError
            If they are those that were given as public `covariates`.
        BudgetError
            Under a limit (`privreg.limit_spending`) that it would exceed, or if nothing tells whose these rows are.
        StreamError
            After an interrupted update(), results() or save(), in a forked process, or while another thread is at it.
        """
        if self._public is not None:
            self._public.refuse(batch)
        with self._alone():
            charge = self.charged(named(batch, self.dataset), self._release)
            if getattr(self._spec.design, "formula", None) is not None:
                batch = as_frame(batch, self._spec.columns, self._spec.design.schema)
            rows = self._encoder.encode(batch, clamped=self._asks(batch))
            charge.enter()
            self._take(rows if self._gather is None else self._gather.together(rows), rows_of(batch))
        return self

    def _update_all(self, batches: Iterable[Any], threads: int) -> Iterator[int]:
        """Update by every batch in `threads` threads, of which this is one; gives the people so far."""
        with self._alone(), Crew(threads) as crew:
            reading = pieces(batches, chunk_of(len(self._encoder.order)))
            self._run.crew = crew
            coming: deque[tuple[int, Callable[[], list[Block]]]] = deque()
            problem, more = None, True
            try:
                while more or coming:
                    while more and len(coming) < (AHEAD * threads if threads > 1 else 1):
                        try:
                            batch = next(reading, None)
                        except PrivregError as e:  # raised again below: those before a damaged place are taken first
                            problem, batch = e, None
                        more = batch is not None
                        if more:
                            asks = self._asks(batch, sum(n for n, _ in coming))
                            coming.append((_counted(batch), crew.submit(partial(self._encoded, batch, clamped=asks))))
                    if coming:
                        read, result = coming.popleft()
                        rows = result()
                        if self.charge is not None and not self.again:
                            self.charge.enter()
                        for some in rows if self._gather is None else self._gather.take(rows):
                            self._take(some, read)
                            read = 0
                        self.rows_read += read
                        yield self.nobs
                if self._gather is not None and (last := self._gather.rest()) is not None:
                    self._take(last, 0)
                    yield self.nobs
                if problem is not None:
                    raise problem
            finally:
                self._run.crew = ALONE
                for one in (reading, batches):  # a database that is asked still can't be asked again
                    if isinstance(one, Generator):
                        one.close()

    def _encoded(self, batch: Any, *, clamped: bool) -> list[Block]:
        rows = self._encoder.encode(batch, clamped=clamped)
        return [rows] if self._gather is None else self._gather.cut(rows)

    def _asks(self, batch: Any, before: int = 0) -> bool:
        """True if any row of a batch, after `before` others, may be asked whether it was clamped."""
        rows = before + _counted(batch) + int(self._gather is not None)  # and whoever waits
        return bool(self._run.asks_clamping(rows))

    @one_thread()
    def _take(self, rows: Block, read: int) -> None:
        """Play the devices of records, of the next `read` rows."""
        if skip := min(self._skip, len(rows.y)):
            self._skip -= skip
            rows = picked(rows, slice(skip, None))
        y, x = rows.y, rows.x
        if self._counter is not None and (again := self._counter.count(rows.hashes)).any():
            y = np.where(again.reshape(-1, *[1] * (y.ndim - 1)), np.nan, y)
        silent: Any = np.isnan(y)
        if y.ndim > 1:  # of people, whose rows count by what part of a report they are
            silent = silent.all(axis=1)
        elif silent.any():
            # what is not a number is sent as pure noise; whether a response is missing is as private as what it is
            lacking = np.isnan(x[:, 0]) if self._run.label else silent
            x = np.where(lacking[:, None], self._run.absent, x)  # as x lies
        offset = None if rows.offset is None else np.nan_to_num(rows.offset)
        clamped = None if rows.clamped is None else rows.clamped * ~silent[:, None]
        rows = rows._replace(y=y, x=x, offset=offset, clamped=clamped, hashes=None)
        size = sum(c.nbytes for c in rows if c is not None)
        self._run.refuse(len(y), size, clustered=rows.cluster is not None)
        self._broken = True  # an interrupt inside would leave noise used but not marked
        self._marks.append((self.rows_read, self.nobs - skip))
        self._run.advance(*rows)
        self.rows_read += read
        while self._marks and (self.nobs if len(self._marks) < 2 else self._marks[1][1]) <= self._run.noised:
            self._marks.pop(0)
        self._broken = False

    @property
    def _public(self) -> PublicRows | None:
        """Public rows that stand for records' covariates."""
        efficient = self._settings.efficient
        return None if efficient is None else efficient.covariates

    @property
    def place(self) -> tuple[int, int]:
        """Rows read before the batch in which sums without noise begin, and how many people of it are in others."""
        if self.again:
            return 0, 0
        if not self._marks:
            return self.rows_read, self._skip
        rows, people = self._marks[0]
        return rows, self._run.noised - people

    def deals(self, source: Source) -> bool:
        """True if rows of a source are read in random order.
        Raises UnsupportedArgumentError if that was asked for, and can't be.
        """
        asked = self._options["order"]
        if asked == "random" and (source.dealt is None or source.mixed < math.inf):
            raise UnsupportedArgumentError(
                f"order='random' needs rows that can be addressed, and those of {source.kind} are read as they come; "
                "leave it out, or give a DataFrame, arrays or Parquet files."
            )
        if asked is None and self._spec.nonresponse:
            return False  # a person's surplus rows, which are noise, would come ever more often
        return self._run.parallel and asked != "position" and source.dealt is not None

    def read(self, source: Source) -> Iterator[Any]:
        """Batches of a source from the first row on that wasn't read yet."""
        if self._counter is not None:
            self._counter.numbered = source.gathered
        if not self.deals(source):
            return source.batches(self.rows_read)
        assert source.dealt is not None
        self._run.shuffled = source.mixed
        return source.dealt(self.deal_key)(self.rows_read)

    @one_thread()
    def play(self, threads: int, after: Callable[[], None] | None = None) -> None:
        """Play all rounds of rows that are held, or read again if they were too many; `after` each it is called."""
        self._run.kept = after or self._run.kept
        with self._alone(), Crew(threads) as crew:
            self._run.crew = crew
            try:
                self._settle()
            finally:
                self._run.crew = ALONE

    def take_up(self, source: Source, *, begun: bool = False) -> None:
        """Take up a source of which all report: its ledger's charge, and rows that all answer in each round are held.

        Too many of these are read again if they are in files. Raises BudgetError if the release, unless it is `begun`
        already, would exceed the limit of the process.
        """
        if not begun:
            LEDGER.check(source.identity, self.total_mu)  # a release that goes on is known by its name
        self.charge = self.charged(source.identity)
        if self.again:
            with suppress(OSError):  # reading says what is wrong
                if (stamp := source.stamp()) is not None:
                    self._run.reread = partial(self._again, source, stamp)

    def reported(self, source: Source, threads: int, bar: Any) -> Generator[None]:
        """Let all rows of a source report that were not read yet, batch by batch."""
        before = self.nobs
        for people in self._update_all(self.read(source), threads):
            bar.update(people - before)
            before = people
            yield

    def take_all(self, source: Source, threads: int, bar: Any) -> None:
        """Let everybody of a source report; raises BudgetError, DataError or SchemaError."""
        self.take_up(source)
        for _ in self.reported(source, threads, bar):
            pass
        if self.again:
            self.play(threads)

    def _again(self, source: Source, stamp: list[Any]) -> Iterator[Block]:
        """All rows once more, of files that are what they were."""
        other = Stream(self._spec, self._settings, self._options, seed=0, start=None)  # which counts rows anew
        run = other._run
        run.most = math.inf
        for _ in other._update_all(other.read(source), 1):
            yield from run.drained()
        yield from run.drained()
        if source.stamp() != stamp:
            raise DataError(
                "the files have changed while rounds were played, in each of which they are read: begin the fit anew."
            )

    @property
    def deal_key(self) -> bytes | None:
        """The key of the order in which rows are read."""
        return None if self._deal is None else self._deal.value

    # --- results ---------------------------------------------------------------------------------------

    def results(self) -> PrivateResults:
        """Results so far; the stream may go on afterwards.

        Warns
        -----
        ReliabilityWarning
            Once for each stream, if rows of the results should not be relied on; it names them and why.

        Raises
        ------
        InferenceError
            If fewer people than coefficients have reported.
        StreamError
            After an interrupted update(), results() or save(), or while another thread is at it.
        """
        with self._alone():
            res = self._results()
        if not self._cautioned and {note.code for note in res._doubts()} != {"unbegun"}:  # more records may come
            self._cautioned = res._caution()
        return res

    def _settle(self) -> None:
        """Add noise to open sums; with rows that are held, the release begins here, if they are enough."""
        if self.again:
            self._run.ready()
            if self.charge is not None:
                self.charge.enter()
        self._broken = True  # else an interrupt inside would leave noise used but not marked
        self._run.close()
        self._broken = False

    @one_thread()
    def _results(self, release: Release | None = None, added: Sequence[tuple[str, str]] = ()) -> PrivateResults:
        self._settle()
        release = release or (self.charge and self.charge.release) or Release(0, self.total_mu)
        given = self._spec, self._settings
        outcome = outcome_of(self._run, *given, self._encoder.order)
        return results(outcome, *given, release, seeded=self._seed is not None, added=added, origin=self._origin)

    # --- storage ---------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Save the stream so that `privreg.load` goes on exactly, to the same bits.

        The file takes over the devices' noise: the current key (never a past one) and what is left of the current
        block. So it is readable by its owner only; this stream goes on with a fresh key; and loading takes the key out
        of the file, so that a second load draws a fresh one too. Don't copy the file: whoever loads a copy would noise
        other people with the same numbers. A seeded stream, which protects nobody anyway, keeps its noise. With two
        collectors and ``cluster=`` a save in the main round publishes its sums, so that no people can follow.

        Continue only streams you saved: whoever makes up a file chooses its noise. The file is sealed under a secret of
        yours, made on first use in your data folder (``~/.local/share/privreg/secret``, or where the environment
        variable ``PRIVREG_SECRET`` says), and loads where that secret is.

        Raises
        ------
        InferenceError
            With the central plug-in, whose raw sums must not be stored.
        SavedFileError
            If the folder, or that of your secret, is missing or not writable.
        UnsupportedArgumentError
            If the name is that of a page, a text, a table or another program's file.
        """
        archive.refuse_suffix(path, views=False)
        with self._alone():
            document, arrays = self._snapshot()
            if self._spec.budget.private and self._seed is None:
                self._run.renew(fresh_key())  # before writing: were it cut off then, noise is lost, never used twice
            archive.write_archive(path, archive.STREAM, {**document, "dataset": self.dataset}, arrays)

    def _snapshot(self, *, close: bool = True) -> tuple[dict[str, Any], dict[str, Any]]:
        """The whole stream, the key of noise to come included: its description, and arrays.

        Sums that have no noise yet are given it, or left out, see `place`: their rows are then to be read again.
        Raises InferenceError if it holds what must not be stored.
        """
        spec, run, design = self._spec, self._run, self._spec.design
        if any(m.central for m in self._settings.methods):
            raise InferenceError("a stream with plug_in_central holds raw sums and can't be saved; use plug_in.")
        if spec.people.id is not None and not self.again:
            raise InferenceError(
                "a stream with id= keeps in memory how often each person came, and that is never stored; save its "
                "results() instead."
            )
        if spec.family.score is not None:
            raise InferenceError(
                "a stream of a family of your own can't be saved, as code is never stored; save its results() instead."
            )
        document = {
            "design": design.to_json(),
            "family": spec.family.to_json(),
            "budget": [spec.budget.form, list(spec.budget.asked)],
            "options": self._options,
            "private": [spec.score_weights, spec.mechanism, spec.private],
            "trust": spec.trust,
            "people": spec.people.to_json(),
            "seed": self._seed,
            "plan": plain(run.identity),
            "start": self._start,
            "covariates": None if self._public is None else self._public.described,
            # functions are known by name only: what they make of public rows tells one from another
            "probe": hashlib.sha256(design.probe.astype(np.float32).tobytes()).hexdigest(),
        }
        if close:
            self._settle()
        public = {} if self._public is None else {"covariates": self._public.inside}
        return document, public | run.to_arrays(close=close) | run.secrets(close=close)

    def _restore(self, path: Path, document: dict[str, Any], arrays: dict[str, Any]) -> None:
        """Take over a saved state, and take the keys out of its file."""
        run = self._run
        if plain(self._run.identity) != document["plan"]:
            raise SavedFileError(f"{path.name!r} was saved under rules this version doesn't follow; finish it there.")
        run.from_arrays(arrays)
        secrets = {k: v for k, v in arrays.items() if k.startswith("secret_")}
        if not self._spec.budget.private:
            return
        if not secrets and self._seed is not None:
            raise SavedFileError(f"{path.name!r} has a seed, but was saved without one; begin the stream anew.")
        if not secrets:
            warn(f"the key in {path.name!r} was taken by an earlier load; this stream goes on with fresh noise.")
            run.renew(fresh_key())  # of the stage the file was saved in
            return
        if self._seed is None:
            rest = {k: v for k, v in arrays.items() if k not in secrets}
            document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
            archive.write_archive(path, archive.STREAM, document, rest)
        run.take_secrets(secrets)

    def __reduce__(self) -> str:
        raise TypeError("a stream holds a secret key and can't be pickled; use save(path) and privreg.load(path)")

    def __repr__(self) -> str:
        return f"<privreg stream: {self._spec.formula!r}, {self.nobs:,} records so far, {self._spec.budget}>"


def _counted(batch: Any) -> int:
    """Number of rows of a batch; none of what is no table, as whoever encodes it says."""
    try:
        return rows_of(batch)
    except Exception:
        return 0


def begin(
    spec: ModelSpec, asked: FitOptions, start_params: Any, seed: Any, rows: int | None, start: Any = None
) -> Stream:
    """A stream that waits for its first rows, of which `rows` are expected, if that is known.

    `start_params` is a public first guess, user's units; in its place `start` is that of a saved stream, internal
    units. A seed is for simulation only.
    Raises OptionError, InferenceError if an option is out of range, or a method can't do what is asked.
    """
    seed = check("local.fit", "seed", seed)
    settings = resolve_tuning(asked, spec, rows)
    options = asked.plain([m.name for m in settings.methods]) | {"rows": rows}
    if start is not None:
        inside = np.array(start, dtype=np.float64)
        if inside.shape != (len(spec.coefficients),) or not np.isfinite(inside).all():
            raise ValueError("a first guess of another model")
        return Stream(spec, settings, options, seed=seed, start=inside)
    return Stream(spec, settings, options, seed=seed, start=guess_of(spec, start_params))
