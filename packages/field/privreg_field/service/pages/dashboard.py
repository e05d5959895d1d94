"""A study's dashboard: a page for its analyst, and server-sent events, made once for each change, for all listeners.

The page holds nothing of the study: it asks for counts and estimates with the analyst's token, in a header. Events are
functions of reports: how many came in each minute with which outcome, how many answered each state, and the estimates.
A report's own time is stored nowhere. At one of two collectors estimates are of published sums alone.
"""

import asyncio
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final

from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from privreg_field.service.pages import survey
from privreg_field.service.scheduler import Study
from privreg_field.study.reading.picture import picture, progress

SECONDS: Final = 1.0  # Between two looks, at least
SHARE: Final = 0.2  # Share of a processor for looks: after long computations the feed waits longer
ALIVE: Final = 15.0  # Seconds after which a listener hears that the server is there

OUTCOMES: Final = ("new", "same", "other", "refused")
RECENT: Final = 180
BINS: Final = 240
WIDTHS: Final = (1, 5, 15, 60, 360, 1440)
"""Minutes shown one by one, bins that are kept of each width, and how many minutes a bin may have."""
SETTLED: Final = 2  # Minutes for which counts may still come: other processes write, too


class Minutes:
    """Numbers by minute and name, in bins of several widths, so that a long study takes no more room."""

    def __init__(self) -> None:
        self.totals: Counter[str] = Counter()
        self._bins: dict[int, dict[int, Counter[str]]] = {width: {} for width in WIDTHS}
        self._live: dict[int, Counter[str]] = {}  # Minutes that may still change
        self._begin: int | None = None

    @property
    def since(self) -> int:
        """First minute that may still change."""
        return min(self._live, default=0)

    def add(self, counts: Iterable[tuple[int, str, int]]) -> None:
        """Take in all counts of minutes from `since` on."""
        live: dict[int, Counter[str]] = {}
        for minute, name, count in counts:
            live.setdefault(minute, Counter())[name] = count
        last = max(live, default=0)
        for minute in sorted(live):
            self._begin = minute if self._begin is None else self._begin
            if minute < last - SETTLED:
                self._fold(minute, live.pop(minute))
        self._live = live

    def _fold(self, minute: int, counts: Counter[str]) -> None:
        self.totals.update(counts)
        shown = _shown(counts)
        for width, bins in self._bins.items():
            bins.setdefault(minute // width, Counter()).update(shown)
            while len(bins) > BINS:
                del bins[next(iter(bins))]  # the oldest

    def all(self) -> Counter[str]:
        """Numbers by name, of all minutes."""
        return sum(self._live.values(), self.totals)

    def binned(self, width: int, most: int) -> dict[str, Any]:
        """Numbers by outcome of the last bins of so many minutes, each beginning at a multiple of its width."""
        last = max(self._live, default=int(time.time()) // 60) // width
        first = max((last if self._begin is None else self._begin // width), last - most + 1)
        out = {name: [0] * (last - first + 1) for name in OUTCOMES}
        for at, counts in [*self._bins[width].items(), *((m // width, _shown(c)) for m, c in self._live.items())]:
            if at >= first:
                for name, count in counts.items():
                    out[name][at - first] += count
        return {"width": width, "first": first * width, **out}

    def whole(self) -> dict[str, Any]:
        """All of it, in bins as narrow as there is room for; of a very long study its last part."""
        last = max(self._live, default=0)
        span = last - (last if self._begin is None else self._begin) + 1
        width = next((w for w in WIDTHS if span <= w * (BINS - 1)), WIDTHS[-1])
        return self.binned(width, BINS)


def _shown(counts: Mapping[str, int]) -> Counter[str]:
    """Numbers by outcome as a dashboard has them: statuses of refusals are one."""
    out: Counter[str] = Counter()
    for name, count in counts.items():
        kind = "refused" if name.isdecimal() else name
        if kind in OUTCOMES:
            out[kind] += count
    return out


class Feed:
    """Events of a study, for all listeners."""

    def __init__(self, scheduler: Study) -> None:
        self._scheduler, self._minutes, self._lock = scheduler, Minutes(), threading.Lock()
        self._said: dict[str, tuple[int, str]] = {}  # Number and text of each kind's last event
        self._listeners, self._stopped = 0, False
        self._news = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._at: Any = None  # Version of the data behind the last estimates
        self.made = 0  # Estimates that were computed

    def stop(self) -> None:
        """Let listeners go."""
        self._stopped = True
        self._news.set()

    async def listen(self) -> AsyncIterator[str]:
        """Events for one listener: first all that is known, then what changes."""
        self._listeners += 1
        heard: dict[str, int] = {}
        mine: asyncio.Task[None] | None = None
        try:
            while not self._stopped:
                if mine is not None and mine.done():
                    mine.result()
                if self._task is None:
                    self._task = asyncio.create_task(self._run())
                mine, news = self._task, self._news
                for kind, (number, text) in list(self._said.items()):
                    if heard.get(kind) != number:
                        heard[kind] = number
                        yield f"event: {kind}\ndata: {text}\n\n"
                try:
                    await asyncio.wait_for(news.wait(), ALIVE)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners -= 1

    async def _run(self) -> None:
        """Look while anybody listens."""
        try:
            while self._listeners and not self._stopped:
                began = time.monotonic()
                with suppress(SQLAlchemyError):  # busy or gone: readyz says so, and the next look comes
                    self._tell(await asyncio.to_thread(self._look))
                took = time.monotonic() - began
                await asyncio.sleep(max(SECONDS, took * (1.0 / SHARE - 1.0)))
        finally:
            self._task = None
            self._wake()  # whoever listens still begins it again, or is told why it ended

    def _look(self) -> dict[str, str]:
        """Events' texts; estimates only if they can have changed."""
        said = {"progress": json.dumps(self.progress(), separators=(",", ":"))}
        at = self._scheduler.known().made_of
        if at != self._at:
            said["results"] = json.dumps(self.results(), separators=(",", ":"))
            self._at = at
        return said

    def progress(self) -> dict[str, Any]:
        """Counts of reports by minute and by state."""
        with self._lock:
            self._minutes.add(self._scheduler.store.counts(self._minutes.since))
            counts = self._minutes.all()
            bins = {"recent": self._minutes.binned(1, RECENT), "whole": self._minutes.whole()}
        known = self._scheduler.known()
        rounds = tuple(r._replace(fetched=counts[f"fetched.{r.state}"]) for r in known.rounds)
        totals = {name: _shown(counts)[name] for name in OUTCOMES}
        return progress(self._scheduler.plan, known._replace(rounds=rounds), {"totals": totals, **bins})

    def results(self) -> dict[str, Any]:
        """Estimates of what has come by now."""
        self.made += 1
        return picture(self._scheduler.results)

    def _tell(self, found: Mapping[str, str]) -> None:
        changed = False
        for kind, text in found.items():
            number, before = self._said.get(kind, (0, ""))
            if text != before:
                self._said[kind] = number + 1, text
                changed = True
        if changed:
            self._wake()

    def _wake(self) -> None:
        news, self._news = self._news, asyncio.Event()
        if self._stopped:
            self._news.set()
        news.set()


POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {**survey.HEADERS, "Content-Security-Policy": POLICY}

KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "LICENSE": "text/plain"}
FILES: Final = {
    **{name: name for name in ("page.css", "page.js", "stream.js", "curves.js", "view.css", "view.js")},
    "uPlot.esm.js": "uplot/uPlot.esm.js",
    "uPlot.min.css": "uplot/uPlot.min.css",
    "uPlot.LICENSE": "uplot/LICENSE",
}
"""Names of the page's files, and their paths."""

Endpoint = Callable[["Request"], Awaitable[Response]]


def served(request: Request, path: str) -> Response:
    """A file of the page, by ETag."""
    data = files("privreg_field.service").joinpath("web", "dashboard", *path.split("/")).read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=KINDS[path.rpartition("/")[2].rpartition(".")[2]])


def page_routes(of_study: Callable[[Endpoint], Endpoint]) -> list[Route]:
    """Addresses of the dashboard's page; `of_study` wraps a endpoint: no other study, not too often."""

    async def page(request: Request) -> Response:
        return served(request, "index.html")

    async def part(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in FILES:
            raise HTTPException(404)
        return served(request, FILES[name])

    made = [("/studies/{study}/dashboard", page), ("/studies/{study}/dashboard/{file}", part)]
    return [Route(path, of_study(endpoint), methods=["GET"]) for path, endpoint in made]


def routes(
    feed: Feed, base: str, of_study: Callable[[Endpoint], Endpoint], allowed: Callable[[Request], None]
) -> list[Route]:
    """Addresses of what the dashboard asks for, below `base`, that of the analysis's interface, with {study}.

    `of_study` wraps a endpoint: no other study, not too often. `allowed` refuses whoever may not read results.
    """

    async def progress(request: Request) -> Response:
        allowed(request)
        return JSONResponse(await asyncio.to_thread(feed.progress))

    async def events(request: Request) -> Response:
        allowed(request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(feed.listen(), media_type="text/event-stream", headers=headers)

    made: list[tuple[str, Endpoint]] = [(f"{base}/progress", progress), (f"{base}/events", events)]
    return [Route(path, of_study(endpoint), methods=["GET"]) for path, endpoint in made]
