"""Outcome of a fit, from its reports so far, and the results that a statistician is handed. Reports only."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array, Ints
from privreg.collector.design import NOTHING, Batch, Chain
from privreg.collector.plan import SAMPLED
from privreg.errors import InferenceError
from privreg.families.measures import Measure
from privreg.fits.settings import Settings
from privreg.formula.spec import CLAMPING, ModelSpec
from privreg.formula.units import Units
from privreg.privacy.ledger import Release, within
from privreg.results import statement as words
from privreg.results.data import Fitted, ResultData
from privreg.results.results import PrivateResults
from privreg.results.statement import PrivacyStatement
from privreg.tables import in_one_format
from privreg.tables.diagnostics import Diagnostic, doubt, note


@dataclass(frozen=True)
class Held:
    """Public values of a fit so far: the input of estimates, tables and notes. Nothing in it is a row.

    A simulation, the workers of a cluster and a study with people's own devices or silos fill it alike: `people` are
    the records whose report has come, `open` the reports of the present batch so far, where they count at once. `came`
    are, of local reports, numbers of those received, by round, the present one last; `unusable` is True if records may
    send noise only, `personal` if they have personal budgets. The first `shuffled` records are known to have come in
    random order, infinitely many if all have; `clustered`, shape (clusters,), are people by cluster, if these are
    public.
    """

    chain: Chain
    people: int
    open: Batch = NOTHING
    came: tuple[int, ...] = ()
    unusable: bool = False
    personal: bool = False
    shuffled: float = 0.0
    clustered: Ints | None = None

    @property
    def plan(self) -> Any:
        """Plan of the rounds."""
        return self.chain.plan

    @cached_property
    def progress(self) -> Any:
        """The collector's progress, with the reports of the open batch."""
        return self.chain.design.present(self.plan, self.chain.progress, self.open)

    @property
    def found(self) -> Any:
        """Coefficients from all reports; None before there are any."""
        return self.chain.design.estimate(self.plan, self.progress)


@dataclass(frozen=True, kw_only=True)
class FitOutcome(Fitted):
    """Outcome of a fit in progress: its numbers, and what a header, a privacy statement and an audit need of it."""

    family: str  # The family with its constants
    tuning: str  # For the header
    spending: str  # People in rounds before the main ones, for the privacy block
    bound: str  # The score's bound, for the privacy block
    notes: tuple[Diagnostic, ...]
    mechanics: tuple[dict[str, Any], ...]  # Inputs for an audit of the reports: numbers only
    extra: tuple[Measure, ...] = ()  # A parameter beside the coefficients
    measured: int = 0  # People who reported measures of fit
    cost: str = "instead of a score"  # Cost of that, in words
    target: str = ""  # Target of the coefficients, in words; the family's if empty
    unusable: words.Unusable | None = None  # Lower limit of the share of unusable records
    silos: str = ""  # Silos with their records and weights; empty without any
    clusters: str = ""  # Clusters of people, and groups of them; empty if people are independent
    clamping: str | None = None  # Clamped shares in words, if anybody is asked
    weighing: str = ""  # Score weights, where more is known of them than the settings say


def outside_of(theta: Array, order: NDArray[np.intp], units: Units) -> Array:
    """Coefficients in the user's units and order, block by block."""
    blocks = theta.reshape(-1, len(order))
    out = np.empty_like(blocks)
    out[:, order] = blocks
    return np.concatenate([units.params_outside(block) for block in out])


def refuse_overflow(*thetas: Array) -> None:
    """Raise an `InferenceError` if an estimate is not finite."""
    if not all(np.isfinite(t).all() for t in thetas):
        raise InferenceError("the estimates overflowed: the steps are too large; leave step= out or make it smaller.")


OF_RESPONSES: Final = (
    f"{words.RESPONSE_ALONE}, used once; covariates and offsets are public, not protected; neighbours replace one "
    "response"
)

HOLD: Final = {"local": 5, "two_collectors": 20, "central": 20, "silos": 20}
"""Rows of a person up to which intervals hold where levels are taken out: benchmarks/results/persons.csv, "within"."""


