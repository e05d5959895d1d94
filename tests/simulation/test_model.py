"""The model and its results: units, options, statsmodels' names with private meanings."""

import re
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import t as student

import privreg as pr
from privreg.collector.inference.pivots import RandomScaling, scaling_sf
from privreg.errors import InferenceError, NotPrivateError, OptionError, PrivacyLeakWarning, UnsupportedArgumentError
from privreg.fits.published import MIXING
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import gdp_delta
from privreg.simulation.tuning import resolve_tuning
from tests.helpers import NAMES, array_model, people, unmarked


def frame(n=4000, seed=2):
    x, y = people(n, seed)
    return pd.DataFrame({"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": y})


BOX = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-4, 4)}


def fit(formula, data, bounds=BOX, seed=1, **more):
    options = {"family": pr.Huber(scale=0.3), "mu": 1, "bounds": bounds, **more}
    how = {k: options.pop(k) for k in ("inference", "tuning", "lanes", "batch_size", "start_params") if k in options}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **options).fit(seed=seed, progress=False, **how)


BOTH = pytest.mark.parametrize("tuning", ["efficient", "published"])


@pytest.mark.thorough
@BOTH
@pytest.mark.parametrize("scale", [0.3, "auto"])
def test_estimates_come_back_in_the_users_units(tuning, scale):
    data = frame()
    huber, large = pr.Huber(scale=scale), pr.Huber(scale="auto" if scale == "auto" else 20 * scale)
    plain = fit("y ~ a + b", data, tuning=tuning, family=huber)
    scaled = data.assign(a=1000 + 50 * data["a"], y=7 - 20 * data["y"])
    bounds = {**BOX, "a": (950, 1050), "y": (-73, 87)}
    moved = fit("y ~ a + b", scaled, bounds, family=large, tuning=tuning)
    # inside, the response is mirrored: compare with the mirrored problem in plain units
    mirrored = fit("y ~ a + b", data.assign(y=-data["y"]), family=huber, tuning=tuning)
    for res, slope, base in ((moved, 20 / 50, 20.0),):
        assert res.params["a"] == pytest.approx(slope * mirrored.params["a"], rel=1e-9)
        assert res.params["b"] == pytest.approx(base * mirrored.params["b"], rel=1e-9)
        assert res.bse["a"] == pytest.approx(slope * mirrored.bse["a"], rel=1e-9)
        intercept = 7 + 20 * mirrored.params["Intercept"] - 1000 * slope * mirrored.params["a"]
        assert res.params["Intercept"] == pytest.approx(intercept, rel=1e-9)
    np.testing.assert_allclose(plain.tvalues, plain.params / plain.bse)
    # a linear predictor is the same number whatever the units
    new = data.head(5)
    moved_new = moved.get_prediction(scaled.head(5))
    old = mirrored.get_prediction(new)
    np.testing.assert_allclose(moved_new.predicted_mean, 7 + 20 * old.predicted_mean, rtol=1e-9)
    np.testing.assert_allclose(moved_new.se_mean, 20 * old.se_mean, rtol=1e-7)


def test_private_scales_follow_the_rows():
    """Nothing is declared, so the search begins at 0 ± 1 in any units: estimates agree within their noise only."""
    data = frame(20_000)
    scaled = data.assign(a=1024 * data["a"] + 5, y=data["y"] / 64)
    plain, moved = (fit("y ~ a + b", d, None, scaling="private", family=pr.Huber()) for d in (data, scaled))
    for name, unit in (("a", 1 / 1024 / 64), ("b", 1 / 64)):
        spread = np.hypot(plain.bse[name], moved.bse[name] / unit)
        assert abs(plain.params[name] - moved.params[name] / unit) < 5 * spread
        assert 0.2 < moved.bse[name] / unit / plain.bse[name] < 5


WAYS = pytest.mark.parametrize(
    ("tuning", "inference", "lanes"),
    [
        ("efficient", "auto", None),
        ("efficient", "auto", 8),
        ("efficient", ("sandwich", "between_lanes"), None),
        ("published", "auto", None),
    ],
)


