"""Bearer tokens of those who read results or operate a collector: who may what. Only their hashes are kept.

They are in a file beside the database, which `serve` reads every second. The study's first token, for its analyst, is
in the database; if it was taken back, that is noted there among the respondents' tokens that were.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import secrets
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from privreg.errors import OptionError, choose
from privreg.files.archive import write_bytes
from privreg.protocol.messages import ID

if TYPE_CHECKING:
    from privreg.service.store import Store

RESULTS, CELLS, OPERATE = "results", "cells", "operate"
ROLES: Final = (RESULTS, CELLS, OPERATE)
"""Read results, read the sums that they follow from, close and export the study."""

FIRST: Final = "analyst"  # Name of the study's first token
HOURS: Final = 24.0  # For which a token still counts after another has taken its place


class Access(NamedTuple):
    """A token that counts."""

    name: str
    may: tuple[str, ...]
    digest: bytes  # SHA-256 of the token
    until: float | None = None  # Seconds since 1970 UTC when it ends


def granted(store: Store, now: float) -> list[Access]:
    """Tokens that count `now`, in seconds since 1970 UTC.

    Raises
    ------
    OptionError
        If their file can't be read.
    """
    out = [one for one in _read(store.beside("access")) if one.until is None or now < one.until]
    first = bytes(store.about().analyst)
    if first[:ID] not in store.taken_back():
        out.append(Access(FIRST, (RESULTS, CELLS), first))
    return out


def roles_of(known: Collection[Access], authorization: str) -> set[str]:
    """What the bearer of a request's header may do; nothing if the token is none."""
    kind, _, given = authorization.partition(" ")
    digest = hashlib.sha256(given.strip().encode()).digest()
    return {
        may
        for one in known
        if hmac.compare_digest(one.digest, digest) and kind.lower() == "bearer"
        for may in one.may
    }  # fmt: skip


def grant(stores: Sequence[Store], now: float, name: str, may: Sequence[str], out: str) -> None:
    """Make a token for each store of a study, and write it to the new file `out`.

    Raises
    ------
    OptionError
        If the name is taken.
    """
    known = granted(stores[0], now)
    if any(one.name == name for one in known):
        raise OptionError(f"there is a token {name!r} already; give another --name, or use rotate-token.")
    _change(stores, now, (Access(name, tuple(dict.fromkeys(may)), _made(out)),))


def rotate(stores: Sequence[Store], now: float, name: str, out: str, hours: float = HOURS) -> None:
    """Make a token in place of one, which counts for some hours more."""
    if not 0.0 <= hours < 1e6:
        raise OptionError(f"--hours {hours:g} must be 0 or more.")
    known, end = _named(stores[0], now, name), now + hours * 3600.0
    old = [one._replace(until=min(one.until or end, end)) for one in known]
    _change(stores, now, (*old, Access(name, known[-1].may, _made(out))), without=name)


def revoke(stores: Sequence[Store], now: float, name: str) -> None:
    """Take the tokens of a name back at once."""
    _named(stores[0], now, name)
    _change(stores, now, without=name)


def _named(store: Store, now: float, name: str) -> list[Access]:
    """Tokens of a name: the newest comes last."""
    known = granted(store, now)
    choose("--name", name, sorted({one.name for one in known}))
    return sorted((one for one in known if one.name == name), key=lambda one: one.until is None)


def _made(out: str) -> bytes:
    """Hash of a new token, which is written first."""
    token = secrets.token_urlsafe(32)
    write_bytes(out, token.encode() + b"\n", secret=True, new=True)
    return hashlib.sha256(token.encode()).digest()


def _change(stores: Sequence[Store], now: float, more: Sequence[Access] = (), without: str = "") -> None:
    for store in stores:
        path = store.beside("access")
        kept = [one for one in _read(path) if one.name != without and (one.until is None or now < one.until)]
        said = [
            {"name": one.name, "may": list(one.may), "sha256": one.digest.hex(), "until": one.until}
            for one in (*kept, *more)
        ]
        write_bytes(path, json.dumps({"v": 1, "tokens": said}, indent=1).encode() + b"\n", secret=True)
        if without == FIRST:  # after the file: whoever rotates is never without a token
            store.revoke(tokens=[bytes(store.about().analyst)[:ID]])


def _read(path: Path) -> list[Access]:
    try:
        said = json.loads(path.read_bytes())
        found = [Access(d["name"], tuple(d["may"]), bytes.fromhex(d["sha256"]), d["until"]) for d in said["tokens"]]
        fine = said["v"] == 1 and all(
            isinstance(a.name, str) and set(a.may) <= set(ROLES) and len(a.digest) == hashlib.sha256().digest_size
            and (a.until is None or isinstance(a.until, int | float))
            for a in found
        )  # fmt: skip
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        fine = False
    if not fine:
        raise OptionError(f"{str(path)!r} can't be read, or holds no tokens; restore it, or delete it and grant anew.")
    return found
