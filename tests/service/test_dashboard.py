"""The dashboard's page, its counts, its feed: what is shown is a function of reports, made once for all who look."""

import asyncio
import hashlib
import json
import re
import subprocess
from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

import privreg as pr
from privreg_field.service.http.app import Options, make
from privreg_field.service.pages import dashboard as feeds
from privreg_field.service.pages.dashboard import BINS, OUTCOMES, WIDTHS, Feed, Minutes
from privreg_field.study.reading import picture
from tests.service.node import node
from tests.service.pair import Pair
from tests.service.world import ANALYST, World, people

PAGE = "/studies/sleep/dashboard"
KNOWN = {"Authorization": f"Bearer {ANALYST}"}
NAMES = (
    "curves.js",
    "page.css",
    "page.js",
    "stream.js",
    "uPlot.LICENSE",
    "uPlot.esm.js",
    "uPlot.min.css",
    "view.css",
    "view.js",
)
UPLOT = {  # of uPlot 1.6.32, as its maker published it
    "LICENSE": "8f989229699b4fe2f1a0432d0e9edc338a8a911e250e2d1b01ecd770a5f5b1bd",
    "uPlot.esm.js": "5dd9b3281aa64b461b42d9945f6adb2649d346502b12281a9ae0d46599a80eba",
    "uPlot.min.css": "df630c6a8d6f8eeaff264b50f73ce5b114f646ffd9a0bb74f049b0a00135fa04",
}


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=600, rows=600)


@pytest.fixture
def client(world):
    with TestClient(make(world.scheduler, Options(rate=0.0))) as one:
        yield one


# --- the page ------------------------------------------------------------------------------------------------


