"""Laws of reports: kernels are devices and collector bit for bit, and no two reports are farther apart than claimed."""

import math
from typing import NamedTuple

import numpy as np
import pytest

import privreg as pr
from privreg.collector import location, sgd
from privreg.collector.steps import Steps
from privreg.device.sampler import NoiseStream, derived_key
from privreg.device.score import Device, curvature_report, lane_report, location_report, moment_report, score_report
from privreg.families.scores import HAVE_CURVATURE
from privreg.families.weights import SCORE_WEIGHTS
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.protocol.codes import FULL
from privreg.simulation.sgd import AveragedSGD, make_plan
from privreg.simulation.staged import kernels, lanes
from privreg.simulation.staged.schedule import ChainSteps
from tests.helpers import BOUNDED_WEIGHTS
from tests.kinds import (
    BROKEN,
    KINDS,
    MECHANISMS,
    Kind,
    adversarial,
    mechanism,
    plan_of,
    quiet,
    reports_of,
    responses,
)

STEPS = ChainSteps(first=0.4, scale=7.0, alpha=0.7, gain=0.3, delay=20.0)
EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_MECHANISM = pytest.mark.parametrize("name", MECHANISMS)
WEIGHTED = pytest.mark.parametrize(("name", "weight"), [*((m, False) for m in MECHANISMS), ("gaussian", True)])
"""Budgets of people's own go with Gaussian noise."""
D = 3
N = 66
ROUNDING = 1e-12


class People(NamedTuple):
    """Rows in internal units, what is known of them, and noise for each."""

    x: np.ndarray
    y: np.ndarray
    offset: np.ndarray
    weight: np.ndarray
    noise: np.ndarray


def people(plan, kind, mechanism_, *, offset=False, weight=False, seed=3):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((N, D)) if plan.label else adversarial(rng, N, D)
    x[:, 0] = 1.0
    if plan.label:  # as far out as public covariates may be
        x[5::11, 1:] *= 10.0 ** rng.integers(1, 200, x[5::11, 1:].shape)
    y = rng.integers(0, plan.blocks + 1, N).astype(float) if plan.blocks > 1 else responses(kind, rng, N)
    y[4::11] = math.nan  # people who have nothing to tell
    x[7::13, 1] = math.nan
    if not plan.label:  # public covariates are bounded, or the fit is the user's own trouble
        x[9::17, 2], y[11::19] = rng.choice(BROKEN, 4), math.nan
    size = (1 if plan.label else plan.blocks * D) + (plan.kappa > 0)
    return People(
        np.ascontiguousarray(x),
        y,
        rng.uniform(-0.5, 0.5, N) if offset else np.empty(0),
        4.0 ** -rng.integers(0, 4, N) if weight else np.empty(0),
        rng.standard_normal((N, mechanism_.width(size))),
    )


def public(plan, seed=4):
    """Row map, Newton matrix and start."""
    rng = np.random.default_rng(seed)
    rows = np.tril(0.2 * rng.standard_normal((D, D))) + np.eye(D)
    side = plan.blocks * D
    return rows, 0.1 * np.eye(side) + 0.01 * rng.standard_normal((side, side)), np.full(side, 0.3)


