"""Laws of scores: the kernel's are their NumPy twins', bounded, increasing, and as steep as said."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import exp1
from scipy.stats import nbinom, poisson

import privreg as pr
from privreg.families import scores
from privreg.families.logistic import multinomial
from privreg.families.poisson import moments
from privreg.families.scores import SCORINGS
from privreg.protocol import codes, counts
from privreg.protocol.plans import Shape
from privreg.published.chain import kernels
from tests.devices import HAVE_CURVATURE, curvature
from tests.kinds import BROKEN, EXTREME, KINDS, WITH_EXP, Kind, unit_score

EVERY = pytest.mark.parametrize("name", KINDS)
PUBLISHED = [k for k in KINDS if not k.startswith("balanced")]
NUMBERS = st.one_of(st.floats(-30, 30), st.floats(), st.sampled_from([*EXTREME, *BROKEN]))
ROUNDING = 1e-14


def one(value):
    return np.array([value])


def assert_same(kernel, twin, family):
    """To the last bit, but for that of `exp`; a difference of two exponentials near 1 has their absolute error."""
    if family in WITH_EXP:
        np.testing.assert_allclose(kernel, twin, rtol=ROUNDING, atol=ROUNDING)
    else:
        np.testing.assert_array_equal(kernel, twin)


def twin_unit(kind, c, eta, y):
    return scores.unit(kind.shape, c, one(eta), one(y), kind.function)[0]


# --- kernels are the readable twins ------------------------------------------------------------------------


@pytest.mark.some(2)
@EVERY
@settings(max_examples=60, deadline=None)
@given(st.sampled_from([1.0, 0.7, 1e-9, 1e9]), NUMBERS, NUMBERS)
@example(1.0, math.nan, 1.0)
@example(1.0, 0.5, math.nan)
@example(1.0, math.inf, math.inf)
@example(1.0, 1.7e308, -1.7e308)
def test_kernel_scores_are_the_twins(name, c, eta, y):
    kind = KINDS[name]
    if kind.shape.family != codes.BALANCED:
        assert_same(kernels.unit_score(kind.shape, c, eta, y), twin_unit(kind, c, eta, y), kind.shape.family)
    if not (math.isnan(eta) or math.isnan(y)):  # of who has nothing to tell it isn't sent
        assert 0.0 <= scores.near(kind.shape, c, one(eta), one(y), kind.function)[0] <= 1.0


@pytest.mark.some(2)
@pytest.mark.parametrize("name", PUBLISHED)
@settings(max_examples=60, deadline=None)
@given(NUMBERS, NUMBERS)
@example(math.nan, 1.0)
@example(0.5, math.nan)
def test_kernel_scores_and_curvatures_of_the_published_algorithm_are_the_twins(name, eta, y):
    kind, score = KINDS[name], KINDS[name].score
    kernel = kernels._psi(score.shape, score.c, score.bound, eta, y)
    assert_same(kernel, scores.psi(score, one(eta), one(y), kind.function)[0], score.shape.family)
    bend = kernels._curvature(score.shape, score.c, score.bound, eta, y)
    if score.shape.family in HAVE_CURVATURE:
        assert_same(bend, curvature(score, one(eta), one(y))[0], score.shape.family)
        assert not bend > score.curvature_bound * (1.0 + ROUNDING)
    else:
        assert math.isnan(bend)
        assert score.curvature_bound == math.inf
        with pytest.raises(ValueError, match="no curvature"):
            curvature(score, one(eta), one(y))


def test_a_family_that_is_not_known_has_no_score():
    shape = Shape(99, 0.0, 0.0, 0)
    assert math.isnan(kernels.unit_score(shape, 1.0, 0.3, 1.0))
    assert math.isnan(kernels._psi(shape, 1.0, 2.0, 0.3, 1.0))
    assert math.isnan(kernels._curvature(shape, 1.0, 2.0, 0.3, 1.0))
    assert kernels._weight(99, 1.0, 1.0, 3) == 0.0
    with pytest.raises(ValueError, match="no scalar score"):
        scores.unit(shape, 1.0, one(0.3), one(1.0))


# --- bounds, monotonicity ----------------------------------------------------------------------------------


def grid():
    usual = np.linspace(-12, 12, 481)
    near = math.log(0.5 * 20.0) + np.array([-1e-9, -1e-15, 0.0, 1e-15, 1e-9])  # where Poisson's changes form
    return np.unique(np.concatenate([usual, near, EXTREME]))


@EVERY
def test_unit_scores_lie_within_one_increase_and_reach_their_range(name):
    kind, etas = KINDS[name], grid()
    seen = []
    for y in kind.responses:
        values = np.array([unit_score(kind.shape, 0.7, eta, y) for eta in etas])
        assert np.isfinite(values).all()
        # Poisson's is 1 where its form changes, up to rounding of three operations
        assert np.abs(values).max() <= (1.0 + 1e-15 if name == "poisson" else 1.0)
        # of robust counts, from which a lattice's mean is taken, the mean's sign holds, see below
        assert name == "robust poisson" or (np.diff(values) >= -ROUNDING).all()
        seen += [values.min(), values.max()]
    # the declared range is that of the scores: one as narrow would be too narrow, one wider would waste noise
    score = kind.score
    low, high = (v / score.bound for v in score.range)
    assert min(seen) == pytest.approx(low, abs=1e-5)
    assert max(seen) == pytest.approx(high, abs=1e-5)
    assert max(-low, high) == pytest.approx(1.0)


@EVERY
def test_larger_responses_have_smaller_scores_so_that_the_ends_of_the_range_bound_them(name):
    # label privacy takes a score's range from the limits of the response
    kind = KINDS[name]
    inside = [y for y in kind.responses if kind.low <= y <= kind.high]
    for eta in grid():
        values = [unit_score(kind.shape, 0.7, eta, y) for y in (kind.low, *inside, kind.high)]
        assert (np.diff(values) <= ROUNDING).all()


# --- scores are derivatives; curvatures are theirs ---------------------------------------------------------


def kinks(kind, score, y):
    """Predictors at which the score bends."""
    shape = score.shape
    match shape.family:
        case codes.HUBER | codes.EXPECTILE:
            return [y - score.c, y, y + score.c]
        case codes.QUANTILE:
            return [y]
        case codes.POISSON:
            return [math.log(0.5 * shape.a)]
        case codes.HINGE:
            return [2 * y - 1]
        case codes.SMOOTHED_HINGE:
            return [2 * y - 1, (2 * y - 1) * (1 - shape.a)]
        case codes.SQUARED:
            return [shape.a, shape.b]
    return []


def loss(kind, score, eta, y):
    """Losses, written independently; shape of `eta`."""
    shape, r, side = score.shape, y - eta, 2 * y - 1
    match shape.family:
        case codes.HUBER | codes.EXPECTILE:
            rho = np.where(np.abs(r) <= score.c, r**2 / 2, score.c * (np.abs(r) - score.c / 2))
            return rho * (1.0 if shape.family == codes.HUBER else np.where(r >= 0, shape.a, 1 - shape.a))
        case codes.QUANTILE:
            return np.where(r >= 0, shape.a * r, (shape.a - 1) * r)
        case codes.LOGISTIC:
            return np.logaddexp(0, eta) - y * eta
        case codes.CLOGLOG if not shape.b:  # ∫ π = η + E₁(e^η)
            return eta + exp1(np.exp(eta)) - y * eta
        case codes.HINGE:
            return np.maximum(1 - side * eta, 0)
        case codes.SMOOTHED_HINGE:
            m, w = side * eta, shape.a
            return np.where(m > 1, 0, np.where(m > 1 - w, (1 - m) ** 2 / (2 * w), 1 - m - w / 2))
        case codes.SQUARED:
            seen = np.clip(y, shape.a, shape.b)
            inside = np.clip(eta, shape.a, shape.b)
            return (inside - seen) ** 2 / 2 + (inside - seen) * (eta - inside)
    return None


@pytest.mark.parametrize("name", PUBLISHED)
def test_scores_are_derivatives_of_losses_and_curvatures_of_scores(name):
    kind, score, h = KINDS[name], KINDS[name].score, 1e-5
    etas = np.linspace(-4, 4.5, 86) + 0.0123
    checked = 0
    for y in kind.responses:
        away = np.full(len(etas), True)
        for k in kinks(kind, score, y):
            away &= np.abs(etas - k) > 2 * h
        eta, ys = etas[away], np.full(away.sum(), y)
        up, down = (np.asarray(scores.psi(score, eta + s, ys, kind.function)) for s in (h, -h))
        if score.shape.family in HAVE_CURVATURE:
            # of third derivatives at most 1, h² is the formula's error, and rounding over h
            found = (up - down) / (2 * h)
            np.testing.assert_allclose(curvature(score, eta, ys), found, atol=1e-10 * max(1.0, abs(y)))
            checked += 1
        if loss(kind, score, eta, y) is not None and abs(y) < 1e3:
            rise = (loss(kind, score, eta + h, y) - loss(kind, score, eta - h, y)) / (2 * h)
            np.testing.assert_allclose(scores.psi(score, eta, ys, kind.function), rise, atol=1e-9)
            checked += 1
    assert checked or name in {"poisson", "robust poisson", "custom"}, f"write the loss of {name!r} in `loss`, above"


# --- the model: mean zero, and the mean's slope ------------------------------------------------------------


def outcomes(name, eta):
    """Responses and their probabilities where the model holds."""
    if name in {"poisson", "robust poisson"}:
        y = np.arange(0, 400, dtype=float)
        return y, poisson.pmf(y, math.exp(eta))
    share = float(KINDS[name].family.inverse_link(np.array(eta)))
    return np.array([0.0, 1.0]), np.array([1 - share, share])


CLASSED = [k for k in KINDS if KINDS[k].family.scoring.classed]


@pytest.mark.parametrize("name", CLASSED)
def test_all_that_is_said_of_a_probability_is_of_one_link(name):
    """The link is of `LINKS`; mean, log-odds and their slopes are those of the family's class."""
    family, eta = KINDS[name].family, np.linspace(-3.0, 1.5, 19)
    share, slope = family.inverse_link(eta), family.inverse_link_derivative(eta)
    scoring = scores.scoring_of(KINDS[name].shape.family)
    rise = (family.inverse_link(eta + 1e-5) - family.inverse_link(eta - 1e-5)) / 2e-5
    np.testing.assert_allclose(slope, rise, rtol=1e-8, err_msg="the second function of LINKS")
    for found, right in zip(scoring.mean(KINDS[name].shape, eta), (share, slope), strict=True):
        np.testing.assert_allclose(found, right, rtol=1e-12, err_msg="mean")
    linked = np.array([scoring.linked(float(p)) for p in share]).T
    np.testing.assert_allclose(linked, [eta, slope], rtol=1e-9, atol=1e-12, err_msg="linked, by default of the logit")
    right = np.log(share / (1.0 - share))
    np.testing.assert_allclose(scoring.log_odds(eta), right, rtol=1e-9, atol=1e-12, err_msg="log_odds, by default η")
    sizes = {1.0: share, -1.0: 1.0 - share}
    perfect = dict(scoring.perfect(eta))
    assert sorted(perfect) == [-1.0, 1.0], "perfect, by default none"
    for sign, found in perfect.items():
        np.testing.assert_allclose(found, slope / sizes[sign], rtol=1e-9, err_msg="perfect")


