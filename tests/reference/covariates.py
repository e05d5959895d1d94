"""Coordinates of the scores from reports on second moments, and points that stand for records: `docs/estimator.md`.

Readable NumPy, for tests: a design with a constant, at most one factor, whose columns follow it, and numbers within ±1.
"""

import math

import numpy as np
from numpy.linalg import cholesky, inv
from scipy.special import betaincinv, gammaincinv, ndtr, ndtri

from privreg.collector import levels as limits
from privreg.collector.covariates import moments as m
from privreg.collector.covariates import whitening as f
from privreg.collector.estimation import coordinates


def white(d, lead):
    """E u uᵀ of a white row, its diagonal (4)."""
    square = 2.0 * gammaincinv((d - 1) / 2, (np.arange(20_000) + 0.5) / 20_000)
    return np.array([np.mean(lead / (lead + square)), *[np.mean(square / (lead + square)) / (d - 1)] * (d - 1)])


def matrix(entries, d):
    """A symmetric matrix from a report's entries, of which those off the diagonal carry √2."""
    out = np.zeros((d, d))
    out[np.tril_indices(d)] = entries
    return (out + out.T) / np.where(np.eye(d) > 0, 2.0, math.sqrt(2.0))


def entries(matrix):
    """The opposite."""
    row, col = np.tril_indices(len(matrix))
    return matrix[row, col] * np.where(row == col, 1.0, math.sqrt(2.0))


def kept(part, noise2):
    """Share of noisy numbers that is believed, positive-part James–Stein (7)."""
    total = noise2.sum()
    free = total / noise2.max()
    margin = 1.0 + limits.STRICT * math.sqrt(2.0 / free) if free > 2.0 + f.EXACT else 1.0
    return max(0.0, 1.0 - total * margin / (part @ part))


def believed(deviation, noise2, response):
    """Shrunk by groups: scales about their mean, locations, correlations, the response's row (7)."""
    d, last = len(deviation), len(deviation) - response
    out = np.diag(np.diag(deviation))
    scales, mean = np.diag(deviation)[1:last], np.diag(deviation)[1:last].mean()
    if len(scales) > 1:
        keep = kept(scales - mean, np.diag(noise2)[1:last] * (len(scales) - 1) / len(scales))
        out[range(1, last), range(1, last)] = mean + (scales - mean) * keep
    row, col = np.tril_indices(d, -1)
    group = np.where(response * (row == d - 1), 2, np.where(col == 0, 1, 3))
    for at in ((row[group == g], col[group == g]) for g in (1, 2, 3) if (group == g).any()):
        out[at] = deviation[at] * kept(deviation[at], noise2[at] / 2.0)
    return np.tril(out) + np.tril(out, -1).T


def learn(rows, memory, weight, mean, people, sd, lead, response, factor=None, shares=None):
    """One round on second moments: the row map, what it leaves, what that is worth, shares of levels (5)-(9)."""
    d = len(rows)
    length2 = lead + d - 1.0
    stretch = (length2 + 2.0) / length2
    size = np.sqrt(np.outer(white(d, lead), white(d, lead))) / stretch
    total = weight + people
    found = (weight * size * memory + people * (matrix(mean, d) - np.diag(white(d, lead)))) / total  # (5)
    left, asked = np.ones((d, d)), rows * np.r_[math.sqrt(lead), np.ones(d - 1)][:, None]
    if factor is not None:
        basis = certain(factor, asked)
        q = len(basis)
        shares = shares_of(factor, shares, basis, basis @ (basis.T @ mean[:q]), people, sd, asked)
        entry = entries(found)
        found = matrix(np.r_[basis @ (basis.T @ entry[:q]), entry[q:]], d)
        entry = entries(left)
        left = matrix(np.r_[entry[:q] * (basis**2).sum(axis=1), entry[q:]], d)
    deviation = found / size
    noise2 = (sd**2 + 2.0 / length2**2) / total * (stretch * length2) ** 2 * left  # (6)
    noise2[0, 1:] /= lead
    noise2[1:, 0] /= lead
    values, vectors = np.linalg.eigh(np.eye(d) + believed(deviation, noise2, response))
    values = np.clip(values, *f.LIMITS)
    back = inv(cholesky((vectors * values) @ vectors.T))  # (8)
    new = back @ rows
    new = new / new[0, 0]
    if factor is not None:
        white_levels = whiten(factor, shrunk(factor, shares), np.tril(new))
        back, new = white_levels @ inv(new) @ back, white_levels
    memory = back @ (np.eye(d) + deviation) @ back.T - np.eye(d)
    moved = max(values[-1] - 1.0, 1.0 / values[0] - 1.0)
    return np.tril(new), memory, total / (1.0 + m.FORGET * moved**2), shares


def lead_of(number, people, sd, d):
    """Square of the constant where curvature goes with the coefficients (6)."""
    found = coordinates.SHARP * math.sqrt(people) / sd - (d - 1.0)
    return max(min(found, coordinates.FULL * d), 1.0) if number else 1.0


# --- levels of one factor, whose columns follow the constant -------------------------------------------------------


