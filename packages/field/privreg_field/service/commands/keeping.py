"""Verbs of `privreg collector` that look after the database: its version, copies, another place, deletion."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sa

from privreg.base.archive import contents, write_bytes
from privreg.errors import OptionError
from privreg_field.service.store import StoreError, copies, open_store
from privreg_field.service.store import tables as t
from privreg_field.service.store.kept import SEALED, Access
from privreg_field.service.store.sql import BACKUP, Store
from privreg_field.service.store.sqlite import SCHEME
from privreg_field.service.sums.keys import BatchKeys
from privreg_field.wire.study import PublicPlan


def run(
    a: argparse.Namespace, plans: Sequence[PublicPlan], url: str, beside: Path, audit: Callable[[Store], str]
) -> str:
    """Do a verb for the study of some plans, one for each analysis, in the database `url`.

    `audit` checks what a database has of an analysis, says what it found, and raises OptionError.
    """

    def opened(url: str, **how: Any) -> list[Store]:
        return [open_store(url, one.slug, beside=beside, **how) for one in plans]

    return VERBS[a.verb](a, opened, url, audit)


_Open = Callable[..., "list[Store]"]
_Audit = Callable[["Store"], str]


def _migrate(a: argparse.Namespace, opened: _Open, url: str, _: _Audit) -> str:
    stores = opened(url, make=False, old=True)
    store, some = stores[0], [_tokens_beside(one) for one in stores]  # read first: if one can't be, nothing changes
    with ExitStack() as stack:
        if not a.check:
            with store.reading() as c:
                slugs = c.execute(sa.select(t.study.c.slug)).scalars().all()
            for slug in slugs:  # of all studies, whose tables these are
                stack.enter_context(open_store(url, slug, beside=store.path, make=False, old=True).alone())
        found, made = store.migrate(check=a.check)
        if not a.check:
            for one, tokens in zip(stores, some, strict=True):
                known = {token.digest for token in one.access()}
                one.grant([token for token in tokens if token.digest not in known])
                one.beside("access").unlink(missing_ok=True)
    names = ", ".join(sorted({token.name for tokens in some for token in tokens}))
    more = f" Tokens of {names}, which were in {str(store.beside('access'))!r}, are in it." if names else ""
    if a.check and made:
        return "\n".join([f"{store} has version {found}; to bring it to {t.FORMAT}:", *(f"  {x};" for x in made)])
    if a.check and names:
        return f"{store} has version {found}; tokens of {names} are still in {str(store.beside('access'))!r}."
    if not made:
        return (
            f"{store} has version {found}, which is this release's{'.' + more if more else ': nothing is to be done.'}"
        )
    return f"{store} had version {found}, and has {t.FORMAT}.{more}"


def _tokens_beside(store: Store) -> list[Access]:
    """Tokens that earlier releases kept in a file beside the database; none without one.

    Raises OptionError if it can't be read.
    """
    path = store.beside("access")
    try:
        said = json.loads(contents(path))["tokens"]
        return [
            Access(bytes.fromhex(d["sha256"]), d["name"], tuple(d["may"]), d["until"] and int(d["until"])) for d in said
        ]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, KeyError, TypeError):
        why = "can't be read, or holds no tokens; restore it, or delete it and grant anew"
        raise OptionError(f"{str(path)!r} {why}. Nothing was changed.") from None


def _backup(a: argparse.Namespace, opened: _Open, url: str, _: _Audit) -> str:
    store = opened(url, make=False)[0]
    store.about()
    if a.out is None:
        raise OptionError("backup needs --out FILE.")
    count = copies.back_up(store, Path(a.out))
    return f"Wrote {count:,} rows to {a.out!r}; keys of batches are not in it."


def _restore(a: argparse.Namespace, opened: _Open, url: str, audit: _Audit) -> str:
    if a.backup is None:
        raise OptionError("restore needs --from FILE, which privreg collector backup has written.")
    source = opened(SCHEME + a.backup, make=False)[0]
    if copies.moved_to(source) != BACKUP:
        raise StoreError(f"{source} is no backup of this study; privreg collector backup makes one.")
    stores = opened(url)
    if copies.moved_to(stores[0]) is not None:
        stores[0].about()  # refuses: the study goes on elsewhere
    with stores[0].alone():
        for store in stores:  # before anything is there that they could open: no share enters a second sum
            _destroy(BatchKeys(store.beside))
        count = copies.copy(source, stores[0])
        said = [audit(store) for store in stores]
    return "\n".join([f"Restored {count:,} rows to {stores[0]}.", *said])


def _move(a: argparse.Namespace, opened: _Open, url: str, audit: _Audit) -> str:
    if a.to is None:
        raise OptionError("move needs --to URL, a database without the study.")
    sources, targets = opened(url, make=False), opened(a.to)
    source, target = sources[0], targets[0]
    if str(source) == str(target):
        raise OptionError(f"the study is in {source} already; name another database by --to.")
    with source.alone(), target.alone():
        begun = copies.moved_to(source) == str(target)
        if begun and not copies.holds(source):
            raise StoreError(f"the study was moved from {source} to {target} already.")
        copies.fence(source, str(target))  # before the other may be served: no two ever count
        if not (begun and target.known() and copies.moved_to(target) is None):
            copies.copy(source, target)
        for one, other in zip(sources, targets, strict=True):
            _take(BatchKeys(one.beside), BatchKeys(other.beside))
        said = [audit(store) for store in targets]
        copies.clear(source)
    return "\n".join([f"Moved to {target}; give it as --db from now on.", *said])


def _take(old: BatchKeys, new: BatchKeys) -> None:
    """Take keys of batches to another place."""
    for k in old.all():
        if old.path(k).resolve() != new.path(k).resolve():
            write_bytes(new.path(k), old.path(k).read_bytes(), secret=True)
            old.destroy(k)


def _destroy(keys: BatchKeys) -> None:
    for k in keys.all():
        keys.destroy(k)


def _erase(a: argparse.Namespace, opened: _Open, url: str, audit: _Audit) -> str:
    stores = opened(url, make=False)
    if a.role is not None:
        raise OptionError("collectors of a study with two delete shares when their batch is over: nothing is left.")
    for store in stores:
        about = store.about()
        if about.status != SEALED:
            raise OptionError(
                "reports still count: leave privreg serve running until its grace is over for an hour, then erase."
            )
    said = [audit(store) for store in stores]
    count = sum(store.erase() for store in stores)
    return "\n".join([*said, f"Deleted {count:,} reports; sums, states and counts are kept. Delete old backups, too."])


VERBS: Final[dict[str, Callable[[argparse.Namespace, Any, str, _Audit], str]]] = {
    "migrate": _migrate, "backup": _backup, "restore": _restore, "move": _move, "erase": _erase,
}  # fmt: skip
