"""How near the default and the published tuning come to the asymptotic limit, and whether their intervals hold.

``python -m benchmarks.efficiency [--cells NAME …] [--tunings NAME …] [--reps R] [--processes K] [--quick] [--again]
[--plot]``

Data: y = 1 + x₁ + … + x_p + e; p standard normal covariates with correlation ρ^abs(j−k); errors of residual scale
s = 0.5 (the number with P(abs e − m ≤ s/2) = 0.3829…): normal, Student's t with 3 degrees of freedom, skewed
(exponential less its mean), or heteroscedastic (normal of sd 0.5 (0.5 + abs x₁)). Bounds are declared at ±4 sd of
every column, response included, and `Huber()` is left to find its scale. Both tunings fit the same data. The published
one takes c = 1.345 in internal units, here half the declared range of the response, which is many residual scales: the
cells as-published-… give it what its authors had, covariates and response as they are and c = 1.345.

The limit is that of whitened unit weights and c = s/2, for all n people: see `benchmarks.limits`. It is the same for
both tunings. Columns of the results, one line for each cell, tuning and inference method:

rmse_over_limit
    Root of the mean, over replications and coefficients, of squared error over squared limit (its standard deviation).
length, length_over_limit, limit_length
    Mean 95% length over replications and coefficients; the mean of each coefficient's length over its length at the
    limit; the mean length at the limit.
coverage, low_999, holds
    Share of 95% intervals that hold their coefficient, in %; what a share with exact 95% reaches or exceeds in 99.9% of
    such studies, were coefficients independent; whether coverage is not below it.
noted
    Share of fits whose summary says "don't rely on" the intervals.
failed
    Fits that raised an error; they count nowhere else.

With skewed errors the estimand is 1 for slopes and 1 + m for the intercept, m being where Huber's score has mean zero:
at c = s/2 under the default tuning, and at the published tuning's own c, where m is practically 0.

Named cells: p3, p5, p10 (n = 200,000, ρ = 0); p3-short (n = 50,000); p20-long (n = 10⁶); correlated-… (p = 10,
ρ = 0.9, n = 10⁶, correlations learned, left alone, or declared by moments=); wide-… (bounds at ±16 sd); far-start (a
public guess that is 10 s away: z'(guess − θ) has root mean square 10 s); skewed, heteroscedastic; logistic-…
(independent covariates); dollars-… (a response of 10³ to 10⁵, covariates like age, income, year and a small fraction;
nothing declared, and with bounds at ±4 sd); as-published-….

A cell that is stored is skipped, so that a run can be stopped and resumed; rows keep the date and a hash of the package
that made them, and --again replaces them. With --tunings only these are run and replaced; --reps holds for every cell.
--quick runs 2 replications of cells up to 200,000 people and stores nothing.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import sys
import time
import zlib
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.limits import SCALE, centre, correlation, errors, lengths, limit, middle
from benchmarks.store import read_table, save_table
from privreg.errors import InferenceError

GRID, NAMED, FIGURE = "efficiency.csv", "efficiency_named.csv", "efficiency.png"
BOTH, DEFAULT, PUBLISHED = ("efficient", "published"), ("efficient",), ("published",)
PS, RHOS = (3, 5, 10, 20), (0.0, 0.5, 0.9)
BLOCK = 1 << 15
QUICK_PEOPLE, QUICK_REPLICATIONS = 200_000, 2
# What the cells "dollars-…" are made of: mean and sd of covariates; middle of the response and dollars per unit.
DOLLARS = {"age": (45.0, 12.0), "income": (60_000.0, 15_000.0), "year": (2000.0, 8.0), "fraction": (0.03, 0.008)}
MIDDLE, UNIT = 50_000.0, 8_000.0


@dataclass(frozen=True)
class Cell:
    """One situation.

    Attributes
    ----------
    name : str
    p, n : int
    rho, mu : float
    law : str
        Of the errors, or "logistic".
    replications : int
    declared : str
        "bounds", "moments" (with correlations; bounds for the response), "units" (leave all as it is) or "nothing".
    edge : float
        Declared bounds, in sd.
    weights : str or None
        score_weights.
    far : bool
        Whether a wrong first guess is given.
    dollars : bool
        Whether columns have unlike units.
    tunings : tuple of str
    """

    name: str
    p: int
    n: int = 200_000
    rho: float = 0.0
    mu: float = 1.0
    law: str = "normal"
    replications: int = 20
    declared: str = "bounds"
    edge: float = 4.0
    weights: str | None = None
    far: bool = False
    dollars: bool = False
    tunings: tuple[str, ...] = BOTH

    @property
    def names(self) -> list[str]:
        """Covariates."""
        return list(DOLLARS) if self.dollars else [f"x{j + 1}" for j in range(self.p)]

    @property
    def places(self) -> np.ndarray:
        """Mean and sd of every covariate, shape (p, 2)."""
        return np.array(list(DOLLARS.values()) if self.dollars else [(0.0, 1.0)] * self.p)

    @property
    def response(self) -> tuple[float, float, float]:
        """Mean and sd of a continuous response, and its units per unit of the model."""
        place, unit = (MIDDLE, UNIT) if self.dollars else (1.0, 1.0)
        return place, unit * float(np.sqrt(correlation(self.p, self.rho).sum() + errors(self.law).sd ** 2)), unit

    @property
    def to_user(self) -> np.ndarray:
        """Linear map from coefficients of (1, standard covariates) to the user's, shape (p + 1, p + 1)."""
        rows = np.eye(self.p + 1)
        rows[1:, 0], rows[1:, 1:] = self.places[:, 0], np.diag(self.places[:, 1])
        unit = 1.0 if self.law == "logistic" else self.response[2]
        return unit * np.linalg.inv(rows).T

    def truth(self, tuning: str) -> np.ndarray:
        """Estimand in the user's units, shape (p + 1,)."""
        standard = np.ones(self.p + 1)
        if self.law == "logistic":
            return self.to_user @ standard
        place, sd, unit = self.response
        c = 1.345 * (1.0 if self.declared == "units" else self.edge * sd / unit)  # of the published tuning
        law = errors(self.law)
        standard[0] = place / unit + (middle(law)[0] if tuning == "efficient" else centre(law, c))
        return self.to_user @ standard

    def limit(self) -> np.ndarray:
        """Covariance of √n times the error at the limit, user's units."""
        return self.to_user @ limit(self.p, self.rho, self.mu, self.law) @ self.to_user.T


