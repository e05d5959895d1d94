"""Results side by side, and the budget they use up together."""

import dataclasses
import math
import re

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privreg as pr
from privreg.errors import OptionError
from tests.families.test_multinomial import model as multinomial_model
from tests.families.test_multinomial import people as voters
from tests.helpers import array_model
from tests.results.test_summary import changed, check_latex, flat, read, wide


@pytest.fixture(scope="module", params=["efficient", "published"])
def one(request):
    return array_model(2000).fit(seed=1, progress=False, tuning=request.param)


@pytest.fixture(scope="module")
def two():
    return array_model(2500, mu=2).fit(seed=2, progress=False)


@pytest.fixture(scope="module")
def bare():
    return array_model(2000).fit(seed=3, progress=False, inference=None)


@pytest.mark.thorough
def test_frame_holds_the_numbers_of_tidy(one, two):
    fewer = wide(two, 2, names=("a", "new"))
    fewer = changed(fewer, statement=dataclasses.replace(fewer.privacy, notes=()))  # which are about four rows
    frame = pr.compare([one, fewer], names=["x", "y"], alpha=0.1).frame()
    assert list(frame.index) == ["const", "a", "b", "c", "new"]
    pd.testing.assert_frame_equal(
        frame["x"].dropna().astype({"reliable": bool}),
        one.tidy(alpha=0.1).set_index("term"),
        check_names=False,
        check_exact=True,
    )
    pd.testing.assert_frame_equal(
        frame["y"].dropna().astype({"reliable": bool}),
        fewer.tidy(alpha=0.1).set_index("term"),
        check_names=False,
        check_exact=True,
    )


def test_budgets_compose_once_a_release(one, two):
    c = pr.compare([one, two])
    assert c.total_mu == pytest.approx(math.sqrt(5))
    assert "2.237-GDP per person, if the same people are in all of them" in flat(str(c))
    assert pr.compare([one, one]).total_mu == 1
    assert "same people" not in str(pr.compare([one]))


def test_the_curators_release_is_counted():
    central = array_model().fit(tuning="published", inference="plug_in_central", progress=False)
    assert pr.compare([central, central]).total_mu == pytest.approx(math.sqrt(2))


@pytest.mark.thorough
def test_one_result_without_privacy_leaves_none(one):
    c = pr.compare([one, array_model(mu=None).fit(progress=False)])
    assert math.isinf(c.total_mu)
    for text in (c.as_text(), c.as_html(), c.as_latex()):
        assert "NOT PRIVATE in all" in text


@pytest.mark.some(1)
def test_every_view_shows_each_estimate_and_error(one, two, bare):
    c = pr.compare([one, two, bare], names=["small", "<large>", "bare"])
    text, page, latex = c.as_text(), read(c.as_html()), c.as_latex()
    check_latex(latex)
    for r in (one, two, bare):
        table = r.tidy()
        for _, row in table.iterrows():
            shown = f"{row['estimate']:.3f}"
            error = f"({row['std_error']:.3f})" if "std_error" in table else ""
            assert shown in text
            assert error in text
            assert shown + ("" if row["reliable"] else "†") + error in page.cells
            assert shown.replace("-", "$-$") in latex
    assert '<span class="whole">2-GDP</span> (seeded)' in c.as_html()  # a narrow cell doesn't break it
    assert "<large>" in page.cells
    assert r"\textless{}large\textgreater{}" in latex
    assert "2-GDP" in text
    assert "(seeded)" in text
    for fact in ("2,500", "Huber", "2-GDP (seeded)"):
        assert fact in page.cells
    assert repr(c) == str(c) == text
    assert c._repr_html_() == c.as_html()


@pytest.mark.some(1)
def test_exponentiated_tables_show_limits_in_place_of_errors(one):
    logistic = array_model(2000, binary=True).fit(seed=1, progress=False)
    c = pr.compare([logistic], exponentiate=True, alpha=0.1)
    t = logistic.tidy(True, alpha=0.1).iloc[1]
    assert f"[{t['conf_low']:.3f}, {t['conf_high']:.3f}]" in str(c)
    assert "90% limits" in str(c)
    assert f"{math.exp(logistic.params.iloc[1]):.3f}" in str(c)
    with pytest.raises(OptionError, match=r"rate ratios of Poisson.*this is Huber\(.*Leave it out"):
        pr.compare([logistic, one], exponentiate=True)
    large = wide(logistic, 1, names=("big",))
    large._fit.params[:] = 1e5
    assert "inf" in str(pr.compare([large], exponentiate=True))


@pytest.mark.thorough
def test_text_stays_within_eighty_columns(one, two):
    c = pr.compare([one, wide(two), *[two] * 9], names=[f"result number {i} {'x' * 30}" for i in range(11)])
    lines = c.as_text().split("\n")
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("Budget") for line in lines) > 1  # went on below
    check_latex(c.as_latex())


@pytest.mark.thorough
def test_different_limit_laws_are_pointed_out(two):
    plug = array_model(3000).fit(seed=1, progress=False, tuning="published", inference="plug_in")
    path = array_model(3000).fit(seed=1, progress=False, inference="random_scaling")
    published = array_model(3000).fit(seed=1, progress=False, tuning="published")
    for different in ([two, path], [plug, published], [two, plug, path]):
        assert "different limit distributions" in flat(str(pr.compare(different)))
    for same in ([two, two], [two, plug], [path, published]):
        assert "different limit distributions" not in flat(str(pr.compare(same)))


