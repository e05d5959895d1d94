"""What a fit by sums says of itself, of two collectors or a curator: user's units, words, notes. Sums only."""

from __future__ import annotations

import math
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.arrays import Array, Ints
from privreg.audit import reports
from privreg.collector.aggregate import measuring, report
from privreg.collector.aggregate.budget import AGAIN, MOST_MU, share
from privreg.collector.aggregate.classes import against_first
from privreg.collector.aggregate.estimate import Estimated, estimate
from privreg.collector.aggregate.lattice import sd, steps
from privreg.collector.aggregate.plan import Noise, Plan, Progress, State, rules_of
from privreg.collector.aggregate.rounds import begin
from privreg.collector.clamping import Shares, harmed
from privreg.collector.covariates.whitening import correlation
from privreg.collector.levels import PART, RAREST
from privreg.diagnostics import Diagnostic, doubt
from privreg.errors import InferenceError
from privreg.families.family import Family
from privreg.families.measures import Gauge
from privreg.fits.extremes import extremes_of
from privreg.fits.notes import Findings, clamping_words, filled_note, notes
from privreg.fits.outcome import FitOutcome, of_clusters, outside_of, refuse_overflow
from privreg.fits.plan import limits_of_offset, order_of, to_user
from privreg.fits.settings import Settings
from privreg.formula.spec import ModelSpec
from privreg.formula.units import Units
from privreg.inference import clusters
from privreg.inference.methods import Estimate
from privreg.inference.pivots import Normal
from privreg.protocol.schedule import PILOTS
from privreg.results.data import Equation, RoundHeld
from privreg.results.target import Target
from privreg.results.wording import Unusable

CLEAR: Final = 2.0
"""Smallest eigenvalue of the curvature, in edges of its noise, below which it is lost there: from here on the true one
is at least half of what was found (Weyl's inequality)."""

FINITE: Final = 3.0
"""Sds by which it shows that no records are predicted perfectly: one fit in a thousand misses that they are."""

SCORED: Final = frozenset({"approach", "closing", "main"})  # Roles of rounds that report scores

EARLY: Final = {
    "clamping": "whether bounds clamp them",
    "location": "means",
    "moments": "second moments",
    "approach": "first scores",
    "closing": "first scores",
    "directions": "long rows",
    "lengths": "long rows",
}
"""What rounds before the main one are about."""


def plan_of(
    spec: ModelSpec, rows: int, measures: float = 0.0, like: Target | None = None
) -> tuple[Plan, NDArray[np.intp]]:
    """What a fit by sums fixes before its first record, all of it public; with the order of columns inside.

    `rows` are the records expected, `measures` the share of them, the last ones, by whom the fit is measured; `like` is
    the target of an earlier fit. In the order, shape (p,), the constant goes first.
    """
    units, design = spec.units, spec.design
    order, _ = order_of(spec, factors=False)
    inside = units.probe_inside(design.probe)[:, order]
    low, high = spec.response_limits
    lows, highs, dummies = inside.min(axis=0), inside.max(axis=0), units.gaps(design.probe)[order] > 0.0
    people, indicators = spec.people, dummies
    if people.effect is not None:  # what is left of a column without a person's level
        highs[1:] = (highs - lows)[1:] * people.spread
        lows[1:], dummies = -highs[1:], np.zeros(len(order), dtype=np.bool_)
    family, gauge = spec.scored, None
    if measures > 0.0:  # residuals, responses and their centre are in units that are learned
        gauge = Gauge(family.code, family.tau, spec.classes, 1.0, 1.0, 0.0, family.y_max, spec.unusable)
    added = limits_of_offset(spec) if family.link == "log" else None
    mu = min(spec.budget.mu, MOST_MU)
    plan = Plan(
        d=len(order),
        rows=rows,
        mu=math.floor(mu * 1e6) / 1e6 if spec.trust == "central" else mu,  # a sum of fractions, with six decimals
        rules=rules_of(
            *(spec.scored, low, high, units.y_scale),
            several=people.rows > 1,
            plain=spec.unbalanced,
            again=spec.trust == "central",
            c=like.c if like else None,
        ),
        y_low=low,
        y_high=high,
        dummies=dummies,
        lows=lows,
        highs=highs,
        bounded=len(spec.clamps),
        measured=0 if gauge is None else max(int(measures * rows), 1),
        gauge=gauge,
        persons=spec.persons,
        indicators=indicators,
        wide=2.0 * people.spread if people.effect is not None else 1.0,
        clusters=spec.clusters,
        like=None if like is None else (like.map, like.reach or 1.0),
        extremes=extremes_of(spec, order) if spec.unweighted else (),
        rate=0.5 * sum(added) if added else 0.0,
        shifted=design.offset is not None or design.exposure is not None,
        noise=Noise(1, again=True) if spec.trust == "central" else Noise(),
    )
    return plan, order


