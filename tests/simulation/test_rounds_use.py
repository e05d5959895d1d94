"""Options of fits by rounds that are not their own: records of one person, gaps, guesses, scores of one's own."""

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import DataError

N = 40_000
BOUNDS = {"a": (-4, 4), "b": (-4, 4), "y": (-8, 9)}
TRUTH = np.array([0.5, 1.0, -1.0])


def frame():
    rng = np.random.default_rng(1)
    x = np.clip(rng.normal(size=(N, 2)), -4, 4)
    return pd.DataFrame({"y": 0.5 + x @ TRUTH[1:] + 0.5 * rng.normal(size=N), "a": x[:, 0], "b": x[:, 1]})


def fitted(data, fit=None, **options):
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, bounds=BOUNDS, mu=2, **options)
    return model.fit(progress=False, seed=1, **(fit or {}))


def assert_right(res):
    z = (res.params.to_numpy() - TRUTH) / np.sqrt(res._fit.estimates[0].variances)
    assert np.abs(z).max() < 4
    assert np.abs(res.params.to_numpy() - TRUTH).max() < 0.1


def test_rows_beyond_those_that_a_person_may_send_are_noise():
    res = fitted(frame().assign(i=np.arange(N) // 3), id="i", max_per_id=2)
    assert_right(res)
    assert res.privacy.total_mu == pytest.approx(2 * math.sqrt(2))
    assert "unusable" in {note.code for note in res.privacy.notes}


def test_rows_with_gaps_are_dropped_or_refused():
    data = frame()
    gaps = data.assign(y=data["y"].where(np.arange(N) % 5 > 0))
    res = fitted(gaps, missing="drop")
    assert res.nobs == 0.8 * N
    assert_right(res)
    assert_right(fitted(data, missing="raise"))
    with pytest.raises(DataError, match="column 'y' has a value that is missing"):
        fitted(gaps, missing="raise")


@pytest.mark.some(1)
@pytest.mark.parametrize("guess", [[0.5, 1.0, -1.0], [3.0, -2.0, 2.0]])
def test_a_public_guess_is_where_the_pilot_begins(guess):
    assert_right(fitted(frame(), {"start_params": guess}))


def test_unit_weights_of_scaled_covariates():
    assert_right(fitted(frame(), score_weights="unit"))


@pytest.mark.thorough
@pytest.mark.parametrize("private", ["record", "response"])
def test_a_score_of_ones_own(private):
    family = pr.families.custom("tanh", lambda eta, y: math.tanh(eta - y), 1.0)
    assert_right(fitted(frame(), family=family, private=private))


def test_no_record_makes_a_score_of_ones_own_fail():
    family = pr.families.custom("odd", lambda eta, y: math.tanh(eta - y) / (0.0 if y == 9.0 else 1.0), 1.0)
    data = frame()
    data.loc[:20, "y"] = 9.0
    assert_right(fitted(data, family=family))


@pytest.mark.statistical
def test_noise_does_not_choose_the_curvature_of_a_steep_logistic_fit():
    # log-odds of sd 3: the further out, the less curvature, and an estimate that looks it up there goes on and on
    p, n = 10, 200_000
    far = []
    for seed in (62, 64, 68):
        rng = np.random.Generator(np.random.SFC64(seed))
        x = np.column_stack([np.ones(n), rng.standard_normal((n, p))])
        y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-x.sum(axis=1)))).astype(float)
        names = ["const", *(f"x{j}" for j in range(p))]
        model = pr.PrivateOnlineRegression(
            y, x, exog_names=names, mu=1, family=pr.Logistic(), bounds=dict.fromkeys(names[1:], (-4.0, 4.0))
        )
        far.append(float(np.linalg.norm(model.fit(seed=seed, progress=False).params - 1.0)))
    assert np.median(far) < 2.0


@pytest.mark.statistical
def test_offsets_do_not_move_what_a_logistic_fit_estimates():
    # noise is small, offsets are not: the bend of the score over them is taken off by the law
    n, names, off = 200_000, ["const", "a", "b", "c"], []
    for seed in range(12):
        rng = np.random.Generator(np.random.SFC64(seed))
        x = np.column_stack([np.ones(n), rng.standard_normal((n, 3))])
        y = (rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-x.sum(axis=1)))).astype(float)
        public = {"private": "response", "bounds": dict.fromkeys("abc", (-4.0, 4.0))}
        model = pr.PrivateOnlineRegression(y, x, exog_names=names, mu=1, family=pr.Logistic(), **public)
        res = model.fit(seed=seed, progress=False)
        off.append(np.mean((res.params - 1.0) / res.bse))
    assert abs(np.mean(off)) < 0.5  # 0.9 without


@pytest.mark.usefixtures("usual_rounds")
def test_groups_answer_farther_apart_where_there_is_little_curvature():
    """Errors four times as wide where g is "y": the score bends there less, whatever else the model has."""
    rng = np.random.default_rng(5)
    n = 100_000
    data = pd.DataFrame({"g": np.where(rng.random(n) < 0.3, "y", "n"), "x": rng.standard_normal(n)})
    farthest = []
    for wide in (1.0, 4.0):
        y = data["x"] + np.where(data["g"] == "y", wide, 1.0) * 0.5 * rng.standard_normal(n)
        given = {"mu": None, "bounds": {"x": (-4, 4), "y": (-10, 10)}, "levels": {"g": ["n", "y"]}}
        model = pr.PrivateOnlineRegression.from_formula("y ~ g + x", data.assign(y=y), **given)
        length = np.linalg.norm(model.fit(seed=1, progress=False)._fit.equation.offsets, axis=1)
        farthest.append(length.max() / length[length > 0.0].min())
    assert farthest[0] < 1.3
    assert farthest[1] > 1.6


@pytest.mark.thorough
@pytest.mark.parametrize(("y_max", "noted"), [(5, False), (60, True)])
def test_counts_far_below_their_bound_are_too_noisy_to_tell_their_own_precision(y_max, noted):
    rng, n = np.random.default_rng(4), 40_000
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "y": np.minimum(rng.poisson(1.0, n), 5)})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a", data, family=pr.families.Poisson(y_max=y_max), mu=1, bounds={"a": (-1, 1)}
    )
    res = model.fit(progress=False, seed=1)
    assert ("imprecise" in {note.code for note in res.privacy.notes}) == noted
    assert res.tidy()["reliable"].all() != noted
