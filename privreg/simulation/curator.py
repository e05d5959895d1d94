"""A trusted curator's fit: rows are held, and in each round all of them answer; their sum has its noise once."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final

import numpy as np

from privreg.arrays import Array, Flags, Ints
from privreg.collector.aggregate import report
from privreg.collector.aggregate.chain import Batch
from privreg.collector.aggregate.lattice import noised, steps
from privreg.collector.aggregate.plan import Plan, State
from privreg.errors import DataError
from privreg.fits.aggregate import HeldSums
from privreg.privacy.noise import derived_key, normals, refuse_fork
from privreg.protocol import lattice
from privreg.simulation.aggregate import AggregateRun
from privreg.simulation.devices import Block, cut, joined

ROWS: Final = 8_192
"""Rows that are added up in floating point before they are rounded: 2²⁶ roundings of 2⁻⁵³ of a report of 2²⁰ lattice
steps are 0.01 of a step, and `protocol.lattice.unit_of_sums` leaves a whole one."""


def total(plan: Plan, state: State, rows: Block) -> Ints:
    """Sum of at most `ROWS` reports in whole numbers, shape (plan.width(state.role),).

    Sums that differ in one record are as far apart as two reports, and half a lattice step more in each number, twice.
    """
    made, scale = report.factors(plan, state, rows.y, rows.x, rows.offset, rows.clamped, rows.weight)
    unit = steps(plan, state.role, state.mu).unit
    return np.asarray(np.rint(np.concatenate([one.total(scale) for one in made]) * unit), dtype=np.int64)


class CuratorRun(AggregateRun):
    """A fit in progress of rows that a curator holds. Rounds begin when all rows are there."""

    parallel: Final = False

    def _start(self) -> None:
        self.rows = list[Block]()
        super()._start()

    @property
    def people(self) -> int:
        """Records that the curator holds, or held."""
        return self._held or (self.batches[-1].people if self.batches else 0)

    @property
    def noised(self) -> int:
        """Records whose sums are published."""
        return self.batches[-1].people if self.batches else 0

    def held(self) -> HeldSums:
        """What there is for results."""
        people = tuple(b.people for b in self.batches)
        return HeldSums(self.plan, self.history, people, self.people, self.clustered)

    def asks_clamping(self, _: int) -> bool:
        """Whether what bounds clamp of rows is needed: all of them are asked."""
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
        self.rows.append(Block(y, np.ascontiguousarray(x), offset, weight, None, clamped, None, cluster))
        self._held += len(y)
        return len(y)

    def close(self) -> None:
        """Play all rounds, once: each one's noise is drawn before anything is made of its sum."""
        if self.batches or not self._held:
            return
        rows = joined(self.rows)
        self.plan = self.plan._replace(rows=len(rows.y))
        refuse_few(self.plan)
        self.rows, people = [], len(rows.y)
        self._begin_anew()
        blocks = [cut(rows, a, min(a + ROWS, people)) for a in range(0, people, ROWS)]
        budgets = list[lattice.Mu]()
        while self.progress.state.role != "over":
            state = self.progress.state
            budgets.append(lattice.fraction_of(state.mu))
            if not lattice.composed(budgets, lattice.fraction_of(self.plan.mu)):
                raise AssertionError("rounds cost more than the budget")
            work = [partial(total, self.plan, state, b) for b in blocks]
            found = [one() for one in work] if self.crew is None else self.crew.each(work)
            self._publish_sum(np.sum(found, axis=0), people)
        self._held = 0
