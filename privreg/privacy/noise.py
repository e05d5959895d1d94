"""Noise from a cipher: AES-256 in counter mode, a new key for every block, past keys forgotten.

Every word of a block's key stream is used once: the first 32 bytes are the next block's key, the rest
become standard normals. Whoever reads the current key can't go back to noise already used.
"""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

from privreg.errors import StreamError
from privreg.protocol import codes

KEY_BYTES: Final = 32
NORMALS: Final = 1 << 16  # Standard normals a block holds at most; rows per block follow from p alone
_SPARE: Final = 1.03
_PAD: Final = 16


@dataclass(frozen=True)
class Key:
    """A secret that no log prints."""

    value: bytes = field(repr=False)


def fresh_key() -> bytes:
    """Draw a key from the operating system's entropy."""
    return os.urandom(KEY_BYTES)


def seeded_key(seed: int, label: str = "") -> bytes:
    """Derive a key from a seed, for simulation only: noise that anybody can redraw protects nobody."""
    return hashlib.sha256(f"privreg simulation|{label}|{seed}".encode()).digest()


def derived_key(key: bytes, label: str) -> bytes:
    """Derive an independent key for another purpose."""
    return hashlib.sha256(label.encode() + b"|" + key).digest()


def cipher(key: bytes) -> CipherContext:
    """AES-256 in counter mode under a key, from the beginning."""
    return Cipher(algorithms.AES(key), modes.CTR(bytes(16))).encryptor()


def refuse_fork(process: int) -> None:
    """Refuse (StreamError) to draw noise in another process than `process`, which draws the same."""
    if os.getpid() != process:
        raise StreamError(
            "this fit was begun in another process, whose noise would be drawn again here; start a stream in "
            "this process, or save() it there and load it here."
        )


class NoiseStream:
    """Rows of `width` independent standard normals, in order, each handed out once; its key is replaced by block."""

    def __init__(self, key: bytes, width: int) -> None:
        if len(key) != KEY_BYTES:
            raise ValueError(f"a key has {KEY_BYTES} bytes, got {len(key)}")
        self.width, self._process = width, os.getpid()
        self.rows = max(NORMALS // width // codes.BLOCK * codes.BLOCK, 64)
        self._key, self._used, self._buffer = key, 0, np.empty((self.rows, width))
        self._block = self._buffer[:0]
        words = int(self.rows * width * _SPARE) + 64
        self._words = np.empty(words + _PAD // 8, dtype=np.uint64)
        self._zeros = bytes(words * 8)

    def peek(self) -> NDArray[np.float64]:
        """Rows that come next, at least one; a view.
        Raises StreamError in a forked process, which would draw the same noise as its parent.
        """
        refuse_fork(self._process)
        if self._used == self._block.shape[0]:
            self._key, self._block = self._fill(self._key)
            self._used = 0
        return self._block[self._used :]

    def advance(self, rows: int) -> None:
        """Mark `rows` rows as used."""
        self._used += rows

    def draw(self, rows: int) -> NDArray[np.float64]:
        """Hand out the next `rows` rows as an array of one's own, shape (rows, width)."""
        out, at = np.empty((rows, self.width)), 0
        while at < rows:
            some = self.peek()[: rows - at]
            out[at : at + len(some)] = some
            self.advance(len(some))
            at += len(some)
        return out

    def _fill(self, key: bytes) -> tuple[bytes, NDArray[np.float64]]:
        """Next key, and the buffer full of this key's normals."""
        from privreg.privacy import ziggurat  # compiled

        stream = cipher(key)
        following = stream.update(bytes(KEY_BYTES))
        flat, words, filled = self._buffer.reshape(-1), len(self._zeros) // 8, 0
        while filled < flat.shape[0]:
            stream.update_into(self._zeros, self._words.view(np.uint8).data)
            filled, _ = ziggurat.ziggurat(self._words[:words], flat, filled)
        return following, self._buffer

    def secret_state(self) -> dict[str, NDArray[np.generic]]:
        """Noise not yet used: the next key and the rest of this block. Never holds used noise."""
        refuse_fork(self._process)
        return {"key": np.frombuffer(self._key, dtype=np.uint8), "rest": self._block[self._used :].copy()}

    @classmethod
    def from_secret_state(cls, width: int, key: NDArray[np.uint8], rest: NDArray[np.float64]) -> "NoiseStream":
        """Go on exactly where :meth:`secret_state` was taken; a ValueError says that the noise is of another width."""
        stream = cls(key.tobytes(), width)
        if rest.dtype != np.float64 or rest.shape[1:] != (width,) or not np.isfinite(rest).all():
            raise ValueError("noise of another stream")
        stream._block = np.ascontiguousarray(rest)
        return stream

    def __reduce__(self) -> str:
        raise TypeError("a noise stream holds a secret key and can't be pickled; use save() on the fit in progress")

    def __repr__(self) -> str:
        return f"NoiseStream(width={self.width}, AES-256-CTR)"


def normals(key: bytes, count: int) -> NDArray[np.float64]:
    """Independent standard normals of a key, which is to be used for nothing else; shape (count,).

    By inversion of 64 bits each, sign apart, so that tails reach 8.9 sd; nothing compiled.
    """
    from scipy.special import ndtri

    drawn = words(key, count)
    tail = ((drawn >> np.uint64(1)).astype(np.float64) + 0.5) * 2.0**-64
    return np.asarray(np.where((drawn & np.uint64(1)) == 1, -1.0, 1.0) * ndtri(np.minimum(tail, 0.5)))


def words(key: bytes, count: int) -> NDArray[np.uint64]:
    """Random words of a key, which is to be used for nothing else; shape (count,)."""
    return np.frombuffer(cipher(key).update(bytes(8 * count)), dtype="<u8")
