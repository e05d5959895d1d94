"""Curvature, learned from mean reports at several states.

Within a round g̃ = M (x − x*) + noise of known size, x the state in coordinates in which the reference model has M = I.
M is symmetric, learned from how reports differ between the groups of a round, whose states differ by small offsets, and
between rounds, whose states follow earlier reports.
"""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from privreg.base.arrays import Array
from privreg.collector.covariates.whitening import triangle

SPREAD: Final = 0.25
"""Prior sd of the eigenvalues of M about their mean. This, `SLOPE` and `COMMON` are rather wider than where reports are
the likeliest (`benchmarks.priors`). With a width that followed reports, standard errors varied more between fits
(`benchmarks.conditional`)."""
SLOPE: Final = 0.4
"""Prior sd of the logarithm of the residuals' scale over all directions together. Residuals that grow wider along a
covariate, or a group that the model doesn't fit, make curvature low there."""
COMMON: Final = 0.1
"""Prior sd of the mean of the eigenvalues about 1, where the pilot or the predictor gives it: the error that is allowed
for, relative to it, of the share of residuals within the threshold c, by which the pilot does."""
COMMON_ELSEWHERE: Final = 0.6  # `COMMON` where curvature is a density far from its centre, which nobody has reported
MOST: Final = 24  # Coefficients up to which all entries of M are learned together, q⁴/4 numbers; beyond, row by row
LEAST: Final = 0.1
"""Floor, relative to the usual value: of eigenvalues of M, of the curvature of squared loss beyond the response's
limits, and of the part of the way to the one-step estimate, however much noise that gives a state."""
SMALLEST: Final = 1e-12  # Least variance of the noise along a direction, relative to the largest
SPREADS: Final = tuple(SPREAD * 2.0 ** (k / 2.0) for k in range(-2, 4))
"""Prior sds of the eigenvalues with more coefficients than `MOST`, of which reports choose one. Noise of many moments
alone makes it a third and more."""
CARRY: Final = 0.5  # Part of the way a round is carried that is taken to be lost to curvature that changes on the way
GAIN: Final = 0.6
"""Part of the way from a state to its own reports' one-step estimate that the next state goes. With 0.8, coefficients
of right models had a standard error larger by a hundredth, and curvature was learned little better."""
STEADY: Final = 0.5
"""Sd, on the scale of the predictor, that the noise of one round gives the next state, at most, where curvature depends
on the coefficients: it falls off outwards, and states that wander there multiply noise. Each direction has an equal
part of it: where one is known badly, the others go on. The reference model is asked for curvature no farther from the
mean state."""
FAR: Final = 1.5
"""Units of c, or of the predictor where curvature depends on it, by which a state may move in one round. A predictor
with a larger sd of its error, along one direction of whitened covariates, doesn't show curvature: in design "counts,
mostly none" of `benchmarks.validity`, slopes of such fits covered 81%, others 94%."""


class RoundMeans(NamedTuple):
    """Mean reports of one round, by group; in coordinates in which the reference model has M = I."""

    x: Array  # States; shape (groups, q)
    g: Array  # Mean reports; shape (groups, q)
    weight: Array  # Records, or their weights summed; shape (groups,)
    map: Array = np.zeros((0, 0))  # Map of reports to these coordinates, from the scores'; shape (q, q)
    bias: Array = np.zeros(0)  # Bias that was subtracted from them, scores' coordinates; shape (q,)


class ByRows(NamedTuple):
    """Posterior variance of M = m I + ½ (A + Aᵀ), A = Q Ã Vᵀ with independent entries of Ã."""

    multiple: float  # Variance of m
    left: Array  # Q, shape (q, q)
    right: Array  # V, shape (q, q)
    variance: Array  # Variances of the entries of Ã; shape (q, q)


class Curvature(NamedTuple):
    """Posterior of M."""

    mean: Array  # shape (q, q)
    # Covariance of the entries of its lower triangle, row by row, shape (q (q + 1) / 2,) squared; (0, 0) if `brief`
    cov: Array
    rows: ByRows | None = None  # In place of the covariance, if M was learned row by row


class Prior(NamedTuple):
    """Prior of M about the reference model's: equations (27) and (30) of docs/estimator.md."""

    common: float  # ρ, sd of the mean of the eigenvalues about 1
    spread: float = SPREAD  # τ, sd of the eigenvalues about their mean
    slope: float = SLOPE  # β, sd along the ways in which the model may be wrong


def vague() -> Prior:
    """A prior far wider than eigenvalues differ, so that reports alone decide."""
    return Prior(1.0 / LEAST, 1.0 / LEAST, 0.0)


