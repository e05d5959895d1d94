"""Coverage and length of every way to intervals, at four levels; and looking all the time.

``python -m benchmarks.intervals levels [--reps R] [--processes K] [--cells NAME …]``

Data as in `benchmarks.limits`: intercept and p standard normal covariates, all coefficients 1, normal errors of sd 0.5,
Huber with everything learned, bounds at ±4 sd of every column, n = 200,000 people; default tuning with all methods in
one pass. One line for each cell, method and level:

covered, trials, coverage
    Intervals that hold their coefficient, pooled over coefficients and replications; all; in %.
low_999, high_999
    Between which a share with exactly this level lies in 99.9% of such studies, were coefficients independent.
inside, below
    Whether coverage lies there; whether it lies under it.
length, rmse
    Mean length; root mean square error of the estimates.
noted
    Share of fits in which a note takes this method's intervals back.

``python -m benchmarks.intervals always [--reps R] [--processes K]``

A stream of 1,000,000 people, p = 3, μ = 1, whose length nobody was told, looked at after every 20,000 people:
in how many streams do 95% intervals hold their coefficient at every look? Per coefficient, pooled, and for all four at
level 95% by Bonferroni: `anytime`, and batch means' fixed-n intervals, which are not made for that.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks.efficiency import code_hash
from benchmarks.store import read_table, save_table
from privreg.errors import InferenceError

RESULTS = Path(__file__).parent / "results"
N, SD, EDGE = 200_000, 0.5, 4.0
LEVELS = (80.0, 90.0, 95.0, 99.0)
METHODS = ("sandwich", "random_scaling", "batch_means", "block_bootstrap", "block_bootstrap_t", "anytime")
CELLS = {f"p{p}-mu{mu}": (p, mu) for p in (3, 5, 10) for mu in (1, 2)}
STEP, END = 20_000, 1_000_000


def people(n: int, p: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    x = np.column_stack([np.ones(n), rng.standard_normal((n, p))])
    return x.sum(axis=1) + SD * rng.standard_normal(n), x


def model(
    p: int, mu: float, y: np.ndarray | None, x: np.ndarray | None, **options: object
) -> pr.PrivateOnlineRegression:
    names = ["const", *(f"x{j + 1}" for j in range(p))]
    far = EDGE * math.sqrt(p + SD**2)
    bounds = {name: (-EDGE, EDGE) for name in names[1:]} | {"y": (1 - far, 1 + far)}
    return pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=mu)


def one(cell: str, replication: int) -> list[dict]:
    p, mu = CELLS[cell]
    rng = np.random.Generator(np.random.SFC64([replication, p, mu]))
    m = model(p, mu, *people(N, p, rng))
    seed, out = int(rng.integers(1 << 62)), []
    res = m.fit(inference=METHODS, seed=seed, progress=False, threads=1)
    error = float(((res.params - 1) ** 2).mean())
    for method in res.methods:
        noted = bool(res._doubts(method))
        for level in LEVELS:
            limits = res.conf_int(1 - level / 100, method=method).to_numpy()
            covered = int(((limits[:, 0] <= 1) & (limits[:, 1] >= 1)).sum())
            length = float((limits[:, 1] - limits[:, 0]).mean())
            out.append(
                {"cell": cell, "method": method, "level": level, "covered": covered, "trials": p + 1}
                | {"length": length, "mse": error, "noted": noted}
            )
    return out


def levels(args: argparse.Namespace, command: str) -> None:
    path = RESULTS / "intervals.csv"
    tables = []
    with ProcessPoolExecutor(args.processes) as pool:
        for cell in args.cells or CELLS:
            found = list(tqdm(pool.map(partial(one, cell), range(args.reps)), total=args.reps, desc=cell))
            rows = pd.DataFrame([row for rows in found for row in rows])
            grouped = rows.groupby(["cell", "method", "level"], sort=False)
            table = grouped.agg(
                replications=("covered", "size"), covered=("covered", "sum"), trials=("trials", "sum"),
                length=("length", "mean"), mse=("mse", "mean"), noted=("noted", "mean"),
            ).reset_index()  # fmt: skip
            share = table.level / 100
            table["coverage"] = 100 * table.covered / table.trials
            table["low_999"] = 100 * binom.ppf(0.0005, table.trials, share) / table.trials
            table["high_999"] = 100 * binom.ppf(0.9995, table.trials, share) / table.trials
            table["inside"] = table.coverage.between(table.low_999, table.high_999)
            table["below"] = table.coverage < 100 * binom.ppf(0.001, table.trials, share) / table.trials
            table["rmse"] = np.sqrt(table.pop("mse"))
            table["code"] = code_hash()
            tables.append(table)
            old = read_table(path) if path.exists() else pd.DataFrame(columns=["cell"])
            save_table(pd.concat([old[~old.cell.isin(table.cell)], table]).round(5), path, command)
    table = pd.concat(tables)
    wide = table.pivot_table(index=["method"], columns=["cell", "level"], values="coverage", sort=False)
    print(wide.round(1).to_string())
    print(table[table.below].to_string())


def watch(replication: int) -> dict:
    """Watch one stream: whether each coefficient was held at every look, by method, and at the last look."""
    rng = np.random.Generator(np.random.SFC64([replication, 1]))
    stream = model(3, 1, *people(10, 3, rng)).start(
        inference=("anytime", "batch_means"), seed=int(rng.integers(1 << 62))
    )
    held = {k: np.ones(4, dtype=bool) for k in ("anytime", "anytime_joint", "fixed", "fixed_last")}
    looks = 0
    for _ in range(STEP, END + 1, STEP):
        stream.update(people(STEP, 3, rng))
        try:
            res = stream.results()
        except InferenceError:  # the first people's reports set the scales
            continue
        for name, method, alpha in (
            ("anytime", "anytime", 0.05), ("anytime_joint", "anytime", 0.0125), ("fixed", "batch_means", 0.05),
        ):  # fmt: skip
            if method in res.methods:
                low, high = res.conf_int(alpha, method=method).to_numpy().T
                now = (low <= 1) & (high >= 1)
                held[name] &= now
                if name == "fixed":
                    held["fixed_last"] = now
                looks += name == "anytime"
    return {k: int(v.sum()) if k != "anytime_joint" else int(v.all()) for k, v in held.items()} | {"looks": looks}


def always(args: argparse.Namespace, command: str) -> None:
    with ProcessPoolExecutor(args.processes) as pool:
        rows = pd.DataFrame(tqdm(pool.map(watch, range(args.reps)), total=args.reps))
    out = []
    for name in ("anytime", "anytime_joint", "fixed", "fixed_last"):
        trials = args.reps * (1 if name == "anytime_joint" else 4)
        held = int(rows[name].sum())
        low = 100 * binom.ppf(0.001, trials, 0.95) / trials
        out.append({"intervals": name, "held": held, "of": trials, "percent": 100 * held / trials, "low_999": low})
    table = pd.DataFrame(out)
    table["streams"], table["looks"], table["code"] = args.reps, rows.looks.mean(), code_hash()
    save_table(table.round(3), RESULTS / "always.csv", command)
    print(table.to_string())


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["levels", "always"])
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--cells", nargs="*", choices=list(CELLS))
    args = parser.parse_args(arguments)
    command = " ".join(["python -m benchmarks.intervals", *(sys.argv[1:] if arguments is None else arguments)])
    {"levels": levels, "always": always}[args.what](args, command)


if __name__ == "__main__":
    main()
