"""Intervals that hold together: critical values of the largest t-ratio, and where they are used."""

import dataclasses
import math
import time

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import LineCollection
from scipy.stats import chi2, norm

from privreg.collector.inference import resampling as joint
from privreg.collector.inference.methods import Estimate
from privreg.collector.inference.pivots import Normal, RandomScaling, StudentT
from privreg.collector.inference.resampling import Anytime, Bootstrap, joint_critical
from privreg.errors import OptionError
from privreg.families import Poisson
from privreg.results.results import PrivateResults
from tests.helpers import NAMES, array_model

PIVOTS = [Normal(), StudentT(7), StudentT(31), RandomScaling(), RandomScaling(4), RandomScaling(16)]


def correlated(p, rho):
    return rho ** np.abs(np.subtract.outer(np.arange(p), np.arange(p)))


@dataclasses.dataclass(frozen=True)
class Other:
    """A pivot nobody knows how to draw from."""

    label: str = "other"

    def two_sided(self, t):
        return Normal().two_sided(t)

    def critical(self, alpha):
        return 3.0 / alpha


@pytest.fixture
def few_draws(monkeypatch):
    """Less accurate values in less time, which nobody else gets to see."""
    joint._simulated.cache_clear()
    monkeypatch.setattr(joint, "_SCALES", 1 << 11)
    yield
    joint._simulated.cache_clear()


# --- critical values -------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("pivot", PIVOTS, ids=lambda p: p.label)
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
@pytest.mark.usefixtures("few_draws")
def test_one_ratio_and_ratios_that_are_the_same_need_no_correction(pivot, alpha):
    assert joint_critical(pivot, np.eye(1), alpha) == pivot.critical(alpha)
    for same in (np.ones((3, 3)), np.array([[1.0, -1.0], [-1.0, 1.0]])):
        assert joint_critical(pivot, same, alpha) == pytest.approx(pivot.critical(alpha), rel=1e-4)


@pytest.mark.some(1)
@pytest.mark.parametrize("p", [2, 5, 10, 30])
@pytest.mark.parametrize("alpha", [0.01, 0.05, 0.2])
def test_independent_normals_match_the_closed_form(p, alpha):
    """Šidák: P(max > c) = 1 − (1 − P(|Z| > c))^p; the level is met within 0.1%, as promised."""
    c = joint_critical(Normal(), np.eye(p), alpha)
    assert 1 - (1 - 2 * norm.sf(c)) ** p == pytest.approx(alpha, abs=5e-4)
    assert c == pytest.approx(norm.isf((1 - (1 - alpha) ** (1 / p)) / 2), rel=2e-3)


@pytest.mark.thorough
def test_two_correlated_normals_match_the_bivariate_law():
    from scipy.stats import multivariate_normal

    for rho in (-0.8, 0.3, 0.95):
        r = np.array([[1.0, rho], [rho, 1.0]])
        c = joint_critical(Normal(), r, 0.05)
        box = multivariate_normal(cov=r).cdf([c, c], lower_limit=[-c, -c])
        assert 1 - box == pytest.approx(0.05, abs=5e-4)


def paths(pivot, root, runs, rng):
    """Largest t-ratio of simulated studies: lanes' means, or discretised Brownian paths, of correlated numbers."""
    p = len(root)
    if isinstance(pivot, Normal):
        return np.abs(rng.standard_normal((runs, p)) @ root.T).max(axis=1)
    if isinstance(pivot, StudentT):
        lanes = rng.standard_normal((runs, pivot.df + 1, p)) @ root.T
        return np.abs(lanes.mean(axis=1) / lanes.std(axis=1, ddof=1) * math.sqrt(pivot.df + 1)).max(axis=1)
    out, steps = [], 400
    grid = np.arange(1, steps + 1)[:, None] / steps
    for _ in range(runs):
        walks = (rng.standard_normal((pivot.lanes, steps, p)) @ root.T / math.sqrt(steps)).cumsum(axis=1)
        ends = walks[:, -1]
        bridges = walks - grid * ends[:, None, :]
        variance = (bridges**2).mean(axis=(0, 1))
        out.append(np.abs(ends.sum(axis=0) / math.sqrt(pivot.lanes) / np.sqrt(6 * variance)).max())
    return np.array(out)


