"""Wrong calls and wrong data through the public API: which error, what it tells, and that it quotes no data.

Every raw table below holds sentinels, numbers inside and outside the bounds and texts, in columns that are used, in
columns that are not, and in the index. None of them may turn up in a traceback. Source lines are part of a
traceback, so no line that raises spells a sentinel.
"""

import gzip
import traceback
import zipfile
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg import storage
from privreg.errors import (
    BudgetError,
    DataError,
    FormulaError,
    InferenceError,
    NotPrivateError,
    OptionError,
    PrivacyLeakError,
    PrivregError,
    SavedFileError,
    SchemaError,
    UnsupportedArgumentError,
)

INSIDE, OUTSIDE, ANSWER = 31415.926535, 27182.818, 16180.339887
WORD, ROW = "SECRET-LEVEL", "SECRET-ROW"
TRACES = ("31415", "27182", "16180", "3.14159", "2.71828", "1.61803", "SECRET")
BOX = {"a": (0, 40_000), "b": (0, 1), "y": (0, 50_000)}
LEVELS = {"g": ["u", "v"]}
N = 60


def rows(**columns):
    rng = np.random.default_rng(1)
    data = pd.DataFrame(
        {
            "a": rng.uniform(0, 40_000, N),
            "b": rng.uniform(0, 1, N),
            "g": rng.choice(["u", "v"], N),
            "y": rng.uniform(0, 50_000, N),
            "unused": INSIDE,
            "name": WORD,
        },
        index=[f"{ROW}-{i}" for i in range(N)],
    )
    at = {c: data.columns.get_loc(c) for c in "aby"}
    data.iloc[3, at["a"]], data.iloc[4, at["a"]] = INSIDE, OUTSIDE * 1000
    data.iloc[5, at["b"]] = OUTSIDE
    data.iloc[0, at["y"]], data.iloc[7, at["y"]] = ANSWER, -OUTSIDE
    return data.assign(**columns)


def cell(column, value, at=11):
    """Rows with one wrong cell; the others are as before."""
    data = rows()
    values = data[column].tolist()
    values[at] = value
    return data.assign(**{column: pd.Series(values, index=data.index, dtype=object)})


def by_formula(formula="y ~ a + b + g", data=None, **options):
    data = rows() if data is None else data
    given = {"mu": 1, "bounds": BOX, "levels": LEVELS, "family": pr.Huber(scale=4000.0), **options}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **{k: v for k, v in given.items() if v is not GONE})


def by_arrays(endog=None, exog=None, **options):
    data = rows()
    x = np.column_stack([np.ones(N), data["a"], data["b"]]) if exog is None else exog
    y = data["y"].to_numpy() if endog is None else endog
    given = {"mu": 1, "bounds": BOX, "exog_names": ["const", "a", "b"], **options}
    return pr.PrivateOnlineRegression(y, x, **given)


GONE = object()


def stream(tuning="efficient", **options):
    given = {"mu": 1, "bounds": BOX, "levels": LEVELS, "rows": N, **options}
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b + g", None, **given).start(tuning=tuning)


@cache
def results():
    return by_formula().fit(tuning="published", inference=("random_scaling", "plug_in"), seed=1, progress=False)


@cache
def default_results():
    return by_formula().fit(seed=1, progress=False)


@cache
def estimates_only():
    return by_formula().fit(inference=None, progress=False)


@cache
def early():
    """Results of the default fit before its lanes have begun, and so without intervals."""
    going, at = stream(), 0
    while going._run.kind != "pilot":
        going.update(rows().iloc[at : at + 1])
        at += 1
    return going.results()


def csv(tmp, text, name="people.csv"):
    path = tmp / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(extra="", header="a,b,g,y,unused,name"):
    return f"{header}\n" + rows().to_csv(index=False, header=False) + extra


def saved(tmp, change=None, document=None):
    """A saved result, its arrays or document changed."""
    path = tmp / "r.privreg"
    results().save(path)
    doc, arrays = storage.read(path)
    kind = doc.pop("kind")
    del doc["format"]
    storage.write_archive(path, kind, {**doc, **(document or {})}, {**arrays, **(change or {})})
    return path


def saved_stream(tmp, change, people=N, drop=None, **options):
    path = tmp / "s.privreg"
    stream(**options).update(rows().head(people)).save(path)
    doc, arrays = storage.read(path)
    kind = doc.pop("kind")
    del doc["format"]
    storage.write_archive(path, kind, doc, {k: change(k, v) for k, v in arrays.items() if k != drop}, secret=True)
    return path


def cut(tmp):
    path = saved(tmp)
    path.write_bytes(path.read_bytes()[:-100])
    return path


