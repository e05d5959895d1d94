"""The command line: ``privreg fit``, ``means``, ``data``, ``plan``, ``schema`` and ``experiment``.

Only the standard library and the error classes are imported here; numpy, pandas and the compiler wait until a
verb needs them, so that ``--help`` answers at once. Nothing printed quotes a row: errors of
:mod:`privreg.errors` never do, and the text of any other exception is withheld.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import shlex
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privreg.cli import means, plan, schema
from privreg.cli.options import DATA_SETS, parsers, spread
from privreg.cli.readers import budget, check_order, family, levels, pairs, people
from privreg.cli.words import in_shell
from privreg.errors import (
    DataError,
    OptionError,
    PrivacyLeakWarning,
    PrivregError,
    PrivregWarning,
    ReliabilityWarning,
    choose,
)
from privreg.version import __version__

if TYPE_CHECKING:
    import pandas as pd

    from privreg.results.results import PrivateResults

__all__ = ["main"]

FAILED: Final = 2
INTERRUPTED: Final = 130
BROKEN_PIPE: Final = 141  # what a shell reports for a writer whose reader has gone
UNEXPECTED: Final = 70

# --- writing results ------------------------------------------------------------------------------------


def _text(res: PrivateResults, a: argparse.Namespace) -> str:
    text = str(res.summary(_alpha(a), simultaneous=a.simultaneous).as_text()).rstrip("\n")
    if a.exponentiate:
        table = _tidy(res, a).to_string(index=False, float_format=lambda v: f"{v:.4g}")
        text += f"\n\n{_EXPONENTIATED}\n{table}"
    return text + "\n"


_EXPONENTIATED: Final = "exp(estimate) with the limits exponentiated too; std_error is that of the estimate"


def _html(res: PrivateResults, a: argparse.Namespace) -> str:
    from privreg.tables import as_page

    body = res.summary(_alpha(a), simultaneous=a.simultaneous).as_html()
    if a.exponentiate:
        table = _tidy(res, a).to_html(index=False, border=0, float_format=lambda v: f"{v:.4g}")
        body += f"\n<p>{_EXPONENTIATED}</p>\n{table}"
    return as_page(a.formula, f"<style>{_STYLE}</style>\n{body}") + "\n"


_STYLE: Final = "body{font-family:sans-serif;margin:2em auto;max-width:64em;padding:0 1em}td,th{padding:.1em .6em}"


def _json(res: PrivateResults, a: argparse.Namespace) -> str:
    table = _tidy(res, a)
    document = {
        "privreg": __version__,
        "formula": a.formula,
        "family": repr(res.family),
        "nobs": res.nobs,
        "inference": list(res.methods),
        "level": a.level,
        "simultaneous": a.simultaneous,
        "exponentiated": a.exponentiate,
        "reliable": bool(table["reliable"].all()),
        "coefficients": table.to_dict("records"),
        "privacy": {**res.privacy.to_json(), "statement": dict(res.privacy.rows())},
    }
    return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """Replace what JSON can't say (infinite, not a number) by null."""
    if isinstance(value, dict):
        return {k: _finite(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(v) for v in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


_KINDS: Final[dict[str, Callable[[Any, argparse.Namespace], str] | None]] = {
    ".html": _html,
    ".txt": _text,
    ".tex": lambda res, a: str(res.summary(_alpha(a), simultaneous=a.simultaneous).as_latex()),
    ".csv": lambda res, a: str(_tidy(res, a).to_csv(index=False, lineterminator="\n")),
    ".json": _json,
    ".privreg": None,  # saved by the results themselves
}


def _tidy(res: PrivateResults, a: argparse.Namespace) -> Any:
    return res.tidy(a.exponentiate, alpha=_alpha(a), simultaneous=a.simultaneous)


def _alpha(a: argparse.Namespace) -> float:
    return round(1.0 - float(a.level), 12)


def _targets(a: argparse.Namespace) -> list[Path]:
    """Check where results will go before anybody's budget is spent."""
    targets = [Path(name) for name in a.out]
    for target in targets:
        if target.suffix.lower() not in _KINDS:
            raise OptionError(
                f"--out {str(target)!r}: the kind of file goes by its suffix, one of {', '.join(_KINDS)}."
            )
        folder = target.parent
        if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise OptionError(f"--out {str(target)!r}: give the name of a file in a folder that can be written.")
        for kept, what in ((a.path, "data"), (a.schema, "schema")):
            if kept is not None and target.resolve() == Path(kept).resolve():
                raise OptionError(f"--out {str(target)!r} would overwrite the {what}; give another name.")
        if target.suffix.lower() == ".tex" and a.exponentiate:
            raise OptionError("--exponentiate doesn't reach .tex files; use .html, .txt, .csv or .json.")
    if a.quiet and not targets:
        raise OptionError("--quiet without --out would spend the budget and show nothing; add --out FILE.")
    return targets


def _write(res: PrivateResults, target: Path, a: argparse.Namespace) -> None:
    from privreg.files import archive

    render = _KINDS[target.suffix.lower()]
    try:
        if render is None:
            res.save(target)
        else:
            archive.write_bytes(target, render(res, a).encode())
    except OSError as e:
        raise DataError(f"can't write {str(target)!r} ({e.strerror}).") from None


# --- verbs ----------------------------------------------------------------------------------------------


def _fit(a: argparse.Namespace) -> int:
    if not 0 < a.level < 1:
        raise OptionError(f"--level {a.level:g} must lie in (0, 1); 0.95 gives 95% intervals.")
    if a.step_exponent is not None and not 0 < a.step_exponent < 1:
        raise OptionError(f"--step-exponent {a.step_exponent:g} must lie in (0, 1), above 0.5 for intervals.")
    check_order(a)
    targets = _targets(a)
    loss, own = family(a)
    options: dict[str, Any] = {
        **budget(a),
        **people(a),
        "bounds": pairs("--bounds", a.bounds, "NAME=LOW:HIGH"),
        "levels": levels(a.levels),
        "moments": pairs("--moments", a.moments, "NAME=MEAN:SD"),
    }
    inference: Any = tuple(method.strip() for method in a.inference.split(","))
    if a.inference in {"none", "auto"}:
        inference = None if a.inference == "none" else "auto"

    from privreg.families.builtin import FAMILIES
    from privreg.families.family import check_ratios
    from privreg.regression import PrivateOnlineRegression

    model = PrivateOnlineRegression.from_formula(
        a.formula,
        a.path,
        family=FAMILIES[loss](**own),
        **options,
        schema=a.schema,
        scaling=a.scaling,
        mechanism=a.mechanism,
        private=a.private,
        score_weights=a.score_weights,
        offset=a.offset,
        exposure=a.exposure,
        rows=a.rows,
        allow_leak=tuple(a.allow_leak),
    )
    if a.exponentiate:  # before anybody's budget is spent
        check_ratios(model.family, model.endog_names)
    pace = {"batch_size": a.batch_size, "lanes": a.lanes, "threads": a.threads, "measures": a.measures}
    pace |= {"checkpoint": a.checkpoint, "checkpoint_rows": a.checkpoint_rows, "mended": a.mended or None}
    pace |= {"checkpoint_seconds": a.checkpoint_seconds, "checkpoint_trust": a.trust}
    res = model.fit(
        tuning=a.tuning,
        inference=inference,
        alpha=a.step_exponent,
        step=a.step,
        seed=a.seed,
        progress=False if a.quiet else None,
        **{option: value for option, value in pace.items() if value is not None},
    )
    # The budget is spent: one file that can't be written must not cost the others, or the summary.
    problems = []
    for target in targets:
        try:
            _write(res, target, a)
        except PrivregError as e:
            problems.append(e)
    if not a.quiet:
        print(_text(res, a), end="", flush=True)
    for problem in problems:
        _complain(problem, a.verb)
    return FAILED if problems else 0


def _data(a: argparse.Namespace) -> int:
    name = choose("data set", a.name, DATA_SETS)
    rows, formula = DATA_SETS[name]

    from privreg import datasets

    if name == "us-insurance":
        public, provenance = datasets.us_insurance_schema(), datasets.us_insurance(1).attrs["provenance"]
    else:
        public, provenance = datasets.ride_sharing_schema(), datasets.ride_sharing(1).attrs["provenance"]
    path = Path(a.path)
    if path.suffix.lower() in {".feather", ".arrow", ".ipc"}:
        raise OptionError(f"{a.path!r}: a data set is written as CSV or Parquet; name it .csv or .parquet.")
    if a.schema is not None:
        from privreg.schema.declarations import Schema

        if Path(a.schema).resolve() == path.resolve():
            raise OptionError(f"--schema {a.schema!r} would overwrite the data; give another name.")
        Schema.declare(**public).to_file(a.schema)  # before the rows: a wrong name shows at once
    write = datasets.write_parquet if path.suffix.lower() in {".parquet", ".pq"} else datasets.write_csv
    path = write(name, path, rows if a.rows is None else a.rows, a.seed)
    used = set(re.findall(r"\w+", formula))
    bounds = [f"{c}={low:g}:{high:g}" for c, (low, high) in public["bounds"].items() if c in used]
    levels = [f"{c}={','.join(names)}" for c, names in public["levels"].items() if c in used]
    lines = [f'privreg fit "{formula}" {_quote(str(path))} --mu 1']
    carries = write is datasets.write_parquet
    if a.schema is not None:
        lines.append(f"--schema {_quote(a.schema)}")
    elif not carries:
        lines.append(f"--bounds {' '.join(map(_quote, bounds))}")
        if levels:
            lines.append(f"--levels {' '.join(map(_quote, levels))}")
    public_too = " The file carries its public bounds and levels." if carries else ""
    print(f"Wrote {str(path)!r}. It is a {provenance}.{public_too}\nTo fit it:\n")
    print("  " + " \\\n      ".join(lines), flush=True)
    return 0


def _experiment(a: argparse.Namespace) -> int:
    if a.name is None and not a.listed:
        raise OptionError("give the name of an experiment; 'privreg experiment --list' lists them.")

    from privreg.experiments import EXPERIMENTS, find

    if a.listed:
        for known in EXPERIMENTS.values() if a.name is None else [find(a.name)]:
            cells = known.cells(False)
            print(f"{known.name}: {known.title}")
            print(f"    {known.source}; {len(cells)} cells × {known.replications} replications")
            if a.name is not None:
                print(f"\n{textwrap.fill(known.about, 88)}\n\ncells: {', '.join(c.name for c in cells)}")
        return 0
    experiment, out = find(a.name), Path(a.out)
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {a.out!r} is a file; give the name of a folder.")
    table = experiment(a.reps, jobs=a.jobs, out=out, quick=a.quick, cells=a.cells, again=a.again)
    print(_in_short(table.attrs["tables"].get("compared", table)))
    print(f"\nWhole tables and the figure are in {str(out / 'quick' if a.quick else out)!r}.", flush=True)
    return 0


_ROWS: Final = 24
"""Rows of an experiment's table that are printed; its file has them all."""


def _in_short(table: pd.DataFrame) -> str:
    """What a reader needs of an experiment's table: most people only, what is the same throughout said once."""
    shown = table.replace("", None).dropna(axis=1, how="all")
    lines = []
    if "n" in shown and len(shown) > _ROWS:
        shown = shown[shown["n"] == shown["n"].max()]
    remarks = list(dict.fromkeys(shown["remark"].dropna())) if "remark" in shown else []
    if remarks:
        marks = {remark: f"[{i}]" for i, remark in enumerate(remarks, 1)}
        shown = shown.assign(remark=shown["remark"].map(marks))
    same = [c for c in shown if c != "remark" and len(shown) > 1 and shown[c].nunique(dropna=False) == 1]
    if "efficient_method" in shown and shown["efficient_method"].equals(shown["method"]):
        same.append("efficient_method")
    if same:
        lines.append(", ".join(f"{c} {shown[c].iloc[0]}" for c in same if c != "efficient_method"))
    shown = shown.drop(columns=same)
    lines.append(
        shown.head(_ROWS).to_string(index=False, na_rep="", float_format=lambda v: f"{v:.4g}", max_colwidth=24)
    )
    if len(shown) < len(table) or len(shown) > _ROWS:
        lines.append(
            f"{min(len(shown), _ROWS)} of {len(table)} rows" + (", those of most people" if "n" in same else "")
        )
    return "\n".join([*lines, *(f"[{i}] {remark}" for i, remark in enumerate(remarks, 1))])


def _quote(text: str) -> str:
    """Quote for a shell, with double quotes where these do, since they serve on Windows too."""
    if re.fullmatch(r"[\w./:=,+-]+", text):
        return text
    return shlex.quote(text) if re.search(r'["$`\\!]', text) else f'"{text}"'


# --- the command ----------------------------------------------------------------------------------------


def _complain(problem: PrivregError, verb: str = "") -> None:
    """Print an error as one line, in the command's spelling of what its Python text asks for."""
    _, verbs = parsers()
    message = " ".join(str(problem).split())
    if verb in verbs:
        message = in_shell(message, verbs[verb].options)
    print(f"privreg: error: {message}", file=sys.stderr)


def _where(error: BaseException) -> str:
    """Say where in privreg an exception came from, without its text."""
    place, trace = "", error.__traceback__
    while trace is not None:
        file = Path(trace.tb_frame.f_code.co_filename)
        if file.parent.name == "privreg" or file.parent.parent.name == "privreg":
            place = f" at {file.name}:{trace.tb_lineno}"
        trace = trace.tb_next
    return place


@contextmanager
def _own_warnings() -> Iterator[None]:
    """Print privreg's warnings as one line each; others are left out, since their text could quote a value."""

    def show(message: Warning | str, *_: object, **__: object) -> None:
        print(f"privreg: warning: {' '.join(str(message).split())}", file=sys.stderr)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for kind in (PrivacyLeakWarning, PrivregWarning):
            warnings.simplefilter("always", kind)
        warnings.showwarning = show
        yield


def _run(arguments: Sequence[str]) -> int:
    top, verbs = parsers()
    if not arguments:
        top.print_help()
        return 0
    first, rest = arguments[0], arguments[1:]
    if first.startswith("-"):
        top.check_options([first])
    else:
        verbs[choose("verb", first, verbs)].check_options(rest)
    a = top.parse_args(spread(arguments))
    if getattr(a, "quiet", False):  # files say it too
        warnings.simplefilter("ignore", ReliabilityWarning)
    run = {
        "fit": _fit,
        "means": means.run,
        "data": _data,
        "plan": plan.run,
        "schema": schema.run,
        "experiment": _experiment,
    }
    return run[a.verb](a)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command ``privreg``.

    Parameters
    ----------
    arguments : sequence of str, optional
        Words after the command's name; those of the process by default.

    Returns
    -------
    int
        Exit status: 0 done, 2 an error that was explained on standard error, 70 an unexpected one, 130
        interrupted, 141 if the reader of standard output has gone.

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
        with _own_warnings():
            return _run(given)
    except PrivregError as e:
        _complain(e, given[0] if given else "")
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
        _complain(DataError("there is not enough memory."))
        return FAILED
    except Exception as e:
        kind, where = type(e).__name__, _where(e)
        print(
            f"privreg: error: unexpected {kind}{where}; its text is withheld, since it could quote the data. "
            "Please report the command (not the data).",
            file=sys.stderr,
        )
        return UNEXPECTED
