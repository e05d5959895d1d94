"""The same rows give the same bits from every kind of source, from any row on."""

import datetime
from decimal import Decimal

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as pads
import pyarrow.parquet as pq
import pytest

import privreg as pr
from privreg.data import columns
from privreg.data.sources.open import CHUNK, open_table, rows_of
from privreg.errors import DataError, UnsupportedArgumentError
from privreg.schema.declarations import Schema
from tests.tables import BOUNDS, KNOWN, LEVELS, NAMES, bits, gappy, model, people, sources

SCHEMA = Schema.declare(BOUNDS, LEVELS, {})
WANTED = ("y", "x", "k", "b", "f", "g", "id")
QUICK = {"tuning": "published", "seed": 1, "progress": False}


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return sources(people(), tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def holes(tmp_path_factory):
    return sources(gappy(), tmp_path_factory.mktemp("holes"))


@pytest.fixture(scope="module")
def expected():
    """Results of the DataFrames, computed once."""
    full, some = people(), gappy()
    return {
        "whole": bits(full, "efficient"),
        "published": bits(full),
        "noise": bits(some, "efficient", missing="noise", id="id", max_per_id=2),
        "drop": bits(some, "efficient", missing="drop"),
        "default": bits(some, "efficient"),
    }


def test_every_source_is_tested(whole):
    assert tuple(whole) == NAMES


@pytest.mark.some(3)
@pytest.mark.parametrize("name", NAMES)
def test_fits_agree_to_the_bit(name, whole, holes, expected):
    assert bits(whole[name]()) == expected["published"]
    assert bits(holes[name](), "efficient", missing="noise", id="id", max_per_id=2) == expected["noise"]


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["parquet folder", "polars", "sqlite", "duckdb query"])
def test_other_fits_agree_too(name, whole, holes, expected):
    assert bits(whole[name](), "efficient") == expected["whole"]
    assert bits(holes[name](), "efficient", missing="drop") == expected["drop"]
    with pytest.raises(DataError, match=r"^column '[xkbfgy]' has a (value that is )?missing"):
        bits(holes[name](), missing="raise")
    assert bits(holes[name](), "efficient") == expected["default"]


@pytest.mark.parametrize("name", sorted(KNOWN))
def test_rows_are_known_without_reading(name, whole):
    source = open_table(whole[name](), WANTED, SCHEMA)
    assert source.rows == source.expected() == 3000
    assert source.identity is not None


def joined(batches):
    """All rows of some batches as encoded columns."""
    kept = [columns.prepare(b, WANTED[:-1], SCHEMA, WANTED, gaps=True) for b in batches]
    return {c: np.concatenate([k[c] for k in kept]) if kept else np.zeros(0) for c in WANTED[:-1]}


@pytest.mark.some(3)
@pytest.mark.parametrize("name", NAMES)
def test_rows_from_any_one_on(name, holes):
    want = joined(open_table(gappy(), WANTED, SCHEMA).batches(0))
    rng = np.random.default_rng(5)
    source = open_table(holes[name](), WANTED, SCHEMA)
    for skip in (0, 300, 701, 1402, 1500, 2999, 3000, 4000, *rng.integers(1, 3000, 3)):
        if not source.repeatable:
            source = open_table(holes[name](), WANTED, SCHEMA)
        found = joined(source.batches(int(skip)))
        for column in want:
            np.testing.assert_array_equal(found[column], want[column][skip:], err_msg=f"{column} from {skip} on")


@pytest.mark.thorough
def test_batches_hold_the_columns_asked_for_and_few_rows(tmp_path):
    big = pd.concat([people()] * 12, ignore_index=True)  # more than two batches
    for name, make in sources(big, tmp_path).items():
        sizes = []
        for batch in open_table(make(), ("y", "g"), SCHEMA).batches(0):
            assert set(batch) == {"y", "g"}, name
            sizes.append(rows_of(batch))
        assert max(sizes) <= CHUNK, name
        assert sum(sizes) == len(big), name


def test_texts_of_factors_come_as_codes(whole):
    for name in ("parquet", "parquet with dictionaries", "table", "dataset of Feather", "polars, lazy", "duckdb query"):
        for batch in open_table(whole[name](), ("g",), SCHEMA).batches(2900):
            assert isinstance(batch["g"], pd.Categorical), name


