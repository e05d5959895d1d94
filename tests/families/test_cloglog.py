"""Complementary log-log: the likelihood's fit without noise, bounded scores with it, and distances of reports."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import brentq
from scipy.spatial.distance import pdist

import privreg as pr
from privreg.collector.aggregate import report
from privreg.collector.aggregate.plan import Plan, State, rules_of
from privreg.families import scores
from privreg.families.cloglog import BEND, LARGEST
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.sums import APART, SHARES

TRUTH = np.array([-0.4, 1.2, -0.8])
BOUNDS = {"x": (-1, 1), "z": (-2, 2)}
LIKELIHOOD = Shape(codes.CLOGLOG, LARGEST, 0.0, 0)
ETAS = np.linspace(-9.0, 3.4, 125)


@cache
def people(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2)
    chance = -np.expm1(-np.exp(TRUTH @ np.array([np.ones(n), x, z])))
    return pd.DataFrame({"x": x, "z": z, "y": (rng.uniform(size=n) < chance).astype(float)})


def fitted(data: pd.DataFrame, trust: str, mu: float | None, **more):
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", data, family=pr.Cloglog(), mu=mu, bounds=BOUNDS, trust=trust
    )
    return model.fit(progress=False, **more)


# --- scores --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("y", [0.0, 1.0])
def test_the_score_without_noise_is_the_slope_of_the_likelihood(y):
    def loss(eta):
        return np.exp(eta) if y == 0.0 else -np.log(-np.expm1(-np.exp(eta)))

    h, ys = 1e-5, np.full(len(ETAS), y)
    found = LARGEST * scores.unit(LIKELIHOOD, 1.0, ETAS, ys)
    np.testing.assert_allclose(found, (loss(ETAS + h) - loss(ETAS - h)) / (2 * h), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", [LIKELIHOOD, Shape(codes.CLOGLOG, 0.0, 0.0, 0)], ids=["likelihood", "bounded"])
@pytest.mark.parametrize("y", [0.0, 1.0])
def test_slopes_are_those_of_the_scores_and_bounded(shape, y):
    h, ys = 1e-5, np.full(len(ETAS), y)
    found = scores.scoring_of(codes.CLOGLOG).slope(shape, 1.0, ETAS, ys, 1.0)
    up, down = (scores.unit(shape, 1.0, ETAS + s, ys) for s in (h, -h))
    np.testing.assert_allclose(found, (up - down) / (2 * h), rtol=4e-4, atol=1e-9)
    rules = rules_of(pr.Cloglog(), 0.0, 1.0, noisy=not shape.a)
    assert rules.shape == shape
    assert 0.0 <= found.min() <= found.max() <= rules.top * (1.0 + 1e-15)


def test_log_odds_are_those_of_the_probability_however_small():
    eta = np.array([[-800.0], [-40.0], [-3.0], [0.0], [2.0], [800.0]])
    found = scores.scoring_of(codes.CLOGLOG).log_odds(eta)[:, 0]
    share = -np.expm1(-np.exp(eta[1:5, 0]))
    np.testing.assert_allclose(found[1:5], np.log(share) + np.exp(eta[1:5, 0]), rtol=1e-12)
    assert np.isfinite(found).all()


# --- distances -----------------------------------------------------------------------------------------------


def test_reports_of_adversarial_rows_are_no_farther_apart_than_the_noise_is_for():
    """Rows as far out as they can be, of both responses, at predictors where scores and slopes are largest."""
    d = 3
    rules = rules_of(pr.Cloglog(), 0.0, 1.0)
    plan = Plan(d, 5_000, 1.0, rules, 0.0, 1.0, np.zeros(d, dtype=bool), np.full(d, -1e4), np.full(d, 1e4))
    rng = np.random.default_rng(2)
    ends = np.concatenate([np.eye(d), rng.normal(size=(20, d))])
    ends *= plan.reach / np.linalg.norm(ends, axis=1, keepdims=True)  # where a row's weight begins to fall
    x = np.concatenate([ends, 0.5 * ends, 40.0 * ends, 1e-6 * ends])
    most = 0.0
    for theta in (np.zeros(d), np.array([3.0, 0.0, 0.0]), np.array([-3.0, 5.0, 5.0]), rng.normal(size=d) * 4.0):
        state = State(9, "main", np.eye(d), theta, 0.0, 1.0, 1.0, 1.0)
        given = [(y, offset) for y in (0.0, 1.0) for offset in (-8.0, 0.0, 8.0)]  # of an offset, scores are ± 1
        one = np.ones(len(x))
        made = np.concatenate([report.vectors(plan, state, y * one, x, offset * one) for y, offset in given])
        assert (np.linalg.norm(made, axis=1) <= 1.0 + 1e-12).all()
        most = max(most, float(pdist(made, "sqeuclidean").max()))
    assert rules.shares == SHARES["plain"]
    assert 1.9 < most <= APART["plain"] / 10_000


# --- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("n", [400, 20_000])
def test_without_noise_it_is_statsmodels_fit(n):
    data = people(n)
    res = fitted(data, "central", None)
    link, x = sm.families.links.CLogLog(), sm.add_constant(data[["x", "z"]])
    plain = sm.GLM(data.y, x, family=sm.families.Binomial(link)).fit(tol=1e-13)
    np.testing.assert_allclose(res.params, plain.params, atol=1e-6)
    model = plain.model
    bread = np.linalg.inv(-model.hessian(plain.params, observed=True))
    meat = model.score_factor(plain.params)[:, None] * x.to_numpy()
    np.testing.assert_allclose(res.bse, np.sqrt(np.diag(bread @ meat.T @ meat @ bread)), rtol=1e-3)
    at = data.head(50)
    np.testing.assert_allclose(res.predict(at), plain.predict(sm.add_constant(at[["x", "z"]])), atol=1e-6)


@pytest.mark.some(1)
@pytest.mark.parametrize(("trust", "mu"), [("local", 2.0), ("two_collectors", 0.5), ("central", 0.2)])
def test_other_trust_models_are_near_the_truth_in_standard_errors(trust, mu):
    res = fitted(people(60_000), trust, mu, seed=4)
    assert np.abs((res.params - TRUTH) / res.bse).max() < 4.0
    assert (np.asarray(res.bse) < 0.5).all()
    assert "log hazard ratios" in res.summary(details=True).as_text()


@pytest.mark.thorough
def test_exponentials_are_hazard_ratios_and_measures_are_those_of_probabilities():
    res = fitted(people(60_000), "central", 1.0, seed=4, measures=0.1)
    assert np.allclose(res.tidy(exponentiate=True)["estimate"], np.exp(res.params))
    found, public = res.fit_measures.set_index("measure")["estimate"], people(20_000, seed=2)
    told = res.evaluate(public).set_index("measure")["value"]
    for name in ("log-loss", "accuracy"):
        assert found[name] == pytest.approx(told[name], abs=0.02)
    share = -np.expm1(-np.exp(np.asarray(res.predict(public, which="linear"))))
    y = public.y.to_numpy()
    assert told["log-loss"] == pytest.approx(-np.mean(np.where(y == 1, np.log(share), np.log1p(-share))), rel=1e-9)
    assert math.isclose(told["Brier score"], float(np.mean((y - share) ** 2)), rel_tol=1e-9)


def bend_of(response: float, sd: float) -> float:
    """1/max_u |E [(1 − m)(u'z)³]|, mean by m e^−m, of normal rows whose predictors have this sd and mean response."""
    w = np.linspace(-6.0, 6.0, 1_201)
    density = np.exp(-0.5 * w**2) / np.exp(-0.5 * w**2).sum()
    at = brentq(lambda eta: float(density @ -np.expm1(-np.exp(eta + sd * w))) - response, -8.0, 6.0)
    m = np.exp(at + sd * w)
    weight = m * np.exp(-m) * density
    weight = weight / weight.sum()
    along = (w - weight @ w) / np.sqrt(weight @ w**2 - (weight @ w) ** 2)
    alpha, beta = np.meshgrid(np.linspace(0.0, np.pi, 181), np.linspace(0.0, np.pi / 2.0, 91))
    x = np.cos(alpha)[..., None] + np.sin(alpha)[..., None] * along
    cube = x**3 * np.cos(beta)[..., None] ** 3 + 3.0 * x * (np.cos(beta) * np.sin(beta) ** 2)[..., None]
    return float(1.0 / np.abs(cube @ (weight * (1.0 - m))).max())


@pytest.mark.thorough  # 16 s: a constant is derived anew
def test_slopes_change_by_as_much_as_they_are_over_the_distance_that_is_taken():
    least = min(bend_of(response, sd) for response in (0.08, 0.5, 0.8, 0.9) for sd in (0.3, 0.8, 1.2))
    assert 0.9 * least < BEND <= least
    assert bend_of(0.08, 0.8) == pytest.approx(0.71, abs=0.02)
