"""HTTP as a device speaks it: HTTPS or this machine, no redirects, no cookies, answers of limited size."""

import random
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import Message
from http.client import HTTPException
from typing import IO, Any, Final, NamedTuple
from urllib.parse import parse_qs, quote, unquote, urlsplit

TIMEOUT: Final = 30.0
LONGEST: Final = 2 << 20  # Bytes of an answer, at most

RETRIED: Final = frozenset({0, 408, 425, 429, 500, 502, 503, 504})
"""Statuses that may pass: no connection (0), or a server that is busy or broken."""

SAID: Final = {
    0: "there is no connection",
    200: "the report had arrived before",
    201: "the report has arrived",
    400: "it can't read what was sent",
    401: "it wants its own analyst's token",
    404: "there is no such study at this address",
    408: "the message came too slowly",
    409: "the token has been used",
    410: "the study has closed, or the round that was answered",
    412: "it has no such round yet",
    413: "the message is too long",
    422: "it is no report of this study",
    425: "the study isn't open yet",
    429: "it was asked too often",
    500: "it has failed",
    502: "the server behind this address doesn't answer",
    503: "it is busy",
    504: "the server behind this address doesn't answer",
}
"""Meanings of a server's statuses; the same in JavaScript, see ``client.js``."""

FIRST_WAIT, LAST_WAIT = 1.0, 3600.0
HERE: Final = frozenset({"localhost", "127.0.0.1", "::1"})


class Invitation(NamedTuple):
    """Parts of a link to a study."""

    base: str  # Address of the study's interface, without a slash at its end
    slug: str
    key: str  # Public key by which plans are verified, base64url; empty if the link has none
    token: str  # Empty if the link has none


class Answer(NamedTuple):
    """A server's answer; status 0 if there was no connection."""

    status: int
    body: bytes
    wait: float = 0.0  # Seconds that it asks to be left in peace


Transport = Callable[[str, bytes | None], Answer]  # Gets an address, or posts bytes to it


def invitation(url: str) -> Invitation:
    """Read https://host/studies/{name}/#k={key}&t={token}; the interface's address, /v1/studies/{name}, does too.

    Raises
    ------
    ValueError
        If it is no address of a study, or not HTTPS (http only to this machine).
    """
    parts = urlsplit(url)
    if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in HERE):
        raise ValueError("a study's address begins with https:// (http:// only on this machine).")
    if parts.username is not None or parts.password is not None or not parts.hostname:
        raise ValueError("a study's address has a host, and no password.")
    path = parts.path.rstrip("/")
    for mark in ("/v1/studies/", "/studies/"):
        before, found, slug = path.rpartition(mark)
        if found and slug and "/" not in slug:
            said = parse_qs(parts.fragment)
            if any(len(said.get(name, ())) > 1 for name in "kt"):
                raise ValueError("a study's address has one key, and one token.")
            base = f"{parts.scheme}://{parts.netloc}{before}/v1/studies/{quote(unquote(slug))}"
            return Invitation(base, unquote(slug), said.get("k", [""])[-1], said.get("t", [""])[-1])
    raise ValueError("a study's address ends in /studies/ and its name.")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Answers of another address are none."""

    def redirect_request(self, req: Any, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str) -> None:
        """Follow nothing: the address that was given is the one that is trusted."""
        del req, fp, code, msg, headers, newurl


def fetch(url: str, body: bytes | None = None) -> Answer:
    """Get an address, or post a JSON body to it."""
    headers = {"User-Agent": "privreg-device/1", "Accept": "application/json"}
    if body is not None:
        headers["Content-Type"] = "application/json"
    local = [urllib.request.ProxyHandler({})] if url.startswith("http:") else []  # to this machine: never by a proxy
    opener = urllib.request.build_opener(NoRedirect, *local)
    request = urllib.request.Request(url, data=body, headers=headers)
    try:
        with opener.open(request, timeout=TIMEOUT) as answer:
            return _answer(int(answer.status), answer, answer.headers)
    except urllib.error.HTTPError as e:
        with e:
            return _answer(int(e.code), e, e.headers)
    except (OSError, HTTPException, ValueError):
        return Answer(0, b"")


def _answer(status: int, answer: Any, headers: Message) -> Answer:
    try:
        body, until = b"", time.monotonic() + TIMEOUT
        while len(body) <= LONGEST and (part := answer.read1(1 << 16)):
            body += part
            if time.monotonic() > until:
                return Answer(0, b"")
    except (OSError, HTTPException):
        return Answer(0, b"")
    said = headers.get("Retry-After", "")
    wait = float(said) if said.isascii() and said.isdigit() and len(said) < 6 else 0.0
    return Answer(status, body, wait) if len(body) <= LONGEST else Answer(413, b"", wait)


def meaning(status: int) -> str:
    """Meaning of a server's answer, in words, with its status.

    Examples
    --------
    >>> meaning(425), meaning(418)
    ("the study isn't open yet (status 425)", 'it answers with status 418')
    """
    if status not in SAID:
        return f"it answers with status {status}"
    return f"{SAID[status]} (status {status})" if status else SAID[status]


def waits(attempt: int, asked: float) -> float:
    """Seconds before the next attempt: doubled each time, with jitter, never less than the server asks."""
    most = min(FIRST_WAIT * 2.0 ** min(attempt, 12), LAST_WAIT)
    return max(random.SystemRandom().uniform(0.5 * most, most), min(asked, LAST_WAIT))


def now() -> float:
    """Seconds since 1970 by this device; no message carries it."""
    return time.time()
