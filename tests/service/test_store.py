"""What the collector keeps: a token counts once, whatever is dropped, repeated, restarted, killed or full."""

import gc
import os
import signal
import subprocess
import sys
import textwrap
import weakref
import zlib

import numpy as np
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from privreg.errors import OptionError, SavedFileError
from privreg_field.collector import chain as chains
from privreg_field.service import access
from privreg_field.service.commands.collector import collector
from privreg_field.service.commands.prepare import prepared
from privreg_field.service.store import StoreError, open_store, records, tables
from privreg_field.service.store.postgres import Postgres
from privreg_field.service.store.records import MOST, TICK, Writer
from privreg_field.service.store.sql import Store
from privreg_field.wire import messages
from privreg_field.wire.study import LIMIT
from tests.service import postgres
from tests.service.world import KINDS, SERVER, Scheduler, World, keys

PEOPLE = 60


@pytest.fixture(params=KINDS)
def world(tmp_path, request):
    return World(tmp_path, n=PEOPLE, database=request.param)


def added_up(store):
    """Cells of all reports, added one by one."""
    out = {}
    for place, values in store.reports():
        out[place] = chains.add(out.get(place), np.frombuffer(values, dtype="<i4")[None], place.role)
    return chains.plain(out)


class Storage(RuleBasedStateMachine):
    """Devices post, post again, and others post with their tokens; processes come and go."""

    database = "sqlite"

    def __init__(self):
        super().__init__()
        self.counted = {}  # What was acknowledged, by token
        self.place = None

    @initialize()
    def begin(self):
        import tempfile

        self.folder = tempfile.TemporaryDirectory()
        self.world = World(self.folder.name, n=PEOPLE, database=self.database)
        self.stores = [self.world.store, open_store(self.world.url, "sleep")]
        self.made = [self.world.arrived(b) for b in self.world.bodies(PEOPLE)]

    @rule(who=st.lists(st.integers(0, PEOPLE - 1), min_size=1, max_size=8), by=st.integers(0, 1), heard=st.booleans())
    def post(self, who, by, heard):
        """Some of the answers are lost on their way."""
        some = [self.made[i] for i in who]
        for one, outcome in zip(some, self.stores[by].take(some, {}), strict=True):
            fresh = one.token_id not in self.counted
            assert outcome == ("new" if fresh else "same" if self.counted[one.token_id] == one.body_hash else "other")
            if fresh:
                self.counted[one.token_id] = one.body_hash
        del heard

    @rule(who=st.integers(0, PEOPLE - 1), by=st.integers(0, 1))
    def others(self, who, by):
        """Another body with somebody's token."""
        mine = self.made[who]
        theirs = mine._replace(body_hash=bytes(32), values=bytes(len(mine.values)))
        (outcome,) = self.stores[by].take([theirs], {})
        if mine.token_id in self.counted:
            assert outcome == ("same" if self.counted[mine.token_id] == theirs.body_hash else "other")
        else:
            assert outcome == "new"
            self.counted[mine.token_id] = theirs.body_hash

    @rule(by=st.integers(0, 1))
    def restart(self, by):
        self.stores[by].engine.dispose()
        self.stores[by] = open_store(self.world.url, "sleep")

    @rule(by=st.integers(0, 1), who=st.integers(0, PEOPLE - 1))
    def full(self, by, who):
        """The disk is full: nothing of the transaction is kept."""
        store, before = self.stores[by], self.stores[1 - by].cells()
        with pytest.MonkeyPatch.context() as m:
            m.setattr(store, "_fold", _disk_full)
            fresh = self.made[who].token_id not in self.counted
            if fresh:
                with pytest.raises(sa.exc.OperationalError):
                    store.take([self.made[who]], {})
        assert chains.plain(self.stores[1 - by].cells()) == chains.plain(before)

    @invariant()
    def sums_are_those_of_the_reports(self):
        if hasattr(self, "stores"):
            for store in self.stores:
                cells = store.cells()
                assert sum(c.people for c in cells.values()) == len(self.counted)
                assert chains.plain(cells) == added_up(store)

    def teardown(self):
        if hasattr(self, "stores"):
            for store in self.stores:
                store.engine.dispose()
            self.folder.cleanup()


