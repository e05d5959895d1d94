"""Messages between the two collectors: signed, sent, read. What a head says is verified before a long body is read."""

import json
import secrets
import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from typing import Any, Final

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from privreg_field.device.client import NoRedirect
from privreg_field.study.keys import signed
from privreg_field.wire import peers, wire
from privreg_field.wire.messages import NONCE
from privreg_field.wire.peers import KINDS, Signed
from privreg_field.wire.wire import MessageError, base

TIMEOUT: Final = 120.0
"""Seconds in which the other collector must answer; if adding up takes longer, the next time has the answer."""

HEADER: Final = "Privreg-Signature"


class Away(Exception):
    """The other collector doesn't answer now, or is not as far; the same message may be sent again later."""


class Refused(Exception):
    """A message says what an honest collector doesn't; it will never be taken."""


Post = Callable[[bytes], bytes]
"""Sends bytes to the other collector, and gives its answer.

Raises
------
Away, Refused
"""


def verified(key: bytes, message: bytes, signature: bytes) -> bool:
    """True if a signature is that of a key."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def head(body: bytes, key: Ed25519PrivateKey, nonce: bytes, what: str = "peer") -> str:
    """Signed head of a request, with its body's hash; of an answer, `what` is "answer" and its status."""
    said = nonce + wire.hash_of(body)
    return base(key.sign(f"privreg/{what}/v1\0".encode() + said)) + "." + base(said)


def announced(text: str, key: bytes, what: str = "peer") -> bytes | None:
    """Nonce, and hash of the body, that the other collector sends; None if it hasn't signed them."""
    sig, _, said = text.partition(".")
    try:
        found, given = wire.unbase(said, "a hash"), wire.unbase(sig, "a signature")
    except MessageError:
        return None
    return found if verified(key, f"privreg/{what}/v1\0".encode() + found, given) else None


def poster(url: str, study: str, key: Ed25519PrivateKey, other: bytes) -> Post:
    """Messages to the server at an address, whose answers are signed by the key `other` for this message alone."""
    local = [urllib.request.ProxyHandler({})] if url.startswith("http:") else []
    opener = urllib.request.build_opener(NoRedirect, *local)

    def post(body: bytes) -> bytes:
        nonce = secrets.token_bytes(NONCE)
        headers = {"Content-Type": "application/json", HEADER: head(body, key, nonce)}
        request = urllib.request.Request(f"{url.rstrip('/')}/v1/studies/{study}/peer", data=body, headers=headers)
        try:
            try:
                answer = opener.open(request, timeout=TIMEOUT)
            except urllib.error.HTTPError as e:
                answer = e
            with answer:
                said, status = bytes(answer.read(peers.LONGEST)), answer.status
        except (OSError, HTTPException, ValueError):
            raise Away("no connection") from None
        if announced(answer.headers.get(HEADER, ""), other, f"answer {status}") != nonce + wire.hash_of(said):
            raise Away("no answer of the other collector to this message")
        if status != 200:
            raise (Refused if status == 409 else Away)(f"status {status}")
        return said

    return post


def envelope(one: Signed, plan_hash: bytes, key: Ed25519PrivateKey) -> bytes:
    """A message as it is sent and kept."""
    return signed(one.kind, peers.signed_payload(one, plan_hash), key)


def opened(body: bytes, plan_hash: bytes, letter: str, key: bytes) -> Signed:
    """A message that a collector has signed; raises `MessageError`."""
    try:
        said: Any = json.loads(body)
    except (ValueError, RecursionError):
        said = None
    kind = said.get("type") if isinstance(said, dict) else None
    if kind not in KINDS:
        raise MessageError("there is no such message between collectors.")
    found = wire.open_envelope(body, kind, peers.LONGEST)
    message = wire.signed_bytes(kind, found.payload)
    one = peers.read_signed(kind, found.payload, plan_hash)
    if one.letter != letter or not any(verified(key, message, sig) for _, sig in found.signatures):
        raise MessageError("the message is not signed by the other collector.")
    return one
