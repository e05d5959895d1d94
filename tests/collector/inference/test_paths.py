"""Inference from one pass, by every method there is: what sums mean, what fits say, and that nothing but people counts.

People from whom on `anytime` gives intervals are 30,000; where streams are compared bit for bit they are 300, so that
short ones have all the methods.
"""

import dataclasses
import functools
import math
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

import privreg as pr
from privreg.collector.inference.methods import METHODS
from privreg.collector.inference.pivots import StudentT
from privreg.collector.inference.resampling import Anytime, Bootstrap, batches
from privreg.errors import InferenceError
from privreg.published.chain.path import growing_batches, growing_edges, path_sandwich, regression
from privreg.results import saving
from privreg.results.results import PrivateResults
from privreg.tables.diagnostics import doubt
from tests.helpers import NAMES, array_model, people

RARE = 1e-6
EVERY = tuple(n for n in METHODS if n != "plug_in_central")
OF_CHAIN = tuple(m for m in EVERY if METHODS[m].tuning == "any")
SANDWICHES = ("sandwich", "plug_in", "path_curvature")
V = np.array([[2.0, 0.8], [0.8, 0.5]])


# --- batches -----------------------------------------------------------------------------------------------

WEIGHTS = np.array([400.5, 100, 100, 90.25, 50, 20, 10, 10, 5, 0.5])


def drawn(rng):
    """Sums over independent batches with means of variance V/weight."""
    z = rng.standard_normal((len(WEIGHTS), 2)) @ np.linalg.cholesky(V).T
    return z * np.sqrt(WEIGHTS)[:, None]


def found_in(sums, weights=WEIGHTS):
    return batches(sums, weights, sums.sum(axis=0) / weights.sum(), float(weights.sum()))


@pytest.mark.thorough
def test_batches_of_unequal_weight_are_unbiased():
    rng, runs, df = np.random.default_rng(8), 3000, len(WEIGHTS) - 1
    found = [found_in(drawn(rng)) for _ in range(runs)]
    assert {b.df for b in found} == {df}
    low, high = chi2.ppf([RARE / 2, 1 - RARE / 2], runs * df) / (runs * df)
    assert high < 1.05  # the limits are narrow: a bias of 5% would be seen
    for direction in np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [1.0, -2.0]]):
        # for normal sums each of these is χ² with df degrees of freedom over df, so their mean is too
        each = [direction @ b.cov @ direction * WEIGHTS.sum() / (direction @ V @ direction) for b in found]
        assert low <= np.mean(each) <= high


def test_moves_are_what_the_mean_moves_by_when_a_batch_counts_for_more():
    sums = drawn(np.random.default_rng(1))
    found, m = found_in(sums), len(WEIGHTS)
    extra = np.random.default_rng(2).uniform(-1, 1, m)
    mean = sums.sum(axis=0) / WEIGHTS.sum()
    moved = ((1.0 + extra) @ (sums - WEIGHTS[:, None] * mean)) / WEIGHTS.sum()
    np.testing.assert_allclose(extra @ found.moves, moved * math.sqrt(m / (m - 1)), rtol=1e-12)
    np.testing.assert_allclose(found.moves.sum(axis=0), 0.0, atol=1e-15)


@pytest.mark.thorough
@settings(max_examples=40, deadline=None)
@given(m=st.integers(2, 60), weight=st.floats(0.1, 1e6), seed=st.integers(0, 99))
def test_squares_of_equal_batches_moves_sum_to_the_variances(m, weight, seed):
    sums = np.random.default_rng(seed).standard_normal((m, 3))
    found = found_in(sums, np.full(m, weight))
    np.testing.assert_allclose((found.moves**2).sum(axis=0), np.diag(found.cov), rtol=1e-9)
    np.testing.assert_allclose(found.moves.T @ found.moves, found.cov, rtol=1e-6, atol=1e-12 / weight**2)


def test_a_batch_that_weighs_nothing_is_left_out():
    sums = drawn(np.random.default_rng(1))
    found = found_in(sums)
    with_empty = batches(
        np.insert(sums, 3, 1e-9, axis=0), np.insert(WEIGHTS, 3, 0.0), sums.sum(axis=0) / WEIGHTS.sum(), WEIGHTS.sum()
    )
    assert with_empty.df == found.df
    np.testing.assert_allclose(with_empty.cov, found.cov, rtol=1e-12)
    np.testing.assert_allclose(with_empty.moves, found.moves, rtol=1e-12)


