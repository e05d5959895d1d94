"""Designs of many coefficients: what is learned of them, in how many numbers, and that kernels do what devices say."""

import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from privreg.collector import diagonal as wide
from privreg.collector import sgd
from privreg.collector.diagonal import WIDE
from privreg.data.sources.open import chunk_of, pieces, rows_of
from privreg.device.score import lane_report
from privreg.errors import InferenceError
from privreg.formula.units import Units
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Gaussian
from privreg.protocol.codes import DIAGONAL, FULL
from privreg.simulation.staged import kernels, lanes
from privreg.simulation.staged.schedule import ChainSteps
from tests.kinds import KINDS, adversarial, plan_of, reports_of

STEPS = ChainSteps(first=0.02, scale=7.0, alpha=0.7, gain=0.8, delay=3.0)


def names_of(p):
    return ["const", *(f"x{j}" for j in range(1, p))]


def people(n, p, seed=0, mean=0.0, width=1.0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), mean + width * rng.uniform(-1, 1, (n, p - 1))])
    beta = np.zeros(p)
    beta[:4] = 0.5, 1.0, -1.0, 0.5
    return x @ beta + rng.standard_normal(n), x, beta


def model(y, x, mu=1000.0, **options):
    names = names_of(x.shape[1])
    bounds = {name: (-1, 1) for name in names[1:]} | {"y": (-10, 10)}
    return pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=mu, **options)


# --- the kernel is the device and the collector ----------------------------------------------------------


@pytest.mark.parametrize("kind", ["huber", "balanced"])
@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("d", [3, WIDE, WIDE + 1])
def test_kernel_equals_devices_and_collector_bit_for_bit(kind, joint, d):
    rng = np.random.default_rng(d)
    plan = plan_of(KINDS[kind], reports_of(KINDS[kind], "gaussian", label=False), d, joint=joint)._replace(path=2)
    n = 60
    x = adversarial(rng, n, d)
    y = rng.choice(KINDS[kind].responses, n)
    y[::7] = math.nan
    rows = np.array([rng.uniform(0.5, 2, d), 0.3 * rng.standard_normal(d)])
    rows[1, 0], rows[1, 2] = 0.0, 0.0
    newton, noise = rng.uniform(0.5, 2, (1, d)), rng.standard_normal((n, d + joint))
    intercept, start = rng.standard_normal(d), np.full(d, 0.1)
    expected = lanes.init(start, -0.2, plan, intercept)
    for i in range(n):
        k = i // plan.batch % plan.lanes
        given = expected.theta[k], math.exp(expected.log_c[k]), x[i], y[i], noise[i]
        expected = lanes.update(expected, plan, STEPS, newton, i, lane_report(plan, rows, *given))
    for cuts, threads in (((), 1), ((7, 30, 31), 2)):
        state = lanes.init(start, -0.2, plan, intercept)
        for a, b in pairwise(sorted({0, n, *cuts})):
            first, last = (i // plan.batch // plan.lanes for i in (a, b - 1))
            steps = STEPS.block(first, last - first + 1)
            for thread in range(threads):
                kernels.run_lanes(
                    *(x[a:b], y[a:b], np.empty(0), np.empty(0), rows, newton, *steps, noise[a:b]),
                    *(a, thread, threads, plan, state),
                )
        for name, one, two in zip(state._fields, state, expected, strict=True):
            assert one.tobytes() == two.tobytes(), name


def test_a_scale_and_a_shift_are_the_triangular_map_with_these_entries():
    d, n = 5, 40
    rng = np.random.default_rng(1)
    plan = plan_of(KINDS["huber"], reports_of(KINDS["huber"], "gaussian", label=False), d, joint=False)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, d - 1))])
    y, noise = rng.standard_normal(n), rng.standard_normal((n, d))
    rows = np.array([rng.uniform(0.5, 2, d), [0, *rng.standard_normal(d - 1)]])
    dense = np.diag(rows[0])
    dense[:, 0] += rows[1]
    diagonal = rng.uniform(0.5, 2, (1, d))
    out = []
    for maps in ((rows, diagonal), (dense, np.diag(diagonal[0]))):
        state = lanes.init(np.zeros(d), 0.0, plan)
        kernels.run_lanes(x, y, np.empty(0), np.empty(0), *maps, *STEPS.block(0, 5), noise, 0, 0, 1, plan, state)
        out.append(state)
    np.testing.assert_allclose(out[0].theta, out[1].theta, rtol=1e-12)
    np.testing.assert_allclose(out[0].sums, out[1].sums, rtol=1e-10)


