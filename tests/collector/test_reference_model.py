"""The reference model: derivatives are those of what it expects, and secants lead from a state to the truth."""

import numpy as np
import pytest
from scipy.linalg import hadamard
from scipy.special import ndtri

from privreg.collector.covariates.moments import Layout
from privreg.collector.estimation import reference
from privreg.collector.estimation.combination import SPREAD, carry_rounds
from privreg.collector.estimation.coordinates import FAR, unbound
from privreg.collector.plan import Columns, Progress, ScoreRound
from privreg.families import scores
from privreg.families.family import Family, score_rules
from privreg.families.scores import SCORINGS
from privreg.privacy.mechanisms import randomised
from privreg.protocol import codes
from privreg.protocol.plans import Shape
from privreg.protocol.rounds import GROUPS
from tests.kinds import KINDS, mechanism
from tests.rounds import plan_by_rounds, state_of

EVERY_KIND = pytest.mark.parametrize("kind", KINDS)
M, D, STEP = 400, 3, 1e-6


def rules_of(kind):
    own = KINDS[kind]
    return score_rules(own.family, D, 1.0, low=own.low, high=own.high, label=not own.balanced)


def made(kind, *, unit=True, answering=1.0, seed=1):
    rng = np.random.default_rng(seed)
    points = np.column_stack([np.ones(M), rng.standard_normal((M, D - 1))])
    return reference.reference_of(rules_of(kind), points, unit=unit, answering=answering)


def multinomial(blocks, seed=1):
    rng = np.random.default_rng(seed)
    points = np.column_stack([np.ones(M), rng.standard_normal((M, D - 1))])
    rules = rules_of("balanced")
    rules = type(rules)(**{**rules.__dict__, "shape": Shape(codes.MULTINOMIAL, 0.0, 0.0, 0)})
    return reference.reference_of(rules, points, blocks=blocks)


def test_a_family_without_rules_is_taken_for_no_other():
    with pytest.raises(ValueError, match=r"no rules of rounds for New\(\)"):
        score_rules(Family("New", 1 + max(SCORINGS), "identity"), D, 1.0)


def values(said, state, theta, s):
    found = reference.expected(said, state, 0.8, theta, s)
    return np.append(found.score, found.number)


@pytest.mark.some(1)
@pytest.mark.parametrize("answering", [1.0, 0.7])
@EVERY_KIND
def test_derivatives_are_those_of_what_is_expected(kind, answering):
    # central differences: their error is STEP² times third derivatives of functions that stretch over a unit or so
    said = made(kind, answering=answering)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state, theta, s = 0.5 * rng.standard_normal(D), 0.5 * rng.standard_normal(D), float(rng.uniform(0.5, 1.5))
        found = reference.expected(said, state, 0.8, theta, s)
        ahead = [values(said, state, theta + STEP * e, s) for e in np.eye(D)]
        behind = [values(said, state, theta - STEP * e, s) for e in np.eye(D)]
        slopes = (np.array(ahead) - np.array(behind)).T / (2 * STEP)
        np.testing.assert_allclose(found.slope, slopes[:-1], rtol=1e-6, atol=1e-8)
        np.testing.assert_allclose(found.number_slope, slopes[-1], rtol=1e-6, atol=1e-8)
        up, down = (values(said, state, theta, s * np.exp(v)) for v in (STEP, -STEP))
        np.testing.assert_allclose(
            np.append(found.by_scale, found.number_by_scale), (up - down) / (2 * STEP), rtol=1e-6, atol=1e-8
        )
        assert np.linalg.eigvalsh(-found.slope).min() > 0.0


