"""Mechanisms for one number: exact moments, exact privacy, and audits that catch half the noise."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.integrate import quad

from privreg import Budget
from privreg.audit.neighbours import audit
from privreg.errors import OptionError
from privreg.privacy.scalar import NUMBER_MECHANISMS, number_mechanism, share

EPSILONS = (0.1, 1.0, 4.0)
RANGES = ((-1.0, 1.0), (2.0, 10.0))
PURE = [name for name in NUMBER_MECHANISMS if name != "gaussian"]


def budget(name, size):
    return Budget.declare(mu=size) if name == "gaussian" else Budget.declare(epsilon=size)


def cases():
    return [
        (number_mechanism(name, budget(name, size), low, high), low + part * (high - low))
        for name, size, (low, high), part in itertools.product(NUMBER_MECHANISMS, EPSILONS, RANGES, (0.0, 0.3, 1.0))
    ]


def density(m, value, reports):
    """Density of `reports` of one number, shape (k,), its units; of "duchi" the probability of each answer."""
    y, u = np.asarray(reports, dtype=np.float64), m._unit([value])
    here = (y - m._out(u)[0]) / m.scale if m.name in {"gaussian", "laplace"} else y
    match m.name:
        case "gaussian":
            return np.exp(-0.5 * here**2) / (m.scale * math.sqrt(2.0 * math.pi))
        case "laplace":
            return np.exp(-np.abs(here)) / (2.0 * m.scale)
        case "duchi":
            upper = float(0.5 * (1.0 + u[0] / m._answer))
            low, high = m.output_range
            return np.where(np.isclose(y, high), upper, np.where(np.isclose(y, low), 1.0 - upper, 0.0))
    edges, heights, per_unit = m._steps(u)
    inside = (y - m._middle) / (m._half * per_unit)
    if m.name == "square_wave":
        slope, constant = m._line
        inside = constant + slope * (0.5 * ((y - m._middle) / m._half + 1.0))
    elif m.name == "square_wave_biased":
        inside = 0.5 * ((y - m._middle) / m._half + 1.0)
    at = np.searchsorted(edges[0], inside, side="right") - 1
    there = np.where((at >= 0) & (at < 3), heights[0][np.clip(at, 0, 2)], 0.0)
    return there / (m._half * per_unit)


def expected(m, x, f):
    """E f(report) of one number, by its density and scipy's quadrature; a sum where there are two answers."""
    if m.name == "duchi":
        ends = np.array(m.output_range)
        return float(density(m, x, ends) @ f(ends))
    edges = jumps(m, x) if len(jumps(m, x)) else [x - 60 * m.scale, x, x + 60 * m.scale]
    pieces = [(a, b) for a, b in itertools.pairwise(edges) if b > a]
    return sum(quad(lambda y: float(f(y) * density(m, x, [y])[0]), a, b, limit=200)[0] for a, b in pieces)


@pytest.mark.some(12)
@pytest.mark.parametrize(
    ("m", "x"), cases(), ids=lambda v: f"{v:g}" if isinstance(v, float) else f"{v.name}-{v.budget}"
)
def test_closed_forms_are_what_quadrature_gives(m, x):
    mean = x + m.bias(x)[0]
    assert expected(m, x, lambda y: y * 0 + 1.0) == pytest.approx(1.0, rel=1e-7)
    assert expected(m, x, lambda y: y - m.low) == pytest.approx(mean - m.low, rel=1e-6, abs=1e-6)
    assert expected(m, x, lambda y: (y - mean) ** 2) == pytest.approx(m.variance(x)[0], rel=1e-6)
    assert expected(m, x, lambda y: np.abs(y - mean) ** 3) == pytest.approx(m.third_moment(x)[0], rel=1e-5)
    assert m.unbiased == (m.name != "square_wave_biased")
    if m.unbiased:
        assert m.bias(x)[0] == 0.0


