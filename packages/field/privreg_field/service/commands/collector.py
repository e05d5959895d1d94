"""`privreg collector`: access tokens, audits, closing and export; backups, moves and deletion of the database."""

import argparse
import json
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import sqlalchemy as sa

from privreg.base.archive import contents, write_bytes
from privreg.errors import OptionError
from privreg.protocol.sums import LETTERS
from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cell, Place
from privreg_field.service import access
from privreg_field.service.access import new_secret
from privreg_field.service.commands import prepare
from privreg_field.service.commands.prepare import beside_plan, database_of, plans_of, prepared
from privreg_field.service.http.handler import together
from privreg_field.service.scheduler import Scheduler
from privreg_field.service.store import StoreError, copies, open_store
from privreg_field.service.store import tables as t
from privreg_field.service.store.records import SEALED, Access
from privreg_field.service.store.sql import BACKUP, Store
from privreg_field.service.store.sqlite import SCHEME
from privreg_field.service.sums import app as two
from privreg_field.service.sums.scheduler import SumScheduler
from privreg_field.service.sums.sealing import BatchKeys
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.messages import read_token
from privreg_field.wire.study import PublicPlan

_ACCESS: Final = {
    "grant": "--name NAME --may ROLE --out FILE", "rotate-token": "--name NAME --out FILE",
    "revoke-token": "--name NAME alone", "list-tokens": "",
}  # fmt: skip


def collector(arguments: Sequence[str]) -> int:
    """Run ``privreg collector``."""
    parser = parser_of("collector", hours=access.HOURS)
    return done(parser, arguments, _collector, partial(prepare.completed, names=prepare.SHARED))


def _collector(a: argparse.Namespace) -> str:
    plans, plan_hash = plans_of(a)
    if a.verb == "issuer":
        return two.take_issuer(prepared(a.plan, database_of(a), role=a.role)[0], a.issuer_file, plan_hash)
    beside = beside_plan(a.plan, a.role, "db")
    if a.verb in VERBS:
        return run(a, plans, database_of(a), beside, partial(_audited, a))
    stores = {p.part.name: open_store(database_of(a), p.slug, make=False, beside=beside) for p in plans}
    store = stores[plans[0].part.name]
    store.about()  # which refuses what is elsewhere
    if a.verb in _ACCESS:
        return _access(store, a)
    if a.verb == "export":
        made = {
            name: (SumScheduler(one, None, place=LETTERS.index(a.role)) if a.role else Scheduler(one, None)).exported()
            for name, one in stores.items()
        }
        if a.out is None:
            raise OptionError("export needs --out FILE.")
        write_bytes(a.out, together(made), new=True)
        return f"Wrote plan, states and sums to {a.out!r}; no single report is in it."
    if a.verb != "rotate-keys":
        said = [(name, _audited(a, one)) for name, one in stores.items()]
        if a.verb == "close":
            return said[0][1]
        return "\n".join(f"{name}: {text}" if name else text for name, text in said)
    _, kept = new_secret()
    number = store.issue(kept)
    store.revoke(keys=a.revoke, tokens=[read_token(x).id for x in a.tokens])
    return f"New tokens are made by key {number}; taken back: {len(a.revoke)} keys, {len(a.tokens)} tokens."


def _audited(a: argparse.Namespace, store: Store) -> str:
    """Close an analysis, or check its sums, its states, or both: by the verb."""
    if a.role:
        scheduler = SumScheduler(store, None, place=LETTERS.index(a.role))
        return two.close(scheduler, a.role) if a.verb == "close" else two.check(scheduler)
    if a.verb == "close":
        Scheduler(store, keys.load(a.state_key or Path(a.plan).with_name("server.key"))).close()
        return "Closed: the last state asks nobody. Reports that answer earlier states count until the grace is over."
    with store.moment():  # with the sums of the same moment
        said = [] if a.verb == "replay" else [_added_up(store)]
    said += [] if a.verb == "check" else [f"{Scheduler(store, None).replay()} states follow from the reports."]
    return " ".join(said)


def _access(store: Store, a: argparse.Namespace) -> str:
    """Say, and change, who may read results or operate the server."""
    now = time.time()
    if a.verb == "list-tokens":
        known = access.granted(store, now)
        left = [f", for {(one.until - now) / 3600.0:.1f} hours more" if one.until else "" for one in known]
        return "\n".join(f"{one.name}: {', '.join(one.may)}{more}" for one, more in zip(known, left, strict=True))
    if a.name is None or (a.out is None) != (a.verb == "revoke-token") or bool(a.may) != (a.verb == "grant"):
        raise OptionError(f"{a.verb} needs {_ACCESS[a.verb]}.")
    if a.verb == "grant":
        access.grant(store, now, a.name, a.may, a.out)
    elif a.verb == "rotate-token":
        access.rotate(store, now, a.name, a.out, a.hours)
    else:
        access.revoke(store, now, a.name)
        return f"Tokens of {a.name!r} are taken back."
    return f"Wrote a token of {a.name!r} to {a.out!r}: hand it over, and delete the file."


def _added_up(store: Store) -> str:
    """Add up all reports again, and compare their sums."""
    if store.about().erased is not None:
        people = sum(cell.people for cell in store.cells().values())
        return f"Reports were erased after their sums had been checked; {people:,} people are in them."
    found: dict[Place, Cell] = {}
    waiting: dict[Place, list[bytes]] = {}

    def fold(place: Place) -> None:
        values = waiting.pop(place)
        reports = np.frombuffer(b"".join(values), dtype="<i4").reshape(len(values), -1)
        found[place] = chains.add(found.get(place), reports, place.role)

    count = 0
    for place, values in store.reports():
        waiting.setdefault(place, []).append(values)
        count += 1
        if len(waiting[place]) == 4096:
            fold(place)
    for place in list(waiting):
        fold(place)
    kept = store.cells()
    if chains.plain(kept) != chains.plain(found):
        raise OptionError("the sums are not those of the reports: the database was changed, or is damaged.")
    return f"{count:,} reports in {len(kept)} cells: the sums are right."


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
