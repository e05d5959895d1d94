"""Log of a collector: a line an event, never with a value, a token, or anybody's address."""

import json
import logging
import sys
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TextIO

from starlette.types import ASGIApp, Message, Receive, Scope, Send

VERBS: Final = frozenset({"GET", "HEAD", "POST", "OPTIONS"})


def quiet(event: str, **more: Any) -> None:
    """Write nothing."""


class Journal:
    """Writes events: all of them as JSON, or as text only what went wrong."""

    def __init__(self, form: str = "text", out: TextIO | None = None) -> None:
        self._form, self._out, self._lock = form, out or sys.stderr, threading.Lock()

    def __call__(self, event: str, **more: Any) -> None:
        """Write an event, if the form has all."""
        if self._form == "json":
            at = datetime.now(UTC).isoformat(timespec="milliseconds")
            self._write(json.dumps({"time": at, "event": event, **more}, separators=(",", ":")))

    def wrong(self, source: str, message: str, error: BaseException | None) -> None:
        """Write that something went wrong: the message as it is in the program, kind and place of the error."""
        more = {"source": source, "message": message.strip()}
        if error is not None:
            more |= {"error": type(error).__name__, "at": _place(error)}
        if self._form == "json":
            self("warning", **more)
        else:
            self._write("privreg serve: " + ", ".join(more.values()))

    def _write(self, line: str) -> None:
        with self._lock:
            print(line, file=self._out, flush=True)


def _place(error: BaseException) -> str:
    """File and line that raised an error; its text could quote what was posted."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return "" if trace is None else f"{Path(trace.tb_frame.f_code.co_filename).name}:{trace.tb_lineno}"


class _Handler(logging.Handler):
    """Libraries' warnings: the first line as it is in their code, without what is put into it.

    Errors of the event loop have been put together already, arguments and all: of these it says that there was one.
    """

    def __init__(self, journal: Journal) -> None:
        super().__init__(logging.WARNING)
        self._journal = journal

    def emit(self, record: logging.LogRecord) -> None:
        as_written = isinstance(record.msg, str) and record.name != "asyncio"
        message = record.msg.partition("\n")[0] if as_written else "an error"
        self._journal.wrong(record.name, message, record.exc_info[1] if record.exc_info else None)


def take_over(journal: Journal) -> None:
    """Let libraries' warnings, and what ends a thread, go into a journal."""
    logging.getLogger().addHandler(_Handler(journal))
    threading.excepthook = lambda e: journal.wrong("thread", "A thread has ended", e.exc_value)


class Logged:
    """An application whose requests are written: by the form of their address, without what is in it."""

    def __init__(self, app: ASGIApp, journal: Journal, paths: Mapping[Any, str]) -> None:
        self._app, self._journal, self._paths = app, journal, paths

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, and write."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        began, status = time.perf_counter(), 0

        async def sent(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._app(scope, receive, sent)
        finally:
            verb = scope["method"] if scope["method"] in VERBS else "other"
            path = self._paths.get(scope.get("endpoint"), "other")
            took = round(1000.0 * (time.perf_counter() - began), 1)
            self._journal("request", method=verb, path=path, status=status or None, milliseconds=took)
