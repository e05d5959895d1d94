"""Fits by rounds: noise of every piece, any chunks and threads, saved and resumed, streams of any length."""

import copy
import math
import os
import pickle
import warnings
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privreg as pr
from privreg.audit.neighbours import audit
from privreg.collector.estimation.estimate import estimate
from privreg.errors import InferenceError, ReliabilityWarning, StreamError
from privreg.privacy.mechanisms import Mechanism
from privreg.privacy.noise import fresh_key, normals, seeded_key
from privreg.protocol.rounds import PARTS
from privreg.protocol.schedule import Round
from privreg.simulation import rounds
from privreg.simulation.rounds import Crew, RoundsRun
from tests.helpers import read_saved
from tests.kinds import KINDS
from tests.rounds import plan_by_rounds

D = 3
NAMES = ["const", "a", "b"]
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}
KEY = seeded_key(3)
SHORT = (
    Round("location", 333),
    Round("moments", 250),
    Round("pilot", 200),
    Round("pilot", 401),
    *[Round("main", -1)] * 3,
)


def people(n, seed=0):
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, (n, 2))])
    return x, x @ np.array([0.5, 1.0, -1.0]) + 0.3 * rng.standard_normal(n)


def plan(name="gaussian", *, rows=5000, label=False, **more):
    given_ = {"d": D, "label": label, "track": True, "rounds": SHORT, "unscaled": (1, 3), "rows": rows}
    return plan_by_rounds(KINDS["huber"], name, **{**given_, **more})


def run_of(plan_, key=KEY, **more):
    return RoundsRun(plan_, key, **more)


def state_bits(run):
    """All that a run has noised and kept, and the state it has come to."""
    arrays = run.to_arrays()
    values = [arrays[k] for k in sorted(arrays)] + [run.progress.state.theta, run.progress.state.rows]
    return b"".join(np.asarray(v).tobytes() for v in values)


def model(n=20_000, *, seed=0, data=None, **more):
    x, y = people(n, seed) if data is None else data
    options = {"exog_names": NAMES, "bounds": BOUNDS, "family": pr.Huber(), "mu": 1, "rows": len(y)}
    options = {k: v for k, v in options.items() if k != "mu" or "epsilon" not in more}
    return pr.PrivateOnlineRegression(y, x, **{**options, **more})


def fit(given_, **more):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ReliabilityWarning)
        return given_.fit(seed=5, progress=False, **more)


def result_bits(res):
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


# --- noise -------------------------------------------------------------------------------------------------------

NOISE = pytest.mark.parametrize(("name", "label"), [("gaussian", False), ("privunit", False), ("gaussian", True)])


class Spy:
    """Keys that noise was drawn from, and the numbers; which may be replaced."""

    def __init__(self, monkeypatch, value=None):
        self.keys, self.counts, self.value = [], [], value
        monkeypatch.setattr(rounds, "normals", self)

    def __call__(self, key, count):
        self.keys.append(key)
        self.counts.append(count)
        return normals(key, count) if self.value is None else np.full(count, self.value)


@pytest.mark.parametrize("personal", [False, True])
def test_a_piece_carries_the_noise_of_each_of_its_reports(monkeypatch, personal):
    # exactly: with every normal 0, then 1, sums differ by sd √(Σ w), so that their variance is Σ w sd²
    x, y = people(5000)
    weight = np.random.default_rng(1).uniform(0.1, 1.0, len(y)) if personal else None
    for held in range(len(SHORT)):
        at = sum(r.people for r in SHORT[:held]) if held < 4 else 1184 + (held - 4) * 1272
        pieces = []
        for value in (0.0, 1.0):
            Spy(monkeypatch, 0.0)
            run = run_of(plan(), personal=personal)
            run.advance(y[:at], x[:at], None, None if weight is None else weight[:at])
            assert (len(run.progress.held), run.at) == (held, 0)
            Spy(monkeypatch, value)
            end = at + 177  # blocks, and what is left over
            run.advance(y[at:end], x[at:end], None, None if weight is None else weight[at:end])
            run.close()
            pieces.append((run.total.copy(), run.weight.copy()))
        (raw, raw_weight), (noised, same) = pieces
        np.testing.assert_array_equal(raw_weight, same)
        expected = 177.0 if weight is None else weight[at : at + 177].sum()
        assert raw_weight.sum() == pytest.approx(expected)
        sd = run.plan.sd(run.progress.state.role)
        assert sd > 0.5
        added = np.broadcast_to(np.sqrt(same)[..., None] * sd, noised.shape)
        np.testing.assert_allclose(noised - raw, added, rtol=1e-12, atol=1e-9)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["privunit", "laplace"])
