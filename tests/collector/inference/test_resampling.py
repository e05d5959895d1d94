"""Laws learned from blocks, and laws that hold at all times: critical values, p-values, joint tests."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2, norm

from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import DRAWS, FIRST, Anytime, Bootstrap, batches
from privreg.errors import InferenceError

BOTH_FORMS = pytest.mark.parametrize("studentised", [False, True])


def moves(m, p, seed=0):
    """Moves of m equal blocks; they sum to 0, as those of a whole path do."""
    found = np.random.default_rng(seed).standard_normal((m, p)) @ (np.eye(p) + 0.3)
    return found - found.mean(axis=0)


def blocks_of(pivot):
    """A bootstrap's blocks times so much that the standard error of each coefficient is 1."""
    return Bootstrap(pivot.moves / np.sqrt((pivot.moves**2).sum(axis=0)), pivot.studentised)


# --- the block bootstrap -----------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("alpha", [0.2, 0.1, 0.05])
@BOTH_FORMS
def test_many_equal_blocks_give_the_normal_law(studentised, alpha):
    alone = np.random.default_rng(1).standard_normal((1000, 150))
    found = Bootstrap(alone - alone.mean(axis=0), studentised).critical(alpha)
    z = norm.ppf(1 - alpha / 2)
    # of 500 draws a quantile has this sd; different coefficients' are all but independent
    sd = math.sqrt(alpha * (1 - alpha) / DRAWS) / (2 * norm.pdf(z))
    assert found.mean() == pytest.approx(z, abs=4.5 * sd / math.sqrt(150) + 0.02)
    assert found.std() == pytest.approx(sd, rel=0.35)


@pytest.mark.some(1)
@pytest.mark.parametrize("m", [5, 8, 12])
def test_with_few_blocks_the_t_form_is_wider(m):
    percentile, t = (np.mean(Bootstrap(moves(m, 200), s).critical(0.05)) for s in (False, True))
    assert t > percentile
    assert t > 1.0 + 1.5 / m + 0.96  # like Student's, beyond the normal law's value
    assert percentile < 2.1
    many = [np.mean(Bootstrap(moves(300, 100), s).critical(0.05)) for s in (False, True)]
    assert abs(many[1] - many[0]) < 0.05 < t - percentile


def test_the_percentile_form_is_its_formula():
    given_ = moves(9, 2)
    drawn = np.random.Generator(np.random.PCG64(20_240_512)).uniform(-math.sqrt(3), math.sqrt(3), (DRAWS, 9))
    ratios = np.abs(drawn @ given_) / np.sqrt((given_**2).sum(axis=0))
    law = Bootstrap(given_)
    for t in (0.3, 1.0, 2.2):
        np.testing.assert_allclose(law.two_sided(np.full(2, t)), (1 + (ratios >= t).sum(axis=0)) / (DRAWS + 1))
    # 95% of 501 are 475.95: 476 draws lie below a value whose p-value is under 5%
    np.testing.assert_allclose(law.critical(0.05), np.sort(ratios, axis=0)[475])


def test_the_t_form_divides_a_draw_by_the_spread_of_its_own_weighted_blocks():
    given_ = moves(9, 2)
    drawn = np.random.Generator(np.random.PCG64(20_240_512)).uniform(-math.sqrt(3), math.sqrt(3), (DRAWS, 9))
    weighted = drawn[:, :, None] * given_
    ratios = np.abs(weighted.sum(axis=1)) / np.sqrt(9 * weighted.var(axis=1, ddof=1))
    np.testing.assert_allclose(Bootstrap(given_, True).critical(0.1), np.sort(ratios, axis=0)[450], rtol=1e-9)


@BOTH_FORMS
def test_p_values_are_never_zero_and_a_ratio_of_nothing_is_none(studentised):
    law = Bootstrap(moves(20, 3), studentised)
    np.testing.assert_array_equal(law.two_sided(np.array([math.inf, 0.0, math.nan]))[:2], [1 / (DRAWS + 1), 1.0])
    assert math.isnan(law.two_sided(np.array([0.0, 0.0, math.nan]))[2])
    assert np.isinf(law.critical(1 / (DRAWS + 1))).all()
    assert np.isfinite(law.critical(1.01 / (DRAWS + 1))).all()


@BOTH_FORMS
def test_draws_are_the_same_from_call_to_call_and_from_object_to_object(studentised):
    given_ = moves(17, 3)
    law, t = Bootstrap(given_, studentised), np.array([0.5, 1.5, 2.5])
    first = [law.critical(0.05), law.two_sided(t), law.joint_sf(4.0, 3)]
    np.random.default_rng(5).standard_normal(100)
    for other in (law, Bootstrap(given_.copy(), studentised)):
        again = [other.critical(0.05), other.two_sided(t), other.joint_sf(4.0, 3)]
        for a, b in zip(first, again, strict=True):
            np.testing.assert_array_equal(a, b)


