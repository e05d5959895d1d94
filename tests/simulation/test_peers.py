"""Mechanisms that a curator's fits are compared with: their noise is for the distance of two data sets, and no more."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from benchmarks import peers


def rows(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows within the bounds of a design, and least squares' response without error but for a little."""
    plan = peers.prepared("two years", "huber", 2_000)[0]
    rng = np.random.default_rng(1)
    x = rng.uniform(plan.lows, plan.highs, (n, plan.size))
    return x, np.clip(0.1 * x @ np.arange(1.0, plan.size + 1.0) + 0.1 * rng.standard_normal(n), -1.0, 1.0)


@pytest.mark.some(1)
@pytest.mark.parametrize("method", peers.LINEAR)
def test_without_noise_all_are_least_squares(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peers, "MU", 1e9)
    monkeypatch.setattr(peers, "gdp_epsilon", lambda mu, delta: 1e9)
    plan = peers.prepared("two years", "huber", 2_000)[0]
    x, y = rows(5_000)
    found = peers.LINEAR[method](plan, np.random.default_rng(2), x, y)
    np.testing.assert_allclose(found, peers.least_squares(x, y)[0], atol=1e-6)


def test_moments_are_no_farther_apart_than_their_noise_is_for() -> None:
    plan = peers.prepared("two years", "huber", 2_000)[0]
    d, zero = plan.size, np.zeros((0, plan.size))
    none = peers.noised_moments(plan, np.random.default_rng(3), zero, np.zeros(0))
    sd, noise = none[1], none[0]
    draws = [peers.noised_moments(plan, np.random.default_rng(k), zero, np.zeros(0))[0] for k in range(4_000)]
    assert np.std([m[0, 0] for m, _ in draws]) == pytest.approx(sd, rel=0.06)
    for other in ([m[0, 1] for m, _ in draws], [c[0] for _, c in draws]):  # which count twice in the distance
        assert np.std(other) == pytest.approx(sd * np.sqrt(0.5), rel=0.06)
    assert np.array_equal(noise[0], noise[0].T)
    corners = np.array(list(itertools.product((-1.0, 1.0), repeat=d)))  # of covariates but the first, and of y
    u = np.column_stack([np.ones(len(corners)), corners])
    inner = u @ u.T
    apart = np.sqrt((2.0 * (d + 1.0) ** 2 - 2.0 * inner**2).max())  # with y², which is not released
    assert apart <= sd * peers.MU
    assert apart >= 0.95 * sd * peers.MU
