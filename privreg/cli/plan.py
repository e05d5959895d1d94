"""The verb ``privreg plan``: people, precision or budget before any data."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from privreg.cli import output
from privreg.cli.values import budget, check_order, family, floats, given
from privreg.errors import OptionError, quietly
from privreg.options.spelling import in_shell

if TYPE_CHECKING:
    import pandas as pd

    from privreg.planning.study_plan import StudyPlan


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    check_order(a)
    name, constants = family(a)
    spent = budget(a, needed=False)
    options = given(a, "plan.formula")

    from privreg.families import FAMILIES
    from privreg.planning.power import plan
    from privreg.tables import as_text, respelt

    for option in {"covariates", "pilot"} & set(options):
        options[option] = _public(option, options[option])
    # without an effect a power asks which effects tests of so many records find
    power = options.pop("power", None) if "n" in options and "effect" not in options else None
    found = plan(a.formula, family=FAMILIES[name](**constants), alpha=output.alpha(a), **spent, **options)
    spell = partial(in_shell, verb="plan")
    print(as_text(respelt(found._layout(), spell)))
    if power is not None:
        print(f"\n{_detectable(found, power)}")
    if a.at_n is not None or a.at_mu is not None:
        print(f"\n{_grid(found, a)}")
    if a.compare_trust:
        print(f"\n{as_text(respelt(found.compare_trust(a.coef)._layout(), spell))}", flush=True)
    if a.compare_families:
        print(f"\n{as_text(respelt(found.compare_families(a.coef)._layout(), spell))}", flush=True)
    if a.check is not None:
        print(f"\n{found.check(a.check, seed=a.seed).round(4).to_string()}", flush=True)
    if a.plot is not None:
        _draw(found, a)
    return 0


def _public(option: str, path: str) -> Any:
    """Public rows of a file, or what it says of them."""
    import pandas as pd

    if option == "pilot" and Path(path).suffix.lower() in {".yaml", ".yml", ".json"}:
        from privreg.schema import files

        return files.document(path)
    kinds: dict[str, Callable[[str], pd.DataFrame]] = {".csv": pd.read_csv, ".parquet": pd.read_parquet}
    if Path(path).suffix.lower() not in kinds or not Path(path).is_file():
        more = ", or of numbers, .yaml or .json" if option == "pilot" else ""
        raise OptionError(f"--{option} {path!r}: give a file of rows that exists, named {' or '.join(kinds)}{more}.")
    broken = OptionError(f"--{option} {path!r} is empty, or can't be read; give public rows below a header.")
    return quietly(lambda: kinds[Path(path).suffix.lower()](path), broken)


def _list(option: str, text: str | None) -> list[float] | None:
    found = None if text is None else floats(text, ",")
    if text is not None and found is None:
        raise OptionError(f"{option} {text!r} must be numbers with commas between, such as 0.5,1,2.")
    return found


def _detectable(found: StudyPlan, power: float) -> str:
    """Effects that tests find with the power, by coefficient."""
    from privreg.tables import Table, as_text, in_one_format

    table = found.table(power=power)
    rows = list(zip(*(in_one_format(table[c], 3) for c in ("std_error", "detectable")), strict=True))
    title = f"Least effects that tests at level {found.alpha:g} find with power {power:g}"
    return as_text([Table(list(table.index), ["std err", "detectable"], rows, title)])


def _grid(found: StudyPlan, a: argparse.Namespace) -> str:
    import pandas as pd

    table = found.table(n=_list("--at-n", a.at_n), mu=_list("--at-mu", a.at_mu), coef=a.coef)
    trusted = pd.DataFrame(table.attrs["reliable"], index=table.index)
    body = table.map("{:.4g}".format) + trusted.replace({True: "  ", False: " †"})
    said = "" if trusted.to_numpy().all() else "\n† a fit would say not to rely on such an interval"
    return f"mean width of the intervals of {table.attrs['coef']}\n{body.to_string()}{said}"


def _draw(found: StudyPlan, a: argparse.Namespace) -> None:
    target = Path(a.plot)
    kinds = (".png", ".pdf", ".svg")
    if target.suffix.lower() not in kinds or not target.parent.is_dir():
        raise OptionError(f"--plot {a.plot!r}: give a file in a folder that exists, named {', '.join(kinds)}.")
    import io

    from privreg.base import archive

    figure: Any = found.plot(a.coef).figure
    picture = io.BytesIO()
    figure.savefig(picture, format=target.suffix[1:].lower(), dpi=200)
    archive.write_bytes(target, picture.getvalue())
