"""Laws of the staged fit: devices and collector in every stage, any chunks, threads, saves; and what it says when."""

import functools
import math
import re
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import privreg as pr
from privreg.collector import curvature, location, moments
from privreg.device.sampler import KEY_BYTES, NoiseStream, derived_key, seeded_key
from privreg.device.score import lane_report, location_report, moment_report
from privreg.errors import InferenceError, PrivregError, PrivregWarning, SavedFileError
from privreg.files import archive
from privreg.simulation.staged import lanes
from privreg.simulation.staged.pipeline import Pipeline
from privreg.simulation.staged.schedule import LONG, make_schedule
from tests.kinds import spared

pytestmark = pytest.mark.usefixtures("small_blocks")
N = 3000
SEED = 7
BOUNDS = {"a": (-1, 3), "b": (-1, 1)}
NAMES = ("const", "a", "b")


class Case(NamedTuple):
    """A kind of model, and how it is fitted."""

    options: dict
    how: dict = {}  # noqa: RUF012
    names: tuple = NAMES
    binary: bool = False
    offset: bool = False


HUBER = {"bounds": {**BOUNDS, "y": (-9, 9)}}
PRIVATE = {"scaling": "private"}
CASES = {
    "learned scale": Case(HUBER),
    "declared scale": Case({**HUBER, "family": pr.Huber(scale=0.5)}),
    "logistic": Case({"bounds": BOUNDS, "family": "logistic"}, binary=True),
    "private": Case(PRIVATE),
    "private logistic": Case({**PRIVATE, "family": "logistic"}, binary=True),
    "no constant": Case(HUBER, names=("a", "b")),
    "private without constant": Case(PRIVATE, names=("a", "b")),
    "constant not first": Case(HUBER, names=("a", "const", "b")),
    "offset": Case({"bounds": {**HUBER["bounds"], "offset": (-2, 2)}}, offset=True),
    "private with offset": Case({**PRIVATE, "bounds": {"offset": (-2, 2)}}, offset=True),
    "two methods": Case(HUBER, {"inference": ("random_scaling", "between_lanes"), "batch_size": 5}),
    "from paths": Case(
        HUBER, {"inference": ("batch_means", "block_bootstrap_t", "plug_in", "path_curvature"), "lanes": 8}
    ),
    "one lane": Case(HUBER, {"inference": "random_scaling", "lanes": 1, "batch_size": 1}),
    "estimates only": Case(HUBER, {"inference": None, "lanes": 3}),
    "a guess": Case(HUBER, {"start_params": [0.5, 1.0, -1.0]}),
    "unit weights": Case({**HUBER, "score_weights": "unit"}),
    "unit weights, logistic": Case({"bounds": BOUNDS, "family": "logistic", "score_weights": "unit"}, binary=True),
    "not private": Case({**HUBER, "mu": None}),
}
EVERY_CASE = pytest.mark.parametrize("name", CASES)
EVERY_STAGE = ("learned scale", "private", "logistic", "from paths")  # between them, all the stages there are


@functools.cache
def rows(case_name, n=N, correlated=True):
    """A response, covariates and perhaps an offset; strongly correlated, so that the optional stage is held."""
    case, rng = CASES[case_name], np.random.default_rng(1)
    a = 1.0 + 0.6 * rng.standard_normal(n)
    b = (a - 1.0 if correlated else 0.0) + 0.2 * rng.standard_normal(n)
    columns = {"const": np.ones(n), "a": a, "b": b}
    x = np.column_stack([columns[c] for c in case.names])
    offset = rng.uniform(-1, 1, n) if case.offset else None
    eta = 0.5 * ("const" in case.names) + a - b + (0.0 if offset is None else offset)
    y = eta + 0.5 * rng.standard_normal(n)
    if case.binary:
        y = (rng.uniform(size=n) < 1 / (1 + np.exp(-eta))).astype(float)
    return (y, x) if offset is None else (y, x, offset)


def make_model(case_name, **more):
    case = CASES[case_name]
    y, x, *offset = rows(case_name)
    options = {"mu": 2, "rows": N, "exog_names": list(case.names), **case.options, **more}
    if offset:
        options["offset"] = offset[0]
    return pr.PrivateOnlineRegression(y, x, **options)


def begin(case_name, seed=SEED, **more):
    private = CASES[case_name].options.get("mu", 2) is not None
    return make_model(case_name, **more).start(seed=seed if private else None, **CASES[case_name].how)


def part(case_name, a, b, correlated=True):
    return tuple(v[a:b] for v in rows(case_name, N, correlated))


