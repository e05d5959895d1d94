"""The table of rates and the upper bounds of the theory, against hand computation."""

import math

import numpy as np
import pytest

from benchmarks.papers import bounds
from privreg.errors import BudgetError, OptionError
from privreg.privacy.ledger import Budget

BOUNDS = {
    "delta_n": {"m": 0.5},
    "bar_delta_n": {"m": 0.5, "trace": 7.0},
    "bar_Delta_n": {"delta0": 2.0},
    "Delta_n": {"delta0": 2.0, "M": 3.0},
}
COMMON = {"gamma": 0.5, "alpha": 0.6, "B0": 1.5}


def bound(name, n=10_000, **changes):
    given = {**COMMON, **BOUNDS[name], **changes}
    if not {"Omega", "d"} & set(given):
        given["Omega"] = 4.0
    return getattr(bounds, name)(n, **given)


# --- rates -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("alpha", "exponents"),
    [
        (0.2, (0.2, 0.4, None, None)),
        (1 / 3, (1 / 3, 2 / 3, None, 1 / 3)),
        (0.4, (0.4, 0.8, 0.1, 0.4)),
        (0.5, (0.5, 1.0, 0.25, 0.5)),
        (0.6, (0.6, 1.0, 0.3, 0.4)),
        (2 / 3, (2 / 3, 1.0, 1 / 3, 1 / 3)),
        (0.75, (0.75, 1.0, 0.25, 0.25)),
    ],
)
def test_exponents_are_those_of_the_table(alpha, exponents):
    found = bounds.rates(alpha)
    got = (found.delta_n, found.bar_delta_n, found.Delta_n, found.bar_Delta_n)
    assert [g is None for g in got] == [e is None for e in exponents]
    assert [g for g in got if g is not None] == pytest.approx([e for e in exponents if e is not None])


@pytest.mark.parametrize("alpha", [0.0, -0.1, 1.5, math.nan, None, "0.6", True])
def test_alpha_outside_is_refused(alpha):
    for call in (bounds.rates, lambda a: bound("delta_n", alpha=a)):
        with pytest.raises(OptionError, match=r"must be in \(0, 1\), above 1/2 for intervals"):
            call(alpha)


@pytest.mark.parametrize("name", BOUNDS)
def test_alpha_1_is_refused_with_the_reason(name):
    for call in (bounds.rates, lambda a: bound(name, alpha=a)):
        with pytest.raises(
            OptionError, match="alpha=1 has no rate of its own: it depends on gamma times the least eig"
        ):
            call(1)


@pytest.mark.some(12)
@pytest.mark.parametrize("name", BOUNDS)
@pytest.mark.parametrize("alpha", [0.2, 0.4, 0.55, 0.6, 0.8, 0.9])
def test_bounds_fall_at_the_rates_of_the_table(name, alpha):
    if name == "Delta_n" and alpha <= 0.5:
        with pytest.raises(OptionError, match="bar_Delta_n"):
            bound(name, alpha=alpha)
        return
    exponent = getattr(bounds.rates(alpha), name)
    if exponent is None:  # no claim of the table; the leading terms say n^-alpha
        exponent = alpha
    n = np.array([1e250, 1e260])
    high, low = bound(name, n, alpha=alpha)
    assert math.log10(high / low) / 10 == pytest.approx(exponent, abs=1e-3)


# --- noise -----------------------------------------------------------------------------------------------


def test_omega_by_hand():
    assert bounds.omega(d=5, mu=0.5) == pytest.approx(4 * 5 / 0.25)
    assert bounds.omega("laplace", d=5, epsilon=2) == pytest.approx(8 * 25 / 4)
    classical = bounds.omega("gaussian", d=5, epsilon=0.5, delta=1e-6)
    assert classical == pytest.approx(8 * 5 * math.log(1.25e6) / 0.25)
    exact = 4 * 5 / Budget.declare(epsilon=0.5, delta=1e-6).mu ** 2
    assert exact < classical
    assert bounds.omega("privunit", d=50, epsilon=1) < bounds.omega("laplace", d=50, epsilon=1) / 10


