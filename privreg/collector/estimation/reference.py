"""The reference model: moments of reports if the model held and whitened covariates were given points.

Points z are equally likely; residuals are normal where a family has them. Real data differ; errors of the
reference model's curvature are estimated from reports (`curvature`), and validity does not depend on it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr

from privreg.base.arrays import Array
from privreg.collector.estimation.curvature import LEAST
from privreg.families import counts, scores
from privreg.families.constants import ScoreRules
from privreg.protocol import codes

STEP: Final = 1e-3  # Step of numerical derivatives of curvature, on the scale of a logarithm or of the predictor
SMALL: Final = 1e-4  # Distance of two predictors below which a secant is a tangent


class Reference(NamedTuple):
    """The reference model: points that stand for records, and a family; θ is in their coordinates."""

    rules: ScoreRules
    points: Array  # Whitened covariates, equally likely; shape (m, d)
    weight: Array  # ω(z) of each; shape (m,)
    blocks: int  # Linear predictors of a record
    answering: float = 1.0  # Share of usable records
    added: Array | None = None  # Offsets of the points' linear predictors; shape (m,)
    unsure: float = 0.0  # Sd of the mean of `weight`, relative to it, as rows of a person may be more or less alike
    least: float = 1.0  # Least mean square of a report, relative to that of one row of the same trace
    rows: int = 1  # Rows of a person that have one weight
    alike: bool = False  # True if all rows have one weight, whatever they are

    @property
    def square(self) -> float:
        """Mean square of a report, relative to that of one row: the middle of `least` and 1."""
        return 0.5 * (1.0 + self.least)

    @property
    def scaled(self) -> bool:
        """True if the reference model has a residual scale, which is estimated from the numbers in joint reports."""
        return _of_residuals(self.rules)

    def predictors(self, theta: Array) -> Array:
        """Linear predictors of the points, shape (m,)."""
        eta = self.points @ theta
        return np.asarray(eta if self.added is None else eta + self.added)


def reference_of(
    rules: ScoreRules,
    points: Array,
    *,
    blocks: int = 1,
    unit: bool = True,
    answering: float = 1.0,
    rows: int = 1,
    longest: float = 0.0,
) -> Reference:
    """The reference model over `points`, shape (m, d), with ω = 1/‖z‖ if `unit`, else bounded leverage.

    With `longest` ω is 1 over that for every row. Of people with so many `rows` ω is the least of a person's rows:
    1/‖z‖ if these are all alike, less if independent, in the middle here; equations (42) and (45) of docs/estimator.md.
    `answering` is the mean part of a report that is used.
    """
    if longest:
        return Reference(rules, points, np.full(len(points), 1.0 / longest), blocks, answering, alike=True)
    norm = np.maximum(np.linalg.norm(points, axis=1), 1e-300)
    far = math.sqrt(codes.LEVER2 * points.shape[1])
    weight = 1.0 / norm if unit else np.minimum(1.0, far / norm)
    if rows == 1:
        return Reference(rules, points, weight, blocks, answering)
    order = np.argsort(norm)
    below = (np.arange(1, len(norm) + 1) / len(norm)) ** (rows - 1)  # chance that all other rows are no longer
    longer = np.r_[np.cumsum((np.diff(below) / norm[order][1:])[::-1])[::-1], 0.0]
    alone = np.empty(len(norm))
    alone[order] = below / norm[order] + longer
    unsure = float((weight - alone).sum() / (weight + alone).sum()) / math.sqrt(3.0)
    return Reference(rules, points, 0.5 * (weight + alone), blocks, answering, unsure=unsure, rows=rows)


class Expected(NamedTuple):
    """Expected mean report at a state, with its derivatives."""

    score: Array  # shape (b d,)
    slope: Array  # Its derivative by θ*; shape (b d, b d)
    by_scale: Array  # Its derivative by log s; shape (b d,)
    number: float
    number_slope: Array  # shape (b d,)
    number_by_scale: float


def expected(model: Reference, state: Array, c: float, theta: Array, s: float) -> Expected:
    """Mean report at a state if `theta` is the truth, `s` the residual scale; for equation (16) of docs/estimator.md.

    Both have the shape (b d,), and `c` is the state's threshold.
    """
    if model.blocks > 1:
        return _blocks(model, state, theta)
    z, w = model.points, model.weight * model.answering / len(model.points)
    here, there = model.predictors(state), model.predictors(theta)
    score, slope, by_scale, number, number_slope, number_by_scale = _scalar(model.rules, here, there, c, s)
    share = model.answering / len(z)
    return Expected(
        z.T @ (w * score),
        (z * (w * slope)[:, None]).T @ z,
        z.T @ (w * by_scale),
        float(number.sum()) * share,
        (z.T @ number_slope) * share,
        float(number_by_scale.sum()) * share,
    )


def secant(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """S with E ψ(state) − E ψ(θ) = S (state − θ), shape (b d, b d); symmetric for one predictor.

    Equation (13) of docs/estimator.md.
    """
    if model.blocks > 1:
        return _blocks_secant(model, state, theta)
    z, w = model.points, model.weight * model.answering / len(model.points)
    here, there = model.predictors(state), model.predictors(theta)
    distance = here - there
    score, slope = _scalar(model.rules, here, there, c, s, brief=True)
    # it is 0 at θ but for thresholds that aren't in proportion to s, and counts that are predicted above their largest
    if model.rules.centre != 0.0 or model.rules.shape.family in codes.COUNTS:
        score = score - _scalar(model.rules, there, there, c, s, brief=True)[0]
    near = np.abs(distance) < SMALL * (c if model.scaled else 1.0)
    kappa = np.where(near, -slope, score / np.where(near, 1.0, distance))
    return np.asarray((z * (w * kappa)[:, None]).T @ z)


def slopes(model: Reference, theta: Array, c: float, s: float) -> Array:
    """Derivatives of the curvature at θ by the log of the residuals' scale along each direction, shape (k, q, q).

    Directions are those of scores, ω z, each of mean square 1 over the points; there are none without a residual scale.
    Equation (15) of docs/estimator.md.
    """
    if model.blocks > 1 or not model.scaled:
        return np.zeros((0, len(theta), len(theta)))
    z = model.points
    weighted = z * model.weight[:, None]
    along = weighted / np.maximum(np.sqrt(np.mean(weighted**2, axis=0)), 1e-300)
    there = z @ theta
    down, up = (-_scalar(model.rules, there, there, c, s * math.exp(t), brief=True)[1] for t in (-STEP, STEP))
    rise = (model.answering / (2.0 * STEP * len(z))) * (up - down)
    return np.array([(weighted * (rise * f)[:, None]).T @ z for f in along.T])


def spreads(model: Reference, rows: Array, theta: Array, c: float, s: float, *, constant: bool, unit: bool) -> Array:
    """Derivatives of the curvature at θ by the log of each covariate's spread, shape (k, b d, b d).

    If few records are far out, most are nearer to the mean than second moments say: equation (15) of
    docs/estimator.md. `rows`, shape (d, d), makes covariates white; `c` and `s` are threshold and residual scale.
    `constant` is True if the first covariate is the constant; `unit` is as in `reference_of`.
    """
    z, d = model.points, len(rows)
    along = rows[:, int(constant) :]
    x = (z @ np.linalg.inv(rows).T)[:, int(constant) :]
    distance = x - x.mean(axis=0)
    if model.blocks > 1:
        return _blocks_spreads(model, theta, distance, along, unit=unit)
    w, there = model.weight * model.answering / len(z), model.predictors(theta)
    down, kappa, up = (-_scalar(model.rules, at, at, c, s, brief=True)[1] for at in (there - STEP, there, there + STEP))
    # z moves, and with it curvature at its predictor, and its weight, but where that is 1 whatever its length
    changing = np.where(model.weight < 1.0, 1.0, float(unit)) * kappa / np.maximum((z**2).sum(axis=1), 1e-300)
    changing = changing * (1.0 - model.alike)
    change = (up - down)[:, None] / (2.0 * STEP) * (theta @ along) - changing[:, None] * (z @ along)
    moved = z.T @ (distance * (w * kappa)[:, None])
    out = np.einsum("ik,jk->kij", along, moved)
    pairs = (z[:, :, None] * z[:, None, :]).reshape(len(z), d * d)
    return np.asarray(out + out.transpose(0, 2, 1) + ((change * distance * w[:, None]).T @ pairs).reshape(-1, d, d))


def _blocks_spreads(model: Reference, theta: Array, distance: Array, along: Array, *, unit: bool) -> Array:
    """`spreads` of several classes; `distance` of covariates from their means, (m, k), `along` columns of the map."""
    ends = []
    for sign in (-1.0, 1.0):
        for away, column in zip(distance.T, along.T, strict=True):
            points = model.points + math.expm1(sign * STEP) * np.outer(away, column)
            near = reference_of(
                model.rules, points, blocks=model.blocks, unit=unit, answering=model.answering, rows=model.rows
            )
            ends.append(_blocks_secant(near, theta, theta))
    half = len(along.T)
    return (np.array(ends[half:]) - np.array(ends[:half])).reshape(-1, len(theta), len(theta)) / (2.0 * STEP)


def offset_bias(model: Reference, theta: Array, square: Array, c: float, s: float) -> Array:
    """Mean report at θ of groups with offsets, beyond a line's, shape (b d,): equation (14) of docs/estimator.md.

    `square`, shape (b d, b d), are second moments of the groups' offsets, which are balanced; `c` and `s` are threshold
    and residual scale.
    """
    z, d = model.points, model.points.shape[1]
    w = model.weight * model.answering / len(z)
    if model.blocks == 1:
        there, distance = model.predictors(theta), np.sqrt(np.einsum("ij,ij->i", z @ square, z))
        up, middle, down = (
            _scalar(model.rules, there + v, there, c, s, brief=True)[0] for v in (distance, 0.0 * distance, -distance)
        )
        return np.asarray(z.T @ (w * (0.5 * (up + down) - middle)))
    eta = z @ theta.reshape(model.blocks, -1).T
    there = _softmax(theta, z, model.blocks)
    out = np.zeros((model.blocks, d))
    for k in range(model.blocks):
        own = slice(k * d, (k + 1) * d)
        distance = np.sqrt(np.einsum("ij,ij->i", z @ square[own, own], z))
        for sign in (0.5, -0.5):
            moved = eta.copy()
            moved[:, k] += 2.0 * sign * distance
            here = _shares(moved)
            out += ((here - there)[:, 1:] * (0.5 * w / _farthest(here, model.blocks))[:, None]).T @ z
    return out.reshape(-1)


def variance(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """Second moments of a report before noise, shape (b d, b d); for equation (22) of docs/estimator.md."""
    d = model.points.shape[1]
    z, share = model.points, model.square * model.answering / len(model.points)
    if model.blocks > 1:
        unit = z * model.weight[:, None]
        return np.asarray(np.kron(np.eye(model.blocks), (unit * (share / (2.0 * model.blocks))).T @ unit))
    square = _square(model.rules, model.predictors(state), model.predictors(theta), c, s)
    unit = z * model.weight[:, None]
    return np.asarray((unit * (square * share)[:, None]).T @ unit).reshape(d, d)


def public_noise(
    model: Reference,
    state: Array,
    c: float,
    limits: tuple[float, float],
    function: Callable[[float, float], float] | None = None,
    kappa: float = 0.0,
) -> Array:
    """Covariance of the noise where covariates are public, relative to a report's of radius 1, or joint; shape (d, d).

    One number is randomised, by half the range of the score over the response's `limits` at each predictor; `function`
    is the score of a family of one's own, `kappa` the weight of the number in a joint report.
    """
    low, high = scores.ends(model.rules.shape, c, model.points @ state, *limits, function)
    unit = model.points * (model.weight * _radius(0.5 * (high - low), kappa))[:, None]
    return np.asarray(unit.T @ unit / len(unit))


def _radius(half: Array, kappa: float) -> Array:
    """Radius of a report of half ranges, relative to one of 1, beside a number of weight `kappa`."""
    return np.asarray(np.sqrt((half * half + 0.25 * kappa**2) / (1.0 + 0.25 * kappa**2)))


def public_answers(
    model: Reference,
    state: Array,
    c: float,
    mean: Array,
    sd: float,
    limits: tuple[float, float],
    function: Callable[[float, float], float] | None = None,
    kappa: float = 0.0,
) -> Array:
    """Second moments of answers that aren't additive noise where covariates are public, shape (d, d).

    An answer is `sd` half ranges above or below the middle of the score's range, or so in the mean beside a number of
    weight `kappa`. Its mean at each point is that of the score, `mean`, shape (m,), which lies inside the range though
    the reference model's may not.
    """
    z = model.points
    low, high = scores.ends(model.rules.shape, c, z @ state, *limits, function)
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    inside = np.clip(mean, low, high)
    square = np.maximum((sd * _radius(half, kappa)) ** 2 + (2.0 * inside - middle) * middle, 0.0)
    unit = z * model.weight[:, None]
    return np.asarray((unit * square[:, None]).T @ unit / len(z))


def means(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """Mean unit score at each point if `theta` were the truth, one predictor, shape (m,)."""
    return np.asarray(
        model.answering * _scalar(model.rules, model.predictors(state), model.predictors(theta), c, s, brief=True)[0]
    )


def directions(model: Reference) -> Array:
    """Second moments of the directions of reports, shape (b d, b d) and trace 1.

    Classes are taken to be equally likely; unusable records have no direction.
    """
    unit = model.points / np.maximum(np.linalg.norm(model.points, axis=1, keepdims=True), 1e-300)
    none = (1.0 - model.answering) / (model.blocks * unit.shape[1])
    each = model.answering / model.blocks * (unit.T @ unit / len(unit)) + none * np.eye(unit.shape[1])
    return np.kron(np.eye(model.blocks), each)


# --- scalar scores ---------------------------------------------------------------------------------------------


def _phi(v: Array) -> Array:
    return np.asarray(np.exp(-0.5 * v * v) / math.sqrt(2.0 * math.pi))


def _scalar(
    rules: ScoreRules, here: Array, there: Array, c: float, s: float | Array, *, brief: bool = False
) -> tuple[Array, ...]:
    """Mean unit score at `here` if `there` is the truth; its derivatives by `there` and log s; the same of the number.

    All of shape (m,); the first two alone if `brief`. Residuals may have a scale each. Equation (12) of
    docs/estimator.md.
    """
    found = _predicted(rules, here, there, c) if not _of_residuals(rules) else None
    if found is not None:
        zero = np.zeros_like(here)
        return found if brief else (*found, zero, np.ones_like(here), zero, zero)
    family, a = rules.shape.family, rules.shape.a
    mean = there - s * rules.centre - here  # of the residual
    if family in {codes.HUBER, codes.EXPECTILE}:
        up, down = _sides(rules)
        top, uneven = max(up, down), up - down
        ends = (-c - mean) / s, (c - mean) / s
        below, density = [ndtr(v) for v in ends], [_phi(v) for v in ends]
        low, high = (v * p + f for v, p, f in zip(ends, below, density, strict=True))  # ∫ Φ up to there
        # E min(max(r, 0), c) = c − ∫ P(r < t) dt from 0 to c, and so on the other side
        clipped = up * c - s * (up * high - down * low)
        inside, edge = up * below[1] - down * below[0], down * density[0] - up * density[1]
        if uneven != 0.0:
            middle = -mean / s
            negative, rise = ndtr(middle), _phi(middle)
            clipped = clipped + s * uneven * (middle * negative + rise)
            inside, edge = inside - uneven * negative, edge + uneven * rise
        score, slope = -clipped / (c * top), -inside / (c * top)
        if brief:
            return score, slope
        # with e = (r − mean)/s: d/ds E clip(r) = E[e − centre | inside]
        window = _window(rules, ends, below, density, s)
        return (score, slope, -(edge - rules.centre * inside) * s / (c * top), *window)
    tau = a if family == codes.QUANTILE else 0.5
    top = max(tau, 1.0 - tau)
    density_at = _phi(mean / s)
    score, slope = (ndtr(-mean / s) - tau) / top, -density_at / (s * top)
    if brief:
        return score, slope
    ends = (-c - mean) / s, (c - mean) / s
    window = _window(rules, ends, [ndtr(v) for v in ends], [_phi(v) for v in ends], s)
    return (score, slope, density_at * (mean / s + rules.centre) / top, *window)


def _of_residuals(rules: ScoreRules) -> bool:
    """True if the score is of a residual with a scale."""
    return rules.track or rules.shape.family in codes.RESIDUALS


def _sides(rules: ScoreRules) -> tuple[float, float]:
    """Weights of residuals above and below 0, of Huber and Expectile."""
    a = rules.shape.a
    return (0.5, 0.5) if rules.shape.family == codes.HUBER else (a, 1.0 - a)


def _predicted(rules: ScoreRules, here: Array, there: Array, c: float) -> tuple[Array, Array]:
    """Mean unit score and its derivative by `there`, if the predictor determines the distribution of the response."""
    if rules.shape.family == codes.ROBUST_POISSON:
        return counts.moments(c, rules.shape.a, here, there)[:2]
    ends = _ends(rules, here)
    if rules.shape.family == codes.SQUARED:
        least, most = rules.shape.a, rules.shape.b  # beyond them some is left, by which a state finds back
        distance = [v + (LEAST - 1.0) * (v - np.clip(v, least, most)) for v in (here, there)]
        slope = np.where((there > least) & (there < most), 1.0, LEAST)
        return (distance[0] - distance[1]) / (most - least), -slope / (most - least)
    if rules.shape.family == codes.POISSON:
        at = np.minimum(there, math.log(rules.shape.a))
        mean_y = np.exp(at)
        rise = ends[1] - ends[0]  # by one unit of y
        return ends[0] + rise * mean_y, rise * np.where(there > at, 0.0, mean_y)
    share = scores._logistic(there)
    rise = ends[1] - ends[0]
    return ends[0] + rise * share, rise * share * (1.0 - share)


def _ends(rules: ScoreRules, here: Array) -> tuple[Array, Array]:
    """Unit scores at responses 0 and 1, between which they are linear."""
    one = np.ones_like(here)
    return scores.unit(rules.shape, 1.0, here, 0.0 * one), scores.unit(rules.shape, 1.0, here, one)


def _window(
    rules: ScoreRules, cuts: Sequence[Array], below: Sequence[Array], density: Sequence[Array], s: float | Array
) -> tuple[Array, Array, Array]:
    """P(abs r ≤ c) and its derivatives by the mean and by log s, of −c and c in standard units, Φ and φ there."""
    low, high = (f * (v - rules.centre) for f, v in zip(density, cuts, strict=True))
    return below[1] - below[0], (density[0] - density[1]) / s, low - high


def _square(rules: ScoreRules, here: Array, there: Array, c: float, s: float | Array) -> Array:
    """Mean squared unit score, shape (m,): equation (12) of docs/estimator.md."""
    family = rules.shape.family
    if family in {codes.HUBER, codes.EXPECTILE}:
        up, down = _sides(rules)
        mean = there - s * rules.centre - here
        cuts = (-c - mean) / s, -mean / s, (c - mean) / s
        below, density = [ndtr(v) for v in cuts], [_phi(v) for v in cuts]
        # ∫ r² between two cuts, r = mean + s e
        part = [
            (mean**2 + s**2) * (below[k + 1] - below[k])
            + 2.0 * mean * s * (density[k] - density[k + 1])
            + s**2 * (cuts[k] * density[k] - cuts[k + 1] * density[k + 1])
            for k in (0, 1)
        ]
        left, right = part[0] + c**2 * below[0], part[1] + c**2 * (1.0 - below[2])
        return np.asarray((up**2 * right + down**2 * left) / (c * max(up, down)) ** 2)
    if family == codes.QUANTILE or rules.track:
        tau = rules.shape.a if family == codes.QUANTILE else 0.5
        top = max(tau, 1.0 - tau)
        below = ndtr(-(there - s * rules.centre - here) / s)
        return np.asarray((below * (1.0 - tau) ** 2 + (1.0 - below) * tau**2) / top**2)
    if family == codes.SQUARED:
        return np.full_like(here, 0.1)
    if family == codes.ROBUST_POISSON:
        return counts.moments(c, rules.shape.a, here, there)[2]
    low, high = _ends(rules, here)
    if family == codes.POISSON:
        mean = np.exp(np.minimum(there, math.log(rules.shape.a)))
        return np.asarray(np.minimum((low + (high - low) * mean) ** 2 + (high - low) ** 2 * mean, 1.0))
    share = scores._logistic(there)
    return np.asarray((1.0 - share) * low**2 + share * high**2)


# --- several predictors ----------------------------------------------------------------------------------------


def _softmax(theta: Array, z: Array, blocks: int) -> Array:
    return _shares(z @ theta.reshape(blocks, -1).T)


def _shares(predictors: Array) -> Array:
    """Probabilities of all classes, shape (m, b + 1), from the predictors of all but the first."""
    eta = np.column_stack([np.zeros(len(predictors)), predictors])
    share = np.exp(eta - eta.max(axis=1, keepdims=True))
    return np.asarray(share / share.sum(axis=1, keepdims=True))


def _farthest(share: Array, blocks: int) -> Array:
    ends = np.eye(blocks + 1)[:, 1:]
    return np.asarray(np.linalg.norm(share[:, None, 1:] - ends[None], axis=2).max(axis=1))


def _curve(model: Reference, share: Array, distance: Array, sign: float) -> Array:
    z, b, d = model.points, model.blocks, model.points.shape[1]
    w = model.weight * model.answering / (distance * len(z))
    out = np.empty((b, d, b, d))
    for k in range(b):
        for m in range(b):
            kappa = w * share[:, k + 1] * ((k == m) - share[:, m + 1])
            out[k, :, m, :] = (z * kappa[:, None]).T @ z
    return sign * out.reshape(b * d, b * d)


def _blocks(model: Reference, state: Array, theta: Array) -> Expected:
    here, there = _softmax(state, model.points, model.blocks), _softmax(theta, model.points, model.blocks)
    distance = _farthest(here, model.blocks)
    w = model.weight * model.answering / (distance * len(model.points))
    score = ((here - there)[:, 1:] * w[:, None]).T @ model.points
    n = len(theta)
    return Expected(
        score.reshape(-1), _curve(model, there, distance, -1.0), np.zeros(n), model.answering, np.zeros(n), 0.0
    )


def _blocks_secant(model: Reference, state: Array, theta: Array) -> Array:
    """∫ of the curvature along the way from θ to the state, by Simpson's rule; the divisor is the state's."""
    distance = _farthest(_softmax(state, model.points, model.blocks), model.blocks)
    out = np.zeros((len(theta), len(theta)))
    for t, weight in ((0.0, 1.0), (0.5, 4.0), (1.0, 1.0)):
        out += (
            weight
            / 6.0
            * _curve(model, _softmax(theta + t * (state - theta), model.points, model.blocks), distance, 1.0)
        )
    return out
