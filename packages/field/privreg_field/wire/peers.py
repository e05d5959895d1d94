"""Messages of studies with two collectors: a share from a device, and what collectors sign for each other and devices.

A message between collectors is an envelope (see `wire`) whose payload names the plan, the collector that signed it and
the batch, which is numbered as the state that it answers. Standard library only.
"""

import hashlib
from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from privreg.protocol.sums import LETTERS

from .messages import HASH, ID, NONCE, Token, body_of, of_plan, read_head
from .study import PublicPlan
from .wire import VERSION, MessageError, base, dumps, unbase

TAG: Final = 16
ENC: Final = 32
BESIDE: Final = ENC + TAG  # Bytes by which a sealed share is longer than the share
WORD: Final = 8  # Bytes of a number of a share
LONGEST: Final = 1 << 28  # Bytes of a message between collectors, at most: lists of ten million ids

MOST_STATES: Final = 1 << 31


class Share(NamedTuple):
    """A device's share to one collector."""

    plan: bytes  # Hash
    state: int
    role: str
    token: Token
    sealed: bytes  # See `share_info`


def share_info(letter: str, state: bytes, token: Token) -> bytes:
    """HPKE's info, to which a sealed share is bound; `state` is the hash of the state that it answers."""
    return b"privreg/share/v1\0" + letter.encode() + state + bytes([token.key]) + token.id + token.mac


def share_body(share: Share) -> bytes:
    """Write a share: the bytes that are posted."""
    return body_of(*share[:4], share=base(share.sealed))


def read_share(data: bytes, plan: PublicPlan, plan_hash: bytes) -> Share:
    """Read a share of a plan; what is sealed, is the collector's to say. Raises `MessageError`."""
    record = of_plan(data, "the share", plan_hash, plan.limit)
    head = read_head(record, plan)
    sealed = record.binary("share", WORD * plan.roles[head[1]].numbers + BESIDE)
    record.done()
    return Share(plan_hash, *head, sealed)


# --- signed by a collector -----------------------------------------------------------------------------------


class Signed(NamedTuple):
    """A payload that a collector signs; members that a kind doesn't have are empty."""

    kind: str  # One of `KINDS`
    letter: str  # Letter of the collector that signs it
    state: int  # Number of the batch
    status: str = ""
    ids: bytes = b""  # Ids of tokens, ascending, one after the other
    listed: bytes = b""  # Hash of the batch's list of ids: see `list_hash`
    value: bytes = b""  # Hash of the signed envelope with the collector's sum
    people: int = 0  # In the sum; of an offer, how many it is to have at least
    words: bytes = b""  # Sum of shares with this collector's noise: 64 bits a number, little-endian
    payload: bytes = b""  # Envelope of the next state; empty of who asks for it
    nonce: bytes = b""  # Drawn by this collector's process, for states that it will sign


MEMBERS: Final = {
    "unsummed": ("ids",),
    "lost": ("ids",),
    "offer": ("ids", "people"),
    "fixed": ("status", "ids", "listed", "value"),
    "commit": ("listed", "value"),
    "value": ("people", "listed", "words"),
    "next": ("payload",),
    "where": ("nonce",),
}
"""Members of each kind beside plan, collector and state; the state of "where" is that of the batch fixed last."""

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
    """Read a payload whose signature was verified; raises `MessageError`."""
    record = of_plan(payload, "the message", plan_hash, LONGEST)
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
        or len(one.nonce) != (NONCE if kind == "where" else 0)
        or (kind in {"commit", "fixed"} and bool(one.listed) != bool(one.value))  # a list without a sum commits to none
    ):
        raise MessageError("the message has a list, a sum or a hash that no collector writes.")
    return one


def ids_of(joined: bytes) -> list[bytes]:
    """Ids of tokens, one by one; raises `MessageError`."""
    if len(joined) % ID:
        raise MessageError(f"ids of tokens have {ID} bytes each.")
    return [joined[k : k + ID] for k in range(0, len(joined), ID)]


def list_hash(ids: Iterable[bytes]) -> bytes:
    """Hash of a batch's list: ids ascending, one after the other."""
    return hashlib.sha256(b"privreg/list/v1\0" + b"".join(sorted(ids))).digest()
