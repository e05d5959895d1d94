"""What docstrings, comments and pages cite is there; benchmarks import, and what modules define is used."""

import importlib
import pkgutil

import pytest

import benchmarks
import field_benchmarks
from privreg.families.scores import SCORINGS
from tests.documents import citations
from tests.documents.citations import FOLDERS, ROOT

ALL = [m.name for of in (benchmarks, field_benchmarks) for m in pkgutil.iter_modules(of.__path__, f"{of.__name__}.")]


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_imports(name):
    assert importlib.import_module(name).__doc__


@pytest.mark.parametrize("name", ALL)
def test_a_benchmark_calls_what_it_imports_with_arguments_that_it_takes(name):
    assert citations.wrong_calls(importlib.import_module(name)) == []


def test_a_call_that_lacks_an_argument_is_found(tmp_path, monkeypatch):
    """Of a function that is imported at the top or within, or is of an imported module; others are left alone."""
    (tmp_path / "made_up_study.py").write_text(
        "import math\nfrom privreg.base import archive\nfrom privreg.base.archive import contents\n"
        "def one():\n    contents()\n    contents(*[])\n    contents('a')\n    print(1, 2, 3)\n    math.sqrt()\n"
        "def two():\n    from privreg.base.archive import contents as read\n    read('a', 2, 3)\n"
        "    archive.contents(b=1)\n"
        "def three(contents):\n    contents()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    assert citations.wrong_calls(importlib.import_module("made_up_study")) == [
        "line 5: contents()", "line 12: read('a', 2, 3)", "line 13: archive.contents(b=1)",
    ]  # fmt: skip


def of(folder):
    files = citations.files(".py", ".md")
    return [f for f in files if (f.relative_to(ROOT).parts[0] if f.parent != ROOT else ".") == folder]


def test_cited_paths_and_names_are_there():
    """In the files of every folder, and in the pages beside the folders; in one test, which parses all files once."""
    assert all(of(folder) for folder in (*FOLDERS, "."))
    cited = citations.files(".py", ".md")
    assert {str(f.relative_to(ROOT)): found for f in cited if (found := citations.faults(f))} == {}


@pytest.mark.parametrize(
    "text",
    [
        "see tests/simulation/staged/" + "test_scaling.py", "stored in `benchmarks/results/" + "lost.csv`",
        "(benchmarks/" + "validity)", "from `kernels." + "log_sizes`",
        ":func:`privreg.published.descent.theory." + "lost`",
        "in privreg.simulation." + "staged", "``lost_" + "option`` is", "`lost_" + "module.py` has it",
        "tests/documents/test_citations.py::test_" + "lost", "python -m benchmarks." + "lost",
    ],
)  # fmt: skip
def test_what_is_gone_is_found(text):
    """Split, so that no name of theirs is one of code's."""
    assert len(citations.gone(text)) == 1


def test_what_is_there_is_not_found():
    text = """`benchmarks/results/speed.csv`, tests/documents/, :class:`privreg.Huber`,
    privreg.published.descent.theory.constants, `results/results.py`, `BERRY_ESSEEN`, `Budget.declare`,
    tests/documents/test_citations.py::test_a_benchmark_imports"""
    assert citations.gone(text) == []


def test_what_modules_define_is_used():
    """Constants, functions and classes: by other code, or by name in a string, as options and verbs are.

    Scores of families are there by their codes.
    """
    unused = []
    for file in citations.files(".py"):
        if file.relative_to(ROOT).parts[0] not in {"privreg", "packages", "benchmarks", "docs"} or file.name in {
            "conf.py",
            "hatch_build.py",
        }:
            continue
        names = citations.module(file).defined - citations.used() - {type(one).__name__ for one in SCORINGS.values()}
        unused += [f"{file.relative_to(ROOT)}: {n}" for n in names if not n.startswith("__")]
    assert unused == []