def lines_of_sums(spec: ModelSpec, rows: int, measures: float, like: Target | None) -> list[tuple[Any, ...]]:
    """Lines of a plan's rounds: number, role, records, whether it may be left out, numbers and their noise sd."""
    plan, _ = plan_of(spec, rows, measures, like)
    noise = 1.0 if spec.budget.private else 0.0
    if plan.noise.again:
        return [(k + 1, r, rows, o, plan.width(r), noise * sd(plan, r, mu)) for k, (r, o, mu) in enumerate(_paid(plan))]
    roles = (
        ["clamping"] * bool(plan.sizes["clamping"])
        + ["location"] * (plan.first == "location")
        + ["moments"] * 2
        + ["approach"] * PILOTS
    )
    roles += ["closing"] * bool(plan.sizes["closing"])
    first = roles.index("approach")
    held = [(role, plan.sizes[role], k > first and role == "approach") for k, role in enumerate(roles)]
    main = rows - plan.measured - sum(people for _, people, optional in held if not optional)
    lines = [*held, ("main", main, False), *[("measures", plan.measured, False)] * bool(plan.measured)]
    return [(k + 1, r, n, o, plan.width(r), noise * sd(plan, r)) for k, (r, n, o) in enumerate(lines)]


def _paid(plan: Plan) -> list[tuple[str, bool, float]]:
    """Rounds of a curator, each with whether it may be left out, and budget; that of all main ones in one line."""
    first = begin(plan)
    learned = plan.like is None and not plan.extremes
    roles = [first.state.role, *[plan.first] * (first.state.role == "clamping"), "moments", "moments", "approach"]
    roles = [r for k, r in enumerate(roles) if r != "moments" or roles[:k].count("moments") < 2]
    roles += ["directions", "lengths"] * learned
    out, rest = list[tuple[str, bool, float]](), 1.0 - plan.measured / plan.rows
    for role in roles:
        part = share(plan, first._replace(state=first.state._replace(role=role)))
        out.append((role, role == "lengths", plan.mu * math.sqrt(part)))
        rest -= part
    out.append(("main", False, plan.mu * math.sqrt(max(rest, 0.0))))
    return out + [("measures", False, plan.mu * math.sqrt(plan.measured / plan.rows))] * bool(plan.measured)


class HeldSums(NamedTuple):
    """What a fit by sums has: public values, whoever played or ran the rounds."""

    plan: Plan
    history: tuple[Progress, ...]  # What was known before each batch, the last one being open
    people: tuple[int, ...]  # Of each batch that is closed
    reported: int  # Of all batches, the open one too
    clustered: Ints | None = None  # People by cluster, where these are public