def grid() -> list[Cell]:
    sizes = [
        (n, mu, "normal") for n in (20_000, 50_000, 200_000, 1_000_000) for mu in (0.5, 1.0, 2.0)
        if n != 50_000 or mu == 1.0
    ]  # fmt: skip
    sizes += [(200_000, 1.0, law) for law in ("t3", "skewed", "heteroscedastic")]
    return [
        Cell(f"p{p}-rho{rho:g}-n{n}-mu{mu:g}-{law}", p, n, rho, mu, law)
        for n, mu, law in sizes for p in PS for rho in RHOS
    ]  # fmt: skip


def named() -> list[Cell]:
    many = 200
    correlated = Cell("correlated-learned", 10, 1_000_000, 0.9, replications=many)
    dollars = Cell("dollars-bounds", 4, replications=many, dollars=True)
    return [
        *(Cell(f"p{p}", p, replications=many) for p in (3, 5, 10)),
        Cell("p3-short", 3, 50_000, replications=many),
        Cell("p20-long", 20, 1_000_000, replications=many),
        correlated,
        replace(correlated, name="correlated-unit", weights="unit", tunings=DEFAULT),
        replace(correlated, name="correlated-declared", declared="moments"),
        *(Cell(f"wide-p{p}", p, replications=many, edge=16.0) for p in (3, 10)),
        Cell("far-start", 3, replications=many, far=True),
        *(Cell(law, 3, law=law, replications=many) for law in ("skewed", "heteroscedastic")),
        *(Cell(f"logistic-p{p}", p, law="logistic", replications=many) for p in (3, 10)),
        replace(dollars, name="dollars-nothing-declared", declared="nothing", tunings=DEFAULT),
        dollars,
        *(Cell(f"as-published-p{p}", p, replications=many, declared="units", tunings=PUBLISHED) for p in (3, 10)),
        *(
            Cell(
                f"logistic-as-published-p{p}", p, law="logistic", replications=many, declared="units", tunings=PUBLISHED
            )
            for p in (3, 10)
        ),
    ]


# --- one replication -----------------------------------------------------------------------------------


