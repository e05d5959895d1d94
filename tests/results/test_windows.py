"""Windows of a stream, from the same reports."""

import dataclasses
import math
import pickle

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

import privreg as pr
from privreg.collector.inference.methods import Estimate, Steps
from privreg.collector.inference.pivots import Normal
from privreg.errors import InferenceError, OptionError, ReliabilityWarning
from privreg.results import windows as numerics
from privreg.results.windows import Windows
from privreg.tables.diagnostics import doubt

BOUNDS = {"x": (-4, 4), "y": (-8, 8)}


def rows(n, slope=lambda t: 1.0, seed=0):
    rng = np.random.default_rng(seed)
    x, t = rng.standard_normal(n), np.arange(n) / n
    return pd.DataFrame({"y": 0.5 + slope(t) * x + 0.5 * rng.standard_normal(n), "x": x})


def stream(n=60_000, slope=lambda t: 1.0, seed=0, **how):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", None, bounds=BOUNDS, mu=1)
    run = model.start(seed=seed, **how)
    frame = rows(n, slope, seed)
    for a in range(0, n, 5_000):
        run.update(frame[a : a + 5_000])
    return run


@pytest.fixture(scope="module")
def steady():
    return stream().results()


def made(m=6, p=2, shared=0.0):
    rng = np.random.default_rng(1)
    weight, group = rng.uniform(1, 3, m), np.repeat([0, 1], m // 2)
    ends = np.cumsum(weight * 100)
    unknown = shared * rng.standard_normal((3, 2, p))
    return Steps(np.append(0.0, ends[:-1]), ends, weight, rng.standard_normal((m, p)), group, np.eye(p) * 2.0, unknown)


def test_windows_are_weighted_means_with_their_joint_covariance():
    steps, rng = made(shared=0.3), np.random.default_rng(0)
    weights = numerics.equal(steps, 500.0)
    found = numerics.windowed(steps, weights)
    noise = rng.standard_normal((20_000, 6, 2)) * np.sqrt(2.0 / steps.weight)[:, None]
    common = np.einsum("nr,rkp->nkp", rng.standard_normal((20_000, 3)), steps.unknown)[:, steps.group]
    each = noise + common
    draws = [np.average(each[:, w > 0], axis=1, weights=steps.weight[w > 0]) for w in weights]
    size = len(weights) * 2
    empirical = np.cov(np.concatenate(draws, axis=1).T)
    # sd of an entry: √((σ_ii σ_jj + σ_ij²)/20,000), at most √2 times the largest variance/√20,000; 5 of them
    assert np.abs(found.cov.reshape(size, size) - empirical).max() < 5 * math.sqrt(2 / 20_000) * empirical.max()
    for k, w in enumerate(weights):
        want = np.average(steps.estimate[w > 0], axis=0, weights=steps.weight[w > 0])
        np.testing.assert_allclose(found.estimate[k], want, rtol=1e-13)
    assert found.begin[0] == 0
    assert (found.begin[1:] == found.end[:-1]).all()


def test_forgetting_halves_weights():
    steps = made()
    weights = numerics.forgetting(steps, 300.0)[0]
    middle = 0.5 * (steps.begin + steps.ends)
    np.testing.assert_allclose(weights[1:] / weights[:-1], 2.0 ** (np.diff(middle) / 300.0), rtol=1e-12)


@pytest.mark.thorough
def test_no_change_has_a_uniform_p_value():
    steps, rng = made(), np.random.default_rng(3)
    weights = numerics.equal(steps, 400.0)
    p = []
    for _ in range(2000):
        noise = rng.standard_normal((6, 2)) * np.sqrt(2.0 / steps.weight)[:, None]
        p.append(numerics.change(numerics.windowed(steps._replace(estimate=noise), weights), [0, 1])[2])
    # Kolmogorov's distance has its 99.9% point at 1.95/√n
    assert np.abs(np.sort(p) - (np.arange(2000) + 0.5) / 2000).max() < 1.95 / math.sqrt(2000)


def test_one_window_of_all_is_about_the_estimate(steady):
    one = steady.windows(10**9)
    frame = one.frame
    assert frame["end"].tolist() == [60_000, 60_000]
    # pilot rounds are in the estimate alone: a few per cent of the reports
    assert (np.abs(frame["estimate"].to_numpy() - steady.params.to_numpy()) < 0.5 * steady.bse.to_numpy()).all()
    np.testing.assert_allclose(frame["std_error"], steady.bse, rtol=0.15)
    with pytest.raises(InferenceError, match="two windows or more"):
        one.test_change()


def test_windows_say_where_they_begin_late_as_the_fit_left_rounds_out(steady):
    whole = steady.windows(20_000)
    assert whole.unseen == ""
    whole.test_change()  # warns of nothing
    late = dataclasses.replace(whole, found=whole.found._replace(begin=whole.found.begin + 30_000))
    with pytest.warns(ReliabilityWarning, match="left out main rounds before record"):
        late.test_change()
    assert "left out main rounds before record" in " ".join(str(late).split())


@pytest.mark.thorough
def test_a_jump_is_seen_and_the_present_is_the_last_part():
    res = stream(slope=lambda t: np.where(t < 0.5, 1.0, 2.0)).results()
    found = res.windows(10_000)
    slopes = found.frame.iloc[1::2]
    early, late = slopes[slopes["end"] <= 30_000], slopes[slopes["begin"] >= 36_000]
    assert (np.abs(early["estimate"] - 1) < 4 * early["std_error"]).all()
    assert (np.abs(late["estimate"] - 2) < 4 * late["std_error"]).all()
    change = found.test_change()
    assert change.loc["x", "p_value"] < 1e-5
    assert list(change.index) == ["Intercept", "x", "all"]
    now = res.windows(forget=4_000).frame.iloc[1]
    assert abs(now["estimate"] - 2) < 4 * now["std_error"]
    assert "p = " in str(found)


def test_windows_are_saved_with_results(steady, tmp_path):
    steady.save(tmp_path / "r.privreg")
    again = pr.load(tmp_path / "r.privreg").windows(20_000)
    pd.testing.assert_frame_equal(again.frame, steady.windows(20_000).frame)


FACTS = {"moments": {"x": (0, 1), "y": (0, 1)}, "family": pr.Huber(1.345, scale=1)}


@pytest.mark.some(1)
@pytest.mark.parametrize("method", ["batch_means", "path_curvature", "plug_in"])
def test_windows_of_the_published_chain_are_means_of_its_iterates(method):
    frame = rows(20_000)
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", None, mu=1, **FACTS)

    def after(n):
        run = model.start(tuning="published", seed=2, inference=[method, "random_scaling"])
        run.update(frame[:n])
        return run.results()

    whole = after(20_000)
    found = whole.windows(20_000 / 4).frame
    begin, end = (np.asarray(found[c])[::2] for c in ("begin", "end"))
    assert end[-1] == 20_000
    assert 20_000 / 16 <= begin[0] <= 20_000 / 8  # the way from the start is in no window
    assert (begin[1:] == end[:-1]).all()
    if method == "plug_in":  # of whom some send curvature: records aren't updates
        return
    for k in (0, len(end) - 1):
        first, last = after(begin[k]).params, after(end[k]).params
        want = (end[k] * last - begin[k] * first) / (end[k] - begin[k])
        np.testing.assert_allclose(found["estimate"][2 * k : 2 * k + 2], want, rtol=1e-8)


@pytest.mark.parametrize(
    ("doubted", "used"),
    [((), "path_curvature"), (("path_curvature",), "plug_in"), (("path_curvature", "plug_in"), "batch_means"),
     (("path_curvature", "plug_in", "batch_means"), "path_curvature")],
)  # fmt: skip
def test_a_chains_windows_have_errors_by_the_best_method_that_can_be_relied_on(doubted, used):
    methods = ["batch_means", "random_scaling", "plug_in", "path_curvature"]
    notes = {m: (doubt("curvature", "hardly known"),) if m in doubted else () for m in methods}
    found = [Estimate(m, np.eye(1), Normal(), notes[m]) for m in methods]
    assert numerics.of_chain(found).method == used
    assert numerics.of_chain(found[1:2]) is None


def test_windows_of_a_chain_without_such_a_method_are_refused():
    alone = pr.PrivateOnlineRegression.from_formula("y ~ x", rows(2_000), mu=1, **FACTS)
    with pytest.raises(InferenceError, match="batch_means"):
        alone.fit(tuning="published", seed=2, inference="random_scaling", progress=False).windows(500)


@pytest.mark.statistical
def test_a_steady_chain_has_no_change():
    """With the way from the start in the first window this fails."""
    p, hits = [], []
    for seed in range(100):
        model = pr.PrivateOnlineRegression.from_formula("y ~ x", rows(20_000, seed=seed), mu=1, **FACTS)
        res = model.fit(tuning="published", seed=seed, inference="plug_in", progress=False)
        found = res.windows(5_000)
        p.append(found.test_change().loc["all", "p_value"])
        first = found.frame.iloc[:2]
        hits += list((first["conf_low"] <= [0.5, 1.0]) & (first["conf_high"] >= [0.5, 1.0]))
    assert sum(v < 0.05 for v in p) <= binom.ppf(0.9995, 100, 0.05)
    assert sum(hits) >= binom.ppf(0.0005, 200, 0.95)


def test_windows_have_the_marks_of_the_fit():
    note = doubt("few", "few records for this model", rows=[1])
    few = Windows(made_up().fit, made_up().found, 0.05, (note,))
    assert list(few.frame["reliable"]) == [True, False] * (len(few.frame) // 2)
    assert "† don't rely on the intervals: few records for this model." in " ".join(str(few).split())
    assert str(few).count("†") == 1 + len(few.frame) // 2
    with pytest.warns(ReliabilityWarning, match="windows of x: few records"):
        few.test_change()
    few.test_change("Intercept")  # warns of nothing
    with pytest.warns(ReliabilityWarning):
        res = pr.PrivateOnlineRegression.from_formula("y ~ x", rows(20_000), mu=0.05, bounds=BOUNDS).fit(
            seed=1, order="position"
        )
    windows = res.windows(10_000)
    assert not windows.frame["reliable"].any()


def made_up():
    return stream(30_000).results().windows(10_000)


def test_windows_are_of_all_records_where_budgets_differ():
    frame = rows(20_000).assign(m=np.random.default_rng(0).uniform(0.5, 2, 20_000))
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", frame, mu="m", mu_max=2, bounds=BOUNDS)
    res = model.fit(seed=1, order="position")
    assert res.windows(5_000).frame["end"].max() == 20_000


@pytest.mark.parametrize("order", [None, "random"])
def test_windows_of_records_in_random_order_are_refused(order, tmp_path):
    frame = rows(20_000, slope=lambda t: 1 + t)
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", frame, mu=1, bounds=BOUNDS)
    mixed = model.fit(seed=1, order=order)
    mixed.save(tmp_path / "r.privreg")
    for res in (mixed, pr.load(tmp_path / "r.privreg")):
        with pytest.raises(InferenceError, match=r"order='position'"):
            res.windows(5_000)
    kept = model.fit(seed=1, order="position").windows(5_000)
    assert kept.test_change().loc["x", "p_value"] < 1e-4


COLUMNS = {
    "a number": (1, ["x"]),
    "from the end": (-1, ["x"]),
    "numbers of numpy": (np.array([1]), ["x"]),
    "a name twice": (["x", "x"], ["x"]),
    "a name and its number": (["x", 1, -1], ["x"]),
    "none": ([], None),
    "unknown": ("z", None),
    "beyond": (2, None),
    "no number": (True, None),
    "no list": (3.5, None),
}


@pytest.mark.parametrize("case", COLUMNS)
def test_coefficients_are_named_as_elsewhere(steady, case):
    cols, names = COLUMNS[case]
    windows = steady.windows(20_000)
    if names is None:
        with pytest.raises(OptionError, match=r"Intercept'?, '?x"):
            windows.test_change(cols)
        with pytest.raises(OptionError, match=r"Intercept'?, '?x"):
            windows.plot(cols)
    else:
        assert list(windows.test_change(cols).index) == names


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({}, "got neither"),
        ({"by": 10, "forget": 10}, "got both"),
        ({"by": 0}, "by=0 must be a number of records"),
        ({"forget": "now"}, "forget='now' must be"),
    ],
)
def test_what_is_refused(steady, options, words):
    with pytest.raises(OptionError, match=words):
        steady.windows(**options)


def test_windows_are_drawn(steady):
    plt = pytest.importorskip("matplotlib.pyplot")
    axes = steady.windows(20_000).plot()
    assert [ax.get_ylabel() for ax in axes] == ["Intercept", "x"]
    assert len(axes[1].collections) == len(steady.windows(20_000).frame) // 2 + 1
    plt.close(axes[0].figure)


@pytest.mark.thorough
def test_windows_are_of_what_had_come_when_the_results_were_made():
    run = stream(30_000)
    held, stored = run.results(), pickle.loads(pickle.dumps(run.results()))  # what is stored is worked out
    run.update(rows(300, seed=1))
    run.results()  # which adds to the open round
    pd.testing.assert_frame_equal(held.windows(by=10_000).frame, stored.windows(by=10_000).frame)
