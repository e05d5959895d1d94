"""A respondent's way through a study: what is sent, what is remembered, and all that is refused."""

import json
import math
import os
import sqlite3
import stat
import urllib.error
import urllib.request
from contextlib import closing, contextmanager
from email.message import Message
from fractions import Fraction
from io import BytesIO, StringIO

import pytest

from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg_field.device import Limits, RefusedError, client, command, consent, respond, session
from privreg_field.device.client import Answer, invitation, waits
from privreg_field.device.consent import guess
from privreg_field.device.exchange import PATIENCE
from privreg_field.device.memory import Memory, Stored, StoreError, default_path
from privreg_field.device.report import answer, noise
from privreg_field.wire import messages, study, wire
from privreg_field.wire.messages import WORDS
from tests.studies import (
    CLAMPING,
    DAY,
    HIDDEN,
    NOON,
    ONE,
    ROOT,
    SERVER,
    ask,
    const,
    field_state,
    key_of,
    public,
    signed,
    study_plan,
    sum_plan,
    token,
)

URL = "https://study.example.org/v1/studies/sleep"
KEY = wire.base(public(ROOT))
GOOD = {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7}

YEAR = "This would be study 1 this year. From all of them together somebody"


class Server:
    """A study's server that keeps what it gets."""

    def __init__(self, plan=None, role="main", **state):
        self.plan = study_plan() if plan is None else plan
        self.payload = study.plan_payload(self.plan)
        self.hash = wire.hash_of(self.payload)
        self.plan_bytes = signed("plan", self.payload, ROOT)
        self.publish(field_state(self.hash, ask(self.plan, role), **state))
        self.posted, self.asked, self.slept, self.fails = [], [], [], []
        self.time = float(NOON)

    def publish(self, state, key=SERVER):
        self.state = messages.state_payload(state)
        self.state_bytes = signed("state", self.state, key)

    def __call__(self, url, body):
        assert url.startswith(URL + "/")
        path = url.removeprefix(URL + "/")
        self.asked.append(path)
        if self.fails:
            status = self.fails.pop(0)
            if status == -1:  # stored, and the answer lost
                self.posted.append(body)
                return Answer(0, b"")
            if status:
                return Answer(status, b'{"detail": "31 years"}', 7.0)
        if path == "plan":
            return Answer(200, self.plan_bytes)
        if path == "state":
            return Answer(200, self.state_bytes)
        assert path == "reports"
        self.posted.append(body)
        return Answer(201 if self.posted.count(body) == 1 else 200, b"{}")

    def sleep(self, seconds):
        self.slept.append(seconds)
        self.time += seconds

    @property
    def report(self):
        (body,) = set(self.posted)
        return messages.read_report(body, self.plan, self.hash)


@pytest.fixture
def memory(tmp_path):
    return Memory(tmp_path / "device" / "memory.sqlite")


def answered(server, memory, row=None, given=None, url=URL, **more):
    usual = {"transport": server, "sleep": server.sleep, "clock": lambda: server.time, "consent": True, "key": KEY}
    given = messages.token_text(token()) if given is None else given
    return respond(url, given or None, GOOD if row is None else row, memory=memory, **{**usual, **more})


def refused(match, server, memory, *given, **more):
    with pytest.raises(RefusedError, match=match):
        answered(server, memory, *given, **more)
    assert not server.posted


# --- what is sent --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("role", study.ROLES)
def test_a_report_arrives_and_only_its_noise_is_new(memory, role, monkeypatch):
    monkeypatch.setattr(answer, "rounded_normal", lambda bits, words: 1000 + 0 * words.word())
    server = Server(study_plan(clamping=CLAMPING), role)
    assert answered(server, memory) == (True, "The report has arrived. Thank you.", server.plan)
    assert server.asked == ["plan", "state", "reports"]
    place = messages.place_of(server.hash, token())
    group = messages.group_of(server.plan, role, place)
    from privreg_field.device.report.design import row_of

    one, form = ask(server.plan, role), server.plan.roles[role]
    bare = answer.values(form, answer.before_noise(server.plan, one, group, row_of(server.plan, GOOD)))
    assert any(bare) or role in {"location", "clamping"}  # all below their thresholds, within their bounds
    assert server.report == (server.hash, 0, role, token(), tuple(v + 1000 for v in bare))


def test_noise_is_drawn_anew_for_every_device(tmp_path):
    seen = set()
    for k in range(3):
        server = Server()
        answered(server, Memory(tmp_path / f"{k}.sqlite"))
        seen.add(server.report.values)
    assert len(seen) == 3


def test_a_token_asks_for_its_own_role(memory):
    server, place = Server(), messages.place_of(Server().hash, token())
    for below, role in ((place.role + 1, "location"), (place.role, "main")):
        server = Server()
        asks = ask(server.plan, "location", below=below), ask(server.plan, "main")
        server.publish(field_state(server.hash, *asks))
        fresh = Memory(memory.path.with_name(f"{role}.sqlite"))
        answered(server, fresh)
        assert server.report.role == role


def test_an_open_study_takes_a_token_of_the_devices_own(memory):
    server = Server(study_plan(tokens="open"))
    answered(server, memory, given="")
    assert server.report.token.key == 0
    refused("takes no token", Server(study_plan(tokens="open")), Memory(memory.path.with_name("b")))


def test_the_invitation_holds_key_and_token(memory):
    server = Server()
    link = f"{URL}#k={KEY}&t={messages.token_text(token(4))}"
    respond(link, row=GOOD, consent=True, memory=memory, transport=server, sleep=server.sleep, clock=lambda: NOON)
    assert server.report.token == token(4)


