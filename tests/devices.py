"""One person's report in a fit by rounds, readable: what many devices at once are tried against."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from privreg.audit.reports import Unrandomised
from privreg.protocol import codes
from privreg.protocol.codes import LEVER2
from privreg.published.chain.kernels import normal_cdf, normal_quantile
from privreg_field.device.report import score

if TYPE_CHECKING:
    from privreg.base.arrays import Array
    from privreg.privacy.mechanisms import Mechanism
    from privreg.protocol.plans import Channel, ScorePlan


Function = Callable[[float, float], float] | None


def inner(a: Array, b: Array) -> float:
    """Inner product, summed in order."""
    out = 0.0
    for j in range(len(a)):
        out += float(a[j]) * float(b[j])
    return out


def randomised_one(channel: Channel, report: Array, radius: float, noise: Array) -> Array:
    """Randomise one report in the ball of `radius` about 0: readable, and what compiled loops do bit for bit.

    Parameters
    ----------
    channel : Channel
        The mechanism's numbers.
    report : ndarray, shape (size,)
    radius : float
        For additive noise half the sensitivity.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (size,)
        The only thing that leaves the device.

    References
    ----------
    See `mechanisms.Mechanism`.
    """
    size, scale = len(report), channel.scale * radius
    if channel.kind == codes.GAUSSIAN:
        return np.array([float(v) + scale * float(e) for v, e in zip(report, noise, strict=False)])
    if channel.kind == codes.LAPLACE:
        three = np.reshape(noise[: 3 * size], (size, 3))
        return np.array(
            [float(v) + scale * (math.sqrt(a * a + b * b) * e) for v, (a, b, e) in zip(report, three, strict=True)]
        )
    if channel.kind == codes.RESPONSE:
        share = min(max(float(report[0]) / radius, -1.0), 1.0) if radius > 0.0 else 0.0
        up = normal_cdf.py_func(float(noise[0])) < 0.5 + 0.5 * share / channel.scale
        return np.array([scale if up else -scale])
    norm = math.sqrt(inner(report, report))
    tiny = not norm > 1e-140
    share = 0.0 if tiny else min(norm / radius, 1.0)
    chance = normal_cdf.py_func(float(noise[size]))
    sign, axis = 1.0 if chance < 0.5 + 0.5 * share else -1.0, 0
    if tiny:  # any axis, either way, so that what is sent has no direction
        axis, way = divmod(int(min(2.0 * size * chance, 2.0 * size - 1.0)), 2)
        sign = 1.0 - 2.0 * way
    unit = [float(j == axis) if tiny else float(v) / norm for j, v in enumerate(report)]
    along = inner(np.array(unit), noise[:size])
    uniform = normal_cdf.py_func(along)
    in_cap = normal_cdf.py_func(float(noise[size + 1])) < channel.accept
    drawn = (
        -normal_quantile.py_func(uniform * channel.above)
        if in_cap
        else normal_quantile.py_func(uniform * (1.0 - channel.above))
    )
    return np.array([scale * (float(noise[j]) + (sign * drawn - along) * unit[j]) for j in range(size)])


def threshold_report(mechanism: Mechanism, thresholds: Array, v: Array, noise: Array) -> Array:
    """One person's report, in a fit by rounds, on where each of m numbers lies whose scale nobody declared.

    Parameters
    ----------
    mechanism : Mechanism
    thresholds : ndarray, shape (m,)
        Public ones of the person's group.
    v : ndarray, shape (m,)
        The person's numbers; NaN for one who has nothing to tell.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (m,)
        1 for a number above its threshold, 0 for another, 1/2 for none, randomised about 1/2.
    """
    bits = [b - 0.5 for b in score.above(list(map(float, v)), list(map(float, thresholds)))]
    radius = mechanism.bits_radius(len(bits))
    return randomised_one(mechanism.channel(len(bits)), np.array(bits), radius, noise) + 0.5


def moment_report(mechanism: Mechanism, rows: Array, v: Array, noise: Array) -> Array:
    """One person's report on second moments.

    Parameters
    ----------
    mechanism : Mechanism
    rows : ndarray, shape (d, d)
        Current public row map, lower triangular.
    v : ndarray, shape (d,)
        The person's covariates, and the response where it has a scale to learn.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (d (d + 1) / 2,)
        Lower triangle of u uᵀ, u = z/‖z‖, z = `rows` v, off-diagonal entries times √2, randomised: u uᵀ is positive
        semidefinite of trace and Frobenius norm 1. Where v can't be used, noise only.
    """
    told = second_moments(rows, v)
    return randomised_one(mechanism.channel(len(told)), told, mechanism.curvature_radius(1.0), noise)


def round_report(
    plan: ScorePlan,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    noise: Array,
    offset: float = 0.0,
    function: Function = None,
    weight: float = 1.0,
) -> Array:
    """One person's report in a round of scores: the weighted unit score, and in a pilot a number that tells curvature.

    Parameters
    ----------
    plan : ScorePlan
        Family, bound, weight kappa of the number (0: none is sent), channel and radius.
    rows : ndarray, shape (d, d) or (2, d)
        Public row map, lower triangular; z = `rows` x. Or the scales and shifts of z_j = s_j x_j + t_j x_0.
    theta : ndarray, shape (b d,)
        The group's public coefficients, whitened coordinates, b the number of blocks.
    c : float
        Public threshold, internal units.
    x, y, offset
        The person's row, internal units; NaN for one who has nothing to tell.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.
    function : callable, optional
        Score over its bound of a user's own family.
    weight : float
        (μ_i/μ_max)² of a person with a smaller budget, whose report carries more noise.

    Returns
    -------
    ndarray, shape (b d,) or (b d + 1,)
        ψ z/‖z‖, abs ψ ≤ 1, and kappa times the number, randomised. With label privacy ψ alone is randomised, about the
        middle of its range over y at this predictor, and the public ω z multiplies it, ω = min(1, 8 √d/‖z‖).
    """
    told = scored(plan, rows, theta, c, x, y, offset, function)
    return told.finish(randomised_one(plan.channel, told.report, told.radius / math.sqrt(weight), noise))


HAVE_CURVATURE = frozenset({codes.HUBER, codes.LOGISTIC, codes.EXPECTILE, codes.SMOOTHED_HINGE, codes.SQUARED})
"""Families whose curvature one person's record tells, so that the published chain reports it."""


