"""The collector over HTTP, as far as it is alike in every study: plan and states out, what devices send in. ASGI.

What devices may ask needs no account; what analysts may ask needs the study's token. Nothing that was posted is ever in
an answer, a log or a count.
"""

import asyncio
import hashlib
import json
import math
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from importlib.resources import files
from typing import Any, Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from sqlalchemy.exc import SQLAlchemyError
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from privreg.errors import OptionError
from privreg_field.service import access
from privreg_field.service.access import is_good, opened
from privreg_field.service.http.guard import TITLES, Problem, Quota
from privreg_field.service.logs import quiet
from privreg_field.service.pages import dashboard, survey
from privreg_field.service.pages.dashboard import Feed
from privreg_field.service.scheduler import Study
from privreg_field.service.store.records import FAILED, NEW, OTHER, SAME, Full, Writer
from privreg_field.study.reading.picture import picture
from privreg_field.wire import wire
from privreg_field.wire.analyses import word_of
from privreg_field.wire.messages import Token

BASE: Final = "/v1/studies/{study}"
SECONDS: Final = 1.0  # Between looks at the clock
PAUSE: Final = 0.2  # Seconds between looks at what has come, at least: each asks the database
PATIENCE: Final = 30.0  # Seconds in which the body of a request must come
STATE_AGE: Final = 2  # Seconds for which a state may be kept by whoever is in between

Endpoint = Callable[["Request"], Awaitable[Response]]


class Options(NamedTuple):
    """Options of a server."""

    rate: float = 50.0  # Requests a second from one address; 0: no limit
    public_results: bool = False  # Results are public, and nothing else
    journal: Callable[..., None] = quiet  # Writes events


