"""Memory of a device: plans it has seen, budgets spent, and reports until they have arrived. One SQLite file.

A report is stored durably *before* it is sent, and sent again as these very bytes: noise is never drawn twice for one
state of affairs. A study and a token are answered once. The file is the owner's alone (mode 0600).
"""

import os
import sqlite3
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Final, NamedTuple

from privreg.protocol.lattice import Mu

YEAR: Final = 366 * 86_400

_TABLES: Final = """
CREATE TABLE IF NOT EXISTS study (
    root BLOB NOT NULL, slug TEXT NOT NULL, plan BLOB NOT NULL, number INTEGER NOT NULL, state BLOB NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (root, slug));
CREATE TABLE IF NOT EXISTS report (
    plan BLOB PRIMARY KEY, token BLOB NOT NULL UNIQUE, root BLOB NOT NULL, slug TEXT NOT NULL, release TEXT NOT NULL,
    p INTEGER NOT NULL, q INTEGER NOT NULL, state INTEGER NOT NULL, time INTEGER NOT NULL, clock INTEGER NOT NULL,
    body BLOB, receipt BLOB, UNIQUE (root, slug));
"""
_SEEN: Final = "SELECT plan, number, state, time FROM study WHERE root = ? AND slug = ?"
_YEAR: Final = "SELECT p, q FROM report WHERE clock > ? AND p > 0"
_OF_STUDY: Final = "WHERE root = ? AND (slug = ? OR substr(slug, 1, length(?) + 1) = ? || '/')"
_GROUP: Final = "SELECT p, q FROM report WHERE (release = ? OR root = ?) AND (time > ? OR clock > ?)"


class StoreError(RuntimeError):
    """The memory can't be used; nothing was sent."""


class Seen(NamedTuple):
    """Latest plan and state that were seen of a study."""

    plan: bytes  # Hash
    number: int  # The latest state
    state: bytes  # Its hash
    time: int  # In it


class Stored(NamedTuple):
    """A report of this device: to one analysis, where a study has several."""

    plan: bytes
    token: bytes  # Its id; behind it the analysis's number, but of the first
    state: int
    body: bytes | None  # None once it has arrived; empty if two collectors deleted it, and it is made anew
    receipt: bytes | None


def default_path() -> Path:
    """The memory's place in the user's data directory."""
    home = Path.home()
    if sys.platform == "win32":
        folder = Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local"))
    elif sys.platform == "darwin":
        folder = home / "Library" / "Application Support"
    else:
        given = os.environ.get("XDG_DATA_HOME", "")
        folder = Path(given) if given.startswith("/") else home / ".local" / "share"
    return folder / "privreg" / "device.sqlite"


class File:
    """A SQLite file of its owner alone, with these tables; it is made if it isn't there. Raises `StoreError`."""

    def __init__(self, path: Path, tables: str, wait: float = 30.0) -> None:
        self.path, self._wait = path, wait
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600))
            with self._open() as db:
                held = db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
                if any(f" {name} (" not in tables for (name,) in held):
                    raise StoreError(f"{path} is another program's database; name a new file for the memory.")
                path.chmod(0o600)
                db.executescript(tables)
        except (OSError, sqlite3.Error) as e:
            raise StoreError(f"the memory of budgets at {path} can't be used: {type(e).__name__}.") from None

    @contextmanager
    def _open(self) -> Iterator[sqlite3.Connection]:
        db = sqlite3.connect(self.path, timeout=self._wait, isolation_level=None)
        try:
            db.execute("PRAGMA synchronous = EXTRA")
            db.execute("PRAGMA secure_delete = ON")
            yield db
        finally:
            db.close()

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """A connection to read."""
        try:
            with self._open() as db:
                yield db
        except sqlite3.Error as e:
            raise StoreError(f"the memory of budgets at {self.path} can't be used: {type(e).__name__}.") from None

    @contextmanager
    def written(self) -> Iterator[sqlite3.Connection]:
        """A transaction that is durable when it has ended, or never was; no other writes at the same time."""
        try:
            with self._open() as db:
                db.execute("BEGIN IMMEDIATE")
                try:
                    yield db
                except BaseException:
                    db.execute("ROLLBACK")
                    raise
                db.execute("COMMIT")
        except sqlite3.Error as e:
            raise StoreError(f"the memory of budgets at {self.path} can't be written: {type(e).__name__}.") from None


