"""Rows of pandas objects are paired where their indexes are equal, and nowhere else."""

import re
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privreg as pr
from privreg.central import Regression
from privreg.data.columns import same_rows
from privreg.errors import DataError
from privreg.federated import FederatedRegression
from privreg.formula.batches import read_arrays

N = 400
BOX = {"x": (-1, 1), "y": (-2, 2), "e": (1, 2), "offset": (-1, 1), "exposure": (1, 2)}
SECRET = "SECRETLABEL"


def rows():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"const": 1.0, "x": rng.uniform(-1, 1, N), "e": rng.uniform(1, 2, N), "id": np.arange(N)})
    return data.assign(y=data["x"] + 0.1 * rng.standard_normal(N), b=(data["x"] > 0) * 1.0, k=rng.integers(0, 4, N))


DATA = rows()
X = DATA[["const", "x"]]


def arrays(y=DATA["y"], x=X, **more):
    return pr.PrivateOnlineRegression(y, x, mu=None, bounds=BOX, rows=N, **more)


def formula(data, text="y ~ x", **more):
    return pr.PrivateOnlineRegression.from_formula(text, data, mu=None, bounds=BOX, rows=N, **more)


@cache
def fitted(*, offset=False):
    return arrays(**({"offset": DATA["x"]} if offset else {})).fit(progress=False)


@cache
def counts():
    given = {"bounds": {**BOX, "y": (0, 4), "k": (0, 4)}, "family": pr.Poisson(y_max=4), "mu": None}
    return pr.PrivateOnlineRegression.from_formula("k ~ x", DATA, exposure="e", **given).fit(progress=False)


def columns(change, *names):
    """A mapping of Series, of which the last has changed labels."""
    return {name: change(DATA[name]) if name == names[-1] else DATA[name] for name in names}


DOORS = {
    "arrays: exog": (lambda c: arrays(x=c(X)), "endog", "exog"),
    "arrays: endog in a frame": (lambda c: arrays(y=c(DATA[["y"]])), "endog", "exog"),
    "arrays: offset": (lambda c: arrays(offset=c(DATA["x"])), "endog", "offset"),
    "arrays: exposure": (
        lambda c: arrays(y=DATA["k"], family=pr.Poisson(y_max=4), exposure=c(DATA["e"])), "endog", "exposure"
    ),
    "arrays: offset of unlabelled rows": (
        lambda c: arrays(y=DATA["y"].to_numpy(), offset=c(DATA["x"])), "exog", "offset"
    ),
    "arrays: batch": (lambda c: arrays().start().update((DATA["y"], c(X))), "endog", "exog"),
    "arrays: simulate": (lambda c: pr.simulate(arrays().plan(), (DATA["y"], c(X))), "endog", "exog"),
    "arrays: predict": (lambda c: fitted(offset=True).predict((X + 0, c(DATA["x"]))), "exog", "offset"),
    "arrays: get_prediction": (
        lambda c: fitted(offset=True).get_prediction((X + 0, c(DATA["x"]))), "exog", "offset"
    ),
    "arrays: evaluate": (lambda c: fitted().evaluate((DATA["y"] + 0, c(X))), "endog", "exog"),
    "arrays: estimand": (lambda c: fitted().estimand((DATA["y"] + 0, c(X))), "endog", "exog"),
    "curator: arrays": (lambda c: Regression(DATA["y"], c(X), mu=None, bounds=BOX), "endog", "exog"),
    "mapping": (lambda c: formula(columns(c, "y", "x")), "column 'y'", "column 'x'"),
    "mapping: id": (lambda c: formula(columns(c, "y", "x", "id"), id="id"), "column 'y'", "column 'id'"),
    "mapping: personal budgets": (
        lambda c: pr.PrivateOnlineRegression.from_formula(
            "y ~ x", columns(c, "y", "x", "e"), mu="e", mu_max=2, bounds=BOX
        ),
        "column 'y'", "column 'e'",
    ),
    "mapping: offset": (lambda c: formula(columns(c, "y", "x", "e"), offset="e"), "column 'y'", "column 'e'"),
    "mapping: batch": (lambda c: formula(None).start().update(columns(c, "y", "x")), "column 'y'", "column 'x'"),
    "mapping: one of several": (
        lambda c: formula(iter([columns(c, "y", "x")])).fit(progress=False), "column 'y'", "column 'x'"
    ),
    "mapping: simulate": (
        lambda c: pr.simulate(formula(None).plan(), columns(c, "y", "x")), "column 'y'", "column 'x'"
    ),
    "mapping: predict": (lambda c: counts().predict(columns(c, "x", "e")), "column 'x'", "column 'e'"),
    "mapping: get_prediction": (lambda c: counts().get_prediction(columns(c, "x", "e")), "column 'x'", "column 'e'"),
    "mapping: evaluate": (lambda c: counts().evaluate(columns(c, "x", "e", "k")), "column 'k'", "column 'x'"),
    "mapping: estimand": (lambda c: counts().estimand(columns(c, "x", "e", "k")), "column 'k'", "column 'x'"),
    "curator: mapping": (
        lambda c: Regression.from_formula("y ~ x", columns(c, "y", "x"), mu=None, bounds=BOX),
        "column 'y'", "column 'x'",
    ),
    "silos: mapping": (
        lambda c: FederatedRegression.from_formula("b ~ x", [columns(c, "b", "x"), DATA + 0], mu=1, bounds=BOX),
        "silo 1: column 'b'", "column 'x'",
    ),
    "means": (lambda c: pr.means.PrivateMeans(["x", "y"], columns(c, "x", "y"), mu=1, bounds=BOX), "'x'", "'y'"),
    "means: by": (
        lambda c: pr.means.PrivateMeans(["x"], columns(c, "x", "b"), by="b", levels={"b": [0, 1]}, mu=1, bounds=BOX),
        "'x'", "'b'",
    ),
    "means: batch": (
        lambda c: pr.means.PrivateMeans(["x", "y"], mu=1, bounds=BOX).start().update(columns(c, "x", "y")), "'x'", "'y'"
    ),
}  # fmt: skip

