"""One object is one account: the ledger knows the same people again, and doesn't take others for them."""

import gc
import math
import os
import sqlite3
import weakref
from collections import UserDict

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa

import privreg as pr
from privreg.data.sources.open import open_table
from privreg.errors import BudgetError, DataError, NotPrivateError
from privreg.privacy.accounts import accounts_of, of_files
from privreg.privacy.ledger import LEDGER, Ledger
from privreg.schema.declarations import Schema

N = 600
PUBLIC = {"mu": 1, "bounds": {"x": (-1, 1), "y1": (-1, 1), "y2": (-1, 1)}}
COLUMNS = ("x", "y1", "y2")


def columns(n=N):
    x = np.linspace(-1, 1, n)
    return {"x": x, "y1": 0.5 * x, "y2": -0.5 * x}


def frame(n=N):
    return pd.DataFrame(columns(n))


def fit(formula, data):
    """By the published chain, which takes a twelfth of the time: who has reported is known before any fit begins."""
    made = pr.PrivateOnlineRegression.from_formula(formula, data, rows=N, **PUBLIC)
    return made.fit(tuning="published", progress=False)


def same_mapping(tmp_path):
    data = columns()
    return data, data


def mappings_with_a_column_in_common(tmp_path):
    x, y1, y2 = columns().values()
    return {"x": x, "y1": y1}, {"y2": y2, "x": x}


def mapping_of_columns_of_a_frame(tmp_path):
    data = frame()
    return {c: data[c] for c in COLUMNS}, {c: data[c].to_numpy() for c in COLUMNS}


def touched_file(tmp_path):
    path = tmp_path / "people.csv"
    frame().to_csv(path, index=False)

    def again():
        os.utime(path, (1, 1))
        return path

    return path, again


def moved_and_linked_file(tmp_path):
    path, moved, link = tmp_path / "people.csv", tmp_path / "moved.csv", tmp_path / "link.csv"
    frame().to_csv(path, index=False)

    def again():
        path.rename(moved)
        link.symlink_to(moved)
        return link

    return path, again


def files_in_another_order(tmp_path):
    paths = [tmp_path / f"{k}.csv" for k in range(3)]
    for path in paths:
        frame().to_csv(path, index=False)
    return paths[:2], [paths[2], paths[1]]


def folder_and_a_file_of_it(tmp_path):
    folder = tmp_path / "people"
    folder.mkdir()
    for k in range(2):
        frame().to_parquet(folder / f"{k}.parquet")
    return folder, folder / "1.parquet"


def arrow_file_alone_and_in_a_list(tmp_path):
    paths = [tmp_path / f"{k}.feather" for k in range(2)]
    for path in paths:
        frame().to_feather(path)
    return paths[0], paths


def view_of_a_frame(tmp_path):
    data = frame()
    return data, data.iloc[100:500]


def frames_that_overlap(tmp_path):
    data = frame()
    return data.iloc[:400], data.iloc[300:]


def some_columns_of_a_frame(tmp_path):
    data = frame()
    return data[["x", "y1"]], data.assign(z=1.0)


def frames_in_another_order(tmp_path):
    parts = [frame() for _ in range(3)]
    return parts[:2], (parts[2], parts[1])


def a_frame_of_a_list(tmp_path):
    parts = [frame() for _ in range(2)]
    return parts, parts[1]


def mappings_in_lists(tmp_path):
    one, other = columns(), columns()
    return [one, other], [dict(other)]


def arrow_table(tmp_path):
    table = pa.table(columns())
    return table, table


def polars_frame(tmp_path):
    table = pl.DataFrame(columns())
    return table, [table]


def connected(kind):
    if kind == "duckdb":
        connection = duckdb.connect()
        connection.execute("CREATE TABLE t AS SELECT i / 600.0 AS x, i / 700.0 AS y1, 0.0 AS y2 FROM range(600) r(i)")
        return connection
    connection = sqlite3.connect(":memory:")
    frame().to_sql("t", connection, index=False)
    return connection


