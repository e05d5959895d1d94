"""A respondent's way through a study with two collectors: what each gets, what is refused, a device that is killed."""

import json
import math
import sqlite3
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from cryptography.exceptions import InvalidSignature, InvalidTag
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg.protocol.sums import LETTERS
from privreg_field.device import Limits, RefusedError, client, consent, ed25519, respond, seal, session
from privreg_field.device.client import Answer
from privreg_field.device.consent import guess
from privreg_field.device.memory import Memory, Stored
from privreg_field.device.report import sums
from privreg_field.device.report.design import row_of
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.wire import MessageError
from tests.studies import (
    COLLECTORS,
    DAY,
    NOON,
    OPENERS,
    PAIR,
    ROOT,
    field_state,
    key_of,
    public,
    signed,
    sum_ask,
    sum_plan,
    token,
)

SUITE = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
URL = "https://study.example.org/v1/studies/sleep"
GOOD = {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}


class Study:
    """A study's server and its two collectors, which keep what they get, close batches and sign what was not summed."""

    def __init__(self, plan=None, role="main", root=ROOT, **state):
        self.plan = sum_plan() if plan is None else plan
        self.payload = study.plan_payload(self.plan)
        self.hash = wire.hash_of(self.payload)
        self.plan_bytes = signed("plan", self.payload, root)
        self.asks, self.time = sum_ask(self.plan, role), float(NOON)
        self.held = [{}, {}]  # By token's id: number of the batch, body, status
        self.over, self.log, self.posted, self.fails, self.named = set(), [], [], {}, {}
        self.publish(**state)

    def publish(self, keys=PAIR, number=0, before=None, **more):
        state = field_state(self.hash, self.asks, number=number, before=before, **more)
        self.number, self.state = number, messages.state_payload(state)
        self.state_bytes = signed("state", self.state, *keys)
        self.named[number] = wire.hash_of(self.state)

    def close(self, listed=()):
        """End the open batch, of which both sum these tokens, and ask anew."""
        for held in self.held:
            for one, (k, body, status) in list(held.items()):
                if k == self.number and status == "held":
                    held[one] = (k, body, "summed") if one in listed else (k, None, "unsummed")
        self.over.add(self.number)
        self.publish(number=self.number + 1, before=wire.hash_of(self.state), time=NOON + self.number + 1)

    def unsummed(self, place, number, one, *, key=None, kind="unsummed", letter=None, plan=None):
        said = peers.Signed("unsummed", letter or LETTERS[place], number, ids=one)
        return signed(kind, peers.signed_payload(said, plan or self.hash), key or PAIR[place])

    def __call__(self, url, body):
        if body is None:
            self.log.append(url.rpartition("/")[2])
            return Answer(200, {"plan": self.plan_bytes, "state": self.state_bytes}[self.log[-1]])
        place = [f"{c.url}/v1/studies/sleep/shares" for c in self.plan.collectors].index(url)
        self.log.append(LETTERS[place])
        self.posted.append((place, body))
        status = next(iter(self.fails.get(place, ())), None)
        if status is not None:
            self.fails[place] = self.fails[place][1:]
        if status == 200:  # kept, while it closes its batch
            return Answer(200, b"{}")
        if status == -1:  # kept, and the answer lost
            self._take(place, body)
            return Answer(0, b"")
        return Answer(status, b"{}", 3.0) if status else self._take(place, body)

    def _take(self, place, body):
        share = peers.read_share(body, self.plan, self.hash)
        held, one = self.held[place], share.token.id
        k, kept, status = held.get(one, (-1, None, ""))
        if status == "summed" or (status == "held" and k == share.state):
            return Answer(200 if kept == body else 409, b"{}")
        if share.state in self.over:
            held[one] = (share.state, None, "unsummed")
            return Answer(410, self.unsummed(place, share.state, one))
        if share.state != self.number:
            return Answer(412, b"{}")
        held[one] = (share.state, body, "held")
        return Answer(201, b"{}")

    def sleep(self, seconds):
        self.time += seconds
        self.log.append("sleep")

    def opened(self, place, body):
        """What a collector finds in a body."""
        share = peers.read_share(body, self.plan, self.hash)
        info = peers.share_info(LETTERS[place], self.named[share.state], share.token)
        return np.frombuffer(SUITE.decrypt(share.sealed, OPENERS[place], info=info), "<u8")

    def added(self, number=0):
        """Sum of both shares of the one report, as whole numbers."""
        bodies = [held[number_id][1] for held, number_id in zip(self.held, [token(number).id] * 2, strict=True)]
        return sum(self.opened(place, body) for place, body in enumerate(bodies)).astype(np.int64).tolist()

    def bare(self, row=GOOD):
        """What the report must be."""
        return sums.whole(self.plan.role_of(self.asks), sums.of_person(self.plan, self.asks, [row_of(self.plan, row)]))


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path / "memory.sqlite")