def outcome(held: HeldSums, spec: ModelSpec, settings: Settings, order: NDArray[np.intp]) -> FitOutcome:
    """Outcome of a fit by sums; `order`, shape (p,), is that of columns inside, as `plan_of` gives it.
    Raises InferenceError before the main round has had a batch.
    """
    plan, progress, units = held.plan, held.history[-1], spec.units
    main = [s for s in progress.seen if s.state.role == "main"]
    found = estimate(plan, progress) if main else None
    if found is None:
        raise InferenceError(
            f"early rounds of up to {min(plan.early, plan.rows):,} records give a start, and {held.reported:,} "
            f"of {plan.rows:,} have reported; estimates begin after them."
        )
    refuse_overflow(found.theta)
    again = plan.noise.again
    scored = [k for k, p in enumerate(held.history) if p.seen and not p.gauged]
    trail = [(k, one) for k in scored if (one := estimate(plan, held.history[k])) is not None]

    carry = to_user(spec, order)

    def outside(one: Estimated) -> Array:
        return outside_of(one.back @ one.theta, order, units)

    def covariance(one: Estimated) -> Array:
        root = carry @ one.back @ one.root
        return np.asarray(root @ root.T)

    roles = [p.state.role for p in held.history]
    people = np.cumsum(held.people)
    counted = np.cumsum([n * (role in SCORED) for role, n in zip(roles, held.people, strict=False)])
    points = trail  # of a trajectory: of rows that answer again there is the last one
    if again:
        people, counted, points = np.full_like(people, plan.rows), np.full_like(counted, plan.rows), trail[-1:]
    params, cov = outside(found), covariance(found)
    names = [*np.array(spec.design.names)[order].tolist(), spec.design.endog_name]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(params / np.sqrt(np.diag(cov)))
    findings = _findings(held, spec, found, order, ratios)
    note = filled_note(spec.people.k_max, progress.filled, progress.filled_sd) if plan.persons else ()
    of = held.clustered.tolist() if plan.clusters and held.clustered is not None else []
    groups = clusters.summed_groups(plan.clusters)
    note += clusters.notes(of, groups, lanes=False) if of else ()
    return FitOutcome(
        people=held.reported,
        params=params,
        last=params,
        estimates=_estimates(plan, found, cov, carry) if settings.methods else (),
        senders=int(counted[-1]),
        updates=len(progress.seen),
        trail_n=np.array([people[k - 1] for k, _ in points], dtype=np.int64),
        trail_senders=np.array([counted[k - 1] for k, _ in points], dtype=np.int64),
        trail_params=np.array([outside(one) for _, one in points]),
        trail_variances=np.array([np.diag(covariance(one)) + (np.nan if plan.clusters else 0.0) for _, one in points]),
        family=_family(plan, settings, found, units),
        target=_target(plan, spec.family),
        tuning=_tuning(held),
        spending=_spending(held),
        weighing=(weighing := _weighing(plan, found, settings)),
        bound=f"1 for a whole report; of scores weights {weighing}",
        notes=(*notes(findings, names, order, plan.rules.blocks), *doubts(plan, progress, found), *note),
        unusable=findings.unanswered,
        clusters=clusters.counted(of, groups) if of else "",
        clamping=None if findings.clamped is None else clamping_words(findings.clamped, "any column"),
        mechanics=_mechanics(held),
        rounds=_rounds(held, dict(trail), outside, np.sqrt(np.diag(cov))),
        equation=_equation(plan, found, order, spec),
        measures=measuring.measured(plan, progress, units.y_scale),
        measured=sum(count for _, count, _ in progress.gauged),
        cost=f"for {plan.measured / plan.rows:.3g} of mu²" if again else "instead of a score",
    )


def _estimates(plan: Plan, found: Estimated, cov: Array, carry: Array) -> tuple[Estimate, ...]:
    """Precision by the sandwich, or of clusters by how the sums of their groups differ."""
    if not plan.clusters:
        return (Estimate("sandwich", cov, Normal()),)
    linear = carry @ found.back
    return tuple(of_clusters(found.each @ linear.T, found.parts, linear @ found.unknown @ linear.T))


def _target(plan: Plan, family: Family) -> str:
    """What the coefficients are, in words; it hardly depends on the scale that was found."""
    words = family.target(plan.rules.ratio, learned=False)
    return words if plan.like is None else f"{words}; the target is fixed, that of the fit in like="


def _family(plan: Plan, settings: Settings, found: Estimated, units: Units) -> str:
    """The family with the residual scale that was found."""
    name, comma, rest = settings.score_text.partition(", learned")
    if comma and not plan.rules.scaled:
        return f"{name.partition(',')[0]}, c = {plan.rules.fixed * units.y_scale:.4g} (fixed by like=)"
    return f"{name} {found.scale * units.y_scale:.4g} (learned)" if comma else name + rest


