"""Streams: any chunks, any source, saved and resumed, to the same bits; keys spent once."""

import pickle
import stat
import threading
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.errors import DataError, InferenceError, PrivregWarning, SavedFileError, SchemaError, StreamError
from tests.helpers import array_model, people, read_saved

pytestmark = pytest.mark.usefixtures("small_blocks")
FORMULA = "y ~ a + b + I(a * b) + g"
OPTIONS = {
    "family": pr.Huber(scale=0.3),
    "mu": 1,
    "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)},
    "levels": {"g": ["u", "v", "w"]},
}


def table(n=3000, seed=3):
    x, y = people(n, seed)
    g = np.random.default_rng(seed).choice(["u", "v", "w"], n)
    return pd.DataFrame({"a": x[:, 1].round(6), "b": x[:, 2].round(6), "g": g, "y": y.round(6), "unused": "SECRET"})


def model(data, **more):
    """A model that knows of 3,000 people, so that the rounds of the default fit end within them."""
    return pr.PrivateOnlineRegression.from_formula(FORMULA, data, **{**OPTIONS, "rows": 3000, **more})


def fitted(m, tuning="efficient", **how):
    """A fit that takes rows as they lie, as a stream does."""
    order = None if tuning == "published" else "position"
    return m.fit(tuning=tuning, order=order, **how)


WAYS = {
    "efficient": {},
    "random scaling": {"inference": "random_scaling", "lanes": 8},
    "both": {"inference": ("random_scaling", "between_lanes")},
    "published": {"tuning": "published", "inference": ("random_scaling", "plug_in"), "batch_size": 3},
}
EVERY_WAY = pytest.mark.parametrize("way", WAYS)
BOTH = pytest.mark.parametrize("tuning", ["efficient", "published"])


def assert_same(one, two):
    for name in ("params", "last", "trail_params", "trail_variances", "trail_n"):
        np.testing.assert_array_equal(getattr(one._fit, name), getattr(two._fit, name))
    for a, b in zip(one._fit.estimates, two._fit.estimates, strict=True):
        np.testing.assert_array_equal(a.cov, b.cov)


@pytest.mark.thorough
@pytest.mark.some(1)
@BOTH
def test_every_source_of_the_same_rows_gives_the_same_bits(tmp_path, tuning):
    data = table()
    data.to_csv(tmp_path / "rows.csv", index=False)
    data.to_csv(tmp_path / "rows.csv.gz", index=False)
    whole = fitted(model(data, rows=None), seed=5, tuning=tuning)
    sources = {
        "CSV": tmp_path / "rows.csv",
        "compressed": tmp_path / "rows.csv.gz",
        "list of frames": [data.iloc[:7], data.iloc[7:2000], data.iloc[2000:]],
        "generator": (data.iloc[i : i + 500] for i in range(0, 3000, 500)),
        "mapping": {c: data[c].to_numpy() for c in data},
        "category": data.assign(g=data["g"].astype("category")),
        "shuffled columns and index": data[["unused", "y", "g", "b", "a"]].set_index(np.arange(3000)[::-1]),
    }
    for source in sources.values():
        assert_same(fitted(model(source), seed=5, tuning=tuning), whole)
    for name in ("compressed", "mapping"):  # the number of rows is known, or counted
        assert_same(fitted(model(sources[name], rows=None), seed=5, tuning=tuning), whole)
    assert_same(model(data).start(seed=5, tuning=tuning).update(data).results(), whole)


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_search")
def test_threads_change_no_bit(tmp_path):
    data = table()
    data.to_csv(tmp_path / "rows.csv", index=False)
    parts = [data.iloc[a:b] for a, b in pairwise((0, 7, 500, 501, 2000, 3000))]
    for scaling in ({}, {"scaling": "private", "bounds": {}}):
        whole = fitted(model(data, **scaling), seed=5, threads=1)
        for source, threads in ((data, 2), (parts, 3), (tmp_path / "rows.csv", 5)):
            assert_same(fitted(model(source, **scaling), seed=5, threads=threads), whole)


