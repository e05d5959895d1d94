"""Plans, states and tokens of studies in the field, for tests of devices and collectors."""

import math

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from privreg.protocol import lattice, sums
from privreg.protocol.lattice import Mu
from privreg.protocol.sums import SumAsk, Sums
from privreg_field.wire.collectors import Collector
from privreg_field.wire.messages import WORDS, Ask, FieldState, Gauge, Token
from privreg_field.wire.study import MEASURES, Cell, Held, PublicPlan, Role
from privreg_field.wire.trees import Column
from privreg_field.wire.wire import Envelope, hash_of, key_id, seal, signed_bytes

ONE = Mu(1, 1)
NOON = 1_800_000_000
DAY = 86_400


def hexed(value):
    return float(value).hex()


def const(value):
    return ["const", hexed(value)]


def key_of(seed):
    """A signing key that anybody can make again: for tests alone."""
    return Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)


ROOT, SERVER = key_of(1), key_of(2)


def public(key):
    return key.public_key().public_bytes_raw()


def signed(kind, payload, *keys):
    """An envelope with the signatures of these keys."""
    sigs = tuple((key_id(public(k)), k.sign(signed_bytes(kind, payload))) for k in keys)
    return seal(Envelope(kind, payload, sigs))


HIDDEN = {
    "newline": "a\nb",
    "carriage return": "a\rb",
    "escape": "a\x1b[2Jb",
    "bell": "a\x07b",
    "delete": "a\x7fb",
    "C1 escape": "a\x9b2Jb",
    "next line": "a\x85b",
    "line separator": "a\u2028b",
    "paragraph separator": "a\u2029b",
    "tab": "a\tb",
    "right-to-left override": "a\u202eb",
    "isolate": "a\u2067b",
    "right-to-left mark": "a\u200fb",
    "Arabic letter mark": "a\u061cb",
    "zero-width space": "a\u200bb",
    "joiner beside Latin": "guar\u200dantee",
    "joiner at the end": "\u0645\u200c",
    "two joiners": "\u0645\u200c\u200d\u0645",
    "word joiner": "a\u2060b",
    "byte order mark": "\ufeffa",
    "soft hyphen": "a\u00adb",
    "Hangul filler": "\u3164",
    "empty braille": "\u2800",
    "interlinear mark": "a\ufff9b",
    "tag": "a\U000e0041b",
    "musical control": "a\U0001d173b",
}
"""Texts that an analyst could imitate a device's words with: devices refuse them in every text of one line."""

SEEN = {
    "Persian": "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",
    "emoji": "\u2764\ufe0f\u200d\U0001f525 \U0001f469\u200d\U0001f52c",
    "French": "Quel\u00a0age\u202favez-vous\u00a0?",
    "Hebrew": "\u05e9\u05dc\u05d5\u05dd",
    "accents": "e\u0301t\u00e9",
}
"""Texts of honest studies."""

PLACES = {
    "title": lambda p, text: p.update(title=text),
    "contact": lambda p, text: p.update(contact=text),
    "purpose": lambda p, text: p.update(purpose=text),
    "question": lambda p, text: p["columns"][5].update(ask=text),
    "name of a column": lambda p, text: p["columns"][5].update(name=text),
    "level": lambda p, text: p["columns"][4].update(levels=[text, *p["columns"][4]["levels"]]),
    "label": lambda p, text: p["columns"][4].update(labels=[text, "Yes"]),
    "name in the design": lambda p, text: p["design"]["columns"][0].update(name=text),
    "release group": lambda p, text: p["privacy"].update(release_group=text),
    "text of the page": lambda p, text: p.update(x_texts={"guess": text}),
    "name of a text": lambda p, text: p.update(x_texts={text: "a"}),
}
"""Where a plan has texts that people read."""

COLUMNS = (
    Column("age", (), 18.0, 90.0, "How old are you?"),
    Column("bmi", (), 15.0, 50.0, "What is your body-mass index?"),
    Column("shift", ("day", "night", "both"), -math.inf, math.inf, "When do you work?"),
    Column("hours", (), 0.0, 24.0, "How long did you sleep?"),
    Column("ill", (False, True), -math.inf, math.inf, "Were you ill?"),
    Column("visits", (), 0.0, 20.0, "How often did you see a doctor?"),
)

