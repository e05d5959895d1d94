"""Words of other libraries, in formulas and at the top of the package: each is answered by the call that was meant."""

import importlib

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privreg as pr
from privreg.errors import (
    FormulaError,
    OptionError,
    PrivacyLeakError,
    ReliabilityWarning,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.options.unknown import unavailable
from privreg.results.results import PrivateResults

BOUNDS = {"y": (-5, 5), "x": (0, 1), "time": (0, 2), "event": (0, 1), "a": (0, 1), "b": (0, 1)}


def model(formula="y ~ x", n=30, **more):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({name: rng.uniform(*BOUNDS[name], n) for name in BOUNDS} | {"g": rng.choice(["u", "v"], n)})
    given = {"bounds": BOUNDS, "levels": {"g": ["u", "v"]}, "mu": 1, **more}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


@pytest.mark.parametrize(
    ("formula", "words"),
    [
        (
            "y ~ x | g",
            "fixed effects after | but a person's are not supported; write 'y ~ x + C(g)', with levels={'g': [...]}",
        ),
        ("y ~ x + I(x > 0.5) | g + x", "not supported; write 'y ~ x + I(x > 0.5) + C(g) + C(x)'"),
        ("y ~ x || g", "write 'y ~ x + C(g)'"),
        ("y ~ Intercept", "'y ~ 1' has that alone"),
        ("y ~ x + Intercept", 'A column that is called so is Q("Intercept")'),
        ("cbind(a, b) ~ x", "fit each response by itself"),
        ("y x", "has no response; write it as 'y ~ ...'"),
        ("x + I(x > 0.5)", "has no response; write it as 'y ~ ...'"),
        ("Surv(time, event) ~ x", "write Surv(time, event, [6, 12, 24]) ~ age"),
        ("y ~ Surv(time, event)", "it stands left of the tilde, with public cut points"),
        ("y ~ x + strata(g)", "strata are not supported yet; write C(g)"),
        ("y ~ x + cluster(g)", "by id='g'"),
        ("y ~ x + i(g)", "write C(g), with levels={'g': [...]}"),
    ],
)
def test_formulas_of_others_are_answered_by_what_to_write(formula, words):
    with pytest.raises(FormulaError) as got:
        model(formula)
    assert words in str(got.value)
    assert "leak" not in str(got.value)
    assert not isinstance(got.value, PrivacyLeakError)


SURV = "Surv(time, event, [6, 12, 24]) ~ x"


@pytest.mark.parametrize("name", ["cox", "coxph", "CoxPHFitter", "survival", "weibull"])
def test_families_of_times_are_answered_by_the_formula(name):
    data, given = pd.DataFrame({"x": [0.0], "y": [0.0]}), {"mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}}
    for call in (
        lambda family: model(family=family),
        lambda family: pr.PrivateOnlineRegression(np.zeros(9), np.zeros((9, 1)), family=family, mu=1),
        lambda family: pr.plan("y ~ x", family=family, **given),
        lambda family: pr.central.Regression.from_formula("y ~ x", data, family=family, **given),
        lambda family: pr.federated.FederatedRegression.from_formula("y ~ x", [data], family=family, **given),
    ):
        for family in (name, type(name, (), {}), type(name, (), {})()):
            with pytest.raises(UnsupportedArgumentError) as got:
                call(family)
            assert SURV in str(got.value)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["status", "event", "time", "duration_col", "event_col", "entry", "cause"])
def test_columns_of_times_are_answered_by_the_formula(name):
    data, given = pd.DataFrame({"x": [0.0], "y": [0.0]}), {"mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}, name: "y"}
    for call in (
        lambda: model(**{name: "event"}),
        lambda: model().fit(**{name: "event"}),
        lambda: pr.PrivateOnlineRegression(np.zeros(9), np.zeros((9, 1)), mu=1, **{name: np.zeros(9)}),
        lambda: pr.plan("y ~ x", **given),
        lambda: pr.central.Regression.from_formula("y ~ x", data, **given),
        lambda: pr.federated.FederatedRegression.from_formula("y ~ x", [data], **given),
        lambda: pr.means.estimate(data, "y ~ 1", **given),
        lambda: pr.means.PrivateMeans(["y"], data, **given),
        lambda: pr.survival(data, "Surv(x, y, [1, 2]) ~ 1", **given),
        lambda: pr.survival(data, **given),
    ):
        with pytest.raises(UnsupportedArgumentError) as got:
            call()
        assert SURV in str(got.value)


def test_columns_of_times_that_are_given_in_order_are_refused_in_words():
    with pytest.raises(
        UnsupportedArgumentError, match=r"survival\(data, 'Surv\(time, event, \[30, 60, 90\]\) ~ C\(arm\)'"
    ):
        pr.survival(pd.DataFrame({"x": [0.0]}), "time", "event", mu=1)


def test_conditions_that_are_joined_by_or_are_no_fixed_effects():
    assert model("y ~ I((x > 0.5) | (time > 1))").exog_names[1] == "I((x > 0.5) | (time > 1))[T.True]"


@pytest.mark.parametrize("name", ["robust", "vce", "vcov"])
def test_robust_standard_errors_are_there_already(name):
    for call in (lambda: model(**{name: "HC3"}), lambda: model().fit(**{name: "HC3"})):
        with pytest.raises(TypeError, match="those of a sandwich already, robust to the variance"):
            call()
    data = pd.DataFrame({"x": [0.0], "y": [0.0]})
    more = {"mu": 1, "bounds": {"x": (0, 1), "y": (0, 1)}, name: True}
    for call, said in (
        (lambda: pr.central.Regression.from_formula("y ~ x", data, **more), "those of a sandwich already"),
        (
            lambda: pr.federated.FederatedRegression.from_formula("y ~ x", [data], **more),
            "there are no standard errors",
        ),
        (lambda: pr.means.PrivateMeans.from_formula("y ~ 1", data, **more), "assume no distribution"),
        (lambda: pr.plan("y ~ x", **more), "those of a sandwich already"),
    ):
        with pytest.raises(TypeError, match=said):
            call()


@pytest.mark.parametrize("bounds", [[(0, 1)], np.zeros((2, 2)), ((0, 1), (0, 1))])
def test_bounds_without_names_are_answered_by_names(bounds):
    with pytest.raises(SchemaError, match=r"must be a mapping.*write bounds=\{'age': .*of arrays by the names"):
        pr.PrivateOnlineRegression(np.zeros(9), np.zeros((9, 1)), bounds=bounds, mu=1)


MEANT = {
    "crosstab": "privreg.means.estimate(data, 'C(a):C(b)', ...).crosstab()",
    "pivot_table": "privreg.means.estimate(data, 'y ~ 1', by='group', ...)",
    "tbl_summary": "privreg.table_one(data, 'x + C(g)', by='group', ...)",
    "describe": "privreg.means.estimate(data, 'x ~ 1', ...)",
    "ttest": "res.t_test('group[T.b] = 0')",
    "ttest_ind": "res.t_test('group[T.b] = 0')",
    "chisq_test": "privreg.means.estimate(data, 'C(a):C(b)', ...).test_independence()",
    "aov": "res.anova()",
    "glance": "res.glance()",
    "ggpredict": "res.get_prediction(new)",
    "median": "family=pr.Quantile(0.5)",
    "feols": "family='gaussian'",
    "fepois": "family=pr.Poisson(y_max=20)",
    "fit": "privreg.PrivateOnlineRegression.from_formula(formula, data, ...)",
    "esttab": "privreg.compare([res1, res2])",
    "read_csv": "a file's name is given as the data",
    "add_constant": "a formula has an intercept unless it says 0",
    "power_analysis": "privreg.plan(formula, effect={'x': 0.1}, power=0.8, ...)",
    "survfit": "privreg.survival(data, 'Surv(time, event, [30, 60]) ~ C(g)', ...)",
    "coxph": "privreg.PrivateOnlineRegression.from_formula('Surv(time, event, [30, 60]) ~ x', ...)",
}


@pytest.mark.parametrize("name", MEANT)
def test_functions_of_others_are_answered_by_ours(name):
    with pytest.raises(AttributeError) as got:
        getattr(pr, name)
    assert MEANT[name] in str(got.value)


RESULTS = {
    "to_csv": "tidy().to_csv(path)",
    "to_excel": "tidy().to_excel(path)",
    "to_docx": "summary().save('table.docx')",
    "params_table": "tidy()",
    "coeftable": "tidy()",
    "tstat": "tvalues",
    "HC1_se": "fit(inference=...)",
    "_r2": "fit(measures=0.05)",
    "fixef": "of C(g) in the formula",
    "hypotheses": "t_test('x1 = x2')",
    "iplot": "plot_coef()",
    "etable": "privreg.compare([res1, res2])",
    "compare_f_test": "privreg.anova(small, large)",
    "compare_lr_test": "privreg.anova(small, large)",
    "wildboottest": "rows can't be drawn again",
    "print": "summary()",
    "N": "nobs",
    "notes": "privacy.notes",
    "feature_names_in_": "model.exog_names",
    "qqplot": "residuals are raw data",
    "loglik": "the likelihood needs every record",
}  # of R, pyfixest, pandas, scikit-learn


@pytest.mark.parametrize("name", RESULTS)
def test_names_of_results_elsewhere_are_answered_by_ours(name):
    assert RESULTS[name] in str(unavailable(name, dir(PrivateResults)))


@pytest.mark.parametrize(
    "model",
    [
        sm.OLS, sm.RLM, sm.QuantReg, sm.Logit, sm.Poisson,
        lambda y, x: sm.GLM(y, x, family=sm.families.Binomial()),
    ],
)  # fmt: skip
def test_every_name_of_statsmodels_results_is_there_or_is_explained(model):
    y, x = np.tile([0.0, 1.0, 0.0], 20), np.column_stack([np.ones(60), np.linspace(0, 1, 60)])
    have, fit = dir(PrivateResults), model(y, x).fit()
    for name in (n for n in dir(fit) if n[0] != "_" and n not in have):
        said = str(unavailable(name, have))
        assert "see dir" not in said, name
        assert "did you mean" not in said, name


VIEWS = {
    "as_csv": "summary.tables[1].as_csv()",
    "to_csv": "res.tidy().to_csv(path)",
    "to_frame": "res.tidy()",
    "to_string": "as_text()",
    "to_word": "save('table.docx')",
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", VIEWS)
def test_names_of_views_elsewhere_are_answered_by_ours(name):
    res = model(n=3_000).fit(seed=1, progress=False)
    with pytest.raises(AttributeError) as got:
        getattr(res.summary(), name)
    assert VIEWS[name] in str(got.value)
    assert "x" in res.summary().tables[1].as_csv()
    with pytest.raises(AttributeError, match="it is called total_mu"):
        res.privacy.mu  # noqa: B018


def test_a_plan_without_a_formula_or_a_goal_says_what_is_lacking():
    with pytest.raises(OptionError, match=r"plan\(\) needs the formula, as in plan\('y ~ x', mu=1"):
        pr.plan(effect=0.05, mu=1)
    with pytest.raises(OptionError, match=r"give n= .*, or width= or effect="):
        pr.plan("y ~ x", mu=1, bounds={"y": (0, 1), "x": (0, 1)})


@pytest.mark.some(1)
@pytest.mark.parametrize("n", [3, 9])
@pytest.mark.parametrize("tuning", ["efficient", "published"])
def test_a_handful_of_records_is_marked(n, tuning):
    with pytest.warns(ReliabilityWarning, match="don't rely on the"):
        res = model(n=n).fit(progress=False, seed=1, tuning=tuning)
    assert not res.tidy()["reliable"].any()
    assert "DON'T RELY ON THE" in res.summary().as_text()


@pytest.mark.parametrize(
    ("module", "place"), [("experiments", "benchmarks.papers NAME"), ("theory", "benchmarks.papers.bounds")]
)
def test_a_module_that_has_gone_says_where_to(module, place):
    with pytest.raises(ImportError, match=place):
        importlib.import_module(f"privreg.{module}")
    with pytest.raises(AttributeError, match=place):
        getattr(pr, module)
