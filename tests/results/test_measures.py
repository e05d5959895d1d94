"""Privately released measures of fit, and their public counterparts on a test set."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import DataError, InferenceError, NotPrivateError, OptionError
from privreg.families import measures
from privreg.families.scores import CAP, Gauge

N = 60_000
NAMES = ["const", "a", "b"]
BOUNDS = {"a": (-4, 4), "b": (-4, 4)}


def made(kind, seed=5):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(N), np.clip(rng.normal(size=(N, 2)), -4, 4)])  # inside their bounds
    eta = x @ [0.5, 1.0, -1.0]
    if kind == "line":
        return eta + 0.5 * rng.normal(size=N), x, {"y": (-8, 9)}
    if kind == "binary":
        return (rng.random(N) < 1 / (1 + np.exp(-eta))) * 1.0, x, {}
    return np.minimum(rng.poisson(np.exp(0.3 * eta + 1.5)), 20.0).astype(float), x, {}


def fitted(kind, family, mu=None, share=0.2, **options):
    y, x, bounds = made(kind)
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=NAMES, endog_name="y", bounds={**BOUNDS, **bounds}, family=family, mu=mu
    )
    return model.fit(measures=share, progress=False, seed=3, **options), y, x


def value(frame, name, column="estimate"):
    return float(frame.set_index("measure").loc[name, column])


@pytest.mark.thorough
def test_without_noise_the_measures_are_those_of_the_people_who_told():
    res, y, x = fitted("line", "huber", order="position")
    r = (y - x @ res.params.to_numpy())[-int(0.2 * N) :]
    truth = 1.0 - r.var() / y[-int(0.2 * N) :].var()
    # clipping at three learned sd takes a little off both variances
    assert value(res.fit_measures, "R²") == pytest.approx(truth, abs=0.02)
    assert value(res.fit_measures, "residual sd") == pytest.approx(r.std(), rel=0.05)
    logistic, y, x = fitted("binary", "logistic", order="position")
    share = 1 / (1 + np.exp(-(x @ logistic.params.to_numpy())))
    told = slice(N - int(0.2 * N), N)
    assert value(logistic.fit_measures, "accuracy") == pytest.approx(((share > 0.5) == y)[told].mean(), abs=1e-9)
    loss = -np.log(np.where(y == 1, share, 1 - share))[told]
    assert value(logistic.fit_measures, "log-loss") == pytest.approx(np.minimum(loss, CAP).mean(), abs=1e-9)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("kind", "family", "names"),
    [
        ("line", pr.Huber(), ["R²", "residual sd"]),
        ("line", pr.Quantile(0.8), ["share below"]),
        ("line", pr.Squared(), ["R²", "residual sd"]),
        ("binary", pr.Logistic(), ["deviance explained", "log-loss", "accuracy"]),
        ("binary", pr.Hinge(), ["accuracy", "hinge loss"]),
        ("count", pr.Poisson(20), ["mean deviance", "mean response", "mean prediction"]),
    ],
)
def test_private_measures_are_as_precise_as_they_say(kind, family, names):
    res, y, x = fitted(kind, family, mu=1)
    quiet = measures.values(
        Gauge(family.code, family.tau, 2, 1.0, 1.0, 0.0, family.y_max), (x @ res._fit.params)[:, None], y
    )
    assert ((quiet >= 0) & (quiet <= 1)).all()
    assert list(res.fit_measures["measure"]) == names
    table = res.fit_measures
    assert (table["std_error"] > 0).all()
    assert (table["conf_low"] < table["estimate"]).all()
    if kind != "line":
        public = res.evaluate((y.copy(), x.copy()))  # the fit's own rows, as the simulation may
        for name in {"accuracy", "log-loss", "hinge loss", "mean deviance"} & set(names):
            truth = float(public.set_index("measure").loc[name, "value"])
            assert abs(value(table, name) - truth) < 5 * value(table, name, "std_error")
    assert [m for m, _ in res.privacy.fit_measures] == names
    assert "instead of a score" in res.privacy.fit_measures[0][1]


def test_measures_cost_people_and_no_budget():
    with_, *_ = fitted("line", "huber", mu=1, share=0.25)
    y, x, bounds = made("line")
    alone = pr.PrivateOnlineRegression(y, x, exog_names=NAMES, endog_name="y", bounds={**BOUNDS, **bounds}, mu=1).fit(
        progress=False, seed=3
    )
    assert with_.privacy.total_mu == alone.privacy.total_mu == 1
    assert with_._fit.senders < alone._fit.senders - 0.2 * N
    assert with_.nobs == alone.nobs == N
    with pytest.raises(InferenceError, match=r"fit\(measures=0\.05\) asks for them"):
        _ = alone.fit_measures
    assert alone.privacy.fit_measures == ()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"measures": 0.7}, r"measures=0.7 must be a number in \(0, 0.5\)"),
        ({"measures": "all"}, "measures='all' must be a number"),
        ({"measures": 0.1, "tuning": "published"}, "goes with tuning='efficient'"),
    ],
)
def test_measures_that_can_not_be_had_are_refused(options, words):
    y, x, bounds = made("line")
    model = pr.PrivateOnlineRegression(y, x, exog_names=NAMES, endog_name="y", bounds={**BOUNDS, **bounds}, mu=1)
    with pytest.raises(OptionError, match=words):
        model.fit(progress=False, **options)
    with pytest.raises(OptionError, match="give rows= to the model"):
        model.start(measures=0.1)


def test_a_test_set_is_judged_as_by_hand():
    res, told, own = fitted("line", "huber", mu=1, share=0.1)
    x, y = own.copy(), told.copy()
    for rows in ((y, own), (told, x), (y[:50], own[:50])):
        with pytest.raises(NotPrivateError, match="fitted privately in this process"):
            res.evaluate(rows)
    r = y - x @ res.params.to_numpy()
    table = res.evaluate((y, x)).set_index("measure")["value"]
    assert table["mean squared error"] == pytest.approx((r**2).mean())
    assert table["R²"] == pytest.approx(1 - (r**2).mean() / y.var())
    with pytest.raises(NotPrivateError, match="public test set"):
        res.evaluate(None)


@pytest.mark.thorough
def test_a_test_set_may_be_a_file(tmp_path, monkeypatch):
    monkeypatch.setattr("privreg.data.sources.tables.CHUNK", 1000)
    y, x, _ = made("binary")
    frame = pd.DataFrame({"y": np.where(y == 1, "yes", "no"), "a": x[:, 1], "b": x[:, 2], "o": x[:, 1] / 4})
    frame.to_csv(tmp_path / "test.csv", index=False)
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b",
        frame,
        family="logistic",
        mu=1,
        offset="o",
        bounds={**BOUNDS, "o": (-1, 1)},
        levels={"y": ["no", "yes"]},
    )
    res, frame = model.fit(progress=False), pd.read_csv(tmp_path / "test.csv")  # pandas' copies share texts
    for path in (tmp_path / "test.csv", str(tmp_path / "test.csv")):
        pd.testing.assert_frame_equal(res.evaluate(path), res.evaluate(frame))
    with pytest.raises(DataError, match="there is no file"):
        res.evaluate("none.csv")
    frame.to_csv(tmp_path / "people.csv", index=False)
    options = {"mu": 1, "family": "logistic", "bounds": BOUNDS, "levels": {"y": ["no", "yes"]}}
    pr.PrivateOnlineRegression.from_formula("y ~ a + b", tmp_path / "people.csv", **options).fit(progress=False)
    with pytest.raises(NotPrivateError, match="fitted privately in this process"):
        res.evaluate(tmp_path / "people.csv")
    (tmp_path / "empty.csv").write_text("y,a,b,o\n")
    with pytest.raises(OptionError, match="has no rows"):
        res.evaluate(tmp_path / "empty.csv")
    with pytest.raises(DataError, match=r"test set of an array model is \(endog, exog\)"):
        fitted("line", "huber", mu=1)[0].evaluate("test.csv")


@pytest.mark.thorough
def test_people_who_come_after_all_that_were_said_tell_and_send_no_score():
    y, x, bounds = made("line")
    model = pr.PrivateOnlineRegression(
        y, x, exog_names=NAMES, endog_name="y", bounds={**BOUNDS, **bounds}, mu=1, rows=50_000
    )
    stream = model.start(measures=0.1, seed=1).update((y[:52_000], x[:52_000]))
    before = stream.results()
    assert "was said" not in " ".join(before.privacy.notes)
    after = stream.update((y[52_000:], x[52_000:])).results()
    note = next(n for n in after.privacy.notes if "was said" in n)
    assert note.startswith("rows=50,000 was said and 60,000 records came: those beyond answered measures of fit")
    assert after._fit.senders == before._fit.senders
    plain = (
        model.start(seed=1).update((y, x)).results()
    )  # there they send scores, and up to a quarter more cost nothing
    assert plain._fit.senders > after._fit.senders
    assert "was said" not in " ".join(plain.privacy.notes)


@pytest.mark.thorough
def test_silent_people_count_for_no_measure():
    y, x, bounds = made("line")
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2]})
    gone = frame.assign(y=frame["y"].where(np.arange(N) % 3 > 0))
    model = {"mu": 2, "bounds": {**BOUNDS, **bounds}, "missing": "noise"}
    res = pr.PrivateOnlineRegression.from_formula("y ~ a + b", gone, **model).fit(measures=0.3, progress=False, seed=1)
    truth = float(res.evaluate(frame.copy()).set_index("measure").loc["R²", "value"])
    assert abs(value(res.fit_measures, "R²") - truth) < 5 * value(res.fit_measures, "R²", "std_error") < 0.5


def test_a_row_alone_is_one_that_holds_nothing_but_the_response():
    y, x, bounds = made("line")
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "o": x[:, 2]})
    public = {"bounds": {**bounds, "a": (-4, 4), "o": (-4, 4)}, "mu": 1}
    one_number = {}
    for formula, more in {"y ~ 1": {}, "y  ~ 1": {"offset": "o"}, "y ~ 0 + np.sign(a + 5)": {}}.items():
        model = pr.PrivateOnlineRegression.from_formula(formula, frame, **public, **more)
        one_number[formula] = model.start()._run.plan.label
    assert one_number == {"y ~ 1": True, "y  ~ 1": False, "y ~ 0 + np.sign(a + 5)": False}