def answered(one, memory, row=GOOD, number=0, key=ROOT, **more):
    usual = {"transport": one, "sleep": one.sleep, "clock": lambda: one.time, "consent": True}
    mine = messages.token_text(token(number))
    return respond(URL, mine, row, memory=memory, key=wire.base(public(key)), **{**usual, **more})


def refused(match, one, memory, **more):
    with pytest.raises(RefusedError, match=match):
        answered(one, memory, **more)
    assert not one.posted


# --- what is sent --------------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("role", sum_plan().roles)
def test_each_collector_gets_a_share_and_both_add_up(memory, role):
    one = Study(role=role)
    assert answered(one, memory) == (True, "The report has arrived. Thank you.", one.plan)
    assert one.log == ["plan", "state", "a", "b"]
    assert one.added() == one.bare()
    assert any(one.bare())
    for place, body in one.posted:
        share = peers.read_share(body, one.plan, one.hash)
        assert (share.state, share.role, share.token) == (0, role, token())
        with pytest.raises(InvalidTag):  # bound to the collector, by its key and letter
            one.opened(1 - place, body)


def test_shares_are_drawn_anew_for_every_device(tmp_path):
    seen = []
    for k in range(3):
        one = Study()
        answered(one, Memory(tmp_path / f"{k}.sqlite"))
        seen += [tuple(one.opened(place, body).tolist()) for place, body in one.posted]
    assert len(set(seen)) == 6
    words = np.array(seen, dtype=np.uint64).ravel() / 2.0**64
    assert abs(words.mean() - 0.5) < 5.0 / math.sqrt(12.0 * len(words))


@pytest.mark.some(2)
@pytest.mark.parametrize("row", [{}, {"age": None}, {**GOOD, "shift": "never"}, {**GOOD, "age": math.nan}])
def test_rows_that_cannot_be_used_send_shares_of_zeros_like_all_others(memory, tmp_path, row):
    one, other = Study(), Study()
    assert answered(one, memory, row).sent
    assert answered(other, Memory(tmp_path / "other")).sent
    assert not any(one.added())
    assert [len(b) for _, b in one.posted] == [len(b) for _, b in other.posted]
    assert one.log == other.log


def test_both_bodies_are_written_before_the_first_is_sent(memory):
    one = Study()

    def transport(url, body):
        if body is not None:
            kept = memory.reports(public(ROOT), "sleep").get("sleep")
            assert body in kept.body.split(b"\n")
            assert len(kept.body.split(b"\n")) == 2
        return one(url, body)

    answered(one, memory, transport=transport)
    assert len(one.posted) == 2


