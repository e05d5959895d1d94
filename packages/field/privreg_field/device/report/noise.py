"""Exact rounded normal noise: round(2^m Z) from random 32-bit words and comparisons of integers, nothing else.

No floating point comes near a random number, so that the law is exact. Uniform numbers are sequences of words, of which
more are drawn only when two of them are equal so far. The same words give the same noise in every language.

References
----------
Karney (2016), Sampling exactly from the normal distribution, ACM TOMS 42, algorithm N.
"""

from __future__ import annotations

import hashlib
import os
import struct
from collections.abc import Callable
from typing import Final

WORD: Final = 1 << 32
BLOCK: Final = 1024  # Words that are asked of the operating system at once

KNOWN: Final = "522b5da16e21f1988271a9e18bbddf6b203fc5e937541063e2ef3615bd487dfe"
"""SHA-256 of the noise that `check` draws."""


class NoiseError(RuntimeError):
    """There is no secure randomness, or the sampler is broken."""


def secret(count: int) -> bytes:
    """So many random bytes.

    Raises
    ------
    NoiseError
        If there is no secure randomness.
    """
    try:
        return os.urandom(count)
    except (OSError, NotImplementedError):
        raise NoiseError("the operating system gives no secure randomness.") from None


class Words:
    """Random 32-bit words, each handed out once; `source` is by default the operating system's secure randomness."""

    def __init__(self, source: Callable[[int], bytes] = os.urandom) -> None:
        self._source, self._process = source, os.getpid()
        self._left: list[int] = []  # In the opposite order

    def word(self) -> int:
        """Next word, of four bytes, the least significant first.

        Raises
        ------
        NoiseError
            If there is no randomness, or in a forked process, where the same words would be drawn again.
        """
        if os.getpid() != self._process:
            raise NoiseError("noise can't be drawn in a forked process.")
        if not self._left:
            try:
                some = self._source(4 * BLOCK)
            except (OSError, NotImplementedError):
                some = b""
            if len(some) != 4 * BLOCK:
                raise NoiseError("the operating system gives no secure randomness.")
            self._left = list(struct.unpack(f"<{BLOCK}I", some))[::-1]
        return self._left.pop()

    def below(self, n: int) -> int:
        """Uniform integer from 0 to n − 1, n at most 2³²."""
        most = WORD - WORD % n
        while True:
            word = self.word()
            if word < most:
                return word % n


class _Uniform:
    """A uniform number on (0, 1): digits in base 2³², drawn when they are looked at."""

    __slots__ = ("digits", "words")

    def __init__(self, words: Words) -> None:
        self.words, self.digits = words, [words.word()]

    def digit(self, i: int) -> int:
        if i == len(self.digits):
            self.digits.append(self.words.word())
        return self.digits[i]

    def __lt__(self, other: _Uniform) -> bool:
        i = 0
        while True:
            a, b = self.digit(i), other.digit(i)
            if a != b:
                return a < b
            i += 1


def _by_half(words: Words) -> bool:
    """True with probability exp(−1/2): runs of decreasing uniforms that begin below 1/2, by von Neumann."""
    first = _Uniform(words)
    if first.digits[0] >= WORD // 2:
        return True
    while True:
        second = _Uniform(words)
        if not second < first:
            return False
        first = _Uniform(words)
        if not first < second:
            return True


def _by_fraction(k: int, x: _Uniform, words: Words) -> bool:
    """True with probability exp(−x (2k + x)/(2k + 2))."""
    least, even = x, True
    while True:
        z = _Uniform(words)
        if not z < least:
            return even
        f = words.below(2 * k + 2)
        if f == 0 or (f == 1 and not _Uniform(words) < x):
            return even
        least, even = z, not even


def rounded_normal(bits: int, words: Words) -> int:
    """round(2^bits Z), Z standard normal, exactly; `bits` from 0 to 31."""
    while True:
        k = 0
        while _by_half(words):
            k += 1
        if not all(_by_half(words) for _ in range(k * (k - 1))):
            continue
        x = _Uniform(words)
        if all(_by_fraction(k, x, words) for _ in range(k + 1)):
            break
    top = x.digits[0] >> (31 - bits)  # the first bits + 1 of the fraction; nearest, as ties have probability 0
    size = (k << bits) + ((top + 1) >> 1)
    return -size if words.word() & 1 else size


def check() -> None:
    """Draw known noise from known words.

    Raises
    ------
    NoiseError
        If it is not what it must be.
    """
    blocks = iter(range(1 << 20))

    def known(count: int) -> bytes:
        some = b"".join(hashlib.sha256(b"privreg known answer %d" % next(blocks)).digest() for _ in range(count // 32))
        return some[:count]

    words = Words(known)
    drawn = ",".join(str(rounded_normal(bits, words)) for bits in (0, 8, 20, 24, 31) for _ in range(20))
    if hashlib.sha256(drawn.encode()).hexdigest() != KNOWN:
        raise NoiseError("the sampler of noise fails its known-answer test.")
