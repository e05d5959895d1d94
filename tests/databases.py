"""Databases that tests open, closed when the tests end: from Python 3.13 on SQLite's are warned of if nobody does."""

import atexit
import sqlite3
from contextlib import ExitStack, closing

_OPEN = ExitStack()
atexit.register(_OPEN.close)


def sqlite(path=":memory:"):
    """A connection to SQLite."""
    return _OPEN.enter_context(closing(sqlite3.connect(path)))


def engine(url):
    """An engine of SQLAlchemy."""
    import sqlalchemy

    made = sqlalchemy.create_engine(url)
    _OPEN.callback(made.dispose)
    return made
