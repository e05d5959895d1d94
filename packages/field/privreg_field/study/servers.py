"""Servers of a study, as analysts and trials of collectors ask them. What they say is verified by whoever asks."""

import time
import urllib.error
import urllib.request
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from privreg.base.archive import contents
from privreg.errors import OptionError, StudyError
from privreg_field.device import ed25519
from privreg_field.device.client import HERE, NoRedirect, meaning
from privreg_field.wire import wire
from privreg_field.wire.wire import MessageError

TIMEOUT: Final = 60.0
LONGEST: Final = 32 << 20  # Bytes of an answer, at most


class NotThereError(StudyError):
    """A server has nothing at an address."""


class BusyError(StudyError):
    """A server asks to be left in peace for a while."""


class Server(NamedTuple):
    """A study's server, as its analyst asks it."""

    base: str  # Address of its interface
    token: str | None  # The analyst's

    def get(self, path: str) -> bytes:
        """Bytes at a path; see `fetched`."""
        return fetched(self.base, path, self.token)


def token_of(given: str | Path | None) -> str | None:
    """The analyst's token, or that of a file."""
    if given is None:
        return None
    text = str(given)
    try:
        if isinstance(given, Path) or Path(text).is_file():
            text = contents(given).decode()
    except (OSError, UnicodeError, ValueError):
        raise OptionError("the analyst's token is in no file of this name that can be read.") from None
    return text.strip()


def fetched(base: str, path: str, token: str | None = None) -> bytes:
    """Get what a study's server has at an address; raises `StudyError`."""
    headers = {"Accept": "application/json"}
    if token:
        headers["Authorization"] = f"Bearer {token}"
    request = urllib.request.Request(f"{base}/{path}", headers=headers)
    local = [urllib.request.ProxyHandler({})] if urlsplit(base).hostname in HERE else []
    try:
        with urllib.request.build_opener(NoRedirect, *local).open(request, timeout=TIMEOUT) as answer:
            found = _whole(answer, time.monotonic() + TIMEOUT)
    except urllib.error.HTTPError as e:
        with e:
            kind = {404: NotThereError, 429: BusyError, 503: BusyError}.get(e.code, StudyError)
            raise kind(_why(e.code, base)) from None
    except (OSError, HTTPException, ValueError):
        raise StudyError(
            f"the study's server can't be reached at {base}; is it running, and the address right?"
        ) from None
    if len(found) > LONGEST:
        raise StudyError("the study's server says too much.")
    return found


def _whole(answer: Any, until: float) -> bytes:
    """An answer's body, unless it is too long or comes too slowly."""
    out = bytearray()
    while part := answer.read1(1 << 16):
        out += part
        if len(out) > LONGEST:
            break
        if time.monotonic() > until:
            raise TimeoutError
    return bytes(out)


def opened(data: bytes, kind: str, keys: tuple[bytes, ...], *, by_all: bool = False) -> bytes:
    """Payload of an envelope that one of the keys has signed, or all have; raises `StudyError`."""
    try:
        envelope = wire.open_envelope(data, kind)
    except MessageError as e:
        raise StudyError(f"the study's server sends no {kind}: {e}") from None
    message = wire.signed_bytes(kind, envelope.payload)
    signed = [any(ed25519.verify(key, message, sig) for _, sig in envelope.signatures) for key in keys]
    if not (all(signed) if by_all else any(signed)):
        raise StudyError(f"the {kind} is not signed by the key{'s' * by_all} that it should be signed by.")
    return envelope.payload


def _why(status: int, base: str) -> str:
    if status == 401:
        return (
            f"the study's server at {base} wants its own analyst's token: token=..., which privreg serve wrote there "
            "beside the plan."
        )
    if status == 425:
        return (
            f"the study isn't open yet at {base}: it opens on a later day, or its other collector has not signed "
            "the first round; are both running?"
        )
    return f"the study's server at {base} has nothing to give: {meaning(status)}."
