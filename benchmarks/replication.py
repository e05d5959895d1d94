"""Whether two fits of one population agree: the share of coefficients that differ significantly at 5%.

``python -m benchmarks.replication [--pairs P] [--n N] [--minutes M]``

Two samples of N people are drawn from one population and fitted at μ = 2. The second is fitted as it is, and with
``like=`` the first. In all designs the model is wrong or errors are skewed. Runs go over the designs in turn; what
--runs keeps is not run again. A line for each design, coefficient and kind of pair:

pairs, significant
    Pairs by now, and those whose difference, over the root of the sum of squared standard errors, exceeds 1.96.
low, high
    Exact binomial limits, 95%, of the share.
"""

from __future__ import annotations

import argparse
import time
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pandas as pd
from scipy.stats import beta

import privreg as pr
from benchmarks.store import save_table

RESULTS: Final = Path(__file__).parent / "results" / "replication.csv"
BOUNDS: Final = {"x": (0.0, 8.0), "w": (-4.0, 6.0), "y": (-10.0, 60.0)}
Draw = Callable[[np.random.Generator, np.ndarray, np.ndarray], np.ndarray]

DESIGNS: Final[dict[str, Draw]] = {
    "curved": lambda rng, x, w: 1.0 + 0.4 * x**2 + 0.5 * w + rng.normal(size=len(x)),
    "skewed": lambda rng, x, w: 1.0 + x + 0.5 * w + rng.exponential(3.0, len(x)),
    "skewed, spread": lambda rng, x, w: 1.0 + x + 0.5 * w + rng.exponential(0.5 + x),
    "curved, skewed": lambda rng, x, w: 1.0 + 0.3 * x**2 + 0.5 * w + rng.exponential(1.0 + 0.5 * x),
    "interaction": lambda rng, x, w: 1.0 + x + 0.5 * w + 0.7 * x * w + rng.normal(size=len(x)),
    "threshold": lambda rng, x, w: 1.0 + 5.0 * (x > 3.0) + 0.5 * w + rng.normal(size=len(x)),
}


def people(name: str, n: int, rng: np.random.Generator) -> pd.DataFrame:
    """Records of a design, within their bounds."""
    x = rng.gamma(2.0, 1.0, n).clip(*BOUNDS["x"])
    w = (rng.normal(size=n) + 0.3 * x).clip(*BOUNDS["w"])
    return pd.DataFrame({"x": x, "w": w, "y": DESIGNS[name](rng, x, w).clip(*BOUNDS["y"])})


def pair(name: str, n: int, run: int) -> list[dict[str, object]]:
    """Differences of two fits, over their standard errors, with and without ``like=``."""
    rng = np.random.default_rng([zlib.crc32(name.encode()), run])
    samples = [people(name, n, rng) for _ in range(2)]
    seeds = [int(s) for s in rng.integers(1, 2**62, 3)]
    first, second = (
        pr.PrivateOnlineRegression.from_formula("y ~ x + w", s, family=pr.Huber(), mu=2, bounds=BOUNDS) for s in samples
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = first.fit(seed=seeds[0])
        others = {"learned": second.fit(seed=seeds[1]), "like=": second.fit(seed=seeds[2], like=one)}
    out: list[dict[str, object]] = []
    for kind, other in others.items():
        z = (other.params - one.params) / np.hypot(other.bse, one.bse)
        out += [{"design": name, "n": n, "kind": kind, "term": t, "run": run, "z": v} for t, v in z.items()]
    return out


def summarised(runs: pd.DataFrame) -> pd.DataFrame:
    """Shares of significant differences."""
    by = runs.assign(significant=runs["z"].abs() > 1.959964).groupby(["design", "n", "kind", "term"], sort=False)
    out = by["significant"].agg(pairs="size", significant="sum").reset_index()
    k, m = out["significant"].to_numpy(), out["pairs"].to_numpy()
    out["share"] = k / m
    out["low"] = np.where(k > 0, beta.ppf(0.025, np.maximum(k, 1), m - k + 1), 0.0)
    out["high"] = np.where(k < m, beta.ppf(0.975, k + 1, np.maximum(m - k, 1)), 1.0)
    return out


def main() -> None:
    """Run what is missing, until the time is over, and store the table."""
    ask = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ask.add_argument("--pairs", type=int, default=200)
    ask.add_argument("--n", type=int, default=50_000)
    ask.add_argument("--minutes", type=float, default=600.0)
    ask.add_argument("--runs", type=Path, default=Path("replication_runs.csv"), help="where runs are kept")
    asked = ask.parse_args()
    kept = pd.read_csv(asked.runs) if asked.runs.exists() else pd.DataFrame()
    had = set() if kept.empty else set(zip(kept["design"], kept["n"], kept["run"], strict=True))
    end, lines = time.monotonic() + 60.0 * asked.minutes, kept.to_dict("records")
    for run in range(asked.pairs):
        for name in DESIGNS:
            if (name, asked.n, run) in had or time.monotonic() > end:
                continue
            lines += pair(name, asked.n, run)
        new = asked.runs.with_suffix(".part")
        pd.DataFrame(lines).to_csv(new, index=False)
        new.replace(asked.runs)
    command = f"python -m benchmarks.replication --pairs {asked.pairs} --n {asked.n}"
    save_table(summarised(pd.DataFrame(lines)).round(4), RESULTS, command)


if __name__ == "__main__":
    main()
