"""The simulations of XSJKH (arXiv 2505.08227): Table 1, Figures 2 and 3, and the same for other families."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from itertools import product
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers.designs import Design
from benchmarks.papers.engine import Experiment, described
from benchmarks.papers.figures import coverage_figure, level_figure, path_figure
from benchmarks.papers.simulation import Cell, at_hand, limit_sd, replicate
from benchmarks.papers.store import printed
from benchmarks.papers.summaries import beside, rounded, summarise

SIZES: Final = (40_000, 80_000, 120_000, 160_000, 200_000)
QUICK_SIZES: Final = (10_000, 20_000)
MUS: Final = (1.0, 2.0, None)
NORMAL_975: Final = 1.959963984540054
STREAMED: Final = ("random_scaling", "batch_means", "block_bootstrap", "path_curvature")
"""Methods of one pass under published tuning."""
DEFAULTS: Final = ("sandwich", "between_lanes", "random_scaling", "batch_means", "block_bootstrap")
"""Methods of one pass under efficient tuning."""
TWINS: Final = {"plug_in_central": "plug_in"}  # What is shown beside a method that efficient tuning doesn't have
PRINTED: Final = {"plug_in": "PPI", "batch_means": "PBM", "random_scaling": "PRS"}
LONGER: Final = {"random_scaling": 1.36}  # Mean length of a method's intervals over that of normal ones, at the limit
TRAJECTORY: Final = tuple(int(round(v, -2)) for v in np.geomspace(1_000, 200_000, 40))

SHORTER: Final = (
    "the printed length is below what the noise stated in the text allows at this n; slopes_only and small_noise come "
    "close; the cause is not known"
)
NOT_PRINTED: Final = "not printed in the article itself; a supplement that we don't have holds it"
STATEMENTS: Final = {
    "slopes_only": "guarantee √3·mu: run for its lengths",
    "small_noise": "guarantee √2·1.345·mu; compare the lengths of its slopes",
}


def passes(setting: str, *, plug_in: bool, central: bool = False) -> tuple[tuple[str, ...], ...]:
    """Inference methods of each fit of a cell, those that the package has.

    Under published tuning `plug_in` takes a tenth of the people for curvature, so it needs a fit of its own; `central`
    adds the central plug-in.
    """
    if setting == "efficient":
        return (at_hand((*DEFAULTS, "plug_in") if plug_in else DEFAULTS, "efficient"),)
    out = [at_hand(STREAMED, "published")]
    out += [("plug_in",)] if plug_in else []
    return (*out, *([("plug_in_central",)] if central else []))


def _table_cells(family: str, tau: float, settings: bool, quick: bool) -> list[Cell]:
    """Cells of a table in the style of Table 1: every p, correlation and budget.

    With `settings` those are added under which lengths come near the printed ones.
    """
    out, sizes = [], QUICK_SIZES if quick else SIZES
    for p, rho, mu in product((3,) if quick else (3, 5, 10), (0.0,) if quick else (0.0, 0.5), MUS):
        whole = settings and p == 3 and rho == 0
        names = ["stated", *(["slopes_only", "small_noise"] if whole and mu is not None else [])]
        for setting in [*names, "efficient"]:
            fits = passes(setting, plug_in=True, central=whole and setting == "stated" and not quick)
            name = f"p{p}-rho{rho:g}-mu{'none' if mu is None else f'{mu:g}'}-{setting}"
            step = 1.5 if setting == "slopes_only" else 0.5
            out.append(Cell(name, Design(family, p, rho, tau=tau), setting, sizes, fits, mu, step=step))
    return out


# --- tables --------------------------------------------------------------------------------------------


def tidy(runs: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """One row a cell, method, number of people and level.

    What the cell is; the columns of `summarise`; lengths × 100 as printed tables have them, of all coefficients and of
    slopes; the asymptotic ones beside them.
    """
    by_name = {c.name: c for c in cells}
    out = summarise(runs, ["cell", "method", "n", "alpha"])
    given = [by_name[name] for name in out["cell"]]
    slopes = {}  # mean lengths × 100 of the slopes' intervals
    if "low" in runs:
        slope_runs = runs[(runs["term"] != "const") & runs["low"].notna()]
        length = 100 * (slope_runs["high"] - slope_runs["low"])
        slopes = dict(length.groupby([slope_runs[key] for key in ("cell", "method", "n", "alpha")]).mean())
    head = pd.DataFrame([{k: getattr(c.design, k) for k in ("family", "p", "rho", "tau")} for c in given])
    head = head.assign(setting=[c.setting for c in given], mu=[c.budget for c in given])
    table = pd.concat([out["cell"], head, out.drop(columns="cell")], axis=1)
    sds = {c.name: limit_sd(c) for c in cells}
    senders = runs.groupby(["cell", "method", "n"], dropna=False)["senders"].mean() if "senders" in runs else None
    limits = []
    for row in out.itertuples():
        count = math.nan if senders is None else float(senders.get((row.cell, row.method, row.n), math.nan))
        factor = 200.0 * NORMAL_975 / math.sqrt(count) if count > 0 else math.nan
        sd = sds[str(row.cell)]
        limits.append((factor * sd.mean(), factor * sd[1:].mean() if len(sd) > 1 else math.nan))
    if "length" in table:
        table["length_x100"] = 100 * table["length"]
        table["slope_length_x100"] = [slopes.get((r.cell, r.method, r.n, r.alpha), math.nan) for r in out.itertuples()]
        table["asymptotic_x100"], table["asymptotic_slopes_x100"] = zip(*limits, strict=True)
        table["rmse_x100"] = 100 * table["rmse"]
    numbers = table.select_dtypes(np.float64).columns.difference(["alpha", "rho", "tau", "n"])
    table = rounded(table, 5, list(numbers))
    if table["n"].notna().all():
        table["n"] = table["n"].astype(np.int64)
    return table


def _printed(row: Any) -> tuple[float, float]:
    """Printed coverage and length × 100."""
    if (row.family, row.p, row.rho) != ("huber", 3, 0.0) or row.method not in PRINTED:
        return math.nan, math.nan
    table = printed("xsjkh_table1")
    key, short = ("non_private", PRINTED[row.method][1:]) if row.mu == "none" else (f"mu_{row.mu}", PRINTED[row.method])
    if key not in table or row.n not in table["n"]:
        return math.nan, math.nan
    i = table["n"].index(row.n)
    return table[key][short]["CP"][i], table[key][short]["AL"][i]


def compare(table: pd.DataFrame) -> pd.DataFrame:
    """Put what is printed, ours under published tuning and ours under efficient tuning side by side, at one level.

    One row a design, budget, setting of published tuning, method and n. `efficient_method` says whose numbers the
    efficient columns are: the same method's, or that of the nearest one if efficient tuning doesn't have it.
    """
    published_rows = table[table["setting"] != "efficient"]
    default = table[table["setting"] == "efficient"]
    rows = []
    for row in published_rows.itertuples():
        there = default[(default.p == row.p) & (default.rho == row.rho) & (default.mu == row.mu) & (default.n == row.n)]
        like = (row.method, TWINS.get(str(row.method)), "sandwich", "between_lanes")
        coverage, length = _printed(row)
        found = {"published_coverage": coverage, "published_length_x100": length}
        found |= beside(row, there, like, ("coverage", "length_x100"))
        keys = ("family", "p", "rho", "mu", "setting", "method", "n")
        rows.append({k: getattr(row, k) for k in keys} | found | {"remark": _remark(row, length)})
    return pd.DataFrame(rows)


def _remark(row: Any, printed: float) -> str:
    if row.setting in STATEMENTS:
        return STATEMENTS[row.setting]
    if math.isnan(printed):
        lost = (row.family, row.p, row.rho) != ("huber", 3, 0.0)
        return NOT_PRINTED if lost and row.method in PRINTED else ""
    limit = LONGER.get(row.method, 1.0) * getattr(row, "asymptotic_x100", 0.0)
    return SHORTER if row.mu != "none" and printed < 0.9 * limit else ""


def _both(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    return {"": (table := tidy(runs, cells)), "compared": compare(table)}


def _levels(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    return {"": tidy(runs, cells).sort_values(["cell", "method", "alpha"], kind="stable", ignore_index=True)}


def trajectories(runs: pd.DataFrame, cells: Sequence[Cell]) -> dict[str, pd.DataFrame]:
    """Single intervals, as they are."""
    setting = {c.name: c.setting for c in cells}
    wanted = ["cell", "replication", "method", "n", "term", "truth", "estimate", "low", "high"]
    table = runs.reindex(columns=wanted).dropna(subset=["estimate"]).reset_index(drop=True)
    table.insert(1, "setting", table["cell"].map(setting))
    table["n"] = table["n"].astype(np.int64)
    return {"": rounded(table, 6, ("truth", "estimate", "low", "high"))}


# --- cells of figures ----------------------------------------------------------------------------------


def _path_cells(quick: bool) -> list[Cell]:
    sizes = tuple(n for n in TRAJECTORY if not quick or n <= 20_000)
    design = Design("huber", 3)
    settings = {
        "stated": at_hand((*STREAMED[:3], "plug_in"), "published"),
        "efficient": at_hand(DEFAULTS[:4], "efficient"),
    }
    return [Cell(name, design, name, sizes, (methods,), mu=1.0, whole=True) for name, methods in settings.items()]


def _level_cells(quick: bool) -> list[Cell]:
    sizes = (20_000,) if quick else (200_000,)
    alphas = tuple(round(0.01 * k, 2) for k in range(1, 11))
    return [
        Cell(
            f"mu{'none' if mu is None else f'{mu:g}'}-{setting}", Design("huber", 5), setting, sizes,
            passes(setting, plug_in=True), mu, alphas=alphas,
        )
        for mu in ((1.0,) if quick else MUS) for setting in ("stated", "efficient")
    ]  # fmt: skip


# --- experiments ---------------------------------------------------------------------------------------


def _table(name: str, family: str, tau: float = 0.5) -> Experiment:
    cells = partial(_table_cells, family, tau, family == "huber")
    return described(name, cells, replicate, _both, lambda tables: coverage_figure(tables["compared"]))


XSJKH: Final = (
    _table("xsjkh-table1", "huber"),
    _table("xsjkh-logistic", "logistic"),
    _table("xsjkh-expectile", "expectile", tau=0.8),
    described("xsjkh-fig2", _path_cells, replicate, trajectories, lambda tables: path_figure(tables[""], "setting")),
    described("xsjkh-fig3", _level_cells, replicate, _levels, lambda tables: level_figure(tables[""])),
)
"""The simulations."""
