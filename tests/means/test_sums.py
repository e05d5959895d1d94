"""Factors: sums of their reports are drawn at once, with the distribution of sums of single ones."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.means import collector, device
from privreg.means.mechanisms import factor_mechanism
from privreg.means.plan import make_plan
from privreg.means.terms import Term

LEVELS = tuple("abcd")
PEOPLE = np.array([30.0, 0.0, 7.0, 1.0])


def mechanism(name):
    budget = {"mu": 1.5} if name == "gaussian" else {"epsilon": 1.5}
    return factor_mechanism(name, pr.Budget.declare(**budget), len(LEVELS))


def conditional(m):
    """Covariance of the sum of reports of these very people, computed from the chances of each answer."""
    if m.name == "gaussian":
        return np.eye(4) * PEOPLE.sum() * 2.0 / 1.5**2
    p, q = m.chances
    out = np.zeros((4, 4))
    for own, count in enumerate(PEOPLE):
        told = np.where(np.arange(4) == own, p, q)
        bits = np.diag(told) - np.outer(told, told) if m.name == "grr" else np.diag(told * (1.0 - told))
        out += count * bits / (p - q) ** 2
    return out


@pytest.mark.parametrize("name", ["gaussian", "oue", "grr"])
def test_a_sum_drawn_at_once_has_the_mean_and_covariance_of_single_reports(name):
    m, rng, reps = mechanism(name), np.random.default_rng(1), 250
    codes = np.repeat(np.arange(4), PEOPLE.astype(int))
    waiting = np.append(PEOPLE, PEOPLE.sum())[None]
    at_once = np.array([m.summed(waiting, z)[0] for z in rng.standard_normal((reps, 2, 4))])
    singly = np.array([m.randomise(codes, rng.standard_normal((len(codes), m.width))).sum(axis=0) for _ in range(reps)])
    exact = conditional(m)
    sd = np.sqrt(np.diag(exact))
    for found in (at_once, singly):
        assert (np.abs(found.mean(axis=0) - PEOPLE) < 4.5 * sd / np.sqrt(reps)).all()
        # products of centred sums, near normal: variance (σ_jj σ_kk + σ_jk²)/reps
        error = np.sqrt((np.outer(sd, sd) ** 2 + exact**2) / reps)
        assert (np.abs(np.cov(found.T) - exact) < 4.5 * error).all()
    if name != "gaussian":  # answers are counts, and all of "grr" are one level each
        p, q = m.chances
        bits = at_once * (p - q) + PEOPLE.sum() * q
        assert np.allclose(bits, np.round(bits))
        assert ((bits > -0.5) & (bits < PEOPLE.sum() + 0.5)).all()
        assert name != "grr" or np.allclose(bits.sum(axis=1), PEOPLE.sum())


@pytest.mark.some(2)
@pytest.mark.parametrize("name", ["gaussian", "oue", "grr", "histogram"])
def test_the_covariance_of_levels_is_that_of_reports(name):
    m, rng, n = mechanism(name), np.random.default_rng(2), 200_000
    shares = np.array([0.6, 0.25, 0.1, 0.05])
    told = m.randomise(rng.choice(4, size=n, p=shares), rng.standard_normal((n, m.width)))
    centred = told - shares
    products = np.einsum("ij,ik->ijk", centred, centred)
    error = products.std(axis=0) / np.sqrt(n)
    assert (np.abs(products.mean(axis=0) - m.covariance(shares)) < 4.5 * error + 1e-12).all()
    for _ in range(20):  # whatever noise has made of the shares
        noisy = rng.normal(0.25, 1.0, 4)
        if name == "grr":  # whose answers are shares of one level each
            p, q = m.chances
            noisy = (rng.dirichlet(np.full(4, 0.3)) - q) / (p - q)
        values = np.linalg.eigvalsh(m.covariance(noisy))
        assert values[0] > -1e-9 * values[-1]


def rows(n=5000, seed=0):
    return pd.DataFrame({"g": np.random.default_rng(seed).choice(list(LEVELS), n, p=[0.5, 0.3, 0.15, 0.05])})


def stream(seed=None, **budget):
    model = pr.means.PrivateMeans.from_formula("C(g) ~ 1", **(budget or {"epsilon": 1}), levels={"g": LEVELS})
    return model.start(seed=seed)


def test_a_sum_is_drawn_once_and_nothing_without_noise_is_kept_then():
    one = stream()
    one.update(rows())
    first = one.results()
    assert not any(raw.any() for _, waiting in one._held for raw in waiting.values())
    pd.testing.assert_frame_equal(one.results().tidy(), first.tidy())  # looking again tells nothing more
    before = one._held[0][0]
    one.update(rows(seed=1))
    assert one.nobs == 10_000
    one.results()
    after = one._held[0][0]
    assert after.counts[0, 0] == 10_000
    told, sd = (
        (after.sums - before.sums)[:, 0],
        np.sqrt(5000 * max(factor_mechanism("oue", pr.Budget.declare(epsilon=1), 5).variances())),
    )
    counts = rows(seed=1)["g"].value_counts()
    assert (np.abs(told[:4] - [counts[k] for k in LEVELS]) < 5 * sd).all()  # of those who came since, once


@pytest.mark.thorough
def test_sums_beside_other_reports_have_the_moments_of_single_ones():
    """Of a level's sum, also of those asked a number, and of its products with that number: exact for these rows."""
    budget = pr.Budget.declare(mu=2)
    terms = [Term("x", -1, 1), Term("g", levels=LEVELS), Term("h", levels=LEVELS[:2])]
    one = {"mechanism": "gaussian", "frequencies": "gaussian"}
    plan = make_plan(terms, budget, m=2, **one)
    assert plan.late == (1,)  # the larger
    n, reps, k = 60, 400, 4.5
    rng = np.random.default_rng(8)
    x, g = rng.uniform(-1, 1, n), rng.integers(0, 4, n)
    values = [x, g, rng.integers(0, 2, n)]
    own, asked = np.eye(4)[g].T, 2 / 3  # asked of all, and both of two with probability 1/3
    s, f = (
        plan.items[j].mechanism.variance(np.zeros(1))[0] if j == 0 else plan.items[j].mechanism.sd ** 2 for j in (0, 1)
    )
    means = {"sums": asked * own.sum(1), "beside": own.sum(1) / 3, "products": own @ x / 3}
    squares = {
        "sums": asked * n * f + asked * (1 - asked) * own.sum(1),
        "beside": n * f / 3 + (1 / 3) * (2 / 3) * own.sum(1),
        "products": ((x**2 + s).sum() * f + own @ (x**2 + s)) / 3 - own @ x**2 / 9,
    }
    for tried in (plan, replace(plan, late=())):
        found = {name: [] for name in means}
        for _ in range(reps):
            made = device.reports(tried, values, rng.standard_normal((n, max(tried.width, 1))))
            state = collector.update(tried, collector.init(tried), made)
            for j in tried.late:
                raw = device.waiting(tried, values, j, made)
                z = rng.standard_normal((len(raw) + 1, 4))
                state = collector.add(tried, state, j, tried.items[j].mechanism.summed(raw, z))
            found["sums"].append(state.sums[1:5, 1])
            found["beside"].append(state.sums[1:5, 0])
            found["products"].append(state.products[0, 1:5])
            assert np.array_equal(state.products, state.products.T)
        for name, drawn in found.items():
            drawn = np.array(drawn)
            assert (np.abs(drawn.mean(axis=0) - means[name]) < k * np.sqrt(squares[name] / reps)).all(), name
            fourth = np.mean((drawn - drawn.mean(axis=0)) ** 4, axis=0)
            assert (np.abs(drawn.var(axis=0) - squares[name]) < k * np.sqrt(fourth / reps)).all(), name


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"mu": 1}])
def test_a_thousand_levels_beside_a_number_take_no_report_of_a_thousand_numbers(budget):
    model = pr.means.PrivateMeans(
        ["x", "g"], bounds={"x": (0, 1)}, levels={"g": [str(k) for k in range(1000)]}, **budget
    )
    plan = model.plans[0]
    assert (plan.size, len(plan.columns)) == (1003, 3)  # the number, whether there is one, the factor's mark
    assert plan.width < 10