def by_kernel(plan, given, cut):
    rows, newton, start = public(plan)
    state = lanes.init(start, -0.2, plan)
    for a, b in ((0, cut), (cut, N)):
        first, last = (i // plan.batch // plan.lanes for i in (a, b - 1))
        part = [v[a:b] for v in given]
        kernels.run_lanes(
            *part[:4], rows, newton, *STEPS.block(first, last - first + 1), part[4], a, 0, 1, plan, state
        )  # fmt: skip
    return state


def of_weight(plan, w):
    """The plan of somebody with a weight that is a power of 4, so that no rounding comes in."""
    return plan._replace(channel=plan.channel._replace(scale=plan.channel.scale / math.sqrt(w)))


def by_devices(plan, given, function):
    rows, newton, start = public(plan)
    state = lanes.init(start, -0.2, plan)
    for i in range(N):
        k, w = i // plan.batch % plan.lanes, float(given.weight[i]) if len(given.weight) else 1.0
        report = lane_report(
            of_weight(plan, w), rows, state.theta[k], math.exp(state.log_c[k]), given.x[i], given.y[i], given.noise[i],
            float(given.offset[i]) if len(given.offset) else 0.0, function,
        )  # fmt: skip
        state = lanes.update(state, plan, STEPS, newton, i, report, w)
    return state


def assert_same_bits(one, two):
    for name, a, b in zip(one._fields, one, two, strict=True):
        assert a.dtype == b.dtype, name
        assert a.tobytes() == b.tobytes(), name


def check(plan, kind, mechanism_, **which):
    given = people(plan, kind, mechanism_, **which)
    state = by_devices(plan, given, kind.function)
    for cut in (1, 31):
        assert_same_bits(by_kernel(plan, given, cut), state)
    assert np.isfinite(state.theta).all()
    assert (state.theta != 0.3).all()
    assert (state.log_c != -0.2).all() == (plan.kappa > 0)
    assert state.updates.sum() == N // plan.batch
    assert np.tril(state.gram).any(axis=(1, 2)).all()


# --- chains ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("label", [False, True])
@EVERY_MECHANISM
@EVERY_KIND
def test_every_family_and_mechanism_in_chains_bit_for_bit(kind, name, label, joint):
    reports = reports_of(KINDS[kind], name, label=label)
    for offset in (False, True):
        plan = plan_of(KINDS[kind], reports, D, joint=joint)
        check(plan, KINDS[kind], reports.mechanism, offset=offset)


@EVERY_MECHANISM
def test_a_score_that_is_not_a_number_at_infinity_bit_for_bit(name):
    kind = KINDS["custom"]._replace(low=-math.inf, high=math.inf)
    reports = reports_of(kind, name, label=True)
    plan = plan_of(kind, reports, D, joint=False)
    assert math.isnan(kernels.unit_score(plan.shape, 1.0, 0.3, math.inf))
    check(plan, kind, reports.mechanism)


@pytest.mark.parametrize("joint", [False, True])
@pytest.mark.parametrize("label", [False, True])
@EVERY_KIND
def test_personal_weights_bit_for_bit(kind, label, joint):
    # budgets of people's own go with Gaussian noise
    reports = reports_of(KINDS[kind], "gaussian", label=label)
    plan = plan_of(KINDS[kind], reports, D, joint=joint, worth=0.4)
    check(plan, KINDS[kind], reports.mechanism, weight=True, offset=True)


@pytest.mark.parametrize("blocks", [2, 3, 5])
@WEIGHTED
def test_multinomial_blocks_bit_for_bit(name, blocks, weight):
    kind = KINDS["balanced"]
    reports = reports_of(kind, name, label=False, blocks=blocks)
    check(plan_of(kind, reports, D, joint=False), kind, reports.mechanism, weight=weight)


@pytest.mark.parametrize("label", [False, True])
@EVERY_MECHANISM
def test_without_privacy_there_is_no_noise(name, label):
    kind = KINDS["huber"]
    reports = reports_of(kind, "gaussian", label=label)._replace(mechanism=Mechanism(name, Budget.declare(mu=None)))
    plan = plan_of(kind, reports, D, joint=True)
    given = people(plan, kind, mechanism("gaussian"))
    state = by_kernel(plan, given, 20)
    assert_same_bits(state, by_kernel(plan, given._replace(noise=1e3 * given.noise), 20))
    assert_same_bits(state, by_devices(plan, given, None))


# --- scales ------------------------------------------------------------------------------------------------


def budget_of(mechanism_, w):
    """The mechanism of somebody of weight w: of budget √w μ."""
    return mechanism_ if w == 1.0 else Mechanism("gaussian", Budget.declare(mu=mechanism_.budget.mu * math.sqrt(w)))


@pytest.mark.parametrize("m", [1, 3])
@WEIGHTED
def test_location_reports_bit_for_bit(name, m, weight):
    rng, mech = np.random.default_rng(m), mechanism(name)
    v = adversarial(rng, N, m)
    v[3::7] = rng.choice(BROKEN, v[3::7].shape)
    centre, spread = rng.standard_normal(m), np.exp(rng.uniform(-9, 9, m))
    noise = rng.standard_normal((N, mech.width(2 * m)))
    w = 4.0 ** -rng.integers(0, 4, N) if weight else np.empty(0)
    total, expected = np.zeros(2 * m), np.zeros(2 * m)
    given = (mech.channel(2 * m), mech.bits_radius(2 * m), w)
    kernels.location_reports(v, centre, spread, noise[:40], *given, total, 5, 40)
    for i in range(5, 45):
        mine = float(w[i]) if weight else 1.0
        expected += mine * location_report(budget_of(mech, mine), centre, spread, v[i], noise[i - 5])
    assert total.tobytes() == expected.tobytes()
    assert np.isfinite(total).all()
    silent = location_report(Mechanism("gaussian", Budget.declare(mu=None)), centre, spread, v[0] * math.nan, noise[0])
    np.testing.assert_allclose(silent, [0.5, location.TARGET] * m, rtol=1e-15)


@pytest.mark.parametrize("d", [1, 2, 4])
@WEIGHTED
def test_moment_reports_bit_for_bit(name, d, weight):
    rng, mech = np.random.default_rng(d), mechanism(name)
    v, size = adversarial(rng, N, d), d * (d + 1) // 2
    v[3::7, -1] = rng.choice(BROKEN, len(v[3::7]))
    rows = np.tril(rng.standard_normal((d, d))) + 2 * np.eye(d)
    noise = rng.standard_normal((N, mech.width(size)))
    w = 4.0 ** -rng.integers(0, 4, N) if weight else np.empty(0)
    total, expected = np.zeros(size), np.zeros(size)
    given = (mech.channel(size), mech.moment_radius(), w)
    kernels.moment_reports(v, rows, noise[:40], *given, total, 5, 40)
    for i in range(5, 45):
        mine = float(w[i]) if weight else 1.0
        expected += mine * moment_report(budget_of(mech, mine), rows, v[i], noise[i - 5])
    assert total.tobytes() == expected.tobytes()
    assert np.isfinite(total).all()


@EVERY_MECHANISM
def test_scale_reports_lie_in_the_ball_they_are_randomised_in(name):
    mech, bare = mechanism(name), Mechanism("gaussian", Budget.declare(mu=None))
    rng = np.random.default_rng(7)
    v = adversarial(rng, 200, 3)
    v[3::7] = rng.choice(BROKEN, v[3::7].shape)
    rows, zero = np.tril(rng.standard_normal((3, 3))) + 2 * np.eye(3), np.zeros(9)
    moments = np.array([moment_report(bare, rows, row, zero) for row in v])
    bits = np.array([location_report(bare, np.zeros(3), np.ones(3), row, zero) for row in v]) - 0.5
    for reports, radius in ((moments, mech.moment_radius()), (bits, mech.bits_radius(6))):
        gaps = np.linalg.norm(reports[:, None] - reports[None], axis=2)
        assert gaps.max() <= 2 * radius * (1 + ROUNDING)
        if name in {"privunit", "randomized_response"}:
            assert np.linalg.norm(reports, axis=1).max() <= radius * (1 + ROUNDING)
        else:
            assert gaps.max() > 2 * radius * 0.99  # no larger than it must be


# --- the single chain --------------------------------------------------------------------------------------

KEY = bytes(range(32))
SLOW = Steps(0.2, 0.51, 3.0)


def single(kind, name, weights, p):
    score, w = kind.score, SCORE_WEIGHTS[weights]
    reach2 = w.reach2 if math.isfinite(w.reach2) else 3.0
    return Device(
        score, w, mechanism(name), w.reach, score.curvature_bound * reach2, function=kind.function, alone=p == 1
    )  # fmt: skip


def in_both(device, p, blocks, x, y, offset, *, batch, share):
    """State of the single chain by the kernel, in two chunks, and by devices and collector; and who sent what."""
    d = p * blocks
    plan = make_plan(
        device, p, blocks, batch=batch, scaling_mode=FULL, outer=2, curvature_share=share, central=False
    )  # fmt: skip
    widths = device.mechanism.width(d), device.mechanism.width(p * (p + 1) // 2)
    run = AveragedSGD(plan, SLOW, sgd.init(np.full(d, 0.1), plan, np.ones(d)), np.eye(d), KEY, widths)
    for a, b in ((0, 17), (17, len(y))):
        run.advance(y[a:b], x[a:b], offset[a:b])
    state = sgd.init(np.full(d, 0.1), plan, np.ones(d))
    noise, bend = (
        NoiseStream(derived_key(KEY, k), w).peek() for k, w in zip(("score", "curvature"), widths, strict=True)
    )
    sent = [0, 0]
    for i in range(len(y)):
        if share and kernels.is_curvature_turn(i, plan.curvature_share):
            centre = sgd.curvature_centre(state)
            report = curvature_report(device, centre, x[i], y[i], bend[sent[1]], offset[i])
            state, sent[1] = sgd.update_curvature(state, report), sent[1] + 1
        else:
            report = score_report(device, state.theta, x[i], y[i], noise[sent[0]], offset[i])
            state, sent[0] = sgd.update(state, plan, SLOW, report), sent[0] + 1
    assert np.isfinite(state.theta).all()
    assert (state.theta != 0.1).all()
    return run.state, state, sent


def single_rows(rng, n, p):
    x = rng.standard_normal((n, p))
    x[:, 0], x[5::11, 1:] = 1.0, rng.choice([1e155, -1e8, 1e-200, 0.0], x[5::11, 1:].shape)
    return x


@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@EVERY_MECHANISM
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "balanced"])
def test_every_family_and_mechanism_in_the_single_chain_bit_for_bit(kind, name, weights, p):
    kind, rng, n = KINDS[kind], np.random.default_rng(p), 120
    share = 0.3 if kind.shape.family in HAVE_CURVATURE else 0.0
    x, y, offset = single_rows(rng, n, p), responses(kind, rng, n), rng.uniform(-0.5, 0.5, n)
    batch = 1 if weights == "unit" else 3
    one, two, sent = in_both(single(kind, name, weights, p), p, 1, x, y, offset, batch=batch, share=share)
    assert_same_bits(one, two)
    assert (sent[1] > 0) == (share > 0)


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@EVERY_MECHANISM
def test_multinomial_blocks_in_the_single_chain_bit_for_bit(name, weights, blocks):
    kind, rng, n, p = Kind(pr.Multinomial()), np.random.default_rng(blocks), 120, 3
    y = rng.integers(0, blocks + 1, n).astype(float)
    device = single(kind, name, weights, p)
    one, two, _ = in_both(device, p, blocks, single_rows(rng, n, p), y, np.zeros(n), batch=2, share=0.0)
    assert_same_bits(one, two)