def test_growing_batches_throw_the_first_away():
    rng, n = np.random.default_rng(5), 700
    path = rng.standard_normal((n, 2)).cumsum(axis=0) / 10
    ends = np.array(growing_edges(n, 6, 0.5))
    found = growing_batches(path.cumsum(axis=0)[ends - 1], ends, path.mean(axis=0))
    mean, cov = path.mean(axis=0), np.zeros((2, 2))
    for a, b in pairwise(ends):
        away = path[a:b].mean(axis=0) - mean
        cov += (b - a) * np.outer(away, away)
    assert found.df == 5
    np.testing.assert_allclose(found.cov, cov / 5 / n, rtol=1e-9)
    other = path.copy()
    other[: ends[0]] = rng.standard_normal((ends[0], 2)) * 50  # whatever the path did at first
    again = growing_batches(other.cumsum(axis=0)[ends - 1], ends, mean)
    np.testing.assert_allclose(again.cov, found.cov, rtol=1e-9)


@pytest.mark.parametrize("m", [0, 1])
def test_fewer_than_two_batches_are_refused(m):
    with pytest.raises(InferenceError, match=r"two batches of the path at least; more people"):
        batches(np.ones((m, 2)), np.ones(m), np.zeros(2), 5.0)
    with pytest.raises(InferenceError, match="two batches"):
        growing_batches(np.ones((m + 1, 2)), np.arange(m + 1) + 3, np.zeros(2))
    with pytest.raises(InferenceError, match="two batches"):
        batches(np.ones((3, 2)), np.array([0.0, 4.0, 0.0]), np.zeros(2), 5.0)


# --- curvature from the path -------------------------------------------------------------------------------

TURN = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
VALUES = np.array([0.5, 1.0, 2.0])
A = TURN @ np.diag(VALUES) @ TURN.T
ROOT = np.array([[2.0, 0, 0], [0.5, 1.5, 0], [0, 0.3, 1]])


@functools.cache
def recursions(n=1500, runs=300, shift=0.0):
    """Products of reports and iterates of θ ← θ − γ_k (A θ + noise), and Σγ."""
    rng = np.random.default_rng(3)
    theta, grams = np.zeros((runs, 3)), np.zeros((runs, 7, 7))
    gamma = 0.5 * np.arange(1, n + 1) ** -0.51
    for k in range(n):
        report = theta @ A + rng.standard_normal((runs, 3)) @ ROOT.T
        v = np.concatenate([report, theta - shift, np.ones((runs, 1))], axis=1)
        grams += v[:, :, None] * v[:, None, :]
        theta = theta - gamma[k] * report
    return grams, float(gamma.sum())


@pytest.mark.thorough
def test_the_path_shows_the_curvature_as_well_as_theory_says():
    grams, steps = recursions()
    found = [regression(g) for g in grams]
    slopes = np.array([slope for slope, _ in found])
    along = np.einsum("rij,ik,jk->rk", slopes, TURN, TURN)  # curvature along each of its own directions
    sd = np.sqrt(2.0 * VALUES / steps)
    ratio = along.std(axis=0) / sd
    assert ((ratio > 0.85) & (ratio < 1.35)).all()
    bias = (along.mean(axis=0) - VALUES) / (4.0 / steps)  # a relative bias of 4/(λ Σγ)
    assert ((bias > 0.5) & (bias < 2.0)).all()
    assert (np.abs(along - VALUES) < 5 * sd).mean() > 0.995
    np.testing.assert_allclose(slopes, slopes.transpose(0, 2, 1), atol=1e-12)
    np.testing.assert_allclose(np.mean([meat for _, meat in found], axis=0), ROOT @ ROOT.T, atol=0.1)


def test_the_reference_of_the_iterates_does_not_matter():
    plain, shifted = recursions(200, 3), recursions(200, 3, 7.0)
    for a, b in zip(plain[0], shifted[0], strict=True):
        for x, y in zip(regression(a), regression(b), strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-7, atol=1e-9)


def test_people_of_unequal_weight_show_the_same_curvature():
    rng = np.random.default_rng(2)
    away, weight = rng.standard_normal((40, 3)) + 2.0, rng.uniform(0.01, 3.0, (40, 1))
    v = weight * np.concatenate([away @ A + 0.7, away, np.ones((40, 1))], axis=1)
    found = regression(v.T @ v)
    np.testing.assert_allclose(found[0], A, rtol=1e-9)
    np.testing.assert_allclose(found[1], 0.0, atol=1e-11)


def test_a_path_that_has_not_moved_shows_no_curvature_and_its_intervals_are_taken_back():
    rng = np.random.default_rng(2)
    v = np.concatenate([rng.standard_normal((40, 2)), np.zeros((40, 2)), np.ones((40, 1))], axis=1)
    found = regression(v.T @ v)
    np.testing.assert_array_equal(found[0], 0.0)
    np.testing.assert_allclose(found[1], np.cov(v[:, :2].T, ddof=0), rtol=1e-9)
    notes = path_sandwich(*found, 40, 1e9, 0.2).notes
    assert len(notes) == 1
    assert notes[0].startswith("don't rely on the path-curvature intervals: 2 eigenvalue(s)")


def test_the_path_s_sandwich_is_the_sandwich():
    s = ROOT @ ROOT.T
    inverse = np.linalg.inv(A)
    np.testing.assert_allclose(path_sandwich(A, s, 500.0, 1e6, 1e-3).cov, inverse @ s @ inverse / 500)