def flipped(tmp):
    path = saved(tmp)
    raw = bytearray(path.read_bytes())
    for at in range(len(raw) // 4, 3 * len(raw) // 4, 50):
        raw[at] ^= 255
    path.write_bytes(raw)
    return path


def text_file(tmp):
    path = tmp / "r.privreg"
    path.write_text(rows().to_csv())
    return path


def frames_then(what):
    yield rows()
    yield what


RAGGED = [[1.0, INSIDE], [OUTSIDE]]
HEADERLESS = rows().iloc[1:].set_axis(map(str, rows().iloc[0]), axis=1)
BY_PERSON = rows()["a"].to_dict()
TWICE = pd.concat([rows(), rows()["a"]], axis=1)
OTHER = rows().rename(columns={"b": "B"})

FORMULAS = {
    "not a formula": (lambda _: by_formula("y ~ a +* b"), FormulaError, ["'y ~ a +* b'", "can't be read", "y ~ x1"]),
    "formula of the wrong type": (lambda _: by_formula(rows()), FormulaError, ["string such as", "got DataFrame"]),
    "no response": (lambda _: by_formula("~ a"), FormulaError, ["no response", "'y ~ ...'"]),
    "nothing on the right": (lambda _: by_formula("y ~ 0"), FormulaError, ["nothing on the right", "'y ~ 1'"]),
    "response on both sides": (lambda _: by_formula("y ~ a + y"), FormulaError, ["'y' stands on both sides"]),
    "term that learns": (lambda _: by_formula("y ~ center(a)"), PrivacyLeakError, ["center", "public numbers"]),
    "undeclared column": (
        lambda _: by_formula("y ~ aa + b"),
        SchemaError,
        ["'aa' is not declared; declared are 'a', 'b', 'y', 'g'", "Did you mean 'a'?", "bounds={'aa'"],
    ),
    "undeclared response": (lambda _: by_formula(bounds={"a": (0, 1), "b": (0, 1)}), SchemaError, ["'y' is not decl"]),
    "factor without levels": (lambda _: by_formula(levels=None), SchemaError, ["'g' is not declared", "levels={'g'"]),
    "comparison with no level": (
        lambda _: by_formula("y ~ a + I(g == 'w')"),
        FormulaError,
        ["'w' is not a declared level of 'g'", "['u', 'v']"],
    ),
    "reference that is no level": (
        lambda _: by_formula("y ~ C(g, Treatment('w'))"),
        FormulaError,
        ["'w' is not a declared level", "['u', 'v']"],
    ),
    "same column twice": (
        lambda _: by_formula("y ~ a + I(a * 2)"),
        FormulaError,
        ["'a', 'I(a * 2)'", "linearly dependent", "drop one"],
    ),
    "constant by its bounds": (
        lambda _: by_formula(bounds={**BOX, "b": (1, 1)}),
        FormulaError,
        ["'Intercept', 'b'", "linearly dependent"],
    ),
    "factor response for Huber": (
        lambda _: by_formula("g ~ a + b"),
        FormulaError,
        ["'g' is a factor with 2 declared levels", "bounds={'g'"],
    ),
    "logistic response with wide bounds": (
        lambda _: by_formula("y ~ a", family="logistic"),
        FormulaError,
        ["0 or 1", "0 to 50000", "I(y > cut)"],
    ),
    "infinite inside the bounds": (
        lambda _: by_formula("y ~ np.log(a)"),
        FormulaError,
        ["'np.log(a)' is not finite somewhere inside", "tighten the bounds"],
    ),
    "rowwise of no function": (lambda _: pr.rowwise(rows()), FormulaError, ["takes a function, got DataFrame"]),
}

SCHEMAS = {
    "bounds of no pair": (lambda _: by_formula(bounds={**BOX, "a": 5}), SchemaError, ["bounds['a'] is a int", "(low,"]),
    "bounds with text": (lambda _: by_formula(bounds={**BOX, "a": ("x", 5)}), SchemaError, ["('x', 5)", "(low, high)"]),
    "empty bounds": (lambda _: by_formula(bounds={**BOX, "a": (5, -5)}), SchemaError, ["(5, -5) is empty", "low <="]),
    "NaN bounds": (lambda _: by_formula(bounds={**BOX, "a": (0, np.nan)}), SchemaError, ["(0, nan) is empty"]),
    "half infinite bounds": (
        lambda _: by_formula(bounds={**BOX, "a": (0, np.inf)}),
        SchemaError,
        ["two finite bounds"],
    ),
    "infinite without scale": (
        lambda _: by_formula(bounds={**BOX, "a": (-np.inf, np.inf)}),
        SchemaError,
        ["without a scale", "moments={'a'"],
    ),
    "bounds beyond floating point": (
        lambda _: by_formula(bounds={**BOX, "a": (0, 10**400)}),
        SchemaError,
        ["two finite bounds"],
    ),
    "bounds that overflow": (lambda _: by_formula(bounds={**BOX, "a": (0, 1e200)}), SchemaError, ["column's unit"]),
    "bounds are a column": (
        lambda _: by_formula(bounds={"a": rows()["a"]}),
        SchemaError,
        ["is a Series", "(low, high)"],
    ),
    "bounds by person": (lambda _: by_formula(bounds={"a": BY_PERSON}), SchemaError, ["bounds['a'] is a dict"]),
    "bounds of no mapping": (lambda _: by_formula(bounds=[(0, 1)]), SchemaError, ["must be a mapping", "got list"]),
    "bounds with a number for a name": (lambda _: by_formula(bounds={1: (0, 1)}), SchemaError, ["has the key 1"]),
    "one level": (lambda _: by_formula(levels={"g": ["u"]}), SchemaError, ["1 level(s)", "at least two"]),
    "a level twice": (lambda _: by_formula(levels={"g": ["u", "u"]}), SchemaError, ["names a level twice"]),
    "NaN for a level": (lambda _: by_formula(levels={"g": [0.5, np.nan]}), SchemaError, ["can't be NaN"]),
    "text for levels": (lambda _: by_formula(levels={"g": "uv"}), SchemaError, ["['no', 'yes']", "got str"]),
    "levels are a column": (lambda _: by_formula(levels={"g": rows()["name"]}), SchemaError, ["got Series"]),
    "level inside a level": (
        lambda _: by_formula(levels={"g": [rows()["name"], "v"]}),
        SchemaError,
        ["levels are str"],
    ),
    "factor and number": (lambda _: by_formula(levels={"a": [0, 1]}), SchemaError, ["'a' declared as a factor", "one"]),
    "moments without spread": (lambda _: by_formula(moments={"a": (1, 0)}), SchemaError, ["(1, 0)", "sd > 0"]),
    "levels for arrays": (lambda _: by_arrays(levels=LEVELS), SchemaError, ["for formulas", "code factors first"]),
    "array column undeclared": (
        lambda _: by_arrays(exog_names=["const", "a", "bb"]),
        SchemaError,
        ["'bb' is not declared", "Did you mean 'b'?"],
    ),
}

BUDGETS = {
    "mu zero": (lambda _: by_formula(mu=0), BudgetError, ["mu=0", "positive"]),
    "mu negative": (lambda _: by_formula(mu=-1), BudgetError, ["mu=-1 must be a positive number"]),
    "mu NaN": (lambda _: by_formula(mu=np.nan), BudgetError, ["mu=nan", "positive"]),
    "mu infinite": (lambda _: by_formula(mu=np.inf), BudgetError, ["mu=inf", "None for a fit without"]),
    "mu beyond floating point": (lambda _: by_formula(mu=10**400), BudgetError, ["mu=inf"]),
    "mu boolean": (lambda _: by_formula(mu=True), BudgetError, ["must be a number, got bool"]),
    "mu column": (lambda _: by_formula(mu="a"), BudgetError, ["personal budgets", "smallest budget"]),
    "mu Series": (lambda _: by_formula(mu=rows()["a"]), BudgetError, ["must be a number, got Series"]),
    "two budgets": (lambda _: by_formula(rho=0.5), BudgetError, ["exactly one", "got mu and rho"]),
    "no budget": (lambda _: by_formula(mu=GONE), BudgetError, ["exactly one", "got none", "mu=1.0"]),
    "epsilon without delta": (lambda _: by_formula(mu=GONE, epsilon=1), BudgetError, ["delta is missing", "1e-6"]),
    "delta without epsilon": (lambda _: by_formula(mu=GONE, delta=1e-6), BudgetError, ["epsilon is missing"]),
    "delta out of range": (lambda _: by_formula(mu=GONE, epsilon=1, delta=1.5), BudgetError, ["delta=1.5", "(0, 1)"]),
    "delta zero": (lambda _: by_formula(mu=GONE, epsilon=1, delta=0), BudgetError, ["delta=0", "not offered"]),
    "epsilon negative": (
        lambda _: by_formula(mu=GONE, epsilon=-1, delta=1e-6),
        BudgetError,
        ["epsilon=-1", "positive"],
    ),
    "epsilon absurd": (lambda _: by_formula(mu=GONE, epsilon=1e200, delta=1e-6), BudgetError, ["1e-12 to 1e12"]),
    "rho negative": (lambda _: by_formula(mu=GONE, rho=-0.5), BudgetError, ["rho=-0.5", "positive"]),
}

OPTIONS = {
    "unknown family": (lambda _: by_formula(family="hubber"), OptionError, ["'hubber'", "'logistic'", "mean 'huber'?"]),
    "family without brackets": (lambda _: by_formula(family=pr.Logistic), UnsupportedArgumentError, ["lacks its br"]),
    "family of another kind": (lambda _: by_formula(family=rows()), UnsupportedArgumentError, ["got DataFrame"]),
    "Huber's c zero": (lambda _: pr.Huber(0), OptionError, ["c=0", "positive number or 'auto'"]),
    "Huber's c negative": (lambda _: pr.Huber(-1.345), OptionError, ["c=-1.345", "positive"]),
    "Huber's c text": (lambda _: pr.Huber("atuo"), OptionError, ["c='atuo'", "Did you mean 'auto'?"]),
    "Huber's scale NaN": (lambda _: pr.Huber(scale=np.nan), OptionError, ["scale=nan", "positive"]),
    "Huber's scale a column": (lambda _: pr.Huber(scale=rows()["a"]), OptionError, ["scale=<Series>", "positive"]),
    "unknown score_weights": (
        lambda _: by_formula(score_weights="unitt"),
        OptionError,
        ["'published'", "mean 'unit'?"],
    ),
    "rows zero": (lambda _: by_formula(rows=0), OptionError, ["rows=0", "1 or more"]),
    "rows a float": (lambda _: by_formula(rows=1e6), OptionError, ["rows=1000000.0", "whole number"]),
    "rows a frame": (lambda _: by_formula(rows=rows()), OptionError, ["rows=<DataFrame>", "whole number"]),
    "unknown option": (
        lambda _: by_formula(bound=BOX),
        UnsupportedArgumentError,
        ["'bound'", "Did you mean 'bounds'?"],
    ),
    "statsmodels' option": (lambda _: by_formula().fit(cov_type="HC0"), UnsupportedArgumentError, ["inference="]),
    "unknown fit option": (
        lambda _: by_formula().fit(lane=3),
        UnsupportedArgumentError,
        ["fit() option='lane'", "alpha"],
    ),
    "offset of the wrong type": (lambda _: by_formula(offset=rows()["a"]), OptionError, ["name of a column"]),
    "offset undeclared": (lambda _: by_formula(offset="c"), SchemaError, ["offset='c'", "not declared"]),
    "offset a factor": (lambda _: by_formula(offset="g"), SchemaError, ["offset='g'", "numeric column"]),
    "unknown leak": (lambda _: by_formula(allow_leak="level"), OptionError, ["allow_leak='level'", "mean 'levels'?"]),
    "leak of the wrong type": (
        lambda _: by_formula(allow_leak=7),
        OptionError,
        ["allow_leak=7", "('levels', 'scale')"],
    ),
    "leak from an iterable": (
        lambda _: by_formula(data=[rows()], allow_leak="scale"),
        PrivacyLeakError,
        ["in memory", "declare levels= and bounds="],
    ),
    "leak of array levels": (lambda _: by_arrays(allow_leak="levels"), OptionError, ["for formulas"]),
    "unknown tuning": (
        lambda _: by_formula().fit(tuning="eficient"),
        OptionError,
        ["'published'", "mean 'efficient'?"],
    ),
    "unknown inference": (
        lambda _: by_formula().fit(inference="plugin"),
        OptionError,
        ["'random_scaling', 'plug_in', 'plug_in_central'", "Did you mean 'plug_in"],
    ),
    "no inference named": (lambda _: by_formula().fit(inference=()), OptionError, ["inference=<tuple>", "one or more"]),
    "inference twice": (lambda _: by_formula().fit(inference=["plug_in"] * 2), OptionError, ["twice", "once"]),
    "two plug-ins": (
        lambda _: by_formula().fit(tuning="published", inference=("plug_in", "plug_in_central")),
        InferenceError,
        ["can't share one pass", "Choose one"],
    ),
    "central plug-in in a stream": (
        lambda _: by_formula().start(tuning="published", inference="plug_in_central"),
        InferenceError,
        ["single release", "use fit()"],
    ),
    "plug-in without a bound": (
        lambda _: by_formula(
            moments={"a": (20_000, 9_000)}, bounds={k: BOX[k] for k in "by"}, score_weights="unit"
        ).fit(tuning="published", inference="plug_in"),
        InferenceError,
        ["'unit' score weights", "finite bounds=", "'published'", "'random_scaling'"],
    ),
    "plug-in with the default tuning": (
        lambda _: by_formula().fit(inference="plug_in"),
        InferenceError,
        ["inference='plug_in' needs tuning='published'", "'between_lanes', 'random_scaling'"],
    ),
    "central plug-in with the default tuning": (
        lambda _: by_formula().fit(inference="plug_in_central"),
        InferenceError,
        ["inference='plug_in_central' needs tuning='published'"],
    ),
    "a plug-in beside the default": (
        lambda _: by_formula().start(inference=("between_lanes", "plug_in")),
        InferenceError,
        ["inference='plug_in' needs tuning='published'"],
    ),
    "between lanes with the published tuning": (
        lambda _: by_formula().fit(tuning="published", inference="between_lanes"),
        InferenceError,
        ["'between_lanes' needs tuning='efficient'", "'random_scaling', 'plug_in', 'plug_in_central'"],
    ),
    "between four lanes": (
        lambda _: by_formula().fit(inference="between_lanes", lanes=4),
        InferenceError,
        ["needs at least 8", "got lanes=4", "Leave lanes= out", "'random_scaling'"],
    ),
    "lanes with the published tuning": (
        lambda _: by_formula().fit(tuning="published", lanes=8),
        OptionError,
        ["lanes=8 goes with tuning='efficient'", "single chain"],
    ),
    "lanes zero": (lambda _: by_formula().fit(lanes=0), OptionError, ["lanes=0", "whole number of chains, 1 or more"]),
    "lanes half": (lambda _: by_formula().fit(lanes=1.5), OptionError, ["lanes=1.5", "whole number"]),
    "lanes text": (lambda _: by_formula().fit(lanes="many"), OptionError, ["lanes='many'", "whole number"]),
    "lanes huge": (lambda _: by_formula().fit(lanes=10**6), OptionError, ["lanes=1000000", "at most 1024"]),
    "lanes huger": (lambda _: by_formula().start(lanes=10**400), OptionError, ["lanes=inf", "at most 1024"]),
    "threads zero": (lambda _: by_formula().fit(threads=0), OptionError, ["threads=0", "of threads, 1 or more"]),
    "threads text": (lambda _: by_formula().fit(threads="all"), OptionError, ["threads='all'", "whole number"]),
    "threads huge": (lambda _: by_formula().fit(threads=10**6), OptionError, ["threads=1000000", "at most 256"]),
    "whitened weights with the published tuning": (
        lambda _: by_formula(score_weights="whitened").fit(tuning="published"),
        OptionError,
        ["score_weights='whitened' goes with tuning='efficient'", "'published' and 'unit'"],
    ),
    "published weights with the default tuning": (
        lambda _: by_formula(score_weights="published").fit(),
        OptionError,
        ["score_weights='published' goes with tuning='published'", "'whitened' and 'unit'"],
    ),
    "published slopes with the default tuning": (
        lambda _: by_formula(score_weights="published_slopes").start(),
        OptionError,
        ["score_weights='published_slopes' goes with tuning='published'"],
    ),
    "unknown scaling": (
        lambda _: by_formula(scaling="x"),
        OptionError,
        ["scaling='x'", "'public', 'private'"],
    ),
    "unknown scaling of arrays": (
        lambda _: by_arrays(scaling="privat"),
        OptionError,
        ["scaling='privat'", "Did you mean 'private'?"],
    ),
    "scaling private and leaked": (
        lambda _: by_formula(scaling="private", allow_leak="scale"),
        OptionError,
        ['scaling="private"', 'allow_leak="scale"', "keep one"],
    ),
    "array scaling private and leaked": (
        lambda _: by_arrays(scaling="private", allow_leak="scale"),
        OptionError,
        ["keep one"],
    ),
    "scaling private with the published tuning": (
        lambda _: by_formula(scaling="private", bounds={"a": BOX["a"]}).fit(tuning="published"),
        OptionError,
        ["scaling='private' goes with tuning='efficient'", "declare bounds= or moments="],
    ),
    "levels are never learned": (
        lambda _: by_formula(scaling="private", levels=None).fit(),
        DataError,
        ["'g' must hold numbers only", "levels={'g'"],
    ),
    "batch_size zero": (lambda _: by_formula().fit(batch_size=0), OptionError, ["batch_size=0", "1 or more"]),
    "batch_size half": (lambda _: by_formula().fit(batch_size=1.5), OptionError, ["batch_size=1.5", "whole number"]),
    "batch_size huge": (lambda _: by_formula().fit(batch_size=10**400), OptionError, ["batch_size=inf", "at most"]),
    "alpha one": (lambda _: by_formula().fit(alpha=1), OptionError, ["alpha=1", "(0, 1)"]),
    "alpha text": (lambda _: by_formula().fit(alpha="x"), OptionError, ["alpha='x'", "(0, 1)"]),
    "intervals at alpha a half": (
        lambda _: by_formula().fit(alpha=0.5),
        InferenceError,
        ["above 1/2", "alpha=0.5", "inference=None"],
    ),
    "step zero": (lambda _: by_formula().fit(step=0), OptionError, ["step=0", "above 0"]),
    "step infinite": (lambda _: by_formula().fit(step=np.inf), OptionError, ["step=inf", "above 0"]),
    "seed negative": (lambda _: by_formula().fit(seed=-1), OptionError, ["seed=-1", "0 or more"]),
    "seed a float": (lambda _: by_formula().fit(seed=1.5), OptionError, ["seed=1.5", "whole number"]),
    "progress text": (
        lambda _: by_formula().fit(progress="bar"),
        OptionError,
        ["progress='bar'", "True, False or None"],
    ),
    "progress a column": (lambda _: by_formula().fit(progress=rows()["a"]), OptionError, ["progress=<Series>"]),
    "start_params too short": (
        lambda _: by_formula().fit(start_params=[0, 0]),
        OptionError,
        ["4 finite numbers", "Intercept, g[T.v], a, b", "shape (2,)"],
    ),
    "start_params NaN": (
        lambda _: by_formula().fit(start_params=[0, 0, 0, np.nan]),
        OptionError,
        ["NaN or infinite", "Intercept, g[T.v], a, b"],
    ),
    "start_params text": (lambda _: by_formula().fit(start_params=["x"] * 4), OptionError, ["must be numbers"]),
    "start_params lacks one": (lambda _: by_formula().fit(start_params={"a": 1}), OptionError, ["lacks 'Intercept'"]),
    "start_params of a stranger": (
        lambda _: by_formula("y ~ 0 + b").fit(start_params={"b": 1, "c": 2}),
        OptionError,
        ["no coefficient; it needs b"],
    ),
}

DATA = {
    "fewer rows than coefficients": (
        lambda _: by_formula(data=rows().head(4)),
        DataError,
        ["4 rows", "4 coefficients"],
    ),
    "empty frame": (lambda _: by_formula(data=rows().head(0)), DataError, ["0 rows", "more than 4 people"]),
    "data of another kind": (lambda _: by_formula(data=np.ones(3)), UnsupportedArgumentError, ["ndarray", "DataFrame"]),
    "data a number": (lambda _: by_formula(data=3.5), UnsupportedArgumentError, ["float", "path of a CSV file"]),
    "no data": (
        lambda _: pr.PrivateOnlineRegression.from_formula("y ~ a", None, mu=1, bounds=BOX).fit(),
        DataError,
        ["no data", "start() and update(batch)"],
    ),
    "missing column": (
        lambda _: by_formula(data=OTHER).fit(),
        DataError,
        ["'b' is missing", "Did you mean 'B'?"],
    ),
    "table without header": (lambda _: by_formula(data=HEADERLESS).fit(), DataError, ["'y' is missing", "header"]),
    "table of people by column": (lambda _: by_formula(data=rows().T).fit(), DataError, ["60 columns"]),
    "mapping by person": (lambda _: by_formula(data=BY_PERSON).fit(), DataError, ["'y' is missing", "60 columns"]),
    "duplicate columns": (lambda _: by_formula(data=TWICE), DataError, ["more than one column named 'a'", "rename"]),
    "NaN in a number": (
        lambda _: by_formula(data=cell("a", np.nan)).fit(),
        DataError,
        ["'a' has a missing", "drop or"],
    ),
    "inf in a number": (lambda _: by_formula(data=cell("b", np.inf)).fit(), DataError, ["'b' has a missing or infin"]),
    "NaN in the response": (lambda _: by_formula(data=cell("y", np.nan)).fit(), DataError, ["'y' has a missing"]),
    "missing level": (lambda _: by_formula(data=cell("g", None)).fit(), DataError, ["'g' has a missing value"]),
    "level not declared": (
        lambda _: by_formula(data=cell("g", WORD)).fit(),
        SchemaError,
        ["not among its declared levels ['u', 'v']", "correct levels= or the data"],
    ),
    "no level at all": (lambda _: by_formula(data=cell("g", [1, 2])).fit(), DataError, ["'g' holds something"]),
    "text in a number": (
        lambda _: by_formula(data=cell("a", WORD)).fit(),
        DataError,
        ["'a' must hold numbers only", "levels={'a'"],
    ),
    "number as text": (lambda _: by_formula(data=cell("a", str(INSIDE))).fit(), DataError, ["'a' must hold numbers"]),
    "dates in a number": (
        lambda _: by_formula(data=rows(a=pd.Timestamp("2020-01-01"))).fit(),
        DataError,
        ["'a' must hold numbers only"],
    ),
    "logistic response 2": (
        lambda _: by_formula("z ~ a", data=rows(z=[0, 1, 2] * 20), family="logistic").fit(),
        DataError,
        ["'z' has a value other than 0 and 1", "two levels"],
    ),
    "term not finite for a row": (
        lambda _: results().predict(rows(a=np.inf)),
        DataError,
        ["'a' has a missing or infinite value"],
    ),
    "columns of unequal length": (
        lambda _: by_formula(data={"a": [1, 2], "b": [0.5], "g": ["u", "v"], "y": [1, 2]}),
        DataError,
        ["differ in length"],
    ),
    "ragged column": (
        lambda _: by_formula(data={"a": RAGGED, "b": [1, 2], "g": ["u", "v"], "y": [1, 2]}),
        DataError,
        ["'a' of the mapping must be one-dimensional"],
    ),
    "a number for a column": (
        lambda _: by_formula(data={"a": INSIDE, "b": [1, 2], "g": ["u", "v"], "y": [1, 2]}),
        DataError,
        ["'a' of the mapping must be one-dimensional"],
    ),
    "iterable of rows": (
        lambda _: by_formula(data=rows().to_numpy().tolist()).fit(),
        UnsupportedArgumentError,
        ["yields list", "DataFrames"],
    ),
    "iterable that turns wrong": (
        lambda _: by_formula(data=frames_then(WORD)).fit(),
        UnsupportedArgumentError,
        ["yields str", "DataFrames"],
    ),
    "iterable that loses a column": (
        lambda _: by_formula(data=frames_then(OTHER)).fit(),
        DataError,
        ["'b' is missing", "Did you mean 'B'?"],
    ),
    "empty iterable": (lambda _: by_formula(data=[]).fit(), InferenceError, ["0 have reported", "set the scales"]),
    "endog None": (lambda _: pr.PrivateOnlineRegression(None, None, mu=1), DataError, ["both be given"]),
    "exog of three dimensions": (
        lambda _: by_arrays(exog=np.ones((N, 1, 3))),
        DataError,
        ["two dimensions", "(60, 1,"],
    ),
    "exog ragged": (lambda _: by_arrays(exog=RAGGED), DataError, ["'exog' can't be read", "equal length"]),
    "endog ragged": (lambda _: by_arrays(endog=RAGGED), DataError, ["'y' can't be read as an array"]),
    "endog a matrix": (lambda _: by_arrays(endog=np.ones((N, 2))), DataError, ["one-dimensional, got shape (60, 2)"]),
    "endog too short": (lambda _: by_arrays(endog=rows()["y"][:5]), DataError, ["endog has 5 rows, exog 60"]),
    "offset too short": (lambda _: by_arrays(offset=[1.0]), DataError, ["offset 1", "one row a person"]),
    "too few names": (lambda _: by_arrays(exog_names=["a", "b"]), DataError, ["3 columns but 2 names"]),
    "names that are numbers": (lambda _: by_arrays(exog_names=[1, 2, 3]), DataError, ["list of strings"]),
    "names that are no list": (lambda _: by_arrays(exog_names=3), DataError, ["list of strings"]),
    "the same name twice": (lambda _: by_arrays(exog_names=["a", "a", "b"]), SchemaError, ["differ", "'a', 'a', 'b'"]),
    "endog_name a number": (lambda _: by_arrays(endog_name=5), DataError, ["must be a string, got int"]),
    "array with NaN": (lambda _: by_arrays(exog=np.full((N, 3), np.nan)).fit(), DataError, ["'const' has a missing"]),
    "array of texts": (lambda _: by_arrays(exog=np.full((N, 3), WORD)).fit(), DataError, ["got text", "code them"]),
    "frame with a text column": (
        lambda _: by_arrays(exog=rows()[["a", "b", "name"]], exog_names=["const", "a", "b"]).fit(),
        DataError,
        ["'b' must hold numbers only"],
    ),
    "response of texts": (lambda _: by_arrays(endog=rows()["name"]).fit(), SchemaError, ["'name' is not declared"]),
}

FILES = {
    "no such file": (lambda tmp: by_formula(data=tmp / "none.csv"), DataError, ["there is no file", "none.csv"]),
    "a folder": (lambda tmp: by_formula(data=tmp), DataError, ["there is no file"]),
    "another kind of file": (
        lambda tmp: by_formula(data=csv(tmp, table(), "people.parquet")),
        UnsupportedArgumentError,
        ["'people.parquet' is not a CSV file", "convert it"],
    ),
    "empty file": (lambda tmp: by_formula(data=csv(tmp, "")).fit(), DataError, ["people.csv is empty", "column names"]),
    "header only": (lambda tmp: by_formula(data=csv(tmp, "a,b,g,y\n")).fit(), InferenceError, ["0 have reported"]),
    "line with too many fields": (
        lambda tmp: by_formula(data=csv(tmp, table(f"1,1,u,5,6,{WORD},{INSIDE}\n"))).fit(),
        DataError,
        ["people.csv, line 62", "more fields than the header's 6"],
    ),
    "every line too long": (
        lambda tmp: by_formula(data=csv(tmp, table(header="a,b,g,y,unused"))).fit(),
        DataError,
        ["people.csv, line 2", "more fields"],
    ),
    "open quote": (
        lambda tmp: by_formula(data=csv(tmp, table(f'1,"{WORD},{INSIDE}\n'))).fit(),
        DataError,
        ["people.csv, line 62", "open quote"],
    ),
    "line cut off": (
        lambda tmp: by_formula(data=csv(tmp, table(f"{INSIDE},0.5,u"))).fit(),
        DataError,
        ["'y' has a miss"],
    ),
    "bad encoding": (
        lambda tmp: by_formula(data=csv(tmp, table().encode() + b"1,1,\xff\xfe,5,6,x\n")).fit(),
        DataError,
        ["people.csv", "bad encoding"],
    ),
    "compressed file cut off": (
        lambda tmp: by_formula(data=csv(tmp, gzip.compress(table().encode())[:-40], "people.csv.gz")).fit(),
        DataError,
        ["people.csv.gz", "cut off"],
    ),
    "compressed file damaged": (
        lambda tmp: by_formula(data=csv(tmp, table(), "people.csv.gz")).fit(),
        DataError,
        ["people.csv.gz", "not a readable CSV"],
    ),
    "no zip at all": (
        lambda tmp: by_formula(data=csv(tmp, table(), "p.zip")).fit(),
        DataError,
        ["p.zip: not a readable"],
    ),
    "column missing from the file": (
        lambda tmp: by_formula(data=csv(tmp, table(header="A,b,g,y,unused,name"))).fit(),
        DataError,
        ["people.csv", "'a' is missing", "Did you mean 'A'?"],
    ),
    "file without header": (
        lambda tmp: by_formula(data=csv(tmp, table().split("\n", 1)[1])).fit(),
        DataError,
        ["people.csv", "'y' is missing", "header of names"],
    ),
    "column twice in the file": (
        lambda tmp: by_formula(data=csv(tmp, table(header="a,b,g,y,a,name"))).fit(),
        DataError,
        ["people.csv has more than one column named 'a'"],
    ),
    "level not declared in the file": (
        lambda tmp: by_formula(data=csv(tmp, table(f"1,1,{WORD},5,6,x\n"))).fit(),
        SchemaError,
        ["'g' has a value that is not among its declared levels ['u', 'v']"],
    ),
    "text in a number in the file": (
        lambda tmp: by_formula(data=csv(tmp, table(f"{WORD},1,u,5,6,x\n"))).fit(),
        DataError,
        ["'a' must hold numbers only"],
    ),
}

STREAMS = {
    "rows of the wrong type": (lambda _: stream().update(rows().to_numpy()), DataError, ["DataFrame", "got ndarray"]),
    "rows a Series": (lambda _: stream().update(rows()["a"]), DataError, ["got Series"]),
    "rows lack a column": (lambda _: stream().update(OTHER), DataError, ["'b' is missing", "mean 'B'?"]),
    "rows with an unknown level": (lambda _: stream().update(cell("g", WORD)), SchemaError, ["'g' has a value"]),
    "results too early": (
        lambda _: stream().results(),
        InferenceError,
        ["people set the scales, and 0 have reported", "estimates begin after them"],
    ),
    "results of the published tuning too early": (
        lambda _: stream(tuning="published").results(),
        InferenceError,
        ["0 people", "more than 4 updates"],
    ),
    "array rows of the wrong type": (lambda _: by_arrays().start().update(rows()), DataError, ["got a DataFrame"]),
    "array rows alone": (lambda _: by_arrays().start().update((rows()["y"],)), DataError, ["got a tuple of 1"]),
    "array rows with a stray offset": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((N, 3)), np.ones(N))),
        DataError,
        ["without offset="],
    ),
    "array rows of unequal number": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((5, 3)))),
        DataError,
        ["differ in their number of rows"],
    ),
    "array rows too narrow": (
        lambda _: by_arrays().start().update((rows()["y"], np.ones((N, 2)))),
        DataError,
        ["3 columns (const, a, b), got shape (60, 2)"],
    ),
    "save under a number": (lambda _: stream().save(5), SavedFileError, ["string or Path, got int"]),
    "save into no folder": (lambda tmp: stream().save(tmp / "no" / "s"), SavedFileError, ["can't write", "folder"]),
    "save over a folder": (lambda tmp: stream().save(tmp), SavedFileError, ["can't write"]),
}

