"""What the collector answers: to devices, to attackers, to analysts; nothing that was posted is ever in it."""

import json
import logging
import socket
import sqlite3
import sys
import threading
import time
from contextlib import ExitStack, closing, contextmanager
from importlib.resources import files
from urllib.parse import urlsplit

import httpx2
import jsonschema
import pytest
from sqlalchemy import event
from sqlalchemy.exc import OperationalError
from starlette.testclient import TestClient

from privreg_field.service import access
from privreg_field.service.access import VARIABLE, Issuer, new_secret
from privreg_field.service.http import guard, handler
from privreg_field.service.http.app import Options, Service, make
from privreg_field.service.http.guard import Quota, place_of
from privreg_field.service.scheduler import Clock, Scheduler
from privreg_field.service.store import open_store
from privreg_field.service.store.records import Full
from privreg_field.wire import messages, wire
from privreg_field.wire.messages import Token
from tests.service.served import served
from tests.service.world import ANALYST, DAY, NOON, SERVER, World, keys

OF = "/v1/studies/sleep"
JSON = {"content-type": "application/json"}
KNOWN = {"Authorization": f"Bearer {ANALYST}"}
FREE = Options(rate=0.0)


@pytest.fixture
def world(tmp_path):
    return World(tmp_path, n=400)


@pytest.fixture
def client(world):
    with TestClient(make(world.scheduler, FREE)) as one:
        yield one


def post(client, body):
    return client.post(f"{OF}/reports", content=body, headers=JSON)


def problem(answer, status, words):
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    said = answer.json()
    assert sorted(said) == ["detail", "status", "title", "type"]
    assert said["status"] == status
    assert words in said["detail"]


# --- devices -------------------------------------------------------------------------------------------------


