"""Fits by rounds over files: the same bits wherever, in whatever order and however often a piece is played."""

import pickle

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.estimation.combination import counted
from privreg.data.sources.open import file_mark
from privreg.errors import DataError, OptionError
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import Release
from privreg.privacy.noise import Key, normals
from privreg.simulation import devices, rounds, workers
from privreg.simulation.rounds import Sent
from privreg.simulation.workers import Span, Work, blocks_of, fit_blocks, split

N, FILES = 60_000, 4
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}
TRUTH = np.array([0.5, 1.0, -1.0])


def in_turn(function, given):
    return [function(*some) for some in given]


def table(n, seed=1):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    out["y"] = TRUTH[0] + out["a"] - out["b"] + rng.normal(0, 0.5, n)
    return out


def whole(folder, kind="parquet"):
    """Its files."""
    out = []
    for path in sorted(folder.glob(f"*.{kind}")):
        rows = len(pd.read_parquet(path)) if kind == "parquet" else len(pd.read_csv(path))
        out.append(Span(str(path), 0, rows, tuple(file_mark(path)[1:])))
    return out


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    out, data = tmp_path_factory.mktemp("files"), table(N)
    for i in range(FILES):
        some = data.iloc[i * N // FILES : (i + 1) * N // FILES]
        some.to_parquet(out / f"part{i}.parquet", row_group_size=750)
        some.to_csv(out / f"part{i}.csv", index=False)
    return out


def model(**more):
    given = {**PUBLIC, **more}
    if "epsilon" in given:
        del given["mu"]
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **given)


def stream_of(files, each=in_turn, seed=3, how=None, **more):
    spec = model(**more)._spec
    return fit_blocks(spec, FitOptions(**(how or {})), None, seed, blocks_of(files, spec), each)


def fitted(files, each=in_turn, **more):
    return stream_of(files, each, **more)._results(Release(0, 1.0))


def bits(res):
    return res.params.to_numpy().tobytes() + b"".join(
        res.cov_params(method=m).to_numpy().tobytes() for m in res.methods
    )


# --- blocks ------------------------------------------------------------------------------------------------


def test_row_groups_are_blocks_and_few_large_ones_are_cut(folder):
    spec = model()._spec
    groups = blocks_of(whole(folder), spec)
    assert [b.rows for b in groups] == [750] * 80
    lines = blocks_of(whole(folder, "csv"), spec)
    assert len(lines) == 8
    for found in (groups, lines):
        assert sum(b.rows for b in found) == N
        ends = {}
        for b in found:
            assert b.first == ends.get(b.path, 0)
            ends[b.path] = b.first + b.rows
        assert set(ends.values()) == {N // FILES}


def played(each=in_turn):
    """What pieces are played, and how functions are called so that it is known."""
    seen = []

    def noted(function, given):
        seen.append(list(given))
        return each(function, given)

    return seen, noted


def test_every_row_is_played_once_in_an_order_that_the_key_chooses(folder):
    orders = []
    for seed in (3, 3, 4):
        seen, noted = played()
        stream_of(whole(folder), noted, seed)
        spans = [s for given in seen for some in given for s in some[1]]
        rows = [(s.path, place) for s in spans for place in s.places().tolist()]
        assert len(rows) == len(set(rows)) == N
        assert [some[2] for given in seen for some in given] == [
            sum(s.rows for s in some[1]) for given in seen for some in given
        ]
        orders.append(spans)
        early = [s for given in seen for some in given if some[5].role != "main" for s in some[1]]
        assert len({(s.path, s.of) for s in early}) > 40  # of 80 row groups; whole ones would be 19
        assert all(np.ptp(s.places()) > s.of[1] / 2 for s in early if s.rows > 100)
    assert orders[0] == orders[1] != orders[2]
    seen, noted = played()
    stream_of(whole(folder), noted, how={"order": "position"})
    spans = [s for given in seen for some in given for s in some[1]]
    assert spans == sorted(spans)


# --- the same bits -----------------------------------------------------------------------------------------


def backwards(function, given):
    return [function(*some) for some in reversed(given)][::-1]


def twice(function, given):
    for some in given:
        function(*some)
    return [function(*some) for some in given]


def elsewhere(function, given):
    """As if on another machine: all that is sent is sent as bytes."""
    return [pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(some))))) for some in given]


