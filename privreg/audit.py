"""Empirical audit of a mechanism: how well can two neighbours be told apart by their reports?

The Neyman–Pearson test between two normal laws with equal covariance is a threshold on the projection to the
difference of their means. Its error rates, with exact confidence limits, bound μ from below: under μ-GDP no test
has type II error below Φ(Φ⁻¹(1 − α) − μ) at type I error α.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from scipy.special import betaincinv, ndtri

from privreg import collector, kernels
from privreg.kernels import Plan
from privreg.noise import NoiseStream

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float64]

__all__ = ["Audit", "mu_lower_bound", "score_reports"]


class Audit(NamedTuple):
    """Outcome of an audit.

    Attributes
    ----------
    lower : float
        Lower confidence limit of μ.
    type_one, type_two : float
        Observed error rates of the threshold test.
    n : int
        Reports of each neighbour.
    """

    lower: float
    type_one: float
    type_two: float
    n: int


def score_reports(plan: Plan, theta: Array, x: Array, y: float, n: int, noise: NoiseStream | None) -> Array:
    """Reports that the fused kernel makes of one row, again and again, at a fixed iterate.

    Parameters
    ----------
    plan : Plan
        With ``outer=1``, ``batch=1`` and no curvature reports.
    theta, x : ndarray, shape (p,)
    y : float
        Internal units.
    n : int
        Multiple of the kernel's block.
    noise : NoiseStream or None
        None for the bare scores.

    Returns
    -------
    ndarray, shape (n, p)
    """
    block, p = kernels.BLOCK, theta.shape[0]
    rows, ys = np.tile(x, (block, 1)), np.full(block, y)
    still, quiet, none = np.zeros(block), np.zeros((block, p)), np.empty((0, 0))
    state = collector.init(theta, plan, np.zeros(p))
    out = np.empty((n, p))
    for a in range(0, n, block):
        done = 0
        while done < block:  # a noise block may end inside
            z = quiet if noise is None else noise.peek()
            used, senders, _ = kernels.fused(
                rows[done:], ys[done:], np.empty(0), still[done:], z, none, plan, state, none, none
            )
            if noise is not None:
                noise.advance(senders)
            done += used
        out[a : a + block] = state.reports[:, :block].T
    return out


def mu_lower_bound(first: Array, second: Array, direction: Array, threshold: float, alpha: float) -> Audit:
    """Lower confidence limit of μ from reports of two neighbours.

    Parameters
    ----------
    first, second : ndarray, shape (n, p)
        Reports of the neighbours.
    direction : ndarray, shape (p,)
        Difference of their scores, second minus first.
    threshold : float
        Projections above it are called "second". Fixed before the reports are seen.
    alpha : float
        Probability of a limit above the true μ.

    Returns
    -------
    Audit
    """
    n = len(first)
    wrong_first = int(np.sum(first @ direction > threshold))
    wrong_second = int(np.sum(second @ direction <= threshold))
    upper = [1.0 if k == n else float(betaincinv(k + 1, n - k, 1 - alpha / 2)) for k in (wrong_first, wrong_second)]
    lower = float(ndtri(1 - upper[0]) - ndtri(upper[1]))
    return Audit(max(lower, 0.0), wrong_first / n, wrong_second / n, n)
