"""What is said: whatever the number of rounds."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _few(few_rounds):
    """Quick fits."""