@pytest.mark.parametrize(("weakest", "enough"), [(0.5, 64.0), (2.0, 16.0)])
def test_a_note_takes_back_what_the_path_is_unsure_of(weakest, enough):
    # the sd of a curvature a, relative to it, is √(2/(a Σγ)): a quarter at a Σγ = 32
    found = np.diag([weakest, 5.0]), np.eye(2)
    assert path_sandwich(*found, 100.0, 1.01 * enough, 1e-3).notes == ()
    (note,) = path_sandwich(*found, 100.0, 0.99 * enough, 1e-3).notes
    assert note.startswith("don't rely on the path-curvature intervals: with these steps")
    assert "to some 25% only" in note
    assert "use random_scaling" in note
    assert len(path_sandwich(*found, 100.0, 0.0, 1e-3).notes) == 1
    # with a curvature under the floor it is the floor that is believed
    low = path_sandwich(np.diag([-1.0, 5.0]), np.eye(2), 100.0, 1e4, 0.2)
    np.testing.assert_allclose(low.cov, np.diag([25.0, 0.04]) / 100)
    assert [n.startswith("don't rely on the path-curvature intervals: 1 eigenvalue(s)") for n in low.notes] == [True]


@pytest.mark.some(1)
@pytest.mark.parametrize("n", [6, 64, 65, 70, 130, 511, 512, 600, 1025, 3000, 5000])
def test_of_the_path_a_sixteenth_to_an_eighth_is_left_out_and_of_a_short_one_nothing(n):
    stream = array_model(5000).start(tuning="published", inference="path_curvature", seed=1)
    x, y = rows_of(5000)
    stream.update((y[:n], x[:n]))
    k, gram = stream._run.early(n)
    assert n / 16 <= k <= n / 8 if n >= 512 else k == 0
    assert gram[-1, -1] == pytest.approx(k)
    assert (stream.results().bse > 1e-4).all()


# --- bit for bit -------------------------------------------------------------------------------------------

N = 2000


@functools.cache
def rows_of(n=N):
    return people(n, 0)


@pytest.fixture
def anytime_from_300(monkeypatch):
    monkeypatch.setattr("privreg.fits.published.FIRST", 300)
    monkeypatch.setattr("privreg.results.results.FIRST", 300)


class Way(NamedTuple):
    how: dict
    options: dict = {}  # noqa: RUF012


WAYS = {
    "published": Way({"tuning": "published", "inference": OF_CHAIN, "batch_size": 3}, {"rows": N}),
    "published, one a batch": Way({"tuning": "published", "inference": OF_CHAIN}),
    "published, edges": Way({"tuning": "published", "inference": OF_CHAIN[:5], "batch_size": 4}, {"rows": N}),
    "published, not private": Way({"tuning": "published", "inference": OF_CHAIN}, {"rows": N, "mu": None}),
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)


def begin(way):
    case = WAYS[way]
    seed = None if case.options.get("mu", 1) is None else 4
    return array_model(N, **case.options).start(seed=seed, **case.how)


def part(a, b):
    x, y = rows_of()
    return y[a:b], x[a:b]


@functools.cache
def whole(way):
    return begin(way).update(part(0, N))


def assert_same(one, two):
    a, b = one._run.to_arrays(), two._run.to_arrays()
    assert a.keys() == b.keys()
    for k in a:
        assert (a[k].dtype, a[k].shape, a[k].tobytes()) == (b[k].dtype, b[k].shape, b[k].tobytes()), k
    assert_same_results(one.results(), two.results())


def assert_same_results(one, two):
    assert one.methods == two.methods
    for a, b in zip(one._fit.estimates, two._fit.estimates, strict=True):
        assert a.cov.tobytes() == b.cov.tobytes(), a.method
        assert type(a.pivot) is type(b.pivot)
        assert a.pivot.label == b.pivot.label
        assert a.notes == b.notes
        pd.testing.assert_frame_equal(one.tidy(method=a.method), two.tidy(method=a.method), check_exact=True)
    assert str(one.summary()) == str(two.summary())
    np.testing.assert_array_equal(one._fit.trail_variances, two._fit.trail_variances)
    pd.testing.assert_frame_equal(one.trajectory(), two.trajectory(), check_exact=True)


@pytest.mark.some(1)
@pytest.mark.usefixtures("anytime_from_300")
@EVERY_WAY
def test_fits_have_all_the_methods_that_were_asked_for(way):
    stream = whole(way)
    res = stream.results()
    assert res.methods == WAYS[way].how["inference"]
    assert stream._run.blocks.sums.shape[0] >= 4
    assert bool(stream._run.blocks.layout.edges) == ("rows" in WAYS[way].options)
    bands = res.trajectory().dropna()
    assert (bands["high"] > bands["low"]).all()
    assert len(bands) > 4
    for m in res.methods:
        assert (np.diff(res.conf_int(method=m)) > 0).all()


