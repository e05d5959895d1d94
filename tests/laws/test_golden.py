"""Seeded fits give the numbers they gave before: `tests.golden`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import golden

KEPT = json.loads(golden.PATH.read_text())


def test_every_fit_is_kept():
    assert KEPT.keys() == golden.CASES.keys()


@pytest.mark.parametrize("name", golden.CASES)
def test_a_seeded_fit_gives_the_same_numbers(name):
    # last bits of LAPACK depend on the processor, and twenty rounds amplify them; other draws of noise
    # move an estimate by a part of its standard error
    np.testing.assert_allclose(golden.CASES[name](), KEPT[name], rtol=1e-7)
