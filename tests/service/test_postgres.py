"""What PostgreSQL alone may do to a collector: a server that goes away, a lost answer to COMMIT, many studies."""

import sys

import pytest
import sqlalchemy as sa

from privreg.errors import OptionError
from privreg_field.service.commands.serve import serve
from privreg_field.service.store import StoreError, open_store
from privreg_field.service.store.records import HELD
from tests.service import postgres
from tests.service.pair import Pair
from tests.service.world import World

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=f"{postgres.MISSING} missing")


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=40, database="postgres")


def people(store):
    return sum(cell.people for cell in store.cells().values())


def ended(store):
    """End all of a store's sessions, as a server does that stops."""
    with sa.create_engine(store.engine.url).connect() as c:
        c.exec_driver_sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database()"
            " AND pid <> pg_backend_pid()"
        )
        c.detach()


def test_a_collector_outlives_its_server(world):
    first, second = ([world.arrived(b)] for b in world.bodies(2))
    assert world.store.take(first, {}) == ["new"]
    ended(world.store)
    assert world.store.take(second, {}) == ["new"]
    assert world.store.take(first, {}) == ["same"]
    assert people(world.store) == 2


@pytest.mark.parametrize("arrives", [True, False])
def test_a_report_whose_commit_is_never_answered_counts_at_most_once(world, monkeypatch, arrives):
    one = [world.arrived(world.bodies(1)[0])]
    dialect = world.store.engine.dialect
    commit = dialect.do_commit

    def lost(connection):
        if arrives:
            commit(connection)
        connection.close()
        raise sa.exc.OperationalError("COMMIT", {}, Exception("the connection was lost"))

    with monkeypatch.context() as m:
        m.setattr(dialect, "do_commit", lost)
        with pytest.raises(sa.exc.OperationalError):
            world.store.take(one, {})
    assert people(world.store) == int(arrives)
    assert world.store.take(one, {}) == ["same" if arrives else "new"]
    assert people(world.store) == 1


def test_writers_of_one_study_take_turns_and_readers_never_wait(world):
    other, wake = open_store(world.url, "sleep"), open_store(world.url, "wake")
    taken = sa.text("SELECT pg_try_advisory_xact_lock(:number)")
    with world.store.engine.begin(), other.reading() as c:
        assert not c.execute(taken, {"number": other._turn}).scalar_one()
        assert c.execute(taken, {"number": wake._turn}).scalar_one()
        assert other.about().slug == "sleep"


def test_a_study_is_served_once(world):
    other, wake = open_store(world.url, "sleep"), open_store(world.url, "wake")
    with world.store.alone(), wake.alone(), pytest.raises(OptionError, match="another privreg serve"), other.alone():
        pass
    with other.alone():
        ended(world.store)  # the lock is lost with its session


def test_servers_share_a_study_if_each_says_so(world, tmp_path):
    other, third = open_store(world.url, "sleep"), open_store(world.url, "sleep")
    refused = pytest.raises(OptionError, match="another privreg serve")
    with world.store.alone(shared=True), other.alone(shared=True), refused, third.alone():
        pass
    with third.alone(), refused, other.alone(shared=True):
        pass
    alone = open_store(f"sqlite:///{tmp_path / 'alone.db'}", "sleep")
    with pytest.raises(OptionError, match="servers share a study in PostgreSQL"), alone.alone(shared=True):
        pass


def test_what_is_wrong_with_an_address_is_said_without_its_password(tmp_path, monkeypatch):
    with pytest.raises(StoreError, match=r"postgresql\+psycopg://me:\*\*\*@127.0.0.1:9/x' can't be reached"):
        open_store("postgresql://me:secret@127.0.0.1:9/x", "sleep")
    with pytest.raises(StoreError, match="no address"):
        open_store("postgresql://me@h:port/x", "sleep")
    monkeypatch.setitem(sys.modules, "psycopg", None)
    with pytest.raises(StoreError, match=r"\./packages/field\[postgres\]"):
        open_store("postgresql://x", "sleep")
    assert serve([str(tmp_path / "no.plan"), "--db", "postgresql://me:secret@h/x"]) == 2


def test_no_table_write_ahead_log_or_backup_has_a_key_that_opens_shares(tmp_path):
    pair = Pair(tmp_path, n=45, database="postgres")
    pair.turn()
    for person in pair.people[:3]:
        person.make(0)
    for place in (0, 1):
        pair.send(place, pair.people[:3])
        store = pair.schedulers[place].store
        key = pair.schedulers[place].keys.get(0)
        plain = b"".join(s.to_bytes(8, "little") for s in pair.people[0].shares[0][place][:2])
        with store.engine.connect() as c:
            names = sa.inspect(c).get_table_names(schema="privreg")
            held = b"".join(
                bytes(v) if isinstance(v, bytes | memoryview) else str(v).encode()
                for name in names
                for row in c.execute(sa.text(f"SELECT * FROM privreg.{name}"))
                for v in row
            )
        assert len(store.shares.tokens(0, HELD)) == 3
        assert pair.people[0].token.id in held
        assert key not in held
        assert plain not in held
        pair.leave(place)
