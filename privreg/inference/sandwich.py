"""Sandwich covariances A⁻¹ S A⁻¹ / n from privatised bread and meat."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from privreg.diagnostics import Diagnostic, doubt

if TYPE_CHECKING:
    from privreg.arrays import Array
    from privreg.collector.published.sgd import ChainSummary

KAPPA = 1e-3
"""Published floors κ₁ = κ₂ of the eigenvalues, internal units."""


class Sandwich(NamedTuple):
    """A sandwich covariance."""

    cov: Array  # Covariance of θ̄, internal units; shape (p, p)
    notes: tuple[Diagnostic, ...]  # Whatever weakens it


def _floored(matrix: Array, floor: float) -> tuple[Array, Array, int]:
    """Symmetrised matrix's eigenvectors, eigenvalues raised to `floor`, and how many were raised."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return vectors, np.maximum(values, floor), int(np.sum(values < floor))


def sandwich(
    bread: Array, meat: Array, n: float, bread_floor: float, meat_floor: float, name: str = "plug-in"
) -> Sandwich:
    """Sandwich of matrices whose eigenvalues are raised to the floors, divided by `n`; `name` is for the note."""
    vectors, values, low = _floored(bread, bread_floor)
    inverse = (vectors / values) @ vectors.T
    meat_vectors, meat_values, _ = _floored(meat, meat_floor)
    middle = (meat_vectors * meat_values) @ meat_vectors.T
    notes: tuple[Diagnostic, ...] = ()
    if low:
        text = (
            f"{low} eigenvalue(s) of the privatised curvature were raised to the floor {bread_floor:.2g}; use random "
            "scaling or more people"
        )
        notes = (doubt("curvature", text, of=f"the {name} intervals"),)
    return Sandwich(inverse @ middle @ inverse / n, notes)


def local_sandwich(path: ChainSummary, noise_sd: float, curvature_sd: float, batch: int) -> Sandwich:
    """Plug-in covariance from local reports only.

    Parameters
    ----------
    path : ChainSummary
        With outer products and curvature reports.
    noise_sd, curvature_sd : float
        Noise sd per coordinate of a score and of a curvature report.
    batch : int
        People per update.

    Returns
    -------
    Sandwich
        S̃ is the mean outer product of the reports, its eigenvalues at least the known noise variance;
        Â the mean curvature report, its eigenvalues at least κ₁ and at least two sd of the noise in it.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 4.1, with local reports in place of raw sums.
    """
    sd = curvature_sd / np.sqrt(path.curvature_people)
    return sandwich(path.curvature, path.outer, path.updates, max(KAPPA, 2 * sd), noise_sd**2 / batch)


def central_sandwich(curvature: Array, outer: Array, n: int, noise_sd: float) -> Sandwich:
    """Plug-in covariance from raw sums released once with noise: the published form, for a trusted curator.

    Parameters
    ----------
    curvature, outer : ndarray, shape (p, p)
        Already randomised means of curvature and of raw score outer products.
    n : int
        People.
    noise_sd : float
        Noise sd of the gradient reports, added to the meat.

    References
    ----------
    XSJKH (arXiv 2505.08227), section 4.1.
    """
    p = curvature.shape[0]
    vectors, values, _ = _floored(outer, KAPPA)
    meat = (vectors * values) @ vectors.T + noise_sd**2 * np.eye(p)
    return sandwich(curvature, meat, n, KAPPA, KAPPA)