@pytest.mark.thorough
@pytest.mark.usefixtures("anytime_from_300")
@EVERY_WAY
@settings(max_examples=3, deadline=None)
@given(cuts=st.lists(st.integers(0, N), max_size=8), stop=st.integers(1, N - 1))
def test_chunks_and_a_save_in_the_middle_change_no_bit(tmp_path_factory, way, cuts, stop):
    path, stream = tmp_path_factory.mktemp("s") / "run.privreg", begin(way)
    for a, b in pairwise(sorted({0, N, stop, *cuts})):
        stream.update(part(a, b))
        if b == stop:
            stream.save(path)
            stream = pr.load(path)
    assert_same(stream, whole(way))


@pytest.mark.thorough
@pytest.mark.usefixtures("anytime_from_300")
def test_people_one_by_one_change_no_bit():
    way = "published, edges"
    stream = begin(way)
    for i in range(N):
        stream.update(part(i, i + 1))
    assert_same(stream, whole(way))


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.usefixtures("anytime_from_300")
@pytest.mark.parametrize("batch", [1, 4])
def test_sums_of_the_chain_are_those_of_its_path(batch):
    how = {"tuning": "published", "inference": ("batch_means", "block_bootstrap"), "batch_size": batch}
    stream = array_model(N, rows=N).start(seed=3, **how)
    run, path = stream._run, []
    x, y = rows_of()
    for i in range(0, N, batch):
        stream.update((y[i : i + batch], x[i : i + batch]))
        path.append(run.state.theta - run.state.origin)
    sums, updates = np.cumsum(path, axis=0), N // batch
    found = run.blocks
    assert found.layout.edges == growing_edges(updates, 20, 0.51)
    np.testing.assert_allclose(found.edge_sums, sums[np.array(found.layout.edges) - 1], rtol=1e-9)
    at = found.length * np.arange(1, len(found.sums) + 1)
    np.testing.assert_allclose(found.sums, sums[at - 1], rtol=1e-9)
    assert 16 <= len(at) < 32
    # and the variances reported are those of the published batches of the path
    ends, mean, res = found.layout.edges, sums[-1] / updates, stream.results()
    cov = sum(
        np.outer(d, d) / (b - a) for a, b in pairwise(ends) for d in [sums[b - 1] - sums[a - 1] - (b - a) * mean]
    ) / (len(ends) - 2)
    user = run.to_user @ cov @ run.to_user.T / updates
    np.testing.assert_allclose(res.cov_params("batch_means"), user, rtol=1e-8)
    assert res._fit.estimates[0].pivot == StudentT(len(ends) - 2)
    moves = np.diff(sums[at - 1], axis=0, prepend=0.0) - found.length * mean
    moves = moves @ run.to_user.T / updates * math.sqrt(len(at) / (len(at) - 1))
    np.testing.assert_allclose(res._fit.estimates[1].pivot.moves, moves, rtol=1e-7)


@pytest.mark.thorough
def test_batches_of_a_chain_of_unknown_length_are_about_the_published_ones():
    x, y = rows_of()
    for n in (100, 700, 1999):
        stream = array_model(N).start(tuning="published", inference="batch_means", seed=3).update((y[:n], x[:n]))
        res = stream.results()
        assert stream._run.blocks.layout.edges == ()
        assert 5 <= res._fit.estimates[0].pivot.df <= 19
        length, m = stream._run.blocks.length, len(stream._run.blocks.sums)
        # no more of the end is left out than one block
        assert length * m <= n < length * (m + 1)
        known = array_model(N, rows=n).start(tuning="published", inference="batch_means", seed=3)
        known = known.update((y[:n], x[:n])).results()
        np.testing.assert_array_equal(known.params, res.params)
        ratio = res.bse / known.bse
        assert ((ratio > 0.5) & (ratio < 2)).all()


# --- one pass, every method --------------------------------------------------------------------------------

MANY = 60_000
CASES = [*(("efficient", m) for m in EVERY), *(("published", m) for m in OF_CHAIN), ("central", "plug_in_central")]
EVERY_CASE = pytest.mark.parametrize(("tuning", "method"), CASES)
DOUBTED = (0.2, 10.0)
"""How long path-curvature intervals may be, relative to others, where the fit warns of them: a small curvature is
believed no further than to a fifth of what was expected, and the others are a quarter off themselves."""


def one_pass(tuning, inference):
    how = {"tuning": "published", "step": 2.0, "seed": 1}  # with steps that forget where they began
    if tuning == "efficient":
        how = {"seed": 11}
    return array_model(MANY, 2).fit(inference=inference, progress=False, **how)


@functools.cache
def fitted(tuning):
    names = {"efficient": EVERY, "published": OF_CHAIN, "central": ("random_scaling", "plug_in_central")}
    return one_pass(tuning, names[tuning])


