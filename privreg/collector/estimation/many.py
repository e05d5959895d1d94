"""Scores of more coefficients than whole matrices of curvature are learned of.

The mean report at θ is taken for S ⊗ G (θ − θ*) with t its number's own factor a coordinate: S is the curvature of the
loss, of one entry but for several predictors, G = E z zᵀ/‖z‖ over what is public of the covariates (levels equally
frequent, numbers of variance 1, factors unrelated), and t, near 1, is learned from how groups that answer a little
apart differ. No matrix of G's size is taken apart more than once.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtri

from privreg.collector.covariates.points import LIMITS, lattice
from privreg.collector.estimation import reference
from privreg.collector.estimation.curvature import CARRY, SPREAD, SPREADS
from privreg.protocol import codes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privreg.arrays import Array
    from privreg.collector.covariates.diagonal import Wide
    from privreg.collector.pilot import Fitted, Observed
    from privreg.families.constants import ScoreRules


NODES: Final = 200
TURNS: Final = 6
HALVINGS: Final = 30


class Box(NamedTuple):
    """Covariates as they are taken to be, coordinates of the scores."""

    mean: Array  # E z; shape (d,)
    second: Array  # E z zᵀ; shape (d, d)
    gram: Array  # G = E z zᵀ/‖z‖; shape (d, d)
    square: Array  # G²
    inverse: Array  # G⁻¹
    unit: Array  # Diagonal of E z zᵀ/‖z‖²; shape (d,)
    sampled: Array  # G⁻¹ E z zᵀ/‖z‖² G⁻¹
    spread: float  # tr G⁻¹ E z zᵀ G⁻¹: variance of a predictor by noise of variance 1 in every number of a score

    def distance2(self, move: Array) -> float:
        """Mean square of a predictor by these coefficients, shape (b d,)."""
        rows = move.reshape(-1, len(self.mean))
        return float(np.sum((rows @ self.second) * rows))

    def back(self, small: Array, scores: Array) -> Array:
        """(S ⊗ G)⁻¹ of scores, shape (m, b d)."""
        cube = scores.reshape(len(scores), len(small), -1) @ self.inverse
        return np.asarray(np.einsum("bc,mcd->mbd", np.linalg.inv(small), cube)).reshape(scores.shape)

    def near(self, small: Array, scores: Array, precision: float, within: float) -> Array:
        """The same held near 0, shape (b d,): of scores whose numbers have this precision, shape (b d,).

        `within` is the mean square that a predictor of independent coefficients is expected to have. Directions in
        which few records lie move less for it.
        """
        values, vectors = np.linalg.eigh(small)
        rows = (vectors.T @ scores.reshape(len(small), -1)) @ self.gram
        hold = float(np.trace(self.second)) / max(within, 1e-300) * np.eye(len(self.mean))
        out = [
            cho_solve(cho_factor(precision * v**2 * self.square + hold), precision * v * r)
            for v, r in zip(values, rows, strict=True)
        ]
        return np.asarray(vectors @ np.array(out)).reshape(-1)

    def forth(self, small: Array, moves: Array) -> Array:
        """S ⊗ G of moves, shape (m, b d)."""
        cube = moves.reshape(len(moves), len(small), -1) @ self.gram
        return np.asarray(np.einsum("bc,mcd->mbd", small, cube)).reshape(moves.shape)


def box_of(points: Array) -> Box:
    """From points that stand for records, shape (m, d)."""
    weight = 1.0 / np.linalg.norm(points, axis=1)
    gram = (points * weight[:, None]).T @ points / len(points)
    unit = (points * weight[:, None] ** 2).T @ points / len(points)
    return _boxed(points.mean(axis=0), points.T @ points / len(points), gram, unit)


def public(probe: Array, wide: Wide, groups: Sequence[NDArray[np.int64]], stretch: Array, *, constant: bool) -> Box:
    """From rows over the public box, internal units, shape (m, d).

    `groups` are columns of two values that are made of the same factors; those of different ones are taken for
    unrelated. `stretch`, shape (d,), is their scale in the coordinates of the scores.
    """
    d = len(wide.gaps)
    two = wide.gaps > 0.0
    z = np.where(two, probe * stretch, 0.0)
    first = int(constant)
    numbers = ~two
    numbers[:first] = False
    norm2 = float(first + numbers.sum()) + np.sum(z**2, axis=1)
    z[:, :first] = 1.0
    out = []
    norm = np.sqrt(np.maximum(norm2, 1e-300))
    for weight in (np.ones(len(z)), 1.0 / norm, 1.0 / norm**2):
        share = weight / weight.sum()
        mean = share @ z
        second = np.outer(mean, mean) + np.diag(numbers.astype(np.float64))
        for group in groups:
            own = z[:, group]
            second[np.ix_(group, group)] = (own * share[:, None]).T @ own
        out.append((mean, second * weight.mean()))
    (mean, second), (_, gram), (_, unit) = out
    assert mean.shape == (d,)
    return _boxed(mean, second, gram, unit)


def _boxed(mean: Array, second: Array, gram: Array, unit: Array) -> Box:
    least = 1e-6 * np.diag(np.maximum(np.diag(gram), 1e-12))
    inverse = np.linalg.inv(gram + least)
    inverse = 0.5 * (inverse + inverse.T)
    sampled = inverse @ unit @ inverse
    return Box(
        mean,
        second,
        gram,
        gram @ gram,
        inverse,
        np.diag(unit).copy(),
        sampled,
        float(np.sum((inverse @ second) * inverse)),
    )


# --- the reference model ----------------------------------------------------------------------------------------


def curve(
    rules: ScoreRules, box: Box, state: Array, c: float, theta: Array, s: float, *, constant: bool = True
) -> Array:
    """S with mean report S ⊗ G (state − θ) if `theta` were the truth and `s` the residual scale, shape (b, b)."""
    if rules.shape.family == codes.MULTINOMIAL:
        return _of_classes(box, state, theta)
    here, there = _predictors(box, state, theta)
    return np.array([[_mean_secant(rules, here, there, c, s)]])


def square(rules: ScoreRules, box: Box, state: Array, c: float, theta: Array, s: float) -> float:
    """Mean squared length of a score before noise."""
    if rules.shape.family == codes.MULTINOMIAL:
        return 0.5
    return float(np.mean(reference._square(rules, *_predictors(box, state, theta), c, s)))


def _predictors(box: Box, state: Array, theta: Array) -> tuple[Array, Array]:
    """Linear predictors at both, jointly normal, each of shape (m,)."""
    rows = np.array([state, theta])
    mean = rows @ box.mean
    cov = (rows @ box.second) @ rows.T - np.outer(mean, mean)
    a, b, ab = max(float(cov[0, 0]), 0.0), max(float(cov[1, 1]), 0.0), float(cov[0, 1])
    z = lattice(2)
    root = math.sqrt(a)
    along = ab / root if root > 0.0 else 0.0
    across = math.sqrt(max(b - along**2, 0.0))
    return mean[0] + root * z[:, 0], mean[1] + along * z[:, 0] + across * z[:, 1]


def _mean_secant(rules: ScoreRules, here: Array, there: Array, c: float, s: float) -> float:
    distance = here - there
    score, slope, *_ = reference._scalar(rules, here, there, c, s)
    near = np.abs(distance) < reference.SMALL * (c if reference._of_residuals(rules) else 1.0)
    return max(float(np.mean(np.where(near, -slope, score / np.where(near, 1.0, distance)))), 1e-6)


def _of_classes(box: Box, state: Array, theta: Array) -> Array:
    d = len(box.mean)
    b = len(theta) // d
    cov = box.second - np.outer(box.mean, box.mean)
    rows, at = theta.reshape(b, d), state.reshape(b, d)
    both = np.concatenate([rows, at])
    spread = both @ cov @ both.T
    low = np.linalg.cholesky(spread + 1e-9 * np.eye(2 * b) * max(float(np.trace(spread)) / (2 * b), 1.0))
    eta = both @ box.mean + lattice(2 * b) @ low.T
    share, there = _shares(eta[:, :b]), _shares(eta[:, b:])
    ends = np.eye(b + 1)[:, 1:]
    distance = np.linalg.norm(there[:, None, :] - ends[None], axis=2).max(axis=1)
    w = 1.0 / (distance * len(share))
    return np.asarray(np.diag(w @ share) - (share * w[:, None]).T @ share)


def _shares(eta: Array) -> Array:
    full = np.column_stack([np.zeros(len(eta)), eta])
    out = np.exp(full - full.max(axis=1, keepdims=True))
    return np.asarray(out[:, 1:] / out.sum(axis=1, keepdims=True))


# --- where to begin --------------------------------------------------------------------------------------------


def fit(rules: ScoreRules, box: Box, seen: Sequence[Observed], prior: Fitted) -> tuple[Array, float, float]:
    """Coefficients, shape (b d,), and residual scale from pilot reports, shrunk toward `prior`, where the pilot began.

    The third number is the mean square of a predictor by what isn't known of the coefficients.
    """
    theta, s, unsure = prior.theta, prior.scale, 0.0
    for _ in range(TURNS):
        within = s**2 if rules.track else 1.0
        smalls = [curve(rules, box, r.theta, r.c, theta, s) for r in seen]
        # scores that all rounds together would have where the pilot began, weighted by what they tell
        last = smalls[-1]
        sizes = np.array([float(np.trace(small) / np.trace(last)) for small in smalls])
        noises = np.array([r.variance for r in seen])
        far = np.array([box.distance2(r.theta - theta) for r in seen])
        each = noises / sizes**2 * (1.0 + far / within)
        weights = 1.0 / each
        scores = [
            (r.score - box.forth(small, (r.theta - prior.theta)[None])[0]) / size
            for r, small, size in zip(seen, smalls, sizes, strict=True)
        ]
        mean = weights @ np.array(scores) / weights.sum()
        theta = theta + 0.7 * (prior.theta - box.near(last, mean, float(weights.sum()), within) - theta)
        noise = box.spread * float(np.sum(np.linalg.inv(last) ** 2)) / float(weights.sum())
        unsure = min(noise, within)
        if rules.track:
            s = _scale(rules, box, seen, theta, s)
    return theta, s, unsure


def _scale(rules: ScoreRules, box: Box, seen: Sequence[Observed], theta: Array, s: float) -> float:
    """Residual scale at which the numbers in joint reports are those that were reported."""
    reported = [(r, *_predictors(box, r.theta, theta)) for r in seen if r.number is not None]
    low, high = math.log(s) - 3.0, math.log(s) + 3.0
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        off = 0.0
        for r, here, there in reported:
            number = float(np.mean(reference._scalar(rules, here, there, r.c, math.exp(middle))[3]))
            assert r.number is not None
            off += (number - r.number) / (r.number_variance + (0.1 * r.number) ** 2)
        low, high = (middle, high) if off > 0.0 else (low, middle)
    return math.exp(0.5 * (low + high))


# --- from mean reports to coefficients -------------------------------------------------------------------------


class RoundMeans(NamedTuple):
    """Mean reports of one round, by group."""

    theta: Array  # The state; shape (b d,)
    offsets: Array  # shape (groups, b d)
    g: Array  # shape (groups, b d)
    weight: Array  # Records, or their weights summed; shape (groups,)
    small: Array  # S from this state to the estimate; shape (b, b)
    variance: float  # Noise variance of a number of a report
    square: float  # Mean squared length of a score before noise


class Learned(NamedTuple):
    """Posterior of t."""

    mean: Array  # shape (b d,)
    variance: Array  # Of each about the common factor's share; shape (b d,)
    common: float  # Variance of the common factor, relative to its square
    spread: float  # Prior sd that was taken


def _variances(box: Box, one: RoundMeans) -> Array:
    blocks = len(one.small)
    return np.tile(one.variance + one.square / blocks * box.unit, blocks)


def learn(rounds: Sequence[RoundMeans], box: Box) -> Learned:
    """Posterior of t from differences within rounds."""
    q = rounds[0].g.shape[1]
    info, cross = np.zeros(q), np.zeros(q)
    for r in rounds:
        heard = r.weight > 0.0
        if heard.sum() < 2:
            continue
        n = r.weight[heard]
        f = box.forth(r.small, r.offsets[heard])
        f = f - n @ f / n.sum()
        each = _variances(box, r)
        info += n @ f**2 / each
        cross += (n @ (f * r.g[heard])) / each
    have = float(info.sum()) + SPREAD**-2
    common = min(max((float(cross.sum()) + SPREAD**-2) / have, LIMITS[0]), LIMITS[1])
    off2 = (cross - common * info) ** 2 / np.maximum(info, 1e-300)
    evidence = []
    for tau in SPREADS:
        grown = 1.0 + tau**2 * info
        evidence.append(-0.5 * float(np.sum(np.log(grown) + off2 / grown)) - 0.5 * (tau / SPREAD) ** 2)
    tau = SPREADS[int(np.argmax(evidence))]
    variance = 1.0 / (info + tau**-2)
    mean = variance * (cross + common * tau**-2)
    return Learned(np.clip(mean, *LIMITS), variance, 1.0 / have / common**2, tau)


class Found(NamedTuple):
    """Estimate, and the covariance of scores that its own is made of: of noise, of sampling, of what isn't known."""

    theta: Array  # shape (b d,)
    weights: Array  # Of the rounds, sum 1
    small: Array  # S; shape (b, b)
    noise: Array  # shape (b d,)
    sampling: float  # Variance of scores before noise, as a multiple of E z zᵀ/‖z‖²
    unknown: Array  # Of what isn't known of t; shape (b d,)
    along: Array  # v, of what isn't known of their common factor; shape (b d,)

    def covariance(self, box: Box, linear: Array, *, whole: bool = True) -> Array:
        """Covariance of `linear` times the coefficients, or the part of it that comes of what isn't known of t."""
        half = self._half(box, linear)
        middle = self.unknown + (self.noise if whole else 0.0)
        v = half @ self.along
        out = (half * middle) @ half.T + np.outer(v, v)
        return np.asarray(out + linear @ self._sampled(box) @ linear.T if whole else out)

    def _sampled(self, box: Box) -> Array:
        inverse = np.linalg.inv(self.small)
        return np.asarray(self.sampling * np.kron(inverse @ inverse, box.sampled))

    def variances(self, box: Box, linear: Array, others: Sequence[Found]) -> list[Array]:
        """Diagonals of those of `others`, estimates with about the same S."""
        half = self._half(box, linear)
        own = ((linear @ self._sampled(box)) * linear).sum(axis=1) / max(self.sampling, 1e-300)
        return [half**2 @ (f.noise + f.unknown) + (half @ f.along) ** 2 + f.sampling * own for f in others]

    def _half(self, box: Box, linear: Array) -> Array:
        # inverses are symmetric but for rounding
        return np.asarray(linear @ np.kron(np.linalg.inv(self.small), box.inverse))


