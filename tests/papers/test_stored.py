"""What is stored of the papers' tables, and a replication of it made again."""

from dataclasses import replace

import pandas as pd
import pytest
from scipy.stats import binom

from benchmarks.papers import EXPERIMENTS
from benchmarks.papers.store import read_table

pytestmark = pytest.mark.reference


def test_stored_coverage_study_meets_its_limits():
    table = read_table("benchmarks/papers/results/xsjkh-table1.csv")
    table = table[(table.p == 3) & (table.rho == 0) & (table.replications == 200)]
    scaling = table[(table.setting == "stated") & (table.method == "random_scaling") & (table.n == 200_000)]
    assert sorted(scaling.mu.astype(str)) == ["1", "2", "none"]
    low, high = binom.ppf([0.0005, 0.9995], 800, 0.95) / 8
    assert scaling.coverage.between(low - 0.01, high + 0.01).all()
    plug_in = table[(table.setting == "stated") & table.method.str.startswith("plug_in") & (table.n == 200_000)]
    assert len(plug_in) == 6
    assert (plug_in.length_x100 / plug_in.asymptotic_x100 - 1).abs().max() < 0.05


def test_stored_insurance_study_meets_its_limits():
    found = read_table("benchmarks/papers/results/xsjkh-table3.csv").set_index(["tuning", "term"])
    assert (found.replications == 20).all()
    assert (found.failures == 0).all()
    assert found.loc[("published", "worst_error"), "median"] <= 0.09
    assert found.loc[("published", "test_mse"), "median"] <= 0.075
    assert found.loc[("efficient", "test_mse"), "median"] <= 1.01 * found.loc[("OLS", "test_mse"), "median"]


@pytest.mark.thorough
def test_insurance_under_published_tuning_on_one_permutation():
    cell = EXPERIMENTS["xsjkh-table3"].cells(False)[0]
    rows = pd.DataFrame(EXPERIMENTS["xsjkh-table3"].replicate(cell, 1)).drop_duplicates(["tuning", "term"])
    found = rows.set_index(["tuning", "term"]).estimate
    stored = read_table("benchmarks/papers/results/xsjkh-table3.csv").set_index(["tuning", "term"])
    for tuning in ("OLS", "published"):
        for term in ("test_mse", "smoker"):
            at = stored.loc[(tuning, term)]
            assert at.low - 1e-4 <= found[tuning, term] <= at.high + 1e-4
    assert found["efficient", "test_mse"] <= 1.05 * found["OLS", "test_mse"]


@pytest.mark.statistical
def test_coverage_of_random_scaling_in_the_published_design():
    by_name = {c.name: c for c in EXPERIMENTS["xsjkh-table1"].cells(False)}
    cell = replace(by_name["p3-rho0-mu1-stated"], sizes=(200_000,), passes=(("random_scaling",),))
    rows = [r for k in range(1001, 1051) for r in EXPERIMENTS["xsjkh-table1"].replicate(cell, k)]
    covered = sum(r["low"] <= r["truth"] <= r["high"] for r in rows)
    low, high = binom.ppf([0.0005, 0.9995], 200, 0.95)
    assert low <= covered <= high
