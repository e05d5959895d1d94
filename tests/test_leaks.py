"""Nothing that was computed from raw rows, and not randomised, is found in anything a user can print, save or plot.

Three searches. *Sentinels*: numbers and texts planted in the rows, looked for in texts and bytes. *Statistics*: every
raw value, residual, mean, sd, quantile and count, in the user's and in internal units, looked for among all numbers
that can be reached from an object. *Twins*: completely different rows under the same declarations and the same
noise, after which everything but the randomised numbers must be equal. The searches are themselves tested on leaks
planted in results. All three look at the staged fit in each of its stages, with public and with private scales and
with a 0/1 response, and at the published algorithm.
"""

import copy
import dataclasses
import io
import json
import logging
import math
import pickle
import re
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
from privreg.errors import DataError, InferenceError
from privreg.pipeline import Pipeline

N = 400
FORMULA = "y ~ a + I(a**2) + b + g"
BOX = {"a": (0, 40_000), "b": (-1, 1), "o": (-5, 5), "y": (0, 50_000)}
OPTIONS = {
    "bounds": BOX,
    "levels": {"g": ["u", "v", "w"]},
    "family": pr.Huber(scale=4000.0),
    "offset": "o",
    "rows": N,
}
LANES, BOTH = ("between_lanes", "random_scaling"), ("random_scaling", "plug_in")
WAYS = {
    "default": ({}, {"inference": LANES}),
    "private": ({"scaling": "private", "bounds": {"o": BOX["o"]}, "family": pr.Huber()}, {"inference": LANES}),
    "logistic": ({"formula": FORMULA.replace("y ~", "h ~"), "family": pr.Logistic()}, {"inference": LANES}),
    "published": ({}, {"tuning": "published", "inference": BOTH}),
}
"""Options of the model and of the fit."""

EVERY_WAY = pytest.mark.parametrize("way", WAYS)
STAGED = pytest.mark.parametrize("way", [w for w in WAYS if w != "published"])
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
    data["h"] = (data["y"] > 12_000 * seed).astype(float)
    data["unused"], data["name"] = rng.uniform(size=N), WORD
    if wild:
        data.loc[[3, 5, 7, 9, 11], ["a"]] = np.array([[31415.926535, 271828.18, 1e7, -1e7, 16180.339887]]).T
        data.loc[[4, 6, 8, 10, 12], "y"] = 27182.818, 161803.39, 99_999.0, 2718281.8, -31415.926535
    return data.set_index(pd.Index([f"{ROW}-{i}" for i in range(N)]))


def model(data=None, way="default", **more):
    options = {"formula": FORMULA, "mu": 1, **OPTIONS, **WAYS[way][0], **more}
    return pr.PrivateOnlineRegression.from_formula(options.pop("formula"), data, **options)


def fit(data, way="default", **more):
    return model(data, way, **more).fit(seed=7, progress=False, **WAYS[way][1])


@cache
def fitted(seed=1, wild=True, mu=1, way="default"):
    return fit(rows(seed, wild), way, mu=mu)


def started(way="default", mu=1, seed=7):
    return model(way=way, mu=mu).start(seed=seed, **WAYS[way][1])


@cache
def streamed(seed=1, wild=True, way="default", people=N, mu=1):
    return started(way, mu).update(rows(seed, wild).head(people))


