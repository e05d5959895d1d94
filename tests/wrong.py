"""Wrong calls that the tests of errors share: raw tables with sentinels, models, streams and results of them.

Every raw table below holds sentinels, numbers inside and outside the bounds and texts, in columns that are used, in
columns that are not, and in the index. None of them may turn up in a traceback. Source lines are part of a
traceback, so no line that raises spells a sentinel.
"""

import io
import traceback
import warnings
from contextlib import redirect_stderr
from functools import cache

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.base import archive
from privreg.errors import PrivregError
from tests.helpers import read_saved

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


def csv(tmp, text, name="people.csv"):
    path = tmp / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def table(extra="", header="a,b,g,y,unused,name"):
    return f"{header}\n" + rows().to_csv(index=False, header=False) + extra


@cache
def default_results():
    return by_formula().fit(seed=1, progress=False)


@cache
def estimates_only():
    return by_formula().fit(inference=None, progress=False)


@cache
def early():
    """Results of the default fit before main rounds have begun, and so without intervals."""
    going, at = stream(), 0
    while going._run.progress.fitted is None:
        going.update(rows().iloc[at : at + 1])
        at += 1
    return going.results()


def saved(tmp, change=None, document=None):
    """A saved result, its arrays or document changed."""
    path = tmp / "r.privreg"
    results().save(path)
    doc, arrays = read_saved(path)
    kind = doc.pop("kind")
    del doc["format"]
    archive.write_archive(path, kind, {**doc, **(document or {})}, {**arrays, **(change or {})})
    return path


def saved_stream(tmp, change, people=N, drop=None, **options):
    path = tmp / "s.privreg"
    stream(**options).update(rows().head(people)).save(path)
    doc, arrays = read_saved(path)
    kind = doc.pop("kind")
    del doc["format"]
    archive.write_archive(path, kind, doc, {k: change(k, v) for k, v in arrays.items() if k != drop})
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


RAGGED = [[1.0, INSIDE], [OUTSIDE]]
HEADERLESS = rows().iloc[1:].set_axis(map(str, rows().iloc[0]), axis=1)
BY_PERSON = rows()["a"].to_dict()
TWICE = pd.concat([rows(), rows()["a"]], axis=1)
OTHER = rows().rename(columns={"b": "B"})


def assert_says_nothing(exc):
    """No sentinel in the whole traceback, and nothing chained that a logger would print."""
    text = "".join(traceback.format_exception(exc))
    told = [s for s in TRACES if s in text]
    assert not told
    assert exc.__cause__ is None
    assert exc.__context__ is None or exc.__suppress_context__


def check_silence(fit):
    """Fit, and see that no sentinel is told of it; returns what the reports gave and what was said."""
    told = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stderr(told):
        warnings.simplefilter("always")
        res = fit()
    said = [str(res.privacy), *(str(w.message) for w in caught)]
    everything = "".join([*said, str(res.summary()), told.getvalue()])
    assert [s for s in TRACES if s in everything] == []
    return res.params.tolist(), said


def cases(**groups):
    """Parameters of a test, from calls by group and name."""
    return [pytest.param(*c, id=f"{group}: {name}") for group, named in groups.items() for name, c in named.items()]


def check_refusal(call, error, pieces, tmp_path):
    with pytest.raises(PrivregError) as caught:
        call(tmp_path)
    assert type(caught.value) is error, caught.value
    assert [p for p in pieces if p not in str(caught.value)] == [], str(caught.value)
    assert str(caught.value).isprintable()  # one line, so that the command line can print it
    assert_says_nothing(caught.value)