@pytest.mark.statistical
@pytest.mark.parametrize("rho", [0.0, 0.8])
@pytest.mark.parametrize("pivot", [StudentT(7), RandomScaling(), RandomScaling(4)], ids=lambda p: p.label)
def test_levels_against_direct_simulation(pivot, rho):
    p, runs, alpha = 4, 3000, 0.1
    r = correlated(p, rho)
    found = paths(pivot, np.linalg.cholesky(r), runs, np.random.default_rng(5))
    share = (found > joint_critical(pivot, r, alpha)).mean()
    assert share == pytest.approx(alpha, abs=4 * math.sqrt(alpha * (1 - alpha) / runs))


@pytest.mark.statistical
@pytest.mark.parametrize("pivot", [StudentT(7), RandomScaling()], ids=lambda p: p.label)
@pytest.mark.usefixtures("few_draws")
def test_estimated_correlations_cost_half_a_point_of_coverage(pivot):
    """The law takes R as known; an estimate of it from 8 lanes, or from one path, makes 95% about 94.4% (p = 5)."""
    p, studies, terms, rng = 5, 60, 100, np.random.default_rng(3)
    known = joint_critical(pivot, np.eye(p), 0.05)
    lanes = np.full(7, 1 / 7)
    weights = 6 / (np.pi * np.arange(1, terms + 1)) ** 2 if pivot == RandomScaling() else lanes
    z = np.abs(rng.standard_normal((4000, p)))
    more = []
    for _ in range(studies):
        y = rng.standard_normal((len(weights), p))
        cov = (y * weights[:, None]).T @ y
        largest = (z / np.sqrt(np.diag(cov))).max(axis=1)
        more.append((largest > joint_critical(pivot, cov, 0.05)).mean() - (largest > known).mean())
    se = np.std(more) / math.sqrt(studies)
    assert -4 * se < np.mean(more) < 0.006 + 4 * se


@pytest.mark.some(1)
@pytest.mark.parametrize("pivot", PIVOTS, ids=lambda p: p.label)
@pytest.mark.usefixtures("few_draws")
def test_values_lie_between_one_by_one_and_bonferroni(pivot):
    found = [joint_critical(pivot, correlated(6, rho), 0.05) for rho in (0.0, 0.6, 0.95)]
    assert (np.diff(found) < 0).all()
    assert pivot.critical(0.05) < found[-1]
    assert found[0] < pivot.critical(0.05 / 6) < 1.01 * found[0]
    by_level = [joint_critical(pivot, correlated(6, 0.6), a) for a in (0.5, 0.05, 1e-4)]
    assert (np.diff(by_level) > 0).all()
    np.testing.assert_allclose(
        joint_critical(pivot, correlated(6, 0.6)[::-1, ::-1], 0.05), found[1], rtol=1e-2
    )  # in another order


@pytest.mark.statistical
def test_the_monte_carlo_error_of_the_level_is_below_a_thousandth(monkeypatch):
    r = correlated(10, 0.7)
    for pivot in (StudentT(7), RandomScaling()):
        found = []
        for seed in range(4):
            joint._simulated.cache_clear()
            monkeypatch.setattr(joint, "_SEED", seed)
            found.append(joint_critical(pivot, r, 0.05))
        joint._simulated.cache_clear()
        # the level is at least as flat in c as Bonferroni's
        slope = 10 * (pivot.two_sided(np.array([found[0] - 0.05])) - pivot.two_sided(np.array([found[0] + 0.05]))) / 0.1
        assert np.std(found) * slope[0] < 1e-3 / 2


