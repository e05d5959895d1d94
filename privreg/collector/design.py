"""The frame of rounds: a design says what is asked next, and what sums of answers make of it; a chain has what came.

There are two designs of fits: `rounds.lean`, of local reports, which hold a score, so that curvature is learned from
how these differ; and `aggregate.chain.full`, of noised sums of reports that hold matrices, too. Whoever plays rounds,
in one process, among workers or in the field, goes by a chain. What a device reports of a row is no part of a design,
as nothing here sees a row: of lean it is `simulation.devices`, of full `aggregate.report`.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import numpy as np


class Ask(NamedTuple):
    """Question to the next records."""

    state: Any  # Public, with a `number` and a `role`
    groups: int  # Groups of records with a sum each; of lean each one answers at an offset of the state
    ends: int | None  # Records whose reports end the batch; None: it stays open


class Batch(NamedTuple):
    """Reports to one state, summed, with their noise."""

    people: int  # Records that were asked, whatever their weights
    # Lean: sums of reports, shape (parts, groups, numbers). Full: whole numbers modulo 2⁶⁴, shape (numbers,), or those
    # of each silo, (silos, numbers)
    total: Any
    # Lean: records, or weights of those with smaller budgets, shape (parts, groups). Full: records of silos, (silos,),
    # none of one that has dropped out
    weight: Any = np.zeros(0)
    more: bool = False  # True if sums of other groups of clusters follow, of the same round, where rows answer again


NOTHING: Final = Batch(0, np.zeros(0, dtype=np.int64))


class Design(NamedTuple):
    """Rule by which rounds follow from each other: functions of a public plan and of progress by published sums."""

    begin: Callable[[Any], Any]  # Progress before the first report, of a plan
    asks: Callable[[Any, Any], Ask]  # Question that is asked next, of a plan and progress
    advance: Callable[[Any, Any, Batch | None], Any]  # Progress after the open batch, None if it was lost
    present: Callable[[Any, Any, Batch], Any]  # Progress with the open batch so far, which goes on
    estimate: Callable[[Any, Any], Any]  # Coefficients by a plan and progress; None before there are any


class Chain(NamedTuple):
    """Public history of a fit after some batches."""

    design: Design
    plan: Any
    history: tuple[Any, ...]  # Progress before each batch, the last one being open
    batches: tuple[Batch, ...] = ()

    @property
    def progress(self) -> Any:
        """Progress after the last batch."""
        return self.history[-1]

    @property
    def ask(self) -> Ask:
        """Question that is asked next."""
        return self.design.asks(self.plan, self.progress)

    def closed(self, batch: Batch | None) -> "Chain":
        """Take in the open batch, None if it was lost, and make the next state."""
        after = self.design.advance(self.plan, self.progress, batch)
        return self._replace(history=(*self.history, after), batches=(*self.batches, batch or NOTHING))


def begin(design: Design, plan: Any) -> Chain:
    """Chain before the first report."""
    return Chain(design, plan, (design.begin(plan),))