def _spending(held: HeldSums) -> str:
    """Records of early rounds, or, where rows answer in each of them, shares of μ² that rounds cost."""
    plan, parts = held.plan, dict[str, float]()
    for p, people in zip(held.history, held.people, strict=False):
        words = EARLY.get(p.state.role, "scores" if p.state.role == "main" else p.state.role)
        cost = (p.state.mu / plan.mu) ** 2 * people / plan.rows if plan.noise.again else float(people)
        parts[words] = parts.get(words, 0.0) + cost * (plan.noise.again or p.state.role in EARLY)
    if plan.noise.again:
        return f"of mu² {', '.join(f'{100.0 * share:.2g}% for {words}' for words, share in parts.items())}"
    told = [f"{people:,.0f} records for {words}" for words, people in parts.items() if people]
    return f"{', '.join(told)}; each person in one round, no extra budget"


def _tuning(held: HeldSums) -> str:
    """How many rounds there were, for the header."""
    if held.plan.noise.again:  # of clusters groups have a sum each in the last one
        return f"a curator: {sum(held.people) // held.plan.rows} rounds, each of all records"
    return f"two collectors: {len(held.people)} sums, the last of {held.people[-1]:,} records"


def _weighing(plan: Plan, found: Estimated, settings: Settings) -> str:
    """Score weights, with the length that was learned."""
    if not plan.noise.again or settings.how.weighing == (none := "none (likelihood)"):
        return settings.how.weighing if not plan.noise.again else none
    return f"min(1, {found.rounds[-1].state.reach(plan) ** 2:.3g}/‖z‖²), z whitened"


def _findings(held: HeldSums, spec: ModelSpec, found: Estimated, order: NDArray[np.intp], ratios: Array) -> Findings:
    """What is known of the records: how many came, could be used, and were clamped."""
    plan, checked, d = held.plan, held.history[-1].checked, held.plan.d
    none = Findings(
        have=True,
        people=held.reported,
        rows=plan.rows,
        constant=True,
        sent="counted for nothing" if plan.noise.again else "reported zeros",
        within=spec.people.effect is not None,
        shares=np.full(d, np.nan),
        tied=np.zeros(d, dtype=np.bool_),
        measures=plan.measured > 0,
        measuring=bool(held.history[-1].gauged),
    )
    if checked is None:
        return none
    inside = np.clip(checked.shares, 1.0 / (checked.people + 1.0), 1.0 - 1.0 / (checked.people + 1.0))
    errors = np.sqrt(checked.noise**2 + inside * (1.0 - inside) / checked.people)
    answering = max(float(checked.shares[0]), RAREST)
    unusable = Unusable.counted(float(checked.shares[0]), checked.noise, checked.people)
    out = none._replace(
        unanswered=unusable if spec.unusable and unusable.sure else None,
        asked=0 if plan.noise.again else checked.people,
    )
    if not plan.bounded:
        return out
    shares = Shares(spec.clamps, checked.shares[1:] / answering, errors[1:] / answering, checked.people)
    place = np.argsort(order)
    together = np.ones((d, d))
    together[1:, 1:] = np.abs(correlation(found.rows, constant=True))
    slopes = ratios.reshape(-1, d).copy()
    slopes[:, order[0]] = 0.0
    return out._replace(clamped=shares, harmed=harmed(shares, slopes, together[np.ix_(place, place)]))


def doubts(plan: Plan, progress: Progress, found: Estimated) -> tuple[Diagnostic, ...]:
    """Doubts that take the estimates back."""
    # rows that answer again need slopes for variances alone: known to a quarter in the flattest direction
    clear = 1.0 / (PART * math.sqrt(2.0 * plan.size)) if plan.noise.again else CLEAR
    moving, (lost, shift) = plan.noise.again and progress.last and not progress.near, progress.lost or (0.0, 0.0)
    said = (
        (found.clear < clear, "curvature",
         f"how scores change with the coefficients is hardly known beside the noise: {plan.rows:,} records at mu = "
         f"{plan.mu:g} are few for {plan.d} coefficients, or a level is too rare; more people, a larger mu, fewer "
         "terms or knots, merged levels"),
        (moving, "moving",
         f"estimates still moved after {AGAIN} rounds of scores; more records, narrower bounds, or a larger mu give "
         "a better start"),
        # in thresholds: beyond one, the curvature at the last state says little
        (found.reach > 1.0 and not moving, "moving",
         "the early rounds ended far from the estimate, so that the main round's reports say little of it; more "
         "people, narrower bounds, or a larger mu give a better start"),
        (found.finite < FINITE, "perfect",
         "all records, those of a level, or those beyond some value of a column may have one and the same response, "
         "0 or 1: then no finite coefficients fit them best; merged levels, fewer terms, or more people tell"),
        (shift > 1.0, "weights",
         f"{100.0 * lost:.2g}% of the records are seen to be so far out that they are weighted down, which may move "
         "coefficients by more than a standard error; narrower bounds, logarithms of skewed columns, more records or "
         "a larger mu"),
    )  # fmt: skip
    return tuple(doubt(kind, text) for so, kind, text in said if so)


