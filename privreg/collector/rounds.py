"""The design of local reports, `lean`: states out, sums of reports in. Functions on values; nothing here sees a row.

`begin` is the progress before anybody has reported, `advance` adds one round's reports and makes the next state;
`estimate.estimate` computes the coefficients from all reports.

Reports of bounded residuals show the curvature near their state: one or two c away it is another one. With a response
of two peaks, states may have to go many c through a valley: steps then grow, and rounds are left out.
"""

import math
from typing import Final

import numpy as np
from scipy.linalg import hadamard
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.covariates import moments, whitening
from privreg.collector.covariates.moments import Clamped
from privreg.collector.design import Ask, Batch, Design
from privreg.collector.estimation import coordinates, curvature, reference
from privreg.collector.estimation.combination import carry_rounds, observed
from privreg.collector.estimation.coordinates import placed, reference_model
from privreg.collector.estimation.curvature import FAR, Curvature
from privreg.collector.estimation.estimate import estimate
from privreg.collector.estimation.reference import Reference
from privreg.collector.levels import SURE
from privreg.collector.plan import SAMPLED, Carried, Plan, Progress, ScoreRound
from privreg.families.scores import REACH
from privreg.options.running import one_thread
from privreg.protocol.rounds import State
from privreg.protocol.schedule import ENDLESS

ENOUGH: Final = 0.7  # Part of the reports of the largest round that is enough to go by
OFFSET: Final = 0.35  # Length of offsets in units of c with few records in main rounds; of more it falls, by (18)
OFFSET_PEOPLE: Final = 10_625.0
"""Records in all rounds, times 4/(σ² + 0.7/d) and over the squared number of coefficients, up to which it is that long:
of more coefficients, more entries of the curvature are to be learned; of fewer, what offsets add to a mean report is
larger beside a standard error. Where this was 170,000 whatever their number, the sd of a constant alone, of the 0.9
quantile, was 1.3 times its standard error (`benchmarks.families`)."""
GENTLE: Final = 0.35
"""Length of offsets, relative to that of others, of a yes or no, of classes and of counts. What offsets add to a
mean report is taken off by a reference model that knows little of the covariates: with powers of an age, full length
moved coefficients by 1.4 standard errors from a right model's and this by 0.4. With full length the slope of counts of
90,000 records had an sd of 1.19 standard errors, with this of 0.92."""
CORRELATED: Final = 2.5  # Condition number of the learned correlations from which on another round of moments is held
STRETCHED: Final = 4  # Main rounds after which offsets are stretched where these show little curvature


@one_thread()
def begin(plan: Plan) -> Progress:
    """Progress before the first report, with the first state."""
    rows, role = np.eye(plan.direction), plan.rounds[0].role
    if plan.added is not None and math.isfinite(width := plan.added[1] - plan.added[0]) and width > 0.0:
        rows[-1, -1], rows[-1, 0] = 2.0 / width, -sum(plan.added) / width  # bounds at ±1, as of covariates
    scatter, places = moments.start_even(rows, plan.factors), moments.search(len(plan.unscaled))
    offsets, theta = np.zeros((plan.groups_of(role), plan.size)), np.zeros(plan.size)
    state = State(0, role, scatter.rows, 0.0, 1.0, theta, 1.0, offsets, plan.kappa(role), places.thresholds)
    progress = Progress(state, scatter, places, None, (), None, ())
    if role in {"location", "moments"}:
        return progress
    return _next(plan, *placed(plan, progress, state))  # nothing is to be learned of covariates


def asks(plan: Plan, progress: Progress) -> Ask:
    """Question that is asked next; the last round stays open."""
    people = plan.people(progress)
    return Ask(progress.state, len(progress.state.offsets), None if people == ENDLESS else people)