@functools.cache
def whole(case_name):
    """The stream that took all rows at once."""
    return begin(case_name).update(rows(case_name))


def edges(stream):
    """People at which its stages begin, all that are planned."""
    return np.cumsum([0, *(s.people for s in stream._run.start.schedule.stages[:-1])]).tolist()


def saved(stream):
    """Every array that a file of this stream would hold, its noise included."""
    return stream._run.to_arrays() | stream._run.secrets()


def assert_same(one, two):
    a, b = saved(one), saved(two)
    assert a.keys() == b.keys()
    for k in a:
        assert (a[k].dtype, a[k].shape) == (b[k].dtype, b[k].shape), k
        assert a[k].tobytes() == b[k].tobytes(), k
    assert_same_results(one.results(), two.results())


def assert_same_results(one, two):
    for k in ("params", "last", "trail_params", "trail_variances", "trail_n", "senders", "updates", "nobs"):
        np.testing.assert_array_equal(getattr(one._fit, k), getattr(two._fit, k), err_msg=k)
    assert one.methods == two.methods
    for a, b in zip(one._fit.estimates, two._fit.estimates, strict=True):
        assert a.cov.tobytes() == b.cov.tobytes()
    assert one.summary().as_text() == two.summary().as_text()


# --- Law 1: what is computed is what devices send and the collector makes of it -----------------------------


def replay(stream, y, x, offset):
    """What devices and collector make of these people of one stage: public state then, and the stage's sum.

    The noise is drawn anew from the stage's own key.
    """
    run = stream._run
    mechanism, stage = run.start.reports.mechanism, run.start.schedule.stages[run.stage]
    noise = NoiseStream(derived_key(seeded_key(SEED), f"{run.stage} {stage.kind}"), run.noise.width).peek()
    r = y if offset is None else y - offset
    if run.kind in {"location", "moments"}:
        r = (r - run.y_centre) / run.y_scale
        total, place = np.zeros(run.numbers()), run.location
        for i in range(len(y)):
            v = np.append(x[i], r[i])
            if run.kind == "moments":
                v = v if run.start.layout.constant else np.append(1.0, v)  # a design without a constant borrows one
                total += moment_report(mechanism, run.scatter.rows, v[: len(run.scatter.rows)], noise[i])
                continue
            mine = v[list(run.start.unscaled)]
            total += location_report(mechanism, place.centre, np.exp(place.log_spread), mine, noise[i])
            size = stage.people // location.BATCHES
            if i % size == size - 1:
                place, total = location.learn(place, total / size), np.zeros_like(total)
        return place, total
    plan, state, newton, steps = run.chains
    for i in range(len(y)):
        k = i // plan.batch % plan.lanes
        report = lane_report(
            plan, run.whitener, state.theta[k], math.exp(state.log_c[k]), x[i],
            (y[i] - run.y_centre) / run.y_scale, noise[i], 0.0 if offset is None else offset[i] / run.y_scale,
        )  # fmt: skip
        state = lanes.update(state, plan, steps, newton, i, report)
        if run.kind == "lanes" and i + 1 == run.start.schedule.next_meeting(i):
            before = [] if run.common is None else lanes.corrected(run.common.state, run.common.plan, newton)
            state.theta[:] = lanes.pooled(before + lanes.corrected(state, plan, newton))
    return state, run.total


@pytest.mark.parametrize("name", [c for c in CASES if c != "not private"])
def test_every_stage_is_its_devices_and_the_collector_bit_for_bit(name):
    stream = begin(name)
    run, at, seen = stream._run, 0, []
    while at < N:
        people = run.start.schedule.stages[run.stage].people
        m = min(people - 1, 250) if people > 0 else min(N - at, 250)  # its last person would begin the next stage
        encoded = stream._encode(part(name, at, at + m))[:3]
        state, total = replay(stream, *encoded)
        seen.append(run.kind)
        stream.update(part(name, at, at + m))
        found = run.location if run.chains is None else run.chains.state
        for a, b, k in zip(state, found, found._fields, strict=True):
            assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), (run.kind, k)
        assert run.total.tobytes() == total.tobytes()
        if people < 0:
            break
        stage = run.stage
        before = moments.Scatter(*run.scatter), run.total.copy()
        rest = stream._encode(part(name, at + m, at + people))[:3]
        sums = replay_rest(stream, rest, before[1], m)
        stream.update(part(name, at + m, at + people))
        if seen[-1] == "moments":
            layout = run.start.layout._replace(constant=True)
            learned = moments.learn(before[0], sums, people, run.moment_sd(), layout).rows
            if run.chains is not None and not run.start.layout.constant:
                learned = curvature.without_constant(learned, run.d)
            np.testing.assert_array_equal(run.scatter.rows, learned)
        at += people
        assert run.stage == stage + 1 + bool(spared(run) and seen.count("moments") == 3 and seen[-1] == "moments")
    expected = ["location"] * ("private" in name) + ["moments"] * (3 if spared(run) else 4)
    expected += ["search"] * 6 * CASES[name].binary + ["pilot", "common", "lanes"]
    assert seen == expected