@BOTH_FORMS
def test_the_law_of_a_combination_is_that_of_its_own_blocks(studentised):
    rng = np.random.default_rng(4)
    sums, weights = rng.standard_normal((24, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.2], [0, 0, 2]]), np.full(24, 8.0)
    rows = np.array([[1.0, -1.0, 0.0], [0.0, 2.0, 5.0]])
    mean, total = sums.sum(axis=0) / weights.sum(), weights.sum()
    along = Bootstrap(batches(sums, weights, mean, total).moves, studentised).along(rows)
    own = Bootstrap(batches(sums @ rows.T, weights, rows @ mean, total).moves, studentised)
    t = np.array([1.1, 2.3])
    np.testing.assert_allclose(along.critical(0.05), own.critical(0.05), rtol=1e-9)
    np.testing.assert_array_equal(along.two_sided(t), own.two_sided(t))
    assert along.joint_sf(5.0, 2) == own.joint_sf(5.0, 2)
    one = Bootstrap(moves(12, 2), studentised).along(np.array([1.0, 1.0]))  # a single row
    assert one.critical(0.05).shape == (1,)


@BOTH_FORMS
def test_a_joint_test_does_not_depend_on_how_restrictions_are_written(studentised):
    law, turned = Bootstrap(moves(30, 3), studentised), np.array([[2.0, 1, 0], [0, 1, -1], [1, 0, 3]])
    for statistic in (1.0, 4.0, 8.0, 12.0):
        assert law.joint_sf(statistic, 3) == law.along(turned).joint_sf(statistic, 3)


@pytest.mark.some(1)
@BOTH_FORMS
def test_joint_tests_with_many_blocks_are_those_of_the_normal_law(studentised):
    laws = [Bootstrap(moves(150, 3, seed), studentised) for seed in range(30)]
    for level in (0.5, 0.1, 0.05):
        found = [law.joint_sf(chi2.ppf(1 - level, 3), 3) for law in laws]
        # the draws are the same, but different blocks make other combinations of them
        assert np.mean(found) == pytest.approx(level, abs=4.5 * math.sqrt(level * (1 - level) / DRAWS / 30) + 0.006)
        assert np.ptp(found) > 0


def test_the_t_form_of_a_joint_test_is_more_careful_with_few_blocks():
    tails = np.array([[Bootstrap(moves(10, 3, k), s).joint_sf(12.0, 3) for s in (False, True)] for k in range(20)])
    assert tails[:, 1].mean() > 3 * tails[:, 0].mean()


@BOTH_FORMS
def test_as_many_restrictions_as_blocks_are_refused(studentised):
    law = Bootstrap(moves(6, 6), studentised)
    with pytest.raises(InferenceError, match=r"6 restrictions .* by 6 blocks; test fewer.*'random_scaling'"):
        law.joint_sf(3.0, 6)
    assert 0.0 < law.along(np.eye(6)[:5]).joint_sf(3.0, 5) <= 1.0


def test_more_restrictions_than_degrees_of_freedom_are_refused_whatever_the_groups_are():
    with pytest.raises(InferenceError, match=r"4 restrictions .* with 3 degrees of freedom; test fewer.*more lanes="):
        StudentT(3).joint_sf(5.0, 4)
    assert 0.0 < StudentT(3).joint_sf(5.0, 3) < 1.0


# --- intervals that hold at all times ----------------------------------------------------------------------


def test_the_bound_is_the_published_formula():
    # by hand, eta² = (−2 log α + log(−2 log α) + 1)/30000 and half-width √n √((2 (nη² + 1)/(n²η²)) log(√(nη² + 1)/α))
    for people, alpha, value in ((30_000, 0.05, 3.03544640), (10**6, 0.05, 3.42257138), (60_000, 0.01, 3.60061015)):
        assert Anytime(people).critical(alpha) == pytest.approx(value, rel=1e-8)


def test_the_bound_is_tightest_near_the_first_people_and_intervals_shrink_for_ever():
    people = (FIRST * np.geomspace(0.1, 1e4, 301)).astype(int)
    for alpha in (0.2, 0.05, 0.001):
        values = np.array([Anytime(int(n)).critical(alpha) for n in people])
        assert FIRST / 2 < people[values.argmin()] < 2 * FIRST
        assert (np.diff(values[people > 2 * FIRST]) > 0).all()
        assert (np.diff(values / np.sqrt(people)) < 0).all()
        assert values.min() > norm.ppf(1 - alpha / 2) * 1.2  # wider than at a fixed number of people


def test_a_random_walk_hardly_ever_leaves_the_bound():
    # the whole path from the first people to a thousand times as many
    rng, runs = np.random.default_rng(3), 4000
    people = np.unique((FIRST * np.geomspace(1, 1000, 250)).astype(int))
    gaps = np.diff(people, prepend=0)
    walks = (np.sqrt(gaps) * rng.standard_normal((runs, len(people)))).cumsum(axis=1) / np.sqrt(people)
    for alpha in (0.2, 0.05):
        bound = np.array([Anytime(int(n)).critical(alpha) for n in people])
        left = (np.abs(walks) > bound).any(axis=1).mean()
        assert 0.1 * alpha < left <= alpha
        assert (np.abs(walks) > norm.ppf(1 - alpha / 2)).any(axis=1).mean() > 2 * alpha


