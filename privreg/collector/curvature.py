"""Curvature, learned from mean reports at several states.

Within a round g̃ = M (x − x*) + noise of known size, x the state in coordinates in which the reference model says
M = I. M is symmetric, being the curvature of a loss. It is learned from how reports differ between the groups of a
round, which answer a little apart, and between rounds, whose states follow earlier reports: what their noise has in
common with later states, which would bias M upwards, is known and taken off.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dtrtrs

from privreg.arrays import triangle

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privreg.arrays import Array

WIDEST: Final = 0.4  # Prior sd of the eigenvalues of M about their mean where reports tell M well

STEPS: Final = (1.0, 1.5, 2.25)
"""Multiples of it of which reports choose one: models of covariates are so wrong on real data.

Where curvature goes with the coefficients, offsets are shorter and tell less: a choice would follow noise, so that
standard errors of few records vary by a third and more, and there is none."""

SLOPES: Final = (0.3, 0.8)
"""Prior sd of the logarithm of the residuals' scale over all directions together, of which reports choose one.

Residuals that grow wider along a covariate, or a group that the model doesn't fit, make curvature low there, and the
law says how. With it, intervals of the same length hold in designs where they didn't (`benchmarks.validity`), and those
of rare levels are less short."""

ROUGH: Final = 1, 0.5  # Step and slope where the posterior's mean is enough

ENTRY_SD: Final = 0.32
"""Sd with which reports tell an entry of M at which the prior sd of eigenvalues is half of that: where they tell
nothing, a wide prior would make intervals of noise. It falls with the fourth power: by the second, intervals of many
coefficients were longer for no gain."""

NOTHING: Final = 1e6
"""Of the square of that sd over what reports tell, so large that no more is asked: its square is a number."""

ENTRY_SD_VARYING: Final = 0.45
"""The same where curvature goes with the coefficients: offsets are shorter there, and show less. With 0.32,
and covariates' spread a little less free, intervals were shorter by up to 7%, and those of two more coefficients held
in less than 92% of 1,000 fits (`benchmarks.validity`)."""

SLOPE_SD: Final = 0.4  # The same of slopes, which are fewer, by the second power: that of rare levels needs them

COMMON: Final = 0.3
"""Prior sd of the mean of the eigenvalues about 1 where curvature doesn't go with a residual scale.

With 0.2, a coefficient of counts with a wrong link covered 92.2% instead of 94.0% of 400 fits; intervals are longer by
4 to 6% for it."""

COMMON_OF_RESIDUALS: Final = 0.6  # The same where curvature goes with a residual scale, which few reports tell badly

VAGUE: Final = (5.0, 2.0)  # Prior sds that hardly say anything, of the eigenvalues and of their mean

NARROWEST: Final = 0.12  # Least prior sd of the eigenvalues: what a reference model is at least wrong by

MOST: Final = 24  # Coefficients up to which all entries of M are learned together; of more row by row

SMALLEST: Final = 1e-12  # Noise of a direction, relative to the largest, at least

SPREADS: Final = (0.12, 0.2, 0.3, 0.45, 0.7)
"""Prior sds of the eigenvalues then, of which reports choose one. Noise of many moments alone makes it a third
and more."""

CARRY: Final = 0.5  # Part of the way a round is carried that is taken to be lost to curvature that changes on the way

GAIN: Final = 0.6
"""Part of the way from a state to its own reports' one-step estimate that the next state goes. With 0.8, coefficients
of right models had a standard error larger by a hundredth, and curvature was learned little better."""

STEADY: Final = 0.5
"""Sd, on the scale of the predictor, that the noise of one round gives the next state, at most, where curvature depends
on the coefficients: it falls off outwards, and states that wander there multiply noise. Each direction has an equal
part of it: where one is known badly, the others go on."""

SLOWEST: Final = 0.1  # Part of the way that is gone even so


class RoundMeans(NamedTuple):
    """Mean reports of one round, by group; in coordinates in which the reference model has M = I."""

    x: Array  # States; shape (groups, q)
    g: Array  # Mean reports; shape (groups, q)
    weight: Array  # Records, or their weights summed; shape (groups,)


class ByRows(NamedTuple):
    """What isn't known of M = m I + ½ (A + Aᵀ), A = Q Ã Vᵀ with independent entries of Ã."""

    multiple: float  # Variance of m
    left: Array  # Q, shape (q, q)
    right: Array  # V, shape (q, q)
    variance: Array  # Of Ã; shape (q, q)


