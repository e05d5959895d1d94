"""Factors, the benchmark without an experiment, corrections, and shrinking, each against another computation."""

import dataclasses
import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm

import privreg as pr
from benchmarks.papers.duan import threshold_probabilities
from privreg.audit.neighbours import audit
from privreg.means.device import reports
from privreg.means.mechanisms import factor_mechanism
from privreg.means.plan import make_plan
from privreg.means.terms import Term
from privreg.privacy.scalar import NUMBER_MECHANISMS, number_mechanism, share
from privreg.published.shrinking.rules import SHRINKAGE, hdr4me, sure_threshold

ONE = pr.Budget.declare(epsilon=1)

# --- factors ---------------------------------------------------------------------------------------------

ORACLES = [
    *itertools.product(["grr", "oue"], [None]),
    *itertools.product(["histogram"], ["laplace", "duchi", "piecewise", "square_wave"]),
    ("gaussian", None),
]


def oracle(name, bit, size, levels):
    budget = pr.Budget.declare(mu=size) if name == "gaussian" else pr.Budget.declare(epsilon=size)
    return factor_mechanism(name, budget, levels, bit or "duchi")


@pytest.mark.some(6)
@pytest.mark.parametrize(("name", "bit"), ORACLES)
@pytest.mark.parametrize(("size", "levels"), [(0.5, 2), (2.0, 5)])
def test_reports_of_levels_are_unbiased_with_the_stated_variance(name, bit, size, levels):
    m, n = oracle(name, bit, size, levels), 100_000
    rng = np.random.default_rng(levels)
    told = m.randomise(np.full(n, 1), rng.standard_normal((n, m.width)))
    own, other = m.variances()
    variance = np.where(np.arange(levels) == 1, own, other)
    assert (np.abs(told.mean(axis=0) - (np.arange(levels) == 1)) < 5 * np.sqrt(variance / n)).all()
    fourth = np.mean((told - told.mean(axis=0)) ** 4, axis=0)
    assert (np.abs(told.var(axis=0) - variance) < 5 * np.sqrt((fourth - variance**2) / n) + 1e-12).all()
    k = m.shares_of_error(np.arange(levels) == 1)
    balanced = told - np.outer(told.sum(axis=1) - 1.0, k)
    if name != "grr":
        np.testing.assert_allclose(balanced.sum(axis=1), 1.0)
        assert m.mean_variance() < 0.95 * variance.mean()
    fourth = np.mean((balanced - balanced.mean(axis=0)) ** 4, axis=0)
    error = np.sqrt((fourth - balanced.var(axis=0) ** 2) / n).sum() / levels
    assert abs(balanced.var(axis=0).mean() - m.mean_variance()) < 5 * error + 1e-12


@pytest.mark.parametrize("levels", [2, 4, 30])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 6.0])
def test_no_answer_about_a_level_is_more_than_e_to_the_epsilon_as_likely(levels, epsilon):
    """Exact: one answer of L for GRR, and a pattern of two bits for OUE, whose other bits are alike."""
    p, q = oracle("grr", None, epsilon, levels).chances
    assert p + (levels - 1) * q == pytest.approx(1.0)
    assert math.log(p / q) == pytest.approx(epsilon)
    p, q = oracle("oue", None, epsilon, levels).chances
    worst = max(
        math.log((a * b) / (c * d))
        for (a, c), (b, d) in itertools.product([(p, q), (1 - p, 1 - q)], [(q, p), (1 - q, 1 - p)])
    )
    assert worst == pytest.approx(epsilon)


