"""The collector of a fit by rounds: states out, sums of reports in. Functions on values; nothing here sees a row.

`begin` gives what is known before anybody has reported, `advance` takes in one round's reports and publishes the next
state; `estimate.estimate` carries all that was reported to the coefficients.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import clamping, combination, curvature, many, pilot, reach
from privreg.collector.coordinates import placed, reference
from privreg.collector.covariates import diagonal, leads, moments, thresholds, whitening
from privreg.collector.covariates import factors as cells
from privreg.collector.estimate import answered, estimate, framed
from privreg.collector.offsets import offsets, stretched
from privreg.collector.plan import Frame, Plan, Progress, Seen
from privreg.families import measures
from privreg.options.threads import one_thread
from privreg.protocol import codes
from privreg.protocol.rounds import Reports, State

if TYPE_CHECKING:
    from collections.abc import Sequence

    from privreg.arrays import Array
    from privreg.collector.covariates.moments import Scatter
    from privreg.collector.curvature import Answered, Curvature
    from privreg.collector.law import Law
    from privreg.collector.pilot import Fitted

ENOUGH: Final = 0.8
"""Reports by which a state follows its predecessor, relative to the largest round's."""

WANDER: Final = 1.0
"""Sd of a predictor, in corners, to which a step is held where there are many coefficients."""


@one_thread()
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
        np.zeros((plan.apart(plan.rounds[0].role), plan.size)),
        plan.kappa(plan.rounds[0].role),
        places.thresholds,
    )
    progress = Progress(state, scatter, places, None, (), None, ())
    if state.role in {"location", "moments"}:
        return progress
    progress, state = _next(plan, *placed(plan, progress, state))  # nothing is to be learned of covariates
    return progress._replace(state=state)


