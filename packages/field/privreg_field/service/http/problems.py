"""Answers that are no success."""

from __future__ import annotations

import json
from typing import Final

from starlette.responses import Response

PROBLEM: Final = "application/problem+json"

TITLES: Final = {
    400: "Bad request",
    401: "Not authorised",
    403: "Forbidden",
    404: "Not found",
    405: "Method not allowed",
    409: "Token used",
    410: "Closed",
    412: "No such state yet",
    413: "Too large",
    415: "Unsupported media type",
    422: "No report of this study",
    425: "Too early",
    429: "Too many requests",
    503: "Busy",
}


class Problem(Exception):
    """An answer that is no success, after RFC 9457. Its words are fixed: they hold nothing of a request."""

    def __init__(self, status: int, detail: str, wait: int | None = None) -> None:
        super().__init__(detail)
        self.status, self.detail, self.wait = status, detail, wait

    def response(self) -> Response:
        """The problem as a response."""
        said = {"type": "about:blank", "title": TITLES[self.status], "status": self.status, "detail": self.detail}
        headers = {} if self.wait is None else {"Retry-After": str(self.wait)}
        if self.status == 401:
            headers["WWW-Authenticate"] = "Bearer"
        return Response(json.dumps(said), self.status, headers, PROBLEM)
