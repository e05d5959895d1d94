"""People followed until an event or censoring, as rows of public intervals. Device side."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pandas as pd

from privreg.base.arrays import Array
from privreg.data.cells import as_series
from privreg.data.columns import column_of, level_codes, numbers, zero_one
from privreg.errors import SchemaError
from privreg.families.hazards import AT_RISK, ENDED, INTERVAL
from privreg.schema.declarations import Schema

SHORTEST: Final = 1e-12  # Time at risk over the last cut point, at least


@dataclass(frozen=True)
class Followed:
    """Declaration of times until an event: a formula's ``Surv(time, event, [cuts])``."""

    time: str  # Column of the time of the event, or of censoring
    event: str  # Column of 0 and 1, or of declared levels, the first of which is censoring
    cuts: tuple[float, ...]  # Public ends of the intervals, rising; nobody is followed beyond the last one
    start: str | None = None  # Column of the time of entry; 0 for all if None
    cause: Any = None  # Level of the event that counts, others being censored; None: all but the first

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns that it reads."""
        return tuple(c for c in (self.start, self.time, self.event) if c is not None)

    @property
    def edges(self) -> Array:
        """Ends of all intervals from 0 on, shape (J + 1,)."""
        return np.array([0.0, *self.cuts])

    @property
    def written(self) -> str:
        """It in a formula."""
        return self._written(f"[{', '.join(f'{c:.12g}' for c in self.cuts)}]")

    @property
    def response(self) -> str:
        """It in a summary, without cut points."""
        return self._written()

    def _written(self, *cuts: str) -> str:
        cause = () if self.cause is None else (f"cause={self.cause!r}",)
        return f"Surv({', '.join([*self.columns, *cuts, *cause])})"

    def read(self, columns: Iterable[str]) -> tuple[str, ...]:
        """Raw columns of data in place of those of rows of intervals."""
        return tuple(dict.fromkeys([*self.columns, *(c for c in columns if c not in {INTERVAL, AT_RISK, ENDED})]))

    def declared(self, schema: Schema) -> Schema:
        """Declarations with those of rows of intervals.
        Raises SchemaError if the event's levels are none of an event, or `cause` is none of them, if a time has levels,
        or the event bounds, as where they are given in another order, or if cut points are beyond bounds of the time.
        """
        if any(c in schema.levels for c in {self.start, self.time}) or schema.bounds.get(self.event, (0, 1)) != (0, 1):
            raise SchemaError(
                f"{self.written} takes times, which have no levels, and then the event, which has no bounds but "
                "(0, 1): write Surv(time, event, [...]) or Surv(start, stop, event, [...])."
            )
        if (high := schema.bounds.get(self.time, (0.0, math.inf))[1]) < self.cuts[-1]:
            raise SchemaError(
                f"{self.written}: {self.time!r} has bounds up to {high:g}, and people are followed until the last cut "
                "point; leave these bounds out, or end with an earlier cut point."
            )
        events, causes = schema.levels.get(self.event), (schema.levels.get(self.event) or ())[1:]
        if (events is not None and not causes) or (self.cause is not None and self.cause not in causes):
            raise SchemaError(
                f"{self.written}: levels={{{self.event!r}: [...]}} has censoring first, and then events, of which "
                "cause= may be one."
            )
        bounds = {**schema.bounds, AT_RISK: (SHORTEST * self.cuts[-1], float(np.diff(self.edges).max()))}
        tried = [[f"{v:.{digits}g}" for v in self.edges] for digits in (6, 12, 17)]
        ends = next(one for one in tried if len(set(one)) == len(one))
        labels = tuple(f"({a}, {b}]" for a, b in pairwise(ends))  # they hold their end
        return replace(schema, bounds=bounds, levels={**schema.levels, INTERVAL: labels})

    @np.errstate(all="ignore")  # a warning would tell of one value
    def rows(self, batch: Any, schema: Schema, columns: Iterable[str]) -> dict[str, Any]:
        """Columns of a batch for each person and interval, in order, without a response where they are not at risk."""
        time = numbers(column_of(batch, self.time), self.time, gaps=True)[:, None]
        start, raw = np.zeros_like(time), column_of(batch, self.event)
        if self.start is not None:
            start = numbers(column_of(batch, self.start), self.start, gaps=True)[:, None]
        if self.event in schema.levels:
            levels = schema.levels[self.event]
            place = level_codes(raw, self.event, levels, gaps=True)
            known, counts = place >= 0, place > 0 if self.cause is None else place == levels.index(self.cause)
        else:
            code = zero_one(numbers(raw, self.event, gaps=True), self.event, gaps=True)
            known, counts = np.isfinite(code), code == 1.0
        begin, end = self.edges[:-1], self.edges[1:]
        at_risk = np.minimum(time, end) - np.maximum(start, begin)
        here = known[:, None] & (start >= 0.0) & (start < time) & (at_risk > 0.0)  # not of NaN
        event = np.where(here, counts[:, None] & (time > begin) & (time <= end), np.nan)
        labels = pd.Index(schema.levels[INTERVAL])
        made: dict[str, Any] = {ENDED: event.ravel(), AT_RISK: np.where(here, at_risk, 1.0).ravel()}
        made[INTERVAL] = pd.Categorical.from_codes(np.tile(np.arange(len(end)), len(time)), labels)
        index = np.repeat(np.arange(len(time)), len(end))
        for name in (name for name in columns if name not in self.columns):
            column = as_series(column_of(batch, name)).iloc[index]
            made[name] = column.to_numpy() if isinstance(column.dtype, np.dtype) else column.array
        return made
