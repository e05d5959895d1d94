"""How a collector is set up: by options, by the environment, by one file; what is said first counts.

Settings have the names of the options of `privreg serve`. Passwords are read from the environment or from files that it
names, never from options, which whoever may list processes sees.
"""

from __future__ import annotations

import argparse
import os
import re
import tomllib
from collections.abc import Mapping, Sequence
from typing import Any, Final

from privreg.base.archive import contents
from privreg.errors import OptionError, choose
from privreg_field.service.tokens import VARIABLE

PREFIX: Final = "PRIVREG_SERVE_"
"""Of variables with a setting: ``PRIVREG_SERVE_PROXY_AT`` has ``proxy-at``; ``PRIVREG_SERVE_CONFIG`` names the file."""

SHARED: Final = ("plan", "db", "role", "state-key")  # Of other verbs' options, those that mean the same
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