@pytest.mark.thorough
@pytest.mark.usefixtures("coarse_search")
@pytest.mark.parametrize("way", [*WAYS, "private"])
@pytest.mark.parametrize("seed", [0, *(pytest.param(k, marks=pytest.mark.thorough) for k in range(1, 6))])
def test_chunks_and_a_save_in_the_middle_change_no_bit(tmp_path, way, seed):
    rng = np.random.default_rng([seed, len(way)])
    cuts, stop = rng.integers(0, 3001, rng.integers(6)).tolist(), int(rng.integers(1, 3000))
    path = tmp_path / "run.privreg"
    data, how = table(), WAYS.get(way, {})
    more = {"scaling": "private", "bounds": {}, "family": pr.Huber()} if way == "private" else {}
    kept = model(None, **more).start(seed=9, **how).update(data.iloc[:stop])
    kept.save(path)  # reports of an open round get their noise here
    whole = kept.update(data.iloc[stop:]).results()
    stream = model(None, **more).start(seed=9, **how)
    edges = sorted({0, 3000, stop, *cuts})
    for a, b in pairwise(edges):
        stream.update(data.iloc[a:b])
        if b == stop:
            stream.save(path)
            stream = pr.load(path)
    assert_same(stream.results(), whole)


def noise_of(stream):
    """Noise that the next people of this stream would get."""
    run = stream._run
    if hasattr(run, "noise"):
        return run.noise["score"].peek()[:5].copy()
    run.close()  # by rounds, saving gives open reports their noise
    return run._normals("next", 5)


@BOTH
def test_a_private_stream_hands_its_noise_to_the_file_and_the_file_to_one_load(tmp_path, tuning):
    data = table()
    stream = model(None).start(tuning=tuning).update(data.iloc[:1234])
    coming = noise_of(stream)
    stream.save(tmp_path / "a.privreg")
    stream.save(tmp_path / "b.privreg")
    first, second = pr.load(tmp_path / "a.privreg"), pr.load(tmp_path / "b.privreg")
    np.testing.assert_array_equal(noise_of(first), coming)  # it goes on exactly
    for one, other in ((first, second), (first, stream), (second, stream)):
        assert not np.isin(noise_of(one), noise_of(other)).any()
    assert (first.update(data.iloc[1234:]).results().params != stream.update(data.iloc[1234:]).results().params).all()


def test_a_link_to_a_saved_stream_gives_no_second_load(tmp_path):
    real, link = tmp_path / "real.privreg", tmp_path / "link.privreg"
    model(None).start().update(table(500)).save(real)
    link.symlink_to(real)
    first = pr.load(link)
    assert link.is_symlink()
    with pytest.warns(PrivregWarning, match="fresh"):
        second = pr.load(real)
    assert not np.isin(noise_of(first), noise_of(second)).any()


def test_a_forked_process_gets_no_noise(tmp_path, monkeypatch):
    stream = model(None).start(tuning="published").update(table(500))
    with monkeypatch.context() as m:  # what os.getpid() says in a forked child
        m.setattr("privreg.privacy.noise.os.getpid", lambda: -1)
        with pytest.raises(StreamError, match="another process"):
            stream._run.noise["score"].peek()
    stream.update(table(100))  # the parent goes on


