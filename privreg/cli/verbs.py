"""The verbs of the command line: each reads its options, runs, writes results, and returns the exit status."""

import argparse
import json
import math
import os
import re
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

from privreg.base.version import __version__
from privreg.cli.values import budget, check_order, csv_of, family, floats, given, single
from privreg.errors import OptionError, PrivregError, choose, quietly
from privreg.options.spelling import in_shell, quoted

# --- results as they are printed and written ---------------------------------------------------------------------

FAILED: Final = 2
NOTHING: Final = 3  # Results are there, but most records seem to have sent noise only
_KINDS: Final = (".html", ".txt", ".md", ".docx", ".tex", ".csv", ".json", ".privreg")
_STYLE: Final = "body{font-family:sans-serif;margin:2em auto;max-width:64em;padding:0 1em}td,th{padding:.1em .6em}"


def complain(problem: PrivregError, verb: str = "") -> None:
    """Print an error as one line, in the command's spelling of what its Python text asks for."""
    print(f"privreg: error: {in_shell(' '.join(str(problem).split()), verb)}", file=sys.stderr)


def alpha_of(a: argparse.Namespace) -> float:
    """One minus the level of intervals."""
    out = round(1.0 - float(a.level), 12)
    if not 0.0 < out < 1.0:
        raise OptionError(f"level={a.level!r} must be a number in (0, 1), and not nearer to 1 than 1e-12.")
    return out


def files_of(a: argparse.Namespace) -> list[Path]:
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


