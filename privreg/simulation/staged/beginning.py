"""How stages begin: where whitening starts, the chains' first guess, their steps and Newton matrix. Collector side."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import curvature as coordinates
from privreg.collector import factors as cells
from privreg.collector import location, moments
from privreg.collector.history import History
from privreg.inference import blocks
from privreg.protocol import codes
from privreg.simulation.staged import lanes
from privreg.simulation.staged.lanes import Chains
from privreg.simulation.staged.schedule import chain_steps, lane_plan

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.simulation.staged.pipeline import Pipeline

    Array = NDArray[np.float64]

__all__ = ["FARTHEST", "begin_chains", "growth_at", "place", "strength"]

SPREAD: Final = {"search": 0.35, "pilot": 0.25, "common": 0.25, "lanes": 0.25}
"""Sd of z'θ to aim at with 4 coefficients where curvature depends on it; it grows with d, as that of an estimate."""

WIDEST: Final = 0.7

FARTHEST: Final = 7.0
"""Sd of a linear predictor beyond which curvature is not followed: a search that has gone too far would have steps as
small as the curvature there, and never return."""

MOST_GROWTH: Final = 1000.0

STABLE: Final = 2.0
"""Steps of a wide design times d, at most: its covariates may have half their variance in one direction, unlearned."""

RELATIVE: Final = 0.15
"""The same relative to the length of θ, with which the stretch grows over which the score bends."""

LEAST: Final = 1e-3
"""Share of people by whom factors that go together are told apart, at least: noise may make it none, or less."""

NEAR: Final = {False: 6.0, True: 3.0}
"""Sd of z'θ in chains that an estimate is made of, as a multiple of the estimate's own: more would bias where errors
are skewed, and sooner where the loss itself is, or the mean bends over the wander."""


def place(run: Pipeline) -> None:
    """Begin whitening from the learned locations and scales."""
    centre, scale = location.centre_and_scale(run.location)
    rows, many = np.array(run.scatter.rows), run.start.wide is not None
    for j, m, s in zip(run.start.unscaled, centre, scale, strict=True):
        if j == run.d:
            low, high = run.start.reports.y_low, run.start.reports.y_high
            m, s = min(max(m, low), high), min(s, high - low)  # a lost search ends inside the public limits
            shift = m if run.start.layout.constant else 0.0
            run.y_centre, run.y_scale = float(shift), float(s if shift == m else math.hypot(s, m))
            continue
        if many:
            rows[:, j] = 1.0 / s, -m / s if run.start.layout.constant else 0.0
            continue
        k = j + run.extra
        rows[k, k], rows[k, 0] = 1.0 / s, -m / s
    run.scatter = moments.start_from(rows, run.scatter)


def begin_chains(run: Pipeline) -> None:
    """Begin the chains of the present stage from what those before have learned."""
    start = run.start
    rules, reports, schedule = start.rules, start.reports, start.schedule
    still, constant = not rules.moving, start.layout.constant
    if run.chains is None and start.wide is not None:
        theta, log_c = _first_guess(run)
    elif run.chains is None:
        rows = coordinates.without_constant(run.scatter.rows, run.d) if run.extra else run.scatter.rows
        gaps = (0.0,) * run.d if reports.label else start.gaps  # there whitening is exact
        near, run.shares = coordinates.bring_in(rows, gaps, constant)
        run.stretch = (np.diag(near) / np.diag(rows))[: run.d]
        if start.cells:
            own = cells.rarer(start.cells, cells.shrunk(start.cells, run.scatter.shares), run.d)
            run.shares = np.where(np.isnan(own), run.shares, own)
            _tell_apart(run)
        run.scatter = moments.start_from(near, run.scatter)
        theta, log_c = _first_guess(run)
    else:
        theta, log_c = lanes.late_average(run.chains.state, run.chains.plan)
        if run.kind == "lanes" and still:
            theta = lanes.pooled(lanes.corrected(run.chains.state, run.chains.plan, run.chains.newton))
    newton, curvature = _expected(run, theta)
    if rules.from_predictor:
        run.growth = _growth(run, theta, newton)
    if not rules.track and not rules.counting:  # else the corner or the window grows to make up for who sends noise
        newton, curvature = newton / run.scatter.answering, curvature * run.scatter.answering
    stage = run.here
    plan = lane_plan(
        *(stage, schedule, rules, reports, run.d),
        path=start.path,
        gram=start.gram and run.kind == "lanes",
        worth=run.worth,
        y_centre=run.y_centre,
        y_scale=run.y_scale,
    )
    # where effects are strong, or levels rare, curvature along them is small and P large
    newton2 = None
    if (rules.from_predictor and stage.kind != "search") or (still and start.cells):
        newton2 = float(np.sum(newton**2))
    stretch = run.d / curvature if newton2 is None else math.sqrt(newton2)
    spread = _wander(run, theta, stretch)
    noise = reports.mechanism.sd(plan.radius, reports.size(run.d, plan.kappa))
    steps = chain_steps(stage, schedule, rules, plan, noise, curvature, spread, run.d, newton2)
    if start.wide is not None:
        steps = steps._replace(first=min(steps.first, STABLE / run.d))
    intercept = None
    if start.path == 2:
        assert run.mapped is not None
        intercept = run.y_scale * run.whitener[0] * run.mapped.row
        intercept += run.y_scale * run.whitener[1] * run.mapped.row[0]
    run.chains = Chains(plan, lanes.init(theta, min(log_c, plan.widest), plan, intercept), newton, steps)
    if run.kind == "lanes" and start.path == 3:
        run.history = History(schedule.lanes, run.coefficients)
    if run.kind == "lanes" and start.cut is not None:
        run.blocks = blocks.begin(start.cut, run.coefficients)