@one_thread()
def advance(plan: Plan, progress: Progress, reports: Batch | None) -> Progress:
    """Progress with one round added, whose reports answered `progress.state`, and with the state of the next.

    A round whose reports are lost, None, is asked again.
    """
    if reports is None:
        return progress
    role, people, total = progress.state.role, float(reports.weight.sum()), reports.total.sum(axis=(0, 1))
    match role:
        case "location":
            sums = reports.total.sum(axis=0), reports.weight.sum(axis=0)
            progress = progress._replace(places=moments.narrowed(progress.places, *sums, plan.sd(role)))
        case "moments":  # add them to the whitening map
            scatter, number, persons = progress.scatter, progress.state.number, plan.persons
            if not plan.label:
                scatter = moments.learn(
                    *(scatter, total, people, plan.sd(role), plan.layout._replace(constant=True), plan.factors),
                    constant2=coordinates.constant2(plan, progress, number),
                    nonresponse=plan.nonresponse or persons is not None,
                    together=persons.rows if persons else 1,
                )
            elif any(r.role == role for r in plan.rounds[:number]):  # of covariates, which are public
                scatter = moments.exact(scatter, total, (*plan.columns.gaps, *(0.0,) * int(plan.layout.response)))
            else:
                scatter = moments.sizes(scatter, total)
            progress = progress._replace(scatter=scatter)
        case "clamping":
            progress = progress._replace(clamped=Clamped(progress.state.number, people, total, reports.people))
        case _:
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
    if role == "location":  # rows that have the learned locations and scales
        rows, places = np.array(progress.scatter.rows), progress.places
        for j, m, s in zip(plan.unscaled, places.centre.tolist(), places.scale.tolist(), strict=True):
            if j < plan.d:
                k = j + plan.extra
                rows[k, k], rows[k, 0] = 1.0 / s, -m / s
            else:
                m, s = min(max(m, plan.y_low), plan.y_high), min(s, plan.y_high - plan.y_low)
                shift = m if plan.layout.constant else 0.0
                state = state._replace(y_centre=float(shift), y_scale=float(s if shift == m else math.hypot(s, m)))
        progress = progress._replace(scatter=moments.start_from(rows, progress.scatter))
    if following == "moments":
        if plan.rounds[number].optional and (far := coordinates.overstretched(plan, progress, number)):
            progress = progress._replace(scatter=moments.drawn_in(progress.scatter, far, plan.widened))
        rows = moments.asked(progress.scatter.rows, coordinates.constant2(plan, progress, number))
        return progress._replace(state=state._replace(rows=rows))
    if role in {"location", "moments"}:
        progress, state = placed(plan, progress, state)
    if following == "measures":
        # the estimate is made, and the next records report how well it predicts them
        found, first = estimate(plan, progress), int(plan.layout.constant)
        assert found is not None
        assert plan.gauge is not None
        assert progress.fitted is not None
        spread, centre, residual = 1.0, 0.0, 1.0
        if plan.layout.response:
            *slopes, residual = np.linalg.inv(progress.scatter.rows)[plan.d].tolist()
            spread, centre = math.hypot(*slopes[first:], residual), slopes[0] if first else 0.0
        if plan.rules.track and not plan.rules.varying:
            residual = progress.fitted.scale
        gauge = plan.gauge._replace(residual=REACH * residual, spread=REACH * spread, centre=centre)
        return progress._replace(state=state._replace(theta=found.theta), gauge=gauge, final=found)
    # a report on clamping is none on coefficients
    return _offset(plan, progress, state) if role == "clamping" else _next(plan, progress, state)


def scored(plan: Plan, progress: Progress, reports: Batch) -> Progress:
    """Progress with the sums of a round of scores added."""
    state, weight, total, number = progress.state, reports.weight, reports.total, None
    if state.kappa > 0.0:
        number = float(total[..., -1].sum() / weight.sum()) / state.kappa
    one = ScoreRound(state, weight, total[..., : plan.size], number, plan.sd(state.role))
    return progress._replace(scored=(*progress.scored, one))


def with_present(plan: Plan, progress: Progress, reports: Batch) -> Progress:
    """Progress with the reports of the present round so far; the round goes on."""
    if progress.state.role not in {"pilot", "main"} or not reports.weight.any():
        return progress
    return scored(plan, progress, reports)


