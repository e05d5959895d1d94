"""What the collector of a fit by rounds holds by now, whoever sent the reports."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from privreg.arrays import Ints
from privreg.collector.plan import Plan, Progress
from privreg.protocol.rounds import Reports


@dataclass(frozen=True)
class Held:
    """What the collector of a fit by rounds holds by now: the input of everything that a fit says of itself.

    A simulation, the workers of a cluster and a study with people's own devices fill it alike. Nothing in it is a row.
    `progress` is what the collector knows, with what the present round has reported. `reports` are those of every round
    that has asked anybody, by its number, and of the present one; their `people` are those asked. `came` says how many
    records' reports have come, by round, the present one last; `unusable` whether records may send noise only, and
    `personal` whether they have budgets of their own. The first `shuffled` records are known to have come in random
    order, infinitely many if all have; `clustered`, shape (clusters,), are people by cluster, where these are public.
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
        """Whether records may have come in an order that matters."""
        return self.people > self.shuffled

    @property
    def present(self) -> Reports:
        """What the present round has reported, with its noise."""
        return self.reports[self.progress.state.number]
