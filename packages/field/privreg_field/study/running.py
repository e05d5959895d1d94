"""How commands of studies run: words parsed, what is to be said printed, errors explained."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from typing import Any

from privreg.errors import PrivregError
from privreg_field.device.consent import plain
from privreg_field.wire.wire import MessageError


def parser_of(prog: str, about: str | None = None, epilog: str | None = None) -> argparse.ArgumentParser:
    """A parser that takes options by their whole names, and prints `epilog` as it stands."""
    form: Any = argparse.RawDescriptionHelpFormatter
    return argparse.ArgumentParser(
        prog=prog, description=about, epilog=epilog, allow_abbrev=False, formatter_class=form
    )


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
    except (PrivregError, MessageError) as e:
        print(f"{parser.prog}: error: {plain(str(e))}", file=sys.stderr)
        return 2
    return 0
