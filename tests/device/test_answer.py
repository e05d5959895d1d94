"""Reports on the lattice: no rows, however odd, and no states, however made up, put two farther apart than claimed."""

import math
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.protocol import lattice
from privreg.protocol.lattice import Mu
from privreg_field.device.report import answer
from privreg_field.device.report.design import Row
from privreg_field.device.report.noise import Words
from privreg_field.wire.study import ROLES, Role
from tests.kinds import BROKEN, EXTREME
from tests.studies import CLAMPING, SCORES, ask, roles_of, study_plan

FORMS = pytest.mark.parametrize("form", lattice.FORMS)
BUDGETS = (Mu(1, 1), Mu(1, 10), Mu(2, 1), Mu(7, 13), Mu(1, 1000))
EXTREMES = (*EXTREME, *BROKEN, 2.0**60, -(2.0**60), 1.0 + 1e-16, 0.999999999999)


def role_of(form, numbers, mu=BUDGETS[0]):
    return Role(form, numbers, lattice.radius(form, numbers, mu), 1)


def far(a, b):
    """Squared distance, in whole numbers."""
    return sum((x - y) ** 2 for x, y in zip(a, b, strict=True))


def allowed(mu):
    """(μ 2^m)², what squared distances of whole numbers may be at most."""
    return (mu.p << lattice.BITS) ** 2 // mu.q**2


# --- radii ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mu", BUDGETS)
@FORMS
def test_radii_are_the_largest_that_keep_the_budget(form, mu):
    for numbers in (2, 3, 10, 78, 1000):
        radius = lattice.radius(form, numbers, mu)
        assert lattice.is_private(form, numbers, radius, mu) or radius == 0
        assert not lattice.is_private(form, numbers, radius + 1, mu)
        distance = {
            lattice.BALL: 2.0,
            lattice.JOINT: math.sqrt(5.0),
            lattice.BOX: math.sqrt(numbers),
            lattice.MOMENTS: math.sqrt(2.0),
            lattice.BLOCKS: 1.0,
        }[form]
        more = 2.0 * math.sqrt(numbers) + 2.0 if form == lattice.MOMENTS else 0.0
        assert radius == max(math.floor(((mu.p / mu.q) * 2.0**20 - more) / distance), 0)


def test_no_radius_is_private_where_there_is_none():
    for form, numbers, radius, mu, bits in (
        ("ball", 3, 0, Mu(1, 1), 20),
        ("ball", 0, 1, Mu(1, 1), 20),
        ("ball", 3, 1, Mu(0, 1), 20),
        ("ball", 3, 1, Mu(1, 0), 20),
        ("ball", 3, 1, Mu(-1, -1), 20),
        ("ball", 3, 1, Mu(1, 1), 53),
        ("joint", 1, 1, Mu(1, 1), 20),
        ("sphere", 3, 1, Mu(1, 1), 20),
        ("ball", 3, 1 << 30, Mu(10**7, 1), 30),
    ):
        assert not lattice.is_private(form, numbers, radius, mu, bits)


# --- the clip ------------------------------------------------------------------------------------------------

VALUES = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from(EXTREMES))


