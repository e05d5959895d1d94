"""Public scaling: the linear map between the user's units and internal ones, of which the public schema decides.

Declared bounds map to [−1, 1] (declared moments to mean 0, sd 1), columns with declared correlations are made
uncorrelated, and derived columns that are nearly collinear over the declared box are made orthogonal over it, unless
the design is wide. Columns whose scale is private stay as they are.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from privreg.base.arrays import Array, Flags
from privreg.collector.inference.methods import WIDE
from privreg.errors import SchemaError
from privreg.formula.design import Design

CROWDED = 30.0  # Condition number of the probe's correlation matrix above which columns are made orthogonal
SAME = 1e-9  # Rounding error of a computed constant 1
ALONE = 5.0  # Variance inflation up to which a column is left as it is where others are crowded
NEARLY: Final = 0.1
"""Middle of a product's range, relative to half of it, below which it is taken to be 0. Scales of public covariates are
known by geometric means: with 3e-5 for records of the other level slopes of a factor were anything."""


@dataclass(frozen=True)
class Units:
    """Affine maps between the user's units and internal ones. Public."""

    # Column j inside is (x_j − centre_j) / scale_j, before `mix`; shape (p,)
    centre: Array
    scale: Array
    mix: Array | None  # Rows inside are then multiplied by ``mix.T``; shape (p, p)
    # The response inside is (y − y_centre) / y_scale
    y_centre: float
    y_scale: float
    # Coefficients, user's units, of the column of ones; zeros if the design does not span it; shape (p,)
    constant: Array
    reach: float  # sup ‖x‖ over the public box, internal units; inf where a column is not bounded
    # Columns that depend on a private scale: centre 0, scale 1 and a row of `mix` that is the identity's; shape (p,)
    unscaled: Flags
    y_unscaled: bool  # The response depends on a private scale: y_centre 0, y_scale 1

    @property
    def matrix(self) -> Array:
        """T with θ_user = T θ_internal + shift, shape (p, p)."""
        p = self.centre.shape[0]
        rows = (np.eye(p) - np.outer(self.centre, self.constant)) / self.scale[:, None]
        rows = self.mix @ rows if self.mix is not None else rows
        return self.y_scale * rows.T

    @property
    def shift(self) -> Array:
        """Constant part of the map of coefficients, shape (p,)."""
        return self.y_centre * self.constant

    def probe_inside(self, probe: Array) -> Array:
        """Design rows over the public box in internal units, a copy."""
        inside = np.array(probe, dtype=np.float64, order="C")
        self.rows_inside(inside)
        return inside

    def constant_column(self, probe: Array) -> int | None:
        """Column that is 1 inside in every row of the public box, user's units, shape (m, p); None if there is none."""
        ones = np.flatnonzero((np.abs(self.probe_inside(probe) - 1.0) < SAME).all(axis=0))
        return int(ones[0]) if ones.size else None

    def gaps(self, probe: Array) -> Array:
        """Distance inside of a column's two values on the public box; 0 for columns that take one or more than two."""
        inside = self.probe_inside(probe)
        low, high = inside.min(axis=0), inside.max(axis=0)
        two = ((np.abs(inside - low) <= 1e-9) | (np.abs(inside - high) <= 1e-9)).all(axis=0)
        return np.where(two, high - low, 0.0)

    @np.errstate(all="ignore")  # a warning would reveal a value
    def rows_inside(self, x: Array) -> None:
        """Map rows to internal units in place; each row on its own, so chunking can't change a bit."""
        np.subtract(x, self.centre, out=x)
        np.divide(x, self.scale, out=x)
        self.rows_mixed(x)

    @np.errstate(all="ignore")
    def rows_mixed(self, x: Array) -> None:
        """The second half of it, for rows whose columns are centred and scaled."""
        if self.mix is None:
            return
        # column by column: a matrix product's bits depend on how many rows it is given
        whole = [np.zeros(len(x)) for _ in self.mix]
        for j, m in np.argwhere(self.mix.T != 0.0):
            whole[m] += x[:, j] * self.mix[m, j]
        for m, column in enumerate(whole):
            x[:, m] = column

    @np.errstate(over="ignore")
    def response_inside(self, y: Array) -> Array:
        """Map responses to internal units."""
        return y if self.y_centre == 0.0 and self.y_scale == 1.0 else np.asarray((y - self.y_centre) / self.y_scale)

    def params_outside(self, theta: Array) -> Array:
        """Coefficients in the user's units."""
        if self.mix is None and len(theta) > WIDE:  # no matrix for each line of a trail
            inner = theta / self.scale
            return np.asarray(self.y_scale * (inner - self.constant * float(self.centre @ inner)) + self.shift)
        return self.matrix @ theta + self.shift

    def params_inside(self, params: Array) -> Array:
        """Coefficients in internal units."""
        return np.asarray(np.linalg.solve(self.matrix, params - self.shift))


