"""Backups, restored and not; a study that is taken to another database; reports that are deleted once it is over."""

import argparse
import tempfile
import threading
from functools import partial
from pathlib import Path

import pytest
import sqlalchemy as sa

from privreg.errors import OptionError
from privreg_field.collector import chain as chains
from privreg_field.service import access
from privreg_field.service.commands.collector import _audited, collector
from privreg_field.service.commands.collector import run as run_verb
from privreg_field.service.commands.prepare import prepared
from privreg_field.service.scheduler import SEALED
from privreg_field.service.store import StoreError, copies, open_store
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import OPEN, PUBLISHED
from tests.service import postgres
from tests.service.pair import LETTERS, Pair
from tests.service.test_analyses import Several
from tests.service.test_store import added_up
from tests.service.test_two import FAST
from tests.service.test_two_restored import forgetful
from tests.service.test_two_schedulers import DUE, come, on, status
from tests.service.test_versions import rows
from tests.service.world import DATABASES, KINDS, SERVER, Scheduler, World

PEOPLE = 60


@pytest.fixture(params=KINDS)
def world(tmp_path, request):
    made = World(tmp_path, n=PEOPLE, database=request.param)
    (tmp_path / "sleep.plan").write_bytes(made.envelope)
    return made


def other_of(world, kind="sqlite", name="other"):
    """Address of a database of its own."""
    folder = world.folder / name
    folder.mkdir(exist_ok=True)
    return DATABASES[kind](folder)


def ran(world, verb, *more, db=None):
    return collector([verb, str(world.folder / "sleep.plan"), "--db", db or world.url, *map(str, more)])


def goes_on(world, url):
    """The study in another database takes what comes, and its chain goes on."""
    store = open_store(url, "sleep", beside=world.folder / "study.db")
    scheduler = Scheduler(store, SERVER, world.clock, world.clock)
    some = [world.arrived(b) for b in world.bodies(10, scheduler_state(world, scheduler))]
    assert store.take(some, {}) == ["new"] * 10
    while scheduler.advance():
        pass
    assert chains.plain(store.cells()) == added_up(store)
    assert scheduler.replay() == len(scheduler.states)
    return store


def scheduler_state(world, scheduler):
    from privreg_field.wire import messages

    return messages.read_state(scheduler.present.payload, world.plan, world.hash)


# --- backups -------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_restored_study_has_what_the_backup_had_and_goes_on(world, kind, capsys):
    world.answer(30)
    before, out = rows(world.store), world.folder / "backup.db"
    kept = [world.arrived(b) for b in world.bodies(5)]
    assert ran(world, "backup", "--out", out) == 0
    assert out.stat().st_mode & 0o777 == 0o600
    assert sorted(p.name for p in world.folder.glob("*backup*")) == ["backup.db"]
    world.store.take(kept, {})  # acknowledged after the backup
    url = other_of(world, kind)
    assert ran(world, "restore", "--from", out, db=url) == 0
    assert "30 reports in" in capsys.readouterr().out
    store = open_store(url, "sleep", beside=world.folder / "study.db")
    assert rows(store) == before
    assert store.issuers() == world.store.issuers()
    assert store.take(kept, {}) == ["new"] * 5
    goes_on(world, url)


def test_a_backup_counts_nothing_until_it_is_restored_once(world, capsys):
    world.answer(20)
    out = world.folder / "backup.db"
    assert ran(world, "backup", "--out", out) == 0
    assert ran(world, "backup", "--out", out) == 2
    url = f"sqlite:///{out}"
    with pytest.raises(StoreError, match="is a backup; put it into another database"):
        prepared(str(world.folder / "sleep.plan"), url)
    store = open_store(url, "sleep")
    for work in (store.about, lambda: store.take([], {"new": 1}), lambda: store.mark("closed")):
        with pytest.raises(StoreError, match="is a backup"):
            work()
    assert ran(world, "check", db=url) == 2
    assert ran(world, "backup", "--out", world.folder / "b.db", db=url) == 2
    capsys.readouterr()
    assert ran(world, "restore", "--from", out) == 2
    assert "has a study already" in capsys.readouterr().err
    assert ran(world, "restore", "--from", world.folder / "sleep.plan", db=other_of(world)) == 2
    copy = other_of(world, name="copy")
    assert ran(world, "restore", "--from", out, db=copy) == 0
    again = copy.removeprefix("sqlite:///")
    assert ran(world, "restore", "--from", again, db=other_of(world, name="third")) == 2
    assert "is no backup" in capsys.readouterr().err


