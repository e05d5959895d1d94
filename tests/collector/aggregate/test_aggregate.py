"""Two collectors: reports within their ball, sums that are exact, and estimates that solve the equation they claim."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import chi2

import privreg as pr
from privreg.collector.aggregate import classes, curvature, report, rounds
from privreg.collector.aggregate.estimate import estimate
from privreg.collector.aggregate.plan import Plan, Progress, State, Summed, rules_of
from privreg.errors import UnsupportedArgumentError
from privreg.families.scores import Gauge
from privreg.fits.aggregate import plan_of
from privreg.fits.plan import to_user
from privreg.privacy.mechanisms import psd_sensitivity
from privreg.privacy.noise import normals
from privreg.protocol.sums import longest2
from privreg.simulation import aggregate
from privreg.simulation.streaming.encoding import Block, Encoder, cut
from tests.reference import two_collectors as reference

FAMILIES = {
    "huber": (pr.Huber(), (-3.0, 4.0)),
    "expectile": (pr.Expectile(0.8), (-3.0, 4.0)),
    "quantile": (pr.Quantile(0.3), (-3.0, 4.0)),
    "squared": (pr.Squared(), (-3.0, 4.0)),
    "logistic": (pr.Logistic(), (0.0, 1.0)),
    "poisson": (pr.Poisson(y_max=12), (0.0, 12.0)),
    "multinomial": (pr.Multinomial(), (0.0, 3.0)),
    "smoothed hinge": (pr.SmoothedHinge(0.7), (0.0, 1.0)),
    "custom": (pr.families.custom("soft", lambda eta, y: 2.0 * math.tanh(eta - y), 2.0, slope=2.0), (-3.0, 4.0)),
}
ROLES = ["clamping", "location", "moments", "approach", "main"]


def plan_for(name: str, d: int = 4, rows: int = 5_000, mu: float = 1.0, bounded: int = 0, measured: int = 0) -> Plan:
    family, limits = FAMILIES[name]
    gauge = Gauge(family.code, family.tau, round(limits[1]) + 1, 1.0, 1.0, 0.0, family.y_max, True)
    dummies = np.arange(d) == 1
    low = np.where(np.arange(d) == 0, 1.0, np.where(dummies, 0.0, -1.0))
    return Plan(d, rows, mu, rules_of(family, *limits), *limits, dummies, low, np.ones(d), bounded, measured, gauge)


def state_for(plan: Plan, role: str, rng: np.random.Generator) -> State:
    state = rounds.begin(plan).state
    rows = rng.standard_normal((plan.d, plan.d)) * 10.0 ** rng.uniform(-2, 2)
    if state.classes.size:
        state = state._replace(classes=classes.contrasts(rng.dirichlet(np.ones(plan.rules.blocks + 1)))[0])
    gauge = None if role != "measures" else plan.gauge._replace(residual=10.0 ** rng.uniform(-2, 2), centre=0.3)
    return state._replace(
        role=role, rows=rows, theta=3.0 * rng.standard_normal(plan.size), scale=10.0 ** rng.uniform(-2, 1), ball=5.0,
        gauge=gauge,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("name", "role"),
    [*itertools.product(FAMILIES, ROLES), *((name, "measures") for name in FAMILIES if name != "custom")],
)
def test_reports_lie_in_the_ball_before_and_after_rounding_whatever_the_row(name: str, role: str) -> None:
    plan, rng = plan_for(name, bounded=3), np.random.default_rng(3)
    ends = np.array([0.0, -0.0, 1e-300, 1e-8, 1.0, -1.0, 1e8, -1e200, 1e308, np.inf, -np.inf, np.nan])
    for _ in range(8):
        state = state_for(plan, role, rng)
        x, y = rng.choice(ends, (300, plan.d)), rng.choice([*ends, plan.y_low, plan.y_high], 300)
        x[:150], y[:150] = rng.standard_normal((150, plan.d)), rng.uniform(plan.y_low, plan.y_high, 150)
        offset = np.where(rng.random(300) < 0.5, rng.choice(ends, 300), 0.0)
        flags = rng.random((300, plan.bounded)) < 0.5
        with np.errstate(all="raise"):  # a warning, or an error, would tell of one record
            report.vectors(plan, state, y, x)
            some = report.vectors(plan, state, y, x, offset, flags)
        assert np.isfinite(some).all()
        assert some.shape == (300, plan.width(role))
        assert np.sqrt((some**2).sum(axis=1)).max() <= 1.0 + 1e-12
        steps = report.steps(plan, state)
        whole = steps.whole(some)
        square = (whole.astype(float) ** 2).sum(axis=1)
        apart = math.sqrt((square[:, None] + square - 2.0 * whole.astype(float) @ whole.T).max())
        assert apart <= steps.sd * plan.mu
        if role == "measures":
            assert (some >= 0.0).all()
            assert (some <= plan.measures + 1e-15).all()


@pytest.mark.parametrize("role", ROLES)
def test_a_row_beyond_its_bounds_reports_as_one_at_them(role: str) -> None:
    plan, rng = plan_for("huber"), np.random.default_rng(8)
    state = state_for(plan, role, rng)
    x, y = 3.0 * rng.standard_normal((50, plan.d)), 9.0 * rng.standard_normal(50)
    inside = np.clip(x, plan.lows, plan.highs), np.clip(y, plan.y_low, plan.y_high)
    assert (report.vectors(plan, state, y, x) == report.vectors(plan, state, inside[1], inside[0])).all()


@pytest.mark.parametrize("name", FAMILIES)
def test_scores_are_bounded_by_their_weights_and_not_by_shortening(name: str) -> None:
    """What is shortened would move the estimand: blocks of a report fit into the ball together (Equation 3)."""
    plan, rng = plan_for(name), np.random.default_rng(5)
    state = state_for(plan, "main", rng)._replace(rows=np.eye(plan.d))
    x, y = 4.0 * rng.standard_normal((20_000, plan.d)), rng.uniform(plan.y_low, plan.y_high, 20_000)
    y = np.where(rng.random(20_000) < 0.5, np.rint(y), y) if plan.y_low == 0.0 else y
    x[:5_000] = 0.0  # on the edge of the weights, in few directions
    x[np.arange(5_000), rng.integers(0, plan.d, 5_000)] = plan.reach
    far = np.clip(y, plan.y_low, plan.y_high)
    whole = np.column_stack([one.each() for one in report._scores(plan, state, far, x, np.zeros(len(y)))])
    assert np.sqrt((whole**2).sum(axis=1)).max() <= 1.0 + 1e-9


def test_multinomial_reports_reach_the_edge_of_the_ball_and_no_further() -> None:
    """Equation (19) is tight where two classes are even and a third one is answered, and where one class is sure."""
    plan, rng = plan_for("multinomial", d=1), np.random.default_rng(6)
    state = state_for(plan, "main", rng)._replace(rows=np.eye(1) * plan.reach)
    lengths = []
    odds = [rng.standard_normal((400, 4)) * size for size in (0.3, 1.0, 3.0, 10.0)]
    edges = [np.array([[0.0, 0.0, -40.0, -40.0], [0.0, -40.0, -40.0, -40.0], [0.0, 0.0, 0.0, -40.0]])]
    for eta in np.concatenate([*odds, *edges]):
        here = state._replace(theta=math.sqrt(2.0) * state.classes @ eta / plan.reach)
        blocks = report._scores(plan, here, np.arange(4.0), np.ones((4, 1)), np.zeros(4))
        each = np.column_stack([one.each() for one in blocks])
        lengths.append(np.sqrt((each**2).sum(axis=1)).max())
    assert max(lengths) <= 1.0 + 1e-12
    assert np.array(lengths[-3:-1]) == pytest.approx([1.0, 1.0], abs=2e-3)


def test_measures_are_half_as_far_apart_as_a_ball_is_wide() -> None:
    """Equation (24): numbers between 0 and largest ones, whose squares sum to 1."""
    for name in FAMILIES:
        if name != "custom":
            plan = plan_for(name, measured=100)
            assert (plan.measures**2).sum() == pytest.approx(1.0)
            assert report.sd(plan, "measures") == pytest.approx(math.sqrt(2.0) / plan.mu, rel=1e-4)


def test_two_reports_of_second_moments_are_no_further_than_their_sensitivity() -> None:
    plan, rng = plan_for("huber"), np.random.default_rng(1)
    state = state_for(plan, "moments", rng)
    x, y = rng.choice([-1.0, 0.0, 1.0], (400, plan.d)), rng.uniform(-3, 4, 400)
    some = report.vectors(plan, state._replace(rows=np.diag([1.0, 9.0, 9.0, 9.0]), theta=np.zeros(plan.d)), y, x)
    apart = max(float(np.linalg.norm(a - b)) for a in some[:40] for b in some)
    assert apart <= psd_sensitivity(1.0) + 1e-12
    assert apart > 1.0
    whole = np.rint(some * 1000.0)
    apart = max(float(np.linalg.norm(a - b)) for a in whole[:40] for b in whole)
    assert apart <= psd_sensitivity(1000.0) + math.sqrt(some.shape[1])


def test_matrices_are_stacked_with_their_length() -> None:
    rng = np.random.default_rng(0)
    a = rng.standard_normal((5, 5))
    a = a + a.T
    flat = report.stacked(a)
    assert np.linalg.norm(flat) == pytest.approx(np.linalg.norm(a))
    assert report.unstacked(flat) == pytest.approx(a)
    z = rng.standard_normal((7, 4))
    assert report.products(z, np.full(7, 2.0)) == pytest.approx(report.stacked(2.0 * z[:, :, None] * z[:, None, :]))


def test_noise_of_a_sum_is_both_collectors_and_each_alone_is_enough() -> None:
    plan = plan_for("huber", mu=0.5)
    for role in ("location", "moments", "main"):
        size, exact = plan.width(role), np.zeros(plan.width(role), dtype=np.int64)
        steps, state = report.steps(plan, role), state_for(plan, role, np.random.default_rng(0))
        drawn = np.array(
            [
                report.noised(plan, state, exact, tuple(normals(b"%032d" % (k + who), size) for who in (0, 10_000)))
                for k in range(400)
            ]
        )
        sd = float(drawn.std())
        assert sd == pytest.approx(math.sqrt(2.0) * steps.sd, rel=5.0 / math.sqrt(2.0 * drawn.size))
        assert math.sqrt(2.0) * steps.sd / steps.unit == pytest.approx(report.sd(plan, role), rel=1e-12)


def test_sums_are_modulo_two_to_the_64_and_shares_add_up() -> None:
    plan, rng = plan_for("huber"), np.random.default_rng(2)
    state = state_for(plan, "main", rng)
    x, y = rng.standard_normal((50, plan.d)), rng.uniform(-3, 4, 50)
    rows = Block(y, x, None, None)
    exact = aggregate.total(plan, state, rows)
    size = plan.width("main")
    each = np.array([aggregate.total(plan, state, cut(rows, k, k + 1)) for k in range(50)])
    share = rng.integers(0, 2**64, (50, size), dtype=np.uint64)
    with np.errstate(over="ignore"):
        both = (each.astype(np.uint64) - share).sum(axis=0) + share.sum(axis=0)
    assert (both.astype(np.int64) == exact).all()


@pytest.mark.some(3)
@pytest.mark.parametrize("name", FAMILIES)
def test_no_noise_makes_a_fit_fail(name: str) -> None:
    """States and estimates are functions of noised sums: whatever these are, there are numbers and no warnings."""
    rng = np.random.default_rng(11)
    for d, rows, mu in [(1, 3, 0.05), (1, 40, 1.0), (3, 10, 50.0), (5, 300, 0.05)]:
        plan = plan_for(name, d, rows, mu, bounded=d)
        nobody, one = np.full(rows, np.nan), np.full(rows, plan.y_high)  # no report but zeros, and all alike
        here = np.clip(rng.normal(0.0, 0.3, (rows, d)), -1.0, 1.0)
        here[:, 0] = 1.0
        tries = [(nobody, here), (one, np.ones((rows, d))), (np.rint(rng.uniform(plan.y_low, plan.y_high, rows)), here)]
        keys = (rng.bytes(32), rng.bytes(32), None)  # Without noise a sum may be exactly 0
        for (y, x), key in itertools.product(tries, keys):
            with np.errstate(all="raise", under="ignore"):
                found = estimate(plan, reference.play(plan, y, x, key))
            assert found is None or (np.isfinite(found.theta).all() and (np.diag(found.cov) > 0.0).all())


# --- estimates -------------------------------------------------------------------------------------------------


def _repeated(plan: Plan, y: np.ndarray, x: np.ndarray) -> Progress:
    """All rounds on the same rows, without noise: what is left is the algorithm's own error."""
    progress = rounds.begin(plan)
    for _ in range(12):
        state = progress.state
        mean = report.vectors(plan, state, y, x).mean(axis=0)
        count = 10**9
        progress = rounds.advance(plan, progress, mean * count, count)
        if state.role == "main":
            return progress
    raise AssertionError("no main round")


