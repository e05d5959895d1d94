"""Fits on a Dask cluster: the same bits for any number of workers, none of whose logs holds a row."""

import io
import logging
import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.data.sources.files import paths_of
from privreg.errors import BudgetError, DataError, OptionError, StreamError, UnsupportedArgumentError
from privreg.fits.settings import FitOptions
from privreg.privacy.ledger import LEDGER, Release
from privreg.simulation import workers
from privreg.simulation.workers import blocks_of, fit_blocks

distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")
pytestmark = [
    pytest.mark.foreign_random,  # Dask's own, for pauses between retries
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    # of pandas 3 on
    *(pytest.mark.filterwarnings(f"ignore::pandas.errors.{w}") for w in ["Pandas4Warning"] if hasattr(pd.errors, w)),
]

N, FILES = 20_000, 4
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}


ROUNDS = {"rounds": 10, "progress": False}
"""The fewest, given to each fit: workers are other processes, which `few_rounds` does not reach."""


@pytest.fixture(scope="module")
def few_rounds():
    """Nothing: see above."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(-1, 1, N)})
    data["y"] = 0.5 + data["a"] - data["b"] + rng.normal(0, 0.5, N)
    out = tmp_path_factory.mktemp("folder")
    for i in range(FILES):
        data.iloc[i * N // FILES : (i + 1) * N // FILES].to_parquet(out / f"part{i}.parquet", row_group_size=1_000)
    return out


@pytest.fixture(scope="module")
def client():
    """Of two workers, forked from a process that has imported what they need, which is most of what they cost."""
    from dask import config

    with config.set({"distributed.worker.multiprocessing-method": "forkserver"}):
        distributed.utils.get_mp_context().set_forkserver_preload(["distributed", "pyarrow.parquet", workers.__name__])
        with (
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as local,
            distributed.Client(local) as own,
        ):
            yield own


def model(data, **more):
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **{**PUBLIC, **more})


def bits(res):
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


def in_turn(function, given):
    return [function(*some) for some in given]


@pytest.fixture(scope="module")
def here(folder):
    """The bits of the same fit without Dask."""
    built = model(folder)
    blocks = blocks_of(workers.files_of(built._source, built._spec), built._spec)
    return bits(fit_blocks(built._spec, FitOptions(rounds=10), None, 3, blocks, in_turn)._results(Release(0, 1.0)))


@pytest.mark.thorough
def test_workers_one_or_two_or_none_give_the_same_bits(folder, client, here):
    two = model(folder).fit(client=client, seed=3, **ROUNDS)
    with (
        distributed.LocalCluster(n_workers=1, threads_per_worker=2, processes=False, dashboard_address=":0") as local,
        distributed.Client(local) as own,
    ):
        one = model(dd.read_parquet(folder)).fit(client=own, seed=3, **ROUNDS)
    assert bits(one) == bits(two) == here
    assert two.nobs == N
    assert (np.abs(two.params - [0.5, 1.0, -1.0]) < 5 * two.bse).all()


@pytest.mark.thorough
def test_a_dask_frame_stands_for_its_files(folder, client, here):
    """Which all that is fitted follows from; a fit of a folder's frame is made above."""
    files, built = sorted(map(str, folder.glob("*.parquet"))), model(folder)
    several = model(dd.read_parquet(f"{folder}/part*.parquet")[["y", "a", "b"]])
    for frame in (model(dd.read_parquet(folder)), model(dd.read_parquet(files)), several):
        assert workers.files_of(frame._source, frame._spec) == workers.files_of(built._source, built._spec)
    assert bits(several.fit(client=client, seed=3, **ROUNDS)) == here


def test_frames_that_are_more_than_their_files_are_refused(folder):
    read = dd.read_parquet(folder)
    for frame in (
        read[read["a"] > 0], read.assign(c=1.0), read.partitions[1], read.repartition(npartitions=2),
        dd.read_parquet(folder, filters=[("a", ">", 0)]), dd.from_pandas(pd.DataFrame({"a": [1.0]}), npartitions=1),
    ):  # fmt: skip
        with pytest.raises(UnsupportedArgumentError, match=r"never rows.*ddf\.to_parquet\('folder'\)"):
            model(frame)
    assert paths_of(read) == folder


def places(client):
    return set(client.scheduler_info(n_workers=-1)["workers"])


