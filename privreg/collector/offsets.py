"""Offsets of the random groups of a main round: curvature is estimated from how their reports differ."""

from __future__ import annotations

import math
from typing import Final

import numpy as np
from scipy.linalg import hadamard
from scipy.special import ndtri

from privreg.base.arrays import Array
from privreg.collector.estimation import coordinates, curvature
from privreg.collector.estimation.reference import Reference
from privreg.collector.plan import SAMPLED, Carried, Plan, Progress
from privreg.protocol import codes
from privreg.protocol.rounds import State

OFFSET: Final = 0.35
"""Length of a group's offset in units of c with few records in main rounds; it falls with the fourth root of more."""

OFFSET_PEOPLE: Final = 10_625.0
"""Records in all rounds, times 4/(σ² + 0.7/d) and over the squared number of coefficients, up to which it is that long:
of more coefficients, more entries of the curvature are to be learned; of fewer, what offsets add to a mean report is
larger beside a standard error. Where this was 170,000 whatever their number, the sd of a constant alone, of the 0.9
quantile, was 1.3 times its standard error (`benchmarks.families`)."""

MARGINS: Final = {codes.CUSTOM: 0.7, codes.HINGE: 0.5, codes.SMOOTHED_HINGE: 0.2}
"""Length of offsets on the scale of the predictor, of a score of one's own and of hinges, whose curvature changes with
the predictor in a way that no reference model here has. Of hinges, with 0.7 estimates lay up to 2 standard errors from
where the mean score is zero, with 0.5 up to 0.8; with 0.2 reports showed nothing. Of smoothed ones, 5.8 standard errors
with 0.7, 0.7 with this, for intervals a fifth longer (`benchmarks.families`)."""

GENTLE: Final = 0.35
"""Length of offsets, relative to that of others, of a yes or no, of classes and of counts. What offsets add to a
mean report is taken off by a reference model that knows little of the covariates: with powers of an age, full length
moved coefficients by 1.4 standard errors from a right model's and this by 0.4, and reports showed the curvature no
worse where the link was wrong. With full length the slope of counts of 90,000 records had an sd of 1.19 standard
errors, with this of 0.92."""

CURVED: Final = codes.COUNTS | {codes.LOGISTIC, codes.BALANCED, codes.MULTINOMIAL}  # Families with `GENTLE` offsets

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
    q = plan.size
    people = sum(progress.held) if plan.rows is None else plan.rows
    curved = plan.rules.varying or plan.rules.centre != 0.0 or plan.rules.shape.family == codes.SQUARED
    # where offsets bend what is expected, their length falls with a standard error; else curvature is what matters
    strength2 = plan.effective_mu(state.longest) ** 2
    if not curved and not state.longest:
        strength2 = 4.0 / (plan.sd("main") ** 2 + SAMPLED / plan.d)
    effective = people * strength2
    enough = OFFSET_PEOPLE * q**2
    size = OFFSET * min(1.0, (enough / max(effective, 1.0)) ** 0.25)
    length = size * (state.c if plan.rules.track or plan.rules.shape.family == codes.HUBER else 1.0)
    if plan.rules.varying and plan.rules.track:
        # c is that of a window about a margin
        length = size * MARGINS[plan.rules.shape.family]
    # far out the density, which is the curvature, is low: with the median's length, reports showed so little of one
    # that varied elevenfold that intervals of the 0.9 quantile covered 70%
    if plan.rules.shape.family == codes.QUANTILE:
        length *= min(math.exp(0.5 * float(ndtri(plan.rules.shape.a)) ** 2), 1.0 / OFFSET)
    if plan.rules.shape.family in CURVED and plan.sd("main") > 0.0:
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
