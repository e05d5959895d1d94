"""Law: what devices in the field send is what a simulation sums, to one step of the lattice, and no order matters."""

import math

import numpy as np
import pytest

from privreg.collector.covariates.moments import Bounded
from privreg.errors import OptionError
from privreg.families import measures
from privreg.families.scores import Gauge
from privreg.protocol import lattice
from privreg.protocol.rounds import GROUPS
from privreg.protocol.schedule import Round
from privreg.simulation import devices
from privreg.simulation.devices import Devices
from privreg.simulation.streaming.encoding import Block
from privreg_field.collector import chain
from privreg_field.collector import messages as field
from privreg_field.device.report import answer
from privreg_field.device.report.design import Row
from privreg_field.wire import messages, study, wire
from privreg_field.wire.messages import Place
from privreg_field.wire.study import Cell
from tests.kinds import KINDS, Y_MAX, Kind, adversarial, responses
from tests.rounds import plan_by_rounds, state_of
from tests.studies import CLAMPING, SUMMED, const, field_state, study_plan

FIELD = [k for k in KINDS if k not in {"custom", "logistic"}]
TRACKED = ("huber", "expectile", "quantile", "hinge", "smoothed hinge")
N = 6 * GROUPS
D = 4


def in_the_field(plan, roles=None):
    """The plan of a study whose devices play this fit; its rows are given in internal units."""
    shape = plan.rules.shape
    design = tuple(Cell(f"x{j}", const(1), 0.0, 1.0) for j in range(plan.d))
    out = study_plan(
        design=design,
        response=Cell("y", const(0), 0.0, 1.0),
        family=field.family_of(plan),
        a=shape.a,
        b=shape.b,
        blocks=plan.blocks,
        unscaled=plan.unscaled,
        constant=bool(plan.extra),
        moment_response=plan.layout.response,
        y_max=Y_MAX,
        silent=plan.gauge is not None and plan.gauge.nonresponse,
    )
    out = out._replace(roles=field.roles_of(plan), clamping=tuple(c.name for c in plan.clamps))
    rounds = tuple(study.Held(role, 10, 0, 0, False) for role in out.roles)
    out = out._replace(rounds=rounds)
    assert study.read_plan(study.plan_payload(out)) == out
    return out


def on_the_wire(plan, ask):
    """The ask after it was written and read."""
    state = field_state(wire.hash_of(study.plan_payload(plan)), ask)
    return messages.read_state(messages.state_payload(state), plan, state.plan).asks[0]