def test_no_answer_and_no_share_is_in_what_is_kept_or_said(memory, capsys):
    row = {"age": 41.9876543, "bmi": 23.4567891, "shift": "night", "hours": 6.54321987}
    one, told = Study(), []
    one.fails = {1: [503]}
    out = answered(one, memory, row, consent=lambda words: bool(told.append(words)) or True, patience=0.0)
    assert not out.sent
    assert "Not sent yet: it is busy (status 503)" in out.words
    for text in (*told, out.words, *capsys.readouterr(), memory.path.read_bytes().decode("latin-1")):
        for trace in ("41.98", "23.45", "6.543"):
            assert trace not in text
    assert told == [
        f"{consent.words(one.plan, {**row, 'shift': 'day'})}\n\n{consent.QUESTION}"
    ]  # which name all levels
    assert "night" not in out.words + memory.path.read_bytes().decode("latin-1")
    assert answered(one, memory, {}, consent=False).sent
    assert one.added() == one.bare(row)
    kept = memory.reports(public(ROOT), "sleep").get("sleep")
    hashes = b"".join(wire.hash_of(one.held[place][token().id][1]) for place in (0, 1))
    assert (kept.body, kept.receipt) == (None, hashes)
    for _, body in one.posted:
        assert json.loads(body)["share"].encode() not in memory.path.read_bytes()


def test_a_mistake_in_the_arithmetic_would_send_zeros_and_not_fail(memory, monkeypatch):
    def broken(*given):
        raise ZeroDivisionError("41 years")

    monkeypatch.setattr(session.design, "row_of", broken)
    one = Study()
    assert answered(one, memory).sent
    assert not any(one.added())


def test_consent_names_both_and_says_what_they_see(memory):
    one, told = Study(), []
    refused("without consent", one, memory, consent=lambda words: bool(told.append(words)))
    assert one.log == ["plan"]
    (words,) = told
    for said in (
        "'Office A' (https://a.example.org, A@example.org)", "'Office B' (https://b.example.org, B@example.org)",
        "Neither of them sees an answer", "Both together could", "mu = 1", "69 times of 100",
        "one of the operators included", "Both operators learn that you took part", "one operator of each included",
    ):  # fmt: skip
        assert said in " ".join(words.split())
    for local in ("with random noise added", "From your report", "The study learns", "noise."):
        assert local not in words.replace("random noise: these", "")
    answered(one, memory, {}, consent=lambda words: bool(told.append(words)) or True)
    assert "Your whole report will be zeros." in " ".join(told[1].split())
    assert "Your whole report will be zeros." in " ".join(told[2].split())


# --- refusals ------------------------------------------------------------------------------------------------


def test_a_state_that_one_collector_signed_is_refused(memory):
    for keys in (
        (PAIR[0],),
        (PAIR[1],),
        (PAIR[0], PAIR[0]),
        (PAIR[0], key_of(9)),
        (PAIR[0], ROOT),
        (key_of(8), key_of(9)),
    ):
        one = Study()
        one.publish(keys)
        refused("state is not signed by both keys", one, memory)
    one = Study()
    other = messages.state_payload(field_state(one.hash, sum_ask(one.plan, "moments")))
    sigs = [
        json.loads(signed("state", text, key))["sigs"][0] for text, key in zip((one.state, other), PAIR, strict=True)
    ]
    one.state_bytes = json.dumps({**json.loads(one.state_bytes), "sigs": sigs}).encode()
    refused("state is not signed by both keys", one, memory)
    one.publish((*PAIR[::-1], key_of(9)))
    assert answered(one, memory).sent


def other(**more):
    return (COLLECTORS[0], COLLECTORS[1]._replace(**more))


@pytest.mark.parametrize("same", ["name", "url", "key", "seal"])
def test_collectors_that_are_one_are_refused(memory, same):
    one = Study()
    said = json.loads(one.payload)
    said["collectors"][1][same] = said["collectors"][0][same]
    if same == "key":
        said["keys"] = [said["keys"][0]] * 2
    one.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
    refused(f"same {same}: they are one", one, memory)
    assert one.log == ["plan"]


