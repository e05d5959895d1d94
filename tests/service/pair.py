"""A study with two collectors, for tests: both in this process, their people's devices, a clock that stands still."""

import hashlib
import json
import os
import struct
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey

from privreg_field.service import access
from privreg_field.service.access import Issuer
from privreg_field.service.store import open_store
from privreg_field.service.sums import scheduler as schedulers
from privreg_field.service.sums.peer import Away
from privreg_field.service.sums.sealing import SUITE
from privreg_field.study import keys
from privreg_field.study.declaring import declared
from privreg_field.study.declaring.plan import study_plan
from privreg_field.wire import messages, peers, study, wire
from privreg_field.wire.collectors import Collector
from privreg_field.wire.messages import Token
from privreg_field.wire.peers import Share, share_body, share_info
from tests.service.world import ANALYST, DATABASES, DECLARED, SECRET, Clock
from tests.studies import DAY, ROOT, key_of

OWN = tuple(keys.CollectorKeys(key_of(n), X25519PrivateKey.from_private_bytes(bytes([n]) * 32)) for n in (11, 12))
"""Keys that anybody can make again: for tests alone."""

LETTERS = ("a", "b")
MOD = 1 << 64


def plan_of_two(folder, least=2, urls=("http://a.example.org", "http://b.example.org"), **more):
    """The plan of the study, and its signed envelope."""
    path = Path(folder) / "study.json"
    path.write_text(json.dumps({**DECLARED, "trust": "two_collectors", **more}))
    about, fit = declared.read(path)
    collectors = tuple(
        Collector(f"Office {letter}", url, f"{letter}@example.org", *own.public)
        for letter, url, own in zip(LETTERS, urls, OWN, strict=True)
    )
    about = replace(about, collectors=collectors)
    plan = study_plan(fit, fit.spec.design.trees(), about, [own.public[0] for own in OWN])
    plan = plan._replace(rounds=tuple(r._replace(after=DAY, least=least) for r in plan.rounds))
    payload = study.plan_payload(plan)
    return study.read_plan(payload), wire.hash_of(payload), keys.signed("plan", payload, ROOT)


class Person:
    """A device: it makes shares for a state, sends both again until both have answered, and starts anew if both say so.

    `value` is what it adds to every number.
    """

    def __init__(self, pair, token, value):
        self.pair, self.token, self.value = pair, token, value
        self.bodies, self.state, self.said = None, -1, [None, None]
        self.shares = {}  # By state: all that it has ever made

    def make(self, state):
        """Fresh shares for a state."""
        plan = self.pair.plan
        role = self.pair.schedulers[0].role_of(state) or self.pair.schedulers[1].role_of(state)
        numbers = plan.roles[role].numbers
        second = struct.unpack(f"<{numbers}Q", os.urandom(8 * numbers))
        first = [(self.value - s) % MOD for s in second]
        bodies = []
        for letter, share, collector in zip(LETTERS, (first, second), plan.collectors, strict=True):
            held = [
                scheduler.states[state]
                for scheduler in self.pair.schedulers
                if scheduler and state < len(scheduler.states)
            ]
            info = share_info(letter, held[0].hash, self.token)
            key = X25519PublicKey.from_public_bytes(collector.seal)
            sealed = SUITE.encrypt(struct.pack(f"<{numbers}Q", *share), key, info)
            bodies.append(share_body(Share(self.pair.hash, state, role, self.token, sealed)))
        self.bodies, self.state, self.said = bodies, state, [None, None]
        self.shares[state] = first, second

    @property
    def acknowledged(self):
        """Whether both have its shares, for all it knows."""
        return all(s in {"new", "same", "other"} for s in self.said)

    @property
    def may_begin_anew(self):
        return self.said == ["unsummed", "unsummed"]


class Killed(BaseException):
    """A process ends here."""


