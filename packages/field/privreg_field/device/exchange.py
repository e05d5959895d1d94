"""Exchange with a study's servers: plan and states are verified, or refused on public grounds; reports are sent.

Stored reports are sent again and again, the same bytes, until they have arrived.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final, NamedTuple

from privreg.protocol.sums import LETTERS
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.analyses import hash_of_part
from privreg_field.wire.messages import FieldState, Token
from privreg_field.wire.study import PublicPlan, read_plans
from privreg_field.wire.wire import MessageError

from . import client, ed25519, seal
from .client import Answer, Invitation, Transport
from .consent import plain
from .memory import Memory, Seen, Stored, StoreError

PATIENCE = 60.0  # Seconds in which a plan must be had; nobody knows before how long the study is open


class Limits(NamedTuple):
    """Limits of a device on budgets, whatever a plan asks."""

    mu: Fraction = Fraction(2)  # Budget of one report
    yearly: Fraction = Fraction(2)  # √(Σ μ²) of a year's reports to studies of one release group, or of one analyst
    total: Fraction = Fraction(2)  # √(Σ μ²) of a year's reports to all studies: no more than one study may cost


class RefusedError(Exception):
    """The device refuses, on public grounds; nothing was sent. The text says why and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(plain(text))


class Session(NamedTuple):
    """Session of one call: invitation, memory, transport and limits."""

    invitation: Invitation
    root: bytes
    token: Token
    memory: Memory
    transport: Transport
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    limits: Limits
    patience: float | None


def opened(data: bytes, kind: str, keys: tuple[bytes, ...], needed: int = 1) -> bytes:
    """Payload of an envelope that so many of the keys have signed."""
    envelope = wire.open_envelope(data, kind)
    message, named = wire.signed_bytes(kind, envelope.payload), {wire.key_id(k): k for k in keys}
    signed = {kid for kid, sig in envelope.signatures if kid in named and ed25519.verify(named[kid], message, sig)}
    if len(signed) < needed:
        wanted = "both keys" if needed > 1 else "the key"
        raise RefusedError(f"the {kind} is not signed by {wanted} that it should be signed by; ask who invited you.")
    return envelope.payload


def _got(s: Session, path: str, what: str, until: float) -> bytes:
    """Get a message, again and again while that may help."""
    attempt = 0
    while True:
        got = s.transport(f"{s.invitation.base}{path}", None)
        if got.status == 200:
            return got.body
        wait = client.waits(attempt, got.wait)
        if got.status not in client.RETRIED or s.clock() + wait > until:
            why = client.meaning(got.status)
            raise RefusedError(f"{what} can't be had from the study's server: {why}; try again later.")
        s.sleep(wait)
        attempt += 1


def until_of(s: Session, end: float) -> float:
    """When this call gives up, at `end` at the latest."""
    return end if s.patience is None else min(end, s.clock() + s.patience)


def plan_of(s: Session, kept: bytes | None) -> tuple[tuple[PublicPlan, ...], dict[str, bytes], bytes]:
    """The plan's analyses, verified by the pinned key and the same as ever, their hashes by name, and the envelope."""
    until = s.clock() + (PATIENCE if s.patience is None else min(s.patience, PATIENCE))
    signed = kept or _got(s, "/plan", "the plan", until)
    payload = opened(signed, "plan", (s.root,))
    plans, plan_hash = read_plans(payload), wire.hash_of(payload)
    if plans[0].study != s.invitation.slug:
        raise RefusedError("the plan is one of another study; ask who invited you.")
    hashes = {plan.part.name: hash_of_part(plan_hash, plan.part.name) for plan in plans}
    if not s.memory.plans(s.root, plans[0].study) <= set(hashes.values()):
        raise RefusedError("the plan is not the one that this device has seen before; ask who invited you.")
    return plans, {**hashes, "": plan_hash}, signed


