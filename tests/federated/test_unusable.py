"""Records that a silo can't use: the share that it can goes with each update, inside the ball that is randomised."""

import math

import numpy as np
import pandas as pd
import pytest

from privreg.errors import ReliabilityWarning
from privreg.federated import FederatedRegression
from privreg.published.federated import plan as plans
from privreg.published.federated.client import Client, read_silo
from privreg.published.federated.reports import UpdateMechanism
from privreg.published.federated.results import _unusable

BOUNDS = {"a": (-1, 1)}


def silos(gone=0.4, count=40, n=20, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(count):
        a = rng.uniform(-1, 1, n)
        y = (rng.random(n) < 1 / (1 + np.exp(-a))).astype(int)
        out.append(pd.DataFrame({"a": np.where(rng.random(n) < gone, np.nan, a), "y": y}))
    return out


def model(data, **more):
    return FederatedRegression.from_formula("y ~ a", data, **{"mu": 8, "bounds": BOUNDS, "rounds": 5, **more})


def share_of(m, seed=1):
    """Share of unusable records that the server learns."""
    plan = m.plan
    clients = [Client(plan, *read_silo(plan, s, i), seed=seed, label=str(i)) for i, s in enumerate(m._sources)]
    state = plans.begin(plan)
    for _ in range(plan.rounds):
        state = plans.step(plan, state, [c.report(state.theta) for c in clients])
    return _unusable(plan, state)


@pytest.mark.parametrize("options", [{"clip": 0.3}, {"mechanism": "privunit"}, {"family": "squared"}, {"clip": 1e-3}])
def test_whatever_a_silo_holds_what_is_randomised_lies_in_the_ball_that_the_noise_is_for(options, monkeypatch):
    """Made-up silos at opposite ends, with all records usable and with none; the farthest are a diameter apart."""
    rng = np.random.default_rng(3)
    ends = [pd.DataFrame({"a": [v] * 9, "y": [w] * 9}) for v in (-1e9, 0.0, 1.0, np.nan) for w in (0, 1)]
    mixed = [pd.DataFrame({"a": rng.choice([1e300, -2.0, np.nan], 7), "y": rng.choice([0, 1, 7], 7)}) for _ in range(9)]
    bounds = {**BOUNDS, "y": (0, 1)} if "family" in options else BOUNDS
    m = model([*ends, *mixed, ends[0].iloc[:0]], step=50.0, bounds=bounds, **options)
    monkeypatch.setattr(UpdateMechanism, "randomise", lambda self, update, z: update)
    reach, raw = m.plan.mechanism.clip, []
    for theta in (np.zeros(2), np.array([5.0, -5.0]), np.array([-5.0, 5.0])):
        raw += [Client(m.plan, *read_silo(m.plan, s, 1)).report(theta) for s in m._sources]
    assert max(map(np.linalg.norm, raw)) <= reach * (1 + 1e-12)
    assert max(np.linalg.norm(a - b) for a in raw for b in raw) <= 2 * reach * (1 + 1e-12)
    assert m.plan.mechanism.clip == pytest.approx(math.hypot(m.plan.clip, m.plan.kappa / 2), rel=1e-12)
    assert {-m.plan.kappa / 2, m.plan.kappa / 2} <= {r[-1] for r in raw}


@pytest.mark.some(1)
@pytest.mark.parametrize("mechanism", ["gaussian", "privunit", "laplace", "piecewise", None])
@pytest.mark.parametrize("gone", [0.0, 0.6])
def test_the_share_is_learned_from_reports(mechanism, gone):
    data = silos(gone, 8)
    m = model(data, rounds=2, local_steps=1, **({"mu": None} if mechanism is None else {"mechanism": mechanism}))
    exact = np.mean([s["a"].isna().mean() for s in data])
    off = [(found.share - exact) / max(found.error, 1e-9) for found in (share_of(m, seed) for seed in range(12))]
    assert abs(np.mean(off)) < 4.5 / math.sqrt(12)
    assert mechanism is None or 0.2 < np.square(off).mean() < 2.9  # chi-square with 12 degrees, 10⁻³ on either side


@pytest.mark.thorough
def test_the_error_is_that_of_the_formula_and_the_price_3_percent():
    m = model(silos(), mu=2, mechanism="gaussian")
    assert share_of(m).error == pytest.approx(math.sqrt(17) / (2 * math.sqrt(40)), rel=1e-12)
    bare = model(silos(0.0), mu=2, mechanism="gaussian", missing="raise")
    assert bare.plan.kappa == 0.0
    assert m.plan.mechanism.radius / bare.plan.mechanism.radius == pytest.approx(math.sqrt(17 / 16), rel=1e-12)


def test_weights_weigh_shares_too():
    data = silos(0.0, 3)
    data[2] = data[2].assign(a="none")
    assert share_of(model(data, mu=None, weights=[1, 2, 5])).share == pytest.approx(5 / 8, abs=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize("mu", [8, None])
def test_a_fit_of_hardly_any_records_is_taken_back(mu):
    with pytest.warns(ReliabilityWarning, match="most records"):
        res = model(silos(0.97), mu=mu).fit(seed=1, progress=False)
    assert not res.tidy()["reliable"].any()
    assert dict(res._fit.title)["Unusable"].endswith("of a silo's records")
    assert "declared levels match the data" in " ".join(str(res.privacy).split())


def test_a_share_is_said_and_directions_tell_none():
    res = model(silos(0.4), clip=0.5, mu=None, rounds=60).fit(progress=False)
    notes = {n.code: n for n in res.privacy.notes}
    assert notes["unusable"].startswith("4")
    assert "nonresponse" not in notes
    full = model(silos(0.0), mu=None).fit(progress=False)
    assert "unusable" not in {n.code for n in full.privacy.notes}
    assert "share of usable records" in " ".join(str(res.privacy).split())
    for mechanism in ("geodp", "ldpvec"):
        m = model(silos(0.97), mechanism=mechanism, mu=30, rounds=2)
        assert m.plan.kappa == 0.0
        assert "share of usable" not in str(m.fit(seed=1, progress=False).privacy)
