"""Estimators: what intervals are made of is tested with as many rounds as users get."""

import pytest


@pytest.fixture(scope="module")
def few_rounds():
    """Fits as users get them."""
