"""What is spent is in the ledger before the first report, stays there whatever becomes of the fit, and counts once."""

import gc
import os
import shutil

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.data.sources.open import CHUNK
from privreg.errors import BudgetError, DataError
from privreg.fits.settings import FitOptions
from privreg.privacy.accounts import accounts_of
from privreg.privacy.ledger import LEDGER
from privreg.privacy.noise import NoiseStream
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.streaming.stream import Stream
from privreg.simulation.workers import blocks_of, files_of, fit_blocks
from privreg_field.collector import chain as chains
from privreg_field.study.reading.collected import chain_of
from privreg_field.study.simulated.devices import Crowd
from privreg_field.wire import messages
from tests.service import world
from tests.studies import field_state

N = 20_000
BOUNDS = {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}


class Stopped(BaseException):
    """As Ctrl-C, wherever it comes."""


def people(n=N):
    rng = np.random.default_rng(1)
    a, b = rng.uniform(-1, 1, (2, n))
    return pd.DataFrame({"a": a, "b": b, "y": 0.5 + a - b + rng.normal(0, 0.5, n)})


def regression(data, **more):
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=1, bounds=BOUNDS, **more)


def batches(model, data):
    stream = model.start()
    stream.update(data)
    return stream.results()


def simulated(data, path):
    return data, lambda: pr.simulate(regression(None).plan(N), data)


def several_processes(data, path):
    path = path.with_suffix(".parquet")
    data.to_parquet(path, row_group_size=2_000)
    spec = regression(None)._spec
    source = spec.open(path)

    def play():
        blocks = blocks_of(files_of(source, spec), spec)
        given = spec, FitOptions(), None, None, blocks
        return fit_blocks(*given, lambda one, each: [one(*some) for some in each], source.identity)._results()

    return source.identity, play


def swarm(data, path):
    path.mkdir()
    plan, plan_hash, _ = world.plan_of(path, rows=16_000, mu=1)
    rows = world.people(40)
    crowd = Crowd(plan, plan_hash, rows)
    chain = chain_of(plan)
    opened = field_state(plan_hash, chains.present_ask(chain))
    state = messages.read_state(messages.state_payload(opened), plan, plan_hash)
    tokens = [messages.Token(1, k.to_bytes(16, "big"), bytes(16)) for k in range(40)]
    return rows, lambda: crowd.bodies(state, range(40), tokens)


def means(data):
    return pr.means.PrivateMeans(["y"], data, mu=1, bounds=BOUNDS)


def curator(data, path):
    data = data[:2_000]
    model = pr.central.Regression.from_formula("y ~ a + b", data, mu=1, bounds=BOUNDS, family=pr.Huber(scale=1.0))
    return data, lambda: model.fit(progress=False)


def descent(data, path):
    data, family = data[:2_000], pr.Huber(scale=1.0)
    model = pr.central.Regression.from_formula("y ~ a + b", data, mu=1, bounds=BOUNDS, family=family)
    return data, lambda: model.fit(tuning="published", epochs=20, progress=False)


def silos(data, path):
    parts = [data.iloc[: N // 2], data.iloc[N // 2 :]]
    binary = [part.assign(y=part["y"] > 0) for part in parts]
    public = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1)}}
    model = pr.federated.FederatedRegression.from_formula("y ~ a + b", binary, **public)
    return data, lambda: model.fit(progress=False)


DOORS = {
    "fit": lambda data, _: (data, lambda: regression(data).fit(progress=False)),
    "fit, in threads": lambda data, _: (data, lambda: regression(data).fit(progress=False, threads=2)),
    "fit, published": lambda data, _: (data, lambda: regression(data).fit(tuning="published", progress=False)),
    "fit, two collectors": lambda data, _: (data, lambda: regression(data, trust="two_collectors").fit(progress=False)),
    "update": lambda data, _: (data, lambda: batches(regression(None), data)),
    "simulate": simulated,
    "several processes": several_processes,
    "means": lambda data, _: (data, lambda: means(data).fit(progress=False)),
    "update of means": lambda data, _: (data, lambda: batches(means(None), data)),
    "curator": curator,
    "curator, published": descent,
    "silos": silos,
    "swarm": swarm,
}


def stop_at_first(monkeypatch, seen):
    """Stop whatever draws noise first."""

    def stop(*_):
        seen()
        raise Stopped

    monkeypatch.setattr(NoiseStream, "_fill", stop)
    monkeypatch.setattr(RoundsRun, "_normals", stop)
    monkeypatch.setattr("privreg.simulation.aggregate.normals", stop)
    monkeypatch.setattr("privreg_field.study.simulated.devices.rounded_normals", stop)


@pytest.mark.parametrize("door", DOORS)
def test_a_release_is_entered_before_its_first_report_and_never_taken_back(door, tmp_path, monkeypatch):
    who, play = DOORS[door](people(), tmp_path / "data")
    assert LEDGER.spent(who) == 0.0
    spent = []
    with monkeypatch.context() as m:
        stop_at_first(m, lambda: spent.append(LEDGER.spent(who)))
        with pytest.raises(Stopped):
            play()
    assert spent == pytest.approx([1.0])
    assert LEDGER.spent(who) == pytest.approx(1.0)
    if door != "swarm":  # which is the same devices, and no other release
        play()
        assert LEDGER.spent(who) == pytest.approx(np.sqrt(2))
    pr.limit_spending(0.5)
    with pytest.raises(BudgetError):
        DOORS[door](people(), tmp_path / "other")[1]()
    pr.limit_spending(None)


