"""What a device makes of a row for two collectors: the engine's own numbers, in the role's set whatever is asked."""

import math
import random
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from privreg.collector.aggregate import report
from privreg.collector.aggregate import report as steps
from privreg.collector.aggregate.plan import Plan, Rules, State
from privreg.protocol import lattice
from privreg.protocol.plans import Shape
from privreg.protocol.sums import ROLES
from privreg_field.device.report import noise, sums
from privreg_field.device.report.design import Row
from privreg_field.wire import study
from privreg_field.wire.study import FAMILIES, Role
from tests.studies import SUMS, sum_ask, sum_plan


def engine_of(plan):
    """The engine's plan of the same study."""
    of = plan.sums
    shape = Shape(FAMILIES[plan.family], plan.a, plan.b, 0)
    link = {"logistic": "logit", "poisson": "log", "negative_binomial": "log"}.get(plan.family, "identity")
    rules = Rules(shape, of.ratio, of.scaled, of.top, 1.0, 1.0, of.shares, of.fixed, link=link)
    dummies = np.array([j not in of.numbers for j in range(plan.d)])
    ends = np.array(of.lows), np.array(of.highs)
    return Plan(plan.d, 5_000, 1.0, rules, of.y_low, of.y_high, dummies, *ends, len(plan.clamping), rate=of.rate)


def rows_of(plan, count, seed):
    """Rows, some beyond their limits, some that can't be used."""
    rng, of = np.random.default_rng(seed), plan.sums
    x = np.column_stack([np.ones(count), rng.integers(0, 2, (count, 2)), rng.uniform(-1.25, 1.25, (count, 2))])
    y = rng.uniform(of.y_low, of.y_high, count) * 1.25
    y = np.clip(np.rint(y), of.y_low, of.y_high) if of.y_low == 0.0 else y
    y[::17], x[5::19, 3] = np.nan, np.inf
    return y, x, rng.normal(0.0, 0.1, count), rng.integers(0, 2, (count, len(plan.clamping))).astype(float)


@pytest.mark.some(18)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize(
    "family", [f for f in SUMS if f not in {"ordered", "hazards"}]
)  # whose row is several: test_ordered
def test_a_row_is_reported_as_the_engine_has_it(family, role):
    plan, count = sum_plan(family), 60
    engine, ask = engine_of(plan), sum_ask(plan, role)
    form = plan.roles[role]._replace(radius=ask.radius)
    state = State(0, role, np.array(ask.rows), np.array(ask.theta), *ask[4:8], longest=ask.reach)
    y, x, offset, clamped = rows_of(plan, count, 1)
    one = steps.steps(engine, state)
    assert (one.form, one.numbers, one.radius, one.bits) == (form.form, form.numbers, form.radius, plan.bits)
    theirs = one.whole(report.vectors(engine, state, y, x, offset, clamped.astype(bool)))
    ours = [
        sums.whole(form, sums.of_person(plan, ask, [Row(list(a), b, c, tuple(f))]))
        for a, b, c, f in zip(x.tolist(), y.tolist(), offset.tolist(), clamped.tolist(), strict=True)
    ]
    # the same operations in the same order, but for sums of five numbers, and exp and log
    assert np.abs(theirs - np.array(ours)).max() <= 1
    assert (theirs != np.array(ours)).mean() < 1e-3
    assert theirs.any(axis=1).sum() > 0.8 * count


def in_its_set(role, a):
    """Whether whole numbers are such as the role's radius stands for."""
    assert len(a) == role.numbers
    assert all(type(v) is int for v in a)
    if role.form == lattice.SWITCHES:
        return min(a) >= 0 and role.numbers * max(a) ** 2 <= role.radius**2
    if sum(v * v for v in a) > (role.radius + 0.5 * math.sqrt(role.numbers) + 2.0) ** 2:
        return False
    if role.form == lattice.PSD:
        size = math.isqrt(2 * role.numbers)
        matrix, i = np.zeros((size, size)), np.triu_indices(size)
        matrix[i] = np.array(a) / np.where(i[0] == i[1], 1.0, math.sqrt(2.0))
        matrix = matrix + np.triu(matrix, 1).T
        # rounding moves each entry by 1/2 at most, and no eigenvalue by more than the matrix
        return np.linalg.eigvalsh(matrix)[0] >= -0.5 * math.sqrt(role.numbers)
    return True


