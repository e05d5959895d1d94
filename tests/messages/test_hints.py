"""Calls that are nearly right are told what was meant: names of coefficients, keywords, kinds of sequences."""

import inspect
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import FormulaError, OptionError, PrivregWarning, SchemaError, UnsupportedArgumentError
from privreg.means.results.results import MeansResults
from privreg.published.descent.results import CentralResults
from privreg.published.federated.results import FederatedResults
from privreg.results.postestimation import hypothesis, prediction
from privreg.results.results import PrivateResults
from privreg.results.several.comparison import Comparison
from privreg.schema.declarations import Schema

N = 6_000


@pytest.fixture(scope="module")
def rides():
    data = pr.datasets.ride_sharing(N)
    public = {"bounds": {"distance": (1, 30), "driver_rating": (3, 5), "capacity": (2, 7), "fare": (0, 70)}}
    model = pr.PrivateOnlineRegression.from_formula("fare ~ distance + driver_rating", data, mu=4, **public)
    return model.fit(seed=1, progress=False)


@pytest.fixture(scope="module")
def charges():
    data, public = pr.datasets.us_insurance(N), pr.datasets.us_insurance_schema()
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age + region + smoker:bmi", data, mu=4, **public)
    return model.fit(seed=1, progress=False)


# --- names of coefficients -------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("test", ["t_test", "wald_test"])
@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("rating", ["'rating' is no coefficient", "did you mean 'driver_rating'?"]),
        ("distance = 0, 2 * Driver_rating = 1", ["'Driver_rating'", "did you mean 'driver_rating'?"]),
        ("age = bmi", ["'age' is no coefficient", "write it as 'driver_rating = 0'"]),
        ("distance distance", ["expected an operator"]),
        ("distance = 1e5 = 2e5", ["write it as"]),
    ],
)
def test_a_name_that_is_no_coefficient_is_answered_with_this_fits_own(rides, test, text, pieces):
    with pytest.raises(FormulaError) as caught:
        getattr(rides, test)(text)
    told = str(caught.value)
    assert all(piece in told for piece in pieces), told
    assert "Coefficients of this fit are Intercept, distance, driver_rating." in told
    assert "bmi" not in told.replace(text, "")


@pytest.mark.thorough
def test_a_misspelt_term_is_answered_with_the_term(charges):
    for given in ("regoin", "regoin = 0"):
        with pytest.raises(FormulaError, match="'regoin' is no coefficient and no term; did you mean 'region'\\?"):
            charges.wald_test(given)


def test_terms_may_be_listed_in_a_string(charges):
    joint = charges.wald_test("region, age")
    assert joint.df_num == 4
    assert joint == charges.wald_test(["region", "age"])
    assert charges.t_test("C(region), age").labels[-1] == "age"
    one = charges.wald_test("region[T.southeast], age = 0")
    assert one.df_num == 2


def test_a_factors_name_in_an_equation_is_answered_with_its_coefficients(charges):
    with pytest.raises(FormulaError) as caught:
        charges.wald_test("region = 0")
    joint = "region[T.northwest] = 0, region[T.southeast] = 0, region[T.southwest] = 0"
    assert f"write '{joint}'" in str(caught.value)
    for name in (joint, "region", "C(region)"):
        assert charges.wald_test(name).df_num == 3


def test_a_list_is_never_quoted(rides):
    with pytest.raises(FormulaError) as caught:
        rides.t_test(["SECRET", "rows"])
    assert "SECRET" not in str(caught.value)


def test_what_statsmodels_calls_otherwise_names_no_other_models_columns(rides):
    for name in ("f_test", "contrast"):
        with pytest.raises(AttributeError) as caught:
            getattr(rides, name)
        assert "age" not in str(caught.value)


# --- keywords --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "keyword", "pieces"),
    [
        ("tidy", "expontentiate", ["did you mean 'exponentiate'", "alpha="]),
        ("tidy", "level", ["give alpha="]),
        ("summary", "aplha", ["did you mean 'alpha'"]),
        ("plot_coef", "intercpt", ["did you mean 'intercept'"]),
        ("plot_trajectory", "term", ["did you mean 'terms'"]),
        ("trajectory", "level", ["give alpha="]),
        ("predict", "newdata", ["exog="]),
        ("conf_int", "cov_type", ["inference=", "cols="]),
        ("conf_int", "exponentiate", ["np.exp(res.conf_int())", "tidy(exponentiate=true)"]),
        ("t_test", "exponentiate", ["np.exp(test.conf_int())"]),
        ("t_test", "alpha", ["t_test(...).conf_int(alpha=0.1)"]),
        ("get_prediction", "level", ["get_prediction(...).conf_int(alpha=0.1)"]),
        ("tidy", "conf_int", ["conf_low and conf_high", "alpha="]),
        ("plot_coef", "path", ["axes.figure.savefig(path)"]),
        ("plot_trajectory", "save", ["axes[0].figure.savefig(path)"]),
        ("using", "name", ["method="]),
    ],
)
def test_unknown_keywords_are_told_the_choices(rides, method, keyword, pieces):
    with pytest.raises(UnsupportedArgumentError) as caught:
        getattr(rides, method)(**{keyword: 1})
    told = str(caught.value)
    assert isinstance(caught.value, TypeError)
    assert f"{method}() has no argument {keyword!r}." in told
    assert all(piece in told.lower() for piece in pieces), told