@pytest.mark.thorough
def test_ten_coefficients_take_less_than_a_second_of_the_processor():
    for pivot in (StudentT(15), RandomScaling(), RandomScaling(32)):
        joint._simulated.cache_clear()
        begun = time.process_time()
        joint_critical(pivot, correlated(10, 0.5), 0.05)
        assert time.process_time() - begun < 2.0  # about 0.3 s on a quiet machine


def test_other_laws_and_bare_variances_get_bonferronis_value():
    assert joint_critical(Other(), np.eye(4), 0.1) == 120.0
    assert joint_critical(Other(), np.eye(1), 0.1) == 30.0
    assert joint_critical(RandomScaling(), np.ones(5), 0.05) == RandomScaling().critical(0.01)
    assert joint_critical(Normal(), np.full((3, 3), np.nan), 0.06) == Normal().critical(0.02)


@pytest.mark.some(1)
@pytest.mark.parametrize("studentised", [False, True])
def test_a_bootstrap_takes_the_largest_ratio_of_each_draw(fitted, studentised):
    rng = np.random.default_rng(2)
    moves = rng.standard_normal((60, 4)) @ np.linalg.cholesky(correlated(4, 0.6)).T * np.array([1.0, 2.0, 3.0, 4.0])
    law = Bootstrap(moves, studentised)
    c = joint_critical(law, moves.T @ moves, 0.1)
    draws = law._ratios()
    assert (draws.max(axis=1) > c).mean() == pytest.approx(0.1, abs=0.005)
    assert c > law.critical(0.1).max()
    # as for the normal law, up to the error of 500 draws and 60 blocks
    assert c == pytest.approx(joint_critical(Normal(), correlated(4, 0.6), 0.1), rel=0.15)
    estimate = Estimate("block_bootstrap", moves.T @ moves, law)
    res = PrivateResults(dataclasses.replace(fitted._fit, estimates=(estimate,)))
    half = np.diff(res.conf_int(0.1, simultaneous=True), axis=1).ravel() / 2
    np.testing.assert_allclose(half, c * res.bse)
    two = np.diff(res.conf_int(0.1, cols=["b", "c"], simultaneous=True), axis=1).ravel() / 2
    np.testing.assert_allclose(two, np.sort(draws[:, 2:].max(axis=1))[450] * res.bse.iloc[2:])
    alone = np.diff(res.conf_int(0.1, cols=["c", "a"]), axis=1).ravel() / 2
    np.testing.assert_allclose(alone, law.critical(0.1)[[3, 1]] * res.bse.iloc[[3, 1]])
    test = res.t_test(np.eye(4)[:2])
    np.testing.assert_allclose(
        np.diff(test.conf_int(0.1, simultaneous=True), axis=1).ravel() / 2 / test.sd,
        np.sort(draws[:, :2].max(axis=1))[450],  # 90% of 501 are 450.9: 451 draws lie below
    )
    dead = Bootstrap(np.column_stack([moves[:, 0], np.zeros(60)]), studentised)  # a ratio that is not defined
    assert dead.largest(0.1) == pytest.approx(dead.critical(0.1)[0])


def test_bounds_that_hold_at_all_times_get_bonferronis_value():
    assert joint_critical(Anytime(100_000), np.eye(5), 0.05) == Anytime(100_000).critical(0.01)


@pytest.mark.thorough
def test_a_coefficient_without_variance_takes_no_part():
    cov = np.zeros((3, 3))
    cov[:2, :2] = [[4.0, 2.4], [2.4, 9.0]]
    both = joint_critical(Normal(), cov[:2, :2], 0.05)
    assert both < joint_critical(Normal(), cov, 0.05) < Normal().critical(0.05 / 3)
    assert both == pytest.approx(joint_critical(Normal(), np.array([[1, 0.4], [0.4, 1]]), 0.05), rel=1e-12)


# --- results ---------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def fitted():
    return array_model(3000).fit(seed=1, progress=False, inference=("random_scaling", "between_lanes"))


