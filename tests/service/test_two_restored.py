"""Two collectors, one of which comes from a backup and the other of which lies; and who else may disturb a batch."""

import json
import tempfile

import pytest

from privreg_field.service.store.records import LOST, OPEN, PUBLISHED
from privreg_field.service.sums import peer
from privreg_field.service.sums.peer import Away
from privreg_field.wire import messages, wire
from tests.service.pair import LETTERS, OWN, Pair
from tests.service.test_two import FAST
from tests.service.test_two_schedulers import DUE, backup, come, ids, on, restore, status
from tests.studies import DAY, signed


@pytest.fixture
def pair():
    """A study that no state has begun."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        made = Pair(folder, n=DUE + 15)
        yield made
        for place in (0, 1):
            made.leave(place)


def where(pair, place, state=-1):
    """What one of them says if it claims that the other has fixed this batch last."""
    one = peer.opened(pair.schedulers[place]._where(), pair.hash, LETTERS[place], pair.plan.keys[place])
    return peer.envelope(one._replace(state=state), pair.hash, OWN[place].sign)


def forgetful(pair, liar):
    """One of them says that it knows of no batch that the other has fixed."""

    def between(sender, body):
        lies = sender == liar and json.loads(body.split(b"\n")[0])["type"] == "where"
        return where(pair, liar) if lies else body

    pair.between = between


def restored(pair, place):
    """A batch is summed, its sums leave, and one of the two comes from a backup without it, its state or its keys."""
    backup(pair, place)
    come(pair, pair.people[:DUE])
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    old = [held.payload for held in pair.schedulers[place].states]
    restore(pair, place, keys=False)
    forgetful(pair, 1 - place)
    return old


@pytest.mark.parametrize("proposed", [False, True])
def test_a_collector_that_is_told_an_old_state_as_a_new_one_takes_no_shares_to_it(pair, proposed):
    """The other hands it out before A has proposed one of its own, or as the answer to that."""
    restored(pair, 0)
    a, lies = pair.schedulers[0], pair.between

    def between(sender, body):
        if proposed and sender == 1 and json.loads(body.split(b"\n")[0])["type"] == "next" and not a.keys.state(0):
            return where(pair, 1)
        return lies(sender, body)

    pair.between = between
    for _ in range(4):
        pair.clock.now += 40
        pair.advance(0)
    assert a.states
    assert set(pair.send(0, pair.people[:DUE])) == {"other"}  # A has taken over what was published of the batch
    assert not a.shares.tokens(0)


def test_a_collector_that_is_asked_to_sign_a_state_again_opens_no_old_share(pair):
    old = restored(pair, 1)
    a, b = pair.schedulers

    def post(body):
        if json.loads(body)["type"] == "where":
            return where(pair, 0)
        raise Away("away")

    b.post = post
    assert b.advance()
    again = a._signed("next", -1, payload=signed("state", old[0], OWN[0].sign))
    for _ in range(2):  # as often as it likes
        b.answered(again)
    assert not {"new", "same"} & set(pair.send(1, pair.people[:DUE]))
    assert not b.shares.tokens(0)
    said = messages.read_state(old[0], pair.plan, pair.hash)
    fresh = messages.state_payload(said._replace(nonces=a._nonce + b._nonce, time=int(pair.clock.now)))
    b.answered(a._signed("next", -1, payload=signed("state", fresh, OWN[0].sign)))
    assert len(b.states) == 1
    assert set(pair.send(1, pair.people[:DUE])) == {"bad"}  # to the same question, asked once more


def proposed(pair, *, cut):
    """A proposes a state, and B's answer is lost, or the message is."""

    def between(sender, body):
        if cut[sender] and json.loads(body)["type"] == "next" and b'"payload":""' not in read(body):
            raise Away("cut")
        return body

    def read(body):
        return wire.open_envelope(body, "next").payload

    pair.between = between
    on(pair)
    pair.between = lambda sender, body: body


@pytest.mark.parametrize("again", [0, 1])
def test_a_state_that_a_has_proposed_goes_on_after_a_restart(pair, again):
    proposed(pair, cut=(False, True))
    assert [len(c.states) for c in pair.schedulers] == [0, 1]
    pair.open(again)
    on(pair)
    come(pair, pair.people[:5])
    assert [c.shares.tokens(0) for c in pair.schedulers] == [sorted(p.token.id for p in pair.people[:5])] * 2


@pytest.mark.parametrize("hours", [0, 2])
def test_a_proposal_that_nobody_signed_is_made_anew(pair, hours):
    """B has begun anew, or doesn't sign what is old."""
    proposed(pair, cut=(True, False))
    assert [len(c.states) for c in pair.schedulers] == [0, 0]
    old = pair.schedulers[0].keys.state(0)
    assert old
    if not hours:
        pair.open(1)
    pair.clock.now += 3600 * hours
    on(pair)
    assert [len(c.states) for c in pair.schedulers] == [1, 1]
    assert pair.schedulers[0].states[0].payload != old
    come(pair, pair.people[:5])
    assert all(len(c.shares.tokens(0)) == 5 for c in pair.schedulers)


@pytest.mark.parametrize("place", [0, 1])
def test_nobody_is_believed_who_says_that_a_batch_to_come_was_fixed(pair, place):
    pair.turn()
    come(pair, pair.people[:DUE])
    pair.schedulers[place].answered(where(pair, 1 - place, 1 << 30))
    on(pair)
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert status(pair, 1) == [OPEN, OPEN]


@pytest.mark.some(1)
@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_a_collector_that_lacks_states_does_not_keep_the_other_from_meeting_it(pair, place, keys):
    """It has met the other, which begins anew before it has handed out its states."""
    pair.turn()
    backup(pair, place)
    come(pair, pair.people[:DUE])
    pair.turn()
    pair.leave(1 - place)
    next((pair.folder / LETTERS[1 - place]).glob("*batch1.key")).unlink()
    pair.open(1 - place)
    on(pair)
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert status(pair, 1) == [LOST, LOST]
    restore(pair, place, keys=keys)
    pair.schedulers[place]._meet()
    pair.open(1 - place)
    on(pair)
    a, b = pair.schedulers
    assert [s.payload for s in a.states] == [s.payload for s in b.states]
    assert all(c._met for c in pair.schedulers)
    assert all(len(hashes) == 1 for which in (0, 1) for hashes in pair.values(which).values())


@pytest.mark.parametrize("off", [-DAY, -4000, 4000, DAY])
def test_b_signs_no_state_whose_time_is_not_its_own(pair, off):
    a = pair.schedulers[0]
    a.clock = lambda: pair.clock.now + off
    a.clock.sure, a.clock.even = True, pair.clock
    on(pair)
    assert [len(c.states) for c in pair.schedulers] == [0, 0]


def test_shares_that_only_one_of_them_gets_end_no_batch(pair):
    """In an open study anybody can send some."""
    pair.turn()
    few, alone = pair.people[: DUE - 5], pair.people[DUE - 5 :]
    come(pair, alone, (0,))
    come(pair, few)
    for _ in range(2):  # some had no place at a until it heard that b lacks shares
        on(pair)
        assert status(pair) == [OPEN, OPEN]
        assert {*pair.send(0, few)} <= {"new", "same"}
    pair.send(1, alone[:5])
    on(pair)
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert len(ids(pair)[0]) == DUE
