"""From the state of a fit in progress to what its results hold: user's units, words, notes. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg import collector
from privreg.engine import Run, scaling_variances
from privreg.errors import InferenceError
from privreg.inference import DOUBT, EARLY, Estimate, Normal, RandomScaling, StudentT
from privreg.inference.plug_in import local_sandwich
from privreg.pipeline import Pipeline

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from privreg.collector import Path as Chain
    from privreg.inference.plug_in import Sandwich
    from privreg.scaling import Units
    from privreg.tuning import Settings

    Array = NDArray[np.float64]

__all__ = ["Report", "report_of_chain", "report_of_pipeline"]


MANY_MORE: Final = 1.25
"""People, relative to those expected, from whom on a note says so."""


class Report(NamedTuple):
    """What a fit in progress has to say.

    Attributes
    ----------
    params, last : ndarray, shape (p,)
        User's units.
    estimates : tuple of Estimate
    senders : int
        People whose score entered an update.
    updates : int
    trail_n : ndarray of int, shape (m,)
    trail_params, trail_variances : ndarray, shape (m, p)
        User's units.
    family : str
        The family with its constants.
    tuning : str
        For the header.
    spending : str
        What pilots and curvature took, for the privacy block.
    bound : str
        The score's bound, for the privacy block.
    notes : tuple of str
    """

    params: Array
    last: Array
    estimates: tuple[Estimate, ...]
    senders: int
    updates: int
    trail_n: NDArray[np.int64]
    trail_params: Array
    trail_variances: Array
    family: str
    tuning: str
    spending: str
    bound: str
    notes: tuple[str, ...]


def report_of_chain(run: Run, settings: Settings, units: Units, release_central: Callable[[Chain], Sandwich]) -> Report:
    """Report of the published algorithm's single chain.

    Raises
    ------
    InferenceError
        If there are too few people, or the steps were so large that the estimates overflowed.
    """
    chain = collector.final(run.state, run.plan)
    p = run.state.theta.shape[0]
    _refuse_overflow(chain.mean, chain.last)
    if chain.updates <= p:
        raise InferenceError(
            f"{chain.people} people in {chain.updates} updates can't determine {p} coefficients; "
            f"more than {p} updates are needed."
        )
    estimates = []
    for m in settings.methods:
        if m.name == "random_scaling":
            cov = units.cov_outside(6.0 * chain.scaling / chain.updates)
            estimates.append(Estimate(m.name, cov, RandomScaling(chain.lanes)))
            continue
        if m.name == "plug_in":
            if not chain.curvature_people:
                raise InferenceError("nobody has sent a curvature report yet; plug_in needs more people.")
            sandwich = local_sandwich(chain, run.plan.noise_sd, run.plan.curvature_sd, settings.batch)
        else:
            sandwich = release_central(chain)
        estimates.append(Estimate(m.name, units.cov_outside(sandwich.cov), Normal(), sandwich.notes))
    trail = run.trail
    at_end = not trail.updates or trail.updates[-1] < chain.updates
    means = [*trail.means, chain.mean] if at_end else trail.means
    variances = list(trail.variances)
    if at_end:
        variances.append(scaling_variances(chain.scaling, units.matrix))
    counts = np.array([*trail.updates, chain.updates] if at_end else trail.updates, dtype=np.int64)
    people = np.array([*trail.people, chain.people] if at_end else trail.people, dtype=np.int64)
    steps = settings.steps
    delay = f" + {steps.delay:g}" if steps.delay else ""
    spending = "no pilot; no curvature spending"
    if chain.curvature_people:
        spending = f"{chain.curvature_people:,} people sent curvature instead of a score; no extra budget"
    mixing = settings.mixing_note(chain.updates)
    return Report(
        params=units.params_outside(chain.mean),
        last=units.params_outside(chain.last),
        estimates=tuple(estimates),
        senders=chain.people,
        updates=chain.updates,
        trail_n=people,
        trail_params=np.array([units.params_outside(m) for m in means]),
        trail_variances=6.0 * np.array(variances) / counts[:, None],
        family=settings.score_words,
        tuning=f"published: step {steps.gamma:.4g} (k{delay})^-{steps.alpha:g}, {settings.batch} a batch, averaged",
        spending=spending,
        bound=f"{settings.bound:.4g} (internal units), weights ω = {settings.weights.formula}",
        notes=() if mixing is None else (mixing,),
    )


def report_of_pipeline(
    run: Pipeline, settings: Settings, units: Units, order: NDArray[np.intp], names: Sequence[str]
) -> Report:
    """Report of the staged fit.

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
    inside, inside_last = run.inside(theta), run.inside(last)
    _refuse_overflow(inside, inside_last)
    linear = run.to_user @ run.linear()
    covs = {name: linear @ cov @ linear.T for name, cov in run.covariances().items()}
    estimates = tuple(Estimate(m.name, covs[m.name], _pivot(m.name, run)) for m in settings.methods if m.name in covs)
    groups = run.groups()
    people = [*run.trail_people]
    params = [units.params_outside(_natural(m, order)) for m in run.trail_means]
    variances = list(run.trail_variances)
    if not people or people[-1] < run.people:
        people.append(run.people)
        params.append(units.params_outside(_natural(inside, order)))
        variances.append(run.variances())
    return Report(
        params=units.params_outside(_natural(inside, order)),
        last=units.params_outside(_natural(inside_last, order)),
        estimates=estimates,
        senders=sum(g.people for g in groups),
        updates=sum(g.people for g in groups) // schedule.batch,
        trail_n=np.array(people, dtype=np.int64),
        trail_params=np.array(params),
        trail_variances=np.array(variances),
        family=_family(run, settings, units),
        tuning=f"efficient: Newton steps, {schedule.batch} a batch, {_lanes(schedule.lanes)}",
        spending=_spending(run),
        bound=f"{settings.bound:.4g} (ψ / bound), weights ω = 1/‖z‖, z the {_how(settings)} covariates",
        notes=_notes(run, settings, names),
    )


