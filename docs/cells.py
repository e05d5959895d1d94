"""The code of the pages, run in order without Sphinx: ``python -m docs --check [NAME ...]``."""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def pages() -> list[Path]:
    """The README, and every page of the documentation that has code to run, the vignettes among them."""
    folders = ("docs", "docs/guides", "docs/extending", "vignettes")
    found = [page for folder in folders for page in sorted((ROOT / folder).glob("*.md"))]
    return [ROOT / "README.md", *(page for page in found if "```{code-cell}" in page.read_text("utf-8"))]


def blocks(path: Path) -> list[str]:
    """Python of fenced blocks and of a notebook's cells, without the cells' tags."""
    found = re.findall(
        r"^```(?:python|\{code-cell\}.*?)\n(.*?)^```", path.read_text("utf-8"), flags=re.MULTILINE | re.DOTALL
    )
    return [re.sub(r"^:\w+:.*\n", "", code, flags=re.MULTILINE) for code in found]


def run(path: Path) -> tuple[dict[str, Any], str]:
    """Run a page's code in a folder of its own; the names it leaves and what it printed."""
    import matplotlib.pyplot as plt
    import pandas as pd

    namespace: dict[str, Any] = {}
    printed = io.StringIO()
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        contextlib.redirect_stdout(printed),
        pd.option_context("display.max_colwidth", pd.get_option("display.max_colwidth")),  # pages may widen tables
        plt.rc_context(),  # and make letters smaller
    ):
        for code in blocks(path):
            exec(compile(code, path.name, "exec"), namespace)
            plt.close("all")  # as a notebook does
    return namespace, printed.getvalue()


def check(names: list[str]) -> int:
    """Run the pages so named, or all; the number that failed."""
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("PRIVREG_ROOT", str(ROOT))
    failed = 0
    found = pages()
    unknown = set(names) - {path.stem for path in found}
    if unknown:
        print(f"no page with code is called {', '.join(sorted(unknown))}")
        return len(unknown)
    for path in found:
        if names and path.stem not in names:
            continue
        begin = time.monotonic()
        try:
            run(path)
        except Exception as e:
            failed += 1
            print(f"FAILED {path.name}: {type(e).__name__}: {e}", flush=True)
        else:
            print(f"{time.monotonic() - begin:5.1f} s  {path.name}", flush=True)
    return failed
