"""Tobit fits of which much is censored: where noise hides the standard deviation, and whether such fits are marked.

``python -m benchmarks.censored [--runs R] [--keep FOLDER]``

`y = c + x/2 + e`, e standard normal, censored at 0 as often as the cell says, at μ = 1. Stored, one line a trust model,
number of records and share of censored responses:

clear
    Median of the least noise of a main round's slope by which the sd is learned, relative to that slope.
marked
    Fits, in %, of which it is above `HIDDEN` in all main rounds, so that all coefficients are marked.
covered, low, high
    Unmarked 95% intervals that hold, in %, with exact 99% limits; empty where all fits are marked.
worst, worst_marked
    Largest error of a coefficient in its standard errors, of fits that aren't marked and of those that are.
at_5, at_20
    Largest such error where the limit were 0.05 or 0.2, of fits that would not be marked then.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import binomtest, norm

import privreg as pr
from benchmarks.store import Runs, save_table
from privreg.fits import aggregate

RESULTS = Path(__file__).with_name("results")
SLOPE = 0.5
GRID = np.linspace(-2.0, 2.0, 2_001)


def constant(share: float) -> float:
    """The constant at which so many responses are below 0."""
    tried = np.linspace(-8.0, 8.0, 3_201)
    below = norm.cdf(-(tried[:, None] + SLOPE * GRID)).mean(axis=1)
    return float(np.interp(-share, -below, tried))


def fitted(trust: str, n: int, share: float, seed: int) -> list[float]:
    """Relative noise of the clearest slope, and both coefficients' errors in standard errors."""
    rng, c, seen = np.random.default_rng(seed), constant(share), list[float]()
    x = rng.uniform(-2.0, 2.0, n)
    rows = pd.DataFrame({"x": x, "y": np.clip(c + SLOPE * x + rng.standard_normal(n), 0.0, 8.0)})

    def spied(plan: Any, progress: Any, kept: Any = aggregate._hidden) -> bool:
        high = plan.rules.scoring.steps()[0]
        seen.append(min(2.0 * high * s.sds[4] / s.steep for s in progress.seen if s.state.role == "main"))
        return bool(kept(plan, progress))

    given: dict[str, Any] = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": trust}
    kept = aggregate._hidden
    aggregate._hidden = spied  # type: ignore[assignment]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given).fit(seed=seed, progress=False)
    finally:
        aggregate._hidden = kept
    away = (res.params.to_numpy() - [c, SLOPE]) / res.bse.to_numpy()
    reliable = res.tidy()["reliable"].to_numpy()
    return [seen[0], *away.tolist(), *reliable.astype(float).tolist()]


def row(trust: str, n: int, share: float, runs: np.ndarray) -> dict[str, Any]:
    """One line of the table; `runs` has the shape (runs, 5)."""
    clear, away, ok = runs[:, 0], np.abs(runs[:, 1:3]), runs[:, 3:] > 0.5
    out: dict[str, Any] = {"trust": trust, "n": n, "censored": 100 * share, "runs": len(runs)}
    out |= {"clear": np.median(clear), "marked": 100.0 * np.mean(clear > aggregate.HIDDEN)}
    if ok.any():
        hits = away[ok] < norm.ppf(0.975)
        limits = binomtest(int(hits.sum()), hits.size).proportion_ci(0.99)
        out |= {"covered": 100.0 * hits.mean(), "low": 100.0 * limits.low, "high": 100.0 * limits.high}
        out |= {"worst": away[ok].max()}
    out |= {"worst_marked": away[~ok].max(initial=0.0)}
    return out | {f"at_{100 * limit:.0f}": away[clear <= limit].max(initial=0.0) for limit in (0.05, 0.2)}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    summary, _, usage = (__doc__ or "").partition("\n\n")
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.censored", description=summary, epilog=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--runs", type=int, default=60, help="60 by default")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    a = parser.parse_args(arguments)
    kept, table = Runs(a.keep), []
    for trust in ("central", "two_collectors"):
        for n in (3_000, 20_000):
            for share in (0.3, 0.5, 0.6, 0.7, 0.8, 0.9):
                make = partial(fitted, trust, n, share)
                every = [kept.get(f"{trust}-{n}-{share:g}-{s}", partial(make, s)) for s in range(a.runs)]
                table.append(row(trust, n, share, np.array(every)))
                print(pd.DataFrame(table[-1:]).round(2).to_string(header=len(table) == 1, index=False), flush=True)
    save_table(pd.DataFrame(table).round(3), RESULTS / "censored.csv", f"python -m benchmarks.censored --runs {a.runs}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