@pytest.mark.parametrize(
    "row",
    [{}, {"age": None}, {**GOOD, "shift": " "}, {**GOOD, "age": math.nan}, {**GOOD, "hours": ""}, {"x": [1]}],
)
def test_rows_without_an_answer_send_reports_like_all_others(memory, row):
    server = Server()
    assert answered(server, memory, row).sent
    assert len(server.report.values) == 5
    assert server.asked == ["plan", "state", "reports"]


WRONG = [
    ({"shift": "nigth"}, "'shift' must be one of 'day', 'night', 'both'."),
    ({"shift": True}, "'shift' must be one of"),
    ({"age": "old", "shift": "Day"}, "'age' must be a number; 'shift' must be one of"),
    ({"age": math.inf}, "'age' must be a number."),
    ({"hours": [7]}, "'hours' must be a number."),
]


@pytest.mark.some(1)
@pytest.mark.parametrize("missing", ["noise", "refuse"])
@pytest.mark.parametrize(("answers", "words"), WRONG, ids=[",".join(a) for a, _ in WRONG])
def test_an_answer_that_is_none_of_the_choices_is_stopped_before_a_state_is_asked_for(memory, answers, words, missing):
    server = Server(study_plan(missing=missing))
    with pytest.raises(RefusedError) as e:
        answered(server, memory, {**GOOD, **answers}, consent=lambda words: True)
    assert words in str(e.value)
    assert "nigth" not in str(e.value)
    assert server.asked == ["plan"]
    assert answered(server, memory, GOOD).sent  # corrected, it is sent


@pytest.mark.parametrize(("answers", "words"), WRONG, ids=[",".join(a) for a, _ in WRONG])
def test_a_device_that_nobody_watches_is_not_silent_about_such_an_answer(memory, answers, words):
    """Whether a report comes must not depend on an answer: levels may be declared so that some have none to give."""
    server = Server()
    out = answered(server, memory, {**GOOD, **answers}, consent=True)
    assert out.sent
    assert server.asked == ["plan", "state", "reports"]
    assert "Your whole report will be noise" in " ".join(out.words.split())
    assert all(repr(name) in out.words for name in answers)


def test_bodies_are_equally_long_whatever_the_row_holds(tmp_path):
    sizes = set()
    for k, row in enumerate(({}, GOOD, {**GOOD, "age": 10**300}, {**GOOD, "bmi": -5})):
        server = Server()
        answered(server, Memory(tmp_path / f"{k}.sqlite"), row)
        sizes.add(len(server.posted[0]))
    assert len(sizes) == 1


def test_no_answer_is_in_what_is_sent_kept_or_said(memory, capsys, caplog):
    row = {"age": 41.9876543, "bmi": 23.4567891, "shift": "night", "hours": 6.54321987, "unasked": "a secret of mine"}
    server, told = Server(), []
    server.fails = [0, 0, 503, 400]
    with pytest.raises(RefusedError) as e:
        answered(server, memory, row, consent=lambda words: bool(told.append(words)) or True)
    out = answered(server, memory, row)
    seen = [*told, str(e.value), repr(e.value), out.words, caplog.text, *capsys.readouterr(), *server.asked]
    seen += [body.decode() for body in server.posted]
    seen.append(memory.path.read_bytes().decode("latin-1"))
    for text in seen:
        for trace in ("41.98", "23.45", "6.543", "secret", *(["night"] if text not in told else [])):
            assert trace not in text
    assert told == [
        f"{consent.words(server.plan, {**row, 'shift': 'day'})}\n\n{consent.QUESTION}"
    ]  # which name all levels
    assert sorted(json.loads(server.posted[0])) == ["plan", "role", "state", "token", "v", "values"]


def test_a_mistake_in_the_arithmetic_would_send_noise_and_not_fail(memory, monkeypatch):
    def broken(*given):
        raise ZeroDivisionError("41 years")

    monkeypatch.setattr(session.design, "row_of", broken)
    monkeypatch.setattr(answer, "rounded_normal", lambda bits, words: 0)
    server = Server()
    assert answered(server, memory).sent
    assert not any(server.report.values)


# --- consent -------------------------------------------------------------------------------------------------


def test_without_consent_no_state_is_asked_for(memory):
    server, told = Server(), []
    refused("without consent", server, memory, consent=lambda words: told.append(words))
    refused("without consent", server, memory, consent=False)
    assert server.asked == ["plan", "plan"]
    (words,) = told
    for said in (
        "Sleep and shift work", "How sleep goes with", "study@example.org", "mu = 1", "69 times of 100", "How old are",
        "bmi", "once", "√2",
    ):  # fmt: skip
        assert said in words
    assert "visits" not in words  # what isn't used isn't asked
    assert "41" not in words


def test_what_is_missing_is_said_to_the_respondent_alone(memory):
    told = []
    answered(Server(), memory, {**GOOD, "bmi": " "}, consent=lambda words: bool(told.append(words)) or True)
    assert "Missing, or not to be read: 'bmi'." in told[0]
    assert "Missing, or not to be read: 'bmi'." in told[1]


AGE = "Your answer to 'age' is not a number from 18 to 90: it counts as {}, the nearest that is."


