"""States and reports of a study in the field, and who is asked what. Standard library only.

`read_state` and `read_report` check everything that can be checked without a row; `state_payload` and `report_body`
write. A token's role, group and slot follow from SHA-256(plan hash ‖ token id), so never from when it comes.
"""

import hashlib
from itertools import pairwise
from typing import Any, Final, NamedTuple

from privreg.protocol import lattice
from privreg.protocol.sums import SumAsk

from . import wire
from .analyses import WORDS
from .collectors import read_ask
from .roles import LATEST, ROLES, TABLE
from .study import LIMIT, PublicPlan
from .wire import MessageError, Record

ALIKE: Final = 1e-6
"""Relative difference that moves no estimate, and that rounding doesn't reach: some 2⁻⁵³ times a condition number."""

HASH: Final = 32
MOST_ASKS: Final = 8
ID: Final = 16
MAC: Final = 16
TOKEN: Final = 1 + ID + MAC
NONCE: Final = 16


# --- tokens --------------------------------------------------------------------------------------------------


class Token(NamedTuple):
    """A token, which entitles to one report."""

    key: int  # Which of the issuer's keys made it, 1 to 255; 0 for one that a device of an open study made
    id: bytes  # 16 bytes
    mac: bytes  # 16 bytes, which only the issuer and the collector can check; zeros for one of an open study


class Place(NamedTuple):
    """Three words of a token's id and the plan's hash, each uniform below 2³²."""

    role: int
    group: int
    slot: int


def token_text(token: Token) -> str:
    """Write a token: base64url of 33 bytes."""
    return wire.base(bytes([token.key]) + token.id + token.mac)


def read_token(text: object) -> Token:
    """Read a token; raises `MessageError`."""
    data = wire.unbase(text, "a token")
    if len(data) != TOKEN:
        raise MessageError(f"a token must be base64url of {TOKEN} bytes.")
    token = Token(data[0], data[1 : 1 + ID], data[1 + ID :])
    if token.key == 0 and any(token.mac):
        raise MessageError("a token of a device's own has no code of an issuer.")
    return token


def place_of(plan_hash: bytes, token: Token) -> Place:
    """Place of a token in a study."""
    digest = hashlib.sha256(plan_hash + token.id).digest()
    return Place(*(int.from_bytes(digest[a : a + 4], "big") for a in (0, 4, 8)))


# --- states --------------------------------------------------------------------------------------------------


class Gauge(NamedTuple):
    """Public numbers by which fit is measured, internal units of the response."""

    residual: float  # Bound of residuals
    spread: float  # Bound of responses about `centre`
    centre: float


class Ask(NamedTuple):
    """Ask of a state to the tokens of a role."""

    role: str
    below: int  # Tokens whose first word lies below it, and not below the one before
    rows: tuple[tuple[float, ...], ...]  # Row map W: lower triangle, or scales and shifts if the design is wide
    y_centre: float  # The response is (y − y_centre)/y_scale
    y_scale: float
    theta: tuple[float, ...]
    c: float
    step: float  # Coefficients of a group are θ ± step
    signs: tuple[bytes, ...]  # One a group, a bit a coefficient, least first; 1: minus. Empty: no such offsets
    offsets: tuple[tuple[float, ...], ...]  # Or coefficients of a group are θ + these, one row a group
    thresholds: tuple[tuple[float, ...], ...]  # For columns whose scale nobody declared, one row a group
    gauge: Gauge | None

    def theta_of(self, group: int) -> list[float]:
        """Coefficients of a group."""
        if self.offsets:
            return [t + o for t, o in zip(self.theta, self.offsets[group], strict=True)]
        if not self.signs:
            return list(self.theta)
        bits = self.signs[group]
        return [t - self.step if bits[j >> 3] >> (j & 7) & 1 else t + self.step for j, t in enumerate(self.theta)]


class FieldState(NamedTuple):
    """A state of a study: public, signed."""

    plan: bytes  # Hash of the plan
    number: int
    before: bytes  # Hash of the payload of the state before; of the first, the plan's
    time: int  # Seconds since 1970 UTC
    open: bool  # It still asks somebody
    slots: tuple[int, int]  # Tokens whose third word lies at or above the second wait for a later state
    asks: tuple[Ask | SumAsk, ...]  # With two collectors one
    nonces: bytes = b""  # Drawn by two collectors, one after the other, so that no two states are alike


