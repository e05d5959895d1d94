"""The JSON Schemas say what the parsers do, as far as a schema can."""

import json
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from privreg_field.wire import messages, peers, study, trees, wire
from privreg_field.wire.messages import Report
from privreg_field.wire.peers import Share
from privreg_field.wire.wire import MessageError
from tests.protocol.test_messages import HASH, KNOTS, PAYLOAD, PLAN, WRONG_PLANS, WRONG_REPORTS, WRONG_STATES, changed
from tests.studies import ROOT, SCORES, ask, field_state, signed, study_plan, sum_ask, sum_plan, token

FOLDER = Path(study.__file__).parent / "schemas"

BEYOND = {
    # what goes between members of a message, with a plan, or with the budget
    "plan": {
        "less mu", "blocks", "role of rounds", "form", "numbers", "groups of a pilot", "column", "level",
        "factor as number", "a factor that is clamped", "an unknown column that is clamped",
        "fewer columns than are clamped", "clamping without its role", "a role on clamping without its columns",
        "two columns of a name", "bounds", "levels that read alike", "times",
        "fewer labels than levels",
    },
    "state": {
        "plan", "beyond 2^60", "rows", "theta", "signs", "bits of signs", "offsets beside signs", "groups of offsets",
        "offsets of a group", "thresholds", "gauge", "below", "slots",
    },
    "report": {"plan", "numbers", "part of a number", "beyond six sd", "least integer", "a token of one's own"},
}  # fmt: skip


@cache
def schema(name):
    said = json.loads((FOLDER / f"{name}.json").read_text())
    Draft202012Validator.check_schema(said)
    return Draft202012Validator(said)


def accepts(name, payload):
    return schema(name).is_valid(json.loads(payload))


@pytest.mark.some(1)
@pytest.mark.parametrize("family", SCORES)
def test_plans_are_as_the_schema_says(family):
    assert accepts("plan", study.plan_payload(study_plan(family)))
    assert accepts("plan", study.plan_payload(study_plan(family, offset=["log", ["col", "age"]], missing="refuse")))


@pytest.mark.parametrize("role", study.ROLES)
def test_states_and_reports_are_as_the_schema_says(role):
    state = field_state(HASH, ask(PLAN, role))
    assert accepts("state", messages.state_payload(state))
    report = Report(HASH, 0, role, token(), (0,) * PLAN.roles[role].numbers)
    assert accepts("report", messages.report_body(report))


