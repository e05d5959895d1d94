"""What a collector keeps of a study: `kept` says what, `sqlite` and `sqlite_shares` how; `writer` is who writes.

`tables` is the schema. Which database it is says its address.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from privreg.service.store.kept import FAILED, KEPT, NEW, OTHER, SAME, About, Arrived, Held, Keeper, Store, StoreError
from privreg.service.store.sqlite import SCHEME, SQLite
from privreg.service.store.writer import MOST, Full, Writer


def open_store(url: str, slug: str, clock: Callable[[], float] = time.time, *, make: bool = True) -> Store:
    """Open the database of a study.

    Parameters
    ----------
    url : str
        ``sqlite:///file.db``.
    slug : str
        The study's short name.
    clock : callable
        Seconds since 1970 UTC, for counts by minute.
    make : bool
        Whether it is made if it isn't there.

    Raises
    ------
    StoreError
        If it is no database of this release, or there is none.
    """
    if not url.startswith(SCHEME):
        raise StoreError("the collector keeps its reports in SQLite; write --db sqlite:///FILE.")
    return SQLite(url, slug, clock, make=make)


__all__ = [
    "FAILED", "KEPT", "MOST", "NEW", "OTHER", "SAME", "About", "Arrived", "Full", "Held", "Keeper", "Store",
    "StoreError", "Writer", "open_store",
]  # fmt: skip