@pytest.mark.some(1)
@EVERY_CASE
def test_intervals_of_all_methods_are_about_as_long(tuning, method):
    res = fitted(tuning)
    assert method in res.methods
    assert list(res.params.index) == NAMES
    reference = np.diff(res.conf_int(method="sandwich" if tuning == "efficient" else "random_scaling"))
    ratio = np.diff(res.conf_int(method=method)) / reference
    # random scaling of one chain is 1.36 times as long as it need be, on average
    doubted = method == "path_curvature" and any("the path-curvature" in n for n in res._doubts(method))
    low, high = DOUBTED if doubted else (0.45, 2.0)
    if tuning == "efficient" and "scaling" in method:
        low, high = 0.46, 3.7  # 6.75/1.96 times the root of ∫ bridge², its 0.1% and 99.9% points
    assert ((ratio > low) & (ratio < high)).all()
    truth = np.array([0.5, 1.0, -1.0, 0.25])
    found = res.conf_int(1e-4 if method != "plug_in" else 0.002, method=method)
    assert ((found[0] < truth) & (truth < found[1])).all()


@pytest.mark.some(1)
@EVERY_CASE
def test_a_method_alone_says_what_it_says_among_others(tuning, method):
    among = fitted(tuning)
    if tuning == "published" and method != "plug_in":  # which takes people for curvature: others come from all
        among = one_pass(tuning, tuple(m for m in OF_CHAIN if m != "plug_in"))
    alone = one_pass(tuning, method)
    assert alone.methods == (method,)
    np.testing.assert_array_equal(alone.params, among.params)
    pd.testing.assert_frame_equal(alone.tidy(), among.tidy(method=method), rtol=1e-9)
    np.testing.assert_allclose(alone.cov_params(), among.cov_params(method), rtol=1e-9, atol=1e-12)
    assert alone._fit.estimates[0].pivot.label == next(
        e.pivot.label for e in among._fit.estimates if e.method == method
    )


def test_bootstraps_count_what_is_not_known_of_the_curvature_as_batch_means_do():
    res = fitted("efficient")
    for method in ("block_bootstrap", "block_bootstrap_t"):
        np.testing.assert_array_equal(res.cov_params(method), res.cov_params("batch_means"))


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore:alpha=.* gives:privreg.errors.PrivregWarning")  # of levels above 0.5
@EVERY_CASE
def test_p_values_of_fits_agree_with_their_intervals_at_any_level(tuning, method):
    res, rng = fitted(tuning), np.random.default_rng(3)
    for alpha in (0.05, *rng.uniform(0.002, 0.99, 12)):
        around = res.params + rng.standard_normal(4) * 3 * np.sqrt(np.diag(res.cov_params(method)))
        test = res.t_test((np.eye(4), around.to_numpy()), method=method)
        low, high = test.conf_int(alpha).T
        np.testing.assert_array_equal(test.pvalue < alpha, (around < low) | (around > high))
        np.testing.assert_allclose(test.conf_int(alpha), res.conf_int(alpha, method=method), rtol=1e-9)


@pytest.mark.some(3)
@EVERY_CASE
def test_every_test_and_prediction_works_with_every_method(tuning, method):
    res = fitted(tuning)
    table = res.tidy(method=method)
    frame = res.t_test("a = 0, b = 0", method=method).summary_frame()
    np.testing.assert_allclose(frame["P>|t|"], table["p_value"][1:3])
    one = res.wald_test("a - 4 * c = 0", method=method)
    assert one.pvalue == pytest.approx(float(res.t_test("a - 4 * c = 0", method=method).pvalue[0]), rel=1e-6)
    if method == "anytime":
        with pytest.raises(InferenceError, match="no joint test of several restrictions"):
            res.wald_test("a = 1, b = -1", method=method)
    else:
        true, false = (res.wald_test(r, method=method).pvalue for r in ("a = 1, b = -1", "a = 1, b = 1"))
        assert 0.001 < true <= 1.0
        assert false < 0.005
    pred = res.get_prediction(np.array([[1.0, 0, 0, 0], [1, 1, -1, 0.5], [1, 0.1, 0.1, 0]]), method=method)
    np.testing.assert_allclose(pred.conf_int(0.1)[0], res.conf_int(0.1, method=method).loc["const"], rtol=1e-9)
    contrast = res.t_test(np.array([[1, 1, -1, 0.5]]), method=method)
    np.testing.assert_allclose(pred.conf_int(0.1)[1:2], contrast.conf_int(0.1), rtol=1e-9)
    assert METHODS[method].title.partition(" (")[0] in str(res.summary(method=method))


@pytest.mark.thorough
@pytest.mark.parametrize("tuning", ["efficient", "published", "central"])
def test_saved_results_keep_every_interval(tuning, tmp_path):
    res = fitted(tuning)
    res.save(tmp_path / "fit.privreg")
    again = pr.load(tmp_path / "fit.privreg")
    assert_same_results(res, again)
    for a, b in zip(res._fit.estimates, again._fit.estimates, strict=True):
        if isinstance(a.pivot, Bootstrap):
            assert a.pivot.moves.tobytes() == b.pivot.moves.tobytes()
            assert a.pivot.studentised == b.pivot.studentised == (a.method == "block_bootstrap_t")
        else:
            assert a.pivot == b.pivot


