"""How far apart states may lie: rounds that are left behind, and steps that grow.

A score of bounded residuals tells curvature about its own state: one or two c away it is another one. With a response
of two peaks, states may have to go many c through a valley, in which scores hardly change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.collector.covariates.moments import SURE
from privreg.protocol import codes

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.plan import Plan, Progress

FAR: Final = 1.5
"""Units of c, or of the predictor where curvature depends on it, by which a state may move in one round. A predictor
with a larger sd of its error, along one direction of whitened covariates, doesn't tell curvature: in design "counts,
mostly none" of `benchmarks.validity`, slopes of such fits covered 81%, others 94%."""

GROWTH: Final = 2.0
"""Times as far that it moves if it did and goes on the same way: eleven c in four rounds, not in twelve. If that went
too far, it goes back by 1/GROWTH of the last step, to the middle."""

SAME: Final = 0.9  # Cosine between two steps the same way, or the opposite one

BEHIND: Final = 3.0
"""Units of c from the last state beyond which rounds don't count, once others tell as much.

In a fit without covariates but a group, as design "valley" of `benchmarks.designs` (400,000 records, μ = 5), the
group's coefficient was off by 5 standard errors with 5, by none with 2 and 3 (8 runs each). With 2, intervals of design
"response" were longer by 2%, and more of them marked."""

ENOUGH: Final = 0.8
"""Reports, relative to the largest round's, that rounds hold at least which a state follows, or which count alone."""


def _bounded(plan: Plan) -> bool:
    """Whether curvature changes over Huber's threshold c, or a quantile's window."""
    return plan.rules.shape.family in (codes.HUBER, codes.QUANTILE) and not plan.many


def left_behind(plan: Plan, progress: Progress, chance: float, off: float) -> Progress:
    """Leave out the first main rounds, up to the last that lies far from the present state: progress with `since`.

    `chance` is by what the noise of one round moves a state, coordinates of the scores, `off` how far the last state is
    from its own reports' estimate, were curvature what the reference model says. By more than c, nothing is left out:
    beyond the data scores are as large as they can be.
    """
    main = progress.main
    last = progress.state
    if len(main) < 2 or not _bounded(plan) or off > last.corner:
        return progress
    limit = max(BEHIND * last.corner, SURE * chance)
    people = np.array([float(one.weight.sum()) for one in main])
    far = [k for k, one in enumerate(main) if float(np.linalg.norm(one.state.theta - last.theta)) > limit]
    for k in reversed(far):
        if people[k + 1 :].sum() >= ENOUGH * people.max():
            return progress._replace(since=main[k + 1].state.number)
    return progress


def lengthened(plan: Plan, progress: Progress, step: Array, unit: float, gain: float, chance: float) -> Array:
    """A step, shortened to what is known of curvature, and lengthened if the last was, too, and went the same way.

    If the last step went too far, half of it is gone back: a zero lies between. So a step is no longer than what the
    rounds to come can halve. `progress` has the reports of the last state, by which the `step` is, shape (b d,). `unit`
    is that of lengths, c; `gain` the part of a step that is gone, and `chance` what noise alone makes its length.
    """
    length, most, before = float(np.linalg.norm(step)), FAR * unit, progress.main
    if length > max(most, SURE * chance) and len(before) > 1 and _bounded(plan):
        moved = before[-1].state.theta - before[-2].state.theta
        gone = float(np.linalg.norm(moved))
        same = float(moved @ step) / max(gone * length, 1e-300)
        if gone > 0.99 * gain * most and abs(same) > SAME:
            left = sum(r.role == "main" for r in plan.rounds[progress.state.number + 2 :])
            again = gone / gain * (GROWTH if same > 0.0 else 1.0 / GROWTH)
            return np.asarray(step * (max(most, min(again, most * 2.0 ** (left - 1))) / length))
    return np.asarray(step * min(1.0, most / max(length, 1e-300)))
