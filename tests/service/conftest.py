"""The JavaScript device, for tests that ask for `js`; connections to database servers, which end with their test."""

import pytest

from tests.service import postgres
from tests.service.node import js

__all__ = ["js"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    postgres.closed()
