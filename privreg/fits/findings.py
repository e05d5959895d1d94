"""Findings of a fit by rounds beside its coefficients, from which its notes are made. Reports only."""

import math
from typing import Final

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc, ndtr

from privreg.base.arrays import Array
from privreg.collector.covariates import moments, whitening
from privreg.collector.covariates.moments import ANSWERING
from privreg.collector.covariates.whitening import FARTHEST, LIMITS, Cells
from privreg.collector.estimation import combination, coordinates, curvature, estimate, reference
from privreg.collector.estimation.curvature import Curvature
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.resampling import FIRST
from privreg.collector.levels import PRECISE, STRICT, SURE
from privreg.collector.plan import Carried, Estimated, Plan, Progress
from privreg.collector.rounds import STRETCHED
from privreg.fits.notes import Findings, Rare, Shares, harmed
from privreg.fits.outcome import Held
from privreg.fits.settings import Settings
from privreg.protocol.rounds import PARTS
from privreg.results.statement import Unusable
from privreg.tables.diagnostics import Diagnostic, note

SHOWN: Final = 2.5
"""Standard errors by which curvature must exceed what is expected to be believed: one fit in a hundred has as much by
chance, at most (`benchmarks.notes`, of heaps of residuals with 2.33)."""
LITTLE: Final = 0.25  # Part of the usual curvature below which it is little
BELIEVED: Final = 0.7
"""Part of the usual curvature that must be believed if reports don't show it: with a valley where most responses lie,
states hardly move and the reference model alone makes intervals short (design "charges" of `benchmarks.validity`)."""
ENOUGH: Final = 400.0
"""Records in main rounds, times μ²/d²; no study of many designs was made with fewer (`benchmarks.validity`)."""
OF_FEW: Final = 0.25  # Part of a coefficient's variance by levels that few have from which on it is marked
FEW: Final = 6.0
"""Error of the predictor of people with a rare value, in units of c, is to be at most one by this: with fewer of them
intervals cover less than some 92% (`benchmarks.rare_levels`)."""
SMALLEST_SHARE: Final = 0.035  # Shares below it can't be distinguished by as many rounds of moments as are held
CHANCES: Final = (1e-6, 0.01)
"""Chances of a note that records come in an order that matters, where it doesn't: if it is random, and if not."""


