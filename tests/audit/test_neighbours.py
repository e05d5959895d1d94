"""Noise scale: sensitivity over the budget, on adversarial rows, and the audit that would notice less."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from privreg.audit.neighbours import audit as run_audit
from privreg.audit.neighbours import mu_lower_bound
from privreg.errors import OptionError
from privreg.privacy.conversions import pure_mu
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, psd_sensitivity, score_sensitivity
from privreg.privacy.noise import NoiseStream, seeded_key
from privreg.protocol import codes
from privreg.published.chain import collector, kernels
from tests.helpers import BOUNDED_WEIGHTS, SCORES, make_device, make_test_plan, with_noise
from tests.published.twin import curvature_report, score_report

HUGE = [1e300, -1e300, 1e155, 1e-155, 1e-300, 5e-324, 0.0, 1.0, -3.0, 1e8]
UNDERFLOWING = [1.575e-162, 1.5714e-162, 1.1e-162, 2.3e-161, 3e-154, 1e-146, 1e-145, 9.99e-146]
ALPHA = 1e-6


def adversarial_rows(p, rng, n=400):
    """Rows with extreme entries in every mixture, the intercept first; and extreme responses."""
    x = rng.choice(HUGE, size=(n, p)) * rng.choice([1.0, rng.standard_normal()], size=(n, p))
    x[: n // 2, 0] = 1.0
    x[0] = 0.0
    return x, rng.choice([*HUGE, 1e9, -1e9], size=n)


def score_reports(plan, theta, x, y, n, noise):
    """Reports that the fused kernel makes of one row, again and again, at a fixed iterate; bare if noise is None."""
    block, p = codes.BLOCK, theta.shape[0]
    rows, ys = np.tile(x, (block, 1)), np.full(block, y)
    still, quiet, none = np.zeros(block), np.zeros((block, p)), np.empty((0, 0))
    state = collector.init(theta, plan, np.zeros(p))
    out = np.empty((n, p))
    for a in range(0, n, block):
        done = 0
        while done < block:  # a noise block may end inside
            z = quiet if noise is None else noise.peek()
            used, senders, _ = kernels.fused(
                rows[done:], ys[done:], np.empty(0), still[done:], z, none, plan, state, none, none, np.empty(0)
            )
            if noise is not None:
                noise.advance(senders)
            done += used
        out[a : a + block] = state.reports[:, :block].T
    return out


def as_response(family, y):
    return (y > 0).astype(float) if family == "logistic" else y


@pytest.mark.some(2)
@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
def test_no_row_exceeds_the_declared_bound(family, weights):
    device = make_device(SCORES[family], weights)
    plan = with_noise(make_test_plan(device, 4), 0.0)
    rng = np.random.default_rng(5)
    x, y = adversarial_rows(4, rng)
    for theta in (np.zeros(4), rng.standard_normal(4), np.array([1e6, -1e6, 1e6, 1.0])):
        for row, target in zip(x, as_response(family, y), strict=True):
            bare = score_report(device, theta, row, target, np.zeros(4)) if np.isfinite(row).all() else np.zeros(4)
            assert np.isfinite(bare).all()
            assert np.linalg.norm(bare) <= device.bound * (1 + 1e-12)
    kernel = np.array([score_reports(plan, np.ones(4), row, as_response(family, t), 256, None)[0] for row, t in
                       zip(x[:60], y[:60], strict=True)])  # fmt: skip
    assert np.isfinite(kernel).all()
    assert np.linalg.norm(kernel, axis=1).max() <= device.bound * (1 + 1e-12)


@pytest.mark.some(4)
@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@pytest.mark.parametrize("p", [2, 30])
def test_no_row_exceeds_the_bound_where_its_squared_norm_underflows(family, weights, p):
    device = make_device(SCORES[family], weights)
    plan = with_noise(make_test_plan(device, p), 0.0)
    rng = np.random.default_rng(6)
    rows = [np.r_[1.575e-162, np.full(p - 1, 1.5714e-162)]]
    rows += [rng.choice(UNDERFLOWING, p) * rng.choice([-1.0, 1.0], p) for _ in range(60)]
    for row in rows:
        for y in (0.0, 1.0):
            bare = score_report(device, np.zeros(p), row, y, np.zeros(p))
            kernel = score_reports(plan, np.zeros(p), row, y, 256, None)[0]
            np.testing.assert_array_equal(kernel, bare)
            # scaled up before squaring, so that the check itself does not underflow
            assert np.linalg.norm(bare * 1e100) <= device.bound * 1e100 * (1 + 1e-12)


@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
def test_bound_is_reached_so_the_noise_is_not_wasted(family, weights):
    device = make_device(SCORES[family], weights)
    reach = {"published": math.sqrt(2.0), "published_slopes": math.sqrt(3.0), "unit": 1.0}[weights]
    slopes = {"published": 1.0, "published_slopes": math.sqrt(2.0), "unit": 1.0}[weights]
    row = np.array([1.0, slopes])
    y = {"huber": 1e6, "logistic": 1.0}[family]
    theta = np.zeros(2) if family == "huber" else np.array([-40.0, 0.0])
    assert device.bound == pytest.approx(SCORES[family].bound * reach)
    norm_ = np.linalg.norm(score_report(device, theta, row, y, np.zeros(2)))
    assert norm_ == pytest.approx(device.bound, rel=1e-9)


def test_a_wrong_declared_bound_costs_bias_never_privacy():
    honest = make_device(SCORES["huber"], "unit")
    wrong = replace(honest, row_bound=0.25)
    row = np.array([1.0, 2.0])
    clipped = score_report(wrong, np.zeros(2), row, 1e6, np.zeros(2))
    assert np.linalg.norm(clipped) == pytest.approx(wrong.bound)
    assert wrong.bound == pytest.approx(honest.bound / 4)
    plan = with_noise(make_test_plan(wrong, 2), 0.0)
    kernel = score_reports(plan, np.zeros(2), row, 1e6, 256, None)[0]
    np.testing.assert_array_equal(kernel, clipped)


@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
def test_curvature_reports_stay_within_their_bound(family, weights):
    device = make_device(SCORES[family], weights)
    x, y = adversarial_rows(3, np.random.default_rng(8))
    zero = np.zeros(6)
    for row, target in zip(x, as_response(family, y), strict=True):
        report = curvature_report(device, np.ones(3), row, target, zero)
        # off-diagonals carry √2, so the report's norm is the Frobenius norm
        assert np.isfinite(report).all()
        assert np.linalg.norm(report) <= device.curvature_bound * (1 + 1e-12)


def test_noise_scale_is_sensitivity_over_mu():
    for mu in (0.1, 1.0, 3.0):
        mechanism = Mechanism("gaussian", Budget.declare(mu=mu))
        score, bend = mechanism.score_radius(1.5), mechanism.curvature_radius(2.0)
        assert mechanism.channel(4).scale * score == pytest.approx(score_sensitivity(1.5) / mu, rel=1e-15)
        assert mechanism.sd(score, 4) == pytest.approx(3.0 / mu, rel=1e-15)
        assert mechanism.covariance(np.ones((7, 4)), score) == pytest.approx((3.0 / mu) ** 2 * np.eye(4))
        assert mechanism.sd(bend, 10) == pytest.approx(psd_sensitivity(2.0) / mu, rel=1e-15)
        assert psd_sensitivity(2.0) == pytest.approx(2 * math.sqrt(2))
    assert "1-GDP" in repr(Mechanism("gaussian", Budget.declare(mu=1)))
    assert Mechanism("gaussian", Budget.declare(mu=None)).sd(1.0, 3) == 0.0


def test_psd_sensitivity_is_attained_and_never_exceeded():
    rng = np.random.default_rng(0)
    worst = 0.0
    for _ in range(2000):
        u, v = rng.standard_normal((2, 3))
        a, b = (np.outer(w, w) / (w @ w) * rng.uniform(0.9, 1) for w in (u, v))
        worst = max(worst, np.linalg.norm(a - b))
    assert worst <= psd_sensitivity(1.0) + 1e-12
    a, b = np.diag([1.0, 0, 0]), np.diag([0, 1.0, 0])
    assert np.linalg.norm(a - b) == pytest.approx(psd_sensitivity(1.0))


def worst_pair(family, weights):
    """Two rows whose scores are opposite and as long as the bound allows."""
    slopes = {"published": 1.0, "published_slopes": math.sqrt(2.0), "unit": 1.0}[weights]
    row = np.array([1.0, slopes])
    if family == "huber":
        return np.zeros(2), (row, 1e6), (row, -1e6)
    # far out along the first axis every such row is "sure" of 1, so y = 0 gives a full-length score along x
    length = 1.0 if weights == "unit" else math.sqrt(2.0)
    tilt = 1e-3
    up, down = (np.array([tilt, s * math.sqrt(length**2 - tilt**2)]) for s in (1.0, -1.0))
    return np.array([1e5, 0.0]), (up, 0.0), (down, 0.0)


def audit(plan, family, weights, n, key):
    theta, (xa, ya), (xb, yb) = worst_pair(family, weights)
    bare = with_noise(plan, 0.0)
    a, b = (score_reports(bare, theta, x, y, 256, None)[0] for x, y in ((xa, ya), (xb, yb)))
    gap = b - a
    threshold = gap @ (a + b) / 2
    noise = NoiseStream(key, 2)
    first, second = (score_reports(plan, theta, x, y, n, noise) for x, y in ((xa, ya), (xb, yb)))
    return np.linalg.norm(gap), mu_lower_bound(first, second, gap, threshold, ALPHA)


@pytest.mark.some(6)
@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_worst_neighbours_never_show_more_than_the_claimed_mu(family, weights, mu):
    device = make_device(SCORES[family], weights, mu=mu)
    gap, found = audit(make_test_plan(device, 2), family, weights, 256 * 400, seeded_key(21, f"{family}{weights}{mu}"))
    if (family, weights) != ("logistic", "published_slopes"):  # there the intercept keeps scores from being opposite
        assert gap == pytest.approx(2 * device.bound, rel=1e-5)  # neighbours as far apart as the claim allows
    assert found.lower <= mu
    assert found.lower > mu * gap / (2 * device.bound) - 0.1  # and the audit is sharp, so that it can fail


@pytest.mark.parametrize("family", SCORES)
def test_half_the_noise_is_caught(family):
    device = make_device(SCORES[family], "published")
    halved = with_noise(make_test_plan(device, 2), 0.5)
    _, found = audit(halved, family, "published", 256 * 100, seeded_key(22))
    assert found.lower > 1.5


def test_a_fifth_less_noise_is_caught_with_more_reports():
    device = make_device(SCORES["huber"], "unit")
    _, found = audit(with_noise(make_test_plan(device, 2), 0.8), "huber", "unit", 256 * 400, seeded_key(23))
    assert found.lower > 1.0


@pytest.mark.statistical
def test_limit_holds_at_its_stated_probability():
    # of 2,000 audits of a mechanism at exactly μ = 1 with a 5% limit, no more than 5% may exceed it
    rng = np.random.default_rng(9)
    n, above = 400, 0
    for _ in range(2000):
        first, second = rng.standard_normal((2, n, 1)) + np.array([0.0, 1.0])[:, None, None]
        above += mu_lower_bound(first, second, np.ones(1), 0.5, 0.05).lower > 1.0
    assert above / 2000 <= 0.05
    assert mu_lower_bound(np.zeros((50, 1)), np.ones((50, 1)), np.ones(1), 0.5, 0.05).lower == pytest.approx(
        2 * norm.ppf(0.025 ** (1 / 50)), rel=1e-6
    )


# --- any mechanism ---------------------------------------------------------------------------------------

CLAIM = 1.0
ENOUGH = 20_000
"""Reports of each neighbour at which a fifth too little noise is caught at the level ALPHA."""


def gaussian_pair(seed, n, short=1.0, d=1):
    """Reports of two neighbours at distance 1 with `short` times the noise that CLAIM-GDP asks for."""
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.standard_normal((n, d)) * short / CLAIM, rng.standard_normal((n, d)) * short / CLAIM + np.eye(d)[0]


def laplace_pair(seed, n, short=1.0, d=1):
    rng = np.random.Generator(np.random.PCG64(seed))
    return rng.laplace(size=(n, d)) * short / CLAIM, rng.laplace(size=(n, d)) * short / CLAIM + np.eye(d)[0]


def response_pair(seed, n, short=1.0, d=2):
    """Two answers, made unbiased; the same in every coordinate, so reports take two values."""
    rng = np.random.Generator(np.random.PCG64(seed))
    epsilon = CLAIM / short
    lie, size = 1 / (1 + math.exp(epsilon)), 1 / math.tanh(epsilon / 2)
    first, second = np.where(rng.random((2, n)) < lie, -1.0, 1.0) * [[size], [-size]]
    return np.tile(first[:, None], d), np.tile(second[:, None], d)


@pytest.mark.parametrize("d", [1, 4])
def test_gaussian_noise_never_shows_more_than_its_mu(d):
    found = [run_audit(*gaussian_pair(seed, 4000, d=d), alpha=ALPHA).lower for seed in range(60)]
    assert max(found) <= CLAIM
    assert min(found) > 0.5


@pytest.mark.some(2)
@pytest.mark.parametrize("d", [1, 4])
@pytest.mark.parametrize("pair", [laplace_pair, response_pair])
def test_pure_mechanisms_never_show_more_than_their_epsilon(pair, d):
    found = [run_audit(*pair(seed, 4000, d=d), alpha=ALPHA) for seed in range(60)]
    assert max(f.epsilon_lower for f in found) <= CLAIM
    assert min(f.epsilon_lower for f in found) > 0.4
    assert max(f.lower for f in found) <= pure_mu(CLAIM)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("d", [1, 4])
def test_a_fifth_less_noise_is_caught_in_every_mechanism(seed, d):
    assert run_audit(*gaussian_pair(seed, ENOUGH, 0.8, d), alpha=ALPHA).lower > CLAIM
    for pair in (laplace_pair, response_pair):
        assert run_audit(*pair(seed, ENOUGH, 0.8, d), alpha=ALPHA).epsilon_lower > CLAIM


def test_sides_and_directions_do_not_matter():
    first, second = laplace_pair(1, ENOUGH, 0.8)
    for a, b in ((first, second), (second, first), (-first, -second)):
        assert run_audit(a, b, alpha=ALPHA).epsilon_lower > CLAIM
        assert run_audit(a, b, alpha=ALPHA, direction=np.array([-2.0])).epsilon_lower > CLAIM
    assert run_audit(first[:, 0], second[:, 0], alpha=ALPHA) == run_audit(first, second, alpha=ALPHA)


def test_a_difference_in_spread_is_found_too():
    rng = np.random.Generator(np.random.PCG64(3))
    first, second = rng.standard_normal((2, ENOUGH, 1)) * np.array([1.0, 3.0])[:, None, None]
    assert run_audit(first, second, alpha=ALPHA, direction=np.ones(1)).epsilon_lower > 2.0


def test_noiseless_and_constant_reports():
    open_book = run_audit(np.zeros(1000), np.ones(1000), alpha=ALPHA)
    assert open_book.lower > 3
    assert open_book.epsilon_lower > 3
    assert (open_book.type_one, open_book.type_two, open_book.n) == (0.0, 0.0, 500)
    silent = run_audit(np.zeros((1000, 2)), np.zeros((1000, 2)), alpha=ALPHA)
    assert silent.lower == silent.epsilon_lower == 0.0
    assert run_audit(np.zeros(300), np.ones(501)).n == 150


@pytest.mark.statistical
def test_epsilon_limit_holds_at_its_stated_probability():
    above = 0
    for seed in range(1000):
        first, second = response_pair(seed, 200)
        above += run_audit(first, second, alpha=0.05).epsilon_lower > CLAIM
    assert above / 1000 <= 0.05


def test_bad_reports_are_named():
    good = np.zeros((10, 2))
    for bad in (np.zeros((3, 2)), np.zeros((10, 2, 2)), np.full((10, 2), np.nan), np.zeros((10, 0))):
        with pytest.raises(OptionError, match="second must hold finite reports"):
            run_audit(good, bad)
    with pytest.raises(OptionError, match="2 and 3 columns"):
        run_audit(good, np.zeros((10, 3)))
    for direction in (np.ones(3), np.array([np.inf, 1.0])):
        with pytest.raises(OptionError, match="direction must be 2 finite numbers"):
            run_audit(good, good, direction=direction)
    with pytest.raises(OptionError, match="alpha"):
        run_audit(good, good, alpha=0)