@pytest.mark.parametrize(("age", "kept"), [(17, 18), (91.5, 90), ("-3", 18), (10**300, 90)])
def test_an_answer_out_of_bounds_stops_once_with_what_is_allowed(memory, age, kept):
    row, said, server, told = {**GOOD, "age": age}, AGE.format(kept), Server(), []
    refused("mend your answers", server, memory, row, consent=lambda words: told.append(words))
    assert server.asked == ["plan"]  # no state: whoever mends an answer has told nobody
    assert len(told) == 1
    assert " ".join(told[0].split()) == f"{said} {consent.GO_ON}"
    told.clear()
    out = answered(server, memory, row, consent=lambda words: bool(told.append(words)) or True)
    assert [text.rpartition("\n")[2] for text in told] == [consent.GO_ON, consent.QUESTION]
    assert said in " ".join(told[1].split())
    assert " ".join(out.words.split()) == f"The report has arrived. Thank you. {said}"
    assert not consent.doubts(server.plan, {**GOOD, "age": kept})


def test_whoever_agrees_beforehand_is_not_stopped_and_told_afterwards(memory):
    """A device that nobody watches must not be silent because of what an answer is: that would tell."""
    out = answered(Server(), memory, {**GOOD, "age": 120, "hours": -1})
    assert out.sent
    assert "it counts as 90" in out.words
    assert "it counts as 0" in out.words


def test_what_may_be_answered_is_said(memory):
    shift = study_plan().columns[2]
    labels = ("By day", "At night", "Both")
    assert consent.allowed(shift) == "one of day, night, both"
    assert consent.allowed(shift._replace(labels=labels)) == "one of day (By day), night (At night), both (Both)"
    assert [consent.allowed(shift._replace(levels=(), low=low, high=high)) for low, high in (
        (18.0, 90.0), (0.5, math.inf), (-math.inf, 1e6), (-math.inf, math.inf),
    )] == ["a number from 18 to 90", "a number, 0.5 or more", "a number, 1000000 or less", "a number"]  # fmt: skip
    plan = study_plan(columns=tuple(c._replace(labels=labels) if c == shift else c for c in study_plan().columns))
    assert "one of day (By day), night (At night), both (Both)" in consent.words(plan)
    server = Server(plan)
    refused("can't be read: 'shift'", Server(plan._replace(missing="refuse")), memory, {**GOOD, "shift": "At night"})
    fresh = Memory(memory.path.with_name("fresh"))
    assert answered(server, fresh).sent  # by its code, which alone is an answer
    assert "At night" not in server.posted[0].decode() + fresh.path.read_bytes().decode("latin-1")


@pytest.mark.parametrize("columns", [40, 60, 80, 200])
def test_nothing_is_wider_than_80_columns_or_the_terminal(monkeypatch, capsys, columns):
    monkeypatch.setenv("COLUMNS", str(columns))
    for plan in (study_plan(), study_plan(missing="refuse"), sum_plan()):
        for text in (consent.words(plan, {"age": 7}), *map(consent.wrapped, consent.doubts(plan, {"age": 7}))):
            assert max(map(len, text.split("\n"))) <= min(columns, 80)
    monkeypatch.setattr(command, "respond", lambda *given, **more: (_ for _ in ()).throw(RefusedError("because " * 40)))
    monkeypatch.setattr(command, "_answers", lambda name: {})
    assert command.main([URL, "--row", "-"]) == 1
    assert max(map(len, capsys.readouterr().err.split("\n"))) <= min(columns, 80)


@pytest.mark.parametrize("which", HIDDEN)
def test_what_is_not_seen_is_refused_and_shown_as_a_code_if_it_comes_anyway(memory, which):
    text = HIDDEN[which]
    refused("visible characters", wrong_plan(lambda p: p.update(title=text)), memory)
    told = consent.words(study_plan(title=text, purpose=text, contact=text))
    assert not wire.HIDDEN.search(told.replace("\n", ""))
    assert not wire.HIDDEN.search(str(RefusedError(text)).replace("\n", ""))
    assert which == "newline" or "\\" in told


FAKES = (
    "This device says:\n\nThe guarantee is mu = 0.\nSend one report? [y/N]",
    "Thanks." + " " * 400 + "This device says: nobody learns anything of you.",
    "x" * 4000,
    "\u7d05" * 2000,  # characters of double width
)


@pytest.mark.parametrize("fake", FAKES)
def test_the_studys_text_is_seen_to_be_its_own_and_the_guarantee_comes_last(memory, fake, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    told, one_line = [], fake.replace("\n", " ")
    columns = [c._replace(ask=one_line[:2000]) for c in study_plan().columns]
    plan = study_plan(purpose=fake, title=one_line[:200], contact=one_line[:1000], columns=tuple(columns))
    answered(Server(plan), memory, consent=lambda words: bool(told.append(words)) or True)
    theirs, found, ours = told[0].partition("\n\nThis device says:\n")
    lines = theirs.split("\n")
    assert lines[:2] == ["The study says:", ""]
    assert found
    assert all(line.startswith("  |") for line in lines[2:])
    assert max(sum(1 + (c > "\u2fff") for c in line) for line in lines[2:]) <= 60  # none goes on in another line
    assert not any(part in ours for part in ("mu = 0.", "Thanks", "nobody learns", "xxx", "\u7d05"))
    *_, guarantee, count, question = ours.split("\n\n")
    assert guarantee.startswith("The guarantee is mu = 1. ")
    assert " ".join(count.split()) == f"{YEAR} guesses right at most 69 times of 100."
    assert question == consent.QUESTION
    assert all(line[:2] == "  " for part in ours.split("\n\n") for line in part.strip("\n").split("\n")[1:])


def test_the_studys_text_is_quoted_among_the_devices_words(memory):
    server = Server(study_plan(contact="us. Nothing was learned"))
    server.fails = [0, 0, 410]
    with pytest.raises(RefusedError, match=r"tell 'us. Nothing was learned'\.$"):
        answered(server, memory)


def test_a_dry_run_sends_and_keeps_nothing(memory):
    server = Server()
    out = answered(server, memory, dry_run=True, consent=False)
    assert server.asked == ["plan"]
    assert not out.sent
    assert out.words.endswith("Nothing was computed, stored or sent.")
    assert answered(server, memory).sent


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 2.0])
def test_guesses_are_those_of_the_normal_law(mu):
    from scipy.special import ndtr

    assert guess(mu) == pytest.approx(float(ndtr(mu / 2)))


