"""The JavaScript device computes what the Python device does: vectors, numbers, refusals of messages."""

import itertools
import json
import math
import random
import struct
import subprocess
from contextlib import nullcontext
from fractions import Fraction
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import hpke
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.protocol import lattice
from privreg.protocol.sums import APART, ODDS, SHARES
from privreg_field.device import ed25519
from privreg_field.device.report import answer, design, sums
from privreg_field.wire import messages, study, trees, wire
from privreg_field.wire.study import Role
from tests.conformance import make
from tests.device.test_seal import SMALL
from tests.service.node import node
from tests.studies import (
    HIDDEN,
    PLACES,
    ROOT,
    SEEN,
    SUMS,
    const,
    hexed,
    public,
    signed,
    study_plan,
    sum_ask,
    sum_plan,
)

PAGE = Path(study.__file__).parents[1] / "service" / "web" / "device" / "plan.js"
FOUND = {name: json.loads((make.FOLDER / f"{name}.json").read_text()) for name in make.FILES}


def bits(value):
    return struct.pack(">d", value).hex()


def test_the_same_words_give_the_same_noise(js):
    for case in FOUND["noise"]:
        said = js("noise", bits=case["bits"], words=case["words"], count=len(case["noise"]))
        assert said == {"noise": case["noise"], "used": case["used"]}


@pytest.mark.parametrize("family", SUMS)
def test_two_reports_are_as_far_apart_in_a_browser(js, family):
    own = sum_plan(family).sums
    changed = [own._replace(shares=SHARES[kind]) for kind in APART]  # roles are as wide as these shares'
    changed.append(own._replace(scaled=not own.scaled))
    changed = [] if family in {"ordered", "hazards"} else changed  # which have no scale
    for more in ({}, {"offset": ["sub", ["col", "visits"], const(3)]}, *({"sums": of} for of in changed)):
        plan = sum_plan(family, **more)
        lengths = [math.sqrt(most) for most, _ in ODDS[:-1]]
        asks = [[role, None, 1.0] for role in plan.roles]
        asks += [["main", [k * by, 0.0, 0.0, 0.0, 0.0], 1.0] for k in lengths for by in (1.0 - 1e-9, 1.0 + 1e-9)]
        said = js("apart", plan=wire.base(study.plan_payload(plan)), asks=asks)
        for (role, theta, reach), one in zip(asks, said, strict=True):
            ask = None if theta is None else sum_ask(plan, "main", theta=tuple(theta), reach=reach)
            assert Fraction(*map(int, one)) == plan.distance2(role, ask)


def test_rows_give_the_same_reports_by_messages_alone(js):
    found, exact = FOUND["reports"], 0
    for case in found["cases"]:
        plan, state = found["plans"][case["plan"]], found["states"][case["state"]]
        said = js("report", plan=plan, state=state, token=case["token"], row=case["row"], words=case["words"])
        assert (said["place"], said["group"]) == (case["place"], case["group"])
        inside = [math.nan if v is None else float.fromhex(v) for v in (*case["x"], case["y"], case["offset"])]
        assert [v[:4] == "7ff8" for v in said["row"]] == [math.isnan(v) for v in inside]
        if case["exact"]:
            exact += 1
            assert said["before"] == case["before"], case["state"]
            assert said["body"] == case["body"]
        else:
            apart = [abs(a - b) for a, b in zip(said["before"], case["before"], strict=True)]
            assert max(apart) <= 1, case["state"]
        # what JavaScript posts, the collector reads
        payload = wire.unbase(plan, "plan")
        report = messages.read_report(said["body"].encode(), study.read_plan(payload), wire.hash_of(payload))
        assert messages.token_text(report.token) == case["token"]
    assert exact >= 30


