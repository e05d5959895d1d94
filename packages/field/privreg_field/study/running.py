"""Frame of a study's commands: arguments parsed, the answer printed, errors explained."""

import argparse
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from privreg.errors import PrivregError
from privreg_field.device.consent import plain
from privreg_field.device.memory import StoreError
from privreg_field.wire.wire import MessageError


@cache
def _said() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("verbs.toml").read_text("utf-8"))


def parser_of(verb: str, prog: str | None = None, **defaults: Any) -> argparse.ArgumentParser:
    """The parser of a verb, as `verbs.toml` describes it, which takes options by their whole names."""
    said, form = _said()[verb], argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog=prog or f"privreg {verb}", description=said.get("about"), epilog=said.get("examples"), allow_abbrev=False,
        formatter_class=form,
    )  # fmt: skip
    if "verbs" in said:
        under = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
        for name, each in said["verbs"].items():
            _add(under.add_parser(name, help=each["about"], allow_abbrev=False), each["options"])
        return parser
    options, common = said["options"], _said()["common"]["options"] if said.get("common") else {}
    _add(parser, {**{name: options[name] for name in options if name == "verb"}, **common, **options})
    parser.set_defaults(**defaults)
    return parser


def _add(parser: argparse.ArgumentParser, options: Mapping[str, Mapping[str, Any]]) -> None:
    for name, how in options.items():
        kind = {"type": {"int": int, "float": float}[how["type"]]} if "type" in how else {}
        parser.add_argument(name, **{"help": argparse.SUPPRESS, **how, **kind})


def done(
    parser: argparse.ArgumentParser, arguments: Sequence[str], run: Callable[[argparse.Namespace], str],
    complete: Callable[[Sequence[str]], Sequence[str]] | None = None,
) -> int:  # fmt: skip
    """Parse, run and print; 0 done, 2 an error that the message explains. `complete` adds what is set elsewhere."""
    try:
        try:
            a = parser.parse_args(arguments) if complete is None else parser.parse_intermixed_args(complete(arguments))
        except SystemExit as e:
            return 2 if e.code else 0
        said = run(a)
        print(said, end="\n" * bool(said), flush=True)
    except (PrivregError, MessageError, StoreError) as e:
        print(f"{parser.prog}: error: {plain(str(e))}", file=sys.stderr)
        return 2
    return 0