class Pair:
    """Both collectors of a study."""

    def __init__(self, folder, n=60, database="sqlite", own=OWN, **more):
        self.folder, self.clock, self.own = Path(folder), Clock(), own
        self.plan, self.hash, self.envelope = plan_of_two(folder, **more)
        self.database = database
        for letter in LETTERS:
            (self.folder / letter).mkdir(exist_ok=True)
        self.away = [False, False]
        self.between = lambda sender, body: body  # What happens to a message, or to an answer
        self.lost = None  # "request" or "answer" of the next message
        self.fuse = [None, None]  # Steps until a process is killed
        self.left = []  # Every message and answer that left: who sent it, bytes
        self.schedulers = [None, None]
        for place in (0, 1):
            self.open(place)
        for scheduler in self.schedulers:
            scheduler.store.issue(SECRET)
        self.people = [Person(self, t, 1 << i) for i, t in enumerate(Issuer(1, SECRET, self.hash).tokens(n))]

    def url(self, place):
        return DATABASES[self.database](self.folder / LETTERS[place])

    def open(self, place):
        """Begin a process; what was in memory is gone."""
        self.leave(place)
        beside = self.folder / LETTERS[place] / "study.db"
        store = open_store(self.url(place), self.plan.study, self.clock, beside=beside)
        store.enter(self.hash, self.envelope, access.first_of(ANALYST))
        scheduler = schedulers.SumScheduler(
            store, self.own[place], lambda body: self.post(place, body), self.clock, self.clock
        )
        begin, destroy = store.engine.begin, scheduler.keys.destroy

        @contextmanager
        def stepwise():
            with begin() as connection:
                yield connection
                self.step(place)
            self.step(place)

        def carefully(k, **how):
            self.step(place)
            destroy(k, **how)

        store.engine.begin, scheduler.keys.destroy = stepwise, carefully
        self.schedulers[place] = scheduler

    def leave(self, place):
        if self.schedulers[place] is not None:
            self.schedulers[place].store.engine.dispose()
            self.schedulers[place] = None

    def step(self, place):
        """A place at which a process may be killed."""
        if self.fuse[place] is not None:
            self.fuse[place] -= 1
            if self.fuse[place] < 0:
                self.fuse[place] = None
                raise Killed

    def post(self, sender, body):
        """A message to the other, and its answer."""
        place, lost, self.lost = 1 - sender, self.lost, None
        self.step(sender)
        body = self.between(sender, body)
        self.left.append((sender, body))
        if lost == "request" or self.away[place] or self.schedulers[place] is None:
            raise Away("away")
        try:
            answer = self.between(place, self.schedulers[place].answered(body))
        except Killed:
            self.leave(place)
            raise Away("killed") from None
        self.left.append((place, answer))
        if lost == "answer":
            raise Away("lost")
        self.step(sender)
        return answer

    def advance(self, place):
        """One turn of one of them; whether it did anything."""
        try:
            return self.schedulers[place] is not None and self.schedulers[place].advance()
        except Killed:
            self.leave(place)
            return True

    def turn(self, steps=40):
        """Let both do what is next, until neither has anything to do."""
        for _ in range(steps):
            if not any([self.advance(place) for place in (0, 1)]):
                break

    def arrived(self, body):
        """A body as the application hands it over."""
        share = peers.read_share(body, self.plan, self.hash)
        return share, hashlib.sha256(body).digest()

    def send(self, place, persons, *, heard=True):
        """Send persons' shares to one of them."""
        if self.schedulers[place] is None:
            return []
        try:
            outcomes = self.schedulers[place].take([self.arrived(p.bodies[place]) for p in persons], {})
        except Killed:
            self.leave(place)
            return []
        for person, outcome in zip(persons, outcomes, strict=True):
            if outcome != "frozen" and heard:
                person.said[place] = outcome
        return outcomes

    def values(self, place):
        """Sums that have left one of them, by batch: hashes of envelopes, committed to or sent."""
        out = {}
        for sender, said in self.left:
            for body in said.split(b"\n"):
                kind = json.loads(body)["type"]
                one = peers.read_signed(kind, wire.open_envelope(body, kind, peers.LONGEST).payload, self.hash)
                if one.letter == LETTERS[place] and sender == place:
                    if kind == "value":
                        out.setdefault(one.state, set()).add(wire.hash_of(body))
                    elif kind in {"fixed", "commit"} and one.value:
                        out.setdefault(one.state, set()).add(one.value)
        return out

    def total(self, k):
        """What a batch adds up to, as both say."""
        found = [c.sum_of(c.shares.batch(k)) for c in self.schedulers]
        assert found[0].people == found[1].people
        assert (found[0].total == found[1].total).all()
        return found[0]

    def token(self, i):
        return Token(0, i.to_bytes(16, "big"), bytes(messages.MAC))
