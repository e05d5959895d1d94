"""Limits of the server: requests of an address, connections and heads, and the answers that refuse.

Addresses are kept in memory alone, under a key of this process, and forgotten.
"""

import asyncio
import hashlib
import ipaddress
import json
import secrets
import time
from typing import Any, Final

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

BURST: Final = 4.0  # Seconds' worth of requests that may come at once
MOST: Final = 100_000  # Addresses that are kept at most; all are forgotten when there are more


def place_of(address: str) -> str:
    """Network of one visitor: an address, of IPv6 its first 64 bits."""
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
        """True if one more request of this address may be answered."""
        if self._rate <= 0.0:
            return True
        who, now = hashlib.blake2b(place_of(address).encode(), key=self._key, digest_size=16).digest(), time.monotonic()
        if len(self._left) > MOST:
            self._left.clear()
        most = self._rate * BURST
        left, before = self._left.get(who, (most, now))
        left = min(left + (now - before) * self._rate, most)
        self._left[who] = (max(left - 1.0, 0.0), now)
        return left >= 1.0


PROBLEM: Final = "application/problem+json"

TITLES: Final = {
    400: "Bad request",
    401: "Not authorised",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Token used",
    410: "Closed",
    412: "No such state yet",
    413: "Too large",
    415: "Unsupported media type",
    422: "No report of this study",
    425: "Too early",
    429: "Too many requests",
    503: "Busy",
}


class Problem(Exception):
    """An answer that is no success, after RFC 9457. Its words are fixed: they hold nothing of a request."""

    def __init__(self, status: int, detail: str, wait: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.wait = status, detail, wait

    def response(self) -> Response:
        """The problem as a response."""
        said = {"type": "about:blank", "title": TITLES[self.status], "status": self.status, "detail": self.detail}
        headers = {} if self.wait is None else {"Retry-After": str(self.wait)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(json.dumps(said), self.status, headers, PROBLEM)


HEAD: Final = 32 * 1024  # Bytes of a request's head, at most
SECONDS: Final = 15.0  # In which a connection's first request must come, and the head of any

CONNECTIONS: Final = 800
"""Open at the same time, at most; others are told to come again. A process may usually have 1,024 files."""


class Guarded(HttpToolsProtocol):
    """A connection that ends when the head of a request is endless, or doesn't come, or its address has too many."""

    most = CONNECTIONS // 8  # Connections of one address; beyond them its oldest idle one ends, or else the new one

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._place, self._made = "", 0.0
        self._head, self._waits = 0, True  # Bytes of a head that is not whole yet; whether one is awaited
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._place, self._made = place_of(self.client[0] if self.client else ""), self.loop.time()
        same = [one for one in self.connections if isinstance(one, Guarded) and one._place == self._place]
        if len(same) > self.most:
            idle = [one for one in same if one is not self and (one.cycle is None or one.cycle.response_complete)]
            min(idle, key=lambda one: one._made, default=self).transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        self._stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head has grown too long."""
        super().data_received(data)
        if self._waits:
            self._head += len(data)
            if self._head > HEAD and self.transport is not None:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Count the head of the next request, and the time that it takes."""
        self._waits, self._head = True, 0
        self._wait()
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._waits = False
        self._stop()
        super().on_headers_complete()

    def _wait(self) -> None:
        if self._timer is None:
            self._timer = self.loop.call_later(SECONDS, self._late)

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        if self.transport is not None and self._waits:
            self.transport.abort()


class Proxied(Guarded):
    """A connection of the server before this one, which counts those of each address itself."""

    most = CONNECTIONS
