"""Rules of two collectors, one by one: lists, lost batches, backups, states that both sign, late devices, noise."""

import json
import math
import shutil
import struct
import tempfile

import numpy as np
import pytest

from privreg.errors import OptionError
from privreg_field.device.report.sums import shares
from privreg_field.device.seal import seal
from privreg_field.service.scheduler import CLOSED
from privreg_field.service.store.records import FIXED, LOST, OFFERED, OPEN, PUBLISHED
from privreg_field.service.sums import app, batch_log, peer, sealing
from privreg_field.service.sums.batch_log import SOON
from privreg_field.service.sums.peer import Refused
from privreg_field.study import keys
from privreg_field.wire import messages, peers, wire
from tests.service.pair import LETTERS, OWN, Pair
from tests.service.test_two import FAST, LIES, Noise, assert_nothing_clear, lying
from tests.service.world import COPIES, KINDS
from tests.studies import DAY, key_of, signed

DUE = 30  # People that close the first batch


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=[pytest.mark.thorough, *KINDS[1].marks])])
def pair(request):
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        made = Pair(folder, n=45, database=request.param)
        made.turn()
        yield made
        for place in (0, 1):
            made.leave(place)


def come(pair, people, places=(0, 1)):
    """People make shares for the present state, and send them."""
    for person in people:
        person.make(pair.schedulers[0].present.k)
    for place in places:
        pair.send(place, people)


def again(pair, people):
    """A has no place for some, until it hears that the other lacks shares that have one; they ask again."""
    assert pair.send(0, people)[-1] == "frozen"
    pair.turn()
    assert status(pair) == [OPEN, OPEN]
    assert {*pair.send(0, people)} <= {"new", "same"}
    pair.clock.now += SOON


def status(pair, k=0):
    return [scheduler.shares.batch(k).status for scheduler in pair.schedulers]


def ids(pair, k=0):
    return [peers.ids_of(scheduler.shares.batch(k).ids) for scheduler in pair.schedulers]


def tokens(people):
    return sorted(p.token.id for p in people)


# --- a batch -------------------------------------------------------------------------------------------------


def test_a_batch_is_the_sum_of_what_both_have_with_both_noises(pair, monkeypatch):
    monkeypatch.setattr(sealing, "rounded_normal", lambda bits, words: 1 << 50)
    both, only_a, only_b = pair.people[:DUE], pair.people[DUE : DUE + 3], pair.people[DUE + 3 : DUE + 6]
    come(pair, only_b, (1,))
    come(pair, only_a, (0,))
    come(pair, both)
    again(pair, both)
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert ids(pair) == [tokens(both)] * 2
    assert (pair.total(0).total == 2 * (1 << 50) + sum(p.value for p in both)).all()
    assert [c.present.k for c in pair.schedulers] == [1, 1]


def test_states_have_both_signatures_and_are_the_same(pair):
    come(pair, pair.people[:DUE])
    pair.turn()
    for one, other in zip(*(c.states for c in pair.schedulers), strict=True):
        assert one.envelope == other.envelope
        found = wire.open_envelope(one.envelope, "state")
        names = {wire.key_id(own.public[0]) for own in OWN}
        assert {kid for kid, _ in found.signatures} == names


def test_too_few_close_nothing_and_a_goes_on(pair):
    come(pair, pair.people[:DUE], (0,))
    come(pair, [], (1,))
    pair.turn()
    assert status(pair) == [OPEN, OPEN]
    pair.send(1, pair.people[:DUE])
    come(pair, pair.people[DUE : DUE + 2])
    pair.clock.now += 31
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert len(ids(pair)[0]) == DUE + 2


def test_a_full_round_leaves_people_for_the_next(pair):
    come(pair, pair.people)
    assert pair.send(0, pair.people) == ["same"] * DUE + ["frozen"] * (len(pair.people) - DUE)
    pair.turn()
    late = pair.people[DUE:]
    assert ids(pair) == [tokens(pair.people[:DUE])] * 2
    assert pair.send(0, late) + pair.send(1, late) == ["unsummed"] * (2 * len(late))
    come(pair, late)
    assert pair.send(0, late) + pair.send(1, late) == ["same"] * (2 * len(late))


def test_shares_that_never_reach_the_other_cannot_keep_a_round_full(pair):
    pair.people = pair.people[:DUE] + pair.people  # the first are junk: they only ever reach A
    junk, honest = pair.people[:DUE], pair.people[2 * DUE :]
    come(pair, junk, (0,))
    for person in honest:
        person.make(0)
    assert {*pair.send(0, honest)} == {"frozen"}
    pair.turn()
    assert {*pair.send(0, honest)} == {"new"}


