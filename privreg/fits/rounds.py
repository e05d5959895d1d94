"""Outcome of a fit by rounds: numbers, words and notes in the user's units, from its collector's progress."""

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.audit import reports
from privreg.base.arrays import Array
from privreg.collector.estimation import coordinates, estimate, reference
from privreg.collector.inference import methods
from privreg.collector.inference.methods import METHODS, Estimate, Steps, between_groups
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import FIRST, Anytime, Bootstrap, batches
from privreg.collector.plan import Estimated, Plan, Progress
from privreg.errors import InferenceError
from privreg.families.family import score_rules
from privreg.fits.findings import before_role, found_of, shares_of
from privreg.fits.notes import clamping_words, filled_note, notes
from privreg.fits.outcome import FitOutcome, Held, outside_of, refuse_overflow
from privreg.fits.plan import device_plan, to_user
from privreg.fits.settings import Settings
from privreg.formula.spec import ModelSpec
from privreg.options.running import one_thread
from privreg.results.data import NO_STEPS, Equation, Later, RoundHeld
from privreg.tables.diagnostics import Diagnostic, note

ROLES: Final = {
    "location": "reported locations of columns",
    "moments": "reported second moments",
    "pilot": "ran a pilot",
    "clamping": "reported clamping",
}

SMALLER: Final = 0.25  # Weight of a budget half the largest, for which personal budgets are audited too


@one_thread()
def outcome(held: Held, spec: ModelSpec, settings: Settings, order: NDArray[np.intp]) -> FitOutcome:
    """Outcome of a fit by rounds; `order`, shape (p,), is that of columns inside, as `fits.plan.plan_of` gives it.
    Raises InferenceError while the first records' reports still set the scales.
    """
    plan, progress, units = held.plan, held.progress, spec.units
    if progress.fitted is None:
        before = before_role(plan, progress, "pilot", "main")
        raise InferenceError(
            f"up to {before:,} records set the scales, and {held.people:,} have reported; estimates begin after them."
        )
    found: Estimated | None = held.found
    theta = progress.fitted.theta if found is None else found.theta
    carry = to_user(spec, order)
    linear = carry @ coordinates.linear(plan, progress.state)

    def outside(at: Array) -> Array:
        return outside_of(coordinates.inside(plan, progress.state, at), order, units)

    refuse_overflow(theta)
    estimates = () if found is None else _estimates(plan, progress, found, settings, linear)
    trail, sent = list[tuple[int, int, Array, Array]](), 0.0  # after each main round but the last
    moves = [] if found is None else estimate.earlier(found.carried, linear)
    for one, (at, between) in zip(progress.main, moves, strict=False):
        sent += float(one.weight.sum())
        trail.append((sum(held.came[: one.state.number + 1]), round(sent), outside(at), between))
    last = np.full(len(theta), np.nan) if found is None else np.diag(linear @ found.cov @ linear.T)
    trail.append((held.people, progress.senders, outside(theta), last))
    people, senders, params, variances = zip(*trail, strict=True)
    banded = {"anytime", "sandwich"} & {e.method for e in estimates}
    errors = np.sqrt(np.diag(estimates[0].cov) if estimates else last)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(params[-1] / errors)
    findings = found_of(held, found, settings, estimates, order, carry, ratios)._replace(summable=spec.summable)
    clusters, of_these = methods.of_clusters(held.clustered, plan.groups, lanes=True) if plan.clusters else ("", ())
    learned = [(k, j) for k, j in enumerate(plan.unscaled) if j < len(order)]
    spreads = np.full(len(order), np.nan)
    for k, j in learned:
        spreads[order[j]] = progress.places.scale[k]
    came = held.came

    def steps() -> Steps:
        # Estimates of the parts of main rounds, user's units
        assert found is not None
        inside = estimate.steps(plan, progress, found, came)
        at = np.array([outside(theta) for theta in inside.estimate])
        return inside._replace(estimate=at, each=linear @ inside.each @ linear.T, unknown=inside.unknown @ linear.T)

    equation, shape, state = None, plan.rules.shape, progress.state
    if found is not None:
        weights, c, offsets, bend = estimate.equation(plan, progress, found)
        if plan.extremes:  # the likelihood's own, whose root groups' offsets move by little, see docs/estimator.md
            weights, c, offsets, bend = np.ones(1), c[-1:], np.zeros((1, plan.size)), np.zeros(plan.size)
        equation = Equation(
            shape=(shape.family, shape.a, shape.b),
            weighing="leverage" if plan.label else "likelihood" if plan.extremes else "unit",
            rows=state.rows,
            order=np.asarray(order, dtype=np.int64),
            constant=plan.layout.constant,
            y_centre=state.y_centre,
            y_scale=state.y_scale,
            weights=weights,
            c=c,
            offsets=offsets,
            bend=bend,
            theta=found.theta,
            people=spec.people.to_json() if plan.persons else None,
        )
    return FitOutcome(
        nobs=held.people,
        params=params[-1],
        last=outside(progress.state.theta),
        estimates=estimates,
        senders=progress.senders,
        updates=len(progress.scored),
        trail_n=np.array(people, dtype=np.int64),
        trail_senders=np.array(senders, dtype=np.int64),
        trail_params=np.array(params),
        trail_variances=np.array(variances) if banded else np.full((len(trail), len(theta)), np.nan),
        **_words(held, spec, settings),
        notes=(
            *notes(findings, spec, order, plan.blocks),
            *(_price(plan, progress, theta, spec) if plan.extremes and found is not None else ()),
            *(filled_note(spec.people.k_max, *progress.scatter.usable) if plan.persons else ()),
            *of_these,
        ),
        clusters=clusters,
        mechanics=_mechanics(held),
        unusable=findings.unanswered,
        measures=estimate.measured(plan, progress, held.open._replace(people=held.came[-1]), units.y_scale),
        rounds=_rounds(held, trail, outside, errors),
        steps=NO_STEPS  # of clusters, whose people in two windows are alike, windows' errors aren't known
        if found is None or not estimates or plan.clusters or held.shuffled > 0.0
        else Later(steps),
        equation=equation,
        measured=held.came[-1] if progress.state.role == "measures" else 0,
        clamping=clamping_words(shares_of(plan, progress), "the response" if plan.label else "any column")
        if any(r.role == "clamping" for r in plan.rounds)
        else None,
        spreads=spreads if learned else None,
    )


