"""Parameter beside the coefficients: slopes of scores and of its number, and their noise: Equations (61) to (65)."""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.aggregate.classes import points
from privreg.collector.aggregate.common import Rounds
from privreg.collector.aggregate.curvature import Curvature
from privreg.collector.aggregate.plan import Summed
from privreg.collector.aggregate.rounds import WINDOWS
from privreg.collector.estimation.curvature import SPREAD, floored

STEP: Final = 1e-4  # Of slopes by differences
LEAST: Final = 0.1  # Slope of a made-up row, of the largest, at least
STRIDE: Final = 0.5  # Of a step that θ and the parameter take together, in thresholds, at most
WALKING, KEPT = 0.25, 0.02
"""Part of the curvature that a step and an estimate keep at least, where the parameter takes the rest: a step stays
short, and coefficients of which noise may leave nothing are marked."""


class Extra(NamedTuple):
    """Extra parameter beside an estimate of θ, shape (d,); γ is its logarithm."""

    by: Array  # Slope of scores by γ; 0 where their mean is 0 whatever it is; shape (d,)
    leaning: Array  # Slope of the estimate of γ by θ, shape (d,)
    meat: Array  # Covariance of scores and γ at a known θ, shape (d,)
    alone: float  # Variance of γ at a known θ
    noise: tuple[float, float, float]  # Variances by noise of an entry of `by`, of one of `leaning`, and of log s

    def both(self, bread: Array, cov: Array) -> tuple[Array, Array]:
        """Bread and covariance of (θ, γ), shape (d + 1, d + 1) each, of those of θ."""
        lean, far, meat = self.leaning, bread @ self.by, bread @ self.meat
        beside = cov @ lean - meat
        variance = max(self.alone + float(lean @ (beside - meat)), 0.0)
        whole = np.block([[bread, -far[:, None]], [lean @ bread, np.array([[1.0 - lean @ far]])]])
        return whole, np.block([[cov, beside[:, None]], [beside, np.array([[variance]])]])

    def unsure(self, bread: Array, cov: Array) -> Array:
        """Variances of `bread` Δ `cov`, Δ the noise of slopes, for rows of (θ, γ), shape (q, d + 1); shape (q,)."""
        (by, lean, steep), b, q = self.noise, np.square(bread), np.square(cov)
        slopes: Array = (by * b[:, :-1].sum(axis=1) + steep * b[:, -1]) * q[:, -1]
        return np.asarray(slopes + lean * b[:, -1] * q[:, :-1].sum(axis=1))

    def widened(self, bread: Array, cov: Array) -> Array:
        """Mean of Δ cov Δ', as it moves scores of θ; shape (d, d)."""
        (by, lean, steep), variance = self.noise, float(self.both(bread, cov)[1][-1, -1])
        more = lean * np.trace(cov) + steep * variance
        return np.asarray(by * variance * np.eye(len(cov)) + more * np.outer(self.by, self.by))


class Model(NamedTuple):
    """The model of responses, of rows that stand for everybody's in the last round's coordinates."""

    z: Array  # Shape (m, d)
    weight: Array  # Shape (m,)
    unsure: Array  # Variances of the logarithm of s, of rounds that say the parameter
    rounds: Rounds  # With slopes between what was reported and the model's
    shares: Array  # Of rounds in the curvature


def modelled(rounds: Rounds, curved: Curvature) -> Model:
    """Model at the last state, and rounds with slopes that differ from it by `SPREAD`: Equation (61).

    Where the mean of scores depends on the parameter rows have the curvature's second moments, in which each counts by
    its slope, so that weights are over it; else the known moments, as those of (22).
    """
    plan, last = rounds.plan, rounds.last
    one, scoring, shape = np.linalg.inv(last.rows)[0], plan.rules.scoring, plan.rules.shape
    second = curved.mean if plan.rules.cornered else rounds.progress.known.mean
    z, weight = points(second / float(one @ second @ one), one, math.inf)  # whose constant is 1, whatever the noise
    if plan.rules.cornered:
        here = z @ last.theta + plan.rate
        down, up = (scoring.reference(shape, last.scale, here, here + h, last.scale)[2] for h in (-STEP, STEP))
        weight = weight / np.maximum(down - up, LEAST * float((down - up).max()))
        weight = weight / weight.sum()
    found, unsure, filled = list[Summed](), [], rounds.progress.filled
    for s in rounds.summed:
        at, back = s.state.scale, s.state.rows @ np.linalg.inv(last.rows)
        here = z @ (back.T @ s.state.theta) + plan.rate

        def slope(k: int, by: float, log: float, at: float = at, here: Array = here) -> Array:
            ends = (scoring.reference(shape, at, here, here + h * by, at * math.exp(h * log)) for h in (STEP, -STEP))
            up, down = (one[k] for one in ends)
            return np.asarray(filled * weight * (up - down) / (2.0 * STEP))

        mean = filled * float(weight @ scoring.reference(shape, at, here, here, at)[1])
        slopes, sd = _between(np.array([s.steep]), 2.0 * scoring.steps()[0] * s.sds[4], np.array([max(mean, 1e-100)]))
        steep, lean, lean_sd, beyond, sds = float(slopes[0]), s.lean * s.steep, s.lean_sd * s.steep, s.beyond, s.sds
        if plan.rules.cornered:
            lean, lean_sd = _between(lean, lean_sd, back @ (-slope(0, 1.0, 0.0) @ z))
            beyond, far = _between(beyond, sds[3], back @ (-slope(2, 0.0, 1.0) @ z))
            sds = (*sds[:3], far, sds[4])
        found.append(s._replace(steep=steep, lean=lean / steep, lean_sd=lean_sd / steep, beyond=beyond, sds=sds))
        unsure.append((sd / steep) ** 2)
    return Model(
        z, weight, np.array(unsure)[rounds.narrow], rounds._replace(summed=tuple(found)).at(rounds.c), curved.shares
    )


