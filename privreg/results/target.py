"""What defines the estimand of a fit: its row map and its threshold c, which another fit can take over."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from privreg.base.arrays import Array
from privreg.protocol import codes
from privreg.results.data import ResultData

LEARNED: Final = frozenset({codes.HUBER, codes.EXPECTILE})
"""Families whose threshold c is part of the estimand: a quantile's serves its density alone."""

RANK: Final = 1e-12  # Smallest singular value of a map, relative to the largest, with which it can be inverted
LARGEST: Final = 1e12  # Numbers of a target, relative to internal units, beyond which it is of no fit


@dataclass(frozen=True)
class Target:
    """Row map W and threshold c of an earlier fit, both functions of its reports and so public."""

    rows: tuple[tuple[float, ...], ...]  # W, internal units, in the engine's order of columns; shape (d, d)
    c: float | None  # c, internal units of the response; None if the score has none, or if it is declared
    reach: float | None = None  # Of sums: length of W x from which on a record's weight falls

    @property
    def map(self) -> Array:
        """W; shape (d, d)."""
        return np.array(self.rows)

    def same(self, other: Target | None) -> bool:
        """Whether another one defines the same estimand."""
        if other is None or (self.c is None) != (other.c is None):
            return False
        near = self.c is None or bool(np.isclose(self.c, other.c or 0.0, rtol=1e-9, atol=0.0))
        return near and self.rows == other.rows and self.reach == other.reach

    def to_json(self) -> dict[str, Any]:
        """As plain JSON has it, to the bit."""
        out = {"rows": [list(row) for row in self.rows], "c": self.c}
        return out if self.reach is None else out | {"reach": self.reach}

    @classmethod
    def from_json(cls, document: Any, columns: int) -> Target | None:
        """Rebuild what `to_json` gave; a ValueError says that it is none of a design of so many columns."""
        if document is None:
            return None
        try:
            rows = np.array(document["rows"], dtype=np.float64)
            c, reach = (None if v is None else float(v) for v in (document["c"], document.get("reach")))
        except (KeyError, TypeError, ValueError, OverflowError):
            raise ValueError("no target") from None
        usable = rows.shape == (columns, columns) and 1.0 / LARGEST < np.abs(rows).max(initial=0.0) < LARGEST
        usable = usable and bool(np.linalg.cond(rows) < 1.0 / RANK) and (reach is None or 1.0 <= reach < LARGEST)
        if reach is None:
            usable = usable and bool((np.diag(rows) > 0.0).all()) and not np.triu(rows, 1).any()
        if not usable or not (c is None or 1.0 / LARGEST < c < LARGEST):
            raise ValueError("no target of this design")
        return cls(tuple(tuple(row) for row in rows.tolist()), c, reach)


def of_results(fit: ResultData) -> Target | None:
    """The target of results; None if they are of no fit by rounds of local reports, nor by sums."""
    equation = fit.equation
    if equation is None or not fit.rounds:
        return None
    d, reach = len(equation.order), None
    if len(equation.caps):  # of the last round, whose map is the estimate's
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            reach = float(d / np.trace(equation.caps[-1]))
    if equation.rows.shape != (d, d) or equation.weighing not in {"unit", "leverage", "likelihood", "capped"}:
        return None
    # rounds with the same c count together, pilot rounds first: the last is that of main rounds
    learned = equation.shape[0] in LEARNED
    c = float(equation.c[-1]) * equation.y_scale if learned else None
    return Target(tuple(tuple(row) for row in equation.rows.tolist()), c, reach)
