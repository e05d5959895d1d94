"""Maps of whole batches of rows, in place and number by number, so that how rows are cut can't change a bit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["affine_rows", "linear_rows"]


def affine_rows(x: Array, centre: Array, scale: Array) -> None:
    """x[:, j] ← (x[:, j] − centre[j]) / scale[j], in place."""
    with np.errstate(all="ignore"):  # a warning would tell of one value
        np.subtract(x, centre, out=x)
        np.divide(x, scale, out=x)


def linear_rows(x: Array, matrix_t: Array) -> None:
    """X ← x @ matrix_t in place, column by column: a matrix product's bits depend on how many rows it is given."""
    with np.errstate(all="ignore"):
        whole = [np.zeros(len(x)) for _ in matrix_t]
        for j, m in np.argwhere(matrix_t != 0.0):
            whole[m] += x[:, j] * matrix_t[j, m]
    for m, column in enumerate(whole):
        x[:, m] = column
