"""Sealing of shares to a collector's key: HPKE in base mode, one message for each one-time key.

DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, AES-128-GCM. A device seals; collectors open, by a library of their choice. The
ladder and the swaps do the same for every key, but integers of Python take the time they take, and tables are looked
up by secret bytes: keys are good for one message, made and forgotten here, so that there is nothing to time twice.

References
----------
RFC 9180 (HPKE), sections 4.1, 5.1 and 7; RFC 7748 (X25519), section 5; RFC 5869 (HKDF). FIPS 197 (AES); NIST SP 800-38D
(GCM), sections 6.3 to 6.5.
"""

import hashlib
import hmac
import struct
from collections.abc import Callable, Iterator
from typing import Final

from privreg_field.wire.wire import MessageError

from .report.noise import NoiseError, secret

KEY: Final = 32
TAG: Final = 16
P: Final = 2**255 - 19
BASE: Final = (9).to_bytes(KEY, "little")

KNOWN: Final = "0862d177fc98acd90145970a82118c297537a6542fb195abe308c2fd022d0569"  # SHA-256 of what `check` seals

_KEM: Final = b"KEM\x00\x20"
_SUITE: Final = b"HPKE\x00\x20\x00\x01\x00\x01"


# --- X25519 --------------------------------------------------------------------------------------------------


def x25519(scalar: bytes, point: bytes) -> bytes:
    """Scalar times point, both of 32 bytes, by Montgomery's ladder.

    Raises
    ------
    MessageError
        If the product is zero: the point is of small order, and everybody knows the product.
    """
    n = int.from_bytes(scalar, "little") & ((1 << 254) - 8) | 1 << 254
    x = int.from_bytes(point, "little") & ((1 << 255) - 1)
    x2, z2, x3, z3, swap = 1, 0, x, 1, 0
    for i in range(254, -1, -1):
        bit = n >> i & 1
        mask = -(swap ^ bit)
        both_x, both_z, swap = (x2 ^ x3) & mask, (z2 ^ z3) & mask, bit
        x2, x3, z2, z3 = x2 ^ both_x, x3 ^ both_x, z2 ^ both_z, z3 ^ both_z
        a, b, c, d = x2 + z2, x2 - z2, x3 + z3, x3 - z3
        aa, bb, da, cb = a * a % P, b * b % P, d * a, c * b
        e = aa - bb
        x3, z3 = (da + cb) ** 2 % P, (da - cb) ** 2 * x % P
        x2, z2 = aa * bb % P, e * (aa + 121665 * e) % P
    mask = -swap
    x2, z2 = x2 ^ (x2 ^ x3) & mask, z2 ^ (z2 ^ z3) & mask
    out = (x2 * pow(z2, P - 2, P) % P).to_bytes(KEY, "little")
    if not any(out):
        raise MessageError("a key that shares are sealed to is no key: everybody could open them.")
    return out


# --- HKDF ----------------------------------------------------------------------------------------------------


def extract(salt: bytes, key: bytes) -> bytes:
    """HKDF's first step, by SHA-256: 32 bytes."""
    return hmac.digest(salt, key, "sha256")


def expand(key: bytes, info: bytes, count: int) -> bytes:
    """HKDF's second step: so many bytes, 32 at most."""
    return hmac.digest(key, info + b"\1", "sha256")[:count]


def _extract(suite: bytes, salt: bytes, label: bytes, key: bytes) -> bytes:
    return extract(salt, b"HPKE-v1" + suite + label + key)


def _expand(suite: bytes, key: bytes, label: bytes, info: bytes, count: int) -> bytes:
    return expand(key, struct.pack(">H", count) + b"HPKE-v1" + suite + label + info, count)


# --- AES-128-GCM ---------------------------------------------------------------------------------------------


def _twice(x: int) -> int:
    return x << 1 ^ (0x11B if x & 0x80 else 0)


def _substitutes() -> list[int]:
    """AES's substitution of bytes: the inverse in GF(2⁸), and an affine map."""
    powers = [1]
    while len(powers) < 255:  # of 3, which has that order
        powers.append(powers[-1] ^ _twice(powers[-1]))
    out = [0x63] * 256
    for i, x in enumerate(powers):
        y = powers[-i % 255]
        y |= y << 8
        out[x] = (y ^ y >> 4 ^ y >> 5 ^ y >> 6 ^ y >> 7) & 0xFF ^ 0x63
    return out


def _columns() -> Iterator[list[int]]:
    """Tables of what a byte in each row adds to a column of the next round, as 32-bit words."""
    mixed = [_twice(s) << 24 | s << 16 | s << 8 | (_twice(s) ^ s) for s in BYTES]
    for r in (0, 8, 16, 24):
        yield [(m >> r | m << (32 - r)) & 0xFFFFFFFF for m in mixed]


BYTES: Final = _substitutes()
T0, T1, T2, T3 = _columns()


