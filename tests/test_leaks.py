"""Nothing that was computed from raw rows, and not randomised, is found in anything a user can print, save or plot.

Three searches. *Sentinels*: numbers and texts planted in the rows, looked for in texts and bytes. *Statistics*: every
raw value, residual, mean, sd, quantile and count, in the user's and in internal units, looked for among all numbers
that can be reached from an object. *Twins*: completely different rows under the same declarations and the same
noise, after which everything but the randomised numbers must be equal. The searches are themselves tested on leaks
planted in results.
"""

import copy
import dataclasses
import io
import json
import logging
import math
import pickle
import types
import warnings
import zipfile
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg import noise as noise_module
from privreg import storage
from privreg.errors import DataError

N = 400
FORMULA = "y ~ a + I(a**2) + b + g"
BOX = {"a": (0, 40_000), "b": (-1, 1), "o": (-5, 5), "y": (0, 50_000)}
OPTIONS = {
    "bounds": BOX,
    "levels": {"g": ["u", "v", "w"]},
    "family": pr.Huber(scale=4000.0),
    "offset": "o",
    "score_weights": "published",
}
BOTH = ("random_scaling", "plug_in")
WORD, ROW = "SECRET-LEVEL", "SECRET-ROW"
TRACES = ("31415.926", "27182.818", "16180.339", "SECRET", "NEVERREAD")


def rows(seed=1, wild=True):
    """Rows with sentinels: inside and outside the bounds, as an unused category, in unused columns and the index."""
    rng = np.random.default_rng(seed)
    a = rng.uniform(3_000, 30_000, N) * (1 if wild else 1.2)
    b = rng.normal(0.1 * seed, 0.5, N)
    data = pd.DataFrame(
        {
            "a": a,
            "b": b if wild else np.clip(b, -0.9, 0.9),
            "g": pd.Categorical(rng.choice(["u", "v", "w"], N, p=[0.6, 0.3, 0.1] if wild else [0.2, 0.5, 0.3])),
            "o": rng.uniform(-4, 4, N),
            "y": np.clip(10_000 * seed + 0.3 * a + 4000 * b + rng.normal(0, 900, N), 10, 49_000),
        }
    )
    data["g"] = data["g"].cat.add_categories([WORD])
    data["unused"], data["name"] = rng.uniform(size=N), WORD
    if wild:
        data.loc[[3, 5, 7, 9, 11], ["a"]] = np.array([[31415.926535, 271828.18, 1e7, -1e7, 16180.339887]]).T
        data.loc[[4, 6, 8, 10, 12], "y"] = 27182.818, 161803.39, 99_999.0, 2718281.8, -31415.926535
    return data.set_index(pd.Index([f"{ROW}-{i}" for i in range(N)]))


def model(data=None, **more):
    return pr.PrivateOnlineRegression.from_formula(FORMULA, data, **{"mu": 1, **OPTIONS, **more})


@cache
def fitted(seed=1, wild=True, mu=1):
    return model(rows(seed, wild), mu=mu).fit(seed=7, inference=BOTH, progress=False)


@cache
def streamed(seed=1, wild=True):
    return model().start(seed=7, inference=BOTH).update(rows(seed, wild))


# --- the searches --------------------------------------------------------------------------------------


