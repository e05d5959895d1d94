"""A trusted curator's fit: in each round all rows answer, held or read again, and their sum has its noise once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Final

import numpy as np

from privreg.base.archive import like
from privreg.base.arrays import Ints
from privreg.collector.aggregate import chain, report
from privreg.collector.aggregate.chain import Batch
from privreg.collector.aggregate.lattice import steps
from privreg.collector.aggregate.plan import Plan, State
from privreg.collector.inference.methods import dealt, summed_groups
from privreg.errors import DataError, UnsupportedArgumentError
from privreg.protocol import lattice
from privreg.simulation.aggregate import AggregateRun
from privreg.simulation.devices import Block, cut, joined

ROWS: Final = 8_192
"""Rows that are added up in floating point before they are rounded: 2²⁶ roundings of 2⁻⁵³ of a report of 2²⁰ lattice
steps are 0.01 of a step, and `protocol.lattice.unit_of_sums` leaves a whole one."""

LEAST: Final = 28.0
"""Rows times μ/D^1.5 below which there is no fit: noise of second moments then has its edge at a fifth of a typical
eigenvalue if it costs an eighth of the budget, twice: Equation (33)."""

HELD: Final = 1 << 32  # Bytes of rows that are held; more are read again in each round

AHEAD: Final = 8  # Blocks a thread that are handed out at a time


@np.errstate(all="ignore")  # a warning would tell of one record
def total(plan: Plan, state: State, rows: Block) -> Ints:
    """Sum of at most `ROWS` reports in whole numbers, shape (plan.width(state.role),).

    Sums that differ in one record are as far from each other as two reports, and half a lattice step more in each
    number, twice. Balls and matrices leave room for that; switches don't, and are rounded report by report.
    """
    given, one = (rows.y, rows.x, rows.offset, rows.clamped, rows.weight), steps(plan, state)
    if one.form == lattice.SWITCHES:
        return np.asarray(one.whole(report.vectors(plan, state, *given)).sum(axis=0))
    made, scale = report.factors(plan, state, *given)
    unit = one.unit
    return np.asarray(np.rint(np.concatenate([one.total(scale) for one in made]) * unit), dtype=np.int64)


def by_group(plan: Plan, state: State, rows: Block, group: Ints | None) -> tuple[Ints, Ints]:
    """Sums of reports by group, and how many there are, of as many groups as there are, or one."""
    if group is None:
        return total(plan, state, rows)[None], np.array([len(rows.y)])
    out = np.zeros((int(group.max()) + 1, plan.width(state.role)), dtype=np.int64)
    for g in np.unique(group):
        out[g] = total(plan, state, Block._make(None if c is None else c[group == g] for c in rows))
    return out, np.bincount(group)


def evenly(blocks: Iterable[Block], rows: int) -> Iterator[Block]:
    """Blocks of `rows` rows each, the last one of fewer, whatever blocks they came in."""
    rest, have = list[Block](), 0
    for block in blocks:
        a, n = 0, len(block.y)
        while have + n - a >= rows:
            b = a + rows - have
            yield joined([*rest, cut(block, a, b)])
            rest, have, a = [], 0, b
        if a < n:
            rest, have = [*rest, cut(block, a, n)], have + n - a
    if rest:
        yield joined(rest)


def least(d: int, mu: float) -> int:
    """Least number of rows for a fit of `d` coefficients."""
    return max(math.ceil(LEAST * math.sqrt((d + 1) ** 3) / mu), d + 1)


def refuse_few(rows: int, d: int, mu: float) -> None:
    """Raise a `DataError` if there are too few rows, whose number is public."""
    if rows < (needed := least(d, mu)):
        raise DataError(
            f"{rows:,} rows are too few for {d} coefficients at mu = {mu:g}: {needed:,} or more are needed, a larger "
            "mu, or fewer terms."
        )


class CuratorRun(AggregateRun):
    """A curator's fit in progress. Rounds begin once all rows are there, and are planned for their number.

    `planned` gives the plan for so many rows. `reread`, if rows can be had again, gives all of them, in the same
    order, and `kept` is called after each release.
    """

    parallel = False

    def __init__(self, plan: Plan, key: bytes | None, planned: Callable[[int], Plan] | None = None) -> None:
        self.planned = planned or (lambda rows: plan._replace(rows=rows))
        self.rows, self.bytes, self._people = list[Block](), 0, 0
        self.most: float = HELD  # Bytes of them
        self.reread: Callable[[], Iterator[Block]] | None = None
        self.kept: Callable[[], None] = lambda: None
        self._before = dict[str, Any]()  # Sums that a checkpoint has
        super().__init__(plan, key)

    @property
    def people(self) -> int:
        """Records that are held, or were."""
        return self._people

    @property
    def noised(self) -> int:
        """Records whose sums are published."""
        return self._people if self.batches else 0

    def asks_clamping(self, _: int) -> bool:
        """True: all records may be asked whether they were clamped."""
        return True

    def _enter(self, rows: Block) -> None:
        block = rows._replace(x=np.ascontiguousarray(rows.x))
        self._people += len(rows.y)
        self.bytes += sum(c.nbytes for c in block if c is not None)
        self.rows.append(block)
        if self.bytes > self.most:
            if self.reread is None:
                raise UnsupportedArgumentError(
                    f"these rows take more than {HELD >> 30} GiB encoded, and of their kind they can't be read again "
                    "in each round; write them to Parquet files and give their path."
                )
            self.rows.clear()

    def drained(self) -> list[Block]:
        """Rows that came since the last call; they are no longer held."""
        rows, self.rows, self.bytes = self.rows, [], 0
        return rows

    def ready(self) -> None:
        """Make the plan for the rows that have come, before anything is released.
        Raises DataError if they are too few.
        """
        if not self.batches:
            self.plan = self.planned(self._people)
            refuse_few(self._people, self.plan.size, self.plan.mu)

    def close(self) -> None:
        """Play all rounds, once. Each sum has its noise before anything is made of it; then rows are dropped."""
        if self.batches or not self._people:
            return
        self.ready()
        self.chain = chain.begin(self.plan)
        self._begin()
        for k, people in enumerate(self._before.get("people", ())):
            self._known(Batch(int(people), like(self.raw.sum[0], self._before[f"total_{k}"]).copy()))
        budgets = [lattice.fraction_of(p.state.mu) for p in self.history[:-1]]
        while self.progress.state.role != "over":
            budgets.append(lattice.fraction_of(self.progress.state.mu))
            paid = self.progress.state.mu > 0.0  # a round without a budget of its own would have the plan's
            if not paid or not lattice.composed(budgets, lattice.fraction_of(self.plan.mu)):
                raise AssertionError("rounds would cost more than the budget")
            self._answered(self.rows if self.bytes <= self.most or self.reread is None else self.reread())
            self.kept()
        self.rows = []

    def _answered(self, rows: Iterable[Block]) -> None:
        """Add up all rows' reports, in the last round by groups of clusters, and publish the noised sums."""
        plan, state, group = self.plan, self.progress.state, None
        if plan.clusters and self.progress.last and state.role == "main":
            group = dealt(plan.clusters, summed_groups(plan.clusters))
        many = 1 if group is None else int(group.max()) + 1
        sums, counts = np.zeros((many, plan.width(state.role)), dtype=np.int64), np.zeros(many, dtype=np.int64)
        blocks = evenly(rows, ROWS)
        while some := list(islice(blocks, AHEAD * (1 if self.crew is None else self.crew.threads))):
            work = [partial(by_group, plan, state, b, None if group is None else group[b.cluster]) for b in some]
            for one, people in [w() for w in work] if self.crew is None else self.crew.each(work):
                sums[: len(one)] += one
                counts[: len(one)] += people
        self._released(sums, counts)

    # --- storage ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved fit is known to be this one's."""
        return ["central", self.plan.d, self.plan.mu, self.plan.width("main"), *self.plan.reported]

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys: published sums."""
        return super().to_arrays(close=close) if self.batches else self._before

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave, once the rows are there."""
        self._before = {k: v for k, v in arrays.items() if k == "people" or k.startswith("total_")}
