"""Studies in a database of PostgreSQL, 14 or later, in a schema of their own. Extra ``postgres``.

Transactions that write take turns by an advisory lock, held until they end: no row is waited for, so nothing deadlocks,
and nobody changes what one has read. Up to 512 reports share a transaction, so the lock costs little.
"""

import hashlib
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from privreg.errors import OptionError
from privreg_field import KIT
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import SEALED, Arrived, StoreError
from privreg_field.service.store.sql import BUSY, Store

SCHEMES: Final = ("postgresql://", "postgresql+psycopg://")
OLDEST: Final = 140_000  # PostgreSQL 14, as the server says its version

_SETTINGS: Final = (
    "SET search_path TO privreg",
    "SET synchronous_commit TO on",  # answers leave after the commit, which must be there after a crash
    f"SET lock_timeout TO {BUSY}",
)

_KEEP: Final = """\
INSERT INTO report (study, token_id, k, role, grp, body_hash, vals)
SELECT %s, * FROM unnest(%s::bytea[], %s::int[], %s::text[], %s::int[], %s::bytea[], %s::bytea[])
ON CONFLICT DO NOTHING RETURNING token_id"""


class Postgres(Store):
    """One study of those in a database; parameters and errors are those of `open_store`."""

    insert = staticmethod(insert)

    def __init__(self, url: str, slug: str, clock: Callable[[], float], beside: Path, *, old: bool = False) -> None:
        self.slug, self.clock, self.path = slug, clock, beside
        if find_spec("psycopg") is None:
            raise StoreError(f"PostgreSQL needs psycopg: pip install '{KIT}[postgres]'.")
        try:
            address = sa.make_url(url).set(drivername="postgresql+psycopg")
            self._name = repr(address.render_as_string(hide_password=True))
            self.engine = sa.create_engine(address, pool_pre_ping=True)
        except (ArgumentError, ValueError):
            raise StoreError("this is no address of a database; write postgresql://USER@HOST/DATABASE.") from None
        weakref.finalize(self, self.engine.dispose)  # whoever opens a store need not close its connections
        self._turn, self._only = (_number(f"{use} {slug}") for use in ("write", "serve"))
        sa.event.listen(self.engine, "connect", _prepare)
        sa.event.listen(self.engine, "begin", partial(_begin, self._turn))
        try:
            with self.engine.begin() as c:
                if c.exec_driver_sql("SHOW server_version_num").scalar_one() < str(OLDEST):
                    raise StoreError("privreg needs PostgreSQL 14 or later.")
                if not old:
                    c.exec_driver_sql("CREATE SCHEMA IF NOT EXISTS privreg")
            self._make(old=old)
        except SQLAlchemyError:
            raise StoreError(f"{self} can't be reached, or may not be written.") from None

    def __str__(self) -> str:
        return self._name

    def _reading(self) -> sa.Connection:
        return self.engine.connect().execution_options(
            isolation_level="REPEATABLE READ", postgresql_readonly=True, reading=True
        )

    def sql(self, text: str) -> str:
        return text.replace("?", "%s")

    def _keep(self, c: sa.Connection, some: Sequence[Arrived]) -> list[Arrived]:
        if not some:
            return []
        columns = [list(column) for column in zip(*some, strict=True)]
        kept = {bytes(token) for (token,) in c.exec_driver_sql(_KEEP, (self.slug, *columns))}
        return [one for one in some if one.token_id in kept]

    def mark(self, status: str) -> None:
        """Mark the study; one that is sealed has its rows written anew, in an order that tells nothing.

        Where a row stands, and which transaction wrote it, tells when it came.
        """
        with self.engine.begin() as c:
            for table in (t.report, t.share) if status == SEALED else ():
                if sa.inspect(c).has_table(table.name):
                    name, whose = table.name, (self.slug,)
                    kept = f"CREATE TEMP TABLE {name}_ ON COMMIT DROP AS SELECT * FROM {name} WHERE study = %s"
                    c.exec_driver_sql(kept, whose)
                    c.exec_driver_sql(f"DELETE FROM {name} WHERE study = %s", whose)
                    c.exec_driver_sql(f"INSERT INTO {name} SELECT * FROM {name}_ ORDER BY token_id")
            c.execute(t.study.update().where(t.study.c.slug == self.slug).values(status=status))

    def compact(self) -> None:
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT", reading=True) as c:
            for table in (t.report, t.share):
                if sa.inspect(c).has_table(table.name):
                    c.exec_driver_sql(f"VACUUM (FULL, ANALYZE) {table.name}")

    @contextmanager
    def alone(self, *, shared: bool = False) -> Iterator[None]:
        how = "_shared" * shared
        with self.engine.connect().execution_options(isolation_level="AUTOCOMMIT", reading=True) as c:
            if not c.exec_driver_sql(f"SELECT pg_try_advisory_lock{how}(%s)", (self._only,)).scalar_one():
                raise OptionError("another privreg serve has this study; stop it first.")
            try:
                yield
            finally:
                with suppress(SQLAlchemyError):  # a lost session has lost its lock
                    c.exec_driver_sql(f"SELECT pg_advisory_unlock{how}(%s)", (self._only,))

    def leave(self) -> None:
        self.engine.dispose()


def _number(name: str) -> int:
    """A whole number of 64 bits, with a sign, by which PostgreSQL knows a lock."""
    return int.from_bytes(hashlib.sha256(f"privreg {name}".encode()).digest()[:8], signed=True)


def _begin(turn: int, connection: sa.Connection) -> None:
    """Wait for one's turn to write; statements after it see all that was committed."""
    if not connection.get_execution_options().get("reading", False):
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(%s)", (turn,))


def _prepare(connection: Any, record: Any) -> None:
    before, connection.autocommit = connection.autocommit, True
    for line in _SETTINGS:
        connection.execute(line)
    connection.autocommit = before
