"""Several rows of a person in one local report: in the ball, as the page says, with the coefficients of others."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import privreg as pr
from privreg.collector.aggregate.report import parts_of
from privreg.privacy.mechanisms import score_sensitivity
from privreg.privacy.noise import seeded_key
from privreg.protocol.plans import Persons
from privreg.simulation.devices import Devices
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.encoding import Block
from tests.kinds import KINDS
from tests.rounds import plan_by_rounds
from tests.simulation.test_persons import FIT, HOW, panel, within
from tests.simulation.test_rounds import SHORT

LOCAL = {**HOW, "trust": "local"}


def model(data: object, formula: str, **more: object) -> pr.PrivateOnlineRegression:
    return FIT(formula, data, **{**LOCAL, **more})


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("y ~ x + C(year)", {"id": "person", "k_max": 3}),
        ("y ~ x + C(year)", {"id": "person", "k_max": 3, "per_person": "mean", "epsilon": 8, "delta": 1e-5}),
        ("y ~ x + C(year) | person", {"k_max": 3}),
        ("y ~ x + C(year) | diff(person)", {"k_max": 3}),
        ("y ~ x + C(year)", {"weights": "w"}),
        ("y ~ 1", {"id": "person", "k_max": 3}),
    ],
)
def test_estimates_are_least_squares_own_up_to_their_errors(formula: str, more: dict[str, object]) -> None:
    """Normal errors: Huber's slopes, and least squares'."""
    data = panel(21, 10_000)
    asked = {k: v for k, v in {**LOCAL, "mu": 6, **more}.items() if k != "mu" or "epsilon" not in more}
    res = FIT(formula, data, **asked).fit(seed=2, rounds=10)
    if "|" in formula:
        truth = np.array([0.0, *within(data)])
    elif formula.endswith("1"):
        truth = np.array([data["y"].mean()])
    else:
        x = np.column_stack([np.ones(len(data)), data["year"] == 2, data["year"] == 3, data["x"]]).astype(float)
        by = data.groupby("person")["x"].transform("size") ** -0.5 if "per_person" in more else np.ones(len(data))
        root = np.sqrt(data["w"]) if "weights" in more else by
        truth = np.linalg.lstsq(x * np.asarray(root)[:, None], data["y"] * root, rcond=None)[0]
    assert np.abs((res.params.to_numpy() - truth) / res.bse.to_numpy()).max() < 4.5
    assert res.nobs == (len(data) if "weights" in more else 10_000)


# --- reports -----------------------------------------------------------------------------------------------------

K, D = 4, 3


def devices(role: str, *, mean: bool = False, one: bool = True, mechanism: str = "gaussian") -> Devices:
    """Devices of a round of Huber's loss at a state of no importance."""
    plan = plan_by_rounds(KINDS["huber"], mechanism, d=D, track=True, rounds=SHORT, unscaled=(), rows=5_000)
    plan = plan._replace(persons=Persons(K, mean, one))
    run = RoundsRun(plan, None)
    state = run.progress.state
    rng = np.random.default_rng(4)
    size = plan.direction if role == "moments" else D
    state = state._replace(
        role=role, rows=np.eye(size), theta=rng.standard_normal(D), offsets=0.2 * rng.standard_normal((2, D)),
        kappa=plan.kappa(role), c=0.7,
    )  # fmt: skip
    return Devices(plan, state if role != "moments" else state._replace(offsets=np.zeros((1, D))), None)


