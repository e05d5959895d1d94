"""Covariance of the mean of a path by its batches: batch means, block bootstrap. Sums of reports only."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.errors import InferenceError


class Batches(NamedTuple):
    """Precision of a mean by its batches."""

    cov: Array  # Covariance of the mean; shape (d, d)
    # Change of the mean by each batch, sum 0 if the batches are all there is; shape (m, d)
    moves: Array
    df: int  # Degrees of freedom, m − 1


def batches(sums: Array, weights: Array, mean: Array, total: float) -> Batches:
    """Covariance of a mean from sums over batches that follow each other.

    `sums`, shape (m, d), have `weights`, shape (m,), 1 for every update, of the path's weight `total`; `mean`, shape
    (d,), is that of the whole path about the same reference. With independent means of variance V/w in batches of
    weight w, Σ w (mean − all)(…)ᵀ/(m − 1) is unbiased for V.
    Raises InferenceError if there are fewer than two batches.

    See XSJKH (arXiv 2505.08227), section 4.3; Dette & Graw (arXiv 2405.12553), section 3.
    """
    heard = weights > 0.0  # of people with the smallest budgets nothing is left after rounding
    sums, weights, m = sums[heard], weights[heard], int(heard.sum())
    if m < 2:
        raise InferenceError("batch means and the bootstrap need two batches of the path at least; more people.")
    differences = sums - weights[:, None] * mean
    scaled = differences / np.sqrt(weights)[:, None]
    return Batches(scaled.T @ scaled / (m - 1) / total, differences / total * math.sqrt(m / (m - 1)), m - 1)
