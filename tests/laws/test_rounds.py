"""Laws of a fit by rounds: what is summed at once is what single devices send, and no record counts for more."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.audit import reports as audited
from privreg.collector.covariates.moments import Bounded
from privreg.families import measures, scores
from privreg.families.scores import Gauge
from privreg.fits.plan import device_plan
from privreg.privacy import mechanisms
from privreg.privacy.ledger import Budget
from privreg.privacy.mechanisms import (
    Mechanism,
    bits_sensitivity,
    joint_sensitivity,
    psd_sensitivity,
    score_sensitivity,
)
from privreg.protocol.rounds import GROUPS
from privreg.simulation import devices
from privreg.simulation.devices import Devices
from privreg.simulation.streaming.encoding import Block
from tests.devices import moment_report, randomised_one, round_report, scored, second_moments, threshold_report
from tests.kinds import BROKEN, EXTREME, KINDS, MECHANISMS, adversarial, mechanism, quiet, responses
from tests.rounds import plan_by_rounds, state_of

TRACKED = ("huber", "expectile", "quantile", "hinge", "smoothed hinge", "custom")
"""Families whose pilot reports may carry a number."""

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
EVERY_MECHANISM = pytest.mark.parametrize("name", MECHANISMS)
ROLES = pytest.mark.parametrize("role", ["pilot", "main"])
N = 4 * GROUPS
D = 3
CLOSE = {"rtol": 1e-9, "atol": 1e-9}
ROUNDING = 1e-9
NOBODY = Mechanism("gaussian", Budget.declare(mu=None))


def rows_of(plan, kind, rng, n=N):
    """Ordinary and adversarial rows, some of people who have nothing to tell."""
    x = rng.standard_normal((n, plan.d)) if plan.label else adversarial(rng, n, plan.d)
    x[::3, 0] = 1.0
    x[4], x[6] = 0.0, 0.0
    y = rng.integers(0, plan.blocks + 1, n).astype(float) if plan.blocks > 1 else responses(kind, rng, n)
    y[5::11], x[7::13, 1] = math.nan, math.nan
    x[9::17, 2] = rng.choice(BROKEN, len(x[9::17]))
    if plan.label:
        x[3::10, 1:] *= 10.0 ** rng.integers(1, 200, x[3::10, 1:].shape)
    else:
        y[10::19] = rng.choice(BROKEN, len(y[10::19]))
    return x, y


def by_devices(plan, state, x, y, noise, offset=None, weight=None):
    """Reports of single devices, one a row, each with its group's coefficients."""
    device, each = device_plan(plan, state), len(y) // len(state.offsets)
    device = quiet(device) if noise is None else device
    out = []
    for i in range(len(y)):
        theta, w = state.theta + state.offsets[i // each], 1.0 if weight is None else float(weight[i])
        drawn = np.zeros(plan.size + 2) if noise is None else noise[i]
        where = 0.0 if offset is None else float(offset[i])
        report = round_report(
            device, state.rows, theta, state.c, x[i], float(y[i]), drawn, where, plan.function, w
        )  # fmt: skip
        out.append(w * report)
    return np.array(out)


def grouped(reports, groups):
    return reports.reshape(groups, -1, reports.shape[1]).sum(axis=1)


# --- sums are those of devices -------------------------------------------------------------------------------


@pytest.mark.some(20)
@pytest.mark.parametrize("given_more", [False, True])
@ROLES
@EVERY_KIND
def test_sums_of_scores_are_those_of_devices(kind, role, given_more):
    track = kind in TRACKED
    for seed in range(4):
        rng = np.random.default_rng(seed)
        plan = plan_by_rounds(KINDS[kind], d=D, track=track)
        state = state_of(plan, role, rng)
        x, y = rows_of(plan, KINDS[kind], rng)
        offset = rng.uniform(-0.5, 0.5, N) if given_more else None
        weight = rng.uniform(0.1, 1.0, N) if given_more else None
        got = devices.sums(plan, state, y, x, offset, weight)
        expected = by_devices(plan, state, x, y, None, offset, weight)
        np.testing.assert_allclose(got, grouped(expected, len(state.offsets)), **CLOSE)
        assert got.shape == (len(state.offsets), plan.width(role))
        single = devices.reports(plan, state, y, x, offset)
        np.testing.assert_allclose(single * (1.0 if weight is None else weight[:, None]), expected, **CLOSE)


@ROLES
@pytest.mark.parametrize("label", [False, True])
@pytest.mark.parametrize("kind", [*(k for k in KINDS if k != "custom"), "classes"])
def test_reports_that_an_audit_randomises_are_those_of_devices(kind, label, role):
    blocks = 2 if kind == "classes" else 1
    kind_, rng = KINDS["balanced" if blocks > 1 else kind], np.random.default_rng(5)
    plan = plan_by_rounds(kind_, d=D, label=label and blocks == 1, track=kind in TRACKED, blocks=blocks)
    state = state_of(plan, role, rng)
    device, theta = device_plan(plan, state), state.theta + state.offsets[0]
    x, y = rows_of(plan, kind_, rng)
    for row, response in zip(x, y, strict=True):
        told = scored(device, state.rows, theta, state.c, row, float(response), 0.25)
        with np.errstate(over="ignore", invalid="ignore"):
            z = state.rows @ row
        for seen, expected in zip(audited.scored(device, theta, state.c, z, float(response), 0.25), told, strict=True):
            np.testing.assert_allclose(*(np.array(v, dtype=float) for v in (seen, expected)), **CLOSE)
        np.testing.assert_allclose(audited.second_moments(z), second_moments(state.rows, row), **CLOSE)


@pytest.mark.parametrize("blocks", [2, 4])
@ROLES
def test_sums_of_multinomial_scores_are_those_of_devices(blocks, role):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        plan = plan_by_rounds(KINDS["balanced"], d=D, blocks=blocks)
        state = state_of(plan, role, rng)
        x, y = rows_of(plan, KINDS["balanced"], rng)
        y[2], y[12], y[13] = -1.0, blocks + 1.0, 0.5  # no classes at all: nothing is told
        weight = rng.uniform(0.1, 1.0, N)
        expected = by_devices(plan, state, x, y, None, None, weight)
        assert not expected[[2, 12, 13]].any()
        np.testing.assert_allclose(
            devices.sums(plan, state, y, x, None, weight), grouped(expected, len(state.offsets)), **CLOSE
        )
        np.testing.assert_allclose(devices.reports(plan, state, y, x, None) * weight[:, None], expected, **CLOSE)


@pytest.mark.some(40)
@pytest.mark.parametrize("noisy", [False, True])
@ROLES
@EVERY_MECHANISM
@EVERY_KIND
def test_sums_of_private_responses_are_those_of_devices(kind, name, role, noisy):
    kind_, track = KINDS[kind], kind in TRACKED
    rng = np.random.default_rng(3)
    plan = plan_by_rounds(kind_, name, d=D, label=True, track=track)
    if not noisy:
        plan = plan._replace(mechanism=NOBODY)
    state = state_of(plan, role, rng)
    x, y = rows_of(plan, kind_, rng)
    offset, weight = rng.uniform(-0.5, 0.5, N), rng.uniform(0.1, 1.0, N) if name == "gaussian" else None
    noise = rng.standard_normal((N, plan.mechanism.width(plan.numbers(role))))
    got = devices.public_sums(plan, state, (y, x, offset, weight), (plan.y_low, plan.y_high), noise)
    expected = grouped(by_devices(plan, state, x, y, noise, offset, weight), len(state.offsets))
    size = np.abs(expected).max()
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9 * size)


