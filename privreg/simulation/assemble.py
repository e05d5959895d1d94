"""From the state of a fit in progress to what its results hold: user's units, words, notes. Reports only."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from privreg.collector import location, sgd
from privreg.collector.diagonal import WIDE
from privreg.diagnostics import Diagnostic, doubt
from privreg.errors import InferenceError
from privreg.simulation.sgd import AveragedSGD
from privreg.simulation.staged import beginning, findings, intervals
from privreg.simulation.staged.pipeline import Pipeline
from privreg.simulation.staged.schedule import kappa_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    from privreg.collector.sgd import ChainSummary as Chain
    from privreg.families.measures import Measure
    from privreg.formula.units import Units
    from privreg.inference.methods import Estimate
    from privreg.inference.sandwich import Sandwich
    from privreg.simulation.settings import Settings

    Array = NDArray[np.float64]

__all__ = ["FitOutcome", "report_of_chain", "report_of_pipeline"]


MANY_MORE: Final = 1.25
"""People, relative to those expected, from whom on a note says that pilots were short for them. With fewer, simulations
showed no loss of precision or coverage to speak of; with four times as many the rmse doubled."""

SOME_MORE: Final = 1.05
"""The same where those who come late tell measures of fit and send no score, so that each of them is lost."""


MOST: Final = 0.9
"""Share of the records that sent noise only, above which results are not to be relied on."""

RARE: Final = 0.02
"""Public share of a level below which a wide design's intervals are taken back: with 200 and 500 levels they missed a
common error, that of the reference level, once the budget was so large that noise didn't hide it."""


class FitOutcome(NamedTuple):
    """What a fit in progress has to say; numbers in the user's units."""

    params: Array  # Shape (p,), as `last`
    last: Array
    estimates: tuple[Estimate, ...]
    senders: int  # People whose score entered an update
    updates: int
    trail_n: NDArray[np.int64]  # People so far, shape (m,)
    trail_senders: NDArray[np.int64]  # Those of them whose score entered an update
    trail_params: Array  # Shape (m, p), as `trail_variances`
    trail_variances: Array
    family: str  # The family with its constants
    tuning: str  # For the header
    spending: str  # What pilots and curvature took, for the privacy block
    bound: str  # The score's bound, for the privacy block
    notes: tuple[Diagnostic, ...]
    measures: tuple[Measure, ...] = ()  # Privately released measures of fit
    told: int = 0  # People who reported them
    spreads: Array | None = None  # Sds of the design's columns that reports have told; NaN if the scale was declared

    def measure_words(self) -> tuple[tuple[str, str], ...]:
        """Names of the measures of fit, each with its value and what it cost."""
        return tuple(
            (m.name, f"{m.estimate:.4g} ± {m.std_error:.2g} (se); {self.told:,} people told it instead of a score")
            for m in self.measures
        )


def report_of_chain(
    run: AveragedSGD, settings: Settings, units: Units, release_central: Callable[[Chain], Sandwich]
) -> FitOutcome:
    """Outcome of the published algorithm's single chain.

    Raises
    ------
    InferenceError
        If there are too few people, or the steps were so large that the estimates overflowed.
    """
    chain = sgd.final(run.state, run.plan)
    order = np.arange(len(units.centre))

    def outside(theta: Array) -> Array:
        return _outside(theta, order, units)

    def covariance(cov: Array) -> Array:
        return np.asarray(run.to_user @ cov @ run.to_user.T)

    p = run.state.theta.shape[0]
    _refuse_overflow(chain.mean, chain.last)
    if chain.updates <= p:
        raise InferenceError(
            f"{chain.people} people in {chain.updates} updates can't determine {p} coefficients; "
            f"more than {p} updates are needed."
        )
    estimates = intervals.of_chain(run, chain, settings, release_central)
    trail = run.trail
    at_end = not trail.updates or trail.updates[-1] < chain.updates
    means = [*trail.means, chain.mean] if at_end else trail.means
    variances = list(trail.variances)
    if at_end:
        variances.append(run.variances(chain))
    people = np.array([*trail.people, chain.people] if at_end else trail.people, dtype=np.int64)
    steps = settings.steps
    delay = f" + {steps.delay:g}" if steps.delay else ""
    spending = "no pilot; no curvature spending"
    if chain.curvature_people:
        spending = f"{chain.curvature_people:,} people sent curvature instead of a score; no extra budget"
    mixing = settings.mixing_note(chain.updates)
    return FitOutcome(
        params=outside(chain.mean),
        last=outside(chain.last),
        estimates=estimates,
        senders=chain.people,
        updates=chain.updates,
        trail_n=people,
        trail_params=np.array([outside(m) for m in means]),
        trail_senders=people,
        trail_variances=np.array(variances),
        family=settings.score_text,
        tuning=f"published: step {steps.gamma:.4g} (k{delay})^-{steps.alpha:g}, {settings.batch} a batch, averaged",
        spending=spending,
        bound=f"{settings.bound:.4g} (internal units), weights ω = {settings.weights.formula}",
        notes=() if mixing is None else (mixing,),
    )