class Senders(NamedTuple):
    """Party that randomised the reports, for the privacy statement."""

    trust: str = "simulated"  # See `PrivacyStatement.trust`
    mechanism: str = ""  # Title of the mechanism and its noise in words, if they differ from the settings'
    noise: str = ""
    notes: tuple[Diagnostic, ...] | None = None  # In place of the note that noise is rounded in double precision
    operators: tuple[str, ...] = ()  # Names of the two collectors


SIMULATED: Final = Senders()  # Devices that one process played


def results(
    outcome: FitOutcome,
    spec: ModelSpec,
    settings: Settings,
    release: Release,
    *,
    senders: Senders = SIMULATED,
    seeded: bool = False,
    added: Sequence[tuple[str, str]] = (),
    origin: object = None,
) -> PrivateResults:
    """Results of a fit, by rounds or another way, whose `release` is as the ledger has it.

    `senders` are who randomised the reports; `seeded` says whether their noise can be drawn again. `added` are further
    entries of the header, last. `origin` stands for the reports: results with the same one are one release.
    """
    seeded, people, equation = seeded and spec.budget.private, spec.people, outcome.equation
    followed = people.followed
    response = spec.design.endog_name if followed is None else followed.response
    if equation is not None and people.mu is not None and people.mu_max is not None and settings.tuning != "published":
        equation = replace(equation, budgets=(people.mu, people.mu_max))  # by which reports are weighted
    numbers: dict[str, Any] = {f.name: getattr(outcome, f.name) for f in fields(Fitted)}
    numbers |= {"measures": (*outcome.extra, *outcome.measures), "equation": equation}
    return PrivateResults(
        ResultData(
            design=spec.design,
            within=people.effect is not None,
            cuts=() if followed is None else followed.cuts,
            family=spec.family,
            title=(
                ("Dep. Variable", response),
                ("Family", outcome.family),
                ("Formula", spec.formula),
                *spec.added,
                ("No. Observations", spec.counted(outcome.nobs)),
                *([("Clusters", outcome.clusters)] if outcome.clusters else []),
                *([("Silos", outcome.silos)] if outcome.silos else []),
                *([] if outcome.unusable is None else [("Unusable", f"{outcome.unusable} of the records")]),
                ("Trust", spec.trust.replace("central", "trusted curator").replace("_", " ")),
                ("Score weights", outcome.weighing or settings.how.weighing),
                ("Tuning", outcome.tuning),
                ("Inference", ", ".join(m.title for m in settings.methods) or "none (estimates only)"),
                ("Estimand", spec.estimand(outcome.target)),
                *added,
            ),
            names=spec.coefficients,
            baseline=spec.baseline,
            origin=object() if origin is None else origin,
            statement=_statement(outcome, spec, settings, release, senders, seeded=seeded),
            **numbers,
        )
    )


SETTING: Final = {
    "local": "reports",
    "two_collectors": "collectors",
    "central": "curator's sums",
    "silos": "silos' sums",
}