def query_on_duckdb(tmp_path):
    connection = connected("duckdb")
    return pr.sql("SELECT * FROM t", connection), lambda: pr.sql("SELECT *\n  FROM t;", connection)


def query_with_parameters_on_sqlite(tmp_path):
    connection = connected("sqlite")
    return (pr.sql("SELECT * FROM t WHERE x > ?", connection, (-0.9,)) for _ in range(2))


def query_by_sqlalchemy(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'people.db'}")
    frame().to_sql("t", engine, index=False)
    t = sa.table("t", *(sa.column(c) for c in COLUMNS))
    connection = engine.connect()
    return pr.sql(sa.select(t).where(t.c.x > -0.9), engine), lambda: pr.sql(
        sa.select(t).where(t.c.x > -0.9), connection
    )


def query_at_an_address(tmp_path):
    url = f"sqlite:///{tmp_path / 'people.db'}"
    frame().to_sql("t", sa.create_engine(url), index=False)
    return pr.sql("SELECT * FROM t", url), pr.sql("SELECT * FROM t", sa.make_url(url))


SAME = [
    same_mapping,
    mappings_with_a_column_in_common,
    mapping_of_columns_of_a_frame,
    touched_file,
    moved_and_linked_file,
    files_in_another_order,
    folder_and_a_file_of_it,
    arrow_file_alone_and_in_a_list,
    view_of_a_frame,
    frames_that_overlap,
    some_columns_of_a_frame,
    frames_in_another_order,
    a_frame_of_a_list,
    mappings_in_lists,
    arrow_table,
    polars_frame,
    query_on_duckdb,
    query_with_parameters_on_sqlite,
    query_by_sqlalchemy,
    query_at_an_address,
]


@pytest.fixture
def limited():
    pr.limit_spending(1.2)
    yield
    pr.limit_spending(None)


@pytest.mark.some(10)
@pytest.mark.parametrize("pair", SAME, ids=lambda f: f.__name__)
def test_the_same_people_are_counted_again_and_refused_under_a_limit(pair, tmp_path, limited):
    one, other = pair(tmp_path)
    assert fit("y1 ~ x", one).privacy.release.number == 1
    other = other() if callable(other) else other
    with pytest.raises(BudgetError, match=r"release 2 from these data would cost 1.415-GDP"):
        fit("y2 ~ x", other)
    with pytest.raises(BudgetError, match="release 2"):
        pr.means.estimate(other, "y2", mu=1, bounds=PUBLIC["bounds"], progress=False)
    pr.limit_spending(None)
    assert fit("y2 ~ x", other).privacy.release.number == 2
    assert pr.means.estimate(other, "y2", mu=1, bounds=PUBLIC["bounds"], progress=False).privacy.release.number == 3


@pytest.mark.parametrize("way", ["view", "endog", "Series", "offset"])
def test_arrays_are_known_by_their_memory(way, limited):
    x, y1, y2 = columns().values()
    both = np.column_stack([x, y1, y2])
    first, second, more = {
        "view": ((both[:, 1], both[:, :1]), (both[50:, 2], both[50:, :1].copy()), {}),
        "endog": ((y1, x), (y1[::-1], x.copy()), {}),
        "Series": ((pd.Series(y1, copy=False), x), (y1, x.copy()), {}),
        "offset": ((y1, x), (y1.copy(), x.copy()), {"offset": x}),
    }[way]

    def array_fit(endog, exog, **given):
        bounds = {"y": (-2, 2), "x1": (-1, 1)} | ({"offset": (-1, 1)} if given else {})
        more = {"exog_names": ["x1"], "endog_name": "y", "bounds": bounds, "mu": 1}
        return pr.PrivateOnlineRegression(endog, exog, **more, **given).fit(progress=False)

    assert array_fit(*first).privacy.release.number == 1
    with pytest.raises(BudgetError, match="release 2"):
        array_fit(*second, **more)


def other_rows(tmp_path):
    data = frame()
    return data.iloc[:300], data.iloc[300:]


def every_second_row(tmp_path):
    data = frame()
    data["z"] = np.arange(N)  # memory of its own
    return data.iloc[::2], data.iloc[1::2]