class Metrics:
    """Numbers for operators, as Prometheus reads them: of requests and reports, never of what reports hold."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.reports = Counter("privreg_reports", "Posted reports by outcome", ["outcome"], registry=self.registry)
        self.states = Counter("privreg_states", "States handed out by status", ["status"], registry=self.registry)
        self.people = Gauge("privreg_people", "Reports that count", registry=self.registry)
        self.number = Gauge("privreg_state", "Number of the present state", registry=self.registry)
        self.seconds = Histogram("privreg_report_seconds", "From a post to its answer", registry=self.registry)


class Handler:
    """Handler of requests, as far as it is alike in every study; a thread advances the scheduler."""

    def __init__(self, scheduler: Study, options: Options) -> None:
        self.scheduler, self.options = scheduler, options
        self.metrics, self.quota = Metrics(), Quota(options.rate)
        self._stop, self._due = threading.Event(), threading.Event()
        self.writer, self.feed = Writer(scheduler.records, self._due.set), Feed(scheduler)
        self._kept: dict[int, bytes] = {}  # The issuers' secrets as they are in the database
        self.secrets: dict[int, bytes | None] = {}  # None: sealed by a passphrase that this process doesn't have
        self._looked, self._looking = -math.inf, threading.Lock()
        self._trial: asyncio.Future[str] | None = None
        self._tried = -math.inf
        for kept in scheduler.store.issuers().values():
            opened(kept)  # which says at once what passphrase is missing
        self._look()
        self.all: Sequence[Handler] = (self,)  # Handlers of the study's analyses; the first answers for them
        self._scheduling = threading.Thread(target=self._advance, name="privreg-scheduler", daemon=True)

    # --- its threads -----------------------------------------------------------------------------------

    @asynccontextmanager
    async def lifespan(self, _: Starlette) -> AsyncIterator[None]:
        """Begin and end the threads."""
        self.writer.start()
        self._scheduling.start()
        yield
        self.let_go()
        self._stop.set()
        self._due.set()
        await asyncio.to_thread(self.writer.stop)
        await asyncio.to_thread(self._scheduling.join)

    def let_go(self) -> None:
        """Let dashboards go, before the server ends."""
        for handler in self.all:
            handler.feed.stop()

    def _advance(self) -> None:
        """Close states whose time has come, and look now and then which tokens were taken back."""
        looked = time.monotonic()
        while not self._stop.is_set():
            self._due.wait(SECONDS)
            self._due.clear()
            if self._stop.is_set():
                return
            broken = False
            if time.monotonic() - looked >= SECONDS:
                broken = self._fails(self._look)
                looked = time.monotonic()
            broken |= self._fails(self._close_states)
            if broken != self.broken:
                self.options.journal("broken" if broken else "mended")
            self.broken = broken
            self._stop.wait(PAUSE)

    def _close_states(self) -> None:
        before = len(self.scheduler.states)
        while self.scheduler.advance():
            pass
        if len(self.scheduler.states) > before:
            self.options.journal("state", study=self.scheduler.plan.study, number=len(self.scheduler.states) - 1)

    def _fails(self, work: Callable[[], None]) -> bool:
        """True if the work fails, as on a full disk: nothing changes then, and readyz says so."""
        try:
            work()
        except Exception:
            return True
        return False

    broken = False

    def _look(self, asked: float = math.inf) -> None:
        """Read who may send and who may read, which other commands change; once for all who `asked` meanwhile."""
        with self._looking:
            began, store = time.monotonic(), self.scheduler.store
            if self._looked > asked:
                return
            now = store.issuers()
            self.revoked, self.access = store.taken_back(), access.granted(store, self.scheduler.clock())
            secrets: dict[int, bytes | None] = {k: None for k in now}
            for k, v in now.items():
                with suppress(OptionError):
                    secrets[k] = self.secrets.get(k) if self._kept.get(k) == v else opened(v)
            self.secrets, self._kept, self._looked = secrets, now, began

    # --- for devices -----------------------------------------------------------------------------------

    async def plan(self, request: Request) -> Response:
        """The signed plan, which never changes."""
        tag = f'"{wire.base(self.scheduler.study_hash)}"'
        headers = {"ETag": tag, "Cache-Control": "public, max-age=86400, immutable"}
        if request.headers.get("if-none-match") == tag:
            return Response(status_code=304, headers=headers)
        return Response(self.scheduler.envelope, headers=headers, media_type="application/json")

    async def state(self, request: Request) -> Response:
        """The present state, by ETag."""
        self._has_begun()
        if self.scheduler.is_open and self.scheduler.clock() > self.scheduler.plan.closes:  # see `Clock`
            raise Problem(503, "The study is about to close.", 60)
        held = self.scheduler.present
        tag = f'"{held.k}"'
        headers = {"ETag": tag, "Cache-Control": f"public, max-age={STATE_AGE}"}
        if request.headers.get("if-none-match") == tag:
            self.metrics.states.labels("304").inc()
            return Response(status_code=304, headers=headers)
        self.metrics.states.labels("200").inc()
        self.writer.count(f"fetched.{held.k}")
        return Response(held.envelope, headers=headers, media_type="application/json")

    async def past(self, request: Request) -> Response:
        """A state that was published."""
        text = request.path_params["k"]
        if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) >= len(self.scheduler.states):
            raise Problem(404, "There is no such state.")
        headers = {"Cache-Control": "public, max-age=86400, immutable"}
        return Response(self.scheduler.states[int(text)].envelope, headers=headers, media_type="application/json")

    async def _outcome(self, request: Request) -> tuple[str, Any]:
        """Outcome of a post, and the report."""
        began = time.perf_counter()
        try:
            outcome, report = await self._report(request)
        except Problem as e:
            self.metrics.reports.labels(str(e.status)).inc()
            self.writer.count(str(e.status))
            raise
        self.metrics.reports.labels(outcome).inc()
        self.metrics.seconds.observe(time.perf_counter() - began)
        return outcome, report

    def _answer(self, outcome: str) -> Response:
        if outcome == OTHER:
            raise Problem(409, "This token has sent another report before.")
        if outcome == FAILED:
            raise Problem(503, "The report could not be kept; send the same bytes again later.", 5)
        return Response(f'{{"status": "{outcome}"}}', 201 if outcome == NEW else 200, media_type="application/json")

    def _read(self, body: bytes) -> Any:
        """Parse a posted report; raises MessageError."""
        raise NotImplementedError

    def _arrived(self, report: Any, digest: bytes) -> Any:
        """A report as it is stored."""
        raise NotImplementedError

    async def _report(self, request: Request) -> tuple[str, Any]:
        scheduler = self.scheduler
        if request.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise Problem(415, "A report is application/json.")
        body = await body_of(request, scheduler.plan.limit)
        try:
            report = self._read(body)
        except wire.MessageError:
            raise Problem(422, "This is no report of this study; see its plan.") from None
        digest = hashlib.sha256(body).digest()
        self._has_begun()
        try:
            await self._entitled(report.token)
            if not scheduler.takes():
                if scheduler.sealed or scheduler.clock.sure:
                    raise Problem(410, "The study has closed.")
                raise Problem(503, "The study may have closed; send the same bytes again later.", 600)
        except Problem:
            # a device whose answer was lost is told the truth, also after its key was taken back
            if await asyncio.to_thread(scheduler.records.has, report.token.id, digest):
                return SAME, report
            raise
        if scheduler.role_of(report.state) != report.role:
            if report.state == scheduler.asked:  # another process may have published it just now
                self._due.set()
                raise Problem(503, "This state is not known here yet; send the same bytes again later.", 1)
            raise Problem(412 if report.state > scheduler.asked else 422, "No state of this study asks that.")
        return await self._written(self._arrived(report, digest)), report

    async def _written(self, arrived: Any) -> str:
        """Outcome of a report, or of a trial."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[str] = loop.create_future()

        def settle(outcome: str) -> None:
            if not done.done():  # whoever asked may have gone
                done.set_result(outcome)

        try:
            self.writer.put(arrived, lambda outcome: loop.call_soon_threadsafe(settle, outcome))
        except Full:
            raise Problem(503, "Too many reports wait; send the same bytes again later.", 1) from None
        return await done

    def _has_begun(self) -> None:
        if self.scheduler.clock() < self.scheduler.plan.opens:
            raise Problem(425, "The study is not open yet.", 60)
        if not self.scheduler.states:  # with two collectors both must be there
            raise Problem(425, "The first round is about to begin.", 1)

    async def _entitled(self, token: Token) -> None:
        """Refuse tokens that nobody issued; an open study's are the devices' own."""
        if token.key and token.key not in self.secrets:  # it may have been made a moment ago
            try:
                await asyncio.to_thread(self._look, time.monotonic())
            except SQLAlchemyError:
                raise Problem(503, "Keys can't be read now; send the same bytes again later.", 5) from None
        if token.key in self.secrets and self.secrets[token.key] is None:
            raise Problem(503, "The token's key can't be opened now; send the same bytes again later.", 60)
        low, high = self.scheduler.plan.part.people
        good = token.key == 0 or is_good(token, self.secrets, self.scheduler.study_hash)
        good = good and low <= word_of(self.scheduler.study_hash, token.id) < high
        if not good or token.id in self.revoked:
            raise Problem(403, "The token is none of this study's, or was taken back.")

    # --- for analysts ----------------------------------------------------------------------------------

    def allow(self, request: Request, *may: str) -> None:
        """Refuse whoever has no token for one of these; raises `Problem`."""
        has = access.roles_of(self.access, request.headers.get("authorization", ""))
        if not has:
            raise Problem(401, "This needs a token, such as the analyst's token for results.")
        if may and not has & set(may):
            raise Problem(403, "This token is for something else.")

    def _shows(self, request: Request, *, public: bool = False) -> None:
        """Refuse whoever may not read results, but for `public` ones, and all before there is a state."""
        if not public:
            self.allow(request, access.RESULTS)
        if not self.scheduler.states:
            raise Problem(425, "The other collector has not signed the first round yet.", 10)

    async def results(self, request: Request) -> Response:
        """Coefficients with their precision, and what is promised."""
        self._shows(request, public=self.options.public_results)
        return JSONResponse(await asyncio.to_thread(self.found))

    def found(self) -> dict[str, Any]:
        """Answer of `results`; "ready" is false while reports still set the scales."""
        plan, known = self.scheduler.plan, self.scheduler.known()
        head = {
            "study": plan.study, "people": sum(r.reports for r in known.rounds), "issued": known.issued,
            "state": known.state, "open": known.is_open, "mu": list(plan.mu),
        }  # fmt: skip
        return {**head, **picture(self.scheduler.results)}

    # --- for operators ---------------------------------------------------------------------------------

    async def healthz(self, _: Request) -> Response:
        """Liveness: the process answers."""
        return JSONResponse({"status": "ok"})

    async def readyz(self, _: Request) -> Response:
        """Readiness to take reports: an empty trial goes the way of all, at most once a second."""
        states = [await handler.ready() for handler in self.all]
        return JSONResponse({"status": "ready", "state": min(states)})

    async def ready(self) -> int:
        """Number of the present state; raises `Problem` if reports to this analysis can't be taken."""
        scheduler = self.scheduler
        if not (self.writer.is_alive() and self._scheduling.is_alive()) or self.broken:
            raise Problem(503, "Reports can't be kept now.", 5)
        if None in self.secrets.values():
            raise Problem(503, "An issuer's key can't be opened: set its passphrase, and start again.", 60)
        if not (scheduler.takes() or scheduler.sealed or scheduler.clock.sure):
            raise Problem(503, "The clock says that the study has closed, and isn't believed yet.", 60)
        if self._trial is None or (self._trial.done() and time.monotonic() - self._tried >= SECONDS):
            self._tried, self._trial = time.monotonic(), asyncio.ensure_future(self._written(None))
        try:
            fine = await asyncio.wait_for(asyncio.shield(self._trial), PATIENCE / 6.0) != FAILED
        except TimeoutError:
            fine = False
        if not fine:
            raise Problem(503, "Reports can't be kept now.", 5)
        return len(scheduler.states) - 1

    async def close_all(self, request: Request) -> Response:
        """Publish a last state of each analysis, which asks nobody."""
        self.allow(request, access.OPERATE)
        for one in self.all:
            await asyncio.to_thread(one.close)
            one.options.journal("close", analysis=one.scheduler.plan.part.name)
        return JSONResponse({"status": "closed"})

    async def export(self, request: Request) -> Response:
        """Plan, states, sums and counts of all analyses."""
        self.allow(request, access.OPERATE)
        made = {one.scheduler.plan.part.name: await asyncio.to_thread(one.scheduler.exported) for one in self.all}
        return Response(together(made), media_type="application/json")

    async def show_metrics(self, request: Request) -> Response:
        """Numbers in Prometheus' text format."""
        self.allow(request)
        people = [sum((await asyncio.to_thread(handler.scheduler.records.people)).values()) for handler in self.all]
        self.metrics.people.set(sum(people))
        self.metrics.number.set(min(len(handler.scheduler.states) - 1 for handler in self.all))
        return Response(generate_latest(self.metrics.registry), media_type="text/plain; version=0.0.4")

    async def openapi(self, _: Request) -> Response:
        """The interface in OpenAPI, of each analysis."""
        said = self._interface()
        for path in [
            p for p in said["paths"] if p.startswith(f"{BASE}/") and not p.endswith(("/plan", "/close", "/export"))
        ]:
            member = said["paths"].pop(path)
            said["paths"] |= {path.replace(BASE, handler.base): member for handler in self.all}
        return JSONResponse(said)

    def _interface(self) -> dict[str, Any]:
        """The interface of a study with one analysis."""
        said: dict[str, Any] = json.loads(files("privreg_field.service.http").joinpath("openapi.json").read_bytes())
        return said

    # --- together --------------------------------------------------------------------------------------

    def of_study(self) -> list[tuple[str, str, Endpoint]]:
        """Addresses of this kind of study, below `BASE`."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the study; raises `Problem` if that is done elsewhere."""
        raise NotImplementedError

    @property
    def base(self) -> str:
        """Address of the analysis's interface."""
        return BASE + self.scheduler.plan.path

    def common_routes(self) -> list[Route]:
        """Every address that all analyses of the study have in common."""
        whole = [
            ("/healthz", self.healthz),
            ("/readyz", self.readyz),
            ("/metrics", self.show_metrics),
            ("/openapi.json", self.openapi),
        ]
        of_study = [("GET", "/plan", self.plan), ("POST", "/close", self.close_all), ("GET", "/export", self.export)]
        out = [Route(BASE + path, self._of_study(endpoint), methods=[verb]) for verb, path, endpoint in of_study]
        out += [Route(path, endpoint, methods=["GET"]) for path, endpoint in whole]
        return out + dashboard.page_routes(self._of_study)

    def routes(self) -> list[Route]:
        """Every address of this analysis."""
        of_study = [
            ("GET", "/state", self.state),
            ("GET", "/states/{k}", self.past),
            ("GET", "/results", self.results),
            *self.of_study(),
        ]
        out = [Route(self.base + path, self._of_study(endpoint), methods=[verb]) for verb, path, endpoint in of_study]
        return out + dashboard.routes(self.feed, self.base, self._of_study, self._shows)

    def _of_study(self, endpoint: Endpoint) -> Endpoint:
        async def handle(request: Request) -> Response:
            if request.path_params["study"] != self.scheduler.plan.study:
                raise Problem(404, "There is no such study here.")
            if not self.quota.allows(request.client.host if request.client else ""):
                raise Problem(429, "Too many requests from this address; try again later.", 2)
            return await endpoint(request)

        return handle