@pytest.mark.parametrize("door", ["fit", "fit, published", "update", "means", "update of means", "silos"])
def test_what_fails_before_anybody_has_reported_costs_nothing(door, tmp_path):
    data = people().drop(columns="a" if door.endswith("silos") else "y")
    try:
        who, play = DOORS[door](data, tmp_path / "data")
    except (DataError, KeyError):
        who = data
    else:
        with pytest.raises(DataError):
            play()
    assert LEDGER.spent(who) == 0.0


@pytest.mark.parametrize("batch", [pd.DataFrame, dict])
def test_batches_of_a_stream_are_entered_each_once(batch):
    data = people()
    whole = data if batch is pd.DataFrame else {c: data[c].to_numpy() for c in data}
    parts = [data[k : k + 5_000] for k in range(0, N, 5_000)]
    if batch is dict:
        parts = [{c: part[c].to_numpy() for c in part} for part in parts]
    gc.collect()
    LEDGER.spent(data)  # entries of what is gone go now
    known = accounts_of(whole).now()
    others = {one.key: len(LEDGER._spent.get(one.key, ())) for one in known}  # a block of memory may have other arrays
    stream = regression(None).start()
    for part in parts:
        stream.update(part)
        assert LEDGER.spent(part) == 1.0
        with pytest.raises(DataError):
            stream.update(batch({"a": part["a"]}))
    assert LEDGER.spent(data) == pytest.approx(1.0)  # each row once
    here = others.keys() & LEDGER._spent.keys()
    more = [len(LEDGER._spent[key]) - others[key] for key in here]
    assert 1 <= max(more) <= 4  # batches that follow each other are one entry, a column
    stream.update(parts[0])
    assert LEDGER.spent(parts[0]) == pytest.approx(np.sqrt(2))
    assert stream.results().privacy.release.number == 0
    pr.limit_spending(1.2)
    try:
        with pytest.raises(BudgetError, match="release 2"):
            stream.update(parts[1])
        assert stream.update(people(500)).nobs == N + 5_500
    finally:
        pr.limit_spending(None)


# --- fits that go on --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    path = tmp_path_factory.mktemp("written") / "people.csv"
    people(CHUNK + 5_000).round(6).to_csv(path, index=False)
    return path


@pytest.fixture
def file(tmp_path, written):
    return shutil.copy(written, tmp_path / "people.csv")


def stopped(monkeypatch, file, kept, batch=1, **how):
    """A fit that is stopped before it has had so many batches."""
    original, had = Stream._take, []

    def take(self, rows, read):
        had.append(rows)
        if len(had) == batch:
            raise KeyboardInterrupt
        original(self, rows, read)

    with monkeypatch.context() as m:
        m.setattr(Stream, "_take", take)
        with pytest.raises(KeyboardInterrupt):
            regression(file).fit(checkpoint=kept, progress=False, **how)


def test_a_fit_that_goes_on_counts_once_and_a_fresh_one_anew(file, tmp_path, monkeypatch):
    kept, who = tmp_path / "run", regression(file)._source.identity
    pr.limit_spending(1.2)
    try:
        for batch in (1, 2, 1):
            stopped(monkeypatch, file, kept, batch)
            assert LEDGER.spent(who) == 1.0
        with pytest.raises(BudgetError, match="release 2"):
            regression(file).fit(progress=False)
        with pytest.raises(BudgetError, match="release 2"):
            regression(file).fit(progress=False, checkpoint=tmp_path / "other")
        assert not (tmp_path / "other").exists()
        res = regression(file).fit(checkpoint=kept, progress=False)
    finally:
        pr.limit_spending(None)
    assert (res.privacy.release.number, res.privacy.total_mu) == (1, 1.0)
    stopped(monkeypatch, file, kept)
    assert LEDGER.spent(who) == pytest.approx(np.sqrt(2))


def test_a_copy_of_a_checkpoint_counts_by_its_noise(file, tmp_path, monkeypatch):
    kept, copy, other = (tmp_path / name for name in ("run", "copy", "other"))
    who = regression(file)._source.identity
    stopped(monkeypatch, file, kept, batch=2)
    for path in (copy, other):
        shutil.copy(kept, path)
    first = regression(file).fit(checkpoint=kept, progress=False)
    same = regression(file).fit(checkpoint=copy, progress=False)
    assert LEDGER.spent(who) == 1.0  # the same reports
    np.testing.assert_array_equal(first.params, same.params)
    os.utime(file, (1, 1))
    mended = regression(file).fit(checkpoint=other, mended=True, progress=False)
    assert (mended.params != first.params).any()  # the rest of the rows has reported twice
    assert LEDGER.spent(who) == pytest.approx(np.sqrt(2))


def test_rows_that_are_mended_count_once(file, tmp_path, monkeypatch):
    kept, copy, who = tmp_path / "run", tmp_path / "copy", regression(file)._source.identity
    stopped(monkeypatch, file, kept, batch=2)
    shutil.copy(kept, copy)
    os.utime(file, (1, 1))
    assert regression(file).fit(checkpoint=kept, mended=True, progress=False).privacy.release.number == 1
    assert LEDGER.spent(who) == 1.0
    assert regression(file).fit(checkpoint=copy, mended=True, progress=False).privacy.release.number == 2
