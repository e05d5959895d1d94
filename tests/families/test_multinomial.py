"""Multinomial results: shaped and labelled as in statsmodels' MNLogit, with probabilities and their errors."""

import dataclasses
import itertools
import pickle

import numpy as np
import pandas as pd
import pytest
from patsy import dmatrix
from scipy.special import expit, logit, softmax
from statsmodels.discrete.discrete_model import MNLogit

import privreg as pr
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal, RandomScaling
from privreg.errors import FormulaError, InferenceError, OptionError, SavedFileError
from privreg.families import Logistic, Multinomial
from privreg.families.measures import Measure
from privreg.formula.design import formula_design
from privreg.results.results import PrivateResults
from privreg.schema.declarations import Schema
from tests.results.test_summary import check_latex, flat, read

LEVELS = ["lo", "mid", "hi"]
TERMS = ["Intercept", "s[T.yes]", "age"]
FLAT = [f"{level}:{term}" for level in LEVELS[1:] for term in TERMS]
TRUTH = np.array([[0.3, -0.5, 0.8], [-0.2, 0.5, -1.0]])
BAD = ["<b>lo</b>", 'm"i&d', "h_i$%"]


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"age": rng.uniform(-1, 1, n), "s": rng.choice(["no", "yes"], n)})
    x = np.column_stack([np.ones(n), data["s"] == "yes", data["age"]])
    eta = np.column_stack([np.zeros(n), x @ TRUTH.T])
    data["g"] = np.array(LEVELS)[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)]
    return data


def model(data, **options):
    given = {"family": Multinomial(), "bounds": {"age": (-1, 1)}, "levels": {"g": LEVELS, "s": ["no", "yes"]}, "mu": 2}
    return pr.PrivateOnlineRegression.from_formula("g ~ age + s", data, **{**given, **options})


@pytest.fixture(scope="module")
def fitted():
    return model(people(6000)).fit(seed=1, progress=False)


@pytest.fixture(scope="module")
def free():
    return model(people(60_000), mu=None).fit(progress=False)


@pytest.fixture(scope="module")
def mnlogit():
    data = people(60_000)
    exog = dmatrix("age + s", data, return_type="dataframe")
    return MNLogit(pd.Series(pd.Categorical(data["g"], LEVELS), name="g"), exog).fit(disp=0)


def made(fitted, levels=LEVELS, terms=3, scale=1.0, seed=0):
    """A result with made-up numbers: exact inputs of everything that is computed from them."""
    rng = np.random.default_rng(seed)
    names = [f"x{j}" for j in range(1, terms)]
    schema = Schema.declare({n: (0, 1) for n in names}, {"g": levels})
    design = formula_design("g ~ " + " + ".join(names or ["1"]), schema, kind="levels")
    p = terms * (len(levels) - 1)
    half = rng.normal(size=(p, p)) * 0.1
    return PrivateResults(
        dataclasses.replace(
            fitted._fit,
            design=design,
            names=tuple(f"{v}:{t}" for v in map(str, levels[1:]) for t in design.names),
            baseline=tuple(map(str, levels)),
            params=scale * rng.normal(size=p),
            last=rng.normal(size=p),
            estimates=(Estimate("random_scaling", half @ half.T, RandomScaling()),),
            trail_n=np.array([10, 100]),
            trail_params=rng.normal(size=(2, p)),
            trail_variances=np.ones((2, p)),
        )
    )


# --- shapes and labels -----------------------------------------------------------------------------------


@pytest.mark.thorough
def test_labels_are_those_of_mnlogit(fitted, mnlogit):
    for name in ("params", "bse", "tvalues", "pvalues", "params_last"):
        table = getattr(fitted, name)
        assert list(table.index) == TERMS == list(mnlogit.params.index)
        assert list(table.columns) == LEVELS[1:]
        assert table.columns.name == "g"
        assert table.shape == mnlogit.params.shape
    mine, theirs = fitted.conf_int(), mnlogit.conf_int()
    assert list(mine.columns) == list(theirs.columns) == ["lower", "upper"]
    assert list(mine.index) == list(theirs.index)
    assert mine.index.names == theirs.index.names
    assert fitted.cov_params().index.equals(mine.index)
    assert fitted.cov_params().columns.equals(mine.index)
    assert fitted.cov_params().index.names == mnlogit.cov_params().index.names