def curvature(score, eta, y):
    """∂ψ/∂η of the families in `HAVE_CURVATURE`, shape (n,) as `eta` and `y`."""
    shape = score.shape
    with np.errstate(over="ignore", invalid="ignore"):
        match shape.family:
            case codes.HUBER:
                return (np.abs(y - eta) <= score.c).astype(np.float64)
            case codes.LOGISTIC:
                e = np.exp(-np.abs(eta))
                return np.asarray(e / (1.0 + e) ** 2)
            case codes.EXPECTILE:
                r = y - eta
                return np.where(np.abs(r) <= score.c, np.where(r >= 0.0, shape.a, 1.0 - shape.a), 0.0)
            case codes.SMOOTHED_HINGE:
                slack = 1.0 - (2.0 * y - 1.0) * eta
                return np.where((slack > 0.0) & (slack < shape.a), 1.0 / shape.a, 0.0)
            case codes.SQUARED:
                return ((eta >= shape.a) & (eta <= shape.b)).astype(np.float64)
    raise ValueError("no curvature of one record")


# --- before noise, by the code of devices in the field --------------------------------------------------------


def second_moments(rows: Array, v: Array) -> Array:
    """What a report on second moments says before it is randomised: u uᵀ, u = z/‖z‖, z = `rows` v.

    The lower triangle, shape (d (d + 1)/2,), off-diagonal entries · √2: its norm is 1. Zeros where v can't be used.
    """
    return np.array(score.outer(score.direction(_whitened(rows, v))))


