"""Records that a collector stores, whatever the database: reports, states, tokens, and with two collectors shares."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

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
