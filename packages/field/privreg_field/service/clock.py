"""The time of a study. A clock that leaps isn't believed at once: a state that is published stays for good."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final

LEAP: Final = 60.0  # Seconds by which the clock may be put forward or back at once without having leapt

STANDS: Final = 3600.0
"""Seconds for which a leap must stand to be believed, and a clock must go evenly before anything ends by it."""


def steady() -> float:
    """Seconds of a clock that nobody puts; where there is one, it goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """Seconds since 1970 UTC, without leaps: by `wall`, the machine's, and `even`, a clock that never leaps."""

    def __init__(self, wall: Callable[[], float] = time.time, even: Callable[[], float] = steady) -> None:
        self._wall, self.even, self._lock = wall, even, threading.Lock()
        self._since = even()  # From when on the two go alike
        self._ahead = wall() - self._since
        self._leap: tuple[float, float] | None = None  # When it leapt, and how far ahead it is since

    def __call__(self) -> float:
        """Seconds since 1970 UTC, as far as they are believed."""
        with self._lock:
            now = self.even()
            ahead = self._wall() - now
            if abs(ahead - self._ahead) <= LEAP:
                self._ahead, self._leap = ahead, None
            elif now - self._since < STANDS:  # begun with a wrong clock: nothing has ended by it
                self._ahead, self._since = ahead, now
            elif self._leap is None or abs(ahead - self._leap[1]) > LEAP:
                self._leap = now, ahead
            elif now - self._leap[0] >= STANDS:
                self._ahead, self._leap = ahead, None
            return now + self._ahead

    @property
    def sure(self) -> bool:
        """Whether it has gone evenly for so long that what can't be undone may follow from it."""
        self()
        return self._leap is None and self.even() - self._since >= STANDS