def check_plan(s: Session, plan: PublicPlan, *, issued: bool, again: bool) -> None:
    """Refuse a plan that asks more than this device allows, or could not keep what it promises."""
    mu = Fraction(*plan.together)
    if mu > s.limits.mu:
        raise RefusedError(f"mu = {plan.title_of_mu} is more than this device allows, {float(s.limits.mu):g}.")
    if issued != (plan.tokens == "issued"):
        wanted = "needs a token, --token or in the link" if plan.tokens == "issued" else "takes no token of an issuer"
        raise RefusedError(f"the study {wanted}.")
    if not again and s.memory.used(s.token.id):
        raise RefusedError("the token has been used by this device; every token is good for one report.")
    if plan.collectors:
        seal.check()
    for one in plan.collectors:
        if s.root in (one.key, one.seal):
            raise RefusedError("the analyst is one of the plan's two collectors, who must be others.")
        seal.x25519(bytes(seal.KEY), one.seal)  # refuses a key that everybody could open shares of
    addresses_of(s, plan)  # refuses what is neither https nor this machine


def addresses_of(s: Session, plan: PublicPlan) -> list[str]:
    """Addresses for posts: the study's server, or each collector's for its share."""
    if not plan.collectors:
        return [f"{s.invitation.base}{plan.path}/reports"]
    links = [f"{c.url.rstrip('/')}/v1/studies/{plan.study}" for c in plan.collectors]
    return [f"{client.invitation(link).base}{plan.path}/shares" for link in links]


def turn(s: Session, plan: PublicPlan, plan_hash: bytes, after: int) -> tuple[FieldState, bytes]:
    """The state that this token answers, one after `after`, and its hash: waits until it is its turn."""
    place, attempt = messages.place_of(plan_hash, s.token), 0
    until = until_of(s, float(plan.closes))
    while True:
        payload = opened(
            _got(s, f"{plan.path}/state", "the state", until), "state", plan.keys, max(len(plan.collectors), 1)
        )
        state, hash_of = messages.read_state(payload, plan, plan_hash), wire.hash_of(payload)
        _check_chain(s, plan, state, hash_of)
        if not plan.opens <= state.time <= plan.closes or not state.open:
            raise RefusedError("the study doesn't ask anybody now: it is not open yet, or it has closed.")
        if place.slot < state.slots[1] and state.number > after:
            return state, hash_of
        wait = client.waits(attempt + 4, 0.0)
        if s.clock() + wait > until:
            raise RefusedError("it isn't this token's turn yet; try again later.")
        s.sleep(wait)
        attempt += 1


def _check_chain(s: Session, plan: PublicPlan, state: FieldState, hash_of: bytes) -> None:
    """Refuse a state that goes back, or that isn't the one after the one before."""
    if state.number == 0 and state.before != state.plan:
        raise RefusedError("the first state doesn't follow the plan.")
    seen = s.memory.seen(s.root, plan.slug)
    if seen is not None:
        back = state.number < seen.number or state.time < seen.time
        other = state.number == seen.number and hash_of != seen.state
        torn = state.number == seen.number + 1 and state.before != seen.state
        if back or other or torn:
            raise RefusedError("the study's states go back, or are others than seen before; ask who invited you.")
    known = s.memory.note(s.root, plan.slug, Seen(state.plan, state.number, hash_of, state.time))
    if (known.plan, known.number, known.state) != (state.plan, state.number, hash_of):
        raise RefusedError("another call of this device has seen another state; try again.")


LINE: Final = b"\n"  # Between the bodies of two collectors, in memory; no body has a line's end

CLOSING: Final = 6
"""Attempts, of a minute together, in which a collector may still be closing a batch that the other has closed."""


class Outcome(NamedTuple):
    """Outcome of a call."""

    sent: bool  # The report has arrived; at both collectors, where there are two
    words: str
    plan: PublicPlan


def send_all(
    s: Session, plans: Sequence[PublicPlan], hashes: Mapping[str, bytes], before: Mapping[str, Stored]
) -> Outcome | None:
    """Send the stored reports, none of which waits for another that doesn't arrive; see `_send`."""
    left, refused, again = list(plans), list[str](), False
    outcome = Outcome(True, "", plans[0])
    for patient in [*([s._replace(patience=0.0)] if len(left) > 1 else []), s]:  # each is tried once, first
        for plan in list(left):
            try:
                got = _send(patient, plan, hashes[plan.part.name], before[plan.slug])
            except RefusedError as e:
                refused += [str(e)] if str(e) not in refused else []
                left.remove(plan)
                continue
            if got is None or got.sent:
                again |= got is None
                left.remove(plan)
            outcome = got if got is not None and (outcome.sent or not outcome.words) else outcome
    if refused:
        raise RefusedError(" ".join(refused))
    if again:
        return None
    return outcome if not left else outcome._replace(sent=False)


