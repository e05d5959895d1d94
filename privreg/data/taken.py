"""Rows at some places of columns that are held in memory, taken by whoever encodes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privreg.data.cells import Floats


class Taken(Mapping[str, Any]):
    """Rows at some places of columns; each column is taken when it is asked for, by whoever encodes it.

    Parameters
    ----------
    columns : mapping of str to array
    at : ndarray of int
        Places of the rows, all inside.
    """

    def __init__(self, columns: Mapping[str, Any], at: NDArray[np.int64]) -> None:
        self.columns, self.at = columns, at

    def __getitem__(self, name: str) -> Any:
        return taken(self.columns[name], self.at)

    def __contains__(self, name: object) -> bool:
        return name in self.columns  # without taking it

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    def __len__(self) -> int:
        return len(self.columns)

    def doubles(self, names: Iterable[str]) -> tuple[list[str], Floats]:
        """Which of the columns are plain arrays of doubles, and their rows, shape (columns, n)."""
        some = [name for name in names if _is_plain(self.columns.get(name))]
        out = np.empty((len(some), len(self.at)))
        for name, to in zip(some, out, strict=True):
            self.columns[name].take(self.at, out=to, mode="clip")  # all are inside; by default, NumPy makes a copy
        return some, out


def _is_plain(values: Any) -> bool:
    return isinstance(values, np.ndarray) and values.dtype == np.float64 and values.ndim == 1 and values.flags.carray


def taken(values: Any, at: NDArray[np.int64]) -> Any:
    """Rows of an array or a column at some places: of an array that isn't contiguous `take` would first copy all."""
    if isinstance(values, np.ndarray):
        return values.take(at, axis=0) if values.flags.c_contiguous else values[at]
    return values.take(at)
