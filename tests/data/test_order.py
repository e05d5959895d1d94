"""Rows that can be addressed are read in random order, each once, and at any time the whole table has been sampled."""

import tracemalloc
import weakref
from functools import partial

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privreg.data.cells as rows
import privreg.data.sources.source as order_of
from privreg.data import columns
from privreg.data.cells import taken
from privreg.data.sources import files, source
from privreg.data.sources.open import CHUNK, open_arrays, open_table, rows_of
from privreg.data.sources.source import BLOCKS, LONGEST, STRATA, dealt_rows, held_rows, spread
from privreg.errors import SchemaError
from privreg.schema.declarations import Schema

KEY, OTHER = b"k" * 32, b"o" * 32
N = 50_000
SCHEMA = Schema.declare({"at": (0, N), "y": (0, 1)}, {"f": ["a", "b"]}, {})
COLUMNS = ("at", "y", "f", "id")


def order(rows, key=KEY, skip=0, columns=1, end=None):
    return np.concatenate([np.zeros(0, dtype=np.int64), *dealt_rows(rows, key, skip, columns, end)])


@pytest.mark.some(5)
@pytest.mark.parametrize("rows", [0, 1, 2, 255, 256, 257, 1_000, 16_383, 16_385, 40_000, 300_001])
def test_every_row_comes_once_in_an_order_that_does_not_depend_on_how_it_is_cut(rows):
    whole = order(rows)
    np.testing.assert_array_equal(np.sort(whole), np.arange(rows))
    for skip in {0, 1, rows // 3, max(rows - 1, 0), rows}:
        np.testing.assert_array_equal(order(rows, skip=skip, columns=500), whole[skip:])
        for end in {skip, skip + 1, (rows + skip) // 2}:
            np.testing.assert_array_equal(order(rows, skip=skip, end=end), whole[skip:end])
    assert max(map(len, dealt_rows(rows, KEY)), default=0) <= CHUNK
    assert max(map(len, dealt_rows(rows, KEY, 0, 500)), default=0) <= 2_100


def test_the_order_follows_from_the_key_alone():
    np.testing.assert_array_equal(order(5_000), order(5_000))
    np.testing.assert_array_equal(order(5_000, None), order(5_000, None))
    for one, two in ((KEY, OTHER), (KEY, None)):
        assert (order(5_000, one) != order(5_000, two)).mean() > 0.99


@pytest.mark.parametrize(("many", "whole"), [(300, 1), (40_000, 1), (200_001, 3)])
def test_columns_are_taken_together_whatever_the_order(many, whole):
    frame = pd.DataFrame({"a": np.arange(many) / 7.0, "b": np.arange(many) - 0.5})
    held = {name: np.asarray(frame[name]) for name in frame}  # which pandas makes read-only
    runs = 0
    for at in [*dealt_rows(many, KEY), *dealt_rows(many, KEY, many // 3), np.zeros(0, dtype=np.int64), np.arange(100)]:
        names, out = rows.Taken(held, at).doubles(frame)
        assert names == ["a", "b"]
        np.testing.assert_array_equal(out, [held["a"][at], held["b"][at]])
        runs += rows._in_turn(at) is not None
    assert runs >= whole


def test_rows_of_an_array_come_by_column():
    values = np.arange(30_000.0).reshape(-1, 3)
    for given in (values, values.astype(np.int64), np.asfortranarray(values)):
        for at in (order(10_000), np.zeros(0, dtype=np.int64)):
            np.testing.assert_array_equal(taken(given, at), given[at])
    assert taken(values, order(10_000)).T.flags.c_contiguous


@pytest.mark.parametrize("rows", [40_000, 1_000_000])
def test_any_stretch_of_the_order_covers_the_table_evenly(rows):
    block = min(rows // BLOCKS, LONGEST)
    edges = np.arange(0, STRATA + 1, STRATA // 16) * -(-rows // block) // STRATA * block / rows
    at = order(rows) / rows
    for long in (2_000, 20_000):
        for a in range(0, min(rows, 200_000) - long, long):
            # only at both ends is a turn of 256 strata cut: a sum of sd √(2 · 64/12) at most; of rows drawn one by one
            # it is √(2000/12)
            assert abs(at[a : a + long].mean() - 0.5) < 4.5 * np.sqrt(2 * 64 / 12) / long
            shares = np.histogram(at[a : a + long], edges)[0] / long
            assert np.abs(shares - 1 / 16).max() < 4.5 * np.sqrt(2 * 64 * 15 / 16**2) / long
    # and so do a few consecutive rows, which are one group's
    few = at[: 16 * 1_000].reshape(1_000, 16).mean(axis=1)
    assert few.std() < 1.1 / np.sqrt(12 * 16)


def test_orders_that_spread_are_permutations_of_which_each_run_lies_everywhere():
    found = spread(KEY, 5, 64)
    assert len({row.tobytes() for row in found}) == 5
    for row in found:
        for run in row.reshape(8, 8):
            assert sorted(run // 8) == list(range(8))
    for count in (0, 1, 3, 37):
        assert [sorted(row) for row in spread(KEY, 3, count).tolist()] == [list(range(count))] * 3
    assert spread(KEY, 0, -1).shape == (0, 0)


def test_each_block_is_as_likely_to_come_first():
    first = [int(spread(bytes([k]) * 32, 1, 8)[0, 0]) for k in range(240)]
    assert np.abs(np.bincount(first, minlength=8) - 30).max() < 4.5 * np.sqrt(30 * 7 / 8)


# --- sources -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def table():
    at = np.arange(N)
    return pd.DataFrame({"at": at, "y": at / N, "f": np.where(at % 3 == 0, "a", "b"), "id": at * 7})


def opened(kind, table, folder):
    if kind == "arrays":
        exog = table[["at", "id"]].to_numpy(dtype=float)
        return open_arrays((table["y"].to_numpy(), exog, exog[:, 0] * 2, None))
    arrow = pa.Table.from_pandas(table)
    made = {
        "frame": lambda: table,
        "frame of codes": lambda: table.astype({"f": "category", "id": "Int64"}),
        "mapping": lambda: dict(table.items()),
        "arrow": lambda: arrow,
        "arrow in chunks": lambda: pa.concat_tables([arrow.slice(a, 7_000) for a in range(0, N, 7_000)]),
        "arrow batch": lambda: arrow.to_batches()[0],
        "polars": lambda: pl.from_pandas(table),
    }
    return open_table(made[kind](), COLUMNS, SCHEMA)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "kind", ["arrays", "frame", "frame of codes", "mapping", "arrow", "arrow in chunks", "arrow batch", "polars"]
)
def test_rows_stay_together_and_come_in_the_order_of_the_key(kind, table, tmp_path):
    source = opened(kind, table, tmp_path)
    expected = order(N)
    batches = list(source.dealt(KEY)(0))
    assert max(map(rows_of, batches)) <= CHUNK
    if kind == "arrays":
        y, exog, offset, _ = (np.concatenate(c) if c[0] is not None else None for c in zip(*batches, strict=True))
        np.testing.assert_array_equal(exog[:, 0], expected)
        np.testing.assert_array_equal(exog[:, 1], expected * 7)
        np.testing.assert_array_equal(y, expected / N)
        np.testing.assert_array_equal(offset, expected * 2)
        return
    rows = pd.concat([pd.DataFrame({c: pd.Series(b[c]).reset_index(drop=True) for c in COLUMNS}) for b in batches])
    np.testing.assert_array_equal(rows["at"], expected)
    np.testing.assert_array_equal(rows["y"], expected / N)
    np.testing.assert_array_equal(rows["id"].astype(np.int64), expected * 7)
    assert (rows["f"].astype(str).to_numpy() == np.where(expected % 3 == 0, "a", "b")).all()
    late = next(iter(source.dealt(KEY)(30_000)))["at"]
    np.testing.assert_array_equal(late, expected[30_000 : 30_000 + len(late)])


def test_columns_that_do_not_lie_together_are_not_copied_whole():
    values = np.arange(4.0 * N).reshape(N, 4)
    at = np.array([3, 0, N - 1])
    for some in (values[:, 1], values[:, 1].copy(), np.asfortranarray(values), values, pd.array(values[:, 1])):
        np.testing.assert_array_equal(taken(some, at), some[at])
    tracemalloc.start()
    try:
        for some in (values[:, 1], np.asfortranarray(values)[::2]):
            tracemalloc.reset_peak()
            before = tracemalloc.get_traced_memory()[0]
            taken(some, at[:2])
            assert tracemalloc.get_traced_memory()[1] - before < 8 * N / 2
    finally:
        tracemalloc.stop()


def test_a_column_is_taken_when_it_is_asked_for_and_not_before(monkeypatch):
    asked = []
    monkeypatch.setattr(rows, "taken", lambda values, at: (asked.append(len(at)), values.take(at))[1])
    (batch,) = open_table({"at": np.arange(9.0), "y": np.ones(9)}, ("at", "y"), SCHEMA).dealt(KEY)(0)
    assert rows_of(batch) == 9
    assert list(batch) == ["at", "y"]
    assert "at" in batch
    assert "f" not in batch
    assert [rows_of(part) for part in source.pieces([batch], 4)] == [4, 4, 1]
    assert asked == []
    np.testing.assert_array_equal(batch["at"], order(9))
    assert asked == [9]


def pieces_of(table, tmp_path):
    """A folder of two files with row groups of two sizes; its rows in 61 pieces."""
    for i, size in enumerate((1_000, 700)):
        half = table.iloc[i * N // 2 : (i + 1) * N // 2]
        pq.write_table(pa.Table.from_pandas(half, preserve_index=False), tmp_path / f"{i}.parquet", row_group_size=size)
    return open_table(tmp_path, COLUMNS, SCHEMA)


def places(source, skip=0, key=KEY):
    return np.concatenate([b["at"] for b in source.dealt(key)(skip)] or [np.zeros(0)])


@pytest.mark.thorough
def test_rows_of_pieces_that_can_be_held_are_dealt_as_those_of_a_table(table, tmp_path):
    source = pieces_of(table, tmp_path)
    assert sum(source.blocks) == N
    assert set(source.blocks[:25]) == {1_000}
    np.testing.assert_array_equal(places(source), order(N))
    for skip in (1, 999, 12_345, N - 1, N):
        np.testing.assert_array_equal(places(source, skip), order(N)[skip:])


def test_pieces_that_cannot_be_held_together_come_at_random_each_once_from_any_row_on(table, tmp_path, monkeypatch):
    monkeypatch.setattr(order_of, "CHUNK", 1_000)
    monkeypatch.setattr(order_of, "HELD", 10_000 * len(COLUMNS))
    source = pieces_of(table, tmp_path)
    whole = places(source)
    np.testing.assert_array_equal(np.sort(whole), np.arange(N))
    starts = np.cumsum([0, *source.blocks])[:-1]
    for a in range(0, N, 10_000):  # rows of pieces that lie everywhere, in random order
        held = np.unique(np.searchsorted(starts, whole[a : a + 10_000], side="right") - 1)
        assert 10 <= len(held) <= 16
        assert np.diff(held).max() < len(starts) / 3
        assert (np.diff(whole[a : a + 10_000]) == 1).mean() < 0.5
    for skip in (1, 999, 9_999, 10_000, 12_345, N - 1, N):
        np.testing.assert_array_equal(places(source, skip), whole[skip:])
    assert (places(source, key=OTHER) != whole).mean() > 0.9
    # what is in the rows has no part in it
    other = tmp_path / "other"
    other.mkdir()
    np.testing.assert_array_equal(places(pieces_of(table.assign(y=0.5, f="a"), other)), whole)


def test_each_piece_is_read_once(table, monkeypatch):
    read = []

    def batches(k, skip):
        read.append(k)
        yield {c: table[c].to_numpy()[5_000 * k + skip : 5_000 * (k + 1)] for c in COLUMNS}

    monkeypatch.setattr(order_of, "CHUNK", 1_000)
    monkeypatch.setattr(order_of, "HELD", 7_000 * len(COLUMNS))
    pieces = [order_of.Piece(5_000, partial(batches, k)) for k in range(N // 5_000)]
    dealt = order_of.dealt_pieces(lambda: pieces, source.Wanted(COLUMNS, SCHEMA))(KEY)(0)
    np.testing.assert_array_equal(np.sort(np.concatenate([batch["at"] for batch in dealt])), np.arange(N))
    assert sorted(read) == list(range(len(pieces)))


def test_cells_are_what_they_were_when_rows_are_dealt(tmp_path):
    ids, days = [2**53 + 1, 7.0, "7", None, 3], ["2020-01-01", None, 5, "x", 1.5]
    frame = pd.DataFrame(
        {
            "id": pd.Series(ids, dtype=object),
            "at": pd.Series(days, dtype=object),
            "y": pd.Series([True, "0.5", None, np.inf, "x"], dtype=object),
            "f": pd.Series(["a", "z", None, "b", 3], dtype=object),
        }
    )
    schema = Schema.declare({"at": ("2000-01-01", "2030-01-01"), "y": (0, 1)}, {"f": ["a", "b"]}, {})

    def seen(source):
        rows = []
        for batch in source.dealt(KEY)(0):
            read = columns.prepare(batch, ("at", "y", "f"), schema, (), gaps=True)
            rows += zip(*(map(str, read[c]) for c in ("at", "y", "f")), map(str, batch["id"]), strict=True)
        return rows

    whole = seen(open_table(frame, COLUMNS, schema, text=("id",)))
    assert seen(open_table([frame.iloc[:2], frame.iloc[2:]], COLUMNS, schema, text=("id",))) == whole
    undeclared = next(open_table([frame.iloc[1:2]], ("f",), schema).dealt(KEY)(0))
    with pytest.raises(SchemaError, match="not among its declared levels"):
        columns.prepare(undeclared, ("f",), schema, ())


@pytest.mark.thorough
def test_streams_queries_and_a_single_file_of_lines_go_by_position(table, tmp_path):
    table.to_csv(tmp_path / "rows.csv", index=False)
    for data in (tmp_path / "rows.csv", iter([table]), pa.Table.from_pandas(table).to_reader()):
        assert open_table(data, COLUMNS, SCHEMA).dealt is None
    lazy = open_table(pl.from_pandas(table).lazy(), COLUMNS, SCHEMA)
    assert lazy.mixed == held_rows(len(COLUMNS)) >= N
    np.testing.assert_array_equal(places(lazy), order(N))


def test_columns_that_can_be_sliced_only_go_by_position():
    class Sliced:
        dtype, ndim = np.dtype(object), 1

        def __len__(self):
            return 10

        def __getitem__(self, at):
            assert isinstance(at, slice)
            return np.zeros(10)[at]

    held = {"y": np.zeros(10), "at": Sliced()}
    assert open_table(held, ("y", "at"), SCHEMA).dealt is None


@pytest.mark.thorough
def test_memory_is_that_of_few_batches_however_long_the_table_is():
    n, p = 2_000_000, 8
    source = open_arrays((np.zeros(n), np.zeros((n, p)), None, None))
    tracemalloc.start()
    try:
        assert sum(rows_of(batch) for batch in source.dealt(KEY)(0)) == n
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 3 * 8 * CHUNK * (p + 1)


def test_few_files_are_open_at_a_time(tmp_path, monkeypatch):
    paths = [tmp_path / f"{k}.parquet" for k in range(8)]
    for k, path in enumerate(paths):
        part = pd.DataFrame({"at": np.arange(100.0) + 100 * k, "y": 0.5, "f": "a", "id": "x"})
        part.to_parquet(path, row_group_size=20)
    before, held, most = files._open, [], []

    def opened(*args):
        made = before(*args)
        held.append(weakref.ref(made))
        most.append(sum(one() is not None for one in held))
        return made

    monkeypatch.setattr(files, "_open", opened)
    source = open_table(paths, COLUMNS, SCHEMA)
    at = np.concatenate([np.asarray(batch["at"]) for batch in source.dealt(KEY)(0)])
    np.testing.assert_array_equal(np.sort(at), np.arange(800.0))
    assert max(most) == 2  # one, and the next one while it is opened
    assert len(held) >= 8
    assert all(one() is None for one in held)
