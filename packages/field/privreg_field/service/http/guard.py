"""Limits on connections before a request is whole: of its head's length, and of the time it may take."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from privreg_field.service.http.quota import place_of

HEAD: Final = 32 * 1024  # Bytes of a request's head, at most
SECONDS: Final = 15.0  # In which a connection's first request must come, and the head of any

CONNECTIONS: Final = 800
"""Open at the same time, at most; others are told to come again. A process may usually have 1,024 files."""


class Guarded(HttpToolsProtocol):
    """A connection that ends when the head of a request is endless, or doesn't come, or its address has too many."""

    most = CONNECTIONS // 8  # Of one address; beyond them the oldest of it that is idle ends, or else the new one

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
