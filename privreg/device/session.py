"""A respondent's way through a study: plan, refusals, consent, state, report, memory, sending.

Everything that may refuse comes before the row is looked at together with a state. Afterwards nothing depends on what
the row holds but the numbers of the report: no error, no wait, no message.
"""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final, NamedTuple

from ..protocol import messages, peers, wire
from ..protocol.messages import FieldState, Report, Token
from ..protocol.parts.analyses import hash_of_part, word_of
from ..protocol.peers import Share
from ..protocol.study import PublicPlan, read_plans
from ..protocol.sums import LETTERS, SumAsk
from ..protocol.wire import MessageError
from . import client, ed25519, seal
from .client import Answer, Invitation, Transport
from .consent import GO_ON, QUESTION, doubts, plain, words, wrapped
from .diary import Diary, DiaryError
from .memory import Memory, Seen, Stored, StoreError, squares
from .report import answer, design, noise, persons, sums, table
from .report.persons import Rows

LINE: Final = b"\n"  # Between the bodies of two collectors, in memory; no body has a line's end

ANSWERED: Final = "this device has answered the study; every device answers once."

CLOSING: Final = 6
"""Attempts, of a minute together, in which a collector may still be closing a batch that the other has closed."""

PATIENCE = 60.0  # Seconds in which a plan must be had; nobody knows before how long the study is open


class Limits(NamedTuple):
    """What a device allows, whatever a plan asks."""

    mu: Fraction = Fraction(2)  # Of one report
    yearly: Fraction = Fraction(2)  # √(Σ μ²) of a year's reports to studies of one release group, or of one analyst
    total: Fraction = Fraction(2)  # √(Σ μ²) of a year's reports to all studies: no more than one study may cost