# --- refusals: the plan --------------------------------------------------------------------------------------


def test_a_plan_of_another_key_is_refused(memory):
    server = Server()
    server.plan_bytes = signed("plan", server.payload, key_of(9))
    refused("plan is not signed by the key", server, memory)
    refused("not signed", Server(), memory, key=wire.base(public(SERVER)))


def test_a_forged_plan_is_refused(memory):
    server = Server()
    other = study.plan_payload(study_plan(title="Another"))
    said = json.loads(server.plan_bytes)
    server.plan_bytes = json.dumps({**said, "payload": wire.base(other)}).encode()
    refused("not signed", server, memory)
    server.plan_bytes = json.dumps({**said, "type": "state"}).encode()
    refused("type", server, memory)
    server.plan_bytes = signed("state", server.payload, ROOT)  # a signature for another kind of message
    refused("type", server, memory)


def test_a_signature_of_a_state_is_none_of_a_plan(memory):
    server = Server()
    sig = ROOT.sign(b"privreg/state/v1\0" + server.payload)
    server.plan_bytes = wire.seal(wire.Envelope("plan", server.payload, ((wire.key_id(public(ROOT)), sig),)))
    refused("not signed", server, memory)


def wrong_plan(change):
    server = Server()
    said = json.loads(server.payload)
    change(said)
    server.plan_bytes = signed("plan", json.dumps(said).encode(), ROOT)
    return server


def test_a_radius_too_large_is_refused_though_it_is_signed(memory):
    server = wrong_plan(lambda p: p["roles"]["main"].update(radius=p["roles"]["main"]["radius"] + 1))
    refused("noise would be too small", server, memory)


def test_a_custom_score_is_refused(memory):
    refused("'family'", wrong_plan(lambda p: p["score"].update(family="custom")), memory)


def test_what_comes_later_is_refused(memory):
    for change in (
        lambda p: p.update(v=2),
        lambda p: p["privacy"].update(mechanism="laplace"),
        lambda p: p.update(cluster="household"),
        lambda p: p["design"]["columns"][0].update(tree=["sin", ["col", "age"]]),
    ):
        refused("this version", wrong_plan(change), memory)


def test_a_plan_of_another_study_is_refused(memory):
    refused("another study", Server(study_plan(study="wake")), memory)


def test_a_plan_that_changes_is_refused(memory):
    server = Server(slots=(0, 0))  # nobody's turn yet
    refused("turn", server, memory, patience=0.0)
    other = Server(study_plan(title="Sleep, again"))
    refused("not the one that this device has seen before", other, memory)


def test_a_budget_beyond_the_devices_is_refused(memory):
    refused("mu = 2.5 is more", Server(study_plan(mu=Mu(5, 2))), memory)
    refused("mu = 1 is more", Server(), memory, limits=Limits(mu=Fraction(1, 2)))


def test_missing_answers_are_refused_before_a_state_is_asked_for_where_the_plan_says_so(memory):
    server = Server(study_plan(missing="refuse"))
    refused("answers are missing or can't be read: 'bmi'", server, memory, {**GOOD, "bmi": None})
    assert server.asked == ["plan"]
    told = []
    assert answered(server, memory, consent=lambda words: bool(told.append(words)) or True).sent
    assert "that you don't answer shows" in " ".join(told[0].split())


def test_an_oversized_plan_is_refused(memory):
    server = Server()
    server.plan_bytes = server.plan_bytes + b" " * (3 << 20)
    refused("longer", server, memory)


@pytest.mark.parametrize("status", [400, 403, 404, 410, 301])
def test_a_plan_that_cannot_be_had_is_said_so_without_the_servers_words(memory, status):
    server = Server()
    server.fails = [status]
    with pytest.raises(RefusedError, match=f"status {status}") as e:
        answered(server, memory)
    assert "31" not in str(e.value)


# --- refusals: states ----------------------------------------------------------------------------------------


def test_a_state_of_another_key_is_refused(memory):
    server = Server()
    server.publish(field_state(server.hash, ask(server.plan, "main")), key_of(9))
    refused("state is not signed", server, memory)
    server.publish(field_state(server.hash, ask(server.plan, "main")), ROOT)
    refused("state is not signed", server, memory)  # the analyst's key is for the plan alone


def turn(server, number, before, time, role="main", **more):
    server.publish(field_state(server.hash, ask(server.plan, role), number=number, before=before, time=time, **more))


