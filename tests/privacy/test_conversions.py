"""Conversions between forms of privacy, against the definitions they come from."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import norm

from privreg.privacy import conversions as c
from privreg.privacy.budget import Budget
from privreg.privacy.conversions import gdp_delta, gdp_epsilon, gdp_mu


@pytest.mark.reference
@pytest.mark.parametrize(("epsilon", "delta"), [(1, 0.1269), (2, 0.0209), (3, 0.0015)])
def test_mu_one_implies_the_tabulated_deltas(epsilon, delta):
    assert gdp_delta(1.0, epsilon) == pytest.approx(delta, abs=5e-5)


@given(st.floats(0.05, 8), st.floats(0.01, 10))
def test_delta_is_the_hockey_stick_of_two_normals(mu, epsilon):
    # δ = sup over events of P(A) − e^ε Q(A); the best event is a half line
    cut = epsilon / mu + mu / 2
    direct = norm.sf(cut - mu) - math.exp(epsilon) * norm.sf(cut)
    assert gdp_delta(mu, epsilon) == pytest.approx(max(direct, 0), rel=1e-6, abs=1e-13)


@given(st.floats(0.05, 6), st.floats(1e-12, 0.2))
def test_epsilon_and_mu_invert_delta(mu, delta):
    epsilon = gdp_epsilon(mu, delta)
    assert gdp_delta(mu, epsilon) <= delta * (1 + 1e-6)
    if epsilon > 0:
        assert gdp_mu(epsilon, delta) == pytest.approx(mu, rel=1e-5)


@given(st.floats(0.01, 10), st.floats(1e-12, 0.5))
def test_calibration_is_the_largest_mu_that_keeps_the_promise(epsilon, delta):
    mu = gdp_mu(epsilon, delta)
    assert gdp_delta(mu, epsilon) <= delta
    assert gdp_delta(mu * (1 + 1e-6), epsilon) > delta
    # never less than the classical noise allows (valid for ε < 1)
    if epsilon < 1:
        assert mu >= epsilon / math.sqrt(2 * math.log(1.25 / delta))


def test_extremes_stay_finite():
    assert gdp_delta(0.01, 5.0) == 0.0  # below the smallest double
    assert gdp_delta(40.0, 0.1) == pytest.approx(1.0)
    assert gdp_epsilon(0.01, 0.4) == 0.0
    assert gdp_mu(1e-3, 1e-9) > 0


def test_gaussian_privacy_is_concentrated_by_the_divergence_of_its_noise():
    for mu in (0.1, 1.0, 3.0):
        # Rényi divergence of order a between N(0, 1) and N(μ, 1) is aμ²/2, by integration
        value, _ = quad(lambda x, mu=mu: norm.pdf(x, mu) ** 3 / norm.pdf(x) ** 2, 3 * mu - 9, 3 * mu + 9)
        rho = math.log(value) / 6
        assert Budget.declare(mu=mu) <= Budget.declare(rho=rho * (1 + 1e-5))
        assert not Budget.declare(mu=mu) <= Budget.declare(rho=rho * (1 - 1e-5))


# --- pure ------------------------------------------------------------------------------------------------


@given(st.floats(1e-12, 1e12))
def test_pure_epsilon_keeps_every_form_it_is_the_largest_for(epsilon):
    mu, rho = c.pure_mu(epsilon), c.pure_rho(epsilon)
    assert 0 < mu < math.inf
    assert c.pure_for_mu(mu) == pytest.approx(epsilon, rel=1e-9)
    assert c.pure_mu(c.pure_for_mu(mu)) <= mu
    assert c.pure_for_rho(rho) == pytest.approx(epsilon, rel=1e-9)
    assert c.pure_rho(c.pure_for_rho(rho)) <= rho
    assert rho <= epsilon**2 / 2 * (1 + 1e-12)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.3, 1 - 1e-12, 1.0, 4.0, 30.0])
def test_pure_mu_puts_the_corner_on_the_gaussian_curve(epsilon):
    mu = c.pure_mu(epsilon)
    corner = math.exp(-float(np.logaddexp(0, epsilon)))
    assert norm.cdf(-mu / 2) == pytest.approx(corner, rel=1e-11)
    if epsilon < 1e-3:  # where the corner says nothing in double precision
        assert mu == pytest.approx(math.sqrt(math.pi / 2) * epsilon, rel=1e-5)


@given(st.floats(0.01, 20), st.floats(1e-9, 1))
def test_the_implied_gaussian_curve_lies_below_the_pure_one(epsilon, type_one):
    point = np.array([type_one])
    assert c.gdp_tradeoff(c.pure_mu(epsilon), point) <= c.dp_tradeoff(epsilon, 0.0, point) + 1e-12


@given(st.floats(0.01, 30), st.floats(0, 30))
def test_pure_delta_is_the_hockey_stick_of_randomised_response(epsilon, at):
    p, q = 1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))
    direct = sum(max(a - math.exp(at) * b, 0.0) for a, b in ((p, q), (q, p)))
    assert c.dp_delta(epsilon, 0.0, at) == pytest.approx(direct, abs=1e-12)


@given(st.floats(1e-6, 1e3), st.floats(0, 1))
def test_pure_epsilon_inverts_pure_delta(epsilon, delta):
    found = c.pure_epsilon(epsilon, delta)
    assert 0 <= found <= epsilon
    assert c.dp_delta(epsilon, 0.0, found) <= delta + 1e-12
    if found > 0:
        assert c.dp_delta(epsilon, 0.0, found) == pytest.approx(delta, abs=1e-12)


@given(st.floats(1e-6, 1e3), st.floats(1e-100, 0.99))
def test_a_little_more_than_epsilon_is_allowed_by_delta(epsilon, delta):
    most = c.pure_for_dp(epsilon, delta)
    assert most >= epsilon
    assert c.dp_delta(most, 0.0, epsilon) <= delta
    assert c.dp_delta(most * (1 + 1e-9) + 1e-9, 0.0, epsilon) > delta * (1 - 1e-6) or delta < 1e-8


@pytest.mark.parametrize("epsilon", [0.05, 0.5, 1.0, 3.0, 12.0])
def test_pure_rho_is_the_least_for_randomised_response(epsilon):
    # Rényi divergence of every order over its order, computed from the two probabilities
    order = 1 + np.geomspace(1e-3, 1e4, 2000)
    low = -np.log1p(np.exp(epsilon))
    high = low + epsilon
    moment = np.logaddexp(order * high + (1 - order) * low, order * low + (1 - order) * high)
    ratio = moment / (order - 1) / order
    assert ratio.max() <= c.pure_rho(epsilon) * (1 + 1e-9)
    assert ratio.max() >= c.pure_rho(epsilon) * (1 - 2e-3)


# --- the rest --------------------------------------------------------------------------------------------


@given(st.floats(0.01, 8), st.floats(0, 0.5), st.floats(0, 10))
def test_dp_delta_is_the_conjugate_of_the_trade_off(epsilon, delta, at):
    corner = (1 - delta) / (1 + math.exp(epsilon))
    type_one = np.array([0.0, corner, 1 - delta, 1.0, *np.linspace(0, 1, 50)])
    best = (1 - c.dp_tradeoff(epsilon, delta, type_one) - math.exp(at) * type_one).max()
    assert c.dp_delta(epsilon, delta, at) == pytest.approx(max(best, 0.0), abs=1e-12)


@given(st.floats(0.01, 6), st.floats(0.001, 1))
def test_gdp_delta_is_the_conjugate_of_the_trade_off(mu, type_one):
    f = float(c.gdp_tradeoff(mu, np.array([type_one]))[0])
    for epsilon in (0.1, 1.0, 3.0):
        assert 1 - f - math.exp(epsilon) * type_one <= gdp_delta(mu, epsilon) + 1e-12


@given(st.floats(1e-6, 50), st.floats(0, 1), st.floats(0, 1))
def test_concentrated_privacy_gives_a_curve_above_the_gaussian_one(rho, where, other):
    reach = rho + 8 * math.sqrt(rho)
    low, high = sorted((where * reach, other * reach))
    near, far = c.zcdp_delta(rho, low), c.zcdp_delta(rho, high)
    assert far <= near * (1 + 1e-9)
    assert gdp_delta(math.sqrt(2 * rho), low) <= near * (1 + 1e-9)
    assert near <= c.dp_delta(high, far, low) * (1 + 1e-6)  # nothing more is known from another point


@pytest.mark.thorough
@given(st.floats(1e-6, 50), st.floats(1e-12, 0.3))
def test_zcdp_delta_beats_the_textbook(rho, delta):
    """Bun & Steinke (2016), Proposition 1.3."""
    assert c.zcdp_delta(rho, rho + 2 * math.sqrt(rho * math.log(1 / delta))) <= delta * (1 + 1e-9)


def test_conversions_reach_the_ends():
    assert c.pure_epsilon(1.0, 0.0) == 1.0
    assert c.pure_epsilon(1.0, 1.0) == 0.0
    assert c.dp_delta(1e12, 0.0, 0.0) == 1.0
    assert c.dp_delta(1e-12, 0.0, 0.0) == pytest.approx(5e-13)
    assert c.dp_delta(1.0, 0.1, 2.0) == 0.1
    ends = np.array([0.0, 1.0])
    for curve in (c.gdp_tradeoff(1.0, ends), c.dp_tradeoff(1.0, 0.0, ends), c.dp_tradeoff(1e12, 0.0, ends)):
        np.testing.assert_array_equal(curve, [1.0, 0.0])