def _words(held: Held, spec: ModelSpec, settings: Settings) -> dict[str, Any]:
    """Entries of an outcome in words: family and target with their threshold, rounds, people in early ones, bound."""
    plan, progress, rules, efficient = held.plan, held.progress, held.plan.rules, settings.efficient
    assert efficient is not None
    ratio, fixed, family, unit = rules.ratio, None if plan.like is None else plan.like[1], settings.score_text, 1.0
    if progress.fitted is not None:
        unit = progress.fitted.scale * progress.state.y_scale
    scale, name = unit * spec.units.y_scale, family.partition(",")[0]
    if rules.track and not rules.varying and progress.fitted is not None:
        family = f"{name}, c = {ratio:.4g} × residual scale {scale:.4g} (learned)"
        if name.startswith("Quantile"):
            family = f"{name}, density there that of a normal with sd {scale:.4g} (learned)"
        elif fixed is not None:
            family = f"{name}, c = {fixed * spec.units.y_scale:.4g} (fixed by like=), residual scale {scale:.4g}"
    ratio = fixed / unit if fixed is not None and progress.fitted is not None else ratio
    target = spec.family.target(ratio, learned=rules.track and plan.like is None)
    roles = [r.role for r in plan.rounds if not r.optional]
    many = "all further ones" if plan.rows is None else f"{roles.count('main')} of them"
    counts = dict.fromkeys(ROLES, 0)
    for number, people in enumerate(held.came):
        if plan.role(number) in counts:
            counts[plan.role(number)] += people
    parts = [f"{n:,} {ROLES[k]} (noise sd {plan.sd(k):.4g})" for k, n in counts.items() if n]
    bound = f"{settings.how.bound:.4g} (ψ / bound), weights {settings.how.weighing}"
    if efficient.label:
        bound = "1 (ψ / bound): one number of known range, times covariates that are public, or the constant 1"
    elif efficient.unweighted:
        bound = "1 (ψ / bound), no weights: z over the longest row that declarations allow"
    return {
        "family": family,
        "target": target if plan.like is None else f"{target}; the target is fixed, that of the fit in like=",
        "tuning": f"efficient: {sum(n > 0 for n in held.came)} rounds; {many} main, in {plan.groups} groups",
        "spending": f"{', '.join(parts)}; each person in one role, no extra budget",
        "bound": bound + ", one weight for all rows of a person" * bool(plan.persons and plan.persons.one),
    }


