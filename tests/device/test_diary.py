"""Several rows of a person on a device: one report of them all, as in simulations, and a diary until it is made."""

from __future__ import annotations

import fcntl
import json
import math
import re
import signal
import stat
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import pairwise
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pandas as pd
import pytest

from privreg.collector.aggregate import report
from privreg.data.participants import Counter
from privreg.errors import PrivregError
from privreg.fits import aggregate
from privreg.fits.plan import plan_of
from privreg.protocol import lattice
from privreg.simulation import aggregate as summing
from privreg.simulation.devices import Devices
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Block, Encoder, Gatherer
from privreg_field.collector import messages as field
from privreg_field.collector.batches import present_ask
from privreg_field.device.diary import Diary, DiaryError
from privreg_field.device.exchange import RefusedError
from privreg_field.device.memory import Memory
from privreg_field.device.report import answer, sums
from privreg_field.study.declaring.declared import read_study
from privreg_field.study.declaring.plan import study_plans
from privreg_field.wire import study, wire
from tests.device.test_session import Server, answered, refused
from tests.device.test_sums import in_its_set
from tests.studies import COLLECTORS, DAY, NOON, ROOT, field_state, public, signed

STUDY: dict[str, Any] = {
    "study": "sleep", "title": "A diary", "purpose": "How mood goes with sleep.", "contact": "study@example.org",
    "opens": "2027-01-01", "closes": "2027-03-01", "diary_days": 14, "formula": "y ~ x + z | person", "mu": 2,
    "rows": 40_000, "k_max": 4, "bounds": {"x": [-3, 3], "y": [-4, 6], "w": [0, 2], "o": [0, 1]},
    "levels": {"z": [0, 1]},
    "questions": {name: f"{name}?" for name in "xyzwo"},
}  # fmt: skip
ANALYSIS = {"formula": "y ~ x | person", "k_max": 3}
KINDS = {
    "pooled": {"formula": "y ~ x + z"},
    "people alike": {"formula": "y ~ x + z", "per_person": "mean"},
    "within": {},
    "within, an offset and weights": {"weights": "w", "offset": "o", "per_person": "mean"},
    "differences": {"formula": "y ~ x + z | diff(person)", "family": "squared"},
    "changes": {"formula": "z ~ x | person", "family": "logistic", "k_max": 2},
    "weights alone": {"formula": "y ~ x + z", "k_max": None, "weights": "w", "diary_days": None},
}


def declared(trust: str = "local", **more: Any) -> Any:
    """The fit's plan, and the devices'."""
    said = {k: v for k, v in {**STUDY, **more, "trust": trust}.items() if v is not None}
    if trust == "two_collectors":
        said["collectors"] = [wire.plain(one) for one in COLLECTORS]
    return _planned(json.dumps(said))


@cache
def _planned(said: str) -> Any:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "study.json"
        path.write_text(said)
        (one,) = read_study(path)
    keys = [c.key for c in one.about.collectors] or [public(ROOT)]
    return one.fit, study_plans([(one.about, one.fit, one.part)], keys)[0]


def people(rng: np.random.Generator, count: int, most: int) -> pd.DataFrame:
    """Rows of people, one after the other, some of which can't be used."""
    who = np.repeat(np.arange(count), rng.integers(1, most + 3, count))
    n = len(who)
    out = pd.DataFrame(
        {
            "(person)": who, "person": who, "x": rng.normal(0.0, 2.0, n), "z": rng.integers(0, 2, n).astype(float),
            "w": rng.uniform(0.1, 2.2, n), "o": rng.uniform(0.0, 1.0, n),
        }
    )  # fmt: skip
    out["y"] = out["x"] + out["z"] + rng.normal(0.0, 1.5, n)
    out.loc[rng.random(n) < 0.1, "x"] = np.nan
    return out


def gathered(fit: Any, order: Any, data: pd.DataFrame) -> Any:
    """People as simulations have them, in order."""
    spec = fit.spec
    counter = None if spec.people.id is None else Counter(spec.people.id, 10**6)
    data = data.assign(z=data["z"].astype(int))
    rows = Encoder(spec, order, counter, by_column=False).encode(data, clamped=True)
    return Gatherer(spec.people, binary=spec.family.binary).made(rows)