def deliver(
    res: Any, summary: Any, table: Any, head: dict[str, Any], rows: str, files: Sequence[Path], a: argparse.Namespace
) -> int:
    """Write results and print them; the exit status, which says, as R and statsmodels would, that no record was usable.

    `head` are further entries of JSON, and `rows` is the name of the table there. The budget is spent: one file that
    can't be written must not cost the others, or the summary.
    """
    from dataclasses import replace  # which takes longer than all else of --help

    from privreg.tables import as_html, as_page, as_text, respelt, write

    problems = []
    sources = [*files, Path(a.path)]  # of the whole privacy statement, for users without results in Python
    kept = next((f for kind in (".json", ".privreg") for f in sources if f.suffix.lower() == kind), None)
    whole = "in FILE.json, if --out FILE.json is given" if kept is None else f"in {kept.name}"
    if kept is not None and kept.suffix.lower() == ".privreg":
        whole = f"privreg.load({kept.name!r}).privacy"
    summary = replace(summary, whole=whole, rest="--details")
    spell = partial(in_shell, verb="fit" if rows == "coefficients" else "means")  # which notes advise on
    parts = respelt(summary._exported(), spell)

    def as_json() -> str:
        document = {
            "privreg": __version__,
            "formula": a.formula,
            "nobs": res.nobs,
            "level": a.level,
            "reliable": bool(table["reliable"].all()),
            **head,
            rows: table.to_dict("records"),
            "privacy": {**res.privacy.to_json(), "statement": dict(res.privacy.rows())},
        }
        return json.dumps(_finite(document), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    more: dict[str, Callable[[], str]] = {
        ".html": lambda: as_page(a.formula, f"<style>{_STYLE}</style>\n{as_html(parts)}") + "\n",
        ".csv": table._as_csv,
        ".json": as_json,
    }
    for target in files:
        try:
            if target.suffix.lower() == ".privreg":
                res.save(target)
            else:
                write(target, parts, more, a.formula)
        except PrivregError as e:
            problems.append(e)
    if not a.quiet:
        print(as_text(respelt(summary._layout(), spell)).rstrip("\n"), flush=True)
    for problem in problems:
        complain(problem, a.verb)
    silent = any(note.code == "nonresponse" for note in res.privacy.doubts)  # learned from reports, and printed
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


DATA_SETS: Final = {
    "us-insurance": (
        1_000_000,
        "charges ~ age + gender + bmi + children + smoker + medical_history + family_medical_history"
        " + exercise_frequency + occupation + coverage_level",
    ),
    "ride-sharing": (50_000, "fare ~ distance + duration + driver_rating + total_rides + vehicle_year + capacity"),
}
"""Default number of rows, and formula."""

# --- results of a file's rows, and of files of results ----------------------------------------------------------


def fit(a: argparse.Namespace) -> int:
    """Fit a regression of a file."""
    check_order(a)
    targets, alpha = files_of(a), alpha_of(a)
    loss, constants = family(a)
    described, asked = {**budget(a), **given(a, "local.formula")}, given(a, "local.fit")
    files: Any = a.path
    if a.trust == "silos":
        files = dict(part.partition("=")[::2] for part in a.path.split(","))
        if not all(files.values()) or len(files) < len(a.path.split(",")):
            raise OptionError("--trust silos takes a file of each silo, by name: north=north.csv,south=south.csv.")
    people = {name: csv_of(a, path) for name, path in files.items()} if a.trust == "silos" else csv_of(a, files)

    from privreg.doors.loading import load_results
    from privreg.doors.regression import PrivateOnlineRegression
    from privreg.families.family import FAMILIES, check_ratios

    model = PrivateOnlineRegression.from_formula(a.formula, people, family=FAMILIES[loss](**constants), **described)
    if a.exponentiate:  # before anybody's budget is spent
        check_ratios(model.family, model.endog_names)
    if "like" in asked:
        asked["like"] = load_results(asked["like"])
    if "covariates" in asked:  # public rows of a file, which is another than the people's
        import pandas as pd

        from privreg.data.sources.open import open_table
        from privreg.privacy.ledger import refuse_shared

        source = open_table(asked["covariates"], model._spec.design.covariates, model.schema)
        if model._source is not None:
            refuse_shared(source.identity, model._source.identity, "--covariates")
        asked["covariates"] = pd.concat([pd.DataFrame(batch) for batch in source.batches(0)], ignore_index=True)
    return _coefficients(model.fit(progress=False if a.quiet else None, **asked), targets, a, alpha)


def _coefficients(res: Any, targets: Sequence[Path], a: argparse.Namespace, alpha: float) -> int:
    """Write and print results of a regression, at the level 1 − `alpha`."""
    how = {"alpha": alpha, "simultaneous": a.simultaneous, "exponentiate": a.exponentiate}
    head = {"family": repr(res.family), "inference": list(res.methods), "simultaneous": a.simultaneous}
    head |= {"exponentiated": a.exponentiate}
    summary, table = res.summary(details=a.details, **how), res.tidy(**how)
    return deliver(res, summary, table, head, "coefficients", targets, a)


def means(a: argparse.Namespace) -> int:
    """Estimate means and frequencies of a file's columns."""
    from privreg.means import PrivateMeans

    check_order(a)
    targets, options, alpha = files_of(a), given(a, "means.formula"), alpha_of(a)
    # a subgroup is named as its level is printed
    groups = {str(g): g for g in options.get("levels", {}).get(a.by, ())}
    budgets = single("--by-budget", a.by_budget, "GROUP=NUMBER, such as --by-budget north=0.5")
    by = {groups.get(name, name): value for name, value in budgets.items()} or None
    model = PrivateMeans.from_formula(a.formula, csv_of(a, a.path), **budget(a), **options, by_budget=by)
    return _estimates(model.fit(progress=False if a.quiet else None, **given(a, "means.fit")), targets, a, alpha)


def _estimates(res: Any, targets: Sequence[Path], a: argparse.Namespace, alpha: float) -> int:
    """Write and print means, those of subgroups after them."""
    summary, table, rows = res.summary(alpha, details=a.details), res.tidy(alpha=alpha), "estimates"
    cells = {res._fit.names[k] for k in res._fit.cells}
    if cells.issuperset(table["term"]):
        table, rows = res.survival().frame(alpha=alpha), "curves"
    status = deliver(res, summary, table, {}, rows, targets, a)
    if res.by is not None and not a.quiet and rows == "estimates":
        shown = res.by_group(alpha=alpha).query("term not in @cells")
        print(f"\n{shown.to_string(index=False, float_format='{:.4g}'.format)}", flush=True)
    return status


def show(a: argparse.Namespace) -> int:
    """Show results that a file keeps."""
    targets, alpha = files_of(a), alpha_of(a)

    from privreg.doors.loading import load_results
    from privreg.means.results.results import MeansResults

    res = load_results(a.path)
    several = isinstance(res, MeansResults)
    a.formula = dict(res.header if several else res._fit.title).get("Formula", a.path)
    if not several:
        return _coefficients(res, targets, a, alpha)
    if a.simultaneous or a.exponentiate:
        option = "--simultaneous" if a.simultaneous else "--exponentiate"
        raise OptionError(f"{option}: these are means and frequencies, not coefficients; leave it out.")
    return _estimates(res, targets, a, alpha)


# --- before there are results ------------------------------------------------------------------------------------


def data(a: argparse.Namespace) -> int:
    """Write a synthetic data set to a file."""
    name = choose("data set", a.name, DATA_SETS)
    rows, formula = DATA_SETS[name]

    from privreg import datasets

    function = name.replace("-", "_")
    public, provenance = getattr(datasets, f"{function}_schema")(), getattr(datasets, function)(1).attrs["provenance"]
    path, carries = Path(a.path), Path(a.path).suffix.lower() in {".parquet", ".pq"}
    if path.suffix.lower() in {".feather", ".arrow", ".ipc"}:
        raise OptionError(f"{a.path!r}: a data set is written as CSV or Parquet; name it .csv or .parquet.")
    if a.schema is not None:
        from privreg.schema.declarations import Schema

        if Path(a.schema).resolve() == path.resolve():
            raise OptionError(f"--schema {a.schema!r} would overwrite the data; give another name.")
        Schema.declare(**public).to_file(a.schema)  # before the rows: a wrong name shows at once
    path = datasets.write(name, path, rows if a.rows is None else a.rows, a.seed)
    used = set(re.findall(r"\w+", formula))
    said = {"bounds": [f"{c}={low:g}:{high:g}" for c, (low, high) in public["bounds"].items() if c in used]}
    said["levels"] = [f"{c}={','.join(names)}" for c, names in public["levels"].items() if c in used]
    if a.schema is not None or carries:
        said = {} if a.schema is None else {"schema": [a.schema]}
    options = [f"--{option} {' '.join(map(quoted, words))}" for option, words in said.items() if words]
    public_too = " The file carries its public bounds and levels." if carries else ""
    print(f"Wrote {str(path)!r}. It is a {provenance}.{public_too}\nTo fit it:\n")
    command = f'  privreg fit "{formula}" {quoted(str(path))} --mu 1'
    print(" \\\n      ".join([command, *options]), flush=True)
    return 0


def schema(a: argparse.Namespace) -> int:
    """Compare a file's columns with public declarations, without a look at its rows; 2 if they differ."""
    from privreg.data.inspect import described, mismatches, template

    how = csv_of(a, a.path)
    written = [] if isinstance(how, str) else [how]
    if choose("what", a.what, ("check", "template")) == "template":
        if a.schema is not None or a.formula is not None:
            raise OptionError("template takes the data alone; name the file to write by --out SCHEMA.")

        from privreg.base import archive

        text = template(a.path, *written)
        if a.out is None:
            print(text, end="", flush=True)
            return 0
        if Path(a.out).suffix.lower() not in {".yaml", ".yml"}:
            raise OptionError(f"--out {a.out!r}: a skeleton is YAML; name it .yaml.")
        if Path(a.out).exists():
            raise OptionError(f"--out {a.out!r} exists, and may have been filled in; give another name.")
        archive.write_bytes(a.out, text.encode())
        print(f"Wrote {a.out!r}; fill in what is public, and delete the other columns.", flush=True)
        return 0
    if a.schema is None or a.out is not None:
        raise OptionError("check takes the data and the schema: privreg schema check DATA SCHEMA [--formula FORMULA].")

    from privreg.formula.language.parse import read_formula
    from privreg.schema.declarations import Schema

    declared = Schema.from_file(a.schema)
    wanted = None if a.formula is None else read_formula(a.formula, {}).columns
    files = described(a.path, *written)
    found = [(file.name, line) for file in files for line in mismatches(declared, file, wanted)]
    count = f"{len(found)} mismatch{'' if len(found) == 1 else 'es'}" if found else "nothing found"
    only_names = all(file.kinds is None for file in files)
    looked = "names of columns (a CSV file has no types)" if only_names else "names and types of columns"
    lines = [f"{a.path} against {a.schema}: {count}", *(f"  {name}: {line}" for name, line in found)]
    print("\n".join(lines), f"\nOnly {looked} were looked at, no row.", sep="", flush=True)
    return 2 if found else 0


def plan(a: argparse.Namespace) -> int:
    """Find people, precision or budget before any data."""
    check_order(a)
    (name, constants), options = family(a), given(a, "plan.formula")

    from privreg.families.family import FAMILIES
    from privreg.planning import power as planning
    from privreg.tables import Table, as_text, in_one_format, respelt

    for option in {"covariates", "pilot"} & set(options):
        options[option] = _public(option, options[option])
    # without an effect a power asks which effects tests of so many records find
    power = options.pop("power", None) if "n" in options and "effect" not in options else None
    options |= budget(a, needed=False)
    found = planning.plan(a.formula, family=FAMILIES[name](**constants), alpha=alpha_of(a), **options)

    def shown(view: Any) -> str:
        return as_text(respelt(view._layout(), partial(in_shell, verb="plan")))

    print(shown(found))
    if power is not None:  # effects that tests find with it
        table = found.table(power=power)
        rows = list(zip(*(in_one_format(table[c], 3) for c in ("std_error", "detectable")), strict=True))
        title = f"Least effects that tests at level {found.alpha:g} find with power {power:g}"
        print(f"\n{as_text([Table(list(table.index), ['std err', 'detectable'], rows, title)])}")
    if a.at_n is not None or a.at_mu is not None:
        import pandas as pd

        read = {}
        for option, text in {"n": a.at_n, "mu": a.at_mu}.items():
            read[option] = None if text is None else floats(text, ",")
            if text is not None and read[option] is None:
                raise OptionError(f"--at-{option} {text!r} must be numbers with commas between, such as 0.5,1,2.")
        widths = found.table(**read, coef=a.coef)
        trusted = pd.DataFrame(widths.attrs["reliable"], index=widths.index)
        body = widths.map("{:.4g}".format) + trusted.replace({True: "  ", False: " †"})
        said = "" if trusted.to_numpy().all() else "\n† a fit would say not to rely on such an interval"
        print(f"\nmean width of the intervals of {widths.attrs['coef']}\n{body.to_string()}{said}")
    if a.compare_trust:
        print(f"\n{shown(found.compare_trust(a.coef))}", flush=True)
    if a.compare_families:
        print(f"\n{shown(found.compare_families(a.coef))}", flush=True)
    if a.check is not None:
        print(f"\n{found.check(a.check, seed=a.seed).round(4).to_string()}", flush=True)
    if a.plot is not None:
        from io import BytesIO

        from privreg.base import archive

        target, kinds = Path(a.plot), (".png", ".pdf", ".svg")
        if target.suffix.lower() not in kinds or not target.parent.is_dir():
            raise OptionError(f"--plot {a.plot!r}: give a file in a folder that exists, named {', '.join(kinds)}.")
        figure: Any = found.plot(a.coef).figure
        picture = BytesIO()
        figure.savefig(picture, format=target.suffix[1:].lower(), dpi=200)
        archive.write_bytes(target, picture.getvalue())
    return 0


def _public(option: str, path: str) -> Any:
    """Public rows of a file, or what it says of them."""
    import pandas as pd

    if option == "pilot" and Path(path).suffix.lower() in {".yaml", ".yml", ".json"}:
        from privreg.schema import files

        return files.document(path)
    kinds: dict[str, Callable[[str], Any]] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    if Path(path).suffix.lower() not in kinds or not Path(path).is_file():
        more = ", or of numbers, .yaml or .json" if option == "pilot" else ""
        raise OptionError(f"--{option} {path!r}: give a file of rows that exists, named {' or '.join(kinds)}{more}.")
    broken = OptionError(f"--{option} {path!r} is empty, or can't be read; give public rows below a header.")
    return quietly(lambda: kinds[Path(path).suffix.lower()](path), broken)


VERBS: Final = {verb.__name__: verb for verb in (fit, means, show, data, plan, schema)}
