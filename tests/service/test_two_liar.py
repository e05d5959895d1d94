"""A collector that lies beside one that doesn't: no sum that it makes after it knows the other's is taken for agreed.

All that the liar may do is tried: any message at any time, any answer to each of the other's, while the other goes on,
is restarted, and has its database from a backup of any moment, without keys of batches. States of the honest one that
are alike are gone on from once.
"""

import json
import shutil
import tempfile
import threading
from collections import deque
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import httpx2
import numpy as np
import pytest

from privreg.collector.design import Chain
from privreg_field.service.store.records import LOST, PUBLISHED
from privreg_field.service.sums import batch_log, peer, sealing
from privreg_field.service.sums.app import make
from privreg_field.service.sums.peer import Away, Refused
from privreg_field.wire import peers, wire
from privreg_field.wire.peers import Signed
from tests.service.pair import LETTERS, OWN, Pair
from tests.service.served import served
from tests.service.test_two import FAST
from tests.service.test_two_app import KNOWN, OF, wait
from tests.service.test_two_schedulers import DUE, come

TARGET = 12_345  # Total that the liar wants
FAIR = "fair"  # A sum that it has before it knows the honest one's
CHOSEN = "chosen"  # The one with which the total is what it wants


class Undecided(BaseException):
    """The honest collector asks something to which the script has no answer yet."""


class Node(NamedTuple):
    """Where the two are."""

    files: dict  # Of the honest collector
    now: tuple  # What tells these files from others
    met: bool  # Whether its process has asked the liar what was fixed
    heard: bytes = b""  # Its signed sum, as far as the liar has it
    early: frozenset = frozenset()  # Sums that the liar has committed to without it
    backup: tuple | None = None  # Files, and what tells them from others
    restored: bool = False

    @property
    def mark(self):
        """What tells it from others."""
        return self.now, self.met, bool(self.heard), self.early, self.backup and self.backup[1], self.restored


