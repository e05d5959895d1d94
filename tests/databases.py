"""Databases that tests open, closed when the tests end, and a plugin by which a test fails that leaves SQLite's open.

From Python 3.13 on these are warned of when the garbage collector, which alone removes one, comes to them: in any test.
"""

from __future__ import annotations

import atexit
import builtins
import functools
import gc
import os
import sqlite3
import weakref
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any

import pytest

_OPEN = ExitStack()
atexit.register(_OPEN.close)


def sqlite(path=":memory:"):
    """A connection to SQLite."""
    return _OPEN.enter_context(closing(sqlite3.connect(path)))


def duck():
    """A connection to DuckDB in memory, whose relations don't keep it themselves before DuckDB 1.5."""
    import duckdb

    return _OPEN.enter_context(closing(duckdb.connect()))


def engine(url):
    """An engine of SQLAlchemy."""
    import sqlalchemy

    made = sqlalchemy.create_engine(url)
    _OPEN.callback(made.dispose)
    return made


class Connection(sqlite3.Connection):
    """A connection that notes the test that left it open."""

    __module__ = "sqlite3"  # which messages name
    opener = ""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.opener = os.environ.get("PYTEST_CURRENT_TEST", "a module of tests")
        _opened.append(weakref.ref(self))

    def close(self) -> None:
        super().close()
        self.opener = ""

    def __del__(self) -> None:
        if self.opener:
            _left.append(self.opener)


_opened: list[weakref.ref[Connection]] = []
"""Connections of the present test."""
_left: list[str] = []
"""Tests whose connections have gone and were not closed."""


def pytest_configure() -> None:
    """Watch all connections."""
    sqlite3.connect = sqlite3.dbapi2.connect = functools.partial(sqlite3.connect, factory=Connection)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown() -> Iterator[None]:
    """Fail a test that leaves a connection to SQLite to the garbage collector."""
    yield
    if any(c is not None and c.opener for c in (ref() for ref in _opened)):
        vars(builtins).pop("_", None)  # what a doctest has shown last
        gc.collect(1)  # it is young
    _opened.clear()
    if _left:
        tests = ", ".join(_left)
        _left.clear()
        pytest.fail(f"connections to SQLite were left open by {tests}; close them", pytrace=False)
