"""Tobit: the likelihood's fit without noise, its bounded scores, and distances of reports."""

import math
from functools import cache

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.stats import norm

import privreg as pr
from privreg.collector.aggregate import report
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import Plan, State, rules_of
from privreg.errors import OptionError, PrivregError, SchemaError
from privreg.families import scores
from privreg.families.tobit import truncated
from privreg.fits import aggregate
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.sums import APART, SHARES
from tests.reference import tobit

TRUTH, SIGMA = np.array([0.4, 0.9, -0.6]), 0.8
BOUNDS = {"x": (-1, 1), "z": (-2, 2)}
SHAPE = Shape(codes.TOBIT, -0.5, 0.7, 0)
LIKELIHOOD = SHAPE._replace(family=codes.TOBIT_LIKELIHOOD)
SCORE = scores.scoring_of(codes.TOBIT)
K = SCORE.most


@cache
def people(n: int, seed: int = 1) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    x, z = rng.uniform(-1, 1, n), rng.normal(0, 0.6, n).clip(-2, 2)
    y = TRUTH @ np.array([np.ones(n), x, z]) + SIGMA * rng.standard_normal(n)
    return pd.DataFrame({"x": x, "z": z, "y": y})


def fitted(data, trust: str, mu: float | None, family=None, ends=(0.0, 8.0), **more):
    options = {k: more.pop(k) for k in ("silos",) if k in more}
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", data, family=family or pr.Tobit(0), mu=mu, bounds={**BOUNDS, "y": ends}, trust=trust, **options
    )
    return model.fit(progress=False, **more)


# --- scores --------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("k", [K, 32.0])
@pytest.mark.parametrize("cut", [-4.0, -1.345, -1.2, 0.0, 0.7, 1.5, 6.0])
def test_means_of_truncated_normals_are_integrals(k, cut):
    def mean(of):
        return quad(lambda u: of(u) * norm.pdf(u), -40.0, cut, points=sorted({-k, k, -3.0, 0.0}), limit=200)[0]

    found = truncated(k, np.array([cut]))
    first, second = (mean(of) / norm.cdf(cut) for of in (lambda u: np.clip(u, -k, k), lambda u: min(u * u, k * k)))
    assert found[0][0] == pytest.approx(first, abs=1e-7)
    assert found[2][0] == pytest.approx(second, abs=1e-6)
    h = 1e-5
    if abs(cut + k) > h:
        up, down = (truncated(k, np.array([cut + s])) for s in (h, -h))
        assert found[1][0] == pytest.approx((up[0][0] - down[0][0]) / (2 * h), abs=1e-6)
        assert found[3][0] == pytest.approx((up[2][0] - down[2][0]) / (2 * h), abs=1e-6)


@pytest.mark.parametrize("y", [-0.5, -0.2, 0.3, 0.7])
def test_without_noise_scores_are_slopes_of_the_likelihood(y):
    ys, x, h = np.array([y]), np.ones((1, 1)), 1e-5
    for eta in (-0.9, -0.4, 0.2, 1.1):
        for s in (0.3, 0.8):

            def loss(e, log):
                return tobit.losses([e, log], x, ys, -0.5, 0.7)[0]

            at, score = np.array([eta]), scores.scoring_of(codes.TOBIT_LIKELIHOOD)
            found = 32.0 / s * scores.unit(LIKELIHOOD, s, at, ys)[0]
            assert found == pytest.approx((loss(eta + h, math.log(s)) - loss(eta - h, math.log(s))) / (2 * h), abs=1e-6)
            number = (32.0**2 - 1.0) * score.number(LIKELIHOOD, s, at, ys)[0][0]
            by = (loss(eta, math.log(s) + h) - loss(eta, math.log(s) - h)) / (2 * h)
            assert -number == pytest.approx(by, abs=1e-5)


