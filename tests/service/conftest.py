"""The JavaScript device, for tests that ask for `js`; connections to database servers, which end with their test."""

from functools import cache

import pytest

from privreg.field.declaring.model import fit_of
from tests.service import postgres
from tests.service.node import js

__all__ = ["js"]


@pytest.fixture(autouse=True)
def _closed():
    yield
    postgres.closed()


@pytest.fixture(scope="session", autouse=True)
def _texts_of_plans_are_read_once():
    """Each test begins several collectors and devices of one plan, which read its formula anew."""
    with pytest.MonkeyPatch.context() as m:
        m.setattr("privreg.field.reading.collected.fit_of", cache(fit_of))
        yield
