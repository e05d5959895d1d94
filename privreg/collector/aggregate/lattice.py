"""Reports as whole numbers, so that shares of them add up exactly, and the noise that a collector adds to its sum."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cache
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate.plan import Plan, State
from privreg.protocol import lattice
from privreg.protocol.sums import form_of


class Steps(NamedTuple):
    """A role's reports in whole numbers."""

    form: str  # One of `protocol.lattice.SUM_FORMS`
    numbers: int
    radius: int
    bits: int  # Each collector adds normals of the sd 2^bits, rounded

    @property
    def unit(self) -> float:
        """Whole numbers that stand for a report's norm of 1."""
        return lattice.unit_of_sums(self.form, self.numbers, self.radius)

    @property
    def sd(self) -> float:
        """Sd of one collector's noise in a number of its sum."""
        return 2.0**self.bits

    def whole(self, vectors: Array) -> Ints:
        """Reports of norm 1 at most in whole numbers, shape (m, numbers); squares of each sum to radius² at most."""
        return np.asarray(np.rint(vectors * self.unit), dtype=np.int64)


@cache
def _steps(form: str, numbers: int, mu: float, square: Fraction) -> Steps:
    budget = lattice.fraction_of(mu)
    bits = lattice.bits_of_sums(budget)
    return Steps(form, numbers, lattice.radius(form, numbers, budget, bits, square), bits)


def steps(plan: Plan, asked: State | str, mu: float = 0.0) -> Steps:
    """Whole numbers of reports to a state, or to any of a role and budget `mu`, 0: the plan's; the largest radius."""
    role, mu = (asked, mu) if isinstance(asked, str) else (asked.role, asked.mu)
    square = plan.distance2(role, None if isinstance(asked, str) else asked)
    return _steps(form_of(role), plan.width(role), mu or plan.mu, square)


def sd(plan: Plan, asked: State | str, mu: float = 0.0) -> float:
    """Noise sd of a number of a round's sum, for reports of norm 1: that of all who add noise."""
    one = steps(plan, asked, mu)
    return math.sqrt(plan.noise.adders) * one.sd / one.unit


def noised(plan: Plan, state: State, exact: Ints, normals: tuple[Array, ...]) -> Ints:
    """Add rounded noise, modulo 2⁶⁴, to the exact sum, shape (plan.width(state.role),): the public sum.

    `normals` are standard normals of that shape of each who adds noise, drawn for this sum alone.
    """
    for drawn in normals:
        exact = with_noise(exact, steps(plan, state).sd, drawn)
    return exact


def with_noise(exact: Ints, sd: float, drawn: Array) -> Ints:
    """Sums with the rounded noise of one collector, modulo 2⁶⁴; `drawn` are standard normals, used here alone."""
    with np.errstate(over="ignore"):
        return np.asarray(exact + np.rint(sd * drawn).astype(np.int64))
