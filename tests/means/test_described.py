"""What follows from released means: standard deviations, correlations, differences, histograms and quantiles."""

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_ind

import privreg as pr
from privreg.base.archive import write_archive
from privreg.errors import FormulaError, InferenceError, OptionError, SavedFileError, SchemaError
from privreg.means import device
from privreg.means.results.fit import parts
from privreg.means.terms import Asked, declared_terms, read_formula
from privreg.schema.declarations import Schema

TRUSTS = ["local", "two_collectors", "central"]
BOUNDS, LEVELS = {"a": (0, 80), "b": (10, 50)}, {"g": ["u", "v", "w"], "h": ["p", "q"]}
PAIRS = "a + b + a:b + I(a**2) + I(b**2) ~ 1"


def people(n=4000, gaps=0.0):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((n, 2)) @ np.array([[1.0, 0.6], [0.0, 0.8]])
    g = rng.choice(["u", "v", "w"], n, p=[0.5, 0.3, 0.2])
    h = np.where(rng.uniform(size=n) < 0.4 + 0.2 * (g == "u"), "p", "q")
    out = pd.DataFrame({"a": 35 + 8 * x[:, 0], "b": 32 + 4 * x[:, 1], "g": g, "h": h})
    out.loc[rng.uniform(size=n) < gaps, "a"] = np.nan
    return out


def estimate(data, formula, **options):
    return pr.means.estimate(data, formula, **{
        "bounds": BOUNDS, "levels": LEVELS, "progress": False, "seed": 1, "mu": 1, **options})  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_without_noise_they_are_those_of_the_rows(trust) -> None:
    data = people()
    res = estimate(data, f"{PAIRS[:-4]} + cut(a, 40) + C(g):C(h) ~ 1", mu=None, trust=trust)
    np.testing.assert_allclose(res.sd()["estimate"], data[["a", "b"]].std(), rtol=1e-3)
    corr = res.corr()
    np.testing.assert_allclose(corr.matrix, data[["a", "b"]].corr(), atol=1e-3)
    r = corr.matrix.loc["a", "b"]
    np.testing.assert_allclose(corr.error, (1 - r * r) / np.sqrt(len(data)), rtol=0.05)  # pairs are normal
    histogram = res.histogram("a")
    np.testing.assert_allclose(histogram.shares, np.histogram(data["a"], 40, (0, 80))[0] / len(data), atol=1e-6)
    np.testing.assert_allclose(histogram.frame()["density"].sum() * 2.0, 1.0)
    found = histogram.quantile([0.1, 0.5, 0.9])
    np.testing.assert_allclose(found["estimate"], data["a"].quantile([0.1, 0.5, 0.9]), atol=0.2)
    assert ((found["conf_low"] < found["estimate"]) & (found["estimate"] < found["conf_high"])).all()
    for margin, index in (("rows", "index"), ("columns", "columns")):
        expected = pd.crosstab(data["g"], data["h"], normalize=index)
        np.testing.assert_allclose(res.crosstab().proportions(margin)["share"].unstack(), expected, atol=1e-6)
    row = pd.crosstab(data["g"], data["h"]).loc["u"]
    se = np.sqrt(row["p"] * row["q"] / row.sum() ** 3)
    np.testing.assert_allclose(res.crosstab().proportions().loc[("u", "p"), "std_error"], se, rtol=1e-3)


@pytest.mark.some(1)
@pytest.mark.parametrize(("gaps", "missing"), [(0.0, "raise"), (0.3, "noise")])
@pytest.mark.parametrize("trust", TRUSTS)
def test_subgroups_are_compared_as_by_welch(trust, gaps, missing) -> None:
    data = people(2000, gaps=gaps)
    table = estimate(data, "a + C(h)", by="g", mu=None, trust=trust, missing=missing).compare_groups("a")
    assert table[["group", "other"]].to_numpy().tolist() == [["u", "v"], ["u", "w"], ["v", "w"]]
    for _, row in table.iterrows():
        law = ttest_ind(*(data["a"][data["g"] == row[k]].dropna() for k in ("group", "other")), equal_var=False)
        low, high = law.confidence_interval()
        np.testing.assert_allclose(row["statistic"], law.statistic, rtol=5e-3)
        np.testing.assert_allclose([row["df"], row["p_value"]], [law.df, law.pvalue], rtol=2e-2)
        np.testing.assert_allclose([row["conf_low"], row["conf_high"]], [low, high], rtol=5e-3, atol=5e-3)


@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_with_noise_and_gaps_they_are_where_their_errors_say(trust) -> None:
    data = people(3000, gaps=0.2)
    res = estimate(data, "a + b + a:b + cut(a)", trust=trust)
    sd, corr = res.sd(), res.corr()
    assert (((sd["estimate"] - [8.0, 4.0]) / sd["std_error"]).abs() < 4.5).all()
    assert abs(corr.estimate[0] - 0.6) < 4.5 * corr.error[0]
    assert corr.error[0] > (1 - 0.36) / np.sqrt(2400)  # sampling alone
    found = res.histogram().quantile([0.25, 0.5])
    half = (found["conf_high"] - found["conf_low"]) / 2
    assert ((found["estimate"] - [35 - 8 * 0.67449, 35.0]).abs() < half * 4.5 / 1.96).all()


