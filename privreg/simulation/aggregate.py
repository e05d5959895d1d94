"""A fit by sums in one process: devices' reports as whole numbers, sums modulo 2⁶⁴, each collector's noise.

A device shares its report out: a uniform share to one collector, the report less this share to the other, modulo 2⁶⁴.
The sums of both shares add up to the sum of reports exactly, so shares need not be drawn to play a fit.

Rows of a trusted curator, or of silos, answer in each round, held or read again; each holder's sum has noise once.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from hashlib import sha256
from itertools import groupby, islice
from typing import Any, Final

import numpy as np

from privreg.base.archive import like
from privreg.base.arrays import Ints
from privreg.collector.aggregate import report
from privreg.collector.aggregate.chain import full
from privreg.collector.aggregate.plan import Plan, State
from privreg.collector.aggregate.report import noised, steps
from privreg.collector.design import Batch, begin
from privreg.collector.inference.methods import dealt
from privreg.errors import DataError, StreamError, UnsupportedArgumentError
from privreg.families.scores import Gauge
from privreg.privacy.noise import KEY_BYTES, derived_key, normals, refuse_fork
from privreg.protocol import lattice
from privreg.protocol.sums import summed_groups
from privreg.simulation.rounds import ALONE, Crew, Run
from privreg.simulation.streaming.encoding import Block, cut, joined, picked

NUMBERS: Final = 1 << 21  # Numbers of reports that are made together, about
ROWS: Final = 8_192
"""Rows that are added up in floating point before they are rounded: 2²⁶ roundings of 2⁻⁵³ of a report of 2²⁰ lattice
steps are 0.01 of a step, and `protocol.lattice.unit_of_sums` leaves a whole one."""
LEAST: Final = 28.0
"""Rows times μ/D^1.5 below which there is no fit: noise of second moments then has its edge at a fifth of a typical
eigenvalue if it costs an eighth of the budget, twice: Equation (33)."""
HELD: Final = 1 << 32  # Bytes of rows that are held; more are read again in each round
AHEAD: Final = 8  # Blocks a thread that are handed out at a time
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


class AggregateRun(Run):
    """A stream in progress: devices, both collectors, and public estimates from their sums.

    Each sum has its noise once, when its batch is closed: an early round when it is full, the main round when results
    are asked for. A batch is one sum, so that reports after that begin another, with noise of its own. It is drawn from
    `key`, None without privacy; every batch has a key of its own, which follows from none after it.
    """

    design = full
    silos: tuple[str, ...] = ()  # Names of silos that hold rows, each with a key

    def _begin(self) -> None:
        super()._begin()
        width, groups = self.plan.width(self.state.role), self.chain.ask.groups
        self.block = max(NUMBERS // (width * (self.plan.persons.rows if self.plan.persons else 1)), 1)
        # The batch's sum, or those of a main round by group of clusters
        self.raw.sum, self.counts = np.zeros((groups, width), dtype=np.int64), np.zeros(groups, dtype=np.int64)

    # --- people ----------------------------------------------------------------------------------------

    def refuse(self, people: int, size: int, *, clustered: bool) -> None:
        """Raise StreamError if groups of clusters have had their sums: people of a cluster would be in two of these."""
        if clustered and people and any(p.state.role == "main" for p in self.chain.history[:-1]):
            raise StreamError(
                "sums of groups of clusters are published once, which results() or save() has done: begin a fit anew "
                "with all people."
            )

    def _play(self, rows: Block) -> None:
        here = [cut(rows, a, a + self.block) for a in range(0, len(rows.y), self.block)]
        of = dealt(self.plan.clusters, len(self.counts)) if len(self.counts) > 1 else None
        groups = [None if of is None or b.cluster is None else of[b.cluster] for b in here]
        found = self.crew.each([partial(total, self.plan, self.state, *one) for one in zip(here, groups, strict=True)])
        for one, group, b in zip(found, groups, here, strict=True):
            sums, people = (one[None], [len(b.y)]) if group is None else (one, np.bincount(group))
            self.raw.sum[: len(sums)] += sums
            self.counts[: len(sums)] += people
        self.at += len(rows.y)

    def _finish(self) -> None:
        """Close the open batch, or those of all groups: add both collectors' noise once to each sum, and publish it.

        The raw sums are dropped, and the key of the noise replaced, before anything is made of the published sum.
        """
        if self._held:
            self._play(self._waiting())
        exact, counts = self.raw.sum, self.counts
        self.raw.sum = np.zeros((0, 0), dtype=np.int64)
        self._released(exact[None], counts[None])

    def _released(self, sums: Ints, counts: Ints) -> None:
        """Publish sums by holder and group, shape (holders, groups, numbers), each with noise from its holder's key.

        `counts`, shape (holders, groups), are their people; a group without any has no sum.
        """
        if self.key is not None:
            refuse_fork(self._process)
        groups, given = np.flatnonzero(counts.sum(axis=0)).tolist(), (self.plan, self.state)
        starts, number = range(0, KEY_BYTES * self.holders, KEY_BYTES), len(self.chain.batches)
        keys = [None if self.key is None else self.key[a : a + KEY_BYTES] for a in starts]
        each = [noised_all(*given, s, n, key, number) for s, n, key in zip(sums, counts, keys, strict=True)]
        self.key = None if self.key is None else b"".join(key for _, key in each if key is not None)
        for g in groups:
            self._known(np.array([totals[g] for totals, _ in each]), counts[:, g], more=g != groups[-1])

    def _known(self, totals: Ints, counts: Ints, *, more: bool = False) -> None:
        """Make the next state from a published sum: of silos that of each, shape (holders, numbers)."""
        whole = Batch(int(counts.sum()), totals[0], more=more)
        self._over(whole._replace(total=totals, weight=np.asarray(counts)) if self.silos else whole)

    def close(self) -> None:
        """Close the batch of the main round or of measures, if anybody is in it; others wait until they are full."""
        if self.state.role in LATE and self.at + self._held:
            self._finish()

    # --- storage ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved stream is known to be this one's."""
        plan = self.plan
        sizes = (*plan.sizes.values(), plan.measured)
        return ["two_collectors", plan.d, plan.rows, plan.mu, *sizes, plan.width("main"), *plan.reported]

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys, see `Run.to_arrays`.
        Raises StreamError if an early round is open, whose sum has no noise yet, unless its records will come again.
        """
        out = super().to_arrays(close=close)
        if close and self.at + self._held:
            raise StreamError(
                f"the round {self.state.role!r} is open, and a sum is kept only once it has its noise: save after "
                f"{self.size - self.at - self._held:,} more records, which end it."
            )
        return out

    def _restore(self, number: int, people: int, arrays: dict[str, Any]) -> None:
        late = self.state.role in LATE
        if not (0 < people <= self.size if late else people == self.size):
            raise ValueError(f"batch {number} of another plan")
        self._known(like(self.raw.sum[0], arrays[f"total_{number}"]).copy()[None], np.array([people]))


# --- a curator, or silos --------------------------------------------------------------------------------------


@np.errstate(all="ignore")  # a warning would tell of one record
def rounded(plan: Plan, state: State, rows: Block) -> Ints:
    """Sum of at most `ROWS` reports, rounded to whole numbers once, shape (plan.width(state.role),).

    Sums that differ in one record are as far from each other as two reports, and half a lattice step more in each
    number, twice. Balls and matrices leave room for that; switches don't, and are rounded report by report.
    """
    one = steps(plan, state)
    if one.form == lattice.SWITCHES:
        return np.asarray(one.whole(report.vectors(plan, state, *rows.reported)).sum(axis=0))
    made, scale = report.factors(plan, state, *rows.reported)
    return np.asarray(np.rint(np.concatenate([part.total(scale) for part in made]) * one.unit), dtype=np.int64)


def by_group(plan: Plan, state: State, rows: Block, group: Ints | None) -> tuple[Ints, Ints]:
    """Sums of reports by group, and how many there are, of as many groups as there are, or one."""
    if group is None:
        return rounded(plan, state, rows)[None], np.array([len(rows.y)])
    out = np.zeros((int(group.max()) + 1, plan.width(state.role)), dtype=np.int64)
    for g in np.unique(group):
        out[g] = rounded(plan, state, picked(rows, group == g))
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


def least(d: int, mu: float, silos: int = 1) -> int:
    """Least number of rows for a fit of `d` coefficients, of so many silos that hold them."""
    return max(math.ceil(LEAST * math.sqrt(silos * (d + 1) ** 3) / mu), d + 1)


def refuse_few(rows: int, d: int, mu: float, silos: int = 1) -> None:
    """Raise a `DataError` if there are too few rows, whose number is public."""
    if rows < (needed := least(d, mu, silos)):
        held = "" if silos < 2 else f" in {silos} silos"
        raise DataError(
            f"{rows:,} rows{held} are too few for {d} coefficients at mu = {mu:g}: {needed:,} or more are needed, a "
            "larger mu, or fewer terms."
        )


def of_all(plan: Plan, state: State, rows: Iterable[Block], crew: Crew = ALONE, *, last: bool) -> tuple[Ints, Ints]:
    """Exact sums of one holder's reports, shape (groups, numbers), and how many there are in each, shape (groups,).

    There are several groups, of clusters, in the `last` main round alone.
    """
    group = None
    if plan.clusters and last and state.role == "main":
        group = dealt(plan.clusters, summed_groups(plan.clusters))
    many = 1 if group is None else int(group.max()) + 1
    sums, counts = np.zeros((many, plan.width(state.role)), dtype=np.int64), np.zeros(many, dtype=np.int64)
    blocks = evenly(rows, ROWS)
    while some := list(islice(blocks, AHEAD * crew.threads)):
        work = [partial(by_group, plan, state, b, None if group is None else group[b.cluster]) for b in some]
        for one, people in crew.each(work):
            sums[: len(one)] += one
            counts[: len(one)] += people
    return sums, counts


def noised_all(
    plan: Plan, state: State, sums: Ints, counts: Ints, key: bytes | None, number: int
) -> tuple[Ints, bytes | None]:
    """One holder's sums by group, shape (groups, numbers), each with the noise of all who add it; and the next key.

    `counts`, shape (groups,), are its people; without any it adds nothing to a group's sum. The first is batch `number`
    if each group has people of some holder. Noise is drawn from `key`, None for none. A key is for one sum. It follows
    from none after it. A silo's noise follows from the state and from its exact sum, too: should its file come back
    from a copy, a sum of another state or of other rows has other noise, so that the difference of both is never one
    without noise.
    """
    out = np.zeros_like(sums)
    for g in np.flatnonzero(counts).tolist():
        out[g] = exact = sums[g]
        if key is None:
            continue
        names = [f"collector {who} {number + g}" for who in "AB"[: plan.noise.alone]]
        if plan.noise.silos:
            numbers = [v for v in state if not isinstance(v, str | Gauge) and v is not None]
            parts = [np.ascontiguousarray(v, dtype=np.float64).tobytes() for v in numbers]
            parts = [state.role.encode(), *(len(p).to_bytes(8, "little") + p for p in parts)]
            asked = sha256(b"".join(parts)).hexdigest()
            names = [f"{name} {asked} {sha256(exact.tobytes()).hexdigest()}" for name in names]
        drawn = tuple(normals(derived_key(key, name), len(exact)) for name in names)
        out[g], key = noised(plan, state, exact, drawn), derived_key(key, "following")
    return out, key


def keys_of(key: bytes | None, silos: Sequence[str]) -> bytes | None:
    """Keys of silos, one after the other, each of which follows from `key` and tells nothing of another's."""
    return key if key is None or not silos else b"".join(derived_key(key, f"silo {name}") for name in silos)


