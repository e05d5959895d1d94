"""The OpenAPI document, fuzzed: no request makes the collector fail, and it answers what the document says."""

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed: pip install schemathesis")

from privreg_field.service.http.app import Options, make  # noqa: E402
from privreg_field.service.sums import app as sums  # noqa: E402
from tests.service.pair import Pair  # noqa: E402
from tests.service.world import ANALYST, World  # noqa: E402

OPEN = Options(rate=0.0, public_results=True)
KNOWN = {"Authorization": f"Bearer {ANALYST}"}


def one(folder):
    return make(World(folder, n=30).scheduler, OPEN)


def two(folder):
    pair = Pair(folder, n=30)
    pair.turn()
    return sums.make(pair.schedulers[0], OPEN)


@pytest.mark.thorough
@pytest.mark.parametrize(("of", "addresses"), [(one, 15), (two, 16)])
def test_the_fuzzed_document_holds(of, addresses, tmp_path):
    """Events don't end, and aren't fuzzed; the document's own address isn't in it."""
    app = of(tmp_path)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    operations = [o.ok() for o in schema.get_all_operations()]
    assert len(operations) == addresses
    for operation in operations:
        if operation.path.endswith("/events"):
            continue

        @settings(max_examples=4, deadline=None, database=None, suppress_health_check=list(HealthCheck))
        @given(case=operation.as_strategy())
        def fuzz(case):
            case.call_and_validate(headers=KNOWN)

        fuzz()
