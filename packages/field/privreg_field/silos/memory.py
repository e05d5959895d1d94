"""A silo's own file: plans that its owner accepted, budgets spent, and sums before they are sent. One SQLite file.

A sum is stored durably *before* it is sent, with the key of the next one, in one transaction; it is sent again as these
very bytes. So noise is drawn once for each round, and a round is answered in one state alone.
"""

import json
import sqlite3
import time
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from privreg.errors import BudgetError, OptionError
from privreg.privacy.noise import fresh_key
from privreg.protocol.lattice import Mu
from privreg_field.device.memory import File
from privreg_field.silos.plan import Entry, SiloPlan, verified
from privreg_field.wire.wire import base

USUAL: Final = Mu(2, 1)  # Budget of all plans together, at most, if the owner says nothing else
_TABLES: Final = """
CREATE TABLE IF NOT EXISTS plan (
    hash BLOB PRIMARY KEY, envelope BLOB NOT NULL, root BLOB NOT NULL, silo TEXT NOT NULL, rows INTEGER NOT NULL,
    clusters TEXT NOT NULL, data TEXT NOT NULL, stamp TEXT NOT NULL, p INTEGER NOT NULL, q INTEGER NOT NULL,
    key BLOB NOT NULL, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS sum (
    plan BLOB NOT NULL REFERENCES plan (hash), round INTEGER NOT NULL, state BLOB NOT NULL, total BLOB NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (plan, round));
"""
_DAY: Final = "strftime('%Y-%m-%d %H:%M UTC', time, 'unixepoch')"


class Accepted(NamedTuple):
    """A plan that a silo's owner accepted, and what was sent of it."""

    plan: SiloPlan
    entry: Entry
    data: str  # Place of its rows, see `plan.source`
    stamp: str  # Mark of the file, by which a change is seen
    key: bytes  # Key of the next noise
    sent: dict[int, tuple[bytes, bytes]]  # Hash of the public history before it, and sum, by round, in order


class Memory(File):
    """The file of a silo; it is made if it isn't there, for its owner alone."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(Path(path), _TABLES, wait=600.0)

    def accept(self, envelope: bytes, root: bytes, entry: Entry, data: str, stamp: str, most: Mu = USUAL) -> None:
        """Enter a plan and its whole budget, before anything is released; `most` is of all plans together.

        Raises BudgetError if they would cost more, OptionError if the plan was accepted already.
        """
        plan = verified(envelope, root)
        mu = Fraction(*plan.mu)
        with self.written() as db:
            spent = sum(Fraction(p, q) ** 2 for p, q in db.execute("SELECT p, q FROM plan"))
            if self.accepted(db, plan.digest) is not None:
                raise OptionError("this plan was accepted already.")
            if spent + mu**2 > Fraction(*most) ** 2:
                raise BudgetError(
                    f"this plan would cost mu = {float(mu):g}, all plans of this silo together may cost "
                    f"{float(Fraction(*most)):g}, and {float(spent) ** 0.5:.3g} is spent; nothing was accepted."
                )
            row = (plan.digest, envelope, root, entry.silo, entry.rows, json.dumps(entry.clusters), data, stamp)
            more = (*plan.mu, fresh_key(), int(time.time()))
            db.execute("INSERT INTO plan VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*row, *more))

    @staticmethod
    def accepted(db: sqlite3.Connection, digest: bytes) -> Accepted | None:
        """The accepted plan of this name, whose signature is verified by each process anew."""
        asked = "SELECT envelope, root, silo, rows, clusters, data, stamp, key FROM plan WHERE hash = ?"
        found = db.execute(asked, (digest,)).fetchone()
        if found is None:
            return None
        envelope, root, silo, rows, clusters, data, stamp, key = found
        sums = db.execute("SELECT round, state, total FROM sum WHERE plan = ? ORDER BY round", (digest,))
        sent = {number: (state, total) for number, state, total in sums}
        entry = Entry(silo, rows, tuple(json.loads(clusters)))
        return Accepted(verified(envelope, root), entry, data, stamp, key, sent)

    @staticmethod
    def store(db: sqlite3.Connection, digest: bytes, number: int, state: bytes, total: bytes, following: bytes) -> None:
        """Store a round's sum and the key of the next one's noise; that of this one is forgotten."""
        db.execute("INSERT INTO sum VALUES (?, ?, ?, ?, ?)", (digest, number, state, total, int(time.time())))
        db.execute("UPDATE plan SET key = ? WHERE hash = ?", (following, digest))

    def log(self) -> list[str]:
        """Plans and what was sent of each, in words."""
        out = []
        with self.written() as db:
            for digest, silo, rows, mu, day in db.execute(f"SELECT hash, silo, rows, 1.0 * p / q, {_DAY} FROM plan"):
                out.append(f"{base(digest)}: accepted {day} for silo {silo!r}, {rows:,} rows, mu = {mu:g}")
                asked = f"SELECT round, length(total) / 8, {_DAY} FROM sum WHERE plan = ? ORDER BY round"
                sums = db.execute(asked, (digest,))
                out += [f"  round {number}: {many} noised numbers, {sent}" for number, many, sent in sums]
        return out
