"""A study whose devices add the noise, over HTTP: reports in, results to whoever may read them."""

import asyncio
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from privreg_field.collector import chain as chains
from privreg_field.service.access import CELLS
from privreg_field.service.http.handler import Endpoint, Handler, Options, application
from privreg_field.service.scheduler import Scheduler
from privreg_field.service.store.records import Arrived
from privreg_field.wire import messages, wire


class Service(Handler):
    """Handlers of a study whose devices add the noise."""

    scheduler: Scheduler

    async def reports(self, request: Request) -> Response:
        """One report: 201, or 200 if the same bytes came before."""
        return self._answer((await self._outcome(request))[0])

    def _read(self, body: bytes) -> Any:
        """Parse a posted report; raises MessageError."""
        return messages.read_report(body, self.scheduler.plan, self.scheduler.plan_hash)

    def _arrived(self, report: Any, digest: bytes) -> Any:
        """A report as the writer takes it."""
        place = messages.place_of(self.scheduler.plan_hash, report.token)
        group = messages.group_of(self.scheduler.plan, report.role, place)
        values = b"".join(v.to_bytes(4, "little", signed=True) for v in report.values)
        return Arrived(report.token.id, report.state, report.role, group, digest, values)

    async def cells(self, request: Request) -> Response:
        """Sums of reports, from which anybody can make all again: now, and when each state closed."""
        self.allow(request, CELLS)
        return Response(await asyncio.to_thread(self._cells), media_type="application/json")

    def _cells(self) -> bytes:
        scheduler = self.scheduler
        with scheduler.still():  # so that no report answers a state that isn't published
            head = {
                "v": wire.VERSION, "study": scheduler.plan.study, "plan_hash": wire.base(scheduler.plan_hash),
                "state": scheduler.present.k, "issued": scheduler.store.about().issued,
            }  # fmt: skip
            kept = b",".join(scheduler.store.snapshots())
            cells = json.dumps(chains.plain(scheduler.store.cells())).encode()
        return json.dumps(head).encode()[:-1] + b',"snapshots":[' + kept + b'],"cells":' + cells + b"}"

    def close(self) -> None:
        """Close the study."""
        self.scheduler.close()

    def of_study(self) -> list[tuple[str, str, Endpoint]]:
        """Addresses of this kind of study."""
        return [("POST", "/reports", self.reports), ("GET", "/cells", self.cells)]


def make(scheduler: Scheduler, options: Options = Options(), *others: Scheduler) -> Starlette:  # noqa: B008
    """The application that serves a study, with a scheduler for each analysis."""
    return application(*(Service(one, options) for one in (scheduler, *others)))


__all__ = ["Options", "Service", "make"]
