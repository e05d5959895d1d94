"""A fit by rounds in one process: rows through all devices, reports to the collector, one round after another.

Rows are played in blocks fixed by position, and sums are whole multiples of a public step, so that neither chunks nor
threads change a bit. A piece is a run of records of one part of a round; it is noised once, when it ends or when
results are asked for, and only then kept. All noise to come is drawn from a secret key, which is never printed or
pickled.
"""

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, Final, NamedTuple, Self, TypeVar

import numpy as np

from privreg.base.archive import like
from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate.report import parts_of
from privreg.collector.design import Batch, Chain, Design, begin
from privreg.collector.inference.methods import dealt
from privreg.collector.plan import Plan
from privreg.collector.rounds import lean
from privreg.fits.outcome import Held
from privreg.privacy.noise import KEY_BYTES, Key, derived_key, normals, refuse_fork
from privreg.protocol.rounds import PARTS
from privreg.protocol.schedule import ENDLESS, people_of
from privreg.simulation import devices
from privreg.simulation.devices import Devices, by_group
from privreg.simulation.streaming.encoding import Block, cut, joined

T = TypeVar("T")

STEP: Final = 2.0**-32  # Sums are multiples of it: their order then doesn't matter. A report has a norm of at most √2.
PIECE: Final = 1 << 16  # Records after which a piece ends at the latest: as many are played again after a stop
MOST: Final = 2.0**62  # Multiples of the step that are sent, at most
TASK: Final = 1 << 15
"""Records that are played in one go, at most, unless a block has more: threads that often ask for Python wait."""


class Sent(NamedTuple):
    """Sums of a piece with their noise, as they go from one place to another."""

    weight: Array  # Records, or weights of those with smaller budgets; shape (groups,)
    total: Ints  # Multiples of the step; shape (groups, numbers)