class CuratorRun(AggregateRun):
    """A fit in progress of a curator, or of `silos` by name. Rounds begin once all rows are there.

    `planned` gives the plan for so many rows of each holder. `reread`, if rows can be had again, gives all of them, in
    the same order, and `kept` is called after each release.
    """

    parallel, again = False, True

    def __init__(
        self,
        plan: Plan,
        key: bytes | None,
        planned: Callable[[tuple[int, ...]], Plan] | None = None,
        silos: tuple[str, ...] = (),
    ) -> None:
        self.planned = planned or (lambda sizes: plan._replace(rows=sum(sizes)))
        self.silos, self.holders = silos, max(len(silos), 1)
        self.sizes = np.zeros(self.holders, dtype=np.int64)
        self.rows, self.bytes = list[Block](), 0
        self.most: float = HELD  # Bytes of them
        self.reread: Callable[[], Iterator[Block]] | None = None
        self.kept: Callable[[], None] = lambda: None
        self._before = dict[str, Any]()  # Sums that a checkpoint has
        super().__init__(plan, keys_of(key, silos))

    @property
    def people(self) -> int:
        """Records that are held, or were."""
        return int(self.sizes.sum())

    @property
    def noised(self) -> int:
        """Records whose sums are published."""
        return self.people if self.chain.batches else 0

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key, or of those of silos that follow from it."""
        self.key = keys_of(key, self.silos)

    def asks_clamping(self, _: int) -> bool:
        """True: all records may be asked whether they were clamped."""
        return True

    def refuse(self, people: int, size: int, *, clustered: bool) -> None:
        """Raise UnsupportedArgumentError if rows would have to be read again, and can't be."""
        if people and self.reread is None and self.bytes + size > self.most:
            raise UnsupportedArgumentError(
                f"these rows take more than {HELD >> 30} GiB encoded, and of their kind they can't be read again "
                "in each round; write them to Parquet files and give their path."
            )

    def _enter(self, rows: Block) -> None:
        block = rows._replace(x=np.ascontiguousarray(rows.x))
        if not len(rows.y):
            return
        self.sizes[0 if rows.silo is None else rows.silo[0]] += len(rows.y)
        self.bytes += sum(c.nbytes for c in block if c is not None)
        self.rows.append(block)
        if self.bytes > self.most:
            self.rows.clear()

    def drained(self) -> list[Block]:
        """Rows that came since the last call; they are no longer held."""
        rows, self.rows, self.bytes = self.rows, [], 0
        return rows

    def ready(self) -> None:
        """Make the plan for the rows that have come, before anything is released.
        Raises DataError if they are too few.
        """
        if self.chain.batches:
            return
        if empty := [name for name, n in zip(self.silos, self.sizes, strict=False) if not n]:
            raise DataError(f"silo {empty[0]!r} has no rows; leave it out.")
        self.plan = self.planned(tuple(self.sizes.tolist()))
        refuse_few(self.people, self.plan.size, self.plan.mu, len(self.sizes))

    def take_rounds(self, people: Ints, rounds: Iterable[Sequence[Ints]]) -> tuple[Ints, list[lattice.Mu]]:
        """Begin the rounds of silos, and take in sums by silo, by group of clusters in the last round.

        The sum of a silo that has dropped out is empty. `people`, shape (silos, k), are those of each cluster, where
        there are clusters. Returns people of each sum that is asked next, shape (silos, groups), and mu of all rounds
        with it; raises as `take_in`.
        """
        spent, self.clustered, many = list[lattice.Mu](), people.sum(axis=0), self.plan.clusters

        def asked() -> Ints:
            spent.append(lattice.fraction_of(self.state.mu))
            if not (many and self.progress.last and self.state.role == "main"):
                return np.asarray(people.sum(axis=1, keepdims=True))
            of = dealt(many, summed_groups(many))
            return np.array([np.bincount(of, one) for one in people]).astype(np.int64)

        def sums() -> Iterator[tuple[Ints, Ints, bool]]:
            for each in rounds:
                counts = asked() * np.array([[bool(len(one))] for one in each])
                totals = np.zeros((*counts.shape, self.plan.width(self.state.role)), dtype=np.int64)
                for s in (s for s, one in enumerate(each) if len(one)):
                    totals[s] = each[s].reshape(totals[s].shape)
                some = np.flatnonzero(counts.sum(axis=0))
                yield from ((totals[:, g], counts[:, g], bool(g != some[-1])) for g in some)

        self.take_in(people.sum(axis=1), sums())
        return asked(), spent

    def close(self) -> None:
        """Play all rounds, once. Each sum has its noise before anything is made of it; then rows are dropped."""
        if self.chain.batches or not self.people:
            return
        counts = self._before.get("people", ())
        left = np.cumsum([n.sum() for n in counts]) % self.people > 0  # groups of clusters, of which others follow
        self.take_in(self.sizes, [(self._before[f"total_{k}"], n, left[k]) for k, n in enumerate(counts)])
        budgets = [lattice.fraction_of(p.state.mu) for p in self.chain.history[:-1]]
        while self.state.role != "over":
            budgets.append(lattice.fraction_of(self.state.mu))
            if not lattice.composed(budgets, lattice.fraction_of(self.plan.mu)):
                raise AssertionError("rounds would cost more than the budget")
            # each holder's reports, in the last round by groups of clusters
            state, last = self.state, self.progress.last
            rows: Iterable[Block] = self.rows if self.bytes <= self.most or self.reread is None else self.reread()
            by_holder = groupby(rows, lambda b: 0 if b.silo is None else int(b.silo[0]))
            found = {s: of_all(self.plan, state, blocks, self.crew, last=last) for s, blocks in by_holder}
            self._released(*(np.array([found[s][k] for s in range(len(self.sizes))]) for k in (0, 1)))
            self.kept()
        self.rows = []

    def take_in(self, sizes: Ints | Sequence[int], sums: Iterable[tuple[Ints, Ints, bool]]) -> None:
        """Begin the rounds of holders of so many records, and take in published sums.

        Each comes with its records by holder, and with whether other groups of clusters of its round follow.
        Raises DataError if there are too few records; ValueError if a sum isn't of the width of its round.
        """
        self.sizes[:] = sizes
        self.ready()
        self.chain = begin(full, self.plan)
        self._begin()
        for total, counts, more in sums:
            zeros = np.zeros((len(self.sizes), self.plan.width(self.state.role)), dtype=np.int64)
            self._known(like(zeros, total).copy(), counts, more=bool(more))

    # --- storage ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved fit is known to be this one's."""
        trust = ["silos", *self.silos] if self.silos else ["central"]
        return [*trust, self.plan.d, self.plan.mu, self.plan.width("main"), *self.plan.reported]

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys: published sums."""
        if not self.chain.batches:
            return self._before
        counts = np.array([b.weight if self.silos else (b.people,) for b in self.chain.batches], dtype=np.int64)
        totals = {f"total_{k}": np.atleast_2d(b.total) for k, b in enumerate(self.chain.batches)}
        return {**super().to_arrays(close=close), **totals, "people": counts}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave, once the rows are there."""
        self._before = {k: v for k, v in arrays.items() if k == "people" or k.startswith("total_")}
