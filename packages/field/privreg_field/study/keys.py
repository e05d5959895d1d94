"""Signing keys: made, kept in files of their owner alone, used on plans and states; and invitations that pin them."""

import re
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from privreg.base.archive import contents, write_bytes
from privreg.errors import OptionError, SavedFileError
from privreg_field.wire.messages import Token, token_text
from privreg_field.wire.wire import KEY, Envelope, MessageError, base, key_id, seal, signed_bytes, unbase

_PEM: Final = re.compile(rb"-----BEGIN .+?-----END [A-Z ]+-----", re.DOTALL)


class CollectorKeys(NamedTuple):
    """Keys of one of a study's two collectors."""

    sign: Ed25519PrivateKey  # Signs states, lists and sums
    seal: X25519PrivateKey  # Opens shares

    @property
    def public(self) -> tuple[bytes, bytes]:
        """The 32 bytes by which everybody verifies, and those to which devices seal."""
        return public(self.sign), self.seal.public_key().public_bytes_raw()


def make(path: str | Path, password: bytes | None = None) -> Ed25519PrivateKey:
    """Make a signing key and write it to a new file, which only its owner may read; with a password, encrypted.
    Raises OptionError if the file exists or can't be written.
    """
    key = _signing()
    _write(path, _pem(key, password))
    return key


def make_collector(path: str | Path, password: bytes | None = None) -> CollectorKeys:
    """Make a collector's two keys and write them to a new file, which only its owner may read; see `make`."""
    made = CollectorKeys(_signing(), X25519PrivateKey.generate())
    _write(path, b"".join(_pem(key, password) for key in made))
    return made


def _signing() -> Ed25519PrivateKey:
    key = Ed25519PrivateKey.generate()
    while base(public(key)).startswith("-"):  # at the shell it would read as an option
        key = Ed25519PrivateKey.generate()
    return key


def _pem(key: Ed25519PrivateKey | X25519PrivateKey, password: bytes | None) -> bytes:
    how = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)


def _write(path: str | Path, text: bytes) -> None:
    """Write a file that isn't there yet, for its owner alone."""
    try:
        write_bytes(path, text, secret=True, new=True)
    except SavedFileError:
        why = "exists; keys are never overwritten" if Path(path).exists() else "can't be written"
        raise OptionError(f"the key's file {str(path)!r} {why}; name another.") from None


def load(path: str | Path, password: bytes | None = None) -> Ed25519PrivateKey:
    """Read a signing key. Raises OptionError if there is none, it is of another kind, or the password is wrong."""
    try:
        key = serialization.load_pem_private_key(contents(path), password)
    except (OSError, ValueError, TypeError):
        key = None
    if str(path).endswith(".pub"):
        raise OptionError(f"{str(path)!r} is a public key; this takes the key itself, which whoever made it keeps.")
    if not isinstance(key, Ed25519PrivateKey):
        raise OptionError(
            f"{str(path)!r} is no Ed25519 signing key that can be read; make one by privreg study key, or "
            "give its password."
        )
    return key


def load_collector(path: str | Path, password: bytes | None = None) -> CollectorKeys:
    """Read a collector's keys. Raises OptionError if the file hasn't both, or the password is wrong."""
    try:
        texts = _PEM.findall(contents(path))
        found = [serialization.load_pem_private_key(text, password) for text in texts]
    except (OSError, ValueError, TypeError):
        found = []
    match found:
        case [Ed25519PrivateKey() as sign, X25519PrivateKey() as seal]:
            return CollectorKeys(sign, seal)
    raise OptionError(
        f"{str(path)!r} has no keys of a collector that can be read; make them by privreg study key FILE --collector, "
        "or give its password."
    )


def public(key: Ed25519PrivateKey) -> bytes:
    """The 32 bytes by which everybody verifies."""
    return key.public_key().public_bytes_raw()


def given(text: str, option: str) -> bytes:
    """A public key as the shell is given it: its file (.pub), that of a key without a password, or written out.
    Raises OptionError if it is neither.
    """
    if Path(text).is_file() and not text.endswith(".pub"):
        return public(load(text))
    try:
        found = unbase(Path(text).read_text("utf-8").strip() if Path(text).is_file() else text, option)
    except MessageError:
        found = b""
    if len(found) != KEY:
        raise OptionError(
            f"{option} {text!r} is neither a file nor a public key, base64url of {KEY} bytes; the analyst keeps "
            "root.key, and gives out root.key.pub, or what 'privreg study key root.key' printed."
        )
    return found


def signed(kind: str, payload: bytes, *keys: Ed25519PrivateKey) -> bytes:
    """An envelope with the signatures of these keys: what a server hands out. Its kind is "plan" or "state".

    For the payload see `study.plan_payload` and `messages.state_payload`.
    """
    sigs = tuple((key_id(public(k)), k.sign(signed_bytes(kind, payload))) for k in keys)
    return seal(Envelope(kind, payload, sigs))


def invitation(server: str, study: str, root: bytes, token: Token | None = None) -> str:
    """A link to a study's page, which pins the analyst's public key `root`, that its plan must be signed by.

    `server` is an address such as https://study.example.org, `study` the short name, and `token` the respondent's; none
    for an open study.
    """
    link = f"{server.rstrip('/')}/studies/{quote(study)}/#k={base(root)}"
    return link if token is None else f"{link}&t={token_text(token)}"
