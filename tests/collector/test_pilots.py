"""The pilots: location and moment reports, what is learned from them, and the reference they are compared with."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import binom, chi2, norm

import privreg as pr
from privreg.collector import factors, location
from privreg.collector import moments as whitening
from privreg.collector.moments import Layout
from privreg.collector.reference import correlated_matrix, curvature_matrix, moment_diagonal, newton_matrix
from privreg.device.score import lane_report, location_report, moment_report
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Gaussian, bits_sensitivity, joint_sensitivity, psd_sensitivity
from privreg.protocol.codes import BALANCED, HUBER
from privreg.protocol.plans import Shape
from privreg.simulation.staged import beginning, kernels
from tests.kinds import KINDS, plan_of, quiet, reports_of

MECHANISM = Gaussian(Budget.declare(mu=1))
BARE = Gaussian(Budget.declare(mu=None))
EXTREME = [1.7e308, -1.7e308, 1e200, -1e155, 1e154, 1e-145, -1e-155, 1e-200, 5e-324, 0.0, 1.0, -3.0]
ROUNDING = 1e-12
"""A report's norm is a root of a dozen rounded products: a few units of the last place, 2e-16 each."""


def bare_plan(family=HUBER, reach=1.0, kappa=0.0):
    """Plan of a chain whose reports carry no noise."""
    kind = KINDS[{HUBER: "huber", BALANCED: "balanced"}[family]]
    plan = quiet(plan_of(kind, reports_of(kind, "gaussian", label=False), 4, joint=kappa > 0, batch=1, lanes=1))
    return plan._replace(reach=reach, kappa=kappa, radius=BARE.joint_radius(reach, kappa))


def every_location(mechanism, v, centre, spread, noise, total, first, n):
    """Add reports by the kernel, as `mechanism` has them."""
    m2, none = 2 * len(centre), np.empty(0)
    radius = mechanism.bits_radius(m2)
    kernels.location_reports(v, centre, spread, noise, mechanism.channel(m2), radius, none, total, first, n)


def every_moment(mechanism, v, rows, noise, total, first, n):
    channel, radius = mechanism.channel(len(rows) * (len(rows) + 1) // 2), mechanism.moment_radius()
    kernels.moment_reports(v, rows, noise, channel, radius, np.empty(0), total, first, n)


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


# --- Law 1 and 3: kernels are the devices; no row breaks out ---------------------------------------------


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 4), st.integers(0, 10**6), st.integers(0, 50), st.integers(0, 60), st.booleans())
def test_location_kernel_equals_the_devices_bit_for_bit(m, seed, first, n, quiet):
    rng = np.random.default_rng(seed)
    v = np.concatenate([adversarial_rows(m, 55, seed), rng.standard_normal((55, m))])
    centre, spread = rng.standard_normal(m) * 10.0 ** rng.integers(-9, 9, m), np.exp(rng.uniform(-460, 460, m))
    noise = rng.standard_normal((n, 2 * m))
    mechanism = BARE if quiet else MECHANISM
    total, expected = np.ones(2 * m), np.ones(2 * m)
    every_location(mechanism, v, centre, spread, noise, total, first, n)
    for i in range(n):
        report = location_report(mechanism, centre, spread, v[first + i], noise[i])
        expected += report
        if quiet:
            assert set(report.tolist()) <= {0.0, 1.0}
    assert total.tobytes() == expected.tobytes()
    assert np.isfinite(total).all()


@pytest.mark.parametrize("d", [1, 2, 3, 6])
def test_moment_kernel_equals_the_devices_bit_for_bit_and_no_row_is_longer_than_one(d):
    rng = np.random.default_rng(d)
    v = adversarial_rows(d)
    size = d * (d + 1) // 2
    noise = rng.standard_normal((len(v), size))
    for rows in row_maps(d):
        total, expected = np.zeros(size), np.zeros(size)
        every_moment(MECHANISM, v, rows, noise, total, 0, len(v))
        silent = 0
        for row, z in zip(v, noise, strict=True):
            expected += moment_report(MECHANISM, rows, row, z)
            bare = moment_report(BARE, rows, row, z)
            # u uᵀ has Frobenius norm 1 exactly, or the row was too long or too short to have a direction
            quiet = not bare.any()
            assert quiet or np.linalg.norm(bare) == pytest.approx(1.0, abs=ROUNDING)
            silent += quiet and row.any()
        assert np.isfinite(total).all()
        assert total.tobytes() == expected.tobytes()
        assert 0 < silent < len(v)


