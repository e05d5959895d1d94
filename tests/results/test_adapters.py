"""Other libraries' tools on our results, beside the same calls on results of statsmodels with the same estimates."""

import dataclasses
import importlib

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy import stats
from statsmodels.iolib.summary2 import summary_col

import privreg as pr
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.errors import InferenceError, MissingExtraError, NotPrivateError, OptionError
from privreg.tables.diagnostics import doubt
from tests.families.test_multinomial import model as multinomial_model
from tests.families.test_multinomial import people as voters
from tests.helpers import array_model


def library(name):
    try:
        import polars

        module = importlib.import_module(name)
    except ImportError as error:
        pytest.skip(f"{name} is not installed (extra adapters): {error.name}")
    if name == "marginaleffects" and int(polars.__version__.partition(".")[0]) > 1:
        pytest.skip("marginaleffects 0.6 reads no floats with polars 2")
    return module


@pytest.fixture(autouse=True)
def foreign_stream():
    """These libraries draw from NumPy's global stream when they are first used."""
    state = np.random.get_state()  # noqa: NPY002
    yield
    np.random.set_state(state)  # noqa: NPY002


def people(n=2000):
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": rng.choice(list("abc"), n)})
    eta = 0.3 + data["x"] - (data["g"] == "b") + 0.5 * data["x"] * (data["g"] == "c")
    return data.assign(y=(rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(int))


@pytest.fixture(scope="module")
def both():
    """Our results and statsmodels', with the estimates and the covariance of the latter."""
    data = people()
    fit = pr.PrivateOnlineRegression.from_formula(
        "y ~ x * g", data, family="logistic", mu=2, trust="two_collectors",
        bounds={"x": (-1, 1)}, levels={"g": list("abc")}).fit(seed=1, progress=False)  # fmt: skip
    theirs = smf.logit("y ~ x * g", data.assign(g=pd.Categorical(data["g"]))).fit(disp=0)
    names, held = list(fit._fit.names), fit._fit
    cov = theirs.cov_params().loc[names, names].to_numpy()
    estimates = (Estimate("sandwich", cov, Normal()),)
    return type(fit)(dataclasses.replace(held, params=theirs.params[names].to_numpy(), estimates=estimates)), theirs


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore:`cat.get_categories:DeprecationWarning")  # of polars, to marginaleffects
@pytest.mark.foreign_random
@pytest.mark.parametrize(
    ("call", "options"),
    [
        ("avg_predictions", {}),
        ("avg_predictions", {"by": "g"}),
        ("avg_comparisons", {"variables": "g"}),
        ("avg_comparisons", {"variables": {"g": "pairwise"}}),
        ("avg_slopes", {"variables": "x", "by": "g", "eps_vcov": 1e-5}),  # by default steps so small that they round
        ("predictions", {}),
    ],
)
def test_marginaleffects_says_of_ours_what_it_says_of_theirs(both, call, options) -> None:
    function = getattr(library("marginaleffects"), call)
    ours, theirs = both
    # slopes are by small steps, and at a bound these would lie outside
    public = pd.DataFrame({"x": np.linspace(-0.9, 0.9, 30), "g": list("abc") * 10})
    found = function(ours.for_marginaleffects(public), **options)
    expected = function(theirs, newdata=public.assign(g=pd.Categorical(public["g"])), **options)
    for column in ("estimate", "std_error"):
        np.testing.assert_allclose(found[column].to_numpy(), expected[column].to_numpy(), rtol=1e-4)


@pytest.mark.filterwarnings("ignore:`cat.get_categories:DeprecationWarning")
@pytest.mark.foreign_random
def test_marginaleffects_has_limits_by_students_t(both) -> None:
    res, me = both[0], library("marginaleffects")
    held = dataclasses.replace(res._fit.estimates[0], pivot=StudentT(7))
    res = type(res)(dataclasses.replace(res._fit, estimates=(held,)))
    public = pd.DataFrame({"x": np.linspace(-0.9, 0.9, 30), "g": list("abc") * 10})
    found = me.avg_predictions(res.for_marginaleffects(public))
    half = stats.t.ppf(0.975, 7) * found["std_error"].to_numpy()
    np.testing.assert_allclose(found["conf_high"].to_numpy() - found["estimate"].to_numpy(), half, rtol=1e-6)


@pytest.mark.foreign_random
def test_marginaleffects_counts_exposures() -> None:
    me, rng = library("marginaleffects"), np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 2000), "time": rng.uniform(0.5, 2.0, 2000)})
    data["y"] = rng.poisson(data["time"] * np.exp(0.2 + 0.5 * data["x"]))
    res = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", data, family=pr.Poisson(20), mu=2, trust="two_collectors", exposure="time",
        bounds={"x": (-1, 1), "time": (0.5, 2)}).fit(seed=1, progress=False)  # fmt: skip
    public = pd.DataFrame({"x": [-0.5, 0.0, 0.5], "time": [0.5, 1.0, 2.0]})
    model = res.for_marginaleffects(public)
    expected = res.get_prediction(public).summary_frame()
    found = me.predictions(model)
    np.testing.assert_allclose(found["estimate"].to_numpy(), expected["mean"], rtol=1e-9)
    np.testing.assert_allclose(found["std_error"].to_numpy(), expected["mean_se"], rtol=1e-4)
    slope = me.avg_slopes(model, variables="x", eps_vcov=1e-5)["estimate"][0]
    assert slope == pytest.approx(float(res.params["x"] * expected["mean"].mean()), rel=1e-4)


