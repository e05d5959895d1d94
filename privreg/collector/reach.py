"""Limits of the distance between states: rounds that are left out, and steps that grow.

Reports of bounded residuals show the curvature near their state: one or two c away it is another one. With a response
of two peaks, states may have to go many c through a valley, in which scores hardly change.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.levels import BELIEVED, SURE
from privreg.collector.plan import Plan, Progress
from privreg.protocol import codes

FAR: Final = 1.5
"""Units of c, or of the predictor where curvature depends on it, by which a state may move in one round. A predictor
with a larger sd of its error, along one direction of whitened covariates, doesn't show curvature: in design "counts,
mostly none" of `benchmarks.validity`, slopes of such fits covered 81%, others 94%."""


def _bounded(plan: Plan) -> bool:
    """True if curvature changes over Huber's threshold c, or a quantile's window."""
    return plan.rules.shape.family in (codes.HUBER, codes.QUANTILE)


def left_behind(plan: Plan, progress: Progress, chance: float, off: float) -> Progress:
    """Leave out the first main rounds, up to the last that is far from the present state: progress with `since`.

    Farther than two of the longest steps, once others tell as much. In a fit without covariates but a group, as design
    "valley" of `benchmarks.designs` (400,000 records, μ = 5), the group's coefficient was off by 5 standard errors with
    5 c, by none with 2 and 3 (8 runs each). With 2, intervals of design "response" were longer by 2%, and more marked.

    `chance` is the sd of a state by the noise of one round, coordinates of the scores; `off` the last state's distance
    from its reports' one-step estimate under the reference model's curvature. If that is more than c, nothing is left
    out: beyond the data scores are as large as they can be.
    """
    main = progress.main
    last = progress.state
    if len(main) < 2 or not _bounded(plan) or off > last.c:
        return progress
    limit = max(2.0 * FAR * last.c, SURE * chance)
    people = np.array([float(one.weight.sum()) for one in main])
    far = [k for k, one in enumerate(main) if float(np.linalg.norm(one.state.theta - last.theta)) > limit]
    for k in reversed(far):
        if people[k + 1 :].sum() >= BELIEVED * people.max():
            return progress._replace(since=main[k + 1].state.number)
    return progress


def lengthened(plan: Plan, progress: Progress, step: Array, unit: float, gain: float, chance: float) -> Array:
    """A step cut to `FAR` units, but twice the last one if that was cut, too, and went the same way; shape (b d,).

    So states move by eleven c in four rounds, not in twelve. If the last step went too far, half of it is taken back: a
    zero is between. A step is never longer than the rounds to come can halve. `step` is computed from the reports of
    the last state, which `progress` has. `unit` is that of lengths, c; `gain` the part of a step that is made, and
    `chance` the length that noise alone gives it.
    """
    length, most, before = float(np.linalg.norm(step)), FAR * unit, progress.main
    if length > max(most, SURE * chance) and len(before) > 1 and _bounded(plan):
        moved = before[-1].state.theta - before[-2].state.theta
        gone = float(np.linalg.norm(moved))
        same = float(moved @ step) / max(gone * length, 1e-300)
        if gone > 0.99 * gain * most and abs(same) > math.sqrt(0.5):  # more along it than across
            left = sum(r.role == "main" for r in plan.rounds[progress.state.number + 2 :])
            again = gone / gain * (2.0 if same > 0.0 else 0.5)
            return np.asarray(step * (max(most, min(again, most * 2.0 ** (left - 1))) / length))
    return np.asarray(step * min(1.0, most / max(length, 1e-300)))
