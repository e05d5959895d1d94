"""A study copied from one database to another, of any kind: for backups, and for moving it.

Tables are read in one transaction that sees one state, and written in one: a copy is whole, or isn't there. Rows go in
the order of their keys. A dump by `pg_dump`, or pages of SQLite, would keep where each report stands, and so in which
order they came, other studies of the database, and what was deleted.
"""

import os
import secrets
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from privreg_field.service.store import tables as t
from privreg_field.service.store.records import StoreError
from privreg_field.service.store.sql import BACKUP, Store
from privreg_field.service.store.sqlite import SCHEME, SQLite

_TABLES: Final = (*t.METADATA.sorted_tables, *t.SUMS.sorted_tables)
_SOME: Final = 2048  # Rows that are copied together


def _of(table: sa.Table, study: str) -> Any:
    """Rows of a study, with those of its analyses."""
    whose = table.c.slug if table is t.study else table.c.study
    return sa.or_(whose == study, whose.startswith(f"{study}/", autoescape=True))


def _tables(c: sa.Connection) -> list[sa.Table]:
    """A database's tables with rows of studies."""
    there = set(sa.inspect(c).get_table_names())
    return [table for table in _TABLES if table is not t.meta and table.name in there]


def moved_to(store: Store) -> str | None:
    """Address that a database's study has been moved to; None if it hasn't."""
    with store.reading() as c:
        return c.execute(sa.select(t.study.c.moved).where(t.study.c.slug == store.slug)).scalar()


def holds(store: Store) -> bool:
    """True if a database has states of a study, as none has that it was moved from."""
    with store.reading() as c:
        return c.execute(sa.select(t.state.c.k).where(_of(t.state, store.study)).limit(1)).first() is not None


def copy(source: Store, target: Store, moved: str | None = None) -> int:
    """Copy a study to a database that is without it, or from which it was moved away; how many rows.

    `moved` is what the copy says of where the study is.
    Raises StoreError if the database has the study, or the copy isn't what was copied.
    """
    with source.reading() as c, target.keeping() as d, d.begin():
        given = _tables(c)
        if any(table.metadata is t.SUMS for table in given):
            t.SUMS.create_all(d)
        there = d.execute(sa.select(t.study.c.moved).where(_of(t.study, source.study))).scalars().all()
        if any(one is None for one in there) or target.other_studies(d):
            raise StoreError(f"{target} has a study already; name a new database.")
        d.execute(t.study.delete().where(_of(t.study, source.study)))
        count = 0
        for table in given:
            rows = c.execute(
                sa.select(table).where(_of(table, source.study)).order_by(*table.primary_key)
                .execution_options(yield_per=_SOME)
            )  # fmt: skip
            copied = 0
            for some in rows.partitions():
                d.execute(table.insert(), [dict(row._mapping) for row in some])
                copied += len(some)
            found = d.execute(sa.select(sa.func.count()).select_from(table).where(_of(table, source.study))).scalar()
            if found != copied:
                raise StoreError(f"{target} has rows of this study in {table.name}; name a new database.")
            count += copied
        d.execute(t.study.update().where(_of(t.study, source.study)).values(moved=moved))
    return count


def fence(source: Store, target: str) -> None:
    """Let nothing of a study count in a database any more, from which it is being moved to another.
    Raises StoreError if it is being moved to a third one, or has been.
    """
    with source.keeping() as c, c.begin():
        found = c.execute(sa.select(t.study.c.moved).where(t.study.c.slug == source.slug)).scalar()
        if found not in {None, target}:
            raise StoreError(f"{source} has no study to be moved to {target}: it is, or goes, to {found}.")
        c.execute(t.study.update().where(_of(t.study, source.study)).values(moved=target))


def clear(source: Store) -> None:
    """Delete what has been moved; what stays says where it is."""
    with source.keeping() as c, c.begin():
        for table in reversed(_tables(c)):
            if table is not t.study:
                c.execute(table.delete().where(_of(table, source.study)))
    source.compact()


def back_up(source: Store, path: Path) -> int:
    """Copy a study into a new file of SQLite, which can only be restored; how many rows.
    Raises StoreError if there is such a file, or no folder for it.
    """
    part = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        made = SQLite(f"{SCHEME}{part}", source.slug, source.clock, make=True)
        count = copy(source, made, BACKUP)
        made.leave()
        try:
            os.link(part, path)  # unlike a renaming, replaces nothing
        except OSError:
            raise StoreError(f"{str(path)!r} can't be written, or is there already; name a new file.") from None
    finally:
        for end in ("", "-wal", "-shm"):
            part.with_name(part.name + end).unlink(missing_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return count
