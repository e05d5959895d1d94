"""The asymptotic limits of benchmarks/limits.py against known numbers and large samples."""

import math
from functools import cache

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import chi2

from benchmarks.limits import (
    NORMAL_975,
    SCALE,
    SHARE,
    centre,
    correlation,
    errors,
    lengths,
    limit,
    middle,
    weighted_moments,
)

N = 400_000


@pytest.fixture(scope="module", autouse=True)
def _nodes_are_found_once():
    with pytest.MonkeyPatch.context() as m:
        m.setattr("numpy.polynomial.legendre.leggauss", cache(np.polynomial.legendre.leggauss))
        yield


# The known lengths were found from a finite sample of covariates and rounded: they hold to within 0.3%.


@pytest.mark.parametrize(
    ("p", "rho", "expected"),
    [(3, 0.0, 0.0241), (5, 0.0, 0.0291), (10, 0.0, 0.0388), (3, 0.5, 0.0279), (10, 0.5, 0.0482), (10, 0.9, 0.107)],
)
def test_mean_length_of_the_noise_alone_is_the_known_one(p, rho, expected):
    found = lengths(limit(p, rho, 1.0, "normal", sampling=False), 200_000).mean()
    assert found == pytest.approx(expected, rel=0.003)


@pytest.mark.parametrize(("p", "expected"), [(3, 0.260), (5, 0.384), (10, 0.737)])
def test_mean_length_of_the_balanced_logistic_noise_is_the_known_one(p, expected):
    found = lengths(limit(p, 0.0, 1.0, "logistic", sampling=False), 200_000).mean()
    assert found == pytest.approx(expected, rel=0.003)


@pytest.mark.some(1)
@pytest.mark.parametrize(("p", "rho"), [(1, 0.0), (2, 0.5), (10, 0.5), (20, 0.9)])
def test_lengths_of_the_noise_alone_are_those_of_one_dimensional_integrals(p, rho):
    top = p + 60 * math.sqrt(p)
    first = quad(lambda s: chi2.pdf(s, p) / math.sqrt(1 + s), 0, top, limit=500)[0]
    other = quad(lambda s: chi2.pdf(s, p) * s / math.sqrt(1 + s), 0, top, limit=500)[0] / p
    sd = np.sqrt(np.diag(np.linalg.inv(correlation(p, rho)))) / other
    expected = 2 * NORMAL_975 * np.append(1 / first, sd) * SCALE / SHARE / math.sqrt(N)
    np.testing.assert_allclose(lengths(limit(p, rho, 1.0, "normal", sampling=False), N), expected, rtol=1e-5)


def sample(p, rho, law, seed=5):
    rng = np.random.Generator(np.random.SFC64(seed))
    z = np.column_stack([np.ones(N), rng.standard_normal((N, p))])
    return z, errors(law).draw(rng, z[:, 1])


@pytest.mark.some(1)
@pytest.mark.parametrize("law", ["normal", "t3", "skewed", "heteroscedastic"])
def test_the_middle_holds_for_a_sample_of_the_law(law):
    _, e = sample(1, 0.0, law)
    m, c = middle(errors(law))
    r = np.clip(e - m, -c, c)
    assert abs(r.mean()) < 4 * r.std() / math.sqrt(N)
    inside = (np.abs(e - m) <= c).mean()
    assert abs(inside - SHARE) < 4 * math.sqrt(SHARE * (1 - SHARE) / N)
    assert e.std() == pytest.approx(errors(law).sd, rel=0.05 if law == "t3" else 0.02)
    if law != "heteroscedastic":
        assert c == pytest.approx(SCALE / 2, rel=1e-6)
    assert (m == 0.0) == errors(law).symmetric


def test_a_large_corner_takes_the_mean_for_the_middle_of_skewed_errors():
    law = errors("skewed")
    assert centre(law, 40 * law.sd) == pytest.approx(0.0, abs=1e-6)
    assert centre(law, 1e-3) == pytest.approx(law.sd * (math.log(2.0) - 1.0), abs=1e-5)


@pytest.mark.thorough
@pytest.mark.parametrize("law", ["skewed", "heteroscedastic"])
def test_the_limit_agrees_with_moments_of_a_sample(law):
    p, rho, mu = 3, 0.5, 2.0
    z, e = sample(p, rho, law)
    m, c = middle(errors(law))
    norm = np.linalg.norm(z, axis=1)
    inside = np.abs(e - m) <= c
    bread = np.linalg.inv((z * (inside / norm)[:, None]).T @ z / N)
    score = z * (np.clip(e - m, -c, c) / norm)[:, None]
    meat = (2 * c / mu) ** 2 * np.eye(p + 1) + score.T @ score / N
    back = np.eye(p + 1)
    back[1:, 1:] = np.linalg.inv(np.linalg.cholesky(correlation(p, rho))).T
    found = back @ bread @ meat @ bread @ back.T
    # entries of A are means of N bounded products with relative sd of at most 5: six standard errors, twice over
    np.testing.assert_allclose(np.diag(found), np.diag(limit(p, rho, mu, law)), rtol=12 * 5 / math.sqrt(N))


@pytest.mark.thorough
def test_moments_agree_with_a_sample_in_any_direction():
    z, _ = sample(3, 0.0, "normal")
    direction = np.array([2.0, -1.0, 2.0]) / 3.0
    w = 1.0 / (1.0 + np.exp(z[:, 1:] @ direction))
    found = weighted_moments(lambda u: 1.0 / (1.0 + np.exp(u)), direction, 1)
    each = (z * (w / np.linalg.norm(z, axis=1))[:, None])[:, :, None] * z[:, None, :]
    assert (np.abs(each.mean(axis=0) - found) < 5 * each.std(axis=0) / math.sqrt(N)).all()