def test_a_mechanism_that_is_not_gaussian_draws_for_every_report(monkeypatch, name):
    spy = Spy(monkeypatch)
    x, y = people(5000)
    plan_ = plan(name)
    run = run_of(plan_)
    run.advance(y, x)
    run.close()
    roles, people_of = [r.role for r in SHORT], [333, 250, 200, 401, 1272, 1272, 1272]
    drawn = sum(n * plan_.mechanism.width(plan_.numbers(role)) for role, n in zip(roles, people_of, strict=True))
    assert sum(spy.counts) == drawn


@pytest.mark.thorough
def test_reports_that_are_nearly_noise_alone_add_up_without_overflow():
    x, y = people(3000)
    frame = pd.DataFrame({"a": np.clip(x[:, 1], -4, 4), "y": np.clip(y, -8, 8)})
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ a", frame, epsilon=1e-9, mechanism="laplace", bounds={"a": (-4, 4), "y": (-8, 8)}
    )
    res = model.fit(seed=1, progress=False)  # warnings of NumPy are errors here
    assert np.isfinite(res.params).all()


@NOISE
@settings(max_examples=4, deadline=None)
@given(cuts=st.lists(st.tuples(st.integers(1, 900), st.sampled_from(["", "results", "saved", "again"])), max_size=9))
def test_no_noise_is_drawn_twice(name, label, cuts):
    # in whatever order rows come, results are asked for and the fit is saved
    x, y = people(5000)
    plan_, at = plan(name, label=label), 0
    run = run_of(plan_)
    with pytest.MonkeyPatch.context() as m:
        spy = Spy(m)
        for step, then in [*cuts, (5000, "")]:
            run.advance(y[at : at + step], x[at : at + step])
            at = min(at + step, 5000)
            if then == "results":
                run.held()
                run.held()
            elif then:
                arrays, secrets = run.to_arrays(), run.secrets()
                if then == "again":
                    run = run_of(plan_)
                    run.from_arrays(arrays)
                    run.take_secrets(secrets)
        run.close()
    assert run.people == 5000
    assert len(spy.keys) >= len(SHORT) - 1
    assert len(set(spy.keys)) == len(spy.keys)


@NOISE
def test_a_key_tells_nothing_of_noise_that_was_used(monkeypatch, name, label):
    # what a file holds is no key of a piece before, nor does one follow from it by the same steps
    spy = Spy(monkeypatch)
    run = run_of(plan(name, label=label))
    x, y = people(5000)
    run.advance(y[:3000], x[:3000])
    held = run.secrets()["secret_key"].tobytes()
    used = set(spy.keys)
    run.close()
    assert set(spy.keys) == used  # nothing was open whose noise it would tell
    assert len(used) > 3
    assert held != KEY
    again = run_of(plan(name, label=label), held)
    again.advance(y, x)
    again.close()
    assert not used & set(spy.keys[len(used) :])


def test_a_renewed_key_is_another():
    one, two = run_of(plan()), run_of(plan())
    x, y = people(1000)
    for run in (one, two):
        run.advance(y[:500], x[:500])
    two.close()
    one.renew(seeded_key(4))
    one.close()
    assert one.people == two.people
    assert (one.total != two.total).all()


