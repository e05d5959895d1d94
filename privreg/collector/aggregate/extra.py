"""Parameter beside the coefficients: slopes of scores and of its number, and their noise: Equations (61) to (65)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from privreg.collector.aggregate.classes import points
from privreg.collector.estimation.curvature import SPREAD

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from privreg.base.arrays import Array
    from privreg.collector.aggregate.plan import Plan, Progress, State, Summed

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
        own = max(self.alone + float(lean @ (beside - meat)), 0.0)
        whole = np.block([[bread, -far[:, None]], [lean @ bread, np.array([[1.0 - lean @ far]])]])
        return whole, np.block([[cov, beside[:, None]], [beside, np.array([[own]])]])

    def unsure(self, bread: Array, cov: Array) -> Array:
        """Variances of `bread` Δ `cov`, Δ the noise of slopes, for rows of (θ, γ), shape (q, d + 1); shape (q,)."""
        (by, lean, steep), b, q = self.noise, np.square(bread), np.square(cov)
        own: Array = (by * b[:, :-1].sum(axis=1) + steep * b[:, -1]) * q[:, -1]
        return np.asarray(own + lean * b[:, -1] * q[:, :-1].sum(axis=1))

    def widened(self, bread: Array, cov: Array) -> Array:
        """Mean of Δ cov Δ', as it moves scores of θ; shape (d, d)."""
        (by, lean, steep), own = self.noise, float(self.both(bread, cov)[1][-1, -1])
        return np.asarray(
            by * own * np.eye(len(cov)) + (lean * np.trace(cov) + steep * own) * np.outer(self.by, self.by)
        )


def noise(
    c: float, weights: Array, rounds: Sequence[Any], shares: Array, best: Sequence[Summed], steeper: Sequence[float]
) -> tuple[float, float, float]:
    """Variances by noise for `Extra.noise`, of rounds with these weights, and of the `best` ones with `shares`."""
    by = [w**2 * t.sds[3] ** 2 * t.wider for w, t in zip(weights, rounds, strict=True) if t.beyond.any()]
    return (
        c**2 * sum(by),
        sum(w**2 * s.lean_sd**2 for w, s in zip(shares, best, strict=True)),
        float(shares**2 @ steeper),
    )


def rows(plan: Plan, progress: Progress, last: State, curvature: Array) -> tuple[Array, Array]:
    """Rows that stand for everybody's, shape (m, d), in the last round's coordinates, and their weights, shape (m,).

    Of scores whose mean depends on the parameter they have the curvature's second moments, in which rows count by their
    slope, so that weights are over it; of others the known moments, as those of (22).
    """
    one, scoring, shape = np.linalg.inv(last.rows)[0], plan.rules.scoring, plan.rules.shape
    if not plan.rules.cornered:
        return points(progress.known.mean, one, math.inf)
    z, weight = points(curvature / float(one @ curvature @ one), one, math.inf)
    here = z @ last.theta + plan.rate
    down, up = (scoring.reference(shape, last.scale, here, here + h, last.scale)[2] for h in (-STEP, STEP))
    weight = weight / np.maximum(down - up, LEAST * float((down - up).max()))
    return z, weight / weight.sum()


def known(
    plan: Plan, filled: float, made: tuple[Array, Array], rounds: Sequence[Summed], last: State
) -> tuple[tuple[Summed, ...], list[float]]:
    """Rounds with slopes between what was reported and the model's, from which they differ by `SPREAD`: Equation (61).

    `made` are rows and weights. Beside them variances of the logarithms of slopes by γ.
    """
    out: list[Summed] = []
    (z, weight), scoring, shape, unsure = made, plan.rules.scoring, plan.rules.shape, list[float]()
    for s in rounds:
        back, at = s.state.rows @ np.linalg.inv(last.rows), s.state.scale
        here = z @ (back.T @ s.state.theta) + plan.rate

        def slope(k: int, by: float, log: float, at: float = at, here: Array = here) -> Array:
            up, down = (
                scoring.reference(shape, at, here, here + h * by, at * math.exp(h * log))[k] for h in (STEP, -STEP)
            )
            return np.asarray(filled * weight * (up - down) / (2.0 * STEP))

        own = filled * float(weight @ scoring.reference(shape, at, here, here, at)[1])
        steep, sd = _between(np.array([s.steep]), 2.0 * scoring.steps()[0] * s.sds[4], np.array([max(own, 1e-100)]))
        unsure.append((sd / float(steep[0])) ** 2)
        s = s._replace(steep=float(steep[0]), lean=s.lean * s.steep, lean_sd=s.lean_sd * s.steep)
        if plan.rules.cornered:
            lean, lean_sd = _between(s.lean, s.lean_sd, back @ (-slope(0, 1.0, 0.0) @ z))
            beyond, sd = _between(s.beyond, s.sds[3], back @ (-slope(2, 0.0, 1.0) @ z))
            s = s._replace(lean=lean, lean_sd=lean_sd, beyond=beyond, sds=(*s.sds[:3], sd, s.sds[4]))
        out.append(s._replace(lean=s.lean / s.steep, lean_sd=s.lean_sd / s.steep))
    return tuple(out), unsure


def _between(told: Array, noise: float, model: Array) -> tuple[Array, float]:
    """Values between those reported, with noise of this sd, and a model's, and the sd of each: Equation (9)."""
    prior = SPREAD**2 * float(model @ model) / len(model)
    share = prior / max(prior + noise**2, 1e-300)
    return model + share * (told - model), math.sqrt(share) * noise


def tied(curvature: Array, by: Array, leaning: Array, kept: float) -> Array:
    """Slope of scores by a parameter that moves with θ, a part `kept` of the curvature left at least; shape (d, d)."""
    taken = -float(leaning @ np.linalg.solve(curvature, by))
    return np.asarray(np.outer(by, leaning) * min(1.0, (1.0 - kept) / max(taken, 1e-12)))


def bent(
    plan: Plan, filled: float, made: tuple[Array, Array], rounds: Sequence[Summed], last: State, scale: float
) -> Callable[[Array], tuple[Array, Array, Array]]:
    """Scores of rounds at an estimate that the model has beyond their slopes at the state, shape (rounds, d).

    And the changes of their slopes by θ and γ until there, shapes (rounds, d, d) and (rounds, d). `made` are rows and
    weights, `scale` the parameter's estimate.
    """
    (z, weight), reference = made, plan.rules.scoring.reference

    def at_estimate(theta: Array) -> tuple[Array, Array, Array]:
        there, out = z @ theta + plan.rate, []
        for s in rounds:
            back, at = s.state.rows @ np.linalg.inv(last.rows), s.state.scale
            here, unit = z @ (back.T @ s.state.theta) + plan.rate, filled * s.state.threshold(plan.rules)

            def mean(to: Array, truth: float, at: float = at, here: Array = here, unit: float = unit) -> Array:
                return np.asarray(-unit * weight * reference(plan.rules.shape, at, here, to, truth)[2])

            ends = (here, at), (there, scale)
            first, then = ((mean(v + STEP, r) - mean(v - STEP, r)) / (2.0 * STEP) for v, r in ends)
            wide, wider = ((mean(v, r * (1.0 + STEP)) - mean(v, r * (1.0 - STEP))) / (2.0 * STEP) for v, r in ends)
            more = mean(there, scale) - first * (there - here) - wide * (scale / at - 1.0)
            out.append((more @ z, (z.T * (then - first)) @ z, (wider - wide * scale / at) @ z))
        more, slopes, by = (np.array(one) for one in zip(*out, strict=True))
        return more, slopes, by

    return at_estimate