@pytest.mark.thorough
@WAYS
@pytest.mark.usefixtures("usual_rounds")
def test_the_trajectory_ends_with_the_intervals(tuning, inference, lanes):
    data = frame(3000)
    # crowded columns are made orthogonal inside
    res = fit("y ~ a + I(a**2) + I(a**3) + b", data, tuning=tuning, inference=inference, lanes=lanes)
    assert res._fit.design.constant is not None
    cov = res.cov_params()
    np.testing.assert_allclose(np.sqrt(np.diag(cov)), res.bse)
    np.testing.assert_allclose(cov, cov.T)
    last = res.trajectory()
    at_end = last[last["n"] == last["n"].max()].set_index("term")
    np.testing.assert_allclose(at_end["estimate"], res.params)
    np.testing.assert_allclose(at_end["low"], res.conf_int()[0], rtol=1e-6)
    np.testing.assert_allclose(at_end["high"], res.conf_int()[1], rtol=1e-6)
    some = res.trajectory(0.5).dropna()
    assert (some["high"] - some["low"]).min() > 0
    assert some["n"].nunique() > 4


@pytest.mark.thorough
@BOTH
def test_no_intercept_polynomials_and_offset(tuning):
    data = frame(6000)
    how = {"mu": None, "tuning": tuning}
    through = fit("y ~ 0 + a + b", data.assign(y=data["a"] - data["b"]), **how)
    np.testing.assert_allclose(through.params, [1, -1], atol=0.02)
    curve = fit("y ~ a + I(a**2)", data.assign(y=1 + data["a"] - 0.5 * data["a"] ** 2), **how)
    np.testing.assert_allclose(curve.params, [1, 1, -0.5], atol=0.03)
    shifted = data.assign(y=data["y"] + 3 * data["c"], o=3 * data["c"])
    moved = fit("y ~ a + b", shifted, {**BOX, "o": (-3, 3), "y": (-7, 7)}, offset="o", **how)
    np.testing.assert_allclose(moved.params, fit("y ~ a + b", data, **how).params, atol=0.05)
    base = moved.predict(shifted.head(3).assign(o=0.0))
    np.testing.assert_allclose(moved.predict(shifted.head(3)) - base, shifted["o"].head(3))


@pytest.mark.thorough
@BOTH
def test_factors_with_and_without_reference(tuning):
    data = frame(8000)
    data["g"] = np.random.default_rng(1).choice(["u", "v", "w"], 8000)
    data["y"] = data["a"] + data["g"].map({"u": 0.0, "v": 1.0, "w": -1.0})
    how = {"mu": None, "tuning": tuning, "levels": {"g": ["u", "v", "w"]}}
    treated = fit("y ~ a + g", data, **how)
    np.testing.assert_allclose(treated.params[["g[T.v]", "g[T.w]"]], [1, -1], atol=0.05)
    cells = fit("y ~ 0 + g + a", data, **how)
    np.testing.assert_allclose(cells.params[["g[u]", "g[v]", "g[w]"]], [0, 1, -1], atol=0.05)


@pytest.mark.thorough
@pytest.mark.parametrize("lanes", [None, 8])
def test_p_values_and_intervals_between_lanes_are_students(lanes):
    res = array_model().fit(seed=2, inference="between_lanes", lanes=lanes)
    df = (lanes or 16) - 1
    t = (res.params / np.sqrt(np.diag(res.cov_params()))).to_numpy()
    np.testing.assert_allclose(res.pvalues, 2 * student.sf(np.abs(t), df), rtol=1e-9)
    half = student.ppf(0.95, df) * res.bse
    np.testing.assert_allclose(res.conf_int(0.1)[1] - res.params, half, rtol=1e-9)