class Curvature(NamedTuple):
    """Posterior of M."""

    mean: Array  # shape (q, q)
    # Of the entries of its lower triangle, row by row, shape (q (q + 1) / 2,) squared; (0, 0) if not asked for
    cov: Array
    spread: float  # Prior sd of its eigenvalues that was taken
    rows: ByRows | None = None  # In place of the covariance, if M was learned row by row


class Prior(NamedTuple):
    """How wrong the reference model's curvature may be: equations (27) and (29) of docs/estimator.md."""

    common: float  # ρ, sd of the mean of the eigenvalues about 1
    widest: float  # Sd of the eigenvalues about their mean where reports show M well
    unclear: float  # r₀, sd of an entry by reports alone at which that sd is half as large
    steps: tuple[float, ...]  # t, multiples of that sd of which reports choose one
    slopes: tuple[float, ...]  # b, sds along the ways in which the model may be wrong; none: these don't count

    def widths(self, precision: Array, gram: Array, *, brief: bool, several: bool) -> list[tuple[float, float]]:
        """Sds of eigenvalues and along slopes that are tried; of `brief` ones where there is a choice the middle."""
        r2 = float(np.mean(1.0 / np.maximum(np.diag(precision) * np.diag(gram), 1e-300)))
        widest = self.widest / (1.0 + min(r2 / self.unclear**2, NOTHING) ** 2)
        along = 1.0 / (1.0 + r2 / SLOPE_SD**2)
        steps, slopes = self.steps, (self.slopes if several else self.slopes[:1]) or (0.0,)
        if brief and len(steps) > 1:
            step, slope = ROUGH
            steps, slopes = steps[step : step + 1], (slope,)
        return [(max(widest * step, NARROWEST), slope * along) for step in steps for slope in slopes]


def prior_of(*, scaled: bool, varying: bool) -> Prior:
    """The prior of a family: whether its curvature goes with a residual scale, and with the coefficients."""
    common = COMMON_OF_RESIDUALS if scaled else COMMON
    if varying:
        return Prior(common, WIDEST, ENTRY_SD_VARYING, (1.0,), SLOPES[:1])
    return Prior(common, WIDEST, ENTRY_SD, STEPS, SLOPES)