def _wander(run: Pipeline, theta: Array, stretch: float) -> float:
    """Sd that z'θ may have in the chains of the present stage, which begin at `theta`, in units of c."""
    rules, schedule, stage = run.start.rules, run.start.schedule, run.here
    out = min(SPREAD[stage.kind] * run.d / 4.0, WIDEST) if rules.moving else 1.0
    near = {"common", "lanes"} if rules.from_predictor else set() if rules.moving else {"lanes"}
    if stage.kind in near:
        people = stage.expected(run.worth) if stage.kind == "common" else float(schedule.rows or 8 * run.people)
        own = 2.0 * stretch / (schedule.effective * math.sqrt(people * run.worth))
        out = min(NEAR[rules.skewed or rules.moving] * own, out)
    if rules.from_predictor and stage.kind != "search":  # the score bends over a wander along strong effects
        out = max(out, RELATIVE * float(np.linalg.norm(theta)))
    return out


def growth_at(run: Pipeline, theta: Array) -> float:
    """Variance of an estimate of `theta`, whitened coordinates, over that where curvature is greatest."""
    return _growth(run, theta, _expected(run, theta).newton)


def _growth(run: Pipeline, theta: Array, newton: Array) -> float:
    easiest = float(np.sum(_expected(run, 0.0 * theta).newton ** 2)) * run.start.rules.ease**2
    return min(max(float(np.sum(newton**2)) / easiest, 1.0), MOST_GROWTH)


def _tell_apart(run: Pipeline) -> None:
    """How many people tell columns of factors apart that go together: they are the rarer value of such a column.

    They are far out, where the square of the column's direction is about 1, and it is about 0 for all others. The
    stretch stays that of a column of its own, whatever their share: long steps cost width, short ones coverage.
    """
    factors = run.factors
    shares = cells.shrunk(factors, run.scatter.shares)
    here = slice(run.extra, run.extra + run.d)
    run.tied = cells.tied(factors, shares, run.scatter.rows)[here]
    apart = moments.directions(run.scatter)[here][run.tied]
    run.shares[run.tied] = np.clip(apart, LEAST, 0.5)


def _expected(run: Pipeline, theta: Array) -> coordinates.Expected:
    """Curvature to expect at `theta`, whitened coordinates; where it is too flat to come back from, nearer to 0."""
    start = run.start
    if start.rules.from_predictor:
        theta = theta * min(1.0, FARTHEST / max(strength(run, theta), 1e-300))
    if start.wide is not None:
        return coordinates.expect_wide(start.rules, theta, run.scatter.rows, start.wide, start.layout.constant)
    label, rows = start.reports.label, run.scatter.rows[: run.d, : run.d]
    if start.cells and start.whitened:
        shares = cells.shrunk(start.cells, run.scatter.shares)
        points, _ = cells.stand_ins(start.cells, shares, rows, run.stretch, run.shares, constant=start.layout.constant)
        return coordinates.expect_at(start.rules, theta, points)
    return coordinates.expect(
        *(start.rules, theta, rows),
        *((0.0,) * run.d if label else start.gaps, run.shares),
        constant=start.layout.constant,
        whitened=start.whitened,
        unit=not label,
    )


def strength(run: Pipeline, theta: Array) -> float:
    """Largest sd of a linear predictor at `theta`, chains' coordinates, the constant aside."""
    slopes = theta.reshape(-1, run.d)[:, int(run.start.layout.constant) :]
    return float(np.linalg.norm(slopes, axis=1).max(initial=0.0))


def _first_guess(run: Pipeline) -> tuple[Array, float]:
    """Where the pilot begins: the user's guess, or the regression that the moments imply."""
    start, rules, d = run.start, run.start.rules, run.d
    theta, log_c = np.zeros(run.coefficients), 0.0
    if start.layout.response:
        last = run.scatter.rows[d]
        theta = np.asarray(-np.linalg.solve(run.whitener.T, last[:d] / last[d]))
        log_c = math.log(rules.ratio / last[d])
        theta[0] += rules.centre / last[d] if start.layout.constant else 0.0
    elif rules.track and not rules.moving:  # the response was scaled by itself
        log_c = math.log(rules.ratio)
        theta[0] += rules.centre if start.layout.constant else 0.0
    if rules.shape.family == codes.POISSON and start.layout.constant:
        theta[0] = math.log(0.5 * rules.shape.a)  # from above, where steps can't run away
    if start.theta is not None:
        guess = start.theta / run.y_scale
        if start.layout.constant:
            guess[0] -= run.y_centre / run.y_scale
        if start.wide is not None:
            own = guess.reshape(-1, d) / run.whitener[0]
            own[:, 0] -= own @ run.whitener[1]
            return own.reshape(-1), log_c if rules.track else _corner(run)
        theta = np.asarray(np.linalg.solve(run.whitener.T, guess.reshape(-1, d).T).T.reshape(-1))
    if not rules.track:
        log_c = _corner(run)
    return theta, log_c


def _corner(run: Pipeline) -> float:
    """Logarithm of a corner that was declared."""
    return 0.0 if run.start.rules.moving else math.log(run.start.c / run.y_scale)
