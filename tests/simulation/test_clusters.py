"""Clusters of people: all of one in one random group, intervals by how groups differ."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from privreg.collector.aggregate.estimate import _weights
from privreg.collector.inference import methods
from privreg.collector.inference.methods import dealt
from privreg.errors import InferenceError, SchemaError, StreamError
from privreg.simulation.devices import by_group
from privreg.simulation.streaming.encoding import Block

FIT = pr.PrivateOnlineRegression.from_formula
SCHOOLS = 60
HOW = {"bounds": {"x": (-4, 4), "y": (-9, 11)}, "levels": {"school": list(range(SCHOOLS))}, "cluster": "school"}
TRUST = pytest.mark.parametrize("trust", ["local", "two_collectors"])


def schools(seed: int, n: int = 6_000, m: int = SCHOOLS, tau: float = 0.3) -> pd.DataFrame:
    """People of schools of unequal sizes with levels and slopes of their own."""
    rng = np.random.default_rng(seed)
    size = rng.gamma(4.0, size=m)
    s = rng.choice(m, n, p=size / size.sum())
    x = np.clip(rng.normal(0, 0.5, m)[s] + rng.normal(0, 0.8, n), -4, 4)
    y = 1 + (0.5 + rng.normal(0, tau / 2, m)[s]) * x + rng.normal(0, tau, m)[s] + rng.normal(0, 1, n)
    return pd.DataFrame({"x": x, "y": y, "school": s, "person": np.arange(n)})


def model(data: object = None, **more: object) -> pr.PrivateOnlineRegression:
    return FIT("y ~ x", data, **{**HOW, "mu": 4, **more})


@pytest.mark.parametrize("seed", range(20))
def test_rounds_of_infinite_variance_have_no_weight_wherever_they_come(seed: int) -> None:
    rng = np.random.default_rng(seed)
    alone, far = rng.uniform(0.1, 5.0, 8), rng.normal(0.0, 1.0, (8, 3))
    out = np.full(8, np.inf), np.zeros((8, 3))
    at = np.sort(rng.choice(8, 5, replace=False))
    out[0][at], out[1][at] = alone[at], far[at]
    lacking = rng.uniform(0.0, 1.0, (2, 8))
    weights = _weights(*out, 1.3, lacking)
    np.testing.assert_allclose(weights[at], _weights(alone[at], far[at], 1.3, lacking[:, at]), atol=1e-12)
    assert weights.sum() == pytest.approx(weights[at].sum()) == pytest.approx(1.0)


def test_rounds_that_lack_scores_weigh_as_if_these_varied_and_none_lacks_more_than_the_last() -> None:
    """Weights are of least w'Mw, M with the product of what is lacking; without any they are as before."""
    rng = np.random.default_rng(3)
    alone, far, lacking = rng.uniform(0.1, 5.0, 4), rng.normal(0.0, 0.1, (4, 3)), np.array([0.9, 0.4, 0.1, 0.0])
    weights = _weights(alone, far, 1.3, lacking[None])
    both = np.diag(alone) + 0.5 * 1.3 * (1.0 + 1.0 / 3.0) * far @ far.T + np.outer(lacking, lacking)
    direct = np.maximum(np.linalg.solve(both, np.ones(4)), 0.0)
    np.testing.assert_allclose(weights, direct / direct.sum())
    assert weights @ lacking < _weights(alone, far, 1.3, np.zeros((1, 4))) @ lacking


# --- groups ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "groups"), [(16, 8), (61, 16), (2_000, 24)])
def test_clusters_are_dealt_evenly_and_each_to_one_group(m: int, groups: int) -> None:
    of = methods.dealt(m, groups)
    held = np.bincount(of, minlength=groups)
    assert held.max() - held.min() <= 1
    assert (of == methods.dealt(m, groups)).all()
    assert np.abs(np.corrcoef(np.arange(m), of)[0, 1]) < 4.0 / np.sqrt(m)