SUM_PLAN = sum_plan()
SUM_PAYLOAD = study.plan_payload(SUM_PLAN)
WRONG_SUMS = {
    "one collector": lambda p: p["collectors"].pop(),
    "three collectors": lambda p: p["collectors"].append(p["collectors"][0]),
    "collectors alone": lambda p: p.pop("sums"),
    "sums alone": lambda p: p.pop("collectors"),
    "another mechanism": lambda p: p["privacy"].update(mechanism="rounded_gaussian"),
    "a clamp": lambda p: p["privacy"].update(clamp=6),
    "a box": lambda p: p["roles"]["main"].update(form="box"),
    "a ball of moments": lambda p: p["roles"]["moments"].update(form="ball"),
    "groups": lambda p: p["roles"]["main"].update(groups=2),
    "a pilot": lambda p: p["roles"].update(pilot=p["roles"]["main"]),
    "no closing": lambda p: p["roles"].pop("closing"),
    "a round of pilots": lambda p: p["rounds"][0].update(role="pilot"),
    "a family without slopes": lambda p: p["score"].update(family="hinge"),
    "a seal that is no key": lambda p: p["collectors"][1].update(seal="AAAA"),
    "a decimal": lambda p: p["sums"].update(fixed="1.5"),
    "more": lambda p: p["sums"].update(more=1),
    "no format": lambda p: p["sums"].pop("format"),
    "an earlier format": lambda p: p["sums"].update(format=1),
    "an earlier plan's reach": lambda p: p["sums"].update(reach="0x1p+1"),
    "three shares": lambda p: p["sums"]["shares"].pop(),
    "columns that move": lambda p: p.update(unscaled=[3]),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("which", WRONG_SUMS)
def test_plans_of_two_collectors_are_as_the_schema_says(which):
    assert accepts("plan", SUM_PAYLOAD)
    wrong = changed(SUM_PAYLOAD, WRONG_SUMS[which])
    assert not accepts("plan", wrong)
    with pytest.raises(MessageError):
        study.read_plan(wrong)


@pytest.mark.some(1)
@pytest.mark.parametrize("role", SUM_PLAN.roles)
def test_states_and_shares_of_two_collectors_are_as_the_schema_says(role):
    payload = messages.state_payload(field_state(HASH, sum_ask(SUM_PLAN, role)))
    assert accepts("state", payload)
    for change in (
        lambda s: s["asks"].append(s["asks"][0]),
        lambda s: s["asks"][0].update(below=1),
        lambda s: s["asks"][0].update(scale="0x0.0p+0"),
        lambda s: s["asks"][0].update(ball="-0x1.0p+0"),
        lambda s: s["asks"][0].update(role="pilot"),
        lambda s: s["asks"][0].update(signs=[]),
        lambda s: s["asks"][0].pop("window"),
    ):
        assert not accepts("state", changed(payload, change))
        with pytest.raises(MessageError):
            messages.read_state(changed(payload, change), SUM_PLAN, HASH)
    share = peers.share_body(Share(HASH, 0, role, token(), bytes(8 * SUM_PLAN.roles[role].numbers + 48)))
    assert accepts("share", share)
    for change in (lambda s: s.update(share="AA"), lambda s: s.update(role="pilot"), lambda s: s.pop("token")):
        assert not accepts("share", changed(share, change))
        with pytest.raises(MessageError):
            peers.read_share(changed(share, change), SUM_PLAN, HASH)


def test_what_a_collector_signs_for_a_device_is_as_the_schema_says():
    payload = peers.signed_payload(peers.Signed("unsummed", "a", 0, ids=token().id), HASH)
    assert accepts("unsummed", payload)
    assert not accepts("unsummed", changed(payload, lambda u: u.update(collector="c")))
    assert schema("envelope").schema["properties"]["type"]["enum"] == list(wire.TYPES)


def test_envelopes_are_as_the_schema_says():
    assert accepts("envelope", signed("plan", PAYLOAD, ROOT))
    assert not accepts("envelope", changed(signed("plan", PAYLOAD, ROOT), lambda e: e.update(sigs=[])))


WRONG = {
    "plan": (PAYLOAD, WRONG_PLANS),
    "state": (messages.state_payload(field_state(HASH, ask(PLAN, "main"))), WRONG_STATES),
    "report": (messages.report_body(Report(HASH, 0, "main", token(), (0,) * 5)), WRONG_REPORTS),
}


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "which"), [(name, which) for name in WRONG for which in WRONG[name][1]])
def test_what_the_parser_refuses_the_schema_does_where_it_can(name, which):
    payload, changes = WRONG[name]
    assert accepts(name, payload)
    assert accepts(name, changed(payload, changes[which])) == (which in BEYOND[name])


X, KNOT = ["col", "age"], {"bspline": [3, KNOTS, 4], "cr": [KNOTS[3:6], KNOTS[:3], KNOTS[:3]]}


def an_example(name):
    if name in KNOT:
        return [name, X, *KNOT[name]]
    if name in {"const", "col", "level"}:
        return {"const": ["const", "0x1p+0"], "col": X, "level": ["level", "shift", "night"]}[name]
    if name == "cmp":
        return ["cmp", "lt", X, X]
    return [name, *[X] * {"where": 3, **dict.fromkeys(trees.ONE, 1)}.get(name, 2)]


@pytest.mark.some(1)
@pytest.mark.parametrize("name", trees.OPERATIONS)
def test_operations_of_the_schema_are_those_of_the_parser(name):
    tree, columns = an_example(name), {c.name: c for c in PLAN.columns}
    trees.check(tree, columns, "a column")
    for given, fine in ((tree, True), (tree[:-1], False), ([*tree, X], False)):
        payload = changed(PAYLOAD, lambda p, given=given: p["design"]["columns"][0].update(tree=given))
        assert accepts("plan", payload) == fine
