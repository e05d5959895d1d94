"""Maps to the user's coefficients that mix into one of them only, for which random scaling needs no whole matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.collector.inference.methods import WIDE


class Map(NamedTuple):
    """A linear map to the user's coefficients that mixes into one of them only."""

    places: NDArray[np.int64]  # Places of the user's coefficients, by internal coefficient; shape (d,)
    own: Array  # Factors between these two; shape (d,)
    row: Array  # Row of the map for the coefficient at ``places[0]``, into which all are mixed; shape (d,)

    def __call__(self, moves: Array) -> Array:
        """Moves of the coefficients outside, shape (m, d)."""
        out = np.empty_like(moves)
        out[:, self.places] = moves * self.own
        out[:, self.places[0]] = moves @ self.row
        return out


def mapped(linear: Array) -> Map | None:
    """The map as one that mixes into one coefficient only, in whatever order; None if it is none, or not wide."""
    d = len(linear)
    if d <= WIDE:
        return None
    at = places(linear)
    others = np.count_nonzero(linear) - np.count_nonzero(linear[at[0]])
    if others != d - 1 or len(np.unique(at)) < d:
        return None
    return Map(at, linear[at, np.arange(d)], linear[at[0]].copy())


def is_diagonal(linear: Array) -> bool:
    """True if the map to a wide design's coefficients, shape (d, d), mixes them in its first row only.

    Then the diagonal of random scaling is known from sums of the d paths and of the intercept's.
    """
    off = linear[1:] * (1.0 - np.eye(*linear.shape)[1:])
    return len(linear) > WIDE and not off.any()


def places(linear: Array) -> NDArray[np.int64]:
    """Places of the user's coefficients, by internal coefficient, shape (d,); `linear` mixes into the first's only."""
    off = np.array(linear)
    first = int(np.flatnonzero(linear[:, 0])[0])
    off[first] = 0.0
    off[first, 0] = 1.0
    return np.asarray(np.argmax(off != 0.0, axis=0))
