"""A study with two collectors, as its analyst sees it: both are asked, and each must bear out what the other says.

Results are of the plan and of both collectors' sums. No share comes near.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import zip_longest
from types import MappingProxyType
from typing import Final, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from privreg.collector import design
from privreg.collector.aggregate.chain import full
from privreg.collector.aggregate.plan import Plan
from privreg.collector.design import Batch, Chain
from privreg.errors import InferenceError, StudyError
from privreg.fits import aggregate
from privreg.fits import outcome as fits
from privreg.fits.fit_plan import FitPlan
from privreg.fits.outcome import Held, Senders
from privreg.privacy.ledger import Release
from privreg.protocol.lattice import unit_of_sums
from privreg.protocol.sums import LETTERS
from privreg.results.base import Results
from privreg.tables.diagnostics import Diagnostic
from privreg_field.collector import batches as chains
from privreg_field.collector.chain import tables
from privreg_field.device.consent import plain
from privreg_field.study import tabled
from privreg_field.study.reading.collected import begun, table_of
from privreg_field.study.reading.picture import PHASES, Known, Round, Side, progress
from privreg_field.study.reading.study import Study
from privreg_field.study.servers import NotThereError, Server, opened
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.roles import TABLE
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import MessageError


def chain_of(plan: PublicPlan) -> Chain:
    """Chain of the rounds of two collectors before the first report; raises as `begun` does."""
    if plan.table:
        return design.begin(tables, tabled.engine_of(plan, table_of(plan)))
    return design.begin(full, _begun(plan)[1])


def _begun(plan: PublicPlan) -> tuple[FitPlan, Plan, NDArray[np.intp]]:
    def make(fit: FitPlan) -> tuple[Plan, NDArray[np.intp]]:
        if fit.rows is None or fit.spec.trust != "two_collectors":
            raise StudyError("its model is not one of two collectors; sign it anew.")
        return aggregate.plan_of(fit.spec, fit.rows, like=fit.asked.like)

    wanted = plan.roles, plan.sums
    return begun(plan, make, lambda _, engine: (chains.roles_of(engine), chains.sums_of(engine)) == wanted)


def follow(plan: PublicPlan, batches: Sequence[Batch | None]) -> Chain:
    """Make the chain of a study's states again, of its batches in order."""
    chain = chain_of(plan)
    for batch in batches:
        chain = chain.closed(batch)
    return chain