def vague() -> Prior:
    """A prior that hardly says anything, so that reports speak alone."""
    widest, common = VAGUE
    return Prior(common, widest, math.inf, (1.0,), ())


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
    reference model may be wrong, as far as it may be if `SLOPES` were 1: residuals wider along a direction,
    `reference.slopes`, covariates wider or narrower, `reference.spreads`. The last `main` rounds have states that
    follow reports, by a part `gain` of the way, shape (q, q), `GAIN` if not given: differences between them count, too.
    `brief` says whether the posterior's mean is enough.
    """
    q, prior = len(noise), prior or prior_of(scaled=True, varying=False)
    precision = _inverted(noise)
    gram, cross = np.zeros((q, q)), np.zeros((q, q))
    for r in rounds:
        x = r.x - r.weight @ r.x / r.weight.sum()
        wx = x * r.weight[:, None]
        gram += wx.T @ x
        cross += r.g.T @ wx
    if main > 1:
        more, by = _between(rounds[-main:], noise, GAIN * np.eye(q) if gain is None else gain)
        gram, cross = gram + more, cross + by
    if q > MOST:
        return _by_rows(noise, precision, gram, cross, prior)
    scores = precision @ cross  # Σ n Ω⁻¹ g x'
    row, col = triangle(q)
    half = np.where(row == col, 0.5, 1.0)
    info = _information(precision, gram, row, col)
    linear = (scores[row, col] + scores[col, row]) * half
    on = np.flatnonzero(row == col)
    common_part = prior.common * (row == col)[:, None].astype(np.float64)
    directions = np.zeros((len(row), 0)) if slopes is None or not prior.slopes else slopes[:, row, col].T
    best: tuple[float, Array, Array, float] | None = None
    several = directions.shape[1] > 0
    for spread, slope in prior.widths(precision, gram, brief=brief, several=several):
        # the prior's covariance: τ² of diagonal entries and τ²/2 of others, and what many share
        each = np.where(row == col, 1.0, 0.5) * spread**2 / (0.5 * (q + 1))
        before, log_det = _precision(each, np.column_stack([common_part, slope * directions]))
        pull = before[:, on].sum(axis=1)  # of the prior's mean, 1 on the diagonal
        posterior, right = info + before, linear + pull
        root, failed = dpotrf(posterior, lower=0)  # Rᵀ R
        if failed:  # rounding, where nobody has some of the levels and there is no noise
            values, vectors = np.linalg.eigh(posterior)
            posterior = (vectors * np.maximum(values, SMALLEST * float(values[-1]))) @ vectors.T
            root, _ = dpotrf(posterior + SMALLEST * float(values[-1]) * np.eye(len(row)), lower=0)
        half_way, _ = dtrtrs(root, right, lower=0, trans=1)
        evidence = 0.5 * float(half_way @ half_way) - float(np.log(np.diag(root)).sum())
        evidence -= 0.5 * (float(pull[on].sum()) + log_det)
        if best is None or evidence > best[0]:
            best = evidence, root, half_way, spread
    assert best is not None
    _, root, half_way, spread = best
    mean_m = np.zeros((q, q))
    mean_m[row, col] = dtrtrs(root, half_way, lower=0)[0]
    cov = np.zeros((0, 0)) if brief else _inverse(root)
    return Curvature(np.tril(mean_m) + np.tril(mean_m, -1).T, cov, spread)


def _by_rows(noise: Array, precision: Array, gram: Array, cross: Array, prior: Prior) -> Curvature:
    """Posterior of M where it has too many entries to be learned together: M = m I + ½ (A + Aᵀ).

    A has independent entries a priori. So has Qᵀ A V, and what reports tell of these is independent, too, Q being the
    eigenvectors of the noise and V those of the states' squares.
    """
    q = len(gram)
    have = float(np.sum(precision * gram)) + prior.common**-2
    mean = (float(np.sum(precision * cross)) + prior.common**-2) / have
    each_row, left = np.linalg.eigh(noise)
    each_row = np.maximum(each_row, SMALLEST * max(float(each_row[-1]), SMALLEST))[:, None]
    size, right = np.linalg.eigh(gram)
    size = np.maximum(size, 0.0)
    reported = left.T @ (cross - mean * gram) @ right
    best: tuple[float, Array, float] | None = None
    for spread in SPREADS if prior.slopes else (prior.widest,):
        each = 2.0 * spread**2 / (q + 1.0)  # prior variance of an entry of A
        shrunk = each / (each * size + each_row)
        evidence = 0.5 * float(np.sum(reported**2 * shrunk / each_row) - np.log1p(each * size / each_row).sum())
        if best is None or evidence > best[0]:
            best = evidence, shrunk, spread
    assert best is not None
    _, shrunk, spread = best
    deviation = left @ (reported * shrunk) @ right.T
    rows = ByRows(1.0 / have, left, right, each_row * shrunk)
    return Curvature(mean * np.eye(q) + 0.5 * (deviation + deviation.T), np.zeros((0, 0)), spread, rows)


def _between(rounds: Sequence[RoundMeans], noise: Array, gain: Array) -> tuple[Array, Array]:
    """Squares of differences of rounds' states, and their products with mean reports, both weighted by records.

    The start's error and all rounds' noise move the states, most along directions in which little curvature lets them
    come slowly, so that it shows where it matters. A round's noise moves the states after it by −G (I − G)^i of
    itself, G the `gain`, i the rounds between, and so their mean, from which its own state is counted: this part of the
    product is expected to be positive, whatever M is, and subtracted. A round far out counts less, as in `combine`.
    Equation (26) of docs/estimator.md. Where a state follows the mean of several rounds (`rounds._latest`: as a rule in
    families whose last pilot round is larger than a main one, as logistic ones), a part of it comes a round later than
    is taken off here.

    References
    ----------
    Hurwicz, Least squares bias in time series, 1950: the bias of a slope on values that follow its errors.
    """
    total, x, g = means(rounds)
    each = float(np.trace(noise)) / len(noise)
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
    return (x.T * weight) @ x, (g.T * weight) @ x - noise @ chance.T


def gain(noise: Array, *, varying: bool) -> Array:
    """Part of the way to a one-step estimate that the next state goes, (q, q): equation (24) of docs/estimator.md.

    `noise`, shape (q, q), is what the noise of one round gives that estimate, on the scale of the predictor; `varying`
    says whether curvature goes with the coefficients.
    """
    if not varying:
        return GAIN * np.eye(len(noise))
    square, along = np.linalg.eigh(noise)
    sd = np.sqrt(np.maximum(square, 1e-300))
    return np.asarray((along * np.clip(STEADY / (math.sqrt(len(noise)) * sd), SLOWEST, GAIN)) @ along.T)


def means(rounds: Sequence[RoundMeans]) -> tuple[Array, Array, Array]:
    """Weights of rounds, shape (k,), and their mean states and reports, two of shape (k, q)."""
    total = np.array([r.weight.sum() for r in rounds])
    x = np.array([r.weight @ r.x for r in rounds]) / total[:, None]
    g = np.array([r.weight @ r.g for r in rounds]) / total[:, None]
    return total, x, g


def _precision(each: Array, among: Array) -> tuple[Array, float]:
    """Inverse of diag(`each`) + U Uᵀ, U of shape (m, k), and the logarithm of the determinant of that sum."""
    scaled = among / each[:, None]
    inner = np.eye(among.shape[1]) + among.T @ scaled
    out = -scaled @ np.linalg.solve(inner, scaled.T)
    out.flat[:: len(each) + 1] += 1.0 / each
    return np.asarray(out), float(np.log(each).sum() + np.linalg.slogdet(inner)[1])


def _information(precision: Array, gram: Array, row: NDArray[np.intp], col: NDArray[np.intp]) -> Array:
    """Information J on the entries of M = Σ m_e E_e, E_e symmetric with ones at (a, b) and (b, a).

    Equation (28) of docs/estimator.md.
    """
    by_row, by_col = precision.take(row, axis=0), precision.take(col, axis=0)
    # both matrices are symmetric: of the four products two are each other's transpose
    mixed = by_row.take(col, axis=1) * gram.take(col, axis=0).take(row, axis=1)
    info = by_row.take(row, axis=1) * gram.take(col, axis=0).take(col, axis=1)
    info += mixed
    info += mixed.T
    info += by_col.take(col, axis=1) * gram.take(row, axis=0).take(row, axis=1)
    once = row == col
    info[once] *= 0.5
    info[:, once] *= 0.5
    return info


def _inverted(noise: Array) -> Array:
    """Inverse of a covariance, none of whose eigenvalues is taken for 0."""
    try:
        return np.asarray(np.linalg.inv(noise), dtype=np.float64)
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(noise)
        values = np.maximum(values, max(SMALLEST * float(values[-1]), 1e-300))
        return np.asarray((vectors / values) @ vectors.T)


def _inverse(root: Array) -> Array:
    """Inverse of Rᵀ R, R upper triangular."""
    upper, _ = dpotri(root, lower=0)
    return np.asarray(np.triu(upper) + np.triu(upper, 1).T)


def along(curvature: Curvature, directions: Array) -> tuple[Array, Array]:
    """Curvature along unit vectors, shape (m, q), and its posterior sd, two of shape (m,), of all entries.

    For equation (39) of docs/estimator.md.
    """
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
