"""Plans rehearse fits of as many people as the reference model has points for users."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import reference_points


@pytest.fixture(scope="module", autouse=True)
def usual_points(few_rounds: None) -> Iterator[None]:
    """As many points as users get, after `few_rounds` has made them fewer."""
    with reference_points(2048):
        yield