@pytest.mark.parametrize("name", [*CLASSED, "poisson", "robust poisson"])
def test_scores_have_mean_zero_at_the_model(name):
    kind = KINDS[name]
    for eta in (-6.0, -1.3, -0.2, 0.4, 1.1, 2.2, 2.25, 2.35, 2.6, 2.9):
        y, chance = outcomes(name, eta)
        assert float(chance @ scores.unit(kind.shape, 1.0, np.full(len(y), eta), y)) == pytest.approx(0.0, abs=1e-13)


@pytest.mark.parametrize("c", [0.5, 1.5, 4.0])
def test_mean_robust_scores_of_counts_are_zero_at_the_model_alone(c):
    """By sums over counts, the last above 20 sd of the largest mean, to the rounding of its probabilities."""
    etas, y = np.linspace(-4.0, 6.0, 101), np.arange(900.0)
    family = pr.families.Poisson(1e6, c=c)
    for truth in (-2.0, 0.3, 2.2, 3.9, 4.1, 5.5):
        chance = poisson.pmf(y, math.exp(truth))
        means = np.array([chance @ scores.unit(family.shape(), c, np.full(len(y), e), y) for e in etas])
        assert (np.sign(means) == np.sign(etas - truth))[np.abs(etas - truth) > 0.01].all()
        at_truth = float(chance @ scores.unit(family.shape(), c, np.full(len(y), truth), y))
        # above η = 4 the correction is an expansion: off by 3e-4 at c = 1.5, 8e-4 at 0.5, relative to c
        assert abs(at_truth) <= (1e-12 if truth <= counts.LARGE else 8e-4 / c)


