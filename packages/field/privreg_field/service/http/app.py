"""A study whose devices add the noise, over HTTP: reports in, results to whoever may read them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response

from privreg_field.collector import chain as chains
from privreg_field.service.access import CELLS
from privreg_field.service.course import Course
from privreg_field.service.http import operate
from privreg_field.service.http.desk import Desk, Handler, Options, application
from privreg_field.service.store import Arrived
from privreg_field.wire import messages, wire


class Service(Desk):
    """Handlers of a study whose devices add the noise."""

    course: Course

    async def reports(self, request: Request) -> Response:
        """One report: 201, or 200 if the same bytes came before."""
        return self._answer((await self._outcome(request))[0])

    def _read(self, body: bytes) -> Any:
        """What was posted; raises MessageError."""
        return messages.read_report(body, self.course.plan, self.course.plan_hash)

    def _arrived(self, report: Any, digest: bytes) -> Any:
        """What was posted as the writer takes it."""
        place = messages.place_of(self.course.plan_hash, report.token)
        return Arrived(
            report.token.id,
            report.state,
            report.role,
            messages.group_of(self.course.plan, report.role, place),
            digest,
            b"".join(v.to_bytes(4, "little", signed=True) for v in report.values),
        )

    async def cells(self, request: Request) -> Response:
        """Sums of reports, from which anybody can make all again: now, and when each state closed."""
        self.allow(request, CELLS)
        return Response(await asyncio.to_thread(self._cells), media_type="application/json")

    def _cells(self) -> bytes:
        course = self.course
        with course.still():  # so that no report answers a state that isn't told
            head = {
                "v": wire.VERSION, "study": course.plan.study, "plan_hash": wire.base(course.plan_hash),
                "state": course.present.k, "issued": course.store.about().issued,
            }  # fmt: skip
            kept = b",".join(course.store.snapshots())
            cells = json.dumps(chains.plain(course.store.cells())).encode()
        return json.dumps(head).encode()[:-1] + b',"snapshots":[' + kept + b'],"cells":' + cells + b"}"

    def close(self) -> None:
        """Close the study."""
        self.course.close()

    def exported(self) -> dict[str, Any]:
        """All there is of it but single reports."""
        return operate.exported(self.course)

    def of_study(self) -> list[tuple[str, str, Handler]]:
        """Addresses of this kind of study."""
        return [("POST", "/reports", self.reports), ("GET", "/cells", self.cells)]


def make(course: Course, options: Options = Options(), *others: Course) -> Starlette:  # noqa: B008
    """The application that serves a study, with a course for each analysis."""
    return application(*(Service(one, options) for one in (course, *others)))


__all__ = ["Options", "Service", "make"]
