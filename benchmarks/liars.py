"""A study in parts whose liars spoil some of them: coverage, shift and price of Hodges and Lehmann's estimate.

``python -m benchmarks.liars [--runs R] [--keep FOLDER]``

16,000 people answer two collectors, `y ~ x + z` with Huber's family, where errors have Student's t of four degrees of
freedom and x is skewed, so that every coefficient of the population is known. They are dealt to m parts, each fitted by
itself, and pooled by ``pr.meta_analysis(method="hodges_lehmann")``. In k of the parts the estimates are then
what liars like, 10⁹ with the standard errors of honest parts, which is the worst that they can do. Stored, one line a
budget, m and k, over all coefficients: coverage of 95% intervals with exact limits, mean shift in standard errors, and
standard errors relative to those of one fit of all people.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binomtest

import privreg as pr
from benchmarks.store import Runs, save_table
from privreg.results.several.meta import pooled_robustly

RESULTS = Path(__file__).with_name("results")
PEOPLE = 16_000
TRUTH = np.array([1.0, 2.0, -1.0])
LIARS = 0, 1, 2, 4


def people(seed: int) -> pd.DataFrame:
    """Records of known coefficients."""
    rng = np.random.default_rng(seed)
    x, z = np.minimum(rng.exponential(1.0, PEOPLE), 6.0), rng.uniform(-1.0, 1.0, PEOPLE)
    y = TRUTH @ np.array([np.ones(PEOPLE), x, z]) + rng.standard_t(4, PEOPLE)
    return pd.DataFrame({"y": y, "x": x, "z": z})


def fitted(rows: pd.DataFrame, mu: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Estimates and standard errors of two collectors."""
    bounds = {"y": (-20.0, 30.0), "x": (0.0, 6.0), "z": (-1.0, 1.0)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + z", rows, bounds=bounds, mu=mu, trust="two_collectors")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        res = model.fit(seed=seed, progress=False)
        return res.params.to_numpy(), res.bse.to_numpy()


def run(mu: float, m: int, seed: int) -> list[float]:
    """Estimates and standard errors of all people, then of each part; shape (1 + m, 2, 3) in a row."""
    rows = people(seed)
    found = [fitted(rows, mu, seed)]
    found += [fitted(rows.iloc[k::m].reset_index(drop=True), mu, 100 * seed + k) for k in range(m)]
    return np.array(found).ravel().tolist()


def row(mu: float, m: int, k: int, runs: np.ndarray) -> dict[str, float]:
    """Coverage, shift and price where k of m parts are liars'; `runs` has the shape (runs, 1 + m, 2, 3)."""
    hits, shifts, prices = [], [], []
    for one in runs:
        for j in range(3):
            y, error = one[1:, 0, j].copy(), one[1:, 1, j]
            y[:k] = 1e9
            pooled = pooled_robustly("", y, error**2)
            away = (pooled.estimate - TRUTH[j]) / pooled.error
            hits.append(abs(away) < pooled.critical(0.05))
            shifts.append(away)
            prices.append(pooled.error / one[0, 1, j])
    found = binomtest(sum(hits), len(hits)).proportion_ci()
    out = {"mu": mu, "parts": m, "spoiled": k, "intervals": len(hits), "coverage": 100 * np.mean(hits)}
    out |= {"low": 100 * found.low, "high": 100 * found.high}
    return out | {"shift": np.median(shifts), "by_formula": np.sqrt(3.0 / m) * k, "price": np.mean(prices)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.liars", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=200, help="200 by default")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    a = parser.parse_args(arguments)
    kept, table = Runs(a.keep), []
    for mu in (1.0, 3.0):
        for m in (8, 16):
            every = [kept.get(f"{mu:g}-{m}-{seed}", partial(run, mu, m, seed)) for seed in range(a.runs)]
            runs = np.array(every).reshape(a.runs, 1 + m, 2, 3)
            table += [row(mu, m, k, runs) for k in LIARS if k < 0.29 * m]
            print(pd.DataFrame(table).round(2).to_string(), flush=True)
    save_table(pd.DataFrame(table).round(3), RESULTS / "liars.csv", f"python -m benchmarks.liars --runs {a.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