@pytest.mark.parametrize("c", [0.5, 1.345, 10.0])
@pytest.mark.parametrize("y_max", [3.0, 60.0])
def test_moments_of_robust_counts_are_those_of_a_sum_over_counts(c, y_max):
    rng, y = np.random.default_rng(3), np.arange(900.0)
    here, there = rng.uniform(-3.0, 5.5, 60), rng.uniform(-3.0, math.log(y_max), 60)
    found = moments(c, y_max, here, there)
    for i, (at, truth) in enumerate(zip(here, there, strict=True)):
        values = scores.unit(Shape(codes.ROBUST_POISSON, y_max, 0.0, 0), c, np.full(len(y), at), np.minimum(y, y_max))
        chance = poisson.pmf(y, math.exp(truth))
        rise = chance * (y - math.exp(truth))  # of a probability by the linear predictor
        want = chance @ values, rise @ values, chance @ values**2
        np.testing.assert_allclose([f[i] for f in found], want, atol=1e-11)


@pytest.mark.parametrize(("times", "moved"), [(2.0, (-0.37, -0.19, -0.12, -0.03)), (3.0, (-0.60, -0.38, -0.25, -0.07))])
def test_robust_estimates_of_counts_that_are_more_variable_move_as_the_guide_says(times, moved):
    y, p, shape = np.arange(3000.0), 1.0 / times, pr.families.Poisson(1e6, c=1.5).shape()
    for mean, by in zip((0.2, 1.0, 2.0, 8.0), moved, strict=True):
        chance = nbinom.pmf(y, mean * p / (1.0 - p), p)
        root = brentq(lambda e, q=chance, shape=shape: q @ scores.unit(shape, 1.5, np.full(len(y), e), y), -6.0, 6.0)
        assert root - math.log(mean) == pytest.approx(by, abs=0.005)


