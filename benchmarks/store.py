"""Results with the command, versions, date, commit and constants that made them; read as the package reads its own."""

import subprocess
from pathlib import Path

import pandas as pd

from benchmarks.papers import store
from benchmarks.papers.store import header, read_table
from benchmarks.tuning import tuning_hash

__all__ = ["commit", "header", "read_table", "save_table"]


def commit() -> str:
    """Commit of the working tree, with -dirty where it differs."""
    root = Path(__file__).resolve().parents[1]
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True)
    return f"commit: {told.stdout.strip() or 'unknown'}"


def save_table(table: pd.DataFrame, path: Path, command: str, more: tuple[str, ...] = ()) -> None:
    """Write a table as CSV under lines that say how it was made: of which commit, if `more` doesn't, and constants."""
    made = () if any(line.startswith("commit: ") for line in more) else (commit(),)
    store.save_table(table, path, command, (*made, f"tuning: {tuning_hash()}", *more))