RESULTS = {
    "interval at 0": (lambda _: results().conf_int(0), OptionError, ["alpha=0", "(0, 1)"]),
    "interval at 1": (lambda _: results().conf_int(1), OptionError, ["alpha=1", "0.05 gives 95%"]),
    "interval at x": (lambda _: results().conf_int("x"), OptionError, ["alpha='x'", "(0, 1)"]),
    "interval at a column": (lambda _: results().conf_int(rows()["a"]), OptionError, ["alpha=<Series>"]),
    "interval of a stranger": (lambda _: results().conf_int(cols=["c"]), OptionError, ["Intercept, g[T.v], a, b"]),
    "interval of position 9": (lambda _: results().conf_int(cols=[9]), OptionError, ["position, 0 to 3"]),
    "interval of a column": (lambda _: results().conf_int(cols=rows()["a"]), OptionError, ["by name"]),
    "interval with cov_type": (
        lambda _: results().conf_int(cov_type="HC1"),
        UnsupportedArgumentError,
        ["no argument 'cov_type'", "fit(inference=...)"],
    ),
    "unknown method": (lambda _: results().conf_int(method="plugin"), OptionError, ["'plug_in'", "Did you mean"]),
    "method not asked for": (
        lambda _: results().cov_params("plug_in_central"),
        InferenceError,
        ["it has random_scaling, plug_in", "fit(tuning='published', inference=('random_scaling', 'plug_in_central'))"],
    ),
    "no intervals": (lambda _: estimates_only().bse, InferenceError, ["inference=None", "'random_scaling'"]),
    "no intervals yet": (lambda _: early().bse, InferenceError, ["no intervals yet", "lanes begin after", "rows="]),
    "no tests yet": (lambda _: early().t_test("a = 0"), InferenceError, ["no intervals yet", "have reported"]),
    "plug-in of the default fit": (
        lambda _: default_results().conf_int(method="plug_in"),
        InferenceError,
        ["this fit has no 'plug_in'; it has between_lanes", "fit(tuning='published', inference='plug_in')"],
    ),
    "random scaling of the default fit": (
        lambda _: default_results().summary(method="random_scaling"),
        InferenceError,
        ["Ask for it with fit(inference=('between_lanes', 'random_scaling'))"],
    ),
    "exponentiate a column": (lambda _: results().tidy(rows()["a"]), OptionError, ["exponentiate=<Series>", "True or"]),
    "trajectory at 2": (lambda _: results().trajectory(2), OptionError, ["alpha=2"]),
    "test of a stranger": (
        lambda _: results().t_test("c = 0"),
        FormulaError,
        ["'c = 0'", "coefficients are Intercept"],
    ),
    "test of nonsense": (lambda _: results().t_test("a = = b"), FormulaError, ["'a = = b'", "can't be read"]),
    "test of nothing": (lambda _: results().t_test(""), OptionError, ["string such as 'age = bmi'"]),
    "test of no list": (lambda _: results().wald_test([]), OptionError, ["don't fit 4 coefficients"]),
    "test of a column": (lambda _: results().t_test(rows()["name"]), OptionError, ["'age = bmi'", "array of shape"]),
    "test of a list of words": (lambda _: results().t_test(rows()["name"].tolist()), FormulaError, ["in a list of 60"]),
    "test of the wrong shape": (lambda _: results().wald_test(np.eye(3)), OptionError, ["shape (3, 3)", "4 coeff"]),
    "test of three dimensions": (lambda _: results().wald_test(np.ones((1, 4, 4))), OptionError, ["shape (1, 4, 4)"]),
    "test with NaN": (lambda _: results().wald_test([[0, 0, np.nan, 0]]), OptionError, ["NaN or infinite"]),
    "test of too few values": (lambda _: results().wald_test((np.eye(4), [0])), OptionError, ["1 value(s)"]),
    "redundant restrictions": (lambda _: results().wald_test("a = 0, 2 * a = 0"), InferenceError, ["redundant"]),
    "contrast interval at 1": (lambda _: results().t_test("a = 0").conf_int(1), OptionError, ["alpha=1", "(0, 1)"]),
    "contrast table at x": (lambda _: results().t_test("a = 0").summary_frame("x"), OptionError, ["alpha='x'"]),
    "predict nothing": (lambda _: results().predict(), NotPrivateError, ["raw data", "public covariate values"]),
    "predict None": (lambda _: results().get_prediction(None), NotPrivateError, ["public covariate values"]),
    "predict without a column": (lambda _: results().predict(OTHER), DataError, ["'b' is missing", "mean 'B'?"]),
    "predict from an array": (lambda _: results().predict(np.ones((2, 4))), DataError, ["DataFrame", "got ndarray"]),
    "predict with text": (lambda _: results().predict(rows(a=WORD)), DataError, ["'a' must hold numbers only"]),
    "predict of an unknown kind": (
        lambda _: results().predict(rows(), which="median"),
        OptionError,
        ["'median'", "'mean', 'linear'", "Did you mean 'mean'?"],
    ),
    "predict intervals at 0": (lambda _: results().get_prediction(rows()).summary_frame(0), OptionError, ["alpha=0"]),
    "predict array of the wrong width": (
        lambda _: by_arrays().fit(progress=False).predict(np.ones((2, 2))),
        DataError,
        ["3 columns (const, a, b), got shape (2, 2)"],
    ),
    "predict array with a short offset": (
        lambda _: (
            by_arrays(offset=np.zeros(N), bounds={**BOX, "offset": (-1, 1)})
            .fit(progress=False)
            .predict((np.ones((4, 3)), [0.0]))
        ),
        DataError,
        ["new rows are 4 but the offset has 1"],
    ),
    "raw residuals": (lambda _: results().resid, NotPrivateError, ["not private", "predict()"]),
    "save into no folder": (lambda tmp: results().save(tmp / "no" / "r"), SavedFileError, ["can't write", "folder"]),
    "save over a folder": (lambda tmp: results().save(tmp), SavedFileError, ["can't write"]),
    "save under a frame": (lambda _: results().save(rows()), SavedFileError, ["string or Path, got DataFrame"]),
}