def people(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows as far out and as odd as there are, and the parts in which they count."""
    ends = np.array([0.0, 1e-300, 1e-8, 1.0, -1.0, 1e8, -1e200, 1e308, np.inf, np.nan])
    x, y = rng.choice(ends, (n, K, D)), rng.choice(ends, (n, K))
    half = n // 2
    x[:half], y[:half] = 3.0 * rng.standard_normal((half, K, D)), rng.standard_normal((half, K))
    x[: half // 2], y[: half // 2] = x[: half // 2, :1], y[: half // 2, :1]
    return y, x, np.where(rng.random(n) < 0.5, 1.0, rng.choice([0.0, 0.3, 7.0, -2.0, np.nan], n))


def block(asked: Devices, y: np.ndarray, x: np.ndarray, weight: np.ndarray | None = None) -> Block:
    usable = np.isfinite(y) & np.isfinite(x).all(axis=2)
    return Block(y, x, parts=parts_of(asked.plan.persons, usable, weight))


@pytest.mark.parametrize("one", [False, True])
@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("role", ["moments", "pilot", "main"])
def test_any_rows_of_a_person_lie_in_the_ball_and_no_further_apart_than_the_noise_is_for(role, mean, one) -> None:
    """Of k_max adversarial rows two people's reports are as far apart as two records' at most, and that far."""
    asked, rng = devices(role, mean=mean, one=one), np.random.default_rng(1)
    y, x, weight = people(rng, 400)
    with np.errstate(over="raise", invalid="raise", divide="raise"):  # a warning would tell of one record
        made, centre = asked.before_noise(block(asked, y, x, weight))
    assert np.isfinite(made).all()
    norms = np.linalg.norm(made[:, : len(centre) - (asked.state.kappa > 0)], axis=1)
    assert norms.max() <= 1.0 + 1e-12
    square = (made**2).sum(axis=1)
    apart = math.sqrt(max((square[:, None] + square - 2.0 * made @ made.T).max(), 0.0))
    assert apart <= 2.0 * asked.plan.radius(role) + 1e-9
    if role == "main":  # all rows alike, and as far out as one is: opposite reports
        far = np.full((2, K), 50.0) * [[1.0], [-1.0]]
        ends, _ = asked._replace(state=asked.state._replace(offsets=np.zeros((1, D)))).before_noise(
            block(asked, far, np.ones((2, K, D)))
        )
        assert np.linalg.norm(ends[0] - ends[1]) == pytest.approx(score_sensitivity(1.0), abs=1e-12)


@pytest.mark.parametrize(("mean", "one", "role"), [*itertools.product((False, True), (False, True), ("pilot", "main"))])
def test_a_report_is_the_mean_of_its_rows_with_one_weight_or_their_own(mean: bool, one: bool, role: str) -> None:
    """Equation (41), from one row at a time."""
    asked, rng = devices(role, mean=mean, one=one), np.random.default_rng(2)
    y, x = rng.standard_normal((20, K)), 2.0 * rng.standard_normal((20, K, D))
    y[rng.random(y.shape) < 0.3] = np.nan
    made, _ = asked.before_noise(block(asked, y, x))
    state = asked.state
    for i in range(20):
        eta = x[i] @ (state.theta + state.offsets[i // 10])
        have = np.flatnonzero(np.isfinite(y[i]))
        part = 1.0 / max(len(have), 1) if mean else 1.0 / K
        length = np.linalg.norm(x[i], axis=1)
        psi = -np.clip((y[i] - eta) / state.c, -1.0, 1.0)
        score = np.zeros(D)
        for j in have:
            score += part * psi[j] * x[i, j] / (length[have].max() if one else length[j])
        assert made[i, :D] == pytest.approx(score, abs=1e-12)
        if role == "pilot":
            inside = np.abs(y[i] - eta)[have] <= state.c
            assert made[i, D] == pytest.approx(part * inside.sum(), abs=1e-12)


@pytest.mark.parametrize("role", ["moments", "pilot", "main"])
def test_sums_are_those_of_single_reports(role: str) -> None:
    asked, rng = devices(role), np.random.default_rng(3)
    y, x, weight = people(rng, 60)
    rows = block(asked, y, x, np.nan_to_num(weight))
    made, _ = asked.before_noise(rows)
    groups = len(asked.state.offsets)
    assert asked.sums(rows, np.zeros) == pytest.approx(made.reshape(groups, 60 // groups, -1).sum(axis=1), abs=1e-9)
    randomised = devices(role, mechanism="privunit").sums(rows, lambda n: np.random.default_rng(5).standard_normal(n))
    assert randomised.shape == asked.sums(rows, np.zeros).shape
    assert np.isfinite(randomised).all()


@pytest.mark.thorough
def test_the_trace_of_second_moments_is_how_much_of_a_report_is_filled() -> None:
    data = panel(23, 20_000)
    data = data[(data["person"] % 2 == 0) | (data["year"] == 1)]
    for k, mean, filled in ((3, "sum", (2.5 + 1.0) / 6.0), (10, "sum", 0.175), (10, "mean", 1.0)):
        stream = model(data, "y ~ x", id="person", k_max=k, per_person=mean, mu=4, rows=20_000).start(seed=1, rounds=10)
        stream.update(data)
        scatter = stream._run.progress.scatter
        share, error = scatter.usable
        assert share == pytest.approx(filled, abs=4.0 * error + 0.02)
        assert scatter.answering == pytest.approx(min(share, 1.0))
        codes = [note.code for note in stream.results().privacy.notes]
        assert ("filled" in codes) == (k == 10 and mean == "sum")
        assert "unusable" not in codes


def test_a_weight_of_all_rows_would_bias_slopes_of_levels_and_rows_have_their_own_there() -> None:
    persons = [model(None, f, k_max=3, id="person")._spec.persons for f in ("y ~ x", "y ~ x | person")]
    assert [p.one for p in persons] == [False, True]
    assert model(None, "y ~ x", k_max=3, id="person", trust="two_collectors")._spec.persons.one


def test_noise_of_weighted_people_is_that_of_whole_reports() -> None:
    """A survey weight makes a report smaller, and its noise stays."""
    asked, rng = devices("main"), np.random.default_rng(6)
    run = RoundsRun(asked.plan._replace(rounds=SHORT[1:]), seeded_key(1))
    run.advance(rng.standard_normal((100, K)), rng.standard_normal((100, K, D)), None, np.full(100, 0.05))
    run.close()
    assert run.weight.sum() == 100.0