REALS = st.one_of(st.floats(), st.sampled_from([0.0, 1.0, -1.0, 2.0**60, -(2.0**60), 2.0**-1060, math.nan, math.inf]))


@settings(max_examples=120, deadline=None)
@given(form=st.sampled_from(lattice.SUM_FORMS), radius=st.integers(1, 2**30 - 1), told=st.lists(REALS, max_size=7))
@example(form="switches", radius=1, told=[1.0, 1.0])
@example(form="switches", radius=5, told=[1.0] * 6)
@example(form="unit", radius=1, told=[1.0] * 5)
@example(form="psd", radius=2, told=[1.0, 1.0])
def test_whatever_is_told_is_in_the_roles_set(form, radius, told):
    numbers = max(len(told) * (len(told) + 1) // 2 if form == lattice.PSD else len(told), 1)
    role = Role(form, numbers, radius, 1)
    assert in_its_set(role, sums.whole(role, told))
    for other in ([], [*told, 1.0]):
        assert in_its_set(role, sums.whole(role, other))


@pytest.mark.some(4)
@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("family", ["huber", "logistic", "poisson"])
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_whatever_a_state_asks_the_report_is_in_the_roles_set(family, role, data):
    plan = sum_plan(family)
    real = st.floats(-(2.0**60), 2.0**60) | st.sampled_from([0.0, 2.0**60, -(2.0**60), 2.0**-1060])
    above = st.floats(2.0**-1060, 2.0**60)
    more = {n: data.draw(above) for n in ("scale", "window", "ball")}
    more["y_centre"], more["theta"] = data.draw(real), tuple(data.draw(real) for _ in range(plan.d))
    if data.draw(st.booleans()):
        more["rows"] = tuple(tuple(data.draw(real) for _ in range(plan.d)) for _ in range(plan.d))
    ask = sum_ask(plan, role, **more)
    for row in (Row([1.0, 0.0, 1.0, 0.3, -2.0], 0.7, data.draw(real), (1.0, 0.0)), Row([math.nan] * 5, 0.0, 0.0)):
        assert in_its_set(plan.roles[role], sums.whole(plan.roles[role], sums.of_person(plan, ask, [row])))


@pytest.mark.parametrize("form", [f for f in lattice.SUM_FORMS if f != lattice.BLOCKS])  # tables': test_analyses
def test_two_reports_lie_no_farther_apart_than_the_noise_is_for(form):
    """Of the largest radius for a budget: distances of reports as unlike as they come."""
    rng = random.Random(2)
    for mu in (lattice.Mu(1, 1), lattice.Mu(1, 3), lattice.Mu(9, 4)):
        bits = lattice.bits_of_sums(mu)
        allowed = Fraction(mu.p, mu.q) * 2**bits
        for size in (1, 2, 5):
            numbers = size * (size + 1) // 2 if form == lattice.PSD else size
            square = Fraction(4 if form == lattice.UNIT else 2)
            radius = lattice.radius(form, numbers, mu, bits, square)
            role, made = Role(form, numbers, radius, 1), []
            for _ in range(40):
                u = [rng.choice([1.0, -1.0, 0.0, rng.gauss(0, 3)]) for _ in range(size)]
                made.append(sums.whole(role, [abs(v) for v in u] if form == lattice.SWITCHES else u))
            most = max(sum((v - w) ** 2 for v, w in zip(a, b, strict=True)) for a in made for b in made)
            assert most <= allowed**2
            assert most > 0.4 * allowed**2 or (form, size) == (lattice.PSD, 1)


def test_shares_add_up_and_each_alone_is_what_was_drawn():
    a = [0, 1, -1, 2**19, -(2**30), 5]
    drawn = noise.secret(8 * len(a))
    first, second = sums.shares(a, lambda count: drawn[:count])
    assert second == drawn
    words = [np.frombuffer(s, "<u8") for s in (first, second)]
    assert (words[0] + words[1]).astype(np.int64).tolist() == a
    assert sums.shares(a)[1] != sums.shares(a)[1]


def test_plans_of_these_tests_are_ones_that_devices_take():
    for family in SUMS:
        plan = sum_plan(family)
        assert study.read_plan(study.plan_payload(plan)) == plan
