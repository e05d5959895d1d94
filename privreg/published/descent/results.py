"""Results of a published descent and their statement: the core's, with what differs for one release and no reports."""

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
from privreg.published.descent.arrival import Release, notes
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
ROUNDING: Final = "noise is drawn in double precision: the guarantee holds up to floating-point rounding"
SPLIT: Final = (
    "each of {} lanes spends the whole budget on its own records; a record is in one of them, by a draw that does not "
    "look at it"
)
PROTECTS: Final = (
    "one record, a row with all its values; neighbours replace one record, so the number of records is public; who has "
    "several rows is protected less"
)


@all_known_arguments
class CentralResults(PrivateResults):
    """Results of a published descent. Holds the release and the public schema; never a row."""

    _kind = "central results"

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """Refuse: the last iterate is not released."""
        raise InferenceError("a curator's descent releases the average only, and no last iterate; see params.")

    @property
    def fit_measures(self) -> pd.DataFrame:
        """Refuse: a descent releases coefficients only."""
        raise InferenceError("a descent releases no measures of fit; evaluate(public_test) has them of public rows.")

    def plot_trajectory(self, *args: Any, **options: Any) -> Any:
        """Refuse: estimates on the way are not released."""
        raise InferenceError("a descent releases one estimate, at its end, and no path; plot_coef() draws it.")

    def plot_privacy(self, *, ax: Any = None) -> NDArray[Any]:
        """Draw the trade-off curve of a release, which must be one Gaussian mechanism."""
        if self.privacy.gaussian:
            return super().plot_privacy(ax=ax)
        raise InferenceError(
            f"{self.privacy.short} is not one Gaussian mechanism, whose curve this draws; fit with order='full' or "
            "'permuted'."
        )

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
    return Estimate("between_lanes", np.atleast_2d(np.cov(lanes.T)) / b, StudentT(b - 1), tuple(why))


def payload(
    spec: ModelSpec, plan: Plan, loss: Loss, released: Release, statement: PrivacyStatement, n: int
) -> ResultData:
    """Collect what results know: the release, public numbers, the statement."""
    outside = np.array([spec.units.params_outside(w) for w in released.lanes])
    names, lanes = spec.coefficients, len(plan.sizes)
    params, one = outside.mean(axis=0), np.array([n], dtype=np.int64)
    estimate = estimate_of(outside, notes(released, plan, loss, spec.units.matrix, names))
    title = {
        "Dep. Variable": spec.design.endog_name,
        "Family": loss.words,
        "Formula": spec.formula,
        "No. Observations": f"{n:,}",
        "Trust": "central",
        "Tuning": f"published: {plan.words()}",
        "Domain": "all of R^p" if plan.radius is None else f"ball of radius {plan.radius:g} (internal units)",
        "Inference": "none (one lane)" if lanes == 1 else f"between {lanes} lanes of disjoint records",
        "Estimand": spec.family.estimand,
    }
    return ResultData(
        design=spec.design,
        family=spec.family,
        title=tuple(title.items()),
        names=names,
        params=params,
        last=params,
        estimates=(estimate,),
        nobs=n,
        senders=n,
        updates=sum(map(plan.steps, plan.sizes)),
        trail_n=one,
        trail_senders=one,
        trail_params=params[None, :],
        trail_variances=estimate.variances[None, :],
        statement=replace(statement, notes=(*statement.notes, *estimate.notes)),
    )


def make_statement(spec: ModelSpec, plan: Plan, loss: Loss, *, n: int, seeded: bool) -> PrivacyStatement:
    """State what a plan's release protects; its number in the ledger is filled in when it is made."""
    private, c, lanes = spec.budget.private, plan.constants, len(plan.sizes)
    rule = "2GηK" if c.alpha == 1.0 else "c η^(1/(1−α)) √T + 2GηK"
    of = "the average" if lanes == 1 else "each lane's average"
    over, each = {
        "full": ("the sum over all records, the steps compose to mu", "each sum"),
        "poisson": ("the sum over each Poisson sample, accounted by privacy loss distributions", "each sum"),
        "permuted": (f"each coordinate of {of}", f"passes K = {plan.epochs}"),
        "sampled": (f"each coordinate of {of}", "draws K ~ Bin(T, 1/n), of which the mean is shown"),
    }[plan.order]
    bound = f"Δ(K) = {rule} = {plan.move:.4g} (internal units), {each}; alpha = {c.alpha:.4g}, L = {c.holder:.4g}"
    if plan.noisy:
        bound = f"2G = {2 * plan.move:.4g} for {each} (internal units); one record's gradient ‖∂f‖ ≤ G"
    paid = "of all records"
    if private:
        paid = (
            f"{100 * (plan.curvature_mu / spec.budget.mu) ** 2:.2g}% of mu² for one matrix, the mean curvature of all "
            f"records: noise sd {plan.curvature_sd:.4g}; one record's ‖a x xᵀ‖ ≤ "
            f"{loss.steepest * spec.units.reach**2:.4g} (internal units)"
        )
    out = opening_notes(spec.budget, seeded=seeded, carries="the release carries no noise")
    out += [Diagnostic("split", SPLIT.format(lanes))] if private and lanes > 1 else []
    out += [Diagnostic("rounding", ROUNDING)] if private else []
    return PrivacyStatement(
        setting="curator",
        budget=spec.budget,
        trust="curator",
        mechanism=f"Gaussian {'gradient' if plan.noisy else 'output'} perturbation",
        noise_sd=plan.noise_sd,
        noise=f"noise sd {plan.noise_sd:.4g} on {over}",
        protects=PROTECTS,
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
