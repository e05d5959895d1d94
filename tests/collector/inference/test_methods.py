"""Limit laws, critical values, and sandwich covariances."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import stdtr
from scipy.stats import chi2, norm

from privreg.collector.inference.methods import METHODS, resolve_methods
from privreg.collector.inference.pivots import (
    ENOUGH,
    MAX_RESTRICTIONS,
    Normal,
    RandomScaling,
    StudentT,
    scaling_sf,
    simulate,
    wald_sf,
)
from privreg.errors import InferenceError, OptionError
from privreg.fits.published import central_sandwich, local_sandwich
from privreg.published.chain.collector import ChainSummary


def wald_critical(level, q, lanes=1):
    """The value that W_q exceeds with this probability."""
    high = 10.0
    while wald_sf(high, q, lanes) > level:
        high *= 2
    return brentq(lambda w: wald_sf(w, q, lanes) - level, 0.0, high, xtol=1e-9)


def bridges(q, lanes, steps, draws, seed):
    """The matrix's part of W_q for random walks of so many steps: what the limit is an approximation to."""
    k = np.arange(1, steps)
    values = 1.0 / (4.0 * steps**2 * np.sin(np.pi * k / (2 * steps)) ** 2)
    scale = np.sqrt(np.repeat(values, lanes) / lanes)[:, None]
    rng, out = np.random.default_rng(seed), []
    for _ in range(draws // 100):
        z = rng.standard_normal((100, len(scale), q)) * scale
        out.append(1.0 / np.linalg.cholesky(z.transpose(0, 2, 1) @ z)[:, -1, -1] ** 2)
    return np.concatenate(out)


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "lanes"), [(2, 1), (10, 1), (2, 8), (10, 12), (20, 16), (20, 1)])
def test_joint_tests_hold_their_level_from_the_fewest_steps_that_are_allowed(q, lanes):
    steps = max(ENOUGH, -(-ENOUGH * q // (2 * lanes)))
    # averaged: the χ² part is exact
    level = chi2.sf(wald_critical(0.05, q, lanes) / bridges(q, lanes, steps, 2000, 1), q)
    error = 4.0 * level.std() / np.sqrt(len(level))
    assert level.mean() - error < 0.06
    assert level.mean() + error > 0.05
    assert 0.0 < RandomScaling(lanes, steps).joint_sf(5.0, q) < 1.0
    with pytest.raises(InferenceError, match=f"needs {steps} updates of each of {lanes} group"):
        RandomScaling(lanes, steps - 1).joint_sf(5.0, q)


def test_critical_values_at_the_usual_levels():
    found = [np.sqrt(6.0) * RandomScaling().critical(a) for a in (0.2, 0.1, 0.05, 0.02, 0.01)]
    np.testing.assert_allclose(found, [3.8749, 5.3227, 6.7473, 8.6132, 10.0173], atol=6e-5)


def test_lanes_narrow_the_law_towards_the_normal():
    found = [np.sqrt(6.0) * RandomScaling(k).critical(0.05) for k in (1, 2, 4, 8, 16, 32)]
    np.testing.assert_allclose(found, [6.747, 5.865, 5.359, 5.086, 4.945, 4.873], atol=6e-4)
    assert RandomScaling(100_000).critical(0.05) == pytest.approx(1.959964, rel=1e-4)


@pytest.mark.parametrize("lanes", [1, 3])
@pytest.mark.parametrize("t", [1e-3, 0.1, 1.0, 6.7473, 25.0])
def test_tail_equals_the_integral_by_another_rule(t, lanes):
    def f(phi):
        u = t / (np.sqrt(lanes) * np.sin(phi))
        return np.exp(0.5 * lanes * (np.log(2 * u) - u - np.log1p(-np.exp(-2 * u))))

    value = 2 / np.pi * quad(f, 0, np.pi / 2, epsabs=1e-13, limit=500)[0]
    assert scaling_sf(t, lanes)[0] == pytest.approx(value, rel=1e-9, abs=1e-11)


@given(st.floats(0, 300), st.floats(0, 300), st.integers(1, 40))
def test_tail_is_a_survival_function(a, b, lanes):
    low, high = sorted((a, b))
    p = scaling_sf([0.0, low, high], lanes)
    assert p[0] == pytest.approx(1.0)
    assert p[0] + 1e-12 >= p[1] >= p[2] >= 0.0


@pytest.mark.statistical
def test_exact_p_values_against_a_monte_carlo_of_the_limit_law():
    # T = W(1) / √∫bridge² by the Karhunen–Loève series with the tail replaced by its mean
    rng = np.random.default_rng(17)
    n, terms = 200_000, 400
    k = np.arange(1, terms + 1)
    weights = 1 / (np.pi * k) ** 2
    q = np.full(n, 1 / 6 - weights.sum())
    for w in weights:
        q += w * rng.standard_normal(n) ** 2
    t = np.abs(rng.standard_normal(n)) / np.sqrt(q)
    for cut in (1.0, 3.0, 5.3227, 6.7473, 10.0173):
        p = scaling_sf(cut)[0]
        assert abs(np.mean(t > cut) - p) < 4.4 * np.sqrt(p * (1 - p) / n)


def test_reported_scale_makes_t_read_as_usual():
    law = RandomScaling()
    assert law.critical(0.05) == pytest.approx(2.7546, abs=5e-5)
    assert law.two_sided(np.array([law.critical(0.05)]))[0] == pytest.approx(0.05)
    assert law.joint_sf(law.critical(0.05) ** 2, 1) == pytest.approx(0.05)
    assert Normal().critical(0.05) == pytest.approx(norm.ppf(0.975))
    assert Normal().joint_sf(chi2.ppf(0.95, 3), 3) == pytest.approx(0.05)


def test_joint_table_agrees_with_the_exact_law_for_one_restriction():
    for t in (1.0, 3.0, 6.7473, 10.0173, 14.0):
        assert wald_sf(t * t, 1) == pytest.approx(scaling_sf(t)[0], rel=0.01, abs=2e-6)


def test_joint_critical_values():
    # two simulations of our own with 600 terms: 103.33 and 103.48, standard error 0.08
    assert wald_critical(0.05, 2) == pytest.approx(103.4, abs=0.3)
    assert wald_critical(0.05, 1) == pytest.approx(6.0 * RandomScaling().critical(0.05) ** 2, rel=0.005)
    values = [wald_critical(0.05, q) for q in range(1, MAX_RESTRICTIONS + 1)]
    assert np.all(np.diff(values) > 0)
    assert wald_sf(wald_critical(0.01, 7), 7) == pytest.approx(0.01)
    with pytest.raises(InferenceError, match="at most 20"):
        wald_sf(10.0, 21)


@pytest.mark.statistical
def test_joint_table_agrees_with_a_fresh_small_simulation():
    n = 4000
    a = simulate(n, 60, 5)
    rng = np.random.default_rng(6)
    for q in (2, 5):
        w = rng.chisquare(q, n) * a[q - 1]
        for level in (0.5, 0.1, 0.05):
            cut = wald_critical(level, q)
            assert abs(np.mean(w > cut) - level) < 4.5 * np.sqrt(level * (1 - level) / n)


def spd(rng, p):
    m = rng.standard_normal((p, p))
    return m @ m.T + p * np.eye(p)


def test_local_sandwich_is_the_sandwich_when_nothing_is_floored():
    rng = np.random.default_rng(2)
    a, s = spd(rng, 3), spd(rng, 3) * 10
    path = ChainSummary(900, 900, np.zeros(3), np.zeros(3), np.zeros(0), s, a, 100, np.ones(2))
    found = local_sandwich(path, noise_sd=1.0, curvature_sd=0.1, batch=1)
    np.testing.assert_allclose(found.cov, np.linalg.inv(a) @ s @ np.linalg.inv(a) / 900)
    assert found.notes == ()


def test_floors_are_applied_and_flagged():
    a = np.diag([1.0, 1e-9])
    path = ChainSummary(100, 100, np.zeros(2), np.zeros(2), np.zeros(0), np.eye(2) * 0.01, a, 100, np.ones(2))
    found = local_sandwich(path, noise_sd=2.0, curvature_sd=0.5, batch=1)
    # meat raised to the known noise variance 4, bread's second eigenvalue to 2 sd of the noise in it, 0.1
    np.testing.assert_allclose(found.cov, np.diag([4.0, 4.0 / 0.01]) / 100)
    assert found.notes[0].startswith("don't rely on the plug-in intervals")


def test_central_sandwich_adds_the_noise_of_the_reports():
    found = central_sandwich(np.eye(2) * 2, np.eye(2) * 3, 50, noise_sd=4.0)
    np.testing.assert_allclose(found.cov, np.eye(2) * (3 + 16) / 4 / 50)


def test_methods_are_read_and_refused():
    assert [m.name for m in resolve_methods("plug_in")] == ["plug_in"]
    assert [m.name for m in resolve_methods(("random_scaling", "plug_in"))] == ["random_scaling", "plug_in"]
    for bad, message in (("bootstrp", "choose one of"), ((), "one or more"), (("plug_in", "plug_in"), "twice")):
        with pytest.raises(OptionError, match=message):
            resolve_methods(bad)
    with pytest.raises(InferenceError, match="can't share"):
        resolve_methods(("plug_in", "plug_in_central"))
    assert all(m.cost and m.assumes for m in METHODS.values())


def test_p_values_of_students_t_have_two_tails():
    x = np.array([-2.0, 0.0, 0.5, 3.0])
    np.testing.assert_allclose(StudentT(7).two_sided(x), 2 * stdtr(7, -np.abs(x)), rtol=1e-12)
