"""What the conformance vectors hold."""

import hashlib
import json
import math
import random
import tempfile
from pathlib import Path

from privreg.protocol.codes import DEEPEST, HIGHEST, MOST_KNOTS
from privreg.protocol.sums import LETTERS
from privreg_field.device import ed25519, seal
from privreg_field.device.report import answer, sums
from privreg_field.device.report.design import row_of
from privreg_field.device.report.noise import Words, rounded_normal
from privreg_field.wire import messages, peers, study, trees, wire
from privreg_field.wire.analyses import hash_of_part, word_of
from privreg_field.wire.messages import Report
from privreg_field.wire.roles import Diary
from privreg_field.wire.study import Cell
from privreg_field.wire.wire import MessageError
from tests.field.test_analyses import TWO, plans_of
from tests.studies import (
    CLAMPING,
    DAY,
    DESIGN,
    HIDDEN,
    NOON,
    PLACES,
    ROOT,
    SCORES,
    SEEN,
    SERVER,
    SUMS,
    ask,
    const,
    field_state,
    hexed,
    key_of,
    public,
    roles_of,
    signed,
    study_plan,
    sum_ask,
    sum_plan,
    token,
)

FOLDER = Path(__file__).parent
POLYNOMIAL = ("huber", "expectile", "quantile", "squared", "hinge", "smoothed_hinge")
"""Families whose scores call neither exp nor log."""


class Counted(Words):
    """Words that follow from a label, and how many were used."""

    def __init__(self, label, first=b""):
        self.used, self.bytes, self._label, self._first = 0, b"", label, first
        super().__init__(self._more)

    def _more(self, count):
        some = hashlib.shake_256(f"{self._label} {len(self.bytes)}".encode()).digest(count)
        some, self._first = (self._first + some)[:count], b""
        self.bytes += some
        return some

    def word(self):
        self.used += 1
        return super().word()

    @property
    def text(self):
        return wire.base(self.bytes[: 4 * self.used])


def given_words(text):
    """Words of a vector, then no more."""
    data = [wire.unbase(text, "words")]

    def source(count):
        here, data[0] = data[0][:count], data[0][count:]
        return here + bytes(count - len(here)) if here else b""

    return Words(source)


def noise():
    """Words and the noise they give."""
    out = []
    for bits, count in ((0, 60), (8, 40), (20, 60), (24, 20), (31, 20)):
        words = Counted(f"noise {bits}")
        drawn = [rounded_normal(bits, words) for _ in range(count)]
        out.append({"bits": bits, "words": words.text, "used": words.used, "noise": drawn})
    # two uniform numbers that are equal in their first word, so that further words are drawn for both
    prefix = b"".join(w.to_bytes(4, "little") for w in (5, 5, 9, 8))
    words = Counted("tied", prefix)
    drawn = [rounded_normal(20, words) for _ in range(5)]
    out.append({"bits": 20, "words": words.text, "used": words.used, "noise": drawn})
    return out


OPERATIONS = (
    ["sub", ["div", ["col", "age"], const(2)], ["floordiv", ["col", "bmi"], const(7)]],
    ["mod", ["sub", ["col", "hours"], const(30)], const(7)],
    ["pow", ["col", "hours"], const(2)],
    ["min", ["col", "age"], ["max", ["col", "bmi"], const(30)]],
    ["abs", ["sub", ["col", "age"], const(50)]],
    ["round", ["div", ["col", "age"], const(2)]],
    ["where", ["cmp", "ge", ["col", "age"], const(65)], const(1), ["sqrt", ["col", "bmi"]]],
    ["and", ["not", ["col", "ill"]], ["or", ["level", "shift", "night"], ["cmp", "ne", ["col", "hours"], const(8)]]],
    ["bspline", ["col", "age"], 3, [hexed(k) for k in (18, 18, 18, 18, 40, 60, 90, 90, 90, 90)], 2],
    *(
        ["bspline", ["min", ["col", "age"], const(41)], 1, [hexed(k) for k in (18, 18, 30, 41, 41, 41)], i]
        for i in range(4)  # a knot on the upper bound
    ),
    [
        "cr",
        ["col", "bmi"],
        [hexed(k) for k in (15, 25, 35, 50)],
        [hexed(v) for v in (0, 1, 0, 2)],
        [hexed(v) for v in (0, 0.5, -0.25, 0)],
    ],
)
TRANSCENDENTAL = (
    ["log", ["col", "age"]],
    ["log1p", ["col", "hours"]],
    ["exp", ["div", ["col", "bmi"], const(16)]],
    ["pow", ["col", "age"], const(1.5)],
)

