"""Scheduler of a study: which state is published, when it closes, what the next is. One for each serving process.

A clock that leaps isn't believed at once: a state that is published stays for good.
"""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from privreg.collector.design import Chain
from privreg.errors import OptionError, StudyError
from privreg.protocol.sums import SumAsk
from privreg.results.base import Results
from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cells
from privreg_field.device import ed25519
from privreg_field.service.store import Store
from privreg_field.service.store.records import CLOSED, SEALED, Held, RecordStore
from privreg_field.study import keys
from privreg_field.study.reading.collected import chain_of, read_cells, results
from privreg_field.study.reading.picture import Known, Round
from privreg_field.wire import messages, wire
from privreg_field.wire.analyses import WORDS
from privreg_field.wire.messages import Ask, FieldState
from privreg_field.wire.study import PublicPlan, read_plans

LEAP: Final = 60.0  # Seconds by which the clock may be put forward or back at once without having leapt

STANDS: Final = 3600.0
"""Seconds for which a leap must stand to be believed, and a clock must go evenly before anything ends by it."""


def steady() -> float:
    """Seconds of a clock that nobody puts; where there is one, it goes on while the machine sleeps."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class Clock:
    """Seconds since 1970 UTC, without leaps: by `wall`, the machine's, and `even`, a clock that never leaps."""

    def __init__(self, wall: Callable[[], float] = time.time, even: Callable[[], float] = steady) -> None:
        self._wall, self.even, self._lock = wall, even, threading.Lock()
        self._since = even()  # From when on the two go alike
        self._ahead = wall() - self._since
        self._leap: tuple[float, float] | None = None  # When it leapt, and how far ahead it is since

    def __call__(self) -> float:
        """Seconds since 1970 UTC, as far as they are believed."""
        with self._lock:
            now = self.even()
            ahead = self._wall() - now
            if abs(ahead - self._ahead) <= LEAP:
                self._ahead, self._leap = ahead, None
            elif now - self._since < STANDS:  # begun with a wrong clock: nothing has ended by it
                self._ahead, self._since = ahead, now
            elif self._leap is None or abs(ahead - self._leap[1]) > LEAP:
                self._leap = now, ahead
            elif now - self._leap[0] >= STANDS:
                self._ahead, self._leap = ahead, None
            return now + self._ahead

    @property
    def sure(self) -> bool:
        """True if it has gone evenly for so long that what can't be undone may follow from it."""
        self()
        return self._leap is None and self.even() - self._since >= STANDS


def opened(envelope: bytes, root: bytes | None = None) -> tuple[tuple[PublicPlan, ...], bytes]:
    """The plan of an envelope, for each analysis, and its hash.
    Raises StudyError if devices would refuse it, or `root` has not signed it.
    """
    try:
        given = wire.open_envelope(envelope, "plan")
        message = wire.signed_bytes("plan", given.payload)
        if root is not None and not any(ed25519.verify(root, message, sig) for _, sig in given.signatures):
            raise StudyError("the plan is not signed by this key; the analyst, who signed it, has root.key.pub.")
        return read_plans(given.payload), wire.hash_of(given.payload)
    except wire.MessageError as e:
        raise StudyError(f"devices would refuse this plan: {e}") from None


def snapshots_of(kept: list[bytes], plan: PublicPlan) -> list[Any]:
    """Snapshots as they are kept, read."""
    return [read_cells(json.loads(one), plan) for one in kept]


