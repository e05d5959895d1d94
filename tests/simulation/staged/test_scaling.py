"""The whole random-scaling matrix of designs of many coefficients, and the law of joint tests with several lanes."""

import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest
from scipy.special import chdtrc
from scipy.stats import binom, kstest

import privreg as pr
from privreg.collector import diagonal, history, sgd
from privreg.collector.diagonal import WIDE
from privreg.collector.history import History
from privreg.errors import InferenceError
from privreg.inference.methods import RandomScaling
from privreg.inference.pivots import FEWEST_STEPS, STEPS_EACH, scaling_sf
from privreg.inference.wald import wald_critical, wald_sf
from privreg.protocol import codes
from privreg.simulation import tuning
from privreg.simulation.staged import lanes
from tests.simulation.staged.test_wide import inside, model, people

FULL = "random_scaling_full"


# --- the matrix ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("lanes_", "rounds"), [(1, 700), (3, 85), (12, 21), (12, 64), (300, 3)])
def test_blocks_give_the_matrix_of_its_definition(lanes_, rounds):
    d, rng = 7, np.random.default_rng(rounds)
    path = np.cumsum(rng.standard_normal((rounds, lanes_, d)) + 0.3, axis=0)
    held = History(lanes_, d)
    for partial in path:
        held.note(partial)
    k = np.arange(1, rounds + 1)[:, None, None]
    bridge = path - k / rounds * path[-1]
    expected = np.einsum("tkj,tkm->jm", bridge, bridge) / rounds**2 / lanes_
    np.testing.assert_allclose(held.matrix(), expected, atol=1e-9 * np.trace(expected))
    assert np.array_equal(held.matrix(), held.matrix().T)
    linear = np.diag(rng.uniform(1, 2, d))
    linear[0] = rng.standard_normal(d)
    places, order = rng.permutation(d), np.empty((d, d))
    order[places] = linear
    mapped = diagonal.Map(places, np.diag(linear).copy(), linear[0].copy())
    np.testing.assert_allclose(held.variances(mapped), np.diag(order @ expected @ order.T), rtol=1e-7)
    np.testing.assert_allclose(mapped(np.ascontiguousarray(mapped(expected).T)), order @ expected @ order.T, rtol=1e-12)


def test_what_was_noted_stays_while_lanes_go_on():
    rng = np.random.default_rng(0)
    held, partial = History(3, 4), rng.standard_normal((3, 4))
    for _ in range(5):
        held.note(partial)
        before = held.matrix()
        partial += rng.standard_normal((3, 4))
        assert np.array_equal(held.matrix(), before)


def test_large_triangles_are_made_symmetric():
    d = 2 * history.LINES + 9
    lower = np.tril(np.random.default_rng(0).standard_normal((d, d)))
    expected = lower + np.tril(lower, -1).T
    noisy = lower + np.triu(np.ones((d, d)), 1)  # what lies above is not looked at
    np.testing.assert_array_equal(history.symmetric(noisy), expected)


def test_a_map_is_found_only_where_one_coefficient_is_mixed_into():
    d = WIDE + 1
    linear = np.diag(np.arange(1.0, d + 1))
    linear[0] = 0.5
    order = np.random.default_rng(1).permutation(d)
    moves = np.random.default_rng(2).standard_normal((3, d))
    for matrix in (linear, linear[order]):
        np.testing.assert_allclose(diagonal.mapped(matrix)(moves), moves @ matrix.T, rtol=1e-12, atol=1e-12)
    linear[3, 7] = 0.1
    assert diagonal.mapped(linear) is None
    assert diagonal.mapped(np.eye(WIDE)) is None


def test_the_lanes_matrix_is_that_of_the_compiled_loop():
    y, x, _ = people(9000, WIDE + 1, mean=0.3, width=0.5)
    streams = [model(y, x, rows=9000).start(inference=FULL, seed=1) for _ in range(2)]
    old = streams[1]._run
    old.start = old.start._replace(path=1)
    for stream in streams:
        stream.update((y, x))
    run = streams[0]._run
    assert run.chains.plan.path == 3
    assert old.chains.plan.path == 1
    assert run.history.rounds == run.chains.state.updates.min()
    if len(set(run.chains.state.updates)) == 1:
        np.testing.assert_allclose(run.history.matrix(), lanes.scaling(old.chains.state), rtol=1e-6)
    size = np.sqrt(np.diag(run.history.matrix()))
    own = lanes.scaling(old.chains.state)
    assert np.abs(run.history.matrix() - own).max() < 0.2 * np.outer(size, size).max()
    trail = streams[0].results()._fit.trail_variances
    whole = streams[0].results().cov_params().to_numpy()
    np.testing.assert_allclose(streams[0].results().bse ** 2, np.diag(whole))
    assert np.isfinite(trail[-1]).all()


