"""Values that can't be used: the share of them is learned from reports, and rows of which hardly any is left say so."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from privreg.errors import ReliabilityWarning
from privreg.results.statement import Unusable

N = 60_000
FORMULA = "x + C(smoker) ~ 1"
PUBLIC = {"bounds": {"x": (0, 10)}, "levels": {"smoker": ["no", "yes"], "g": ["a", "b"]}}
WAYS = {
    "auto": {"mu": 2},
    "pure": {"epsilon": 4},
    "one item each": {"epsilon": 4, "m": 1},
    "histogram": {"epsilon": 6, "mechanism": "laplace", "frequencies": "histogram"},
    "whole records": {"epsilon": 8, "mechanism": "privunit"},
    "subgroups": {"mu": 2, "by": "g"},
    "no noise": {"mu": None},
}


def rows(gone=0.97, without=0.4, n=N, seed=0):
    """Smokers who are spelt as declared, and 'No' for `gone` of the people; x is missing `without` of them."""
    rng = np.random.default_rng(seed)
    smoker = np.where(rng.random(n) < gone, "No", np.where(rng.random(n) < 0.3, "yes", "no"))
    x = np.where(rng.random(n) < without, np.nan, rng.uniform(0, 10, n))
    return pd.DataFrame({"smoker": smoker, "x": x, "g": rng.choice(["a", "b"], n)})


def fitted(data, **more):
    return pr.means.PrivateMeans.from_formula(FORMULA, data, **PUBLIC, **more).fit(seed=1, progress=False)


def coded(res):
    return {note.code: note for note in res.privacy.notes}


def unusable(data, seed=1, **more):
    """Shares that reports tell, x and smoker."""
    stream = pr.means.PrivateMeans.from_formula(FORMULA, None, **PUBLIC, **more).start(seed=seed)
    stream.update(data)
    return [Unusable(*row) for row in stream.results()._fit.missing[0].tolist()]


@pytest.mark.some(2)
@pytest.mark.parametrize("way", WAYS)
def test_levels_that_are_spelt_otherwise_are_noticed(way, tmp_path):
    data = rows()
    with pytest.warns(ReliabilityWarning, match=r"smoker\[no\], smoker\[yes\]: most records"):
        res = fitted(data, **WAYS[way])
    x, smoker = unusable(data, **WAYS[way])
    assert abs(x.share - data["x"].isna().mean()) < 4.5 * x.error
    assert abs(smoker.share - (data["smoker"] == "No").mean()) < 4.5 * smoker.error
    assert res.tidy()["reliable"].tolist() == [True, False, False]
    notes = coded(res)
    assert "unusable" not in notes
    assert "usable value of smoker, or" in notes["nonresponse"]
    assert dict(res.header)["Unusable"] == f"{x} of x; {smoker} of smoker"
    assert notes["nonresponse"].rows == (1, 2)
    assert "declared levels match the data" in notes["nonresponse"]
    assert "smoker[yes] †" in res.summary().as_text()
    if "by" in WAYS[way]:
        assert res.by_group()["reliable"].tolist() == [True, False, False] * 2
    res.save(tmp_path / "res")
    assert pr.load(tmp_path / "res").tidy().equals(res.tidy())


def test_a_share_that_is_no_reason_for_doubt_is_said_alone():
    res = fitted(rows(gone=0.3, without=0.0), mu=2)
    assert res.tidy()["reliable"].all()
    notes = coded(res)
    assert "nonresponse" not in notes
    assert "of smoker" in notes["unusable"]
    assert " of x" not in notes["unusable"]


@pytest.mark.thorough
def test_a_subgroup_without_values_is_marked_by_itself():
    data = rows(gone=0.0, without=0.0)
    data.loc[data["g"] == "b", "smoker"] = "NO"
    res = fitted(data, mu=2, by="g")
    table = res.by_group().set_index(["group", "term"])["reliable"]
    assert not table["b", "smoker[yes]"]
    assert table["a"].all()
    assert table["b", "x"]
    assert res.tidy()["reliable"].all()


@pytest.mark.thorough
def test_whoever_has_all_values_is_hardly_ever_said_to_lack_some():
    """Two shares of 3 standard errors each; exact binomial limit at 10⁻⁶."""
    data, times = rows(0.0, 0.0, n=1_000), 30
    named = sum(any(one.sure for one in unusable(data, seed, mu=2)) for seed in range(times))
    assert named <= binom.isf(1e-6, times, 2 * 0.00135)


def test_nothing_is_asked_where_values_are_refused():
    assert np.isnan(unusable(rows(0.0, 0.0), mu=2, missing="raise")).all()
    assert "Unusable" not in dict(fitted(rows(0.0, 0.0), mu=2, missing="raise").header)


@pytest.mark.thorough
def test_a_column_nobody_has_takes_back_its_rows_and_no_others():
    data = rows(gone=1.0, without=0.0)
    for seed in range(6):  # half of them see fewer than nobody
        model = pr.means.PrivateMeans.from_formula(FORMULA, data, **PUBLIC, mu=2)
        with pytest.warns(ReliabilityWarning, match="smoker"):
            res = model.fit(seed=seed, progress=False)
        assert res.tidy()["reliable"].tolist() == [True, False, False]
        assert abs(res.params["x"] - data["x"].mean()) < 4.5 * res.bse["x"]
        assert "smoker[yes] †" in res.summary().as_text()


@pytest.mark.some(1)
@pytest.mark.parametrize("value", [0.0, 0.3, 0.7, 1.0])
@pytest.mark.parametrize("times", [1.0, 2.0])
def test_ratios_have_normal_limits_where_the_share_is_three_errors_above_0(value, times):
    """Intervals of R = N/D, D ~ N(1, 1/9) and N with `times` its noise: 93% or more; 4 standard errors of 10⁵ draws."""
    rng, n = np.random.default_rng(7), 100_000
    share, number = 1.0 + rng.standard_normal(n) / 3.0, value + times * rng.standard_normal(n) / 3.0
    ratio = number / share
    error = np.hypot(times, ratio) / 3.0 / np.abs(share)
    covered = np.mean(np.abs(ratio - value) < 1.96 * error)
    assert covered > 0.93 - 4 * np.sqrt(0.93 * 0.07 / n)
