"""``privreg results``: results of a study that is collected elsewhere."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from privreg.device.consent import plain
from privreg.errors import OptionError, PrivregError, ReliabilityWarning
from privreg.field.connect import connect

__all__ = ["main"]


def main(arguments: Sequence[str], prog: str = "privreg results") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    parser = argparse.ArgumentParser(prog=prog, description="Print what a study has told by now.", allow_abbrev=False)
    parser.add_argument("url", metavar="URL", help="address as in invitations, with #k=")
    parser.add_argument("--token", metavar="FILE", help="file of the analyst's token, which privreg serve wrote")
    parser.add_argument("--key", help="public key that has signed the plan, where the address has none")
    parser.add_argument("--out", metavar="FILE", help="save the results, which privreg.load reads")
    try:
        a = parser.parse_args(arguments)
    except SystemExit as e:
        return 2 if e.code else 0
    try:
        study = connect(a.url, _token(a.token), key=a.key)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)  # the summary says it
            res = study.results()
        print(study, end="\n\n")
        print(res.summary())
        if a.out is not None:
            res.save(a.out)
    except PrivregError as e:
        print(f"{prog}: error: {plain(str(e))}", file=sys.stderr)
        return 2
    return 0


def _token(file: str | None) -> str | None:
    if file is None:
        return None
    try:
        return Path(file).read_text("utf-8").strip()
    except (OSError, UnicodeError):
        raise OptionError(f"there is no file {file!r} with a token that can be read.") from None