def test_a_share_sealed_for_something_else_is_refused(pair):
    one, two = pair.people[:2]
    one.make(0)
    two.make(0)
    share, digest = pair.arrived(one.bodies[0])
    other = peers.read_share(two.bodies[0], pair.plan, pair.hash)
    for bad in (
        peers.read_share(one.bodies[1], pair.plan, pair.hash),  # for the other collector
        share._replace(token=two.token),
        other._replace(token=one.token),
        share._replace(state=1),
        share._replace(sealed=share.sealed[:-1] + bytes([share.sealed[-1] ^ 1])),
    ):
        assert pair.schedulers[0].take([(bad, digest)], {}) == ["bad"]
    assert pair.schedulers[0].take([(share, digest)], {}) == ["new"]


def test_who_comes_late_hears_so_of_both_and_begins_anew(pair):
    late = pair.people[DUE]
    late.make(0)
    pair.send(0, [late])  # one of the two has it
    come(pair, pair.people[:DUE])
    again(pair, pair.people[:DUE])
    pair.turn()
    assert ids(pair)[0] == tokens(pair.people[:DUE])
    for place in (0, 1):
        assert pair.send(place, [late]) == ["unsummed"]
        said = pair.schedulers[place].deleted("unsummed", 0, late.token.id)
        one = peer.opened(said, pair.hash, LETTERS[place], pair.plan.keys[place])
        assert (one.kind, one.state, one.ids) == ("unsummed", 0, late.token.id)
    assert late.may_begin_anew
    first = late.bodies
    late.make(1)
    assert pair.send(0, [late]) + pair.send(1, [late]) == ["new", "new"]
    share, digest = pair.arrived(first[0])
    assert pair.schedulers[0].take([(share, digest)], {}) == ["other"]
    early = pair.people[0]
    old = pair.arrived(early.bodies[0])
    early.make(1)
    assert pair.send(0, [early]) + pair.send(1, [early]) == ["other", "other"]
    assert pair.schedulers[0].take([old], {}) == ["same"]


def test_shares_are_taken_only_while_the_batch_is_open_and_the_other_was_asked(pair):
    come(pair, pair.people[:DUE])
    pair.away[1] = True
    pair.advance(0)
    assert status(pair)[0] == OFFERED
    one = pair.people[DUE]
    one.make(0)
    assert pair.send(0, [one]) == ["frozen"]
    assert pair.send(0, pair.people[:1]) == ["same"]
    pair.open(0)
    one = pair.people[DUE + 1]
    one.make(0)
    assert pair.send(0, [one]) == ["frozen"]


# --- whatever is killed --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def ready(tmp_path_factory):
    """A pair whose first batch is about to be closed."""
    folder = tempfile.TemporaryDirectory(dir=FAST)
    pair = Pair(folder.name, n=45)
    pair.turn()
    come(pair, pair.people[:DUE])
    for place in (0, 1):
        pair.leave(place)
    shutil.copytree(folder.name, f"{folder.name}.kept")
    yield pair, f"{folder.name}.kept"
    folder.cleanup()
    shutil.rmtree(f"{folder.name}.kept")


@pytest.mark.some(2)
@pytest.mark.parametrize("at", range(40))
@pytest.mark.parametrize("place", [0, 1])
def test_a_close_goes_on_wherever_one_is_killed(ready, at, place, monkeypatch):
    """Of 40 steps the last ones come after the close: then nobody is killed."""
    pair, kept = ready
    noise = Noise()
    monkeypatch.setattr(sealing, "rounded_normal", noise)
    for letter in LETTERS:
        shutil.rmtree(pair.folder / letter)
        shutil.copytree(f"{kept}/{letter}", pair.folder / letter)
    pair.left = []
    pair.fuse = [None, None]
    for which in (0, 1):
        pair.open(which)
    pair.fuse[place] = at
    for _ in range(4):
        pair.clock.now += 40
        pair.turn()
        for which in (0, 1):
            if pair.schedulers[which] is None:
                pair.open(which)
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert ids(pair) == [tokens(pair.people[:DUE])] * 2
    assert all(len(hashes) == 1 for which in (0, 1) for hashes in pair.values(which).values())
    assert [s.payload for s in pair.schedulers[0].states] == [s.payload for s in pair.schedulers[1].states]
    assert not list(pair.folder.glob("*/*batch0.key"))
    assert_nothing_clear(pair, noise)


