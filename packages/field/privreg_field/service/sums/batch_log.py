"""Batch log of one of two collectors: states that both have signed, shares by batch, and how a batch ends."""

import json
import math
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import numpy as np
from cryptography.exceptions import InvalidTag
from numpy.typing import NDArray

from privreg.collector.design import Batch as Sum
from privreg.collector.design import Chain
from privreg.errors import OptionError, SavedFileError
from privreg.protocol.sums import LETTERS
from privreg_field.collector import batches as chains
from privreg_field.service.scheduler import Study, steady
from privreg_field.service.store import Store
from privreg_field.service.store.records import (
    FAILED,
    FIXED,
    LOST,
    NEW,
    OFFERED,
    OPEN,
    PUBLISHED,
    Batch,
    Held,
    Posted,
    RecordStore,
)
from privreg_field.service.sums import peer, sealing
from privreg_field.service.sums.peer import Away, Post
from privreg_field.service.sums.sealing import BatchKeys
from privreg_field.study.keys import CollectorKeys
from privreg_field.study.reading.shared import chain_of
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.messages import NONCE, FieldState
from privreg_field.wire.peers import Share, Signed, ids_of, list_hash, share_info
from privreg_field.wire.roles import Held as Round
from privreg_field.wire.wire import MessageError, hash_of

BAD: Final = "bad"  # Outcome of a share that can't be opened


MOST_BITS: Final = 31  # Noise of a larger sd than 2 to this isn't drawn: see `device/report/noise.py`
SOON: Final = 0.2  # Seconds until a batch is offered again of which the other collector has too few, at first


