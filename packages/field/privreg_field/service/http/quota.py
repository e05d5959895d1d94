"""How often one address may ask. Addresses are kept in memory alone, under a key of this process, and forgotten."""

from __future__ import annotations

import hashlib
import ipaddress
import secrets
import time
from typing import Final

BURST: Final = 4.0  # Seconds' worth of requests that may come at once
MOST: Final = 100_000  # Addresses that are kept at most; all are forgotten when there are more


def place_of(address: str) -> str:
    """What one visitor has: an address, or of IPv6 a network of 64 bits."""
    try:
        return str(ipaddress.IPv6Address(int(ipaddress.IPv6Address(address.partition("%")[0])) >> 64 << 64))
    except ValueError:  # of the older version, or no address
        return address


class Quota:
    """A bucket of requests for each address, filled at a rate, requests a second; 0 for no limit."""

    def __init__(self, rate: float) -> None:
        self._rate, self._key = rate, secrets.token_bytes(16)
        self._left: dict[bytes, tuple[float, float]] = {}

    def allows(self, address: str) -> bool:
        """Whether one more request of this address may be answered."""
        if self._rate <= 0.0:
            return True
        own, now = hashlib.blake2b(place_of(address).encode(), key=self._key, digest_size=16).digest(), time.monotonic()
        if len(self._left) > MOST:
            self._left.clear()
        most = self._rate * BURST
        left, before = self._left.get(own, (most, now))
        left = min(left + (now - before) * self._rate, most)
        self._left[own] = (max(left - 1.0, 0.0), now)
        return left >= 1.0