SAVED = {
    "no file": (lambda tmp: pr.load(tmp / "none"), SavedFileError, ["there is no file", "none"]),
    "no path": (lambda _: pr.load(rows()), SavedFileError, ["string or Path, got DataFrame"]),
    "a text file": (lambda tmp: pr.load(text_file(tmp)), SavedFileError, ["damaged or was not saved by privreg"]),
    "cut off": (lambda tmp: pr.load(cut(tmp)), SavedFileError, ["damaged"]),
    "bytes changed": (lambda tmp: pr.load(flipped(tmp)), SavedFileError, ["damaged"]),
    "array of the wrong shape": (
        lambda tmp: pr.load(saved(tmp, {"params": np.ones(9)})),
        SavedFileError,
        ["r.privreg' is damaged"],
    ),
    "array of texts": (lambda tmp: pr.load(saved(tmp, {"last": np.full(4, WORD)})), SavedFileError, ["is damaged"]),
    "unknown family": (lambda tmp: pr.load(saved(tmp, document={"family": ["Probit", 1, 1]})), SavedFileError, ["dam"]),
    "no design": (lambda tmp: pr.load(saved(tmp, document={"design": {}})), SavedFileError, ["kind 'formula' or"]),
    "stream with another state": (
        lambda tmp: pr.load(
            saved_stream(tmp, lambda k, v: np.zeros(3) if k == "state_path" else v, tuning="published")
        ),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream with a negative count": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v - 1000 if k == "state_counts" else v, tuning="published")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream at another position": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v + 1 if k == "position" else v)),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream without its chains": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v, drop="chains_newton")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream without its common chain": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v, drop="common_newton")),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
    "stream with a negative count of updates": (
        lambda tmp: pr.load(saved_stream(tmp, lambda k, v: v - 1000 if k == "chains_updates" else v)),
        SavedFileError,
        ["s.privreg' is damaged"],
    ),
}