@pytest.mark.foreign_random
def test_marginaleffects_averages_over_levels_of_a_response() -> None:
    me = library("marginaleffects")
    res = multinomial_model(voters(3_000)).fit(seed=1, progress=False)
    rows = res.reference_grid()
    found = me.avg_predictions(res.for_marginaleffects(rows), by="group")
    expected = res.predict(rows).mean()
    got = dict(zip(found["group"].to_list(), found["estimate"].to_list(), strict=True))
    assert got == pytest.approx({str(k): v for k, v in expected.items()})


def test_marginaleffects_is_given_doubts_by_a_warning(both) -> None:
    library("marginaleffects")
    res = both[0]
    doubted = dataclasses.replace(res.privacy, notes=(doubt("rare", "this one", [1]),))
    with pytest.warns(pr.errors.ReliabilityWarning, match="don't rely on what depends on") as caught:
        type(res)(dataclasses.replace(res._fit, statement=doubted)).for_marginaleffects()
    assert [w.filename for w in caught] == [__file__]


def test_what_marginaleffects_can_not_have_is_refused(both) -> None:
    res = both[0]
    try:
        importlib.import_module("marginaleffects")
    except ImportError:
        with pytest.raises(MissingExtraError, match="adapters"):
            res.for_marginaleffects()
        return
    with pytest.raises(OptionError, match="from_formula"):
        array_model(2000).fit(seed=1, progress=False).for_marginaleffects()
    held = dataclasses.replace(res._fit.estimates[0], pivot=RandomScaling())
    with pytest.raises(InferenceError, match="neither"):
        type(res)(dataclasses.replace(res._fit, estimates=(held,))).for_marginaleffects()


def test_rows_that_were_fitted_are_no_public_rows() -> None:
    data = people(1000)
    res = pr.PrivateOnlineRegression.from_formula(
        "y ~ x", data, family="logistic", mu=2, trust="two_collectors", bounds={"x": (-1, 1)}).fit(
        progress=False)  # fmt: skip
    with pytest.raises(NotPrivateError):
        res.for_marginaleffects(data)


@pytest.mark.foreign_random
def test_maketables_shows_ours_as_theirs(both) -> None:
    mt = library("maketables")
    plugin = importlib.import_module("maketables.extractors").PluginExtractor()
    ours, theirs = both
    assert plugin.can_handle(ours)
    expected = importlib.import_module("maketables.extractors").get_extractor(theirs).coef_table(theirs)
    found = plugin.coef_table(ours).loc[expected.index, expected.columns]
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert (plugin.depvar(ours), plugin.stat(ours, "N"), plugin.stat(ours, "r2")) == ("y", 2000, None)
    shown = mt.ETable([ours, theirs]).make("html")
    assert shown.count(f"{theirs.params['x']:.3f}") == 2


def test_a_table_of_a_multinomial_fit_is_one_list() -> None:
    res = multinomial_model(voters(3_000)).fit(seed=1, progress=False)
    one = res.stacked()
    names = list(res._fit.names)
    assert list(one.params.index) == list(one.conf_int().index) == names
    np.testing.assert_array_equal(one.bse, res._errors())
    shown = summary_col([one], stars=True).tables[0]
    for name, value, error in zip(names, one.params, one.bse, strict=True):
        at = list(shown.index).index(name)
        assert shown.iloc[at, 0].rstrip("*") == f"{value:.4f}"
        assert shown.iloc[at + 1, 0] == f"({error:.4f})"
    assert list(res.__maketables_coef_table__.index) == names
    assert res.__maketables_stat__("aic") is None