def combine(rounds: Sequence[RoundMeans], box: Box, learned: Learned) -> Found:
    """Carry every round to where its mean report would be zero, and average."""
    blocks = len(rounds[0].small)
    total = np.array([r.weight.sum() for r in rounds])
    x = np.array([r.theta + r.weight @ r.offsets / r.weight.sum() for r in rounds])
    g = np.array([r.weight @ r.g / r.weight.sum() for r in rounds])
    one = np.array([xk - box.back(r.small, gk[None] / learned.mean)[0] for r, xk, gk in zip(rounds, x, g, strict=True)])
    each = np.array(
        [(r.variance + r.square / len(x[0])) * box.spread * float(np.sum(np.linalg.inv(r.small) ** 2)) for r in rounds]
    )
    weights = total / total.sum()
    for _ in range(4):
        estimate = weights @ one
        far = np.array([box.distance2(xk - estimate) for xk in x])
        weights = 1.0 / (each / total + CARRY**2 * far)
        weights = weights / weights.sum()
    small = rounds[-1].small
    size = float(np.trace(small))
    ratio = np.array([size / float(np.trace(r.small)) for r in rounds])
    share = weights**2 * ratio**2 / total
    variance = float(share @ [r.variance for r in rounds])
    sampling = float(share @ [r.square for r in rounds]) / blocks
    normal = ndtri((np.arange(NODES) + 0.5) / NODES)[:, None]
    inverse = 1.0 / np.clip(learned.mean + np.sqrt(learned.variance) * normal, *LIMITS)
    mean_g = (weights * ratio) @ g
    return Found(
        weights @ one,
        weights,
        small,
        variance * np.mean(inverse**2, axis=0),
        sampling * float(np.mean(inverse**2)),
        mean_g**2 * inverse.var(axis=0),
        mean_g / learned.mean * math.sqrt(learned.common),
    )


def corrected(box: Box, small: Array, learned: Learned, scores: Array) -> Array:
    """By how much mean reports move their states, shape (m, b d)."""
    return -box.back(small, scores / learned.mean)
