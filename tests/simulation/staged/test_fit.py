"""What a staged fit makes of its reports: rounds of moments, stages, intervals, notes, personal budgets, silence."""

import functools
import math
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import curvature, location, moments
from privreg.collector.moments import Layout
from privreg.collector.reference import moment_diagonal
from privreg.device.score import lane_report
from privreg.families.constants import ChainRules
from privreg.protocol import codes
from privreg.protocol.codes import HUBER
from privreg.protocol.plans import Shape
from privreg.simulation.staged import beginning, findings, intervals, kernels, lanes
from privreg.simulation.staged.schedule import ChainSteps, Schedule, Stage, lane_plan, make_schedule
from tests.kinds import EXTREME, KINDS, plan_of, quiet, reports_of, spared

SEED = 5
NAMES = ["const", "a", "b"]
BOUNDS = {"a": (-4, 4), "b": (-4, 4), "y": (-9, 9)}
TRUTH = np.array([0.5, 1.0, -1.0])


@functools.cache
def rows(n=3000, centre=0.0, correlated=False):
    """Responses and covariates."""
    rng = np.random.default_rng(2)
    x = np.column_stack([np.ones(n), rng.standard_normal((n, 2)).clip(-3.9, 3.9)])
    if correlated:
        x[:, 2] = 0.98 * x[:, 1] + 0.02 * x[:, 2]
    return centre + x @ TRUTH + 0.5 * rng.standard_normal(n), x


def begin(n=3000, binary=False, seed=SEED, how=None, **options):
    """A stream of an array model that expects n people."""
    y, x = rows(n)
    family = {"family": "logistic", "bounds": {k: BOUNDS[k] for k in "ab"}} if binary else {"bounds": BOUNDS}
    given = {"mu": 2, "rows": n, "exog_names": NAMES, **family, **options}
    return pr.PrivateOnlineRegression((y > 0) * 1.0 if binary else y, x, **given).start(seed=seed, **(how or {}))


def first_of(stream, kind):
    """How many people come before the first stage of a kind."""
    return stream._run.start.schedule.before(kind)


# --- rounds of moments -------------------------------------------------------------------------------------

D = 4
BEFORE = Layout(constant=True, response=False)
ALONE = Layout(constant=False, response=False)


def reports_that_show(deviation, people, layout=BEFORE):
    """Sum of noiseless reports from which `deviation` from white is measured, in white units."""
    d = len(deviation)
    white = moment_diagonal(d, layout.constant)
    mean = np.diag(white) + deviation * np.sqrt(np.outer(white, white)) * d / (d + 2)
    at = np.tril_indices(d)
    return people * np.where(at[0] == at[1], mean[at], math.sqrt(2.0) * mean[at])


def tilted(size, d=D):
    """A deviation from white in the correlations of the slopes alone."""
    out = np.zeros((d, d))
    out[3, 1] = out[1, 3] = size
    return out


