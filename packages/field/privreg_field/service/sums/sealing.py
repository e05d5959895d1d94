"""Keys of batches, which are destroyed, and the shares that they seal: opened, and added up with noise, in memory."""

import os
import secrets
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import numpy as np
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from privreg.base.archive import write_bytes
from privreg_field.device.report.noise import Words, rounded_normal
from privreg_field.wire.peers import WORD

SIZE: Final = 32


class BatchKeys:
    """Keys of batches, each in a file `beside` the database, in no table and no log of it."""

    def __init__(self, beside: Callable[[str], Path]) -> None:
        self._beside = beside

    def path(self, k: int) -> Path:
        """File of a batch's key."""
        return self._beside(f"batch{k}.key")

    def all(self) -> list[int]:
        """Batches that have a key."""
        stem = self._beside("batch").name
        found = self._beside("").parent.glob("*.key")
        numbers = [p.name.removeprefix(stem).removesuffix(".key") for p in found if p.name.startswith(stem)]
        return sorted(int(n) for n in numbers if n.isdecimal())

    def _read(self, k: int) -> bytes:
        path = self.path(k)
        return path.read_bytes() if path.exists() else b""

    def get(self, k: int) -> bytes | None:
        """Key of a batch; None if there is none, or it was overwritten."""
        key = self._read(k)[:SIZE]
        return key if any(key) else None

    def state(self, k: int) -> bytes:
        """Payload of the state whose shares the key is for; empty if there is no file of it."""
        return self._read(k)[SIZE:]

    def make(self, k: int, state: bytes) -> None:
        """Write a new key, before a state is signed and anything sealed, in place of what may be there.

        The state stands beside it, so that what comes from a backup without keys takes no old state for a new one.
        """
        self.destroy(k)
        write_bytes(self.path(k), secrets.token_bytes(SIZE) + state, secret=True)
        self._sync()

    def destroy(self, k: int, *, keep: bool = False) -> None:
        """Overwrite a key, if there is one, and remove its file, but for `keep`: no backup has it, so that it shows
        that the database is of none.
        """
        path = self.path(k)
        if not path.exists():
            return
        with path.open("r+b") as file:
            file.write(bytes(SIZE))
            file.flush()
            os.fsync(file.fileno())
        if not keep:
            path.unlink()
            self._sync()

    def _sync(self) -> None:
        folder = os.open(self._beside("").parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


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
