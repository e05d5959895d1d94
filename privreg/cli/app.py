"""The command line: ``privreg fit``, ``means``, ``show``, ``data``, ``plan`` and ``schema``.

Only the standard library and the error classes are imported here and by `verbs`; numpy, pandas and the
compiler wait until a verb runs, so that ``--help`` answers at once. Nothing printed quotes a row: errors of
:mod:`privreg.errors` never do, and the text of any other exception is withheld.
"""

import argparse
import os
import re
import sys
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, NoReturn

from privreg import errors
from privreg.base.optional import FIELD, added, find
from privreg.base.version import __version__
from privreg.cli.verbs import FAILED, VERBS, complain
from privreg.options.spelling import in_shell
from privreg.options.table import BUDGET, TABLE, of_verb
from privreg.options.unknown import OPTIONS, TIMES


class _Parser(argparse.ArgumentParser):
    """A parser whose complaints are one line, like every other error of the command."""

    def __init__(self, **given: Any) -> None:
        # Abbreviations are off: an option added later must not change what a script says.
        super().__init__(formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False, **given)

    def error(self, message: str) -> NoReturn:
        hint = ""
        if message.startswith("unrecognized arguments: "):
            hint = "; a formula with blanks goes in quotes; declarations have none: --bounds age=18:65 --levels g=a,b"
            if all(re.search(r"\w\.[a-z]+$", word) for word in message.partition(": ")[2].split()):
                hint = "; DATA is one file or folder, of silos north=north.csv,south=south.csv"
        raise errors.OptionError(f"{message}{hint} (see '{self.prog} --help').")

    def check_options(self, arguments: Iterable[str]) -> None:
        """Name the nearest option before argparse complains about what follows from a misspelt one."""
        known = list(self._option_string_actions)
        for argument in arguments:
            if (option := argument.partition("=")[0]) == "--":
                return
            if option.startswith("--") and option not in known:
                name = option[2:].replace("-", "_")
                ours = [f"--{o.option.replace('_', '-')}" for o in OPTIONS if name in o.names]
                found = errors.nearest(option[2:], [k[2:] for k in known])  # without dashes, in which all are alike
                near = next((o for o in ours if o in known), found and f"--{found}")
                hint = f" Did you mean {near}?" if near else ""
                hint = f" {TIMES.hint[:1].upper()}{TIMES.hint[1:]}." if name in TIMES.names else hint
                raise errors.OptionError(f"there is no option {option}.{hint} '{self.prog} --help' lists them all.")


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
    """Repeat an option for each of its declarations, so that a file's name after them isn't taken for one."""
    out: list[str] = []
    option, first = "", False
    for word in arguments:
        if option and not word.startswith("--") and (first or ("=" in word and "~" not in word)):
            out.append(f"{option}={word}")
            first = False
            continue
        if first:
            out.append(option)  # without a value: argparse refuses it
        option, first = (word, True) if word in _DECLARATIONS else ("", False)
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
            how = {"default": option.default or None, **_KINDS.get(option.kind, {})}
            if option.kind == "flag":
                how.pop("default")
            elif option.metavar is not None:
                how["metavar"] = option.metavar
            if not option.kind.startswith("word"):
                how["dest"] = option.dest
            groups[title].add_argument(option.spelt, help=option.help, **how)
    return top, made


INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141  # what a shell reports for a writer whose reader has gone
UNEXPECTED: Final = 70


def _run(arguments: Sequence[str]) -> int:
    first, *rest = arguments or ["--help"]
    more = None if first in VERBS or first.startswith("-") else find("verbs", first)
    if more is not None:  # it has no option of the table
        return int(more(rest))
    asked = [name for name in added("verbs") if name not in VERBS] if first in {"-h", "--help"} else []
    others = dict.fromkeys(asked, "which can't be imported")  # whatever is wrong with it
    for name in others:
        with suppress(Exception):
            others[name] = str(find("verbs", name).about)
    top, verbs = parsers(VERBS, others)
    if first.startswith("-"):
        top.check_options([first])
    elif first == "experiment":
        raise errors.OptionError("papers' tables and figures are run from a clone by python -m benchmarks.papers NAME.")
    else:
        verbs[errors.choose("verb", first, [*verbs, *FIELD["verbs"]])].check_options(rest)
    a = top.parse_args(spread([first, *rest]))
    if getattr(a, "quiet", False):  # files say it too
        warnings.simplefilter("ignore", errors.ReliabilityWarning)
    for o in of_verb(a.verb):  # what is outside the range of an option that the command line alone has
        if o.what and not o.doors:
            o.check(getattr(a, o.dest), f"{o.spelt} ")
    return int(VERBS[a.verb](a))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privreg`` with words after its name, those of the process by default; its exit status.

    0 done, 2 an error that was explained on standard error, 3 a fit was done but most records seem to have sent noise
    only, 70 an unexpected error, 130 interrupted, 141 if the reader of standard output has gone.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # μ and ‖x‖ must not fail where the terminal can't show them
            stream.reconfigure(errors="replace")
    given, said = list(sys.argv[1:] if arguments is None else arguments), set[str]()
    verb = given[0] if given else ""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = f"privreg: warning: {in_shell(' '.join(str(message).split()), verb)}"
        if line not in said:  # declarations are read more than once
            said.add(line)
            print(line, file=sys.stderr)

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # others than privreg's could quote values
            for kind in (errors.PrivacyLeakWarning, errors.PrivregWarning):
                warnings.simplefilter("always", kind)
            warnings.showwarning = show
            return _run(given)
    except errors.PrivregError as e:
        complain(e, verb)
        return FAILED
    except SystemExit as e:  # --help and --version
        return e.code if isinstance(e.code, int) else 0
    except KeyboardInterrupt as e:
        print(f"privreg: interrupted{'; ' if e.args else ''}{' '.join(map(str, e.args))}.", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # Python flushes standard output at exit and would complain again: give it somewhere to go.
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE
    except MemoryError:
        complain(errors.DataError("there is not enough memory."))
        return FAILED
    except Exception as e:
        files = [(Path(frame.f_code.co_filename), line) for frame, line in walk_tb(e.__traceback__)]
        ours = [f" at {file.name}:{n}" for file, n in files if {"privreg", "privreg_field"} & set(file.parts[:-1])]
        print(
            f"privreg: error: unexpected {type(e).__name__}{''.join(ours[-1:])}; its text is withheld, since it could "
            "quote the data. Please report the command (not the data).",
            file=sys.stderr,
        )
        return UNEXPECTED
