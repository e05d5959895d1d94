"""Requests of a collector's operator: close the study, export it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from privreg_field.collector import chain as chains
from privreg_field.service.access import OPERATE
from privreg_field.service.scheduler import Scheduler
from privreg_field.wire.wire import base


class Operated(Protocol):
    """A handler, as far as operators use it."""

    all: Sequence[Any]  # Handlers of the study's analyses

    def allow(self, request: Request, *may: str) -> None:
        """Refuse whoever has no token for one of these."""


def exported(scheduler: Scheduler) -> dict[str, Any]:
    """Plan, states, sums and counts, for anybody to recompute."""
    with scheduler.still():
        return {
            "plan": json.loads(scheduler.envelope),
            "states": [json.loads(s.envelope) for s in scheduler.states],
            "snapshots": [json.loads(s) for s in scheduler.store.snapshots()],
            "cells": chains.plain(scheduler.store.cells()),
            "counts": [{"minute": m, "outcome": n, "count": k} for m, n, k in scheduler.store.counts()],
            "plan_hash": base(scheduler.plan_hash),
        }


def together(made: Mapping[str, dict[str, Any]]) -> bytes:
    """Exports of a study's analyses, by name; a study of one has no name for it."""
    return json.dumps(made.get("", {"analyses": made}), indent=1).encode() + b"\n"


def routes(handler: Operated) -> list[tuple[str, str, Callable[[Request], Awaitable[Response]]]]:
    """Verbs, addresses and handlers, of all analyses together."""

    async def close(request: Request) -> Response:
        """Publish a last state that asks nobody."""
        handler.allow(request, OPERATE)
        for one in handler.all:
            await asyncio.to_thread(one.close)
            one.options.journal("close", analysis=one.scheduler.plan.part.name)
        return JSONResponse({"status": "closed"})

    async def export(request: Request) -> Response:
        """Plan, states, sums and counts."""
        handler.allow(request, OPERATE)
        made = {one.scheduler.plan.part.name: await asyncio.to_thread(one.exported) for one in handler.all}
        return Response(together(made), media_type="application/json")

    return [("POST", "/close", close), ("GET", "/export", export)]