class Play:
    """Both collectors, of which the one at `place` is honest."""

    def __init__(self, folder, place):
        self.pair, self.place = Pair(folder, n=DUE), place
        self.pair.turn()
        come(self.pair, self.pair.people)
        self.pair.leave(1 - place)
        self.letter, self.key = LETTERS[1 - place], OWN[1 - place].sign
        self.ids = sorted(p.token.id for p in self.pair.people)
        self.folder = self.pair.folder / LETTERS[place]
        self.numbers = self.pair.plan.roles["clamping"].numbers
        self.ends = set()  # How batches were published: "exchanged", or "adopted" after they were lost; which; vouched
        self.names = {}  # Of hashes of the liar's sums
        self.start = Node(*self.saved(), met=True)

    def saved(self):
        """Files of the honest collector, whose process ends, and what tells them from others."""
        scheduler = self.pair.schedulers[self.place]
        batch, kept = scheduler.shares.batch(0), scheduler.keys._read(0)
        now = batch.status, batch.offer, batch.value, batch.peer_hash, batch.peer_value, any(kept[:32]), bool(kept)
        self.pair.leave(self.place)
        return {p.name: p.read_bytes() for p in self.folder.iterdir()}, now

    def loaded(self, node):
        """The honest collector as it was; the liar answers by the script."""
        self.pair.leave(self.place)
        shutil.rmtree(self.folder)
        self.folder.mkdir()
        for name, data in node.files.items():
            (self.folder / name).write_bytes(data)
        self.pair.open(self.place)
        scheduler = self.pair.schedulers[self.place]
        scheduler._met, scheduler.post = node.met, self.post
        self.heard, self.early = node.heard, set(node.early)
        return scheduler

    # --- the liar --------------------------------------------------------------------------------------

    def signed(self, kind, **members):
        return peer.envelope(Signed(kind, self.letter, 0, **members), self.pair.hash, self.key)

    @property
    def sums(self):
        return (FAIR, CHOSEN) if self.heard else (FAIR,)

    def value(self, name):
        """Its signed sum of this name."""
        words = np.full(self.numbers, TARGET if name == CHOSEN else 0, dtype=np.uint64)
        if name == CHOSEN:
            own = peers.read_signed("value", wire.open_envelope(self.heard, "value").payload, self.pair.hash)
            words = words - np.frombuffer(own.words, dtype="<u8")
        listed = peers.list_hash(self.ids)
        made = self.signed("value", people=len(self.ids), listed=listed, words=words.astype("<u8").tobytes())
        self.names[wire.hash_of(made)] = name
        return made

    def committed(self, name):
        if not self.heard:
            self.early.add(name)
        return wire.hash_of(self.value(name))

    def lies(self):
        """All that it can say, as a message or as an answer."""
        out = [("where", -1), ("where", 0), ("few",), ("lost",)]
        out += [(kind, name) for kind in ("fixed", "value") for name in self.sums]
        return out + [("published", name) for name in self.sums if self.heard]

    def messages(self):
        """What it can send. Of what is none of a kind's answers, `lies` has one."""
        return [*self.lies(), ("list",), ("offer", 0), ("offer", 1), *(("commit", name) for name in self.sums)]

    def said(self, kind, what=None):
        """One of `messages` as bytes. Raises Away or Refused if that is the answer."""
        listed = peers.list_hash(self.ids)
        if kind in {"away", "refused"}:
            raise {"away": Away, "refused": Refused}[kind]("as an answer")
        if kind == "where":
            return peer.envelope(Signed("where", self.letter, what, nonce=bytes(16)), self.pair.hash, self.key)
        if kind == "few":
            return self.signed("fixed", status="few", ids=b"".join(self.ids[1:]))
        if kind == "offer":
            return self.signed("offer", ids=b"".join(self.ids[what:]))
        if kind in {"lost", "list"}:  # a commitment to no list, and one to another
            other = {} if kind == "lost" else {"listed": bytes(32), "value": self.committed("fair")}
            return self.signed("commit", **other)
        if kind == "commit":
            return self.signed("commit", listed=listed, value=self.committed(what))
        if kind == "value":
            return self.value(what)
        fixed = {"status": "fixed", "ids": b"".join(self.ids), "listed": listed, "value": self.committed(what)}
        parts = [self.signed("fixed", **fixed)]
        return b"\n".join([*parts, self.value(what), self.heard] if kind == "published" else parts)

    def opened(self, body):
        """A message of the honest collector."""
        return peer.opened(body, self.pair.hash, LETTERS[self.place], self.pair.plan.keys[self.place])

    def hear(self, body):
        """Keep the honest collector's sum, if it is in what it sends."""
        for part in body.split(b"\n"):
            one = self.opened(part)
            if (one.kind, one.state) == ("value", 0):
                self.heard = part

    def post(self, body):
        self.hear(body)
        if not self.script:
            self.asked = [("away",), ("refused",), *self.lies()]
            raise Undecided
        return self.said(*self.script.pop(0))

    # --- what can be done ------------------------------------------------------------------------------

    def actions(self, node):
        self.heard = node.heard
        yield from (("turn",), ("restart",))
        yield from (("say", lie) for lie in self.messages())
        if node.backup:
            yield ("restore",)
        elif not node.restored:
            yield ("backup",)

    def done(self, node, action, script=()):
        """Where the two are after an action, once for each way in which the liar may answer meanwhile."""
        if action[0] == "backup":
            yield node._replace(backup=(node.files, node.now))
            return
        if action[0] == "restore":
            back = {n: data for n, data in node.backup[0].items() if not n.endswith(".key")}
            keys = {n: data for n, data in node.files.items() if n.endswith(".key")}  # which stay as they are
            node, action = node._replace(files=back | keys, restored=True, backup=None), ("restart",)
        before, scheduler, self.script = node, self.loaded(node), list(script)
        scheduler._met &= action[0] != "restart"
        try:
            if action[0] == "say":
                self.hear(scheduler.answered(self.said(*action[1])))
            else:
                scheduler.advance()
        except (Away, Refused, wire.MessageError):
            pass
        except Undecided:
            for lie in self.asked:
                yield from self.done(before, action, (*script, lie))
            return
        self.checked(scheduler, node)
        met = scheduler._met
        files, now = self.saved()
        yield node._replace(files=files, now=now, met=met, heard=self.heard, early=frozenset(self.early))

    def checked(self, scheduler, node):
        """A sum that counts as agreed was committed to before; without a backup all are."""
        batch = scheduler.shares.batch(0)
        if batch.status == PUBLISHED:
            total = scheduler.sum_of(batch).total
            name = self.names[wire.hash_of(batch.peer_value)]
            assert (set(total.tolist()) == {TARGET}) == (name == CHOSEN)
            assert not batch.vouched or name in self.early
            assert batch.vouched or node.restored
            assert scheduler.unvouched() == ([] if batch.vouched else [0])
            assert scheduler.published()[0]["vouched"] is batch.vouched
            if node.now[0] != PUBLISHED:
                self.ends.add(("adopted" if node.now[0] == LOST else "exchanged", name, batch.vouched))

    def after(self, *steps):
        """Where actions lead to, each with the liar's answers."""
        node = self.start
        for action, *script in steps:
            (node,) = self.done(node, action, script)
        return node

    def explored(self, start, depth):
        """Go on from all states that so many actions lead to."""
        self.ends, seen, waiting = set(), {start.mark}, deque([(start, 0)])
        while waiting:
            node, k = waiting.popleft()
            for action in self.actions(node) if k < depth else ():
                for after in self.done(node, action):
                    if after.mark not in seen:
                        seen.add(after.mark)
                        waiting.append((after, k + 1))


def once(make, key):
    """What `make` makes, of arguments with the same key once."""
    made = {}

    def kept(*given):
        if key(*given) not in made:
            made[key(*given)] = make(*given)
        return made[key(*given)]

    return kept