class Study:
    """State of a study: its plan, published states and end. The `store` has the study.

    States are signed by `key`; None only looks. `clock` and `even` are as in `Clock`.
    Raises OptionError if the key is none of the plan's.
    """

    def __init__(
        self,
        store: Store,
        key: Ed25519PrivateKey | None,
        clock: Callable[[], float] = time.time,
        even: Callable[[], float] = steady,
    ) -> None:
        self.store, self.clock, self._key = store, Clock(clock, even), key
        about = store.about()
        self.sealed = about.status == SEALED
        self._shown = -1, 0.0  # The present state, and since when by the even clock; its own time may be wrong
        self.envelope, self.plan_hash = about.plan, about.plan_hash  # For this analysis
        plans, self.study_hash = opened(self.envelope)
        self.plan = next(plan for plan in plans if plan.slug == store.slug)
        if key is not None and keys.public(key) not in self.plan.keys:
            raise OptionError("the key that signs states is none of the plan's keys; give one that it names.")
        self._lock = threading.RLock()
        self.states: list[Held] = []
        self._begin()

    def _begin(self) -> None:
        """Take over what was published before."""
        self.records: RecordStore = self.store

    @property
    def present(self) -> Held:
        """The state that is handed out."""
        return self.states[-1]

    @property
    def asked(self) -> int:
        """States that have asked somebody, as far as this process knows."""
        raise NotImplementedError

    def role_of(self, k: int) -> str | None:
        """Role of a published state, as far as this process knows; None if there is no such state that asks."""
        raise NotImplementedError

    def advance(self) -> bool:
        """Do what is due, as closing the present state if its time has come; whether anything was."""
        raise NotImplementedError

    def known(self) -> Known:
        """Progress that the analyst may know; once there is a state."""
        raise NotImplementedError

    def results(self) -> Results:
        """Results of what has come by now; raises InferenceError before there are any."""
        raise NotImplementedError

    def exported(self) -> dict[str, Any]:
        """All of the study but what single devices sent, for anybody to recompute: plan, states, sums and counts."""
        return {
            "plan": json.loads(self.envelope),
            "states": [json.loads(s.envelope) for s in self.states],
            **self._sums(),
            "counts": [{"minute": m, "outcome": n, "count": k} for m, n, k in self.store.counts()],
            "plan_hash": wire.base(self.plan_hash),
        }

    def _sums(self) -> dict[str, Any]:
        """Sums to export, by the kind of study."""
        raise NotImplementedError

    @property
    def is_open(self) -> bool:
        """True while the study still asks."""
        return len(self.states) == self.asked and bool(self.states)

    @property
    def _before(self) -> bytes:
        """Hash that the next state follows."""
        return self.states[-1].hash if self.states else self.plan_hash

    def _stated(self, ask: Ask | SumAsk, when: int, *, is_open: bool, nonces: bytes = b"") -> FieldState:
        """The next state, which asks all tokens the same."""
        given = self.plan_hash, len(self.states), self._before, when, is_open
        return FieldState(*given, (0, WORDS), (ask,), nonces)

    def _when(self, *, is_open: bool) -> int:
        """Time of the next state."""
        when = max(int(self.clock()), self.states[-1].time if self.states else self.plan.opens)
        return min(when, self.plan.closes) if is_open else when  # or devices would refuse it, and all that follow

    def _is_old(self, k: int, after: int) -> bool:
        """True if the present state has been handed out for so many seconds."""
        if self._shown[0] != k:
            self._shown = k, self.clock.even()
        by_time = self.clock.sure and self.clock() >= self.present.time + after
        return after > 0 and (by_time or self.clock.even() - self._shown[1] >= after)

    def takes(self) -> bool:
        """True while reports still count."""
        return not self.sealed and self.clock() <= self.closes + self.plan.grace

    def _status(self, kept: str) -> str:
        """Phase of the study, see `picture.PHASES`, by what is `kept` of it."""
        now = self.clock()
        if self.is_open and now <= self.plan.closes and kept != CLOSED:
            return "before" if now < self.plan.opens else "open"
        return "closing" if self.is_open or Study.takes(self) else "closed"

    @property
    def closes(self) -> int:
        """When the study closes, or has closed; seconds since 1970 UTC."""
        early = self.states and not self.is_open
        return min(self.plan.closes, self.states[-1].time) if early else self.plan.closes


