"""What noise alone may bring about of a design: no state is without a map."""

import numpy as np

from privreg.collector.covariates import thresholds, whitening
from privreg.protocol.rounds import GROUPS


def test_a_map_of_columns_that_reports_make_one():
    rows = np.linalg.inv(np.array([[1.0, 0.0, 0.0], [0.5, 1e8, 0.0], [0.5, 1e8, 1e-9]]))
    found = whitening.without_constant(np.tril(rows), 2)
    assert np.isfinite(found).all()
    assert (np.diag(found) > 0.0).all()


def test_a_spread_that_is_lost_beside_a_centre_far_away():
    rows = np.array([[1.0, 0.0, 0.0], [3.9e27, 3.9e12, 0.0], [1.02600261e27, 1.02600261e12, 2.65]])
    found = whitening.correlation(rows, constant=True)
    assert np.isfinite(found).all()
    assert (np.diag(found) > 0.99).all()


def test_a_search_among_few_people_keeps_its_scale_a_number():
    rng, search = np.random.default_rng(1), thresholds.begin(1)
    for _ in range(60):
        weight = (np.arange(GROUPS) < 1).astype(float)
        total = weight[:, None] * (search.thresholds < 1e-30)
        search = thresholds.learn(search, total + 0.01 * rng.standard_normal(total.shape), weight, 0.01)
        assert (search.scale >= thresholds.SMALLEST).all()
        assert (search.scale <= 1.0 / thresholds.SMALLEST).all()
        assert np.isfinite(search.thresholds).all()
