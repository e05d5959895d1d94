"""The search for columns whose location and scale nobody declared."""

import numpy as np
import pytest
from scipy.special import ndtr

from privreg.collector.covariates import moments
from privreg.protocol.rounds import GROUPS
from privreg.protocol.schedule import LOCATIONS

PEOPLE, SD = 4000, 5**0.5
"""Records in a round, and noise of a number, of five columns at μ = 1."""


@pytest.mark.some(1)
@pytest.mark.parametrize(("mean", "sd"), [(5.0, 1e-3), (0.0, 1e-6), (2000.0, 8.0), (-3e4, 3.0), (0.0, 1.0)])
def test_a_column_is_found_wherever_it_lies(mean, sd):
    rng = np.random.default_rng(3)
    each = PEOPLE // GROUPS
    weight = np.full(GROUPS, float(each))
    search = moments.search(3)  # three columns of the same law
    for _ in range(LOCATIONS):
        above = rng.binomial(each, ndtr((mean - search.thresholds) / sd))
        total = above + SD * np.sqrt(each) * rng.standard_normal(above.shape)
        search = moments.narrowed(search, total, weight, SD)
    centre, scale = search.centre, search.scale
    assert (search.unsure < 1.0).all()
    assert np.all(np.abs(centre - mean) < 0.5 * sd)
    assert np.all(np.abs(np.log(scale / sd)) < np.log(2.0))
