"""Work of the server on reports: a weighted mean a round, and the model after all of them.

Sees reports and public numbers only; everything it computes is free post-processing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import DataError, StreamError
from privreg.federated.plan import Plan


class State(NamedTuple):
    """A fit in progress. Public."""

    theta: Array  # Model to be sent next, internal units; shape (size,)
    path: tuple[Array, ...]  # The model at the start and after each round; shape (size,)
    usable: float = 0.0  # Sum over rounds of what reports say of usable records, on average over silos


def begin(plan: Plan) -> State:
    """The zero model."""
    zero = np.zeros(plan.size)
    return State(zero, (zero,))


def step(plan: Plan, state: State, reports: Sequence[Array]) -> State:
    """Move by the weighted mean of one report of each silo, in the silos' order.
    Raises StreamError if the rounds are over, or reports are missing; DataError if a report is not of this plan.
    """
    if len(state.path) > plan.rounds:
        raise StreamError(f"all {plan.rounds} rounds are done; start another fit, which spends anew.")
    if len(reports) != plan.silos:
        raise StreamError(f"{len(reports)} of {plan.silos} silos reported; a round needs all of them.")
    for number, report in enumerate(reports, 1):
        if np.shape(report) != (plan.mechanism.size,) or not np.isfinite(report).all():
            raise DataError(f"the report of silo {number} is not {plan.mechanism.size} finite numbers.")
    mean = plan.shares @ np.asarray(reports)
    theta = state.theta + mean[: plan.size]
    return State(theta, (*state.path, theta), state.usable + float(mean[plan.size :].sum()))


def half_mean(path: Array) -> Array:
    """Mean of the models of the second half of the rounds, shape (size,): steadier than the last one."""
    rounds = len(path) - 1
    return np.asarray(path[1 + rounds // 2 :].mean(axis=0))