class BatchLog(Study, RecordStore):
    """Batch log of one of two collectors: states, shares, batches.

    `collector` are its keys; None only looks, and then `place` is its place in the plan. `post` sends to the other
    collector, see `peer.Post`; `clock` and `even` are as in `scheduler.Clock`.
    Raises OptionError if the keys are not those of a collector that the plan names, or states don't follow from
    published sums.
    """

    def __init__(
        self,
        store: Store,
        collector: CollectorKeys | None,
        post: Post | None = None,
        clock: Callable[[], float] = time.time,
        even: Callable[[], float] = steady,
        place: int = 0,
    ) -> None:
        self._keys, self.post, self._place = collector, post, place
        super().__init__(store, None if collector is None else collector.sign, clock, even)

    def _begin(self) -> None:
        self.records = self
        if self.plan.bits > MOST_BITS:
            raise OptionError("mu is too small for collectors of this release; it must be 0.0005 or more.")
        self.chain, self.shares, self.keys = chain_of(self.plan), self.store.shares, BatchKeys(self.store.beside)
        if self._keys is not None:
            both = [(c.key, c.seal) for c in self.plan.collectors]
            if self._keys.public not in both:
                mixed = self._keys.public[1] in {c.seal for c in self.plan.collectors}
                why = "their key and seal are those of different collectors in the plan: have the analyst swap them "
                why = f"{why}back in the study's file, and sign it anew" if mixed else "give the file of one"
                raise OptionError(f"these keys are of neither collector that the plan names; {why}.")
            self._place = both.index(self._keys.public)
        self.letter, self._other = LETTERS[self._place], LETTERS[1 - self._place]
        self._met = False  # The other was asked which batches it knows to be fixed here
        self._over = -1  # Last batch fixed here, as the other has said: of a state, too, that a backup lacks
        self._nonce = secrets.token_bytes(NONCE)  # In all states that this process signs, and in no other
        self._rest, self._pause, self._few = -np.inf, 1.0, SOON
        self._since: float | None = None  # From when on the other has been waited for, by the even clock
        self._sealing: tuple[int, bytes] | None = None  # Batch and its key
        self._came: int | None = None  # Shares of the present batch; None: to be counted
        self._lacked = 0  # Places beyond those of a full batch, as the other collector lacks shares
        self._ended = False
        for held in self.store.states():
            self._follow(held)
        if self._keys is not None:
            self._burn()

    @property
    def peer_key(self) -> bytes:
        """Public key by which the other collector signs."""
        return self.plan.keys[1 - self._place]

    # --- states ----------------------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        """States that have asked somebody, as far as this process knows."""
        return len(self.states) - int(self._ended)

    def role_of(self, k: int) -> str | None:
        """Role of a published state; None if there is no such state that asks."""
        return self.chain.history[k].state.role if 0 <= k < self.asked else None

    def takes(self) -> bool:
        """True if shares are looked at: once the study has ended, to say of each whether it was summed."""
        return not self.is_open or super().takes()

    def _after(self) -> Chain:
        """The chain at the next state."""
        if not self.states:
            return self.chain
        batch = self.shares.batch(self.present.k)
        if batch.status not in {PUBLISHED, LOST}:
            raise Away("the batch is not over")
        return self.chain.closed(None if batch.status == LOST else self.sum_of(batch))

    def sum_of(self, batch: Batch) -> Sum:
        """Sum of a published batch."""
        total: NDArray[np.uint64] = np.zeros((), dtype=np.uint64)
        for value in (batch.value, batch.peer_value):
            payload = wire.open_envelope(value, "value").payload
            total = total + np.frombuffer(peers.read_signed("value", payload, self.plan_hash).words, dtype="<u8")
        return Sum(len(ids_of(batch.ids)), total.view(np.int64))

    def _follows(self, said: FieldState) -> bool:
        """True if a state is the next, but for rounding."""
        ask = chains.present_ask(self._after())
        return messages.follows(said, ask, len(self.states), self._before)

    def _follow(self, held: Held, *, publish: bool = False) -> None:
        """Go on to a state, if it follows."""
        said = messages.read_state(held.payload, self.plan, self.plan_hash)
        if not self._follows(said):
            raise OptionError(f"state {held.k} does not follow from the sums before it.")
        if publish:
            self.store.publish(held, self._before, None)
        self.chain = self._after()
        self.states.append(held)
        self._came, self._lacked = None, 0
        self._ended = not said.open

    def _accept(self, envelope: bytes) -> None:
        """Publish a state that both have signed; without a key made for it, shares may be in a sum: none is taken."""
        found = wire.open_envelope(envelope, "state")
        message = wire.signed_bytes("state", found.payload)
        if not all(any(peer.verified(key, message, s) for _, s in found.signatures) for key in self.plan.keys):
            raise MessageError("a state must have both collectors' signatures.")
        said = messages.read_state(found.payload, self.plan, self.plan_hash)
        held = Held(len(self.states), envelope, found.payload, hash_of(found.payload), said.time)
        if not said.open or self.keys.state(held.k) != held.payload:
            self.keys.destroy(held.k)
        self._follow(held, publish=True)
        self._burn()

    # --- shares ----------------------------------------------------------------------------------------

    def take(
        self, arrived: Sequence[tuple[Share, bytes]], counts: Mapping[str, int], *, trial: bool = False
    ) -> list[str]:
        """Open shares, which come with hashes of their bodies, seal them by their batch's key, and keep them.

        None is kept that A's batch has no place for: its device asks again, and answers the next state.
        """
        posted = dict[int, Posted]()
        try:
            for i, (share, body_hash) in enumerate(arrived):
                sealed = self._sealed(share)
                if sealed != b"":
                    posted[i] = Posted(share.token.id, share.state, body_hash, sealed)
        except (OSError, SavedFileError):  # no key could be written
            return [FAILED] * len(arrived)
        outcomes = self.shares.take(list(posted.values()), counts, trial=trial, places=self._places())
        if self._came is not None:
            self._came += outcomes.count(NEW)
        kept = dict(zip(posted, outcomes, strict=True))
        return [kept.get(i, BAD) for i in range(len(arrived))]

    def _came_here(self) -> int:
        """Shares of the present batch that are held here."""
        if self._came is None:
            self._came = self.people().get(self.present.k, 0)
        return self._came

    def _places(self) -> float:
        """Shares that the present batch still takes: A's takes as many as its round asks for, B's what comes."""
        end = self.chain.ask.ends if self._place == 0 and self.is_open and self.states else None
        return math.inf if end is None else end + self._lacked - self._came_here()

    def _sealed(self, share: Share) -> bytes | None:
        """A share as it is kept; None if it can't be kept now, empty if it can't be opened."""
        assert self._keys is not None
        if share.state >= len(self.states):
            return b""
        info = share_info(self.letter, self.states[share.state].hash, share.token)
        plain = sealing.opened(share.sealed, self._keys.seal, info, self.plan.roles[share.role].numbers)
        if plain is None:
            return b""
        key = self._key_of(share.state)
        return None if key is None else sealing.kept(plain, key, share.token.id)

    def _key_of(self, k: int) -> bytes | None:
        """Key by which a batch's shares are kept; None if it takes none now."""
        if not self._met or k != self.present.k:
            return None
        if self._sealing is None or self._sealing[0] != k:
            if self.shares.batch(k).status != OPEN:
                return None
            key = self.keys.get(k)
            if key is None:  # it was taken away: see `_burn`
                return None
            self._sealing = k, key
        return self._sealing[1]

    def has(self, token: bytes, body_hash: bytes) -> bool:
        """True if these bytes of a token are held or summed."""
        return self.shares.has(token, body_hash)

    def people(self) -> dict[int, int]:
        """Shares that are held or summed, by state."""
        return self.shares.people()

    def deleted(self, kind: str, k: int, token_id: bytes) -> bytes:
        """Signed answer to a device whose share is "unsummed", or "lost" with its batch."""
        return self._signed(kind, k, ids=token_id)

    def published(self) -> list[dict[str, Any]]:
        """States of all batches, with the sum that this collector has signed if both have published theirs."""
        come, out = self.people(), []
        for k in range(self.asked):
            batch = self.shares.batch(k)
            ids, over = ids_of(batch.ids), batch.status == PUBLISHED
            people = len(ids) if over else come.get(k, 0)
            done = {
                "list_hash": wire.base(list_hash(ids)),
                "other_hash": wire.base(batch.other),
                "vouched": batch.vouched,
                "value": json.loads(batch.value or b"0"),
            }
            out.append({"k": k, "people": people, "status": batch.status} | (done if over else dict.fromkeys(done)))
        return out

    def unvouched(self) -> list[int]:
        """Published batches of which no commitment of the other was heard before this collector's sum left."""
        batches = map(self.shares.batch, range(self.asked))
        return [b.k for b in batches if b.status == PUBLISHED and not b.vouched]

    # --- a batch ---------------------------------------------------------------------------------------

    def _numbers(self, k: int) -> int:
        return self.plan.roles[self.chain.history[k].state.role].numbers

    def _round(self, k: int) -> Round:
        """The plan's round of a state: "least" and "after" are its own."""
        return next(r for r in self.plan.rounds if r.role == self.chain.history[k].state.role)

    def _fix(
        self, k: int, offer: bytes, ids: Sequence[bytes], people: int, listed: bytes = b"", peer_hash: bytes = b""
    ) -> str:
        """Fix a batch by what both have, with this collector's noise, once; its status then, open if there are too few.

        It keeps the hash of A's `offer`, which says how many `people` there must be; `listed` and `peer_hash` are those
        of the other's list and sum, if it is A.
        """
        key = self.keys.get(k)

        def make(chosen: list[bytes], rows: Iterable[tuple[bytes, bytes]]) -> Batch | None:
            found = list_hash(chosen)
            if len(chosen) < max(self._round(k).least, people, 1) or (listed and listed != found):
                return None
            if key is None:
                raise InvalidTag
            words = sealing.noised(rows, key, self._numbers(k), self.plan.bits)
            value = self._signed("value", k, people=len(chosen), listed=found, words=words)
            return Batch(k, FIXED, offer, b"".join(chosen), value, peer_hash)

        try:
            batch = self.shares.fix(k, ids, make)
        except InvalidTag:  # the key is gone, or another
            return self._lose(k)
        if batch is None:
            return OPEN
        self._forget(k)
        return batch.status

    def _forget(self, k: int) -> None:
        """Destroy a batch's key; until the other has committed to its sum, its file stays."""
        batch = self.shares.batch(k)
        self._sealing = None
        self.keys.destroy(k, keep=batch.status == FIXED and not batch.vouched)

    def _lose(self, k: int) -> str:
        self.shares.lose(k)
        self._forget(k)
        return LOST

    def _burn(self) -> None:
        """Give up the open batch if it was fixed here before, says the other, or its key is gone; destroy old keys."""
        for k in range(self.asked):
            status = self.shares.batch(k).status
            if status not in {OPEN, OFFERED}:
                self._forget(k)
            elif k <= self._over or self.keys.get(k) is None:
                self._lose(k)

    def fits(self, value: Signed, batch: Batch) -> bool:
        """True if a sum is one of a batch."""
        ids = ids_of(batch.ids)
        wanted = batch.k, len(ids), list_hash(ids), self._numbers(batch.k) * peers.WORD
        return (value.state, value.people, value.listed, len(value.words)) == wanted

    def head(self, answer: bytes, nonce: bytes, status: int) -> str:
        """Head of an answer to the other collector: see `peer.head`."""
        assert self._keys is not None
        return peer.head(answer, self._keys.sign, nonce, f"answer {status}")

    def _signed(self, kind: str, k: int, **members: Any) -> bytes:
        assert self._keys is not None
        return peer.envelope(Signed(kind, self.letter, k, **members), self.plan_hash, self._keys.sign)
