"""Fits of a private response on public covariates: rows far out, columns of any scale, scores of any form."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import moments as whitening
from privreg.families.builtin import custom
from privreg.families.weights import SCORE_WEIGHTS, omega
from privreg.simulation.staged import kernels

N = 60_000


def frame(n=N, seed=1):
    rng = np.random.default_rng(seed)
    x, z, e = rng.normal(size=(3, n))
    return pd.DataFrame({"x": x, "z": z, "y": 1 + 2 * x + e})


def fit(data, formula="y ~ x + z", moments=("x", "z"), seed=3, **more):
    options = {"mu": 1, "private": "response", "bounds": {"y": (-9, 9)}, **more}
    model = pr.PrivateOnlineRegression.from_formula(formula, data, moments={m: (0, 1) for m in moments}, **options)
    return model.fit(progress=False, seed=seed)


def stages(data):
    """First position of every stage, by name."""
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ x + z", None, rows=len(data), mu=1, private="response", moments={"x": (0, 1), "z": (0, 1)},
        bounds={"y": (-9, 9)},
    )  # fmt: skip
    schedule = model.start()._run.start.schedule.stages
    starts = np.concatenate([[0], np.cumsum([s.people for s in schedule[:-1]])])
    out = {}
    for stage, start in zip(schedule, starts, strict=True):
        name = stage.kind if stage.kind != "moments" or "scales" in out else "scales"
        out[name] = int(start)
    return out


# --- one row far out ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [1e2, 1e5, 1e154, 1e155, 1e200, 1.7e308])
def test_one_row_however_far_out_hardly_moves_the_slope(value):
    data = frame()
    starts = stages(data)
    assert list(starts) == ["location", "scales", "moments", "pilot", "common", "lanes"]
    usual = fit(data)
    for start in starts.values():
        wild = data.copy()
        wild.loc[start + 17, "x"] = value
        res = fit(wild)
        assert abs(res.params["x"] - 2) < 5 * res.bse["x"]
        assert abs(res.params["x"] - usual.params["x"]) < 0.5 * usual.bse["x"]
        assert 0.5 * usual.bse["x"] < res.bse["x"] < 2 * usual.bse["x"]


@pytest.mark.parametrize("value", [1e2, 1e155, 1e200])
def test_nor_where_there_is_one_covariate_or_all_are_far_out(value):
    data = frame()
    for formula, far in (("y ~ x", ["x"]), ("y ~ x - 1", ["x"]), ("y ~ x + z", ["x", "z"])):
        wild = data.assign(y=data["y"] - 1) if formula.endswith("- 1") else data.copy()
        wild.loc[[2100, 2600, 3100, 5000, 30_000], far] = value
        res = fit(wild, formula, far)
        assert abs(res.params["x"] - 2) < 5 * res.bse["x"]
        assert res.bse["x"] < 0.03


def test_many_rows_far_out_in_the_rounds_on_covariates_are_outvoted():
    data = frame()
    data.loc[2000:4500:50, "x"] = 1e6
    res = fit(data)
    assert abs(res.params["x"] - 2) < 5 * res.bse["x"]
    assert res.bse["x"] < 0.03


# --- ordinary rows -----------------------------------------------------------------------------------------


def test_ordinary_rows_and_those_of_rare_levels_keep_their_weight():
    rng, leverage = np.random.default_rng(2), SCORE_WEIGHTS["leverage"]
    for p in (1, 2, 11):
        x = rng.standard_normal((20_000, p))
        x[:, 0] = 1.0
        assert (omega(leverage, x) == 1.0).all()  # so nothing is lost
        far = x * 10.0 ** rng.uniform(0, 100, (20_000, 1))
        lengths = np.linalg.norm(far, axis=1)
        assert (lengths * omega(leverage, far)).max() <= 8 * math.sqrt(p) * (1 + 1e-12)
        kernel = [kernels._weight(leverage.code, v, 1.0, p) for v in (far[:99] ** 2).sum(axis=1)]
        np.testing.assert_allclose(omega(leverage, far[:99]), kernel, rtol=1e-12)
    rare = np.sqrt((1 - 0.01) / 0.01)  # of one in a hundred, whitened
    assert omega(leverage, np.array([[1.0, rare, 1.0]]))[0] == 1.0


@pytest.mark.parametrize(("scale", "centre"), [(1e6, 0), (1e-6, 0), (1, 50), (10, 1e4), (1e30, 0)])
def test_wrongly_declared_scales_change_nothing(scale, centre):
    usual = fit(frame())
    res = fit(frame().assign(x=lambda d: centre + scale * d["x"]))
    assert scale * res.params["x"] == pytest.approx(usual.params["x"], abs=1e-3)


def test_levels_of_one_in_twenty_are_fitted_as_well_as_without_outliers():
    rng = np.random.default_rng(5)
    data = frame().assign(g=np.where(rng.uniform(size=N) < 0.05, "b", "a"))
    data["y"] += 2 * (data["g"] == "b")
    res = fit(data, "y ~ x + g", ["x"], levels={"g": ["a", "b"]})
    assert abs(res.params["g[T.b]"] - 2) < 5 * res.bse["g[T.b]"]
    assert res.bse["g[T.b]"] < 0.12


# --- what the rounds make of rows --------------------------------------------------------------------------


def whitened(v, chunks=1):
    scatter = whitening.start_from(np.eye(v.shape[1]))
    for tell, take in ((kernels.log_sizes, whitening.sizes), (kernels.second_moments, None)):
        total, ends = np.zeros(v.shape[1] * (v.shape[1] + 1) // 2), np.linspace(0, len(v), chunks + 1).astype(int)
        for a, b in itertools.pairwise(ends):
            tell(v, scatter.rows, total, a, b - a)
        gaps = (0.0,) * v.shape[1]
        scatter = take(scatter, total) if take else whitening.exact(scatter, total, gaps)
    return scatter.rows


def test_moments_of_ordinary_rows_become_white_in_any_chunks():
    rng = np.random.default_rng(3)
    v = np.column_stack([np.ones(4000), rng.standard_normal((4000, 3)) @ np.triu(np.ones((3, 3))) * [1, 1e9, 1e-9]])
    rows = whitened(v)
    z = v @ rows.T
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(4), atol=1e-6)
    assert np.array_equal(rows, np.tril(rows))
    np.testing.assert_array_equal(rows, whitened(v, 7))


def test_rows_that_are_not_finite_or_far_out_hardly_count():
    rng = np.random.default_rng(4)
    v = np.column_stack([np.ones(2000), rng.standard_normal((2000, 2))])
    usual = whitened(v)
    for k, value in enumerate((math.nan, math.inf, 1e155, 1e200, -1e308, 1e40, 1e3)):
        v[10 + 100 * k, 1] = value
    wild = whitened(v)
    assert np.isfinite(wild).all()
    np.testing.assert_allclose(wild, usual, atol=0.2)
    v[:, 1:] = 1e200  # nobody's can be used
    np.testing.assert_array_equal(whitened(v), np.eye(3))


def test_a_level_that_nobody_has_had_yet_is_not_infinitely_far_out():
    v = np.column_stack([np.ones(1000), np.full(1000, -1.0)])
    scatter, total = whitening.start_from(np.eye(2)), np.zeros(3)
    kernels.second_moments(v, scatter.rows, total, 0, 1000)
    rows = whitening.exact(scatter, total, (0.0, 2.0)).rows
    assert 2 * rows[1, 1] == pytest.approx(math.sqrt(4 * 1000), rel=1e-6)  # as one person's in 4,000


# --- scores that are not numbers at infinity ---------------------------------------------------------------


def pseudo_huber(eta, y):
    return (eta - y) / math.sqrt(1.0 + (eta - y) ** 2)


@pytest.mark.parametrize("how", ["response", "alone"])
def test_a_score_that_is_not_a_number_at_infinity_is_fitted(how):
    assert math.isnan(pseudo_huber(0.0, math.inf))
    data, family = frame(), custom("pseudo-Huber", pseudo_huber, 1.0)
    given = {"mu": 1, "moments": {"x": (0, 1), "y": (1, 2.3)}, "family": family}
    if how == "response":
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, private="response", **given)
    else:
        model = pr.PrivateOnlineRegression.from_formula("y ~ 1", data, **given)
    res = model.fit(progress=False, seed=2)
    assert res.bse["Intercept"] > 0
    assert abs(res.params["Intercept"] - 1) < 5 * res.bse["Intercept"]
    assert how == "alone" or abs(res.params["x"] - 2) < 5 * res.bse["x"]
