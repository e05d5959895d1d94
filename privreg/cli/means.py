"""The verb ``privreg means``: means and frequencies of a file's columns.

Needs the standard library only until it runs, so that ``--help`` answers at once.
"""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from privreg.errors import DataError, OptionError, PrivregError

if TYPE_CHECKING:
    from privreg.means import MeansResults

__all__ = ["EXAMPLES", "HELP", "USAGE", "add_options", "run"]

USAGE: Final = "privreg means FORMULA DATA --epsilon E --bounds NAME=LOW:HIGH ... [--levels NAME=A,B ...] [options]"
HELP: Final = """\
Estimate means of numbers and frequencies of factors in a CSV, Parquet or
Feather file, one person a row, and print the summary. Every person's device
answers a few of the questions, at random, with noise. Bounds and levels are
public facts, which a Parquet file may carry itself. Every run on the same
people is another release: two runs at epsilon cost twice epsilon, and the
command can't see earlier runs.
"""
EXAMPLES: Final = """\
examples:
  privreg means "age + bmi + C(smoker) ~ 1" people.csv --epsilon 1 \\
      --bounds age=18:65 bmi=18:50 --levels smoker=no,yes --out means.html
  privreg means "income" people.parquet --mu 1 --bounds income=0:200000 \\
      --missing noise
  privreg means "income" people.csv --epsilon 2 --bounds income=0:200000 \\
      --levels region=north,south --by region --by-budget north=1
  privreg means --corrections      (printed numbers of the source, recomputed)
"""
KINDS: Final = (".txt", ".html", ".tex", ".csv", ".json", ".privreg")


def add_options(verb: argparse.ArgumentParser) -> None:
    """Add what the verb takes to its parser."""
    verb.add_argument("formula", metavar="FORMULA", nargs="?", help='such as "age + C(smoker) ~ 1", in quotes')
    verb.add_argument("path", metavar="DATA", nargs="?", help="CSV, Parquet or Feather file, or folder of Parquet")
    verb.add_argument("--corrections", action="store_true", help="print what is corrected in the source, and stop")
    g = verb.add_argument_group("budget per person (exactly one form)")
    g.add_argument("--epsilon", type=float, metavar="E", help="pure epsilon-DP; with --delta (epsilon, delta)-DP")
    g.add_argument("--delta", type=float, metavar="D", help="with --epsilon; 1e-6 is usual")
    g.add_argument("--mu", type=float, metavar="MU", help="Gaussian differential privacy")
    g.add_argument("--rho", type=float, metavar="R", help="zero-concentrated DP")
    g.add_argument("--no-privacy", action="store_true", help="no noise, for teaching and tests; the summary says so")
    g = verb.add_argument_group("public facts (repeatable, several at a time)")
    many: dict[str, Any] = {"action": "append", "default": []}
    g.add_argument("--bounds", metavar="NAME=LOW:HIGH", help="range of a number; values outside are clamped", **many)
    g.add_argument("--levels", metavar="NAME=A,B,...", help="levels of a factor, or of the --by column", **many)
    g.add_argument("--schema", metavar="FILE", help="these facts in a .yaml or .json file")
    g = verb.add_argument_group("mechanism")
    g.add_argument(
        "--mechanism",
        default="auto",
        metavar="M",
        help="laplace, gaussian, duchi, piecewise, square_wave, square_wave_biased, privunit, or auto (default)",
    )
    g.add_argument("--frequencies", default="auto", metavar="F", help="grr, oue, histogram, gaussian or auto (default)")
    g.add_argument("--m", type=int, metavar="M", help="of d items each person is asked m (default: the least noise)")
    g.add_argument("--seed", type=int, metavar="S", help="reproducible noise, for simulation only: it protects nobody")
    g = verb.add_argument_group("people")
    g.add_argument("--by", metavar="COLUMN", help="column of public subgroups, with --levels")
    g.add_argument("--by-budget", metavar="GROUP=E", help="a subgroup's own budget, at most the rest's", **many)
    g.add_argument("--id", metavar="COLUMN", help="column that tells people apart, if some have several rows")
    g.add_argument("--max-per-id", type=int, default=1, metavar="K", help="rows of one person that count (default 1)")
    g.add_argument("--missing", default="noise", metavar="WHAT", help="noise (default), raise or drop")
    g = verb.add_argument_group("output")
    g.add_argument("--level", type=float, default=0.95, metavar="L", help="level of intervals (default 0.95)")
    g.add_argument("--out", metavar="FILE", help="write .txt, .html, .tex, .csv, .json or .privreg", **many)
    g.add_argument("--quiet", action="store_true", help="print nothing but errors; needs --out")


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    from privreg import means
    from privreg.cli.readers import budget, check_order, levels, pairs

    if a.corrections:
        for row in means.corrections().itertuples():
            print(f"{row.where}\n    printed {row.printed:,.2f} | corrected {row.corrected:,.2f} | {row.why}")
        return 0
    if a.formula is None or a.path is None:
        raise OptionError('give a formula and a file: privreg means "age + C(smoker) ~ 1" people.csv --epsilon 1 ...')
    check_order(a)
    if not 0 < a.level < 1:
        raise OptionError(f"--level {a.level:g} must lie in (0, 1); 0.95 gives 95% intervals.")
    targets = _targets(a)
    a.mu_max = None
    declared = levels(a.levels)
    model = means.PrivateMeans.from_formula(
        a.formula,
        a.path,
        **budget(a),
        bounds=pairs("--bounds", a.bounds, "NAME=LOW:HIGH"),
        levels=declared,
        schema=a.schema,
        mechanism=a.mechanism,
        frequencies=a.frequencies,
        m=a.m,
        by=a.by,
        by_budget=_own_budgets(a.by_budget, declared.get(a.by, ())) or None,
        id=a.id,
        max_per_id=a.max_per_id,
        missing=a.missing,
    )
    res = model.fit(seed=a.seed, progress=False if a.quiet else None)
    alpha, problems = round(1.0 - a.level, 12), []
    for target in targets:  # the budget is spent: one file that can't be written must not cost the others
        try:
            _write(res, target, alpha, a.formula)
        except PrivregError as e:
            problems.append(e)
    if not a.quiet:
        print(res.summary(alpha).as_text(), flush=True)
        if a.by is not None:
            print(
                "\n" + res.by_group(alpha=alpha).to_string(index=False, float_format=lambda v: f"{v:.4g}"), flush=True
            )
    if problems:
        raise problems[0]
    return 0


