"""Record store of a collector: `records` are its types, and the one thread that writes them, by `sql` and `shares`.

`tables` is the schema, and how it came about; `copies` takes a study from one database to another. Which
database it is says its address; `sqlite` and `postgres` are what they differ in.
"""

import time
from collections.abc import Callable
from pathlib import Path

from privreg_field.service.store.postgres import SCHEMES, Postgres
from privreg_field.service.store.records import StoreError
from privreg_field.service.store.sql import Store
from privreg_field.service.store.sqlite import SCHEME, SQLite


def open_store(
    url: str, slug: str, clock: Callable[[], float] = time.time, *, make: bool = True, beside: Path | None = None,
    old: bool = False,
) -> Store:  # fmt: skip
    """Open the database of a study, ``sqlite:///file.db`` or ``postgresql://user@host/database``, by its short name.

    `clock` has seconds since 1970 UTC, for counts by minute. `make` says whether a file is made if it isn't there. What
    is not to be in the database, keys of batches among it, is kept in files named by `beside` and an ending: by default
    the file of SQLite, or the study's name in the working folder. With `old` its tables may be of an earlier version:
    nothing but `migrate` is then to be asked of it.
    Raises StoreError if it is no database of this release, or there is none.
    """
    if url.startswith(SCHEMES):
        return Postgres(url, slug, clock, beside or Path(slug), old=old)
    if not url.startswith(SCHEME):
        raise StoreError("the collector keeps its reports in SQLite or PostgreSQL; write --db sqlite:///FILE.")
    return SQLite(url, slug, clock, make=make, old=old)


__all__ = ["Store", "StoreError", "open_store"]