@BOTH
@pytest.mark.parametrize("before", [50, 500, 2000])
def test_an_interrupted_update_ends_the_stream(monkeypatch, tmp_path, tuning, before):
    stream = model(None).start(tuning=tuning).update(table(before))

    def cut(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(stream._run, "advance", cut)
        with pytest.raises(KeyboardInterrupt):
            stream.update(table(100))
    for call in (lambda: stream.update(table(100)), stream.results, lambda: stream.save(tmp_path / "s")):
        with pytest.raises(StreamError, match="interrupted"):
            call()
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize("what", ["results", "save"])
@pytest.mark.parametrize("private", ["record", "response"])
def test_results_that_are_interrupted_while_noise_is_drawn_end_the_stream(monkeypatch, tmp_path, what, private):
    """Else the next block of reports has the noise of one that is in sums already, which tells its records."""
    stream = model(None, private=private).start().update(table(2016))
    first = stream._run._noised

    def cut(part):
        first(part)
        raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(stream._run, "_noised", cut)
        with pytest.raises(KeyboardInterrupt):
            stream.results() if what == "results" else stream.save(tmp_path / "s")
    for call in (lambda: stream.update(table(100)), stream.results, lambda: stream.save(tmp_path / "s")):
        with pytest.raises(StreamError, match="interrupted"):
            call()
    assert not (tmp_path / "s").exists()


@BOTH
def test_a_stream_is_used_by_one_thread_at_a_time(monkeypatch, tuning):
    stream = model(None).start(tuning=tuning)
    inside, go = threading.Event(), threading.Event()
    real = stream._run.advance

    def slow(*rows):
        inside.set()
        assert go.wait(10)
        return real(*rows)

    monkeypatch.setattr(stream._run, "advance", slow)
    worker = threading.Thread(target=stream.update, args=(table(500),))
    worker.start()
    assert inside.wait(10)
    with pytest.raises(StreamError, match="another thread"):
        stream.update(table(100))
    go.set()
    worker.join()
    assert stream.nobs == 500


@BOTH
def test_the_key_is_readable_by_its_owner_only_and_spent_by_the_first_load(tmp_path, tuning):
    path, data = tmp_path / "s.privreg", table()
    model(None).start(tuning=tuning).update(data.iloc[:1000]).save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert {"secret_key", "secret_score_key"} & set(read_saved(path)[1])
    first = pr.load(path)
    assert not [k for k in read_saved(path)[1] if k.startswith("secret")]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.warns(PrivregWarning, match="fresh"):
        second = pr.load(path)
    a, b = (s.update(data.iloc[1000:]).results().params for s in (first, second))
    assert (a != b).all()  # other noise for the same people after the load


@pytest.mark.some(1)
@BOTH
def test_noise_differs_between_fits_unless_seeded(tuning):
    m = model(table())
    assert (m.fit(tuning=tuning).params != m.fit(tuning=tuning).params).all()
    assert (m.fit(tuning=tuning, seed=1).params == m.fit(tuning=tuning, seed=1).params).all()
    assert (m.fit(tuning=tuning, seed=1).params != m.fit(tuning=tuning, seed=2).params).all()


@pytest.mark.some(1)
@BOTH
def test_a_refused_batch_leaves_the_stream_as_it_was(tuning):
    data, strict = table(), {"missing": "raise"}
    stream = model(None, **strict).start(seed=4, tuning=tuning).update(data.iloc[:1500])
    bad = data.iloc[1500:1600].assign(a=lambda d: d["a"].mask(d.index == 1550))
    with pytest.raises(DataError, match="'a' has a value that is missing"):
        stream.update(bad)
    with pytest.raises(SchemaError, match="'g' has a value that is not among its declared levels"):
        stream.update(data.iloc[1500:1600].assign(g="z"))
    assert stream.nobs == 1500
    assert_same(stream.update(data.iloc[1500:]).results(), fitted(model(data, **strict), seed=4, tuning=tuning))


@pytest.mark.some(1)
@BOTH
def test_rows_that_cannot_be_used_are_taken_as_noise(tuning):
    data, seen = table(), []
    for column, gap in (("a", None), ("a", np.inf), ("g", "z"), ("g", None), ("y", None)):
        cells = data[column].astype(object).where(data.index % 10 != 3, gap)
        stream = model(None).start(seed=4, tuning=tuning)
        seen.append(stream.update(data.assign(**{column: cells})).results())
        assert seen[-1].nobs == len(data)
        assert_same(seen[-1], seen[0])
    assert (seen[0].params != fitted(model(data), seed=4, tuning=tuning).params).all()


@pytest.mark.thorough
@EVERY_WAY
def test_results_can_be_taken_at_any_time(way):
    data, begun = table(), []
    stream = model(None).start(seed=4, **WAYS[way])
    for a in range(0, 3000, 250):
        stream.update(data.iloc[a : a + 250])
        if way != "published" and stream._run.progress.state.role in {"location", "moments"}:
            with pytest.raises(InferenceError, match=f"set the scales, and {a + 250} have reported"):
                stream.results()
            continue
        begun.append(stream.results())
        assert begun[-1].nobs == a + 250
        assert begun[-1].params.notna().all()
    assert [len(r.methods) for r in begun] == sorted(len(r.methods) for r in begun)  # none at first, then all
    assert (not begun[0].methods) == (way != "published")
    whole = fitted(model(data), seed=4, **WAYS[way])
    assert whole.methods == begun[-1].methods
    if way == "published":  # by rounds, reports that are open get their noise when results are taken
        assert_same(stream.results(), whole)


def test_fit_leaves_the_model_unchanged_and_models_pickle_without_rows():
    data = table()
    m = model(data)
    before = pickle.dumps(m)
    m.fit(seed=1)
    assert pickle.dumps(m) == before
    assert b"SECRET" not in before
    assert len(before) < len(pickle.dumps(model(None))) + 100
    with pytest.raises(DataError, match="no data"):
        pickle.loads(before).fit()


def test_streams_refuse_pickling_the_central_plug_in_and_too_few_people(tmp_path):
    stream = model(None).start()
    with pytest.raises(TypeError, match="secret key"):
        pickle.dumps(stream)
    with pytest.raises(InferenceError, match="single release"):
        model(None).start(tuning="published", inference="plug_in_central")
    with pytest.raises(InferenceError, match=r"records set the scales, and 5 have reported"):
        stream.update(table(5)).results()
    with pytest.raises(InferenceError, match="can't determine 6 coefficients"):
        model(None).start(tuning="published").update(table(5)).results()
    assert "key" not in repr(stream)


@pytest.mark.thorough
@BOTH
def test_array_models_stream_too(tmp_path, tuning):
    x, y = people(2000, 0)
    stream = array_model(rows=2000).start(seed=3, tuning=tuning).update((y[:700], x[:700]))
    stream.save(tmp_path / "a.privreg")
    whole = stream.update((y[700:], x[700:])).results()
    assert_same(pr.load(tmp_path / "a.privreg").update((y[700:], x[700:])).results(), whole)


@pytest.mark.thorough
def test_results_round_trip(tmp_path):
    early = model(None).start().update(table(600)).results()
    assert early.methods == ()
    for res in (
        *(fitted(model(table()), seed=1, **how) for how in WAYS.values()),
        array_model(binary=True).fit(inference=None),
        array_model(binary=True).fit(),
        array_model(mu=None).fit(),
        early,
    ):
        res.save(tmp_path / "r.privreg")
        back = pr.load(tmp_path / "r.privreg")
        assert_same(back, res)
        assert back.summary().as_text() == res.summary().as_text()
        assert back.privacy == res.privacy
        again = pickle.loads(pickle.dumps(res))
        assert_same(again, res)
        assert again.privacy == res.privacy
    new = table(10)
    res = fitted(model(table()), seed=1)
    res.save(tmp_path / "r.privreg")
    pd.testing.assert_series_equal(pr.load(tmp_path / "r.privreg").predict(new), res.predict(new))


@pytest.mark.parametrize("damage", ["missing", "text", "cut", "other zip", "newer"])
def test_damaged_files_are_refused(tmp_path, damage):
    path = tmp_path / "r.privreg"
    if damage == "text":
        path.write_text("not a saved result")
    elif damage == "cut":
        fitted(model(table()), seed=1).save(path)
        path.write_bytes(path.read_bytes()[:-200])
    elif damage == "other zip":
        np.savez(path.with_suffix(".npz"), a=np.ones(3))
        path = path.with_suffix(".npz")
    elif damage == "newer":
        archive.write_archive(path, "results", {}, {})
    with pytest.raises(SavedFileError):
        pr.load(path)


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "r.privreg"
    res = fitted(model(table()), seed=1)
    res.save(path)
    before = path.read_bytes()

    def fail(*_args):
        raise KeyboardInterrupt

    monkeypatch.setattr("privreg.base.archive.os.fsync", fail)
    with pytest.raises(KeyboardInterrupt):
        fitted(model(table()), seed=2).save(path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["r.privreg"]
    with pytest.raises(SavedFileError, match="can't write"):
        res.save(tmp_path / "nowhere" / "r.privreg")


@pytest.mark.thorough
def test_opting_out_reads_a_file_too_and_counts_it_by_its_path(tmp_path):
    data, path = table(), tmp_path / "rows.csv"
    data.to_csv(path, index=False)
    made = []
    for source in (data, path, str(path)):
        with pytest.warns(pr.PrivacyLeakWarning):
            m = pr.PrivateOnlineRegression.from_formula(
                "y ~ a + g", source, mu=1, allow_leak=("levels", "scale"), rows=3000
            )
        made.append(m.fit(seed=3, order="position"))
    for res in made[1:]:
        assert_same(res, made[0])
    assert [r.privacy.release.number for r in made] == [1, 1, 2]