def test_the_lanes_diagonal_is_that_of_the_whole_matrix():
    d, n = 4, 400
    rng = np.random.default_rng(2)
    plan = plan_of(KINDS["huber"], reports_of(KINDS["huber"], "gaussian", label=False), d, joint=False)
    x, y = rng.standard_normal((n, d)), rng.standard_normal(n)
    noise, f = rng.standard_normal((n, d)), rng.standard_normal(d)
    found = []
    for path in (1, 2):
        own = plan._replace(path=path)
        state = lanes.init(np.zeros(d), 0.0, own, f)
        kernels.run_lanes(
            *(x, y, np.empty(0), np.empty(0), np.eye(d), np.eye(d), *STEPS.block(0, 40), noise, 0, 0, 1, own, state)
        )
        found.append(lanes.scaling(state))
    np.testing.assert_allclose(found[1][1:], np.diag(found[0])[1:], rtol=1e-9)
    np.testing.assert_allclose(found[1][0], f @ found[0] @ f, rtol=1e-9)


# --- whole fits ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("tuning", ["efficient", "published"])
@pytest.mark.parametrize("p", [WIDE, WIDE + 1])
def test_neither_chunks_nor_threads_nor_saving_change_a_bit(p, tuning, tmp_path):
    y, x, _ = people(3000, p)
    whole = model(y, x, mu=3.0).fit(tuning=tuning, inference="random_scaling", seed=1, progress=False, threads=1)
    two = model(y, x, mu=3.0).fit(tuning=tuning, inference="random_scaling", seed=1, progress=False, threads=2)
    stream = model(y, x, mu=3.0, rows=3000).start(tuning=tuning, inference="random_scaling", seed=1)
    for k, (a, b) in enumerate(pairwise([0, 1, 77, 640, 1500, 3000])):
        stream.update((y[a:b], x[a:b]))
        if k in {1, 3}:
            stream.save(tmp_path / "s")
            stream = pr.load(tmp_path / "s")
    for res in (two, stream.results()):
        assert res.params.to_numpy().tobytes() == whole.params.to_numpy().tobytes()
        assert res.bse.to_numpy().tobytes() == whole.bse.to_numpy().tobytes()


def test_above_the_limit_random_scaling_keeps_variances_and_says_what_gives_the_matrix():
    y, x, _ = people(3000, WIDE + 1)
    for tuning in ("efficient", "published"):
        methods = ("random_scaling", "batch_means")
        res = model(y, x).fit(tuning=tuning, inference=methods, seed=1, progress=False)
        assert res.conf_int().shape == (WIDE + 1, 2)
        assert np.isfinite(res.bse).all()
        with pytest.raises(InferenceError, match=f"more than {WIDE} coefficients random_scaling keeps variances only"):
            res.wald_test("x1 = x2")
        with pytest.raises(InferenceError, match="'random_scaling_full', and choose it by method="):
            res.cov_params()
        assert res.cov_params(method="batch_means").shape == (WIDE + 1, WIDE + 1)
    y, x, _ = people(3000, WIDE)
    assert model(y, x).fit(inference="random_scaling", seed=1, progress=False).cov_params().shape == (WIDE, WIDE)
    assert str(WIDE) in pr.inference.describe().loc["random_scaling", "tests"]