CHANGES = {
    "permuted": lambda held: held.sample(frac=1, random_state=1),
    "shifted": lambda held: held.set_axis(held.index + 1),
    "of another type": lambda held: held.set_axis([f"{SECRET}-{i}" for i in held.index]),
    "of two levels": lambda held: held.set_axis(pd.MultiIndex.from_product([[SECRET], held.index])),
}


@pytest.mark.parametrize("door", DOORS)
def test_unlike_indexes_are_refused_by_both_names_and_without_a_label(door):
    call, *parties = DOORS[door]
    for change in CHANGES.values():
        with pytest.raises(DataError) as caught:
            call(change)
        text = str(caught.value)
        assert all(part in text for part in (*parties, "different indexes", ".reindex(", ".reset_index(drop=True)"))
        assert SECRET not in text
        assert not re.search(r"\d", text.replace("silo 1", "").replace("silo 2", ""))


@pytest.mark.some(10)
@pytest.mark.parametrize("door", DOORS)
def test_equal_indexes_are_paired_whatever_they_hold(door, monkeypatch):
    call, *_ = DOORS[door]
    call(lambda held: held.set_axis(held.index.astype(float)))
    labels = np.repeat([f"{SECRET}-1", SECRET], N // 2)  # duplicates
    for name in ("DATA", "X"):
        monkeypatch.setitem(globals(), name, globals()[name].set_axis(labels))
    monkeypatch.setattr(arrays, "__defaults__", (DATA["y"], X))
    call(lambda held: held.set_axis(labels.copy()))


def test_objects_without_labels_are_paired_by_position():
    mixed = X.sample(frac=1, random_state=1)
    same = fitted().params
    for y, x in (
        (DATA["y"].to_numpy(), X),
        (DATA["y"].to_numpy()[mixed.index], mixed),
        (DATA["y"].sample(frac=1, random_state=1), X.to_numpy()[mixed.index]),
        (pl.Series("y", DATA["y"].to_numpy()), X),
        (DATA["y"].tolist(), pl.from_pandas(X)),
        (DATA["y"].array, pa.Table.from_pandas(X)),
    ):
        got = arrays(y=y, x=x, exog_names=["const", "x"]).fit(progress=False).params
        np.testing.assert_allclose(got["x"], same["x"], atol=0.05)
    lists = {"y": DATA["y"], "x": mixed["x"].to_numpy()[np.argsort(mixed.index)]}
    np.testing.assert_allclose(formula(lists).fit(progress=False).params["x"], same["x"], atol=0.05)


def test_predictions_have_the_labels_of_their_rows():
    labels = pd.Index(["a", "b", "b"])
    new = (X.head(3) + 0).set_axis(labels)
    res = fitted(offset=True)
    for offset in (pd.Series([0.1, 0.2, 0.3], labels), [0.1, 0.2, 0.3]):
        assert res.predict((new, offset)).index.equals(labels)
    given = {"x": pd.Series([0.1, 0.2, 0.3], labels), "e": [1.0, 1.0, 2.0]}
    assert counts().predict(given).index.equals(labels)


def test_the_index_that_all_have_is_found():
    one = pd.Series(np.zeros(3))
    assert same_rows(a=np.zeros(3), b=one, c=one.to_frame()) is one.index
    assert same_rows(a=np.zeros(3), b=[1]) is None


def test_names_of_another_librarys_columns_are_its_names_and_no_values():
    for table in (pa.table({"x": [12345.5, 2.0]}), pl.DataFrame({"x": [12345.5, 2.0]}), X[["x"]].head(2)):
        assert read_arrays([1.0, 2.0], table, None, None, None).names == ("x",)
