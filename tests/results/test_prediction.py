"""Predictions on the scale of each family, as a class where there are classes, and with their errors."""

import dataclasses
import math

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy.special import expit

import privreg as pr
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import RandomScaling, StudentT
from privreg.errors import (
    DataError,
    NotPrivateError,
    OptionError,
    PrivregWarning,
    UnsupportedArgumentError,
)
from privreg.families import (
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
from privreg.formula.design import array_design, formula_design
from privreg.privacy.ledger import LEDGER
from privreg.results.results import PrivateResults
from privreg.schema.declarations import Schema
from tests.helpers import array_model

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


@pytest.mark.some(1)
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
    np.testing.assert_allclose(res.predict(NEW.assign(o=0.0, t=1.0)), np.exp(ETA))
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


@pytest.mark.some(3)
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


@pytest.mark.thorough
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
        ("get_margeff", "avg_slopes(res.for_marginaleffects(rows))"),
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


def with_factor(base):
    design = formula_design("y ~ g + np.log(x)", Schema.declare({"y": (0, 20), "x": (0.1, 2)}, {"g": ["a", "b"]}))
    names = tuple(design.names)
    one = Estimate("random_scaling", np.eye(3) / 100, StudentT(9))
    three = np.array([1.0, 2.0, -1.0])
    fit = dataclasses.replace(base, design=design, names=names, params=three, last=three, estimates=(one,))
    return PrivateResults(fit)


def test_a_row_that_cant_be_used_has_nan_in_its_place_and_changes_no_other(base):
    res = with_factor(base)
    rows = pd.DataFrame(
        {"g": ["a", "c", None, "b", "b", "b"], "x": [1.0, 1.0, 1.0, None, -1.0, 2.0]},
        index=list("pqrstu"),
        dtype=object,
    )
    rows.loc["t", "x"] = "much"
    rows.loc["v"] = ["b", -1.0]  # whose logarithm is none
    good = ["p", "u"]
    with pytest.warns(PrivregWarning, match="outside"), pytest.warns(PrivregWarning, match="can't be read"):
        got = res.predict(rows)
    assert got.index.equals(rows.index)
    assert got.notna().to_numpy().tolist() == rows.index.isin(good).tolist()
    pd.testing.assert_series_equal(got[good], res.predict(rows.loc[good]))
    with pytest.warns(PrivregWarning, match="outside"), pytest.warns(PrivregWarning, match="can't be read"):
        frame = res.get_prediction(rows).summary_frame()
    pd.testing.assert_frame_equal(res.get_prediction(rows.loc[good]).summary_frame(), frame.loc[good])
    assert frame.drop(index=good).drop(columns="reliable").isna().all(axis=None)
    assert not frame.drop(index=good)["reliable"].any()
    with pytest.warns(PrivregWarning, match="g: not a declared level"):
        assert "nan" in str(res.get_prediction(rows.head(3))).lower()


def test_arrays_and_what_is_added_have_nan_in_their_rows(base):
    arrays = PrivateResults(base)
    x = np.ones((3, len(arrays.params)))
    x[1, -1] = np.nan
    assert np.isnan(arrays.predict(x)).tolist() == [False, True, False]
    assert np.isnan(arrays.predict(x.astype(object))).tolist() == [False, True, False]
    res = made(base, Poisson(20), offset="o", exposure="t")
    rows = {"x": [0.5, 0.5, 0.5], "o": ["much", 0.0, 0.0], "t": [1.0, None, 1.0]}
    assert np.isnan(res.predict(rows)).tolist() == [True, True, False]
    assert res.get_prediction(rows).summary_frame()["mean_se"].isna().tolist() == [True, True, False]


def test_a_class_of_a_row_that_cant_be_used_is_nan(base):
    res = made(base, Logistic(), "g", {"g": ["no", "yes"]})
    assert res.predict({"x": [-2.0, None, 2.0]}, which="class").fillna("none").tolist() == ["yes", "none", "no"]
    whole = made(base, Logistic(), "won").predict(NEW, which="class")
    assert whole.dtype.kind == "i"


def test_the_offset_and_exposure_of_a_model_are_needed_by_name(base):
    res = made(base, Poisson(20), offset="o", exposure="t")
    for rows, name in ((NEW, "'o', the model's offset"), (NEW.assign(o=0.0), "'t', the model's exposure")):
        for call in (res.predict, res.get_prediction):
            with pytest.raises(DataError, match=name):
                call(rows)


def test_tables_of_other_libraries_are_predicted(base):
    res, rows = with_factor(base), pd.DataFrame({"x": [1.0, 2.0], "g": ["a", "b"], "more": [0, 0]})
    want = res.predict(rows).to_numpy()
    tables = pl.from_pandas(rows), pl.from_pandas(rows).lazy().collect(), pa.Table.from_pandas(rows)
    for table in tables:
        np.testing.assert_array_equal(res.predict(table), want)
        np.testing.assert_array_equal(res.get_prediction(table).predicted_mean, want)
    LEDGER.spend("somebody", 1.0)
    with pytest.raises(NotPrivateError, match=r"as by collect\(\)"):  # whose rows a query finds is not known
        res.predict(pl.from_pandas(rows).lazy())
    with pytest.raises(DataError, match="'g' is missing"):
        res.predict(tables[0].drop("g"))
    arrays = PrivateResults(base)
    x = pd.DataFrame(
        np.random.default_rng(0).uniform(-1, 1, (4, len(arrays.params))), columns=list(arrays._fit.design.names)
    )
    for table in (pl.from_pandas(x), pa.Table.from_pandas(x)):
        np.testing.assert_array_equal(arrays.predict(table), arrays.predict(x))


def test_rows_one_by_one_are_told_how_to_become_a_table(base):
    res, rows = with_factor(base), [{"x": 1.0, "g": "a"}, {"x": 2.0, "g": "b"}]
    several = rows, tuple(rows), (row for row in rows), pd.Series(rows), pd.Series([pd.Series(row) for row in rows])
    for given in (*several, pd.Series(rows[0])):  # of rows one by one nothing tells whether they were fitted
        with pytest.raises((DataError, NotPrivateError), match=r"pd\.DataFrame"):
            res.predict(given)
    assert res.predict(rows[0]).tolist() == res.predict(pd.DataFrame(rows)).tolist()[:1]
    for given in (*several[:2], (row for row in rows), *several[3:]):
        with pytest.raises((DataError, UnsupportedArgumentError), match=r"pd\.DataFrame"):
            pr.PrivateOnlineRegression.from_formula(
                "x ~ g", given, mu=1, bounds={"x": (0, 2)}, levels={"g": ["a", "b"]}
            ).fit(progress=False)