def test_states_that_go_back_are_refused(memory):
    server = Server()
    turn(server, 5, bytes(32), NOON, slots=(0, 0))
    latest = server.state
    refused("turn", server, memory, patience=0.0)
    turn(server, 4, bytes(32), NOON + 1)
    refused("go back", server, memory)
    turn(server, 6, wire.hash_of(latest), NOON - 1)
    refused("go back", server, memory)
    turn(server, 5, bytes(32), NOON)  # another state of the same number
    refused("others than seen before", server, memory)
    turn(server, 6, bytes(32), NOON)  # which doesn't follow
    refused("others than seen before", server, memory)
    turn(server, 6, wire.hash_of(latest), NOON)
    assert answered(server, memory).sent


def test_a_first_state_follows_the_plan(memory):
    server = Server(before=bytes(32))
    refused("doesn't follow the plan", server, memory)


def test_a_study_that_is_closed_or_not_yet_open_is_refused(memory):
    for time in (NOON - 2 * DAY, NOON + 31 * DAY):
        refused("doesn't ask anybody now", Server(time=time), Memory(memory.path.with_name(f"{time}")))
    refused("doesn't ask anybody now", Server(open=False), memory)


def test_a_token_waits_for_its_turn(memory):
    server = Server(slots=(0, 0))
    before = server.state

    def sleep(seconds):
        server.sleep(seconds)
        turn(server, 1, wire.hash_of(before), NOON + 60, slots=(0, WORDS))

    answered(server, memory, sleep=sleep)
    assert server.report.state == 1
    assert server.asked == ["plan", "state", "state", "reports"]


def test_numbers_beyond_all_measure_are_refused(memory):
    server = Server()
    said = json.loads(server.state)
    for text in ((2.0**61).hex(), "inf", "nan", "1.5"):
        said["asks"][0]["theta"][0] = text
        server.state_bytes = signed("state", json.dumps(said).encode(), SERVER)
        refused("hex float", server, memory)


# --- once ----------------------------------------------------------------------------------------------------


def test_a_study_is_answered_once(memory):
    server = Server()
    answered(server, memory)
    for given in (messages.token_text(token()), messages.token_text(token(2))):
        with pytest.raises(RefusedError, match="has answered the study"):
            answered(server, memory, given=given)
    assert len(server.posted) == 1


def at(name, server, memory, number=0, key=KEY, consent=True, **more):
    """Answer the study of this name, whose address is another."""

    def transport(url, body):
        return server(url.replace(f"studies/{name}", "studies/sleep"), body)

    return respond(
        URL.replace("sleep", name), messages.token_text(token(number)), GOOD, consent, key=key, memory=memory,
        transport=transport, sleep=server.sleep, clock=lambda: server.time, **more,
    )  # fmt: skip


def test_a_token_is_used_once(memory):
    answered(Server(), memory)
    other = Server(study_plan(study="wake", release_group="another"))
    with pytest.raises(RefusedError, match="token has been used"):
        at("wake", other, memory)
    assert not other.posted


def test_the_same_bytes_are_sent_again_even_if_the_state_has_moved_on(memory):
    server = Server()
    server.fails = [0, 0, 503, -1]
    assert answered(server, memory).sent
    assert len(server.posted) == 2
    assert len(set(server.posted)) == 1
    assert server.slept[0] >= 7.0  # as the server asked
    server = Server()
    server.fails = [0, 0, 503]
    out = answered(server, Memory(memory.path.with_name("b")), patience=0.0)
    assert not out.sent
    turn(server, 1, wire.hash_of(server.state), NOON)
    assert answered(server, Memory(memory.path.with_name("b")), {}, consent=False).sent
    assert server.report.state == 0
    assert server.asked == ["plan", "state", "reports", "plan", "reports"]


def test_of_two_devices_processes_the_first_report_is_sent(memory, monkeypatch):
    """Another process of this device stores its report while this one computes."""
    server, faster, whole = Server(), Server(), answer.randomised

    def slow(*given):
        monkeypatch.setattr(answer, "randomised", whole)
        answered(faster, memory, patience=0.0)
        return whole(*given)

    faster.fails = [0, 0, -1]  # its answer is lost
    monkeypatch.setattr(answer, "randomised", slow)
    assert answered(server, memory).sent
    assert server.posted == faster.posted
    assert len(server.posted) == 1


def test_nothing_is_sent_that_was_not_written_before(memory, monkeypatch):
    server = Server()

    def full(self):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Memory, "_open", full)
    refused("can't be used: OperationalError", server, memory)
    assert server.asked == ["plan"]


def test_what_cannot_be_written_is_not_sent(memory, monkeypatch):
    server, opened_ = Server(study_plan(limit=60_000)), Memory._open

    @contextmanager
    def full(self):
        with opened_(self) as db:
            db.execute("PRAGMA max_page_count = 1")  # no page more than there are
            yield db

    monkeypatch.setattr(Memory, "_open", full)
    monkeypatch.setattr(messages, "report_body", lambda report: b"x" * 50_000)
    refused("can't be written: OperationalError", server, memory)
    assert server.asked == ["plan", "state"]


def test_an_interrupt_while_sending_keeps_the_bytes(memory):
    server = Server()
    bodies = []

    def interrupted(url, body):
        if body is not None:
            bodies.append(body)
            raise KeyboardInterrupt
        return server(url, body)

    with pytest.raises(KeyboardInterrupt):
        answered(server, memory, transport=interrupted)
    answered(server, memory)
    assert server.posted == bodies


@pytest.mark.parametrize("status", [400, 403, 410, 412, 413, 422])
def test_a_report_that_is_not_taken_is_not_sent_again_and_again(memory, status):
    server = Server()
    server.fails = [0, 0, status]
    with pytest.raises(RefusedError, match=f"status {status}"):
        answered(server, memory)
    assert server.asked.count("reports") == 1


