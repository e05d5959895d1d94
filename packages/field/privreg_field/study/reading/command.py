"""``privreg results``: results of a study that is collected elsewhere."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from privreg.errors import InferenceError, OptionError, PrivregError, ReliabilityWarning
from privreg_field.device.client import invitation
from privreg_field.device.consent import plain
from privreg_field.study import keys
from privreg_field.study.reading.connect import connect
from privreg_field.study.reading.several import Studies
from privreg_field.study.running import done, parser_of
from privreg_field.wire.wire import base

_VIEWS: Final = (".txt", ".html", ".md", ".docx", ".tex")  # Endings of files that hold the summary, for reading


def main(arguments: Sequence[str], prog: str = "privreg results") -> int:
    """Run the command; 0 done, 2 an error that the message explains."""
    return done(parser_of("results", prog), arguments, _run)


def _run(a: argparse.Namespace) -> str:
    if a.key is None and not any(map(_pinned, a.url)):
        raise OptionError("give --key, the public key that has signed the plan, or an address with #k=...")
    key = None if a.key is None else base(keys.given(a.key, "--key"))
    tokens = [Path(file) for file in a.token or ()]
    study = connect(a.url, tokens if len(tokens) > 1 else tokens[0] if tokens else None, key=key)
    print(study, end="\n\n", flush=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)  # the summary says it
        names: list[Any] = (
            [a.analysis] if a.analysis is not None else list(study) if isinstance(study, Studies) else [None]
        )
        if len(names) > 1 and a.out:
            raise OptionError(f"--out is of one analysis; name it: --analysis {' or '.join(map(str, names))}.")
        for name in names[:-1]:
            print(f"{name}:\n\n{_summary(study, name)}\n")
        if len(names) > 1:
            print(f"{names[-1]}:\n")
        res: Any = study.results(names[-1])
    saved = [name for name in a.out if Path(name).suffix.lower() not in _VIEWS]
    whole = f"privreg.load({saved[0]!r}).privacy" if saved else "privreg.load(FILE).privacy, if --out FILE is given"
    summary = replace(res.summary(), whole=whole)
    print(summary)
    problems = []
    for name in a.out:  # one that can't be written doesn't cost the others
        try:
            (res if name in saved else summary).save(name)
        except PrivregError as e:
            problems.append(plain(str(e)))
    if problems:
        raise OptionError(" ".join(problems))
    return ""


def _summary(study: Any, name: str | None) -> str:
    """The summary of an analysis, or why there is none yet."""
    try:
        whole = f"privreg.load(FILE).privacy, if --analysis {name} --out FILE is given"
        return str(replace(study.results(name).summary(), whole=whole))
    except InferenceError as e:
        return plain(str(e))


def _pinned(url: str) -> bool:
    """Whether an address has the key itself; one that is none is refused by whoever connects."""
    try:
        return invitation(url).key != ""
    except ValueError:
        return True