def _rounds(held: HeldSums, trail: dict[int, Estimated], outside: Any, errors: Array) -> tuple[RoundHeld, ...]:
    """Every batch: its role, how many records, and how far it moved the estimate in standard errors."""
    out, before = [], None
    for k, (p, people) in enumerate(zip(held.history, held.people, strict=False)):
        after = outside(trail[k + 1]) if k + 1 in trail else None
        moved = float(np.max(np.abs(after - before) / errors)) if after is not None and before is not None else np.nan
        out.append(RoundHeld(k + 1, p.state.role, people, float(people), moved))
        before = after
    return tuple(out)


def _equation(plan: Plan, found: Estimated, order: NDArray[np.intp], spec: ModelSpec) -> Equation:
    """What the estimates solve: see "Estimand" in docs/sums.md."""
    shape, rules, d = plan.rules.shape, plan.rules, plan.size
    caps = np.array([s.state.rows @ np.linalg.inv(found.rows) / s.state.reach(plan) for s in found.rounds])
    return Equation(
        shape=(shape.family, shape.a, shape.b),
        weighing="capped",
        rows=found.rows,
        order=np.asarray(order, dtype=np.int64),
        constant=True,
        y_centre=0.0,
        y_scale=1.0,
        weights=np.ones(1),
        c=np.array([rules.ratio * found.scale if rules.scaled else rules.fixed]),
        offsets=np.zeros((1, d)),
        bend=np.zeros(d),
        theta=np.kron(against_first(found.classes), np.eye(plan.d)) @ found.theta,
        caps=caps,
        shares=found.weights,
        ratio=rules.ratio if rules.scaled and rules.cornered else None,
        people=spec.people.to_json() if plan.persons else None,
    )


def _mechanics(held: HeldSums) -> tuple[dict[str, Any], ...]:
    """What is needed to audit each role's sums: reports of rows that are far from each other, and the noise."""
    plan, out, had = held.plan, list[dict[str, Any]](), set[tuple[str, Any]]()
    for p in held.history[:-1]:
        role, mu = p.state.role, p.state.mu
        of_role = steps(plan, p.state)
        one = role, p.state.theta.tobytes() if plan.noise.again else of_role  # groups of clusters answer one state
        if one not in had:
            had.add(one)
            name = f"sum, {role}" + f" ({len(out) + 1})" * plan.noise.again
            out.append(reports.of_sums(name, _far_rows(plan, p.state), of_role.sd, of_role.unit, mu))
    return tuple(out)


def _far_rows(plan: Plan, state: State) -> dict[str, list[int]]:
    """Reports, in whole numbers, of made-up rows as far out as declarations allow, and of one that can't be used."""
    ends = [np.where(np.arange(plan.d) == j, plan.highs, plan.lows) for j in range(plan.d)]
    corners = {"lowest x": plan.lows, "highest x": plan.highs} | {f"x{j + 1} high": e for j, e in enumerate(ends) if j}
    limits = {"lowest y": plan.y_low, "highest y": plan.y_high}
    names = [f"{words}, {which}" for words in corners for which in limits]
    x, y = np.repeat(list(corners.values()), len(limits), axis=0), np.tile(list(limits.values()), len(corners))
    given = (y, x) if plan.persons is None else (y[:, None], x[:, None])
    made = report.vectors(plan, state, *given, None, np.ones((len(y), plan.bounded), dtype=np.bool_))
    whole = steps(plan, state).whole(made).tolist()
    return {"unusable": [0] * plan.width(state.role), **dict(zip(names, whole, strict=True))}