# --- multinomial -------------------------------------------------------------------------------------------


def by_kernel(theta, z, y, omega=1.0, reach=math.inf):
    answer = np.full(theta.size + 1, 7.0)
    with np.errstate(over="ignore"):
        norm2 = float(z @ z)
    kernels._multinomial(y, z, norm2, omega, len(theta), reach, theta.reshape(-1), answer)
    assert answer[-1] == 7.0
    return answer[:-1].reshape(theta.shape)


@settings(max_examples=80, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 10**6), st.sampled_from([0.1, 1.0, 30.0, 1e4, 1e150]))
def test_balanced_multinomial_scores_are_multiples_of_the_kernels_of_norm_one_at_most(blocks, d, seed, size):
    rng = np.random.default_rng(seed)
    theta, z = size * rng.standard_normal((blocks, d)), rng.standard_normal(d)
    lengths = []
    for y in range(blocks + 1):
        twin = multinomial(theta, z[None], one(float(y)))[0]
        assert np.linalg.norm(twin) <= 1.0 + ROUNDING
        lengths.append(np.linalg.norm(twin))
        plain = by_kernel(theta, z, float(y))  # π − e_y, of which it is a multiple
        assert np.linalg.norm(plain) <= math.sqrt(2.0) * np.linalg.norm(z) * (1 + ROUNDING)
        np.testing.assert_allclose(plain * np.linalg.norm(twin), np.outer(twin, z) * np.linalg.norm(plain) /
                                   np.linalg.norm(z), rtol=1e-9, atol=1e-9)  # fmt: skip
    assert max(lengths) == pytest.approx(1.0, rel=1e-12)  # the divisor is no larger than it must be


