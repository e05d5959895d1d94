"""The survey's page and the JavaScript device, served as they are: files of `web`, under a strict policy.

The page knows its study by its own address, and the key and the token by the part after #, which no browser sends.
"""

import gzip
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from privreg_field.wire.collectors import Collector

FOLDERS: Final = ("survey", "device")
KINDS: Final = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)
HEADERS: Final = {
    "Content-Security-Policy": POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
"""Headers of every page: they allow this server's files and interface, and those of two collectors, alone."""


class _File(NamedTuple):
    data: bytes
    small: bytes  # Compressed
    kind: str
    tag: str


def _found() -> dict[str, _File]:
    """Files by folder and name."""
    out = {}
    for folder in FOLDERS:
        for one in files("privreg_field.service").joinpath("web", folder).iterdir():
            kind = KINDS.get(one.name.rpartition(".")[2])
            if kind is not None:
                data = one.read_bytes()
                tag = f'"{hashlib.sha256(data).hexdigest()[:32]}"'
                out[f"{folder}/{one.name}"] = _File(data, gzip.compress(data, mtime=0), kind, tag)
    return out


def _origins(collectors: Sequence[Collector]) -> list[str]:
    """Origins of both collectors' servers, as browsers write them."""
    return [f"{p.scheme}://{p.netloc.lower()}" for p in (urlsplit(c.url) for c in collectors)]


def middleware(collectors: Sequence[Collector]) -> list[Middleware]:
    """Lets the page at one of two collectors post shares to the other; nothing if there are none."""
    said: dict[str, Any] = {"allow_headers": ["Content-Type"], "expose_headers": ["Retry-After"]}
    if not collectors:
        return []
    return [Middleware(CORSMiddleware, allow_origins=_origins(collectors), allow_methods=["GET", "POST"], **said)]


def _answer(request: Request, file: _File, policy: str) -> Response:
    headers = {**HEADERS, "Content-Security-Policy": policy, "ETag": file.tag, "Vary": "Accept-Encoding"}
    if request.headers.get("if-none-match") == file.tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        return Response(file.small, headers={**headers, "Content-Encoding": "gzip"}, media_type=file.kind)
    return Response(file.data, headers=headers, media_type=file.kind)


def routes(study: str, collectors: Sequence[Collector] = ()) -> list[Route]:
    """Addresses of a study's page, /studies/{study}/ and its files below; the page posts shares to two `collectors`."""
    found = _found()
    policy = POLICY.replace("connect-src 'self'", " ".join(["connect-src 'self'", *_origins(collectors)]))

    async def page(request: Request) -> Response:
        """The page; what it shows comes from the signed plan."""
        if request.path_params["study"] != study:
            raise HTTPException(404)
        return _answer(request, found["survey/survey.html"], policy)

    async def slash(request: Request) -> Response:
        """To the page's address: its files' are relative."""
        if request.path_params["study"] != study:
            raise HTTPException(404)
        return RedirectResponse(f"{study}/", 308)

    async def file(request: Request) -> Response:
        """A file of the page or of the device."""
        name = "{folder}/{name}".format(**request.path_params)
        if request.path_params["study"] != study or name not in found:
            raise HTTPException(404)
        return _answer(request, found[name], policy)

    paths = (("", slash), ("/", page), ("/{folder}/{name}", file))
    return [Route(f"/studies/{{study}}{p}", f, methods=["GET"], include_in_schema=False) for p, f in paths]
