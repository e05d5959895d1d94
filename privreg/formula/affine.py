"""Maps of whole batches of rows, in place and row by row, so that how rows are cut can't change a bit. Compiled."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["affine_rows", "linear_rows"]


@njit(cache=True, nogil=True, error_model="numpy")
def affine_rows(x: Array, centre: Array, scale: Array) -> None:
    """x[:, j] ← (x[:, j] − centre[j]) / scale[j], in place."""
    n, p = x.shape
    for i in range(n):
        for j in range(p):
            x[i, j] = (x[i, j] - centre[j]) / scale[j]


@njit(cache=True, nogil=True, error_model="numpy")
def linear_rows(x: Array, matrix_t: Array) -> None:
    """X ← x @ matrix_t in place, each row on its own so that the split into chunks can't change a bit."""
    n, p = x.shape
    out = np.empty(p)
    for i in range(n):
        out[:] = 0.0
        for j in range(p):
            a = x[i, j]
            for m in range(p):
                out[m] += a * matrix_t[j, m]
        for m in range(p):
            x[i, m] = out[m]
