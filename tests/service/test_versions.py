"""Databases of earlier releases: each is brought to this release's tables, with all that it has."""

import json
from pathlib import Path

import pytest
import sqlalchemy as sa

from privreg_field.collector import chain as chains
from privreg_field.service import access
from privreg_field.service.commands.collector import collector
from privreg_field.service.store import StoreError, open_store
from privreg_field.service.store import tables as t
from tests.service import postgres
from tests.service.test_store import added_up
from tests.service.world import ANALYST, DATABASES, KINDS, SERVER, Scheduler, World

SCHEMAS = Path(__file__).with_name("schemas")
OLD = [
    pytest.param(path, marks=pytest.mark.skipif(path.name[0] == "p" and bool(postgres.MISSING), reason="no PostgreSQL"))
    for path in sorted(SCHEMAS.glob("*.sql"))
]


def shape(store):
    """Columns, keys and indexes of all tables."""
    with store.keeping() as c:
        look = sa.inspect(c)
        out = {
            name: (
                sorted((x["name"], str(x["type"]), x["nullable"]) for x in look.get_columns(name)),
                look.get_pk_constraint(name)["constrained_columns"],
                [(x["constrained_columns"], x["referred_table"]) for x in look.get_foreign_keys(name)],
                sorted((x["name"], tuple(x["column_names"])) for x in look.get_indexes(name)),
            )
            for name in look.get_table_names()
        }
        if c.dialect.name == "sqlite":  # where the length of a text says nothing
            out = {
                name: ([(n, x.partition("(")[0], null) for n, x, null in one[0]], *one[1:]) for name, one in out.items()
            }
            sql = c.exec_driver_sql("SELECT name, sql FROM sqlite_master WHERE type = 'table'")
            out["without rowid"] = {name for name, text in sql if "WITHOUT ROWID" in text}
    return out


def rows(store):
    """All rows, by table, but for what tells the version."""
    with store.keeping() as c:
        there = [x for x in t.METADATA.sorted_tables if x is not t.meta]
        return {x.name: sorted(map(tuple, c.execute(sa.select(x))), key=repr) for x in there}


def aged(world, schema, to):
    """The world's study in tables of an earlier version, in another folder's database; its address."""
    kind = schema.name.partition("_")[0]
    given = {"study": {"analyst": access.first_of(ANALYST).digest}}  # where the first token was
    url = DATABASES[kind](to)
    if kind == "sqlite":
        (to / "study.db").touch()
        old = sa.create_engine(url)
    else:
        old = sa.create_engine(sa.make_url(url).set(drivername="postgresql+psycopg"))
    with old.begin() as c:
        if kind == "postgres":
            c.exec_driver_sql("CREATE SCHEMA privreg")
            c.exec_driver_sql("SET LOCAL search_path TO privreg")
        for line in schema.read_text().partition("\n")[2].split(";\n"):
            if line.strip():
                c.exec_driver_sql(line)
        there = {name: {x["name"] for x in sa.inspect(c).get_columns(name)} for name in sa.inspect(c).get_table_names()}
        with world.store.reading() as d:
            for table in (x for x in t.METADATA.sorted_tables if x.name in there.keys() - {"meta"}):
                for r in d.execute(sa.select(table)):
                    row = {
                        k: v for k, v in {**r._mapping, **given.get(table.name, {})}.items() if k in there[table.name]
                    }
                    names, marks = ", ".join(row), ", ".join(f":{k}" for k in row)
                    c.execute(sa.text(f"INSERT INTO {table.name} ({names}) VALUES ({marks})"), row)
    old.dispose()
    return url


