"""Estimands of several rows of a person beside linearmodels and pyfixest, without privacy and without score weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.estimand import estimand
from tests.simulation.test_persons import FIT, HOW, panel

NAMES = ["two", "three", "x"]

pytestmark = pytest.mark.filterwarnings("ignore")  # of those libraries


def root(data: pd.DataFrame, **more: object) -> np.ndarray:
    """What the equation of a fit by squares solves where no weight is below 1."""
    asked = {**HOW, "id": "person", "family": pr.Squared(), "k_max": 3, **more}
    fit = FIT("y ~ x + C(year)", data, **asked).fit(seed=1, progress=False)._fit
    assert fit.equation is not None
    free = replace(fit, equation=replace(fit.equation, caps=1e-9 * fit.equation.caps))
    return np.asarray(estimand(free, data))


def columns(data: pd.DataFrame) -> pd.DataFrame:
    """Other libraries' columns, clamped to the declared bounds as devices do."""
    data = data.assign(x=data["x"].clip(-5, 5), y=data["y"].clip(-8, 9))
    return data.assign(two=(data["year"] == 2).astype(float), three=(data["year"] == 3).astype(float))


def test_roots_are_those_of_linearmodels() -> None:
    panels = pytest.importorskip("linearmodels.panel", reason="linearmodels is not installed")
    data = panel(41, 2_000)
    flat = columns(data).set_index(["person", "year"])
    best = panels.PooledOLS(flat["y"], flat[NAMES].assign(one=1.0), weights=flat["w"]).fit().params
    np.testing.assert_allclose(root(data, weights="w"), best[["one", *NAMES]], atol=1e-6)


def test_roots_are_those_of_pyfixest() -> None:
    fixest = pytest.importorskip("pyfixest", reason="pyfixest is not installed")
    data = panel(42, 2_000)
    flat = columns(data).assign(part=1.0 / data.groupby("person")["x"].transform("size"))
    best = fixest.feols("y ~ two + three + x", data=flat, weights="part").coef()
    np.testing.assert_allclose(root(data, per_person="mean"), best[["Intercept", *NAMES]], atol=1e-6)