@pytest.mark.thorough
def test_estimates_agree_with_mnlogit(free, mnlogit):
    gap = free.params.to_numpy() - mnlogit.params.to_numpy()
    assert np.all(np.abs(gap) < 4 * free.bse.to_numpy())
    assert np.all(np.abs(free.params.to_numpy() - TRUTH.T) < 4 * free.bse.to_numpy())
    ratio = free.bse.to_numpy() / mnlogit.bse.to_numpy()
    assert np.all((ratio > 0.3) & (ratio < 4))
    data = people(50, seed=9)
    np.testing.assert_allclose(free.predict(data), mnlogit.predict(dmatrix("age + s", data)), atol=0.03)


@pytest.mark.thorough
def test_tables_hold_the_flat_numbers_level_by_level(fitted):
    fit = fitted._fit
    assert list(fit.names) == FLAT
    for i, (level, term) in enumerate(itertools.product(LEVELS[1:], TERMS)):
        assert fitted.params.loc[term, level] == fit.params[i]
        assert fitted.params_last.loc[term, level] == fit.last[i]
        assert fitted.bse.loc[term, level] == np.sqrt(fit.estimates[0].variances[i])
        assert fitted.conf_int().loc[(level, term)].mean() == pytest.approx(fit.params[i])
    np.testing.assert_array_equal(fitted.tvalues, fitted.params / fitted.bse)
    np.testing.assert_array_equal(fitted.cov_params(), fit.estimates[0].cov)
    for cols in (["hi:age", "mid:Intercept"], [("hi", "age"), ("mid", "Intercept")], [5, 0]):
        chosen = fitted.conf_int(cols=cols)
        assert list(chosen.index) == [("hi", "age"), ("mid", "Intercept")]
    with pytest.raises(OptionError, match="mid:Intercept"):
        fitted.conf_int(cols="lo:age")
    assert list(fitted.conf_int(cols="age").index) == [("mid", "age"), ("hi", "age")]


@pytest.mark.thorough
def test_tidy_names_the_level_first(fitted):
    table = fitted.tidy()
    assert list(table.columns[:3]) == ["level", "term", "estimate"]
    assert list(table["level"]) == ["mid"] * 3 + ["hi"] * 3
    assert list(table["term"]) == TERMS * 2
    np.testing.assert_array_equal(table["estimate"], fitted._fit.params)
    np.testing.assert_array_equal(table["p_value"], fitted.pvalues.to_numpy().T.reshape(-1))
    ratios = fitted.tidy(exponentiate=True)
    for column in ("estimate", "conf_low", "conf_high"):
        np.testing.assert_array_equal(ratios[column], np.exp(table[column]))
    np.testing.assert_array_equal(ratios["std_error"], table["std_error"])
    path = fitted.trajectory()
    assert list(path.columns) == ["level", "term", "n", "estimate", "low", "high"]
    end = path[path["n"] == path["n"].max()]
    np.testing.assert_array_equal(end["estimate"], fitted._fit.params)
    assert list(end["level"]) == list(table["level"])


def test_levels_that_are_no_strings_stay_what_they_are(fitted):
    results = made(fitted, [10, 2.5, True])
    assert list(results.params.columns) == [2.5, True]
    assert list(results.tidy()["level"])[::3] == [2.5, True]
    assert list(results.predict({"x1": [1.0], "x2": [0.5]}).columns) == [10, 2.5, True]
    whole = made(fitted, [3, 1, 2])
    found = whole.predict({"x1": [1.0, 0.0], "x2": [0.5, 0.1]}, which="class")
    assert found.dtype == np.int64
    assert set(found) <= {1, 2, 3}
    assert whole.wald_test("1:x1 = 2:x1").df_num == 1


@pytest.mark.thorough
def test_a_fit_without_inference_has_estimates_only():
    bare = model(people(3000)).fit(seed=1, progress=False, inference=None)
    assert list(bare.tidy().columns) == ["level", "term", "estimate", "reliable"]
    assert bare.params.shape == (3, 2)
    with pytest.raises(InferenceError, match="inference=None"):
        _ = bare.bse