def reach(thing, seen=None):
    """Texts, bytes and numbers that can be reached from an object by any chain of attributes and items."""
    seen = {} if seen is None else seen
    if id(thing) in seen or isinstance(thing, type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
        return
    seen[id(thing)] = thing
    if isinstance(thing, str | bytes | int | float | np.generic):
        yield thing
    elif isinstance(thing, np.ndarray):
        if thing.dtype.kind in "biuf":
            yield from thing.ravel().tolist()
        else:
            yield from (v for item in thing.ravel().tolist() for v in reach(item, seen))
    elif isinstance(thing, pd.DataFrame | pd.Series | pd.Index):
        parts = [thing.to_numpy(), *getattr(thing, "axes", [])[:2], getattr(thing, "name", None)]
        yield from (v for part in parts for v in reach(part, seen))
    elif isinstance(thing, Mapping):
        yield from (v for pair in thing.items() for part in pair for v in reach(part, seen))
    elif isinstance(thing, list | tuple | set | frozenset):
        yield from (v for item in thing for v in reach(item, seen))
    else:
        inside = dict(getattr(thing, "__dict__", {}))
        for name in {s for c in type(thing).__mro__ for s in np.atleast_1d(getattr(c, "__slots__", ()))}:
            if hasattr(thing, name) and name not in {"__dict__", "__weakref__"}:
                inside[name] = getattr(thing, name)
        yield from reach(inside, seen)


def numbers(thing):
    found = {float(v) for v in reach(thing) if isinstance(v, int | float | np.number) and not isinstance(v, bool)}
    return {v for v in found if math.isfinite(v)}


def texts(thing):
    return {v if isinstance(v, str) else v.decode("latin-1") for v in reach(thing) if isinstance(v, str | bytes)}


def statistics(data):
    """Every number that somebody could have computed from the rows and forgotten to randomise."""
    m = model(data)
    encoded, units = m._spec.design.encode(data), m._spec.units
    inside = encoded.exog.copy()
    units.rows_inside(inside)
    y = units.response_inside(encoded.endog)
    fit = m.fit(seed=7, inference=BOTH, progress=False)._fit
    columns = [data[c].to_numpy(dtype=float) for c in ("a", "b", "o", "y", "unused")]
    columns += [encoded.endog, encoded.offset, y, *encoded.exog.T[1:], *inside.T[1:]]
    columns += [residuals(fit, data), np.abs(residuals(fit, data))]
    out = []
    for c in columns:
        out += [c, np.quantile(c, [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1]), [c.mean(), c.sum(), c @ c]]
        out += [[c.std(), c.std(ddof=1), c.var(), c.var(ddof=1), np.median(np.abs(c - np.median(c)))]]
    counts = [*data["g"].value_counts(), *data["g"].value_counts() / N]
    for c, (low, high) in BOX.items():
        outside = [(data[c] < low).sum(), (data[c] > high).sum(), (~data[c].between(low, high)).sum()]
        counts += [*outside, *(k / N for k in outside), N - outside[2], data[c].nunique()]
    gram = inside.T @ inside
    out += [counts, gram, gram / N, inside.T @ y, np.linalg.lstsq(encoded.exog, encoded.endog, rcond=None)[0]]
    out += [np.linalg.norm(inside, axis=1), np.linalg.eigvalsh(gram), np.corrcoef(inside[:, 1:].T)]
    flat = np.concatenate([np.ravel(v).astype(float) for v in out])
    return np.unique(flat[np.isfinite(flat)])


@cache
def known(seed=1, wild=True):
    return statistics(rows(seed, wild))


def hits(found, stats):
    """Numbers among `found` that equal a statistic to 1e-9 of its size."""
    values = np.array(sorted(found))
    at = (
        np.searchsorted(values, stats - 1e-9 * np.abs(stats)),
        np.searchsorted(values, stats + 1e-9 * np.abs(stats), side="right"),
    )
    return [float(s) for s, lo, hi in zip(stats, *at, strict=True) if hi > lo]


def leaks(thing, other):
    """Statistics of the rows behind `thing` that are in it, apart from numbers its twin has too, which are public."""
    return hits(numbers(thing) - numbers(other), known())


def sentinels(*outputs):
    return [s for s in TRACES for text in outputs if s in (text if isinstance(text, str) else text.decode("latin-1"))]


def contents(path):
    """Whatever a saved file holds, unpacked: text of the document, bytes of the arrays, names."""
    with zipfile.ZipFile(path) as z:
        return b"\n".join([*(n.encode() for n in z.namelist()), *(z.read(n) for n in z.namelist())])


def packed(data):
    """The bytes of every raw number, as memory and files hold it."""
    values = data.select_dtypes("number").to_numpy()
    public = {0.0, 1.0, -1.0, *(float(v) for pair in BOX.values() for v in pair)}
    return [np.float64(v).tobytes() for v in values.ravel() if v not in public]


def save(thing, tmp_path, name="file"):
    thing.save(tmp_path / name)
    return tmp_path / name


# --- the searches find what they are for -----------------------------------------------------------------


def residuals(fit, data):
    encoded = model()._spec.design.encode(data)
    return encoded.endog - encoded.exog @ fit.params - encoded.offset


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


def test_a_planted_text_is_found():
    fit = fitted()._fit
    notes = dataclasses.replace(fit.statement, notes=(*fit.statement.notes, f"level {WORD}"))
    planted = pr.results.PrivateResults(dataclasses.replace(fit, statement=notes))
    assert sentinels(*texts(planted), repr(planted.privacy.notes), pickle.dumps(planted))


# --- statistics and sentinels ----------------------------------------------------------------------------


def test_results_hold_no_number_of_the_rows(tmp_path):
    res, twin = fitted(), fitted(2, False)
    assert len(numbers(res) - numbers(twin)) > 50  # the search has something to look at
    assert leaks(res, twin) == []
    assert leaks(pickle.loads(pickle.dumps(res)), twin) == []
    assert leaks(copy.deepcopy(res), twin) == []
    path = save(res, tmp_path)
    assert leaks(storage.read(path), storage.read(save(twin, tmp_path, "twin"))) == []
    assert leaks(pr.load(path), twin) == []
    tables = [[r.tidy(), r.trajectory(), r.cov_params(), r.conf_int()] for r in (res, twin)]
    assert leaks(*tables) == []


def test_a_stream_and_its_file_hold_no_number_of_the_rows(tmp_path):
    first, second = streamed(), streamed(2, False)
    assert leaks(first, second) == []
    assert leaks(storage.read(save(first, tmp_path)), storage.read(save(second, tmp_path, "twin"))) == []


@pytest.mark.parametrize("form", ["gaussian", "array"])
def test_no_bytes_of_a_raw_number_and_no_sentinel_in_anything_kept(form, tmp_path):
    data = rows()
    if form == "gaussian":
        m, batch, res, stream = model(data), data, fitted(), streamed()
    else:
        x = data[["a", "b"]].to_numpy()
        names = {"exog_names": ["a", "b"], "bounds": BOX, "mu": 1}
        m, batch = pr.PrivateOnlineRegression(data["y"], x, **names), (data["y"], x)
        res, stream = m.fit(seed=1, progress=False), m.start(seed=1).update(batch)
    kept = [pickle.dumps(m), pickle.dumps(res), contents(save(res, tmp_path)), contents(save(stream, tmp_path, "s"))]
    raw = packed(data)
    planted = pickle.dumps({"rows": data["a"].to_numpy()})
    assert any(v in planted for v in raw)  # the search works
    assert not any(v in one for v in raw for one in kept)
    assert sentinels(*kept) == []


def test_texts_of_models_streams_and_results_hold_no_sentinel():
    data = rows()
    m, res, stream = model(data), fitted(), streamed()
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


def test_summaries_hold_no_sentinel():
    summary = fitted().summary()
    assert sentinels(summary.as_text(), summary.as_html(), summary.as_latex(), fitted()._repr_html_()) == []


# --- twins -----------------------------------------------------------------------------------------------


def test_all_but_the_randomised_numbers_is_equal_for_different_rows(tmp_path):
    one, two = fitted(), fitted(2, False)
    (doc, arrays), (doc_2, arrays_2) = (storage.read(save(r, tmp_path)) for r in (one, two))
    assert json.dumps(doc) == json.dumps(doc_2)  # header, schema, statement, notes, counts
    assert texts(one) == texts(two)
    assert {k: (v.shape, v.dtype) for k, v in arrays.items()} == {k: (v.shape, v.dtype) for k, v in arrays_2.items()}
    np.testing.assert_array_equal(arrays["trail_n"], arrays_2["trail_n"])
    assert (one.params != two.params).all()
    assert (repr(one), dir(one)) == (repr(two), dir(two))
    assert list(one.tidy()["term"]) == list(two.tidy()["term"])


def test_views_are_equal_once_the_randomised_numbers_are():
    one, two = fitted(), fitted(2, False)
    random = ("params", "last", "estimates", "trail_params", "trail_variances")
    same = dataclasses.replace(two._fit, **{name: getattr(one._fit, name) for name in random})
    swapped = pr.results.PrivateResults(same)
    for view in ("as_text", "as_html", "as_latex"):
        assert getattr(swapped.summary(), view)() == getattr(one.summary(), view)()


def test_a_stream_file_differs_between_different_rows_in_randomised_arrays_only(tmp_path):
    (doc, arrays), (doc_2, arrays_2) = (storage.read(save(s, tmp_path)) for s in (streamed(), streamed(2, False)))
    assert json.dumps(doc) == json.dumps(doc_2)
    differ = {k for k in arrays if not np.array_equal(arrays[k], arrays_2[k])}
    reported = {"theta", "total", "path", "sums", "reports", "outer", "curvature"}
    assert differ <= {f"state_{k}" for k in reported} | {"trail_means", "trail_variances"}
    assert {"state_theta", "state_curvature"} <= differ


def test_under_huge_noise_every_saved_number_is_that_of_any_other_rows(tmp_path):
    """Saved numbers see rows through reports alone: a bounded score beside noise of 2 × bound / mu.

    With mu = 1e-9 and the same noise, an array may differ between any two data sets by about 1e-9 of its largest
    entry times the number of updates. A number with another way to the rows would differ by its own size.
    """
    arrays = [storage.read(save(fitted(*which, 1e-9), tmp_path))[1] for which in ((1, True), (2, False))]
    for name in arrays[0]:
        gap = np.nan_to_num(arrays[0][name] - arrays[1][name])
        assert np.abs(gap).max() <= 1e-6 * np.nanmax(np.abs(arrays[0][name])), name
    streams = [model(mu=1e-9).start(seed=7, inference=BOTH).update(rows(*w)) for w in ((1, True), (2, False))]
    states = [storage.read(save(s, tmp_path))[1] for s in streams]
    for name in states[0]:
        gap = np.nan_to_num(states[0][name].astype(float) - states[1][name].astype(float))
        assert np.abs(gap).max(initial=0) <= 1e-6 * np.nanmax(np.abs(states[0][name]), initial=0), name


def test_values_outside_the_bounds_are_clamped_and_counted_nowhere(tmp_path):
    data = rows()
    clamped = data.assign(**{c: data[c].clip(*BOX[c]) for c in BOX})
    assert (data["a"] != clamped["a"]).sum() == 3
    one, two = (model(d).fit(seed=7, inference=BOTH, progress=False) for d in (data, clamped))
    (doc, arrays), (doc_2, arrays_2) = (storage.read(save(r, tmp_path)) for r in (one, two))
    assert doc == doc_2
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], arrays_2[name])
    states = [model().start(seed=7).update(d) for d in (data, clamped)]
    assert contents(save(states[0], tmp_path)) == contents(save(states[1], tmp_path))