def read_state(payload: bytes, plan: PublicPlan, plan_hash: bytes) -> FieldState:
    """Read the payload of a state whose signature was verified.

    Raises
    ------
    MessageError
        If anything is unknown, of the wrong shape, not finite or beyond 2⁶⁰.
    """
    record = of_plan(payload, "the state", plan_hash, wire.LONGEST)
    low, high = record.integers("slots", 0, WORDS, 2)
    records = [Record(a, "an ask of the state") for a in record.items("asks", most=MOST_ASKS)]
    if plan.collectors and len(records) != 1:
        raise MessageError("a state asks the same of everybody if there are two collectors.")
    asks = tuple(read_ask(a, plan, WORDS) if plan.collectors else _ask(a, plan) for a in records)
    state = FieldState(
        plan_hash,
        record.integer("number", 0, 1 << 31),
        record.binary("before", HASH),
        record.integer("time", 0, LATEST),
        record.flag("open"),
        (low, high),
        asks,
        record.binary("nonces", 2 * NONCE) if plan.collectors else b"",
    )
    record.done()
    ends = [0, *(a.below for a in asks)]
    if low > high or ends[-1] != WORDS or any(b <= a for a, b in pairwise(ends)):
        raise MessageError("the thresholds of the state's roles must ascend to 2^32.")
    return state