def _natural(theta: Array, order: NDArray[np.intp]) -> Array:
    out = np.empty_like(theta)
    out[order] = theta
    return out


def _refuse_overflow(*thetas: Array) -> None:
    if not all(np.isfinite(t).all() for t in thetas):
        raise InferenceError("the estimates overflowed: the steps are too large; leave step= out or make it smaller.")


def _pivot(method: str, run: Pipeline) -> Any:
    return StudentT(len(run.groups()) - 1) if method == "between_lanes" else RandomScaling(run.start.schedule.lanes)


def _lanes(lanes: int) -> str:
    return "1 lane" if lanes == 1 else f"{lanes} lanes"


def _how(settings: Settings) -> str:
    """What is done to covariates before the score weights take their length."""
    return "whitened" if settings.efficient is None or settings.efficient.whitened else "scaled"


def _family(run: Pipeline, settings: Settings, units: Units) -> str:
    rules = run.start.rules
    if not rules.track or run.chains is None:
        return settings.score_words
    scale = float(np.exp(np.mean(run.chains.state.log_c))) / rules.ratio * run.y_scale * units.y_scale
    return f"Huber, c = {rules.ratio:.4g} × residual scale {scale:.4g} (learned)"


def _spending(run: Pipeline) -> str:
    start = run.start
    mechanism = start.mechanism
    joint = mechanism.joint_sd(start.reach, 1.0 if start.rules.track else 0.0)
    words = {
        "location": ("told where columns lie", mechanism.bits_sd(2 * len(start.unscaled))),
        "moments": ("reported second moments", mechanism.moment_sd()),
        "search": ("led the way", joint),
        "pilot": ("ran a pilot", joint),
        "common": ("the common chain", joint),
    }
    counts = dict.fromkeys(words, 0)
    for stage, people in run.roles():
        if stage.kind in counts:
            counts[stage.kind] += people
    parts = [f"{counts[k]:,} {text} (noise sd {sd:.4g})" for k, (text, sd) in words.items() if counts[k]]
    return f"{', '.join(parts)}; each person in one role, no extra budget"


def _notes(run: Pipeline, settings: Settings, names: Sequence[str]) -> tuple[str, ...]:
    schedule = run.start.schedule
    lead = schedule.before("lanes") - run.spared
    out = []
    lost = [names[j] for j in run.lost()]
    if lost:
        out.append(
            f"{DOUBT} the intervals: the search for the scale of {', '.join(lost)} did not settle, as for a column "
            "that is the same for most people or varies little beside its distance from 0; declare its bounds= or "
            "moments="
        )
    have = bool(settings.methods and run.covariances())
    for j in run.rare() if have else []:
        out.append(
            f"{DOUBT} the intervals: only some {100 * run.shares[j]:.2g}% of the people (as learned from the reports) "
            f"have the rarer value of {names[j]}, too few at this budget; its interval is far too short and the others "
            "suffer: merge levels, leave it out, or ask more people"
        )
    for j, span in run.wide() if have else []:
        out.append(
            f"{DOUBT} the intervals: the bounds of {names[j]} span {span:.0f} or more times its learned sd: they are "
            "too wide to find its scale, or most people share one value (a rare indicator, an amount that is mostly "
            "0); declare tighter bounds=, levels=, or scaling='private'"
        )
    if schedule.rows and run.people > MANY_MORE * schedule.rows:
        out.append(
            f"{DOUBT} the intervals: rows={schedule.rows:,} was said and {run.people:,} people came, so the pilots "
            "were short for them; give rows= as it is, or leave it out"
        )
    if settings.methods and not have:
        out.append(f"{EARLY}: lanes begin after {lead:,} people, and {run.people:,} have reported")
    elif settings.methods and not schedule.enough(run.people - lead, run.d):
        out.append(
            f"{DOUBT} the intervals: {run.people:,} people are few for {run.d} coefficients at this budget; in "
            f"simulations coverage fell below its level with fewer than about {schedule.wanted(run.d) + lead:,}"
        )
    return tuple(out)
