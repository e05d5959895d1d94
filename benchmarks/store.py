"""Results with the command, versions and date that made them."""

from __future__ import annotations

import datetime
import io
import os
import platform
from pathlib import Path

import numba
import numpy as np
import pandas as pd

from privreg import __version__
from privreg.storage import write_bytes


def header(command: str) -> list[str]:
    return [
        f"command: {command}",
        f"date: {datetime.datetime.now(datetime.UTC).date().isoformat()}",
        f"versions: privreg {__version__}, python {platform.python_version()}, numpy {np.__version__}, "
        f"numba {numba.__version__}, pandas {pd.__version__}",
        f"machine: {os.cpu_count()} processors",
    ]


def save_table(table: pd.DataFrame, path: Path, command: str) -> None:
    """Write a table as CSV under comment lines that say how it was made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = io.StringIO()
    for line in header(command):
        text.write(f"# {line}\n")
    table.to_csv(text, index=False)
    write_bytes(path, text.getvalue().encode())


def read_table(path: Path) -> pd.DataFrame:
    """Read a table stored by `save_table`."""
    return pd.read_csv(path, comment="#")
