"""Composition and conversion against Google's dp-accounting, which discretises the privacy loss."""

import math

import pytest

from privreg.privacy import conversions
from privreg.privacy.ledger import Budget, compose, gdp_delta, gdp_epsilon

pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
pytestmark = pytest.mark.reference

STEP = 1e-4
"""Width of its grid of privacy losses; its bounds are pessimistic by about as much."""


def gaussian(mu):
    # sensitivity over sd is μ, whichever neighbours the sensitivity is taken between
    return pld.from_gaussian_mechanism(1 / mu, value_discretization_interval=STEP)


def response(epsilon):
    """Randomised response between two answers: it draws another answer at random with probability `noise`."""
    return pld.from_randomized_response(2 / (1 + math.exp(epsilon)), 2, value_discretization_interval=STEP)


@pytest.mark.some(4)
@pytest.mark.parametrize("mu", [0.3, 1.0, 2.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 3.0])
def test_gaussian_curve(mu, epsilon):
    found = gaussian(mu).get_delta_for_epsilon(epsilon)
    assert gdp_delta(mu, epsilon) == pytest.approx(found, rel=2e-3, abs=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize(("mu", "times"), [(0.2, 25), (0.5, 4), (1.0, 9)])
def test_gaussian_composition(mu, times):
    total = compose([mu] * times)
    composed = gaussian(mu).self_compose(times)
    for delta in (1e-3, 1e-6):
        assert gdp_epsilon(total, delta) == pytest.approx(composed.get_epsilon_for_delta(delta), rel=1e-3)


def test_composition_of_different_budgets():
    budgets = [Budget.declare(mu=0.5), Budget.declare(epsilon=1, delta=1e-6), Budget.declare(rho=0.1)]
    composed = gaussian(budgets[0].mu)
    for b in budgets[1:]:
        composed = composed.compose(gaussian(b.mu))
    found = Budget.declare(mu=compose(b.mu for b in budgets))
    assert found.epsilon_at(1e-6) == pytest.approx(composed.get_epsilon_for_delta(1e-6), rel=1e-3)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_pure_curve_is_that_of_randomised_response(epsilon):
    law = response(epsilon)
    for at in (0.0, epsilon / 2, epsilon + STEP):
        assert conversions.dp_delta(epsilon, 0.0, at) == pytest.approx(law.get_delta_for_epsilon(at), abs=2 * STEP)
    assert conversions.pure_epsilon(epsilon, 0.01) == pytest.approx(law.get_epsilon_for_delta(0.01), abs=2 * STEP)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_laplace_noise_stays_within_the_pure_curve(epsilon):
    law = pld.from_laplace_mechanism(1 / epsilon, value_discretization_interval=STEP)
    for at in (0.0, epsilon / 2, epsilon):
        assert law.get_delta_for_epsilon(at) <= conversions.dp_delta(epsilon, 0.0, at) + STEP
    # and within the Gaussian one that ε-DP implies
    assert law.get_delta_for_epsilon(epsilon / 2) <= gdp_delta(conversions.pure_mu(epsilon), epsilon / 2) + STEP


@pytest.mark.parametrize(("epsilon", "times"), [(0.1, 30), (0.5, 8), (1.0, 3)])
def test_pure_composition_both_ways(epsilon, times):
    each = Budget.declare(epsilon=epsilon)
    composed = response(epsilon).self_compose(times)
    pure, gdp = each.times(times), Budget.declare(mu=compose([each.mu] * times))
    # just below the sum, what is left is that every answer was true; above it, nothing
    true = (1 + math.exp(-epsilon)) ** -times
    near = composed.get_delta_for_epsilon(pure.epsilon - 0.1)
    assert near == pytest.approx(true * -math.expm1(-0.1), rel=0.05, abs=1e-12)
    assert composed.get_delta_for_epsilon(pure.epsilon + times * STEP) <= 1e-12
    for at in (0.0, 0.5, 1.0, 2.0):
        found = composed.get_delta_for_epsilon(at)
        assert found <= pure.delta(at) + times * STEP
        assert found <= gdp.delta(at) + times * STEP


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-3), (0.3, 0.05)])
def test_curve_of_a_single_point(epsilon, delta):
    from dp_accounting.pld.common import DifferentialPrivacyParameters

    law = pld.from_privacy_parameters(DifferentialPrivacyParameters(epsilon, delta), value_discretization_interval=STEP)
    for at in (0.0, epsilon / 3, 2 * epsilon):
        assert conversions.dp_delta(epsilon, delta, at) == pytest.approx(law.get_delta_for_epsilon(at), abs=2 * STEP)


@pytest.mark.parametrize("rho", [0.01, 0.5, 5.0])
def test_concentrated_privacy_by_renyi_orders(rho):
    from dp_accounting.rdp import rdp_privacy_accountant

    orders = [1 + 1.02**k / 1000 for k in range(900)]
    for epsilon in (rho + math.sqrt(rho), rho + 4 * math.sqrt(rho)):
        theirs, _ = rdp_privacy_accountant.compute_delta(orders, [rho * a for a in orders], epsilon)
        assert conversions.zcdp_delta(rho, epsilon) == pytest.approx(theirs, rel=5e-3)
