"""No value of a record makes anything fail: formulas and declarations that look for one, through every front door.

Two tables differ in one record. With equal noise, whatever is said of either must be the same but for numbers that
reports carry: whether it fits, warnings, notes, progress, and how many rows there are.
"""

from __future__ import annotations

import io
import re
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stderr
from decimal import Decimal
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import privreg as pr
from privreg import errors
from privreg.cli import app
from privreg.data.cells import read_numbers
from privreg.data.columns import level_codes
from privreg.data.participants import Counter
from privreg.data.sources.open import open_table
from privreg.formula.batches import read_arrays
from privreg.formula.design import array_design, formula_design
from privreg.formula.language.rowwise import rowwise
from privreg.schema.declarations import Schema
from tests.databases import engine, sqlite

N = 600
AT = 137
BOUNDS = {"y": (0.0, 10.0), "x": (0.0, 5.0), "z": (0.0, 2.0), "w": (0.0, 1.0), "x2": (0.0, 5.0)}
LEVELS = {"g": ["a", "b", "c"]}
DECLARED = {"bounds": BOUNDS, "levels": LEVELS}

FINE = {"y": 5.0, "x": 2.5, "z": 1.0, "w": 0.5, "g": "b"}
"""The record that stands in the other table."""

FORMULAS = {
    "plain": "y ~ x + g",
    "pole": "y ~ x + I(1 / (np.abs(x - 3.7) + np.abs(z - 1.05)))",
    "level": "y ~ x + C(g, Sum)",
    "spline": "y ~ bs(x, knots=[2], lower_bound=0, upper_bound=5) + g",
    "product": "y ~ x:g + np.log(w + 1e-300)",
    "response": "I(y / (np.abs(x2 - 3.7) + np.abs(w - 0.55))) ~ z",
    "raises": "y ~ x + raises(z)",
    "shape": "y ~ x + shape(z)",
    "text": "y ~ x + text(z)",
}
RECORDS = {
    "on the pole": {"x": 3.7, "z": 1.05, "x2": 3.7, "w": 0.55},
    "missing": {"x": np.nan},
    "no response": {"y": np.nan},
    "infinite": {"x": np.inf, "w": -np.inf},
    "far out": {"x": 1e308, "y": -1e308, "z": 1e308},
    "undeclared": {"g": "z"},
    "undeclared number": {"g": 7.5},
    "no text": {"g": None},
    "text": {"x": "a lot", "z": ""},
    "unreadable": {"y": "1_0", "g": "\ufffd"},
}


@pr.rowwise
def raises(v):
    if (v == 1.05).any():
        raise ValueError(f"found {v}")
    return v


@pr.rowwise
def shape(v):
    return v[v != 1.05]


@pr.rowwise
def text(v):
    return np.where(v == 1.05, "here", v.astype(str)) if (v == 1.05).any() else v


FUNCTIONS = {f.name: f for f in (raises, shape, text)}


def table(record: dict | None = None) -> pd.DataFrame:
    rng = np.random.default_rng(3)
    out = pd.DataFrame(
        {
            "x": np.round(rng.uniform(0, 5, N), 1) + 0.05,
            "z": rng.uniform(0, 2, N),
            "w": rng.uniform(0, 1, N),
            "g": rng.choice(LEVELS["g"], N),
        }
    )
    out["y"] = np.clip(3 + 0.5 * out["x"] + (out["g"] == "b") + rng.normal(0, 0.5, N), 0.01, 9.99)
    out["x2"] = out["x"]
    return replaced(out, {**FINE, "x2": 2.5} if record is None else {**FINE, "x2": 2.5, **record})


def replaced(frame: pd.DataFrame, record: dict) -> pd.DataFrame:
    out = {name: np.array(frame[name].tolist(), dtype=object) for name in frame}
    for name, value in record.items():
        out[name][AT] = value
    return pd.DataFrame({name: pd.Series(values.tolist()) for name, values in out.items()})


# --- front doors -----------------------------------------------------------------------------------------


