"""The one way from what a fit has found to the results that a statistician is handed: header, privacy statement, notes.

Public and randomised values only. Every fit from reports ends here, by rounds or by the published chain.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from privreg.collector.plan import SAMPLED
from privreg.fits.outcome import FitOutcome
from privreg.fits.settings import Settings
from privreg.formula.spec import CLAMPING, ModelSpec
from privreg.privacy.ledger import Release, within
from privreg.results.data import Equation, ResultData
from privreg.results.results import PrivateResults
from privreg.results.statement import PrivacyStatement
from privreg.results.wording import (
    ALL_ROWS,
    HELD_ROWS,
    RESPONSE_ALONE,
    SETTINGS,
    closing_notes,
    opening_notes,
    repeated_notes,
    whole_records,
)
from privreg.tables.diagnostics import Diagnostic, doubt, note

OF_RESPONSES: Final = (
    f"{RESPONSE_ALONE}, used once; covariates and offsets are public, not protected; neighbours replace one response"
)

HOLD: Final = {"local": 5, "two_collectors": 20, "central": 20}
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
    seeded = seeded and spec.budget.private
    return PrivateResults(
        ResultData(
            design=spec.design,
            within=spec.people.effect is not None,
            family=spec.family,
            title=(*_title(outcome, spec, settings), *added),
            names=spec.coefficients,
            baseline=spec.baseline,
            measures=outcome.measures,
            spreads=outcome.spreads,
            rounds=outcome.rounds,
            steps=outcome.steps,
            equation=_with_budgets(outcome.equation, spec, settings),
            params=outcome.params,
            last=outcome.last,
            estimates=outcome.estimates,
            nobs=outcome.people,
            senders=outcome.senders,
            updates=outcome.updates,
            trail_n=outcome.trail_n,
            trail_senders=outcome.trail_senders,
            trail_params=outcome.trail_params,
            trail_variances=outcome.trail_variances,
            origin=object() if origin is None else origin,
            statement=_statement(outcome, spec, settings, release, senders, seeded=seeded),
        )
    )


def _with_budgets(equation: Equation | None, spec: ModelSpec, settings: Settings) -> Equation | None:
    """The estimating equation, with the column of personal budgets and the largest, if reports are weighted by them."""
    people = spec.people
    if equation is None or people.mu is None or people.mu_max is None or settings.tuning == "published":
        return equation
    return replace(equation, budgets=(people.mu, people.mu_max))


def _title(outcome: FitOutcome, spec: ModelSpec, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Entries of the header, in order."""
    return (
        ("Dep. Variable", spec.design.endog_name),
        ("Family", outcome.family),
        ("Formula", spec.formula),
        *spec.added,
        ("No. Observations", spec.counted(outcome.people)),
        *([("Clusters", outcome.clusters)] if outcome.clusters else []),
        *([] if outcome.unusable is None else [("Unusable", f"{outcome.unusable} of the records")]),
        ("Score weights", outcome.weighing or settings.how.weighing),
        ("Tuning", outcome.tuning),
        ("Inference", ", ".join(m.title for m in settings.methods) or "none (estimates only)"),
        ("Estimand", spec.estimand(outcome.target)),
    )


def _setting(spec: ModelSpec) -> str:
    return {"local": "reports", "two_collectors": "collectors", "central": "curator's sums"}[spec.trust]