def _disk_full(*_):
    raise sa.exc.OperationalError("INSERT", {}, Exception("database or disk is full"))


for _kind in ("sqlite",) if postgres.MISSING else ("sqlite", "postgres"):
    _case = type(f"Storage_{_kind}", (Storage,), {"database": _kind}).TestCase
    _case.settings = settings(
        max_examples=6, stateful_step_count=15, deadline=None, suppress_health_check=list(HealthCheck)
    )
    globals()[f"TestStorage_{_kind}"] = _case
del _case


@pytest.mark.thorough
def test_a_store_that_nobody_has_any_more_has_closed_its_connections(world):
    """From Python 3.13 on those of SQLite are warned of that nobody has closed."""
    store = open_store(world.url, "sleep")
    store.cells()
    pool, there = store.engine.pool, weakref.ref(store)
    assert pool.checkedin() == 1
    del store
    gc.collect()
    assert there() is None
    assert pool.checkedin() == 0


def test_a_state_that_could_not_be_published_is_published_later(world, monkeypatch):
    while world.scheduler.advance():
        pass
    k, bodies = len(world.scheduler.states), world.bodies(PEOPLE)
    world.store.take([world.arrived(b) for b in bodies], {})
    with monkeypatch.context() as m:
        m.setattr(world.store, "publish", _disk_full)
        with pytest.raises(sa.exc.OperationalError):
            world.scheduler.advance()
    assert world.scheduler.is_open
    assert world.scheduler.role_of(k) is None
    assert world.scheduler.advance()
    assert world.scheduler.role_of(k) is not None


def test_a_writer_answers_what_could_not_be_kept(world, monkeypatch):
    heard = []
    writer = Writer(world.store, lambda: heard.append("after"))
    monkeypatch.setattr(world.store, "_fold", _disk_full)
    writer.start()
    writer.put(world.arrived(world.bodies(1)[0]), heard.append)
    writer.stop()
    assert heard == ["failed"]
    assert world.store.cells() == {}


def test_a_writer_keeps_more_than_a_transaction_at_once_and_counts(world):
    heard = []
    writer = Writer(world.store, lambda: None)
    some = [world.arrived(b) for b in world.bodies(PEOPLE)]
    for k in range(MOST + PEOPLE):  # all wait before it begins
        writer.put(some[k % PEOPLE], heard.append)
    writer.count("403")
    writer.start()
    writer.stop()
    assert heard.count("new") == PEOPLE
    assert heard.count("same") == MOST
    counts = {}
    for _, name, count in world.store.counts():
        counts[name] = counts.get(name, 0) + count
    assert counts == {"new": PEOPLE, "same": MOST, "403": 1}


@pytest.mark.parametrize(("took", "later"), [(0.004, 0.008), (0.03, TICK), (0.3, 0.3)])
def test_a_writer_leaves_half_of_the_time_to_what_answers_and_nobody_waits_longer_than_a_tick(took, later, monkeypatch):
    """Of reports that always wait, `later` is between the beginnings of two transactions that take so long."""

    class Clock:
        now = 5.0

        def monotonic(self):
            return self.now

        def sleep(self, seconds):
            self.now += seconds

    clock, began = Clock(), []

    class Records:
        def take(self, some, counts, *, trial=False):
            began.append(clock.now)
            clock.now += took
            return ["new"] * len(some)

    monkeypatch.setattr(records, "time", clock)
    writer = Writer(Records(), lambda: None)
    for k in range(3 * MOST):
        writer.put(k, lambda outcome: None)
    writer._queue.put(None)
    writer.run()
    assert began[0] == 5.0
    assert np.diff(began) == pytest.approx([later, later])


KILLED = """
    import os, signal, sys
    import sqlalchemy as sa
    from privreg_field.service.store import open_store
    from privreg_field.service.store.records import Arrived
    url, when = sys.argv[1], sys.argv[2]
    store = open_store(url, "sleep")
    arrived = Arrived(*eval(sys.stdin.read()))
    def die(*_):
        os.kill(os.getpid(), signal.SIGKILL)
    if when == "before":
        sa.event.listen(store.engine, "commit", die)
        store.take([arrived], {})
    else:
        assert store.take([arrived], {}) == ["new"]
        die()
"""


