"""Sums about a new origin: the same numbers, with the digits that a far origin would cost."""

import numpy as np
import pytest

import privreg as pr
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol.codes import DIAGONAL, FULL
from privreg.published.chain import collector
from privreg.published.chain.run import AveragedSGD
from tests.helpers import SCORES, make_device, make_test_plan
from tests.published.test_chain import KEY, STEPS, assert_same_bits, rows
from tests.published.twin import score_report, update

N, P = 4300, 3


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("mode", [FULL, DIAGONAL])
def test_stream_and_collector_turn_at_the_same_place_to_the_same_bits(mode):
    device = make_device(SCORES["huber"])
    plan = make_test_plan(device, P, 1, mode, 2)
    x, y = rows(N, P, False)
    functional = np.arange(1.0, P + 1)
    run = AveragedSGD(plan, STEPS, collector.init(np.full(P, 0.1), plan, functional), np.eye(P), KEY)
    run.advance(y[:1000], x[:1000])
    run.advance(y[1000:], x[1000:])
    state, noise = collector.init(np.full(P, 0.1), plan, functional), NoiseStream(derived_key(KEY, "score"), P)
    for i in range(N):
        report = score_report(device, state.theta, x[i], y[i], noise.peek()[0], 0.0)
        noise.advance(1)
        state = update(state, plan, STEPS, report)
    assert_same_bits(state, run.state)
    assert np.abs(state.origin - 0.1).max() > 0.01


@pytest.mark.parametrize("mode", [FULL, DIAGONAL])
def test_a_turn_changes_the_reference_and_nothing_else(mode, monkeypatch):
    x, y = rows(N, P, False)
    found = {}
    for turns in (True, False):
        if not turns:
            monkeypatch.setattr(collector, "is_turn", lambda _: False)
        plan = make_test_plan(make_device(SCORES["huber"]), P, 1, mode, 2)
        run = AveragedSGD(plan, STEPS, collector.init(np.full(P, 0.1), plan, np.arange(1.0, P + 1)), np.eye(P), KEY)
        run.advance(y, x)
        found[turns] = run
    one, two = (collector.final(r.state, r.plan) for r in found.values())
    assert (found[True].state.origin != found[False].state.origin).all()
    np.testing.assert_array_equal(one.last, two.last)
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-12)
    np.testing.assert_allclose(one.scaling, two.scaling, rtol=1e-8)
    np.testing.assert_allclose(one.outer[:P, :P], two.outer[:P, :P], rtol=1e-10)
    (k, early), (_, plain) = (r.early(N) for r in found.values())
    assert k > 0
    np.testing.assert_allclose(early[:P, :P], plain[:P, :P], rtol=1e-10)
    np.testing.assert_allclose(early[-1, -1], plain[-1, -1])


def test_every_method_is_blind_to_a_turn(monkeypatch):
    x, y = rows(12_000, P, False)
    methods = ("random_scaling", "batch_means", "block_bootstrap", "path_curvature")
    unit = {"x2": (0, 1), "x3": (0, 1), "y": (0, 2)}
    model = pr.PrivateOnlineRegression(
        *(y, x), exog_names=["const", "x2", "x3"], moments=unit, mu=1, family=pr.Huber(1.345, scale=1.0)
    )
    fits = []
    for turns in (True, False):
        if not turns:
            monkeypatch.setattr(collector, "is_turn", lambda _: False)
        fits.append(model.fit(tuning="published", inference=methods, seed=1, progress=False))
    for method in methods:
        one, two = (fit.conf_int(method=method).to_numpy() for fit in fits)
        np.testing.assert_allclose(one, two, rtol=1e-7)
        assert (one[:, 1] > one[:, 0]).all()


def test_turns_come_at_powers_of_sixteen():
    assert [k for k in range(1, 1 << 17) if collector.is_turn(k)] == [4096, 65536]
