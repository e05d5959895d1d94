"""Whatever shares memory, files or a query with rows that were fitted is known as them; what is of others isn't."""

import gc

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import privreg as pr
from privreg.errors import BudgetError, NotPrivateError
from privreg.privacy.accounts import accounts_of, of_files
from privreg.privacy.ledger import LEDGER, Ledger

N = 1_000


def columns(n=N):
    at = np.arange(n)
    x = np.linspace(-1, 1, n)
    return {"x": x, "y": 0.5 * x, "count": at, "flag": at % 3 == 0, "word": np.array(["one", "other"])[at % 2]}


def arrow():
    return pa.table({name: pa.array(values.tolist()) for name, values in columns().items()})


def polars():
    return pl.DataFrame({name: values.tolist() for name, values in columns().items()})


def pandas_of_arrow():
    return arrow().to_pandas(types_mapper=pd.ArrowDtype)


def pandas_of_many_kinds():
    held = pd.DataFrame(columns())
    held["count"] = held["count"].astype("Int64")
    held["word"] = held["word"].astype("category")
    held["x"] = held["x"].astype("double[pyarrow]")
    held["day"] = pd.date_range("2020-01-01", periods=N, tz="UTC")
    return held


def arrow_file(path):
    polars().write_parquet(path / "people.parquet")
    return path / "people.parquet"


ARROW = {
    "slice": lambda t: t.slice(10, 100),
    "select": lambda t: t.select(["x"]),
    "texts": lambda t: t.select(["word"]),
    "flags": lambda t: t.select(["flag"]).slice(3),
    "record batch": lambda t: t.to_batches()[0],
    "part of a record batch": lambda t: t.to_batches()[0].slice(7),
    "concat": lambda t: pa.concat_tables([t.slice(5, 3), arrow()]),
    "renamed": lambda t: t.rename_columns(list("abcde")),
    "arrays in a mapping": lambda t: {"a": t["x"], "b": [1] * N},
    "chunk": lambda t: t["y"].chunk(0),
    "another order of columns": lambda t: t.select(["y", "x"]),
    "list": lambda t: [arrow(), t.slice(1, 5)],
    "numpy": lambda t: t["x"].to_numpy(),
    "part of numpy": lambda t: t["x"].chunk(0).to_numpy()[100:],
    "pandas": lambda t: t.to_pandas(split_blocks=True),
    "pandas of Arrow": lambda t: t.to_pandas(types_mapper=pd.ArrowDtype).iloc[4:10],
    "polars": pl.from_arrow,
    "polars series": lambda t: pl.from_arrow(t["x"]),
}
POLARS = {
    "slice": lambda t: t.slice(10, 100),
    "head": lambda t: t.head(),
    "clone": lambda t: t.clone(),
    "select": lambda t: t.select("y"),
    "texts": lambda t: t.select("word")[5:],
    "flags": lambda t: t.select("flag")[5:],
    "renamed": lambda t: t.rename({"x": "z"}),
    "with a column": lambda t: t.with_columns(z=1),
    "series": lambda t: t["count"],
    "arrow": lambda t: t.to_arrow().slice(3),
    "numpy": lambda t: t["x"].to_numpy()[5:],
    "pandas": lambda t: t.to_pandas(use_pyarrow_extension_array=True),
    "vstack": lambda t: polars().vstack(t.slice(1, 2)),
}
PANDAS = {
    "slice": lambda t: t.iloc[10:20],
    "select": lambda t: t[["x"]],
    "copy": lambda t: t.copy(deep=False),
    "series": lambda t: t["word"],
    "array": lambda t: {"a": t["count"].array},
    "assign": lambda t: t.assign(z=1.0)[["word", "z"]],
}
SOURCES = {
    arrow: ARROW,
    polars: POLARS,
    pandas_of_arrow: PANDAS | {"arrow": lambda t: pa.table({"a": t["x"].array.__arrow_array__()})},
    pandas_of_many_kinds: PANDAS | {"arrow": lambda t: pa.table({"a": t["x"].array.__arrow_array__()})},
    lambda: pd.DataFrame({"x": np.linspace(-1, 1, N), "y": np.ones(N)}): {"arrow": pa.table},
}


