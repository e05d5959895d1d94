"""The calls in the tables of a page, run one by one, so that none rots."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

RUN = ("statsmodels", "privreg", "use instead")
"""Columns whose code is run."""
REFUSED = "refused"
"""The column whose code must raise an AttributeError or a TypeError."""


def rows(text: str) -> list[dict[str, str]]:
    """The rows of all tables of a page, each by the names of its columns."""
    found = []
    for table in re.findall(r"(?:^\|.*\n)+", text, flags=re.MULTILINE):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip("|\n"))] for line in table.splitlines()]
        found += [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    return found


def code(cell: str) -> list[str]:
    """The code of a cell."""
    return [span.replace("\\|", "|") for span in re.findall(r"`([^`]+)`", cell)]


def run(page: str, names: dict[str, Any]) -> int:
    """Run the calls of a page of this folder; the number of them."""
    folder = Path(os.environ.get("PRIVREG_ROOT", Path(__file__).parents[1])) / "docs"
    count = 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # few records, on purpose
        for row in rows((folder / page).read_text("utf-8")):
            for call in (call for column in RUN for call in code(row.get(column, ""))):
                try:
                    exec(call, names)
                except Exception as e:
                    raise AssertionError(f"{page}: {call} raises {type(e).__name__}: {e}") from e
                count += 1
            for call in code(row.get(REFUSED, "")):
                try:
                    exec(call, names)
                except (AttributeError, TypeError):
                    count += 1
                else:
                    raise AssertionError(f"{page}: {call} is not refused")
    return count
