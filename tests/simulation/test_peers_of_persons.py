"""Reports of several rows beside statsmodels, linearmodels and pyfixest: without noise, and without score weights.

Front door, encoding, persons and reports are those of a fit with two collectors. Coordinates are so short that no score
weight binds; the sums, without noise, are solved and put into the user's units as a fit's are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.discrete.conditional_models import ConditionalLogit

import privreg as pr
from privreg.collector.aggregate import report, rounds
from privreg.fits.outcome import outside_of
from privreg.fits.plan import to_user
from tests.simulation.test_persons import model, panel

if TYPE_CHECKING:
    from collections.abc import Callable

TERMS = ["one", "two", "three", "x"]
SHORT = 1e-3  # Of the coordinates


class Noiseless(NamedTuple):
    params: np.ndarray
    bse: np.ndarray


def noiseless(data: pd.DataFrame, formula: str, **more: object) -> Noiseless:
    """Root and sandwich of the reports of all people, user's units."""
    made = model(None, formula, rows=data["person"].nunique(), **{"family": pr.Squared(), **more})
    stream, held = made.start(), []
    stream._run.advance = lambda *rows: held.append(rows) or len(rows[0])
    stream.update(data)
    (y, x, offset, weight), plan = (
        (None if c[0] is None else np.concatenate(c) for c in list(zip(*held, strict=True))[:4]),
        stream._run.plan,
    )
    state = rounds.begin(plan).state._replace(role="main", rows=SHORT * np.eye(plan.d), y_centre=0.0)
    for _ in range(12):
        total = report.vectors(plan, state, y, x, offset, None, weight).sum(axis=0)
        found, c = rounds.read(plan, state, total, len(y)), state.threshold(plan.rules)
        bread = np.linalg.inv(found.slope)
        state = state._replace(theta=state.theta - c * bread @ found.score)
    order, spec = stream._encoder.order, made._spec
    carry = to_user(spec, order) * SHORT
    cov = c**2 * carry @ bread @ found.square[: plan.d, : plan.d] @ bread @ carry.T / len(y)
    return Noiseless(outside_of(SHORT * state.theta, order, spec.units), np.sqrt(np.diag(cov)))


def columns(n: int = 1_000) -> pd.DataFrame:
    """Rows within the declared bounds, with indicators as other libraries want them."""
    data = panel(41, n)
    data = data.assign(x=data["x"].clip(-5, 5), y=data["y"].clip(-8, 9), one=1.0)
    return data.assign(two=(data["year"] == 2).astype(float), three=(data["year"] == 3).astype(float))


def differences(data: pd.DataFrame) -> pd.DataFrame:
    person = data["person"]
    return data.groupby("person")[["y", *TERMS[1:]]].diff().assign(person=person, w=1.0).dropna()


def deviations(data: pd.DataFrame) -> pd.DataFrame:
    names = ["y", *TERMS[1:]]
    less = data[names] - data.groupby("person")[names].transform("mean")
    return less.assign(person=data["person"], w=1.0)


def alike(data: pd.DataFrame) -> pd.DataFrame:
    return data.assign(w=1.0 / data.groupby("person")["x"].transform("size"))


CASES: list[tuple[str, dict[str, object], Callable[[pd.DataFrame], pd.DataFrame]]] = [
    ("", {"id": "person"}, lambda d: d.assign(w=1.0)),
    ("", {"id": "person", "per_person": "mean"}, alike),
    ("", {"id": "person", "weights": "w"}, lambda d: d),
    ("", {"id": "person", "k_max": 2}, lambda d: d[d.groupby("person").cumcount() < 2].assign(w=1.0)),
    (" | person", {}, deviations),
    (" | diff(person)", {}, differences),
]


@pytest.mark.some(1)
@pytest.mark.parametrize(("effect", "more", "rows"), CASES)
def test_sums_without_noise_are_least_squares_clustered_by_person(effect: str, more: dict, rows: Callable) -> None:
    """statsmodels' coefficients and cluster-robust standard errors, without its factor for few clusters."""
    data = columns()
    if more.get("k_max") == 2:
        data = data.assign(year=np.where(data["year"] == 3, 1, data["year"]), three=0.0)
        more = {**more, "levels": {"year": [1, 2]}}
    ours, flat = noiseless(data, f"y ~ C(year) + x{effect}", **more), rows(data)
    names = [t for t in TERMS if t in flat and (t == "one" or flat[t].any())]
    how = {"groups": flat["person"], "use_correction": False}
    best = sm.WLS(flat["y"], flat[names], weights=flat["w"]).fit(cov_type="cluster", cov_kwds=how)
    at = slice(int("|" in effect), None)
    np.testing.assert_allclose(ours.params[at], best.params, atol=1e-6)
    np.testing.assert_allclose(ours.bse[at], best.bse, atol=1e-6)
    if at.start:
        assert ours.params[0] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore:Dropped")  # people whose answers are the same tell nothing, in both
def test_conditional_logit_is_statsmodels_own() -> None:
    data = columns()
    data = data[data["year"] <= 2]
    ours = noiseless(data, "b ~ x + C(year) | person", family=pr.Logistic(), k_max=2, levels={"year": [1, 2]})
    best = ConditionalLogit(data["b"], data[["two", "x"]], groups=data["person"]).fit(
        method="newton", tol=1e-12, disp=0
    )
    np.testing.assert_allclose(ours.params[1:], best.params, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of that library
@pytest.mark.parametrize(
    ("effect", "name"),
    [("", "PooledOLS"), (" | person", "PanelOLS"), (" | diff(person)", "FirstDifferenceOLS")],
)
def test_sums_without_noise_are_those_of_linearmodels(effect: str, name: str) -> None:
    panels = pytest.importorskip("linearmodels.panel", reason="linearmodels is not installed")
    data = columns()
    ours = noiseless(data, f"y ~ C(year) + x{effect}", **({} if effect else {"id": "person"}))
    flat, names = data.set_index(["person", "year"]), TERMS if not effect else TERMS[1:]
    made = getattr(panels, name)(flat["y"], flat[names], **({"entity_effects": True} if name == "PanelOLS" else {}))
    who = {"clusters": data.set_index(["person", "year"])["y"] * 0 + data["person"].to_numpy()}
    how = who if name == "FirstDifferenceOLS" else {"cluster_entity": True}
    best = made.fit(cov_type="clustered", debiased=False, group_debias=False, **how)
    np.testing.assert_allclose(ours.params[-len(names) :], best.params, atol=1e-6)
    np.testing.assert_allclose(ours.bse[-len(names) :], best.std_errors, atol=1e-6)


@pytest.mark.filterwarnings("ignore")  # of that library
@pytest.mark.parametrize("effect", ["", " | person"])
def test_sums_without_noise_are_those_of_pyfixest(effect: str) -> None:
    fixest = pytest.importorskip("pyfixest", reason="pyfixest is not installed")
    data = columns()
    ours = noiseless(data, f"y ~ C(year) + x{effect}", **({} if effect else {"id": "person"}))
    none = fixest.ssc(k_adj=False, G_adj=False)
    best = fixest.feols(f"y ~ two + three + x{effect}", data, vcov={"CRV1": "person"}, ssc=none)
    k = len(best.coef())
    np.testing.assert_allclose(ours.params[-k:], best.coef(), atol=1e-6)
    np.testing.assert_allclose(ours.bse[-k:], best.se(), atol=1e-6)