ROWS = (
    {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7, "ill": False, "visits": 3},
    {"age": 18, "bmi": 50, "shift": "both", "hours": 0.125, "ill": True, "visits": 0},
    {"age": 12, "bmi": 1e300, "shift": "day", "hours": 8.3, "ill": True, "visits": 20},
    {"age": None, "bmi": 24.5, "shift": "night", "hours": 7, "ill": False, "visits": 3},
    {"age": 67, "bmi": 31.7, "shift": "late", "hours": 5.5, "ill": True, "visits": 1},
)


def designs(trees, **more):
    return study_plan(design=(DESIGN[0], *(Cell(f"t{j}", t, 1.0, 4.0) for j, t in enumerate(trees))), **more)


def plans():
    """Plans by name, with the roles to ask, and whether everybody must get the same integers."""
    out = {f: (study_plan(f), ("pilot", "main", "measures"), f in POLYNOMIAL) for f in SCORES}
    out["huber"] = (study_plan("huber"), tuple(r for r in study.ROLES if r != "clamping"), True)
    out["operations"] = (designs(OPERATIONS, moment_response=False), ("moments", "main"), True)
    out["transcendental"] = (designs(TRANSCENDENTAL, offset=["log", ["col", "bmi"]]), ("moments", "pilot"), False)
    wide = study_plan(is_wide=True, wide=(3, 4), edges=(1.0, 1.5), silent=True)
    out["wide"] = (wide, ("moments", "main", "measures"), True)
    mix = tuple(tuple(0.5 if k == j - 1 else float(j == k) for k in range(5)) for j in range(5))
    mixed = study_plan(mix=mix, constant=True, offset=["div", ["col", "visits"], const(4)])
    out["mixed"] = (mixed._replace(roles=roles_of(mixed)), ("moments", "pilot", "main"), True)
    clamping = study_plan(clamping=("hours", "age", "bmi"))
    held = (*clamping.rounds[:-1], study.Held("clamping", 50, DAY, 5, False), clamping.rounds[-1])
    out["clamping"] = (clamping._replace(rounds=held), ("clamping", "main"), True)
    rates = study_plan("robust_poisson", moment_response=True, offset=["div", ["col", "bmi"], const(16)])
    out["rates"] = (rates, ("moments", "main"), False)
    out["offsets"] = (study_plan("quantile"), ("main",), "quantile" in POLYNOMIAL)
    return out


def asked(name, plan, role):
    """What a state of a plan asks of a role: in plan "offsets" by numbers of their own, in the others by signs."""
    rng = random.Random(f"{name} {role}")
    more = {}
    if name == "offsets":
        rows = tuple(tuple(rng.randint(-32, 32) / 64.0 for _ in range(plan.size)) for _ in range(16))
        more = {"step": 0.0, "signs": (), "offsets": rows}
    return ask(plan, role, rng, **more)


def some(value):
    return None if math.isnan(value) else hexed(value)


def reports():
    """Plans, states and rows, and the reports they give."""
    payloads, states, cases, number = {}, {}, [], 0
    for name, (plan, roles, exact) in plans().items():
        payload = study.plan_payload(plan)
        payloads[name] = wire.base(payload)
        for role in roles:
            state = field_state(wire.hash_of(payload), asked(name, plan, role))
            states[f"{name} {role}"] = wire.base(messages.state_payload(state))
            for row in ROWS if role in {"clamping", "main"} else ROWS[:2]:
                number += 1
                cases.append(case(name, plan, state, role, row, token(number), exact=exact))
    return {"plans": payloads, "states": states, "cases": cases}


def case(name, plan, state, role, row, mine, *, exact):
    place = messages.place_of(state.plan, mine)
    group, inside = messages.group_of(plan, role, place), row_of(plan, row)
    form, words = plan.roles[role], Counted(f"{name} {role} {mine.id.hex()}")
    before = answer.values(form, answer.before_noise(plan, messages.ask_of(state, place), group, inside))
    sent = answer.randomised(before, form, plan.bits, words)
    return {
        "plan": name,
        "state": f"{name} {role}",
        "token": messages.token_text(mine),
        "row": row,
        "place": list(place),
        "group": group,
        "x": [some(v) for v in inside.x],
        "y": some(inside.y),
        "offset": some(inside.offset),
        "exact": exact,
        "before": before,
        "words": words.text,
        "body": messages.report_body(Report(state.plan, state.number, role, mine, tuple(sent))).decode(),
    }