class Scheduler(Study):
    """Scheduler of a study whose devices add the noise; parameters are those of `Study`.
    Raises OptionError also if the states that were published don't follow from the reports.
    """

    def _begin(self) -> None:
        super()._begin()
        self.chain = chain_of(self.plan)
        self.catch_up()
        if not self.states and self._key is not None and not self._publish(None):
            self.catch_up()

    # --- what is published -----------------------------------------------------------------------------

    def catch_up(self) -> None:
        """Take over what other processes have published."""
        with self._lock:
            with self.store.moment():
                kept = self.store.snapshots(len(self.chain.batches))
                states = self.store.states(len(self.states))
            for snapshot in snapshots_of(kept, self.plan):
                self.chain = self._closed(self.chain, snapshot)
            self.states += states

    def _closed(self, chain: Chain, snapshot: Cells) -> Chain:
        try:
            return chains.closed(chain, self.plan.roles, snapshot)
        except ValueError:
            raise OptionError(f"state {len(chain.history)} does not follow from the reports before it.") from None

    @property
    def asked(self) -> int:
        """States that have asked somebody, as far as this process knows."""
        return len(self.chain.history)

    def role_of(self, k: int) -> str | None:
        """Role of a published state, as far as this process knows; None if there is no such state that asks."""
        return str(self.chain.history[k].state.role) if 0 <= k < self.asked else None

    def _publish(self, snapshot: bytes | None, *, is_open: bool = True) -> bool:
        """Sign and publish the chain's present state; False if another process has published one before."""
        assert self._key is not None
        number = len(self.states)
        said = self._stated(chains.present_ask(self.chain), self._when(is_open=is_open), is_open=is_open)
        payload = messages.state_payload(said)
        held = Held(number, keys.signed("state", payload, self._key), payload, wire.hash_of(payload), said.time)
        if not self.store.publish(held, self._before, snapshot):
            return False
        self.states.append(held)
        return True

    # --- when a state closes ---------------------------------------------------------------------------

    def advance(self) -> bool:
        """Close the present state if its time has come; whether it did."""
        with self._lock:
            with self.store.moment():
                self.catch_up()
                came = self.store.people()
            now, k, sure = self.clock(), len(self.chain.batches), self.clock.sure
            if self._key is None or not self.is_open:
                if self._key is not None and not self.sealed and sure and not self.takes():
                    self.store.mark(SEALED)
                    self.sealed = True
                return False
            if now > self.plan.closes:
                if not sure:
                    return False
                if not self._publish(None, is_open=False):
                    self.catch_up()
                return True
            people, end = came.get(k, 0), self.chain.ask.ends
            if end is None:  # the last one asks until the study closes
                return False
            held = self.plan.rounds[min(self.chain.progress.state.number, len(self.plan.rounds) - 1)]
            aged = self._is_old(k, held.after) and people >= max(held.least, 1)
            if people < end and not aged:
                return False
            cells = self.store.cells()
            before, published = self.chain, False
            self.chain = chains.closed(before, self.plan.roles, cells)
            try:
                published = self._publish(json.dumps(chains.plain(cells), separators=(",", ":")).encode())
            finally:
                if not published:
                    self.chain = before
            if not published:  # another process was faster, with other sums
                self.catch_up()
            return True

    @contextmanager
    def still(self) -> Iterator[None]:
        """Publish nothing meanwhile, and read one moment."""
        with self._lock, self.store.moment():
            self.catch_up()
            yield

    def close(self) -> None:
        """Close the study now: a last state that asks nobody."""
        with self._lock:
            self.catch_up()
            while self.is_open:
                if not self._publish(None, is_open=False):
                    self.catch_up()
            self.store.mark(CLOSED)

    # --- what is known ---------------------------------------------------------------------------------

    def known(self) -> Known:
        """Progress that the analyst may know."""
        about, people, chain, is_open = self.store.about(), self.store.people(), self.chain, self.is_open
        last, end = len(chain.batches), chain.ask.ends
        rounds = tuple(
            Round(k, str(self.role_of(k)), people.get(k, 0), end if k == last else None, is_open and k == last)
            for k in range(last + 1)
        )
        return Known(
            rounds, self.present.k, is_open, self.closes, about.issued, chain.plan.rows,
            ahead=self.plan.rounds[chain.progress.state.number + 1 :],
            status=self._status(about.status),
            late=max(sum(people.values()) - people.get(last, 0) - chains.on_time(chain), 0),
            made_of=(about.seq, len(self.states), is_open),
        )  # fmt: skip

    def results(self) -> Results:
        """Results of what has come by now."""
        with self._lock:
            with self.store.moment():
                self.catch_up()
                cells, issued = self.store.cells(), self.store.about().issued
            return results(self.plan, self.chain, cells, invited=issued or None)

    def exported(self) -> dict[str, Any]:
        """All of the study at one moment; see `Study.exported`."""
        with self.still():
            return super().exported()

    def _sums(self) -> dict[str, Any]:
        snapshots = [json.loads(s) for s in self.store.snapshots()]
        return {"snapshots": snapshots, "cells": chains.plain(self.store.cells())}

    def replay(self) -> int:
        """Make every state again from the snapshots, see `messages.agree`; how many.
        Raises OptionError if one differs.
        """
        chain, before = chain_of(self.plan), self.plan_hash
        with self.store.moment():
            snapshots, states = snapshots_of(self.store.snapshots(), self.plan), self.store.states()
        for held in states:
            published = messages.read_state(held.payload, self.plan, self.plan_hash)
            if not messages.follows(published, chains.present_ask(chain), held.k, before):
                raise OptionError(f"state {held.k} does not follow from the reports before it.")
            before = held.hash
            if held.k < len(snapshots):
                chain = self._closed(chain, snapshots[held.k])
        return len(states)
