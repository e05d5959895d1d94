"""The R package, where R is: its tests, against this Python."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "packages" / "privreg-r"
NEEDED = ("reticulate", "testthat", "emmeans", "broom")


def has_r() -> bool:
    """Whether there is R with the packages that the tests need."""
    if shutil.which("Rscript") is None:
        return False
    asked = f"quit(status = !all(sapply(c({', '.join(map(repr, NEEDED))}), requireNamespace, quietly = TRUE)))"
    return subprocess.run(["Rscript", "-e", asked], capture_output=True, check=False).returncode == 0


@pytest.mark.thorough
@pytest.mark.skipif(not has_r(), reason=f"needs R with {', '.join(NEEDED)}")
def test_the_r_package_passes_its_tests(tmp_path) -> None:
    library = tmp_path / "library"
    library.mkdir()
    subprocess.run(["R", "CMD", "INSTALL", "-l", library, PACKAGE], capture_output=True, check=True)
    more = {"R_LIBS": str(library), "RETICULATE_PYTHON": sys.executable, "PYTHONPATH": str(PACKAGE.parents[1])}
    run = subprocess.run(
        ["Rscript", "testthat.R"],
        cwd=PACKAGE / "tests",
        env=os.environ | more,
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
    assert "FAIL 0" in run.stdout
    assert "SKIP 0" in run.stdout


def test_methods_are_registered_and_documented() -> None:
    """Each S3 method of NAMESPACE is a function of the sources, and each export has a page."""
    names = (PACKAGE / "NAMESPACE").read_text()
    sources = "".join(f.read_text() for f in sorted((PACKAGE / "R").glob("*.R")))
    pages = "".join(f.read_text() for f in sorted((PACKAGE / "man").glob("*.Rd")))
    found = [line[9:-1].replace('"', "") for line in names.splitlines() if line.startswith("S3method")]
    methods = [one.split("::")[-1].replace(", ", ".") for one in found]
    assert len(methods) > 15
    defined = sources.replace("`", "")
    assert [m for m in methods if f"{m} <- function" not in defined] == []
    exported = names.split("export(")[1].split(")")[0].split(", ")
    assert [e for e in exported if f"\\alias{{{e}}}" not in pages] == []
