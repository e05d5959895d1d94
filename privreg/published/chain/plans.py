"""Public plan of a single chain, and the state that its collector keeps: values for the compiled loop."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.protocol.plans import Channel, Shape


class Plan(NamedTuple):
    """Public plan, fixed before the first record: numbers only."""

    shape: Shape
    blocks: int  # Linear predictors of a person: 1, or one less than the classes of a multinomial response
    c: float  # Huber threshold, internal units
    top: float  # Bound of the scalar score
    weights: int  # Kernel code of the score weights ω(x)
    bound: float  # Declared bound of the weighted score's ℓ2 norm; the device clips to it
    # Radius by which a score report is randomised, and its centre: 0 unless there is one coefficient
    radius: float
    middle: float
    channel: Channel  # Channel of a score report
    batch: int  # People per update
    scaling_mode: int  # Random scaling: NONE, DIAGONAL or FULL
    # 1 if outer products of the reports are summed (plug-in), 2 if also those with the iterates at which people were
    # asked (path curvature)
    outer: int
    curvature_share: int  # A person sends a curvature report when a hash of their position is below this (of 2**32)
    curvature_bound: float  # Bound of a curvature report's Frobenius norm
    curvature_radius: float  # Radius by which a curvature report is randomised
    curvature_channel: Channel
    central: int  # 1 if the raw sums of the central plug-in are kept on the device side
    joint: float = 0.0  # E min(Z², c²), Z standard normal, where θ ends with a residual scale; else 0


class State(NamedTuple):
    """State of the collector: sums of reports and of iterates, nothing else. Internal units."""

    theta: Array  # Current iterate, block after block; shape (p,)
    origin: Array  # The start; path sums are taken about it, against cancellation; shape (p,)
    total: Array  # Σ (θ_k − origin); shape (p,)
    batch: Array  # Reports of the unfinished batch, summed; shape (p,)
    # Columns (s_k, k) of the current block of updates, s_k the partial sum after update k; shape (p + 1, LINE)
    path: Array
    # Σ (s_k, k)(s_k, k)ᵀ over finished blocks, lower triangle; in DIAGONAL mode Σ s_k² and Σ k s_k; shape
    # (p + 1, p + 1)
    sums: Array
    # In DIAGONAL mode coordinate 0 of the path is this functional of s_k (the user's intercept); shape (p,)
    functional: Array
    # Mean reports g̃ of the current block, if outer products are summed; under them θ − origin and 1; shape (p, LINE)
    reports: Array
    outer: Array  # Σ v vᵀ over finished blocks, v a column of these, lower triangle; shape (p, p)
    curvature: Array  # Σ of curvature reports; shape (p (p + 1) / 2,)
    # Σ (noise of a report/that of the largest budget)² of gradient and of curvature senders; shape (2,)
    spreads: Array
    # Updates, gradient senders, curvature senders, people seen, people in the unfinished batch; shape (5,)
    counts: NDArray[np.int64]