def test_rows_give_the_same_shares_by_messages_alone(js):
    found, apart, exact = FOUND["shares"], 0, 0
    for case in found["cases"]:
        plan, state = found["plans"][case["plan"]], found["states"][case["state"]]
        said = js("shares", plan=plan, state=state, **{n: case[n] for n in ("row", "words", "token")})
        assert (said["shares"][1], said["infos"]) == (case["words"], case["infos"])
        if case["exact"] or said["whole"] == case["whole"]:
            exact += 1
            assert (said["whole"], said["shares"][0]) == (case["whole"], case["first"]), case["state"]
        else:
            apart += 1
            assert max(abs(a - b) for a, b in zip(said["whole"], case["whole"], strict=True)) <= 1, case["state"]
    assert apart < 0.05 * exact


def test_studies_of_several_analyses_are_read_alike(js):
    for case in FOUND["analyses"]:
        said = js("plans", **{name: case[name] for name in ("payload", "ids", "rows")})
        assert said["words"] == case["words"]
        for got, one in zip(said["plans"], case["plans"], strict=True):
            assert {name: got[name] for name in ("hash", "slug", "form", "people", "together")} == {
                name: one[name] for name in ("hash", "slug", "form", "people", "together")
            }
            assert (got["wholes"] or None) == one["wholes"]


def test_noise_of_sums_has_the_same_size(js):
    mus = [(1, 1), (1, 2), (3, 1), (1, 100), (2, 1), (999, 1000), (1, 10**5), (10**7, 10**6), (10**7, 1), (1, 10**7)]
    assert js("bits", mus=mus) == [lattice.bits_of_sums(lattice.Mu(*mu)) for mu in mus]


def test_messages_are_sealed_alike(js):
    for case in FOUND["seals"]:
        assert js("seal", **{k: v for k, v in case.items() if k != "sealed"}) == case["sealed"]
    secret = X25519PrivateKey.generate()
    key = wire.base(secret.public_key().public_bytes_raw())
    suite = hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.AES_128_GCM)
    sealed = [wire.unbase(js("seal", key=key, info="aW5mbw", plain="cGxhaW4"), "sealed") for _ in range(2)]
    assert [suite.decrypt(s, secret, info=b"info") for s in sealed] == [b"plain"] * 2
    assert sealed[0][:32] != sealed[1][:32]


@pytest.mark.parametrize("point", SMALL)
def test_nothing_is_sealed_to_points_of_small_order(js, point):
    for bit in (0, 2**255):
        assert js("seal", key=wire.base((point + bit).to_bytes(32, "little")), info="", plain="") is None
    assert js("seal", key=wire.base(bytes([9] * 31)), info="", plain="") is None


def test_envelopes_are_accepted_or_refused_alike(js):
    for case in FOUND["envelopes"]["cases"]:
        said = js(
            "envelope", envelope=case["envelope"], type=case["type"], key=case["key"], plan=FOUND["envelopes"]["plan"]
        )
        assert said == case["accepted"], case["what"]


def test_keys_of_small_order_and_long_encodings_are_refused_alike(js):
    payload = b"a message"
    eighth = 2707385501144840649318225287225658788936804267575313519463743609750303021636
    for y in (0, 1, ed25519.P - 1, ed25519.P, ed25519.P + 1, eighth, ed25519.P - eighth, 2**255 - 1):
        for sign in (0, 1):
            key = (y | sign << 255).to_bytes(32, "little")
            for signature in (bytes([1]) + bytes(63), key + bytes(32)):
                assert not ed25519.verify(key, payload, signature)
                given_ = [wire.base(v) for v in (key, payload, signature)]
                assert js("signed", key=given_[0], message=given_[1], signature=given_[2]) is False
    good = ROOT.sign(payload)
    assert js("signed", key=wire.base(public(ROOT)), message=wire.base(payload), signature=wire.base(good)) is True