def late(progress: Progress, number: int, reports: Batch) -> Progress:
    """Progress with reports added that came after their round was over: they count with the state that they answered.

    `number` is that of the state, in a round of scores or on clamping; people of `reports` are those who were not
    counted before. States that are out already stay as they are.
    """
    total, people, scored = reports.total, float(reports.weight.sum()), []
    for one in progress.scored:
        if one.state.number == number:
            weight, mean = one.weight + reports.weight, one.number
            if mean is not None and weight.any():
                mean = mean * float(one.weight.sum()) + float(total[..., -1].sum()) / one.state.kappa
                mean /= float(weight.sum())
            one = one._replace(weight=weight, score=one.score + total[..., : one.score.shape[-1]], number=mean)
        scored.append(one)
    had = progress.clamped
    if had is not None and had.number == number:
        sums = had.weight + people, had.total + total.sum(axis=(0, 1)), had.people + reports.people
        progress = progress._replace(clamped=Clamped(number, *sums))
    held = [n + reports.people * (k == number) for k, n in enumerate(progress.held)]
    return progress._replace(scored=tuple(scored), held=tuple(held))


def _pays(plan: Plan, progress: Progress, number: int) -> bool:
    """True if this further round on moments pays."""
    d, scatter = plan.d + plan.extra, progress.scatter
    cov = whitening.correlation(scatter.rows[:d, :d], constant=True)
    if (len(cov) > 1 and np.linalg.cond(cov) > CORRELATED) or coordinates.overstretched(plan, progress, number):
        return True
    shares = whitening.shrunk(plan.factors, scatter.shares)
    return bool(shares) and whitening.unsure(np.concatenate(shares), scatter.shares.variance)


def _next(plan: Plan, progress: Progress, state: State) -> Progress:
    """Progress with the next state of scores: equations (16), (17) and (23) of docs/estimator.md."""
    if not progress.scored:
        return _offset(plan, progress, state)
    model = reference_model(plan, progress)
    if progress.scored[-1].state.role != "pilot":
        carried, learned, back, x, g = _latest(plan, progress, state, model)
        noise = back @ carried.noise @ back.T / max(*(float(r.weight.sum()) for r in carried.rounds), 1e-300)
        chance = math.sqrt(float(np.trace(noise)))
        off = float(np.linalg.norm(np.linalg.solve(carried.root.T, g)))
        nearer = left_behind(plan, progress, chance, off)
        if nearer.since > progress.since:
            progress = nearer
            carried, learned, back, x, g = _latest(plan, progress, state, model)
        step = lengthened(plan, progress, -back @ g, state.c if model.scaled else 1.0, curvature.GAIN, chance)
        theta = np.linalg.solve(carried.root.T, x) + curvature.gain(noise, varying=plan.rules.varying) @ step
        progress = progress._replace(curvature=learned, local=carried.local)
        progress = stretched(plan, progress, state, model, carried)
        return _offset(plan, progress, state._replace(theta=theta))
    assert progress.fitted is not None
    assert progress.prior is not None
    fitted = reference.fit(model, observed(plan, progress), progress.fitted, progress.prior)
    unsure, scale, c = 0.0, fitted.scale, state.c
    if state.role == "pilot":
        unsure = math.sqrt(max(float(np.trace(fitted.cov[:-1, :-1])), 0.0))
    if plan.rules.track:
        unsure = min(unsure, 1.5 * scale)
        c = plan.rules.ratio * math.hypot(scale, unsure)
        if plan.like is not None and plan.like[1] is not None and unsure <= scale:  # far off, the pilot needs more
            c = plan.like[1] / state.y_scale
    elif plan.rules.scoring.pearson:
        c = reference.threshold_of_counts(plan.rules, model.predictors(fitted.theta), unsure)
    return _offset(plan, progress._replace(fitted=fitted), state._replace(theta=fitted.theta, c=c))


