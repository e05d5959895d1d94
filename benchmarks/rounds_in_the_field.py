"""Fits by rounds as they go in the field: fewer rounds, reports that are lost or late, records in a bad order.

``python -m benchmarks.rounds_in_the_field [--cells NAME …] [--ps P …] [--reps R] [--first F] [--processes K]``

Data: y = 1 + x₁ + … + x_p + e, p standard normal covariates, errors of sd 0.5, bounds at ±4 sd of every column,
200,000 records, μ = 1. All cells of a replication are played on the same records, by ``pr.simulate`` in random slots:

rounds-10, rounds-12, rounds-20
    So many public states.
late-5
    Reports of main rounds arrive up to 5 rounds late.
dropout-30
    30% of the reports never arrive. The limit is that of the others.
late-5-dropout-30
    Both.
correlated
    y has 0.2 (x₁² − 1) more, so that the model is wrong, and the order of the records is correlated 0.7 with x₁. The
    truth is ``res.estimand`` on 400,000 other records; the limit is that of normal errors of the residuals' sd.
sorted
    The table is sorted by its response.

One line for each cell and p:

rmse_over_limit, standard_error
    Root of the mean, over replications and coefficients, of squared error over squared limit (its standard deviation,
    see `benchmarks.limits`), and its own standard error.
length_over_limit
    Mean of 95% intervals' lengths over those at the limit.
coverage, low, high, trials
    Share of 95% intervals that hold their coefficient, in %; its exact binomial limits of 95%, were coefficients
    independent; intervals.
marked
    Share of fits in which a note takes a coefficient back.
"""

from __future__ import annotations

import argparse
import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import beta
from tqdm import tqdm

import privreg as pr
from benchmarks.limits import NORMAL_975, SCALE, limit
from benchmarks.store import save_table

RESULTS: Final = Path(__file__).parent / "results" / "rounds_in_the_field.csv"
N: Final = 200_000
POPULATION: Final = 400_000
BENT: Final = 0.2
ALIKE: Final = 0.7
CELLS: Final[dict[str, tuple[int, dict[str, Any]]]] = {
    "rounds-10": (10, {}),
    "rounds-12": (12, {}),
    "rounds-20": (20, {}),
    "late-5": (20, {"late": 5}),
    "dropout-30": (20, {"dropout": 0.3}),
    "late-5-dropout-30": (20, {"late": 5, "dropout": 0.3}),
    "correlated": (20, {}),
    "sorted": (20, {}),
}


def _rows(rng: np.random.Generator, n: int, p: int, bent: float) -> pd.DataFrame:
    x = rng.standard_normal((n, p))
    y = 1.0 + x.sum(axis=1) + SCALE * rng.standard_normal(n) + bent * (x[:, 0] ** 2 - 1.0)
    return pd.DataFrame({f"x{j + 1}": x[:, j] for j in range(p)} | {"y": y})


def one(p: int, cells: Sequence[str], replication: int) -> list[dict[str, Any]]:
    """Play the cells on one data set."""
    rng = np.random.Generator(np.random.SFC64([replication, p]))
    plain, bent, population = _rows(rng, N, p, 0.0), _rows(rng, N, p, BENT), None
    reach = 4.0 * math.sqrt(p + SCALE**2)
    bounds = {f"x{j + 1}": (-4.0, 4.0) for j in range(p)} | {"y": (1.0 - reach, 1.0 + reach)}
    out = []
    for name in cells:
        rounds, how = CELLS[name]
        rows, scale, came = plain, 1.0, 1.0 - how.get("dropout", 0.0)
        if name == "sorted":
            rows = plain.sort_values("y", ignore_index=True)
        if name == "correlated":
            along = ALIKE * bent["x1"] + math.sqrt(1.0 - ALIKE**2) * rng.standard_normal(N)
            rows, scale = bent.iloc[np.argsort(along.to_numpy())], math.hypot(1.0, BENT * math.sqrt(2.0) / SCALE)
        formula = "y ~ " + " + ".join(f"x{j + 1}" for j in range(p))
        model = pr.PrivateOnlineRegression.from_formula(formula, rows, mu=1, bounds=bounds)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
            res = pr.simulate(model.plan(rounds=rounds), rows, seed=replication, **how)
        truth = np.ones(p + 1)
        if name == "correlated":
            population = _rows(rng, POPULATION, p, BENT) if population is None else population
            truth = np.asarray(res.estimand(population))
        table, own = res.tidy(), scale * np.sqrt(np.diag(limit(p, 0.0, 1.0, "normal")) / (N * came))
        low, high = np.asarray(table["conf_low"]), np.asarray(table["conf_high"])
        error = np.asarray(table["estimate"]) - truth
        out.append(
            {"cell": name, "p": p, "replication": replication, "marked": not table["reliable"].all()}
            | {"square": float(np.mean((error / own) ** 2))}
            | {"length": float(np.mean((high - low) / (2.0 * NORMAL_975 * own)))}
            | {"covered": int(((low <= truth) & (truth <= high)).sum()), "trials": p + 1}
        )
    return out


def _table(found: Sequence[dict[str, Any]]) -> pd.DataFrame:
    lines = []
    for (name, p), rows in pd.DataFrame(found).groupby(["cell", "p"], sort=False):
        covered, trials = int(rows["covered"].sum()), int(rows["trials"].sum())
        rmse = math.sqrt(rows["square"].mean())
        lines.append(
            {"cell": name, "p": p, "replications": len(rows), "rmse_over_limit": rmse}
            | {"standard_error": rows["square"].std() / math.sqrt(len(rows)) / (2.0 * rmse)}
            | {"length_over_limit": rows["length"].mean(), "coverage": 100.0 * covered / trials}
            | {"low": 100.0 * beta.ppf(0.025, covered, trials - covered + 1)}
            | {"high": 100.0 * beta.ppf(0.975, covered + 1, trials - covered) if covered < trials else 100.0}
            | {"trials": trials}
            | {"marked": rows["marked"].mean()}
        )
    return pd.DataFrame(lines).round(4)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store; the table is written anew after every few replications."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="*", choices=CELLS, default=list(CELLS), metavar="NAME")
    parser.add_argument("--ps", nargs="*", type=int, default=[3, 10], metavar="P")
    parser.add_argument("--reps", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="number of the first replication")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    found: list[dict[str, Any]] = []
    numbers = range(a.first, a.first + a.reps)
    command = f"python -m benchmarks.rounds_in_the_field --reps {a.reps}"
    with ProcessPoolExecutor(a.processes) as pool:
        work = [pool.submit(partial(one, p, a.cells), r) for r in numbers for p in a.ps]
        for k, done in enumerate(tqdm(work, mininterval=10.0)):
            found += done.result()
            if k % 20 == 19 or k == len(work) - 1:
                save_table(_table(found).sort_values("p", kind="stable"), a.out, command)
    print(_table(found).to_string(index=False))


if __name__ == "__main__":
    main()