class Crew:
    """So many threads that work; with one, a task is done when its result is asked for."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def submit(self, work: Callable[[], T]) -> Callable[[], T]:
        """Make a task; what comes back gives its result, or raises what it raised."""
        return work if self._pool is None else self._pool.submit(work).result

    def each(self, work: Iterable[Callable[[], T]]) -> list[T]:
        """Results of several functions, in their order; that of a single one without other threads."""
        work = list(work)
        return [one() for one in work] if len(work) == 1 else [result() for result in list(map(self.submit, work))]


ALONE: Final = Crew(1)


class Raw:
    """Rows that wait, and sums of reports that have no noise yet: never saved, pickled or printed."""

    def __init__(self) -> None:
        self.waiting: list[Block] = []
        self.sum: Ints = np.zeros((0, 0), dtype=np.int64)  # Sum of the open piece, multiples of the step

    def __repr__(self) -> str:
        return "<rows and sums without noise>"

    def __reduce__(self) -> str:
        raise TypeError("rows and sums without noise can't be pickled; save() the stream")


class Run(ABC):
    """A fit in progress in one process: blocks of rows through devices, batches ended, noise drawn from a key.

    `key` is the secret one of noise to come; None without privacy. What is asked next follows from the `design`.
    Whoever implements it says how many records are played together, how the rows that wait are played, and how a batch
    ends: with noise on sums as they are kept, or once on the whole sum.
    """

    design: ClassVar[Design]
    chain: Chain
    parallel: bool = True  # True if threads are of use, and rows may come in any order
    again: bool = False  # True if all rows answer in each round, so that they are held or read again
    label: bool = False  # True if only responses are private: covariates are public
    absent: Final = math.nan  # Covariates of a record that sends noise only, or nothing
    holders: int = 1  # Parties that add noise, each with a key: several silos, or one
    block: int  # Records that are played together
    begun: int = 0  # Records of the present batch in sums that have their noise

    def __init__(self, plan: Any, key: bytes | None) -> None:
        self.plan, self.key, self._process = plan, key, os.getpid()
        self.shuffled = 0.0  # Number of first records that are known to come in random order
        self.crew = ALONE  # Threads that play blocks
        self._start()

    @property
    def progress(self) -> Any:
        """The collector's knowledge."""
        return self.chain.progress

    @property
    def state(self) -> Any:
        """The public state that the next records answer."""
        return self.progress.state

    @property
    def people(self) -> int:
        """Records that have reported."""
        return sum(b.people for b in self.chain.batches) + self.at + self._held

    @property
    def noised(self) -> int:
        """Records whose reports are in sums that have their noise."""
        return sum(b.people for b in self.chain.batches) + self.begun

    def held(self) -> Held:
        """Public values from which results are made."""
        return Held(self.chain, self.people, clustered=self.clustered, shuffled=self.shuffled)

    def refuse(self, people: int, size: int, *, clustered: bool) -> None:
        """Raise if the next rows, of so many bytes, can't be taken in after so many people."""
        del people, size, clustered

    def asks_clamping(self, rows: int) -> bool:
        """True if any of the next `rows` records may be asked whether it was clamped, on public grounds."""
        return bool(self.state.role == "clamping")

    # --- rows --------------------------------------------------------------------------------------------

    def advance(self, *columns: Any, **named: Any) -> int:
        """Play the devices of the rows of a `Block` of these columns, in order; how many.

        `x`, shape (n, d), has the constant first if there is one. Records that have nothing to tell are NaN in `y`, and
        weights are (μ_i/μ_max)² in (0, 1] of records with personal budgets. `clamped` is by column of the plan's
        `clamps`; it is needed where `asks_clamping`. Of people (`plan.persons`) weights are survey weights in [0, 1].
        """
        rows = Block(*columns, **named)
        self._enter(rows)
        if rows.cluster is not None:
            self.clustered += np.bincount(rows.cluster, minlength=len(self.clustered))
        return len(rows.y)

    def _enter(self, rows: Block) -> None:
        """Take in rows, play whole blocks of them, and end batches that are full."""
        a, n = 0, len(rows.y)
        while a < n:
            b = min(n, a + self.size - self.at - self._held)
            whole = (self._held + b - a) // self.block * self.block - self._held
            if whole > 0:  # a block that was begun, or up to the last whole one; what is left waits
                b = a + (self.block - self._held if self._held else whole)
            some = cut(rows, a, b)
            # not all that comes may have been looked at for what bounds clamp, but whoever is asked
            self.raw.waiting.append(some if self.state.role == "clamping" else some._replace(clamped=None))
            self._held += b - a
            a = b
            if self._held % self.block == 0:
                self._play(self._waiting())
            if self.at + self._held == self.size:
                self._finish()

    def _waiting(self) -> Block:
        """Rows that wait, which wait no longer."""
        rows, self.raw.waiting, self._held = joined(self.raw.waiting), [], 0
        return rows

    @abstractmethod
    def _play(self, rows: Block) -> None:
        """Add the reports of rows to open sums, by whole blocks and a rest."""

    @abstractmethod
    def _finish(self) -> None:
        """End the open batch, which is full, and begin the next."""

    def _over(self, batch: Batch) -> None:
        """Hand a batch to the collector, and begin the next."""
        self.chain = self.chain.closed(batch)
        self._begin()

    def _start(self) -> None:
        """Begin before the first record."""
        self.clustered = np.zeros(self.plan.clusters, dtype=np.int64)  # People by cluster, who are public
        self.raw, self.chain = Raw(), begin(self.design, self.plan)
        self._begin()

    def _begin(self) -> None:
        """Begin the open batch."""
        ends = self.chain.ask.ends
        self.size = ENDLESS if ends is None else ends  # Its records
        self.at = self._held = 0  # Played ones, and rows that wait

    # --- key ---------------------------------------------------------------------------------------------

    @property
    def key(self) -> bytes | None:
        """Secret key of the noise to come."""
        return None if self._key is None else self._key.value

    @key.setter
    def key(self, key: bytes | None) -> None:
        self._key = None if key is None else Key(key)

    @abstractmethod
    def close(self) -> None:
        """Give open sums their noise."""

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key."""
        self.key = key

    def secrets(self, *, close: bool = True) -> dict[str, Any]:
        """The key of noise to come; open sums, whose noise follows from it, are closed first or not kept."""
        refuse_fork(self._process)
        if close:
            self.close()
        return {} if self.key is None else {"secret_key": np.frombuffer(self.key, dtype=np.uint8)}

    def take_secrets(self, secrets: dict[str, Any]) -> None:
        """Go on with the noise that `secrets` gave."""
        if len(key := secrets["secret_key"].tobytes()) != KEY_BYTES * self.holders:
            raise ValueError("no key")
        self.key = key

    def __reduce__(self) -> str:
        raise TypeError("a fit in progress holds a secret key and can't be pickled; use save() on its stream")

    # --- storage -----------------------------------------------------------------------------------------

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys: sums with their noise, from which every state follows.

        Open sums are closed, or left out if their records will come again: then no bit depends on when this was.
        """
        if close:
            self.close()
        out = {f"total_{k}": b.total.copy() for k, b in enumerate(self.batches)}
        out["people"] = np.array([b.people for b in self.batches], dtype=np.int64)
        return out | ({"clustered": self.clustered.copy()} if self.plan.clusters else {})

    @property
    def batches(self) -> Sequence[Batch]:
        """Batches that are saved."""
        return self.chain.batches

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave; a ValueError says that an array doesn't fit the plan."""
        held = arrays["people"]
        if held.dtype != np.int64 or held.ndim != 1 or len(held) != sum(k.startswith("total_") for k in arrays):
            raise ValueError("no counts")
        self._start()
        if self.plan.clusters:
            self.clustered = like(self.clustered, arrays["clustered"]).copy()
        for k, people in enumerate(held.tolist()):
            self._restore(k, people, arrays)

    @abstractmethod
    def _restore(self, number: int, people: int, arrays: dict[str, Any]) -> None:
        """Take over a saved batch; a ValueError says that it doesn't fit the plan."""


