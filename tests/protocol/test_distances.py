"""How far two reports to two collectors, or a curator, may be from each other: proved numbers, that are tight."""

import itertools
import math
from contextlib import nullcontext
from fractions import Fraction

import numpy as np
import pytest

from privreg.collector.aggregate import report
from privreg.collector.aggregate import report as steps
from privreg.collector.aggregate.plan import Noise, State
from privreg.protocol import codes, lattice, sums
from privreg.protocol.sums import APART, ODDS, SHARES, SQUARED, distance2
from privreg_field.device.report import sums as device
from privreg_field.device.report.design import Row
from privreg_field.wire import messages, study
from privreg_field.wire.roles import Diary
from privreg_field.wire.wire import MessageError
from tests.device.test_sums import engine_of
from tests.reference.distances import attained, farthest, is_bound
from tests.studies import NOON, const, field_state, sum_ask, sum_plan

MANY = 40_000  # The squared distance of any two reports of norm 1, over 10,000
LOGISTIC = np.array(SHARES["logistic"])


def of(shares, role="main", family=codes.HUBER, **more):
    """A largest squared distance, over 10,000."""
    square = more.pop("longest2", None)
    at = None if square is None else ([math.sqrt(square) if square < 1e300 else 1e200], 1.0)
    given = {"scaled": shares not in {"plain", "logistic"}, "family": family, "rows": 0, "located": 1, "at": at}
    return distance2(role, SHARES[shares], **{**given, **more}) * 10_000


# --- the numbers ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", APART)
def test_distances_of_scores_with_any_slope_are_the_supremum_at_corners(kind):
    found = farthest(SHARES[kind], kind != "plain")[0] * 10_000
    assert found <= APART[kind] < found * Fraction(10_001, 10_000)
    assert of(kind) == APART[kind]


@pytest.mark.parametrize("kind", ["cornered", "cornered, again"])
def test_distances_of_tobit_are_without_the_last_two_blocks_and_theirs(kind):
    """Each of the two is a number within ±1 over √2, times a direction: together 2 √p₄ from others at most."""
    shares = SHARES[kind]
    found = farthest((*shares[:3], 0.0, shares[4]), True)[0] + 4 * Fraction(str(shares[3]))
    assert found * 10_000 == of(kind, family=codes.TOBIT)


@pytest.mark.parametrize("kind", [kind for kind in SHARES if kind in APART or "persons" in kind])
def test_norms_of_reports_are_1_at_most(kind):
    a, b, m, o, t = (Fraction(str(v)) for v in SHARES[kind])
    assert a + b + m + o + t + t / 4 <= 1 or kind == "logistic, persons"


@pytest.mark.parametrize(
    "row", [pytest.param(k, marks=[] if k % 6 == 2 else pytest.mark.thorough) for k in range(len(ODDS))]
)
def test_distances_of_logistic_scores_are_proved_by_branch_and_bound_and_nearly_attained(row):
    most, apart = ODDS[row]
    k = 1.000001 * math.sqrt(most)  # so that no rounding of ‖θ‖ L matters
    assert is_bound(apart / 10_000, k, LOGISTIC)
    seen = attained(min(k, 1e9), SHARES["logistic"], 1_000)
    assert apart / 10_000 < 1.005 * seen
    assert not is_bound(0.999 * seen, k, LOGISTIC)
    assert [of("logistic", family=codes.LOGISTIC, longest2=v) for v in (most, 0.99 * most)] == [apart] * 2
    assert most == math.inf or of("logistic", family=codes.LOGISTIC, longest2=most * (1.0 + 1e-9)) > apart


def test_the_table_of_logistic_scores_rises():
    assert [*ODDS] == sorted(ODDS)
    assert [apart for _, apart in ODDS] == sorted(apart for _, apart in ODDS)
    assert ODDS[-1][0] == math.inf


def test_squares_of_numbers_add_nothing_to_their_distance():
    """(a − b)² (1 + τ (a + b)²) ≤ (2 − s)² (1 + τ s²), s = abs(a + b), is 4 at most up to τ = φ⁵/4."""
    tau = Fraction(str(SQUARED)) ** 2
    assert (8 * tau - 11) ** 2 <= 125  # 4 τ ≤ φ⁵ = (11 + 5 √5)/2
    ends = [Fraction(s, 2_000) for s in range(4_001)]
    assert max((2 - s) ** 2 * (1 + tau * s * s) for s in ends) == 4
    assert max((2 - s) ** 2 * (1 + Fraction(101, 100) * tau * s * s) for s in ends) > 4
    for located in (1, 2, 7):
        whole = located * (1 + tau)
        assert of("plain", "location", located=located) == 40_000 * located / whole
        assert of("plain", "location", located=located, rows=1) == 10_000 * max(4 * located, whole + 1) / (whole + 1)


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        ("logistic", {}),  # whose shares are of a logistic score alone
        ("cornered", {"scaled": False}),
        ("plain", {"scaled": True}),
        ("plain", {"family": codes.LOGISTIC}),
        ("logistic", {"family": codes.LOGISTIC, "scaled": True, "longest2": 0.0}),  # whose squares have a scale number
        ("plain", {"family": codes.MULTINOMIAL}),
        ("classes", {"family": codes.MULTINOMIAL}),
        *((kind, {"rows": 2}) for kind in APART),
        *((kind, {"rows": 1}) for kind in SHARES if "persons" in kind),
        ("logistic", {"family": codes.LOGISTIC, "rows": 2, "longest2": 0.0}),
    ],
)
def test_what_no_proof_is_of_is_as_far_apart_as_the_ball_is_wide(kind, more):
    assert of(kind, **more) == MANY


