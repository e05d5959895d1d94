"""The terms of a design: which of its columns belong together, and how a factor's levels are coded in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from privreg.data.cells import Floats


class DesignTerm(NamedTuple):
    """One term of a formula, or one column of arrays."""

    name: str  # As patsy writes it: "Intercept", "age", "C(region)", "age:smoker"
    columns: tuple[int, ...]  # Positions of its design columns
    reads: tuple[str, ...] = ()  # Raw columns that it is made from; none for the intercept
    levels: tuple[Any, ...] = ()  # Declared levels of the factor that it is by itself; none for other terms
    coding: Floats | None = None  # What its columns hold at each of these levels, shape (levels, columns)

    @property
    def reference(self) -> Any:
        """The level whose columns are all 0; None of a term that has no such level."""
        coded = np.ones(1, dtype=np.bool_) if self.coding is None else self.coding.any(axis=1)
        return None if coded.all() else self.levels[int(np.argmin(coded))]