def test_plans_and_states_are_the_signed_bytes_by_etag(client, world):
    plan = client.get(f"{OF}/plan")
    assert plan.content == world.envelope
    assert "immutable" in plan.headers["cache-control"]
    state = client.get(f"{OF}/state")
    assert state.content == world.scheduler.present.envelope == client.get(f"{OF}/states/0").content
    for path, answer in (("plan", plan), ("state", state)):
        again = client.get(f"{OF}/{path}", headers={"if-none-match": answer.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")
    problem(client.get(f"{OF}/states/1"), 404, "no such state")
    problem(client.get(f"{OF}/states/x"), 404, "no such state")
    problem(client.get("/v1/studies/wake/plan"), 404, "no such study")


def test_a_report_counts_once(client, world):
    (body,) = world.bodies(1)
    assert (post(client, body).status_code, post(client, body).status_code) == (201, 200)
    other = json.dumps({**json.loads(body), "x_more": 1}).encode()
    problem(post(client, other), 409, "another report")
    assert sum(c.people for c in world.store.cells().values()) == 1
    told = client.get(f"{OF}/cells", headers=KNOWN).json()["cells"]
    values = messages.read_report(body, world.plan, world.hash).values
    assert [int(v) for v in told[0]["sums"]] == list(values)
    assert [int(v) for v in told[0]["squares"]] == [v * v for v in values]


@pytest.mark.thorough
def test_states_go_on_when_enough_have_answered(client, world):
    for body in world.bodies(10):
        assert post(client, body).status_code == 201
    world.answer(340)
    assert len(world.scheduler.states) > 3
    assert world.scheduler.replay() == len(world.scheduler.states)
    state = messages.read_state(
        wire.open_envelope(client.get(f"{OF}/state").content, "state").payload, world.plan, world.hash
    )
    assert state.number == len(world.scheduler.states) - 1
    assert state.before == world.scheduler.states[-2].hash


# --- attackers -----------------------------------------------------------------------------------------------


def changed(body, **more):
    return json.dumps({**json.loads(body), **more}).encode()


def test_what_is_no_report_is_refused(client, world):
    (body,) = world.bodies(1)
    for wrong in (
        b"", b"{}", b"[]", b"\xff\xfe", b"{" * 3000, changed(body, v=2), changed(body, plan=wire.base(bytes(32))),
        changed(body, role="main"), changed(body, state=10**20), changed(body, values="AAAA"),
        changed(body, values=json.loads(body)["values"][:-4] + "////"), changed(body, more=1),
        body.replace(b'"role"', b'"role":"moments","role"'),
    ):  # fmt: skip
        problem(post(client, wrong), 422, "")
    problem(post(client, changed(body, state=7)), 412, "No state")
    problem(post(client, b" " * (world.plan.limit + 1)), 413, "longer")
    problem(client.post(f"{OF}/reports", content=body), 415, "application/json")

    def endless():
        for _ in range(1000):
            yield b" " * 4096

    problem(client.post(f"{OF}/reports", content=endless(), headers=JSON), 413, "longer")
    assert world.store.cells() == {}
    assert post(client, body).status_code == 201


def test_forged_and_taken_back_tokens_are_refused(client, world):
    (body,) = world.bodies(1)
    good = world.tokens[0]
    forged = [
        good._replace(mac=bytes(16)), good._replace(id=bytes(16)), good._replace(key=2), Token(1, bytes(16), bytes(16))
    ]  # fmt: skip
    for token in forged:
        problem(post(client, changed(body, token=messages.token_text(token))), 403, "none of this study's")
    own = Token(0, bytes(16), bytes(16))
    problem(post(client, changed(body, token=messages.token_text(own))), 422, "")
    world.store.revoke(tokens=[good.id])
    client.app.state.service._look()
    problem(post(client, body), 403, "taken back")
    (body,) = world.bodies(1)
    world.store.revoke(keys=[1])
    client.app.state.service._look()
    problem(post(client, body), 403, "none of this study's")
    assert world.store.cells() == {}


def test_other_verbs_and_addresses_are_refused(client):
    assert client.delete(f"{OF}/plan").status_code == 405
    assert client.get(f"{OF}/reports").status_code == 405
    problem(client.get("/nothing"), 404, "")


@pytest.mark.thorough
def test_an_address_may_not_ask_all_the_time(world):
    with TestClient(make(world.scheduler, Options(rate=2.0))) as client:
        statuses = [client.get(f"{OF}/plan").status_code for _ in range(12)]
    assert statuses[:8] == [200] * 8
    assert 429 in statuses
    quota = Quota(0.0)
    assert all(quota.allows("a") for _ in range(1000))


def test_a_full_queue_and_a_full_disk_ask_devices_to_come_again(client, world, monkeypatch):
    (body,) = world.bodies(1)
    service = client.app.state.service

    def full(*_):
        raise Full

    monkeypatch.setattr(service.writer, "put", full)
    answer = post(client, body)
    problem(answer, 503, "the same bytes again")
    assert answer.headers["retry-after"] == "1"
    monkeypatch.setattr(service.writer, "put", lambda _, tell: tell("failed"))
    problem(post(client, body), 503, "could not be kept")


@pytest.mark.thorough
def test_nothing_of_a_report_is_in_an_answer_a_log_or_the_numbers(client, world, caplog, capfd):
    caplog.set_level(logging.DEBUG)
    (body,) = world.bodies(1)
    said = json.loads(body)
    answers = [post(client, body), post(client, changed(body, x_a=1)), post(client, changed(body, values="AAAA"))]
    answers += [
        client.get("/metrics"),
        client.get("/metrics", headers=KNOWN),
        client.get("/readyz"),
        client.get("/healthz"),
    ]
    seen = [a.text + str(a.headers) for a in answers] + [caplog.text, *capfd.readouterr()]
    for text in seen:
        for secret in (said["values"], said["token"], said["token"][:20]):
            assert secret not in text
    assert 'privreg_reports_total{outcome="new"} 1.0' in client.get("/metrics", headers=KNOWN).text


# --- analysts ------------------------------------------------------------------------------------------------


def test_results_need_the_analysts_token(client, world):
    for path in ("results", "cells", "events"):
        for given in ({}, {"Authorization": "Bearer no"}, {"Authorization": f"Basic {ANALYST}"}):
            answer = client.get(f"{OF}/{path}", headers=given)
            problem(answer, 401, "analyst's token")
            assert answer.headers["www-authenticate"] == "Bearer"
    told = client.get(f"{OF}/results", headers=KNOWN).json()
    assert (told["ready"], told["people"]) == (False, 0)
    with TestClient(make(world.scheduler, Options(rate=0.0, public_results=True))) as anybody:
        assert anybody.get(f"{OF}/results").status_code == 200


@pytest.mark.thorough
def test_results_are_those_that_an_analyst_computes(world):
    world.answer(400)
    with TestClient(make(world.scheduler, FREE)) as client:
        told = client.get(f"{OF}/results", headers=KNOWN).json()
    res = world.scheduler.results()
    assert told["ready"]
    assert [row["estimate"] for row in told["coefficients"]] == res.params.tolist()
    assert res.nobs == told["nobs"] == 400
    assert told["guarantee"].startswith("2-GDP")


# --- time ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_study_closes_and_takes_what_is_on_its_way(client, world):
    early, late = world.bodies(2)
    world.clock.now = world.plan.closes + 1
    world.scheduler.advance()
    state = world.state
    assert not state.open
    assert state.before == world.scheduler.states[-2].hash
    assert post(client, early).status_code == 201
    world.clock.now = world.plan.closes + world.plan.grace + DAY
    problem(post(client, late), 410, "closed")
    assert not world.scheduler.advance()
    assert world.scheduler.replay() == 2


class Machine:
    """A machine's clock, which may be wrong, and one that nobody puts."""

    def __init__(self, now=NOON):
        self.even, self.wrong, self.began = 0.0, 0.0, now

    def run(self, seconds):
        self.even += seconds

    def __call__(self):
        return self.began + self.even + self.wrong


def on(world, machine):
    """The study, served on this machine."""
    return Scheduler(world.store, SERVER, machine, lambda: machine.even)


HOUR = 3600.0


@pytest.mark.some(3)
@pytest.mark.parametrize("wrong", [400 * DAY, 6000 * DAY, -400 * DAY])
@pytest.mark.parametrize("begun", [0.0, 10 * DAY])
def test_a_wrong_clock_ends_nothing_for_good(tmp_path, wrong, begun):
    """Whether it leaps while the server runs, or has leapt when it begins."""
    world = World(tmp_path, n=400, round_hours=1.0, least=0.5, closes="2027-06-01", grace_days=2)
    machine = Machine()
    machine.wrong = 0.0 if begun else wrong
    scheduler = on(world, machine)
    world.scheduler = scheduler
    machine.run(begun)
    scheduler.advance()
    machine.wrong = wrong
    world.store.take([world.arrived(b) for b in world.bodies(30, world.states_of(0))], {})
    for _ in range(50):  # of an hour
        machine.run(HOUR / 60)
        scheduler.advance()
    assert scheduler.is_open
    assert not scheduler.sealed
    assert scheduler.present.time <= world.plan.closes
    assert messages.read_state(scheduler.present.payload, world.plan, world.hash).open
    (late,) = world.bodies(1, world.states_of(len(scheduler.states) - 1))
    with TestClient(make(scheduler, FREE)) as client:
        assert client.get(f"{OF}/state").status_code in {200, 425, 503}
        assert post(client, late).status_code in {201, 425, 503}  # never for good
        machine.wrong = 0.0
        machine.run(60)
        assert client.get(f"{OF}/state").status_code == 200
        assert post(client, late).status_code in {200, 201}
    for _ in range(2):
        scheduler.advance()
        machine.run(2 * HOUR)
    assert scheduler.is_open
    assert len(scheduler.states) > 1  # the round has closed by age


def test_a_study_ends_when_its_time_has_come_and_no_clock_opens_it_again(tmp_path):
    world = World(tmp_path, n=400, closes="2027-06-01", grace_days=2)
    machine = Machine()
    scheduler = world.scheduler = on(world, machine)
    early, late = world.bodies(2)
    machine.run(world.plan.closes - NOON - 60)
    scheduler.advance()
    assert scheduler.is_open
    machine.run(120)
    assert scheduler.advance()  # to the minute, on a clock that goes evenly
    assert not scheduler.is_open
    with TestClient(make(scheduler, FREE)) as client:
        assert post(client, early).status_code == 201
        machine.run(world.plan.grace)
        problem(post(client, late), 410, "closed")
        scheduler.advance()
        assert scheduler.sealed
        for back in (-DAY, -1000 * DAY):
            machine.wrong = back
            machine.run(3 * HOUR)
            problem(post(client, late), 410, "closed")
    machine.wrong = -3 * DAY
    again = on(world, machine)  # which begins with a wrong clock
    again.advance()
    assert not again.is_open
    assert not again.takes()


def test_a_server_that_begins_after_the_end_waits_an_hour_before_it_says_so(tmp_path):
    world = World(tmp_path, n=400, closes="2027-06-01", grace_days=2)
    machine = Machine(world.plan.closes + world.plan.grace + DAY)
    scheduler = on(world, machine)
    (late,) = world.bodies(1)
    with TestClient(make(scheduler, FREE)) as client:
        scheduler.advance()
        problem(client.get(f"{OF}/state"), 503, "about to close")
        problem(post(client, late), 503, "may have closed")
        problem(client.get("/readyz"), 503, "isn't believed yet")
        machine.run(HOUR + 1)
        problem(post(client, late), 410, "closed")
        while scheduler.is_open or not scheduler.sealed:
            scheduler.advance()
        assert not messages.read_state(scheduler.present.payload, world.plan, world.hash).open
        assert client.get("/readyz").status_code == 200


def test_a_first_state_of_a_wrong_clock_is_one_that_devices_take(world, tmp_path):
    store = open_store(f"sqlite:///{tmp_path / 'new.db'}", "sleep")
    store.enter(world.hash, world.envelope, access.first_of(""))
    machine = Machine(world.plan.closes + DAY)
    scheduler = Scheduler(store, SERVER, machine, lambda: machine.even)
    assert scheduler.present.time == world.plan.closes
    assert messages.read_state(scheduler.present.payload, world.plan, world.hash).open


def test_a_leap_that_stands_is_believed():
    machine = Machine()
    clock = Clock(machine, lambda: machine.even)
    assert not clock.sure
    machine.run(HOUR)
    assert clock.sure
    machine.wrong = 30.0  # put right by a little
    assert clock() == machine()
    machine.wrong = DAY
    for _ in range(59):
        assert clock() == machine() - DAY + 30.0
        assert not clock.sure
        machine.run(60)
    machine.wrong = 2 * DAY  # another leap begins anew
    clock()
    machine.run(HOUR - 1)
    assert clock() < machine() - DAY
    machine.run(1)
    assert clock() == machine()
    assert clock.sure


@pytest.mark.thorough
def test_a_round_closes_by_age(tmp_path):
    world = World(tmp_path, round_hours=1.0, least=0.5)
    world.store.take([world.arrived(b) for b in world.bodies(2)], {})
    world.clock.now += 7200
    assert not world.scheduler.advance()  # too few
    world.store.take([world.arrived(b) for b in world.bodies(10)], {})
    assert world.scheduler.advance()
    assert world.state.number == 1
    assert not world.scheduler.advance()


def test_a_key_of_another_study_signs_nothing(world):
    from privreg.errors import OptionError
    from privreg_field.service.scheduler import Scheduler
    from tests.studies import key_of

    with pytest.raises(OptionError, match="none of the plan's keys"):
        Scheduler(world.store, key_of(9), world.clock)
    assert keys.public(SERVER) in world.plan.keys


# --- the document --------------------------------------------------------------------------------------------


def test_the_document_names_every_address_and_nothing_else(client):
    document = client.get("/openapi.json").json()
    routes = {r.path: r.methods - {"HEAD"} for r in client.app.routes if r.include_in_schema}
    assert {p: {v.upper() for v in verbs} for p, verbs in document["paths"].items()} == routes
    assert json.loads(files("privreg_field.service.http").joinpath("openapi.json").read_text()) == document


@pytest.mark.thorough
def test_answers_are_as_the_document_says(client, world):
    document = client.get("/openapi.json").json()
    (body,) = world.bodies(1)
    answers: list[tuple[str, str, httpx2.Response]] = [
        ("post", "/reports", post(client, body)),
        ("post", "/reports", post(client, b"{}")),
        *(("get", path, client.get(OF + path, headers=KNOWN)) for path in ("/plan", "/state", "/cells", "/results")),
        ("get", "/cells", client.get(f"{OF}/cells")),
    ]
    for verb, path, answer in answers:
        said = document["paths"]["/v1/studies/{study}" + path][verb]["responses"][str(answer.status_code)]["content"]
        ((kind, how),) = said.items()
        assert answer.headers["content-type"] == kind
        jsonschema.validate(answer.json(), {**how["schema"], "components": document["components"]})


def test_nobody_is_asked_before_a_study_opens(client, world):
    (body,) = world.bodies(1)
    world.clock.now = world.plan.opens - 1
    problem(client.get(f"{OF}/state"), 425, "not open yet")
    problem(post(client, body), 425, "not open yet")
    assert world.store.cells() == {}
    world.clock.now = world.plan.opens
    assert client.get(f"{OF}/state").status_code == 200
    assert post(client, body).status_code == 201


def test_a_key_that_is_taken_back_is_refused_though_a_new_one_cannot_be_opened(client, world, monkeypatch):
    (body,) = world.bodies(1)
    monkeypatch.setenv(VARIABLE, "a passphrase that the server does not have")
    world.store.issue(new_secret()[1])
    monkeypatch.delenv(VARIABLE)
    world.store.revoke(keys=[1], tokens=[])
    service = client.app.state.service
    service._look()
    assert service.secrets == {2: None}
    problem(post(client, body), 403, "none of this study's")
    other = messages.token_text(world.tokens[0]._replace(key=2))
    problem(post(client, changed(body, token=other)), 503, "can't be opened now")  # which isn't the device's fault
    problem(client.get("/readyz"), 503, "set its passphrase")


def test_tokens_of_a_key_made_a_moment_ago_are_taken(world, monkeypatch):
    monkeypatch.setattr(Service, "_advance", lambda self: None)  # nobody looks now and then
    with TestClient(make(world.scheduler, FREE)) as client:
        assert world.store.issue(bytes(32)) == 2
        (mine,) = Issuer(2, bytes(32), world.hash).tokens(1)
        (body,) = world.bodies(1)
        report = messages.read_report(body, world.plan, world.hash)
        asks = {world.state.asks[0].role}
        assert report.role in asks  # so that any token may send it
        body = changed(body, token=messages.token_text(mine))
        looks, own = [], world.store.issuers
        monkeypatch.setattr(world.store, "issuers", lambda: looks.append(1) or own())
        assert post(client, body).status_code == 201
        problem(post(client, changed(body, token=messages.token_text(mine._replace(key=3)))), 403, "none of this")
        assert len(looks) == 2
        assert post(client, body).status_code == 200
        assert len(looks) == 2

        def broken():
            raise OperationalError("", {}, Exception())

        monkeypatch.setattr(world.store, "issuers", broken)
        answer = post(client, changed(body, token=messages.token_text(mine._replace(key=4))))
        problem(answer, 503, "Keys can't be read now")
        assert answer.headers["retry-after"] == "5"


def test_one_look_answers_all_who_ask_meanwhile(client, world, monkeypatch):
    service, looks = client.app.state.service, []
    own = world.store.issuers

    def slow():
        looks.append(1)
        time.sleep(0.2)
        return own()

    monkeypatch.setattr(world.store, "issuers", slow)
    asked = time.monotonic()
    threads = [threading.Thread(target=service._look, args=(asked,)) for _ in range(8)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert len(looks) <= 2  # one may be the scheduler's


def test_it_is_ready_only_if_a_report_can_be_kept(client, world, monkeypatch):
    monkeypatch.setattr(handler, "SECONDS", 0.0)
    service = client.app.state.service
    _, second = world.bodies(2)
    with world.store.engine.begin() as c:
        most = c.exec_driver_sql("PRAGMA page_count").scalar_one()

    def full(connection, record):
        connection.execute(f"PRAGMA max_page_count={most}")

    event.listen(world.store.engine, "connect", full)
    world.store.engine.dispose()
    problem(client.get("/readyz"), 503, "can't be kept now")
    event.remove(world.store.engine, "connect", full)
    world.store.engine.dispose()
    assert client.get("/readyz").json() == {"status": "ready", "state": 0}  # it comes back by itself
    with closing(sqlite3.connect(world.store.path)) as db:
        assert db.execute("SELECT name FROM meta").fetchall() == [("format",)]
    monkeypatch.setattr(service.writer, "put", lambda _, tell: None)  # a writer that hangs
    monkeypatch.setattr(handler, "PATIENCE", 0.6)
    problem(client.get("/readyz"), 503, "can't be kept now")
    monkeypatch.undo()
    assert post(client, second).status_code == 201


@pytest.mark.thorough
def test_readiness_costs_a_write_a_second_at_most(client, monkeypatch):
    service, tried = client.app.state.service, []
    own = service.writer.put
    monkeypatch.setattr(service.writer, "put", lambda arrived, tell: tried.append(arrived) or own(arrived, tell))
    assert {client.get("/readyz").status_code for _ in range(20)} == {200}
    assert len(tried) < 20


def test_a_state_of_the_future_costs_no_look_into_the_database(client, world, monkeypatch):
    looks = []
    monkeypatch.setattr(world.scheduler, "catch_up", lambda: looks.append(threading.current_thread().name))
    (body,) = world.bodies(1)
    problem(post(client, changed(body, state=1_000_000)), 412, "No state")
    problem(post(client, changed(body, state=1)), 503, "not known here yet")
    assert set(looks) <= {"privreg-scheduler"}


def test_numbers_of_operators_are_not_everybodys(client):
    problem(client.get("/metrics"), 401, "analyst's token")


def test_an_endless_head_ends_the_connection(world):
    with socketed(world) as (one, _):
        one.sendall(b"GET /healthz HTTP/1.1\r\n")
        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            endless(one)
    with socketed(world) as (one, _):
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A: " + b"a" * 3000 + b"\r\n\r\n")
        assert one.recv(12) == b"HTTP/1.1 200"


def test_whoever_says_nothing_is_not_waited_for(world, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.2)
    with socketed(world) as (one, _):
        assert one.recv(1) == b""


def endless(one):
    for _ in range(10_000):
        one.sendall(b"X-A: " + b"a" * 1000 + b"\r\n")
        time.sleep(0.0005)


def test_the_head_of_a_later_request_is_not_waited_for_either(world, monkeypatch):
    monkeypatch.setattr(guard, "SECONDS", 0.3)
    with socketed(world) as (one, _):
        one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        first = one.recv(4096)
        while not first.endswith(b'{"status":"ok"}'):  # which may come by itself
            first += one.recv(4096)
        assert first.startswith(b"HTTP/1.1 200")
        one.sendall(b"GET /healthz HTTP/1.1\r\nX-A: ")
        began = time.monotonic()
        assert one.recv(4096) == b""
        assert time.monotonic() - began < 10.0  # the server's own limit of a kept connection is longer


def test_what_was_counted_is_said_to_be_though_its_key_was_taken_back_or_the_study_closed(client, world, monkeypatch):
    kept, new = world.bodies(2)
    assert post(client, kept).status_code == 201
    service, own = client.app.state.service, world.store.issuers
    monkeypatch.setattr(world.store, "issuers", dict)
    service._look()
    assert post(client, kept).status_code == 200
    problem(post(client, new), 403, "none of this study's")
    monkeypatch.setattr(world.store, "issuers", own)
    service._look()
    world.clock.now = world.plan.closes + world.plan.grace + 1
    assert post(client, kept).status_code == 200
    problem(post(client, new), 410, "closed")
    assert sum(c.people for c in world.store.cells().values()) == 1


def connected(url, source="127.0.0.1"):
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), timeout=20, source_address=(source, 0))


def answered(one):
    one.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
    return one.recv(4096)[:12]


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="other addresses of this machine are Linux's")
@pytest.mark.parametrize("asks", [False, True])
def test_idle_connections_of_one_address_shut_nobody_out(world, monkeypatch, asks):
    monkeypatch.setattr(guard.Guarded, "most", 10)
    with served(world.scheduler, http=guard.Guarded, limit=30) as url, ExitStack() as stack:
        many = [stack.enter_context(connected(url)) for _ in range(40)]
        if asks:
            assert answered(many[-1]) == b"HTTP/1.1 200"
        other = stack.enter_context(connected(url, "127.0.0.2"))
        assert answered(other) == b"HTTP/1.1 200"
        assert answered(stack.enter_context(connected(url))) == b"HTTP/1.1 200"  # in place of an idle one
        still = 0
        for one in many:
            one.settimeout(0.02)
            try:
                still += one.recv(1) != b""
            except TimeoutError:
                still += 1
            except ConnectionError:
                pass
        assert still < 10
        assert answered(other) == b"HTTP/1.1 200"


def test_a_network_of_ipv6_is_one_place():
    assert place_of("2001:db8:1:2:3::4") == place_of("2001:db8:1:2::5%eth0") == "2001:db8:1:2::"
    assert place_of("2001:db8:1:3::4") != place_of("2001:db8:1:2::4")
    assert [place_of(a) for a in ("203.0.113.7", "testclient", "")] == ["203.0.113.7", "testclient", ""]


@contextmanager
def socketed(world):
    with served(world.scheduler, http=guard.Guarded) as url:
        where = urlsplit(url)
        with socket.create_connection((where.hostname, where.port), timeout=20) as one:
            yield one, url
