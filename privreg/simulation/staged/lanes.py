"""Parallel chains, collector side: reports in, sums out, and what can be said from them.

The fused kernel updates the same `Lanes` in place with the same arithmetic; `update` is for reading, for tests, and
for a collector that really receives reports. An estimate is not a chain's average θ̄ but the average of its one-step
corrections u_k = θ_{k−1} − c P ḡ_k, that is θ̄ − P (mean of c ḡ): with P near the inverse curvature A⁻¹ what the chain
has not forgotten is multiplied by I − PA, and the chain need not have settled.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.protocol.plans import LanePlan, Lanes
from privreg.simulation.staged.schedule import ChainSteps

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = [
    "Chains",
    "GroupEstimate",
    "between",
    "corrected",
    "init",
    "late_average",
    "merged",
    "pooled",
    "scaling",
    "update",
]


def init(start: Array, log_c: float, plan: LanePlan, functional: Array | None = None) -> Lanes:
    """State of `plan.lanes` chains that begin at `start`, shape (d,); `functional` is for random scaling's diagonal."""
    k, d = plan.lanes, start.shape[0]
    sums, both = ((0, 0), (d + 1, d + 1), (2, d + 1), (0, 0))[plan.path], 2 * d + 1 if plan.gram else 0
    own = np.eye(1, d)[0] if functional is None else functional
    return Lanes(
        theta=np.tile(start.astype(np.float64), (k, 1)),
        log_c=np.full(k, float(log_c)),
        origin=start.astype(np.float64).copy(),
        total=np.zeros((k, d)),
        score=np.zeros((k, d)),
        late=np.zeros((k, d + 1)),
        batch=np.zeros((k, d + 1)),
        partial=np.zeros((k, d)),
        sums=np.zeros((k, *sums)),
        functional=own.astype(np.float64).copy() if plan.path == 2 else np.zeros(0),
        gram=np.zeros((k, both, both)),
        weight=np.zeros((k, 2)),
        updates=np.zeros(k, dtype=np.int64),
        in_batch=np.zeros(k, dtype=np.int64),
    )


def update(
    state: Lanes, plan: LanePlan, steps: ChainSteps, newton: Array, position: int, report: Array, weight: float = 1.0
) -> Lanes:
    """State after the report of the person at `position` of the stage.

    Parameters
    ----------
    state : Lanes
    plan : LanePlan
    steps : ChainSteps
    newton : ndarray, shape (d, d) or (1, d)
        P, or its diagonal.
    position : int
    report : ndarray, shape (d,) or (d + 1,)
    weight : float
        The person's weight, (μ_i/μ_max)² with personal budgets.

    Returns
    -------
    Lanes
        A new value; the old one is unchanged.
    """
    new = Lanes(**{name: array.copy() for name, array in state._asdict().items()})
    lane = position // plan.batch % plan.lanes
    d = new.origin.shape[0]
    new.batch[lane, : len(report)] += weight * report
    new.weight[lane, 1] += weight
    new.in_batch[lane] += 1
    if new.in_batch[lane] < plan.batch:
        return new
    t = int(new.updates[lane])
    gamma, gain = (float(a[0]) for a in steps.block(t, 1))
    people = plan.batch * plan.worth
    share = new.weight[lane, 1] / people
    mean = math.exp(new.log_c[lane]) * (new.batch[lane, :d] / people)
    step = np.zeros(d)
    if len(newton) < d:
        step = newton[0] * mean
    else:
        for j in range(d):
            for m in range(d):
                step[j] += newton[j, m] * mean[m]
    if plan.gram:
        v = np.concatenate([mean, share * (new.theta[lane] - new.origin), [share]])
        new.gram[lane] += np.tril(np.outer(v, v))
    ahead = share * (new.theta[lane] - new.origin)
    new.total[lane] += ahead
    new.score[lane] += mean
    new.partial[lane] += ahead - step
    new.theta[lane] -= gamma * step
    if plan.kappa > 0.0:
        move = gain * (float(new.batch[lane, d]) / people / plan.kappa - share * plan.target)
        new.log_c[lane] = min(new.log_c[lane] - min(max(move, -0.5), 0.5), plan.widest)
    new.batch[lane] = 0.0
    new.weight[lane] += (share, -new.weight[lane, 1])
    new.in_batch[lane] = 0
    new.updates[lane] = t + 1
    if t >= plan.late:
        new.late[lane, :d] += new.theta[lane] - new.origin
        new.late[lane, d] += new.log_c[lane]
    if plan.path == 2:
        s = new.partial[lane].copy()
        s[0] = 0.0
        for a, b in zip(new.functional, new.partial[lane], strict=True):
            s[0] += float(a) * float(b)
        k = new.weight[lane, 0]
        new.sums[lane] += (np.append(s * s, 0.0), np.append(k * s, k * k))
    elif plan.path == 1:
        s = np.append(new.partial[lane], new.weight[lane, 0])
        new.sums[lane] += np.tril(np.outer(s, s))
    return new