@pytest.mark.parametrize(
    "family", [codes.HUBER, codes.EXPECTILE, codes.QUANTILE, codes.SQUARED, codes.POISSON, codes.CUSTOM]
)
def test_scores_without_a_scale_are_of_one_distance(family):
    assert of("plain", family=family) == of("plain", family=family, rows=1) == APART["plain"]


def test_offsets_and_rows_of_persons_are_known_to_devices():
    plain = sum_plan("logistic")
    ask = sum_ask(plain, "main", theta=(0.0,) * plain.d)
    assert plain.distance2("main", ask) == Fraction(ODDS[0][1], 10_000)
    assert plain.distance2("main") == Fraction(ODDS[-1][1], 10_000)
    moved = sum_plan("logistic", offset=["sub", ["col", "visits"], const(3)])
    assert moved.distance2("main", ask) == Fraction(ODDS[-1][1], 10_000)
    for rows in (1, 2):
        plan = sum_plan("huber", diary=Diary(rows, False, True, "none", "", NOON))
        assert plan.distance2("main") == Fraction(APART["cornered"] if rows == 1 else MANY, 10_000)


# --- reports -------------------------------------------------------------------------------------------------


def whole_reports(plan, ask, rows):
    """Reports in whole numbers, as devices make them."""
    return [device.whole(plan.role_of(ask), device.of_person(plan, ask, [row])) for row in rows]


def farthest_apart(made):
    """Largest squared distance of two of them, exact."""
    unique = np.unique(np.array(made, dtype=np.int64), axis=0)
    square = (unique.astype(object) ** 2).sum(axis=1)
    products = unique.astype(np.float64) @ unique.T.astype(np.float64)
    rough = np.add.outer(square.astype(np.float64), square.astype(np.float64)) - 2.0 * products
    pairs = np.argwhere(rough >= rough.max() - 1e-6 * rough.max())
    return max(sum(int(v) ** 2 for v in unique[i] - unique[j]) for i, j in pairs)


def adversaries(plan, ask, rng):
    """Rows in few directions, as long as weights begin to bind and around, where scores and slopes turn."""
    of, out = plan.sums, []
    c = of.ratio * ask.scale if of.scaled else of.fixed
    ends = [0.0, c, -c, 1e-9, 0.5 * c, 3.0 * c] if of.scaled else []
    for length, angle in itertools.product((0.5, 1.0, 1.0, 1.4), rng.uniform(0.0, 2.0 * math.pi, 12)):
        for eta in (0.0, 1.0, -1.0, math.log(10.0) + 1e-9, 5.0):  # told by the first number, too short to matter
            side = ask.reach * length * math.cos(angle), ask.reach * length * math.sin(angle)
            ys = [of.y_low, of.y_high, *(eta + e * (1.0 + s) for e in ends for s in (-1e-5, 1e-5))]
            out += [
                Row([eta / ask.theta[0], *(sign * v for v in side), 0.0, 0.0], y, 0.0) for y in ys for sign in (-1, 1)
            ]
    return [*out, Row([math.nan] * 5, 0.0, 0.0)]


def wide(plan, **more):
    """The plan with limits that bind nothing, and coordinates that are the columns."""
    far = plan.sums._replace(lows=(-99.0,) * 5, highs=(99.0,) * 5, **more)
    return plan._replace(sums=far)


ROWS = tuple(tuple(float(j == k) for k in range(5)) for j in range(5))


@pytest.mark.parametrize(
    ("family", "part"),  # the likelihood's score of counts is ±1 where its slope is 0
    [("huber", 0.95), ("expectile", 0.95), ("quantile", 0.95), ("squared", 0.95), ("poisson", 0.85)],
)
def test_adversarial_reports_are_no_farther_apart_than_claimed_and_nearly_as_far(family, part):
    rng = np.random.default_rng(1)
    plan = sum_plan(family)
    scaled = plan.sums.scaled  # a state, and a ratio, at which the scale number jumps where the score turns
    plan = wide(plan, ratio=sums.MEDIAN if scaled else 1.0, **({"y_low": -99.0, "y_high": 99.0} if scaled else {}))
    ask = sum_ask(plan, "main", rows=ROWS, theta=(1e7, 0.0, 0.0, 0.0, 0.0), scale=1.0, window=1e-6)
    allowed = Fraction(plan.mu.p, plan.mu.q) ** 2 * 4**plan.bits
    found = farthest_apart(whole_reports(plan, ask, adversaries(plan, ask, rng)))
    assert part * allowed < found <= allowed