def test_numbers_are_not_copied():
    table = pa.table({"x": np.arange(10.0)})
    (batch,) = open_table(table, ("x",), SCHEMA).batches(0)
    assert batch["x"].ctypes.data == table["x"].chunk(0).buffers()[1].address


def test_what_a_formula_does_not_name_is_not_read(tmp_path):
    data = people()
    path = tmp_path / "people.parquet"
    data.to_parquet(path, index=False)
    want = bits(data)
    places = pq.read_metadata(path).row_group(0)
    hidden = next(places.column(i) for i in range(places.num_columns) if places.column(i).path_in_schema == "unused")
    raw = bytearray(path.read_bytes())
    start = hidden.dictionary_page_offset or hidden.data_page_offset
    raw[start : start + hidden.total_compressed_size] = b"\xff" * hidden.total_compressed_size
    path.write_bytes(raw)
    assert bits(path) == want


@pytest.mark.thorough
def test_a_row_group_is_not_held_whole(tmp_path):
    n = 1_200_000
    data = pd.DataFrame(np.random.default_rng(1).uniform(-1, 1, (n, 3)), columns=["x", "f", "y"])
    data.to_parquet(tmp_path / "one.parquet", row_group_size=n, index=False)
    paths = [tmp_path / "one.parquet", *(tmp_path / f"{i}.parquet" for i in range(2))]
    for path in paths[1:]:
        path.write_bytes(paths[0].read_bytes())
    before, most = pa.total_allocated_bytes(), 0
    for _ in open_table(paths, ("x", "f", "y"), SCHEMA).batches(0):
        most = max(most, pa.total_allocated_bytes() - before)
    assert 0 < most < data.to_numpy().nbytes / 3


# --- types -------------------------------------------------------------------------------------------------


def test_row_groups_with_other_dictionaries_and_batches_with_few_rows(tmp_path):
    first, second = pa.array(["u", "v"] * 40).dictionary_encode(), pa.array(["w", "u"] * 40).dictionary_encode()
    table = pa.table({"g": pa.chunked_array([first, second])})
    pq.write_table(table, tmp_path / "g.parquet", row_group_size=80)
    want = [*[0, 1] * 40, *[2, 0] * 40]
    for data in (table, tmp_path / "g.parquet", table.slice(0)):
        found = [columns.level_codes(b["g"], "g", LEVELS["g"]) for b in open_table(data, ("g",), SCHEMA).batches(0)]
        assert np.concatenate(found).tolist() == want


@pytest.mark.parametrize(
    "dictionary", [["u", "v", "u"], ["u", None, "w"], [str(i) for i in range(50)], ["u", "v", "w", "unheard of"]]
)
def test_odd_dictionaries_are_decoded(dictionary):
    values = dictionary if len(dictionary) < 50 else ["u", *dictionary[1:]]
    codes = [0, 1, 2, 0] if len(dictionary) < 50 else [0, 0, 0, 0]
    table = pa.table({"g": pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(values))})
    (batch,) = open_table(table, ("g",), SCHEMA).batches(0)
    found = columns.level_codes(batch["g"], "g", ["u", "v", "w", *map(str, range(50))], gaps=True)
    known = {"u": 0, "v": 1, "w": 2, None: -1}
    assert found.tolist() == [known[values[c]] for c in codes]


def test_decimals_are_the_nearest_doubles(tmp_path):
    rng = np.random.default_rng(3)
    for digits, scale in ((15, 4), (15, 15), (5, 0), (18, 6), (38, 20)):
        given = [
            Decimal(int(v)).scaleb(-scale)
            for v in rng.integers(-(10 ** min(digits, 15)) + 1, 10 ** min(digits, 15), 99)
        ]
        given[3] = None
        table = pa.table({"x": pa.array(given, pa.decimal128(digits, scale))})
        want = [np.nan if v is None else float(v) for v in given]
        (batch,) = open_table(table, ("x",), SCHEMA).batches(1)
        np.testing.assert_array_equal(columns.numbers(batch["x"], "x", gaps=True), want[1:])