class RoundsRun(Run):
    """A stream of a fit by rounds in progress.

    `key` is the secret one of the devices' noise; None without privacy. Each piece has a separate key, from which none
    before it can be computed. `personal` is True if records have personal budgets, `unusable` if they may send noise
    only.
    """

    design = lean

    def __init__(self, plan: Plan, key: bytes | None, *, personal: bool = False, unusable: bool = False) -> None:
        self.personal, self.unusable, self.label = personal, unusable, plan.label
        super().__init__(plan, key)

    @property
    def came(self) -> list[int]:
        """Records that have reported in each round, the present one last."""
        return [*self.progress.held, self.at]

    def _begin(self) -> None:
        super()._begin()
        left = max((self.plan.rows or 0) - sum(self.progress.held), self.plan.groups)
        self._lay_out(left if self.size == ENDLESS else self.size, PARTS if self.state.role == "main" else 1)

    def _lay_out(self, expected: int, parts: int) -> None:
        """Blocks, parts and open sums of a round of so many records."""
        plan, role, groups = self.plan, self.state.role, self.chain.ask.groups
        self.block = devices.most(plan.d * (plan.persons.rows if plan.persons else 1))
        if groups > 1:  # equally many records of each, which follow each other
            self.block = groups * min(max(expected // (8 * groups), 1), self.block // groups)
        self.parts = parts
        self.length = max(expected // self.parts // self.block, 1) * self.block  # of a part
        self.piece = 0
        clustered = plan.clusters and role == "main"
        self._grouped = dealt(plan.clusters, plan.groups) if clustered else None  # Groups of clusters, else by record
        self.weight = np.zeros((*self.delays, self.parts, groups))
        self.total = np.zeros((*self.delays, self.parts, groups, plan.width(role)))
        self._open()

    @property
    def delays(self) -> tuple[int, ...]:
        """Shape of the delays by which sums are separate: none, as all reports arrive at once."""
        return ()

    def _open(self) -> None:
        groups = self.weight.shape[-1]
        self.raw.sum = np.zeros((*self.delays, groups, self.total.shape[-1]), dtype=np.int64)
        self.open_weight = np.zeros((*self.delays, groups))
        self.begun = self.at  # records of the round before the open piece

    def _piece(self, at: int) -> tuple[int, int]:
        """Part of the piece that begins after `at` records of the round, and where it ends at the latest."""
        part, end = min(at // self.length, self.parts - 1), at + PIECE
        return part, end if part == self.parts - 1 else min(end, self.length * (part + 1))

    def _sent(self, rows: Block) -> Block:
        """Rows with the fate of their reports: all arrive at once."""
        return rows

    def asks_clamping(self, rows: int) -> bool:
        """True if any of the next `rows` records may be asked: rounds that may be left out are."""
        rounds, held = self.plan.rounds, list[int](self.progress.held)
        asked = next((k for k, r in enumerate(rounds) if r.role == "clamping"), -1)
        if len(held) > asked:
            return False
        sizes = held
        while len(sizes) < asked:  # a round that may be left out may be
            sizes = [*sizes, 0 if rounds[len(sizes)].optional else people_of(rounds, tuple(sizes), self.plan.rows)]
        return sum(held) + self.at + self._held + rows > sum(sizes)

    def _enter(self, rows: Block) -> None:
        if self.plan.persons is not None:
            usable = np.isfinite(rows.y) & np.isfinite(rows.x).all(axis=2)
            rows = rows._replace(weight=None, parts=parts_of(self.plan.persons, usable, rows.weight))
        super()._enter(self._sent(rows))

    def _play(self, rows: Block) -> None:
        wide = self.plan.d * (self.plan.persons.rows if self.plan.persons else 1)
        alone = not self._devices().by_group or self.plan.clusters
        together = 1 if alone else max(min(TASK, devices.NUMBERS // wide) // self.block, 1)  # Blocks
        a, each = 0, together * self.block
        while a < len(rows.y):
            _, edge = self._piece(self.begun)  # at a block's end; the last part goes on
            end = min(a - (self.at - edge) // self.block * self.block, len(rows.y))
            here = [cut(rows, k, min(k + each, end)) for k in range(a, end, each)]
            found = self.crew.each([partial(self._sums, some, k) for k, some in enumerate(here)])
            for one, some in zip(found, here, strict=True):
                self._take(one, some, self.open_weight.shape[-1])
            self.at, a = self.at + end - a, end
            if self.at >= edge:
                self.close()

    def _devices(self) -> Devices:
        """Devices of the present round."""
        return Devices(self.plan, self.state, self.progress.gauge)

    def _sums(self, rows: Block, number: int, groups: int | None = None) -> Ints:
        """Sums of a block's reports, or several blocks', of the first so many groups; multiples of the step."""
        devices, blocks = self._devices(), max(len(rows.y) // self.block, 1)
        if self._grouped is not None:
            rows = by_group(rows, self._grouped[rows.cluster], self.plan.groups)
        # several blocks are played as one, with these groups once for each
        offsets, thresholds = np.tile(devices.state.offsets[:groups], (blocks, 1)), devices.state.thresholds[:groups]
        devices = devices._replace(state=devices.state._replace(offsets=offsets, thresholds=thresholds))
        name = f"{len(self.progress.held)} block {self.piece} {self.at // self.block + number}"
        out = devices.sums(rows, lambda count: self._normals(name, count))
        # what Gaussian noise falls on is far inside; single reports of a tiny budget may not be
        most = MOST * self.block / (2.0 * PIECE)
        each = np.asarray(np.rint(np.clip(out / STEP, -most, most)), dtype=np.int64)
        return np.asarray(each.reshape(blocks, -1, each.shape[1]).sum(axis=0))

    def _take(self, some: Ints, rows: Block, groups: int) -> None:
        """Add sums of reports of a block, or of several, of the first so many groups."""
        for a in range(0, len(rows.y), self.block):  # first: noise follows it
            self.open_weight[..., :groups] += self._weights(cut(rows, a, a + self.block), groups)
        self.raw.sum[..., :groups, :] += some

    def _weights(self, rows: Block, groups: int) -> Array:
        """Weights of a block's reports, summed by group."""
        if self._grouped is not None:
            return np.bincount(self._grouped[rows.cluster], rows.weight, groups).astype(np.float64)
        if rows.weight is None:
            return np.full(groups, len(rows.y) / groups)
        return np.asarray(rows.weight.reshape(groups, -1).sum(axis=1))

    def close(self) -> None:
        """Add noise to the open sum, once, and keep it.

        The order is such that an interrupt may lose reports, but never uses a sum, or noise, a second time.
        """
        part, _ = self._piece(self.begun)
        if self._held:  # rows that wait and are no whole block: equally many of each group, and one more of the first
            rows, groups = self._waiting(), self.open_weight.shape[-1]
            each = len(rows.y) // groups * groups if self._grouped is None else len(rows.y)
            if each:
                block = cut(rows, 0, each)
                self._take(self._sums(block, 0), block, groups)
            if left := len(rows.y) - each:
                rest = cut(rows, each, len(rows.y))
                self._take(self._sums(rest, 1, left), rest, left)
            self.at += len(rows.y)
        if self.at == self.begun:
            return
        noised, weight = self._noised(part), self.open_weight
        if self.key is not None:
            self.key = derived_key(self.key, "following")  # the key of noise that was used is forgotten
        self.piece += 1
        self._open()
        self.total[..., part, :, :] += noised
        self.weight[..., part, :] += weight

    def _normals(self, what: str, count: int) -> Array:
        """Standard normals that no others will ever share, never in a forked process; zeros without a key."""
        if self.key is None:
            return np.zeros(count)
        refuse_fork(self._process)
        return normals(derived_key(self.key, what), count)

    def _noised(self, part: int) -> Array:
        """Sums of the open piece with their noise, which is drawn here and nowhere else."""
        total = self.raw.sum * STEP
        devices = self._devices()
        if self.state.role == "measures":
            total[..., self.plan.measured :] *= devices.unit
        sd = self.plan.sd(self.state.role)
        if devices.each or devices.public or sd <= 0.0:
            return np.asarray(total)
        noise = self._normals(f"{len(self.progress.held)} {part} {self.piece}", total.size).reshape(total.shape)
        return np.asarray(total + sd * np.sqrt(self.open_weight)[..., None] * noise)

    def pieces(self, rows: int) -> list[tuple[int, int]]:
        """Parts and sizes of the pieces of a round that is played elsewhere, in order, of `rows` records at most."""
        size, at, out = min(self.size, rows), 0, []
        while at < size:
            part, end = self._piece(at)
            out.append((part, min(end, size) - at))
            at = end
        return out

    def add(self, part: int, rows: int, piece: Sent) -> None:
        """Take in a piece that was played elsewhere; the round ends with its last."""
        self.weight[part] += piece.weight
        self.total[part] += piece.total * STEP
        self.at += rows
        self._open()
        if self.at == self.size:
            self._finish()

    def _finish(self) -> None:
        self.close()
        self._over(self.reports)

    @property
    def reports(self) -> Batch:
        """Reports of the present round so far, with their noise."""
        return Batch(self.begun, self.total.copy(), self.weight.copy())

    @property
    def batches(self) -> Sequence[Batch]:
        """Batches that are saved: the present one, too."""
        return *self.chain.batches, self.reports

    def held(self) -> Held:
        """Public values from which results are made; open pieces are closed."""
        self.close()
        came, some = tuple(self.came), self.reports
        return replace(super().held(), open=some, came=came, unusable=self.unusable, personal=self.personal)

    # --- storage ---------------------------------------------------------------------------------------

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved stream is known to be this one's."""
        return [self.plan.rounds, self.plan.mechanism.name, self.plan.d, self.plan.blocks, self.plan.groups]

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but keys, see `Run.to_arrays`."""
        out = super().to_arrays(close=close)
        return out | {f"weight_{k}": b.weight for k, b in enumerate(self.batches)} | {"piece": np.array(self.piece)}

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave; a ValueError says that an array doesn't fit the plan."""
        piece = arrays["piece"]
        if piece.dtype != np.int64 or piece.ndim or piece < 0 or not len(arrays["people"]):
            raise ValueError("no counts")
        super().from_arrays(arrays)
        self.piece = int(piece)
        self._open()

    def _restore(self, number: int, people: int, arrays: dict[str, Any]) -> None:
        weight, total = like(self.weight, arrays[f"weight_{number}"]), like(self.total, arrays[f"total_{number}"])
        reports = Batch(people, total.copy(), weight.copy())
        over, records = number < len(arrays["people"]) - 1, float(weight.sum())
        counted = records <= people * (1.0 + 1e-9) if self.personal else records == people
        if weight.min() < 0.0 or not counted or (people != self.size if over else people > self.size):
            raise ValueError(f"round {number} of another plan")
        if over:
            self._over(reports)
        else:
            self.weight, self.total, self.at = reports.weight, reports.total, people

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key."""
        super().renew(key)
        self.piece += 1
