"""Fits by rounds of tables in any order: a sorted table is as good as a shuffled one, and reads to the same bits."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector.estimation.estimate import estimate
from privreg.data.sources import source
from privreg.errors import OptionError, SavedFileError, UnsupportedArgumentError
from privreg.fits import findings
from privreg.simulation.streaming.stream import Stream

TRUTH = np.array([0.5, 1.0, -1.0])
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}


def people(n, seed):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"a": rng.uniform(-1, 1, n), "b": rng.uniform(-1, 1, n)})
    out["y"] = TRUTH[0] + out["a"] - out["b"] + rng.normal(0, 0.5, n)
    return out


def fitted(data, **how):
    given = {"seed": 3, "progress": False, **how}
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **PUBLIC).fit(**given)


def bits(res):
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


SEEDS, MANY = 12, 40_000


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_a_table_sorted_by_its_response_covers_as_a_shuffled_one():
    def scores(*, by, **how):
        out = []
        for seed in range(SEEDS):
            data = people(MANY, seed)
            res = fitted(data.sort_values("y") if by else data, seed=seed, **how)
            out.append((res.params.to_numpy() - TRUTH) / res.bse.to_numpy())
        return np.array(out)

    # of 36 z-scores, those of a run taken for wholly dependent: mean square 1 with se √(2 / 12)
    most = 1.0 + 3.0 * np.sqrt(2.0 / SEEDS)
    for by in (False, True):
        z = scores(by=by)
        assert (z**2).mean() < most
        assert (np.abs(z) < 1.96).mean() > 0.8
    # by that limit a run by position isn't one of them
    assert (scores(by=True, order="position") ** 2).mean() > most


ORDERS = {
    "the same": lambda t: 0.0 * t,
    "rising": lambda t: 0.5 * t,
    "falling late": lambda t: np.where(t > 0.8, -0.3, 0.0),
    "by seasons": lambda t: 0.3 * np.sin(6.0 * np.pi * t),
}


@pytest.mark.thorough
@pytest.mark.parametrize(("kind", "way"), [*zip(ORDERS, ["stream", "fit", "fit", "stream"], strict=True)])
@pytest.mark.usefixtures("usual_rounds")
def test_effects_that_change_as_records_come_are_noted_if_records_come_in_order(kind, way):
    data = people(MANY, 5)
    data["y"] += ORDERS[kind](np.arange(MANY) / MANY) * (1.0 if way == "fit" else 1.0 + data["a"])
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **{**PUBLIC, "mu": 3}, rows=MANY)
    if way == "fit":
        res = model.fit(seed=3, progress=False, order="position")
    else:
        stream = model.start(seed=3)
        for first in range(0, MANY, 10_000):
            stream.update(data.iloc[first : first + 10_000])
        res = stream.results()
    assert any(note.code == "changing" for note in res.privacy.notes) == (kind != "the same")
    assert not any(note.code == "changing" for note in res.windows(by=MANY / 4).doubts)  # that is what they are for
    shuffled = model.fit(seed=3, progress=False)
    assert not any(note.code == "changing" for note in shuffled.privacy.notes)


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")
def test_so_they_are_where_reports_of_a_round_are_one_sum():
    data = people(MANY, 5)
    data["y"] += ORDERS["rising"](np.arange(MANY) / MANY)
    run = pr.PrivateOnlineRegression.from_formula("y ~ a + b", **{**PUBLIC, "mu": 3}, rows=MANY).start(seed=3)
    progress = run.update(data)._run.held().progress
    whole = [
        one._replace(weight=one.weight.sum(axis=0, keepdims=True), score=one.score.sum(axis=0, keepdims=True))
        for one in progress.scored
    ]
    for parts in (progress.scored, whole):
        here = progress._replace(scored=tuple(parts))
        assert findings._changing(run._run.plan, here, estimate(run._run.plan, here), shuffled=False)


@pytest.mark.thorough
def test_chunks_and_threads_change_no_bit(monkeypatch):
    data = people(60_000, 1).sort_values("y")
    right = bits(fitted(data, threads=1))
    assert bits(fitted(data, threads=2)) == right
    monkeypatch.setattr(source, "CHUNK", 700)
    assert bits(fitted(data, threads=2)) == right
    monkeypatch.setattr(source, "chunk_of", lambda _: 5_000)
    assert bits(fitted(data, threads=1)) == right


@pytest.mark.thorough
def test_arrays_and_tables_of_any_library_are_read_in_the_same_order():
    import polars as pl
    import pyarrow as pa

    data = people(20_000, 1)
    right = bits(fitted(data))
    for other in (dict(data.items()), pl.from_pandas(data), pa.Table.from_pandas(data)):
        assert bits(fitted(other)) == right
    exog = np.column_stack([np.ones(len(data)), data["a"], data["b"]])
    model = pr.PrivateOnlineRegression(
        data["y"], exog, exog_names=["const", "a", "b"], endog_name="y", **PUBLIC
    )  # fmt: skip
    np.testing.assert_array_equal(model.fit(seed=3, progress=False).params.to_numpy(), fitted(data).params.to_numpy())


def test_without_a_seed_the_order_is_fresh_and_without_privacy_it_is_fixed(monkeypatch):
    keys = []
    original = source.dealt_rows

    def noted(rows, key, *more):
        keys.append(key)
        return original(rows, key, *more)

    monkeypatch.setattr("privreg.data.sources.tables.dealt_rows", noted)
    data = people(3_000, 1)
    fitted(data, seed=None)
    fitted(data, seed=None)
    pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **PUBLIC | {"mu": None}).fit(progress=False)
    assert len({*keys}) == 3
    assert keys[2] is None


@pytest.mark.thorough
def test_position_takes_rows_as_they_lie(tmp_path):
    data = people(20_000, 1)
    data.to_csv(tmp_path / "rows.csv", index=False)
    assert bits(fitted(data, order="position")) == bits(fitted(tmp_path / "rows.csv"))
    assert bits(fitted(data)) == bits(fitted(data, order="random")) != bits(fitted(data, order="position"))


def test_ids_and_budgets_travel_with_their_rows(monkeypatch):
    data = people(20_000, 1)
    data["person"] = np.arange(20_000) % 15_000
    data["own"] = np.where(data["a"] > 0, 1.0, 0.5)
    seen = []
    original = Stream._take

    def noted(self, rows, taken):
        seen.append(rows)
        return original(self, rows, taken)

    monkeypatch.setattr(Stream, "_take", noted)
    given = PUBLIC | {"mu": "own", "mu_max": 1.0, "id": "person"}
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **given)
    model.fit(seed=1, progress=False)
    x, weight = (np.concatenate([getattr(r, c) for r in seen]) for c in ("x", "weight"))
    hashes = np.concatenate([r.hashes for r in seen])
    sides = x[:, 1] > 0 if (x[:, 1] > 0).mean() < 0.9 else x[:, 0] > 0
    np.testing.assert_array_equal(weight, np.where(sides, 1.0, 0.25))
    assert len(np.unique(hashes)) == 15_000


# --- checkpoints -------------------------------------------------------------------------------------------


class Killed(BaseException):
    """As if the process had ended there."""


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Files of which a third can be held at a time, and dealt rows that come in small batches."""
    monkeypatch.setattr(source, "CHUNK", 1_000)
    monkeypatch.setattr(source, "HELD", 3 * 20_000)
    monkeypatch.setattr(source, "chunk_of", lambda columns: 2_000)
    folder = tmp_path / "files"
    folder.mkdir()
    data = people(60_000, 1)
    for i in range(3):
        data.iloc[20_000 * i : 20_000 * (i + 1)].to_parquet(folder / f"{i}.parquet", row_group_size=2_000)
    return folder


