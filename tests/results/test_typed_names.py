"""Names of coefficients and terms, typed with blanks or without, at every door that takes one."""

import dataclasses
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest

import privreg as pr
from privreg.collector.inference.pivots import Normal
from privreg.errors import FormulaError, OptionError, as_named
from privreg.families import FAMILIES
from privreg.fits.plan import guess_of
from privreg.planning.plan import find
from privreg.planning.power import _assumed
from privreg.schema.declarations import Schema
from tests.helpers import array_model
from tests.results.made import BOUNDS, LEVELS, made

SPLINE = "bs(z, knots=[1, 2], lower_bound=0.5, upper_bound=4)"
RIGHT = f"I(x**2) + C(g) + x:s + {SPLINE}"
TYPED = {
    "I(x ** 2)": ("I(x**2)", "I( x**2 )", "I(x ** 2)"),
    "C(g)[T.b]": ("C(g)[T.b]", "C( g )[T.b]", "C(g) [ T.b ]"),
    "x:s[no]": ("x:s[no]", "x : s[no]", "x: s[ no ]"),
    "bs(z, knots=[1, 2], lower_bound=0.5, upper_bound=4)[1]": (
        "bs(z,knots=[1,2],lower_bound=0.5,upper_bound=4)[1]",
        "bs(z, knots = [1, 2], lower_bound = 0.5, upper_bound = 4)[1]",
    ),
}
CASES = [(name, typed) for name, all_ in TYPED.items() for typed in all_]
TERMS = [("C(g)", "C( g )"), ("x:s", "x : s"), (SPLINE, SPLINE.replace("=", " = ")), ("I(x ** 2)", "I(x**2)")]


@pytest.fixture(scope="module")
def res():
    fit = array_model(2000).fit(seed=1, progress=False)._fit
    base = dataclasses.replace(fit, statement=dataclasses.replace(fit.statement, notes=()))
    return made(base, RIGHT, FAMILIES["squared"](), pivot=Normal())


def _joined(res, typed):
    other = type(res)(dataclasses.replace(res._fit, params=res._fit.params + 1.0, origin=object()))
    return pr.meta_analysis({"a": res, "b": other}, terms=[typed]).frame()


def _drawn(draw):
    try:
        return [line.get_label() for line in draw().get_lines()]
    finally:
        plt.close("all")


DOORS = {
    "t_test": lambda res, name: res.t_test(name).effect.tolist(),
    "t_test of an equation": lambda res, name: res.t_test(f"2 * {name} - x:s[yes] = 3").tvalue.tolist(),
    "t_test by name": lambda res, name: res.t_test({name: 1.0}).tvalue.tolist(),
    "wald_test of a list": lambda res, name: res.wald_test([name, "Intercept"]).statistic,
    "wald_test of equations": lambda res, name: res.wald_test(f"{name} = 0, Intercept = 1").statistic,
    "conf_int": lambda res, name: res.conf_int(cols=[name]).to_numpy().tolist(),
    "plot_coef": lambda res, name: _drawn(lambda: res.plot_coef([name])),
    "meta_analysis": lambda res, name: _joined(res, name).to_numpy().tolist(),
    "plan": lambda res, name: find(name, res._fit.names),
    "plan's params": lambda res, name: _assumed(_spec(res._fit.names), None, {name: 2.0}, *[None] * 3).params.tolist(),
    "start_params": lambda res, name: guess_of(_spec(res._fit.names), _in_place(res, name)).tolist(),
}


def _spec(names):
    """All that is asked of a model for a first guess, in the user's units, and for coefficients that are assumed."""
    inside = SimpleNamespace(params_inside=lambda values: values)
    design = SimpleNamespace(names=names, columns=(), endog_sources=(), cuts=None, schema=Schema())
    return SimpleNamespace(
        coefficients=names,
        units=inside,
        design=design,
        people=SimpleNamespace(followed=None),
        family=FAMILIES["logistic"](),
    )