# --- tests -----------------------------------------------------------------------------------------------


def test_restrictions_by_name_and_by_array(fitted):
    row = np.zeros((2, 6))
    row[0, 2], row[0, 5], row[1, 4] = 1, -1, 1
    text = fitted.t_test("mid:age = hi:age, hi:s[T.yes] = 0")
    array = fitted.t_test(row)
    np.testing.assert_allclose(text.effect, array.effect)
    np.testing.assert_allclose(text.sd, array.sd)
    assert text.labels == ("mid:age = hi:age", "hi:s[T.yes] = 0")
    assert fitted.wald_test("mid:age = hi:age, hi:s[T.yes]").pvalue == pytest.approx(fitted.wald_test(row).pvalue)
    assert text.effect[0] == pytest.approx(fitted.params.loc["age", "mid"] - fitted.params.loc["age", "hi"])


@pytest.mark.some(1)
@pytest.mark.parametrize("level", ["a b", 'say "a"', "it's", "[x]", "x]y[", "a,b", "a=b", "a+b", "3", "a:b", "x(1)"])
def test_restrictions_take_levels_with_odd_letters(fitted, level):
    results = made(fitted, ["base", "other", level])
    found = results.t_test(f"2*{level}:x1 - other:x1 = 1")
    assert found.effect[0] == pytest.approx(2 * results.params.loc["x1", level] - results.params.loc["x1", "other"])
    assert found.value[0] == 1


def test_restrictions_are_called_by_their_text_also_of_levels_with_commas(fitted):
    results = made(fitted, ["base", "b,c"])
    assert results.t_test("b,c:x1 = 0").labels == ("b,c:x1 = 0",)
    with pytest.raises(OptionError, match="don't fit 3 coefficients"):
        results.t_test(np.ones((1, 3)) * 1j)


def test_names_that_are_numbers_need_an_array(fitted):
    data = np.random.default_rng(0).uniform(size=(2_000, 2))
    bounds = {"0": (0, 1), "1": (0, 1), "y": (0, 2)}
    model = pr.PrivateOnlineRegression(data.sum(axis=1), pd.DataFrame(data, columns=["0", "1"]), bounds=bounds, mu=4)
    found = model.fit(seed=0, progress=False)
    with pytest.raises(FormulaError, match="no string can hold a name such as '0'"):
        found.t_test("3*1 = 1")
    assert found.t_test([[0, 1]]).effect[0] == found.params["1"]


@pytest.mark.parametrize("level", ["-1", "(a)", "*"])
def test_names_that_strings_cannot_hold_need_an_array(fitted, level):
    results = made(fitted, ["base", level])
    with pytest.raises(FormulaError, match=r"array of shape \(q, 3\)") as caught:
        results.t_test(f"{level}:x1 = 0")
    assert repr(f"{level}:Intercept") in str(caught.value)
    assert results.t_test([[0, 1, 0]]).effect[0] == results.params.loc["x1", level]
    with pytest.raises(FormulaError) as caught:
        fitted.t_test("nothing = 0")
    for test in (fitted.t_test, fitted.wald_test):
        with pytest.raises(FormulaError, match=r"for all of them write 'mid:age = 0, hi:age = 0'"):
            test("age = 0")
    assert fitted.coef().equals(fitted.params)
    assert "array" not in str(caught.value)


# --- predictions -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1.0, 400.0])
def test_probabilities_are_the_softmax(fitted, scale):
    results = made(fitted, scale=scale)
    new = pd.DataFrame({"x1": [0.0, 1.0, 0.5], "x2": [0.25, 0.0, 1.0]}, index=[7, 8, 7])
    x = np.column_stack([np.ones(3), new])
    eta = x @ results.params.to_numpy()
    linear, mean = results.predict(new, which="linear"), results.predict(new)
    np.testing.assert_allclose(linear, eta)
    assert list(linear.columns) == LEVELS[1:]
    np.testing.assert_allclose(mean, softmax(np.column_stack([np.zeros(3), eta]), axis=1), rtol=1e-10)
    np.testing.assert_allclose(mean.sum(axis=1), 1, rtol=1e-14)
    assert list(mean.columns) == LEVELS
    assert list(mean.index) == list(linear.index) == [7, 8, 7]
    found = results.predict(new, which="class")
    assert list(found) == list(mean.idxmax(axis=1))
    assert list(found.index) == [7, 8, 7]
    assert results.predict(new[:0], which="class").shape == (0,)
    assert results.predict(new[:0]).shape == (0, 3)