def local(formula, data, **how):
    model = pr.PrivateOnlineRegression.from_formula(formula, data, **{"mu": 2, **DECLARED, **how})
    return model.fit(progress=True, seed=5)


def streamed(formula, data):
    model = pr.PrivateOnlineRegression.from_formula(formula, mu=2, rows=N, **DECLARED)
    stream = model.start(seed=5)
    for a in range(0, N, 250):
        stream.update(data.iloc[a : a + 250])
    return stream.results()


def published(formula, data):
    model = pr.PrivateOnlineRegression.from_formula(formula, data, mu=2, **DECLARED)
    return model.fit(tuning="published", progress=True, seed=5)


def response(formula, data):
    return local(formula, data, private="response")


def curator(formula, data):
    model = pr.PrivateOnlineRegression.from_formula(formula, data, trust="central", mu=2, **DECLARED)
    return model.fit(seed=5, progress=True)


def descent(formula, data):
    model = pr.PrivateOnlineRegression.from_formula(formula, data, trust="central", mu=2, **DECLARED)
    return model.fit(tuning="published", lanes=1, seed=5, progress=True)


def two_collectors(formula, data):
    return local(formula, data, trust="two_collectors")


def federated(formula, data):
    silos = [data.iloc[i::20] for i in range(20)]
    model = pr.federated.FederatedRegression.from_formula(formula, silos, family="huber", mu=2, rounds=3, **DECLARED)
    return model.fit(seed=5, progress=True)


def measured(formula, data):
    model = pr.PrivateOnlineRegression.from_formula(formula, data, mu=2, **DECLARED)
    return model.fit(measures=0.2, progress=True, seed=5)


DOORS = {
    f.__name__: f for f in (local, streamed, published, response, curator, descent, two_collectors, federated, measured)
}


def said(door, *args) -> tuple[tuple, list]:
    """What is told of a fit whatever the reports are; and what is made of reports."""
    told = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, redirect_stderr(told):
        warnings.simplefilter("always")
        try:
            result = door(*args)
        except errors.PrivregError as error:
            return (type(error), str(error)), []
    public = getattr(result, "nobs", None), tuple(result.params.index), bars(told.getvalue())
    return public, [result.params.tolist(), getattr(result.privacy, "notes", ()), [str(w.message) for w in caught]]


def bars(text: str) -> list[str]:
    """The last progress line, without its times."""
    return [re.sub(r"\d\d:\d\d.*", "", line) for line in text.split("\r")][-1:]


EVERYWHERE = ("plain", "pole", "response", "raises")
"""Formulas that every door is tried with: no trap, a covariate, a response that are infinite, a function that fails.

What a term makes of a record is one function for all doors, so that of the other formulas the quickest tells.
"""
QUICKEST = "published"
FEW = ("on the pole", "missing", "far out", "undeclared", "text", "unreadable")
"""Records that every door is tried with: of each way in which a cell can be of no use."""
PLAIN = ("missing", "far out", "undeclared", "text")
"""Those of them that the plain formula has by every door: it has no pole, and bytes are read as texts are."""
BY_DEFAULT = {("local", "pole")}
"""Beside the plain formula, that of every door, and all of the quickest; the rest by ``-m thorough``."""


def marks(door: str, formula: str) -> list[pytest.MarkDecorator]:
    if formula == "plain" or door == QUICKEST or (door, formula) in BY_DEFAULT:
        return []
    return [pytest.mark.thorough]


PAIRS = [
    pytest.param(door, formula, marks=marks(door, formula))
    for door in DOORS
    for formula in (FORMULAS if door == QUICKEST else EVERYWHERE)
]