CLAMPING = ("hours", "bmi")
"""Columns of which devices may be asked whether they are clamped."""

DESIGN = (
    Cell("Intercept", const(1), 0.0, 1.0),
    Cell("C(shift)[T.night]", ["level", "shift", "night"], 0.0, 1.0),
    Cell("C(shift)[T.both]", ["level", "shift", "both"], 0.0, 1.0),
    Cell("age", ["col", "age"], 54.0, 36.0),
    Cell("age * bmi", ["mul", ["col", "age"], ["col", "bmi"]], 2385.0, 2115.0),
)

RESPONSES = {
    "number": Cell("hours", ["col", "hours"], 12.0, 12.0),
    "binary": Cell("ill", ["col", "ill"], 0.0, 1.0),
    "count": Cell("visits", ["col", "visits"], 0.0, 1.0),
    "levels": Cell(
        "shift",
        ["add", ["level", "shift", "night"], ["mul", const(2), ["level", "shift", "both"]]],
        0.0,
        1.0,
    ),
}

RESPONSES["time"] = Cell(
    "hours",
    ["where", ["not", ["level", "ill", False]], ["col", "hours"], ["mul", const(-1), ["col", "hours"]]],
    0.0,
    1.0,
)

SCORES = {
    "huber": ("number", 0.0, 0.0),
    "expectile": ("number", 0.3, 0.7),
    "quantile": ("number", 0.8, 0.8),
    "squared": ("number", -1.0, 1.0),
    "logistic": ("binary", 0.0, 0.0),
    "balanced": ("binary", 0.0, 0.0),
    "multinomial": ("levels", 0.0, 0.0),
    "poisson": ("count", 20.0, 0.0),
    "robust_poisson": ("count", 20.0, 0.0),
    "hinge": ("binary", 0.0, 0.0),
    "smoothed_hinge": ("binary", 0.5, 0.0),
    "cloglog": ("binary", 0.0, 1.0),
}
"""Response and numbers of every family that devices know, but those of sums alone."""

SUMMED = {
    "ordered": ("levels", 0.0, 0.0),
    "negative_binomial": ("count", 20.0, 2.0),
    "tobit": ("number", -1.0, 1.0),
    "hazards": ("time", 0.0, 0.0),
}
"""The same of families that two collectors alone fit."""

TRACKED = ("huber", "expectile", "quantile", "hinge", "smoothed_hinge")


def study_plan(family="huber", mu=ONE, design=DESIGN, **more):
    """A plan with roles of all kinds; the radii are the largest that keep the budget."""
    response, a, b = (SCORES | SUMMED)[family]
    blocks = 2 if family == "multinomial" else 1
    if family in {"multinomial", "ordered", "hazards"}:
        design = tuple(c for c in design if "shift" not in c.name)
    own = response == "number"
    given = {
        "study": "sleep",
        "title": "Sleep and shift work",
        "purpose": "How sleep goes with age, weight and shifts.",
        "contact": "study@example.org",
        "opens": NOON - DAY,
        "closes": NOON + 30 * DAY,
        "grace": 2 * DAY,
        "keys": (public(SERVER),),
        "columns": COLUMNS,
        "response": RESPONSES[response],
        "offset": None,
        "design": design,
        "mix": None,
        "family": family,
        "a": a,
        "b": b,
        "blocks": blocks,
        "mu": mu,
        "bits": lattice.BITS,
        "roles": {},
        "missing": "noise",
        "rounds": (Held("moments", 100, DAY, 10, False), Held("pilot", 100, 0, 0, False), Held("main", 0, 0, 0, False)),
        "tokens": "issued",
        "limit": 4096,
        "release_group": "sleep.example.org",
        "unscaled": (3, len(design)),
        "constant": False,
        "moment_response": own,
        "wide": (),
        "edges": (),
        "is_wide": False,
        "y_max": 20.0,
        "silent": False,
        "model": {"formula": "hours ~ C(shift) + age + age:bmi"},
    }
    plan = PublicPlan(**{**given, **more})
    return plan if plan.roles else plan._replace(roles=roles_of(plan))


