"""What users of R, statsmodels and scikit-learn write at first: each call names what to write instead."""

import pickle

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import (
    FormulaError,
    NotPrivateError,
    OptionError,
    PrivacyLeakError,
    SchemaError,
    UnsupportedArgumentError,
)

FIT = pr.PrivateOnlineRegression.from_formula
PLAN = {"mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}, "scale": 0.1}


@pytest.fixture(scope="module")
def res():
    people = pr.datasets.us_insurance(4_000)
    return FIT("charges ~ age + smoker", people, mu=4).fit(seed=1, progress=False)


def told(call, error=Exception):
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


# --- splines -----------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("term", ["ns(age, df=4)", "s(age)", "lo(age)"])
def test_a_smooth_term_is_answered_by_one_that_goes_with_an_intercept(term):
    people = pr.datasets.us_insurance(100)
    assert "write bs(x, knots=[...]" in told(lambda: FIT(f"charges ~ {term}", people, mu=1), PrivacyLeakError)
    FIT("charges ~ bs(age, knots=[30, 50], lower_bound=18, upper_bound=65) + region", people, mu=1)


@pytest.mark.parametrize("before", ["", "0 + region + "])
def test_a_spline_that_holds_the_constant_is_not_answered_by_taking_out_an_intercept(before):
    cr = "cr(age, knots=[30, 50], lower_bound=18, upper_bound=65)"
    said = told(lambda: FIT(f"charges ~ {before}{cr}", pr.datasets.us_insurance(100), mu=1), FormulaError)
    assert "write bs() for cr()" in said
    assert "- 1" not in said


def test_an_intercept_is_to_be_dropped_only_if_there_is_one():
    people = pr.datasets.us_insurance(100)
    assert "- 1" not in told(lambda: FIT("charges ~ 0 + age + I(2 * age)", people, mu=1), FormulaError)
    assert "- 1" in told(lambda: FIT("charges ~ age + I(0 * age + 2)", people, mu=1), FormulaError)


# --- options -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "meant"),
    [({"family": "bisquare"}, "huber"), ({"family": "tukey"}, "huber"), ({"missing": "none"}, "noise")],
)
def test_the_choice_that_is_nearest_in_meaning_is_named(options, meant):
    assert f"Did you mean '{meant}'?" in told(lambda: FIT("y ~ x", None, mu=1, **options), OptionError)


@pytest.mark.parametrize(("name", "ours"), [("sigma", "scale="), ("sd", "scale="), ("nobs", "n=")])
def test_a_plan_s_options_are_called_by_ours(name, ours):
    said = told(lambda: pr.plan("y ~ x", width={"x": 0.1}, **PLAN, **{name: 1}), UnsupportedArgumentError)
    assert ours in said
    assert "mechanism" not in said


@pytest.mark.parametrize("option", ["effect", "width"])
def test_a_coefficient_that_a_plan_doesn_t_have_is_told_by_the_option_that_named_it(option):
    said = told(lambda: pr.plan("y ~ x", **PLAN, **{option: {"X": 0.1}}), OptionError)
    assert said.startswith(f"{option}= names 'X'")
    assert "Did you mean 'x'?" in said


@pytest.mark.thorough
def test_a_plan_s_summary_prints_as_the_plan_does():
    plan = pr.plan("y ~ x", n=20_000, **PLAN)
    assert repr(plan.summary()) == str(plan)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: pr.Quantile(q=0.9), "It is called tau="),
        (lambda: pr.Expectile(q=0.9), "It is called tau="),
        (lambda: pr.Huber(t=1.345), "called c="),
        (lambda: pr.Huber(C=1.345), "Did you mean 'c'?"),
        (lambda: FIT("y ~ x", None, 1), "options are given by name"),
    ],
)
def test_arguments_are_told_by_name(call, said):
    assert said in told(call, UnsupportedArgumentError)


@pytest.mark.thorough
def test_three_fits_are_compared_two_by_two(res):
    assert "of several, test each with the next" in told(lambda: pr.anova(res, res, res), UnsupportedArgumentError)
    assert "one by one, not in a list" in told(lambda: pr.anova([res, res]), OptionError)


