"""What a fit in progress states beside its numbers: header, privacy statement, notes. Public and randomised values."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from privreg.audit import reports
from privreg.diagnostics import Diagnostic
from privreg.formula.spec import CLAMPING
from privreg.privacy.ledger import Release, within
from privreg.results.statement import PrivacyStatement
from privreg.results.wording import RESPONSE_ALONE, closing_notes, opening_notes, repeated_notes, whole_records
from privreg.simulation.plan import device_plan
from privreg.simulation.rounds import RoundsRun

if TYPE_CHECKING:
    from privreg.fits.outcome import FitOutcome
    from privreg.fits.settings import Settings
    from privreg.formula.spec import ModelSpec

OF_RESPONSES: Final = (
    f"{RESPONSE_ALONE}, used once; covariates and offsets are public, not protected; neighbours replace one response"
)
SMALLER: Final = 0.25
"""Weight of a budget half the largest, for which personal budgets are audited too."""

SCORES: Final = 0.7
"""Mean squared length of a score report before noise, about, of one row: its bound is 1."""


def title(spec: ModelSpec, s: Settings, people: int, report: FitOutcome) -> tuple[tuple[str, str], ...]:
    """Entries of the header, in order."""
    out = [
        ("Dep. Variable", spec.design.endog_name),
        ("Family", report.family),
        ("Formula", spec.formula),
        *spec.added,
        ("No. Observations", f"{people:,}"),
        *([] if report.unusable is None else [("Unusable", f"{report.unusable} of the records")]),
        ("Score weights", s.how.weighing),
        ("Tuning", report.tuning),
        ("Inference", ", ".join(m.title for m in s.methods) or "none (estimates only)"),
        ("Estimand", spec.family.estimand),
    ]
    return tuple(out)


def statement(
    spec: ModelSpec,
    s: Settings,
    people: int,
    mechanics: tuple[dict[str, Any], ...],
    report: FitOutcome,
    release: Release,
    *,
    seeded: bool,
    total_mu: float,
) -> PrivacyStatement:
    """Make the privacy statement of a release."""
    central = any(m.central for m in s.methods)
    budget, p = s.mechanism.budget, len(spec.design.names)
    spending = report.spending
    if central:
        spending = f"raw curvature and scores released once with noise by a curator: another {budget}"
    return PrivacyStatement(
        budget=budget,
        trust="central plug-in" if central else "simulated",
        setting="collectors" if spec.trust == "two_collectors" else "reports",
        mechanism=s.mechanism.title,
        noise_sd=s.noise_sd(p),
        noise=s.noise_text(p),
        protects=OF_RESPONSES if spec.private == "response" else whole_records(spec.people.max_per_id),
        mu_max=spec.people.mu is not None,
        per_id=spec.people.max_per_id,
        people=people,
        linked=spec.private == "response" and not spec.alone,
        mechanics=mechanics,
        fit_measures=report.measure_words(),
        bound=s.how.bound,
        weights=report.bound,
        curvature=spending,
        release=release,
        declared=_declared(spec, s, report),
        notes=_notes(spec, s, report, seeded=seeded, total_mu=total_mu),
        seeded=seeded and spec.budget.private,
        leaked=spec.design.schema.leaked,
    )


def _declared(spec: ModelSpec, s: Settings, report: FitOutcome) -> tuple[tuple[str, str], ...]:
    """Public declarations in words, public rows and what was told of clamping among them."""
    out = spec.declared()
    if report.clamping is not None:
        out = tuple((name, report.clamping if (name, text) == CLAMPING else text) for name, text in out)
    public = None if s.efficient is None else s.efficient.covariates
    return out if public is None else (*out, ("covariates", public.words))


def mechanics(run: RoundsRun, _: Settings) -> tuple[dict[str, Any], ...]:
    """What is needed to audit the reports of every role that has had its rounds: numbers only."""
    plan, out, seen = run.plan, [], set()
    for k in range(len(run.progress.held) + 1):
        role = plan.rounds[min(k, len(plan.rounds) - 1)].role
        if role in seen or (role == "moments" and plan.label):
            continue
        seen.add(role)
        m = plan.numbers(role)
        given = plan.mechanism.channel(m), plan.radius(role)
        if role == "location":
            out.append(reports.of_numbers("location", "numbers", *given, m))
        elif role == "clamping":
            out.append(reports.of_numbers("clamping", "numbers", *given, m))
        elif role == "measures":
            out.append(reports.of_numbers("measures of fit", "numbers", *given, m))
        elif role == "moments" and plan.wide is not None:
            out.append(reports.of_numbers("moments", "numbers", *given, m))
        elif role == "moments":
            out.append(
                reports.of_numbers("moments", "moments", *given, plan.d + plan.extra + int(plan.layout.response))
            )
        else:
            state = run.progress.state._replace(role=role)
            out.append(reports.of_scores(f"score, {role}", device_plan(plan, state), state.theta, state.corner))
    if run.personal:  # smaller budgets by more noise
        out += [reports.of_smaller_budget(m, SMALLER) for m in out]
    return tuple(out)


def _notes(
    spec: ModelSpec, s: Settings, report: FitOutcome, *, seeded: bool, total_mu: float
) -> tuple[Diagnostic, ...]:
    schema, design = spec.design.schema, spec.design
    out = opening_notes(spec.budget, seeded=seeded, leaked=schema.leaked, missing=spec.people.missing)
    if spec.family.of_residuals and schema.bounds.get(design.endog_bare) == (0.0, 1.0):
        text = (
            f"{design.endog_bare} is declared within 0 and 1: if it is a yes or no, this family's line is drawn to the "
            "more frequent answer; family='logistic' gives log-odds, Squared() differences of shares"
        )
        out.append(Diagnostic("binary", text))
    if any(m.central for m in s.methods):
        total = within(total_mu, 4)
        text = f"plug_in_central is one release by a trusted curator, not local privacy: {total}-GDP with the reports"
        out.append(Diagnostic("curator", text))
    out += _repeated(spec, s) if report.estimates else []
    found = (*(note for e in report.estimates for note in e.notes), *report.notes)
    return (*out, *found, *closing_notes(spec.budget, s.mechanism.budget, whole=spec.trust != "local"))


def _repeated(spec: ModelSpec, s: Settings) -> list[Diagnostic]:
    """What it would do to standard errors if all rows of one person had the same score. Public numbers."""
    rows, p = spec.people.max_per_id, len(spec.coefficients)
    noise, own = p * s.mechanism.sd(1.0, p) ** 2, SCORES
    times = math.sqrt((noise + rows * own) / (noise + own))
    return repeated_notes(rows, times)