def test_the_published_chains_variances_are_those_of_the_whole_matrix():
    y, x, _ = people(2000, WIDE + 1, mean=0.3, width=0.5)
    stream = model(y, x).start(tuning="published", seed=1)
    stream.update((y, x))
    run = stream._run
    assert run.plan.scaling_mode == DIAGONAL
    other = model(y, x).start(tuning="published", seed=1)._run
    other.plan = run.plan._replace(scaling_mode=FULL)
    other.state = sgd.init(np.zeros(WIDE + 1), other.plan, other.to_user[0])
    other.advance(*(np.ascontiguousarray(a) for a in (stream._spec.units.response_inside(y), inside(stream, x))))
    found = [r.variances(sgd.final(r.state, r.plan)) for r in (run, other)]
    np.testing.assert_allclose(*found, rtol=1e-7)


def inside(stream, x):
    units: Units = stream._spec.units
    out = np.array(x)
    units.rows_inside(out)
    return out


@pytest.mark.parametrize("method", ["plug_in", "path_curvature"])
def test_methods_that_keep_squares_are_refused_above_the_limit(method):
    y, x, _ = people(300, WIDE + 1)
    with pytest.raises(InferenceError, match=f"is held with at most {WIDE}; use 'between_lanes'"):
        model(y, x).fit(inference=method, progress=False)


@pytest.mark.statistical
@pytest.mark.parametrize(("mean", "width"), [(0.0, 1.0), (0.4, 0.3)])
def test_intervals_cover_with_150_coefficients(mean, width):
    """Seeded: noise small beside the people's own scatter; pooled over coefficients, whose errors hardly depend."""
    covered, p = {}, 151
    for seed in range(3):
        y, x, beta = people(150_000, p, seed, mean, width)
        methods = ("between_lanes", "random_scaling")
        res = model(y, x).fit(inference=methods, seed=seed, progress=False, threads=1)
        for m in methods:
            ci = res.conf_int(method=m).to_numpy()
            covered[m] = covered.get(m, 0) + int(((ci[:, 0] <= beta) & (beta <= ci[:, 1])).sum())
    low, high = binom.interval(0.9999, 3 * p, 0.95)
    for m, hits in covered.items():
        assert low <= hits <= high, (m, hits)


def test_few_people_are_told_not_to_rely_and_what_is_not_learned():
    y, x, _ = people(3000, 400)
    notes = model(y, x, mu=1.0).fit(seed=1, progress=False).privacy.notes
    assert any("people are few for 400 coefficients" in note for note in notes)
    assert any(f"more than {WIDE} coefficients: no correlations" in note for note in notes)


# --- reports on means and squares ------------------------------------------------------------------------


def test_numbers_are_within_their_range_whatever_the_rows_and_noise_is_calibrated_to_it():
    d = 6
    rng = np.random.default_rng(5)
    probe = np.column_stack([np.ones(50), rng.uniform(-1, 1, (50, d - 2)), rng.integers(0, 2, 50)])
    known = wide.public(probe, np.array([0, 0, 0, 0, 0, 1.0]), (), True)
    assert known.columns.tolist() == [1, 2, 3, 4]
    v = wide.numbers(known, adversarial(rng, 300, d)[:, known.columns])
    assert v.shape == (300, 8)
    assert ((v >= 0) & (v <= 1)).all()
    # replacing one person moves a report by no more than the sensitivity that its noise is made for
    furthest = np.linalg.norm(v[:, None] - v[None], axis=2).max()
    mechanism = Gaussian(Budget.declare(mu=2))
    assert furthest <= math.sqrt(8) + 1e-12
    assert mechanism.sd(mechanism.bits_radius(8), 8) == pytest.approx(math.sqrt(8) / 2)
    stream = model(*people(3000, WIDE + 1)[:2], mu=2.0).start(seed=1)
    run = stream._run
    assert run.kind in {"location", "moments"}
    k = len(run.start.wide.columns)
    assert k == WIDE
    assert run.moment_numbers() == 2 * k
    assert run.moment_sd() == pytest.approx(math.sqrt(2 * k) / 2.0)


