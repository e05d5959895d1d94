"""Vectors as magnitude and angles: an exact inverse, a sensitivity that no pair exceeds, moments as measured."""

import math

import numpy as np
import pytest
from scipy.stats import chi2

from privreg import Budget
from privreg.errors import OptionError
from privreg.federated import AngleBox, from_angles, to_angles, update_mechanism
from privreg.published.federated.theory import angle_sensitivity, attenuation

SIZES = (2, 3, 5, 17, 200)


def vectors(size, n=200, seed=0):
    rng = np.random.default_rng(seed)
    normal = rng.standard_normal((n, size))
    return np.concatenate([
        normal, -normal, normal * 1e150, normal * 1e-150, normal * 10.0 ** rng.integers(-8, 8, (n, size)),
        np.eye(size), -np.eye(size), np.ones((1, size)), -np.ones((1, size)),
    ])  # fmt: skip


@pytest.mark.parametrize("size", SIZES)
def test_angles_invert_exactly_but_for_rounding(size):
    x = vectors(size)
    magnitude, angles = to_angles(x)
    back = from_angles(magnitude, angles)
    assert np.all(np.abs(back - x) <= 4 * size * np.finfo(float).eps * magnitude[:, None])
    assert angles.shape == (len(x), size - 1)
    assert (angles[:, :-1] >= 0).all()
    assert (angles[:, :-1] <= math.pi).all()
    assert (np.abs(angles[:, -1]) <= math.pi).all()


def test_angles_are_those_of_the_definition():
    rng = np.random.default_rng(1)
    for x in rng.standard_normal((20, 6)):
        _, angles = to_angles(x)
        for z in range(4):
            assert angles[z] == pytest.approx(math.atan2(math.sqrt(sum(v * v for v in x[z + 1 :])), x[z]), rel=1e-14)
        assert angles[4] == pytest.approx(math.atan2(x[5], x[4]), rel=1e-14)


def test_conversion_keeps_leading_shapes():
    x = np.random.default_rng(2).standard_normal((3, 4, 5))
    magnitude, angles = to_angles(x)
    assert magnitude.shape == (3, 4)
    assert angles.shape == (3, 4, 4)
    np.testing.assert_allclose(from_angles(magnitude, angles), x, rtol=0, atol=1e-14)


def test_zero_vector_has_no_direction_and_stays_zero():
    magnitude, angles = to_angles(np.zeros(4))
    assert magnitude == 0
    np.testing.assert_array_equal(from_angles(magnitude, angles), np.zeros(4))


# --- sensitivity -----------------------------------------------------------------------------------------


def boxed(x, beta):
    return AngleBox(x.shape[-1], beta).clip(to_angles(x)[1])


@pytest.mark.some(3)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("beta", [0.05, 0.4, 1.0])
def test_realised_angle_distance_never_exceeds_the_sensitivity(size, beta):
    x = vectors(size)
    edge = np.full(size, 1e-9)
    for sign in (1.0, -1.0):  # first angles near 0 or π, the last near ±π
        edge[0], edge[-2], edge[-1] = sign, -1.0, sign * 1e-12
        x = np.vstack([x, edge])
    angles = boxed(x, beta)
    gaps = np.concatenate([np.linalg.norm(angles - a, axis=1) for a in angles])
    assert gaps.max() <= angle_sensitivity(size, beta) * (1 + 1e-12)


@pytest.mark.parametrize("size", [2, 3, 6])
@pytest.mark.parametrize("beta", [0.3, 1.0])
def test_sensitivity_is_reached(size, beta):
    """Two vectors lie as far apart as claimed, so that no smaller number would do."""
    box = AngleBox(size, beta)
    low, high = box.centre - box.half, box.centre + box.half
    low[:-1], high[:-1] = np.maximum(low[:-1], 1e-5), np.minimum(high[:-1], math.pi - 1e-5)
    high[-1] = min(high[-1], math.pi - 1e-7)
    low[-1] = max(low[-1], 1e-7 - math.pi)
    gap = np.linalg.norm(boxed(from_angles(1.0, low), beta) - boxed(from_angles(1.0, high), beta))
    assert angle_sensitivity(size, beta) * (1 - 1e-4) < gap <= angle_sensitivity(size, beta) * (1 + 1e-12)


def test_sensitivity_of_a_mean_does_not_fall_with_the_number_of_records():
    """The others cancel, so the replaced one of B = 64 turns the mean as far as it turns itself."""
    size, batch = 4, 64
    others = np.zeros((batch - 1, size))
    others[0], others[1] = 1.0, -1.0
    first, second = from_angles(1.0, [0.01, 0.01, -3.14]), from_angles(1.0, [3.13, 3.13, 3.14])
    means = [(others.sum(axis=0) + one) / batch for one in (first, second)]
    gap = np.linalg.norm(boxed(means[0], 1.0) - boxed(means[1], 1.0))
    assert gap > 0.98 * angle_sensitivity(size, 1.0)
    assert gap > 60 * angle_sensitivity(size, 1.0) / batch


def test_printed_size_of_the_noise():
    m = update_mechanism("ldpvec", Budget.declare(mu=1), 4, 1.0, debias=False)
    assert m.angle_sd == pytest.approx(math.sqrt(6) * math.pi)  # 7.7 radians: a direction is lost


