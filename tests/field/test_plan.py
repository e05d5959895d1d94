"""A model's plan as the plan of a study: devices and collector together do what the simulation does."""

from typing import Any, NamedTuple

import numpy as np
import pytest

import privreg as pr
from privreg.collector import rounds as collector
from privreg.collector.design import Batch
from privreg.collector.estimation import estimate
from privreg.errors import OptionError, SchemaError
from privreg.fits.plan import plan_of
from privreg.simulation import devices
from privreg_field.collector import messages as field
from privreg_field.device.report import answer
from privreg_field.device.report.design import row_of
from privreg_field.study.declaring.plan import About, study_plan
from privreg_field.wire import messages, study, wire
from tests.studies import NOON, SERVER, const, field_state, public

COLUMNS = ("hours", "age", "bmi", "shift", "ill", "visits")
QUESTIONS = {name: f"What about {name}?" for name in COLUMNS}
ABOUT = About("sleep", "Sleep", "How sleep goes with age.", "study@example.org", NOON, NOON + 9, questions=QUESTIONS)
BOUNDS = {"hours": (0, 24), "age": (18, 90), "bmi": (15, 50)}
SHIFTS = {"shift": ["day", "night", "both"]}
N = 4000


@pytest.fixture(scope="module")
def few_rounds():
    """As many as users get."""


class Trees(NamedTuple):
    endog: Any
    exog: tuple
    offset: Any = None


def level(label):
    return ["level", "shift", label]


AGE, BMI = ["col", "age"], ["col", "bmi"]
HOURS = Trees(["col", "hours"], (const(1), level("night"), level("both"), AGE, ["mul", AGE, BMI]))
NAMES = ["Intercept", "C(shift)[T.night]", "C(shift)[T.both]", "age", "age:bmi"]


def model(formula="hours ~ C(shift) + age + age:bmi", **more):
    given = {"mu": 1, "bounds": BOUNDS, "levels": SHIFTS, "family": pr.Huber(), "mechanism": "gaussian", **more}
    return pr.PrivateOnlineRegression.from_formula(formula, None, **given)


def made(fit=None, design=HOURS, about=ABOUT):
    return study_plan(model().plan(rows=N) if fit is None else fit, design, about, [public(SERVER)])


def test_a_plan_says_what_the_fit_does():
    fit = model().plan(rows=N)
    plan = made(fit)
    engine, order = plan_of(fit.spec, fit.settings, None)
    assert [c.name for c in plan.design] == [NAMES[j] for j in order]
    assert [c.name for c in plan.columns] == [n for n in QUESTIONS if n in {"shift", "age", "bmi", "hours"}]  # as asked
    columns = {c.name: c for c in plan.columns}
    assert columns["age"][2:] == (18.0, 90.0, "What about age?", ())
    assert columns["shift"].levels == ("day", "night", "both")
    assert [(r.role, r.total) for r in plan.rounds] == [(r.role, max(r.people, 0)) for r in engine.rounds]
    assert (plan.family, plan.blocks, plan.mu) == ("huber", 1, (1, 1))
    assert plan.roles == field.roles_of(engine)
    assert plan.release_group == "study@example.org"
    assert study.read_plan(study.plan_payload(plan)) == plan


def people(n=N, seed=1):
    """Answers of people, some of whom lack one."""
    rng = np.random.default_rng(seed)
    age, bmi = rng.uniform(15, 95, n), rng.normal(27, 6, n)
    shift = rng.choice(SHIFTS["shift"], n)
    hours = 8 - 0.02 * age + 0.5 * (shift == "night") + rng.standard_normal(n)
    rows = [
        {"age": float(a), "bmi": float(b), "shift": str(s), "hours": float(h)}
        for a, b, s, h in zip(age, bmi, shift, hours, strict=True)
    ]
    for k in range(0, n, 17):
        rows[k] = {**rows[k], "shift": "never"}
    return rows


