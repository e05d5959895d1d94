"""The reference model: moments of reports if the model held and whitened covariates were given points; the pilot's fit.

Points z are equally likely; residuals are normal where a family has them. Errors of its curvature are estimated from
reports (`curvature`). The pilot's coefficients and residual scale bring the model nearest to its reports.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.estimation.curvature import COMMON
from privreg.families import scores
from privreg.families.logistic import class_shares, farthest
from privreg.families.scores import ScoreRules
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
        return not self.rules.scoring.predicted

    def brief(self, here: Array, there: Array, c: float, s: float) -> tuple[Array, ...]:
        """Mean unit score at `here` if `there` is the truth, and its derivative by `there`; shape (m,) each."""
        return self.rules.scoring.moments(self.rules, here, there, c, s, brief=True)

    def shares(self, theta: Array) -> Array:
        """Probabilities of classes at the points, shape (m, b + 1)."""
        return class_shares(self.points @ theta.reshape(self.blocks, -1).T)

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
    weight = 1.0 / norm if unit else np.minimum(1.0, math.sqrt(codes.LEVER2 * points.shape[1]) / norm)
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
    z, share = model.points, model.answering / len(model.points)
    if model.blocks > 1:
        before, after, none = model.shares(state), model.shares(theta), np.zeros(len(theta))
        distance = farthest(before)
        weight = model.weight * model.answering / (distance * len(z))
        moved = (((before - after)[:, 1:] * weight[:, None]).T @ z).reshape(-1)
        return Expected(moved, _curve(model, after, distance, -1.0), none, model.answering, none, 0.0)
    w = model.weight * model.answering / len(z)
    score, slope, by_scale, number, number_slope, number_by_scale = model.rules.scoring.moments(
        model.rules, model.predictors(state), model.predictors(theta), c, s
    )
    numbers = float(number.sum()) * share, (z.T @ number_slope) * share, float(number_by_scale.sum()) * share
    return Expected(z.T @ (w * score), (z * (w * slope)[:, None]).T @ z, z.T @ (w * by_scale), *numbers)


def secant(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """S with E ψ(state) − E ψ(θ) = S (state − θ), shape (b d, b d): equation (13) of docs/estimator.md."""
    if model.blocks > 1:
        return _blocks_secant(model, state, theta)
    z, w = model.points, model.weight * model.answering / len(model.points)
    here, there = model.predictors(state), model.predictors(theta)
    distance = here - there
    score, slope = model.brief(here, there, c, s)
    # it is 0 at θ but for thresholds that aren't in proportion to s, and counts that are predicted above their largest
    if model.rules.centre != 0.0 or model.rules.scoring.counts:
        score = score - model.brief(there, there, c, s)[0]
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
    z, weighted, there = model.points, model.points * model.weight[:, None], model.points @ theta
    along = weighted / np.maximum(np.sqrt(np.mean(weighted**2, axis=0)), 1e-300)
    down, up = (-model.brief(there, there, c, s * math.exp(t))[1] for t in (-STEP, STEP))
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
        ends, reference = [], partial(reference_of, unit=unit, answering=model.answering, rows=model.rows)
        for size in (-STEP, STEP):
            for away, column in zip(distance.T, along.T, strict=True):
                points = z + math.expm1(size) * np.outer(away, column)
                ends.append(_blocks_secant(reference(model.rules, points, blocks=model.blocks), theta, theta))
        low, high = np.split(np.array(ends), 2)
        return (high - low).reshape(-1, len(theta), len(theta)) / (2.0 * STEP)
    w, there = model.weight * model.answering / len(z), model.predictors(theta)
    down, kappa, up = (-model.brief(at, at, c, s)[1] for at in (there - STEP, there, there + STEP))
    # z moves, and with it curvature at its predictor, and its weight, but where that is 1 whatever its length
    changing = np.where(model.weight < 1.0, 1.0, float(unit)) * kappa / np.maximum((z**2).sum(axis=1), 1e-300)
    changing = changing * (1.0 - model.alike)
    change = (up - down)[:, None] / (2.0 * STEP) * (theta @ along) - changing[:, None] * (z @ along)
    out = np.einsum("ik,jk->kij", along, z.T @ (distance * (w * kappa)[:, None]))
    pairs = (z[:, :, None] * z[:, None, :]).reshape(len(z), d * d)
    return np.asarray(out + out.transpose(0, 2, 1) + ((change * distance * w[:, None]).T @ pairs).reshape(-1, d, d))


def offset_bias(model: Reference, theta: Array, square: Array, c: float, s: float) -> Array:
    """Mean report at θ of groups with offsets, beyond a line's, shape (b d,): equation (14) of docs/estimator.md.

    `square`, shape (b d, b d), are second moments of the groups' offsets, which are balanced; `c` and `s` are threshold
    and residual scale.
    """
    z, d = model.points, model.points.shape[1]
    w = model.weight * model.answering / len(z)
    if model.blocks == 1:
        there, distance = model.predictors(theta), np.sqrt(np.einsum("ij,ij->i", z @ square, z))
        up, middle, down = (model.brief(there + v, there, c, s)[0] for v in (distance, 0.0 * distance, -distance))
        return np.asarray(z.T @ (w * (0.5 * (up + down) - middle)))
    eta, there, out = z @ theta.reshape(model.blocks, -1).T, model.shares(theta), np.zeros((model.blocks, d))
    for k in range(model.blocks):
        block = slice(k * d, (k + 1) * d)
        distance = np.sqrt(np.einsum("ij,ij->i", z @ square[block, block], z))
        for sign in (1.0, -1.0):
            moved = eta.copy()
            moved[:, k] += sign * distance
            here = class_shares(moved)
            out += ((here - there)[:, 1:] * (0.5 * w / farthest(here))[:, None]).T @ z
    return out.reshape(-1)


def variance(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """Second moments of a report before noise, shape (b d, b d); for equation (22) of docs/estimator.md."""
    unit, share = model.points * model.weight[:, None], model.square * model.answering / len(model.points)
    if model.blocks > 1:
        return np.asarray(np.kron(np.eye(model.blocks), (unit * (share / (2.0 * model.blocks))).T @ unit))
    square = model.rules.scoring.square(model.rules, model.predictors(state), model.predictors(theta), c, s)
    return np.asarray((unit * (square * share)[:, None]).T @ unit)


def public_noise(
    model: Reference,
    state: Array,
    c: float,
    sd: float,
    limits: tuple[float, float],
    function: Callable[[float, float], float] | None = None,
    kappa: float = 0.0,
    *,
    mean: Array | None = None,
) -> Array:
    """Covariance of the noise where covariates are public, or second moments of answers without additive noise; (d, d).

    One number is randomised, by half the range of the score over the response's `limits` at each predictor; `function`
    is the score of a family of one's own, `kappa` the weight of the number in a joint report, and `sd` that of noise
    for a report of radius 1, or joint. An answer is `sd` half ranges above or below the middle of the score's range, or
    so in the mean beside a number; its mean at each point is the score's, `mean`, shape (m,), brought inside the range.
    """
    z, weight = model.points, model.weight
    low, high = scores.ends(model.rules.shape, c, z @ state, *limits, function)
    half, middle = 0.5 * (high - low), 0.5 * (high + low)
    radius = np.asarray(np.sqrt((half * half + 0.25 * kappa**2) / (1.0 + 0.25 * kappa**2)))
    if mean is None:
        unit = z * (weight * radius)[:, None]
        return np.asarray(sd**2 * (unit.T @ unit / len(unit)))
    square = np.maximum((sd * radius) ** 2 + (2.0 * np.clip(mean, low, high) - middle) * middle, 0.0)
    unit = z * weight[:, None]
    return np.asarray((unit * square[:, None]).T @ unit / len(z))


def means(model: Reference, state: Array, c: float, theta: Array, s: float) -> Array:
    """Mean unit score at each point if `theta` were the truth, one predictor, shape (m,)."""
    return np.asarray(model.answering * model.brief(model.predictors(state), model.predictors(theta), c, s)[0])


def directions(model: Reference) -> Array:
    """Second moments of reports' directions, (b d, b d), trace 1; classes equally likely, none of unusable records."""
    unit = model.points / np.maximum(np.linalg.norm(model.points, axis=1, keepdims=True), 1e-300)
    none = (1.0 - model.answering) / (model.blocks * unit.shape[1])
    each = model.answering / model.blocks * (unit.T @ unit / len(unit)) + none * np.eye(unit.shape[1])
    return np.kron(np.eye(model.blocks), each)