def test_omega_is_the_noise_of_draws():
    rng = np.random.default_rng(1)
    n, d, B0, eps = 200_000, 4, 1.5, 2.0
    noise = rng.laplace(scale=2 * math.sqrt(d) * B0 / eps, size=(n, d))
    squares = (noise**2).sum(axis=1) / B0**2
    se = squares.std() / math.sqrt(n)
    assert squares.mean() == pytest.approx(bounds.omega("laplace", d=d, epsilon=eps), abs=4 * se)


def test_omega_falls_with_the_budget_and_rises_with_d():
    for mechanism, form in (("gaussian", "mu"), ("laplace", "epsilon"), ("privunit", "epsilon")):
        by_budget = [bounds.omega(mechanism, d=5, **{form: b}) for b in (0.5, 1, 2, 4)]
        by_size = [bounds.omega(mechanism, d=d, **{form: 1.0}) for d in (1, 2, 5, 20)]
        assert (np.diff(by_budget) < 0).all()
        assert (np.diff(by_size) > 0).all()


@pytest.mark.parametrize(
    ("error", "words", "arguments"),
    [
        (OptionError, "mechanism='laplace'", {"mechanism": "gaussian", "d": 2, "epsilon": 1.0}),
        (OptionError, "give epsilon= alone", {"mechanism": "laplace", "d": 2, "mu": 1.0}),
        (OptionError, "give epsilon= alone", {"mechanism": "privunit", "d": 2, "epsilon": 1.0, "delta": 1e-6}),
        (OptionError, "choose one of 'gaussian', 'laplace', 'privunit'", {"mechanism": "gauss", "d": 2, "mu": 1.0}),
        (OptionError, "d=0 must be a whole number", {"d": 0, "mu": 1.0}),
        (OptionError, "d=1.5 must be a whole number", {"d": 1.5, "mu": 1.0}),
        (BudgetError, "exactly one privacy budget", {"d": 2}),
        (BudgetError, "exactly one privacy budget", {"d": 2, "mu": 1.0, "epsilon": 1.0}),
        (BudgetError, "positive", {"d": 2, "mu": -1.0}),
    ],
)
def test_wrong_noise_is_refused(error, words, arguments):
    with pytest.raises(error, match=words):
        bounds.omega(**arguments)


# --- bounds ----------------------------------------------------------------------------------------------


def test_psi():
    t = np.array([1.0, 3.0, 1e6])
    np.testing.assert_allclose(bounds.psi(0.5, t), (np.sqrt(t) - 1) / 0.5)
    np.testing.assert_allclose(bounds.psi(-0.2, t), (1 - t**-0.2) / 0.2)
    np.testing.assert_allclose(bounds.psi(0.0, t), np.log(t))
    for beta in (1e-9, -1e-9):  # no cancellation on the way to the limit
        np.testing.assert_allclose(bounds.psi(beta, t), np.log(t), rtol=1e-8)
    assert bounds.psi(0.3, 1) == 0.0


def test_bounds_by_hand():
    n, g, a, B0, Omega, m, M, start, trace, C = 10_000, 0.5, 0.6, 1.5, 4.0, 0.5, 3.0, 2.0, 7.0, 2.0
    spread = 2.25 * 5
    psi_2a = (n**-0.2 - 1) / -0.2
    psi_a = (n**0.4 - 1) / 0.4
    assert bound("delta_n") == pytest.approx(spread * g / (m * n**a))
    want = trace / n + spread / (m * n) + C * g**2 * psi_2a / (n * m**2)
    assert bound("bar_delta_n", C=C) == pytest.approx(want)
    way = start + spread * g**2 * psi_2a
    want = way / (2 * g * n**0.4) + spread * g * psi_a / (2 * n)
    assert bound("bar_Delta_n") == pytest.approx(want)
    steep = (1 + 4 * math.sqrt(M) * B0 * math.sqrt(1 + Omega) * g**1.5) / g
    assert bound("Delta_n") == pytest.approx(2 * math.sqrt(way) * steep / ((n**0.3 - 1) / 0.3))
    way = start + spread * g**2 * ((n**-0.6 - 1) / -0.6)
    assert bound("Delta_n", alpha=0.8) == pytest.approx(2 * math.sqrt(way) * steep / ((n**0.2 - 1) / 0.2))
    assert bound("Delta_n", 1) == math.inf


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_fall_with_people_and_rise_with_noise(name):
    people = np.geomspace(10, 1e8, 15)
    for alpha in (0.55, 0.7, 0.9):
        found = bound(name, people, alpha=alpha)
        assert found.shape == people.shape
        assert (np.diff(found) < 0).all()
        assert found[3] == bound(name, people[3], alpha=alpha)
        noisier = [bound(name, alpha=alpha, d=5, mu=mu) for mu in (4, 2, 1, 0.5)]
        assert (np.diff(noisier) > 0).all()
    assert isinstance(bound(name), float)
    assert bound(name, mechanism="laplace", d=3, epsilon=1.0) == pytest.approx(bound(name, Omega=72.0))
    assert bound(name, B0=3.0) > bound(name)


