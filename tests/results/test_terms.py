"""Tests of terms, of nested fits and of a factor's levels, beside statsmodels' and by their definitions."""

import dataclasses
import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.formula.api as smf
from scipy.stats import chi2, f
from statsmodels.stats.multitest import multipletests

import privreg as pr
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.errors import FormulaError, InferenceError, OptionError
from privreg.families import FAMILIES
from privreg.results.postestimation.terms import ADJUSTMENTS
from privreg.tables.diagnostics import doubt
from tests.helpers import array_model
from tests.results.made import BOUNDS, made

RIGHT = "x + C(g) + s + x:s"


@pytest.fixture(scope="module")
def base():
    fit = array_model(2000).fit(seed=1, progress=False)._fit
    return dataclasses.replace(fit, statement=dataclasses.replace(fit.statement, notes=()))


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    n = 300
    data = pd.DataFrame({"x": rng.uniform(-3, 3, n), "z": rng.uniform(0.5, 4, n)})
    data["g"], data["s"] = rng.choice(["a", "b", "c"], n), rng.choice(["no", "yes"], n)
    data["y"] = 5 + data["x"] + 2 * (data["g"] == "c") + 0.3 * data["z"] + rng.normal(0, 2, n)
    return data


def twin(base, rows, right, pivot=None):
    """A fit of ours that has statsmodels' estimates and covariance, and theirs."""
    theirs = smf.ols(f"y ~ {right}", rows).fit(use_t=False)
    ours = made(base, right, FAMILIES["squared"](), pivot=pivot or Normal())
    at = [theirs.params.index.get_loc(name) for name in ours._fit.names]
    cov = theirs.cov_params().to_numpy()[np.ix_(at, at)]
    estimate = dataclasses.replace(ours._fit.estimates[0], cov=cov)
    return pr_like(ours, params=theirs.params.to_numpy()[at], estimates=(estimate,)), theirs


def pr_like(results, **fields):
    return type(results)(dataclasses.replace(results._fit, **fields))


# --- terms -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_terms_are_tested_as_in_statsmodels(base, rows):
    ours, theirs = twin(base, rows, RIGHT)
    expected = theirs.wald_test_terms(scalar=True).table
    table = ours.wald_test_terms().table
    assert set(table.index) == set(expected.index) == {"Intercept", "C(g)", "s", "x", "x:s"}
    expected = expected.loc[table.index]
    np.testing.assert_allclose(table["statistic"], expected["statistic"].astype(float), rtol=1e-8)
    np.testing.assert_allclose(table["pvalue"], expected["pvalue"].astype(float), rtol=1e-6, atol=1e-300)
    assert table["df_constraint"].tolist() == expected["df_constraint"].tolist()
    assert table["reliable"].all()
    assert list(ours.wald_test_terms(skip_single=True).table.index) == ["C(g)"]


def test_restrictions_go_by_the_names_that_they_have(base):
    fit = made(base, RIGHT, FAMILIES["squared"]())
    names = list(fit.params.index)
    by_value = fit.t_test({names[-1]: 1.0, names[0]: 0})
    assert by_value.value.tolist() == [1.0, 0.0]
    assert by_value.effect[1] == fit.params.iloc[0]
    assert fit.wald_test((names[0], names[-1])).pvalue == fit.wald_test([names[0], names[-1]]).pvalue


@pytest.mark.parametrize(
    "given",
    [
        pd.DataFrame(np.eye(6)),
        (pd.DataFrame(np.eye(6)), [0.0] * 6),
        pd.Series({"nope": 1.0}),
        {"nope": 0},
        {"x": "a"},
        1j,
        np.array([["1", "0"]]),
        pl.DataFrame({"x": [1.0]}).lazy(),
        pa.table({"x": [1.0]}),
    ],
    ids=str,
)
def test_restrictions_by_other_names_or_in_tables_are_refused(base, given):
    with pytest.raises(OptionError):
        made(base, RIGHT, FAMILIES["squared"]()).t_test(given)