def test_a_forked_process_gets_no_noise(monkeypatch):
    run = run_of(plan())
    x, y = people(1000)
    run.advance(y[:100], x[:100])
    with monkeypatch.context() as m:  # what os.getpid() says in a forked child
        m.setattr(os, "getpid", lambda: -1)
        with pytest.raises(StreamError, match="another process"):
            run.held()
        with pytest.raises(StreamError, match="another process"):
            run.secrets()
    run.advance(y[100:], x[100:])


def test_a_fit_in_progress_is_not_copied():
    run = run_of(plan())
    for make in (pickle.dumps, copy.deepcopy, copy.copy):
        with pytest.raises(TypeError, match="secret key"):
            make(run)


def told(times=1.0, n=800):
    """What the engine keeps of blocks of worst neighbours, again and again: all moments are of one axis, or another."""
    plan_ = plan(rounds=(Round("moments", 10**9), *SHORT[2:]), unscaled=(), strength=2.0)
    out = []
    with pytest.MonkeyPatch.context() as m:
        sd = plan_.sd("moments") * times
        m.setattr(type(plan_), "sd", lambda *_: sd)
        for v in (np.array([[0.0, 1.0, 0.0]]), np.array([[0.0, 0.0, 1.0]])):
            run, seen = run_of(plan_, fresh_key()), []
            for _ in range(n):
                run.total[:], run.weight[:] = 0.0, 0.0
                run.advance(np.zeros(1), v)
                run.close()
                seen.append(run.total[0, 0].copy())
            out.append(np.array(seen))
    return audit(*out)


def test_the_engine_s_own_sums_pass_an_audit_and_half_the_noise_does_not():
    assert 1.0 < told().lower <= 2.0
    assert told(0.5).lower > 2.0


@pytest.mark.some(1)
@pytest.mark.parametrize("more", [{}, {"private": "response"}, {"mechanism": "privunit", "epsilon": 1.0}])
def test_half_the_noise_is_caught_by_the_audit_of_a_fit(monkeypatch, more):
    res = fit(model(5000, **more))
    found = res.privacy.verify(n=4000)
    assert found.passed
    assert found.table["distance"].max() == pytest.approx(1.0, abs=1e-6)
    original = Mechanism.channel

    def stronger(self, size):  # answers as of half the noise
        made = original(self, size)
        if self.name == "privunit" and size > 1:
            return original(Mechanism(self.name, type(self.budget).declare(epsilon=2.5 * self.epsilon)), size)
        return made._replace(scale=0.5 * made.scale)

    monkeypatch.setattr(Mechanism, "channel", stronger)
    assert not fit(model(5000, **more)).privacy.verify(n=4000).passed


# --- what nobody may know ----------------------------------------------------------------------------------------


def test_whether_a_private_response_is_missing_is_told_by_noise_alone():
    # covariates are public, so that a missing response must leave no trace in what is summed of them
    x, y = people(3000)
    lost = y.copy()
    lost[::2] = np.nan
    silent = {"missing": "noise", "private": "response"}
    with pytest.MonkeyPatch.context() as m:
        Spy(m, 0.0)
        streams = [model(data=(x, v), **silent).start(seed=1) for v in (y, lost)]
        for stream, v in zip(streams, (y, lost), strict=True):
            stream.update((v[:1500], x[:1500]))
    one, two = (stream._run for stream in streams)
    roles = [r.role for r in one.plan.rounds]
    rows = [k for k in range(len(one.chain.batches)) if roles[k] == "moments"]
    assert rows
    for k in rows:
        np.testing.assert_array_equal(one.chain.batches[k].total, two.chain.batches[k].total)
    np.testing.assert_array_equal(one.progress.state.rows, two.progress.state.rows)
    assert (one.progress.state.rows != np.eye(D)).any()