@pytest.mark.parametrize(
    ("pivot", "moves"),
    [
        (["bootstrap", 1], None),
        (["bootstrap", 3], np.ones((5, 4))),
        (["bootstrap", 1], np.ones((5, 3))),
        (["bootstrap", 1], np.ones((1, 4))),
        (["bootstrap", 2], np.ones(4)),
        (["bootstrap", 1], np.ones((5, 4), dtype=int)),
        (["anytime", 0], None),
        (["anytime", 1.5], None),
    ],
)
def test_saved_laws_that_make_no_sense_are_refused(pivot, moves):
    res = fitted("efficient")
    document, arrays = saving.parts(res._fit)
    at = res.methods.index("block_bootstrap")
    saving.restored(document, arrays, res._fit.design, res.family)
    document["estimates"][at]["pivot"] = pivot
    arrays = {k: v for k, v in arrays.items() if k != f"moves_{at}"} | ({} if moves is None else {f"moves_{at}": moves})
    with pytest.raises(ValueError, match=r"saved parts don't fit each other"):
        saving.restored(document, arrays, res._fit.design, res.family)


@pytest.mark.parametrize("tuning", ["efficient", "published"])
def test_bands_of_anytime_hold_from_30_000_people_on_and_end_with_its_intervals(tuning):
    res = fitted(tuning)
    bands = res.trajectory(0.1)
    senders = np.repeat(res._fit.trail_senders, 4)
    np.testing.assert_array_equal(bands["low"].isna(), senders < 30_000)
    assert (senders >= 30_000).sum() >= 8  # two numbers of people
    end = bands[bands["n"] == bands["n"].max()].set_index("term")
    np.testing.assert_allclose(end[["low", "high"]], res.conf_int(0.1, method="anytime"), rtol=1e-7)
    at = bands.dropna().iloc[0]
    k = int(np.flatnonzero(~bands["low"].isna())[0])
    se = math.sqrt(res._fit.trail_variances.reshape(-1)[k])
    assert at["high"] - at["estimate"] == pytest.approx(Anytime(int(senders[k])).critical(0.1) * se, rel=1e-9)


@pytest.mark.thorough
def test_a_method_that_was_not_asked_for_says_how_to_ask():
    default, published = (array_model().fit(tuning=t, progress=False) for t in ("efficient", "published"))
    for method in EVERY[1:]:
        with pytest.raises(InferenceError) as caught:
            default.conf_int(method=method)
        assert str(caught.value).startswith(f"this fit has no {method!r}; it has sandwich. Ask for it with fit(")
        assert str(caught.value).endswith(f"inference=('sandwich', {method!r})).")
    with pytest.raises(InferenceError, match=r"fit\(tuning='efficient', inference=\('random_scaling', 'between_lanes'"):
        published.conf_int(method="between_lanes")
    with pytest.raises(InferenceError, match=r"fit\(inference=\('random_scaling', 'anytime'\)\)"):
        published.t_test("a = 0", method="anytime")


# --- fits that are too short for a method ------------------------------------------------------------------


def test_a_fit_too_short_for_anytime_has_the_others_and_says_so():
    res = array_model(3000).fit(inference=("batch_means", "anytime"), seed=1, progress=False)
    assert res.methods == ("batch_means",)
    (note,) = (n for n in res.privacy.notes if n.startswith("no intervals yet"))
    senders = f"{res._fit.senders:,}"
    words = f"by anytime: they begin at 30,000 people whose reports enter the estimate, and {senders} have"
    assert note == f"no intervals yet {words}"
    with pytest.raises(InferenceError) as caught:
        res.conf_int(method="anytime")
    assert str(caught.value) == f"{note}; update the stream by more, or use 'batch_means'."
    assert res.conf_int(method="batch_means").notna().all(axis=None)
    assert res.trajectory()["low"].isna().all()
    alone = array_model(3000).fit(inference="anytime", seed=1, progress=False)
    assert alone.methods == ()
    with pytest.raises(InferenceError) as caught:
        _ = alone.bse
    assert str(caught.value) == f"{note}; update the stream by more."


def test_a_published_fit_too_short_for_anytime_is_refused():
    with pytest.raises(InferenceError) as caught:
        array_model(3000).fit(tuning="published", inference=("random_scaling", "anytime"), progress=False)
    assert str(caught.value) == (
        "anytime intervals begin at 30,000 people, and 3,000 will come; use inference='random_scaling', or ask more "
        "people."
    )
    stream = array_model(3000).start(tuning="published", inference="anytime").update(people(3000)[::-1])
    with pytest.raises(InferenceError, match="whose reports enter the estimate, and 3,000 have"):
        stream.results()