def replay_rest(stream, encoded, total, done):
    """Sum of a round of moments when the people from number `done` on have reported too."""
    run = stream._run
    if run.kind != "moments":
        return None
    noise = NoiseStream(derived_key(seeded_key(SEED), f"{run.stage} moments"), run.noise.width).peek()[done:]
    y, x, offset = encoded
    r = ((y if offset is None else y - offset) - run.y_centre) / run.y_scale
    for i in range(len(y)):
        v = np.append(x[i], r[i])
        v = v if run.start.layout.constant else np.append(1.0, v)
        total = total + moment_report(
            run.start.reports.mechanism, run.scatter.rows, v[: len(run.scatter.rows)], noise[i]
        )
    return total


# --- Law 2: chunks, threads, saves -------------------------------------------------------------------------


@EVERY_CASE
def test_chunks_and_threads_change_no_bit(name):
    rng = np.random.default_rng(4)
    for threads in (1, 2, 3):
        cuts = sorted({0, N, *rng.integers(1, N, 6 * threads).tolist()})
        stream = begin(name)
        for _ in stream._update_all((part(name, a, b) for a, b in pairwise(cuts)), threads):
            pass
        assert_same(stream, whole(name))


@EVERY_CASE
def test_fit_gives_the_bits_of_the_stream_with_any_threads(name):
    private = CASES[name].options.get("mu", 2) is not None
    for threads in (1, 2, 3):
        res = make_model(name).fit(seed=SEED if private else None, threads=threads, **CASES[name].how)
        for k in ("params", "last", "trail_params", "trail_variances", "trail_n"):
            np.testing.assert_array_equal(getattr(res._fit, k), getattr(whole(name).results()._fit, k), err_msg=k)
        for a, b in zip(res._fit.estimates, whole(name).results()._fit.estimates, strict=True):
            assert a.cov.tobytes() == b.cov.tobytes()