@EVERY_MECHANISM
@pytest.mark.parametrize("size", [1, 2, 5])
def test_what_is_randomised_at_once_is_what_devices_randomise(name, size):
    if name == "randomized_response" and size > 1:
        name = "privunit"  # what it is for more numbers
    rng, mech = np.random.default_rng(size), mechanism(name)
    channel, radius = mech.channel(size), rng.uniform(0.5, 2.0, 300)
    rows = rng.standard_normal((300, size))
    rows *= (radius * rng.uniform(0.0, 1.0, 300) / np.linalg.norm(rows, axis=1))[:, None]
    rows[0], rows[1] = 0.0, 1e-200
    noise = rng.standard_normal((300, mech.width(size)))
    one = [randomised_one(channel, row, float(r), e) for row, r, e in zip(rows, radius, noise, strict=True)]
    np.testing.assert_allclose(mechanisms.randomised(channel, rows, radius, noise), one, **CLOSE)


@EVERY_MECHANISM
def test_sums_of_moments_are_those_of_devices(name):
    rng, mech = np.random.default_rng(4), mechanism(name)
    plan = plan_by_rounds(KINDS["huber"], name, d=D)
    v = adversarial(rng, N, D)
    v[5::7, 1] = rng.choice(BROKEN, len(v[5::7]))
    for size in (1.0, 1e-120, 1e150):
        state = state_of(plan, "moments", rng, size=size)
        silent = np.zeros(3 * D * D)
        bare = np.array([moment_report(NOBODY, state.rows, row, silent) for row in v])
        assert bare.any()
        weight = rng.uniform(0.1, 1.0, N)
        np.testing.assert_allclose(devices.moments(state, v, None)[0], bare.sum(axis=0), **CLOSE)
        np.testing.assert_allclose(devices.moments(state, v, weight)[0], weight @ bare, **CLOSE)
        np.testing.assert_allclose(devices.direction_moments(state, v), bare, **CLOSE)
        numbers = plan.numbers("moments")
        noise = rng.standard_normal((N, mech.width(numbers)))
        one = [moment_report(mech, state.rows, row, e) for row, e in zip(v, noise, strict=True)]
        moments = devices.direction_moments(state, v)
        got = mechanisms.randomised(mech.channel(numbers), moments, plan.radius("moments"), noise)
        np.testing.assert_allclose(got, one, **CLOSE)


