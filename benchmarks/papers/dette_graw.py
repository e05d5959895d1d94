"""The simulations of DG (arXiv 2405.12553): quantiles and quantile regression with block bootstrap intervals.

Their quantile regression has no score weights, which the package's chain has always; so it is a loop of its own here.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import pandas as pd
from numba import njit
from scipy.special import ndtr
from scipy.stats import norm

from benchmarks.papers.designs import Design, chunks, truth
from benchmarks.papers.engine import described, seeds
from benchmarks.papers.figures import coverage_figure, path_figure
from benchmarks.papers.simulation import Cell, at_hand, limit_sd, replicate
from benchmarks.papers.store import printed
from benchmarks.papers.summaries import beside, rounded, summarise
from benchmarks.papers.xsjkh import DEFAULTS, trajectories
from privreg.base.arrays import Array
from privreg.published.chain.path import growing_edges

SIZES: Final = (1_000_000, 10_000_000, 100_000_000)
QUICK_SIZES: Final = (20_000, 50_000)
ALPHA: Final = 0.1
NORMAL_95: Final = 1.6448536269514722
METHODS: Final = ("block_bootstrap", "batch_means", "random_scaling")
PRINTED: Final = {"block_bootstrap": "BB", "batch_means": "BM", "random_scaling": "SN"}
PATH: Final = tuple(int(round(v, -2)) for v in np.geomspace(5_000, 2_000_000, 40))
DESIGN_LOST: Final = "the level, the errors' sd, coefficients, start and blocks are our choice"
NOISE: Final = 4.0  # Scale of Laplace noise at ε = 1: ℓ1 distance of two scores ±x/2, x in 1 × [−1, 1]³
BATCHES: Final = 20
DRAWS: Final = 500
BLOCK: Final = 0.755  # Blocks of n^this updates: halfway between 0.51 and 1, as in the package
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


# --- quantile regression without weights ----------------------------------------------------------------


@njit(cache=True)
def _steps(
    y: Array, x: Array, noise: Array, theta: Array, total: Array, done: int, tau: float, ends: Array, sums: Array
) -> None:
    """Go on with θ_i = θ_{i−1} − i^−0.51 {x (1{y < xᵀθ} − τ) + noise}, in place, by one chunk of rows.

    `total` is the sum of all θ so far, `done` their number, and `sums` has it after the updates in `ends`, ascending.
    """
    at = np.searchsorted(ends, done + 1)
    for i in range(len(y)):
        score = (1.0 if y[i] < np.dot(x[i], theta) else 0.0) - tau
        gain = (done + i + 1.0) ** -0.51
        for j in range(len(theta)):
            theta[j] -= gain * (score * x[i, j] + noise[i, j])
            total[j] += theta[j]
        if at < len(ends) and ends[at] == done + i + 1:
            sums[at] = total
            at += 1


def plain(cell: Cell, replication: int) -> list[dict[str, Any]]:
    """Intervals of one path without weights: block bootstrap (percentiles), and batch means of growing batches."""
    source, d, (n,) = seeds(cell.name, replication), cell.design, cell.sizes
    begin, rng, right = time.perf_counter(), source.rows(), truth(d, 0.0)
    noise = np.random.Generator(np.random.SFC64(source.noise))
    length = round(n**BLOCK)
    blocks = length * np.arange(1, n // length + 1)
    batches = np.array(growing_edges(n, BATCHES, 0.51))
    ends = np.union1d(blocks, batches)
    theta, total, sums, done = np.zeros(len(right)), np.zeros(len(right)), np.zeros((len(ends), len(right))), 0
    for so_far, y, x in chunks(d, (n,), rng):
        _steps(y, x, noise.laplace(scale=NOISE, size=x.shape), theta, total, done, d.tau, ends, sums)
        done = so_far
    there = dict(zip(ends.tolist(), sums, strict=True))
    mean, used = total / n, np.array([there[e] for e in blocks.tolist()])
    moves = np.diff(used, axis=0, prepend=0.0) - length * used[-1] / blocks[-1]
    multipliers = noise.uniform(1.0 - math.sqrt(3.0), 1.0 + math.sqrt(3.0), (DRAWS, len(blocks)))
    low, high = np.quantile(multipliers @ moves / blocks[-1], [ALPHA / 2, 1.0 - ALPHA / 2], axis=0)
    found = {"block_bootstrap": (mean + low, mean + high)}
    edges, sizes = np.array([there[e] for e in batches.tolist()]), np.diff(batches)[:, None]
    within = np.diff(edges, axis=0) / sizes - (edges[-1] - edges[0]) / sizes.sum()
    half = NORMAL_95 * np.sqrt((sizes * within**2).mean(axis=0) / n)
    found["batch_means"] = mean - half, mean + half
    seconds = time.perf_counter() - begin
    return [
        {"method": method, "n": n, "alpha": ALPHA, "term": term, "truth": right[j], "estimate": mean[j]}
        | {"low": limits[0][j], "high": limits[1][j], "senders": n, "seconds": seconds}
        for method, limits in found.items() for j, term in enumerate(d.names)
    ]  # fmt: skip


def _replicate(cell: Cell, replication: int) -> list[dict[str, Any]]:
    return plain(cell, replication) if cell.design.cube and not cell.efficient else replicate(cell, replication)


def _limit(cell: Cell) -> Array:
    """Asymptotic sd of √n times each coefficient's error; without weights from A = f(0) E xxᵀ, S = E xxᵀ/4 + 2·4² I."""
    if not cell.design.cube or cell.efficient:
        return limit_sd(cell)
    share = 1.0 - 2.0 * float(norm.pdf(1.0)) / (2.0 * float(ndtr(1.0)) - 1.0)  # variance of a normal within ±1
    square = np.array([1.0, *[share] * cell.design.p])
    return np.asarray(np.sqrt(square / 4.0 + 2.0 * NOISE**2) / (square * float(norm.pdf(0.0)) / cell.design.sd))


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
    sd = {c.name: dict(zip(c.design.names, _limit(c), strict=True)) for c in cells}
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
        described(name, partial(_cells, designs, noise), _replicate, partial(_tables, regression=regression), _draw)
        for name, designs, noise, regression in (
            ("dg-table1", QUANTILES, "randomized_response", False),
            ("dg-table2", REGRESSION, "laplace", True),
        )
    ),
)
"""The simulations."""
