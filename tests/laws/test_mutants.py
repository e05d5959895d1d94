"""The mutants fit the code they change; whether tests kill them is for ``python -m tests.mutants``."""

import pytest

from tests.mutants import MUTANTS, ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda m: m.name)
def test_a_mutant_changes_one_place_and_names_tests_that_are_there(mutant):
    assert (ROOT / mutant.file).read_text().count(mutant.old) == 1
    assert mutant.new != mutant.old
    for path, _, test in (name.partition("[")[0].partition("::") for name in mutant.tests):
        assert f"def {test}" in (ROOT / path).read_text()
