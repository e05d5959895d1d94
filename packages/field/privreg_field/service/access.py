"""Tokens: of respondents, each of which entitles to one report, and of those who read results or operate a collector.

A respondent's is an id and its code under a secret of the issuer, so that a forged one is refused without a look-up.
Of bearer tokens only hashes are stored, in the database, where `serve` reads them every second; the study's first one
is its analyst's.
"""

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

from privreg.base.archive import write_bytes
from privreg.errors import OptionError, choose
from privreg_field.service.store import Store
from privreg_field.service.store.records import Access
from privreg_field.wire.messages import ID, MAC, Token

RESULTS, CELLS, OPERATE = "results", "cells", "operate"
ROLES: Final = (RESULTS, CELLS, OPERATE)
"""Read results, read the sums that they follow from, close and export the study."""

HOURS: Final = 24.0  # For which a token still counts after another has taken its place


def first_of(token: str) -> Access:
    """The first token of a study."""
    return Access(_hash(token), "analyst", (RESULTS, CELLS))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def granted(store: Store, now: float) -> list[Access]:
    """Tokens that count `now`, in seconds since 1970 UTC."""
    return [one for one in store.access() if one.until is None or now < one.until]


def roles_of(known: Collection[Access], authorization: str) -> set[str]:
    """Roles of the bearer of a request's header; none if the token is unknown."""
    kind, _, given = authorization.partition(" ")
    digest = _hash(given.strip())
    return {
        may
        for one in known
        if hmac.compare_digest(one.digest, digest) and kind.lower() == "bearer"
        for may in one.may
    }  # fmt: skip


def grant(store: Store, now: float, name: str, may: Sequence[str], out: str) -> None:
    """Make a token, and write it to the new file `out`. Raises OptionError if the name is taken."""
    if any(one.name == name for one in granted(store, now)):
        raise OptionError(f"there is a token {name!r} already; give another --name, or use rotate-token.")
    store.grant([_made(out, name, tuple(dict.fromkeys(may)))], without=name)


def rotate(store: Store, now: float, name: str, out: str, hours: float = HOURS) -> None:
    """Make a token in place of one, which counts for some hours more."""
    if not 0.0 <= hours < 1e6:
        raise OptionError(f"--hours {hours:g} must be 0 or more.")
    known, end = _named(store, now, name), int(now + hours * 3600.0)
    old = [one._replace(until=min(one.until or end, end)) for one in known]
    store.grant([*old, _made(out, name, known[-1].may)], without=name)


def revoke(store: Store, now: float, name: str) -> None:
    """Take the tokens of a name back at once."""
    _named(store, now, name)
    store.grant([], without=name)


def _named(store: Store, now: float, name: str) -> list[Access]:
    """Tokens of a name: the newest comes last."""
    known = granted(store, now)
    choose("--name", name, sorted({one.name for one in known}))
    return sorted((one for one in known if one.name == name), key=lambda one: one.until is None)


def _made(out: str, name: str, may: tuple[str, ...]) -> Access:
    """A new token, which is written first."""
    token = secrets.token_urlsafe(32)
    write_bytes(out, token.encode() + b"\n", secret=True, new=True)
    return Access(_hash(token), name, may)


SECRET: Final = 32
VARIABLE: Final = "PRIVREG_STORE_KEY"
"""Environment variable with the passphrase by which secrets in the database are encrypted."""

_SEALED: Final = b"fernet:"


def _code(secret: bytes, plan_hash: bytes, key: int, random: bytes) -> bytes:
    return hmac.new(secret, b"privreg/token/v1\0" + plan_hash + bytes([key]) + random, hashlib.sha256).digest()[:MAC]


def is_good(token: Token, secrets_: Mapping[int, bytes | None], plan_hash: bytes) -> bool:
    """True if an issuer made the token."""
    secret = secrets_.get(token.key)
    # a wrong key costs as much time as a wrong code
    code = _code(secret or bytes(SECRET), plan_hash, token.key, token.id)
    return hmac.compare_digest(code, token.mac) and secret is not None


class Issuer:
    """One of a study's keys, of number 1 to 255."""

    def __init__(self, number: int, secret: bytes, plan_hash: bytes) -> None:
        self._number, self._secret, self._plan_hash = number, secret, plan_hash

    def __repr__(self) -> str:
        return f"<key {self._number} of an issuer>"

    def tokens(self, count: int) -> Iterator[Token]:
        """Make tokens, by the system's random numbers."""
        for _ in range(count):
            random = secrets.token_bytes(ID)
            yield Token(self._number, random, _code(self._secret, self._plan_hash, self._number, random))


def _cipher() -> Fernet | None:
    passphrase = os.environ.get(VARIABLE)
    if not passphrase:
        return None
    key = hashlib.scrypt(passphrase.encode(), salt=b"privreg/store/v1", n=1 << 14, r=8, p=1, dklen=32)
    return Fernet(base64.urlsafe_b64encode(key))


def new_secret() -> tuple[bytes, bytes]:
    """A new secret, and what is kept of it."""
    secret = secrets.token_bytes(SECRET)
    return secret, kept_secret(secret)


def kept_secret(secret: bytes) -> bytes:
    """A secret as it is stored: encrypted, if the environment has a passphrase."""
    cipher = _cipher()
    return secret if cipher is None else _SEALED + cipher.encrypt(secret)


def opened(kept: bytes) -> bytes:
    """A secret as it was kept.
    Raises OptionError if it is encrypted, and the environment has another passphrase or none.
    """
    if not kept.startswith(_SEALED):
        return kept
    cipher = _cipher()
    try:
        if cipher is not None:
            return cipher.decrypt(kept.removeprefix(_SEALED))
    except InvalidToken:
        pass
    raise OptionError(f"the issuer's keys in the database are encrypted; set {VARIABLE} to the passphrase of then.")