CASES = [
    pytest.param(*case, id=f"{group}: {name}")
    for group, cases in {
        "formula": FORMULAS,
        "schema": SCHEMAS,
        "budget": BUDGETS,
        "option": OPTIONS,
        "data": DATA,
        "file": FILES,
        "stream": STREAMS,
        "results": RESULTS,
        "saved": SAVED,
    }.items()
    for name, case in cases.items()
]


def assert_says_nothing(exc):
    """No sentinel in the whole traceback, and nothing chained that a logger would print."""
    text = "".join(traceback.format_exception(exc))
    told = [s for s in TRACES if s in text]
    assert not told
    assert exc.__cause__ is None
    assert exc.__context__ is None or exc.__suppress_context__


@pytest.mark.parametrize(("call", "error", "pieces"), CASES)
def test_wrong_input_is_refused_in_words_that_help_and_tell_nothing(call, error, pieces, tmp_path):
    with pytest.raises(PrivregError) as caught:
        call(tmp_path)
    assert type(caught.value) is error, caught.value
    assert [p for p in pieces if p not in str(caught.value)] == [], str(caught.value)
    assert str(caught.value).isprintable()  # one line, so that the command line can print it
    assert_says_nothing(caught.value)


COLUMNS = {
    "Series": lambda: rows()["a"],
    "texts": lambda: rows()["name"],
    "list": lambda: rows()["a"].tolist(),
    "list of texts": lambda: rows()["name"].tolist(),
    "array": lambda: rows()["a"].to_numpy(),
    "frame": rows,
    "by person": lambda: rows()["a"].to_dict(),
    "index": lambda: rows().index,
    "zero-dimensional": lambda: np.array(INSIDE),
    "bytes": WORD.encode,
}
MODEL_OPTIONS = ("family", "mu", "bounds", "moments", "scaling", "score_weights", "offset", "rows", "allow_leak")
FIT_OPTIONS = (
    *("tuning", "inference", "lanes", "threads", "batch_size", "alpha", "step", "start_params", "seed", "progress"),
)
CALLS = {
    **{o: lambda v, o=o: by_formula(**{o: v}) for o in MODEL_OPTIONS},
    "rho": lambda v: by_formula(mu=GONE, rho=v),
    "epsilon": lambda v: by_formula(mu=GONE, epsilon=v, delta=1e-6),
    "delta": lambda v: by_formula(mu=GONE, epsilon=1, delta=v),
    "levels": lambda v: by_formula(levels={"g": v}),
    "bounds of a": lambda v: by_formula(bounds={**BOX, "a": v}),
    "low bound of a": lambda v: by_formula(bounds={**BOX, "a": (v, 50_000)}),
    "endog_name": lambda v: by_arrays(endog_name=v),
    **{f"fit {o}": lambda v, o=o: by_formula().fit(**{o: v}) for o in FIT_OPTIONS},
    **{f"start {o}": lambda v, o=o: by_formula().start(**{o: v}) for o in FIT_OPTIONS if o != "progress"},
    "Huber c": lambda v: pr.Huber(v),
    "conf_int alpha": lambda v: results().conf_int(v),
    "conf_int cols": lambda v: results().conf_int(cols=v),
    "method": lambda v: results().cov_params(v),
    "which": lambda v: results().predict(rows(), which=v),
    "restrictions": lambda v: results().wald_test(v),
    "restricted values": lambda v: results().wald_test((np.eye(4), v)),
    "load": pr.load,
    "save": lambda v: results().save(v),
}