@pytest.mark.parametrize("shape", [SHAPE, LIKELIHOOD], ids=["bounded", "likelihood"])
def test_slopes_are_those_of_scores_and_numbers(shape):
    score, h = scores.scoring_of(shape.family), 1e-5
    k, (steep, aside) = score.most, scores.scoring_of(shape.family).steps()
    etas = np.linspace(-2.0, 2.0, 81) + 0.00123
    for y in (-0.5, -0.2, 0.31, 0.7):
        for s in (0.2, 0.7):
            ys = np.full(len(etas), y)
            smooth = np.abs(np.abs((np.where(y in (-0.5, 0.7), y, ys) - etas) / s) - k) > 1e-3

            def of(name, e, log, ys=ys):
                unit = scores.unit(shape, math.exp(log), e, ys)
                return {
                    "unit": unit,
                    "whole": math.exp(log) * unit,
                    "number": score.number(shape, math.exp(log), e, ys)[0],
                }[name]

            def by(name, e=0.0, log=0.0, s=s, smooth=smooth, of=of):
                up, down = (of(name, etas + t * e, math.log(s) + t * log) for t in (h, -h))
                return ((up - down) / (2 * h))[smooth]

            far, near = score.beside(shape, s, etas, ys)
            rise = score.number(shape, s, etas, ys)[1]
            np.testing.assert_allclose(
                score.slope(shape, s, etas, ys, 1.0)[smooth], k * s * by("unit", e=1.0), atol=1e-6
            )
            np.testing.assert_allclose(far[smooth], by("whole", log=1.0) / s, atol=1e-6)
            np.testing.assert_allclose(steep * rise[smooth], -by("number", log=1.0), atol=1e-6)
            np.testing.assert_allclose(aside * near[smooth], s * by("number", e=1.0), atol=1e-6)
            for one in (far, near, rise, score.slope(shape, s, etas, ys, 1.0), score.number(shape, s, etas, ys)[0]):
                assert np.abs(one).max() <= 1.0 + 1e-12


@pytest.mark.some(1)
@pytest.mark.parametrize("eta", [-1.5, -0.3, 0.1, 0.9])
@pytest.mark.parametrize("s", [0.2, 1.0])
def test_scores_and_numbers_have_mean_zero_at_the_normal_model(eta, s):
    def values(y):
        at, ys = np.full(len(y), eta), np.asarray(y)
        return np.array([scores.unit(SHAPE, s, at, ys), SCORE.number(SHAPE, s, at, ys)[0]])

    grid = np.linspace(-0.5, 0.7, 100_001)
    middle = 0.5 * (grid[1:] + grid[:-1])

    def mean(there, truth):
        ends = values([-0.5, 0.7]) @ [norm.cdf((-0.5 - there) / truth), norm.sf((0.7 - there) / truth)]
        return ends + values(middle) @ norm.pdf((middle - there) / truth) / truth * (grid[1] - grid[0])

    np.testing.assert_allclose(mean(eta, s), 0.0, atol=1e-9)
    for there, truth in ((eta, s), (eta + 0.3, 0.6 * s), (eta - 0.7, 1.5 * s)):  # and elsewhere as the reference has it
        found = SCORE.reference(SHAPE, s, np.array([eta]), np.array([there]), truth)[0]
        assert found[0] == pytest.approx(mean(there, truth)[1], abs=1e-8)


# --- distances -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [False, True])
def test_reports_of_adversarial_rows_are_no_farther_apart_than_the_noise_is_for(again):
    """Rows as far out as they can be, censored or not, at predictors where scores and numbers are largest."""
    d, kind = 3, ", again" if again else ""
    rules = rules_of(pr.Tobit(0), -1.0, 1.0, again=again)
    assert rules.shares == SHARES[f"cornered{kind}"]
    plan = Plan(d, 5_000, 1.0, rules, -1.0, 1.0, np.zeros(d, dtype=bool), np.full(d, -1e4), np.full(d, 1e4))
    assert plan.delta2 == APART[f"window{kind}"] / 10_000
    rng = np.random.default_rng(2)
    ends = np.concatenate([np.eye(d), rng.normal(size=(8, d))])
    ends *= plan.reach / np.linalg.norm(ends, axis=1, keepdims=True)  # where a row's weight begins to fall
    x = np.concatenate([ends, -ends, 40.0 * ends, 1e-6 * ends])
    most = 0.0
    for s in (0.05, 0.4, 3.0):
        for theta in (np.zeros(d), np.array([0.4, 0.0, 0.0]), rng.normal(size=d)):
            state = State(9, "main", np.eye(d), theta, 0.0, s, 1.0, 1.0)
            given = [(y, offset) for y in (-1.0, -0.99, 0.0, 0.3, 1.0) for offset in (-2.0, -0.9, 0.0, 0.5)]
            one = np.ones(len(x))
            made = np.concatenate([report.vectors(plan, state, y * one, x, offset * one) for y, offset in given])
            assert (np.linalg.norm(made, axis=1) <= 1.0 + 1e-12).all()
            products = made @ made.T
            most = max(most, float((np.diag(products)[:, None] + np.diag(products) - 2.0 * products).max()))
    assert 1.9 < most <= plan.delta2