@pytest.mark.some(1)
def test_plot_draws_the_estimates_under_their_names(one, two):
    plt = pytest.importorskip("matplotlib.pyplot")
    c = pr.compare([one, two], names=["x", "y"])
    ax = c.plot()
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["x", "y"]
    unit = one.params[["a", "b", "c"]] / ax.lines[0].get_xdata()
    np.testing.assert_allclose(np.log10(unit.astype(float)), np.round(np.log10(unit.astype(float))), atol=1e-12)
    _, mine = plt.subplots()
    assert c.plot(ax=mine) is mine
    plt.close("all")


def test_bad_input_is_refused(one, two):
    for bad in ([], (), None, 3, "text", iter([one])):
        with pytest.raises(OptionError, match="compare"):
            pr.compare(bad)
    with pytest.raises(OptionError, match=r"compare\(\[res1, res2\]\)"):
        pr.compare([one], two)
    assert str(pr.compare(one, two)) == str(pr.compare([one, two]))
    with pytest.raises(OptionError, match="item 2 is of type dict"):
        pr.compare([one, {}])
    for names in (["x"], ["x", "x"], "xy", []):
        with pytest.raises(OptionError, match="2 different names"):
            pr.compare([one, two], names=names)
    for alpha in (0, 1, True, "0.05"):
        with pytest.raises(OptionError, match="alpha"):
            pr.compare([one, two], alpha=alpha)


def test_decimals_can_be_chosen(one, two):
    text = pr.compare([one, two], digits=1).as_text()
    assert f"{one.params['a']:.1f}" in text
    assert f"({two.bse['a']:.1f})" in text
    assert re.search(r"\d\.\d\d", text.partition("Dep. variable")[0]) is None
    with pytest.raises(OptionError, match="digits"):
        pr.compare([one, two], digits=-1)


@pytest.mark.some(1)
def test_tables_under_pandas_names_and_in_files(one, two, tmp_path):
    c = pr.compare([one, two])
    assert (c.to_markdown(), c.to_latex(), c.to_html()) == (c.as_markdown(), c.as_latex(), c.as_html())
    c.save(tmp_path / "t.md")
    assert (tmp_path / "t.md").read_text("utf-8") == c.as_markdown()
    docx = pytest.importorskip("docx")
    c.save(tmp_path / "t.docx")
    (table,) = docx.Document(str(tmp_path / "t.docx")).tables
    assert [cell.text for cell in table.rows[0].cells] == ["", "(1)", "(2)"]
    labels = [row.cells[0].text for row in table.rows]
    assert labels[1:5] == list(one.params.index)
    assert labels[-1] == "Budget"
    with pytest.raises(OptionError, match=r"\.docx"):
        c.save(tmp_path / "t.xlsx")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t.docx", "t.md"]


def test_summary_col_of_statsmodels_takes_our_results(one, two):
    from statsmodels.iolib.summary2 import summary_col

    table = summary_col([one, two], model_names=["one", "two"], stars=False).tables[0]
    assert f"{one.params['a']:.4f}" in table.loc["a"].tolist()
    assert f"({two.bse['a']:.4f})" in table["two"].tolist()


@pytest.mark.thorough
def test_summary_col_takes_no_multinomial_fits_in_statsmodels_neither():
    from statsmodels.discrete.discrete_model import MNLogit
    from statsmodels.iolib.summary2 import summary_col

    rng = np.random.default_rng(0)
    theirs = MNLogit(rng.integers(0, 3, 200), np.column_stack([np.ones(200), rng.normal(size=200)])).fit(disp=0)
    ours = multinomial_model(voters(3_000)).fit(seed=1, progress=False)
    assert ours.params.shape == (3, 2)
    for res in (theirs, ours):
        with pytest.raises(ValueError, match="dimension"):
            summary_col([res])
    assert list(pr.compare([ours]).frame().index) == list(ours._fit.names)  # the table of calls names it


PEOPLE = pd.DataFrame({"a": np.linspace(-2, 2, 50), "y": np.linspace(0, 1, 50)})


@pytest.mark.parametrize(
    ("results", "words"),
    [
        (lambda one: [one, smf.ols("y ~ a", PEOPLE).fit()], "item 2 is of type RegressionResultsWrapper.*summary_col"),
        (lambda one: [one, PEOPLE], "item 2 is of type DataFrame, not results"),
        (lambda one: [one, 3], "item 2 is of type int, not results"),
        (
            lambda one: [one, pr.means.estimate(PEOPLE, ["a"], bounds={"a": (-3, 3)}, mu=1, progress=False)],
            "item 2 is of type MeansResults",
        ),
    ],
)
def test_what_is_no_column_is_refused(one, results, words):
    with pytest.raises(OptionError, match=words):
        pr.compare(results(one))


@pytest.mark.thorough
def test_factors_with_other_reference_levels_are_not_compared_without_a_word(people_by_region):
    fits = [people_by_region(levels) for levels in (["a", "b", "c"], ["b", "a", "c"])]
    text = flat(pr.compare(fits).as_text())
    assert "Coefficients of g are relative to a in (1), b in (2); to compare them give all fits the same" in text
    assert "are relative to" not in flat(pr.compare([fits[0], fits[0]]).as_text())


@pytest.fixture
def people_by_region():
    rng = np.random.default_rng(5)
    rows = pd.DataFrame({"y": rng.uniform(0, 1, 2000), "g": rng.choice(["a", "b", "c"], 2000)})

    def fit(levels):
        model = pr.PrivateOnlineRegression.from_formula("y ~ g", rows, mu=1, bounds={"y": (0, 1)}, levels={"g": levels})
        return model.fit(seed=1, progress=False)

    return fit
