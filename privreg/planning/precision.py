"""How precise an efficient fit of many people is, from what is assumed of them: A⁻¹ (S + noise) A⁻¹ a person.

A is the mean curvature of a weighted unit score, S its mean square; both in whitened coordinates, as the lanes have
them. Collector-side mathematics: it reads assumed rows, never anybody's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from privreg.collector.curvature import bring_in, is_correlated, scaled, without_constant
from privreg.collector.diagonal import is_wide
from privreg.collector.factors import certain, rarer, shrunk, unknown, unsure, update
from privreg.collector.moments import Layout, learn, start_even
from privreg.errors import OptionError
from privreg.families.constants import normal_expectile
from privreg.families.scores import unit
from privreg.protocol import codes
from privreg.simulation.staged.schedule import MOMENT_ROUNDS, kappa_of
from privreg.simulation.staged.start import order_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privreg.collector.factors import Cells
    from privreg.families.constants import ChainRules
    from privreg.formula.spec import ModelSpec
    from privreg.simulation.settings import Settings
    from privreg.simulation.staged.schedule import Reports

    Array = NDArray[np.float64]

__all__ = ["PerPerson", "per_person", "taking_part"]

POINTS: Final = 1 << 14
"""Of a normal law, for expectiles."""

ROUNDS: Final = len(MOMENT_ROUNDS) + 1

TOLD: Final = 1 << 13
"""Reports by which the noise of mechanisms that depend on them is averaged."""


class Levels(NamedTuple):
    """What is to be learned of factors; c levels in all."""

    shares: Array  # shape (c,)
    # Variance of what one report tells of them: per variance of its noise, and by who is asked; shape (c,)
    noise: Array
    drawn: Array
    numbers: int  # In a report on moments


class Learned(NamedTuple):
    """What reports on moments lead to; `held`, `correlated`, `levels` and `shares` as of a `PerPerson`."""

    rows: Array  # Row map; shape (p, p)
    shares: Array
    held: bool = False
    correlated: bool = False
    levels: Levels | None = None


class PerPerson(NamedTuple):
    """Precision of one person's report to a lane."""

    covariance: Array  # Of √n times the error of the coefficients, user's units; shape (b p, b p)
    held: bool  # Whether the covariates are so correlated that a further round of moments is held
    correlated: bool  # Whether they are, were it not for levels of one factor
    levels: Levels | None
    variance_inflation: float  # How much more people the stages before the lanes take, as effects are strong
    # Of a column that takes two values, the share of people with the rarer one; NaN for others; shape (p,)
    shares: Array


def per_person(spec: ModelSpec, settings: Settings, x: Array, params: Array, scale: float) -> PerPerson:
    """Precision for people with these rows of the design.

    Parameters
    ----------
    spec : ModelSpec
    settings : Settings
        Of an efficient fit.
    x : ndarray, shape (m, p)
        User's units.
    params : ndarray, shape (b p,)
        The truth, user's units.
    scale : float
        Sd of the residuals, the response's units.

    Returns
    -------
    PerPerson

    Raises
    ------
    OptionError
        If the family has no model of the response.
    LinAlgError
        If the rows don't determine the coefficients.

    References
    ----------
    XSJKH (arXiv 2505.08227), Theorem 1, with the noise variance (2 B0/μ)².
    """
    efficient, units = settings.efficient, spec.units
    assert efficient is not None
    rules, reports = efficient.rules, efficient.reports
    inside = units.probe_inside(x)
    p = inside.shape[1]
    blocks = reports.blocks
    constant = units.constant_column(spec.design.probe)
    theta = np.concatenate([units.params_inside(block) for block in params.reshape(blocks, p)])
    eta = inside @ theta.reshape(blocks, p).T
    scale_inside = scale / units.y_scale if spec.family.of_residuals or spec.family.code == codes.SQUARED else 1.0
    corner = efficient.corner if spec.family.cornered and not rules.track else rules.ratio * scale_inside
    label = reports.label
    order, factors = order_of(spec, factors=not label and not is_wide(p, label=False))
    gaps = units.gaps(spec.design.probe)
    x_, fixed = np.ascontiguousarray(inside[:, order]), constant is not None
    if np.linalg.matrix_rank(x_) < p:
        raise np.linalg.LinAlgError
    if label or is_wide(p, label=False):
        told = Learned(_exact(x_, fixed, scales=not label), np.full(p, np.nan))
    else:
        rng = np.random.Generator(np.random.PCG64(len(x_)))
        y = eta[:, 0] + scale_inside * rng.standard_normal(len(x_)) if spec.family.scaled else None
        told = _learned(x_, y, gaps[order], fixed, factors)
        told = told if efficient.whitened else told._replace(rows=scaled(told.rows, fixed))
    z = x_ @ told.rows.T
    covariance, bread = _sandwich(settings, z, eta, corner, scale_inside)
    variance_inflation = 1.0
    if rules.from_predictor:
        _, flat = _sandwich(settings, z, 0.0 * eta, corner, scale_inside)
        variance_inflation = max(
            float(np.sum(np.linalg.inv(bread) ** 2) / np.sum(np.linalg.inv(flat) ** 2)) / rules.ease**2, 1.0
        )
    back = np.kron(np.eye(blocks), units.matrix[:, order] @ told.rows.T)
    return PerPerson(
        back @ covariance @ back.T, told.held, told.correlated, told.levels, variance_inflation, told.shares
    )