def test_large_ids_are_not_rounded():
    ids = [2**53, 2**53 + 1, None, 2**53]
    (batch,) = open_table(pa.table({"id": ids}), ("id",), SCHEMA).batches(0)
    assert list(batch["id"][:2]) == ids[:2]
    data = people(3000)
    data["id"] += 2**53
    assert bits(pa.Table.from_pandas(data), id="id") == bits(data, id="id")


@pytest.mark.parametrize("level", [[1, 2, 3], [True, False], [1.5, 2.5], [Decimal("1.5"), Decimal("2.5")]])
def test_factors_of_numbers(level):
    data = people()
    data["g"] = np.random.default_rng(2).choice(np.array(level, dtype=object), len(data))
    declared = {"g": [float(v) if isinstance(v, Decimal) else v for v in level]}
    want = bits(data, formula="y ~ x + C(g)", levels=declared)
    table = pa.table({"x": data["x"].to_numpy(), "y": data["y"].to_numpy(), "g": data["g"].tolist()})
    assert bits(table, formula="y ~ x + C(g)", levels=declared) == want
    assert (
        bits(table.set_column(2, "g", table["g"].dictionary_encode()), formula="y ~ x + C(g)", levels=declared) == want
    )


NO_NUMBERS = {
    "dates": datetime.date(2020, 1, 1),
    "times": datetime.datetime(2020, 1, 1),
    "durations": datetime.timedelta(1),
    "lists": [1.0],
    "structs": {"a": 1.0},
}


@pytest.mark.some(2)
@pytest.mark.parametrize("what", NO_NUMBERS)
def test_a_type_that_holds_no_numbers_is_refused_and_a_cell_is_not(what):
    table = pa.table({"x": [NO_NUMBERS[what]] * 100, "y": [1.0] * 100})
    for data in (table, pl.from_arrow(table)):
        for missing in ("noise", "raise"):
            said = "column 'x' (holds dates and is declared a number; give two dates|holds times or dur|is of another)"
            with pytest.raises(DataError, match=said):
                model(data, "y ~ x", missing=missing).fit(progress=False)
    # what types the cells of an object column have is nobody's declaration
    with pytest.raises(DataError, match="column 'x' has a value that is missing, infinite or no number"):
        model(table.to_pandas().astype({"x": object}), "y ~ x", missing="raise").fit(progress=False)
    data = people()
    seen = []
    for cell in (NO_NUMBERS[what], None):
        cells = np.array(data["x"].tolist(), dtype=object)
        cells[7] = cell
        seen.append(bits(data.assign(x=pd.Series(cells.tolist(), dtype=object))))
    assert seen[0] == seen[1]


@pytest.mark.some(1)
@pytest.mark.parametrize("form", ["texts", "views", "bytes"])
def test_a_number_as_text_is_that_number_from_every_table(form):
    data, (want, rough) = people(), (bits(people()), bits(gappy()))
    kind = {"texts": pa.string(), "views": pa.string_view(), "bytes": pa.binary()}[form]
    for rows, result in ((data, want), (gappy(), rough)):
        texts = [None if pd.isna(v) else repr(float(v)) for v in rows["x"]]
        table = pa.Table.from_pandas(rows, preserve_index=False)
        at = table.column_names.index("x")
        written = table.set_column(at, "x", pa.array(texts, pa.string()).cast(kind))
        assert bits(written) == result
        assert bits(rows.assign(x=pd.Series(texts, dtype=object))) == result
        if form != "bytes":
            assert bits(pl.from_arrow(written)) == result


# --- which data --------------------------------------------------------------------------------------------


def test_a_reader_is_read_once():
    built = model(pa.Table.from_pandas(people()).to_reader())
    built.fit(**QUICK)
    with pytest.raises(DataError, match="was read before"):
        built.fit(**QUICK)
    frames = model(iter([people()]))
    frames.fit(**QUICK)
    with pytest.raises(DataError, match="was read before"):
        frames.fit(**QUICK)


def test_the_ledger_knows_files_and_tables_again(tmp_path):
    people().to_parquet(tmp_path / "people.parquet")
    # each of rows of its own: tables made of one frame share its memory, and are one account
    for given in (tmp_path / "people.parquet", pa.Table.from_pandas(people()), pl.from_pandas(people())):
        model(given).fit(**QUICK)
        again = model([given] if isinstance(given, type(tmp_path)) else given)
        assert again.fit(**QUICK).privacy.release.number == 2


