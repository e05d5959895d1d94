"""Distances between states: offsets of the random groups of a main round, rounds that are left out, steps that grow.

Curvature is estimated from how groups' reports differ. Reports of bounded residuals show the curvature near their
state: one or two c away it is another one. With a response of two peaks, states may have to go many c through a valley,
in which scores hardly change.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.linalg import hadamard
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.estimation import coordinates, curvature
from privreg.collector.estimation.reference import Reference
from privreg.collector.levels import SURE
from privreg.collector.plan import SAMPLED, Carried, Plan, Progress
from privreg.protocol.rounds import State

ENOUGH: Final = 0.7  # Part of the reports of the largest round that is enough to go by

OFFSET: Final = 0.35
"""Length of a group's offset in units of c with few records in main rounds; it falls with the fourth root of more."""

OFFSET_PEOPLE: Final = 10_625.0
"""Records in all rounds, times 4/(σ² + 0.7/d) and over the squared number of coefficients, up to which it is that long:
of more coefficients, more entries of the curvature are to be learned; of fewer, what offsets add to a mean report is
larger beside a standard error. Where this was 170,000 whatever their number, the sd of a constant alone, of the 0.9
quantile, was 1.3 times its standard error (`benchmarks.families`)."""

GENTLE: Final = 0.35
"""Length of offsets, relative to that of others, of a yes or no, of classes and of counts. What offsets add to a
mean report is taken off by a reference model that knows little of the covariates: with powers of an age, full length
moved coefficients by 1.4 standard errors from a right model's and this by 0.4, and reports showed the curvature no
worse where the link was wrong. With full length the slope of counts of 90,000 records had an sd of 1.19 standard
errors, with this of 0.92."""

STRETCHED: Final = 4  # Main rounds after which offsets are stretched where these show little curvature


def offsets(plan: Plan, progress: Progress, state: State) -> Array:
    """Offsets of the groups, shape (groups, q), balanced: equation (19) of docs/estimator.md."""
    q = plan.size
    if q < plan.groups:
        signs = hadamard(plan.groups)[:, 1 : q + 1].astype(np.float64) * (-1.0) ** state.number
    else:
        rng = np.random.Generator(np.random.PCG64([41, state.number]))
        half = rng.choice([-1.0, 1.0], (plan.groups // 2, q))
        signs = np.concatenate([half, -half])
    out = signs * (_length(plan, progress, state) / math.sqrt(q))
    if progress.stretch is not None:
        out = out @ progress.stretch
    if not plan.rules.varying:
        out[:, coordinates.at_a_bound(plan, progress, state)] *= coordinates.AT_BOUND
    return np.asarray(out)


def _length(plan: Plan, progress: Progress, state: State) -> float:
    """Length of groups' offsets: equation (18) of docs/estimator.md."""
    q, scoring = plan.size, plan.rules.scoring
    people = sum(progress.held) if plan.rows is None else plan.rows
    curved = plan.rules.varying or plan.rules.centre != 0.0 or scoring.bent_by_offsets
    # where offsets bend what is expected, their length falls with a standard error; else curvature is what matters
    strength2 = plan.effective_mu(state.longest) ** 2
    if not curved and not state.longest:
        strength2 = 4.0 / (plan.sd("main") ** 2 + SAMPLED / plan.d)
    effective = people * strength2
    enough = OFFSET_PEOPLE * q**2
    size = OFFSET * min(1.0, (enough / max(effective, 1.0)) ** 0.25)
    length = size * (state.c if plan.rules.track or scoring.residual else 1.0)
    if plan.rules.varying and plan.rules.track:
        # c is that of a window about a margin
        length = size * scoring.margin
    # far out the density, which is the curvature, is low: with the median's length, reports showed so little of one
    # that varied elevenfold that intervals of the 0.9 quantile covered 70%
    if scoring.density:
        length *= min(math.exp(0.5 * float(ndtri(plan.rules.shape.a)) ** 2), 1.0 / OFFSET)
    if scoring.short_offsets and plan.sd("main") > 0.0:
        length *= GENTLE
    elif plan.extremes and not plan.rules.varying:
        length *= coordinates.AT_BOUND
    return float(length)


def stretched(plan: Plan, progress: Progress, state: State, model: Reference, carried: Carried) -> Progress:
    """Add the matrix by which offsets are multiplied after four main rounds: equation (20) of docs/estimator.md.

    Along directions of less curvature than the mean they are longer in proportion, but for numbers at a bound, at
    most c, and only so long that predictors of records that show curvature along a direction move by c: with three c
    no record of a rare level had a score that bent, and its coefficient's sd was a quarter larger. Relative errors of
    standard errors are those of curvature, which are the larger, with offsets of one length, the less curvature there
    is. In designs where it varies most, with 200,000 records, a tenth as many coefficients were marked,
    and 93% of the intervals of the worst held in place of 88 (`benchmarks.validity`); where it doesn't vary, next to
    nothing changes.
    """
    usual = model.scaled and not plan.rules.varying and plan.size <= curvature.MOST
    learned = progress.curvature
    if not usual or progress.stretch is not None or learned is None or len(progress.main) < STRETCHED:
        return progress
    each = _length(plan, progress, state) / (state.c * math.sqrt(plan.size))
    values, vectors = np.linalg.eigh(carried.root @ learned.mean @ carried.root.T)
    along = (model.points @ vectors) ** 2
    reach = np.sqrt((model.weight @ along**2) / np.maximum(model.weight @ along, 1e-300))
    most = np.clip(1.0 / np.maximum(each * reach, 1e-300), 1.0, 1.0 / OFFSET)
    usually = max(float(values.mean()), 1e-290)
    times = np.clip(usually / np.maximum(values, 1e-9 * usually), 1.0, most)
    stretch = np.eye(plan.size) + (vectors * (times - 1.0)) @ vectors.T
    short = coordinates.at_a_bound(plan, progress, state)
    stretch[short] = stretch[:, short] = 0.0
    stretch[short, short] = 1.0
    return progress._replace(stretch=stretch)


FAR: Final = 1.5
"""Units of c, or of the predictor where curvature depends on it, by which a state may move in one round. A predictor
with a larger sd of its error, along one direction of whitened covariates, doesn't show curvature: in design "counts,
mostly none" of `benchmarks.validity`, slopes of such fits covered 81%, others 94%."""


def _bounded(plan: Plan) -> bool:
    """True if curvature changes over Huber's threshold c, or a quantile's window."""
    return plan.rules.scoring.bounded


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
        if people[k + 1 :].sum() >= ENOUGH * people.max():
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