CLASSES = (
    *(PrivateResults, CentralResults, FederatedResults, MeansResults, Comparison),
    *(hypothesis.ContrastTest, prediction.Prediction),
)
METHODS = [
    (cls, name)
    for cls in CLASSES
    for name, method in inspect.getmembers(cls, inspect.isfunction)
    if not name.startswith("_")
]


@pytest.mark.some(1)
@pytest.mark.parametrize(("cls", "name"), METHODS, ids=[f"{c.__name__}.{n}" for c, n in METHODS])
def test_every_public_method_of_results_does(cls, name):
    method = getattr(cls, name)
    assert "unknown" not in inspect.signature(method).parameters
    with pytest.raises(UnsupportedArgumentError, match=rf"^{method.__name__}\(\) has no argument 'zzz'"):
        method(object.__new__(cls), zzz=1)


@pytest.mark.parametrize(
    ("method", "given", "said"),
    [
        ("plot_coef", "c.png", "axes.figure.savefig(path)"),
        ("plot_trajectory", Path("c.png"), "axes.figure.savefig(path)"),
        ("anova", None, "privreg.anova(small, large) tests nested fits"),
    ],
)
def test_an_argument_that_has_no_place_is_told_what_was_meant(rides, method, given, said):
    with pytest.raises(UnsupportedArgumentError) as caught:
        getattr(rides, method)(given)
    assert said in str(caught.value)
    assert "c.png" not in str(caught.value)


def test_intervals_of_single_responses_are_told_from_those_of_the_mean(rides):
    new = pd.DataFrame({"distance": [3.0], "driver_rating": [4.5]})
    found = rides.get_prediction(new)
    for call in (
        lambda: rides.predict(new, interval="prediction"),
        lambda: found.conf_int(obs=True),
        lambda: rides.prediction_interval,
    ):
        with pytest.raises((UnsupportedArgumentError, AttributeError), match="no prediction intervals of single resp"):
            call()


def test_compare_does_and_so_do_arguments_by_place_that_are_too_many_or_too_few(rides):
    with pytest.raises(UnsupportedArgumentError, match="Did you mean 'names'"):
        pr.compare([rides], namess=["a"])
    with pytest.raises(UnsupportedArgumentError, match=r"tidy\(\) takes exponentiate=, alpha=.*, by name\."):
        rides.tidy(True, 0.05)
    with pytest.raises(UnsupportedArgumentError, match=r"predict\(\) takes exog=, which=, by name\."):
        rides.predict(rides.params, pd.DataFrame({"distance": [3.0]}))
    with pytest.raises(UnsupportedArgumentError, match=r"evaluate\(\) needs public_test="):
        rides.evaluate()


@pytest.mark.parametrize("show", ["conf_int", "tidy", "summary", "trajectory"])
def test_a_level_given_as_alpha_is_told(rides, show):
    with pytest.warns(PrivregWarning, match=r"alpha=0\.9 gives 10% intervals; for 90% give alpha=0\.1\.") as caught:
        getattr(rides, show)(alpha=0.9)
    assert {w.filename for w in caught} == {__file__}
    new = pd.DataFrame({"distance": [3.0], "driver_rating": [4.5]})
    for found in (rides.get_prediction(new), rides.t_test("distance = 0")):
        with pytest.warns(PrivregWarning, match="alpha=0\\.9 gives"):
            found.conf_int(0.9)


# --- levels ----------------------------------------------------------------------------------------------

LEVELS = {
    "Index": pd.Index(["no", "yes"]),
    "categories": pd.Series(["yes", "no"], dtype="category").cat.categories,
    "array": np.array(["no", "yes"]),
    "array of objects": np.array(["no", "yes"], dtype=object),
    "unique of a categorical": pd.Series(["no", "yes", "no"], dtype="category").unique(),
    "unique of texts": pd.Series(["no", "yes", "no"], dtype="string").unique(),
    "Series": pd.Series(["no", "yes"]),
    "tuple": ("no", "yes"),
}


@pytest.mark.parametrize("kind", LEVELS)
def test_levels_may_be_any_ordered_sequence(kind):
    assert Schema.declare(levels={"g": LEVELS[kind]}).levels["g"] == ("no", "yes")


def test_levels_of_numbers_become_pythons_own():
    for numbers in (np.array([1, 2]), pd.Index([1, 2]), range(1, 3)):
        got = Schema.declare(levels={"g": numbers}).levels["g"]
        assert got == (1, 2)
        assert all(type(v) is int for v in got)
    assert Schema.declare(levels={"g": np.array([False, True])}).levels["g"] == (False, True)


