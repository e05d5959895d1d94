"""Results of a study with two collectors from what both publish: the plan, and their sums. No share comes near."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from privreg.collector.aggregate.chain import Batch, Chain
from privreg.collector.aggregate.plan import Plan
from privreg.diagnostics import Diagnostic
from privreg.errors import StudyError
from privreg.fits import aggregate
from privreg.fits import results as fits
from privreg.fits.fit_plan import FitPlan
from privreg.fits.results import Senders
from privreg.privacy.ledger import Release
from privreg.protocol.lattice import unit_of_sums
from privreg.protocol.sums import LETTERS
from privreg.results.base import Results
from privreg_field.collector import batches as chains
from privreg_field.collector.chain import Tabled
from privreg_field.device.consent import plain
from privreg_field.study import tabled
from privreg_field.study.reading.collected import begun, table_of
from privreg_field.wire.roles import TABLE
from privreg_field.wire.study import PublicPlan


def engine_of(plan: PublicPlan) -> Plan | Tabled:
    """Plan of the rounds of two collectors before the first report; raises as `begun` does."""
    return tabled.engine_of(plan, table_of(plan)) if plan.table else _begun(plan)[1]


def _begun(plan: PublicPlan) -> tuple[FitPlan, Plan, NDArray[np.intp]]:
    def make(fit: FitPlan) -> tuple[Plan, NDArray[np.intp]]:
        if fit.rows is None or fit.spec.trust != "two_collectors":
            raise StudyError("its model is not one of two collectors; sign it anew.")
        return aggregate.plan_of(fit.spec, fit.rows, like=fit.asked.like)

    wanted = plan.roles, plan.sums
    return begun(plan, make, lambda _, engine: (chains.roles_of(engine), chains.sums_of(engine)) == wanted)


def follow(engine: Plan | Tabled, batches: Sequence[Batch | None]) -> Chain:
    """Make the chain of a study's states again, of its batches in order."""
    chain = chains.begin(engine)
    for batch in batches:
        chain = chains.closed(engine, chain, batch)
    return chain


def results(plan: PublicPlan, chain: Chain, senders: Senders, added: Sequence[tuple[str, str]] = ()) -> Results:
    """Results of the batches that are published; `chain` is by `follow`.

    `senders` are who randomised, as the privacy statement says it, `added` entries of the summary's header.
    Raises InferenceError before the main round has had a batch.
    """
    if plan.table:
        kept = [b for k, b in enumerate(chain.batches) if k not in chain.refused]
        total = sum((b.total for b in kept), np.zeros(plan.roles[TABLE].numbers, dtype=np.int64))
        return tabled.results(plan, table_of(plan), sum(b.people for b in kept), total, senders, added, len(kept))
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


def alone(chain: Chain, unvouched: Mapping[int, str]) -> str:
    """People whose sums rest on one collector's word, as a share and by number; empty if there are none.

    `unvouched` are batches, with letters of the collectors that heard no commitment before their sum left.
    """
    people, some = sum(b.people for b in chain.batches), sum(chain.batches[k].people for k in unvouched)
    return f"{100.0 * some / people:.1f}% of people, {some:,} of {people:,}, on one collector's word" if some else ""


def protocol_of(chain: Chain, issued: int, unvouched: Mapping[int, str] = MappingProxyType({})) -> str:
    """Entry of the summary's header: batches, people on one collector's word, and invitations in no sum."""
    lost, people = _lost(chain), sum(b.people for b in chain.batches)
    parts = [f"{len(chain.batches)} batch{'es' * (len(chain.batches) != 1)}"]
    parts += [f"{len(lost)} lost"] if lost else []
    parts += [f"{len(chain.refused) - len(lost)} left out"] if len(chain.refused) > len(lost) else []
    if issued:
        missing = f"{max(issued - people, 0):,} of {issued:,} invited are in no sum"
        parts.append(f"{missing}: they sent nothing, or not to both collectors")
    parts += [said] if (said := alone(chain, unvouched)) else []
    return ", ".join(parts)


def _lost(chain: Chain) -> list[int]:
    return [k for k, batch in enumerate(chain.batches) if not len(batch.total)]


def senders_of(plan: PublicPlan, chain: Chain, unvouched: Mapping[int, str] = MappingProxyType({})) -> Senders:
    """Senders of the privacy statement: devices that are people's own, and the two collectors."""
    names = tuple(plain(one.name) for one in plan.collectors)
    main = next(plan.roles[r] for r in ("main", TABLE) if r in plan.roles)
    unit = main.radius if plan.table else unit_of_sums(main.form, main.numbers, main.radius)
    of = "how far two reports may be from each other" if plan.table else "a main report's bound"
    noise = (
        f"each collector adds noise to its sum once, of sd {2.0**plan.bits / unit:.4g} of {of}, on a lattice, by an "
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
    if people := alone(chain, unvouched):
        both = zip(LETTERS, names, strict=True)
        deaf = [(name, [str(k) for k, who in unvouched.items() if letter in who]) for letter, name in both]
        each = " and ".join(f"{name} (batch {', '.join(ks)})" for name, ks in deaf if ks)
        words = "that the other committed to its sum before is not vouched for, so the other could choose the total"
        notes.append(Diagnostic("unvouched", f"{people}: when the sum of {each} left, {words}"))
    return Senders("devices", "rounded Gaussian on sums", noise, tuple(notes), names)