def test_an_analyst_who_is_a_collector_is_refused(memory):
    for key in PAIR:
        one = Study(root=key)
        refused("the analyst is one of the plan's two collectors", one, memory, key=key)
    one = Study(sum_plan(collectors=other(seal=public(ROOT))))
    refused("the analyst is one", one, memory)
    assert one.log == ["plan"]


@pytest.mark.parametrize("point", [0, 1, seal.P - 1, seal.P])
def test_keys_that_everybody_could_open_shares_of_are_refused(memory, point):
    one = Study(sum_plan(collectors=other(seal=point.to_bytes(32, "little"))))
    refused("is no key", one, memory)
    assert one.log == ["plan"]


@pytest.mark.parametrize("url", ["http://b.example.org", "https://u:p@b.example.org"])
def test_collectors_without_a_safe_address_are_refused(memory, url):
    one = Study(sum_plan(collectors=other(url=url)))
    refused("address", one, memory)
    assert one.log == ["plan"]


def changed(change):
    one = Study()
    said = json.loads(one.payload)
    change(said)
    one.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
    return one


@pytest.mark.some(2)
@pytest.mark.parametrize("role", sum_plan().roles)
def test_radii_that_dont_keep_the_budget_and_forms_that_are_unknown_are_refused(memory, role):
    radius = sum_plan().roles[role].radius
    refused("noise would be too small", changed(lambda p: p["roles"][role].update(radius=radius + 1)), memory)
    for form in ("box", "joint", "moments", "sphere", "ball", "psd" if role != "moments" else "unit"):
        refused("form", changed(lambda p, form=form: p["roles"][role].update(form=form)), memory)


@pytest.mark.parametrize("family", ["huber", "logistic"])
@pytest.mark.parametrize("role", sum_plan().roles)
def test_states_whose_radius_is_for_other_coefficients_than_theirs_are_refused(tmp_path, family, role):
    """The larger ‖θ‖ L of a logistic score is, the farther apart reports are; of others they always are as far."""
    plan = sum_plan(family)
    if role not in plan.roles:
        return
    for theta in ((0.0,) * plan.d, (0.25,) * plan.d, (9.0,) * plan.d, (2.0**60,) * plan.d):
        right = sum_ask(plan, role, theta=theta)
        payload = messages.state_payload(field_state(bytes(32), right))
        assert messages.read_state(payload, plan, bytes(32)).asks == (right,)
        for wrong in (right.radius + 1, 0, 2**30):
            payload = messages.state_payload(field_state(bytes(32), right._replace(radius=wrong)))
            with pytest.raises(MessageError, match="radius"):
                messages.read_state(payload, plan, bytes(32))
    assert (sum_ask(plan, "main", theta=theta).radius < sum_ask(plan, "main").radius) == (family == "logistic")


def test_what_this_version_doesnt_know_is_refused(memory):
    for change in (
        lambda p: p["privacy"].update(mechanism="rounded_gaussian"),
        lambda p: p["privacy"].update(bits=19),
        lambda p: p["privacy"].update(clamp=6),
        lambda p: p["roles"].update(pilot=p["roles"]["main"]),
        lambda p: p.pop("collectors"),
        lambda p: p.pop("sums"),
        lambda p: p["collectors"].pop(),
        lambda p: p["collectors"].append(p["collectors"][0]),
        lambda p: p["score"].update(family="hinge"),
        lambda p: p["sums"].update(more=1),
    ):
        refused(None, changed(change), memory)


def test_a_sealer_that_is_broken_is_found_before_anything_is_asked(memory, monkeypatch):
    monkeypatch.setattr(seal, "KNOWN", "0" * 64)
    one = Study()
    refused("known-answer", one, memory)
    assert one.log == ["plan"]


# --- sending -------------------------------------------------------------------------------------------------


