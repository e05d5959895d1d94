"""A study in a file of SQLite. Processes that share it take turns by SQLite's lock."""

import sqlite3
import weakref
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert
from sqlalchemy.exc import SQLAlchemyError

from privreg.errors import OptionError
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import StoreError
from privreg_field.service.store.sql import BUSY, Store

SCHEME: Final = "sqlite:///"
_OURS: Final = {"meta", "study", "report"}  # Tables of every version


class SQLite(Store):
    """A study in a file of SQLite, which holds no other; parameters and errors are those of `open_store`."""

    insert = staticmethod(insert)

    def __init__(self, url: str, slug: str, clock: Callable[[], float], *, make: bool, old: bool = False) -> None:
        self.slug, self.clock = slug, clock
        self.path = path = Path(url.removeprefix(SCHEME))
        if not path.parent.is_dir():
            raise StoreError(f"there is no folder {str(path.parent)!r} for the database.")
        if path.exists():
            _must_be_ours(path)
        elif make:
            path.touch(0o600)
        else:
            raise StoreError(f"there is no database {str(path)!r}; privreg serve makes it.")
        self.engine = sa.create_engine(url, connect_args={"check_same_thread": False, "isolation_level": None})
        weakref.finalize(self, self.engine.dispose)  # whoever opens a store need not close its connections
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", _begin)
        try:
            self._make(old=old)
        except SQLAlchemyError:
            raise StoreError(f"{self} is no database of a collector, or can't be written.") from None

    def __str__(self) -> str:
        return repr(str(self.path))

    def _reading(self) -> sa.Connection:
        return self.engine.connect().execution_options(reading=True)

    def other_studies(self, c: sa.Connection) -> bool:
        return any(slug.partition("/")[0] != self.study for slug in c.execute(sa.select(t.study.c.slug)).scalars())

    @contextmanager
    def alone(self, *, shared: bool = False) -> Iterator[None]:
        if shared:
            raise OptionError(
                "SQLite has one server at a time; servers share a study in PostgreSQL: --db postgresql://…"
            )
        import fcntl  # which Windows doesn't have, where `serve` says so

        with self.beside("lock").open("a") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise OptionError("another privreg serve has this database; stop it first.") from None
            yield

    def compact(self) -> None:
        with closing(self.engine.raw_connection()) as raw:
            raw.cursor().execute("VACUUM")
        self.leave()

    def leave(self) -> None:
        with closing(self.engine.raw_connection()) as raw:
            raw.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.engine.dispose()


def _must_be_ours(path: Path) -> None:
    """Refuse another program's database before anything of it is changed."""
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
            names = {name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type IN ('table', 'view')")}
    except sqlite3.Error:
        raise StoreError(f"{str(path)!r} is no database of a collector, or can't be read.") from None
    if names and not names >= _OURS:
        raise StoreError(f"{str(path)!r} has tables of another program; name a new file by --db sqlite:///FILE.")


_SETTINGS: Final = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "secure_delete=ON")


def _prepare(connection: Any, record: Any) -> None:
    for line in (*_SETTINGS, f"busy_timeout={BUSY}"):
        connection.execute(f"PRAGMA {line}")


def _begin(connection: sa.Connection) -> None:
    """Take SQLite's lock when a transaction that writes begins: what it reads nobody changes meanwhile."""
    reading = connection.get_execution_options().get("reading", False)
    connection.exec_driver_sql("BEGIN" if reading else "BEGIN IMMEDIATE")
