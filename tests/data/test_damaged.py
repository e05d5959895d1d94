"""Damaged files, differing files, databases that fail: what is told, and that no value is quoted."""

import sqlite3
from importlib import import_module

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privreg as pr
from privreg.data import columns
from privreg.data.sources.open import open_table, rows_of
from privreg.errors import DataError, MissingExtraError, SchemaError, UnsupportedArgumentError
from privreg.schema.declarations import Schema
from tests.databases import sqlite
from tests.tables import BOUNDS, LEVELS, NAMES, bits, model, people, sources


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return sources(people(), tmp_path_factory.mktemp("whole"))


SECRET = "SECRET-LEVEL"


def refused(data, match, error=DataError, **more):
    with pytest.raises(error, match=match) as caught:
        bits(data, **more)
    told = caught.value
    assert told.__cause__ is None
    assert told.__context__ is None or told.__suppress_context__
    assert SECRET not in str(told)
    return told


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "people.parquet"
    data = people().assign(g=lambda d: np.where(d["g"] == "u", SECRET, d["g"]))
    table = pa.Table.from_pandas(data, preserve_index=False)
    pq.write_table(table, path, row_group_size=1000, write_page_checksum=True)
    return path


def flip(path, group, column):
    meta = pq.read_metadata(path).row_group(group)
    place = next(meta.column(i) for i in range(meta.num_columns) if meta.column(i).path_in_schema == column)
    raw = bytearray(path.read_bytes())
    start = place.data_page_offset if place.dictionary_page_offset is None else place.dictionary_page_offset
    at = start + place.total_compressed_size // 2
    for i in range(at, at + 8):
        raw[i] ^= 0x5A
    path.write_bytes(raw)


@pytest.mark.parametrize("keep", [0, 1000, 0.5, 0.99])
def test_cut_off_files(file, keep):
    raw = file.read_bytes()
    file.write_bytes(raw[: int(keep if keep > 1 else keep * len(raw))])
    refused(file, r"^people\.parquet: not a readable Parquet file \(cut off")


@pytest.mark.some(1)
@pytest.mark.parametrize(("group", "column"), [(0, "x"), (2, "y"), (1, "k")])
def test_a_damaged_row_group_is_named(file, column, group):
    flip(file, group, column)
    refused(file, rf"^people\.parquet, row group {group}: it is damaged", levels={"g": [SECRET, "v", "w"]})


@pytest.mark.thorough
def test_people_before_a_damaged_row_group_were_taken(file):
    flip(file, 1, "x")
    stream = model(None, levels={"g": [SECRET, "v", "w"]}).start(seed=1)
    source = open_table(file, stream._spec.design.columns, stream._spec.design.schema)
    with pytest.raises(DataError, match="row group 1"):
        for _ in stream._update_all(source.batches(0), 1):
            pass
    assert stream.nobs == 1000
    assert sum(rows_of(b) for b in source.batches(2000)) == 1000  # the row group isn't needed


def test_a_level_not_declared_is_not_quoted(file):
    refused(file, "has a value that is not among its declared levels", SchemaError, missing="raise")
    data = people()
    gone = data.assign(g=data["g"].where(data["g"] != "u"))
    assert bits(file) == bits(gone)


def test_a_file_that_changes_under_a_model(file):
    built = model(file, levels={"g": [SECRET, "v", "w"]})
    people(100).to_parquet(file)
    with pytest.raises(DataError, match=r"^people\.parquet was changed after it was opened"):
        built.fit(progress=False)
    file.unlink()
    with pytest.raises(DataError, match=r"^people\.parquet: not a readable Parquet file"):
        built.fit(progress=False)


@pytest.mark.some(1)
@pytest.mark.parametrize("n", [1, 3])
def test_a_file_of_a_set_that_differs(tmp_path, n):
    data = people(900)
    paths = [tmp_path / f"{i}.parquet" for i in range(4)]
    for i, path in enumerate(paths):
        data.to_parquet(path)
        if i == n:
            data.rename(columns={"x": "X"}).to_parquet(path)
    refused(paths, rf"^{n}\.parquet: column 'x' is missing .* Did you mean 'X'\?")
    data.assign(x=data["x"].astype(str)).to_parquet(paths[n])
    refused(tmp_path, rf"^{n}\.parquet: column 'x' is text here and number in 0\.parquet")
    data.assign(x=data["x"].astype("float32"), k=data["k"].astype("float64")).to_parquet(paths[n])
    assert bits(paths)[0] == 3600  # numbers are numbers
    data.assign(x=None).to_parquet(paths[0])
    assert bits(paths, missing="drop")[0] == 2700
    data.assign(x=data["x"].astype(str)).to_parquet(paths[n])
    refused(paths, r"column 'x' is (text|number) here and (text|number) in [123]\.parquet", missing="drop")


