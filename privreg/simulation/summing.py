"""Compiled: reports in whole numbers, added up without being written down; by NumPy in `report.vectors`."""

from typing import Any, Final

import numpy as np
from numba import njit

from privreg.base.arrays import Array, Ints

TOGETHER: Final = 256  # Rows of which all numbers are made, so that they stay in the processor's cache


@njit(cache=True, nogil=True, error_model="numpy")
def _whole(number: float, unit: float) -> Any:
    """A report's number rounded to multiples of 1/`unit`; below 2³⁰, so that a processor rounds several at a time."""
    return np.int64(np.int32(np.rint((number if abs(number) < np.inf else 0.0) * unit)))


@njit(cache=True, nogil=True, error_model="numpy")
def add(columns: Array, by: Array, product: bool, scale: Array, unit: float, group: Ints, at: int, sums: Ints) -> int:
    """Add a block of m reports, its numbers times their `scale` and `unit` and rounded, to `sums` from column `at` on.

    Shapes: columns (k, m), by, scale and group (m,), sums (groups, numbers). What is no number counts as 0.
    Returns the column after the block.
    """
    k, many = columns.shape
    ones = np.ones(many)
    for a in range(0, many, TOGETHER):
        b = min(a + TOGETHER, many)
        c, times, scales, groups = at, by[a:b], scale[a:b], group[a:b]
        for i in range(k):
            for j in range(i, k if product else i + 1):
                u, v, w = columns[i, a:b], columns[j, a:b] if product else ones[a:b], 2.0**0.5 if j > i else 1.0
                if len(sums) == 1:
                    one = 0
                    for r in range(b - a):
                        one += _whole(u[r] * v[r] * w * times[r] * scales[r], unit)
                    sums[0, c] += one
                else:
                    for r in range(b - a):
                        sums[groups[r], c] += _whole(u[r] * v[r] * w * times[r] * scales[r], unit)
                c += 1
    return int(at + (k * (k + 1) // 2 if product else k))