def copied(tmp_path):
    data = frame()
    return data, data.copy()


def another_query(tmp_path):
    connection = connected("sqlite")
    return pr.sql("SELECT * FROM t WHERE x > 0", connection), pr.sql("SELECT * FROM t WHERE x <= 0", connection)


def other_parameters(tmp_path):
    connection = connected("duckdb")
    return (pr.sql("SELECT * FROM t WHERE x > ?", connection, [at]) for at in (0.1, 0.2))


def other_selects(tmp_path):
    engine = sa.create_engine(f"sqlite:///{tmp_path / 'people.db'}")
    frame().to_sql("t", engine, index=False)
    t = sa.table("t", *(sa.column(c) for c in COLUMNS))
    return pr.sql(sa.select(t).where(t.c.x > 0.5), engine), pr.sql(sa.select(t).where(t.c.x < -0.5), engine)


def another_connection(tmp_path):
    return pr.sql("SELECT * FROM t", connected("sqlite")), pr.sql("SELECT * FROM t", connected("sqlite"))


def another_file(tmp_path):
    for k in range(2):
        frame().to_csv(tmp_path / f"{k}.csv", index=False)
    return tmp_path / "0.csv", tmp_path / "1.csv"


OTHERS = [
    other_rows,
    every_second_row,
    copied,
    another_query,
    other_parameters,
    other_selects,
    another_connection,
    another_file,
]


@pytest.mark.some(4)
@pytest.mark.parametrize("pair", OTHERS, ids=lambda f: f.__name__)
def test_other_people_have_accounts_of_their_own(pair, tmp_path, limited):
    one, other = pair(tmp_path)
    assert fit("y1 ~ x", one).privacy.release.number == 1
    assert fit("y1 ~ x", other).privacy.release.number == 1


def test_parts_of_arrays_add_up_where_they_may_have_a_row_in_common():
    matrix = np.ones((20, 3))
    flat = np.arange(60.0)
    cases = [
        (matrix[:10], matrix[10:], False),
        (matrix[:11], matrix[10:], True),
        (matrix[::2], matrix[1::2], False),
        (matrix[::2], matrix[::3], True),
        (matrix[::-2], matrix[::2], False),
        (matrix[:, 0], matrix[:, 1], True),
        (matrix[5:, 0], matrix[:5, 1], False),
        (matrix[5], matrix[6], True),  # rows of it, or columns of its transpose
        (matrix.reshape(-1)[:30], matrix[15:], True),  # not sure
        (np.asfortranarray(matrix)[:, 0], matrix, False),  # a copy
        (matrix.T[:, :4].T, matrix[4:8], False),
        (flat[:10], flat[10:], False),
        (flat[::2], flat[1::2], True),  # every second, or the columns of a matrix
        (flat.reshape(20, 3)[:, 0], flat.reshape(20, 3)[:, 1], True),
        (flat.reshape(20, 3)[:10], flat.reshape(20, 3)[10:], False),
        (np.broadcast_to(flat[:1], 60), flat, True),
        (flat[:0], flat, False),
        (flat[3:4], flat, True),
        (flat.view("i4")[:60], flat[30:], False),
        (flat.view("i4")[:61], flat[30:], True),
    ]
    fortran = np.asfortranarray(np.ones((20, 3)))
    cases += [(fortran[:, 0], fortran[:, 1], True), (fortran[:9], fortran[9:], False)]
    table = np.ones(20, dtype=[("a", float), ("b", float)])
    cases += [(table["a"], table["b"], True), (table["a"][:9], table["b"][9:], False)]
    for k, (one, other, common) in enumerate(cases):
        for first, second in ((one, other), (other, one)):
            ledger = Ledger()
            ledger.spend(first, 1.0)
            assert ledger.spent(second) == common, k
            assert ledger.spent(first) == float(first.size > 0), k
            assert ledger.spend(second, 1.0).number == 1 + common, k


