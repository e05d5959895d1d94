"""What the page on differences says of papers, each by a loop or an integral that calls nothing of privreg."""

import itertools
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.stats import binom, norm

pytestmark = pytest.mark.reference
PAGE = Path(__file__).parents[2] / "docs" / "published_differences.md"
CONFIRMED: dict[int, list[str]] = {}
"""Rows of the page's table, with the tests that confirm them."""

LAW = np.arange(1, 11) / 10  # Values 0.1, …, 1 of the thesis


def of(*rows):
    """Name the rows of the page that a test confirms."""

    def entered(test):
        for row in rows:
            CONFIRMED.setdefault(row, []).append(test.__name__)
        return test

    return entered


def test_every_row_of_the_page_has_a_test_of_its_own_here():
    said = [int(k) for k in re.findall(r"^\| \[(\d+)\]\(#", PAGE.read_text("utf-8"), re.MULTILINE)]
    assert said == list(range(1, len(said) + 1))
    assert sorted(CONFIRMED) == said


def hockey_stick(distance, sd, epsilon):
    """δ(ε) of two normals of this sd, by integration of max(p − e^ε q, 0)."""
    edge = epsilon * sd**2 / distance + distance / 2  # beyond it p is larger
    return quad(lambda x: norm.pdf(x, distance, sd) - math.exp(epsilon) * norm.pdf(x, 0, sd), edge, distance + 40 * sd)[
        0
    ]


def least_sd(distance, epsilon, delta):
    """Least noise for (ε, δ), by that integral's closed form."""

    def excess(sd):
        a, b = distance / (2 * sd), epsilon * sd / distance
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) - delta

    return brentq(excess, 1e-3 * distance / epsilon, 1e3 * distance / epsilon)


# --- SXJKH ---------------------------------------------------------------------------------------------------


@of(1)
@pytest.mark.parametrize("mu", [0.25, 4.0])
def test_noise_of_the_variance_of_example_3_is_worth_the_root_of_mu(mu):
    for epsilon in (0.1, 1.0):
        printed, right = (hockey_stick(2.0, math.sqrt(v), epsilon) for v in (4 / mu, (2 / mu) ** 2))
        of_mu, of_root = (
            norm.cdf(-epsilon / m + m / 2) - math.exp(epsilon) * norm.cdf(-epsilon / m - m / 2)
            for m in (mu, math.sqrt(mu))
        )
        assert right == pytest.approx(of_mu, rel=1e-6)
        assert printed == pytest.approx(of_root, rel=1e-6)
        assert (printed > of_mu) == (mu < 1)


@of(2)
def test_laplace_noise_has_omega_8_d2_over_epsilon2_and_gaussian_noise_falls_with_epsilon2():
    for d, epsilon in itertools.product((2, 10), (0.5, 2.0)):
        scale = 2 * math.sqrt(d) / epsilon  # of each of d numbers, B = 1: ‖·‖₁ of a difference is at most 2√d
        each = quad(lambda x, s=scale: x**2 * math.exp(-x / s) / s, 0, 60 * scale)[0]
        assert d * each == pytest.approx(8 * d**2 / epsilon**2, rel=1e-6)
        classical = (2 * math.sqrt(2 * math.log(1.25e6)) / epsilon) ** 2 * d
        assert classical == pytest.approx(8 * d * math.log(1.25e6) / epsilon**2)


@of(3)
def test_classical_noise_is_valid_and_large_up_to_epsilon_1_and_fails_at_10():
    for epsilon, fails in ((0.1, False), (1.0, False), (10.0, True), (20.0, True)):
        sd = math.sqrt(2 * math.log(1.25e5)) / epsilon
        assert (hockey_stick(1.0, sd, epsilon) > 1e-5) == fails
        assert (sd > least_sd(1.0, epsilon, 1e-5)) != fails


# --- XSJKH ---------------------------------------------------------------------------------------------------


