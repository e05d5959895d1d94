"""Plan and outcome of a fit by sums, of two collectors or a curator: user's units, words, notes. Sums only."""

import itertools
import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from privreg.audit import reports
from privreg.audit.reports import INSIDE
from privreg.base.arrays import Array, Flags
from privreg.collector.aggregate import chain, report
from privreg.collector.aggregate.classes import against_first
from privreg.collector.aggregate.estimate import Estimated, estimate
from privreg.collector.aggregate.lengths import AGAIN, means, share
from privreg.collector.aggregate.lengths import far as far_columns
from privreg.collector.aggregate.plan import MOST_MU, Plan, Progress, State, completed, rules_of
from privreg.collector.aggregate.report import sd, steps
from privreg.collector.aggregate.rounds import begin
from privreg.collector.covariates import whitening
from privreg.collector.covariates.moments import ANSWERING
from privreg.collector.covariates.whitening import correlation
from privreg.collector.inference import methods
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal
from privreg.collector.levels import BIAS, SURE
from privreg.errors import InferenceError
from privreg.families.hazards import INTERVAL
from privreg.families.measures import Measure
from privreg.families.scores import Gauge
from privreg.fits.notes import Findings, Shares, clamping_words, filled_note, harmed, listed, notes
from privreg.fits.outcome import FitOutcome, Held, outside_of, refuse_overflow
from privreg.fits.plan import corners_of, extremes_of, limits_of_offset, order_of, to_user
from privreg.fits.settings import Settings
from privreg.formula.spec import ModelSpec
from privreg.protocol.schedule import PILOTS
from privreg.results.data import Equation, RoundHeld, Target
from privreg.results.statement import Unusable
from privreg.tables.diagnostics import ROUNDED, Diagnostic, note

BLURRED: Final = 0.25  # Part of a variance by noise in the curvature from which on a coefficient is marked
FINITE: Final = 3.0
"""Sds by which it shows that no records are predicted perfectly: one fit in a thousand misses that they are."""
CLEAR: Final = 0.5
"""Sd of the logarithm of an extra parameter up to which it has a standard error: twice it is the parameter then."""
MISSED: Final = 1.5
"""Standard errors by which rows that are weighted down may move a coefficient that isn't marked, if theirs score as far
as scores vary: its share of standard errors, 0.4, holds the move in most data sets (`benchmarks.sums --marks`)."""
SCORED: Final = frozenset({"approach", "closing", "main"})  # Roles of rounds that report scores
NAMED: Final = 6  # Silos that are listed by name
EARLY: Final = {
    "clamping": "whether bounds clamp them",
    "location": "means",
    "moments": "second moments",
    "approach": "first scores",
    "closing": "first scores",
    "directions": "long rows",
    "lengths": "long rows",
}
"""Subjects of the rounds before the main one, in words."""
SHOWN: Final = {"approach": "pilot", "closing": "pilot"}  # Roles by the names that local fits have for them