def test_rows_are_charged_for_what_they_were_in():
    rng = np.random.default_rng(0)
    for steps in ((1,), (1, 7), (2, 3, 4)):
        ledger, matrix, costs = Ledger(), np.ones((60, 2)), np.zeros(60)
        for _ in range(40):
            a, step = rng.integers(50), rng.choice(steps)
            part = slice(a, a + rng.integers(1, 30), step)
            mu = rng.uniform(0.5, 2)
            told = costs[part].max() + mu**2
            release = ledger.spend(matrix[part], mu)
            assert release.total_mu**2 >= told * (1 - 1e-12)
            costs[part] += mu**2
            if steps == (1,):
                assert release.total_mu**2 == pytest.approx(told)
    ledger = Ledger()
    for k in range(30):
        ledger.spend(matrix[k::30], 1.0)
    ledger.spend(matrix[k::30], 1.0)
    assert ledger.spend(matrix, 1.0).number == 3
    assert [ledger.spent(matrix[k::30]) ** 2 for k in (0, 29)] == pytest.approx([2, 3])


def test_who_comes_twice_in_a_list_is_charged_twice():
    data, ledger = frame(), Ledger(limit=1.2)
    with pytest.raises(BudgetError, match=r"would cost 1.415-GDP"):
        ledger.spend([data, data], 1.0)
    assert ledger.spent(data) == 0.0
    assert ledger.spend([data.iloc[:300], data.iloc[300:]], 1.0).number == 1
    assert Ledger().spend([data, data], 1.0).total_mu == pytest.approx(math.sqrt(2))


def test_what_cannot_be_followed_is_not_counted_and_refused_under_a_limit(limited):
    lists = {name: values.tolist() for name, values in columns().items()}
    for data in (lists, [lists], [frame(), lists], (part for part in [frame()])):
        with pytest.raises(BudgetError, match="nor have plain lists"):
            fit("y1 ~ x", data)
    pr.limit_spending(None)
    assert fit("y1 ~ x", lists).privacy.release.number == 0
    assert "not counted: a stream, or plain lists" in str(fit("y1 ~ x", lists).privacy.release)
    mixed = {**lists, "x": np.asarray(lists["x"])}
    assert [fit(f"{y} ~ x", dict(mixed)).privacy.release.number for y in ("y1", "y2")] == [1, 2]


def test_small_and_shared_values_are_no_accounts():
    for value in (7, "word", b"word", None, True, 2.5, [1, 2], (), dict, Schema):
        assert accounts_of({"a": value}).entries == ()
        assert not accounts_of([value]).whole
    kept = UserDict({"a": [1, 2]})  # which can be watched itself
    assert len(accounts_of(kept).entries) == 1
    assert not accounts_of(iter([frame()])).now() or accounts_of(iter([frame()])).whole


def test_columns_of_a_mapping_that_is_not_read_whole_are_not_asked_for():
    class Lazy(UserDict):
        def __getitem__(self, name):
            assert name in {"x", "y1"}
            return super().__getitem__(name)

    data = Lazy(columns())
    assert fit("y1 ~ x", data).privacy.release.number == 1
    assert fit("y1 ~ x", data).privacy.release.number == 2


def test_accounts_go_with_their_objects_and_keep_nothing_alive():
    ledger = Ledger()
    kept = open_table(data := {**columns(), "more": np.ones(N)}, ("x",), Schema.declare({"x": (-1, 1)}, None, None))
    ledger.spend(kept.identity, 1.0)
    gone = [weakref.ref(data["more"]), weakref.ref(data["x"])]
    assert repr(ledger) == "<Ledger: 4 sources, no limit>"
    del data
    gc.collect()
    assert [ref() is None for ref in gone] == [True, False]
    assert repr(ledger) == "<Ledger: 1 source, no limit>"
    assert ledger.spend(kept.identity, 1.0).number == 2
    del kept
    gc.collect()
    assert repr(ledger) == "<Ledger: 0 sources, no limit>"
    for _ in range(50):  # numbers of gone objects come again, their accounts don't
        assert ledger.spend(frame(8), 1.0).number == 1
        assert ledger.spend(np.ones(8), 1.0).number == 1
        connection = sqlite3.connect(":memory:")
        assert ledger.spend(pr.sql("SELECT 1 AS x", connection), 1.0).number == 1
        connection.close()
    data = frame()
    view = data.iloc[:300]
    ledger.spend(data, 1.0)
    assert repr(ledger) == "<Ledger: 1 source, no limit>"
    del data
    gc.collect()
    assert ledger.spent(view) == 1.0  # their memory is still there


