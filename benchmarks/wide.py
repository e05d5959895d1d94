"""Coverage of 95% intervals of logits, ordered, multinomial and conditional ones, and `Cloglog()`, of wide predictors.

``python -m benchmarks.wide [--reps R] [--cells PATTERN …] [--keep FOLDER]``

A cell is a family, a trust model at μ = 1, a number of records and a design of covariates. g is 1 for 30% and else 0, z
normal of sd 0.6 clipped at ±2, and x uniform on [−1, 1] ("even"), exponential with mean 0.6, less that, clipped at 3
("skewed"), or 0.35 times Student's t of 3 degrees of freedom, clipped at ±3 ("heavy"). The linear predictor is η = 2.3
(0.5 g + 1.2 x − 0.8 z), whose sd is 2. Logits are η − 2.3; cut points are −1, 1.5 and 4; classes have the predictors 0,
η and ½η + ½; complementary log-log ones are of 0.65 η − 1.5; of the conditional logit people have two rows and a level
of sd 1.5, and g is as z is. Records are drawn from each family's model, and estimates are compared with its
coefficients of g, x and z.

Columns of `results/wide.csv`, one line a cell: replications; coverage, the share of intervals that hold their
coefficient, in %, pooled; low_999, the share that exact intervals reach in 99.9% of such studies if coefficients were
independent; least, the lowest coverage of a coefficient, and least_999, which the lowest of three reaches in 99.9%, by
Bonferroni; unmarked, coverage of those that the summary doesn't mark, and marked, the share that it does; bias, the
largest mean error of a coefficient in standard errors; error_ratio, the sd of estimates over the mean standard error.
``--keep`` stores each run, so that a study can be stopped and resumed.
"""

import argparse
import warnings
import zlib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import expit
from scipy.stats import binom

import privreg as pr
from benchmarks.store import Runs, read_table, save_table

RESULTS = Path(__file__).parent / "results" / "wide.csv"
SLOPES = 2.3 * np.array([0.5, 1.2, -0.8])
FAMILIES: dict[str, Any] = {
    "logistic": pr.Logistic(),
    "ordered": pr.Ordered(),
    "conditional": pr.Logistic(),
    "multinomial": pr.Multinomial(),
    "cloglog": pr.Cloglog(),
}
LEVELS = {"ordered": 4, "multinomial": 3}
BOUNDS = {"even": (-1, 1), "skewed": (-1, 3), "heavy": (-3, 3)}
CELLS = {
    f"{family}-{trust}-{n}-{design}": (family, trust, n, design)
    for family in FAMILIES
    for trust, n, design in (
        *(("two_collectors", n, d) for n in (5_000, 20_000) for d in BOUNDS),
        ("two_collectors", 100_000, "even"),
        *(("central", n, "even") for n in (5_000, 20_000)),
    )
}


def people(family: str, n: int, design: str, rng: np.random.Generator) -> pd.DataFrame:
    """Records; of the conditional logit two of each of n people."""
    rows = 2 * n if family == "conditional" else n
    x = {
        "even": lambda: rng.uniform(-1, 1, rows),
        "skewed": lambda: (rng.exponential(0.6, rows) - 0.6).clip(-1, 3),
        "heavy": lambda: (0.35 * rng.standard_t(3, rows)).clip(-3, 3),
    }[design]()
    g, z = (rng.uniform(size=rows) < 0.3).astype(int), rng.normal(0, 0.6, rows).clip(-2, 2)
    eta, u = SLOPES @ np.array([g, x, z]), rng.uniform(size=rows)
    if family == "conditional":
        y = u < expit(eta + np.repeat(rng.normal(0.0, 1.5, n), 2))
    elif family == "ordered":
        y = sum((u < expit(eta - cut)).astype(int) for cut in (-1.0, 1.5, 4.0))
    elif family == "multinomial":
        shares = np.exp([0.0 * eta, eta, 0.5 * eta + 0.5])
        y = (u > (shares / shares.sum(axis=0)).cumsum(axis=0)).sum(axis=0)
    else:
        y = u < (expit(eta - 2.3) if family == "logistic" else -np.expm1(-np.exp(0.65 * eta - 1.5)))
    who = np.arange(rows) // 2
    return pd.DataFrame({"g": g, "x": x, "z": z, "y": np.asarray(y).astype(int), "who": who})


def fitted(name: str, replication: int) -> list[float]:
    """Estimates of g, x and z, their standard errors and limits, and 1 for each that is not marked."""
    family, trust, n, design = CELLS[name]
    rng = np.random.Generator(np.random.PCG64([zlib.crc32(name.encode()), replication]))
    within = family == "conditional"
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ C(g) + x + z" + " | who" * within, people(family, n, design, rng), family=FAMILIES[family], mu=1,
        trust=trust, bounds={"x": BOUNDS[design], "z": (-2, 2)}, k_max=2 if within else None,
        levels={"y": list(range(LEVELS.get(family, 2))), "g": [0, 1]},
    )  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = model.fit(progress=False, seed=int(rng.integers(2**31))).tidy()
    if "level" in found:  # the first class against the reference
        found = found[found["level"] == found["level"].iloc[0]]
    one = found.set_index("term").loc[["C(g)[T.1]", "x", "z"]]
    columns = ["estimate", "std_error", "conf_low", "conf_high", "reliable"]
    return [float(v) for v in one[columns].to_numpy().T.ravel()]


def row(name: str, reps: int, runs: Runs) -> dict[str, object]:
    """One line of the table."""
    made = np.array([runs.get(f"{name}-{k}", lambda k=k: fitted(name, k)) for k in range(reps)])
    params, errors, low, high, reliable = np.split(made, 5, axis=1)
    truth = SLOPES * (0.65 if name.startswith("cloglog") else 1.0)
    held, kept = (low <= truth) & (truth <= high), reliable > 0.0

    def percent(share: float) -> float:
        return round(100.0 * share, 1)

    return {
        "cell": name,
        "replications": reps,
        "coverage": percent(float(held.mean())),
        "low_999": percent(float(binom.ppf(0.001, held.size, 0.95)) / held.size),
        "least": percent(float(held.mean(axis=0).min())),
        "least_999": percent(float(binom.ppf(0.001 / 3.0, reps, 0.95)) / reps),
        "unmarked": percent(float(held[kept].mean())) if kept.any() else None,
        "marked": percent(float(1.0 - kept.mean())),
        "bias": round(float(np.abs(((params - truth) / errors).mean(axis=0)).max()), 2),
        "error_ratio": round(float(np.mean(params.std(axis=0, ddof=1) / errors.mean(axis=0))), 2),
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--cells", nargs="*", default=["*"], help="patterns of cells")
    parser.add_argument("--keep", type=Path, help="folder of runs, from which a study goes on")
    asked = parser.parse_args()
    order = {cell: k for k, cell in enumerate(CELLS)}
    for name in (cell for cell in CELLS if any(fnmatch(cell, pattern) for pattern in asked.cells)):
        made = pd.DataFrame([row(name, asked.reps, Runs(asked.keep))])
        old = read_table(RESULTS) if RESULTS.exists() else made.iloc[:0]
        table = pd.concat([old[old["cell"] != name], made]).sort_values("cell", key=lambda s: s.map(order))
        save_table(table, RESULTS, f"python -m benchmarks.wide --reps {asked.reps}")
        print(made.to_string(index=False), flush=True)


if __name__ == "__main__":
    main()
