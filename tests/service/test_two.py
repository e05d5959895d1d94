"""Two collectors: each share in one sum at most, one noise a batch, whatever is dropped, repeated, killed or lied."""

import hashlib
import json
import re
import shutil
import sqlite3
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from privreg_field.service.store.records import LOST, OPEN, PUBLISHED
from privreg_field.service.sums import peer, sealing
from privreg_field.wire import peers, wire
from tests.service.pair import LETTERS, MOD, OWN, Pair

PEOPLE = 14
FAST = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""Where what is written is on the disk at once."""


class Noise:
    """Noise that is never the same twice, and that a test knows."""

    def __init__(self):
        self.drawn = []

    def __call__(self, bits, words):
        digest = hashlib.sha256(b"%d" % len(self.drawn)).digest()
        self.drawn.append(int.from_bytes(digest[:8], "little"))
        return self.drawn[-1]


def words_of(values):
    return struct.pack(f"<{len(values)}Q", *(v % MOD for v in values))


def files_of(pair):
    """What lies in the folders of both: databases, their logs, keys."""
    return {p: p.read_bytes() for letter in LETTERS for p in (pair.folder / letter).iterdir()}


def assert_nothing_clear(pair, noise):
    """No share, raw sum or noise stands in any file."""
    secret = {words_of([v]) for v in noise.drawn}
    for person in pair.people:
        for pairs in person.shares.values():
            secret |= {words_of([v]) for share in pairs for v in share}
    for place, scheduler in enumerate(pair.schedulers):
        for k in range(len(scheduler.states)):
            listed = set(peers.ids_of(scheduler.shares.batch(k).ids))
            shares = [p.shares[k][place] for p in pair.people if p.token.id in listed and k in p.shares]
            secret |= {words_of([sum(column)]) for column in zip(*shares, strict=True)}
    found = re.compile(b"|".join(re.escape(s) for s in secret - {bytes(8)})) if secret else None
    for path, content in files_of(pair).items():
        assert found is None or not found.search(content), path.name


def lying(pair, liar, kind, lie):
    """One of them changes its next message of a kind."""
    done = []

    def between(sender, body):
        if sender != liar or done or json.loads(body.split(b"\n")[0])["type"] != kind:
            return body
        one = peers.read_signed(kind, wire.open_envelope(body, kind, peers.LONGEST).payload, pair.hash)
        done.append(kind)
        return peer.envelope(lie(one), pair.hash, OWN[liar].sign)

    pair.between = between


LIES = {
    "offer": lambda one: one._replace(ids=one.ids[16:]),
    "fixed": lambda one: one._replace(ids=one.ids[16:]),
    "fixed hash": lambda one: one._replace(value=bytes(31) + b"\1"),
    "commit": lambda one: one._replace(listed=bytes(31) + b"\1"),
    "commit hash": lambda one: one._replace(value=bytes(31) + b"\1"),
    "value": lambda one: one._replace(words=bytes(len(one.words))),
}
"""What a dishonest collector changes; of offers and lists it leaves one person out."""


class Two(RuleBasedStateMachine):
    """Devices come and come again; both collectors are killed, cut off, restored; one of them lies."""

    restores = lies = False

    @initialize()
    def begin(self):
        self.folder = tempfile.TemporaryDirectory(dir=FAST)
        self.noise, self.patch = Noise(), pytest.MonkeyPatch()
        self.patch.setattr(sealing, "rounded_normal", self.noise)
        self.pair = Pair(self.folder.name, n=PEOPLE)
        self.backups, self.restored = [None, None], False
        self.pair.turn()

    # --- devices -------------------------------------------------------------------------------------------

    @rule(who=st.lists(st.integers(0, PEOPLE - 1), min_size=3, max_size=9, unique=True), at=st.integers(0, 1))
    def come(self, who, at):
        """Some fetch a state, make shares, and send them to one of the two."""
        scheduler = self.pair.schedulers[at]
        if scheduler is None or not scheduler.states:
            return
        some = [self.pair.people[i] for i in who]
        for person in some:
            if person.bodies is None or (person.may_begin_anew and scheduler.present.k > person.state):
                person.make(scheduler.present.k)
        self.pair.send(at, [p for p in some if p.bodies])

    @rule(at=st.integers(0, 1), heard=st.booleans(), first=st.integers(0, PEOPLE - 1))
    def again(self, at, heard, first):
        """Those who haven't heard from one of the two send the same bytes; answers may be lost."""
        some = [p for p in self.pair.people[first:] if p.bodies and p.said[at] is None]
        known = self.known(at)
        self.pair.send(at, [p for p in some if p.state < known], heard=heard)

    def known(self, at):
        scheduler = self.pair.schedulers[at]
        return 0 if scheduler is None else scheduler.asked

    @rule(who=st.integers(0, PEOPLE - 1), at=st.integers(0, 1))
    def others(self, who, at):
        """Other bytes of a token that has sent some."""
        person = self.pair.people[who]
        if person.bodies is None or self.pair.schedulers[at] is None or person.state >= self.known(at):
            return
        share, _ = self.pair.arrived(person.bodies[at])
        if person.said[at] in {"new", "same"} and not self.restored:
            assert self.pair.schedulers[at].take([(share, bytes(32))], {}) == ["other"]

    # --- collectors ----------------------------------------------------------------------------------------

    @rule(at=st.integers(0, 1), times=st.integers(1, 4), kill=st.none() | st.integers(0, 8), whom=st.integers(0, 1))
    def turn(self, at, times, kill, whom):
        self.pair.clock.now += 40
        self.pair.fuse[whom] = kill
        for _ in range(times):
            self.pair.advance(at)
        self.pair.fuse[whom] = None

    @rule(lost=st.sampled_from(["request", "answer"]))
    def lose_a_message(self, lost):
        self.pair.lost = lost

    @rule(at=st.integers(0, 1))
    def cut_off(self, at):
        self.pair.away[at] = not self.pair.away[at]

    @rule(at=st.integers(0, 1))
    def restart(self, at):
        self.pair.open(at)

    @rule()
    def all_goes_well(self):
        """Both go on until nothing is left to do."""
        self.settle()

    def settle(self):
        self.pair.away, self.pair.fuse, self.pair.lost = [False, False], [None, None], None
        for at in (0, 1):
            if self.pair.schedulers[at] is None:
                self.pair.open(at)
        for _ in range(4):
            self.pair.clock.now += 40
            self.pair.turn()

    @precondition(lambda self: self.restores)
    @rule(at=st.integers(0, 1))
    def back_up(self, at):
        """A copy of the database, and of the batch's key."""
        folder = self.pair.folder / f"backup {at}"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        own = self.pair.folder / LETTERS[at]
        with closing(sqlite3.connect(own / "study.db")) as db, closing(sqlite3.connect(folder / "study.db")) as copy:
            db.backup(copy)
        for key in own.glob("*.key"):
            shutil.copy(key, folder)
        self.backups[at] = folder

    @precondition(lambda self: self.restores)
    @rule(at=st.integers(0, 1), keys=st.booleans())
    def restore(self, at, keys):
        if self.backups[at] is None:
            return
        own = self.pair.folder / LETTERS[at]
        self.pair.leave(at)
        shutil.rmtree(own)
        shutil.copytree(self.backups[at], own, ignore=None if keys else shutil.ignore_patterns("*.key"))
        self.restored = True
        self.pair.open(at)

    @precondition(lambda self: self.lies)
    @rule(liar=st.integers(0, 1), lie=st.sampled_from(sorted(LIES)))
    def lie(self, liar, lie):
        lying(self.pair, liar, lie.split()[0], LIES[lie])

    # --- what always holds ---------------------------------------------------------------------------------

    @invariant()
    def each_share_is_in_one_sum_and_each_sum_has_one_noise(self):
        if not hasattr(self, "pair"):
            return
        pair = self.pair
        for at, scheduler in enumerate(pair.schedulers):
            if not self.lies:
                assert all(len(hashes) == 1 for hashes in pair.values(at).values())
            if scheduler is None:
                continue
            used = []
            for k in range(len(scheduler.states)):
                batch = scheduler.shares.batch(k)
                if batch.value:
                    ids = peers.ids_of(batch.ids)
                    used += ids
                    one = peer.opened(batch.value, pair.hash, LETTERS[at], pair.plan.keys[at])
                    noise = self.noise_of(pair, at, k, ids, one.words)
                    assert set(noise) <= set(self.noise.drawn)
                if batch.status not in {OPEN, "offered"}:
                    assert not scheduler.shares.tokens(k)
            assert len(used) == len(set(used))

    @staticmethod
    def noise_of(pair, at, k, ids, words):
        """What a sum has beside the shares of its list."""
        shares = [p.shares[k][at] for p in pair.people if p.token.id in set(ids)]
        assert len(shares) == len(ids)
        exact = [sum(column) for column in zip(*shares, strict=True)]
        return [(w - e) % MOD for w, e in zip(np.frombuffer(words, dtype="<u8").tolist(), exact, strict=True)]

    def teardown(self):
        if not hasattr(self, "pair"):
            return
        try:
            self.end()
        finally:
            for at in (0, 1):
                self.pair.leave(at)
            self.patch.undo()
            self.folder.cleanup()

    def end(self):
        pair = self.pair
        pair.between = lambda sender, body: body
        self.settle()
        for at in (0, 1):
            self.again(at, True, 0)
        self.settle()
        a, b = pair.schedulers
        assert [s.payload for s in a.states] == [s.payload for s in b.states]
        for k in range(len(a.states)):
            one, other = a.shares.batch(k), b.shares.batch(k)
            if not self.lies:
                assert one.status == other.status or {one.status, other.status} == {OPEN, LOST}
            if one.status == other.status == PUBLISHED:
                assert one.ids == other.ids
                pair.total(k)
        for person in pair.people:
            if person.acknowledged and not self.restored:
                status = a.shares.batch(person.state).status
                summed = person.token.id in peers.ids_of(a.shares.batch(person.state).ids)
                assert status in {OPEN, LOST} or summed
        if not self.restored:
            assert_nothing_clear(pair, self.noise)


def machine(examples, steps, **more):
    case = type("Case", (Two,), more).TestCase
    case.settings = settings(
        max_examples=examples, stateful_step_count=steps, deadline=None, suppress_health_check=list(HealthCheck)
    )
    return case


TestKilled = machine(2, 25)
TestKilledAtLength = pytest.mark.thorough(machine(60, 60))
TestRestored = pytest.mark.thorough(machine(60, 60, restores=True))
TestLying = pytest.mark.thorough(machine(60, 60, lies=True))