@of(4)
def test_two_reports_of_a_quantile_alone_are_1_apart():
    for tau in (0.5, 0.9):
        scores = [-(tau - (y < 0.0)) for y in (-1.0, 1.0)]
        assert abs(scores[0] - scores[1]) == pytest.approx(1.0)
        assert 2 * max(map(abs, scores)) == pytest.approx(2 * max(tau, 1 - tau))


@of(6)
def test_curvatures_of_norm_1_are_at_most_root_2_apart():
    rng = np.random.default_rng(1)
    u, v = (a / np.linalg.norm(a, axis=1, keepdims=True) for a in rng.standard_normal((2, 20_000, 3)))
    apart = np.linalg.norm(u[:, :, None] * u[:, None] - v[:, :, None] * v[:, None], axis=(1, 2))
    assert 1.41 < apart.max() <= math.sqrt(2) + 1e-12
    # noise of sd 2/μ, twice the norm over μ: a matrix is worth μ/√2, two and the gradients √2 μ, where √3 μ is printed
    assert math.sqrt(2 * (math.sqrt(2) / 2) ** 2 + 1) == pytest.approx(math.sqrt(2))


@of(5)
def test_a_mean_and_all_rows_but_one_tell_the_last_one():
    ages = np.random.default_rng(2).integers(18, 66, size=1_000)
    assert round(len(ages) * ages.mean() - ages[:-1].sum()) == ages[-1]


@of(7)
def test_labels_of_minus_1_and_1_have_another_root():
    def root(p, low):
        """Where the mean of y − 1/(1 + e^−η) is 0; NaN if nowhere."""
        mean = p + (1 - p) * low
        return math.log(mean / (1 - mean)) if 0 < mean < 1 else math.nan

    assert root(0.6, 0.0) == pytest.approx(math.log(0.6 / 0.4))
    assert root(0.6, -1.0) == pytest.approx(math.log(0.2 / 0.8))
    assert math.isnan(root(0.4, -1.0))


def table_1(mu, n, runs, seed, gamma=0.5, start=0.0):
    """Averages of `runs` paths of the stated simulation at p = 3, shape (runs, 4)."""
    rng, c = np.random.default_rng(seed), 1.345
    theta, total = np.full((runs, 4), start), np.zeros((runs, 4))
    for i in range(1, n + 1):
        x = np.ones((runs, 4))
        x[:, 1:] = rng.standard_normal((runs, 3))
        r = x.sum(axis=1) + 0.5 * rng.standard_normal(runs) - (x * theta).sum(axis=1)
        weight = np.minimum(1.0, 2.0 / (x**2).sum(axis=1))
        score = -(np.clip(r, -c, c) * weight)[:, None] * x
        noise = 2 * math.sqrt(2) * c / mu * rng.standard_normal((runs, 4)) if mu else 0.0
        theta = theta - gamma * i**-0.51 * (score + noise)
        total += theta
    return total / n


def limit_1(mu):
    """Mean over the four coefficients of √n times the asymptotic sd, by 400,000 rows."""
    rng, c = np.random.default_rng(3), 1.345
    x = np.ones((400_000, 4))
    x[:, 1:] = rng.standard_normal((400_000, 3))
    e = 0.5 * rng.standard_normal(400_000)
    w = np.minimum(1.0, 2.0 / (x**2).sum(axis=1))
    a = (x * (w * (np.abs(e) <= c))[:, None]).T @ x / len(x)
    s = (x * (w**2 * np.clip(e, -c, c) ** 2)[:, None]).T @ x / len(x)
    s = s + (2 * math.sqrt(2) * c / mu) ** 2 * np.eye(4) if mu else s
    return float(np.sqrt(np.diag(np.linalg.inv(a) @ s @ np.linalg.inv(a))).mean())


