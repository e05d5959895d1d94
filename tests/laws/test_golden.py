"""Seeded fits give the numbers they gave before: `tests.golden`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import golden

KEPT = json.loads(golden.PATH.read_text())


def test_every_fit_is_kept():
    assert KEPT["numbers"].keys() == golden.CASES.keys()


@pytest.mark.parametrize("name", golden.CASES)
def test_a_seeded_fit_gives_the_same_numbers(name):
    same = golden.environment() == KEPT["environment"]
    # last bits of LAPACK depend on where in memory a matrix lies; those of other versions on much else
    np.testing.assert_allclose(golden.CASES[name](), KEPT["numbers"][name], rtol=1e-12 if same else 1e-9)