def test_hex_floats_are_read_to_the_last_bit(js):
    rng = random.Random(1)
    drawn = [struct.unpack(">d", rng.randbytes(8))[0] for _ in range(4000)]
    small = [struct.unpack(">d", struct.pack(">Q", rng.getrandbits(52) >> rng.randrange(52)))[0] for _ in range(1000)]
    some = [v for v in (*drawn, *small, 0.0, -0.0, 5e-324, 2.0**60, -(2.0**60), 1.7976931348623157e308) if v == v]
    texts = [v.hex() for v in some if math.isfinite(v)]
    # more digits than a subnormal number has, so that the last is rounded
    texts += [f"0x{lead}.{rng.getrandbits(52):013x}p{-rng.randrange(1000, 1075)}" for lead in "01" for _ in range(500)]
    texts += [
        "0x1p+1074",
        "0x0.0000000000001p+1074",
        "0x0p+1074",
        "0x1.fffffffffffffp+1023",
        "0x1p-1074",
        "0x1.8p-1074",
    ]

    def read(text):
        try:
            return bits(wire.number_of(text, "a number", infinite=True))
        except wire.MessageError:
            return None

    said = js("hexes", texts=texts)
    assert said == [read(t) for t in texts]
    assert sum(v is not None for v in said) > 5000
    wrong = [
        "", "1.5", "0x1.8", "0x2p+0", "0x1.8P+0", "0X1p0", " 0x1p0", "0x1p0\n", "0x1.p0", "0x1p1075", "nan", "Inf",
        "0x1.12345678901234p0",
    ]  # fmt: skip
    assert js("hexes", texts=wrong) == [read(t) for t in wrong]


JSON = (
    b"{}", b"[1]", b" {\"a\" : [1 , 2, {\"b\":null}] }\n", b"-0", b"0", b"9007199254740992", b"-9007199254740992",
    b"9007199254740993", b"1.0", b"1e3", b"01", b"+1", b"--1", b"NaN", b"Infinity", b"-Infinity", b"tru", b"truely",
    b'{"a":1,"a":2}', b'{"a":1,"\\u0061":2}', b'{"__proto__":1}', b'"\\ud800"', b'"\\ud83d\\ude00"', b'"\x01"',
    b'"\\x"', b'"a', b"[1,]", b"[,1]", b"{1:2}", b'{"a" 1}', b"[1] 2", b"", b" ", b"\xef\xbb\xbf{}", b"\xff",
    b'"\xc3\x28"', b"'a'",
    b"[" * 64 + b"]" * 64, b"[" * 63 + b"1" + b"]" * 63, b"[" * 65 + b"]" * 65, b"[" * 64 + b"1" + b"]" * 64,
    b'{"a":' * 63 + b"1" + b"}" * 63, b'{"a":' * 64 + b"1" + b"}" * 64, b"\x0b1", "\u00a01".encode(),
    b"1" * 18, b"/**/1",
)  # fmt: skip


def read_json(data):
    try:
        wire.loads(data, "a text")
    except wire.MessageError:
        return False
    return True


def test_json_is_as_strict(js):
    said = js("json", texts=[wire.base(t) for t in JSON])
    assert dict(zip(JSON, said, strict=True)) == {t: read_json(t) for t in JSON}
    assert 10 < sum(said) < len(JSON) - 10


def test_bytes_have_one_spelling(js):
    texts = ["", "A", "AA", "AB", "AAA", "AAB", "AAAA", "A===", "AA==", "A+", "A_-9", "AA AA", "ÄA", "AAAAA"]
    expected = []
    for text in texts:
        try:
            expected.append(list(wire.unbase(text, "text")))
        except wire.MessageError:
            expected.append(None)
    assert js("bases", texts=texts) == expected
    lists = [[], [0], [1, -1, 2**31 - 1, -(2**31)], list(range(-5, 300))]
    assert js("packs", lists=lists) == [[wire.pack(v), v] for v in lists]