# --- sensitivity -------------------------------------------------------------------------------------------


def bare_reports(plan, kind, theta, x, y):
    """Reports without noise, about the centre of their ball."""
    d = x.shape[1]
    bare, rows, zero = quiet(plan), np.eye(d), np.zeros(plan.blocks * d + 1)
    every = zip(x, y, strict=True)
    out = np.array([lane_report(bare, rows, theta, 0.8, row, float(r), zero, 0.0, kind.function) for row, r in every])
    if plan.kappa > 0:
        out[:, -1] -= 0.5 * plan.kappa
    return out


def widest(reports):
    return max(np.linalg.norm(reports - r, axis=1).max() for r in reports)


def starts(rng, size):
    return [np.zeros(size), rng.standard_normal(size), np.full(size, 30.0), np.full(size, -1e6), np.full(size, 1e200)]


@pytest.mark.parametrize("joint", [False, True])
@EVERY_MECHANISM
@EVERY_KIND
def test_reports_of_records_are_no_farther_apart_than_claimed(kind, name, joint):
    kind = KINDS[kind]
    plan = plan_of(kind, reports_of(kind, name, label=False), D, joint=joint)
    rng = np.random.default_rng(5)
    x, y = adversarial(rng, 120, D), responses(kind, rng, 120)
    y[7::23], x[9::17, 1] = math.nan, math.nan
    x[10:20], x[30:40, 1:], x[31:40:2, 0] = rng.standard_normal((10, D)), 0.0, -1.0
    gaps = []
    for theta in starts(rng, D):
        reports = bare_reports(plan, kind, theta, x, y)
        assert np.isfinite(reports).all()
        # also those that add noise to coordinates alone are sent in a ball that holds them
        assert np.linalg.norm(reports, axis=1).max() <= plan.radius * (1 + ROUNDING)
        gaps.append(widest(reports))
    assert max(gaps) <= 2 * plan.radius * (1 + ROUNDING)
    assert max(gaps) > 2 * 0.9 * (1.0 if joint else plan.radius)  # two scores of full length, opposite


