"""Stored reports on their way to the study's server, or to two collectors: again and again, the same bytes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from privreg.protocol.sums import LETTERS
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import MessageError

from . import client
from .asked import RefusedError, Session, addresses_of, opened, until_of
from .client import Answer
from .memory import Stored, StoreError

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