# --- chunks, threads, files --------------------------------------------------------------------------------------


@pytest.mark.thorough
@NOISE
@settings(max_examples=4, deadline=None)
@given(cuts=st.lists(st.integers(0, 7000), max_size=12))
def test_chunks_change_no_bit(name, label, cuts):
    x, y = people(7000)  # more than were said
    plan_ = plan(name, label=label)
    whole, cut = run_of(plan_), run_of(plan_)
    whole.advance(y, x)
    for a, b in pairwise([0, *sorted(cuts), 7000]):
        cut.advance(y[a:b], x[a:b])
    assert whole.people == cut.people == 7000
    assert state_bits(cut) == state_bits(whole)


@pytest.mark.some(1)
@NOISE
@pytest.mark.parametrize("personal", [False, True])
def test_threads_change_no_bit(name, label, personal):
    if personal and name != "gaussian":
        pytest.skip("budgets of people's own go with Gaussian noise")
    x, y = people(7000)
    weight = np.random.default_rng(1).choice([0.25, 1.0], 7000) if personal else None
    plan_ = plan(name, label=label)
    one, many = (run_of(plan_, personal=personal) for _ in range(2))
    with Crew(3) as crew:
        many.crew = crew
        for run in (one, many):
            run.advance(y, x, None, weight)
    assert state_bits(one) == state_bits(many)


@pytest.mark.some(2)
@pytest.mark.parametrize("p", [2, 11, 40])
@pytest.mark.parametrize("personal", [False, True])
def test_blocks_that_are_played_in_one_go_add_up_to_the_bits_of_each_by_itself(monkeypatch, p, personal):
    rng = np.random.default_rng(p)
    x = np.asfortranarray(np.column_stack([np.ones(160_000), rng.uniform(-1, 1, (160_000, p - 1))]))
    y = x.sum(axis=1) + rng.standard_normal(160_000)
    y[::97], x[5::970] = np.nan, np.nan
    x[7::997, -1] = np.inf
    weight = rng.choice([0.25, 1.0], 160_000) if personal else None
    plan_ = plan(d=p, rows=160_000, unscaled=(), rounds=(Round("pilot", 9000), Round("main", 150_000)))
    few, many = (run_of(plan_, personal=personal) for _ in range(2))
    sizes = []
    sums = RoundsRun._sums
    monkeypatch.setattr(RoundsRun, "_sums", lambda run, rows, *a: (sizes.append(len(rows.y)), sums(run, rows, *a))[1])
    many.advance(y, x, None, weight)
    tasks = len(sizes)
    monkeypatch.setattr(rounds, "TASK", 1)
    sizes.clear()
    few.advance(y, x, None, weight)
    assert tasks < len(sizes)
    assert state_bits(few) == state_bits(many)


@NOISE
@pytest.mark.parametrize("stops", [(1,), (100, 583, 1000, 1185, 3000, 3001, 6500)])
def test_a_fit_that_is_kept_goes_on_to_the_same_bits(name, label, stops):
    x, y = people(7000)
    plan_ = plan(name, label=label)
    going, kept = run_of(plan_), run_of(plan_)
    for a, b in pairwise([0, *stops, 7000]):
        for run in (going, kept):
            run.advance(y[a:b], x[a:b])
        going.close()  # as saving does: the bits are those of a fit that was asked for results there
        arrays, secrets = kept.to_arrays(), kept.secrets()
        kept = run_of(plan_)
        kept.from_arrays(arrays)
        kept.take_secrets(secrets)
        assert kept.people == going.people == b
        assert state_bits(kept) == state_bits(going)


def test_arrays_of_another_plan_are_refused():
    run = run_of(plan())
    x, y = people(3000)
    run.advance(y, x)
    with pytest.raises(ValueError, match="another plan"):
        run_of(plan(d=4)).from_arrays(run.to_arrays())