def test_moment_kernel_takes_the_rows_and_noise_it_is_told_to():
    v, noise, rows = adversarial_rows(3), np.random.default_rng(1).standard_normal((7, 6)), row_maps(3)[1]
    total, expected = np.zeros(6), np.zeros(6)
    every_moment(MECHANISM, v, rows, noise, total, 60, 7)
    every_moment(MECHANISM, v[60:67].copy(), rows, noise, expected, 0, 7)
    assert total.tobytes() == expected.tobytes()
    assert total.any()


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("reach", [1.0, 0.25])
@pytest.mark.parametrize("family", [HUBER, BALANCED])
def test_no_row_exceeds_the_bounds_of_a_joint_report(family, reach, kappa):
    plan = bare_plan(family, reach, kappa)
    x, rng = adversarial_rows(4), np.random.default_rng(8)
    full = 0
    for rows in row_maps(4):
        for theta in (np.zeros(4), rng.standard_normal(4), np.array([1e6, -1e6, 1e6, 1.0]), np.full(4, 1e200)):
            for row, y in zip(x, rng.choice([0.0, 1.0] if family == BALANCED else EXTREME, len(x)), strict=True):
                report = lane_report(plan, rows, theta, 0.7, row, y, np.zeros(5))
                assert np.isfinite(report).all()
                assert np.linalg.norm(report[:4]) <= reach * (1 + ROUNDING)
                assert len(report) == 4 + (kappa > 0)
                with np.errstate(all="ignore"):
                    silent = np.isnan((rows @ row) @ theta)  # whose number is 0
                if family == HUBER and kappa > 0 and not silent:
                    assert report[4] in {0.0, kappa}
                assert not (report[4:] < 0.0).any()
                assert not (report[4:] > kappa).any()
                assert not silent or np.abs(report[4:]).max(initial=0.0) < ROUNDING
                full += bool(np.linalg.norm(report[:4]) > 0.99 * reach)
    assert full > 100  # the bound is reached all the time, so that a bound half as large would fail


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
    assert MECHANISM.sd(MECHANISM.moment_radius(), 6) == pytest.approx(psd_sensitivity(1.0), rel=1e-15)
    assert psd_sensitivity(1.0) == math.sqrt(2.0)


@pytest.mark.parametrize("m", [1, 2, 5])
def test_location_reports_of_neighbours_are_as_far_apart_as_claimed_and_never_farther(m):
    centre, spread = np.linspace(-3, 40, m), np.geomspace(1e-3, 1e3, m)
    zero = np.zeros(2 * m)
    bare = [location_report(BARE, centre, spread, v, zero) for v in adversarial_rows(m)]
    assert largest_gap(bare) <= bits_sensitivity(2 * m) * (1 + ROUNDING)
    # just below the centre: no bit is set; far above: all are
    worst = [location_report(BARE, centre, spread, centre + f * spread, zero) for f in (-0.5, 9.0)]
    assert largest_gap(worst) == pytest.approx(bits_sensitivity(2 * m), rel=ROUNDING)
    assert MECHANISM.sd(MECHANISM.bits_radius(2 * m), 2 * m) == pytest.approx(bits_sensitivity(2 * m), rel=1e-15)


@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
def test_joint_reports_of_neighbours_are_as_far_apart_as_claimed_and_never_farther(kappa):
    plan = bare_plan(kappa=kappa)
    rows, theta, rng = row_maps(3)[1], np.array([0.5, -1.0, 2.0]), np.random.default_rng(4)

    def bare(x, y):
        return lane_report(plan, rows, theta, 1.0, x, y, np.zeros(4))

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
    zero, one = (lane_report(plan, np.eye(2), np.zeros(2), 1.0, x, y, np.zeros(2)) for y in (0.0, 1.0))
    assert np.linalg.norm(zero - one) == pytest.approx(joint_sensitivity(1.0, 0.0), rel=ROUNDING)


@settings(max_examples=300, deadline=None)
@given(st.floats(-800, 800), st.sampled_from([0.0, 1.0]))
def test_balanced_score_is_the_logistic_one_over_its_bound(eta, y):
    # (π − y)/max(π, 1 − π), and its conditional mean is 0 when the model is true
    share = 1.0 / (1.0 + math.exp(-eta)) if eta > -700 else 0.0
    expected = (share - y) / max(share, 1.0 - share)
    assert kernels.unit_score(Shape(BALANCED, 0.0, 0.0, 0), 1.0, eta, y) == pytest.approx(
        expected, abs=1e-15, rel=1e-13
    )
    assert abs(kernels.unit_score(Shape(BALANCED, 0.0, 0.0, 0), 1.0, eta, y)) <= 1.0


# --- whitening -----------------------------------------------------------------------------------------