class Cipher:
    """AES with one key of 16 bytes."""

    def __init__(self, key: bytes) -> None:
        words, factor = list(struct.unpack(">4I", key)), 1
        for i in range(4, 44):
            w = words[-1]
            if i % 4 == 0:
                turned = (w << 8 | w >> 24) & 0xFFFFFFFF
                w = int.from_bytes(bytes(BYTES[v] for v in turned.to_bytes(4, "big")), "big") ^ factor << 24
                factor = _twice(factor)
            words.append(words[-4] ^ w)
        self._rounds = [tuple(words[i : i + 4]) for i in range(0, 44, 4)]

    def block(self, data: bytes) -> bytes:
        """Encrypt 16 bytes."""
        a, b, c, d = (v ^ k for v, k in zip(struct.unpack(">4I", data), self._rounds[0], strict=True))
        for p, q, r, s in self._rounds[1:-1]:
            a, b, c, d = (
                T0[a >> 24] ^ T1[b >> 16 & 255] ^ T2[c >> 8 & 255] ^ T3[d & 255] ^ p,
                T0[b >> 24] ^ T1[c >> 16 & 255] ^ T2[d >> 8 & 255] ^ T3[a & 255] ^ q,
                T0[c >> 24] ^ T1[d >> 16 & 255] ^ T2[a >> 8 & 255] ^ T3[b & 255] ^ r,
                T0[d >> 24] ^ T1[a >> 16 & 255] ^ T2[b >> 8 & 255] ^ T3[c & 255] ^ s,
            )
        last = ((a, b, c, d), (b, c, d, a), (c, d, a, b), (d, a, b, c))
        words = (
            BYTES[w >> 24] << 24 | BYTES[x >> 16 & 255] << 16 | BYTES[y >> 8 & 255] << 8 | BYTES[z & 255]
            for w, x, y, z in last
        )
        return struct.pack(">4I", *(w ^ k for w, k in zip(words, self._rounds[-1], strict=True)))


def encrypt(key: bytes, nonce: bytes, plain: bytes, more: bytes = b"") -> bytes:
    """AES-128-GCM: ciphertext and tag, of a nonce of 12 bytes; `more` is authenticated beside."""
    cipher = Cipher(key)
    count = -(-len(plain) // 16)
    stream = b"".join(cipher.block(nonce + struct.pack(">I", i)) for i in range(2, count + 2))[: len(plain)]
    text = (int.from_bytes(plain, "big") ^ int.from_bytes(stream, "big")).to_bytes(len(plain), "big")
    padded = b"".join(part + bytes(-len(part) % 16) for part in (more, text))
    mark = _hashed(cipher.block(bytes(16)), padded + struct.pack(">QQ", 8 * len(more), 8 * len(text)))
    return text + (mark ^ int.from_bytes(cipher.block(nonce + b"\0\0\0\1"), "big")).to_bytes(TAG, "big")


def _hashed(key: bytes, data: bytes) -> int:
    """GHASH, four bits at a time. The first bit of a block is the coefficient of x⁰."""
    table = [0] * 16
    table[8] = int.from_bytes(key, "big")
    for i in (4, 2, 1):
        table[i] = _shifted(table[2 * i])
    for i in (2, 4, 8):
        for j in range(1, i):
            table[i + j] = table[i] ^ table[j]
    carried = [0] * 16  # what four bits that are shifted out leave at the front
    for i in range(16):
        v = i
        for _ in range(4):
            v = _shifted(v)
        carried[i] = v
    out = 0
    for at in range(0, len(data), 16):
        out ^= int.from_bytes(data[at : at + 16], "big")
        product = 0
        for k in range(0, 128, 4):
            product = product >> 4 ^ carried[product & 15] ^ table[out >> k & 15]
        out = product
    return out


def _shifted(v: int) -> int:
    """Times x, modulo x¹²⁸ + x⁷ + x² + x + 1."""
    return v >> 1 ^ (0xE1 << 120 if v & 1 else 0)


# --- HPKE ----------------------------------------------------------------------------------------------------


def seal(plain: bytes, key: bytes, info: bytes, source: Callable[[int], bytes] = secret) -> bytes:
    """Seal a message to the X25519 public key, 32 bytes, of whoever may open it; it opens with the same `info` alone.

    It is the one-time public key, the ciphertext and its tag: 48 bytes more than `plain`. `source` gives so many bytes;
    by default the operating system's secure randomness.

    Raises
    ------
    MessageError
        If the key is none.
    """
    enc, shared = encapsulated(key, source(KEY))
    return enc + encrypt(*schedule(shared, info), plain)


def encapsulated(key: bytes, secret: bytes) -> tuple[bytes, bytes]:
    """The public key to a secret one, and the secret shared with the owner of another public key: 32 bytes each."""
    if len(key) != KEY:
        raise MessageError(f"a key that shares are sealed to must have {KEY} bytes.")
    enc, root = x25519(secret, BASE), _extract(_KEM, b"", b"eae_prk", x25519(secret, key))
    return enc, _expand(_KEM, root, b"shared_secret", enc + key, 32)


def schedule(shared: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Key and nonce of the first message, in base mode."""
    about = b"\0" + _extract(_SUITE, b"", b"psk_id_hash", b"") + _extract(_SUITE, b"", b"info_hash", info)
    root = _extract(_SUITE, shared, b"secret", b"")
    return _expand(_SUITE, root, b"key", about, 16), _expand(_SUITE, root, b"base_nonce", about, 12)


def check() -> None:
    """Seal a known message with a known key.

    Raises
    ------
    NoiseError
        If it is not what it must be.
    """
    known = bytes(range(KEY))
    sealed = seal(bytes(range(100)), x25519(known[::-1], BASE), b"privreg known answer", lambda count: known[:count])
    if hashlib.sha256(sealed).hexdigest() != KNOWN:
        raise NoiseError("the sealing of shares fails its known-answer test.")