@pytest.mark.parametrize(
    ("name", "bit"), [*ORACLES[:2], ("histogram", "laplace"), ("histogram", "piecewise"), ORACLES[-1]]
)
def test_audits_of_levels_hold_and_catch_half_the_noise(name, bit):
    honest, n = oracle(name, bit, 1.0, 3), 20_000
    twice = oracle(name, bit, 2.0, 3)
    limits = []
    for m in (honest, twice):
        rng = np.random.default_rng(6)
        told = [m.randomise(np.full(n, k), rng.standard_normal((n, m.width))) for k in (0, 1)]
        found = audit(told[0], told[1])
        limits.append(found.lower if name == "gaussian" else found.epsilon_lower)
    assert limits[0] <= 1.0
    if name == "grr":  # one answer reaches the bound, so noise for twice the ε shows
        assert limits[1] > 1.0
    assert limits[1] > limits[0]


def test_the_gaussian_histogram_has_the_sensitivity_of_two_bits():
    assert oracle("gaussian", None, 0.5, 7).sd == math.sqrt(2.0) / 0.5
    half = oracle("histogram", "laplace", 1.0, 7)
    assert half.bit.epsilon == 0.5
    assert half.bit.scale == 2.0


def test_auto_takes_the_oracle_of_least_variance():
    for levels, epsilon in itertools.product((2, 4, 10, 40), (0.5, 1.0, 3.0)):
        budget = pr.Budget.declare(epsilon=epsilon)
        got = factor_mechanism("auto", budget, levels)
        every = [oracle(n, b, epsilon, levels).mean_variance() for n, b in ORACLES[:-1]]
        assert got.mean_variance() <= min(every) * (1 + 1e-12)
        assert pr.errors.choose("x", got.name, ("grr", "oue"))


# --- whole reports ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "how", [{"m": 2}, {"mechanism": "privunit"}, {"mechanism": "laplace", "frequencies": "histogram", "m": 2}]
)
def test_audits_of_whole_reports_hold(how):
    """Two people who differ in everything: what both tell, item by item, whichever are asked."""
    terms, claim, n = [Term("x", -1, 1), Term("g", levels=("a", "b", "c"))], 1.0, 20_000
    limits = []
    for epsilon in (claim, 4 * claim):
        plan = make_plan(terms, pr.Budget.declare(epsilon=epsilon), **how)
        rng = np.random.default_rng(8)
        people = [(np.full(n, 1.0), np.full(n, 0)), (np.full(n, -1.0), np.full(n, 2))]
        told = [np.nan_to_num(reports(plan, v, rng.standard_normal((n, plan.width)))) for v in people]
        limits.append(audit(*told).epsilon_lower)
    assert limits[0] <= claim < limits[1]


# --- the benchmark ---------------------------------------------------------------------------------------

LAW = np.arange(1, 11) / 10


def test_the_benchmark_is_the_moments_put_together():
    table = pr.means.benchmark(LAW, n=[1000, 5000], bounds=(0, 1), epsilon=2, d=8, m=2, tolerance=0.05)
    assert table["mechanism"].nunique() == len(NUMBER_MECHANISMS) - 1  # all but Gaussian
    for row in table.itertuples():
        m = number_mechanism(row.mechanism, share(pr.Budget.declare(epsilon=2), 2), 0, 1)
        told = LAW + m.bias(LAW)
        r = row.n * 2 / 8
        assert row.bias == pytest.approx(m.bias(LAW).mean(), abs=1e-15)
        assert row.variance == pytest.approx(m.variance(LAW).mean() / r)
        assert row.sampling == pytest.approx(0.75 * told.var() / r)
        assert row.mse == pytest.approx(row.bias**2 + row.variance + row.sampling)
        law = norm(row.bias, math.sqrt(row.variance + row.sampling))
        assert row.within == pytest.approx(law.cdf(0.05) - law.cdf(-0.05))
        assert 0 < row.berry_esseen <= 1
    assert set(pr.means.benchmark(LAW, n=10, bounds=(0, 1), mu=1)["mechanism"]) == set(NUMBER_MECHANISMS)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["laplace", "duchi", "piecewise", "square_wave_biased"])
