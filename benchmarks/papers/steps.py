"""Table 1 of XSJKH by what it doesn't state, the steps' γ and the start, in a loop of its own.

Its plug-in is the printed one, a curator's sums over all people with noise at each release, where the package's own
takes a tenth of the people for curvature.
"""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pandas as pd
from numba import njit
from scipy.special import ndtri

from benchmarks.papers.designs import THRESHOLD, Design, chunks
from benchmarks.papers.engine import described, seeds
from benchmarks.papers.figures import coverage_figure
from benchmarks.papers.simulation import Cell
from benchmarks.papers.xsjkh import MUS, QUICK_SIZES, SIZES, _printed, tidy
from privreg.base.arrays import Array
from privreg.published.chain.path import growing_edges

ALPHA: Final = 0.51
BATCHES: Final = 20
SCALING_975: Final = 6.747  # Quantile of random scaling's law, Abadir & Paruolo (1997), Table I
BOUND: Final = math.sqrt(2.0) * THRESHOLD
CURVATURE: Final = 2.0  # Largest norm of a weighted x xᵀ; the source gives no value for linear regression
NOISES: Final = {"stated": 2.0 * BOUND, "small_noise": 2.0}
"""Sd of the noise on a gradient, times μ."""


@dataclass(frozen=True)
class Begun(Cell):
    """One situation, with the coefficients' start."""

    start: float = 0.0


def _cells(quick: bool) -> list[Begun]:
    sizes, gammas = QUICK_SIZES if quick else SIZES, (0.1, 0.2, 0.3, 0.5, 1.0)
    methods = (("plug_in", "batch_means", "random_scaling"),)
    return [
        Begun(
            f"mu{'none' if mu is None else f'{mu:g}'}-{setting}-step{step:g}-start{start:g}", Design("huber", 3),
            setting, sizes, methods, mu, step=step, start=start,
        )
        for mu in MUS for setting in NOISES for step in gammas for start in (0.0, 1.0)
        if mu is not None or setting == "stated"
    ]  # fmt: skip


@njit(cache=True)
def _walk(
    y: Array,
    x: Array,
    noise: Array,
    gamma: float,
    done: int,
    theta: Array,
    total: Array,
    sums: Array,
    ends: Array,
    path: Array,
) -> None:
    """Go on with θ_i = θ_{i−1} − γ i^−α (score + noise) by one chunk of rows, all in place.

    `total` is the sum of all θ so far; `sums`, shape (4, d, d), has those of curvatures, of outer products of scores,
    of i² θ̄ θ̄ᵀ and, in its first row and corner, of i² θ̄ and i²; `path` has `total` after the updates in `ends`.
    """
    at, d = np.searchsorted(ends, done + 1), len(theta)
    for i in range(len(y)):
        k = done + i + 1.0
        r = y[i] - np.dot(x[i], theta)
        weight = min(1.0, 2.0 / np.dot(x[i], x[i]))
        score, inside = -weight * max(-THRESHOLD, min(THRESHOLD, r)), weight * (abs(r) <= THRESHOLD)
        gain = gamma * k**-ALPHA
        for a in range(d):
            for b in range(d):
                sums[0, a, b] += inside * x[i, a] * x[i, b]
                sums[1, a, b] += score**2 * x[i, a] * x[i, b]
        for a in range(d):
            theta[a] -= gain * (score * x[i, a] + noise[i, a])
            total[a] += theta[a]
            sums[2, a, a] += total[a] ** 2
            sums[3, 0, a] += k * total[a]
        sums[3, 1, 0] += k**2
        if at < len(ends) and ends[at] == done + i + 1:
            path[at] = total
            at += 1


def _symmetric(d: int, rng: np.random.Generator) -> Array:
    """Upper triangle and diagonal standard normal."""
    m = np.triu(rng.standard_normal((d, d)))
    return np.asarray(m + np.triu(m, 1).T)


def _replicate(cell: Begun, replication: int) -> list[dict[str, Any]]:
    begin, source, names = time.perf_counter(), seeds(cell.name, replication), cell.design.names
    d, rng, z = len(names), np.random.Generator(np.random.SFC64(source.noise)), float(ndtri(0.975))
    sd = 0.0 if cell.mu is None else NOISES[cell.setting] / cell.mu
    edges = {n: np.array(growing_edges(n, BATCHES, ALPHA)) for n in cell.sizes}
    ends = np.unique(np.concatenate([*edges.values(), cell.sizes]))
    theta, total, sums, path = np.full(d, cell.start), np.zeros(d), np.zeros((4, d, d)), np.zeros((len(ends), d))
    out, done = [], 0
    for n, y, x in chunks(cell.design, cell.sizes, source.rows()):
        noise = sd * rng.standard_normal(x.shape) if sd else np.zeros(x.shape)
        _walk(y, x, noise, cell.step, done, theta, total, sums, ends, path)
        done = n
        if n not in cell.sizes:
            continue
        mean, extra = total / n, 0.0 if cell.mu is None else 2.0 / (n * cell.mu)
        curve = sums[0] / n + extra * CURVATURE * _symmetric(d, rng)
        square = sums[1] / n + sd**2 * np.eye(d) + extra * BOUND**2 * _symmetric(d, rng)
        inverse = np.linalg.inv(curve)
        scaling = (np.diag(sums[2]) - 2.0 * mean * sums[3, 0] + mean**2 * sums[3, 1, 0]) / n**2
        batch = np.diff(path[np.searchsorted(ends, edges[n])], axis=0)
        sizes = np.diff(edges[n])[:, None]
        within = batch / sizes - batch.sum(axis=0) / sizes.sum()
        halves = {
            "plug_in": z * np.sqrt(np.diag(inverse @ square @ inverse) / n),
            "batch_means": z * np.sqrt((sizes * within**2).mean(axis=0) / n),
            "random_scaling": SCALING_975 * np.sqrt(scaling / n),
        }
        out += [
            {"method": m, "n": n, "alpha": 0.05, "term": term, "truth": 1.0, "estimate": mean[j], "senders": n}
            | {"low": mean[j] - half[j], "high": mean[j] + half[j], "seconds": time.perf_counter() - begin}
            for m, half in halves.items() for j, term in enumerate(names)
        ]  # fmt: skip
    return out


def _tables(runs: pd.DataFrame, cells: Sequence[Begun]) -> dict[str, pd.DataFrame]:
    by_name, table = {c.name: c for c in cells}, tidy(runs, cells)
    found = [_printed(row) for row in table.itertuples()]
    table.insert(1, "step", [by_name[name].step for name in table["cell"]])
    table.insert(2, "start", [by_name[name].start for name in table["cell"]])
    table["published_coverage"], table["published_length_x100"] = zip(*found, strict=True)
    return {"": table}


def _figure(tables: Mapping[str, pd.DataFrame]) -> Any:
    """By γ at μ = 2, from zero."""
    table = tables[""]
    table = table[(table["setting"] == "stated") & (table["mu"] == "2") & (table["start"] == 0.0)]
    lost = dict.fromkeys(("efficient_coverage", "efficient_length_x100"), math.nan)
    return coverage_figure(table.assign(panel=[f"γ = {v:g}" for v in table["step"]], **lost), panel="panel")


STEPS: Final = (described("xsjkh-steps", _cells, _replicate, _tables, _figure),)
"""The study of γ and the start."""