def test_equal_groups_have_the_variance_of_their_mean_and_one_degree_less() -> None:
    each = np.random.default_rng(1).standard_normal((8, 3))
    (found,) = methods.between_groups(each, np.full(8, 5.0), np.zeros((3, 3)))
    assert found.pivot.df == 7
    np.testing.assert_allclose(found.cov, np.cov(each.T) / 8, rtol=1e-12)


@pytest.mark.thorough
def test_the_variance_of_unequal_groups_is_unbiased_and_its_law_as_many_degrees() -> None:
    """Groups of variance 1/weight: mean and Satterthwaite's degrees of 20,000 draws, within 4 standard errors."""
    rng, weights, runs = np.random.default_rng(2), np.array([1.0, 1.0, 2.0, 4.0, 9.0, 1.0, 3.0, 2.0]), 20_000
    share = weights / weights.sum()
    draws, none = rng.standard_normal((runs, 8)) / np.sqrt(share), np.zeros((1, 1))
    found = [methods.between_groups(one[:, None], weights, none)[0] for one in draws]
    v = np.array([one.cov[0, 0] for one in found])
    assert abs(v.mean() - 1.0) < 4.0 * v.std() / np.sqrt(runs)
    df = 2.0 * v.mean() ** 2 / v.var()
    assert found[0].pivot.df == int(df + 0.2) < 7


def test_groups_are_filled_up_with_rows_of_no_weight() -> None:
    y = np.arange(7.0)
    group = np.array([2, 0, 2, 2, 0, 3, 2])
    rows = by_group(Block(y, y[:, None], None, None), group, 4)
    assert len(rows.y) == 16
    for g in range(4):
        real = rows.weight[4 * g : 4 * g + 4] > 0.0
        assert rows.y[4 * g : 4 * g + 4][real].tolist() == y[group == g].tolist()


# --- fits --------------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@TRUST
def test_a_fit_of_clusters_is_between_groups(trust: str, tmp_path: Path) -> None:
    data = schools(1, 12_000)
    res = model(data, trust=trust).fit(seed=1)
    assert res.nobs == len(data)
    assert "between" in str(res.summary())
    groups = 8 if trust == "local" else 24
    assert f"Clusters: 60 in {groups} random groups" in " ".join(str(res.summary()).split())
    assert "t distribution with" in str(res.summary())
    assert np.abs((res.params.to_numpy() - [1.0, 0.5]) / res.bse.to_numpy()).max() < 5.0
    assert any(note.code == "clusters" for note in res.privacy.notes)
    assert "60 clusters of people in" in " ".join(str(res.privacy).split())
    plain = FIT("y ~ x", data, bounds=HOW["bounds"], mu=4, trust=trust).fit(seed=1)
    assert res.bse.iloc[0] > 1.3 * plain.bse.iloc[0]
    res.save(tmp_path / "fit.privreg")
    pd.testing.assert_series_equal(pr.load(tmp_path / "fit.privreg").bse, res.bse)


def test_local_groups_hold_whole_clusters_and_everybody_counts_once() -> None:
    data = schools(2, 3_000)
    stream = model(rows=3_000).start(seed=2, rounds=10)
    stream.update(data.iloc[:1_700])
    stream.update(data.iloc[1_700:])
    stream.results()
    run = stream._run
    main = [s for s in run.held().progress.scored if s.state.role == "main"]
    held = np.sum([s.weight.sum(axis=0) for s in main], axis=0)
    first = 3_000 - round(held.sum())
    of = dealt(SCHOOLS, run.plan.groups)[data["school"].to_numpy()[first:]]
    assert held.tolist() == np.bincount(of, minlength=8).tolist()
    assert run.clustered.tolist() == np.bincount(data["school"], minlength=SCHOOLS).tolist()


def test_each_group_of_clusters_is_a_sum_with_noise_of_its_own_and_once() -> None:
    data = schools(3, 4_000)
    stream = model(rows=4_000, trust="two_collectors").start(seed=2)
    stream.update(data)
    stream.results()
    run = stream._run
    main = [b.people for b, p in zip(run.chain.batches, run.chain.history, strict=False) if p.state.role == "main"]
    assert len(main) == methods.summed_groups(SCHOOLS) == 24
    assert sum(b.people for b in run.chain.batches) == 4_000
    assert len({b.total[:3].tobytes() for b in run.chain.batches}) == len(run.chain.batches)
    before = stream.results().params
    with pytest.raises(StreamError, match="published once"):
        stream.update(data.iloc[:5])
    pd.testing.assert_series_equal(stream.results().params, before)  # what refuses rows breaks nothing


