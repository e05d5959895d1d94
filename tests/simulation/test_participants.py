"""Fits of people with budgets of their own, with several rows, and with nothing to say."""

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import DataError, InferenceError, OptionError

N = 4_000
PUBLIC = {"bounds": {"a": (-4, 4), "y": (-9, 9)}}


def people(seed=1):
    rng = np.random.default_rng(seed)
    a = rng.normal(size=N)
    frame = pd.DataFrame({"a": a, "y": 1 + 2 * a + 0.5 * rng.normal(size=N)})
    return frame.assign(mu=rng.choice([0.5, 1.0], N), who=np.arange(N) // 2)


@pytest.mark.parametrize("mechanism", ["laplace", "privunit"])
def test_budgets_of_one_s_own_go_with_gaussian_noise_only(mechanism):
    given = {"mu": "mu", "mu_max": 1, "mechanism": mechanism, **PUBLIC}
    with pytest.raises(OptionError, match=f"mechanism='{mechanism}' has no personal budgets"):
        pr.PrivateOnlineRegression.from_formula("y ~ a", None, **given)


@pytest.mark.parametrize(("budget", "each"), [({"mu": 1}, 1.0), ({"rho": 0.5}, 1.0)])
def test_what_the_ledger_enters_is_what_all_rows_of_a_person_cost(budget, each):
    frame = people()
    res = pr.PrivateOnlineRegression.from_formula("y ~ a", frame, id="who", max_per_id=2, **budget, **PUBLIC).fit(
        progress=False
    )
    assert res.privacy.total_mu == pytest.approx(math.sqrt(2) * each)
    assert res.privacy.release.total_mu == pytest.approx(math.sqrt(2) * each)
    again = pr.PrivateOnlineRegression.from_formula("y ~ a", frame, **budget, **PUBLIC).fit(progress=False)
    assert again.privacy.release.total_mu == pytest.approx(math.sqrt(3) * each)


def test_further_rows_are_silent_whether_or_not_values_are_missing():
    frame = people()
    frame.loc[::10, "y"] = np.nan
    wild = frame.copy()
    wild.loc[1::2, ["a", "y"]] = [4.0, -9.0]  # second rows of everybody
    given = {"mu": 1, "id": "who", "missing": "noise", **PUBLIC}
    one, two = (
        pr.PrivateOnlineRegression.from_formula("y ~ a", d, **given).fit(progress=False, seed=3) for d in (frame, wild)
    )
    pd.testing.assert_series_equal(one.params, two.params)


@pytest.mark.thorough
def test_precision_of_measures_counts_people_not_weights():
    rng = np.random.default_rng(2)
    n = 40_000
    a = rng.normal(size=n)
    frame = pd.DataFrame({"a": a, "y": 1 + 2 * a + 0.5 * rng.normal(size=n), "half": 0.5, "mu": 1.0})
    given = {"bounds": {"a": (-4, 4), "y": (-9, 9)}}
    errors = []
    for column, most in (("half", 0.5), ("half", 1.0)):  # the same people and noise, by another ceiling
        model = pr.PrivateOnlineRegression.from_formula("y ~ a", frame, mu=column, mu_max=most, **given)
        errors.append(model.fit(measures=0.3, progress=False, seed=1).fit_measures["std_error"].to_numpy())
    np.testing.assert_allclose(errors[0], errors[1], rtol=0.3)


def test_the_curator_s_release_takes_one_row_of_a_person():
    given = {"mu": 1, "id": "who", **PUBLIC}
    how = {"tuning": "published", "inference": "plug_in_central", "progress": False}
    several = pr.PrivateOnlineRegression.from_formula("y ~ a", people(), max_per_id=3, **given)
    with pytest.raises(InferenceError, match="each of a person's rows adds"):
        several.fit(**how)
    one = pr.PrivateOnlineRegression.from_formula("y ~ a", people(), max_per_id=1, **given).fit(**how)
    assert one.privacy.total_mu == pytest.approx(math.sqrt(2))  # the reports, and the release


def test_budgets_beside_which_the_rounding_of_sums_would_count_are_refused():
    usual = people()
    for mu, refused in ((1e-150, True), (0.9e-3, True), (1e-3, False)):
        frame = usual.assign(mu=np.where(usual.index == 7, mu, 1.0))
        model = pr.PrivateOnlineRegression.from_formula("y ~ a", None, mu="mu", mu_max=1, rows=N, **PUBLIC)
        stream = model.start()
        if refused:
            with pytest.raises(DataError) as caught:
                stream.update(frame)
            assert "mu" in str(caught.value)
            assert not any(text in str(caught.value) for text in (f"{mu:g}", str(mu)))
            assert stream.nobs == 0
        else:
            assert stream.update(frame).nobs == N