@pytest.mark.parametrize("option", CALLS)
def test_a_column_given_for_an_option_is_not_printed(option):
    for kind, make in COLUMNS.items():
        if option in {"bounds", "moments"} and kind == "by person":
            continue  # a mapping's keys are column names: they are quoted by contract
        value = make()
        with pytest.raises(PrivregError) as caught:
            CALLS[option](value)
        assert_says_nothing(caught.value)


NUMBERS = [np.nan, np.inf, -np.inf, 10**400, -(10**400), True, None, 1j, "", b"", (), [], {}, object(), pd.NA]


@pytest.mark.parametrize("option", CALLS)
def test_no_foreign_exception_for_absurd_values(option):
    for value in NUMBERS:
        try:
            CALLS[option](value)
        except PrivregError as error:
            assert_says_nothing(error)


@pytest.mark.parametrize("place", ["response", "number", "factor"])
@pytest.mark.parametrize(
    "value", [None, np.nan, np.inf, WORD, b"x", 1j, (), [1], {}, object(), pd.NaT, pd.Timestamp(0)]
)
def test_any_wrong_cell_is_a_privreg_error(place, value):
    data = cell({"response": "y", "number": "a", "factor": "g"}[place], value)
    with pytest.raises(PrivregError) as caught:
        by_formula(data=data).fit(progress=False)
    assert_says_nothing(caught.value)