@pytest.mark.parametrize(("door", "formula"), PAIRS)
def test_no_record_changes_whether_a_fit_fails(door, formula):
    """A record that can't be used is like one of which nothing is known, to the last bit of what is released."""
    design = formula_design(FORMULAS[formula], Schema.declare(**DECLARED), functions=FUNCTIONS)
    public, _ = said(DOORS[door], FORMULAS[formula], table())
    assert isinstance(public[-1], list), public  # it fits
    gone = said(DOORS[door], FORMULAS[formula], table(dict.fromkeys(FINE)))
    assert gone[0] == public
    unusable = 0
    all_of_them = formula == "plain" and door in {QUICKEST, "local"}
    for name in RECORDS if all_of_them else FEW if formula != "plain" else PLAIN:
        rows = table(RECORDS[name])
        got = said(DOORS[door], FORMULAS[formula], rows)
        assert got[0] == public, name
        if np.isnan(design.encode(rows, "noise").endog[AT]) and door != "response":
            assert got == gone, name
            unusable += 1
    assert unusable >= 3 or door == "response"


def means(_, data):
    return pr.means.estimate(data, "x + C(g) ~ 1", mu=1, seed=5, id="who", max_per_id=2, **DECLARED)


def people(_, data):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=2, id="who", **DECLARED)
    return model.fit(progress=False, seed=5)


@pytest.mark.some(5)
@pytest.mark.parametrize("door", [means, people])
@pytest.mark.parametrize("who", [None, 1.5, "", ["a"], np.nan, pd.NaT, 10**30])
def test_no_id_changes_whether_a_fit_fails(door, who):
    rows = table().assign(who=np.arange(N))
    public, _ = said(door, "", rows)
    rows["who"] = rows["who"].astype(object)
    rows.at[AT, "who"] = who
    assert len(public) == 3
    assert said(door, "", rows)[0] == public


@pytest.mark.some(4)
@pytest.mark.parametrize("record", RECORDS)
def test_no_record_changes_whether_means_fail(record):
    public, _ = said(means, "", table().assign(who=np.arange(N)))
    assert said(means, "", table(RECORDS[record]).assign(who=np.arange(N)))[0] == public


# --- sources ---------------------------------------------------------------------------------------------

SCHEMA = Schema.declare(**DECLARED)
COLUMNS = ("y", "x", "g")


def encoded(data) -> tuple[int | None, np.ndarray]:
    """How many rows are expected, and what the design makes of them."""
    design = formula_design("y ~ x + g", SCHEMA)
    source = open_table(data, COLUMNS, SCHEMA)
    parts = [design.encode(batch, "noise") for batch in source.batches(0)]
    expected = source.expected()
    return expected, np.vstack([np.column_stack([p.endog, p.exog]) for p in parts])


LINES = {
    "short": b"5",
    "long": b"5,2.5,b,more,and more",
    "bytes": b"5,2.5,\xff\xfe,",
    "bytes in a number": b"\xe9,2.5,b,",
    "zero bytes": b"5\x00,\x002.5,b,",
    "quotes inside": b'5,2"5,b",',
    "a quote that nobody closed": b'"5,2.5,b,',
    "quotes in pairs, and open": b'5"",2.5,"b"",',
    "a carriage return": b"5\r2.5,b,",
    "texts": b"five,two,bee,",
    "empty": b",,,",
    "huge": b"1" + 400 * b"0" + b",1e999,b,",
    "digits": b"5_0,0x1p3,b,",
}


def lines(tmp_path, line: bytes, after: int = 3) -> bytes:
    whole = [b"y,x,g,note", *(b"%d,2.5,%s," % (k % 10, b"abc"[k % 3 : k % 3 + 1]) for k in range(1000))]
    path = tmp_path / "rows.csv"
    path.write_bytes(b"\n".join([*whole[:AT], line, *whole[AT + 1 :]]) + b"\n")
    return path


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_csv_file_spoils_itself_alone(tmp_path, line):
    _, want = encoded(lines(tmp_path, b"5,2.5,b,"))
    expected, got = encoded(lines(tmp_path, LINES[line]))
    assert expected == len(got) == len(want) == 1000
    assert np.isnan(got[AT - 1, 0])
    np.testing.assert_array_equal(np.delete(got, AT - 1, axis=0), np.delete(want, AT - 1, axis=0))