@pytest.mark.some(1)
@BOTH
def test_p_values_and_intervals_are_those_of_the_limit_law(tuning):
    res = array_model().fit(seed=2, tuning=tuning, inference="random_scaling")
    e = res._fit.estimates[0]
    v = np.diag(e.cov) / 6 * res._fit.updates
    t = np.sqrt(res._fit.updates) * np.abs(res.params) / np.sqrt(v)
    np.testing.assert_allclose(res.pvalues, scaling_sf(t.to_numpy()), rtol=1e-9)
    half = RandomScaling().critical(0.1) * np.sqrt(6.0 * v / res._fit.updates)
    np.testing.assert_allclose(res.conf_int(0.1)[1] - res.params, half, rtol=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("tuning", "methods"),
    [("efficient", ("between_lanes", "random_scaling")), ("published", ("random_scaling", "plug_in"))],
)
def test_wald_and_t_tests_agree_with_their_formulas(tuning, methods):
    res = fit("y ~ a + b + c", frame(), tuning=tuning, inference=methods)
    one = res.t_test("a = b")
    cov, params = res.cov_params(), res.params
    sd = np.sqrt(cov.loc["a", "a"] + cov.loc["b", "b"] - 2 * cov.loc["a", "b"])
    assert one.sd[0] == pytest.approx(sd)
    assert one.effect[0] == pytest.approx(params["a"] - params["b"])
    joint = res.wald_test("a = b")
    assert joint.statistic == pytest.approx(one.tvalue[0] ** 2)
    assert joint.pvalue == pytest.approx(one.pvalue[0])
    both = res.wald_test("a = 1, b = -1")
    r = np.array([[0, 1, 0, 0], [0, 0, 1, 0]])
    gap = r @ params.to_numpy() - [1, -1]
    assert both.statistic == pytest.approx(gap @ np.linalg.solve(r @ cov.to_numpy() @ r.T, gap))
    assert both.df_num == 2
    assert res.wald_test((r, [1, -1])).pvalue == pytest.approx(both.pvalue)
    assert "2" in repr(both)
    other = res.wald_test("a = b", method=methods[1])
    assert other.statistic != joint.statistic
    frame_ = res.t_test(["a = 1", "b - c = 0"]).summary_frame()
    assert list(frame_.index) == ["a = 1", "b - c = 0"]
    with pytest.raises(InferenceError, match="redundant"):
        res.wald_test("a = b, a - b = 0")


@pytest.mark.some(1)
@BOTH
def test_last_iterate_and_estimates_only(tuning):
    res = array_model().fit(seed=1, inference=None, tuning=tuning)
    assert list(res.params_last.index) == NAMES
    assert (res.params_last != res.params).all()
    assert list(res.tidy().columns) == ["term", "estimate", "reliable"]
    for call in (lambda: res.bse, lambda: res.conf_int(), lambda: res.pvalues, lambda: res.cov_params()):
        with pytest.raises(InferenceError, match="inference=None"):
            call()
    assert res.trajectory()[["low", "high"]].isna().all(axis=None)
    assert array_model().fit(alpha=0.4, inference=None, tuning="published").params.notna().all()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tuning", "methods"),
    [
        ("efficient", ("between_lanes", "random_scaling")),
        ("efficient", ("random_scaling", "between_lanes")),
        ("published", ("random_scaling", "plug_in")),
    ],
)
def test_conf_int_by_method_and_columns(tuning, methods):
    res = array_model().fit(seed=1, tuning=tuning, inference=methods)
    assert res.methods == methods
    assert not np.allclose(res.conf_int(), res.conf_int(method=methods[1]))
    assert list(res.conf_int(cols=["a"]).index) == ["a"]
    assert list(res.conf_int(cols=[1, 2]).index) == ["a", "b"]
    with pytest.raises(InferenceError, match=f"it has {', '.join(methods)}"):
        res.conf_int(method="plug_in_central")


