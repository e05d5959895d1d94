"""Pictures for the reference, from the cells of the page of plots that are tagged with what they show."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(?::tags: \[([^\]]*)\]\n)?(.*?)^```", flags=re.MULTILINE | re.DOTALL)


def cells(page: Path) -> list[tuple[str | None, str]]:
    """What each cell's picture shows, None if it isn't one, and its code."""
    found = []
    for tags, code in CELL.findall(page.read_text(encoding="utf-8")):
        first, *names = [tag.strip() for tag in tags.split(",")]
        found.append((names[0] if first == "picture" else None, code))
    return found


def draw(page: Path, into: Path) -> None:
    """Run the page's cells in order and save a picture for each that is tagged."""
    import matplotlib as mpl

    mpl.use("agg")
    import matplotlib.pyplot as plt

    into.mkdir()
    namespace: dict[str, Any] = {}
    for name, code in cells(page):
        exec(compile(code, page.name, "exec"), namespace)
        if name is not None:
            plt.gcf().savefig(into / f"{name}.png", dpi=110, bbox_inches="tight")
        plt.close("all")


if __name__ == "__main__":
    import sys

    draw(Path(sys.argv[1]), Path(sys.argv[2]))