@cache
def places(way="default"):
    """How many people bring a stream into the middle of a stage of each kind; at last all of them."""
    if way == "published":
        return {"published": N}
    stream, data, at = started(way), rows(), {}
    for i in range(N):
        at.setdefault((stream._run.kind, stream._run.stage), []).append(i)
        stream.update(data.iloc[i : i + 1])
    # of several stages of a kind the last
    return {kind: people[len(people) // 2] for (kind, _), people in at.items()} | {"end": N}


DECIDED = Pipeline._correlated


@pytest.fixture(autouse=True, scope="module")
def _small_blocks_of_noise_and_the_same_stages_for_twins():
    """Less noise is made ahead, since every number of it is looked at.

    Whether the optional round of moments is held is decided by what reports have shown: here it always is, so that
    twins are in the same stage after the same number of people.
    """
    with pytest.MonkeyPatch.context() as m:
        m.setattr("privreg.noise.NORMALS", 1 << 10)
        m.setattr(Pipeline, "_correlated", lambda _: True)
        yield


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


def leaves(thing, path="", seen=None):
    """Numbers and arrays of numbers that can be reached from an object, by the way to them."""
    seen = {} if seen is None else seen
    if isinstance(thing, bool | str | bytes | type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType):
        return {}
    if isinstance(thing, int | float | np.number | np.ndarray):
        return {path: thing} if np.asarray(thing).dtype.kind in "iuf" else {}
    if id(thing) in seen:
        return {}
    seen[id(thing)] = thing
    if isinstance(thing, Mapping):
        inside = thing
    elif isinstance(thing, list | tuple):
        inside = dict(enumerate(thing))
    else:
        inside = getattr(thing, "__dict__", {})
    return {k: v for name, value in inside.items() for k, v in leaves(value, f"{path}.{name}", seen).items()}


def numbers(thing):
    found = {float(v) for v in reach(thing) if isinstance(v, int | float | np.number) and not isinstance(v, bool)}
    return {v for v in found if math.isfinite(v)}


def texts(thing):
    return {v if isinstance(v, str) else v.decode("latin-1") for v in reach(thing) if isinstance(v, str | bytes)}


def statistics(data, way):
    """Every number that somebody could have computed from the rows and forgotten to randomise."""
    m = model(data, way)
    encoded, units = m._spec.design.encode(data), m._spec.units
    inside = encoded.exog.copy()
    units.rows_inside(inside)
    y = units.response_inside(encoded.endog)
    fit = m.fit(seed=7, progress=False, **WAYS[way][1])._fit
    columns = [data[c].to_numpy(dtype=float) for c in ("a", "b", "o", "y", "unused")]
    columns += [encoded.endog, encoded.offset, y, *encoded.exog.T[1:], *inside.T[1:]]
    columns += [residuals(fit, data, way), np.abs(residuals(fit, data, way)), encoded.offset / units.y_scale]
    columns += [y - encoded.offset / units.y_scale]
    out = []
    for c in columns:
        out += [c, np.quantile(c, [0, 0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99, 1]), [c.mean(), c.sum(), c @ c]]
        out += [[c.std(), c.std(ddof=1), c.var(), c.var(ddof=1), np.median(np.abs(c - np.median(c)))]]
    counts = [*data["g"].value_counts(), *data["g"].value_counts() / N, data["h"].sum(), data["h"].mean()]
    for c, (low, high) in BOX.items():
        outside = [(data[c] < low).sum(), (data[c] > high).sum(), (~data[c].between(low, high)).sum()]
        counts += [*outside, *(k / N for k in outside), N - outside[2], data[c].nunique()]
    gram = inside.T @ inside
    out += [counts, gram, gram / N, inside.T @ y, np.linalg.lstsq(encoded.exog, encoded.endog, rcond=None)[0]]
    lengths = np.linalg.norm(inside, axis=1)
    out += [lengths, 1 / lengths, np.linalg.eigvalsh(gram), np.corrcoef(inside[:, 1:].T), np.linalg.cholesky(gram / N)]
    out += [np.linalg.inv(np.linalg.cholesky(gram / N)), inside / lengths[:, None]]
    flat = np.concatenate([np.ravel(v).astype(float) for v in out])
    return np.unique(flat[np.isfinite(flat)])


@cache
def known(way="default"):
    return statistics(rows(), way)


def hits(found, stats):
    """Numbers among `found` that equal a statistic to 1e-9 of its size."""
    values = np.array(sorted(found))
    at = (
        np.searchsorted(values, stats - 1e-9 * np.abs(stats)),
        np.searchsorted(values, stats + 1e-9 * np.abs(stats), side="right"),
    )
    return [float(s) for s, lo, hi in zip(stats, *at, strict=True) if hi > lo]


def leaks(thing, other, way="default"):
    """Statistics of the rows behind `thing` that are in it, apart from numbers its twin has too, which are public."""
    return hits(numbers(thing) - numbers(other), known(way))


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


def residuals(fit, data, way="default"):
    encoded = model(way=way)._spec.design.encode(data)
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


@EVERY_WAY
def test_results_hold_no_number_of_the_rows(tmp_path, way):
    res, twin = fitted(way=way), fitted(2, False, way=way)
    assert len(numbers(res) - numbers(twin)) > 50  # the search has something to look at
    assert leaks(res, twin, way) == []
    assert leaks(pickle.loads(pickle.dumps(res)), twin, way) == []
    assert leaks(copy.deepcopy(res), twin, way) == []
    path = save(res, tmp_path)
    assert leaks(storage.read(path), storage.read(save(twin, tmp_path, "twin")), way) == []
    assert leaks(pr.load(path), twin, way) == []
    tables = [[r.tidy(), r.trajectory(), r.cov_params(), r.conf_int()] for r in (res, twin)]
    assert leaks(*tables, way) == []


def outcome(stream):
    """Results taken now, all that they hold and show; the words of the refusal if it is too early."""
    try:
        res = stream.results()
    except InferenceError as e:
        return str(e)
    return [res, res.tidy(), res.trajectory(), res.summary().as_text(), res.summary().as_html(), repr(res)]


@EVERY_WAY
def test_a_stream_its_file_and_its_results_hold_no_number_of_the_rows_in_any_stage(tmp_path, way):
    raw = packed(rows())
    for kind, people in places(way).items():
        first, second = streamed(way=way, people=people), streamed(2, False, way=way, people=people)
        assert leaks(first, second, way) == []
        shown = outcome(first), outcome(second)
        assert isinstance(shown[0], str) == (kind in {"location", "moments"})
        assert leaks(*shown, way) == []
        files = [save(s, tmp_path, name) for s, name in ((first, "one"), (second, "two"))]
        assert leaks(*(storage.read(f) for f in files), way) == []
        texts_ = [*texts(first), *texts(shown[0]), repr(first), repr(vars(first)), repr(vars(first._run))]
        kept = contents(files[0])
        assert sentinels(*texts_, kept) == []
        assert not any(v in kept for v in raw)


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


# --- twins -----------------------------------------------------------------------------------------------


def without_learned_words(res):
    """The results but for words that follow from reports, so they differ: the residual scale, notes on rare values."""
    fit = res._fit
    title = tuple((k, re.sub(r"scale \S+ \(learned\)", "scale", v)) for k, v in fit.title)
    notes = tuple(n for n in fit.statement.notes if "as learned from the reports" not in n and "learned sd" not in n)
    statement = dataclasses.replace(fit.statement, notes=notes)
    return pr.results.PrivateResults(dataclasses.replace(fit, title=title, statement=statement))


@EVERY_WAY
def test_all_but_the_randomised_numbers_is_equal_for_different_rows(tmp_path, way):
    one, two = (without_learned_words(r) for r in (fitted(way=way), fitted(2, False, way=way)))
    (doc, arrays), (doc_2, arrays_2) = (storage.read(save(r, tmp_path)) for r in (one, two))
    assert json.dumps(doc) == json.dumps(doc_2)  # header, schema, statement, notes, counts
    assert texts(one) == texts(two)
    assert {k: (v.shape, v.dtype) for k, v in arrays.items()} == {k: (v.shape, v.dtype) for k, v in arrays_2.items()}
    np.testing.assert_array_equal(arrays["trail_n"], arrays_2["trail_n"])
    assert (one.params != two.params).all()
    assert (repr(one), dir(one)) == (repr(two), dir(two))
    assert list(one.tidy()["term"]) == list(two.tidy()["term"])
    learned = [dict(r._fit.title)["Family"] for r in (fitted(way=way), fitted(2, False, way=way))]
    assert (learned[0] != learned[1]) == (way == "private")  # where no residual scale was declared


@EVERY_WAY
def test_views_are_equal_once_the_randomised_numbers_are(way):
    one, two = (without_learned_words(r) for r in (fitted(way=way), fitted(2, False, way=way)))
    random = ("params", "last", "estimates", "trail_params", "trail_variances")
    same = dataclasses.replace(two._fit, **{name: getattr(one._fit, name) for name in random})
    swapped = pr.results.PrivateResults(same)
    for view in ("as_text", "as_html", "as_latex"):
        assert getattr(swapped.summary(), view)() == getattr(one.summary(), view)()


CHAIN = ("theta", "log_c", "origin", "total", "score", "late", "batch", "partial", "sums", "newton", "steps")
REPORTED = {
    # of the published algorithm: sums of reports, and what is computed from them
    "published": {f"state_{k}" for k in ("theta", "total", "path", "sums", "reports", "outer", "curvature")},
    # of the staged fit: `total` are the sums of the present stage's reports; location, scatter (with the response's
    # location and scale in internal units) and what chains begin with, newton and steps, are computed from such sums;
    # all the rest of chains are sums of scores' reports and what they moved
    "staged": {
        *("total", "response", "shares", "scatter_rows", "scatter_memory", "scatter_weight"),
        *(f"location_{k}" for k in ("centre", "log_spread", "centre_sum", "log_sum", "outside")),
        *(f"{name}_{k}" for name in ("chains", "common") for k in CHAIN),
    },
}
"""Arrays of a saved stream that may differ between different rows. The others are public: counts of people and of
updates, the place in the plan, the user's guess, and with a seed the noise that is left."""


@EVERY_WAY
def test_a_stream_file_differs_between_different_rows_in_randomised_arrays_only(tmp_path, way):
    allowed = REPORTED["published" if way == "published" else "staged"] | {"trail_means", "trail_variances"}
    seen, ever = set(), set()
    for people in places(way).values():
        both = [streamed(*which, way=way, people=people) for which in ((1, True), (2, False))]
        (doc, arrays), (doc_2, arrays_2) = (storage.read(save(s, tmp_path)) for s in both)
        assert json.dumps(doc) == json.dumps(doc_2)
        assert arrays.keys() == arrays_2.keys()
        differ = {k for k in arrays if not np.array_equal(arrays[k], arrays_2[k], equal_nan=arrays[k].dtype == float)}
        assert differ <= allowed
        assert differ or people < 5
        seen, ever = seen | differ, ever | set(arrays)
    if way == "published":
        assert {"state_theta", "state_curvature"} <= seen
    else:
        assert {"total", "scatter_rows", "chains_theta", "chains_score", "common_score", "trail_means"} <= seen
    assert "location_centre" in seen or way != "private"
    assert ever - allowed == {
        "published": {"state_counts", "state_origin", "state_batch", "state_functional", "trail_counts"}
        | {f"secret_{name}_{k}" for name in ("score", "curvature") for k in ("key", "rest")}
    }.get(
        way,
        {
            "position",
            "guess",
            "location_batches",
            "trail_people",
            "secret_keys",
            "secret_score_key",
            "secret_score_rest",
        }
        | {f"{name}_{k}" for name in ("chains", "common") for k in ("updates", "in_batch")},
    )


@EVERY_WAY
def test_under_huge_noise_every_saved_number_is_that_of_any_other_rows(tmp_path, way, monkeypatch):
    """Saved numbers see rows through reports alone: a bounded report beside noise of at least bound / mu.

    With mu = 1e-9 and the same noise, an array may differ between any two data sets by about 1e-9 of its largest
    entry times the number of updates. A number with another way to the rows would differ by its own size.
    """

    def check(one, two):
        assert one.keys() == two.keys()
        for name in one:
            a, b = (np.asarray(v[name], dtype=float) for v in (one, two))
            finite = np.isfinite(a)
            np.testing.assert_array_equal(a[~finite], b[~finite])
            gap, size = np.abs(a[finite] - b[finite]), np.abs(a[finite]).max(initial=0)
            assert gap.max(initial=0) <= 1e-6 * size, name

    monkeypatch.setattr(Pipeline, "_correlated", DECIDED)  # by reports, which agree too
    twins = ((1, True), (2, False))
    check(*(storage.read(save(fitted(*which, 1e-9, way), tmp_path))[1] for which in twins))
    for people in places(way).values():
        streams = [streamed(*w, way, people, 1e-9) for w in twins]
        check(*(storage.read(save(s, tmp_path))[1] for s in streams))
        # nor is there another number in memory; the noise is made without rows, in scratch space of any content
        check(*({k: v for k, v in leaves(s).items() if "noise._" not in k} for s in streams))


@pytest.mark.parametrize("way", ["default", "published"])
def test_values_outside_the_bounds_are_clamped_and_counted_nowhere(tmp_path, way):
    data = rows()
    clamped = data.assign(**{c: data[c].clip(*BOX[c]) for c in BOX})
    assert (data["a"] != clamped["a"]).sum() == 3
    one, two = (fit(d, way) for d in (data, clamped))
    (doc, arrays), (doc_2, arrays_2) = (storage.read(save(r, tmp_path)) for r in (one, two))
    assert doc == doc_2
    for name in arrays:
        np.testing.assert_array_equal(arrays[name], arrays_2[name])
    for people in places(way).values():
        states = [started(way).update(d.head(people)) for d in (data, clamped)]
        assert contents(save(states[0], tmp_path)) == contents(save(states[1], tmp_path))


@EVERY_WAY
@pytest.mark.parametrize("wild", [True, False])
def test_rows_that_can_be_used_cause_no_warning_and_no_log(wild, way, caplog, capfd):
    fitted(way=way)  # compile first: numba's own log is long
    data = rows(1 if wild else 2, wild)
    caplog.set_level(logging.DEBUG)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        res = model(data, way).fit(progress=True, **WAYS[way][1])
        list(map(str, (res, res.privacy.notes)))
        stream, before = model(way=way).start(), 0
        for people in places(way).values():
            outcome(stream.update(data.iloc[before:people]))
            before = people
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
    res = fit(make(data))
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

    monkeypatch.setattr("privreg.streaming.fresh_key", fresh)
    for module in ("engine", "streaming", "pipeline"):
        monkeypatch.setattr(f"privreg.{module}.NoiseStream", Spy)
        monkeypatch.setattr(f"privreg.{module}.derived_key", derived)
    return made


@pytest.mark.parametrize(
    ("tuning", "inference"),
    [
        ("efficient", "between_lanes"),
        ("efficient", "random_scaling"),
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


@EVERY_WAY
def test_a_stream_file_holds_the_keys_to_come_only_and_no_used_noise(keys, tmp_path, way):
    """Of the block under way and of stages to come; none by which noise that was used could be drawn again."""
    for people in places(way).values():
        keys.clear()
        stream = model(way=way).start(**WAYS[way][1]).update(rows().head(people))
        run = stream._run
        used = run.noise._buffer[: min(5, run.noise._used)].copy()  # noise of this block's first people
        coming = {
            run.noise._key,
            *getattr(run, "keys", []),
            *([run.curvature_noise._key] if way == "published" else []),
        }
        past = [k for k in keys if k not in coming]
        path = save(stream, tmp_path)
        kept = contents(path)
        assert all(k in kept for k in coming)
        assert past
        assert not any(k in kept for k in past)
        assert stream._run.noise._key not in kept  # the live stream goes on with another
        assert not any(v.tobytes() in kept for v in used.ravel())
        assert sentinels(kept) == []
        loaded = pr.load(path)
        assert not any(k in contents(path) for k in keys)
        loaded.update(rows().iloc[people:])
        now = contents(save(loaded, tmp_path, "later"))
        assert not any(k in now for k in past)


@STAGED
def test_a_stream_in_progress_holds_the_keys_to_come_only(keys, way):
    stream, before, gone = model(way=way).start(**WAYS[way][1]), 0, set()
    for people in places(way).values():
        stream.update(rows().iloc[before:people])
        before = people
        held = {v for v in reach(stream) if isinstance(v, bytes)} & set(keys)
        assert held == {stream._run.noise._key, *stream._run.keys}
        gone = set(keys) - held
    assert len(gone) >= len(places(way))


def test_the_repr_of_a_stream_in_progress_shows_no_key(keys):
    stream = model().start().update(rows())
    shown = " ".join([repr(stream), repr(stream._run), repr(stream._run.noise), repr(vars(stream))])
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


@EVERY_WAY
@pytest.mark.parametrize("plot", ["plot_trajectory", "plot_coef"])
def test_plots_draw_no_number_of_the_rows(plot, way):
    pytest.importorskip("matplotlib")
    pytest.importorskip("privreg.plots")
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
