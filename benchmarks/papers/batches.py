"""Batch means in Table 2 of DG (arXiv 2405.12553) by the number of batches, which isn't stated, in a loop of its own.

``python -m benchmarks.papers.batches [--runs 40 12]`` writes results/dg-batches.csv: quantile regression without
weights at the median, Laplace noise of scale 4, steps i^−0.51 from zero, n = 10⁶ and 10⁷ in so many runs. Batches grow
and the first is thrown away, or all are alike; there are 20 or n^0.245, rounded, the order of Chen, Lee, Tong & Zhang
(2020). As there, squares are divided by the number of batches, with normal quantiles, 90%. Slopes have one row, their
mean; limits of lengths are normal ones at 99.9%.
"""

from __future__ import annotations

import argparse
import math
from typing import Final

import numpy as np
import pandas as pd
from numba import njit
from scipy.special import ndtri

from benchmarks.papers.printed import RESULTS
from benchmarks.papers.store import commit, printed, save_table
from privreg.base.arrays import Array, Ints
from privreg.published.chain.path import growing_edges

ALPHA: Final = 0.51
SIZES: Final = (10**6, 10**7)
RUNS: Final = (40, 12)


@njit(cache=True)
def walk(n: int, rng: np.random.Generator, ends: Ints, sums: Array) -> None:
    """Descend over n records; `sums`, shape (m, 4), takes those of the path after the updates in `ends`, ascending."""
    theta, total, x, at = np.zeros(4), np.zeros(4), np.ones(4), 0
    for i in range(1, n + 1):
        eta, y = theta[0], 1.0 + rng.standard_normal()
        for j in range(1, 4):
            x[j] = rng.standard_normal()
            while abs(x[j]) > 1.0:
                x[j] = rng.standard_normal()
            eta += x[j] * theta[j]
            y += x[j]
        score, step = 0.5 if y <= eta else -0.5, i**-ALPHA
        for j in range(4):
            u = rng.random() - 0.5
            theta[j] -= step * (score * x[j] - 4.0 * math.copysign(math.log(1.0 - 2.0 * abs(u)), u))
            total[j] += theta[j]
        if i == ends[at]:
            sums[at] = total
            at += 1


def rules(n: int) -> dict[tuple[str, int], Ints]:
    """Ends of the batches, from the beginning of the first that counts, by their kind and number."""
    out = {}
    for many in (20, round(n**0.245)):
        out["growing", many] = np.array(growing_edges(n, many, ALPHA))
        out["equal", many] = np.rint(np.linspace(0, n, many + 1)).astype(np.int64)
    return out


def intervals(n: int, seed: int) -> list[dict[str, object]]:
    """Lengths and hits of one run by every rule."""
    wanted = rules(n)
    ends = np.unique(np.concatenate([*wanted.values(), [n]]))
    ends = ends[ends > 0]
    sums = np.zeros((len(ends), 4))
    walk(n, np.random.Generator(np.random.PCG64([2, n, seed])), ends, sums)
    out: list[dict[str, object]] = []
    for (kind, many), at in wanted.items():
        path = np.where(at[:, None] > 0, sums[np.searchsorted(ends, np.maximum(at, 1))], 0.0)
        weight = np.diff(at)[:, None]
        variance = ((np.diff(path, axis=0) - weight * sums[-1] / n) ** 2 / weight).sum(axis=0) / len(weight)
        half = ndtri(0.95) * np.sqrt(variance / n)
        hit = np.abs(sums[-1] / n - 1.0) <= half
        for term, which in (("const", slice(0, 1)), ("slopes", slice(1, 4))):
            row = {"length": float(2 * half[which].mean()), "coverage": float(100 * hit[which].mean())}
            out.append({"n": n, "batches": kind, "number": many, "term": term} | row)
    return out


def table(runs: tuple[int, ...]) -> pd.DataFrame:
    """Means over runs beside what is printed."""
    rows = [intervals(n, seed) for n, many in zip(SIZES, runs, strict=True) for seed in range(many)]
    each = pd.DataFrame([row for one in rows for row in one])
    by = each.groupby(["n", "batches", "number", "term"], sort=False)
    out = by["length"].agg(["size", "mean", "std"]).reset_index()
    half = 3.2905 * out["std"] / np.sqrt(out["size"])
    out = out.assign(length_low=out["mean"] - half, length_high=out["mean"] + half)
    out["coverage"] = by["coverage"].mean().array
    said = printed("dette_graw")["quantile_regression"]["BM"]
    for name, key, times in (("printed_length", "length", 1.0), ("printed_coverage", "cover", 100.0)):
        values = np.array(said[key])[:, : len(SIZES)] * times
        place = [SIZES.index(n) for n in out["n"]]
        first = out["term"] == "const"
        out[name] = np.where(first, values[0, place], values[1:, place].mean(axis=0)).round(4)
    return out.rename(columns={"size": "runs", "mean": "length"}).drop(columns="std").round(5)


def main() -> None:
    """Run, and store the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.papers.batches", description=__doc__)
    parser.add_argument("--runs", type=int, nargs=2, default=RUNS, help="at 10⁶ and at 10⁷ (default 40 12)")
    runs = tuple(parser.parse_args().runs)
    found = table(runs)
    command = f"python -m benchmarks.papers.batches --runs {runs[0]} {runs[1]}"
    save_table(found, RESULTS / "dg-batches.csv", command, (commit(), "source: DG, arXiv 2405.12553, Table 2"))
    print(found.to_string(index=False))


if __name__ == "__main__":
    main()
