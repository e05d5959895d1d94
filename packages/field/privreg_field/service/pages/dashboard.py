"""A study's dashboard: a page for its analyst, and the events behind it.

The page holds nothing of the study: what it shows it asks for with the analyst's token, which it sends in a header.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from importlib.resources import files
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from privreg_field.service.pages import survey
from privreg_field.service.pages.feed import Feed

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {**survey.HEADERS, "Content-Security-Policy": POLICY}

KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "LICENSE": "text/plain"}
FILES: Final = {
    "page.css": "page.css",
    "page.js": "page.js",
    "stream.js": "stream.js",
    "curves.js": "curves.js",
    "view.css": "view.css",
    "view.js": "view.js",
    "uPlot.esm.js": "uplot/uPlot.esm.js",
    "uPlot.min.css": "uplot/uPlot.min.css",
    "uPlot.LICENSE": "uplot/LICENSE",
}
"""What there is to ask for, and where it lies."""

Handler = Callable[["Request"], Awaitable[Response]]


def served(request: Request, path: str) -> Response:
    """A file of the page, by ETag."""
    data = files("privreg_field.service").joinpath("web", "dashboard", *path.split("/")).read_bytes()
    tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
    headers = {**HEADERS, "ETag": tag}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(data, headers=headers, media_type=KINDS[path.rpartition("/")[2].rpartition(".")[2]])


def page_routes(of_study: Callable[[Handler], Handler]) -> list[Route]:
    """Addresses of the dashboard's page; `of_study` wraps a handler: no other study, not too often."""

    async def page(request: Request) -> Response:
        return served(request, "index.html")

    async def part(request: Request) -> Response:
        name = request.path_params["file"]
        if name not in FILES:
            raise HTTPException(404)
        return served(request, FILES[name])

    made = [("/studies/{study}/dashboard", page), ("/studies/{study}/dashboard/{file}", part)]
    return [Route(path, of_study(handler), methods=["GET"]) for path, handler in made]


def routes(
    feed: Feed, base: str, of_study: Callable[[Handler], Handler], allowed: Callable[[Request], None]
) -> list[Route]:
    """Addresses of what the dashboard asks for, below `base`, that of the analysis's interface, with {study}.

    `of_study` wraps a handler: no other study, not too often. `allowed` refuses whoever may not read results.
    """

    async def progress(request: Request) -> Response:
        allowed(request)
        return JSONResponse(await asyncio.to_thread(feed.progress))

    async def events(request: Request) -> Response:
        allowed(request)
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return StreamingResponse(feed.listen(), media_type="text/event-stream", headers=headers)

    made: list[tuple[str, Handler]] = [(f"{base}/progress", progress), (f"{base}/events", events)]
    return [Route(path, of_study(handler), methods=["GET"]) for path, handler in made]
