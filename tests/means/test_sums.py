"""A factor by itself: the sum of its reports is drawn at once, with the distribution of the sum of single ones."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.means.factors import factor_mechanism

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
    at_once = np.array([m.summed(PEOPLE, z) for z in rng.standard_normal((reps, 8))])
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
    assert not any(waiting.any() for _, waiting in one._held)
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
