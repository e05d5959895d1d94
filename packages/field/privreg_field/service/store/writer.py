"""The one thread of a process that writes reports: up to `MOST` a transaction; its answers leave after the commit."""

from __future__ import annotations

import queue
import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError

from privreg_field.service.store.records import FAILED, KEPT, NEW, RecordStore, StoreError

MOST: Final = 512
TICK: Final = 0.05  # Seconds between two transactions, at least: each takes as long as many a report
WAITING: Final = 4096  # Reports that may wait for the writer; beyond them devices are asked to come later


class Full(Exception):
    """Too many reports wait."""


class Writer(threading.Thread):
    """The one thread of a process that writes reports, to `records`; it calls `after` after a commit of new ones."""

    def __init__(self, records: RecordStore, after: Callable[[], None]) -> None:
        super().__init__(name="privreg-writer", daemon=True)
        self._records, self._after = records, after
        self._queue: queue.Queue[tuple[Any, Callable[[str], None]] | None] = queue.Queue(WAITING)
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def put(self, arrived: Any, tell: Callable[[str], None]) -> None:
        """Let a report be written, or None to try it; `tell` hears what became of it, in this thread. Raises `Full`."""
        try:
            self._queue.put_nowait((arrived, tell))
        except queue.Full:
            raise Full from None

    def count(self, name: str) -> None:
        """Count what happened beside reports that may count."""
        with self._lock:
            self._counts[name] += 1

    def stop(self) -> None:
        """Write what waits, and end."""
        self._queue.put(None)
        self.join()

    def run(self) -> None:
        """Write until told to stop."""
        going, next_ = True, 0.0
        while going:
            try:
                some = [self._queue.get(timeout=1.0)]
            except queue.Empty:
                some = []
            time.sleep(max(next_ - time.monotonic(), 0.0))
            next_ = time.monotonic() + TICK
            while len(some) < MOST and not self._queue.empty():
                some.append(self._queue.get_nowait())
            going = None not in some
            self._write([one for one in some if one is not None])

    def _write(self, some: list[tuple[Any, Callable[[str], None]]]) -> None:
        with self._lock:
            counts, self._counts = self._counts, Counter()
        if not some and not counts:
            return
        reports = [arrived for arrived, _ in some if arrived is not None]
        try:
            kept = iter(self._records.take(reports, counts, trial=len(reports) < len(some)))
            outcomes = [KEPT if arrived is None else next(kept) for arrived, _ in some]
        except (SQLAlchemyError, StoreError):  # a full disk, another place: nothing was kept, devices come again
            outcomes = [FAILED] * len(some)
        for (_, tell), outcome in zip(some, outcomes, strict=True):
            tell(outcome)
        if NEW in outcomes:
            self._after()
