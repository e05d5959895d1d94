"""Tobit fits of which much is censored: intervals, and marks where noise hides the standard deviation.

``python -m benchmarks.censored [--runs R] [--cells TEXT …] [--keep FOLDER]``

``--cells central-20000`` runs those whose name has this text; lines that are stored of others stay.

`y = c + x/2 + e`, e standard normal, censored at 0 as often as the cell says, at μ = 1. Stored, one line a trust model,
number of records and share of censored responses:

blurred
    Median of the largest relative sd of a coefficient's standard error by noise in slopes: Equations (42) and (64).
marked
    Coefficients, in %, that are marked, for it or anything else.
covered, low, high
    Unmarked 95% intervals that hold, in %, with exact 99% limits; empty where all are marked.
worst, worst_marked
    Largest error of a coefficient in its standard errors, of those that aren't marked and of those that are.
sigma, sigma_low, sigma_high, hidden
    The same of intervals of sigma, and fits, in %, that have no standard error of it.
at_0.15, at_0.4
    Coefficients, in %, that would be held if this relative sd were the limit in place of `BLURRED`, and nothing else.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

import privreg as pr
from benchmarks.store import Runs, read_table, save_table
from privreg.fits import aggregate

RESULTS = Path(__file__).with_name("results")
SLOPE = 0.5
GRID = np.linspace(-2.0, 2.0, 2_001)
SIZES = (1_000, 5_000, 20_000)
SHARES = (0.3, 0.5, 0.6, 0.7, 0.8, 0.9)


def constant(share: float) -> float:
    """The constant at which so many responses are below 0."""
    tried = np.linspace(-8.0, 8.0, 3_201)
    below = norm.cdf(-(tried[:, None] + SLOPE * GRID)).mean(axis=1)
    return float(np.interp(-share, -below, tried))


def fitted(trust: str, n: int, share: float, seed: int) -> list[float]:
    """Relative sds, coefficients' errors in standard errors, flags that these are unmarked, and limits of sigma."""
    rng, c, held = np.random.default_rng(seed), constant(share), list[Any]()
    x = rng.uniform(-2.0, 2.0, n)
    rows = pd.DataFrame({"x": x, "y": np.clip(c + SLOPE * x + rng.standard_normal(n), 0.0, 8.0)})

    def spied(*given: Any, kept: Any = aggregate.doubts) -> Any:
        _, _, found, loads, *_ = given
        held[:] = [found.blurred(loads)]
        return kept(*given)

    given: dict[str, Any] = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": trust}
    kept = aggregate.doubts
    aggregate.doubts = spied
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given).fit(seed=seed, progress=False)
    finally:
        aggregate.doubts = kept
    away = (res.params.to_numpy() - [c, SLOPE]) / res.bse.to_numpy()
    sigma = res.fit_measures.iloc[0]
    return [*held[0], *away, *res.tidy()["reliable"].astype(float), sigma["conf_low"], sigma["conf_high"]]


def share(held: np.ndarray, *names: str) -> dict[str, float]:
    """Share that holds, in %, with exact 99% limits; nothing of none."""
    if not held.size:
        return {}
    limits = binomtest(int(held.sum()), held.size).proportion_ci(0.99)
    return dict(zip(names, 100.0 * np.array([held.mean(), limits.low, limits.high]), strict=True))


def row(trust: str, n: int, censored: float, runs: np.ndarray) -> dict[str, Any]:
    """One line of the table; `runs` has the shape (runs, 8)."""
    blurred, away, ok, limits = runs[:, :2], np.abs(runs[:, 2:4]), runs[:, 4:6] > 0.5, runs[:, 6:]
    shown, held = ~np.isnan(limits[:, 0]), away < norm.ppf(0.975)
    out: dict[str, Any] = {"trust": trust, "n": n, "censored": 100 * censored, "runs": len(runs)}
    out |= {"blurred": np.median(blurred.max(axis=1)), "marked": 100.0 * np.mean(~ok)}
    out |= share(held[ok], "covered", "low", "high")
    out |= {"worst": away[ok].max(initial=0.0), "worst_marked": away[~ok].max(initial=0.0)}
    sigma = (limits[shown, 0] <= 1.0) & (limits[shown, 1] >= 1.0)
    out |= share(sigma, "sigma", "sigma_low", "sigma_high") | {"hidden": 100.0 * np.mean(~shown)}
    return out | {f"at_{at:g}": 100.0 * held[blurred <= at].mean() for at in (0.15, 0.4) if (blurred <= at).any()}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.censored", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=60, help="60 by default")
    parser.add_argument("--cells", nargs="*", default=[""], metavar="TEXT")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    a = parser.parse_args(arguments)
    kept, path = Runs(a.keep), RESULTS / "censored.csv"
    for n, trust, censored in product(SIZES, ("central", "two_collectors"), SHARES):
        name = f"{trust}-{n}-{censored:g}"
        if not any(text in name for text in a.cells):
            continue
        make = partial(fitted, trust, n, censored)
        every = [kept.get(f"{name}-{s}", partial(make, s)) for s in range(a.runs)]
        made = pd.DataFrame([row(trust, n, censored, np.array(every))]).round(3)
        print(made.to_string(index=False), flush=True)
        old = read_table(path) if path.exists() else made.iloc[:0]
        others = old[(old[["trust", "n", "censored"]] != made[["trust", "n", "censored"]].iloc[0]).any(axis=1)]
        table = pd.concat([others, made]).sort_values(["n", "trust", "censored"])
        save_table(table, path, f"python -m benchmarks.censored --runs {a.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