# --- moments ---------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("name", "mu", "options"),
    [
        ("geodp", 30.0, {}),
        ("geodp", 30.0, {"debias": False, "beta": 0.2}),
        ("ldpvec", 20.0, {}),
        ("ldpvec", 2.0, {"debias": False}),
    ],
)
def test_moments_are_those_of_reports(name, mu, options):
    """Within what 40,000 reports allow: z of every mean and variance below 6 (P < 1e-7 for all)."""
    m = update_mechanism(name, Budget.declare(mu=mu), 4, 1.5, **options)
    u = np.array([0.3, -0.6, 0.2, 0.5])
    rng = np.random.default_rng(3)
    n = 40_000
    reports = from_angles(*m.release(u, rng.standard_normal((n, m.width)))) * m._factors
    mean, variance = m.moments(u)
    centred = reports - mean
    assert np.all(np.abs(centred.mean(axis=0)) < 6 * np.sqrt(variance / n))
    squares = centred**2
    assert np.all(np.abs(squares.mean(axis=0) - variance) < 6 * squares.std(axis=0) / math.sqrt(n))


def test_debiased_reports_have_the_update_as_mean_inside_the_box():
    m = update_mechanism("geodp", Budget.declare(mu=20), 5, 1.0)
    u = np.array([0.1, -0.4, 0.3, 0.2, -0.5])
    np.testing.assert_allclose(m.moments(u)[0], u, atol=1e-12)
    shrunk = update_mechanism("geodp", Budget.declare(mu=20), 5, 1.0, debias=False)
    np.testing.assert_allclose(shrunk.moments(u)[0] / u, np.exp(-0.5 * m.angle_sd**2 * np.array([1, 2, 3, 4, 4])))
    assert np.all(attenuation(5, 0.5) == -0.125 * np.array([1, 2, 3, 4, 4]))


def test_ldpvec_reports_do_not_depend_on_the_magnitude():
    m = update_mechanism("ldpvec", Budget.declare(mu=1), 3, 2.0, debias=False)
    z = np.random.default_rng(4).standard_normal(m.width)
    np.testing.assert_array_equal(m.randomise(np.ones(3), z), from_angles(*m.release(np.ones(3), z)) * m._factors)
    u = np.array([0.3, 0.1, -0.2])
    np.testing.assert_allclose(m.randomise(u, z), m.randomise(5 * u, z), rtol=1e-12)
    assert np.linalg.norm(m.randomise(u, z)) == pytest.approx(2.0)


def test_noise_of_angles_and_magnitude_is_what_the_budget_takes():
    """Variances within exact chi-square limits at 1e-6, and μ_mag² + μ_dir² = μ²."""
    m = update_mechanism("geodp", Budget.declare(mu=2), 4, 3.0, magnitude_share=0.2, beta=0.5, debias=False)
    n = 20_000
    rng = np.random.default_rng(5)
    lengths, angles = m.release(np.ones(4), rng.standard_normal((n, m.width)))
    low, high = chi2.ppf([5e-7, 1 - 5e-7], n - 1) / (n - 1)
    for values, sd in ((lengths, m.magnitude_sd), *((column, m.angle_sd) for column in angles.T)):
        assert low < values.var(ddof=1) / sd**2 < high
    mu_magnitude, mu_direction = 3.0 / m.magnitude_sd, angle_sensitivity(4, 0.5) / m.angle_sd
    assert math.hypot(mu_magnitude, mu_direction) == pytest.approx(2.0)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"beta": 0}, "beta=0 must be in"),
        ({"beta": 1.5}, "beta=1.5 must be in"),
        ({"beta": "wide"}, "beta='wide' must be in"),
        ({"magnitude_share": 0}, "magnitude_share=0 must be a number in"),
        ({"debias": 1}, "debias=1 must be True or False"),
        ({}, "can't be undone; give debias=False"),
    ],
)
def test_bad_options(options, words):
    with pytest.raises(OptionError, match=words):
        update_mechanism("geodp", Budget.declare(mu=1), 6, 1.0, **options)


def test_one_coefficient_has_no_direction():
    with pytest.raises(OptionError, match="2 coefficients or more"):
        update_mechanism("ldpvec", Budget.declare(mu=1), 1, 1.0, debias=False)


@pytest.mark.parametrize("name", ["geodp", "ldpvec"])
@pytest.mark.parametrize("beta", [0.05, 0.5, 1.0])
def test_released_angles_are_in_the_box_before_noise_whatever_the_update(name, beta):
    for size in (2, 3, 17):
        m = update_mechanism(name, Budget.declare(mu=1.0), size, 2.0, beta=beta, debias=False)
        low, high = m.box.centre - m.box.half, m.box.centre + m.box.half
        found = []
        for update in [np.zeros(size), *vectors(size, 30)]:
            norm = np.linalg.norm(update)
            magnitude, angles = m.release(update * (2.0 / norm) if norm > 2.0 else update, np.zeros(m.width))
            assert ((low <= angles) & (angles <= high)).all()
            assert 0.0 <= magnitude <= 2.0 * (1 + 1e-12)
            assert m.magnitude_share or magnitude == 2.0
            found.append(angles)
        apart = np.linalg.norm(np.array(found)[:, None] - np.array(found), axis=-1)
        assert apart.max() <= m.angle_sd * math.sqrt(1.0 - m.magnitude_share) * (1 + 1e-12)