def _offset(plan: Plan, progress: Progress, state: State) -> Progress:
    """Progress with a state, in main rounds with groups' offsets."""
    if state.role == "main":
        state = state._replace(offsets=offsets(plan, progress, state))
    return progress._replace(state=state)


def _latest(
    plan: Plan, progress: Progress, state: State, model: Reference
) -> tuple[Carried, Curvature, Array, Array, Array]:
    """Rounds and curvature at the last state, M̂ₛ, which makes steps, the last state, and the mean report there: (23).

    The report is that of the last round, or of several with as many records as one: those of states before are carried
    to the last one, if the last round's are few, as many come late, or its people are fewer than a pilot round's.
    """
    assert progress.fitted is not None
    carried = carry_rounds(plan, progress, model, state.theta, progress.fitted.scale, nearby=not plan.rules.varying)
    learned = carried.learned(brief=True)
    m = curvature.floored(learned.mean)
    total, x, g = curvature.means(carried.rounds)
    most, share = float(total.max()), np.zeros(len(total))
    for k in reversed(range(len(total))):
        share[k] = min(total[k], most - share.sum())
        if share.sum() >= ENOUGH * most:
            break
    back = np.linalg.solve(carried.root.T, np.linalg.inv(m))
    return carried, learned, back, x[-1], share @ (g + (x[-1] - x) @ m.T) / share.sum()


# --- offsets and steps ------------------------------------------------------------------------------------------


