"""Bearer tokens of those who read results or operate a collector: who may what. Only their hashes are kept.

They are in the database, where `serve` reads them every second. The study's first token is its analyst's.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Collection, Sequence
from typing import Final

from privreg.errors import OptionError, choose
from privreg.files.archive import write_bytes
from privreg_field.service.store import Store
from privreg_field.service.store.records import Access

RESULTS, CELLS, OPERATE = "results", "cells", "operate"
ROLES: Final = (RESULTS, CELLS, OPERATE)
"""Read results, read the sums that they follow from, close and export the study."""

HOURS: Final = 24.0  # For which a token still counts after another has taken its place


def first_of(token: str) -> Access:
    """The first token of a study."""
    return Access(_hash(token), "analyst", (RESULTS, CELLS))


def _hash(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


def granted(store: Store, now: float) -> list[Access]:
    """Tokens that count `now`, in seconds since 1970 UTC."""
    return [one for one in store.access() if one.until is None or now < one.until]


def roles_of(known: Collection[Access], authorization: str) -> set[str]:
    """Roles of the bearer of a request's header; none if the token is unknown."""
    kind, _, given = authorization.partition(" ")
    digest = _hash(given.strip())
    return {
        may
        for one in known
        if hmac.compare_digest(one.digest, digest) and kind.lower() == "bearer"
        for may in one.may
    }  # fmt: skip


def grant(store: Store, now: float, name: str, may: Sequence[str], out: str) -> None:
    """Make a token, and write it to the new file `out`. Raises OptionError if the name is taken."""
    if any(one.name == name for one in granted(store, now)):
        raise OptionError(f"there is a token {name!r} already; give another --name, or use rotate-token.")
    store.grant([_made(out, name, tuple(dict.fromkeys(may)))], without=name)


def rotate(store: Store, now: float, name: str, out: str, hours: float = HOURS) -> None:
    """Make a token in place of one, which counts for some hours more."""
    if not 0.0 <= hours < 1e6:
        raise OptionError(f"--hours {hours:g} must be 0 or more.")
    known, end = _named(store, now, name), int(now + hours * 3600.0)
    old = [one._replace(until=min(one.until or end, end)) for one in known]
    store.grant([*old, _made(out, name, known[-1].may)], without=name)


def revoke(store: Store, now: float, name: str) -> None:
    """Take the tokens of a name back at once."""
    _named(store, now, name)
    store.grant([], without=name)


def _named(store: Store, now: float, name: str) -> list[Access]:
    """Tokens of a name: the newest comes last."""
    known = granted(store, now)
    choose("--name", name, sorted({one.name for one in known}))
    return sorted((one for one in known if one.name == name), key=lambda one: one.until is None)


def _made(out: str, name: str, may: tuple[str, ...]) -> Access:
    """A new token, which is written first."""
    token = secrets.token_urlsafe(32)
    write_bytes(out, token.encode() + b"\n", secret=True, new=True)
    return Access(_hash(token), name, may)