def by_devices(plan, ask, x, y, offset=None, groups=1):
    """What devices send before noise; the first n/groups are of the first group."""
    role, each, out = plan.roles[ask.role], len(y) // groups, []
    for i, (row, own) in enumerate(zip(x.tolist(), y.tolist(), strict=True)):
        where = 0.0 if offset is None else float(offset[i])
        out.append(answer.values(role, answer.before_noise(plan, ask, i // each, Row(row, own, where))))
    return np.array(out)


def same(sent, played, radius):
    """Whole numbers of devices against real numbers of the simulation, one step apart at most."""
    expected = np.trunc(radius * played)
    assert np.abs(sent - expected).max() <= 1.0
    assert (sent == expected).mean() > 0.95  # and mostly the same
    assert np.abs(sent).max() > 0.5 * radius / math.sqrt(played.shape[1])


def rows_of(plan, kind, rng):
    """Ordinary and adversarial rows, some of records that have nothing to tell."""
    x = adversarial(rng, N, plan.d)
    x[::2] = rng.standard_normal((N // 2, plan.d))
    x[:, 0] = 1.0
    y = rng.integers(0, plan.blocks + 1, N).astype(float) if plan.blocks > 1 else responses(kind, rng, N)
    silent = np.arange(N) % 7 == 3
    x[silent], y[silent] = math.nan, math.nan
    return x, y


@pytest.mark.parametrize("given_more", [False, True])
@pytest.mark.parametrize("role", ["pilot", "main"])
@pytest.mark.parametrize("kind", FIELD)
def test_scores_of_devices_are_those_of_the_simulation(kind, role, given_more):
    rng, kind_ = np.random.default_rng(3), KINDS[kind]
    fit = plan_by_rounds(kind_, d=D, track=kind in TRACKED, strength=1.0)
    plan, state = in_the_field(fit), stepped(fit, role, rng)
    offset = rng.uniform(-0.5, 0.5, N) if given_more else None
    if given_more:
        state = state._replace(y_centre=0.25, y_scale=2.0)
    x, y = rows_of(fit, kind_, rng)
    inside = y if not given_more else (y - 0.25) / 2.0
    played = devices.reports(fit, state, inside, x, None if offset is None else offset / 2.0)
    sent = by_devices(plan, on_the_wire(plan, field.ask_of(fit, state)), x, y, offset, len(state.offsets))
    assert (fit.kappa(role) > 0.0) == (plan.roles[role].form == lattice.JOINT)
    same(sent, played, plan.roles[role].radius)


def stepped(fit, role, rng):
    """A state whose offsets are ± a step, as published ones are."""
    state = state_of(fit, role, rng)
    return state._replace(offsets=np.where(state.offsets < 0.0, -0.2, 0.2) * (role == "main"))


@pytest.mark.parametrize("blocks", [2, 4])
@pytest.mark.parametrize("role", ["pilot", "main"])
def test_scores_of_classes_are_those_of_the_simulation(blocks, role):
    rng, kind = np.random.default_rng(5), KINDS["balanced"]
    fit = plan_by_rounds(kind, d=D, blocks=blocks, strength=1.0)
    plan = multinomial(fit)
    state = stepped(fit, role, rng)
    x, y = rows_of(fit, kind, rng)
    played = devices.reports(fit, state, y, x, None)
    sent = by_devices(plan, on_the_wire(plan, field.ask_of(fit, state)), x, y, None, len(state.offsets))
    same(sent, played, plan.roles[role].radius)


def multinomial(fit):
    design = tuple(Cell(f"x{j}", const(1), 0.0, 1.0) for j in range(fit.d))
    plan = study_plan("multinomial", design=design, blocks=fit.blocks, unscaled=fit.unscaled)
    return plan._replace(roles=field.roles_of(fit), rounds=(study.Held("main", 0, 0, 0, False),))


@pytest.mark.parametrize(("constant", "response"), [(True, False), (True, True), (False, True), (False, False)])
def test_moments_of_devices_are_those_of_the_simulation(constant, response):
    rng, kind = np.random.default_rng(7), KINDS["huber"]
    from privreg.collector.covariates.moments import Layout

    fit = plan_by_rounds(kind, d=D, strength=1.0, layout=Layout(constant, response))
    plan, size = in_the_field(fit), D + int(response) + fit.extra
    rows = 0.5 * np.tril(rng.standard_normal((size, size))) + np.eye(size)
    state = state_of(fit, "moments", rng)._replace(rows=rows, y_centre=0.5, y_scale=2.0)
    x, y = rows_of(fit, kind, rng)
    offset = rng.uniform(-0.5, 0.5, N)
    v = np.column_stack([np.ones((N, fit.extra)), x, *([(y - offset - 0.5) / 2.0] if response else [])])
    sent = by_devices(plan, on_the_wire(plan, field.ask_of(fit, state)), x, y, offset)
    same(sent, devices.direction_moments(state, v), plan.roles["moments"].radius)


def test_indicators_of_devices_are_those_of_the_simulation():
    rng, kind = np.random.default_rng(8), KINDS["huber"]
    fit = plan_by_rounds(kind, d=D, strength=1.0, unscaled=(1, 3, D), rounds=(Round("location", 9), Round("main", -1)))
    plan, state = in_the_field(fit), state_of(fit, "location", rng)
    x, y = rows_of(fit, kind, rng)
    played = devices.indicators(state, np.column_stack([x[:, [1, 3]], y]))
    sent = by_devices(plan, on_the_wire(plan, field.ask_of(fit, state)), x, y, None, GROUPS)
    np.testing.assert_array_equal(sent, np.trunc(plan.roles["location"].radius * played))


def test_what_devices_say_of_clamping_is_what_the_simulation_does():
    rng, flags = np.random.default_rng(12), np.random.default_rng(12).random((N, 2)) < 0.5
    held = (Round("clamping", 9), Round("main", -1))
    fit = plan_by_rounds(
        KINDS["huber"], d=D, strength=1.0, rounds=held, clamps=tuple(Bounded(n, "covariate") for n in CLAMPING)
    )
    plan, state = in_the_field(fit), state_of(fit, "clamping", rng)
    assert plan.roles["clamping"][:2] == (lattice.BOX, 2)
    x, y = rows_of(fit, KINDS["huber"], rng)
    asked = on_the_wire(plan, field.ask_of(fit, state))
    assert (asked.rows, asked.theta, asked.signs, asked.thresholds) == ((), (), (), ())
    role = plan.roles["clamping"]
    rows = [Row(r, v, 0.0, tuple(map(float, f))) for r, v, f in zip(x.tolist(), y.tolist(), flags, strict=True)]
    sent = [answer.values(role, answer.before_noise(plan, asked, 0, row)) for row in rows]
    played, _ = Devices(fit, state, None).before_noise(Block(y, x, clamped=flags))
    np.testing.assert_array_equal(sent, role.radius * played)


@pytest.mark.parametrize("nonresponse", [False, True])
@pytest.mark.parametrize("kind", [*FIELD, "classes"])
def test_measures_of_devices_are_those_of_the_simulation(kind, nonresponse):
    rng, kind_ = np.random.default_rng(10), KINDS.get(kind, KINDS["balanced"])
    blocks = 3 if kind == "classes" else 1
    code = 9 if kind == "classes" else kind_.family.code
    gauge = Gauge(code, kind_.family.tau, blocks + 1, 1.5, 2.0, 0.25, Y_MAX, nonresponse)
    told = measures.values(gauge, np.zeros((1, blocks)), np.zeros(1)).shape[1]
    held = (Round("main", -1), Round("measures", 9))
    fit = plan_by_rounds(kind_, d=D, strength=1.0, blocks=blocks, gauge=gauge, measured=told, rounds=held)
    plan = multinomial(fit)._replace(silent=nonresponse) if blocks > 1 else in_the_field(fit)
    state = state_of(fit, "measures", rng)
    x, y = rows_of(fit, kind_, rng)
    played = devices.gauged(fit, gauge, state, y, x, None)
    sent = by_devices(plan, on_the_wire(plan, field.ask_of(fit, state, gauge)), x, y)
    assert np.abs(sent - np.trunc(plan.roles["measures"].radius * played)).max() <= 1.0
    assert len(np.unique(sent)) >= 2


# --- on the collector's side ---------------------------------------------------------------------------------


@pytest.mark.parametrize("strength", [0.1, 1.0, 2.0])
def test_noise_in_the_field_is_as_large_as_in_a_simulation(strength):
    fit = plan_by_rounds(KINDS["huber"], d=11, track=True, strength=strength)
    for name, role in field.roles_of(fit).items():
        assert 2.0**lattice.BITS / role.radius == pytest.approx(fit.sd(name), rel=2e-3)
        assert 2.0**lattice.BITS / role.radius >= fit.sd(name) * (1.0 - 1e-12)


def test_sums_of_whole_numbers_are_sums_of_reports():
    role = field.roles_of(plan_by_rounds(KINDS["huber"], d=2, strength=1.0))["main"]
    rng = np.random.default_rng(1)
    people, sums = rng.integers(1, 50, (8, 16)), rng.integers(-(10**9), 10**9, (8, 16, 2))
    got = field.reports_of(role, people, sums)
    np.testing.assert_array_equal(got.weight, people)
    np.testing.assert_array_equal(got.total * role.radius, sums)
    assert got.people == people.sum()


def test_measures_of_fit_come_with_their_products():
    role = study.Role(lattice.BOX, 2, 4, 1)
    cell = chain.add(None, np.array([(4, 0), (-8, 2)]), "measures")
    got = field.products(role, cell.people, cell.sums, cell.squares)
    np.testing.assert_array_equal(got.total[0, 0], [-1.0, 0.5, 1 + 4, -1.0, -1.0, 0.25])
    assert (got.people, got.weight.tolist()) == (2, [[2.0]])


def test_groups_are_asked_at_their_own_coefficients():
    rng, fit = np.random.default_rng(2), plan_by_rounds(KINDS["huber"], d=11, strength=1.0)
    state = stepped(fit, "main", rng)
    ask = field.ask_of(fit, state)
    for group in range(GROUPS):
        np.testing.assert_array_equal(ask.theta_of(group), state.theta + state.offsets[group])
    assert field.ask_of(fit, state._replace(offsets=0.0 * state.offsets)).signs == ()
    own = state._replace(offsets=rng.standard_normal((GROUPS, 11)))
    told = field.ask_of(fit, own)
    assert (told.signs, told.step) == ((), 0.0)
    for group in range(GROUPS):
        np.testing.assert_array_equal(told.theta_of(group), own.theta + own.offsets[group])
    for some, one in ((state, ask), (own, told)):
        np.testing.assert_array_equal(field.state_of(fit, one)[0].offsets, some.offsets)
    with pytest.raises(ValueError, match="lower triangular"):
        field.ask_of(fit, state._replace(rows=state.rows.T))
    plan = in_the_field(fit)
    assert {messages.group_of(plan, "main", Place(0, g << 28, 0)) for g in range(16)} == set(range(16))


def test_what_devices_do_not_have_is_refused():
    huber = KINDS["huber"]
    for plan, match in (
        (plan_by_rounds(huber, "laplace"), "mechanism='gaussian'"),
        (plan_by_rounds(huber, label=True), "private='record'"),
        (plan_by_rounds(KINDS["custom"]), "score of one's own"),
        (plan_by_rounds(huber, d=60, strength=1e-5), "too small"),
    ):
        with pytest.raises(OptionError, match=match):
            field.roles_of(plan)


def test_kinds_have_all_families_of_the_field():
    local = set(study.FAMILIES) - set(SUMMED)
    assert {field.family_of(plan_by_rounds(KINDS[k])) for k in FIELD} | {"logistic", "multinomial"} == local
    assert isinstance(KINDS["huber"], Kind)