def public_units(design: Design, *, scale_response: bool) -> Units:
    """Choose internal units from the public schema of a design; some responses, 0/1 say, keep units of their own.
    Raises SchemaError if the response has no public scale.
    """
    schema, probe, constant = design.schema, design.probe, design.constant
    p = len(design.names)
    ones = np.zeros(p) if constant is None else constant
    low, high = probe.min(axis=0), probe.max(axis=0)
    centre, scale, edges = np.zeros(p), np.ones(p), np.zeros(p)
    unscaled = np.array([not set(schema.private).isdisjoint(c) for c in design.sources], dtype=np.bool_)
    for j, name in enumerate(design.bare):
        varies = bool(ones[j] == 0.0 and high[j] > low[j])
        if varies and not unscaled[j]:
            if name is not None:
                middle, half = schema.scale(name)
            else:
                middle, half = (low[j] + high[j]) / 2, (high[j] - low[j]) / 2
                if abs(middle) < NEARLY * half:  # where a product is 0 for most records it is to stay so
                    middle, half = 0.0, max(abs(low[j]), abs(high[j]))
            if p > WIDE and name is None and low[j] == 0.0 and all(c in schema.levels for c in design.sources[j]):
                middle, half = 0.0, high[j]  # a level of a factor with many: most people have 0, which is to stay
            if constant is None:
                half = math.hypot(half, middle) if name in schema.moments else max(abs(low[j]), abs(high[j]))
                middle = 0.0
            centre[j], scale[j] = middle, half
        elif ones[j] == 0.0 and not unscaled[j]:
            scale[j] = abs(low[j]) or 1.0
        elif ones[j] < 0.0:
            scale[j] = -1.0  # columns of cut points are −1 or 0
        numbers = [c for c in design.sources[j] if c not in schema.levels]
        clamped = all(math.isfinite(v) for c in numbers for v in schema.limits(c))
        edges[j] = max(abs(low[j] - centre[j]), abs(high[j] - centre[j])) / scale[j] if clamped else math.inf
    # columns that have a declared correlation with another one, and their second moments inside
    at = {name: j for j, name in enumerate(design.bare) if name is not None and high[j] > low[j]}
    where = sorted({at[c] for pair in schema.correlations if all(c in at for c in pair) for c in pair})
    held = [str(design.bare[j]) for j in where]
    mean = (np.array([schema.moments[c][0] for c in held]) - centre[where]) / scale[where]
    sd = np.array([schema.moments[c][1] for c in held]) / scale[where]
    moments = schema.correlation_matrix(held) * np.outer(sd, sd) + np.outer(mean, mean)
    inside, summed = (probe - centre) / scale, np.eye(p)
    among = [int(j) for j in np.flatnonzero(ones) if not unscaled[j] and j not in where]
    if among and p <= WIDE and np.count_nonzero(ones) > 1:
        # the constant that several columns add up to, as levels without a reference do, takes the place of one
        summed[among[0]] = ones * scale
        made = inside @ summed.T
        if (np.abs(made[:, among[0]] - 1.0) < SAME).all() and np.linalg.matrix_rank(summed) == p:
            inside, edges = made, np.where((summed != np.eye(p)).any(axis=1), 1.0, edges)
        else:
            summed = np.eye(p)
    mix, edges = _mix(inside, edges, unscaled, where, moments)
    if (summed != np.eye(p)).any():
        mix = summed if mix is None else mix @ summed
    (low, high), y_centre, y_scale, y_unscaled = design.endog_limits, 0.0, 1.0, False
    if scale_response:
        bounded = math.isfinite(low) and math.isfinite(high)  # I(y > 3) is, whatever y
        y_unscaled = not bounded and not set(schema.private).isdisjoint(design.endog_sources)
        if design.endog_bare is not None and not y_unscaled:
            y_centre, y_scale = schema.scale(design.endog_bare)
        elif bounded:
            y_centre, y_scale = (low + high) / 2, (high - low) / 2 or 1.0
        elif not y_unscaled:
            raise SchemaError(
                f"the response {design.endog_name} has no public range; give finite bounds= for the columns in it, or "
                'moments= if it is a bare column, or leave them undeclared with scaling="private".'
            )
        if constant is None and not y_unscaled:
            y_scale, y_centre = math.hypot(y_scale, y_centre), 0.0
    return Units(centre, scale, mix, y_centre, y_scale, ones, math.sqrt(float(edges @ edges)), unscaled, y_unscaled)


