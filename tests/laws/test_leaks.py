"""Nothing computed from raw rows and not randomised is found in anything a user can print, save or plot.

By sentinels and by statistics; twins are in test_twins. The searches are those of tests/leaks.py.
"""

import copy
import dataclasses
import io
import pickle
import types
from collections.abc import Mapping

import numpy as np
import pandas as pd
import pyarrow.csv
import pytest

import privreg as pr
from privreg.errors import DataError
from privreg.privacy import noise as noise_module
from privreg.tables.diagnostics import Diagnostic
from tests.helpers import read_saved
from tests.leaks import (
    BOX,
    BY_ROUNDS,
    EVERY_WAY,
    OPTIONS,
    WAYS,
    WORD,
    N,
    contents,
    fitted,
    hits,
    leaks,
    model,
    numbers,
    outcome,
    packed,
    places,
    reach,
    residuals,
    rows,
    save,
    sentinels,
    streamed,
    texts,
)

pytestmark = pytest.mark.usefixtures("the_same_rounds")

# --- the searches find what they are for -----------------------------------------------------------------


PLANTS = {
    "mean in the header": lambda f, d: {"title": (*f.title, ("Mean", float(d["a"].mean())))},
    "sd among the estimates": lambda f, d: {"last": np.append(f.last, d["y"].std())},
    "raw value in the trail": lambda f, d: {"trail_params": np.append(f.trail_params, d["a"].iloc[20])},
    "clamped share": lambda f, d: {"trail_n": float((~d["a"].between(*BOX["a"])).mean())},
    "count of a level": lambda f, d: {"nobs": int((d["g"] == "w").sum())},
    "residual": lambda f, d: {"senders": float(residuals(f, d)[9])},
    "the rows": lambda f, d: {"design": types.SimpleNamespace(rows=d)},
    "a closed-over array": lambda f, d: {"family": types.SimpleNamespace(cache={"b": (1, [d["b"].to_numpy()])})},
}


@pytest.mark.parametrize("plant", PLANTS)
def test_a_planted_statistic_is_found(plant):
    fit = fitted()._fit
    planted = pr.results.PrivateResults(dataclasses.replace(fit, **PLANTS[plant](fit, rows())))
    assert leaks(planted, fitted(2, False))


@pytest.mark.some(1)
@pytest.mark.parametrize("way", WAYS)
def test_raw_numbers_planted_in_a_stream_are_found_and_residues_of_rounding_are_not(way):
    first, second = streamed(way=way, people=40), streamed(2, False, way=way, people=40)
    for raw in (rows()["b"].iloc[20], rows()["y"].mean(), rows()["o"].min()):
        assert leaks(types.SimpleNamespace(stream=first, planted=float(raw)), second, way)
    assert hits({2.0**-52, 0.25}, np.array([2.0**-52, 0.25])) == [0.25]
    assert hits({1 - 2.0**-52, 1 + 1e-14}, np.array([1 + 2.0**-51, 1 + 1e-14])) == [1 + 1e-14]


def test_a_planted_text_is_found():
    fit = fitted()._fit
    notes = dataclasses.replace(fit.statement, notes=(*fit.statement.notes, Diagnostic("remark", f"level {WORD}")))
    planted = pr.results.PrivateResults(dataclasses.replace(fit, statement=notes))
    assert sentinels(*texts(planted), repr(planted.privacy.notes), pickle.dumps(planted))


# --- statistics and sentinels ----------------------------------------------------------------------------


@pytest.mark.some(1)
@EVERY_WAY
def test_results_hold_no_number_of_the_rows(tmp_path, way):
    res, twin = fitted(way=way), fitted(2, False, way=way)
    assert len(numbers(res) - numbers(twin)) > 50  # the search has something to look at
    assert leaks(res, twin, way) == []
    assert leaks(pickle.loads(pickle.dumps(res)), twin, way) == []
    assert leaks(copy.deepcopy(res), twin, way) == []
    path = save(res, tmp_path)
    assert leaks(read_saved(path), read_saved(save(twin, tmp_path, "twin")), way) == []
    assert leaks(pr.load(path), twin, way) == []
    tables = [[r.tidy(), r.trajectory(), r.cov_params(), r.conf_int()] for r in (res, twin)]
    assert leaks(*tables, way) == []


