"""The JSON Schemas say what the parsers do, as far as a schema can."""

import json
from functools import cache
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from privreg.protocol import messages, study, trees
from privreg.protocol.messages import Report
from tests.protocol.test_messages import HASH, KNOTS, PAYLOAD, PLAN, WRONG_PLANS, WRONG_REPORTS, WRONG_STATES, changed
from tests.studies import ROOT, SCORES, ask, field_state, signed, study_plan, token

FOLDER = Path(study.__file__).parent / "schemas"

BEYOND = {
    # what goes between members of a message, with a plan, or with the budget
    "plan": {
        "less mu", "blocks", "role of rounds", "form", "numbers", "groups of a pilot", "column", "level",
        "factor as number", "a factor that is clamped", "an unknown column that is clamped",
        "fewer columns than are clamped", "clamping without its role", "a role on clamping without its columns",
        "two columns of a name", "bounds", "levels that read alike", "times",
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


def test_envelopes_are_as_the_schema_says():
    assert accepts("envelope", signed("plan", PAYLOAD, ROOT))
    assert not accepts("envelope", changed(signed("plan", PAYLOAD, ROOT), lambda e: e.update(sigs=[])))


WRONG = {
    "plan": (PAYLOAD, WRONG_PLANS),
    "state": (messages.state_payload(field_state(HASH, ask(PLAN, "main"))), WRONG_STATES),
    "report": (messages.report_body(Report(HASH, 0, "main", token(), (0,) * 5)), WRONG_REPORTS),
}


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


@pytest.mark.parametrize("name", trees.OPERATIONS)
def test_operations_of_the_schema_are_those_of_the_parser(name):
    tree, columns = an_example(name), {c.name: c for c in PLAN.columns}
    trees.check(tree, columns, "a column")
    for given, fine in ((tree, True), (tree[:-1], False), ([*tree, X], False)):
        payload = changed(PAYLOAD, lambda p, given=given: p["design"]["columns"][0].update(tree=given))
        assert accepts("plan", payload) == fine
