"""Many coefficients by rounds: estimates are unbiased, intervals hold, rows come narrow, whatever the family."""

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.estimation import many
from privreg.simulation import play

LEVELS = [f"l{k:03d}" for k in range(120)]
NUMBERS = [f"x{j}" for j in range(30)]
EFFECTS = np.random.default_rng(99).normal(size=120) * 0.5
SLOPES = np.r_[1.0, -1.0, 0.5, np.zeros(27)]


def numbers(n):
    """Of a hundred numbers, their names with the constant, response, rows and coefficients."""
    rng, names = np.random.default_rng(0), ["const", *(f"x{j}" for j in range(1, 101))]
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 100))])
    beta = np.r_[0.5, 1.0, -1.0, 0.5, np.zeros(97)]
    given = {"exog_names": names, "bounds": dict.fromkeys(names[1:], (-1, 1)) | {"y": (-10, 10)}}
    return x @ beta + rng.standard_normal(n), x, beta, given


def frame_of(n, seed):
    rng = np.random.default_rng(seed)
    x, g = rng.uniform(-1, 1, (n, 30)), rng.choice(120, n)
    frame = pd.DataFrame(x, columns=NUMBERS)
    frame["g"] = pd.Categorical.from_codes(g, LEVELS)
    frame["y"] = 0.5 + EFFECTS[g] - EFFECTS[0] + x @ SLOPES + rng.standard_normal(n)
    return frame


def model(frame, mu, **options):
    bounds = {**dict.fromkeys(NUMBERS, (-1, 1)), "y": (-10, 10)}
    formula = f"y ~ {' + '.join(NUMBERS)} + C(g)"
    return pr.PrivateOnlineRegression.from_formula(
        formula, frame, bounds=bounds, levels={"g": LEVELS}, mu=mu, **options
    )


@pytest.mark.statistical
@pytest.mark.parametrize("mu", [None, 100])
def test_a_factor_of_120_levels_beside_30_numbers_is_estimated_with_honest_intervals(mu):
    res = model(frame_of(100_000, 1), mu).fit(progress=False, seed=1)
    truth = pd.Series(0.0, index=res.params.index)
    truth["Intercept"] = 0.5
    truth[NUMBERS] = SLOPES
    levels = [f"C(g)[T.{name}]" for name in LEVELS[1:]]
    truth[levels] = EFFECTS[1:] - EFFECTS[0]
    z = (res.params - truth) / np.sqrt(res._fit.estimates[0].variances)
    assert {"diagonal", "levels"} <= {note.code for note in res.privacy.notes}
    slopes = z[NUMBERS].to_numpy()
    # all levels are compared with one reference, whose error they share
    apart = z[levels].to_numpy() - z[levels].mean()
    assert np.abs(slopes).max() < 4.5
    assert (slopes**2).mean() < 1 + 4 * math.sqrt(2 / len(slopes))
    assert abs(slopes.mean()) < 4 / math.sqrt(len(slopes))
    assert (np.abs(slopes) < 1.96).mean() > 0.95 - 4 * math.sqrt(0.95 * 0.05 / len(slopes))
    assert np.abs(apart).max() < 4.5
    assert abs(z["Intercept"]) < 4


def test_narrow_rows_are_the_dense_ones_and_blocks_stay_small():
    rng = np.random.default_rng(1)
    codes = np.array([-1.0, 0.0, 2.0, 1.0])
    number = rng.standard_normal(4)
    found = play.dense(np.column_stack([np.ones(4), codes, number]), np.array([[0, 0], [1, 3], [4, 0]]), 5)
    expected = np.column_stack([np.ones(4), [0, 1, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0], number])
    np.testing.assert_array_equal(found, expected)
    assert np.isnan(play.dense(np.array([[np.nan]]), np.array([[0, 3]]), 3)).any()
    assert play.most(3) == play.MOST
    assert play.most(2000) * 2000 <= play.NUMBERS
    stream = model(frame_of(500, 1), 10, rows=500).start()
    assert stream._run.columns is not None
    assert stream._run.columns[:, 1].max() == 119


def test_maps_of_the_box_undo_each_other():
    rng = np.random.default_rng(2)
    points = np.column_stack([np.ones(4000), rng.standard_normal((4000, 5))])
    box = many.box_of(points)
    small = np.array([[2.0, -0.5], [-0.5, 1.0]])
    moves = rng.standard_normal((3, 12))
    np.testing.assert_allclose(box.back(small, box.forth(small, moves)), moves, rtol=1e-4)
    np.testing.assert_allclose(box.forth(small, moves), moves @ np.kron(small, box.gram), atol=1e-12)
    np.testing.assert_allclose(box.near(small, box.forth(small, moves[:1])[0], 1e12, 1.0), moves[0], rtol=1e-3)
    assert box.distance2(box.near(small, box.forth(small, moves[:1])[0], 1e-6, 1.0)) < 1e-6


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize(
    "options", [{"mu": 100}, {"epsilon": 2000, "mechanism": "laplace"}, {"mu": 100, "family": pr.Quantile(0.7)}]
)
def test_101_coefficients_of_numbers_are_fitted_by_every_mechanism(options):
    y, x, beta, given = numbers(40_000)
    res = pr.PrivateOnlineRegression(y, x, **given, **options).fit(progress=False, seed=1)
    if "family" in options:
        beta[0] += 0.5244  # of a standard normal
    z = (res.params.to_numpy() - beta) / np.sqrt(res._fit.estimates[0].variances)
    assert np.abs(z).max() < 4.5
    # standard errors are those of the errors: their mean square over 101 has sd √(2/101)
    assert abs((z**2).mean() - 1) < 5 * math.sqrt(2 / 101)


@pytest.mark.thorough
def test_a_stream_of_many_columns_goes_on_where_it_was_saved(tmp_path):
    y, x, _, given = numbers(20_000)
    stream = (
        pr.PrivateOnlineRegression(y, x, **given, mu=50.0, rows=20_000).start(seed=4).update((y[:15_000], x[:15_000]))
    )
    stream.save(tmp_path / "s")
    again = pr.load(tmp_path / "s").update((y[15_000:], x[15_000:])).results()
    whole = stream.update((y[15_000:], x[15_000:])).results()
    pd.testing.assert_series_equal(whole.params, again.params)


@pytest.mark.thorough
def test_many_coefficients_of_a_response_of_many_levels():
    rng = np.random.default_rng(3)
    n, classes, k = 60_000, 10, 11
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, k))])
    theta = np.random.default_rng(5).normal(size=(classes - 1, k + 1)) * 0.3
    y = (np.column_stack([np.zeros(n), x @ theta.T]) + rng.gumbel(size=(n, classes))).argmax(axis=1)
    frame = pd.DataFrame(x[:, 1:], columns=[f"x{j}" for j in range(k)]).assign(y=y)
    res = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {' + '.join(frame.columns[:-1])}",
        frame,
        bounds=dict.fromkeys(frame.columns[:-1], (-1, 1)),
        levels={"y": list(range(classes))},
        family="multinomial",
        mu=50,
    ).fit(progress=False, seed=1)
    z = (res._fit.params - theta.ravel()) / np.sqrt(res._fit.estimates[0].variances)
    assert np.abs(z).max() < 4.5
    assert (z**2).mean() < 1 + 5 * math.sqrt(2 / len(z))
