"""The privacy statement of a trusted curator's release."""

from __future__ import annotations

from typing import Final

from privreg.central.losses import Loss
from privreg.central.plan import Plan
from privreg.diagnostics import Diagnostic
from privreg.formula.spec import ModelSpec
from privreg.privacy.ledger import Release
from privreg.results.statement import PrivacyStatement
from privreg.results.wording import opening_notes

ROUNDING: Final = "noise is drawn in double precision: the guarantee holds up to floating-point rounding"
_PROTECTS: Final = (
    "one record, a row with all its values; neighbours replace one record, so the number of records is public; who has "
    "several rows is protected less"
)


def make_statement(spec: ModelSpec, plan: Plan, loss: Loss, *, n: int, seeded: bool) -> PrivacyStatement:
    """State what a plan's release protects; its number in the ledger is filled in when it is made."""
    private, k, c = spec.budget.private, plan.epochs, plan.constants
    if plan.perturbation == "gradient":
        over = "all records" if plan.gaussian else "each Poisson sample"
        how = "the steps compose to mu" if plan.gaussian else "accounted by privacy loss distributions"
        noise = f"noise sd {plan.noise_sd:.4g} on the sum over {over}, {how}"
        bound = f"2G = {2 * plan.move:.4g} for each sum (internal units); one record's gradient ‖∂f‖ ≤ G"
    else:
        each = f"passes K = {k}" if plan.order == "permuted" else "draws K ~ Bin(T, 1/n), of which the mean is shown"
        rule = "2GηK" if c.alpha == 1.0 else "c η^(1/(1−α)) √T + 2GηK"
        noise = f"noise sd {plan.noise_sd:.4g} on each coordinate of " + (
            "the average" if len(plan.sizes) == 1 else "each lane's average"
        )
        bound = (
            f"Δ(K) = {rule} = {plan.move:.4g} (internal units), {each}; alpha = {c.alpha:.4g}, L = {c.holder:.4g}, "
            f"G = {c.gradient:.4g}"
        )
    paid, reach = "none is released" if len(plan.sizes) == 1 else "of all records", spec.units.reach
    if plan.curvature_mu and private:
        paid = (
            f"{100 * (plan.curvature_mu / spec.budget.mu) ** 2:.2g}% of mu² for one matrix, the mean curvature of all "
            f"records: noise sd {plan.curvature_sd:.4g}; one record's ‖a x xᵀ‖ ≤ {loss.steepest * reach**2:.4g} "
            "(internal units)"
        )
    out = opening_notes(spec.budget, seeded=seeded, carries="the release carries no noise")
    if private and len(plan.sizes) > 1:
        text = (
            f"each of {len(plan.sizes)} lanes spends the whole budget on its own records; a record is in one of them, "
            "by a draw that does not look at it"
        )
        out.append(Diagnostic("split", text))
    if private:
        out.append(Diagnostic("rounding", ROUNDING))
    return PrivacyStatement(
        setting="curator",
        budget=spec.budget,
        trust="curator",
        mechanism=f"Gaussian {plan.perturbation} perturbation",
        noise_sd=plan.noise_sd,
        noise=noise,
        protects=_PROTECTS,
        people=n,
        bound=c.gradient,
        weights=bound,
        curvature=paid,
        release=Release(0, spec.budget.mu),
        declared=spec.declared("count for nothing"),
        notes=tuple(out),
        seeded=seeded and private,
        gaussian=plan.gaussian,
        right=(1.0 + plan.delta(0.0)) / 2.0 if private else 1.0,
        certain_mu=plan.certain_mu() if private and not plan.gaussian else None,
    )