def _statement(
    outcome: FitOutcome, spec: ModelSpec, settings: Settings, release: Release, senders: Senders, *, seeded: bool
) -> PrivacyStatement:
    """Make the privacy statement of a release."""
    central = any(m.central for m in settings.methods)
    mechanism, p = settings.mechanism, len(spec.design.names)
    budget, spending = mechanism.budget, outcome.spending
    if central:
        spending = f"raw curvature and scores released once with noise by a curator: another {budget}"
    alone = "curator" if spec.noise.again and senders is SIMULATED else senders.trust
    several = spec.people.k_max is not None
    protects = words.ALL_ROWS if several else words.whole_records(spec.people.max_per_id)
    if spec.noise.again:
        protects = (words.SILO_ROWS if spec.silos else words.HELD_ROWS)[several]
    elif spec.private == "response":
        protects = OF_RESPONSES
    clamped = CLAMPING[1] if outcome.clamping is None else outcome.clamping
    declared = [(name, clamped if (name, text) == CLAMPING else text) for name, text in spec.declared()]
    if settings.efficient is not None and settings.efficient.covariates is not None:
        declared.append(("covariates", settings.efficient.covariates.words))
    cost, measures = f"(se); from {outcome.measured:,} records {outcome.cost}", outcome.measures
    values = [in_one_format([m.estimate, m.std_error], 0, m.std_error) for m in measures]
    return PrivacyStatement(
        budget=budget,
        trust="central plug-in" if central else alone,
        setting=SETTING[spec.trust],
        operators=senders.operators,
        mechanism=senders.mechanism or mechanism.title,
        noise_sd=settings.noise_sd(p),
        noise=senders.noise or settings.noise_text(p, personal=spec.personal),
        protects=protects,
        mu_max=spec.people.mu is not None,
        per_id=spec.people.max_per_id,
        people=outcome.nobs,
        linked=spec.private == "response" and not spec.alone,
        mechanics=outcome.mechanics,
        fit_measures=tuple((m.name, f"{' ± '.join(v)} {cost}") for m, v in zip(measures, values, strict=True)),
        bound=settings.how.bound,
        weights=outcome.bound,
        curvature=spending,
        release=release,
        declared=tuple(declared),
        notes=_notes(outcome, spec, settings, senders, seeded=seeded),
        seeded=seeded,
        leaked=spec.design.schema.leaked,
    )


def of_many_rows(spec: ModelSpec) -> str:
    """Reason why intervals aren't known to hold if levels are taken out of many rows of a person; empty if they are."""
    people = spec.people
    if not people.centred or people.rows <= (most := HOLD[spec.trust]):
        return ""
    if spec.trust == "local":
        return (
            f"in simulations of people with more than {most} rows, their levels out, they were too short; take "
            f"differences, | diff({people.id}), or k_max={most}"
        )
    return f"with levels of people out they were tried with up to {most} rows of a person only; take k_max={most}"


def _notes(
    outcome: FitOutcome, spec: ModelSpec, settings: Settings, senders: Senders, *, seeded: bool
) -> tuple[Diagnostic, ...]:
    """Notes on the results, in order."""
    schema, design = spec.design.schema, spec.design
    carries = words.SETTINGS[SETTING[spec.trust]].carries[0]
    given: dict[str, Any] = {"leaked": schema.leaked, "missing": spec.people.missing, "carries": carries}
    out = words.opening_notes(spec.budget, seeded=seeded, **given)
    if spec.family.scoring.residual and schema.bounds.get(design.endog_bare or "") == (0.0, 1.0):
        out.append(note("binary", response=design.endog_bare))
    unused = any(one.code in {"nonresponse", "unusable"} for one in outcome.notes)
    if unused and spec.family.kind == "binary" and design.endog_levels is None and spec.people.followed is None:
        out.append(note("remark", response=design.endog_name))
    if any(m.central for m in settings.methods):
        out.append(note("curator", total=within(settings.total_mu(spec.people.max_per_id), 4)))
    who = spec.people
    if who.id is not None and who.k_max is None and who.max_per_id == 1:
        out.append(note("first_row"))
    elif who.effect is not None:  # only changes within persons count
        cornered = spec.family.scoring.cornered
        rest = "the intercept takes errors' asymmetry" if cornered else "the intercept is 0 but for noise"
        mean = ". With Huber() they are those of the mean if errors of a person are exchangeable; with Squared() always"
        out.append(note("within", rest=rest, mean=mean if cornered else ""))
        out += [doubt("rows", why)] if (why := of_many_rows(spec)) else []
    if outcome.estimates:  # standard errors if all rows of one person had the same score: public numbers
        rows, p = spec.people.max_per_id, len(spec.coefficients)
        noise = p * settings.mechanism.sd(1.0, p) ** 2
        out += words.repeated_notes(rows, math.sqrt((noise + rows * SAMPLED) / (noise + SAMPLED)))
    out += [one for e in outcome.estimates for one in e.notes]
    closing = words.closing_notes(spec.budget, settings.mechanism.budget, whole=spec.trust != "local")
    if senders.notes is not None:
        closing = [*(one for one in closing if one.code != "rounding"), *senders.notes]
    return (*out, *outcome.notes, *closing)