def late_average(state: Lanes, plan: LanePlan) -> tuple[Array, float]:
    """θ and log c of a single chain, averaged over the second half of its stage."""
    n = int(state.updates[0]) - plan.late
    if n <= 0:
        return state.theta[0].copy(), float(state.log_c[0])
    return state.origin + state.late[0, :-1] / n, float(state.late[0, -1]) / n


class Chains(NamedTuple):
    """A stage of chains under way.

    Attributes
    ----------
    plan : LanePlan
    state : Lanes
    newton : ndarray, shape (d, d) or (1, d)
    steps : ChainSteps
    """

    plan: LanePlan
    state: Lanes
    newton: Array
    steps: ChainSteps


class GroupEstimate(NamedTuple):
    """People whose reports make one estimate.

    Attributes
    ----------
    people : int
    weight : float
        People, fewer where reports carried more noise: inverse variance up to a factor.
    estimate : ndarray, shape (d,)
        Whitened coordinates.
    """

    people: int
    weight: float
    estimate: Array


def newton_step(newton: Array, score: Array) -> Array:
    """P times a score; P may be given by its diagonal, shape (1, d)."""
    return np.asarray(newton[0] * score if len(newton) < len(score) else newton @ score)


def corrected(state: Lanes, plan: LanePlan, newton: Array) -> list[GroupEstimate]:
    """Estimates of the lanes that have been updated."""
    out = []
    for k in range(plan.lanes):
        t, weight = int(state.updates[k]), float(state.weight[k, 0])
        if t and weight > 0.0:
            estimate = state.origin + (state.total[k] - newton_step(newton, state.score[k])) / weight
            out.append(GroupEstimate(t * plan.batch, weight * plan.batch * plan.worth * plan.precision, estimate))
    return out


def merged(parts: Sequence[Lanes]) -> Lanes:
    """State of all lanes of several parts of a stream, which began at the same place.

    Parameters
    ----------
    parts : sequence of Lanes

    Returns
    -------
    Lanes
        Sums about the common origin, the parts' lanes one after another.
    """
    columns = {name: [getattr(part, name) for part in parts] for name in Lanes._fields}
    alike = {name: columns.pop(name)[0].copy() for name in ("origin", "functional")}
    return Lanes(**alike, **{name: np.concatenate(values) for name, values in columns.items()})


def pooled(groups: list[GroupEstimate]) -> Array:
    """Weighted mean of the groups' estimates."""
    weights = np.array([g.weight for g in groups])
    return np.asarray(weights @ np.array([g.estimate for g in groups]) / weights.sum())


def apart(groups: list[GroupEstimate]) -> Array:
    """Moves M, shape (G, d), with MᵀM as `between`: a product of a few rows, where d × d would be large."""
    weights = np.array([g.weight for g in groups])
    away = np.array([g.estimate for g in groups]) - pooled(groups)
    return np.asarray(away * np.sqrt(weights / ((len(groups) - 1) * weights.sum()))[:, None])


def between(groups: list[GroupEstimate]) -> Array:
    """Covariance of the pooled estimate from how far the groups lie apart, shape (d, d).

    Notes
    -----
    Groups of weight w_g with independent estimates of variance V/w_g: Σ w_g (e_g − ē)(e_g − ē)ᵀ/(G − 1) is unbiased
    for V, and t-ratios have G − 1 degrees of freedom.
    """
    weights = np.array([g.weight for g in groups])
    apart = np.array([g.estimate for g in groups]) - pooled(groups)
    return np.asarray((apart * weights[:, None]).T @ apart / (len(groups) - 1) / weights.sum())


def scaling(state: Lanes) -> Array:
    """Random-scaling matrix of √updates times a lane's mean correction, averaged over lanes, shape (d, d).

    Where the diagonal alone is kept, that, shape (d,), in which coordinate 0 is the functional's.
    """
    lanes, d = state.theta.shape
    if state.functional.size:
        return _diagonal_scaling(state)
    out: Array = np.zeros((d, d))
    for k in range(lanes):
        t = float(state.weight[k, 0])
        mean = state.partial[k] / t
        cross = np.outer(mean, state.sums[k, d, :d])
        squares = state.sums[k, :d, :d]
        full = np.tril(squares) + np.tril(squares, -1).T
        out += (full - cross - cross.T + state.sums[k, d, d] * np.outer(mean, mean)) / t**2
    return np.asarray(out / lanes)


def _diagonal_scaling(state: Lanes) -> Array:
    lanes, d = state.theta.shape
    out: Array = np.zeros(d)
    for k in range(lanes):
        t = float(state.weight[k, 0])
        mean = state.partial[k] / t
        mean[0] = float(state.functional @ mean)
        squares, weighted = state.sums[k]
        out += (squares[:d] - 2.0 * mean * weighted[:d] + weighted[d] * mean**2) / t**2
    return np.asarray(out / lanes)
