"""Results with the command, versions, date, commit and constants that made them; read as the package reads its own."""

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd

from benchmarks.papers import store
from benchmarks.papers.store import commit, header, read_table
from benchmarks.tuning import tuning_hash
from privreg.base.archive import write_bytes

__all__ = ["Runs", "commit", "header", "read_table", "save_table"]


def save_table(table: pd.DataFrame, path: Path, command: str, more: tuple[str, ...] = ()) -> None:
    """Write a table as CSV under lines that say how it was made: of which commit, if `more` doesn't, and constants."""
    made = () if any(line.startswith("commit: ") for line in more) else (commit(),)
    store.save_table(table, path, command, (*made, f"tuning: {tuning_hash()}", *more))


class Runs:
    """Runs of a study by name, kept in a folder if there is one."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def get(self, name: str, make: Callable[[], list[float]]) -> list[float]:
        """Numbers of a run: made now, or kept from before."""
        path = None if self.folder is None else self.folder / f"{name}.json"
        if path is not None and path.exists():
            return json.loads(path.read_text())
        numbers = [float(v) for v in make()]
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, json.dumps(numbers).encode())
        return numbers
