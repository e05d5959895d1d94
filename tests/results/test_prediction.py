"""Predictions on the scale of each family, as a class where there are classes, and with their errors."""

import dataclasses
import math

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

import privreg as pr
from privreg.errors import DataError, NotPrivateError, OptionError, SchemaError
from privreg.families.builtin import (
    Expectile,
    Hinge,
    Huber,
    Logistic,
    Poisson,
    Quantile,
    SmoothedHinge,
    Squared,
    custom,
)
from privreg.formula.arrays import array_design
from privreg.formula.design import formula_design
from privreg.inference.methods import Estimate, RandomScaling, StudentT
from privreg.results.results import PrivateResults
from privreg.schema.declarations import Schema
from tests.helpers import array_model

pytestmark = pytest.mark.usefixtures("few_rounds")

BOUNDS = {"x": (-2, 2), "y": (0, 20), "o": (-1, 1), "t": (0.5, 4)}
PARAMS = np.array([0.2, -1.5])
COV = np.array([[0.04, 0.01], [0.01, 0.09]])
NEW = pd.DataFrame({"x": [-2.0, 0.0, 0.5, 0.2 / 1.5]}, index=list("abcd"))
ETA = 0.2 - 1.5 * NEW["x"].to_numpy()
IDENTITY = (Huber(), Quantile(0.9), Expectile(0.2), Squared(), custom("mine", lambda eta, y: math.tanh(eta - y), 1.0))
MARGINS = (Hinge(), SmoothedHinge(0.5), custom("mine", lambda eta, y: 0.0, 1.0, link="margin", response="binary"))


@pytest.fixture(scope="module")
def base():
    return array_model(2000).fit(seed=1, progress=False)._fit


def made(base, family, response="y", levels=None, pivot=None, **design):
    """A result with the coefficients and covariance above."""
    schema = Schema.declare({n: b for n, b in BOUNDS.items() if n != response or levels is None}, levels)
    formula = formula_design(f"{response} ~ x", schema, kind=family.kind, **design)
    estimates = (Estimate("random_scaling", COV, pivot or RandomScaling()),)
    names = tuple(formula.names)
    fit = dataclasses.replace(
        base, design=formula, family=family, names=names, params=PARAMS, last=PARAMS, estimates=estimates
    )
    return PrivateResults(fit)


# --- the mean --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", IDENTITY, ids=lambda f: f.name)
def test_lines_are_predicted_as_they_are(base, family):
    res = made(base, family)
    for which in ("mean", "linear"):
        found = res.predict(NEW, which=which)
        np.testing.assert_allclose(found, ETA)
        assert list(found.index) == list("abcd")


def test_logistic_predicts_probabilities(base):
    res = made(base, Logistic(), "g", {"g": ["no", "yes"]})
    np.testing.assert_allclose(res.predict(NEW), expit(ETA))
    np.testing.assert_allclose(res.predict(NEW, which="linear"), ETA)


def test_poisson_predicts_counts_at_the_rows_exposure(base):
    res = made(base, Poisson(20), offset="o", exposure="t")
    np.testing.assert_allclose(res.predict(NEW), np.exp(ETA))
    exposed = NEW.assign(o=[0.5, -7.0, 0.0, 1.0], t=[2.0, 1.0, 100.0, 0.25])
    want = exposed["t"] * np.exp(exposed["o"] + ETA)
    np.testing.assert_allclose(res.predict(exposed), want)
    np.testing.assert_allclose(res.predict(exposed, which="linear"), np.log(want))
    frame = res.get_prediction(exposed).summary_frame()
    np.testing.assert_allclose(frame["mean"], want)


@pytest.mark.parametrize("family", MARGINS, ids=lambda f: f.name)
def test_margins_are_not_made_probabilities(base, family):
    res = made(base, family, "g", {"g": ["no", "yes"]})
    np.testing.assert_allclose(res.predict(NEW), ETA)
    assert res.predict(NEW).max() > 1
    assert res.predict(NEW, which="class").tolist() == ["yes", "yes", "no", "no"]
    text = " ".join(PrivateResults.predict.__doc__.split())
    assert "margin, which is no probability" in text


# --- classes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("levels", [["no", "yes"], [2, 1], [False, True], [0.5, 1.5]])
def test_classes_are_the_declared_levels(base, levels):
    for family in (Logistic(), Hinge()):
        found = made(base, family, "g", {"g": levels}).predict(NEW, which="class")
        assert found.tolist() == [levels[1], levels[1], levels[0], levels[0]]  # η is 0 in the last row: a tie
        assert list(found.index) == list("abcd")


@pytest.mark.parametrize("family", [Logistic(), SmoothedHinge()], ids=lambda f: f.name)
def test_classes_of_a_response_without_levels_are_0_and_1(base, family):
    found = made(base, family, "won").predict(NEW, which="class")
    assert found.tolist() == [1, 1, 0, 0]
    assert found.dtype == np.int64
    assert made(base, family, "I(y > 3)").predict(NEW, which="class").tolist() == [1, 1, 0, 0]


def test_the_offset_moves_the_class(base):
    res = made(base, Logistic(), "won", offset="o")
    assert res.predict(NEW.assign(o=[-9.0, -9, 9, 9]), which="class").tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("family", [*IDENTITY, Poisson(20)], ids=lambda f: f.name)
def test_families_without_classes_say_what_there_is(base, family):
    res = made(base, family)
    with pytest.raises(OptionError, match=r"which='class' needs a family of classes.*'mean', 'linear'"):
        res.predict(NEW, which="class")
    with pytest.raises(OptionError, match="'mean', 'linear'") as caught:
        res.predict(NEW, which="prob")
    assert "'class'" not in str(caught.value)


