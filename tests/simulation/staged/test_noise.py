"""What every stage of a fit hands the kernels: fresh noise for everybody, of the scale that was stated."""

import math

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.diagonal import WIDE
from privreg.families.builtin import Expectile
from privreg.privacy.budget import Budget
from privreg.privacy.mechanisms import Gaussian
from privreg.protocol.plans import LanePlan
from privreg.simulation.staged import kernels

KERNELS = {"number_reports": (1, 2, 3), "location_reports": (3, 4, 5), "moment_reports": (2, 3, 4)}
"""Which argument is the noise, the channel, the radius."""

BOUNDS = {"a": (-4, 4), "y": (-9, 9)}
PREDICTOR = {"bounds": {"a": (-4, 4)}}
WAYS = {  # formula, options, numbers that tell the fit, columns without a scale
    "huber": ("y ~ a", {"bounds": BOUNDS}, 4, 0),
    "silent": ("y ~ a", {"bounds": BOUNDS}, 4, 0),
    "complete": ("y ~ a", {"bounds": BOUNDS, "missing": "raise"}, 3, 0),
    "further rows": ("y ~ a", {"bounds": BOUNDS, "missing": "raise", "id": "who"}, 4, 0),
    "private": ("y ~ a", {"scaling": "private"}, 4, 2),
    "logistic": ("b ~ a", {**PREDICTOR, "family": "logistic"}, 4, 0),
    "multinomial": ("g ~ a", {**PREDICTOR, "levels": {"g": [0, 1, 2]}, "family": "multinomial"}, 5, 0),
    "personal": ("y ~ a", {"bounds": BOUNDS, "mu": "m", "mu_max": 1}, 4, 0),
}
"""One of the numbers tells that there is something to tell, unless everybody has."""


def people(n=6000):
    rng = np.random.default_rng(1)
    a = rng.normal(size=n)
    y = 1 + a + 0.5 * rng.normal(size=n)
    coded = {"b": (y > 1) * 1, "g": np.digitize(y, [0.5, 1.5]), "m": np.where(a > 0, 1.0, 0.5), "who": np.arange(n)}
    return pd.DataFrame({"a": a, "y": y, **coded})


def watched(monkeypatch):
    """Calls of the kernels: name, weight of the number in joint reports, noise sd, noise."""
    calls = []

    def spied(name, z, c, r, real):
        def spy(*given):
            calls.append((name, 0.0, given[c].scale * given[r], np.array(given[z])))
            return real(*given)

        return spy

    for name, (z, c, r) in KERNELS.items():
        monkeypatch.setattr(kernels, name, spied(name, z, c, r, getattr(kernels, name)))
    lanes = kernels.run_lanes

    def spy_lanes(*given):
        plan = next(v for v in given if isinstance(v, LanePlan))
        calls.append(("run_lanes", plan.kappa, plan.channel.scale * plan.radius, np.array(given[8][: len(given[0])])))
        return lanes(*given)

    monkeypatch.setattr(kernels, "run_lanes", spy_lanes)
    return calls


@pytest.mark.parametrize("way", WAYS)
def test_every_stage_hands_the_kernels_fresh_noise_of_the_stated_scale(way, monkeypatch):
    formula, options, told, unscaled = WAYS[way]
    data, calls = people(), watched(monkeypatch)
    if way == "silent":
        data.loc[::3, "y"] = np.nan
    model = pr.PrivateOnlineRegression.from_formula(formula, data, **{"mu": 1, **options})
    model.fit(measures=0.2, progress=False, threads=1)
    sds = {
        "number_reports": math.sqrt(told),
        "location_reports": math.sqrt(2 * unscaled),
        "moment_reports": math.sqrt(2),
    }
    for name, kappa, sd, z in calls:
        assert sd == pytest.approx(math.hypot(2, kappa) if name == "run_lanes" else sds[name])
        assert (z != 0).all()
    held = {name for name, *_ in calls}
    assert held == {"number_reports", "moment_reports", "run_lanes"} | ({"location_reports"} if unscaled else set())
    for which in held:
        first = np.concatenate([z[:, 0] for name, _, _, z in calls if name == which])
        assert abs(first.std() - 1) < 6 / math.sqrt(2 * len(first))
        assert len(np.unique(first)) == len(first)
    every = np.concatenate([z.ravel() for *_, z in calls])
    assert len(np.unique(every)) == len(every)  # nor is any number used in two stages