@pytest.mark.thorough
def test_rounds_of_devices_end_where_rounds_of_the_simulation_do():
    """Without noise on either side: rows by trees, whole numbers and messages, against the engine's own sums."""
    fit = model().plan(rows=N)
    plan, (engine, _) = made(fit), plan_of(fit.spec, fit.settings, None)
    plan_hash = wire.hash_of(study.plan_payload(plan))
    rows = [row_of(plan, row) for row in people()]
    y, x = np.array([r.y for r in rows]), np.array([r.x for r in rows])
    one = two = collector.begin(engine)
    at = 0
    while at < N:
        role, groups = one.state.role, len(one.state.offsets)
        m = min(engine.people(one), N - at) // groups * groups
        if m < groups:
            break
        here = slice(at, at + m)
        one = collector.advance(engine, one, simulated(engine, one.state, y[here], x[here], m))
        ask = field.ask_of(engine, two.state)
        payload = messages.state_payload(field_state(plan_hash, ask))
        ask = messages.read_state(payload, plan, plan_hash).asks[0]
        sums = np.zeros((1, groups, plan.roles[role].numbers), dtype=np.int64)
        for k, row in enumerate(rows[here]):
            group = k // (m // groups)
            sums[0, group] += answer.values(plan.roles[role], answer.before_noise(plan, ask, group, row))
        told = field.reports_of(plan.roles[role], np.full((1, groups), m // groups), sums)
        two = collector.advance(engine, two, told)
        at += m
    assert at > 0.99 * N
    assert two.state.number == one.state.number > 15
    first, second = estimate.estimate(engine, one), estimate.estimate(engine, two)
    np.testing.assert_allclose(second.theta, first.theta, rtol=0, atol=1e-4 * np.sqrt(np.diag(first.cov)).min())
    assert np.abs(first.theta).max() > 0.1


def simulated(engine, state, y, x, m):
    inside = (y - state.y_centre) / state.y_scale
    if state.role == "moments":
        v = np.column_stack([x, inside]) if engine.layout.response else x
        total = devices.moments(state, v, None)
    else:
        total = devices.sums(engine, state, inside, x, None, None)
    groups = len(state.offsets)
    return Batch(m, total[None], np.full((1, groups), m / groups))


# --- other models --------------------------------------------------------------------------------------------


def test_a_binary_response_and_an_offset():
    logistic = model("ill ~ age", family="logistic").plan(rows=N)
    plan = made(logistic, Trees(["col", "ill"], (const(1), AGE)))
    assert (plan.family, plan.response.scale) == ("balanced", 1.0)
    assert plan.roles["pilot"].form == "ball"
    shifted = model("hours ~ age", offset="bmi").plan(rows=N)
    plan = made(shifted, Trees(["col", "hours"], (const(1), AGE), BMI))
    row = row_of(plan, {"hours": 7.0, "age": 40.0, "bmi": 20.0})
    assert plan.response.scale != 1.0
    assert row.offset == 20.0 / plan.response.scale
    assert "bmi" in [c.name for c in plan.columns]
    # where curvature goes with the predictor, moments are of the offset, too
    shifted = model("ill ~ age", family="logistic", offset="bmi").plan(rows=N)
    plan = made(shifted, Trees(["col", "ill"], (const(1), AGE), BMI))
    assert plan.moment_response
    assert plan.roles["moments"].numbers == 6  # of (1, age, bmi)


def test_columns_whose_scale_nobody_declared_tell_where_they_lie():
    fit = model("hours ~ age + bmi", bounds={"age": (18, 90)}, scaling="private").plan(rows=20_000)
    plan = made(fit, Trees(["col", "hours"], (const(1), AGE, BMI)))
    assert plan.roles["location"].form == "box"
    assert plan.roles["location"].numbers == len(plan.unscaled) == 2
    bounds = {c.name: (c.low, c.high) for c in plan.columns}
    assert bounds["bmi"] == (-np.inf, np.inf)


def test_mixed_columns_come_in_the_engines_order():
    moments = {"age": (50, 10), "bmi": (27, 5), ("age", "bmi"): 0.6, "hours": (8, 2)}
    fit = model("hours ~ age + bmi", bounds={}, moments=moments).plan(rows=N)
    plan = made(fit, Trees(["col", "hours"], (const(1), AGE, BMI)))
    assert plan.mix is not None
    _, order = plan_of(fit.spec, fit.settings, None)
    row = row_of(plan, {"hours": 7.0, "age": 40.0, "bmi": 20.0})
    inside = np.array([[1.0, 40.0, 20.0]])
    fit.spec.units.rows_inside(inside)
    np.testing.assert_allclose(row.x, inside[0][order], rtol=1e-12)


@pytest.mark.parametrize(
    ("given", "more", "match"),
    [
        ({"mechanism": "laplace"}, {}, "mechanism='gaussian'"),
        ({"private": "response"}, {}, "private='record'"),
        ({}, {"tuning": "published"}, "by rounds"),
        ({"id": "person"}, {}, "several rows"),
        ({"mu": None}, {}, "a budget"),
    ],
)
def test_fits_that_devices_cannot_play_are_refused(given, more, match):
    fit = model(**{"family": pr.Huber(scale=1.0), **given}).plan(rows=N, **more)
    with pytest.raises(OptionError, match=match):
        made(fit)


def test_a_column_without_a_question_is_refused():
    about = About("sleep", "Sleep", "Why", "me", NOON, NOON + 1, questions={"hours": "?"})
    with pytest.raises(SchemaError, match="'shift' has no question"):
        made(about=about)


def test_levels_that_are_decimals_are_refused():
    fit = model("hours ~ C(dose)", levels={"dose": [0.5, 1.5]}).plan(rows=N)
    design = Trees(["col", "hours"], (const(1), ["level", "dose", 1.5]))
    with pytest.raises(SchemaError, match="rename them"):
        made(fit, design, About(**{**ABOUT.__dict__, "questions": {**QUESTIONS, "dose": "?"}}))


def test_what_devices_would_refuse_is_said_before_it_is_signed():
    sine = Trees(["col", "hours"], (*HOURS.exog[:4], ["sin", AGE]))
    with pytest.raises(OptionError, match=r"devices would refuse this plan.*operation"):
        made(design=sine)
    with pytest.raises(OptionError, match="short name"):
        made(about=About(**{**ABOUT.__dict__, "study": "Sleep!"}))
