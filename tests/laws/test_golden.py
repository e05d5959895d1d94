"""Seeded fits give the numbers they gave before: `tests.golden`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import golden

KEPT = json.loads(golden.PATH.read_text())


@pytest.fixture(scope="module")
def few_rounds():
    """Fits as users get them."""


def test_every_fit_is_kept():
    assert KEPT.keys() == golden.CASES.keys()


@pytest.mark.parametrize("name", golden.CASES)
def test_a_seeded_fit_gives_the_same_numbers(name):
    new = golden.CASES[name]()
    assert golden.same(new, KEPT[name]), np.array([new, KEPT[name]])