def test_rounds_that_moved_nothing_count_as_one_long_round():
    n, sd, begun = 1000, 1.0, moments.start_from(np.eye(D))
    one, two = reports_that_show(tilted(0.3), n), reports_that_show(tilted(0.34), n)
    # what one round shows is within its noise, and what two show is not
    first = moments.learn(begun, one, n, sd, BEFORE)
    np.testing.assert_array_equal(first.rows, np.eye(D))
    np.testing.assert_array_equal(moments.learn(begun, two, n, sd, BEFORE).rows, np.eye(D))
    second, long = moments.learn(first, two, n, sd, BEFORE), moments.learn(begun, one + two, 2 * n, sd, BEFORE)
    assert second.rows[3, 1] < -0.05
    for a, b in zip(second[:3], long[:3], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


def test_what_was_measured_far_away_counts_for_less():
    n = 10**6
    shown = {far: np.diag([far, 0.0]) for far in (0.0, 0.1, 1.0, 6.0)}
    after = {
        far: moments.learn(moments.start_from(np.eye(2)), reports_that_show(v, n, ALONE), n, 0.0, ALONE)
        for far, v in shown.items()
    }
    weights = [after[far].weight for far in sorted(after)]
    assert weights == sorted(weights, reverse=True)
    assert weights[0] == pytest.approx(n, rel=1e-9)
    assert weights[1] > 0.9 * n  # as good as here
    assert weights[2] < 0.3 * n  # one factor of two in variance away
    # so that the next round is believed rather than the far one: both say what lies between 0 and the second's word
    news = reports_that_show(np.array([[0.0, 0.3], [0.3, 0.0]]), n, ALONE)
    taken = {far: moments.learn(s, news, n, 0.0, ALONE) for far, s in after.items()}
    for far, s in taken.items():
        turned = s.rows @ np.linalg.inv(after[far].rows)
        found = np.linalg.inv(turned) @ np.linalg.inv(turned).T - np.eye(2)
        if far == 0.0:
            assert found[0, 1] == pytest.approx(0.15, rel=0.01)  # the mean of two rounds of equal weight
        if far == 6.0:
            assert found[0, 1] == pytest.approx(0.3, rel=0.02)


def test_what_a_round_has_taken_up_is_remembered_no_more_and_what_it_has_not_is_kept():
    n, begun = 10**9, moments.start_from(np.eye(2))
    shown = np.array([[1.0, 0.8], [0.8, 0.5]])
    taken = moments.learn(begun, reports_that_show(shown, n, ALONE), n, 0.0, ALONE)
    np.testing.assert_allclose(taken.memory, 0.0, atol=1e-6)
    np.testing.assert_allclose(taken.rows @ (np.eye(2) + shown) @ taken.rows.T, np.eye(2), atol=1e-6)
    beyond = moments.learn(begun, reports_that_show(np.diag([19.0, 0.0]), n, ALONE), n, 0.0, ALONE)
    assert beyond.rows[0, 0] == pytest.approx(8.0**-0.5, rel=1e-6)  # a round stretches no variance by more than 8
    np.testing.assert_allclose(beyond.memory, np.diag([20.0 / 8.0 - 1.0, 0.0]), atol=1e-5)
    # in coordinates of one's own choice it is the same: nothing depends on the map that a round begins from
    turned = np.array([[2.0, 0.0], [1.0, 3.0]])
    again = moments.learn(moments.start_from(turned), reports_that_show(shown, n, ALONE), n, 0.0, ALONE)
    np.testing.assert_allclose(again.rows, taken.rows @ turned, rtol=1e-9)
    np.testing.assert_allclose(again.memory, taken.memory, atol=1e-12)


# --- where chains begin ------------------------------------------------------------------------------------


def test_a_stage_s_late_average_knows_nothing_of_its_first_half():
    kind = KINDS["huber"]
    schedule = Schedule((), 4, 3, 0.7, 1.0, None, 0, 1.0, 1.0)
    rules = ChainRules(kind.shape, 1.0, True, 0.4, 0.4, 0.352, moving=False)
    reports = reports_of(kind, "gaussian", label=False)
    steady = ChainSteps(first=0.1, scale=math.inf, alpha=0.7, gain=0.0, delay=0.0)
    for people, worth in ((40, 1.0), (44, 1.0), (40, 0.5)):
        stage = Stage("pilot", people, wanted=40.0, most=10**9)
        plan = lane_plan(stage, schedule, rules, reports, 2, path=False, worth=worth)
        ends, updates = [], (people if worth == 1.0 else round(40.0 / worth)) // 4
        for astray in (0.0, 50.0):
            state, after = lanes.init(np.zeros(2), 0.0, plan), []
            for i in range(4 * updates):
                t = i // 4
                report = np.array([0.3, -0.2, 0.0]) * (t >= updates // 2)
                report[0] += astray * ((t == 0) - 1.0 * (t == updates // 2 - 1))  # away, and back before it counts
                state = lanes.update(state, plan, steady, np.eye(2), i, report)
                after += [state.theta[0].copy()] * (i % 4 == 3)
            ends.append(lanes.late_average(state, plan)[0])
            np.testing.assert_allclose(ends[-1], np.mean(after[updates // 2 :], axis=0), rtol=1e-12)
        np.testing.assert_allclose(ends[0], ends[1], atol=1e-12)


@pytest.mark.parametrize("binary", [False, True])
def test_chains_begin_where_the_stage_before_was_on_average_or_where_it_estimates(binary):
    stream = begin(binary=binary)
    run, (y, x) = stream._run, rows()
    y = (y > 0) * 1.0 if binary else y
    at, size = 0, run.start.schedule.batch
    seen = []
    while run.kind != "lanes":
        before, stage = run.chains, run.here
        m = size if run.chains is not None else stage.people
        stream.update((y[at : at + m], x[at : at + m]))
        at += m
        if before is None:
            path = []
            continue
        path.append((before.state.theta[0].copy(), float(before.state.log_c[0])))
        if run.chains is before:
            continue
        late = path[len(path) // 2 :]
        theta, log_c = np.mean([v for v, _ in late], axis=0), np.mean([c for _, c in late])
        if run.kind == "lanes" and not binary:  # a loss whose curvature does not move is estimated by corrections
            theta = lanes.corrected(before.state, before.plan, before.newton)[0].estimate
        np.testing.assert_allclose(run.chains.state.theta - theta, 0.0, atol=1e-12)
        np.testing.assert_allclose(run.chains.state.log_c - log_c, 0.0, atol=1e-12)
        seen.append(stage.kind)
        path = []
    assert seen == ["search"] * 6 * binary + ["pilot", "common"]


@pytest.mark.parametrize("options", [{"mu": 2}, {"mu": 0.5}, {"family": pr.families.Expectile(0.8)}])
def test_linear_lanes_begin_with_steps_that_let_iterates_stray_a_few_sd_of_the_final_estimate(options):
    n = 20_000
    stream = begin(n, **options)
    y, x = rows(n)
    lead = first_of(stream, "lanes")
    stream.update((y[:lead], x[:lead]))
    run = stream._run
    assert run.kind == "lanes"
    batch, first = run.start.schedule.batch, run.chains.steps.first
    # θ ← θ − γ (θ − θ* + ε), ε of variance σ²/batch, strays by γ σ²/(2 − γ)/batch; the estimate's variance is σ²/n
    stray = math.sqrt(first / (2.0 - first) / batch * n)
    low, high = (1.5, 4.5) if "family" in options else (3.0, 9.0)  # a skewed loss is biased sooner
    assert low < stray < high
    np.testing.assert_array_equal(run.chains.steps.block(0, 1)[0], first)


# --- the plan ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("moving", [False, True])
@pytest.mark.parametrize("d", [2, 6, 20])
def test_declared_moments_halve_the_rounds_of_moments_and_nothing_else(moving, d):
    def made(declared):
        return make_schedule(
            d=d, noise=4.0, moment_noise=2.0, rows=None, unscaled=0, declared=declared, batch=1, lanes=None,
            alpha=None, pace=None, between=True, moving=moving,
        )  # fmt: skip

    plain, declared = made(declared=False), made(declared=True)
    for a, b in zip(plain.stages, declared.stages, strict=True):
        if a.kind == "moments" and not a.optional:
            assert b.people == pytest.approx(a.people / 2, abs=1)
            assert b.wanted == pytest.approx(a.wanted / 2, abs=1)
            assert b[2:3] + b[4:] == a[2:3] + a[4:]
        else:
            assert a == b
    assert plain[1:] == declared[1:]


@pytest.mark.parametrize("correlated", [False, True])
def test_people_who_are_spared_go_to_the_lanes_and_lanes_end_where_the_fit_is_told(correlated):
    n = 4000
    y, x = rows(n, correlated=correlated)
    stream = begin(n, how={"measures": 0.1}, mu=50)
    stream.update((y[: n - 401], x[: n - 401]))
    run = stream._run
    assert (spared(run) > 0) != correlated
    assert run.kind == "lanes"
    stream.update((y[n - 401 : n - 400], x[n - 401 : n - 400]))
    assert run.kind == "measures"
    assert sum(run.past) == n - 400
    stream.update((y[n - 400 :], x[n - 400 :]))
    assert run.at == 400
    assert stream.results().nobs == n


# --- intervals ---------------------------------------------------------------------------------------------


def simulated(rng, plan, updates, sd):
    """State of lanes whose corrections are independent, `sd` for one person's report."""
    d = 3
    state = lanes.init(np.zeros(d), 0.0, plan)
    for k in range(plan.lanes):
        u = sd / math.sqrt(plan.batch) * rng.standard_normal((updates, d))
        path = np.column_stack([np.cumsum(u, axis=0), np.arange(1.0, updates + 1)])
        state.total[k], state.partial[k], state.updates[k] = u.sum(axis=0), path[-1, :d], updates
        state.sums[k], state.weight[k, 0] = np.tril(path.T @ path), updates
    return state


def test_the_two_ways_to_intervals_agree_on_average_with_how_estimates_vary():
    stream = begin(how={"inference": ("random_scaling", "between_lanes")})
    y, x = rows()
    lead = first_of(stream, "lanes")
    stream.update((y[:lead], x[:lead]))
    run, rng = stream._run, np.random.default_rng(8)
    mine, common = run.chains, run.common
    # a joint report lies in a larger ball: the number that goes with the score makes it so much noisier
    noisier = common.plan.radius / mine.plan.radius
    assert noisier == pytest.approx(math.hypot(1.0, 0.5))
    found = {"between_lanes": [], "random_scaling": []}
    estimates = []
    for _ in range(400):
        run.chains = mine._replace(state=simulated(rng, mine.plan, 30, 1.0))
        run.common = common._replace(state=simulated(rng, common.plan, 200, noisier))
        for name, cov in intervals.lane_covariances(run).items():
            found[name].append(np.trace(cov) / 3)
        estimates.append(run.estimate())
    people = mine.plan.batch * (30 * mine.plan.lanes + 200 / noisier**2)
    # relative sds of the three means: 0.009 (an estimate between 9 groups or more, 3 coordinates), 0.009 (a squared
    # bridge, 8 lanes or more), 0.041 (400 squares of 3 coordinates)
    assert np.mean(found["between_lanes"]) * people == pytest.approx(1.0, rel=0.05)
    assert np.mean(found["random_scaling"]) * people == pytest.approx(1.0, rel=0.05)
    assert np.mean(np.square(estimates)) * people == pytest.approx(1.0, rel=0.2)


@pytest.mark.parametrize("joint", [False, True])
def test_a_group_weighs_what_its_people_weigh_and_less_if_their_reports_were_noisier(joint):
    kind, rng = KINDS["huber"], np.random.default_rng(3)
    plan = plan_of(kind, reports_of(kind, "gaussian", label=False), 3, joint=joint, worth=0.3)
    weight = rng.uniform(0.1, 0.6, 24)
    state = lanes.init(np.zeros(3), 0.0, plan)
    steps = ChainSteps(0.1, 10.0, 0.7, 0.0, 0.0)
    for i, w in enumerate(weight):
        state = lanes.update(state, plan, steps, np.eye(3), i, np.zeros(3 + joint), float(w))
    groups = lanes.corrected(state, plan, np.eye(3))
    expected = [weight[np.arange(24) // 4 % 3 == k].sum() for k in range(3)]
    # noise of variance 1 or 1.25 at μ = 2, and a signal of .7/3
    precision = (1.0 + 0.7 / 3.0) / (1.25 + 0.7 / 3.0) if joint else 1.0
    np.testing.assert_allclose([g.weight for g in groups], np.array(expected) * precision)
    assert [g.people for g in groups] == [8, 8, 8]


@pytest.mark.parametrize(("name", "d", "ratio"), [("gaussian", 1, 1 / 1.25), ("laplace", 4, 4 / 5 / 1.25)])
def test_a_joint_report_counts_for_less_by_the_noise_of_its_mechanism(name, d, ratio):
    # in a ball whose square is 1.25; Laplace noise grows with √5 rather than √4 as well
    reports = reports_of(KINDS["huber"], name, label=False, strength=0.5)._replace(reach=1.0)
    alone, joint = (reports.variance(d, kappa) - 0.7 / d for kappa in (0.0, 1.0))
    assert alone / joint == pytest.approx(ratio)


def test_a_randomised_bit_is_more_precise_alone_than_with_another_number():
    reports = reports_of(KINDS["huber"], "randomized_response", label=False, strength=1.0)
    assert 0.1 < reports.variance(1, 0.0) / reports.variance(1, 1.0) < 0.75


# --- coordinates -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("constant", [True, False])
def test_scaled_covariates_have_mean_zero_and_sd_one_and_stay_correlated(constant):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((5000, 3)) @ rng.standard_normal((3, 3)) * [1.0, 50.0, 0.02]
    x = (x - x.mean(axis=0)) + constant * np.array([3.0, -400.0, 0.5])
    white = np.linalg.inv(np.linalg.cholesky(np.cov(x.T, bias=True)))
    rows_ = white
    if constant:
        rows_ = np.eye(4)
        rows_[1:, 1:], rows_[1:, 0] = white, -white @ x.mean(axis=0)
    v = np.column_stack([np.ones(5000), x]) if constant else x
    z = v @ curvature.scaled(rows_, constant).T
    if constant:
        np.testing.assert_array_equal(z[:, 0], 1.0)
        z = z[:, 1:]
    np.testing.assert_allclose(z.mean(axis=0), 0.0, atol=1e-9)
    np.testing.assert_allclose(z.std(axis=0), 1.0, rtol=1e-9)
    np.testing.assert_allclose(np.corrcoef(z.T), np.corrcoef(x.T), atol=1e-9)


RULES = ChainRules(Shape(HUBER, 0.0, 0.0, 0), 0.5, True, 0.4, 0.4, 0.352, moving=False)


@pytest.mark.parametrize(
    ("share", "people", "named"),
    [
        (0.034, 10**9, True),  # shares below 3.5% can't be told apart
        (0.036, 10**9, False),
        (0.34, 100, True),
        (0.36, 100, False),  # nor is the larger part of a half called rare
        (0.13, 10**5, True),  # 16 √(1 + 3/25)/(0.4 √10⁵) = 0.134
        (0.138, 10**5, False),
        (0.138, 9 * 10**4, True),
    ],
)
def test_a_value_is_rare_where_too_few_people_have_it(share, people, named):
    shares = np.array([np.nan, share, 0.5, np.nan])
    assert curvature.rare(shares, RULES, 1.0, people) == [1] * named


def test_far_values_are_brought_in_to_five_and_bounds_are_wide_from_twenty_sd_on():
    for gap, stretch, want in ((2.0, 2.4, 2.4), (2.0, 2.6, 2.5), (2.0, 30.0, 2.5), (0.5, 9.0, 9.0), (0.5, 30.0, 10.0)):
        out, _ = curvature.bring_in(np.diag([1.0, stretch, stretch]), (0.0, gap, 0.0), constant=True)
        np.testing.assert_allclose(np.diag(out), [1.0, want, stretch])
    # a slanted row is brought in whole: the column, and what it is taken about
    slanted = np.array([[1.0, 0.0, 0.0], [-8.0, 10.0, 0.0], [0.3, 0.2, 2.0]])
    out, _ = curvature.bring_in(slanted, (0.0, 2.0, 0.0), constant=True)
    np.testing.assert_allclose(out, [[1.0, 0.0, 0.0], [-2.0, 2.5, 0.0], [0.3, 0.2, 2.0]])
    spans = np.diag([30.0, 9.9, 10.1, 10.1, 10.1])
    assert curvature.wide(spans, (0.0, 0.0, 0.0, 1.0), (), True) == [(2, pytest.approx(20.2))]
    assert curvature.wide(spans, (0.0, 0.0, 0.0, 0.0), (3,), True) == [(2, pytest.approx(20.2))]
    assert [j for j, _ in curvature.wide(spans, (0.0, 0.0, 0.0, 0.0), (), False)] == [0, 2, 3]


# --- a first guess -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("names", "options"),
    [
        (["const", "a", "b"], {"scaling": "private"}),
        (["a", "const", "b"], {"scaling": "private"}),
        (["a", "b"], {"scaling": "private"}),
        (["a", "const", "b"], {"bounds": {**BOUNDS, "y": (950, 1100)}}),
        (["a", "b", "const"], {"scaling": "private", "family": pr.Huber(scale=0.5)}),
    ],
)
def test_the_user_s_guess_is_where_the_pilot_begins_whatever_has_been_learned(names, options):
    y, x = rows(centre=1000.0)
    guess = dict(zip(NAMES, [1000.5, 2.0, -3.0], strict=True))
    columns = x[:, [NAMES.index(c) for c in names]]
    model = pr.PrivateOnlineRegression(y, columns, mu=2, rows=3000, exog_names=names, **options)
    stream = model.start(seed=SEED, start_params=[guess[c] for c in names], batch_size=2)
    while stream._run.kind != "pilot":
        at = stream.nobs
        stream.update((y[at : at + 1], columns[at : at + 1]))
    stream.update((y[at : at + 1], columns[at : at + 1]))  # half a batch moves nothing
    if "scaling" in options:
        assert stream._run.y_scale != 1.0
    np.testing.assert_allclose(stream.results().params, [guess[c] for c in names], rtol=1e-8)


# --- a search that did not settle --------------------------------------------------------------------------


def located(mu=2.0, n=20_000):
    """A stream whose search for scales has ended."""
    y, x = rows(n)
    model = pr.PrivateOnlineRegression(y, x, mu=mu, rows=n, exog_names=NAMES, scaling="private")
    stream = model.start(seed=SEED)
    lead = first_of(stream, "moments")
    return stream.update((y[:lead], x[:lead]))


def test_a_search_is_lost_where_far_too_many_or_clearly_too_few_were_outside():
    stream = located()
    run = stream._run
    people = run.start.schedule.stages[0].people // location.BATCHES * (location.BATCHES - location.SEARCH)
    sd = (math.sqrt(6.0) / 2.0 + 0.5) / math.sqrt(people)  # of six bits at mu = 2, and what people differ by
    late = location.BATCHES - location.SEARCH
    for away, lost in ((-2.9, True), (-2.1, False), (0.0, False), (3.5, False), (4.5, True)):
        share = location.TARGET + np.array([0.0, away * sd, 0.0])
        run.location = run.location._replace(outside=late * share)
        assert findings.lost(run) == [2] * lost, away
    outside = location.TARGET + np.array([-9 * sd, 0.0, 9 * sd])
    run.location = run.location._replace(outside=late * outside)
    assert findings.lost(run) == [1, 3]  # the response comes last
    assert findings.lost(begin()._run) == []


def test_a_search_that_settled_is_hardly_ever_told_and_one_that_did_not_mostly():
    n = 130 * 16 * 4
    rng = np.random.default_rng(12)
    told = {"settled": 0, "the same for most": 0, "far away": 0}
    runs = 25
    for seed in range(runs):
        y = 3.0 * rng.standard_normal(n) + 10.0
        columns = [np.ones(n), rng.uniform(5.0, 6.0, n), 1000.0 * rng.standard_normal(n)]
        for what in told:
            x = np.column_stack(columns)
            if what == "the same for most":
                x[rng.uniform(size=n) < 0.98, 2] = 0.0
            if what == "far away":
                x[:, 2] = 1e9 + rng.standard_normal(n)
            model = pr.PrivateOnlineRegression(y, x, mu=1, rows=10 * n, exog_names=NAMES, scaling="private")
            stream = model.start(seed=seed)
            lead = first_of(stream, "moments")
            assert 0 < lead <= n
            lost = findings.lost(stream.update((y[:lead], x[:lead]))._run)
            told[what] += bool(lost) if what == "settled" else 2 in lost
    assert told["settled"] <= 4
    assert told["the same for most"] >= 0.7 * runs  # at budgets that small some falls are within the noise
    assert told["far away"] >= 0.7 * runs


# --- reports of any size -----------------------------------------------------------------------------------

ROWS = [np.array(r) for r in [(1.0, 0.3, -2.0), *((v, 1.0, 2.0) for v in EXTREME), *((v, -v, v) for v in EXTREME)]]


@pytest.mark.parametrize("reach", [1.0, 0.5])
@pytest.mark.parametrize("name", ["gaussian", "laplace"])
def test_lanes_bound_every_row_as_its_device_does(name, reach):
    kind = KINDS["huber"]
    plan = plan_of(kind, reports_of(kind, name, label=False), 3, joint=False, batch=2, lanes=1)
    # were the declared bound wrong, reports would be clipped to it
    plan = plan._replace(channel=plan.channel._replace(scale=0.0), reach=reach)
    zero = np.zeros((1, 9))
    for x in ROWS:
        with np.errstate(over="ignore", under="ignore"):
            norm2 = float(x @ x)
        usable = 1e-290 < norm2 < math.inf
        for y in (-1e9, 1e9):
            state = lanes.init(np.zeros(3), 0.0, plan)
            kernels.run_lanes(
                x[None], np.array([y]), np.empty(0), np.empty(0), np.eye(3), np.eye(3), np.ones(1), np.ones(1), zero,
                0, 0, 1, plan, state,
            )  # fmt: skip
            report = state.batch[0, :3]
            assert report.tobytes() == (0.0 + lane_report(plan, np.eye(3), np.zeros(3), 1.0, x, y, zero[0])).tobytes()
            assert math.hypot(*report) == pytest.approx(reach if usable else 0.0, rel=1e-12)


def advanced(plan, y, weight=None, n=None):
    """State of lanes after people with covariates (1, ±1, 0), and the log c after every person."""
    n, state, path = len(y), lanes.init(np.zeros(3), 0.0, plan), []
    x = np.column_stack([np.ones(n), (-1.0) ** np.arange(n), np.zeros(n)])
    for i in range(n):
        w = np.empty(0) if weight is None else weight[i : i + 1]
        kernels.run_lanes(
            x[i : i + 1], y[i : i + 1], np.empty(0), w, np.eye(3), np.eye(3), np.full(1, 0.2), np.full(1, 0.4),
            np.zeros((1, 4)), i, 0, 1, plan, state,
        )  # fmt: skip
        path.append(state.log_c.copy())
    return state, np.array(path)


def test_people_of_one_small_budget_lead_chains_where_people_of_one_large_budget_would():
    kind = KINDS["huber"]
    plan = quiet(plan_of(kind, reports_of(kind, "gaussian", label=False), 3, joint=True))
    y = np.random.default_rng(6).standard_normal(60)
    one, _ = advanced(plan, y)
    small, _ = advanced(plan._replace(worth=0.25), y, np.full(60, 0.25))
    for name, a, b in zip(one._fields, one, small, strict=True):
        if name not in {"batch", "weight"}:
            np.testing.assert_array_equal(a, b, err_msg=name)
    assert one.updates.tolist() == [5, 5, 5]
    assert np.abs(one.theta).max() > 0.1
    # a batch of people who weigh twice as much as was expected counts for two
    heavy, _ = advanced(plan._replace(worth=0.5), y[:12], np.full(12, 1.0))
    np.testing.assert_array_equal(heavy.weight[:, 0], 2.0)


def test_a_corner_grows_no_wider_than_the_response_s_range():
    kind = KINDS["huber"]  # of responses from −2 to 3
    plan = quiet(plan_of(kind, reports_of(kind, "gaussian", label=False), 3, joint=True))
    assert plan.widest == pytest.approx(math.log(5.0))
    state, path = advanced(plan, 1e6 * (-1.0) ** np.arange(400) * (1.0 + np.arange(400) % 3))
    assert (np.diff(path, axis=0) >= 0.0).all()  # nobody is inside, whatever c
    np.testing.assert_array_equal(state.log_c, plan.widest)


@pytest.mark.parametrize("names", [["const", "a", "b"], ["const"]])
def test_noise_drives_no_corner_beyond_the_response_s_range(names):
    y, x = rows()
    x = x[:, : len(names)]
    bounds = {k: BOUNDS[k] for k in (*names, "y") if k in BOUNDS}
    model = pr.PrivateOnlineRegression(y, x, mu=0.05, rows=3000, exog_names=names, bounds=bounds)
    widest = []
    for seed in range(6):
        stream = model.start(seed=seed)
        for a in range(0, 3000, 10):
            stream.update((y[a : a + 10], x[a : a + 10]))
            if stream._run.chains is not None and stream._run.chains.state.updates.any():
                moved = stream._run.chains.state.log_c[stream._run.chains.state.updates > 0]
                widest.append(math.exp(moved.max()) * stream._run.y_scale * 9.0)
    assert max(widest) <= 18.0 * (1 + 1e-9)
    assert max(widest) > 9.0  # noise does drive it far


def test_the_location_of_a_response_alone_stays_inside_its_limits():
    n = 2000
    for high in (True, False):
        y = np.where(np.random.default_rng(1).uniform(size=n) < 0.02, 50.0, 100.0 * high)
        model = pr.PrivateOnlineRegression.from_formula("y ~ 1", {"y": y}, mu=0.3, bounds={"y": (0, 100)})
        found = [float(model.fit(seed=seed, threads=1).params.iloc[0]) for seed in range(8)]
        assert min(found) >= -1e-9
        assert max(found) <= 100.0 + 1e-9
        at_end = np.isclose(found, 100.0 * high, rtol=0.0, atol=1e-9)
        assert 1 <= at_end.sum() < 8  # half of the errors would be outside, and the others are left alone


# --- budgets of one's own ----------------------------------------------------------------------------------


def people(n=20_000, budgets=(1.0,), seed=3):
    """A table of people with budgets drawn from a few."""
    rng = np.random.default_rng(seed)
    y, x = rows(n)
    return pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2], "budget": rng.choice(budgets, n)})


def personal(data, mu_max, how=None, **options):
    given = {"mu": "budget", "mu_max": mu_max, "bounds": BOUNDS, "rows": len(data), **options}
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **given).start(seed=SEED, **(how or {}))


@pytest.mark.parametrize(
    ("budgets", "options", "ends"),
    [
        ((10.0, 7.0), {}, {"weights", "people"}),
        ((10.0, 1.0, 1.0, 0.5), {}, {"weights", "people"}),
        ((1.0, 0.5), {}, {"people"}),
        ((10.0, 5.0, 2.5), {"scaling": "private", "bounds": {}}, {"weights", "people", "search"}),
        ((10.0, 5.0, 2.5), {"how": {"measures": 0.2}}, {"weights", "people", "told"}),
    ],
)
def test_a_stage_ends_when_its_people_weigh_enough_or_are_all_it_may_have(budgets, options, ends):
    data = people(budgets=budgets)
    stream = personal(data, 10.0, **options).update(data)
    run, weight = stream._run, (data["budget"].to_numpy() / 10.0) ** 2
    at, seen = 0, set()
    for stage, n in run.roles()[:-1]:
        mine = np.cumsum(weight[at : at + n])
        if stage.optional and not n:
            continue
        if stage.kind == "location":
            assert n == stage.people
            seen.add("search")
        elif stage.kind == "lanes":
            assert at + n == 16_000  # where the fit is told, however many came before
            seen.add("told")
        elif n == stage.most:
            seen.add("people")
        else:
            assert mine[-1] >= stage.wanted
            assert n < stage.most
            seen.add("weights")
        assert mine[-2] < stage.wanted or stage.kind in {"location", "lanes"}
        at += n
    assert seen == ends
    assert run.roles()[-1][1] == len(data) - at
    assert run.worth == pytest.approx(weight[:at].mean(), rel=1e-12)
    # in chunks, and with threads, the same
    cuts = sorted({0, len(data), *np.random.default_rng(9).integers(1, len(data), 30).tolist()})
    other = personal(data, 10.0, **options)
    for _ in other._update_all((data.iloc[a:b] for a, b in pairwise(cuts)), 2):
        pass
    one, two = run.to_arrays(), other._run.to_arrays()
    assert all(one[k].tobytes() == two[k].tobytes() for k in one)


def test_people_of_tiny_budgets_neither_help_nor_harm():
    mixed = people(30_000, (0.1, 1.0))
    others = mixed[mixed["budget"] == 1.0]
    both, alone = personal(mixed, 1.0).update(mixed).results(), personal(others, 1.0).update(others).results()
    # with equal weights their noise, of 100 times the variance, would make standard errors 7 times as large; each is
    # known to some 20%
    ratio = float(np.sqrt(np.mean(both.bse**2) / np.mean(alone.bse**2)))
    assert 0.5 < ratio < 2.0
    for res in (both, alone):
        errors = (res.params.to_numpy() - TRUTH) / res.bse.to_numpy()
        assert np.abs(errors).max() < 5.0


def test_the_ceiling_of_budgets_changes_nobody_s_noise():
    data = people(20)
    same = {"bounds": BOUNDS, "rows": 20_000}
    plain = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=1, **same).start(seed=SEED).update(data)
    noiseless = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=None, **same).start().update(data)
    for mu_max in (1.0, 2.0, 4.0):
        stream = personal(data, mu_max, rows=20_000).update(data)
        assert stream._run.kind == "moments"
        assert stream._run.weight_here == pytest.approx(20 / mu_max**2)
        np.testing.assert_allclose(stream._run.total * mu_max**2, plain._run.total, rtol=1e-9)
    assert np.abs(plain._run.total - noiseless._run.total).min() > 0.1


def test_the_ceiling_of_budgets_changes_no_search_for_scales():
    data = people(400)
    same = {"scaling": "private", "bounds": {}, "rows": 2600}  # 4 people a batch, whatever the budget
    plain = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=1, **same).start(seed=SEED).update(data)
    assert plain._run.location.batches == 100
    for mu_max in (1.0, 2.0, 4.0):
        stream = personal(data, mu_max, **same).update(data)
        for one, other in zip(stream._run.location, plain._run.location, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9)


def test_the_ceiling_is_all_that_is_said_of_budgets():
    data = people(6000, (0.731, 1.217))
    res = personal(data, 1.5).update(data).results()
    said = str(res.summary()) + str(res.privacy) + " ".join(res.privacy.notes)
    assert "1.5" in said
    for budget in (0.731, 1.217, float(data["budget"].mean())):
        assert f"{budget:.3f}" not in said


# --- people with nothing to say ----------------------------------------------------------------------------


def silent(data):
    """The same people, each with a gap somewhere."""
    out = data.copy()
    for i in range(len(out)):
        out.iloc[i, i % 3] = np.nan
    return out


@pytest.mark.parametrize("kind", ["location", "moments", "pilot", "common", "lanes", "measures", "single chain"])
def test_people_with_nothing_to_say_add_noise_and_what_white_data_would(kind):
    n = 20_000
    data = people(n)[["y", "a", "b"]]
    options = {"scaling": "private"} if kind == "location" else {"bounds": BOUNDS}
    how = {"tuning": "published"} if kind == "single chain" else {"measures": 0.1}
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=None, missing="noise", rows=n, **options)
    talk, gaps = data.iloc[-5:], silent(data.iloc[-9:-5])
    runs = []
    for group in (talk, pd.concat([gaps[:1], talk[:2], gaps[1:3], talk[2:], gaps[3:]])):
        stream = model.start(batch_size=20, **how)
        while kind != "single chain" and stream._run.kind != kind:
            at = stream.nobs
            stream.update(data.iloc[at : at + stream._run.here.people])
        runs.append(stream.update(group)._run)
    one, two = runs
    if kind == "single chain":
        np.testing.assert_allclose(two.state.batch, one.state.batch, rtol=1e-12)
        assert np.abs(one.state.batch).min() > 0.0
        return
    if one.chains is not None and kind != "measures":
        k = one.chains.state.in_batch.argmax()
        a, b = (run.chains.state.batch[k] for run in runs)
        np.testing.assert_allclose(b[:3], a[:3], rtol=1e-12)
        assert b[3] - a[3] == pytest.approx(0.0, abs=1e-12)
        assert np.abs(a[:3]).min() > 0.0
        return
    expected = {
        "location": np.tile([0.5, 0.3173105], 3),
        "moments": np.zeros(10),
        "measures": np.zeros(len(one.total)),
    }
    np.testing.assert_allclose(two.total - one.total, 4 * expected[kind], atol=1e-6)


STATED = {
    "location": math.sqrt(6),
    "moments": math.sqrt(2),
    "pilot": math.sqrt(5),
    "common": math.sqrt(5),
    "lanes": 2.0,
    "measures": 2.0,
}
"""Noise sds at mu = 1: of 6 bits, of matrices of norm 1, of a unit score with a number, of one alone, of 4 numbers."""


@pytest.mark.parametrize("kind", [*STATED, "single chain"])
def test_people_with_nothing_to_say_send_as_much_noise_as_others(kind):
    n = 20_000
    data = people(n)[["y", "a", "b"]]
    options = {"scaling": "private"} if kind == "location" else {"bounds": BOUNDS}
    how = {"tuning": "published", "batch_size": 400} if kind == "single chain" else {"measures": 0.1, "batch_size": 100}
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=1, missing="noise", rows=n, **options)
    stream = model.start(seed=SEED, **how)
    while kind != "single chain" and stream._run.kind != kind:
        stream.update(data.iloc[stream.nobs : stream.nobs + 50])
    run, seen = stream._run, []
    if kind == "single chain":
        sd = run.plan.channel.scale * run.plan.radius
        assert sd == 2 * run.plan.bound
    else:
        sd = STATED[kind]

    def sums():
        if kind == "single chain":
            return run.state.batch.copy()
        return run.total.copy() if run.total.size else run.chains.state.batch.sum(axis=0)

    def taken():
        if kind == "single chain":
            return int(run.state.counts[codes.UPDATES])
        return run.location.batches if kind == "location" or run.chains is None else int(run.chains.state.updates.sum())

    gaps = silent(data.iloc[:90])
    for i in range(len(gaps)):
        before, batches = sums(), taken()
        stream.update(gaps.iloc[i : i + 1])
        if taken() == batches and (kind == "single chain" or run.kind == kind):
            seen.append(sums() - before)
    sent = np.array(seen)
    sent = sent[:, :3] if kind == "lanes" else sent
    assert len(sent) > 60
    assert np.abs(sent).min() > 0.0
    assert abs(sent.std(axis=0).mean() / sd - 1) < 5 / math.sqrt(2 * sent.size)