@pytest.mark.some(2)
@FORMS
@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_whatever_comes_two_reports_are_no_farther_apart_than_the_noise_is_for(form, data):
    mu = data.draw(st.sampled_from(BUDGETS))
    size = data.draw(st.integers(2, 6))
    role = role_of(form, size * (size + 1) // 2 if form == lattice.MOMENTS else size, mu)
    if role.radius == 0:
        return
    rows = st.lists(VALUES, min_size=0, max_size=8) | st.lists(VALUES, min_size=size, max_size=size)
    a, b = (answer.values(role, data.draw(rows)) for _ in range(2))
    assert far(a, b) <= allowed(mu)
    assert len(a) == role.numbers
    assert all(isinstance(v, int) for v in a)


@pytest.mark.parametrize("mu", BUDGETS[:4])
@pytest.mark.parametrize("form", [f for f in lattice.FORMS if f != lattice.BLOCKS])  # tables': see field/test_analyses
def test_the_farthest_reports_use_up_the_radius(form, mu):
    numbers = 10
    role = role_of(form, numbers, mu)
    ends = {
        lattice.BALL: ([0.0] * 9 + [1.0], [0.0] * 9 + [-1.0]),
        lattice.JOINT: ([1.0] + [0.0] * 8 + [1.0], [-1.0] + [0.0] * 9),
        lattice.BOX: ([1.0] * 10, [0.0] * 10),
        lattice.MOMENTS: ([1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0]),
    }[form]
    a, b = (answer.values(role, v) for v in ends)
    assert 0.999 * allowed(mu) < far(a, b) <= allowed(mu)


def test_truncation_of_moments_is_counted():
    rng, mu = np.random.default_rng(3), Mu(1, 100)  # a small radius, where it counts
    role = role_of(lattice.MOMENTS, 78, mu)
    worst = 0
    for _ in range(300):
        u, w = np.linalg.qr(rng.standard_normal((12, 2)))[0].T
        for v in (u, w, -u):
            assert all(abs(x) <= role.radius for x in answer.values(role, v.tolist()))
        worst = max(worst, far(answer.values(role, u.tolist()), answer.values(role, w.tolist())))
    assert 0.9 * allowed(mu) < worst <= allowed(mu)


def test_overlong_vectors_are_scaled_and_rounding_is_taken_off_the_largest():
    role = Role(lattice.BALL, 3, 10, 1)
    assert answer.values(role, [3e200, 0.0, 0.0]) == [0, 0, 0]  # its square is no number
    assert answer.values(role, [3e100, -4e100, 0.0]) == [6, -8, 0]
    assert answer.values(role, [0.6, 0.8, 0.0]) == [6, 8, 0]
    assert answer.values(role, [-0.39, 0.99, -0.01]) == [-3, 9, 0]
    assert answer.values(role, [math.nan, 0.0, 0.0]) == [0, 0, 0]
    assert answer.values(role, [0.5, 0.5]) == [0, 0, 0]  # of another length: nothing
    assert answer._ball([1.0], 7) == [7]


def test_what_rounding_leaves_is_taken_off_one_by_one_ties_to_the_first(monkeypatch):
    monkeypatch.setattr(answer.score, "dot", lambda a, b: 0.5)  # an overlong vector that floats don't see
    assert answer._ball([0.8, -0.8, 0.1], 10) == [7, -7, 1]
    assert answer._ball([0.8, 0.8, 0.0], 10) == [7, 7, 0]
    assert answer._ball([1.0, 0.1, -0.1], 10) == [9, 1, -1]


def test_numbers_in_a_box_are_clipped_and_none_is_a_half():
    role = Role(lattice.BOX, 5, 9, 1)
    assert answer.values(role, [-1.0, 0.5, 2.0, math.nan, math.inf]) == [0, 4, 9, 4, 9]


def test_noise_is_clamped():
    role, most = Role(lattice.BALL, 1, 5, 1), lattice.most(5)
    assert answer.randomised([10**9], role, lattice.BITS, Words()) == [most]
    assert answer.randomised([-(10**9)], role, lattice.BITS, Words()) == [-most]


# --- rows and states -----------------------------------------------------------------------------------------

HUGE = (0.0, 1.0, 1e3, 1e15, 2.0**60, -(2.0**60), 1e-300, 5e-324, -5e-324, 1e-160)


def hostile(plan, role, rng):
    """A state made up for one respondent: tiny, huge and subnormal numbers anywhere."""
    one = ask(plan, role, rng)

    def some(values):
        return tuple(v * rng.choice(HUGE) if rng.random() < 0.7 else rng.choice(HUGE) for v in values)

    return one._replace(
        rows=tuple(map(some, one.rows)),
        theta=some(one.theta),
        c=rng.choice(HUGE),
        step=rng.choice(HUGE),
        y_centre=rng.choice(HUGE),
        y_scale=rng.choice(HUGE),
        thresholds=tuple(map(some, one.thresholds)),
        gauge=one.gauge and type(one.gauge)(*some(one.gauge)),
    )


def some_row(plan, rng, family):
    """A row in internal units, ordinary or as odd as it may be."""
    pick = (lambda: rng.gauss(0, 1)) if rng.random() < 0.5 else (lambda: rng.choice(EXTREMES))
    y = rng.choice([0.0, 1.0, 2.0, 0.5, *BROKEN]) if SCORES[family][0] != "number" else pick()
    clamped = tuple(float(rng.randrange(2)) for _ in plan.clamping)
    row = Row([1.0, *(pick() for _ in range(plan.d - 1))], y, rng.choice([0.0, 0.0, pick()]), clamped)
    return nobody(plan) if rng.random() < 0.1 else row


def nobody(plan):
    """A row with nothing to report."""
    return Row([math.nan] * plan.d, math.nan, math.nan, (0.0,) * len(plan.clamping))


@pytest.mark.some(40)
@pytest.mark.parametrize("made_up", [False, True])
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("family", SCORES)
def test_no_row_and_no_state_put_reports_farther_apart_than_claimed(family, role, made_up):
    plan, rng = study_plan(family, clamping=CLAMPING), random.Random(f"{family} {role} {made_up}")
    for _ in range(12):
        state = hostile(plan, role, rng) if made_up else ask(plan, role, rng)
        group = rng.randrange(plan.roles[role].groups)
        rows = [some_row(plan, rng, family) for _ in range(8)]
        found = [answer.values(plan.roles[role], answer.before_noise(plan, state, group, r)) for r in rows]
        assert max(far(a, b) for a in found for b in found) <= allowed(plan.mu)


@pytest.mark.parametrize("wide", [False, True])
def test_wide_designs_tell_no_more(wide):
    plan = study_plan(is_wide=wide, wide=(1, 4) if wide else (), edges=(1.0, 2.0) if wide else (), constant=not wide)
    plan = plan._replace(clamping=CLAMPING)
    plan = plan._replace(roles=roles_of(plan))
    rng = random.Random(4)
    for role in ROLES:
        state = hostile(plan, role, rng)
        found = [
            answer.values(plan.roles[role], answer.before_noise(plan, state, 0, some_row(plan, rng, "huber")))
            for _ in range(12)
        ]
        assert max(far(a, b) for a in found for b in found) <= allowed(plan.mu)


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("family", SCORES)
def test_whoever_has_nothing_to_report_sends_what_everybody_else_does_who_has_not(family, role):
    plan = study_plan(family, clamping=CLAMPING)
    got = answer.values(plan.roles[role], answer.before_noise(plan, ask(plan, role), 0, nobody(plan)))
    half = plan.roles[role].radius // 2
    assert set(got) <= ({half} if plan.roles[role].form == lattice.BOX and role != "clamping" else {0})


def test_a_made_up_map_that_makes_rows_subnormal_tells_nothing_false():
    plan = study_plan()
    tiny = ask(plan, "moments")
    for size in (1e-155, 1e-160, 5e-324):
        small = tiny._replace(rows=tuple(tuple(v * size for v in row) for row in tiny.rows))
        row = Row([1.0, 0.3, -0.7, 0.2, 0.9], 0.4, 0.0)
        got = answer.values(plan.roles["moments"], answer.before_noise(plan, small, 0, row))
        square = sum(v * v for v in got)
        assert square == 0 or abs(math.sqrt(square) / plan.roles["moments"].radius - 1.0) < 1e-4
