"""An efficient fit in progress: every person in one role, the devices and the collector played in one process.

Location → moments → pilot → common chain → lanes, see `stages`. What a stage learned is public, being made of
reports, and sets the coordinates of the next. Noise belongs to positions of the stream, so that neither chunks nor
threads can change a bit.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg import checkpoint, coordinates, kernels, lanes, location, measures, playing, whitening
from privreg.engine import next_mark
from privreg.lanes import Chains, Group
from privreg.noise import KEY_BYTES, NoiseStream, derived_key
from privreg.stages import Reports, Schedule, Stage, chain_steps, kappa_of, lane_plan
from privreg.whitening import Layout

if TYPE_CHECKING:
    from concurrent.futures import Executor

    from numpy.typing import NDArray

    from privreg.rules import ChainRules

    Array = NDArray[np.float64]

__all__ = ["Pipeline", "Start"]

SPREAD: Final = {"search": 0.35, "pilot": 0.25, "common": 0.25, "lanes": 0.25}
"""Sd of z'θ to aim at with 4 coefficients where curvature depends on it; it grows with d, as that of an estimate."""

WIDEST: Final = 0.7

MOST_GROWTH: Final = 1000.0

RELATIVE: Final = 0.15
"""The same relative to the length of θ, with which the stretch grows over which the score bends."""

NEAR: Final = {False: 6.0, True: 3.0}
"""Sd of z'θ in linear lanes, as a multiple of the final estimate's: more would bias where errors are skewed, and
sooner where the loss itself is."""

LEAST_WORTH: Final = 1e-9

QUIET_ROWS: Final = 1024