def test_p_values_of_the_bound_stop_at_its_highest_level():
    law = Anytime(50_000)
    assert law.two_sided(np.array([0.0, law.critical(0.8) - 1e-9, 1e9])).tolist() == [1.0, 1.0, 0.0]
    assert law.two_sided(np.array([law.critical(0.8) + 1e-6]))[0] == pytest.approx(0.8, abs=1e-4)
    assert law.critical(0.95) == law.critical(0.8)
    assert math.isnan(law.two_sided(np.array([math.nan]))[0])
    assert law.two_sided(np.array([[3.0], [-3.0]])).tolist() == [law.two_sided(np.array([3.0])).tolist()] * 2
    for alpha in (0.5, 0.05, 1e-3, 1e-12):
        assert law.two_sided(np.array([law.critical(alpha)]))[0] == pytest.approx(alpha, rel=1e-6)


def test_the_bound_has_no_joint_test():
    law = Anytime(50_000)
    assert law.joint_sf(9.0, 1) == law.two_sided(np.array([3.0]))[0]
    with pytest.raises(InferenceError, match=r"no joint test.*t_test at level alpha/q.*inference='batch_means'"):
        law.joint_sf(9.0, 2)


# --- all laws ----------------------------------------------------------------------------------------------

LAWS = {
    "normal": Normal(),
    "t": StudentT(7),
    "random scaling": RandomScaling(),
    "random scaling of lanes": RandomScaling(8),
    "anytime": Anytime(FIRST),
    "anytime, many": Anytime(10**7),
    "percentile": blocks_of(Bootstrap(moves(40, 1))),
    "percentile, few": blocks_of(Bootstrap(moves(5, 1))),
    "bootstrap t": blocks_of(Bootstrap(moves(40, 1), True)),
    "bootstrap t, few": blocks_of(Bootstrap(moves(5, 1), True)),
}
EVERY_LAW = pytest.mark.parametrize("law", LAWS)


@pytest.mark.some(1)
@EVERY_LAW
@settings(max_examples=60, deadline=None)
@given(alpha=st.floats(1e-4, 0.999), t=st.floats(-8, 8))
def test_p_values_agree_with_intervals_at_any_level(law, alpha, t):
    pivot = LAWS[law]
    outside = bool(np.all(abs(t) > pivot.critical(alpha)))
    p = float(np.ravel(pivot.two_sided(np.array([t])))[0])
    if not isinstance(pivot, Bootstrap) and math.isclose(p, alpha, rel_tol=1e-6):
        return  # at the limit itself rounding decides
    assert (p < alpha) == outside


@pytest.mark.thorough
@pytest.mark.parametrize("law", [k for k, v in LAWS.items() if isinstance(v, Bootstrap)])
@settings(max_examples=60, deadline=None)
@given(alpha=st.one_of(st.floats(1e-4, 0.999), st.integers(1, 500).map(lambda k: k / 501)))
def test_p_values_agree_with_intervals_at_the_very_limit_of_a_bootstrap(law, alpha):
    pivot = LAWS[law]
    limit = pivot.critical(alpha)
    assert pivot.two_sided(limit)[0] >= alpha or math.isinf(limit[0])
    assert math.isinf(limit[0]) == (alpha <= 1 / 501)
    if np.isfinite(limit[0]):
        assert pivot.two_sided(np.nextafter(limit, math.inf))[0] < alpha


@pytest.mark.some(1)
@EVERY_LAW
@settings(max_examples=30, deadline=None)
@given(a=st.floats(1e-4, 0.999), b=st.floats(1e-4, 0.999))
def test_higher_levels_are_wider(law, a, b):
    low, high = sorted((a, b))
    assert np.all(LAWS[law].critical(low) >= LAWS[law].critical(high))


@pytest.mark.some(1)
@EVERY_LAW
@settings(max_examples=40, deadline=None)
@given(t=st.floats(0.0, 8.0))
def test_a_joint_test_of_one_restriction_is_the_test_of_its_ratio(law, t):
    pivot = LAWS[law]
    alone = float(np.ravel(pivot.two_sided(np.sqrt(np.array([t * t]))))[0])
    assert pivot.joint_sf(t * t, 1) == pytest.approx(alone, rel=1e-9, abs=1e-14)


@EVERY_LAW
def test_labels_say_what_was_done(law):
    pivot = LAWS[law]
    words = {
        Normal: "standard normal",
        StudentT: "7 degrees of freedom",
        RandomScaling: "random scaling",
        Anytime: "all sample sizes from 30,000 on",
        Bootstrap: f"({'t' if getattr(pivot, 'studentised', False) else 'percentile'})",
    }
    assert words[type(pivot)] in pivot.label
    if not isinstance(pivot, Bootstrap):
        assert pivot.along(np.eye(3)) is pivot
    else:
        assert f"{len(pivot.moves)} blocks, 500 draws" in pivot.label
