"""Verbs and names that other distributions add, by entry points; those of studies in the field are in `packages/field`.

Of "verbs" each is a callable of the words after it, which returns an exit status and whose `about` is a line of help;
of "names" each is what `privreg` has under that name. They are imported when asked for.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from privreg.errors import MissingExtraError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

FIELD: Final = {
    "verbs": ("collector", "respond", "results", "serve", "study", "swarm", "tokens"),
    "names": ("connect",),
}
"""Of the kit for studies in the field, for who has not installed it."""


@cache
def added(group: str) -> dict[str, EntryPoint]:
    """What installed distributions add to a group, "verbs" or "names", by name."""
    from importlib.metadata import entry_points  # as long as importing privreg itself

    return {point.name: point for point in entry_points(group=f"privreg.{group}")}


def find(group: str, name: str) -> Any:
    """Import what is added under a name; None if nobody adds it.

    Raises MissingExtraError if it is the kit's, and the kit isn't installed.
    """
    if name in added(group):
        return added(group)[name].load()
    if name not in FIELD[group]:
        return None
    what = f"privreg {name}" if group == "verbs" else f"privreg.{name}"
    raise MissingExtraError(
        f"{what} is part of the kit for studies in the field, which is not installed: in the root folder of a clone "
        'pip install . "./packages/field[serve]".'
    )