METHODS = {"how": {"inference": ("sandwich", "random_scaling", "batch_means")}}


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("each", "more"),
    [(backwards, METHODS), (twice, METHODS), (elsewhere, METHODS), (elsewhere, {"epsilon": 2.0}),
     (elsewhere, {"scaling": "private", "bounds": {}})],
    ids=["backwards", "twice", "elsewhere", "privunit", "private scale"],
)  # fmt: skip
def test_order_repetition_and_place_change_no_bit(folder, each, more):
    files = whole(folder)
    assert bits(fitted(files, each, **more)) == bits(fitted(files, **more))


def test_without_a_seed_the_noise_and_the_order_are_fresh(folder):
    orders = []
    for _ in range(2):
        seen, noted = played()
        stream_of(whole(folder), noted, None)
        orders.append([some[1] for given in seen for some in given])
    assert orders[0] != orders[1]


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")
def test_everybody_is_counted_once_and_the_estimate_is_that_of_one_stream(folder):
    names = ("sandwich", "random_scaling", "batch_means")
    res = fitted(whole(folder), how={"inference": names})
    assert res.nobs == N
    assert res.trajectory()["n"].max() == N
    for name in names:
        assert (np.abs(res.params - TRUTH) < 5 * res.using(name).bse).all()
    files = sorted(folder.glob("*.parquet"))
    alone = pr.PrivateOnlineRegression.from_formula("y ~ a + b", files, **{**PUBLIC, "mu": None}).fit(progress=False)
    stream = stream_of(whole(folder), mu=None)  # noise makes standard errors differ by a fifth
    without = stream._results(Release(0, 1.0))
    np.testing.assert_allclose(without.bse, alone.bse, rtol=0.1)
    # each is a mean over the share f of the records whose rounds count. Two random shares have f of their records in
    # common, so that the correlation of the means is f
    run = stream._run
    f = sum(seen.weight.sum() for seen in counted(run.plan, run.progress)) / N
    assert 0.85 < f < 0.95
    assert (np.abs(without.params - alone.params) < 3 * np.sqrt(2 * (1 - f)) * alone.bse).all()


@pytest.mark.thorough
def test_rows_that_are_sorted_over_all_files_give_the_truth(tmp_path):
    data = table(N).sort_values("y")  # row groups read from their first row to their last: 5 standard errors off
    data.to_parquet(tmp_path / "x.parquet", row_group_size=750)
    res = fitted(whole(tmp_path), mu=None)
    assert (np.abs(res.params - TRUTH) < 4 * res.bse).all()


def test_a_task_reads_a_row_group_once_and_gives_the_rows_at_its_places(folder):
    seen, noted = played()
    stream_of(whole(folder), noted)
    work, part, rows = next(some for some in seen[0] if len({s.of for s in some[1]}) > 1)[:3]
    spans, _ = split(part, rows)
    (one,) = spans[:1]
    found = pd.concat([pd.DataFrame({c: batch[c] for c in ("a", "b", "y")}) for batch in work.batches(part, rows)])
    assert len(found) == rows
    of_one = pd.read_parquet(one.path).iloc[
        np.concatenate([s.places() for s in spans if s.of == one.of and s.path == one.path])
    ]
    np.testing.assert_array_equal(found[: len(of_one)], of_one[["a", "b", "y"]])