@pytest.mark.parametrize("wild", [True, False])
def test_rows_that_can_be_used_cause_no_warning_and_no_log(wild, caplog, capfd):
    fitted()  # compile first: numba's own log is long
    data = rows(1 if wild else 2, wild)
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = model(data, rows=N).fit(inference=BOTH, progress=True)
        list(map(str, (res, res.privacy.notes)))
        model().start().update(data).results()
    out, err = capfd.readouterr()
    assert "people" in err
    assert [str(w.message) for w in caught] == []
    assert [r.getMessage() for r in caplog.records if r.name.startswith("privreg")] == []
    assert sentinels(out, err, caplog.text) == []
    bar = {float(w) for w in err.replace("/", " ").replace("%", " ").split() if w.replace(".", "").isdigit()}
    assert bar <= {0.0, float(N), 100.0}


def test_an_opt_out_warns_without_numbers():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pr.PrivateOnlineRegression.from_formula("y ~ a + g", rows(), mu=1, allow_leak=("levels", "scale"))
    told = [str(w.message) for w in caught]
    assert len(told) == 2
    assert not any(c.isdigit() for text in told for c in text)
    assert sentinels(*told) == []


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
    res = model(make(data)).fit(seed=7, inference=BOTH, progress=False)
    np.testing.assert_array_equal(res.params, fitted().params)
    one = make(data)
    if isinstance(one, pd.DataFrame | Columns):
        model().start().update(one)
        res.predict(one)
        lacking = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + miss", one, mu=1, bounds={**BOX, "miss": (0, 1)}, family=OPTIONS["family"]
        )
        with pytest.raises(DataError, match="'miss' is missing"):
            lacking.fit()