@of(8)
@pytest.mark.thorough
def test_estimates_of_table_1_scatter_more_than_its_private_lengths_allow():
    """At n = 40,000: printed lengths × 100 of plug-in intervals are 1.08, 11.49 (μ = 1) and 4.99 (μ = 2)."""
    runs = 200
    for mu, printed in ((2.0, 4.99), (1.0, 11.49)):
        found = table_1(mu, 40_000, runs, seed=int(mu))
        sds = found.std(axis=0, ddof=1)
        error = sds.mean() / math.sqrt(2 * 4 * (runs - 1))
        needed = 100 * 2 * norm.ppf(0.975) * (sds.mean() - 4 * error)
        assert needed > 1.3 * printed
    assert 200 * norm.ppf(0.975) * limit_1(None) / math.sqrt(200_000) == pytest.approx(0.48, rel=0.05)


@pytest.mark.thorough
def test_coverages_of_table_1_depend_on_the_steps_and_the_start():
    """Of intervals as long as the limit says, without privacy, n = 40,000: neither γ nor the start is stated."""
    half, covered = norm.ppf(0.975) * limit_1(None) / 200, {}
    for gamma, start in ((0.1, 0.0), (0.1, 1.0), (0.5, 0.0)):
        covered[gamma, start] = np.mean(np.abs(table_1(None, 40_000, 100, 6, gamma, start) - 1) <= half)
    assert covered[0.1, 0.0] < 0.5
    assert min(covered[0.1, 1.0], covered[0.5, 0.0]) > 0.88


def test_printed_coverages_of_table_1_are_of_four_coefficients_in_200_runs():
    table = json.loads((PAGE.parents[1] / "benchmarks/papers/printed/xsjkh_table1.json").read_text("utf-8"))
    printed = [v for way in table.values() if isinstance(way, dict) for cell in way.values() for v in cell["CP"]]
    assert len(printed) == 45
    fit = {k: sum(abs(v * k / 100 - round(v * k / 100)) <= 0.006 * k / 100 for v in printed) for k in (800, 600)}
    assert fit[800] == 45
    assert fit[600] < 20


@of(8)
def test_private_lengths_of_table_1_are_below_the_stated_limit():
    for mu, printed in ((1.0, 4.60), (2.0, 2.16)):
        assert 200 * norm.ppf(0.975) * limit_1(mu) / math.sqrt(200_000) > 1.5 * printed


# --- DG ------------------------------------------------------------------------------------------------------


@of(9)
@pytest.mark.thorough
def test_randomised_quantiles_scatter_as_the_closed_form_says():
    """τ = 0.9, ε = 1: above the printed 0.0175 at n = 10⁶, by √n; without bias to speak of at n = 200,000."""
    runs, n, tau, rng = 300, 200_000, 0.9, np.random.default_rng(4)
    keep, theta, total = math.e / (1 + math.e), np.zeros(300), np.zeros(300)
    for i in range(1, n + 1):
        below = rng.standard_normal(runs) <= theta
        said = np.where(rng.random(runs) < keep, below, ~below)
        theta = theta - i**-0.51 * ((said - (1 - keep)) / (2 * keep - 1) - tau)
        total += theta
    at = norm.ppf(tau)
    variance = 1 / (4 * math.tanh(0.5) ** 2) - (tau - 0.5) ** 2
    closed = math.sqrt(variance) / norm.pdf(at)
    sd = (total / n).std(ddof=1) * math.sqrt(n)
    assert sd > closed * (1 - 4 / math.sqrt(2 * (runs - 1)))
    assert 2 * norm.ppf(0.95) * closed / 1000 == pytest.approx(0.0188, abs=5e-5)
    for n, printed in ((10**6, 0.0175), (10**7, 0.0057), (10**8, 0.0018)):
        assert 2 * norm.ppf(0.95) * closed / math.sqrt(n) > printed + 5e-5


# --- WLYZ ----------------------------------------------------------------------------------------------------


