"""Calls as other libraries have them, or with a slip of the pen: the message names what to write instead."""

import inspect
import math
import re
import warnings
from typing import Never

import pytest

import privreg as pr
from privreg.collector.inference.methods import METHODS
from privreg.errors import (
    OptionError,
    PrivregError,
    PrivregWarning,
    UnsupportedArgumentError,
)
from privreg.means.mechanisms import FREQUENCIES
from privreg.options.table import DOORS, TABLE, Option, accepted
from privreg.options.unknown import OPTIONS, refuse_unknown
from privreg.privacy.ledger import UNSET
from privreg.privacy.mechanisms import MECHANISMS
from privreg.privacy.scalar import NUMBER_MECHANISMS
from privreg.published import descent
from privreg.published.federated.reports import UPDATE_MECHANISMS
from tests.wrong import by_formula, rows

COUNTS = {"a": (0, 40_000), "b": (0, 1), "y": (0, 50)}


def tanh(eta, y):
    return math.tanh(eta - y)


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_a_right_score_does_not_warn():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert pr.families.custom("mine", tanh, 1.0).bound == 1.0
        assert pr.families.custom("mine", tanh, 1.0, slope=1.0).slope == 1.0


@pytest.mark.thorough
def test_a_score_that_rises_faster_than_its_slope_warns():
    with pytest.warns(PrivregWarning, match="declared slope 0.5 on a public grid"):
        pr.families.custom("mine", tanh, 1.0, slope=0.5)


LOCAL = pr.PrivateOnlineRegression
MEANS, SILOS = pr.means.PrivateMeans, pr.federated.FederatedRegression
CALLS = {
    "local.arrays": LOCAL,
    "local.formula": LOCAL.from_formula,
    "local.start": LOCAL.start,
    "local.fit": LOCAL.fit,
    "curator.fit": descent.fit,
    "means.arrays": MEANS,
    "means.formula": MEANS,  # from_formula() hands on what it gets
    "means.start": MEANS.start,
    "means.fit": MEANS.fit,
    "silos.formula": SILOS.from_formula,
    "silos.fit": SILOS.fit,
    "plan.formula": pr.plan,
}
ELSEWHERE = sorted({name for o in OPTIONS for name in o.names})


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


UNCHECKED = {"mu", "epsilon", "delta", "rho", "mu_max", "epsilon_max", "m", "scale"}
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
    assert own.isdisjoint({n for n in ELSEWHERE if n not in {"alpha", "rows", "epochs"}})  # of intervals, plans, silos


def test_a_hint_names_options_that_there_are():
    known = {o.name for o in TABLE} | {"family", "inference"}
    for o in OPTIONS:
        assert not o.option or o.option in known
        for name in re.findall(r"\b([a-z_]+)=", o.hint):
            assert name in known | {"link"}, o.hint


@pytest.mark.some(50)
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
    from privreg.formula.language.parse import _parse

    assert _parse(formula) is not None


@pytest.mark.parametrize(
    ("name", "family"),
    [
        ("MNLogit", "family=pr.Multinomial()"),
        ("GLM", "family=pr.Logistic() (or pr.Poisson(y_max=20), pr.Huber())"),
        ("glm", "family=pr.Logistic() (or"),
        ("OLS", "family='gaussian'"),
        ("lm", "family='gaussian'"),
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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("power", "privreg.plan("),
        ("summary_col", "privreg.compare("),
        ("anova_lm", "privreg.anova("),
        ("TukeyHSD", "res.t_test_pairwise("),
        ("confint", "res.conf_int()"),
        ("t_test", "res.t_test("),
        ("smf", "privreg.PrivateOnlineRegression.from_formula("),
        ("stepAIC", "is another release"),
        ("lmer", "there are no random effects"),
        ("AIC", "needs every record"),
    ],
)
def test_functions_of_other_libraries_are_told_by_ours(name, said):
    with pytest.raises(AttributeError) as caught:
        getattr(pr, name)
    assert said in str(caught.value)


@pytest.mark.parametrize(("name", "said"), [("Hubber", "did you mean 'Huber'?"), ("xyzzy", "see dir(privreg).")])
def test_other_names_that_are_not_there(name, said):
    with pytest.raises(AttributeError, match=r"^privreg has no ") as caught:
        getattr(pr, name)
    assert str(caught.value).endswith(said)


@pytest.mark.thorough
def test_what_a_mechanism_can_give_is_built_as_before():
    for more in ({"mechanism": "laplace"}, {"mechanism": "gaussian"}, {"mechanism": "privunit"}):
        assert by_formula(**more) is not None
    assert by_formula("y ~ 1", mechanism="randomized_response") is not None
    assert by_formula(private="response", mechanism="randomized_response") is not None
    assert by_formula(mu=None, mechanism="gaussian") is not None


@pytest.mark.parametrize("door", DOORS)
def test_type_checkers_refuse_what_a_front_door_does_not_take(door):
    hints = inspect.signature(CALLS[door], eval_str=False).parameters
    assert [p.annotation for p in hints.values() if p.kind is p.VAR_KEYWORD] in ([], ["Never"], [Never])


def test_the_package_lists_what_users_need():
    assert dir(pr) == sorted([*pr.__all__, "connect"])  # which the kit for studies in the field adds
    for name in dir(pr):
        assert getattr(pr, name) is not None
