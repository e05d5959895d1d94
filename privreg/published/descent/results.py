"""Results of a published descent, their statement, and arrival: how much of its start a descent still holds.

A descent leaves coefficients near their start along directions of little curvature, in all lanes alike. A small part of
the budget therefore goes into the mean curvature of all records at the released average, a symmetric matrix with noise.
With steps and step size it says what is left of the start.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import StudentT
from privreg.errors import InferenceError
from privreg.formula.spec import ModelSpec
from privreg.options.unknown import all_known_arguments
from privreg.privacy import ledger
from privreg.published.descent.kernels import LOGISTIC, PINBALL, Q_HINGE, SMOOTHED_HINGE
from privreg.published.descent.losses import Loss
from privreg.published.descent.plan import FLAT, Plan, edge
from privreg.results.data import ResultData
from privreg.results.results import PrivateResults
from privreg.results.statement import PrivacyStatement, opening_notes
from privreg.tables.diagnostics import Diagnostic, note

BIAS: Final = 0.25
"""Bias, in standard errors, that is let pass: 95% intervals by t with 7 degrees of freedom then have 94.4%."""
CHANCE: Final = 0.01  # Probability that noise alone marks any coefficient
WANDER, SYMMETRIC = 0.03, 0.5
"""Largest spread of iterates, relative to the range over which the loss is quadratic; the second of regressions."""
KINKED: Final = 0.03  # Largest spread of iterates, internal units, for losses whose kink is not symmetric

PROTECTS: Final = (
    "one record, a row with all its values; neighbours replace one record, so the number of records is public; who has "
    "several rows is protected less"
)


class Release(NamedTuple):
    """Release of a fit, internal units: private."""

    lanes: Array  # Averages, shape (lanes, p)
    curvature: Array  # Mean curvature of all records with noise, shape (p, p)


def symmetric_noise(sd: float, normals: Array, p: int) -> Array:
    """Symmetric matrix whose coordinates, in the Frobenius inner product, have this sd, of p (p + 1) / 2 `normals`."""
    out, places = np.zeros((p, p)), np.tril_indices(p, -1)
    out[places] = sd / math.sqrt(2.0) * normals[p:]
    return np.asarray(out + out.T + np.diag(sd * normals[:p]))


def left_of_start(plan: Plan, curvature: Array) -> Array:
    """Share of the start that a lane's average still holds along directions of such `curvature`, internal units.

    Mean over the averaged iterates t of (1 − ηλ)^(t − t₀), 1 before t₀ = 1/(η sup|φ'|), by when a constant comes from 0
    to the end of the response's range at the largest gradient: far from the model a loss may have no curvature.
    """
    size = min(plan.sizes)
    wait, far = plan.wait(size), math.ceil(1.0 / (plan.step * plan.constants.slope))
    kept = plan.steps(size) - wait
    stuck, before = min(max(far - wait, 0), kept), max(wait - far, 0)
    keep = np.clip(1.0 - plan.step * curvature, 0.0, 1.0 - 1e-9)
    return np.asarray((stuck + keep ** (before + 1) * (1.0 - keep ** (kept - stuck)) / (1.0 - keep)) / kept)


def notes(released: Release, plan: Plan, loss: Loss, matrix: Array, names: Sequence[str]) -> list[Diagnostic]:
    """Notes on coefficients that depend on directions along which the descent has not converged, or may not have.

    `matrix`, shape (p, p), leads from internal to the user's coefficients.

    A direction of noised curvature is hidden if noise alone may look so, below ``edge(p)`` of its sd. Along others the
    descent has not arrived if what is left of the start, f/(1 − f) times the average for a share f, is more than `BIAS`
    standard errors. A coefficient is marked if that comes to as much of its standard error, by loadings that are more
    than noise in the directions: to first order it moves a loading by τ²/2 Σ_k b_k²/(λ_k − λ)², over known directions k
    with loadings b. Standard errors are those between lanes. One lane's are those of its noise and of sampling if
    scores are as large as they can be, and all records have the steepest curvature.
    """
    lanes, (b, p) = released.lanes, released.lanes.shape
    values, vectors = np.linalg.eigh(released.curvature)
    rounding = max(p * np.finfo(np.float64).eps * float(np.abs(values).max()), 1e-300)  # all there is without privacy
    floor = max(edge(p) * plan.curvature_sd, rounding)
    hidden, seen, size = values <= floor, np.maximum(values, floor), min(plan.sizes)
    noise = plan.noise_sd * np.ones(p)
    if plan.noisy:  # of mean gradients, averaged over the iterates that are kept
        noise /= plan.share * size * seen * math.sqrt(plan.steps(size) - plan.wait(size))
    alone = np.hypot(noise, plan.constants.slope / np.sqrt(loss.steepest * seen * size))

    def error(rows: Array) -> Array:
        """Standard errors of these combinations of coefficients, shape (m, p)."""
        if b == 1:
            return np.asarray(np.hypot.reduce((rows @ vectors) * alone, axis=1))
        return np.asarray((lanes @ rows.T).std(axis=0, ddof=1) / math.sqrt(b))

    share = np.minimum(left_of_start(plan, seen), 1.0 - 1e-9)
    off = share / (1.0 - share) * np.abs(lanes.mean(axis=0) @ vectors)
    slow = ~hidden & (off > BIAS * error(vectors.T))
    known, said, sure, loading = ~(hidden | slow), [], -float(ndtri(CHANCE / (2.0 * p * p))), matrix @ vectors
    for part, code in ((hidden, "unidentified"), (slow, "moving.descent")):
        gaps = values[known][:, None] - values[part]
        turned = plan.curvature_sd / math.sqrt(2.0) * np.sqrt(loading[:, known] ** 2 @ gaps**-2.0)
        least = np.maximum(sure * turned, 1e-9 * np.linalg.norm(loading, axis=1, keepdims=True))  # rounding
        length = np.where(np.abs(loading[:, part]) > least, np.abs(loading[:, part]), 0.0)
        much = length.any(axis=1) if code == "unidentified" else length @ off[part] > BIAS * error(matrix)
        if rows := np.flatnonzero(much).tolist():
            said.append(note(code, rows, columns=", ".join(names[j] for j in rows)))
    return said + wandering(plan, loss, p)


def wandering(plan: Plan, loss: Loss, p: int) -> list[Diagnostic]:
    """Say why intervals between the lanes of a plan should not be relied on, from public numbers.

    Curvature that falls off over the range in which noisy iterates wander pushes asymmetric losses outwards, in all
    lanes alike. The limits are where coverage fell below its level in simulations (benchmarks/central.py, coverage).
    The least curvature is a guess by `FLAT`.
    """
    smooth, limit = loss.alpha == 1.0, WANDER if loss.code in {LOGISTIC, SMOOTHED_HINGE} else SYMMETRIC
    flat = (plan.constants.holder if smooth else 1.0) / (FLAT * p)
    sd = plan.noise_sd / (plan.share * min(plan.sizes)) * math.sqrt(plan.step / (2.0 * flat))  # the stationary one
    lopsided = loss.code == Q_HINGE or (loss.code == PINBALL and loss.a != 0.5)
    times = sd * loss.holder / loss.slope / limit if smooth else sd / KINKED if lopsided else 0.0
    few = note("few.wandering", needed=float(f"{times * sum(plan.sizes):.2g}"), times=times)
    return [few] if times > 1.0 and len(plan.sizes) > 1 and plan.noisy else []


@all_known_arguments
class CentralResults(PrivateResults):
    """Results of a published descent. Holds the release and the public schema; never a row."""

    _kind = "central results"

    @property
    def params_last(self) -> pd.Series | pd.DataFrame:
        """Refuse: the last iterate is not released."""
        raise InferenceError("a curator's descent releases the average only, and no last iterate; see params.")

    def plot_trajectory(self, *args: Any, **options: Any) -> Any:
        """Refuse: estimates on the way are not released."""
        raise InferenceError("a descent releases one estimate, at its end, and no path; plot_coef() draws it.")

    def _measured_by(self) -> str:
        return ""


def estimate_of(lanes: Array, why: Sequence[Diagnostic] = ()) -> Estimate:
    """Precision of the mean of released `lanes`, user's units, shape (B, p), and `why` not to rely on it."""
    b, p = lanes.shape
    if b == 1:
        return Estimate("between_lanes", np.full((p, p), np.nan), StudentT(1), (note("lane"), *why))
    return Estimate("between_lanes", np.atleast_2d(np.cov(lanes.T)) / b, StudentT(b - 1), tuple(why))


def payload(spec: ModelSpec, plan: Plan, loss: Loss, released: Release, stated: PrivacyStatement, n: int) -> ResultData:
    """Content of results: the release, public numbers, the statement."""
    outside = np.array([spec.units.params_outside(w) for w in released.lanes])
    names, lanes = spec.coefficients, len(plan.sizes)
    params, one = outside.mean(axis=0), np.array([n], dtype=np.int64)
    estimate = estimate_of(outside, notes(released, plan, loss, spec.units.matrix, names))
    size, mean = plan.sizes[0], "all iterates" if plan.average == 1 else f"the last {100 * plan.average:g}%"
    over = {
        "full": "all records", "poisson": f"a Poisson sample of {plan.share * size:.4g} expected",
        "permuted": "one record, permuted", "sampled": "one record, drawn with replacement",
    }[plan.order]  # fmt: skip
    steps = f"{plan.steps(size):,} steps of {plan.step:.4g} (internal units), each over {over}; average of {mean}"
    title = {
        "Dep. Variable": spec.design.endog_name,
        "Family": loss.words,
        "Formula": spec.formula,
        "No. Observations": f"{n:,}",
        "Trust": "trusted curator",
        "Tuning": f"published: {steps}",
        "Domain": "all of R^p" if plan.radius is None else f"ball of radius {plan.radius:g} (internal units)",
        "Inference": "none (one group)" if lanes == 1 else f"between {lanes} groups of disjoint records",
        "Estimand": spec.family.estimand,
    }
    return ResultData(
        design=spec.design, family=spec.family, title=tuple(title.items()), names=names, params=params, last=params,
        estimates=(estimate,), nobs=n, senders=n, updates=sum(map(plan.steps, plan.sizes)), trail_n=one,
        trail_senders=one, trail_params=params[None, :], trail_variances=estimate.variances[None, :],
        statement=replace(stated, notes=(*stated.notes, *estimate.notes)),
    )  # fmt: skip


def make_statement(spec: ModelSpec, plan: Plan, loss: Loss, *, n: int, seeded: bool) -> PrivacyStatement:
    """State what a plan's release protects; its number in the ledger is filled in when it is made."""
    private, c, lanes = spec.budget.private, plan.constants, len(plan.sizes)
    rule = "2GηK" if c.alpha == 1.0 else "c η^(1/(1−α)) √T + 2GηK"
    of = "the average" if lanes == 1 else "each group's average"
    over, each = {
        "full": ("the sum over all records, the steps compose to mu", "each sum"),
        "poisson": ("the sum over each Poisson sample, accounted by privacy loss distributions", "each sum"),
        "permuted": (f"each coordinate of {of}", f"passes K = {plan.epochs}"),
        "sampled": (f"each coordinate of {of}", "draws K ~ Bin(T, 1/n), of which the mean is shown"),
    }[plan.order]
    bound = f"Δ(K) = {rule} = {plan.move:.4g} (internal units), {each}; alpha = {c.alpha:.4g}, L = {c.holder:.4g}"
    if plan.noisy:
        bound = f"2G = {2 * plan.move:.4g} for {each} (internal units); one record's gradient ‖∂f‖ ≤ G"
    steepest = loss.steepest * spec.units.reach**2
    paid = (
        f"{100 * (plan.curvature_mu / spec.budget.mu) ** 2:.2g}% of mu² for one matrix, the mean curvature of all "
        f"records: noise sd {plan.curvature_sd:.4g}; one record's ‖a x xᵀ‖ ≤ {steepest:.4g} (internal units)"
    )
    out = opening_notes(spec.budget, seeded=seeded, carries="the release carries no noise")
    out += [note("split", lanes=lanes)] * (private and lanes > 1) + [note("rounding.release")] * private
    return PrivacyStatement(
        setting="curator", budget=spec.budget, trust="curator",
        mechanism=f"Gaussian {'gradient' if plan.noisy else 'output'} perturbation", noise_sd=plan.noise_sd,
        noise=f"noise sd {plan.noise_sd:.4g} on {over}", protects=PROTECTS, people=n, bound=c.gradient, weights=bound,
        curvature=paid if private else "of all records", release=ledger.Release(0, spec.budget.mu),
        declared=spec.declared("count for nothing"), notes=tuple(out), seeded=seeded and private,
        gaussian=plan.gaussian, right=(1.0 + plan.delta(0.0)) / 2.0 if private else 1.0,
        certain_mu=plan.certain_mu() if private and not plan.gaussian else None,
    )  # fmt: skip