def test_garbage_in_an_unused_column_of_a_file_is_not_read(tmp_path, monkeypatch):
    data = rows()
    clean, dirty = tmp_path / "clean.csv", tmp_path / "dirty.csv"
    data.drop(columns=["unused", "name"]).to_csv(clean, index=False)
    junk = ["NEVERREAD", "1e999", '"', "nan", "\t", "0x1F", "2020-01-01", "", "--", "1,5"]
    data.assign(unused=[junk[i % len(junk)] for i in range(N)]).to_csv(dirty, index=False)
    asked = []
    read_csv = pd.read_csv
    monkeypatch.setattr("pandas.read_csv", lambda *a, **k: asked.append(k["usecols"]) or read_csv(*a, **k))
    one, two = (model(p).fit(seed=7, progress=False) for p in (clean, dirty))
    assert [len(columns) for columns in asked] == [6, 6]  # a, b, g, o, y, and the place beyond the last column
    np.testing.assert_array_equal(one.params, two.params)
    assert sentinels(repr(two), pickle.dumps(two)) == []


# --- keys ------------------------------------------------------------------------------------------------


@pytest.fixture
def keys(monkeypatch):
    """Every key a fit makes or goes through."""
    made = []

    class Spy(noise_module.NoiseStream):
        def _next_block(self):
            made.append(self._key)
            super()._next_block()
            made.append(self._key)

    def fresh():
        made.append(noise_module.fresh_key())
        return made[-1]

    def derived(key, label):
        made.append(noise_module.derived_key(key, label))
        return made[-1]

    monkeypatch.setattr("privreg.engine.NoiseStream", Spy)
    monkeypatch.setattr("privreg.streaming.NoiseStream", Spy)
    monkeypatch.setattr("privreg.streaming.fresh_key", fresh)
    for module in ("engine", "streaming"):
        monkeypatch.setattr(f"privreg.{module}.derived_key", derived)
    return made