def people_by_stage(**options):
    """How many people bring a stream into each of its stages; of several of a kind, into the last."""
    going, out = stream(**options), {}
    for i in range(N):
        out[going._run.kind] = i
        going.update(rows().iloc[i : i + 1])
    return {**out, "end": N}


PRIVATE = {"scaling": "private", "bounds": {"b": BOX["b"]}}
WRONG = {
    "cut off": lambda v: v[:-1] if v.ndim else np.zeros(2, v.dtype),
    "of another type": lambda v: v.astype(np.float32),
    "not finite": lambda v: np.full(v.shape, np.nan),
}


@pytest.mark.parametrize(
    ("options", "stages"),
    [({}, ["moments", "pilot", "end"]), (PRIVATE, ["location"]), ({"tuning": "published"}, ["end"])],
    ids=["default", "private", "published"],
)
def test_a_damaged_file_never_reaches_compiled_code(tmp_path, options, stages, monkeypatch):
    """Each array of a saved stream replaced by a wrong one: the compiled loops check no index."""
    monkeypatch.setattr("privreg.noise.NORMALS", 1 << 8)  # small files
    path = tmp_path / "s.privreg"
    by_stage = {"end": N} if "tuning" in options else people_by_stage(**options)
    for people in (by_stage[stage] for stage in stages):
        stream(**options).update(rows().head(people)).save(path)
        document, arrays = storage.read(path)
        document = {k: v for k, v in document.items() if k not in {"kind", "format"}}
        for name in [n for n in arrays if arrays[n].size and not n.startswith(("trail_", "secret_"))]:
            for what, make in WRONG.items():
                if what == "not finite" and arrays[name].dtype.kind != "f":
                    continue
                bad = {**arrays, name: make(arrays[name])}
                storage.write_archive(path, "stream", document, bad, secret=True)
                with pytest.raises(SavedFileError, match="damaged"):
                    pr.load(path)
        for name in arrays:
            storage.write_archive(path, "stream", document, {k: v for k, v in arrays.items() if k != name}, secret=True)
            try:
                pr.load(path).update(rows()).save(path)
            except SavedFileError:
                continue
            pytest.fail(f"a stream without {name} was loaded")
    with zipfile.ZipFile(path) as z:
        assert z.testzip() is None


@pytest.mark.parametrize("kind", [ValueError, OSError, pd.errors.ParserError, UnicodeError, MemoryError, KeyError])
def test_what_a_library_says_about_a_file_is_not_passed_on(kind, tmp_path, monkeypatch):
    def quoting(*_args, **_more):
        raise kind(WORD, INSIDE)

    path = csv(tmp_path, table())
    monkeypatch.setattr("pandas.read_csv", quoting)
    with pytest.raises(DataError, match=r"people\.csv: not a readable CSV file") as caught:
        by_formula(data=path).fit()
    assert_says_nothing(caught.value)


@pytest.mark.parametrize("place", ["privreg.columns._to_numbers", "privreg.columns.pd.factorize"])
def test_what_a_library_says_about_a_column_is_not_passed_on(place, monkeypatch):
    def quoting(*_args, **_more):
        raise ValueError(WORD, INSIDE)

    data = by_formula(data=rows(a=pd.array(rows()["a"], dtype="Float64")))
    monkeypatch.setattr(place, quoting)
    with pytest.raises(DataError, match=r"must hold numbers only|can't be a level") as caught:
        data.fit(progress=False)
    assert_says_nothing(caught.value)