def test_keys_and_shares_are_gone_once_a_batch_is_fixed(pair, monkeypatch):
    noise = Noise()
    monkeypatch.setattr(sealing, "rounded_normal", noise)
    for place in (0, 1):  # whose shares are not summed
        come(pair, [pair.people[DUE + place]], (place,))
    come(pair, pair.people[:DUE])
    again(pair, pair.people[:DUE])
    assert len(list(pair.folder.glob("*/*batch0.key"))) == 2
    assert all(path.stat().st_mode & 0o777 == 0o600 for path in pair.folder.glob("*/*batch0.key"))
    pair.away[0] = True  # b fixes, and a doesn't hear of it
    pair.turn()
    pair.away[0] = False
    pair.turn()
    assert not list(pair.folder.glob("*/*batch0.key"))
    for scheduler in pair.schedulers:
        with scheduler.store.engine.connect() as c:
            assert c.exec_driver_sql("SELECT count(*) FROM share WHERE sealed IS NOT NULL").scalar() == 0
    assert_nothing_clear(pair, noise)


def test_a_key_is_overwritten_when_b_fixes_and_its_file_stays_until_a_has_committed(pair):
    come(pair, pair.people[:DUE])
    a, b = pair.schedulers
    listed, path = tokens(pair.people[:DUE]), b.keys.path(0)
    said = b.answered(a._signed("offer", 0, ids=b"".join(listed)))
    assert (b.keys.get(0), path.read_bytes()[:32]) == (None, bytes(32))
    pair.open(1)
    assert (pair.schedulers[1].keys.get(0), path.exists(), status(pair)[1]) == (None, True, FIXED)
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert (
        wire.hash_of(pair.schedulers[1].shares.batch(0).value)
        == peer.opened(said, pair.hash, "b", pair.plan.keys[1]).value
    )
    assert not path.exists()


# --- who lies ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("liar", "lie"), [
    (0, "offer"), (0, "commit"), (0, "commit hash"), (0, "value"), (1, "fixed"), (1, "fixed hash"), (1, "value"),
])  # fmt: skip
def test_a_batch_of_a_liar_is_lost_or_one_that_both_have(pair, liar, lie):
    come(pair, pair.people[:DUE])
    lying(pair, liar, lie.split()[0], LIES[lie])
    for _ in range(5):
        pair.clock.now += 40
        pair.turn()
    assert len(set(status(pair))) == 1
    if status(pair)[0] == PUBLISHED:
        assert ids(pair)[0] == ids(pair)[1]
        assert lie == "offer"  # who offers fewer than it has sums fewer
    else:
        assert status(pair)[0] == LOST
        assert all(scheduler.shares.batch(0).value == b"" for scheduler in pair.schedulers)
        assert pair.send(1 - liar, pair.people[:1]) == ["lost"]  # its tokens are used up
        assert pair.schedulers[0].role_of(1) == pair.schedulers[0].role_of(0)  # and others are asked the same
        assert len(pair.schedulers[0].chain.progress.refused) == 1


def test_another_list_is_refused_for_ever(pair):
    come(pair, pair.people[:DUE])
    a, b = pair.schedulers
    listed = b"".join(tokens(pair.people[:DUE]))
    first = b.answered(a._signed("offer", 0, ids=listed))
    value = b.shares.batch(0).value
    for other in (listed[16:], listed[:16], listed + b"\xff" * 16):
        with pytest.raises(Refused):
            b.answered(a._signed("offer", 0, ids=other))
    again = b.answered(a._signed("offer", 0, ids=listed))
    assert (again, b.shares.batch(0).value) == (first, value)


def test_a_sum_leaves_after_the_others_commitment(pair):
    """B's sum is an answer to A's commitment, and A sends its own after that."""
    come(pair, pair.people[:DUE])
    pair.turn()
    told = [(sender, json.loads(body)["type"]) for sender, body in pair.left]
    steps = [x for x in told if x[1] in {"offer", "fixed", "commit", "value"}]
    assert steps == [(0, "offer"), (1, "fixed"), (0, "commit"), (1, "value"), (0, "value")]