@pytest.mark.thorough
def test_results_may_be_asked_for_as_soon_as_main_rounds_begin():
    x, y = rows_of()
    stream, seen, refused = array_model(N, rows=N).start(inference=EVERY, seed=1), [], 0
    for at in range(0, N, 80):
        stream.update((y[at : at + 80], x[at : at + 80]))
        if stream._run.progress.fitted is None:
            with pytest.raises(InferenceError, match="set the scales"):
                stream.results()
            refused += 1
            continue
        res = stream.results()
        early = [n for n in res.privacy.notes if n.startswith("no intervals yet")]
        seen.append(res.methods)
        assert len(early) == 1
        assert set(res.methods) in (set(), set(EVERY) - {"anytime"})
        assert ("by anytime: they begin at" in early[0]) == bool(res.methods)
        for m in res.methods:
            assert np.isfinite(res.cov_params(m)).all(axis=None)
    assert refused
    assert seen[0] == ()
    assert seen[-1]


# --- what takes intervals back -----------------------------------------------------------------------------


@pytest.mark.thorough
def test_a_doubt_about_one_method_is_shown_with_that_method_only():
    res = fitted("efficient")
    assert res._doubts("sandwich") == ()
    at = res.methods.index("path_curvature")
    note = doubt("curvature", "it is known to some 40% only", of="the path-curvature intervals")
    estimates = [dataclasses.replace(e, notes=(note,) if i == at else ()) for i, e in enumerate(res._fit.estimates)]
    others = tuple(n for n in res.privacy.notes if "path-curvature" not in n)
    statement = dataclasses.replace(res.privacy, notes=(*others, note))
    doubted = PrivateResults(dataclasses.replace(res._fit, estimates=tuple(estimates), statement=statement))
    for method in EVERY:
        shown = method == "path_curvature"
        assert doubted._doubts(method) == ((note,) if shown else ())
        assert ("DON'T RELY ON THE INTERVALS" in str(doubted.summary(method=method))) == shown
        assert ("don't rely" in str(doubted.t_test("a = 0", method=method))) == shown
        assert ("don't rely" in str(doubted.wald_test("a = 0", method=method))) == shown
        assert note.partition(":")[0] in " ".join(str(doubted.summary(method=method)).split())  # among the notes
    # a doubt about all of them is shown with all
    common = doubt("few", "too few people")
    statement = dataclasses.replace(statement, notes=(*statement.notes, common))
    doubted = PrivateResults(dataclasses.replace(doubted._fit, statement=statement))
    assert doubted._doubts("random_scaling") == (common,)
    assert doubted._doubts("path_curvature") == (note, common)


# --- every family ------------------------------------------------------------------------------------------


class Kind(NamedTuple):
    family: object
    response: str
    formula: str = "{} ~ a + b"
    options: dict = {}  # noqa: RUF012


KINDS = {
    "huber": Kind(pr.Huber(), "y"),
    "quantile": Kind(pr.Quantile(0.7), "y"),
    "expectile": Kind(pr.families.Expectile(0.6), "y"),
    "squared": Kind(pr.families.Squared(), "y"),
    "logistic": Kind(pr.Logistic(), "h"),
    "hinge": Kind(pr.families.Hinge(), "h"),
    "smoothed hinge": Kind(pr.families.SmoothedHinge(0.5), "h"),
    "poisson": Kind(pr.families.Poisson(20), "k"),
    "multinomial": Kind(pr.Multinomial(), "g"),
    "labels": Kind(pr.Logistic(), "h", options={"private": "response"}),
    "numbers of public people": Kind(pr.Huber(), "y", options={"private": "response"}),
    "a location": Kind(pr.Huber(), "y", "{} ~ 1"),
    "a median": Kind(pr.Quantile(0.5), "y", "{} ~ 1"),
    "a share": Kind(pr.Logistic(), "h", "{} ~ 1"),
}


@functools.cache
def table(n=45_000):
    rng = np.random.default_rng(9)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    eta = 0.5 + data["a"] - 0.5 * data["b"]
    data["y"] = eta + 0.4 * rng.standard_normal(n)
    data["h"] = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float)
    data["k"] = rng.poisson(np.exp(eta)).clip(0, 20).astype(float)
    u = np.column_stack([np.zeros(n), eta, 0.3 - data["a"]]) + rng.gumbel(size=(n, 3))
    data["g"] = np.array(["low", "mid", "high"])[u.argmax(axis=1)]
    return data


def fit_kind(name, tuning, inference, n=45_000):
    kind = KINDS[name]
    bounds = {"a": (-1, 1), "b": (-1, 1)} | ({"y": (-4, 5)} if kind.response == "y" else {})
    given_ = {"family": kind.family, "mu": 3, "bounds": bounds, **kind.options}
    given_ |= {"levels": {"g": ["low", "mid", "high"]}} if kind.response == "g" else {}
    model = pr.PrivateOnlineRegression.from_formula(kind.formula.format(kind.response), table().head(n), **given_)
    return model.fit(tuning=tuning, inference=inference, seed=3, progress=False)