def results(plan: PublicPlan, chain: Chain, senders: Senders, added: Sequence[tuple[str, str]] = ()) -> Results:
    """Results of the batches that are published; `chain` is by `follow`.

    `senders` are who randomised, as the privacy statement says it, `added` entries of the summary's header.
    Raises InferenceError before the main round has had a batch.
    """
    if plan.table:
        kept = [b for k, b in enumerate(chain.batches) if k not in chain.progress.refused]
        total = sum((b.total for b in kept), np.zeros(plan.roles[TABLE].numbers, dtype=np.int64))
        return tabled.results(plan, table_of(plan), sum(b.people for b in kept), total, senders, added, len(kept))
    fit, _, order = _begun(plan)
    held = Held(chain, sum(b.people for b in chain.batches))
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
    parts += [f"{len(chain.progress.refused) - len(lost)} left out"] if len(chain.progress.refused) > len(lost) else []
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
        f"each collector adds noise to its sum once, of sd {2.0**plan.bits / unit:.4g} of {of}, in whole steps, by an "
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
    if chain.progress.refused:
        why = {k: "was lost" for k in _lost(chain)}
        said = (
            f"batch {k} ({chain.history[k].state.role}) {why.get(k, 'is none that so many reports have')}"
            for k in chain.progress.refused
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


STATUS: Final = ("open", "offered", "fixed", "published", "lost")


class Published(NamedTuple):
    """A batch as one collector publishes it."""

    people: int  # In its sum; before there is one, shares that this collector holds
    status: str  # One of `STATUS`
    listed: bytes = b""  # Hash of the list of ids
    words: bytes = b""  # Its shares' sum with its noise
    mine: bytes = b""  # Hash of the envelope with it
    other: bytes = b""  # Hash of the other collector's, as it was sent to this one
    vouched: bool = False  # It says that it heard the other's commitment before its own sum left


class Said(NamedTuple):
    """All batches as one collector publishes them."""

    letter: str
    issued: int  # Invitations, if it knows of them
    batches: tuple[Published, ...]

    @property
    def over(self) -> int:
        """Batches that are published or lost."""
        return sum(b.status in {"published", "lost"} for b in self.batches)

    @property
    def people(self) -> int:
        """Shares that it holds or has summed."""
        return sum(b.people for b in self.batches)


def read_sums(data: bytes, plan: PublicPlan, plan_hash: bytes) -> Said:
    """Read what a collector publishes, and verify its signature on every sum; raises `MessageError`."""
    record = wire.Record(wire.loads(data, "the sums", len(data)), "the sums")
    record.fixed("v", wire.VERSION)
    record.fixed("study", plan.study)
    if record.binary("plan_hash", wire.KEY) != plan_hash:
        raise MessageError("the sums are those of another plan.")
    letter, issued = record.choice("collector", LETTERS), record.integer("issued", 0, 1 << 48)
    key, out = plan.keys[LETTERS.index(letter)], []
    for k, one in enumerate(record.items("batches")):
        each = wire.Record(one, "a batch")
        each.fixed("k", k)
        batch = Published(each.integer("people", 0, 1 << 48), each.choice("status", STATUS))
        if batch.status == "published":
            batch = batch._replace(listed=each.binary("list_hash", messages.HASH))
            envelope, other = wire.dumps(each.mapping("value")), each.binary("other_hash", messages.HASH)
            payload = opened(envelope, "value", (key,))
            value = peers.read_signed("value", payload, plan_hash)
            if (value.letter, value.state, value.people, value.listed) != (letter, k, batch.people, batch.listed):
                raise MessageError("a sum is signed for another batch than it is published for.")
            vouched = each.has("vouched") and each.flag("vouched")  # collectors of earlier releases don't say it
            batch = batch._replace(words=value.words, mine=wire.hash_of(envelope), other=other, vouched=vouched)
        out.append(batch)
    return Said(letter, issued, tuple(out))


class SharedStudy(Study):
    """A study with two collectors; made by `privreg.connect`. See `Study`."""

    def _begin(self) -> None:
        self._sums = chain_of(self.signed)
        self._plan = self._sums.plan
        self._had: tuple[tuple[bytes, ...], ...] = ((), ())  # Sums that both have published, in the plan's order
        self._unvouched: dict[int, str] = {}  # Batches with letters of collectors that heard no commitment
        self._names = [plain(one.name) for one in self.signed.collectors]

    # --- what is asked ---------------------------------------------------------------------------------

    def _both(self) -> tuple[Said, Said]:
        """Ask both collectors what came, the plan's first one first, and verify each by itself and beside the other."""
        with self._lock:
            try:
                found = [(read_sums(one.get("sums"), self.signed, self.plan_hash), one) for one in self._servers]
                (a, server_a), (b, server_b) = sorted(found, key=lambda each: each[0].letter)
                if (a.letter, b.letter) != LETTERS:
                    raise StudyError(f"both addresses are of one collector, {self._names[LETTERS.index(a.letter)]}.")
                self._keep(a, b)
                self._take(a, b)
                self._follow_states((server_a, server_b))
            except MessageError as e:
                raise StudyError(f"a collector sends what is no answer of one: {e}") from None
            if len(self._sums.batches) > len(self._states) - (not self._is_open):
                raise StudyError("the collectors have summed answers to a state that they have not published.")
            return a, b

    def _keep(self, *both: Said) -> None:
        """Refuse a sum that is another than before: its noise would have been drawn twice."""
        had = tuple(tuple(batch.words for batch in one.batches) for one in both)
        for name, before, now in zip(self._names, self._had, had, strict=True):
            if any(old and old != new for old, new in zip_longest(before, now)):
                raise StudyError(f"{name} has taken back a sum, or published another in its place.")
        self._had = had

    def _take(self, a: Said, b: Said) -> None:
        """Take in batches that both have published, or given up."""
        for k, (one, other) in enumerate(zip(a.batches, b.batches, strict=False)):
            if k < len(self._sums.batches):
                continue
            if {one.status, other.status} == {"lost"}:
                self._sums = self._sums.closed(None)
                continue
            if not one.words or not other.words:
                return
            numbers = self._plan.width(self._sums.progress.state.role)
            if (one.listed, one.people) != (other.listed, other.people):
                raise StudyError(f"the collectors have published sums of batch {k} over different lists of reports.")
            for name, words in zip(self._names, (one.words, other.words), strict=True):
                if len(words) != peers.WORD * numbers:
                    raise StudyError(f"{name} has published a sum of batch {k} that no reports add up to.")
            if (one.mine, other.mine) != (other.other, one.other):
                raise StudyError(
                    f"the collectors don't agree on their sums of batch {k}: one has published another sum than it has "
                    "sent the other; ask both."
                )
            if deaf := "".join(le for le, said in zip(LETTERS, (one, other), strict=True) if not said.vouched):
                self._unvouched[k] = deaf
            parts = (np.frombuffer(words, dtype="<u8") for words in (one.words, other.words))
            self._sums = self._sums.closed(Batch(one.people, np.add(*parts).view(np.int64)))

    def _follow_states(self, servers: Sequence[Server]) -> None:
        """Verify states that are new, each made again from the sums before it."""
        while self._is_open and len(self._states) <= len(self._sums.batches):
            k = len(self._states)
            try:
                found = [opened(one.get(f"states/{k}"), "state", self.signed.keys, by_all=True) for one in servers]
            except NotThereError:
                return
            before = self._states[-1] if k else self.plan_hash
            for name, payload in zip(self._names, found, strict=True):
                state = messages.read_state(payload, self.signed, self.plan_hash)
                if not messages.follows(
                    state, chains.present_ask(self._sums._replace(history=self._sums.history[: k + 1])), k, before
                ):
                    raise StudyError(
                        f"state {k} at {name} does not follow from the sums before it: something else was asked, or "
                        "sums were changed."
                    )
            if found[0] != found[1]:
                raise StudyError(f"{' and '.join(self._names)} have published different states {k}.")
            self._states.append(wire.hash_of(found[0]))
            self._is_open = state.open

    # --- what is known ---------------------------------------------------------------------------------

    def _estimated(self) -> Results:
        a, b = self._both()
        if not self.signed.table and all(progress.state.role != "main" for progress in self._sums.history[:-1]):
            if not self._is_open:
                raise InferenceError("the study has closed before its main round had a sum: there are no estimates.")
            _, role, people, end = self._held((a, b))[-1]
            closes = "is closed, by `privreg collector close` or by its last day" if end is None else f"has {end:,}"
            raise InferenceError(
                f"estimates begin with the sum of the main round. Now the round {role!r} has {people:,} reports, and "
                f"ends when it {closes}."
            )
        added = [("Protocol", protocol_of(self._sums, max(a.issued, b.issued), self._unvouched))]
        return results(self.signed, self._sums, senders_of(self.signed, self._sums, self._unvouched), added)

    def _held(self, both: tuple[Said, Said]) -> list[tuple[int, str, int, int | None]]:
        """State, role, reports that both have, and how many close it (None: it stays open)."""
        done = zip(self._sums.history, self._sums.batches, strict=False)
        out: list[tuple[int, str, int, int | None]] = [
            (k, progress.state.role, batch.people, batch.people) for k, (progress, batch) in enumerate(done)
        ]
        if self._is_open:
            k = len(out)
            here = min((one.batches[k].people for one in both if k < len(one.batches)), default=0)
            out.append((k, self._sums.progress.state.role, here, self._sums.ask.ends))
        return out

    def _counts(self) -> bytes:
        """Counts as a dashboard shows them: by state, of what both say; by minute, as the first server tells them."""
        both, plan = self._both(), self.signed
        held, last = self._held(both), len(self._sums.batches) if self._is_open else -1
        counts = wire.Record(json.loads(self._servers[0].get("progress")), "the counts")
        rounds = tuple(Round(k, role, n, end if k == last else None, k == last) for k, role, n, end in held)
        state, issued = max(len(self._states) - 1, 0), max(one.issued for one in both)
        status = counts.choice("status", PHASES) if self._is_open else PHASES[-1]
        known = Known(
            rounds, state, self._is_open, plan.closes, issued, self._plan.rows, status=status,
            collectors=self._sides(both),
        )  # fmt: skip
        minutes = {name: counts.mapping(name) for name in ("totals", "recent", "whole")}
        return json.dumps(progress(plan, known, minutes)).encode()

    def _sides(self, both: tuple[Said, Said]) -> tuple[Side, ...]:
        """Progress of each collector, and whether it lags."""
        most = max(one.over for one in both)
        named = zip(self._names, both, strict=True)
        return tuple(Side(name, one.over, one.people, one.over < most) for name, one in named)

    @property
    def rounds(self) -> pd.DataFrame:
        """Reports by state: state, role, reports that both have, and how many close it (none: it stays open)."""
        names = ["state", "role", "reports", "closes_at"]
        return pd.DataFrame(self._held(self._both()), columns=names).astype({"closes_at": "Int64"})

    def _now(self) -> list[tuple[str, str]]:
        both = self._both()
        done, issued = self._sums.batches, max(one.issued for one in both)
        people, of = sum(batch.people for batch in done), f" of {issued:,} invited" if issued else ""
        said, words = alone(self._sums, self._unvouched), "{}: {} batches over, {:,} reports"
        at = [words.format(*one) + ", lags" * one.lags for one in self._sides(both)]
        names = " and ".join(f"{one.name} ({one.url})" for one in self.signed.collectors)
        return [
            ("Collectors", plain(names)),
            ("Reports", f"{people:,}{of}, in {len(done)} sum{'s' * (len(done) != 1)}{said and f'; {said}'}"),
            ("At each", "; ".join(at)),
            ("Round", f"{max(len(self._states) - 1, 0)}, {'open' if self._is_open else 'closed'}"),
        ]  # fmt: skip
