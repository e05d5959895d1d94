"""Messages of studies with two collectors: a share from a device, and what collectors sign for each other and devices.

A message between collectors is an envelope (see `wire`) whose payload names the plan, the collector that signed it and
the batch, which is numbered as the state that it answers. Standard library only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from .messages import HASH, ID, Token, read_token, token_text
from .study import PublicPlan
from .sums import LETTERS
from .wire import VERSION, MessageError, Record, base, dumps, loads, unbase

TAG: Final = 16
ENC: Final = 32
BESIDE: Final = ENC + TAG  # Bytes by which a sealed share is longer than the share

WORD: Final = 8  # Bytes of a number of a share

LONGEST: Final = 1 << 28  # Bytes of a message between collectors, at most: lists of ten million ids

MOST_STATES: Final = 1 << 31


class Share(NamedTuple):
    """What a device sends to one collector."""

    plan: bytes  # Hash
    state: int
    role: str
    token: Token
    sealed: bytes  # See `share_info`


def share_info(letter: str, plan_hash: bytes, state: int, token: Token) -> bytes:
    """What a sealed share is bound to: HPKE's info."""
    own = bytes([token.key]) + token.id + token.mac
    return b"privreg/share/v1\0" + letter.encode() + plan_hash + state.to_bytes(4, "big") + own


def share_body(share: Share) -> bytes:
    """Write a share: the bytes that are posted."""
    return dumps(
        {
            "v": VERSION,
            "plan": base(share.plan),
            "state": share.state,
            "role": share.role,
            "token": token_text(share.token),
            "share": base(share.sealed),
        }
    )


def read_share(data: bytes, plan: PublicPlan, plan_hash: bytes) -> Share:
    """Read a share of a plan; whether its token and its state count, and what is sealed, is the collector's to say.

    Raises
    ------
    MessageError
    """
    record = Record(loads(data, "the share", plan.limit), "the share")
    record.fixed("v", VERSION)
    if record.binary("plan", HASH) != plan_hash:
        raise MessageError("the share is one of another plan.")
    state, role = record.integer("state", 0, MOST_STATES), record.choice("role", tuple(plan.roles))
    token = read_token(record.take("token"))
    sealed = record.binary("share", WORD * plan.roles[role].numbers + BESIDE)
    record.done()
    if (token.key == 0) != (plan.tokens == "open"):
        raise MessageError("the share's token is not of the kind that the study takes.")
    return Share(plan_hash, state, role, token, sealed)


# --- signed by a collector -----------------------------------------------------------------------------------


class Signed(NamedTuple):
    """A payload that a collector signs; members that a kind doesn't have are empty."""

    kind: str  # One of `KINDS`
    letter: str  # Of the collector that signs it
    state: int  # Number of the batch
    status: str = ""
    ids: bytes = b""  # Of tokens, ascending, one after the other
    listed: bytes = b""  # Hash of the batch's list of ids: see `list_hash`
    value: bytes = b""  # Hash of the signed envelope with the collector's sum
    people: int = 0
    words: bytes = b""  # Sum of shares with this collector's noise: 64 bits a number, little-endian
    payload: bytes = b""  # Of the next state


MEMBERS: Final = {
    "unsummed": ("ids",),
    "offer": ("ids",),
    "fixed": ("status", "ids", "listed", "value"),
    "commit": ("listed", "value"),
    "value": ("people", "listed", "words"),
    "next": ("payload",),
    "where": (),
}
"""What each kind has beside plan, collector and state. "where" says, or asks, which batch was fixed last: its state."""

KINDS: Final = tuple(MEMBERS)
STATUS: Final = ("few", "fixed")


def signed_payload(one: Signed, plan_hash: bytes) -> bytes:
    """Write a payload that a collector signs."""
    out: dict[str, Any] = {"v": VERSION, "plan": base(plan_hash), "collector": one.letter, "state": one.state}
    for name in MEMBERS[one.kind]:
        member = getattr(one, name)
        out[name] = base(member) if isinstance(member, bytes) else member
    return dumps(out)


def read_signed(kind: str, payload: bytes, plan_hash: bytes) -> Signed:
    """Read a payload whose signature was verified.

    Raises
    ------
    MessageError
    """
    record = Record(loads(payload, "the message", LONGEST), "the message")
    record.fixed("v", VERSION)
    if record.binary("plan", HASH) != plan_hash:
        raise MessageError("the message is one of another plan.")
    letter, state = record.choice("collector", LETTERS), record.integer("state", -1, MOST_STATES)
    found: dict[str, Any] = {}
    for name in MEMBERS[kind]:
        if name == "status":
            found[name] = record.choice(name, STATUS)
        elif name == "people":
            found[name] = record.integer(name, 0, 1 << 48)
        else:
            found[name] = unbase(record.take(name), f"{name!r} of the message")
    record.done()
    one = Signed(kind, letter, state, **found)
    ids = ids_of(one.ids)
    if (
        ids != sorted(set(ids))
        or len(one.words) % WORD
        or any(len(h) not in {0, HASH} for h in (one.listed, one.value))
        or (kind in {"commit", "fixed"} and bool(one.listed) != bool(one.value))  # a list without a sum commits to none
    ):
        raise MessageError("the message has a list, a sum or a hash that no collector writes.")
    return one


def ids_of(joined: bytes) -> list[bytes]:
    """Ids of tokens, taken apart.

    Raises
    ------
    MessageError
    """
    if len(joined) % ID:
        raise MessageError(f"ids of tokens have {ID} bytes each.")
    return [joined[k : k + ID] for k in range(0, len(joined), ID)]


def list_hash(ids: Iterable[bytes]) -> bytes:
    """Hash of a batch's list: ids ascending, one after the other."""
    return hashlib.sha256(b"privreg/list/v1\0" + b"".join(sorted(ids))).digest()