def draw(cell: Cell, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Response and design, made in blocks that stay in the cache."""
    root = np.linalg.cholesky(correlation(cell.p, cell.rho)).T.copy()
    x, y = np.empty((cell.n, cell.p + 1)), np.empty(cell.n)
    x[:, 0] = 1.0
    mean, sd = cell.places.T
    for i in range(0, cell.n, BLOCK):
        z = rng.standard_normal((min(BLOCK, cell.n - i), cell.p))
        if cell.rho:
            z = z @ root
        eta = 1.0 + z @ np.ones(cell.p)
        at = slice(i, i + len(z))
        x[at, 1:] = mean + sd * z if cell.dollars else z
        if cell.law == "logistic":
            y[at] = rng.uniform(size=len(z)) < 1.0 / (1.0 + np.exp(-eta))
        else:
            place, _, unit = cell.response
            y[at] = place + unit * (eta - 1.0 + errors(cell.law).draw(rng, z[:, 0]))
    return y, x


def declarations(cell: Cell) -> dict[str, Any]:
    """What the cell's user says about the columns."""
    bounds = {}
    if cell.law != "logistic":
        place, sd, _ = cell.response
        bounds["y"] = (place - cell.edge * sd, place + cell.edge * sd)
    if cell.declared == "nothing":
        return {"scaling": "private"}
    if cell.declared == "units":
        numbers = cell.names if cell.law == "logistic" else [*cell.names, "y"]
        return {"moments": dict.fromkeys(numbers, (0.0, 1.0))}
    if cell.declared == "moments":
        shape = correlation(cell.p, cell.rho)
        moments: dict[Any, Any] = {name: (m, s) for name, (m, s) in zip(cell.names, cell.places.tolist(), strict=True)}
        pairs = [(j, k) for k in range(cell.p) for j in range(k) if shape[j, k]]
        moments |= {(cell.names[j], cell.names[k]): float(shape[j, k]) for j, k in pairs}
        return {"bounds": bounds, "moments": moments}
    bounds |= {
        name: (m - cell.edge * s, m + cell.edge * s)
        for name, (m, s) in zip(cell.names, cell.places.tolist(), strict=True)
    }
    return {"bounds": bounds}


def one(cell: Cell, replication: int) -> list[dict]:
    """Fit one data set under each tuning: a record for each method, or one that says that the fit failed."""
    seeds = np.random.SeedSequence([zlib.crc32(cell.name.encode()), replication])
    y, x = draw(cell, np.random.Generator(np.random.SFC64(seeds.spawn(1)[0])))
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=["const", *cell.names], mu=cell.mu, score_weights=cell.weights,
        family=pr.Logistic() if cell.law == "logistic" else pr.Huber(), **declarations(cell),
    )  # fmt: skip
    sd = np.sqrt(np.diag(cell.limit()) / cell.n)
    out = []
    for tuning, seed in zip(BOTH, seeds.generate_state(2, np.uint64), strict=True):
        if tuning not in cell.tunings:
            continue
        truth = cell.truth(tuning)
        guess = None
        if cell.far:
            guess = truth + cell.to_user @ np.full(cell.p + 1, 10 * SCALE / np.sqrt(cell.p + 1))
        begin = time.perf_counter()
        try:
            res = model.fit(tuning=tuning, seed=int(seed), start_params=guess, threads=1, progress=False)
        except InferenceError:
            out.append({"tuning": tuning, "method": "none", "failed": 1})
            continue
        seconds = time.perf_counter() - begin
        for method in res.methods:
            low, high = res.conf_int(method=method).to_numpy().T
            out.append(
                {
                    "tuning": tuning,
                    "method": method,
                    "failed": 0,
                    "square": float((((res.params.to_numpy() - truth) / sd) ** 2).mean()),
                    "length": float((high - low).mean()),
                    "ratio": float(((high - low) / lengths(cell.limit(), cell.n)).mean()),
                    "covered": int(((low <= truth) & (truth <= high)).sum()),
                    "noted": bool(res.privacy.doubts),
                    "seconds": seconds,
                }
            )
    return out


