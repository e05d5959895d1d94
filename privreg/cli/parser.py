"""The parser of the command line, made from the table of options and what `help.toml` says of verbs.

Needs the standard library only.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from privreg.base.version import __version__
from privreg.cli.values import as_meant, check_spaces
from privreg.errors import OptionError, nearest
from privreg.options.table import BUDGET, TABLE, Option, of_verb
from privreg.options.unknown import OPTIONS, TIMES


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error of the command."""

    def __init__(self, **given: Any) -> None:
        # Abbreviations are off: an option added later must not change what a script says.
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        hint = ""
        if message.startswith("unrecognized arguments: "):
            words = message.partition(": ")[2].split()
            meant = as_meant("--bounds", words[:3])
            hint = f"; write {meant}, without blanks" if meant else "; a formula with blanks goes in quotes"
            if all(re.search(r"\w\.[a-z]+$", word) for word in words):
                hint = "; DATA is one file or folder, of silos north=north.csv,south=south.csv"
            elif not meant and words[0][:1].isdigit():
                hint = "; declarations have no blanks, as in --bounds age=18:65 day=2020-01-01:2020-12-31"
        raise OptionError(f"{message}{hint} (see '{self.prog} --help').")

    def check_options(self, arguments: Iterable[str]) -> None:
        """Name the nearest option before argparse complains about what follows from a misspelt one."""
        known = list(self._option_string_actions)
        for argument in arguments:
            option = argument.partition("=")[0]
            if option == "--":
                return
            if option.startswith("--") and option not in known:
                name = option[2:].replace("-", "_")
                ours = [f"--{o.option.replace('_', '-')}" for o in OPTIONS if name in o.names]
                near = next((o for o in ours if o in known), None) or nearest(option, known)
                hint = "" if near is None else f" Did you mean {near}?"
                hint = f" {TIMES.hint[:1].upper()}{TIMES.hint[1:]}." if name in TIMES.names else hint
                raise OptionError(f"there is no option {option}.{hint} '{self.prog} --help' lists them all.")


def _number_or(*words: str) -> Callable[[str], float | str]:
    """Reader of a number or one of `words`; without any of a number or the name of a column."""

    def read(text: str) -> float | str:
        try:
            return text if text in words else float(text)
        except ValueError:
            if not words:
                return text
            named = " nor ".join(map(repr, words))
            raise argparse.ArgumentTypeError(f"{text!r} is neither a number nor {named}") from None

    return read


_MANY: Final[dict[str, Any]] = {"action": "append", "default": []}
_KINDS: Final[dict[str, dict[str, Any]]] = {
    "word?": {"nargs": "?"},
    "flag": {"action": "store_true"},
    "number": {"type": float},
    "count": {"type": float},
    "whole": {"type": int},
    "budget": {"type": _number_or()},
    "auto": {"type": _number_or("auto")},
    "scale": {"type": _number_or("auto", "joint")},
    "texts": {"nargs": "+", "action": "extend", "default": []},
    **dict.fromkeys(("pairs", "levels", "numbers", "coefficients", "sizes", "budgets", "files"), _MANY),
}
"""Readers of options for argparse, by kind; others are texts."""

_DECLARATIONS: Final = {
    o.spelt for o in TABLE if o.verbs and o.kind in {"pairs", "levels", "numbers", "coefficients", "sizes"}
}
_TITLES: Final = {("plan", BUDGET): "one of the three: the budget per person (in one form)"}


def spread(arguments: Sequence[str]) -> list[str]:
    """Repeat an option for each of its declarations, so that a file's name after them isn't taken for one.

    Examples
    --------
    >>> spread(["--bounds", "x=0:1", "y=0:2", "people.csv"])
    ['--bounds=x=0:1', '--bounds=y=0:2', 'people.csv']
    """
    out: list[str] = []
    option, first = "", False
    for at, word in enumerate(arguments):
        if option and not word.startswith("--") and (first or ("=" in word and "~" not in word)):
            out.append(f"{option}={word}")
            first = False
            continue
        if first:
            out.append(option)  # without a value: argparse refuses it
        option, first = (word, True) if word in _DECLARATIONS else ("", False)
        if first and arguments[at + 1 : at + 2] and not arguments[at + 1].startswith("--"):
            check_spaces(word, arguments[at + 1 : at + 4])
        if not option:
            out.append(word)
    return [*out, option] if first else out


def parsers(verbs: Iterable[str], added: Mapping[str, str]) -> tuple[_Parser, dict[str, _Parser]]:
    """Build the parser of the command, and those of its verbs by name. Of verbs that are `added` it has a line each."""
    said = tomllib.loads(Path(__file__).with_name("help.toml").read_text("utf-8"))
    more = "".join(f"  {name:<10} {about}\n" for name, about in sorted(added.items())) or said["privreg"]["absent"]
    epilog = f"{said['privreg']['examples']}{said['privreg']['studies']}{more}{said['privreg']['status']}"
    top = _Parser(prog="privreg", description=said["privreg"]["help"], epilog=epilog)
    top.add_argument("--version", action="version", version=f"privreg {__version__}")
    under = top.add_subparsers(dest="verb", title="verbs", metavar="VERB")
    made = {}
    for name in verbs:
        about = said[name]
        made[name] = under.add_parser(
            name, help=about["about"], usage=about.get("usage"), description=about["help"], epilog=about["examples"]
        )
        groups: dict[str, Any] = {"": made[name]}
        for option in of_verb(name):
            title = _TITLES.get((name, option.group), option.group)
            if title not in groups:
                groups[title] = made[name].add_argument_group(title)
            _add(groups[title], option)
    return top, made


def _add(group: Any, option: Option) -> None:
    how = {"default": option.default or None, **_KINDS.get(option.kind, {})}
    if option.kind != "flag" and option.metavar is not None:
        how["metavar"] = option.metavar
    if option.kind == "flag":
        how.pop("default")
    if not option.kind.startswith("word"):
        how["dest"] = option.dest
    group.add_argument(option.spelt, help=option.help, **how)
