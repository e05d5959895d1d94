"""Laws of the engine: the fused kernel is the readable device and collector, whatever the chunks."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.errors import DataError
from privreg.families.scores import SCORE_WEIGHTS, omega, psi
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol.codes import BLOCK, DIAGONAL, FULL, NONE
from privreg.published.chain import collector, kernels
from privreg.published.chain.plans import Steps
from privreg.published.chain.run import AveragedSGD
from tests.devices import curvature
from tests.helpers import BOUNDED_WEIGHTS, SCORES, make_device, make_test_plan
from tests.kinds import assert_twins
from tests.published.twin import curvature_centre, curvature_report, score_report, update, update_curvature

KEY = bytes(range(32))
STEPS = Steps(0.5, 0.51, 3.0)


def rows(n, p, binary, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, p))
    x[:, 0] = 1
    y = x.sum(axis=1) + 0.5 * rng.standard_normal(n)
    return x, (y > 0).astype(float) if binary else y


def fused(x, y, offset, plan, cuts, p):
    run = AveragedSGD(plan, STEPS, collector.init(np.full(p, 0.1), plan, np.arange(1.0, p + 1)), np.eye(p), KEY)
    edges = [0, *sorted(cuts), len(y)]
    for a, b in pairwise(edges):
        run.advance(y[a:b], x[a:b], offset[a:b])
    return run


def assert_same_bits(one, two):
    for name, a, b in zip(one._fields, one, two, strict=True):
        np.testing.assert_array_equal(a, b, err_msg=name)


@pytest.mark.some(9)
@pytest.mark.parametrize("family", SCORES)
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@pytest.mark.parametrize(
    ("batch", "mode", "share", "outer"),
    [
        (1, FULL, 0.2, 1),
        (3, DIAGONAL, 0.0, 1),
        (7, FULL, 0.1, 1),
        (1, NONE, 0.0, 0),
        (1, NONE, 0.2, 2),
        (2, FULL, 0, 2),
    ],
)
def test_fused_stream_equals_devices_and_collector(family, weights, batch, mode, share, outer):
    n, p = 600, 5
    device = make_device(SCORES[family], weights)
    plan = make_test_plan(device, p, batch, mode, outer, share)
    x, y = rows(n, p, family == "logistic")
    offset = np.linspace(-0.5, 0.5, n)
    run = fused(x, y, offset, plan, [1, 300, 301], p)
    state = collector.init(np.full(p, 0.1), plan, np.arange(1.0, p + 1))
    noise = NoiseStream(derived_key(KEY, "score"), p)
    curvature_noise = NoiseStream(derived_key(KEY, "curvature"), p * (p + 1) // 2)
    senders = 0
    for i in range(n):
        if share and kernels.is_curvature_turn(i, plan.curvature_share):
            centre = curvature_centre(state)
            report = curvature_report(device, centre, x[i], y[i], curvature_noise.peek()[0], offset[i])
            curvature_noise.advance(1)
            state = update_curvature(state, report)
            senders += 1
        else:
            report = score_report(device, state.theta, x[i], y[i], noise.peek()[0], offset[i])
            noise.advance(1)
            state = update(state, plan, STEPS, report)
    assert_twins(state, run.state, SCORES[family].shape.family)
    assert bool(senders) == (share > 0)
    assert np.abs(state.theta - 0.1).max() > 0.01
    assert bool(state.outer.any()) == (outer > 0 and n > BLOCK * batch)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 3000), max_size=8), batch=st.sampled_from([1, 4]), share=st.sampled_from([0.0, 0.1])
)
def test_chunks_of_any_size_give_the_same_bits(cuts, batch, share):
    plan = make_test_plan(make_device(SCORES["huber"]), 4, batch, FULL, 1, share)
    x, y = rows(3000, 4, False)
    offset = np.zeros(3000)
    whole, cut = fused(x, y, offset, plan, [], 4), fused(x, y, offset, plan, cuts, 4)
    assert_same_bits(whole.state, cut.state)
    for one, other in zip(whole.trail, cut.trail, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.variances, other.variances)
    assert len(whole.trail) > 3


def test_random_scaling_matrix_is_its_definition():
    n, p = 2000, 4
    plan = make_test_plan(make_device(SCORES["huber"]), 4, outer=0)
    x, y = rows(n, p, False)
    run = fused(x, y, np.zeros(n), plan, [], p)
    path = np.empty((n, p))
    again = AveragedSGD(plan, STEPS, collector.init(np.full(p, 0.1), plan, np.ones(p)), np.eye(p), KEY)
    for i in range(n):
        again.advance(y[i : i + 1], x[i : i + 1])
        path[i] = again.state.theta
    mean = path.mean(axis=0)
    partial = np.cumsum(path - mean, axis=0)
    found = collector.final(run.state, plan)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-12)
    np.testing.assert_allclose(found.scaling, partial.T @ partial / n**2, rtol=1e-8)


@pytest.mark.some(1)
@pytest.mark.parametrize("batch", [1, 3])
def test_products_of_reports_and_iterates_are_those_of_the_path(batch):
    n, p = 1500, 4
    plan = make_test_plan(make_device(SCORES["huber"]), p, batch, NONE, 2)
    x, y = rows(n, p, False)
    run = fused(x, y, np.zeros(n), plan, [], p)
    again = AveragedSGD(plan, STEPS, collector.init(np.full(p, 0.1), plan, np.ones(p)), np.eye(p), KEY)
    total, asked = np.zeros((2 * p + 1, 2 * p + 1)), again.state.theta.copy()
    for k in range(n // batch):
        again.advance(y[k * batch : (k + 1) * batch], x[k * batch : (k + 1) * batch])
        report = (asked - again.state.theta) / STEPS.block(k, 1)[0]
        v = np.concatenate([report, asked - 0.1, [1.0]])
        total += np.outer(v, v)
        asked = again.state.theta.copy()
    found = collector.final(run.state, plan)
    np.testing.assert_allclose(found.outer * found.updates, total, rtol=1e-7, atol=1e-9)
    only = make_test_plan(make_device(SCORES["huber"]), p, batch, NONE, 1)
    alone = collector.final(fused(x, y, np.zeros(n), only, [], p).state, only)
    np.testing.assert_allclose(alone.outer, found.outer[:p, :p], rtol=1e-12)


def test_diagonal_mode_agrees_with_the_full_matrix_and_its_functional():
    n, p = 1500, 4
    x, y = rows(n, p, False)
    device = make_device(SCORES["huber"])
    functional = np.arange(1.0, p + 1)
    out = {}
    for mode in (FULL, DIAGONAL):
        plan = make_test_plan(device, p, 1, mode, 0)
        run = AveragedSGD(plan, STEPS, collector.init(np.zeros(p), plan, functional), np.eye(p), KEY)
        run.advance(y, x)
        out[mode] = collector.final(run.state, plan).scaling
    np.testing.assert_allclose(out[DIAGONAL][1:], np.diag(out[FULL])[1:], rtol=1e-9)
    np.testing.assert_allclose(out[DIAGONAL][0], functional @ out[FULL] @ functional, rtol=1e-9)


def test_curvature_turns_are_a_fixed_share_of_positions():
    share = int(0.1 * 2**32)
    turns = np.array([kernels.is_curvature_turn(i, share) for i in range(100_000)])
    assert abs(turns.mean() - 0.1) < 4 * np.sqrt(0.09 / 100_000)
    # no period: the turns of every residue class are near a tenth as well
    for period in (2, 7, 10, 64):
        counts = [turns[k::period].mean() for k in range(period)]
        assert max(counts) < 0.1 + 6 * np.sqrt(0.09 * period / 100_000)


@pytest.mark.parametrize("family", SCORES)
def test_kernel_scores_equal_their_numpy_twins(family):
    score = SCORES[family]
    eta = np.array([-800.0, -5, -0.7, -1e-9, 0, 1e-9, 0.3, 2, 40, 800])
    for y in (0.0, 1.0):
        ys = np.full_like(eta, y)
        kernel = [kernels._psi(score.shape, score.c, score.bound, e, y) for e in eta]
        np.testing.assert_allclose(psi(score, eta, ys), kernel, rtol=1e-14, atol=1e-300)
        bend = [kernels._curvature(score.shape, score.c, score.bound, e, y) for e in eta]
        np.testing.assert_allclose(curvature(score, eta, ys), bend, rtol=1e-14, atol=1e-300)
        assert np.abs(kernel).max() <= score.bound


@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
def test_weights_twin_and_reach(weights):
    w = SCORE_WEIGHTS[weights]
    rng = np.random.default_rng(3)
    x = rng.standard_normal((5000, 4)) * np.exp(rng.uniform(-20, 20, (5000, 1)))
    x[:, 0] = 1 if weights == "published_slopes" else x[:, 0]
    norm2 = (x**2).sum(axis=1)
    kernel = np.array([kernels._weight(w.code, n, f, x.shape[1]) for n, f in zip(norm2, x[:, 0], strict=True)])
    np.testing.assert_allclose(omega(w, x), kernel, rtol=1e-12)
    reached = np.sqrt(norm2) * kernel
    assert reached.max() <= w.reach * (1 + 1e-12)
    assert reached.max() > 0.98 * w.reach
    if np.isfinite(w.reach2):
        assert (norm2 * kernel).max() <= w.reach2 * (1 + 1e-12)


def test_scores_are_derivatives_of_their_losses():
    eta = np.linspace(-3, 3, 13)
    h = 1e-6
    huber = SCORES["huber"]

    def rho(e):
        r = np.abs(0.4 - e)
        return np.where(r <= huber.c, r**2 / 2, huber.c * (r - huber.c / 2))

    np.testing.assert_allclose(psi(huber, eta, np.full(13, 0.4)), (rho(eta + h) - rho(eta - h)) / (2 * h), atol=1e-5)
    for y in (0.0, 1.0):
        slope = (np.logaddexp(0, eta + h) - np.logaddexp(0, eta - h)) / (2 * h) - y
        np.testing.assert_allclose(psi(SCORES["logistic"], eta, np.full(13, y)), slope, atol=1e-8)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_device_refuses_a_row_that_is_not_finite(bad):
    device = make_device(SCORES["huber"])
    with pytest.raises(DataError, match="missing or infinite"):
        score_report(device, np.zeros(2), np.array([1.0, bad]), 0.0, np.zeros(2))
    with pytest.raises(DataError, match="missing or infinite"):
        curvature_report(device, np.zeros(2), np.array([1.0, 0.0]), bad, np.zeros(3))