def answers(data: pd.DataFrame) -> list[list[dict[str, Any]]]:
    """The same as devices have them."""
    rows = data.drop(columns=["(person)", "person"]).to_dict("records")
    each: list[list[dict[str, Any]]] = []
    for who, row in zip(data["person"], rows, strict=True):
        while len(each) <= who:
            each.append([])
        each[who].append({**row, "z": int(row["z"])})
    return each


@pytest.mark.some(1)
@pytest.mark.parametrize("role", ["moments", "pilot", "clamping", "main"])
@pytest.mark.parametrize("kind", KINDS)
def test_reports_are_those_of_simulations(kind: str, role: str) -> None:
    fit, plan = declared(**KINDS[kind])
    engine, order = plan_of(fit.spec, fit.settings, None)
    rng = np.random.default_rng(3)
    data = people(rng, 60, plan.diary.rows)
    if plan.diary.rows == 1:
        data = data.assign(person=np.arange(len(data)))
    rows = gathered(fit, order, data)
    run = RoundsRun(engine, None)
    size = engine.direction if role == "moments" else engine.d
    groups = plan.roles[role].groups
    offsets = rng.choice([-0.1, 0.1], (groups, engine.d))
    state = run.progress.state._replace(
        role=role, rows=np.tril(rng.normal(0.0, 0.3, (size, size))) + np.eye(size), kappa=engine.kappa(role),
        theta=rng.normal(0.0, 0.3, engine.d), c=0.4,
        offsets=offsets if role == "main" else np.zeros((1, engine.d)),
    )  # fmt: skip
    asked = field.ask_of(engine, state)
    usable = np.isfinite(rows.y) & np.isfinite(rows.x).all(axis=2)
    parts = report.parts_of(engine.persons, usable, rows.weight)
    there = Devices(engine, state._replace(offsets=state.offsets[:1]), None)
    theirs, _ = there.before_noise(Block(rows.y, rows.x, rows.offset, clamped=rows.clamped, parts=parts))
    form = plan.roles[role]
    ours = np.array(
        [answer.values(form, answer.of_person(plan, asked, 0, answer.rows_of(plan, one))) for one in answers(data)]
    )
    unit = np.ones(form.numbers)
    if state.kappa > 0.0:  # the number in joint reports
        unit[-1] = 1.0 / state.kappa
    assert np.abs(ours - np.trunc(form.radius * theirs * unit)).max() <= 1.0
    assert len(np.unique(ours, axis=0)) > (2 if role == "clamping" else 10)


@pytest.mark.some(1)
@pytest.mark.parametrize("role", ["clamping", "location", "moments", "approach", "main"])
@pytest.mark.parametrize("kind", KINDS)
def test_shares_are_those_of_simulations(kind: str, role: str) -> None:
    fit, plan = declared("two_collectors", **KINDS[kind])
    if role not in plan.roles:
        pytest.skip("nothing to ask of this kind")
    engine, order = aggregate.plan_of(fit.spec, fit.rows)
    rng = np.random.default_rng(4)
    data = people(rng, 60, plan.diary.rows)
    if plan.diary.rows == 1:
        data = data.assign(person=np.arange(len(data)))
    rows = gathered(fit, order, data)
    run = summing.AggregateRun(engine, None)
    d = engine.d
    state = run.progress.state._replace(
        role=role,
        rows=np.eye(d) + rng.normal(0.0, 0.2, (d, d)),
        theta=rng.normal(0.0, 0.2, d),
        scale=0.3,
        window=0.7,
        ball=4.0,
    )
    asked = present_ask(run.chain._replace(history=(run.progress._replace(state=state),)))
    theirs = report.vectors(engine, state, rows.y, rows.x, rows.offset, rows.clamped, rows.weight)
    form = plan.roles[role]
    ours = np.array([sums.whole(form, sums.of_person(plan, asked, answer.rows_of(plan, one))) for one in answers(data)])
    assert np.abs(ours - theirs * lattice.unit_of_sums(form.form, form.numbers, form.radius)).max() <= 1.0
    assert len(np.unique(ours, axis=0)) > (2 if role == "clamping" else 10)


