"""Rows at the edges of files, batches and groups of threads: none is lost, none is taken twice, none is misread."""

import os
import warnings
import zipfile
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.data.cells import coded_texts, unmasked
from privreg.data.columns import level_codes
from privreg.data.participants import _text
from privreg.data.sources.csv import _count_lines
from privreg.data.sources.open import CHUNK, open_arrays, open_table
from privreg.errors import DataError
from privreg.schema.declarations import Schema

NO_LEVELS = Schema.declare({}, {}, {})
OPTIONS = {"mu": 2, "bounds": {"x": (-4, 4), "y": (-9, 9)}, "rows": 2000}


def table(n=2000, seed=1):
    rng = np.random.default_rng(seed)
    x = rng.standard_normal(n).clip(-3.9, 3.9)
    return pd.DataFrame({"x": x, "y": 1.0 + x + 0.5 * rng.standard_normal(n)})


def model(data, **more):
    return pr.PrivateOnlineRegression.from_formula("y ~ x", data, **{**OPTIONS, **more})


def state(stream):
    """All that a stream holds, its noise included."""
    return {k: v.tobytes() for k, v in (stream._run.to_arrays() | stream._run.secrets()).items()}


def read(path, columns, schema=NO_LEVELS):
    return pd.concat(map(pd.DataFrame, open_table(path, columns, schema).batches(0)), ignore_index=True)


# --- batches -----------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
def test_empty_batches_change_nothing(threads):
    data = table()
    dealt = model(data).fit(seed=1, threads=threads).params
    whole = model(data).fit(seed=1, threads=threads, order="position").params
    none, parts = data.iloc[:0], [data.iloc[:700], data.iloc[700:701], data.iloc[701:]]
    batches = [none, parts[0], none, none, parts[1], parts[2], none]
    np.testing.assert_array_equal(model(batches).fit(seed=1, threads=threads).params, dealt)
    np.testing.assert_array_equal(model(iter(batches)).fit(seed=1, threads=threads).params, whole)
    stream = model(None).start(seed=1)
    for batch in batches:
        stream.update(batch)
    np.testing.assert_array_equal(stream.results().params, whole)


@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK + 5])
def test_every_part_of_an_array_model_is_cut_at_the_same_rows(n):
    y, x = np.arange(n, dtype=float), np.arange(2.0 * n).reshape(n, 2)
    offset, exposure = 1e6 + np.arange(n), 2e6 + np.arange(n)
    parts = list(open_arrays((y, x, offset, exposure)).batches(0))
    assert [len(p[0]) for p in parts] == [min(CHUNK, n - a) for a in range(0, n, CHUNK)]
    for k, whole in enumerate((y, x, offset, exposure)):
        np.testing.assert_array_equal(np.concatenate([p[k] for p in parts]), whole)
    assert all(p[2] is None and p[3] is None for p in open_arrays((y, x, None, None)).batches(0))


def test_an_offset_beyond_the_first_chunk_belongs_to_its_own_row():
    n = CHUNK + 3000
    rng = np.random.default_rng(5)
    x = np.column_stack([np.ones(n), rng.uniform(-1, 1, n)])
    offset = np.where(np.arange(n) < CHUNK, 0.0, 3.0) + rng.uniform(-1, 1, n)
    y = x @ [0.5, 1.0] + offset
    bounds = {"x": (-1, 1), "y": (-9, 9), "offset": (-1, 4)}
    given = pr.PrivateOnlineRegression(y, x, mu=None, exog_names=["const", "x"], offset=offset, bounds=bounds)
    np.testing.assert_allclose(given.fit().params, [0.5, 1.0], atol=0.02)


@pytest.mark.some(1)
@pytest.mark.parametrize("tuning", ["efficient", "published"])
@pytest.mark.parametrize("names", [["const", "x"], ["x", "const"]])
def test_an_offset_is_in_the_response_s_units(tuning, names):
    data = table()
    x = np.column_stack([np.ones(len(data)) if c == "const" else data[c] for c in names])
    offset = np.random.default_rng(2).uniform(-2, 2, len(data))
    family = pr.Huber(scale=0.5)
    options = {"mu": None, "exog_names": names, "family": family, "bounds": {**OPTIONS["bounds"], "offset": (-2, 2)}}
    y = data["y"].to_numpy()
    with_offset = pr.PrivateOnlineRegression(y + offset, x, offset=offset, **options).fit(tuning=tuning)
    del options["bounds"]["offset"]
    without = pr.PrivateOnlineRegression(y, x, **options).fit(tuning=tuning)
    np.testing.assert_allclose(with_offset.params, without.params, rtol=1e-9)