@EVERY_CASE
def test_saves_in_every_stage_change_no_bit(name, tmp_path):
    stream = begin(name)
    starts = edges(stream)
    stops = {k + more for k in starts for more in (-1, 0)} | {(a + b) // 2 for a, b in pairwise([*starts, N])}
    kinds = set()
    for a, b in pairwise(sorted({0, N, *(k for k in stops if 0 < k < N)})):
        stream.update(part(name, a, b)).save(tmp_path / "s")
        kinds.add(stream._run.kind)
        stream = pr.load(tmp_path / "s")
    assert kinds == {s.kind for s in stream._run.start.schedule.stages}
    assert_same(stream, whole(name))


@settings(max_examples=20, deadline=None)
@given(
    st.sampled_from(list(CASES)), st.lists(st.integers(1, N - 1), min_size=1, max_size=3), st.lists(st.integers(1, N))
)
def test_saves_and_chunks_anywhere_change_no_bit(tmp_path_factory, name, stops, cuts):
    path, stream = tmp_path_factory.mktemp("p") / "s", begin(name)
    for a, b in pairwise(sorted({0, N, *stops, *cuts})):
        stream.update(part(name, a, b))
        if b in stops:
            stream.save(path)
            stream = pr.load(path)
    assert_same(stream, whole(name))


def coming(stream):
    """Noise that the next people of this stream would get, and the keys of the stages after."""
    return stream._run.noise.peek()[:5].copy(), set(stream._run.keys)


@pytest.mark.parametrize("name", EVERY_STAGE)
def test_the_noise_of_a_private_stream_is_used_by_one_stream_only(name, tmp_path):
    path, starts = tmp_path / "s", edges(begin(name))
    for k in range(len(starts)):
        at = starts[k] + 3
        stream = begin(name, seed=None).update(part(name, 0, at))
        held = coming(stream)
        stream.save(path)
        first = pr.load(path)
        with pytest.warns(PrivregWarning, match="fresh noise"):
            second = pr.load(path)
        np.testing.assert_array_equal(coming(first)[0], held[0])  # the file's first reader goes on exactly
        assert coming(first)[1] == held[1]
        streams = [stream, first, second]
        for s in streams:
            assert s._run.noise.width == len(s._run.total) or s._run.chains is not None
            assert s._run.noise.width == stream._run.noise.width
            assert len(s._run.keys) == len(starts) - s._run.stage - 1
        for i, one in enumerate(streams):
            for other in streams[:i]:
                assert not np.isin(coming(one)[0], coming(other)[0]).any()
                assert not coming(one)[1] & coming(other)[1]
        ends = [s.update(part(name, at, N)).results().params.to_numpy() for s in streams]
        assert len({e.tobytes() for e in ends}) == 3
        assert np.isfinite(ends).all()


def test_saving_twice_gives_two_files_of_different_noise(tmp_path):
    stream = begin("private", seed=None).update(part("private", 0, 1500))
    stream.save(tmp_path / "a")
    stream.save(tmp_path / "b")
    a, b = (pr.load(tmp_path / k) for k in "ab")
    assert not np.isin(coming(a)[0], coming(b)[0]).any()
    assert not coming(a)[1] & coming(b)[1]


WIDTH = 700
"""So wide that a block of noise has 64 rows, and a few hundred rows need several."""


def taken(draws):
    stream, out = NoiseStream(seeded_key(3), WIDTH), []
    with ThreadPoolExecutor(2) as pool:
        for rows_, whole_ in draws:
            if whole_:
                out.append(stream.take(rows_, pool).copy())  # good until the next call
                continue
            lacking = rows_
            while lacking:
                out.append(stream.peek()[:lacking].copy())
                stream.advance(len(out[-1]))
                lacking -= len(out[-1])
    return stream, np.concatenate([np.zeros((0, WIDTH)), *out])


@functools.cache
def plain_noise():
    return taken([(64 * 13, False)])[1]  # more than any draws below


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from([0, 1, 63, 64, 65, 128, 200]), st.booleans()), max_size=4))
def test_noise_taken_in_parallel_is_the_noise_by_blocks(draws):
    stream, out = taken(draws)
    assert out.tobytes() == plain_noise()[: len(out)].tobytes()
    other = taken([(len(out), False)])[0]
    for k, v in other.secret_state().items():  # and both go on alike, from the same key
        if len(out):
            assert v.tobytes() == stream.secret_state()[k].tobytes(), k
    assert stream.peek()[0].tobytes() == other.peek()[0].tobytes()


# --- what the results say in every stage -------------------------------------------------------------------


def number_in(text, pattern):
    return int(re.search(pattern, text)[1].replace(",", ""))


@pytest.mark.parametrize("name", [*EVERY_STAGE, "two methods", "private logistic"])
def test_results_in_every_stage(name):
    stream, at = begin(name), 0
    methods = tuple(m.name for m in stream._settings.methods)
    run, shown = stream._run, set()
    while at < N:  # after one person and forty of every stage, and at its end
        size = run.start.schedule.stages[run.stage].people
        mark = min(next(m for m in (1, 40, N) if m > run.at), size if size > 0 else N)
        at = min(at + mark - run.at, N)
        stream.update(part(name, stream.nobs, at))
        kind = stream._run.kind
        if kind in {"location", "moments"}:
            with pytest.raises(InferenceError, match=f"{at:,} have reported") as error:
                stream.results()
            setting = [s.people for s in stream._run.start.schedule.stages if s.kind in {"location", "moments"}]
            assert number_in(str(error.value), r"up to ([\d,]+) people") == sum(setting)
            shown.add("too early")
            continue
        res = stream.results()
        assert np.isfinite(res.params).all()
        assert np.isfinite(res.params_last).all()
        assert res.nobs == at
        notes = [n for n in res.privacy.notes if n.startswith("no intervals yet")]
        if res.methods:
            assert kind == "lanes"
            assert stream._run.chains.state.updates.all()  # every lane has something to say
            behind = [m for m in methods if m not in res.methods]  # the first update of a lane shows no move
            assert behind == ["path_curvature"][: len(notes)]
            assert all(n.startswith("no intervals yet by path_curvature: lanes begin after") for n in notes)
            assert (res.bse > 0).all()
            assert np.isfinite(res.conf_int()).all(axis=None)
            shown.add("intervals")
        else:
            lead = edges(stream)[-1] - spared(run)
            assert notes == [f"no intervals yet: lanes begin after {lead:,} people, and {at:,} have reported"]
            assert "no intervals yet" in str(res.summary())
            for ask in (res.conf_int, lambda r=res: r.bse, lambda r=res: r.pvalues):
                with pytest.raises(InferenceError, match="no intervals yet"):
                    ask()
            shown.add(f"estimates in {kind}")
        assert str(res.summary())
    wanted = {"too early", "estimates in pilot", "estimates in common", "estimates in lanes", "intervals"}
    assert shown == wanted | ({"estimates in search"} if CASES[name].binary else set())