@pytest.mark.parametrize("wrong", [{"no", "yes"}, frozenset({"no", "yes"}), {"no": 1, "yes": 2}.keys()])
def test_levels_without_an_order_are_refused(wrong):
    with pytest.raises(SchemaError, match="has no order"):
        Schema.declare(levels={"g": wrong})


@pytest.mark.parametrize("wrong", ["no", b"no", {"no": 1}, np.array("no"), np.eye(2), iter(["no", "yes"]), 3, None])
def test_levels_that_are_no_sequence_are_refused(wrong):
    with pytest.raises(SchemaError, match="must be a list of levels"):
        Schema.declare(levels={"g": wrong})


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("coefs", "params"),
        ("confint", "conf_int()"),
        ("fit_interval", "conf_int()"),
        ("predict_interval", "get_prediction(new)"),
        ("vcov", "cov_params()"),
        ("coeftest", "summary()"),
        ("Anova", "anova()"),
        ("linearHypothesis", "wald_test("),
        ("glht", "t_test("),
        ("TukeyHSD", "t_test_pairwise("),
        ("emmeans", "for_marginaleffects(rows)"),
        ("avg_slopes", "for_marginaleffects(rows)"),
        ("xtable", "summary().as_latex()"),
        ("modelsummary", "privreg.compare("),
        ("stepAIC", "anova()"),
        ("augment", "predict()"),
        ("cooks_distance", "raw data"),
        ("lrtest", "wald_test()"),
        ("residuals", "evaluate(public_test)"),
        ("AIC", "anova()"),
        ("vif", "cov_params()"),
        ("sse", "fit(measures=0.05)"),
        ("R2", "fit(measures=0.05)"),
        ("fvalue", "wald_test(['x1', 'x2'])"),
        ("df_model", "params.size"),
        ("boot", "inference='block_bootstrap'"),
        ("linear_hypothesis", "wald_test("),
        ("update", "from_formula()"),
    ],
)
def test_names_of_r_are_told_by_ours(charges, name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(charges, name)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("AIC", "res.wald_test()"),
        ("residuals", "res.evaluate(public_test)"),
        ("R2", "fit(measures=0.05)"),
        ("etable", "privreg.compare("),
        ("bootstrap", "inference='block_bootstrap'"),
        ("update", "from_formula()"),
    ],
)
def test_names_of_r_in_the_package_too(name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(pr, name)
    assert said in str(caught.value)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("summary", "before it is fitted: res = model.fit(), then res.summary()."),
        ("params", "then res.params."),
        ("coef_", "then res.params."),
        ("confint", "then res.conf_int()."),
        ("update", "from_formula()"),
        ("resid", "evaluate(public_test)"),
        ("fti", "did you mean 'fit'?"),
        ("_repr_png_", "has no '_repr_png_'"),
    ],
)
def test_a_model_tells_what_its_results_have(name, said):
    data, public = pr.datasets.us_insurance(N), pr.datasets.us_insurance_schema()
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age", data, mu=4, **public)
    with pytest.raises(AttributeError) as caught:
        getattr(model, name)
    assert said in str(caught.value)


def test_results_may_be_compared_by_name(rides):
    found = pr.compare({"small": rides, "large": rides})
    assert found.names == ("small", "large")
    assert found.frame().equals(pr.compare([rides, rides], names=["small", "large"]).frame())


def test_goals_belong_to_planning_and_plans_take_no_rows(rides):
    data, public = pr.datasets.us_insurance(N), pr.datasets.us_insurance_schema()
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age", data, mu=4, **public)
    for name in ("effect", "power", "width"):
        with pytest.raises(UnsupportedArgumentError, match=rf"^plan\(\) has no '{name}'.*privreg\.plan\(formula"):
            model.plan(**{name: 1})
    with pytest.raises(UnsupportedArgumentError, match=r"seed= belongs to fit\(\), not to plan\(\)"):
        model.plan(seed=1)
    with pytest.raises(UnsupportedArgumentError, match=r"plan\(\) has no 'lans'.*'lanes'"):
        model.plan(lans=1)
    for given in (lambda: pr.plan("charges ~ age", data, mu=1), lambda: pr.plan("charges ~ age", data=data, mu=1)):
        with pytest.raises(UnsupportedArgumentError, match=r"no data.*covariates="):
            given()


@pytest.mark.parametrize("name", ["normal", "ols"])
def test_least_squares_are_told_both_families(name):
    with pytest.raises(OptionError, match="Did you mean 'gaussian' or 'huber'"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", mu=1, family=name)


def test_gaussian_is_mean_regression():
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", mu=1, family="gaussian", bounds={"x": (0, 1), "y": (0, 9)})
    assert model.family == pr.Squared()
