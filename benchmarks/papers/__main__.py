"""Run a paper's table or figure again: ``python -m benchmarks.papers NAME [--quick]``, or ``--list`` for the names.

Seeded replications on simulated or reconstructed people, ours under the published and under the default tuning, beside
the printed numbers. Tables and a figure go to --out, and so do single runs: a stopped command goes on where it was when
it is given again. Full-sized experiments take minutes to days; --quick shows in seconds what they give.

--out holds NAME.csv, one row a cell, method and number of people; NAME-compared.csv, where numbers were printed;
NAME.png; and runs/NAME, the single runs, a file a cell. ``benchmarks/papers/results`` has what was run in full.
"""

from __future__ import annotations

import argparse
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pandas as pd

from benchmarks.papers import EXPERIMENTS, find
from privreg.errors import OptionError, PrivregError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; its exit status."""
    parser = argparse.ArgumentParser("python -m benchmarks.papers", description=__doc__, allow_abbrev=False)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("name", nargs="?", metavar="NAME", help="of the experiment; see --list")
    parser.add_argument("--list", action="store_true", help="list the experiments; with NAME: what it runs, its cells")
    parser.add_argument("--reps", type=int, metavar="R", help="replications of each cell (default: as published)")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="processes (default 1); several need joblib")
    parser.add_argument("--out", type=Path, default=Path("experiments"), metavar="DIR", help="(default: experiments)")
    parser.add_argument("--quick", action="store_true", help="few replications of small cells, in DIR/quick")
    parser.add_argument("--cells", nargs="+", default=(), metavar="CELL", help="some cells; * and ? stand for others")
    parser.add_argument("--again", action="store_true", help="replace stored runs instead of adding to them")
    a = parser.parse_args(arguments)
    try:
        if not a.list:
            return _run(a)
        for known in EXPERIMENTS.values() if a.name is None else [find(a.name)]:
            cells = known.cells(False)
            print(f"{known.name}: {known.title}")
            print(f"    {known.source}; {_count(len(cells), 'cell')} × {_count(known.replications, 'replication')}")
            if a.name is not None:
                print(f"\n{textwrap.fill(known.about, 88)}\n\ncells: {', '.join(c.name for c in cells)}")
    except PrivregError as e:
        print(e, file=sys.stderr)
        return 2
    return 0


def _run(a: argparse.Namespace) -> int:
    if a.name is None:
        raise OptionError("give the name of an experiment; --list lists them.")
    if a.out.exists() and not a.out.is_dir():
        raise OptionError(f"--out {str(a.out)!r} is a file; give the name of a folder.")
    table = find(a.name)(a.reps, jobs=a.jobs, out=a.out, quick=a.quick, cells=a.cells, again=a.again)
    print(_in_short(table.attrs["tables"].get("compared", table)))
    print(
        f"\n{_runs(table)}Whole tables and the figure are in {str(a.out / 'quick' if a.quick else a.out)!r}.",
        flush=True,
    )
    return 0


def _runs(table: pd.DataFrame) -> str:
    """How many runs a table's rows have, as a sentence; nothing of a single run's paths."""
    if "replications" not in table or table.empty:
        return ""
    low, high = int(table["replications"].min()), int(table["replications"].max())
    return f"Rows are of {_count(low, 'run') if low == high else f'{low:,} to {high:,} runs'}. "


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}{'s' * (n != 1)}"


_ROWS: Final = 24  # Rows of an experiment's table that are printed; its file has them all


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


if __name__ == "__main__":
    sys.exit(main())