def test_without_inference_nothing_is_said_about_intervals():
    stream = begin("estimates only").update(part("estimates only", 0, 1500))
    assert not [n for n in stream.results().privacy.notes if "intervals" in n]
    with pytest.raises(InferenceError, match="only estimates"):
        stream.results().conf_int()


# --- the schedule ------------------------------------------------------------------------------------------


def plan(rows_, d=4, mu=1.0, unscaled=0, binary=False, declared=False, batch=None, lanes_=None):
    return make_schedule(
        d=d, noise=4.0 / mu**2, moment_noise=2.0 / mu**2, rows=rows_, unscaled=unscaled, declared=declared, batch=batch,
        lanes=lanes_, alpha=None, pace=None, between=True, moving=binary,
    )  # fmt: skip


PLANS = {
    "d": st.integers(1, 30),
    "mu": st.sampled_from([0.1, 0.5, 1.0, 3.0, math.inf]),
    "unscaled": st.sampled_from([0, 1, 5]),
    "binary": st.booleans(),
    "declared": st.booleans(),
}


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(PLANS), st.integers(5 * location.BATCHES, 10**8))
def test_stages_fit_the_rows_and_leave_lanes_their_share(given_, n):
    # In shorter streams the search for locations takes more than its share, having one person a batch at least.
    schedule = plan(n, **given_)
    lead = sum(s.people for s in schedule.stages[:-1])
    assert all(s.people > 0 for s in schedule.stages[:-1])
    assert [s.kind for s in schedule.stages].count("lanes") == 1
    assert schedule.stages[-1] == ("lanes", -1, False, math.inf, math.inf)
    assert all(s.people % schedule.batch == 0 for s in schedule.stages[:-1] if s.kind != "location")
    assert schedule.before("lanes") == lead
    # the shares of a short stream: moments .1 + .08, pilot .06, common .15; search .2, pilot .03, common .2 if binary;
    # and location .2
    most = (0.61 if given_["binary"] else 0.39) + (0.2 if given_["unscaled"] else 0.0)
    assert lead <= most * n
    assert 8 <= schedule.lanes <= 16
    assert 1 <= schedule.batch <= 32


@settings(max_examples=200, deadline=None)
@given(st.fixed_dictionaries(PLANS))
def test_long_streams_hold_shares_and_unknown_rows_give_the_absolute_sizes(given_):
    unknown, long = plan(None, **given_), plan(10**12, **given_)
    lead = sum(s.people for s in unknown.stages[:-1])
    assert lead < 10**9  # so that the longest stream is long for all of these models
    assert unknown.batch == long.batch == 32
    noisy_map = not given_.get("label") and given_["d"] > 1
    for a, b in zip(unknown.stages, long.stages, strict=True):
        assert a.kind == b.kind
        if a.kind == "common":
            assert b.people == pytest.approx((0.15 if noisy_map else 0.05) * 10**12, rel=1e-6)
        elif a.kind == "moments" and not given_.get("label"):
            assert any(b.people == pytest.approx(v * 10**12, rel=1e-6) for v in (0.002, 0.003, 0.005, 0.03))
        else:
            assert a.people == b.people


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(PLANS), st.one_of(st.none(), st.integers(2, 10**6)), st.integers(0, 10**7))
def test_lanes_meet_after_whole_rounds_ever_more_rarely(given_, n, people):
    made = plan(n, **given_)
    mark = made.next_meeting(people)
    assert mark > people
    if given_["binary"]:
        assert mark > 10**18  # never
        return
    assert mark % (made.batch * made.lanes) == 0
    assert made.next_meeting(mark) == 4 * mark
    assert made.next_meeting(mark - 1) == mark
    assert people < made.gather or mark <= 4 * people


@settings(max_examples=300, deadline=None)
@given(st.fixed_dictionaries(PLANS), st.integers(2, 10**6), st.integers(0, 10**6))
def test_stages_grow_with_the_rows(given_, n, more):
    small, large = plan(n, **given_), plan(n + more, **given_)
    for a, b in zip(small.stages[:-1], large.stages[:-1], strict=True):
        assert a.kind == b.kind
        # below LONG people the batch grows too, and sizes are whole batches
        assert b.people >= a.people - (0 if n >= LONG else large.batch - 1)
    assert large.batch >= small.batch
    assert large.rows == n + more


