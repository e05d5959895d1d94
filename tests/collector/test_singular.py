"""What noise alone may bring about of a design: no state is without a map."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.covariates import moments, whitening
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


@pytest.mark.thorough
def test_a_search_among_few_people_keeps_its_scale_a_number():
    rng, search = np.random.default_rng(1), moments.search(1)
    for _ in range(60):
        weight = (np.arange(GROUPS) < 1).astype(float)
        total = weight[:, None] * (search.thresholds < 1e-30)
        search = moments.narrowed(search, total + 0.01 * rng.standard_normal(total.shape), weight, 0.01)
        assert (search.scale >= moments.SMALLEST).all()
        assert (search.scale <= 1.0 / moments.SMALLEST).all()
        assert np.isfinite(search.thresholds).all()


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(4))
def test_levels_that_nobody_has_do_not_end_a_fit_without_noise(seed):
    rng, n = np.random.default_rng(seed), 5000
    g, h, x = rng.integers(0, 2, n), rng.integers(0, 3, n), rng.standard_normal(n)
    rows = pd.DataFrame({"g": np.array(list("ab"))[g], "h": np.array(list("uvw"))[h], "x": x})
    rows["y"] = x + rng.standard_normal(n)
    res = pr.PrivateOnlineRegression.from_formula(
        "y ~ g * h * x",
        rows,
        mu=None,
        bounds={"x": (-5, 5), "y": (-6, 8)},
        levels={"g": list("abc"), "h": list("uvwt")},
    ).fit(seed=seed, progress=False)
    assert np.isfinite(res.params).all()
    assert np.isfinite(res.bse).all()
    assert res.bse["x"] < 1.0  # an sd of one record: of levels that people have, much is known


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [None, 1])
def test_a_covariate_that_is_0_for_all_does_not_end_a_fit(mu):
    rows = pd.DataFrame({"x": np.zeros(50), "y": np.random.default_rng(0).standard_normal(50)})
    bounds = {"x": (-5, 5), "y": (-6, 8)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, mu=mu, bounds=bounds)
    assert np.isfinite(model.fit(seed=1, progress=False).params).all()


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("mu", [1, None])
@pytest.mark.parametrize("high", [5.0, 5.4])
def test_slopes_by_level_of_public_covariates_are_those_by_a_0_1_number(mu, high):
    """With 0 a little off 0 inside, scales of products were off by 50 times, and slopes by anything."""
    rng, n = np.random.default_rng(3), 20_000
    x, g = rng.standard_normal(n), rng.integers(0, 2, n)
    rows = pd.DataFrame({"x": x, "g": np.array(["a", "b"])[g], "gn": g.astype(float), "y": x + rng.standard_normal(n)})
    found = []
    for right, more, given in (("g * x", {}, {"levels": {"g": ["a", "b"]}}), ("gn * x", {"gn": (0.0, 1.0)}, {})):
        bounds = {"x": (-5.0, high), "y": (-6.0, 8.0), **more}
        model = pr.PrivateOnlineRegression.from_formula(
            f"y ~ {right}", rows, mu=mu, private="response", bounds=bounds, **given
        )
        found.append(model.fit(seed=1, progress=False))
    # columns stand in another order inside, where noise is added: a tenth of a standard error is nothing
    one, other = (res.params.to_numpy() for res in found)
    assert (np.abs(one - other) < 0.1 * found[0].bse.to_numpy()).all()
    np.testing.assert_allclose(one, [0.0, 0.0, 1.0, 0.0], atol=0.2)