def test_unusable_records_and_budgets_of_their_own_are_played_as_in_one_place(tmp_path):
    data = table(40_000)
    data.loc[::10, "a"] = np.nan
    data["own"] = np.where(np.arange(40_000) % 2, 1.0, 0.5)
    data.to_parquet(tmp_path / "x.parquet", row_group_size=2_000)
    res = fitted(whole(tmp_path), mu="own", mu_max=1.0)
    assert res.nobs == 40_000
    assert bits(res) == bits(fitted(whole(tmp_path), elsewhere, mu="own", mu_max=1.0))


@pytest.mark.thorough
def test_no_noise_without_privacy_and_the_sum_of_pieces_is_that_of_the_rows(folder):
    seen, sums = [], []

    def noted(function, given):
        found = in_turn(function, given)
        seen.extend(given)
        sums.extend(zip(given, found, strict=True))
        return found

    stream = stream_of(whole(folder), noted, mu=None)
    reports = stream._run.chain.batches[0]
    role = stream._run.plan.rounds[0]
    assert role.role == "moments"
    first = [one for some, sent in sums if some[5].number == 0 for one in sent]
    np.testing.assert_array_equal(sum(s.total for s in first) * rounds.STEP, reports.total[0])
    assert sum(s.weight.sum() for s in first) == reports.people == role.people
    data = pd.concat(pd.read_parquet(s.path).iloc[s.places()] for some in seen if some[5].number == 0 for s in some[1])
    x, units = np.column_stack([np.ones(len(data)), data["a"], data["b"]]), stream._spec.units
    units.rows_inside(x)
    v = np.column_stack([x, units.response_inside(data["y"].to_numpy())])
    np.testing.assert_allclose(reports.total[0], devices.moments(seen[0][5], v, None), rtol=1e-6)


# --- what is sent ------------------------------------------------------------------------------------------


def test_what_comes_back_has_its_noise(folder):
    """Sums of the same records at the same state differ by the mechanism's noise, key by key."""
    spec = model()._spec
    block, options = blocks_of(whole(folder), spec)[0], FitOptions()
    work = Work(spec, options, None, N)
    run = work.stream()._run
    state, part, n = run.progress.state, (block,), block.rows
    many = [
        workers._play(work, part, n, [n], [Key(bytes([k]) * 32)], state)[0].total[0] * rounds.STEP for k in range(100)
    ]
    sd = run.plan.sd(state.role) * np.sqrt(block.rows)
    found = np.std(many, axis=0, ddof=1)
    assert np.abs(found / sd - 1.0).max() < 4.5 / np.sqrt(2 * 99)
    assert np.abs(np.corrcoef(np.transpose(many)) - np.eye(len(found))).max() < 4.5 / np.sqrt(100)
    with pytest.raises(DataError, match="could not be worked on"):
        workers._play(work, part, n, [n], [None], state)


@pytest.mark.usefixtures("usual_rounds")
def test_tasks_hold_no_rows_and_print_no_keys_and_no_two_have_the_same(folder):
    seen, noted = played()
    stream_of(whole(folder), noted, None)
    given = [some for one in seen for some in one]
    keys = [key.value for some in given for key in some[4]]
    assert len(set(keys)) == len(keys) > 100
    keys += {span.order for some in given for span in some[1]}
    raw = pd.concat(pd.read_parquet(path) for path in sorted(folder.glob("*.parquet")))
    values = {float(v) for v in raw.to_numpy().ravel()}
    for some in given:
        said = repr(some)
        assert "Key()" in said
        assert not any(key.value.hex() in said or repr(key.value) in said for key in some[4])
        assert not values & {float(v) for part in some[5] if isinstance(part, np.ndarray) for v in part.ravel()}
        assert not any(isinstance(v, pd.DataFrame) for v in some)


@pytest.mark.usefixtures("usual_rounds")
def test_every_piece_of_a_task_is_noised_by_its_own_key(folder, monkeypatch):
    drawn = []

    def noted(key, count):
        drawn.append(key)
        return normals(key, count)

    monkeypatch.setattr(rounds, "normals", noted)
    seen, each = played()
    stream_of(whole(folder), each)
    assert any(len(some[3]) > 1 for given in seen for some in given)
    assert len(set(drawn)) == len(drawn) > 100


