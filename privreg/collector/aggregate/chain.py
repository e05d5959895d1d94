"""The design of noised sums, `full`: each state follows from the plan and the sums published before.

The last records of a stream measure the fit: Equations (24) and (25).
"""

import math
from typing import Final

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.aggregate import rounds
from privreg.collector.aggregate.curvature import level, pooled
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.lengths import paid
from privreg.collector.aggregate.plan import Plan, Progress
from privreg.collector.aggregate.report import sd, steps
from privreg.collector.design import Ask, Batch, Design
from privreg.collector.estimation.curvature import floored
from privreg.families.measures import Measure, summarise
from privreg.families.scores import REACH
from privreg.protocol.sums import summed_groups

DOUBT: Final = 6.5  # Standard deviations of noise by which a mean report may be longer than any report is


def asks(plan: Plan, progress: Progress) -> Ask:
    """Question that is asked next; the last round stays open."""
    state, last = progress.state, "measures" if plan.measured else "main"
    groups = summed_groups(plan.clusters) if plan.clusters and state.role == "main" else 1
    return Ask(state, groups, None if state.role == last else plan.people(progress))


def advance(plan: Plan, progress: Progress, batch: Batch | None) -> Progress:
    """Take in the open batch's sum, None if it was lost, and make the next state; after the main round of measures."""
    state, again = progress.state, plan.noise.again
    noise = math.inf if again else sd(plan, state)  # a curator makes no sum that no reports can have
    total = possible(batch, steps(plan, state).unit, noise)
    if batch is None or total is None:
        return asked_anew(progress, batch, refused=True)
    here = plan._replace(noise=plan.noise._replace(came=tuple(batch.weight.tolist())))
    if state.role == "measures":
        gauged = (*progress.gauged, (here.noise.whole(total), batch.people, sd(here, state)))
        out = asked_anew(progress, batch)._replace(gauged=gauged)
        return out._replace(state=out.state._replace(role="over")) if again else out
    out = rounds.advance(here, progress, total, batch.people)
    if state.role != "main":
        return paid(plan, out)
    if batch.more:  # groups of clusters answer one state, with a sum each
        return out
    ask, measure = again and not progress.last, plan.measured and (again or out.over >= plan.rows - plan.measured)
    if not ask and not measure:
        return out._replace(state=out.state._replace(role="over")) if again else out
    found = estimate(plan, out)
    assert found is not None
    if ask:
        return paid(plan, rounds.asked_again(plan, out, found.theta, found.scale))
    # limits to which residuals and responses are clipped, by the estimated residual scale and second moments
    gauge, rules = plan.gauge, plan.rules
    assert gauge is not None
    if rules.scoring.censored:
        gauge = gauge._replace(residual=found.scale, centre=plan.y_low, y_max=plan.y_high)
    elif rules.link == "identity":
        one, second, scale = np.linalg.inv(found.rows)[0], out.known.mean, found.scale
        if not rules.scaled:  # second moments of rows that were shortened say too little: squared scores say more
            matrices, noises, people = zip(*((s.square, s.sds[2], s.people) for s in found.rounds), strict=True)
            squares, level_noise, _ = pooled(matrices, noises, people, plan.square**2)
            mean = math.sqrt(level(squares, level_noise, plan.square, plan.unsure))
            scale = max(out.state.scale, mean * out.seen[-1].state.threshold(rules) / rules.top)
        centre = float(one @ second @ found.theta)
        spread = math.sqrt(max(float(found.theta @ second @ found.theta) - centre**2, 0.0) + scale**2)
        gauge = gauge._replace(residual=REACH * scale, spread=REACH * spread, centre=centre)
    return paid(plan, out._replace(state=out.state._replace(role="measures", theta=found.theta, gauge=gauge)))


def possible(batch: Batch | None, unit: float, noise: float) -> Array | None:
    """Sum of a batch over the longest report; None of one that was lost, or that no reports have.

    `unit` is the norm of the longest report, in whole numbers, and `noise` the sd of the sum's noise over it. No mean
    report is longer than reports can be by more than its noise.
    """
    if batch is None:
        return None
    public = batch.total / unit
    far = float(np.linalg.norm(public)) > batch.people + noise * (math.sqrt(len(public)) + DOUBT)
    return None if far else np.asarray(public)


def asked_anew(progress: Progress, batch: Batch | None, *, refused: bool = False) -> Progress:
    """Progress with a batch from which nothing is learned: the next state asks the same of other people."""
    state, people = progress.state._replace(number=progress.state.number + 1), 0 if batch is None else batch.people
    left = (*progress.refused, len(progress.held)) if refused else progress.refused
    return progress._replace(state=state, held=(*progress.held, people), refused=left)


def measured(plan: Plan, progress: Progress, unit: float) -> tuple[Measure, ...]:
    """Measures of fit from the reports so far; `unit` is that of the response per internal one: Equation (25)."""
    gauge, people = progress.state.gauge, sum(count for _, count, _ in progress.gauged)
    if gauge is None or people < 2:
        return ()
    weights = plan.measures
    total = sum(total for total, _, _ in progress.gauged) / (people * weights)
    noise = math.sqrt(sum(sd**2 for _, _, sd in progress.gauged)) / (people * weights)
    m = gauge.numbers
    mean = total[: m + int(gauge.nonresponse)]
    second = np.ones((len(mean), len(mean))) * mean[-1]
    second[-1, :m] = second[:m, -1] = mean[:m]  # beside the number that is 1 of who has something to tell
    i, j = np.triu_indices(m)
    second[i, j] = second[j, i] = total[len(mean) :]
    cov = floored(second - np.outer(mean, mean), 0.0) / people + np.diag(noise[: len(mean)] ** 2)
    return summarise(gauge, mean, cov, unit)


full: Final = Design(rounds.begin, asks, advance, lambda _, progress, __: progress, estimate)
"""Noised sums of reports of matrices: by two collectors, a curator, or silos."""
