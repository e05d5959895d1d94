"""Reading the options that a model and its fits take from the user."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.errors import OptionError, UnsupportedArgumentError, choose, shown

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["progress_bar", "read_rows", "read_seed", "read_start", "read_threads", "refuse_unknown"]

MOST_ROWS: Final = 10**15
LONG: Final = 200_000
"""People from whom on threads are used by default."""

MOST_DEFAULT_THREADS: Final = 4


def refuse_unknown(where: str, unknown: Mapping[str, Any], known: Sequence[str]) -> None:
    """Refuse options that don't exist, with the nearest one that does.

    Raises
    ------
    UnsupportedArgumentError
        If there is any.
    """
    for name in unknown:
        if name in {"cov_type", "cov_kwds", "use_t"}:
            raise UnsupportedArgumentError(
                f"{where}() has no {name!r}: standard errors come from the inference method; choose it with inference=."
            )
        try:
            choose(f"{where}() option", name, known)
        except OptionError as e:
            raise UnsupportedArgumentError(str(e)) from None


def read_rows(rows: Any) -> int | None:
    """How many people are said to come; None if that was not said.

    Raises
    ------
    OptionError
        If it is no whole number of people.
    """
    if rows is None:
        return None
    if isinstance(rows, bool) or not isinstance(rows, Integral) or not 1 <= int(rows) <= MOST_ROWS:
        raise OptionError(f"rows={shown(rows)} must be a whole number of people, 1 or more.")
    return int(rows)


def read_seed(seed: Any) -> int | None:
    """Seed of reproducible noise; None for private noise.

    Raises
    ------
    OptionError
        If it is no whole number, or too large.
    """
    if seed is None:
        return None
    if isinstance(seed, bool) or not isinstance(seed, Integral) or not 0 <= int(seed) < 2**64:
        raise OptionError(
            f"seed={shown(seed)} must be a whole number, 0 or more and below 2**64 (or None for private noise)."
        )
    return int(seed)


def read_start(start_params: Any, names: Sequence[str]) -> Array | None:
    """Coefficients to start from, user's units, shape (p,); None if none were given.

    Raises
    ------
    OptionError
        If they are not one finite number for each of `names`.
    """
    if start_params is None:
        return None
    if isinstance(start_params, Mapping):
        lacking = [n for n in names if n not in start_params]
        if not lacking and len(start_params) > len(names):
            raise OptionError(f"start_params has names that are no coefficient; it needs {', '.join(names)}.")
        if lacking:
            raise OptionError(f"start_params lacks {lacking[0]!r}; it needs {', '.join(names)}.")
        start_params = [start_params[n] for n in names]
    try:
        values = np.asarray(start_params, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise OptionError(f"start_params must be numbers, one for each of {', '.join(names)}.") from None
    if values.shape == (len(names),) and not np.isfinite(values).all():
        raise OptionError(f"start_params has a NaN or infinite number; it needs a finite one for {', '.join(names)}.")
    if values.shape != (len(names),):
        raise OptionError(
            f"start_params must be {len(names)} finite numbers, one for each of {', '.join(names)}; "
            f"got shape {values.shape}."
        )
    return values


def read_threads(threads: Any, lanes: int, rows: int | None) -> int:
    """Threads of a fit: as asked, or as many as pay; at most one for each lane."""
    if threads is not None:
        return min(int(threads), lanes)
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return min(usable, MOST_DEFAULT_THREADS, lanes) if rows is not None and rows >= LONG else 1


def progress_bar(total: int | None, progress: bool | None) -> Any:
    """Make a bar; by default it shows on fits of more than a second at a terminal."""
    from tqdm.auto import tqdm

    quiet = {None: None, True: False, False: True}[progress]
    # disable=None: silent when stderr is not a terminal
    return tqdm(
        total=total, unit=" people", unit_scale=True, desc="privreg", disable=quiet, delay=0.0 if progress else 1.0
    )