def scored(
    plan: ScorePlan,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    offset: float = 0.0,
    function: Function = None,
) -> Unrandomised:
    """What a report of scores says before it is randomised: ψ z/‖z‖, abs ψ ≤ 1, and in a pilot kappa times a number.

    z = `rows` x, or z_j = s_j x_j + t_j x_0 of two rows of scales and shifts; `theta` are the group's coefficients in
    the coordinates of z, `c` the public threshold. x and y are NaN for one who has nothing to say. With label privacy
    ψ alone is randomised, and the public ω z, ω = min(1, 8 √d/‖z‖), multiplies it.
    """
    z, at = _whitened(rows, x), [float(t) for t in theta]
    if plan.blocks > 1:
        return Unrandomised(np.array(score.classes(at, z, float(y))), plan.radius, np.zeros(len(at)))
    eta = score.dot(z, at) + float(offset)
    psi = _unit(plan, c, eta, y, function)
    beside = [plan.kappa * (_number(plan, c, eta, y, function) - 0.5)] if plan.kappa > 0.0 else []
    if plan.label:
        return _of_response(plan, z, psi, eta, c, beside, function)
    report = score.weighted(psi, z, 1.0 / plan.longest if plan.longest else None)
    centre = [0.0] * len(report) + [0.5 * plan.kappa] * len(beside)
    return Unrandomised(np.array(report + beside), plan.radius, np.array(centre))


def _whitened(rows: Array, x: Array) -> list[float]:
    return score.mapped(rows.tolist(), [float(v) for v in x], wide=len(rows) < len(x))


def _unit(plan: ScorePlan, c: float, eta: float, y: float, function: Function) -> float:
    shape = plan.shape
    if shape.family == codes.CUSTOM and function is not None:
        return score.clipped(function(eta, float(y)), -1.0, 1.0)
    return score.unit(shape.family, shape.a, shape.b, float(c), eta, float(y))


def _number(plan: ScorePlan, c: float, eta: float, y: float, function: Function) -> float:
    shape = plan.shape
    if shape.family != codes.CUSTOM:
        return score.number(shape.family, shape.a, shape.b, float(c), eta, float(y))
    if math.isnan(eta) or math.isnan(y):
        return 0.0
    rise = 0.5 * (_unit(plan, 1.0, eta + c, y, function) - _unit(plan, 1.0, eta - c, y, function))
    return min(rise, 1.0) if rise > 0.0 else 0.0


def _of_response(
    plan: ScorePlan, z: list[float], psi: float, eta: float, c: float, beside: list[float], function: Function
) -> Unrandomised:
    """Where only the response is private: ψ about the middle of its range, and public covariates that multiply it."""
    low, high = _unit(plan, c, eta, plan.y_high, function), _unit(plan, c, eta, plan.y_low, function)
    if plan.shape.family == codes.CUSTOM:  # one that is not a number there, at infinity: its bound is known
        low, high = -1.0 if math.isnan(low) else low, 1.0 if math.isnan(high) else high
    norm2, most = score.dot(z, z), LEVER2 * len(z)
    omega = math.sqrt(most / norm2) if norm2 > most else 1.0
    middle, half = 0.5 * (low + high), 0.5 * (high - low)
    # nothing to report: no score, as far as its range allows
    report = min(max(0.0 if math.isnan(psi) else psi, low), high) - middle
    radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
    if not (radius < math.inf and norm2 < math.inf):
        omega, middle, radius, report = 0.0, 0.0, 1.0, 0.0
    carried = np.array([omega * a for a in z]) if omega != 0.0 else np.zeros(len(z))
    centre = np.array([middle] + [0.5 * plan.kappa] * len(beside))
    return Unrandomised(np.array([report, *beside]), radius, centre, carried)
