"""Coverage, length and error of the default fit: what a user gets without choosing anything.

``python -m benchmarks.default_tuning`` simulates intercept and p normal covariates with correlation ρ^abs(j−k), all
coefficients 1, normal errors of sd 0.5, bounds declared at ±4 sd, Huber with the residual scale declared, and mu = 1;
and the same with a logistic response. It shows where the default intervals hold, where the summary's note on few
records says that they may not, and where they fail unannounced: with strongly correlated covariates the slowest
direction forgets the start too slowly, which nothing public can tell. Results go to
benchmarks/results/default_tuning.csv.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.stats import binom
from tqdm import tqdm

import privreg as pr
from benchmarks.store import save_table

SD = 0.5
CELLS = [
    (family, covariates, p, rho, n)
    for family in ("huber", "logistic")
    for covariates, rhos in (
        ("normal, bounds ±4 sd", (0.0, 0.5, 0.9)),
        ("normal, bounds ±16 sd", (0.0,)),
        ("uniform over the bounds", (0.0,)),
    )
    for p in (3, 10)
    for rho in rhos
    for n in (50_000, 200_000)
]


def one(family: str, covariates: str, p: int, rho: float, n: int, seed: int) -> tuple[int, float, float, bool]:
    rng = np.random.Generator(np.random.SFC64(seed))
    shape = rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))
    uniform = covariates.startswith("uniform")
    z = rng.uniform(-np.sqrt(3), np.sqrt(3), (n, p)) if uniform else rng.standard_normal((n, p))
    x = np.column_stack([np.ones(n), z @ np.linalg.cholesky(shape).T])
    eta = x.sum(axis=1)
    names = ["const", *(f"x{j + 1}" for j in range(p))]
    edge = float(np.sqrt(3)) if uniform else 16.0 if "16" in covariates else 4.0
    bounds = dict.fromkeys(names[1:], (-edge, edge))
    if family == "huber":
        y = eta + SD * rng.standard_normal(n)
        reach = 4 * np.sqrt(shape.sum() + SD**2)
        bounds["y"] = (1 - reach, 1 + reach)
        loss = pr.Huber(scale=SD)
    else:
        y, loss = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float), pr.Logistic()
    model = pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, family=loss, mu=1)
    res = model.fit(seed=seed, progress=False)
    limits = res.conf_int().to_numpy()
    covered = int(((limits[:, 0] <= 1) & (limits[:, 1] >= 1)).sum())
    warned = any("few records" in note for note in res.privacy.notes)
    return covered, float((limits[:, 1] - limits[:, 0]).mean()), float(((res.params - 1) ** 2).mean()), warned


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results/default_tuning.csv"))
    args = parser.parse_args()
    rows = []
    with ProcessPoolExecutor(args.workers) as pool, tqdm(total=len(CELLS) * args.replications, unit=" runs") as bar:
        for family, covariates, p, rho, n in CELLS:
            found = []
            for f in pool.map(
                partial(one, family, covariates, p, rho, n), range(1, args.replications + 1), chunksize=5
            ):
                found.append(f)
                bar.update()
            covered, length, square, warned = (np.array(v) for v in zip(*found, strict=True))
            trials = args.replications * (p + 1)
            low, high = binom.ppf([0.0005, 0.9995], trials, 0.95)
            rows.append(
                {
                    "family": family,
                    "covariates": covariates,
                    "p": p,
                    "rho": rho,
                    "n": n,
                    "coverage": round(100 * covered.sum() / trials, 2),
                    "low_999": round(100 * low / trials, 2),
                    "high_999": round(100 * high / trials, 2),
                    "length": round(length.mean(), 4),
                    "rmse": round(float(np.sqrt(square.mean())), 4),
                    "warned": bool(warned.all()),
                }
            )
    table = pd.DataFrame(rows)
    save_table(table, args.out, f"python -m benchmarks.default_tuning --replications {args.replications}")
    print(table.to_string(index=False))


if __name__ == "__main__":
    main()