def _exact(x: Array, constant: bool, *, scales: bool) -> Array:
    """Row map from moments: whitening, or scales (and middles, beside a constant) alone."""
    if not scales:
        return np.asarray(np.linalg.inv(np.linalg.cholesky(x.T @ x / len(x))))
    first, rows = int(constant), np.eye(x.shape[1])
    middle = x.mean(axis=0) if constant else np.zeros(x.shape[1])
    size = np.sqrt(np.mean((x - middle) ** 2, axis=0))
    rows[first:, first:] = np.diag(1.0 / size[first:])
    if constant:
        rows[1:, 0] = -middle[1:] / size[1:]
    return rows


def _learned(x: Array, y: Array | None, gaps: Array, constant: bool, factors: Sequence[Cells]) -> Learned:
    """Row map that reports on directions lead to, were there no noise in them, and what is found out beside it.

    It makes directions even, not moments: that is another map where covariates are not elliptical, as levels aren't.
    """
    d = x.shape[1]
    v = x if constant else np.column_stack([np.ones(len(x)), x])
    v = v if y is None else np.column_stack([v, y])
    extra = int(not constant)
    told_of = [g._replace(columns=g.columns + extra) for g in factors]
    scatter = start_even(np.eye(v.shape[1]), told_of)
    at = np.tril_indices(v.shape[1])
    twice = np.where(at[0] == at[1], 1.0, math.sqrt(2.0))
    for _ in range(ROUNDS):
        z = v @ scatter.rows.T
        u = z / np.linalg.norm(z, axis=1, keepdims=True)
        scatter = learn(scatter, twice * (u.T @ u)[at], float(len(u)), 0.0, Layout(True, y is not None), told_of)
    own = scatter.rows[: d + extra, : d + extra]
    held = is_correlated(own, constant=True)
    correlated = held and is_correlated(own, constant=True, groups=[g.columns for g in told_of])
    levels = None
    if told_of:
        space = certain(told_of, scatter.rows)
        one, none = (
            update(
                told_of, unknown(told_of), space, space.project(twice * (u.T @ u)[at] / len(u)), 1.0, sd, scatter.rows
            )
            for sd in (1.0, 0.0)
        )
        held_by = np.concatenate(shrunk(told_of, scatter.shares))
        levels = Levels(held_by, one.variance - none.variance, none.variance, len(twice))
    rows = scatter.rows if constant else without_constant(scatter.rows, d)
    rows, shares = bring_in(rows, gaps.tolist(), constant)
    known = rarer(factors, shrunk(factors, scatter.shares), d)
    return Learned(rows[:d, :d], np.where(np.isnan(known), shares, known), held, correlated, levels)


def _sandwich(settings: Settings, z: Array, eta: Array, corner: float, scale: float) -> tuple[Array, Array]:
    """Covariance of √n times the error, and A, in the coordinates of `z`; `eta` has shape (m, blocks)."""
    efficient = settings.efficient
    assert efficient is not None
    rules, reports = efficient.rules, efficient.reports
    m, d = z.shape
    length = np.sqrt(np.einsum("ij,ij->i", z, z))
    if reports.label:
        weight = np.minimum(1.0, 8.0 * math.sqrt(d) / length)
    else:
        weight = reports.reach / length
    u = z * weight[:, None]
    if rules.shape.family == codes.MULTINOMIAL:
        curvature, square = _multinomial(eta)
        bread = np.einsum("m,mjk,ma,mb->jakb", weight, curvature, z, z, optimize=True)
        meat = np.einsum("mjk,ma,mb->jakb", square, u, u, optimize=True)
        size = d * eta.shape[1]
        bread, meat = bread.reshape(size, size) / m, meat.reshape(size, size) / m
        noise = reports.mechanism.sd(reports.radius(0.0), size) ** 2 * np.eye(size)
    else:
        slope, square = _scalar(rules, eta[:, 0], corner, scale)
        bread = (z * (weight * slope)[:, None]).T @ z / m
        meat = (u * square[:, None]).T @ u / m
        if reports.label:  # one number is randomised, then multiplied by public covariates
            added = _of_one_number(
                reports,
                unit(rules.shape, corner, eta[:, 0], np.array([reports.y_low])),
                unit(rules.shape, corner, eta[:, 0], np.array([reports.y_high])),
                square,
            )
            noise = (u * added[:, None]).T @ u / m
        else:
            told = u * np.sqrt(square)[:, None]
            noise = reports.mechanism.covariance(told[:TOLD], reports.radius(0.0))
    half = np.linalg.inv(bread)
    return np.asarray(half @ (meat + noise) @ half.T), bread


