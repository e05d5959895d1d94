"""A fit with two collectors in one process: devices' reports as whole numbers, sums modulo 2⁶⁴, each collector's noise.

A device shares its report out: a uniform share to one collector, the report less this share to the other, modulo 2⁶⁴.
The sums of both shares add up to the sum of reports exactly, so shares need not be drawn to play a fit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector.aggregate import report, rounds
from privreg.collector.aggregate.plan import Plan, Progress, State, rules_of
from privreg.errors import UnsupportedArgumentError
from privreg.fits.plan import order_of
from privreg.privacy.mechanisms import sum_sensitivity
from privreg.privacy.noise import derived_key, normals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.arrays import Array, Ints
    from privreg.formula.spec import ModelSpec

RADIUS: Final = 1 << 20
"""A report of norm 1, in whole numbers."""

CHUNK: Final = 1 << 15
"""Rows whose reports are made together."""


def plan_of(spec: ModelSpec, rows: int) -> tuple[Plan, NDArray[np.intp], Array]:
    """What a fit with two collectors fixes before its first record, all of it public.

    Returns
    -------
    Plan
    ndarray of int, shape (p,)
        The order of columns inside: the constant goes first.
    ndarray, shape (p, p)
        Linear part of the map from internal to the user's coefficients, columns in that order.

    Raises
    ------
    UnsupportedArgumentError
        If the design has no constant or a column without public bounds, or the family has several predictors.
    """
    units, design = spec.units, spec.design
    if units.constant_column(design.probe) is None:
        raise UnsupportedArgumentError("two collectors need a model with an intercept; leave out '- 1' or '+ 0'.")
    if units.unscaled.any() or (units.y_unscaled and spec.family.of_residuals):
        raise UnsupportedArgumentError("two collectors need public bounds of every number; declare bounds=.")
    if spec.blocks > 1:
        raise UnsupportedArgumentError("two collectors fit one linear predictor; use trust='local' for several.")
    order, _ = order_of(spec, factors=False)
    inside = units.probe_inside(design.probe)[:, order]
    low, high = spec.response_limits
    plan = Plan(
        d=len(order),
        rows=rows,
        mu=spec.budget.mu,
        rules=rules_of(spec.family, low, high),
        y_low=low,
        y_high=high,
        dummies=units.gaps(design.probe)[order] > 0.0,
        lows=inside.min(axis=0),
        highs=inside.max(axis=0),
    )
    return plan, order, np.asarray(units.matrix[:, order])


def total(plan: Plan, state: State, y: Array, x: Array, offset: Array | None = None) -> Ints:
    """Sum of the devices' reports in whole numbers, modulo 2⁶⁴; shape (plan.width(state.role),).

    Each report's squares sum to RADIUS² at most: it is shortened by what rounding may add.
    """
    size = plan.width(state.role)
    out = np.zeros(size, dtype=np.int64)
    for a in range(0, len(y), CHUNK):
        here = slice(a, a + CHUNK)
        some = report.vectors(plan, state, y[here], x[here], None if offset is None else offset[here])
        out += np.rint(some * _unit(size)).astype(np.int64).sum(axis=0)
    return out


def _unit(size: int) -> float:
    """A report's norm of 1 in whole numbers: less than RADIUS by what rounding may add, and by 1 for floating point."""
    return RADIUS - 0.5 * math.sqrt(size) - 1.0


def noised(plan: Plan, role: str, exact: Ints, keys: tuple[bytes, bytes] | None) -> Array:
    """Add each collector's rounded noise, once, and return the public sum of reports of norm 1.

    Parameters
    ----------
    keys : (bytes, bytes) or None
        One of each collector, of this batch alone; None without privacy.
    """
    size = plan.width(role)
    with np.errstate(over="ignore"):  # sums are modulo 2⁶⁴
        for key in keys or ():
            sd = sum_sensitivity(float(RADIUS), size, squares=role == "moments") / plan.mu
            exact = exact + np.rint(sd * normals(key, size)).astype(np.int64)
    return np.asarray(exact / _unit(size))


def play(plan: Plan, y: Array, x: Array, key: bytes | None, offset: Array | None = None) -> Progress:
    """Play all rounds on rows, in order: devices, both collectors, and what the public makes of their sums.

    It has no front door and enters nothing in the ledger: for made-up rows only.
    """
    progress, at = rounds.begin(plan), 0
    while at < len(y):
        state = progress.state
        here = slice(at, at + min(rounds.people(plan, progress), len(y) - at))
        exact = total(plan, state, y[here], x[here], None if offset is None else offset[here])
        keys = None
        if key is not None:
            keys = (derived_key(key, f"A {state.number}"), derived_key(key, f"B {state.number}"))
        progress = rounds.advance(plan, progress, noised(plan, state.role, exact, keys), here.stop - at)
        at = here.stop
    return progress