def certain(levels, asked):
    """Orthonormal basis of what E u uᵀ can be of the constant and the levels' columns (9)."""
    z = np.column_stack([np.ones(len(levels)), levels]) @ asked[: levels.shape[1] + 1, : levels.shape[1] + 1].T
    span = np.array([entries(np.outer(one, one)) for one in z])
    return np.linalg.qr(span.T)[0]


def shrunk(levels, shares):
    """Shares of levels, positive and shrunk to equal ones (9)."""
    found, variance, _ = shares
    even = 1.0 / len(levels)
    keep = kept(found - even, variance) if variance.any() else 1.0
    p = np.clip(even + keep * (found - even), f.LEAST_LEVEL * even, 1.0)
    return p / p.sum()


def shares_of(levels, shares, basis, mean, people, sd, asked):
    """Shares of levels by this round's reports and those before (9)."""
    found, variance, before = shares
    lead, c = levels.shape[1] + 1, len(levels)
    first = np.arange(1, lead + 1).cumsum() - np.arange(1, lead + 1)
    once, back = np.where(first == 0, 1.0, math.sqrt(0.5)), inv(asked[:lead, :lead])
    points, cell = stand_ins(levels, shrunk(levels, shares), asked, np.ones(len(asked)))
    inverse = 1.0 / ((points[:, 1:] ** 2).sum(axis=1) + asked[0, 0] ** 2)
    length = np.bincount(cell, inverse, c) / np.bincount(cell, minlength=c)
    by = np.linalg.pinv(np.column_stack([np.ones(c), levels]).T)
    share = by @ back @ (once * mean[first]) / length
    noise = ((by @ back @ (once[:, None] * basis[first])) ** 2).sum(axis=1) / length**2
    new = share / share.sum()
    error2 = (noise * (sd / share.sum()) ** 2 + np.abs(new * (1.0 - new))) / people
    a, b = before / (before + people), people / (before + people)
    return a * found + b * new, a**2 * variance + b**2 * error2, before + people


def whiten(levels, p, rows):
    """The row map with the levels' columns white by their shares (9)."""
    k, back = slice(0, levels.shape[1]), inv(rows)
    mean, root = back[1:, 0].copy(), back[1:, 1:].copy()
    covariance = (levels - p @ levels).T * p @ (levels - p @ levels)
    root[k] = cholesky(covariance) @ np.linalg.solve(cholesky(root[k] @ root[k].T), root[k])
    mean[k] = p @ levels
    out = np.eye(len(rows))
    out[1:, 1:] = inv(cholesky(root @ root.T))
    out[1:, 0] = -out[1:, 1:] @ mean
    return out


# --- points that stand for records ---------------------------------------------------------------------------------


def even_points(axes):
    """Kronecker's sequence by the generalised golden ratio."""
    ratio = 2.0
    for _ in range(60):
        ratio = (1.0 + ratio) ** (1.0 / (axes + 1.0))
    return (0.5 + np.arange(1, 2049)[:, None] * ratio ** -np.arange(1.0, axes + 1.0)) % 1.0


def made_white(z):
    """With mean 0 and covariance I."""
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    return z @ inv(cholesky(z.T @ z / len(z))).T


def stand_ins(levels, p, rows, size):
    """Whitened rows: levels by their shares, all else normal (10); and the levels."""
    even, q = even_points(len(rows) - 1), levels.shape[1]
    z = ndtri(even)
    cell = np.minimum(np.searchsorted(np.cumsum(p), even[:, 0]), len(p) - 1)
    z[:, :q] = (np.column_stack([np.ones(len(z)), levels[cell]]) @ rows[: q + 1, : q + 1].T)[:, 1:]
    return np.column_stack([np.ones(len(z)), made_white(z / size[1:])]) * size, cell


def points_of(rows, numbers, levels=None, p=None):
    """Points of the reference model: numbers within ±1 are beta where a bound is near (10)."""
    d = len(rows)
    if levels is None:
        points = np.column_stack([np.ones(2048), made_white(ndtri(even_points(d - 1)))])
    else:
        points, _ = stand_ins(levels, p, rows, np.ones(d))
    x = points @ inv(rows).T
    mean, sd = np.clip(x.mean(axis=0), coordinates.INSIDE - 1.0, 1.0 - coordinates.INSIDE), x.std(axis=0)
    near = [j for j in numbers if np.abs(x[:, j]).max() > 1.0]
    for j in near:
        share = min(sd[j] ** 2 / (1.0 - mean[j] ** 2), (1.0 - coordinates.INSIDE) ** 2)
        a, b = (0.5 * (1.0 + way * mean[j]) * (1.0 / share - 1.0) for way in (1.0, -1.0))
        at = np.linspace(-4.0, 4.0, 129)
        x[:, j] = np.interp((x[:, j] - x[:, j].mean()) / sd[j], at, 2.0 * betaincinv(a, b, ndtr(at)) - 1.0)
    return np.column_stack([np.ones(len(x)), made_white((x @ rows.T)[:, 1:])]) if near else points