@pytest.mark.parametrize("missing", [{"value": b""}, {"listed": b""}])
def test_a_sum_does_not_leave_without_a_commitment(pair, missing):
    """Else its sender could choose its own noise after it has seen the other's sum."""
    come(pair, pair.people[:DUE])
    a, b = pair.schedulers
    b.answered(a._signed("offer", 0, ids=b"".join(tokens(pair.people[:DUE]))))
    whole = {"listed": peers.list_hash(tokens(pair.people[:DUE])), "value": bytes(31) + b"\1"}
    with pytest.raises(wire.MessageError):
        b.answered(a._signed("commit", 0, **{**whole, **missing}))
    assert (b.shares.batch(0).status, b.shares.batch(0).peer_hash) == (FIXED, b"")


def test_messages_that_the_other_collector_has_not_signed_are_not_read(pair):
    a, b = pair.schedulers
    one = peers.Signed("where", "a", -1, nonce=bytes(16))
    for body in (
        b"{}", b"[1]", b"\xff", peer.envelope(one, pair.hash, key_of(9)), peer.envelope(one, bytes(32), OWN[0].sign),
        peer.envelope(one, pair.hash, OWN[1].sign), b._where(),
    ):  # fmt: skip
        with pytest.raises(wire.MessageError):
            b.answered(body)
    b.answered(a._where())


# --- states --------------------------------------------------------------------------------------------------


def test_b_signs_no_state_that_does_not_follow(pair):
    come(pair, pair.people[:DUE])
    pair.away[0] = pair.away[1] = False
    a, b = pair.schedulers
    pair.between = lambda sender, body: body
    said = []

    def changed(sender, body):
        kind = json.loads(body)["type"]
        one = peer.opened(body, pair.hash, "a", pair.plan.keys[0]) if (sender, kind) == (0, "next") else None
        if one and one.payload and len(said) < 3:
            state = messages.read_state(wire.open_envelope(one.payload, "state").payload, pair.plan, pair.hash)
            changes = [
                {"asks": (state.asks[0]._replace(theta=tuple(v + 0.01 for v in state.asks[0].theta)),)},
                {"time": state.time + DAY},
                {"number": 7},
            ]
            payload = messages.state_payload(state._replace(**changes[len(said)]))
            said.append(len(b.states))
            return peer.envelope(one._replace(payload=signed("state", payload, OWN[0].sign)), pair.hash, OWN[0].sign)
        return body

    pair.between = changed
    for _ in range(4):
        pair.clock.now += 40
        pair.turn()
    assert said == [1, 1, 1]
    assert [len(c.states) for c in pair.schedulers] == [2, 2]
    with pytest.raises(wire.MessageError, match="both"):
        a._accept(signed("state", a.states[1].payload, OWN[0].sign))


def test_a_study_closes_by_hand_with_its_last_batch(pair):
    come(pair, pair.people[:5])
    a, b = pair.schedulers
    a.store.mark(CLOSED)
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    assert not a.is_open
    assert not b.is_open
    on(pair)
    assert [c.store.about().status for c in pair.schedulers] == ["sealed", "sealed"]
    assert pair.send(0, pair.people[:1]) == ["same"]
    late = pair.people[7]
    late.make(0)
    assert pair.send(0, [late]) == ["unsummed"]
    assert len(a.states) == len(b.states) == 2


@pytest.mark.some(2)
@pytest.mark.parametrize("people", [0, 1, 5])
def test_a_study_ends_when_its_time_has_come(pair, people):
    come(pair, pair.people[:people])
    pair.clock.now = pair.plan.closes + 10
    pair.turn()
    assert pair.schedulers[0].is_open  # what is on its way still counts
    pair.clock.now += pair.plan.grace + 3600
    for _ in range(3):
        pair.clock.now += 3600
        pair.turn()
    assert [c.is_open for c in pair.schedulers] == [False, False]
    assert status(pair) == [PUBLISHED if people >= 2 else LOST] * 2


# --- backups -------------------------------------------------------------------------------------------------


def copied(pair, place):
    """A copy of all that one of them has, of a moment when it doesn't run."""
    pair.schedulers[place].store.leave()
    shutil.copytree(pair.folder / LETTERS[place], pair.folder / "backup")
    COPIES[pair.database](pair.folder / LETTERS[place], pair.folder / "backup")
    pair.open(place)


def backup(pair, place):
    copied(pair, place)
    pair.turn()


def restore(pair, place, *, keys=True):
    pair.leave(place)
    shutil.rmtree(pair.folder / LETTERS[place])
    drop = None if keys else shutil.ignore_patterns("*.key")
    shutil.copytree(pair.folder / "backup", pair.folder / LETTERS[place], ignore=drop)
    COPIES[pair.database](pair.folder / "backup", pair.folder / LETTERS[place])
    pair.open(place)


