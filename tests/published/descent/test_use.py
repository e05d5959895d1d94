"""A curator's published descent in use: what it refuses, what it shows, and what it never shows."""

import math
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.central import CentralResults, QHinge, QNorm, Regression
from privreg.errors import (
    BudgetError,
    DataError,
    InferenceError,
    MissingExtraError,
    OptionError,
    PrivregWarning,
    ReliabilityWarning,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.privacy.ledger import LEDGER, Budget, within
from privreg.published import descent
from privreg.published.descent.losses import LOSSES, resolve, resolve_loss
from privreg.published.descent.plan import make_plan
from privreg.published.descent.results import wandering
from tests.leaks import hits, numbers, sentinels, texts

N = 1200
BOX = {"a": (-1, 1), "b": (0, 100), "y": (-300, 300)}
LEVELS = {"g": ["u", "v"]}


def rows(n=N, seed=1):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(0, 100, n), "g": rng.choice(["u", "v"], n)})
    data["y"] = 20 + 30 * data.a + 0.4 * data.b + 5 * (data.g == "v") + rng.normal(0, 8, n)
    data["h"] = (data.y > 50).astype(float)
    return data


def model(data=None, formula="y ~ a + b + g", **more):
    options = {"bounds": BOX, "levels": LEVELS, "family": pr.Huber(scale=8.0), "epsilon": 1, "delta": 1e-6} | more
    return pr.PrivateOnlineRegression.from_formula(
        formula, rows() if data is None else data, trust="central", **options
    )


def fit(data=None, formula="y ~ a + b + g", options=None, **more):
    return model(data, formula, **more).fit(tuning="published", **{"progress": False, "seed": 3, **(options or {})})


# --- results ---------------------------------------------------------------------------------------------


def test_a_model_and_its_rows_are_all_that_a_fit_needs():
    m, res = model(), fit()
    assert isinstance(res, CentralResults)
    pd.testing.assert_series_equal(descent.fit(m._spec, m._source, seed=3, progress=False).params, res.params)
    with pytest.raises(DataError, match="no data"):
        descent.fit(m._spec, None)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        ("offset=", {"design": {"offset": "a"}}),
        ("exposure=", {"design": {"exposure": "b"}}),
        ("weights=", {"people": {"weight": "b"}}),
        ("cluster=", {"people": {"cluster": "g"}}),
        ("id=", {"people": {"id": "a"}}),
        ("score_weights=", {"score_weights": "unit"}),
    ],
)
def test_what_the_paper_has_not_is_refused(words, more):
    m = model()
    parts = {k: replace(getattr(m._spec, k), **v) if isinstance(v, dict) else v for k, v in more.items()}
    with pytest.raises(UnsupportedArgumentError, match=f"descent of a curator has no {words}"):
        descent.fit(replace(m._spec, **parts), m._source, progress=False)


def test_arrays_and_batches_give_what_a_frame_gives():
    data = rows()
    frame = fit(data, "y ~ a + b")
    batches = fit((data.iloc[i : i + 500] for i in range(0, N, 500)), "y ~ a + b")
    np.testing.assert_array_equal(frame.params, batches.params)
    x = np.column_stack([np.ones(N), data[["a", "b"]]])
    names = ["Intercept", "a", "b"]
    m = Regression(data["y"], x, bounds=BOX, exog_names=names, family=pr.Huber(scale=8.0), epsilon=1, delta=1e-6)
    arrays = m.fit(tuning="published", progress=False, seed=3)
    np.testing.assert_allclose(arrays.params, frame.params, rtol=1e-12)


@pytest.mark.some(1)
@pytest.mark.parametrize("family", [*LOSSES, QHinge(2.0), QNorm(2.0), QNorm(1.0)], ids=str)
@pytest.mark.parametrize("perturbation", ["gradient", "output"])
def test_every_loss_finds_its_line_without_noise(family, perturbation):
    data = rows(4000)
    binary = family in {"hinge", "q_hinge", "smoothed_hinge", "logistic"} or "Hinge" in str(family)
    formula = ("h" if binary else "y") + " ~ a + b + g"
    more = {"mu": None, "epsilon": None, "delta": None, "family": family}
    res = fit(data, formula, {"perturbation": perturbation, "lanes": 1, "seed": None}, **more)
    if binary:
        right = (res.predict(data, which="linear") > 0) == (data.h > 0.5)
        assert right.mean() > 0.85
    else:
        assert abs(res.params["a"] - 30) < 6
        assert abs(res.params["b"] - 0.4) < 0.1
    assert "NOT PRIVATE" in str(res.summary())


