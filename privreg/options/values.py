"""Reading options that are more than one number or name."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import OptionError

LONG: Final = 200_000  # People from whom on threads are used by default
MOST_DEFAULT_THREADS: Final = 4


def refuse_arrays(**columns: Any) -> None:
    """Refuse arrays, and the logarithm of a column, where a formula wants the names of columns."""
    for option, name in columns.items():
        if name is not None and not isinstance(name, str):
            raise OptionError(
                f"{option} must be the name of a column when the model is given by a formula, as in {option}='years', "
                f"got {type(name).__name__}; an array goes with arrays, PrivateOnlineRegression(endog, exog, "
                f"{option}=...)."
            )
        column = None if name is None else logged(name)
        if column is not None:
            raise OptionError(
                f"{option}={name!r} must be the name of a column; exposure={column!r} adds the logarithm of it."
            )


def logged(code: str) -> str | None:
    """The column that an expression takes the logarithm of; None if it is anything else.

    Examples
    --------
    >>> logged("np.log(years)"), logged("years")
    ('years', None)
    """
    found = _LOG.fullmatch(code)
    return None if found is None else found[1]


_LOG: Final = re.compile(r"\s*(?:\w+\.)?(?:log|ln)\(\s*(\w+)\s*\)\s*")
FARTHEST: Final = 1e100  # Size of a coefficient to begin with, at most: squares are to be numbers


def read_start(start_params: Any, names: Sequence[str]) -> Array | None:
    """Coefficients to start from, user's units, shape (p,); None if none were given.
    Raises OptionError if they are not one finite number for each of `names`.
    """
    if start_params is None:
        return None
    if isinstance(start_params, Mapping):
        lacking = [n for n in names if n not in start_params]
        if lacking or len(start_params) > len(names):
            wrong = f"lacks {lacking[0]!r}" if lacking else "has names that are no coefficient"
            raise OptionError(f"start_params {wrong}; it needs {', '.join(names)}.")
        start_params = [start_params[n] for n in names]
    try:
        values = np.asarray(start_params, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"start_params must be numbers, one for each of {', '.join(names)}.") from None
    if values.shape == (len(names),) and not (np.abs(values) < FARTHEST).all():
        raise OptionError(
            f"start_params has a number that is NaN, infinite or above {FARTHEST:g}; it needs a finite one for "
            f"{', '.join(names)}."
        )
    if values.shape != (len(names),):
        raise OptionError(
            f"start_params must be {len(names)} finite numbers, one for each of {', '.join(names)}; "
            f"got shape {values.shape}."
        )
    return values


def read_threads(threads: Any, rows: int | None, *, parallel: bool) -> int:
    """Threads of a fit: as asked, or as many as pay; one if more are of no use."""
    if not parallel:
        return 1
    if threads is not None:
        return int(threads)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_DEFAULT_THREADS) if rows is not None and rows >= LONG else 1