@pytest.mark.parametrize("blocks", [2, 3])
def test_derivatives_of_several_predictors(blocks):
    said, rng = multinomial(blocks), np.random.default_rng(2)
    state, theta = rng.standard_normal((2, blocks * D))
    found = reference.expected(said, state, 1.0, theta, 1.0)
    each = np.eye(blocks * D) * STEP
    ahead = np.array([reference.expected(said, state, 1.0, theta + e, 1.0).score for e in each])
    behind = np.array([reference.expected(said, state, 1.0, theta - e, 1.0).score for e in each])
    np.testing.assert_allclose(found.slope, (ahead - behind).T / (2 * STEP), rtol=1e-6, atol=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize("unit", [False, True])
@EVERY_KIND
def test_a_secant_leads_from_a_state_to_the_truth(kind, unit):
    said = made(kind, unit=unit, answering=0.9)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        state, theta = rng.standard_normal((2, D))
        secant = reference.secant(said, state, 0.8, theta, 0.9)
        expected = (
            reference.expected(said, state, 0.8, theta, 0.9).score
            - reference.expected(said, theta, 0.8, theta, 0.9).score
        )
        near = np.abs(said.points @ (state - theta)) < reference.SMALL * 0.8
        assert not near.any()
        np.testing.assert_allclose(secant @ (state - theta), expected, rtol=1e-9, atol=1e-12)
        tangent = reference.secant(said, theta, 0.8, theta, 0.9)
        slope = reference.expected(said, theta, 0.8, theta, 0.9).slope
        np.testing.assert_allclose(tangent, -slope, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(tangent, tangent.T, rtol=1e-12)


@EVERY_KIND
@pytest.mark.parametrize("c", [0.3, 0.8, 2.0])
def test_secants_of_states_near_the_truth_are_near_the_tangent(kind, c):
    """At another threshold an expectile's mean score isn't 0 there: divided by a small distance it was anything."""
    said, rng = made(kind), np.random.default_rng(4)
    theta, away = 0.3 * rng.standard_normal((2, D))
    tangent = reference.secant(said, theta, c, theta, 0.9)
    for distance in (1e-2, 1e-3, 1e-4):
        secant = reference.secant(said, theta + distance * away, c, theta, 0.9)
        np.testing.assert_allclose(secant, tangent, rtol=0.1, atol=0.02)


def test_counts_predicted_above_their_largest_bring_no_curvature_out_of_nothing():
    said, rng = made("poisson"), np.random.default_rng(5)
    theta, away = np.array([3.5, 0.5, 0.5])[:D], rng.standard_normal(D)
    assert np.mean(said.points @ theta > np.log(said.rules.shape.a)) > 0.3
    for distance in (1e-2, 1e-3, 1e-4):
        assert abs(reference.secant(said, theta + distance * away, 1.0, theta, 1.0)).max() < 2.0


@pytest.mark.parametrize("blocks", [2, 3])
def test_a_secant_of_several_predictors(blocks):
    # by Simpson's rule: exact but for fourth derivatives along the way
    said, rng = multinomial(blocks), np.random.default_rng(3)
    for _ in range(3):
        theta = 0.7 * rng.standard_normal(blocks * D)
        state = theta + 0.3 * rng.standard_normal(blocks * D)
        found = reference.secant(said, state, 1.0, theta, 1.0) @ (state - theta)
        expected = reference.expected(said, state, 1.0, theta, 1.0).score
        np.testing.assert_allclose(found, expected, atol=1e-3 * np.linalg.norm(expected))


@EVERY_KIND
def test_where_the_state_is_the_truth_nothing_is_expected(kind):
    said, theta = made(kind), np.array([0.2, -0.4, 0.3])
    score = reference.expected(said, theta, rules_of(kind).ratio * 0.9, theta, 0.9).score
    # the centre of a robust expectile is known to the mesh of 4,000 quantiles by which it is found
    np.testing.assert_allclose(score, 0.0, atol=2e-4)


def told_so_far(seen, said):
    """Progress after one main round, of numbers alone."""
    begun = Progress(seen.state, None, None, None, (seen,), None, (GROUPS,))
    return begun._replace(points=said.points, shares=np.full(D, np.nan))


@EVERY_KIND
def test_the_law_may_be_wrong_of_the_residuals_scale_and_where_curvature_moves_of_covariates_spread(kind):
    said, truth = made(kind), np.array([0.2, -0.4, 0.3])
    plan = plan_by_rounds(KINDS[kind], rules=said.rules, d=D)
    state = state_of(plan, "main", np.random.default_rng(0), theta=truth)._replace(
        rows=np.eye(D), c=0.8, offsets=np.zeros((GROUPS, D))
    )
    seen = ScoreRound(state, np.ones((1, GROUPS)), np.zeros((1, GROUPS, D)), None, 0.5)
    progress = told_so_far(seen, said)
    frame = carry_rounds(plan, progress, said, truth, 0.9)
    ways = [reference.slopes(said, truth, 0.8, 0.9) / np.sqrt(D)]
    if plan.rules.varying:
        unit = not plan.label
        far = SPREAD * unbound(plan, progress, state)[:, None, None]
        ways.append(far * reference.spreads(said, np.eye(D), truth, 0.8, 0.9, constant=plan.layout.constant, unit=unit))
    np.testing.assert_allclose(frame.root @ frame.local.slopes @ frame.root.T, np.concatenate(ways), atol=1e-12)
    assert (len(frame.local.slopes) > 0) == (plan.rules.varying or said.scaled)


def test_few_records_may_lie_the_farther_out_the_farther_away_bounds_are():
    m, rng = 20_000, np.random.default_rng(6)
    columns = {
        "two": rng.choice([-1.0, 1.0], m),
        "even": rng.uniform(-1.0, 1.0, m),
        "normal": 0.25 * rng.standard_normal(m).clip(-4, 4),
        "far": 0.8 + 0.02 * rng.standard_normal(m),  # its upper bound is 10 sds away, the lower 90
        "free": rng.standard_normal(m),
        "level": 1.0 * (rng.random(m) < 0.3),
    }
    points = np.column_stack([np.ones(m), *columns.values()])
    d = points.shape[1]
    plan = plan_by_rounds(KINDS["logistic"], rules=rules_of("logistic"), d=d)._replace(
        columns=Columns((0.0,) * d), unscaled=(d - 2,), layout=Layout(True, False)
    )
    shares = np.array([*[np.nan] * (d - 1), 0.3])
    state = state_of(plan, "main", rng, theta=np.zeros(d))._replace(rows=np.eye(d))
    progress = Progress(state, None, None, None, (), None, ())._replace(points=points, shares=shares)
    found = unbound(plan, progress, state)
    even = np.array([1.0, 1.0, 1.0, 0.2 / 1.8])  # of distances from bounds
    at = np.array([0.0, 2.0, 15.0, 899.0])
    np.testing.assert_allclose(found[:4], at / (FAR * even + at), atol=0.01)
    assert found[4:].tolist() == [1.0, 0.0]
    # columns that are nearly collinear are sent as sums of others, which bounds say nothing of
    mix = np.eye(d)
    mix[1, 2:4] = 0.3, -5.0
    mixed = progress._replace(points=points @ mix.T)
    again = unbound(plan._replace(columns=plan.columns._replace(mix=mix)), mixed, state)
    np.testing.assert_allclose(again, [found[2], *found[1:]], atol=1e-9)


STRETCH = np.array([[0.6, 0.3, 0.0], [0.3, 1.2, -0.2], [0.0, -0.2, 0.7]])


@pytest.mark.parametrize("stretched", [False, True])
@pytest.mark.parametrize("kind", ["logistic", "poisson", "balanced"])
def test_what_offsets_add_to_a_round_s_reports_is_taken_off(kind, stretched):
    # groups whose reports follow the law, about the truth: what is left of their mean is of fourth order
    said, truth = made(kind), np.array([0.6, -0.3, 0.2])
    plan = plan_by_rounds(KINDS[kind], rules=said.rules, d=D)
    offsets = 0.2 * hadamard(GROUPS)[:, [1, 2, 4]]  # products of three have mean 0, too
    if stretched:
        offsets = offsets @ STRETCH
    state = state_of(plan, "main", np.random.default_rng(0), theta=truth)._replace(offsets=offsets, c=0.8)
    told = np.array([reference.expected(said, truth + o, 0.8, truth, 1.0).score for o in offsets])
    seen = ScoreRound(state, np.ones((1, GROUPS)), told[None], None, 0.5)
    frame = carry_rounds(plan, told_so_far(seen, said), said, truth, 1.0)
    added = frame.rounds[0].map @ told.mean(axis=0)
    assert np.linalg.norm(frame.rounds[0].g.mean(axis=0)) < 0.1 * np.linalg.norm(added)


@pytest.mark.parametrize("stretch", [np.eye(3), STRETCH])
@pytest.mark.parametrize("kind", ["quantile", "expectile"])
def test_what_offsets_add_follows_from_their_second_moments(kind, stretch):
    # exact but for fourth moments
    said, truth = made(kind), np.array([0.6, -0.3, 0.2])
    offsets = 0.1 * hadamard(GROUPS)[:, [1, 2, 4]] @ stretch
    told = np.mean([reference.expected(said, truth + o, 0.8, truth, 1.0).score for o in offsets], axis=0)
    told -= reference.expected(said, truth, 0.8, truth, 1.0).score
    found = reference.offset_bias(said, truth, offsets.T @ offsets / GROUPS, 0.8, 1.0)
    np.testing.assert_allclose(found, told, atol=0.02 * np.linalg.norm(told))


def test_squared_loss_bends_a_little_beyond_the_limits_of_the_response():
    said = made("squared")
    far = np.array([1e3, 0.0, 0.0])
    assert np.linalg.eigvalsh(reference.secant(said, far, 1.0, far, 1.0)).min() > 0.0


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["huber", "expectile"])
def test_the_variance_of_a_score_is_that_of_its_residuals(kind):
    # against 20,000 quantiles of the residuals: a mesh of 1/20,000 of a function that stays within 1
    said, rng = made(kind, answering=0.8), np.random.default_rng(4)
    state, theta, c, s = 0.5 * rng.standard_normal(D), 0.5 * rng.standard_normal(D), 0.6, 0.9
    residuals = ndtri((np.arange(20_000) + 0.5) / 20_000)
    here, there = said.points @ state, said.points @ theta
    expected = np.zeros((D, D))
    for z, w, at, mean in zip(said.points, said.weight, here, there, strict=True):
        y = mean + s * (residuals - said.rules.centre)
        square = np.mean(scores.unit(said.rules.shape, c, np.full(len(y), at), y) ** 2)
        expected += 0.8 * square * np.outer(z * w, z * w) / M
    np.testing.assert_allclose(reference.variance(said, state, c, theta, s), expected, atol=1e-4)


@pytest.mark.parametrize("kind", ["huber", "quantile"])
def test_randomised_responses_have_the_second_moments_that_the_law_says(kind):
    # 400 answers of each of 400 people against exact means: 5 sd of their average in every entry
    said, rng = made(kind, unit=False), np.random.default_rng(8)
    state, theta, c, s, limits = 0.3 * rng.standard_normal(D), 0.3 * rng.standard_normal(D), 0.6, 0.9, (-9.0, 9.0)
    channel = mechanism("randomized_response", 2.0).channel(1)
    low, high = scores.ends(said.rules.shape, c, said.points @ state, *limits)
    half, middle, draws = 0.5 * (high - low), 0.5 * (high + low), []
    for _ in range(400):
        y = said.points @ theta + s * (rng.standard_normal(M) - said.rules.centre)
        score = scores.unit(said.rules.shape, c, said.points @ state, y)
        answer = middle + randomised(channel, (score - middle)[:, None], half, rng.standard_normal((M, 1)))[:, 0]
        unit = said.points * (said.weight * answer)[:, None]
        draws.append(unit.T @ unit / M)
    mean = reference.means(said, state, c, theta, s)
    expected = reference.public_noise(said, state, c, channel.scale, limits, mean=mean)
    spread = np.std(draws, axis=0, ddof=1) / np.sqrt(len(draws))
    assert np.all(np.abs(np.mean(draws, axis=0) - expected) < 5.0 * spread + 1e-12)


@EVERY_KIND
def test_slopes_are_curvatures_change_as_residuals_grow_wider_along_a_score(kind):
    said = made(kind, answering=0.8)
    theta, c, s, step = np.array([0.2, -0.1, 0.3]), 0.8, 0.9, 1e-3
    found = reference.slopes(said, theta, c, s)
    if not said.scaled:
        assert found.shape == (0, D, D)
        return
    along = said.points * said.weight[:, None]
    along /= np.sqrt(np.mean(along**2, axis=0))
    for matrix, f in zip(found, along.T, strict=True):
        # each point has a residual scale of its own
        wide, narrow = (reference.secant(said, theta, c, theta, s * np.exp(sign * step * f)) for sign in (1, -1))
        np.testing.assert_allclose(matrix, (wide - narrow) / (2 * step), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-15)


@pytest.mark.some(1)
@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("kind", [*KINDS, "classes"])
def test_spreads_are_curvatures_change_as_a_covariate_is_stretched_about_its_mean(kind, unit, constant):
    said = multinomial(2) if kind == "classes" else made(kind, unit=unit, answering=0.8)
    rng = np.random.default_rng(4)
    rows = np.tril(0.3 * rng.standard_normal((D, D))) + np.diag([1.0, 2.0, 0.5])
    if constant:
        rows[0] = np.eye(D)[0]
    theta, c, s, step = 0.3 * rng.standard_normal(said.blocks * D), 0.8, 0.9, reference.STEP
    found = reference.spreads(said, rows, theta, c, s, constant=constant, unit=unit)
    assert found.shape == (D - constant, len(theta), len(theta))
    x = np.linalg.solve(rows, said.points.T)
    for matrix, j in zip(found, range(int(constant), D), strict=True):
        ends = []
        for sign in (1, -1):
            stretched = x.copy()
            stretched[j] += sign * step * (x[j] - x[j].mean())
            points = (rows @ stretched).T
            near = reference.reference_of(said.rules, points, blocks=said.blocks, unit=unit, answering=said.answering)
            ends.append(-reference.expected(near, theta, c, theta, s).slope)
        # slopes of robust counts have kinks: of the points, moved by 1e-3 times their distance, some cross
        # one, where a difference changes by a part of the entries, whose size is 1
        atol = 1e-4 if kind == "robust poisson" else 1e-6
        np.testing.assert_allclose(matrix, (ends[0] - ends[1]) / (2 * step), rtol=1e-4, atol=atol)