def test_each_is_tried_until_it_has_its_share_with_the_same_bytes(memory):
    one = Study()
    one.fails = {0: [503, -1, 429], 1: [500]}
    assert answered(one, memory).sent
    assert [x for x in one.log if x in LETTERS] == ["a", "b", "a", "b", "a", "a"]
    assert len(set(one.posted)) == 2
    assert one.added() == one.bare()


def test_a_report_waits_for_the_collector_that_lacks_it(memory):
    one = Study()
    one.fails = {1: [503]}
    assert not answered(one, memory, patience=0.0).sent
    assert answered(one, memory, {}, consent=False).sent
    assert len(set(one.posted)) == 2


@pytest.mark.some(3)
@pytest.mark.parametrize("status", [400, 403, 410, 412, 413, 422])
def test_a_collector_that_refuses_is_believed_and_the_bytes_are_kept(memory, status):
    one = Study()
    one.fails = {1: [status]}
    with pytest.raises(RefusedError, match=f"status {status}"):
        answered(one, memory)
    assert memory.reports(public(ROOT), "sleep").get("sleep").body
    assert answered(one, memory).sent
    assert len(set(one.posted)) == 2


def test_a_used_token_is_told_as_one(memory):
    one = Study()
    one.held[1][token().id] = (0, b"another", "held")
    with pytest.raises(RefusedError, match="a report has arrived before, and this one was not taken"):
        answered(one, memory)


# --- not summed ----------------------------------------------------------------------------------------------


def closing_after(one, posts):
    """A transport by which the open batch is closed without this report after so many posts."""

    def transport(url, body):
        if body is not None and len(one.posted) == posts and not one.over:
            one.close()
        return one(url, body)

    return transport


@pytest.mark.parametrize(("posts", "log"), [(0, "abab"), (1, "abaab"), (2, "ab")])
def test_a_report_that_neither_summed_is_made_afresh_in_the_same_call(memory, posts, log):
    one = Study()
    assert answered(one, memory, transport=closing_after(one, posts)).sent
    assert "".join(x for x in one.log if x in LETTERS) == log
    assert one.added() == one.bare()
    number = 0 if posts == 2 else 1
    assert [one.held[place][token().id][0] for place in (0, 1)] == [number] * 2
    assert memory.year(NOON) == [Fraction(1)]  # nothing was released of the first
    if posts < 2:
        shares = {place: [one.opened(p, b) for p, b in dict.fromkeys(one.posted) if p == place] for place in (0, 1)}
        for first, second in shares.values():
            assert (first != second).all()  # fresh shares of the same token
    assert memory.reports(public(ROOT), "sleep").get("sleep").state == number


@pytest.mark.parametrize("late", [0, 1])
def test_if_only_one_deleted_its_share_the_person_is_done(memory, late):
    one = Study()

    one.fails = {} if late else {0: [503]}

    def transport(url, body):
        if body is not None and len(one.posted) == 2 - late and not one.over:
            one.close([token().id])  # what has arrived is summed, or lost with its batch
        return one(url, body)

    with pytest.raises(
        RefusedError, match=f"too late for 'Office {'AB'[late]}'.*'Office {'AB'[1 - late]}' has the other"
    ):
        answered(one, memory, transport=transport)
    posted = len(one.posted)
    kept = memory.reports(public(ROOT), "sleep").get("sleep")
    assert (kept.body, kept.receipt) == (None, None)
    assert memory.year(NOON) == [Fraction(1)]
    with pytest.raises(RefusedError, match="answers once"):
        answered(one, memory)
    assert len(one.posted) == posted
    assert json.loads(one.posted[0][1])["share"].encode() not in memory.path.read_bytes()


def losing(study, place, **more):
    """A transport by which one of the two has given up the batch; `more` is what is wrong with its word."""
    said = study.unsummed(**{"place": place, "number": 0, "one": token().id, "kind": "lost", **more})
    url = f"{study.plan.collectors[place].url}/v1/studies/sleep/shares"
    return lambda where, body: Answer(410, said) if where == url else study(where, body)