@pytest.mark.some(1)
@pytest.mark.parametrize("schema", OLD, ids=lambda p: p.stem)
def test_a_database_of_an_earlier_version_is_brought_to_this_one_and_goes_on(tmp_path, schema, capsys):
    kind = schema.name.partition("_")[0]
    world = World(tmp_path, n=60, database=kind)
    world.answer(40)
    to = tmp_path / "old"
    to.mkdir()
    url, plan = aged(world, schema, to), tmp_path / "sleep.plan"
    plan.write_bytes(world.envelope)
    with pytest.raises(StoreError, match=r"has version 3\. Stop privreg serve, and run privreg collector migrate"):
        open_store(url, "sleep")
    assert collector(["check", str(plan), "--db", url]) == 2
    capsys.readouterr()
    assert collector(["migrate", str(plan), "--db", url, "--check"]) == 0
    assert "to bring it to 3" in capsys.readouterr().out
    with pytest.raises(StoreError, match=f"version {schema.name.split('_')[1][0]}"):  # nothing was changed
        open_store(url, "sleep")
    assert collector(["migrate", str(plan), "--db", url]) == 0
    assert collector(["migrate", str(plan), "--db", url]) == 0
    assert "nothing is to be done" in capsys.readouterr().out
    store = open_store(url, "sleep", beside=to / "study.db")
    assert rows(store) == rows(world.store)
    both = [store, world.store]
    for one in both:
        assert one.shares.people() == {}  # makes the tables of two collectors
    assert shape(store) == shape(world.store)
    assert Scheduler(store, None).replay() == len(world.scheduler.states)
    again = Scheduler(store, SERVER, world.clock, world.clock)
    some = [world.arrived(b) for b in world.bodies(20)]
    assert store.take(some, {}) == ["new"] * 20
    assert store.take(some, {}) == ["same"] * 20
    while again.advance():
        pass
    assert chains.plain(store.cells()) == added_up(store)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_tokens_that_were_in_a_file_are_taken_into_the_database(tmp_path, kind, capsys):
    world = World(tmp_path, n=10, database=kind)
    world.store.revoke(tokens=[access.first_of(ANALYST).digest[:16]])  # as the first token was taken back
    (to := tmp_path / "old").mkdir()
    url, plan = aged(world, SCHEMAS / f"{kind}_2.sql", to), to / "study.plan"
    plan.write_bytes(world.envelope)
    file = to / "study.db.access"
    file.write_text(json.dumps({"v": 1, "tokens": [
        {"name": "analyst", "may": ["results", "cells"], "sha256": access.first_of(ANALYST).digest.hex(), "until": 9.5},
        {"name": "ann", "may": ["operate"], "sha256": "ab" * 32, "until": None},
    ]}))  # fmt: skip
    held = file.read_bytes()
    file.write_bytes(held[:-9])
    assert collector(["migrate", str(plan), "--db", url]) == 2
    assert "restore it, or delete it and grant anew. Nothing was changed." in capsys.readouterr().err
    file.write_bytes(held)
    assert collector(["migrate", str(plan), "--db", url]) == 0
    assert "had version 2, and has 3. Tokens of analyst, ann, which were in" in capsys.readouterr().out
    assert not file.exists()
    file.write_bytes(held)  # as of another study of the database, which is migrated later
    assert collector(["migrate", str(plan), "--db", url, "--check"]) == 0
    assert "tokens of analyst, ann are still in" in capsys.readouterr().out
    assert collector(["migrate", str(plan), "--db", url]) == 0
    assert "is this release's. Tokens of analyst, ann, which were in" in capsys.readouterr().out
    store = open_store(url, "sleep")
    assert [one.name for one in access.granted(store, 8.0)] == ["ann", "analyst"]
    assert [one.name for one in access.granted(store, 10.0)] == ["ann"]
    assert access.roles_of(access.granted(store, 8.0), f"Bearer {ANALYST}") == {"results", "cells"}


def test_every_version_has_a_step_for_every_database():
    assert sorted(t.STEPS) == list(range(1, t.FORMAT))
    assert all(set(step) == {"sqlite", "postgresql"} for step in t.STEPS.values())


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_migration_that_fails_changes_nothing(tmp_path, kind, monkeypatch):
    world = World(tmp_path, n=20, database=kind)
    world.answer(10)
    schema = SCHEMAS / f"{kind}_1_analyses.sql"
    to = tmp_path / "old"
    to.mkdir()
    url = aged(world, schema, to)
    store = open_store(url, "sleep", beside=to / "study.db", old=True)
    before = shape(store)
    name = store.engine.dialect.name
    broken = {**t.STEPS, 2: {name: (*t.STEPS[2][name], "SELECT nothing FROM nowhere")}}
    with monkeypatch.context() as m:
        m.setattr(t, "STEPS", broken)
        with pytest.raises(sa.exc.DBAPIError):
            store.migrate()
    assert shape(store) == before
    assert store.migrate()[0] == 1
    assert rows(store) == rows(world.store)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", KINDS)
def test_a_later_version_is_neither_opened_nor_migrated(tmp_path, kind):
    world = World(tmp_path, n=10, database=kind)
    with world.store.engine.begin() as c:
        c.execute(t.meta.update().values(value="4"))
    for work in (lambda: open_store(world.url, "sleep"), lambda: open_store(world.url, "sleep", old=True).migrate()):
        with pytest.raises(StoreError, match=r"version 4, of a later release.*pip install"):
            work()
