"""The collector of a fit by rounds: states out, sums of reports in. Four functions on values.

`begin` gives what is known before anybody has reported, `advance` takes in one round's reports and publishes the next
state, `estimate` carries all that was reported to the coefficients. Nothing here sees a row.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.linalg import hadamard

from privreg.collector import carried, diagonal, law, many, moments, pilot, thresholds
from privreg.collector import curvature as coordinates
from privreg.collector import factors as cells
from privreg.collector.reference import normal_points
from privreg.families import measures
from privreg.protocol import codes
from privreg.protocol.rounds import GROUPS, Reports, State
from privreg.protocol.schedule import Round, people_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from privreg.collector.carried import Combined, Curvature
    from privreg.collector.diagonal import Wide
    from privreg.collector.factors import Cells
    from privreg.collector.law import Law
    from privreg.collector.many import Box, Found, Learned
    from privreg.collector.moments import Layout, Scatter
    from privreg.collector.pilot import Fitted
    from privreg.collector.thresholds import Search
    from privreg.families.constants import ChainRules
    from privreg.families.measures import Gauge, Measure
    from privreg.privacy.mechanisms import Mechanism

    Array = NDArray[np.float64]

__all__ = [
    "Estimated",
    "Plan",
    "Progress",
    "advance",
    "begin",
    "corrections",
    "estimate",
    "inside",
    "linear",
    "measured",
    "reference",
    "scored",
]

GAIN: Final = 0.6
"""Part of the way from a state to its own reports' one-step estimate that the next state goes."""

OFFSET: Final = 0.35
"""Length of a group's offset in corners with few records in main rounds; it falls with the fourth root of more."""

OFFSET_PEOPLE: Final = 170_000.0
"""Records in main rounds, at μ = 1, up to which it is that long."""

FAR: Final = 1.5
"""Corners by which a state may move in one round."""

LEAST: Final = 1e-3
"""Share of records by whom factors that go together are told apart, at least: noise may make it none, or less."""

WIDE_CORNER: Final = 2.0
"""Corner of a round, relative to the last, up to which it enters the estimate."""

TURNS: Final = 3
"""Times that rounds are carried by secants to the estimate before, at most."""

SETTLED: Final = 0.1
"""Standard errors by which an estimate may still move then."""


WANDER: Final = 1.0
"""Sd of a predictor, in corners, to which a step is held where there are many coefficients."""


class Plan(NamedTuple):
    """What is fixed and public before the first record."""

    rounds: tuple[Round, ...]
    rules: ChainRules
    layout: Layout
    mechanism: Mechanism
    d: int  # Covariates, the constant included
    blocks: int  # Linear predictors of a record
    label: bool  # Whether only the response is private
    y_low: float  # Public limits of the response, internal units
    y_high: float
    unscaled: tuple[int, ...]  # Columns whose location and scale are learned; d stands for the response
    theta: Array | None  # The user's first guess, internal units; shape (b d,)
    corner: float  # Where it is declared, internal units
    gaps: tuple[float, ...]  # How far apart the values of two-valued columns are; 0 for others
    whitened: bool
    cells: tuple[Cells, ...]
    nonresponse: bool  # Whether it is declared that some records send noise only
    rows: int | None  # Records expected, if known
    function: Callable[[float, float], float] | None = None  # Score over its bound of a family of one's own
    gauge: Gauge | None = None  # By what fit is measured, before what is learned; None if it is not
    told: int = 0  # Numbers in a report by which it is measured
    # Of a design of many columns, whose correlations aren't learned: what is public of them
    wide: Wide | None = None
    box: Box | None = None

    def people(self, progress: Progress) -> int:
        """Records of the present round."""
        return people_of(self.rounds, progress.held, self.rows)

    @property
    def size(self) -> int:
        """Coefficients."""
        return self.blocks * self.d

    @property
    def many(self) -> bool:
        """Whether there are too many coefficients to learn matrices of curvature."""
        return not self.label and self.size > diagonal.WIDE

    @property
    def extra(self) -> int:
        """Constants added beside a design without one, while moments are learned."""
        return 0 if self.wide is not None else 1 - int(self.layout.constant)

    @property
    def factors(self) -> tuple[Cells, ...]:
        """Columns made of factors alone, where moments are told."""
        return tuple(g._replace(columns=g.columns + self.extra) for g in self.cells)

    def kappa(self, role: str) -> float:
        """Weight of the number in a report of a role."""
        return 1.0 if role == "pilot" and self.rules.track else 0.0

    def numbers(self, role: str) -> int:
        """Numbers in a report of a role."""
        if role == "location":
            return len(self.unscaled)
        if role == "moments" and self.wide is not None:
            return 2 * len(self.wide.columns)
        if role == "moments":
            size = self.d + int(self.layout.response) + self.extra
            return size * (size + 1) // 2
        if role == "measures":
            return self.told
        return (1 if self.label else self.size) + int(self.kappa(role) > 0.0)

    def width(self, role: str) -> int:
        """Numbers that are summed of a role's reports."""
        if self.label and role == "moments":
            size = self.d + self.extra
            return size * (size + 1) // 2
        if role == "measures":  # and their outer products
            return self.told * (self.told + 1)
        if self.label and role != "location":
            return self.size + int(self.kappa(role) > 0.0)
        return self.numbers(role)

    def radius(self, role: str) -> float:
        """Radius by which a report of a role is randomised."""
        if role in {"location", "measures"} or (role == "moments" and self.wide is not None):
            return self.mechanism.bits_radius(self.numbers(role))
        if role == "moments":
            return self.mechanism.moment_radius()
        return self.mechanism.joint_radius(1.0, self.kappa(role))

    def sd(self, role: str) -> float:
        """Noise sd of a number of a report of a role."""
        return self.mechanism.sd(self.radius(role), self.numbers(role))