def learn(
    rounds: Sequence[RoundMeans],
    noise: Array,
    prior: Prior | None = None,
    *,
    slopes: Array | None = None,
    main: int = 0,
    gain: Array | None = None,
    brief: bool = False,
) -> Curvature:
    """Posterior of M from differences within rounds and between them: equations (25) to (30) of docs/estimator.md.

    `noise`, shape (q, q), is the covariance of one record's report, the same coordinates, and `prior` that of a
    residual scale if not given. `slopes`, shape (k, q, q), are what M changes by in each of k ways in which the
    reference model may be wrong, as far as it may be if `SLOPE` were 1: `reference.slopes`, `reference.spreads`. The
    last `main` rounds have states that follow reports, by a part `gain` of the way, shape (q, q), `GAIN` if not given:
    differences between them count, too. With `brief` the posterior's mean alone is computed.
    """
    q, prior = len(noise), prior or Prior(COMMON)
    values, vectors = np.linalg.eigh(noise)
    if values[0] > SMALLEST * values[-1]:
        precision = np.asarray(np.linalg.inv(noise), dtype=np.float64)
    else:  # below which eigenvalues are rounding
        values = np.maximum(values, max(SMALLEST * float(values[-1]), 1e-300))
        precision = np.asarray((vectors / values) @ vectors.T)
    gram, cross = totals(rounds, noise, main, gain)
    if q > MOST:
        return _by_rows(noise, precision, gram, cross, prior)
    scores = precision @ cross  # Σ n Ω⁻¹ g x'
    row, col = triangle(q)
    once = row == col
    # (28): information J on entries of M = Σ m_e E_e, E_e symmetric of ones
    by_row, by_col = precision.take(row, axis=0), precision.take(col, axis=0)
    # both matrices are symmetric: of the four products two are each other's transpose
    mixed = by_row.take(col, axis=1) * gram.take(col, axis=0).take(row, axis=1)
    info = by_row.take(row, axis=1) * gram.take(col, axis=0).take(col, axis=1)
    info += mixed
    info += mixed.T
    info += by_col.take(col, axis=1) * gram.take(row, axis=0).take(row, axis=1)
    info[once] *= 0.5
    info[:, once] *= 0.5
    linear = (scores[row, col] + scores[col, row]) * np.where(once, 0.5, 1.0)
    among = prior.common * once[:, None].astype(np.float64)
    if slopes is not None and prior.slope > 0.0:
        among = np.column_stack([among, prior.slope * slopes[:, row, col].T])
    # equation (27): 2τ²/(q + 1) of diagonal entries and half of it of others (eigenvalues: sd τ), and what many share,
    # diag(each) + U U', inverted
    each = np.where(once, 1.0, 0.5) * prior.spread**2 / (0.5 * (q + 1))
    scaled = among / each[:, None]
    before = -scaled @ np.linalg.solve(np.eye(among.shape[1]) + among.T @ scaled, scaled.T)
    before.flat[:: len(each) + 1] += 1.0 / each
    # its mean is 1 on the diagonal
    posterior, right = info + before, linear + before[:, once].sum(axis=1)
    root, failed = dpotrf(posterior, lower=0)  # Rᵀ R
    if failed:  # rounding, where nobody has some of the levels and there is no noise
        values, vectors = np.linalg.eigh(posterior)
        posterior = (vectors * np.maximum(values, SMALLEST * float(values[-1]))) @ vectors.T
        root, _ = dpotrf(posterior + SMALLEST * float(values[-1]) * np.eye(len(row)), lower=0)
    half_way, _ = dtrtrs(root, right, lower=0, trans=1)
    mean_m = np.zeros((q, q))
    mean_m[row, col] = dtrtrs(root, half_way, lower=0)[0]
    upper = np.zeros((0, 0)) if brief else dpotri(root, lower=0)[0]
    return Curvature(np.tril(mean_m) + np.tril(mean_m, -1).T, np.triu(upper) + np.triu(upper, 1).T)


def totals(rounds: Sequence[RoundMeans], noise: Array, main: int, gain: Array | None) -> tuple[Array, Array]:
    """Γ and Ξ, (q, q) each: equations (25) and (26) of docs/estimator.md. Arguments are those of `learn`.

    Differences between rounds count by records. A round's noise moves the states after it by −G (I − G)^i of itself, G
    the `gain`, i the rounds between, and so their mean, from which its own state is counted: this part of the product,
    by which M would be biased upwards (Hurwicz 1950, of time series), is subtracted. A round far out counts less, as in
    `combine`. Where a state follows the mean of several rounds (`rounds._latest`: as a rule in families whose last
    pilot round is larger than a main one, as logistic ones), a part of it comes a round later than is taken off here.
    """
    q = len(noise)
    gram, cross = np.zeros((q, q)), np.zeros((q, q))
    for r in rounds:
        x = r.x - r.weight @ r.x / r.weight.sum()
        wx = x * r.weight[:, None]
        gram += wx.T @ x
        cross += r.g.T @ wx
    if main <= 1:
        return gram, cross
    gain, (total, x, g) = GAIN * np.eye(q) if gain is None else gain, means(rounds[-main:])
    each = float(np.trace(noise)) / q
    weight, centre = total, x[-1]
    for _ in range(2):
        far = ((x - centre) ** 2).mean(axis=1)
        weight = 1.0 / (1.0 / total + CARRY**2 * far / each) if each > 0.0 else total
        centre = weight @ x / weight.sum()
    x = x - centre
    chance, left = np.zeros_like(noise), gain
    for later in range(1, len(total)):
        chance += float(weight[later:] @ (weight / total)[:-later]) / float(weight.sum()) * left
        left = left - gain @ left
    return gram + (x.T * weight) @ x, cross + ((g.T * weight) @ x - noise @ chance.T)


