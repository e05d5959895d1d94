"""Main rounds that began far from the estimate: what a step is off enters standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import ndtr

import privreg as pr
from privreg.collector.aggregate.common import _steps, clipped
from privreg.collector.aggregate.plan import rules_of
from tests.collector.aggregate.test_aggregate import plan_for

RATIO = 1.345
ONE = np.array([1.0, 0.0, 0.0])


def share(t: float) -> float:
    """Normal residuals within the threshold, t thresholds from the estimate."""
    return float(ndtr(RATIO * (1.0 - t)) - ndtr(-RATIO * (1.0 + t)))


@pytest.mark.parametrize("t", [0.2, 0.5, 0.8, 1.2])
def test_a_step_is_the_score_over_the_slope_there(t: float) -> None:
    """Of rows alike, and of normal ones along one direction, by quadrature."""
    shifts, alone, normal = _steps(plan_for("huber").rules.shape, RATIO)
    score = quad(share, 0.0, t)[0]
    assert np.interp(t, shifts, alone) == pytest.approx(score / share(t), abs=2e-3)

    def of(z: float, power: int) -> float:
        value = quad(share, 0.0, abs(z) * t)[0] if power == 1 else share(z * t)
        return float(np.exp(-0.5 * z * z) * abs(z) ** power * value)

    far = quad(of, -6, 6, args=(1,), limit=200)[0] / quad(of, -6, 6, args=(2,), limit=200)[0]
    assert np.interp(t, shifts[120:], normal) == pytest.approx(far, abs=5e-3)


@pytest.mark.some(1)
@pytest.mark.parametrize("t", [-0.8, -0.5, 0.3, 0.8])
@pytest.mark.parametrize("tau", [0.2, 0.9])
def test_a_step_of_expectiles_bends_at_zero_and_differs_up_and_down(t: float, tau: float) -> None:
    rules, e = rules_of(pr.Expectile(tau), -8.0, 9.0), np.linspace(-12.0, 12.0, 400_001)
    density, ratio = np.exp(-0.5 * e * e) / np.exp(-0.5 * e * e).sum(), rules.ratio

    def score(at: float) -> float:
        r = e / ratio - at
        return float(density @ (np.where(r > 0.0, tau, 1.0 - tau) * np.clip(r, -1.0, 1.0)))

    centre = brentq(score, -3.0, 3.0)
    slope = (score(centre - t - 1e-3) - score(centre - t + 1e-3)) / 2e-3
    shifts, alone, _ = _steps(rules.shape, ratio)
    assert np.interp(t, shifts, alone) == pytest.approx(score(centre - t) / slope, abs=1e-2)
    both = clipped(rules, np.array([[0.0, 0.0, 0.5]]), np.ones(1), np.eye(3), np.empty((0, 3)), ONE)
    assert abs(both[0, 1]) > 0.005
    assert np.sign(both[0, 1]) == np.sign(0.5 - tau)


@pytest.mark.thorough
def test_a_threshold_with_all_errors_inside_has_steps() -> None:
    with np.errstate(all="raise"):
        shifts, alone, _ = _steps(plan_for("huber").rules.shape, 20.0)
    assert np.interp(0.8, alone, shifts) == pytest.approx(0.8, abs=1e-3)
    assert np.isfinite(alone).all()


def test_what_a_step_is_off_lies_along_the_row_that_was_far_and_weighs_rounds() -> None:
    rules, curvature = plan_for("huber").rules, np.diag([0.5, 0.2, 0.1])
    point, move = np.array([0.0, 0.0, 4.0]), np.array([0.0, 0.0, 0.2])
    none = clipped(rules, np.zeros((2, 3)), np.array([0.3, 0.7]), curvature, np.array([point]), ONE)
    assert not none.any()
    once = clipped(rules, np.array([0.0 * move, move]), np.array([0.3, 0.7]), curvature, np.array([point]), ONE)
    assert once.shape == (3, 3)
    assert once[:, 1] == pytest.approx(0.0, abs=1e-12)  # the score is the same up and down
    assert point @ once[:, 2] == pytest.approx(0.7 * (0.8 - np.interp(0.8, *_steps(rules.shape, rules.ratio)[1::-1])))
    assert once[:, 2] == pytest.approx([0.0, 0.0, once[2, 2]])
    back = clipped(rules, np.array([-move, move]), np.array([0.5, 0.5]), curvature, np.array([point]), ONE)
    assert back == pytest.approx(0.0, abs=1e-12)