class Start(NamedTuple):
    """What is known before the first person. Public.

    Attributes
    ----------
    schedule : Schedule
    rules : ChainRules
    layout : Layout
    reports : Reports
    unscaled : tuple of int
        Columns whose location and scale are learned; d stands for the response.
    theta : ndarray, shape (b d,), or None
        The user's first guess, internal units, b the number of blocks.
    c : float
        The corner if it is not learned, internal units.
    gaps : tuple of float
        For each column that takes two values only, how far apart they are inside; 0 for the others.
    whitened : bool
        Whether score weights are those of whitened covariates, or of scaled ones.
    path : bool
        Whether random scaling is wanted.
    personal : bool
        Whether people have budgets of their own.
    silence : bool
        Whether people may send noise only.
    gauge : Gauge or None
        By what fit is measured, before what is learned; None if it is not.
    told : int
        Numbers that people report whom the fit is measured by.
    """

    schedule: Schedule
    rules: ChainRules
    layout: Layout
    reports: Reports
    unscaled: tuple[int, ...]
    theta: Array | None
    c: float
    gaps: tuple[float, ...]
    whitened: bool
    path: bool
    personal: bool = False
    silence: bool = False
    gauge: measures.Gauge | None = None
    told: int = 0


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
        d = self.d = self.coefficients // start.reports.blocks
        self.people = 0
        self.stage, self.at = 0, 0
        self.past: list[int] = []  # people of the stages behind, 0 for one that was not held
        self.weight_here, self.weight_past = 0.0, 0.0
        self.growth = 1.0  # variance of an estimate where curvature depends on θ, over that at θ = 0
        # directions tell nothing of a common scale: where the design has no constant, moments get one
        self.extra = 1 - int(start.layout.constant)
        self.location = location.begin(len(start.unscaled))
        self.location_weight = 0.0  # of the unfinished batch
        self.scatter = whitening.start_from(np.eye(self.size(before=True)))
        self.total, self.outer = np.zeros(self.numbers()), np.zeros((0, 0))
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
        if self.kind not in {"location", "moments"}:
            self._begin_chains()
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
        size = self.size(before=True)
        return size * (size + 1) // 2 if self.kind == "moments" else 0

    def size(self, *, before: bool) -> int:
        """Coordinates of the learned map before the chains begin, or afterwards."""
        return self.d + int(self.start.layout.response) + (self.extra if before else 0)

    # --- people ----------------------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        """Role of the people who come next."""
        return self.start.schedule.stages[self.stage].kind

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

    def advance(self, y: Array, x: Array, offset: Array | None = None, weight: Array | None = None) -> None:
        """Play the devices of these rows, in order.

        Parameters
        ----------
        y : ndarray, shape (n,)
        x : ndarray, shape (n, d)
            C-contiguous, its first column the constant if there is one.
        offset : ndarray, shape (n,), optional
            All in internal units; rows of people who have nothing to tell are NaN.
        weight : ndarray, shape (n,), optional
            Weights (μ_i/μ_max)² in (0, 1] of people with personal budgets.
        """
        i, n = 0, y.shape[0]
        while i < n:
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
            if self.people == next_mark(self.people - 1):
                self._note()
            if reached:
                self._finish(stage)

    def _until(self, stage: Stage, left: int, weight: Array | None) -> tuple[int, bool]:
        """How many of the `left` people come before the next mark and the stage's end, and whether they reach it."""
        m = min(left, next_mark(self.people) - self.people)
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
        return self.start.reports.mechanism.moment_radius()

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
            if self.start.reports.label:
                self.scatter = whitening.exact(self.total, self.at)
            else:
                self.scatter = whitening.learn(
                    *(self.scatter, self.total, self.weight_here, self.moment_sd()),
                    self.start.layout._replace(constant=True),
                )
        elif stage.kind == "common":
            self.common = self.chains
        self.past.append(self.at)
        self.weight_past += self.weight_here
        self.stage, self.at, self.weight_here = self.stage + 1, 0, 0.0
        self._next_noise()
        following = self.start.schedule.stages[self.stage]
        if following.kind == "moments" and following.optional and not self._correlated():
            self.past.append(0)
            self.stage += 1
            self._next_noise()
        if self.kind in {"location", "moments", "measures"}:
            self.total = np.zeros(self.numbers())
            self.outer = np.zeros((len(self.total),) * 2) if self.kind == "measures" else self.outer
        else:
            self.total = np.zeros(0)
            self._begin_chains()

    def moment_sd(self) -> float:
        """Noise sd per coordinate of a moment report."""
        size = self.size(before=True)
        return self.start.reports.mechanism.sd(self.moment_radius(), size * (size + 1) // 2)

    def lost(self) -> list[int]:
        """Columns, d for the response, whose spread had not settled when the search for it ended."""
        if self.stage == 0 or not self.start.unscaled:
            return []
        outside, people = location.outside(self.location, self.start.schedule.people("location"))
        numbers, mechanism = 2 * len(self.start.unscaled), self.start.reports.mechanism
        sd = mechanism.sd(mechanism.bits_radius(numbers), numbers) + 0.5
        away = (outside - location.TARGET) * math.sqrt(people) / sd
        far = (away < -2.5) | (away > 4.0)  # a spread that falls on and on is the worse of the two
        return [j for j, is_far in zip(self.start.unscaled, far, strict=True) if is_far]

    def _place(self) -> None:
        """Begin whitening from the learned locations and scales."""
        centre, scale = location.centre_and_scale(self.location)
        rows = np.array(self.scatter.rows)
        for j, m, s in zip(self.start.unscaled, centre, scale, strict=True):
            if j == self.d:
                low, high = self.start.reports.y_low, self.start.reports.y_high
                m, s = min(max(m, low), high), min(s, high - low)  # a lost search ends inside the public limits
                shift = m if self.start.layout.constant else 0.0
                self.y_centre, self.y_scale = float(shift), float(s if shift == m else math.hypot(s, m))
                continue
            k = j + self.extra
            rows[k, k], rows[k, 0] = 1.0 / s, -m / s
        self.scatter = whitening.start_from(rows)

    def _begin_chains(self) -> None:
        start = self.start
        rules, reports, schedule = start.rules, start.reports, start.schedule
        still, constant = not rules.moving, start.layout.constant
        if self.chains is None:
            rows = coordinates.without_constant(self.scatter.rows, self.d) if self.extra else self.scatter.rows
            gaps = (0.0,) * self.d if reports.label else start.gaps  # there whitening is exact
            rows, self.shares = coordinates.bring_in(rows, gaps, constant)
            self.scatter = whitening.start_from(rows)
            theta, log_c = self._first_guess()
        else:
            theta, log_c = lanes.late_average(self.chains.state, self.chains.plan)
            if self.kind == "lanes" and still:
                theta = lanes.pooled(lanes.corrected(self.chains.state, self.chains.plan, self.chains.newton))
        rows = self.scatter.rows[: self.d, : self.d]

        def expected(at: Array) -> coordinates.Expected:
            return coordinates.expect(
                *(rules, at, rows, (0.0,) * self.d if reports.label else start.gaps, self.shares),
                constant=constant,
                whitened=start.whitened,
                unit=not reports.label,
            )

        newton, curvature = expected(theta)
        if rules.from_predictor:
            easiest = float(np.sum(expected(0.0 * theta).newton ** 2))
            self.growth = min(max(float(np.sum(newton**2)) / easiest, 1.0), MOST_GROWTH)
        stage = self.here
        plan = lane_plan(
            *(stage, schedule, rules, reports, self.d),
            path=start.path,
            worth=self.worth,
            y_centre=self.y_centre,
            y_scale=self.y_scale,
        )
        spread = 1.0 if still else min(SPREAD[stage.kind] * self.d / 4.0, WIDEST)
        if still and stage.kind == "lanes":
            people = (schedule.rows or 8 * self.people) * plan.worth
            spread = min(NEAR[rules.skewed] * 2.0 * self.d / (curvature * schedule.effective * math.sqrt(people)), 1.0)
        noise = reports.mechanism.sd(plan.radius, reports.size(self.d, plan.kappa))
        # where effects are strong, curvature along them is small, P large, and the score bends over a wander along them
        newton2 = None
        if rules.from_predictor and stage.kind != "search":
            newton2 = float(np.sum(newton**2))
            spread = max(spread, RELATIVE * float(np.linalg.norm(theta)))
        steps = chain_steps(stage, schedule, rules, plan, noise, curvature, spread, self.d, newton2)
        self.chains = Chains(plan, lanes.init(theta, min(log_c, plan.widest), plan), newton, steps)

    def _correlated(self) -> bool:
        """Whether the covariates have turned out so correlated that another round of moments pays."""
        d = self.d + self.extra
        return coordinates.is_correlated(self.scatter.rows[:d, :d], constant=True)

    def _first_guess(self) -> tuple[Array, float]:
        """Where the pilot begins: the user's guess, or the regression that the moments imply."""
        start, rules, d = self.start, self.start.rules, self.d
        theta, log_c = np.zeros(self.coefficients), 0.0
        if start.layout.response:
            last = self.scatter.rows[d]
            theta = np.asarray(-np.linalg.solve(self.whitener.T, last[:d] / last[d]))
            log_c = math.log(rules.ratio / last[d])
            theta[0] += rules.centre / last[d] if start.layout.constant else 0.0
        elif rules.track and not rules.moving:  # the response was scaled by itself
            log_c = math.log(rules.ratio)
            theta[0] += rules.centre if start.layout.constant else 0.0
        if rules.shape.family == kernels.POISSON and start.layout.constant:
            theta[0] = math.log(0.5 * rules.shape.a)  # from above, where steps can't run away
        if start.theta is not None:
            guess = start.theta / self.y_scale
            if start.layout.constant:
                guess[0] -= self.y_centre / self.y_scale
            theta = np.asarray(np.linalg.solve(self.whitener.T, guess.reshape(-1, d).T).T.reshape(-1))
        if not rules.track:
            log_c = math.log(start.c / self.y_scale) if not rules.moving else 0.0
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

    def covariances(self) -> dict[str, Array]:
        """Covariance of the estimate by method, whitened coordinates, as far as known."""
        out: dict[str, Array] = {}
        if self.kind not in {"lanes", "measures"} or self.chains is None or not self.chains.state.updates.all():
            return out
        if self.chains.plan.path and int(self.chains.state.updates.sum()) < self.chains.plan.lanes + self.coefficients:
            return out  # a path of one update does not move, and d directions need as many moves
        groups = self.groups()
        if self.chains.plan.lanes > 1:
            out["between_lanes"] = lanes.between(groups)
        if self.chains.plan.path:
            mine = sum(g.weight for g in groups[1:])
            share = mine / (mine + groups[0].weight)
            updates = float(self.chains.state.weight[:, 0].sum())
            out["random_scaling"] = 6.0 * lanes.scaling(self.chains.state) / updates * share
        return out

    def inside(self, theta: Array) -> Array:
        """Coefficients in internal units, shape (b d,)."""
        out = self.y_scale * (theta.reshape(-1, self.d) @ self.whitener).reshape(-1)
        if self.start.layout.constant:
            out[0] += self.y_centre
        return np.asarray(out)

    def linear(self) -> Array:
        """Linear part of `inside`, shape (b d, b d)."""
        return np.asarray(np.kron(np.eye(self.start.reports.blocks), self.y_scale * self.whitener.T))

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
            return np.full(self.coefficients, np.nan)
        linear = self.to_user @ self.linear()
        return np.asarray(((linear @ cov) * linear).sum(axis=1))
