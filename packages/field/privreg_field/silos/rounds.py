"""A round of silos, from both sides: a silo's one answer to a public history, and the server that makes the history.

The state that a round asks follows from the plan and from the sums that are published: a silo gets these sums and
makes the state itself, so that nobody can hand it another one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np

from privreg.base.archive import contents, write_bytes
from privreg.base.arrays import Ints
from privreg.errors import DataError, StudyError
from privreg.fits.outcome import Senders, results
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import Release
from privreg.protocol import lattice
from privreg.results.results import PrivateResults
from privreg.simulation.aggregate import noised_once
from privreg.simulation.curator import CuratorRun, of_all
from privreg.simulation.streaming.stream import Stream, begin
from privreg_field.silos.memory import Accepted, Memory, Sent
from privreg_field.silos.plan import SiloPlan
from privreg_field.wire.wire import MessageError, Record, base, dumps, loads, unbase

LONGEST: Final = 64 << 20  # Bytes of a message, at most
MOST_ROWS: Final = 2**40

Ask = Callable[[bytes, Sequence[str]], dict[str, bytes]]
"""Answers, by silo, of those named, to a message; a silo that doesn't answer in time is left out."""


class Closed(NamedTuple):
    """A round that is over."""

    counts: tuple[int, ...]  # Rows by silo, none of one that didn't answer
    totals: bytes  # Noised sums by silo, int64 from low to high byte

    def sums(self) -> Ints:
        """The sums, shape (silos, numbers)."""
        if len(self.totals) % (8 * len(self.counts)):
            raise MessageError("a sum of the history has part of a number.")
        return np.frombuffer(self.totals, dtype="<i8").astype(np.int64).reshape(len(self.counts), -1)


class History(NamedTuple):
    """Public history before a round."""

    digest: bytes  # Names the plan
    sizes: tuple[int, ...] = ()  # Rows by silo; none before they are known
    closed: tuple[Closed, ...] = ()

    def state(self, number: int) -> bytes:
        """Hash of the history before a round."""
        return hashlib.sha256(self._replace(closed=self.closed[:number]).to_bytes()).digest()

    def to_bytes(self) -> bytes:
        """Write the history as a message."""
        closed = [{"counts": list(one.counts), "totals": base(one.totals)} for one in self.closed]
        return dumps({"plan": base(self.digest), "sizes": list(self.sizes), "closed": closed})

    @classmethod
    def from_bytes(cls, data: bytes) -> History:
        """Read a message; raises `MessageError` if it is none."""
        record = Record(loads(data, "the history", LONGEST), "the history")
        digest, sizes = unbase(record.take("plan"), "'plan'"), record.integers("sizes", 1, MOST_ROWS)
        closed = []
        for said in record.items("closed"):
            one = Record(said, "a round")
            counts = one.integers("counts", 0, MOST_ROWS, len(sizes))
            closed.append(Closed(counts, unbase(one.take("totals"), "'totals'")))
            one.done()
        record.done()
        return cls(digest, sizes, tuple(closed))


def _stream(plan: SiloPlan, own: str = "", data: Any = None) -> tuple[Stream, CuratorRun]:
    """A fit of the plan with the rows of one silo, encoded, or of none; no round is played."""
    model = plan.model(own, data)
    assert model._source is not None
    stream = begin(model._spec, FitOptions(), None, None, None)
    for _ in stream._update_all(stream.read(model._source), 1):
        pass
    assert isinstance(stream._run, CuratorRun)
    return stream, stream._run


def _played(plan: SiloPlan, run: CuratorRun, history: History) -> CuratorRun:
    """Take in a history; raises `MessageError` if it is none of the plan's."""
    if len(history.sizes) != len(plan.silos):
        raise MessageError("the history is of another number of silos.")
    try:
        run.take_in(history.sizes, [(one.sums(), np.array(one.counts)) for one in history.closed])
    except (ValueError, IndexError):
        raise MessageError("the history is none of this plan's.") from None
    return run


# --- the silo's side ---------------------------------------------------------------------------------------------


def counted(plan: SiloPlan, silo: str, path: str) -> tuple[int, str]:
    """Rows of a silo's file as the plan takes them, and the file's stamp. Raises DataError if they are too few."""
    if silo not in plan.silos:
        raise StudyError(f"silo {silo!r} has no part in this plan; its silos are {', '.join(plan.silos)}.")
    _, run = _stream(plan, silo, path)
    rows = int(run.sizes[plan.silos.index(silo)])
    if rows < plan.least:
        raise DataError(f"the plan is of silos with {plan.least:,} rows or more, and this one has fewer.")
    return rows, _stamp(plan, silo, path)


def _stamp(plan: SiloPlan, silo: str, path: str) -> str:
    source = plan.model(silo, path)._source
    return json.dumps(None if source is None else source.stamp())


def answer(path: str | Path, ask: bytes) -> bytes:
    """The silo's answer to a history: its number of rows, a noised sum, or a refusal.

    A refusal quotes what is said of messages alone. Of any other error, whose words may have a path or a value, it has
    the type.
    """
    silo = ""
    try:
        history = History.from_bytes(ask)
        with Memory(path).written() as db:
            held = Memory.accepted(db, history.digest)
            if held is None:
                raise MessageError("this silo's owner has accepted no such plan.")
            silo, rows = held.silo, held.rows
            if not history.sizes:
                return dumps({"silo": silo, "rows": rows})
            known = Memory.sent(db, history.digest)
            one = _known(history, held, known)
            if one is None:
                one, following = _fresh(history, held)
                Memory.store(db, history.digest, one, following)
        return dumps({"silo": silo, "rows": rows, "round": one.round, "total": base(one.total)})
    except MessageError as e:
        return dumps({"silo": silo, "refused": str(e)})
    except Exception as e:
        return dumps({"silo": silo, "refused": f"its rows can't be used ({type(e).__name__})"})