class Seen(NamedTuple):
    """A round of scores: its state, and what was reported."""

    state: State
    weight: Array  # shape (parts, groups)
    score: Array  # Sums; shape (parts, groups, b d)
    number: float | None  # Mean
    sd: float  # Noise of a number of a report


class Progress(NamedTuple):
    """What the collector knows after some rounds."""

    state: State  # What the next records answer
    scatter: Scatter
    places: Search
    fitted: Fitted | None  # Coefficients and residual scale by the pilot
    seen: tuple[Seen, ...]
    curvature: Curvature | None
    held: tuple[int, ...]  # Records in each round behind
    points: Array | None = None  # What stands for records in the law, coordinates of the scores; shape (m, d)
    box: Box | None = None  # What stands for covariates where there are many coefficients
    prior: Fitted | None = None  # What is known before any pilot report
    # Share of the records with the rarer value of a column of two, and whether that tells it from other factors'
    shares: Array | None = None  # shape (d,)
    tied: NDArray[np.bool_] | None = None  # shape (d,)
    # Of a round on measures of fit: by what it is measured, and the estimate, made of the rounds before
    gauge: Gauge | None = None
    final: Estimated | None = None


def begin(plan: Plan) -> Progress:
    """What is known before the first report."""
    size = plan.d + int(plan.layout.response) + plan.extra
    if plan.wide is not None:
        scatter = moments.start_from(diagonal.start(plan.wide, np.array([np.ones(plan.d), np.zeros(plan.d)])))
    else:
        scatter = moments.start_even(np.eye(size), plan.factors)
    places = thresholds.begin(len(plan.unscaled))
    zero = np.zeros(plan.size)
    state = State(
        0,
        plan.rounds[0].role,
        scatter.rows,
        0.0,
        1.0,
        zero,
        1.0,
        np.zeros((_groups(plan.rounds[0].role), plan.size)),
        plan.kappa(plan.rounds[0].role),
        places.thresholds,
    )
    progress = Progress(state, scatter, places, None, (), None, ())
    if state.role in {"location", "moments"}:
        return progress
    progress, state = _next(plan, *_placed(plan, progress, state))  # nothing is to be learned of covariates
    return progress._replace(state=state)