@pytest.mark.parametrize("names", [["const", "a", "b"], ["a", "const", "b"], ["b", "a", "const"], ["b", "a"]])
def test_start_params_go_by_name_and_by_place(names):
    n, guess = 3000, {"const": 0.5, "a": 1.0, "b": -2.0}
    rng = np.random.default_rng(3)
    columns = {"const": np.ones(n), "a": rng.uniform(-1, 1, n), "b": rng.uniform(0, 3, n)}
    x = np.column_stack([columns[c] for c in names])
    y = rng.uniform(-5, 5, n)
    bounds = {"a": (-1, 1), "b": (0, 3), "y": (-20, 30)}
    made = pr.PrivateOnlineRegression(y, x, mu=1, rows=n, exog_names=names, bounds=bounds)
    streams = [
        made.start(tuning="published", seed=1, batch_size=10, start_params=start)
        for start in ([guess[c] for c in names], {c: guess[c] for c in reversed(names)})
    ]
    for stream in streams:
        stream.update((y[:1], x[:1]))  # one of ten: nothing has moved yet
        begun = stream._spec.units.params_outside(stream._run.state.theta)
        np.testing.assert_allclose(begun, [guess[c] for c in names], rtol=1e-9, atol=1e-9)
    assert state(streams[0]) == state(streams[1])


# --- groups of threads -------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("bad", [0, 1, 3, 7])
def test_batches_before_a_refused_one_are_taken_whole_and_none_after_it(threads, bad):
    data = table()
    batches = [data.iloc[a : a + 200] for a in range(0, 2000, 200)]
    batches[bad] = batches[bad].assign(x="SECRET")
    stream = model(None, missing="raise").start(seed=1)
    with pytest.raises(DataError, match="'x' has a value that is missing, infinite or no number") as caught:
        for _ in stream._update_all(iter(batches), threads):
            pass
    assert "SECRET" not in str(caught.value)
    assert stream.nobs == 200 * bad
    other = model(None, missing="raise").start(seed=1)
    for batch in batches[:bad]:
        other.update(batch)
    assert state(stream) == state(other)
    # and the rest may come: neither a thread nor a lock is left behind
    assert stream._run.crew.threads == 1
    for batch in batches[bad + 1 :]:
        stream.update(batch)
        other.update(batch)
    assert stream.nobs == 1800
    assert state(stream) == state(other)


@pytest.mark.some(2)
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_batch_in_which_nothing_can_be_used_is_one_of_pure_noise(threads):
    data = table()
    batches = [data.iloc[a : a + 200] for a in range(0, 2000, 200)]
    seen = []
    for gap in ("SECRET", np.nan, np.inf, "\ud800", pd.Timestamp("2020-01-01")):
        cells = pd.Series([gap] * 200, index=batches[3].index, dtype=object)
        stream = model(None).start(seed=1)
        for _ in stream._update_all([*batches[:3], batches[3].assign(x=cells), *batches[4:]], threads):
            pass
        assert stream.nobs == 2000
        seen.append(state(stream))
    assert all(one == seen[0] for one in seen)
    assert seen[0] != state(model(None).start(seed=1).update(data))


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_that_threads_worked_on_goes_on_without_them(threads):
    data = table()
    stream, whole = model(None).start(seed=1), model(None).start(seed=1).update(data)
    for done in stream._update_all((data.iloc[a : a + 300] for a in range(0, 1800, 300)), threads):
        assert done == stream.nobs
    assert stream.nobs == 1800
    assert stream._run.progress.state.role == "main"  # where threads are of use
    stream.update(data.iloc[1800:1900])
    for _ in stream._update_all([data.iloc[1900:]], 2):
        pass
    assert state(stream) == state(whole)
    assert stream.results().params.tolist() == whole.results().params.tolist()


def test_a_reader_that_stops_early_leaves_no_thread_behind():
    data = table()
    stream = model(None).start(seed=1)
    for done in stream._update_all((data.iloc[a : a + 100] for a in range(0, 2000, 100)), 2):
        if done >= 1600:
            break
    reading = stream._update_all(iter([data]), 2)
    reading.close()  # never begun
    stream.update(data.iloc[done:])
    assert state(stream) == state(model(None).start(seed=1).update(data))
    with ThreadPoolExecutor(1) as pool:  # nor is it held by the thread it was first used in
        assert pool.submit(stream.update, data.iloc[:0]).result().nobs == 2000


# --- files -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before", ["", "\ufeff", "\n", "\r\n", "\n \n\t\n", "\ufeff\r\n\r\n"])
def test_a_header_is_found_behind_a_byte_order_mark_and_blank_lines(before, tmp_path):
    path = tmp_path / "people.csv"
    path.write_bytes(f"{before}x,y\n1,2\n3,4.5\n".encode())
    found = read(path, ("y", "x"))
    assert found["x"].tolist() == [1, 3]
    assert found["y"].tolist() == [2.0, 4.5]
    assert _count_lines(path) == 2