def test_a_backup_is_of_one_moment_while_reports_come(world):
    world.answer(10)
    stop, some = threading.Event(), [world.arrived(b) for b in world.bodies(40)]

    def post():
        store = open_store(world.url, "sleep")
        for one in some:
            store.take([one], {})
        stop.set()
        store.engine.dispose()

    thread = threading.Thread(target=post)
    thread.start()
    made = 0
    while made < 2 or not stop.is_set():
        path = world.folder / f"{made}.db"
        copies.back_up(world.store, path)
        store = open_store(f"sqlite:///{path}", "sleep")
        assert chains.plain(store.cells()) == added_up(store)
        with store.reading() as c:
            assert c.execute(sa.select(t.study.c.seq)).scalar() == sum(x.people for x in store.cells().values())
        made += 1
    thread.join()


@pytest.mark.thorough
def test_studies_of_one_database_are_copied_one_by_one(tmp_path):
    if postgres.MISSING:
        pytest.skip(f"{postgres.MISSING} missing")
    world = World(tmp_path, n=20, database="postgres")
    for slug in ("sleep2", "sleep_", "SLEEP"):
        assert open_store(world.url, slug).enter(bytes(32), b"", access.first_of(""))
    copies.back_up(world.store, tmp_path / "b.db")
    with open_store(f"sqlite:///{tmp_path / 'b.db'}", "sleep").reading() as c:
        assert c.execute(sa.select(t.study.c.slug)).scalars().all() == ["sleep"]


# --- another place -------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", KINDS)
def test_a_study_is_moved_while_it_is_open_and_back(world, kind, capsys):
    world.answer(30)

    def names(url):
        """Of tokens that count at a database, as the command finds it."""
        return {one.name for one in access.granted(open_store(url, "sleep", beside=world.folder / "sleep.db"), 0.0)}

    own = open_store(world.url, "sleep", beside=world.folder / "sleep.db")
    access.grant(own, 0.0, "ann", ("results",), str(world.folder / "ann"))
    before, url, old = rows(world.store), other_of(world, kind), world.url
    assert ran(world, "backup", "--out", world.folder / "backup.db") == 0
    assert ran(world, "move", "--to", url) == 0
    there = open_store(url, "sleep", beside=world.folder / "study.db")
    assert rows(there) == before
    assert names(url) == {"ann", "analyst"}
    late = [world.arrived(b) for b in world.bodies(1)]
    for work in (
        world.store.about, lambda: world.store.take(late, {}), lambda: world.store.issue(b""),
        lambda: prepared(str(world.folder / "sleep.plan"), old),
    ):  # fmt: skip
        with pytest.raises(StoreError, match=r"was moved from .* name that by --db"):
            work()
    assert world.store.cells() == {}
    assert ran(world, "move", "--to", url) == 2
    assert "already" in capsys.readouterr().err
    assert ran(world, "move", "--to", other_of(world, name="third")) == 2
    capsys.readouterr()
    assert ran(world, "restore", "--from", world.folder / "backup.db") == 2
    assert "was moved from" in capsys.readouterr().err
    goes_on(world, url)
    before = rows(there)
    assert ran(world, "move", "--to", old, db=url) == 0
    assert rows(open_store(old, "sleep")) == before
    assert names(old) == {"ann", "analyst"}
    goes_on(world, old)


@pytest.mark.some(4)
@pytest.mark.parametrize("step", ["fence", "copy", "clear"])
@pytest.mark.parametrize("done", [False, True])
def test_a_move_that_is_killed_ends_when_it_is_run_again_and_never_counts_in_two_places(world, step, done, monkeypatch):
    world.answer(20)
    before, url = rows(world.store), other_of(world)
    real = getattr(copies, step)

    def killed(*given):
        if done:
            real(*given)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(copies, step, killed)
        with pytest.raises(KeyboardInterrupt):
            moved(world, url)
    there = open_store(url, "sleep")
    one = [world.arrived(world.bodies(1)[0])]
    counting = [store for store in (world.store, there) if counts(store, one)]
    assert len(counting) <= 1
    if step == "fence" and not done:
        assert counting == [world.store]
        return
    if there in counting:
        before = rows(there)
    if not (step == "clear" and done):
        assert moved(world, url).startswith("Moved")
    assert rows(there) == before
    assert not copies.holds(world.store)


