"""Coverage of a level's interval by how many records have the level: where notes on rare levels must begin.

``python -m benchmarks.rare_levels [--reps R] [--rows N …] [--levels K …] [--shares S …] [--places P …]``

A factor of K levels is fitted beside a normal covariate, by Huber's loss or as a logistic regression, at μ = 1. One
level has a share S of the records, the others share the rest alike; it is the last or the reference, which the others
are compared with. The model is right, so the interval is compared with its coefficient: that of the last level. One
line for each case:

covered, trials, coverage
    95% intervals of the last level that hold its coefficient; all; in %.
low_999, high_999
    Between which a share with exactly this level lies in 99.9% of such studies.
marked
    Share of the fits that mark it.
others
    Coverage of all other coefficients, in %.
by_rule
    Share over the smallest that `privreg.fits.findings` lets pass without a note, without its limits.
length
    Mean length of that level's intervals.
"""

from __future__ import annotations

import argparse
import itertools
import math
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks.store import read_table, save_table
from privreg.collector.covariates.whitening import FARTHEST
from privreg.fits.findings import FEW

RESULTS: Final = Path(__file__).parent / "results" / "rare_levels.csv"
KEYS: Final = ["family", "place", "levels", "share", "n"]
SD: Final = 0.5


def one(family: str, place: str, levels: int, share: float, n: int, replication: int) -> dict[str, Any]:
    """Fit one data set."""
    rng = np.random.Generator(np.random.SFC64([replication, levels, n, round(1e4 * share)]))
    names = [f"l{k}" for k in range(levels)]
    shares = [*[(1 - share) / (levels - 1)] * (levels - 1), share]
    g = rng.choice(levels, n, p=shares if place == "last" else shares[::-1])
    x = rng.standard_normal(n)
    effects = np.concatenate([np.linspace(0.0, 1.0, levels - 1), [0.7]])
    eta = 0.3 + effects[g] + 0.5 * x
    logistic = family == "logistic"
    y = (rng.random(n) < 1 / (1 + np.exp(-eta))).astype(int) if logistic else eta + SD * rng.standard_normal(n)
    rows = pd.DataFrame({"g": np.array(names)[g], "x": x, "y": y})
    bounds = {"x": (-4.0, 4.0)} | ({} if logistic else {"y": (-5.0, 7.0)})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        res = pr.PrivateOnlineRegression.from_formula(
            "y ~ g + x", rows, family=family, mu=1, bounds=bounds, levels={"g": names}
        ).fit(seed=replication, progress=False, threads=1)
    table = res.tidy().set_index("term")
    truth = dict(zip([f"g[T.{k}]" for k in names[1:]], effects[1:], strict=True)) | {"Intercept": 0.3, "x": 0.5}
    inside = {k: bool(table.at[k, "conf_low"] <= v <= table.at[k, "conf_high"]) for k, v in truth.items()}
    mine = f"g[T.{names[-1]}]"
    return {
        "covered": inside[mine], "others": np.mean([v for k, v in inside.items() if k != mine]),
        "marked": not table.at[mine, "reliable"], "length": table.at[mine, "conf_high"] - table.at[mine, "conf_low"],
    }  # fmt: skip


def needed(family: str, levels: int, n: int) -> float:
    """The rule's smallest share, before it is held between its limits; every record answers."""
    d = levels + 1
    curvature = 0.25 if family == "logistic" else math.erf(0.5 / math.sqrt(2.0))
    effective = 2.0 / math.sqrt(4.0 + 0.7 / d)
    return 2.0 * FEW * math.sqrt(1.0 + (d - 1) / FARTHEST**2) / (curvature * effective * math.sqrt(n))


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=300)
    parser.add_argument("--families", nargs="*", default=["huber", "logistic"])
    parser.add_argument("--rows", nargs="*", type=int, default=[50_000, 200_000, 1_000_000])
    parser.add_argument("--levels", nargs="*", type=int, default=[2, 5, 10])
    parser.add_argument("--shares", nargs="*", type=float, default=[0.035, 0.05, 0.07, 0.1, 0.14, 0.2, 0.28])
    parser.add_argument("--places", nargs="*", choices=["last", "reference"], default=["last", "reference"])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    a = parser.parse_args(arguments)
    with ProcessPoolExecutor(a.processes) as pool:
        cases = itertools.product(a.families, a.places, a.rows, a.levels, a.shares)
        for family, place, n, levels, share in cases:
            runs = pool.map(partial(one, family, place, levels, share, n), range(a.reps))
            rows = pd.DataFrame(tqdm(runs, total=a.reps, leave=False))
            covered, trials = int(rows["covered"].sum()), len(rows)
            line = {"family": family, "place": place, "levels": levels, "share": share, "n": n}
            line |= {"covered": covered, "trials": trials, "marked": rows["marked"].mean()}
            line |= {"coverage": 100 * covered / trials, "others": 100 * rows["others"].mean()}
            low, high = 100 * binom.ppf([5e-4, 0.9995], trials, 0.95) / trials
            line |= {"low_999": low, "high_999": high}
            line |= {"by_rule": share / needed(family, levels, n), "length": rows["length"].mean()}
            old = read_table(a.out) if a.out.exists() else pd.DataFrame(columns=KEYS)
            same = (old[KEYS].astype(str) == [str(line[k]) for k in KEYS]).all(axis=1) if len(old) else []
            table = pd.concat([old[~same], pd.DataFrame([line])]) if len(old) else pd.DataFrame([line])
            save_table(table.round(4), a.out, f"python -m benchmarks.rare_levels --reps {a.reps}")
            print({k: v if isinstance(v, str) else round(v, 3) for k, v in line.items()}, flush=True)


if __name__ == "__main__":
    main()