@pytest.mark.parametrize("inference", ["random_scaling", "plug_in", "plug_in_central"])
def test_results_hold_no_key(inference, keys, tmp_path):
    res = model(rows()).fit(inference=inference, progress=False)
    assert len(keys) >= 4
    kept = [pickle.dumps(res), contents(save(res, tmp_path)), (tmp_path / "file").read_bytes()]
    assert not any(k in one for k in keys for one in kept)
    assert not any(k.hex().encode() in one for k in keys for one in kept)
    held = {v for v in reach(res) if isinstance(v, bytes)}
    assert not held & set(keys)


def test_a_stream_file_holds_the_current_key_only_and_no_used_noise(keys, tmp_path):
    stream = model().start().update(rows())
    used = stream._run.noise._buffer[:5].copy()  # noise of the first five people
    current = stream._run.noise._key
    past = [k for k in keys if k != current]
    path = save(stream, tmp_path)
    kept = contents(path)
    assert current in kept
    assert past
    assert not any(k in kept for k in past)
    assert stream._run.noise._key not in kept  # the live stream goes on with another
    assert not any(v.tobytes() in kept for v in used.ravel())
    assert sentinels(kept) == []
    pr.load(path)
    assert not any(k in contents(path) for k in keys)


def test_the_repr_of_a_stream_in_progress_shows_no_key(keys):
    stream = model().start().update(rows())
    shown = " ".join([repr(stream), repr(stream._run.noise), repr(vars(stream))])
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


@pytest.mark.parametrize("plot", ["plot_trajectory", "plot_coef"])
def test_plots_draw_no_number_of_the_rows(plot):
    pytest.importorskip("matplotlib")
    pytest.importorskip("privreg.plots")
    import matplotlib.pyplot as plt

    pictures = []
    for res in (fitted(), fitted(2, False)):
        ax = np.ravel(getattr(res, plot)())[0]
        pictures.append(drawn(ax))
        image = io.BytesIO()
        ax.figure.savefig(image, format="svg")
        assert sentinels(image.getvalue(), *pictures[-1][1]) == []
        plt.close(ax.figure)
    assert leaks(pictures[0][0], pictures[1][0]) == []
