"""Results with the command, versions, date, commit and constants that made them; read as the package reads its own."""

from pathlib import Path

import pandas as pd

from benchmarks.papers import store
from benchmarks.papers.store import commit, header, read_table
from benchmarks.tuning import tuning_hash

__all__ = ["commit", "header", "read_table", "save_table"]


def save_table(table: pd.DataFrame, path: Path, command: str, more: tuple[str, ...] = ()) -> None:
    """Write a table as CSV under lines that say how it was made: of which commit, if `more` doesn't, and constants."""
    made = () if any(line.startswith("commit: ") for line in more) else (commit(),)
    store.save_table(table, path, command, (*made, f"tuning: {tuning_hash()}", *more))