@pytest.mark.thorough
def test_a_private_fit_is_near_the_truth():
    res = fit(rows(20_000), epsilon=4)
    truth = {"Intercept": 20, "a": 30, "b": 0.4, "g[T.v]": 5}
    off = np.array([(res.params[k] - v) / res.bse[k] for k, v in truth.items()])
    assert np.abs(off).max() < 6  # t with 7 degrees of freedom: 6 has probability 5e-4
    assert (res.bse < [3, 3, 3, 0.1]).all()


@pytest.mark.thorough
def test_the_summary_says_whom_one_trusts():
    res = fit()
    said = "trusted curator: whoever runs this sees all rows; only the release is private"
    assert said in " ".join(str(res.summary(details=True)).split())
    text = " ".join(f"{res.summary(details=True)} {res.privacy}".split())
    for words in (
        said,
        "neighbours replace one record",
        "(1, 1e-06)-DP",
        "noise sd",
        "2G =",
        "Trust: trusted curator",
    ):
        assert words in text, words
    output = " ".join(str(fit(options={"perturbation": "output", "lanes": 2}).privacy).split())
    assert "Δ(K) = 2GηK =" in output
    res = fit()
    for view in (res.summary(details=True).as_html(), res.summary(details=True).as_latex(), res._repr_html_()):
        assert "curator" in view


def test_one_lane_has_no_standard_errors_and_says_so():
    res = fit(options={"lanes": 1})
    assert res.bse.isna().all()
    assert res.conf_int().isna().all(axis=None)
    assert "one group of records does not show how precise its estimate is" in str(res.summary()).replace("\n    ", " ")
    assert "refer to" not in str(res.summary())


@pytest.mark.thorough
def test_intervals_that_should_not_be_relied_on_say_so():
    data = rows(4000)
    more = {"family": "logistic"}
    assert "DON'T RELY ON THE INTERVALS" in str(fit(data, "h ~ a", {"lanes": 8}, **more).summary())
    assert "DON'T RELY" in str(fit(data, options={"perturbation": "output", "lanes": 8, "step": 1e-6}).summary())
    assert "DON'T RELY" not in str(fit(rows(20_000), options={"epochs": 1000}, epsilon=4).summary())


@pytest.mark.parametrize("family", [pr.Quantile(0.9), pr.Hinge(), QHinge(1.5)])
def test_noise_about_a_kink_that_is_not_symmetric_is_noted(family):
    loss = resolve_loss(family)
    few = make_plan(loss, Budget.declare(mu=0.5), n=4000, p=3, reach=3**0.5)
    many = make_plan(loss, Budget.declare(mu=0.5), n=4_000_000, p=3, reach=3**0.5)
    (note,) = wandering(few, loss, 3)
    assert "few records" in note
    assert wandering(many, loss, 3) == []
    median = resolve_loss(pr.Quantile(0.5))
    assert wandering(make_plan(median, Budget.declare(mu=0.5), n=4000, p=3, reach=3**0.5), median, 3) == []


@pytest.mark.parametrize("options", [{"step": 1e308}, {"radius": 1e300}])
def test_numbers_that_would_overflow_are_refused(options):
    with pytest.raises(OptionError, match="must be a positive number"):
        fit(options=options)


def test_results_are_saved_and_loaded(tmp_path):
    for options in ({}, {"order": "poisson"}, {"perturbation": "output", "order": "sampled"}, {"lanes": 2}):
        res = fit(options=options)
        res.save(tmp_path / "fit.privreg")
        again = pr.load(tmp_path / "fit.privreg")
        assert isinstance(again, CentralResults)
        assert str(again.summary()) == str(res.summary())
        assert repr(again) == repr(res)
    res = fit(formula="h ~ a", family=QHinge(1.5))
    res.save(tmp_path / "fit.privreg")
    assert pr.load(tmp_path / "fit.privreg").family == QHinge(1.5)
    assert pickle.loads(pickle.dumps(res)).family == res.family


@pytest.mark.thorough
def test_fits_leave_the_model_unchanged_and_seeds_repeat():
    first, second = (fit(options={"seed": 4}) for _ in range(2))
    pd.testing.assert_series_equal(first.params, second.params)
    free = {"seed": None}
    assert not fit(options=free).params.equals(fit(options=free).params)
    assert "reproducible noise protects nobody" in str(first.summary()).replace("\n    ", " ")


def test_what_results_do_not_have():
    res = fit(options={"order": "poisson"})
    with pytest.raises(InferenceError, match="average only"):
        res.params_last  # noqa: B018
    with pytest.raises(InferenceError, match="no path"):
        res.plot_trajectory()
    with pytest.raises(InferenceError, match="not one Gaussian mechanism"):
        res.plot_privacy()
    with pytest.raises(BudgetError, match="no reports"):
        res.privacy.shuffled()
    with pytest.raises(BudgetError, match=r"central\.audit"):
        res.privacy.verify()


