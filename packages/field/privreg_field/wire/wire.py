"""Encoding of messages: strict JSON, hex floats, base64url, signed envelopes. Standard library only.

Signatures are over bytes, never over JSON that was written anew. Nothing passes through a parser of decimal floats:
reals are C99 hex floats in strings, and a JSON number with a point or an exponent is refused.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from privreg.protocol.codes import LARGEST

VERSION: Final = 1

LONGEST: Final = 1 << 20
"""Bytes of a plan or a state, at most; reports have a limit of their own, which the plan states."""

DEEPEST: Final = 64  # Nested lists and objects of a message, at most
SAFE: Final = 2**53  # Integers beyond it aren't the same in every language

TYPES: Final = ("plan", "state", "unsummed", "lost", "offer", "fixed", "commit", "value", "next", "where", "silos")
"""Messages that are signed: the analyst's, the server's, those of two collectors (see `peers`), and plans of silos."""

SIGNATURE: Final = 64
KEY: Final = 32
MOST_SIGNATURES: Final = 8

_HEX: Final = re.compile(r"(-?)0x([01])(?:\.([0-9a-f]{1,13}))?p([+-]?[0-9]{1,4})")
_BASE: Final = re.compile(r"[A-Za-z0-9_-]*")
_INT: Final = 17

_JOINED = r"[\u0300-\u1fff\u2100-\U0010ffff]"  # Scripts and emoji that need joiners: beside Latin they only hide
HIDDEN: Final = re.compile(
    r"[\0-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f"
    r"\u2800\u3164\ud800-\udfff\ufeff\uffa0\ufff0-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
    rf"|(?<!{_JOINED})[\u200c\u200d]|[\u200c\u200d](?!{_JOINED})"
)
"""A character that isn't seen: a control, one that turns the direction, or one of no width."""


class MessageError(ValueError):
    """A message can't be read, or says what this version doesn't know; the text names the field, never a value."""


# --- JSON ----------------------------------------------------------------------------------------------------


def loads(data: bytes, what: str, longest: int = LONGEST) -> Any:
    """Read JSON: UTF-8, no name twice, integers within ± 2⁵³, no other numbers, `longest` bytes at most.

    `what` says of what message, for the error, a MessageError.
    """
    if len(data) > longest:
        raise MessageError(f"{what} is longer than {longest} bytes.")
    try:
        text = data.decode("utf-8")
        found = json.loads(
            text, object_pairs_hook=_object, parse_int=_integer, parse_float=_no_float, parse_constant=_no_float
        )
        flat = data.count(b"{") + data.count(b"[") < DEEPEST and b"\\" not in data  # as most messages are
        deep = 0 if flat else _depth(found)
    except (MessageError, UnicodeError, ValueError, RecursionError):
        deep = DEEPEST + 1
    if deep > DEEPEST:
        raise MessageError(f"{what} is no JSON of this protocol: UTF-8, integers and strings, no name twice.")
    return found


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    out = dict(pairs)
    if len(out) < len(pairs):
        raise MessageError("a name twice")
    return out


def _integer(text: str) -> int:
    if len(text) > _INT or abs(int(text)) > SAFE:
        raise MessageError("too large")
    return int(text)


def _no_float(text: str) -> float:
    raise MessageError("a decimal number")


def _depth(value: Any) -> int:
    """Depth of nested lists and objects; strings in them must be Unicode text."""
    deepest, left = 0, [(value, 1)]
    while left:
        one, deep = left.pop()
        deepest = max(deepest, deep)
        if deep > DEEPEST:
            break
        if isinstance(one, dict):
            left += [(v, deep + 1) for v in one.values()]
            left += [(k, deep) for k in one]
        elif isinstance(one, list):
            left += [(v, deep + 1) for v in one]
        elif isinstance(one, str):
            one.encode("utf-8")
    return deepest


