"""Reports on places and moments, what is learned from them, and the reference they are compared with."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2

from privreg.collector import levels
from privreg.collector.covariates import moments
from privreg.collector.covariates.moments import Layout
from privreg.collector.covariates.whitening import bring_in, moment_diagonal
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism, bits_sensitivity, joint_sensitivity, psd_sensitivity
from privreg.protocol.codes import BALANCED, HUBER
from privreg.protocol.plans import Shape
from privreg.protocol.rounds import GROUPS
from privreg.protocol.schedule import LOCATIONS, WANTED
from privreg.simulation import devices
from tests.devices import moment_report, round_report, threshold_report
from tests.kinds import KINDS, plan_of, quiet, unit_score
from tests.rounds import plan_by_rounds, state_of

MECHANISM = Mechanism("gaussian", Budget.declare(mu=1))
BARE = Mechanism("gaussian", Budget.declare(mu=None))
EXTREME = [1.7e308, -1.7e308, 1e200, -1e155, 1e154, 1e-145, -1e-155, 1e-200, 5e-324, 0.0, 1.0, -3.0]
ROUNDING = 1e-12
"""A report's norm is a root of a dozen rounded products: a few units of the last place, 2e-16 each."""


def bare_plan(family=HUBER, kappa=0.0):
    """Plan of a round whose reports carry no noise."""
    return quiet(plan_of(KINDS[{HUBER: "huber", BALANCED: "balanced"}[family]], "gaussian", 4, joint=kappa > 0))