def test_an_sqlite_connection_that_cannot_be_asked_counts_by_the_query():
    connection = connected("sqlite")
    data = pr.sql("SELECT * FROM t", connection)
    connection.close()
    ledger = Ledger()
    assert [ledger.spend(data, 1.0).number for _ in range(2)] == [1, 2]
    with pytest.raises(BudgetError, match="no source to count by"):
        Ledger(limit=3).spend(data, 1.0)


def test_addresses_and_parameters_are_kept_as_digests_only():
    data = pr.sql("SELECT * FROM t WHERE name = :who", "sqlite://user:word@host/db", {"who": "Mary"})
    assert not any(text in repr(accounts_of(data)) for text in ("Mary", "word", "name"))


def test_another_file_in_the_place_of_one_is_charged_too(tmp_path):
    path, new = tmp_path / "people.csv", tmp_path / "new.csv"
    for p in (path, new):
        frame().to_csv(p, index=False)
    model = pr.PrivateOnlineRegression.from_formula("y1 ~ x", path, **PUBLIC)
    kept = path.with_name("kept.csv")
    path.rename(kept)
    new.rename(path)
    assert model.fit(progress=False).privacy.release.number == 1
    for p in (path, kept):
        assert LEDGER.spent(of_files([p])) == 1.0
    path.unlink()
    assert LEDGER.spent(of_files([path])) == 0.0


def test_a_file_system_without_inodes_is_known_by_names(tmp_path, monkeypatch):
    path = tmp_path / "people.csv"
    frame().to_csv(path, index=False)
    real = os.stat_result

    def stat(self, **how):
        found = os.stat(self, **how)
        return real((found.st_mode, 0, *found[2:]))

    monkeypatch.setattr(type(path), "stat", stat)
    ledger = Ledger()
    ledger.spend(of_files([path]), 1.0)
    link = tmp_path / "link.csv"
    link.symlink_to(path)
    assert ledger.spent(of_files([link])) == 1.0


def test_a_view_of_fitted_rows_is_not_public():
    data = frame()
    res = fit("y1 ~ x", data)
    for rows in (data, data.iloc[10:20], data[["x", "y1"]]):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            res.marginal_effects(at=rows)
    x, y, _ = columns().values()
    bounds = {"y": (-1, 1), "x1": (-1, 1)}
    arrays = pr.PrivateOnlineRegression(y, x, bounds=bounds, mu=1).fit(progress=False)
    for rows in (x, x[5:], x[:, None]):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            arrays.marginal_effects(at=rows)
    with pytest.raises(NotPrivateError, match="fitted privately"):
        pr.means.benchmark(y[:50], n=1000, bounds=(-1, 1), epsilon=1)


def test_silos_are_other_people_unless_they_are_the_same():
    data = frame()
    data["y1"] = (data["y1"] > 0).astype(float)
    public = {"mu": 1, "bounds": {"x": (-1, 1)}}

    def silos(parts):
        return pr.federated.FederatedRegression.from_formula("y1 ~ x", parts, **public)

    parts = [data.iloc[k::3] for k in range(3)]
    assert silos(parts).fit(progress=False).privacy.release.number == 1
    assert silos(parts[1:]).fit(progress=False).privacy.release.number == 2
    assert fit("y2 ~ x", data).privacy.release.number == 3
    same = {"x": data["x"].to_numpy(), "y1": data["y1"].to_numpy()}
    for twice in ([parts[0], parts[0]], [same, dict(same)]):
        with pytest.raises(DataError, match="the same data are given for two silos"):
            silos(twice)
