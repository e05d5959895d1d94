"""A respondent's way through a study: plan, refusals, consent, state, report, memory, sending.

Everything that may refuse comes before the row is looked at together with a state. Afterwards nothing depends on what
the row holds but the numbers of the report: no error, no wait, no message.
"""

import math
import time as clocks
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from typing import Final

from privreg.protocol.sums import LETTERS, SumAsk
from privreg_field.wire import messages, peers, wire
from privreg_field.wire.analyses import word_of
from privreg_field.wire.messages import FieldState, Report, Token
from privreg_field.wire.peers import Share
from privreg_field.wire.study import PublicPlan
from privreg_field.wire.wire import MessageError

from . import client, seal
from .client import Transport
from .consent import GO_ON, QUESTION, doubts, words, wrapped
from .diary import Diary, DiaryError
from .exchange import LINE, Limits, Outcome, RefusedError, Session, check_plan, plan_of, send_all, turn
from .memory import Memory, Stored, StoreError, squares
from .report import answer, design, noise, sums
from .report.answer import Rows

ANSWERED: Final = "this device has answered the study; every device answers once."


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
        entry = mine if mine is not None else Token(0, noise.secret(messages.ID), bytes(messages.MAC))
        session = Session(invited, root, entry, held, transport, sleep, clock, limits, patience)
        rows = [row] if isinstance(row, Mapping) else list(row or ())
        return _respond(session, rows, consent, dry_run=dry_run, issued=mine is not None, diary=diary)
    except (ValueError, StoreError, DiaryError, noise.NoiseError) as e:
        raise RefusedError(f"{e}") from None


def _respond(
    s: Session, rows: Rows, agreed: bool | Callable[[str], bool], *, dry_run: bool, issued: bool, diary: Diary | None
) -> Outcome:
    kept = None if diary is None else diary.plan(s.invitation.slug, s.root)
    if diary is not None and kept is None and rows:
        raise RefusedError("begin the diary by the same call without answers: from then on rows are added unseen.")
    plans, hashes, signed = plan_of(s, kept)
    if plans[0].diary is None and (diary is not None or len(rows) > 1):
        raise RefusedError("the study asks for one row of answers; give it alone, and no diary.")
    if plans[0].diary is not None:
        if s.clock() < plans[0].diary.until:
            check_plan(s, plans[0], issued=issued, again=False)
            return _kept(s, plans[0], rows, diary, signed, dry_run=dry_run)
        if diary is not None:
            if rows:
                raise RefusedError("reports are made now, and no rows are added any more; call again without answers.")
            if kept is None:
                raise RefusedError(f"there is no diary in {diary.path}; name the file with which it was begun.")
            rows = diary.rows(s.invitation.slug, s.root)
    asked: str | None = None
    doubted: list[str] = []
    while True:
        before = s.memory.reports(s.root, s.invitation.slug)
        if before and not dry_run:
            if all(one.body is None for one in before.values()):
                raise RefusedError(ANSWERED)
            pending = [plan for plan in plans if plan.slug in before and before[plan.slug].body]
            if pending:
                outcome = send_all(s, pending, hashes, before)
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
        check_plan(s, plan, issued=issued, again=any(one.body == b"" for one in before.values()))
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
        if asked is None:  # of a later state the same is asked, at no further cost
            asked, doubted = words(plan, rows, year), [wrapped(one) for one in doubts(plan, rows)]
            if dry_run:
                return Outcome(False, f"{asked}\n\nNothing was computed, stored or sent.", plan)
            if doubted and callable(agreed) and not agreed("\n".join([*doubted, GO_ON])):
                raise RefusedError("nothing is computed or sent; mend your answers, and call again.")
            if not (agreed if isinstance(agreed, bool) else agreed(f"{asked}\n\n{QUESTION}")):
                raise RefusedError("without consent nothing is computed or sent.")
        made: dict[str, tuple[FieldState, bytes]] = {}
        for each in (one for one in mine if one.slug not in before or before[one.slug].body == b""):
            after = before[each.slug].state if before else -1
            state, named = turn(s, each, hashes[each.part.name], after)
            made[each.slug] = state, _bodies(s, each, state, named, rows)
        _store(s, plan, made, squares(year), again=bool(before))


def _kept(s: Session, plan: PublicPlan, rows: Rows, diary: Diary | None, signed: bytes, *, dry_run: bool) -> Outcome:
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


def _bodies(s: Session, plan: PublicPlan, state: FieldState, named: bytes, rows: Rows) -> bytes:
    """Make the report: the bytes to post, of two collectors a line for each. Nothing here raises because of rows."""
    place = messages.place_of(state.plan, s.token)
    ask = messages.ask_of(state, place)
    role = plan.role_of(ask)
    shared = isinstance(ask, SumAsk)
    made = sums.whole(role, []) if shared else answer.values(role, [])
    with suppress(Exception):  # nothing raises there; whatever did would send noise or zeros, and not fail
        if plan.table:
            made = answer.whole(plan, rows[0] if rows else {})
        elif isinstance(ask, SumAsk):
            made = sums.whole(role, sums.of_person(plan, ask, answer.rows_of(plan, rows)))
        else:
            group = messages.group_of(plan, ask.role, place)
            made = answer.values(role, answer.of_person(plan, ask, group, answer.rows_of(plan, rows)))
    if not shared:
        numbers = answer.randomised(made, role, plan.bits, noise.Words())
        return messages.report_body(Report(state.plan, state.number, ask.role, s.token, tuple(numbers)))
    bodies = []
    for letter, one, share in zip(LETTERS, plan.collectors, sums.shares(made), strict=True):
        sealed = seal.seal(share, one.seal, peers.share_info(letter, named, s.token))
        bodies.append(peers.share_body(Share(state.plan, state.number, ask.role, s.token, sealed)))
    return LINE.join(bodies)


def _store(
    s: Session, plan: PublicPlan, made: Mapping[str, tuple[FieldState, bytes]], agreed: Fraction, *, again: bool
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
