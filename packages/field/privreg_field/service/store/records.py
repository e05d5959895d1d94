"""Records that a collector stores in any database: reports, states, tokens, shares; and the thread that writes them."""

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from sqlalchemy.exc import SQLAlchemyError

from privreg.errors import OptionError
from privreg_field.wire.wire import hash_of

NEW, SAME, OTHER, FAILED, KEPT = "new", "same", "other", "failed", "kept"
"""Outcomes of a report; the last two are of one that couldn't be written, and of a trial."""

CLOSED, SEALED = "closed", "sealed"
"""A study that asks nobody, and one of which no report counts any more, whatever clocks say."""

FROZEN, UNSUMMED = (
    "frozen",
    "unsummed",
)  # Outcomes of a share: its batch is full or being closed, or was closed without it

OPEN, OFFERED, FIXED, PUBLISHED, LOST = "open", "offered", "fixed", "published", "lost"
HELD, SUMMED = "held", "summed"  # Status of a batch, and of a share, which may also be unsummed


class StoreError(OptionError):
    """The database can't be used; the text says why."""


class Arrived(NamedTuple):
    """A report that may count: its token is good and its state was published."""

    token_id: bytes
    state: int
    role: str
    group: int
    body_hash: bytes
    values: bytes  # int32, little-endian


class Held(NamedTuple):
    """A published state."""

    k: int
    envelope: bytes
    payload: bytes
    hash: bytes
    time: int


class Access(NamedTuple):
    """A token of somebody who reads results, or operates the collector."""

    digest: bytes  # SHA-256 of the token
    name: str
    may: tuple[str, ...]
    until: int | None = None  # Seconds since 1970 UTC when it ends


class About(NamedTuple):
    """A study, its plan and what commands have changed."""

    slug: str
    plan_hash: bytes  # Hash of the analysis
    plan: bytes  # The signed envelope
    status: str  # "open", "closed" by hand, or "sealed": no report counts any more
    issued: int  # Tokens that were handed out
    seq: int  # Reports that count
    moved: str | None  # Database that it was moved to; then nothing here counts
    erased: int | None  # When its reports were deleted, seconds since 1970; their sums stay


class RecordStore(Protocol):
    """Record store for what devices send: a database, or one collector of two, which seals shares before."""

    def take(self, arrived: Sequence[Any], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        """Keep some; what became of each."""

    def has(self, token: bytes, body_hash: bytes) -> bool:
        """True if these bytes of a token count."""

    def people(self) -> dict[int, int]:
        """Numbers of reports that count, by the state that they answered."""


# --- studies with two collectors -----------------------------------------------------------------------------


class Posted(NamedTuple):
    """A share that may count."""

    token_id: bytes
    state: int
    body_hash: bytes
    sealed: bytes | None  # Sealed by the batch's key; None if it can't be stored now


class Batch(NamedTuple):
    """Shares of one state, as far as they have become a sum."""

    k: int
    status: str = OPEN
    offer: bytes = b""  # Hash of the leader's list
    ids: bytes = b""  # Offered, then of the list that was fixed: ascending, one after the other
    value: bytes = b""  # Signed envelope with the sum and this collector's noise
    peer_hash: bytes = b""  # Hash of the other's, as heard before this one's left; none where it rests on its word
    peer_value: bytes = b""

    @property
    def other(self) -> bytes:
        """Hash of the other's sum: of the sum itself once it came, else what the other has committed to."""
        return hash_of(self.peer_value) if self.peer_value else self.peer_hash

    @property
    def vouched(self) -> bool:
        """True if the other has committed to its sum before it could know this one's."""
        return bool(self.peer_hash)

    def values(self, place: int) -> tuple[bytes, bytes]:
        """Signed sums of both collectors, in order; this one's has a place."""
        return (self.value, self.peer_value) if place == 0 else (self.peer_value, self.value)


Make = Callable[[list[bytes], Iterable[tuple[bytes, bytes]]], Batch | None]
"""Makes a batch that is fixed of its list, ascending, and of ids with their shares as they are kept."""


MOST: Final = 512
TICK: Final = 0.05  # Seconds from one transaction to the next, at most, that reports wait for others to come with them
WAITING: Final = 4096  # Reports that may wait for the writer; beyond them devices are asked to come later


class Full(Exception):
    """Too many reports wait."""


class Writer(threading.Thread):
    """The one thread of a process that writes reports, to `records`; it calls `after` after a commit of new ones."""

    def __init__(self, records: RecordStore, after: Callable[[], None]) -> None:
        super().__init__(name="privreg-writer", daemon=True)
        self._records, self._after = records, after
        self._queue: queue.Queue[tuple[Any, Callable[[str], object]] | None] = queue.Queue(WAITING)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def put(self, arrived: Any, tell: Callable[[str], object]) -> None:
        """Let a report be written, or None to try it; `tell` hears what became of it, in this thread. Raises `Full`."""
        try:
            self._queue.put_nowait((arrived, tell))
        except queue.Full:
            raise Full from None

    def count(self, name: str) -> None:
        """Count what happened beside reports that may count."""
        with self._lock:
            self._counts[name] += 1

    def stop(self) -> None:
        """Write what waits, and end."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Write until told to stop."""
        going, next_ = True, 0.0
        while going:
            try:
                some = [self._queue.get(timeout=1.0)]
            except queue.Empty:
                some = []
            time.sleep(max(next_ - time.monotonic(), 0.0))
            began = time.monotonic()
            while len(some) < MOST and not self._queue.empty():
                some.append(self._queue.get_nowait())
            going = None not in some
            self._write([one for one in some if one is not None])
            next_ = began + min(2.0 * (time.monotonic() - began), TICK)  # half of the time is left to what answers

    def _write(self, some: list[tuple[Any, Callable[[str], object]]]) -> None:
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not some and not counts:
            return
        reports = [arrived for arrived, _ in some if arrived is not None]
        try:
            kept = iter(self._records.take(reports, counts, trial=len(reports) < len(some)))
            outcomes = [KEPT if arrived is None else next(kept) for arrived, _ in some]
        except (SQLAlchemyError, StoreError):  # a full disk, another place: nothing was kept, devices come again
            outcomes = [FAILED] * len(some)
        for (_, tell), outcome in zip(some, outcomes, strict=True):
            tell(outcome)
        if NEW in outcomes:
            self._after()