def test_a_plan_follows_the_users_wishes():
    schedule = plan(50_000, batch=7, lanes_=3)
    assert (schedule.batch, schedule.lanes) == (7, 3)
    assert all(s.people % 7 == 0 for s in schedule.stages[:-1])


@pytest.mark.parametrize("name", EVERY_STAGE)
def test_a_role_depends_on_the_position_and_on_reports_only(name):
    starts = edges(begin(name, mu=50))
    # other rows, other noise: the same roles at the same positions, as long as the optional round is held
    for seed in (1, 2):
        stream, at, kinds = begin(name, seed=seed, mu=50), 0, []
        for stop in starts[1:]:
            stream.update(part(name, at, stop))
            kinds.append(stream._run.kind)
            at = stop
        assert kinds == [s.kind for s in stream._run.start.schedule.stages[1:]]
        assert spared(stream._run) == 0
    # covariates that are not correlated spare it: what was learned from reports, and nothing else, decides
    stream = begin(name, mu=50)
    held = [k for k, s in enumerate(stream._run.start.schedule.stages) if s.optional]
    assert len(held) == 1
    stream.update(part(name, 0, starts[held[0]], correlated=False))
    assert stream._run.stage == held[0] + 1
    assert spared(stream._run) == stream._run.start.schedule.stages[held[0]].people
    assert stream._run.people == starts[held[0]]
    assert len(stream._run.keys) == len(starts) - held[0] - 2
    stream.update(part(name, starts[held[0]], N, correlated=False))
    lead = starts[-1] - spared(stream._run)
    assert stream._run.at == N - lead
    sent = number_in(stream.results().privacy.curvature, r"([\d,]+) reported second moments")
    assert sent == sum(s.people for s in stream._run.start.schedule.stages if s.kind == "moments" and not s.optional)


def test_no_raw_row_decides_the_stages():
    # the same public state after the rounds of moments: the same decision, whatever rows were behind it
    one, two = begin("learned scale"), begin("learned scale")
    at = edges(one)[3] - 1
    one.update(part("learned scale", 0, at))
    two.update(part("learned scale", 0, at, correlated=False))
    two._run.from_arrays({k: v.copy() for k, v in one._run.to_arrays().items()})
    for stream in (one, two):
        stream.update(part("learned scale", at, at + 1))
    assert (one._run.stage, spared(one._run)) == (two._run.stage, spared(two._run))
    np.testing.assert_array_equal(one._run.scatter.rows, two._run.scatter.rows)


# --- small models, short streams ---------------------------------------------------------------------------


@pytest.mark.parametrize("mu", [1.0, None])
@pytest.mark.parametrize("family", ["huber", "logistic"])
@pytest.mark.parametrize("scaling", ["public", "private"])
@pytest.mark.parametrize("weights", [None, "unit"])
def test_a_model_of_the_constant_alone(family, scaling, mu, weights):
    rng = np.random.default_rng(3)
    y = (rng.uniform(size=6000) < 0.7).astype(float) if family == "logistic" else 40 + 3 * rng.standard_normal(6000)
    bounds = {} if family == "logistic" or scaling == "private" else {"y": (0, 100)}
    more = {"family": family, "bounds": bounds, "mu": mu, "scaling": scaling, "score_weights": weights}
    seed = None if mu is None else 5
    res = pr.PrivateOnlineRegression.from_formula("y ~ 1", {"y": y}, **more).fit(seed=seed, threads=2)
    truth = math.log(0.7 / 0.3) if family == "logistic" else 40.0
    assert np.isfinite(res.conf_int()).all(axis=None)
    # t with 8 degrees of freedom or more is beyond 7 once in ten thousand
    assert abs(res.params.iloc[0] - truth) < 7 * float(res.bse.iloc[0])
    assert float(res.bse.iloc[0]) < (1.0 if family == "logistic" else 3.0)


@pytest.mark.parametrize("n", [4, 20, 79, 81, 200, 2000])
@pytest.mark.parametrize("name", ["learned scale", "private", "logistic", "no constant", "not private"])
def test_short_streams_give_finite_numbers_or_say_that_they_are_short(name, n):
    private = CASES[name].options.get("mu", 2) is not None
    y, x, *_ = rows(name)
    options = {"mu": 0.5, "exog_names": list(CASES[name].names), **CASES[name].options}
    model = pr.PrivateOnlineRegression(y[:n], x[:n], **options)
    for seed in range(3 if private else 1):
        try:
            res = model.fit(seed=seed if private else None)
        except InferenceError as e:
            assert f"{n:,} have reported" in str(e)  # noqa: PT017
            assert n < 400
            continue
        assert np.isfinite(res.params).all()
        if private:
            assert [note for note in res.privacy.notes if note.startswith(("no intervals yet", "don't rely on"))]
        if res.methods:
            assert np.isfinite(res.bse).all()
        assert str(res.summary())