@pytest.mark.thorough
def test_a_worker_that_is_killed_changes_no_bit(folder, client, here, monkeypatch):
    before, there = set(client.run(os.getpid).values()), places(client)
    submit, tasks = client.submit, []

    def killing(*task, **how):
        tasks.append(submit(*task, **how))
        if len(tasks) == 6:
            os.kill(min(before), signal.SIGKILL)
        return tasks[-1]

    monkeypatch.setattr(client, "submit", killing)
    assert bits(model(folder).fit(client=client, seed=3, **ROUNDS)) == here
    assert len(tasks) >= 10
    limit = time.monotonic() + 60
    while time.monotonic() < limit and not places(client) - there:
        time.sleep(0.1)
    assert places(client) != there  # another worker has come in its place


def test_logs_of_a_task_that_fails_hold_no_row_and_no_key(folder, client, tmp_path):
    for path in folder.glob("*.parquet"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    bad = pd.read_parquet(tmp_path / "part2.parquet")
    marked = 0.123456789
    bad.loc[bad.index[2_500], "a"] = np.nan  # a missing value, which is refused if asked
    bad.loc[bad.index[2_490:2_510], "y"] = marked
    bad.to_parquet(tmp_path / "part2.parquet")
    told, level = io.StringIO(), logging.getLogger("distributed").level
    handler = logging.StreamHandler(told)
    logging.getLogger("distributed").addHandler(handler)
    try:
        with pytest.raises(DataError) as caught:
            model(tmp_path, missing="raise").fit(client=client, **ROUNDS)
    finally:
        logging.getLogger("distributed").removeHandler(handler)
        logging.getLogger("distributed").setLevel(level)
    logs = [text for worker in client.get_worker_logs().values() for _, text in worker]
    logs += [text for _, text in client.get_scheduler_logs()]
    said = "\n".join([str(caught.value), told.getvalue(), *logs])
    assert "0.12345" not in said
    assert "_play" in "\n".join(logs)  # the failure was logged, with the task's arguments
    assert model(tmp_path).fit(client=client, **ROUNDS).nobs == N  # by default it fails nothing


def test_what_is_refused(folder, client):
    with pytest.raises(OptionError, match=r"give a distributed\.Client, or 'local'"):
        model(folder).fit(client=3, **ROUNDS)
    with pytest.raises(UnsupportedArgumentError, match="checkpoint= is for one stream"):
        model(folder).fit(client=client, checkpoint="run", **ROUNDS)
    with pytest.raises(UnsupportedArgumentError, match="workers read rows from files"):
        model(pd.read_parquet(folder)).fit(client=client, **ROUNDS)


@pytest.mark.thorough
def test_releases_are_entered_and_a_limit_is_kept(folder, client, monkeypatch):
    fitted = model(folder)
    people = fitted._source.identity
    before = LEDGER.spent(people)
    fitted.fit(client=client, **ROUNDS)
    assert LEDGER.spent(people) == pytest.approx(np.hypot(before, 1.0))
    monkeypatch.setattr(LEDGER, "_limit", 1.0)
    monkeypatch.setattr(workers, "fit_blocks", lambda *_: pytest.fail("people have reported"))
    with pytest.raises(BudgetError, match="would cost"):
        fitted.fit(client=client, **ROUNDS)


def test_a_cluster_that_does_not_start_names_the_guard(monkeypatch):
    def fail(**_):
        raise RuntimeError("Nanny failed to start.")

    monkeypatch.setattr(distributed, "LocalCluster", fail)
    with pytest.raises(StreamError, match=r"\(RuntimeError\).*below `if __name__ ==") as caught:
        workers.connected("local").__enter__()
    assert caught.value.__context__ is None


def test_workers_that_cannot_finish_are_told_without_their_text(folder):
    class Future:
        key = "x"

        def result(self):
            raise RuntimeError("secret-cell")

    class Client:
        def submit(self, *_, **__):
            return Future()

        def cancel(self, _):
            pass

    with pytest.MonkeyPatch.context() as m:
        m.setattr(distributed, "as_completed", lambda futures: futures)
        each = workers.calling(Client(), lambda _: None)
        with pytest.raises(StreamError, match=r"could not finish \(RuntimeError\)") as caught:
            each(workers._play, [(1, 2, 3)])
    assert caught.value.__context__ is None
