"""Tokens: an id and its code under a secret of the issuer, so that a forged one is refused without a look-up."""

from __future__ import annotations

import base64
import hashlib
import hmac
import os
import secrets
from collections.abc import Iterator, Mapping
from typing import Final

from cryptography.fernet import Fernet, InvalidToken

from privreg.errors import OptionError
from privreg_field.wire.messages import ID, MAC, Token

SECRET: Final = 32
VARIABLE: Final = "PRIVREG_STORE_KEY"
"""Environment variable with the passphrase by which secrets in the database are encrypted."""

_SEALED: Final = b"fernet:"


def _code(secret: bytes, plan_hash: bytes, key: int, own: bytes) -> bytes:
    return hmac.new(secret, b"privreg/token/v1\0" + plan_hash + bytes([key]) + own, hashlib.sha256).digest()[:MAC]


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
            own = secrets.token_bytes(ID)
            yield Token(self._number, own, _code(self._secret, self._plan_hash, self._number, own))


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