# --- the ledger ------------------------------------------------------------------------------------------


def test_releases_count_with_those_of_devices():
    data = rows()
    first = fit(data, mu=1.0, epsilon=None, delta=None)
    assert first.privacy.release.number == 1
    local = pr.PrivateOnlineRegression.from_formula("y ~ a", data, bounds=BOX, family=pr.Huber(scale=8.0), mu=1.0).fit(
        progress=False, seed=1
    )
    assert local.privacy.release.number == 2
    assert local.privacy.release.total_mu == pytest.approx(math.sqrt(2))
    third = fit(data, options={"order": "poisson"})
    assert third.privacy.release.number == 3
    assert third.privacy.total_mu > third.privacy.budget.mu  # what composes whatever was drawn
    total = within(third.privacy.release.total_mu, 4)
    assert f"secret noise {total}-GDP in all 3 releases" in third.privacy.guarantee
    assert "; this release alone: (" in third.privacy.guarantee
    assert "everything published in all 3 releases, knows all other records" in third.privacy.in_words
    assert local.privacy.guarantee.startswith(
        "NONE as run, because of seed=; with secret noise at most 1.415-GDP in all 2"
    )
    assert "in all 1" not in str(first.summary())
    assert LEDGER.spent(data) == pytest.approx(math.hypot(math.sqrt(2), third.privacy.total_mu))


def test_a_limit_refuses_before_the_release():
    data = rows()
    pr.limit_spending(0.5)
    try:
        with pytest.raises(BudgetError, match="this ledger allows"):
            fit(data, mu=1.0, epsilon=None, delta=None)
        assert LEDGER.spent(data) == 0
    finally:
        pr.limit_spending(None)


# --- bad input -------------------------------------------------------------------------------------------

WRONG_MODELS = {
    "expectile": ({"family": pr.Expectile(0.8)}, UnsupportedArgumentError, "needs a convex loss"),
    "squared": ({"family": pr.Squared()}, UnsupportedArgumentError, "QNorm"),
}


@pytest.mark.parametrize("what", WRONG_MODELS)
def test_wrong_models_are_refused_with_the_fix(what):
    options, error, words = WRONG_MODELS[what]
    with pytest.raises(error, match=words):
        fit(**options)


def test_names_of_losses_are_looked_up():
    with pytest.raises(OptionError, match="Did you mean 'hinge'"):
        resolve("hing")


WRONG_FITS = {
    "step": ({"perturbation": "output", "step": 1e9}, OptionError, "too large"),
    "step sign": ({"step": -1}, OptionError, "positive"),
    "radius": ({"radius": 0}, OptionError, "radius=0"),
    "radius word": ({"radius": "big"}, OptionError, "auto"),
    "epochs": ({"epochs": 0}, OptionError, "epochs=0"),
    "lanes": ({"lanes": 0}, OptionError, "lanes=0"),
    "average": ({"average": 1.5}, OptionError, "average=1.5"),
    "order": ({"order": "permuted"}, OptionError, "'full', 'poisson'"),
    "perturbation": ({"perturbation": "ouput"}, OptionError, "Did you mean 'output'"),
    "inference": ({"inference": "plug_in"}, UnsupportedArgumentError, "not of the published descent"),
    "unknown": ({"radios": 1}, UnsupportedArgumentError, "radios"),
    "batch": ({"batch_size": 5}, OptionError, "batch_size="),
    "progress": ({"progress": "yes"}, OptionError, "progress="),
}


@pytest.mark.parametrize("what", WRONG_FITS)
def test_wrong_fits_are_refused_with_the_fix(what):
    options, error, words = WRONG_FITS[what]
    with pytest.raises(error, match=words):
        fit(options=options)


def test_budgets_that_a_mixture_has_not():
    for options in ({"order": "poisson"}, {"perturbation": "output", "order": "sampled"}):
        with pytest.raises(BudgetError, match="has no mu or rho"):
            fit(options=options, mu=1.0, epsilon=None, delta=None)


def test_losses_that_grow_need_a_domain():
    with pytest.raises(OptionError, match="without a bound"):
        fit(options={"radius": None}, family=QNorm(1.5))
    assert fit(options={"radius": None, "perturbation": "output"}, family=QNorm(1.5)).nobs == N
    with pytest.raises(OptionError, match=r"q=3 must be in \[1, 2\]"):
        QNorm(3)