def test_the_single_chains_matrix_is_that_of_the_compiled_loop_also_after_recentring():
    n, p = 5000, WIDE + 1
    y, x, _ = people(n, p, mean=0.3, width=0.5)
    stream = model(y, x).start(tuning="published", inference=FULL, seed=1)
    stream.update((y, x))
    run = stream._run
    assert run.plan.scaling_mode == codes.HISTORY
    assert sgd.is_turn(4096)
    other = model(y, x).start(tuning="published", inference=FULL, seed=1)._run
    other.plan, other.mapped = run.plan._replace(scaling_mode=codes.FULL), None
    other.advance(*(np.ascontiguousarray(a) for a in (stream._spec.units.response_inside(y), inside(stream, x))))
    one, two = (sgd.final(r.state, r.plan) for r in (run, other))
    size = np.sqrt(np.diag(two.scaling))
    np.testing.assert_allclose(one.scaling / size / size[:, None], two.scaling / size / size[:, None], atol=1e-8)
    np.testing.assert_allclose(run.variances(one), other.variances(two), rtol=1e-7)
    np.testing.assert_allclose(run.trail.variances, other.trail.variances, rtol=1e-6)
    cov = stream.results().cov_params().to_numpy()
    np.testing.assert_allclose(np.diag(cov), run.variances(one), rtol=1e-9)


@pytest.mark.parametrize("how", ["efficient", "published"])
def test_neither_chunks_nor_threads_nor_saving_change_a_bit_of_it(how, tmp_path):
    y, x, _ = people(6000, WIDE + 1)
    given = {"tuning": how, "inference": FULL, "seed": 1}
    whole = model(y, x).fit(**given, progress=False, threads=1)
    two = model(y, x).fit(**given, progress=False, threads=2)
    stream = model(y, x, rows=6000).start(**given)
    for k, (a, b) in enumerate(pairwise([0, 1, 77, 640, 5500, 6000])):
        stream.update((y[a:b], x[a:b]))
        if k in {1, 3}:
            stream.save(tmp_path / "s")
            stream = pr.load(tmp_path / "s")
    for res in (two, stream.results()):
        assert res.cov_params().to_numpy().tobytes() == whole.cov_params().to_numpy().tobytes()
    whole.save(tmp_path / "r")
    again = pr.load(tmp_path / "r")
    assert again.cov_params().equals(whole.cov_params())
    assert again._fit.estimates[0].pivot.steps == whole._fit.estimates[0].pivot.steps > 0


def test_threads_of_blas_change_no_bit():
    code = (
        "import numpy as np, hashlib; from privreg.collector.history import fold; rng = np.random.default_rng(1)\n"
        "for d, m in ((333, 256), (1001, 37)):\n"
        "    s = np.zeros((d, d)); fold(rng.standard_normal((d, m)), s); print(hashlib.md5(s.tobytes()).hexdigest())"
    )
    found = [
        subprocess.run([sys.executable, "-c", code], env={"OPENBLAS_NUM_THREADS": k}, capture_output=True, check=True)
        for k in ("1", "2")
    ]
    assert found[0].stdout == found[1].stdout
    assert len(found[0].stdout.split()) == 2


def test_up_to_the_limit_it_is_the_usual_matrix_and_beyond_there_are_t_and_wald_tests():
    y, x, _ = people(3000, 12)
    usual, full = (model(y, x).fit(inference=m, seed=1, progress=False) for m in ("random_scaling", FULL))
    assert full.cov_params().equals(usual.cov_params())
    y, x, _ = people(40_000, WIDE + 1)
    both = model(y, x).fit(inference=("random_scaling", FULL), seed=1, progress=False)
    assert np.linalg.eigvalsh(both.cov_params(method=FULL)).min() > 0
    assert both.t_test("x1 + x2 = 0", method=FULL).pvalue[0] > 1e-6
    one, two = both.wald_test("x1 = 1", method=FULL), both.t_test("x1 = 1", method=FULL)
    assert one.pvalue == pytest.approx(two.pvalue[0])
    alone = model(y, x).fit(inference="random_scaling", seed=1, progress=False)
    np.testing.assert_allclose(both.bse, alone.bse, rtol=1e-9)
    with pytest.raises(InferenceError, match="or 'random_scaling_full', and choose it by method="):
        alone.wald_test("x1 = x2")
    assert len(both.trajectory()) == len(alone.trajectory())