def _curve(model: Reference, share: Array, distance: Array, sign: float) -> Array:
    z, b, d = model.points, model.blocks, model.points.shape[1]
    w, out = model.weight * model.answering / (distance * len(z)), np.empty((b, d, b, d))
    for k, m in np.ndindex(b, b):
        kappa = w * share[:, k + 1] * ((k == m) - share[:, m + 1])
        out[k, :, m, :] = (z * kappa[:, None]).T @ z
    return sign * out.reshape(b * d, b * d)


def _blocks_secant(model: Reference, state: Array, theta: Array) -> Array:
    """∫ of the curvature along the way from θ to the state, by Simpson's rule; the divisor is the state's."""
    distance, out = farthest(model.shares(state)), np.zeros((len(theta), len(theta)))
    for t, weight in ((0.0, 1.0), (0.5, 4.0), (1.0, 1.0)):
        out += weight / 6.0 * _curve(model, model.shares(theta + t * (state - theta)), distance, 1.0)
    return out


MODELLED: Final = 0.7
"""Part of the mean scores that the reference model gets right, at least; also of its variance of scores: for "two
peaks" (`benchmarks.validity`) with it alone intervals at μ = 8 cover 89 and 91%, with `estimate.scattered`, 94 and
95%."""
FLAT: Final = 0.25  # Part of its largest slope that a score of bounded curvature has at the longest slopes
HEAPED: Final = 2.5  # Standard errors by which a heap of residuals must exceed its normal share
TURNS: Final = 60
PRECISE: Final = 1e-2  # Gain, in units of a squared standard error, that is worth no further step
SHORTEST: Final = 1e-4  # Part of a step that is tried, at least


