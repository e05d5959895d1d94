"""The chain of states with two collectors: each is a pure function of the plan and of the sums published before."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array, Ints
from privreg.collector.aggregate import measuring, rounds
from privreg.collector.aggregate.lattice import sd, steps
from privreg.collector.aggregate.plan import Plan, Progress

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
    """Take in the open batch's sum, None if it was lost, and make the next state."""
    progress, state = chain.progress, chain.progress.state
    came, more = ((), False) if batch is None else (batch.silos, batch.more)
    advance = partial(measuring.advance, plan, progress, came=came, more=more)
    noise = math.inf if plan.noise.again else sd(plan, state)  # a curator makes no sum that no reports can have
    return taken(chain, batch, unit=steps(plan, state).unit, noise=noise, advance=advance)


def taken(
    chain: Chain,
    batch: Batch | None,
    *,
    unit: float,  # Norm of the longest report, in whole numbers
    noise: float,  # Sd of the sum's noise over it
    advance: Callable[[Array, int], Progress]
    | None,  # Next state, of the sum over `unit` and its people; None: the same
) -> Chain:
    """The chain after a batch.

    A sum whose mean is longer than reports can be, by more than its noise, is left out, and so is a batch that was
    lost, None: the next state asks the same of other people.
    """
    progress, lost = chain.progress, batch is None
    batch = batch or Batch(0, np.zeros(0, dtype=np.int64))
    public = batch.total / unit
    if lost or float(np.linalg.norm(public)) > batch.people + noise * (math.sqrt(len(public)) + DOUBT):
        chain, advance = chain._replace(refused=(*chain.refused, len(chain.batches))), None
    if advance is None:
        state = progress.state._replace(number=progress.state.number + 1)
        after = progress._replace(state=state, held=(*progress.held, batch.people))
    else:
        after = advance(public, batch.people)
    return chain._replace(history=(*chain.history, after), batches=(*chain.batches, batch))


def ends(plan: Plan, chain: Chain) -> int | None:
    """Reports that close the open batch; None of the last round, which stays open."""
    if chain.progress.state.role == ("measures" if plan.measured else "main"):
        return None
    return rounds.people(plan, chain.progress)