@pytest.mark.thorough
def test_results_taken_early_say_why_they_have_no_intervals():
    x, y = people(2000)
    stream, at = array_model(rows=2000).start(), 0
    while stream._run.progress.state.role != "pilot":
        stream.update((y[at : at + 10], x[at : at + 10]))
        at += 10
    with pytest.raises(InferenceError, match=r"\d+ records set the scales"):
        array_model().start().update((y[:100], x[:100])).results()
    res = stream.results()
    assert res.methods == ()
    assert list(res.tidy().columns) == ["term", "estimate", "reliable"]
    for call in (lambda: res.bse, res.conf_int, lambda: res.t_test("a = b")):
        with pytest.raises(InferenceError, match=r"no intervals yet: main rounds begin after .* rows="):
            call()
    assert "no intervals yet" in " ".join(res.summary().as_text().split())
    assert stream.update((y[at:], x[at:])).results().bse.notna().all()


@pytest.mark.some(1)
@BOTH
def test_the_guarantee_line_is_true_by_itself(tuning):
    plain = array_model().fit(tuning=tuning)
    assert plain.privacy.guarantee.startswith("1-GDP, hence (4.89")
    assert plain.privacy.loud is None
    seeded = array_model().fit(seed=1, tuning=tuning)
    assert seeded.privacy.guarantee.startswith("NONE as run, because of seed=")
    assert "NOT PRIVATE AS RUN" in seeded.summary().as_text()
    assert "NOT PRIVATE AS RUN" in seeded.summary().as_html()
    x, y = people(2000)
    with pytest.warns(PrivacyLeakWarning):
        leaky = pr.PrivateOnlineRegression(y, x, exog_names=NAMES, mu=1, allow_leak="scale").fit(tuning=tuning)
    assert "except for scale, taken from the raw data" in leaky.privacy.guarantee
    assert "NOT WHOLLY PRIVATE" in leaky.summary().as_text()
    stream = array_model(rows=2000).start(tuning=tuning).update((y, x)).results()
    assert stream.privacy.release.number == 0
    assert "not counted" in stream.privacy.as_text()


@pytest.mark.thorough
def test_doubtful_intervals_are_announced_beside_the_table():
    short, long = array_model(200).fit(), array_model(60_000).fit(seed=4)  # one of twenty is marked by chance
    for res in (short, array_model(200).fit(tuning="published")):
        text = " ".join(res.summary().as_text().split())
        assert re.search(r"DON'T RELY ON THE INTERVALS: see notes? \[1\]", text)
    assert "DON'T RELY" not in " ".join(long.summary().as_text().split())


def test_a_residual_scale_given_as_c_is_refused():
    with pytest.raises(OptionError, match=r"write family=Huber\(scale=800\)"):
        pr.Huber(800)


def test_central_plug_in_is_printed_as_such_and_released_once():
    res = array_model().fit(tuning="published", inference="plug_in_central")
    assert res.privacy.guarantee.startswith("at most 1.415-GDP in all")
    assert res.privacy.trust == "central plug-in"
    assert res.privacy.total_mu == pytest.approx(np.sqrt(2))
    assert "1.415-GDP" in " ".join(res.privacy.notes)  # rounded up: never less than the loss
    assert "trusted curator" in res.summary().as_text()


def test_releases_from_the_same_data_compose():
    data = frame(500)
    first, second = fit("y ~ a", data), fit("y ~ b", data)
    assert first.privacy.release.number == 1
    assert (second.privacy.release.number, second.privacy.release.total_mu) == (2, pytest.approx(np.sqrt(2)))
    for view in (
        str(second.summary()),
        unmarked(second.summary().as_html()),
        second.summary().as_latex(),
        str(second.privacy),
    ):
        said = " ".join(view.split())
        assert "1.415-GDP in all 2 releases from these data so far" in said
    assert "all 2 releases, knows all else" in " ".join(str(second.privacy).split())
    assert "in all" not in str(first.summary())
    assert fit("y ~ a", data.copy()).privacy.release.number == 1
    x, y = people(500)
    names = {"exog_names": NAMES, "bounds": BOX, "family": pr.Huber(scale=0.3)}
    for number in (1, 2):
        res = pr.PrivateOnlineRegression(y, x, mu=2, **names).fit()
        assert res.privacy.release.number == number