def _rows(name: str, n: int = 40_000) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(11)
    g, a, b = (rng.random(n) < 0.3).astype(float), rng.uniform(-1, 1, n), np.clip(0.3 * rng.standard_normal(n), -1, 1)
    x = np.column_stack([np.ones(n), g, a, b])
    eta = x @ [0.3, 0.5, -0.6, 0.8]
    match name:
        case "logistic":
            return (rng.random(n) < 1.0 / (1.0 + np.exp(-eta))).astype(float), x
        case "poisson":
            return np.minimum(rng.poisson(np.exp(eta)), 12).astype(float), x
        case "multinomial":
            odds = np.column_stack([np.zeros(n), eta, 0.5 - eta, a - 1.2])
            return (odds + rng.gumbel(size=odds.shape)).argmax(axis=1).astype(float), x
        case "smoothed hinge":
            return (eta + 0.5 * rng.standard_normal(n) > 0.0).astype(float), x
    return np.clip(eta + 0.3 * (rng.standard_exponential(n) - 1.0), -3, 4), x


@pytest.mark.thorough
@pytest.mark.parametrize("name", [name for name in FAMILIES if name not in {"squared", "smoothed hinge"}])
def test_without_noise_the_estimate_is_the_root_of_its_equation(name: str) -> None:
    y, x = _rows(name)
    plan = plan_for(name, rows=10**10, mu=1e6)
    found = estimate(plan, _repeated(plan, y, x))
    assert found is not None
    theta = found.back @ found.theta
    own = reference.root(plan, y, x, reference.weight(plan, found, x), theta)
    alone = reference.errors(plan, y, x, own) / math.sqrt(2_000)
    limit = 0.25 if name in {"quantile", "expectile"} else 0.1  # standard errors of 2,000 records
    assert (np.abs(theta - own) / alone).max() < limit


