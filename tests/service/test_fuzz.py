"""The OpenAPI document, fuzzed: no request makes the collector fail, and it answers what the document says."""

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install schemathesis")

from privreg.service.app import Options, make  # noqa: E402
from tests.service.world import World  # noqa: E402

ADDRESSES = 13
"""Of the document, but for its own; events don't end, and aren't fuzzed."""


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    return make(World(tmp_path_factory.mktemp("fuzz"), n=30).course, Options(rate=0.0, public_results=True))


def test_the_fuzzed_document_holds(app):
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [o.ok() for o in schema.get_all_operations()]
    assert len(operations) == ADDRESSES
    for operation in operations:
        if operation.path.endswith("/events"):
            continue

        @settings(max_examples=15, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def fuzz(case):
            case.call_and_validate()

        fuzz()