def accepted(data, kind, key, plan=None):
    """What this project's device says."""
    try:
        envelope = wire.open_envelope(data, kind)
        message = wire.signed_bytes(kind, envelope.payload)
        if not any(kid == wire.key_id(key) and ed25519.verify(key, message, s) for kid, s in envelope.signatures):
            return False
        if kind == "plan":
            study.read_plan(envelope.payload)
        else:
            messages.read_state(envelope.payload, plan, wire.hash_of(study.plan_payload(plan)))
    except MessageError:
        return False
    return True


def nested(deep):
    """A tree so deep."""
    tree = ["col", "age"]
    for _ in range(deep - 1):
        tree = ["abs", tree]
    return tree


def spline(degree, count, what="bspline"):
    """A spline of so many knots."""
    knots = [hexed(k) for k in range(count)]
    if what == "cr":
        return ["cr", ["col", "age"], knots, knots, knots]
    return [
        "bspline",
        ["col", "age"],
        degree,
        [knots[0]] * degree + knots[: count - 2 * degree] + [knots[-1]] * degree,
        0,
    ]


def limits():
    """Changes of a plan at each limit of a device, and one beyond."""

    def tree(of):
        return lambda p: p["design"]["columns"][3].update(tree=of)

    def column(**change):
        return lambda p: p["columns"].append(
            {"name": "more", "kind": "levels", "levels": ["a", "b"], "ask": "?", **change}
        )

    def number(text):
        return tree(["const", text])

    cases = {
        "a degree of": (lambda n: tree(spline(n, 30)), HIGHEST),
        "knots of a bspline:": (lambda n: tree(spline(1, n)), MOST_KNOTS),
        "knots of a cr:": (lambda n: tree(spline(3, n, "cr")), MOST_KNOTS),
        "operations inside each other:": (lambda n: tree(nested(n)), DEEPEST),
        "levels:": (lambda n: column(levels=[str(k) for k in range(n)]), trees.MOST_LEVELS),
        "characters of a column's name:": (lambda n: column(name="n" * n), 256),
        "characters of a question:": (lambda n: column(ask="?" * n), 2000),
        "characters of a title:": (lambda n: lambda p: p.update(title="t" * n), 200),
        "an exponent of": (lambda n: number(f"0x1p+{n}"), 60),
        "an integer of 2^53 +": (lambda n: lambda p: p["model"].update(n=2**53 + n), 0),
        "nested lists of the model:": (lambda n: lambda p: p["model"].update(n=json.loads("[" * n + "]" * n)), 62),
    }
    for what, (change, most) in cases.items():
        yield f"{what} {most}", change(most), True
        yield f"{what} {most + 1}", change(most + 1), False


def resigned(change):
    """The plan with a change, signed by who may."""
    said = json.loads(study.plan_payload(study_plan()))
    change(said)
    return signed("plan", json.dumps(said).encode(), ROOT).decode()


def mutations():
    """Envelopes that a device must refuse, by what is wrong with them."""
    payload = study.plan_payload(study_plan())
    good = json.loads(signed("plan", payload, ROOT))
    sig = wire.unbase(good["sigs"][0]["sig"], "sig")
    order = ed25519.ORDER

    def envelope(**change):
        return json.dumps({**good, **change})

    def signature(data, kid=None):
        return envelope(sigs=[{"kid": kid or good["sigs"][0]["kid"], "sig": wire.base(data)}])

    def flipped(data, place, bit=1):
        out = bytearray(data)
        out[place] ^= bit
        return bytes(out)

    long = (int.from_bytes(sig[32:], "little") + order).to_bytes(32, "little")
    return {
        "first byte of the payload": envelope(payload=wire.base(flipped(payload, 0))),
        "a byte of the payload": envelope(payload=wire.base(flipped(payload, 100, 4))),
        "last byte of the payload": envelope(payload=wire.base(flipped(payload, -1))),
        "a blank after the payload": envelope(payload=wire.base(payload + b" ")),
        "padding": envelope(payload=good["payload"] + "="),
        "another alphabet": envelope(payload=good["payload"][:-1] + "+"),
        "no payload": envelope(payload=""),
        "first byte of the signature": signature(flipped(sig, 0)),
        "last byte of the signature": signature(flipped(sig, 63)),
        "a bit of the scalar": signature(flipped(sig, 40, 128)),
        "a scalar beyond the order": signature(sig[:32] + long),
        "a signature of zeros": signature(bytes(64)),
        "a short signature": signature(sig[:63]),
        "a long signature": signature(sig + b"\0"),
        "another key's name": signature(sig, wire.key_id(public(SERVER))),
        "another key": signed("plan", payload, key_of(9)).decode(),
        "a signature over the payload alone": signature(ROOT.sign(payload)),
        "a signature of another type": signature(ROOT.sign(wire.signed_bytes("state", payload))),
        "a signature of another version": signature(ROOT.sign(b"privreg/plan/v2\0" + payload)),
        "no signatures": envelope(sigs=[]),
        "version 2": envelope(v=2),
        "version as text": envelope(v="1"),
        "type state": envelope(type="state"),
        "an unknown type": envelope(type="keys"),
        "an unknown member": envelope(more=1),
        "no JSON": envelope()[:-1],
        "signed: version 2": resigned(lambda p: p.update(v=2)),
        "signed: a radius one too large": resigned(lambda p: p["roles"]["main"].update(radius=524_289)),
        "signed: an unknown operation": resigned(
            lambda p: p["design"]["columns"][3].update(tree=["sin", ["col", "age"]])
        ),
        "signed: an unknown mechanism": resigned(lambda p: p["privacy"].update(mechanism="laplace")),
        "signed: a cluster": resigned(lambda p: p.update(cluster="household")),
        "signed: an unknown member": resigned(lambda p: p.update(colour="red")),
        "signed: a decimal number": resigned(lambda p: p.update(grace=1.5)),
        "signed: mu 0": resigned(lambda p: p["privacy"].update(mu=[0, 1])),
        **{
            f"signed: {what} in {where}": resigned(lambda p, put=put, text=text: put(p, text))
            for where, put in PLACES.items()
            for what, text in HIDDEN.items()
            if where == "title" or what == "escape"
        },
    }


