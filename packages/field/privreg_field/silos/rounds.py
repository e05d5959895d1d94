"""A round of silos, from both sides: a silo's one answer to a public history, and the server that makes the history.

The state that a round asks follows from the plan and from the sums that are published: a silo gets these sums and
makes the state itself, so that nobody can hand it another one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.archive import contents, write_bytes
from privreg.base.arrays import Ints
from privreg.errors import DataError, PrivregError, StudyError
from privreg.fits.outcome import Senders, results
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import Release
from privreg.protocol import lattice
from privreg.results.results import PrivateResults
from privreg.simulation.aggregate import CuratorRun, noised_all, of_all
from privreg.simulation.streaming.stream import begin
from privreg.simulation.tuning import outcome_of
from privreg_field.silos.memory import Accepted, Memory
from privreg_field.silos.plan import Entry, SiloPlan, source
from privreg_field.wire.wire import MessageError, Record, base, dumps, hash_of, loads, plain, unbase

LONGEST: Final = 64 << 20  # Bytes of a message, at most

Ask = Callable[[bytes, Sequence[str]], Iterable[bytes]]
"""Answers of nodes to a message, from silos of these names; those that come too late are left out."""


class History(NamedTuple):
    """Public history before a round."""

    plan: bytes  # Hash of the plan
    entries: tuple[Entry, ...] = ()  # Silos that take part; none before they are known
    closed: tuple[tuple[bytes, ...], ...] = ()  # Noised sums by round and silo, int64 from low to high byte, or nothing

    def state(self, number: int) -> bytes:
        """Hash of the history before a round."""
        return hash_of(self._replace(closed=self.closed[:number]).to_bytes())

    def to_bytes(self) -> bytes:
        """Write the history as a message."""
        return dumps(plain(self))

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """Read a message; raises `MessageError` if it is none."""
        record = Record(loads(data, "the history", LONGEST), "the history")
        entries = tuple(Entry.read(Record(one, "an entry")) for one in record.items("entries"))
        rounds = [Record({"sums": one}, "a round").items("sums", len(entries)) for one in record.items("closed")]
        closed = tuple(tuple(unbase(total, "a sum") for total in one) for one in rounds)
        return cls(unbase(record.take("plan"), "'plan'"), entries, closed)


class Fit:
    """A fit of silos that take part, all by default, with the rows of one of them, encoded, or of none.

    `entry` and `stamp` are of these rows. Raises StudyError if the plan hasn't that silo, DataError if it has too few.
    """

    def __init__(self, plan: SiloPlan, entries: Sequence[Entry] = (), silo: str = "", data: str = "") -> None:
        if silo and silo not in plan.silos:
            raise StudyError(f"silo {silo!r} has no part in this plan; its silos are {', '.join(plan.silos)}.")
        model = plan.model([one.silo for one in entries], silo, data)
        options = FitOptions(measures=plan.said.get("measures")) if entries else FitOptions()
        self.stream = begin(model._spec, options, None, None, sum(one.rows for one in entries) or None)
        assert model._source is not None
        assert isinstance(self.stream._run, CuratorRun)
        for _ in self.stream._update_all(self.stream.read(model._source), 1):
            pass
        self.run, self.stamp = self.stream._run, json.dumps(model._spec.open(source(data)).stamp())
        self.entry = Entry(silo, self.run.people, tuple(self.run.clustered.tolist()) if plan.clusters else ())
        if silo and self.entry.rows < plan.least:
            raise DataError(f"the plan is of silos with {plan.least:,} rows or more, and this one has fewer.")

    def take_in(self, history: History) -> tuple[Ints, list[lattice.Mu]]:
        """People by silo of each sum that is asked after it, shape (silos, groups), and budgets of all rounds with it.

        Raises `MessageError` if the history is none of the plan's.
        """
        entries = history.entries
        people = [one.clusters for one in entries] if self.entry.clusters else np.diag([one.rows for one in entries])
        sums = ([np.frombuffer(total, dtype="<i8").astype(np.int64) for total in one] for one in history.closed)
        try:
            return self.run.take_rounds(np.array(people, dtype=np.int64), sums)
        except (ValueError, IndexError):
            raise MessageError("the history is none of this plan's.") from None


# --- the silo's side ---------------------------------------------------------------------------------------------


def answer(path: str | Path, ask: bytes) -> bytes:
    """The silo's answer to a history: its entry, a noised sum, or a refusal.

    A refusal quotes what is said of messages alone; that of rows is one for all reasons, which this machine's log has.
    """
    silo = ""
    try:
        history = History.from_bytes(ask)
        with Memory(path).written() as db:
            held = Memory.accepted(db, history.plan)
            if held is None:
                raise MessageError("its owner has accepted no such plan.")
            silo, number = held.entry.silo, len(history.closed)
            if not history.entries:
                return dumps({"silo": silo, "round": number, "entry": plain(held.entry)})
            total = _known(history, held)
            if total is None:
                total, following = _fresh(history, held)
                Memory.store(db, history.plan, number, history.state(number), total, following)
        return dumps({"silo": silo, "round": number, "total": base(total)})
    except MessageError as e:
        return dumps({"silo": silo, "refused": str(e)})
    except Exception as e:
        said = silo, type(e).__name__, e if isinstance(e, PrivregError) else ""
        logging.getLogger(__name__).warning("silo %r: %s: %s", *said)
        return dumps({"silo": silo, "refused": "its rows can't be used now."})


def _known(history: History, held: Accepted) -> bytes | None:
    """The sum that answers this history already; None if there is none yet, and it goes on from the last one.

    Raises `MessageError` for another state of a round that was answered, a round out of order, another history.
    """
    number, sent, names = len(history.closed), held.sent, [one.silo for one in history.entries]
    if held.entry not in history.entries or names != [s for s in held.plan.silos if s in names]:
        raise MessageError("the history has other entries.")
    if any(history.state(k) != state for k, (state, _) in sent.items() if k <= number):
        raise MessageError("a round was answered, in another state.")
    if number in sent:
        return sent[number][1]
    mine = [one[history.entries.index(held.entry)] for one in history.closed]
    if number < max(sent, default=0) or any(one and (k not in sent or one != sent[k][1]) for k, one in enumerate(mine)):
        raise MessageError("the history has not the sums that this silo has sent.")
    return None


def _fresh(history: History, held: Accepted) -> tuple[bytes, bytes]:
    """A new sum with its noise, and the key of the next one's."""
    fit = Fit(held.plan, history.entries, held.entry.silo, held.data)
    if (fit.entry, fit.stamp) != (held.entry, held.stamp):
        raise DataError("the rows have changed since the plan was accepted.")
    people, budgets = fit.take_in(history)
    run, state, last = fit.run, fit.run.progress.state, fit.run.progress.last
    if state.role == "over":
        raise MessageError("all rounds of this plan are over.")
    if not lattice.composed(budgets, held.plan.mu):
        raise MessageError("these rounds would cost more than the plan's budget.")
    sums, _ = of_all(run.plan, state, run.rows, last=last)
    mine = people[history.entries.index(held.entry)]
    total, following = noised_all(run.plan, state, sums, mine, held.key, len(run.chain.batches))
    assert following is not None
    return total.astype("<i8").tobytes(), following


