"""One person's report in a fit by rounds before it is randomised, under any mechanism, by the scores of `families`."""

import math
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.covariates.whitening import triangle
from privreg.families import scores
from privreg.families.logistic import multinomial
from privreg.protocol.codes import LEVER2, TINY
from privreg.protocol.plans import ScorePlan


class Unrandomised(NamedTuple):
    """A report before it is randomised: a point of the ball of `radius` about 0, and what is made of the answer."""

    report: Array  # shape (size,)
    radius: float
    centre: Array  # Public, added to the answer; shape (size,)
    carried: Array | None = None  # Public covariates that multiply its first number, where only a response is private

    def finish(self, answer: Array) -> Array:
        """Reports that leave the device, from randomised ones of shape (…, size)."""
        out = answer + self.centre
        if self.carried is None:
            return np.asarray(out)
        with np.errstate(over="ignore", invalid="ignore"):
            score = np.where(out[..., :1] * self.carried != 0.0, out[..., :1] * self.carried, 0.0)
        return np.concatenate([score, out[..., 1:]], axis=-1)


def second_moments(z: Array) -> Array:
    """Report on second moments before it is randomised: u uᵀ, u = z/‖z‖.

    The lower triangle, shape (d (d + 1)/2,), off-diagonal entries · √2: its norm is 1. Zeros where z can't be used.
    """
    inverse, (row, col) = _inverse(z), triangle(len(z))
    u = z * inverse if inverse else np.zeros(len(z))
    return np.asarray(u[row] * u[col] * np.where(row == col, 1.0, math.sqrt(2.0)))


def scored(plan: ScorePlan, theta: Array, c: float, z: Array, y: float, offset: float = 0.0) -> Unrandomised:
    """Report of scores before it is randomised: ψ z/‖z‖, abs ψ ≤ 1, and in a pilot kappa times a number.

    `theta` are the group's coefficients in the coordinates of z, `c` the public threshold. z and y are NaN for one who
    has nothing to say. With label privacy ψ alone is randomised, and the public ω z, ω = min(1, 8 √d/‖z‖), multiplies
    it.
    """
    inverse = _inverse(z)
    if plan.blocks > 1:
        report = np.zeros(len(theta))  # scores of the classes k ≥ 1 one after the other
        if inverse and 0.0 <= y <= plan.blocks and y == math.floor(y):
            scaled = multinomial(theta.reshape(plan.blocks, -1), z[None], np.array([y]))[0] * inverse
            report = np.outer(scaled, z).reshape(-1)
        report = report if np.isfinite(report).all() else np.zeros(len(theta))
        return Unrandomised(report, plan.radius, np.zeros(len(theta)))
    with np.errstate(over="ignore", invalid="ignore"):
        eta, response = np.array([float(z @ theta) + offset]), np.array([float(y)])
        psi = float(scores.unit(plan.shape, c, eta, response)[0])
        number = float(scores.near(plan.shape, c, eta, response)[0])
    known = not (math.isnan(eta[0]) or math.isnan(y))
    beside = [plan.kappa * ((number if known else 0.0) - 0.5)] if plan.kappa > 0.0 else []
    if plan.label:  # ψ about the middle of its range, and public covariates that multiply it
        low, high = (float(end[0]) for end in scores.ends(plan.shape, c, eta, plan.y_low, plan.y_high))
        with np.errstate(over="ignore", invalid="ignore"):
            norm2, most = float(z @ z), LEVER2 * len(z)
        omega = math.sqrt(most / norm2) if norm2 > most else 1.0
        middle, half = 0.5 * (low + high), 0.5 * (high - low)
        # nothing to report: no score, as far as its range allows
        answer = min(max(0.0 if math.isnan(psi) else psi, low), high) - middle
        radius = math.sqrt(half * half + 0.25 * (plan.kappa * plan.kappa))
        if not (radius < math.inf and norm2 < math.inf):
            omega, middle, radius, answer = 0.0, 0.0, 1.0, 0.0
        centre = np.array([middle] + [0.5 * plan.kappa] * len(beside))
        return Unrandomised(np.array([answer, *beside]), radius, centre, omega * z if omega else np.zeros(len(z)))
    inverse = min(inverse, 1.0 / plan.longest) if plan.longest else inverse
    factor = psi * inverse
    usable = factor != 0.0 and math.isfinite(factor)
    report = z * min(max(factor, -inverse), inverse) if usable else np.zeros(len(z))
    centre = np.array([0.0] * len(z) + [0.5 * plan.kappa] * len(beside))
    return Unrandomised(np.array([*report, *beside]), plan.radius, centre)


def _inverse(z: Array) -> float:
    """1/‖z‖; 0 if z is too short, too long, or no row of numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        norm2 = float(z @ z)
    return 1.0 / math.sqrt(norm2) if TINY < norm2 < math.inf else 0.0
