"""The whole matrix of random scaling for designs of many coefficients: the path in blocks, folded by BLAS.

Up to `diagonal.WIDE` coefficients every update adds s sᵀ in a compiled loop. Beyond, partial sums wait until there is a
block of them, and one matrix product takes them in. Blocks end at positions of the stream, and the product gives the
same bits for any number of threads, so that neither chunks nor threads can change a bit. Reports only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.covariates.diagonal import Map

LINES: Final = 256
"""Partial sums that wait for a product, about."""


def fold(lines: Array, sums: Array) -> None:
    """Add lines @ lines.T to the lower triangle of `sums`.

    Parameters
    ----------
    lines : ndarray, shape (d, m)
    sums : ndarray, shape (d, d)
        C-contiguous; in place.
    """
    from scipy.linalg.blas import dsyrk  # slow to import

    if lines.shape[1]:
        # Fortran's view of a C array is its transpose
        dsyrk(1.0, np.ascontiguousarray(lines).T, beta=1.0, c=sums.T, trans=1, lower=0, overwrite_c=1)


def symmetric(lower: Array) -> Array:
    """Symmetric matrix of a lower triangle, which is overwritten some rows at a time."""
    out = lower
    for a in range(0, len(out), LINES):
        b = min(a + LINES, len(out))
        out[a:b, b:] = out[b:, a:b].T
        out[a:b, a:b] = np.tril(out[a:b, a:b]) + np.tril(out[a:b, a:b], -1).T
    return out


def variances(sums: Array, waiting: Array, weighted: Array, mean: Array, squares: float, mapped: Map) -> Array:
    """Diagonal of Σ (s − k s̄)(s − k s̄)ᵀ over lanes, behind a map to the user's coefficients, without the matrix.

    Parameters
    ----------
    sums : ndarray, shape (d, d)
        Σ s sᵀ, lower triangle.
    waiting : ndarray, shape (d, m)
        Partial sums that are not in it yet.
    weighted, mean : ndarray, shape (lanes, d)
        Σ k s and s̄ of each lane.
    squares : float
        Σ k².
    mapped : Map

    Returns
    -------
    ndarray, shape (d,)
    """
    from scipy.linalg.blas import dsymv

    own = sums.diagonal() + (waiting**2).sum(axis=1)
    own = own - 2.0 * (mean * weighted).sum(axis=0) + squares * (mean**2).sum(axis=0)
    row = mapped.row
    along = mean @ row
    first = float(row @ dsymv(1.0, sums.T, row, lower=0)) + float(((row @ waiting) ** 2).sum())
    first += float(-2.0 * along @ (weighted @ row) + squares * along @ along)
    out = np.empty(len(own))
    out[mapped.places] = own * mapped.own**2
    out[mapped.places[0]] = first
    return out