def test_what_it_can_t_do_is_refused(monkeypatch):
    y, x, _ = people(3000, WIDE + 1)
    monkeypatch.setattr(tuning, "FULLEST", WIDE)
    for how in ("efficient", "published"):
        with pytest.raises(
            InferenceError, match=r"keeps 101 × 101 numbers .* at most 100 coefficients. Use 'random_sc"
        ):
            model(y, x).fit(inference=FULL, tuning=how, progress=False)
    monkeypatch.undo()
    assert history.FULLEST >= 2001
    import pandas as pd

    data = pd.DataFrame(x[:, 1:], columns=[f"x{j}" for j in range(1, WIDE + 1)]).assign(y=y, m=2.0)
    bounds = {f"x{j}": (-1, 1) for j in range(1, WIDE + 1)} | {"y": (-10, 10)}
    formula = "y ~ " + " + ".join(f"x{j}" for j in range(1, WIDE + 1))
    own = pr.PrivateOnlineRegression.from_formula(formula, data, bounds=bounds, mu="m", mu_max=3)
    with pytest.raises(InferenceError, match=r"personal budgets .* use 'between_lanes' or 'batch_means'"):
        own.fit(inference=FULL, progress=False)
    short = model(y, x).fit(inference=FULL, batch_size=32, seed=1, progress=False)
    with pytest.raises(
        InferenceError, match=r"no intervals yet by random_scaling_full: .* takes \d+ updates, and there w"
    ):
        short.conf_int()
    few = model(y, x).fit(inference=FULL, lanes=8, batch_size=16, seed=1, progress=False)
    with pytest.raises(InferenceError, match=r"joint test of 2 restrictions .* needs 20 updates of each of \d+ lane"):
        few.wald_test("x1 = x2 = 0")


# --- the law of joint tests ------------------------------------------------------------------------------


def bridges(q, lanes_, steps, draws, seed):
    """a_q for random walks of so many steps: what the limit is an approximation to."""
    k = np.arange(1, steps)
    values = 1.0 / (4.0 * steps**2 * np.sin(np.pi * k / (2 * steps)) ** 2)
    scale = np.sqrt(np.repeat(values, lanes_) / lanes_)[:, None]
    rng, out = np.random.default_rng(seed), []
    for _ in range(draws // 100):
        z = rng.standard_normal((100, len(scale), q)) * scale
        out.append(1.0 / np.linalg.cholesky(z.transpose(0, 2, 1) @ z)[:, -1, -1] ** 2)
    return np.concatenate(out)


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "lanes_"), [(1, 8), (3, 8), (5, 16), (20, 12)])
def test_several_lanes_have_their_own_joint_law(q, lanes_):
    cut = wald_critical(0.05, q, lanes_)
    level = chdtrc(q, cut / bridges(q, lanes_, 80, 600, q))  # averaged: the χ² part is exact
    assert abs(level.mean() - 0.05) < 4.5 * level.std() / np.sqrt(len(level)) + 0.0015
    assert wald_sf(cut, q, lanes_) == pytest.approx(0.05)
    if q == 1:
        assert wald_sf(9.0, 1, lanes_) == pytest.approx(scaling_sf(3.0, lanes_)[0], rel=0.01)
    else:  # one lane's law would hardly ever reject
        assert wald_critical(0.05, q) > 1.8 * cut
    law = RandomScaling(lanes_)
    assert law.joint_sf(cut / 6.0, q) == pytest.approx(0.05, rel=0.01)


@pytest.mark.statistical
def test_many_lanes_come_to_the_normal_laws_joint_test():
    for q in (2, 10):
        assert RandomScaling(1000).joint_sf(18.307, q) == pytest.approx(chdtrc(q, 18.307), abs=0.004, rel=0.2)


@pytest.mark.statistical
@pytest.mark.parametrize(("q", "lanes_"), [(2, 1), (10, 1), (2, 8), (10, 12), (20, 16), (20, 1)])
def test_joint_tests_hold_their_level_from_the_fewest_steps_that_are_allowed(q, lanes_):
    steps = max(FEWEST_STEPS, -(-STEPS_EACH * q // lanes_))
    level = chdtrc(q, wald_critical(0.05, q, lanes_) / bridges(q, lanes_, steps, 2000, 1))
    error = 4.0 * level.std() / np.sqrt(len(level))
    assert level.mean() - error < 0.06
    assert level.mean() + error > 0.05
    law = RandomScaling(lanes_, steps)
    assert 0.0 < law.joint_sf(5.0, q) < 1.0
    assert law == RandomScaling(lanes_)
    with pytest.raises(InferenceError, match=f"needs {steps} updates of each of {lanes_} lane"):
        RandomScaling(lanes_, steps - 1).joint_sf(5.0, q)


@pytest.mark.statistical
def test_joint_tests_of_whole_fits_hold_their_level():
    """Seeded: groups of five of 150 coefficients, noise small beside the people's own scatter."""
    p, q, found = 151, 5, []
    for seed in range(4):
        y, x, beta = people(150_000, p, seed)
        res = model(y, x).fit(inference=FULL, lanes=(1, 8, 12, 16)[seed], seed=seed, progress=False, threads=1)
        for start in range(1, p, q):
            rows = np.eye(p)[start : start + q]
            found.append(res.wald_test((rows, rows @ beta)).pvalue)
    low, high = binom.interval(0.9999, len(found), 0.05)
    assert low <= np.sum(np.array(found) < 0.05) <= high
    assert kstest(found, "uniform").pvalue > 1e-4