def roles_of(plan):
    """Roles of all kinds, each with the largest radius."""
    told = plan.blocks + 2 if plan.family == "multinomial" else MEASURES[plan.family]
    moments = 2 * len(plan.wide) if plan.is_wide else plan.numbers("moments", lattice.MOMENTS)
    forms = {
        "location": (lattice.BOX, len(plan.unscaled), 16),
        "moments": (lattice.BOX if plan.is_wide else lattice.MOMENTS, moments, 1),
        "pilot": (lattice.JOINT, plan.size + 1, 1) if plan.family in TRACKED else (lattice.BALL, plan.size, 1),
        "clamping": (lattice.BOX, len(plan.clamping), 1),
        "main": (lattice.BALL, plan.size, 16),
        "measures": (lattice.BOX, told + int(plan.silent), 1),
    }
    return {
        name: Role(form, numbers, lattice.radius(form, numbers, plan.mu, plan.bits), groups)
        for name, (form, numbers, groups) in forms.items()
        if numbers
    }


def ask(plan, role, rng=None, **more):
    """What a state asks of a role; rounded numbers, so that polynomial designs give the same integers everywhere."""
    import random

    rng = random.Random(5) if rng is None else rng

    def some(n, size=1.0):
        return tuple(rng.randint(-64, 64) / 64.0 * size for _ in range(n))

    groups, scores = plan.roles[role].groups, role in {"pilot", "main", "measures"}
    d = plan.d + (int(plan.constant) + int(plan.moment_response) if role == "moments" else 0)
    rows = tuple((*some(j, 0.25), 1.0 + rng.randint(0, 64) / 64.0) for j in range(d))
    if plan.is_wide:
        rows = (tuple(1.0 + abs(v) for v in some(plan.d)), some(plan.d)) if scores else ()
    if role in {"location", "clamping"}:
        rows = ()
    signs = tuple(bytes(rng.randrange(256) for _ in range(-(-plan.size // 8))) for _ in range(groups))
    given = {
        "role": role,
        "below": WORDS,
        "rows": rows,
        "y_centre": 0.0,
        "y_scale": 1.0,
        "theta": some(plan.size) if scores else (),
        "c": 0.75,
        "step": 0.125 if role == "main" else 0.0,
        "signs": signs if role == "main" else (),
        "offsets": (),
        "thresholds": tuple(some(len(plan.unscaled)) for _ in range(groups)) if role == "location" else (),
        "gauge": Gauge(1.5, 2.0, 0.125) if role == "measures" else None,
    }
    return Ask(**{**given, **more})


# --- two collectors ------------------------------------------------------------------------------------------

PAIR = (key_of(21), key_of(22))
"""Signing keys of two collectors."""

OPENERS = tuple(X25519PrivateKey.from_private_bytes(bytes([seed]) * 32) for seed in (31, 32))
"""Keys by which they open shares."""

COLLECTORS = tuple(
    Collector(f"Office {who}", f"https://{who.lower()}.example.org", f"{who}@example.org", public(key), public(opener))
    for who, key, opener in zip("AB", PAIR, OPENERS, strict=True)
)

SUMS = {
    "huber": (sums.SHARES["cornered"], 1.345, True, 1.0),
    "expectile": (sums.SHARES["cornered"], 1.0, True, 1.0),
    "quantile": (sums.SHARES["window"], 1.0, True, 0.625),
    "squared": (sums.SHARES["plain"], 1.0, False, 0.5),
    "logistic": (sums.SHARES["logistic"], 1.0, False, 0.25),
    "ordered": (sums.SHARES["logistic, persons"], 1.0, False, 0.25),
    "poisson": (sums.SHARES["plain"], 1.0, False, 1.0),
    "negative_binomial": (sums.SHARES["window"], 1.0, True, 1.0),
    "tobit": (sums.SHARES["cornered"], 1.345, True, 1.0),
    "hazards": (sums.SHARES["followed"], 1.0, False, 1.0),
}
"""Shares, threshold in scales, whether there is a scale, and the steepest slope, of what two collectors fit."""


def sum_plan(family="huber", mu=ONE, collectors=COLLECTORS, **more):
    """A plan with two collectors and roles of all kinds; the radii are the largest that keep the budget."""
    shares, ratio, scaled, top = SUMS[family]
    kind = (SCORES | SUMMED)[family][0] if family not in {"ordered", "hazards"} else "binary"
    low, high = {"binary": (0.0, 1.0), "count": (0.0, 20.0)}.get(kind, (-1.0, 1.0))
    of = Sums(
        shares, ratio, scaled, top, 1.0, (1.0, 0.0, 0.0, -1.0, -1.0), (1.0,) * 5, low, high, (3, 4),
        kind == "binary", 0.25,
    )  # fmt: skip
    if family in {"ordered", "hazards"}:  # of three columns
        d = len([c for c in DESIGN if "shift" not in c.name])
        cuts = tuple(tuple(float(k == 1 and j == d - 1) for j in range(d)) for k in range(2))
        if family == "hazards":  # from the time of entry on
            cuts, of = (*cuts, (0.0,) * (d - 1) + (-0.5,)), of._replace(edges=(0.0, 2.0, 6.0, 24.0))
            more = {"offset": ["div", ["col", "visits"], const(4)], **more}
        of = of._replace(lows=(1.0, *[-1.0] * (d - 1)), highs=(1.0,) * d, numbers=tuple(range(1, d)), cuts=cuts)
    given = {
        "keys": tuple(c.key for c in collectors), "bits": lattice.bits_of_sums(mu), "unscaled": (),
        "clamping": CLAMPING,
        "moment_response": False, "collectors": collectors, "sums": of, "roles": {"main": None},
        "rounds": (Held("moments", 100, DAY, 10, False), Held("main", 0, 0, 0, False)),
    }  # fmt: skip
    given |= {"b": 1.0} if family == "poisson" else {}  # the likelihood's score
    plan = study_plan(family, mu, **{**given, **more})
    roles = {}
    for name in sums.ROLES:
        form = sums.form_of(name)
        numbers = plan.numbers(name, form)
        roles[name] = Role(form, numbers, lattice.radius(form, numbers, mu, plan.bits, plan.distance2(name)), 1)
    return plan if "roles" in more else plan._replace(roles=roles)


def sum_ask(plan, role, rng=None, **more):
    """What a state of such a plan asks; rounded numbers, as `ask`."""
    import random

    rng = random.Random(5) if rng is None else rng
    d = plan.d
    rows = tuple(tuple((rng.randint(-32, 32) + 96 * (j == k)) / 64.0 for k in range(d)) for j in range(d))
    given = {
        "role": role, "below": WORDS, "rows": rows, "theta": tuple(rng.randint(-32, 32) / 64.0 for _ in range(d)),
        "y_centre": 0.125, "scale": 0.75, "window": 0.5, "ball": 4.0, "reach": 2.5, "radius": 1,
        "most": 0.75 * bool(plan.sums.edges),
    }  # fmt: skip
    made = SumAsk(**{**given, **more})
    return made if "radius" in more else made._replace(radius=radius_of(plan, made))


def radius_of(plan, ask):
    """The largest radius with which reports to such a state keep the budget."""
    of = plan.roles[ask.role]
    if of.form not in {lattice.UNIT, lattice.PSD}:
        return of.radius
    return lattice.radius(of.form, of.numbers, plan.mu, plan.bits, plan.distance2(ask.role, ask))


def field_state(plan_hash, *asks, number=0, before=None, time=NOON, **more):
    """A state that asks this."""
    two = any(isinstance(one, SumAsk) for one in asks)
    given = {"open": True, "slots": (0, WORDS), "nonces": bytes(range(32)) if two else b""}
    before = (plan_hash if number == 0 else hash_of(b"the state before")) if before is None else before
    return FieldState(plan_hash, number, before, time, asks=asks, **{**given, **more})


def token(number=0, key=1):
    """One of a study's tokens."""
    return Token(key, number.to_bytes(16, "big"), bytes([7 if key else 0]) * 16)
