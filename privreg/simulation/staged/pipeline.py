"""An efficient fit in progress: every person in one role, the devices and the collector played in one process.

Location → moments → pilot → common chain → lanes, see `schedule`. What a stage learned is public, being made of
reports, and sets the coordinates of the next. Noise belongs to positions of the stream, so that neither chunks nor
threads can change a bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from privreg.collector import curvature, location, moments
from privreg.collector import diagonal as wide
from privreg.collector import factors as cells
from privreg.collector.history import History
from privreg.device.sampler import KEY_BYTES, NoiseStream, derived_key
from privreg.inference import blocks
from privreg.simulation.sgd import next_mark
from privreg.simulation.staged import beginning, intervals, lanes, playing, saved
from privreg.simulation.staged.lanes import Chains, GroupEstimate
from privreg.simulation.staged.schedule import Stage, kappa_of

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from privreg.collector.factors import Cells
    from privreg.simulation.staged.start import Start

    Array = NDArray[np.float64]

__all__ = ["Pipeline"]

LEAST_WORTH: Final = 1e-9

QUIET_ROWS: Final = 1024


class Pipeline:
    """A stream in progress.

    Parameters
    ----------
    start : Start
    to_user : ndarray, shape (b d, b d)
        Linear part of the map from internal to user's coefficients, b the number of blocks.
    key : bytes or None
        Secret key of the devices' noise; None without privacy.
    """

    def __init__(self, start: Start, to_user: Array, key: bytes | None) -> None:
        self.start, self.to_user = start, to_user
        self.coefficients = int(to_user.shape[0])
        self.mapped = wide.mapped(to_user) if start.reports.blocks == 1 else None
        d = self.d = self.coefficients // start.reports.blocks
        self.people = 0
        self.stage, self.at = 0, 0
        self.past: list[int] = []  # people of the stages behind, 0 for one that was not held
        self.weight_here, self.weight_past = 0.0, 0.0
        self.growth = 1.0  # variance of an estimate where curvature depends on θ, over that where it is greatest
        # directions tell nothing of a common scale: where the design has no constant, moments get one
        self.extra = 1 - int(start.layout.constant)
        self.location = location.begin(len(start.unscaled))
        self.location_weight = 0.0  # of the unfinished batch
        self.scatter = moments.start_even(self.no_map(), self.factors)
        self.total, self.outer = np.zeros(self.numbers()), np.zeros((0, 0))
        self.y_centre, self.y_scale = 0.0, 1.0
        self.shares = np.full(d, np.nan)
        self.stretch = np.ones(d)
        self.tied = np.zeros(d, dtype=np.bool_)
        self.chains: Chains | None = None
        self.common: Chains | None = None
        self.blocks: blocks.Blocks | None = None
        self.history: History | None = None
        self.trail_people: list[int] = []
        self.trail_senders: list[int] = []
        self.trail_means: list[Array] = []
        self.trail_variances: list[Array] = []
        self.pool: Executor | None = None
        self.threads = 1
        self.noise: NoiseStream | None = None
        self.keys: list[bytes] = []
        if self.kind not in {"location", "moments"}:
            beginning.begin_chains(self)
        if key is not None:
            self.renew(key)

    # --- noise -----------------------------------------------------------------------------------------

    def renew(self, key: bytes) -> None:
        """Go on with noise of another key, here and in the stages to come."""
        stages = self.start.schedule.stages
        self.keys = [derived_key(key, f"{k} {stages[k].kind}") for k in range(self.stage, len(stages))]
        self._next_noise()

    def _next_noise(self) -> None:
        if self.keys:
            self.noise = NoiseStream(self.keys.pop(0), max(self.width(), 1))

    def width(self) -> int:
        """Standard normals that a person of the present stage takes."""
        kind, reports = self.kind, self.start.reports
        if kind == "moments" and reports.label:
            return 0
        if kind in {"location", "moments", "measures"}:
            return reports.mechanism.width(self.numbers())
        return reports.mechanism.width(reports.size(self.d, kappa_of(kind, self.start.rules)))

    def numbers(self) -> int:
        """Numbers in a report of the present stage on scales or fit; 0 for chains."""
        if self.kind == "measures":
            return self.start.told
        if self.kind == "location":
            return 2 * len(self.start.unscaled)
        return self.moment_numbers() if self.kind == "moments" else 0

    def moment_numbers(self) -> int:
        """Numbers in a report on moments."""
        if self.start.wide is not None:
            return 2 * len(self.start.wide.columns)
        size = self.size(before=True)
        return size * (size + 1) // 2

    def size(self, *, before: bool) -> int:
        """Coordinates of the learned map before the chains begin, or afterwards."""
        return self.d + int(self.start.layout.response) + (self.extra if before else 0)

    def no_map(self) -> Array:
        """Row map before anything is learned."""
        if self.start.wide is not None:
            return wide.start(self.start.wide, np.array([np.ones(self.d), np.zeros(self.d)]))
        return np.eye(self.size(before=True))

    def newton_shape(self) -> tuple[int, int]:
        """Shape of P, of which a wide design with one linear predictor has the diagonal alone."""
        diagonal = self.start.wide is not None and self.start.reports.blocks == 1
        return (1 if diagonal else self.coefficients, self.coefficients)

    # --- people ----------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Role of the people who come next."""
        return self.start.schedule.stages[self.stage].kind

    @property
    def first_round(self) -> bool:
        """Whether this is the first round on moments; of public covariates, it tells their scales alone."""
        stages = self.start.schedule.stages
        return self.kind == "moments" and (self.stage == 0 or stages[self.stage - 1].kind != "moments")

    @property
    def here(self) -> Stage:
        """Present stage: where effects are strong, and estimates that much less precise, it takes more people.

        Lanes that end have those who are left by then.
        """
        stage = self.start.schedule.stages[self.stage]
        if self.growth > 1.0 and stage.kind in {"search", "pilot", "common"}:
            wanted = stage.wanted * self.growth
            size = self.start.schedule.batch
            return stage._replace(people=max(int(min(wanted, stage.most)) // size, 1) * size, wanted=wanted)
        if stage.kind == "lanes" and stage.people >= 0:
            before = sum(self.past[: self.stage])
            people = max(self.start.schedule.before("measures") - before, self.start.schedule.batch)
            return stage._replace(people=people, most=people, wanted=math.inf)
        return stage

    def roles(self) -> list[tuple[Stage, int]]:
        """Stages begun so far, and how many people each has had."""
        return list(zip(self.start.schedule.stages, [*self.past, self.at], strict=False))

    @property
    def worth(self) -> float:
        """Mean weight of the people of the stages behind: 1 but for personal budgets."""
        people = self.people - self.at
        if not people or self.weight_past == people:
            return 1.0
        return max(self.weight_past / people, LEAST_WORTH)

    def advance(
        self, y: Array, x: Array, offset: Array | None = None, weight: Array | None = None, *, lead: bool = False
    ) -> int:
        """Play the devices of these rows, in order; how many were played.

        Parameters
        ----------
        y : ndarray, shape (n,)
        x : ndarray, shape (n, d)
            C-contiguous, its first column the constant if there is one.
        offset : ndarray, shape (n,), optional
            All in internal units; rows of people who have nothing to tell are NaN.
        weight : ndarray, shape (n,), optional
            Weights (μ_i/μ_max)² in (0, 1] of people with personal budgets.
        lead : bool
            Whether to stop where the lanes begin.

        Returns
        -------
        int
        """
        i, n = 0, y.shape[0]
        while i < n and not (lead and self.kind == "lanes"):
            stage = self.here
            m, reached = self._until(stage, n - i, None if weight is None else weight[i:])
            off = None if offset is None else offset[i : i + m]
            w = np.empty(0) if weight is None else weight[i : i + m]
            if stage.kind == "location":
                playing.locate(self, y[i : i + m], x[i : i + m], off, w, stage)
            elif stage.kind == "moments":
                playing.measure(self, y[i : i + m], x[i : i + m], off, w)
            elif stage.kind == "measures":
                playing.assess(self, y[i : i + m], x[i : i + m], off, w)
            else:
                playing.run_chain(self, y[i : i + m], x[i : i + m], off, w)
            self.at += m
            self.people += m
            i += m
            if self.blocks is not None and stage.kind == "lanes" and self.at == self._block_end():
                self._note_block()
            if self.history is not None and stage.kind == "lanes" and self.at % self._round == 0:
                assert self.chains is not None
                self.history.note(self.chains.state.partial)
            if stage.kind == "lanes" and self.at == self.start.schedule.next_meeting(self.at - 1):
                self._meet()
            if self.people == next_mark(self.people - 1):
                self._note()
            if reached:
                self._finish(stage)
        return i

    def _until(self, stage: Stage, left: int, weight: Array | None) -> tuple[int, bool]:
        """How many of the `left` people come before the next mark and the stage's end, and whether they reach it."""
        m = min(left, next_mark(self.people) - self.people)
        if self.blocks is not None and stage.kind == "lanes":
            m = min(m, self._block_end() - self.at)
        if self.history is not None and stage.kind == "lanes":
            m = min(m, self._round - self.at % self._round)
        if stage.kind == "lanes":
            m = min(m, self.start.schedule.next_meeting(self.at) - self.at)
        if weight is None:
            m = m if stage.people < 0 else min(m, stage.people - self.at)
            self.weight_here += m
            return m, self.at + m == stage.people
        # summed person by person, so that chunks can't change a bit
        sums = np.cumsum(np.concatenate([[self.weight_here], weight[:m]]))[1:]
        enough = stage.people >= 0 and stage.kind != "location"
        there = np.flatnonzero(sums >= stage.wanted) if enough else np.empty(0)
        m = int(there[0]) + 1 if there.size else m
        most = stage.people if stage.kind == "location" else stage.most
        m = int(min(m, most - self.at)) if stage.people >= 0 else m
        self.weight_here = float(sums[m - 1])
        return m, stage.people >= 0 and (self.at + m == most or (enough and self.weight_here >= stage.wanted))

    def draw(self, rows: int) -> Array:
        """Noise of the next people, at most `rows` of them; a view."""
        if self.noise is None:
            return np.zeros((min(rows, QUIET_ROWS), max(self.width(), self.numbers())))
        return self.noise.peek()[:rows]

    def used(self, rows: int) -> None:
        """Mark as used the noise of so many people."""
        if self.noise is not None:
            self.noise.advance(rows)

    def response(self, y: Array, offset: Array | None) -> Array:
        """Response less its offset, in units of the learned scale."""
        with np.errstate(over="ignore", invalid="ignore"):  # a warning would tell of one value
            r = y if offset is None else y - offset
            if (self.y_centre, self.y_scale) == (0.0, 1.0):
                return r
            return np.asarray((r - self.y_centre) / self.y_scale)

    def moment_radius(self) -> float:
        """Radius by which a moment report is randomised."""
        mechanism = self.start.reports.mechanism
        return mechanism.moment_radius() if self.start.wide is None else mechanism.bits_radius(self.moment_numbers())

    # --- storage ---------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """All there is to save but noise; public."""
        return saved.to_arrays(self)

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave; a ValueError says that an array doesn't fit the plan."""
        saved.from_arrays(self, arrays)

    def secrets(self) -> dict[str, Any]:
        """Noise not yet used, and the keys of stages to come."""
        if self.noise is None:
            return {}
        keys = np.frombuffer(b"".join(self.keys), dtype=np.uint8)
        return {f"secret_score_{k}": v for k, v in self.noise.secret_state().items()} | {"secret_keys": keys}

    def take_secrets(self, secrets: dict[str, Any]) -> None:
        """Go on with the noise that `secrets` gave."""
        flat = secrets["secret_keys"].tobytes()
        if len(flat) != KEY_BYTES * (len(self.start.schedule.stages) - self.stage - 1):
            raise ValueError("keys of another plan")
        self.keys = [flat[i : i + KEY_BYTES] for i in range(0, len(flat), KEY_BYTES)]
        self.noise = NoiseStream.from_secret_state(
            max(self.width(), 1), secrets["secret_score_key"], secrets["secret_score_rest"]
        )

    # --- from stage to stage ---------------------------------------------------------------------------

    @property
    def whitener(self) -> Array:
        """Row map of the covariates in the chains, shape (d, d), or (2, d) of a wide design."""
        if self.start.wide is not None:
            return self.scatter.rows
        rows = np.ascontiguousarray(self.scatter.rows[: self.d, : self.d])
        return rows if self.start.whitened else curvature.scaled(rows, self.start.layout.constant)

    def _finish(self, stage: Stage) -> None:
        """Take up what a stage has learned, and begin the next."""
        if stage.kind == "location":
            beginning.place(self)
        elif stage.kind == "moments":
            if self.start.wide is not None:
                self.scatter = moments.start_from(
                    wide.learn(
                        *(self.start.wide, self.scatter.rows, self.total, self.weight_here, self.moment_sd()),
                        constant=self.start.layout.constant,
                    )
                )
            elif self.start.reports.label:
                if self.first_round:
                    self.scatter = moments.sizes(self.scatter, self.total)
                else:
                    self.scatter = moments.exact(self.scatter, self.total, self.start.gaps)
            else:
                self.scatter = moments.learn(
                    *(self.scatter, self.total, self.weight_here, self.moment_sd()),
                    self.start.layout._replace(constant=True),
                    self.factors,
                    nonresponse=self.start.nonresponse,
                )
        elif stage.kind == "common":
            self.common = self.chains
        self.past.append(self.at)
        self.weight_past += self.weight_here
        self.stage, self.at, self.weight_here = self.stage + 1, 0, 0.0
        self._next_noise()
        following = self.start.schedule.stages[self.stage]
        if following.kind == "moments" and following.optional and not (self._correlated() or self._unsure()):
            self.past.append(0)
            self.stage += 1
            self._next_noise()
        if self.kind in {"location", "moments", "measures"}:
            self.total = np.zeros(self.numbers())
            self.outer = np.zeros((len(self.total),) * 2) if self.kind == "measures" else self.outer
        else:
            self.total = np.zeros(0)
            beginning.begin_chains(self)

    def moment_sd(self) -> float:
        """Noise sd per coordinate of a moment report."""
        return self.start.reports.mechanism.sd(self.moment_radius(), self.moment_numbers())

    @property
    def factors(self) -> tuple[Cells, ...]:
        """Columns made of factors alone, where moments are told."""
        return tuple(g._replace(columns=g.columns + self.extra) for g in self.start.cells)

    def _correlated(self) -> bool:
        """Whether the covariates have turned out so correlated that another round of moments pays."""
        d = self.d + self.extra
        return curvature.is_correlated(self.scatter.rows[:d, :d], constant=True)

    def _unsure(self) -> bool:
        """Whether another round of moments pays because a level is rare for what is known of its share."""
        shares = cells.shrunk(self.factors, self.scatter.shares)
        return bool(shares) and cells.unsure(np.concatenate(shares), self.scatter.shares.variance)

    def _meet(self) -> None:
        """Let the lanes go on from their pooled estimate: what they began with is forgotten, their sums stay."""
        assert self.chains is not None
        self.chains.state.theta[:] = lanes.pooled(self.groups())

    # --- blocks of the lanes' paths --------------------------------------------------------------------

    @property
    def _round(self) -> int:
        """People who are asked once in every lane."""
        return self.start.schedule.batch * self.start.schedule.lanes

    def _block_end(self) -> int:
        """People of the lanes' stage at whose number the lanes' sums are noted next."""
        assert self.blocks is not None
        return blocks.next_mark(self.blocks) * self._round

    def _note_block(self) -> None:
        assert self.blocks is not None
        assert self.chains is not None
        state = self.chains.state
        here = state.partial.copy(), state.weight[:, 0].copy()
        self.blocks = blocks.noted(self.blocks, self.at // self._round, *here)

    # --- estimates -------------------------------------------------------------------------------------

    def groups(self) -> list[GroupEstimate]:
        """Estimates of the common chain and of every lane, of disjoint people; empty before the common chain."""
        if self.chains is None or self.kind in {"search", "pilot"}:
            return []
        out = lanes.corrected(self.chains.state, self.chains.plan, self.chains.newton)
        if self.common is not None:
            out = lanes.corrected(self.common.state, self.common.plan, self.chains.newton) + out
        return out

    def estimate(self) -> Array | None:
        """Coefficients so far, whitened coordinates; None while scales are being learned."""
        groups = self.groups()
        # while few have come, one-step corrections of a bent score scatter more than the chain itself
        early = self.kind == "common" and self.start.rules.moving and 2 * self.at < self.here.people
        if groups and not early:
            return self._possible(lanes.pooled(groups))
        if self.chains is not None:
            return np.asarray(self.chains.state.theta.mean(axis=0))
        return None

    def _possible(self, theta: Array) -> Array:
        """Keep the location of a response alone inside its public limits."""
        start = self.start
        if self.coefficients > 1 or not start.layout.constant or start.rules.moving:
            return theta
        low, high = ((v - self.y_centre) / self.y_scale for v in (start.reports.y_low, start.reports.y_high))
        return np.clip(theta, low, high)

    def last(self) -> Array | None:
        """Mean of the current iterates, whitened coordinates."""
        return None if self.chains is None else np.asarray(self.chains.state.theta.mean(axis=0))

    @property
    def in_lanes(self) -> bool:
        """Whether every lane has been updated."""
        chains = self.chains if self.kind in {"lanes", "measures"} else None
        return chains is not None and bool(chains.state.updates.all())

    @property
    def lane_share(self) -> float:
        """Share of the estimate's weight that the lanes have; the rest is the common chain's."""
        common, *others = self.groups()
        mine = sum(g.weight for g in others)
        return mine / (mine + common.weight)

    def inside(self, theta: Array) -> Array:
        """Coefficients in internal units, shape (b d,)."""
        out = self.y_scale * curvature.inside(theta.reshape(-1, self.d), self.whitener).reshape(-1)
        if self.start.layout.constant:
            out[0] += self.y_centre
        return np.asarray(out)

    def linear(self) -> Array:
        """Linear part of `inside`, shape (b d, b d)."""
        if self.start.wide is not None:
            whole = np.diag(self.whitener[0])
            whole[:, 0] += self.whitener[1]
            return np.asarray(np.kron(np.eye(self.start.reports.blocks), self.y_scale * whole.T))
        return np.asarray(np.kron(np.eye(self.start.reports.blocks), self.y_scale * self.whitener.T))

    def outside(self, moves: Array) -> Array:
        """Differences of coefficients, shape (m, b d), in the user's units; without the matrix of `linear`."""
        inner = self.y_scale * curvature.inside(moves.reshape(-1, self.d), self.whitener).reshape(moves.shape)
        return np.asarray(inner @ self.to_user.T) if self.mapped is None else self.mapped(inner)

    def _note(self) -> None:
        theta = self.estimate()
        if theta is None:
            return
        self.trail_people.append(self.people)
        self.trail_senders.append(sum(g.people for g in self.groups()))
        self.trail_means.append(self.inside(theta))
        self.trail_variances.append(intervals.pipeline_variances(self))
