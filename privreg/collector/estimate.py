"""From all that rounds reported to the coefficients, their covariance and measures of fit. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import carried, law, many
from privreg.collector import curvature as coordinates
from privreg.collector.coordinates import reference
from privreg.collector.plan import Estimated, Frame, Many, Plan, Progress, Seen
from privreg.families import measures
from privreg.protocol.rounds import Reports, State

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.collector.law import Law
    from privreg.families.measures import Measure

    Array = NDArray[np.float64]

__all__ = ["answered", "corrections", "estimate", "framed", "measured"]

WIDE_CORNER: Final = 2.0
"""Corner of a round, relative to the last, up to which it enters the estimate."""

TURNS: Final = 3
"""Times that rounds are carried by secants to the estimate before, at most."""

SETTLED: Final = 0.1
"""Standard errors by which an estimate may still move then."""


def framed(plan: Plan, progress: Progress, said: Law, theta: Array, scale: float, *, nearby: bool = False) -> Frame:
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


def answered(plan: Plan, progress: Progress, theta: Array) -> list[many.Answered]:
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
        rounds = answered(plan, progress, theta)
        learned = many.learn(rounds, box)
        found = many.combine(rounds, box, learned)
        theta = found.theta
    eye = np.eye(plan.size)
    cov, unknown = found.covariance(box, eye), found.covariance(box, eye, whole=False)
    return Estimated(theta, cov, unknown, None, None, None, Many(rounds, learned, found))


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
        frame = framed(plan, progress, said, theta, scale)
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