@pytest.mark.thorough
@pytest.mark.parametrize("name", NAMES)
def test_missing_columns_are_told_with_the_nearest(name, whole):
    with pytest.raises(DataError, match=r"column 'X' is missing from the data, which have 8 columns. Did you mean 'x'"):
        bits(whole[name](), formula="y ~ X", bounds={**BOUNDS, "X": (-1, 1)})


def test_columns_twice(tmp_path):
    table = pa.table([[1.0] * 9] * 2, names=["y", "y"])
    refused(table, "more than one column named 'y'", formula="y ~ 1", rows=9)
    pq.write_table(table, tmp_path / "y.parquet")
    refused(tmp_path / "y.parquet", r"^y\.parquet: there is more than one column named 'y'", formula="y ~ 1", rows=9)


def test_a_reader_that_breaks_off():
    parts = pa.Table.from_pandas(people()).to_batches(max_chunksize=700)

    def some():
        yield from parts[:2]
        raise RuntimeError(SECRET)

    reader = pa.RecordBatchReader.from_batches(parts[0].schema, some())
    refused(reader, r"^the Arrow reader: reading broke off")


def test_whatever_is_damaged_there_is_an_error_of_our_own_or_a_fit(tmp_path):
    path, rng, told = tmp_path / "people.parquet", np.random.default_rng(1), set()
    pq.write_table(pa.Table.from_pandas(people(2000), preserve_index=False), path, row_group_size=600)
    raw = path.read_bytes()
    schema = Schema.declare(BOUNDS, LEVELS)
    for _ in range(60):
        damaged = bytearray(raw)
        for at in rng.integers(0, len(raw), 6):
            damaged[at] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        try:
            for batch in open_table(path, ("x", "k", "b", "f", "g", "y"), schema).batches(0):
                columns.prepare(batch, batch, schema, batch, gaps=True)
        except (DataError, SchemaError) as e:
            told.add(e)
    assert len(told) > 10
    assert all(e.__cause__ is None and (e.__context__ is None or e.__suppress_context__) for e in told)