def test_no_sum_without_noise_is_kept(monkeypatch):
    # what is written is what noise was added to: with another key every number of it is another
    x, y = people(3000)
    found = []
    for key in (KEY, seeded_key(8)):
        run = run_of(plan(), key)
        run.advance(y[:300], x[:300])
        assert not run.to_arrays(close=False)["total_0"].any()  # all is open
        found.append(run.to_arrays())
    for name, value in found[0].items():
        if name.startswith("total"):
            assert (value != found[1][name]).all()
    assert set(found[0]) == {"people", "piece", "weight_0", "total_0"}


def test_results_hold_what_is_open():
    run = run_of(plan())
    x, y = people(3000)
    run.advance(y, x)
    assert run.noised < run.people == 3000
    progress = run.held().progress
    assert sum(progress.held) + progress.main[-1].weight.sum() == 3000


def test_parts_are_runs_of_equal_length(monkeypatch):
    run = run_of(plan())
    x, y = people(2456)
    run.advance(y[:1184], x[:1184])
    assert (run.parts, run.length, run.size) == (PARTS, 144, 1272)
    expected = [144] * 7 + [264]
    with monkeypatch.context() as m:
        m.setattr(rounds, "PIECE", 100)
        pieces = run.pieces(5000)
    sizes = [sum(size for part, size in pieces if part == k) for k in range(PARTS)]
    assert sizes == expected
    run.advance(y[1184:], x[1184:])
    np.testing.assert_array_equal(run.chain.batches[-1].weight.sum(axis=1), expected)


@pytest.mark.thorough
def test_a_stream_is_saved_and_goes_on(tmp_path):
    x, y = people(20_000)
    whole, stream = (model(data=(x, y)).start(seed=5) for _ in range(2))
    path = tmp_path / "stream.privreg"
    for a, b in pairwise([0, 777, 6000, 6001, 15_003, 20_000]):
        whole.update((y[a:b], x[a:b]))
        stream.update((y[a:b], x[a:b]))
        if b > 10_000:
            first, again = whole.results(), whole.results()
            assert result_bits(first) == result_bits(again)
            assert result_bits(stream.results()) == result_bits(first)
        whole._run.close()
        stream.save(path)
        stream = pr.load(path)
        assert stream.nobs == whole.nobs == b
    assert result_bits(stream.results()) == result_bits(whole.results())


def test_a_saved_stream_without_a_seed_spends_its_key_once(tmp_path):
    x, y = people(20_000)
    stream = model(data=(x, y)).start().update((y[:7000], x[:7000]))
    key = stream._run.key
    stream.save(tmp_path / "s")
    _, arrays = read_saved(tmp_path / "s")
    saved = arrays["secret_key"].tobytes()
    assert saved not in {key, stream._run.key}
    first = pr.load(tmp_path / "s")
    assert first._run.key == saved
    with pytest.warns(pr.errors.PrivregWarning, match="fresh"):
        second = pr.load(tmp_path / "s")
    assert second._run.key not in {saved, stream._run.key}


# --- streams of any length ---------------------------------------------------------------------------------------


def test_of_an_unknown_number_of_rows_every_round_is_a_quarter_of_those_before():
    x, y = people(20_000)
    plan_ = plan(rows=None, rounds=(*SHORT[:4], Round("main", -1)))
    run = run_of(plan_)
    run.advance(y, x)
    held = run.progress.held
    assert len(held) > 12
    for k in range(4, len(held)):
        assert held[k] == sum(held[:k]) // 4
    assert run.people == 20_000
    found = estimate(run.plan, run.held().progress)
    assert found is not None
    assert np.isfinite(found.cov).all()


def test_more_rows_than_were_said_answer_the_last_state():
    x, y = people(12_000)
    run = run_of(plan(rows=3000))
    run.advance(y, x)
    assert len(run.progress.held) == len(SHORT) - 1
    assert run.people == 12_000
    assert run.weight.sum() + run.open_weight.sum() + run._held == 12_000 - sum(run.progress.held)
    assert run._piece(run.at)[0] == PARTS - 1


