"""Measures of fit by rounds: the last records tell, each randomised by itself, at an estimate made before them."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import InferenceError
from privreg.families import measures
from privreg.families.scores import Gauge
from tests.results.test_measures import BOUNDS, NAMES, N, fitted, made, value

TOLD = slice(N - int(0.2 * N), N)
FAMILIES = [
    ("line", pr.Huber()),
    ("line", pr.Quantile(0.8)),
    ("binary", pr.Logistic()),
    ("binary", pr.Hinge()),
    ("count", pr.Poisson(20)),
]


def model(kind="line", **options):
    y, x, bounds = made(kind)
    public = {"exog_names": NAMES, "endog_name": "y", "bounds": {**BOUNDS, **bounds}}
    return pr.PrivateOnlineRegression(y, x, **public, **options), y, x


@pytest.mark.some(2)
@pytest.mark.parametrize(("kind", "family"), FAMILIES[1:])
def test_without_noise_the_measures_are_those_of_the_records_that_told(kind, family):
    res, y, x = fitted(kind, family, order="position")
    gauge = Gauge(family.code, family.tau, 2, 1.0, 1.0, 0.0, family.y_max)
    told = measures.values(gauge, (x[TOLD] @ res.params.to_numpy())[:, None], y[TOLD])
    expected = measures.summarise(gauge, told.mean(axis=0), np.cov(told.T, bias=True).reshape(told.shape[1], -1), 1.0)
    for m in expected:
        assert value(res.fit_measures, m.name) == pytest.approx(m.estimate, abs=2e-4)
        assert value(res.fit_measures, m.name, "std_error") == pytest.approx(m.std_error * len(told) ** -0.5, rel=0.02)


@pytest.mark.thorough
def test_shares_of_variance_are_those_of_the_other_engine_without_noise():
    res, y, x = fitted("line", "huber", order="position")
    r = (y - x @ res.params.to_numpy())[TOLD]
    # clipping at three learned sd takes a little off both variances
    assert value(res.fit_measures, "R²") == pytest.approx(1.0 - r.var() / y[TOLD].var(), abs=0.02)
    assert value(res.fit_measures, "residual sd") == pytest.approx(r.std(), rel=0.05)
    old, *_ = fitted("line", "huber")
    for name in ("R²", "residual sd"):
        both = value(res.fit_measures, name, "std_error") + value(old.fit_measures, name, "std_error")
        assert abs(value(res.fit_measures, name) - value(old.fit_measures, name)) < 3 * both


@pytest.mark.some(2)
@pytest.mark.parametrize(("kind", "family"), FAMILIES)
@pytest.mark.parametrize("mu", [1, 4])
def test_private_measures_lie_within_their_standard_errors(kind, family, mu):
    res, y, x = fitted(kind, family, mu=mu)
    table = res.fit_measures
    assert (table["std_error"] > 0).all()
    assert [m for m, _ in res.privacy.fit_measures] == list(table["measure"])
    assert "from 12,000 records instead of a score" in res.privacy.fit_measures[0][1]
    public = res.evaluate((y[TOLD].copy(), x[TOLD].copy())).set_index("measure")["value"]
    compared = {"accuracy", "log-loss", "hinge loss", "mean deviance", "share below"} & set(public.index)
    compared &= set(table["measure"])
    assert compared or kind == "line"
    for name in compared:
        assert abs(value(table, name) - public[name]) < 4 * value(table, name, "std_error")
    if family == pr.Quantile(0.8):
        truth = (y[TOLD] < x[TOLD] @ res.params.to_numpy()).mean()
        error = value(table, "share below", "std_error")
        assert abs(value(table, "share below") - truth) < 4 * error
        # two numbers, whether somebody has something to tell being the other: noise sd √2/μ each
        noise = 2 / mu**2 * (1 + truth**2)
        assert error == pytest.approx(((noise + truth * (1 - truth)) / (0.2 * N)) ** 0.5, rel=0.05)


def test_main_rounds_share_what_is_left_and_no_budget_is_spent():
    res, *_ = fitted("line", "huber", mu=1, share=0.25)
    m, *_ = model(mu=1)
    alone = m.fit(progress=False, seed=3)
    assert res.privacy.total_mu == alone.privacy.total_mu == 1
    assert alone._fit.senders - res._fit.senders == pytest.approx(0.25 * N, abs=100)
    assert res.nobs == alone.nobs == N
    assert alone._fit.measures == ()
    assert "measures of fit" in {p["report"] for p in res.privacy.mechanics}
    # what is estimated on the way counts everybody who had reported by then
    assert list(res._fit.trail_n) == sorted(set(res._fit.trail_n))
    pilots = res.nobs - 0.25 * N - res._fit.senders
    assert set(res._fit.trail_n[:-1] - res._fit.trail_senders[:-1]) == {pilots}


@pytest.mark.thorough
def test_a_loaded_stream_goes_on_to_the_same_bits_among_those_who_tell(tmp_path):
    m, y, x = model(mu=1, rows=N)
    stream = m.start(measures=0.2, seed=1).update((y[:55_000], x[:55_000]))
    early = stream.results()
    stream.save(tmp_path / "s")
    whole = stream.update((y[55_000:], x[55_000:])).results()
    again = pr.load(tmp_path / "s").update((y[55_000:], x[55_000:])).results()
    pd.testing.assert_frame_equal(whole.fit_measures, again.fit_measures)
    pd.testing.assert_series_equal(whole.params, again.params)
    pd.testing.assert_series_equal(whole.params, early.params)
    assert value(early.fit_measures, "R²", "std_error") > value(whole.fit_measures, "R²", "std_error")


def test_notes_say_when_measures_come_and_that_late_records_send_no_score():
    m, y, x = model(mu=1, rows=50_000)
    stream = m.start(measures=0.1, seed=1).update((y[:40_000], x[:40_000]))
    before = stream.results()
    assert "no measures of fit yet" in " ".join(before.privacy.notes)
    with pytest.raises(InferenceError, match="no measures of fit yet"):
        _ = before.fit_measures
    after = stream.update((y[40_000:], x[40_000:])).results()
    assert "those beyond answered measures of fit and sent no score" in " ".join(after.privacy.notes)
    assert "no measures of fit yet" not in " ".join(after.privacy.notes)


def test_records_with_smaller_budgets_send_more_noise_and_count_for_less():
    y, x, _ = made("binary")
    mu = np.where(np.arange(N) % 2, 2.0, 1.0)
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2], "mu": mu})
    public = {"bounds": BOUNDS, "mu": "mu", "mu_max": 2, "levels": {"y": [0, 1]}}
    res = pr.PrivateOnlineRegression.from_formula("y ~ a + b", frame, family="logistic", **public).fit(
        measures=0.2, progress=False, seed=3
    )
    truth = float(res.evaluate(frame[TOLD].copy()).set_index("measure").loc["accuracy", "value"])
    error = value(res.fit_measures, "accuracy", "std_error")
    assert abs(value(res.fit_measures, "accuracy") - truth) < 4 * error
    weight = (mu[TOLD] / 2) ** 2
    # four numbers, of noise variance 4/μ², the last of which is divided by; squares of weights are 5/8 of them
    noise = 4 / 2**2 * (1 + truth**2)
    assert error == pytest.approx(((noise + 0.625 * truth * (1 - truth)) / weight.sum()) ** 0.5, rel=0.1)


@pytest.mark.thorough
def test_silent_records_count_for_no_measure():
    y, x, bounds = made("line")
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2]})
    gone = frame.assign(y=frame["y"].where(np.arange(N) % 3 > 0))
    public = {"mu": 2, "bounds": {**BOUNDS, **bounds}, "missing": "noise"}
    res = pr.PrivateOnlineRegression.from_formula("y ~ a + b", gone, **public).fit(measures=0.3, progress=False, seed=1)
    truth = float(res.evaluate(frame.copy()).set_index("measure").loc["R²", "value"])
    assert abs(value(res.fit_measures, "R²") - truth) < 4 * value(res.fit_measures, "R²", "std_error") < 0.5