def dumps(value: Mapping[str, Any]) -> bytes:
    """Write JSON, in the order of the names given, without spaces."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode("utf-8")


class Record:
    """A JSON object whose members are taken out one by one, so that none is left unread.

    `what` is its place in the message, for errors.
    """

    def __init__(self, value: object, what: str) -> None:
        if not isinstance(value, dict):
            raise MessageError(f"{what} must be an object.")
        self.what = what
        self._left: dict[str, Any] = dict(value)

    def take(self, name: str) -> Any:
        """Take a member; all are required."""
        if name not in self._left:
            raise MessageError(f"{self.what} has no {name!r}.")
        return self._left.pop(name)

    def has(self, name: str) -> bool:
        """True if there is a member that nobody has taken yet."""
        return name in self._left

    def _fail(self, name: str, wanted: str) -> MessageError:
        return MessageError(f"{name!r} of {self.what} must be {wanted}.")

    def text(self, name: str, longest: int = 4096, *, lines: bool = False) -> str:
        """Take a string, of one line unless `lines`."""
        value = self.take(name)
        if not isinstance(value, str) or not 1 <= len(value) <= longest:
            raise self._fail(name, f"a string of 1 to {longest} characters")
        must_show([value], f"{name!r} of {self.what}", lines=lines)
        return value

    def integer(self, name: str, low: int, high: int) -> int:
        """Take an integer within limits."""
        value = self.take(name)
        if not is_whole(value, low, high):
            raise self._fail(name, f"an integer from {low} to {high}")
        return int(value)

    def flag(self, name: str) -> bool:
        """Take true or false."""
        value = self.take(name)
        if not isinstance(value, bool):
            raise self._fail(name, "true or false")
        return value

    def choice(self, name: str, allowed: Sequence[str]) -> str:
        """Take one of the strings that this version knows."""
        value = self.take(name)
        if not isinstance(value, str) or value not in allowed:
            raise self._fail(name, f"one of {', '.join(allowed)}, the ones that this version knows")
        return value

    def fixed(self, name: str, only: object) -> None:
        """Take a reserved member, which has one value in this version."""
        value = self.take(name)
        if type(value) is not type(only) or value != only:
            raise self._fail(name, f"{json.dumps(only)} in this version")

    def real(self, name: str, *, infinite: bool = False) -> float:
        """Take a hex float."""
        return number_of(self.take(name), f"{name!r} of {self.what}", infinite=infinite)

    def reals(self, name: str, count: int | None = None) -> tuple[float, ...]:
        """Take a list of hex floats."""
        return tuple(number_of(v, f"{name!r} of {self.what}") for v in self.items(name, count))

    def items(self, name: str, count: int | None = None, most: int = 1 << 16) -> list[Any]:
        """Take a list."""
        value = self.take(name)
        if not isinstance(value, list) or len(value) > most or (count is not None and len(value) != count):
            raise self._fail(name, f"a list of {count}" if count is not None else f"a list of at most {most}")
        return value

    def integers(self, name: str, low: int, high: int, count: int | None = None) -> tuple[int, ...]:
        """Take a list of integers within limits."""
        value = self.items(name, count)
        if not all(is_whole(v, low, high) for v in value):
            raise self._fail(name, f"a list of integers from {low} to {high}")
        return tuple(value)

    def binary(self, name: str, length: int) -> bytes:
        """Take base64url of so many bytes."""
        value = unbase(self.take(name), f"{name!r} of {self.what}")
        if len(value) != length:
            raise self._fail(name, f"base64url of {length} bytes")
        return value

    def optional(self, name: str) -> Record | None:
        """Take an object, or null."""
        value = self.take(name)
        return None if value is None else Record(value, f"{name!r} of {self.what}")

    def mapping(self, name: str) -> dict[str, Any]:
        """Take an object as it is."""
        value = self.take(name)
        if not isinstance(value, dict):
            raise self._fail(name, "an object")
        return value

    def object(self, name: str) -> Record:
        """Take an object."""
        return Record(self.take(name), f"{name!r} of {self.what}")

    def aside(self, name: str) -> Any:
        """Take a member that begins with x_, which no device acts on; None if there is none."""
        return self._left.pop(name, None)

    def done(self) -> None:
        """Refuse members that nobody took; those that begin with x_ say nothing that a device acts on."""
        if any(not name.startswith("x_") for name in self._left):
            raise MessageError(f"{self.what} has a member that this version doesn't know.")


def must_show(texts: Iterable[object], what: str, *, lines: bool = False) -> None:
    """Refuse texts with a character that isn't seen, or, unless `lines`, of several lines."""
    for text in texts:
        if found := HIDDEN.search(str(text).replace("\n", " ") if lines else str(text)):
            wanted, place = "lines" if lines else "one line", f"U+{ord(found[0]):04X}, character {found.start() + 1}"
            raise MessageError(f"{what} must be {wanted} of visible characters, without {place}.")


# --- numbers, bytes ------------------------------------------------------------------------------------------