def longest_slopes() -> float:
    """Length L of the slopes, whitened coordinates, beyond which a score of bounded curvature has little of it left.

    E p (1 − p) of a logistic one's normal predictors is near 1/(L √2π): a part `FLAT` of the largest.
    """
    return 4.0 / (FLAT * math.sqrt(2.0 * math.pi))


class Observed(NamedTuple):
    """Mean report of the records that answered one state."""

    theta: Array  # The state; shape (b d,)
    c: float
    score: Array  # shape (b d,)
    number: float | None  # Mean number of joint reports; None if the round has none
    variance: float  # Variance of a coordinate of the mean score, noise and sampling: (σ² + 1/(2d))/n of equation (16)
    number_variance: float  # Variance of the mean number, noise and sampling: (σ_J² + 1/4)/n


class Fitted(NamedTuple):
    """Coefficients and residual scale, with their covariance."""

    theta: Array  # shape (b d,)
    scale: float
    cov: Array  # Covariance of (θ, log s); shape (b d + 1, b d + 1)


def fit(model: Reference, seen: Sequence[Observed], guess: Fitted, prior: Fitted) -> Fitted:
    """Minimum-distance fit, equation (16) of docs/estimator.md, by Gauss–Newton steps, shortened until they gain.

    It begins at `guess`, unless the mean of `prior`, which holds before any pilot report, agrees better with the
    reports.
    """
    size, precision = len(guess.theta), np.asarray(np.linalg.inv(prior.cov), dtype=np.float64)
    at, origin = (np.append(one.theta, math.log(one.scale)) for one in (guess, prior))

    def distance(place: Array) -> tuple[float, Array, Array]:
        """Squared distance, half its gradient and about half its Hessian."""
        theta, s, away = place[:size], math.exp(float(place[size])), place - origin
        value, gradient, hessian = float(away @ precision @ away), precision @ away, np.array(precision)
        for one in seen:
            there = expected(model, one.theta, one.c, theta, s)
            each = 1.0 / (one.variance + (1.0 - MODELLED) ** 2 * float(one.score @ one.score) / size)
            rest = there.score - one.score
            by = np.column_stack([there.slope, there.by_scale if model.scaled else np.zeros(size)])
            value += each * float(rest @ rest)
            gradient = gradient + each * (by.T @ rest)
            hessian = hessian + each * (by.T @ by)
            if one.number is not None and model.scaled:
                each = 1.0 / (one.number_variance + (COMMON * one.number) ** 2)
                off, row = there.number - one.number, np.append(there.number_slope, there.number_by_scale)
                value += each * off**2
                gradient = gradient + each * off * row
                hessian = hessian + each * np.outer(row, row)
        return value, gradient, hessian

    value, gradient, hessian = distance(at)
    if len(seen) == 1 and not np.array_equal(at, origin) and (found := distance(origin))[0] < value:
        at, (value, gradient, hessian) = origin, found
    for _ in range(TURNS):
        step = -np.linalg.solve(hessian, gradient)
        promised, enough = -float(gradient @ step), PRECISE * (1.0 + abs(value))  # if scores were straight
        if promised < enough:
            break
        part, new = 1.0, _held(at + step, model, size)
        found = distance(new)
        while not found[0] < value and part > SHORTEST:
            # D along the step is taken for a parabola: D(0) = value, D'(0) = −2 promised, D(part) = found; its minimum
            least = part * promised / (found[0] - value + 2.0 * part * promised)
            part *= min(max(least, 0.1), 0.5)
            new = _held(at + part * step, model, size)
            found = distance(new)
        gained = value - found[0]
        if not gained > 0.0:
            break
        at, (value, gradient, hessian) = new, found
        if gained < enough:
            break
    return Fitted(at[:size], math.exp(float(at[size])), np.asarray(np.linalg.inv(hessian), dtype=np.float64))