@pytest.mark.thorough
@BOTH
def test_logistic_accepts_numbers_booleans_and_two_level_factors(tuning):
    x, y = people(3000, 4, binary=True)
    data = pd.DataFrame({"a": x[:, 1], "b": x[:, 2], "c": x[:, 3], "y": y})
    data["flag"], data["word"] = y == 1, np.where(y == 1, "yes", "no")
    box = {k: v for k, v in BOX.items() if k != "y"}
    options = {"family": "logistic", "bounds": box, "tuning": tuning}
    base = fit("y ~ a + b", data, **options)
    for formula, more in (
        ("flag ~ a + b", {}),
        ("word ~ a + b", {"levels": {"word": ["no", "yes"]}}),
    ):
        np.testing.assert_array_equal(fit(formula, data, **{**options, **more}).params, base.params)
    odds = base.tidy(exponentiate=True)
    np.testing.assert_allclose(odds["estimate"], np.exp(base.params))
    np.testing.assert_allclose(odds["conf_low"], np.exp(base.conf_int()[0]))
    mean = base.predict(data.head(20))
    assert mean.between(0, 1).all()
    np.testing.assert_allclose(np.log(mean / (1 - mean)), base.predict(data.head(20), which="linear"))
    table = base.get_prediction(data.head(20)).summary_frame()
    assert (table["mean_ci_lower"] < table["mean"]).all()
    assert (table["mean"] < table["mean_ci_upper"]).all()


@pytest.mark.some(1)
@pytest.mark.parametrize(
    "family", [pr.Huber(), pr.Quantile(0.9), pr.Expectile(0.8), pr.Squared(), pr.Hinge(), pr.SmoothedHinge()], ids=repr
)
def test_only_logs_are_exponentiated(family):
    res = array_model(2000, binary=family.binary, family=family).fit(progress=False)
    with pytest.raises(
        OptionError, match=r"odds ratios of Logistic\(\), Multinomial\(\) and Ordered\(\), rate ratios of Poisson"
    ) as told:
        res.tidy(exponentiate=True)
    assert f"this is {family!r}" in str(told.value)
    assert "estimate" in res.tidy()


@pytest.mark.thorough
def test_a_line_in_the_log_of_the_response_is_one_of_ratios():
    data = frame(3000).assign(y=lambda d: np.exp(d["y"]))
    for response in ("np.log(y)", "np.log1p(y)"):
        options = {"mu": 1, "bounds": {**BOX, "y": (0.01, 60)}}
        res = pr.PrivateOnlineRegression.from_formula(f"{response} ~ a", data, **options).fit(progress=False)
        np.testing.assert_array_equal(res.tidy(True)["estimate"], np.exp(res.params))


def test_allow_leak_warns_and_is_printed():
    data = frame(2000)
    data["g"] = np.random.default_rng(1).choice(["u", "v"], 2000)
    with pytest.warns(PrivacyLeakWarning) as caught:
        model = pr.PrivateOnlineRegression.from_formula("y ~ a + g", data, mu=1, allow_leak=("levels", "scale"))
    assert {str(w.message).split(" taken")[0] for w in caught} == {"levels of g", "mean and sd of y, a"}
    res = model.fit()
    assert "NOT WHOLLY PRIVATE: levels and scale taken from the" in " ".join(res.summary().as_text().split())
    assert "TAKEN FROM THE DATA" in str(res.privacy)
    assert "not private" in str(res.privacy)
    x, y = people(2000)
    with pytest.warns(PrivacyLeakWarning):
        leaky = pr.PrivateOnlineRegression(y, sm.add_constant(x[:, 1:]), exog_names=NAMES, mu=1, allow_leak="scale")
    assert "scale" in leaky.schema.leaked


