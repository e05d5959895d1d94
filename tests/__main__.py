"""Every check of the project by one command: ``python -m tests [--fast] [pytest arguments]``.

Runs the linter, the formatter's check, the type checker, the import contracts and then pytest. All of them
run even if one fails; the exit status is the first that wasn't zero. Left out are Monte Carlo (``-m
statistical`` runs it), further cases of what other cases test (``-m thorough``) and tests in a browser (``-m
browser``); ``--fast`` leaves out the slow tests too.
"""

from __future__ import annotations

import os
import subprocess
import sys

from tests import compiled
from tests.compiled import ROOT

PYTHON = sys.executable
CHECKS = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "."],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "mypy": [PYTHON, "-m", "mypy"],
    "lint-imports": [PYTHON, "-c", "from importlinter.cli import lint_imports_command as main; main()"],
}


def run(name: str, command: list[str]) -> int:
    """Run one check from the project's root, its output passed through, and return its exit status."""
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


def main(arguments: list[str]) -> int:
    """Run every check; pytest is last, so that its closing line ends the output."""
    fast = "--fast" in arguments
    rest = [argument for argument in arguments if argument != "--fast"]
    marks = "not statistical and not browser and not thorough" + (" and not slow" if fast else "")
    pytest = [PYTHON, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-m", marks, *rest]
    os.environ.setdefault("NUMBA_CACHE_DIR", str(compiled.folder()))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes that tests start needn't compile all anew
    compiling = compiled.start()  # meanwhile
    statuses = {name: run(name, command) for name, command in CHECKS.items()}
    failed = [name for name, status in statuses.items() if status]
    if failed:
        print(f"== failed so far: {', '.join(failed)} (see above)", flush=True)
    if compiling is not None:
        compiling.wait()
    statuses["pytest"] = run("pytest", pytest)
    return next((status for status in statuses.values() if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
