"""The JavaScript device, for tests that ask for `js`; connections to database servers, which end with their test."""

from functools import cache

import pytest
from sqlalchemy.sql.elements import ClauseElement

from privreg_field.study.declaring.declared import fit_of
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
        m.setattr("privreg_field.study.reading.collected.fit_of", cache(fit_of))
        yield


@pytest.fixture(scope="session", autouse=True)
def _statements_are_compiled_once():
    """And not by the engine of each database anew, of which every test has several."""
    compile_, dialects, known = ClauseElement._compile_w_cache, {}, {}

    def once(self, dialect, *, compiled_cache, **more):
        first = dialects.setdefault((dialect.name, dialect.driver), dialect)
        return compile_(self, first, compiled_cache=None if compiled_cache is None else known, **more)

    with pytest.MonkeyPatch.context() as m:
        m.setattr(ClauseElement, "_compile_w_cache", once)
        yield
