"""Where tests keep compiled loops: ``python -m tests.compiled`` compiles what there is, and tells the folder.

numba looks at a file's own date only, so a loop that calls, or froze a constant of, another file would go on as it was.
A folder is therefore named by the checkout, the text of every compiled file and of what these import, and the versions.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
UNUSED = 7 * 24 * 3600.0
"""Folders that no run has used for so many seconds are removed."""

FITS = (
    *("default", "no covariates", "response", "private scales", "measures", "published", "published wide"),
    *("curator", "curator, output", "two collectors"),
)
"""Those of the golden fits that compile something which the fits before them did not."""


def sources(root: Path) -> list[Path]:
    """The files that numba compiles, and those of ours that they import."""
    texts = {path: path.read_text("utf-8") for path in sorted((root / "privreg").rglob("*.py"))}
    compiled = {path for path, text in texts.items() if "@njit(cache=True" in text}
    names = {name for path in compiled for name in imported(texts[path])}
    modules = (root / name.replace(".", "/") for name in names)
    used = {path for m in modules for path in (m.with_suffix(".py"), m / "__init__.py") if path in texts}
    return sorted(compiled | used)


def imported(text: str) -> list[str]:
    """Modules of ours that a file imports when it is loaded, and what else may be one: the names it has from them."""
    found = re.findall(r"^from (privreg[\w.]*) import (\([^)]*\)|.*)", text, re.MULTILINE)
    return [name for home, names in found for name in (home, *(f"{home}.{n}" for n in re.findall(r"\w+", names)))]


def key(root: Path = ROOT) -> str:
    """A name that changes whenever a compiled loop could."""
    parts = [str(root), platform.python_version(), *(version(name) for name in ("numba", "llvmlite", "numpy"))]
    texts = [f"{path.relative_to(root)}\n{path.read_text('utf-8')}" for path in sources(root)]
    return hashlib.sha256("\0".join(parts + texts).encode()).hexdigest()[:16]


def folder() -> Path:
    """The folder of this tree, made if need be; those that nobody has used for long are removed."""
    everywhere = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "privreg-tests"
    own = everywhere / key()
    try:
        own.mkdir(parents=True, exist_ok=True)
        os.utime(own)
        for other in everywhere.iterdir():
            if time.time() - other.stat().st_mtime > UNUSED:
                shutil.rmtree(other, ignore_errors=True)
    except OSError:  # no home to write to
        own = Path(tempfile.mkdtemp(prefix="privreg-numba-"))
        atexit.register(shutil.rmtree, own, ignore_errors=True)
    return own


def complete() -> Path:
    """The file that says that all is compiled."""
    return Path(os.environ["NUMBA_CACHE_DIR"]) / f"complete-{key()}"


def start() -> subprocess.Popen[bytes] | None:
    """Compile into ``NUMBA_CACHE_DIR`` in a process of its own, unless that was done before."""
    if complete().exists():
        return None
    return subprocess.Popen([sys.executable, "-m", "tests.compiled"], cwd=ROOT, stdout=subprocess.DEVNULL)


def main() -> None:
    """Fit a little of everything."""
    os.environ.setdefault("NUMBA_CACHE_DIR", str(folder()))
    os.environ["PRIVREG_SECRET"] = str(Path(tempfile.mkdtemp(prefix="privreg-secret-")) / "secret")
    from tests import golden

    for fit in FITS:
        golden.CASES[fit]()
    shutil.rmtree(Path(os.environ["PRIVREG_SECRET"]).parent)
    complete().touch()
    print(os.environ["NUMBA_CACHE_DIR"])


if __name__ == "__main__":
    main()