def test_levels_and_scales_are_learned_from_a_file_on_request(tmp_path):
    data = people()
    data.to_parquet(tmp_path / "people.parquet", row_group_size=500)
    given = {"bounds": None, "levels": None, "allow_leak": ("levels", "scale")}
    with pytest.warns(pr.PrivacyLeakWarning):
        want = bits(data, **given)
    for other in (tmp_path / "people.parquet", pa.Table.from_pandas(data), pl.from_pandas(data)):
        with pytest.warns(pr.PrivacyLeakWarning):
            assert bits(other, **given) == want


def test_lists_of_csv_files(tmp_path):
    data = people()[["x", "k", "g", "y"]]
    whole, parts = tmp_path / "whole.csv", []
    data.to_csv(whole, index=False)
    for i, at in enumerate(np.array_split(np.arange(len(data)), 3)):
        parts.append(tmp_path / f"part-{i}.csv")
        data.iloc[at].to_csv(parts[-1], index=False)
    assert bits(parts, formula="y ~ x + k + g", rows=None) == bits(whole, formula="y ~ x + k + g", rows=None)
    source = open_table(parts, ("y",), SCHEMA)
    assert source.expected() == 3000
    assert [stamp[0] for stamp in source.stamp()] == [str(p) for p in parts]
    for skip in (0, 999, 1000, 1001, 2000, 2500, 3000):
        found = np.concatenate([np.asarray(b["y"]) for b in source.batches(skip)] or [np.zeros(0)])
        want = np.concatenate([np.asarray(b["y"]) for b in open_table(whole, ("y",), SCHEMA).batches(0)])
        np.testing.assert_array_equal(found, want[skip:])
    parts[1].write_text(parts[1].read_text().replace("x,k,g,y", "x,k,y,g"))
    with pytest.raises(DataError, match=r"^part-1\.csv: its header is not that of part-0\.csv"):
        model(parts)