# --- the server's side -------------------------------------------------------------------------------------------


def play(plan: SiloPlan, ask: Ask, kept: Path, after: Callable[[str], None] = lambda _: None) -> PrivateResults:
    """Play all rounds that are left, and return the results; `after` each is called with lines of a log.

    `kept` is a file of rounds that are over: written before the next one is asked, and read when a server starts again.
    A silo that refuses, or whose answer can't be read, is left out like one that is silent: of the study if it doesn't
    enter, of a round later. Raises DataError if those that enter have too few rows, StudyError if none answers.
    """
    history = History.from_bytes(contents(kept, LONGEST)) if kept.exists() else History(plan.digest)
    if history.plan != plan.digest:
        raise StudyError(f"{kept} has the rounds of another plan.")
    if not history.entries:
        entry = partial(Entry.read, least=plan.least, many=plan.clusters)
        found = _answers(plan.silos, ask, history, lambda one: entry(one.object("entry")), after)
        history = history._replace(entries=tuple(found.values()))
    names = [one.silo for one in history.entries]
    while True:
        fit = Fit(plan, history.entries)
        people, _ = fit.take_in(history)
        write_bytes(kept, history.to_bytes())
        number, role = len(history.closed), fit.run.progress.state.role
        if role == "over":
            break
        size = 8 * people.shape[1] * fit.run.plan.width(role)
        sums = _answers(names, ask, history, partial(Record.binary, name="total", length=size), after)
        history = history._replace(closed=(*history.closed, tuple(sums.get(name, b"") for name in names)))
        after(f"round {number}, {role}: {len(sums)} of {len(names)} silos")
    stream, out = fit.stream, ", ".join(s for s in plan.silos if s not in names)
    spec, settings, release = stream._spec, stream._settings, Release(0, stream.total_mu)
    outcome = outcome_of(fit.run, spec, settings, stream._encoder.order)
    added = [("Left out", f"{out}, of the plan's silos")] * bool(out)
    return results(outcome, spec, settings, release, senders=Senders(trust="silos"), added=added)


def name_of(said: bytes) -> str:
    """The silo that an answer is of; none if it can't be read."""
    try:
        return Record(loads(said, "an answer", LONGEST), "an answer").text("silo")
    except MessageError:
        return ""


def _answers(
    names: Sequence[str], ask: Ask, history: History, read: Callable[[Record], Any], after: Callable[[str], None]
) -> dict[str, Any]:
    """Answers by silo, in order, of those that have one that can be read. Raises StudyError if there is none."""
    out, heard = dict[str, Any](), dict[str, set[bytes]]()
    for said in ask(history.to_bytes(), names):
        heard.setdefault(name_of(said), set()).add(said)
    for silo in names:
        try:
            said, *others = heard.get(silo) or [b""]
            if others or not said:
                raise MessageError("nodes answer for it, and differently." if others else "it doesn't answer.")
            record = Record(loads(said, "an answer", LONGEST), "an answer")
            if record.has("refused"):
                raise MessageError(f"it refuses: {record.text('refused')}")
            record.fixed("round", len(history.closed))
            out[silo] = read(record)
        except MessageError as e:
            after(f"silo {silo!r} is left out of round {len(history.closed)}: {e}")
    if not out:
        raise StudyError(f"round {len(history.closed)}: no silo answers.")
    return out
