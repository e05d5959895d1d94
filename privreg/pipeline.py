"""An efficient fit in progress: every person in one role, the devices and the collector played in one process.

Location → moments → pilot → common chain → lanes, see `stages`. What a stage learned is public, being made of
reports, and sets the coordinates of the next. Noise belongs to positions of the stream, so that neither chunks nor
threads can change a bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg import checkpoint, coordinates, kernels, lanes, location, whitening
from privreg.engine import next_mark
from privreg.lanes import Chains, Group
from privreg.noise import KEY_BYTES, NoiseStream, derived_key
from privreg.stages import ChainRules, Schedule, Stage, chain_steps, lane_plan
from privreg.whitening import Layout

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from privreg.mechanisms import Gaussian

    Array = NDArray[np.float64]

__all__ = ["Pipeline", "Start"]

SPREAD: Final = {"search": 0.35, "pilot": 0.25, "common": 0.25, "lanes": 0.25}
"""Sd of z'θ to aim at with 4 coefficients where curvature depends on it; it grows with d, as that of an estimate."""

WIDEST: Final = 0.7

NEAR: Final = 6.0
"""Sd of z'θ in linear lanes, as a multiple of the final estimate's: more would bias where errors are skewed."""

QUIET_ROWS: Final = 1024


class Start(NamedTuple):
    """What is known before the first person. Public.

    Attributes
    ----------
    schedule : Schedule
    rules : ChainRules
    layout : Layout
    mechanism : Gaussian
    reach : float
        Bound of a weighted unit score's norm.
    unscaled : tuple of int
        Columns whose location and scale are learned; d stands for the response.
    theta : ndarray, shape (d,), or None
        The user's first guess, internal units.
    c : float
        Huber's corner if it is not learned, internal units.
    gaps : tuple of float
        For each column that takes two values only, how far apart they are inside; 0 for the others.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    path : bool
        Whether random scaling is wanted.
    """

    schedule: Schedule
    rules: ChainRules
    layout: Layout
    mechanism: Gaussian
    reach: float
    unscaled: tuple[int, ...]
    theta: Array | None
    c: float
    gaps: tuple[float, ...]
    whitened: bool
    path: bool


