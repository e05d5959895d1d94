"""The simulations of DG (arXiv 2405.12553): quantiles and quantile regression with block bootstrap intervals."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd

from benchmarks.papers.designs import Design
from benchmarks.papers.engine import described
from benchmarks.papers.figures import coverage_figure, path_figure
from benchmarks.papers.simulation import Cell, at_hand, limit_sd, replicate
from benchmarks.papers.store import printed
from benchmarks.papers.summaries import beside, rounded, summarise
from benchmarks.papers.xsjkh import DEFAULTS, trajectories

SIZES: Final = (1_000_000, 10_000_000, 100_000_000)
QUICK_SIZES: Final = (20_000, 50_000)
ALPHA: Final = 0.1
NORMAL_95: Final = 1.6448536269514722
METHODS: Final = ("block_bootstrap", "batch_means", "random_scaling")
PRINTED: Final = {"block_bootstrap": "BB", "batch_means": "BM", "random_scaling": "SN"}
PATH: Final = tuple(int(round(v, -2)) for v in np.geomspace(5_000, 2_000_000, 40))
DESIGN_LOST: Final = "the printed design is only partly recoverable: no match is claimed"
UNDER: Final = "the printed intervals undercover at this quantile, whatever n"


def _cells(designs: Mapping[str, Design], mechanism: str, quick: bool) -> list[Cell]:
    sizes = QUICK_SIZES if quick else SIZES  # a cell each: runs of 10^8 people are few
    return [
        Cell(
            f"{name}-{setting}-n{n:.0e}".replace("e+0", "e"), design, setting, (n,),
            (at_hand(DEFAULTS if setting == "efficient" else METHODS, tuning),),
            epsilon=1.0, mechanism=mechanism if setting == "stated" else "auto", step=1.0, alphas=(ALPHA,),
        )
        for n in sizes
        for name, design in designs.items()
        for setting, tuning in (("stated", "published"), ("efficient", "efficient"))
    ]  # fmt: skip


QUANTILES: Final = {f"quantile{tau:g}": Design("quantile", 0, sd=1.0, tau=tau) for tau in (0.5, 0.9)}
REGRESSION: Final = {"regression": Design("quantile", 3, sd=1.0, tau=0.5, cube=True)}


def _path_cells(quick: bool) -> list[Cell]:
    sizes = tuple(n for n in PATH if not quick or n <= 50_000)
    settings = {"stated": at_hand(METHODS, "published"), "efficient": at_hand(DEFAULTS[:4], "efficient")}
    return [
        Cell(
            f"{name}-{setting}", design, setting, sizes, (methods,), epsilon=1.0, mechanism="randomized_response",
            step=1.0, alphas=(ALPHA,), whole=True,
        )
        for name, design in QUANTILES.items() for setting, methods in settings.items()
    ]  # fmt: skip


# --- tables --------------------------------------------------------------------------------------------


def tidy(runs: pd.DataFrame, cells: Sequence[Cell]) -> pd.DataFrame:
    """One row a cell, method, number of people and coefficient, with the asymptotic length."""
    given = {c.name: c for c in cells}
    if "term" not in runs:
        runs = runs.assign(term="")
    out = summarise(runs, ["cell", "method", "n", "term"])
    out.insert(1, "tau", [given[c].design.tau for c in out["cell"]])
    out.insert(2, "setting", [given[c].setting for c in out["cell"]])
    sd = {c.name: dict(zip(c.design.names, limit_sd(c), strict=True)) for c in cells}
    out["asymptotic"] = [
        2 * NORMAL_95 * sd[str(c)].get(t, math.nan) / math.sqrt(n) if n > 0 else math.nan
        for c, t, n in zip(out["cell"], out["term"], out["n"], strict=True)
    ]
    return rounded(out, 5, ("bias", "rmse", "length", "length_low", "length_high", "asymptotic"))


def _compare(table: pd.DataFrame, regression: bool) -> pd.DataFrame:
    paper = printed("dette_graw")
    terms = {"const": 0, "x1": 1, "x2": 2, "x3": 3}
    rows = []
    for row in table[table["setting"] == "stated"].itertuples():
        there = table[(table.setting == "efficient") & (table.tau == row.tau) & (table.n == row.n)]
        there, like = there[there.term == row.term], (row.method, "sandwich", "between_lanes")
        found = (math.nan, math.nan)
        short = PRINTED.get(str(row.method), "")
        if row.n in paper["n"]:
            i = paper["n"].index(row.n)
            if regression and short in paper["quantile_regression"] and row.term in terms:
                block = paper["quantile_regression"][short]
                found = block["cover"][terms[str(row.term)]][i], block["length"][terms[str(row.term)]][i]
            elif not regression and short:
                block = paper["quantiles"][f"{row.tau:g}"][short]
                found = block["cover"][i], block["length"][i]
        head = {"design": str(row.cell).partition("-stated")[0], "term": row.term, "method": row.method, "n": row.n}
        head |= {"published_coverage": 100 * found[0], "published_length": found[1]}
        remark = DESIGN_LOST if regression else UNDER if row.tau == 0.9 and found[0] < 0.87 else ""
        rows.append(head | beside(row, there, like, ("coverage", "length", "asymptotic")) | {"remark": remark})
    return pd.DataFrame(rows)


def _tables(runs: pd.DataFrame, cells: Sequence[Cell], *, regression: bool) -> dict[str, pd.DataFrame]:
    table = tidy(runs, cells)
    return {"": table, "compared": _compare(table, regression)}


def _draw(tables: Mapping[str, pd.DataFrame]) -> Any:
    table = tables["compared"]
    one = "design" in table and table["design"].nunique() > 1  # a table without rows has no columns
    return coverage_figure(table, panel="design" if one else "term", level=1.0 - ALPHA, factor="")


def _draw_paths(tables: Mapping[str, pd.DataFrame]) -> Any:
    return path_figure(tables[""].assign(term=lambda t: t["cell"].str.rpartition("-")[0]), "setting")


DETTE_GRAW: Final = (
    described("dg-fig1", _path_cells, replicate, trajectories, _draw_paths),
    *(
        described(name, partial(_cells, designs, noise), replicate, partial(_tables, regression=regression), _draw)
        for name, designs, noise, regression in (
            ("dg-table1", QUANTILES, "randomized_response", False),
            ("dg-table2", REGRESSION, "laplace", True),
        )
    ),
)
"""The simulations."""