def test_a_used_token_is_told_as_one(memory):
    server = Server()
    server.fails = [0, 0, 409]
    with pytest.raises(RefusedError, match="a report has arrived before, and this one was not taken"):
        answered(server, memory)
    assert server.asked.count("reports") == 1


def test_sending_ends_when_no_report_counts_any_more(memory):
    server = Server()
    server.fails = [0, 0] + [503] * 10_000
    out = answered(server, memory)
    assert not out.sent
    assert "stored" in out.words
    assert server.plan.closes < server.time <= server.plan.closes + server.plan.grace
    assert len(server.asked) < 32 * 24 * 2  # waits of an hour, at least half of it


def test_waits_double_with_jitter_up_to_an_hour():
    for attempt in range(30):
        most = min(2.0**attempt, 3600.0)
        seen = {waits(attempt, 0.0) for _ in range(20)}
        assert 0.5 * most <= min(seen) <= max(seen) <= most
        assert len(seen) > 10
    assert waits(0, 100.0) == 100.0
    assert PATIENCE >= 30.0


# --- the budget of a year ------------------------------------------------------------------------------------


def several(memory, plans):
    """Answer studies one after another, until one is refused for the budget of a year; how many went through."""
    for k, plan in enumerate(plans):
        server = Server(plan)
        if k == 4:
            with pytest.raises(RefusedError, match="year's budget"):
                at(plan.study, server, memory, k, limits=Limits(total=Fraction(9)))
            assert not server.posted
            assert memory.reports(public(ROOT), plan.study).get(plan.study) is None
            return k
        at(plan.study, server, memory, k)
    return len(plans)


def named(n, **more):
    return [study_plan(study=f"s{k}", **more) for k in range(n)]


def test_studies_of_a_group_share_a_budget(memory):
    assert several(memory, named(6)) == 4  # of mu 1 each: √4 = 2


def test_studies_of_one_analyst_share_a_budget_whatever_they_call_their_groups(memory):
    assert several(memory, [p._replace(release_group=f"group of {p.study}") for p in named(6)]) == 4


def test_a_year_later_there_is_a_new_budget_only_if_both_clocks_say_so(memory):
    assert several(memory, named(4)) == 4
    later = NOON + 400 * DAY
    own = {"root": public(ROOT), "release": "sleep.example.org", "mu": Mu(1, 1)}
    limits = {"cap": Fraction(4), "total": Fraction(100)}
    one = Stored(b"plan", b"token", 0, b"body", None)
    assert not memory.store({"s9": one}, **own, **limits, time=later, clock=NOON + DAY)
    assert not memory.store({"s9": one}, **own, **limits, time=NOON + DAY, clock=later)
    assert memory.store({"s9": one}, **own, **limits, time=later, clock=later)
    assert memory.reports(public(ROOT), "s9") == {"s9": one}


def apart(k, mu=ONE, time=NOON, **more):
    """A study that has nothing in common with others: another key, group, name and token."""
    root = key_of(100 + k)
    plan = study_plan(study=f"s{k}", release_group=f"group {k}", mu=mu, opens=0, closes=NOON + 10_000 * DAY, **more)
    server = Server(plan, time=time)
    server.plan_bytes = signed("plan", server.payload, root)
    return server, {"key": wire.base(public(root)), "number": k}


def asked(memory, k, limits=None, clock=NOON, **more):
    """What a device is told, and answers, of such a study."""
    server, own = apart(k, **more)
    server.time, told = float(clock), []
    agree = {"consent": lambda words: bool(told.append(words)) or True, "limits": limits or Limits()}
    assert at(server.plan.study, server, memory, **own, **agree).sent
    return " ".join(told[0].split("\n\n")[-2].split())


def test_all_studies_share_a_budget_whatever_their_keys_and_groups(memory):
    for k in range(4):
        assert f"study {k + 1} this year. " in (said := asked(memory, k))
        assert f"guesses right at most {100 * guess(math.sqrt(k + 1)):.0f} times" in said
    for limits in (None, Limits(yearly=Fraction(10))):
        with pytest.raises(RefusedError, match=r"year's, which cost mu = 2\.236 together, more than the 2 that"):
            asked(memory, 4, limits)
    assert f"at most {100 * guess(math.sqrt(5)):.0f} times" in asked(memory, 4, Limits(total=Fraction(3)))


@pytest.mark.parametrize("claimed", [0, NOON - 3000 * DAY, NOON + 3000 * DAY])
def test_no_time_that_a_study_claims_lets_a_device_forget_or_remember(memory, claimed):
    asked(memory, 0, mu=Mu(2, 1), time=claimed)
    for time in (0, NOON, NOON + 9000 * DAY):
        with pytest.raises(RefusedError, match="study 2 of a year's"):
            asked(memory, 1, time=time, clock=NOON + 365 * DAY)
    assert "study 1 this year" in asked(memory, 1, clock=NOON + 367 * DAY)


def test_what_was_agreed_to_is_what_may_be_spent(memory):
    """Another call answers a study while this one asks: the total that was said would be too small."""
    server, own = apart(0)

    def agree(words):
        asked(memory, 1)
        return "study 1 this year" in words

    with pytest.raises(RefusedError, match="another study was answered meanwhile"):
        at("s0", server, memory, **own, consent=agree)
    assert not server.posted
    assert "study 2 this year" in asked(memory, 0)