def test_the_page_allows_its_own_files_and_nothing_else(client):
    for path in (PAGE, *(f"{PAGE}/{name}" for name in NAMES)):
        answer = client.get(path)
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert answer.status_code == 200
        assert policy == {
            "default-src": "'none'", "script-src": "'self'", "style-src": "'self'", "connect-src": "'self'",
            "img-src": "'self' data:", "base-uri": "'none'", "form-action": "'none'", "frame-ancestors": "'none'",
        }  # fmt: skip
        assert answer.headers["x-content-type-options"] == "nosniff"
        again = client.get(path, headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_the_page_has_no_script_or_style_of_its_own_and_asks_nobody_else(client):
    page = client.get(PAGE).text
    assert re.findall(r"<script(?![^>]* src=)|<style|\sstyle=|\son\w+=", page) == []
    for text in (page, *(client.get(f"{PAGE}/{n}").text for n in NAMES if "uPlot" not in n)):
        assert set(re.findall(r"https?://[^\s\"')]+", text)) <= {"http://www.w3.org/2000/svg"}
    asked = set(re.findall(r"(?:src|href)=\"dashboard/([^\"]+)\"", page))
    assert asked <= set(NAMES)
    for name in ("", "index.html", "nothing.js", "..%2fpage.js", "notebook.js"):
        assert client.get(f"{PAGE}/{name}", follow_redirects=False).status_code in {307, 404}
    assert client.get("/studies/wake/dashboard").status_code == 404


def test_the_page_holds_nothing_of_the_study(client, world):
    world.answer(100)
    page = client.get(PAGE).text
    for secret in (world.plan.title, ANALYST, "100"):
        assert secret not in page.replace("100%", "")


def test_the_curves_library_is_unmodified():
    folder = files("privreg_field.service").joinpath("web", "dashboard", "uplot")
    assert {f.name: hashlib.sha256(f.read_bytes()).hexdigest() for f in folder.iterdir()} == UPLOT


@pytest.mark.thorough
def test_the_page_has_words_for_every_phase_of_a_study(tmp_path):
    for name in ("view.js", "curves.js"):
        text = files("privreg_field.service").joinpath("web", "dashboard", name).read_text()
        (tmp_path / name.replace("js", "mjs")).write_text(text.replace("curves.js", "curves.mjs"))
    told = {"opens": 0, "closes": 10**9, "grace": 86400, "rounds": [{"role": "main", "ends": None}]}
    given_ = json.dumps([{**told, "status": status} for status in picture.PHASES])
    script = f'import {{ phase }} from "./view.mjs"; console.log(JSON.stringify({given_}.map(phase)));'
    (tmp_path / "main.mjs").write_text(script)
    how = {"cwd": tmp_path, "capture_output": True, "text": True, "check": True, "env": {"TZ": "UTC"}}
    said = dict(zip(picture.PHASES, json.loads(subprocess.run([node(), "main.mjs"], **how).stdout), strict=True))
    assert {name: (one["study"], one["state"], one["collector"], one["rest"]) for name, one in said.items()} == {
        "before": ("not open yet", "asks nobody yet", "ready", "Not yet"),
        "open": ("open", "main, stays open", "goes on", "Not yet"),
        "closing": ("closed; reports on their way count", "asks nobody", "goes on", "Not yet"),
        "closed": ("closed", "asks nobody", "finished", "No estimates"),
    }
    days = ("1 Jan 1970", "9 Sept 2001", "10 Sept 2001", "")
    for day, until in zip(days, (one["until"] for one in said.values()), strict=True):
        assert day in until.replace("Sep ", "Sept ")


# --- counts --------------------------------------------------------------------------------------------------


def phases(scheduler, clock, on):
    """Phase before a study opens, and at times around its end."""
    plan = scheduler.plan
    for now in (plan.opens - 1, plan.opens, plan.closes, plan.closes + 1, plan.closes + plan.grace + 1):
        clock.now = now
        on()
        yield Feed(scheduler).progress()["status"]


def test_every_phase_of_a_study_is_told(world, tmp_path):
    def on():
        while world.scheduler.advance():
            pass

    assert list(phases(world.scheduler, world.clock, on)) == ["before", "open", "open", "closing", "closed"]
    (tmp_path / "early").mkdir()
    early = World(tmp_path / "early", n=10)
    early.scheduler.close()
    told = Feed(early.scheduler).progress()
    assert (told["status"], told["open"]) == ("closing", False)
    assert [one["open"] for one in told["rounds"]] == [False]


def test_every_phase_of_a_study_with_two_collectors_is_told(tmp_path):
    pair = Pair(tmp_path, n=5)
    pair.turn()
    for person in pair.people:
        person.make(0)
    for place, scheduler in enumerate(pair.schedulers):
        pair.send(place, pair.people)
        assert [*phases(scheduler, pair.clock, lambda: None)][:4] == ["before", "open", "open", "closing"]
    pair.clock.now = pair.plan.opens
    pair.schedulers[0].store.mark("closed")  # by hand: until b has heard so, it asks
    assert [Feed(c).progress()["status"] for c in pair.schedulers] == ["closing", "open"]
    for _ in range(4):
        pair.clock.now += 40
        pair.turn()
    assert [Feed(c).progress()["status"] for c in pair.schedulers] == ["closed", "closed"]
    assert not any(side.lags for c in pair.schedulers for side in c.known().collectors)
    for place in (0, 1):
        pair.leave(place)


@pytest.mark.thorough
def test_counts_are_for_analysts(client):
    for path in ("progress", "events"):
        for given_ in ({}, {"Authorization": "Bearer no"}):
            assert client.get(f"/v1/studies/sleep/{path}", headers=given_).status_code == 401
        assert client.get(f"/v1/studies/sleep/{path}?token={ANALYST}").status_code == 401


@pytest.mark.thorough
def test_counts_tell_what_came_and_what_became_of_it(client, world):
    (one, *more) = world.bodies(5)
    post = {"url": "/v1/studies/sleep/reports", "headers": {"content-type": "application/json"}}
    for body in (one, *more, one, b"{}", json.dumps({**json.loads(one), "x_a": 1}).encode()):
        client.post(content=body, **post)
    for _ in range(3):
        client.get("/v1/studies/sleep/state")
    service = client.app.state.service
    service.writer.stop()  # counts beside reports wait for it
    said = client.get("/v1/studies/sleep/progress", headers=KNOWN).json()
    assert said["totals"] == {"new": 5, "same": 1, "other": 1, "refused": 1}
    for bins in (said["recent"], said["whole"]):
        assert {name: sum(bins[name]) for name in OUTCOMES} == said["totals"]
    (round_,) = said["rounds"]
    assert (round_["state"], round_["role"], round_["reports"], round_["fetched"]) == (0, "moments", 5, 3)
    assert (said["people"], said["issued"], said["planned"], said["late"], said["status"]) == (5, 600, 600, 0, "open")
    assert len(said["ahead"]) == len(world.scheduler.chain.plan.rounds) - 1


@pytest.mark.thorough
def test_rounds_are_planned_open_and_closed(world):
    late = world.bodies(10)
    world.answer(350)
    world.store.take([world.arrived(b) for b in late], {})
    said = Feed(world.scheduler).progress()
    *before, present = said["rounds"]
    assert not any(r["open"] for r in before)
    assert all(r["ends"] is None for r in before)
    assert present["open"]
    assert present["ends"] > 0
    assert said["late"] == 10
    assert sum(r["reports"] for r in said["rounds"]) == said["people"] == 360
    world.clock.now = world.plan.closes + 1
    world.scheduler.advance()
    assert Feed(world.scheduler).progress()["status"] == "closing"
    world.clock.now += world.plan.grace
    assert Feed(world.scheduler).progress()["status"] == "closed"


@pytest.mark.thorough
@given(
    st.lists(st.tuples(st.integers(1, 400), st.sampled_from(["new", "same", "422", "fetched.3"]), st.integers(1, 9)),
             max_size=60),
    st.integers(1, 7),
)  # fmt: skip
def test_minutes_add_up_however_often_they_are_read(steps, size):
    kept, minutes, now, first = {}, Minutes(), 28_000_000, None
    for at in range(0, len(steps), size):
        for gap, name, count in steps[at : at + size]:
            now += gap
            first = now if first is None else first
            kept[now, name] = kept.get((now, name), 0) + count
        minutes.add(sorted((m, n, c) for (m, n), c in kept.items() if m >= minutes.since))
    totals = minutes.all()
    for name in ("new", "same", "422", "fetched.3"):
        assert totals[name] == sum(c for (_, n), c in kept.items() if n == name)
    if first is not None:
        bins = minutes.whole()
        assert bins["width"] in WIDTHS
        assert len(bins["new"]) <= BINS
        assert sum(bins["new"]) == totals["new"]
        assert sum(bins["refused"]) == totals["422"]
        assert bins["first"] <= first < bins["first"] + bins["width"]


@pytest.mark.thorough
def test_a_long_study_takes_no_more_room():
    minutes = Minutes()
    minutes.add((k, "new", 1) for k in range(1000, 1000 + 40_000))
    bins = minutes.whole()
    assert (bins["width"], sum(bins["new"])) == (360, 40_000)
    assert all(len(kept) <= BINS for kept in minutes._bins.values())
    assert sum(minutes.binned(1, 180)["new"]) == 180


# --- the feed ------------------------------------------------------------------------------------------------


async def rest(listener):
    return [text async for text in listener]


def read(text):
    kind, data = re.fullmatch(r"event: (\w+)\ndata: (.*)\n\n", text).groups()
    return kind, json.loads(data)


def test_all_who_listen_share_one_computation_for_each_change(world, monkeypatch):
    monkeypatch.setattr(feeds, "SECONDS", 0.02)
    world.answer(100)
    feed = Feed(world.scheduler)

    async def heard(listener, until):
        last = {}
        while last.get("progress", {}).get("people") != until or "results" not in last:
            kind, said = read(await asyncio.wait_for(anext(listener), 10))
            last[kind] = said
        return last

    async def run():
        several = [feed.listen() for _ in range(5)]
        first = await asyncio.gather(*(heard(one, 100) for one in several))
        assert feed.made == 1
        await asyncio.sleep(0.2)  # nothing comes: nothing is computed
        assert feed.made == 1
        await asyncio.to_thread(world.answer, 350)
        last = await asyncio.gather(*(heard(one, 450) for one in several))
        feed.stop()
        for one in several:  # they end
            await asyncio.wait_for(rest(one), 10)
        return first, last

    first, last = asyncio.run(run())
    assert all(one == first[0] for one in first)
    assert not first[0]["results"]["ready"]
    assert 2 <= feed.made <= 30
    assert all(one["progress"] == last[0]["progress"] for one in last)


def test_the_feed_rests_when_nobody_listens_and_begins_again(world, monkeypatch):
    monkeypatch.setattr(feeds, "SECONDS", 0.01)
    feed = Feed(world.scheduler)

    async def run():
        for expected in (0, 60):
            listener = feed.listen()
            while True:
                kind, said = read(await asyncio.wait_for(anext(listener), 10))
                if kind == "progress" and said["people"] == expected:
                    break
            await listener.aclose()
            while feed._task is not None:
                await asyncio.sleep(0.01)
            await asyncio.to_thread(world.answer, 60 - expected)

    asyncio.run(run())


def test_a_database_that_is_gone_is_asked_again_and_a_fault_is_no_silence(world, monkeypatch):
    monkeypatch.setattr(feeds, "SECONDS", 0.01)
    feed, faults = Feed(world.scheduler), [OperationalError("", {}, Exception()), OperationalError("", {}, Exception())]
    look = feed._look

    def failing():
        if faults:
            raise faults.pop()
        return look()

    monkeypatch.setattr(feed, "_look", failing)

    async def run():
        listener = feed.listen()
        assert read(await asyncio.wait_for(anext(listener), 10))[0] == "progress"
        faults.append(RuntimeError("a fault"))
        with pytest.raises(RuntimeError, match="a fault"):
            await asyncio.wait_for(rest(listener), 10)

    asyncio.run(run())


# --- estimates -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_results_with_doubts_are_told(client, world):
    world.answer(600)
    told = client.get("/v1/studies/sleep/results", headers=KNOWN).json()
    res = world.scheduler.results()
    assert told["ready"]
    assert any(note.startswith("don't rely") for note in told["notes"])
    low, high = res.conf_int().to_numpy().T
    assert [c["low"] for c in told["coefficients"]] == pytest.approx(low.tolist(), rel=1e-12)
    assert [c["high"] for c in told["coefficients"]] == pytest.approx(high.tolist(), rel=1e-12)
    assert [c["always_low"] for c in told["coefficients"]] == [None, None]
    assert told["first"] == 30_000


@pytest.fixture(scope="module")
def watched():
    model = pr.PrivateOnlineRegression.from_formula(
        "hours ~ age", people(60_000), mu=2, bounds={"age": (18, 90), "hours": (0, 24)}
    )
    return {name: model.fit(inference=name, seed=3) for name in ("anytime", "sandwich")}


@pytest.mark.thorough
def test_the_band_is_that_of_anytime_and_intervals_those_of_the_sandwich(watched):
    told = [picture.estimates(watched[name]) for name in ("sandwich", "anytime")]
    assert told[0]["coefficients"] == told[1]["coefficients"]
    assert told[0]["path"] == told[1]["path"]
    for prefix, name in (("always_", "anytime"), ("", "sandwich")):
        table, way = watched[name].tidy(), watched[name].trajectory()
        for j, one in enumerate(told[0]["coefficients"]):
            assert one[f"{prefix}low"] == pytest.approx(table["conf_low"][j], rel=1e-12)
            assert one[f"{prefix}high"] == pytest.approx(table["conf_high"][j], rel=1e-12)
            mine = way[way["term"] == one["term"]]
            shown = told[0]["path"]["coefficients"][j]
            for end in ("low", "high"):
                expected = [None if np.isnan(v) else pytest.approx(v, rel=1e-12) for v in mine[end]]
                assert shown[f"{prefix}{end}"] == expected
    ahead = told[0]["ahead"]
    assert ahead["times"][0] == 1.0
    one = told[0]["coefficients"][0]
    assert ahead["always"][0] * one["std_error"] == pytest.approx(one["always_high"] - one["estimate"], rel=1e-12)


def test_a_method_without_a_way_shows_its_interval_and_no_band():
    model = pr.PrivateOnlineRegression.from_formula(
        "hours ~ age", people(3000), mu=2, bounds={"age": (18, 90), "hours": (0, 24)}
    )
    res = model.fit(inference="between_lanes", seed=3)
    told, table = picture.estimates(res), res.tidy()
    assert told["method"] == "between groups"
    assert [c["low"] for c in told["coefficients"]] == table["conf_low"].tolist()
    assert told["ahead"] is None
    assert all(c["always_low"] is None for c in told["coefficients"])