def test_radii_are_checked_in_integers(js):
    rng, cases = random.Random(3), []
    for form in {**dict.fromkeys(lattice.FORMS), **dict.fromkeys(lattice.SUM_FORMS)}:
        for _ in range(60):
            numbers, mu = rng.choice([1, 2, 6, 78, 4950]), (rng.randrange(1, 10**7), rng.randrange(1, 10**7))
            edge = lattice.radius(form, numbers, lattice.Mu(*mu), lattice.BITS)
            cases += [(form, numbers, r, mu, lattice.BITS) for r in (edge - 1, edge, edge + 1)]
    cases += [("ball", 1, 2**20, (1, 1000), bits) for bits in (30, 31, 40, 52, 53)]
    cases += [("ball", 1, 2**30, (10**7, 1), 20), ("ball", 0, 5, (1, 1), 20), ("round", 1, 5, (1, 1), 20)]
    said = js("private", cases=cases)
    assert said == [lattice.is_private(f, n, r, lattice.Mu(*mu), m) for f, n, r, mu, m in cases]
    assert 200 < sum(said) < len(cases) - 150


REALS = st.one_of(st.floats(), st.sampled_from([0.0, 0.5, 1.0, -1.0, 1e200, 1e-200, math.nan, math.inf]))


def as_text(v):
    return "nan" if math.isnan(v) else v.hex() if math.isfinite(v) else str(v)


@settings(max_examples=60, deadline=None, database=None)
@given(
    form=st.sampled_from(lattice.FORMS),
    radius=st.integers(1, 2**30 - 1),
    report=st.lists(REALS, min_size=2, max_size=6),
)
def test_whatever_is_reported_is_clipped_alike(js, form, radius, report):
    n = len(report)
    numbers = n * (n + 1) // 2 if form == lattice.MOMENTS else n
    role = {"form": form, "numbers": numbers, "radius": radius, "groups": 1}
    finite = [v for v in report if not math.isnan(v)] + [1.0] * sum(map(math.isnan, report))
    (said,) = js("values", cases=[[role, [as_text(v) for v in finite]]])
    a = answer.values(Role(**role), finite)
    assert said == a
    square = sum(v * v for v in (a[:-1] if form == lattice.JOINT else a))
    if form in {lattice.BALL, lattice.JOINT}:
        assert square <= radius * radius


@settings(max_examples=60, deadline=None, database=None)
@given(
    form=st.sampled_from(lattice.SUM_FORMS),
    radius=st.integers(1, 2**30 - 1),
    report=st.lists(REALS, min_size=1, max_size=6),
)
def test_whatever_is_shared_out_is_in_the_same_set(js, form, radius, report):
    n = len(report)
    numbers = n * (n + 1) // 2 if form == lattice.PSD else n
    role = {"form": form, "numbers": numbers, "radius": radius, "groups": 1}
    finite = [v for v in report if not math.isnan(v)] + [1.0] * sum(map(math.isnan, report))
    (said,) = js("wholes", cases=[[role, [as_text(v) for v in finite]]])
    assert said == sums.whole(Role(**role), finite)


SIZES = (0.0, 0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 7.0, 1e300, 5e-324, 2.0**52 + 1, math.inf)
NUMBERS = [sign * v for v in SIZES for sign in (1, -1)]
EXACT = [n for n in (*trees.TWO, *trees.ONE) if n not in {"log", "log1p", "exp", "pow"}]


def test_operations_on_edges_are_the_same(js):
    cases, expected = [], []
    for name in (*EXACT, "pow"):
        for a in NUMBERS:
            for b in NUMBERS if name in trees.TWO else (0.0,):
                tree = [name, ["col", "a"], ["col", "b"]][: 3 if name in trees.TWO else 2]
                cases.append([tree, {"a": as_text(a), "b": as_text(b)}])
                expected.append(design.value_of(tree, {}, {"a": a, "b": b}))
    said = js("trees", cases=cases)
    for (tree, values), got, value in zip(cases, said, expected, strict=True):
        if math.isnan(value):
            assert got[:3] in {"7ff", "fff"}, (tree, values)
            assert int(got, 16) & (2**52 - 1), (tree, values)
        elif tree[0] == "pow":
            assert struct.unpack(">d", bytes.fromhex(got))[0] == pytest.approx(value, rel=1e-14), (tree, values)
        else:
            assert got == bits(value), (tree, values)


