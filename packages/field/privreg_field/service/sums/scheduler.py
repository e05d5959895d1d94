"""Scheduler of a study with two collectors, at one of them. The first, A, leads; the other, B, only answers.

A batch goes through steps that are each kept before they are sent, so that all may be repeated after a crash: A freezes
its list and offers it; B fixes what both have, with its noise, and commits to its sum; A fixes the same, with its own
noise, and commits, too; each sends its sum. A batch in which the two don't agree is lost: it is never summed again.
"""

import json
import math
from typing import Any, Final

from privreg.protocol.sums import LETTERS
from privreg.results.base import Results
from privreg_field.collector import batches as chains
from privreg_field.device.consent import plain
from privreg_field.service.scheduler import STANDS
from privreg_field.service.store.records import CLOSED, FIXED, LOST, OFFERED, OPEN, PUBLISHED, SEALED, Batch
from privreg_field.service.sums import peer
from privreg_field.service.sums.batch_log import SOON, BatchLog
from privreg_field.service.sums.peer import Away, Refused
from privreg_field.study import keys
from privreg_field.study.reading import shared
from privreg_field.study.reading.picture import Known, Round, Side
from privreg_field.study.reading.shared import protocol_of, senders_of
from privreg_field.wire import messages, wire
from privreg_field.wire.messages import NONCE
from privreg_field.wire.peers import Signed, ids_of, list_hash
from privreg_field.wire.wire import MessageError, hash_of

LAG: Final = 10.0  # Seconds for which the other collector may be waited for, and isn't said to lag

REST: Final = 30.0
"""Seconds between two offers if the other collector has too few, and between two messages if it is away, at most.

The first pause is short: one of two shares comes a moment later, and an open round takes the next one's people.
"""


