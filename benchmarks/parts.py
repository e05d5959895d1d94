"""Coverage of fits over parts: 200,000 people in 2, 8 and 64 files, each part with lanes of its own.

``python -m benchmarks.parts [--reps R] [--processes P]``

Intercept and three normal covariates, Huber's loss, as in the p = 3 cells of benchmarks.efficiency. Files are Parquet.
Parts are worked on in one process, one after another, which changes no bit.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
from scipy.stats import binom

import privreg as pr
from benchmarks.store import save_table
from privreg.privacy.ledger import Release
from privreg.simulation.partitions import Span, cut, fit_parts, in_turn
from privreg.simulation.settings import FitOptions

ROWS: Final = 200_000
FILES: Final = (2, 8, 64)
MUS: Final = (1.0, 2.0)
METHODS: Final = ("between_lanes", "random_scaling")
NAMES: Final = ("x1", "x2", "x3")
"""Every coefficient is 1."""


def replicate(seed: int, rho: float) -> list[dict[str, Any]]:
    """Fit one data set, cut into every number of files."""
    rng = np.random.default_rng([seed, 5])
    law = rho ** np.abs(np.subtract.outer(range(3), range(3)))
    x = rng.standard_normal((ROWS, 3)) @ np.linalg.cholesky(law).T
    data = pd.DataFrame(x, columns=list(NAMES))
    data["y"] = 1.0 + x.sum(axis=1) + rng.standard_normal(ROWS)
    sd = float(np.sqrt(law.sum() + 1.0))
    bounds = dict.fromkeys(NAMES, (-4.0, 4.0)) | {"y": (1.0 - 4.0 * sd, 1.0 + 4.0 * sd)}
    out: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for files in FILES:
            edges = [ROWS * k // files for k in range(files + 1)]
            held = []
            for k in range(files):
                path = Path(folder) / f"{files}-{k}.parquet"
                data.iloc[edges[k] : edges[k + 1]].to_parquet(path)
                held.append(Span(str(path), 0, edges[k + 1] - edges[k]))
            for mu in MUS:
                model = pr.PrivateOnlineRegression.from_formula("y ~ x1 + x2 + x3", None, mu=mu, bounds=bounds)
                stream = fit_parts(model._spec, FitOptions(inference=METHODS), None, seed + 1, cut(held), in_turn)
                res = stream._results(Release(0, mu))
                for method in METHODS:
                    low, high = res.conf_int(method=method).to_numpy().T
                    row = {"files": files, "mu": mu, "rho": rho, "method": method, "seed": seed}
                    row |= {"covered": int(((low < 1.0) & (high > 1.0)).sum()), "trials": 4}
                    row |= {"length": float(np.mean(high - low)), "square": float(((res.params - 1.0) ** 2).mean())}
                    out.append({**row, "lanes": stream.lanes})
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--reps", type=int, default=200)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--rho", type=float, default=0.0, help="correlation of neighbours, 0.5^|j−k| in the tables")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    a = parser.parse_args(arguments)
    with ProcessPoolExecutor(a.processes) as pool:
        found = pool.map(partial(replicate, rho=a.rho), range(a.reps))
        runs = pd.DataFrame([row for rows in found for row in rows])
    runs["replications"] = 1
    cells = runs.groupby(["files", "mu", "rho", "method"])
    table = cells[["replications", "covered", "trials"]].sum().reset_index()
    table["lanes"] = cells["lanes"].median().to_numpy()
    table["length"] = cells["length"].mean().to_numpy()
    table["rmse"] = np.sqrt(cells["square"].mean().to_numpy())
    table["coverage"] = 100 * table["covered"] / table["trials"]
    for name, level in (("low_999", 0.0005), ("high_999", 0.9995)):
        table[name] = 100 * binom.ppf(level, table["trials"], 0.95) / table["trials"]
    table["inside"] = table["coverage"].between(table["low_999"], table["high_999"])
    save_table(table.round(5), a.out / "parts.csv", f"python -m benchmarks.parts --reps {a.reps} --rho {a.rho:g}")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