def counts(store, some):
    """Whether a database takes a report of a study that it has."""
    try:
        return store.known() and store.take(some, {}) == ["new"]
    except StoreError:
        return False


def moved(world, url):
    a = argparse.Namespace(verb="move", to=url, plan="sleep.plan", role=None)
    return run_verb(a, [world.plan], world.url, world.folder / "study.db", partial(_audited, a))


@pytest.mark.some(1)
def test_a_study_that_is_served_is_not_moved(world):
    with world.store.alone(), pytest.raises(OptionError, match="another privreg serve"):
        moved(world, other_of(world))
    assert world.store.about().moved is None


# --- two collectors ------------------------------------------------------------------------------------------


@pytest.fixture(params=KINDS)
def pair(request):
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        made = Pair(folder, n=DUE + 15, database=request.param)
        yield made
        for place in (0, 1):
            made.leave(place)


def kept(pair, place, verb, url=None, **more):
    """A verb at one of two collectors."""
    a = argparse.Namespace(verb=verb, role=LETTERS[place], **more)
    folder = pair.folder / LETTERS[place]
    return run_verb(a, [pair.plan], url or pair.url(place), folder / "study.db", partial(_audited, a))


def emptied(pair, place):
    """The database is lost; files beside it aren't."""
    pair.leave(place)
    if pair.database == "sqlite":
        for path in (pair.folder / LETTERS[place]).glob("study.db*"):
            if path.suffix != ".key":
                path.unlink()
        return
    engine = sa.create_engine(sa.make_url(pair.url(place)).set(drivername="postgresql+psycopg"))
    with engine.begin() as c:
        c.exec_driver_sql("DROP SCHEMA privreg CASCADE")
    engine.dispose()


@pytest.mark.some(3)
@pytest.mark.parametrize(("place", "fixed"), [(0, False), (0, True), (1, True), (1, False)])
def test_a_collector_of_two_that_is_restored_draws_no_noise_twice(pair, place, fixed):
    """Its disk still has, or has again, the key of the batch that was open; the other claims to know of no batch."""
    pair.turn()
    come(pair, pair.people[: DUE - 1])
    file = pair.folder / "backup.db"
    kept(pair, place, "backup", out=str(file))
    own = pair.folder / LETTERS[place]
    old = {p: p.read_bytes() for p in own.glob("*.key")}
    assert old
    if fixed:
        come(pair, pair.people[DUE - 1 : DUE])
        on(pair)
        assert status(pair) == [PUBLISHED, PUBLISHED]
    emptied(pair, place)
    for path, content in old.items():
        path.write_bytes(content)
    kept(pair, place, "restore", backup=str(file))
    assert not list(own.glob("*.key"))
    forgetful(pair, 1 - place)
    pair.open(place)
    on(pair)
    come(pair, pair.people[:DUE])
    on(pair, 8)
    assert all(len(sums) == 1 for sums in pair.values(place).values())
    first = {p.token.id for p in pair.people[: DUE - 1]}
    summed = [k for k in range(4) if pair.schedulers[place].shares.batch(k).status == PUBLISHED]
    lists = [set(copies_of(pair.schedulers[place].shares.batch(k).ids)) & first for k in summed]
    assert sum(map(len, lists)) == len(set().union(*lists))


def copies_of(ids):
    return [ids[i : i + 16] for i in range(0, len(ids), 16)]


@pytest.mark.some(3)
@pytest.mark.parametrize("place", [0, 1])
def test_a_collector_of_two_moves_with_the_key_of_its_open_batch(pair, place):
    pair.turn()
    come(pair, pair.people[: DUE - 1])
    folder = pair.folder / "new"
    folder.mkdir()
    pair.leave(place)
    url = f"sqlite:///{folder / 'study.db'}"
    kept(pair, place, "move", to=url)
    own = pair.folder / LETTERS[place]
    assert not list(own.glob("*.key"))
    assert len(list(folder.glob("*.key"))) == 1
    pair.url = lambda p, given=pair.url: url if p == place else given(p)
    pair.open(place)
    on(pair)
    assert status(pair) == [OPEN, OPEN]
    come(pair, pair.people[DUE - 1 : DUE])
    on(pair)
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert pair.total(0).people == DUE
    assert all(len(sums) == 1 for sums in pair.values(place).values())


