"""Tests of models with interactions: names in another order, what tests of main effects mean."""

import re

import pytest

import privreg as pr
from privreg.errors import FormulaError


@pytest.fixture(scope="module")
def res():
    people = pr.datasets.us_insurance(8_000)
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age * region + smoker", people, mu=4)
    return model.fit(seed=1, progress=False)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("region:age", "age:region"),
        ("C(region):age = 0", "age:region"),
        ("region[T.southeast]:age = 0", "age:region[T.southeast]"),
    ],
)
def test_an_interaction_in_another_order_is_answered_with_its_own(res, name, meant):
    with pytest.raises(FormulaError, match=re.escape(f"did you mean '{meant}'?")):
        res.wald_test(name)
    assert res.wald_test("age : region").statistic == res.wald_test("age:region").statistic


def test_a_level_that_is_none_is_answered_within_the_interaction(res):
    with pytest.raises(
        FormulaError, match=r"'region\[T.southeats\]:age' is no .*did you mean 'age:region\[T.southeast"
    ):
        res.t_test("region[T.southeats]:age = 0")


def test_a_factor_in_an_equation_is_answered_by_its_own_coefficients_only(res):
    with pytest.raises(FormulaError) as caught:
        res.wald_test("region = 0")
    assert "write 'region[T.northwest] = 0, region[T.southeast] = 0, region[T.southwest] = 0'" in str(caught.value)


# --- tests of terms ------------------------------------------------------------------------------------------


def test_terms_that_are_in_interactions_have_a_note(res):
    table = res.anova()
    for shown in (str(res.wald_test_terms()), repr(table), table._repr_html_()):
        flat = " ".join(shown.split())
        assert "Note: region, age are in age:region too" in flat
        assert "reference level" in flat
        assert "smoker," not in flat
    assert type(table.loc[["age"]]) is type(table)
    assert list(table.columns) == ["df", "df_denom", "chi2", "F", "PR(>F)", "reliable"]


@pytest.mark.thorough
def test_other_models_have_none():
    people = pr.datasets.us_insurance(4_000)
    model = pr.PrivateOnlineRegression.from_formula("charges ~ age + I(age**2) + region", people, mu=4)
    res = model.fit(seed=1, progress=False)
    assert "Note" not in repr(res.anova())
    assert " too:" not in str(res.wald_test_terms())