@pytest.mark.parametrize("family", [QNorm(1.5), QHinge(1.5)], ids=str)
@pytest.mark.parametrize(
    ("trust", "words"),
    [("local", "trust='central'"), ("two_collectors", "trust='"), ("central", r"fit\(tuning='published'\)")],
)
def test_losses_of_the_descent_are_for_it_alone(family, trust, words):
    formula = "h ~ a" if family.binary else "y ~ a"
    with pytest.raises(UnsupportedArgumentError, match=words):
        pr.PrivateOnlineRegression.from_formula(formula, rows(), bounds=BOX, family=family, mu=1, trust=trust).fit(
            progress=False
        )


def test_a_careless_delta_is_warned_about():
    with pytest.warns(PrivregWarning, match="not below 1/1,200"):
        fit(delta=1e-3)


def test_wrong_rows_are_refused_if_asked_without_quoting_them_and_else_count_for_nothing():
    data = rows()
    wrong = (("a", np.nan), ("a", "SECRET"), ("b", np.inf), ("g", "SECRET"), ("g", ["SECRET"]), ("y", None))
    gone = data.astype(object)
    gone.loc[5] = None
    found = fit(gone)
    assert found.nobs == N  # it keeps its place
    assert found.params.tolist() != fit(data).params.tolist()
    for column, value in wrong:
        bad = data.astype(object)
        bad.at[5, column] = value
        with pytest.raises((DataError, SchemaError), match=f"column '{column}'") as e:
            fit(bad, missing="raise")
        assert "SECRET" not in str(e.value)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            warnings.simplefilter("ignore", ReliabilityWarning)
            res = fit(bad)
        assert res.params.tolist() == found.params.tolist()
        assert str(res.privacy) == str(found.privacy)
    bad = data.copy()
    bad.loc[5, "y"] = 2.7e300
    fit(bad, missing="raise")  # clamped
    with pytest.raises(DataError, match="can't determine"):
        fit(data.head(3))


def test_too_many_rows_for_memory_are_refused(monkeypatch):
    monkeypatch.setattr("privreg.published.descent.descent.MOST_BYTES", 1000)
    with pytest.raises(DataError, match="in memory"):
        fit()
    with pytest.raises(DataError, match="in memory"):
        fit(iter([rows()]))


def test_a_missing_extra_is_named(monkeypatch):
    def absent(name):
        raise ImportError(name)

    monkeypatch.setattr("privreg.base.optional.import_module", absent)
    with pytest.raises(MissingExtraError, match=r"\.\[central\]"):
        fit(options={"order": "poisson"}, epsilon=0.77)
    assert fit().nobs == N


# --- leaks -----------------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("options", [{}, {"perturbation": "output"}, {"order": "poisson"}, {"lanes": 8}], ids=str)
def test_nothing_raw_leaves_but_the_release(options, tmp_path):
    data = rows()
    data.loc[3, ["a", "b", "y"]] = 31415.926, 27182.818, -16180.339
    m = model(data)
    res = m.fit(tuning="published", progress=False, seed=3, **options)
    twin = fit(rows(seed=2), options=options)
    res.save(tmp_path / "file")
    shown = [str(res.summary()), res.summary().as_html(), repr(res), repr(m), repr(pickle.dumps(res)), repr(
        pickle.dumps(m)), repr((tmp_path / "file").read_bytes())]  # fmt: skip
    assert not sentinels(*shown, *texts(res))
    spec = m._spec
    encoded = spec.design.encode(data)
    x = encoded.exog.copy()
    spec.units.rows_inside(x)
    y = spec.units.response_inside(encoded.endog)
    theta = spec.units.params_inside(res.params.to_numpy())
    resid = y - x @ theta
    c = resolve_loss(spec.family, unit=spec.units.y_scale).a
    loss = np.where(np.abs(resid) < c, resid**2 / 2, c * (np.abs(resid) - c / 2))
    stats = [x.ravel(), y, resid, data.a, data.b, data.y, [loss.mean(), loss.sum(), resid.std(), (resid**2).mean()]]
    stats += [[c.mean(), c.std(), c.min(), c.max(), np.median(c)] for c in (*x.T[1:], y, data.a, data.b, data.y)]
    stats += [np.linalg.lstsq(x, y, rcond=None)[0], [(data.g == "v").sum(), (data.h).sum()]]
    flat = np.unique(np.concatenate([np.ravel(v).astype(float) for v in stats]))
    assert not hits(numbers(res) - numbers(twin), flat)
    assert not hits(numbers(pickle.loads(pickle.dumps(m))) - numbers(model(rows(seed=2))), flat)


def test_only_the_release_depends_on_the_rows():
    one, two = fit(rows(seed=1)), fit(rows(seed=2))
    a, b = str(one.summary()).split("===\n"), str(two.summary()).split("===\n")
    differing = [i for i, (u, v) in enumerate(zip(a, b, strict=True)) if u != v]
    assert len(differing) == 1  # the coefficient table
    assert one.privacy.weights == two.privacy.weights