# --- fits ----------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("family", "ends"), [(pr.Tobit(0), (0.0, 8.0)), (pr.Tobit(high=0.9), (-5.0, 0.9)), (pr.Tobit(0, 1), (0.0, 1.0))]
)
def test_without_noise_it_is_the_likelihoods_fit(family, ends):
    data = people(3_000)
    res = fitted(data, "central", None, family, ends)
    x = np.column_stack([np.ones(len(data)), data.x, data.z])
    params, errors = tobit.fitted(x, data.y.clip(*ends).to_numpy(), *ends)
    found = res.fit_measures.iloc[0]
    assert found["measure"] == "sigma"
    np.testing.assert_allclose([*res.params, found["estimate"]], params, atol=1e-5)
    np.testing.assert_allclose([*res.bse, found["std_error"]], errors, rtol=0.03)
    assert not res.privacy.doubts
    at = data.head(20)
    np.testing.assert_allclose(res.predict(at), x[:20] @ params[:-1], atol=1e-5)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("trust", "mu", "more"), [("two_collectors", 1.0, {}), ("central", 0.5, {}), ("silos", 1.0, {"silos": 3})]
)
def test_trust_models_of_sums_are_near_the_truth_in_standard_errors(trust, mu, more):
    data = people(20_000)
    data = {f"s{k}": part for k, (_, part) in enumerate(data.groupby(np.arange(len(data)) % 3))} if more else data
    res = fitted(data, trust, mu, seed=4)
    assert np.abs((res.params - TRUTH) / res.bse).max() < 4.0
    assert (np.asarray(res.bse) < 0.1).all()
    sigma = res.fit_measures.iloc[0]
    assert abs(sigma["estimate"] - SIGMA) < 4.0 * sigma["std_error"] < 0.2
    text = res.summary(details=True).as_text()
    assert "uncensored response" in text
    assert "sigma 0." in text


def test_limits_are_bounds_of_the_response_and_local_noise_is_refused():
    with pytest.raises(SchemaError, match=r"bounds=\{'y': \(0, 8\)\}"):
        fitted(people(400), "central", 1.0, ends=(-1.0, 8.0))
    with pytest.raises(PrivregError, match="sigma is not learned"):
        fitted(people(400), "local", 1.0)
    for wrong in ({}, {"low": 1, "high": 1}, {"low": "a"}, {"high": math.inf}):
        with pytest.raises(OptionError, match="give a limit"):
            pr.Tobit(**wrong)


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
def test_all_is_marked_where_noise_hides_the_parameter(trust):
    """Nine of ten responses are censored: the sd that is learned is then far off."""
    rng = np.random.default_rng(1)
    x = rng.uniform(-2, 2, 3_000)
    rows = pd.DataFrame({"x": x, "y": np.clip(-1.5 + 0.5 * x + rng.normal(size=x.size), 0, 8)})
    given = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": trust}
    res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given).fit(seed=1, progress=False)
    assert not res.tidy()["reliable"].any()
    assert np.isnan(res.fit_measures["std_error"].iloc[0])
    assert "hardly seen beside the noise" in " ".join(str(res.summary()).split())


def test_a_round_far_from_the_estimate_hardly_says_sigma():
    """Eight of ten are censored: sigma and the constant go together, and the first main round is far along that line.

    By weights that knew only the noise of its number sigma had 0.76, three standard errors too few, unmarked.
    """
    rng = np.random.default_rng(7)
    x = rng.uniform(-2.0, 2.0, 20_000)
    rows = pd.DataFrame({"x": x, "y": np.clip(-0.98 + 0.5 * x + rng.standard_normal(x.size), 0.0, 8.0)})
    given = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": "central"}
    res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given).fit(seed=7, progress=False)
    assert ((res.params - [-0.98, 0.5]).abs() < 2.0 * res.bse).all()
    assert res.fit_measures["estimate"].iloc[0] == pytest.approx(1.0, abs=0.1)