@pytest.mark.thorough
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_records_are_counted_across_the_blocks_in_which_a_file_is_read(end, tmp_path):
    path = tmp_path / "people.csv"
    for length in (8191, 8192, 8193, 16383, 16384, 131071, 131072):
        for cell in ("1", '"1"'):
            head = f"x,y{end}{cell},"
            first = head + "7" * (length - len(head) - 1) + end  # so that a block ends within this line's end, or near
            path.write_bytes((first + end + f"2,3{end}" * 5000 + f" {end}4,5").encode())
            found = read(path, ("x",))
            assert _count_lines(path) == len(found) == 5002
            assert found["x"].tolist() == [1, *[2] * 5000, 4]


def test_na_is_a_level_of_a_text_column_and_a_gap_in_a_number(tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("x,g\n1,NA\n2,None\n3,\nNA,nan\nNone,u\n")
    schema = Schema.declare({"x": (0, 5)}, {"g": ["NA", "None", "nan", "u"]}, {})
    found = read(path, ("x", "g"), schema)
    assert found["g"].astype(object).tolist() == ["NA", "None", "", "nan", "u"]  # an empty text is no declared level
    assert found["x"].isna().tolist() == [False, False, False, True, True]


def test_a_fit_knows_people_of_level_na(tmp_path):
    path = tmp_path / "people.csv"
    rng = np.random.default_rng(8)
    g = rng.choice(["NA", "u"], 4000)
    data = pd.DataFrame({"g": g, "y": 1.0 * (g == "NA") + 0.1 * rng.standard_normal(4000)})
    data.to_csv(path, index=False)
    options = {"mu": None, "bounds": {"y": (-2, 3)}, "levels": {"g": ["u", "NA"]}}
    res = pr.PrivateOnlineRegression.from_formula("y ~ g", path, **options).fit()
    assert res.params["g[T.NA]"] == pytest.approx(1.0, abs=0.05)
    assert res.nobs == 4000


@pytest.mark.thorough
def test_numbers_of_a_csv_file_are_the_nearest_doubles(tmp_path):
    rng = np.random.default_rng(3)
    values = np.concatenate([rng.uniform(size=20_000), rng.normal(size=20_000) * 10.0 ** rng.integers(-20, 20, 20_000)])
    path = tmp_path / "numbers.csv"
    path.write_text("x\n" + "\n".join(map(repr, values.tolist())))
    read = [b["x"].to_numpy() for b in open_table(path, ("x",), Schema.declare({"x": (0, 1)})).batches(0)]
    assert np.array_equal(np.concatenate(read), values)


ENDS = {
    "bare returns": b"1,2\n\r,\n11,3\r\n12,\r\n13,4\r14,5\n",
    "blank lines": b"\n1,2\n\n \t\n11,3\r\n\r\n12,\n\n13,4\n14,5",
    "open quotes": b'1,2\n11,"3\n4\n5"\n12,\n13,"4\n"\n14,5\n',
}


@pytest.mark.some(1)
@pytest.mark.parametrize("ends", ENDS)
@pytest.mark.parametrize("skip", range(7))
def test_rows_are_passed_by_as_they_are_read_whatever_ends_a_line(ends, skip, tmp_path):
    path = tmp_path / "ends.csv"
    path.write_bytes(b"x,y\n" + ENDS[ends])
    source = open_table(path, ("x",), Schema.declare({"x": (0, 1)}))

    def read(skip):
        return [str(v) for b in source.batches(skip) for v in pd.to_numeric(b["x"], errors="coerce")]

    assert read(skip) == read(0)[skip:]


def test_an_archive_of_several_files_is_refused(tmp_path):
    path = tmp_path / "people.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("one.csv", "x\n1\n")
        archive.writestr("two.csv", "x\n2\n")
    with pytest.raises(DataError, match=r"people\.zip holds 2 files; unpack it"):
        list(open_table(path, ("x",), Schema.declare({"x": (0, 1)})).batches(0))


@pytest.mark.skipif(os.name == "nt", reason="links need rights")
@pytest.mark.parametrize("link", [os.symlink, os.link])
def test_a_file_that_comes_twice_by_a_link_is_refused(link, tmp_path):
    pytest.importorskip("pyarrow")
    one, two = tmp_path / "one.parquet", tmp_path / "two.parquet"
    pd.DataFrame({"x": [1.0, 2.0]}).to_parquet(one)
    link(one, two)
    for given in (tmp_path, [one, two]):
        with pytest.raises(DataError, match="one twice, perhaps by a link"):
            open_table(given, ("x",), Schema.declare({"x": (0, 1)}))


@pytest.mark.thorough
@pytest.mark.parametrize(
    "levels", [["1", "2"], ["01", "2"], ["True", "False"], ["1", "x"], ["1e3", "inf"], ["+1", "-1"]]
)
def test_levels_that_look_like_numbers_stay_texts(levels, tmp_path):
    path = tmp_path / "levels.csv"
    rows = pd.DataFrame({"g": np.repeat(levels, [5_000, 70_000]), "y": 0.5})  # chunks of one level, and of both
    rows.to_csv(path, index=False)
    declared = {"mu": 3, "bounds": {"y": (0, 1)}, "levels": {"g": levels}}
    fits = [
        pr.PrivateOnlineRegression.from_formula("y ~ g", data, **declared).fit(
            seed=1, progress=False, inference=None, tuning="published"
        )
        for data in (rows, path)
    ]
    assert np.array_equal(fits[0].params, fits[1].params)


# --- texts of a whole column -------------------------------------------------------------------------------

CELLS = {
    "texts": ["a", "b", None, "c", "a", "zz"],
    "missing as a number": ["a", np.nan, "b", None, "b", "c"],
    "numbers among them": ["a", 1, 1.0, "1", True, None],
    "bytes": [b"a", "a", "b", None, b"b", "c"],
    "half a character": ["a", "\ud800", "b", None, "c", "c"],
}


@pytest.mark.some(1)
@pytest.mark.parametrize("cells", CELLS)
@pytest.mark.parametrize("n", [6, 300_000])
def test_a_column_s_texts_are_the_levels_that_its_cells_are(cells, n):
    levels = ["a", "b", "c", "1"]
    column = np.resize(np.array(CELLS[cells], dtype=object), n)
    want = np.resize(level_codes(np.array(CELLS[cells], dtype=object), "g", levels, gaps=True), n)
    kinds = [column, pd.Series(column, dtype=object).array]
    if cells in {"texts", "missing as a number"}:
        kinds.append(pd.array(column.tolist(), dtype="str"))
        assert isinstance(coded_texts(kinds[0]), pd.Categorical)
        assert isinstance(coded_texts(kinds[1]), pd.Categorical)
        assert isinstance(coded_texts(kinds[2]), pd.Categorical)
    for kind in kinds:
        np.testing.assert_array_equal(level_codes(coded_texts(kind), "g", levels, gaps=True), want)


def test_columns_of_numbers_and_codes_stay_what_they_are():
    for held in (np.arange(3.0), pd.Categorical(["a", "b"]), pd.array([1, None], dtype="Int64"), np.array(["a", "b"])):
        assert coded_texts(held) is held


@pytest.mark.parametrize("text", ["1e99999999", "-1e99999999", "1e-99999999", "Infinity", "sNaN"])
def test_a_number_of_millions_of_digits_is_no_level_and_no_id_and_is_not_written_out(text):
    cells = np.array(["a", Decimal(text), 1, Decimal(1)], dtype=object)
    assert level_codes(cells, "g", ["a", 1], gaps=True).tolist() == [0, -1, 1, 1]
    assert _text(cells[1]) is None
    assert _text(cells[3]) == "1"


def test_a_masked_cell_is_a_missing_value_in_every_kind_of_table():
    data = table()
    hidden = np.arange(len(data)) % 3 == 0
    missing = data.assign(x=data["x"].mask(hidden))
    want = model(missing).fit(seed=1, progress=False).params
    masked = np.ma.array(data["x"].to_numpy(), mask=hidden)
    for rows in ({"x": masked, "y": data["y"]}, {"x": list(masked), "y": data["y"]}):
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            warnings.simplefilter("ignore", pr.errors.ReliabilityWarning)
            np.testing.assert_array_equal(model(rows).fit(seed=1, progress=False).params, want)
    encode = model(data)._spec.design.encode
    for rows in ({"x": masked, "y": data["y"]}, {"x": list(masked), "y": data["y"]}):  # of a stream
        np.testing.assert_array_equal(encode(rows, "noise").exog, encode(missing, "noise").exog)
    exog = np.ma.column_stack([np.ones(len(data)), masked])
    names = {"exog_names": ["const", "x"], "endog_name": "y", "mu": 2, "bounds": OPTIONS["bounds"]}
    fits = [
        pr.PrivateOnlineRegression(data["y"].to_numpy(), x, **names).fit(seed=1, progress=False).params
        for x in (exog, exog.filled(np.nan))
    ]
    np.testing.assert_array_equal(*fits)
    whole = unmasked(np.ma.array([1, 2**60 + 1], mask=[True, False]))
    assert whole.tolist() == [None, 2**60 + 1]


def test_a_text_is_its_level_whatever_kind_of_text():
    class Own(str):
        __slots__ = ()

        def __str__(self):
            return "b"

    cells = np.array([np.str_("a"), Own("a"), "a"], dtype=object)
    assert level_codes(cells, "g", ["a", "b"], gaps=True).tolist() == [0, 0, 0]
