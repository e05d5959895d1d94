"""Fits without score weights: what statsmodels estimates, on rows within their bounds."""

import itertools

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm

import privreg as pr
from privreg.collector.plan import Extreme, longest_row
from privreg.errors import OptionError, UnsupportedArgumentError
from privreg.fits.aggregate import plan_of as plan_of_sums
from privreg.fits.plan import plan_of
from privreg.fits.settings import FitOptions
from privreg.simulation import devices
from privreg.simulation.tuning import resolve_tuning
from tests.kinds import Kind
from tests.rounds import plan_by_rounds, state_of

N = 20_000
BOX = {"a": (-1.0, 1.0), "b": (-1.0, 1.0), "y": (-4.0, 4.0)}
FORMULAS = [
    "y ~ a + b + C(g)",
    "y ~ a * b + C(g) * a",
    "y ~ a + I(a**2) + I(a**3) + b:C(g)",
    "y ~ np.exp(a) * C(g) + I(b > 0.25)",
    "y ~ bs(a, knots=[-0.2, 0.3], degree=3, lower_bound=-1, upper_bound=1) + b",
    "y ~ a + C(g) - 1",
    "y ~ I(a - b) + a",
]


def rows(law, n=N):
    """Records whose model is wrong: a square is missing, and errors are skewed."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1.2, 1.2, (n, 2))  # some are clamped
    eta = 0.3 + 0.8 * x[:, 0] - 0.5 * x[:, 1] + 0.6 * x[:, 0] ** 2
    y = {
        "yes": lambda: rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-eta)),
        "count": lambda: np.minimum(rng.poisson(np.exp(eta)), 30),
        "number": lambda: np.clip(eta + rng.exponential(size=n) - 1.0, -4.0, 4.0),
    }[law]()
    return pd.DataFrame({"a": x[:, 0], "b": x[:, 1], "y": y.astype(float)})


def fitted(law, family, **more):
    bounds = BOX if law == "number" else {k: BOX[k] for k in "ab"}
    given = {"family": family, "bounds": bounds, "mu": 20, "score_weights": "likelihood"} | more
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", rows(law), **given).fit(seed=1)


FAMILIES = {
    "logistic": ("yes", "logistic", lambda y, x: sm.Logit(y, x).fit(disp=0, tol=1e-13).params),
    "poisson": ("count", pr.Poisson(30), lambda y, x: sm.Poisson(y, x).fit(disp=0, tol=1e-13).params),
    "squared": ("number", "squared", lambda y, x: sm.OLS(y, x).fit().params),
    "huber": (
        "number",
        pr.Huber(c=1.345, scale=0.5),
        lambda y, x: (
            sm.RLM(y / 0.5, x, M=sm.robust.norms.HuberT(1.345))
            .fit(scale_est=lambda *_: 1.0, update_scale=False, maxiter=500, tol=1e-13, conv="coefs")
            .params
            * 0.5
        ),
    ),
}


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("name", FAMILIES)
def test_the_estimand_is_what_statsmodels_estimates(name, trust):
    law, family, theirs = FAMILIES[name]
    data = rows(law)
    res = fitted(law, family, trust=trust)
    x = sm.add_constant(data[["a", "b"]].clip(-1.0, 1.0).to_numpy())
    expected = np.asarray(theirs(data["y"].to_numpy(), x))
    found = np.asarray(res.estimand(data))
    np.testing.assert_allclose(found, expected, rtol=0.0, atol=1e-6)
    usual = np.asarray(fitted(law, family, trust=trust, score_weights=None).estimand(data))
    if (name, trust) in {
        ("logistic", "local"),
        ("poisson", "local"),
        ("huber", "local"),
    }:
        assert np.abs(usual - expected).max() > 1e-3  # with weights it is another one
    z = (res.params.to_numpy() - expected) / res.bse.to_numpy()
    assert np.abs(z).max() < 4.5


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
def test_medians_have_the_loss_of_statsmodels(trust):
    """Any point of an interval of the order 1/n between records minimises the loss, so losses are compared."""
    data = rows("number")
    x, y = sm.add_constant(data[["a", "b"]].clip(-1.0, 1.0).to_numpy()), data["y"].to_numpy()
    theirs = sm.QuantReg(y, x).fit(q=0.5, p_tol=1e-10, max_iter=5000).params
    found = np.asarray(fitted("number", pr.Quantile(0.5), trust=trust).estimand(data))
    ours, least = (np.abs(y - x @ b).mean() for b in (found, theirs))
    assert ours < least + 1e-6
    assert np.abs(found - theirs).max() < 1e-3


def the_plan(formula, trust, n=1000):
    bounds, levels = BOX | {"y": (0.0, 1.0)}, {"g": ["u", "v", "w"]} if "g" in formula else None
    used = {k: v for k, v in bounds.items() if k in formula}
    model = pr.PrivateOnlineRegression.from_formula(
        formula,
        None,
        family="squared",
        bounds=used,
        levels=levels,
        mu=1,
        score_weights="likelihood",
        trust=trust,
        rows=n,
    )
    spec = model._spec
    made = plan_of(spec, resolve_tuning(FitOptions(), spec, n), None) if trust == "local" else plan_of_sums(spec, n)
    return spec, *made


@pytest.mark.some(5)
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("formula", FORMULAS)
def test_no_row_within_the_declarations_is_longer_than_the_longest(formula, trust):
    spec, plan, order = the_plan(formula, trust)
    fine = np.linspace(-1.0, 1.0, 2001)
    ends = [*itertools.product(fine, (-1.0, 1.0), "uvw"), *itertools.product((-1.0, 1.0), fine, "uvw")]
    data = pd.DataFrame(ends, columns=["a", "b", "g"]).assign(y=0.5)
    x = spec.units.probe_inside(spec.design.encode(data).exog)[:, order]
    rng, d = np.random.default_rng(2), x.shape[1]
    for w in (
        np.eye(d),
        np.eye(d) + np.tril(rng.normal(size=(d, d))),
        np.linalg.pinv(np.linalg.cholesky(np.cov(x.T) + np.eye(d))),
    ):
        most, found = np.linalg.norm(x @ w.T, axis=1).max(), longest_row(plan.extremes, w)
        assert most <= found < 1.02 * most


@pytest.mark.parametrize(
    "term", ["np.sin(804.2477*a)", "I(b*np.sin(6433.98*a)) + b", "I(a*b + (a*7.3 > 1)*(a*7.3 < 1.01)*5) + a"]
)
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
def test_columns_that_change_between_the_values_that_are_tried_are_refused(term, trust):
    with pytest.raises(UnsupportedArgumentError, match="changes too fast"):
        the_plan(f"y ~ {term}", trust)


def test_more_combinations_than_can_be_tried_have_a_bound():
    ends = [Extreme(np.outer([-1.0, 1.0], row)) for row in np.eye(20)]
    w = np.eye(20)
    assert longest_row(ends, w) >= np.sqrt(20.0)
    assert longest_row(ends[:16], w) == pytest.approx(4.0, rel=1e-8)
    assert longest_row([], w) == 0.0


def test_reports_lie_in_the_ball_however_long_a_row_is_and_shorter_ones_are_divided_by_the_longest():
    plan, rng = plan_by_rounds(Kind(pr.Huber())), np.random.default_rng(3)
    state = state_of(plan, "pilot", rng)._replace(longest=3.0, kappa=0.0)
    x = rng.standard_normal((4000, 3)) * np.geomspace(0.01, 1e6, 4000)[:, None]
    y = np.sign(rng.standard_normal(4000)) * 1e7
    out = np.linalg.norm(devices.reports(plan, state, y, x, None), axis=1)
    length = np.linalg.norm(x @ state.rows.T, axis=1)
    assert out.max() <= 1.0 + 1e-12
    np.testing.assert_allclose(out, np.minimum(length / 3.0, 1.0), rtol=1e-9)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"family": "multinomial", "levels": {"y": ["0", "1", "2"]}}, "one predictor"),
        ({"family": pr.Poisson(30, c=1.5)}, "leave c= out"),
        ({"scaling": "private", "bounds": {"y": BOX["y"]}}, "declare bounds= of a, b"),
        ({"private": "response"}, "several covariates that are private"),
        ({"moments": {"a": (0, 1)}, "bounds": {k: BOX[k] for k in "by"}}, "declare bounds= of a"),
    ],
)
def test_it_is_refused_by_name_where_it_cannot_be(more, words):
    given = {"family": "huber", "bounds": BOX, "mu": 1, "score_weights": "likelihood"} | more
    if given["family"] == "multinomial" or "c=" in words:
        given["bounds"] = {k: BOX[k] for k in "ab"}
    with pytest.raises(UnsupportedArgumentError, match="score_weights='likelihood'.*" + words):
        pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, rows=N, **given)
    columns = " + ".join(f"x{j}" for j in range(24))
    bounds = {f"x{j}": (-1, 1) for j in range(24)} | {"y": (-1, 1)}
    with pytest.raises(UnsupportedArgumentError, match="24 coefficients, and there are 25"):
        pr.PrivateOnlineRegression.from_formula(
            f"y ~ {columns}", None, rows=N, mu=1, bounds=bounds, score_weights="likelihood"
        )


def test_the_published_algorithm_refuses_it_and_a_fit_with_weights_is_not_like_it():
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b", rows("number"), bounds=BOX, mu=20, score_weights="likelihood"
    )
    with pytest.raises(OptionError, match="score_weights='likelihood' goes with tuning='efficient'"):
        model.fit(tuning="published")
    first = fitted("number", "huber")
    with pytest.raises(OptionError, match="its score weights 'likelihood', here 'unit'"):
        fitted_like(first, None)
    again = fitted_like(first, "likelihood")
    np.testing.assert_allclose(again.estimand(rows("number")), first.estimand(rows("number")), atol=1e-7)


def fitted_like(first, weights):
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b", rows("number"), bounds=BOX, mu=20, score_weights=weights
    )
    return model.fit(seed=2, like=first)


def test_the_summary_says_what_it_costs_and_an_audit_finds_the_budget_kept():
    res = fitted("yes", "logistic", mu=2)
    (note,) = [n for n in res.privacy.notes if n.code == "unweighted"]
    assert "times the people that weights need" in note
    text = str(res.summary(details=True))
    assert "none (likelihood)" in text
    assert "times the people" in text.replace("\n    ", " ")
    assert "weighted projection" not in text
    assert res.privacy.verify(n=20_000).passed


def test_the_price_is_the_square_of_the_longest_row_over_the_coefficients_where_noise_is_all():
    """Scores of length B in place of ‖z‖, whose mean square is d: noise has B²/d times its variance."""
    given = {"bounds": {k: BOX[k] for k in "aby"}, "mu": 0.1, "n": 2_000_000}
    found = pr.plan("y ~ a + b", score_weights="likelihood", family="squared", **given)
    usual = pr.plan("y ~ a + b", family="squared", **given)
    ratio = ((found.table()["std_error"] / usual.table()["std_error"]) ** 2).mean()
    assert 0.8 * 7.0 / 3.0 < ratio < 1.2 * 7.0 / 3.0  # uniform: B² = 1 + 2 · 3


@pytest.mark.thorough
def test_rows_of_a_person_have_no_weights_either():
    data = rows("number").assign(p=np.repeat(np.arange(N // 4), 4))
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b", data, family="squared", bounds=BOX, mu=20, score_weights="likelihood", id="p", k_max=4
    )
    res = model.fit(seed=1)
    x = sm.add_constant(data[["a", "b"]].clip(-1.0, 1.0).to_numpy())
    np.testing.assert_allclose(res.estimand(data), sm.OLS(data["y"].to_numpy(), x).fit().params, atol=1e-6)
