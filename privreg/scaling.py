"""Public scaling: the linear map between the user's units and internal ones.

Everything here follows from the public schema: declared bounds map to [−1, 1] (declared moments to mean 0,
sd 1), and derived columns that are nearly collinear over the declared box are made orthogonal over it. No
row is read.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from privreg import kernels
from privreg.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from privreg.schema import Schema

    Array = NDArray[np.float64]

__all__ = ["Units", "public_units"]

CROWDED = 30.0
"""Condition number of the probe's correlation matrix above which columns are made orthogonal."""


@dataclass(frozen=True)
class Units:
    """Affine maps between the user's units and internal ones. Public.

    Parameters
    ----------
    centre, scale : ndarray, shape (p,)
        Column j inside is (x_j − centre_j) / scale_j, before `mix`.
    mix : ndarray, shape (p, p), or None
        Rows inside are then multiplied by ``mix.T``.
    y_centre, y_scale : float
        The response inside is (y − y_centre) / y_scale.
    constant : ndarray, shape (p,)
        Coefficients, user's units, of the column of ones; zeros if the design does not span it.
    reach : float
        sup ‖x‖ over the public box, internal units; inf where a column is not bounded.
    """

    centre: Array
    scale: Array
    mix: Array | None
    y_centre: float
    y_scale: float
    constant: Array
    reach: float

    @property
    def matrix(self) -> Array:
        """T with θ_user = T θ_internal + shift, shape (p, p)."""
        p = self.centre.shape[0]
        rows = (np.eye(p) - np.outer(self.centre, self.constant)) / self.scale[:, None]
        if self.mix is not None:
            rows = self.mix @ rows
        return self.y_scale * rows.T

    @property
    def shift(self) -> Array:
        """Constant part of the map of coefficients, shape (p,)."""
        return self.y_centre * self.constant

    def rows_inside(self, x: Array) -> None:
        """Map rows to internal units in place; each row on its own, so chunking can't change a bit."""
        kernels.affine_rows(x, self.centre, self.scale)
        if self.mix is not None:
            kernels.linear_rows(x, np.ascontiguousarray(self.mix.T))

    def response_inside(self, y: Array) -> Array:
        """Map responses to internal units."""
        if self.y_centre == 0.0 and self.y_scale == 1.0:
            return y
        return (y - self.y_centre) / self.y_scale

    def params_outside(self, theta: Array) -> Array:
        """Coefficients in the user's units."""
        return self.matrix @ theta + self.shift

    def params_inside(self, params: Array) -> Array:
        """Coefficients in internal units."""
        return np.asarray(np.linalg.solve(self.matrix, params - self.shift))

    def cov_outside(self, cov: Array) -> Array:
        """Covariance of coefficients in the user's units, shape (p, p)."""
        t = self.matrix
        return t @ cov @ t.T


def public_units(
    names: Sequence[str],
    probe: Array,
    constant: Array | None,
    schema: Schema,
    endog_name: str,
    endog_limits: tuple[float, float],
    *,
    scale_response: bool,
) -> Units:
    """Choose internal units from the public schema.

    Parameters
    ----------
    names : sequence of str
        Design columns.
    probe : ndarray, shape (m, p)
        Design rows over the public box, user's units.
    constant : ndarray, shape (p,), or None
        Coefficients of the column of ones, if the design spans it.
    schema : Schema
    endog_name : str
    endog_limits : (float, float)
        Range of the response over the public box.
    scale_response : bool
        False for families whose response has units of its own (logistic).

    Returns
    -------
    Units

    Raises
    ------
    SchemaError
        If the response has no public scale.
    """
    p = len(names)
    ones = np.zeros(p) if constant is None else constant
    numeric = schema.numeric()
    low, high = probe.min(axis=0), probe.max(axis=0)
    centre, scale = np.zeros(p), np.ones(p)
    reach2 = 0.0
    for j, name in enumerate(names):
        clamped = all(math.isfinite(v) for c in numeric if c in name for v in schema.limits(c))
        if ones[j] == 0.0 and high[j] > low[j]:
            if name in numeric:
                middle, half = schema.scale(name)
            else:
                middle, half = (low[j] + high[j]) / 2, (high[j] - low[j]) / 2
            if constant is None:
                half = math.hypot(half, middle) if name in schema.moments else max(abs(low[j]), abs(high[j]))
                middle = 0.0
            centre[j], scale[j] = middle, half
        elif ones[j] == 0.0:
            scale[j] = abs(low[j]) or 1.0
        edge = max(abs(low[j] - centre[j]), abs(high[j] - centre[j])) / scale[j]
        reach2 += edge**2 if clamped else math.inf
    inside = (probe - centre) / scale
    mix = _orthogonal(inside)
    if mix is not None:
        inside = inside @ mix.T
        reach2 = float(np.sum(np.max(np.abs(inside), axis=0) ** 2)) if math.isfinite(reach2) else math.inf
    y_centre, y_scale = 0.0, 1.0
    if scale_response:
        y_centre, y_scale = _response(endog_name, endog_limits, schema)
        if constant is None:
            y_scale, y_centre = math.hypot(y_scale, y_centre), 0.0
    return Units(centre, scale, mix, y_centre, y_scale, ones, math.sqrt(reach2))


def _response(name: str, limits: tuple[float, float], schema: Schema) -> tuple[float, float]:
    if name in schema.numeric():
        return schema.scale(name)
    low, high = limits
    if not (math.isfinite(low) and math.isfinite(high)):
        raise SchemaError(
            f"the response {name} has no public range; give finite bounds= for the columns in it, "
            "or moments= if it is a bare column."
        )
    return (low + high) / 2, (high - low) / 2 or 1.0


def _orthogonal(inside: Array) -> Array | None:
    """Row map that makes crowded columns orthogonal over the public box, each within [−1, 1]; None if not needed.

    Gram–Schmidt in the order of the columns, so that main effects, which come first, stay as they are.
    """
    gram = inside.T @ inside / inside.shape[0]
    size = np.sqrt(np.diag(gram))
    correlation = gram / np.outer(size, size)
    if np.linalg.cond(correlation) <= CROWDED:
        return None
    low = np.linalg.cholesky(correlation)
    rows = np.linalg.inv(low) / size
    return np.asarray(rows / np.max(np.abs(inside @ rows.T), axis=0)[:, None])