@pytest.mark.some(6)
@pytest.mark.parametrize("name", NUMBER_MECHANISMS)
@pytest.mark.parametrize("size", [0.5, 4.0])
def test_reports_have_the_stated_mean_and_variance(name, size):
    m, n = number_mechanism(name, budget(name, size), -3.0, 5.0), 200_000
    rng = np.random.default_rng(NUMBER_MECHANISMS.index(name))
    for x in (-3.0, 1.5, 5.0):
        y = m.randomise(np.full(n, x), rng.standard_normal((n, m.width)))
        variance, mean = m.variance(x)[0], x + m.bias(x)[0]
        fourth = np.mean((y - mean) ** 4)
        assert abs(y.mean() - mean) < 5 * math.sqrt(variance / n)
        assert abs(np.mean((y - mean) ** 2) - variance) < 5 * math.sqrt((fourth - variance**2) / n) + 1e-12
        low, high = m.output_range
        assert low - 1e-9 <= y.min()
        assert y.max() <= high + 1e-9


@pytest.mark.parametrize("name", [n for n in PURE if n != "laplace"])
def test_reports_follow_the_density(name):
    """A χ² test of counts between the edges of the density, at a level of 1e-6."""
    from scipy.stats import chisquare

    m, n, x = number_mechanism(name, Budget.declare(epsilon=1.5), 0.0, 1.0), 100_000, 0.35
    y = m.randomise(np.full(n, x), np.random.default_rng(4).standard_normal((n, m.width)))
    if name == "duchi":
        chances, counts = density(m, x, m.output_range), [np.sum(y < 0.5), np.sum(y > 0.5)]
    else:
        edges = jumps(m, x)
        cuts = np.unique(np.concatenate([np.linspace(a, b, 5) for a, b in itertools.pairwise(edges)]))
        cuts[[0, -1]] += [-1e-9, 1e-9]
        middle = 0.5 * (cuts[1:] + cuts[:-1])
        counts, chances = np.histogram(y, cuts)[0], density(m, x, middle) * np.diff(cuts)
    assert np.sum(chances) == pytest.approx(1.0, abs=1e-6)
    assert chisquare(counts, np.asarray(chances) / np.sum(chances) * n).pvalue > 1e-6


@pytest.mark.parametrize("name", PURE)
@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0])
def test_no_answer_is_more_than_e_to_the_epsilon_as_likely(name, epsilon):
    """Exact densities at every pair of values, at all answers where the ratio can change."""
    m = number_mechanism(name, Budget.declare(epsilon=epsilon), 0.0, 2.0)
    values = [0.0, 1e-9, 0.4, 1.0, 1.7, 2.0]
    if name == "duchi":
        answers = np.array(m.output_range)
    elif name == "laplace":
        answers = np.linspace(-40 / epsilon, 40 / epsilon, 4001)
    else:
        edges = np.unique(np.concatenate([jumps(m, x) for x in values]))
        answers = 0.5 * (edges[1:] + edges[:-1])
    worst = 0.0
    for a, b in itertools.permutations(values, 2):
        one, two = density(m, a, answers), density(m, b, answers)
        seen = (one > 0) | (two > 0)
        assert (two[seen] > 0).all()
        worst = max(worst, float(np.max(np.log(one[seen] / two[seen]))))
    assert worst <= epsilon * (1 + 1e-9) + 1e-12
    assert worst == pytest.approx(epsilon, rel=1e-6)  # and no budget is wasted


def reports_of_ends(m, n, seed):
    rng = np.random.default_rng(seed)
    return [m.randomise(np.full(n, x), rng.standard_normal((n, m.width))) for x in (m.high, m.low)]


@pytest.mark.parametrize("name", NUMBER_MECHANISMS)
def test_an_audit_never_shows_more_than_the_claim_and_catches_half_the_noise(name):
    claim, n = 1.0, 20_000
    honest = number_mechanism(name, budget(name, claim), -1.0, 1.0)
    broken = dataclasses.replace(honest, budget=budget(name, 2.0 * claim))  # half the noise
    limits = []
    for m in (honest, broken):
        first, second = reports_of_ends(m, n, seed=11)
        found = audit(first, second, alpha=1e-6)
        limits.append(found.lower if name == "gaussian" else found.epsilon_lower)
    assert limits[0] <= claim < limits[1]


