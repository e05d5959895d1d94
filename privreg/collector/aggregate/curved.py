"""How far scores that a predictor curves are from linear: their mean over covariates with known moments; (22), (37)."""

from __future__ import annotations

import math
from functools import cache
from typing import TYPE_CHECKING, Final

import numpy as np
from scipy.special import ndtri

from privreg.collector.aggregate.rounds import floored
from privreg.protocol import codes

if TYPE_CHECKING:
    from collections.abc import Callable

    from privreg.arrays import Array
    from privreg.collector.aggregate.plan import Plan, State

POINTS: Final = 512  # Normal rows of which means are, and as many on the other side of the mean

FLAT: Final = 0.02  # Slope relative to its mean below which rows say nothing of scores


@cache
def normal(d: int) -> Array:
    """Rows with mean 0 and second moments 1, shape (2 POINTS, d): normal quantiles of a lattice, and their negatives."""
    root = 2.0
    for _ in range(50):  # of x^(d + 1) = x + 1, by whose powers a lattice fills the cube evenly (Roberts 2018)
        root = (1.0 + root) ** (1.0 / (d + 1.0))
    at = np.arange(1, POINTS + 1)[:, None] * root ** -np.arange(1.0, d + 1.0)
    z = ndtri(np.clip((0.5 + at) % 1.0, 1e-6, 1.0 - 1e-6))
    z = np.concatenate([z, -z])
    return np.asarray(z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T)


def response(plan: Plan, eta: Array) -> tuple[Array, Array]:
    """Mean response at predictors, and its slope."""
    if plan.rules.shape.family == codes.LOGISTIC:
        mean = 1.0 / (1.0 + np.exp(-eta))
        return mean, mean * (1.0 - mean)
    mean = np.exp(np.clip(eta, -50.0, math.log(plan.rules.shape.a)))
    return mean, mean


def expected(plan: Plan, eta: Array, mean: Array) -> tuple[Array, Array, Array]:
    """Mean unit score at predictors if responses have this mean, its slope by the predictor, and less that by the mean."""
    shape = plan.rules.shape
    if shape.family == codes.LOGISTIC:
        at = response(plan, eta)
        return at[0] - mean, at[1], np.ones_like(eta)
    at, a = np.exp(np.minimum(eta, 50.0)), shape.a
    if shape.b:
        return (np.minimum(at, a) - mean) / a, np.where(at < a, at / a, 0.0), np.full_like(eta, 1.0 / a)
    left = np.maximum(a - at, 0.5 * a)
    high = at > 0.5 * a
    score, slope = np.where(high, 1.0 - mean / at, (at - mean) / left), np.where(high, mean / at, at * (a - mean) / left**2)
    return score, np.clip(slope, 0.0, plan.rules.top), np.where(high, 1.0 / at, 1.0 / left)


def bend(
    plan: Plan, last: State, curvature: Array, places: Array, shares: Array
) -> Callable[[Array], tuple[Array, Array]]:
    """By how much scores of rounds at `places` differ at an estimate from those on the pooled slope, and their slope.

    `curvature` is the second moments of rows times the slope of their scores, pooled by `shares`: rows are normal where
    they count by that slope, so that their linear part is the curvature itself: Equation (22). Differences are taken
    within one threshold of the last state.
    """
    one = np.linalg.inv(last.rows)[0]
    mass = float(one @ curvature @ one)
    mean = curvature @ one / mass
    values, vectors = np.linalg.eigh(curvature / mass - np.outer(mean, mean))
    z = mean + (normal(len(one)) * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
    root, etas = np.linalg.cholesky(curvature), [z @ place + plan.rate for place in places]

    def bent(theta: Array) -> tuple[Array, Array]:
        move = theta - last.theta
        near = last.theta + move / max(1.0, float(np.linalg.norm(move)))
        centre, rise = response(plan, z @ near + plan.rate)
        there = [expected(plan, eta, centre) for eta in etas]
        steep = sum(w * slope for w, (_, slope, _) in zip(shares, there, strict=True))
        weight = mass / len(z) / np.maximum(steep, FLAT * float(steep.mean()))
        linear = (z * (weight * steep)[:, None]).T @ z
        by = sum(w * b for w, (_, _, b) in zip(shares, there, strict=True))
        back = (z * (weight * by * rise)[:, None]).T @ z - linear
        back = np.linalg.solve(root, np.linalg.solve(root, back).T)
        more = root @ floored(back, -0.5) @ root.T  # half of the pooled slope is kept
        out = [-(score * weight) @ z - (near - at) @ linear for at, (score, _, _) in zip(places, there, strict=True)]
        return np.array(out) - more @ theta, curvature + more

    return bent
