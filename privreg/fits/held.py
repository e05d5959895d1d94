"""Reports of a fit by rounds so far, with the collector's progress, whoever sent them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privreg.base.arrays import Ints
from privreg.collector.plan import Plan, Progress
from privreg.protocol.rounds import Reports


@dataclass(frozen=True)
class Held:
    """Reports of a fit by rounds so far, and the collector's progress: the input of estimates, tables and notes.

    A simulation, the workers of a cluster and a study with people's own devices fill it alike. Nothing in it is a row.
    `progress` includes the reports of the present round. `reports` are those of every round that has asked anybody, by
    its number, and of the present one; their `people` are those asked. `came` are numbers of reports received, by
    round, the present one last; `unusable` is True if records may send noise only, `personal` if they have personal
    budgets. The first `shuffled` records are known to have come in random order, infinitely many if all have;
    `clustered`, shape (clusters,), are people by cluster, if these are public.
    """

    plan: Plan
    progress: Progress
    reports: Mapping[int, Reports]
    came: tuple[int, ...]
    unusable: bool = False
    personal: bool = False
    shuffled: float = 0.0
    clustered: Ints | None = None

    @property
    def people(self) -> int:
        """Records whose report has come."""
        return sum(self.came)

    @property
    def ordered(self) -> bool:
        """True if records may have come in an order that matters."""
        return self.people > self.shuffled

    @property
    def present(self) -> Reports:
        """Reports of the present round, with their noise."""
        return self.reports[self.progress.state.number]
