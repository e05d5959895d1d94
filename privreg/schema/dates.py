"""Dates as numbers: days since 1970-01-01, as R's as.numeric() of a Date has them. Times of day are fractions of a day.

Times with a zone count in UTC, those without one as they are written.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final

import numpy as np

EPOCH_TEXT: Final = "1970-01-01"  # Day 0
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = timedelta(days=1)
_ISO: Final = re.compile(r"\d{4}-\d\d-\d\d([T ].*)?", re.DOTALL)


def day_of(value: Any) -> float | None:
    """Days since 1970-01-01 of a date, a time or an ISO text; None if it is none, or no time at all (NaT)."""
    if isinstance(value, np.datetime64):
        out = float(days_of_times(np.array([value]))[0])
        return None if math.isnan(out) else out
    if isinstance(value, str):
        text = value.strip()
        if not _ISO.fullmatch(text):
            return None
        try:
            value = datetime.fromisoformat(text)
        except ValueError:  # a 30th of February, say
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        return float(value.toordinal() - _EPOCH.toordinal())
    if not isinstance(value, datetime) or value != value:  # not a time is a time for Python
        return None
    try:
        plain = value if value.tzinfo is None else value.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # another day in UTC, before the first or after the last
        return None
    return float((plain - _EPOCH) / _DAY)


def days_of_times(values: np.ndarray) -> np.ndarray:
    """Days since 1970-01-01 of an array of NumPy's times; NaN where there is none."""
    unit = np.datetime_data(values.dtype)
    if unit[0] in {"Y", "M", "W", "generic"} or unit[1] != 1:
        values, unit = values.astype("datetime64[D]"), ("D", 1)
    whole = values.astype(values.dtype.newbyteorder("=")).view(np.int64)
    out = whole / float(PER_DAY[unit[0]])
    out[np.isnat(values)] = np.nan
    return np.asarray(out)


PER_DAY: Final = {
    **{"D": 1, "h": 24, "m": 1440, "s": 86_400, "ms": 86_400 * 10**3, "us": 86_400 * 10**6},
    **{"ns": 86_400 * 10**9, "ps": 86_400 * 10**12, "fs": 86_400 * 10**15, "as": 86_400 * 10**18},
}


def iso(day: float) -> str:
    """The day of a number as an ISO text, with the time if it isn't midnight; a number that no date has as it is."""
    try:
        time = _EPOCH + timedelta(days=day)
    except OverflowError:
        return f"{day:g}"
    return time.date().isoformat() if time == datetime(time.year, time.month, time.day) else time.isoformat()
