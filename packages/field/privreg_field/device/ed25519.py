"""Verification of Ed25519 signatures. Nothing here is secret, so nothing needs constant time.

Strict: encodings that aren't the shortest are refused, and so are public keys of small order, with which one signature
would be good for several messages.

References
----------
RFC 8032, section 5.1. Chalkias, Garillot & Nikolaenko (2020), Taming the many EdDSAs, on what to refuse.
"""

import hashlib
from typing import Final

P: Final = 2**255 - 19
ORDER: Final = 2**252 + 27742317777372353535851937790883648493
D: Final = -121665 * pow(121666, P - 2, P) % P
ROOT: Final = pow(2, (P - 1) // 4, P)  # A square root of −1

Point = tuple[int, int, int, int]  # Extended coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, x y = T/Z

ZERO: Final[Point] = (0, 1, 1, 0)


def _add(p: Point, q: Point) -> Point:
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def _times(n: int, p: Point) -> Point:
    out = ZERO
    while n:
        if n & 1:
            out = _add(out, p)
        p, n = _add(p, p), n >> 1
    return out


def _is_zero(p: Point) -> bool:
    return p[0] % P == 0 and (p[1] - p[2]) % P == 0


def _point(data: bytes) -> Point | None:
    """Decode 32 bytes; None if they are no point, or not its only encoding."""
    number = int.from_bytes(data, "little")
    sign, y = number >> 255, number & ((1 << 255) - 1)
    if y >= P:
        return None
    u, v = (y * y - 1) % P, (D * y * y + 1) % P
    x = u * pow(v, 3, P) * pow(u * pow(v, 7, P), (P - 5) // 8, P) % P
    if v * x * x % P == (-u) % P:
        x = x * ROOT % P
    if v * x * x % P != u or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    return x, y, 1, x * y % P


def _bytes(p: Point) -> bytes:
    inverse = pow(p[2], P - 2, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


_BASE = _point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
assert _BASE is not None
BASE: Final[Point] = _BASE


def verify(key: bytes, message: bytes, signature: bytes) -> bool:
    """True if a signature, 64 bytes, over a message is the key's, 32 bytes; false if either is none."""
    if len(key) != 32 or len(signature) != 64:
        return False
    a, s = _point(key), int.from_bytes(signature[32:], "little")
    if a is None or s >= ORDER or _is_zero(_times(8, a)):
        return False
    k = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER
    minus = P - a[0], a[1], a[2], P - a[3]
    return _bytes(_add(_times(s, BASE), _times(k, minus))) == signature[:32]