def test_unknown_predictions_of_classes_are_refused(base):
    for family in (Logistic(), Hinge()):
        with pytest.raises(OptionError, match="'mean', 'linear', 'class'"):
            made(base, family, "won").predict(NEW, which="prob")
    with pytest.raises(NotPrivateError, match="public covariate values"):
        made(base, Huber()).predict()


def test_arrays_predict_classes(base):
    schema = Schema.declare({"x": (-2, 2)}, {"g": ["no", "yes"]})
    design = array_design(["const", "x"], "g", schema, kind="binary")
    res = PrivateResults(
        dataclasses.replace(base, design=design, family=Logistic(), names=design.names, params=PARAMS, estimates=())
    )
    x = np.column_stack([np.ones(4), NEW["x"]])
    assert res.predict(x, which="class").tolist() == ["yes", "yes", "no", "no"]
    np.testing.assert_allclose(res.predict(x), expit(ETA))


# --- with errors -----------------------------------------------------------------------------------------


FAMILIES = {
    "identity": (Quantile(0.9), "y", None, lambda v: v, np.ones_like),
    "margin": (Hinge(), "won", None, lambda v: v, np.ones_like),
    "log": (Poisson(20), "y", None, np.exp, np.exp),
    "logit": (Logistic(), "g", {"g": ["no", "yes"]}, expit, lambda v: expit(v) * (1 - expit(v))),
}


@pytest.mark.parametrize("link", FAMILIES)
@pytest.mark.parametrize("pivot", [RandomScaling(), StudentT(7)])
def test_limits_go_through_the_inverse_link(base, link, pivot):
    family, response, levels, inverse, slope = FAMILIES[link]
    res = made(base, family, response, levels, pivot)
    found = res.get_prediction(NEW)
    x = np.column_stack([np.ones(4), NEW["x"]])
    se = np.sqrt(np.einsum("ij,jk,ik->i", x, COV, x))
    half = pivot.critical(0.1) * se
    np.testing.assert_allclose(found.predicted_mean, inverse(ETA))
    np.testing.assert_allclose(found.se_mean, se * slope(ETA))
    np.testing.assert_allclose(found.conf_int(0.1), np.column_stack([inverse(ETA - half), inverse(ETA + half)]))
    frame = found.summary_frame(0.1)
    assert list(frame.columns) == ["mean", "mean_se", "mean_ci_lower", "mean_ci_upper", "reliable"]
    assert (frame["reliable"] == res.tidy()["reliable"].all()).all()
    np.testing.assert_array_equal(frame["mean"], res.predict(NEW))
    assert list(frame.index) == list("abcd")


def test_predictions_of_fits():
    rng = np.random.default_rng(0)
    n = 6000
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n)})
    data["y"] = np.clip(rng.poisson(np.exp(1 + data["x"])), 0, 20).astype(float)
    data["won"] = (data["x"] + rng.normal(size=n) > 0).astype(float)
    for family, response in ((Poisson(20), "y"), (Quantile(0.5), "y"), (Logistic(), "won"), (Hinge(), "won")):
        bounds = {"x": (-1, 1)} if response == "won" else {"x": (-1, 1), "y": (0, 20)}
        model = pr.PrivateOnlineRegression.from_formula(f"{response} ~ x", data, family=family, mu=None, bounds=bounds)
        res = model.fit(progress=False)
        mean = res.predict({"x": [-1.0, 1.0]})
        assert mean[1] > mean[0]
        if family.link == "log":
            np.testing.assert_allclose(mean, np.exp([0, 2]), rtol=0.15)
        if response == "won":
            assert res.predict({"x": [-1.0, 1.0]}, which="class").tolist() == [0, 1]
            right = (res.predict(data, which="class") == data["won"]).mean()
            assert right > 0.65


# --- what is not private ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("rsquared", "it needs every residual; fit(measures=0.05) releases a private one, in res.fit_measures"),
        ("rsquared_adj", "res.fit_measures"),
        ("deviance", "fit(measures=0.05)"),
        ("null_deviance", "res.fit_measures"),
        ("scale", "Huber(scale=)"),
        ("get_margeff", "marginal_effects(at)"),
        ("pred_table", "which='class'"),
    ],
)
def test_messages_name_what_there_is(base, name, words):
    with pytest.raises(NotPrivateError) as caught:
        getattr(PrivateResults(base), name)
    assert words in str(caught.value)
    assert isinstance(caught.value, AttributeError)


def test_which_is_checked_before_anything_is_read(base):
    with pytest.raises(OptionError, match="which='klass'"):
        made(base, Logistic(), "won").predict(None, which="klass")


def test_new_rows_that_cant_be_used_are_not_offered_what_fits_do_with_them(base):
    design = formula_design("y ~ g", Schema.declare({"y": (0, 20)}, {"g": ["a", "b"]}), kind=Huber().kind)
    factor = PrivateResults(dataclasses.replace(base, design=design, names=tuple(design.names), params=PARAMS))
    arrays = PrivateResults(base)
    for call in (
        lambda: made(base, Huber()).predict({"x": [0.5, None]}),
        lambda: made(base, Huber(), offset="o").predict({"x": [0.5], "o": ["much"]}),
        lambda: factor.predict({"g": ["c"]}),
        lambda: factor.predict({"g": [None]}),
        lambda: arrays.predict(np.full((1, len(arrays.params)), np.nan)),
    ):
        with pytest.raises((DataError, SchemaError), match="new rows") as caught:
            call()
        assert "noise" not in str(caught.value)
