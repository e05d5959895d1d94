"""Signing keys and invitations."""

import os
import stat

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from privreg.errors import OptionError
from privreg_field.device import client, ed25519
from privreg_field.study import keys
from privreg_field.wire import wire
from privreg_field.wire.messages import token_text
from tests.studies import token


@pytest.mark.parametrize("password", [None, b"a password"])
def test_a_key_is_made_once_and_read_again(tmp_path, password):
    path = tmp_path / "root.key"
    old = os.umask(0)
    try:
        key = keys.make(path, password)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert keys.public(keys.load(path, password)) == keys.public(key)
    assert (b"ENCRYPTED" in path.read_bytes()) == (password is not None)
    with pytest.raises(OptionError, match="never overwritten"):
        keys.make(path, password)
    with pytest.raises(OptionError, match="no Ed25519 signing key"):
        keys.load(path, b"another" if password else b"one too many")


@pytest.mark.parametrize("password", [None, b"a password"])
def test_a_collectors_keys_are_made_once_and_read_again(tmp_path, password):
    path = tmp_path / "a.key"
    old = os.umask(0)
    try:
        made = keys.make_collector(path, password)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert path.read_bytes().count(b"ENCRYPTED") == 4 * (password is not None)
    again = keys.load_collector(path, password)
    assert again.public == made.public
    assert len({made.public[0], made.public[1], keys.make_collector(tmp_path / "b.key").public[1]}) == 3
    other = X25519PrivateKey.generate()
    assert again.seal.exchange(other.public_key()) == made.seal.exchange(other.public_key())
    with pytest.raises(OptionError, match="never overwritten"):
        keys.make_collector(path, password)
    with pytest.raises(OptionError, match="no keys of a collector"):
        keys.load_collector(path, b"another" if password else b"one too many")


def test_half_a_collectors_keys_are_none(tmp_path):
    keys.make(tmp_path / "one.key")
    keys.make_collector(tmp_path / "a.key")
    both = (tmp_path / "a.key").read_bytes()
    (tmp_path / "thrice").write_bytes(both + (tmp_path / "one.key").read_bytes())
    (tmp_path / "turned").write_bytes(b"".join(keys._PEM.findall(both)[::-1]))
    for name in ("one.key", "thrice", "turned", "nothing"):
        with pytest.raises(OptionError, match="no keys of a collector"):
            keys.load_collector(tmp_path / name)


def test_other_files_are_no_keys(tmp_path):
    other = X25519PrivateKey.generate().private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (tmp_path / "other").write_bytes(other)
    (tmp_path / "text").write_text("no key")
    for name in ("other", "text", "nothing"):
        with pytest.raises(OptionError, match="no Ed25519 signing key"):
            keys.load(tmp_path / name)
    with pytest.raises(OptionError, match="can't be written"):
        keys.make(tmp_path / "no folder" / "key")


def test_what_is_signed_is_verified_by_devices(tmp_path):
    first, second = keys.make(tmp_path / "a"), keys.make(tmp_path / "b")
    envelope = wire.open_envelope(keys.signed("state", b"{}", first, second), "state")
    message = wire.signed_bytes("state", b"{}")
    for key, (kid, sig) in zip((first, second), envelope.signatures, strict=True):
        assert kid == wire.key_id(keys.public(key))
        assert ed25519.verify(keys.public(key), message, sig)
    assert not ed25519.verify(keys.public(first), wire.signed_bytes("plan", b"{}"), envelope.signatures[0][1])


def test_invitations_are_what_devices_read(tmp_path):
    root = keys.public(keys.make(tmp_path / "root.key"))
    got = client.invitation(keys.invitation("https://study.example.org/", "sleep", root, token(3)))
    assert got == ("https://study.example.org/v1/studies/sleep", "sleep", wire.base(root), token_text(token(3)))
    assert client.invitation(keys.invitation("http://localhost:8000", "sleep", root)).token == ""


def test_a_public_key_never_reads_as_an_option(tmp_path, monkeypatch):
    class Made:
        @staticmethod
        def generate():
            return given.pop(0)

    some = [Ed25519PrivateKey.generate() for _ in range(1000)]  # one of 64 begins with a dash
    dashed = [key for key in some if wire.base(keys.public(key)).startswith("-")]
    fine = next(key for key in some if key not in dashed)
    given = [*dashed[:2], fine]
    assert len(given) == 3
    monkeypatch.setattr(keys, "Ed25519PrivateKey", Made)
    assert keys.make(tmp_path / "one.key") is fine