def test_sums_are_whole_numbers_however_large_the_noise(folder):
    spec = model(mu=1e-9)._spec
    block = blocks_of(whole(folder), spec)[0]
    work = Work(spec, FitOptions(), None, N)
    state, n = work.stream()._run.progress.state, block.rows
    (sent,) = workers._play(work, (block,), n, [n], [Key(b"k" * 32)], state)
    assert isinstance(sent, Sent)
    assert sent.total.dtype == np.int64
    assert 2**60 < np.abs(sent.total).max() <= 2**62


def test_small_pieces_are_one_task_and_large_ones_are_apart():
    assert workers._together([10, 20, 30]) == [[0, 1, 2]]
    assert workers._together([60_000, 5_536, 1, 65_536, 65_536]) == [[0, 1], [2], [3], [4]]
    assert workers._together([]) == []


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")
def test_large_pieces_are_cut_and_spread_over_tasks(folder, monkeypatch):
    monkeypatch.setattr(rounds, "PIECE", 1_000)
    monkeypatch.setattr(workers, "PIECE", 1_000)
    seen, noted = played()
    res = fitted(whole(folder), noted)
    assert max(some[2] for given in seen for some in given) <= 1_000
    assert max(map(len, seen)) == 5
    assert res.nobs == N
    assert (np.abs(res.params - TRUTH) < 5 * res.bse).all()
    assert bits(res) == bits(fitted(whole(folder), backwards))


def test_errors_of_workers_quote_no_row(folder, monkeypatch):
    def fail(*_, **__):
        raise ValueError("secret-cell")

    monkeypatch.setattr("privreg.simulation.streaming.stream.Stream._update_all", fail)
    with pytest.raises(DataError, match=r"could not be worked on \(ValueError; its text is withheld") as caught:
        fitted(whole(folder))
    assert "secret" not in "".join(map(str, (caught.value, caught.value.__context__, caught.value.__cause__)))


def test_a_file_that_has_changed_is_named(folder):
    first, *rest = whole(folder)
    with pytest.raises(DataError, match=r"part0\.parquet' is not what it was when the fit began"):
        fitted([first._replace(mark=(first.mark[0], first.mark[1] + 1, first.mark[2])), *rest])


# --- what is refused ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "error", "message"),
    [
        ({"id": "who"}, OptionError, "id= counts a person's rows"),
        ({"missing": "drop"}, OptionError, "missing='drop' can't be used with Dask"),
        ({"how": {"measures": 0.1}}, OptionError, "measures="),
    ],
)
def test_what_blocks_cannot_do(folder, more, error, message):
    how = more.pop("how", {})
    with pytest.raises(error, match=message):
        fit_blocks(model(**more)._spec, FitOptions(**how), None, 1, whole(folder), in_turn)


@pytest.mark.thorough
def test_pieces_of_many_levels_know_how_rows_come(tmp_path):
    # one column holds the codes of all levels: a worker that took it for a number would find no line
    rng, names = np.random.default_rng(1), [f"l{k:03d}" for k in range(98)]
    data = pd.DataFrame({"g": rng.choice(names, 12_000), "x": rng.random(12_000)})
    data["y"] = data["x"] + 0.1 * rng.standard_normal(12_000)
    data.to_parquet(tmp_path / "all.parquet", row_group_size=2_000)
    spec = pr.PrivateOnlineRegression.from_formula(
        "y ~ g + x", None, mu=100, bounds={"x": (0, 1), "y": (-1, 2)}, levels={"g": names}
    )._spec
    stream = fit_blocks(spec, FitOptions(), None, 3, blocks_of(whole(tmp_path), spec), in_turn)
    res = stream._results(Release(0, 100.0))
    assert res.nobs == 12_000
    assert abs(res.params["x"] - 1.0) < 5 * res.bse["x"] < 0.25
