"""Printed tables and figures beside ours, one row each, from what is stored.

``python -m benchmarks.papers.printed``

printed, ours
    What is compared, in words and numbers; of a figure without numbers the file that has ours.
runs
    Replications of ours that are stored.
agreement
    A printed coverage agrees if it differs from ours by at most 2.6 standard errors (99%) of two shares of so many
    runs, each as if the coefficients of a run were one interval; a length if by at most 5%.
command
    Whose `--quick` takes less than a minute on a processor of its own.

Rows say "not stored" where a design was changed, or the package's default, and the runs are still to be made.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers import EXPERIMENTS
from benchmarks.papers.store import read_table
from privreg.version import __version__

RESULTS: Final = Path(__file__).parent / "results"
ERRORS: Final = 2.576
NEAR: Final = 0.05
PRINTED: Final = 200
"""Runs of XSJKH's simulations; DG's have 500."""


def stored(name: str) -> pd.DataFrame | None:
    """A stored table; None if there is none."""
    path = RESULTS / f"{name}.csv"
    return read_table(path) if path.exists() else None


def of_present(name: str) -> bool:
    """Whether a stored table was made by this version of the package."""
    path = RESULTS / f"{name}.csv"
    return path.exists() and f"versions: privreg {__version__}," in path.read_text(encoding="utf-8")


def agree(printed: Any, ours: Any, runs: int, theirs: int) -> str:
    """How many printed coverages, in %, lie within the standard errors of ours."""
    p, q = np.asarray(printed, dtype=float) / 100, np.asarray(ours, dtype=float) / 100
    error = np.sqrt(np.maximum(p * (1 - p), 1e-3) / theirs + np.maximum(q * (1 - q), 1e-3) / runs)
    return f"{int((np.abs(p - q) <= ERRORS * error).sum())} of {len(p)} coverages"


def near(printed: Any, ours: Any) -> str:
    """How many printed lengths are within 5% of ours."""
    ratio = np.asarray(printed, dtype=float) / np.asarray(ours, dtype=float)
    return f"{int((np.abs(ratio - 1) <= NEAR).sum())} of {len(ratio)} lengths (printed over ours {_span(ratio)})"


def _span(values: Any) -> str:
    low, high = np.min(values), np.max(values)
    return f"{low:.2f}" if math.isclose(low, high, abs_tol=0.005) else f"{low:.2f} to {high:.2f}"


def _runs(name: str) -> str:
    table = stored(name)
    if table is None or "replications" not in table:
        return "not stored"
    held = sorted(set(table["replications"]))
    return f"{held[0]}" if len(held) == 1 else f"{held[0]} to {held[-1]}"


def _table1() -> list[dict[str, str]]:
    table = stored("xsjkh-table1-compared")
    if table is None:
        return []
    there = table[table["published_coverage"].notna() & (table["setting"] == "stated")]
    out = []
    for private, words in ((False, "without privacy"), (True, "private")):
        own = there[(there["mu"] != "none") == private]
        ours = f"coverage {own['coverage'].min():.1f} to {own['coverage'].max():.1f}%"
        theirs = f"coverage {own['published_coverage'].min():.1f} to {own['published_coverage'].max():.1f}%"
        both = agree(own["published_coverage"], own["coverage"], PRINTED, PRINTED)
        lengths = near(own["published_length_x100"], own["length_x100"])
        out.append(_row(f"XSJKH, Table 1, {words}", theirs, ours, "xsjkh-table1", f"{both}; {lengths}"))
    return out


def _table3() -> dict[str, str]:
    table = stored("xsjkh-table3-compared")
    if table is None:
        return _row("XSJKH, Table 3", "test error 0.0722", "not stored", "xsjkh-table3", "")
    at = table.set_index("term").loc["test_mse"]
    theirs = f"test error {at['published_ldp_sgd']:.4f}, least squares {at['published_ols']:.4f}"
    ours = f"{at['published_tuning']:.4f}, {at['ols']:.4f}"
    said = f"differ by {abs(at['published_ldp_sgd'] - at['published_tuning']):.4f}; records are reconstructed"
    return _row("XSJKH, Table 3", theirs, ours, "xsjkh-table3", said)


def _dette_graw() -> list[dict[str, str]]:
    table = stored("dg-table1-compared")
    if table is None:
        return []
    out = []
    for method in ("block_bootstrap", "batch_means", "random_scaling"):
        own = table[(table["method"] == method) & (table["n"] <= 10**7)]
        theirs = f"coverage {own['published_coverage'].min():.1f} to {own['published_coverage'].max():.1f}%"
        ours = f"coverage {own['coverage'].min():.1f} to {own['coverage'].max():.1f}%"
        both = agree(own["published_coverage"], own["coverage"], 500, 500)
        said = f"{both}; {near(own['published_length'], own['length'])}"
        words = method.replace("_", " ")
        out.append(
            _row(f"DG, Table 1, n = 10⁶, 10⁷, {words}", theirs, ours, "dg-table1", said, "500; our default 100 at 10⁷")
        )
    lost = "the design is only partly recoverable: no match is claimed"
    return [*out, _row("DG, Table 2", "a table", "dg-table2-compared.csv", "dg-table2", lost, "500 at 10⁶")]


def _row(what: str, printed: str, ours: str, name: str, said: str, runs: str | None = None) -> dict[str, str]:
    command = f"python -m benchmarks.papers {name}" if name in EXPERIMENTS else f"python -m benchmarks.{name}"
    row = {"what": what, "printed": printed, "ours": ours, "runs": _runs(name) if runs is None else runs}
    compared = f"{name}-compared" if (RESULTS / f"{name}-compared.csv").exists() else name
    if name in EXPERIMENTS and (RESULTS / f"{compared}.csv").exists() and not of_present(compared):
        said += "; our default to be run again"
    return row | {"agreement": said, "command": command}


def _figure(paper: str, number: str, name: str, said: str = "no numbers printed") -> dict[str, str]:
    path = RESULTS / f"{name}.png"
    single = EXPERIMENTS[name].replications == 1 if name in EXPERIMENTS else False
    runs = "not stored" if not path.exists() else "1" if single else _runs(name)
    ours = path.name if path.exists() else "not stored"
    return _row(f"{paper}, Figure{'s' * (' to ' in number)} {number}", "a figure", ours, name, said, runs)


def rows() -> pd.DataFrame:
    """One row a printed table or figure."""
    clipping = "the bias of clipping, and none with weights, are as printed"
    rates = "orders beside the bounds of Table 1 there"
    out = [
        _row("XSJKH and SXJKH, Figure 1", "biased ratios", "1.06 to 1.10", "clipping", clipping, "10"),
        *_table1(),
        _figure("XSJKH", "2", "xsjkh-fig2"),
        _figure("XSJKH", "3", "xsjkh-fig3"),
        _table3(),
        _figure("XSJKH", "4", "xsjkh-fig4"),
        _figure("XSJKH", "5", "xsjkh-fig5"),
        _figure("SXJKH", "2", "sxjkh-fig2"),
        _figure("SXJKH", "3, and Table 1", "sxjkh-fig3", rates),
        *(_figure("SXJKH", f"{k}", f"sxjkh-fig{k}") for k in (4, 5, 6)),
        _figure("SXJKH", "7 to 9", "sxjkh-figs7-9"),
        *_dette_graw(),
        _figure("DG", "1", "dg-fig1"),
        _row("Duan, eq. 4.32", "break-even 26,960", "4,132", "means", "corrected; see the differences", "closed form"),
    ]
    return pd.DataFrame(out).set_index("what")


def main() -> None:
    """Print the rows."""
    print(rows().to_string())


if __name__ == "__main__":
    main()
