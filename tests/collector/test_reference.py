"""Points that stand for records keep what was asked of them, and within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from privreg.collector.estimation.coordinates import bounded, lattice


def _map(mean: list[float], cov: list[list[float]]) -> np.ndarray:
    """Whitens covariates of a mean and covariance, after a constant."""
    low = np.linalg.inv(np.linalg.cholesky(np.array(cov)))
    out = np.eye(len(mean) + 1)
    out[1:, 1:], out[1:, 0] = low, -low @ np.array(mean)
    return out


def _inside(points: np.ndarray, rows: np.ndarray) -> np.ndarray:
    return np.asarray(points @ np.linalg.inv(rows).T)


WHITE = np.column_stack([np.ones(len(lattice(2))), lattice(2)])


def test_an_even_covariate_is_even() -> None:
    rows = _map([0.0, 0.0], [[1 / 3, 0.0], [0.0, 0.01]])
    x = np.sort(_inside(bounded(WHITE, rows, [1, 2], constant=True), rows)[:, 1])
    assert np.abs(x - np.linspace(-1, 1, len(x))).max() < 0.01


def test_one_that_takes_its_bounds_alone_does() -> None:
    share = 0.3  # at 1
    rows = _map([2 * share - 1, 0.0], [[4 * share * (1 - share) * 0.9, 0.0], [0.0, 0.01]])
    x = _inside(bounded(WHITE, rows, [1, 2], constant=True), rows)[:, 1]
    assert np.mean(x < -0.9) == pytest.approx(0.9 * (1 - share), abs=0.04)
    assert np.mean(x > 0.9) == pytest.approx(0.9 * share, abs=0.04)


@pytest.mark.parametrize(("mean", "sd", "r"), [(-0.8, 0.2, 0.0), (0.2, 0.55, 0.7), (-0.1, 0.55, -0.9), (0.6, 0.5, 0.3)])
def test_moments_are_those_asked_for_and_ranks_are_kept(mean: float, sd: float, r: float) -> None:
    rows = _map([mean, 0.0], [[sd**2, r * sd * 0.1], [r * sd * 0.1, 0.01]])
    points = bounded(WHITE, rows, [1, 2], constant=True)
    np.testing.assert_allclose(points.mean(axis=0), WHITE.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(points.T @ points, WHITE.T @ WHITE, atol=1e-9)
    x = _inside(points, rows)
    assert x[:, 1].min() > -1.02
    assert x[:, 1].max() < 1.02
    assert (np.diff(x[np.argsort(WHITE[:, 1]), 1]) > -1e-9).all()


def test_without_a_constant_second_moments_are_kept() -> None:
    white = lattice(2)
    rows = np.linalg.inv(np.linalg.cholesky(np.array([[0.4, 0.1], [0.1, 0.3]])))
    points = bounded(white, rows, [0, 1], constant=False)
    np.testing.assert_allclose(points.T @ points, white.T @ white, atol=1e-9)
    assert not np.array_equal(points, white)


def test_far_bounds_change_nothing() -> None:
    rows = _map([0.1, -0.2], [[0.04, 0.0], [0.0, 0.01]])
    assert bounded(WHITE, rows, [1, 2], constant=True) is WHITE
    near = _map([0.1, -0.2], [[0.3, 0.0], [0.0, 0.01]])
    assert bounded(WHITE, near, [2], constant=True) is WHITE


@pytest.mark.some(1)
@pytest.mark.parametrize("mean", [-1.4, -1.0, 0.0, 0.999, 1.3])
@pytest.mark.parametrize("sd", [1e-3, 0.1, 0.5, 1.0, 3.0])
def test_whatever_noise_says_points_are_numbers(mean: float, sd: float) -> None:
    rows = _map([mean, 0.0], [[sd**2, 0.0], [0.0, 0.01]])
    points = bounded(WHITE, rows, [1, 2], constant=True)
    assert np.isfinite(points).all()
    np.testing.assert_allclose(points.T @ points, WHITE.T @ WHITE, atol=1e-6 * len(WHITE))
