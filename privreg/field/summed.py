"""Results of a study with two collectors from what both publish: the plan, and their sums. No share comes near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privreg.collector.aggregate import chain as chains
from privreg.errors import StudyError
from privreg.field.collected import fit_plan_of, made
from privreg.fits import aggregate
from privreg.fits import results as fits
from privreg.fits.results import Senders
from privreg.privacy.ledger import Release

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privreg.collector.aggregate.chain import Batch, Chain
    from privreg.collector.aggregate.plan import Plan
    from privreg.fits.fit_plan import FitPlan
    from privreg.protocol.study import PublicPlan
    from privreg.results.results import PrivateResults


def engine_of(plan: PublicPlan) -> Plan:
    """What the rounds of two collectors know before the first report.

    Raises
    ------
    StudyError
        If there is none, or devices are asked for other reports than it is made of.
    """
    return _begun(plan)[1]


def _begun(plan: PublicPlan) -> tuple[FitPlan, Plan, NDArray[np.intp]]:
    """The fit of a signed plan, what its rounds know, and the order of columns inside."""
    fit = fit_plan_of(plan)
    if fit.rows is None or fit.spec.trust != "two_collectors":
        raise StudyError("the plan names two collectors, and its model is of another kind; sign it anew.")
    rows = fit.rows
    engine, order = made(lambda: aggregate.plan_of(fit.spec, rows))
    if (made(lambda: chains.roles_of(engine)), chains.sums_of(engine)) != (plan.roles, plan.sums):
        raise StudyError("the plan asks devices for other reports than its model is made of; sign it anew.")
    return fit, engine, order


def follow(engine: Plan, batches: Sequence[Batch | None]) -> Chain:
    """Make the chain of a study's states again, of its batches in order."""
    chain = chains.begin(engine)
    for batch in batches:
        chain = chains.closed(engine, chain, batch)
    return chain


def results(plan: PublicPlan, chain: Chain, senders: Senders, added: Sequence[tuple[str, str]] = ()) -> PrivateResults:
    """Results of the batches that are published.

    Parameters
    ----------
    plan : PublicPlan
    chain : Chain
        By `follow`.
    senders : Senders
        Who randomised, as the privacy statement says it.
    added : sequence of (str, str)
        Entries of the summary's header.

    Raises
    ------
    InferenceError
        Before the main round has had a batch.
    """
    fit, engine, order = _begun(plan)
    people = tuple(b.people for b in chain.batches)
    held = aggregate.HeldSums(engine, chain.history, people, sum(people))
    return fits.results(
        aggregate.outcome(held, fit.spec, fit.settings, order),
        fit.spec,
        fit.settings,
        Release(0, plan.mu.p / plan.mu.q),
        senders=senders,
        added=added,
    )