def test_answers_are_read_alike(js):
    answers = [
        0, 1, -3, 41, 41.0, 41.5, 1e300, "41", " 41", "41 ", "4e1", "4,1", ".5", "5.", "1e999", "NaN", "", None, True,
        False, "true", "True", "night", "1", "1.0", [], {}, [41], "-0", -0.0,
    ]  # fmt: skip
    columns = (*study_plan().columns, trees.Column("k", (1, 2, "3", True), -math.inf, math.inf, "k"))
    for column in columns:
        low, high = hexed(column.low), hexed(column.high)
        told = {"name": column.name, "levels": list(column.levels), "low": low, "high": high, "ask": column.ask}
        assert js("reads", column=told, answers=answers) == [design.read(column, a) for a in answers], column.name


@pytest.mark.parametrize("made", [study_plan, sum_plan])
def test_plans_that_python_refuses_are_refused(js, made):
    """Every member is left out, and takes values of other types or out of range: of twelve the next three."""
    good = json.loads(study.plan_payload(made()))
    wrong = itertools.cycle((None, -1, 10**12, "", "?", [], {}, True, [1], 0, "0x1p+100", "nan"))
    changed, agreed, refused = [], 0, 0

    def walk(value, put):
        if isinstance(value, dict):
            for name in list(value):
                if name == "model":
                    continue
                left = {k: v for k, v in value.items() if k != name}
                changed.append(put(left))
                changed.append(put({**value, "more": 1}))
                walk(value[name], lambda v, name=name: put({**value, name: v}))
        elif isinstance(value, list) and value:
            walk(value[0], lambda v: put([v, *value[1:]]))
            changed.append(put(value[:-1]))
        changed.extend(put(w) for w in itertools.islice(wrong, 3))

    walk(good, lambda v: v)
    for one in changed:
        data = json.dumps(one).encode()
        try:
            study.read_plan(data)
            accepted = True
        except wire.MessageError:
            accepted = False
        assert js("plan", payload=wire.base(data)) == accepted, one
        agreed += accepted
        refused += not accepted
    assert refused > 300
    assert agreed >= 10


def test_texts_that_python_refuses_are_refused(js):
    good = json.loads(study.plan_payload(study_plan()))
    for where, put in PLACES.items():
        for what, text in {**HIDDEN, **SEEN}.items():
            one = json.loads(json.dumps(good))
            put(one, text)
            accepted = what in SEEN or (what, where) == ("newline", "purpose")
            assert js("plan", payload=wire.base(json.dumps(one).encode())) == accepted, (where, what)


def test_labels_that_python_refuses_are_refused(js):
    good = json.loads(study.plan_payload(study_plan()))
    for labels, fine in (
        (["By day", "At night", "Both"], True), (["At night", "day", "x" * 200], True), ([], False),
        (["By day", "At night"], False), (["a", "b", "a"], False), (["a", "b", ""], False), (["a", "b", 3], False),
        (["a", "b", "x" * 201], False), ("abc", False), (None, False),
    ):  # fmt: skip
        one = json.loads(json.dumps(good))
        one["columns"][2]["labels"] = labels
        data = json.dumps(one).encode()
        assert js("plan", payload=wire.base(data)) == fine, labels
        with nullcontext() if fine else pytest.raises(wire.MessageError):
            study.read_plan(data)