def test_a_header_that_is_no_text_is_an_error(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_bytes("y,x,g\n1,2,a\n".encode("utf-16"))
    with pytest.raises(errors.DataError, match="no UTF-8, but Latin-1 or UTF-16, say; save the file"):
        encoded(path)


def test_equal_cells_mean_the_same_from_every_source(tmp_path):
    """Readers take whole columns for numbers, truth values or texts; what a cell means must not follow them."""
    pa, duckdb = pytest.importorskip("pyarrow"), pytest.importorskip("duckdb")
    polars, _ = pytest.importorskip("polars"), pytest.importorskip("sqlalchemy")
    from pyarrow import dataset, feather, parquet

    texts = {
        "y": ["1", "2.5", "a", None, "True", " 3 ", "1e400", "1_0"],
        "x": ["0.5"] * 7 + ["nan"],
        "g": ["a", "b", "c", "a", "z", None, "a ", "b"],
    }
    cells = {
        "y": [1, 2.5, "a", None, True, 3, np.inf, "1_0"],
        "x": [0.5] * 7 + [np.nan],
        "g": texts["g"],
    }
    table_ = pa.table(texts)
    frame = pd.DataFrame(texts)
    frame.to_csv(tmp_path / "t.csv", index=False)
    parquet.write_table(table_, tmp_path / "t.parquet")
    feather.write_feather(table_, tmp_path / "t.feather")
    connection = sqlite(tmp_path / "t.db")
    connection.execute("CREATE TABLE t (y, x, g)")
    known = [[None if c == np.inf else c for c in values] for values in cells.values()]
    rows = list(zip(*known, strict=True))
    connection.executemany("INSERT INTO t VALUES (?, ?, ?)", rows)
    connection.commit()
    duck = duckdb.connect()
    duck.register("t", frame)
    sources = [
        frame,
        frame.astype(object),
        frame.astype("category"),
        pd.DataFrame({k: pd.Series(v, dtype=object) for k, v in cells.items()}),
        cells,
        texts,
        tmp_path / "t.csv",
        tmp_path / "t.parquet",
        dataset.dataset(tmp_path / "t.feather", format="feather"),
        table_,
        polars.DataFrame(texts),
        pr.sql("SELECT * FROM t", connection),
        pr.sql("SELECT * FROM t", engine(f"sqlite:///{tmp_path / 't.db'}")),
        pr.sql("SELECT * FROM t", duck),
    ]
    _, want = encoded(sources[0])
    assert np.isnan(want[:, 0]).tolist() == [False, False, True, True, True, True, True, True]
    for data in sources[1:]:
        np.testing.assert_array_equal(encoded(data)[1], want)


def test_bytes_that_are_no_text_spoil_their_own_cell(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    bad = pa.array([b"a", b"\xff", b"b", b"\xfe", None], pa.binary()).view(pa.string())
    plain = pa.table({"y": [1.0] * 5, "x": [0.5] * 5, "g": bad})
    coded = pa.table({"y": [1.0] * 5, "x": [0.5] * 5, "g": bad.dictionary_encode()})
    connection = sqlite()
    connection.execute("CREATE TABLE t (y, x, g)")
    for text in ("'a'", "CAST(x'ff' AS TEXT)", "'b'", "CAST(x'fe' AS TEXT)", "NULL"):
        connection.execute(f"INSERT INTO t VALUES (1.0, 0.5, {text})")
    factory = connection.text_factory
    sources = [plain, coded, pr.sql("SELECT * FROM t", connection)]
    for k, whole in enumerate((plain, coded)):
        parquet.write_table(whole, tmp_path / f"{k}.parquet")
        sources.append(tmp_path / f"{k}.parquet")
    for data in sources:
        assert np.isnan(encoded(data)[1][:, 0]).tolist() == [False, True, False, True, True]
    assert connection.text_factory is factory


# --- cells -----------------------------------------------------------------------------------------------


def test_a_number_is_read_from_each_cell_alone():
    cells = [1, 2.5, True, "3", " 4 ", "5e0", "true", "x", "", None, pd.NA, np.nan, np.inf, "inf", "1_0", 10**400, 1j]
    want = [1, 2.5, 1, 3, 4, 5, 1] + [np.nan] * 10
    whole = read_numbers(pd.Series(cells, dtype=object))
    np.testing.assert_array_equal(whole, want)
    for cell, number in zip(cells, want, strict=True):
        np.testing.assert_array_equal(read_numbers(pd.Series([cell], dtype=object)), [number])
        kind = object if cell is cells[15] else None  # pandas before 3 finds no type for it
        np.testing.assert_array_equal(read_numbers(pd.Series([cell], dtype=kind)), [number])
    assert np.isnan(read_numbers(pd.Series(pd.to_datetime(["2020-01-01"])))).all()


@pytest.mark.parametrize(
    ("levels", "cells", "want"),
    [
        (["no", "yes"], ["yes", "no", "YES", " yes", 1, None], [1, 0, -1, -1, -1, -1]),
        (["1", "2"], ["1", 1, 1.0, True, "1.0", "01", 3], [0, 0, 0, 0, 0, 0, -1]),
        ([1, 2], ["1", 1, 1.0, True, "1.0", "one"], [0, 0, 0, 0, 0, -1]),
        (["1", "01"], ["1", "01", 1, "001"], [0, 1, -1, -1]),
        ([1, "1"], [1, "1", 1.0], [0, 1, 0]),
        (["False", "True"], ["True", True, 1, "TRUE", "true"], [1, 1, 1, 1, 1]),
        ([False, True], [True, 0, "false", "1", 2], [1, 0, 0, 1, -1]),
        ([0.5, 1.5], ["0.5", 1.5, "1.50", "half"], [0, 1, 1, -1]),
    ],
)
def test_a_level_is_found_by_each_cell_alone(levels, cells, want):
    got = level_codes(pd.Series(cells, dtype=object), "g", levels, gaps=True)
    assert got.tolist() == want
    for cell, code in zip(cells, want, strict=True):
        assert level_codes(pd.Series([cell]), "g", levels, gaps=True).tolist() == [code]


# --- what is refused on public grounds -------------------------------------------------------------------


@pytest.mark.parametrize("part", ["np.log(-1)", "1 / 0", "np.sqrt(-2.0)", "np.exp(1000)", "0 * np.log(0)", "-1e999"])
def test_a_part_without_columns_that_is_no_number_is_refused(part):
    with pytest.raises(errors.FormulaError, match="not a finite number"):
        formula_design(f"y ~ np.where((x == 2.7) & (g == 'b'), {part}, x)", SCHEMA)


def test_a_curator_keeps_the_number_of_records():
    with pytest.raises(errors.OptionError, match="number of records"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", table(), trust="central", mu=1, missing="drop", **DECLARED)


def test_who_holds_the_rows_may_have_errors_that_name_no_silo_and_no_count():
    silos = [table().iloc[i::20] for i in range(20)]
    silos[3] = silos[3].assign(x=np.nan)
    model = pr.federated.FederatedRegression.from_formula(
        "y ~ x", silos, family="huber", mu=2, missing="raise", **DECLARED
    )
    with pytest.raises(errors.DataError, match="column 'x'") as caught:
        model.fit(progress=False)
    assert not re.search(r"silo|\d", str(caught.value))


def test_most_records_that_sent_noise_are_noted():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"x": rng.uniform(0, 5, 20_000), "g": rng.choice(["A", "B", "C"], 20_000)})
    rows["y"] = 3 + 0.5 * rows["x"]
    res = local("y ~ x + g", rows)
    assert any("declared levels" in note for note in res.privacy.notes)
    rows["g"] = rows["g"].str.lower()
    rows.loc[rows.index % 5 == 0, "x"] = np.nan
    res = local("y ~ x + g", rows)
    (note,) = (note for note in res.privacy.notes if "sent noise only" in note)
    share = float(re.search(r"about (\d+)%", note)[1])
    assert 10 < share < 30


def test_the_command_line_says_the_same_of_tables_that_differ_in_one_record(tmp_path, capsys):
    def run(line: bytes) -> str:
        path = lines(tmp_path, line)
        options = ["--mu", "2", "--bounds", "y=0:10", "x=0:5", "--levels", "g=a,b,c", "--seed", "1"]
        app.main(["fit", "y ~ x + g", str(path), *options])
        out, err = capsys.readouterr()
        return re.sub(r"[-\d.,]+", "#", out.split("coef ")[0]), out.count("T.c"), "warning: don't rely on" in err

    want = run(b"5,2.5,b,")
    for name in ("bytes", "quotes inside", "a quote that nobody closed", "texts", "huge"):
        assert run(LINES[name]) == want, name


# --- what an attacker found ------------------------------------------------------------------------------


class EqualToAll:
    def __hash__(self):
        return hash("a")

    def __eq__(self, other):
        return True


class Secretive:
    @property
    def __class__(self):
        raise ValueError("SECRET")


def test_a_cell_of_a_type_of_ones_own_changes_no_other():
    assert level_codes(pd.Series([EqualToAll(), "a", "b"], dtype=object), "g", ["a", "b"], gaps=True).tolist() == [
        -1,
        0,
        1,
    ]
    assert level_codes(pd.Series([Secretive(), "a"], dtype=object), "g", ["a", "b"], gaps=True).tolist() == [-1, 0]
    np.testing.assert_array_equal(read_numbers(pd.Series([Secretive(), 1.0], dtype=object)), [np.nan, 1.0])


def test_cells_of_arrow_types_mean_what_they_say():
    pa = pytest.importorskip("pyarrow")
    assert read_numbers(pd.Series([True, False], dtype="bool[pyarrow]")).tolist() == [1.0, 0.0]
    assert read_numbers(
        pd.Series(["1", "2"], dtype=pd.ArrowDtype(pa.dictionary(pa.int32(), pa.string())))
    ).tolist() == [1, 2]
    for cells in (pd.Series([b"a", b"b"], dtype=pd.ArrowDtype(pa.binary())), [b"a", b"b"], np.array([b"a", b"b"])):
        assert level_codes(cells, "g", ["a", "b"], gaps=True).tolist() == [0, 1]


@pytest.mark.parametrize("odd", [0.5, None, np.nan, np.inf, 2**63, 1j, np.float32(0.5), "x"])
def test_long_ids_in_a_list_are_told_apart_whatever_stands_beside_them(odd):
    ids = [2**53 + 1 + 2 * (k // 2) for k in range(20)]  # ten people, two rows each; doubles would merge some
    assert Counter("who", 1).excess(ids, gaps=True).sum() == 10
    ids[5] = odd
    out = Counter("who", 1).excess(ids, gaps=True)
    assert out.tolist()[:4] + out.tolist()[6:] == [False, True] * 9


def test_an_id_is_the_same_persons_whatever_its_type():
    ids = [3, "3", 3.0, np.float32(3), Decimal(3), np.int8(3), UUID(int=3), str(UUID(int=3))]
    assert Counter("who", 1).excess(ids, gaps=True).tolist() == [False, *[True] * 5, False, True]


def test_long_numbers_of_levels_in_a_csv_file_do_not_follow_a_gap(tmp_path):
    schema = Schema.declare({"y": (0, 1)}, {"g": [2**53, 2**53 + 1]})
    for first in ("9007199254740993", "", "1.5"):
        path = tmp_path / "g.csv"
        path.write_text("y,g\n" + f"1,{first}\n" + "1,9007199254740993\n" * 9)
        (batch,) = open_table(path, ("y", "g"), schema).batches(0)
        assert level_codes(batch["g"], "g", schema.levels["g"], gaps=True).tolist()[1:] == [1] * 9


def test_a_connection_may_hand_out_rows_by_name():
    connection = sqlite()
    connection.execute("CREATE TABLE t (y, x, g)")
    connection.execute("INSERT INTO t VALUES (1.0, 0.5, 'b')")
    connection.row_factory = lambda cursor, row: dict(zip([c[0] for c in cursor.description], row, strict=True))
    assert encoded(pr.sql("SELECT * FROM t", connection))[1].tolist() == [[1.0, 1.0, 1.0, 0.0, 0.5]]


ODD_ROWS = {
    "short": [1],
    "none": None,
    "cells": [[1], 0.5],
    "text": "row",
    "long": [1.0, 0.5, 0.5],
    "a cell": np.array(5.0),
    "masked": np.ma.masked,
    "masked cell": np.ma.array([1.0, 0.5], mask=[False, True]),
    "a short Series": pd.Series([1.0]),
}
WHOLE_ROWS = {"lists": list, "arrays": np.array, "masked": np.ma.array, "Series": pd.Series}


@pytest.mark.parametrize("form", WHOLE_ROWS)
@pytest.mark.parametrize("row", ODD_ROWS)
def test_a_row_of_a_list_of_rows_spoils_itself_alone(row, form):
    rng = np.random.default_rng(1)
    x = [[1.0, v] for v in rng.uniform(-1, 1, N)]
    design = array_design(["const", "x"], "y", Schema.declare({"y": (0, 1), "x": (-1, 1)}))

    def rows(odd):
        made = [WHOLE_ROWS[form](cells) for cells in x]
        made[AT] = odd
        return design.encode((np.ones(N), made), "noise").exog

    np.testing.assert_array_equal(rows(ODD_ROWS[row]), rows([1.0, None]))


@pytest.mark.some(20)
@pytest.mark.parametrize("odd", [None, [1.0, 2.0], [], 1j, "x", np.ma.masked, np.ma.array(1.0, mask=True), {1: 2}])
@pytest.mark.parametrize("form", [float, lambda v: [v], lambda v: (v,), lambda v: np.array([v]), np.float32])
def test_a_response_of_a_list_spoils_itself_alone(form, odd):
    rng = np.random.default_rng(1)
    y, x = [form(v) for v in rng.uniform(0, 1, N)], np.ones((N, 1))

    def read(cells):
        held = read_arrays(cells, x, None, ["const"], "y")
        return array_design(["const"], "y", Schema.declare({"y": (0, 1)})).encode((held.endog, x), "noise").endog

    whole = read(y)
    assert np.isfinite(whole).all()
    whole[AT] = np.nan
    y[AT] = odd
    np.testing.assert_array_equal(read(y), whole)


@pytest.mark.parametrize("made", [list, lambda cells: [np.array(c) for c in cells], lambda cells: [[c] for c in cells]])
def test_a_column_of_a_mapping_is_read_cell_by_cell(made):
    cells = np.linspace(0, 1, 20).tolist()
    one, other = (np.asarray(read_numbers(made(c)))[1:] for c in (cells, [None, *cells[1:]]))
    odd = made(cells)
    odd[0] = [1, 2, 3]
    for again in (other, read_numbers(odd)[1:]):
        np.testing.assert_array_equal(again, one)


def test_no_number_of_a_dictionary_of_arrows_makes_a_table_unreadable(tmp_path):
    schema = Schema.declare({"y": (0, 1)}, {"g": [1, 2, 3]})
    cells = np.array([1.0, 2.0, 3.0] * 10)
    for odd in (np.nan, np.inf, 1e308):
        held = np.where(np.arange(30) == 7, odd, cells)
        rows = pa.table({"y": np.ones(30), "g": pa.array(held, from_pandas=False).dictionary_encode()})
        (batch,) = open_table(rows, ("y", "g"), schema).batches(0)
        want = np.where(np.arange(30) == 7, -1, cells - 1)
        assert level_codes(batch["g"], "g", schema.levels["g"], gaps=True).tolist() == want.tolist()


@pytest.mark.parametrize("who", [np.float32(1.5), np.float16(np.inf), np.complex64(1 + 1j), np.float32(np.nan)])
def test_no_id_and_no_level_warns(who):
    cells = ["a", who, *"bcd"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert Counter("who", 1).excess(cells, gaps=True).tolist() == [False, True, False, False, False]
        assert level_codes(cells, "g", ("a", "b"), gaps=True).tolist() == [0, -1, 1, -1, -1]


@pytest.mark.parametrize("unit", ["D", "s", "ns"])
def test_a_date_of_numpys_is_no_number_and_no_id_whatever_its_unit(unit):
    day = np.datetime64("2020-01-01", unit)
    assert np.isnan(read_numbers([0.5, day, "x"])[1])
    assert Counter("who", 1).excess(["a", day], gaps=True).tolist() == [False, True]
    assert level_codes(["a", day], "g", ("a", "b"), gaps=True).tolist() == [0, -1]


def test_a_function_may_come_to_rows_of_its_own():
    one = rowwise(lambda z: z + 1.0)
    twice = rowwise(lambda z: one.of_records([z], len(z), z)[0])

    got = []
    z = np.arange(5.0)
    thread = threading.Thread(target=lambda: got.append(twice.of_records([z], 5, z)), daemon=True)
    thread.start()
    thread.join(timeout=30)
    assert [(values.tolist(), failed.any()) for values, failed in got] == [([1.0, 2.0, 3.0, 4.0, 5.0], False)]


def test_threads_leave_the_filters_of_warnings_as_they_are():
    @pr.rowwise
    def slow(v):
        time.sleep(0.001)
        return v

    design = formula_design("y ~ slow(z)", SCHEMA, functions={"slow": slow})
    before, pieces = list(warnings.filters), [table()[a : a + 20] for a in range(0, N, 20)] * 4
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda rows: design.encode(rows, "noise"), pieces))
    assert warnings.filters == before


class Own(BaseException):
    """Of a function that would end the process."""


@pytest.mark.parametrize("stop", [SystemExit, GeneratorExit, KeyboardInterrupt, Own])
def test_a_function_that_would_end_the_process_spoils_its_row_alone(stop):
    @pr.rowwise
    def stops(v):
        if (v == 1.05).any():
            raise stop("SECRET")
        return v

    design = formula_design("y ~ stops(z)", SCHEMA, functions={"stops": stops})
    endog = design.encode(table({"z": 1.05}), "noise").endog
    assert np.flatnonzero(np.isnan(endog)).tolist() == [AT]


def test_who_interrupts_a_function_interrupts_the_fit():
    calls = []

    @pr.rowwise
    def slow(v):
        calls.append(len(v))
        if len(calls) == trap:
            raise KeyboardInterrupt  # as a key that is pressed once
        return v

    trap = 0
    design = formula_design("y ~ slow(z)", SCHEMA, functions={"slow": slow})
    trap = len(calls) + 1
    with pytest.raises(KeyboardInterrupt):
        design.encode(table(), "noise")


SIGNALS = np.array([0x7FF00000000007A2], dtype=np.uint64).view(np.float64)[0]  # as R has its missing numbers
P = pr.PrivateOnlineRegression.from_formula
PEOPLE = {"mu": 1, "trust": "central", "bounds": {"x": (0.1, 1), "w": (0, 1)}}


@pytest.mark.parametrize(
    "fit",
    [
        *(
            lambda d, t=t: pr.means.estimate(d, "x ~ 1", mu=1, trust=t, bounds={"x": (0, 1)})
            for t in ("local", "two_collectors", "central")
        ),
        lambda d: pr.means.estimate(d, "x:w + cut(x, 3) ~ 1", mu=1, bounds=PEOPLE["bounds"]),
        lambda d: P("n ~ w", d, **PEOPLE, family=pr.Poisson(y_max=5), exposure="x").fit(),
        lambda d: P("w ~ x", d, **PEOPLE, family="logistic").fit(),
        lambda d: P("Surv(x, n, [0.2, 0.5]) ~ w", d, **PEOPLE).fit(),
    ],
)
def test_a_missing_value_that_signals_warns_nowhere(fit):
    rng = np.random.default_rng(1)
    data = {"x": rng.uniform(0.1, 1.0, 2_000), "w": rng.integers(0, 2, 2_000).astype(float)}
    data["n"] = rng.integers(0, 2, 2_000).astype(float)
    data["x"][AT] = SIGNALS
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
        fit(data)