def _statement(
    outcome: FitOutcome, spec: ModelSpec, settings: Settings, release: Release, senders: Senders, *, seeded: bool
) -> PrivacyStatement:
    """Make the privacy statement of a release."""
    central = any(m.central for m in settings.methods)
    mechanism, p = settings.mechanism, len(spec.design.names)
    budget, spending = mechanism.budget, outcome.spending
    if central:
        spending = f"raw curvature and scores released once with noise by a curator: another {budget}"
    return PrivacyStatement(
        budget=budget,
        trust="central plug-in" if central else "curator" if spec.trust == "central" else senders.trust,
        setting=_setting(spec),
        operators=senders.operators,
        mechanism=senders.mechanism or mechanism.title,
        noise_sd=settings.noise_sd(p),
        noise=senders.noise or settings.noise_text(p) + ", of the largest; others have theirs" * spec.personal,
        protects=_protects(spec) if spec.trust != "central" else HELD_ROWS[spec.people.k_max is not None],
        mu_max=spec.people.mu is not None,
        per_id=spec.people.max_per_id,
        people=outcome.people,
        linked=spec.private == "response" and not spec.alone,
        mechanics=outcome.mechanics,
        fit_measures=outcome.measure_words(),
        bound=settings.how.bound,
        weights=outcome.bound,
        curvature=spending,
        release=release,
        declared=_declared(outcome, spec, settings),
        notes=_notes(outcome, spec, settings, senders, seeded=seeded),
        seeded=seeded,
        leaked=spec.design.schema.leaked,
    )


def _protects(spec: ModelSpec) -> str:
    if spec.private == "response":
        return OF_RESPONSES
    return whole_records(spec.people.max_per_id) if spec.people.k_max is None else ALL_ROWS


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


def _of_persons(spec: ModelSpec) -> list[Diagnostic]:
    """Notes on rows of a person: only the first counts, or only changes within persons do."""
    who = spec.people
    if who.id is not None and who.k_max is None and who.max_per_id == 1:
        return [note("first_row")]
    if who.effect is None:
        return []
    rest = "the intercept is 0 but for noise" if not spec.family.cornered else "the intercept takes errors' asymmetry"
    mean = ". With Huber() they are those of the mean if errors of a person are exchangeable; with Squared() always"
    out = [note("within", rest=rest, mean=mean if spec.family.cornered else "")]
    why = of_many_rows(spec)
    return [*out, doubt("rows", why)] if why else out


def _declared(outcome: FitOutcome, spec: ModelSpec, settings: Settings) -> tuple[tuple[str, str], ...]:
    """Public declarations in words, public rows and what reports show of clamping among them."""
    out = spec.declared()
    if outcome.clamping is not None:
        out = tuple((name, outcome.clamping if (name, text) == CLAMPING else text) for name, text in out)
    public = None if settings.efficient is None else settings.efficient.covariates
    return out if public is None else (*out, ("covariates", public.words))


def _notes(
    outcome: FitOutcome, spec: ModelSpec, settings: Settings, senders: Senders, *, seeded: bool
) -> tuple[Diagnostic, ...]:
    """Notes on the results, in order."""
    schema, design = spec.design.schema, spec.design
    carries = SETTINGS[_setting(spec)].carries[0]
    out = opening_notes(spec.budget, seeded=seeded, leaked=schema.leaked, missing=spec.people.missing, carries=carries)
    if spec.family.of_residuals and schema.bounds.get(design.endog_bare or "") == (0.0, 1.0):
        out.append(note("binary", response=design.endog_bare))
    unused = any(one.code in {"nonresponse", "unusable"} for one in outcome.notes)
    if unused and spec.family.kind == "binary" and design.endog_levels is None:
        out.append(note("remark", response=design.endog_name))
    if any(m.central for m in settings.methods):
        out.append(note("curator", total=within(settings.total_mu(spec.people.max_per_id), 4)))
    out += _of_persons(spec)
    out += _repeated(spec, settings) if outcome.estimates else []
    out += [one for e in outcome.estimates for one in e.notes]
    closing = closing_notes(spec.budget, settings.mechanism.budget, whole=spec.trust != "local")
    if senders.notes is not None:
        closing = [*(one for one in closing if one.code != "rounding"), *senders.notes]
    return (*out, *outcome.notes, *closing)


def _repeated(spec: ModelSpec, settings: Settings) -> list[Diagnostic]:
    """Notes on standard errors if all rows of one person had the same score. Public numbers."""
    rows, p = spec.people.max_per_id, len(spec.coefficients)
    noise = p * settings.mechanism.sd(1.0, p) ** 2
    times = math.sqrt((noise + rows * SAMPLED) / (noise + SAMPLED))
    return repeated_notes(rows, times)