def found_of(
    held: Held,
    found: Estimated | None,
    settings: Settings,
    estimates: tuple[Estimate, ...],
    order: NDArray[np.intp],
    to_user: Array,
    ratios: Array,
) -> Findings:
    """Return the findings of a fit so far.

    `order`, shape (d,), are columns of the design in the order inside; `to_user`, shape (b d, b d), is the linear part
    of the map from internal to the user's coefficients, columns in that order; `ratios`, shape (b d,), are t-ratios as
    the user has them.
    """
    plan, progress, d = held.plan, held.progress, held.plan.d
    scatter, fitted = progress.scatter, progress.fitted
    share, error = scatter.usable
    unusable = Unusable.counted(share, error, scatter.asked)
    # columns whose search for a scale converged have posterior sds of centre and log scale below 1
    lost = [j for j, unsure in zip(plan.unscaled, progress.places.unsure.T, strict=True) if not (unsure < 1.0).all()]
    people = sum(float(s.weight.sum()) for s in progress.scored if s.state.role == "main")
    needed = wanted(plan, progress.state.longest, scatter.answering if plan.persons else 1.0)
    clamped = shares_of(plan, progress)
    early = list[Diagnostic]()  # Why methods have no intervals yet: of those that begin later, or of all
    if {m.name for m in settings.methods} - {e.method for e in estimates}:
        early = [note("early", methods=("anytime",), first=FIRST, people=progress.senders)]
        if found is None:  # what was asked for first, if it isn't there, hides the others
            early = [note("unbegun", before=before_role(plan, progress, "main"), people=held.people)]
    out = Findings(
        have=False,
        people=held.people,
        rows=plan.rows,
        constant=plan.layout.constant,
        shares=np.full(d, np.nan) if progress.shares is None else progress.shares,
        tied=np.zeros(d, dtype=np.bool_) if progress.tied is None else progress.tied,
        lost=lost if fitted is not None else [],
        unanswered=unusable if held.unusable and unusable.sure and not plan.persons else None,
        asked=sum(n for n, r in zip(progress.held, plan.rounds, strict=False) if r.role == "moments"),
        repeated=plan.nonresponse,
        ordered=held.people > held.shuffled,
        measures=plan.gauge is not None,
        measuring=progress.state.role == "measures",
        clamped=clamped,
        far=found is not None and found.far > curvature.FAR,
        early=early,
        needed=needed / max(people, 1.0) * held.people if people < needed else None,
    )
    if not estimates or found is None or fitted is None:
        return out
    empty = coordinates.far_ends(plan, progress)
    spline = {int(j) for end in empty for j in end.columns}
    wide = [one for one in coordinates.wide(plan, scatter.rows) if one[0] not in spline]
    collinear = coordinates.collinear(scatter.rows, [j for j, _ in wide], plan.layout.constant) if wide else {}
    nonresponse = flat = False
    if plan.rules.track and not plan.rules.varying:
        scale, width = fitted.scale * progress.state.y_scale, plan.y_high - plan.y_low
        if math.isfinite(width):  # next to nothing at an end, as if most responses were clamped there; else its square
            flat = scale < moments.SMALL**2 * width
            if plan.layout.constant and not flat:
                mean = progress.state.y_centre + progress.state.y_scale * float(found.theta[0])  # covariates' mean is 0
                flat = scale < moments.SMALL * width and min(mean - plan.y_low, plan.y_high - mean) < SURE * scale
        # a response that is even over its range is as wide: not where reports show that most records were used
        spread = plan.rules.ratio * scale > 0.5 * width if math.isfinite(width) else fitted.scale > LIMITS[1]
        nonresponse = held.unusable and not unusable.few and spread
    predicted = plan.rules.varying and not plan.rules.track  # curvature follows from the linear predictor
    strength, imprecise = _predictors(plan, found) if predicted else (0.0, 0.0)
    heaped = at_limit = False
    pilots = tuple(s for s in progress.scored if s.state.role == "pilot" and s.weight.any())
    if plan.rules.track and plan.rules.scoring.symmetric and pilots and not nonresponse:
        last = combination.observed(plan, progress._replace(scored=pilots))[-1]
        heaped = reference.heaped(coordinates.reference_model(plan, progress), last, fitted.scale)
    if plan.size == 1 and not plan.rules.varying and plan.layout.constant:  # a location without covariates
        mean = coordinates.inside(plan, progress.state, found.theta)[0]
        at_limit = bool(np.isclose(mean, (plan.y_low, plan.y_high), rtol=0.0, atol=1e-9).any())
    longest, slopes = reference.longest_slopes(), ratios.reshape(-1, d).copy()
    slopes[:, order[: int(plan.layout.constant)]] = 0.0
    return out._replace(
        have=True,
        rare=rare_of(plan, progress, held.people, to_user[order, :d]),
        bare=_bare(held, found, to_user) if people >= needed else [],
        wide=[one for one in wide if one[0] not in collinear],
        collinear=collinear,
        empty=empty,
        heaped=heaped,
        nonresponse=nonresponse,
        flat=flat,
        changing=_changing(plan, progress, found, shuffled=held.people <= held.shuffled),
        harmed=harmed(clamped, slopes, _together(plan, progress, order)) if clamped else (),
        at_limit=at_limit,
        strong=longest if not nonresponse and strength > 0.95 * longest else 0.0,
        imprecise=imprecise if imprecise > curvature.FAR else 0.0,
    )


