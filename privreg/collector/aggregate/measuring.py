"""Measures of fit, from a sum of reports of the last records of a stream. Equations (24) and (25)."""

from __future__ import annotations

import math

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.aggregate import rounds
from privreg.collector.aggregate.budget import paid
from privreg.collector.aggregate.estimate import Estimated, estimate
from privreg.collector.aggregate.lattice import sd
from privreg.collector.aggregate.plan import Plan, Progress
from privreg.families.measures import Measure, summarise
from privreg.families.scores import REACH, Gauge


def advance(
    plan: Plan, progress: Progress, total: Array, count: int, *, came: tuple[int, ...] = (), more: bool = False
) -> Progress:
    """Take in a round's noised sum, and publish the state of the next; after the main round that of measures.

    `came` are records by silo, where there are silos, and `more` says that other groups' sums of this round follow.
    Other parameters and the result are those of `rounds.advance`.
    """
    state, held = progress.state, (*progress.held, count)
    here = plan._replace(noise=plan.noise._replace(came=came))
    if state.role == "measures":
        gauged = (*progress.gauged, (here.noise.whole(total), count, sd(here, state)))
        role = "over" if plan.noise.again else "measures"
        return progress._replace(state=state._replace(number=state.number + 1, role=role), held=held, gauged=gauged)
    out = rounds.advance(here, progress, total, count)
    if state.role != "main":
        return paid(plan, out)
    if more:  # groups of clusters answer one state, with a sum each
        return out
    if plan.noise.again and not progress.last:
        found = estimate(plan, out)
        assert found is not None
        return paid(plan, rounds.asked_again(plan, out, found.theta, found.scale))
    if plan.measured and (plan.noise.again or out.over >= plan.rows - plan.measured):
        found = estimate(plan, out)
        assert found is not None
        gauge = _widths(plan, out, found)
        return paid(plan, out._replace(state=out.state._replace(role="measures", theta=found.theta, gauge=gauge)))
    return out._replace(state=out.state._replace(role="over")) if plan.noise.again else out


def _widths(plan: Plan, progress: Progress, found: Estimated) -> Gauge:
    """Limits to which residuals and responses are clipped, by the estimated residual scale and second moments."""
    assert plan.gauge is not None
    if plan.rules.scoring.censored:
        return plan.gauge._replace(residual=found.scale, centre=plan.y_low, y_max=plan.y_high)
    if not plan.rules.linear:
        return plan.gauge
    one, second, scale = np.linalg.inv(found.rows)[0], progress.known.mean, found.scale
    if not plan.rules.scaled:  # second moments of rows that were shortened say too little: squared scores say more
        parts, jitter = rounds.pooling(
            [s.sds[2] for s in found.rounds], [s.people for s in found.rounds], plan.square**2
        )
        squares = sum(w * s.square for w, s in zip(parts, found.rounds, strict=True))
        mean = math.sqrt(rounds.level(squares, jitter, plan.square, plan.unsure))
        scale = max(progress.state.scale, mean * progress.seen[-1].state.threshold(plan.rules) / plan.rules.top)
    centre = float(one @ second @ found.theta)
    spread = math.sqrt(max(float(found.theta @ second @ found.theta) - centre**2, 0.0) + scale**2)
    return plan.gauge._replace(residual=REACH * scale, spread=REACH * spread, centre=centre)


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
    cov = rounds.floored(second - np.outer(mean, mean), 0.0) / people + np.diag(noise[: len(mean)] ** 2)
    return summarise(gauge, mean, cov, unit)