def told_by_the_predictor(family, n=30_000):
    """Rows of whom 30% lack a covariate, who those are, and a model's options without noise."""
    data = people(n)[["y", "a", "b"]]
    bounds, levels = dict(BOUNDS), {}
    if family in {"logistic", "multinomial"}:
        data["y"] = (data["y"] > 0).astype(float)
        bounds.pop("y")
    if family == "multinomial":
        data["y"], levels = np.where(data["y"] > 0, "more", "less"), {"y": ["less", "more"]}
    elif family != "squared" and family != "logistic":
        data["y"] = np.round(np.clip(data["y"] + 5, 0, 20))
        bounds.pop("y")
    gone = np.random.default_rng(SEED).random(n) < 0.3
    return data, gone, {"bounds": bounds, "levels": levels, "family": family, "mu": None, "rows": n}


PREDICTED = pytest.mark.parametrize("family", ["logistic", pr.Poisson(20), "squared", "multinomial"])


@PREDICTED
def test_the_share_of_further_rows_is_learned_where_the_predictor_tells_the_curvature(family):
    data, gone, same = told_by_the_predictor(family)
    who = np.where(gone, 0, np.arange(1, len(data) + 1))
    stream = pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, id="who", **same).start()
    stream.update(data.assign(who=who))
    assert stream._run.kind == "lanes"
    np.testing.assert_allclose(np.exp(stream._run.chains.state.log_c), 1 / (1 - gone.mean()), rtol=0.03)
    whole = pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **same).start().update(data[~gone])
    assert stream._run.chains.plan.kappa == 0.0
    assert (whole._run.common.plan.kappa, stream._run.common.plan.kappa) == (0.0, 1.0)


