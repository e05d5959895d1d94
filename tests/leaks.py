"""The searches for what was computed from raw rows and not randomised, and the fits they search.

Three searches. *Sentinels*: numbers and texts planted in the rows, looked for in texts and bytes. *Statistics*: every
raw value, residual, mean, sd, quantile and count, in the user's and in internal units, looked for among all numbers
that can be reached from an object. *Twins*: completely different rows under the same declarations and the same
noise, after which everything but the randomised numbers must be equal. The searches are themselves tested on leaks
planted in results. All three look at fits by rounds in rounds of every role, with public and with private scales and
with a 0/1 response, and at the published algorithm. What a stream holds of raw rows (`Raw`) is the devices', not looked
at in memory, and never in anything kept.
"""

import math
import types
import zipfile
from collections.abc import Mapping
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import rounds
from privreg.collector.estimation import curvature
from privreg.errors import InferenceError
from privreg.simulation.rounds import Raw

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
FROM_PATHS = ("random_scaling", "batch_means", "block_bootstrap", "block_bootstrap_t", "plug_in", "path_curvature")
EVERY = ("sandwich", "between_lanes", *FROM_PATHS)
WAYS = {
    "default": ({}, {"inference": EVERY}),
    "private": ({"scaling": "private", "bounds": {"o": BOX["o"]}, "family": pr.Huber()}, {"inference": EVERY}),
    "logistic": ({"formula": FORMULA.replace("y ~", "h ~"), "family": pr.Logistic()}, {"inference": EVERY}),
    "published": ({}, {"tuning": "published", "inference": FROM_PATHS}),
}
"""Options of the model and of the fit."""

EVERY_WAY = pytest.mark.parametrize("way", WAYS)
BY_ROUNDS = pytest.mark.parametrize("way", [w for w in WAYS if w != "published"])
WORD, ROW = "SECRET-LEVEL", "SECRET-ROW"
ROUNDING = 1e-15
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


STEP = 3
"""People at a time; the smallest rounds have some times as many."""


@cache
def places(way="default"):
    """How many people bring a stream into the middle of a round of each role; at last all of them."""
    if way == "published":
        return {"published": N}
    stream, data, at = started(way), rows(), {}
    for i in range(0, N, STEP):
        at.setdefault((stream._run.progress.state.role, len(stream._run.progress.held)), []).append(i)
        stream.update(data.iloc[i : i + STEP])
    # of several rounds of a role the last
    return {role: people[len(people) // 2] for (role, _), people in at.items()} | {"end": N}


# --- the searches --------------------------------------------------------------------------------------


SKIPPED = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, Raw)


def reach(thing):
    """Texts, bytes and numbers that can be reached from an object by any chain of attributes and items."""
    seen, todo = {}, [thing]
    while todo:
        thing = todo.pop()
        if id(thing) in seen or isinstance(thing, SKIPPED):
            continue
        seen[id(thing)] = thing
        if isinstance(thing, (str, bytes, int, float, np.generic)):
            yield thing
        elif isinstance(thing, np.ndarray):
            if thing.dtype.kind in "biuf":
                yield from thing.ravel().tolist()
            else:
                todo += thing.ravel().tolist()
        elif isinstance(thing, (pd.DataFrame, pd.Series, pd.Index)):
            todo += [thing.to_numpy(), *getattr(thing, "axes", [])[:2], getattr(thing, "name", None)]
        elif isinstance(thing, Mapping):
            todo += [part for pair in thing.items() for part in pair]
        elif isinstance(thing, (list, tuple, set, frozenset)):
            todo += thing
        else:
            held = {name: getattr(thing, name) for name in slots(type(thing)) if hasattr(thing, name)}
            todo.append({**getattr(thing, "__dict__", {}), **held})


@cache
def slots(kind):
    """Names of attributes that objects of a class have beside those in their dictionary."""
    return {s for c in kind.__mro__ for s in np.atleast_1d(getattr(c, "__slots__", ()))} - {"__dict__", "__weakref__"}


def leaves(thing, path="", seen=None):
    """Numbers and arrays of numbers that can be reached from an object, by the way to them."""
    seen = {} if seen is None else seen
    skipped = type | types.ModuleType | types.FunctionType | types.BuiltinFunctionType | Raw
    if isinstance(thing, bool | str | bytes | skipped):
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


CONSTANTS = (1.0, 1.0 / rounds.OFFSET, 1.0 / curvature.LEAST)
"""An intercept's column and public limits of what is learned, which numbers that reach them are but for rounding."""


def hits(found, stats):
    """Numbers among `found` that equal a statistic to 1e-9 of its size; residues of rounding are nobody's number."""
    stats = stats[
        ((stats == 0) | (np.abs(stats) >= ROUNDING))
        & ~np.isclose(stats[:, None], CONSTANTS, rtol=ROUNDING, atol=0).any(1)
    ]
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


def residuals(fit, data, way="default"):
    encoded = model(way=way)._spec.design.encode(data)
    return encoded.endog - encoded.exog @ fit.params - encoded.offset


def outcome(stream):
    """Results taken now, all that they hold and show; the words of the refusal if it is too early."""
    try:
        res = stream.results()
    except InferenceError as e:
        return str(e)
    return [res, res.tidy(), res.trajectory(), res.summary().as_text(), res.summary().as_html(), repr(res)]
