"""Laws of reports: the chain's loop is devices and collector, bit for bit; reports lie as near as claimed."""

import math
from dataclasses import replace

import numpy as np
import pytest

import privreg as pr
from privreg.families.scores import SCORE_WEIGHTS
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import Mechanism
from privreg.privacy.noise import NoiseStream, derived_key
from privreg.protocol.codes import FULL, MULTINOMIAL
from privreg.published.chain import collector, kernels
from privreg.published.chain.plans import Published, Steps
from privreg.published.chain.run import AveragedSGD
from tests.devices import HAVE_CURVATURE, moment_report, round_report, threshold_report
from tests.helpers import BOUNDED_WEIGHTS
from tests.kinds import (
    BROKEN,
    KINDS,
    MECHANISMS,
    Kind,
    adversarial,
    assert_twins,
    mechanism,
    plan_of,
    quiet,
    responses,
    unit_score,
)
from tests.published.twin import curvature_centre, curvature_report, score_report, update, update_curvature

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_MECHANISM = pytest.mark.parametrize("name", MECHANISMS)
D = 3
ROUNDING = 1e-12


# --- scales ------------------------------------------------------------------------------------------------


@EVERY_MECHANISM
def test_scale_reports_lie_in_the_ball_they_are_randomised_in(name):
    mech, bare = mechanism(name), Mechanism("gaussian", Budget.declare(mu=None))
    rng = np.random.default_rng(7)
    v = adversarial(rng, 200, 3)
    v[3::7] = rng.choice(BROKEN, v[3::7].shape)
    rows, zero = np.tril(rng.standard_normal((3, 3))) + 2 * np.eye(3), np.zeros(9)
    moments = np.array([moment_report(bare, rows, row, zero) for row in v])
    bits = np.array([threshold_report(bare, np.zeros(3), row, zero) for row in v]) - 0.5
    for reports, radius in ((moments, mech.curvature_radius(1.0)), (bits, mech.bits_radius(3))):
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
    return Published(score, w, mechanism(name), w.reach, score.curvature_bound * reach2, SLOW, alone=p == 1)


