"""The conformance vectors are what this project's device computes; another language's device reads the same files."""

import json

import pytest

from privreg.protocol.sums import LETTERS
from privreg_field.device import seal
from privreg_field.device.report import answer, sums
from privreg_field.device.report.design import row_of
from privreg_field.device.report.noise import rounded_normal
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.analyses import hash_of_part, word_of
from tests.conformance import make
from tests.studies import SUMMED

FOUND = {name: json.loads((make.FOLDER / f"{name}.json").read_text()) for name in make.FILES}


@pytest.fixture(scope="module", autouse=True)
def few_rounds():
    """Plans of the vectors have the usual number of rounds, as the command makes them."""


@pytest.mark.parametrize("name", make.FILES)
def test_vectors_are_those_of_the_command(name):
    assert (make.FOLDER / f"{name}.json").read_text() == make.text_of(name)


@pytest.mark.parametrize("case", FOUND["noise"], ids=lambda c: f"{c['bits']} bits")
def test_words_give_noise(case):
    words = make.given_words(case["words"])
    assert [rounded_normal(case["bits"], words) for _ in case["noise"]] == case["noise"]


def test_rows_give_reports_by_messages_alone():
    found, seen = FOUND["reports"], set()
    for case in found["cases"]:
        payload = wire.unbase(found["plans"][case["plan"]], "plan")
        plan, plan_hash = study.read_plan(payload), wire.hash_of(payload)
        state = messages.read_state(wire.unbase(found["states"][case["state"]], "state"), plan, plan_hash)
        token = messages.read_token(case["token"])
        place = messages.place_of(plan_hash, token)
        ask = messages.ask_of(state, place)
        form, row = plan.roles[ask.role], row_of(plan, case["row"])
        assert (list(place), messages.group_of(plan, ask.role, place)) == (case["place"], case["group"])
        assert [make.some(v) for v in (*row.x, row.y, row.offset)] == [*case["x"], case["y"], case["offset"]]
        before = answer.values(form, answer.before_noise(plan, ask, case["group"], row))
        assert before == case["before"]
        sent = answer.randomised(before, form, plan.bits, make.given_words(case["words"]))
        assert (
            messages.report_body(messages.Report(plan_hash, state.number, ask.role, token, tuple(sent))).decode()
            == case["body"]
        )
        assert messages.read_report(case["body"].encode(), plan, plan_hash).values == tuple(sent)
        seen.add((plan.family, ask.role))
    families = {f for f, _ in seen}
    assert families == set(study.FAMILIES) - set(SUMMED), (
        "add to SCORES of tests/studies.py; run python -m tests.conformance"
    )
    assert {r for _, r in seen} == set(study.ROLES)


def test_envelopes_are_accepted_or_refused():
    plan = study.read_plan(wire.unbase(FOUND["envelopes"]["plan"], "plan"))
    cases = FOUND["envelopes"]["cases"]
    assert sum(not c["accepted"] for c in cases) >= 30
    for case in cases:
        key = wire.unbase(case["key"], "key")
        assert make.accepted(case["envelope"].encode(), case["type"], key, plan) == case["accepted"], case["what"]


def test_messages_are_sealed():
    for case in FOUND["seals"]:
        given = {name: wire.unbase(text, name) for name, text in case.items()}
        sealed = seal.seal(given["plain"], given["key"], given["info"], lambda n, own=given["own"]: own[:n])
        assert sealed == given["sealed"]


def test_rows_give_shares_by_messages_alone():
    found, seen = FOUND["shares"], set()
    for case in found["cases"]:
        payload = wire.unbase(found["plans"][case["plan"]], "plan")
        plan, plan_hash = study.read_plan(payload), wire.hash_of(payload)
        (ask,) = messages.read_state(wire.unbase(found["states"][case["state"]], "state"), plan, plan_hash).asks
        a = sums.whole(plan.role_of(ask), sums.of_person(plan, ask, answer.rows_of(plan, [case["row"]])))
        assert a == case["whole"]
        words, token = wire.unbase(case["words"], "words"), messages.read_token(case["token"])
        bound = wire.hash_of(wire.unbase(found["states"][case["state"]], "state"))
        assert [wire.base(peers.share_info(letter, bound, token)) for letter in LETTERS] == case["infos"]
        assert sums.shares(a, lambda n, words=words: words[:n]) == (wire.unbase(case["first"], "first"), words)
        seen.add((plan.family, ask.role, any(a)))
    assert len(seen) == len(found["plans"]) * len(plan.roles) * 2  # some rows have something to tell, and some nothing


def test_analyses_of_a_study_by_its_payload_alone():
    for case in FOUND["analyses"]:
        payload = wire.unbase(case["payload"], "payload")
        plans, whole = study.read_plans(payload), wire.hash_of(payload)
        assert [word_of(whole, wire.unbase(one, "id")) for one in case["ids"]] == case["words"]
        for plan, one in zip(plans, case["plans"], strict=True):
            assert wire.base(hash_of_part(whole, plan.part.name)) == one["hash"]
            assert ([*plan.part.people], [*plan.together], plan.slug) == (one["people"], one["together"], one["slug"])
            assert one["wholes"] == ([answer.whole(plan, row) for row in case["rows"]] if plan.table else None)
            for numbers in one["wholes"] or ():
                assert sum(v * v for v in numbers) <= plan.roles["table"].radius ** 2


def test_persons_give_reports_by_messages_alone():
    found, seen = FOUND["diaries"], set()
    for case in found["cases"]:
        plan = study.read_plan(wire.unbase(found["plans"][case["plan"]], "plan"))
        role = case["state"].removeprefix(f"{case['plan']} ")
        whole = make.whole_of(plan, role, wire.unbase(found["states"][case["state"]], "state"), case["rows"])
        assert whole == case["whole"]
        seen.add((plan.diary.effect, role, any(whole)))
    assert {effect for effect, _, told in seen if told} == {"none", "within", "differences"}