@pytest.mark.some(1)
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"mu": 1}, {"epsilon": 6}])
def test_batches_give_what_the_whole_gives(budget):
    data, parts = rows(), stream(3, **budget)
    for a in range(0, len(data), 700):
        parts.update(data.iloc[a : a + 700])
    whole = stream(3, **budget)
    whole.update(data)
    pd.testing.assert_frame_equal(parts.results().tidy(), whole.results().tidy())


@pytest.mark.statistical
@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"mu": 1}, {"epsilon": 6}])
def test_errors_are_those_that_are_stated(budget):
    """Of shares about the distribution that people are drawn from; chi-square limits at 1e-6 for each level."""
    from scipy.stats import chi2

    law, reps, squares = np.array([0.5, 0.3, 0.15, 0.05]), 200, np.zeros(4)
    for k in range(reps):
        one = stream(k, **budget)
        one.update(rows(2000, seed=100 + k))
        res = one.results()
        squares += ((res.params.to_numpy() - law) / res.bse.to_numpy()) ** 2
    assert ((squares > chi2.ppf(5e-7, reps)) & (squares < chi2.ppf(1.0 - 5e-7, reps))).all()


def test_threads_draw_other_noise_and_lose_nobody(monkeypatch):
    drawn, made, interval = [], device.reports, sys.getswitchinterval()

    def kept(plan, values, normals):
        drawn.append(normals[:, 0].copy())
        return made(plan, values, normals)

    monkeypatch.setattr(device, "reports", kept)
    stream = pr.means.PrivateMeans.from_formula("x ~ 1", None, mu=1, bounds={"x": (0, 1)}).start()
    batches = [pd.DataFrame({"x": np.random.default_rng(k).uniform(size=400)}) for k in range(100)]
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(stream.update, batches))
    finally:
        sys.setswitchinterval(interval)
    assert len(np.unique(np.concatenate(drawn))) == stream.nobs == 40_000
