"""Functions that their author declares to work row by row, so that a formula may call them: ``pr.rowwise``."""

import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Flags
from privreg.errors import FormulaError, PrivacyLeakError

PIECE: Final = 4096  # Rows that a marked function is called with at most
_SILENT: Final = threading.RLock()
"""Lock held while a thread has silenced warnings; reentrant, as a marked function may predict."""


@dataclass(frozen=True)
class Rowwise:
    """A function its author declares to work row by row; checked on public probe rows.

    It is called with NumPy arrays of `PIECE` rows, and of the powers of two below for what is left, which are the
    lengths it was checked with; it must return an array of the same length. It pickles if `function` does.
    """

    function: Callable[..., Any]
    name: str

    def __call__(self, *args: Any) -> Any:
        """Apply the function to arrays, piece by piece; a declared factor arrives as the array of its levels.
        Raises FormulaError if the arrays differ in length; PrivacyLeakError if the function doesn't give one value, or
        one row of values, for each row.
        """
        given: list[Any] = [a if isinstance(a, int | float) else np.asarray(a) for a in args]
        lengths = {len(a) for a in given if np.ndim(a)}
        if len(lengths) > 1:
            raise FormulaError(f"{self.name}() was called with arrays of different lengths; give one value a row.")
        if not any(lengths):
            return self.function(*given)
        parts: list[Any] = []
        for piece in _pieces(lengths.pop()):
            # a copy: a function may hand out the same array every time
            part = np.array(self.function(*_rows(given, piece)))
            size = piece.stop - piece.start
            if not part.ndim or len(part) != size or part.shape[1:] != (parts or [part])[0].shape[1:]:
                raise PrivacyLeakError(
                    f"{self.name}() is not row by row: it must return one value, or one row of as many values, for "
                    "each row of its arrays."
                )
            parts.append(part)
        return np.concatenate(parts)

    def of_records(self, args: Sequence[Any], n: int, like: NDArray[Any]) -> tuple[NDArray[Any], Flags]:
        """Values for `n` records, and for which of them there is none: a function may fail on a record's values.

        Then that record alone must suffer, so the records of its piece are computed one by one. `like` is what the
        function gave for public rows: its type, and its shape but for their number.
        """
        out, failed = np.zeros((n, *like.shape[1:]), dtype=like.dtype), np.zeros(n, dtype=np.bool_)

        def fill(rows: slice) -> None:
            made = np.asarray(self(*_rows(args, rows)))
            out[rows] = made.astype(out.dtype, casting="same_kind").reshape(out[rows].shape)

        # what warns would reveal a value; warnings are silenced for all threads, so one after the other
        with _SILENT, np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for piece in _pieces(n):
                if _fails(fill, piece):
                    for k in range(piece.start, piece.stop):
                        failed[k] = _fails(fill, slice(k, k + 1))
        return out, failed


def _pieces(n: int) -> Iterator[slice]:
    """Slices of `n` rows in the lengths that functions are checked with."""
    at = 0
    while at < n:
        size = PIECE if n - at >= PIECE else 1 << ((n - at).bit_length() - 1)
        yield slice(at, at + size)
        at += size


def _rows(args: Sequence[Any], rows: slice) -> Iterator[Any]:
    """Arguments at some rows; a number is the same for all."""
    return (a[rows] if np.ndim(a) else a for a in args)


def _fails(fill: Callable[[slice], None], rows: slice) -> bool:
    """True if a function raises anything for some rows; the text of its exception could hold data."""
    try:
        fill(rows)
    except KeyboardInterrupt:  # the user's, unless it comes again
        try:
            fill(rows)
        except BaseException:
            return True
        raise
    except BaseException:
        return True
    return False


def rowwise(function: Callable[..., Any]) -> Rowwise:
    """Mark a function as row by row, so that a formula may call it.

    It is called with at most 4096 rows at a time, in lengths that are powers of two. With each of them it is checked on
    public rows before data are read, and twice on the same rows; a function that keeps count of its calls, or waits for
    certain values, may pass all the same: that it doesn't is the author's word.

    Parameters
    ----------
    function : callable
        Takes NumPy arrays of equal length, returns an array of that length (or one row of several
        numbers for each). Its value for a row may depend on that row only, and on nothing kept from other calls.

    Examples
    --------
    >>> import numpy as np
    >>> ramp = rowwise(lambda x: np.maximum(x - 30, 0))
    >>> ramp(np.array([20.0, 40.0]))
    array([ 0., 10.])
    """
    if isinstance(function, Rowwise):
        return function
    if not callable(function):
        raise FormulaError(f"pr.rowwise takes a function, got {type(function).__name__}.")
    return Rowwise(function, str(getattr(function, "__name__", type(function).__name__)))