def _between(reported: Array, noise: float, model: Array) -> tuple[Array, float]:
    """Values between those reported, with noise of this sd, and a model's, and the sd of each: Equation (6)."""
    prior = SPREAD**2 * float(model @ model) / len(model)
    share = prior / max(prior + noise**2, 1e-300)
    return model + share * (reported - model), math.sqrt(share) * noise


def tied(curvature: Array, by: Array, leaning: Array, kept: float) -> Array:
    """Slope of scores by a parameter that moves with θ, a part `kept` of the curvature left at least; shape (d, d)."""
    taken = -float(leaning @ np.linalg.solve(curvature, by))
    return np.asarray(np.outer(by, leaning) * min(1.0, (1.0 - kept) / max(taken, 1e-12)))


def bent(model: Model, theta: Array, scale: float) -> tuple[Array, Array, Array]:
    """Scores of rounds by the model if an estimate is the truth, beyond those on slopes that it says: Equation (64).

    Shape (rounds, d); with their slopes by that θ, shape (rounds, d, d), and by γ, (rounds, d). The way ends at a
    threshold and a factor 1.5 of the last state's parameter.
    """
    rounds, z = model.rounds, model.z
    last, rules, filled, rate = rounds.last, rounds.plan.rules, rounds.progress.filled, rounds.plan.rate
    far = float(np.linalg.norm(theta - last.theta)) / last.threshold(rules)
    there = z @ (last.theta + (theta - last.theta) / max(1.0, far)) + rate
    scale = last.scale * math.exp(np.clip(math.log(scale / last.scale), -WINDOWS[1], WINDOWS[1]))

    def of(s: Summed) -> tuple[Array, ...]:
        at, here = s.state.scale, z @ np.linalg.solve(last.rows.T, s.state.rows.T @ s.state.theta) + rate

        def beyond(to: float, log: float, farther: float = 0.0) -> Array:
            def mean(by: float, wider: float) -> Array:
                wide, truth = at * math.exp(wider), scale * math.exp(log)
                score = rules.scoring.reference(rules.shape, wide, here + by, there + to, truth)[2]
                return np.asarray(-filled * rules.ratio * wide * model.weight * score)

            return led(mean, there + to - here + farther, scale * math.exp(log) / at - 1.0)

        slope, wide = (beyond(*(STEP * u for u in way)) - beyond(*(-STEP * u for u in way)) for way in np.eye(2))
        more = beyond(0.0, 0.0)
        slopes = (z.T * slope) @ z / (2.0 * STEP), wide @ z / (2.0 * STEP)
        return more @ z, *slopes, beyond(0.0, 0.0, 1.0) - more, there - here

    more, slopes, by, alone, way = (np.array(one) for one in zip(*map(of, rounds.summed), strict=True))
    off = model.shares @ alone - alone  # the curvature is pooled
    return more + (off * way) @ z, slopes + np.einsum("km,mi,mj->kij", off, z, z), by


def led(mean: Callable[[float, float], Array], way: Array, log: float) -> Array:
    """Means at a state, and what their slopes by θ and γ there say of the `way` to the truth: 0 but for bends."""
    slope, wide = mean(STEP, 0.0) - mean(-STEP, 0.0), mean(0.0, STEP) - mean(0.0, -STEP)
    return np.asarray(mean(0.0, 0.0) + (slope * way + wide * log) / (2.0 * STEP))


def added(model: Model, curvature: Array, scale: float) -> Callable[[Array, Array], tuple[Array, Array]]:
    """Scores at an estimate beside those on the slope A, less its change times that, and the slope, half of A kept."""

    def at(theta: Array, weights: Array) -> tuple[Array, Array]:
        (more, slopes, _), root = bent(model, theta, scale), np.linalg.cholesky(curvature)
        back = np.linalg.solve(root, np.linalg.solve(root, np.einsum("k,kij->ij", weights, slopes)).T)
        change = root @ floored(back, -0.5) @ root.T
        return more - change @ theta, curvature + change

    return at
