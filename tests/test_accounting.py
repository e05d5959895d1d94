"""Budgets and their exact conversions."""

import gc
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from privreg.accounting import Budget, Ledger, compose, gdp_delta, gdp_epsilon, gdp_mu


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


def test_zcdp_and_composition():
    assert Budget.declare(rho=0.5).mu == pytest.approx(1.0)
    assert compose([3.0, 4.0]) == pytest.approx(5.0)
    assert compose([1.0] * 9) == pytest.approx(3.0)
    assert "0.5-zCDP" in str(Budget.declare(rho=0.5))


def test_no_budget_means_not_private_and_says_so():
    none = Budget.declare(mu=None)
    assert not none.private
    assert "NOT private" in str(none)


def test_ledger_adds_up_releases_and_forgets_gone_objects():
    class Data:
        pass

    ledger, one, two = Ledger(), Data(), Data()
    assert ledger.spend(one, 1.0).number == 1
    second = ledger.spend(one, 1.0)
    assert (second.number, second.total_mu) == (2, pytest.approx(math.sqrt(2)))
    assert ledger.spend(two, 2.0).total_mu == 2.0
    assert ledger.spend(("file", 3), 1.0).number == 1
    assert ledger.spend(("file", 3), 1.0).number == 2
    assert ledger.spend(None, 1.0).number == 0  # a stream: nothing tells whose rows they are
    assert ledger.spend(None, 1.0).total_mu == 1.0
    del one
    gc.collect()
    third = Data()
    assert ledger.spend(third, 1.0).number == 1
    assert math.isinf(ledger.spend(third, np.inf).total_mu)
