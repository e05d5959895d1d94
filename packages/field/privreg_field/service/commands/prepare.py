"""Start of every command of a collector: its settings, the signed plan, and the database.

Settings have the names of the options of `privreg serve`, and come from options, the environment, or one file: the
first of them counts. Passwords are read from the environment or from files that it names, never from options, which
the list of processes shows.
"""

import argparse
import os
import re
import secrets
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from privreg.base.archive import LONGEST, contents, write_bytes
from privreg.errors import OptionError, choose
from privreg_field.service import access
from privreg_field.service.access import VARIABLE
from privreg_field.service.scheduler import opened
from privreg_field.service.store import Store, open_store
from privreg_field.wire.analyses import hash_of_part
from privreg_field.wire.study import PublicPlan

HERE: Final = "127.0.0.1"
PORT: Final = 8000


def database_of(a: argparse.Namespace) -> str:
    """Address of the study's database."""
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


PREFIX: Final = "PRIVREG_SERVE_"
"""Prefix of variables: ``PRIVREG_SERVE_PROXY_AT`` has ``proxy-at``; ``PRIVREG_SERVE_CONFIG`` names the file."""

SHARED: Final = ("plan", "db", "role", "state-key")  # Options that other verbs share
FLAGS: Final = ("proxy", "public-results", "shared")
SETTINGS: Final = (*SHARED, "host", "port", "rate", *FLAGS, "proxy-at", "key", "log")

SECRETS: Final = (VARIABLE, "PGPASSWORD")
"""Variables with a password. With _FILE after the name, a variable names a file with it."""

_PASSWORD: Final = re.compile(r"postgresql[^/]*://[^/@]*:[^/@]+@")


def completed(arguments: Sequence[str], names: Sequence[str] = SETTINGS) -> list[str]:
    """Arguments of a verb after those that the environment and the file give it, by the `names` that it knows.

    The plan comes as ``--config-plan``, since a path has no place of its own among options.
    Raises OptionError if a setting is unknown or of the wrong kind, a file can't be read, or a password is among the
    arguments.
    """
    if any(_PASSWORD.search(word) for word in arguments):
        raise OptionError("a password in --db can be seen in the list of processes; put it into ~/.pgpass, or into a "
                          "file that PGPASSWORD_FILE names.")  # fmt: skip
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    first.add_argument("--config", nargs="?", default=os.environ.get(f"{PREFIX}CONFIG"))
    config = first.parse_known_args(list(arguments))[0].config
    found = {**(_of_file(config) if config else {}), **_of_environment(os.environ)}
    _read_secrets()
    out = []
    for name in (n for n in names if n in found):
        value = found[name]
        if name not in FLAGS:
            out.append(f"--{'config-plan' if name == 'plan' else name}={value}")
        elif str(value).lower() not in {"true", "false"}:
            raise OptionError(f"{name} must be true or false.")
        elif str(value).lower() == "true":
            out.append(f"--{name}")
    return [*out, *arguments]


def _of_environment(environment: Mapping[str, str]) -> dict[str, str]:
    said = {k.removeprefix(PREFIX): v for k, v in environment.items() if k.startswith(PREFIX)}
    said.pop("CONFIG", None)
    allowed = {n.upper().replace("-", "_"): n for n in SETTINGS}
    return {allowed[choose(f"variable {PREFIX}", k, allowed)]: v for k, v in said.items()}


def _of_file(path: str) -> dict[str, Any]:
    try:
        said = tomllib.loads(contents(path).decode())
    except (OSError, ValueError):
        raise OptionError(f"{path!r} can't be read, or is no TOML; write lines such as port = 8000.") from None
    for name, value in said.items():
        choose(f"setting of {path!r}", name, SETTINGS)
        if not isinstance(value, str | int | float):
            raise OptionError(f"{name} in {path!r} must be a text, a number, true or false.")
    return said


def _read_secrets() -> None:
    """Read passwords from files into the variables where libraries look for them."""
    for name in SECRETS:
        path = os.environ.get(f"{name}_FILE")
        if path and name not in os.environ:
            try:
                os.environ[name] = contents(path).decode().rstrip("\r\n")
            except (OSError, ValueError):
                raise OptionError(f"{name}_FILE names a file that can't be read.") from None