def test_the_distribution_is_off_by_no_more_than_the_berry_esseen_bound(name):
    """Everybody asked, few people: the simulated law against the normal one, with Massart's limit at 1e-6."""
    n, reps = 20, 40_000
    row = pr.means.benchmark(LAW, n=n, bounds=(0, 1), epsilon=1, mechanisms=[name]).iloc[0]
    m = number_mechanism(name, ONE, 0, 1)
    people = np.tile(LAW, n // 10 * reps)
    told = m.randomise(people, np.random.default_rng(2).standard_normal((len(people), m.width)))
    error = np.sort(told.reshape(reps, n).mean(axis=1) - LAW.mean())
    away = np.abs(norm.cdf(error, row["bias"], math.sqrt(row["variance"])) - (np.arange(reps) + 0.5) / reps).max()
    assert away <= row["berry_esseen"] + math.sqrt(math.log(2e6) / (2 * reps))


def test_weights_are_probabilities():
    m = number_mechanism("piecewise", ONE, 0, 1)
    a = pr.means.moments(m, [0.1, 0.9, 0.9])
    b = pr.means.moments(m, [0.1, 0.9], [1, 2])
    assert dataclasses.astuple(a) == pytest.approx(dataclasses.astuple(b))


@pytest.mark.parametrize(("d", "m"), [(1, 1), (10, 2)])
def test_at_the_break_even_both_have_the_same_error(d, m):
    people = pr.means.break_even("square_wave_biased", "laplace", LAW, bounds=(0, 1), epsilon=1, d=d, m=m)
    names = ["square_wave_biased", "laplace"]
    how = {"bounds": (0, 1), "epsilon": 1, "d": d, "m": m, "mechanisms": names}
    below, at, above = (
        pr.means.benchmark(LAW, n=n, **how)["mse"].to_numpy() for n in (int(people / 2), round(people), int(people * 2))
    )
    assert below[0] < below[1]
    assert at[0] == pytest.approx(at[1], rel=2 / people)
    assert above[0] > above[1]
    other_way = pr.means.break_even("laplace", "square_wave_biased", LAW, bounds=(0, 1), epsilon=1, d=d, m=m)
    assert other_way == pytest.approx(people)
    assert pr.means.break_even("laplace", "duchi", LAW, bounds=(0, 1), epsilon=1) == math.inf  # both unbiased


@pytest.mark.thorough
def test_break_even_by_simulation():
    """The errors at the predicted 904 people, ratio within five standard errors of 1."""
    n, reps = 900, 2000
    errors = []
    for i, name in enumerate(("square_wave_biased", "piecewise")):
        m = number_mechanism(name, ONE, 0, 1)
        rng = np.random.default_rng(i)
        told = m.randomise(np.tile(LAW, n // 10 * reps), rng.standard_normal((n * reps, m.width)))
        errors.append((told.reshape(reps, n).mean(axis=1) - LAW.mean()) ** 2)
    a, b = (e.mean() for e in errors)
    relative = math.hypot(*(e.std() / e.mean() / math.sqrt(reps) for e in errors))
    assert abs(a / b - 1) < 5 * relative


# --- shrinking -------------------------------------------------------------------------------------------


def test_the_sure_threshold_minimises_the_estimated_risk():
    rng = np.random.default_rng(3)
    for sd in (np.full(40, 0.3), rng.uniform(0.1, 1.0, 40)):
        x = rng.normal(0, 0.5, 40)

        def risk(t, x=x, sd=sd):
            z = np.abs(x / sd)
            return float(np.sum(sd**2 * (1 - 2 * (z <= t) + np.minimum(z, t) ** 2)))

        grid = np.concatenate([[0.0], np.abs(x / sd)])
        assert risk(sure_threshold(x, sd)) == pytest.approx(min(map(risk, grid)))
    assert sure_threshold([5.0, -6.0], [1.0, 1.0]) == 0.0
    assert sure_threshold([5.0], [0.0]) == 0.0


@pytest.mark.thorough
def test_sure_and_james_stein_lower_the_risk_where_they_should():
    rng, d, reps = np.random.default_rng(4), 200, 200
    near = np.zeros(d)
    few = np.where(np.arange(d) < 10, 3.0, 0.0)
    for theta, best in ((few, "sure"), (near + 0.7, "james_stein")):
        risks = {"none": [], **{k: [] for k in SHRINKAGE}}
        for _ in range(reps):
            x = theta + rng.standard_normal(d)
            risks["none"].append(np.mean((x - theta) ** 2))
            for k in SHRINKAGE:
                risks[k].append(np.mean((pr.means.shrink(x, np.ones(d), k) - theta) ** 2))
        assert np.mean(risks["james_stein"]) < np.mean(risks["none"])  # Stein: for all means
        assert min(risks, key=lambda k: np.mean(risks[k])) == best


def test_james_stein_is_its_formula():
    x = np.array([1.0, -2.0, 0.5, 3.0])
    assert pr.means.james_stein(x, np.full(4, 2.0)) == pytest.approx(max(0, 1 - 2 / (np.sum(x**2) / 4)) * x)
    assert pr.means.james_stein(x[:2], np.ones(2)).tolist() == [1.0, -2.0]
    assert (pr.means.james_stein(0.01 * x, np.ones(4)) == 0).all()


def test_hdr4me_is_the_published_mixture():
    x, sd = np.array([0.3, -1.5, 2.5]), np.array([0.2, 1.0, 4.0])
    threshold = norm.ppf(0.975) * sd
    one = np.sign(x) * np.maximum(np.abs(x) - threshold, 0)
    p1, p2 = (norm.cdf(t / sd) - norm.cdf(-t / sd) for t in (1, 2))
    assert hdr4me(x, sd, rule="l1") == pytest.approx(one)
    assert (hdr4me(x, sd, rule="l2") == 0).all()  # an unbiased mechanism: L2 divides by 0, whatever the reports say
    assert hdr4me(x, sd) == pytest.approx(p1 * x + (p2 - p1) * one)
    shift = np.array([0.1, -0.5, 2.0])
    q = hdr4me(np.full(3, 1e9), sd, bias=shift, rule="l1")  # 1e9 − λ
    inside = norm.cdf((1e9 - q - shift) / sd) - norm.cdf((-(1e9 - q) - shift) / sd)
    assert inside == pytest.approx([0.95] * 3, abs=1e-5)
    lam = (1e9 - q) / (2 * np.abs(shift))
    assert hdr4me(x, sd, bias=shift, rule="l2") == pytest.approx(x / (2 * lam + 1), rel=1e-5)
    with pytest.raises(pr.errors.OptionError, match="mixture"):
        hdr4me(x, sd, rule="l3")


@pytest.mark.parametrize("rule", ["mixture", "l1", "l2"])
@pytest.mark.parametrize("bias", [0.0, 0.1])
def test_hdr4me_leaves_estimates_without_noise_as_they_are(rule, bias):
    found = hdr4me([0.5, 0.2], [0.0, 0.1], bias=[0.0, bias], rule=rule)
    assert found[0] == 0.5
    assert np.isfinite(found).all()


def test_theorems_4_and_5_need_all_deviations_beyond_one():
    sds = np.array([0.5, 1.0, 2.0])
    beyond = 2 * norm.sf(1 / sds)
    some, every = threshold_probabilities(sds)
    assert some == pytest.approx(1 - np.prod(1 - beyond))
    assert every == pytest.approx(np.prod(beyond))
    rng = np.random.default_rng(0)
    seen = np.abs(rng.normal(0, sds, (100_000, 3))) > 1
    assert abs(seen.all(axis=1).mean() - every) < 5 * math.sqrt(every / 100_000)
    assert abs(seen.any(axis=1).mean() - some) < 5 * math.sqrt(some / 100_000)
