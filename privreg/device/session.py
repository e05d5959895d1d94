"""A respondent's way through a study: plan, refusals, consent, state, report, memory, sending.

Everything that may refuse comes before the row is looked at together with a state. Afterwards nothing depends on what
the row holds but the numbers of the report: no error, no wait, no message.
"""

from __future__ import annotations

import math
import time as clocks
from collections.abc import Callable, Mapping
from contextlib import suppress
from fractions import Fraction
from typing import NamedTuple

from ..protocol import messages, wire
from ..protocol.messages import FieldState, Report, Token
from ..protocol.study import PublicPlan, read_plan
from ..protocol.wire import MessageError
from . import answer, client, design, ed25519, noise
from .client import Answer, Invitation, Transport
from .consent import plain, words
from .memory import Memory, Seen, Stored, StoreError, squares

PATIENCE = 60.0
"""Seconds in which a plan must be had; nobody knows before how long the study is open."""


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

    sent: bool  # Whether the report has arrived
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
    row: Mapping[str, object] | None = None,
    consent: bool | Callable[[str], bool] = False,
    *,
    key: str | None = None,
    memory: Memory | None = None,
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
    row : mapping of str to object
        Answers by column: numbers, strings, true or false. They stay here.
    consent : bool or callable
        True, or a function of what the respondent is told, in words, that returns whether they agree.
    key : str, optional
        Public key of the analyst, where the invitation has none.
    memory : Memory, optional
        In the user's data directory by default.
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
        return _respond(session, {} if row is None else row, consent, dry_run=dry_run, issued=mine is not None)
    except (ValueError, StoreError, noise.NoiseError) as e:
        raise RefusedError(f"{e}") from None


def _respond(
    s: _Session,
    row: Mapping[str, object],
    agreed: bool | Callable[[str], bool],
    *,
    dry_run: bool,
    issued: bool,
) -> Outcome:
    plan, plan_hash = _plan(s)
    before = s.memory.report(s.root, s.invitation.slug)
    if before is not None and not dry_run:
        if before.body is None:
            raise RefusedError("this device has answered the study; every device answers once.")
        return _send(s, plan, before.body)
    _check_plan(s, plan, issued=issued)
    year = [*s.memory.year(int(s.clock())), Fraction(*plan.mu)]
    if squares(year) > s.limits.total**2:
        raise RefusedError(
            f"it would be study {len(year)} of a year's, which cost mu = {math.sqrt(squares(year)):.4g} together, more "
            f"than the {float(s.limits.total):g} that this device allows; wait until a year has passed, or allow more: "
            "--yearly-total, Limits(total=)."
        )
    unread = design.unread(plan, row)
    if unread and plan.missing == "refuse":
        raise RefusedError(
            f"answers are missing or can't be read: {', '.join(map(repr, unread))}. The study asks only who can answer "
            "everything."
        )
    told = words(plan, unread, year)
    if dry_run:
        return Outcome(False, f"{told}\n\nNothing was computed, stored or sent.", plan)
    if not (agreed if isinstance(agreed, bool) else agreed(told)):
        raise RefusedError("without consent nothing is computed or sent.")
    state = _turn(s, plan, plan_hash)
    stored = _store(s, plan, state, _report(s, plan, state, row), squares(year))
    return _send(s, plan, stored)


# --- plan and states -----------------------------------------------------------------------------------------


def _opened(data: bytes, kind: str, keys: tuple[bytes, ...]) -> bytes:
    """Payload of an envelope that one of the keys has signed."""
    envelope = wire.open_envelope(data, kind)
    message, named = wire.signed_bytes(kind, envelope.payload), {wire.key_id(k): k for k in keys}
    if not any(kid in named and ed25519.verify(named[kid], message, sig) for kid, sig in envelope.signatures):
        raise RefusedError(f"the {kind} is not signed by the key that it should be signed by; ask who invited you.")
    return envelope.payload


def _got(s: _Session, path: str, what: str, until: float) -> bytes:
    """Get a message, again and again while that may help."""
    attempt = 0
    while True:
        got = s.transport(f"{s.invitation.base}/{path}", None)
        if got.status == 200:
            return got.body
        wait = client.waits(attempt, got.wait)
        if got.status not in client.RETRIED or s.clock() + wait > until:
            raise RefusedError(f"{what} can't be had from the study's server ({_said(got)}); try again later.")
        s.sleep(wait)
        attempt += 1


def _said(got: Answer) -> str:
    return f"status {got.status}" if got.status else "no connection"


def _until(s: _Session, end: float) -> float:
    return end if s.patience is None else min(end, s.clock() + s.patience)


def _plan(s: _Session) -> tuple[PublicPlan, bytes]:
    """The plan, verified by the pinned key, and the same as ever."""
    until = s.clock() + (PATIENCE if s.patience is None else min(s.patience, PATIENCE))
    payload = _opened(_got(s, "plan", "the plan", until), "plan", (s.root,))
    plan, plan_hash = read_plan(payload), wire.hash_of(payload)
    if plan.study != s.invitation.slug:
        raise RefusedError("the plan is one of another study; ask who invited you.")
    seen = s.memory.seen(s.root, plan.study)
    if seen is not None and seen.plan != plan_hash:
        raise RefusedError("the plan is not the one that this device has seen before; ask who invited you.")
    return plan, plan_hash