@pytest.mark.thorough
def test_what_the_model_has_carried_far_is_marked():
    """Seven of ten are censored, and the main round's state is off: R_k of (64) is more than a standard error."""
    rng = np.random.default_rng(4)
    x = rng.uniform(-2.0, 2.0, 20_000)
    given = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": "two_collectors"}

    def reliable(constant):
        y = np.clip(constant + 0.5 * x + rng.standard_normal(x.size), 0.0, 8.0)
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", pd.DataFrame({"x": x, "y": y}), **given)
        return model.fit(seed=4, progress=False).tidy()["reliable"]

    assert not reliable(-0.61).any()
    assert reliable(1.0).all()


def asked_off(plan, s, off: float, constant: float, slope: float, sigma: float):
    """A round's sums without noise, by integrals over x and y, of a round asked off along the line of sigma."""
    lows, highs, unit = plan.lows[1], plan.highs[1], (plan.y_high - plan.y_low) / 8.0
    x = np.linspace(-2.0, 2.0, 41)
    z = np.column_stack([np.ones(41), lows + (highs - lows) * (x + 2.0) / 4.0]) @ s.state.rows.T
    truth = np.linalg.lstsq(z, plan.y_low + unit * (constant + slope * x), rcond=None)[0]
    state = s.state._replace(theta=truth + off * np.linalg.inv(s.state.rows)[0], scale=(1.0 - 4.0 * off) * unit * sigma)
    ends = np.linspace(plan.y_low, plan.y_high, 4_001)
    below = norm.cdf((ends - (z @ truth)[:, None]) / (unit * sigma))
    y, share = np.concatenate([[ends[0]], 0.5 * (ends[1:] + ends[:-1]), [ends[-1]]]), np.diff(below, axis=1)
    share = np.column_stack([below[:, 0], share, 1.0 - below[:, -1]])
    eta, shape, at = np.repeat(z @ state.theta, len(y)), plan.rules.shape, state.scale
    number, rise = SCORE.number(shape, at, eta, np.tile(y, 41))
    parts = [scores.unit(shape, at, eta, np.tile(y, 41)), SCORE.slope(shape, at, eta, np.tile(y, 41), 1.0)]
    parts += [*SCORE.beside(shape, at, eta, np.tile(y, 41)), number, rise]
    score, steep, far, near, number, rise = (np.einsum("xy,xy->x", share, one.reshape(41, -1)) for one in parts)
    high, aside = SCORE.steps()
    log = high * float(rise.mean())
    sums = {"score": z.T @ score / 41, "slope": (z.T * steep) @ z / 41, "beyond": z.T @ far / 41}
    sums |= {"number": float(number.mean()), "steep": log, "lean": aside * z.T @ near / 41 / (at * log)}
    sds = (s.sds[0], 1e-6, s.sds[2], 1e-6, s.sds[4])
    scale = math.log(at) + sums["number"] / log
    return s._replace(state=state, **sums, scale=scale, lean_sd=1e-6, sds=sds), truth, unit * sigma


@pytest.mark.thorough
def test_a_round_that_is_asked_far_from_the_truth_is_led_there(monkeypatch):
    """Sums without noise, 60% censored, of states 10 to 30% short of sigma, as many people at each."""
    rng, held, doubts = np.random.default_rng(1), [], aggregate.doubts
    monkeypatch.setattr(aggregate, "doubts", lambda *given: held.append(given[:2]) or doubts(*given))
    x = rng.uniform(-2.0, 2.0, 20_000)
    rows = pd.DataFrame({"x": x, "y": np.clip(-0.3 + 0.5 * x + rng.standard_normal(x.size), 0.0, 8.0)})
    given = {"family": pr.Tobit(low=0, high=8), "bounds": {"x": (-2, 2)}, "mu": 1, "trust": "two_collectors"}
    pr.PrivateOnlineRegression.from_formula("y ~ x", rows, **given).fit(seed=1, progress=False)
    plan, progress = held[0]
    (first, *_), (last, truth, sigma) = (
        asked_off(plan, s, off, -0.3, 0.5, 1.0) for s, off in zip(progress.seen[-2:], (0.08, 0.03), strict=True)
    )
    found = estimate(plan, progress._replace(seen=(first._replace(people=last.people), last)))
    errors, moved = np.sqrt(np.diag(found.whole[1])), last.state.theta - truth
    away = [*(found.theta - truth), math.log(found.scale / sigma)] / errors
    assert (np.abs(moved) > 5.0 * errors[:2]).all()
    assert (np.abs(away) < 0.3).all()  # three to six on slopes that hold if the state is the truth