@pytest.mark.parametrize("place", [0, 1])
def test_whose_batch_was_given_up_hears_that_the_report_is_lost_and_what_to_do(memory, place):
    one = Study()
    with pytest.raises(RefusedError, match=f"report is lost: 'Office {'AB'[place]}' has given up.*You need do nothing"):
        answered(one, memory, transport=losing(one, place))
    kept = memory.reports(public(ROOT), "sleep").get("sleep")
    assert (kept.body, kept.receipt) == (None, None)
    with pytest.raises(RefusedError, match="answers once"):
        answered(one, memory)
    assert len(one.posted) == place


@pytest.mark.parametrize("what", [{"key": PAIR[0]}, {"letter": "a"}, {"plan": bytes(32)}, {"number": 1}, {"one": b""}])
def test_no_report_is_given_up_because_of_a_forged_word(memory, what):
    one = Study()
    with pytest.raises(RefusedError, match="status 410"):
        answered(one, memory, transport=losing(one, 1, **what))
    assert memory.reports(public(ROOT), "sleep").get("sleep").body


def test_a_collector_that_still_closes_its_batch_is_asked_until_it_has(memory):
    one = Study()
    one.fails = {0: [0, 200, 200, 200]}  # the other has closed it, and has not got this share
    assert answered(one, memory, transport=closing_after(one, 1)).sent
    assert "".join(x for x in one.log if x in LETTERS) == "abaaaaab"
    assert one.added() == one.bare()


def test_a_collector_that_was_long_away_may_still_close_its_batch(memory):
    one = Study()
    one.fails = {0: [503] * 8, 1: [0, 200]}
    assert answered(one, memory, transport=closing_after(one, 9)).sent
    assert "".join(x for x in one.log if x in LETTERS) == "abaaaaaaa" + "abb" + "ab"
    assert one.added() == one.bare()


FORGED = {
    "by the other collector": {"key": PAIR[0]},
    "by the analyst": {"key": ROOT},
    "for the other collector": {"letter": "a"},
    "of another message": {"kind": "state"},
    "of another plan": {"plan": bytes(32)},
    "of another state": {"number": 1},
    "of another token": {"one": token(1).id},
    "of no token": {"one": b""},
    "of two tokens": {"one": token(0).id + token(1).id},
}


@pytest.mark.parametrize("what", [*FORGED, "no envelope"])
def test_nothing_is_made_afresh_because_of_a_forged_word(memory, what):
    """The first has signed that it deleted the share: the second's word is all that is between it and another."""
    one = Study()
    one.over.add(0)
    one.number = 1
    given = {"place": 1, "number": 0, "one": token().id, **FORGED.get(what, {})}
    data = b"{}" if what == "no envelope" else one.unsummed(**given)

    def transport(url, body):
        return Answer(410, data) if body is not None and "//b." in url else one(url, body)

    with pytest.raises(RefusedError, match="status 410"):
        answered(one, memory, transport=transport)
    assert memory.reports(public(ROOT), "sleep").get("sleep").body
    assert len({b for _, b in one.posted}) == 1


def test_a_later_call_asks_for_consent_before_it_answers_afresh(memory):
    one = Study()
    one.fails = {1: [503]}
    assert not answered(one, memory, patience=0.0).sent
    one.close()
    with pytest.raises(RefusedError, match="without consent"):
        answered(one, memory, consent=False)
    kept = memory.reports(public(ROOT), "sleep").get("sleep")
    assert (kept.body, kept.state) == (b"", 0)  # both bodies are deleted
    told = []
    assert answered(one, memory, consent=lambda words: bool(told.append(words)) or True).sent
    assert "study 1 this year" in told[0]
    assert one.added() == one.bare()
    assert memory.year(NOON) == [Fraction(1)]