def report_of_pipeline(
    run: Pipeline, settings: Settings, units: Units, order: NDArray[np.intp], names: Sequence[str]
) -> FitOutcome:
    """Outcome of the staged fit.

    Parameters
    ----------
    run : Pipeline
    settings : Settings
    units : Units
    order : ndarray of int, shape (p,)
        Columns of the design in the order in which the pipeline has them.
    names : sequence of str
        Columns in that order, and the response.

    Raises
    ------
    InferenceError
        While the first people's reports still set the scales, or if the steps were so large that the estimates
        overflowed.
    """
    theta, last = run.estimate(), run.last()
    schedule = run.start.schedule
    if theta is None or last is None:
        raise InferenceError(
            f"up to {schedule.people('location') + schedule.people('moments'):,} people set the scales, and "
            f"{run.people:,} have reported; estimates begin after them."
        )

    def outside(inside: Array) -> Array:
        return _outside(inside, order, units)

    inside, inside_last = run.inside(theta), run.inside(last)
    _refuse_overflow(inside, inside_last)
    estimates = intervals.of_pipeline(run, settings)
    groups = run.groups()
    people = [*run.trail_people]
    senders = [*run.trail_senders]
    params = [outside(m) for m in run.trail_means]
    variances = list(run.trail_variances)
    if not people or people[-1] < run.people:
        people.append(run.people)
        senders.append(sum(g.people for g in groups))
        params.append(outside(inside))
        variances.append(intervals.pipeline_variances(run))
    return FitOutcome(
        params=outside(inside),
        last=outside(inside_last),
        estimates=estimates,
        senders=sum(g.people for g in groups),
        updates=sum(g.people for g in groups) // schedule.batch,
        trail_n=np.array(people, dtype=np.int64),
        trail_senders=np.array(senders, dtype=np.int64),
        trail_params=np.array(params),
        trail_variances=np.array(variances),
        family=_family(run, settings, units),
        tuning=f"efficient: Newton steps, {schedule.batch} a batch, {_lanes(schedule.lanes)}",
        spending=_spending(run),
        bound=_bound(settings),
        notes=_notes(run, settings, names, order, estimates),
        measures=findings.measured(run, units.y_scale),
        told=run.at if run.kind == "measures" else 0,
        spreads=_spreads(run, order),
    )


def _spreads(run: Pipeline, order: NDArray[np.intp]) -> Array | None:
    if not any(j < len(order) for j in run.start.unscaled):
        return None
    out = np.full(len(order), np.nan)
    for j, spread in zip(run.start.unscaled, location.centre_and_scale(run.location)[1].tolist(), strict=True):
        if j < len(order):
            out[order[j]] = spread
    return out


def _outside(theta: Array, order: NDArray[np.intp], units: Units) -> Array:
    """Coefficients in the user's units and order, block by block."""
    blocks = theta.reshape(-1, len(order))
    out = np.empty_like(blocks)
    out[:, order] = blocks
    return np.concatenate([units.params_outside(block) for block in out])


def _refuse_overflow(*thetas: Array) -> None:
    if not all(np.isfinite(t).all() for t in thetas):
        raise InferenceError("the estimates overflowed: the steps are too large; leave step= out or make it smaller.")


def _listed(names: Iterable[str]) -> str:
    """Names of columns, or numbers of theirs, with commas and an "and"."""
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last


def _rounded_up(people: float) -> int:
    """To two digits."""
    unit = 10.0 ** max(math.floor(math.log10(max(people, 1.0))) - 1, 0)
    return math.ceil(math.ceil(people / unit) * unit)


def _lanes(lanes: int) -> str:
    return "1 lane" if lanes == 1 else f"{lanes} lanes"


def _how(settings: Settings) -> str:
    """What is done to covariates before the score weights take their length."""
    return "whitened" if settings.efficient is None or settings.efficient.whitened else "scaled"


def _family(run: Pipeline, settings: Settings, units: Units) -> str:
    rules = run.start.rules
    if not rules.track or run.chains is None:
        return settings.score_text
    if rules.moving:
        return settings.score_text
    scale = float(np.exp(np.mean(run.chains.state.log_c))) / rules.ratio * run.y_scale * units.y_scale
    name, _, _ = settings.score_text.partition(",")
    if name.startswith("Quantile"):
        return f"{name}, density there that of a normal with sd {scale:.4g} (learned)"
    return f"{name}, c = {rules.ratio:.4g} × residual scale {scale:.4g} (learned)"


