"""Clamping biases without a word from the rows: summaries say that it was not looked at, predictions warn outside."""

import pickle
import warnings
from html import unescape

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import PrivregWarning
from tests.results.test_summary import flat

SAID = "values outside these bounds were clamped; how many was not counted"
SHOWN = SAID.replace("these", "the declared")  # a summary has no bounds to point to
LABEL = "Public: clamping"
N = 800  # so few that nobody is asked
BOX = {"a": (-1, 1), "b": (0, 10), "y": (-20, 20)}


def rows(n=N, seed=0):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(0, 10, n), "g": rng.choice(["u", "v"], n)})
    return data.assign(y=data["a"] + data["b"] + rng.normal(0, 1, n), z=(data["a"] > 0).astype(float))


def by_formula(formula="y ~ a + np.log1p(b) + g", **more):
    options = {"mu": 8, "bounds": BOX, "levels": {"g": ["u", "v"]}, **more}
    return pr.PrivateOnlineRegression.from_formula(formula, rows(), **options)


def by_arrays():
    data = rows()
    x = np.column_stack([np.ones(N), data["a"], data["b"]])
    return pr.PrivateOnlineRegression(data["y"], x, exog_names=["const", "a", "b"], endog_name="y", bounds=BOX, mu=8)


def federated(**more):
    options = {"mu": 8, "bounds": {"a": BOX["a"], "b": BOX["b"]}, "levels": {"g": ["u", "v"]}, "rounds": 2, **more}
    formula = options.pop("formula", "z ~ b + g")
    return pr.federated.FederatedRegression.from_formula(formula, [rows(50, seed) for seed in range(20)], **options)


