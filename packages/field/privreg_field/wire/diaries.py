"""A diary: several rows of a person, of which one report is made, as a plan has it. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from .trees import Column
from .wire import MessageError, Record

EFFECTS: Final = ("none", "within", "differences")  # How a person's level is taken out of rows
MOST_ROWS: Final = 1000
LINEAR: Final = frozenset({"huber", "squared"})  # Of these scores a level can be taken out of single rows


class Diary(NamedTuple):
    """What a report of several rows is made of, all of it public: equations (26) and (41)."""

    rows: int  # Of a person, at most: the first that can be used
    mean: bool  # Whether people count alike, by the mean over the rows that they have, or rows do
    one: bool  # Whether all rows of a person have one bounded weight, or each its own
    effect: str  # One of `EFFECTS`
    weight: str  # Column of survey weights, relative to its upper bound; "" without
    until: int  # Seconds since 1970 UTC: before it rows are added, from then on reports are made

    def slots(self, family: str) -> int:
        """Rows of which a full report is the mean: of differences each stands twice."""
        twice = self.effect == "differences" and family in LINEAR
        return 2 * (self.rows - 1) if twice else self.rows


def read_diary(record: Record, columns: Mapping[str, Column], family: str, times: tuple[int, int]) -> Diary | None:
    """Read the diary of a plan that is open between `times`; None of a plan of single rows.

    Raises
    ------
    MessageError
        If no report is made of such rows.
    """
    if not record.has("diary"):
        return None
    said = record.object("diary")
    out = Diary(
        said.integer("rows", 1, MOST_ROWS),
        said.flag("mean"),
        said.flag("one"),
        said.choice("effect", EFFECTS),
        said.take("weight"),
        said.integer("until", *times),
    )
    said.done()
    least = 1 if out.effect == "none" else 2
    if out.rows < least or (
        out.effect != "none" and family not in LINEAR and (family not in {"logistic", "balanced"} or out.rows > 2)
    ):
        raise MessageError("'diary' of the plan takes out levels that its score, or so many rows, don't go with.")
    if out.weight != "":
        own = columns.get(out.weight) if isinstance(out.weight, str) else None
        if own is None or own.levels or not 0.0 <= own.low < own.high < math.inf:
            raise MessageError("'weight' of the diary must be a column with bounds from 0 on, or empty.")
    return out
