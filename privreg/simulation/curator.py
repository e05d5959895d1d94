"""A trusted curator's fit: rows are held, and in each round all of them answer; their sum has its noise once."""

from __future__ import annotations

import math
from functools import partial
from typing import Final

import numpy as np

from privreg.arrays import Array, Flags, Ints
from privreg.collector.aggregate import report
from privreg.collector.aggregate.lattice import steps
from privreg.collector.aggregate.plan import Plan, State
from privreg.errors import DataError
from privreg.inference.clusters import dealt, summed_groups
from privreg.protocol import lattice
from privreg.simulation.aggregate import AggregateRun
from privreg.simulation.devices import Block, cut, joined

ROWS: Final = 8_192
"""Rows that are added up in floating point before they are rounded: 2²⁶ roundings of 2⁻⁵³ of a report of 2²⁰ lattice
steps are 0.01 of a step, and `protocol.lattice.unit_of_sums` leaves a whole one."""

LEAST: Final = 28.0
"""Rows times μ/D^1.5 below which there is no fit: noise of second moments then has its edge at a fifth of a typical
eigenvalue if it costs an eighth of the budget, twice: Equation (33)."""


def total(plan: Plan, state: State, rows: Block) -> Ints:
    """Sum of at most `ROWS` reports in whole numbers, shape (plan.width(state.role),).

    Sums that differ in one record are as far apart as two reports, and half a lattice step more in each number, twice.
    """
    made, scale = report.factors(plan, state, rows.y, rows.x, rows.offset, rows.clamped, rows.weight)
    unit = steps(plan, state.role, state.mu).unit
    return np.asarray(np.rint(np.concatenate([one.total(scale) for one in made]) * unit), dtype=np.int64)


def least(d: int, mu: float) -> int:
    """Rows with which a fit of so many coefficients can begin."""
    return math.ceil(LEAST * (d + 1) ** 1.5 / mu)


def refuse_few(rows: int, d: int, mu: float) -> None:
    """Raise a `DataError` if there are too few rows, whose number is public."""
    if rows < (needed := least(d, mu)):
        raise DataError(
            f"{rows:,} rows are too few for {d} coefficients at mu = {mu:g}: {needed:,} or more are needed, a larger "
            "mu, or fewer terms."
        )


class CuratorRun(AggregateRun):
    """A fit in progress of rows that a curator holds. Rounds begin when all rows are there."""

    parallel: Final = False

    def _start(self) -> None:
        self.rows = list[Block]()
        super()._start()

    @property
    def people(self) -> int:
        """Records that are held, or were."""
        return self._held + self.noised

    @property
    def noised(self) -> int:
        """Records whose sums are published."""
        return self.batches[0].people if self.batches else 0

    def asks_clamping(self, _: int) -> bool:
        """Whether it is asked what bounds clamp, of all records or of none."""
        return self.history[0].state.role == "clamping"

    def advance(
        self,
        y: Array,
        x: Array,
        offset: Array | None = None,
        weight: Array | None = None,
        clamped: Flags | None = None,
        cluster: Ints | None = None,
    ) -> int:
        """Take in rows, in order; how many."""
        if cluster is not None and len(y):
            self.clustered += np.bincount(cluster, minlength=self.plan.clusters)
        self.rows.append(Block(y, np.ascontiguousarray(x), offset, weight, None, clamped, None, cluster))
        self._held += len(y)
        return len(y)

    def close(self) -> None:
        """Play all rounds, once. Each sum has its noise before anything is made of it; then rows are dropped."""
        if self.batches or not self._held:
            return
        rows, clustered = joined(self.rows), self.clustered
        self.plan = self.plan._replace(rows=len(rows.y))
        refuse_few(self.plan.rows, self.plan.size, self.plan.mu)
        self._start()
        self.clustered = clustered
        budgets = list[lattice.Mu]()
        while self.progress.state.role != "over":
            budgets.append(lattice.fraction_of(self.progress.state.mu))
            if not lattice.composed(budgets, lattice.fraction_of(self.plan.mu)):
                raise AssertionError("rounds would cost more than the budget")
            self._answered(rows)

    def _answered(self, rows: Block) -> None:
        """Add up all rows' reports, in the last round by groups of clusters, and publish the noised sums."""
        groups = [rows]
        if rows.cluster is not None and self.progress.last and self.progress.state.role == "main":
            many = summed_groups(self.plan.clusters)
            group = dealt(self.plan.clusters, many)[rows.cluster]
            groups = [Block._make(None if c is None else c[group == g] for c in rows) for g in range(many)]
        state = self.progress.state
        each = [[cut(some, a, min(a + ROWS, len(some.y))) for a in range(0, len(some.y), ROWS)] for some in groups]
        work = [partial(total, self.plan, state, block) for blocks in each for block in blocks]
        found = iter([one() for one in work] if self.crew is None else self.crew.each(work))
        nothing = np.zeros(self.plan.width(state.role), dtype=np.int64)
        sums = [sum((next(found) for _ in blocks), nothing) for blocks in each]
        self._released(np.array(sums), np.array([len(some.y) for some in groups]))
