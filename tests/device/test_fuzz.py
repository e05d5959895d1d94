"""Signed messages of a dishonest study: a device refuses them, or sends reports that are as private as it said."""

import json
import math
import random
from copy import deepcopy

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from privreg_field.device import consent
from privreg_field.device.report import answer, sums
from privreg_field.device.report.design import Row, row_of
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.wire import MessageError
from tests.device.test_answer import allowed, far
from tests.studies import CLAMPING, ask, field_state, study_plan, sum_ask, sum_plan, token

ROWS = (
    {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7, "ill": False, "visits": 3},
    {"age": 1e308, "bmi": -5, "shift": "both", "hours": 0.0, "ill": True, "visits": 20},
    {"age": 18, "bmi": 50, "shift": "day", "hours": 24, "ill": True, "visits": 0},
    {},
)
REALS = (
    "0x0.0p+0",
    "-0x1.0p+0",
    "0x1p+60",
    "0x1p-1074",
    "-0x1.fffffffffffffp+59",
    "0x1.8p-540",
    "inf",
    "nan",
    "0x1p+61",
)
PLAIN = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    20,
    2**31,
    2**53,
    "",
    "x",
    "huber",
    "ball",
    "box",
    "age",
    "shift",
    [],
    {},
    [1, 1],
)
TREES = (
    ["pow", ["col", "age"], ["col", "bmi"]],
    ["log", ["const", "0x0.0p+0"]],
    ["const", "0x1p+60"],
    ["level", "ill", True],
)
ANYTHING = st.sampled_from([*REALS, *PLAIN, *TREES])


def places(value, path=()):
    """Paths to all parts of a message."""
    if path:
        yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield from places(part, (*path, key))


def mutated(payload, data):
    """The message with some of its parts replaced, left out or doubled."""
    said = json.loads(payload)
    for _ in range(data.draw(st.integers(0, 3))):
        *path, last = data.draw(st.sampled_from(list(places(said))))
        at = said
        for key in path:
            at = at[key]
        how = data.draw(st.sampled_from(["replaced", "replaced", "a real", "left out", "doubled"]))
        if how == "left out":
            del at[last]
        elif how == "doubled" and isinstance(at, list):
            at.append(deepcopy(at[last]))
        else:
            at[last] = deepcopy(data.draw(st.sampled_from(REALS) if how == "a real" else ANYTHING))
    return json.dumps(said).encode()


@pytest.mark.some(2)
@pytest.mark.parametrize("family", ["huber", "multinomial", "poisson", "robust_poisson", "smoothed_hinge"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_dishonest_study_is_refused_or_learns_no_more(family, data):
    honest = study_plan(family, offset=["col", "visits"], clamping=CLAMPING)
    payload = mutated(study.plan_payload(honest), data)
    try:
        plan = study.read_plan(payload)
    except MessageError:
        payload = study.plan_payload(honest)
        plan = honest
    plan_hash, role = wire.hash_of(payload), data.draw(st.sampled_from(sorted(plan.roles)))
    try:
        asked = messages.state_payload(field_state(plan_hash, ask(plan, role, random.Random(1))))
        state = messages.read_state(mutated(asked, data), plan, plan_hash)
    except MessageError:
        return
    consent.words(plan, ROWS[1])
    place = messages.place_of(plan_hash, token(data.draw(st.integers(0, 99))))
    one = messages.ask_of(state, place)
    form, group = plan.roles[one.role], messages.group_of(plan, one.role, place)
    made = [row_of(plan, row) for row in ROWS]
    made.append(Row([1e200] * plan.d, 1e300, -1e300, (1.0,) * len(plan.clamping)))
    made.append(Row([math.nan] * plan.d, math.nan, math.nan))
    sent = [answer.values(form, answer.before_noise(plan, one, group, row)) for row in made]
    assert {len(a) for a in sent} == {form.numbers}
    assert max(far(a, b) for a in sent for b in sent) <= allowed(plan.mu)


@pytest.mark.some(1)
@pytest.mark.parametrize("family", ["huber", "logistic", "poisson"])
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(data=st.data())
def test_a_dishonest_study_of_two_collectors_is_refused_or_adds_up_no_more(family, data):
    honest = sum_plan(family, offset=["col", "visits"])
    payload = mutated(study.plan_payload(honest), data)
    try:
        plan = study.read_plan(payload)
    except MessageError:
        payload, plan = study.plan_payload(honest), honest
    if plan.sums is None:
        return
    plan_hash, role = wire.hash_of(payload), data.draw(st.sampled_from(sorted(plan.roles)))
    try:
        asked = messages.state_payload(field_state(plan_hash, sum_ask(plan, role, random.Random(1))))
        state = messages.read_state(mutated(asked, data), plan, plan_hash)
    except MessageError:
        return
    consent.words(plan, ROWS[1])
    (one,) = state.asks
    form, made = plan.roles[one.role], [row_of(plan, row) for row in ROWS]
    made.append(Row([1e200] * plan.d, 1e300, -1e300, (1.0,) * len(plan.clamping)))
    made.append(Row([math.nan] * plan.d, math.nan, math.nan))
    sent = [sums.whole(form, sums.of_person(plan, one, [row])) for row in made]
    assert {len(a) for a in sent} == {form.numbers}
    assert max(far(a, b) for a in sent for b in sent) * plan.mu.q**2 <= (plan.mu.p << plan.bits) ** 2


@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=200) | st.text(max_size=100).map(str.encode))
def test_no_bytes_do_more_than_be_refused(data):
    plan, shared = study_plan(), sum_plan()
    for read in (
        study.read_plan,
        lambda d: messages.read_state(d, plan, bytes(32)),
        lambda d: messages.read_report(d, plan, bytes(32)),
        lambda d: messages.read_state(d, shared, bytes(32)),
        lambda d: peers.read_share(d, shared, bytes(32)),
        lambda d: peers.read_signed("unsummed", d, bytes(32)),
        lambda d: wire.open_envelope(d, "plan"),
    ):
        with pytest.raises(MessageError):
            read(data)
