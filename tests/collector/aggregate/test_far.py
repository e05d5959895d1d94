"""Main rounds that began far from the estimate: what a step is off enters standard errors."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr

from privreg.collector.aggregate.estimate import _off, _steps
from tests.collector.aggregate.test_aggregate import plan_for

RATIO = 1.345


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
    assert np.interp(t, shifts, normal) == pytest.approx(far, abs=5e-3)


def test_what_a_step_is_off_lies_along_the_row_that_was_far_and_weighs_rounds() -> None:
    rules, curvature = plan_for("huber").rules, np.diag([0.5, 0.2, 0.1])
    point, move = np.array([0.0, 0.0, 4.0]), np.array([0.0, 0.0, 0.2])
    none = _off(rules, np.zeros((2, 3)), np.array([0.3, 0.7]), curvature, np.array([point]))
    assert not none.any()
    once = _off(rules, np.array([0.0 * move, move]), np.array([0.3, 0.7]), curvature, np.array([point]))
    assert once.shape == (3, 2)
    assert point @ once[:, 1] == pytest.approx(0.7 * (0.8 - np.interp(0.8, *_steps(rules.shape, rules.ratio)[1::-1])))
    assert once[:, 1] == pytest.approx([0.0, 0.0, once[2, 1]])
    back = _off(rules, np.array([-move, move]), np.array([0.5, 0.5]), curvature, np.array([point]))
    assert back == pytest.approx(0.0, abs=1e-12)
