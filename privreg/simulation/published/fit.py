"""The published algorithm: its single chain, from settings to what results hold, and the curator's one release."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.collector.covariates import diagonal
from privreg.collector.published import sgd
from privreg.errors import InferenceError
from privreg.inference.sandwich import central_sandwich
from privreg.privacy.mechanisms import released
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol.codes import DIAGONAL, FULL, HISTORY, NONE, PEOPLE
from privreg.results.equation import Equation
from privreg.simulation.published.intervals import of_chain
from privreg.simulation.published.sgd import AveragedSGD, make_plan
from privreg.simulation.published.sgd_device import Device
from privreg.simulation.reporting.outcome import FitOutcome, outside_of, refuse_overflow
from privreg.simulation.reporting.statements import curator_sds

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.published.sgd import ChainSummary
    from privreg.formula.spec import ModelSpec
    from privreg.formula.units import Units
    from privreg.simulation.settings import Settings


def begin(spec: ModelSpec, settings: Settings, key: bytes | None, start: Array | None) -> AveragedSGD:
    """Begin the chain.

    Parameters
    ----------
    spec : ModelSpec
    settings : Settings
    key : bytes or None
        Of the devices' noise; None without privacy.
    start : ndarray, shape (b p,), or None
        The user's public first guess, internal units.
    """
    s, family, p = settings, spec.family, len(spec.design.names)
    to_user = np.asarray(np.kron(np.eye(s.blocks), spec.units.matrix))
    device = Device(s.score, s.weights, s.mechanism, s.weights.reach, s.curvature_bound, family.unit, s.alone)
    mode = NONE
    if any(m.scaling for m in s.methods):
        mode = DIAGONAL if s.blocks == 1 and diagonal.is_diagonal(to_user) else FULL
        if any(m.full for m in s.methods):
            mode = HISTORY if len(to_user) > diagonal.WIDE else FULL
    plan = make_plan(
        device,
        p,
        s.blocks,
        batch=s.batch,
        scaling_mode=mode,
        outer=2 if any(m.path for m in s.methods) else int(any(m.outer for m in s.methods)),
        curvature_share=s.curvature_share,
        central=any(m.central for m in s.methods),
    )
    theta = np.zeros(p * s.blocks) if start is None else start
    anytime = any(m.name == "anytime" for m in s.methods)
    widths = s.mechanism.width(p * s.blocks), s.mechanism.width(p * (p + 1) // 2)
    state = sgd.init(theta, plan, to_user[0])
    run = AveragedSGD(plan, s.steps, state, to_user, key, widths, s.cut, anytime=anytime)
    if plan.central and key is not None:
        run.central_key = derived_key(key, "central")
    return run


def report_of_chain(run: AveragedSGD, settings: Settings, units: Units) -> FitOutcome:
    """Outcome of the published algorithm's single chain.

    Raises
    ------
    InferenceError
        If there are too few people, or the steps were so large that the estimates overflowed.
    """
    chain = sgd.final(run.state, run.plan)
    order = np.arange(len(units.centre))

    def outside(theta: Array) -> Array:
        return outside_of(theta, order, units)

    def covariance(cov: Array) -> Array:
        return np.asarray(run.to_user @ cov @ run.to_user.T)

    p = run.state.theta.shape[0]
    refuse_overflow(chain.mean, chain.last)
    if chain.updates <= p:
        raise InferenceError(
            f"{chain.people} people in {chain.updates} updates can't determine {p} coefficients; "
            f"more than {p} updates are needed."
        )
    estimates = of_chain(run, chain, settings, partial(_release_central, run, settings))
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
        equation=_equation(settings, chain.mean, settings.blocks),
    )


def _equation(settings: Settings, theta: Array, blocks: int) -> Equation:
    """What the single chain solves: no row map, corner and offsets of its own."""
    p, shape = len(theta) // blocks, settings.score.shape
    return Equation(
        shape=(shape.family, shape.a, shape.b),
        weighing=settings.weights.name,
        rows=np.eye(p),
        order=np.arange(p),
        constant=False,
        y_centre=0.0,
        y_scale=1.0,
        weights=np.ones(1),
        corners=np.array([settings.score.c]),
        offsets=np.zeros((1, len(theta))),
        bend=np.zeros(len(theta)),
        theta=theta,
    )


def _release_central(run: AveragedSGD, settings: Settings, chain: ChainSummary) -> Any:
    """Randomise the raw sums of curvature and scores, once, as a trusted curator; then forget them."""
    n = chain.people
    summed = int(run.state.counts[PEOPLE])  # those of an unfinished batch are in the sums too
    p = chain.mean.shape[0]
    size = p * (p + 1) // 2
    rows, cols = np.triu_indices(p)
    noise = np.zeros((2, size))
    if run.central_key is not None:
        noise = NoiseStream(run.central_key, size).peek()[:2].copy()
    elif settings.mechanism.budget.private:
        raise InferenceError("the central plug-in was already released once; fit again for another release.")
    run.central_key = None
    sds = curator_sds(settings.mechanism, run.plan)
    told = released(np.array([run.raw_curvature, run.raw_outer]), sds, noise) / summed
    run.raw_curvature[:], run.raw_outer[:] = 0.0, 0.0
    out = np.zeros((2, p, p))
    out[:, rows, cols] = told
    out += np.triu(out, 1).transpose(0, 2, 1)
    return central_sandwich(out[0], out[1], n, run.plan.channel.scale * run.plan.radius)