def _rounds(
    held: Held, trail: Sequence[tuple[int, int, Array, Array]], outside: Callable[[Array], Array], errors: Array
) -> tuple[RoundHeld, ...]:
    """Every round that has asked anybody: its records, and the move of the estimate in standard errors."""
    plan, progress, out = held.plan, held.progress, list[RoundHeld]()
    came = {s.state.number: float(s.weight.sum()) for s in progress.scored}
    if not (states := [s.state for s in progress.scored]) or states[-1].number < progress.state.number:
        states.append(progress.state)
    estimates = iter([one[2] for one in trail])
    moved: dict[int, Array] = {}
    before = outside(states[0].theta) if states else np.zeros(0)
    for seen, following in zip(progress.scored, [*states[1:], states[-1]], strict=False):
        if seen.state.role == "main" and not seen.weight.any():
            continue
        counts = seen.state.role == "main" and seen.state.number >= progress.since
        after = next(estimates) if counts else outside(following.theta)
        moved[seen.state.number], before = after - before, after
    for before, one in zip(held.chain.history, [*held.chain.batches, held.open], strict=True):
        if one.people:
            number = before.state.number
            move = moved.get(number)
            far = float("nan") if move is None else float(np.max(np.abs(move) / errors))
            reported = came.get(number, float(one.weight.sum()))
            out.append(RoundHeld(len(out) + 1, plan.role(number), one.people, reported, far))
    return tuple(out)


def _price(plan: Plan, progress: Progress, theta: Array, spec: ModelSpec) -> tuple[Diagnostic]:
    """Note on the people needed without weights, relative to those with: equation (46) of docs/estimator.md."""
    assert progress.fitted is not None
    model, traces = coordinates.reference_model(plan, progress), []
    usual = score_rules(spec.scored, plan.d, spec.budget.mu, low=plan.y_low, high=plan.y_high)
    for one in (
        model,
        reference.reference_of(usual, model.points, answering=model.answering)._replace(added=model.added),
    ):
        at = theta, progress.state.c, theta, progress.fitted.scale
        back = np.linalg.inv(reference.secant(one, *at))
        noise = plan.sd("main") ** 2 * np.eye(plan.size) + reference.variance(one, *at)
        traces.append(float(np.trace(back @ noise @ back.T)))
    return (note("unweighted", times=traces[0] / traces[1]),)


def _estimates(
    plan: Plan, progress: Progress, found: Estimated, settings: Settings, linear: Array
) -> tuple[Estimate, ...]:
    """Estimates of precision by each method, user's units."""
    out, senders = list[Estimate](), progress.senders
    if settings.methods[:1] == (METHODS["anytime"],) and senders < FIRST:
        return ()  # who looks all the time must not be shown early what holds at one look only
    moves, weights = estimate.corrections(found.main)
    total = float(weights.sum())
    unknown = linear @ found.unknown @ linear.T
    for m in settings.methods:
        if m.name in {"sandwich", "plug_in", "path_curvature", "anytime"}:
            law = Anytime(senders) if m.name == "anytime" else Normal()
            if m.name != "anytime" or senders >= FIRST:
                out.append(Estimate(m.name, np.asarray(linear @ found.cov @ linear.T), law))
            continue
        if m.name == "between_lanes":
            each, parts = estimate.of_groups(found.main)
            if plan.clusters:  # groups are of unequal size, or have nobody
                out += between_groups(each @ linear.T, parts, unknown)
                continue
            share, groups = parts / parts.sum(), len(parts)
            deviation = ((each - share @ each) * share[:, None]) @ linear.T
            cov = groups / (groups - 1.0) * deviation.T @ deviation + unknown
            out.append(Estimate(m.name, cov, StudentT(groups - 1)))
            continue
        sums = (moves * weights[:, None]) @ linear.T
        mean = sums.sum(axis=0) / total
        if m.scaling:
            path = np.cumsum(sums - weights[:, None] * mean, axis=0) / total
            share = weights / total
            cov = 6.0 * (path * share[:, None]).T @ path + unknown
            out.append(Estimate(m.name, cov, RandomScaling(1, len(weights))))
        elif m.blocks:
            seen = batches(sums, weights, mean, total)
            drawn = Bootstrap(seen.moves, m.name == "block_bootstrap_t")
            pivot = StudentT(seen.df) if m.name == "batch_means" else drawn
            out.append(Estimate(m.name, seen.cov + unknown, pivot))
    return tuple(out)


def _mechanics(held: Held) -> tuple[dict[str, Any], ...]:
    """Inputs for an audit of the reports of every role that has had a round: numbers only."""
    plan, state, out = held.plan, held.progress.state, list[dict[str, Any]]()
    for role in dict.fromkeys(plan.role(number) for number in range(len(held.came))):
        if role == "moments" and plan.label:  # covariates are public
            continue
        form, numbers = plan.form(role), plan.numbers(role)
        if form == "scores":
            asked = device_plan(plan, state._replace(role=role))
            out.append(reports.described(f"score, {role}", form, asked, state.theta, state.c))
            continue
        name, size = "measures of fit" if role == "measures" else role, plan.direction if form == "moments" else numbers
        way = plan.mechanism.channel(numbers), plan.radius(role)
        out.append(reports.described(name, form, way, [0.0] * size))
    if held.personal:  # smaller budgets by more noise
        out += [reports.of_smaller_budget(m, SMALLER) for m in out]
    return tuple(out)
