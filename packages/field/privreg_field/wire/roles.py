"""Roles of a study's reports, and its rounds, as a plan has them. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from privreg.protocol import lattice, sums

from .wire import MessageError, Record

ROLES: Final = ("location", "moments", "pilot", "clamping", "main", "measures")
TABLE: Final = "table"  # The one role of a table
SELDOM: Final = {"clamping", TABLE}  # Of which plans without them say nothing
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
    optional: bool  # Whether it is held only if it pays


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
