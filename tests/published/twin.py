"""The published chain, person by person, readable: the compiled loops are tried against it and give the same bits.

A device sends one report, `score_report` or `curvature_report`; `update` and `update_curvature` are the collector's.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from privreg.errors import DataError
from privreg.families import scores
from privreg.protocol import codes
from privreg.protocol.codes import BLOCK, DIAGONAL, TINY
from privreg.published.chain import kernels
from privreg.published.chain.collector import is_turn, recentred
from privreg.published.chain.plans import State
from tests.devices import curvature as curvature_of
from tests.devices import inner, randomised_one

if TYPE_CHECKING:
    from privreg.base.arrays import Array
    from privreg.families.scores import ScoreWeights
    from privreg.published.chain.plans import Plan, Published, Steps


def _one(value: float) -> Array:
    return np.array([value])


def _weight(weights: ScoreWeights, norm2: float, first: float, d: int) -> float:
    if weights.name == "unit":
        return 1.0 / math.sqrt(norm2) if norm2 > TINY else 0.0
    if weights.name == "published_slopes":
        norm2 = norm2 - first * first
    return 2.0 / norm2 if norm2 > 2.0 else 1.0


def _refuse_not_finite(x: Array, y: float, offset: float) -> None:
    if not (np.isfinite(x).all() and math.isfinite(y) and math.isfinite(offset)):
        raise DataError("a row holds a missing or infinite value; drop it, or fill it before reporting.")


def score_report(
    device: Published, theta: Array, x: Array, y: float, noise: Array, offset: float = 0.0, function: Any = None
) -> Array:
    """One person's report: the weighted, bounded score plus noise.

    Parameters
    ----------
    device : Published
    theta : ndarray, shape (b p,)
        Current public iterate, internal units; b > 1 blocks for a multinomial response.
    x : ndarray, shape (p,)
        The person's row, internal units.
    y : float
        The person's response, internal units.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.
    offset : float
    function : callable, optional
        A user's own score over its bound.

    Returns
    -------
    ndarray, shape (p,)
        The only thing that leaves the device: μ-GDP for the person.

    Raises
    ------
    DataError
        If the row is not finite.

    References
    ----------
    XSJKH (arXiv 2505.08227), equation (2.3), with noise sd 2·bound/μ.
    """
    _refuse_not_finite(x, y, offset)
    norm2 = inner(x, x)
    if len(theta) > len(x):
        omega = _weight(device.weights, norm2, float(x[0]), len(x))
        blocks = np.array(_blocks_score(theta, np.asarray(x), norm2, omega, y, device.norm))
        return randomised_one(device.mechanism.channel(len(theta)), blocks, device.radius, noise)
    eta = inner(x, theta) + float(offset)
    psi = float(scores.psi(device.score, _one(eta), _one(float(y)), function)[0])
    factor = psi * _weight(device.weights, norm2, float(x[0]), len(x))
    norm = abs(factor) * math.sqrt(norm2)
    if device.norm < norm < math.inf:
        factor *= device.norm / norm
    elif not norm <= device.norm:  # overflow: nothing but noise is sent
        factor = 0.0
    centre = 0.5 * sum(device.score.range) if device.alone else 0.0
    report = np.array([(factor * float(v) if factor != 0.0 else 0.0) - centre for v in x])
    return randomised_one(device.mechanism.channel(len(x)), report, device.radius, noise) + centre


def curvature_report(device: Published, centre: Array, x: Array, y: float, noise: Array, offset: float = 0.0) -> Array:
    """One person's curvature report, sent *instead of* a score report.

    Parameters
    ----------
    device : Published
    centre : ndarray, shape (p,)
        Public running average of the iterates, internal units.
    x, y, offset
        As in :func:`score_report`.
    noise : ndarray, shape (width,)
        Standard normals drawn for this person and never used again.

    Returns
    -------
    ndarray, shape (p (p + 1) / 2,)
        Upper triangle of ω ∂ψ x xᵀ, off-diagonal entries times √2, plus noise: μ-GDP.

    Raises
    ------
    DataError
        If the row is not finite.
    """
    _refuse_not_finite(x, y, offset)
    norm2 = inner(x, x)
    eta = inner(x, centre) + float(offset)
    curvature = float(curvature_of(device.score, _one(eta), _one(float(y)))[0])
    factor = curvature * _weight(device.weights, norm2, float(x[0]), len(x))
    norm = factor * norm2
    if device.curvature_bound < norm < math.inf:
        factor *= device.curvature_bound / norm
    elif not norm <= device.curvature_bound:
        factor = 0.0
    out: list[float] = []
    for j in range(len(x)):
        for m in range(j, len(x)):
            entry = factor * float(x[j]) * float(x[m]) if factor != 0.0 else 0.0
            out.append(entry * math.sqrt(2.0) if m > j else entry)
    radius = device.mechanism.curvature_radius(device.curvature_bound)
    return randomised_one(device.mechanism.channel(len(out)), np.array(out), radius, noise)


def _blocks_score(theta: Array, x: Array, norm2: float, omega: float, y: float, bound: float) -> list[float]:
    """Multinomial score over classes k ≥ 1, times ω x."""
    d, blocks = len(x), len(theta) // len(x)
    etas = [inner(x, theta[k * d : (k + 1) * d]) for k in range(blocks)]
    top = max(0.0, *etas) if not any(math.isnan(e) for e in etas) else math.nan
    shares = [math.exp(e - top) if e - top < 700.0 else math.nan for e in [0.0, *etas]]
    total = 0.0
    for share in shares:
        total += share
    shares = [share / total for share in shares]
    squares = 0.0
    for share in shares[1:]:
        squares += share * share
    lengths = [squares, *(squares + 1.0 - 2.0 * share for share in shares[1:])]
    length2 = lengths[int(y)] if y in range(blocks + 1) else math.nan
    scale = omega
    norm = scale * math.sqrt(abs(length2) * norm2)
    if bound < norm < math.inf:
        scale *= bound / norm
    if not norm < math.inf:
        return [0.0] * (blocks * d)
    residual = [share - (1.0 if y == k + 1 else 0.0) for k, share in enumerate(shares[1:])]
    return [scale * r * float(a) for r in residual for a in x]


def curvature_centre(state: State) -> Array:
    """Running average of the iterates, at which curvature is asked for."""
    return state.origin + state.total / max(int(state.counts[codes.UPDATES]), 1)


def update(state: State, plan: Plan, steps: Steps, report: Array) -> State:
    """State after one score report.

    Parameters
    ----------
    state : State
    plan : Plan
    steps : Steps
    report : ndarray, shape (p,)
        A person's randomised score.

    Returns
    -------
    State
        A new value; the old one is unchanged.
    """
    new = State._make(array.copy() for array in state)
    counts = new.counts
    counts[codes.PEOPLE] += 1
    new.spreads[0] += 1.0
    counts[codes.POSITION] += 1
    mean = report
    if plan.batch > 1:
        new.batch[:] += report
        counts[codes.IN_BATCH] += 1
        if counts[codes.IN_BATCH] < plan.batch:
            return new
        mean = new.batch / plan.batch
        new.batch[:] = 0.0
        counts[codes.IN_BATCH] = 0
    k = int(counts[codes.UPDATES])
    slot = k % BLOCK
    gamma = float(steps.block(k, 1)[0])
    if plan.outer == 2:
        p = len(new.theta)
        new.reports[p:, slot] = np.append(new.theta - new.origin, 1.0)
    new.theta[:] = new.theta - gamma * mean
    new.total[:] = new.total + (new.theta - new.origin)
    new.path[:-1, slot] = new.total
    new.path[-1, slot] = float(k + 1)
    if plan.outer:
        new.reports[: len(mean), slot] = mean
    if plan.scaling_mode == DIAGONAL:
        first = 0.0
        for a, b in zip(new.functional, new.total, strict=True):
            first += float(a) * float(b)
        new.path[0, slot] = first
    counts[codes.UPDATES] = k + 1
    if slot == BLOCK - 1:
        kernels.flush_block(new.path, new.sums, plan.scaling_mode, new.reports, new.outer, plan.outer)
    return recentred(new, plan)[0] if is_turn(k + 1) else new


def update_curvature(state: State, report: Array) -> State:
    """State after one curvature report, shape (p (p + 1) / 2,)."""
    new = State._make(array.copy() for array in state)
    new.curvature[:] += report
    new.counts[codes.CURVATURES] += 1
    new.spreads[1] += 1.0
    new.counts[codes.POSITION] += 1
    return new
