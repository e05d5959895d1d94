"""What a collector keeps of a study, whatever the database: every report once, states, tokens, counts.

A database is a class that does what `Store` says. Each method is one transaction: all of it is kept, or nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from privreg.collector.chain import Cell, Place
from privreg.errors import OptionError

NEW, SAME, OTHER, FAILED, KEPT = "new", "same", "other", "failed", "kept"
"""What became of a report; the last two of one that couldn't be written, and of a trial."""

CLOSED, SEALED = "closed", "sealed"
"""A study that asks nobody, and one of which no report counts any more, whatever clocks say."""

FROZEN, UNSUMMED = "frozen", "unsummed"  # Of a share: its batch is full or being closed, or was closed without it

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
    plan_hash: bytes  # Of the analysis
    plan: bytes  # The signed envelope
    status: str  # "open", "closed" by hand, or "sealed": no report counts any more
    issued: int  # Tokens that were handed out
    seq: int  # Reports that count
    moved: str | None  # Where it is since; then nothing here counts
    erased: int | None  # When its reports were deleted, seconds since 1970; their sums stay


class Keeper(Protocol):
    """Where what devices send is kept: a store, or what seals it before."""

    def take(self, arrived: Sequence[Any], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        """Keep some; what became of each."""

    def has(self, token: bytes, body_hash: bytes) -> bool:
        """Whether these bytes of a token count."""

    def people(self) -> dict[int, int]:
        """How many count, by the state that they answered."""


class Store(Keeper, Protocol):
    """An analysis of a study in a database, with the study's tokens.

    Whatever it can't read or write raises SQLAlchemy's errors, and nothing is kept then.
    """

    slug: str

    # --- the study -------------------------------------------------------------------------------------

    def enter(self, plan_hash: bytes, envelope: bytes, first: Access) -> bool:
        """Enter the study, with its first token, if it isn't there; whether it was new.

        Raises
        ------
        StoreError
            If the database holds another plan.
        """

    def known(self) -> bool:
        """Whether the database has a study."""

    def alone(self, *, shared: bool = False) -> AbstractContextManager[None]:
        """Keep other servers away from this database; if `shared`, those that don't share it.

        Raises
        ------
        OptionError
            If another one serves it.
        """

    def moment(self) -> AbstractContextManager[None]:
        """Let all that this thread reads be of one moment, whatever others write meanwhile."""

    def leave(self) -> None:
        """End, and leave the database so that it can be copied."""

    def about(self) -> About:
        """The study.

        Raises
        ------
        StoreError
            If it was moved to another database, or this is a backup.
        """

    @property
    def shares(self) -> Shares:
        """Shares, if the study has two collectors."""

    def beside(self, name: str) -> Path:
        """A file beside the database."""

    def mark(self, status: str) -> None:
        """Mark the study as closed, or sealed; what is sealed tells no order in which reports came."""

    def erase(self) -> int:
        """Delete all reports, and keep their sums; how many there were."""

    # --- tokens ----------------------------------------------------------------------------------------

    def issuers(self) -> dict[int, bytes]:
        """Secrets of the keys that are good, as they are kept."""

    def issue(self, secret: bytes, number: int | None = None) -> int:
        """Enter a new key of the issuer; its number, which is the next one unless given."""

    def handed_out(self, count: int) -> None:
        """Count tokens that were handed out to people who answer the analysis."""

    def revoke(self, *, keys: Sequence[int] = (), tokens: Sequence[bytes] = ()) -> None:
        """Take keys back, with all tokens that aren't used yet, or tokens."""

    def taken_back(self) -> frozenset[bytes]:
        """Ids of tokens that were taken back."""

    def access(self) -> list[Access]:
        """Tokens of those who read results, or operate the collector, also such as have ended."""

    def grant(self, some: Sequence[Access], without: str | None = None) -> None:
        """Keep such tokens, in place of those of the name `without`."""

    # --- states ----------------------------------------------------------------------------------------

    def states(self, first: int = 0) -> list[Held]:
        """Published states, in order."""

    def snapshots(self, first: int = 0) -> list[bytes]:
        """What had come when each state closed, in order."""

    def publish(self, held: Held, before: bytes, snapshot: bytes | None) -> bool:
        """Publish a state, with the snapshot that it follows from; False if another process has published it."""

    # --- reports ---------------------------------------------------------------------------------------

    def take(self, arrived: Sequence[Arrived], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        """Keep reports, each token's first, with their cells; what became of each. A `trial` takes as much room as one.

        That is "new"; "same", if the same bytes came before; "other", if other bytes of this token came before.
        """

    def cells(self) -> dict[Place, Cell]:
        """Sums of all reports."""

    def counts(self, first: int = 0) -> list[tuple[int, str, int]]:
        """Minutes since 1970, outcomes and their numbers, from a minute on."""

    def reports(self, size: int = 4096) -> Iterable[tuple[Place, bytes]]:
        """Every report's place and values, in a fixed order."""


# --- studies with two collectors -----------------------------------------------------------------------------


class Posted(NamedTuple):
    """A share that may count."""

    token_id: bytes
    state: int
    body_hash: bytes
    sealed: bytes | None  # By the batch's key; None if it can't be kept now


class Batch(NamedTuple):
    """Shares of one state, as far as they have become a sum."""

    k: int
    status: str = OPEN
    offer: bytes = b""  # Hash of the leader's list
    ids: bytes = b""  # Offered, then of the list that was fixed: ascending, one after the other
    value: bytes = b""  # Signed envelope with the sum and this collector's noise
    peer_hash: bytes = b""  # Hash of the other's, which shows that it has fixed the batch
    peer_value: bytes = b""

    def values(self, place: int) -> tuple[bytes, bytes]:
        """Signed sums of both collectors, in order; this one's has a place."""
        return (self.value, self.peer_value) if place == 0 else (self.peer_value, self.value)


Make = Callable[[list[bytes], Iterable[tuple[bytes, bytes]]], Batch | None]
"""Makes a batch that is fixed of its list, ascending, and of ids with their shares as they are kept."""


class Shares(Keeper, Protocol):
    """Shares of a study, of which each enters one sum at most.

    What is taken are `Posted`: shares of open batches, each token's first, or its first after it was unsummed.
    """

    def take(
        self, posted: Sequence[Posted], counts: Mapping[str, int], *, trial: bool = False, places: float = math.inf
    ) -> list[str]:
        """Keep some, at most so many new ones; what became of each."""

    def tokens(self, k: int, status: str = HELD) -> list[bytes]:
        """Ids of a batch's tokens whose shares have a status, ascending."""

    def batch(self, k: int) -> Batch:
        """What has become of a batch."""

    def freeze(self, k: int) -> None:
        """Take no more shares of an open batch; keep which it has."""

    def thaw(self, k: int) -> None:
        """Open a frozen batch again."""

    def fix(self, k: int, ids: Sequence[bytes], make: Make) -> Batch | None:
        """Fix a batch: those of `ids` that are held are summed, all others unsummed; None if `make` gives none."""

    def change(self, batch: Batch) -> None:
        """Keep what has become of a batch that was fixed."""

    def lose(self, k: int) -> None:
        """Give up a batch: its shares are deleted, and its tokens used up."""

    def adopt(self, batch: Batch) -> None:
        """Take over a published batch that was lost here: the tokens of its list are used up."""