def is_whole(value: object, low: int, high: int) -> bool:
    """True if something is an integer within limits; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool) and low <= value <= high


def text_of(value: float) -> str:
    """Write a real as a hex float; also the infinities of a column without bounds."""
    return float(value).hex()


def plain(value: Any) -> Any:
    """A value as JSON has it: reals as hex floats, bytes as base64url, tuples as lists, named ones as objects."""
    if isinstance(value, float | bytes):
        return text_of(value) if isinstance(value, float) else base(value)
    if hasattr(value, "_asdict"):
        return {name: plain(member) for name, member in value._asdict().items()}
    return [plain(member) for member in value] if isinstance(value, tuple) else value


def number_of(value: object, what: str, *, infinite: bool = False) -> float:
    """Read a hex float, a string such as "0x1.8p+1", at most 2⁶⁰ in absolute value.

    `infinite` allows "inf" and "-inf", and any finite number; anything else is a MessageError about `what`.
    """
    if infinite and isinstance(value, str) and value in {"inf", "-inf"}:
        return float(value)
    found = _HEX.fullmatch(value) if isinstance(value, str) else None
    out = math.nan
    if found is not None and abs(int(found[4])) <= 1074:
        try:
            out = float.fromhex(found[0])
        except OverflowError:
            out = math.inf
    if not (abs(out) <= LARGEST or (infinite and math.isfinite(out))):
        raise MessageError(f'{what} must be a hex float such as "0x1.8p+1", at most 2^60 in absolute value.')
    return out


def base(data: bytes) -> str:
    """Write bytes as base64url without padding."""
    return base64.urlsafe_b64encode(data).decode("ascii").rstrip("=")


def unbase(value: object, what: str) -> bytes:
    """Read base64url without padding; only the one spelling of the bytes. Raises `MessageError`."""
    if isinstance(value, str) and _BASE.fullmatch(value):
        try:
            out = base64.urlsafe_b64decode(value + "=" * (-len(value) % 4))
        except (binascii.Error, ValueError):
            out = None
        if out is not None and base(out) == value:
            return out
    raise MessageError(f"{what} must be base64url without padding.")


def pack(values: Sequence[int]) -> str:
    """Write integers as base64url of little-endian int32."""
    return base(struct.pack(f"<{len(values)}i", *values))


def unpack(value: object, count: int | None, what: str) -> tuple[int, ...]:
    """Read so many integers; raises `MessageError`."""
    data = unbase(value, what)
    if len(data) % 4 or (count is not None and len(data) != 4 * count):
        raise MessageError(f"{what} must be base64url of {'' if count is None else count} int32 numbers.")
    return struct.unpack(f"<{len(data) // 4}i", data)


def hash_of(payload: bytes) -> bytes:
    """SHA-256 of a payload's bytes: what names a plan, and a state."""
    return hashlib.sha256(payload).digest()


def key_id(key: bytes) -> str:
    """Name of a public key: base64url of the first 8 bytes of its SHA-256."""
    return base(hashlib.sha256(key).digest()[:8])


# --- envelopes -----------------------------------------------------------------------------------------------


class Envelope(NamedTuple):
    """A payload and its signatures, none of which has been verified yet."""

    kind: str  # One of `TYPES`
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]  # Names of keys, and signatures over `signed_bytes`


def signed_bytes(kind: str, payload: bytes) -> bytes:
    """Bytes that a signature is over: the kind of message and the payload's bytes."""
    return f"privreg/{kind}/v{VERSION}".encode() + b"\0" + payload


def seal(envelope: Envelope) -> bytes:
    """Write an envelope."""
    sigs = [{"kid": kid, "sig": base(sig)} for kid, sig in envelope.signatures]
    return dumps({"v": VERSION, "type": envelope.kind, "payload": base(envelope.payload), "sigs": sigs})


def open_envelope(data: bytes, kind: str, longest: int = 2 * LONGEST) -> Envelope:
    """Read an envelope of a kind, of so many bytes at most; whoever reads its payload verifies a signature first.

    Raises
    ------
    MessageError
    """
    what = f"the envelope of a {kind}"
    record = Record(loads(data, what, longest), what)
    record.fixed("v", VERSION)
    record.fixed("type", kind)
    payload = unbase(record.take("payload"), f"'payload' of {what}")
    sigs = []
    for one in record.items("sigs", most=MOST_SIGNATURES):
        each = Record(one, f"a signature of {what}")
        sigs.append((each.text("kid", 32), each.binary("sig", SIGNATURE)))
        each.done()
    record.done()
    if kind not in TYPES or not sigs:
        raise MessageError(f"{what} must be signed.")
    return Envelope(kind, payload, tuple(sigs))
