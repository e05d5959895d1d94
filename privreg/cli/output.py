"""Results as the command line prints and writes them."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from privreg.base.version import __version__
from privreg.errors import OptionError, PrivregError
from privreg.options.spelling import in_shell

FAILED: Final = 2
NOTHING: Final = 3  # Results are there, but most records seem to have sent noise only
_KINDS: Final = (".html", ".txt", ".md", ".docx", ".tex", ".csv", ".json", ".privreg")
_STYLE: Final = "body{font-family:sans-serif;margin:2em auto;max-width:64em;padding:0 1em}td,th{padding:.1em .6em}"


class Shown(NamedTuple):
    """Results as they are asked for."""

    res: Any
    summary: Any
    table: Any  # A DataFrame, of tidy()
    head: dict[str, Any]  # Further entries of JSON
    rows: str  # Name of the table in JSON


def complain(problem: PrivregError, verb: str = "") -> None:
    """Print an error as one line, in the command's spelling of what its Python text asks for."""
    print(f"privreg: error: {in_shell(' '.join(str(problem).split()), verb)}", file=sys.stderr)


def alpha(a: argparse.Namespace) -> float:
    """One minus the level of intervals."""
    out = round(1.0 - float(a.level), 12)
    if not 0.0 < out < 1.0:
        raise OptionError(f"level={a.level!r} must be a number in (0, 1), and not nearer to 1 than 1e-12.")
    return out


def targets(a: argparse.Namespace) -> list[Path]:
    """Check where results will go before anybody's budget is spent."""
    found = [Path(name) for name in a.out]
    read = "results that are read" if a.verb == "show" else "data"
    for target in found:
        out, folder = f"--out {str(target)!r}", target.parent
        if target.suffix.lower() not in _KINDS:
            raise OptionError(f"{out}: the kind of file goes by its suffix, one of {', '.join(_KINDS)}.")
        if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise OptionError(f"{out}: give the name of a file in a folder that can be written.")
        for what, kept in {read: a.path, "schema": getattr(a, "schema", None)}.items():
            if kept is not None and target.resolve() == Path(kept).resolve():
                raise OptionError(f"{out} would overwrite the {what}; give another name.")
        if target.suffix.lower() == ".docx":
            from privreg.base.optional import need

            need("docx", "docx", "a .docx file")
    if a.quiet and not found:
        spent = "" if a.verb == "show" else "spend the budget and "
        raise OptionError(f"--quiet without --out would {spent}show nothing; add --out FILE.")
    return found


def deliver(shown: Shown, files: Sequence[Path], a: argparse.Namespace) -> int:
    """Write results and print them; the exit status, which says, as R and statsmodels would, that no record was usable.

    The budget is spent: one file that can't be written must not cost the others, or the summary.
    """
    from dataclasses import replace  # which takes longer than all else of --help

    from privreg.tables import as_html, as_page, as_text, respelt, write

    problems = []
    sources = [*files, Path(a.path)]  # of the whole privacy statement, for users without results in Python
    kept = next((f for kind in (".json", ".privreg") for f in sources if f.suffix.lower() == kind), None)
    whole = "in FILE.json, if --out FILE.json is given" if kept is None else f"in {kept.name}"
    if kept is not None and kept.suffix.lower() == ".privreg":
        whole = f"privreg.load({kept.name!r}).privacy"
    shown = shown._replace(summary=replace(shown.summary, whole=whole, rest="--details"))
    spell = partial(in_shell, verb="fit" if shown.rows == "coefficients" else "means")  # which notes advise on
    parts = respelt(shown.summary._exported(), spell)
    document = {
        "privreg": __version__,
        "formula": a.formula,
        "nobs": shown.res.nobs,
        "level": a.level,
        "reliable": bool(shown.table["reliable"].all()),
        **shown.head,
        shown.rows: shown.table.to_dict("records"),
        "privacy": {**shown.res.privacy.to_json(), "statement": dict(shown.res.privacy.rows())},
    }
    more: dict[str, Callable[[], str]] = {
        ".html": lambda: as_page(a.formula, f"<style>{_STYLE}</style>\n{as_html(parts)}") + "\n",
        ".csv": shown.table._as_csv,
        ".json": lambda: json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n",
    }
    for target in files:
        try:
            if target.suffix.lower() == ".privreg":
                shown.res.save(target)
            else:
                write(target, parts, more, a.formula)
        except PrivregError as e:
            problems.append(e)
    if not a.quiet:
        print(as_text(respelt(shown.summary._layout(), spell)).rstrip("\n"), flush=True)
    for problem in problems:
        complain(problem, a.verb)
    silent = any(note.code == "nonresponse" for note in shown.res.privacy.doubts)  # learned from reports, and printed
    if a.quiet and silent:
        print("privreg: warning: most records seem to have sent noise only; the files say more.", file=sys.stderr)
    return FAILED if problems else NOTHING if silent and a.verb != "show" else 0


def _finite(value: Any) -> Any:
    """Replace what JSON can't say (infinite, not a number) by null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