@pytest.mark.thorough
def test_statsmodels_attributes_name_their_private_alternative():
    res = array_model().fit()
    for name in ("resid", "fittedvalues", "rsquared", "llf", "aic", "bic", "HC0_se", "rsquared_adj"):
        with pytest.raises(NotPrivateError, match="not private") as caught:
            getattr(res, name)
        assert isinstance(caught.value, AttributeError)
    assert not hasattr(res, "resid")
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = res.nonsense
    for call in (lambda: array_model().fit(cov_type="HC0"), lambda: res.conf_int(cov_type="HC1")):
        with pytest.raises(TypeError, match="inference"):
            call()
    with pytest.raises(UnsupportedArgumentError, match=r"tunning.*Did you mean 'tuning'"):
        array_model().fit(tunning="published")


@pytest.mark.thorough
@BOTH
def test_start_params_are_in_the_users_units(tuning):
    data = frame(3000)
    res = fit("y ~ a + b", data, start_params={"Intercept": 0.5, "a": 1.0, "b": -1.0}, tuning=tuning)
    far = fit("y ~ a + b", data, tuning=tuning)
    assert res._fit.trail_params[0] != pytest.approx(far._fit.trail_params[0])
    same = fit("y ~ a + b", data, start_params=[0.5, 1.0, -1.0], tuning=tuning)
    np.testing.assert_array_equal(res.params, same.params)
    # the same guess in other units of a and y: "Intercept" moves by the middle of the box of a
    moved = data.assign(a=100 + 4 * data["a"], y=8 * data["y"])
    bounds = {**BOX, "a": (96, 104), "y": (-32, 32)}
    guess = {"Intercept": 4.0 - 200.0, "a": 2.0, "b": -8.0}
    other = fit("y ~ a + b", moved, bounds, family=pr.Huber(scale=2.4), start_params=guess, tuning=tuning)
    np.testing.assert_allclose(other.params[["a", "b"]], res.params[["a", "b"]] * [2.0, 8.0], rtol=1e-9)
    with pytest.raises(OptionError, match="lacks 'b'"):
        fit("y ~ a + b", data, start_params={"Intercept": 0, "a": 1})


def test_published_tuning_pins_the_sources_settings():
    x, y = people(2000)
    unit = {n: (0.0, 1.0) for n in (*NAMES[1:], "y")}
    m = pr.PrivateOnlineRegression(y, x, exog_names=NAMES, moments=unit, mu=1)
    s = resolve_tuning(FitOptions("published"), m._spec, None)
    assert [e.name for e in s.methods] == ["random_scaling"]
    assert (s.how.batch, s.efficient) == (1, None)
    assert s.how.steps == (0.5, 0.51, 0.0)
    assert (s.how.score.c, s.how.weighing, s.how.bound) == (
        1.345,
        "published",
        pytest.approx(np.sqrt(2) * 1.345),
    )
    with pytest.warns(PrivacyLeakWarning):
        m = pr.PrivateOnlineRegression(y, x, exog_names=NAMES, mu=1, allow_leak="scale")
    s = resolve_tuning(FitOptions("published"), m._spec, None)
    assert [e.name for e in s.methods] == ["random_scaling"]
    assert (s.how.batch, s.efficient) == (1, None)
    assert s.how.steps[:2] == (0.2, 0.501)


@pytest.mark.thorough
def test_auto_c_is_half_the_scale_under_noise_and_classical_without():
    m = array_model(family=pr.Huber(scale=0.3))
    assert "c = 0.5 × residual scale 0.3 (declared)" in resolve_tuning(FitOptions(), m._spec, None).score_text
    free = resolve_tuning(FitOptions(), array_model(family=pr.Huber(scale=0.3), mu=None)._spec, None)
    assert "c = 1.345" in free.score_text
    learned = array_model(20_000, family=pr.Huber()).fit(seed=1)
    words = dict(learned._fit.title)["Family"]
    assert words.startswith("Huber, c = 0.5 × residual scale ")
    assert words.endswith("(learned)")
    assert 0.15 < float(words.split()[-2]) < 0.6  # the errors' sd is 0.3