CURATOR = {"mu": 1, "trust": "central"}
FITS = {
    "local": lambda: by_formula().fit(seed=1, progress=False),
    "arrays": lambda: by_arrays().fit(seed=1, progress=False),
    "means": lambda: pr.means.estimate(rows(), "a + C(g) ~ 1", mu=1, bounds=BOX, levels={"g": ["u", "v"]}),
    "central": lambda: by_formula(**CURATOR).fit(seed=1, progress=False),
    "federated": lambda: federated().fit(seed=1, progress=False),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", [kind for kind in FITS if kind != "central"])  # a curator's reports count them
def test_every_summary_says_that_clamping_was_not_looked_at(kind):
    res = FITS[kind]()
    summary = res.summary(details=True)
    for text in (summary.as_text(), unescape(summary.as_html())):
        assert flat(text).count(SHOWN) == 1
        assert not flat(text).count(SAID)
    assert flat(str(res.privacy)).count(SAID) == 1
    assert "Public: unusable:" not in summary.as_text() or not summary.as_text().count("unusable:\n")
    assert flat(summary.as_latex()).count("clamped; how many was not counted") == 1
    assert (LABEL, SAID) in res.privacy.rows()


@pytest.mark.thorough
def test_fits_without_privacy_say_so_too():
    for model in (by_formula(mu=None), federated(mu=None)):
        assert (LABEL, SAID) in model.fit(progress=False).privacy.rows()


def test_a_counts_largest_value_clamps_too():
    data = rows().assign(k=1.0)
    model = pr.PrivateOnlineRegression.from_formula(
        "k ~ g", data, family=pr.Poisson(y_max=5), mu=8, levels={"g": ["u", "v"]}
    )
    assert (LABEL, SAID) in model.fit(seed=1, progress=False).privacy.rows()


@pytest.mark.thorough
def test_nothing_is_said_where_nothing_is_clamped():
    free = {"a": (0, 0.6), "y": (0, 5)}
    for model in (
        by_formula("y ~ a", bounds=None, levels=None, moments=free),
        by_formula("y ~ a", bounds=None, levels=None, scaling="private"),
        by_formula("z ~ g", bounds=None, family="logistic"),
    ):
        assert SAID not in flat(str(model.fit(seed=1, progress=False).summary()))
    shares = pr.means.estimate(rows(), "C(g) ~ 1", mu=1, levels={"g": ["u", "v"]})
    assert SAID not in flat(str(shares.summary()))


# --- predictions -----------------------------------------------------------------------------------------


def saved(res, tmp_path):
    res.save(tmp_path / "res.privreg")
    return pr.load(tmp_path / "res.privreg")


AGAIN = {"fitted": lambda res, _: res, "pickled": lambda res, _: pickle.loads(pickle.dumps(res)), "loaded": saved}
NEW = pd.DataFrame({"a": [0.5, 7.125], "b": [3.0, 777.25], "g": ["u", "v"]}, index=["SECRET", "row"])


@pytest.fixture(scope="module")
def fitted():
    return FITS["local"]()


@pytest.mark.some(3)
@pytest.mark.parametrize("again", AGAIN)
@pytest.mark.parametrize("method", ["predict", "get_prediction"])
def test_predictions_name_columns_outside_their_bounds_once_a_call(fitted, again, method, tmp_path):
    res = AGAIN[again](fitted, tmp_path)
    with pytest.warns(PrivregWarning) as caught:
        getattr(res, method)(NEW)
    assert len(caught) == 1
    text = str(caught[0].message)
    assert "declared bounds of a (-1 to 1), b (0 to 10)" in text
    assert not any(trace in text for trace in ("SECRET", "7.125", "777"))
    assert caught[0].filename == __file__
    assert f"{method}()" in text


def test_predictions_inside_say_nothing_and_outside_are_not_clamped(fitted):
    inside = pd.DataFrame({"a": [-1.0, 1.0], "b": [0.0, 10.0], "g": ["u", "v"]})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fitted.predict(inside)
        fitted.get_prediction(inside)
    with pytest.warns(PrivregWarning, match=r"bounds of a \(-1 to 1\)\."):
        far = fitted.predict(inside.assign(a=[-1.0, 3.0]))
    assert far.iloc[1] - far.iloc[0] == pytest.approx(
        4 * fitted.params["a"] + np.log(11) * fitted.params["np.log1p(b)"] + fitted.params["g[T.v]"]
    )


@pytest.mark.thorough
def test_predictions_of_arrays_and_of_other_front_doors():
    res = FITS["arrays"]()
    with pytest.warns(PrivregWarning, match=r"bounds of b \(0 to 10\)"):
        res.predict(np.array([[1.0, 0.0, 11.0]]))
    with pytest.warns(PrivregWarning, match=r"bounds of a \(-1 to 1\), b"):
        res.get_prediction(NEW)
    with pytest.warns(PrivregWarning, match=r"bounds of a \(-1 to 1\), b") as caught:
        FITS["central"]().predict(NEW)
    assert caught[0].filename == __file__
    with pytest.warns(PrivregWarning, match=r"bounds of b \(0 to 10\)") as caught:
        FITS["federated"]().predict(NEW)
    assert caught[0].filename == __file__


def test_a_missing_value_and_a_column_with_moments_are_not_outside():
    res = by_formula("y ~ a + b", bounds={"y": (-20, 20), "a": (-1, 1)}, moments={"b": (5, 3)}).fit(progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res.predict(pd.DataFrame({"a": [0.0], "b": [1e6]}))


@pytest.mark.parametrize(
    ("column", "values", "said"),
    [
        ("g", ["u", "SECRET"], "g: not a declared level"),
        ("a", [0.0, "SECRET"], "a: not a number"),
        ("g", ["u", None], ""),
    ],
)
def test_predictions_name_columns_that_cant_be_read(fitted, column, values, said):
    rows = pd.DataFrame({"a": [0.0, 0.0], "b": [1.0, 1.0], "g": ["u", "v"]}).assign(**{column: values})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert fitted.predict(rows).isna().tolist() == [False, True]
    texts = [str(w.message) for w in caught]
    assert len(texts) == bool(said)
    assert all(said in text and "SECRET" not in text for text in texts)