@pytest.mark.some(1)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_process_that_is_killed_about_a_commit_counts_nothing_twice(world, when):
    arrived = world.arrived(world.bodies(1)[0])
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), world.url, when],
        input=repr(tuple(arrived)), text=True, check=False, cwd=os.getcwd(), capture_output=True,
    )  # fmt: skip
    assert done.returncode == -signal.SIGKILL, done.stderr
    fresh = open_store(world.url, "sleep")
    assert fresh.take([arrived], {}) == ["new" if when == "before" else "same"]
    assert sum(c.people for c in fresh.cells().values()) == 1
    assert chains.plain(fresh.cells()) == added_up(fresh)


def test_a_database_of_another_release_or_study_is_refused(world):
    other = open_store(world.url, "wake")
    if isinstance(other, Postgres):  # which holds several
        assert not other.known()
        assert other.enter(bytes(32), b"", access.first_of(""))
        assert other.about().slug == "wake"
        assert world.store.about().slug == "sleep"
    else:
        with pytest.raises(StoreError, match="another study"):
            other.enter(bytes(32), b"", access.first_of(""))
    with pytest.raises(StoreError, match="another plan"):
        world.store.enter(bytes(32), b"", access.first_of(""))
    with world.store.engine.begin() as c:
        c.execute(tables.meta.update().values(value=str(tables.FORMAT + 1)))
    with pytest.raises(StoreError, match=f"version {tables.FORMAT + 1}, of a later release.*pip install"):
        open_store(world.url, "sleep")


def test_the_collectors_command_finds_what_was_changed(world, capsys):
    world.answer(40)
    plan = world.folder / "sleep.plan"
    plan.write_bytes(world.envelope)
    assert keys.public(SERVER) in world.plan.keys
    given = [str(plan), "--db", world.url]
    assert collector(["check", *given]) == 0
    assert "40 reports" in capsys.readouterr().out
    assert collector(["replay", *given]) == 0
    out = world.folder / "out.json"
    assert collector(["export", *given, "--out", str(out)]) == 0
    assert "40" in out.read_text()
    capsys.readouterr()
    with world.store.engine.begin() as c:
        c.execute(tables.cell.update().values(people=tables.cell.c.people + 1))
    assert collector(["check", *given]) == 2
    assert "not those of the reports" in capsys.readouterr().err
    with world.store.engine.begin() as c:
        c.exec_driver_sql("UPDATE snapshot SET cells = '[]'")
    if world.store.snapshots():
        assert collector(["replay", *given]) == 2
        assert "does not follow" in capsys.readouterr().err


@pytest.mark.some(3)
@pytest.mark.parametrize(("verb", "read"), [("check", "reports"), ("replay", "snapshots")])
def test_what_is_checked_is_of_one_moment_though_a_server_writes_meanwhile(world, monkeypatch, verb, read):
    plan = world.folder / "sleep.plan"
    plan.write_bytes(world.envelope)
    world.answer(10)
    real, served, counts = getattr(Store, read), world.store, []

    def interrupted(store, *given):
        yield from real(store, *given)
        if store is not served and len(counts) < 3:
            with monkeypatch.context() as m:
                m.setattr(Store, read, real)
                world.answer(10)
            counts.append(sum(world.store.people().values()))

    monkeypatch.setattr(Store, read, lambda *given: iter(list(interrupted(*given))))
    assert collector([verb, str(plan), "--db", world.url]) == 0
    assert counts[0] == 20


def test_a_trial_takes_as_much_room_as_the_longest_report_and_leaves_nothing(world):
    some = [world.arrived(b) for b in world.bodies(2)]
    values = []
    sa.event.listen(world.store.engine, "before_cursor_execute", lambda *given: values.append(str(given[3])))
    assert world.store.take([], {}, trial=True) == []
    assert world.store.take(some, {}, trial=True) == ["new", "new"]
    assert max(len(zlib.compress(v.encode())) for v in values) > LIMIT / 2
    with world.store.reading() as c:
        assert c.execute(sa.select(tables.meta.c.name)).scalars().all() == ["format"]