@one_thread()
def advance(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """Take in one round, and publish the state of the next.

    Parameters
    ----------
    plan : Plan
    progress : Progress
    reports : Reports
        Of the round that answered `progress.state`.
    """
    role = progress.state.role
    if role == "location":
        found = thresholds.learn(progress.places, reports.total.sum(axis=0), reports.weight.sum(axis=0), plan.sd(role))
        progress = progress._replace(places=found)
    elif role == "moments":
        progress = progress._replace(scatter=_moments(plan, progress, reports))
    elif role == "clamping":
        progress = progress._replace(clamped=clamping.told(progress.state.number, reports))
    else:
        progress = scored(plan, progress, reports)
    progress = progress._replace(held=(*progress.held, reports.people))
    number = progress.state.number + 1
    while number < len(plan.rounds) and plan.rounds[number].optional and not _pays(plan, progress, number):
        number += 1
        progress = progress._replace(held=(*progress.held, 0))
    following = plan.role(number)
    state = progress.state._replace(number=number, role=following, kappa=plan.kappa(following))
    if following == "location":
        return progress._replace(state=state._replace(thresholds=progress.places.thresholds))
    state = state._replace(offsets=np.zeros((1, plan.size)))
    if role == "location":
        progress, state = _located(plan, progress, state)
    if following == "moments":
        if plan.rounds[number].optional and (far := leads.overstretched(plan, progress, number)):
            progress = progress._replace(scatter=moments.drawn_in(progress.scatter, far))
        return progress._replace(
            state=state._replace(rows=moments.asked(progress.scatter.rows, leads.lead(plan, progress, number)))
        )
    if role in {"location", "moments"}:
        progress, state = placed(plan, progress, state)
    if following == "measures":
        return _settled(plan, progress, state)
    if role == "clamping":  # which told nothing of coefficients
        if following == "main":
            state = state._replace(offsets=offsets(plan, progress, state))
        return progress._replace(state=state)
    progress, state = _next(plan, progress, state)
    return progress._replace(state=state)


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
        lead=leads.lead(plan, progress, progress.state.number),
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


def with_present(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """What is known with what the present round has reported by now, which goes on."""
    if progress.state.role not in {"pilot", "main"} or not reports.weight.any():
        return progress
    return scored(plan, progress, reports)


def late(progress: Progress, number: int, reports: Reports) -> Progress:
    """Take in reports that came after their round was over: they count with the state that they answered.

    Parameters
    ----------
    progress : Progress
    number : int
        Of that state, in a round of scores or on clamping.
    reports : Reports
        Its people are those who were not counted before.

    Returns
    -------
    Progress
        What is known; states that are out already stay as they are.
    """
    seen = []
    for one in progress.seen:
        if one.state.number == number:
            weight, told = one.weight + reports.weight, one.number
            if told is not None and weight.any():
                told = told * float(one.weight.sum()) + float(reports.total[..., -1].sum()) / one.state.kappa
                told /= float(weight.sum())
            score = one.score + reports.total[..., : one.score.shape[-1]]
            one = one._replace(weight=weight, score=score, number=told)
        seen.append(one)
    if progress.clamped is not None and progress.clamped.number == number:
        progress = progress._replace(clamped=clamping.later(progress.clamped, reports))
    held = [n + reports.people * (k == number) for k, n in enumerate(progress.held)]
    return progress._replace(seen=tuple(seen), held=tuple(held))


def _pays(plan: Plan, progress: Progress, number: int) -> bool:
    """Whether this round, on moments again, pays."""
    d = plan.d + plan.extra
    correlated = whitening.is_correlated(progress.scatter.rows[:d, :d], constant=True)
    if correlated or leads.overstretched(plan, progress, number):
        return True
    shares = cells.shrunk(plan.factors, progress.scatter.shares)
    return bool(shares) and cells.unsure(np.concatenate(shares), progress.scatter.shares.variance)


def _next(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores; its threshold c by equation (17) of docs/estimator.md."""
    assert progress.fitted is not None
    if plan.many:
        progress, state = _next_of_many(plan, progress, state)
        if state.role == "main":
            state = state._replace(offsets=offsets(plan, progress, state))
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
        state = state._replace(offsets=offsets(plan, progress, state))
    return progress, state


def _refitted(plan: Plan, progress: Progress, said: Law) -> Fitted:
    assert progress.fitted is not None
    prior = progress.prior
    assert prior is not None
    return pilot.fit(said, observed(plan, progress), progress.fitted, prior)


def observed(plan: Plan, progress: Progress) -> list[pilot.Observed]:
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


def _stepped(plan: Plan, progress: Progress, state: State, said: Law) -> tuple[Progress, State]:
    """Go part of the way to the one-step estimate of the last round: equation (23) of docs/estimator.md."""
    assert progress.fitted is not None
    frame, learned, back = _known(plan, progress, state, said)
    told = max(float(r.weight.sum()) for r in frame.rounds)
    noise = back @ frame.noise @ back.T / max(told, 1e-300)
    chance = math.sqrt(float(np.trace(noise)))
    unit = state.corner if said.scaled else 1.0
    x, g = _latest(frame.rounds, combination.floored(learned.mean))
    off = float(np.linalg.norm(np.linalg.solve(frame.root.T, g)))
    nearer = reach.left_behind(plan, progress, chance, off)
    if nearer.since > progress.since:
        progress = nearer
        frame, learned, back = _known(plan, progress, state, said)
        x, g = _latest(frame.rounds, combination.floored(learned.mean))
    step = reach.lengthened(plan, progress, -back @ g, unit, curvature.GAIN, chance)
    step = curvature.gain(noise, moving=plan.rules.moving) @ step
    theta = np.linalg.solve(frame.root.T, x) + step
    progress = progress._replace(curvature=learned, local=frame.local)
    return stretched(plan, progress, state, said, frame), state._replace(theta=theta)


def _known(plan: Plan, progress: Progress, state: State, said: Law) -> tuple[Frame, Curvature, Array]:
    """Rounds and curvature at the last state, and M̂ₛ of equation (23) of docs/estimator.md, which makes steps."""
    assert progress.fitted is not None
    frame = framed(plan, progress, said, state.theta, progress.fitted.scale, nearby=not plan.rules.moving)
    learned = frame.learned(brief=True)
    return frame, learned, np.linalg.solve(frame.root.T, np.linalg.inv(combination.floored(learned.mean)))


def _latest(rounds: Sequence[Answered], m: Array) -> tuple[Array, Array]:
    """The last state, and the mean report there: the last round's, or of several rounds as much as one holds.

    Reports of states before are carried to the last one by `m`, where those of the last round are few: where many
    come late, or in families whose last pilot round is larger than a main one. Equation (23) of docs/estimator.md.
    """
    total, x, g = curvature.means(rounds)
    most, share = float(total.max()), np.zeros(len(rounds))
    for k in reversed(range(len(rounds))):
        share[k] = min(total[k], most - share.sum())
        if share.sum() >= ENOUGH * most:
            break
    return x[-1], share @ (g + (x[-1] - x) @ m.T) / share.sum()


def _next_of_many(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores, where there are many coefficients."""
    box, rules = progress.box, plan.rules
    assert box is not None
    assert progress.fitted is not None
    assert progress.prior is not None
    if progress.seen and progress.seen[-1].state.role == "pilot":
        theta, scale, unsure = many.fit(rules, box, observed(plan, progress), progress.prior)
        if rules.track:
            more = min(math.sqrt(unsure), 1.5 * scale) if state.role == "pilot" else 0.0
            state = state._replace(corner=rules.ratio * math.hypot(scale, more))
        fitted = pilot.Fitted(theta, scale, np.array([[unsure]]))
        return progress._replace(fitted=fitted), state._replace(theta=theta)
    if not progress.seen:
        return progress, state
    *_, last = answered(plan, progress, state.theta)
    learned = many.learn(answered(plan, progress, state.theta), box)
    mean = last.weight @ last.g / last.weight.sum()
    scaled = rules.track or rules.shape.family == codes.HUBER
    unit = state.corner if scaled else 1.0
    precision = float(last.weight.sum()) / (last.variance + last.square / plan.size)
    step = -box.near(last.small, mean / learned.mean, precision, (WANDER * unit) ** 2)
    step *= min(1.0, reach.FAR * unit / max(math.sqrt(box.distance2(step)), 1e-300))
    return progress, state._replace(theta=state.theta + curvature.GAIN * step)


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
