"""Learning where columns lie whose scale nobody declared, from privatised reports. Collector side.

A search on the log scale from 0 ± 1. A spread that is far too small or too large shows in almost everybody's report;
a batch then moves its logarithm by 0.64 up or 0.30 down, apart from noise. In simulations with the least people (16 a
batch at μ = 1) it settled for sds of 1e-6 to 1e20 about 0, and for means up to 1e4 sd away from 0. Smaller or larger
sds (1e-10, 1e30) and means much farther away (1e9 with an sd of 1) need more batches than there are: the search ends
before it settles, and the results' notes say so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.protocol.codes import OUTSIDE

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["BATCHES", "TARGET", "Location", "begin", "centre_and_scale", "learn", "outside"]

TARGET: Final = OUTSIDE
"""P(abs z > 1) for a standard normal z, so that the spread found is the sd."""

SLOPE: Final = 0.483941
"""−d/d log t of P(abs z > t) at t = 1."""

BATCHES: Final = 130
SEARCH: Final = 100
"""Batches with a constant gain, before the gain falls as 1/k and the path is averaged."""

PEOPLE: Final = 16
"""People a batch for each column at μ = 1: a batch's noise sd is then 0.35."""

GAIN: Final = 0.45


class Location(NamedTuple):
    """The search so far, for m columns."""

    # Current guesses; shape (m,)
    centre: Array
    log_spread: Array
    # Sums over the averaged part of the path: guesses, and shares outside centre ± spread; shape (m,)
    centre_sum: Array
    log_sum: Array
    outside: Array
    batches: int


def begin(m: int) -> Location:
    """Guess 0 ± 1."""
    zero = np.zeros(m)
    return Location(zero, zero.copy(), zero.copy(), zero.copy(), zero.copy(), 0)


def learn(state: Location, mean: Array) -> Location:
    """Take in the mean report of one batch, shape (2m,): shares above the centre, and outside centre ± spread."""
    k = state.batches
    gain = GAIN if k < SEARCH else GAIN / (1.0 + GAIN * (k - SEARCH))
    spread = np.exp(state.log_spread)
    centre = state.centre + spread * np.clip(2.5 * gain * (mean[0::2] - 0.5), -1.0, 1.0)
    move = np.clip(gain * (mean[1::2] - TARGET) / SLOPE, -1.0, 1.5)
    log_spread = np.clip(state.log_spread + move, -460.0, 460.0)
    late = 1.0 if k >= SEARCH else 0.0
    return Location(
        centre,
        log_spread,
        state.centre_sum + late * centre,
        state.log_sum + late * log_spread,
        state.outside + late * mean[1::2],
        k + 1,
    )


def centre_and_scale(state: Location) -> tuple[Array, Array]:
    """Location and spread of each column, averaged over the last part of the search."""
    late = state.batches - SEARCH
    if late <= 0:
        return state.centre, np.exp(state.log_spread)
    return state.centre_sum / late, np.exp(state.log_sum / late)


def outside(state: Location, people: int) -> tuple[Array, int]:
    """Share outside centre ± spread over the last part of the search, and how many of its `people` that took."""
    late = state.batches - SEARCH
    return state.outside / late, people // BATCHES * late