def together(made: Mapping[str, dict[str, Any]]) -> bytes:
    """Exports of a study's analyses, by name; a study of one has no name for it."""
    return json.dumps(made.get("", {"analyses": made}), indent=1).encode() + b"\n"


async def body_of(request: Request, limit: int, patience: float | None = None) -> bytes:
    """The body, if it is no longer than so many bytes and comes in so many seconds; `PATIENCE` by default."""
    said = request.headers.get("content-length", "")
    if said.isascii() and said.isdecimal() and (len(said) > 9 or int(said) > limit):
        raise Problem(413, "The report is longer than the plan allows.")
    out = b""
    try:
        async with asyncio.timeout(PATIENCE if patience is None else patience):
            async for part in request.stream():
                out += part
                if len(out) > limit:
                    raise Problem(413, "The report is longer than the plan allows.")
    except (ClientDisconnect, TimeoutError):
        raise Problem(400, "The report did not come whole.") from None
    return out


async def _said(_: Request, e: Exception) -> Response:
    assert isinstance(e, Problem)
    return e.response()


async def _other(_: Request, e: Exception) -> Response:
    assert isinstance(e, HTTPException)
    status = e.status_code if e.status_code in TITLES else 400
    return Problem(status, TITLES[status] + ".").response()


def application(*services: Handler) -> Starlette:
    """An application of these handlers, one for each analysis of a study."""
    service, plan = services[0], services[0].scheduler.plan
    service.all = services
    for one in services:
        one.metrics = service.metrics

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            for one in services:
                await stack.enter_async_context(one.lifespan(app))
            yield

    handlers: Any = {Problem: _said, HTTPException: _other}
    app = Starlette(
        routes=[
            *(route for one in services for route in one.routes()),
            *service.common_routes(),
            *survey.routes(plan.study, plan.collectors),
        ],
        middleware=survey.middleware(plan.collectors),
        lifespan=lifespan,
        exception_handlers=handlers,
    )
    app.state.service = service
    return app