# --- the guarantee -----------------------------------------------------------------------------------------------


def adverse(rng: np.random.Generator, most: int) -> list[dict[str, Any]]:
    """Rows as far out, as alike and as odd as there are."""
    ends: list[Any] = [-3, 3, 0, 1e300, -1e300, 1, None, "x", math.nan, 1e-9]
    out = [{name: ends[k] for name, k in zip("xyzwo", rng.integers(0, len(ends), 5), strict=True)} for _ in range(most)]
    return [out[0]] * most if rng.random() < 0.3 else out


@pytest.mark.parametrize("kind", KINDS)
def test_two_persons_of_adversarial_rows_are_no_farther_apart_than_the_radius_says(kind: str) -> None:
    """Of scores 2 R, whatever the rows and however many: sensitivity 2 in units of the bound. Extremes reach it."""
    fit, plan = declared(**KINDS[kind])
    engine, _ = plan_of(fit.spec, fit.settings, None)
    rng = np.random.default_rng(6)
    run = RoundsRun(engine, None)
    far = 0.0
    for role in ("moments", "pilot", "main"):
        form = plan.roles[role]
        size = engine.direction if role == "moments" else engine.d
        state = run.progress.state._replace(
            role=role, rows=np.eye(size), theta=np.zeros(engine.d), kappa=engine.kappa(role), c=1e-3
        )
        asked = field.ask_of(engine, state)._replace(offsets=(), signs=(), step=0.0)
        made = [
            np.array(answer.values(form, answer.of_person(plan, asked, 0, answer.rows_of(plan, adverse(rng, 9)))))
            for _ in range(60)
        ]
        least = np.array(made) @ np.array(made).T
        norms = np.diag(least)
        apart = np.sqrt(np.maximum(norms[:, None] + norms[None] - 2 * least, 0))
        limit = {lattice.BALL: 2.0, lattice.JOINT: math.sqrt(5.0), lattice.MOMENTS: math.sqrt(2.0)}[form.form]
        assert apart.max() <= limit * form.radius + 2.0 * math.sqrt(form.numbers) + 2.0
        far = max(far, apart.max() / form.radius)
    assert far > 0.3  # there is something to bound


@pytest.mark.parametrize("kind", KINDS)
def test_shares_of_adversarial_rows_are_in_their_roles_sets(kind: str) -> None:
    fit, plan = declared("two_collectors", **KINDS[kind])
    engine, _ = aggregate.plan_of(fit.spec, fit.rows)
    run, rng = summing.AggregateRun(engine, None), np.random.default_rng(7)
    for role, form in plan.roles.items():
        state = run.progress.state._replace(role=role, rows=np.eye(engine.d), theta=np.zeros(engine.d), scale=1e-3)
        asked = present_ask(run.chain._replace(history=(run.progress._replace(state=state),)))
        for _ in range(30):
            rows = answer.rows_of(plan, adverse(rng, 9))
            assert sum(row.part for row in rows) <= 1.0 + 1e-12
            assert in_its_set(form, sums.whole(form, sums.of_person(plan, asked, rows)))


# --- over days ---------------------------------------------------------------------------------------------------

GOOD = {"x": 1.0, "y": 2, "z": 1}


@pytest.fixture
def server() -> Server:
    """A study whose reports are made from the first day on of the test's clock, less a day."""
    _, plan = declared()
    diary = plan.diary._replace(until=NOON - DAY)
    one = Server.__new__(Server)
    one.plan = plan._replace(opens=NOON - 20 * DAY, closes=NOON + 9 * DAY, diary=diary, keys=Server().plan.keys)
    fit, _ = declared()
    engine, _ = plan_of(fit.spec, fit.settings, None)
    one.payload = study.plan_payload(one.plan)
    one.hash = wire.hash_of(one.payload)
    one.plan_bytes = signed("plan", one.payload, ROOT)
    one.publish(field_state(one.hash, field.ask_of(engine, RoundsRun(engine, None).progress.state)))
    one.posted, one.asked, one.slept, one.fails = [], [], [], []
    one.time = float(NOON)
    return one


