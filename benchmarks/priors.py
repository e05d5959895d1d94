"""How wrong reference models are: the prior of the curvature under which kept reports are the likeliest.

``python -m benchmarks.priors [--n N …] [--reps R]``

Designs are every other one of `benchmarks.conditional`, at μ = 1. A line for each family, n and prior: τ, β and ρ of
equation (27) of docs/estimator.md.

short
    By how much the logarithm of the marginal likelihood of a fit's reports, means over a design, sums over designs,
    falls short of the largest of the family and n.

β of logistic and Poisson regressions counts covariates' spreads that are off by 0.9 at 1, as the engine has it.
"""

from __future__ import annotations

import argparse
import itertools
import warnings
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from unittest.mock import patch

import numpy as np
import pandas as pd

from benchmarks import conditional
from benchmarks.store import save_table
from privreg.collector.estimation import curvature, estimate
from privreg.collector.plan import Carried

RESULTS: Final = Path(__file__).parent / "results" / "priors.csv"
SPREADS: Final = (0.06, 0.12, 0.25, 0.5)
SLOPES: Final = (0.1, 0.2, 0.4, 0.8, 1.6)
COMMON: Final = (0.1, 0.3, 0.6)
PRIORS: Final = list(itertools.product(SPREADS, SLOPES, COMMON))


def carried_of(name: str, family: str, n: int, run: int) -> Carried:
    """Reports of a fit at its estimate."""
    found: list[Carried] = []
    ended = estimate.scattered

    def kept(*args: object) -> np.ndarray:
        found.append(args[2])  # type: ignore[arg-type]
        return ended(*args)  # type: ignore[arg-type]

    with patch.object(estimate, "scattered", kept), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conditional.one(name, conditional.FAMILIES[family][name], n, run)
    return found[-1]


def likelihoods(carried: Carried) -> list[float]:
    """Logarithm of the marginal likelihood by each of `PRIORS`."""
    noise, q = carried.noise, len(carried.noise)
    row, col = np.tril_indices(q)
    gram, cross = curvature.totals(carried.rounds, noise, carried.main, carried.gain)
    scores = np.linalg.solve(noise, cross)
    info = curvature._information(np.linalg.inv(noise), gram, row, col)
    linear = (scores[row, col] + scores[col, row]) * np.where(row == col, 0.5, 1.0)
    mean, ways, out = (row == col).astype(float), carried.local.slopes[:, row, col], []
    for tau, beta, rho in PRIORS:
        cov = np.diag(np.where(row == col, 1.0, 0.5) * tau**2 * 2.0 / (q + 1.0)) + rho**2 * np.outer(mean, mean)
        cov += beta**2 * ways.T @ ways
        before = np.linalg.inv(cov)
        right, after = linear + before @ mean, info + before
        value = right @ np.linalg.solve(after, right) - mean @ before @ mean
        out.append(0.5 * float(value - np.linalg.slogdet(after)[1] - np.linalg.slogdet(cov)[1]))
    return out


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and store."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", nargs="*", type=int, default=[50_000, 200_000])
    parser.add_argument("--reps", type=int, default=20)
    args = parser.parse_args(arguments)
    out = []
    for family, n in itertools.product(conditional.FAMILIES, args.n):
        names = sorted(conditional.FAMILIES[family], key=lambda name: zlib.crc32(name.encode()))[::2]
        total = np.zeros(len(PRIORS))
        for name in names:
            fits = [likelihoods(carried_of(name, family, n, 1_000 + run)) for run in range(args.reps)]
            total += np.mean(fits, axis=0)
            print(family, n, name, flush=True)
        out += [
            {"family": family, "n": n, "designs": len(names), "tau": t, "beta": b, "rho": r, "short": short}
            for (t, b, r), short in zip(PRIORS, total.max() - total, strict=True)
        ]
    command = f"python -m benchmarks.priors --n {' '.join(map(str, args.n))} --reps {args.reps}"
    save_table(pd.DataFrame(out).round(3), RESULTS, command)


if __name__ == "__main__":
    main()