def _predictors(plan: Plan, found: Estimated) -> tuple[float, float]:
    """Largest sds of a linear predictor, the constant aside, and of its error."""
    slopes = found.theta.reshape(-1, plan.d)[:, int(plan.layout.constant) :]
    blocks = [found.cov[k : k + plan.d, k : k + plan.d] for k in range(0, len(found.cov), plan.d)]
    error = max(0.0, *(float(np.linalg.eigvalsh(one)[-1]) for one in blocks))  # rounding, where it is 0
    return float(np.linalg.norm(slopes, axis=1).max(initial=0.0)), math.sqrt(error)


def shares_of(plan: Plan, progress: Progress) -> Shares | None:
    """Share of usable records clamped, by column; None before anybody has reported.

    Reports on moments give the share of usable records. If covariates are public there are none, and shares are
    those of all records.
    """
    if (seen := progress.clamped) is None or seen.weight <= 0.0:
        return None
    mean = seen.total / seen.weight
    least = 1.0 / (seen.weight + 1.0)  # that nobody was seen doesn't make it sure that there is nobody
    inside = np.clip(mean, least, 1.0 - least)
    variance = (plan.sd("clamping") ** 2 + inside * (1.0 - inside)) / seen.weight
    answering = progress.scatter.answering
    if answering < 1.0 and plan.persons is None:  # of several rows that is how much of a report is filled
        _, error = progress.scatter.usable
        known = error if answering > ANSWERING else 0.0
        variance = (variance + (mean / answering * known) ** 2) / answering**2
        mean = mean / answering
    return Shares(plan.clamps, mean, np.sqrt(variance), seen.people)


def _together(plan: Plan, progress: Progress, order: NDArray[np.intp]) -> Array:
    """Lower limits of absolute correlations of columns, in the design's order, (d, d); 1 if they aren't learned."""
    out, d, scatter = np.ones((plan.d, plan.d)), plan.d + int(plan.layout.response), progress.scatter
    if plan.columns.mix is None and plan.layout.constant and not plan.label:
        # by the noise of a report's entries and the spread of u u', as `moments.learn` weighs them
        error = (d + 2) * math.hypot(plan.sd("moments") / math.sqrt(2.0), 1.0 / d) / scatter.answering
        low = SURE * error / math.sqrt(scatter.asked) if scatter.asked else 0.0
        rho = np.abs(whitening.correlation(scatter.rows[: plan.d, : plan.d], constant=True))
        out[1:, 1:] = np.where(np.eye(plan.d - 1) > 0.0, 1.0, np.maximum(rho - low, 0.0))
    place = np.argsort(order)
    return out[np.ix_(place, place)]


def _bare(held: Held, found: Estimated, to_user: Array) -> list[int]:
    """Coefficients of hardly any curvature, equation (39) of docs/estimator.md, or whose states still move."""
    progress, carried, learned = held.progress, found.carried, found.curvature
    alone = curvature.learn(carried.rounds, carried.noise, curvature.vague())
    linear = to_user @ coordinates.linear(held.plan, progress.state) @ np.linalg.inv(carried.root.T)
    along: Array = np.asarray(np.linalg.solve(curvature.floored(learned.mean), linear.T).T)
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    mean, sd = curvature.along(alone, along)
    believed, _ = curvature.along(learned, along)
    usual = float(np.trace(learned.mean)) / len(learned.mean)
    clear = (SHOWN * sd < usual) | (believed < LITTLE * usual)
    little = (mean < SHOWN * sd) & (mean < usual - SHOWN * sd) & (believed < BELIEVED * usual) & clear
    unclear = (mean < PRECISE * sd) | (believed < BELIEVED * usual)  # through a valley curvature changes on the way
    moving = _creeping(progress, carried, learned, linear) & unclear
    main, late = [s for s in progress.scored if s.state.role == "main"], linear @ carried.root.T
    people, kept = (sum(float(s.weight.sum()) for s in some) for some in (main, progress.main))
    if 2.0 * kept < people:  # states moved so far that most main rounds were left out: little is known of curvature
        moved = late @ (progress.main[0].state.theta - main[0].state.theta)
        moving |= np.abs(moved) > SURE * np.sqrt(np.diag(late @ found.cov @ late.T))
    return np.flatnonzero(little | moving).tolist()


