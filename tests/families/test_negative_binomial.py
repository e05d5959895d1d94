"""Negative binomial: the likelihood's fit without noise, numbers of its dispersion, and distances of reports."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import nbinom

import privreg as pr
from privreg.collector.aggregate import estimate, extra, report
from privreg.collector.aggregate.curvature import level
from privreg.collector.aggregate.plan import Plan, State, rules_of
from privreg.errors import PrivregError
from privreg.families import scores
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.sums import APART, SHARES

TRUTH, ALPHA, Y_MAX = np.array([0.4, 0.6, -0.5]), 0.6, 30.0
BOUNDS = {"x": (-1, 1), "z": (-2, 2)}
SCORE, SHAPE = scores.scoring_of(codes.NEGATIVE_BINOMIAL), Shape(codes.NEGATIVE_BINOMIAL, Y_MAX, 0.1 * Y_MAX, 0)
LIKELIHOOD = SHAPE._replace(b=0.0)


@cache
def people(n: int, alpha: float = ALPHA, seed: int = 1, *, zeros: float = 0.0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z, t = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2), rng.uniform(0.5, 2.0, n)
    mean = t * np.exp(TRUTH @ np.array([np.ones(n), x, z]))
    y = rng.poisson(rng.gamma(1.0 / alpha, alpha * mean)) * (rng.uniform(size=n) >= zeros)
    return pd.DataFrame({"x": x, "z": z, "t": t, "y": np.minimum(y, Y_MAX).astype(float)})


def fitted(data: pd.DataFrame, trust: str, mu: float | None, **more):
    options = {k: more.pop(k) for k in ("silos",) if k in more}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", data, family=pr.NegativeBinomial(Y_MAX), mu=mu, bounds={**BOUNDS, "t": (0.5, 2)}, trust=trust,
        exposure="t", **options,
    )  # fmt: skip
    return model.fit(progress=False, **more)


def chances(mean: float, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    y = np.arange(0.0, 9_000.0)
    return y, nbinom.pmf(y, 1.0 / alpha, 1.0 / (1.0 + alpha * mean))


# --- numbers -------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5, 2.0, 8.0])
@pytest.mark.parametrize("mean", [1e-6, 0.05, 0.3, 1.0, 5.0, 25.0])
def test_the_number_has_mean_zero_at_its_dispersion_and_does_not_move_with_the_mean(mean, alpha):
    (y, chance), one = chances(mean, alpha), np.ones(9_000)
    number, rise = SCORE.number(SHAPE, alpha, math.log(mean) * one, y)
    assert np.abs(number).max() <= 1.0 + 1e-12
    assert abs(chance @ number) < 1e-9
    assert abs(chance @ (number * (y - mean))) < 1e-8
    h = 1e-4
    up, down = (chances(mean, alpha * math.exp(s))[1] @ number for s in (h, -h))
    assert (rise >= 0.0).all()
    assert (rise <= 1.0).all()
    assert (up - down) / (2 * h) == pytest.approx(rise[0], rel=1e-4, abs=1e-9)


@pytest.mark.parametrize(("truth", "there"), [(0.6, 1.2), (0.2, 0.1), (3.0, -0.4)])
def test_its_mean_elsewhere_is_a_sum_over_counts(truth, there):
    (y, chance), one, here = chances(math.exp(there), truth), np.ones(9_000), np.array([0.3])
    number, rise = SCORE.number(SHAPE, 0.6, 0.3 * one, y)
    found, slope = SCORE.reference(SHAPE, 0.6, here, np.array([there]), truth)
    assert found[0] == pytest.approx(chance @ number, abs=1e-9)
    assert slope[0] == rise[0]


@pytest.mark.some(1)
@pytest.mark.parametrize("alpha", [0.1, 0.3, 1.0, 3.0])
@pytest.mark.parametrize("mean", [0.3, 1.0, 3.0, 10.0, 40.0])
def test_the_dispersions_variance_is_at_most_1_5_of_the_likelihoods(mean, alpha):
    (y, chance), one = chances(mean, alpha), np.ones(9_000)
    far = SHAPE._replace(a=1e4)
    number, rise = SCORE.number(far, alpha, math.log(mean) * one, y)
    least = far.a * SCORE.number(far._replace(b=0.0), alpha, math.log(mean) * one, y)[0]
    ratio = float(chance @ number**2) / rise[0] ** 2 * float(chance @ least**2)
    assert 1.0 - 1e-9 <= ratio < 1.5


@pytest.mark.parametrize("y", [0.0, 1.0, 4.0, Y_MAX])
def test_without_noise_number_and_slope_are_those_of_the_likelihood(y):
    def loss(alpha, mean):
        return -nbinom.logpmf(y, 1.0 / alpha, 1.0 / (1.0 + alpha * mean))

    h, alphas, means = 3e-3, np.array([0.05, 0.4, 1.0, 3.0]), np.array([0.1, 1.0, 7.0])
    for mean in means:
        for alpha in alphas:
            number, rise = SCORE.number(LIKELIHOOD, alpha, np.array([math.log(mean)]), np.array([y]))
            low, here, high = (loss(alpha * math.exp(s), mean) for s in (-h, 0.0, h))
            assert -Y_MAX * number[0] == pytest.approx((high - low) / (2 * h), abs=1e-4)
            assert Y_MAX * rise[0] == pytest.approx((high - 2 * here + low) / h**2, abs=1e-4)


@pytest.mark.parametrize("shape", [SHAPE, LIKELIHOOD], ids=["bounded", "likelihood"])
def test_slopes_are_those_of_the_score_and_bounded(shape):
    etas, h = np.linspace(-9.0, math.log(Y_MAX) - 1e-3, 200), 1e-5
    etas = etas[np.abs(etas - math.log(0.1 * Y_MAX)) > 2 * h]
    for alpha in (1e-4, 0.03, 0.4, 3.0, 1e3):
        for y in (0.0, 1.0, 7.0, Y_MAX):
            ys = np.full(len(etas), y)
            found = SCORE.slope(shape, alpha, etas, ys, 1.0)
            up, down = (scores.unit(shape, alpha, etas + s, ys) for s in (h, -h))
            np.testing.assert_allclose(found, (up - down) / (2 * h), rtol=1e-6, atol=1e-9)
            assert 0.0 <= found.min() <= found.max() <= 1.0
            assert np.abs(scores.unit(shape, alpha, etas, ys)).max() <= 1.0


# --- distances -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_reports_of_adversarial_rows_are_no_farther_apart_than_the_noise_is_for(again):
    """Rows as far out as they can be, of all sizes of counts, at predictors where numbers are largest."""
    d, kind = 3, "window, again" if again else "window"
    rules = rules_of(pr.NegativeBinomial(Y_MAX), 0.0, Y_MAX, again=again)
    assert (rules.shares, rules.scaled, rules.cornered) == (SHARES[kind], True, False)
    plan = Plan(d, 5_000, 1.0, rules, 0.0, Y_MAX, np.zeros(d, dtype=bool), np.full(d, -1e4), np.full(d, 1e4))
    assert plan.delta2 == APART[kind] / 10_000
    rng = np.random.default_rng(2)
    ends = np.concatenate([np.eye(d), rng.normal(size=(8, d))])
    ends *= plan.reach / np.linalg.norm(ends, axis=1, keepdims=True)  # where a row's weight begins to fall
    x = np.concatenate([ends, -ends, 40.0 * ends, 1e-6 * ends])
    most = 0.0
    for alpha in (1e-4, 0.3, 1.0, 50.0):
        for theta in (np.zeros(d), np.array([3.0, 0.0, 0.0]), rng.normal(size=d) * 2.0):
            state = State(9, "main", np.eye(d), theta, 0.0, alpha, 1.0, 1.0)
            given = [(y, offset) for y in (0.0, 1.0, 2.0, Y_MAX) for offset in (-8.0, 0.0, 3.0)]
            one = np.ones(len(x))
            made = np.concatenate([report.vectors(plan, state, y * one, x, offset * one) for y, offset in given])
            assert (np.linalg.norm(made, axis=1) <= 1.0 + 1e-12).all()
            products = made @ made.T
            most = max(most, float((np.diag(products)[:, None] + np.diag(products) - 2.0 * products).max()))
    assert 1.7 < most <= plan.delta2


# --- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(("n", "alpha"), [(400, 1.5), (4_000, 0.15), (20_000, ALPHA)])
def test_without_noise_it_is_statsmodels_fit(n, alpha):
    data = people(n, alpha)
    res = fitted(data, "central", None)
    x = sm.add_constant(data[["x", "z"]])
    model = sm.NegativeBinomial(data.y.to_numpy(), x.to_numpy(), exposure=data.t.to_numpy())
    plain = model.fit(disp=0, method="bfgs", gtol=1e-9, maxiter=1_000, warn_convergence=False)
    assert np.abs(model.score(plain.params)).max() < 1e-3 * math.sqrt(n)
    np.testing.assert_allclose(res.params, plain.params[:-1], atol=1e-5)
    found = res.fit_measures.iloc[0]
    assert found["measure"] == "alpha"
    assert found["estimate"] == pytest.approx(plain.params[-1], abs=1e-5)
    at = data.head(50)
    told = plain.predict(sm.add_constant(at[["x", "z"]], has_constant="add").to_numpy(), exposure=at.t.to_numpy())
    np.testing.assert_allclose(res.predict(at), told, rtol=1e-4)
    bread, scored = np.linalg.inv(-model.hessian(plain.params)), model.score_obs(plain.params)
    errors = np.sqrt(np.diag(bread @ scored.T @ scored @ bread))
    np.testing.assert_allclose([*res.bse, found["std_error"]], errors, rtol=0.02)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("trust", "mu", "more"),
    [("two_collectors", 1.0, {}), ("central", 0.5, {}), ("silos", 1.0, {"silos": 3})],
)
def test_trust_models_of_sums_are_near_the_truth_in_standard_errors(trust, mu, more):
    data = people(30_000)
    data = {f"s{k}": part for k, (_, part) in enumerate(data.groupby(np.arange(len(data)) % 3))} if more else data
    res = fitted(data, trust, mu, seed=4)
    assert np.abs((res.params - TRUTH) / res.bse).max() < 4.0
    assert (np.asarray(res.bse) < 0.3).all()
    alpha = res.fit_measures.iloc[0]
    assert abs(alpha["estimate"] - ALPHA) < 4.0 * alpha["std_error"] < 0.6
    text = res.summary(details=True).as_text()
    assert "log rate ratios" in text
    assert "alpha 0." in text


@pytest.mark.thorough
def test_counts_without_dispersion_have_coefficients_and_an_unreliable_alpha():
    data = people(20_000, 1e-9)
    res = fitted(data, "central", 2.0, seed=4)
    assert np.abs((res.params - TRUTH) / res.bse).max() < 4.0
    alpha = res.fit_measures.iloc[0]
    assert alpha["estimate"] < 0.05
    assert math.isnan(alpha["std_error"])
    assert "unreliable" in alpha["meaning"]


def rare(seed: int) -> float:
    """Fit counts of which one is for five people, with two collectors; the mean square of their unit score."""
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 20_000), "z": rng.normal(0, 0.6, 20_000).clip(-2, 2)})
    mean = np.exp(-1.5 + 0.6 * data.x - 0.5 * data.z)
    data["y"] = rng.poisson(rng.gamma(1.0 / ALPHA, ALPHA * mean)).clip(0, 20).astype(float)
    pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", data, family=pr.NegativeBinomial(20), mu=1, bounds=BOUNDS, trust="two_collectors"
    ).fit(progress=False, seed=seed)
    return float(np.mean((data.y - mean) ** 2)) / 20.0**2


@pytest.mark.thorough
def test_rows_of_the_model_have_the_constant_whatever_noise_makes_of_it(monkeypatch):
    modelled, made = extra.modelled, []

    def kept(rounds, curvature):
        made.append((modelled(rounds, curvature), np.linalg.inv(rounds.last.rows)[0], rounds.progress.known.mean))
        return made[-1][0]

    monkeypatch.setattr(extra, "modelled", kept)
    for seed in range(5):
        rare(seed)
    for model, one, _ in made:
        np.testing.assert_allclose(model.z @ one, 1.0, atol=1e-9)
    assert max(abs(one @ known @ one - 1.0) for _, one, known in made) > 0.05  # what noise makes of it


@pytest.mark.thorough
def test_squares_of_rare_counts_are_about_the_models_where_noise_hides_them(monkeypatch):
    squares, last = estimate._squares, {}

    def kept(rounds, slope):
        last[seed] = squares(rounds, slope)[1]
        return squares(rounds, slope)

    monkeypatch.setattr(estimate, "_squares", kept)
    for seed in range(8):
        square = rare(seed)
    assert min(last.values()) > 0.5 * square
    assert np.median(list(last.values())) < 4.0 * square  # their noise alone is more than six times as large


@pytest.mark.parametrize(("noise", "found"), [(0.0, 0.02), (0.03, 0.03), (0.3, 0.1)])
def test_a_level_is_as_large_as_its_noise_or_as_a_model_says(noise, found):
    got = level(np.array([[0.02]]), noise, 0.1, 4.0, 0.1)
    assert got == pytest.approx(found, rel=0.01)
    assert level(np.array([[0.02]]), noise, 0.1, 4.0) == pytest.approx(max(got, noise))


@pytest.mark.thorough
def test_slopes_are_right_where_zeros_are_inflated():
    res = fitted(people(40_000, zeros=0.3), "central", 2.0, seed=4)
    truth = TRUTH + np.array([math.log(0.7), 0.0, 0.0])
    assert np.abs((res.params - truth) / res.bse).max() < 4.0
    assert res.fit_measures.iloc[0]["estimate"] > 1.5 * ALPHA


def test_noise_on_each_report_is_refused_with_the_people_it_would_take():
    with pytest.raises(PrivregError, match=r"26\d,\d{3} people"):
        fitted(people(400), "local", 1.0)
    with pytest.raises(PrivregError, match="y_max=None must be a positive number"):
        pr.NegativeBinomial()