class RefusedError(Exception):
    """The device refuses, on public grounds; nothing was sent. The text says why and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(plain(text))


class Outcome(NamedTuple):
    """How it ended."""

    sent: bool  # Whether the report has arrived; at both collectors, where there are two
    words: str
    plan: PublicPlan


class _Session(NamedTuple):
    """What one call works with."""

    invitation: Invitation
    root: bytes
    token: Token
    memory: Memory
    transport: Transport
    sleep: Callable[[float], None]
    clock: Callable[[], float]
    limits: Limits
    patience: float | None


def respond(
    url: str,
    token: str | None = None,
    row: Mapping[str, object] | Sequence[Mapping[str, object]] | None = None,
    consent: bool | Callable[[str], bool] = False,
    *,
    key: str | None = None,
    memory: Memory | None = None,
    diary: Diary | None = None,
    limits: Limits = Limits(),  # noqa: B008
    patience: float | None = None,
    dry_run: bool = False,
    transport: Transport = client.fetch,
    sleep: Callable[[float], None] = clocks.sleep,
    clock: Callable[[], float] = client.now,
) -> Outcome:
    """Answer a study once, with one randomised report.

    Parameters
    ----------
    url : str
        Invitation: https://host/studies/{name}/#k={key of the analyst}&t={token}.
    token : str, optional
        Where the invitation has none. An open study takes one that this device makes.
    row : mapping of str to object, or sequence of them
        Answers by column: numbers, strings, true or false. They stay here. Of a study of several rows a person, all.
    consent : bool or callable
        True, or a function of what the respondent is told and asked, in words, that returns whether they agree. If an
        answer is out of bounds or missing it is called twice: first with what is allowed and what the answer counts as.
    key : str, optional
        Public key of the analyst, where the invitation has none.
    memory : Memory, optional
        In the user's data directory by default.
    diary : Diary, optional
        Of a study of several rows a person: where `row` is added until the plan's day for reports, and nothing sent;
        from then on the report is made of what is there.
    limits : Limits
        Budgets μ that this device spends at most.
    patience : float, optional
        Seconds to go on trying; by default until the study counts no more reports. What is stored is sent by the next
        call.
    dry_run : bool
        Stop before a state is asked for: nothing is computed, stored or sent.
    transport, sleep, clock : callable
        For tests: HTTP, waiting and this device's clock, which no message carries.

    Returns
    -------
    Outcome
        Of a report of μ-GDP for this row, μ as the plan says, for any state, honest or not.

    Raises
    ------
    RefusedError
        On public grounds, never because of a value once a state is known.
    """
    try:
        invited = client.invitation(url)
        root = wire.unbase(key or invited.key, "the key of the invitation")
        if len(root) != wire.KEY:
            raise MessageError("the key of the invitation must be base64url of 32 bytes.")
        noise.check()
        held = Memory() if memory is None else memory
        given = token or invited.token
        mine = messages.read_token(given) if given else None
        own = mine if mine is not None else Token(0, noise.secret(messages.ID), bytes(messages.MAC))
        session = _Session(invited, root, own, held, transport, sleep, clock, limits, patience)
        rows = [row] if isinstance(row, Mapping) else list(row or ())
        return _respond(session, rows, consent, dry_run=dry_run, issued=mine is not None, diary=diary)
    except (ValueError, StoreError, DiaryError, noise.NoiseError) as e:
        raise RefusedError(f"{e}") from None


def _respond(
    s: _Session, rows: Rows, agreed: bool | Callable[[str], bool], *, dry_run: bool, issued: bool, diary: Diary | None
) -> Outcome:
    kept = None if diary is None else diary.plan(s.invitation.slug, s.root)
    if diary is not None and kept is None and rows:
        raise RefusedError("begin the diary by the same call without answers: from then on rows are added unseen.")
    plans, hashes, signed = _plan(s, kept)
    if plans[0].diary is None and (diary is not None or len(rows) > 1):
        raise RefusedError("the study asks for one row of answers; give it alone, and no diary.")
    if plans[0].diary is not None:
        if s.clock() < plans[0].diary.until:
            _check_plan(s, plans[0], issued=issued, again=False)
            return _kept(s, plans[0], rows, diary, signed, dry_run=dry_run)
        if diary is not None:
            if rows:
                raise RefusedError("reports are made now, and no rows are added any more; call again without answers.")
            if kept is None:
                raise RefusedError(f"there is no diary in {diary.path}; name the file with which it was begun.")
            rows = diary.rows(s.invitation.slug, s.root)
    told: str | None = None
    doubted: list[str] = []
    while True:
        before = s.memory.reports(s.root, s.invitation.slug)
        if before and not dry_run:
            if all(one.body is None for one in before.values()):
                raise RefusedError(ANSWERED)
            pending = [plan for plan in plans if plan.slug in before and before[plan.slug].body]
            if pending:
                outcome = _send_all(s, pending, hashes, before)
                if outcome is not None:
                    return outcome._replace(words="\n".join([outcome.words, *doubted]))
                continue  # it was summed nowhere: the present state is answered instead
        token = next((one.token[: messages.ID] for one in before.values()), s.token.id)
        if token != s.token.id and not dry_run:
            if issued:
                raise RefusedError("the study was begun with another token on this device; answer with that one.")
            s = s._replace(token=Token(0, token, bytes(messages.MAC)))
        word = word_of(hashes[""], s.token.id)
        mine = [p for p in plans if p.slug in before] or [
            p for p in plans if p.part.people[0] <= word < p.part.people[1]
        ]
        plan = mine[0]
        _check_plan(s, plan, issued=issued, again=any(one.body == b"" for one in before.values()))
        year = s.memory.year(int(s.clock()))
        if not before:
            year = [*year, Fraction(*plan.together)]
            if squares(year) > s.limits.total**2:
                raise RefusedError(
                    f"it would be study {len(year)} of a year's, which cost mu = {math.sqrt(squares(year)):.4g} "
                    f"together, more than the {float(s.limits.total):g} that this device allows; wait until a year has "
                    "passed, or allow more: --yearly-total, Limits(total=)."
                )
        if callable(agreed):  # of a device that nobody watches silence would show an answer
            _must_be_right(plan, rows)
        unread = sorted({name for row in rows or [{}] for name in design.unread(plan, row)})
        if unread and plan.missing == "refuse":
            raise RefusedError(
                f"answers are missing or can't be read: {', '.join(map(repr, unread))}. The study asks only who can "
                "answer everything."
            )
        if told is None:  # of a later state the same is asked, at no further cost
            told, doubted = words(plan, rows, year), [wrapped(one) for one in doubts(plan, rows)]
            if dry_run:
                return Outcome(False, f"{told}\n\nNothing was computed, stored or sent.", plan)
            if doubted and callable(agreed) and not agreed("\n".join([*doubted, GO_ON])):
                raise RefusedError("nothing is computed or sent; mend your answers, and call again.")
            if not (agreed if isinstance(agreed, bool) else agreed(f"{told}\n\n{QUESTION}")):
                raise RefusedError("without consent nothing is computed or sent.")
        made: dict[str, tuple[FieldState, bytes]] = {}
        for each in (one for one in mine if one.slug not in before or before[one.slug].body == b""):
            after = before[each.slug].state if before else -1
            state, named = _turn(s, each, hashes[each.part.name], after)
            made[each.slug] = state, _bodies(s, each, state, named, rows)
        _store(s, plan, made, squares(year), again=bool(before))


def _kept(s: _Session, plan: PublicPlan, rows: Rows, diary: Diary | None, signed: bytes, *, dry_run: bool) -> Outcome:
    """Begin the diary, or add rows, before reports are made. Once it is begun no server is asked anything."""
    assert plan.diary is not None
    day = clocks.strftime("%Y-%m-%d", clocks.gmtime(plan.diary.until))
    if diary is None:
        raise RefusedError(f"reports are made from {day} on; until then keep rows in a diary: --diary FILE.")
    _must_be_right(plan, rows)
    if dry_run:
        held = [*diary.rows(s.invitation.slug, s.root), *rows]
        return Outcome(False, f"{words(plan, held)}\n\nNothing was computed, stored or sent.", plan)
    many = diary.add(rows, s.invitation.slug, s.root, plan.diary.rows, signed)
    said = f"The diary has {many} of {plan.diary.rows} rows. Nothing was sent: call again from {day} on."
    return Outcome(False, "\n".join([*(wrapped(one) for one in doubts(plan, rows)), said]), plan)


def _must_be_right(plan: PublicPlan, rows: Rows) -> None:
    """Let answers be corrected that are none of the allowed ones, while whoever gave them is asked."""
    if wrong := list(dict.fromkeys(one for row in rows for one in design.wrong(plan, row))):
        raise RefusedError(f"{'; '.join(wrong)}. Correct the answers, or leave out what you don't answer.")


# --- plan and states -----------------------------------------------------------------------------------------


def _opened(data: bytes, kind: str, keys: tuple[bytes, ...], needed: int = 1) -> bytes:
    """Payload of an envelope that so many of the keys have signed."""
    envelope = wire.open_envelope(data, kind)
    message, named = wire.signed_bytes(kind, envelope.payload), {wire.key_id(k): k for k in keys}
    signed = {kid for kid, sig in envelope.signatures if kid in named and ed25519.verify(named[kid], message, sig)}
    if len(signed) < needed:
        wanted = "both keys" if needed > 1 else "the key"
        raise RefusedError(f"the {kind} is not signed by {wanted} that it should be signed by; ask who invited you.")
    return envelope.payload


def _got(s: _Session, path: str, what: str, until: float) -> bytes:
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


def _until(s: _Session, end: float) -> float:
    return end if s.patience is None else min(end, s.clock() + s.patience)


def _plan(s: _Session, kept: bytes | None) -> tuple[tuple[PublicPlan, ...], dict[str, bytes], bytes]:
    """The plan's analyses, verified by the pinned key and the same as ever, their hashes by name, and the envelope."""
    until = s.clock() + (PATIENCE if s.patience is None else min(s.patience, PATIENCE))
    signed = kept or _got(s, "/plan", "the plan", until)
    payload = _opened(signed, "plan", (s.root,))
    plans, plan_hash = read_plans(payload), wire.hash_of(payload)
    if plans[0].study != s.invitation.slug:
        raise RefusedError("the plan is one of another study; ask who invited you.")
    hashes = {plan.part.name: hash_of_part(plan_hash, plan.part.name) for plan in plans}
    if not s.memory.plans(s.root, plans[0].study) <= set(hashes.values()):
        raise RefusedError("the plan is not the one that this device has seen before; ask who invited you.")
    return plans, {**hashes, "": plan_hash}, signed