@of(10)
def test_noise_for_the_law_of_draws_is_less_than_for_a_bound_on_them():
    n = steps = 10_000
    k = np.arange(0, 40)
    chance = binom.pmf(k, steps, 1 / n)

    def delta(sd):
        far = 0.02 * k[1:]  # 2 G η a draw, smooth losses
        a, b = far / (2 * sd), sd / far
        return float((chance[1:] * (norm.cdf(a - b) - math.e * norm.cdf(-a - b))).sum()) - 1e-5

    sampled = brentq(delta, 1e-3, 10.0)
    most = int(binom.isf(0.5e-5, steps, 1 / n))
    bounded = least_sd(0.02 * most, 1.0, 0.5e-5)
    assert sampled == pytest.approx(0.250, abs=5e-3)
    assert least_sd(0.02, 1.0, 1e-5) == pytest.approx(0.075, abs=1e-3)
    assert bounded > 2 * sampled


# --- Duan ----------------------------------------------------------------------------------------------------


def piecewise(t, epsilon):
    """Density of the Piecewise mechanism on [−1, 1] and its pieces, as printed (3.7, 3.8)."""
    e = math.exp(epsilon)
    h = math.exp(epsilon / 2)
    q = (e + h) / (e - h)
    left = (q + 1) * t / 2 - (q - 1) / 2
    high, low = (e - h) / (2 * h + 2), (1 - 1 / h) / (2 * h + 2)
    return [(-q, left, low), (left, left + q - 1, high), (left + q - 1, q, low)]


def square_wave(t, epsilon):
    """The same of Square wave on [0, 1] (3.9)."""
    e = math.exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    low = 1 / (2 * b * e + 1)
    return [(-b, t - b, low), (t - b, t + b, e * low), (t + b, 1 + b, low)]


def moment(pieces, k, about=0.0):
    """E(report − about)^k."""
    return sum(p * ((b - about) ** (k + 1) - (a - about) ** (k + 1)) / (k + 1) for a, b, p in pieces)


def law(mechanism, epsilon):
    """Bias, and mean variance of a report, over the values of the thesis."""
    pieces = [mechanism(t, epsilon) for t in LAW]
    assert all(moment(p, 0) == pytest.approx(1.0) for p in pieces)
    means = np.array([moment(p, 1) for p in pieces])
    variances = [moment(p, 2, m) for p, m in zip(pieces, means, strict=True)]
    return float((means - LAW).mean()), float(np.mean(variances))


@of(11)
def test_the_break_even_of_equation_4_32():
    bias, variance = law(square_wave, 1.0)
    (zero, wide) = law(piecewise, 1.0)
    assert abs(zero) < 1e-12
    assert (bias, variance, wide) == pytest.approx((-0.031606, 0.148261, 4.2756), rel=1e-4)
    assert (wide - variance) / bias**2 == pytest.approx(4132, abs=1)
    h = math.exp(0.5)
    slipped = LAW.mean() / (h - 1) + math.exp(0.5 + 3) / (3 * (h - 1) ** 2)
    assert slipped == pytest.approx(27.08, abs=5e-3)
    assert (27.08 - variance) / bias**2 == pytest.approx(26_960, abs=10)
    there = [moment(piecewise(2 * t - 1, 1.0), 2, 2 * t - 1) / 4 for t in LAW]  # on [0, 1], as Square wave
    assert (np.mean(there) - variance) / bias**2 == pytest.approx(904, abs=1)


@of(18)
def test_the_square_wave_row_of_table_4_2():
    bias, variance = law(square_wave, 0.001)
    sd = math.sqrt(variance / 10_000)
    assert (bias, sd**2) == pytest.approx((-0.049975, 3.3303e-5), rel=1e-4)
    inside = [norm.cdf((x - bias) / sd) - norm.cdf((-x - bias) / sd) for x in (0.001, 0.01, 0.05, 0.1)]
    assert inside[2:] == pytest.approx([0.502, 1.0], abs=5e-4)  # 0.644, 1.000 printed
    # what is printed of the bias and variance gives another number again
    sd = math.sqrt(3.365e-5)
    assert norm.cdf((0.05 - 0.049) / sd) - norm.cdf((-0.05 - 0.049) / sd) == pytest.approx(0.568, abs=5e-4)


