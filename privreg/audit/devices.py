"""What one person reports in a fit by rounds before it is randomised, under any mechanism.

Reports are those of `privreg.device.report.score`, of Gaussian mechanisms in the field; private responses, which
devices in the field don't have, are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from privreg.arrays import Array
from privreg.device.report import score
from privreg.protocol import codes
from privreg.protocol.codes import LEVER2
from privreg.protocol.plans import ScorePlan

Function = Callable[[float, float], float] | None


class Unrandomised(NamedTuple):
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
