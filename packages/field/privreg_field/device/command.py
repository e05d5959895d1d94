"""The command of a respondent: `privreg respond`, and `python -m privreg_device` of the device alone."""

import argparse
import json
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

from .consent import wrapped
from .diary import Diary
from .exchange import Limits, RefusedError
from .memory import Memory, StoreError
from .session import respond

DONE, REFUSED, USAGE, WAITING = 0, 1, 2, 3
LONGEST: Final = 1 << 20
TERMINAL: Final = "/dev/tty"

_ABOUT: Final = """\
Answer a study once. Your answers stay on this device: what is sent is one
report of a few numbers, with random noise, or shared out between two servers
that add noise to sums. You are told the purpose and the guarantee, and asked,
first.
"""
_STATUS: Final = """\
me.json holds your answers by column, of a choice its code: {"age": 41,
"shift": "night"}. --dry-run says what is asked and which answers are allowed.
Of a study of several rows a person it may be a list of them, or --diary FILE
keeps them: begin it without --row, then each call adds a row and asks no server
anything; from the day of reports on a call without --row sends the report.
You are asked about an answer out of bounds first; if you go on, it counts as
the nearest number that is allowed.

exit status: 0 sent, 1 refused (nothing was sent), 2 wrong arguments, 3 stored
and not sent yet: call again.
"""


def _budget(text: str) -> Fraction:
    try:
        value = Fraction(text)
    except (ValueError, ZeroDivisionError):
        value = Fraction(0)
    if value <= 0:
        raise argparse.ArgumentTypeError("a budget is a number above 0")
    return value


def _seconds(text: str) -> float:
    value = float(text)
    if not 0.0 <= value < float("inf"):
        raise argparse.ArgumentTypeError("seconds are a number, 0 or more")
    return value


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=prog,
        description=_ABOUT,
        epilog=_STATUS,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("url", metavar="URL", help="the invitation: https://host/studies/NAME/#k=KEY&t=TOKEN")
    parser.add_argument("--token", help="where the invitation has none")
    parser.add_argument("--key", help="public key of the analyst, where the invitation has none")
    parser.add_argument("--row", metavar="FILE", help="your answers, JSON; - reads standard input")
    parser.add_argument("--diary", metavar="FILE", help="where rows are kept until the study's day for reports")
    parser.add_argument("--dry-run", action="store_true", help="show what is asked and what it costs; send nothing")
    parser.add_argument("--yes", action="store_true", help="agree without being asked")
    parser.add_argument("--memory", metavar="FILE", help="where this device remembers what it has answered")
    parser.add_argument("--most-mu", metavar="MU", type=_budget, default=Limits().mu, help="refuse studies beyond it")
    parser.add_argument(
        "--yearly", metavar="MU", type=_budget, default=Limits().yearly, help="of all studies of a group in a year"
    )
    parser.add_argument(
        "--yearly-total", metavar="MU", type=_budget, default=Limits().total, help="of all studies in a year"
    )
    parser.add_argument(
        "--patience", metavar="SECONDS", type=_seconds, help="go on trying so long; else till it closes"
    )
    return parser


def _answers(name: str | None) -> list[dict[str, Any]]:
    """Rows of a file, of which there is one unless it holds a list; what it holds is in no message."""
    if name is None:
        return []
    row: Any = None
    try:
        with sys.stdin if name == "-" else Path(name).open(encoding="utf-8") as file:
            row = json.loads(file.read(LONGEST))
    except (OSError, ValueError, RecursionError):
        pass
    rows: list[Any] = row if isinstance(row, list) and row else [row]
    if not all(isinstance(one, dict) for one in rows):
        raise RefusedError(
            "the answers must be a JSON object by column, or a list of them, in a file that can be read."
        )
    return rows


def _asked(words: str) -> bool:
    print(words, end=" [y/N] ", flush=True)
    try:
        with Path(TERMINAL).open(encoding="utf-8") as terminal:  # standard input may be the answers
            said = terminal.readline()
    except OSError:
        if not sys.stdin.isatty():
            raise RefusedError("there is no terminal to ask you at; if you agree to the above, add --yes.") from None
        said = input()
    print()
    return said.strip().lower() in {"y", "yes"}


def main(arguments: Sequence[str] | None = None, prog: str = "privreg-device") -> int:
    """Run the command, with the process's arguments by default, under the name `prog`; its exit status."""
    try:
        parser = _parser(prog)
        a = parser.parse_args(arguments)
        if a.row is None and a.diary is None:
            parser.error("the following arguments are required: --row, or --diary")
    except SystemExit as e:
        return USAGE if e.code else DONE
    try:
        out = respond(
            a.url,
            a.token,
            _answers(a.row),
            consent=True if a.yes else _asked,
            key=a.key,
            memory=Memory(a.memory),
            diary=None if a.diary is None else Diary(a.diary),
            limits=Limits(a.most_mu, a.yearly, a.yearly_total),
            patience=a.patience,
            dry_run=a.dry_run,
        )
    except (RefusedError, StoreError) as e:
        print(wrapped(f"{prog}: refused: {e}"), file=sys.stderr)
        return REFUSED
    except KeyboardInterrupt:
        print(f"{prog}: interrupted; what is stored is sent by the next call.", file=sys.stderr)
        return WAITING
    print(out.words)
    return DONE if out.sent or a.dry_run else WAITING