def _check_plan(s: _Session, plan: PublicPlan, *, issued: bool, again: bool) -> None:
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
    _addresses(s, plan)  # refuses what is neither https nor this machine


def _addresses(s: _Session, plan: PublicPlan) -> list[str]:
    """Where a report is posted: at the study's server, or its shares at each collector's."""
    if not plan.collectors:
        return [f"{s.invitation.base}{plan.path}/reports"]
    links = [f"{c.url.rstrip('/')}/v1/studies/{plan.study}" for c in plan.collectors]
    return [f"{client.invitation(link).base}{plan.path}/shares" for link in links]


def _turn(s: _Session, plan: PublicPlan, plan_hash: bytes, after: int) -> tuple[FieldState, bytes]:
    """The state that this token answers, one after `after`, and its hash: waits until it is its turn."""
    place, attempt = messages.place_of(plan_hash, s.token), 0
    until = _until(s, float(plan.closes))
    while True:
        payload = _opened(
            _got(s, f"{plan.path}/state", "the state", until), "state", plan.keys, max(len(plan.collectors), 1)
        )
        state, own = messages.read_state(payload, plan, plan_hash), wire.hash_of(payload)
        _check_chain(s, plan, state, own)
        if not plan.opens <= state.time <= plan.closes or not state.open:
            raise RefusedError("the study doesn't ask anybody now: it is not open yet, or it has closed.")
        if place.slot < state.slots[1] and state.number > after:
            return state, own
        wait = client.waits(attempt + 4, 0.0)
        if s.clock() + wait > until:
            raise RefusedError("it isn't this token's turn yet; try again later.")
        s.sleep(wait)
        attempt += 1


