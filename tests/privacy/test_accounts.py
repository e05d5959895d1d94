"""One object is one account: the ledger knows the same people again, and doesn't take others for them."""

import gc
import math
import os
import weakref
from array import array
from collections import UserDict
from mmap import ACCESS_READ, mmap

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sqlalchemy as sa
from numpy.lib.stride_tricks import as_strided

import privreg as pr
from privreg.data.sources.open import open_table
from privreg.errors import BudgetError, DataError, NotPrivateError
from privreg.privacy.accounts import accounts_of, named, of_files
from privreg.privacy.ledger import LEDGER, Ledger
from privreg.schema.declarations import Schema
from tests.databases import duck, engine, sqlite

N = 600
PUBLIC = {"mu": 1, "bounds": {"x": (-1, 1), "y1": (-1, 1), "y2": (-1, 1)}}
COLUMNS = ("x", "y1", "y2")
COPIES = int(pd.__version__.partition(".")[0]) < 3  # chosen columns, and those of `assign`


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


def file_alone_and_in_a_list(tmp_path):
    paths = [tmp_path / f"{k}.parquet" for k in range(2)]
    for path in paths:
        frame().to_parquet(path)
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


SAME = [
    same_mapping,
    mappings_with_a_column_in_common,
    mapping_of_columns_of_a_frame,
    touched_file,
    moved_and_linked_file,
    files_in_another_order,
    folder_and_a_file_of_it,
    file_alone_and_in_a_list,
    view_of_a_frame,
    frames_that_overlap,
    pytest.param(some_columns_of_a_frame, marks=pytest.mark.skipif(COPIES, reason="pandas copied them")),
    frames_in_another_order,
    a_frame_of_a_list,
    mappings_in_lists,
    arrow_table,
    polars_frame,
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


def copied(tmp_path):
    data = frame()
    return data, data.copy()


def another_file(tmp_path):
    for k in range(2):
        frame().to_csv(tmp_path / f"{k}.csv", index=False)
    return tmp_path / "0.csv", tmp_path / "1.csv"


OTHERS = [
    copied,
    another_file,
]


@pytest.mark.some(4)
@pytest.mark.parametrize("pair", OTHERS, ids=lambda f: f.__name__)
def test_other_people_have_accounts_of_their_own(pair, tmp_path, limited):
    one, other = pair(tmp_path)
    assert fit("y1 ~ x", one).privacy.release.number == 1
    assert fit("y1 ~ x", other).privacy.release.number == 1


def test_all_views_of_a_buffer_are_the_same_people():
    matrix, flat = np.ones((20, 3)), np.arange(60.0)
    table = np.ones(20, dtype=[("a", float), ("b", float)])
    fortran = np.asfortranarray(np.ones((20, 3)))
    held, whole = bytearray(480), pa.py_buffer(bytes(480))
    same = [
        (matrix[:10], matrix[10:]),
        (matrix[::2], matrix[1::2]),
        (matrix[::-1], matrix[:, 0]),
        (matrix[5:, 0], matrix[:5, 1]),
        (matrix.reshape(-1)[:30], matrix[15:]),
        (matrix.T[:, :4].T, matrix[4:8]),
        (flat.reshape(20, 3)[:, 0], flat[7:8]),
        (np.broadcast_to(flat[:1], 60), flat),
        (flat.view("i4")[:60], flat[30:]),
        (fortran[:9, 0], fortran[9:, 1]),
        (table["a"][:9], table["b"][9:]),
        (as_strided(fortran[:, 0]), as_strided(fortran[:, 2])),
        (np.frombuffer(held, count=20), np.ndarray((20,), buffer=held, offset=320)),
        (memoryview(held).cast("d")[:20], np.frombuffer(memoryview(held), offset=320)),
        (pa.Array.from_buffers(pa.float64(), 9, [None, whole.slice(0, 72)]), np.frombuffer(whole, offset=72)),
        (pa.Array.from_buffers(pa.float64(), 9, [None, whole.slice(72)]), np.frombuffer(whole, count=9)),
    ]
    others = [(matrix, matrix.copy()), (np.asfortranarray(matrix)[:, 0], matrix), (np.ones(0), matrix)]
    for pairs, common in ((same, True), (others, False)):
        for k, pair in enumerate(pairs):
            for first, second in (pair, pair[::-1]):
                ledger = Ledger()
                ledger.spend(first, 1.0)
                assert ledger.spent(second) == common, k
                assert ledger.spend(second, 1.0).number == 1 + common, k


@pytest.mark.parametrize("kind", ["bytes", "bytearray", "array", "mmap", "memoryview"])
def test_a_buffer_is_known_after_its_view_has_gone(kind, tmp_path):
    path = tmp_path / "people.bin"
    path.write_bytes(bytes(480))
    with path.open("rb") as file:
        held = {
            "bytes": path.read_bytes,
            "bytearray": lambda: bytearray(480),
            "array": lambda: array("d", [0.0] * 60),
            "mmap": lambda: mmap(file.fileno(), 0, access=ACCESS_READ),
            "memoryview": lambda: memoryview(bytearray(480)),
        }[kind]()
    gc.freeze()  # so that of all that there is the collector looks at what is made here
    ledger = Ledger()
    for number in (1, 2, 3):  # each view is another object
        assert ledger.spend(np.frombuffer(held, count=30), 1.0).number == number
        gc.collect()
    if kind in {"array", "mmap"}:  # which tell when they go
        del held
        gc.collect()
        assert ledger.spent("nobody") == 0.0
        assert not ledger._spent


@pytest.mark.parametrize("kind", ["array", "frame", "arrow", "polars"])
def test_batches_of_one_release_are_other_people_unless_they_are_the_same_object(kind):
    data = {"array": np.ones((60, 2)), "frame": frame(60)}.get(kind)
    data = {"arrow": pa.table, "polars": pl.DataFrame}[kind](columns(60)) if data is None else data
    at = data if kind == "array" else getattr(data, "iloc", None)
    cut = data.slice if kind in {"arrow", "polars"} else lambda a, n: at[a : a + n]
    ledger, parts = Ledger(limit=1.2), [cut(k, 20) for k in (0, 20, 40)]
    assert [ledger.spend(part, 1.0, stream="one").number for part in parts] == [1, 1, 1]
    assert ledger.spent(data) == 1.0
    with pytest.raises(BudgetError, match="release 2"):
        ledger.spend(parts[0], 1.0, stream="one")
    with pytest.raises(BudgetError, match="release 2"):
        ledger.spend(cut(0, 20), 1.0, stream="two")


@pytest.mark.parametrize("kind", [*["frame"] * (not COPIES), "arrow", "polars", "mapping"])
def test_columns_that_were_in_one_table_are_the_same_people_from_then_on(kind):
    held = {**columns(60), "n": np.arange(60), "m": np.arange(60)}
    frame_of = {"frame": pd.DataFrame, "arrow": pa.table, "polars": pl.DataFrame, "mapping": dict}[kind]
    data = frame_of(held)

    def of(*names):
        if kind == "mapping":
            return {name: data[name] for name in names}
        return data.select(list(names)) if kind in {"arrow", "polars"} else data[list(names)]

    ledger, limited = Ledger(), Ledger(limit=1.5)
    for one in (ledger, limited):
        assert [one.spend(of(*names), 1.0).number for names in (["y1", "x"], ["n", "m"])] == [1, 1]
    assert ledger.spent(data) == pytest.approx(math.sqrt(2))
    with pytest.raises(BudgetError, match=r"release 3 from these data would cost 1.733-GDP"):
        limited.spend(data, 1.0)
    with pytest.raises(BudgetError, match="release 3"):
        limited.check(data, 1.0)
    assert ledger.spend(data, 1.0).number == 3
    assert ledger.spend(of("n"), 1.0).total_mu == 2.0
    assert ledger.spent(of("y1")) == 2.0
    assert limited.spend(frame_of({name: values.copy() for name, values in held.items()}), 1.0).number == 1


def _a_batch_of_people_who_were_asked_before(ledger, one, other):
    ledger.spend(other, 1.0)
    ledger.spend(named(one, "a survey"), 1.0, stream="one")
    return lambda: ledger.spend(named(other, "a survey"), 1.0, stream="one")


def _a_batch_that_has_columns_of_others_who_were(ledger, one, other):
    x, y = other["x"].to_numpy(), one["x"].to_numpy()
    ledger.spend(x, 1.0)
    ledger.spend(y[:300], 1.0, stream="one")
    return lambda: ledger.spend((y[300:], x[300:]), 1.0, stream="one")


def _a_batch_with_somebody_twice(ledger, one, other):
    ledger.spend(named(one, "a survey"), 1.0, stream="one")
    return lambda: ledger.spend(named([other, other], "a survey"), 1.0, stream="one")


def _rows_twice_in_a_later_batch(ledger, one, other):
    data = pl.DataFrame(columns())
    ledger.spend(data[:10], 1.0, stream="one")
    return lambda: ledger.spend(pl.concat([data[10:20]] * 2, rechunk=False), 1.0, stream="one")


def _tables_that_get_one_name(ledger, one, other):
    ledger.spend(one, 0.8)
    ledger.spend(other, 0.8)
    return lambda: ledger.spend(named([one, other], "a survey"), 0.8)


def _tables_of_a_list_that_share_a_column(ledger, one, other):
    x, y, z = (np.ones(N) for _ in range(3))
    ledger.spend(x, 0.8)
    ledger.spend(y, 0.8)
    return lambda: ledger.spend([{"x": x, "z": z[:300]}, {"z": z[300:], "y": y}], 0.8)


def _a_mapping_of_columns_of_arrow(ledger, one, other):
    data = pa.table(columns())
    ledger.spend({name: data[name] for name in ("x", "y1")}, 1.0)
    gc.collect()
    return lambda: ledger.spend({name: data[name] for name in ("x", "y1")}, 1.0)


@pytest.mark.parametrize(
    "again",
    [
        _a_batch_of_people_who_were_asked_before,
        _a_batch_that_has_columns_of_others_who_were,
        _a_batch_with_somebody_twice,
        _rows_twice_in_a_later_batch,
        _tables_that_get_one_name,
        _tables_of_a_list_that_share_a_column,
        _a_mapping_of_columns_of_arrow,
    ],
)
def test_a_limit_holds_for_people_whom_a_release_makes_the_same(again):
    ledger = Ledger(limit=1.2)
    spend = again(ledger, frame(), frame())
    before = repr(ledger)
    with pytest.raises(BudgetError, match=r"release [23] from these data would cost 1\.(415|386)-GDP"):
        spend()
    assert repr(ledger) == before
    ledger.limit = None
    assert spend().total_mu > 1.2


def test_a_mapping_that_is_no_dict_is_not_counted_nor_public():
    data, ledger = UserDict(columns()), Ledger()
    assert ledger.spend(data, 1.0).number == 0
    with pytest.raises(BudgetError, match="no source to count by"):
        Ledger(limit=2.0).spend(data, 1.0)
    held = {"x": np.linspace(-1, 1, N), "y1": np.linspace(-1, 1, N)}
    res = fit("y1 ~ x", held)
    for other in (held, UserDict(held)):
        with pytest.raises(NotPrivateError):
            res.get_prediction(other)


def test_rows_beside_others_without_noise_are_not_public():
    data = frame()
    bare = pr.PrivateOnlineRegression.from_formula("y1 ~ x", data[:300], **{**PUBLIC, "mu": None}).fit(progress=False)
    res = fit("y1 ~ x", data)
    for rows in (data[300:], data[200:400], data):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            res.get_prediction(rows)
    for one in (bare, res):  # of these nothing is private any more
        assert len(one.get_prediction(data[:300]).summary_frame()) == 300


@pytest.mark.parametrize("mu", [math.nan, -1.0])
def test_a_cost_that_is_no_number_is_refused(mu):
    ledger = Ledger()
    with pytest.raises(BudgetError, match="a positive number"):
        ledger.spend(np.ones(9), mu)
    assert ledger.spend(bytearray(80), 1.0, seeded=True).number == 1
    assert ledger.spend({"x": bytearray(80)}, 1.0).number == 1


def test_tables_that_were_in_one_list_are_other_people_still():
    one, other, ledger = frame(), frame(), Ledger()
    for data in (one, other, [one, other], one):
        last = ledger.spend(data, 1.0)
    assert last.number == 3
    assert ledger.spent(other) == ledger.spent([other]) == pytest.approx(math.sqrt(2))


def test_people_who_got_a_name_had_what_was_spent_on_their_table_before():
    data, ledger = frame(), Ledger()
    ledger.spend(data, 1.0)
    assert ledger.spend(named(data, "a survey"), 1.0).number == 2
    assert ledger.spend(named(frame(), "a survey"), 1.0).number == 3
    assert ledger.spent(data) == pytest.approx(math.sqrt(3))
    pooled = ledger.spend(named(frame(), ["a survey", "another"]), 1.0)
    assert pooled.number == 4
    assert ledger.spent(named(None, "another")) == 1.0


def test_a_batch_in_memory_that_had_another_before_counts_once():
    ledger = Ledger()
    for _ in range(5):
        ledger.spend(named(frame(60), "a survey"), 1.0, stream="one")
    assert ledger.spent(named(None, "a survey")) == 1.0


def test_who_comes_twice_in_a_list_is_charged_twice():
    data, ledger = frame(), Ledger(limit=1.2)
    with pytest.raises(BudgetError, match=r"would cost 1.415-GDP"):
        ledger.spend([data, data], 1.0)
    assert ledger.spent(data) == 0.0
    assert Ledger().spend([data.iloc[:300], data.iloc[300:]], 1.0).number == 1
    assert Ledger().spend([data.iloc[:301], data.iloc[300:]], 1.0).total_mu == pytest.approx(math.sqrt(2))
    assert Ledger().spend([data, data.iloc[:9]], 1.0).total_mu == pytest.approx(math.sqrt(2))
    held, words = pl.DataFrame(columns()), pd.DataFrame({"word": ["one", "other"] * 300})
    assert Ledger().spend([held[:9], held[9:]], 1.0).number == 1
    assert Ledger().spend([words[:9].copy(), words[9:].copy()], 1.0).number == 1  # texts of pandas are not copied
    for k in (0, 5):
        assert Ledger().spend([held, held.slice(k, 9)], 1.0).total_mu == pytest.approx(math.sqrt(2))
    assert Ledger().spend([data, data], 1.0).total_mu == pytest.approx(math.sqrt(2))


def test_what_cannot_be_followed_is_not_counted_and_refused_under_a_limit(limited):
    lists = {name: values.tolist() for name, values in columns().items()}
    for data in (lists, [lists], [frame(), lists], (part for part in [frame()])):
        with pytest.raises(BudgetError, match="nor have plain lists"):
            fit("y1 ~ x", data)
    pr.limit_spending(None)
    assert fit("y1 ~ x", lists).privacy.release.number == 0
    assert "not counted: streams, queries and plain lists" in str(fit("y1 ~ x", lists).privacy.release)
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
    assert len(ledger._spent) > 3
    del data
    gc.collect()
    assert [ref() is None for ref in gone] == [True, False]
    assert ledger.spend(kept.identity, 1.0).number == 2
    del kept
    gc.collect()
    assert ledger.spent("nobody") == 0.0
    assert not ledger._spent
    for _ in range(50):  # numbers of gone objects come again, their accounts don't
        assert ledger.spend(frame(8), 1.0).number == 1
        assert ledger.spend(np.ones(8), 1.0).number == 1
    data = frame()
    view = data.iloc[:300]
    ledger.spend(data, 1.0)
    del data
    gc.collect()
    assert ledger.spent(view) == 1.0  # their memory is still there


def queries(tmp_path):
    path = tmp_path / "people.db"
    alchemy, plain, base = engine(f"sqlite:///{path}"), sqlite(path), duck()
    frame().to_sql("t", alchemy, index=False)
    base.register("t", frame())
    table = sa.table("t", *(sa.column(c) for c in COLUMNS))
    return {
        "text": pr.sql("SELECT * FROM t", alchemy),
        "select": pr.sql(sa.select(table), alchemy),
        "address": pr.sql("SELECT * FROM t", f"sqlite:///{path}"),
        "connection": pr.sql("SELECT * FROM t WHERE x > ?", plain, (-2,)),
        "duckdb": pr.sql("SELECT * FROM t", base),
        "relation": base.table("t"),
        "lazy": pl.DataFrame(columns()).lazy(),
    }


@pytest.mark.parametrize("kind", ["text", "select", "address", "connection", "duckdb", "relation", "lazy"])
def test_a_query_is_counted_by_a_name_of_its_people_and_refused_under_a_limit_without_one(kind, tmp_path, limited):
    data, name = queries(tmp_path)[kind], f"people of {tmp_path}"

    def called(**how):
        model = pr.PrivateOnlineRegression.from_formula("y1 ~ x", data, rows=N, **PUBLIC, **how)
        return model.fit(tuning="published", progress=False).privacy.release

    with pytest.raises(BudgetError, match=r"no source to count by, .* name the people by dataset="):
        called()
    assert called(dataset=name).number == 1
    with pytest.raises(BudgetError, match="release 2"):
        called(dataset=name)
    pr.limit_spending(None)
    assert called().number == 2  # the object itself is known
    (tmp_path / "other").mkdir()
    data = queries(tmp_path / "other")[kind]
    assert str(called()).startswith("not counted: streams, queries and plain lists")


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
    for rows in (data, data.iloc[10:20], data.iloc[:, :2], *([] if COPIES else [data[["x", "y1"]]])):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            res.get_prediction(rows)
    x, y, _ = columns().values()
    bounds = {"y": (-1, 1), "x1": (-1, 1)}
    arrays = pr.PrivateOnlineRegression(y, x, bounds=bounds, mu=1).fit(progress=False)
    for rows in (x, x[5:], x[:, None]):
        with pytest.raises(NotPrivateError, match="fitted privately"):
            arrays.get_prediction(rows)
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
        with pytest.raises(DataError, match="silos 1 and 2 have rows in common"):
            silos(twice)


def bare(formula, data):
    made = pr.PrivateOnlineRegression.from_formula(formula, data, rows=N, **{**PUBLIC, "mu": None})
    return made.fit(tuning="published", progress=False)


@pytest.mark.parametrize("way", ["every second row", "by column", "another column"])
def test_rows_between_those_that_were_fitted_without_noise_are_not_public(way):
    data = frame()
    if way == "every second row":
        bare("y1 ~ x", data.iloc[::2])
        res, rows = fit("y1 ~ x", data.iloc[1::2]), data.iloc[1:-1:2]
    elif way == "by column":
        whole = np.asfortranarray(data.to_numpy())
        first, rest = (pd.DataFrame(part, columns=list(COLUMNS), copy=False) for part in (whole[:300], whole[300:]))
        bare("y1 ~ x", first)
        res, rows = fit("y1 ~ x", rest), rest.iloc[1:]
    else:
        bare("y1 ~ x", data)
        more = data.assign(z=np.linspace(0, 1, N))
        made = pr.PrivateOnlineRegression.from_formula("y1 ~ z", more, mu=1, bounds={"z": (0, 1), "y1": (-1, 1)})
        res, rows = made.fit(tuning="published", progress=False), more
    with pytest.raises(NotPrivateError, match="fitted privately"):
        res.get_prediction(rows)


class Column:
    """A sequence that shows others no memory."""

    def __init__(self, held):
        self.held = held

    def __len__(self):
        return len(self.held)

    def __getitem__(self, k):
        return self.held[k]

    def __iter__(self):
        return iter(self.held.tolist())


def test_sequences_whose_memory_nobody_sees_are_not_counted():
    x, y, _ = columns().values()
    assert not accounts_of(Column(x)).whole
    assert not accounts_of({"x": Column(x), "y1": Column(y)}).whole
    assert accounts_of({"x": Column(x), "y1": y}).whole  # of whom the array is


def test_silos_that_overlap_are_refused():
    data = frame()
    data["y1"] = (data["y1"] > 0).astype(float)
    for parts in ([data.iloc[:400], data.iloc[300:]], [data.iloc[:200], data.iloc[400:], data.iloc[100:300]]):
        with pytest.raises(DataError, match="have rows in common"):
            pr.federated.FederatedRegression.from_formula("y1 ~ x", parts, mu=1, bounds={"x": (-1, 1)})


def test_a_plan_keeps_the_name_of_its_people(limited):
    made = pr.PrivateOnlineRegression.from_formula("y1 ~ x", frame(), dataset="a planned survey", **PUBLIC)
    pr.simulate(made.plan(), frame())
    assert LEDGER.spent(named(None, "a planned survey")) == 1.0
    with pytest.raises(BudgetError, match="allows"):
        pr.simulate(made.plan(), frame())