def _spending(run: Pipeline) -> str:
    start = run.start
    reports, mechanism = start.reports, start.reports.mechanism

    def joint(kind: str) -> float:
        kappa = kappa_of(kind, start.rules)
        return mechanism.sd(reports.radius(kappa), reports.size(run.d, kappa))

    numbers = 2 * len(start.unscaled)
    words = {
        "location": ("told where columns lie", mechanism.sd(mechanism.bits_radius(numbers), max(numbers, 1))),
        "moments": (
            "reported means and squares" if start.wide is not None else "reported second moments",
            run.moment_sd() if not reports.label and run.moment_numbers() else 0.0,
        ),
        "search": ("led the way", joint("search")),
        "pilot": ("ran a pilot", joint("pilot")),
        "common": ("the common chain", joint("common")),
    }
    counts = dict.fromkeys(words, 0)
    for stage, people in run.roles():
        if stage.kind in counts:
            counts[stage.kind] += people
    parts = [f"{counts[k]:,} {text} (noise sd {sd:.4g})" for k, (text, sd) in words.items() if counts[k]]
    if reports.label and counts["moments"]:
        public = f"covariates of {counts['moments']:,} people, which are public, set scales"
        parts = [public if "second moments" in part else part for part in parts]
    return f"{', '.join(parts)}; each person in one role, no extra budget"