# --- memory --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="file modes are of POSIX systems")
def test_the_memory_is_the_owners_alone(tmp_path):
    path = tmp_path / "new" / "memory.sqlite"
    old = os.umask(0)
    try:
        Memory(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    path.chmod(0o644)
    Memory(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_after_a_receipt_no_bytes_are_kept(memory):
    server = Server()
    answered(server, memory)
    kept = memory.reports(public(ROOT), "sleep").get("sleep")
    assert kept.body is None
    assert kept.receipt == wire.hash_of(server.posted[0])
    values = json.loads(server.posted[0])["values"].encode()
    assert values not in memory.path.read_bytes()


def test_a_memory_that_cannot_be_used_is_an_error(tmp_path):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(StoreError, match="can't be used"):
        Memory(tmp_path / "file" / "memory.sqlite")
    (tmp_path / "broken").write_bytes(b"no database at all, but long enough to be taken for one" * 100)
    with pytest.raises(StoreError, match="can't be used"):
        Memory(tmp_path / "broken")


def test_another_programs_database_is_let_alone(tmp_path):
    path = tmp_path / "other.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE report (id INTEGER)")
        db.execute("CREATE TABLE bookmarks (url TEXT)")
    path.chmod(0o644)
    before = path.read_bytes()
    with pytest.raises(StoreError, match="another program's database; name a new file"):
        Memory(path)
    assert path.read_bytes() == before
    assert stat.S_IMODE(path.stat().st_mode) == 0o644


def test_a_link_in_the_memorys_place_is_not_followed(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "target")
    with pytest.raises(StoreError):
        Memory(tmp_path / "link")


def test_of_two_calls_at_once_one_report_is_kept(memory):
    spent = {"root": b"root", "release": "group", "mu": Mu(1, 1), "time": NOON, "clock": NOON}
    for body in (b"first", b"second"):
        one = {"sleep": Stored(b"plan", b"token", 0, body, None)}
        assert memory.store(one, cap=Fraction(4), total=Fraction(4), **spent)
    assert memory.reports(b"root", "sleep") == {"sleep": Stored(b"plan", b"token", 0, b"first", None)}
    assert memory.year(NOON) == [Fraction(1)]


def test_the_place_of_the_memory(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert default_path() == tmp_path / "privreg" / "device.sqlite"
    monkeypatch.setenv("XDG_DATA_HOME", "relative")
    assert default_path().is_absolute()

    def homeless():
        raise RuntimeError

    monkeypatch.setattr("pathlib.Path.home", homeless)
    with pytest.raises(StoreError, match="no home folder"):
        Memory()


# --- randomness ----------------------------------------------------------------------------------------------


def test_without_a_sound_sampler_nothing_is_asked_for(memory, monkeypatch):
    monkeypatch.setattr(noise, "KNOWN", "0" * 64)
    server = Server()
    refused("known-answer", server, memory)
    assert server.asked == []


def test_without_randomness_nothing_is_sent(memory, monkeypatch):
    def none(count):
        raise NotImplementedError

    monkeypatch.setattr(noise.Words.__init__, "__defaults__", (none,))
    refused("no secure randomness", Server(), memory)
    assert memory.reports(public(ROOT), "sleep").get("sleep") is None


# --- addresses and HTTP --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "base"),
    [
        ("https://x.org/v1/studies/sleep", "https://x.org/v1/studies/sleep"),
        ("https://x.org/v1/studies/sleep/", "https://x.org/v1/studies/sleep"),
        ("https://x.org:8443/a/studies/sleep#k=K&t=T", "https://x.org:8443/a/v1/studies/sleep"),
        ("http://localhost:8000/studies/sleep", "http://localhost:8000/v1/studies/sleep"),
        ("http://127.0.0.1:1/studies/sleep", "http://127.0.0.1:1/v1/studies/sleep"),
        ("http://[::1]:1/studies/sleep", "http://[::1]:1/v1/studies/sleep"),
    ],
)
def test_addresses_of_studies(url, base):
    got = invitation(url)
    assert (got.base, got.slug) == (base, "sleep")
    assert got[2:] == (("K", "T") if "#" in url else ("", ""))


@pytest.mark.parametrize(
    "url",
    [
        "http://x.org/v1/studies/sleep", "http://localhost.x.org/studies/sleep", "http://127.0.0.1.x.org/studies/sleep",
        "file:///v1/studies/sleep", "ftp://x.org/studies/sleep", "https://u:p@x.org/studies/sleep",
        "https://x.org/", "sleep", "https:///studies/sleep", "https://x.org/studies/", "https://x.org/studies/a/b",
        "http://localhost@x.org/studies/sleep",
    ],
)  # fmt: skip
def test_other_addresses_are_refused(url, memory):
    with pytest.raises(RefusedError, match="address"):
        respond(url, row={}, memory=memory, key=KEY)


def test_a_link_without_a_key_is_refused(memory):
    refused("key of the invitation", Server(), memory, key="")
    refused("key of the invitation", Server(), memory, key="AAAA")


class Opened:
    """What a server says, in place of one."""

    def __init__(self, body=b"", status=200, headers=()):
        self.status, self.headers, self._file = status, Message(), BytesIO(body)
        for name, value in headers:
            self.headers[name] = value

    def read1(self, n=-1):
        return self._file.read1(n)

    def __enter__(self):
        return self

    def __exit__(self, *given):
        return None


def opened(monkeypatch, result):
    requests = []

    class Opener:
        def open(self, request, timeout):
            requests.append((request, timeout))
            if isinstance(result, BaseException):
                raise result
            return result

    monkeypatch.setattr(urllib.request, "build_opener", lambda *handlers: Opener())
    return requests


def test_requests_carry_no_cookie_no_clock_and_no_name_of_the_system(monkeypatch):
    requests = opened(monkeypatch, Opened(b"{}", 201))
    assert client.fetch("https://x.org/reports", b"{}") == Answer(201, b"{}", 0.0)
    ((request, timeout),) = requests
    assert (request.get_method(), timeout) == ("POST", client.TIMEOUT)
    assert dict(request.header_items()) == {
        "User-agent": "privreg-device/1",
        "Accept": "application/json",
        "Content-type": "application/json",
    }


def test_an_answer_without_end_is_cut(monkeypatch):
    opened(monkeypatch, Opened(b" " * (client.LONGEST + 1)))
    assert client.fetch("https://x.org/plan") == Answer(413, b"")


@pytest.mark.parametrize("said", ["12", "99999999", "-1", "soon", "1e9", "²"])
def test_a_server_may_ask_for_patience(monkeypatch, said):
    headers = Message()
    headers["Retry-After"] = said
    opened(monkeypatch, urllib.error.HTTPError("https://x.org", 503, "busy", headers, BytesIO(b"later")))
    assert client.fetch("https://x.org/plan") == Answer(503, b"later", 12.0 if said == "12" else 0.0)


@pytest.mark.parametrize("error", [OSError("no route"), urllib.error.URLError("no name"), ValueError("odd")])
def test_no_connection_is_no_error(monkeypatch, error):
    opened(monkeypatch, error)
    assert client.fetch("https://x.org/plan") == Answer(0, b"")


def test_redirects_are_not_followed():
    made = client.NoRedirect().redirect_request(None, BytesIO(), 302, "", Message(), "https://elsewhere.org")
    assert made is None


# --- the command ---------------------------------------------------------------------------------------------


@pytest.fixture
def commanded(monkeypatch, tmp_path):
    server = Server()

    def run(*words, row=GOOD):
        (tmp_path / "me.json").write_text(row if isinstance(row, str) else json.dumps(row))
        return command.main([URL, "--row", str(tmp_path / "me.json"), "--memory", str(tmp_path / "m"), *words])

    usual = {"transport": server, "sleep": server.sleep, "clock": lambda: server.time}
    monkeypatch.setattr(respond, "__kwdefaults__", {**respond.__kwdefaults__, **usual})
    run.server = server
    return run


WITH = ("--key", KEY, "--token", messages.token_text(token()))


def test_the_command_answers_a_study(commanded, capsys):
    assert commanded(*WITH, "--dry-run") == 0
    assert "Nothing was computed" in capsys.readouterr().out
    assert commanded(*WITH, "--yes") == 0
    assert "has arrived" in capsys.readouterr().out
    assert commanded(*WITH, "--yes") == 1
    assert "refused: this device has answered" in capsys.readouterr().err
    assert len(commanded.server.posted) == 1


def test_the_command_without_a_terminal_says_what_to_do(commanded, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(command, "TERMINAL", str(tmp_path / "none"))
    monkeypatch.setattr("sys.stdin", StringIO("y"))
    assert commanded(*WITH) == 1
    said = capsys.readouterr()
    assert "The guarantee is mu" in said.out
    assert "no terminal to ask you at; if you agree to the above, add --yes" in " ".join(said.err.split())
    assert commanded.server.asked == ["plan"]


def test_the_command_stops_at_a_misspelt_answer_and_says_a_status_in_words(commanded, capsys):
    assert commanded(*WITH, row={**GOOD, "shift": "nigth"}) == 1
    assert "'shift' must be one of 'day', 'night', 'both'" in capsys.readouterr().err
    commanded.server.fails = [425]
    assert commanded(*WITH, "--yes", "--patience", "0") == 1
    assert "from the study's server: the study isn't open yet (status 425)" in " ".join(capsys.readouterr().err.split())
    assert commanded(*WITH, "--yes", row={**GOOD, "shift": "nigth"}) == 0
    assert "Missing, or not to be read: 'shift'" in capsys.readouterr().out


def test_the_command_says_when_a_report_waits(commanded, capsys):
    commanded.server.fails = [0, 0, 503]
    assert commanded(*WITH, "--yes", "--patience", "0") == 3
    assert "stored" in capsys.readouterr().out


@pytest.mark.parametrize("row", ["[1]", "{", '{"age": 41', "41"])
def test_answers_that_are_no_object_are_refused_without_a_word_of_them(commanded, capsys, row):
    assert commanded(*WITH, "--yes", row=row) == 1
    said = capsys.readouterr().err
    assert "must be a JSON object" in said
    assert "41" not in said
    assert not commanded.server.asked


def test_wrong_arguments_are_said_so(capsys):
    assert command.main(["--nonsense"]) == 2
    for option, value in (("--most-mu", "1/0"), ("--yearly", "-1"), ("--patience", "nan"), ("--most-mu", "much")):
        assert command.main([URL, "--row", "-", option, value]) == 2
    assert command.main(["--help"]) == 0
    assert "invitation" in capsys.readouterr().out


def test_privreg_has_the_command(capsys):
    from privreg.cli.app import main

    assert main(["respond", "--help"]) == 0
    assert "privreg respond" in capsys.readouterr().out


def test_constants_that_plans_may_hold():
    assert const(1) == ["const", "0x1.0000000000000p+0"]
    assert lattice.BITS == 20