def kept(tmp_path):
    people().to_parquet(tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


READERS = {
    "pyarrow": lambda _: pa.Table.from_pandas(people()),
    "pyarrow's files": kept,
    "polars": lambda _: pl.from_pandas(people()),
    "polars' plans": lambda _: pl.from_pandas(people()).lazy(),
    "duckdb": lambda _: duckdb.from_arrow(pa.Table.from_pandas(people())),
    "duckdb's queries": lambda _: pr.sql("SELECT * FROM range(3)", duckdb.connect()),
    "sqlalchemy": lambda _: pr.sql("SELECT 1", "sqlite://"),
    "dask": lambda tmp: pytest.importorskip("dask.dataframe").read_parquet(kept(tmp)),
}


@pytest.mark.parametrize("reader", READERS)
def test_a_library_that_is_too_old_is_named_with_the_version_that_is_needed(reader, tmp_path, monkeypatch):
    package, data = reader.partition("'")[0], READERS[reader](tmp_path)
    monkeypatch.setattr(import_module(package), "__version__", "0.20.3rc1")
    with pytest.raises(
        MissingExtraError, match=rf"^{package} is installed in version 0\.20\.3rc1, and rows are read by"
    ):
        list(open_table(data, ("x",), Schema.declare(BOUNDS)).batches(0))


# --- databases ---------------------------------------------------------------------------------------------


def test_a_query_shows_nothing_of_itself():
    shown = [
        repr(pr.sql("SELECT 'hunter2'", "postgresql://ann:hunter2@host/db", {"who": "hunter2"})),
        repr(pr.sql("SELECT 'hunter2'", sqlite(), ("hunter2",))),
        repr(pr.sql("SELECT 'hunter2'", duckdb.connect())),
    ]
    assert shown == ["<SQL query on postgresql>", "<SQL query on sqlite3>", "<SQL query on duckdb>"]
    with pytest.raises(AttributeError):
        pr.sql("SELECT 1", duckdb.connect()).query = "SELECT 2"


@pytest.mark.parametrize(
    ("query", "connection", "match"),
    [
        (" ; ", sqlite(), "the query is empty"),
        (3, sqlite(), "of type int"),
        ("SELECT 1", "people.db", "no URL"),
        ("SELECT 1", 3, "of type int can't be asked"),
    ],
)
def test_queries_that_make_no_sense(query, connection, match):
    with pytest.raises(UnsupportedArgumentError, match=match):
        pr.sql(query, connection)


@pytest.mark.parametrize("name", ["duckdb query", "sqlite", "engine"])
def test_mistakes_in_sql_are_told_without_quoting(name, whole):
    made = whole[name]()
    with pytest.raises(pr.errors.UnsupportedArgumentError, match="it must begin with SELECT or WITH") as raised:
        pr.sql(f"SELEC * FROM {SECRET}", made.connection)
    assert SECRET not in str(raised.value)
    for wrong in (
        f"SELECT * FROM people WHERE unused = '{SECRET}' AND",
        "SELECT * FROM none",
    ):
        refused(pr.sql(wrong, made.connection), "SQL query on (duckdb|sqlite3?) was refused")


def test_awkward_names_are_quoted():
    data = people()[["x", "y"]].rename(columns={"x": 'a"b', "y": "select"})
    want = bits(data.rename(columns={'a"b': "x"}), formula='Q("select") ~ x', bounds={"x": (-1, 1), "select": (-3, 5)})
    db = sqlite()
    data.rename(columns={'a"b': "the x; DROP"}).to_sql("t", db, index=False)
    duck = duckdb.connect()
    duck.register("t", data.rename(columns={'a"b': "the x; DROP"}))
    for connection in (db, duck):
        given = {"bounds": {"the x; DROP": (-1, 1), "select": (-3, 5)}, "formula": 'Q("select") ~ Q("the x; DROP")'}
        assert bits(pr.sql("SELECT * FROM t", connection), **given) == want


@pytest.mark.thorough
def test_a_connection_that_drops(tmp_path):
    data = pd.concat([people()] * 60, ignore_index=True)
    db = sqlite()
    data.to_sql("people", db, index=False)

    class Dropping:
        def __init__(self):
            self.left = 2

        def cursor(self):
            self.under = db.cursor()
            return self

        def execute(self, *given):
            self.under.execute(*given)
            self.description = self.under.description

        def fetchmany(self, n):
            self.left -= 1
            if self.left < 0:
                raise sqlite3.OperationalError(f"lost at {SECRET}")
            return self.under.fetchmany(n)

        def close(self):
            self.under.close()

    refused(
        pr.sql("SELECT * FROM people", Dropping()),
        r"^the SQL query on tests: the database broke off \(OperationalError\); look after the connection",
        rows=len(data),
    )


def test_a_missing_driver_is_named():
    pytest.importorskip("sqlalchemy")
    refused(pr.sql("SELECT 1", "oracle+oracledb://u:p@h/d"), "needs the package 'oracledb'", MissingExtraError)


def test_a_connection_stays_as_it_was(whole):
    made = whole["connection"]()
    bits(made)
    assert not made.connection.closed
    assert not made.connection.in_transaction()
    lite = whole["sqlite"]()
    bits(lite)
    assert lite.connection.execute("SELECT 1").fetchone() == (1,)


def test_no_text_of_arrow_makes_a_fit_fail():
    """One cell that is no UTF-8, in a column that pandas holds as Arrow does."""
    pa = pytest.importorskip("pyarrow")
    raw = pa.array([b"a", b"b"] * 999 + [b"\xff"], pa.binary())
    texts = pa.Array.from_buffers(pa.string(), len(raw), raw.buffers())
    data = pd.DataFrame({"g": pd.arrays.ArrowExtensionArray(texts), "y": np.linspace(-1, 1, len(raw))})
    for declared in ({"levels": {"g": ["a", "b"]}}, {"bounds": {"g": (0, 1)}}):
        bounds = {"y": (-1, 1), **declared.pop("bounds", {})}
        res = pr.PrivateOnlineRegression.from_formula("y ~ g", data, mu=1, bounds=bounds, **declared).fit(
            progress=False
        )
        assert res.nobs == len(data)
