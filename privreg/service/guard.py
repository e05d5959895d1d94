"""Limits on connections before a request is whole: of its head's length, and of the time it may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

if TYPE_CHECKING:
    import asyncio

__all__ = ["CONNECTIONS", "Guarded"]

HEAD: Final = 32 * 1024
"""Bytes of a request's head, at most."""

SECONDS: Final = 15.0
"""In which the head of a connection's first request must come; later ones have the server's own limit."""

CONNECTIONS: Final = 2000
"""Open at the same time, at most; others are told to come again."""


class Guarded(HttpToolsProtocol):
    """A connection that ends when the head of a request is endless, or doesn't come."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self._head, self._waits = 0, True  # Bytes of a head that is not whole yet; whether one is awaited
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._timer = self.loop.call_later(SECONDS, self._late)

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more."""
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, unless a head has grown too long."""
        super().data_received(data)
        if self._waits:
            self._head += len(data)
            if self._head > HEAD and self.transport is not None:
                self.transport.abort()

    def on_message_begin(self) -> None:
        """Count the head of the next request."""
        self._waits, self._head = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """The head is whole."""
        self._waits = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        super().on_headers_complete()

    def _late(self) -> None:
        if self.transport is not None and self._waits:
            self.transport.abort()
