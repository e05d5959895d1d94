"""The JavaScript device's way through a study: what is sent and stored, and all that is refused before."""

import json
import math
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg_field.device import client
from privreg_field.service.http.guard import TITLES
from privreg_field.wire import messages, study, wire
from privreg_field.wire.messages import WORDS
from tests.device.test_session import WRONG
from tests.service.node import Bridge, node
from tests.studies import (
    CLAMPING,
    DAY,
    HIDDEN,
    NOON,
    ONE,
    ROOT,
    SERVER,
    ask,
    field_state,
    key_of,
    public,
    signed,
    study_plan,
    token,
)

GOOD = {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}
KEY = wire.base(public(ROOT))
TOKEN = messages.token_text(token())


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        if status == 302:
            self.send_header("Location", f"http://127.0.0.1:{self.server.server_address[1]}/v1/studies/sleep/plan")
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        study_ = self.server.study
        study_.asked.append(self.path)
        what = self.path.rpartition("/")[2]
        self.say(study_.status, {"plan": study_.plan_bytes, "state": study_.state_bytes}[what])

    def do_POST(self):
        posted = self.server.study.posted
        posted.append(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.headers["Content-Type"] == "application/json"
        assert self.headers["Cookie"] is None
        assert self.headers["Referer"] is None
        self.say(201 if posted.count(posted[-1]) == 1 else 200, b"{}")


class Study:
    """A server that keeps what it gets."""

    def __init__(self, plan=None, role="main", key=ROOT, **state):
        self.plan = study_plan() if plan is None else plan
        self.payload = study.plan_payload(self.plan)
        self.hash = wire.hash_of(self.payload)
        self.plan_bytes = signed("plan", self.payload, key)
        self.publish(field_state(self.hash, ask(self.plan, role), **state))
        self.posted, self.asked, self.status = [], [], 200

    def publish(self, state, key=SERVER):
        self.state = messages.state_payload(state)
        self.state_bytes = signed("state", self.state, key)


@pytest.fixture(scope="module")
def server():
    one = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=one.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield one
    one.shutdown()
    one.server_close()
    thread.join(10)


class Device:
    """A device with its memory, against whatever study the server has."""

    def __init__(self, js, server, folder):
        self.js, self.server, self.path = js, server, folder / "memory.json"
        self.now, self.count = NOON, 0

    def link(self, key=KEY, mine=TOKEN, slug="sleep"):
        return f"http://127.0.0.1:{self.server.server_address[1]}/studies/{slug}/#k={key}&t={mine}"

    def __call__(self, study_, *steps, link=None, answers=GOOD, **more):
        self.server.study = study_
        self.count += 1
        return self.js(
            "session", id=more.pop("id", f"{self.path} {self.count}"), link=link or self.link(), answers=answers,
            steps=steps or ("begin", "prepare", "send"), memory=str(self.path), now=self.now, **more,
        )  # fmt: skip

    def refuses(self, words, study_, *steps, **more):
        said = self(study_, *steps, **more)
        assert words in said.get("refused", ""), said
        assert not study_.posted
        return said

    @property
    def memory(self):
        return self.path.read_text() if self.path.exists() else ""


@pytest.fixture
def device(js, server, tmp_path):
    return Device(js, server, tmp_path)


# --- what is sent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", study.ROLES)
def test_a_report_arrives_that_the_collector_reads(device, role):
    one = Study(study_plan(clamping=CLAMPING), role=role)
    said = device(one)
    assert said["out"] is True
    assert said["waiting"] is None
    (body,) = one.posted
    report = messages.read_report(body, one.plan, one.hash)
    assert (report.role, report.state, report.token) == (role, 0, token())
    assert said["receipt"] == wire.base(wire.hash_of(body))
    assert said["log"] == ["get plan", "get state", "post", "kept true"]


def test_what_is_kept_is_the_noise_and_never_the_answers(device):
    one, secret = Study(), {**GOOD, "age": 43.712345, "hours": 7.654321}
    made = device(one, "begin", "prepare", answers=secret)
    assert json.loads(made["waiting"]["body"])["values"] == wire.pack(made["waiting"]["numbers"])
    for text in (device.memory, json.dumps(made)):
        for answer in ("43.712345", "7.654321", "night"):
            assert answer not in text
    assert not one.posted
    sent = device(one, "begin", "send")
    assert one.posted == [made["waiting"]["body"].encode()]
    assert sent["receipt"] == made["waiting"]["receipt"]
    assert '"body":null' in device.memory  # the bytes are forgotten, what was spent stays


def test_noise_has_the_size_that_the_budget_asks_for(js, server, tmp_path):
    """A row that has nothing to tell reports noise alone: its numbers have the sd 2^20."""
    values = []
    for k in range(16):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        made = Device(js, server, folder)(Study(role="moments"), "begin", "prepare", answers={})
        values += made["waiting"]["numbers"]
    square = sum((v / 2**20) ** 2 for v in values) / len(values)
    assert len(set(values)) > 0.99 * len(values)
    assert abs(square - 1.0) < 5.0 * math.sqrt(2.0 / len(values))


def test_an_answer_that_was_lost_is_asked_for_with_the_same_bytes(device):
    one = Study()
    said = device(one, faults=[None, None, "lost", "off", 503, 429])
    assert said["out"] is True
    assert len(one.posted) == 2
    assert len(set(one.posted)) == 1
    posts = [line for line in said["log"] if line.startswith(("post", "kept"))]
    assert posts == ["post", "kept true"] * 5


def test_a_device_that_was_stopped_sends_the_same_bytes_though_the_state_moved_on(device):
    one = Study()
    made = device(one, "begin", "prepare")["waiting"]["body"]
    assert device(one, "begin", "send", faults=[None, "off"], patience=0)["out"] is False
    before = one.state
    one.publish(field_state(one.hash, ask(one.plan, "pilot"), number=1, before=wire.hash_of(before), time=NOON + 5))
    again = device(one, "begin")
    assert again["waiting"]["body"] == made
    assert device(one, "begin", "send")["out"] is True
    assert one.posted == [made.encode()]


def test_a_second_page_gets_what_the_first_has_made(device):
    one = Study()
    device(one, "begin", id="first")
    device(one, "begin", id="second")
    made = device(one, "prepare", id="first")
    assert device(one, "prepare", id="second")["waiting"] == made["waiting"]
    assert device(one, "send", id="first")["out"] is True
    late = device(one, "begin", "prepare")
    assert "every device answers once" in late["refused"]


def test_an_open_study_takes_a_token_of_the_devices_own(device):
    one = Study(study_plan(tokens="open"))
    assert device(one, link=device.link(mine=""))["out"] is True
    report = messages.read_report(one.posted[0], one.plan, one.hash)
    assert report.token.key == 0
    assert any(report.token.id)


def test_a_device_waits_for_its_turn(device):
    one, place = Study(slots=(0, 0)), messages.place_of(Study().hash, token())
    said = device.refuses("turn", one, patience=100)
    assert "sleep true" in said["log"]
    one.publish(field_state(one.hash, ask(one.plan, "main"), slots=(0, place.slot)))
    device.path.unlink()
    device.refuses("turn", one, patience=1)
    one.publish(field_state(one.hash, ask(one.plan, "main"), slots=(0, place.slot + 1)))
    device.path.unlink()
    assert device(one)["out"] is True


# --- what is refused -----------------------------------------------------------------------------------------


def test_plans_that_are_not_the_analysts_are_refused(device):
    device.refuses("not signed", Study(key=key_of(9)))
    device.refuses("not signed", Study(), link=device.link(key=wire.base(public(key_of(9)))))
    device.refuses("the link is incomplete", Study(), link=device.link(key="AAAA"))
    device.refuses("another study", Study(study_plan(study="wake")))
    one = Study()
    one.plan_bytes = signed("plan", one.payload.replace(b'"v":1', b'"v":2'), ROOT)
    device.refuses("as this version knows it", one)
    device.refuses("33 bytes", Study(), link=device.link(mine="AAAA"))
    for status in (404, 302):
        one = Study()
        one.status = status
        device.refuses("can't be had", one, patience=0)
    assert device.memory == ""


def test_a_signature_over_other_bytes_is_refused(device):
    one = Study()
    other = signed("plan", study.plan_payload(study_plan(title="Another")), ROOT)
    one.plan_bytes = json.dumps({**json.loads(one.plan_bytes), "sigs": json.loads(other)["sigs"]}).encode()
    device.refuses("not signed", one)


def test_more_than_the_devices_budget_is_refused(device):
    device.refuses("more than this device allows", Study(study_plan(mu=Mu(2_000_001, 1_000_000))))
    assert device(Study(study_plan(mu=Mu(2, 1))))["out"] is True
    device.path.unlink()
    device.refuses("more than this device allows", Study(), limits={"mu": [999, 1000]})


def test_a_year_s_budget_of_a_release_group_or_an_analyst_is_not_overspent(device):
    seven = Mu(7, 5)  # two of these: √3.92, three: √5.88
    for k, name in enumerate(("one", "two", "three")):
        mine = messages.token_text(token(k + 1))
        plan = study_plan(study=name, mu=seven, release_group=f"group {k}")
        link = device.link(mine=mine, slug=name)
        if name != "three":
            assert device(Study(plan), link=link)["out"] is True
        else:
            said = device.refuses("would be overspent", Study(plan), link=link, limits={"total": [9, 1]})
            assert said["log"] == ["get plan", "get state"]
            device.now += 367 * DAY
            late = Study(plan._replace(closes=NOON + 900 * DAY), time=NOON + 367 * DAY)
            device.refuses("not the one", late, link=link)
    device.path.unlink()
    other = Study(study_plan(study="four", mu=seven, release_group="group"))
    assert device(other, link=device.link(slug="four"))["out"] is True


def apart(device, k, mu=ONE, **state):
    """A study that has nothing in common with others, and a link to it."""
    root, name = key_of(100 + k), f"s{k}"
    plan = study_plan(study=name, release_group=f"group {k}", mu=mu, opens=0, closes=NOON + 10_000 * DAY)
    link = device.link(key=wire.base(public(root)), mine=messages.token_text(token(k)), slug=name)
    return Study(plan, key=root, **state), {"link": link}


def test_all_studies_share_a_budget_whatever_their_keys_and_groups(device):
    for k in range(4):
        one, link = apart(device, k)
        said = device(one, **link)
        assert said["out"] is True
        assert said["year"] == [k + 1, pytest.approx(math.sqrt(k + 1))]
    one, link = apart(device, 4)
    for limits in ({}, {"yearly": [10, 1]}):
        said = device.refuses(
            "study 5 of a year's, which cost mu = 2.236 together, more than the 2 that", one, limits=limits, **link
        )
        assert said["log"] == ["get plan"]
    assert device(one, limits={"total": [3, 1]}, **link)["out"] is True


@pytest.mark.parametrize("claimed", [0, NOON - 3000 * DAY, NOON + 3000 * DAY])
def test_no_time_that_a_study_claims_lets_a_device_forget_or_remember(device, claimed):
    one, link = apart(device, 0, Mu(2, 1), time=claimed)
    assert device(one, **link)["out"] is True
    device.now = NOON + 365 * DAY
    for time in (0, NOON, NOON + 9000 * DAY):
        one, link = apart(device, 1, time=time)
        device.refuses("study 2 of a year's", one, **link)
    device.now = NOON + 367 * DAY
    assert device(one, **link)["year"] == [1, 1.0]


def test_what_was_agreed_to_is_what_may_be_spent(device):
    """Another page answers a study while this one asks: the total that was said would be too small."""
    (first, link), (second, other) = apart(device, 0), apart(device, 1)
    assert device(first, "begin", id="first", **link)["year"] == [1, 1.0]
    assert device(second, **other)["out"] is True
    said = device(first, "prepare", id="first", **link)
    assert "another study was answered meanwhile" in said["refused"]
    assert not first.posted
    assert device(first, **link)["year"] == [2, pytest.approx(math.sqrt(2))]


def test_the_studys_text_is_quoted_among_the_devices_words(device):
    one = Study(study_plan(contact="us. Nothing was learned"))
    assert 'tell "us. Nothing was learned".' in device(one, faults=[None, None, 409])["refused"]


@pytest.mark.parametrize("which", HIDDEN)
def test_what_is_not_seen_is_refused(device, which):
    one = Study()
    said = json.loads(one.payload)
    one.plan_bytes = signed("plan", json.dumps({**said, "title": HIDDEN[which]}).encode(), ROOT)
    device.refuses("'title' of the plan is not as this version knows it", one)


def test_a_radius_that_doesnt_keep_the_budget_is_refused(device):
    one = Study()
    for role in one.plan.roles:
        said = json.loads(one.payload)
        said["roles"][role]["radius"] += 1
        bad = Study()
        bad.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
        device.refuses("doesn't keep the budget", bad)
    assert lattice.radius("ball", 5, one.plan.mu) == one.plan.roles["main"].radius


def test_states_that_go_back_or_are_others_are_refused(device):
    one = Study()
    first = one.state
    device.refuses("turn", Study(slots=(0, 0)), patience=0)  # has seen the first state, and answered nothing
    device.path.unlink()
    one.publish(field_state(one.hash, ask(one.plan, "main"), slots=(0, 0)))
    device.refuses("turn", one, patience=0)
    waiting = one.state
    more = ask(one.plan, "main")
    for name, state in {
        "another": field_state(one.hash, more, slots=(0, 1)),
        "torn": field_state(one.hash, more, number=1, before=bytes(32)),
        "earlier": field_state(one.hash, more, number=1, before=wire.hash_of(waiting), time=NOON - 1),
    }.items():
        one.publish(state)
        device.refuses("go back", one), name
    one.publish(field_state(one.hash, more, number=1, before=wire.hash_of(waiting), slots=(0, 0)))
    device.refuses("turn", one, patience=0)
    one.state_bytes = signed("state", first, SERVER)
    device.refuses("go back", one)
    device.path.unlink()
    one.publish(field_state(one.hash, more, before=bytes(32)))
    device.refuses("doesn't follow the plan", one)
    one.publish(field_state(one.hash, more), key_of(9))
    device.refuses("the state is not signed", one)
    one.publish(field_state(bytes(32), more))
    device.refuses("another plan", one)


def test_a_study_that_is_not_open_is_refused(device):
    for state in ({"open": False}, {"time": NOON - 2 * DAY}, {"time": NOON + 40 * DAY}):
        device.refuses("doesn't ask anybody", Study(**state))
        device.path.unlink()


def test_another_plan_and_a_used_token_are_refused(device):
    assert device(Study())["out"] is True
    device.refuses("not the one", Study(study_plan(title="Sleep again")))
    again = device.refuses("every device answers once", Study())
    assert again["log"] == ["get plan"]
    device.refuses("token has been used", Study(study_plan(study="wake")), link=device.link(slug="wake"))
    device.refuses("needs a token", Study(study_plan(study="wake")), link=device.link(mine="", slug="wake"))
    open_ = Study(study_plan(study="wake", tokens="open"))
    device.refuses("takes no token", open_, link=device.link(mine=messages.token_text(token(5)), slug="wake"))


def test_a_server_that_refuses_a_report_is_believed(device):
    one = Study()
    said = device(one, faults=[None, None, 422])
    assert "doesn't take the report: it is no report of this study (status 422)" in said["refused"]
    assert '"body":"' in device.memory


def test_what_a_device_lacks_is_refused_before_anything(device, server, tmp_path):
    assert device.refuses("Ed25519", Study(), broken=["ed25519"])["missing"]
    page = Bridge()  # the sampler is tried once on a page
    for on, broken, words in ((device.js, "random", "no secure randomness"), (page, "sampler", "known-answer test")):
        for _ in range(2):
            said = Device(on, server, tmp_path).refuses(words, Study(), broken=[broken])
            assert said["log"] == []
    page.close()
    device.refuses("memory can't be used", Study(), broken=["memory"])


def test_missing_answers_make_noise_or_are_asked_for(device):
    plan = study_plan(missing="refuse")
    said = device.refuses('answers are missing: "age"', Study(plan), answers={**GOOD, "age": None})
    assert said["log"] == ["get plan"]  # decided before any state is asked for
    device.path.unlink(missing_ok=True)
    assert device(Study(plan))["out"] is True


@pytest.mark.parametrize(("answers", "words"), WRONG, ids=[",".join(a) for a, _ in WRONG])
def test_an_answer_that_is_none_of_the_choices_is_stopped_before_a_state_is_asked_for(device, answers, words):
    if answers.get("age") == math.inf:
        answers = {"age": "1e999"}  # JSON has no infinity
    assert device.refuses(words, Study(), answers={**GOOD, **answers})["log"] == ["get plan"]


@pytest.mark.thorough
def test_both_devices_say_the_same_of_a_status():
    text = "import(process.argv[1]).then(c => console.log(JSON.stringify([c.SAID, c.meaning(418), c.meaning(425)])))"
    module = (Path(client.__file__).parents[1] / "service" / "web" / "device" / "client.js").as_uri()
    out = subprocess.run([node(), "-e", text, module], capture_output=True, text=True, check=True).stdout
    table, *two = json.loads(out)
    assert {int(k): v for k, v in table.items()} == client.SAID
    assert two == [client.meaning(418), client.meaning(425)]
    assert set(TITLES) - set(client.SAID) == {403, 405, 415}  # that no device is ever answered


@pytest.mark.some(1)
@pytest.mark.parametrize("mean", [math.inf, 0.0, 2.0**60, 2.0**-1060])
def test_a_made_up_state_makes_nothing_fail(device, mean):
    plan = study_plan()
    if math.isinf(mean):
        one = Study()
        one.publish(field_state(one.hash, ask(plan, "main", c=mean)))
        device.refuses("hex float", one)
        return
    for role in ("main", "moments", "pilot", "measures"):
        wild = {"y_scale": mean, "c": mean, "y_centre": -mean, "below": WORDS}
        one = Study()
        rows = tuple(tuple(mean for _ in row) for row in ask(plan, role).rows)
        one.publish(field_state(one.hash, ask(plan, role, rows=rows, **wild)))
        assert device(one)["out"] is True
        most = lattice.most(plan.roles[role].radius)
        assert all(abs(v) <= most for v in messages.read_report(one.posted[0], plan, one.hash).values)
        device.path.unlink()