def envelopes():
    """Envelopes, good and mutated."""
    plan = study_plan()
    payload = study.plan_payload(plan)
    state = messages.state_payload(field_state(wire.hash_of(payload), ask(plan, "main")))
    root, server = wire.base(public(ROOT)), wire.base(public(SERVER))
    more = json.dumps({**json.loads(signed("plan", payload, ROOT)), "x_a": 1}).encode()
    good = [
        ("a plan", "plan", root, signed("plan", payload, ROOT)),
        ("a plan of two signatures", "plan", root, signed("plan", payload, key_of(9), ROOT)),
        ("a state", "state", server, signed("state", state, SERVER)),
        ("a plan with a member for others", "plan", root, more),
        ("a purpose of two lines", "plan", root, signed("plan", study.plan_payload(study_plan(purpose="a\nb")), ROOT)),
        *(
            (f"{what} as text", "plan", root, signed("plan", study.plan_payload(study_plan(title=text)), ROOT))
            for what, text in SEEN.items()
        ),
    ]  # fmt: skip
    out = [{"what": w, "type": t, "key": k, "envelope": e.decode(), "accepted": True} for w, t, k, e in good]
    for what, text in mutations().items():
        out.append({"what": what, "type": "plan", "key": root, "envelope": text, "accepted": False})
    for what, change, fine in limits():
        out.append({"what": what, "type": "plan", "key": root, "envelope": resigned(change), "accepted": fine})
    return {"plan": wire.base(payload), "cases": out}


def seals():
    """One-time secret keys, keys of collectors, and what is sealed with them."""
    out = []
    for i, count in enumerate((0, 1, 16, 45, 480)):
        draw = [hashlib.shake_256(f"seal {i} {j}".encode()).digest(n) for j, n in enumerate((32, 32, count, 10 * i))]
        own, key, plain, info = draw[0], seal.x25519(draw[1], seal.BASE), draw[2], draw[3]
        sealed = seal.seal(plain, key, info, lambda n, own=own: own[:n])
        given = {"own": own, "public": seal.x25519(own, seal.BASE), "key": key, "info": info, "plain": plain}
        out.append({k: wire.base(v) for k, v in {**given, "sealed": sealed}.items()})
    return out