def test_a_wide_fit_hands_the_kernels_noise_of_as_many_numbers_as_its_people_tell(monkeypatch):
    n, p = 4_000, WIDE + 8
    rng = np.random.default_rng(3)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, p - 1))])
    names = ["const", *(f"x{j}" for j in range(1, p))]
    bounds = {name: (-1, 1) for name in names[1:]} | {"y": (-9, 9)}
    y = x[:, 1] + rng.normal(size=n)
    calls = watched(monkeypatch)
    pr.PrivateOnlineRegression(y, x, exog_names=names, bounds=bounds, mu=2).fit(progress=False, threads=1)
    assert {z.shape[1] for name, *_, z in calls if name == "number_reports"} == {2 * (p - 1)}
    for name, kappa, sd, z in calls:
        assert sd == pytest.approx(math.hypot(2, kappa) / 2 if name == "run_lanes" else math.sqrt(z.shape[1]) / 2)
    assert {name for name, *_ in calls} == {"number_reports", "location_reports", "run_lanes"}
    every = np.concatenate([z.ravel() for *_, z in calls])
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize(
    ("family", "spread"), [(pr.Huber(c=1, scale=1), 2), (pr.Quantile(0.8), 1), (Expectile(0.3), 1)]
)
def test_the_published_report_of_one_variable_has_noise_of_its_range(family, spread):
    y = np.random.default_rng(2).normal(size=2_000)
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ 1", pd.DataFrame({"y": y}), mu=1, bounds={"y": (-5, 5)}, family=family
    )
    stream = model.start(tuning="published")
    plan, (low, high) = stream._run.plan, stream._settings.score.range
    assert plan.channel.scale * plan.radius == pytest.approx(high - low)
    corner = plan.c if family.name != "Quantile" else 1.0
    assert high - low == pytest.approx(spread * corner)
    assert stream._settings.noise_sd(1) == pytest.approx(high - low)


def test_a_big_factor_as_one_column_changes_nothing_about_the_noise(monkeypatch):
    n, levels = 6_000, list(range(WIDE + 30))
    rng = np.random.default_rng(4)
    data = pd.DataFrame({"g": rng.integers(0, len(levels), n), "x": rng.uniform(-1, 1, n), "y": rng.normal(size=n)})
    calls, seen, real = watched(monkeypatch), [], kernels.run_lanes

    def spy(*given):
        seen.append((given[0].shape[1], given[-1]))
        return real(*given)

    monkeypatch.setattr(kernels, "run_lanes", spy)
    given = {"bounds": {"x": (-1, 1), "y": (-9, 9)}, "levels": {"g": levels}, "mu": 2}
    pr.PrivateOnlineRegression.from_formula("y ~ C(g) + x", data, **given).fit(progress=False, threads=1)
    assert seen
    assert all(width == 3 and columns.tolist()[1] == [1, len(levels) - 1] for width, columns in seen)
    lanes = [(kappa, sd, z) for name, kappa, sd, z in calls if name == "run_lanes"]
    for kappa, sd, z in lanes:  # a number for every coefficient, whatever comes in
        assert z.shape[1] == len(levels) + 1 + (kappa > 0)
        assert sd == pytest.approx(math.hypot(2, kappa) / 2)
        assert (z != 0).all()
    every = np.concatenate([z.ravel() for *_, z in lanes])
    assert len(np.unique(every)) == len(every)


@pytest.mark.parametrize("kind", ["moments", "numbers", "location"])
def test_a_smaller_budget_of_ones_own_gets_more_noise(kind):
    """A report of weight w = (μ_i/μ_max)² has noise of 1/√w times the sd, before it is weighted by w."""
    mechanism = Gaussian(Budget.declare(mu=2))
    v, noise, weight = np.array([[0.6, 0.3]]), np.array([[0.7, -1.1, 0.4, 0.9]]), np.array([0.25])
    size = 3 if kind == "moments" else 2 if kind == "numbers" else 4
    channel, radius = mechanism.channel(size), 1.5
    sent = []
    for z in (noise, 0.0 * noise):
        total = np.zeros(size)
        if kind == "moments":
            kernels.moment_reports(v, np.eye(2), z[:, :3], channel, radius, weight, total, 0, 1)
        elif kind == "numbers":
            kernels.number_reports(v, z[:, :2], channel, radius, weight, total, 0, 1, np.zeros((0, 0)))
        else:
            guess = np.zeros(2), np.ones(2)
            kernels.location_reports(v, *guess, z, channel, radius, weight, total, 0, 1)
        sent.append(total)
    np.testing.assert_allclose(sent[0] - sent[1], 0.25 * (2.0 / 2.0) * radius / 0.5 * noise[0, :size], rtol=1e-12)