@pytest.mark.parametrize("name", NUMBER_MECHANISMS)
def test_noise_scale_is_sensitivity_over_budget_and_inputs_are_clamped(name):
    m = number_mechanism(name, budget(name, 0.5), -1.0, 3.0)
    if name in {"laplace", "gaussian"}:
        assert m.scale == 4.0 / 0.5
    z = np.tile(np.random.default_rng(0).standard_normal((1, m.width)), (5, 1))
    y = m.randomise([np.inf, -np.inf, np.nan, 1e300, 1.0], z)
    assert np.isfinite(y).all()
    assert y[0] == y[3] == m.randomise([3.0], z[:1])[0]
    assert y[1] == m.randomise([-1.0], z[:1])[0]
    assert y[2] == y[4]  # NaN is taken for the middle


def test_worst_variance_is_the_largest():
    for m, _ in cases():
        grid = m.variance(np.linspace(m.low, m.high, 201))
        assert m.worst_variance() == pytest.approx(grid.max(), rel=1e-12)


def test_shares_add_up_to_the_budget():
    for b in (Budget.declare(epsilon=1.3), Budget.declare(mu=0.7), Budget.declare(rho=0.2), Budget.declare(mu=None)):
        for parts in (1, 2, 7):
            assert share(b, parts).times(parts).mu == pytest.approx(b.mu, rel=1e-12)
    assert share(Budget.declare(epsilon=1, delta=1e-6), 4).mu == Budget.declare(epsilon=1, delta=1e-6).mu / 2


def test_a_pure_mechanism_under_mu_spends_what_it_keeps():
    m = number_mechanism("piecewise", Budget.declare(mu=1))
    assert m.budget.pure
    assert m.epsilon == Budget.declare(mu=1).pure_epsilon()
    assert m.budget.mu <= 1.0


def test_without_privacy_there_is_no_noise():
    m = number_mechanism("piecewise", Budget.declare(mu=None), 0, 10)
    assert m.randomise([3.0, 11.0], np.ones((2, 1))).tolist() == [3.0, 10.0]
    assert m.worst_variance() == 0.0


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"name": "laplas"}, "Did you mean 'laplace'"),
        ({"name": "gaussian"}, "add delta="),
        ({"low": 1.0, "high": 1.0}, "low < high"),
        ({"low": math.nan}, "low < high"),
        ({"high": math.inf}, "low < high"),
        ({"low": "a"}, "low < high"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(OptionError, match=words):
        number_mechanism(**{"name": "duchi", "budget": Budget.declare(epsilon=1), **options})


def test_words_state_the_guarantee():
    for name in NUMBER_MECHANISMS:
        m = number_mechanism(name, budget(name, 1.0), 0.0, 1.0)
        assert ("1-GDP" if name == "gaussian" else "epsilon 1") in m.words()
        assert str(m.budget) in repr(m)


def test_published_numbers():
    """Variances at ε = 1 for the values 0.1, ..., 1.0 that Duan's eq. 4.32 is about."""
    law, one = np.arange(1, 11) / 10, Budget.declare(epsilon=1)
    assert number_mechanism("piecewise", one).variance(law).mean() == pytest.approx(4.28, abs=0.005)
    assert number_mechanism("square_wave", one, 0, 1).variance(law).mean() == pytest.approx(1.096, abs=0.0005)
    assert number_mechanism("square_wave", one, 0, 1)._line[0] == pytest.approx(math.exp(-1), rel=1e-12)


def jumps(m, value):
    """Reports at which the density of one number's reports jumps, in order, the ends included; none if smooth."""
    if m.name in {"gaussian", "laplace", "duchi"}:
        return np.empty(0)
    edges = m._steps(m._unit([value]))[0][0]
    return np.asarray(m._out(edges if m.name == "piecewise" else m._from_wave(edges)))
