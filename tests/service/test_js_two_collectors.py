"""The JavaScript device's way through a study with two collectors: as the Python one's, against the same collectors."""

import json
import math
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from privreg.protocol.lattice import Mu
from privreg_field.device.client import Answer
from privreg_field.wire import messages, peers, study, wire
from tests.device.test_two_collectors import FORGED, Study, closing_after, losing
from tests.studies import COLLECTORS, NOON, PAIR, ROOT, field_state, key_of, public, signed, sum_ask, sum_plan, token

GOOD = {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def say(self, got):
        self.send_response(got.status or 503)
        self.send_header("Content-Length", str(len(got.body)))
        self.end_headers()
        self.wfile.write(got.body)

    def do_GET(self):
        self.say(self.server.transport(self.path, None))

    def do_POST(self):
        url = f"http://127.0.0.1:{self.server.server_address[1]}{self.path}"
        self.say(self.server.transport(url, self.rfile.read(int(self.headers["Content-Length"]))))


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
        self.js, self.server, self.path, self.count = js, server, folder / "memory.json", 0

    def study(self, collectors=None, **more):
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        pair = [c._replace(url=f"{base}/{who}") for c, who in zip(COLLECTORS, "ab", strict=True)]
        own = {n: more.pop(n) for n in ("tokens", "family") if n in more}
        return Study(sum_plan(collectors=tuple(pair) if collectors is None else collectors(*pair), **own), **more)

    def __call__(self, one, *steps, transport=None, answers=GOOD, key=ROOT, number=0, **more):
        self.server.transport = transport or one
        self.count += 1
        base = f"http://127.0.0.1:{self.server.server_address[1]}"
        mine = "" if number is None else messages.token_text(token(number))
        return self.js(
            "session", id=more.pop("id", f"{self.path} {self.count}"), answers=answers, memory=str(self.path), now=NOON,
            link=f"{base}/studies/sleep/#k={wire.base(public(key))}&t={mine}",
            steps=steps or ("begin", "prepare", "send"), **more,
        )  # fmt: skip

    def refuses(self, words, one, *steps, **more):
        said = self(one, *steps, **more)
        assert words in said.get("refused", ""), said
        assert not one.posted
        return said

    @property
    def entry(self):
        ((_, entry),) = json.loads(self.path.read_text())
        return entry["report"]


@pytest.fixture
def device(js, server, tmp_path):
    return Device(js, server, tmp_path)


# --- what is sent --------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("role", sum_plan().roles)
def test_each_collector_gets_a_share_and_both_add_up(device, role):
    one = device.study(role=role)
    said = device(one)
    assert said["out"] is True
    assert one.log == ["plan", "state", "a", "b"]
    assert said["log"] == ["get plan", "get state", "post", "kept true", "post", "kept true"]
    assert np.abs(np.array(one.added()) - one.bare()).max() <= 1
    hashes = [wire.base(wire.hash_of(body)) for _, body in one.posted]
    assert said["receipt"] == " ".join(hashes)
    kept = device.entry
    assert (kept["body"], kept["receipt"], kept["mu"]) == (None, said["receipt"], [1, 1])
    for place, body in one.posted:
        share = peers.read_share(body, one.plan, one.hash)
        assert (place, share.state, share.role, share.token) == (place, 0, role, token())


def test_shares_are_drawn_anew_and_say_nothing(js, server, tmp_path):
    seen = []
    for k in range(3):
        folder = tmp_path / f"{k}"
        folder.mkdir()
        device = Device(js, server, folder)
        one = device.study()
        made = device(one, "begin", "prepare", "send")
        assert made["out"] is True
        seen += [tuple(one.opened(place, body).tolist()) for place, body in one.posted]
    assert len(set(seen)) == 6
    words = np.array(seen, dtype=np.uint64).ravel() / 2.0**64
    assert abs(words.mean() - 0.5) < 5.0 / np.sqrt(12.0 * len(words))


def test_rows_that_cannot_be_used_send_shares_of_zeros(device):
    one = device.study()
    assert device(one, answers={**GOOD, "age": ""})["out"] is True
    assert not any(one.added())


def test_what_is_kept_holds_no_answer_and_no_share(device):
    one, row = device.study(), {**GOOD, "age": 43.712345, "hours": 7.654321}
    made = device(one, "begin", "prepare", answers=row)
    assert made["waiting"]["numbers"] == []
    bodies = made["waiting"]["body"].split("\n")
    assert len(bodies) == 2
    for text in (device.path.read_text(), json.dumps(made)):
        for answer in ("43.712345", "7.654321", "night"):
            assert answer not in text
    assert device(one, "begin", "send")["out"] is True
    assert sorted(one.posted) == [(k, body.encode()) for k, body in enumerate(bodies)]
    assert np.abs(np.array(one.added()) - one.bare(row)).max() <= 1


def test_each_is_tried_until_it_has_its_share_with_the_same_bytes(device):
    one = device.study()
    one.fails = {0: [503, -1, 429], 1: [500]}
    assert device(one)["out"] is True
    assert [x for x in one.log if x in "ab"] == ["a", "b", "a", "b", "a", "a"]
    assert len(set(one.posted)) == 2


# --- refusals ------------------------------------------------------------------------------------------------


def test_a_state_that_one_collector_signed_is_refused(device):
    for keys in ((PAIR[0],), (PAIR[1],), (PAIR[0], PAIR[0]), (PAIR[0], key_of(9)), (PAIR[0], ROOT)):
        one = device.study()
        one.publish(keys)
        device.refuses("not signed by both keys", one)
    one = device.study()
    one.publish(PAIR[::-1])
    assert device(one)["out"] is True


@pytest.mark.parametrize("same", ["name", "url", "key", "seal"])
def test_collectors_that_are_one_are_refused(device, same):
    one = device.study()
    said = json.loads(one.payload)
    said["collectors"][1][same] = said["collectors"][0][same]
    if same == "key":
        said["keys"] = [said["keys"][0]] * 2
    one.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
    device.refuses("collectors are one", one)


def test_an_analyst_who_is_a_collector_and_keys_that_are_none_are_refused(device):
    one = device.study(root=PAIR[0])
    device.refuses("the analyst is one of the plan's two collectors", one, key=PAIR[0])
    device.refuses("the analyst is one of", device.study(lambda a, b: (a, b._replace(seal=public(ROOT)))))
    for point in (0, 1):
        one = device.study(lambda a, b, point=point: (a, b._replace(seal=bytes([point] + [0] * 31))))
        device.refuses("is no key", one)
    device.refuses("address", device.study(lambda a, b: (a, b._replace(url="http://b.example.org"))))


@pytest.mark.parametrize("role", sum_plan().roles)
def test_radii_that_dont_keep_the_budget_and_forms_that_are_unknown_are_refused(device, role):
    for change, words in (
        ({"radius": sum_plan().roles[role].radius + 1}, "keep the budget"),
        ({"form": "box"}, "form"),
    ):
        one = device.study()
        said = json.loads(one.payload)
        said["roles"][role].update(change)
        one.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
        device.refuses(words, one)


@pytest.mark.parametrize("family", ["huber", "logistic"])
def test_states_whose_radius_is_for_other_coefficients_than_theirs_are_refused(device, family):
    for role in sum_plan(family).roles:
        scores = role in {"approach", "closing", "main"}  # other reports are as far apart whatever the coefficients
        for theta in ((0.0,) * 5, (0.25,) * 5, (9.0,) * 5, (2.0**60,) * 5)[: 4 if scores else 1]:
            for more in (0, 1):
                one = device.study(family=family)
                one.asks = sum_ask(one.plan, role, theta=theta)
                one.asks = one.asks._replace(radius=one.asks.radius + more)
                one.publish()
                if more:
                    device.refuses("radius of the state", one)
                else:
                    assert device(one)["out"] is True
                device.path.unlink(missing_ok=True)


def test_what_a_device_lacks_is_refused_before_anything_is_stored(device):
    said = device.refuses("X25519", device.study(), broken=["x25519"])
    assert said["missing"]
    said = device.refuses("known-answer", device.study(), broken=["sealer"])
    assert said["log"] == ["get plan"]


# --- not summed ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("posts", "log"), [(0, "abab"), (1, "abaab"), (2, "ab")])
def test_a_report_that_neither_summed_is_made_afresh_in_the_same_call(device, posts, log):
    one = device.study()
    assert device(one, transport=closing_after(one, posts))["out"] is True
    assert "".join(x for x in one.log if x in "ab") == log
    assert np.abs(np.array(one.added()) - one.bare()).max() <= 1
    assert [held[token().id][0] for held in one.held] == [0 if posts == 2 else 1] * 2
    if posts < 2:
        for place in (0, 1):
            first, second = (one.opened(p, b) for p, b in dict.fromkeys(one.posted) if p == place)
            assert (first != second).all()
    again = device(one, "begin")
    assert again["year"] == [None, 0]
    assert again["receipt"]


@pytest.mark.parametrize("late", [0, 1])
def test_if_only_one_deleted_its_share_the_person_is_done(device, late):
    one = device.study()
    one.fails = {} if late else {0: [503]}

    def transport(url, body):
        if body is not None and len(one.posted) == 2 - late and not one.over:
            one.close([token().id])
        return one(url, body)

    said = device(one, transport=transport)
    assert f'too late for "Office {"AB"[late]}"' in said["refused"]
    assert f'"Office {"AB"[1 - late]}" has the other part' in said["refused"]
    assert (device.entry["body"], device.entry["receipt"]) == (None, None)
    assert "answers once" in device(one, "begin")["refused"]


@pytest.mark.parametrize("place", [0, 1])
def test_whose_batch_was_given_up_hears_that_the_report_is_lost_and_what_to_do(device, place):
    one = device.study()
    said = device(one, transport=losing(one, place))["refused"]
    assert f'report is lost: "Office {"AB"[place]}" has given up' in said
    assert "You need do nothing" in said
    assert (device.entry["body"], device.entry["receipt"]) == (None, None)
    assert "answers once" in device(one, "begin")["refused"]
    assert len(one.posted) == place


def test_no_report_is_given_up_because_of_a_forged_word(device):
    one = device.study()
    assert "status 410" in device(one, transport=losing(one, 1, key=PAIR[0]))["refused"]
    assert device.entry["body"]


@pytest.mark.parametrize("what", [*FORGED, "no envelope"])
def test_nothing_is_made_afresh_because_of_a_forged_word(device, what):
    one = device.study()
    one.over.add(0)
    one.number = 1
    given = {"place": 1, "number": 0, "one": token().id, **FORGED.get(what, {})}
    data = b"{}" if what == "no envelope" else one.unsummed(**given)

    def transport(url, body):
        return Answer(410, data) if body is not None and "/b/" in url else one(url, body)

    assert "status 410" in device(one, transport=transport)["refused"]
    assert device.entry["body"]
    assert len({b for _, b in one.posted}) == 1


def test_a_page_that_was_opened_anew_asks_for_the_answers_again(device):
    one = device.study()
    one.fails = {1: [503]}
    assert device(one, patience=0)["out"] is False
    one.close()
    said = device(one, "begin", "send", id="late")
    assert (said["out"], said["waiting"], said["again"]) == (False, None, 0)
    assert device.entry["body"] == ""
    again = device(one, "begin", "asks", "prepare", "send")
    assert again["out"] is True
    assert np.abs(np.array(one.added()) - one.bare()).max() <= 1
    assert device.entry["state"] == 1


def test_the_token_stays_the_same_on_a_page_that_was_opened_anew(device):
    one = device.study(tokens="open")
    one.fails = {1: [503]}
    assert device(one, patience=0, number=None)["out"] is False
    one.close()
    assert device(one, "begin", "send", number=None)["again"] == 0
    assert device(one, "begin", "prepare", "send", number=None)["out"] is True
    assert len({json.loads(body)["token"] for _, body in one.posted}) == 1
    assert {json.loads(body)["state"] for _, body in one.posted} == {0, 1}


def test_another_link_does_not_answer_afresh(device):
    one = device.study()
    one.fails = {1: [503]}
    assert device(one, patience=0)["out"] is False
    one.close()
    assert device(one, "begin", "send")["again"] == 0
    assert "another token" in device(one, "begin", number=1)["refused"]


def test_a_state_of_numbers_beyond_measure_makes_nothing_fail(device):
    for mean in (2.0**60, 2.0**-1060):
        for role in ("main", "moments"):
            one = device.study(role=role)
            rows = tuple((mean,) * 5 for _ in range(5))
            one.asks = sum_ask(one.plan, role, rows=rows, theta=(mean,) * 5, scale=mean, window=mean, ball=mean)
            one.publish()
            assert device(one)["out"] is True
            most = one.asks.radius + 0.5 * math.sqrt(one.plan.roles[role].numbers) + 2.0
            assert sum(v * v for v in one.added()) <= most**2
            device.path.unlink()


def test_a_budget_counts_mu(device):
    one = device.study()
    assert device(one, "begin")["year"] == [1, 1.0]
    two = Study(sum_plan(mu=Mu(9, 4)))
    device.refuses("mu = 2.25 is more than this device allows", two)
    assert study.read_plan(two.payload).mu == Mu(9, 4)
    assert field_state(two.hash, two.asks).number == 0