def test_a_terms_name_stands_for_its_coefficients(base, rows):
    ours, _ = twin(base, rows, RIGHT)
    spelt = ours.wald_test("C(g)[T.b] = 0, C(g)[T.c] = 0")
    for name in ("C(g)", " C( g ) ", "g", ["C(g)"]):
        assert ours.wald_test(name) == spelt
    both = ours.wald_test(["g", "x"])
    assert both.df_num == 3
    assert both.statistic == ours.wald_test("C(g)[T.b] = 0, C(g)[T.c] = 0, x = 0").statistic
    assert ours.t_test("C(g)").labels == ("C(g)[T.b]", "C(g)[T.c]")
    assert ours.wald_test("x").statistic == pytest.approx(ours.tvalues["x"] ** 2)
    with pytest.raises(FormulaError):
        ours.wald_test("q")


@pytest.mark.thorough
def test_f_has_both_degrees_of_freedom(base, rows):
    normal, _ = twin(base, rows, RIGHT)
    test = normal.wald_test("C(g)")
    assert (test.df_num, test.df_denom) == (2, np.inf)
    assert test.pvalue == pytest.approx(chi2.sf(2 * test.fvalue, 2))
    assert test.citation.startswith(f"χ²(2) = {test.statistic:.4g}, p ")
    assert "F(2, ∞)" in str(test)
    student, _ = twin(base, rows, RIGHT, StudentT(15))
    test = student.wald_test("C(g)")
    assert (test.df_num, test.df_denom) == (2, 14)
    assert test.pvalue == pytest.approx(f.sf(test.fvalue, 2, 14))
    assert test.citation.startswith(f"F(2, 14) = {test.fvalue:.4g}, p ")
    assert "F(2, 14)" in str(test)
    row = student.anova().loc["C(g)"]
    assert (row["df"], row["df_denom"], row["F"]) == (2, 14, test.fvalue)
    assert row["PR(>F)"] == test.pvalue
    assert list(student.wald_test_terms().summary_frame()) == ["P>F", "df constraint", "F", "df denom"]
    scaling, _ = twin(base, rows, RIGHT, RandomScaling(4))
    test = scaling.wald_test("C(g)")
    assert np.isnan(test.df_denom)
    assert test.citation.startswith(f"Wald(2) = {test.statistic:.4g}, p ")


@pytest.mark.thorough
def test_anova_has_a_line_a_term_without_the_intercept(base, rows):
    ours, _ = twin(base, rows, RIGHT)
    table = ours.anova()
    assert set(table.index) == {"C(g)", "s", "x", "x:s"}
    assert list(table) == ["df", "df_denom", "chi2", "F", "PR(>F)", "reliable"]
    assert len(array_model().fit(seed=1, progress=False).anova()) == 3  # arrays: a column is a term


@pytest.mark.thorough
def test_tables_of_tests_have_pandas_names_and_files(base, rows, tmp_path):
    ours, _ = twin(base, rows, "x + C(g)")
    views = (ours.wald_test_terms(), ours.t_test("x"), ours.t_test_pairwise())
    for view in views:
        view.save(tmp_path / "t.md")
        assert (tmp_path / "t.md").read_text("utf-8") == view.to_markdown() == view.as_markdown()
        with pytest.raises(
            AttributeError, match=r"has no 'to_stata'; it has .*as_markdown.*summary_frame|result_frame"
        ):
            view.to_stata("t.dta")


@pytest.mark.thorough
def test_doubts_are_shown_on_the_terms_they_concern(base, rows):
    ours, _ = twin(base, rows, RIGHT)
    at = ours._fit.names.index("C(g)[T.c]")
    note = doubt("few", "made up", [at])
    marked = pr_like(ours, statement=dataclasses.replace(ours._fit.statement, notes=(note,)))
    tests = marked.wald_test_terms()
    assert tests.table["reliable"].to_dict() == {t: t != "C(g)" for t in tests.table.index}
    assert "C(g) †" in str(tests)
    assert "made up" in str(tests)
    assert "made up" in str(marked.wald_test("C(g)"))
    assert "made up" not in str(marked.wald_test("x"))
    assert not marked.anova()["reliable"]["C(g)"]


