"""Maps of whole batches of rows, in place and number by number, so that how rows are cut can't change a bit."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from privreg.base.arrays import Array

LINE: Final = 1024  # Numbers in a line, about
CACHED: Final = 1 << 15  # Numbers that several operations follow each other on: 256 kB


def affine_rows(x: Array, centre: Array, scale: Array) -> None:
    """x[:, j] ← (x[:, j] − centre[j]) / scale[j], in place."""
    if not centre.any() and (scale == 1.0).all():
        return
    with np.errstate(all="ignore"):  # a warning would reveal a value
        for part, (middle, by) in _together(x, centre, scale):
            np.subtract(part, middle, out=part)
            np.divide(part, by, out=part)


def _together(x: Array, *columns: Array) -> Iterator[tuple[Array, list[Array]]]:
    """Rows, shape (n, p), many in a line with as many copies of numbers by column: NumPy takes lines one by one."""
    n, p = x.shape
    k = max(LINE // max(p, 1), 1)
    whole = n // k * k
    if whole and x.flags.c_contiguous:
        lines, repeated = x[:whole].reshape(-1, k * p), [np.tile(c, k) for c in columns]
        each = max(CACHED // (k * p), 1)
        for a in range(0, len(lines), each):
            yield lines[a : a + each], repeated
        x = x[whole:]
    if len(x):
        yield x, list(columns)


def linear_rows(x: Array, matrix_t: Array) -> None:
    """X ← x @ matrix_t in place, column by column: a matrix product's bits depend on how many rows it is given."""
    with np.errstate(all="ignore"):
        whole = [np.zeros(len(x)) for _ in matrix_t]
        for j, m in np.argwhere(matrix_t != 0.0):
            whole[m] += x[:, j] * matrix_t[j, m]
    for m, column in enumerate(whole):
        x[:, m] = column
