"""Results of a curator's fit and their statement: the core's, with what differs for one release and no reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.arrays import Array
from privreg.diagnostics import Diagnostic, doubt
from privreg.errors import InferenceError
from privreg.formula.spec import ModelSpec
from privreg.inference.methods import Estimate
from privreg.inference.pivots import StudentT
from privreg.options.unknown import all_known_arguments
from privreg.privacy import ledger
from privreg.published.descent.arrival import Release, doubted, notes
from privreg.published.descent.losses import Loss
from privreg.published.descent.losses import restored as restored_family
from privreg.published.descent.plan import Plan
from privreg.results import saving
from privreg.results.data import ResultData
from privreg.results.results import PrivateResults
from privreg.results.statement import PrivacyStatement
from privreg.results.wording import opening_notes

ONE_LANE: Final = doubt(
    "lane", "one lane tells nothing of its precision, so there are none; fit with lanes=8", of="standard errors"
)


@all_known_arguments
class CentralResults(PrivateResults):
    """Results of a trusted curator's fit. Holds the release and the public schema; never a row."""

    _kind = "central results"

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """Refuse: the last iterate is not released."""
        raise InferenceError("a curator's fit releases the average only, and no last iterate; see params.")

    @property
    def fit_measures(self) -> pd.DataFrame:
        """Refuse: a curator's fit releases coefficients only."""
        raise InferenceError(
            "a curator's fit releases no measures of fit; evaluate(public_test) has them of public rows."
        )

    def plot_trajectory(self, *args: Any, **options: Any) -> Any:
        """Refuse: estimates on the way are not released."""
        raise InferenceError("a curator's fit releases one estimate, at its end, and no path; plot_coef() draws it.")

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the trade-off curve of a release, which must be one Gaussian mechanism."""
        if not self.privacy.gaussian:
            raise InferenceError(
                f"{self.privacy.short} is not one Gaussian mechanism, whose curve this draws; fit with "
                "order='full' or 'permuted'."
            )
        return super().plot_privacy(ax=ax)

    def _measured_by(self) -> str:
        return ""


def from_saved(document: Mapping[str, Any], arrays: Mapping[str, Any], design: Any) -> CentralResults:
    """Rebuild results from what :meth:`CentralResults.save` wrote."""
    return CentralResults(saving.restored(document, arrays, design, restored_family(dict(document["family"]))))


def estimate_of(lanes: Array, why: Sequence[Diagnostic] = ()) -> Estimate:
    """Precision of the mean of released `lanes`, user's units, shape (B, p), from their differences.

    `why` says why they should not be relied on.
    """
    b, p = lanes.shape
    if b == 1:
        return Estimate("between_lanes", np.full((p, p), np.nan), StudentT(1), (ONE_LANE, *why))
    differences = lanes - lanes.mean(axis=0)
    return Estimate("between_lanes", differences.T @ differences / (b * (b - 1)), StudentT(b - 1), tuple(why))


def payload(
    spec: ModelSpec, plan: Plan, loss: Loss, released: Release, statement: PrivacyStatement, n: int
) -> ResultData:
    """Collect what results know: the release, public numbers, the statement."""
    outside, names = np.array([spec.units.params_outside(w) for w in released.lanes]), spec.coefficients
    params, few = outside.mean(axis=0), doubted(plan, loss, len(names))
    why = notes(released, plan, loss, spec.units.matrix, names)
    estimate = estimate_of(outside, why if few is None else (*why, few))
    steps = sum(plan.steps(size) for size in plan.sizes)
    one = np.array([n], dtype=np.int64)
    return ResultData(
        design=spec.design,
        family=spec.family,
        title=_title(spec, plan, loss.words, n),
        names=names,
        params=params,
        last=params,
        estimates=(estimate,),
        nobs=n,
        senders=n,
        updates=steps,
        trail_n=one,
        trail_senders=one,
        trail_params=params[None, :],
        trail_variances=estimate.variances[None, :],
        statement=replace(statement, notes=(*statement.notes, *estimate.notes)),
    )


def _title(spec: ModelSpec, plan: Plan, words: str, n: int) -> tuple[tuple[str, str], ...]:
    lanes = len(plan.sizes)
    domain = "all of R^p" if plan.radius is None else f"ball of radius {plan.radius:g} (internal units)"
    return (
        ("Dep. Variable", spec.design.endog_name),
        ("Family", words),
        ("Formula", spec.formula),
        ("No. Observations", f"{n:,}"),
        ("Trust", "central"),
        ("Perturbation", plan.perturbation),
        ("Tuning", f"published: {plan.words()}"),
        ("Domain", domain),
        ("Inference", "none (one lane)" if lanes == 1 else f"between {lanes} lanes of disjoint records"),
        ("Estimand", spec.family.estimand),
    )


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
    paid, reach = "of all records", spec.units.reach
    if private:
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
        release=ledger.Release(0, spec.budget.mu),
        declared=spec.declared("count for nothing"),
        notes=tuple(out),
        seeded=seeded and private,
        gaussian=plan.gaussian,
        right=(1.0 + plan.delta(0.0)) / 2.0 if private else 1.0,
        certain_mu=plan.certain_mu() if private and not plan.gaussian else None,
    )
