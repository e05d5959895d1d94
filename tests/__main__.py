"""Every check of the project by one command: ``python -m tests [--fast] [pytest arguments]``.

Runs the linter, the formatter's check, the type checker, the import contracts and then pytest. All of them
run even if one fails; the exit status is the first that wasn't zero. The type checker runs beside the others, and what
it says comes last. Two processes take half of the tests' files each, so that no file is collected twice. Left out are
Monte Carlo (``-m statistical`` runs it), further cases of what other cases test and what takes long beside a quicker
test of the same (``-m thorough``), and tests in a browser (``-m browser``); ``--fast`` leaves out the slow tests too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests import compiled
from tests.compiled import ROOT

PYTHON = sys.executable
CHECKS = {
    "ruff check": [PYTHON, "-m", "ruff", "check", "."],
    "ruff format": [PYTHON, "-m", "ruff", "format", "--check", "."],
    "lint-imports": [PYTHON, "-c", "from importlinter.cli import lint_imports_command as main; main()"],
}
TYPES = [PYTHON, "-m", "mypy"]
"""Long, and in one process: runs while the others do."""
MEMORY, ROOM = Path("/dev/shm"), 4 << 30
"""Where tests' files are if so many bytes are free: there a process that is killed leaves what it leaves on a disk, and
to wait for a disk, as stores do at each commit, took a third of the time of tests of studies."""
EMPTY = 5
"""What pytest exits with where no test was chosen, as in one half if few are asked for."""


def run(name: str, command: list[str]) -> int:
    """Run one check from the project's root, its output passed through, and return its exit status."""
    print(f"== {name}", flush=True)
    return subprocess.run(command, cwd=ROOT, check=False).returncode


@contextmanager
def beside(name: str, command: list[str]) -> Iterator[Callable[[], int]]:
    """Run a check in the background; what is yielded waits for it, prints what it said and returns its exit status."""
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, cwd=ROOT, stdout=said, stderr=subprocess.STDOUT) as process,
    ):

        def result() -> int:
            process.wait()
            said.seek(0)
            print(f"== {name}\n{said.read().decode('utf-8', 'replace')}", end="", flush=True)
            return process.returncode

        try:
            yield result
        finally:
            process.kill()  # if it was not waited for


def main(arguments: list[str]) -> int:
    """Run every check; the last line names those that failed."""
    fast = "--fast" in arguments
    rest = [argument for argument in arguments if argument != "--fast"]
    marks = "not statistical and not browser and not thorough" + (" and not slow" if fast else "")
    one, other = ([PYTHON, "-m", "pytest", "-m", marks, *rest, f"--part={part}"] for part in ("1/2", "2/2"))
    os.environ.setdefault("NUMBA_CACHE_DIR", str(compiled.folder()))
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # two processes share the processors
    if MEMORY.is_dir() and shutil.disk_usage(MEMORY).free > ROOM:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(MEMORY))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # the processes that tests start needn't compile all anew
    compiling = compiled.start()
    with beside("mypy", TYPES) as types:
        statuses = {name: run(name, command) for name, command in CHECKS.items()}
        if compiling is not None:
            compiling.wait()
        with beside("pytest, the other half", other) as half:
            both = {run("pytest, one half", one), half()}
        statuses["pytest"] = max(both - {EMPTY}, default=EMPTY)
        statuses["mypy"] = types()
    failed = [name for name, status in statuses.items() if status]
    print(f"== failed: {', '.join(failed)} (see above)" if failed else "== all passed", flush=True)
    return next((status for status in statuses.values() if status), 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
