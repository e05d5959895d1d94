"""Sandwich covariances A⁻¹ S A⁻¹ / n from privatised bread and meat."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from privreg.base.arrays import Array
from privreg.tables.diagnostics import Diagnostic, note

KAPPA = 1e-3  # Published floors κ₁ = κ₂ of the eigenvalues, internal units


class Sandwich(NamedTuple):
    """A sandwich covariance."""

    cov: Array  # Covariance of θ̄, internal units; shape (p, p)
    notes: tuple[Diagnostic, ...]  # Whatever weakens it


def floored(matrix: Array, floor: float) -> tuple[Array, Array, int]:
    """Symmetrised matrix's eigenvectors, eigenvalues raised to `floor`, and how many were raised."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2)
    return vectors, np.maximum(values, floor), int(np.sum(values < floor))


def sandwich(
    bread: Array, meat: Array, n: float, bread_floor: float, meat_floor: float, name: str = "plug-in"
) -> Sandwich:
    """Sandwich of matrices whose eigenvalues are raised to the floors, divided by `n`; `name` is for the note."""
    vectors, values, low = floored(bread, bread_floor)
    inverse = (vectors / values) @ vectors.T
    meat_vectors, meat_values, _ = floored(meat, meat_floor)
    middle = (meat_vectors * meat_values) @ meat_vectors.T
    notes: tuple[Diagnostic, ...] = ()
    if low:
        notes = (note("curvature.floor", of=f"the {name} intervals", low=low, floor=bread_floor),)
    return Sandwich(inverse @ middle @ inverse / n, notes)
