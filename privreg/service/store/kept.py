"""What a collector keeps of a study, whatever the database: every report once, states, tokens, counts.

A database is a class that does what `Store` says. Each method is one transaction: all of it is kept, or nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from privreg.collector.chain import Cell, Place
from privreg.errors import OptionError

NEW, SAME, OTHER, FAILED, KEPT = "new", "same", "other", "failed", "kept"
"""What became of a report; the last two of one that couldn't be written, and of a trial."""


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


class About(NamedTuple):
    """A study, its plan and what commands have changed."""

    slug: str
    plan_hash: bytes
    plan: bytes  # The signed envelope
    status: str  # "open", "closed" by hand, or "sealed": no report counts any more
    analyst: bytes  # SHA-256 of the token by which results may be read
    issued: int  # Tokens that were handed out
    seq: int  # Reports that count


class Store(ABC):
    """A study in a database. Whatever it can't read or write raises SQLAlchemy's errors, and nothing is kept then."""

    slug: str

    # --- the study -------------------------------------------------------------------------------------

    @abstractmethod
    def enter(self, plan_hash: bytes, envelope: bytes, analyst: bytes) -> bool:
        """Enter the study if it isn't there; whether it was new.

        Raises
        ------
        StoreError
            If the database holds another plan.
        """

    @abstractmethod
    def known(self) -> bool:
        """Whether the database has a study."""

    @abstractmethod
    def alone(self) -> AbstractContextManager[None]:
        """Keep other servers away from this database.

        Raises
        ------
        OptionError
            If another one serves it.
        """

    @abstractmethod
    def leave(self) -> None:
        """End, and leave the database so that it can be copied."""

    @abstractmethod
    def about(self) -> About:
        """The study."""

    @abstractmethod
    def mark(self, status: str) -> None:
        """Mark the study as closed, or sealed."""

    # --- tokens ----------------------------------------------------------------------------------------

    @abstractmethod
    def issuers(self) -> dict[int, bytes]:
        """Secrets of the keys that are good, as they are kept."""

    @abstractmethod
    def issue(self, secret: bytes) -> int:
        """Enter a new key of the issuer; its number."""

    @abstractmethod
    def handed_out(self, count: int) -> None:
        """Count tokens that were handed out."""

    @abstractmethod
    def revoke(self, *, keys: Sequence[int] = (), tokens: Sequence[bytes] = ()) -> None:
        """Take keys back, with all tokens that aren't used yet, or tokens."""

    @abstractmethod
    def taken_back(self) -> frozenset[bytes]:
        """Ids of tokens that were taken back."""

    # --- states ----------------------------------------------------------------------------------------

    @abstractmethod
    def states(self, first: int = 0) -> list[Held]:
        """Published states, in order."""

    @abstractmethod
    def snapshots(self, first: int = 0) -> list[bytes]:
        """What had come when each state closed, in order."""

    @abstractmethod
    def publish(self, held: Held, before: bytes, snapshot: bytes | None) -> bool:
        """Publish a state, with the snapshot that it follows from; False if another process has published it."""

    # --- reports ---------------------------------------------------------------------------------------

    @abstractmethod
    def take(self, arrived: Sequence[Arrived], counts: Mapping[str, int], *, trial: bool = False) -> list[str]:
        """Keep reports, each token's first, with their cells; what became of each. A `trial` takes as much room as one.

        Returns
        -------
        list of str
            "new"; "same", if the same bytes came before; "other", if other bytes of this token came before.
        """

    @abstractmethod
    def has(self, token: bytes, body_hash: bytes) -> bool:
        """Whether these bytes of a token were kept."""

    @abstractmethod
    def cells(self) -> dict[Place, Cell]:
        """Sums of all reports."""

    @abstractmethod
    def people(self) -> dict[int, int]:
        """Reports by the state that they answered."""

    @abstractmethod
    def counts(self, first: int = 0) -> list[tuple[int, str, int]]:
        """Minutes since 1970, outcomes and their numbers, from a minute on."""

    @abstractmethod
    def reports(self, size: int = 4096) -> Iterable[tuple[Place, bytes]]:
        """Every report's place and values, in a fixed order."""
