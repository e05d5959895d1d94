"""A trusted curator's fits: sensitivity, calibration, kernels and their twins, lanes, audits."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom

import privreg as pr
from benchmarks.central import FAMILIES, adversarial_pair
from privreg.central import QHinge, QNorm, Regression, audit
from privreg.errors import OptionError
from privreg.privacy.conversions import gdp_delta, gdp_mu
from privreg.privacy.ledger import Budget
from privreg.privacy.noise import seeded_key
from privreg.published.descent import descent
from privreg.published.descent import theory as calibration
from privreg.published.descent.descent import Turns
from privreg.published.descent.kernels import slopes, walk
from privreg.published.descent.losses import resolve_loss
from privreg.published.descent.plan import make_plan
from privreg.published.descent.results import estimate_of, left_of_start
from privreg.published.descent.theory import Constants, constants, iterates_within, sensitivity
from tests.published.descent import twins

SMOOTH = Constants(1.0, 1.0, 1.0, 1.0)
BUDGET = Budget.declare(epsilon=1, delta=1e-5)
EVERY = pytest.mark.parametrize("name", FAMILIES)


# --- sensitivity -----------------------------------------------------------------------------------------


def test_the_worked_comparison_of_the_exact_calibrations():
    step, n = 0.01, 10**4
    moves, probability = calibration.sampled_sensitivities(SMOOTH, step, n, n, 1e-5)
    sampled = calibration.sampled_sd(moves, probability, 1.0, 1e-5)
    permuted = sensitivity(1, SMOOTH, step, n) / BUDGET.mu
    assert round(sampled, 3) == 0.250
    assert round(permuted, 3) == 0.075
    # the paper's order: first a bound on K that fails with probability δ/2, then Gaussian noise at δ/2. Even the exact
    # quantile of K, which no tail bound can beat, needs more than twice the noise; a Chernoff bound is above 1.087.
    mu = gdp_mu(1.0, 1e-5 / 2)
    least = sensitivity(int(binom.isf(1e-5 / 2, n, 1 / n)), SMOOTH, step, n) / mu
    log = math.log(2 / 1e-5)
    chernoff = 2 * step * (1 + log + math.sqrt(2 * log)) / mu
    assert 2 * sampled < least < 1.087 < chernoff


def test_the_formula_of_the_sensitivity():
    c = Constants(0.5, 2.0, 3.0, 3.0)
    step, steps, k = 0.1, 400, 5
    c2 = (1 - 0.5) / (1 + 0.5) * (2**-0.5 * 2.0) ** (2 / (1 - 0.5))
    expected = math.sqrt(c2) * step ** (1 / (1 - 0.5)) * math.sqrt(steps) + 2 * 3.0 * step * k
    assert sensitivity(k, c, step, steps) == pytest.approx(expected, rel=1e-12)
    assert sensitivity(0, c, step, steps) == 0.0
    assert sensitivity(k, SMOOTH, step, steps) == pytest.approx(2 * step * k, rel=1e-15)


@pytest.mark.parametrize(("alpha", "step"), [(1.0, 2.01), (-0.1, 0.1), (1.1, 0.1)])
def test_steps_that_expand_and_exponents_outside_are_refused(alpha, step):
    with pytest.raises(OptionError, match=r"too large|must be in \[0, 1\]"):
        sensitivity(1, Constants(alpha, 1.0, 1.0, 1.0), step, 10)


@EVERY
def test_neighbouring_runs_are_never_further_apart_than_claimed(name):
    rng = np.random.default_rng(7)
    family = FAMILIES[name]
    loss = resolve_loss(family)
    ratios = [adversarial_pair(loss, family.binary, rng) for _ in range(80)]
    assert max(ratios) <= 1.0 + 1e-9
    assert max(ratios) > 0.2  # the adversary is one


def test_a_sensitivity_that_is_too_small_is_seen():
    rng = np.random.default_rng(7)
    loss = resolve_loss(FAMILIES["huber"])
    assert max(adversarial_pair(loss, False, rng) for _ in range(200)) > 0.99


@pytest.mark.some(6)
@EVERY
def test_constants_bound_slopes_and_their_hoelder_quotients(name):
    family = FAMILIES[name]
    loss = resolve_loss(family)
    rng = np.random.default_rng(3)
    c = constants(loss, 1.5, 2.0, 0.01, 100)
    reach = 1.5 * 2.0
    eta, other = rng.uniform(-reach, reach, (2, 200_000))
    other[::2] = eta[::2] + rng.normal(0, 1e-3, 100_000)
    y = rng.choice([0.0, 1.0], 200_000) if family.binary else rng.uniform(-1, 1, 200_000)
    a, b = (twins.slope(loss.code, loss.a, math.inf, v, y) for v in (eta, other))
    assert np.abs(a).max() <= c.slope * (1 + 1e-12)
    gap = np.abs(eta - other)
    far = gap > 1e-9
    assert (np.abs(a - b)[far] <= loss.holder * gap[far] ** loss.alpha * (1 + 1e-9) + 1e-12).all()
    assert c.gradient == pytest.approx(1.5 * c.slope)


@EVERY
def test_slopes_are_derivatives_of_the_loss(name):
    loss = resolve_loss(FAMILIES[name])
    rng = np.random.default_rng(4)
    eta = rng.uniform(-2, 2, 4000)
    y = rng.choice([0.0, 1.0], 4000) if FAMILIES[name].binary else rng.uniform(-1, 1, 4000)
    h = 1e-6
    numeric = (twins.loss_value(loss.code, loss.a, eta + h, y) - twins.loss_value(loss.code, loss.a, eta - h, y)) / (
        2 * h
    )
    near = np.abs(numeric - twins.slope(loss.code, loss.a, math.inf, eta, y)) < 1e-3
    assert near.mean() > 0.995  # but at the kinks


@pytest.mark.parametrize("family", [QHinge(1.3), QHinge(2.0), QNorm(1.5), QNorm(2.0)], ids=str)
def test_iterates_without_projection_stay_within_their_reach(family):
    loss = resolve_loss(family)
    rng = np.random.default_rng(5)
    x = rng.choice([-1.0, 1.0], (40, 1))
    y = rng.choice([0.0, 1.0], 40) if family.binary else rng.choice([-1.0, 1.0], 40)
    y[:] = y[0]
    step = 0.2 if loss.alpha < 1 else 1 / loss.holder
    path = twins.walk(x, y, rng.integers(0, 40, 300), loss.code, loss.a, math.inf, step, 0.0)
    bound = [iterates_within(loss.alpha, loss.holder, loss.start, step, t + 1) for t in range(300)]
    assert (np.linalg.norm(path, axis=1) <= np.array(bound) * (1 + 1e-12)).all()


# --- calibration -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [50, 5000])
def test_sampled_draws_spend_their_budget_and_no_more(n):
    c = Constants(0.5, 1.0, 1.0, 1.0)
    moves, probability = calibration.sampled_sensitivities(c, 0.05, 2 * n, n, 1e-6)
    assert probability.sum() == pytest.approx(1.0, abs=1e-12)
    sd = calibration.sampled_sd(moves, probability, 0.7, 1e-6)
    spent = calibration.mixture_delta(moves, probability, sd, 0.7)
    assert 0.99e-6 < spent <= 1e-6
    direct = sum(p * gdp_delta(m / sd, 0.7) for m, p in zip(moves[1:-1], probability[1:-1], strict=True))
    assert spent == pytest.approx(direct + probability[-1], rel=1e-6)


def test_poisson_samples_are_accounted_for_the_worst_pair():
    q, z, epsilon = 0.1, 1.5, 0.5
    # one step: (1 − q)N(0) + qN(±G), by direct integration
    grid = np.linspace(-15, 15, 400_001)
    one, two = ((1 - q) * stats.norm.pdf(grid, 0, z) + q * stats.norm.pdf(grid, s, z) for s in (1, -1))
    direct = float(np.maximum(one - math.exp(epsilon) * two, 0).sum() * (grid[1] - grid[0]))
    accounted = calibration.gradient_delta(z, q, 1, epsilon)
    assert direct <= accounted * (1 + 1e-6)
    assert accounted == pytest.approx(direct, rel=0.02)
    for angle in (0.0, 0.5, 1.0, 2.0, 3.0):  # pairs that are not opposite lose less
        assert _two_dimensional(q, z, epsilon, angle) <= direct * 1.001


def _two_dimensional(q, z, epsilon, angle):
    axis = np.linspace(-9, 9, 601)
    u, v = np.meshgrid(axis, axis)
    base = np.exp(-(u**2 + v**2) / (2 * z * z)) / (2 * math.pi * z * z)

    def mixed(at):
        moved = np.exp(-((u - math.cos(at)) ** 2 + (v - math.sin(at)) ** 2) / (2 * z * z)) / (2 * math.pi * z * z)
        return (1 - q) * base + q * moved

    gap = np.maximum(mixed(0.0) - math.exp(epsilon) * mixed(angle), 0.0)
    return float(gap.sum() * (axis[1] - axis[0]) ** 2)


@pytest.mark.thorough
def test_a_full_poisson_sample_is_the_gaussian_mechanism():
    z = calibration.gradient_multiplier(1.0, 1, 1.0, 1e-5)
    exact = 2 / gdp_mu(1.0, 1e-5)
    assert exact <= z <= exact * 1.01


def test_full_steps_compose_to_their_mu():
    loss = resolve_loss(pr.Logistic())
    plan = make_plan(loss, Budget.declare(mu=0.5), n=1000, p=3, reach=1.7, lanes=1, epochs=50)
    assert plan.gaussian
    left = math.sqrt(0.25 - plan.curvature_mu**2)
    assert plan.noise_sd == pytest.approx(2 * 1.7 * math.sqrt(50) / left)
    assert plan.certain_mu() == pytest.approx(0.5)
    assert plan.delta(1.0) == pytest.approx(gdp_delta(0.5, 1.0))


# --- kernels, orders -------------------------------------------------------------------------------------


@pytest.mark.some(6)
@EVERY
def test_kernels_are_their_twins(name):
    loss = resolve_loss(FAMILIES[name])
    rng = np.random.default_rng(11)
    x = rng.uniform(-1, 1, (30, 3))
    y = rng.choice([0.0, 1.0], 30) if FAMILIES[name].binary else rng.uniform(-1, 1, 30)
    order, step, radius, wait = rng.integers(0, 30, 90), 0.1, 0.4, 40
    w, total = np.zeros(3), np.zeros(3)
    numbers = loss.code, loss.a, 1.7
    walk(x, y, order, numbers, step, radius, w, total, wait)
    eta = rng.uniform(-3, 3, 50)
    assert np.allclose(slopes(*numbers, eta, 1.0), twins.slope(*numbers, eta, np.ones(50)), rtol=1e-14)
    path = twins.walk(x, y, order, *numbers, step, radius)
    np.testing.assert_allclose(w, path[-1], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(total, path[wait:].sum(axis=0), rtol=1e-9, atol=1e-12)
    assert np.linalg.norm(path, axis=1).max() <= radius * (1 + 1e-12)


@pytest.mark.some(1)
@EVERY
@pytest.mark.parametrize("order", ["full", "poisson"])
@pytest.mark.parametrize("average", [0.3, 1.0])
def test_noisy_steps_are_their_twins(name, order, average):
    loss, rng = resolve_loss(FAMILIES[name]), np.random.default_rng(12)
    x = rng.uniform(-1, 1, (40, 2)) / 2
    y = rng.choice([0.0, 1.0], 40) if FAMILIES[name].binary else rng.uniform(-1, 1, 40)
    more = {"batch_size": 5} if order == "poisson" else {}
    plan = make_plan(loss, BUDGET, n=40, p=2, reach=1.0, lanes=2, order=order, epochs=11, radius=0.4, average=average,
        step=0.5, **more)  # fmt: skip
    lanes = descent.release(x, y, loss, plan, descent.randomness(bytes(32), 2)).lanes
    turns, noise, _ = descent.randomness(bytes(32), 2)
    parts = np.split(turns.permutation(40), 2)
    numbers = loss.code, loss.a, plan.constants.slope
    for part, out in zip(parts, lanes, strict=True):
        batches = [turns.poisson(20, plan.share) for _ in range(plan.steps(20))]
        extra = plan.noise_sd * noise.draw(plan.steps(20))
        gains = plan.step / (plan.share * 20)
        path = twins.noisy_walk(x[part], y[part], batches, extra, *numbers, gains, 0.4)[plan.wait(20) :]
        np.testing.assert_allclose(out, path.mean(axis=0), rtol=1e-9, atol=1e-12)


@pytest.mark.thorough
def test_orders_are_uniform_and_samples_independent():
    turns = Turns(seeded_key(1, "test"))
    n, times = 5, 6000
    orders = np.array([turns.permutation(n) for _ in range(times)])
    assert (np.sort(orders, axis=1) == np.arange(n)).all()
    counts = np.array([[np.sum(orders[:, i] == j) for j in range(n)] for i in range(n)])
    assert stats.chi2.sf(((counts - times / n) ** 2 / (times / n)).sum(), (n - 1) ** 2) > 1e-4
    drawn = np.bincount(turns.drawn(50_000, 10), minlength=10)
    assert stats.chisquare(drawn).pvalue > 1e-4
    member = np.zeros((8000, 40))
    for row in member:
        row[turns.poisson(40, 0.1)] = 1.0
    assert (
        stats.chisquare(
            np.bincount(member.sum(axis=1).astype(int), minlength=41)[:12],
            8000 * binom.pmf(np.arange(12), 40, 0.1) / binom.cdf(11, 40, 0.1) * (member.sum(axis=1) < 12).mean(),
        ).pvalue
        > 1e-4
    )
    z = (member.mean(axis=0) - 0.1) / math.sqrt(0.09 / 8000)
    assert np.abs(z).max() < 4.5
    pairs = np.corrcoef(member.T)[np.triu_indices(40, 1)] * math.sqrt(8000)
    assert np.abs(pairs).max() < 5.0
    assert len(turns.poisson(7, 1.0)) == 7


# --- lanes -----------------------------------------------------------------------------------------------


def test_one_record_is_in_one_lane():
    rng = np.random.default_rng(2)
    x, y = rng.uniform(-1, 1, (400, 2)), rng.choice([0.0, 1.0], 400)
    loss = resolve_loss(pr.Logistic())
    for options in ({}, {"perturbation": "output"}, {"perturbation": "output", "order": "sampled"}):
        plan = make_plan(loss, BUDGET, n=400, p=2, reach=math.sqrt(2), lanes=4, epochs=3, **options)
        other = y.copy()
        other[17] = 1 - y[17]
        first, second = (
            descent.release(x, given, loss, plan, descent.randomness(bytes(32), 2)).lanes for given in (y, other)
        )
        assert np.isfinite(first).all()
        assert (first != second).any(axis=1).sum() == 1
    with pytest.raises(ValueError, match="noise has 1 numbers a row"):
        descent.release(x, y, loss, plan, descent.randomness(bytes(32), 1))


def test_noise_has_the_planned_sd_in_every_lane():
    loss = resolve_loss(pr.Huber(1.0, 0.2))
    plan = make_plan(loss, BUDGET, n=40, p=1, reach=1.0, lanes=4, perturbation="output")
    x, y = np.zeros((40, 1)), np.zeros(40)  # no gradient: noise is all there is
    streams = descent.randomness(seeded_key(3, "test"), 1)
    drawn = np.concatenate([descent.release(x, y, loss, plan, streams).lanes[:, 0] for _ in range(1000)])
    ratio = (drawn**2).sum() / plan.noise_sd**2
    assert stats.chi2.ppf(1e-4, len(drawn)) < ratio < stats.chi2.isf(1e-4, len(drawn))


@pytest.mark.parametrize("family", [pr.Huber(1.0, 0.2), pr.Quantile(0.5), QHinge(1.5)])
@pytest.mark.parametrize("epochs", [1, 7])
def test_output_noise_is_that_of_all_passes(family, epochs):
    loss = resolve_loss(family)
    plan = make_plan(
        loss, Budget.declare(mu=0.5), n=40, p=1, reach=1.0, lanes=2, perturbation="output", epochs=epochs, step=0.01
    )
    c, steps = plan.constants, epochs * 20
    flat = 0.0
    if c.alpha < 1:
        flat = math.sqrt((1 - c.alpha) / (1 + c.alpha) * steps) * (0.01 * c.holder * 2**-c.alpha) ** (1 / (1 - c.alpha))
    left = math.sqrt(0.25 - plan.curvature_mu**2)
    assert plan.noise_sd == pytest.approx((flat + 2 * c.gradient * 0.01 * epochs) / left)
    assert plan.certain_mu() == pytest.approx(0.5)


def test_steps_over_all_records_have_the_planned_noise_in_every_lane():
    loss = resolve_loss(pr.Huber(1.0, 0.2))
    plan = make_plan(loss, Budget.declare(mu=0.5), n=40, p=1, reach=1.0, lanes=4, epochs=3, average=0.01, step=0.1)
    left = math.sqrt(0.25 - plan.curvature_mu**2)
    assert plan.noise_sd == pytest.approx(2 * 0.2 * math.sqrt(3) / left)
    x, y = np.zeros((40, 1)), np.zeros(40)  # no gradient: noise is all there is
    streams = descent.randomness(seeded_key(4, "test"), 1)
    drawn = np.concatenate([descent.release(x, y, loss, plan, streams).lanes[:, 0] for _ in range(1000)])
    ratio = (drawn**2).sum() / (3 * (0.1 * plan.noise_sd / 10) ** 2)  # the last iterate: three steps of 1/10 the sum
    assert stats.chi2.ppf(1e-4, len(drawn)) < ratio < stats.chi2.isf(1e-4, len(drawn))


@pytest.mark.parametrize("average", [0.2, 1.0])
@pytest.mark.parametrize("step", [0.004, 0.2, 1.9])
def test_what_is_left_of_the_start_is_that_of_the_recursion(average, step):
    loss = resolve_loss(pr.Huber(1.0, 0.2))
    plan = make_plan(loss, BUDGET, n=90, p=2, reach=1.0, lanes=2, step=step, epochs=80, average=average)
    curvature = np.array([1e-6, 0.03, 0.4])
    steps, wait, far = plan.steps(45), plan.wait(45), math.ceil(1 / (step * plan.constants.slope))
    for value, left in zip(curvature, left_of_start(plan, curvature), strict=True):
        path = [max(1 - step * value, 0.0) ** max(t - far, 0) for t in range(1, steps + 1)]
        assert left == pytest.approx(np.mean(path[wait:]), rel=1e-6)


def test_the_precision_is_that_of_a_mean_of_lanes():
    lanes = np.random.default_rng(0).standard_normal((5, 3)) * [1.0, 2.0, 30.0] + 7.0
    assert np.allclose(estimate_of(lanes).cov, np.cov(lanes.T) / 5)


@pytest.mark.statistical
def test_between_lane_intervals_hold_their_level():
    """Exact binomial limits at 1 in 10,000 for 60 runs of 3 coefficients, taken as 60 runs of one."""
    truth, runs, inside = np.array([0.3, 0.8, -0.5]), 60, np.zeros(3)
    for seed in range(runs):
        rng = np.random.default_rng([seed, 8])
        x = np.column_stack([np.ones(4000), rng.uniform(-1, 1, (4000, 2))])
        y = x @ truth + rng.normal(0, 0.3, 4000)
        model = Regression(
            y, x, family=pr.Huber(1.345, 0.3), mu=1, bounds={"y": (-3, 3), "a": (-1, 1), "b": (-1, 1)},
            exog_names=["const", "a", "b"],
        )  # fmt: skip
        ci = model.fit(seed=seed, progress=False).conf_int().to_numpy()
        inside += (ci[:, 0] <= truth) & (truth <= ci[:, 1])
    low, high = binom.ppf(1e-4, runs, 0.95), binom.isf(1e-4, runs, 0.95)
    assert ((low <= inside) & (inside <= high)).all()


# --- audits ----------------------------------------------------------------------------------------------

AUDITS = {
    "output": {"family": "huber", "perturbation": "output", "epochs": 1, "average": 1.0, "mu": 1.0},
    "output, sampled": {
        "family": "huber", "perturbation": "output", "order": "sampled", "epochs": 1, "average": 0.01, "others": 3,
        "step": 0.2, "epsilon": 0.3, "delta": 0.2,
    },
    "full": {"family": "hinge", "epochs": 3, "average": 1.0, "step": 0.05, "mu": 1.0},
    "poisson": {
        "family": "hinge", "order": "poisson", "epochs": 1, "others": 1, "batch_size": 1, "average": 0.01,
        "step": 0.05, "epsilon": 1.0, "delta": 0.05,
    },
}  # fmt: skip


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("way", AUDITS)
def test_an_audit_never_shows_more_than_is_claimed(way):
    assert audit(**AUDITS[way], runs=6000, seed=5).passed


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("way", AUDITS)
def test_an_audit_catches_half_the_noise(way):
    assert not audit(**AUDITS[way], runs=6000, seed=6, noise=0.5).passed


@pytest.mark.thorough
def test_the_attained_sensitivity_is_nearly_all_shown():
    found = audit(**AUDITS["output"], runs=12_000, seed=7)
    lower = found.table.set_index(["report", "measure"])["lower"]
    assert 0.7 < lower["average", "mu"] < 1.0
    assert "no limit exceeds the claim" in str(found)


def test_plans_are_public():
    loss = resolve_loss(pr.Hinge())
    plan = make_plan(loss, BUDGET, n=5000, p=4, reach=2.0)
    assert plan == make_plan(loss, BUDGET, n=5000, p=4, reach=2.0)
    assert sum(plan.sizes) == 5000
    assert replace(plan, noise_sd=0.0).certain_mu() == math.inf
