"""Curvature learned from groups that answer apart, and estimates carried by it, where reports follow the model."""

from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from privreg.collector.estimation import combination, curvature
from privreg.collector.estimation.curvature import GAIN, RoundMeans
from privreg.protocol.rounds import GROUPS

Q, ROUNDS = 3, 8
TRUTH = np.array([[0.8, 0.15, -0.1], [0.15, 1.1, 0.2], [-0.1, 0.2, 0.6]])
NOISE = np.array([[1.0, 0.3, 0.0], [0.3, 2.0, -0.2], [0.0, -0.2, 1.5]])
TARGET = np.array([0.4, -0.2, 0.1])
REPEATS = 400


def reports(rng, people, *, truth=TRUTH, rounds=ROUNDS, apart=0.3, far=0.3):
    """Mean reports M (x − x*) + noise of rounds whose states don't depend on them."""
    low, out, q = np.linalg.cholesky(NOISE), [], len(truth)
    for _ in range(rounds):
        half = apart * rng.choice([-1.0, 1.0], (GROUPS // 2, q))
        x = TARGET[:q] + far * rng.standard_normal(q) + np.concatenate([half, -half])
        weight = np.full(GROUPS, people / (rounds * GROUPS))
        noise = rng.standard_normal((GROUPS, q)) @ low.T / np.sqrt(weight)[:, None]
        out.append(RoundMeans(x, (x - TARGET[:q]) @ truth + noise, weight))
    return out


def test_curvature_is_learned_as_information_grows():
    rng, errors, unsure = np.random.default_rng(1), [], []
    for people in (1e4, 1e6, 1e8):
        found = curvature.learn(reports(rng, people), NOISE)
        errors.append(np.abs(found.mean - TRUTH).max())
        unsure.append(np.sqrt(np.trace(found.cov)))
        np.testing.assert_array_equal(found.mean, found.mean.T)
    assert errors[2] < 1e-2
    # information grows with people: of 100 times as many, a tenth is left of the error, once the prior is outweighed
    assert unsure[2] / unsure[1] == pytest.approx(0.1, rel=0.05)
    assert unsure[1] < 0.5 * unsure[0]


def test_without_reports_the_law_is_what_is_believed():
    rng = np.random.default_rng(2)
    found = curvature.learn(reports(rng, 1e-3), NOISE)
    np.testing.assert_allclose(found.mean, np.eye(Q), atol=0.01)
    on, off = curvature.SPREAD**2 * 2.0 / (Q + 1.0) + curvature.COMMON**2, curvature.SPREAD**2 / (Q + 1.0)
    np.testing.assert_allclose(np.diag(found.cov), [on, off, on, off, off, on], rtol=1e-3)


def test_noise_that_is_singular_but_for_rounding_leaves_curvature_what_it_is():
    rng = np.random.default_rng(0)
    some = np.linalg.qr(rng.standard_normal((6, 6)))[0][:, :4]  # nobody has the other two directions
    noise = some @ some.T
    assert 0.0 < np.abs(np.linalg.eigvalsh(noise)[:2]).max() < 1e-15
    rounds = [RoundMeans(x, x @ noise, np.full(GROUPS, 1000.0)) for x in rng.standard_normal((ROUNDS, GROUPS, 6))]
    found = curvature.learn(rounds, noise)
    # reports without errors, so that the prior alone draws M away: less than it is unknown
    assert np.abs(found.mean - noise).max() < np.sqrt(np.linalg.eigvalsh(found.cov)[-1])
    np.testing.assert_allclose(combination.combine(rounds, noise, found).x @ some, 0.0, atol=1e-3)


@pytest.mark.statistical
@pytest.mark.parametrize("people", [3e4, 1e6])
def test_the_posterior_of_curvature_covers(people):
    # M drawn from a prior of the family that is assumed; entries within 1.96 posterior sds: 95% of 6 × REPEATS, whose
    # standard error is at most √(.05 · .95/REPEATS) as entries of one M go together
    rng, inside = np.random.default_rng(3), []
    row, col = np.tril_indices(Q)
    tau = curvature.SPREAD / np.sqrt(0.5 * (Q + 1))
    for _ in range(REPEATS):
        m = np.zeros((Q, Q))
        m[row, col] = tau * rng.standard_normal(len(row)) * np.where(row == col, 1.0, np.sqrt(0.5))
        m = np.tril(m) + np.tril(m, -1).T + (1.0 + curvature.COMMON * rng.standard_normal()) * np.eye(Q)
        found = curvature.learn(reports(rng, people, truth=m), NOISE)
        inside.append(np.abs(found.mean - m)[row, col] <= 1.96 * np.sqrt(np.diag(found.cov)))
    error = np.sqrt(0.05 * 0.95 / REPEATS)
    assert abs(np.mean(inside) - 0.95) < 4 * error


def test_curvature_along_a_direction_is_told_with_its_error_by_reports_alone():
    rng, off, people = np.random.default_rng(7), [], 1e5
    along = np.eye(Q)
    for _ in range(REPEATS):
        mean, sd = curvature.along(curvature.learn(reports(rng, people), NOISE, prior=curvature.vague()), along)
        off.append((mean - np.diag(TRUTH)) / sd)
    np.testing.assert_allclose(np.std(off, axis=0), 1.0, atol=4 / np.sqrt(2 * REPEATS))
    assert (np.abs(np.mean(off, axis=0)) < 4 / np.sqrt(REPEATS)).all()


@pytest.mark.statistical
@pytest.mark.parametrize("far", [0.002, 0.1, 1.0])
def test_estimates_are_without_bias_and_cover(far):
    rng, people = np.random.default_rng(4), 1e5
    off, inside = [], []
    for _ in range(REPEATS):
        some = reports(rng, people, far=far)
        found = combination.combine(some, NOISE, curvature.learn(some, NOISE))
        off.append(found.x - TARGET)
        inside.append(np.abs(off[-1]) <= 1.96 * np.sqrt(np.diag(found.cov)))
        assert found.weights.sum() == pytest.approx(1.0)
        assert np.linalg.eigvalsh(found.cov - found.unknown).min() > 0.0
    mean, error = np.mean(off, axis=0), np.std(off, axis=0) / np.sqrt(REPEATS)
    assert (np.abs(mean) < 4 * error).all()
    # no less than its noise carried by the true M; and hardly more, where states are near and all rounds count alike
    limit = np.diag(np.linalg.inv(TRUTH) @ NOISE @ np.linalg.inv(TRUTH)) / people
    spread = np.var(off, axis=0) / limit
    of_variance = np.sqrt(2.0 / REPEATS)
    assert (spread > 1.0 - 4 * of_variance).all()
    if far < 0.01:
        assert (spread < 1.05 + 4 * of_variance).all()
    assert np.mean(inside) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / REPEATS)


def test_a_round_that_had_to_be_carried_far_counts_for_less():
    rng = np.random.default_rng(5)
    some = reports(rng, 1e6, far=0.0)
    far = [RoundMeans(some[0].x + 1.0, some[0].g + TRUTH.sum(axis=1), some[0].weight), *some[1:]]
    found = combination.combine(far, NOISE, curvature.learn(far, NOISE))
    assert found.weights[0] < 0.1 * found.weights[1:].min()


def wide(rng, truth, people):
    """Rounds of a state at 0, about which groups are apart in all directions."""
    q, some = len(truth), []
    for _ in range(ROUNDS):
        half = 0.3 * rng.choice([-1.0, 1.0], (GROUPS // 2, q))
        x, weight = np.concatenate([half, -half]), np.full(GROUPS, people / GROUPS)
        some.append(RoundMeans(x, x @ truth + rng.standard_normal(x.shape) / np.sqrt(weight)[:, None], weight))
    return some


@pytest.mark.parametrize("q", [curvature.MOST, curvature.MOST + 1])
def test_a_multiple_is_learned_of_as_many_coefficients_as_there_are(q):
    some = wide(np.random.default_rng(6), 0.7 * np.eye(q), 1e8)
    found = curvature.learn(some, np.eye(q))
    assert (found.rows is not None) == (q > curvature.MOST)
    np.testing.assert_allclose(found.mean, 0.7 * np.eye(q), atol=0.01)
    combined = combination.combine(some, np.eye(q), found)
    assert combined.cov.shape == (q, q)
    assert np.linalg.eigvalsh(combined.cov).min() > 0.0


def uneven(rng, q, spread):
    """Symmetric, with eigenvalues spread like those of noise."""
    noise = rng.standard_normal((q, q)) * spread / np.sqrt(2.0 * q)
    return np.eye(q) + noise + noise.T


@pytest.mark.some(1)
@pytest.mark.parametrize("people", [3e3, 3e4, 1e6])
def test_of_many_coefficients_what_is_learned_by_rows_is_as_near_as_it_says(people):
    q = 40
    z, errors = [], []
    for seed in range(20):
        rng = np.random.default_rng([7, seed])
        truth = uneven(rng, q, 0.35)
        found = curvature.learn(wide(rng, truth, people), np.eye(q))
        mean, sd = curvature.along(found, np.eye(q))
        z.append((np.diag(truth) - mean) / sd)
        errors.append([np.linalg.norm(truth - found.mean), np.linalg.norm(truth - np.eye(q))])
    assert 0.75 < np.sqrt(np.mean(np.square(z))) < 1.25
    mine, none = np.mean(errors, axis=0)
    assert mine < (0.15 if people > 1e5 else 1.01) * none


@pytest.mark.statistical
def test_of_many_coefficients_standard_errors_have_what_noise_of_moments_does_to_curvature():
    """With 41 coefficients of which a multiple alone was known, intervals covered 83 to 93%."""
    q, inside = 41, []
    for seed in range(30):
        rng = np.random.default_rng([8, seed])
        some = wide(rng, uneven(rng, q, 0.4), 2e4)
        found = combination.combine(some, np.eye(q), curvature.learn(some, np.eye(q)))
        inside.append(found.x**2 < 1.96**2 * np.diag(found.cov))
    assert 0.935 < np.mean(inside) < 0.985


def test_eigenvalues_that_are_not_believed_are_moved():
    m = np.diag([-1.0, 0.5, 9.0])
    np.testing.assert_allclose(np.diag(curvature.floored(m)), [curvature.LEAST, 0.5, 9.0])


@pytest.mark.thorough
def test_a_direction_that_the_law_names_is_believed_with_fewer_reports():
    # M is low along the first coordinate by what wider residuals there would do; few reports tell little of it
    rng, q = np.random.default_rng(8), Q
    slopes = np.zeros((1, q, q))
    slopes[0, 0, 0] = -1.0 / np.sqrt(q)
    truth = np.diag([0.5, 1.0, 1.0])
    known, unknown, unsure, times = [], [], [], 200
    for _ in range(times):
        some = reports(rng, 150.0, truth=truth)
        for kept, given in ((known, slopes), (unknown, None)):
            found = curvature.learn(some, NOISE, slopes=given)
            kept.append(found.mean)
            unsure.append(found.cov[0, 0])
    nearer = np.array(known)[:, 0, 0] - np.array(unknown)[:, 0, 0]  # of the same reports
    assert np.mean(nearer) < -4 * np.std(nearer) / np.sqrt(times)
    assert np.mean(known, axis=0)[0, 0] > 0.5
    assert np.mean(unsure[::2]) > np.mean(unsure[1::2])  # what may be so isn't known beforehand


def test_directions_say_nothing_where_the_law_is_to_have_no_say():
    some = reports(np.random.default_rng(9), 1e4)
    slopes = np.stack([np.eye(Q), TRUTH])
    alone, with_slopes = (curvature.learn(some, NOISE, slopes=s, prior=curvature.vague()) for s in (None, slopes))
    np.testing.assert_array_equal(alone.mean, with_slopes.mean)


@pytest.mark.parametrize("people", [1e-290, 1e-150, 1e-12])
def test_reports_that_tell_nothing_at_all_leave_the_law(people):
    found = curvature.learn(reports(np.random.default_rng(10), people), NOISE)
    np.testing.assert_allclose(found.mean, np.eye(Q), atol=0.01)


USUAL = GAIN * np.eye(Q)
SLOWER = np.array([[0.5, 0.1, 0.0], [0.1, 0.3, -0.05], [0.0, -0.05, 0.2]])


def following(rng, people, *, truth, apart, start=0.0, rounds=12, gain=USUAL):
    """The same of rounds whose states follow reports, as a collector's do."""
    low, out, state = np.linalg.cholesky(NOISE), [], TARGET + start
    for _ in range(rounds):
        half = apart * rng.choice([-1.0, 1.0], (GROUPS // 2, Q))
        x, weight = state + np.concatenate([half, -half]), np.full(GROUPS, people / (rounds * GROUPS))
        g = (x - TARGET) @ truth + rng.standard_normal((GROUPS, Q)) @ low.T / np.sqrt(weight)[:, None]
        out.append(RoundMeans(x, g, weight))
        state = state - gain @ g.mean(axis=0)
    return out


@pytest.mark.statistical
@pytest.mark.parametrize("gain", [USUAL, SLOWER], ids=["usual", "slower along some directions"])
def test_states_that_follow_reports_tell_curvature_without_the_bias_of_doing_so(gain):
    rng, off, plain = np.random.default_rng(11), [], []
    for _ in range(1_000):
        some = following(rng, 1e4, truth=np.eye(Q), apart=0.01, gain=gain)  # groups alone tell next to nothing
        for kept, known in ((off, gain), (plain, np.zeros((Q, Q)))):
            kept.append(
                np.diag(curvature.learn(some, NOISE, main=len(some), gain=known, prior=curvature.vague()).mean) - 1.0
            )
    bias, error = np.mean(plain), np.std(np.mean(plain, axis=1)) / np.sqrt(len(plain))
    assert bias > 6 * error
    assert abs(np.mean(off)) < bias / 4


def test_states_follow_reports_less_where_these_are_noisy_and_curvature_goes_with_them():
    noise = np.diag([1e-6, 0.25, 100.0])
    np.testing.assert_array_equal(curvature.gain(noise, varying=False), GAIN * np.eye(Q))
    share = curvature.STEADY / (np.sqrt(Q) * 0.5)
    assert curvature.LEAST < share < GAIN
    np.testing.assert_allclose(curvature.gain(noise, varying=True), np.diag([GAIN, share, curvature.LEAST]))


@pytest.mark.thorough
def test_a_poor_start_tells_curvature_along_itself():
    rng, people = np.random.default_rng(12), 1e5
    truth, start = np.diag([0.3, 1.0, 1.0]), np.array([0.3, 0.0, 0.0])
    off, sds, times = [], [], 200
    for _ in range(times):
        some = following(rng, people, truth=truth, apart=0.03, start=start)
        (mean, sd), (_, of_groups) = (
            curvature.along(curvature.learn(some, NOISE, main=main, prior=curvature.vague()), np.eye(Q))
            for main in (len(some), 0)
        )
        off.append((mean[0] - 0.3) / sd[0])
        sds.append(sd / of_groups)
    ratio = np.mean(sds, axis=0)
    assert ratio[0] < 0.75 < 0.9 < ratio[1:].min()
    assert np.mean(np.abs(off) <= 1.96) > 0.95 - 4 * np.sqrt(0.05 * 0.95 / times)


def test_noise_is_carried_by_a_curvature_that_is_not_known():
    """Where the mean report is 0, what isn't known of M blurs the noise alone: by E M⁻¹ Ω M⁻¹ − (E M)⁻¹ Ω (E M)⁻¹."""
    rng, n, sd, noise = np.random.default_rng(2), 500.0, 0.05, 4.0 * np.diag([1.0, 2.0, 0.5])
    rounds = [RoundMeans(np.zeros((1, Q)), np.zeros((1, Q)), np.array([n]))]
    row, col = np.tril_indices(Q)
    m = np.array([[1.2, 0.2, 0.0], [0.2, 0.9, -0.1], [0.0, -0.1, 1.0]])
    found = combination.combine(rounds, noise, curvature.Curvature(m, sd**2 * np.eye(len(row))))
    draws = np.zeros((20_000, Q, Q))
    draws[:, row, col] = m[row, col] + sd * rng.standard_normal((len(draws), len(row)))
    draws[:, col, row] = draws[:, row, col]
    inverse, plain = np.linalg.inv(draws), np.linalg.inv(m)
    expected = np.diag((inverse @ noise @ inverse).mean(axis=0) - plain @ noise @ plain) / n
    # the mean of 200 squares has a standard error of a tenth
    np.testing.assert_allclose(np.diag(found.unknown), combination.TAILS * expected, rtol=0.4)
    np.testing.assert_allclose(found.cov - found.unknown, plain @ noise @ plain / n)


@pytest.mark.parametrize("df", [30, 100])
def test_normal_quantiles_serve_where_a_standard_error_is_noisy(df):
    """One coefficient: v = 1/(2 df) of a standard error's logarithm; Student's t at 95%, to first order in v."""
    n, v = 500.0, 0.5 / df
    rounds = [RoundMeans(np.zeros((1, 1)), np.zeros((1, 1)), np.array([n]))]
    found = combination.combine(rounds, np.eye(1), curvature.Curvature(np.eye(1), np.array([[v]])))
    # rounding of the expansion, and the draws, of which a mean of 200 squares has a standard error of a tenth
    exact = (stats.t.ppf(0.975, df) / stats.norm.ppf(0.975)) ** 2 - 1.0
    assert found.unknown[0, 0] * n == pytest.approx(exact, rel=0.4)


def test_a_covariance_is_made_no_smaller_than_another_along_any_direction():
    rng = np.random.default_rng(2)
    a, b = (m @ m.T for m in rng.standard_normal((2, 3, 3)))
    for least in (b, np.diag([1.0, 4.0, 0.0])):
        found = combination.at_least(a, least)
        for more in (found - least, found - a):
            assert np.linalg.eigvalsh(more)[0] > -1e-9
    np.testing.assert_allclose(combination.at_least(a, 1e-3 * a), a, rtol=1e-9)
    np.testing.assert_allclose(combination.at_least(1e-3 * a, a), a, rtol=1e-9)


def test_the_factor_is_students():
    """Quantiles of t to first order in v, and fifths of its intervals by their length, as docs/validity.md has them."""
    z = stats.norm.ppf(0.975)
    for degrees in (100, 400):
        v = 1 / (2 * degrees)  # of the logarithm of a standard error
        larger = (stats.t.ppf(0.975, degrees) / z) ** 2 - 1
        assert larger == pytest.approx(3 * combination.TAILS * v, rel=3 / degrees)
    errors = np.sqrt(stats.chi2.ppf((np.arange(5_000) + 0.5) / 5_000, 12) / 12)
    holds = 2 * stats.norm.cdf(stats.t.ppf(0.975, 12) * errors) - 1
    assert np.round(100 * holds.reshape(5, -1).mean(axis=1)).tolist() == [87, 94, 97, 98, 99]
    assert np.log(errors).std() == pytest.approx(0.2, abs=0.02)
    assert "fifths hold in 87, 94, 97, 98 and 99%" in " ".join(
        (Path(__file__).parents[2] / "docs/validity.md").read_text("utf-8").split()
    )
