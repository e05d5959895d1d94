"""Laws of parallel chains: the kernel is the readable device and collector, and the sums are what they stand for."""

import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom, chi2, norm, t

from privreg.device.score import lane_report
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Gaussian
from privreg.protocol.codes import BALANCED, HUBER
from privreg.protocol.plans import LanePlan
from privreg.simulation.staged import kernels, lanes
from privreg.simulation.staged.lanes import GroupEstimate
from privreg.simulation.staged.schedule import ChainSteps
from tests.kinds import KINDS, plan_of, reports_of

MECHANISM = Gaussian(Budget.declare(mu=2))
STEPS = ChainSteps(first=0.4, scale=7.0, alpha=0.7, gain=0.8, delay=3.0)
FAMILIES = {"huber": HUBER, "balanced": BALANCED}
EXTREME = [1.7e308, -1.7e308, 1e300, 1e155, 1e-155, 1e-300, 0.0]
RARE = 1e-6
"""Probability with which a simulation at the claimed law would leave its exact limits."""


def make_plan(family=HUBER, batch=4, chains=3, kappa=0.0, path=1, late=2, worth=1.0):
    kind = {HUBER: "huber", BALANCED: "balanced"}[family]
    reports = reports_of(KINDS[kind], "gaussian", label=False, strength=2.0)._replace(reach=1.0)
    plan = plan_of(KINDS[kind], reports, 3, joint=kappa > 0, batch=batch, lanes=chains, worth=worth)
    precision = reports.variance(3, 0.0) / reports.variance(3, kappa)
    return plan._replace(kappa=kappa, radius=reports.radius(kappa), path=path, late=late, precision=precision)


class Case(NamedTuple):
    """One stage of chains: rows in internal units, noise for each, and what is public at its start."""

    plan: LanePlan
    x: np.ndarray
    y: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    rows: np.ndarray
    newton: np.ndarray
    noise: np.ndarray
    start: np.ndarray


def make_case(plan, n, d=3, with_offset=True, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, d))
    x[:, 0] = 1.0
    y = x.sum(axis=1) + 0.5 * rng.standard_normal(n)
    y = (y > 0).astype(float) if plan.shape.family == BALANCED else y
    x[5::17] = rng.choice(EXTREME, (len(x[5::17]), d))  # rows of any size take part
    rows = np.tril(0.2 * rng.standard_normal((d, d))) + np.eye(d)
    newton = np.eye(d) + 0.1 * rng.standard_normal((d, d))
    noise = rng.standard_normal((n, d + (plan.kappa > 0)))
    offset = rng.uniform(-0.5, 0.5, n) if with_offset else np.empty(0)
    return Case(plan, x, y, offset, np.empty(0), rows, newton, noise, np.full(d, 0.3))