def _by_rows(noise: Array, precision: Array, gram: Array, cross: Array, prior: Prior) -> Curvature:
    """Posterior of M if it has too many entries to be learned together: M = m I + ½ (A + Aᵀ).

    A has independent entries a priori. So has Qᵀ A V, and their likelihood is a product, too, with Q the eigenvectors
    of the noise and V those of the states' squares. The prior's width is that of `SPREADS` that reports make likeliest.
    """
    q, have = len(gram), float(np.sum(precision * gram)) + prior.common**-2
    mean = (float(np.sum(precision * cross)) + prior.common**-2) / have
    (each_row, left), (size, right) = np.linalg.eigh(noise), np.linalg.eigh(gram)
    each_row, size = np.maximum(each_row, SMALLEST * max(float(each_row[-1]), SMALLEST))[:, None], np.maximum(size, 0.0)
    reported, most, shrunk = left.T @ (cross - mean * gram) @ right, -math.inf, np.zeros((q, q))
    for spread in SPREADS if prior.slope > 0.0 else (prior.spread,):
        each = 2.0 * spread**2 / (q + 1.0)  # prior variance of an entry of A
        part = each / (each * size + each_row)
        evidence = 0.5 * float(np.sum(reported**2 * part / each_row) - np.log1p(each * size / each_row).sum())
        if evidence > most:
            most, shrunk = evidence, part
    deviation = left @ (reported * shrunk) @ right.T
    rows = ByRows(1.0 / have, left, right, each_row * shrunk)
    return Curvature(mean * np.eye(q) + 0.5 * (deviation + deviation.T), np.zeros((0, 0)), rows)


def gain(noise: Array, *, varying: bool) -> Array:
    """Part of the way to a one-step estimate that the next state goes, (q, q): equation (24) of docs/estimator.md.

    `noise`, shape (q, q), is that estimate's covariance by the noise of one round, on the scale of the predictor;
    `varying` is True if curvature depends on the coefficients.
    """
    if not varying:
        return GAIN * np.eye(len(noise))
    square, along = np.linalg.eigh(noise)
    sd = np.sqrt(np.maximum(square, 1e-300))
    return np.asarray((along * np.clip(STEADY / (math.sqrt(len(noise)) * sd), LEAST, GAIN)) @ along.T)


def means(rounds: Sequence[RoundMeans]) -> tuple[Array, Array, Array]:
    """Weights of rounds, shape (k,), and their mean states and reports, two of shape (k, q)."""
    total = np.array([r.weight.sum() for r in rounds])
    x = np.array([r.weight @ r.x for r in rounds]) / total[:, None]
    return total, x, np.array([r.weight @ r.g for r in rounds]) / total[:, None]


def along(curvature: Curvature, directions: Array) -> tuple[Array, Array]:
    """Curvature along unit vectors, (m, q), and its posterior sd, (m,) each: for equation (39) of docs/estimator.md."""
    mean = np.einsum("ij,jk,ik->i", directions, curvature.mean, directions)
    rows = curvature.rows
    if rows is not None:
        variance = np.einsum(
            "ij,jk,ik->i", (directions @ rows.left) ** 2, rows.variance, (directions @ rows.right) ** 2
        )
        return mean, np.sqrt(variance + rows.multiple)
    row, col = triangle(len(curvature.mean))
    by = directions[:, row] * directions[:, col] * np.where(row == col, 1.0, 2.0)
    return mean, np.sqrt(np.einsum("ij,jk,ik->i", by, curvature.cov, by))


def floored(m: Array, least: float = LEAST) -> Array:
    """Symmetric matrices, shape (…, q, q), with eigenvalues of at least `least`."""
    values, vectors = np.linalg.eigh(m)
    values = np.maximum(values, least)
    return np.asarray((vectors * values[..., None, :]) @ np.swapaxes(vectors, -1, -2))