def _creeping(progress: Progress, carried: Carried, learned: Curvature, linear: Array) -> NDArray[np.bool_]:
    """True for coefficients that moved one way from the first main round to the last, by more than noise does.

    States that come from a poor start move in the first third and rest in the others, which does no harm: without this
    exception nearly all fits of design "response" were marked, whose intervals cover.
    """
    main = progress.main
    if len(main) < STRETCHED or not carried.noise.any():
        return np.zeros(len(linear), dtype=np.bool_)
    states = np.array([s.state.theta for s in main]) @ carried.root @ linear.T
    people = np.array([s.weight.sum() for s in main])
    by = linear @ np.linalg.inv(curvature.floored(learned.mean))
    noise = np.einsum("ij,jk,ik->i", by, carried.noise, by)
    whole, steps = _trend(states, people)
    late, fewer = _trend(states[len(main) // 3 :], people[len(main) // 3 :])
    whole, late = whole / np.sqrt(noise * steps), late / np.sqrt(noise * fewer)
    steady = np.sqrt(fewer / steps) * np.abs(whole)  # of states that move by as much in each round
    return np.asarray((np.abs(whole) > SURE) & (np.sign(whole) * late > steady - STRICT))


def _trend(states: Array, people: Array) -> tuple[Array, float]:
    """Sums of rounds' states times their centred order, shape (p,), and the variance of such a sum of unit noise."""
    order = np.arange(len(people)) - np.average(np.arange(len(people)), weights=people)
    return (people * order) @ states, float(people @ order**2)


def wanted(plan: Plan, longest: float, filled: float = 1.0) -> float:
    """Records in main rounds below which a note says that they are few: equation (38) of docs/estimator.md.

    `longest` is that of the states. `filled` is the mean filled part of a report, by which noise is relatively larger.
    """
    more = (1.0 / filled**2 - 1.0) * plan.sd("main") ** 2
    return ENOUGH * plan.size**2 * (1.0 / plan.effective_mu(longest) ** 2 + 0.25 * more)


def _changing(plan: Plan, progress: Progress, found: Estimated, *, shuffled: bool) -> bool:
    """True if one-step estimates of main rounds have a trend over time, or scatter, by more than chance."""
    moves, weights = estimate.corrections(found.main)
    total = float(weights.sum())
    at = (np.cumsum(weights) - 0.5 * weights) / total
    number = np.minimum((PARTS * at).astype(np.int64), PARTS - 1)
    span = np.unique(number)[:, None] == number
    if len(progress.main) < STRETCHED or len(span) < STRETCHED:
        return False
    # where it goes with coefficients, curvature that isn't known moves what early rounds tell, as their states do
    unknown = np.diag(found.unknown)
    variance = np.maximum(np.diag(found.cov) - (0.0 if plan.rules.varying else unknown), 1e-300)
    time = at - weights @ at / total
    spread = weights @ time**2
    rise = (weights * time) @ moves / spread
    error = np.sqrt(variance * total / spread + 3.0 * unknown * plan.rules.varying)
    chance = float((2.0 * ndtr(-np.abs(rise) / error)).min())
    if not plan.rules.varying:
        each = span @ weights
        means = span @ (weights[:, None] * moves) / each[:, None]
        scatter = each @ (means - weights @ moves / total) ** 2 / (variance * total)
        chance = 2.0 * min(chance, float(chdtrc(len(span) - 1, scatter.max())))
    return chance * plan.size < CHANCES[0 if shuffled else 1]


def before_role(plan: Plan, progress: Progress, *roles: str) -> int:
    """Records in rounds before those of `roles`; of rounds to come, the most that they may have."""
    first = next(k for k, r in enumerate(plan.rounds) if r.role in roles)
    held = progress.held[:first]
    return sum(held) + sum(r.people for r in plan.rounds[len(held) : first])


# --- values that few have ---------------------------------------------------------------------------------------


def rare_of(plan: Plan, progress: Progress, people: int, to_user: Array) -> Rare:
    """Columns whose coefficients are about few records by the reports; none before scales are known.

    `people` have reported. `to_user`, shape (d, d), is the linear part of the map from internal to the user's
    coefficients, both in the order inside.
    """
    if progress.shares is None or progress.tied is None:
        return Rare()
    rules, tied, columns = plan.rules, progress.tied, plan.columns
    curved = 0.25 if rules.varying and not rules.track else rules.curvature
    effective = plan.effective_mu(progress.state.longest) * progress.scatter.answering
    far = math.sqrt(1.0 + (plan.d - 1) / FARTHEST**2)
    usual = max(FEW * 2.0 * far / (curved * effective * math.sqrt(max(people, 1))), SMALLEST_SHARE)
    usual = min(usual, 0.5)  # least share that a value must have; that of the rarer of two values at most
    least = np.full(plan.d, usual)
    for group in columns.cells:
        least[group.columns] = max(usual, min(coordinates.least_share(plan, group), 0.5))
    low = np.nan_to_num(progress.shares, nan=1.0) < least
    few, beside, share = low.copy(), set[int](), math.inf
    whole, rare = np.zeros((2, plan.d))  # variances of coefficients, of all cells and of those that too few have
    for group, p in zip(columns.cells, whitening.shrunk(columns.cells, progress.scatter.shares), strict=True):
        seldom = p < least[group.columns[0]]
        share = min(share, float(p[seldom].min(initial=math.inf)))
        # coefficients of cells are sums of cells' means, whose variances are inverse to their shares
        each, at_zero = (m**2 / p for m in _means(group, len(p), to_user, constant=plan.layout.constant))
        whole += each.sum(axis=1)
        rare += each[:, seldom].sum(axis=1)
        if at_zero[seldom].sum() > OF_FEW * at_zero.sum():
            beside |= {k for c in columns.crossed if set(group.columns.tolist()) & set(c.levels) for k in c.numbers}
    coded = {int(j) for g in columns.cells for j in g.columns}
    mine = rare > OF_FEW * whole
    for j in coded:
        few[j] = low[j] if tied[j] else mine[j]
    about = {0} if plan.layout.constant and mine[0] else set[int]()
    if plan.layout.constant and few.any():
        mean = np.linalg.inv(progress.scatter.rows[: plan.d, : plan.d])[:, 0]  # inside, where two values are at ±1
        for j in np.flatnonzero(few & ~tied & (mean > 0.0)).tolist():
            if j not in coded:
                about.add(0)
                beside |= {k for c in columns.crossed if j in c.levels for k in c.numbers}
    crossed = []
    for c in columns.crossed:  # about its own level, if there is one for each, else all
        like = [one.column for one in columns.crossed if (one.levels, one.numbers) == (c.levels, c.numbers)]
        levels = [c.levels[like.index(c.column)]] if len(like) == len(c.levels) else list(c.levels)
        crossed += [c.column] * bool(few[levels].any())
    others = few.copy()
    others[crossed] = False
    others[0] |= bool(about) and not others.any()
    return Rare(
        tuple(np.flatnonzero(others & (low | tied)).tolist()),
        tuple(np.flatnonzero(others & ~low & ~tied).tolist()),
        share,
        tuple(crossed),
        tuple(sorted(about | beside)),
    )


def _means(group: Cells, c: int, to_user: Array, *, constant: bool) -> tuple[Array, Array]:
    """Map from means of a group's cells to the user's coefficients, (d, c), and to the mean at columns 0, (c,)."""
    if len(group.columns) == c:
        return to_user[:, group.columns] @ np.linalg.inv(group.values), np.zeros(c)
    inverse, at = np.linalg.inv(np.column_stack([np.ones(c), group.values])), np.concatenate([[0], group.columns])
    if not constant:
        return to_user[:, group.columns] @ inverse[1:], inverse[0]
    return to_user[:, at] @ inverse, to_user[0, at] @ inverse