def _of_one_number(reports: Reports, one: Array, other: Array, square: Array) -> Array:
    """Mean noise variance of a score that is randomised alone, about the middle of its range."""
    half, middle = 0.5 * np.abs(one - other), 0.5 * (one + other)
    noise = (reports.mechanism.sd(1.0, 1) * half) ** 2
    # what is told at random is one of two numbers, whose squares are known: its scatter contains the score's own
    return noise if reports.mechanism.name in {"gaussian", "laplace"} else noise - square - middle**2


def _scalar(rules: ChainRules, eta: Array, corner: float, scale: float) -> tuple[Array, Array]:
    """Mean curvature and mean square of the unit score, given the predictor; both of shape (m,).

    Residuals are normal with sd `scale`.
    """
    a, b = rules.shape.a, rules.shape.b
    one = np.ones_like(eta)
    match rules.shape.family:
        case codes.HUBER | codes.EXPECTILE:
            tau, top = (0.5, 0.5) if rules.shape.family == codes.HUBER else (a, b)
            centre = 0.0 if tau == 0.5 else normal_expectile(tau, corner / scale)
            r = scale * (ndtri((np.arange(POINTS) + 0.5) / POINTS) - centre)
            side = np.where(r >= 0.0, tau, 1.0 - tau) / top
            unit = side * np.clip(r / corner, -1.0, 1.0)
            # what lies within the corner by its probability: a grid would see that in steps
            low, middle, high = (float(ndtr(v)) for v in (centre - corner / scale, centre, centre + corner / scale))
            inside = (tau * (high - middle) + (1.0 - tau) * (middle - low)) / top
            return inside / corner * one, float(np.mean(unit**2)) * one
        case codes.QUANTILE:
            density = math.exp(-0.5 * float(ndtri(a)) ** 2) / math.sqrt(2.0 * math.pi) / scale
            return density / b * one, a * (1.0 - a) / b**2 * one
        case codes.SQUARED:
            return one / (b - a), (scale / (b - a)) ** 2 * one
        case codes.LOGISTIC | codes.BALANCED:
            share = 1.0 / (1.0 + np.exp(-eta))
            widest = np.maximum(share, 1.0 - share) if rules.shape.family == codes.BALANCED else one
            return share * (1.0 - share) / widest, share * (1.0 - share) / widest**2
        case codes.POISSON:
            mean = np.exp(eta)
            widest = np.maximum(mean, a - mean)
            return mean / widest, mean / widest**2
    raise OptionError(
        "a plan needs a model of the response, and hinge losses and scores of your own have none; plan for Logistic() "
        "or Huber(), or simulate people and fit them."
    )


def _multinomial(eta: Array) -> tuple[Array, Array]:
    """Mean curvature and mean square of the balanced score, shape (m, K − 1, K − 1)."""
    full = np.column_stack([np.zeros(len(eta)), eta])
    share = np.exp(full - full.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    ends = np.eye(full.shape[1])[:, 1:]
    widest = np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1)
    pi = share[:, 1:]
    law = np.einsum("mj,jk->mjk", pi, np.eye(pi.shape[1])) - pi[:, :, None] * pi[:, None, :]
    return law / widest[:, None, None], law / widest[:, None, None] ** 2


def taking_part(settings: Settings, n: int, d: int, each: PerPerson) -> tuple[float, int, int]:
    """People whose reports the estimate is made of, in units of a lane's; how many are in lanes; groups.

    Parameters
    ----------
    settings : Settings
        Of a fit of `n` people.
    n : int
    d : int
        Covariates.
    each : PerPerson

    Returns
    -------
    (float, int, int)
    """
    efficient = settings.efficient
    assert efficient is not None
    schedule, rules, reports = efficient.schedule, efficient.rules, efficient.reports
    before, common, held = 0.0, 0.0, each.held or _unsure(settings, each)
    for stage in schedule.stages:
        people = float(stage.people)
        if stage.kind in {"lanes", "measures"} or (stage.optional and not held):
            continue
        if stage.kind in {"search", "pilot", "common"} and each.variance_inflation > 1.0:
            people = max(min(people * each.variance_inflation, stage.most), people)
        before += people
        common = people if stage.kind == "common" else common
    lanes = max(int(n - before), 0)
    precision = reports.variance(d, 0.0) / reports.variance(d, kappa_of("common", rules))
    return common * precision + lanes, lanes, schedule.lanes + 1


def _unsure(settings: Settings, each: PerPerson) -> bool:
    """Whether a further round of moments is held because a level is rare."""
    efficient = settings.efficient
    assert efficient is not None
    if each.levels is None:
        return False
    stages, mechanism = efficient.schedule.stages, efficient.reports.mechanism
    people = sum(stage.people for stage in stages if stage.kind == "moments" and not stage.optional)
    sd = mechanism.sd(mechanism.moment_radius(), each.levels.numbers)
    return unsure(each.levels.shares, (each.levels.noise * sd**2 + each.levels.drawn) / people)