def advance(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """Take in one round, and publish the state of the next.

    Parameters
    ----------
    plan : Plan
    progress : Progress
    reports : Reports
        Of the round that answered `progress.state`.

    Returns
    -------
    Progress
    """
    role = progress.state.role
    if role == "location":
        found = thresholds.learn(progress.places, reports.total.sum(axis=0), reports.weight.sum(axis=0), plan.sd(role))
        progress = progress._replace(places=found)
    elif role == "moments":
        progress = progress._replace(scatter=_moments(plan, progress, reports))
    else:
        progress = scored(plan, progress, reports)
    progress = progress._replace(held=(*progress.held, reports.people))
    number = progress.state.number + 1
    while number < len(plan.rounds) and plan.rounds[number].optional and not _pays(plan, progress):
        number += 1
        progress = progress._replace(held=(*progress.held, 0))
    following = plan.rounds[min(number, len(plan.rounds) - 1)].role
    state = progress.state._replace(number=number, role=following, kappa=plan.kappa(following))
    if following == "location":
        return progress._replace(state=state._replace(thresholds=progress.places.thresholds))
    state = state._replace(offsets=np.zeros((1, plan.size)))
    if role == "location":
        progress, state = _located(plan, progress, state)
    if following == "moments":
        return progress._replace(state=state._replace(rows=progress.scatter.rows))
    if role in {"location", "moments"}:
        progress, state = _placed(plan, progress, state)
    if following == "measures":
        return _settled(plan, progress, state)
    progress, state = _next(plan, progress, state)
    return progress._replace(state=state)


def _groups(role: str) -> int:
    """Groups that answer apart in a round of a role."""
    return GROUPS if role in {"location", "main"} else 1


def _moments(plan: Plan, progress: Progress, reports: Reports) -> Scatter:
    """Take in a round on second moments."""
    scatter, total = progress.scatter, reports.total.sum(axis=(0, 1))
    if plan.wide is not None:
        given = scatter.rows, total, float(reports.weight.sum()), plan.sd("moments")
        return moments.start_from(diagonal.learn(plan.wide, *given, plan.layout.constant))
    if plan.label:  # covariates are public
        first = not any(r.role == "moments" for r in plan.rounds[: progress.state.number])
        return moments.sizes(scatter, total) if first else moments.exact(scatter, total, plan.gaps)
    return moments.learn(
        *(scatter, total, float(reports.weight.sum()), plan.sd("moments")),
        plan.layout._replace(constant=True),
        plan.factors,
        nonresponse=plan.nonresponse,
    )


def _located(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """Begin from the locations and scales that were learned."""
    centre, scale = thresholds.centre_and_scale(progress.places)
    rows = np.array(progress.scatter.rows)
    for j, m, s in zip(plan.unscaled, centre.tolist(), scale.tolist(), strict=True):
        if j == plan.d:
            m, s = min(max(m, plan.y_low), plan.y_high), min(s, plan.y_high - plan.y_low)
            shift = m if plan.layout.constant else 0.0
            state = state._replace(y_centre=float(shift), y_scale=float(s if shift == m else math.hypot(s, m)))
            continue
        if plan.wide is not None:
            rows[:, j] = 1.0 / s, -m / s if plan.layout.constant else 0.0
            continue
        k = j + plan.extra
        rows[k, k], rows[k, 0] = 1.0 / s, -m / s
    return progress._replace(scatter=moments.start_from(rows, progress.scatter)), state


def scored(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """Take in a round of scores."""
    state, weight = progress.state, reports.weight
    kappa, number = state.kappa, None
    if kappa > 0.0:
        number = float(reports.total[..., -1].sum() / weight.sum()) / kappa
    score = reports.total[..., : plan.size]
    return progress._replace(seen=(*progress.seen, Seen(state, weight, score, number, plan.sd(state.role))))


def _pays(plan: Plan, progress: Progress) -> bool:
    """Whether another round of moments pays."""
    d = plan.d + plan.extra
    if coordinates.is_correlated(progress.scatter.rows[:d, :d], constant=True):
        return True
    shares = cells.shrunk(plan.factors, progress.scatter.shares)
    return bool(shares) and cells.unsure(np.concatenate(shares), progress.scatter.shares.variance)


# --- from moments to scores ------------------------------------------------------------------------------------


def _placed(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """Coordinates of the scores, and where the pilot begins."""
    scatter = progress.scatter
    if plan.wide is not None:
        return _placed_wide(plan, progress, state)
    rows = coordinates.without_constant(scatter.rows, plan.d) if plan.extra else scatter.rows
    near, _ = coordinates.bring_in(rows, (0.0,) * plan.d if plan.label else plan.gaps, plan.layout.constant)
    scatter = moments.start_from(near, scatter)
    rules, d, constant = plan.rules, plan.d, plan.layout.constant
    scale, spread = 1.0, 1.0
    theta: Array = np.zeros(plan.size)
    whitener = near[:d, :d] if plan.whitened else coordinates.scaled(near[:d, :d], constant)
    whitener = np.ascontiguousarray(whitener)
    if plan.layout.response:
        last = near[d]
        theta = np.asarray(-np.linalg.solve(near[:d, :d].T, last[:d] / last[d]))
        if not plan.whitened:
            theta = np.asarray(np.linalg.solve(whitener.T, near[:d, :d].T @ theta))
        scale = 1.0 / last[d]
        theta[0] += rules.centre * scale if constant else 0.0
        spread = scale
    elif rules.track and not rules.moving:  # the response was scaled by itself
        theta[0] += rules.centre if constant else 0.0
    if rules.shape.family == codes.POISSON and constant:
        theta[0] = math.log(0.5 * rules.shape.a)
    if plan.theta is not None:
        guess = np.array(plan.theta) / state.y_scale
        if constant:
            guess[0] -= state.y_centre / state.y_scale
        theta = np.asarray(np.linalg.solve(whitener.T, guess.reshape(-1, d).T).T.reshape(-1))
    wide = 9.0 if rules.moving else 16.0 * spread**2
    prior = np.full(plan.size + 1, wide)
    prior[-1] = 2.0
    corner = plan.corner / state.y_scale if not rules.track and not rules.moving else rules.ratio * scale
    fitted = pilot.Fitted(theta, scale if not rules.moving else 1.0, np.diag(prior))
    state = state._replace(rows=whitener, theta=theta, corner=corner)
    shares, tied = _rarer(plan, progress.scatter, rows, near)
    points = _points(plan, scatter, shares, rows, near)
    box = many.box_of(points) if plan.many else None
    return progress._replace(
        scatter=scatter, fitted=fitted, prior=fitted, points=points, box=box, shares=shares, tied=tied
    ), state


def _placed_wide(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """The same for a design of many columns, of each of which a scale and a shift are known."""
    rules, constant, rows = plan.rules, plan.layout.constant, progress.scatter.rows
    theta = np.zeros(plan.size)
    if constant and rules.track and not rules.moving:
        theta[0] = rules.centre
    if constant and rules.shape.family == codes.POISSON:
        theta[0] = math.log(0.5 * rules.shape.a)
    if plan.theta is not None:
        guess = np.array(plan.theta) / state.y_scale
        if constant:
            guess[0] -= state.y_centre / state.y_scale
        own = guess.reshape(-1, plan.d) / rows[0]
        own[:, 0] -= own @ rows[1]
        theta = own.reshape(-1)
    corner = plan.corner / state.y_scale if not rules.track and not rules.moving else rules.ratio
    fitted = pilot.Fitted(theta, 1.0, np.zeros((1, 1)))
    return progress._replace(fitted=fitted, prior=fitted, box=plan.box), state._replace(
        rows=rows, theta=theta, corner=corner
    )


def _rarer(plan: Plan, scatter: Scatter, rows: Array, near: Array) -> tuple[Array, NDArray[np.bool_]]:
    """Shares of the rarer values, and which columns other factors' levels go together with."""
    d, here = plan.d, slice(plan.extra, plan.extra + plan.d)
    tied = np.zeros(d, dtype=np.bool_)
    _, shares = coordinates.bring_in(rows, (0.0,) * d if plan.label else plan.gaps, plan.layout.constant)
    if plan.cells:
        known = cells.shrunk(plan.cells, scatter.shares)
        own = cells.rarer(plan.cells, known, d)
        shares = np.where(np.isnan(own), shares, own)
        full = moments.start_from(near, scatter)._replace(memory=scatter.memory)
        tied = cells.tied(plan.factors, known, scatter.rows)[here]
        shares[tied] = np.clip(moments.directions(full)[here][tied], LEAST, 0.5)
    return shares, tied


def _points(plan: Plan, scatter: Scatter, shares: Array, rows: Array, near: Array) -> Array:
    """Points that stand for records in the coordinates of the scores: levels by their shares, all else normal."""
    d, constant = plan.d, plan.layout.constant
    if d == int(constant):
        return np.ones((1, 1))
    if not plan.whitened:
        return normal_points(coordinates.correlation(near[:d, :d], constant), constant)
    stretch = (np.diag(near) / np.diag(rows))[:d]
    known = cells.shrunk(plan.cells, scatter.shares) if plan.cells else []
    points, _ = cells.stand_ins(plan.cells, known, near[:d, :d], stretch, np.nan_to_num(shares), constant=constant)
    return points


def reference(plan: Plan, progress: Progress) -> Law:
    """The law in the coordinates of the scores."""
    assert progress.points is not None
    answering = progress.scatter.answering
    return law.law_of(plan.rules, progress.points, blocks=plan.blocks, unit=not plan.label, answering=answering)


# --- from state to state ---------------------------------------------------------------------------------------


def _next(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores."""
    assert progress.fitted is not None
    if plan.many:
        progress, state = _next_of_many(plan, progress, state)
        if state.role == "main":
            state = state._replace(offsets=_offsets(plan, progress, state))
        return progress, state
    said = reference(plan, progress)
    if progress.seen and progress.seen[-1].state.role == "pilot":
        progress = progress._replace(fitted=_refitted(plan, progress, said))
        assert progress.fitted is not None
        scale = progress.fitted.scale
        if plan.rules.track:
            unsure = 0.0
            if state.role == "pilot":
                unsure = min(math.sqrt(max(float(np.trace(progress.fitted.cov[:-1, :-1])), 0.0)), 1.5 * scale)
            corner = plan.rules.ratio * math.hypot(scale, unsure)
            state = state._replace(corner=corner)
        state = state._replace(theta=progress.fitted.theta)
    elif progress.seen:
        progress, state = _stepped(plan, progress, state, said)
    if state.role == "main":
        state = state._replace(offsets=_offsets(plan, progress, state))
    return progress, state


def _refitted(plan: Plan, progress: Progress, said: Law) -> Fitted:
    assert progress.fitted is not None
    prior = progress.prior
    assert prior is not None
    return pilot.fit(said, _observed(plan, progress), progress.fitted, prior)


def _observed(plan: Plan, progress: Progress) -> list[pilot.Observed]:
    """Mean reports of pilot rounds."""
    seen = []
    for one in progress.seen:
        people = float(one.weight.sum())
        score = one.score.sum(axis=(0, 1)) / people
        seen.append(
            pilot.Observed(
                one.state.theta,
                one.state.corner,
                score,
                one.number,
                (one.sd**2 + 0.5 / plan.d) / people,
                (one.sd**2 + 0.25) / people,
            )
        )
    return seen


def _offsets(plan: Plan, progress: Progress, state: State) -> Array:
    """What each group answers apart from the others: balanced, all directions spanned, other signs in each round."""
    q = plan.size
    people = sum(progress.held) if plan.rows is None else plan.rows
    effective = people * 4.0 / (plan.sd("main") ** 2 + 0.7 / plan.d)
    size = OFFSET * min(1.0, (OFFSET_PEOPLE / max(effective, 1.0)) ** 0.25)
    length = size * (state.corner if plan.rules.track or plan.rules.shape.family == codes.HUBER else 1.0)
    if q < GROUPS:
        signs = hadamard(GROUPS)[:, 1 : q + 1].astype(np.float64) * (-1.0) ** state.number
    else:
        rng = np.random.Generator(np.random.PCG64([41, state.number]))
        half = rng.choice([-1.0, 1.0], (GROUPS // 2, q))
        signs = np.concatenate([half, -half])
    return np.asarray(signs * (length / math.sqrt(q)))


class Frame(NamedTuple):
    """Rounds in the law's own coordinates, in which the law says M = I."""

    rounds: list[carried.Answered]
    noise: Array  # shape (q, q)
    root: Array  # L, lower triangular: x = L' θ; shape (q, q)
    maps: list[Array]  # Of each round's mean report, scores' coordinates, to the law's own; shape (q, q)


def _framed(plan: Plan, progress: Progress, said: Law, theta: Array, scale: float, *, nearby: bool = False) -> Frame:
    """Rounds in the law's own coordinates at `theta`; `nearby` takes all states for so near that the law is linear."""
    main = [s for s in progress.seen if s.state.role == "main"]
    last = main[-1].state
    own = _symmetric(law.secant(said, theta, last.corner, theta, scale))
    root = np.asarray(np.linalg.cholesky(own), dtype=np.float64)
    inverse = np.linalg.inv(root)
    sd = main[-1].sd
    noise = sd**2 * np.eye(plan.size)
    if plan.label:
        noise = sd**2 * law.public_noise(said, theta, last.corner, _limits(plan, last), plan.function)
    noise = noise + law.variance(said, theta, last.corner, theta, scale)
    pilots = [s for s in progress.seen if s.state.role == "pilot" and s.state.corner < WIDE_CORNER * last.corner]
    out, maps = [], []
    for one in [*pilots[-2:], *main]:
        here = own
        if not nearby or one.state.corner != last.corner:
            here = law.secant(said, one.state.theta, one.state.corner, theta, scale)
        weight = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        map_ = inverse @ own @ np.linalg.inv(_kept(here))
        states = (one.state.theta + one.state.offsets) @ root
        # a joint report's noise is larger, and another corner's score is scaled
        times = (one.sd / max(sd, 1e-12)) ** 2 * float(np.trace(map_ @ map_.T) / np.trace(inverse @ inverse.T))
        times = times if sd > 0.0 else 1.0
        maps.append(map_)
        out.append(carried.Answered(states, mean @ map_.T, weight / max(times, 1e-12)))
    return Frame(out, inverse @ noise @ inverse.T, root, maps)


def _limits(plan: Plan, state: State) -> tuple[float, float]:
    """Public limits of the response, in units of the learned scale."""
    return (plan.y_low - state.y_centre) / state.y_scale, (plan.y_high - state.y_centre) / state.y_scale


def _symmetric(matrix: Array) -> Array:
    return _kept(0.5 * (matrix + matrix.T))


def _kept(matrix: Array) -> Array:
    """With singular values that can be divided by."""
    u, values, v = np.linalg.svd(matrix)
    return np.asarray((u * np.maximum(values, coordinates.FLATTEST * (float(values[0]) or 1.0))) @ v)


def _stepped(plan: Plan, progress: Progress, state: State, said: Law) -> tuple[Progress, State]:
    """Go part of the way to what the last round's reports say."""
    assert progress.fitted is not None
    frame = _framed(plan, progress, said, state.theta, progress.fitted.scale, nearby=not plan.rules.moving)
    learned = carried.learn(frame.rounds, frame.noise)
    last = frame.rounds[-1]
    x = last.weight @ last.x / last.weight.sum()
    g = last.weight @ last.g / last.weight.sum()
    step = -np.linalg.solve(frame.root.T, np.linalg.solve(carried.floored(learned.mean), g))
    most = FAR * (state.corner if said.scaled else 1.0)
    step *= min(1.0, most / max(float(np.linalg.norm(step)), 1e-300))
    theta = np.linalg.solve(frame.root.T, x) + GAIN * step
    return progress._replace(curvature=learned), state._replace(theta=theta)


# --- many coefficients -----------------------------------------------------------------------------------------


def _next_of_many(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores, where there are many coefficients."""
    box, rules = progress.box, plan.rules
    assert box is not None
    assert progress.fitted is not None
    assert progress.prior is not None
    if progress.seen and progress.seen[-1].state.role == "pilot":
        theta, scale, unsure = many.fit(rules, box, _observed(plan, progress), progress.prior)
        if rules.track:
            more = min(math.sqrt(unsure), 1.5 * scale) if state.role == "pilot" else 0.0
            state = state._replace(corner=rules.ratio * math.hypot(scale, more))
        fitted = pilot.Fitted(theta, scale, np.array([[unsure]]))
        return progress._replace(fitted=fitted), state._replace(theta=theta)
    if not progress.seen:
        return progress, state
    *_, last = _answered(plan, progress, state.theta)
    learned = many.learn(_answered(plan, progress, state.theta), box)
    mean = last.weight @ last.g / last.weight.sum()
    scaled = rules.track or rules.shape.family == codes.HUBER
    unit = state.corner if scaled else 1.0
    precision = float(last.weight.sum()) / (last.variance + last.square / plan.size)
    step = -box.near(last.small, mean / learned.mean, precision, (WANDER * unit) ** 2)
    step *= min(1.0, FAR * unit / max(math.sqrt(box.distance2(step)), 1e-300))
    return progress, state._replace(theta=state.theta + GAIN * step)


def _answered(plan: Plan, progress: Progress, theta: Array) -> list[many.Answered]:
    """Rounds of which the estimate is made, with their curvature up to `theta`."""
    box = progress.box
    assert box is not None
    assert progress.fitted is not None
    main = [s for s in progress.seen if s.state.role == "main"]
    out = []
    for one in main:
        weight = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        at = one.state.theta, one.state.corner, theta, progress.fitted.scale
        small = many.curve(plan.rules, box, *at) * progress.scatter.answering
        square = many.square(plan.rules, box, *at) * progress.scatter.answering
        out.append(many.Answered(one.state.theta, one.state.offsets, mean, weight, small, one.sd**2, square))
    return out


def _estimate_of_many(plan: Plan, progress: Progress) -> Estimated:
    box = progress.box
    assert box is not None
    theta = progress.state.theta
    for _ in range(3):
        rounds = _answered(plan, progress, theta)
        learned = many.learn(rounds, box)
        found = many.combine(rounds, box, learned)
        theta = found.theta
    eye = np.eye(plan.size)
    cov, unknown = found.covariance(box, eye), found.covariance(box, eye, whole=False)
    return Estimated(theta, cov, unknown, None, None, None, Many(rounds, learned, found))


# --- the estimate ----------------------------------------------------------------------------------------------


class Many(NamedTuple):
    """How the estimate of many coefficients was made."""

    rounds: list[many.Answered]
    learned: Learned
    found: Found


class Estimated(NamedTuple):
    """Coefficients in the coordinates of the scores."""

    theta: Array  # shape (b d,)
    cov: Array  # shape (b d, b d)
    unknown: Array  # Part of it that comes of what isn't known of the curvature; shape (b d, b d)
    combined: Combined | None
    curvature: Curvature | None
    frame: Frame | None
    many: Many | None = None  # In place of these three where there are many coefficients


def estimate(plan: Plan, progress: Progress) -> Estimated | None:
    """Coefficients from all rounds so far; None before a main round has begun."""
    if progress.final is not None:
        return progress.final
    if not any(s.state.role == "main" for s in progress.seen):
        return None
    assert progress.fitted is not None
    if plan.many:
        return _estimate_of_many(plan, progress)
    said, scale = reference(plan, progress), progress.fitted.scale
    theta = progress.state.theta
    for _ in range(TURNS):
        before = theta
        frame = _framed(plan, progress, said, theta, scale)
        learned = carried.learn(frame.rounds, frame.noise)
        found = carried.combine(frame.rounds, frame.noise, learned)
        theta = np.asarray(np.linalg.solve(frame.root.T, found.x), dtype=np.float64)
        moved = frame.root.T @ (theta - before)
        if float(np.max(moved**2 / np.diag(found.cov))) < SETTLED**2:
            break
    theta = _possible(plan, progress.state, theta)
    back = np.linalg.inv(frame.root.T)
    return Estimated(theta, back @ found.cov @ back.T, back @ found.unknown @ back.T, found, learned, frame)


def _possible(plan: Plan, state: State, theta: Array) -> Array:
    """Keep the location of a response alone inside its public limits."""
    if plan.size > 1 or not plan.layout.constant or plan.rules.moving:
        return theta
    return np.clip(theta, *_limits(plan, state))


def _settled(plan: Plan, progress: Progress, state: State) -> Progress:
    """The estimate is made: those who come now tell how well it predicts them."""
    found = estimate(plan, progress)
    assert found is not None
    assert plan.gauge is not None
    assert progress.fitted is not None
    spread, centre, residual = 1.0, 0.0, 1.0
    if plan.layout.response:
        *slopes, own = np.linalg.inv(progress.scatter.rows)[plan.d]
        first = int(plan.layout.constant)
        spread, centre = math.hypot(*slopes[first:], own), float(slopes[0]) if first else 0.0
        residual = float(own)
    if plan.rules.track and not plan.rules.moving:
        residual = progress.fitted.scale
    reach = measures.REACH
    gauge = plan.gauge._replace(residual=reach * residual, spread=reach * spread, centre=centre)
    return progress._replace(state=state._replace(theta=found.theta), gauge=gauge, final=found)


def measured(plan: Plan, progress: Progress, reports: Reports, unit: float) -> tuple[Measure, ...]:
    """Measures of fit, as far as records have told.

    Parameters
    ----------
    plan : Plan
    progress : Progress
    reports : Reports
        Of the round on measures.
    unit : float
        Response units per internal unit.
    """
    m = plan.told
    if progress.gauge is None or reports.people <= m:
        return ()
    weight = float(reports.weight.sum())
    total = reports.total.sum(axis=(0, 1)) / weight
    mean = total[:m]
    cov = (total[m:].reshape(m, m) - np.outer(mean, mean)) / reports.people
    return measures.summarise(progress.gauge, mean, cov, unit * progress.state.y_scale)


def corrections(plan: Plan, progress: Progress, found: Estimated) -> tuple[Array, Array]:
    """One-step estimates of each part of each main round, in order, and their weights.

    Returns
    -------
    ndarray, shape (m, b d)
        Coordinates of the scores.
    ndarray, shape (m,)
        Weights of which their mean is about the estimate.
    """
    frame, main = found.frame, [s for s in progress.seen if s.state.role == "main"]
    if found.many is not None:
        return _corrections_of_many(progress, found.many, main)
    assert frame is not None
    assert found.combined is not None
    assert found.curvature is not None
    turn = np.linalg.solve(frame.root.T, np.linalg.inv(carried.floored(found.curvature.mean)))
    out, weights = [], []
    maps = frame.maps[-len(main) :]
    for one, map_, share in zip(main, maps, found.combined.weights[-len(main) :], strict=True):
        each = one.weight.sum(axis=1)
        heard = each > 0.0
        mean = one.score.sum(axis=1)[heard] / each[heard, None]
        shift = (one.weight[heard] @ one.state.offsets) / each[heard, None]
        out.append(one.state.theta + shift - mean @ (turn @ map_).T)
        weights.append(share * each[heard] / each.sum())
    return np.concatenate(out), np.concatenate(weights)


def _corrections_of_many(progress: Progress, known: Many, main: list[Seen]) -> tuple[Array, Array]:
    box = progress.box
    assert box is not None
    out, weights = [], []
    for one, answered, share in zip(main, known.rounds, known.found.weights, strict=True):
        each = one.weight.sum(axis=1)
        heard = each > 0.0
        mean = one.score.sum(axis=1)[heard] / each[heard, None]
        shift = (one.weight[heard] @ one.state.offsets) / each[heard, None]
        out.append(one.state.theta + shift + many.corrected(box, answered.small, known.learned, mean))
        weights.append(share * each[heard] / each.sum())
    return np.concatenate(out), np.concatenate(weights)


def inside(plan: Plan, state: State, theta: Array) -> Array:
    """Coefficients in internal units, shape (b d,), from those of the scores' coordinates."""
    out = state.y_scale * coordinates.inside(theta.reshape(-1, plan.d), state.rows).reshape(-1)
    if plan.layout.constant:
        out[0] += state.y_centre
    return np.asarray(out)


def linear(plan: Plan, state: State) -> Array:
    """Linear part of `inside`, shape (b d, b d)."""
    rows = state.rows
    if plan.wide is not None:
        rows = np.diag(rows[0])
        rows[:, 0] += state.rows[1]
    return np.asarray(np.kron(np.eye(plan.blocks), state.y_scale * rows.T))
