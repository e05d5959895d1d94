"""From the state of a fit in progress to what its results hold: user's units, words, notes. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.collector import location, sgd
from privreg.diagnostics import Diagnostic
from privreg.errors import InferenceError
from privreg.simulation.chain_intervals import of_chain
from privreg.simulation.notes import notes
from privreg.simulation.sgd import AveragedSGD
from privreg.simulation.staged import findings, intervals
from privreg.simulation.staged.pipeline import Pipeline
from privreg.simulation.staged.schedule import kappa_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from privreg.collector.sgd import ChainSummary as Chain
    from privreg.families.measures import Measure
    from privreg.formula.units import Units
    from privreg.inference.methods import Estimate
    from privreg.inference.sandwich import Sandwich
    from privreg.simulation.settings import Settings

    Array = NDArray[np.float64]

__all__ = ["FitOutcome", "report_of_chain", "report_of_pipeline"]


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
    estimates = of_chain(run, chain, settings, release_central)
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
        notes=notes(findings.found(run, settings, estimates), names, order, run.coefficients // len(order)),
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


def _bound(settings: Settings) -> str:
    efficient = settings.efficient
    if efficient is not None and efficient.reports.label:
        return "1 (ψ / bound): one number of known range, times covariates that are public, or the constant 1"
    return f"{settings.bound:.4g} (ψ / bound), weights ω = 1/‖z‖, z the {_how(settings)} covariates"