def on(pair, times=4):
    for _ in range(times):
        pair.clock.now += 40
        pair.turn()


def test_a_share_that_comes_to_the_other_a_moment_later_holds_a_round_up_for_a_moment(pair):
    """Else everybody who answers meanwhile is in this round, and nobody is left for the main one."""
    come(pair, pair.people[: DUE - 1])
    come(pair, pair.people[DUE - 1 : DUE], places=(0,))
    pair.turn()
    assert status(pair) == [OPEN, OPEN]
    pair.send(1, pair.people[DUE - 1 : DUE])
    pair.clock.now += 2 * SOON
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]


@pytest.mark.some(2)
@pytest.mark.parametrize("keys", [True, False])
@pytest.mark.parametrize("place", [0, 1])
def test_a_collector_of_a_backup_takes_over_what_was_published_and_adds_no_other_noise(pair, place, keys):
    come(pair, pair.people[:20])
    backup(pair, place)
    come(pair, pair.people[20:DUE])
    pair.turn()
    assert status(pair) == [PUBLISHED, PUBLISHED]
    values = [c.shares.batch(0).value for c in pair.schedulers]
    restore(pair, place, keys=keys)
    on(pair)
    assert [c.shares.batch(0).value for c in pair.schedulers] == values
    assert [c.unvouched() for c in pair.schedulers] == [[0] * (place == k) for k in (0, 1)]
    assert "word is all there is for batches 0." in app.check(pair.schedulers[place])
    assert "word is all" not in app.check(pair.schedulers[1 - place])
    assert ids(pair)[0] == ids(pair)[1]
    assert pair.schedulers[0].states == pair.schedulers[1].states
    assert all(len(hashes) == 1 for which in (0, 1) for hashes in pair.values(which).values())
    person = pair.people[25]  # of whom the backup knows nothing
    assert pair.send(place, [person]) == ["other"]


@pytest.mark.some(1)
@pytest.mark.parametrize("place", [0, 1])
def test_an_open_batch_without_its_key_is_lost(pair, place):
    come(pair, pair.people[:20])
    backup(pair, place)
    restore(pair, place, keys=False)
    on(pair)
    assert status(pair) == [LOST, LOST]
    assert pair.send(place, pair.people[:1]) == ["lost"]
    come(pair, pair.people[20:])
    assert pair.schedulers[0].present.k == 1


def test_a_collector_of_a_backup_goes_on_if_its_open_batch_was_lost_since(pair):
    come(pair, pair.people[:5])
    backup(pair, 1)
    pair.leave(0)
    next((pair.folder / "a").glob("*batch0.key")).unlink()
    pair.open(0)
    on(pair)
    assert status(pair) == [LOST, LOST]
    restore(pair, 1, keys=True)
    on(pair)
    assert status(pair) == status(pair, 1) == [LOST, LOST]  # that of a state which b signed before is lost, too
    assert [c.present.k for c in pair.schedulers] == [2, 2]


@pytest.mark.parametrize("place", [0, 1])
def test_a_batch_that_was_fixed_before_a_backup_came_back_is_lost(pair, place):
    """It has committed to a sum; another noise on the same people would be a second one."""
    come(pair, pair.people[:DUE])
    copied(pair, place)
    stop = {0: "value", 1: "commit"}[place]

    def between(sender, body):
        if json.loads(body)["type"] == stop and sender == 1 - place:
            raise peer.Away("cut")
        return body

    pair.between = between
    pair.turn()
    assert status(pair)[place] == FIXED
    pair.between = lambda sender, body: body
    restore(pair, place)
    on(pair)
    assert status(pair) == [LOST, LOST]
    assert len(pair.values(place)[0]) == 1


@pytest.mark.parametrize("begun", [True, False])
def test_a_backup_without_keys_draws_no_second_noise_even_if_the_other_says_nothing_was_fixed(begun):
    """One copy has the state and no share of it, the other not even the state."""
    with tempfile.TemporaryDirectory(dir=FAST) as folder:
        pair = Pair(folder, n=DUE)
        if begun:
            pair.turn()
        backup(pair, 1)
        come(pair, pair.people)
        offer = pair.schedulers[0]._signed("offer", 0, ids=b"".join(tokens(pair.people)))
        pair.schedulers[1].answered(offer)
        assert status(pair)[1] == FIXED
        restore(pair, 1, keys=False)
        a, b = pair.schedulers
        honest, where = b.post, a._signed("where", -1, nonce=bytes(16))
        b.post = lambda body: where if json.loads(body)["type"] == "where" else honest(body)
        assert b.advance()
        if not begun:
            assert b.advance()
        assert (len(b.states), b.shares.batch(0).status) == (1, LOST)
        assert set(pair.send(1, pair.people)) == {"lost"}
        with pytest.raises(Refused):
            b.answered(offer)
        for place in (0, 1):
            pair.leave(place)