@pytest.fixture(params=[0, 1], ids=["honest a", "honest b"])
def play(request, monkeypatch):
    monkeypatch.setattr(sealing, "rounded_normal", lambda bits, words: 7)
    monkeypatch.setattr(batch_log, "chain_of", once(batch_log.chain_of, lambda plan: None))
    closed = once(Chain.closed, lambda _, batch: batch and batch.total.tobytes())
    monkeypatch.setattr(Chain, "closed", closed)  # of the first batch, whose next state takes long to make
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        made = Play(Path(folder), request.param)
        yield made
        made.pair.leave(request.param)


COMMITTED = {
    0: [(("turn",),), (("turn",), ("fixed", FAIR))],
    1: [(("say", ("offer", 0)),), (("say", ("commit", FAIR)),)],
}
"""How the liar comes to have committed to a sum; b's leaves it then, a's at its next turn."""
LEFT = {0: [(("turn",), ("value", FAIR), ("away",))], 1: []}
AGREED = {("exchanged", FAIR, True), ("adopted", FAIR, True)}
ON_ITS_WORD = {("adopted", FAIR, False), ("adopted", CHOSEN, False)}


@pytest.mark.parametrize(
    ("play", "depth"), [(0, 1), pytest.param(0, 2, marks=pytest.mark.thorough), (1, 2)], indirect=["play"]
)
def test_no_sum_is_agreed_on_that_was_made_after_the_other_was_known(play, depth):
    """After one action a has adopted no sum yet; that it adopts the first one alone is tried over HTTP, too."""
    play.explored(play.after(*COMMITTED[play.place]), depth)
    assert play.ends == (AGREED if depth == 2 else {("exchanged", FAIR, True)})


@pytest.mark.parametrize(
    ("play", "at"),
    [pytest.param(place, at, marks=[pytest.mark.thorough] * (place == 0 or at)) for place in (0, 1) for at in (0, 1)],
    indirect=["play"],
)
def test_a_collector_from_a_backup_says_that_nothing_vouches_for_the_sum_that_it_adopts(play, at):
    """The backup is of before the batch was fixed, or, of b, of before the liar has committed to a sum."""
    steps = [*COMMITTED[play.place], *LEFT[play.place]]
    steps.insert(at, (("backup",),))
    play.explored(play.after(*steps, (("restore",), ("where", -1))), 1 + at * play.place)
    assert play.ends == ON_ITS_WORD


@pytest.mark.thorough
def test_no_sum_is_agreed_on_that_was_made_after_the_other_was_known_whatever_is_done(play):
    play.explored(play.start, 99)
    assert play.ends == AGREED | ON_ITS_WORD


# --- over HTTP -----------------------------------------------------------------------------------------------


class Answers(BaseHTTPRequestHandler):
    """The liar's server: it waits for the other's sum, drops its own, and publishes `server.sum` in its place."""

    def log_message(self, *_):
        pass

    def do_POST(self):
        play, body = self.server.play, self.rfile.read(int(self.headers["Content-Length"]))
        head = peer.announced(self.headers[peer.HEADER], play.pair.plan.keys[play.place])
        play.hear(body)
        kind = json.loads(body)["type"]
        lost = kind == "commit" and not play.opened(body).listed
        self.server.asked.append("lost" if lost else kind)
        lies = {"offer": ("fixed", FAIR), "commit": ("published", self.server.sum) if lost else ("value", FAIR)}
        status, said = (409, b"{}") if kind == "value" else (200, play.said(*lies.get(kind, ("where", -1))))
        self.send_response(status)
        self.send_header(peer.HEADER, peer.head(said, play.key, head[:16], f"answer {status}"))
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)


def test_a_collector_that_drops_its_sum_and_publishes_another_chooses_no_total(play):
    """As an attacker did it, over HTTP: the honest collector asks again and again, and adopts the first sum alone."""
    scheduler, key = play.loaded(play.start), play.pair.plan.keys
    with ExitStack() as stack:
        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Answers))
        server.play, server.asked, server.sum = play, [], CHOSEN
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        stack.callback(server.shutdown)
        liar = f"http://127.0.0.1:{server.server_address[1]}"
        scheduler.post = peer.poster(liar, "sleep", OWN[play.place].sign, key[1 - play.place])
        url = stack.enter_context(served(scheduler, make=make))
        client = stack.enter_context(httpx2.Client(timeout=30))

        def batch():
            play.pair.clock.now += 31  # pauses between messages are over
            return client.get(f"{url}{OF}/sums", headers=KNOWN).json()["batches"][0]

        if play.place == 1:
            post = peer.poster(url, "sleep", play.key, key[1])
            post(play.said("offer", 0))
            play.hear(post(play.said("commit", FAIR)))
            with pytest.raises(Refused):
                post(play.said("value", CHOSEN))
        wait(lambda: batch()["status"] == "lost" and server.asked.count("lost") >= 3)
        assert play.heard
        assert batch()["status"] == "lost"
        server.sum = FAIR
        wait(lambda: batch()["status"] == "published")
        assert batch()["vouched"] is True
        assert batch()["other_hash"] == wire.base(wire.hash_of(play.value(FAIR)))