def in_both(device, p, blocks, x, y, offset, *, batch, share, function=None):
    """State of the single chain by the kernel, in two chunks, and by devices and collector; and who sent what."""
    d = p * blocks
    device = replace(device, blocks=blocks, batch=batch, curvature_share=share)
    plan = device.plan(p, scaling_mode=FULL, outer=2, central=False)
    widths = device.mechanism.width(d), device.mechanism.width(p * (p + 1) // 2)
    run = AveragedSGD(plan, SLOW, collector.init(np.full(d, 0.1), plan, np.ones(d)), np.eye(d), KEY)
    for a, b in ((0, 17), (17, len(y))):
        run.advance(y[a:b], x[a:b], offset[a:b])
    state = collector.init(np.full(d, 0.1), plan, np.ones(d))
    noise, bend = (
        NoiseStream(derived_key(KEY, k), w).peek() for k, w in zip(("score", "curvature"), widths, strict=True)
    )
    sent = [0, 0]
    for i in range(len(y)):
        if share and kernels.is_curvature_turn(i, plan.curvature_share):
            centre = curvature_centre(state)
            report = curvature_report(device, centre, x[i], y[i], bend[sent[1]], offset[i])
            state, sent[1] = update_curvature(state, report), sent[1] + 1
        else:
            report = score_report(device, state.theta, x[i], y[i], noise[sent[0]], offset[i], function)
            state, sent[0] = update(state, plan, SLOW, report), sent[0] + 1
    assert np.isfinite(state.theta).all()
    assert (state.theta != 0.1).all()
    return run.state, state, sent


def single_rows(rng, n, p):
    x = rng.standard_normal((n, p))
    x[:, 0], x[5::11, 1:] = 1.0, rng.choice([1e155, -1e8, 1e-200, 0.0], x[5::11, 1:].shape)
    return x


@pytest.mark.some(36)
@pytest.mark.parametrize("p", [1, 4])
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@EVERY_MECHANISM
@pytest.mark.parametrize("kind", [k for k in KINDS if k != "balanced"])
def test_every_family_and_mechanism_in_the_single_chain_is_its_twins(kind, name, weights, p):
    kind, rng, n = KINDS[kind], np.random.default_rng(p), 120
    share = 0.3 if kind.shape.family in HAVE_CURVATURE else 0.0
    x, y, offset = single_rows(rng, n, p), responses(kind, rng, n), rng.uniform(-0.5, 0.5, n)
    batch = 1 if weights == "unit" else 3
    one, two, sent = in_both(
        single(kind, name, weights, p), p, 1, x, y, offset, batch=batch, share=share, function=kind.function
    )
    assert_twins(one, two, kind.shape.family)
    assert (sent[1] > 0) == (share > 0)


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("weights", BOUNDED_WEIGHTS)
@EVERY_MECHANISM
def test_multinomial_blocks_in_the_single_chain_is_its_twins(name, weights, blocks):
    kind, rng, n, p = Kind(pr.Multinomial()), np.random.default_rng(blocks), 120, 3
    y = rng.integers(0, blocks + 1, n).astype(float)
    device = single(kind, name, weights, p)
    one, two, _ = in_both(device, p, blocks, single_rows(rng, n, p), y, np.zeros(n), batch=2, share=0.0)
    assert_twins(one, two, MULTINOMIAL)


# --- sensitivity -------------------------------------------------------------------------------------------


def bare_reports(plan, kind, theta, x, y):
    """Reports without noise, about the centre of their ball."""
    d = x.shape[1]
    bare, rows, zero = quiet(plan), np.eye(d), np.zeros(plan.blocks * d + 1)
    every = zip(x, y, strict=True)
    out = np.array([round_report(bare, rows, theta, 0.8, row, float(r), zero, 0.0, kind.function) for row, r in every])
    if plan.kappa > 0:
        out[:, -1] -= 0.5 * plan.kappa
    return out


def widest(reports):
    return max(np.linalg.norm(reports - r, axis=1).max() for r in reports)


def starts(rng, size):
    return [np.zeros(size), rng.standard_normal(size), np.full(size, 30.0), np.full(size, -1e6), np.full(size, 1e200)]


@pytest.mark.some(40)
@pytest.mark.parametrize("joint", [False, True])
@EVERY_MECHANISM
@EVERY_KIND
def test_reports_of_records_are_no_farther_apart_than_claimed(kind, name, joint):
    kind = KINDS[kind]
    plan = plan_of(kind, name, D, label=False, joint=joint)
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
    plan = plan_of(kind, name, D, label=False, blocks=blocks, joint=False)
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
    ends = [unit_score(plan.shape, 0.8, eta, y) for y in (plan.y_low, plan.y_high)]
    return math.hypot(0.5 * abs(ends[0] - ends[1]), 0.5 * plan.kappa)


@pytest.mark.some(8)
@pytest.mark.parametrize("joint", [False, True])
@EVERY_MECHANISM
@EVERY_KIND
def test_reports_of_labels_are_no_farther_apart_than_claimed_for_the_same_covariates(kind, name, joint):
    kind = KINDS[kind]
    plan = plan_of(kind, name, 1, label=True, joint=joint)
    rng, x = np.random.default_rng(6), np.ones((60, 1))
    y = responses(kind, rng, 60)  # values outside the limits among them
    y[:3] = math.nan, kind.low, kind.high
    full = 0
    for eta in (*np.linspace(-4, 4, 13), 30.0, -30.0, 1e6, -1e6, 1e300):
        reports = bare_reports(plan, kind, np.array([eta]), x, y)
        radius = person_radius(plan, eta)
        assert radius <= plan.radius * (1 + ROUNDING)
        gap = widest(reports)
        assert gap <= 2 * radius * (1 + ROUNDING)
        full += gap > 2 * 0.99 * (1.0 if joint else radius) > 0
        # what is randomised is this person's number about the middle of its range, and lies in that ball: up to the
        # rounding of a middle near 1, which moves all alike
        ends = [unit_score(plan.shape, 0.8, eta, v) for v in (plan.y_low, plan.y_high)]
        reports[:, 0] -= 0.5 * (ends[0] + ends[1])
        assert np.linalg.norm(reports, axis=1).max() <= radius * (1 + ROUNDING) + 3e-16
    assert full or joint


@pytest.mark.parametrize("tau", [0.5, 0.8, 0.05])
def test_a_quantile_of_one_variable_has_sensitivity_one(tau):
    kind = KINDS["quantile"]._replace(family=pr.Quantile(tau), low=-math.inf, high=math.inf)
    top = max(tau, 1.0 - tau)
    y = np.array([-1e300, -1.0, 0.2, 5.0, 1e300, math.nan])
    for label, claim in ((True, 1.0), (False, 2.0 * top)):
        plan = plan_of(kind, "laplace", 1, label=label, joint=False)
        reports = top * bare_reports(plan, kind, np.array([0.3]), np.ones((6, 1)), y)
        assert widest(reports) == pytest.approx(1.0, rel=1e-9)
        radius = top * (person_radius(plan, 0.3) if label else plan.radius)
        assert 2 * radius == pytest.approx(claim, rel=1e-9)
        # Laplace noise of one device, by its own formula
        noise = np.array([1.5, -0.5, 2.0])
        out = round_report(plan, np.eye(1), np.array([0.3]), 1.0, np.ones(1), 5.0, noise)
        scale = claim / (top * 2.0)  # epsilon is 2
        assert out[0] == pytest.approx(-tau / top + scale * math.sqrt(2.5) * 2.0, rel=1e-9)
