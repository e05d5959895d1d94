"""Published schemes whose stated guarantee fails, so that an audit can show it. Nothing here is fit to protect anybody.

Each function returns numbers whose sum over rounds tells two neighbouring silos apart: what an attacker would compute.
"""

from __future__ import annotations

import math

import numpy as np

from privreg import Budget
from privreg.federated import UpdateMechanism, from_angles, to_angles, update_mechanism
from privreg.published.federated.theory import angle_sensitivity

__all__ = ["averaged_costs", "divided_by_batch", "last_noise", "raw_magnitude"]


def last_noise(mu: float, local_steps: int, rounds: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """E clipped local gradients, noise of sd 2C/μ on the last one only, accounted at μ a round.

    Neighbours' gradients are ±C e₁ in every step, so the update moves by 2C·E steps and its noise is that of one. (With
    every gradient's own noise the sum would have √E times as much.)
    """
    clip, step = 1.0, 0.1
    out = []
    for sign in (-1.0, 1.0):
        update = -step * clip * sign * local_steps
        out.append(update * rounds + step * 2.0 * clip / mu * math.sqrt(rounds) * rng.standard_normal(n))
    return out


def raw_magnitude(mu: float, size: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """LDPVec as published: noised angles, the magnitude as it is. Neighbours differ in magnitude alone.

    The attacker reads the length of a report.
    """
    mechanism = update_mechanism("ldpvec", Budget.declare(mu=mu), size, 1.0, debias=False)
    direction = np.ones(size) / math.sqrt(size)
    out = []
    for length in (0.1, 0.9):
        _, angles = to_angles(length * direction)
        noised = angles + mechanism.angle_sd * rng.standard_normal((n, size - 1))
        out.append(np.linalg.norm(from_angles(np.full(n, length), noised), axis=1))
    return out


def averaged_costs(mu: float, size: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """GeoDP with noise for μ on the magnitude and for μ on the direction, their costs averaged to μ (Theorem 7)."""
    half = update_mechanism(
        "geodp", Budget.declare(mu=math.sqrt(2.0) * mu), size, 1.0, magnitude_share=0.5, debias=False
    )
    return _angles_told(half, half.angle_sd, n, rng)


def divided_by_batch(mu: float, size: int, batch: int, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """GeoDP's angle noise with sensitivity √(d + 2)βπ/B; the magnitude left out. One record of B is replaced.

    The other records' gradients cancel, so that the mean of B points where the replaced one points.
    """
    mechanism = update_mechanism("ldpvec", Budget.declare(mu=mu), size, 1.0, debias=False)
    return _angles_told(mechanism, mechanism.angle_sd / batch, n, rng)


def _angles_told(mechanism: UpdateMechanism, sd: float, n: int, rng: np.random.Generator) -> list[np.ndarray]:
    """Evidence of magnitude (if it is noised) and angles with noise `sd`, of neighbours at opposite ends of the box."""
    gap = angle_sensitivity(mechanism.size, mechanism.beta)
    out = []
    for who in (0.0, 1.0):
        told = gap / sd * (gap * who / sd + rng.standard_normal(n))
        if mechanism.magnitude_sd:
            told += mechanism.clip / mechanism.magnitude_sd * (
                mechanism.clip * who / mechanism.magnitude_sd + rng.standard_normal(n)
            )  # fmt: skip
        out.append(told)
    return out
