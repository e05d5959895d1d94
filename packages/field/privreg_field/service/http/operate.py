"""What whoever operates a collector asks for over HTTP: to close the study, and what there is of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from privreg_field.collector import chain as chains
from privreg_field.service.access import OPERATE
from privreg_field.service.course import Course
from privreg_field.wire.wire import base


class Operated(Protocol):
    """A desk, as far as it is operated."""

    all: Sequence[Any]  # Desks of the study's analyses

    def allow(self, request: Request, *may: str) -> None:
        """Refuse whoever has no token for one of these."""


def exported(course: Course) -> dict[str, Any]:
    """Plan, states, sums and counts, for anybody to recompute."""
    with course.still():
        return {
            "plan": json.loads(course.envelope),
            "states": [json.loads(s.envelope) for s in course.states],
            "snapshots": [json.loads(s) for s in course.store.snapshots()],
            "cells": chains.plain(course.store.cells()),
            "counts": [{"minute": m, "outcome": n, "count": k} for m, n, k in course.store.counts()],
            "plan_hash": base(course.plan_hash),
        }


def together(made: Mapping[str, dict[str, Any]]) -> bytes:
    """What is exported of a study's analyses, by name; a study of one has no name for it."""
    return json.dumps(made.get("", {"analyses": made}), indent=1).encode() + b"\n"


def routes(desk: Operated) -> list[tuple[str, str, Callable[[Request], Awaitable[Response]]]]:
    """Verbs, addresses and handlers, of all analyses together."""

    async def close(request: Request) -> Response:
        """Publish a last state that asks nobody."""
        desk.allow(request, OPERATE)
        for one in desk.all:
            await asyncio.to_thread(one.close)
            one.options.journal("close", analysis=one.course.plan.part.name)
        return JSONResponse({"status": "closed"})

    async def export(request: Request) -> Response:
        """Plan, states, sums and counts."""
        desk.allow(request, OPERATE)
        made = {one.course.plan.part.name: await asyncio.to_thread(one.exported) for one in desk.all}
        return Response(together(made), media_type="application/json")

    return [("POST", "/close", close), ("GET", "/export", export)]
