"""What is added to linear predictors is a part of the reference model, where curvature goes with them."""

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.estimation import coordinates
from privreg.collector.estimation.coordinates import lattice
from privreg.collector.estimation.reference import reference_of
from privreg_field.device.report.answer import before_noise
from privreg_field.device.report.design import Row
from tests.collector.test_reference_model import D, rules_of
from tests.studies import ask, study_plan

LIMITS = (math.log(0.002), math.log(200.0))


def test_points_have_the_mean_spread_and_regression_of_what_is_added():
    # W whitens (1, x, o): its last row is (e - intercept - slopes x)/sd
    rng = np.random.default_rng(1)
    whitener = np.tril(0.2 * rng.standard_normal((3, 3))) + np.diag([0.0, 2.0, 1.5])
    whitener[0] = 1.0, 0.0, 0.0
    points = np.column_stack([np.ones(len(lattice(2))), lattice(2)])
    last = np.array([-0.4, -0.3, 0.2, 1.0]) / 0.7
    added = coordinates._added(points, whitener, last, (-math.inf, math.inf))
    x = points @ np.linalg.inv(whitener).T
    found, left = np.linalg.lstsq(x, added, rcond=None)[:2]
    np.testing.assert_allclose(found, [0.4, 0.3, -0.2], atol=1e-10)
    assert math.sqrt(float(left[0]) / len(x)) == pytest.approx(0.7, abs=1e-10)
    held = coordinates._added(points, whitener, last, (-0.5, 0.5))
    np.testing.assert_array_equal(held, np.clip(added, -0.5, 0.5))


@pytest.mark.parametrize("kind", ["poisson", "robust poisson", "logistic"])
def test_what_is_expected_is_taken_at_the_whole_predictor(kind):
    """Of an offset that is the same for all, what it would be with another intercept."""
    points = np.column_stack([np.ones(len(lattice(D - 1))), lattice(D - 1)])
    bare, shift = reference_of(rules_of(kind), points), np.eye(D)[0] * 0.7
    said = bare._replace(added=np.full(len(points), 0.7))
    state, theta = np.array([0.1, -0.2, 0.3])[:D], np.array([-0.4, 0.2, 0.1])[:D]
    from privreg.collector.estimation import reference

    for a, b in zip(
        reference.expected(said, state, 1.5, theta, 1.0),
        reference.expected(bare, state + shift, 1.5, theta + shift, 1.0),
        strict=True,
    ):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)
    at = (state, 1.5, theta, 1.0), (state + shift, 1.5, theta + shift, 1.0)
    for of in (reference.secant, reference.variance, reference.means):
        np.testing.assert_allclose(of(said, *at[0]), of(bare, *at[1]), rtol=1e-10, atol=1e-12)
    square = 0.04 * np.eye(D)
    bias = (reference.offset_bias(m, t, square, 1.5, 1.0) for m, t in ((said, theta), (bare, theta + shift)))
    np.testing.assert_allclose(*bias, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("family", "other"), [("poisson", 0.5), ("robust_poisson", 0.5), ("huber", 3.0 - 0.5)])
def test_devices_tell_moments_beside_offsets_or_beside_responses_less_them(family, other):
    plan = study_plan(family, moment_response=True)
    asked = ask(plan, "moments")
    row = Row([1.0, 0.2, -0.3, 0.4, 0.1][: plan.d], 3.0, 0.5)
    v = np.array([*row.x, other])
    u = np.array([np.dot(w, v[: len(w)]) for w in asked.rows])
    np.testing.assert_allclose(before_noise(plan, asked, 0, row), u / np.linalg.norm(u), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ x"])
def test_rates_are_found_where_exposures_go_over_decades(formula):
    """Before, the intercept was off by thousands in fits of one number; limits are 4 standard errors."""
    n, rng = 60_000, np.random.default_rng(5)
    t = np.exp(np.clip(2.5 * rng.standard_normal(n), *LIMITS))
    rows = pd.DataFrame({"t": t, "x": rng.uniform(-1.0, 1.0, n)})
    rows["y"] = np.minimum(rng.poisson(t * np.exp(-2.0 + 0.2 * rows["x"] * ("x" in formula))), 30)
    how = {"family": pr.Poisson(30, c=1.5), "exposure": "t", "bounds": {"x": (-1, 1), "t": (0.002, 200)}}
    found = pr.PrivateOnlineRegression.from_formula(formula, rows, mu=8, trust="local", **how)
    res = found.fit(seed=2, progress=False)
    assert abs(float(res.params.iloc[0]) + 2.0) < 4.0 * float(res.bse.iloc[0]) < 0.2
