"""One-step estimates of several rounds, averaged: each state is moved to where its mean report would be zero.

The step follows from the curvature M, `curvature.learn`, in coordinates in which the reference model has M = I.
The covariance has the reports' noise and the posterior spread of M.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, triangle
from privreg.collector.estimation.curvature import CARRY, LEAST, SMALLEST, Curvature, RoundMeans, means

DRAWS: Final = 400

TAILS: Final = (1.0 + 1.959963984540054**2) / 3.0
"""Factor of the variance that a noisy standard error adds, so that normal quantiles hold at 95%.

Where the variance of a standard error's logarithm is v, Student's quantile is z {1 + (1 + z²) v/2} with z normal
(1/(2v) degrees of freedom), and the mean of M⁻¹ Σ M⁻¹ is larger by 3 v only."""


class Combined(NamedTuple):
    """Estimate of x*, and its precision."""

    x: Array  # shape (q,)
    cov: Array  # shape (q, q)
    weights: Array  # Weights of the rounds, sum 1; shape (k,)
    moved: Array  # Σ w_k x_k − x, mean distance by which states were moved; shape (q,)
    unknown: Array  # Part of the covariance due to the posterior spread of M; shape (q, q)


def combine(
    rounds: Sequence[RoundMeans],
    noise: Array,
    curvature: Curvature,
    *,
    scattered: Array | None = None,
    brief: bool = False,
) -> Combined:
    """Carry rounds to where mean reports would be zero, and average.

    Equations (31), (33), (34) and (35) of docs/estimator.md.

    The covariance is that of the noise carried by the mean of M, and what M's spread about it adds: to the steps of
    mean reports, and to second order to their noise.

    `noise`, shape (q, q), is the covariance of a report by the reference model, for the weights; `scattered` that by
    how reports scatter, for the covariance, by the reference model if not given. With `brief` the covariance leaves
    out the posterior spread of M.
    """
    q = len(noise)
    total, x, g = means(rounds)
    m = floored(curvature.mean)
    one = x - np.linalg.solve(m, g.T).T
    each = float(np.trace(np.linalg.solve(m, np.linalg.solve(m, noise).T))) / q
    weights, estimate = total / total.sum(), np.zeros(q)
    for _ in range(4):
        estimate = weights @ one
        far = ((x - estimate) ** 2).sum(axis=1)
        weights = 1.0 / (each / total + CARRY**2 * far / q)
        weights = weights / weights.sum()
    estimate = weights @ one
    mean_x, mean_g = weights @ x, weights @ g
    own = np.asarray(np.linalg.inv(m), dtype=np.float64)
    sent = noise if scattered is None else scattered
    left = np.asarray(sent * float(np.sum(weights**2 / total)), dtype=np.float64)
    unknown = np.zeros((q, q))
    if not brief:
        draws = _draws(curvature)
        moves = _divided(draws, mean_g) - np.linalg.solve(m, mean_g)
        unknown = np.asarray(moves.T @ moves / len(moves), dtype=np.float64)
        unknown = unknown + TAILS * _noise_by_curvature(own, draws[: len(draws) // 2] - curvature.mean, left)
    return Combined(estimate, own @ left @ own + unknown, weights, mean_x - estimate, unknown)


def precision(curvature: Curvature, noise: Array, g: Array) -> tuple[Array, Array]:
    """Covariance of estimates that are no averages of all rounds: the parts of equation (34) of docs/estimator.md.

    `noise`, shape (q, q), is the covariance of a report; `g`, shape (k, q), are mean reports, each of which is carried
    to where it would be zero. The parts are that of the noise, for one record, shape (q, q), and that of M's spread,
    shape (r, k, q): r moves of all of them, whose squares and products sum to a covariance.
    """
    m, draws = floored(curvature.mean), _draws(curvature)
    own = np.asarray(np.linalg.inv(m), dtype=np.float64)
    added = _noise_by_curvature(own, draws[: len(draws) // 2] - curvature.mean, noise)
    each = np.asarray(own @ noise @ own) + TAILS * added
    moves = np.stack([_divided(draws, one) - np.linalg.solve(m, one) for one in g], axis=1)
    # as few as have the same covariance, but for a thousandth
    _, sizes, along = np.linalg.svd(moves.reshape(len(moves), -1), full_matrices=False)
    some = max(int(np.searchsorted(np.cumsum(sizes**2), 0.999 * float(sizes @ sizes))) + 1, 1)
    return each, (sizes[:some, None] * along[:some]).reshape(some, *g.shape) / math.sqrt(len(moves))


def _noise_by_curvature(own: Array, deviations: Array, noise: Array) -> Array:
    """Mean of M⁻¹ Ω M⁻¹ to second order, less that of M's mean: T of equation (33) of docs/estimator.md.

    States have followed the noise by the true M, whatever its estimate, so that the error is M⁻¹ times the noise.
    An inverse is convex: the mean is more than noise carried by the inverse of the mean, `own`, shape (q, q). The
    `deviations` of M from its mean, shape (m, q, q), are as likely as their opposites.
    """
    by, carried = own @ deviations, own @ noise @ own
    bent = (by @ by).mean(axis=0) @ carried
    return np.asarray((by @ carried @ by.transpose(0, 2, 1)).mean(axis=0) + bent + bent.T)


def _draws(curvature: Curvature) -> Array:
    """Draws of M from its posterior, always the same ones, in pairs about the mean; shape (draws, q, q)."""
    q = len(curvature.mean)
    rng = np.random.Generator(np.random.PCG64(20_000 + q))
    rows = curvature.rows
    if rows is not None:
        e = rng.standard_normal((DRAWS // 2, q, q)) * np.sqrt(rows.variance)
        half = 0.5 * (rows.left @ e @ rows.right.T)
        deviation = half + half.transpose(0, 2, 1)
        deviation += math.sqrt(rows.multiple) * rng.standard_normal((DRAWS // 2, 1, 1)) * np.eye(q)
    else:
        row, col = triangle(q)
        e = rng.standard_normal((DRAWS // 2, len(row))) @ _root(curvature.cov).T
        deviation = np.zeros((len(e), q, q))
        deviation[:, row, col] = e
        deviation[:, col, row] = e
    return np.concatenate([curvature.mean + deviation, curvature.mean - deviation])


def floored(m: Array) -> Array:
    """Symmetric matrices, shape (…, q, q), with eigenvalues of at least `LEAST`."""
    values, vectors = np.linalg.eigh(m)
    values = np.maximum(values, LEAST)
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))


def at_least(cov: Array, least: Array) -> Array:
    """A covariance, made larger where along some direction its variance is smaller than `least`, shapes (q, q).

    So Ω̂ of equation (32) of docs/estimator.md is nowhere smaller than Ω. With `least` = B B', B⁻¹ `cov` B⁻¹' has
    eigenvalues below 1 where it is smaller: these are set to 1. `least` itself may be singular.
    """
    values, vectors = np.linalg.eigh(least)
    root = np.sqrt(np.maximum(values, max(SMALLEST * float(values[-1]), 1e-300)))
    basis = vectors * root
    ratio, along = np.linalg.eigh((vectors / root).T @ cov @ (vectors / root))
    basis = basis @ along
    return np.asarray((basis * np.maximum(ratio, 1.0)) @ basis.T)


def _divided(m: Array, g: Array) -> Array:
    """M⁻¹ g of symmetric matrices, shape (draws, q, q), with eigenvalues of at least `LEAST`; shape (draws, q)."""
    try:  # as a rule all eigenvalues are, which this shows in a tenth of the time that computing them takes
        np.linalg.cholesky(m - LEAST * np.eye(len(g)))
        return np.asarray(np.linalg.solve(m, np.broadcast_to(g, m.shape[:-1])[..., None])[..., 0])
    except np.linalg.LinAlgError:
        pass
    values, vectors = np.linalg.eigh(m)
    along = np.einsum("kij,i->kj", vectors, g) / np.maximum(values, LEAST)
    return np.asarray(np.einsum("kij,kj->ki", vectors, along))


def _root(cov: Array) -> Array:
    """R with R Rᵀ a covariance, which rounding may have made a little less than one."""
    try:
        return np.asarray(np.linalg.cholesky(cov), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(cov)
        return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