# --- damaged files -----------------------------------------------------------------------------------------


def damages(array):
    """Ways in which an array may not be what was saved."""
    yield "gone", None
    yield "longer", np.append(array.ravel(), array.ravel()[:1] if array.size else [0.0])
    if array.size:
        yield "another axis", array[None]
        yield "another type", array.astype(str)
    if array.dtype.kind == "i" and array.size:
        yield "smaller", array - 1
        yield "larger", array + 1
        yield "huge", np.full_like(array, 2**62)
        yield "negative", np.full_like(array, -(2**62))
    elif array.dtype.kind == "f" and array.size:
        yield "not numbers", np.full_like(array, np.nan)


UNREAD = {"trail_variances", "chains_steps", "common_steps", "trail_people", "trail_senders"}
"""Arrays whose numbers decide no index: a trail to be shown, steps that may be infinite."""


@functools.cache
def snapshots(name):
    """A stream, and its arrays and its secrets in the middle of every kind of stage."""
    arrays, secrets, stream, at = {}, {}, begin(name), 0
    for k in edges(stream):
        stream.update(part(name, at, k + 5))
        at = k + 5
        for held, out in ((stream._run.to_arrays(), arrays), (stream._run.secrets(), secrets)):
            out[stream._run.kind] = {name: v.copy() for name, v in held.items()}
    return stream, arrays, secrets


@pytest.mark.parametrize("name", EVERY_STAGE)
def test_arrays_that_do_not_fit_are_refused(name):
    stream, arrays_by_kind, _ = snapshots(name)
    for kind, arrays in arrays_by_kind.items():
        fresh = Pipeline(stream._run.start, stream._run.to_user, None)
        fresh.from_arrays(arrays)
        assert fresh.kind == kind
        for key, array in arrays.items():
            for damage, new in damages(array):
                changed = {**arrays, key: new} if new is not None else {k: v for k, v in arrays.items() if k != key}
                fresh = Pipeline(stream._run.start, stream._run.to_user, None)
                try:
                    fresh.from_arrays(changed)
                except (ValueError, KeyError, TypeError):  # load() makes them one kind of error
                    continue
                assert key in UNREAD, f"{key} was {damage} and {kind} took it"
                assert damage not in {"gone", "longer"}


@pytest.mark.parametrize("name", EVERY_STAGE)
def test_damaged_files_are_refused_and_leave_nothing_behind(name, tmp_path):
    path, (_, arrays_by_kind, secrets_by_kind) = tmp_path / "s", snapshots(name)
    begin(name).save(path)
    document, _ = archive.read(path)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    for kind, arrays in arrays_by_kind.items():
        secrets = secrets_by_kind[kind]
        archive.write_archive(path, "stream", document, arrays | secrets)
        assert pr.load(path)._run.kind == kind  # undamaged it is taken
        last = list(arrays)[-1]
        for key in ("position", "total", last, "scatter_rows"):
            for damage, new in damages(arrays[key]):
                changed = {**arrays, key: new} if new is not None else {k: v for k, v in arrays.items() if k != key}
                archive.write_archive(path, "stream", document, changed | secrets)
                with pytest.raises(SavedFileError, match="damaged"):
                    assert pr.load(path) is None, (key, damage)


@pytest.mark.parametrize("key", sorted(UNREAD))
def test_what_is_not_checked_does_no_harm(key, tmp_path):
    path, at = tmp_path / "s", edges(begin("learned scale"))[-1] + 5
    begin("learned scale").update(part("learned scale", 0, at)).save(path)
    document, arrays = archive.read(path)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    for _, new in damages(arrays[key]):
        if new is None:
            continue
        archive.write_archive(path, "stream", document, arrays | {key: new})
        try:
            res = pr.load(path).update(part("learned scale", at, N)).results()
        except PrivregError:  # refused, or steps that are no numbers overflowed the estimates
            continue
        assert np.isfinite(res.params).all()