def test_a_term_of_a_multinomial_fit_is_tested_over_all_levels(base):
    res = made(base, "x + g", FAMILIES["multinomial"](), response="w", pivot=Normal())
    table = res.wald_test_terms().table
    assert table["df_constraint"].to_dict() == {"Intercept": 2, "g": 4, "x": 2}
    joint = ", ".join(f"{v}:g[T.{k}] = 0" for v in ("mid", "hi") for k in "bc")
    assert table["statistic"]["g"] == pytest.approx(res.wald_test(joint).statistic)
    assert res.wald_test("hi:g").df_num == 2


def test_what_cannot_be_tested_leaves_the_others(base, rows):
    ours, _ = twin(base, rows, "x + C(g)", StudentT(1))
    table = ours.wald_test_terms().table
    assert np.isnan(table["pvalue"]["C(g)"])
    assert np.isfinite(table["pvalue"]["x"])
    assert "C(g): 2 restrictions" in str(ours.wald_test_terms())
    with pytest.raises(OptionError, match="skip_single"):
        twin(base, rows, "x + z")[0].wald_test_terms(skip_single=True)


# --- nested fits -------------------------------------------------------------------------------------------


def test_nested_fits_are_compared_within_the_larger(base, rows):
    small, large = twin(base, rows, "x")[0], twin(base, rows, "x + C(g) + s")[0]
    expected = large.wald_test(["C(g)", "s"])
    for test in (pr.anova(small, large), pr.anova(large, small)):
        assert (test.statistic, test.pvalue, test.df_num) == (expected.statistic, expected.pvalue, 3)
        assert "within the larger fit: " in str(test)
        assert "isn't used" in str(test)
    pd.testing.assert_frame_equal(pr.anova(large), large.anova())


def test_fits_that_are_not_nested_are_refused(base, rows):
    small, large = twin(base, rows, "x")[0], twin(base, rows, "x + C(g)")[0]
    other = made(base, "x + C(g)", FAMILIES["huber"](), pivot=Normal())
    design = dataclasses.replace(
        small._fit.design, schema=type(small._fit.design.schema).declare({**BOUNDS, "x": (-2, 2)})
    )
    for a, b, said in (
        (pr_like(small, nobs=17), large, "of 17 and 2,000 records"),
        (small, other, "their families are"),
        (made(base, "x", FAMILIES["squared"](), response="z", pivot=Normal()), large, "their responses are z and y"),
        (twin(base, rows, "x + z")[0], large, "the larger one lacks z"),
        (large, large, "they have the same terms"),
        (pr_like(small, design=design), large, "x have other bounds or levels"),
    ):
        with pytest.raises(OptionError, match=said):
            pr.anova(a, b)
    with pytest.raises(OptionError, match="takes what fit"):
        pr.anova(small, "large")


# --- levels ------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["holm", "hs", "bonferroni", "fdr_bh"])
def test_pairs_of_levels_are_tested_as_in_statsmodels(base, rows, method):
    ours, theirs = twin(base, rows, "x + C(g) + s")
    expected = theirs.t_test_pairwise("C(g)", method=method).result_frame
    tests = ours.t_test_pairwise("g", method=method)
    got = tests.result_frame
    assert list(got.index) == list(expected.index) == ["b-a", "c-a", "c-b"]
    np.testing.assert_allclose(got.iloc[:, :7].astype(float), expected.iloc[:, :7].astype(float), rtol=1e-6, atol=1e-12)
    assert got.iloc[:, 7].tolist() == expected.iloc[:, 7].tolist() == tests.reject.tolist()
    assert list(got)[6:] == [f"pvalue-{tests.method}", f"reject-{tests.method}", "reliable"]


@pytest.mark.thorough
@pytest.mark.parametrize("right", ["0 + C(g) + x", "C(g, Sum) + x", "C(g, Treatment('c')) + x"])
def test_pairs_do_not_depend_on_the_coding(base, rows, right):
    plain = twin(base, rows, "C(g) + x")[0].t_test_pairwise("g").result_frame
    coded = twin(base, rows, right)[0].t_test_pairwise("g").result_frame
    np.testing.assert_allclose(coded.iloc[:, :6].astype(float), plain.iloc[:, :6].astype(float), rtol=1e-7, atol=1e-9)


