"""A fit of more coefficients than whole matrices of curvature are learned of: its states, and its estimate.

The same steps as of few coefficients (`rounds`, `estimate`) with the curvature of `many`. Reports only.
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector import pilot, reach
from privreg.collector.estimation import curvature, many
from privreg.collector.estimation.carrying import observed
from privreg.collector.plan import Estimated, Part
from privreg.protocol import codes

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.plan import Plan, Progress
    from privreg.protocol.rounds import State

TURNS: Final = 3  # Times that rounds are carried by the curvature up to the estimate before


def next_state(plan: Plan, progress: Progress, state: State) -> tuple[Progress, State]:
    """State of the next round of scores, but for offsets."""
    box, rules = progress.box, plan.rules
    assert box is not None
    assert progress.fitted is not None
    assert progress.prior is not None
    if progress.scored and progress.scored[-1].state.role == "pilot":
        theta, scale, unsure = many.fit(rules, box, observed(plan, progress), progress.prior)
        if rules.track:
            more = min(math.sqrt(unsure), 1.5 * scale) if state.role == "pilot" else 0.0
            state = state._replace(c=rules.ratio * math.hypot(scale, more))
        elif rules.shape.family == codes.ROBUST_POISSON:
            more = math.sqrt(unsure) if state.role == "pilot" else 0.0
            state = state._replace(c=pilot.threshold_of_counts(rules, box.mean @ theta[None].T, more))
        fitted = pilot.Fitted(theta, scale, np.array([[unsure]]))
        return progress._replace(fitted=fitted), state._replace(theta=theta)
    if not progress.scored:
        return progress, state
    *_, last = means_of(plan, progress, state.theta)
    learned = many.learn(means_of(plan, progress, state.theta), box)
    mean = last.weight @ last.g / last.weight.sum()
    scaled = rules.track or rules.shape.family == codes.HUBER
    unit = state.c if scaled else 1.0
    precision = float(last.weight.sum()) / (last.variance + last.square / plan.size)
    step = -box.near(last.small, mean / learned.mean, precision, unit**2)
    step *= min(1.0, reach.FAR * unit / max(math.sqrt(box.distance2(step)), 1e-300))
    return progress, state._replace(theta=state.theta + curvature.GAIN * step)


def means_of(plan: Plan, progress: Progress, theta: Array) -> list[many.RoundMeans]:
    """Rounds of which the estimate is made, with their curvature up to `theta`."""
    box = progress.box
    assert box is not None
    assert progress.fitted is not None
    out = []
    for one in progress.main:
        weight = one.weight.sum(axis=0)
        mean = one.score.sum(axis=0) / np.maximum(weight, 1e-300)[:, None]
        at = one.state.theta, one.state.c, theta, progress.fitted.scale
        small = many.curve(plan.rules, box, *at) * progress.scatter.answering
        square = many.square(plan.rules, box, *at) * progress.scatter.answering if plan.mechanism.additive else 0.0
        out.append(many.RoundMeans(one.state.theta, one.state.offsets, mean, weight, small, one.sd**2, square))
    return out


def estimate(plan: Plan, progress: Progress) -> Estimated:
    """Coefficients from all main rounds so far."""
    box, theta = progress.box, progress.state.theta
    assert box is not None
    for _ in range(TURNS):
        rounds = means_of(plan, progress, theta)
        learned = many.learn(rounds, box)
        found = many.combine(rounds, box, learned)
        theta = found.theta
    eye, nothing = np.eye(plan.size), np.zeros(plan.size)
    cov, unknown = found.covariance(box, eye), found.covariance(box, eye, whole=False)
    parts = [
        Part(one, float(share), nothing, partial(many.corrected, box, here.small, learned))
        for one, here, share in zip(progress.main, rounds, found.weights, strict=True)
    ]
    return Estimated(theta, cov, unknown, parts, partial(_earlier, box, rounds, found))


def _earlier(
    box: many.Box, rounds: list[many.RoundMeans], found: many.Found, linear: Array
) -> list[tuple[Array, Array]]:
    """Estimates after each main round but the last, and variances of `linear` times them."""
    before = list[many.Found]()
    for k in range(1, len(rounds)):
        before.append(many.combine(rounds[:k], box, many.learn(rounds[:k], box)))
    return [(f.theta, v) for f, v in zip(before, found.variances(box, linear, before), strict=True)]