def tabulate(cell: Cell, records: Iterable[Sequence[dict]], code: str) -> pd.DataFrame:
    """Rows of one cell, one for each tuning and method."""
    runs = pd.DataFrame([r for records_of_one in records for r in records_of_one])
    rows = []
    for (tuning, method), own in runs.groupby(["tuning", "method"], sort=False):
        row = {"cell": cell.name, "p": cell.p, "rho": cell.rho, "n": cell.n, "mu": cell.mu, "law": cell.law}
        row |= {"tuning": tuning, "method": method, "replications": len(own), "failed": int(own.failed.sum())}
        if not own.failed.all():
            trials = len(own) * (cell.p + 1)
            low = binom.ppf(0.001, trials, 0.95)
            row |= {
                "rmse_over_limit": round(float(np.sqrt(own.square.mean())), 4),
                "length": float(f"{own.length.mean():.5g}"),
                "length_over_limit": round(own.ratio.mean(), 4),
                "limit_length": float(f"{lengths(cell.limit(), cell.n).mean():.5g}"),
                "coverage": round(100 * own.covered.sum() / trials, 2),
                "low_999": round(100 * low / trials, 2),
                "holds": bool(own.covered.sum() >= low),
                "noted": round(float(own.noted.astype(float).mean()), 3),
                "seconds": round(own.seconds.mean(), 3),
            }
        rows.append(row | {"date": datetime.datetime.now(datetime.UTC).date().isoformat(), "code": code})
    return pd.DataFrame(rows)


# --- the study -----------------------------------------------------------------------------------------


def code_hash() -> str:
    """Eight digits that stand for the package's source."""
    found = hashlib.sha256()
    for path in sorted(Path(pr.__file__).parent.rglob("*.py")):
        found.update(path.read_bytes())
    return found.hexdigest()[:8]


def stored(path: Path) -> pd.DataFrame:
    return read_table(path) if path.exists() else pd.DataFrame({"cell": [], "code": []})


def add(rows: pd.DataFrame, path: Path, cells: Sequence[Cell], command: str) -> None:
    """Put a cell's rows into the stored table, in the order of the cells."""
    old = stored(path)
    of = [name for name in ("cell", "tuning") if name in rows.columns]
    if len(old):
        old = old[~pd.MultiIndex.from_frame(old[of]).isin(pd.MultiIndex.from_frame(rows[of]))]
    order = {c.name: i for i, c in enumerate(cells)}
    table = pd.concat([old, rows]) if len(old) else rows
    save_table(table.sort_values("cell", key=lambda s: s.map(order), kind="stable"), path, command)


def words(rows: pd.DataFrame) -> str:
    """One line about a cell that has been run."""
    parts = []
    for r in rows.itertuples():
        if r.failed == r.replications:
            parts.append(f"{r.tuning}: failed")
            continue
        doubt = " (note)" if r.noted == 1 else f" (note in {r.noted:.0%})" if r.noted else ""
        below = "" if r.holds else " BELOW"
        parts.append(
            f"{r.tuning}: rmse {r.rmse_over_limit:.2f}, length {r.length_over_limit:.2f}, "
            f"{r.coverage:.1f}%{below}{doubt}, {r.seconds:.2f} s"
        )
    return "; ".join(parts)


def run(args: argparse.Namespace, command: str) -> None:
    tables = [(args.out / GRID, grid()), (args.out / NAMED, named())]
    every = [c.name for _, cells in tables for c in cells]
    unknown = [w for w in args.cells if not any(fnmatch(name, w) for name in every)]
    if unknown:
        raise SystemExit(f"no cell is called {unknown[0]!r}; there are {', '.join(every)}")
    code, todo = code_hash(), []
    for path, cells in tables:
        done = stored(path)
        for cell in cells:
            wanted = any(fnmatch(cell.name, w) for w in args.cells) if args.cells else True
            if args.quick:
                wanted = wanted and (cell.n <= QUICK_PEOPLE or bool(args.cells))
                cell = replace(cell, replications=QUICK_REPLICATIONS)
            tunings = tuple(t for t in cell.tunings if t in args.tunings)
            cell = replace(cell, replications=args.reps or cell.replications, tunings=tunings)
            wanted = wanted and bool(tunings)
            if wanted and (args.quick or args.again or cell.name not in set(done.cell)):
                todo.append((path, cells, cell))
        others = done[done.code != code].cell.nunique()
        if others and not args.quick:
            print(f"{path.name}: {others} stored cells are from other code; --again replaces them", file=sys.stderr)
    os.environ["OPENBLAS_NUM_THREADS"] = "1"  # taken over by the workers, which are started afresh
    begin = time.perf_counter()
    with ProcessPoolExecutor(args.processes, mp_context=get_context("spawn")) as pool:
        for i, (path, cells, cell) in enumerate(todo, 1):
            rows = tabulate(cell, pool.map(partial(one, cell), range(cell.replications)), code)
            if not args.quick:
                add(rows, path, cells, command)
            spent = f"{time.perf_counter() - begin:,.0f} s"
            print(f"[{i}/{len(todo)}, {spent}] {cell.name}: {words(rows)}", file=sys.stderr, flush=True)


