"""Results of a study with two collectors from what both publish: the plan, and their sums. No share comes near."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from privreg.collector.aggregate import chain as chains
from privreg.device.consent import plain
from privreg.diagnostics import Diagnostic
from privreg.errors import StudyError
from privreg.field.collected import begun
from privreg.fits import aggregate
from privreg.fits import results as fits
from privreg.fits.results import Senders
from privreg.privacy.ledger import Release
from privreg.protocol.lattice import unit_of_sums

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from privreg.collector.aggregate.chain import Batch, Chain
    from privreg.collector.aggregate.plan import Plan
    from privreg.fits.fit_plan import FitPlan
    from privreg.protocol.study import PublicPlan
    from privreg.results.results import PrivateResults


def engine_of(plan: PublicPlan) -> Plan:
    """What the rounds of two collectors know before the first report; raises as `begun` does."""
    return _begun(plan)[1]


def _begun(plan: PublicPlan) -> tuple[FitPlan, Plan, NDArray[np.intp]]:
    def make(fit: FitPlan) -> tuple[Plan, NDArray[np.intp]]:
        if fit.rows is None or fit.spec.trust != "two_collectors":
            raise StudyError("its model is not one of two collectors; sign it anew.")
        return aggregate.plan_of(fit.spec, fit.rows)

    wanted = plan.roles, plan.sums
    return begun(plan, make, lambda _, engine: (chains.roles_of(engine), chains.sums_of(engine)) == wanted)


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


def protocol_of(chain: Chain, issued: int) -> str:
    """What came, for the summary's header: batches, and invitations of which nothing is in a sum."""
    lost, people = _lost(chain), sum(b.people for b in chain.batches)
    parts = [f"{len(chain.batches)} batches"]
    parts += [f"{len(lost)} lost"] if lost else []
    parts += [f"{len(chain.refused) - len(lost)} left out"] if len(chain.refused) > len(lost) else []
    if issued:
        missing = f"{max(issued - people, 0):,} of {issued:,} invited are in no sum"
        parts.append(f"{missing}: they sent nothing, or not to both collectors")
    return ", ".join(parts)


def _lost(chain: Chain) -> list[int]:
    return [k for k, batch in enumerate(chain.batches) if not len(batch.total)]


def senders_of(plan: PublicPlan, chain: Chain) -> Senders:
    """Who randomised, as the privacy statement says it: devices that are people's own, and the two collectors."""
    names = tuple(plain(one.name) for one in plan.collectors)
    main = plan.roles["main"]
    sd = 2.0**plan.bits / unit_of_sums(main.form, main.numbers, main.radius)
    noise = (
        f"each collector adds noise to its sum once, of sd {sd:.4g} of a main report's bound, on a lattice, by an "
        "exact sampler; that it did can't be seen"
    )
    at = " and ".join(f"{plain(one.name)} at {one.url}" for one in plan.collectors)
    notes = [
        Diagnostic(
            "memory",
            "whoever loses a device's memory and answers again has spent √2 times mu; who took part, and from which "
            "address, is not part of the guarantee",
        ),
        Diagnostic(
            "page",
            "whoever serves the survey's page serves the program that sees the answers, and could change it to send "
            f"them away; the collectors are {at}",
        ),
    ]
    if chain.refused:
        why = {k: "was lost" for k in _lost(chain)}
        said = (
            f"batch {k} ({chain.history[k].state.role}) {why.get(k, 'is none that so many reports have')}"
            for k in chain.refused
        )
        text = f"{'; '.join(said)}: its people aren't asked again; a single device can make a sum impossible"
        notes.append(Diagnostic("left_out", text))
    return Senders("devices", "rounded Gaussian on sums", noise, tuple(notes), names)
