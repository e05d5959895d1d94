"""Shares opened, sealed again by their batch's key, and added up with noise. Nothing of it is written in clear."""

from __future__ import annotations

import secrets
from collections.abc import Iterable
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from privreg_field.device.report.noise import Words, rounded_normal
from privreg_field.wire.peers import WORD

NONCE: Final = 12
SUITE: Final = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.AES_128_GCM)


def opened(sealed: bytes, key: X25519PrivateKey, info: bytes, numbers: int) -> bytes | None:
    """A share as a device has sealed it; None if it is none of so many numbers, or bound to something else."""
    try:
        share = SUITE.decrypt(sealed, key, info)
    except (InvalidTag, ValueError):
        return None
    return share if len(share) == WORD * numbers else None


def kept(share: bytes, key: bytes, token_id: bytes) -> bytes:
    """A share sealed by its batch's key, as the database has it."""
    nonce = secrets.token_bytes(NONCE)
    return nonce + AESGCM(key).encrypt(nonce, share, token_id)


def noised(rows: Iterable[tuple[bytes, bytes]], key: bytes, numbers: int, bits: int) -> bytes:
    """Sum of kept shares, modulo 2⁶⁴, with a rounded normal of sd 2^bits on each number; little-endian words.

    `rows` are ids of tokens and their shares as they are kept, `key` is their batch's.
    Raises InvalidTag if a share was kept by another key.
    """
    total, cipher = np.zeros(numbers, dtype=np.uint64), AESGCM(key)
    for token_id, sealed in rows:
        total += np.frombuffer(cipher.decrypt(sealed[:NONCE], sealed[NONCE:], token_id), dtype="<u8")
    words = Words()
    drawn = [rounded_normal(bits, words) % (1 << 64) for _ in range(numbers)]
    return (total + np.array(drawn, dtype=np.uint64)).astype("<u8").tobytes()