@pytest.mark.thorough
def test_where_nobody_lies_far_out_the_equation_is_that_of_statsmodels() -> None:
    y, x = _rows("huber")
    plan = plan_for("huber", rows=10**10, mu=1e6)
    theirs = sm.RLM(y, x, M=sm.robust.norms.HuberT()).fit(tol=1e-10, maxiter=200).params
    ours = reference.root(plan, y, x, np.ones(len(y)), theirs)
    assert ours == pytest.approx(theirs, abs=2e-4)
    y, x = _rows("logistic")
    plan = plan_for("logistic", rows=10**10, mu=1e6)
    theirs = sm.Logit(y, x).fit(disp=0).params
    assert reference.root(plan, y, x, np.ones(len(y)), theirs) == pytest.approx(theirs, abs=1e-6)
    y, x = _rows("multinomial")
    plan = plan_for("multinomial", rows=10**10, mu=1e6)
    theirs = sm.MNLogit(y, x).fit(disp=0).params.T.ravel()
    assert reference.root(plan, y, x, np.ones(len(y)), theirs) == pytest.approx(theirs, abs=1e-6)


@pytest.mark.thorough
def test_records_with_nothing_to_tell_do_not_move_the_estimate() -> None:
    y, x = _rows("huber", 20_000)
    plan = plan_for("huber", rows=10**10, mu=1e6)
    whole = estimate(plan, _repeated(plan, y, x))
    silent = estimate(plan, _repeated(plan, np.append(y, np.full(10_000, np.nan)), np.vstack([x, x[:10_000]])))
    assert whole is not None
    assert silent is not None
    a, b = whole.rows.T @ whole.theta, silent.rows.T @ silent.theta
    assert a == pytest.approx(b, abs=0.01)


