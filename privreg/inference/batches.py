"""Covariances from one path: batch means, block bootstrap, path curvature. Sums of reports and iterates only.

Every function gives the covariance of the *mean* of the path it is shown.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from privreg.arrays import Array
from privreg.diagnostics import doubt
from privreg.errors import InferenceError
from privreg.inference.sandwich import Sandwich, sandwich

UNSURE: Final = 0.25
"""Relative sd of a curvature from the path above which a note takes the intervals back."""


class Batches(NamedTuple):
    """What batches say."""

    cov: Array  # Covariance of the mean; shape (d, d)
    # By how much each batch moves the mean from where it is; their sum is 0 if they are all there is; shape (m, d)
    moves: Array
    df: int  # Degrees of freedom, m − 1


def batches(sums: Array, weights: Array, mean: Array, total: float) -> Batches:
    """Covariance of a mean from sums over batches that follow each other.

    Parameters
    ----------
    sums : ndarray, shape (m, d)
    weights : ndarray, shape (m,)
        Weight of what each sum is over: 1 for every update.
    mean : ndarray, shape (d,)
        Mean of the whole path, about the same reference.
    total : float
        Weight of the whole path.

    Returns
    -------
    Batches
        Batches of weight w with independent means of variance V/w: Σ w (mean − all)(…)ᵀ/(m − 1) is unbiased for V.

    Raises
    ------
    InferenceError
        If there are fewer than two batches.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 4.3; Dette & Graw (arXiv 2405.12553), section 3.
    """
    heard = weights > 0.0  # of people with the smallest budgets nothing is left after rounding
    sums, weights, m = sums[heard], weights[heard], int(heard.sum())
    if m < 2:
        raise InferenceError("batch means and the bootstrap need two batches of the path at least; more people.")
    apart = sums - weights[:, None] * mean
    scaled = apart / np.sqrt(weights)[:, None]
    return Batches(scaled.T @ scaled / (m - 1) / total, apart / total * math.sqrt(m / (m - 1)), m - 1)


def growing_batches(sums: Array, ends: Array, mean: Array) -> Batches:
    """Batch means with batches that grow along the path, the first thrown away.

    Parameters
    ----------
    sums : ndarray, shape (M + 1, d)
        Sums of the path up to the ends of the batches.
    ends : ndarray of int, shape (M + 1,)
        Those ends, ascending.
    mean : ndarray, shape (d,)

    References
    ----------
    XSJKH (arXiv 2505.08227), section 4.3.
    """
    return batches(np.diff(sums, axis=0), np.diff(ends).astype(np.float64), mean, float(ends[-1]))


class Regression(NamedTuple):
    """Regression of reports on the iterates at which they were asked for."""

    slope: Array  # A, symmetrised; shape (d, d)
    meat: Array  # Mean outer product of the reports about what the regression says; shape (d, d)


def regression(gram: Array) -> Regression:
    """Curvature from the path: reports lean against the distance of the iterate from the minimum.

    Parameters
    ----------
    gram : ndarray, shape (2 d + 1, 2 d + 1)
        Σ v vᵀ, v = (report, θ − reference, 1), or all that times the weight of each update's people.

    References
    ----------
    Yule–Walker for θ_{k+1} − θ_k = −γ (A (θ_k − θ₀) + noise); the idea of XSJKH's path without curvature reports.
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
    """Sandwich covariance with curvature from the path.

    Parameters
    ----------
    found : Regression
        In coordinates in which the curvature is of the order of the identity times a constant.
    updates : float
        Of which the mean is taken.
    steps : float
        Σγ over the updates of the regression: the sd of a curvature a is about √(2 a/Σγ).
    floor : float
        Smallest eigenvalue of the curvature that is believed.
    """
    weakest = float(np.linalg.eigvalsh(found.slope)[0])
    out = sandwich(found.slope, found.meat, updates, floor, 0.0, "path-curvature")
    unsure = math.sqrt(2.0 / (max(weakest, floor) * steps)) if steps > 0.0 else math.inf
    if not unsure > UNSURE:
        return out
    text = (
        f"with these steps the curvature is known to some {100 * unsure:.0f}% only; use random_scaling, "
        "or ask more people"
    )
    return out._replace(notes=(doubt("curvature", text, of="the path-curvature intervals"), *out.notes))