def test_budgets_of_one_s_own_are_counted_as_people():
    x, y = people(5000)
    run = run_of(plan(), personal=True)
    run.advance(y, x, None, np.full(5000, 0.25))
    assert run.people == 5000
    assert len(run.progress.held) == len(SHORT) - 1
    run.close()
    assert run.weight.sum() == pytest.approx(0.25 * run.at)


@pytest.mark.some(1)
@pytest.mark.parametrize("rows", [True, False])
@pytest.mark.parametrize("n", [4, 17, 50, 300, 1000])
def test_few_people_give_wide_intervals_and_a_doubt(n, rows):
    x, y = people(n)
    stream = model(data=(x, y), rows=n if rows else None).start(seed=5)
    stream.update((y, x))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            res = stream.results()
    except InferenceError as e:
        assert "estimates begin after them" in str(e)  # noqa: PT017
        return
    assert np.isfinite(res.params).all()
    assert res.nobs == n
    assert res._doubts() or not res._fit.estimates


# --- data that tell nothing --------------------------------------------------------------------------------------


def test_nobody_has_a_response():
    x, y = people(20_000)
    res = fit(model(data=(x, np.full_like(y, np.nan)), missing="noise"))
    assert np.isfinite(res.params).all()
    assert res._doubts()


@pytest.mark.some(1)
@pytest.mark.parametrize("more", [{}, {"private": "response"}, {"family": "logistic"}, {"family": "poisson"}])
def test_everybody_has_the_same_response(more):
    x, y = people(20_000)
    family = {"logistic": pr.Logistic(), "poisson": pr.families.Poisson(10)}.get(more.get("family"), pr.Huber())
    bounds = BOUNDS if more.get("family") is None else {k: v for k, v in BOUNDS.items() if k != "y"}
    res = fit(model(data=(x, np.ones_like(y)), **{**more, "family": family, "bounds": bounds}))
    assert np.isfinite(res.params).all()


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("family", "private"),
    [
        ("huber", "record"),
        ("logistic", "record"),
        ("squared", "record"),
        ("huber", "response"),
        ("logistic", "response"),
    ],
)
@pytest.mark.parametrize("formula", ["y ~ 1", "y ~ 0 + a", "y ~ g", "y ~ a * g"])
def test_designs_of_every_form(formula, private, family):
    rng = np.random.default_rng(2)
    n = 6000
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n), "g": rng.choice(["u", "v"], n)})
    y = 0.3 + data["a"] + 0.3 * rng.standard_normal(n)
    data["y"] = (y > 0).astype(float) if family == "logistic" else y
    bounds = {"a": (-1, 1), "b": (-1, 1)} | ({} if family == "logistic" else {"y": (-4, 4)})
    kept = {k: v for k, v in bounds.items() if k in formula}
    levels = {"levels": {"g": ["u", "v", "nobody"]}} if "g" in formula else {}  # a level that nobody has
    chosen = {"huber": pr.Huber(), "logistic": pr.Logistic(), "squared": pr.families.Squared()}[family]
    res = fit(
        pr.PrivateOnlineRegression.from_formula(
            formula, data, family=chosen, private=private, mu=1, bounds=kept, **levels
        )
    )
    assert np.isfinite(res.params).all()
    assert (res.bse > 0).all()
    assert math.isfinite(res.nobs)
    if formula == "y ~ 1" and family == "huber":
        assert abs(res.params.iloc[0] - 0.3) < 6 * res.bse.iloc[0]
    if "g" in formula and private == "record":
        lonely = [name for name in res.params.index if "nobody" in name]
        assert lonely
        assert not res._table()["reliable"].to_numpy()[res.params.index.isin(lonely)].any()
