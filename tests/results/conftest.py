"""Results: whatever the number of rounds, but for tests that ask for `usual_rounds`."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _few(few_rounds):
    """Quick fits."""
