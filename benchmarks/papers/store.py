"""Tables with the command, versions and date that made them, and the runs of a cell, which a later run goes on from."""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import os
import platform
import subprocess
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, Final

import numba
import numpy as np
import pandas as pd

from privreg.base.archive import write_bytes
from privreg.base.version import __version__
from privreg.errors import SavedFileError

HERE: Final = Path(__file__).parent
_CELL: Final = "# cell: "


def commit() -> str:
    """Commit of the working tree, with -dirty where it differs."""
    told = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=HERE, capture_output=True, text=True)
    return f"commit: {told.stdout.strip() or 'unknown'}"


def header(command: str) -> list[str]:
    """Lines that say how a table was made."""
    return [
        f"command: {command}",
        f"date: {datetime.datetime.now(datetime.UTC).date().isoformat()}",
        f"versions: privreg {__version__}, python {platform.python_version()}, numpy {np.__version__}, "
        f"numba {numba.__version__}, pandas {pd.__version__}",
        f"machine: {os.cpu_count()} processors",
    ]


def save_table(table: pd.DataFrame, path: Path, command: str, more: tuple[str, ...] = ()) -> None:
    """Write a table as CSV, in a folder made for it, under comment lines that say how it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    for line in [*header(command), *more]:
        text.write(f"# {line}\n")
    table.to_csv(text, index=False)
    write_bytes(path, text.getvalue().encode())


def read_table(path: str | Path) -> pd.DataFrame:
    """Read a table stored by `save_table`."""
    return pd.read_csv(path, comment="#")


@cache
def code_hash() -> str:
    """Eight digits that stand for the source of the package and of the experiments."""
    found, root = hashlib.sha256(), Path(__file__).resolve().parents[2]
    paths = [p for folder in (root / "privreg", HERE) for p in folder.rglob("*")]
    for path in sorted(p for p in paths if p.suffix in {".py", ".json", ".toml"}):
        found.update(path.relative_to(root).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:8]


def printed(name: str) -> dict[str, Any]:
    """Read printed numbers of a table; ``source`` says where it is printed, ``about`` what its numbers are.

    Examples
    --------
    >>> printed("xsjkh_table3")["test_mse"]["OLS"]
    0.0607
    """
    loaded: dict[str, Any] = json.loads((HERE / "printed" / f"{name}.json").read_text("utf-8"))
    return loaded


def _words(cell: Any) -> str:
    return json.dumps(asdict(cell), sort_keys=True)


def write_runs(folder: Path, cell: Any, runs: pd.DataFrame) -> None:
    """Write the runs of a cell, which the first line tells: all of them or, if the process is killed, none."""
    folder.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    text.write(f"{_CELL}{_words(cell)}\n")
    runs.to_csv(text, index=False, float_format="%.10g", lineterminator="\n")
    write_bytes(folder / f"{cell.name}.csv", text.getvalue().encode())


def read_runs(folder: Path | None, cell: Any) -> pd.DataFrame:
    """Read the runs of a cell, none if there is no folder or no file.
    Raises SavedFileError if the file is of another cell or of other settings.
    """
    path = None if folder is None else folder / f"{cell.name}.csv"
    if path is None or not path.exists():
        return pd.DataFrame({"replication": pd.Series(dtype=np.int64)})
    with path.open(encoding="utf-8") as f:
        if f.readline().rstrip("\n") != _CELL + _words(cell):
            raise SavedFileError(
                f"{str(path)!r} holds runs of other settings than those asked for; use --again (again=True) to replace "
                "them, or another --out (out=) to keep both."
            )
        return pd.read_csv(f, dtype={"code": str, "error": str})  # some hashes look like numbers