@pytest.fixture(scope="module")
def known(fitted):
    """Results with a known covariance."""
    sd = np.array([1.0, 2.0, 3.0, 4.0])
    cov = correlated(4, 0.8) * np.outer(sd, sd)
    estimates = (Estimate("random_scaling", cov, Normal()), Estimate("between_lanes", sd**2, StudentT(7)))
    return PrivateResults(dataclasses.replace(fitted._fit, estimates=estimates)), cov


@pytest.mark.thorough
def test_intervals_of_all_coefficients(known):
    res, cov = known
    c = joint_critical(Normal(), cov, 0.1)
    want = np.column_stack([res.params - c * res.bse, res.params + c * res.bse])
    found = res.conf_int(0.1, simultaneous=True)
    np.testing.assert_allclose(found, want)
    table = res.tidy(alpha=0.1, simultaneous=True)
    np.testing.assert_allclose(table[["conf_low", "conf_high"]], want)
    alone = res.tidy(alpha=0.1)
    for column in ("estimate", "std_error", "statistic", "p_value"):
        pd.testing.assert_series_equal(table[column], alone[column])
    assert (table["conf_high"] > alone["conf_high"]).all()
    ratios = PrivateResults(dataclasses.replace(res._fit, family=Poisson(20)))
    expo = ratios.tidy(True, alpha=0.1, simultaneous=True)
    np.testing.assert_allclose(expo["conf_low"], np.exp(want[:, 0]))


@pytest.mark.thorough
def test_intervals_of_chosen_coefficients_hold_together(known):
    res, _ = known
    found = res.conf_int(cols=["c", "a"], simultaneous=True)
    assert list(found.index) == ["c", "a"]
    half = (found[1] - found[0]) / 2
    c = joint_critical(Normal(), np.array([[1, 0.64], [0.64, 1]]), 0.05)
    np.testing.assert_allclose(half, c * np.array([4.0, 2.0]))
    one = res.conf_int(cols=["b"], simultaneous=True)
    np.testing.assert_allclose(one, res.conf_int(cols=["b"]))
    assert res.conf_int(cols=[], simultaneous=True).empty
    pd.testing.assert_frame_equal(res.conf_int(cols=["c", -2]), res.conf_int().iloc[[3, 2]])


def test_methods_have_their_own_laws(known):
    res, _ = known
    half = np.diff(res.conf_int(method="between_lanes", simultaneous=True), axis=1).ravel() / 2
    np.testing.assert_allclose(half, StudentT(7).critical(0.0125) * np.array([1, 2, 3, 4]))  # only variances are known


@pytest.mark.thorough
def test_restrictions_tested_together(known):
    res, cov = known
    matrix = np.array([[0, 1, -1, 0], [0, 0, 1, -1.0]])
    test = res.t_test(matrix)
    joint_cov = matrix @ cov @ matrix.T
    np.testing.assert_allclose(test.cov, joint_cov)
    half = np.diff(test.conf_int(0.1, simultaneous=True), axis=1).ravel() / 2
    np.testing.assert_allclose(half, joint_critical(Normal(), joint_cov, 0.1) * test.sd)
    frame = test.summary_frame(0.1, simultaneous=True)
    np.testing.assert_allclose(frame.iloc[:, 4:6], test.conf_int(0.1, simultaneous=True))
    np.testing.assert_allclose(frame["P>|t|"], test.pvalue)
    np.testing.assert_allclose(test.conf_int(), test.conf_int(simultaneous=False))
    bare = dataclasses.replace(test, cov=None)
    assert (np.diff(bare.conf_int(simultaneous=True)) > np.diff(test.conf_int(simultaneous=True))).all()
    identity = res.t_test(np.eye(4))
    np.testing.assert_allclose(identity.conf_int(simultaneous=True), res.conf_int(simultaneous=True))
    single = res.t_test("a = b")
    np.testing.assert_allclose(single.conf_int(simultaneous=True), single.conf_int())