def _check_plan(s: _Session, plan: PublicPlan, *, issued: bool) -> None:
    mu = Fraction(*plan.mu)
    if plan.collectors:
        raise RefusedError("this device doesn't answer studies of two collectors yet.")
    if mu > s.limits.mu:
        raise RefusedError(f"mu = {plan.title_of_mu} is more than this device allows, {float(s.limits.mu):g}.")
    if issued != (plan.tokens == "issued"):
        wanted = "needs a token, --token or in the link" if plan.tokens == "issued" else "takes no token of an issuer"
        raise RefusedError(f"the study {wanted}.")
    if s.memory.used(s.token.id):
        raise RefusedError("the token has been used by this device; every token is good for one report.")


def _turn(s: _Session, plan: PublicPlan, plan_hash: bytes) -> FieldState:
    """The state that this token answers: waits until it is its turn."""
    place, attempt = messages.place_of(plan_hash, s.token), 0
    until = _until(s, float(plan.closes))
    while True:
        payload = _opened(_got(s, "state", "the state", until), "state", plan.keys)
        state, own = messages.read_state(payload, plan, plan_hash), wire.hash_of(payload)
        _check_chain(s, plan, state, own)
        if not plan.opens <= state.time <= plan.closes or not state.open:
            raise RefusedError("the study doesn't ask anybody now: it is not open yet, or it has closed.")
        if place.slot < state.slots[1]:
            return state
        wait = client.waits(attempt + 4, 0.0)
        if s.clock() + wait > until:
            raise RefusedError("it isn't this token's turn yet; try again later.")
        s.sleep(wait)
        attempt += 1


def _check_chain(s: _Session, plan: PublicPlan, state: FieldState, own: bytes) -> None:
    """Refuse a state that goes back, or that isn't the one after the one before."""
    if state.number == 0 and state.before != state.plan:
        raise RefusedError("the first state doesn't follow the plan.")
    seen = s.memory.seen(s.root, plan.study)
    if seen is not None:
        back = state.number < seen.number or state.time < seen.time
        other = state.number == seen.number and own != seen.state
        torn = state.number == seen.number + 1 and state.before != seen.state
        if back or other or torn:
            raise RefusedError("the study's states go back, or are others than seen before; ask who invited you.")
    known = s.memory.note(s.root, plan.study, Seen(state.plan, state.number, own, state.time))
    if (known.plan, known.number, known.state) != (state.plan, state.number, own):
        raise RefusedError("another call of this device has seen another state; try again.")


# --- the report ----------------------------------------------------------------------------------------------


def _report(s: _Session, plan: PublicPlan, state: FieldState, row: Mapping[str, object]) -> Report:
    """Make the report. Nothing here raises because of what the row holds."""
    place = messages.place_of(state.plan, s.token)
    ask = messages.ask_of(state, place)
    assert isinstance(ask, messages.Ask)  # others are refused before
    role = plan.roles[ask.role]
    try:
        told = answer.before_noise(plan, ask, messages.group_of(plan, ask.role, place), design.row_of(plan, row))
    except Exception:  # nothing raises there; whatever did would send noise alone, and not fail
        told = []
    numbers = answer.randomised(answer.values(role, told), role, plan.bits, noise.Words())
    return Report(state.plan, state.number, ask.role, s.token, tuple(numbers))


def _store(s: _Session, plan: PublicPlan, state: FieldState, report: Report, agreed: Fraction) -> bytes:
    """Write the report ahead; the bytes to send."""
    body = messages.report_body(report)
    if len(body) > plan.limit:
        raise RefusedError("the plan's limit on the size of reports is too small for its own; tell its contact.")
    stored = s.memory.store(
        Stored(report.plan, s.token.id, report.state, body, None),
        root=s.root,
        slug=plan.study,
        release=plan.release_group,
        mu=plan.mu,
        time=state.time,
        clock=int(s.clock()),
        cap=s.limits.yearly**2,
        total=agreed,
    )
    if stored is None:
        raise RefusedError(
            f"with this report the year's budget of {float(s.limits.yearly):g} for studies of {plan.release_group!r} "
            "would be overspent, or another study was answered meanwhile; then call again."
        )
    if stored.body is None:
        raise RefusedError("this device has answered the study; every device answers once.")
    return stored.body


def _send(s: _Session, plan: PublicPlan, body: bytes) -> Outcome:
    """Send the stored bytes until they have arrived, or it is of no use."""
    until, attempt = _until(s, float(plan.closes + plan.grace)), 0
    while True:
        got = s.transport(f"{s.invitation.base}/reports", body)
        if got.status in {200, 201}:
            with suppress(StoreError):  # it has arrived all the same; the next call sends the same bytes
                s.memory.arrived(s.root, plan.study, wire.hash_of(body))
            return Outcome(True, "The report has arrived. Thank you.", plan)
        if got.status == 409:
            raise RefusedError(
                "the token has been used: a report has arrived before, and this one was not taken. If that was not "
                f"you, tell {plan.contact!r}."
            )
        if got.status not in client.RETRIED:
            raise RefusedError(f"the study's server doesn't take the report ({_said(got)}); tell {plan.contact!r}.")
        wait = client.waits(attempt, got.wait)
        if s.clock() + wait > until:
            return Outcome(False, f"Not sent yet ({_said(got)}). It is stored, and sent by the next call.", plan)
        s.sleep(wait)
        attempt += 1
