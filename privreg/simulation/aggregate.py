"""A fit with two collectors in one process: devices' reports as whole numbers, sums modulo 2⁶⁴, each collector's noise.

A device shares its report out: a uniform share to one collector, the report less this share to the other, modulo 2⁶⁴.
The sums of both shares add up to the sum of reports exactly, so shares need not be drawn to play a fit.
"""

from __future__ import annotations

from functools import partial
from hashlib import sha256
from typing import Any, Final

import numpy as np

from privreg.base.archive import like
from privreg.base.arrays import Ints
from privreg.collector.aggregate import chain, report
from privreg.collector.aggregate.chain import Batch, Chain
from privreg.collector.aggregate.lattice import noised, steps
from privreg.collector.aggregate.plan import Plan, Progress, State
from privreg.collector.inference.methods import dealt, summed_groups
from privreg.errors import StreamError
from privreg.families.scores import Gauge
from privreg.fits.aggregate import HeldSums, plan_of
from privreg.privacy.noise import derived_key, normals, refuse_fork
from privreg.protocol.schedule import ENDLESS
from privreg.simulation.rounds import Run
from privreg.simulation.streaming.encoding import Block, cut

__all__ = ["AggregateRun", "Batch", "plan_of", "total"]

NUMBERS: Final = 1 << 21  # Numbers of reports that are made together, about
LATE: Final = frozenset({"main", "measures"})  # Roles of rounds whose batches end when results are asked for


@np.errstate(all="ignore")  # a warning would tell of one record
def total(plan: Plan, state: State, rows: Block, group: Ints | None = None) -> Ints:
    """Sum of the devices' reports in whole numbers, modulo 2⁶⁴; shape (plan.width(state.role),).

    With a `group` of each, shape (m,), sums by group, shape (groups up to the last, plan.width(state.role)).
    """
    made, scale = report.factors(plan, state, *rows.reported)
    ones = np.ones(len(rows.y))
    made = [one if one.parts is None else report.Factor(one.each(), ones) for one in made]
    columns = {id(one.rows): one.rows for one in made}  # Blocks share rows
    columns = {name: np.ascontiguousarray(each.T) for name, each in columns.items()}
    from privreg.simulation.summing import add  # it loads a compiler

    groups = np.zeros(len(rows.y), dtype=np.int64) if group is None else group
    sums, at = np.zeros((int(groups.max(initial=0)) + 1, plan.width(state.role)), dtype=np.int64), 0
    unit = steps(plan, state).unit
    for one in made:
        at = add(columns[id(one.rows)], np.ascontiguousarray(one.by), one.product, scale, unit, groups, at, sums)
    return np.asarray(sums[0] if group is None else sums)


def noised_once(plan: Plan, state: State, exact: Ints, key: bytes | None, number: int) -> tuple[Ints, bytes | None]:
    """The sum of batch `number` with the noise of all who add it, drawn from `key`, None for none; and the next key.

    A key is for one sum. It follows from none after it. A silo's noise follows from the state and from its exact sum,
    too: should its file come back from a copy, a sum of another state or of other rows has other noise, so that the
    difference of both is never one without noise.
    """
    if key is None:
        return exact, None
    names = [f"collector {who} {number}" for who in "AB"[: plan.noise.alone]]
    if plan.noise.silos:
        numbers = [v for v in state if not isinstance(v, str | Gauge) and v is not None]
        parts = [np.ascontiguousarray(v, dtype=np.float64).tobytes() for v in numbers]
        asked = sha256(b"".join([state.role.encode(), *(len(p).to_bytes(8, "little") + p for p in parts)])).hexdigest()
        names = [f"{name} {asked} {sha256(exact.tobytes()).hexdigest()}" for name in names]
    drawn = tuple(normals(derived_key(key, name), len(exact)) for name in names)
    return noised(plan, state, exact, drawn), derived_key(key, "following")