def _ask(record: Record, plan: PublicPlan) -> Ask:
    role = record.choice("role", (*ROLES, TABLE))
    if role not in plan.roles:
        raise MessageError("the state asks for a role that the plan doesn't describe.")
    groups, scores = plan.roles[role].groups, role in {"pilot", "main", "measures"}
    d = plan.d
    rows: tuple[tuple[float, ...], ...] = ()
    if role in {"location", "clamping", TABLE} or (role == "moments" and plan.is_wide):
        record.items("rows", 0)
    elif plan.is_wide:
        flat = record.reals("rows", 2 * d)
        rows = flat[:d], flat[d:]
    else:
        size = d + (int(plan.constant) + int(plan.moment_response) if role == "moments" else 0)
        flat = record.reals("rows", size * (size + 1) // 2)
        rows = tuple(flat[j * (j + 1) // 2 : (j + 1) * (j + 2) // 2] for j in range(size))
    theta = record.reals("theta", plan.size if scores else 0)
    y_centre, y_scale, c = record.real("y_centre"), record.real("y_scale"), record.real("c")
    step = record.real("step")
    signs = record.items("signs", most=groups)
    octets = tuple(wire.unbase(s, "'signs' of the state") for s in signs)
    group = role == "main" and bool(signs)
    if (signs and not group) or (group and (len(signs) != groups or any(len(s) != -(-plan.size // 8) for s in octets))):
        raise MessageError("'signs' of the state must have a bit for each coefficient of each group.")
    offsets = _by_group(record, "offsets", groups, plan.size)
    if offsets and (role != "main" or signs or len(offsets) != groups):
        raise MessageError("'offsets' of the state must have a number for each coefficient of each group, or none.")
    thresholds = _by_group(record, "thresholds", groups, len(plan.unscaled))
    if len(thresholds) != (groups if role == "location" else 0):
        raise MessageError("'thresholds' of the state must have a number for each column of each group.")
    one = record.optional("gauge")
    gauge = None
    if one is not None:
        gauge = Gauge(one.real("residual"), one.real("spread"), one.real("centre"))
        one.done()
    if (gauge is not None) != (role == "measures"):
        raise MessageError("a state has a gauge where it asks for measures of fit, and nowhere else.")
    below = record.integer("below", 1, WORDS)
    record.done()
    return Ask(role, below, rows, y_centre, y_scale, theta, c, step, octets, offsets, thresholds, gauge)


def _by_group(record: Record, name: str, groups: int, size: int) -> tuple[tuple[float, ...], ...]:
    what = f"{name!r} of the state"
    return tuple(
        tuple(wire.number_of(v, what) for v in Record({"of": row}, what).items("of", size))
        for row in record.items(name, most=groups)
    )


def state_payload(state: FieldState) -> bytes:
    """Write the payload of a state."""
    asks = [{**wire.plain(ask), "rows": [wire.text_of(v) for row in ask.rows for v in row]} for ask in state.asks]
    asks = [{k: v for k, v in said.items() if k != "most" or v != wire.text_of(0.0)} for said in asks]  # of hazards
    payload = wire.dumps(
        {
            "v": wire.VERSION,
            "plan": wire.base(state.plan),
            "number": state.number,
            "before": wire.base(state.before),
            "time": state.time,
            "open": state.open,
            "slots": list(state.slots),
            "asks": asks,
            **({"nonces": wire.base(state.nonces)} if state.nonces else {}),
        }
    )
    if len(payload) > wire.LONGEST:
        raise MessageError(f"the state is longer than {wire.LONGEST} bytes.")
    return payload


def agree(one: FieldState, other: FieldState) -> bool:
    """True if two states are the same but for floating point: reals differ by `ALIKE` of the largest beside them.

    Computers round in ways of their own, so that who makes a state again can't ask for the same bytes.
    """
    return _alike(one, other)


def follows(said: FieldState, ask: Ask | SumAsk, number: int, before: bytes) -> bool:
    """True if a state asks all tokens this, see `agree`, and has this number, after the state of this hash."""
    return agree(said, said._replace(number=number, before=before, slots=(0, WORDS), asks=(ask,)))


def _alike(one: Any, other: Any) -> bool:
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= ALIKE * max(abs(one), abs(other))
    if not isinstance(one, tuple) or not isinstance(other, tuple):
        return bool(one == other)
    if len(one) != len(other):
        return False
    if one and all(isinstance(v, float) for v in (*one, *other)):
        size = max(abs(v) for v in (*one, *other))
        return all(abs(a - b) <= ALIKE * size for a, b in zip(one, other, strict=True))
    return all(_alike(a, b) for a, b in zip(one, other, strict=True))


def ask_of(state: FieldState, place: Place) -> Ask | SumAsk:
    """Ask of a state to a token."""
    return next(a for a in state.asks if place.role < a.below)


def group_of(plan: PublicPlan, role: str, place: Place) -> int:
    """Random group in which a token answers."""
    return place.group * plan.roles[role].groups >> 32


# --- reports -------------------------------------------------------------------------------------------------


class Report(NamedTuple):
    """A device's report: the only thing about a row that leaves it."""

    plan: bytes  # Hash of the plan
    state: int
    role: str
    token: Token
    values: tuple[int, ...]


def body_of(plan: bytes, state: int, role: str, token: Token, **rest: str) -> bytes:
    """Write what a device sends: the bytes that are posted."""
    said = {"v": wire.VERSION, "plan": wire.base(plan), "state": state, "role": role, "token": token_text(token)}
    return wire.dumps(said | rest)


def report_body(report: Report) -> bytes:
    """Write a report: the bytes that are posted."""
    return body_of(*report[:4], values=wire.pack(report.values))


def of_plan(data: bytes, what: str, plan_hash: bytes, longest: int) -> Record:
    """Read a message of so many bytes at most, of this version and of a plan; raises `MessageError`."""
    record = Record(wire.loads(data, what, longest), what)
    record.fixed("v", wire.VERSION)
    if record.binary("plan", HASH) != plan_hash:
        raise MessageError(f"{what} is one of another plan.")
    return record


def read_head(record: Record, plan: PublicPlan) -> tuple[int, str, Token]:
    """State, role and token of what a device sent; whether token and state count is the collector's to say.

    Raises
    ------
    MessageError
    """
    state, role = record.integer("state", 0, 1 << 31), record.choice("role", tuple(plan.roles))
    token = read_token(record.take("token"))
    if (token.key == 0) != (plan.tokens == "open"):
        raise MessageError(f"the token of {record.what} is not of the kind that the study takes.")
    return state, role, token


def read_report(data: bytes, plan: PublicPlan, plan_hash: bytes) -> Report:
    """Read a report of a plan.

    Raises
    ------
    MessageError
        Its text never holds a value.
    """
    record = of_plan(data, "the report", plan_hash, min(plan.limit, LIMIT))
    head = read_head(record, plan)
    form = plan.roles[head[1]]
    values = wire.unpack(record.take("values"), form.numbers, "'values' of the report")
    record.done()
    most = lattice.most(form.radius, plan.bits)
    if any(abs(v) > most for v in values):
        raise MessageError("the report has a number beyond its radius and six sd of the noise.")
    return Report(plan_hash, *head, values)