class Pipeline:
    """A stream in progress.

    Parameters
    ----------
    start : Start
    to_user : ndarray, shape (d, d)
        Linear part of the map from internal to user's coefficients.
    key : bytes or None
        Secret key of the devices' noise; None without privacy.
    """

    def __init__(self, start: Start, to_user: Array, key: bytes | None) -> None:
        self.start, self.to_user = start, to_user
        d = self.d = int(to_user.shape[0])
        self.people = 0
        self.stage, self.at = 0, 0
        self.spared = 0
        # directions tell nothing of a common scale: where the design has no constant, moments get one
        self.extra = 1 - int(start.layout.constant)
        self.location = location.begin(len(start.unscaled))
        self.scatter = whitening.start_from(np.eye(self.size(before=True)))
        self.total = np.zeros(self.width())
        self.y_centre, self.y_scale = 0.0, 1.0
        self.shares = np.full(d, np.nan)
        self.chains: Chains | None = None
        self.common: Chains | None = None
        self.trail_people: list[int] = []
        self.trail_means: list[Array] = []
        self.trail_variances: list[Array] = []
        self.pool: Executor | None = None
        self.threads = 1
        self.noise: NoiseStream | None = None
        self.keys: list[bytes] = []
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
            self.noise = NoiseStream(self.keys.pop(0), self.width())

    def width(self) -> int:
        """Numbers in a report of the present stage."""
        kind = self.kind
        if kind == "location":
            return 2 * len(self.start.unscaled)
        if kind == "moments":
            size = self.size(before=True)
            return size * (size + 1) // 2
        return self.d + int(self.start.rules.track and kind != "lanes")

    def size(self, *, before: bool) -> int:
        """Coordinates of the learned map before the chains begin, or afterwards."""
        return self.d + int(self.start.layout.response) + (self.extra if before else 0)

    # --- people ----------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Role of the people who come next."""
        return self.start.schedule.stages[self.stage].kind

    def roles(self) -> list[tuple[Stage, int]]:
        """Stages begun so far, and how many people each has had."""
        stages = self.start.schedule.stages
        done = [(s, 0 if s.optional and self.spared else s.people) for s in stages[: self.stage]]
        return [*done, (stages[self.stage], self.at)]

    def advance(self, y: Array, x: Array, offset: Array | None = None) -> None:
        """Play the devices of these rows, in order.

        Parameters
        ----------
        y : ndarray, shape (n,)
        x : ndarray, shape (n, d)
            C-contiguous, its first column the constant if there is one.
        offset : ndarray, shape (n,), optional
            All in internal units and finite.
        """
        i, n = 0, y.shape[0]
        while i < n:
            stage = self.start.schedule.stages[self.stage]
            left = n - i if stage.people < 0 else min(n - i, stage.people - self.at)
            m = min(left, next_mark(self.people) - self.people)
            off = None if offset is None else offset[i : i + m]
            if stage.kind == "location":
                self._locate(y[i : i + m], x[i : i + m], off, stage)
            elif stage.kind == "moments":
                self._measure(y[i : i + m], x[i : i + m], off)
            else:
                self._chain(y[i : i + m], x[i : i + m], off)
            self.at += m
            self.people += m
            i += m
            if self.people == next_mark(self.people - 1):
                self._note()
            if self.at == stage.people:
                self._finish(stage)

    def _draw(self, rows: int) -> Array:
        """Noise of the next people, at most `rows` of them; a view."""
        if self.noise is None:
            return np.zeros((min(rows, QUIET_ROWS), self.width()))
        return self.noise.peek()[:rows]

    def _used(self, rows: int) -> None:
        if self.noise is not None:
            self.noise.advance(rows)

    def _response(self, y: Array, offset: Array | None) -> Array:
        r = y if offset is None else y - offset
        if (self.y_centre, self.y_scale) == (0.0, 1.0):
            return r
        with np.errstate(over="ignore"):  # a warning would tell of one value
            return np.asarray((r - self.y_centre) / self.y_scale)

    def _locate(self, y: Array, x: Array, offset: Array | None, stage: Stage) -> None:
        mechanism, columns = self.start.mechanism, self.start.unscaled
        both = np.column_stack([x, self._response(y, offset)])
        v = np.ascontiguousarray(both[:, list(columns)])
        sd, size = mechanism.bits_sd(2 * len(columns)), stage.people // location.BATCHES
        at, i = self.at, 0
        while i < len(v):
            noise = self._draw(min(len(v) - i, size - at % size))
            m = len(noise)
            kernels.location_reports(
                v, self.location.centre, np.exp(self.location.log_spread), noise, sd, self.total, i, m
            )
            self._used(m)
            i, at = i + m, at + m
            if at % size == 0:
                self.location = location.learn(self.location, self.total / size)
                self.total = np.zeros_like(self.total)

    def _measure(self, y: Array, x: Array, offset: Array | None) -> None:
        response = [self._response(y, offset)] if self.start.layout.response else []
        v = np.column_stack([*[np.ones(len(y))] * self.extra, x, *response])
        v, sd, i = np.ascontiguousarray(v), self.start.mechanism.moment_sd(), 0
        while i < len(v):
            noise = self._draw(len(v) - i)
            kernels.moment_reports(v, self.scatter.rows, noise, sd, self.total, i, len(noise))
            self._used(len(noise))
            i += len(noise)

    def _chain(self, y: Array, x: Array, offset: Array | None) -> None:
        assert self.chains is not None
        plan, state, newton, chain = self.chains
        rows = self.whitener
        r = self._response(y, None)
        off = np.empty(0) if offset is None else offset / self.y_scale
        pool = self.pool if plan.lanes > 1 else None
        at, i = self.at, 0
        while i < len(r):
            if pool is None or self.noise is None:
                noise = self._draw(len(r) - i)
            else:
                noise = self.noise.take(len(r) - i, pool)
            m = len(noise)
            first = at // plan.batch // plan.lanes
            last = (at + m - 1) // plan.batch // plan.lanes
            steps, gains = chain.block(first, last - first + 1)
            given = (x[i : i + m], r[i : i + m], off[i : i + m], rows, newton, steps, gains, noise, at)

            def work(thread: int, threads: int, given: Any = given) -> None:
                kernels.run_lanes(*given, thread, threads, plan, state)

            if pool is None or self.noise is None:
                work(0, 1)
                self._used(m)
            else:
                list(pool.map(work, range(self.threads), [self.threads] * self.threads))
            i, at = i + m, at + m

    # --- storage ---------------------------------------------------------------------------------------

    def to_arrays(self) -> dict[str, Any]:
        """All there is to save but noise; public."""
        return checkpoint.to_arrays(self)

    def from_arrays(self, arrays: dict[str, Any]) -> None:
        """Take over what `to_arrays` gave; a ValueError says that an array doesn't fit the plan."""
        checkpoint.from_arrays(self, arrays)

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
            self.width(), secrets["secret_score_key"], secrets["secret_score_rest"]
        )

    # --- from stage to stage ---------------------------------------------------------------------------

    @property
    def whitener(self) -> Array:
        """Row map of the covariates in the chains, shape (d, d)."""
        rows = np.ascontiguousarray(self.scatter.rows[: self.d, : self.d])
        return rows if self.start.whitened else coordinates.scaled(rows, self.start.layout.constant)

    def _finish(self, stage: Stage) -> None:
        """Take up what a stage has learned, and begin the next."""
        if stage.kind == "location":
            self._place()
        elif stage.kind == "moments":
            self.scatter = whitening.learn(
                *(self.scatter, self.total, stage.people, self.start.mechanism.moment_sd()),
                self.start.layout._replace(constant=True),
            )
        elif stage.kind == "common":
            self.common = self.chains
        self.stage += 1
        self.at = 0
        self._next_noise()
        following = self.start.schedule.stages[self.stage]
        if following.kind == "moments" and following.optional and not self._correlated():
            self.spared = following.people
            self.stage += 1
            self._next_noise()
        if self.kind in {"location", "moments"}:
            self.total = np.zeros(self.width())
        else:
            self.total = np.zeros(0)
            self._begin_chains()

    def lost(self) -> list[int]:
        """Columns, d for the response, whose spread had not settled when the search for it ended."""
        if self.stage == 0 or not self.start.unscaled:
            return []
        outside, people = location.outside(self.location, self.start.schedule.people("location"))
        sd = self.start.mechanism.bits_sd(2 * len(self.start.unscaled)) + 0.5
        away = (outside - location.TARGET) * math.sqrt(people) / sd
        far = (away < -2.5) | (away > 4.0)  # a spread that falls on and on is the worse of the two
        return [j for j, is_far in zip(self.start.unscaled, far, strict=True) if is_far]

    def _place(self) -> None:
        """Begin whitening from the learned locations and scales."""
        centre, scale = location.centre_and_scale(self.location)
        rows = np.array(self.scatter.rows)
        for j, m, s in zip(self.start.unscaled, centre, scale, strict=True):
            if j == self.d:
                shift = m if self.start.layout.constant else 0.0
                self.y_centre, self.y_scale = float(shift), float(s if shift == m else math.hypot(s, m))
                continue
            k = j + self.extra
            rows[k, k], rows[k, 0] = 1.0 / s, -m / s
        self.scatter = whitening.start_from(rows)

    def _begin_chains(self) -> None:
        start, stage = self.start, self.start.schedule.stages[self.stage]
        linear, constant = start.rules.family == kernels.HUBER, start.layout.constant
        if self.chains is None:
            rows = coordinates.without_constant(self.scatter.rows, self.d) if self.extra else self.scatter.rows
            rows, self.shares = coordinates.bring_in(rows, start.gaps, constant)
            self.scatter = whitening.start_from(rows)
            theta, log_c = self._first_guess()
        else:
            theta, log_c = lanes.late_average(self.chains.state, self.chains.plan)
            if stage.kind == "lanes" and linear:
                theta = lanes.pooled(lanes.corrected(self.chains.state, self.chains.plan, self.chains.newton))
        plan = lane_plan(stage, start.schedule, start.rules, start.mechanism, start.reach, start.path)
        rows = self.scatter.rows[: self.d, : self.d]
        newton, curvature = coordinates.expect(
            start.rules, theta, rows, start.gaps, self.shares, constant=constant, whitened=start.whitened
        )
        spread = 1.0 if linear else min(SPREAD[stage.kind] * self.d / 4.0, WIDEST)
        if linear and stage.kind == "lanes":
            people = start.schedule.rows or 8 * self.people
            spread = min(NEAR * 2.0 * self.d / (curvature * start.schedule.effective * math.sqrt(people)), 1.0)
        steps = chain_steps(stage, start.schedule, start.rules, plan, curvature, spread, self.d)
        self.chains = Chains(plan, lanes.init(theta, log_c, plan), newton, steps)

    def _correlated(self) -> bool:
        """Whether the covariates have turned out so correlated that another round of moments pays."""
        d = self.d + self.extra
        return coordinates.is_correlated(self.scatter.rows[:d, :d], constant=True)

    def rare(self) -> list[int]:
        """Two-valued columns with too few people on one side; see `coordinates.rare`."""
        start = self.start
        return coordinates.rare(self.shares, start.rules, start.schedule.effective, self.people) if self.chains else []

    def wide(self) -> list[tuple[int, float]]:
        """Columns whose bounds are much wider than what was learned; see `coordinates.wide`."""
        start = self.start
        return (
            coordinates.wide(self.scatter.rows, start.gaps, start.unscaled, start.layout.constant)
            if self.chains
            else []
        )

    def _first_guess(self) -> tuple[Array, float]:
        """Where the pilot begins: the user's guess, or the regression that the moments imply."""
        start, d = self.start, self.d
        theta, log_c = np.zeros(d), 0.0
        if start.layout.response:
            last = self.scatter.rows[d]
            theta = np.asarray(-np.linalg.solve(self.whitener.T, last[:d] / last[d]))
            log_c = math.log(start.rules.ratio / last[d])
        if start.theta is not None:
            guess = np.array(start.theta)
            guess = guess / self.y_scale
            if start.layout.constant:
                guess[0] -= self.y_centre / self.y_scale
            theta = np.asarray(np.linalg.solve(self.whitener.T, guess))
        if start.rules.family == kernels.HUBER and not start.rules.track:
            log_c = math.log(start.c / self.y_scale)
        return theta, log_c

    # --- estimates -------------------------------------------------------------------------------------

    def groups(self) -> list[Group]:
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
        if groups:
            return lanes.pooled(groups)
        if self.chains is not None:
            return np.asarray(self.chains.state.theta.mean(axis=0))
        return None

    def last(self) -> Array | None:
        """Mean of the current iterates, whitened coordinates."""
        return None if self.chains is None else np.asarray(self.chains.state.theta.mean(axis=0))

    def covariances(self) -> dict[str, Array]:
        """Covariance of the estimate by method, whitened coordinates, as far as known."""
        out: dict[str, Array] = {}
        if self.kind != "lanes" or self.chains is None or not self.chains.state.updates.all():
            return out
        if self.chains.plan.path and int(self.chains.state.updates.sum()) < self.chains.plan.lanes + self.d:
            return out  # a path of one update does not move, and d directions need as many moves
        groups = self.groups()
        if self.chains.plan.lanes > 1:
            out["between_lanes"] = lanes.between(groups)
        if self.chains.plan.path:
            mine = sum(g.weight for g in groups[1:])
            share = mine / (mine + groups[0].weight)
            updates = int(self.chains.state.updates.sum())
            out["random_scaling"] = 6.0 * lanes.scaling(self.chains.state) / updates * share
        return out

    def inside(self, theta: Array) -> Array:
        """Coefficients in internal units, shape (d,)."""
        out = self.y_scale * (self.whitener.T @ theta)
        if self.start.layout.constant:
            out[0] += self.y_centre
        return np.asarray(out)

    def linear(self) -> Array:
        """Linear part of `inside`, shape (d, d)."""
        return np.asarray(self.y_scale * self.whitener.T)

    def _note(self) -> None:
        theta = self.estimate()
        if theta is None:
            return
        self.trail_people.append(self.people)
        self.trail_means.append(self.inside(theta))
        self.trail_variances.append(self.variances())

    def variances(self) -> Array:
        """Reported variances, user's units: by random scaling if that is wanted, else between lanes; NaN if by none."""
        covs = self.covariances()
        cov = covs.get("random_scaling", covs.get("between_lanes"))
        if cov is None:
            return np.full(self.d, np.nan)
        linear = self.to_user @ self.linear()
        return np.asarray(((linear @ cov) * linear).sum(axis=1))