@of(18)
def test_the_piecewise_row_of_table_4_2():
    _, variance = law(piecewise, 0.001)
    sd = math.sqrt(variance / 10_000)
    assert variance / 10_000 == pytest.approx(533.21, rel=1e-4)
    inside = [norm.cdf(x / sd) - norm.cdf(-x / sd) for x in (0.001, 0.01, 0.05, 0.1)]
    assert inside == pytest.approx([3.46e-5, 3.46e-4, 0.0017, 0.0035], rel=0.02)  # 0.002 and 0.004 printed


@of(19)
def test_the_third_moment_behind_the_berry_esseen_example():
    third = quad(lambda x: x**3 * math.exp(-x), 0, 60)[0]  # of abs Laplace noise of scale 1
    assert third == pytest.approx(6.0)
    for rho, bound in ((3.0, 0.0157), (third, 0.0269)):  # 3 λ³ is printed
        sd3 = 2 * math.sqrt(2)
        assert 0.33554 * (rho + 0.415 * sd3) / (sd3 * math.sqrt(1000)) == pytest.approx(bound, abs=5e-5)


@of(12)
def test_the_gaussian_variance_of_equation_6_29():
    assert 400 * math.log(1.25 / 1e-5) == pytest.approx(4694.5, abs=0.1)
    assert 400 * math.log(1.25 / 1e-7) == pytest.approx(6536.5, abs=0.1)
    # numbers in [−1, 1] at ε = 0.1: twice the printed one, and what is needed
    assert 2 * (2 / 0.1) ** 2 * math.log(1.25 / 1e-7) == pytest.approx(13_073, abs=1)
    assert least_sd(2.0, 0.1, 1e-7) ** 2 == pytest.approx(6_833, abs=1)


@of(20)
def test_parameters_of_tables_6_1_to_6_3():
    assert 784 + 1 == 785
    assert (3072 + 1) * 200 + (200 + 1) * 10 == 616_610
    layers = [3 * 25 * 10 + 10, 10 * 25 * 20 + 20, 8 * 8 * 20 * 50 + 50, 50 * 10 + 10]
    assert layers == [760, 5020, 64_050, 510]  # 64,250 is printed
    assert sum(layers) == 70_340  # and 70,540


@of(13)
def test_sampled_columns_add_the_variance_of_who_is_asked():
    """All ways to ask 2 of 5 people: the mean of those asked about the mean of all, by (1 − 2/5) Var/2 of n − 1."""
    values = np.array([0.0, 0.1, 0.4, 0.7, 1.0])
    errors = [np.mean(some) - values.mean() for some in itertools.combinations(values, 2)]
    assert np.mean(np.square(errors)) == pytest.approx((1 - 2 / 5) * values.var(ddof=1) / 2)


@of(14)
def test_hdr4me_divides_by_its_quantile_over_the_mean_and_one():
    x, sd, mean = 0.5, 0.3, 0.4
    q = brentq(lambda t: norm.cdf((t - mean) / sd) - norm.cdf((-t - mean) / sd) - 0.95, 0.1, 5.0)
    lam = q / (2 * mean)  # 4.53
    assert x / (2 * lam + 1) == pytest.approx(0.1546, abs=5e-5)  # 4.56
    lam = q / (2 * 1e-12)
    assert x / (2 * lam + 1) < 1e-11  # as the mean goes to 0, which it is for unbiased mechanisms


def test_hdr4mes_mixture_can_be_worse_than_l2():
    """Means of Figure 4.6 a, deviations of sd 1.5 without bias: λ of L1 is their 95% quantile, L2 gives 0."""
    rng, sd, mean = np.random.default_rng(8), 1.5, np.where(np.arange(100) < 10, 0.9, 0.0)
    x = mean + sd * rng.standard_normal((2_000, 100))
    one, two = (norm.cdf(k / sd) - norm.cdf(-k / sd) for k in (1, 2))
    l1 = np.sign(x) * np.maximum(np.abs(x) - norm.ppf(0.975) * sd, 0.0)
    error = {k: np.mean((v - mean) ** 2) for k, v in {"none": x, "l2": 0.0, "all": one * x + (two - one) * l1}.items()}
    assert error["l2"] < error["all"] < error["none"]