@pytest.mark.some(1)
@EVERY_WAY
def test_a_stream_its_file_and_its_results_hold_no_number_of_the_rows_in_any_round(tmp_path, way):
    raw = packed(rows())
    for kind, people in places(way).items():
        first, second = streamed(way=way, people=people), streamed(2, False, way=way, people=people)
        assert leaks(first, second, way) == []
        shown = outcome(first), outcome(second)
        assert isinstance(shown[0], str) == (kind in {"location", "moments"})
        assert leaks(*shown, way) == []
        files = [save(s, tmp_path, name) for s, name in ((first, "one"), (second, "two"))]
        assert leaks(*(read_saved(f) for f in files), way) == []
        texts_ = [*texts(first), *texts(shown[0]), repr(first), repr(vars(first)), repr(vars(first._run))]
        kept = contents(files[0])
        assert sentinels(*texts_, kept) == []
        assert not any(v in kept for v in raw)


@pytest.mark.some(2)
@pytest.mark.parametrize("form", [*WAYS, "array"])
def test_no_bytes_of_a_raw_number_and_no_sentinel_in_anything_kept(form, tmp_path):
    data = rows()
    if form in WAYS:
        m, res, stream = model(data, form), fitted(way=form), streamed(way=form)
    else:
        x = data[["a", "b"]].to_numpy()
        names = {"exog_names": ["a", "b"], "bounds": BOX, "mu": 1, "rows": N}
        m, batch = pr.PrivateOnlineRegression(data["y"], x, **names), (data["y"], x)
        res, stream = m.fit(seed=1, progress=False), m.start(seed=1).update(batch)
    kept = [pickle.dumps(m), pickle.dumps(res), contents(save(res, tmp_path)), contents(save(stream, tmp_path, "s"))]
    raw = packed(data)
    planted = pickle.dumps({"rows": data["a"].to_numpy()})
    assert any(v in planted for v in raw)  # the search works
    assert not any(v in one for v in raw for one in kept)
    assert sentinels(*kept) == []


@pytest.mark.some(2)
@EVERY_WAY
def test_texts_of_models_streams_and_results_hold_no_sentinel(way):
    data = rows()
    m, res, stream = model(data, way), fitted(way=way), streamed(way=way)
    shown = [repr(m), str(m), repr(m._source), repr(m._spec), repr(res), str(res), repr(stream), repr(vars(res))]
    shown += [repr(vars(stream)), repr(dir(res)), repr(res.privacy), str(res.family), repr(m.schema)]
    shown += [
        res.tidy().to_string(),
        res.trajectory().to_string(),
        repr(res.t_test("a = b")),
        repr(res.wald_test("a = b")),
    ]
    assert sentinels(*shown) == []
    assert sentinels(*texts(res), *texts(stream), *texts(m._spec)) == []


@EVERY_WAY
def test_summaries_hold_no_sentinel(way):
    res = fitted(way=way)
    summary = res.summary()
    assert sentinels(summary.as_text(), summary.as_html(), summary.as_latex(), res._repr_html_()) == []


# --- columns nobody asked for ----------------------------------------------------------------------------


class Trap:
    """A cell that may be carried but not looked at."""

    def _sprung(self, *_args, **_more):
        raise AssertionError("a column that is not in the formula was read")

    __repr__ = __str__ = __float__ = __int__ = __bool__ = __len__ = __iter__ = __getitem__ = _sprung
    __array__ = __eq__ = __ne__ = __lt__ = __gt__ = __hash__ = __reduce_ex__ = __index__ = __format__ = _sprung


class Watched(pd.DataFrame):
    """A frame whose other columns may not be taken."""

    @property
    def _constructor(self):
        return Watched

    def __getitem__(self, key):
        wanted = {key} if isinstance(key, str) else set(np.atleast_1d(key)) if isinstance(key, list) else set()
        assert not wanted & {"unused", "name", "trap"}
        return super().__getitem__(key)