def test_every_record_answers_one_round() -> None:
    y, x = _rows("huber", 3_000)
    plan = plan_for("huber", rows=3_000)
    progress = reference.play(plan, y, x, b"0" * 32)
    assert sum(progress.held) == 3_000
    assert progress.seen[-1].state.role == "main"
    assert progress.seen[-1].people > 1_500


def test_a_design_without_public_bounds_or_intercept_is_refused() -> None:
    frame = pd.DataFrame({"y": np.linspace(0, 1, 50), "x": np.linspace(0, 1, 50)})
    both = {"x": (0, 1), "y": (0, 1)}
    how = {"mu": 1, "trust": "two_collectors"}
    with pytest.raises(UnsupportedArgumentError, match="intercept"):
        pr.PrivateOnlineRegression.from_formula("y ~ x - 1", frame, bounds=both, **how)
    with pytest.raises(UnsupportedArgumentError, match="needs public bounds"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", frame, bounds={"y": (0, 1)}, scaling="private", **how)


@pytest.mark.statistical
@pytest.mark.parametrize(
    "name",
    [
        "normal",
        "yes, wrong link",
        "binaries",
        "three answers",
        "yes, smoothed hinge",
    ],
)
def test_intervals_of_2_000_people_hold(name: str) -> None:
    from benchmarks import two_collectors as study

    table = study.lines(name, 2_000, 1.0, study.cell(name, 2_000, 1.0, range(200)))
    assert all(line["high"] >= 95.0 for line in table)
    assert np.median([line["ratio"] for line in table]) < 1.5 * (
        1.0 + 3.0 / math.sqrt(2.0 * 200)
    )  # three standard errors


def test_a_plan_encodes_what_the_front_door_declares() -> None:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"g": rng.choice(["n", "y"], 400), "x": rng.uniform(0, 10, 400)})
    frame["y"] = 1 + (frame["g"] == "y") + frame["x"]
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ g + x", frame, bounds={"x": (0, 10), "y": (0, 20)}, levels={"g": ["n", "y"]}, mu=1
    )
    plan, order = plan_of(model._spec, 400)
    assert plan.dummies.tolist() == [False, True, False]
    rows = Encoder(model._spec, order, None, by_column=True).encode(frame)
    assert (rows.x >= plan.lows - 1e-12).all()
    assert (rows.x <= plan.highs + 1e-12).all()
    inside = np.linalg.lstsq(rows.x, rows.y, rcond=None)[0]
    assert to_user(model._spec, order) @ inside + model._spec.units.shift == pytest.approx([1, 1, 1], abs=1e-9)