@of(14)
def test_all_deviations_beyond_1_are_rarer_than_some():
    rng = np.random.default_rng(5)
    beyond = np.abs(rng.standard_normal((200_000, 3))) > 1
    chance = 2 * norm.sf(1)
    for seen, said in ((beyond.all(axis=1), chance**3), (beyond.any(axis=1), 1 - (1 - chance) ** 3)):
        assert abs(seen.mean() - said) < 5 * math.sqrt(said * (1 - said) / 200_000)


@of(15)
def test_a_replaced_gradient_turns_a_mean_round_whatever_the_batch():
    for pairs in (1, 50):
        others = np.tile([[1.0, 0.0], [-1.0, 0.0]], (pairs, 1)).sum(axis=0)
        means = [(others + np.array([sign, 0.0])) / (2 * pairs + 1) for sign in (1.0, -1.0)]
        angles = [math.atan2(b, a) for a, b in means]
        assert abs(angles[1] - angles[0]) == pytest.approx(math.pi)


@of(15)
def test_a_box_of_angles_has_the_diagonal_root_d_plus_2_beta_pi():
    for d, beta in itertools.product((2, 3, 5), (0.2, 1.0)):
        half = [beta * math.pi / 2] * (d - 2) + [beta * math.pi]  # d − 2 angles in [0, π], one in (−π, π]
        corners = np.array([*itertools.product(*[(-h, h) for h in half])])
        apart = np.linalg.norm(corners[:, None] - corners[None], axis=2).max()
        assert apart == pytest.approx(math.sqrt(d + 2) * beta * math.pi)


@of(15)
def test_a_length_sent_as_it_is_is_read_off_whatever_the_angles():
    rng = np.random.default_rng(9)
    for length in (0.1, 0.9):
        a = 100 * rng.standard_normal((1_000, 2))
        x = length * np.array([np.cos(a[:, 0]), np.sin(a[:, 0]) * np.cos(a[:, 1]), np.sin(a[:, 0]) * np.sin(a[:, 1])])
        assert np.linalg.norm(x, axis=0) == pytest.approx(length)


@of(16)
def test_a_noised_angle_attenuates_its_cosine():
    for sd, angle in itertools.product((0.5, 2.0), (0.3, 2.0)):
        mean = quad(lambda e, a=angle, s=sd: math.cos(a + e) * norm.pdf(e, 0, s), -12 * sd, 12 * sd, limit=400)[0]
        assert mean == pytest.approx(math.exp(-(sd**2) / 2) * math.cos(angle), abs=1e-8)


@of(15)
def test_magnitude_and_direction_cost_what_two_releases_cost():
    """Likelihood ratios of two independent Gaussian releases, each of μ = 1, are those of one of √2."""
    epsilon = 1.0
    both = quad(lambda x: norm.pdf(x, 1) * hockey_stick_at(math.exp(epsilon) * norm.pdf(x) / norm.pdf(x, 1)), -12, 12)[
        0
    ]
    assert both == pytest.approx(hockey_stick(math.sqrt(2), 1.0, epsilon), rel=1e-5)


def hockey_stick_at(factor):
    """∫ max(p − factor q, 0) of normals of means 1 and 0."""
    edge = math.log(factor) + 0.5
    return norm.sf(edge - 1) - factor * norm.sf(edge)


@of(17)
@pytest.mark.parametrize("steps", [1, 5, 20])
def test_noise_on_the_last_of_several_gradients_protects_one(steps):
    """Two silos whose clipped gradients are always C and −C: their models part by 2 C η a step."""
    c, eta, mu = 0.5, 0.1, 1.0
    ends = []
    for sign in (1.0, -1.0):
        w = 0.0
        for _ in range(steps):
            gradient = sign * 7.0
            w -= eta * gradient / max(1.0, abs(gradient) / c)
        ends.append(w)
    assert abs(ends[0] - ends[1]) / (eta * 2 * c / mu) == pytest.approx(steps * mu)