@PREDICTED
def test_steps_are_longer_by_the_share_of_unusable_rows_that_the_reports_show(family, monkeypatch):
    data, gone, same = told_by_the_predictor(family)
    expected, real = {}, beginning._expected

    def noted(run, theta):
        out = real(run, theta)
        expected.setdefault(id(run), []).append(out.newton)
        return out

    monkeypatch.setattr(beginning, "_expected", noted)
    stream = pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **same).start()
    stream.update(data.assign(a=data["a"].mask(gone)))
    whole = pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **same).start().update(data[~gone])
    assert stream._run.kind == "lanes"
    assert stream._run.scatter.answering == pytest.approx(1 - gone.mean(), rel=0.03)
    assert whole._run.scatter.answering == 1.0
    for run in (stream._run, whole._run):  # nobody's report costs more for it
        np.testing.assert_array_equal(run.chains.state.log_c, 0.0)
        assert (run.chains.plan.kappa, run.common.plan.kappa) == (0.0, 0.0)
        taken = run.chains.newton * run.scatter.answering
        assert any(np.allclose(taken, newton, rtol=1e-12, atol=0) for newton in expected[id(run)])


@pytest.mark.parametrize("tuning", ["efficient", "published"])
def test_silent_people_move_no_quantile_of_a_response_alone(tuning):
    n = 40_000
    rng = np.random.default_rng(SEED)
    y = rng.normal(0, 1, n)
    gone = rng.random(n) < 0.4
    data = pd.DataFrame({"y": np.where(gone, np.nan, y)})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ 1", data, family=pr.Quantile(0.9), mu=None, bounds={"y": (-4, 4)}, missing="noise"
    )
    estimate = float(model.fit(tuning=tuning, progress=False).params.iloc[0])
    assert estimate == pytest.approx(np.quantile(y[~gone], 0.9), abs=0.05)


def test_public_covariates_are_saved_in_any_stage(tmp_path):
    """Their rounds of moments take no noise, and there is none to go on with."""
    y, x = rows(3000)
    frame = pd.DataFrame({"y": y, "a": x[:, 1], "b": x[:, 2]})

    def start():
        given = {"mu": 2.0, "private": "response", "bounds": BOUNDS, "rows": len(frame)}
        return pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **given).start(seed=SEED)

    whole, cut = start().update(frame), start()
    ends = np.cumsum([stage.people for stage in cut._run.start.schedule.stages[:-1]]).tolist()
    marks = sorted({0, *ends, *(e - 1 for e in ends), *(e + 1 for e in ends), len(frame)})
    kinds = set()
    for a, b in pairwise(marks):
        cut.update(frame.iloc[a:b])
        kinds.add(cut._run.kind)
        cut.save(tmp_path / "s")
        cut = pr.load(tmp_path / "s")
    assert kinds == {"location", "moments", "pilot", "common", "lanes"}
    assert cut.results().params.equals(whole.results().params)
    assert cut.results().bse.equals(whole.results().bse)
