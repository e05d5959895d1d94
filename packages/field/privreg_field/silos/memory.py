"""A silo's own file: plans that its owner accepted, budgets spent, and sums before they are sent. One SQLite file.

A sum is stored durably *before* it is sent, with the key of the next one, in one transaction; it is sent again as these
very bytes. So noise is drawn once for each round, and a round is answered in one state alone.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from privreg.errors import BudgetError, OptionError, StudyError
from privreg.privacy.noise import fresh_key
from privreg.protocol.lattice import Mu
from privreg_field.silos.plan import Entry, SiloPlan, verified
from privreg_field.wire.wire import Record, base, dumps, loads, plain

USUAL: Final = Mu(2, 1)  # Budget of all plans together, at most, if the owner says nothing else

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS most (id INTEGER PRIMARY KEY CHECK (id = 1), p INTEGER NOT NULL, q INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS plan (
    hash BLOB PRIMARY KEY, envelope BLOB NOT NULL, root BLOB NOT NULL, entry BLOB NOT NULL, data TEXT NOT NULL,
    stamp TEXT NOT NULL, p INTEGER NOT NULL, q INTEGER NOT NULL, key BLOB NOT NULL, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sum (
    plan BLOB NOT NULL REFERENCES plan (hash), round INTEGER NOT NULL, state BLOB NOT NULL, total BLOB NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (plan, round));
"""


class Accepted(NamedTuple):
    """A plan that a silo's owner accepted."""

    plan: SiloPlan
    entry: Entry
    data: str  # Where its rows are, see `rounds.source`
    stamp: str  # Mark of the file, by which a change is seen
    key: bytes  # Key of the next noise


class Sent(NamedTuple):
    """A sum that is stored, and sent or about to be."""

    round: int
    state: bytes  # Hash of the public history before it
    total: bytes


class Memory:
    """The file of a silo; it is made if it isn't there, for its owner alone."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
        except OSError as e:
            raise StudyError(f"the silo's file {self.path} can't be used: {type(e).__name__}.") from None
        with self.written() as db:
            for statement in _TABLES.split(";"):
                db.execute(statement)

    @contextmanager
    def written(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is durable when it has ended, or never was; no other writes at the same time."""
        try:
            db = sqlite3.connect(self.path, timeout=600.0, isolation_level=None)
            try:
                db.execute("PRAGMA synchronous = EXTRA")
                db.execute("PRAGMA secure_delete = ON")
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
            finally:
                db.close()
        except sqlite3.Error as e:
            raise StudyError(f"the silo's file {self.path} can't be written: {type(e).__name__}.") from None

    def accept(
        self, envelope: bytes, root: bytes, entry: Entry, data: str, stamp: str, most: Mu | None = None
    ) -> SiloPlan:
        """Enter a plan and its whole budget, before anything is released; `most` is of all plans together.

        Raises BudgetError if they would cost more, OptionError if the plan was accepted already.
        """
        plan = verified(envelope, root)
        with self.written() as db:
            if most is not None:
                db.execute("INSERT OR REPLACE INTO most VALUES (1, ?, ?)", most)
            limit = Fraction(*(db.execute("SELECT p, q FROM most").fetchone() or USUAL))
            spent = sum(Fraction(p, q) ** 2 for p, q in db.execute("SELECT p, q FROM plan"))
            if db.execute("SELECT 1 FROM plan WHERE hash = ?", (plan.digest,)).fetchone():
                raise OptionError("this plan was accepted already.")
            if spent + Fraction(*plan.mu) ** 2 > limit**2:
                raise BudgetError(
                    f"this plan would cost mu = {float(Fraction(*plan.mu)):g}, all plans of this silo together may "
                    f"cost {float(limit):g}, and {float(spent) ** 0.5:.3g} is spent; nothing was accepted."
                )
            row = (plan.digest, envelope, root, dumps(plain(entry)), data, stamp, *plan.mu, fresh_key(), time.time())
            db.execute("INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, CAST(? AS INTEGER))", row)
        return plan

    @staticmethod
    def accepted(db: sqlite3.Connection, digest: bytes) -> Accepted | None:
        """The accepted plan of this name, whose signature is verified anew."""
        asked = "SELECT envelope, root, entry, data, stamp, key FROM plan WHERE hash = ?"
        found = db.execute(asked, (digest,)).fetchone()
        return None if found is None else Accepted(verified(found[0], found[1]), _entry(found[2]), *found[3:])

    @staticmethod
    def sent(db: sqlite3.Connection, digest: bytes) -> list[Sent]:
        """Sums of a plan, in the order of rounds."""
        asked = "SELECT round, state, total FROM sum WHERE plan = ? ORDER BY round"
        return [Sent(*row) for row in db.execute(asked, (digest,))]

    @staticmethod
    def store(db: sqlite3.Connection, digest: bytes, one: Sent, following: bytes) -> None:
        """Store a sum and the key of the next one's noise; that of this one is forgotten."""
        db.execute("INSERT INTO sum VALUES (?, ?, ?, ?, ?)", (digest, *one, int(time.time())))
        db.execute("UPDATE plan SET key = ? WHERE hash = ?", (following, digest))

    def log(self) -> list[str]:
        """Plans and what was sent of each, in words."""
        out = []
        with self.written() as db:
            for digest, entry, p, q, at in db.execute("SELECT hash, entry, p, q, time FROM plan").fetchall():
                one = _entry(entry)
                out.append(
                    f"{base(digest)}: accepted {_day(at)} for silo {one.silo!r}, {one.rows:,} rows, mu = {p / q:g}"
                )
                asked = "SELECT round, length(total), time FROM sum WHERE plan = ? ORDER BY round"
                for number, size, sent in db.execute(asked, (digest,)):
                    out.append(f"  round {number}: {size // 8} noised numbers, {_day(sent)}")
        return out


def _entry(said: bytes) -> Entry:
    return Entry.read(Record(loads(said, "an entry", 1 << 26), "an entry"))


def _day(at: int) -> str:
    return time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime(at))
