"""Batches of records as rows in internal units: what devices know of themselves before they are asked."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from privreg.base.arrays import Array
from privreg.data.participants import Counter
from privreg.data.sources.open import rows_of
from privreg.formula.spec import ModelSpec


class Rows(NamedTuple):
    """Rows of a batch in internal units, with weights and ids: one entry a row, or None for all alike."""

    endog: Array  # shape (n,)
    exog: Array  # shape (n, p), column by column if for rounds, else row by row
    offset: Array | None  # shape (n,)
    weight: Array | None  # Squared share of the largest budget, or a survey weight over the largest; shape (n,)
    hashes: Any  # Keyed hashes of ids; shape (n,)
    clamped: NDArray[np.bool_] | None  # True if a row was clamped, by column, if rows may be asked; shape (n, D)
    # Places of their clusters among the declared ones, where people have clusters; shape (n,)
    cluster: NDArray[np.int64] | None
    read: int  # Rows of the source they were made of


class Encoder:
    """Makes rows of batches, in the engine's `order` of the user's columns, shape (p,).

    `counter` counts rows by id; `by_column` says whether the numbers of a column lie together, or those of a row.
    """

    def __init__(self, spec: ModelSpec, order: NDArray[np.intp], counter: Counter | None, *, by_column: bool) -> None:
        self.order, self._layout = order, np.asfortranarray if by_column else np.ascontiguousarray
        self._spec, self._counter = spec, counter
        units = spec.units  # but for their mix, which comes after
        self._sorted = bool((np.diff(order) == 1).all())
        self._design = scaled = spec.design.scaled(units.centre, units.scale)
        if not self._sorted and units.mix is None:
            self._design, self._sorted = scaled.ordered(order), True

    @property
    def width(self) -> int:
        """Columns of the rows."""
        return len(self.order)

    def encode(self, batch: Any, *, clamped: bool = False) -> Rows:
        """Rows of a batch; with `clamped`, also flags of clamped values."""
        spec, units = self._spec, self._spec.units
        rows = self._design.encode(batch, spec.people.missing)
        x = rows.exog
        units.rows_mixed(x)
        x = self._layout(x if self._sorted else x[:, self.order])
        with np.errstate(over="ignore"):  # a warning would tell of one value
            offset = None if rows.offset is None else rows.offset / units.y_scale
        weight = spec.people.weights(batch, rows.kept)
        if spec.people.weight is not None:
            least, largest = spec.design.schema.limits(spec.people.weight)
            weight = spec.people.survey_weights(batch, largest, least, rows.kept)
        hashes = flags = None
        if self._counter is not None:
            hashes = self._counter.hashed(spec.people.ids(batch), gaps=spec.people.missing != "raise")
            hashes = hashes if rows.kept is None else hashes[rows.kept]
        if clamped and spec.clamps:
            flags = spec.design.clamps(batch, [c.name for c in spec.clamps])
            flags = flags if rows.kept is None else flags[rows.kept]
        y, cluster = units.response_inside(rows.endog), None
        if spec.people.cluster is not None:
            place = spec.people.clusters(batch, spec.design.schema.levels[spec.people.cluster], rows.kept)
            y, cluster = np.where(place < 0, np.nan, y), np.maximum(place, 0)
        return Rows(y, x, offset, weight, hashes, flags, cluster, rows_of(batch))