@pytest.mark.thorough
def test_the_default_depends_on_the_number_of_people_only_if_that_is_known():
    x, y = people(2000)
    by_length, told, unknown = array_model(), array_model(rows=2000), array_model()
    res = by_length.fit(seed=1, order="position")
    assert res.methods == ("sandwich",)
    np.testing.assert_array_equal(told.start(seed=1).update((y, x)).results().params, res.params)
    plans = [resolve_tuning(FitOptions(), m._spec, rows).efficient for m, rows in ((unknown, None), (told, 2000))]
    assert plans[0] != plans[1]


@pytest.mark.some(1)
@BOTH
def test_every_view_of_a_fit_without_privacy_says_so(tuning):
    res = array_model(mu=None).fit(tuning=tuning)
    for text in (repr(res), res.summary().as_text(), res.summary().as_html(), res.privacy.as_text()):
        assert "NOT" in text


@pytest.mark.thorough
def test_short_streams_say_that_intervals_may_be_too_short():
    short, long = array_model(200).fit(), array_model(60_000).fit(seed=4)
    assert any("200 records are few for 4 coefficients" in n for n in short.privacy.notes)
    assert not any(n.startswith("don't rely") for n in long.privacy.notes)
    published = array_model(200)
    assert any("few records" in n for n in published.fit(tuning="published").privacy.notes)
    settings = resolve_tuning(FitOptions("published"), published._spec, None)
    mixed = [settings.how.steps.total(n) * settings.how.weakest for n in (10_000, 1_000_000)]
    assert mixed[0] < MIXING < mixed[1]


def test_estimates_that_overflow_are_refused():
    with pytest.raises(InferenceError, match="overflowed"):
        array_model().fit(step=1e308, tuning="published")


@pytest.mark.thorough
def test_losses_are_printed_rounded_up():
    for mu in np.linspace(0.1, 3.0, 30):
        told = array_model(mu=float(mu)).fit(tuning="published", inference=None).privacy.guarantee
        epsilon, delta = told.split("hence (")[1].split(")")[0].split(", ")
        assert gdp_delta(float(mu), float(epsilon)) <= float(delta)
        assert float(told.split("-GDP")[0]) >= mu - 1e-12


def test_fits_from_one_mapping_list_or_frame_are_counted_together():
    data = frame(500)
    columns = {c: data[c].to_numpy() for c in data}
    parts = [data.iloc[:200], data.iloc[200:]]
    counts = [fit("y ~ a", source, rows=500).privacy.release.number for source in (columns, columns, parts, parts)]
    assert counts == [1, 2, 3, 4]
    assert fit("y ~ a", iter(parts), rows=500).privacy.release.number == 0
    exog = pd.DataFrame({"const": 1, "a": data["a"]})
    options = {"bounds": {"a": (-1, 1), "y": (-4, 4)}, "mu": 1}
    counts = [pr.PrivateOnlineRegression(data["y"], exog, **options).fit().privacy.release.number for _ in range(2)]
    assert counts == [5, 6]


@pytest.mark.thorough
def test_only_columns_taken_from_the_data_are_labelled_so():
    data = frame(2000)
    with pytest.warns(PrivacyLeakWarning):
        model = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + b", data, mu=1, moments={"a": (0, 0.6)}, allow_leak="scale"
        )
    declared = dict(model.fit().privacy.declared)
    assert "TAKEN FROM THE DATA" in declared["b"]
    assert "TAKEN" not in declared["a"]


@pytest.mark.thorough
def test_a_fit_by_rounds_loads_no_compiler():
    code = (
        "import sys, numpy as np, privreg as pr\n"
        "x = np.linspace(-1, 1, 4000)\n"
        "data = {'x': x, 'y': x}\n"
        "model = pr.PrivateOnlineRegression.from_formula('y ~ x', data, bounds={'x': (-1, 1), 'y': (-2, 2)}, mu=1)\n"
        "model.fit(progress=False).summary()\n"
        "assert 'numba' not in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
