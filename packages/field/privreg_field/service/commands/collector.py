"""`privreg collector`: whoever looks after what was collected, and who may read it."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

from privreg.base.archive import write_bytes
from privreg.errors import OptionError
from privreg.protocol.sums import LETTERS
from privreg_field.collector import chain as chains
from privreg_field.collector.chain import Cell, Place
from privreg_field.service import access
from privreg_field.service.commands import keeping, settings
from privreg_field.service.commands.prepare import beside_plan, database_of, plans_of, prepared
from privreg_field.service.course import Course
from privreg_field.service.http import operate
from privreg_field.service.store import Store, open_store
from privreg_field.service.sums import command as two
from privreg_field.service.sums.course import SumCourse
from privreg_field.service.tokens import new_secret
from privreg_field.study import keys
from privreg_field.study.running import done, parser_of
from privreg_field.wire.messages import read_token

_ACCESS: Final = {
    "grant": "--name NAME --may ROLE --out FILE", "rotate-token": "--name NAME --out FILE",
    "revoke-token": "--name NAME alone", "list-tokens": "",
}  # fmt: skip


def collector(arguments: Sequence[str]) -> int:
    """Run ``privreg collector``."""
    parser = parser_of("collector", hours=access.HOURS)
    return done(parser, arguments, _collector, partial(settings.completed, names=settings.SHARED))


def _collector(a: argparse.Namespace) -> str:
    plans, plan_hash = plans_of(a)
    if a.verb == "issuer":
        return two.take_issuer(prepared(a.plan, database_of(a), role=a.role)[0], a.issuer_file, plan_hash)
    beside = beside_plan(a.plan, a.role, "db")
    if a.verb in keeping.VERBS:
        return keeping.run(a, plans, database_of(a), beside, partial(_audited, a))
    stores = {p.part.name: open_store(database_of(a), p.slug, make=False, beside=beside) for p in plans}
    store = stores[plans[0].part.name]
    store.about()  # which refuses what is elsewhere
    if a.verb in _ACCESS:
        return _access(store, a)
    if a.verb == "export":
        made = {name: (two.export(SumCourse(one, None, place=LETTERS.index(a.role))) if plans[0].collectors
                       else operate.exported(Course(one, None))) for name, one in stores.items()}  # fmt: skip
        if a.out is None:
            raise OptionError("export needs --out FILE.")
        write_bytes(a.out, operate.together(made), new=True)
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
        course = SumCourse(store, None, place=LETTERS.index(a.role))
        return two.close(course, a.role) if a.verb == "close" else two.check(course)
    if a.verb == "close":
        Course(store, keys.load(a.state_key or Path(a.plan).with_name("server.key"))).close()
        return "Closed: the last state asks nobody. Reports that answer earlier states count until the grace is over."
    said = [] if a.verb == "replay" else [_check(store)]
    said += [] if a.verb == "check" else [f"{Course(store, None).replay()} states follow from the reports."]
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


def _check(store: Store) -> str:
    """Add up all reports again, with the sums of the same moment."""
    with store.moment():
        return _added_up(store)


def _added_up(store: Store) -> str:
    if store.about().erased is not None:
        people = sum(cell.people for cell in store.cells().values())
        return f"Reports were erased after their sums had been checked; {people:,} people are in them."
    found: dict[Place, Cell] = {}
    waiting: dict[Place, list[bytes]] = {}

    def fold(place: Place) -> None:
        values = waiting.pop(place)
        told = np.frombuffer(b"".join(values), dtype="<i4").reshape(len(values), -1)
        found[place] = chains.add(found.get(place), told, place.role)

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