def test_lists_of_files_that_make_no_sense(tmp_path):
    people().to_parquet(tmp_path / "a.parquet")
    people().to_csv(tmp_path / "a.csv")
    with pytest.raises(UnsupportedArgumentError, match="several kinds"):
        model([tmp_path / "a.parquet", tmp_path / "a.csv"])
    with pytest.raises(DataError, match="names one twice"):
        model([tmp_path / "a.parquet", str(tmp_path / "." / "a.parquet")])
    with pytest.raises(DataError, match="there is no file"):
        model([tmp_path / "a.parquet", tmp_path / "b.parquet"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match="there is no file with Parquet rows"):
        model(tmp_path / "empty")
    with pytest.raises(UnsupportedArgumentError, match=r"pr\.sql"):
        model("SELECT * FROM people")


def partitioned(folder, data, by="g"):
    """A folder of folders, each with the rows of one level, without that column."""
    for level, part in data.groupby(by, dropna=False):
        name = "__HIVE_DEFAULT_PARTITION__" if pd.isna(level) else str(level).replace("%", "%25").replace("/", "%2F")
        (folder / f"{by}={name}").mkdir(parents=True)
        part.drop(columns=by).to_parquet(folder / f"{by}={name}" / "0.parquet", index=False)
    return folder


def test_folders_names_are_a_column_of_their_files(tmp_path):
    data = people().assign(g=lambda d: d["g"].replace({"u": "u/1%", "v": None}), k=lambda d: d["k"] % 3)
    levels = {"g": ["u/1%", "v", "w"]}
    kept = data.sort_values("g", kind="stable", na_position="first").reset_index(drop=True)
    folder = partitioned(tmp_path / "g", data)
    for given in (folder, pads.dataset(folder, partitioning="hive"), list(folder.rglob("*.parquet"))):
        found = joined_of(open_table(given, ("g", "y"), Schema.declare(BOUNDS, levels, {})), levels)
        codes = columns.level_codes(kept["g"], "g", levels["g"], gaps=True)
        assert sorted(found) == sorted(zip(codes, kept["y"], strict=True))
    want = bits(people().sort_values("k", kind="stable"), "efficient", levels=LEVELS)
    assert bits(partitioned(tmp_path / "k", people(), "k"), "efficient") == want  # a number, too
    assert pr.means.estimate(folder, formula="C(g) ~ 1", mu=1, levels=levels, seed=1).nobs == 3000
    one = folder / "g=w" / "0.parquet"
    assert set(open_table(one, ("g",), Schema.declare({}, levels, {})).batches(0).__next__()["g"]) == {"w"}
    with pytest.raises(DataError, match="column 'h' is missing"):
        model(folder, formula="y ~ h", bounds={**BOUNDS, "h": (0, 1)})


def joined_of(source, levels):
    """Rows of a source as codes of a factor and a number."""
    parts = [(columns.level_codes(b["g"], "g", levels["g"], gaps=True), np.asarray(b["y"])) for b in source.batches(0)]
    return [pair for codes, y in parts for pair in zip(codes, y, strict=True)]


def sorted_sources(data, tmp):
    """Rows that are sorted by a factor and the response, in pieces: a piece for each level."""
    parts = [part for _, part in data.sort_values(["g", "y"]).groupby("g")]
    for folder in ("parquet", "csv", "feather"):
        (tmp / folder).mkdir()
    for k, part in enumerate(parts):
        part.to_parquet(tmp / "parquet" / f"{k}.parquet", index=False)
        part.to_csv(tmp / "csv" / f"{k}.csv", index=False)
        part.reset_index(drop=True).to_feather(tmp / "feather" / f"{k}.feather")
    hive = partitioned(tmp / "hive", pd.concat(parts))
    pd.concat(parts).to_parquet(tmp / "one.parquet", index=False)
    return {
        "a folder by levels": lambda: hive,
        "a dataset": lambda: pads.dataset(hive, partitioning="hive"),
        "a filtered dataset": lambda: pads.dataset(hive, partitioning="hive").filter(pads.field("y") > -1e9),
        "a folder": lambda: tmp / "parquet",
        "a file": lambda: tmp / "one.parquet",
        "CSV files": lambda: sorted((tmp / "csv").iterdir()),
        "a dataset of Feather": lambda: pads.dataset(tmp / "feather", format="feather"),
        "frames": lambda: parts,
        "tables": lambda: [pa.Table.from_pandas(part) for part in parts],
        "polars": lambda: pl.scan_parquet(hive, hive_partitioning=True),
        "duckdb": lambda: duckdb.sql(f"SELECT * FROM read_parquet('{hive}/*/*.parquet', hive_partitioning=true)"),
    }


@pytest.mark.thorough
def test_pieces_that_can_be_held_are_dealt_as_one_table_is(tmp_path):
    """For equal rows, keys and order rule equal bits, from every kind of pieces."""
    data = people()[["x", "g", "y"]]
    whole = data.sort_values(["g", "y"]).reset_index(drop=True)
    want = dealt_bits(whole)
    for name, make in sorted_sources(data, tmp_path).items():
        assert dealt_bits(make()) == want, name


def dealt_bits(data):
    res = model(data, formula="y ~ x + g").fit(seed=1, progress=False)
    return res.params.to_numpy().tobytes(), res.bse.to_numpy().tobytes()


@pytest.mark.statistical
def test_sorted_pieces_give_what_a_shuffled_table_gives(tmp_path):
    rng, n = np.random.default_rng(0), 100_000
    data = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": rng.choice(["u", "v", "w"], n)})
    data["y"] = data["x"] + (data["g"] == "v") - 0.5 * (data["g"] == "w") + 0.5 * rng.standard_normal(n)
    truth = np.array([0.0, 1.0, -0.5, 1.0])
    for name, make in {"shuffled": lambda: data, **sorted_sources(data, tmp_path)}.items():
        res = model(make(), formula="y ~ x + g", rows=None, family="huber").fit(progress=False)
        # 4 normal coefficients of each of 12 fits: beyond 5 standard errors by chance once in 36,000 runs
        assert (np.abs(res.params.to_numpy() - truth) < 5 * res.bse.to_numpy()).all(), name
        assert not any("too few records" in note or "in the order they come" in note for note in res.privacy.notes), (
            name
        )
