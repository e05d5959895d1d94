"""``privreg swarm``: many simulated devices answer a study, for trials of a collector."""

import argparse
import contextlib
import csv
import http.client
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from privreg.errors import OptionError, StudyError
from privreg.options.running import progress_bar
from privreg_field.device.client import HERE, Invitation, invitation, meaning
from privreg_field.study.running import done, parser_of
from privreg_field.study.servers import BusyError, fetched, opened
from privreg_field.study.simulated.devices import Crowd, SharedCrowd
from privreg_field.wire import messages, wire
from privreg_field.wire.analyses import hash_of_part, word_of
from privreg_field.wire.messages import FieldState, Token
from privreg_field.wire.study import PublicPlan, read_plans

CONNECTIONS: Final = 64
TRIES: Final = 60
UNSUMMED: Final = 410
MOST: Final = 2000  # Devices that answer one look at the state, at most


class Answers(NamedTuple):
    """Outcome of a swarm."""

    devices: int
    lost: int  # Devices whose report was never sent
    late: int  # Devices whose report was held back
    statuses: dict[int, int]  # Numbers of posts by status


class _Poster:
    """Connections, one for each thread, kept open until `close`."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._where = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        self._host, self._port, self._path = str(parts.hostname), parts.port, parts.path
        self._local = threading.local()
        self._open: list[http.client.HTTPConnection] = []

    def close(self) -> None:
        """Close all; no thread may be posting."""
        while self._open:
            self._open.pop().close()

    def post(self, body: bytes) -> int:
        """Post, again while the server is busy or gone; the status."""
        for attempt in range(TRIES):
            status = self._once(body)
            if status not in {0, 429, 503}:
                return status
            _pause(attempt)
        return status

    def _once(self, body: bytes) -> int:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            connection = self._local.connection = self._where(self._host, self._port, timeout=60)
            self._open.append(connection)
        try:
            connection.request("POST", self._path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            answer.read()
            return int(answer.status)
        except (OSError, http.client.HTTPException):
            connection.close()  # it opens again at the next request
            return 0


def _pause(attempt: int) -> None:
    threading.Event().wait(min(0.05 * 2.0 ** min(attempt, 6), 2.0) * random.SystemRandom().uniform(0.5, 1.0))


def _asked(base: str, path: str) -> bytes:
    """Get, again while the server is busy; raises `StudyError`."""
    for attempt in range(TRIES):
        with contextlib.suppress(BusyError):
            return fetched(base, path)
        _pause(attempt)
    return fetched(base, path)


def swarm(
    url: str,
    rows: Any,
    links: Sequence[str],
    *,
    devices: int | None = None,
    duplicates: float = 0.0,
    late: int = 0,
    dropout: float = 0.0,
    anywhere: bool = False,
    progress: bool | None = None,
    seen: Callable[[FieldState], None] | None = None,
) -> Answers:
    """Let simulated devices answer the study at `url`: of this machine, unless `anywhere`.

    There is a row for each device, of a diary all rows of a `person`, and one invitation of `links`; there are as many
    `devices` as rows and invitations by default. A share `duplicates` of the reports is sent twice, and of the devices
    a share `dropout` looks at the state and never answers. A report is held back by at most `late` states, all delays
    equally likely. `progress` says whether to show a bar, by default at a terminal, and `seen` is called with every
    state.
    Raises OptionError, StudyError.
    """
    invited = [invitation(link) for link in links]
    if not invited:
        raise OptionError("there are no invitations; privreg tokens makes them.")
    where = invitation(url)
    _must_be_here(where.base, anywhere)
    root = wire.unbase(invited[0].key, "the key of the invitations")
    given = duplicates, late, dropout
    payload = opened(_asked(where.base, "plan"), "plan", (root,))
    plans = read_plans(payload)
    answers = [
        _swarmed(where, plan, wire.hash_of(payload), rows, invited, devices, given, anywhere, progress, seen)
        for plan in plans
    ]
    return answers[0] if len(answers) == 1 else Answers(
        max(one.devices for one in answers), sum(one.lost for one in answers), sum(one.late for one in answers),
        dict(sorted(sum((Counter(one.statuses) for one in answers), Counter[int]()).items())),
    )  # fmt: skip


def _swarmed(
    where: Invitation, plan: PublicPlan, study_hash: bytes, rows: Any, invited: Sequence[Invitation],
    devices: int | None, given: tuple[float, int, float], anywhere: bool, progress: bool | None,
    seen: Callable[[FieldState], None] | None,
) -> Answers:  # fmt: skip
    """Let devices answer one analysis, those that are dealt to it."""
    plan_hash = hash_of_part(study_hash, plan.part.name)
    bases = [invitation(f"{one.url}/studies/{plan.study}").base for one in plan.collectors]
    for base in bases:
        _must_be_here(base, anywhere)
    crowd = (SharedCrowd if bases else Crowd)(plan, plan_hash, rows)
    bases = [f"{base}{plan.path}" for base in bases]
    tokens = [messages.read_token(one.token) for one in invited]
    most = min(len(crowd), len(tokens))
    devices = most if devices is None else devices
    if devices > most:
        raise OptionError(f"{devices:,} devices need as many rows and invitations; there are {most:,}.")

    low, high = plan.part.people
    mine = [i for i in range(devices) if low <= word_of(study_hash, tokens[i].id) < high]
    address = f"{where.base}{plan.path}"

    @lru_cache(1)
    def read(data: bytes) -> FieldState:
        return messages.read_state(opened(data, "state", plan.keys, by_all=bool(bases)), plan, plan_hash)

    def state() -> FieldState:
        said = read(_asked(address, "state"))
        if seen is not None:
            seen(said)
        return said

    with contextlib.ExitStack() as stack:
        addresses = [f"{base}/shares" for base in bases] or [f"{address}/reports"]
        posters = [stack.enter_context(contextlib.closing(_Poster(one))) for one in addresses]
        pool = stack.enter_context(ThreadPoolExecutor(CONNECTIONS))
        bar = stack.enter_context(progress_bar(len(mine), progress))
        return _Swarm(crowd, tokens, posters, pool, state).run(mine, *given, bar)


def _must_be_here(base: str, anywhere: bool) -> None:
    if urlsplit(base).hostname not in HERE and not anywhere:
        raise OptionError("a swarm answers studies on this machine; --anywhere lets it go elsewhere.")


class _Swarm(NamedTuple):
    """A swarm's people, tokens and connections."""

    crowd: Crowd
    tokens: list[Token]
    posters: list[_Poster]  # One for each server
    pool: ThreadPoolExecutor
    state: Callable[[], FieldState]

    def run(self, devices: Sequence[int], duplicates: float, late: int, dropout: float, bar: Any) -> Answers:
        """Answer, a batch for each look at the state."""
        rng, statuses = random.SystemRandom(), Counter[int]()
        waiting, held = list(devices), list[tuple[int, int, tuple[bytes, ...]]]()
        lost = delayed = 0
        size = max(min(len(devices) // 100, MOST), 20)
        while waiting:
            state = self.state()
            if not state.open:
                raise StudyError("the study has closed.")
            who, waiting = waiting[:size], waiting[size:]
            now = [(i, bodies) for due, i, bodies in held if due <= state.number]
            held = [one for one in held if one[0] > state.number]
            for i, bodies in zip(who, self.crowd.posts(state, who, [self.tokens[i] for i in who]), strict=True):
                if rng.random() < dropout:
                    lost += 1
                    continue
                delay = rng.randint(0, late)
                delayed += delay > 0
                if delay:
                    held.append((state.number + delay, i, bodies))
                else:
                    now.append((i, bodies))
            again = self._post(now, duplicates, statuses)
            waiting += again
            bar.update(len(who) - len(again))
        self._post([one[1:] for one in held], duplicates, statuses)
        return Answers(len(devices), lost, delayed, dict(sorted(statuses.items())))

    def _post(self, posts: list[tuple[int, tuple[bytes, ...]]], duplicates: float, statuses: Counter[int]) -> list[int]:
        """Post; whose shares both collectors deleted unsummed, so that they answer the next state."""
        rng = random.SystemRandom()
        every = posts + [one for one in posts if rng.random() < duplicates]
        found = list(self.pool.map(self._sent, (bodies for _, bodies in every), chunksize=1))
        gone = [i for (i, _), got in zip(posts, found, strict=False) if len(got) > 1 and set(got) == {UNSUMMED}]
        statuses.update(status for got in found for status in got)
        return gone

    def _sent(self, bodies: tuple[bytes, ...]) -> tuple[int, ...]:
        """Post to every server, again while one says that its share was not summed and another doesn't yet."""
        for _ in range(TRIES):
            got = tuple(poster.post(body) for poster, body in zip(self.posters, bodies, strict=True))
            if UNSUMMED not in got or len(set(got)) == 1:
                break
            threading.Event().wait(0.1)
        return got


def main(arguments: Sequence[str], prog: str = "privreg swarm") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    return done(parser_of("swarm", prog), arguments, _run)


def _run(a: argparse.Namespace) -> str:
    options = {"devices": a.devices, "duplicates": a.duplicates, "late": a.late, "dropout": a.dropout}
    got = swarm(a.url, a.rows, read_links(a.tokens), anywhere=a.anywhere, **options)
    again = {UNSUMMED: "; of two collectors such a device answers the next round"}
    said = [f"\n  {count:,} × {meaning(status)}{again.get(status, '')}" for status, count in got.statuses.items()]
    return f"{got.devices:,} devices: {got.lost:,} never answered, {got.late:,} late. Servers said:{''.join(said)}"


def read_links(path: str) -> list[str]:
    """Invitations of a file; raises `OptionError`."""
    try:
        with open(path, encoding="utf-8", newline="") as file:
            return [row["link"] for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeError):
        raise OptionError(f"{path!r} is no file of invitations that can be read; privreg tokens makes one.") from None