@pytest.mark.some(1)
@TRUST
def test_persons_with_several_rows_go_with_their_cluster(trust: str) -> None:
    data = pd.concat([schools(4, 3_000), schools(5, 3_000).assign(school=schools(4, 3_000)["school"])])
    res = model(data, trust=trust, id="person", k_max=2).fit(seed=3)
    assert res.nobs == 3_000
    assert np.isfinite(res.bse).all()


def test_a_cluster_that_is_not_declared_or_missing_tells_nothing() -> None:
    data = schools(6, 2_000)
    data.loc[:99, "school"] = 999
    stream = model(data.astype({"school": object}), rows=2_000).start(seed=1)
    seen = []
    stream._run.advance = lambda y, *_: seen.append(y.copy()) or len(y)
    stream.update(data)
    assert np.isnan(np.concatenate(seen)[:100]).all()
    assert np.isfinite(np.concatenate(seen)[100:]).all()
    with pytest.raises(SchemaError):
        model(data, missing="raise").fit(seed=1)


def test_notes_say_that_clusters_are_few_or_one_is_large() -> None:
    """Below 20 a group, and from a quarter of a group on; `lanes=` is named where it is an option."""
    assert methods.of_clusters([10] * 320, 16, lanes=True)[1] == ()
    few, less = (methods.of_clusters([10] * 319 + [0] * 9, 16, lanes=own)[1] for own in (True, False))
    assert (len(few), "lanes=8" in str(few[0]), "lanes=" in str(less[0])) == (1, True, False)
    assert methods.of_clusters([10] * 630 + [100], 16, lanes=True)[1] == ()  # 1 in 64
    assert ["2%" in str(note) for note in methods.of_clusters([10] * 630 + [101], 16, lanes=True)[1]] == [True]


@pytest.mark.statistical
@TRUST
@pytest.mark.parametrize("m", [20, 60])
def test_intervals_cover_the_mean_over_clusters(trust: str, m: int) -> None:
    """Of 95% intervals of 60 fits; exact binomial limits at one in 10,000."""
    hits, truth = np.zeros(2), np.array([1.0, 0.5])
    for k in range(60):
        data = schools(500 + k, 20_000, m)
        ci = model(data, trust=trust, levels={"school": list(range(m))}).fit(seed=k).conf_int().to_numpy()
        hits += (ci[:, 0] < truth) & (truth < ci[:, 1])
    assert (hits >= binom.ppf(1e-4, 60, 0.95)).all()


@pytest.mark.some(1)
@TRUST
def test_people_of_one_group_alone_have_no_intervals(trust: str) -> None:
    """All of one cluster, or of none that is declared, who count as people of the first and send noise."""
    for school in (0, 1_000):
        res = model(schools(1, 4_000).assign(school=school), trust=trust).fit(seed=1)
        assert np.isfinite(res.params).all()
        with pytest.raises(InferenceError):
            res.conf_int()


@TRUST
def test_windows_of_clusters_are_refused_as_their_errors_are_not_known(trust: str) -> None:
    """By the sandwich they were a seventh of those between groups, with schools as unlike as these."""
    res = model(schools(3, tau=0.6), trust=trust).fit(seed=1)
    with pytest.raises(InferenceError, match="without cluster="):
        res.windows(by=2_000)


def test_a_saved_stream_of_clusters_goes_on(tmp_path: Path) -> None:
    data = schools(2)
    stream = model(None, rows=len(data)).start(seed=1).update(data[:3_000])
    stream.save(tmp_path / "stream.privreg")
    res = pr.load(tmp_path / "stream.privreg").update(data[3_000:]).results()
    assert res.nobs == len(data)
    pd.testing.assert_series_equal(res.params, stream.update(data[3_000:]).results().params)
