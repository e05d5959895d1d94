"""One person's report in a fit by rounds, under any mechanism, readable: what many devices at once are tried against.

The reports before noise are those of `privreg.device.score`, of Gaussian mechanisms in the field; here they are
randomised by any mechanism from given normals, and private responses, which devices in the field don't have, are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.device import score
from privreg.privacy.channels import randomised_one
from privreg.protocol import codes
from privreg.protocol.codes import LEVER2

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from privreg.privacy.mechanisms import Mechanism
    from privreg.protocol.plans import ScorePlan

    Array = NDArray[np.float64]
    Function = Callable[[float, float], float] | None

__all__ = ["Told", "moment_report", "round_report", "scored", "second_moments", "threshold_report"]


class Told(NamedTuple):
    """A report before it is randomised: a point of the ball of `radius` about 0, and what is made of the answer."""

    report: Array  # shape (size,)
    radius: float
    centre: Array  # Public, added to the answer; shape (size,)
    carried: Array | None = None  # Public covariates that multiply its first number, where only a response is private

    def finish(self, answer: Array) -> Array:
        """What leaves the device, of randomised reports of shape (…, size)."""
        out = answer + self.centre
        if self.carried is None:
            return np.asarray(out)
        with np.errstate(over="ignore", invalid="ignore"):
            score = np.where(out[..., :1] * self.carried != 0.0, out[..., :1] * self.carried, 0.0)
        return np.concatenate([score, out[..., 1:]], axis=-1)


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
    return randomised_one(mechanism.channel(len(told)), told, mechanism.moment_radius(), noise)


def second_moments(rows: Array, v: Array) -> Array:
    """What a report on second moments says before it is randomised; see `moment_report`."""
    return np.array(score.outer(score.direction(_whitened(rows, v))))


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
        Public corner, internal units.
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


def scored(
    plan: ScorePlan,
    rows: Array,
    theta: Array,
    c: float,
    x: Array,
    y: float,
    offset: float = 0.0,
    function: Function = None,
) -> Told:
    """What a report of scores says before it is randomised; arguments as of `round_report`."""
    z, at = _whitened(rows, x), [float(t) for t in theta]
    if plan.blocks > 1:
        return Told(np.array(score.classes(at, z, float(y))), plan.radius, np.zeros(len(at)))
    eta = score.dot(z, at) + float(offset)
    psi = _unit(plan, c, eta, y, function)
    if plan.label:
        return _of_response(plan, z, psi, eta, c, y, function)
    report = score.weighted(psi, z)
    centre = np.zeros(len(report) + int(plan.kappa > 0.0))
    if plan.kappa > 0.0:
        report.append(plan.kappa * (_number(plan, c, eta, y, function) - 0.5))
        centre[-1] = 0.5 * plan.kappa
    return Told(np.array(report), plan.radius, centre)


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
    plan: ScorePlan, z: list[float], psi: float, eta: float, c: float, y: float, function: Function
) -> Told:
    """Where only the response is private: ψ about the middle of its range, and public covariates that multiply it."""
    low, high = _unit(plan, c, eta, plan.y_high, function), _unit(plan, c, eta, plan.y_low, function)
    if plan.shape.family == codes.CUSTOM:  # one that is not a number there, at infinity: its bound is known
        low, high = -1.0 if math.isnan(low) else low, 1.0 if math.isnan(high) else high
    norm2, most = score.dot(z, z), LEVER2 * len(z)
    omega = math.sqrt(most / norm2) if norm2 > most else 1.0
    middle = 0.5 * (low + high)
    # nothing to tell: no score, as far as its range allows
    report = [min(max(0.0 if math.isnan(psi) else psi, low), high) - middle]
    half = 0.5 * (high - low)
    radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
    if not (radius < math.inf and norm2 < math.inf):
        omega, middle, radius, report = 0.0, 0.0, 1.0, [0.0]
    centre = [middle]
    if plan.kappa > 0.0:
        report.append(plan.kappa * (_number(plan, c, eta, y, function) - 0.5))
        centre.append(0.5 * plan.kappa)
    carried = np.array([omega * a for a in z]) if omega != 0.0 else np.zeros(len(z))
    return Told(np.array(report), radius, np.array(centre), carried)
