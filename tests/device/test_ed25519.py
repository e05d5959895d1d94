"""Verification of signatures: the standard's vectors, another library's signatures, and what must be refused."""

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privreg_field.device import ed25519
from privreg_field.device.ed25519 import ORDER, P, verify

VECTORS = (
    (
        "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
        "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
        "",
        "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe246"
        "55141438e7a100b",
    ),
    (
        "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
        "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
        "72",
        "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e458f3613d0f11d8c387b2eaeb4302aeeb0"
        "0d291612bb0c00",
    ),
    (
        "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
        "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
        "af82",
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc0"
        "27beceea1ec40a",
    ),
)
"""RFC 8032, section 7.1: secret key, public key, message, signature of tests 1 to 3."""


@pytest.mark.parametrize("vector", VECTORS)
def test_the_vectors_of_the_standard(vector):
    secret, key, message, signature = map(bytes.fromhex, vector)
    made = Ed25519PrivateKey.from_private_bytes(secret)
    assert made.public_key().public_bytes_raw() == key
    assert made.sign(message) == signature
    assert verify(key, message, signature)
    assert not verify(key, message + b"x", signature)


def test_other_peoples_signatures_are_accepted_and_mutated_ones_refused():
    for seed in range(0, 8, 3):
        secret = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32)
        key, message = secret.public_key().public_bytes_raw(), b"m" * (17 * seed)
        signature = secret.sign(message)
        assert verify(key, message, signature)
        for place in range(0, 64, 7):
            wrong = bytearray(signature)
            wrong[place] ^= 1 << (seed % 8)
            assert not verify(key, message, bytes(wrong))
        for place in range(0, 32, 5):
            wrong = bytearray(key)
            wrong[place] ^= 4
            assert not verify(bytes(wrong), message, signature)


def test_a_scalar_beyond_the_order_is_refused():
    secret = Ed25519PrivateKey.from_private_bytes(bytes(32))
    signature = secret.sign(b"once")
    s = int.from_bytes(signature[32:], "little") + ORDER
    again = signature[:32] + s.to_bytes(32, "little")
    assert not verify(secret.public_key().public_bytes_raw(), b"once", again)


SMALL = [
    (1).to_bytes(32, "little"),  # the neutral point
    (P - 1).to_bytes(32, "little"),  # of order 2
    (0).to_bytes(32, "little"),  # of order 4
    (1 << 255).to_bytes(32, "little"),
    bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05"),  # of order 8
    bytes.fromhex("c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a"),
]


@pytest.mark.parametrize("key", SMALL)
def test_keys_of_small_order_are_refused(key):
    point = ed25519._point(key)
    assert point is not None
    assert ed25519._is_zero(ed25519._times(8, point))
    # R = neutral, S = 0 would be a signature of every message whose hash is a multiple of the order
    for message in (b"", b"a", b"b", b"c", b"d", b"e", b"f", b"g", b"h", b"i"):
        assert not verify(key, message, (1).to_bytes(32, "little") + bytes(32))


@pytest.mark.parametrize(
    "data",
    [
        P.to_bytes(32, "little"),  # 0, written longer
        (P + 1).to_bytes(32, "little"),
        (2**255 - 1).to_bytes(32, "little"),
        ((1 << 255) | 1).to_bytes(32, "little"),  # minus zero
        (2).to_bytes(32, "little"),  # on no point
    ],
)
def test_what_is_no_encoding_of_a_point_is_refused(data):
    assert ed25519._point(data) is None
    assert not verify(data, b"", bytes(64))


def test_points_are_written_as_they_are_read():
    for seed in range(5):
        key = Ed25519PrivateKey.from_private_bytes(bytes([seed]) * 32).public_key().public_bytes_raw()
        point = ed25519._point(key)
        assert ed25519._bytes(point) == key
        assert ed25519._is_zero(ed25519._add(point, (P - point[0], point[1], 1, P - point[3])))
        assert ed25519._is_zero(ed25519._times(ORDER, point))


def test_wrong_lengths_are_refused():
    key = bytes.fromhex(VECTORS[0][1])
    assert not verify(key[:31], b"", bytes(64))
    assert not verify(key, b"", bytes(63))
