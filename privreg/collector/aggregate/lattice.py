"""Reports as whole numbers, so that shares of them add up exactly, and the noise that a collector adds to its sum."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.privacy.mechanisms import sum_sensitivity

if TYPE_CHECKING:
    from privreg.arrays import Array, Ints
    from privreg.collector.aggregate.plan import Plan

RADIUS: Final = 1 << 20
"""Radius of the ball of reports in whole numbers: squares of a report sum to its square at most."""


KINDS: Final = {"moments": {"squares": True}, "clamping": {"bits": True}}
"""What is known of reports by role, for their sensitivity."""


def unit(size: int) -> float:
    """A report's norm of 1 in whole numbers: less than RADIUS by what rounding may add, and by 1 for floating point."""
    return RADIUS - 0.5 * math.sqrt(size) - 1.0


def whole(vectors: Array) -> Ints:
    """Reports of norm 1 at most in whole numbers, shape (m, size); squares of each sum to RADIUS² at most."""
    return np.asarray(np.rint(vectors * unit(vectors.shape[1])), dtype=np.int64)


def collector_sd(plan: Plan, role: str) -> float:
    """Sd of the normal that each collector rounds and adds to each number of its sum."""
    return sum_sensitivity(float(RADIUS), plan.width(role), **KINDS.get(role, {})) / plan.mu


def noised(plan: Plan, role: str, exact: Ints, normals: tuple[Array, ...]) -> Ints:
    """Add each collector's rounded noise, modulo 2⁶⁴: the public sum.

    Parameters
    ----------
    plan : Plan
    role : str
    exact : ndarray of int, shape (plan.width(role),)
        Sum of the reports in whole numbers.
    normals : tuple of ndarray
        Standard normals of each collector, drawn for this sum alone; shape as `exact`.
    """
    for drawn in normals:
        exact = with_noise(exact, collector_sd(plan, role), drawn)
    return exact


def with_noise(exact: Ints, sd: float, drawn: Array) -> Ints:
    """Sums with the rounded noise of one collector, modulo 2⁶⁴; `drawn` are standard normals, used here alone."""
    with np.errstate(over="ignore"):
        return np.asarray(exact + np.rint(sd * drawn).astype(np.int64))
