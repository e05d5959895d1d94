"""What the prior of the curvature costs and gains: the same reports, estimated with several priors.

``python -m benchmarks.priors [--designs NAME …] [--n N] [--mu MU] [--reps R] [--processes K]``

Designs are in `benchmarks.designs`; a replication is one fit, whose reports are carried to an estimate again with each
prior of `PRIORS`. One line for each prior:

coverage, lowest
    Share of 95% intervals that hold `res.estimand`, in %, averaged over coefficients; that of the coefficient
    that is covered least.
below_90
    Coefficients that are covered in fewer than 90%.
length
    Geometric mean of the lengths of intervals, relative to the first prior's.
right
    The same in designs whose models are right and whose residuals are alike.
spread
    Median over coefficients of the root mean square of errors over their standard errors.

The first prior knows nothing of residuals that are wider along a direction, the last is the engine's.
"""

from __future__ import annotations

import argparse
import warnings
import zlib
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pandas as pd
from tqdm import tqdm

import privreg as pr
from benchmarks.designs import DESIGNS
from benchmarks.store import save_table
from benchmarks.validity import made, truth_of
from privreg.collector import coordinates, curvature, estimate
from privreg.fits.plan import to_user

RESULTS: Final = Path(__file__).parent / "results" / "priors.csv"
RIGHT: Final = ("normal", "correlated", "factors", "heavy")
SOME: Final = (*RIGHT, "interaction", "charges", "fanned", "bent", "ten levels", "two peaks", "median", "upper")
PRIORS: Final[dict[str, dict[str, Any]]] = {
    "eigenvalues alone": {"SLOPES": (0.0,)},
    "slopes 0.3": {"SLOPES": (0.3,)},
    "slopes 0.8": {"SLOPES": (0.8,)},
    "narrower eigenvalues": {"WIDEST": 0.3},
    "wider where little is told": {"ENTRY_SD": 0.45},
    "engine": {"SLOPES": curvature.SLOPES},
}
"""Constants of `collector.curvature`."""


def one(name: str, n: int, mu: float, replication: int) -> list[dict[str, Any]]:
    """A line for each prior and coefficient of one fit."""
    design = DESIGNS[name]
    rows = made(name, n, replication, n)
    model = pr.PrivateOnlineRegression.from_formula(
        design.formula, rows, family=design.family, mu=mu, rows=n, bounds=design.bounds,
        **({"levels": design.levels} if design.levels else {}), **(design.more or {}),
    )  # fmt: skip
    stream = model.start(seed=zlib.crc32(f"{name} {n} {mu} {replication}".encode()), threads=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        res = stream.update(rows).results()
    run = stream._run
    progress = run.so_far()
    linear = to_user(model._spec, stream._encoder.order) @ coordinates.linear(run.plan, progress.state)
    params, truth = np.ravel(res.params), truth_of(res, name, n, mu)
    here = estimate.estimate(run.plan, progress)
    out = []
    for prior, constants in PRIORS.items():
        with patch.multiple(curvature, **constants):
            found = estimate.estimate(run.plan, progress)
        error = params + linear @ (found.theta - here.theta) - truth
        sd = np.sqrt(np.diag(linear @ found.cov @ linear.T))
        out += [
            {"prior": prior, "design": name, "coefficient": j, "error": error[j], "sd": sd[j]} for j in range(len(sd))
        ]
    return out


def summary(rows: pd.DataFrame) -> pd.DataFrame:
    """A line for each prior."""
    rows["held"] = 100.0 * (rows["error"].abs() <= 1.96 * rows["sd"])
    rows["log"], rows["square"] = np.log(rows["sd"]), rows["error"] ** 2
    cells = rows.groupby(["prior", "design", "coefficient"], sort=False).agg(
        held=("held", "mean"), log=("log", "mean"), square=("square", "mean"), sd=("sd", "mean")
    )
    cells["spread"] = np.sqrt(cells["square"]) / cells["sd"]
    by = cells.groupby("prior", sort=False)
    right = cells[cells.index.get_level_values("design").isin(RIGHT)].groupby("prior", sort=False)["log"].mean()
    log = by["log"].mean()
    return pd.DataFrame(
        {
            "runs": len(rows) / len(cells),
            "coverage": by["held"].mean(),
            "lowest": by["held"].min(),
            "below_90": by["held"].apply(lambda held: int((held < 90.0).sum())),
            "length": np.exp(log - log.iloc[0]),
            "right": np.exp(right - right.iloc[0]),
            "spread": by["spread"].median(),
        }
    ).reset_index()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--designs", nargs="*", choices=DESIGNS, default=list(SOME), metavar="NAME")
    parser.add_argument("--n", type=int, default=200_000)
    parser.add_argument("--mu", type=float, default=1.0)
    parser.add_argument("--reps", type=int, default=40)
    parser.add_argument("--processes", type=int, default=1)
    a = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = []
    with ProcessPoolExecutor(a.processes) as pool:
        for name in a.designs:
            work = partial(one, name, a.n, a.mu)
            rows += [row for found in tqdm(pool.map(work, range(a.reps)), total=a.reps, desc=name) for row in found]
    table = summary(pd.DataFrame(rows)).round(4)
    save_table(table, RESULTS, f"python -m benchmarks.priors --reps {a.reps}")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
