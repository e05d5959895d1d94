"""The collector of a fit by rounds: states out, sums of reports in. Functions on values; nothing here sees a row.

`begin` is the progress before anybody has reported, `advance` adds one round's reports and publishes the next state;
`estimate.estimate` computes the coefficients from all reports.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from privreg.base.arrays import Array
from privreg.collector import clamping, pilot, spacing
from privreg.collector.covariates import factors as cells
from privreg.collector.covariates import moments, thresholds, whitening
from privreg.collector.covariates.moments import Scatter
from privreg.collector.estimation import combination, curvature
from privreg.collector.estimation.combination import carry_rounds, observed
from privreg.collector.estimation.coordinates import placed, reference_model
from privreg.collector.estimation.curvature import Curvature, RoundMeans
from privreg.collector.estimation.estimate import estimate
from privreg.collector.estimation.reference import Reference
from privreg.collector.plan import Carried, Plan, Progress, ScoreRound
from privreg.collector.spacing import ENOUGH, offsets, stretched
from privreg.families.scores import REACH
from privreg.options.running import one_thread
from privreg.protocol.rounds import Reports, State


@one_thread()
def begin(plan: Plan) -> Progress:
    """Progress before the first report, with the first state."""
    rows = np.eye(plan.direction)
    if plan.added is not None and math.isfinite(width := plan.added[1] - plan.added[0]) and width > 0.0:
        rows[-1, -1], rows[-1, 0] = 2.0 / width, -sum(plan.added) / width  # bounds at ±1, as of covariates
    scatter = moments.start_even(rows, plan.factors)
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
        np.zeros((plan.groups_of(plan.rounds[0].role), plan.size)),
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
    """Progress with one round added, whose reports answered `progress.state`, and with the state of the next."""
    role = progress.state.role
    if role == "location":
        found = thresholds.learn(progress.places, reports.total.sum(axis=0), reports.weight.sum(axis=0), plan.sd(role))
        progress = progress._replace(places=found)
    elif role == "moments":
        progress = progress._replace(scatter=_moments(plan, progress, reports))
    elif role == "clamping":
        progress = progress._replace(clamped=clamping.taken(progress.state.number, reports))
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
        if plan.rounds[number].optional and (far := whitening.overstretched(plan, progress, number)):
            progress = progress._replace(scatter=moments.drawn_in(progress.scatter, far, plan.widened))
        return progress._replace(
            state=state._replace(rows=moments.asked(progress.scatter.rows, whitening.constant2(plan, progress, number)))
        )
    if role in {"location", "moments"}:
        progress, state = placed(plan, progress, state)
    if following == "measures":
        return _measuring(plan, progress, state)
    if role == "clamping":  # which has no report on coefficients
        if following == "main":
            state = state._replace(offsets=offsets(plan, progress, state))
        return progress._replace(state=state)
    progress, state = _next(plan, progress, state)
    return progress._replace(state=state)


def _moments(plan: Plan, progress: Progress, reports: Reports) -> Scatter:
    """Whitening map with a round on second moments added."""
    scatter, total = progress.scatter, reports.total.sum(axis=(0, 1))
    if plan.label:  # covariates are public
        first = not any(r.role == "moments" for r in plan.rounds[: progress.state.number])
        return (
            moments.sizes(scatter, total)
            if first
            else moments.exact(scatter, total, (*plan.gaps, *(0.0,) * int(plan.layout.response)))
        )
    return moments.learn(
        *(scatter, total, float(reports.weight.sum()), plan.sd("moments")),
        plan.layout._replace(constant=True),
        plan.factors,
        constant2=whitening.constant2(plan, progress, progress.state.number),
        nonresponse=plan.nonresponse or plan.persons is not None,
        together=plan.persons.rows if plan.persons else 1,
    )


def _located(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """Progress and state whose row map has the learned locations and scales."""
    centre, scale = thresholds.centre_and_scale(progress.places)
    rows = np.array(progress.scatter.rows)
    for j, m, s in zip(plan.unscaled, centre.tolist(), scale.tolist(), strict=True):
        if j == plan.d:
            m, s = min(max(m, plan.y_low), plan.y_high), min(s, plan.y_high - plan.y_low)
            shift = m if plan.layout.constant else 0.0
            state = state._replace(y_centre=float(shift), y_scale=float(s if shift == m else math.hypot(s, m)))
            continue
        k = j + plan.extra
        rows[k, k], rows[k, 0] = 1.0 / s, -m / s
    return progress._replace(scatter=moments.start_from(rows, progress.scatter)), state


def scored(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """Progress with the sums of a round of scores added."""
    state, weight = progress.state, reports.weight
    kappa, number = state.kappa, None
    if kappa > 0.0:
        number = float(reports.total[..., -1].sum() / weight.sum()) / kappa
    score = reports.total[..., : plan.size]
    return progress._replace(scored=(*progress.scored, ScoreRound(state, weight, score, number, plan.sd(state.role))))


def with_present(plan: Plan, progress: Progress, reports: Reports) -> Progress:
    """Progress with the reports of the present round so far; the round goes on."""
    if progress.state.role not in {"pilot", "main"} or not reports.weight.any():
        return progress
    return scored(plan, progress, reports)


def late(progress: Progress, number: int, reports: Reports) -> Progress:
    """Progress with reports added that came after their round was over: they count with the state that they answered.

    `number` is that of the state, in a round of scores or on clamping; people of `reports` are those who were not
    counted before. States that are out already stay as they are.
    """
    scored = []
    for one in progress.scored:
        if one.state.number == number:
            weight, mean = one.weight + reports.weight, one.number
            if mean is not None and weight.any():
                mean = mean * float(one.weight.sum()) + float(reports.total[..., -1].sum()) / one.state.kappa
                mean /= float(weight.sum())
            score = one.score + reports.total[..., : one.score.shape[-1]]
            one = one._replace(weight=weight, score=score, number=mean)
        scored.append(one)
    if progress.clamped is not None and progress.clamped.number == number:
        progress = progress._replace(clamped=clamping.later(progress.clamped, reports))
    held = [n + reports.people * (k == number) for k, n in enumerate(progress.held)]
    return progress._replace(scored=tuple(scored), held=tuple(held))


def _pays(plan: Plan, progress: Progress, number: int) -> bool:
    """True if this further round on moments pays."""
    d = plan.d + plan.extra
    correlated = whitening.is_correlated(progress.scatter.rows[:d, :d], constant=True)
    if correlated or whitening.overstretched(plan, progress, number):
        return True
    shares = cells.shrunk(plan.factors, progress.scatter.shares)
    return bool(shares) and cells.unsure(np.concatenate(shares), progress.scatter.shares.variance)


def _next(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores; its threshold c by equation (17) of docs/estimator.md."""
    model = reference_model(plan, progress)
    if progress.scored and progress.scored[-1].state.role == "pilot":
        assert progress.fitted is not None
        assert progress.prior is not None
        fitted = pilot.fit(model, observed(plan, progress), progress.fitted, progress.prior)
        progress = progress._replace(fitted=fitted)
        if plan.rules.track:
            unsure = 0.0
            if state.role == "pilot":
                unsure = min(math.sqrt(max(float(np.trace(fitted.cov[:-1, :-1])), 0.0)), 1.5 * fitted.scale)
            c = plan.rules.ratio * math.hypot(fitted.scale, unsure)
            if (
                plan.like is not None and plan.like[1] is not None and unsure <= fitted.scale
            ):  # far off, the pilot needs more
                c = plan.like[1] / state.y_scale
            state = state._replace(c=c)
        elif plan.rules.scoring.pearson:
            eta, cov = model.predictors(fitted.theta), fitted.cov[:-1, :-1]
            unsure = math.sqrt(max(float(np.trace(cov)), 0.0)) if state.role == "pilot" else 0.0
            state = state._replace(c=pilot.threshold_of_counts(plan.rules, eta, unsure))
        state = state._replace(theta=fitted.theta)
    elif progress.scored:
        progress, state = _stepped(plan, progress, state, model)
    if state.role == "main":
        state = state._replace(offsets=offsets(plan, progress, state))
    return progress, state