def test_reach_falls_with_noise_and_is_the_99_percent_point_without() -> None:
    """Equation (7): the noise of a sum is in proportion to L, what weights lose is not."""
    reaches = [plan_for("huber", d=6, rows=n).reach for n in (500, 2_000, 20_000, 10**8)]
    assert reaches == sorted(reaches)
    assert reaches[0] < 0.8 * reaches[-1]
    assert reaches[-1] == pytest.approx(math.sqrt(1.0 + chi2.ppf(0.99, 5)))


def test_rounds_are_pooled_by_precision_so_that_no_small_one_does_harm() -> None:
    """Noise of a mean falls like 1/m: ten batches of a tenth bring ten times the noise variance of one."""
    mean, sd, shares = curvature.pooled([1.0, *10 * [2.0]], [0.1, *10 * [1.0]], [1_000, *10 * [100]], 0.0)
    assert mean == pytest.approx(shares @ [1.0, *10 * [2.0]])
    assert shares[0] / shares[1] == pytest.approx(100.0)
    assert shares.sum() == pytest.approx(1.0)
    assert sd < 0.1 <= curvature.pooled([1.0], [0.1], [1_000], 0.0)[1]
    *_, shares = curvature.pooled([1.0, 1.0], [1e-9, 1e-9], [300, 100], 0.7)  # all sampling: by people
    assert shares == pytest.approx([0.75, 0.25])


