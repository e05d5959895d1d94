"""Two-way tables: shares of pairs of levels, their margins, and the test of independence."""

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom, chi2_contingency

import privreg as pr
from privreg.errors import FormulaError, InferenceError, OptionError, SchemaError
from privreg.means.results.shares import independence
from privreg.means.terms import Asked, read_columns, read_formula

TRUSTS = ["local", "two_collectors", "central"]
LEVELS = {"k": ["a", "b", "c"], "g": ["u", "v"]}
FORMULA = "C(g):C(k) ~ 1"


def people(n=5000, seed=0, tied=0.0, gaps=0.0):
    rng = np.random.default_rng(seed)
    g = rng.choice(["u", "v"], n, p=[0.3, 0.7])
    k = rng.choice(["a", "b", "c"], n, p=[0.5, 0.3, 0.2])
    k = np.where((rng.uniform(size=n) < tied) & (g == "u"), "a", k).astype(object)
    k[rng.uniform(size=n) < gaps] = None
    return pd.DataFrame({"g": g, "k": k, "x": rng.uniform(size=n)})


def estimate(data, formula=FORMULA, **options):
    budget = {} if "epsilon" in options else {"mu": 1}
    return pr.means.estimate(data, formula, levels=LEVELS, progress=False, **{**budget, **options})


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_cells_are_where_their_errors_say(trust):
    data = people(20_000, tied=0.3, gaps=0.1)
    res = estimate(data, seed=1, trust=trust)
    table = res.crosstab()
    law = pd.crosstab(data["g"], data["k"], normalize=True, margins=True)
    assert table.shares.index.tolist() == ["u", "v", "All"]
    assert table.shares.columns.tolist() == ["a", "b", "c", "All"]
    assert (table.shares.index.name, table.shares.columns.name) == ("g", "k")
    z = (table.shares - law.to_numpy()) / table.std_errors
    assert (z.abs().to_numpy()[:-1, :-1] < 4.5).all()
    assert (z.abs().to_numpy()[:, :-1] < 4.5).all()
    answered = pd.crosstab(data["g"], data["k"]).to_numpy().sum()
    assert abs(table.missing - (1.0 - answered / 20_000)) < 4.5 * table.missing_error
    np.testing.assert_allclose(table.counts, table.shares * 20_000 * (1.0 - table.missing))
    assert "of the records lack a value" in str(table)
    low, high = table.conf_int(0.1)
    np.testing.assert_allclose(
        high - low, 2 * 1.6448536 * table.std_errors, atol=1e-9
    )  # all together are 1, but for rounding
    assert res.params.index.tolist() == [f"g[{i}]:k[{j}]" for i in "uv" for j in "abc"]
    np.testing.assert_array_equal(table.shares.to_numpy()[:-1, :-1].ravel(), res.params)


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_without_noise_it_is_the_table_and_near_pearsons_test(trust):
    """Pearson's statistic takes variances at independence, Wald's as they are found: that is of third order."""
    data = people(tied=0.02)
    res = estimate(data, mu=None, trust=trust)
    np.testing.assert_allclose(
        res.crosstab().shares, pd.crosstab(data["g"], data["k"], normalize=True, margins=True), atol=1e-6
    )
    np.testing.assert_allclose(res.crosstab().counts, pd.crosstab(data["g"], data["k"], margins=True), atol=1e-2)
    statistic, pvalue, df, _ = chi2_contingency(pd.crosstab(data["g"], data["k"]), correction=False)
    test = res.test_independence()
    assert test.df == df == 2
    assert test.statistic == pytest.approx(statistic, rel=0.05)
    assert test.pvalue == pytest.approx(pvalue, rel=0.1)


def test_the_statistic_at_independence_is_pearsons():
    """With the covariance of a multinomial law at the product of its margins, exactly."""
    rng = np.random.default_rng(3)
    counts = rng.integers(20, 90, (3, 4))
    n, shares = counts.sum(), counts / counts.sum()
    null = np.outer(shares.sum(1), shares.sum(0)).ravel()
    statistic, df, _ = independence(shares, (np.diag(null) - np.outer(null, null)) / n)
    assert statistic == pytest.approx(chi2_contingency(counts, correction=False)[0], rel=1e-9)
    assert df == 6


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("n", "options"),
    [
        (1000, {"trust": "central", "gaps": 0.2}),
        (1000, {"trust": "two_collectors"}),
        (300, {"trust": "two_collectors", "mu": 0.3}),
        (5000, {"trust": "local"}),
        (5000, {"trust": "local", "epsilon": 2}),
    ],
)
def test_independence_is_rejected_as_often_as_it_says(n, options):
    """Exact binomial limits, 1e-4 in all."""
    options, runs = dict(options), 1000
    gaps = options.pop("gaps", 0.0)
    p = np.array([estimate(people(n, s, gaps=gaps), seed=s, **options).test_independence().pvalue for s in range(runs)])
    for level in (0.05, 0.5):
        low, high = binom.ppf([1e-5, 1 - 1e-5], runs, level)
        assert low <= (p < level).sum() <= high


