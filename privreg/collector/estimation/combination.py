"""One-step estimates of several rounds, averaged: each state is moved to where its mean report would be zero.

The step follows from the curvature M, `curvature.learn`, in coordinates in which the reference model has M = I, to
which rounds are carried (sections 5, 7 and 8 of docs/estimator.md).
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.covariates.whitening import triangle
from privreg.collector.estimation import coordinates, curvature, reference
from privreg.collector.estimation.curvature import CARRY, LEAST, SMALLEST, Curvature, RoundMeans, floored, means
from privreg.collector.estimation.reference import Reference
from privreg.collector.plan import Carried, Local, Plan, Progress, ScoreRound
from privreg.protocol.rounds import State

DRAWS: Final = 400
TAILS: Final = (1.0 + 1.959963984540054**2) / 3.0
"""Factor of the variance that a noisy standard error adds, so that normal quantiles hold at 95%. Where the variance of
a standard error's logarithm is v, Student's quantile is z {1 + (1 + z²) v/2} with z normal (1/(2v) degrees of freedom),
and the mean of M⁻¹ Σ M⁻¹ is larger by 3 v only."""
WIDEST_THRESHOLD: Final = 2.0  # Threshold c of a round, relative to the last, up to which it enters the estimate
NEARLY: Final = 1.0 + 1e-9
FLATTEST: Final = 0.01  # Least singular value of a slope, relative to its largest; smaller ones are raised to it
SPREAD: Final = 0.9
"""Sd of the logarithm of a covariate's spread relative to the residuals' scale's, where curvature goes with the
coefficients and bounds are far away (`coordinates.unbound`): second moments, which the reference model has of
covariates, may be those of a few records far out. Times `curvature.SLOPE` it is rather wider than where reports of
logistic and Poisson regressions are the likeliest (`benchmarks.priors`)."""


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
    """Carry rounds to where mean reports would be zero, and average: (31), (33), (34), (35) of docs/estimator.md.

    `noise`, shape (q, q), is the covariance of a report by the reference model, for the weights; `scattered` that by
    how reports scatter, for the covariance, by the reference model if not given. With `brief` the covariance leaves
    out the posterior spread of M.
    """
    q, m, (total, x, g) = len(noise), floored(curvature.mean), means(rounds)
    one = x - np.linalg.solve(m, g.T).T
    each = float(np.trace(np.linalg.solve(m, np.linalg.solve(m, noise).T))) / q
    weights = total / total.sum()
    for _ in range(4):
        far = ((x - weights @ one) ** 2).sum(axis=1)
        weights = 1.0 / (each / total + CARRY**2 * far / q)
        weights = weights / weights.sum()
    estimate, inverse, unknown = weights @ one, np.asarray(np.linalg.inv(m), dtype=np.float64), np.zeros((q, q))
    left = np.asarray((noise if scattered is None else scattered) * float(np.sum(weights**2 / total)), dtype=np.float64)
    if not brief:
        draws = _draws(curvature)
        moves = _divided(draws, weights @ g) - np.linalg.solve(m, weights @ g)
        unknown = np.asarray(moves.T @ moves / len(moves), dtype=np.float64)
        unknown = unknown + TAILS * _noise_by_curvature(inverse, draws[: len(draws) // 2] - curvature.mean, left)
    return Combined(estimate, inverse @ left @ inverse + unknown, weights, weights @ x - estimate, unknown)


def precision(curvature: Curvature, noise: Array, g: Array) -> tuple[Array, Array]:
    """Covariance of estimates that are no averages of all rounds: the parts of equation (34) of docs/estimator.md.

    `noise`, shape (q, q), is the covariance of a report; `g`, shape (k, q), are mean reports, each carried to where it
    would be zero. The parts are that of the noise, for one record, shape (q, q), and that of M's spread: r moves of all
    of them, whose squares and products sum to a covariance, shape (r, k, q).
    """
    m, draws = floored(curvature.mean), _draws(curvature)
    inverse = np.asarray(np.linalg.inv(m), dtype=np.float64)
    added = _noise_by_curvature(inverse, draws[: len(draws) // 2] - curvature.mean, noise)
    each = np.asarray(inverse @ noise @ inverse) + TAILS * added
    moves = np.stack([_divided(draws, one) - np.linalg.solve(m, one) for one in g], axis=1)
    # as few as have the same covariance, but for a thousandth
    _, sizes, along = np.linalg.svd(moves.reshape(len(moves), -1), full_matrices=False)
    some = max(int(np.searchsorted(np.cumsum(sizes**2), 0.999 * float(sizes @ sizes))) + 1, 1)
    return each, (sizes[:some, None] * along[:some]).reshape(some, *g.shape) / math.sqrt(len(moves))


def _noise_by_curvature(inverse: Array, deviations: Array, noise: Array) -> Array:
    """Mean of M⁻¹ Ω M⁻¹ to second order, less that of M's mean: T of equation (33) of docs/estimator.md.

    States have followed the noise by the true M. `own`, shape (q, q), is the inverse of M's mean, and `deviations` of M
    from it, shape (m, q, q), are as likely as their opposites.
    """
    by, carried = inverse @ deviations, inverse @ noise @ inverse
    bent = (by @ by).mean(axis=0) @ carried
    return np.asarray((by @ carried @ by.transpose(0, 2, 1)).mean(axis=0) + bent + bent.T)


def _draws(curvature: Curvature) -> Array:
    """Draws of M from its posterior, always the same ones, in pairs about the mean; shape (draws, q, q)."""
    q, rows = len(curvature.mean), curvature.rows
    rng = np.random.Generator(np.random.PCG64(20_000 + q))
    if rows is not None:
        e = rng.standard_normal((DRAWS // 2, q, q)) * np.sqrt(rows.variance)
        half = 0.5 * (rows.left @ e @ rows.right.T)
        deviation = half + half.transpose(0, 2, 1)
        deviation += math.sqrt(rows.multiple) * rng.standard_normal((DRAWS // 2, 1, 1)) * np.eye(q)
    else:
        row, col = triangle(q)
        try:
            root: Array = np.asarray(np.linalg.cholesky(curvature.cov), dtype=np.float64)
        except np.linalg.LinAlgError:  # rounding may have made it a little less than a covariance
            values, vectors = np.linalg.eigh(curvature.cov)
            root = np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)))
        e, deviation = rng.standard_normal((DRAWS // 2, len(row))) @ root.T, np.zeros((DRAWS // 2, q, q))
        deviation[:, row, col] = deviation[:, col, row] = e
    return np.concatenate([curvature.mean + deviation, curvature.mean - deviation])


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
        values, vectors = np.linalg.eigh(m)
        along = np.einsum("kij,i->kj", vectors, g) / np.maximum(values, LEAST)
        return np.asarray(np.einsum("kij,kj->ki", vectors, along))


def carry_rounds(
    plan: Plan, progress: Progress, model: Reference, theta: Array, scale: float, *, nearby: bool = False
) -> Carried:
    """Rounds in coordinates in which the reference model has M = I: equations (21) and (22) of docs/estimator.md.

    The model is taken at `theta`, shape (b d,); with `nearby`, as linear between that and all states.
    """
    main, local = progress.main, _local(plan, progress, model, theta, scale)
    inverse, last = np.linalg.inv(local.root), main[-1]
    noise = inverse @ local.noise[last.kind] @ inverse.T
    size, out = float(np.trace(noise)), list[curvature.RoundMeans]()
    for one in counted(plan, progress):
        weight, map_ = one.weight.sum(axis=0), local.map
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        if not nearby or one.state.c != last.state.c:
            here = reference.secant(model, one.state.theta, one.state.c, theta, scale)
            map_ = inverse @ (local.root @ local.root.T) @ np.linalg.inv(kept(here))
        states = (one.state.theta + one.state.offsets) @ local.root
        # a joint report's noise is larger, and a score with another threshold c is scaled
        times = float(np.trace(map_ @ local.noise[one.kind] @ map_.T)) / size if size > 0.0 else 1.0
        bias, weight = local.biases[offset_kind(one.state)], weight / max(times, 1e-12)
        out.append(curvature.RoundMeans(states, (mean - bias) @ map_.T, weight, map_, bias))
    # the mean of M is known where residuals within c are counted, or where it follows from predictors
    known = plan.rules.scoring.symmetric if plan.rules.track else not model.scaled
    prior = curvature.Prior(math.hypot(curvature.COMMON if known else curvature.COMMON_ELSEWHERE, model.unsure))
    gain = curvature.gain(noise, varying=False)
    if plan.rules.varying:  # part of the way that states went, if curvature is about the reference model's
        most = max(float(r.weight.sum()) for r in out)
        back = np.linalg.inv(local.root.T)
        gain = local.root.T @ curvature.gain(back @ noise @ back.T / max(most, 1e-300), varying=True) @ back
    return Carried(out, len(main), gain, noise, local, prior)


def _local(plan: Plan, progress: Progress, model: Reference, theta: Array, scale: float) -> Local:
    """Moments of a report at `theta` under the reference model; those already computed are reused if unchanged.

    Equation (15) of docs/estimator.md, and second moments of reports, noise included, for (22).
    """
    last, known = progress.main[-1].state, progress.local
    if known is None or not known.fixed or (known.c, known.scale) != (last.c, scale):
        slope = reference.secant(model, theta, last.c, theta, scale)
        values, vectors = np.linalg.eigh(np.nan_to_num(0.5 * (slope + slope.T)))  # far off there may be no curvature
        values = np.maximum(values, FLATTEST * (float(values[-1]) if values[-1] > 0.0 else 1.0))
        slope = np.asarray((vectors * values) @ vectors.T)
        root = np.asarray(np.linalg.cholesky(slope), dtype=np.float64)
        inverse, size = np.linalg.inv(root), plan.size
        slopes = np.zeros((0, size, size))
        if size <= curvature.MOST:  # else it is learned row by row, without them
            slopes = reference.slopes(model, theta, last.c, scale) / math.sqrt(size)
            if plan.rules.varying:
                at, unit = (last.rows[: plan.d, : plan.d], theta, last.c, scale), not plan.label
                more = reference.spreads(model, *at, constant=plan.layout.constant, unit=unit)
                far = SPREAD * coordinates.unbound(plan, progress, last)
                slopes = np.concatenate([slopes, far[:, None, None] * more])
        to, fixed = inverse @ slope @ np.linalg.inv(kept(slope)), model.scaled and not plan.label
        known = Local(last.c, scale, fixed, root, to, inverse @ slopes @ inverse.T, {}, {})
    noises, biases, additive = dict(known.noise), dict(known.biases), plan.mechanism.additive
    for one in counted(plan, progress):
        if (kind := offset_kind(one.state)) not in biases:
            biases[kind] = offset_bias(plan, model, theta, one.state, scale)
        if one.kind in noises:
            continue
        (kappa, c), noise = one.kind, one.sd**2 * np.eye(plan.size)
        if plan.label:
            mean = None if additive else reference.means(model, theta, c, theta, scale)
            at_state = theta, c, one.sd, limits(plan, one.state)
            noise = reference.public_noise(model, *at_state, plan.function, kappa, mean=mean)
        elif not additive and not kappa > 0.0:  # what is sent has the same size whatever the score
            noise = plan.mechanism.sent(reference.directions(model), plan.radius("main"))
        noises[one.kind] = noise + reference.variance(model, theta, c, theta, scale) if additive else noise
    return known._replace(noise=noises, biases=biases)


def offset_kind(state: State) -> tuple[bytes, float]:
    """Key of `offset_bias`: second moments of the offsets, the same with all signs changed, and threshold c."""
    return (state.offsets.T @ state.offsets).tobytes(), state.c


def offset_bias(plan: Plan, model: Reference, theta: Array, state: State, scale: float) -> Array:
    """Bias of a state's mean report by groups' offsets, under the reference model, shape (b d,): scores are not linear.

    0 if errors are symmetric; skewness, which nobody knows, remains in the estimand.
    """
    if not state.offsets.any() or not (plan.rules.varying or plan.rules.centre != 0.0):
        return np.zeros(plan.size)
    return reference.offset_bias(model, theta, state.offsets.T @ state.offsets / len(state.offsets), state.c, scale)


def counted(plan: Plan, progress: Progress) -> list[ScoreRound]:
    """Rounds in the estimate: main ones, and the last two of the pilot if their threshold c is about the last one's.

    For hinges and the like, for quantiles but the median and for expectiles, main ones alone, as mean scores far from
    the estimate are not the reference model's: with two rounds of the pilot, coefficients of 0.9 quantiles with skewed
    errors covered 86% instead of 88% (50,000 records).
    """
    main, rules = progress.main, plan.rules
    if (rules.varying and rules.track) or rules.centre != 0.0 or progress.since > 0:
        return main
    widest = WIDEST_THRESHOLD if plan.like is None else NEARLY  # another c would make another estimand
    c = widest * main[-1].state.c
    pilots = [s for s in progress.scored if s.state.role == "pilot" and s.state.c < c and s.weight.any()]
    return [*pilots[-2:], *main]


def limits(plan: Plan, state: State) -> tuple[float, float]:
    """Public limits of the response, in units of the learned scale."""
    return (plan.y_low - state.y_centre) / state.y_scale, (plan.y_high - state.y_centre) / state.y_scale


def kept(matrix: Array) -> Array:
    """Matrix with singular values of at least 1% of the largest."""
    u, values, v = np.linalg.svd(np.nan_to_num(matrix))
    return np.asarray((u * np.maximum(values, FLATTEST * (float(values[0]) or 1.0))) @ v)


def observed(plan: Plan, progress: Progress) -> list[reference.Observed]:
    """Mean reports of all rounds of scores, with their variances."""
    seen = []
    for one in progress.scored:
        people, state = float(one.weight.sum()), one.state
        variances = (one.sd**2 + 0.5 / (state.longest**2 or plan.d)) / people, (one.sd**2 + 0.25) / people
        score = one.score.sum(axis=(0, 1)) / people
        seen.append(reference.Observed(state.theta, state.c, score, one.number, *variances))
    return seen