@EVERY_MECHANISM
def test_indicators_are_those_of_devices(name):
    rng, mech = np.random.default_rng(5), mechanism(name)
    plan = plan_by_rounds(KINDS["huber"], name, d=D, unscaled=(1, 2))
    state = state_of(plan, "location", rng)
    v = adversarial(rng, N, 2)
    v[5::7, 1] = rng.choice(BROKEN, len(v[5::7]))
    noise = rng.standard_normal((N, mech.width(2)))
    each = N // GROUPS
    bare = [threshold_report(NOBODY, state.thresholds[i // each], v[i], noise[i]) for i in range(N)]
    np.testing.assert_array_equal(devices.indicators(state, v), bare)
    one = [threshold_report(mech, state.thresholds[i // each], v[i], noise[i]) for i in range(N)]
    before = devices.indicators(state, v) - 0.5
    got = mechanisms.randomised(mech.channel(2), before, plan.radius("location"), noise) + 0.5
    np.testing.assert_allclose(got, one, **CLOSE)


# --- what the engine randomises record by record ---------------------------------------------------------------


def by_record(plan, state, noise, rows, **known):
    """Sums of a block's reports by the engine, which is handed these normals."""
    return Devices(plan, state, known.get("gauge")).sums(rows, lambda count: noise.reshape(count))


@pytest.mark.parametrize("role", ["location", "moments", "pilot", "main"])
@pytest.mark.parametrize("name", ["laplace", "privunit"])
def test_what_the_engine_randomises_one_by_one_is_what_devices_send(name, role):
    rng, mech = np.random.default_rng(6), mechanism(name)
    plan = plan_by_rounds(KINDS["huber"], name, d=D, track=True, unscaled=(1, D), mechanism=mech)
    state = state_of(plan, role, rng)
    x, y = rows_of(plan, KINDS["huber"], rng)
    noise = rng.standard_normal((N, mech.width(plan.numbers(role))))
    if role == "location":
        each = N // GROUPS
        one = [threshold_report(mech, state.thresholds[i // each], [x[i, 1], y[i]], noise[i]) for i in range(N)]
    elif role == "moments":
        one = [moment_report(mech, state.rows, row, e) for row, e in zip(x, noise, strict=True)]
    else:
        one = by_devices(plan, state, x, y, noise)
    got = by_record(plan, state, noise, Block(y, x, None, None))
    np.testing.assert_allclose(got, grouped(np.array(one), len(state.offsets)), **CLOSE)


@EVERY_MECHANISM
def test_measures_of_fit_are_randomised_for_each_record(name):
    rng, mech, kind = np.random.default_rng(7), mechanism(name), KINDS["huber"]
    x, y = rng.standard_normal((N, D)), rng.standard_normal(N)
    weight = rng.uniform(0.1, 1.0, N) if name == "gaussian" else np.ones(N)
    gauge = Gauge(kind.family.code, kind.family.tau, 2, 1.0, 1.0, 0.0, kind.family.y_max)
    size = measures.values(gauge, y[:, None], y).shape[1]
    plan = plan_by_rounds(kind, name, d=D, mechanism=mech, measured=size, gauge=gauge)
    state = state_of(plan, "measures", rng)
    before = measures.values(gauge, (x @ state.rows.T @ state.theta)[:, None], y) - 0.5
    noise = rng.standard_normal((N, mech.width(size)))
    radii = mech.bits_radius(size) / np.sqrt(weight)
    told = [
        randomised_one(mech.channel(size), v, float(r), e) + 0.5 for v, r, e in zip(before, radii, noise, strict=True)
    ]
    got = by_record(plan, state, noise, Block(y, x, None, weight), gauge=gauge)[0]
    np.testing.assert_allclose(got[:size], weight @ np.array(told), **CLOSE)


@EVERY_MECHANISM
def test_what_bounds_clamp_is_told_with_the_noise_of_all_its_numbers(name):
    rng, mech, m = np.random.default_rng(11), mechanism(name), 5
    clamps = tuple(Bounded(f"c{j}", "covariate") for j in range(m))
    plan = plan_by_rounds(KINDS["huber"], name, d=D, mechanism=mech, clamps=clamps)
    state, flags = state_of(plan, "clamping", rng), rng.random((N, m)) < 0.4
    x, y = rows_of(plan, KINDS["huber"], rng)
    noise = rng.standard_normal((N, mech.width(m)))
    told = flags.astype(float)
    if name != "gaussian":  # of which noise falls on sums
        radius = mech.bits_radius(m)
        one = [randomised_one(mech.channel(m), v - 0.5, radius, e) for v, e in zip(told, noise, strict=True)]
        told = np.array(one) + 0.5
    got = by_record(plan, state, noise, Block(y, x, clamped=flags))
    np.testing.assert_allclose(got[0], told.sum(axis=0), **CLOSE)
    assert plan.radius("clamping") == mech.bits_radius(m)


# --- one record counts for no more than the noise is made for ------------------------------------------------

NUMBER = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True), st.floats(-3.0, 3.0), st.sampled_from((*EXTREME, *BROKEN))
)
SIZES = (1.0, 1e-310, 1e-150, 1e-20, 1e20, 1e150, 1e300)
STATES = st.sampled_from((0.0, 1.0, 1e3, 1e150, 1e300, 5e-324))


def neighbours(draw, kind, blocks=1):
    """Two records, as different as they may be, in the same place."""
    row = st.lists(NUMBER, min_size=D, max_size=D)
    value = st.sampled_from(range(blocks + 1)) if blocks > 1 else st.one_of(st.sampled_from(kind.responses), NUMBER)
    if blocks == 1 and kind.family.response != "number":
        value = st.one_of(st.sampled_from(kind.responses), st.just(math.nan))
    first, second = (np.array(draw(row)) for _ in range(2))
    return first, second, float(draw(value)), float(draw(value))


def hostile_state(draw, plan, role):
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    state = state_of(plan, role, rng, size=draw(st.sampled_from(SIZES)))
    return state._replace(theta=draw(STATES) * state.theta), rng


def change(sums, x, y, place, neighbour, response):
    """How far the raw sums move if one record is replaced, in all groups together."""
    before = sums(y, x)
    x, y = x.copy(), y.copy()
    x[place], y[place] = neighbour, response
    after = sums(y, x)
    assert np.isfinite(before).all()
    assert np.isfinite(after).all()
    return float(np.linalg.norm(after - before))


@pytest.mark.some(4)
@pytest.mark.parametrize("role", ["pilot", "main"])
@EVERY_KIND
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_a_score_counts_for_no_more_than_its_noise_is_made_for(kind, role, data):
    kind_ = KINDS[kind]
    plan = plan_by_rounds(kind_, d=D, track=kind in TRACKED)
    state, rng = hostile_state(data.draw, plan, role)
    first, second, y1, y2 = neighbours(data.draw, kind_)
    x, y = rows_of(plan, kind_, rng, GROUPS)
    x[3], y[3] = first, y1
    moved = change(lambda y, x: devices.sums(plan, state, y, x, None, None), x, y, 3, second, y2)
    sensitivity = joint_sensitivity(1.0, state.kappa) if state.kappa else score_sensitivity(1.0)
    assert moved <= sensitivity * (1.0 + ROUNDING)
    assert plan.sd(role) == pytest.approx(sensitivity / plan.mechanism.budget.mu, rel=1e-12)


def test_a_score_that_is_wrong_is_biased_and_stays_private(monkeypatch):
    rng, original = np.random.default_rng(10), scores.unit
    plan = plan_by_rounds(KINDS["huber"], d=D)
    state = state_of(plan, "main", rng)
    x, y = rng.standard_normal((GROUPS, D)), rng.standard_normal(GROUPS)
    monkeypatch.setattr(scores, "unit", lambda *given: 1e3 * original(*given))
    np.testing.assert_allclose(np.linalg.norm(devices.sums(plan, state, y, x, None, None), axis=1), 1.0)


@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_a_multinomial_score_counts_for_no_more_than_its_noise_is_made_for(data):
    plan = plan_by_rounds(KINDS["balanced"], d=D, blocks=3)
    state, rng = hostile_state(data.draw, plan, "main")
    first, second, y1, y2 = neighbours(data.draw, KINDS["balanced"], 3)
    x, y = rows_of(plan, KINDS["balanced"], rng, GROUPS)
    x[3], y[3] = first, y1
    moved = change(lambda y, x: devices.sums(plan, state, y, x, None, None), x, y, 3, second, y2)
    assert moved <= score_sensitivity(1.0) * (1.0 + ROUNDING)


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_moments_and_indicators_count_for_no_more_than_their_noise_is_made_for(data):
    plan = plan_by_rounds(KINDS["huber"], d=D, unscaled=(0, 1, 2))
    state, rng = hostile_state(data.draw, plan, "location")
    first, second, *_ = neighbours(data.draw, KINDS["huber"])
    x, y = rows_of(plan, KINDS["huber"], rng, GROUPS)
    x[3] = first
    moved = change(lambda _, x: devices.moments(state, x, None), x, y, 3, second, 0.0)
    assert moved <= psd_sensitivity(1.0) * (1.0 + ROUNDING)
    assert plan.sd("moments") == pytest.approx(psd_sensitivity(1.0) / plan.mechanism.budget.mu, rel=1e-12)
    moved = change(lambda _, x: devices.indicators(state, x), x, y, 3, second, 0.0)
    assert moved <= bits_sensitivity(D) * (1.0 + ROUNDING)
    assert plan.sd("location") == pytest.approx(bits_sensitivity(D) / plan.mechanism.budget.mu, rel=1e-12)


@given(first=st.lists(st.booleans(), min_size=9, max_size=9), second=st.lists(st.booleans(), min_size=9, max_size=9))
def test_what_bounds_clamp_counts_for_no_more_than_its_noise_is_made_for(first, second):
    clamps = tuple(Bounded(f"c{j}", "covariate") for j in range(9))
    plan = plan_by_rounds(KINDS["huber"], d=D, clamps=clamps)
    state = state_of(plan, "clamping", np.random.default_rng(1))
    x, y, others = np.ones((4, D)), np.ones(4), np.zeros((3, 9), dtype=bool)

    def sums(row):
        flags = np.concatenate([others, np.array([row])])
        return by_record(plan, state, np.zeros(0), Block(y, x, clamped=flags))[0]

    assert np.linalg.norm(sums(first) - sums(second)) <= bits_sensitivity(9)
    assert np.linalg.norm(sums([True] * 9) - sums([False] * 9)) == bits_sensitivity(9)
    assert plan.sd("clamping") == pytest.approx(bits_sensitivity(9) / plan.mechanism.budget.mu, rel=1e-12)


@pytest.mark.some(6)
@ROLES
@EVERY_KIND
def test_of_a_private_response_its_range_alone_is_told(kind, role):
    # one number is randomised about the middle of its range at this predictor, by half the range
    kind_, rng = KINDS[kind], np.random.default_rng(8)
    plan = plan_by_rounds(kind_, d=D, label=True, track=kind in TRACKED)
    responses_ = np.array([*kind_.responses, *BROKEN, plan.y_low, plan.y_high])
    if kind_.family.response != "number":
        responses_ = np.array([*kind_.responses, math.nan])
    size = len(responses_)
    for times in (0.0, 1.0, 30.0, 1e200):
        state = state_of(plan, role, rng)
        state = state._replace(theta=times * state.theta, offsets=state.offsets[:1])
        for row in rng.standard_normal((10, D)):
            x, drawn = np.tile(row, (size, 1)), []
            for noise in (0.0, 1.0):
                given_ = responses_, x, None, None
                told = []
                for i in range(size):
                    one = tuple(None if v is None else v[i : i + 1] for v in given_)
                    noises = np.full((1, plan.numbers(role)), noise)
                    told.append(devices.public_sums(plan, state, one, (plan.y_low, plan.y_high), noises)[0])
                drawn.append(np.array(told))
            added = drawn[1] - drawn[0]  # what one unit of noise adds: the same whatever the response is
            np.testing.assert_allclose(added, np.tile(added[0], (size, 1)), rtol=1e-9, atol=1e-12)
            # a report is the response's number (and kappa times another) along public directions
            along = np.linalg.norm(added[0][: plan.size])
            numbers = drawn[0][:, : plan.size] @ added[0][: plan.size] / along**2 if along else np.zeros(size)
            if state.kappa:  # noise of both numbers has the same sd
                numbers = np.column_stack([numbers, drawn[0][:, -1] / added[0][-1]])
            numbers = numbers.reshape(size, -1)
            apart = np.linalg.norm(numbers[:, None] - numbers[None], axis=2).max()
            assert apart <= plan.mechanism.budget.mu * (1.0 + ROUNDING)


# --- nothing to tell -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", BROKEN)
def test_rows_that_are_no_numbers_tell_nothing(value):
    rng = np.random.default_rng(9)
    plan = plan_by_rounds(KINDS["huber"], d=D, track=True, unscaled=(1, 2))
    for role in ("pilot", "main"):
        state = state_of(plan, role, rng)
        x, y = np.ones((GROUPS, D)), np.ones(GROUPS)
        x[:, 1] = value
        assert not devices.sums(plan, state, y, x, None, None).any()
        assert not devices.moments(state, x, None).any()
    state = state_of(plan, "location", rng)
    expected = {True: 0.5, False: float(value > 0.0)}[math.isnan(value)]
    assert (devices.indicators(state, np.full((GROUPS, 2), value)) == expected).all()
    if math.isnan(value):
        state = state_of(plan, "pilot", rng)
        assert not devices.sums(plan, state, np.full(GROUPS, value), np.ones((GROUPS, D)), None, None).any()
