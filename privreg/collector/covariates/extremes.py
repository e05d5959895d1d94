"""Largest length of a row's whitened covariates, by declared bounds and levels alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array

MOST: Final = 1 << 16  # Rows that are tried; of more the lengths of the rest are added
ROUNDING: Final = 1e-9  # Part by which rounding may make a row longer


class Extreme(NamedTuple):
    """Extreme rows of a set of columns that share no raw column with others, internal units; public."""

    # Candidates for the longest row, 0 in other columns: a length is convex in numbers on which columns depend
    # linearly; shape (m, d)
    rows: Array
    bends: tuple[Array, ...] = ()  # Second differences along numbers with curved columns; each of shape (·, d)


def longest(extremes: Sequence[Extreme], rows: Array) -> float:
    """B = sup ‖W x‖, W = `rows`, shape (d, d), for equation (45) of docs/estimator.md; 0 without `extremes`.

    Exact up to `MOST` combinations; beyond, the farthest of the rest are added. Between two values of a curve a row
    lies an eighth of a second difference from their chord, which is added.
    """
    if not extremes:
        return 0.0
    tried, more = np.zeros((1, len(rows))), 0.0
    for one in sorted(extremes, key=lambda e: len(e.rows)):
        z = one.rows @ rows.T
        more += sum(0.125 * float(np.linalg.norm(bend @ rows.T, axis=1).max()) for bend in one.bends)
        if len(tried) * len(z) <= MOST:
            tried = (tried[:, None] + z).reshape(-1, len(rows))
        else:
            middle = 0.5 * (z.min(axis=0) + z.max(axis=0))
            tried = tried + middle
            more += float(np.linalg.norm(z - middle, axis=1).max())
    return (float(np.linalg.norm(tried, axis=1).max()) + more) * (1.0 + ROUNDING)