def stopped(monkeypatch, rows, error=Killed):
    original = Stream._take

    def take(self, given, read):
        if self.rows_read >= rows:
            raise error
        original(self, given, read)

    monkeypatch.setattr(Stream, "_take", take)


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", [3, None])
def test_a_fit_that_is_killed_goes_on_in_the_same_order(files, tmp_path, monkeypatch, seed):
    kept, read = tmp_path / "run", []
    original = Stream._take

    def noted(self, rows, taken):
        original(self, rows, taken)
        read.append((self.rows_read, rows.y))

    how = {"checkpoint": kept, "checkpoint_rows": 1, "seed": seed}
    for stop in (9_000, 31_000):
        with monkeypatch.context() as m:
            m.setattr(Stream, "_take", noted)
            stopped(m, stop)
            with pytest.raises(Killed):
                fitted(files, **how)
    with monkeypatch.context() as m:
        m.setattr(Stream, "_take", noted)
        res = fitted(files, **how)
    assert res.nobs == 60_000
    if seed is not None:
        assert bits(res) == bits(fitted(files))
    at = {end: y for end, y in read}
    ends = sorted(at)
    assert ends[-1] == 60_000
    assert len(np.unique(np.concatenate([at[e] for e in ends]))) == 60_000


@pytest.mark.thorough
def test_what_was_mended_keeps_its_order_and_must_keep_its_row_groups(files, tmp_path, monkeypatch):
    kept = tmp_path / "run"
    for mended in (False, True):
        with monkeypatch.context() as m:
            stopped(m, 20_000, KeyboardInterrupt)
            with pytest.raises(KeyboardInterrupt):
                fitted(files, checkpoint=kept, seed=None, mended=mended)
        data = pd.read_parquet(files / "2.parquet")
        data.to_parquet(files / "2.parquet", row_group_size=2_000)
    again = kept.read_bytes()
    assert fitted(files, checkpoint=kept, seed=None, mended=True).nobs == 60_000
    kept.write_bytes(again)
    data.to_parquet(files / "2.parquet", row_group_size=4_000)
    with pytest.raises(SavedFileError, match="reads rows in random order, which follows from the row groups"):
        fitted(files, checkpoint=kept, seed=None, mended=True)


# --- what is refused ---------------------------------------------------------------------------------------


def test_what_cannot_be(tmp_path):
    data = people(3_000, 1)
    with pytest.raises(OptionError, match="order='random' goes with tuning='efficient'"):
        fitted(data, tuning="published", order="random")
    with pytest.raises(OptionError, match="order"):
        fitted(data, order="sorted")
    data.to_csv(tmp_path / "rows.csv", index=False)
    with pytest.raises(UnsupportedArgumentError, match="order='random' needs rows that can be addressed"):
        fitted(tmp_path / "rows.csv", order="random")
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **PUBLIC)
    with pytest.raises(UnsupportedArgumentError, match="order"):
        model.start(order="random")
