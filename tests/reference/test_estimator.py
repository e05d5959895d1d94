"""The engine's default fit is what `docs/estimator.md` says: computed again, in plain NumPy, from the same reports."""

import ast
import importlib
import re
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import rounds as collector
from privreg.collector.estimation.estimate import estimate
from privreg.simulation.rounds import RoundsRun
from tests.documents.citations import ROOT
from tests.reference import estimator

N, MU = 60_000, 2.0
BOUNDS = {"a": (-4.0, 4.0), "b": (-1.0, 3.0), "y": (-8.0, 8.0)}
LEVELS = {"g": ["u", "v", "w"], "yes": ["no", "yes"]}
CODED = np.array([[-1.0, -1.0], [-1.0, 1.0], [1.0, -1.0]])  # 0 and 1 of two columns, within their bounds
MODELS = {"huber": "y ~ a + b", "logistic": "yes ~ a + b", "factor": "y ~ g + a"}
CLOSE = 1e-8
NOT_HERE = {
    "privreg.collector.covariates.whitening.LEAST_LEVEL",
    "privreg.collector.estimation.coordinates.INSIDE",
    "privreg.collector.estimation.coordinates.FULL",
    "privreg.collector.estimation.combination.WIDEST_THRESHOLD",
    "privreg.collector.estimation.curvature.FAR",
    "privreg.collector.estimation.curvature.STEADY",
    "privreg.collector.estimation.curvature.LEAST",
    "privreg.collector.estimation.reference.PRECISE",
    "privreg.fits.findings.BELIEVED",
    "privreg.fits.findings.LITTLE",
    "privreg.fits.findings.SHOWN",
}
"""Bounds and the like, which a tenth more of doesn't reach in these fits, and what only marks depend on."""


@pytest.fixture(scope="module")
def few_rounds():
    """Fits as users get them: offsets are stretched after four main rounds."""


@cache
def fitted(kind):
    """A default fit, its run, its states in order and its estimate inside."""
    rng = np.random.default_rng(3)
    x = pd.DataFrame(
        {"a": np.clip(rng.standard_normal(N), -4, 4), "b": np.clip(1 + 0.5 * rng.standard_normal(N), -1, 3)}
    )
    x["g"] = rng.choice(LEVELS["g"], N, p=[0.4, 0.35, 0.25])
    x["y"] = np.clip(1 + x.a - x.b + (x.g == "v") + 0.5 * rng.standard_normal(N), -8, 8)
    x["yes"] = np.where(rng.random(N) < 1 / (1 + np.exp(x.b / 2 - x.a)), "yes", "no")
    family = "logistic" if kind == "logistic" else "huber"
    runs, begun = [], RoundsRun.__init__

    def begin(self, *args, **more):
        begun(self, *args, **more)
        runs.append(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundsRun, "__init__", begin)
        model = pr.PrivateOnlineRegression.from_formula(
            MODELS[kind], x, family=family, bounds=BOUNDS, levels=LEVELS, mu=MU
        )
        res = model.fit(seed=11, progress=False)
    (run,) = runs
    progress, states = collector.begin(run.plan), []
    for reports in run.chain.batches:
        states.append(progress.state)
        progress = collector.advance(run.plan, progress, reports)
    return res, run, [*states, progress.state], estimate(run.plan, run.held().progress)


def reference(kind):
    """The same from the same reports."""
    _, run, states, _ = fitted(kind)
    reports = [*run.chain.batches, run.reports]
    rounds = [(s.number, s.role, r.weight, r.total) for s, r in zip(states, reports, strict=True)]
    columns = {"huber": ["a", "b", "y"], "logistic": ["a", "b"], "factor": ["a", "y"]}[kind]
    levels = CODED if kind == "factor" else None
    ends = np.array([*([(0.0, 1.0)] * 2 if kind == "factor" else []), *(BOUNDS[c] for c in columns)])
    return estimator.replayed(
        rounds, huber=kind != "logistic", n=N, mu=MU, middle=np.r_[0.0, ends.mean(axis=1)],
        half=np.r_[1.0, np.ptp(ends, axis=1) / 2], levels=levels,
    )  # fmt: skip


def off(kind):
    """Largest difference between the engine and the reference, relative to the largest entry of each array."""
    res, _, states, engine = fitted(kind)
    found, out = reference(kind), {}

    def compare(name, ours, theirs):
        size = float(np.max(np.abs(theirs))) or 1.0
        out[name] = max(out.get(name, 0.0), float(np.max(np.abs(ours - theirs))) / size)

    asked = [s for s in states if s.role in {"moments", "pilot", "main"}]
    for state, other in zip(asked, found.states, strict=True):
        if state.role == "moments":
            compare("rows", other.rows, state.rows)
            continue
        compare("theta", other.theta, state.theta)
        compare("c", np.array(other.c), np.array(state.c))
        compare("offsets", other.offsets + 1.0, state.offsets + 1.0)
    compare("curvature", found.m, engine.curvature.mean)
    compare("of curvature", found.m_cov, engine.curvature.cov)
    compare("estimate", found.theta, engine.theta)
    compare("covariance", found.cov, engine.cov)
    compare("params", found.params, res.params.to_numpy())
    compare("bse", np.sqrt(np.diag(found.user_cov)), res.bse.to_numpy())
    return out


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", MODELS)
def test_the_default_fit_is_the_references(kind):
    differences = off(kind)
    assert max(differences.values()) < CLOSE, differences


def constants():
    """The table of `docs/estimator.md`: names and values."""
    page = (ROOT / "docs" / "estimator.md").read_text("utf-8")
    return {
        name: ast.literal_eval(value) for name, value in re.findall(r"^\| `([\w.]+)` \| ([^|]+) \|", page, flags=re.M)
    }


def test_the_page_has_the_values_of_the_engine():
    assert len(constants()) > 30
    for name, value in constants().items():
        module, _, last = name.rpartition(".")
        assert getattr(importlib.import_module(module), last) == value, name


def more(value):
    """A tenth more, or one of a number that counts."""
    if isinstance(value, tuple):
        return tuple(map(more, value))
    return value + 1 if isinstance(value, int) else 1.1 * value


@pytest.mark.thorough
@pytest.mark.parametrize(
    "name", sorted(n for n in constants() if n.startswith("privreg.collector.") and n not in NOT_HERE)
)
def test_another_value_of_a_constant_is_noticed(name, monkeypatch):
    """The reference with it is not the engine's fit without it: by this the first test can fail."""
    for kind in MODELS:
        fitted(kind)
    monkeypatch.setattr(name, more(constants()[name]))
    assert any(max(off(kind).values()) > CLOSE for kind in ("factor", "logistic"))
