"""Covariances from the published algorithm's path: its batches, its curvature. Sums of reports and iterates only."""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.collector.inference.resampling import Batches, batches
from privreg.collector.inference.sandwich import Sandwich, sandwich
from privreg.published.chain import blocks as marks
from privreg.published.chain.blocks import Blocks
from privreg.published.chain.collector import ChainSummary as Chain
from privreg.tables.diagnostics import note

UNSURE: Final = 0.25  # Relative sd of a curvature from the path above which a note takes the intervals back


def batches_of(chain: Chain, found: Blocks, origin: Array, alpha: float, *, growing: bool) -> Batches:
    """Batches of a chain's path: growing ones, the first thrown away, or equal ones.

    `found` are sums along the path about `origin`, and `alpha` is the exponent of the steps.
    """
    mean = chain.mean - origin
    if not growing:
        sums = np.diff(found.sums, axis=0, prepend=np.zeros((1, len(mean))))
        return batches(sums, np.full(len(sums), float(found.length)), mean, float(chain.updates))
    ends = np.array(found.layout.edges)
    if len(ends) and ends[-1] == chain.updates and len(found.edge_sums) == len(ends):
        return growing_batches(found.edge_sums, ends, mean)
    wished = np.array(marks.growing_edges(chain.updates, marks.BATCHES, alpha))
    at = np.unique(np.clip(np.rint(wished / found.length), 1, len(found.sums))).astype(int)
    return growing_batches(found.sums[at - 1], at * found.length, mean)


def growing_batches(sums: Array, ends: Array, mean: Array) -> Batches:
    """Batch means with batches that grow along the path, the first thrown away: XSJKH, section 4.3.

    `sums`, shape (M + 1, d), are those of the path up to the ascending `ends` of the batches, shape (M + 1,).
    """
    return batches(np.diff(sums, axis=0), np.diff(ends).astype(np.float64), mean, float(ends[-1]))


class Regression(NamedTuple):
    """Regression of reports on the iterates at which they were asked for."""

    slope: Array  # A, symmetrised; shape (d, d)
    meat: Array  # Mean outer product of the reports about what the regression says; shape (d, d)


def regression(gram: Array) -> Regression:
    """Curvature from the path: reports lean against the distance of the iterate from the minimum.

    Yule–Walker for θ_{k+1} − θ_k = −γ (A (θ_k − θ₀) + noise), from `gram`, Σ v vᵀ with v = (report, θ − reference, 1).
    """
    d = (len(gram) - 1) // 2
    n = gram[-1, -1]
    centre = gram[-1] / n
    about = gram / n - np.outer(centre, centre)
    # rows: iterates, columns: reports; nothing leans in a direction in which the path has not moved
    slope = np.linalg.lstsq(about[d : 2 * d, d : 2 * d], about[d : 2 * d, :d], rcond=None)[0]
    meat = about[:d, :d] - slope.T @ about[d : 2 * d, d : 2 * d] @ slope
    return Regression((slope + slope.T) / 2.0, (meat + meat.T) / 2.0)


def path_sandwich(found: Regression, updates: float, steps: float, floor: float) -> Sandwich:
    """Sandwich covariance of the mean of so many updates, with curvature from the path.

    `steps` is Σγ over the updates of the regression: the sd of a curvature a is about √(2 a/Σγ). No eigenvalue of the
    curvature below `floor` is believed.
    """
    weakest = float(np.linalg.eigvalsh(found.slope)[0])
    out = sandwich(found.slope, found.meat, updates, floor, 0.0, "path-curvature")
    unsure = math.sqrt(2.0 / (max(weakest, floor) * steps)) if steps > 0.0 else math.inf
    if not unsure > UNSURE:
        return out
    said = note("curvature.path", of="the path-curvature intervals", percent=100 * unsure)
    return out._replace(notes=(said, *out.notes))