@pytest.mark.thorough
def test_local_reports_tell_correlations_where_squares_are_asked(tmp_path) -> None:
    res = estimate(people(20_000), PAIRS, mu=8, missing="raise")
    corr = res.corr()
    assert abs(corr.estimate[0] - 0.6) < 4.5 * corr.error[0]
    assert corr.frame().loc["a:b", "p_value"] < 0.05
    assert res.params.index.tolist() == ["a", "b", "(a - 40):(b - 30)", "(a - 40)^2", "(b - 30)^2"]
    res.save(tmp_path / "means.privreg")
    assert str(pr.load(tmp_path / "means.privreg").corr()) == str(corr)
    with pytest.raises(InferenceError, match=r"I\(age\*\*2\)"):
        estimate(people(), "a + b + a:b").corr()


def test_saved_histograms_come_back(tmp_path) -> None:
    res = estimate(people(), "cut(a, [20, 30, 40]) ~ 1", trust="central")
    res.save(tmp_path / "means.privreg")
    back = pr.load(tmp_path / "means.privreg").histogram()
    assert back.edges == (0.0, 20.0, 30.0, 40.0, 80.0)
    assert str(back) == str(res.histogram())
    assert "<table" in back._repr_html_()
    ax = back.plot(title="Ages")
    assert (ax.get_xlabel(), ax.get_ylabel(), len(ax.patches)) == ("a", "density", 4)


def test_formulas_with_products_squares_and_classes() -> None:
    *products, classes = read_formula("a:b + I(a**2) + I(a*c) + cut(d, 5)")
    assert products == [Asked(("a", "b")), Asked(("a", "a")), Asked(("a", "c"))]
    assert classes == Asked(("d",), kind="cut", cuts=5)
    (one,) = read_formula("cut(d, [1, 2])")
    assert (one.columns, one.cuts) == (("d",), (1, 2))


@pytest.mark.parametrize("formula", ["I(a**3)", "I(a+b)", "cut(a, b)", "cut()", "cut(a, 2, 3)", "a:a", "I(a*b) + a:b"])
def test_what_is_no_term_is_refused(formula) -> None:
    with pytest.raises(FormulaError):
        read_formula(formula)


@pytest.mark.parametrize("formula", ["cut(a, 1)", "cut(a, 1000)", "cut(a, [90])", "cut(a, [3, 2])", "cut(g)", "g:a"])
def test_classes_that_bounds_do_not_allow_are_refused(formula) -> None:
    with pytest.raises(SchemaError):
        estimate(people(), formula)


def test_what_was_not_released_is_refused() -> None:
    res = estimate(people(), "C(g)", trust="central")
    for ask in (res.sd, res.corr, res.histogram, res.compare_groups):
        with pytest.raises(InferenceError, match=r"~ 1|by="):
            ask()
    made = estimate(people(), "cut(a)", trust="central").histogram()
    for q in (0.0, 1.0, [], "half", [0.5, None]):
        with pytest.raises(OptionError, match="q="):
            made.quantile(q)


def test_what_devices_multiply_and_cut_stays_in_its_range() -> None:
    """Sensitivities take numbers for ones on [−1, 1]: products of what is beyond the bounds, too."""
    terms = declared_terms(read_formula("a + a:b + I(a**2) + cut(a, 4)"), Schema.declare(bounds=BOUNDS))
    wild = np.array([-1e300, -np.inf, 0.0, 80.0, np.inf, 1e300, 79.9, np.nan])
    for other in (wild, wild[::-1], np.full(8, 50.0)):
        *numbers, classes = device.inside(terms, {"a": wild, "b": other}, False)
        for values in numbers:
            assert (np.isnan(values) | (np.abs(values) <= 1.0)).all()
        assert classes.tolist() == [0, 0, 0, 3, 3, 3, 3, 4]


@pytest.mark.some(1)
@pytest.mark.parametrize("levels", [1000, 10**5])
def test_a_file_whose_terms_have_too_many_pairs_of_levels_is_damaged(levels, tmp_path) -> None:
    res = estimate(people(300), "C(g):C(h) ~ 1", trust="central")
    document, arrays = parts(res._fit)
    one, other = document["terms"][0][4]
    one[3], other[3] = ([str(k) for k in range(levels)] for _ in range(2))
    write_archive(tmp_path / "means.privreg", "means", document, arrays)
    with pytest.raises(SavedFileError, match="damaged"):
        pr.load(tmp_path / "means.privreg")


@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_a_histogram_of_nobody_has_no_quantiles():
    data = pd.DataFrame({"a": np.linspace(0.0, 1.0, 300)})
    how = {"mu": 0.004, "trust": "central", "bounds": {"a": (0, 1)}, "progress": False}
    made = (pr.means.estimate(data, "cut(a, 5) ~ 1", missing="noise", seed=seed, **how) for seed in range(60))
    found = next(h for res in made if np.isnan((h := res.histogram()).shares).any())
    assert found.quantile([0.2, 0.5]).isna().all(axis=None)
    assert "Median nan" in str(found)