def _check_chain(s: _Session, plan: PublicPlan, state: FieldState, own: bytes) -> None:
    """Refuse a state that goes back, or that isn't the one after the one before."""
    if state.number == 0 and state.before != state.plan:
        raise RefusedError("the first state doesn't follow the plan.")
    seen = s.memory.seen(s.root, plan.slug)
    if seen is not None:
        back = state.number < seen.number or state.time < seen.time
        other = state.number == seen.number and own != seen.state
        torn = state.number == seen.number + 1 and state.before != seen.state
        if back or other or torn:
            raise RefusedError("the study's states go back, or are others than seen before; ask who invited you.")
    known = s.memory.note(s.root, plan.slug, Seen(state.plan, state.number, own, state.time))
    if (known.plan, known.number, known.state) != (state.plan, state.number, own):
        raise RefusedError("another call of this device has seen another state; try again.")


# --- the report ----------------------------------------------------------------------------------------------


def _bodies(s: _Session, plan: PublicPlan, state: FieldState, named: bytes, rows: Rows) -> bytes:
    """Make the report: the bytes to post, of two collectors a line for each. Nothing here raises because of rows."""
    place = messages.place_of(state.plan, s.token)
    ask = messages.ask_of(state, place)
    role = plan.roles[ask.role]
    shared = isinstance(ask, SumAsk)
    made = sums.whole(role, []) if shared else answer.values(role, [])
    with suppress(Exception):  # nothing raises there; whatever did would send noise or zeros, and not fail
        if plan.table:
            made = table.whole(plan, rows[0] if rows else {})
        elif isinstance(ask, SumAsk):
            made = sums.whole(role, sums.of_person(plan, ask, persons.rows_of(plan, rows)))
        else:
            group = messages.group_of(plan, ask.role, place)
            made = answer.values(role, answer.of_person(plan, ask, group, persons.rows_of(plan, rows)))
    if not shared:
        numbers = answer.randomised(made, role, plan.bits, noise.Words())
        return messages.report_body(Report(state.plan, state.number, ask.role, s.token, tuple(numbers)))
    bodies = []
    for letter, one, share in zip(LETTERS, plan.collectors, sums.shares(made), strict=True):
        sealed = seal.seal(share, one.seal, peers.share_info(letter, named, s.token))
        bodies.append(peers.share_body(Share(state.plan, state.number, ask.role, s.token, sealed)))
    return LINE.join(bodies)


def _store(
    s: _Session, plan: PublicPlan, made: Mapping[str, tuple[FieldState, bytes]], agreed: Fraction, *, again: bool
) -> None:
    """Write the reports ahead, all together: what is stored then is what is sent."""
    if max(len(line) for _, body in made.values() for line in body.split(LINE)) > plan.limit:
        raise RefusedError("the plan's limit on the size of reports is too small for its own; tell its contact.")
    if again:  # it costs nothing: the shares before were deleted, and none was summed
        for slug, (state, body) in made.items():
            s.memory.again(s.root, slug, state.number, body)
        return
    kept = s.memory.store(
        {
            slug: Stored(state.plan, s.token.id + (bytes([k]) if k else b""), state.number, body, None)
            for k, (slug, (state, body)) in enumerate(made.items())
        },
        root=s.root,
        release=plan.release_group,
        mu=plan.together,
        time=max(state.time for state, _ in made.values()),
        clock=int(s.clock()),
        cap=s.limits.yearly**2,
        total=agreed,
    )
    if not kept:
        raise RefusedError(
            f"with this report the year's budget of {float(s.limits.yearly):g} for studies of {plan.release_group!r} "
            "would be overspent, or another study was answered meanwhile; then call again."
        )


def _send_all(
    s: _Session, plans: Sequence[PublicPlan], hashes: Mapping[str, bytes], before: Mapping[str, Stored]
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


def _send(s: _Session, plan: PublicPlan, plan_hash: bytes, stored: Stored) -> Outcome | None:
    """Send the stored bytes until they have arrived, or it is of no use; None if two collectors deleted them."""
    assert stored.body  # by whoever calls
    bodies, addresses = stored.body.split(LINE), _addresses(s, plan)
    until, attempt = _until(s, float(plan.closes + plan.grace)), 0
    arrived: dict[int, bool] = {}  # By place: whether it is kept or summed there, or was deleted unsummed
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
    """Whether a collector has signed that this token's share is "unsummed", deleted and in no sum, or "lost"."""
    if not plan.collectors:
        return False
    try:
        payload = _opened(body, kind, (plan.collectors[place].key,))
        said = peers.read_signed(kind, payload, plan_hash)
    except (MessageError, RefusedError):
        return False
    return (said.letter, said.state, said.ids) == (LETTERS[place], stored.state, stored.token[: messages.ID])


def _ended(s: _Session, plan: PublicPlan, body: bytes, arrived: list[bool]) -> Outcome | None:
    """What each collector has said, or the server, is remembered; the bytes are deleted."""
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
