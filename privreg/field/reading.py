"""``privreg results``: results of a study that is collected elsewhere."""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from privreg.device.client import invitation
from privreg.device.consent import plain
from privreg.errors import OptionError, PrivregError, ReliabilityWarning
from privreg.field import keys
from privreg.field.connect import connect
from privreg.protocol.wire import base

__all__ = ["main"]


def main(arguments: Sequence[str], prog: str = "privreg results") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    parser = argparse.ArgumentParser(prog=prog, description="Print what a study has told by now.", allow_abbrev=False)
    parser.add_argument("url", metavar="URL", help="address as in invitations, with #k=")
    parser.add_argument("--token", metavar="FILE", help="file of the analyst's token, which privreg serve wrote")
    parser.add_argument("--key", help="public key that has signed the plan, or its file, where the address has none")
    parser.add_argument("--out", metavar="FILE", help="save the results, which privreg.load reads")
    try:
        a = parser.parse_args(arguments)
    except SystemExit as e:
        return 2 if e.code else 0
    try:
        if a.key is None and not _pinned(a.url):
            raise OptionError("give --key, the public key that has signed the plan, or an address with #k=...")
        study = connect(a.url, None if a.token is None else Path(a.token), key=_key(a.key))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)  # the summary says it
            res = study.results()
        print(study, end="\n\n")
        kept = "FILE" if a.out is None else repr(a.out)
        given = ", if --out FILE is given" if a.out is None else ""
        print(replace(res.summary(), whole=f"privreg.load({kept}).privacy{given}"))
        if a.out is not None:
            res.save(a.out)
    except PrivregError as e:
        print(f"{prog}: error: {plain(str(e))}", file=sys.stderr)
        return 2
    return 0


def _pinned(url: str) -> bool:
    """Whether an address has the key itself; one that is none is refused by whoever connects."""
    try:
        return invitation(url).key != ""
    except ValueError:
        return True


def _key(given: str | None) -> str | None:
    """A public key, written out or that of a file."""
    if given is not None and Path(given).is_file():
        return base(keys.public(keys.load(given)))
    return given
