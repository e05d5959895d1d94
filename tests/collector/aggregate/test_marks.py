"""Marks of single coefficients: curvature that is uncertain, long steps, perfect prediction."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.aggregate.estimate import Estimated


def made(d: int, **known: np.ndarray) -> Estimated:
    """An estimate of d coefficients of which only what marks need is known."""
    usual = dict.fromkeys(Estimated._fields, np.zeros(d)) | {"wider": 0.0, "threshold": 1.0, "moves": np.zeros(1)}
    return Estimated(**(usual | {"lines": np.eye(1, d)} | known))


def random_parts(seed: int, d: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Curvature, meat and loadings."""
    rng = np.random.default_rng(seed)
    squares = rng.standard_normal((2, d, 3 * d))
    curvature, meat = (m @ m.T / (3.0 * d) for m in squares)
    return curvature, meat, rng.standard_normal((d, d))


@pytest.mark.parametrize("seed", range(3))
def test_blur_is_the_delta_method_entry_by_entry(seed: int) -> None:
    d, step = 4, 1e-6
    curvature, meat, loads = random_parts(seed, d)
    spread = np.random.default_rng(seed).uniform(0.5, 2.0, (d, d))
    spread = spread + spread.T

    def logs(slope: np.ndarray) -> np.ndarray:
        bread = loads @ np.linalg.inv(slope)
        return 0.5 * np.log(np.einsum("qk,kl,ql->q", bread, meat, bread))

    total = np.zeros(d)
    for k in range(d):
        for m in range(k + 1):
            moved = np.zeros((d, d))
            moved[k, m] = moved[m, k] = step
            total += spread[k, m] * ((logs(curvature + moved) - logs(curvature - moved)) / (2.0 * step)) ** 2
    bread = np.linalg.inv(curvature)
    root = bread @ np.linalg.cholesky(meat)
    found = made(d, root=root, bread=bread, spread=spread)
    np.testing.assert_allclose(found.blurred(loads), np.sqrt(total), rtol=1e-5)


def test_a_long_step_moves_what_is_estimated_with_it() -> None:
    """With independent estimates a step along one coefficient moves that one alone."""
    d = 3
    found = made(d, root=0.1 * np.eye(d), lines=np.eye(d)[1:2], moves=np.array([1.5]), threshold=2.0)
    np.testing.assert_allclose(found.displaced(np.eye(d), np.array([1.5])), [0.0, 2.0 * 1.5 / 0.1, 0.0])
    assert (found.displaced(np.eye(d), np.zeros(1)) == 0.0).all()
    assert (found._replace(wider=1.1).displaced(np.eye(d), np.zeros(1)) == math.inf).all()


@pytest.mark.parametrize(("trust", "share"), [("central", 0.008), ("two_collectors", 0.012)])
def test_a_rare_level_takes_back_its_own_row(trust: str, share: float) -> None:
    for seed in range(4):
        rng, n = np.random.default_rng(seed), 5_000
        g = rng.choice(["u", "v", "w"], n, p=[0.55, 0.45 - share, share])
        data = pd.DataFrame({"a": rng.uniform(-1.0, 1.0, n), "g": g})
        data["y"] = np.clip(0.5 * data["a"] + 0.3 * (g == "v") + rng.normal(0.0, 0.5, n), -3.0, 3.0)
        res = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + g", data, mu=1, bounds={"a": (-1, 1), "y": (-3, 3)}, levels={"g": ["u", "v", "w"]}, trust=trust
        ).fit(seed=seed, progress=False)
        assert [note.rows for note in res.privacy.notes if note.code == "curvature"] == [(2,)]
        assert res.params.index[2] == "g[T.w]"


def test_a_level_that_is_predicted_perfectly_takes_back_its_own_row() -> None:
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = pd.DataFrame({"a": rng.uniform(-1.0, 1.0, 20_000), "g": rng.choice(["u", "v"], 20_000, p=[0.8, 0.2])})
        chance = np.where(data["g"] == "v", 1.0, 1.0 / (1.0 + np.exp(-data["a"])))
        data["y"] = (rng.uniform(size=len(data)) < chance).astype(float)
        res = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + g", data, family="logistic", mu=1, bounds={"a": (-1, 1)}, levels={"g": ["u", "v"]}, trust="central"
        ).fit(seed=seed, progress=False)
        assert {note.rows for note in res.privacy.notes if note.severity == "doubt"} == {(1,)}
        assert res.params.index[1] == "g[T.v]"
