"""Plans, states and shares of two collectors: what the parsers refuse, the JSON Schemas do where they can."""

import json
from functools import cache

import pytest

from privreg.protocol import sums
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.wire import MessageError
from tests.field.test_two_collectors import FAMILIES, plan_of
from tests.protocol.test_messages import changed
from tests.protocol.test_schemas import accepts
from tests.studies import ROOT, signed, token


@cache
def shared():
    """A plan with two collectors, its payload and its hash."""
    plan = plan_of()
    payload = study.plan_payload(plan)
    return plan, payload, wire.hash_of(payload)


def shared_state(role):
    plan, _, named = shared()
    d = plan.d
    ask = sums.SumAsk(
        role, messages.WORDS, ((0.5,) * d,) * d, (-0.25,) * d, 0.5, 1.0, 0.5, 3.0, 2.5, plan.roles[role].radius
    )
    return messages.FieldState(named, 3, bytes(32), 7, True, (0, messages.WORDS), (ask,), bytes(32))


def shared_body(role):
    plan, _, named = shared()
    return peers.share_body(
        peers.Share(named, 3, role, token(5), bytes(peers.WORD * plan.roles[role].numbers + peers.BESIDE))
    )


@pytest.mark.parametrize("family", FAMILIES)
def test_plans_with_two_collectors_are_as_the_schema_says(family):
    assert accepts("plan", study.plan_payload(plan_of(family)))


def test_states_and_shares_of_two_collectors_are_as_the_schema_says():
    plan, _, named = shared()
    for role in plan.roles:
        payload, body = messages.state_payload(shared_state(role)), shared_body(role)
        assert messages.read_state(payload, plan, named).asks[0].role == role
        assert peers.read_share(body, plan, named).role == role
        assert accepts("state", payload)
        assert accepts("share", body)


@pytest.mark.parametrize("kind", wire.TYPES)
def test_what_is_signed_is_as_the_schema_says(kind):
    assert accepts("envelope", signed(kind, b"{}", ROOT))
    assert not accepts("envelope", changed(signed(kind, b"{}", ROOT), lambda e: e.update(type="report")))


def at(*path):
    """The last object but one on a path of a message, and the last name of the path."""

    def find(message):
        for name in path[:-1]:
            message = message[name]
        return message, path[-1]

    return find


def put(value, *path):
    def change(message):
        inside, name = at(*path)(message)
        inside[name] = value

    return change


def gone(*path):
    def change(message):
        inside, name = at(*path)(message)
        del inside[name]

    return change


WRONG_SHARED = {
    "plan": {
        "one collector": lambda p: p["collectors"].pop(),
        "three collectors": lambda p: p["collectors"].append(p["collectors"][0]),
        "no collectors": gone("collectors"),
        "no sums": gone("sums"),
        "a collector without a key to seal to": gone("collectors", 0, "seal"),
        "an unknown member of a collector": put(1, "collectors", 0, "port"),
        "a name of two lines": put("a\nb", "collectors", 0, "name"),
        "a short key": put("AAAA", "collectors", 1, "key"),
        "the local mechanism": put("rounded_gaussian", "privacy", "mechanism"),
        "a clamp": put(6, "privacy", "clamp"),
        "a local role": put(None, "roles", "pilot"),
        "no approach": gone("roles", "approach"),
        "a local form": put("joint", "roles", "main", "form"),
        "another form": put("ball", "roles", "moments", "form"),
        "groups": put(16, "roles", "main", "groups"),
        "a round of a local role": put("measures", "rounds", 0, "role"),
        "a family without a slope": put("hinge", "score", "family"),
        "columns without a scale": put([1], "unscaled"),
        "three squared norms": lambda p: p["sums"]["shares"].pop(),
        "an unknown member of sums": put(1, "sums", "more"),
        "binary as a number": put(1, "sums", "binary"),
        "an earlier format": put(1, "sums", "format"),
    },
    "state": {
        "two asks": lambda s: s["asks"].append(s["asks"][0]),
        "no reach": gone("asks", 0, "reach"),
        "a negative reach": put("-0x1p+1", "asks", 0, "reach"),
        "no window": gone("asks", 0, "window"),
        "a window of zero": put("0x0p+0", "asks", 0, "window"),
        "a negative scale": put("-0x1p+0", "asks", 0, "scale"),
        "part of the tokens": put(1 << 31, "asks", 0, "below"),
        "a local role": put("pilot", "asks", 0, "role"),
        "signs beside": put([], "asks", 0, "signs"),
        "no nonces": gone("nonces"),
        "one nonce": put("AAAAAAAAAAAAAAAAAAAAAA", "nonces"),
    },
    "share": {
        "no share": gone("share"),
        "a short share": put("AAAA", "share"),
        "padding": lambda s: s.update(share=s["share"] + "="),
        "values": put("AAAA", "values"),
        "a local role": put("pilot", "role"),
        "a negative state": put(-1, "state"),
        "a short token": put("AAAA", "token"),
    },
}
BEYOND_SHARED = {
    "an address without http": put("a.example.org", "collectors", 1, "url"),
    "an address with a fragment": put("https://a.example.org/#x", "collectors", 1, "url"),
    "a negative squared norm": put("-0x1p-3", "sums", "shares", 0),
    "a threshold of zero": put("0x0.0p+0", "sums", "ratio"),
    "a column twice": lambda p: p["sums"]["numbers"].append(p["sums"]["numbers"][0]),
    "one twice": put(None, "collectors", 1),
    "m of another budget": put(19, "privacy", "bits"),
    "a larger radius": put((1 << 30) - 1, "roles", "main", "radius"),
    "other numbers": put(3, "roles", "main", "numbers"),
    "limits of fewer columns": lambda p: p["sums"]["lows"].pop(),
    "limits upside down": lambda p: p["sums"].update(y_low=p["sums"]["y_high"], y_high=p["sums"]["y_low"]),
}
"""Of plans, what goes between members; `None` stands for the first collector."""


@pytest.mark.parametrize(("name", "which"), [(name, which) for name in WRONG_SHARED for which in WRONG_SHARED[name]])
def test_what_two_collectors_refuse_the_schema_does(name, which):
    plan, payload, named = shared()
    right = {"plan": payload, "state": messages.state_payload(shared_state("main")), "share": shared_body("main")}[name]
    wrong = changed(right, WRONG_SHARED[name][which])
    read = {
        "plan": study.read_plan,
        "state": lambda data: messages.read_state(data, plan, named),
        "share": lambda data: peers.read_share(data, plan, named),
    }[name]
    read(right)
    with pytest.raises(MessageError):
        read(wrong)
    assert accepts(name, right)
    assert not accepts(name, wrong)


@pytest.mark.parametrize("which", BEYOND_SHARED)
def test_what_goes_between_members_the_parser_alone_refuses(which):
    _, payload, _ = shared()
    wrong = json.loads(payload)
    BEYOND_SHARED[which](wrong)
    if wrong["collectors"][1] is None:
        wrong["collectors"][1] = wrong["collectors"][0]
    with pytest.raises(MessageError):
        study.read_plan(json.dumps(wrong).encode())
    assert accepts("plan", json.dumps(wrong))
