"""A study followed in a notebook: what the widget is told, when it ends, what it says while the server is gone."""

import json
import sys
import time

import pytest
from starlette.testclient import TestClient

import privreg as pr
from privreg.errors import InferenceError, MissingExtraError, OptionError, StudyError
from privreg_field.service.http.app import Options, make
from privreg_field.service.pages.dashboard import Feed
from privreg_field.study import servers
from privreg_field.study.reading import picture as live
from privreg_field.study.reading.picture import picture
from privreg_field.wire import wire
from tests.field.two import KEY, URLS, Two
from tests.service.world import ANALYST, ROOT, World, public

pytest.importorskip("anywidget", reason="anywidget is not installed: pip install './packages/field[live]'")
URL = f"http://127.0.0.1/v1/studies/sleep#k={wire.base(public(ROOT))}"


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=1200, rows=1200)


@pytest.fixture
def study(world, monkeypatch):
    """The study over the application itself; `down` in its base makes the server unreachable."""
    with TestClient(make(world.scheduler, Options(rate=0.0))) as client:

        def fetched(base, path, token=None):
            if world.__dict__.get("down"):
                raise StudyError("the study's server can't be reached; is it running, and the address right?")
            answer = client.get(f"/v1/studies/sleep/{path}", headers={"Authorization": f"Bearer {token}"})
            assert answer.status_code == 200
            return world.__dict__.get("changed", lambda path, body: body)(path, answer.content)

        monkeypatch.setattr(servers, "fetched", fetched)
        yield pr.connect(URL, ANALYST)


def until(holds, seconds=15.0):
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.fixture
def followed(study):
    widget = study.live(every=0.5)
    yield widget
    widget.close()
    widget._thread.join(10)
    assert not widget._thread.is_alive()


@pytest.mark.thorough
def test_the_widget_follows_what_comes(world, followed):
    until(lambda: followed.progress)
    assert followed.progress["people"] == 0
    assert not followed.results["ready"]
    world.answer(900)
    until(lambda: followed.progress["people"] == 900)
    assert followed.results == json.loads(json.dumps(picture(world.scheduler.results)))
    assert followed.results["coefficients"][1]["term"] == "age"
    assert followed.said == ""
    synced = followed.get_state(["progress", "results", "said"])
    assert synced["results"]["nobs"] == 900


def test_it_says_that_the_server_is_gone_and_goes_on(world, followed):
    until(lambda: followed.progress)
    world.down = True
    until(lambda: "can't be reached" in followed.said)
    world.answer(50)
    world.down = False
    until(lambda: followed.progress["people"] == 50)
    assert followed.said == ""


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "told", [b"{", b"[]", b"{}", b'{"v": 2}', b'{"v": 1, "study": "wake"}', b'{"v": 1, "study": "sleep", "people": -1}']
)
def test_what_is_no_answer_of_a_collector_is_said(world, study, told):
    world.changed = lambda path, body: told if path == "progress" else body
    followed = live.Followed("sleep", lambda: study._get("progress"), study._estimated)
    with pytest.raises(StudyError):
        live._progress(followed)


@pytest.mark.thorough
def test_it_ends_when_the_study_has_closed(world, followed):
    until(lambda: followed.progress)
    world.answer(300)
    world.clock.now = world.plan.closes + world.plan.grace + 1
    while world.scheduler.advance():
        pass
    until(lambda: not followed._thread.is_alive())
    assert (followed.progress["status"], followed.progress["people"]) == ("closed", 300)


@pytest.mark.thorough
def test_stop_ends_it(followed):
    until(lambda: followed.progress)
    followed.stop()
    until(lambda: not followed._thread.is_alive())


def test_what_is_followed_says_of_which_analysis_it_is():
    def told(people):
        head = {"v": 1, "study": "sleep", "state": 0, "open": True, "status": "open"}
        return json.dumps({**head, "people": people}).encode()

    def estimated():
        raise InferenceError("not yet")

    each = {name: live.Followed("sleep", lambda k=k: told(k), estimated) for k, name in enumerate(("who", "hours"))}
    widget = live.live(each, 30.0)
    try:
        until(lambda: widget.of == "who")
        widget.chosen = "hours"
        until(lambda: widget.of == "hours")  # at once
        assert widget.progress["people"] == 1
        synced = widget.get_state(["of", "chosen", "names"])
        assert synced == {"of": "hours", "chosen": "hours", "names": ["who", "hours"]}
    finally:
        widget.close()
        widget._thread.join(10)


@pytest.mark.thorough
def test_its_sources_are_the_pages(followed):
    for name in ("view.js", "curves.js", "uplot/uPlot.esm.js"):
        assert json.dumps(live._source(name)) in followed._esm
    assert live._source("view.css") in followed._css


@pytest.mark.some(1)
@pytest.mark.parametrize("every", [0.0, -1, float("nan"), float("inf"), True, "2", 1e9, None])
def test_every_is_a_number_of_seconds(study, every):
    with pytest.raises(OptionError, match="every="):
        study.live(every=every)


def test_a_missing_package_is_named_with_its_extra(study, monkeypatch):
    live._class.cache_clear()
    monkeypatch.setitem(sys.modules, "anywidget", None)
    with pytest.raises(MissingExtraError, match=r"study.live\(\) needs anywidget.*\./packages/field\[live\]"):
        study.live()
    monkeypatch.undo()
    live._class.cache_clear()


def test_two_collectors_are_followed_by_the_same_counts(world, monkeypatch):
    one = Two()
    one.batch()
    monkeypatch.setattr(servers, "fetched", one.fetched)
    followed = pr.connect(URLS, ["token of a", "token of b"], key=KEY)
    told, known = json.loads(followed._counts()), Feed(world.scheduler).progress()
    assert set(told) == set(known)
    assert set(told["rounds"][0]) == set(known["rounds"][0])
    assert set(told["recent"]) == set(known["recent"])
    widget = followed.live(every=0.5)
    try:
        until(lambda: widget.progress)
        assert widget.progress["people"] == told["people"]
        assert not widget.results["ready"]
    finally:
        widget.close()
        widget._thread.join(10)