@pytest.mark.thorough
def test_adjustments_are_those_of_multipletests(base, rows):
    res = twin(base, rows, "x + C(g)")[0]
    for name, short in ADJUSTMENTS.items():
        tests = res.t_test_pairwise("g", name)
        reject, expected, *_ = multipletests(tests.pvalue, 0.05, short)
        np.testing.assert_allclose(tests.pvalue_adjusted, expected)
        assert tests.reject.tolist() == reject.tolist()


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("right", "at"),
    [
        ("C(g) * x", [{"x": 0.0}]),
        ("C(g) * s", [{"s": "no"}]),
        ("C(g) * C(s, Treatment('yes'))", [{"s": "yes"}]),
        ("C(g) * C(s, Sum)", [{"s": "no"}, {"s": "yes"}]),
        ("C(g) * s + C(g):x + x", [{"s": "no", "x": 0.0}]),
        ("C(g) * C(s, Sum) + C(g):x + x", [{"s": v, "x": 0.0} for v in ("no", "yes")]),
        ("C(g) * np.log(z)", [{"z": 1.0}]),
    ],
)
def test_pairs_of_a_factor_in_interactions_say_where_they_hold(base, rows, right, at):
    ours = twin(base, rows, right)[0]
    pairs = ours.t_test_pairwise("g")
    said = "these are its differences where columns that multiply it are 0, a factor at its reference level"
    assert said in " ".join(str(pairs).split())
    rows = pd.DataFrame({"x": 0.0, "s": "no", "z": 1.0}, index=range(len(at))).assign(**pd.DataFrame(at))
    mean = [ours.predict(rows.assign(g=level)).mean() for level in "abc"]  # where that is
    there = [b - a for a, b in itertools.combinations(mean, 2)]
    np.testing.assert_allclose(pairs.tests.effect, there, rtol=1e-9, atol=1e-9)


def test_a_factor_without_a_term_of_its_own_has_no_pairs(base):
    with pytest.raises(OptionError, match=r"'g' has no term of its own.*variables='g'"):
        made(base, "x + x:g", FAMILIES["squared"]()).t_test_pairwise("g")


def test_wrong_factors_and_adjustments_are_refused(base, rows):
    two = made(base, RIGHT, FAMILIES["huber"]())
    with pytest.raises(OptionError, match="several factors; name one of 'g', 's'"):
        two.t_test_pairwise()
    ours = twin(base, rows, "x + C(g)")[0]
    with pytest.raises(OptionError, match="Factors are"):
        ours.t_test_pairwise("x")
    assert ours.t_test_pairwise("C(g)").result_frame.equals(ours.t_test_pairwise("g").result_frame)
    with pytest.raises(OptionError, match="'holm'"):
        ours.t_test_pairwise("g", method="tukey")
    with pytest.raises(OptionError, match="has no factor"):
        array_model().fit(seed=1, progress=False).t_test_pairwise("a")
    with pytest.raises(InferenceError):
        ours.t_test_pairwise("g", inference="plug_in")


def test_the_grid_is_made_of_declarations(base):
    grid = made(base, "x + z + g + s", FAMILIES["squared"]()).reference_grid()
    assert grid[["x", "z"]].drop_duplicates().to_numpy().tolist() == [[0.0, 2.25]]
    assert set(grid[["g", "s"]].itertuples(index=False, name=None)) == set(itertools.product("abc", ["no", "yes"]))
    assert len(grid) == 6


def test_estimates_without_a_whole_covariance_are_refused(base, rows):
    ours, _ = twin(base, rows, "x + C(g)")
    bare = pr_like(ours, estimates=(Estimate("sandwich", np.ones(len(ours.params)), Normal()),))
    for ask in (bare.anova, bare.wald_test_terms, lambda: bare.t_test_pairwise("g")):
        with pytest.raises(InferenceError, match="full covariance"):
            ask()