def test_dependence_is_found_where_noise_is_small_enough():
    data = people(3000, tied=0.3)
    assert estimate(data, seed=0, trust="two_collectors").test_independence().pvalue < 1e-6
    hidden = estimate(data, seed=0, trust="two_collectors", mu=0.005).test_independence()
    assert hidden.pvalue > 1e-3  # a test that took shares for exact would reject: the noise sd is 0.1


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_tables_are_shown_and_kept(trust, tmp_path):
    res = estimate(people(), "C(g):C(k) + C(g) ~ 1", trust=trust, missing="raise")
    table = res.crosstab("g:k")
    res.save(tmp_path / "res.privreg")
    back = pr.load(tmp_path / "res.privreg")
    assert str(back.crosstab()) == str(table)
    assert str(back.test_independence()) == str(res.test_independence())
    for text in (table.as_text(), table.as_html(), table.as_latex(), table.as_markdown()):
        assert "Joint shares of g (rows) and k (columns)" in text
        assert "chi-square" in text
    assert max(map(len, table.as_text().splitlines())) <= 80
    assert "C(g):C(k) + C(g) ~ 1" in " ".join(str(res.summary(details=True)).split())
    plain = " ".join(str(res.privacy).split())
    assert "Public: g: levels u, v" in plain
    assert plain.count("Public: k:") == 1


def test_what_is_no_pair_is_refused():
    found = read_formula("x + C(g):C(k) + Q('a:b') ~ 1")
    assert found == [Asked(("x",)), Asked(("g", "k"), factor=True), Asked(("a:b",))]
    assert read_formula("g:k") == [Asked(("g", "k"))]  # declarations say whether they are factors or numbers
    for formula, words in {
        "C(g):C(g) ~ 1": "crosses 'g' with itself",
        "C(g):C(k) + k:g ~ 1": "twice",
        "C(g):C(k):C(x) ~ 1": r"has 'C\(g\):C\(k\)', which is not a column",
        "C(g)@C(k) ~ 1": "can't be read",
        "C(g)*C(k) ~ 1": "two-way tables as",
    }.items():
        with pytest.raises(FormulaError, match=words):
            read_formula(formula)
    with pytest.raises(FormulaError, match="pairs"):
        read_columns(["x", ("g", "k", "x")])
    with pytest.raises(SchemaError, match=r"C\(x\) needs public levels"):
        pr.means.estimate(people(), "C(g):C(x) ~ 1", mu=1, levels=LEVELS, bounds={"x": (0, 1)})
    with pytest.raises(InferenceError, match="no two-way table"):
        estimate(people(), "C(g) ~ 1").crosstab()
    with pytest.raises(OptionError, match="'g:k'"):
        estimate(people()).crosstab("k:g")
    many = {"g": list(range(50)), "k": list(range(50))}
    with pytest.raises(OptionError, match="numbers"):
        pr.means.PrivateMeans([("g", "k")], mu=1, levels=many)


def test_a_list_of_columns_may_hold_pairs():
    data = people()
    one = pr.means.estimate(data, ["x", ("g", "k")], mu=1, seed=1, levels=LEVELS, bounds={"x": (0, 1)}, progress=False)
    two = estimate(data, "x + C(g):C(k) ~ 1", seed=1, bounds={"x": (0, 1)})
    pd.testing.assert_frame_equal(one.tidy(), two.tidy())


def test_noise_that_is_alike_in_all_cells_leaves_the_differences_unbiased():
    """s p_ij − r_i c_j over draws of noise about independent shares, against its standard error."""
    rng, law = np.random.default_rng(0), np.outer([0.3, 0.7], [0.5, 0.3, 0.2])
    drawn = law + 0.2 * rng.normal(size=(40_000, 2, 3))
    row, column, whole = drawn.sum(2), drawn.sum(1), drawn.sum((1, 2))
    apart = (whole[:, None, None] * drawn - row[:, :, None] * column[:, None, :]).reshape(-1, 6)
    assert (np.abs(apart.mean(0)) < 4.5 * apart.std(0) / math.sqrt(len(apart))).all()
