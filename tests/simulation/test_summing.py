"""Compiled sums of reports are, to the bit, those of the reports written down by NumPy, whatever the rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from privreg.collector.aggregate import report
from privreg.collector.aggregate.plan import Plan, State
from privreg.simulation import aggregate
from privreg.simulation.streaming.encoding import Block
from tests.collector.aggregate.test_aggregate import FAMILIES, ROLES, plan_for, state_for
from tests.collector.aggregate.test_persons import SINGLE, of_persons

MORE = ["directions", "lengths"]
ENDS = np.array([0.0, -0.0, 1e-300, 1e-8, 1.0, -1.0, 1e8, -1e200, 1e308, np.inf, -np.inf, np.nan])
N = 1_000


def hostile(plan: Plan, rng: np.random.Generator) -> Block:
    """Ordinary rows, and some that nobody expects."""
    many = (N,) if plan.persons is None else (N, plan.persons.rows)
    x, y = 2.0 * rng.standard_normal((*many, plan.d)), rng.uniform(plan.y_low, plan.y_high, many)
    x[:300], y[:300] = rng.choice(ENDS, x[:300].shape), rng.choice([*ENDS, plan.y_low, plan.y_high], y[:300].shape)
    weight = None if plan.persons is None else rng.choice([0.0, 0.3, 1.0, np.nan], N)
    return Block(y, x, np.where(rng.random(many) < 0.1, 0.5, 0.0), weight, clamped=rng.random((N, plan.bounded)) < 0.5)


def written(plan: Plan, state: State, rows: Block) -> np.ndarray:
    """Reports in whole numbers, one a row."""
    made = report.vectors(plan, state, *rows.reported)
    return report.steps(plan, state).whole(made)


@pytest.mark.some
@pytest.mark.parametrize(
    ("name", "role", "persons"),
    [*((*pair, False) for pair in itertools.product(FAMILIES, [*ROLES, *MORE])),
     *((*pair, True) for pair in itertools.product(SINGLE, ROLES)), ("huber", "measures", False)],
)  # fmt: skip
def test_sums_are_those_of_reports_one_by_one(name: str, role: str, persons: bool) -> None:
    rng = np.random.default_rng(6)
    plan = of_persons(name, bounded=3) if persons else plan_for(name, bounded=3)
    for _ in range(3):
        state, rows, group = state_for(plan, role, rng), hostile(plan, rng), rng.integers(0, 4, N)
        each = written(plan, state, rows)
        with np.errstate(all="raise"):  # a warning would tell of one record
            alone, by_group = aggregate.total(plan, state, rows), aggregate.total(plan, state, rows, group)
            near = aggregate.rounded(plan, state, rows)
        np.testing.assert_array_equal(alone, each.sum(axis=0))
        np.testing.assert_array_equal(by_group, [each[group == g].sum(axis=0) for g in range(4)])
        assert np.abs(near - alone).max() <= 0.5 * N + 1.0  # roundings, of which a curator has one