def _notes(
    run: Pipeline, settings: Settings, names: Sequence[str], order: NDArray[np.intp], estimates: tuple[Estimate, ...]
) -> tuple[Diagnostic, ...]:
    """What weakens results; `order` as of :func:`report_of_pipeline`."""

    def place(columns: Iterable[int]) -> list[int]:
        """Positions of the coefficients of the run's `columns`, at every level of a multinomial response."""
        return [b * len(order) + int(order[j]) for b in range(run.coefficients // len(order)) for j in columns]

    schedule, rules = run.start.schedule, run.start.rules
    lead, coefficients = findings.lead(run), run.coefficients
    relied = findings.relied(run)  # people whom intervals need, relative to the schedule's rule
    needs = relied / run.worth
    out = _wide_notes(run, place, have=bool(estimates))
    lost = [names[j] for j in findings.lost(run)]
    if lost:
        text = (
            f"the search for the scale of {_listed(lost)} did not settle, as for a column that "
            "is the same for most people or varies little beside its distance from 0; declare bounds= or moments=, and "
            "levels= for a rare indicator"
        )
        out.append(doubt("lost", text))
    have = bool(estimates)
    nonresponse = have and findings.silent(run)
    if nonresponse:
        text = (
            "as far as the reports tell, most people sent noise only (a value missing or not "
            "declared, or more rows than max_per_id), or too few came for this budget; see that the declared levels "
            "match the data, leave out a column that most people lack, give fewer rows of each person, raise "
            "max_per_id= with a smaller budget, or ask more people"
        )
        out.append(doubt("nonresponse", text, of="the results"))
    rare = findings.rare(run) if have else []
    together = [j for j in rare if run.tied[j]]
    if together:
        text = (
            f"levels of two factors or more go together for nearly everybody: too few people at "
            f"this budget seem to tell {_listed(names[j] for j in together)} from the columns of other factors; leave "
            "out one of the factors, merge levels, or ask more people"
        )
        out.append(doubt("confounded", text, place(together)))
    unanswered = findings.unanswered(run)
    gone = unanswered is not None and unanswered[0] > MOST  # nobody is left who could be of a rare level
    rare = [j for j in rare if not run.tied[j] and not gone]
    if rare:
        shares = _listed(f"{100 * run.shares[j]:.2g}%" for j in rare)
        text = (
            f"too few people at this budget seem to be in the smaller group of "
            f"{_listed(names[j] for j in rare)} (some {shares}, as far as noisy reports tell); the interval of such a "
            "column is far too short and the others suffer: ask more people, merge levels, or leave it out"
        )
        out.append(doubt("rare", text, place([*rare, *findings.reference_is_rare(run, rare)])))
    wide = findings.wide(run) if have else []
    if wide:
        text = (
            f"the bounds of {_listed(names[j] for j, _ in wide)} span "
            f"{min(span for _, span in wide):.0f} or more times the learned sd, as where nearly everybody has one "
            "value: clamped to one end of bounds= that are in other units or too narrow, a rare indicator (declare "
            "levels=), an amount that is mostly 0 (as in I(x > 0)); where rows are sorted by it (shuffle them); or "
            "where bounds= are far too wide"
        )
        # the constant stands for where these columns are 0, which is as little known
        out.append(doubt("wide", text, place([*([0] if run.start.layout.constant else []), *(j for j, _ in wide)])))
    if have and findings.flat(run):
        text = (
            "the response hardly varies inside its declared range, as where everybody was "
            "clamped to one end of it; see that bounds= are those of the response, in its units"
        )
        out.append(doubt("flat", text, of="the results"))
    if have and findings.changing(run):
        text = (
            "people who came first tell other coefficients than those after them. Rows are taken "
            "in the order they come: shuffle a file that is sorted, by its response above all; if effects change over "
            "time, fit the times one by one"
        )
        out.append(doubt("changing", text, of="the results"))
    if have and findings.at_limit(run):
        text = (
            "the estimate lies at a public limit of the response, where the search ran out of "
            "people; ask more of them, or spend more"
        )
        out.append(doubt("limit", text, of="the interval"))
    theta = run.estimate()
    strong = False
    if have and not nonresponse and rules.from_predictor and theta is not None:
        strong = beginning.strength(run, theta) > beginning.FARTHEST
    if strong:
        text = (
            f"effects seem so strong (the linear predictor's sd is above "
            f"{beginning.FARTHEST:g}) that scores hardly tell how strong, or few people came and they are noise; "
            "predictions may serve, but coefficients may be far too large or small"
        )
        out.append(doubt("strong", text))
    if run.start.told and run.kind != "measures":
        text = (
            f"no measures of fit yet: they come from the last people of rows={schedule.rows:,}, and {run.people:,} "
            "have reported"
        )
        out.append(Diagnostic("later", text))
    if unanswered is not None:
        share, error = min(round(100 * unanswered[0]), 100), round(100 * unanswered[1])
        most = have and gone and not nonresponse
        text = (
            f"about {share}% (± {max(2 * error, 1)}%) of the records sent noise only, as far as reports tell: a "
            "value missing, no number or not among the declared levels, a term not finite"
            + (", or a row beyond max_per_id" if run.start.nonresponse else "")
            + (
                "; see that the declared levels match the data, and that texts have levels="
                if share > 50
                else "; estimates are right if whether a record can be used depends on covariates alone"
            )
        )
        out.append(doubt("nonresponse", text, of="the results") if most else Diagnostic("unusable", text))
    elif have and run.start.nonresponse and not (rules.track or rules.counting or run.scatter.asked):
        text = (
            "if many rows beyond max_per_id came, intervals are too short by about as much: with a declared residual "
            "scale their share is not learned; leave scale= out"
        )
        out.append(Diagnostic("excess", text))
    if schedule.rows and run.kind == "measures" and run.people > SOME_MORE * schedule.rows:
        text = (
            f"rows={schedule.rows:,} was said and {run.people:,} people came: those beyond told measures of fit and "
            "sent no score, so estimates are no more precise for them; give rows= as it is"
        )
        out.append(Diagnostic("measured", text))
    elif schedule.rows and run.people > MANY_MORE * schedule.rows:
        text = (
            f"rows={schedule.rows:,} was said and {run.people:,} people came, so the pilots "
            "were short for them; give rows= as it is, or leave it out"
        )
        out.append(doubt("more", text))
    out += intervals.waiting(run, settings, estimates, lead)
    said = nonresponse or strong  # both say that more people are wanted, and would make the number below meaningless
    if have and not said and not schedule.enough(int((run.people - lead) / needs), coefficients):
        told = "effects, correlations and silent people" if unanswered is not None else "effects and correlations"
        needed = _rounded_up(schedule.wanted(coefficients) * needs + lead)
        text = (
            f"{run.people:,} people are few for {coefficients} coefficients at this budget; in "
            f"simulations coverage fell below its level with fewer than about {needed:,}"
            + (f", given what reports tell of {told}" if relied > 1.0 else "")
        )
        out.append(doubt("few", text))
    return tuple(out)


def _wide_notes(run: Pipeline, place: Callable[[Iterable[int]], list[int]], *, have: bool) -> list[Diagnostic]:
    """What a design of many coefficients does without."""
    wide = run.start.wide
    if wide is None:
        return []
    text = (
        f"more than {WIDE} coefficients: no correlations of the covariates are learned, and the Newton step is "
        "diagonal; where columns are much correlated, estimates settle slowly and intervals can be too short: declare "
        "correlations in moments="
    )
    out = [Diagnostic("diagonal", text)]
    few = np.flatnonzero(np.nan_to_num(wide.shares, nan=1.0) < RARE).tolist()
    if have and few:
        text = (
            f"{len(few)} columns stand for levels that about {100 * RARE:g}% of the people or "
            "fewer have, were levels equally frequent, and all are compared with one reference level that few have; "
            "merge levels"
        )
        out.append(doubt("levels", text, place([*few, 0])))
    return out


def _bound(settings: Settings) -> str:
    efficient = settings.efficient
    if efficient is not None and efficient.reports.label:
        return "1 (ψ / bound): one number of known range, times covariates that are public, or the constant 1"
    return f"{settings.bound:.4g} (ψ / bound), weights ω = 1/‖z‖, z the {_how(settings)} covariates"