def whitened(draw, layout, d, people, sd=0.0, rounds=3, seed=3):
    """Scatter after rounds of reports on fresh rows."""
    rng = np.random.default_rng(seed)
    mechanism = Gaussian(Budget.declare(mu=math.sqrt(2.0) / sd if sd else None))
    scatter = whitening.start_from(np.eye(d))
    for _ in range(rounds):
        v, total = np.ascontiguousarray(draw(rng, people)), np.zeros(d * (d + 1) // 2)
        every_moment(mechanism, v, scatter.rows, rng.standard_normal((people, total.size)), total, 0, people)
        scatter = whitening.learn(scatter, total, people, sd, layout)
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


def test_a_location_is_learned_with_its_scale():
    def draw(rng, n):
        return np.column_stack([np.ones(n), 0.6 + 0.2 * rng.standard_normal((n, 2))])

    rows = whitened(draw, Layout(True, False), 3, 20_000, rounds=5).rows
    np.testing.assert_allclose(rows, [[1, 0, 0], [-3, 5, 0], [-3, 0, 5]], atol=5 * sampling_error(3, 20_000))


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
    chance = chi2.sf(entries * (1 + factors.STRICT * math.sqrt(2 / entries)), entries)
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
        assert values.min() >= whitening.SMALLEST * (1 - 1e-9)  # rounding of two inverses
        assert values.max() <= whitening.LARGEST * (1 + 1e-9)


# --- location ------------------------------------------------------------------------------------------


def _lognormal_spread():
    """Spread outside of which, about the median 1, a standard lognormal has the share that the search aims at."""
    return brentq(lambda s: norm.sf(math.log(1 + s)) + norm.cdf(math.log(1 - s)) - location.TARGET, 0.1, 0.999)


COLUMNS = {
    "age": (lambda z: 40 + 14 * z, 40.0, 14.0),
    "year": (lambda z: 2015 + 3 * z, 2015.0, 3.0),
    "small": (lambda z: 1e-4 * z, 0.0, 1e-4),
    "income": (lambda z: np.exp(10 + z), math.exp(10), math.exp(10) * _lognormal_spread()),
    "far": (lambda z: 1e5 + 1e3 * z, 1e5, 1e3),
}


def located(people, mu, seed):
    """Centre and spread found in a search by batches of `people`, as a share of the true spread."""
    rng, m = np.random.default_rng(seed), len(COLUMNS)
    mechanism, state = Gaussian(Budget.declare(mu=mu)), location.begin(m)
    for _ in range(location.BATCHES):
        z = rng.standard_normal((people, m))
        v = np.column_stack([make(z[:, j]) for j, (make, _, _) in enumerate(COLUMNS.values())])
        total = np.zeros(2 * m)
        noise = rng.standard_normal((people, 2 * m))
        every_location(mechanism, v, state.centre, np.exp(state.log_spread), noise, total, 0, people)
        state = location.learn(state, total / people)
    centre, spread = location.centre_and_scale(state)
    truth = np.array([[c, s] for _, c, s in COLUMNS.values()])
    return (centre - truth[:, 0]) / truth[:, 1], spread / truth[:, 1]


@pytest.mark.parametrize("seed", range(4))
def test_columns_of_any_scale_are_found_without_noise(seed):
    people = 80
    centre, spread = located(people, None, seed)
    # The averaged search is as precise as the sample quantiles of its last batches: a share has sd √(s(1 − s)/n), and
    # the quantile's is that over the density at it (per log unit for the spread). The lognormal is denser at its
    # median in units of its spread, never sparser. Five sd, and a tenth for what the start still weighs.
    n = people * (location.BATCHES - location.SEARCH)
    near = 5 * math.sqrt(0.25 / n) / norm.pdf(0)
    wide = 5 * math.sqrt(location.TARGET * (1 - location.TARGET) / n) / location.SLOPE
    assert np.abs(centre).max() < 1.1 * near < 0.15
    assert np.abs(np.log(spread)).max() < 1.1 * wide + 0.05 < 0.2


def test_columns_of_any_scale_are_found_through_noise():
    # A batch's share has a noise sd of .35 at the people a stream has for it, and of .2 at three times as many. The
    # last batches average it by the root of their number, to a tenth of a spread and less, were it not that the search
    # may come late: of 200 such columns the worst was 1.3 spreads off centre, or a factor of 2.7 in spread, and with
    # three times the people .33 and 1.6. The limits are a little above that, and columns beyond them would be seen.
    for times, most_off, most_wide in ((1, 2.0, 4.0), (3, 0.5, 2.0)):
        found = [located(times * location.PEOPLE * len(COLUMNS), 1.0, seed) for seed in range(8)]
        off = np.abs([centre for centre, _ in found])
        wide = np.abs([np.log(spread) for _, spread in found])
        assert off.max() < most_off
        assert wide.max() < math.log(most_wide)
        assert np.median(np.maximum(off, wide)) < 0.35 / math.sqrt(times)


# --- the reference -------------------------------------------------------------------------------------

MONTE_CARLO = 400_000
QUADRATURE = 0.003
"""Error allowed to the quadrature at 400 by 100 equally likely points, relative to the largest entry: sixteen times the
points in each direction change it by less than 0.002 for predictors like those used here."""


def reference_rows(d, constant, rng):
    z = rng.standard_normal((MONTE_CARLO, d))
    if constant:
        z[:, 0] = 1.0
    return z


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_reference_moments_equal_monte_carlo(d, constant):
    z = reference_rows(d, constant, np.random.default_rng(d))
    squares = z**2 / (z**2).sum(axis=1, keepdims=True)
    # five standard errors of the mean; the quadrature's own error is 1e-4 of the values
    limit = 5 * squares.std(axis=0) / math.sqrt(MONTE_CARLO) + 1e-4
    np.testing.assert_array_less(np.abs(squares.mean(axis=0) - moment_diagonal(d, constant)), limit)
    assert moment_diagonal(d, constant).sum() == pytest.approx(1.0, abs=1e-12)


def balanced(eta):
    e = np.exp(-np.abs(eta))
    return e / (1.0 + e)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_curvature_matrix_equals_monte_carlo(d, constant):
    rng = np.random.default_rng(10 + d)
    z = reference_rows(d, constant, rng)
    norms = np.linalg.norm(z, axis=1)
    for theta in (rng.standard_normal(d), np.zeros(d)):
        found = curvature_matrix(balanced, theta, constant)
        weight = balanced(z @ theta) / norms
        for j in range(d):
            for m in range(j + 1):
                sample = weight * z[:, j] * z[:, m]
                limit = 5 * sample.std() / math.sqrt(MONTE_CARLO) + QUADRATURE * found.max()
                assert abs(sample.mean() - found[j, m]) < limit
        np.testing.assert_allclose(found, found.T, atol=1e-15)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("d", [1, 2, 5, 20])
def test_newton_matrix_inverts_the_curvature_where_it_is_constant(d, constant):
    theta = np.random.default_rng(d).standard_normal(d)
    matrix = curvature_matrix(lambda eta: np.full_like(eta, 0.4), theta, constant)
    np.testing.assert_allclose(newton_matrix(0.4, d, constant) @ matrix, np.eye(d), atol=QUADRATURE)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("k", [1, 2, 5])
def test_correlated_matrix_equals_monte_carlo_and_the_newton_matrix_where_nothing_is_correlated(k, constant):
    cov, _ = correlated(k, 0.8)
    z = reference_rows(k + constant, constant, np.random.default_rng(20 + k))
    z[:, constant:] = z[:, constant:] @ np.linalg.cholesky(cov).T
    found, norms = correlated_matrix(cov, constant), np.linalg.norm(z, axis=1)
    for j in range(k + constant):
        for m in range(j + 1):
            sample = z[:, j] * z[:, m] / norms
            # five standard errors; the integral's own error is far smaller
            limit = 5 * sample.std() / math.sqrt(MONTE_CARLO) + 1e-5 * found.max()
            assert abs(sample.mean() - found[j, m]) < limit
    plain = correlated_matrix(np.eye(k), constant)
    np.testing.assert_allclose(newton_matrix(1.0, k + constant, constant) @ plain, np.eye(k + constant), atol=1e-3)


def test_chains_of_a_bent_score_wander_no_more_than_estimates_err():
    """A mean over a wide wander is biased by its square: it is to fall as fast as what is estimated becomes known."""
    first = []
    for n in (50_000, 200_000):
        rng = np.random.default_rng(n)
        x = rng.uniform(-1, 1, (n, 4))
        data = pd.DataFrame(x, columns=list("abcd")).assign(y=rng.integers(0, 2, n))
        given = {
            "family": "logistic",
            "levels": {"y": [0, 1]},
            "bounds": {c: (-1, 1) for c in "abcd"},
            "mu": 2,
            "rows": n,
        }
        stream = pr.PrivateOnlineRegression.from_formula("y ~ a + b + c + d", data, **given).start(seed=1)
        run = stream.update(data)._run
        assert run.kind == "lanes"
        first.append(run.chains.steps.first)
        own = 2.0 * np.sqrt(np.sum(run.chains.newton**2) / n) / run.start.schedule.effective
        theta = run.chains.state.origin
        wander = beginning._wander(run, theta, float(np.linalg.norm(run.chains.newton)))
        assert wander == pytest.approx(3.0 * own)
        assert beginning._wander(run, 50.0 * np.ones(5), 1.0) == pytest.approx(0.15 * 50.0 * math.sqrt(5.0))
    assert first[0] == pytest.approx(4.0 * first[1])