def assert_predicts(res, method):
    new = pd.DataFrame({"a": [-0.5, 0.0, 0.9], "b": [0.2, 0.0, -1.0]})
    frame = res.get_prediction(new, method=method).summary_frame(0.1)
    assert np.isfinite(frame.select_dtypes("number")).all(axis=None)
    assert (frame["mean_ci_lower"] < frame["mean"]).all()
    assert (frame["mean"] < frame["mean_ci_upper"]).all()
    return frame["mean_ci_upper"] - frame["mean_ci_lower"]


@pytest.mark.thorough
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.usefixtures("usual_rounds")
def test_every_family_has_every_method(name):
    res = fit_kind(name, "efficient", EVERY)
    assert res.methods == EVERY
    p = len(res._fit.names)
    reference = np.ravel(np.diff(res.conf_int(0.1, method="sandwich")))
    shape = assert_predicts(res, "sandwich")
    for method in EVERY:
        if method == "between_lanes" and "hinge" in name:
            continue  # their curvature differs where groups are asked, and groups lie apart by that, too
        # random scaling's are 5.32/1.64 times the root of ∫ bridge², of which these are the 0.1% and 99.9% points
        low, high = (0.43, 3.5) if "scaling" in method else (0.5, 2.0)
        ratio = np.ravel(np.diff(res.conf_int(0.1, method=method))) / reference
        assert ((ratio > low) & (ratio < high)).all(), method
        wider = assert_predicts(res, method) / shape
        assert ((wider > low) & (wider < high)).all(), method
        first, *_ = res._fit.names
        one, joint = np.eye(p)[:1], np.eye(p)
        assert res.wald_test(one, method=method).pvalue == pytest.approx(
            float(res.t_test(one, method=method).pvalue[0]), rel=1e-6
        )
        if p > 1 and method != "anytime":
            assert res.wald_test(joint, method=method).pvalue < 0.01
        assert str(res.summary(method=method)).count(first.rpartition(":")[2]) >= 1
    bands = res.trajectory().dropna()
    assert set(bands["n"]) == {k for k, s in zip(res._fit.trail_n, res._fit.trail_senders, strict=True) if s >= 30_000}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", [k for k in KINDS if not KINDS[k].options])
def test_every_family_has_the_methods_of_the_chain_that_are_offered(name):
    offered = [m for m in OF_CHAIN if m != "plug_in"]
    curved = name in {"huber", "expectile", "squared", "logistic", "smoothed hinge", "a location", "a share"}
    if curved:
        offered.append("plug_in")
    else:
        with pytest.raises(InferenceError, match=r"plug_in needs curvature that one person's record tells, and "):
            fit_kind(name, "published", "plug_in", 200)
    res = fit_kind(name, "published", tuple(offered), 40_000)
    assert res.methods == tuple(offered)
    for method in offered:
        assert (assert_predicts(res, method) > 0).all()
        assert (np.diff(res.conf_int(method=method)) > 0).all()
        np.testing.assert_allclose(res.cov_params(method), res.cov_params(method).T)


@pytest.mark.thorough
def test_a_probability_s_limits_are_those_of_the_blocks_of_its_own_logit():
    res = fit_kind("multinomial", "efficient", EVERY)
    new = pd.DataFrame({"a": [0.3], "b": [-0.4]})
    for studentised in (False, True):
        method = "block_bootstrap_t" if studentised else "block_bootstrap"
        pred = res.get_prediction(new, method=method)
        moves = next(e.pivot.moves for e in res._fit.estimates if e.method == method)
        h, at = 1e-5, res._fit.params
        row = np.array([1.0, 0.3, -0.4])

        def logits(theta, row=row):
            shares = np.exp(np.append(0.0, theta.reshape(2, 3) @ row))
            shares /= shares.sum()
            return np.log(shares / (1 - shares))

        slopes = np.array([(logits(at + h * e) - logits(at - h * e)) / (2 * h) for e in np.eye(6)]).T
        half = Bootstrap(moves @ slopes.T, studentised).critical(0.1)
        se = np.sqrt(np.diag(slopes @ res.cov_params(method).to_numpy() @ slopes.T))
        limits = logits(at)[:, None] + half[:, None] * se[:, None] * np.array([-1, 1])
        np.testing.assert_allclose(pred.conf_int(0.1)[0], 1 / (1 + np.exp(-limits)), rtol=1e-6)


@pytest.mark.thorough
def test_who_asked_for_anytime_first_is_shown_nothing_else_by_default():
    res = array_model(3000).fit(inference=("anytime", "sandwich"), seed=1, progress=False)
    assert res.methods == ()
    (note,) = (n for n in res.privacy.notes if n.startswith("no intervals yet"))
    assert "by anytime: they begin at 30,000 people" in note
    with pytest.raises(InferenceError, match="by anytime"):
        res.conf_int()