class Memory(File):
    """The memory of a device: a file, made if it isn't there, `default_path` by default."""

    def __init__(self, path: str | os.PathLike[str] | None = None) -> None:
        try:
            file = default_path() if path is None else Path(path)
        except RuntimeError:
            raise StoreError("there is no home folder to keep the memory of budgets in; name a file.") from None
        super().__init__(file, _TABLES)

    def seen(self, root: bytes, slug: str) -> Seen | None:
        """Plan and state that were seen of the study of this name and key."""
        with self.read() as db:
            found = db.execute(_SEEN, (root, slug)).fetchone()
        return None if found is None else Seen(*found)

    def note(self, root: bytes, slug: str, seen: Seen) -> Seen:
        """Remember the latest state of a study; what is remembered never goes back. Returns what is known now."""
        with self.written() as db:
            db.execute("INSERT INTO study VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", (root, slug, *seen))
            db.execute(
                "UPDATE study SET number = ?, state = ?, time = MAX(time, ?) "
                "WHERE root = ? AND slug = ? AND plan = ? AND number < ?",
                (seen.number, seen.state, seen.time, root, slug, seen.plan, seen.number),
            )
            return Seen(*db.execute(_SEEN, (root, slug)).fetchone())

    def plans(self, root: bytes, study: str) -> set[bytes]:
        """Hashes of plans that were seen of a study of this name and key: one for each analysis."""
        with self.read() as db:
            return {
                found for (found,) in db.execute(f"SELECT plan FROM study {_OF_STUDY}", (root, study, study, study))
            }

    def reports(self, root: bytes, study: str) -> dict[str, Stored]:
        """The reports to this study, if there are some, by the analysis's name among all."""
        what = f"SELECT slug, plan, token, state, body, receipt FROM report {_OF_STUDY} ORDER BY rowid"
        with self.read() as db:
            return {slug: Stored(*rest) for slug, *rest in db.execute(what, (root, study, study, study))}

    def used(self, token: bytes) -> bool:
        """True if a token has been used, for whatever study."""
        with self.read() as db:
            found = db.execute("SELECT 1 FROM report WHERE substr(token, 1, ?) = ?", (len(token), token))
            return found.fetchone() is not None

    def year(self, clock: int) -> list[Fraction]:
        """Budgets μ of a year's answers to whatever studies, one for each study.

        The year is of this device's clock alone. Studies choose the times in their states: one far ahead would let
        budgets be forgotten, or never be.
        """
        with self.read() as db:
            return _budgets(db, _YEAR, clock - YEAR)

    def store(
        self,
        reports: Mapping[str, Stored],
        *,
        root: bytes,
        release: str,
        mu: Mu,
        time: int,
        clock: int,
        cap: Fraction,
        total: Fraction,
    ) -> bool:
        """Write the reports to all of a study's analyses ahead of sending them, with what they spend: all, or none.

        Reports are by the analysis's name among all, `PublicPlan.slug`; `root` is the study's key, `release` its
        release group. `mu` is the budget that they spend together, written beside the first. `time` and `clock` are
        seconds since 1970, by the latest of the study's states and by this device.

        `cap` is what Σ μ² may be of a year's reports to studies of this release group or of this key, where a report
        counts as one of the year if the studies' clocks or this device's say so; `total` what it may be of reports to
        whatever studies, see `year`.

        True says that reports to this study are stored: another process may have been faster. False, that they would
        spend too much.
        """
        ours, used = (f"SELECT 1 FROM report WHERE {of}" for of in ("root = ? AND slug = ?", "plan = ? OR token = ?"))
        with self.written() as db:
            if any(db.execute(ours, (root, slug)).fetchone() for slug in reports):
                return True
            if any(db.execute(used, (one.plan, one.token)).fetchone() for one in reports.values()):
                return False
            budget = Fraction(*mu)
            group = _budgets(db, _GROUP, release, root, time - YEAR, clock - YEAR)
            if squares([*group, budget]) > cap or squares([*_budgets(db, _YEAR, clock - YEAR), budget]) > total:
                return False
            spent = mu
            for slug, one in reports.items():
                db.execute(
                    "INSERT INTO report VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)",
                    (one.plan, one.token, root, slug, release, *spent, one.state, time, clock, one.body),
                )
                spent = Mu(0, 1)
        return True

    def unsummed(self, root: bytes, slug: str, body: bytes) -> None:
        """Forget bytes that two collectors deleted, so that a report to a later state may take their place."""
        with self.written() as db:
            db.execute("UPDATE report SET body = x'' WHERE root = ? AND slug = ? AND body = ?", (root, slug, body))

    def again(self, root: bytes, slug: str, state: int, body: bytes) -> None:
        """Write a report ahead in the place of one that was forgotten; if another call was faster, its report stays."""
        with self.written() as db:
            db.execute(
                "UPDATE report SET state = ?, body = ? WHERE root = ? AND slug = ? AND body = x'' AND state < ?",
                (state, body, root, slug, state),
            )

    def arrived(self, root: bytes, slug: str, receipt: bytes | None) -> None:
        """Keep the receipt, if there is one, and forget the bytes; what was spent stays."""
        with self.written() as db:
            db.execute("UPDATE report SET body = NULL, receipt = ? WHERE root = ? AND slug = ?", (receipt, root, slug))


def squares(budgets: Iterable[Fraction]) -> Fraction:
    """Σ μ²: its root is what reports to several studies cost together."""
    return sum((mu * mu for mu in budgets), Fraction(0))


def _budgets(db: sqlite3.Connection, query: str, *values: object) -> list[Fraction]:
    return [Fraction(p, q) for p, q in db.execute(query, values)]