@pytest.mark.parametrize("blocks", [2, 4])
@EVERY_MECHANISM
def test_reports_of_several_classes_are_no_farther_apart_than_claimed(name, blocks):
    kind = KINDS["balanced"]
    plan = plan_of(kind, reports_of(kind, name, label=False, blocks=blocks), D, joint=False)
    rng = np.random.default_rng(blocks)
    x, y = adversarial(rng, 120, D), rng.integers(0, blocks + 1, 120).astype(float)
    y[7::23], x[9::17, 1] = math.nan, math.nan
    x[30:40, 1:], x[31:40:2, 0] = 0.0, -1.0
    gaps = []
    for theta in (*starts(rng, blocks * D), np.repeat([40.0, 40.0, *[-40.0] * (blocks - 2)], D)):
        reports = bare_reports(plan, kind, theta, x, y)
        assert np.isfinite(reports).all()
        assert np.linalg.norm(reports, axis=1).max() <= plan.radius * (1 + ROUNDING)
        gaps.append(widest(reports))
    assert 2 * plan.radius * 0.99 < max(gaps) <= 2 * plan.radius * (1 + ROUNDING)


def person_radius(plan, eta):
    """Of the ball in which somebody's label lies who has this predictor, written independently."""
    ends = [kernels.unit_score(plan.shape, 0.8, eta, y) for y in (plan.y_low, plan.y_high)]
    return math.hypot(0.5 * abs(ends[0] - ends[1]), 0.5 * plan.kappa)