def plan_of(
    spec: ModelSpec, rows: int, measures: float = 0.0, like: Target | None = None, silos: tuple[int, ...] = ()
) -> tuple[Plan, NDArray[np.intp]]:
    """Public plan of a fit by sums, fixed before its first record; with the order of columns inside.

    `rows` are the records expected, `measures` the share of them, the last ones, by whom the fit is measured; `like` is
    the target of an earlier fit, and `silos` the records of each silo, equally many by default. In the order, shape
    (p,), the constant goes first.
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
    levels, cells = (), list[Array]()
    if people.followed is not None:  # columns of all intervals but the first
        of = next((term.columns for term in design.terms if term.reads == (INTERVAL,)), ())
        levels = tuple(np.argsort(order)[list(of)].tolist())
    if people.effect is None and units.constant_column(design.probe) is not None:
        for one in whitening.groups(design.sources, design.schema.levels, units.probe_inside(design.probe)):
            forms, k = np.zeros((len(one.values), len(order))), len(one.values)
            forms[:, [0, *np.argsort(order)[one.columns]]] = np.linalg.inv(np.column_stack([np.ones(k), one.values])).T
            cells.append(forms)
    family, gauge = spec.scored, None
    if measures > 0.0:  # residuals, responses and their centre are in units that are learned
        gauge = Gauge(family.code, family.tau, spec.classes, 1.0, 1.0, 0.0, family.y_max, spec.unusable)
    added = limits_of_offset(spec) if family.link == "log" else None
    mu = min(spec.budget.mu, MOST_MU)
    plan = Plan(
        d=len(order),
        rows=rows,
        mu=math.floor(mu * 1e6) / 1e6 if spec.noise.again else mu,  # a sum of fractions, with six decimals
        rules=rules_of(
            *(spec.scored, low, float(spec.cut_points) if spec.cuts is not None else high, units.y_scale),
            several=(people.k_max or 1) * spec.cut_points > 1,
            plain=spec.unbalanced,
            again=spec.noise.again,
            c=like.c if like else None,
            noisy=spec.budget.private,
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
        cuts=np.zeros((0, 0)) if spec.cuts is None else spec.cuts[:, order],
        noise=spec.noise._replace(silos=silos or spec.shared(rows)),
        levels=levels,
        cells=tuple(cells),
        corners=corners_of(spec, order),
    )
    return completed(plan), order


def lines_of_sums(plan: Plan, *, private: bool) -> list[tuple[Any, ...]]:
    """Lines of a plan's rounds: number, role, records, whether it may be left out, numbers and their noise sd.

    Rounds of a curator have all records, and shares of μ²; all main ones are one line.
    """
    rows, noise = plan.rows, 1.0 if private else 0.0
    early = ["clamping"] * bool(plan.sizes["clamping"]) + ["location"] * (plan.first == "location") + ["moments"] * 2
    lines = list[tuple[str, int, bool, float]]()
    if plan.noise.again:
        first, last = begin(plan), plan.measured / plan.rows
        rest = 1.0 - last
        for role in [*early, "approach", *["directions", "lengths"] * (plan.like is None and not plan.extremes)]:
            part = share(plan, first._replace(state=first.state._replace(role=role)))
            lines.append((role, rows, role == "lengths", part))
            rest -= part
        lines += [("main", rows, False, max(rest, 0.0)), *[("measures", rows, False, last)] * bool(plan.measured)]
    else:
        roles = [*early, *["approach"] * PILOTS, *["closing"] * bool(plan.sizes["closing"])]
        start = roles.index("approach")
        lines += [(role, plan.sizes[role], k > start and role == "approach", 1.0) for k, role in enumerate(roles)]
        main = rows - plan.measured - sum(people for _, people, optional, _ in lines if not optional)
        lines += [("main", main, False, 1.0), *[("measures", plan.measured, False, 1.0)] * bool(plan.measured)]
    return [
        (k + 1, SHOWN.get(role, role), n, optional, plan.width(role), noise * sd(plan, role, plan.mu * math.sqrt(part)))
        for k, (role, n, optional, part) in enumerate(lines)
    ]


def outcome(held: Held, spec: ModelSpec, settings: Settings, order: NDArray[np.intp]) -> FitOutcome:
    """Outcome of a fit by sums; `order`, shape (p,), is that of columns inside, as `plan_of` gives it.
    Raises InferenceError before the main round has had a batch.
    """
    plan, progress, units = held.plan, held.progress, spec.units
    main = [s for s in progress.seen if s.state.role == "main"]
    found: Estimated | None = held.found if main else None
    if found is None:
        times = {"moments": 2, "approach": PILOTS}  # Rounds of a role, at most
        early = sum(max(n, 1) * times.get(role, 1) for role, n in plan.sizes.items())
        raise InferenceError(
            f"early rounds of up to {min(early, plan.rows):,} records give a start, and {held.people:,} "
            f"of {plan.rows:,} have reported; estimates begin after them."
        )
    refuse_overflow(found.theta)
    again, history, counts = plan.noise.again, held.chain.history, [b.people for b in held.chain.batches]
    scored = [k for k, p in enumerate(history) if p.seen and not p.gauged]
    made = [(k, found if history[k] is progress else estimate(plan, history[k])) for k in scored]
    trail = [(k, one) for k, one in made if one is not None]

    carry = to_user(spec, order)

    def outside(one: Estimated) -> Array:
        return outside_of(one.back @ one.theta, order, units)

    def covariance(one: Estimated) -> Array:
        root = carry @ one.back @ one.root
        return np.asarray(root @ root.T)

    roles = [p.state.role for p in history]
    people = np.cumsum(counts)
    counted = np.cumsum([n * (role in SCORED) for role, n in zip(roles, counts, strict=False)])
    points = trail  # of a trajectory: of rows that answer again there is the last one
    if again:
        people, counted, points = np.full_like(people, plan.rows), np.full_like(counted, plan.rows), trail[-1:]
    params, cov = outside(found), covariance(found)
    estimates: Sequence[Estimate] = (Estimate("sandwich", cov, Normal()),)
    if plan.clusters:  # whose groups' sums differ
        linear = carry @ found.back
        estimates = methods.between_groups(found.each @ linear.T, found.parts, linear @ found.unknown @ linear.T)
    errors = np.sqrt(np.diag(cov))
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.nan_to_num(params / errors)
    findings = _findings(held, spec, found, order, ratios)
    filling = spec.people.gathered and not plan.followed
    more = filled_note(spec.people.k_max, progress.filled, progress.filled_sd) if filling else ()
    said = doubts(plan, progress, found, carry @ found.back, spec, order)
    places = range(len(params) - len(plan.cuts), len(params) - 1) if len(plan.cuts) else ()
    if back := {j + k for j in places if params[j] >= params[j + 1] for k in (0, 1)}:
        said += (note("crossed", back),)  # cut points that are out of order
    sure = not all(any(s.rows is None or j in s.rows for s in said) for j in range(len(params)))
    extra = _extra(plan, progress, found, units.y_scale, sure=sure or not plan.rules.scoring.censored)
    rounds, there, before = list[RoundHeld](), dict(trail), None  # Batches, and moves in standard errors
    for k, (role, n) in enumerate(zip(roles, counts, strict=False)):
        after = outside(there[k + 1]) if k + 1 in there else None
        far = math.nan if after is None or before is None else float(np.max(np.abs(after - before) / errors))
        rounds.append(RoundHeld(k + 1, SHOWN.get(role, role), n, float(n), far))
        before = after
    groups = methods.summed_groups(plan.clusters)
    clusters, of_these = methods.of_clusters(held.clustered, groups, lanes=False) if groups else ("", ())
    more += of_these
    came = [np.array(s.counts) for s in main if not s.group]  # groups of clusters are one round
    came += [np.sum([s.counts for s in main if s.group], axis=0)] * any(s.group for s in main)
    missing = np.sum([one == 0 for one in came], axis=0) if spec.silos else np.zeros(0)
    if left := ", ".join(f"{name} {n}" for name, n in zip(spec.silos, missing, strict=True) if n):
        more += (note("dropped", silos=left, rounds=len(came)),)
    return FitOutcome(
        nobs=held.people,
        params=params,
        last=params,
        estimates=tuple(estimates) if settings.methods else (),
        senders=int(counted[-1]),
        updates=len(progress.seen),
        trail_n=np.array([people[k - 1] for k, _ in points], dtype=np.int64),
        trail_senders=np.array([counted[k - 1] for k, _ in points], dtype=np.int64),
        trail_params=np.array([outside(one) for _, one in points]),
        trail_variances=np.array([np.diag(covariance(one)) + (np.nan if plan.clusters else 0.0) for _, one in points]),
        **_words(held, spec, settings, found, extra),
        notes=(*notes(findings, spec, order, plan.rules.blocks), *said, *more),
        unusable=findings.unanswered,
        clusters=clusters,
        clamping=None if findings.clamped is None else clamping_words(findings.clamped, "any column"),
        mechanics=_mechanics(held),
        rounds=tuple(rounds),
        equation=_equation(plan, found, order, spec),
        extra=extra,
        measures=chain.measured(plan, progress, units.y_scale),
        measured=sum(count for _, count, _ in progress.gauged),
    )


def _words(
    held: Held, spec: ModelSpec, settings: Settings, found: Estimated, extra: tuple[Measure, ...]
) -> dict[str, Any]:
    """Entries of an outcome in words: family and target, rounds and their cost, score weights, silos."""
    plan, progress, rules, again = held.plan, held.progress, held.plan.rules, held.plan.noise.again
    unit, text, silos = spec.units.y_scale, settings.score_text, len(plan.noise.silos)
    groups = max(sum(s.group for s in progress.seen), 1)  # Sums of the last round: one, or one for each of clusters
    name, comma, rest = text.partition(", learned")
    family = f"{name} {found.scale * unit:.4g} (learned)" if comma else name + rest
    if extra and plan.followed:
        family = f"{text}, {extra[0].estimate:,.0f} ± {extra[0].std_error:,.0f} events (learned)"
    elif extra:
        size = "" if math.isnan(extra[0].std_error) else f" ± {extra[0].std_error:.2g}"
        how = "learned" if size or plan.clusters else "learned, unreliable"
        family = f"{text}, {extra[0].name} {extra[0].estimate:.4g}{size} ({how})"
    elif comma and not rules.scaled:
        family = f"{name.partition(',')[0]}, c = {rules.fixed * unit:.4g} (fixed by like=)"
    target = spec.family.target(rules.ratio, learned=False)  # It hardly depends on the scale that was found
    target = target.replace("a public number", f"{progress.state.most:.3g}") if plan.followed else target
    parts = dict[str, float]()
    batches = held.chain.batches
    for p, batch in zip(held.chain.history, batches, strict=False):
        words = EARLY.get(p.state.role, "scores" if p.state.role == "main" else p.state.role)
        cost = (p.state.mu / plan.mu) ** 2 / (groups if p.last else 1) if again else float(batch.people)
        parts[words] = parts.get(words, 0.0) + cost * (again or p.state.role in EARLY)
    if again:  # of clusters groups have a sum each in the last round
        rounds, holders = len(batches) - groups + 1, f"{silos} silos" if silos else "a curator"
        tuning = f"{holders}: {rounds} rounds, each of all records"
        spending = f"of mu² {', '.join(f'{100.0 * share:.2g}% for {words}' for words, share in parts.items())}"
    else:
        tuning = f"two collectors: {len(batches)} rounds; {batches[-1].people:,} records in the main round"
        early = [f"{people:,.0f} records for {words}" for words, people in parts.items() if people]
        spending = f"{', '.join(early)}; each person in one round, no extra budget"
    weighing = settings.how.weighing
    if again and not plan.extremes:
        length = f"{found.rounds[-1].state.reach(plan) ** 2:.3g}"
        weighing = f"min(1, {length}/‖z‖²), z = covariates uncorrelated, variance 1"
        if progress.lost is not None and progress.lost[0]:
            weighing += f"; {100.0 * progress.lost[0]:.2g}% of the records weigh less than 1: estimates may differ "
            weighing += f"from those of equal weights by some {progress.lost[1]:.2g} of their standard errors"
    each = ", ".join(f"{name} {n:,}" for name, n in zip(spec.silos, plan.noise.silos, strict=True))
    if silos > NAMED:
        each = f"{silos}, of {min(plan.noise.silos):,} to {max(plan.noise.silos):,} records"
    low, high = plan.noise.weights.min(initial=1.0), plan.noise.weights.max(initial=0.0)
    if high - low >= 0.005:
        each += f"; a record counts {low:.2f} to {high:.2f} times, more in larger silos, whose noise is less"
    return {
        "family": family,
        "target": target if plan.like is None else f"{target}; the target is fixed, that of the fit in like=",
        "tuning": tuning,
        "spending": spending,
        "weighing": weighing,
        "bound": f"1 for a whole report; of scores weights {weighing}",
        "silos": each,
        "cost": f"for {plan.measured / plan.rows:.3g} of mu²" if again else "instead of a score",
    }


def _known(plan: Plan, found: Estimated) -> bool:
    """True if an extra parameter is within its limits, and its slope is known well enough for a standard error."""
    low, high = plan.rules.scoring.limits
    within = low * (1.0 + ROUNDED) < found.scale < high * (1.0 - ROUNDED)
    return bool(within and found.blurred(np.eye(1, plan.d + 1, plan.d))[0] <= BLURRED)


def _extra(plan: Plan, progress: Progress, found: Estimated, unit: float, *, sure: bool) -> tuple[Measure, ...]:
    """The extra parameter; its standard error is NaN of clusters, where noise hides it, and if it isn't `sure`.

    Of hazards it is the number of people with an event.
    """
    if plan.followed and not plan.noise.silos:
        share, sd = (plan.rows * v for v in progress.events)
        return (Measure("events", share, sd, "people with an event until the last cut point, by the first round"),)
    if not (name := plan.rules.scoring.extra):
        return ()
    at, sd = found.scale * (1.0 if plan.rules.scoring.counts else unit), math.sqrt(found.whole[1][-1, -1])
    sure = sure and not plan.clusters and sd <= CLEAR and _known(plan, found)
    words = "learned in rounds beside the coefficients"
    if plan.clusters:
        words += "; clusters have no standard error of it"
    elif not sure:
        words += "; unreliable, as noise and sampling hide it"
    return (Measure(name, at, at * sd if sure else math.nan, words),)


def _findings(held: Held, spec: ModelSpec, found: Estimated, order: NDArray[np.intp], ratios: Array) -> Findings:
    """Findings for the notes: numbers of records, shares of usable and clamped ones, rare levels, curvature."""
    plan, checked, d = held.plan, held.progress.checked, held.plan.d
    none = Findings(
        have=True,
        people=held.people,
        rows=plan.rows,
        constant=True,
        sent="counted for nothing",
        within=spec.people.effect is not None,
        events=plan.followed,
        shares=np.full(d, np.nan),
        tied=np.zeros(d, dtype=np.bool_),
        measures=plan.measured > 0,
        measuring=bool(held.progress.gauged),
    )
    if checked is None:
        return none
    inside = np.clip(checked.shares, 1.0 / (checked.people + 1.0), 1.0 - 1.0 / (checked.people + 1.0))
    errors = np.sqrt(checked.noise**2 + inside * (1.0 - inside) / checked.people)
    answering = max(float(checked.shares[0]), ANSWERING)
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


def doubts(
    plan: Plan, progress: Progress, found: Estimated, loads: Array, spec: ModelSpec | None = None, order: Any = ()
) -> tuple[Diagnostic, ...]:
    """Notes that mark coefficients as unreliable, those of `loads` @ theta.

    Columns inside are called by their numbers, or as those of `spec` in this `order`.
    """
    out, names = [], [str(j) for j in range(plan.d)] if spec is None else [spec.design.names[k] for k in order]

    def those(marked: Flags) -> list[int] | None:
        """Places of the coefficients, None of all."""
        return None if marked.all() else np.flatnonzero(marked).tolist()

    lost = loads @ np.kron(np.ones((1, plan.rules.blocks)), found.ends[found.finite < FINITE]).T  # shape (q, ends)
    lost[np.abs(lost) <= ROUNDED * np.abs(loads).max(axis=1, keepdims=True)] = 0.0
    ways: Any = lost.T if plan.rules.blocks == 1 else ()
    blurred = ~(found.blurred(loads) <= BLURRED)
    if plan.cuts.size:
        blurred[-len(plan.cuts) :] |= _few(found, loads, len(plan.cuts))
    if plan.rules.scoring.censored:  # all coefficients go with σ, which takes most of the curvature
        if blurred.any() or not _known(plan, found):
            out.append(note("hidden", None, extra=plan.rules.scoring.extra))
    elif blurred.any():
        held, least = ways, ""
        if len(ways):  # all is unknown in these ways that is not known of the curvature, if it is known of all else
            sizes = np.sqrt(np.einsum("qk,kl,ql->q", loads, found.cov, loads))
            along, values, _ = np.linalg.svd(lost / sizes[:, None])
            rest = (along[:, (values > ROUNDED * values.max(initial=0.0)).sum() :] / sizes[:, None]).T @ loads
            held = ways if (found.blurred(rest) <= BLURRED).all() else ()
        if plan.d > 1 and spec is not None:
            seen = found.blurred(found.back).reshape(-1, plan.d).max(axis=0)[1:]  # of columns inside
            least = f", least of all along {_seldom(plan, progress, spec, order, 1 + int(seen.argmax()))}"
        rows, mu = plan.rows, plan.mu
        out.append(note("curvature.sums", those(blurred), ways=held, least=least, records=rows, mu=mu, d=plan.d))
    again, far = plan.noise.again, found.moves
    left = 0.5 * far**2 * (progress.last and not progress.near) if again else np.where(far > 1.0, far, 0.0)
    if (left.any() or found.step.any() or not again) and (moved := found.displaced(loads, left) > BIAS).any():
        out.append(note("moving.again", those(moved), rounds=AGAIN) if again else note("moving.far", those(moved)))
    if (entered := (lost != 0.0).any(axis=1)).any():
        forms = np.vstack([*2 * [np.eye(plan.d)[1:]], *plan.cells])  # either end of each column
        short = found.finite < FINITE
        at = [names[j] for j in np.flatnonzero((forms[short[1:], 1:] != 0.0).any(axis=0)) + 1]
        which = ["all records"] * bool(short[0]) + [f"records at an end, or a level, of {listed(at)}"] * bool(at)
        out.append(note("perfect", those(entered), ways=ways, which=" or ".join(which)))
    lacking: Flags = found.lacking(loads) > MISSED
    counts = "a lower y_max=, " if plan.rules.scoring.counts and not plan.followed else ""
    if lacking.any():
        lines = [[j] for j in plan.numbers] + [np.flatnonzero(~np.isnan(x)).tolist() for x in plan.corners]
        columns = listed(dict.fromkeys(names[j] for k in np.flatnonzero(lacking.any(axis=0)) for j in lines[k]))
        out.append(note("weights.few", those(np.asarray(lacking.any(axis=1))), columns=columns, counts=counts))
    ends = 0.0 < progress.state.most < math.log(plan.rows)  # before the last of so many people is seen
    if ends and plan.mu < MOST_MU and (loose := found.scattered(loads) > SURE).any():
        asked = "" if again else ", or early rounds ended far from the estimate"
        out.append(note("followed", those(loose), most=progress.state.most, far=asked))
    share, by, _ = progress.lost or (0.0, 0.0, 0.0)
    if (shifted := by * found.pulled(loads, progress.pull) > MISSED).any():
        most = "" if progress.pull is None else f", most of all along {names[1 + int(far_columns(progress).argmax())]},"
        out.append(note("weights.seen", those(shifted), percent=100.0 * share, most=most, counts=counts))
    return tuple(out)


def _few(found: Estimated, loads: Array, cuts: int) -> Flags:
    """True for cut points, the last `cuts` of coefficients `loads` @ theta, beyond which few records are; (cuts,).

    Noise of scores along one, over the slope, is the relative error of the number of records on its rarer side, and so
    of its standard error: a quarter at most. With π(1 − π) as that slope says, a step of δ leaves (1 − 2π) δ²/2.
    """
    lines, noise, last = np.linalg.inv(loads).T[-cuts:], np.zeros(cuts), found.rounds[-1].state
    for weight, s in zip(found.weights, found.rounds, strict=True):
        noise += np.square(weight * s.sds[0] * lines @ found.rows @ np.linalg.inv(s.state.rows)).sum(axis=1)
    slope, ends = np.einsum("qk,kl,ql->q", lines, np.linalg.inv(found.bread), lines), loads[-cuts:]
    step = ends @ (found.theta - np.linalg.solve((found.rows @ np.linalg.inv(last.rows)).T, last.theta))
    left = 0.5 * np.sqrt(np.maximum(1.0 - 4.0 * cuts * slope, 0.0)) * step**2
    return np.asarray((np.sqrt(noise) > BLURRED * slope) | (left > BIAS * np.linalg.norm(ends @ found.root, axis=1)))


def _seldom(plan: Plan, progress: Progress, spec: ModelSpec, order: NDArray[np.intp], j: int) -> str:
    """Name of column `j` inside, or of its factor with the level that has the smallest share by the noised sums."""
    term = next(t for t in spec.design.terms if order[j] in t.columns)
    at = np.argsort(order)[list(term.columns)]
    if term.coding is None or spec.people.effect is not None:  # whose means within people are 0
        return str(spec.design.names[order[j]])
    low = term.coding.min(axis=0)
    part = (means(progress)[at] - plan.lows[at]) / (plan.highs - plan.lows)[at]
    sums = np.vstack([np.ones(len(term.levels)), term.coding.T])
    share = np.linalg.lstsq(sums, np.array([1.0, *(low + part * np.ptp(term.coding, axis=0))]), rcond=None)[0]
    return f"{term.name}, of which {term.levels[int(share.argmin())]!r} seems the rarest level"


def _equation(plan: Plan, found: Estimated, order: NDArray[np.intp], spec: ModelSpec) -> Equation:
    """The estimating equation: see "Estimand" in docs/sums.md."""
    shape, rules, d = plan.rules.shape, plan.rules, plan.size
    caps = np.array([s.state.rows @ np.linalg.inv(found.rows) / s.state.reach(plan) for s in found.rounds])
    return Equation(
        shape=(shape.family, shape.a, shape.b),
        weighing="capped",
        rows=found.rows,
        order=np.asarray(order, dtype=np.int64),
        constant=True,
        c=np.array([found.scale * (1.0 if rules.scoring.extra else rules.ratio) if rules.scaled else rules.fixed]),
        offsets=np.zeros((1, d)),
        bend=np.zeros(d),
        theta=np.kron(against_first(found.classes), np.eye(plan.d)) @ found.theta,
        caps=caps,
        shares=found.weights,
        ratio=rules.ratio if rules.scaled and rules.cornered and not rules.scoring.extra else None,
        people=spec.people.to_json() if plan.persons else None,
    )


def _mechanics(held: Held) -> tuple[dict[str, Any], ...]:
    """Inputs for an audit of each role's sums: their noise, and reports, in whole numbers, far from each other.

    These are of made-up rows as far out as declarations allow, and of an unusable one.
    """
    plan, out, had = held.plan, list[dict[str, Any]](), set[tuple[str, Any]]()
    ends = [np.where(np.arange(plan.d) == j, plan.highs, plan.lows) for j in range(plan.d)]
    corners = {"lowest x": plan.lows, "highest x": plan.highs} | {f"x{j + 1} high": e for j, e in enumerate(ends) if j}
    limits = {"lowest y": plan.y_low, "highest y": plan.y_high}
    names = [f"{words}, {which}" for words in corners for which in limits]
    x, y = np.repeat(list(corners.values()), len(limits), axis=0), np.tile(list(limits.values()), len(corners))
    clamped = np.ones((len(y), plan.bounded), dtype=np.bool_)
    if plan.persons is not None:  # the same row at each cut point
        y, x = y[:, None].repeat(plan.persons.cuts, 1), x[:, None].repeat(plan.persons.cuts, 1)
    for state in (p.state for p in held.chain.history[:-1]):
        of_role = steps(plan, state)
        one = state.role, state.theta.tobytes() if plan.noise.again else of_role  # clusters' groups answer one state
        if one in had:
            continue
        had.add(one)
        if plan.followed:
            far = _far_followed(plan, state)
        else:
            whole = of_role.whole(report.vectors(plan, state, y, x, None, clamped)).tolist()
            far = {"unusable": [0] * plan.width(state.role), **dict(zip(names, whole, strict=True))}
        name = f"sum, {state.role}" + f" ({len(out) + 1})" * plan.noise.again
        out.append(reports.of_sums(name, far, of_role.sd, of_role.unit, state.mu))
    return tuple(out)


def _far_followed(plan: Plan, state: State) -> dict[str, list[int]]:
    """Reports of the two made-up people who are farthest from each other, the one farthest from none, and of that.

    They are at risk in whole intervals, or in two until a cumulative hazard of nearly 0, that of the largest slope, or
    A, however long that takes, with covariates at their bounds, and have an event then or none: Equation (56).
    """
    assert plan.persons is not None
    j, logs, ones, intervals = len(plan.persons.widths), np.log(plan.persons.widths), np.arange(plan.d), plan.levels
    corners = [plan.lows, plan.highs]
    for k in (k for k in range(1, plan.d) if k not in intervals):
        corners += [np.where(ones == k, plan.highs, plan.lows), np.where(ones == k, plan.lows, plan.highs)]
    at = sorted({0, j // 2, max(j - 2, 0), j - 1})
    ends = (1e-9, 0.5 + 0.5 / state.most, INSIDE)  # Cumulative hazards, over A
    parts = [*itertools.product((0.0, 0.5, 1.0), ends), None]  # Share in the first of two, and end; or whole intervals
    asked = [(*two, e, p) for two in itertools.product(at, at) if two[0] <= two[1] for e in (0.0, 1.0) for p in parts]
    log_times, y = np.zeros((len(asked), j)), np.full((len(asked), j), np.nan)
    for k, (start, stop, event, part) in enumerate(asked):
        share, (first, end) = np.full(j, 1e-9), part or (0.0, 1.0)
        share[stop], share[start] = 1.0 - first, first
        share = np.maximum(share, 1e-9)
        log_times[k] = logs if part is None else np.log(share / share.sum() * state.most * end)  # before A
        y[k, [start, stop] if part is not None else slice(start, stop + 1)] = 0.0
        y[k, stop] = event
    x = np.repeat(corners, j, axis=0).reshape(len(corners), j, plan.d)
    x[:, :, plan.levels] = np.where(np.eye(j)[:, 1:] > 0.0, plan.highs[[*intervals]], plan.lows[[*intervals]])
    hazard = (x @ state.rows.T @ state.theta).clip(-700.0, 700.0)
    cumulative = np.array([part is not None for *_, part in asked])[:, None]
    times = log_times - np.where(cumulative, hazard[:, None], 0.0)  # shape (corners, asked, J)
    y, x = np.tile(y, (len(corners), 1)), np.repeat(x, len(asked), axis=0)
    made = report.vectors(plan, state, y, x, times.reshape(len(y), j), np.ones((len(y), plan.bounded)))
    size = np.square(made).sum(axis=1)
    one, other = divmod(int(np.argmax(size[:, None] + size - 2.0 * made @ made.T)), len(y))
    found = {"one end": one, "other end": other, "longest": int(size.argmax())}
    whole = steps(plan, state).whole(made[[*found.values()]]).tolist()
    return {"unusable": [0] * plan.width(state.role), **dict(zip(found, whole, strict=True))}