def test_who_came_after_a_backup_does_not_hear_that_a_lost_batch_was_unsummed(pair):
    """The share may be in a sum that has left: if the other lies, too, a fresh one would be in a second sum."""
    come(pair, pair.people[:20])
    backup(pair, 1)
    come(pair, pair.people[20:DUE])

    def between(sender, body):
        if sender == 0 and json.loads(body)["type"] == "value":
            raise peer.Away("cut")
        return body

    pair.between = between
    pair.turn()
    person = pair.people[25]  # of whom the backup knows nothing
    assert person.token.id in ids(pair)[1]
    assert len(pair.values(1)[0]) == 1  # its sum has left
    pair.between = lambda sender, body: body
    restore(pair, 1)
    on(pair)
    assert status(pair) == [LOST, LOST]
    assert pair.send(1, [person]) == pair.send(1, pair.people[:1]) == ["lost"]


# --- noise ---------------------------------------------------------------------------------------------------


@pytest.mark.statistical
def test_noise_of_a_published_sum_is_that_of_both():
    """Of 8,000 numbers the sd is within 5 standard errors, sd/√(2n), of √2 · 2^m."""
    n, bits = 8000, 20
    key = bytes(32)
    rows = [(bytes([i]) * 16, sealing.kept(struct.pack(f"<{n}Q", *[0] * n), key, bytes([i]) * 16)) for i in range(3)]
    total = sum(np.frombuffer(sealing.noised(rows, key, n, bits), dtype="<u8") for _ in LETTERS).view(np.int64)
    sd = math.sqrt(2.0) * 2.0**bits
    assert abs(total.std() / sd - 1.0) < 5.0 / math.sqrt(2.0 * n)
    assert abs(total.mean()) < 5.0 * sd / math.sqrt(n)
    assert len(set(total.tolist())) > 0.99 * n


def test_noise_is_drawn_once_for_each_number_of_each_sum(pair, monkeypatch):
    noise = Noise()
    monkeypatch.setattr(sealing, "rounded_normal", noise)
    come(pair, pair.people[:DUE])
    pair.turn()
    assert len(noise.drawn) == 2 * pair.plan.roles["clamping"].numbers
    pair.open(0)
    pair.open(1)
    on(pair)
    assert len(noise.drawn) == 2 * pair.plan.roles["clamping"].numbers


def test_noise_that_can_not_be_drawn_is_refused_at_once(pair, monkeypatch):
    monkeypatch.setattr(batch_log, "MOST_BITS", pair.plan.bits - 1)
    with pytest.raises(OptionError, match="mu is too small"):
        pair.open(0)


# --- keys ----------------------------------------------------------------------------------------------------


def test_keys_of_a_collector_are_those_that_the_plan_names(pair, tmp_path):
    path = tmp_path / "a.key"
    own = keys.make_collector(path)
    assert keys.load_collector(path).public == own.public
    assert path.stat().st_mode & 0o777 == 0o600
    pair.own = (own, OWN[1])
    with pytest.raises(OptionError, match="none of the plan's keys"):
        pair.open(0)
    mixed = keys.CollectorKeys(OWN[0].sign, OWN[1].seal)
    pair.own = (mixed, OWN[1])
    with pytest.raises(OptionError, match="neither collector"):
        pair.open(0)
    path.write_bytes(b"no key")
    with pytest.raises(OptionError, match="no keys of a collector"):
        keys.load_collector(path)


def test_what_devices_seal_is_what_a_collector_opens(pair):
    """Shares by the device's HPKE, of the standard library alone, opened by the library's."""
    token, numbers = pair.people[0].token, pair.plan.roles["clamping"].numbers
    parts = shares([5, -7, 0][:numbers])
    for place, part in enumerate(parts):
        info = peers.share_info(LETTERS[place], pair.schedulers[0].states[0].hash, token)
        sealed = seal(part, pair.plan.collectors[place].seal, info)
        assert sealing.opened(sealed, OWN[place].seal, info, numbers) == part
    one, other = (np.frombuffer(part, dtype="<u8") for part in parts)
    assert (one + other).view(np.int64).tolist() == [5, -7, 0]