def test_keys_and_noise_of_another_plan_are_refused(tmp_path):
    path = tmp_path / "s"
    begin("private").update(part("private", 0, 100)).save(path)
    document, arrays = archive.read(path)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    keys, rest, key = (arrays[f"secret_{k}"] for k in ("keys", "score_rest", "score_key"))
    for damage in (
        {"secret_keys": keys[:-KEY_BYTES]},
        {"secret_keys": np.append(keys, keys[:KEY_BYTES])},
        {"secret_keys": keys[:-10]},
        {"secret_keys": np.append(keys, keys[:10])},
        {"secret_keys": keys.astype(np.int64)},
        {"secret_score_key": key[:-1]},
        {"secret_score_rest": rest[:, :-1]},
    ):
        archive.write_archive(path, "stream", document, arrays | damage)
        with pytest.raises(SavedFileError):
            pr.load(path)
    for gone in ("secret_keys", "secret_score_rest", "secret_score_key"):
        archive.write_archive(path, "stream", document, {k: v for k, v in arrays.items() if k != gone})
        with pytest.raises(SavedFileError):
            pr.load(path)
    archive.write_archive(path, "stream", document, arrays)
    assert pr.load(path).nobs == 100


def test_files_of_another_stage_or_plan_are_refused(tmp_path):
    path, early = tmp_path / "s", tmp_path / "t"
    starts = edges(begin("private"))
    begin("private").update(part("private", 0, starts[1] + 5)).save(early)
    begin("private").update(part("private", 0, starts[-1] + 50)).save(path)
    document, arrays = archive.read(path)
    document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
    position, past, weights = arrays["position"], arrays["past"], arrays["weights"]
    # another stage, alone and with as many stages behind as it would have; a person more or less than the chains have
    # seen, here, in all, and in both; a round that was not held whole, or other weights than people
    moves = np.array([[1, 0, 0], [-1, 0, 0], [99, 0, 0], [-99, 0, 0], [0, 1, 1], [0, -1, -1], [0, 1, 0], [0, 0, -10]])
    wrong = [{"position": w} for w in (*(position + moves), position * 0, archive.read(early)[1]["position"])]
    wrong += [{"past": past[:-1]}, {"past": np.append(past, 0)}, {"past": past * 0}, {"past": past[::-1].copy()}]
    wrong += [{"position": position - [1, 0, 0], "past": past[:-1]}]
    for j, k in ((0, 1), (1, -1), (len(past) - 1, -10), (1, 10)):
        moved = past + k * (np.arange(len(past)) == j)
        wrong += [{"past": moved}, {"past": moved, "position": position + np.array([0, 0, k])}]
    wrong += [{"weights": weights + m} for m in ([1.0, 0.0, 0.0], [0.0, -1.0, 0.0], [0.0, 0.0, 1.0], [0.5, -0.5, 0.0])]
    wrong += [{"chains_worth": np.array([0.5])}, {"common_worth": np.array([np.nan])}]
    for damage in wrong:
        archive.write_archive(path, "stream", document, arrays | damage)
        with pytest.raises(SavedFileError):
            assert pr.load(path) is None, damage
    archive.write_archive(path, "stream", document, arrays)
    assert pr.load(path).nobs == starts[-1] + 50  # undamaged it is taken
    other = dict(document, options={**document["options"], "lanes": 9})
    archive.write_archive(path, "stream", other, arrays)
    with pytest.raises(SavedFileError, match="rules this version doesn't follow"):
        pr.load(path)


def test_without_a_constant_second_moments_about_zero_become_the_identity():
    rng = np.random.default_rng(7)
    x = rng.standard_normal((1000, 3)) @ rng.standard_normal((3, 3)) + np.array([2.0, -1.0, 0.5])
    v = np.column_stack([np.ones(1000), x])
    centred = x - x.mean(axis=0)
    rows = np.eye(5)
    rows[1:4, 1:4] = np.linalg.inv(np.linalg.cholesky(centred.T @ centred / 1000))
    rows[1:4, 0] = -rows[1:4, 1:4] @ x.mean(axis=0)
    rows[4] = [0.3, 1.0, 2.0, 3.0, 4.0]
    np.testing.assert_allclose((v @ rows[:4, :4].T).T @ (v @ rows[:4, :4].T) / 1000, np.eye(4), atol=1e-12)
    out = curvature.without_constant(rows, 3)
    np.testing.assert_allclose((x @ out[:3, :3].T).T @ (x @ out[:3, :3].T) / 1000, np.eye(3), atol=1e-12)
    np.testing.assert_array_equal(out[3], [1.0, 2.0, 3.0, 4.0])
    assert np.array_equal(out, np.tril(out))