def _known(history: History, held: Accepted, sent: list[Sent]) -> Sent | None:
    """The sum that answers this history already; None if there is none yet, and it goes on from the last one.

    Raises `MessageError` for another state of a round that was answered, a round out of order, another history.
    """
    number, me = len(history.closed), held.plan.silos.index(held.silo)
    if len(history.sizes) != len(held.plan.silos) or history.sizes[me] != held.rows:
        raise MessageError("the history has another number of rows for this silo.")
    stored = {one.round: one for one in sent}
    if number in stored:
        if stored[number].state != history.state(number):
            raise MessageError("this round was answered, in another state.")
        return stored[number]
    if sent and (number < sent[-1].round or history.state(sent[-1].round) != sent[-1].state):
        raise MessageError("the history isn't that of the rounds which this silo has answered.")
    for k, one in enumerate(history.closed):
        if one.counts[me] and (
            k not in stored or one.counts[me] != held.rows or one.sums()[me].astype("<i8").tobytes() != stored[k].total
        ):
            raise MessageError("the history has a sum that this silo hasn't sent.")
    return None


def _fresh(history: History, held: Accepted) -> tuple[Sent, bytes]:
    """A new sum with its noise, and the key of the next one's."""
    plan = held.plan
    _, run = _stream(plan, held.silo, held.data)
    me = plan.silos.index(held.silo)
    if int(run.sizes[me]) != held.rows or _stamp(plan, held.silo, held.data) != held.stamp:
        raise MessageError("its file has changed since the plan was accepted.")
    run = _played(plan, run, history)
    if run.progress.state.role == "over":
        raise MessageError("all rounds of this plan are over.")
    budgets = [lattice.fraction_of(progress.state.mu) for progress in run.history]
    if not lattice.composed(budgets, plan.mu):
        raise MessageError("these rounds would cost more than the plan's budget.")
    sums, _ = of_all(run.plan, run.progress.state, run.rows, last=run.progress.last)
    total, following = noised_once(run.plan, run.progress.state, sums[0], held.key, len(history.closed))
    assert following is not None
    return Sent(len(history.closed), history.state(len(history.closed)), total.astype("<i8").tobytes()), following


# --- the server's side -------------------------------------------------------------------------------------------


def play(plan: SiloPlan, ask: Ask, kept: Path, after: Callable[[str], None] = lambda _: None) -> PrivateResults:
    """Play all rounds that are left, and return the results; `after` each is called with a line of a log.

    `kept` is a file of rounds that are over: written before the next one is asked, and read when a server starts again.
    Raises StudyError if a silo doesn't enter, or all drop out of a round.
    """
    history = History.from_bytes(contents(kept, LONGEST)) if kept.exists() else History(plan.digest)
    if history.digest != plan.digest:
        raise StudyError(f"{kept} has the rounds of another plan.")
    if not history.sizes:
        found = _answers(plan, ask, history)
        if len(found) < len(plan.silos):
            raise StudyError(f"silos that don't answer: {', '.join(s for s in plan.silos if s not in found)}.")
        history = history._replace(sizes=tuple(found[s].integer("rows", plan.least, MOST_ROWS) for s in plan.silos))
        write_bytes(kept, history.to_bytes())
    stream, run = _stream(plan)
    while _played(plan, run, history).progress.state.role != "over":
        number, role = len(history.closed), run.progress.state.role
        found, width = _answers(plan, ask, history), run.plan.width(role)
        totals = {s: unbase(one.take("total"), "'total'") for s, one in found.items() if one.take("round") == number}
        if not totals or any(len(total) != 8 * width for total in totals.values()):
            raise StudyError(f"round {number}: no silo answered, or not with a sum of {width} numbers.")
        counts = tuple(n if s in totals else 0 for s, n in zip(plan.silos, history.sizes, strict=True))
        whole = b"".join(totals.get(s, bytes(8 * width)) for s in plan.silos)
        history = history._replace(closed=(*history.closed, Closed(counts, whole)))
        write_bytes(kept, history.to_bytes())
        after(f"round {number}, {role}: {len(totals)} of {len(plan.silos)} silos")
        stream, run = _stream(plan)
    given = stream._spec, stream._settings
    outcome = stream._way.outcome(run, *given, stream._encoder.order)
    return results(outcome, *given, Release(0, stream.total_mu), senders=Senders(trust="silos"))


def _answers(plan: SiloPlan, ask: Ask, history: History) -> dict[str, Record]:
    """Answers of the silos that gave one. Raises StudyError if one refuses, with its reason."""
    out = {}
    for silo, said in ask(history.to_bytes(), plan.silos).items():
        record = Record(loads(said, "an answer", LONGEST), "an answer")
        if record.has("refused"):
            raise StudyError(f"silo {silo!r} refuses: {record.text('refused')}")
        out[silo] = record
    return out