def shares():
    """Rows and states of two collectors, the whole numbers that they make, and shares of them by given words."""
    held = {"plans": {}, "states": {}, "cases": []}
    for family in SUMS:
        plan = sum_plan(family, **({"offset": ["sub", ["col", "visits"], const(3)]} if family == "poisson" else {}))
        payload = study.plan_payload(plan)
        held["plans"][family] = wire.base(payload)
        asked = [(role, role, {}) for role in plan.roles]
        if family == "hazards":  # whose weights fall before a longer follow-up ends
            asked += [(f"main, until {most}", "main", {"most": most}) for most in (2.5, 6.0)]
        for name, role, more in asked:
            form = plan.roles[role]
            state = messages.state_payload(field_state(wire.hash_of(payload), sum_ask(plan, role, **more)))
            held["states"][f"{family} {name}"] = wire.base(state)
            (ask,) = messages.read_state(state, plan, wire.hash_of(payload)).asks
            for k, row in enumerate(ROWS):
                words = hashlib.shake_256(f"{family} {name} {k}".encode()).digest(8 * form.numbers)
                a = sums.whole(plan.role_of(ask), sums.of_person(plan, ask, answer.rows_of(plan, [row])))
                first, _ = sums.shares(a, lambda n, words=words: words[:n])
                infos = [peers.share_info(letter, wire.hash_of(state), token(k)) for letter in LETTERS]
                held["cases"].append(
                    {
                        "plan": family, "state": f"{family} {name}", "row": row, "words": wire.base(words), "whole": a,
                        "first": wire.base(first), "token": messages.token_text(token(k)),
                        "infos": [wire.base(info) for info in infos],
                        "exact": (family in POLYNOMIAL and not plan.sums.scaled) or role in EXACT,
                    }
                )  # fmt: skip
    return held


def analyses():
    """Studies of several analyses: of each its hash, people and budgets, what tokens are dealt by, tables' numbers."""
    out = []
    ids = [hashlib.shake_256(f"dealt {k}".encode()).digest(16) for k in range(8)]
    rows = ({"age": 41, "shift": "night", "sex": "x"}, {"age": 1e9, "shift": "day"}, {"age": "71,5", "sex": "f"}, {})
    with tempfile.TemporaryDirectory() as folder:
        for more in ({}, {"split": "people"}, {"missing": "refuse"}, TWO):
            plans = plans_of(Path(folder), [public(SERVER)] if more is not TWO else None, **more)
            payload = study.plan_payload(*plans)
            whole = wire.hash_of(payload)
            out.append({
                "payload": wire.base(payload),
                "ids": [wire.base(one) for one in ids],
                "words": [word_of(whole, one) for one in ids],
                "rows": rows,
                "plans": [
                    {
                        "hash": wire.base(hash_of_part(whole, plan.part.name)), "slug": plan.slug,
                        "form": [c.name for c in plan.form], "people": plan.part.people, "together": plan.together,
                        "wholes": [answer.whole(plan, row) for row in rows] if plan.table else None,
                    }
                    for plan in plans
                ],
            })  # fmt: skip
    return out


DIARIES = {
    "pooled": Diary(3, False, False, "none", "", NOON),
    "people alike, weighted": Diary(4, True, True, "none", "bmi", NOON),
    "within": Diary(4, False, True, "within", "", NOON),
    "differences": Diary(3, True, True, "differences", "", NOON),
}
PERSONS = ([], [ROWS[0]], [ROWS[0], ROWS[1], ROWS[2]], list(ROWS))  # Rows of each person


def diaries():
    """Rows of persons and states, and the whole numbers that they make: where devices add noise, and of sums."""
    held = {"plans": {}, "states": {}, "cases": []}
    for kind, diary in DIARIES.items():
        local = study_plan("huber", unscaled=(), clamping=CLAMPING, diary=diary)
        local = local._replace(roles={k: v for k, v in local.roles.items() if k not in {"location", "measures"}})
        for trust, plan in (("local", local), ("two collectors", sum_plan("huber", diary=diary._replace(one=True)))):
            name, payload = f"{kind}, {trust}", study.plan_payload(plan)
            held["plans"][name] = wire.base(payload)
            for role in plan.roles:
                asked = ask(plan, role) if trust == "local" else sum_ask(plan, role)
                state = messages.state_payload(field_state(wire.hash_of(payload), asked))
                held["states"][f"{name} {role}"] = wire.base(state)
                held["cases"] += [
                    {"plan": name, "state": f"{name} {role}", "rows": rows, "whole": whole_of(plan, role, state, rows)}
                    for rows in PERSONS
                ]
    return held


def whole_of(plan, role, state, rows):
    """The whole numbers of a person's report before noise, of the first group."""
    (ask,) = messages.read_state(state, plan, wire.hash_of(study.plan_payload(plan))).asks
    mine, form = answer.rows_of(plan, rows), plan.role_of(ask)
    if plan.collectors:
        return sums.whole(form, sums.of_person(plan, ask, mine))
    return answer.values(form, answer.of_person(plan, ask, 0, mine))


EXACT = ("clamping", "location", "moments")
"""Reports that call neither exp nor log, of any family."""

FILES = {
    "noise": noise,
    "reports": reports,
    "envelopes": envelopes,
    "seals": seals,
    "shares": shares,
    "analyses": analyses,
    "diaries": diaries,
}


def text_of(name):
    """A file's text."""
    return json.dumps(FILES[name](), indent=1, ensure_ascii=False) + "\n"
