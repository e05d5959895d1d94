"""Calls as other libraries have them, or with a slip of the pen: the message names what to write instead."""

import inspect
import math
import re
import warnings

import pytest

import privreg as pr
from privreg import options
from privreg.errors import (
    PrivregError,
    PrivregWarning,
    UnsupportedArgumentError,
)
from privreg.options import ARRAY_OPTIONS, FIT_OPTIONS, MODEL_OPTIONS, START_OPTIONS
from tests.wrong import by_formula


def tanh(eta, y):
    return math.tanh(eta - y)


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


def test_hints_know_the_options_there_are():
    built = pr.PrivateOnlineRegression
    known = set()
    for call, names in (
        (built.from_formula, MODEL_OPTIONS),
        (built, ARRAY_OPTIONS),
        (built.fit, FIT_OPTIONS),
        (built.start, START_OPTIONS),
    ):
        there = {k for k, v in inspect.signature(call).parameters.items() if v.kind is v.KEYWORD_ONLY}
        known |= there
        # personal budgets and ids go by the names of columns, which arrays have none of: they are refused by name
        assert set(names) - there <= ({"mu_max", "id", "max_per_id"} if call is built else set())
        assert there <= set(names)
    assert not known & set(options._MEANT)


def test_a_hint_names_options_that_there_are():
    for text in options._MEANT.values():
        for name in re.findall(r"\b([a-z_]+)=", text):
            assert name in {*ARRAY_OPTIONS, *FIT_OPTIONS, "c", "scale", "y_max", "width", "link"}, text


@pytest.mark.parametrize("name", [*options._MEANT, "a_typo"])
def test_every_unknown_option_is_refused_in_one_line_that_tells_no_value(name):
    for where, known in (("fit", FIT_OPTIONS), ("from_formula", MODEL_OPTIONS)):
        with pytest.raises(UnsupportedArgumentError) as caught:
            options.refuse_unknown(where, {name: 27182.818}, known)
        assert isinstance(caught.value, PrivregError)
        assert str(caught.value).isprintable()
        assert "27182" not in str(caught.value)
        assert repr(name) in str(caught.value)


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
