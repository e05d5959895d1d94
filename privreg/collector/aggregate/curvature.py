"""Curvature of rounds of scores: slopes pooled by precision, between what was reported and what is known.

Equations (6) and (9). Squared scores are pooled alike.
"""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.aggregate.plan import Known, Plan, Progress, Summed
from privreg.collector.estimation.curvature import floored


class Curvature(NamedTuple):
    """Curvature of rounds of scores together."""

    mean: Array  # Shape (b d, b d)
    variances: Array  # Of its entries
    level: float  # Mean of the diagonal
    pooled: Array  # Mean slope of the rounds
    noise: float  # Sd of an entry of that
    shares: Array  # Of each round in it, shape (rounds,)


def curvature(
    plan: Plan, progress: Progress, rounds: Sequence[Summed], people: Sequence[float], far: Array | float = 0.0
) -> Curvature:
    """Curvature between rounds' slopes, pooled by precision, and what is known of covariates: Equation (9).

    Rounds differ by the sampling of so many `people`, and slopes by the share `far`, see `pooled`.
    """
    slopes, noises = [s.slope for s in rounds], [s.sds[1] * s.wider for s in rounds]
    reference = height = progress.filled * plan.rules.slope
    for _ in range(1 + int(plan.rules.unsure > 1.0)):  # where the reference says little sampling is by the level found
        mean, noise, shares = pooled(slopes, noises, people, height**2, far)
        height = level(mean, noise, reference, plan.rules.unsure)
    return Curvature(*posterior(mean, noise, progress.known.whole, height), height, mean, noise, shares)


def pooled(
    matrices: Sequence[Array], noises: Sequence[float], people: Sequence[float], square: float, far: Array | float = 0.0
) -> tuple[Array, float, Array]:
    """Mean of rounds' matrices, the sd of its entries, of noise and of sampling, and rounds' shares.

    `square` is the mean square of what multiplies z z', or at least the square of its mean: for normal z an entry has
    it once to three times, about twice. `far` is the share by which slopes may differ from that at the estimate.
    """
    alone = np.square(noises) + 2.0 * square / np.array(people)
    precision = 1.0 / (alone + square * np.square(far))
    shares = precision / precision.sum()
    mean = sum(w * one for w, one in zip(shares, matrices, strict=True))
    return np.asarray(mean), math.sqrt(float(shares**2 @ alone)), shares


def level(pooled: Array, noise: float, reference: float, unsure: float, least: float = math.inf) -> float:
    """Level of a matrix, the mean of its diagonal, between what was reported and the reference model's.

    At least as large as its noise, or as a model's `least`, if that is less.
    """
    d = len(pooled)
    by, prior = noise**2 / d, (unsure * reference) ** 2
    seen = float(np.trace(pooled)) / d
    return max((reference * by + seen * prior) / (by + prior), min(math.sqrt(by), least))


def posterior(pooled: Array, noise: float, known: Known, height: float) -> tuple[Array, Array]:
    """Curvature, entry by entry, between what was reported and the second moments of covariates: Equations (6), (9).

    Its variances have the shape (d, d), too; √2 times an entry off the diagonal has this one.
    """
    b = len(known.classes)
    twice = np.kron(1.0 - np.eye(b), 1.0 - np.eye(len(pooled) // b))  # entries that a report holds at four places
    by = (noise / height) ** 2 * (1.0 - 0.5 * twice)
    share = known.variances / (known.variances + by)
    found = known.mean + share * (pooled / height - known.mean)
    root = np.linalg.cholesky(known.mean)  # of what is known before a direction has a tenth at least
    back = np.linalg.solve(root, np.linalg.solve(root, found).T)
    return height * (root @ floored(back, 0.1) @ root.T), share * by * height**2


def cautious(curvature: Array, spread: Array, score: Array) -> Array:
    """The step x of least mean squared error of C x − score if C is known up to variances `spread`: Equation (10)."""
    unsure = 0.5 * (spread.sum(axis=1) + np.diag(spread))
    return np.asarray(np.linalg.solve(curvature @ curvature + np.diag(unsure), curvature @ score))


def grouped(plan: Plan, one: Summed) -> bool:
    """True if a sum is one of a group of clusters, of other rows than those of the other groups."""
    return plan.clusters > 0 and one.state.role == "main" and (not plan.noise.again or one.group)


def sampled(plan: Plan, rounds: Sequence[Summed]) -> list[float]:
    """Records by whose sampling rounds differ: none, ∞, where all rows answer in each of them."""
    return [math.inf if plan.noise.again and not grouped(plan, s) else float(s.people) for s in rounds]


def unequal(plan: Plan, rounds: Sequence[Summed]) -> Array:
    """Share by which slopes of rounds may differ from those of the last one, as other rows count whole in them."""
    reaches = np.array([s.state.reach(plan) for s in rounds])
    return np.asarray(1.0 - np.minimum(reaches / reaches[-1], reaches[-1] / reaches) ** 2)