def test_errors_of_probabilities_are_the_delta_methods(fitted):
    results = made(fitted)
    new = pd.DataFrame({"x1": [0.0, 1.0, 0.5], "x2": [0.25, 0.0, 1.0]}, index=[3, 4, 5])
    x = np.column_stack([np.ones(3), new])
    params, cov = results._fit.params, results._fit.estimates[0].cov
    found = results.get_prediction(new)

    def shares(flat_params):
        return softmax(np.column_stack([np.zeros(3), x @ flat_params.reshape(2, 3).T]), axis=1)

    step = 1e-6
    slopes = np.stack([(shares(params + step * e) - shares(params - step * e)) / (2 * step) for e in np.eye(6)], -1)
    se = np.sqrt(np.einsum("ilj,jk,ilk->il", slopes, cov, slopes))
    np.testing.assert_allclose(found.predicted_mean, shares(params))
    np.testing.assert_allclose(found.se_mean, se, rtol=1e-6)
    p, critical = shares(params), results._fit.estimates[0].pivot.critical(0.1)
    for sign, limit in ((-1, 0), (1, 1)):
        want = expit(logit(p) + sign * critical * se / (p * (1 - p)))
        np.testing.assert_allclose(found.conf_int(0.1)[..., limit], want, rtol=1e-6)
    frame = found.summary_frame(0.1)
    assert list(frame.columns) == ["level", "mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "reliable"]
    assert list(frame["level"]) == LEVELS * 3
    assert list(frame.index) == list(np.repeat([3, 4, 5], 3))
    np.testing.assert_array_equal(frame["mean"], found.predicted_mean.reshape(-1))
    np.testing.assert_array_equal(frame["mean_ci_upper"], found.conf_int(0.1)[..., 1].reshape(-1))


@pytest.mark.filterwarnings("ignore:get_prediction:privreg.errors.PrivregWarning")  # far out, where they are sure
def test_limits_of_sure_probabilities_stay_inside(fitted):
    results = made(fitted, scale=15.0)
    frame = results.get_prediction({"x1": np.linspace(0, 1, 50), "x2": np.linspace(-1, 1, 50)}).summary_frame()
    assert np.isfinite(frame.drop(columns=["level", "reliable"]).to_numpy()).all()
    assert frame["mean"].max() > 1 - 1e-6
    assert (frame["mean_ci_lower"] > 0).all()
    assert (frame["mean_ci_upper"] <= 1).all()
    assert (frame["mean_ci_lower"] <= frame["mean"]).all()
    assert (frame["mean"] <= frame["mean_ci_upper"]).all()


def test_two_levels_are_logistic_regression(fitted):
    two = made(fitted, ["no", "yes"])
    design = formula_design("g ~ x1 + x2", two._fit.design.schema, kind="binary")
    one = PrivateResults(
        dataclasses.replace(two._fit, design=design, family=Logistic(), names=tuple(design.names), baseline=())
    )
    new = pd.DataFrame({"x1": [0.1, 0.7], "x2": [0.9, 0.2]})
    np.testing.assert_allclose(two.predict(new)["yes"], one.predict(new))
    assert list(two.predict(new, which="class")) == list(one.predict(new, which="class"))
    many, few = two.get_prediction(new).summary_frame(), one.get_prediction(new).summary_frame()
    columns = list(few.columns.drop("reliable"))
    np.testing.assert_allclose(many[many["level"] == "yes"][columns], few[columns])
    lower = many[many["level"] == "no"]
    np.testing.assert_allclose(1 - lower["mean_ci_upper"], few["mean_ci_lower"])


@pytest.mark.thorough
def test_arrays_predict_too():
    data = people(4000)
    x = np.column_stack([np.ones(4000), data["age"]])
    given = {"exog_names": ["const", "age"], "endog_name": "g", "bounds": {"age": (-1, 1)}, "levels": {"g": LEVELS}}
    res = pr.PrivateOnlineRegression(data["g"], x, family="multinomial", mu=2, **given).fit(seed=1, progress=False)
    assert list(res.params.index) == ["const", "age"]
    assert res.predict(x[:5]).shape == (5, 3)
    assert set(res.predict(x[:50], which="class")) <= set(LEVELS)
    assert res.get_prediction(x[:2]).summary_frame().shape == (6, 6)


# --- views -----------------------------------------------------------------------------------------------


def test_the_text_has_a_block_for_each_level(fitted):
    text = fitted.summary(details=True).as_text()
    lines = text.split("\n")
    assert max(map(len, lines)) <= 80
    starts = [lines.index(f"g={level}  (baseline g=lo)") for level in LEVELS[1:]]
    for start, level in zip(starts, LEVELS[1:], strict=True):
        assert lines[start + 1].split()[0] == "coef"
        for line, term in zip(lines[start + 3 : start + 6], TERMS, strict=True):
            assert line.split()[0] == term
            assert float(line.replace("†", "").split()[1]) == pytest.approx(fitted.params.loc[term, level], abs=5e-5)
    assert lines[starts[0] - 1].startswith("===")
    assert lines[starts[1] - 1].startswith("---")
    assert lines[starts[1] + 6].startswith("===")
    for label, value in [*fitted._fit.title, ("Guarantee", fitted.privacy.guarantee)]:
        assert f"{label}: {value}" in flat(text)


@pytest.mark.thorough
def test_every_view_escapes_every_level(fitted):
    results = made(fitted, BAD)
    page, latex = read(results.summary().as_html()), results.summary().as_latex()
    check_latex(latex)
    for level in BAD[1:]:
        assert f"g={level}  (baseline g={BAD[0]})" in page.cells
    assert page.tags <= {
        "div",
        "style",
        "table",
        "caption",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "p",
        "ol",
        "li",
        "span",
    }
    assert r"\bfseries g=h\_\allowbreak{}i\$\%" in latex
    assert latex.count(r"\begin{tabular}") == fitted.summary().as_latex().count(r"\begin{tabular}")
    for value in results._fit.params:
        assert any(cell == f"{value:.4f}" for cell in page.cells)
    assert results._repr_html_() == results.summary().as_html()
    check_latex(made(fitted, ["a" * 90, "b" * 90]).summary().as_latex())


def test_many_long_levels_stay_within_the_width_and_on_pages(fitted):
    levels = [f"level {'x' * 90} {i}" for i in range(30)]
    summary = made(fitted, levels, terms=2).summary()
    lines = summary.as_text().split("\n")
    assert max(map(len, lines)) <= 80
    titles = "".join("".join(lines).split())  # each in full, on several lines
    assert all(f"g=level{'x' * 90}{i}(baseline" in titles for i in range(1, 30))
    check_latex(summary.as_latex())


def test_repr_and_dir(fitted):
    assert repr(fitted).startswith(
        "<PrivateResults: Multinomial, 3 coefficients for each of 2 levels, n = 6,000, 2-GDP"
    )
    assert {"params", "predict", "get_prediction", "fit_measures"} <= set(dir(fitted))


# --- files and copies ------------------------------------------------------------------------------------


def check_equal(a, b):
    for name in ("params", "params_last", "bse", "pvalues"):
        pd.testing.assert_frame_equal(getattr(a, name), getattr(b, name), check_exact=True)
    for call in (lambda r: r.tidy(), lambda r: r.conf_int(), lambda r: r.cov_params(), lambda r: r.trajectory()):
        pd.testing.assert_frame_equal(call(a), call(b), check_exact=True)
    new = people(5, seed=3)
    pd.testing.assert_frame_equal(a.predict(new), b.predict(new), check_exact=True)
    assert str(a.summary()) == str(b.summary())
    assert repr(a) == repr(b)
    assert a._fit.names == b._fit.names
    assert a._fit.baseline == b._fit.baseline
    assert a._fit.measures == b._fit.measures
    assert a._fit.design == b._fit.design


@pytest.mark.thorough
def test_results_come_back_from_files_and_pickles(fitted, tmp_path):
    told = (Measure("share right", 0.5, 0.01, "of people"), Measure("log loss", np.nan, np.inf, "per person"))
    for res in (fitted, PrivateResults(dataclasses.replace(fitted._fit, measures=told[:1]))):
        res.save(tmp_path / "a.privreg")
        check_equal(res, pr.load(tmp_path / "a.privreg"))
        check_equal(res, pickle.loads(pickle.dumps(res)))
    odd = PrivateResults(dataclasses.replace(fitted._fit, measures=told))
    odd.save(tmp_path / "b.privreg")
    assert repr(pr.load(tmp_path / "b.privreg")._fit.measures) == repr(told)


@pytest.mark.parametrize("change", ["baseline", "measures"])
def test_a_file_that_contradicts_itself_is_refused(fitted, tmp_path, change):
    fit = fitted._fit
    if change == "baseline":
        damaged = dataclasses.replace(fit, baseline=("lo", "hi", "mid"))
    else:
        damaged = dataclasses.replace(fit, measures=(Measure("a", 0.5, 0.1, "b"),))
    path = tmp_path / "a.privreg"
    if change == "measures":
        from privreg.base import archive
        from privreg.results import saving

        document, arrays = saving.parts(damaged)
        archive.write_archive(path, "results", document, {**arrays, "measures": np.zeros((2, 2))})
    else:
        PrivateResults(damaged).save(path)
    with pytest.raises(SavedFileError, match="damaged"):
        pr.load(path)


# --- side by side ----------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_comparisons_use_flat_names_and_state_baselines(fitted):
    other = model(people(6000, 4)).fit(seed=2, progress=False)
    logistic = pr.PrivateOnlineRegression.from_formula(
        "s ~ age", people(3000), family="logistic", mu=1, bounds={"age": (-1, 1)}, levels={"s": ["no", "yes"]}
    ).fit(seed=3, progress=False)
    table = pr.compare([fitted, logistic, other], names=["one", "two", "three"])
    frame = table.frame()
    assert list(frame.index) == [*FLAT, "Intercept", "age"]
    np.testing.assert_array_equal(frame["one", "estimate"].dropna(), fitted._fit.params)
    np.testing.assert_array_equal(frame["three", "estimate"].dropna(), other._fit.params)
    assert "level" not in frame.columns.get_level_values(1)
    assert any(line.split() == ["Baseline", "lo", "lo"] for line in str(table).split("\n"))
    assert "different baselines" not in flat(str(table))
    assert "different baselines" in flat(str(pr.compare([fitted, made(fitted, ["mid", "lo", "hi"])])))
    assert "Baseline" not in str(pr.compare([logistic]))
    check_latex(table.as_latex())
    read(table.as_html())


def test_another_law_is_passed_on(fitted):
    fit = made(fitted)._fit
    normal = (dataclasses.replace(fit.estimates[0], pivot=Normal()),)
    a = PrivateResults(fit).get_prediction({"x1": [0.5], "x2": [0.5]})
    b = PrivateResults(dataclasses.replace(fit, estimates=normal)).get_prediction({"x1": [0.5], "x2": [0.5]})
    wide, narrow = np.diff(logit(a.conf_int())), np.diff(logit(b.conf_int()))
    np.testing.assert_allclose(wide / narrow, RandomScaling().critical(0.05) / 1.959964, rtol=1e-6)


@pytest.mark.thorough
@pytest.mark.parametrize("tuning", ["efficient", "published"])
def test_two_levels_are_a_logistic_fit(tuning):
    rng = np.random.default_rng(2)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 5000)})
    data["y"] = np.where(rng.uniform(size=5000) < 1 / (1 + np.exp(-2 * data["x"])), "b", "a")
    declared = {"bounds": {"x": (-1, 1)}, "levels": {"y": ["a", "b"]}, "mu": 4}

    def fit(family):
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, family=family, **declared)
        return model.fit(seed=1, progress=False, tuning=tuning)

    two = fit("multinomial")
    assert two.params.to_numpy().ravel().tolist() == fit("logistic").params.tolist()
    assert two.params.loc["x", "b"] == pytest.approx(2.0, abs=0.6)
    assert set(two.predict(data[:20], which="class")) <= {"a", "b"}