def offsets(plan: Plan, progress: Progress, state: State) -> Array:
    """Offsets of the groups, shape (groups, q), balanced: equation (19) of docs/estimator.md."""
    q = plan.size
    if q < plan.groups:
        signs = hadamard(plan.groups)[:, 1 : q + 1].astype(np.float64) * (-1.0) ** state.number
    else:
        half = np.random.Generator(np.random.PCG64([41, state.number])).choice([-1.0, 1.0], (plan.groups // 2, q))
        signs = np.concatenate([half, -half])
    out = signs * (_length(plan, progress, state) / math.sqrt(q))
    if progress.stretch is not None:
        out = out @ progress.stretch
    if not plan.rules.varying:
        out[:, coordinates.at_a_bound(plan, progress, state)] *= coordinates.AT_BOUND
    return np.asarray(out)


def _length(plan: Plan, progress: Progress, state: State) -> float:
    """Length of groups' offsets: equation (18) of docs/estimator.md."""
    scoring, varying = plan.rules.scoring, plan.rules.varying
    curved = varying or plan.rules.centre != 0.0 or scoring.bent_by_offsets
    # where offsets bend what is expected, their length falls with a standard error; else curvature is what matters
    strength2 = plan.effective_mu(state.longest) ** 2
    if not curved and not state.longest:
        strength2 = 4.0 / (plan.sd("main") ** 2 + SAMPLED / plan.d)
    effective = (sum(progress.held) if plan.rows is None else plan.rows) * strength2
    length = OFFSET * min(1.0, (OFFSET_PEOPLE * plan.size**2 / max(effective, 1.0)) ** 0.25)
    if varying and plan.rules.track:
        length *= scoring.margin  # c is that of a window about a margin
    elif plan.rules.track or scoring.residual:
        length *= state.c
    # far out the density, which is the curvature, is low: with the median's length, reports showed so little of one
    # that varied elevenfold that intervals of the 0.9 quantile covered 70%
    if scoring.density:
        length *= min(math.exp(0.5 * float(ndtri(plan.rules.shape.a)) ** 2), 1.0 / OFFSET)
    if scoring.short_offsets and plan.sd("main") > 0.0:
        length *= GENTLE
    elif plan.extremes and not varying:
        length *= coordinates.AT_BOUND
    return float(length)


def stretched(plan: Plan, progress: Progress, state: State, model: Reference, carried: Carried) -> Progress:
    """Add the matrix by which offsets are multiplied after four main rounds: equation (20) of docs/estimator.md.

    Along directions of less curvature than the mean they are longer in proportion, but for numbers at a bound, at
    most c, and only so long that predictors of records that show curvature along a direction move by c: with three c
    no record of a rare level had a score that bent, and its coefficient's sd was a quarter larger. In designs where
    curvature varies most, with 200,000 records, a tenth as many coefficients were marked, and 93% of the intervals of
    the worst held in place of 88 (`benchmarks.validity`).
    """
    usual = model.scaled and not plan.rules.varying and plan.size <= curvature.MOST
    if not usual or progress.stretch is not None or progress.curvature is None or len(progress.main) < STRETCHED:
        return progress
    each = _length(plan, progress, state) / (state.c * math.sqrt(plan.size))
    values, vectors = np.linalg.eigh(carried.root @ progress.curvature.mean @ carried.root.T)
    along = (model.points @ vectors) ** 2
    reach = np.sqrt((model.weight @ along**2) / np.maximum(model.weight @ along, 1e-300))
    most = np.clip(1.0 / np.maximum(each * reach, 1e-300), 1.0, 1.0 / OFFSET)
    usually = max(float(values.mean()), 1e-290)
    times = np.clip(usually / np.maximum(values, 1e-9 * usually), 1.0, most)
    stretch = np.eye(plan.size) + (vectors * (times - 1.0)) @ vectors.T
    short = coordinates.at_a_bound(plan, progress, state)
    stretch[short] = stretch[:, short] = 0.0
    stretch[short, short] = 1.0
    return progress._replace(stretch=stretch)


def left_behind(plan: Plan, progress: Progress, chance: float, off: float) -> Progress:
    """Leave out the first main rounds, up to the last that is far from the present state: progress with `since`.

    Farther than two of the longest steps, once others tell as much: a group's coefficient, design "valley" of
    `benchmarks.designs` (400,000 records, μ = 5), was off by 5 standard errors with 5 c, by none with 2 and 3 (8 runs).

    `chance` is the sd of a state by the noise of one round, coordinates of the scores; `off` the last state's distance
    from its reports' one-step estimate under the reference model's curvature. If that is more than c, nothing is left
    out: beyond the data scores are as large as they can be.
    """
    main, last = progress.main, progress.state
    if len(main) < 2 or not plan.rules.scoring.bounded or off > last.c:
        return progress
    limit = max(2.0 * FAR * last.c, SURE * chance)
    people = np.array([float(one.weight.sum()) for one in main])
    far = [k for k, one in enumerate(main) if float(np.linalg.norm(one.state.theta - last.theta)) > limit]
    for k in reversed(far):
        if people[k + 1 :].sum() >= ENOUGH * people.max():
            return progress._replace(since=main[k + 1].state.number)
    return progress


def lengthened(plan: Plan, progress: Progress, step: Array, unit: float, gain: float, chance: float) -> Array:
    """A step cut to `FAR` units, but twice the last one if that was cut, too, and went the same way; shape (b d,).

    If the last step went too far, half of it is taken back: a zero is between. A step is never longer than the rounds
    to come can halve. It is computed from the reports of the last state, which `progress` has. `unit` is that of
    lengths, c; `gain` the part of a step that is made, and `chance` the length that noise alone gives it.
    """
    length, most, before = float(np.linalg.norm(step)), FAR * unit, progress.main
    if length > max(most, SURE * chance) and len(before) > 1 and plan.rules.scoring.bounded:
        moved = before[-1].state.theta - before[-2].state.theta
        gone = float(np.linalg.norm(moved))
        same = float(moved @ step) / max(gone * length, 1e-300)
        if gone > 0.99 * gain * most and abs(same) > math.sqrt(0.5):  # more along it than across
            left = sum(r.role == "main" for r in plan.rounds[progress.state.number + 2 :])
            again = gone / gain * (2.0 if same > 0.0 else 0.5)
            return np.asarray(step * (max(most, min(again, most * 2.0 ** (left - 1))) / length))
    return np.asarray(step * min(1.0, most / max(length, 1e-300)))


lean: Final = Design(begin, asks, advance, with_present, estimate)
"""Sums of local reports of scores alone, by groups whose states differ a little: curvature is learned from these."""