def test_states_that_python_refuses_are_refused(js):
    found = FOUND["reports"]
    refused, others = 0, itertools.cycle((None, -1, 2**40, "", "?", [], {}, True, [1], "0x1p+61"))
    for name in ("huber main", "huber location", "huber moments", "huber measures", "wide main", "shares"):
        vectors, which = (FOUND["shares"], "huber main") if name == "shares" else (found, name)
        plan = wire.unbase(vectors["plans"][which.split()[0]], "plan")
        read, plan_hash = study.read_plan(plan), wire.hash_of(plan)
        good = json.loads(wire.unbase(vectors["states"][which], "state"))
        key, changed = ROOT, []
        for place in (None, 0):
            part = good if place is None else good["asks"][0]
            for member in part:
                longer = part[member] * 2 if isinstance(part[member], list) else 1.5
                for other in (*itertools.islice(others, 2), longer):
                    new = {**part, member: other}
                    changed.append(new if place is None else {**good, "asks": [new]})
                changed.append(
                    {k: v for k, v in good.items() if k != member} if place is None else {**good, "asks": []}
                )
        for one in changed:
            data = json.dumps(one).encode()
            try:
                messages.read_state(data, read, plan_hash)
                accepted = True
            except wire.MessageError:
                accepted = False
            refused += not accepted
            envelope = signed("state", data, key).decode()
            said = js("envelope", envelope=envelope, type="state", key=wire.base(public(key)), plan=wire.base(plan))
            assert said == accepted, one
    assert refused > 180


def test_the_device_tests_itself_and_its_noise_is_normal(js):
    assert js("check")
    drawn = js("draw", bits=20, count=20_000)["noise"]
    z = [v / 2**20 for v in drawn]
    mean, square = sum(z) / len(z), sum(v * v for v in z) / len(z)
    assert abs(mean) < 5 / math.sqrt(len(z))
    assert abs(square - 1) < 5 * math.sqrt(2 / len(z))
    for x in (-2, -1, -0.5, 0, 0.5, 1, 2):
        share, law = sum(v < x for v in z) / len(z), 0.5 * math.erfc(-x / math.sqrt(2))
        assert abs(share - law) < 5 * math.sqrt(law * (1 - law) / len(z))


def test_invitations_are_read_alike(js):
    from privreg_field.device.client import invitation

    links = [
        "https://x.org/v1/studies/sleep#k=K&t=T", "https://x.org:8443/a/studies/sleep/#k=K&t=T",
        "http://localhost:8000/studies/sleep", "http://127.0.0.1:1/studies/sleep/", "http://[::1]:1/studies/sleep",
        "http://x.org/studies/sleep", "http://localhost.x.org/studies/sleep", "https://u:p@x.org/studies/sleep",
        "https://x.org/", "sleep", "https://x.org/studies/", "https://x.org/studies/a/b", "ftp://x.org/studies/sleep",
        "https://x.org/v1/studies/a/b",
    ]  # fmt: skip
    expected = []
    for link in links:
        try:
            expected.append(invitation(link)._asdict())
        except ValueError:
            expected.append(None)
    assert js("invitations", links=links) == expected
    assert sum(e is not None for e in expected) == 5
    for attempt, asked in ((0, 0), (3, 0), (3, 60), (99, 0), (0, 10**5)):
        (wait,) = js("waits", attempts=[[attempt, asked]])
        most = min(2.0 ** min(attempt, 12), 3600)
        assert max(0.5 * most, min(asked, 3600)) <= wait <= max(most, min(asked, 3600))


def test_a_page_refuses_by_name_a_study_whose_rows_it_cannot_keep():
    """Which the program of the device answers."""
    code = f"""
        const {{ readPlan }} = await import("{PAGE.as_uri()}");
        for (const text of {json.dumps(list(FOUND["diaries"]["plans"].values()))})
          await readPlan(Buffer.from(text, "base64url")).then(() => console.log("read"), (e) => console.log(e.message));
    """
    said = subprocess.run([node(), "--input-type=module", "-e", code], capture_output=True, text=True, check=True)
    lines = said.stdout.splitlines()
    assert len(lines) == len(FOUND["diaries"]["plans"])
    assert all("privreg respond --diary" in line for line in lines)
