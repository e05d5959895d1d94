"""The simulation of all devices and the collector in one process: rows through the fused kernel.

Blocks of noise and of steps begin at fixed positions of the stream: how rows are cut into chunks changes no bit.
"""

from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.archive import expect, like
from privreg.base.arrays import Array
from privreg.collector.inference.resampling import Batches, batches
from privreg.privacy.mechanisms import Mechanism, width
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol import codes
from privreg.protocol.codes import BLOCK
from privreg.published.chain import collector, kernels
from privreg.published.chain import path as blocks
from privreg.published.chain.plans import Plan, State, Steps

MARKS_PER_DOUBLING = 4
STEP_BLOCK = 64 * BLOCK
BURN_IN = 16  # A path's curvature is taken from all of it but a sixteenth to an eighth


class Mark(NamedTuple):
    """Estimates after so many updates; these grow geometrically."""

    updates: int
    people: int
    mean: Array  # Averaged iterate, internal units; shape (p,)
    variances: Array  # Reported variances in the user's units; NaN where there are none; shape (p,)


class AveragedSGD:
    """A stream of a single chain in progress, of a plan and steps.

    The `state` is updated in place. `to_user`, shape (p, p), is the linear part of the map from internal to user's
    coefficients, with a further column of zeros for a residual scale; `key` the secret one of the devices' noise, None
    without privacy. `cut` are the marks of blocks of the path, if any; with `anytime` the trail has the variances of
    batch means; `mechanism` randomises reports of people with personal budgets.
    """

    parallel: Final = False  # True if threads are of use, and rows may come in any order
    again: Final = False  # True if all rows answer in each round
    absent: Final = 0.0  # Covariates of a record that sends noise only
    label: Final = False

    def __init__(
        self,
        plan: Plan,
        steps: Steps,
        state: State,
        to_user: Array,
        key: bytes | None,
        cut: blocks.Layout | None = None,
        *,
        anytime: bool = False,
        mechanism: Mechanism | None = None,
    ) -> None:
        p, d = len(state.theta), len(state.theta) // plan.blocks
        self.widths = {"score": width(plan.channel, p)}  # Standard normals of a report
        if plan.curvature_share:
            self.widths["curvature"] = width(plan.curvature_channel, d * (d + 1) // 2)
        self.plan, self.steps, self.state, self.to_user = plan, steps, state, to_user
        self.noise = dict[str, NoiseStream]()
        if key is not None:
            self.renew(key)
        side = p if plan.central else 0
        self.raw_curvature, self.raw_outer = np.zeros((2, side, side))
        self.trail: list[Mark] = []
        self.anytime, self.mechanism = anytime, mechanism
        self.crew: Any = None
        self.shuffled = 0.0
        self.central_key: bytes | None = None  # Key of the curator's one release; None once it was made
        self.blocks = None if cut is None else blocks.begin(cut, len(state.theta))
        self.early_grams = dict[int, Array]()  # Products of reports and iterates, after so many updates
        self._silence = {kind: np.zeros((4 * BLOCK, w)) for kind, w in {"curvature": 0, **self.widths}.items()}
        self._steps, self._steps_from = np.empty(0), 0

    def refuse(self, *_: int, clustered: bool) -> None:
        """Raise if the next rows can't be taken in; they can."""

    def asks_clamping(self, rows: int) -> bool:
        """False: nobody is asked whether bounds clamped their values."""
        return False

    def close(self) -> None:
        """Add noise to open sums: there are none."""

    @property
    def identity(self) -> list[Any]:
        """Public numbers by which a saved stream is known to be this one's."""
        return [self.plan, self.steps]

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key."""
        self.noise = {kind: NoiseStream(derived_key(key, kind), w) for kind, w in self.widths.items()}

    @property
    def updates(self) -> int:
        """Updates so far."""
        return int(self.state.counts[codes.UPDATES])

    @property
    def people(self) -> int:
        """People whose report has been taken."""
        return int(self.state.counts[codes.POSITION])

    noised = people  # everybody's report has its noise

    def to_arrays(self, *, close: bool = True) -> dict[str, Any]:
        """All there is to save but noise; public."""
        p, many = len(self.state.theta), len(self.early_grams)
        side = 2 * p + 1 if self.plan.outer == 2 else 0
        updates, people, means, variances = ([mark[j] for mark in self.trail] for j in range(4))
        return {f"state_{k}": v for k, v in self.state._asdict().items()} | {
            "trail_counts": np.array([updates, people], dtype=np.int64),
            "trail_means": np.array(means).reshape(-1, p),
            "trail_variances": np.array(variances).reshape(-1, len(self.to_user)),
            "early_at": np.array(list(self.early_grams), dtype=np.int64),
            "early_grams": np.array(list(self.early_grams.values())).reshape(many, side, side),
            **blocks.to_arrays(self.blocks),
        }

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave.
        Raises ValueError if an array doesn't fit the plan.
        """
        self.state = State(*(like(getattr(self.state, name), arrays[f"state_{name}"]) for name in State._fields))
        counts, means, variances = (arrays[f"trail_{name}"] for name in ("counts", "means", "variances"))
        kept = counts[0].tolist(), counts[1].tolist(), means, variances
        expect(
            bool(self.state.counts.min() >= 0 and self.state.counts[codes.IN_BATCH] < self.plan.batch),
            len({len(each) for each in kept}) == 1,
            all(array.dtype.kind in "fi" for array in (counts, means, variances)),
        )
        self.trail = [Mark(*one) for one in zip(*kept, strict=True)]
        side, many = 2 * len(self.state.theta) + 1 if self.plan.outer == 2 else 0, len(arrays["early_at"])
        at = like(np.zeros(many, dtype=np.int64), arrays["early_at"]).tolist()
        self.early_grams = dict(zip(at, like(np.zeros((many, side, side)), arrays["early_grams"]), strict=True))
        if self.blocks is not None:
            self.blocks = blocks.from_arrays(arrays, self.blocks.layout, len(self.state.theta), self.updates)

    def secrets(self, *, close: bool = True) -> dict[str, Any]:
        """Noise not yet used; whoever has it can take the noise off the reports to come."""
        return {f"secret_{kind}_{k}": v for kind, n in self.noise.items() for k, v in n.secret_state().items()}

    def take_secrets(self, secrets: dict[str, Any]) -> None:
        """Go on with the noise that `secrets` gave."""
        self.noise = {
            kind: NoiseStream.from_secret_state(w, secrets[f"secret_{kind}_key"], secrets[f"secret_{kind}_rest"])
            for kind, w in self.widths.items()
        }

    def advance(self, y: Array, x: Array, offset: Array | None = None, weight: Array | None = None, *_: Any) -> None:
        """Play the devices of these rows, in order: internal units and finite, `x` of shape (n, p) and C-contiguous.

        `weight`, shape (n,), are squared shares of the largest budget, where people have budgets of their own.
        """
        off = np.empty(0) if offset is None else offset
        ratios = np.empty(0)
        if weight is not None:
            assert self.mechanism is not None
            ratios = self.mechanism.ratios(np.sqrt(weight))
        i, n = 0, y.shape[0]
        while i < n:
            k = self.updates
            if k >= self._steps_from + self._steps.shape[0]:
                self._steps_from = k - k % STEP_BLOCK
                self._steps = self.steps.block(self._steps_from, STEP_BLOCK)
            at = k - self._steps_from
            mark = next_mark(k)
            stop = mark if self.blocks is None else min(mark, blocks.next_mark(self.blocks))
            steps = self._steps[at : at + max(stop - k, 1)]
            noise = self._silence | {kind: stream.peek() for kind, stream in self.noise.items()}
            rows, *used = kernels.fused(
                *(x[i:], y[i:], off[i:], steps, noise["score"], noise["curvature"], self.plan, self.state),
                *(self.raw_curvature, self.raw_outer, ratios[i:]),
            )
            for stream, many in zip(self.noise.values(), used, strict=False):
                stream.advance(many)
            i += rows
            if self.updates == k:
                continue
            if self.blocks is not None and self.updates == blocks.next_mark(self.blocks):
                self.blocks = blocks.noted(self.blocks, self.updates, self.state.total)
            if self.updates == mark:
                path = collector.final(self.state, self.plan)
                with np.errstate(all="ignore"):  # steps that overflow are refused where results are asked for
                    self.trail.append(Mark(mark, path.people, path.mean, self.variances(path)))
                if self.plan.outer == 2 and mark & (mark - 1) == 0:
                    self.early_grams = {k: g for k, g in self.early_grams.items() if 2 * BURN_IN * k >= mark}
                    self.early_grams[mark] = np.tril(path.outer * mark)
                if collector.is_turn(mark):  # all sums about the mean so far
                    self.state, move = collector.recentred(self.state, self.plan)
                    self.early_grams = {k: collector.moved_gram(g, move) for k, g in self.early_grams.items()}
                    self.blocks = None if self.blocks is None else blocks.moved(self.blocks, move)

    def variances(self, path: collector.ChainSummary) -> Array:
        """Reported variances, user's units: of batch means where intervals are to hold at all times, else of random
        scaling; NaN if there are none, shape (p,).
        """
        few = self.blocks is None or len(self.blocks.sums) < 2  # growing batches begin with two
        if few if self.anytime else not path.scaling.size:
            return np.full(len(self.to_user), np.nan)
        if self.anytime:
            return np.asarray(((self.to_user @ self.batches(path, growing=True).cov) * self.to_user).sum(axis=1))
        if path.scaling.ndim == 2:
            return np.asarray(6.0 * ((self.to_user @ path.scaling) * self.to_user).sum(axis=1) / path.updates)
        factors = np.append(1.0, np.diag(self.to_user)[1:])  # coordinate 0 is the user's intercept already
        return np.asarray(6.0 * (path.scaling * factors**2) / path.updates)

    def batches(self, path: collector.ChainSummary, *, growing: bool) -> Batches:
        """Batches of the path so far: growing ones, the first thrown away, or equal ones."""
        assert self.blocks is not None
        found, mean = self.blocks, path.mean - self.state.origin
        if not growing:
            sums = np.diff(found.sums, axis=0, prepend=np.zeros((1, len(mean))))
            return batches(sums, np.full(len(sums), float(found.length)), mean, float(path.updates))
        at, sums = np.array(found.layout.edges), found.edge_sums
        if not len(at) or at[-1] != path.updates or len(sums) < len(at):  # the marks that are nearest
            wished = np.array(blocks.growing_edges(path.updates, blocks.BATCHES, self.steps.alpha)) / found.length
            marks = np.unique(np.clip(np.rint(wished), 1, len(found.sums))).astype(int)
            at, sums = marks * found.length, found.sums[marks - 1]
        return blocks.growing_batches(sums, at, mean)

    def outside(self, cov: Array) -> Array:
        """Covariance of the user's coefficients, shape (p, p)."""
        return np.asarray(self.to_user @ cov @ self.to_user.T)

    def early(self, updates: int) -> tuple[int, Array]:
        """Updates of the burn-in, none of a short path, and the products of reports and iterates summed over it."""
        for k, gram in self.early_grams.items():
            if BURN_IN * k >= updates >= BURN_IN // 2 * k:
                return k, collector.symmetric(gram)
        return 0, np.zeros((2 * len(self.state.theta) + 1,) * 2)


def next_mark(k: int) -> int:
    """Next update count after `k` at which the trail is noted: four a doubling from 64 on."""
    if k < 64:
        return 64
    octave = 1 << (k.bit_length() - 1)
    step = octave // MARKS_PER_DOUBLING
    return (k // step + 1) * step