def _own_budgets(given: list[str], groups: Any) -> dict[Any, float]:
    """Read budgets such as ``north=0.5``; a subgroup is named as its level is printed."""
    known, out = {str(g): g for g in groups}, {}
    for item in given:
        name, equals, value = item.rpartition("=")
        try:
            number = float(value)
        except ValueError:
            equals = ""
        if not equals or not name:
            raise OptionError(f"--by-budget: {item!r} must read GROUP=NUMBER, such as --by-budget north=0.5.")
        if name in out or known.get(name) in out:
            raise OptionError(f"--by-budget names {name!r} twice; keep one.")
        out[known.get(name, name)] = number
    return out


def _targets(a: argparse.Namespace) -> list[Path]:
    """Check where results will go before anybody's budget is spent."""
    targets = [Path(name) for name in a.out]
    for target in targets:
        if target.suffix.lower() not in KINDS:
            raise OptionError(f"--out {str(target)!r}: the kind of file goes by its suffix, one of {', '.join(KINDS)}.")
        folder = target.parent
        if target.is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK):
            raise OptionError(f"--out {str(target)!r}: give the name of a file in a folder that can be written.")
        for kept, what in ((a.path, "data"), (a.schema, "schema")):
            if kept is not None and target.resolve() == Path(kept).resolve():
                raise OptionError(f"--out {str(target)!r} would overwrite the {what}; give another name.")
    if a.quiet and not targets:
        raise OptionError("--quiet without --out would spend the budget and show nothing; add --out FILE.")
    return targets


def _write(res: MeansResults, target: Path, alpha: float, formula: str) -> None:
    from privreg.files import archive
    from privreg.tables import as_page

    kind = target.suffix.lower()
    if kind == ".privreg":
        res.save(target)
        return
    summary, table = res.summary(alpha), res.tidy(alpha=alpha)
    if kind == ".json":
        document = {
            "formula": formula,
            "nobs": res.nobs,
            "level": round(1.0 - alpha, 12),
            "reliable": bool(table["reliable"].all()),
            "estimates": table.to_dict("records"),
            "privacy": {**res.privacy.to_json(), "statement": dict(res.privacy.rows())},
        }
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    elif kind == ".html":
        text = as_page(formula, summary.as_html()) + "\n"
    elif kind == ".csv":
        text = str(table.to_csv(index=False, lineterminator="\n"))
    else:
        text = summary.as_latex() if kind == ".tex" else summary.as_text() + "\n"
    try:
        archive.write_bytes(target, text.encode())
    except OSError as e:
        raise DataError(f"can't write {str(target)!r} ({e.strerror}).") from None