def _stepped(plan: Plan, progress: Progress, state: State, model: Reference) -> tuple[Progress, State]:
    """State part of the way to the one-step estimate of the last round: equation (23) of docs/estimator.md."""
    assert progress.fitted is not None
    carried, learned, back = _known(plan, progress, state, model)
    most = max(float(r.weight.sum()) for r in carried.rounds)
    noise = back @ carried.noise @ back.T / max(most, 1e-300)
    chance = math.sqrt(float(np.trace(noise)))
    unit = state.c if model.scaled else 1.0
    x, g = _latest(carried.rounds, combination.floored(learned.mean))
    off = float(np.linalg.norm(np.linalg.solve(carried.root.T, g)))
    nearer = spacing.left_behind(plan, progress, chance, off)
    if nearer.since > progress.since:
        progress = nearer
        carried, learned, back = _known(plan, progress, state, model)
        x, g = _latest(carried.rounds, combination.floored(learned.mean))
    step = spacing.lengthened(plan, progress, -back @ g, unit, curvature.GAIN, chance)
    step = curvature.gain(noise, varying=plan.rules.varying) @ step
    theta = np.linalg.solve(carried.root.T, x) + step
    progress = progress._replace(curvature=learned, local=carried.local)
    return stretched(plan, progress, state, model, carried), state._replace(theta=theta)


def _known(plan: Plan, progress: Progress, state: State, model: Reference) -> tuple[Carried, Curvature, Array]:
    """Rounds and curvature at the last state, and M̂ₛ of equation (23) of docs/estimator.md, which makes steps."""
    assert progress.fitted is not None
    carried = carry_rounds(plan, progress, model, state.theta, progress.fitted.scale, nearby=not plan.rules.varying)
    learned = carried.learned(brief=True)
    return carried, learned, np.linalg.solve(carried.root.T, np.linalg.inv(combination.floored(learned.mean)))


def _latest(rounds: Sequence[RoundMeans], m: Array) -> tuple[Array, Array]:
    """The last state, and the mean report there: that of the last round, or of several with as many records as one.

    Reports of states before are carried to the last one by `m`, if those of the last round are few: if many come
    late, or in families whose last pilot round is larger than a main one. Equation (23) of docs/estimator.md.
    """
    total, x, g = curvature.means(rounds)
    most, share = float(total.max()), np.zeros(len(rounds))
    for k in reversed(range(len(rounds))):
        share[k] = min(total[k], most - share.sum())
        if share.sum() >= ENOUGH * most:
            break
    return x[-1], share @ (g + (x[-1] - x) @ m.T) / share.sum()


def _measuring(plan: Plan, progress: Progress, state: State) -> Progress:
    """Compute the estimate; the next records report how well it predicts them."""
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
    if plan.rules.track and not plan.rules.varying:
        residual = progress.fitted.scale
    reach = REACH
    gauge = plan.gauge._replace(residual=reach * residual, spread=reach * spread, centre=centre)
    return progress._replace(state=state._replace(theta=found.theta), gauge=gauge, final=found)