class AggregateRun(Run):
    """A stream in progress: devices, both collectors, and public estimates from their sums.

    Each sum has its noise once, when its batch is closed: an early round when it is full, the main round when results
    are asked for. A batch is one sum, so that reports after that begin another, with noise of its own. It is drawn from
    `key`, None without privacy; every batch has a key of its own, which follows from none after it.
    """

    def _start(self) -> None:
        super()._start()
        self.chain: Chain = chain.begin(self.plan)
        self._begin()

    def _begin(self) -> None:
        """Begin the open batch: its sum, or those of a main round by group of clusters."""
        plan, role, ends = self.plan, self.state.role, chain.ends(self.plan, self.chain)
        self.size, self.at, self._held = ENDLESS if ends is None else ends, 0, 0
        self.block = max(NUMBERS // (plan.width(role) * (plan.persons.rows if plan.persons else 1)), 1)
        groups = summed_groups(plan.clusters) if plan.clusters and role == "main" else 1
        self.raw.sum = np.zeros((groups, plan.width(role)), dtype=np.int64)
        self.counts = np.zeros(groups, dtype=np.int64)

    @property
    def progress(self) -> Progress:
        """Public progress so far."""
        return self.chain.progress

    @property
    def history(self) -> tuple[Progress, ...]:
        """Public progress before each batch, of which the last is open."""
        return self.chain.history

    @property
    def batches(self) -> tuple[Batch, ...]:
        """Sums that are published."""
        return self.chain.batches

    def held(self) -> HeldSums:
        """Public values from which results are made."""
        people = tuple(b.people for b in self.batches)
        return HeldSums(self.plan, self.history, people, self.people, self.clustered)

    @property
    def people(self) -> int:
        """Records that have reported."""
        return self.noised + self.at + self._held

    @property
    def noised(self) -> int:
        """Records of batches that are published."""
        return sum(b.people for b in self.batches)

    def asks_clamping(self, _: int) -> bool:
        """True if any of the next records may be asked whether it was clamped: that round is the first."""
        return self.progress.state.role == "clamping"

    # --- people ----------------------------------------------------------------------------------------

    def refuse(self, people: int, size: int, *, clustered: bool) -> None:
        """Raise StreamError if groups of clusters have had their sums.

        People of a cluster would be in two that count as independent.
        """
        if clustered and people and any(p.state.role == "main" for p in self.history[:-1]):
            raise StreamError(
                "sums of groups of clusters are published once, which results() or save() has done: begin a fit anew "
                "with all people."
            )

    def _play(self, rows: Block) -> None:
        here = [cut(rows, a, a + self.block) for a in range(0, len(rows.y), self.block)]
        groups = [self._group(b) for b in here]
        found = self._each([partial(total, self.plan, self.state, *one) for one in zip(here, groups, strict=True)])
        for one, group, b in zip(found, groups, here, strict=True):
            sums, people = (one[None], [len(b.y)]) if group is None else (one, np.bincount(group))
            self.raw.sum[: len(sums)] += sums
            self.counts[: len(sums)] += people
        self.at += len(rows.y)

    def _group(self, rows: Block) -> Ints | None:
        """Group of each record's cluster among those whose sums are published; None where there is one sum."""
        if len(self.counts) == 1 or rows.cluster is None:
            return None
        return dealt(self.plan.clusters, len(self.counts))[rows.cluster]

    def _finish(self) -> None:
        """Close the open batch, or those of all groups: add both collectors' noise once to each sum, and publish it.

        The raw sums are dropped, and the key of the noise replaced, before anything is made of the published sum.
        """
        if self._held:
            self._play(self._waiting())
        exact, counts = self.raw.sum, self.counts
        self.raw.sum = np.zeros((0, 0), dtype=np.int64)
        self._released(exact, counts)

    def _released(self, exact: Ints, counts: Ints) -> None:
        """Publish sums of all groups that anybody is in, each with noise drawn for it alone."""
        for g in [int(g) for g in np.flatnonzero(counts)] if len(counts) > 1 else [0]:
            if self.key is not None:
                refuse_fork(self._process)
            total, self.key = noised_once(self.plan, self.progress.state, exact[g], self.key, len(self.batches))
            self._known(Batch(int(counts[g]), total))

    def _known(self, batch: Batch) -> None:
        """Make the next state from a published sum."""
        self.chain = chain.closed(self.plan, self.chain, batch)
        self._begin()

    def close(self) -> None:
        """Close the batch of the main round or of measures, if anybody is in it; others wait until they are full."""
        if self.progress.state.role in LATE and self.at + self._held:
            self._finish()

    # --- storage ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved stream is known to be this one's."""
        plan = self.plan
        sizes = (*plan.sizes.values(), plan.measured)
        return ["two_collectors", plan.d, plan.rows, plan.mu, *sizes, plan.width("main"), *plan.reported]

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys: published sums, from which every state follows.
        Raises StreamError if an early round is open, whose sum has no noise yet, unless its records will come again.
        """
        if close:
            self.close()
            if self.at + self._held:
                raise StreamError(
                    f"the round {self.progress.state.role!r} is open, and a sum is kept only once it has its noise: "
                    f"save after {self.size - self.at - self._held:,} more records, which end it."
                )
        out: dict[str, Any] = {"people": np.array([b.people for b in self.batches], dtype=np.int64)}
        out |= {"clustered": self.clustered.copy()} if self.plan.clusters else {}
        return out | {f"total_{k}": b.total.copy() for k, b in enumerate(self.batches)}

    def _restore(self, number: int, people: int, arrays: dict[str, Any]) -> None:
        late = self.state.role in LATE
        if not (0 < people <= self.size if late else people == self.size):
            raise ValueError(f"batch {number} of another plan")
        self._known(Batch(people, like(self.raw.sum[0], arrays[f"total_{number}"]).copy()))