def _send(s: Session, plan: PublicPlan, plan_hash: bytes, stored: Stored) -> Outcome | None:
    """Send the stored bytes until they have arrived, or it is of no use; None if two collectors deleted them."""
    assert stored.body  # by whoever calls
    bodies, addresses = stored.body.split(LINE), addresses_of(s, plan)
    until, attempt = until_of(s, float(plan.closes + plan.grace)), 0
    arrived: dict[
        int, bool
    ] = {}  # For each place, True if it is kept or summed there, False if it was deleted unsummed
    while True:
        wait, failed = 0.0, Answer(0, b"")
        for k in [k for k in range(len(bodies)) if k not in arrived]:
            got = s.transport(addresses[k], bodies[k])
            if got.status in {200, 201} and False in arrived.values() and attempt < CLOSING:
                wait, failed = max(wait, client.waits(attempt, 0.0)), got
            elif got.status in {200, 201}:
                arrived[k] = True
            elif got.status == 410 and _is_signed("lost", plan, plan_hash, k, stored, got.body):
                with suppress(StoreError):
                    s.memory.arrived(s.root, plan.slug, None)
                raise RefusedError(
                    f"your report is lost: {plan.collectors[k].name!r} has given up the batch that it was for, and "
                    "adds up nothing of it. You can't answer again, as two reports could tell more of you than one. "
                    f"You need do nothing; if you have questions, tell {plan.contact!r} that your batch was lost."
                )
            elif got.status == 410 and _is_signed("unsummed", plan, plan_hash, k, stored, got.body):
                arrived, attempt = {k: False, **{j: False for j, there in arrived.items() if not there}}, 0  # ask anew
            elif got.status == 409:
                raise RefusedError(
                    "the token has been used: a report has arrived before, and this one was not taken. If that was not "
                    f"you, tell {plan.contact!r}."
                )
            elif got.status not in client.RETRIED:
                who = repr(plan.collectors[k].name) if plan.collectors else "the study's server"
                why = client.meaning(got.status)
                raise RefusedError(f"{who} doesn't take the report: {why}; tell {plan.contact!r}.")
            else:
                wait, failed = max(wait, client.waits(attempt, got.wait)), got
        if len(arrived) == len(bodies):
            return _ended(s, plan, stored.body, [arrived[k] for k in range(len(bodies))])
        if wait and s.clock() + wait > until:
            why = client.meaning(failed.status)
            return Outcome(False, f"Not sent yet: {why}. It is stored, and sent by the next call.", plan)
        if wait:
            s.sleep(wait)
            attempt += 1


def _is_signed(kind: str, plan: PublicPlan, plan_hash: bytes, place: int, stored: Stored, body: bytes) -> bool:
    """True if a collector has signed that this token's share is "unsummed", deleted and in no sum, or "lost"."""
    if not plan.collectors:
        return False
    try:
        payload = opened(body, kind, (plan.collectors[place].key,))
        said = peers.read_signed(kind, payload, plan_hash)
    except (MessageError, RefusedError):
        return False
    return (said.letter, said.state, said.ids) == (LETTERS[place], stored.state, stored.token[: messages.ID])


def _ended(s: Session, plan: PublicPlan, body: bytes, arrived: list[bool]) -> Outcome | None:
    """Remember what each collector has said, or the server; delete the bytes."""
    if not any(arrived):
        s.memory.unsummed(s.root, plan.slug, body)
        return None
    receipt = b"".join(wire.hash_of(part) for part in body.split(LINE)) if all(arrived) else None
    with suppress(StoreError):  # it has arrived all the same; the next call sends the same bytes
        s.memory.arrived(s.root, plan.slug, receipt)
    if receipt is not None:
        return Outcome(True, "The report has arrived. Thank you.", plan)
    late, other = sorted(plan.collectors, key=lambda c: arrived[plan.collectors.index(c)])
    raise RefusedError(
        f"your report came too late for {late.name!r}, who has deleted its part; {other.name!r} has the other part, "
        "random numbers without the first. Your answers don't count, and you can't answer again: a second report "
        "beside half of the first could tell of you."
    )