class Columns(Mapping):
    """A mapping that gives out the columns of the formula only."""

    def __init__(self, data):
        self._data = data

    def __getitem__(self, key):
        assert key not in {"unused", "name", "trap"}
        return self._data[key].to_numpy()

    def __iter__(self):
        return iter(self._data.columns)

    def __len__(self):
        return len(self._data.columns)

    def __contains__(self, key):
        return key in self._data.columns


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "make",
    [
        lambda d: d,
        Watched,
        Columns,
        lambda d: [d.iloc[:150], d.iloc[150:]],
        lambda d: (Watched(d.iloc[i : i + 100]) for i in range(0, N, 100)),
        lambda d: [Columns(d.iloc[:150]), Columns(d.iloc[150:])],
    ],
    ids=["frame", "watched frame", "mapping", "frames", "generator", "mappings"],
)
def test_columns_outside_the_formula_are_never_read(make):
    traps = np.empty(N, dtype=object)
    for i in range(N):
        traps[i] = Trap()
    data = rows().assign(trap=pd.Series(traps, index=rows().index, dtype=object))
    with pytest.raises(AssertionError, match="not in the formula"):
        str(data["trap"].iloc[0])
    with pytest.raises(AssertionError):
        Watched(data)["name"]
    res, whole = (model(d).fit(seed=7, order="position", progress=False) for d in (make(data), rows()))
    np.testing.assert_array_equal(res.params, whole.params)
    one = make(data)
    if isinstance(one, pd.DataFrame | Columns):
        with pytest.warns(pr.errors.PrivregWarning, match=r"bounds of a \(0 to 40000\), b \(-1 to 1\)\. The fit"):
            res.predict(one)
        model().start().update(one)
        box = {**BOX, "miss": (0, 1)}
        with pytest.raises(DataError, match="'miss' is missing"):
            pr.PrivateOnlineRegression.from_formula("y ~ a + miss", one, mu=1, bounds=box, family=OPTIONS["family"])


def test_garbage_in_an_unused_column_of_a_file_is_not_read(tmp_path, monkeypatch):
    data = rows()
    clean, dirty = tmp_path / "clean.csv", tmp_path / "dirty.csv"
    data.drop(columns=["unused", "name"]).to_csv(clean, index=False)
    junk = ["NEVERREAD", "1e999", '"', "nan", "\t", "0x1F", "2020-01-01", "", "--", "1,5"]
    data.assign(unused=[junk[i % len(junk)] for i in range(N)]).to_csv(dirty, index=False)
    asked, convert = [], pyarrow.csv.ConvertOptions
    monkeypatch.setattr(
        "pyarrow.csv.ConvertOptions", lambda **k: asked.append(len(k["include_columns"])) or convert(**k)
    )
    one, two = (model(p).fit(seed=7, progress=False) for p in (clean, dirty))
    assert set(asked) == {5}  # a, b, g, o, y
    np.testing.assert_array_equal(one.params, two.params)
    assert sentinels(repr(two), pickle.dumps(two)) == []


# --- keys ------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(monkeypatch):
    """Every key a fit makes or goes through."""
    made = []

    class Spy(noise_module.NoiseStream):
        def _fill(self, key, *buffers):
            following, block = super()._fill(key, *buffers)
            made.extend([key, following])
            return following, block

    def fresh():
        made.append(noise_module.fresh_key())
        return made[-1]

    def derived(key, label):
        made.append(noise_module.derived_key(key, label))
        return made[-1]

    monkeypatch.setattr("privreg.simulation.streaming.stream.fresh_key", fresh)
    chain = ("published.chain.run", "fits.published")
    for module in chain:
        monkeypatch.setattr(f"privreg.{module}.NoiseStream", Spy)
    for module in (*chain, "simulation.streaming.stream", "simulation.rounds"):
        monkeypatch.setattr(f"privreg.{module}.derived_key", derived)
    return made


@pytest.mark.some(5)
@pytest.mark.parametrize(
    ("tuning", "inference"),
    [
        ("efficient", "sandwich"),
        ("efficient", "between_lanes"),
        ("published", "random_scaling"),
        ("published", "plug_in"),
        ("published", "plug_in_central"),
    ],
)
@pytest.mark.parametrize("threads", [1, 2])
def test_results_hold_no_key(tuning, inference, threads, keys, tmp_path):
    res = model(rows()).fit(tuning=tuning, inference=inference, threads=threads, progress=False)
    assert len(keys) >= 4
    kept = [pickle.dumps(res), contents(save(res, tmp_path)), (tmp_path / "file").read_bytes()]
    assert not any(k in one for k in keys for one in kept)
    assert not any(k.hex().encode() in one for k in keys for one in kept)
    held = {v for v in reach(res) if isinstance(v, bytes)}
    assert not held & set(keys)