def test_means_and_scales_are_found_and_noise_alone_moves_nothing():
    k, n = 200, 40_000
    rng = np.random.default_rng(6)
    known = wide.Wide(np.arange(1, k + 1), np.ones(k + 1), np.full(k + 1, np.nan), np.zeros(k + 1))
    begun = wide.start(known, np.array([np.ones(k + 1), np.zeros(k + 1)]))
    mean, sd = rng.uniform(-0.4, 0.4, k), rng.uniform(0.1, 0.3, k)
    total = n * np.concatenate([0.5 + 0.5 * mean, mean**2 + sd**2])
    rows = wide.learn(known, begun, total, n, 0.0, True)
    np.testing.assert_allclose(rows[0, 1:], 1 / sd, rtol=0.05)
    np.testing.assert_allclose(-rows[1, 1:] / rows[0, 1:], mean, atol=0.01)
    noise = 30.0
    total = n * np.concatenate([np.full(k, 0.5), np.full(k, 0.09)]) + noise * math.sqrt(n) * rng.standard_normal(2 * k)
    rows = wide.learn(known, begun, total, n, noise, True)
    assert np.abs(rows[1, 1:] / rows[0, 1:]).max() < 0.15
    np.testing.assert_allclose(rows[0, 1:], 1 / 0.3, rtol=0.5)


# --- memory ----------------------------------------------------------------------------------------------


def test_rows_encoded_at_a_time_fall_with_their_width():
    assert chunk_of(64) == 16_384
    assert chunk_of(2000) * 2000 <= 1 << 20
    assert chunk_of(10**7) == 256
    for batch in (
        (np.arange(1000), np.ones((1000, 2)), None),
        {"a": np.arange(1000)},
        pd.DataFrame({"a": range(1000)}),
    ):
        parts = list(pieces([batch], 300))
        assert [rows_of(part) for part in parts] == [300, 300, 300, 100]
    assert next(pieces([batch], 16_384)) is batch


def test_factors_with_many_levels_are_written_as_patsy_codes_them():
    levels = [f"g{i}" for i in range(30)]
    rng = np.random.default_rng(7)
    data = pd.DataFrame({"y": rng.uniform(size=90), "g": rng.permutation(np.repeat(levels, 3))})
    for formula in ("y ~ C(g)", "y ~ C(g) - 1"):
        m = pr.PrivateOnlineRegression.from_formula(formula, data, bounds={"y": (0, 1)}, levels={"g": levels}, mu=1)
        x = m._spec.design.encode(data).exog
        dummies = (data["g"].to_numpy()[:, None] == np.array(levels)).astype(float)
        dummies[:, 0] = dummies[:, 0] if "- 1" in formula else 1.0
        np.testing.assert_array_equal(x, dummies)


@pytest.mark.parametrize("family", ["logistic", "quantile", "squared", "multinomial"])
def test_other_families_come_to_an_end(family):
    y, x, _ = people(4000, WIDE + 2)
    names = names_of(WIDE + 2)
    options = {"bounds": {name: (-1, 1) for name in names[1:]}, "exog_names": names, "mu": 5, "family": family}
    if family == "logistic":
        y = (y > 0).astype(float)
    elif family == "multinomial":
        y, options["levels"] = np.clip(np.round(y), -1, 1), {"y": [-1, 0, 1]}
    else:
        options["bounds"]["y"] = (-10, 10)
    res = pr.PrivateOnlineRegression(y, x, **options).fit(seed=1, progress=False)
    assert np.isfinite(np.asarray(res.params)).all()


def test_factors_alone_have_no_reports_on_moments():
    levels = [f"g{i}" for i in range(130)]
    rng = np.random.default_rng(8)
    data = pd.DataFrame({"y": rng.uniform(size=4000), "g": rng.choice(levels, 4000)})
    m = pr.PrivateOnlineRegression.from_formula("y ~ C(g)", data, bounds={"y": (0, 1)}, levels={"g": levels}, mu=5)
    assert "moments" not in {s.kind for s in m.start(seed=1)._run.start.schedule.stages}
    assert any("compared with one reference level" in n for n in m.fit(seed=1, progress=False).privacy.notes)
