"""What a fit by rounds knows before the first record, all of it public."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from privreg.collector import diagonal, many, thresholds
from privreg.collector.moments import Layout
from privreg.collector.plan import Plan
from privreg.protocol import codes
from privreg.protocol.plans import LanePlan
from privreg.protocol.schedule import schedule
from privreg.simulation.staged.start import order_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.collector.diagonal import Wide
    from privreg.collector.many import Box
    from privreg.formula.spec import ModelSpec
    from privreg.protocol.rounds import State
    from privreg.simulation.settings import Settings

    Array = NDArray[np.float64]

__all__ = ["device_plan", "plan_of"]


def plan_of(spec: ModelSpec, settings: Settings, guess: Array | None) -> tuple[Plan, NDArray[np.intp], Array]:
    """What a fit knows before its first record.

    Parameters
    ----------
    spec : ModelSpec
    settings : Settings
    guess : ndarray, shape (b p,), or None
        The user's, internal units, in the design's order of columns.

    Returns
    -------
    Plan
    ndarray of int, shape (p,)
        The order of columns inside: the constant, if the design has one, goes first.
    ndarray, shape (b p, b p)
        Linear part of the map from internal to the user's coefficients, columns in that order.

    """
    units, family, efficient = spec.units, spec.family, settings.efficient
    assert efficient is not None
    reports, rules, probe = efficient.reports, efficient.rules, spec.design.probe
    p = len(spec.design.names)
    is_many = diagonal.is_wide(p, label=reports.label)
    order, factors = order_of(spec, factors=not is_many and not reports.label)
    constant = units.constant_column(probe) is not None
    columns = np.flatnonzero(units.unscaled[order]).tolist()
    response = units.y_unscaled or ((reports.label or is_many) and family.of_residuals)
    unscaled = (*columns, p) if response else tuple(columns)
    noise = reports.mechanism.sd(reports.radius(0.0), reports.size(p, 0.0)) ** 2
    own = reports.label or is_many or not family.scaled  # whether moments are of covariates alone
    size = p + int(not constant) + int(not own)
    numbers = size * (size + 1) // 2
    gaps = units.gaps(probe)[order]
    wide, box = _wide(spec, order, gaps, unscaled, constant) if is_many else (None, None)
    plan = Plan(
        rounds=schedule(
            d=reports.blocks * p,
            noise=noise,
            moment_noise=0.0 if is_many else reports.mechanism.sd(reports.mechanism.moment_radius(), numbers) ** 2,
            rows=efficient.schedule.rows,
            moving=rules.moving,
            declared=spec.scale_declared,
            label=reports.label,
            numbers=p > int(constant) or not own,
            wide=None if wide is None else len(wide.columns),
            located=thresholds.PEOPLE * len(unscaled) * max(noise / 4.0, 0.25),
            measured=efficient.measures,
        ),
        rules=rules,
        layout=Layout(constant, not own),
        mechanism=reports.mechanism,
        d=p,
        blocks=reports.blocks,
        label=reports.label,
        y_low=reports.y_low,
        y_high=reports.y_high,
        unscaled=unscaled,
        theta=None if guess is None else guess.reshape(reports.blocks, -1)[:, order].reshape(-1),
        corner=efficient.corner,
        gaps=tuple(gaps.tolist()),
        whitened=efficient.whitened,
        cells=factors,
        nonresponse=spec.nonresponse,
        rows=efficient.schedule.rows,
        function=spec.scored.tame,
        gauge=efficient.gauge,
        told=efficient.told,
        wide=wide,
        box=box,
    )
    linear = np.asarray(np.kron(np.eye(reports.blocks), units.matrix[:, order]))
    return plan, order, linear


def _wide(
    spec: ModelSpec, order: NDArray[np.intp], gaps: Array, unscaled: tuple[int, ...], constant: bool
) -> tuple[Wide, Box]:
    """What is public about the columns of a design of many coefficients."""
    inside = spec.units.probe_inside(spec.design.probe)[:, order]
    wide = diagonal.public(inside, gaps, unscaled, constant)
    stretch = diagonal.start(wide, np.array([np.ones(len(order)), np.zeros(len(order))]))[0]
    made: dict[tuple[str, ...], list[int]] = {}
    for k, j in enumerate(order.tolist()):
        if gaps[k] > 0.0:
            made.setdefault(tuple(spec.design.sources[j]), []).append(k)
    groups = [np.array(g, dtype=np.int64) for g in made.values()]
    return wide, many.public(inside, wide, groups, stretch, constant=constant)


def device_plan(plan: Plan, state: State) -> LanePlan:
    """What a device is told of a round of scores beside the state's coefficients, corner and row map."""
    return LanePlan(
        shape=plan.rules.shape,
        blocks=plan.blocks,
        weights=codes.LEVERAGE if plan.label else codes.UNIT,
        batch=1,
        lanes=1,
        reach=math.inf if plan.label else 1.0,
        kappa=plan.kappa(state.role),
        radius=plan.radius(state.role),
        channel=plan.mechanism.channel(plan.numbers(state.role)),
        label=int(plan.label),
        y_low=(plan.y_low - state.y_centre) / state.y_scale,
        y_high=(plan.y_high - state.y_centre) / state.y_scale,
        target=plan.rules.target,
        widest=math.inf,
        late=0,
        path=0,
        gram=0,
        worth=1.0,
        precision=1.0,
    )
