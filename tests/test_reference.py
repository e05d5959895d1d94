"""Agreement with other software and with published numbers."""

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import binom

import privreg as pr
from benchmarks.store import read_table
from tests.helpers import NAMES, array_model, people

pytestmark = pytest.mark.reference


def test_long_stream_without_privacy_agrees_with_rlm():
    x, y = people(300_000, 11)
    y = y + np.random.default_rng(5).standard_t(3, len(y)) * 0.2
    other = sm.RLM(y, x, M=sm.robust.norms.HuberT(1.345)).fit()
    res = array_model(300_000, 11, mu=None)
    res = pr.PrivateOnlineRegression(
        y, x, exog_names=NAMES, moments={n: (0.0, 1.0) for n in (*NAMES[1:], "y")}, mu=None, family=pr.Huber(1.345, 0.4)
    ).fit(inference="plug_in")
    z = (res.params.to_numpy() - other.params) / np.hypot(res.bse, other.bse)
    assert np.abs(z).max() < 3.9  # four coefficients, 1e-4 each
    assert res.bse.max() < 1.3 * other.bse.max()


def test_long_stream_without_privacy_agrees_with_logit():
    x, y = people(300_000, 12, binary=True)
    other = sm.Logit(y, x).fit(disp=0)
    res = array_model(300_000, 12, binary=True, mu=None).fit(inference="plug_in")
    z = (res.params.to_numpy() - other.params) / np.hypot(res.bse, other.bse)
    assert np.abs(z).max() < 3.9
    assert res.bse.max() < 1.5 * other.bse.max()


RANDHIE = "lncoins + idp + lpi + fmde + physlm + disea + hlthg + hlthf + hlthp"


@pytest.mark.parametrize(("response", "family"), [("mdvis", pr.Huber(scale=4.0)), ("I(mdvis > 0)", pr.Logistic())])
def test_rand_health_insurance_experiment(response, family):
    data, schema = pr.datasets.randhie(), pr.datasets.randhie_schema()
    formula = f"{response} ~ {RANDHIE}"
    options = {"family": family, **schema}
    private = pr.PrivateOnlineRegression.from_formula(formula, data, mu=1, **options).fit(seed=4)
    free = pr.PrivateOnlineRegression.from_formula(formula, data, mu=None, **options).fit()
    assert private.nobs == len(data) == 20_190
    limits = private.conf_int()
    inside = (limits[0] <= free.params) & (free.params <= limits[1])
    # each misses with probability near 5%: more than 4 of 10 would happen once in ten thousand fits
    assert (~inside).sum() <= binom.ppf(0.9999, 10, 0.05)
    wider = (limits[1] - limits[0]) / (free.conf_int()[1] - free.conf_int()[0])
    assert wider.median() > 3  # 20,190 people can say little under μ = 1, and the intervals admit it


def test_stored_coverage_study_meets_its_limits():
    table = read_table("benchmarks/results/coverage_published.csv")
    scaling = table[(table.setting == "stated") & (table.method == "random_scaling") & (table.n == 200_000)]
    assert sorted(scaling.mu.astype(str)) == ["1", "2", "none"]
    low, high = binom.ppf([0.0005, 0.9995], 800, 0.95) / 8
    assert scaling.coverage.between(low - 0.01, high + 0.01).all()
    plug_in = table[(table.setting == "stated") & table.method.str.startswith("plug_in") & (table.n == 200_000)]
    assert len(plug_in) == 6
    assert (plug_in.length_x100 / plug_in.asymptotic_x100 - 1).abs().max() < 0.05


def test_stored_insurance_study_meets_its_limits():
    runs = read_table("benchmarks/results/insurance_permutations.csv")
    published = runs[runs.fit == "published tuning"]
    assert len(published) == 20
    assert published.worst_error.median() <= 0.09
    assert published.test_mse.median() <= 0.075


@pytest.mark.slow
def test_insurance_under_published_tuning_on_one_permutation():
    from benchmarks.insurance import TEN, one

    people_ = pr.datasets.us_insurance(1_000_000, coding="integers")[[*TEN, "charges"]].astype(float)
    found = pd.DataFrame(one(people_, 1)).set_index("fit")
    stored = read_table("benchmarks/results/insurance_permutations.csv")
    stored = stored[stored.permutation == 1].set_index("fit")
    np.testing.assert_allclose(found.test_mse, stored.test_mse, rtol=2e-3)
    assert found.loc["published tuning", "test_mse"] <= 0.08


@pytest.mark.slow
@pytest.mark.coverage
def test_coverage_of_random_scaling_in_the_published_design():
    from benchmarks.coverage import one

    rows = [r for seed in range(1001, 1051) for r in one("stated", 1.0, ("random_scaling",), seed) if r["n"] == 200_000]
    covered = sum(r["covered"] for r in rows)
    low, high = binom.ppf([0.0005, 0.9995], 200, 0.95)
    assert low <= covered <= high
