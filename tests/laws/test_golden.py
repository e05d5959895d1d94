"""Seeded fits give the numbers they gave before: `tests.golden`."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests import golden

KEPT = json.loads(golden.PATH.read_text())
MORE = {
    *("source mapping", "source arrow", "source polars", "threads"),
    *("source duckdb", "source sql"),
    *("epsilon, delta", "rho"),
    *("plan", "lanes", "source parquet", "inference batch_means", "inference path_curvature", "start", "exposure"),
    *("family huber fixed", "family squared", "response, logistic", "published batch means", "inference anytime"),
    *("two collectors, logistic", "unit weights", "inference random_scaling", "inference plug_in"),
}
"""Fits of the same numbers as the default's, or as those of "source csv"; or of which a budget is all that differs.

Also a plan, which rehearses for long, and fits that take the way of another with one step changed.
"""


@pytest.fixture(scope="module")
def few_rounds():
    """Fits as users get them."""


def test_every_fit_is_kept():
    assert KEPT.keys() == golden.CASES.keys()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.thorough] * (name in MORE)) for name in golden.CASES]
)
def test_a_seeded_fit_gives_the_same_numbers(name):
    new = golden.CASES[name]()
    assert golden.same(new, KEPT[name]), np.array([new, KEPT[name]])
