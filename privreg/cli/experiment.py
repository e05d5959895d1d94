"""The verb ``privreg experiment``: published tables and figures again."""

from __future__ import annotations

import argparse
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Final

from privreg.errors import OptionError

if TYPE_CHECKING:
    import pandas as pd


def run(a: argparse.Namespace) -> int:
    """Run the verb."""
    if a.name is None and not a.list:
        raise OptionError("give the name of an experiment; 'privreg experiment --list' lists them.")

    from privreg.published.experiments import EXPERIMENTS, find

    if a.list:
        for known in EXPERIMENTS.values() if a.name is None else [find(a.name)]:
            cells = known.cells(False)
            print(f"{known.name}: {known.title}")
            print(f"    {known.source}; {_count(len(cells), 'cell')} × {_count(known.replications, 'replication')}")
            if a.name is not None:
                print(f"\n{textwrap.fill(known.about, 88)}\n\ncells: {', '.join(c.name for c in cells)}")
        return 0
    experiment, out = find(a.name), Path(a.out)
    if out.exists() and not out.is_dir():
        raise OptionError(f"--out {a.out!r} is a file; give the name of a folder.")
    table = experiment(a.reps, jobs=a.jobs, out=out, quick=a.quick, cells=a.cells, again=a.again)
    print(_in_short(table.attrs["tables"].get("compared", table)))
    print(f"\n{_runs(table)}Whole tables and the figure are in {str(out / 'quick' if a.quick else out)!r}.", flush=True)
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
