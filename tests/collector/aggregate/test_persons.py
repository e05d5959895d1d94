"""Several rows of a person in one report: within the ball, as the page says, with the roots that others find."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from privreg.collector.aggregate import report, rounds
from privreg.collector.aggregate.plan import Plan
from privreg.data.participants import Participants
from privreg.protocol.plans import Persons
from privreg.simulation.streaming.encoding import Block, Gatherer, joined
from tests.collector.aggregate.test_aggregate import FAMILIES, ROLES, plan_for, state_for
from tests.reference import two_collectors as reference

SINGLE = [name for name in FAMILIES if name != "multinomial"]


def of_persons(name: str, k: int = 4, *, mean: bool = False, **more: int) -> Plan:
    return plan_for(name, **more)._replace(persons=Persons(k, mean))


@pytest.mark.parametrize(("name", "role"), [*itertools.product(SINGLE, ROLES)])
def test_reports_of_any_rows_lie_in_the_ball_and_no_further_apart_than_the_noise_is_for(name: str, role: str) -> None:
    rng = np.random.default_rng(3)
    ends = np.array([0.0, 1e-300, 1e-8, 1.0, -1.0, 1e8, -1e200, 1e308, np.inf, np.nan])
    for mean, turn in itertools.product((False, True), range(3)):
        plan = of_persons(name, mean=mean, bounded=3)
        state = state_for(plan, role, rng)
        x, y = rng.choice(ends, (200, 4, plan.d)), rng.choice([*ends, plan.y_low, plan.y_high], (200, 4))
        x[:120], y[:120] = 3.0 * rng.standard_normal((120, 4, plan.d)), rng.uniform(plan.y_low, plan.y_high, (120, 4))
        x[:40], y[:40] = x[:40, :1], y[:40, :1]  # all rows alike: as far out as one row is
        weight = rng.choice([0.0, 0.3, 1.0, 7.0, -2.0, np.nan], 200) if turn else None
        with np.errstate(all="raise"):  # a warning, or an error, would tell of one record
            some = report.vectors(plan, state, y, x, None, rng.random((200, plan.bounded)), weight)
        assert some.shape == (200, plan.width(role))
        assert np.isfinite(some).all()
        steps = report.steps(plan, state)
        whole = steps.whole(some)
        square = (whole.astype(float) ** 2).sum(axis=1)
        apart = math.sqrt((square[:, None] + square - 2.0 * whole.astype(float) @ whole.T).max())
        assert apart <= steps.sd * plan.mu


@pytest.mark.some(1)
@pytest.mark.parametrize("name", SINGLE)
def test_averages_need_no_shortening(name: str) -> None:
    """Convexity (26): what is shortened would move the estimand."""
    plan, rng = of_persons(name), np.random.default_rng(5)
    state = state_for(plan, "main", rng)._replace(rows=np.eye(plan.d))
    x, y = 4.0 * rng.standard_normal((4_000, 4, plan.d)), rng.uniform(plan.y_low, plan.y_high, (4_000, 4))
    x[:2_000], y[:2_000] = x[:2_000, :1], y[:2_000, :1]
    flat = y.reshape(-1), x.reshape(-1, plan.d)
    blocks = report._scores(plan, state, *flat, np.zeros(y.size), np.full(y.shape, 0.25))
    whole = np.column_stack([one.each() for one in blocks])
    assert np.sqrt((whole**2).sum(axis=1)).max() <= 1.0 + 1e-9


@pytest.mark.parametrize("role", ["location", "moments", "main"])
@pytest.mark.parametrize("name", ["huber", "squared", "logistic", "poisson"])
@pytest.mark.parametrize("mean", [False, True])
def test_a_report_is_what_the_page_says(name: str, role: str, mean: bool) -> None:
    plan, rng = of_persons(name, 3, mean=mean), np.random.default_rng(9)
    # weights bind for half of the people
    state = state_for(plan, role, rng)._replace(rows=(1.0 + 1.5 * (role == "main")) * np.eye(plan.d), scale=1.0)
    x = np.clip(2.0 * rng.standard_normal((40, 3, plan.d)), plan.lows, plan.highs)
    y = np.rint(rng.uniform(plan.y_low, plan.y_high, (40, 3)))
    y[rng.random(y.shape) < 0.3] = np.nan
    weight = rng.uniform(0.1, 1.0, 40)
    made = report.vectors(plan, state, y, x, None, None, weight)
    for one, ys, xs, w in zip(made, y, x, weight, strict=True):
        assert one == pytest.approx(reference.report_of_person(plan, state, ys, xs, w), abs=1e-12)


def test_one_row_that_counts_whole_reports_what_a_record_does_and_one_more_number() -> None:
    alone, rng = plan_for("huber"), np.random.default_rng(2)
    plan = alone._replace(persons=Persons(1))
    state = state_for(plan, "main", rng)
    x, y = rng.standard_normal((30, plan.d)), rng.uniform(-3, 4, 30)
    before, now = report.vectors(alone, state, y, x), report.vectors(plan, state, y[:, None], x[:, None])
    assert (now[:, :-2] == before[:, :-1]).all()
    assert now[:, -2] - now[:, -1] == pytest.approx(before[:, -1])


def test_the_order_of_rows_and_rows_that_cannot_be_used_make_no_difference() -> None:
    plan, rng = of_persons("huber"), np.random.default_rng(4)
    for role in ROLES:
        state = state_for(plan, role, rng)
        x, y = rng.standard_normal((30, 4, plan.d)), rng.uniform(-3, 4, (30, 4))
        made = report.vectors(plan, state, y, x)
        assert report.vectors(plan, state, y[:, ::-1], x[:, ::-1]) == pytest.approx(made, abs=1e-12)
        y[:, 1] = np.nan
        x[:, 1] = 1e30
        assert (report.vectors(plan, state, y, x) == report.vectors(plan, state, y, np.nan_to_num(x * 0.0 + x))).all()
    assert (report.vectors(plan, state, np.full((2, 4), np.nan), x[:2]) == 0.0).all()


# --- from rows to people ---------------------------------------------------------------------------------------


def gathered(people: Participants, hashes: list[int], y: np.ndarray, x: np.ndarray, cuts=(), binary=False) -> Block:
    """Rows as people, however they are cut into batches."""
    one, parts = Gatherer(people, binary=binary), []
    h = np.array(hashes, dtype=np.uint64)
    for a, b in itertools.pairwise([0, *cuts, len(y)]):
        parts += one.take(one.cut(Block(y[a:b], x[a:b], hashes=h[a:b])))
    parts.append(one.rest())
    return joined([p for p in parts if p is not None])


def drawn(rng: np.random.Generator) -> tuple[list[int], np.ndarray, np.ndarray, np.ndarray]:
    """Ids, responses, rows and numbers of people of unequally many rows, levels of persons among them."""
    k = rng.integers(1, 6, 150)
    who = np.repeat(np.arange(150), k)
    level = rng.standard_normal(150)[who]
    x = np.column_stack([np.ones(len(who)), rng.standard_normal((len(who), 2)) + level[:, None]])
    return (who + 1).tolist(), x @ [0.0, 0.5, -0.2] + level + 0.3 * rng.standard_normal(len(who)), x, who


@pytest.mark.parametrize("cuts", [(), (1, 2, 3), (57, 58, 200)])
def test_rows_are_gathered_whatever_the_batches(cuts: tuple[int, ...]) -> None:
    hashes, y, x, who = drawn(np.random.default_rng(1))
    y[4] = np.nan
    hashes[9] = 0  # nobody's
    got = gathered(Participants.declare(id="who", k_max=3), hashes, y, x, cuts)
    assert got.y.shape == (len(np.unique(who[np.array(hashes) > 0])), 3)
    for person, ys in zip(np.unique(who), got.y, strict=True):
        mine = y[(who == person) & (np.array(hashes) > 0)]
        assert ys[np.isfinite(ys)].tolist() == mine[np.isfinite(mine)][:3].tolist()


def within(values: np.ndarray, who: np.ndarray) -> np.ndarray:
    """Deviations from the mean of each person."""
    each = np.eye(who.max() + 1)[who]
    return values - each @ (each.T @ values / each.sum(axis=0).reshape(-1, *[1] * (values.ndim - 1)))


@pytest.mark.parametrize("effect", ["within", "differences"])
def test_squared_scores_have_the_root_of_least_squares_within_persons(effect: str) -> None:
    """One Newton step of exact sums, in plain NumPy by other means: deviations, or differences of following rows."""
    hashes, y, x, who = drawn(np.random.default_rng(6))
    people = Participants.declare(k_max=5, effect=(effect, "who"))
    got = gathered(people, hashes, y, x, (100, 333))
    plan = plan_for("squared", 3)._replace(
        persons=Persons(people.reports), dummies=np.zeros(3, dtype=bool), lows=np.array([1.0, -20.0, -20.0]),
        highs=np.array([1.0, 20.0, 20.0]), y_low=-30.0, y_high=30.0,
    )  # fmt: skip
    plan = plan._replace(rules=plan.rules._replace(shape=plan.rules.shape._replace(a=-30.0, b=30.0), top=1.0 / 60.0))
    small = rounds.begin(plan).state._replace(role="main", rows=np.eye(3) / 50.0, theta=np.zeros(3))
    total = report.vectors(plan, small, got.y, got.x).sum(axis=0)
    found = rounds.read(plan, small, total, len(got.y))
    step = -np.linalg.solve(found.slope, found.score) * small.threshold(plan.rules) / 50.0
    if effect == "within":
        wx, wy = within(x, who), within(y, who)
    else:
        same = who[1:] == who[:-1]
        wx, wy = np.diff(x, axis=0)[same], np.diff(y)[same]
    best = np.linalg.lstsq(wx[:, 1:], wy, rcond=None)[0]
    assert step[0] == pytest.approx(0.0, abs=1e-9)
    assert step[1:] == pytest.approx(best, abs=1e-6)


def test_a_person_of_one_row_tells_nothing_of_changes() -> None:
    y, x = np.array([1.0, 2.0, 4.0]), np.column_stack([np.ones(3), [0.0, 1.0, 5.0]])
    for effect in ("within", "differences"):
        got = gathered(Participants.declare(k_max=3, effect=(effect, "who")), [7, 8, 8], y, x)
        assert np.isnan(got.y[0]).all()
        assert np.isfinite(got.y[1]).sum() == 2


def test_conditional_logit_is_of_people_whose_answers_differ() -> None:
    people = Participants.declare(k_max=2, effect=("within", "who"))
    x = np.column_stack([np.ones(8), [0.0, 3.0, 1.0, 5.0, 2.0, 9.0, 4.0, 4.5]])
    y = np.array([0.0, 1.0, 1.0, 0.0, 1.0, 1.0, np.nan, 1.0])
    got = gathered(people, [1, 1, 2, 2, 3, 3, 4, 4], y, x, binary=True)
    assert np.isnan(got.y[2:]).all()
    assert got.y[:2].tolist() == [[0.0, 1.0], [1.0, 0.0]]
    assert got.x[:2, :, 1].tolist() == [[-3.0, 3.0], [-4.0, 4.0]]
    assert (got.x[:2, :, 0] == 1.0).all()