@pytest.mark.parametrize(
    ("method", "argument", "said"),
    [
        ("anova", {"typ": 2}, "given all others (type III); privreg.anova(small, large)"),
        ("wald_test_terms", {"typ": 3}, "type III"),
        ("plot_privacy", {"title": "mine"}, "ax.set_title()"),
        ("plot_coef", {"figsize": (3, 3)}, "set_size_inches"),
    ],
)
def test_arguments_elsewhere_are_answered(res, method, argument, said):
    assert said in told(lambda: getattr(res, method)(**argument), UnsupportedArgumentError)


def test_a_scalar_test_is_what_there_is(res):
    assert "Leave it out" in told(lambda: res.wald_test("age", scalar=True), UnsupportedArgumentError)


# --- names -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("where", "name", "said"),
    [
        (pr, "Regression", "PrivateOnlineRegression.from_formula"),
        (pr.families, "Binomial", "it is called pr.Logistic()"),
        (pr.families, "huber", "did you mean 'Huber'?"),
        (pr.datasets, "us_insurence", "did you mean 'us_insurance'?"),
        (pr.datasets, "iris", "see dir(privreg.datasets)"),
    ],
)
def test_a_module_names_what_was_meant(where, name, said):
    assert said in told(lambda: getattr(where, name), AttributeError)


@pytest.mark.parametrize("name", ["datasets", "errors", "families", "means", "central", "federated"])
def test_a_module_shows_its_names_and_nothing_else(name):
    module = getattr(pr, name)
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, each) for each in dir(module))


@pytest.mark.parametrize(
    ("part", "name", "said"),
    [
        (lambda res: res.t_test("age"), "tidy", "it is called summary_frame()"),
        (lambda res: res.summary(), "to_csv", "write summary.tables[1].as_csv()"),
        (lambda res: pr.plan("y ~ x", n=20_000, **PLAN), "to_csv", "it has alpha, as_html"),
        (lambda res: res, "to_csv", "tidy().to_csv(path)"),
        (lambda res: res.model, "predict", "keep the model that you fitted"),
    ],
)
def test_what_a_view_doesn_t_have_is_told_with_how_to_make_it(res, part, name, said):
    assert said in told(lambda: getattr(part(res), name), AttributeError)


def test_the_rows_of_the_model_are_private(res):
    assert "endog_names, exog_names and formula" in told(lambda: res.model.exog, NotPrivateError)
    assert not hasattr(res.model, "exog")
    assert pickle.loads(pickle.dumps(res.model)) == res.model


def test_a_number_has_no_levels(res):
    assert "'age' is a number and has no levels; t_test('age') tests its slope" in told(
        lambda: res.t_test_pairwise("age")
    )


# --- times until an event ----------------------------------------------------------------------------------


SURV = {"mu": 1, "trust": "central", "bounds": {"x": (0, 1)}}


@pytest.mark.parametrize(
    ("formula", "more", "said"),
    [
        ("Surv(t, e == 2, [1, 2]) ~ x", {}, "levels={'event': [1, 2]}"),
        ("Surv(t, e, [1, 2], causes='death') ~ x", {}, "Surv() has no causes=; it takes cause="),
        ("Surv(t, e, [1, 2]) ~ x", {"bounds": {"x": (0, 1), "t": (0, 1.5)}}, "'t' has bounds up to 1.5"),
    ],
)
def test_events_and_times_that_are_declared_otherwise_are_answered(formula, more, said):
    assert said in told(lambda: FIT(formula, **{**SURV, **more}), (FormulaError, SchemaError))
    FIT("Surv(t, e, [1, 2]) ~ x", mu=1, trust="central", bounds={"x": (0, 1), "t": (0, 2)})


def test_a_fit_of_one_cause_says_so_wherever_it_is_shown():
    rng = np.random.default_rng(1)
    people = pd.DataFrame({"t": rng.exponential(2.0, 3_000), "e": rng.integers(0, 3, 3_000), "x": rng.random(3_000)})
    levels = {"e": [0, 1, 2]}
    model = FIT("Surv(t, e, [1, 2, 4], cause=2) ~ x", people, **SURV, levels=levels)
    made = model.fit(seed=1, progress=False)
    for shown in (str(made.summary()), made.glance()["response"].iloc[0], str(made.hazards())):
        assert "Surv(t, e, cause=2)" in shown
    assert "survival by them alone" in str(made.hazards())
    assert "measures" not in told(lambda: made.llf)
    said = told(lambda: model.fit(measures=0.1), OptionError)
    assert "times until an event" in said
    assert "k_max" not in said