@pytest.mark.parametrize(("source", "way"), [(source, way) for source, ways in SOURCES.items() for way in ways])
def test_a_view_is_the_people_it_is_of(source, way):
    for fitted_first in (True, False):
        ledger, data = Ledger(limit=1.2), source()
        view = SOURCES[source][way](data)
        first, second = (data, view) if fitted_first else (view, data)
        assert ledger.spent(second) == 0.0
        assert ledger.spend(first, 1.0).number == 1
        assert ledger.spent(second) == 1.0
        with pytest.raises(BudgetError, match="release 2"):
            ledger.spend(second, 1.0)


@pytest.mark.parametrize("source", [arrow, polars])
def test_nothing_is_taken_for_memory_that_is_gone_nor_forgotten_while_a_view_lives(source):
    ledger, data = Ledger(), source()
    view = data.slice(1, 10)
    ledger.spend(data, 1.0)
    del data
    gc.collect()
    assert ledger.spent(view) == 1.0  # though what was fitted is gone
    for seeded in (True, False):
        for _ in range(50):  # memory of those before is given out again, if nobody keeps it
            assert ledger.spend(source(), 1.0, seeded=seeded).number == 1
    simulated = Ledger()
    for _ in range(20):
        simulated.spend(source(), 1.0, seeded=True)
    gc.collect()
    assert simulated.spent("nobody") == 0.0
    assert not simulated._spent


@pytest.mark.parametrize("twice", [
    lambda path: pl.concat([pl.read_parquet(path)] * 2, rechunk=False),
    lambda path: pa.concat_tables([pl.read_parquet(path).to_arrow()] * 2),
])  # fmt: skip
def test_who_comes_twice_counts_twice(twice, tmp_path):
    rows = twice(arrow_file(tmp_path))
    assert Ledger().spend(rows, 1.0).total_mu == pytest.approx(np.sqrt(2))
    with pytest.raises(BudgetError, match=r"1\.415-GDP"):
        Ledger(limit=1.2).check(rows, 1.0)


@pytest.mark.parametrize(
    "same",
    [memoryview, lambda x: memoryview(x)[::2], lambda x: memoryview(x)[5:6], lambda x: np.frombuffer(memoryview(x))],
)
def test_what_looks_into_the_memory_of_an_array_is_known_as_it(same):
    data, ledger = np.linspace(-1, 1, N), Ledger()
    ledger.spend(same(data), 1.0)
    assert ledger.spent(data) == ledger.spent(same(data)) == 1.0
    assert ledger.spent(np.linspace(-1, 1, N)) == 0.0


def test_parts_of_a_buffer_are_the_same_people_whichever_library_shows_them():
    whole = arrow()
    parts = [whole.slice(0, 10), whole.slice(500)["x"], whole.slice(20, 5)["x"].chunk(0).to_numpy()]
    parts += [whole.slice(700)["x"].to_numpy(), whole.slice(90, 9).to_pandas(types_mapper=pd.ArrowDtype)]
    for first in parts:
        ledger = Ledger()
        ledger.spend(first, 1.0)
        assert [ledger.spent(part) for part in (*parts, whole)] == [1.0] * 6
        assert ledger.spent(arrow()) == 0.0


def test_a_file_that_is_mapped_twice_is_one_file(tmp_path):
    path, ledger = tmp_path / "x.f8", Ledger()
    np.linspace(-1, 1, N).tofile(path)
    ledger.spend(np.memmap(path, "f8", "r")[:500], 1.0)
    assert ledger.spent(np.asarray(np.memmap(path, "f8", "r", offset=800))) == 1.0
    assert ledger.spent(np.memmap(path, "f8", "r")[500:]) == 1.0
    assert ledger.spent(of_files([path])) == 1.0


