"""Pieces of rounds: results on the way, saving and records of small weight upset neither rounds nor counts."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import StreamError
from privreg.privacy import noise
from privreg.simulation import rounds
from privreg.simulation.rounds import RoundsRun

N = 40_000
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}


@pytest.fixture(scope="module")
def people():
    rng = np.random.default_rng(1)
    out = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(-1, 1, N)})
    out["y"] = 0.5 + out["a"] - out["b"] + rng.normal(0, 0.5, N)
    out["own"] = np.where(np.arange(N) % 2, 1.0, 0.5)
    return out


def model(data=None, **more):
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **{**PUBLIC, **more})


@pytest.mark.thorough
def test_results_between_batches_of_any_size_count_everybody_once(people):
    stream = model(rows=N).start(seed=1)
    for a in range(0, N, 777):
        stream.update(people.iloc[a : a + 777])
        if a > 15_000:
            assert stream.results().nobs == min(a + 777, N)
    res = stream.results()
    assert (np.abs(res.params - [0.5, 1.0, -1.0]) < 5 * res.bse).all()


@pytest.mark.thorough
def test_a_stream_saved_in_the_middle_of_a_round_goes_on(people, tmp_path):
    stream, found = model(rows=N).start(seed=1), []
    stream.update(people.iloc[:21_003])
    stream.save(tmp_path / "half")
    for again in (stream, pr.load(tmp_path / "half")):
        again.update(people.iloc[21_003:])
        found.append(again.results())
    assert found[0].nobs == found[1].nobs == N
    assert found[0].params.to_numpy().tobytes() == found[1].params.to_numpy().tobytes()


def test_records_of_smaller_budgets_count_as_records(people):
    res = model(people, mu="own", mu_max=1.0).fit(seed=1, progress=False)
    assert res.nobs == N
    ends = np.unique(res.trajectory()["n"])
    assert ends[-1] == N
    assert np.ptp(np.diff(ends)[:-1]) <= 1  # main rounds are equal, but for the last


@pytest.mark.usefixtures("usual_rounds")
def test_no_noise_is_drawn_twice(people, monkeypatch):
    keys = []

    def noted(key, count):
        keys.append(key)
        return noise.normals(key, count)

    monkeypatch.setattr(rounds, "normals", noted)
    monkeypatch.setattr(rounds, "PIECE", 500)
    stream = model(rows=N).start()
    for a in range(0, N, 3_100):
        stream.update(people.iloc[a : a + 3_100])
        if a > 15_000:
            stream.results()
    assert len(set(keys)) == len(keys) > 100


def test_an_interrupt_while_a_piece_is_noised_uses_no_sum_twice(people, monkeypatch):
    """Its reports are lost: they are in no sum, and no noise falls on them again."""
    stream = model(rows=N).start(seed=1).update(people.head(N // 2))
    run, opened = stream._run, RoundsRun._open

    def interrupted(self):
        opened(self)
        raise KeyboardInterrupt

    stream.results()
    stream.update(people.iloc[N // 2 : N // 2 + 500])
    before = run.weight.sum()
    monkeypatch.setattr(RoundsRun, "_open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        stream.results()
    monkeypatch.setattr(RoundsRun, "_open", opened)
    assert not run.raw.sum.any()
    run.close()
    assert run.weight.sum() == before
    with pytest.raises(StreamError, match="interrupted"):
        stream.results()