@pytest.mark.thorough
def test_intervals_of_a_fit(fitted):
    for method in fitted.methods:
        wide = fitted.conf_int(method=method, simultaneous=True).diff(axis=1)[1]
        alone = fitted.conf_int(method=method).diff(axis=1)[1]
        ratio = wide / alone
        np.testing.assert_allclose(ratio, ratio.iloc[0])
        assert 1.05 < ratio.iloc[0] < 2.0


@pytest.mark.thorough
def test_the_summary_says_so(fitted):
    text = " ".join(fitted.summary(0.1, simultaneous=True).as_text().split())
    c = joint_critical(fitted._estimate(None).pivot, fitted._estimate(None).cov, 0.1)
    assert f"the 4 intervals hold together, 90% critical value {c:.3f}" in text
    assert "hold together" not in fitted.summary().as_text()
    assert "hold together" in fitted.summary(simultaneous=True).as_html()
    low = fitted.tidy(simultaneous=True)["conf_low"]
    assert f"{low[0]:.3f}" in fitted.summary(simultaneous=True).as_latex().replace("$-$", "-")


@pytest.mark.thorough
def test_the_figure_says_so(known):
    res, _ = known
    for simultaneous in (False, True):
        ax = res.plot_coef(intercept=True, simultaneous=simultaneous)
        (lines,) = [c for c in ax.collections if isinstance(c, LineCollection) and len(c.get_segments()) == len(NAMES)]
        drawn = np.array([s[:, 0] for s in lines.get_segments()])
        np.testing.assert_allclose(drawn, res.conf_int(simultaneous=simultaneous))
        words = " ".join(" ".join(t.get_text() for t in ax.texts).split())
        assert ("95% simultaneous intervals" in words) == simultaneous
        plt.close(ax.figure)


@pytest.mark.parametrize("value", [1, None, "yes", np.True_])
def test_simultaneous_is_true_or_false(known, value):
    res, _ = known
    for call in (res.conf_int, res.tidy, res.t_test(np.eye(4)).conf_int, res.summary, res.plot_coef):
        with pytest.raises(OptionError, match=r"simultaneous=.* must be True or False"):
            call(simultaneous=value)


@pytest.mark.thorough
def test_the_command_line_takes_it(tmp_path, capsys):
    import json

    from privreg.cli.app import main

    rng = np.random.default_rng(0)
    data = pd.DataFrame({"x": rng.uniform(-1, 1, 3000), "z": rng.uniform(-1, 1, 3000)})
    data["y"] = (data["x"] + rng.normal(0, 0.3, 3000)).clip(-4, 4)
    data.to_csv(tmp_path / "d.csv", index=False)
    words = ["fit", "y ~ x + z", str(tmp_path / "d.csv"), "--mu", "1", "--bounds", "x=-1:1", "z=-1:1", "y=-4:4"]
    words += ["--seed", "1"]
    documents = []
    for more in ([], ["--simultaneous"]):
        assert main([*words, *more, "--out", str(tmp_path / "r.json"), "--out", str(tmp_path / "r.csv")]) == 0
        documents.append(json.loads((tmp_path / "r.json").read_text()))
        shown = " ".join(capsys.readouterr().out.split())
        assert ("the 3 intervals hold together, 95%" in shown) == bool(more)
        low = pd.read_csv(tmp_path / "r.csv")["conf_low"]
        np.testing.assert_allclose(low, [c["conf_low"] for c in documents[-1]["coefficients"]])
    alone, wide = documents
    assert (alone["simultaneous"], wide["simultaneous"]) == (False, True)
    assert all(
        w["conf_low"] < a["conf_low"] and w["estimate"] == a["estimate"]
        for a, w in zip(alone["coefficients"], wide["coefficients"], strict=True)
    )


@pytest.mark.thorough
def test_a_chi_square_region_is_wider_than_these_intervals():
    """The largest ratio exceeds c less often than the Wald ball's projection: a check of direction."""
    assert joint_critical(Normal(), correlated(5, 0.5), 0.05) < math.sqrt(chi2.isf(0.05, 5))
