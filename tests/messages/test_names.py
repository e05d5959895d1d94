"""Calls as other libraries have them, or with a slip of the pen: the message names what to write instead."""

import inspect
import math
import re
import warnings
from fractions import Fraction

import pytest

import privreg as pr
from privreg.errors import (
    BudgetError,
    FormulaError,
    OptionError,
    PrivacyLeakError,
    PrivregError,
    PrivregWarning,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.federated.reports import UPDATE_MECHANISMS
from privreg.inference.methods import METHODS
from privreg.means.factors import FREQUENCIES
from privreg.options.table import DOORS, TABLE, Option, accepted
from privreg.options.unknown import refuse_unknown
from privreg.privacy.ledger import UNSET
from privreg.privacy.mechanisms import MECHANISMS
from privreg.privacy.scalar import NUMBER_MECHANISMS
from tests.wrong import GONE, by_arrays, by_formula, cases, check_refusal, results, rows

COUNTS = {"a": (0, 40_000), "b": (0, 1), "y": (0, 50)}


def tanh(eta, y):
    return math.tanh(eta - y)


FITS = {
    "learning_rate": (lambda _: by_formula().fit(learning_rate=0.1), ["fit() has no 'learning_rate'", "step="]),
    "lr": (lambda _: by_formula().start(lr=0.1), ["start() has no 'lr'", "step="]),
    "n_jobs": (lambda _: by_formula().fit(n_jobs=2), ["threads="]),
    "random_state": (lambda _: by_formula().fit(random_state=2), ["seed="]),
    "verbose": (lambda _: by_formula().fit(verbose=0), ["progress="]),
    "progress of a stream": (lambda _: by_formula().start(progress=False), ["belongs to fit()"]),
    "epochs": (lambda _: by_formula().fit(epochs=5), ["one pass"]),
    "maxiter": (lambda _: by_formula().fit(maxiter=100), ["one pass"]),
    "method": (lambda _: by_formula().fit(method="bfgs"), ["tuning="]),
    "cov_type": (lambda _: by_formula().fit(cov_type="HC0"), ["inference="]),
    "mu": (lambda _: by_formula().fit(mu=2), ["mu= belongs to the model", "not to fit()"]),
    "id": (lambda _: by_formula().fit(id="name"), ["id= belongs to the model"]),
    "sample_weight": (lambda _: by_formula().fit(sample_weight=rows()["a"]), ["equal weight"]),
}

MODELS = {
    "weights": (lambda _: by_formula(weights="a"), ["no 'weights'", "equal weight", "mu='column' with mu_max="]),
    "freq_weights": (lambda _: by_formula(freq_weights=rows()["a"]), ["equal weight", "mu_max="]),
    "var_weights": (lambda _: by_arrays(var_weights=rows()["a"]), ["equal weight", "mu_max="]),
    "hasconst": (lambda _: by_formula(hasconst=True), ["'y ~ 0 + x'"]),
    "fit_intercept": (lambda _: by_arrays(fit_intercept=False), ["column named 'const'"]),
    "alpha": (lambda _: by_formula(alpha=0.05), ["of fit()", "conf_int()"]),
    "seed": (lambda _: by_formula(seed=1), ["seed= belongs to fit()"]),
    "lanes": (lambda _: by_arrays(lanes=1), ["lanes= belongs to fit()"]),
    "names of arrays": (lambda _: by_formula(exog_names=["a"]), ["belongs to the model of arrays"]),
    "groups": (lambda _: by_formula(groups="name"), ["id='person'"]),
    "noise_multiplier": (lambda _: by_formula(noise_multiplier=1.1), ["the budget (mu=, epsilon= or rho=)"]),
    "budget": (lambda _: by_formula(mu=GONE, eps=1), ["epsilon=1.0"]),
    "tau": (lambda _: by_formula(family="quantile", tau=0.9), ["family=Quantile(0.9)"]),
    "c": (lambda _: by_formula(c=1.345), ["family=Huber(c=1.345"]),
    "y_max": (lambda _: by_formula(family="poisson", y_max=20), ["family=Poisson(y_max=20)"]),
    "width": (lambda _: by_formula(width=1), ["family=SmoothedHinge(width=0.5)"]),
    "categories": (lambda _: by_formula(categories={"g": ["u", "v"]}), ["levels="]),
    "a near miss": (lambda _: by_formula(mechanims="laplace"), ["Did you mean 'mechanism'?"]),
    "people of arrays": (lambda _: by_arrays(id="name"), ["id= names a column", "from_formula"]),
}

VALUES = {
    "family binomial": (lambda _: by_formula(family="binomial"), OptionError, ["Did you mean 'logistic'?"]),
    "family gaussian": (lambda _: by_formula(family="gaussian"), OptionError, ["Did you mean 'huber'?"]),
    "family OLS": (lambda _: by_formula(family="OLS"), OptionError, ["Did you mean 'huber'?", "'squared'"]),
    "family median": (lambda _: by_formula(family="median"), OptionError, ["Did you mean 'quantile'?"]),
    "family in capitals": (lambda _: by_formula(family="Logistic"), OptionError, ["Did you mean 'logistic'?"]),
    "family poisson": (lambda _: by_formula(family="poisson"), OptionError, ["Poisson(y_max=...)"]),
    "family without brackets": (
        lambda _: by_formula(family=pr.Multinomial),
        UnsupportedArgumentError,
        ["lacks its brackets", "Multinomial()"],
    ),
    "tau 1": (lambda _: pr.Quantile(1), OptionError, ["tau=1", "(0, 1)"]),
    "tau in percent": (lambda _: pr.Expectile(90), OptionError, ["tau=90", "(0, 1)"]),
    "tau a text": (lambda _: pr.Quantile("a"), OptionError, ["tau='a'", "number in (0, 1)"]),
    "tau a column": (lambda _: pr.Quantile(rows()["a"]), OptionError, ["tau=<Series>"]),
    "y_max 0": (lambda _: pr.Poisson(0), OptionError, ["y_max=0", "positive", "largest count"]),
    "y_max infinite": (lambda _: pr.Poisson(math.inf), OptionError, ["y_max=inf", "positive"]),
    "width 0": (lambda _: pr.SmoothedHinge(0), OptionError, ["width=0", "positive"]),
    "score of no function": (
        lambda _: pr.families.custom("mine", 3, 1.0),
        OptionError,
        ["function of two floats", "got int"],
    ),
    "score that can't be compiled": (
        lambda _: pr.families.custom("mine", lambda eta, y: Fraction(eta) - y, 1.0),
        OptionError,
        ["numba could not compile it", "math.tanh"],
    ),
    "score that is not finite": (
        lambda _: pr.families.custom("mine", lambda eta, y: math.log(eta - y), 1.0),
        OptionError,
        ["NaN or infinity"],
    ),
    "bound 0": (lambda _: pr.families.custom("mine", tanh, 0), OptionError, ["bound=0", "positive"]),
    "link": (lambda _: pr.families.custom("mine", tanh, 1.0, link="probit"), OptionError, ["link='probit'", "'logit'"]),
    "mechanism": (lambda _: by_formula(mechanism="gausian"), OptionError, ["Did you mean 'gaussian'?"]),
    "mechanism by another name": (
        lambda _: by_formula(mechanism="rr"),
        OptionError,
        ["Did you mean 'randomized_response'?"],
    ),
    "private": (lambda _: by_formula(private="respons"), OptionError, ["Did you mean 'response'?"]),
    "private by another name": (lambda _: by_formula(private="label"), OptionError, ["Did you mean 'response'?"]),
    "missing": (lambda _: by_formula(missing="nois"), OptionError, ["Did you mean 'noise'?"]),
    "missing of statsmodels": (lambda _: by_formula(missing="none"), OptionError, ["Did you mean 'raise'?"]),
    "numbers for Multinomial": (
        lambda _: by_formula("y ~ a", family="multinomial"),
        FormulaError,
        ["'y' is declared as a number", "levels={'y'"],
    ),
    "Squared without bounds": (
        lambda _: by_formula("y ~ a", family="squared", bounds={"a": (0, 1)}, moments={"y": (0, 1)}),
        SchemaError,
        ["Squared()", "bounds={'y': (low, high)}"],
    ),
    "counts beyond y_max": (
        lambda _: by_formula("y ~ a", family=pr.Poisson(20), bounds=COUNTS),
        SchemaError,
        ["0 to 50", "bounds={'y': (0, 20)}", "a larger y_max"],
    ),
    "max_per_id 0": (lambda _: by_formula(id="name", max_per_id=0), OptionError, ["max_per_id=0", "1 or more"]),
    "max_per_id without id": (lambda _: by_formula(max_per_id=2), OptionError, ["id='person'"]),
    "id a covariate": (lambda _: by_formula(id="g"), SchemaError, ["id='g'", "column of the model too"]),
    "mu column without mu_max": (lambda _: by_formula(mu="name"), BudgetError, ["mu='name'", "mu_max=1.0"]),
    "mu_max without a column": (lambda _: by_formula(mu_max=1.0), BudgetError, ["mu_max=1.0", "mu='column'"]),
    "mu a covariate": (lambda _: by_formula(mu="b", mu_max=1.0), SchemaError, ["mu='b'", "column of the model too"]),
    "delta beside mu": (lambda _: by_formula(delta=1e-6), BudgetError, ["exactly one", "epsilon=1.0, delta=1e-6"]),
    "epsilon huge": (lambda _: by_formula(mu=GONE, epsilon=1e13), BudgetError, ["epsilon=1e+13", "1e-12 to 1e12"]),
    "exposure from 0": (
        lambda _: by_formula("y ~ a", family=pr.Poisson(50), bounds=COUNTS, exposure="b"),
        SchemaError,
        ["exposure='b'", "0 < low"],
    ),
}


class Binomial:
    """Stands for ``statsmodels.api.families.Binomial``."""


FAMILIES = {
    "an object of statsmodels": (lambda _: by_formula(family=Binomial()), ["got Binomial", "mean Logistic()?"]),
    "a class of statsmodels": (lambda _: by_formula(family=Binomial), ["got Binomial", "mean Logistic()?"]),
    "Poisson without brackets": (lambda _: by_formula(family=pr.Poisson), ["lacks its brackets", "Poisson(y_max=20)"]),
    "custom without arguments": (
        lambda _: by_formula(family=pr.families.custom),
        ["custom(name, score, bound)"],
    ),
}

FORMULAS = {
    "all columns": (lambda _: by_formula("y ~ ."), FormulaError, ["'y ~ .'", "name the columns"]),
    "all columns but one": (lambda _: by_formula("y ~ . - a"), FormulaError, ["name the columns"]),
    "random intercept": (lambda _: by_formula("y ~ a + (1|g)"), FormulaError, ["(1|g)", "C(g)", "id="]),
    "random slope": (lambda _: by_formula("y ~ a + (1 + a | g)"), FormulaError, ["random effect", "C(g)"]),
    "log": (lambda _: by_formula("y ~ log(a)"), FormulaError, ["log() is not written so", "write np.log(a)."]),
    "log of the response": (lambda _: by_formula("ln(y) ~ a"), FormulaError, ["write np.log(y)"]),
    "math.sqrt": (lambda _: by_formula("y ~ math.sqrt(a)"), FormulaError, ["write np.sqrt(a)"]),
    "factor": (lambda _: by_formula("y ~ factor(g)"), FormulaError, ["C(g)", "levels={'g'"]),
    "as.factor": (lambda _: by_formula("y ~ as.factor(g)"), FormulaError, ["R's", "C(g)", "levels={'g'"]),
    "relevel": (lambda _: by_formula("y ~ relevel(g, ref='v')"), FormulaError, ["C(g, Treatment('v'))"]),
    "a contrast of R": (lambda _: by_formula("y ~ C(g, contr.sum)"), FormulaError, ["write C(g, Sum)"]),
    "a contrast in quotes": (lambda _: by_formula("y ~ C(g, 'contr.helmert')"), FormulaError, ["write C(g, Helmert)"]),
    "a reference in C()": (lambda _: by_formula("y ~ C(g, ref='v')"), FormulaError, ["C(g, Treatment('v'))"]),
    "ifelse": (lambda _: by_formula("y ~ ifelse(a > 1, 1, 0)"), FormulaError, ["np.where(a > 1, 1, 0)"]),
    "a method": (lambda _: by_formula("y ~ a.clip(0, 1)"), FormulaError, ["np.clip(a, 0, 1)"]),
    "is.na": (lambda _: by_formula("y ~ is.na(a)"), FormulaError, ["missing="]),
    "in of R": (lambda _: by_formula("y ~ g %in% c(1)"), FormulaError, ['I((g == "a")']),
    "extrapolation": (
        lambda _: by_formula("y ~ bs(a, knots=[0], lower_bound=-2, upper_bound=2, extrapolation='clip')"),
        FormulaError,
        ["no argument extrapolation=", "degree=", "clamped"],
    ),
    "a spline without bounds": (
        lambda _: by_formula("y ~ bs(a, knots=[0])"),
        PrivacyLeakError,
        ["take its bounds by the data"],
    ),
    "poly": (lambda _: by_formula("y ~ poly(a, 2)"), PrivacyLeakError, ["I(x**2)"]),
    "natural spline": (lambda _: by_formula("y ~ ns(a, 3)"), PrivacyLeakError, ["cr(x, knots="]),
    "scale": (lambda _: by_formula("y ~ scale(a)"), PrivacyLeakError, ["public numbers"]),
    "a power of R": (lambda _: by_formula("y ~ a^2"), FormulaError, ["I(a**2)"]),
    "a power of a sum": (lambda _: by_formula("y ~ (a + b)^2"), FormulaError, ["(x1 + x2)**2"]),
    "smooth": (lambda _: by_formula("y ~ s(a)"), PrivacyLeakError, ["cr(x, knots="]),
    "offset": (lambda _: by_formula("y ~ a + offset(b)"), FormulaError, ["offset='b'"]),
}

PREDICTIONS = {
    "type of R": (
        lambda _: results().predict(rows(), type="response"),
        ["no argument 'type'", "which='mean'", "'class'"],
    ),
    "linear of statsmodels": (lambda _: results().predict(rows(), linear=True), ["no argument 'linear'", "'linear'"]),
    "offset of statsmodels": (lambda _: results().predict(rows(), offset=rows()["a"]), ["'offset'", "(exog, offset)"]),
    "interval of R": (lambda _: results().predict(rows(), interval="confidence"), ["get_prediction(new)"]),
    "transform": (lambda _: results().predict(rows(), transform=False), ["go through the formula"]),
    "newdata": (lambda _: results().predict(newdata=rows()), ["'newdata'", "exog="]),
    "which of get_prediction": (
        lambda _: results().get_prediction(rows(), which="linear"),
        ["get_prediction() has no argument 'which'", "predict(new, which='linear')"],
    ),
    "alpha of get_prediction": (lambda _: results().get_prediction(rows(), alpha=0.1), ["summary_frame(alpha=0.1)"]),
    "a typo": (lambda _: results().predict(rows(), wich="mean"), ["predict() has no argument 'wich'"]),
}

WHICH = {
    "response": (lambda _: results().predict(rows(), which="response"), OptionError, ["Did you mean 'mean'?"]),
    "prob": (lambda _: results().predict(rows(), which="prob"), OptionError, ["Did you mean 'mean'?"]),
    "link": (lambda _: results().predict(rows(), which="link"), OptionError, ["Did you mean 'linear'?"]),
}

COLUMNS = {
    name: (
        lambda _, name=name: by_formula(**{name: rows()["a"]}),
        OptionError,
        [f"{name} must be the name of a column", "got Series", f"PrivateOnlineRegression(endog, exog, {name}=...)"],
    )
    for name in ("offset", "exposure")
}

EARLY = {
    "Gaussian noise for pure epsilon": (
        lambda _: by_formula(mu=GONE, epsilon=1, mechanism="gaussian"),
        OptionError,
        ["mechanism='gaussian' can't give pure epsilon=1", "add delta="],
    ),
    "randomized response of several numbers": (
        lambda _: by_formula(mechanism="randomized_response"),
        OptionError,
        ["mechanism='randomized_response' is for one number", "a score report here has 4"],
    ),
    "the same of arrays": (
        lambda _: by_arrays(mechanism="randomized_response"),
        OptionError,
        ["a score report here has 3"],
    ),
    "one number of several classes": (
        lambda _: by_formula("g ~ a", family="multinomial", private="response", levels={"g": ["u", "v", "w"]}),
        OptionError,
        ["private='response' randomises one number", "private='record'"],
    ),
}

OF_OPTIONS = {
    group: {name: (call, UnsupportedArgumentError, pieces) for name, (call, pieces) in named.items()}
    for group, named in (("fit", FITS), ("model", MODELS), ("family", FAMILIES), ("prediction", PREDICTIONS))
}
OF_VALUES = {"value": VALUES, "formula": FORMULAS, "which": WHICH, "columns": COLUMNS, "before a fit": EARLY}


@pytest.mark.parametrize(("call", "error", "pieces"), cases(**OF_OPTIONS, **OF_VALUES))
def test_wrong_calls_are_told_what_to_write(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)


@pytest.mark.parametrize(
    ("score", "bound", "said"),
    [
        (lambda eta, y: 3.0 * math.tanh(eta - y), 1.0, "exceeds its declared bound 1"),
        (lambda eta, y: math.tanh(y - eta), 1.0, "its sign is turned"),
    ],
)
def test_a_score_that_is_not_what_it_should_be_warns(score, bound, said):
    with pytest.warns(PrivregWarning, match=said) as caught:
        pr.families.custom("mine", score, bound)
    assert [w.filename for w in caught] == [__file__]


def test_a_right_score_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.families.custom("mine", tanh, 1.0).bound == 1.0


LOCAL, CURATOR = pr.PrivateOnlineRegression, pr.central.Regression
MEANS, SILOS = pr.means.PrivateMeans, pr.federated.FederatedRegression
CALLS = {
    "local.arrays": LOCAL,
    "local.formula": LOCAL.from_formula,
    "local.start": LOCAL.start,
    "local.fit": LOCAL.fit,
    "curator.arrays": CURATOR,
    "curator.formula": CURATOR.from_formula,
    "curator.fit": CURATOR.fit,
    "means.arrays": MEANS,
    "means.formula": MEANS,  # from_formula() hands on what it gets
    "means.start": MEANS.start,
    "means.fit": MEANS.fit,
    "silos.arrays": SILOS,
    "silos.formula": SILOS.from_formula,
    "silos.fit": SILOS.fit,
    "plan.formula": pr.plan,
}
ELSEWHERE = sorted({name for o in TABLE for name in o.elsewhere.split()})


@pytest.mark.parametrize("door", DOORS)
def test_the_table_has_what_a_front_door_takes(door):
    there = {n: p for n, p in inspect.signature(CALLS[door]).parameters.items() if p.kind is p.KEYWORD_ONLY}
    assert set(accepted(door)) == set(there)
    assert sum(o.takes(door) for o in TABLE if o.name) == len(there), "two records of one option"
    for name, parameter in there.items():
        option = accepted(door)[name]
        assert parameter.default is UNSET if name == "mu" else parameter.default == option.default, name
        if option.kind == "choice" and option.default is not None:
            assert option.default in option.choices
        assert option.kind not in {"number", "whole", "count", "flag"} or name in UNCHECKED or option.what, name


UNCHECKED = {"mu", "epsilon", "delta", "rho", "mu_max", "m", "scale"}
"""Numbers that other rules than a range are for: exactly one budget, a number that depends on the columns."""


def test_the_table_has_the_choices_that_there_are():
    def choices(door, name):
        return {c for c in accepted(door)[name].choices if c != "auto"}

    assert choices("local.formula", "mechanism") == set(MECHANISMS)
    assert choices("means.formula", "mechanism") == {*NUMBER_MECHANISMS, "privunit"}
    assert choices("silos.formula", "mechanism") == set(UPDATE_MECHANISMS)
    assert choices("means.formula", "frequencies") == set(FREQUENCIES)
    assert choices("local.fit", "inference") == set(METHODS)


def test_a_name_of_another_library_is_no_option():
    own = {name for door in DOORS if door.startswith("local") for name in accepted(door)}
    assert own.isdisjoint({n for n in ELSEWHERE if n != "alpha"})  # of fit(), and of intervals


def test_a_hint_names_options_that_there_are():
    known = {o.name for o in TABLE} | {"family", "inference"}
    for o in TABLE:
        assert bool(o.hint) <= bool(o.elsewhere)
        for name in re.findall(r"\b([a-z_]+)=", o.hint):
            assert name in known | {"link"}, o.hint


@pytest.mark.parametrize("name", [*ELSEWHERE, "a_typo"])
def test_every_unknown_option_is_refused_in_one_line_that_names_it(name):
    for door in DOORS:
        if name in accepted(door):
            continue
        with pytest.raises(UnsupportedArgumentError) as caught:
            refuse_unknown(door, [name])
        assert isinstance(caught.value, PrivregError)
        assert str(caught.value).isprintable()
        assert repr(name) in str(caught.value)


CHECKED = [o for o in TABLE if o.kind in {"choice", "number", "whole", "count", "flag"} and (o.choices or o.what)]


@pytest.mark.parametrize("option", CHECKED, ids=lambda o: f"{o.name} {o.doors or o.verbs}")
def test_a_wrong_value_is_refused_by_its_options_name_and_of_a_column_nothing_is_told(option):
    for value in ("27182", [27182], rows()["a"], 1j, b"27182", -27182.5):
        with pytest.raises(OptionError) as caught:
            option.check(value)
        assert str(caught.value).startswith(f"{option.name}=")
        assert isinstance(value, str | float) or "27182" not in str(caught.value)


def test_ranges_are_open_or_closed_as_they_say():
    assert Option("x", kind="number", high=1.0, closed=True, what="").check(1) == 1.0
    for record, wrong in (
        (Option("x", kind="number", high=1.0, what="in (0, 1)"), (0, 1, -1, math.nan, True, "a")),
        (Option("x", kind="whole", low=1, high=9, what="1 to {high:,}"), (0, 10, 1.0, True)),
        (Option("x", kind="flag", what="True or False"), (0, 1, "True")),
    ):
        for value in wrong:
            with pytest.raises(OptionError, match=r"^x=.* must be"):
                record.check(value)
    assert accepted("curator.fit")["lanes"].check(7, high=7) == 7
    with pytest.raises(OptionError, match="1 to 6"):
        accepted("curator.fit")["lanes"].check(7, high=6)


def test_the_families_and_their_module_are_at_hand():
    assert pr.families.custom is not None
    for name in ("Expectile", "Quantile", "Multinomial", "Poisson", "Hinge", "SmoothedHinge", "Squared", "Ledger"):
        assert name in pr.__all__
        assert getattr(pr, name) is not None
    assert isinstance(pr.Squared(), pr.families.Family)
    assert set(pr.__all__) <= set(dir(pr))


@pytest.mark.parametrize(
    "formula",
    ["y ~ I(a * .5)", "y ~ I(a * 1.)", "y ~ I((a > 1) | (b > 0.5))", 'y ~ Q("b . c")', "y ~ np.log1p(a) + (a + b)"],
)
def test_formulas_that_only_look_like_those_of_r(formula):
    from privreg.formula.parse import _parse

    assert _parse(formula) is not None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("MNLogit", "family=pr.Multinomial()"),
        ("GLM", "family=pr.Logistic() (or pr.Poisson(y_max=20), pr.Huber())"),
        ("glm", "family=pr.Logistic() (or"),
        ("OLS", "family=pr.Huber()"),
        ("lm", "family=pr.Huber()"),
        ("RLM", "family=pr.Huber()"),
        ("Logit", "family=pr.Logistic()"),
        ("logit", "family=pr.Logistic()"),
        ("LogisticRegression", "family=pr.Logistic()"),
        ("poisson", "family=pr.Poisson(y_max=20)"),
        ("QuantReg", "family=pr.Quantile(0.5)"),
        ("LinearSVC", "family=pr.Hinge()"),
    ],
)
def test_models_of_other_libraries_are_told_by_their_family(name, family):
    with pytest.raises(AttributeError) as caught:
        getattr(pr, name)
    assert f"privreg has no {name!r}: write PrivateOnlineRegression.from_formula(" in str(caught.value)
    assert family in str(caught.value)
    assert not hasattr(pr, name)


@pytest.mark.parametrize(("name", "said"), [("Hubber", "did you mean 'Huber'?"), ("xyzzy", "attribute 'xyzzy'")])
def test_other_names_that_are_not_there(name, said):
    with pytest.raises(AttributeError, match="module 'privreg' has no attribute") as caught:
        getattr(pr, name)
    assert str(caught.value).endswith(said)


def test_what_a_mechanism_can_give_is_built_as_before():
    for more in ({"mechanism": "laplace"}, {"mechanism": "gaussian"}, {"mechanism": "privunit"}):
        assert by_formula(**more) is not None
    assert by_formula("y ~ 1", mechanism="randomized_response") is not None
    assert by_formula(private="response", mechanism="randomized_response") is not None
    assert by_formula(mu=None, mechanism="gaussian") is not None