def test_multinomial_scores_of_two_classes_are_balanced_logistic_ones():
    rng = np.random.default_rng(2)
    z, theta = 3 * rng.standard_normal((500, 3)), rng.standard_normal((1, 3))
    y = rng.integers(0, 2, 500).astype(float)
    balanced = scores.unit(KINDS["balanced"].shape, 1.0, z @ theta[0], y)
    np.testing.assert_allclose(multinomial(theta, z, y)[:, 0], balanced, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("classes", [2, 3, 6])
def test_multinomial_scores_have_mean_zero_at_the_model(classes):
    rng = np.random.default_rng(classes)
    z, theta = rng.standard_normal((300, 3)), 2 * rng.standard_normal((classes - 1, 3))
    eta = np.column_stack([np.zeros(300), z @ theta.T])
    chance = np.exp(eta) / np.exp(eta).sum(axis=1, keepdims=True)
    every = [chance[:, [k]] * multinomial(theta, z, np.full(300, float(k))) for k in range(classes)]
    np.testing.assert_allclose(sum(every), 0.0, atol=1e-14)


@pytest.mark.parametrize("y", [math.nan, 0.5, 3.0, -1.0, math.inf])
def test_a_multinomial_response_that_is_no_class_sends_nothing(y):
    theta, z = np.ones((2, 3)), np.array([1.0, 2.0, -1.0])
    np.testing.assert_array_equal(by_kernel(theta, z, y), 0.0)


@pytest.mark.parametrize("z", [[1.0, 1e200, 0.0], [1.0, math.nan, 0.0], [math.inf, 1.0, 1.0], [1e308, 1e308, 1e308]])
def test_a_multinomial_row_that_cannot_be_used_sends_nothing(z):
    for theta in (np.ones((2, 3)), np.full((2, 3), 1e200), np.full((2, 3), -math.inf), np.full((2, 3), math.nan)):
        for y in (0.0, 1.0, 2.0):
            np.testing.assert_array_equal(by_kernel(theta, np.array(z), y, omega=0.5), 0.0)


def test_a_wrong_reach_shortens_multinomial_reports_and_keeps_their_direction():
    rng = np.random.default_rng(5)
    theta, z = rng.standard_normal((3, 4)), 5 * rng.standard_normal(4)
    for y in range(4):
        whole, short = by_kernel(theta, z, float(y)), by_kernel(theta, z, float(y), reach=0.25)
        assert np.linalg.norm(short) == pytest.approx(min(0.25, np.linalg.norm(whole)), rel=1e-12)
        np.testing.assert_allclose(short / np.linalg.norm(short), whole / np.linalg.norm(whole), rtol=1e-12)


def test_every_family_of_the_kernel_is_here():
    summed = codes.EXTRA | {codes.ORDERED, codes.HAZARDS}  # of sums alone, which no compiled loop fits
    assert {k.shape.family for k in KINDS.values()} | {codes.MULTINOMIAL} == set(SCORINGS) - summed
    assert isinstance(KINDS["custom"], Kind)


def wild(eta: float, y: float) -> float:
    return 1e6 * (eta - y)


def test_a_score_of_ones_own_beyond_its_bound_is_clipped():
    """Where the response alone is private, nothing else bounds the number that is sent."""
    with pytest.warns(pr.errors.PrivregWarning, match="exceeds its declared bound"):
        family = pr.families.custom("wild", wild, 1.0)
    shape = family.shape(-1.0, 1.0, balanced=False)
    assert [kernels.unit_score(shape, 1.0, 0.3, y) for y in (-1.0, 0.3, 1.0)] == [1.0, 0.0, -1.0]
    at = np.array([0.3, 0.3, 0.3]), np.array([-1.0, 0.3, 1.0])
    assert scores.unit(shape, 1.0, *at, lambda eta, y: wild(eta, y) / family.bound).tolist() == [1.0, 0.0, -1.0]


@pytest.mark.parametrize(("factor", "norm2", "want"), [(5.0, 4.0, 0.5), (-5.0, 4.0, -0.5), (0.1, 4.0, 0.1)])
def test_a_report_beyond_its_bound_is_shortened(factor, norm2, want):
    assert kernels._bounded(factor, math.sqrt(norm2), 1.0) == want
    for wrong in (math.nan, math.inf, -math.inf):
        assert kernels._bounded(wrong, math.sqrt(norm2), 1.0) == 0.0
        assert kernels._bounded(factor, abs(wrong), 1.0) == 0.0
