"""Budgets: forms, the order of guarantees, composition."""

import math
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from privreg.errors import BudgetError
from privreg.privacy import conversions
from privreg.privacy.ledger import Budget, at_least, at_most, compose, gdp_delta, gdp_epsilon

declare = Budget.declare
sizes = st.floats(1e-3, 20)
budgets = st.one_of(
    st.builds(lambda v: declare(mu=v), sizes),
    st.builds(lambda v: declare(epsilon=v), sizes),
    st.builds(lambda v: declare(rho=v), sizes),
    st.builds(lambda v, d: declare(epsilon=v, delta=d), sizes, st.floats(1e-9, 0.9)),
    st.just(declare(mu=None)),
)


def test_zcdp_and_composition():
    assert Budget.declare(rho=0.5).mu == pytest.approx(1.0)
    assert compose([3.0, 4.0]) == pytest.approx(5.0)
    assert compose([1.0] * 9) == pytest.approx(3.0)
    assert "0.5-zCDP" in str(Budget.declare(rho=0.5))


def test_no_budget_means_not_private_and_says_so():
    none = Budget.declare(mu=None)
    assert not none.private
    assert "NOT private" in str(none)


def test_epsilon_alone_is_pure():
    for pure in (declare(epsilon=1), declare(epsilon=1, delta=0), declare(epsilon=1.0, delta=None)):
        assert pure.pure
        assert pure.private
        assert pure.epsilon == 1.0
        assert pure.form == "epsilon"
        assert str(pure) == "1-DP, pure"
        assert pure == declare(epsilon=1)
    for other in (declare(mu=1), declare(epsilon=1, delta=1e-6), declare(rho=1), declare(mu=None)):
        assert not other.pure
        assert math.isinf(other.epsilon)
    with pytest.raises(BudgetError, match="epsilon is missing"):
        declare(delta=0)
    with pytest.raises(BudgetError, match=r"delta=1 must be in \(0, 1\).*0 or none asks for pure"):
        declare(epsilon=1, delta=1)
    for epsilon in (1e-12, 1e12):
        assert 0 < declare(epsilon=epsilon).mu < math.inf


@given(budgets)
def test_a_budget_is_rebuilt_from_its_form_and_from_its_fields(budget):
    assert Budget.restore(budget.form, list(budget.asked)) == budget
    assert Budget(budget.mu, budget.form, budget.asked) == budget


@given(budgets)
def test_the_largest_pure_epsilon_keeps_the_budget(budget):
    if not budget.private:
        assert budget.as_pure() is budget
        assert math.isinf(budget.pure_epsilon())
        return
    pure = budget.as_pure()
    assert pure.pure
    assert pure <= budget
    assert pure.epsilon == budget.pure_epsilon()
    assert not declare(epsilon=pure.epsilon * (1 + 1e-6) + 1e-9) <= budget
    if budget.form == "epsilon, delta":
        assert pure.epsilon >= budget.asked[0]


def test_a_pure_mechanism_under_epsilon_and_delta_loses_more_than_the_gaussian_one():
    # why as_pure() exists: the field mu is the Gaussian mechanism's
    budget = declare(epsilon=1, delta=1e-6)
    assert budget.as_pure().mu > 4 * budget.mu


def test_curves_are_those_of_the_mechanism():
    pure, gaussian = declare(epsilon=2), declare(epsilon=2, delta=1e-5)
    assert pure.delta(2) == 0
    assert pure.delta(1) == conversions.dp_delta(2.0, 0.0, 1.0)
    assert pure.epsilon_at(0.0) == 2
    assert gaussian.delta(2) == pytest.approx(1e-5)
    assert gaussian.epsilon_at(1e-5) == pytest.approx(2)
    assert declare(mu=1).delta(1) == gdp_delta(1, 1)
    assert declare(rho=0.5).epsilon_at(1e-6) == pytest.approx(gdp_epsilon(1, 1e-6))
    none = declare(mu=None)
    assert none.delta(3) == 1
    assert math.isinf(none.epsilon_at(1e-6))
    errors = np.array([0.0, 0.25, 1.0])
    np.testing.assert_array_equal(none.tradeoff(errors), 0)
    np.testing.assert_array_equal(pure.tradeoff(errors), conversions.dp_tradeoff(2.0, 0.0, errors))
    np.testing.assert_array_equal(declare(mu=1).tradeoff(errors), conversions.gdp_tradeoff(1.0, errors))


# --- order -----------------------------------------------------------------------------------------------


@given(budgets, budgets)
def test_order_is_reflexive_and_antisymmetric(a, b):
    assert a <= a
    assert a >= a
    assert not a < a
    assert (a <= b) == (b >= a)
    assert (a < b) == (b > a) == (a <= b and not b <= a)
    if a <= b <= a:
        assert a.form == b.form
        assert a.asked == pytest.approx(b.asked, rel=1e-12)


@given(st.lists(budgets, min_size=3, max_size=3))
def test_order_is_transitive(three):
    for a, b, c in permutations(three):
        if a <= b <= c:
            assert a <= c


@given(sizes, budgets, st.floats(0.01, 0.99))
def test_less_of_the_same_is_more_private(size, budget, share):
    if not budget.private:
        assert declare(mu=size) < budget
        return
    assert Budget.restore(budget.form, [v * share for v in budget.asked]) < budget


def test_order_across_forms():
    pure = declare(epsilon=1)
    assert pure <= declare(mu=pure.mu)
    assert not pure <= declare(mu=pure.mu * 0.999)
    assert not declare(mu=0.001) <= declare(epsilon=50)  # Gaussian noise is never pure
    assert declare(mu=1) <= declare(rho=0.5)
    assert not declare(rho=0.5) <= declare(mu=1)  # ρ-zCDP need not come from Gaussian noise
    assert pure <= declare(rho=conversions.pure_rho(1.0))
    assert pure <= declare(epsilon=1, delta=1e-9) <= declare(epsilon=2, delta=1e-9)
    assert declare(epsilon=1, delta=1e-6) <= declare(epsilon=0.5, delta=0.4)
    assert not declare(epsilon=1, delta=1e-6) <= declare(mu=100)
    assert not declare(epsilon=1, delta=1e-6) <= declare(rho=100)
    assert declare(mu=declare(epsilon=1, delta=1e-6).mu) <= declare(epsilon=1, delta=1e-6)
    assert declare(rho=0.01) <= declare(epsilon=1, delta=1e-6)
    one, other = declare(epsilon=1, delta=1e-3), declare(epsilon=2, delta=1e-6)
    assert not one <= other
    assert not other <= one
    with pytest.raises(TypeError):
        assert pure <= 1.0
    with pytest.raises(TypeError):
        assert pure > "1"


# --- composition -----------------------------------------------------------------------------------------


@given(budgets, st.integers(1, 50))
def test_equal_releases_compose_by_form(budget, k):
    whole = budget.times(k)
    if k == 1 or not budget.private:
        assert whole is budget
        return
    assert whole.form == {"epsilon": "epsilon", "rho": "rho"}.get(budget.form, "mu")
    if whole.form != "mu":
        assert whole.asked == pytest.approx((k * budget.asked[0],))
    if not budget.pure:
        assert whole.mu == pytest.approx(compose([budget.mu] * k))
    assert budget.epsilon_at(1e-6) <= whole.epsilon_at(1e-6)


def test_rounding_is_to_the_safe_side():
    assert at_least(2**0.5, 4) == "1.415"
    assert at_most(2**0.5, 4) == "1.414"
    assert at_most(1.0, 4) == "1"