def _in_place(res, typed):
    """Numbers by name, one of them by a name as it was typed."""
    at = res._fit.names.index(as_named(typed, res._fit.names))
    return {typed if j == at else n: 2.0 * (j == at) for j, n in enumerate(res._fit.names)}


@pytest.mark.thorough
def test_a_calculated_terms_name_is_said(res):
    for typed in ("x**2 = 0", "z + x ** 2"):
        with pytest.raises(FormulaError, match=r"x\*\*2 is called 'I\(x \*\* 2\)' there; write 'I\(x \*\* 2\) = 0'"):
            res.t_test(typed)
    with pytest.raises(FormulaError, match="'q' is no coefficient"):
        res.t_test("I(x**2) = 0, q = 0")


@pytest.mark.some(1)
@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize(("name", "typed"), CASES)
def test_a_coefficients_name_is_known_with_blanks_and_without(res, door, name, typed):
    assert name in res._fit.names
    np.testing.assert_equal(DOORS[door](res, typed), DOORS[door](res, name))


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "typed"), TERMS)
def test_a_terms_name_is_known_with_blanks_and_without(res, name, typed):
    for of in (res.wald_test, res.t_test):
        np.testing.assert_equal(str(of(typed)), str(of(name)))
    assert _drawn(lambda: res.plot_coef(typed)) == _drawn(lambda: res.plot_coef(name))
    assert _joined(res, typed).equals(_joined(res, name))


@pytest.mark.thorough
def test_a_factor_and_a_curve_are_known_with_blanks_and_without(res):
    assert str(res.t_test_pairwise("C( g )")) == str(res.t_test_pairwise("C(g)"))
    assert res.smooth(SPLINE.replace("=", " = ")).term == res.smooth(SPLINE).term == SPLINE


@pytest.mark.thorough
def test_a_plan_takes_a_name_without_blanks():
    declared = {"bounds": {"x": (-1, 1), "y": (0, 5)}}
    widths = [
        pr.plan("y ~ x + I(x**2)", mu=2, n=20_000, coef=c, effect=0.3, **declared) for c in TYPED["I(x ** 2)"][:2]
    ]
    assert list(widths[0].goal.effects) == list(widths[1].goal.effects) == ["I(x ** 2)"]


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "typed"), CASES)
def test_a_first_guess_is_taken_by_names_with_blanks_and_without(name, typed):
    declared = {"bounds": {n: BOUNDS[n] for n in "xyz"}, "levels": {n: LEVELS[n] for n in "gs"}}
    spec = pr.PrivateOnlineRegression.from_formula(f"y ~ {RIGHT}", None, mu=1, **declared)._spec
    guess = dict.fromkeys(spec.coefficients, 0.0)
    want = guess_of(spec, guess | {name: 2.0})
    np.testing.assert_array_equal(guess_of(spec, {typed if n == name else n: 2.0 * (n == name) for n in guess}), want)


@pytest.mark.parametrize("wrong", ["I(x**3)", "C(g)[T. d]", "x : q", "I(x2 ** 2)", "I(x * * 2 3)"])
def test_another_name_is_no_coefficient(res, wrong):
    for door in ("t_test", "conf_int", "plot_coef", "plan", "plan's params"):
        with pytest.raises((FormulaError, OptionError)):
            DOORS[door](res, wrong)


def test_blanks_between_words_and_names_that_differ_by_blanks_count():
    assert as_named("C(g)[T.high  risk]", ["C(g)[T.high risk]"]) == "C(g)[T.high risk]"
    assert as_named("C(g)[T.highrisk]", ["C(g)[T.high risk]"]) == "C(g)[T.highrisk]"
    assert as_named('Q("a b")', ["Q('a b')"]) == "Q('a b')"
    both = ["a-b", "a - b"]
    assert [as_named(name, both) for name in (*both, "a -b")] == [*both, "a -b"]