def test_the_averages_error_tends_to_the_clts():
    """The bound is trace/n for 1/2 < α < 1 but for its other two terms, also O(1/n): small here by γ and B0."""
    n = np.array([1e2, 1e6, 1e12, 1e30])
    for alpha in (0.6, 0.75, 0.9):
        exact = bound("bar_delta_n", n, alpha=alpha, gamma=0.1, trace=7.0, Omega=0.0, B0=1e-3)
        ratio = exact * n / 7.0
        rest = 0.01 / (2 * alpha - 1) / 0.25 / 7.0  # the limit of C γ² ψ_{1-2α} / m² over the trace
        assert (ratio > 1.0).all()
        np.testing.assert_allclose(ratio, 1.0, atol=1.1 * rest)
    # below 1/2 another term takes over
    assert bound("bar_delta_n", 1e30, alpha=0.4) * 1e30 > 1e5 * 7.0


@pytest.mark.parametrize(
    ("name", "words", "changes"),
    [
        ("delta_n", "gamma=0 must be a positive number", {"gamma": 0}),
        ("delta_n", "B0=-1 must be a positive number", {"B0": -1}),
        ("delta_n", "m=nan must be a positive", {"m": math.nan}),
        ("bar_delta_n", "trace=-1 must be a non-negative number", {"trace": -1}),
        ("bar_delta_n", "C='a' must be", {"C": "a"}),
        ("Delta_n", "M=inf must be", {"M": math.inf}),
        ("bar_Delta_n", "delta0=None must be", {"delta0": None}),
        ("delta_n", "Omega=-1 must be a non-negative", {"Omega": -1}),
        ("delta_n", "got both", {"Omega": 1, "d": 2, "mu": 1}),
        ("delta_n", "got neither", {"Omega": None}),
        ("delta_n", "n must be a number of people", {"n": 0}),
        ("delta_n", "n must be a number of people", {"n": "many"}),
        ("delta_n", "n must be a number of people", {"n": [10, math.nan]}),
    ],
)
def test_wrong_arguments_are_refused(name, words, changes):
    with pytest.raises(OptionError, match=words):
        bound(name, **{"n": 100, **changes})


def test_a_simulated_scalar_path_stays_below_the_bounds():
    """Scalar quadratic loss (A = m = M = 1) with clipped noise of its score: mean squared errors below both bounds."""
    rng = np.random.default_rng(2)
    runs, n, g, a, mu, B0 = 200, 4_000, 0.5, 0.6, 2.0, 1.0
    theta, total = np.full(runs, 0.5), np.zeros(runs)
    for i in range(1, n + 1):
        x = rng.uniform(-0.5, 0.5, runs)
        score = np.clip(theta - x, -B0, B0)
        theta = theta - g * i**-a * (score + 2 * B0 / mu * rng.standard_normal(runs))
        total += theta
    trace = 1 / 12 + (2 * B0 / mu) ** 2
    more = {"gamma": g, "alpha": a, "B0": B0, "m": 1.0, "d": 1, "mu": mu}
    last, average = theta**2, (total / n) ** 2
    assert last.mean() + 4 * last.std() / math.sqrt(runs) < bounds.delta_n(n, **more)
    assert average.mean() < bounds.bar_delta_n(n, trace=trace, **more)
    assert average.mean() == pytest.approx(trace / n, abs=4 * average.std() / math.sqrt(runs))