def threshold_of_counts(rules: ScoreRules, eta: Array, unsure: float) -> float:
    """Threshold c of Pearson residuals while predictors, shape (m,), are known to ± `unsure`; the declared c at 0.

    A predictor that is off by e moves Pearson residuals by about √m e: wide thresholds keep all from being clipped.
    """
    mean = float(np.mean(np.exp(np.minimum(eta, math.log(rules.shape.a)))))
    return math.hypot(rules.ratio, math.sqrt(mean) * min(unsure, 1.0))


def heaped(model: Reference, last: Observed, scale: float) -> bool:
    """True if the last pilot round has more residuals within its threshold c than a smooth density leaves there.

    The pilot brings c to half of the scale s at which normal residuals have the reported share within c: 2 Φ(1/2) − 1 =
    38%. Where more residuals are at one point, s shrinks from round to round, the share stays, and the fit to all
    rounds, with 2 Φ(c/s) − 1 at most, expects too few at the last c, by more than the known noise and what `fit` lets a
    share be off.
    """
    if last.number is None:
        return False
    more = last.number - model.answering * math.erf(last.c / (math.sqrt(2.0) * scale))
    return more > max(HEAPED * math.sqrt(last.number_variance), COMMON * last.number)


def _held(at: Array, model: Reference, size: int) -> Array:
    """Limit the length of slopes to `longest_slopes()`, where scores still bend, and the log of the scale to ±60."""
    out = np.array(at)
    out[size] = min(max(out[size], -60.0), 60.0)
    if not model.scaled:
        rows = out[:size].reshape(model.blocks, -1)
        length = np.linalg.norm(rows, axis=1, keepdims=True)
        rows *= np.minimum(1.0, longest_slopes() / np.maximum(length, 1e-300))
    return out
