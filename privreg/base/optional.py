"""Optional packages, imported where they are first needed.

Other distributions add verbs and names by entry points. Of "verbs" each is a callable of the words after it, which
returns an exit status and whose `about` is a line of help; of "names" each is what `privreg` has under that name. Those
of studies in the field are in `packages/field`.
"""

import re
import sys
from contextlib import suppress
from functools import cache
from importlib import import_module
from typing import Any, Final

from privreg.errors import MissingExtraError

FIELD: Final = {
    "verbs": ("collector", "respond", "results", "serve", "silo", "study", "swarm", "tokens"),
    "names": ("connect",),
}
"""Verbs and names that the kit for studies in the field adds, known where it is not installed."""


OLDEST: Final = {"pyarrow": "18", "polars": "1.34", "duckdb": "1.1", "sqlalchemy": "2.0.30", "dask": "2025.1"}
"""Packages that hand out rows, and the oldest version of each that is read."""


def recent(*packages: str) -> None:
    """Refuse a package that is imported and too old, as a MissingExtraError; its rows would break off somewhere."""
    for package in packages:
        held, wanted = sys.modules[package].__version__, OLDEST[package]
        there, least = ([int(n) for n in re.findall(r"\d+", text)[:3]] for text in (held, wanted))
        if there < least:
            raise MissingExtraError(
                f"{package} is installed in version {held}, and rows are read by {wanted} or later: "
                f'pip install "{package}>={wanted}".'
            )


def need(module: str, extra: str, what: str, of: str = ".") -> Any:
    """Import a module of an optional package, which `extra` brings; without it an error says `what` needs it.

    `of` is the folder of the distribution that has the extra, in a clone.
    """
    package = {"docx": "python-docx"}.get(module, module.partition(".")[0])
    found = None
    with suppress(ImportError):  # raised below: the text of another package's error is not passed on
        found = import_module(module)
    if found is not None:
        recent(*{package} & OLDEST.keys())
        return found
    raise MissingExtraError(f'{what} needs {package}, which is not installed: pip install "{of}[{extra}]" in a clone.')


@cache
def added(group: str) -> dict[str, Any]:
    """Entry points of a group, "verbs" or "names", that installed distributions add, by name."""
    from importlib.metadata import entry_points  # as long as importing privreg itself

    return {point.name: point for point in entry_points(group=f"privreg.{group}")}


def find(group: str, name: str) -> Any:
    """Import what is added under a name; None if nobody adds it.

    Raises MissingExtraError if it is the kit's, and the kit isn't installed, or if its package is broken.
    """
    what = f"privreg {name}" if group == "verbs" else f"privreg.{name}"
    if name in added(group):
        with suppress(Exception):  # the text of another package's error is not passed on
            return added(group)[name].load()
        raise MissingExtraError(
            f"{what} is {added(group)[name].value}, which can't be imported: install its package anew."
        )
    if name not in FIELD[group]:
        return None
    raise MissingExtraError(
        f"{what} is part of the kit for studies in the field, which is not installed: in the root folder of a clone "
        'pip install . "./packages/field[serve]".'
    )