def test_rows_are_kept_until_the_day_of_reports_and_make_one(tmp_path: Any, server: Server) -> None:
    memory, diary = Memory(tmp_path / "device" / "memory.sqlite"), Diary(tmp_path / "diary.json")
    server.time -= 10 * 86_400
    refused("begin the diary", server, memory, GOOD, diary=diary)
    assert server.asked == []  # when there are rows is seen by nobody
    assert "0 of 4 rows" in answered(server, memory, [], diary=diary).words
    assert server.asked == ["plan"]
    for k in range(3):
        out = answered(server, memory, {**GOOD, "y": k}, diary=diary)
        assert (out.sent, server.posted, server.asked) == (False, [], ["plan"])
        assert f"The diary has {k + 1} of 4 rows" in out.words
        assert stat.S_IMODE(diary.path.stat().st_mode) == 0o600
    refused("'z' must be one of '0', '1'", server, memory, {**GOOD, "z": 7}, diary=diary)
    refused("4 rows at most", server, memory, [GOOD, GOOD], diary=diary)
    assert [row["y"] for row in diary.rows("sleep", public(ROOT))] == [0, 1, 2]
    assert sorted(p.name for p in tmp_path.iterdir() if "diary" in p.name) == ["diary.json"]
    refused("from 2027", server, memory, GOOD)
    assert "Here there are 4." in " ".join(answered(server, memory, GOOD, diary=diary, dry_run=True).words.split())
    server.time += 10 * 86_400
    refused("no rows are added any more", server, memory, GOOD, diary=diary)
    refused("there is no diary in", server, memory, [], diary=Diary(tmp_path / "dairy.json"))
    assert (server.asked, len(diary.rows("sleep", public(ROOT)))) == (["plan"] * 3, 3)
    assert "Here there are 3." in " ".join(answered(server, memory, [], diary=diary, dry_run=True).words.split())
    out = answered(server, memory, [], diary=diary)
    assert (out.sent, len(server.posted)) == (True, 1)
    with pytest.raises(RefusedError, match="answers once"):
        answered(server, memory, [], diary=diary)
    assert len(server.posted) == 1


def test_when_a_report_is_made_and_how_large_it_is_say_nothing_of_how_many_rows_there_are(
    tmp_path: Any, server: Server
) -> None:
    """Nobody has a report before the day, nor with no row none: requests are the same from none to K rows."""
    seen = []
    for k in range(5):
        memory, diary = Memory(tmp_path / f"m{k}"), Diary(tmp_path / f"{k}.json")
        server.time -= 10 * 86_400
        before = len(server.asked)
        answered(server, memory, [], diary=diary)
        if k:
            answered(server, memory, [GOOD] * k, diary=diary)
        assert not server.posted
        server.time += 10 * 86_400
        assert answered(server, memory, [], diary=diary).sent
        seen.append((server.asked[before:], set(json.loads(server.posted[-1]))))
        server.posted.clear()
    assert all(a == b for a, b in pairwise(seen))


