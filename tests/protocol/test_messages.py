"""Messages of studies in the field: written and read again, and refused where this version doesn't know them."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg_field.wire import messages, study, trees, wire
from privreg_field.wire.analyses import mu_of
from privreg_field.wire.messages import WORDS, Place, Report
from privreg_field.wire.wire import MessageError
from tests.studies import (
    CLAMPING,
    HIDDEN,
    NOON,
    PLACES,
    ROOT,
    SCORES,
    SEEN,
    SERVER,
    ask,
    field_state,
    key_of,
    public,
    signed,
    study_plan,
    token,
)

PLAN = study_plan(clamping=CLAMPING)
PAYLOAD = study.plan_payload(PLAN)
HASH = wire.hash_of(PAYLOAD)
ROLES = pytest.mark.parametrize("role", study.ROLES)


def changed(payload, change):
    """The payload after a change of what it says."""
    said = json.loads(payload)
    change(said)
    return json.dumps(said).encode()


@ROLES
def test_states_agree_up_to_rounding(role):
    """Whoever makes a state again on another computer has other last digits, and no other numbers."""
    state = field_state(HASH, ask(PLAN, role))
    (one,) = state.asks
    assert messages.agree(state, state)
    assert not messages.agree(state, state._replace(time=NOON + 1))
    for name, value in one._asdict().items():
        if not isinstance(value, tuple) or not value or isinstance(value[0], bytes):
            continue
        if isinstance(value[0], tuple):
            near, far = (((*value[:-1], tuple(v * f for v in value[-1]))) for f in (1.0 + 1e-9, 1.0 + 1e-4))
            fewer = value[:-1]
        else:
            near, far = (tuple(v * f if isinstance(v, float) else v for v in value) for f in (1.0 + 1e-9, 1.0 + 1e-4))
            fewer = value[:-1]
        assert messages.agree(state, state._replace(asks=(one._replace(**{name: near}),)))
        assert not messages.agree(state, state._replace(asks=(one._replace(**{name: far}),)))
        assert not messages.agree(state, state._replace(asks=(one._replace(**{name: fewer}),)))


# --- what is written is read ---------------------------------------------------------------------------------


@pytest.mark.parametrize("family", SCORES)
def test_a_plan_is_read_as_it_was_written(family):
    plan = study_plan(family)
    assert study.read_plan(study.plan_payload(plan)) == plan


def test_a_wide_plan_and_one_with_mixed_columns_are_read_as_they_were_written():
    wide = study_plan(is_wide=True, wide=(3, 4), edges=(1.0, 2.0), offset=["log", ["col", "age"]])
    mixed = study_plan(mix=tuple(tuple(float(j == k) for k in range(5)) for j in range(5)), missing="refuse")
    for plan in (wide, mixed):
        assert study.read_plan(study.plan_payload(plan)) == plan


def test_a_plan_without_clamping_has_no_word_of_it():
    payload = study.plan_payload(study_plan())
    assert b"clamping" not in payload
    assert "clamping" in json.loads(PAYLOAD)["roles"]


@ROLES
def test_a_state_is_read_as_it_was_written(role):
    state = field_state(HASH, ask(PLAN, role))
    payload = messages.state_payload(state)
    assert messages.read_state(payload, PLAN, HASH) == state


def test_a_state_with_several_roles_asks_tokens_by_their_thresholds():
    state = field_state(HASH, ask(PLAN, "location", below=1000), ask(PLAN, "main", below=WORDS))
    assert messages.read_state(messages.state_payload(state), PLAN, HASH) == state
    assert messages.ask_of(state, Place(999, 0, 0)).role == "location"
    assert messages.ask_of(state, Place(1000, 0, 0)).role == "main"
    assert messages.group_of(PLAN, "main", Place(0, WORDS - 1, 0)) == 15
    assert messages.group_of(PLAN, "pilot", Place(0, WORDS - 1, 0)) == 0


def test_a_report_is_read_as_it_was_written():
    report = Report(HASH, 3, "main", token(9), (1, -2, 3, 2**21, -(2**21)))
    assert messages.read_report(messages.report_body(report), PLAN, HASH) == report


def test_groups_and_roles_of_tokens_are_spread_evenly():
    places = [messages.place_of(HASH, token(k)) for k in range(4000)]
    for words in zip(*places, strict=True):
        counts = [sum(w * 8 >> 32 == k for w in words) for k in range(8)]
        assert sum((c - 500) ** 2 for c in counts) / 500 < 30  # chi-square, 7 degrees of freedom: 1 in 10,000
    other = wire.hash_of(b"another plan")
    assert messages.place_of(other, token(1)) != messages.place_of(HASH, token(1))
    assert messages.place_of(HASH, token(1)) == messages.place_of(HASH, token(1)._replace(mac=bytes(16)))


def test_coefficients_of_groups_are_on_either_side():
    one = ask(PLAN, "main", step=0.5, signs=(bytes([0b00010]),) * 16)
    assert one.theta_of(3) == [t - 0.5 if j == 1 else t + 0.5 for j, t in enumerate(one.theta)]
    assert one._replace(signs=()).theta_of(0) == list(one.theta)


def test_coefficients_of_groups_may_differ_by_numbers_of_their_own():
    own = tuple(tuple((g + 1) * (j - 2) / 64.0 for j in range(PLAN.size)) for g in range(16))
    state = field_state(HASH, ask(PLAN, "main", step=0.0, signs=(), offsets=own))
    (one,) = messages.read_state(messages.state_payload(state), PLAN, HASH).asks
    assert one.offsets == own
    assert one.theta_of(3) == [t + o for t, o in zip(one.theta, own[3], strict=True)]


# --- envelopes -----------------------------------------------------------------------------------------------


def test_an_envelope_is_read_as_it_was_written():
    got = wire.open_envelope(signed("plan", PAYLOAD, ROOT, SERVER), "plan")
    assert (got.kind, got.payload) == ("plan", PAYLOAD)
    assert [kid for kid, _ in got.signatures] == [wire.key_id(public(k)) for k in (ROOT, SERVER)]
    for (_, sig), key in zip(got.signatures, (ROOT, SERVER), strict=True):
        key.public_key().verify(sig, b"privreg/plan/v1\0" + PAYLOAD)


@pytest.mark.parametrize(
    "change",
    [
        lambda e: e.update(v=2),
        lambda e: e.update(v=True),
        lambda e: e.update(type="state"),
        lambda e: e.update(payload=e["payload"] + "="),
        lambda e: e.update(payload=e["payload"][:-1] + "!"),
        lambda e: e.update(sigs=[]),
        lambda e: e.update(sigs=e["sigs"] * 9),
        lambda e: e["sigs"][0].update(sig=e["sigs"][0]["sig"][:-4]),
        lambda e: e["sigs"][0].pop("kid"),
        lambda e: e.update(more=1),
    ],
)
def test_an_envelope_of_another_shape_is_refused(change):
    with pytest.raises(MessageError):
        wire.open_envelope(changed(signed("plan", PAYLOAD, ROOT), change), "plan")


# --- strict JSON ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        b'{"a":1,"a":2}',
        b'{"a":1.5}',
        b'{"a":1e3}',
        b'{"a":NaN}',
        b'{"a":9007199254740993}',
        b'{"a":' + b"9" * 5000 + b"}",
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        b'"\\ud800"',
        b"[" * 65 + b"]" * 65,
        b"[" * 100_000,
        b'{"a":1} x',
        b"",
    ],
)
def test_json_that_languages_read_apart_is_refused(text):
    with pytest.raises(MessageError):
        wire.loads(text, "a message")


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_hex_floats_keep_every_bit(value):
    if abs(value) <= 2.0**60:
        back = wire.number_of(wire.text_of(value), "a number")
        assert (back, math.copysign(1, back)) == (value, math.copysign(1, value))
    else:
        with pytest.raises(MessageError):
            wire.number_of(wire.text_of(value), "a number")
        assert wire.number_of(wire.text_of(value), "a number", infinite=True) == value


@pytest.mark.parametrize(
    "text", ["1.5", "nan", "inf", "0x1p+99999", "0x1.p0", "0X1p0", " 0x1p0", "0x1p0\n", "0x2p0", 1, None, "0x1.8p+61"]
)
def test_other_numbers_are_refused(text):
    with pytest.raises(MessageError):
        wire.number_of(text, "a number")


def test_of_base64_one_spelling_is_accepted():
    assert wire.unbase("AA", "bytes") == b"\0"
    for text in ("AB", "AA==", "A", "A+", "AA\n", 5):
        with pytest.raises(MessageError):
            wire.unbase(text, "bytes")


# --- what is unknown is refused ------------------------------------------------------------------------------

WRONG_PLANS = {
    "version": lambda p: p.update(v=2),
    "member": lambda p: p.update(colour="red"),
    "missing": lambda p: p.pop("contact"),
    "score weights": lambda p: p.update(score_weights="likelihood"),
    "record weight": lambda p: p.update(record_weight="w"),
    "cluster": lambda p: p.update(cluster="household"),
    "mechanism": lambda p: p["privacy"].update(mechanism="laplace"),
    "bits": lambda p: p["privacy"].update(bits=21),
    "clamp": lambda p: p["privacy"].update(clamp=7),
    "mu 0": lambda p: p["privacy"].update(mu=[0, 1]),
    "less mu": lambda p: p["privacy"].update(mu=[999_999, 1_000_000]),
    "family": lambda p: p["score"].update(family="custom"),
    "blocks": lambda p: p["score"].update(blocks=2),
    "role": lambda p: p["roles"].update(extra=p["roles"]["main"]),
    "role of rounds": lambda p: p["roles"].update(main=None),
    "form": lambda p: p["roles"]["moments"].update(form="ball"),
    "numbers": lambda p: p["roles"]["main"].update(numbers=4),
    "groups of a pilot": lambda p: p["roles"]["pilot"].update(groups=2),
    "operation": lambda p: p["design"]["columns"][3].update(tree=["sin", ["col", "age"]]),
    "column": lambda p: p["design"]["columns"][3].update(tree=["col", "income"]),
    "level": lambda p: p["design"]["columns"][1].update(tree=["level", "shift", "late"]),
    "factor as number": lambda p: p["design"]["columns"][1].update(tree=["col", "shift"]),
    "arguments": lambda p: p["design"]["columns"][1].update(tree=["add", ["col", "age"]]),
    "constant": lambda p: p["design"]["columns"][1].update(tree=["const", "nan"]),
    "scale": lambda p: p["design"]["columns"][1].update(scale="0x0.0p+0"),
    "two columns of a name": lambda p: p["columns"].append(p["columns"][0]),
    "bounds": lambda p: p["columns"][0].update(low="0x1p+60"),
    "one level": lambda p: p["columns"][2].update(levels=["day"]),
    "levels that read alike": lambda p: p["columns"][2].update(levels=[1, "1"]),
    "fewer labels than levels": lambda p: p["columns"][2].update(labels=["By day", "At night"]),
    "no labels": lambda p: p["columns"][2].update(labels=[]),
    "labels that are alike": lambda p: p["columns"][2].update(labels=["By day", "At night", "By day"]),
    "a label that is empty": lambda p: p["columns"][2].update(labels=["By day", "At night", ""]),
    "a label that is no text": lambda p: p["columns"][2].update(labels=["By day", "At night", 3]),
    "a label that is too long": lambda p: p["columns"][2].update(labels=["By day", "At night", "x" * 201]),
    "labels of a number": lambda p: p["columns"][0].update(labels=["young", "old"]),
    "key": lambda p: p["keys"][0].update(kid="another"),
    "times": lambda p: p.update(closes=p["opens"]),
    "slug": lambda p: p.update(study="../x"),
    "a column clamped twice": lambda p: p.update(clamping=["bmi", "bmi"]),
    "a factor that is clamped": lambda p: p.update(clamping=["bmi", "shift"]),
    "an unknown column that is clamped": lambda p: p.update(clamping=["bmi", "height"]),
    "a number that is clamped": lambda p: p.update(clamping=["bmi", 7]),
    "fewer columns than are clamped": lambda p: p.update(clamping=["bmi"]),
    "clamping without its role": lambda p: p["roles"].pop("clamping"),
    "a role on clamping without its columns": lambda p: p.pop("clamping"),
    "no rounds": lambda p: p.update(rounds=[]),
    "limit": lambda p: p.update(limit=1 << 20),
}


@pytest.mark.parametrize("which", WRONG_PLANS)
def test_a_plan_that_this_version_does_not_know_is_refused(which):
    with pytest.raises(MessageError):
        study.read_plan(changed(PAYLOAD, WRONG_PLANS[which]))


@ROLES
def test_a_radius_that_is_one_step_too_large_is_refused(role):
    radius = PLAN.roles[role].radius
    assert study.read_plan(PAYLOAD).roles[role].radius == radius
    with pytest.raises(MessageError, match="the noise would be too small"):
        study.read_plan(changed(PAYLOAD, lambda p: p["roles"][role].update(radius=radius + 1)))


@pytest.mark.some(1)
@pytest.mark.parametrize("where", PLACES)
def test_texts_are_of_one_line_and_show_all_that_they_have(where):
    def put(text):
        return study.read_plan(changed(PAYLOAD, lambda p: PLACES[where](p, text)))

    for text in SEEN.values():
        assert put(text)
    for what, text in HIDDEN.items():
        if (what, where) == ("newline", "purpose"):
            assert put(text).purpose == text
            continue
        with pytest.raises(MessageError, match=r"visible characters, without U\+[0-9A-F]{4}") as e:
            put(text)
        assert not wire.HIDDEN.search(str(e.value))


def test_labels_are_part_of_the_plan_that_is_signed():
    labels = ("By day", "At night", "Both")
    there = study.read_plan(changed(PAYLOAD, lambda p: p["columns"][2].update(labels=labels)))
    assert there.columns[2] == PLAN.columns[2]._replace(labels=labels)
    assert study.read_plan(study.plan_payload(there)) == there
    assert b"labels" not in PAYLOAD  # of a plan without any: its bytes are what they were


def test_members_for_others_are_let_be():
    assert study.read_plan(changed(PAYLOAD, lambda p: p.update(x_poster="blue"))) == PLAN


WRONG_STATES = {
    "version": lambda s: s.update(v=0),
    "member": lambda s: s.update(more=1),
    "plan": lambda s: s.update(plan=wire.base(bytes(32))),
    "role": lambda s: s["asks"][0].update(role="curvature"),
    "not finite": lambda s: s["asks"][0]["theta"].__setitem__(0, "inf"),
    "nan": lambda s: s["asks"][0]["rows"].__setitem__(0, "nan"),
    "beyond 2^60": lambda s: s["asks"][0]["rows"].__setitem__(0, (2.0**61).hex()),
    "rows": lambda s: s["asks"][0]["rows"].pop(),
    "theta": lambda s: s["asks"][0]["theta"].append("0x0.0p+0"),
    "signs": lambda s: s["asks"][0]["signs"].pop(),
    "bits of signs": lambda s: s["asks"][0].update(signs=["AAAA"] * 16),
    "offsets beside signs": lambda s: s["asks"][0].update(offsets=[["0x0.0p+0"] * PLAN.size] * 16),
    "groups of offsets": lambda s: s["asks"][0].update(signs=[], offsets=[["0x0.0p+0"] * PLAN.size] * 15),
    "offsets of a group": lambda s: s["asks"][0].update(signs=[], offsets=[["0x0.0p+0"]] * 16),
    "thresholds": lambda s: s["asks"][0].update(thresholds=[["0x0.0p+0"]]),
    "gauge": lambda s: s["asks"][0].update(gauge={k: "0x0.0p+0" for k in ("residual", "spread", "centre")}),
    "nobody": lambda s: s.update(asks=[]),
    "below": lambda s: s["asks"][0].update(below=5),
    "slots": lambda s: s.update(slots=[5, 4]),
    "number": lambda s: s.update(number=-1),
    "a decimal": lambda s: s.update(time=1.5),
}


@pytest.mark.parametrize("which", WRONG_STATES)
def test_a_state_that_this_version_does_not_know_is_refused(which):
    payload = messages.state_payload(field_state(HASH, ask(PLAN, "main")))
    with pytest.raises(MessageError):
        messages.read_state(changed(payload, WRONG_STATES[which]), PLAN, HASH)


MOST = lattice.most(PLAN.roles["main"].radius)
WRONG_REPORTS = {
    "version": lambda r: r.update(v=3),
    "member": lambda r: r.update(time=NOON),
    "plan": lambda r: r.update(plan=wire.base(bytes(32))),
    "role": lambda r: r.update(role="score"),
    "numbers": lambda r: r.update(values=wire.pack([0] * 4)),
    "part of a number": lambda r: r.update(values=wire.base(bytes(19))),
    "beyond six sd": lambda r: r.update(values=wire.pack([0, 0, 0, 0, MOST + 1])),
    "least integer": lambda r: r.update(values=wire.pack([0, 0, 0, 0, -(2**31)])),
    "token": lambda r: r.update(token=r["token"][:-4]),
    "a token of one's own": lambda r: r.update(token=messages.token_text(token(1, key=0))),
}


@pytest.mark.parametrize("which", WRONG_REPORTS)
def test_a_report_that_cannot_be_is_refused_without_a_value(which):
    body = messages.report_body(Report(HASH, 0, "main", token(), (1234567, 0, 0, 0, MOST)))
    assert messages.read_report(body, PLAN, HASH).values[-1] == MOST
    with pytest.raises(MessageError) as e:
        messages.read_report(changed(body, WRONG_REPORTS[which]), PLAN, HASH)
    assert "1234567" not in str(e.value)
    assert str(MOST) not in str(e.value)


def test_a_report_beyond_the_plans_limit_is_refused():
    body = messages.report_body(Report(HASH, 0, "main", token(), (0,) * 5))
    with pytest.raises(MessageError, match="longer than 4096 bytes"):
        messages.read_report(body + b" " * 4096, PLAN, HASH)


# --- trees ---------------------------------------------------------------------------------------------------


def test_a_tree_names_the_columns_it_reads():
    old, spline = ["cmp", "gt", ["col", "age"], ["const", "0x1p+5"]], ["bspline", ["col", "bmi"], 3, [], 0]
    tree = ["where", old, spline, ["not", ["level", "shift", "day"]]]
    assert sorted(trees.names(tree)) == ["age", "bmi", "shift"]


def deep(n):
    tree = ["col", "age"]
    for _ in range(n):
        tree = ["abs", tree]
    return tree


def test_trees_have_a_greatest_depth_and_size():
    columns = {c.name: c for c in PLAN.columns}
    assert trees.check(deep(47), columns, "a column") == 48
    wide = deep(0)
    for _ in range(15):
        wide = ["add", wide, wide]
    for tree in (deep(48), wide):
        with pytest.raises(MessageError, match="too large"):
            trees.check(tree, columns, "a column")


KNOTS = [float(k).hex() for k in (0, 0, 0, 0, 1, 2, 2, 2, 2)]


@pytest.mark.parametrize(
    ("tree", "fine"),
    [
        (["bspline", ["col", "age"], 3, KNOTS, 4], True),
        (["bspline", ["col", "age"], 3, KNOTS, 5], False),
        (["bspline", ["col", "age"], 3, KNOTS, True], False),
        (["bspline", ["col", "age"], 9, KNOTS, 0], False),
        (["bspline", ["col", "age"], 3, KNOTS[::-1], 0], False),
        (["cr", ["col", "age"], KNOTS[3:6], KNOTS[:3], KNOTS[:3]], True),
        (["cr", ["col", "age"], KNOTS[3:6], KNOTS[:3], KNOTS[:2]], False),
        (["cr", ["col", "age"], KNOTS[2:6], KNOTS[:4], KNOTS[:4]], False),
        (["cr", ["col", "age"], KNOTS[3:6], KNOTS[:3], ["nan"] * 3], False),
        (["cmp", "almost", ["col", "age"], ["col", "bmi"]], False),
        (["col", "ill"], True),
        (["level", "ill", True], True),
        (["level", "ill", 1.0], False),
        ([], False),
        ("age", False),
        (["not"], False),
        ([["col", "age"]], False),
    ],
)
def test_operations_have_the_arguments_they_need(tree, fine):
    columns = {c.name: c for c in PLAN.columns}
    if fine:
        trees.check(tree, columns, "a column")
        return
    with pytest.raises(MessageError):
        trees.check(tree, columns, "a column")


# --- budgets as fractions ------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.floats(1e-5, 10.0))
def test_a_budget_as_a_fraction_is_no_larger(mu):
    p, q = mu_of(mu)
    assert q <= 10**6
    assert p / q <= mu * (1 + 1e-15)
    assert p / q >= mu - 1e-6


def test_budgets_of_a_field_study_have_limits():
    assert mu_of(0.8) == Mu(4, 5)
    for mu in (0.0, -1.0, math.nan, math.inf, 11.0):
        with pytest.raises(MessageError):
            mu_of(mu)


def test_keys_of_tests_are_no_keys_of_each_other():
    assert public(key_of(1)) != public(key_of(2))
