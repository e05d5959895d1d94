"""Coverage of 95% intervals of `Cloglog()` under each trust model.

``python -m benchmarks.cloglog [--reps R] [--cells NAME …] [--keep FOLDER]``

A cell is a trust model, a budget μ, a number of records and a design. Covariates are uniform on [−1, 1] and normal of
sd 0.6, clipped at ±2; the linear predictor is −0.4 + 1.2 x − 0.8 z ("usual"), that less 2 ("rare", one event in 12) or
plus 1 ("mostly", nine in ten). Estimates are compared with these coefficients, under which records are drawn.

Columns of `results/cloglog.csv`, one line a cell: replications; coverage, the share of intervals that hold their
coefficient, in %, pooled over coefficients; low_999, the share that exact intervals reach in 99.9% of such studies if
coefficients were independent; bias, the root mean square over coefficients of the mean error over the sd of estimates;
error_ratio, the sd of estimates over the mean standard error; noted, the share of fits that say not to rely on them.
``--keep`` stores each run, so that a study can be stopped and resumed.
"""

from __future__ import annotations

import argparse
import zlib
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.store import Runs, read_table, save_table

RESULTS = Path(__file__).parent / "results" / "cloglog.csv"
TRUTH = np.array([-0.4, 1.2, -0.8])
SHIFTS = {"usual": 0.0, "rare": -2.0, "mostly": 1.0}
CELLS = {
    f"{trust}-{mu:g}-{n}-{design}": (trust, mu, n, design)
    for trust, mu, n in (("local", 2.0, 100_000), ("two_collectors", 0.5, 20_000), ("central", 0.3, 10_000))
    for design in SHIFTS
}
CELLS |= {
    f"{trust}-1-{n}-usual": (trust, 1.0, n, "usual")
    for trust in ("central", "two_collectors")
    for n in (1_000, 5_000, 20_000)
}


def fitted(name: str, replication: int) -> list[float]:
    """Estimates, standard errors, lower and upper limits of one data set, and 1 if its summary has doubts."""
    trust, mu, n, design = CELLS[name]
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(name.encode()), replication]))
    x, z = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2)
    eta = TRUTH @ np.array([np.ones(n), x, z]) + SHIFTS[design]
    y = (rng.uniform(size=n) < -np.expm1(-np.exp(eta))).astype(float)
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", pd.DataFrame({"x": x, "z": z, "y": y}), family=pr.Cloglog(), mu=mu, trust=trust,
        bounds={"x": (-1, 1), "z": (-2, 2)},
    )  # fmt: skip
    res = model.fit(progress=False, seed=int(rng.integers(2**31)))
    return [*res.params, *res.bse, *res.conf_int().to_numpy().T.ravel(), float(bool(res.privacy.doubts))]


def row(name: str, reps: int, runs: Runs) -> dict[str, object]:
    """One line of the table."""
    made = np.array([runs.get(f"{name}-{k}", lambda k=k: fitted(name, k)) for k in range(reps)])
    params, errors, low, high, doubts = np.split(made, [3, 6, 9, 12], axis=1)
    truth = TRUTH + np.array([SHIFTS[CELLS[name][3]], 0.0, 0.0])
    held = (low <= truth) & (truth <= high)
    sd = params.std(axis=0, ddof=1)
    return {
        "cell": name,
        "replications": reps,
        "coverage": round(100.0 * float(held.mean()), 1),
        "low_999": round(100.0 * float(binom.ppf(0.001, held.size, 0.95)) / held.size, 1),
        "bias": round(float(np.sqrt(np.mean(((params.mean(axis=0) - truth) / sd) ** 2))), 2),
        "error_ratio": round(float(np.mean(sd / errors.mean(axis=0))), 2),
        "noted": round(float(doubts.mean()), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--cells", nargs="*", default=list(CELLS), choices=list(CELLS))
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    asked = parser.parse_args()
    for name in asked.cells:
        made = pd.DataFrame([row(name, asked.reps, Runs(asked.keep))])
        old = read_table(RESULTS) if RESULTS.exists() else made.iloc[:0]
        table = pd.concat([old[old["cell"] != name], made])
        order = {cell: k for k, cell in enumerate(CELLS)}
        table = table.sort_values("cell", key=lambda s: s.map(order))
        save_table(table, RESULTS, f"python -m benchmarks.cloglog --reps {asked.reps}")
        print(made.to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
