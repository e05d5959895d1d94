"""Several linear predictors: contrasts of classes, their scores, a start, and a reference model."""

import math
from typing import Final

import numpy as np

from privreg.base.arrays import Array, Ints

LEAST_CLASS: Final = 0.05  # Share of a class, relative to an even one, at least: noise may make it none, or less
ROOT2: Final = math.sqrt(2.0)


def contrasts(share: Array) -> tuple[Array, Array]:
    """Contrasts of classes, the directions in which their covariance diag p − p p' is diagonal: Equation (18).

    They are orthonormal rows, shape (K − 1, K), that add up to 0, with variances along them, shape (K − 1,), for
    positive shares p of the classes, shape (K,).
    """
    size = len(share)
    flat = np.eye(size) - 1.0 / size
    covariance = flat @ (np.diag(share) - np.outer(share, share)) @ flat
    values, vectors = np.linalg.eigh(covariance + np.full((size, size), 1.0 / size))  # the constant's value is 1, last
    return np.asarray(vectors[:, :-1].T), np.asarray(values[:-1])


def against_first(classes: Array) -> Array:
    """Matrix from the coefficients of contrasts to those of classes against the first: Equation (18); (b, b)."""
    if not classes.size:
        return np.eye(1)
    return np.asarray((classes[:, 1:] - classes[:, :1]).T / ROOT2)


def scores(classes: Array, theta: Array, z: Array, y: Ints) -> tuple[Array, Array]:
    """Unit scores of rows z by contrasts, shape (m, b), and their slopes, (m, b, b): Equation (19).

    Their norms are 1 and ¼ at most, whatever the coefficients `theta`, shape (b d,), of contrasts `classes`.
    """
    eta = z @ theta.reshape(len(classes), -1).T @ classes / ROOT2
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    share /= share.sum(axis=1, keepdims=True)
    mean = share @ classes.T
    slope = np.einsum("ik,mk,jk->mij", classes, share, classes) - mean[:, :, None] * mean[:, None, :]
    return (mean - classes[:, y].T) / ROOT2, 0.5 * slope


def start(classes: Array, lines: Array, second: Array, one: Array) -> tuple[Array, Array, Array]:
    """Coefficients of predictors from least squares of contrasts: Equation (20).

    `classes`, shape (b, K), are contrasts of equally frequent classes; `lines`, shape (b, d), least squares
    coefficients of the contrasts of what was answered. `second`, shape (d, d), are second moments of covariates, and
    `one`, shape (d,), coefficients that give 1 for everybody.

    It gives contrasts of classes as frequent as they are, shape (b, K); curvature along them, relative to its mean,
    shape (b,); and coefficients, shape (b d,).
    """
    size = classes.shape[1]
    share = np.maximum(1.0 / size + classes.T @ (lines @ second @ one), LEAST_CLASS / size)
    share /= share.sum()
    out, values = contrasts(share)
    slopes = ROOT2 * (out @ classes.T @ lines) / values[:, None]
    centre = slopes @ second @ one
    far = math.sqrt(max(float(np.sum((slopes @ second) * slopes) - centre @ centre), 0.0) / len(out))
    slopes *= min(1.0, 2.5 / max(far, 1e-12))
    at = ROOT2 * out @ np.log(share) - slopes @ second @ one
    return out, values / values.mean(), (slopes + np.outer(at, one)).reshape(-1)


def start_in_order(lines: Array, second: Array, cuts: Array, rows: Array) -> tuple[Array, Array, tuple[float, float]]:
    """Coefficients of rows at cut points from least squares of 1{y > k}: Equation (53).

    `lines`, shape (d,), are the least squares coefficients, `second`, shape (d, d), second moments of rows z = `rows` x
    at all cut points, and `cuts`, shape (K − 1, d), what x has at each beyond the first. The share above each cut point
    at the mean of covariates gives its logit there, and its weight.

    It gives coefficients, shape (d,); second moments in which cut points have the weight of their slope, relative to
    its mean, shape (d, d); and the mean slope and mean squared score of a record.
    """
    k, mean = len(cuts), second @ np.linalg.inv(rows)[0]
    at = mean + (cuts - cuts.mean(axis=0)) @ rows.T  # mean rows at each cut point
    least = LEAST_CLASS / (k + 1.0) * np.arange(k + 2.0)[1:-1]  # of all levels above, and of all below
    share = np.minimum.accumulate(np.clip(at @ lines, least[::-1], 1.0 - least) + least) - least
    slope = share * (1.0 - share)
    by, both = float(slope.mean()), np.minimum.outer(share, share) - np.outer(share, share)
    within = second - at.T @ at / k
    far = math.sqrt(max(float(lines @ within @ lines), 0.0)) / by
    slopes = lines * min(1.0, 2.5 / max(far, 1e-12)) / by
    left = np.log(share / (1.0 - share)) - at @ slopes
    added = np.linalg.pinv(cuts) @ (left - left[0])
    added[0] += left[0]
    weighted = within + (at.T * (slope / by)) @ at / k
    return slopes + np.linalg.solve(rows.T, added), weighted, (by, float(both.mean()))


def points(second: Array, one: Array, reach: float) -> tuple[Array, Array]:
    """Rows, shape (2 d, d), with these second moments and symmetric about their mean; ω over their number: (22)."""
    mean = second @ one
    values, vectors = np.linalg.eigh(second - np.outer(mean, mean))
    far = vectors * np.sqrt(len(one) * np.maximum(values, 0.0))
    z = np.concatenate([mean + far.T, mean - far.T])
    return z, np.minimum(1.0, reach**2 / np.square(z).sum(axis=1)) / len(z)


def mean_score(classes: Array, theta: Array, z: Array, weight: Array) -> tuple[Array, Array]:
    """Mean score of such records, but for a constant, and its slope; shapes (b d,), (b d, b d)."""
    score, slope = scores(classes, theta, z, np.zeros(len(z), dtype=np.int64))
    steep = np.einsum("n,nij,na,nc->iajc", weight, slope, z, z)
    return ((score * weight[:, None]).T @ z).reshape(-1), steep.reshape(len(theta), -1)