def test_the_token_stays_the_same_in_a_later_call(memory):
    one = Study(sum_plan(tokens="open"))
    one.fails = {1: [503]}
    usual = {"transport": one, "sleep": one.sleep, "clock": lambda: one.time, "key": wire.base(public(ROOT))}
    assert not respond(URL, None, GOOD, True, memory=memory, patience=0.0, **usual).sent
    one.close()
    assert respond(URL, None, GOOD, True, memory=memory, **usual).sent
    assert len({json.loads(body)["token"] for _, body in one.posted}) == 1
    assert {json.loads(body)["state"] for _, body in one.posted} == {0, 1}


def test_a_study_that_was_begun_with_one_token_is_not_answered_afresh_with_another(memory):
    one = Study()
    one.fails = {1: [503]}
    assert not answered(one, memory, patience=0.0).sent
    one.close()
    with pytest.raises(RefusedError, match="another token"):
        answered(one, memory, number=1)
    assert answered(one, memory).sent


def test_a_report_that_was_not_summed_waits_for_the_next_state(memory):
    one = Study()
    one.over.add(0)

    def sleep(seconds):
        one.sleep(seconds)
        if one.number == 0:
            one.close()

    assert answered(one, memory, sleep=sleep).sent
    assert one.log == ["plan", "state", "a", "b", "state", "sleep", "state", "a", "b"]


def test_after_the_study_nothing_is_made_afresh(memory):
    one = Study()
    one.close()
    before = wire.hash_of(one.state)
    one.publish(number=2, before=before, time=NOON + 5, open=False)
    answered_before = Study()
    one.state_bytes, last = answered_before.state_bytes, one.state_bytes

    def transport(url, body):
        if body is not None:
            one.state_bytes = last
        return one(url, body)

    with pytest.raises(RefusedError, match="doesn't ask anybody now"):
        answered(one, memory, transport=transport)
    assert memory.reports(public(ROOT), "sleep").get("sleep").body == b""


# --- a device that is killed ---------------------------------------------------------------------------------


class Killed(BaseException):
    """The process ends here."""


def killing(at, one, monkeypatch):
    """A device that ends before or after its step of this number: a message, or a write to its memory."""
    steps = [0]

    def step():
        steps[0] += 1
        if steps[0] == at:
            raise Killed

    def around(work):
        def wrapped(*given, **more):
            step()
            out = work(*given, **more)
            step()
            return out

        return wrapped

    for name in ("store", "again", "unsummed", "arrived", "note"):
        monkeypatch.setattr(Memory, name, around(getattr(Memory, name)))
    return around(closing_after(one, 1))


@pytest.fixture
def quick(monkeypatch):
    """Signatures and products of keys by a compiled library: tests/device has what shows that they are the same."""

    def verify(key, message, signature):
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
        except InvalidSignature:
            return False
        return True

    def product(scalar, point):
        return X25519PrivateKey.from_private_bytes(scalar).exchange(X25519PublicKey.from_public_bytes(point))

    monkeypatch.setattr(ed25519, "verify", verify)
    monkeypatch.setattr(seal, "x25519", product)
    monkeypatch.setattr(session.noise, "check", lambda: None)


def test_a_device_that_is_killed_at_any_step_goes_on_where_it_was(tmp_path, quick):
    """The first report arrives at one collector alone, both delete it, and the second is made afresh."""
    at = 0
    while True:
        at += 1
        one, memory = Study(), Memory(tmp_path / f"{at}.sqlite")
        with pytest.MonkeyPatch.context() as patched:
            transport = killing(at, one, patched)
            try:
                out = answered(one, memory, transport=transport)
            except Killed:
                out = None
        if out is None:
            kept = memory.reports(public(ROOT), "sleep").get("sleep")
            if kept is not None and kept.body is None:
                with pytest.raises(RefusedError, match="answers once"):
                    answered(one, memory)
            else:
                assert answered(one, memory, transport=closing_after(one, 1)).sent
        assert one.added() == one.bare()
        states = {}
        for place, body in one.posted:
            states.setdefault((place, json.loads(body)["state"]), set()).add(body)
        assert all(len(bodies) == 1 for bodies in states.values())  # never other shares for one state
        assert memory.year(NOON) == [Fraction(1)]
        assert memory.reports(public(ROOT), "sleep").get("sleep").body is None
        if out is not None:
            break
    assert at > 25


