"""The command line: ``privreg fit``, ``means``, ``show``, ``data``, ``plan`` and ``schema``.

Only the standard library and the error classes are imported here and by `verbs`; numpy, pandas and the
compiler wait until a verb runs, so that ``--help`` answers at once. Nothing printed quotes a row: errors of
:mod:`privreg.errors` never do, and the text of any other exception is withheld.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from privreg.base.optional import FIELD, added, find
from privreg.cli.output import FAILED, complain
from privreg.cli.parser import parsers, spread
from privreg.cli.verbs import VERBS
from privreg.errors import (
    DataError,
    OptionError,
    PrivacyLeakWarning,
    PrivregError,
    PrivregWarning,
    ReliabilityWarning,
    choose,
)
from privreg.options.table import of_verb

INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141  # what a shell reports for a writer whose reader has gone
UNEXPECTED: Final = 70


def _where(error: BaseException) -> str:
    """Say where in privreg an exception came from, without its text."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if any(folder.name in {"privreg", "privreg_field"} for folder in file.parents):
            place = f" at {file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


@contextmanager
def _one_line_warnings() -> Iterator[None]:
    """Print privreg's warnings as one line each; others are left out, since their text could quote a value."""
    said = set()

    def show(message: Warning | str, *_: object, **__: object) -> None:
        line = f"privreg: warning: {' '.join(str(message).split())}"
        if line not in said:  # declarations are read more than once
            said.add(line)
            print(line, file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (PrivacyLeakWarning, PrivregWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


def _run(arguments: Sequence[str]) -> int:
    first, *rest = arguments or ["--help"]
    more = None if first in VERBS or first.startswith("-") else find("verbs", first)
    if more is not None:  # it has no option of the table
        return int(more(rest))
    others = dict[str, str]()
    for name in added("verbs") if first in {"-h", "--help"} else ():
        if name not in VERBS:
            others[name] = "which can't be imported"  # whatever is wrong with it
            with suppress(Exception):
                others[name] = str(find("verbs", name).about)
    top, verbs = parsers(VERBS, others)
    if first.startswith("-"):
        top.check_options([first])
    elif first == "experiment":
        raise OptionError("the papers' tables and figures are run from a clone, by python -m benchmarks.papers NAME.")
    else:
        verbs[choose("verb", first, [*verbs, *FIELD["verbs"]])].check_options(rest)
    a = top.parse_args(spread([first, *rest]))
    if getattr(a, "quiet", False):  # files say it too
        warnings.simplefilter("ignore", ReliabilityWarning)
    for o in of_verb(a.verb):  # what is outside the range of an option that the command line alone has
        if o.what and not o.doors:
            o.check(getattr(a, o.dest), f"{o.spelt} ")
    return int(VERBS[a.verb](a))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privreg`` with words after its name, those of the process by default; its exit status.

    0 done, 2 an error that was explained on standard error, 3 a fit was done but most records seem to have sent noise
    only, 70 an unexpected error, 130 interrupted, 141 if the reader of standard output has gone.

    Examples
    --------
    >>> main(["--version"])
    privreg 0.2.0
    0
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):  # μ and ‖x‖ must not fail where the terminal can't show them
            stream.reconfigure(errors="replace")
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        with _one_line_warnings():
            return _run(given)
    except PrivregError as e:
        complain(e, given[0] if given else "")
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
        complain(DataError("there is not enough memory."))
        return FAILED
    except Exception as e:
        kind, where = type(e).__name__, _where(e)
        print(
            f"privreg: error: unexpected {kind}{where}; its text is withheld, since it could quote the data. "
            "Please report the command (not the data).",
            file=sys.stderr,
        )
        return UNEXPECTED