def adversarial_rows(d, n=200, seed=5):
    """Zero, tiny and huge entries in every mixture; squares that overflow and squares that vanish."""
    rng = np.random.default_rng(seed)
    v = rng.choice(EXTREME, (n, d))
    v[: n // 2, 0] = 1.0
    v[0] = 0.0
    v[1::5] = rng.standard_normal((len(v[1::5]), d)) * np.exp(rng.uniform(-300, 300, (len(v[1::5]), 1)))
    return v


def row_maps(d, seed=6):
    """Lower triangular maps, ordinary, huge and tiny."""
    rng = np.random.default_rng(seed)
    usual = np.tril(rng.standard_normal((d, d))) + 2 * np.eye(d)
    return [np.eye(d), usual, usual * 1e150, usual * 1e-150, np.diag(10.0 ** rng.uniform(-100, 100, d))]


# --- sensitivities: attained by the worst neighbours, never exceeded -------------------------------------


def largest_gap(reports):
    reports = np.asarray(reports)
    return max(np.linalg.norm(reports - r, axis=1).max() for r in reports)


def test_moment_reports_of_neighbours_are_root_two_apart_at_most_and_that_is_reached():
    rows = row_maps(3)[1]
    bare = [moment_report(BARE, rows, v, np.zeros(6)) for v in adversarial_rows(3)]
    bare += [moment_report(BARE, rows, v, np.zeros(6)) for v in np.random.default_rng(2).standard_normal((300, 3))]
    assert largest_gap(bare) <= psd_sensitivity(1.0) * (1 + ROUNDING)
    apart = [moment_report(BARE, rows, np.linalg.solve(rows, e), np.zeros(6)) for e in np.eye(3)[:2]]
    assert largest_gap(apart) == pytest.approx(psd_sensitivity(1.0), rel=ROUNDING)
    assert MECHANISM.sd(MECHANISM.curvature_radius(1.0), 6) == pytest.approx(psd_sensitivity(1.0), rel=1e-15)
    assert psd_sensitivity(1.0) == math.sqrt(2.0)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_reports_of_places_of_neighbours_are_as_far_apart_as_claimed_and_never_farther(m):
    thresholds_, zero = np.linspace(-3, 40, m), np.zeros(m)
    bare = [threshold_report(BARE, thresholds_, v, zero) for v in (*adversarial_rows(m), np.full(m, math.nan))]
    assert largest_gap(bare) <= bits_sensitivity(m) * (1 + ROUNDING)
    worst = [threshold_report(BARE, thresholds_, thresholds_ + f, zero) for f in (-0.5, 0.5)]
    assert largest_gap(worst) == pytest.approx(bits_sensitivity(m), rel=ROUNDING)
    assert MECHANISM.sd(MECHANISM.bits_radius(m), m) == pytest.approx(bits_sensitivity(m), rel=1e-15)


@pytest.mark.parametrize("kappa", [0.0, 1.0])
def test_joint_reports_of_neighbours_are_as_far_apart_as_claimed_and_never_farther(kappa):
    plan = bare_plan(kappa=kappa)
    rows, theta, rng = row_maps(3)[1], np.array([0.5, -1.0, 2.0]), np.random.default_rng(4)

    def bare(x, y):
        return round_report(plan, rows, theta, 1.0, x, y, np.zeros(4))

    every = [bare(x, y) for x, y in zip(adversarial_rows(3), rng.choice(EXTREME, 200), strict=True)]
    every += [bare(rng.standard_normal(3), 2 * rng.standard_normal()) for _ in range(300)]
    assert largest_gap(every) <= joint_sensitivity(1.0, kappa) * (1 + ROUNDING)
    # a residual just within c has a score of nearly full length and its bit set; one far below, neither of them
    x = np.array([1.0, 2.0, -1.0])
    eta = float((rows @ x) @ theta)
    gap = largest_gap([bare(x, eta + 1.0 - 1e-9), bare(x, -1e6)])
    assert gap == pytest.approx(joint_sensitivity(1.0, kappa), rel=1e-8)
    assert MECHANISM.sd(MECHANISM.joint_radius(1.0, kappa), 4) == pytest.approx(math.hypot(2.0, kappa), rel=1e-15)
    assert joint_sensitivity(1.0, kappa) == math.hypot(2.0, kappa)


def test_balanced_scores_of_neighbours_are_two_apart_at_even_odds():
    plan, x = bare_plan(BALANCED), np.array([3.0, 4.0])
    zero, one = (round_report(plan, np.eye(2), np.zeros(2), 1.0, x, y, np.zeros(2)) for y in (0.0, 1.0))
    assert np.linalg.norm(zero - one) == pytest.approx(joint_sensitivity(1.0, 0.0), rel=ROUNDING)


@pytest.mark.thorough
@settings(max_examples=300, deadline=None)
@given(st.floats(-800, 800), st.sampled_from([0.0, 1.0]))
def test_balanced_score_is_the_logistic_one_over_its_bound(eta, y):
    # (π − y)/max(π, 1 − π), and its conditional mean is 0 when the model is true
    share = 1.0 / (1.0 + math.exp(-eta)) if eta > -700 else 0.0
    expected = (share - y) / max(share, 1.0 - share)
    assert unit_score(Shape(BALANCED, 0.0, 0.0, 0), 1.0, eta, y) == pytest.approx(expected, abs=1e-15, rel=1e-13)
    assert abs(unit_score(Shape(BALANCED, 0.0, 0.0, 0), 1.0, eta, y)) <= 1.0


# --- whitening -----------------------------------------------------------------------------------------


def whitened(draw, layout, d, people, sd=0.0, rounds=3, seed=3, leads=()):
    """Scatter after rounds of reports on fresh rows, the last ones beside constants of these squares."""
    rng, scatter = np.random.default_rng(seed), moments.start_from(np.eye(d))
    state = state_of(plan_by_rounds(KINDS["huber"], d=d), "moments", rng)
    for lead in (*[1.0] * rounds, *leads):
        rows = moments.asked(scatter.rows, lead)
        total = devices.moments(state._replace(rows=rows), draw(rng, people), None)[0]
        total += sd * math.sqrt(people) * rng.standard_normal(total.shape)
        scatter = moments.learn(scatter, total, people, sd, layout, constant2=lead)
    return scatter


def correlated(k, rho=0.9):
    """Normal covariates, all correlations rho, scales 1/16 to 1, half a standard deviation off centre."""
    scale = np.geomspace(1 / 16, 1, k)
    cov = (np.full((k, k), rho) + (1 - rho) * np.eye(k)) * np.outer(scale, scale)
    return cov, 0.5 * scale * np.where(np.arange(k) % 2, 1.0, -1.0)


def second_moments(cov, mean, constant):
    if not constant:
        return cov
    one = np.r_[1.0, mean]
    out = np.outer(one, one)
    out[1:, 1:] += cov
    return out


def sampling_error(d, people):
    """How far eigenvalues of a learned map may lie from 1 because rows are a sample.

    An entry of E u uᵀ, brought to the scale of a covariance, has sd σ = √((d + 2)/(d n)); the eigenvalues of a
    symmetric matrix of such entries reach 2σ√d (the semicircle's edge), and their sd is below √2 σ: five of them.
    """
    sigma = math.sqrt((d + 2) / (d * people))
    return sigma * (2 * math.sqrt(d) + 5 * math.sqrt(2.0))


@pytest.mark.some(2)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("d", [3, 5, 8])
def test_correlated_covariates_of_any_scale_become_white(d, constant):
    people, k = 20_000, d - constant
    cov, mean = correlated(k)
    root = np.linalg.cholesky(cov)

    def draw(rng, n):
        z = rng.standard_normal((n, k)) @ root.T
        return np.column_stack([np.ones(n), z + mean]) if constant else z

    moments = second_moments(cov, mean, constant)
    assert np.linalg.cond(moments) > 500
    for rounds in (3, 5):
        rows = whitened(draw, Layout(constant, False), d, people, rounds=rounds).rows
        assert (rows == np.tril(rows)).all()
        if constant:
            assert rows[0].tolist() == np.eye(d)[0].tolist()
        values = np.linalg.eigvalsh(rows @ moments @ rows.T)
        values = values if constant else values / values.mean()  # u uᵀ knows no common scale without a constant
        # A round corrects to first order and stretches by 8 at most; three leave up to half an eigenvalue from so far,
        # as a larger sample shows too, and with two more nothing but sampling error is left.
        limit = 0.5 if rounds == 3 else sampling_error(d, people)
        assert np.abs(values - 1.0).max() < limit
    assert limit < 0.12


@pytest.mark.parametrize("leads", [(), (12.0, 12.0)])
def test_a_location_is_learned_with_its_scale(leads):
    def draw(rng, n):
        return np.column_stack([np.ones(n), 0.6 + 0.2 * rng.standard_normal((n, 2))])

    rows = whitened(draw, Layout(True, False), 3, 20_000, rounds=5 - len(leads), leads=leads).rows
    np.testing.assert_allclose(rows, [[1, 0, 0], [-3, 5, 0], [-3, 0, 5]], atol=5 * sampling_error(3, 20_000))


def mostly_none(rng, n):
    a = np.where(rng.random(n) < 0.85, -1.0, rng.uniform(-1, 1, n))
    return np.column_stack([np.ones(n), a, rng.normal(size=n)])


def by_group(rng, n):
    g, x = np.where(rng.random(n) < 0.3, 1.0, -1.0), rng.uniform(-1, 1, n)
    return np.column_stack([np.ones(n), g, x, np.where(g > 0, x, -1.0)])


@pytest.mark.parametrize("draw", [mostly_none, by_group])
def test_rows_that_mostly_lie_in_a_plane_are_not_stretched_without_end(draw):
    """Directions alone would be even only if the others were infinitely far out; moments are near 1 after all."""
    v = draw(np.random.default_rng(5), 50_000)
    d, layout, sd = v.shape[1], Layout(True, False), {}
    for name, leads in {"directions": (), "moments": (8.0 * d, 8.0 * d)}.items():
        z = v @ whitened(draw, layout, d, 50_000, rounds=5 - len(leads), leads=leads).rows.T
        sd[name] = math.sqrt(np.linalg.eigvalsh(np.cov(z[:, 1:].T)).max())
    assert sd["directions"] > 4.0
    assert sd["moments"] < 2.0


@pytest.mark.parametrize(("share", "lead"), [(0.4, 10.0), (0.2, 16.0), (0.5, 1.0)])
def test_a_rare_value_s_share_is_told_by_how_far_out_it_is(share, lead):

    def draw(rng, n):
        return np.column_stack([np.ones(n), rng.normal(size=n), np.where(rng.random(n) < share, 1.0, -1.0)])

    rows = whitened(draw, Layout(True, False), 3, 50_000, rounds=2, leads=(lead,) * 3).rows
    assert bring_in(rows, (0.0, 0.0, 2.0), constant=True, constant2=lead)[1][2] == pytest.approx(share, abs=0.03)


def test_the_response_row_gives_the_regression():
    truth = np.array([0.5, 1.0, -0.5, 0.25])
    cov, mean = correlated(3, 0.5)
    root = np.linalg.cholesky(cov)

    def draw(rng, n):
        x = np.column_stack([np.ones(n), rng.standard_normal((n, 3)) @ root.T + mean])
        return np.column_stack([x, x @ truth + 0.3 * rng.standard_normal(n)])

    rows = whitened(draw, Layout(True, True), 5, 20_000, rounds=6).rows
    # in units of sd(y | x)/sd(x) a slope is known as well as an entry of the scatter
    units = 0.3 * np.sqrt(np.diag(np.linalg.inv(second_moments(cov, mean, True))))
    np.testing.assert_array_less(np.abs(-rows[4, :4] / rows[4, 4] - truth) / units, sampling_error(5, 20_000))
    assert 1.0 / rows[4, 4] == pytest.approx(0.3, rel=sampling_error(5, 20_000))


def test_heavy_tails_do_no_harm():
    # u is the same for normal rows and rows of a multivariate t with 2 degrees of freedom, whose variance is infinite
    cov, _ = correlated(4)
    root = np.linalg.cholesky(cov)

    def draw(rng, n):
        z = rng.standard_normal((n, 4)) @ root.T
        return z / np.sqrt(rng.chisquare(2, (n, 1)) / 2)

    values = np.linalg.eigvalsh((w := whitened(draw, Layout(False, False), 4, 20_000, rounds=5).rows) @ cov @ w.T)
    assert np.abs(values / values.mean() - 1.0).max() < sampling_error(4, 20_000)


def test_what_is_left_of_many_locations_way_is_believed_though_each_is_lost_in_noise():
    """20 locations left a tenth on one side put the intercept, where all are 0, three standard errors off."""
    d, left, layout = 21, 0.1, moments.Layout(constant=True, response=False)
    noise2, way = np.full((d, d), 2.0 * left**2), np.zeros((d, d))
    way[1:, 0] = way[0, 1:] = 1.0
    kept = {"on": [], "alone": [], "noise": []}
    for seed in range(200):
        rng = np.random.default_rng([9, seed])
        for name, moved, here in (("on", way, left), ("alone", None, left), ("noise", way, 0.0)):
            deviation = np.zeros((d, d))
            deviation[1:, 0] = deviation[0, 1:] = here + left * rng.standard_normal(d - 1)
            kept[name].append(moments._believed(deviation, noise2, layout, moved)[1:, 0].mean())
    assert 0.85 * left < np.mean(kept["on"]) < 1.05 * left
    assert np.mean(kept["alone"]) < 0.6 * left
    assert abs(np.mean(kept["noise"])) < 4.0 * left / np.sqrt(20.0 * 200.0)


@pytest.mark.thorough
def test_noise_alone_is_not_believed():
    d, people, runs, sd = 5, 2000, 120, psd_sensitivity(1.0)
    entries = d * (d - 1) // 2
    mixed, moved, raw = 0, [], []
    for seed in range(runs):
        rows = whitened(lambda rng, n: rng.standard_normal((n, d)), Layout(False, False), d, people, sd, 1, seed).rows
        mixed += bool(np.abs(rows[np.tril_indices(d, -1)]).max() > 1e-12)
        moved.append(np.linalg.cond(rows @ rows.T))
        entry = (d + 2) * sd / math.sqrt(people) / math.sqrt(2)
        raw.append(np.linalg.cond(np.eye(d) + _symmetric_noise(np.random.default_rng(seed), d) * entry))
    # The sum of squares of the correlations' entries is σ²χ² in pure noise, and is believed from 1 + 1.5 √(2/k) times
    # its mean on; the claimed σ² holds a guess of the sampling variance, larger than the true one, which is small here.
    chance = chi2.sf(entries * (1 + levels.STRICT * math.sqrt(2 / entries)), entries)
    assert mixed <= binom.ppf(1 - 1e-6, runs, chance)
    assert mixed < runs / 4
    # what is believed all the same moves the map far less than the reports as they are would have
    assert np.mean(moved) - 1.0 < 0.25 * (np.mean(raw) - 1.0)
    assert np.mean(raw) > 1.3


def _symmetric_noise(rng, d):
    z = rng.standard_normal((d, d))
    return np.tril(z) + np.tril(z, -1).T + np.diag(np.diag(z)) * (math.sqrt(2) - 1)


def test_a_hopeless_round_cannot_flatten_a_direction():
    # ten people under mu = 1: the estimate is noise many times its size, often with negative eigenvalues
    for seed in range(50):
        rows = whitened(lambda rng, n: rng.standard_normal((n, 4)), Layout(False, False), 4, 10, 10.0, 1, seed).rows
        values = np.linalg.eigvalsh(np.linalg.inv(rows) @ np.linalg.inv(rows).T)
        assert values.min() >= moments.LIMITS[0] * (1 - 1e-9)  # rounding of two inverses
        assert values.max() <= moments.LIMITS[1] * (1 + 1e-9)


# --- location ------------------------------------------------------------------------------------------


PLACES = np.array([[40.0, 14.0], [2015.0, 3.0], [0.0, 1e-4], [1e5, 1e3]])
"""Of four columns, the mean and the sd."""


@pytest.mark.thorough
def test_columns_of_any_scale_are_found_through_noise():
    m = len(PLACES)
    each = int(WANTED["location"] * m) // GROUPS
    sd = MECHANISM.sd(MECHANISM.bits_radius(m), m)
    found = []
    for seed in range(2):
        rng, search = np.random.default_rng(seed), moments.search(m)
        for _ in range(LOCATIONS):
            v = PLACES[:, 0] + PLACES[:, 1] * rng.standard_normal((GROUPS, each, m))
            noise = sd * math.sqrt(each) * rng.standard_normal((GROUPS, m))
            total = (v > search.thresholds[:, None]).sum(axis=1) + noise
            search = moments.narrowed(search, total, np.full(GROUPS, float(each)), sd)
        found.append((search.unsure < 1.0).all(axis=0))
        # errors in units of what the search says it does not know
        assert (np.abs(search.centre - PLACES[:, 0]) < 4.5 * search.unsure[0] * search.scale).all()
        assert (np.abs(np.log(search.scale / PLACES[:, 1])) < 4.5 * search.unsure[1]).all()
    assert np.mean(found) > 0.8


@pytest.mark.thorough
def test_a_scale_is_never_so_small_beside_the_centre_that_the_map_with_it_has_no_inverse():
    search = moments.search(1)
    for _ in range(2 * LOCATIONS):  # a column that is always the same, and reports without noise
        search = moments.narrowed(search, 1.0 * (search.thresholds < 1e14), np.ones(GROUPS), 1e-6)
    assert search.centre[0] == pytest.approx(1e14)
    assert search.scale[0] == moments.NARROWEST * search.centre[0]


# --- the reference -------------------------------------------------------------------------------------

MONTE_CARLO = 400_000


def reference_rows(d, constant, rng):
    z = rng.standard_normal((MONTE_CARLO, d))
    if constant:
        z[:, 0] = 1.0
    return z


@pytest.mark.some(1)
@pytest.mark.parametrize(("constant", "lead"), [(True, 1.0), (True, 10.0), (False, 1.0)])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_reference_moments_equal_monte_carlo(d, constant, lead):
    z = reference_rows(d, constant, np.random.default_rng(d))
    z[:, 0] *= math.sqrt(lead)
    squares = z**2 / (z**2).sum(axis=1, keepdims=True)
    # five standard errors of the mean; the quadrature's own error is 1e-4 of the values
    limit = 5 * squares.std(axis=0) / math.sqrt(MONTE_CARLO) + 1e-4
    np.testing.assert_array_less(np.abs(squares.mean(axis=0) - moment_diagonal(d, constant, lead)), limit)
    assert moment_diagonal(d, constant, lead).sum() == pytest.approx(1.0, abs=1e-12)