def _mix(
    inside: Array, edges: Array, unscaled: Flags, correlated: list[int], moments: Array
) -> tuple[Array | None, Array]:
    """Row map that decorrelates columns, and how far each column then reaches; None if none is needed.

    `correlated` columns are made orthonormal under their declared second `moments` (uncorrelated with unit variance,
    as their mean is 0 inside if the design spans the constant), and crowded columns orthogonal over the public box;
    both in the order of the columns, so that the map is lower triangular. `unscaled` columns stay out.
    """
    p = inside.shape[1]
    free = np.flatnonzero(~unscaled)
    # the public box has too few rows to distinguish that many columns, and what is sparse stays so
    crowded = None if p > WIDE else _orthogonal(inside[:, free])
    if crowded is None and not correlated:
        return None, edges
    mix, reach = np.eye(p), edges.copy()
    if crowded is not None:
        mix[np.ix_(free, free)] = crowded
        bounded = np.max(np.abs(inside @ mix.T), axis=0)
        reach[free] = bounded[free] if np.isfinite(edges[free]).all() else math.inf
    if correlated:
        block = np.linalg.inv(np.linalg.cholesky(moments))
        mix[correlated] = 0.0
        mix[np.ix_(correlated, correlated)] = block
        used = [np.flatnonzero(row) for row in block]  # an edge may be infinite
        reach[correlated] = [np.abs(row[k]) @ edges[correlated][k] for row, k in zip(block, used, strict=True)]
    return mix, reach


def _correlation(columns: Array) -> Array:
    """Second moments of columns relative to their sizes; correlations, if they are centred."""
    gram = columns.T @ columns / columns.shape[0]
    size = np.sqrt(np.diag(gram))
    return np.asarray(gram / np.outer(size, size))


def _orthogonal(inside: Array) -> Array | None:
    """Row map that makes crowded columns orthogonal over the public box, each within [−1, 1]; None if not needed.

    In the order of the columns, so that main effects, which come first, stay as they are. Columns that the others
    hardly tell stay too, and so do two-valued ones: levels' shares are learned from columns that have two values. Only
    if those crowd each other all columns are made orthogonal.
    """
    low, high = inside.min(axis=0), inside.max(axis=0)
    varies = high > low

    def correlation(rows: Array) -> Array:  # beside a constant a column off its middle, np.log(x) say, crowds nobody
        columns = (inside @ rows.T)[:, varies]
        return _correlation(columns if varies.all() else columns - columns.mean(axis=0))

    identity = np.eye(len(varies))
    if not varies.any() or np.linalg.cond(correlation(identity)) <= CROWDED:
        return None
    crowd = ~varies
    crowd[varies] = np.diag(np.linalg.inv(correlation(identity))) > ALONE
    two = ((inside == low) | (inside == high)).all(axis=0)
    rows = _residuals(inside, crowd, crowd & ~two)
    everything = np.ones_like(varies)
    return _residuals(inside, everything, everything) if np.linalg.cond(correlation(rows)) > CROWDED else rows


def _residuals(inside: Array, crowd: Flags, changed: Flags) -> Array:
    """Row map of the `changed` columns among a crowd to what its earlier columns leave of them; others stay."""
    k = np.flatnonzero(crowd)
    size = np.sqrt((inside[:, k] ** 2).mean(axis=0))
    left = np.linalg.inv(np.linalg.cholesky(_correlation(inside[:, k]))) / size
    left /= np.max(np.abs(inside[:, k] @ left.T), axis=0)[:, None]
    rows = np.eye(len(crowd))
    rows[np.ix_(k, k)] = left
    rows[~changed] = np.eye(len(crowd))[~changed]
    return rows