def plot(table: pd.DataFrame, path: Path) -> None:
    """Draw rmse over limit against n for normal errors and μ = 1: a column for ρ, a row for a tuning, a line for p."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import FixedLocator, NullFormatter, NullLocator

    from privreg.results.plots.style import COLUMN, GREY, MARKERS, SMALL, TEXT

    shades = ("#f0b323", "#e0703a", "#a8326d", "#3b1053")  # lighter to darker in grey too
    table = table[(table.law == "normal") & (table.mu == 1.0) & table.rmse_over_limit.notna()]
    style = {"font.size": SMALL, "axes.labelsize": TEXT, "axes.titlesize": TEXT, "axes.linewidth": 0.6}
    with rc_context(style | {"axes.spines.top": False, "axes.spines.right": False}):
        figure = Figure(figsize=(COLUMN, 3.7), dpi=300, layout="constrained")
        axes = figure.subplots(2, len(RHOS), sharex=True, sharey="row")
        for row, tuning in zip(axes, BOTH, strict=True):
            for ax, rho in zip(row, RHOS, strict=True):
                for p, shade, marker in zip(PS, shades, MARKERS, strict=False):
                    own = table[(table.tuning == tuning) & (table.rho == rho) & (table.p == p)].sort_values("n")
                    ax.plot(
                        own.n, own.rmse_over_limit, color=shade, marker=marker, markersize=3, linewidth=1,
                        markeredgecolor="white", markeredgewidth=0.3, label=f"p = {p}",
                    )  # fmt: skip
                ax.set(xscale="log", yscale="log")
                ax.xaxis.set_major_locator(FixedLocator([20_000, 200_000, 1_000_000]))
                ax.set_xticklabels(["20k", "200k", "1M"])
                ax.xaxis.set_minor_locator(NullLocator())
                ax.yaxis.set_minor_formatter(NullFormatter())
                ax.grid(axis="y", color="0.9", linewidth=0.5)
            row[0].set_ylabel(f"{'default' if tuning == 'efficient' else tuning} tuning\nrmse / limit")
            low, high = row[0].get_ylim()
            ticks = [v for v in (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000) if low <= v <= high]
            row[0].yaxis.set_major_locator(FixedLocator(ticks))
            row[0].set_yticklabels([str(v) for v in ticks])
            row[0].yaxis.set_minor_locator(NullLocator())
        for ax, rho in zip(axes[0], RHOS, strict=True):
            ax.set_title(f"ρ = {rho:g}")
            ax.axhline(1.0, color=GREY, linewidth=0.8, linestyle=":")
        figure.supxlabel("people (normal errors, μ = 1)", fontsize=TEXT)
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside upper center", ncols=4, frameon=False)
        figure.savefig(path)


def main(arguments: Sequence[str] | None = None) -> None:
    summary, usage = (__doc__ or "").split("\n\n", 1)
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.efficiency", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--cells", nargs="+", default=[], metavar="NAME", help="cells to run; * and ? stand for others")
    parser.add_argument("--tunings", nargs="+", default=list(BOTH), choices=BOTH, metavar="NAME", help="default both")
    parser.add_argument("--reps", type=int, help="replications of each cell; default 200 of a named one, else 20")
    parser.add_argument("--processes", type=int, default=1, help="default 1")
    parser.add_argument("--quick", action="store_true", help="a look: few replications, nothing stored")
    parser.add_argument("--again", action="store_true", help="run stored cells again and replace them")
    parser.add_argument("--plot", action="store_true", help="draw the figure from the stored grid, and run nothing")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="where results are stored")
    args = parser.parse_args(arguments)
    if args.plot:
        plot(read_table(args.out / GRID), args.out / FIGURE)
        return
    given = sys.argv[1:] if arguments is None else arguments
    run(args, " ".join(["python -m benchmarks.efficiency", *given]))


if __name__ == "__main__":
    main()