def coming(run):
    """Keys of noise that is still to be drawn."""
    if hasattr(run, "noise"):
        return {stream._key for stream in run.noise.values()}
    return {run.key}


@pytest.mark.some(1)
@EVERY_WAY
def test_a_stream_file_holds_the_keys_to_come_only_and_no_used_noise(keys, tmp_path, way):
    """None by which noise that was used could be drawn again."""
    for people in places(way).values():
        keys.clear()
        stream = model(way=way).start(**WAYS[way][1]).update(rows().head(people))
        run = stream._run
        used = np.zeros(0)
        if way == "published":
            used = (
                run.noise["score"]._buffer[: min(5, run.noise["score"]._used)].copy()
            )  # noise of this block's first people
        else:
            run.close()  # as saving does first
        ahead = coming(run)
        past = [k for k in keys if k not in ahead and k != stream.deal_key]
        path = save(stream, tmp_path)
        kept = contents(path)
        assert all(k in kept for k in ahead)
        assert past
        assert not any(k in kept for k in past)
        assert not any(k in kept for k in coming(run))  # the live stream goes on with another
        assert not any(v.tobytes() in kept for v in used.ravel())
        assert sentinels(kept) == []
        loaded = pr.load(path)
        assert not any(k in contents(path) for k in keys)
        loaded.update(rows().iloc[people:])
        now = contents(save(loaded, tmp_path, "later"))
        assert not any(k in now for k in past)


@pytest.mark.some(2)
@BY_ROUNDS
def test_a_stream_in_progress_holds_the_keys_to_come_only(keys, way):
    stream, before, gone = model(way=way).start(**WAYS[way][1]), 0, set()
    for people in places(way).values():
        stream.update(rows().iloc[before:people])
        before = people
        held = {v for v in reach(stream) if isinstance(v, bytes)} & set(keys)
        assert held == {stream._run.key, stream.deal_key}
        gone = set(keys) - held
    assert len(gone) >= len(places(way))


def test_the_repr_of_a_stream_in_progress_shows_no_key(keys):
    stream = model().start().update(rows())
    shown = " ".join([repr(stream), repr(stream._run), repr(stream._run.raw), repr(vars(stream))])
    assert not any(k.hex() in shown or repr(k) in shown for k in keys[1:])


# --- plots -----------------------------------------------------------------------------------------------


def drawn(ax):
    """Numbers and texts that a figure was given."""
    found, said = [], []
    for artist in ax.figure.findobj():
        for name in ("get_xydata", "get_offsets", "get_segments", "get_extents"):
            if name != "get_extents" and hasattr(artist, name):
                found.append(artist.__getattribute__(name)())
        if hasattr(artist, "get_paths"):
            found += [p.vertices for p in artist.get_paths()]
        if hasattr(artist, "get_text"):
            said.append(artist.get_text())
    return [np.asarray(v, dtype=float) for part in found for v in (part if isinstance(part, list) else [part])], said


@pytest.mark.some(1)
@EVERY_WAY
@pytest.mark.parametrize("plot", ["plot_trajectory", "plot_coef"])
def test_plots_draw_no_number_of_the_rows(plot, way):
    pytest.importorskip("matplotlib")
    pytest.importorskip("privreg.results.plots.coefficients")
    import matplotlib.pyplot as plt

    pictures = []
    for res in (fitted(way=way), fitted(2, False, way=way)):
        ax = np.ravel(getattr(res, plot)())[0]
        pictures.append(drawn(ax))
        if len(pictures) == 1:
            image = io.BytesIO()
            ax.figure.savefig(image, format="svg")
            assert sentinels(image.getvalue(), *pictures[0][1]) == []
        plt.close(ax.figure)
    assert leaks(pictures[0][0], pictures[1][0], way) == []