def test_what_sampling_adds_to_a_pooled_entry_is_that_of_normal_covariates() -> None:
    """Entries of z z' have variance 2 once stacked, on and off the diagonal; a slope that varies adds to it."""
    rng, d, m, inside = np.random.default_rng(5), 4, 200_000, 0.82
    z = rng.standard_normal((m, d))
    for slope, mean in ((np.ones(m), 1.0), ((rng.random(m) < inside).astype(float), inside)):
        parts = report.products(z, slope).reshape(100, -1, d * (d + 1) // 2).var(axis=1).mean(axis=1)
        claimed, sd = curvature.pooled([1.0], [0.0], [1], mean**2)[1] ** 2, parts.std() / 10.0
        assert parts.mean() > claimed - 4.0 * sd
        assert mean < 1.0 or parts.mean() < claimed + 4.0 * sd


def test_early_rounds_are_as_large_as_their_noise_asks() -> None:
    """Equation (4): noise of means is a fifth of half a range, its edge in second moments a fifth of an eigenvalue."""
    plan = plan_for("huber", rows=10**7)
    sizes, size = plan.sizes, plan.d + 1
    mean = report.sd(plan, "location") * math.sqrt(longest2(plan.located, False)) / (sizes["location"] - 20)
    assert mean == pytest.approx(0.2, rel=0.05)
    edge = math.sqrt(2.0 * size) * report.sd(plan, "moments") * size / (sizes["moments"] - 40)
    assert edge == pytest.approx(0.2, rel=0.01)
    errors = [m / plan.rows / sizes["approach"] + 1.0 / m for m in np.array([0.5, 1.0, 2.0]) * sizes["closing"]]
    assert errors[1] == min(errors)  # quadratic errors of both last rounds, which weigh by their people
    assert plan_for("huber", rows=5_000).sizes["closing"] == 0


@pytest.mark.thorough
def test_a_fit_whose_curvature_was_found_at_another_threshold_is_marked() -> None:
    """Such rounds aren't combined: a main round that is far off by its threshold is not to be relied on either."""
    plan = plan_for("huber", rows=10**10, mu=1e6)
    y, x = _rows("huber")
    reaches = []
    for factor in (1.0, 1.3, 1.8):
        progress = rounds.begin(plan)
        while progress.state.role != "main":
            mean = report.vectors(plan, progress.state, y, x).mean(axis=0)
            progress = rounds.advance(plan, progress, mean * 1e9, 10**9)
        state = progress.state._replace(scale=progress.state.scale * factor, window=math.log(1.3))
        mean = report.vectors(plan, state, y, x).mean(axis=0)
        found = estimate(plan, rounds.advance(plan, progress._replace(state=state), mean * 1e9, 10**9))
        reaches.append(max(found.moves.max(), found.wider))
    assert reaches[0] < reaches[1] < 1.0 < reaches[2]


@pytest.mark.thorough
def test_a_scale_found_off_the_estimate_is_that_at_the_estimate() -> None:
    """Skewed residuals about a line that is off have another median size: Equation (11)."""
    rng = np.random.default_rng(4)
    n = 400_000
    x = np.column_stack([np.ones(n), np.clip(rng.standard_normal((n, 3)) / 3.0, -1.0, 1.0)])
    y = np.clip(0.3 * (rng.standard_exponential(n) - 0.8), -3, 4)
    plan = plan_for("huber", rows=10**10, mu=1e6)
    state = state_for(plan, "main", rng)._replace(rows=np.eye(4), theta=np.zeros(4), scale=0.3, window=0.15)

    def at(theta: float) -> Summed:
        here = state._replace(theta=np.array([theta, 0.0, 0.0, 0.0]))
        here = here._replace(scale=float(np.median(np.abs(y - theta))) / report.MEDIAN)
        return rounds.read(plan, here, report.vectors(plan, here, y, x).mean(axis=0) * 1e9, 10**9)

    one, other = at(0.0), at(0.02)
    assert abs(other.scale - one.scale) > 0.015
    assert one.scale + 0.02 * one.lean[0] == pytest.approx(other.scale, abs=0.003)
