"""Roles of a study's reports, its rounds, and the diary of several rows, as a plan has them. Standard library only."""

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from privreg.protocol import lattice, sums

from .trees import Column
from .wire import MessageError, Record

ROLES: Final = ("location", "moments", "pilot", "clamping", "main", "measures")
TABLE: Final = "table"  # The one role of a table
SELDOM: Final = {"clamping", TABLE}  # Roles that a plan without them leaves out
MOST_NUMBERS: Final = 12_000  # Numbers of a report, at most: 64 KB hold them

MOST_ROUNDS: Final = 1000
MOST_GROUPS: Final = 64
LATEST: Final = 1 << 36


class Role(NamedTuple):
    """A form of report."""

    form: str  # One of `lattice.FORMS`
    numbers: int
    radius: int
    groups: int  # Random groups that answer apart


class Held(NamedTuple):
    """A round."""

    role: str
    total: int  # Reports that close it; 0: what is left
    after: int  # Seconds after which it is closed whatever came; 0: never
    least: int  # Reports without which it isn't closed by age
    optional: bool  # It is held only if it pays


def read_roles(record: Record, *, shared: bool) -> dict[str, Role]:
    """Read the roles of a plan, by name; `shared` of one with two collectors."""
    out = {}
    for name in (*(sums.ROLES if shared else ROLES), TABLE):
        if name in SELDOM and not record.has(name):
            continue
        one = record.optional(name)
        if one is None:
            continue
        out[name] = Role(
            one.choice("form", lattice.SUM_FORMS if shared else lattice.FORMS),
            one.integer("numbers", 1, sums.MOST_NUMBERS if shared else MOST_NUMBERS),
            one.integer("radius", 1, lattice.LARGEST - 1),
            one.integer("groups", 1, MOST_GROUPS),
        )
        one.done()
    record.done()
    return out


def forms_of(role: str, *, wide: bool) -> tuple[str, ...]:
    """Forms that a role's reports may have, where devices add the noise."""
    if role in {"location", "clamping", "measures"} or (role == "moments" and wide):
        return (lattice.BOX,)
    if role == "moments":
        return (lattice.MOMENTS,)
    if role == TABLE:
        return (lattice.BLOCKS,)
    return (lattice.BALL, lattice.JOINT) if role == "pilot" else (lattice.BALL,)


def read_rounds(record: Record, roles: Mapping[str, Role]) -> tuple[Held, ...]:
    """Read the rounds of a plan."""
    out = []
    for one in record.items("rounds", most=MOST_ROUNDS):
        each = Record(one, "a round")
        out.append(
            Held(
                each.choice("role", tuple(roles)),
                each.integer("total", 0, 1 << 48),
                each.integer("after", 0, LATEST),
                each.integer("least", 0, 1 << 48),
                each.flag("optional"),
            )
        )
        each.done()
    if not out:
        raise MessageError("a plan has at least one round.")
    return tuple(out)


EFFECTS: Final = ("none", "within", "differences")  # Ways to take a person's level out of rows
MOST_ROWS: Final = 1000
LINEAR: Final = frozenset({"huber", "squared"})  # Scores of which a level can be taken out of single rows


class Diary(NamedTuple):
    """Rules for a report of several rows, all public: equations (26) of docs/sums.md and (41) of docs/estimator.md."""

    rows: int  # Most of a person: the first that can be used
    mean: bool  # People count alike, by the mean over their rows, or else rows do
    one: bool  # All rows of a person have one bounded weight, or else each its own
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
        weight = columns.get(out.weight) if isinstance(out.weight, str) else None
        if weight is None or weight.levels or not 0.0 <= weight.low < weight.high < math.inf:
            raise MessageError("'weight' of the diary must be a column with bounds from 0 on, or empty.")
    return out
