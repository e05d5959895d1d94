"""Compiled loops are never older than their text; two processes run every test between them."""

import pytest

from tests import compiled, conftest, golden
from tests.compiled import ROOT

LOOPS = "from numba import njit\nfrom privreg.codes import ONE\n@njit(cache=True)\ndef f(x):\n    return x + ONE\n"


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "privreg").mkdir()
    for name, text in {"loops": LOOPS, "codes": "ONE = 1\n", "tables": "TWO = 2\n"}.items():
        (tmp_path / "privreg" / f"{name}.py").write_text(text)
    return tmp_path


@pytest.mark.parametrize(("name", "differs"), [("loops", True), ("codes", True), ("tables", False)])
def test_a_change_of_a_loop_or_of_what_it_imports_takes_another_folder(tree, name, differs):
    before = compiled.key(tree)
    path = tree / "privreg" / f"{name}.py"
    path.write_text(path.read_text() + "# changed\n")
    assert (compiled.key(tree) != before) is differs


def test_loops_call_no_file_of_ours_beyond_those_that_are_looked_at():
    """What `sources` finds imports no further file of ours at run time."""
    found = compiled.sources(ROOT)
    names = {str(path.relative_to(ROOT)) for path in found}
    assert {"privreg/published/chain/kernels.py", "privreg/protocol/codes.py"} <= names
    for path in found:
        for module in compiled.imported(path.read_text("utf-8")):
            file = f"{module.replace('.', '/')}.py"
            assert file in names or not (ROOT / file).exists()


def test_fits_that_compile_are_golden_ones():
    assert set(compiled.FITS) <= golden.CASES.keys()


def test_every_file_of_tests_is_in_one_part_and_parts_take_about_as_long():
    files = {path for top in conftest.DEALT for path in (ROOT / top).rglob("*.py")}
    others = [conftest._files_of_others(ROOT, part, fast=False) for part in ("1/2", "2/2")]
    assert others[0] | others[1] == files
    assert not others[0] & others[1]
    seconds = [sum(s for name, s in conftest._slow().items() if ROOT / name.partition("::")[0] in o) for o in others]
    assert max(seconds) < 1.1 * min(seconds)
