"""What all commands of whoever collects begin with: options, the signed plan, and its database."""

from __future__ import annotations

import argparse
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from privreg.base.archive import LONGEST, contents, write_bytes
from privreg.errors import OptionError
from privreg_field.service import access
from privreg_field.service.course import opened
from privreg_field.service.store import Store, open_store
from privreg_field.wire.analyses import hash_of_part
from privreg_field.wire.study import PublicPlan

HERE: Final = "127.0.0.1"
PORT: Final = 8000


def database_of(a: argparse.Namespace) -> str:
    """Where the study is kept."""
    return str(a.db or f"sqlite:///{beside_plan(a.plan, a.role, 'db')}")


def beside_plan(plan: str, role: str | None, kind: str) -> Path:
    """A file beside the plan, of one of two collectors if it has a role."""
    return Path(plan).with_suffix(f".{role}.{kind}" if role else f".{kind}")


def plans_of(a: argparse.Namespace) -> tuple[tuple[PublicPlan, ...], bytes]:
    """The plan, for each analysis, and its hash; refuses a role where there is none to play, or none where there is."""
    a.plan = a.plan or a.config_plan
    if a.plan is None:
        raise OptionError('name the signed plan, PLAN, or give it as plan = "FILE" in the file of --config.')
    plans, plan_hash = opened(envelope_of(a.plan))
    said = plans[0]
    if bool(said.collectors) != bool(a.role):
        raise OptionError(
            "this study has two collectors; say which of them this is: --role a, or --role b."
            if said.collectors
            else "this study has one collector; leave --role out."
        )
    return plans, plan_hash


def envelope_of(path: str) -> bytes:
    """The signed plan; raises OptionError."""
    try:
        return contents(path, LONGEST)
    except OSError:
        raise OptionError(f"there is no plan {path!r} that can be read; make one by `privreg study sign`.") from None


def prepared(plan: str, db: str, out: Callable[[str], Any] = print, role: str | None = None) -> list[Store]:
    """Open the database of a signed plan's study at `db`, for each analysis, entering the study if it is new.

    For `db` see `open_store`; `out` prints where the analyst's token is. `role` is "a" or "b" of one of two collectors.

    A token that is there is kept, also for a database that is new: another one may have its hash.
    """
    envelope = envelope_of(plan)
    plans, plan_hash = opened(envelope)
    stores: list[Store] = [open_store(db, one.slug, beside=beside_plan(plan, role, "db")) for one in plans]
    where = beside_plan(plan, role, "analyst")
    fresh = not where.is_file()
    token = secrets.token_urlsafe(32) if fresh else where.read_text("utf-8").strip()
    if not token:  # nobody's, which everybody could give
        raise OptionError(f"{str(where)!r} has no token; delete the file.")
    if fresh and not stores[0].known():  # written first: the database has its hash alone
        write_bytes(where, token.encode() + b"\n", secret=True, new=True)
    first = access.first_of(token)
    entered = [
        store.enter(hash_of_part(plan_hash, one.part.name), envelope, first)
        for store, one in zip(stores, plans, strict=True)
    ]
    if entered[0]:
        did = (
            "Wrote the analyst's token, by which results can be read, to"
            if fresh
            else f"{stores[0]} is new; its token is in"
        )
        out(f"{did} {str(where)!r}.")
    return stores