def test_keys_are_made_and_taken_back(world, capsys):
    plan = world.folder / "sleep.plan"
    plan.write_bytes(world.envelope)
    text = messages.token_text(world.tokens[0])
    arguments = ["rotate-keys", str(plan), "--db", world.url, "--revoke", "1", "--tokens", text]
    assert collector(arguments) == 0
    assert list(world.store.issuers()) == [2]
    assert world.store.taken_back() == {world.tokens[0].id}
    assert "key 2" in capsys.readouterr().out


def test_two_collectors_on_one_database_publish_one_chain(world):
    other = Scheduler(open_store(world.url, "sleep"), SERVER, world.clock)
    assert other.present == world.scheduler.present
    while world.next < PEOPLE:
        world.store.take([world.arrived(b) for b in world.bodies(10)], {})
        assert world.scheduler.advance() in {True, False}
        other.advance()
        assert other.states == world.scheduler.states
    assert world.scheduler.replay() == len(world.scheduler.states)


def test_of_two_servers_the_slower_one_takes_over_what_was_published(tmp_path, monkeypatch):
    """Its own sums are later ones: the state that it made of them follows from no snapshot."""
    world = World(tmp_path, n=400)
    slow = Scheduler(open_store(world.url, "sleep"), SERVER, world.clock)
    needed = world.scheduler.chain.ask.ends
    world.store.take([world.arrived(b) for b in world.bodies(needed)], {})
    own = slow.store.cells

    def late():
        assert world.scheduler.advance()
        world.store.take([world.arrived(b) for b in world.bodies(7, world.states_of(0))], {})
        return own()

    monkeypatch.setattr(slow.store, "cells", late)
    assert slow.advance()
    monkeypatch.undo()
    assert slow.states == world.scheduler.states
    assert len(slow.chain.history) == len(world.scheduler.chain.history)
    needed = slow.chain.ask.ends
    world.store.take([world.arrived(b) for b in world.bodies(needed)], {})
    assert slow.advance()
    world.scheduler.catch_up()
    assert Scheduler(world.store, None).replay() == len(slow.states)


def test_a_study_closes_though_another_state_is_published_meanwhile(world, monkeypatch):
    needed = world.scheduler.chain.ask.ends
    world.store.take([world.arrived(b) for b in world.bodies(needed)], {})
    closing = Scheduler(open_store(world.url, "sleep"), SERVER, world.clock)
    own = closing._stated

    def late(*given, **more):
        world.scheduler.advance()
        return own(*given, **more)

    monkeypatch.setattr(closing, "_stated", late)
    closing.close()
    assert not closing.is_open
    world.scheduler.catch_up()
    assert not world.scheduler.is_open


def test_the_analysts_token_is_written_before_its_hash_is_kept(world, tmp_path):
    plan = tmp_path / "new" / "sleep.plan"
    plan.parent.mkdir()
    plan.write_bytes(world.envelope)
    plan.with_suffix(".analyst").mkdir()  # where no file can be written
    url = f"sqlite:///{plan.with_suffix('.db')}"
    with pytest.raises(SavedFileError):
        prepared(str(plan), url)
    plan.with_suffix(".analyst").rmdir()
    said = []
    (store,) = prepared(str(plan), url, said.append)
    token = plan.with_suffix(".analyst").read_text().strip()
    assert store.access() == [access.first_of(token)]
    assert len(said) == 1
    other = plan.with_suffix(".other.db")
    (store,) = prepared(str(plan), f"sqlite:///{other}", said.append)  # such as by another --db than the server's
    assert plan.with_suffix(".analyst").read_text().strip() == token
    assert store.access() == [access.first_of(token)]
    assert said[1].startswith(f"{str(other)!r} is new")
    plan.with_suffix(".analyst").write_text("")
    with pytest.raises(OptionError, match="has no token"):
        prepared(str(plan), url)