@pytest.mark.parametrize("joint", [False, True])
@EVERY_MECHANISM
@EVERY_KIND
def test_reports_of_labels_are_no_farther_apart_than_claimed_for_the_same_covariates(kind, name, joint):
    kind = KINDS[kind]
    plan = plan_of(kind, reports_of(kind, name, label=True), 1, joint=joint)
    rng, x = np.random.default_rng(6), np.ones((60, 1))
    y = responses(kind, rng, 60)  # values outside the limits among them
    y[:3] = math.nan, kind.low, kind.high
    full = 0
    for eta in (*np.linspace(-4, 4, 33), 30.0, -30.0, 1e6, -1e6, 1e300):
        reports = bare_reports(plan, kind, np.array([eta]), x, y)
        radius = person_radius(plan, eta)
        assert radius <= plan.radius * (1 + ROUNDING)
        gap = widest(reports)
        assert gap <= 2 * radius * (1 + ROUNDING)
        full += gap > 2 * 0.99 * (1.0 if joint else radius) > 0
        # what is randomised is this person's number about the middle of its range, and lies in that ball: up to the
        # rounding of a middle near 1, which moves all alike
        ends = [kernels.unit_score(plan.shape, 0.8, eta, v) for v in (plan.y_low, plan.y_high)]
        reports[:, 0] -= 0.5 * (ends[0] + ends[1])
        assert np.linalg.norm(reports, axis=1).max() <= radius * (1 + ROUNDING) + 3e-16
    assert full or joint


@pytest.mark.parametrize("tau", [0.5, 0.8, 0.05])
def test_a_quantile_of_one_variable_has_sensitivity_one(tau):
    kind = KINDS["quantile"]._replace(family=pr.Quantile(tau), low=-math.inf, high=math.inf)
    top = max(tau, 1.0 - tau)
    y = np.array([-1e300, -1.0, 0.2, 5.0, 1e300, math.nan])
    for label, claim in ((True, 1.0), (False, 2.0 * top)):
        plan = plan_of(kind, reports_of(kind, "laplace", label=label), 1, joint=False)
        reports = top * bare_reports(plan, kind, np.array([0.3]), np.ones((6, 1)), y)
        assert widest(reports) == pytest.approx(1.0, rel=1e-9)
        radius = top * (person_radius(plan, 0.3) if label else plan.radius)
        assert 2 * radius == pytest.approx(claim, rel=1e-9)
        # Laplace noise of one device, by its own formula
        noise = np.array([1.5, -0.5, 2.0])
        out = lane_report(plan, np.eye(1), np.array([0.3]), 1.0, np.ones(1), 5.0, noise)
        scale = claim / (top * 2.0)  # epsilon is 2
        assert out[0] == pytest.approx(-tau / top + scale * math.sqrt(2.5) * 2.0, rel=1e-9)