def test_a_diary_is_of_one_study_and_is_never_half_written(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    diary = Diary(tmp_path / "diary.json")
    assert diary.rows("a", b"k") == []
    assert diary.plan("a", b"k") is None
    assert diary.add([GOOD], "a", b"k", 4, b"{}") == 1
    assert diary.plan("a", b"k") == b"{}"
    for study_, key in (("b", b"k"), ("a", b"l")):
        with pytest.raises(DiaryError, match="another study"):
            diary.rows(study_, key)
    before = diary.path.read_bytes()
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(DiaryError, match="can't be written"):
        diary.add([GOOD], "a", b"k", 4, b"{}")
    assert diary.path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["diary.json"]
    with pytest.raises(DiaryError, match="can't be written: TypeError"):
        diary.add([{"x": object()}], "a", b"k", 4, b"{}")
    diary.path.write_text("31 years")
    with pytest.raises(DiaryError, match="no diary that can be read") as e:
        diary.rows("a", b"k")
    assert "31" not in str(e.value).replace(str(tmp_path), "")


def test_calls_at_the_same_time_lose_no_row(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path, starts = tmp_path / "diary.json", Barrier(8)

    def add(k: int) -> None:
        starts.wait()
        for j in range(5):
            Diary(path).add([{"x": 5 * k + j}], "a", b"k", 40, b"{}")

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(add, range(8)))
    assert sorted(row["x"] for row in Diary(path).rows("a", b"k")) == list(range(40))
    with pytest.raises(DiaryError, match="40 rows at most"):
        Diary(path).add([{}], "a", b"k", 40, b"{}")
    with pytest.raises(DiaryError, match="4,194,304 characters at most"):
        Diary(path).add([{"x": "x" * (1 << 22)}], "a", b"k", 41, b"{}")
    assert [p.name for p in tmp_path.iterdir()] == ["diary.json"]
    other = tmp_path / "diary.json.new"
    monkeypatch.setattr("privreg_field.device.diary.PATIENCE", 0.0)
    with other.open("w") as file:  # of a call that is at it
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(DiaryError, match=f"If none is, as one was stopped, delete {re.escape(str(other))}"):
            Diary(path).add([{}], "a", b"k", 41, b"{}")
        assert len(Diary(path).rows("a", b"k")) == 40
        assert other.exists()


KILLED = """
import os, signal, sys
from privreg_field.device.diary import Diary
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Diary(sys.argv[1]).add([{"x": "secret"}], "a", b"k", 40, b"{}")
"""


@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("then", ["rows", "plan", "add"])
def test_answers_of_a_call_that_was_killed_are_gone_after_the_next(begun: bool, then: str, tmp_path: Any) -> None:
    diary, left = Diary(tmp_path / "diary.json"), tmp_path / "diary.json.new"
    if begun:
        diary.add([{"x": 1}], "a", b"k", 40, b"{}")
    assert subprocess.run([sys.executable, "-c", KILLED, str(diary.path)]).returncode == -signal.SIGKILL
    assert "secret" in left.read_text()
    getattr(diary, then)(*([[{"x": 2}], "a", b"k", 40, b"{}"] if then == "add" else ["a", b"k"]))
    assert not left.exists()
    assert [row["x"] for row in diary.rows("a", b"k")] == [1] * begun + [2] * (then == "add")


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"missing": "refuse"}, "missing: refuse doesn't go with"),
        ({"k_max": None, "formula": "y ~ x"}, "diary_days is of a study of several rows"),
        ({"diary_days": 90}, "diary_days ends after the study closes"),
        ({"k_max": 2000}, "1 to 1,000"),
        ({"measures": 0.1}, "measures"),
        ({"formula": "z ~ x | person", "family": "logistic"}, "conditional logit of two rows"),
        ({"formula": None, "k_max": None, "diary_days": None, "analyses": {"a": ANALYSIS}}, "k_max"),
    ],
)  # fmt: skip
def test_what_devices_cannot_do_is_refused_when_a_study_is_signed(more: Any, said: str) -> None:
    with pytest.raises(PrivregError, match=said):
        declared(**more)


@pytest.mark.parametrize(
    "change",
    [
        {"rows": 0}, {"rows": 1001}, {"rows": 1}, {"effect": "twoway"}, {"weight": "z"}, {"weight": "v"},
        {"until": 0}, {"until": 1 << 40}, {"more": 1}, {"mean": 1}, {"weight": ["w"]},
    ],
)  # fmt: skip
def test_plans_of_diaries_that_no_report_is_made_of_are_refused(change: Any) -> None:
    _, plan = declared()
    said = json.loads(study.plan_payload(plan))
    study.read_plan(json.dumps(said).encode())
    said["diary"] |= change
    with pytest.raises(wire.MessageError):
        study.read_plan(json.dumps(said).encode())
