"""What holds of studies in SQLite alone: files, pages, rows' own numbers."""

import sqlite3
from contextlib import closing

import pytest
import sqlalchemy as sa

from privreg.errors import OptionError
from privreg_field.collector import chain as chains
from privreg_field.service.store import StoreError, open_store
from tests.service.test_store import PEOPLE, added_up
from tests.service.world import World


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=PEOPLE)


def test_the_order_in_which_reports_came_is_kept_nowhere(world):
    with world.store.engine.connect() as c, pytest.raises(sa.exc.OperationalError, match="no such column"):
        c.exec_driver_sql("SELECT rowid FROM report")


def test_a_disk_that_is_really_full_keeps_nothing_and_loses_nothing(world):
    bodies = world.bodies(PEOPLE)
    some = [world.arrived(b) for b in bodies]
    assert world.store.take(some[:10], {}) == ["new"] * 10
    with world.store.engine.begin() as c:
        pages = c.exec_driver_sql("PRAGMA page_count").scalar_one()

    def small(connection, record):
        connection.execute(f"PRAGMA max_page_count={pages}")

    tight = open_store(world.url, "sleep")
    tight.engine.dispose()
    sa.event.listen(tight.engine, "connect", small)
    big = [a._replace(values=a.values * 400, role=f"role{i}") for i, a in enumerate(some[10:])]
    with pytest.raises(sa.exc.OperationalError):
        tight.take(big, {})
    assert chains.plain(world.store.cells()) == added_up(world.store)
    assert world.store.take(some, {}) == ["same"] * 10 + ["new"] * (PEOPLE - 10)


@pytest.mark.parametrize("tables", ["report (id INTEGER)", "meta (name TEXT, value TEXT)"])
def test_another_programs_database_is_let_alone(tmp_path, tables):
    path = tmp_path / "shop.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute(f"CREATE TABLE {tables}")
        db.execute("CREATE TABLE orders (id INTEGER)")
    before = path.read_bytes()
    with pytest.raises(StoreError, match="tables of another program; name a new file by --db"):
        open_store(f"sqlite:///{path}", "sleep")
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["shop.db"]


def test_an_empty_database_is_taken(tmp_path):
    path = tmp_path / "new.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("PRAGMA user_version = 1")
    assert not open_store(f"sqlite:///{path}", "sleep").known()
    path.with_name("empty.db").touch()
    assert not open_store(f"sqlite:///{path.with_name('empty.db')}", "sleep").known()


def test_one_server_at_a_time_has_a_database_and_leaves_one_file(world, tmp_path):
    other = open_store(world.url, "sleep")
    with world.store.alone(), pytest.raises(OptionError, match="another privreg serve"), other.alone():
        pass
    world.answer(60)
    world.store.leave()
    copy = tmp_path / "elsewhere" / "copy.db"
    copy.parent.mkdir()
    copy.write_bytes(world.store.path.read_bytes())
    assert sum(c.people for c in open_store(f"sqlite:///{copy}", "sleep").cells().values()) == 60


def test_what_is_no_database_is_refused(tmp_path):
    (tmp_path / "no.db").write_bytes(b"no database" * 100)
    with pytest.raises(StoreError, match="no database"):
        open_store(f"sqlite:///{tmp_path / 'no.db'}", "sleep")
    with pytest.raises(StoreError, match="SQLite"):
        open_store("mysql://x", "sleep")
    with pytest.raises(StoreError, match="no folder"):
        open_store(f"sqlite:///{tmp_path / 'a' / 'b.db'}", "sleep")
    with pytest.raises(StoreError, match="there is no database"):
        open_store(f"sqlite:///{tmp_path / 'a.db'}", "sleep", make=False)
    assert not (tmp_path / "a.db").exists()
