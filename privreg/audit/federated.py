"""An audit of a report mechanism: how well do reports distinguish two silos that differ as much as silos can?

Made-up updates only; nothing here reads a record.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from scipy.special import ndtri

from privreg.audit.verification import Trial, Verification, verify
from privreg.base.arrays import Array
from privreg.errors import BudgetError
from privreg.privacy.noise import NoiseStream, fresh_key, seeded_key
from privreg.published.federated.reports import UpdateMechanism
from privreg.published.federated.theory import from_angles


def worst_updates(mechanism: UpdateMechanism) -> tuple[Array, Array]:
    """Two updates at the largest distance that the mechanism allows, each of shape (d,)."""
    m = mechanism
    if m.geometric:
        box = m.box
        low, high = box.centre - box.half, box.centre + box.half
        # on the edge of the half circle the angle of a vector is +π; just inside, −π + a little
        high[-1] -= 1e-9
        low[-1] += 1e-9
        short = 1e-6 * m.clip if m.magnitude_share else m.clip
        inner = 1e-4  # at 0 and π exactly a vector has no further angles
        low[:-1], high[:-1] = np.maximum(low[:-1], inner), np.minimum(high[:-1], math.pi - inner)
        return from_angles(short, low), from_angles(m.clip, high)
    if m.name in {"laplace", "piecewise"}:
        along = np.full(m.size, m.clip / math.sqrt(m.size))
    else:
        along = m.clip * np.eye(m.size)[0]
    return -along, along


def evidence(mechanism: UpdateMechanism, first: Array, second: Array, normals: Array, who: int) -> Array:
    """Log-likelihood ratios (up to constants) of reports for `second` against `first`, shape (n,).

    The updates of the neighbours, shapes (d,), are as :func:`worst_updates` makes them; `who`, 0 or 1, says whose n
    independent reports are drawn, of `normals` of shape (n, width).
    """
    m, update = mechanism, (first, second)[who]
    if m.geometric:
        magnitude, angles = m.release(update, normals)
        ends = [m.release(u, np.zeros(m.width)) for u in (first, second)]
        out = angles @ (ends[1][1] - ends[0][1]) / m.angle_sd**2
        return np.asarray(out + (ends[1][0] - ends[0][0]) * magnitude / m.magnitude_sd**2 if m.magnitude_share else out)
    reports = np.array([m.randomise(update, z) for z in normals])
    if m.name == "laplace":
        return np.asarray(np.sum(np.abs(reports - first) - np.abs(reports - second), axis=1))
    if m.name == "piecewise":  # all coordinates of a worst update are alike
        values = (reports * m.coordinates / m.size).ravel()
        with np.errstate(divide="ignore"):
            logs = [np.log(m.number.density(float(u[0]), values)) for u in (first, second)]
        ratios = np.where(reports.ravel() != 0.0, logs[1] - logs[0], 0.0)
        return np.asarray(ratios.reshape(reports.shape).sum(axis=1))
    along = reports @ (second - first)
    if m.name == "privunit" and m.size > 1:  # beyond the cut it is e^ε times likelier
        channel = m.whole.channel(m.size)
        part = along / float(np.linalg.norm(second - first)) / (channel.scale * m.radius)
        cut = -float(ndtri(channel.above))
        return (part >= cut).astype(np.float64) - (part <= -cut)
    return np.asarray(along)


def transcripts(mechanism: UpdateMechanism, rounds: int, n: int, seed: int | None = None) -> tuple[Array, Array]:
    """Evidence of all reports of one silo, `n` times for each of two neighbours that differ in every round; shapes
    (n,).
    """
    first, second = worst_updates(mechanism)
    out = []
    for who in (0, 1):
        key = fresh_key() if seed is None else seeded_key(seed, f"federated audit {who}")
        stream, sums = NoiseStream(key, mechanism.width), np.zeros(n)
        with ThreadPoolExecutor(1) as pool:
            for _ in range(rounds):
                sums += evidence(mechanism, first, second, stream.take(n, pool), who)
        out.append(sums)
    return out[0], out[1]


def trials(mechanism: UpdateMechanism, *_: Any, rounds: int = 1, seed: int | None = None) -> Iterator[Trial]:
    """The reports of so many rounds together, of two silos at the largest distance."""
    m = mechanism
    if m.budget.pure:
        claim = ("epsilon", rounds * m.budget.epsilon)
    else:
        claim = ("mu", math.sqrt(rounds * (m.coordinates or 1)) * (m.number if m.coordinates else m).budget.mu)
    draw = partial(transcripts, mechanism, rounds, seed=seed)
    yield Trial("update", "silos at opposite ends", *claim, draw, direction=np.ones(1))


def verify_mechanism(
    mechanism: UpdateMechanism, *, rounds: int = 1, n: int = 20_000, alpha: float = 1e-6, seed: int | None = None
) -> Verification:
    """Audit the reports of all rounds together: `n` transcripts of each neighbour.

    `alpha` is the probability of a lower limit above the true value.
    Raises BudgetError if there is no noise to audit; OptionError if `n` or `alpha` is out of range.

    References
    ----------
    Clopper & Pearson (1934); see `privreg.audit.neighbours.audit`.
    """
    if not mechanism.budget.private:
        raise BudgetError("there is no mechanism to audit: mu=None asked for no privacy.")
    each = f" in each of {rounds} rounds" if rounds > 1 else ""
    return verify(trials(mechanism, rounds=rounds, seed=seed), claim=f"{mechanism.budget}{each}", n=n, alpha=alpha)
