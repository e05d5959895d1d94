"""Types of arrays, for annotations; and places in them."""

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Ints = NDArray[np.int64]
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]


@cache
def triangle(size: int) -> tuple[Ints, Ints]:
    """Rows and columns of a lower triangle, as `numpy.tril_indices`, which makes them anew for each of many reports."""
    row, col = np.tril_indices(size)
    row.flags.writeable = col.flags.writeable = False
    return row, col
