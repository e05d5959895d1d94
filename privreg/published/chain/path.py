"""Batches of the published algorithm's path, of whose means variances are made. Reports only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from privreg.inference import blocks as marks
from privreg.inference.batches import Batches, batches, growing_batches

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.inference.blocks import Blocks
    from privreg.published.chain.collector import ChainSummary as Chain

BATCHES: Final = 20
"""Growing batches of the published algorithm."""


def batches_of(chain: Chain, found: Blocks, origin: Array, alpha: float, *, growing: bool) -> Batches:
    """Batches of a chain's path: growing ones, the first thrown away, or equal ones.

    Parameters
    ----------
    chain : ChainSummary
        Its averages so far.
    found : Blocks
        Sums along the path, about `origin`.
    origin : ndarray, shape (p,)
    alpha : float
        Of the steps.
    growing : bool
    """
    mean = chain.mean - origin
    if not growing:
        sums, weights = marks.parts(found)
        return batches(sums, weights, mean, float(chain.updates))
    ends = np.array(found.layout.edges)
    if len(ends) and ends[-1] == chain.updates and len(found.edge_sums) == len(ends):
        return growing_batches(found.edge_sums[:, 0], ends, mean)
    wished = np.array(marks.growing_edges(chain.updates, BATCHES, alpha))
    at = np.unique(np.clip(np.rint(wished / found.length), 1, len(found.sums))).astype(int)
    return growing_batches(found.sums[at - 1, 0], at * found.length, mean)