# --- the end -------------------------------------------------------------------------------------------------


def sealed(world):
    world.clock.now = world.plan.closes + world.plan.grace + 7200
    for _ in range(3):
        world.scheduler.advance()
    assert world.store.about().status == SEALED


def test_reports_are_erased_once_none_counts_any_more_and_their_sums_stay(world, capsys):
    world.answer(40)
    assert ran(world, "erase") == 2
    assert "reports still count" in capsys.readouterr().err
    sealed(world)
    values = [bytes(v) for _, v in world.store.reports()]
    before = chains.plain(world.store.cells())
    assert len(values) == 40
    with world.store.engine.begin() as c:
        c.execute(t.cell.update().values(people=t.cell.c.people + 1))
    assert ran(world, "erase") == 2  # audited first
    assert len(list(world.store.reports())) == 40
    with world.store.engine.begin() as c:
        c.execute(t.cell.update().values(people=t.cell.c.people - 1))
    capsys.readouterr()
    world.store.leave()
    assert any(v in content for v in values for content in files(world))
    assert ran(world, "erase") == 0
    assert "Deleted 40 reports" in capsys.readouterr().out
    world.store.leave()
    assert not any(v in content for v in values for content in files(world))
    assert chains.plain(world.store.cells()) == before
    assert ran(world, "check") == 0
    assert "erased after their sums had been checked; 40 people" in capsys.readouterr().out
    assert ran(world, "replay") == 0
    assert ran(world, "erase") == 0
    again = Scheduler(world.store, SERVER, world.clock, world.clock)
    assert not again.takes()


def files(world):
    """What is on disk of reports: the whole file of SQLite, of PostgreSQL the table's."""
    if world.url.startswith("sqlite"):
        return [world.store.path.read_bytes()]
    with world.store.keeping() as c:
        c.exec_driver_sql("COMMIT")
        c.exec_driver_sql("CHECKPOINT")
        folder = c.exec_driver_sql("SHOW data_directory").scalar()
        toast = "SELECT reltoastrelid::regclass::text FROM pg_class WHERE oid = 'report'::regclass"
        names = ["report", "report_pkey", c.exec_driver_sql(toast).scalar()]
        paths = [c.exec_driver_sql("SELECT pg_relation_filepath(%s)", (name,)).scalar() for name in names]
    return [(Path(folder) / path).read_bytes() for path in paths]


def test_rows_of_a_sealed_study_tell_no_order_in_which_reports_came(tmp_path):
    if postgres.MISSING:
        pytest.skip(f"{postgres.MISSING} missing")
    world = World(tmp_path, n=PEOPLE, database="postgres")
    world.answer(PEOPLE)

    def told():
        with world.store.keeping() as c:
            found = c.exec_driver_sql("SELECT token_id, xmin::text FROM report ORDER BY ctid").all()
        return [bytes(row[0]) for row in found], len({row[1] for row in found})

    ids, writers = told()
    assert writers > 1
    assert ids != sorted(ids)
    sealed(world)
    ids, writers = told()
    assert ids == sorted(ids)
    assert len(ids) == PEOPLE
    assert writers == 1
    assert chains.plain(world.store.cells()) == added_up(world.store)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", KINDS)
def test_all_analyses_of_a_study_are_copied(tmp_path, kind):
    several = Several(tmp_path)
    stores = [scheduler.store for scheduler in several.schedulers]
    before = rows(stores[0])
    assert len({row[0] for row in before["study"]}) == len(several.plans) > 1
    (to := tmp_path / "other").mkdir()
    url, old, beside = DATABASES[kind](to), f"sqlite:///{tmp_path / 'study.db'}", tmp_path / "study.db"
    a = argparse.Namespace(plan="sleep.plan", role=None, out=str(tmp_path / "backup.db"), to=url)

    def run(verb, at=old):
        a.verb = verb
        return run_verb(a, several.plans, at, beside, partial(_audited, a))

    run("backup")
    assert run("move").count("states follow") == len(several.plans)
    assert rows(open_store(url, several.plans[0].slug, beside=beside)) == before
    for store in stores:
        with pytest.raises(StoreError, match="was moved"):
            store.mark("closed")
    (again := tmp_path / "again").mkdir()
    a.backup = a.out
    run("restore", DATABASES["sqlite"](again))
    assert rows(open_store(DATABASES["sqlite"](again), several.plans[0].slug)) == before
