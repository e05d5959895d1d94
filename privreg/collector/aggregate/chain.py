"""The chain of states of noised sums, measures of fit the last: functions of the plan and of the sums published before.

Measures are of the last records of a stream: Equations (24) and (25).
"""

import math
from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate import rounds
from privreg.collector.aggregate.curvature import floored, level, pooled
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.lengths import paid
from privreg.collector.aggregate.plan import Plan, Progress
from privreg.collector.aggregate.report import sd, steps
from privreg.families.measures import Measure, summarise
from privreg.families.scores import REACH

DOUBT: Final = 6.5  # Standard deviations of noise by which a mean report may be longer than any report is


class Batch(NamedTuple):
    """A published sum."""

    people: int
    # Whole numbers, modulo 2⁶⁴, with the noise of all who add it; of silos each one's, shape (silos, numbers)
    total: Ints
    silos: tuple[int, ...] = ()  # People by silo, none of one that has dropped out
    more: bool = False  # True if sums of other groups of clusters follow, of the same round, where rows answer again


class Chain(NamedTuple):
    """Public history of a fit after some published batches."""

    history: tuple[Progress, ...]  # Before each batch, the last one being open
    batches: tuple[Batch, ...] = ()
    refused: tuple[int, ...] = ()  # Batches that were lost, or whose sum no reports can have

    @property
    def progress(self) -> Progress:
        """Progress after the last batch."""
        return self.history[-1]


def begin(plan: Plan) -> Chain:
    """Chain before the first report."""
    return Chain((rounds.begin(plan),))


def closed(plan: Plan, chain: Chain, batch: Batch | None) -> Chain:
    """Take in the open batch's sum, None if it was lost, and make the next state; after the main round of measures."""
    progress, state, again = chain.progress, chain.progress.state, plan.noise.again
    came, more = ((), False) if batch is None else (batch.silos, batch.more)
    here = plan._replace(noise=plan.noise._replace(came=came))

    def following(total: Array, count: int) -> Progress:
        held = (*progress.held, count)
        if state.role == "measures":
            gauged = (*progress.gauged, (here.noise.whole(total), count, sd(here, state)))
            role = "over" if again else "measures"
            return progress._replace(state=state._replace(number=state.number + 1, role=role), held=held, gauged=gauged)
        out = rounds.advance(here, progress, total, count)
        if state.role != "main":
            return paid(plan, out)
        if more:  # groups of clusters answer one state, with a sum each
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
                squares, noise, _ = pooled(matrices, noises, people, plan.square**2)
                mean = math.sqrt(level(squares, noise, plan.square, plan.unsure))
                scale = max(out.state.scale, mean * out.seen[-1].state.threshold(rules) / rules.top)
            centre = float(one @ second @ found.theta)
            spread = math.sqrt(max(float(found.theta @ second @ found.theta) - centre**2, 0.0) + scale**2)
            gauge = gauge._replace(residual=REACH * scale, spread=REACH * spread, centre=centre)
        return paid(plan, out._replace(state=out.state._replace(role="measures", theta=found.theta, gauge=gauge)))

    noise = math.inf if again else sd(plan, state)  # a curator makes no sum that no reports can have
    return taken(chain, batch, unit=steps(plan, state).unit, noise=noise, advance=following)


def taken(
    chain: Chain, batch: Batch | None, *, unit: float, noise: float, advance: Callable[[Array, int], Progress] | None
) -> Chain:
    """The chain after a batch. `advance` makes the next state of a sum over `unit` and its people; None: the same.

    `unit` is the norm of the longest report, in whole numbers, and `noise` the sd of the sum's noise over it. A sum
    whose mean is longer than reports can be, by more than its noise, is left out, and so is a batch that was lost,
    None: the next state asks the same of other people.
    """
    progress, lost = chain.progress, batch is None
    batch = batch or Batch(0, np.zeros(0, dtype=np.int64))
    public = batch.total / unit
    if lost or float(np.linalg.norm(public)) > batch.people + noise * (math.sqrt(len(public)) + DOUBT):
        chain, advance = chain._replace(refused=(*chain.refused, len(chain.batches))), None
    if advance is not None:
        after = advance(public, batch.people)
    else:
        state = progress.state._replace(number=progress.state.number + 1)
        after = progress._replace(state=state, held=(*progress.held, batch.people))
    return chain._replace(history=(*chain.history, after), batches=(*chain.batches, batch))


def ends(plan: Plan, chain: Chain) -> int | None:
    """Reports that close the open batch; None of the last round, which stays open."""
    if chain.progress.state.role == ("measures" if plan.measured else "main"):
        return None
    return plan.people(chain.progress)


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