def test_a_relation_of_a_file_is_nobody_s_that_are_known(tmp_path):
    path = arrow_file(tmp_path)
    with pytest.raises(BudgetError, match="no source to count by"):
        Ledger(limit=5).check(duckdb.read_parquet(str(path)), 1.0)


class Streamed:
    """A table of a library that nobody knows."""

    def __init__(self, table):
        self.table = table

    def __arrow_c_stream__(self, requested=None):
        return self.table.__arrow_c_stream__(requested)


class Interface:
    """A column of a library that nobody knows."""

    def __init__(self, values):
        self.values, self.__array_interface__ = values, values.__array_interface__

    def __len__(self):
        return len(self.values)


def registered(table):
    connection = duckdb.connect()
    connection.register("people", table)
    return pr.sql("SELECT * FROM people", connection)


UNKNOWN = {
    "stream": Streamed,
    "relation of a table": duckdb.from_arrow,
    "relation of a frame": lambda t: duckdb.from_df(t.to_pandas()).filter("x > -2"),
    "query of a table": registered,
    "arrays' interface": lambda t: {name: Interface(t[name].to_numpy()) for name in ("x", "y")},
    "reader": lambda t: t.to_reader(),
    "frames": lambda t: (part for part in [t.to_pandas()]),
    "dataset in memory": ds.dataset,
    "lazy": lambda t: pl.from_arrow(t).lazy().filter(pl.col("x") > 0),
    "query": lambda t: pr.sql("SELECT 0.5 AS x, 0.1 AS y", duckdb.connect()),
    "mapped": lambda t: pl.from_arrow(t).lazy().map_batches(lambda part: part),
    "list": lambda t: [Streamed(t)],
}


@pytest.fixture(scope="module")
def fitted():
    data = arrow()
    public = {"mu": 1, "bounds": {"x": (-1, 1), "y": (-1, 1)}}
    model = pr.PrivateOnlineRegression.from_formula("y ~ x", data, rows=N, **public)
    return data, model, model.fit(progress=False)


@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("way", UNKNOWN)
def test_rows_of_which_nothing_tells_whose_they_are_are_refused(way, fitted):
    data, _, res = fitted
    public = {"mu": 1, "bounds": {"x": (-1, 1), "y": (-1, 1)}}
    with pytest.raises(NotPrivateError, match=r"nothing tells whose rows these are; .* an Arrow or polars table \(of"):
        res.estimand(UNKNOWN[way](data))
    pr.limit_spending(5)
    try:
        with pytest.raises(BudgetError, match="no source to count by"):
            pr.PrivateOnlineRegression.from_formula("y ~ x", UNKNOWN[way](arrow()), rows=N, **public).fit()
    finally:
        pr.limit_spending(None)


@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_parts_of_fitted_tables_are_not_public(fitted):
    data, _, res = fitted
    for rows in (
        data.slice(0, 500),
        data.select(["y", "x"]),
        pl.from_arrow(data).head(200),
    ):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            res.estimand(rows)
    with pytest.raises(NotPrivateError, match="fitted privately"):
        res.evaluate(data.slice(0, 500).to_pandas(split_blocks=True))
    assert np.isfinite(res.estimand(arrow())).all()  # of others, though they look alike


def test_accounts_read_no_rows():
    one, many = (polars().select(pl.all().repeat_by(k).explode()).rechunk() for k in (1, 500))
    assert len(many) == 500 * N
    assert len(accounts_of(many).entries) <= len(accounts_of(one).entries) + 2 * many.width
    assert LEDGER.spent(many) == 0.0
    held = pd.DataFrame({"x": np.ma.ones(3), "y": pd.array([object()] * 3)})
    assert accounts_of(held).whole