@pytest.mark.parametrize("k", [0.5, 2.0, 4.0, 12.0])
def test_adversarial_logistic_reports_are_no_farther_apart_than_claimed_and_nearly_as_far(k):
    plan = wide(sum_plan("logistic"))
    ask = sum_ask(plan, "main", rows=ROWS, theta=(k / 2.500001, 0.0, 0.0, 0.0, 0.0), reach=2.5)
    allowed = Fraction(plan.mu.p, plan.mu.q) ** 2 * 4**plan.bits
    angles, rows = np.linspace(0.0, math.pi, 41), []
    for length, angle, side in itertools.product((0.6, 0.8, 0.95, 1.0, 1.05, 1.3, 3.0), angles, (-1.0, 1.0)):
        x = [2.5 * length * math.cos(angle), side * 2.5 * length * math.sin(angle), 0.0, 0.0, 0.0]
        rows += [Row(x, 0.0, 0.0), Row(x, 1.0, 0.0)]
    found = farthest_apart(whole_reports(plan, ask, rows))
    assert 0.985 * allowed < found <= allowed


def test_the_noise_is_that_of_the_distance_and_neither_more_nor_less():
    """Of one who adds it, over a report's norm, it is Δ/μ, but for whole numbers."""
    for family, mu in itertools.product(("huber", "quantile", "squared", "logistic"), (1.0, 0.37)):
        plan = engine_of(sum_plan(family))._replace(mu=mu, noise=Noise(1, again=True))
        for role, theta in itertools.product(("location", "moments", "main"), (np.zeros(5), np.full(5, 0.7))):
            state = State(0, role, np.eye(5), theta, 0.0, 1.0, 0.5, 4.0, longest=2.0)
            apart = math.sqrt(plan.distance2(role, state))
            assert steps.sd(plan, state) == pytest.approx(apart / mu, rel=1e-4)
            assert steps.sd(plan, state) >= apart / mu
            one = steps.steps(plan, state)
            budget = lattice.fraction_of(mu)
            square = plan.distance2(role, state)
            assert lattice.is_private(one.form, one.numbers, one.radius, budget, one.bits, square)
            assert not lattice.is_private(one.form, one.numbers, one.radius + 1, budget, one.bits, square)


@pytest.mark.parametrize("beyond", [False, True])
def test_scores_that_are_no_scores_are_clipped(monkeypatch, beyond):
    """A distance rests on |score| ≤ 1, slopes within their ends, and none beyond the threshold."""
    plan = sum_plan("huber")
    ask, engine = sum_ask(plan, "main", rows=ROWS, theta=(0.0,) * 5, scale=0.5), engine_of(plan)
    row = Row([1.0, 0.0, 1.0, 0.3, -0.5], 0.9 if beyond else 0.5, 0.0)
    assert (row.y > engine.rules.ratio * ask.scale) == beyond
    state = State(0, "main", np.eye(5), np.zeros(5), *ask[4:8], longest=ask.reach)
    monkeypatch.setattr(device.score, "unit", lambda *_: -7.0)
    monkeypatch.setattr(device, "slope", lambda *_: 9.0)
    monkeypatch.setattr(report, "unit", lambda *_: np.array([-7.0]))
    monkeypatch.setattr(report, "slopes", lambda *_: np.array([9.0]))
    made = device.of_person(plan, ask, [row]), report.vectors(engine, state, np.array([row.y]), np.array([row.x]))[0]
    d, length = plan.d, np.linalg.norm(row.x) / ask.reach
    for one in made:
        assert np.linalg.norm(one[:d]) == pytest.approx(math.sqrt(plan.sums.shares[0]) * length)
        slope = np.linalg.norm(one[d : d + d * (d + 1) // 2])
        assert slope == pytest.approx(0.0 if beyond else math.sqrt(plan.sums.shares[1]) * length**2)


def test_plans_and_states_whose_numbers_a_distance_does_not_hold_of_are_refused():
    plan = sum_plan("logistic")
    for change in ({"top": 0.2}, {"y_high": 2.0}, {"y_low": -1.0}, {"top": 2.0**-61}):
        with pytest.raises(MessageError, match=r"don't add up|no report is made of"):
            study.plan_payload(plan._replace(sums=plan.sums._replace(**change)))
    ask = sum_ask(plan, "main")
    for reach, right in ((2.0**-60, True), (2.0**-61, False)):
        payload = messages.state_payload(field_state(bytes(32), ask._replace(reach=reach)))
        with nullcontext() if right else pytest.raises(MessageError, match="must be positive"):
            messages.read_state(payload, plan, bytes(32))
