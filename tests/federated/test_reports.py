"""Reports of silos: noise as large as the guarantee takes, audits of worst neighbours, published schemes caught."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from benchmarks import federated_schemes as schemes
from benchmarks.store import read_table
from privreg import Budget
from privreg.audit.neighbours import audit, verify
from privreg.errors import OptionError
from privreg.federated import UPDATE_MECHANISMS, update_mechanism
from privreg.privacy.scalar import share
from privreg.published.federated.reports import trials, worst_updates

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
MU, EPS = Budget.declare(mu=2), Budget.declare(epsilon=2)


def made(name, budget=MU, size=5, clip=0.7, **options):
    return update_mechanism(name, budget, size, clip, debias=False, **options)


def audited(mechanism, rounds=1, n=20_000, seed=1):
    return verify(trials(mechanism, rounds=rounds, seed=seed), claim=str(mechanism.budget), n=n, alpha=1e-6)


def test_gaussian_noise_is_twice_the_clip_over_mu():
    m = made("gaussian")
    n = 20_000
    noise = np.concatenate([m.randomise(np.zeros(5), z) for z in np.random.default_rng(0).standard_normal((n, 5))])
    low, high = chi2.ppf([5e-7, 1 - 5e-7], len(noise)) / len(noise)
    assert low < np.mean(noise**2) / (2 * 0.7 / 2) ** 2 < high


@pytest.mark.some(2)
@pytest.mark.parametrize("name", UPDATE_MECHANISMS)
@pytest.mark.parametrize("rounds", [1, 3])
def test_audit_is_within_the_claim(name, rounds):
    verdict = audited(made(name, share(MU, rounds)), rounds=rounds, n=3000)
    assert verdict.passed, str(verdict)


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["privunit", "laplace", "piecewise"])
def test_audit_of_pure_epsilon_is_within_the_claim(name):
    verdict = audited(made(name, EPS), n=4000)
    assert set(verdict.table["measure"]) == {"epsilon"}
    assert verdict.passed, str(verdict)


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "least"), [("gaussian", 1.7), ("geodp", 1.7), ("ldpvec", 1.7), ("privunit", 1.2)])
def test_audit_is_near_the_claim(name, least):
    """An audit that finds nothing would pass everything: worst neighbours are told apart nearly as well as claimed."""
    m = made(name)
    verdict = audited(m)
    assert least < verdict.lower <= verdict.claimed


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["gaussian", "geodp", "ldpvec", "privunit"])
def test_too_little_noise_is_caught(name):
    """Noise made for 1.3 μ under a claim of μ."""
    generous = made(name, Budget.declare(mu=2.6))
    verdict = audited(generous, seed=2)
    claim = made(name)
    claimed = claim.budget.epsilon if claim.budget.pure else claim.budget.mu
    assert verdict.lower > claimed


def test_worst_updates_are_within_the_clip_and_as_far_as_it_allows():
    for name in UPDATE_MECHANISMS:
        m = made(name)
        first, second = worst_updates(m)
        assert max(np.linalg.norm(first), np.linalg.norm(second)) <= 0.7 * (1 + 1e-12)
        if not m.geometric:
            assert np.linalg.norm(second - first) == pytest.approx(1.4)


# --- published schemes -----------------------------------------------------------------------------------


def lower(reports):
    return audit(*reports, alpha=1e-6, direction=np.ones(1)).lower


def test_noise_on_the_last_gradient_is_worth_its_steps_times_mu():
    rng = np.random.default_rng(1)
    reports = schemes.last_noise(0.5, 5, 1, 20_000, rng)
    assert 0.5 * 2 < lower(reports) <= 0.5 * 5  # accounted at 0.5, worth 2.5
    rounds = schemes.last_noise(0.2, 5, 4, 20_000, rng)
    assert 2 * 0.2 < lower(rounds) <= 0.2 * 5 * math.sqrt(4)
    assert lower(schemes.last_noise(0.5, 1, 1, 20_000, rng)) <= 0.5  # one step: the claim is right


def test_raw_magnitude_is_caught():
    assert lower(schemes.raw_magnitude(1.0, 5, 4000, np.random.default_rng(2))) > 4.0


def test_averaged_costs_are_caught():
    found = lower(schemes.averaged_costs(1.0, 5, 40_000, np.random.default_rng(3)))
    assert 1.0 < found <= math.sqrt(2)


def test_noise_over_the_batch_is_caught():
    assert 1.0 < lower(schemes.divided_by_batch(0.5, 5, 8, 20_000, np.random.default_rng(4))) <= 4.0


@pytest.mark.reference
def test_stored_audit_catches_what_is_published_and_nothing_else():
    table = read_table(RESULTS / "federated_audit.csv")
    published = table["scheme"].str.startswith("PUBLISHED")
    assert published.sum() == 4
    assert (table.loc[published, "verdict"] == "CAUGHT").all()
    assert (table.loc[published, "lower"] > table.loc[published, "claimed"]).all()
    assert (table.loc[~published, "lower"] <= table.loc[~published, "claimed"]).all()
    assert (table["lower"] <= table["true"]).all()


@pytest.mark.reference
def test_stored_attacks_stay_below_what_the_guarantee_allows():
    table = read_table(RESULTS / "federated_accuracy.csv")
    private = table[table["mechanism"] != "no noise"]
    assert set(private["data"]) == {"digits", "insurance"}
    assert (private["seeds"] == 20).all()
    assert (private["p_above_limit"] > 1e-6).all()
    assert (table.loc[table["mechanism"] == "no noise", "attack"] > 0.9).all()  # the attack finds what is there


# --- budgets and choices ---------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["gaussian", "privunit", "laplace", "piecewise"])
def test_means_are_the_update_and_mean_squares_as_stated(name):
    m = made(name, Budget.declare(mu=4), size=4)
    u = np.array([0.3, -0.2, 0.1, 0.4])
    n = 6_000
    reports = np.array([m.randomise(u, z) for z in np.random.default_rng(6).standard_normal((n, m.width))])
    mean, variance = m.moments(u)
    assert np.all(np.abs(reports.mean(axis=0) - u) < 6 * np.sqrt(variance / n))
    np.testing.assert_array_equal(mean, u)
    squares = np.sum((reports - u) ** 2, axis=1)
    assert abs(squares.mean() - m.mean_square(u)) < 6 * squares.std() / math.sqrt(n)


def test_coordinates_of_piecewise_share_the_budget():
    m = made("piecewise", Budget.declare(epsilon=20), size=6)
    assert m.coordinates > 1
    assert m.coordinates * m.number.budget.epsilon == pytest.approx(20)
    report = m.randomise(np.zeros(6), np.random.default_rng(7).standard_normal(m.width))
    assert np.count_nonzero(report) == m.coordinates


def test_auto_takes_the_least_noise():
    assert update_mechanism("auto", MU, 5, 1.0).name == "gaussian"
    pure = update_mechanism("auto", EPS, 50, 1.0)
    others = [made(n, EPS, size=50, clip=1.0) for n in ("privunit", "laplace", "piecewise")]
    assert pure.mean_square(np.zeros(50)) == min(m.mean_square(np.zeros(50)) for m in others)


@pytest.mark.parametrize("name", ["gaussian", "geodp", "ldpvec"])
def test_gaussian_noise_gives_no_pure_epsilon(name):
    with pytest.raises(OptionError, match="can't give pure epsilon=2; add delta="):
        made(name, EPS)


def test_unknown_mechanism():
    with pytest.raises(OptionError, match="mechanism='gauss' is not known; choose one of 'auto', 'gaussian'"):
        made("gauss")


def test_no_noise_no_change():
    m = made("gaussian", Budget.declare(mu=None))
    u = np.arange(5.0)
    np.testing.assert_array_equal(m.randomise(u, np.zeros(5)), u)


def test_repr_and_words_state_the_guarantee():
    assert repr(made("geodp")).startswith("GeoDP in its corrected form(2-GDP, per silo and round")
    assert "mu_dir" in made("geodp").words()
    assert "noise sd 0.7 = 2 × bound / mu" in made("gaussian").words()
    assert replace(made("gaussian"), budget=Budget.declare(mu=None)).words() == "no noise"