class SumScheduler(BatchLog):
    """Scheduler of a study with two collectors, at one of them; parameters are those of `BatchLog`."""

    # --- messages --------------------------------------------------------------------------------------

    def _read(self, body: bytes, letter: str) -> Signed:
        return peer.opened(body, self.plan_hash, letter, self.plan.keys[LETTERS.index(letter)])

    def _send(self, body: bytes, *kinds: str) -> tuple[Signed, bytes]:
        """Send a message; the answer, of one of these kinds."""
        assert self.post is not None
        try:
            answer = self.post(body)
            first = answer.partition(b"\n")[0]
            one = self._read(first, self._other)
        except MessageError:
            raise Away("an answer that can't be read") from None
        if one.kind not in kinds:
            raise Away("an answer to something else")
        return one, answer

    def _where(self) -> bytes:
        """Say which batch was the last that the other has fixed, as far as is known here, or that is lost."""
        over = {PUBLISHED, LOST}
        known = (k for k in range(self.asked - 1, -1, -1) if (b := self.shares.batch(k)).vouched or b.status in over)
        return self._signed("where", next(known, -1), nonce=self._nonce)

    def _heard(self, one: Signed) -> bytes:
        """The other says what was fixed here: what isn't, as the database is of a backup, must not be once more."""
        self._rest = -math.inf  # it is there: speak with it at once
        if not self._met or one.state < self.asked:  # else nobody can have fixed it, or it was heard at the meeting
            self._over = max(self._over, one.state)
        self._burn()
        return self._where()

    # --- its turn --------------------------------------------------------------------------------------

    def advance(self) -> bool:
        """Do what is next, if anything is; whether it was done."""
        if self._ended and not self.sealed:
            self.store.mark(SEALED)
            self.sealed = True
        self._since = None if not self._waits() else self.clock.even() if self._since is None else self._since
        if self.sealed or self.clock.even() < self._rest:
            return False
        try:
            done = self._meet() if not self._met else self._lead() if self._place == 0 else self._assist()
        except (Away, Refused):
            self._rest, self._pause = self.clock.even() + self._pause, min(2.0 * self._pause, REST)
            return False
        self._pause = 1.0
        return done

    def _waits(self) -> bool:
        """True if a step is due that takes both: all but an open batch that isn't due."""
        if self.sealed or not (self._met and self.states):
            return not self.sealed
        k = self.present.k
        return self._is_due(k, closing=self._closing()) or self.shares.batch(k).status != OPEN

    def known(self) -> Known:
        """Progress: numbers of shares that came here, and whether the other collector is waited for."""
        people, k, is_open, chain, about = self.people(), self.present.k, self.is_open, self.chain, self.store.about()
        end = chain.ask.ends
        rounds = tuple(
            Round(i, str(self.role_of(i)), people.get(i, 0), end if i == k else None, is_open and i == k)
            for i in range(self.asked)
        )
        over = len(rounds) - int(is_open and self.shares.batch(k).status in {OPEN, OFFERED, FIXED})
        lags = self._since is not None and self.clock.even() - self._since >= LAG
        sides = [Side(plain(one.name), None, None, lags) for one in self.plan.collectors]
        sides[self._place] = Side(sides[self._place].name, over, sum(people.values()), False)
        planned = list(self.plan.rounds)
        while is_open and planned and planned.pop(0).role != rounds[-1].role:
            pass
        return Known(
            rounds, k, is_open, self.closes, about.issued, chain.plan.rows, status=self._status(about.status),
            ahead=tuple(planned), made_of=(len(self.states),), collectors=tuple(sides),
        )  # fmt: skip

    def results(self) -> Results:
        """Results of the sums that both have published."""
        chain, issued, deaf = self.chain, self.store.about().issued, dict.fromkeys(self.unvouched(), self.letter)
        return shared.results(
            self.plan, chain, senders_of(self.plan, chain, deaf), [("Protocol", protocol_of(chain, issued, deaf))]
        )

    def _sums(self) -> dict[str, Any]:
        batches = [self.shares.batch(k) for k in range(len(self.states))]
        return {
            "sums": [
                [json.loads(v) for v in b.values(self._place)] if b.status == PUBLISHED else None for b in batches
            ],
            "lost": [b.k for b in batches if b.status == LOST],
            "unvouched": self.unvouched(),
        }

    def _meet(self) -> bool:
        """Ask the other, at the start of a process, what was fixed here."""
        one, _ = self._send(self._where(), "where")
        with self._lock:
            self._heard(one)
            self._met = True
        return True

    def _assist(self) -> bool:
        """B's turn: it fetches states that it lacks."""
        k = len(self.states) - 1
        if k >= 0:
            status = self.shares.batch(k).status
            if status == LOST:
                self._agree(k)
            elif status != PUBLISHED:
                return False
        one, _ = self._send(self._signed("next", k), "next")
        with self._lock:
            if len(self.states) == k + 1:  # signed here before the backup that this database is of
                self._accept(one.payload)
        return True

    def _lead(self) -> bool:
        """A's turn."""
        if not self.states:
            return self._propose(is_open=True)
        k = self.present.k
        batch, closing = self.shares.batch(k), self._closing()
        if batch.status == OPEN:
            if not self._is_due(k, closing=closing):
                return False
            self.shares.freeze(k)
        elif batch.status == OFFERED:
            return self._offer(k, batch, closing=closing)
        elif batch.status == FIXED:
            self._exchange(k, batch)
        else:
            if batch.status == LOST:
                self._agree(k)
            return self._propose(is_open=not closing)
        return True

    def _closing(self) -> bool:
        by_hand = self.store.about().status == CLOSED
        return by_hand or (self.clock.sure and self.clock() > self.plan.closes + self.plan.grace)

    def _is_due(self, k: int, *, closing: bool) -> bool:
        """True if the open batch may be fixed, by the shares that came here."""
        people = self._due(k, closing=closing)
        return people is not None and self._came_here() >= people

    def _due(self, k: int, *, closing: bool) -> int | None:
        """People with whom the open batch may be fixed now; None if it stays open however many there are."""
        held, end = self._round(k), self.chain.ask.ends
        if closing:
            return 0
        return max(held.least, 1) if end is not None and self._is_old(k, held.after) else end

    def _offer(self, k: int, batch: Batch, *, closing: bool) -> bool:
        people = self._due(k, closing=closing) or 0  # that both have: what comes here alone closes nothing
        try:
            one, _ = self._send(self._signed("offer", k, ids=batch.ids, people=people), "fixed")
        except Refused:
            self._lose(k)
            return True
        if one.status == "few":
            if closing:
                self._lose(k)
            else:
                lacked = len(ids_of(batch.ids)) - len(
                    ids_of(one.ids)
                )  # more each time, so that nobody can stop a study
                self._lacked = int(lacked * self._few / SOON)
                self.shares.thaw(k)
                self._rest, self._few = self.clock.even() + self._few, min(2.0 * self._few, REST)
            return closing
        self._few = SOON
        with self._lock:
            if self._fix(k, batch.offer, ids_of(one.ids), 0, one.listed, one.value) == OPEN:  # another list
                self._lose(k)
        return True

    def _exchange(self, k: int, batch: Batch) -> None:
        """Commit to this sum, hear the other's, and send this one."""
        listed = list_hash(ids_of(batch.ids))
        try:
            one, value = self._send(self._signed("commit", k, listed=listed, value=hash_of(batch.value)), "value")
            fine = hash_of(value) == batch.other and self.fits(one, batch)
            if fine:
                self._send(batch.value, "where")
        except Refused:
            fine = False
        with self._lock:
            if self.shares.batch(k) != batch:  # the other has given it up meanwhile
                return
            if fine:
                self.shares.change(batch._replace(status=PUBLISHED, peer_value=value))
            elif batch.status == FIXED:
                self._lose(k)

    def _agree(self, k: int) -> None:
        """Say that a batch was lost here; if the other has published it, take over the sum that it has committed to.

        If no commitment is known, and yet it has this one's sum, the database is of a backup. The other may have chosen
        its sum after it heard this one; the batch is not vouched for.
        """
        one, answer = self._send(self._signed("commit", k), "where", "fixed")
        if one.kind == "where":
            return
        parts = answer.split(b"\n")
        try:
            theirs, mine = self._read(parts[1], self._other), self._read(parts[2], self.letter)
        except (IndexError, MessageError):
            raise Away("an answer that can't be read") from None
        heard = self.shares.batch(k).peer_hash
        batch = Batch(k, PUBLISHED, hash_of(one.ids), one.ids, parts[2], heard, parts[1])
        if heard not in {b"", batch.other} or not (self.fits(theirs, batch) and self.fits(mine, batch)):
            raise Away("another batch")
        self.shares.adopt(batch)

    def _propose(self, *, is_open: bool) -> bool:
        """Make the next state, keep it, sign it, and publish it once the other has signed it, too."""
        assert self._keys is not None
        k, when = len(self.states) - 1, self._when(is_open=is_open)
        payload, kept = b"", self.keys.state(k + 1)
        if kept:
            said = messages.read_state(kept, self.plan, self.plan_hash)
            if said.open == is_open and abs(said.time - when) <= 0.5 * STANDS:  # the other would refuse an older one
                payload = keys.signed("state", kept, self._keys.sign)
        try:
            one, _ = self._send(self._signed("next", k, payload=payload), "next", "where")
        except Away:
            if k >= 0 and (batch := self.shares.batch(k)).status == PUBLISHED:  # which the other may have forgotten
                self._exchange(k, batch)
            raise
        with self._lock:
            if one.kind == "next":
                self._accept(one.payload)
                return True
            ask, nonces = chains.present_ask(self._after()), self._nonce + one.nonce
            said = self._stated(ask, when, is_open=is_open, nonces=nonces)
            self.keys.make(k + 1, messages.state_payload(said))
        return not payload  # else the other has begun anew; it is asked again at the next turn

    # --- what the other says ---------------------------------------------------------------------------

    def answered(self, body: bytes) -> bytes:
        """The answer to a message of the other collector.
        Raises MessageError if it is none of this study and of the other collector; Away if it may be sent again later;
        Refused if an honest collector doesn't send it.
        """
        one = self._read(body, self._other)
        with self._lock:
            if one.kind == "where":
                return self._heard(one)
            if one.kind == "next":
                return self._next(one)
            if not self._met or not 0 <= one.state < len(self.states):
                raise Away("not as far")
            batch = self.shares.batch(one.state)
            if one.kind == "commit" and not one.listed:
                return self._lost(batch)
            if self._place == 1:
                if one.kind == "offer":
                    return self._offered(one, batch)
                if one.kind == "commit":
                    return self._committed(one, batch)
                if one.kind == "value":
                    return self._valued(one, batch, body)
        raise Refused("a message that this collector doesn't get")

    def _fixed(self, batch: Batch) -> bytes:
        listed = list_hash(ids_of(batch.ids))
        return self._signed("fixed", batch.k, status="fixed", ids=batch.ids, listed=listed, value=hash_of(batch.value))

    def _lost(self, batch: Batch) -> bytes:
        """The other has lost a batch: so has this one, unless both had published it."""
        if batch.status == PUBLISHED:
            return b"\n".join((self._fixed(batch), batch.value, batch.peer_value))
        self._lose(batch.k)
        return self._where()

    def _offered(self, one: Signed, batch: Batch) -> bytes:
        k, offer = batch.k, hash_of(one.ids)
        if batch.status == OPEN:
            if self._fix(k, offer, ids_of(one.ids), one.people) == OPEN:
                held = set(self.shares.tokens(k))
                return self._signed("fixed", k, status="few", ids=b"".join(i for i in ids_of(one.ids) if i in held))
            batch = self.shares.batch(k)
        if batch.status not in {FIXED, PUBLISHED} or batch.offer != offer:
            raise Refused("another list")
        return self._fixed(batch)

    def _committed(self, one: Signed, batch: Batch) -> bytes:
        if batch.status == FIXED and not batch.vouched:
            if one.listed != list_hash(ids_of(batch.ids)) or not self.keys.state(batch.k):  # of a backup: see `_agree`
                self._lose(batch.k)
                raise Refused("another list, or a sum that was asked for before")
            batch = batch._replace(peer_hash=one.value)
            self.shares.change(batch)
            self._forget(batch.k)
        if batch.status not in {FIXED, PUBLISHED} or batch.other != one.value:
            raise Refused("another sum")
        return batch.value

    def _valued(self, one: Signed, batch: Batch, body: bytes) -> bytes:
        if batch.status == FIXED and not batch.vouched:
            raise Away("no commitment yet")
        if batch.status not in {FIXED, PUBLISHED} or hash_of(body) != batch.other or not self.fits(one, batch):
            if batch.status == FIXED:
                self._lose(batch.k)
            raise Refused("another sum")
        if batch.status == FIXED:
            self.shares.change(batch._replace(status=PUBLISHED, peer_value=body))
        return self._where()

    def _next(self, one: Signed) -> bytes:
        """Sign A's state, if it follows and has this process's nonce; hand out one that both have signed."""
        assert self._keys is not None
        number = one.state + 1
        asked = number == len(self.states) and self._place == 1 and self._met
        if asked and one.payload:
            found = wire.open_envelope(one.payload, "state")
            message = wire.signed_bytes("state", found.payload)
            said = messages.read_state(found.payload, self.plan, self.plan_hash)
            if not self._follows(said):
                raise Refused("a state that doesn't follow")
            first, when = self.present.time if self.states else 0, self._when(is_open=said.open)
            if not max(first, when - STANDS) <= said.time <= when + STANDS:
                raise Away("another time")
            if said.nonces[NONCE:] == self._nonce:
                signature = wire.key_id(self._keys.public[0]), self._keys.sign.sign(message)
                self.keys.make(number, found.payload)
                self._accept(wire.seal(found._replace(signatures=(*found.signatures[:1], signature))))
        if asked and number == len(self.states):
            return self._where()
        if not 0 <= number < len(self.states):
            raise Away("not as far")
        return self._signed("next", one.state, payload=self.states[number].envelope)