def test_of_two_calls_at_once_one_fresh_report_is_sent(memory):
    """Another call of this device answers afresh while this one waits for the state."""
    one = Study()
    one.fails = {1: [503]}
    assert not answered(one, memory, patience=0.0).sent
    one.close()
    faster = []

    def transport(url, body):
        if body is None and url.endswith("state") and not faster:
            faster.append(True)
            one.fails = {0: [503]}
            assert not answered(one, memory, patience=0.0).sent
        return one(url, body)

    assert answered(one, memory, transport=transport).sent
    assert len({b for _, b in one.posted if json.loads(b)["state"] == 1}) == 2
    assert one.added() == one.bare()


# --- budgets and memory --------------------------------------------------------------------------------------


def test_a_year_counts_mu_and_not_what_both_noises_make_of_it(memory):
    one = Study(sum_plan(mu=Mu(3, 2)))
    assert answered(one, memory).sent
    assert memory.year(NOON) == [Fraction(3, 2)]
    second = Study(sum_plan(mu=Mu(3, 2), study="wake", release_group="another"))
    refusing = Limits(total=Fraction(21, 10))  # √2 · 1.5 = 2.12
    with pytest.raises(RefusedError, match=r"cost mu = 2\.121 together"):
        respond(
            URL.replace("sleep", "wake"), messages.token_text(token(1)), GOOD, True, key=wire.base(public(ROOT)),
            memory=memory, limits=refusing, clock=lambda: NOON,
            transport=lambda url, body: second(url.replace("/wake/", "/sleep/"), body),
        )  # fmt: skip
    assert not second.posted
    assert f"{100 * guess(1.5):.0f}" == "77"


OLD = """
CREATE TABLE study (
    root BLOB NOT NULL, slug TEXT NOT NULL, plan BLOB NOT NULL, number INTEGER NOT NULL, state BLOB NOT NULL,
    time INTEGER NOT NULL, PRIMARY KEY (root, slug));
CREATE TABLE report (
    plan BLOB PRIMARY KEY, token BLOB NOT NULL UNIQUE, root BLOB NOT NULL, slug TEXT NOT NULL, release TEXT NOT NULL,
    p INTEGER NOT NULL, q INTEGER NOT NULL, state INTEGER NOT NULL, time INTEGER NOT NULL, clock INTEGER NOT NULL,
    body BLOB, receipt BLOB, UNIQUE (root, slug));
"""
"""What a memory's tables were before there were two collectors."""


def test_a_memory_of_earlier_is_read_and_goes_on(tmp_path):
    path = tmp_path / "old.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.executescript(OLD)
        own = (b"plan", token(7).id, b"root", "wake", "a group", 3, 2, 4, NOON, NOON)
        db.execute("INSERT INTO report VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", (*own, b"waiting", None))
        db.commit()
    memory = Memory(path)
    assert memory.reports(b"root", "wake").get("wake") == Stored(b"plan", token(7).id, 4, b"waiting", None)
    assert memory.year(NOON) == [Fraction(3, 2)]
    one = Study()
    assert answered(one, memory).sent
    assert sorted(memory.year(NOON)) == [Fraction(1), Fraction(3, 2)]
    assert memory.reports(b"root", "wake").get("wake").body == b"waiting"


def test_constants_of_these_tests():
    assert {0, 429, 500, 503} <= client.RETRIED
    assert 410 not in client.RETRIED
    assert lattice.bits_of_sums(Mu(1, 1)) == 20
    assert DAY == 86_400