def by_kernel(case, cuts=(), threads=1):
    """State after all people, their rows cut at `cuts`, each thread's share worked on in turn, the last first."""
    plan, n = case.plan, len(case.y)
    state = lanes.init(case.start, -0.2, plan)
    for a, b in pairwise(sorted({0, n, *cuts})):
        first, last = (i // plan.batch // plan.lanes for i in (a, b - 1))
        steps, gains = STEPS.block(first, last - first + 1)
        for thread in reversed(range(threads)):
            kernels.run_lanes(
                case.x[a:b], case.y[a:b], case.offset[a:b], case.weight, case.rows, case.newton, steps, gains,
                case.noise[a:b], a, thread, threads, plan, state,
            )  # fmt: skip
    return state


def by_devices(case):
    plan = case.plan
    state = lanes.init(case.start, -0.2, plan)
    for i in range(len(case.y)):
        lane = i // plan.batch % plan.lanes
        report = lane_report(
            plan, case.rows, state.theta[lane], math.exp(state.log_c[lane]), case.x[i], case.y[i], case.noise[i],
            case.offset[i] if len(case.offset) else 0.0,
        )  # fmt: skip
        state = lanes.update(state, plan, STEPS, case.newton, i, report)
    return state


def assert_same_bits(one, two):
    for name, a, b in zip(one._fields, one, two, strict=True):
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name


# --- Law 1 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", [1, 4, 7])
@pytest.mark.parametrize("chains", [1, 3, 8])
@pytest.mark.parametrize("kappa", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("family", FAMILIES)
def test_kernel_equals_devices_and_collector_bit_for_bit(family, kappa, chains, batch):
    rng = np.random.default_rng(batch)
    for path, with_offset in ((0, True), (1, True), (0, False), (1, False)):
        gram = int(path == with_offset)
        plan = make_plan(FAMILIES[family], batch, chains, kappa, path)._replace(gram=gram)
        # the last round of batches is left unfinished, so that some lanes are an update ahead and one is in a batch
        n = max(batch * chains * 2 + batch + batch // 2, 60)
        case = make_case(plan, n, with_offset=with_offset, seed=n + path)
        state = by_devices(case)
        assert_same_bits(by_kernel(case), state)
        for threads in (1, 2, 3):
            cuts = rng.integers(0, n, 5).tolist()
            assert_same_bits(by_kernel(case, cuts, threads), state)
        assert np.abs(state.theta - 0.3).max() > 0.01
        assert np.isfinite(state.theta).all()
        assert (state.log_c != -0.2).all() == (kappa > 0)
        assert int(state.updates.sum()) == n // batch
        assert state.late.any()
        assert bool(state.sums.any()) == bool(path)
        assert bool(state.gram.any()) == bool(gram)


@settings(max_examples=60, deadline=None)
@given(
    cuts=st.lists(st.integers(0, 500), max_size=12),
    threads=st.integers(1, 3),
    chains=st.sampled_from([1, 2, 8]),
    batch=st.sampled_from([1, 4, 7, 32]),
    family=st.sampled_from([HUBER, BALANCED]),
)
def test_rows_cut_anywhere_and_any_threads_give_the_same_bits(cuts, threads, chains, batch, family):
    case = make_case(make_plan(family, batch, chains, 0.5), 500)
    assert_same_bits(by_kernel(case, cuts, threads), by_kernel(case))


@settings(max_examples=60, deadline=None)
@given(first=st.integers(0, 10**6), m=st.integers(1, 40), skip=st.integers(0, 39))
def test_steps_of_an_update_do_not_depend_on_the_block_they_are_computed_in(first, m, skip):
    whole, part = STEPS.block(first, m + skip), STEPS.block(first + skip, m)
    for a, b in zip(whole, part, strict=True):
        np.testing.assert_array_equal(a[skip:], b)


def test_a_lane_knows_nothing_of_the_people_of_other_lanes():
    plan = make_plan(batch=4, chains=3, kappa=1.0)
    case = make_case(plan, 400)
    second = np.arange(400) // 4 % 3 == 1
    other = case._replace(y=np.where(second, -case.y, case.y), noise=np.where(second[:, None], 0.0, case.noise))
    one, two = by_kernel(case), by_kernel(other)
    for name, a, b in zip(one._fields, one, two, strict=True):
        if name not in {"origin", "functional"}:  # of all lanes
            assert a[[0, 2]].tobytes() == b[[0, 2]].tobytes(), name
    assert (one.theta[1] != two.theta[1]).all()


def test_a_thread_touches_its_own_lanes_only():
    case = make_case(make_plan(batch=4, chains=5), 200)
    state, untouched = lanes.init(case.start, -0.2, case.plan), lanes.init(case.start, -0.2, case.plan)
    steps, gains = STEPS.block(0, 11)
    kernels.run_lanes(*case[1:5], case.rows, case.newton, steps, gains, case.noise, 0, 1, 3, case.plan, state)
    assert state.updates.tolist() == [0, 0, 10, 10, 0]
    for name, a, b in zip(state._fields, state, untouched, strict=True):
        if name not in {"origin", "functional"}:  # of all lanes
            assert a[[0, 1, 4]].tobytes() == b[[0, 1, 4]].tobytes(), name


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("theta", [[1e200, -1e200, 1e200], [np.inf, -np.inf, 0.0], [np.nan, 1.0, 1.0]])
def test_an_iterate_that_has_overflowed_gives_noise_only_in_kernel_and_device(family, theta):
    plan = make_plan(FAMILIES[family], batch=2, chains=1)
    case = make_case(plan, 2)
    case = case._replace(x=np.full((2, 3), 1e120), rows=np.eye(3))  # η overflows though ‖z‖² does not
    state = lanes.init(np.array(theta), -0.2, plan._replace(batch=3))
    kernels.run_lanes(
        *case[1:5], case.rows, case.newton, *STEPS.block(0, 1), case.noise, 0, 0, 1, plan._replace(batch=3), state
    )
    reports = [
        lane_report(plan, case.rows, np.array(theta), math.exp(-0.2), x, y, z, o)
        for x, y, z, o in zip(case.x, case.y, case.noise, case.offset, strict=True)
    ]
    assert state.batch[0, :3].tobytes() == (0.0 + reports[0] + reports[1]).tobytes()
    np.testing.assert_array_equal(reports, plan.channel.scale * plan.radius * case.noise)


# --- what the sums stand for ---------------------------------------------------------------------------


class Recorded(NamedTuple):
    """Path of a lane: iterates at which people were asked, steps c ḡ, iterates after the updates, and log c then."""

    asked: np.ndarray
    scores: np.ndarray
    after: np.ndarray
    log_c: np.ndarray


def recorded(case):
    """State after all people, and every lane's path, from the reports alone."""
    plan, state = case.plan, lanes.init(case.start, -0.2, case.plan)
    paths = [Recorded([], [], [], []) for _ in range(plan.lanes)]
    held = [[] for _ in range(plan.lanes)]
    for i in range(len(case.y)):
        k = i // plan.batch % plan.lanes
        theta, c = state.theta[k].copy(), math.exp(state.log_c[k])
        report = lane_report(plan, case.rows, theta, c, case.x[i], case.y[i], case.noise[i], case.offset[i])
        held[k].append(report[:3])
        state = lanes.update(state, plan, STEPS, case.newton, i, report)
        if len(held[k]) == plan.batch:
            new = (theta, c * np.mean(held[k], axis=0), state.theta[k].copy(), float(state.log_c[k]))
            for path, value in zip(paths[k], new, strict=True):
                path.append(value)
            held[k] = []
    return state, [Recorded(*(np.array(v) for v in p)) for p in paths]


# Sums of some fifty terms near 1 in double precision: their order changes them by 1e-13 at most, and the random-scaling
# matrix, a difference of sums of up to 50³, by 1e-10.
TIGHT = {"rtol": 1e-10, "atol": 1e-11}
LOOSER = {"rtol": 1e-8, "atol": 1e-9}


@pytest.mark.parametrize("chains", [1, 3])
@pytest.mark.parametrize("kappa", [0.0, 0.5])
def test_sums_are_those_of_the_recorded_path(chains, kappa):
    case = make_case(make_plan(batch=4, chains=chains, kappa=kappa, late=6), 4 * chains * 50 + 5)
    state, paths = recorded(case)
    assert len(paths[0].asked) == 51  # the first lane is an update ahead
    groups = lanes.corrected(state, case.plan, case.newton)
    assert [g.people for g in groups] == [4 * len(p.asked) for p in paths]
    moving = np.zeros((3, 3))
    for gram, p in zip(state.gram, paths, strict=True):
        both = np.column_stack([p.scores, p.asked - case.start, np.ones(len(p.asked))])
        np.testing.assert_allclose(gram, np.tril(both.T @ both), **TIGHT)
    for group, p in zip(groups, paths, strict=True):
        corrections = p.asked - p.scores @ case.newton.T
        np.testing.assert_allclose(group.estimate, corrections.mean(axis=0), **TIGHT)
        away = corrections - corrections.mean(axis=0)
        partial = np.array([away[: k + 1].sum(axis=0) for k in range(len(away))])
        moving += sum(np.outer(s, s) for s in partial) / len(away) ** 2 / chains
    np.testing.assert_allclose(lanes.scaling(state), moving, **LOOSER)
    # a joint report has noise of variance (4 + kappa²)/μ² on the score, beside the signal's .7/3
    signal = 0.7 / 3.0
    weights = np.array([4.0 * len(p.asked) * (1.0 + signal) / (1.0 + kappa**2 / 4.0 + signal) for p in paths])
    np.testing.assert_allclose([g.weight for g in groups], weights, rtol=1e-14)
    estimates = np.array([g.estimate for g in groups])
    middle = np.average(estimates, axis=0, weights=weights)
    np.testing.assert_allclose(lanes.pooled(groups), middle, **TIGHT)
    if chains == 1:
        theta, log_c = lanes.late_average(state, case.plan)
        np.testing.assert_allclose(theta, paths[0].after[6:].mean(axis=0), **TIGHT)
        assert log_c == pytest.approx(paths[0].log_c[6:].mean(), rel=1e-12)
        return
    spread = sum(w * np.outer(e - middle, e - middle) for w, e in zip(weights, estimates, strict=True))
    np.testing.assert_allclose(lanes.between(groups), spread / (chains - 1) / weights.sum(), **TIGHT)


def test_a_stage_without_a_second_half_ends_at_its_iterate():
    case = make_case(make_plan(batch=4, chains=1, kappa=1.0, late=6), 4 * 6)
    state, paths = recorded(case)
    theta, log_c = lanes.late_average(state, case.plan)
    np.testing.assert_array_equal(theta, paths[0].after[-1])
    assert log_c == paths[0].log_c[-1]


def test_lanes_that_have_not_been_updated_make_no_group():
    case = make_case(make_plan(batch=4, chains=8), 4 * 5 + 3)
    groups = lanes.corrected(by_kernel(case), case.plan, case.newton)
    assert [g.people for g in groups] == [4] * 5


def test_a_correction_takes_out_the_start_when_the_newton_matrix_is_exact():
    # with a score that is linear, A(θ − θ*), and P = A⁻¹, every correction is θ* whatever the start and the steps
    plan = make_plan(batch=1, chains=1, path=0, late=0)._replace(radius=0.0)
    state, truth = lanes.init(np.array([3.0, -2.0]), 0.0, plan), np.array([0.25, 0.5])
    a = np.array([[2.0, 0.3], [0.3, 1.0]])
    for i in range(20):
        state = lanes.update(state, plan, STEPS, np.linalg.inv(a), i, a @ (state.theta[0] - truth))
    np.testing.assert_allclose(lanes.corrected(state, plan, np.linalg.inv(a))[0].estimate, truth, rtol=1e-13)
    assert np.abs(state.origin + state.total[0] / 20 - truth).min() > 0.1  # the plain average is still far off


# --- what may be concluded from groups of unequal weight -----------------------------------------------

WEIGHTS = [400.5, 100, 100, 90.25, 50, 20, 10, 10, 5]
V = np.array([[2.0, 0.8], [0.8, 0.5]])


def simulated(rng):
    """Independent estimates of 0 with variance V/weight."""
    z = rng.standard_normal((len(WEIGHTS), 2)) @ np.linalg.cholesky(V).T
    return [GroupEstimate(1, w, e / math.sqrt(w)) for w, e in zip(WEIGHTS, z, strict=True)]


def test_covariance_between_groups_of_unequal_weight_is_unbiased_and_t_intervals_hold():
    rng, runs, df = np.random.default_rng(31), 4000, len(WEIGHTS) - 1
    drawn = [simulated(rng) for _ in range(runs)]
    found = np.array([lanes.between(groups) for groups in drawn])
    means = np.array([lanes.pooled(groups) for groups in drawn])
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -2.0]]):
        variance = direction @ V @ direction / sum(WEIGHTS)
        spread = np.einsum("rij,i,j->r", found, direction, direction)
        # for normal estimates df · spread/variance is χ² with df degrees of freedom, so their sum is χ² too
        low, high = chi2.ppf([RARE / 2, 1 - RARE / 2], runs * df)
        assert low <= spread.sum() * df / variance <= high
        assert high / runs / df < 1.05  # the limits are narrow: a bias of 5% would be seen
        ratios = np.abs(means @ direction) / np.sqrt(spread)
        inside = [int((ratios <= q).sum()) for q in (t.ppf(0.975, df), norm.ppf(0.975))]
        low, high = binom.ppf([RARE / 2, 1 - RARE / 2], runs, 0.95)
        assert low <= inside[0] <= high
        assert inside[1] < low  # and the normal law's quantile would not do
