"""A cell means the same from every source, in every role, at every front door: the table of docs/guides/sources.md."""

import csv as standard
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as compute
import pyarrow.dataset as pads
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import privreg as pr
from privreg.data.columns import prepare
from privreg.data.inspect import template
from privreg.data.participants import Counter
from privreg.data.sources.open import open_table
from privreg.errors import PrivregWarning
from privreg.schema.declarations import Schema
from tests.databases import duck, sqlite

NUMBERS = {
    **{"1": 1, "1.0": 1, "01": 1, "+1": 1, " 1 ": 1, "1.": 1, "-.5": -0.5, "1e3": 1000, "1E+3": 1000, "-0": 0},
    **{"True": 1, "true": 1, "FALSE": 0, "\u0661": 1, "\uff11": 1, "\u00a01": 1, "2\u2003": 2},
}
"""Texts that are numbers, in the digits of any script."""
# fmt: off
NONE = (
    "", " ", "NA", "nan", "NaN", "None", "null", "#N/A", "<NA>", "inf", "-inf", "Infinity", "1e400", "nan(1)",
    "yes", "no", "a", "A", " a", "T", "1_0", "1,234", "1'000", "1,5", "(1.23)", "$5", "5%", "31/12/2020", "2020-12-31",
    "0x10", "0x1p3", "1d5", "1 2", "--1", "+ 1", "1e", ".", "1f", "1j", "\u00b2", "\u00bd", "\u22121", "\u200b1",
    "\u3000",
)
# fmt: on
"""Texts that are none."""
CELLS = (*NUMBERS, *NONE)

LEVELS = {
    "texts": ["a", "", "nan", "NA", " ", "1.0", "no"],
    "an empty text": ["", "b"],
    "texts of numbers": ["1", "1e3", "02"],
    "numbers": [1, 1000, 2],
    "truth values": [False, True],
    "their texts": ["False", "True"],
    "missing": ["x", "nan", "None", "<NA>"],
    "marks": ["1,5", "1,234", "5%", "inf", "\u0661"],
}
ROLES = {
    "number": Schema.declare({"v": (-1e9, 1e9)}, {}, {}),
    "day": Schema.declare({"v": ("2000-01-01", "2030-01-01")}, {}, {}),
}
with pytest.warns(PrivregWarning, match="differ only by blanks"):  # "" and " "
    ROLES |= {name: Schema.declare({}, {"v": levels}, {}) for name, levels in LEVELS.items()}
pytestmark = pytest.mark.filterwarnings("ignore:levels")


def written(path, cells, quoting=standard.QUOTE_MINIMAL, sep=","):
    with path.open("w", newline="") as file:
        lines = standard.writer(file, quoting=quoting, lineterminator="\n", delimiter=sep)
        lines.writerows([["k", "v"], *(["0", cell] for cell in cells)])
    return path


def csvs(cells, tmp):
    (tmp / "column.csv").write_text("\n".join(["v", *('"' + cell.replace('"', '""') + '"' for cell in cells)]) + "\n")
    return {
        "csv": written(tmp / "plain.csv", cells),
        "csv, quoted": written(tmp / "quoted.csv", cells, standard.QUOTE_ALL),
        "csv of one column": tmp / "column.csv",
        "csv, semicolons": pr.csv(written(tmp / "marks.csv", cells, sep=";"), sep=";"),
    }


def sources(cells, tmp):
    table = pa.table({"v": pa.array(cells, pa.string())})
    frame = pd.DataFrame({"v": pd.Series(cells, dtype=object)})
    pq.write_table(table, tmp / "t.parquet")
    pyarrow.feather.write_feather(table, tmp / "t.feather")
    base, connection = sqlite(), duck()
    base.execute("CREATE TABLE t (v)")
    base.executemany("INSERT INTO t VALUES (?)", [(cell,) for cell in cells])
    connection.register("t", table)
    return {
        **csvs(cells, tmp),
        "parquet": tmp / "t.parquet",
        "dataset of Feather": pads.dataset(tmp / "t.feather", format="feather"),
        **{f"frame of {kind}": frame.astype(kind) for kind in ("object", "string", "str", "category")},
        "frame of Arrow's texts": frame.astype(pd.ArrowDtype(pa.string())),
        "lists": {"v": list(cells)},
        "array": {"v": np.array(cells)},
        "frames": [frame.iloc[:9], frame.iloc[9:]],
        "table": table,
        "views": table.cast(pa.schema([("v", pa.string_view())])),
        "bytes": table.cast(pa.schema([("v", pa.binary())])),
        "codes": pa.table({"v": table["v"].dictionary_encode()}),
        "dataset": pads.dataset(table),
        "polars": pl.from_arrow(table),
        "lazy": pl.from_arrow(table).lazy(),
        "duckdb": connection.sql("SELECT * FROM t"),
        "query": pr.sql("SELECT * FROM t", base),
    }


def read(data, schema, dealt=False):
    source = open_table(data, ("v",), schema)
    batches = source.dealt(None)(0) if dealt else source.batches(0)
    return np.concatenate([prepare(batch, ("v",), schema, (), gaps=True)["v"] for batch in batches])


@cache
def alone(cell, role):
    """What a cell says where nothing is beside it."""
    return prepare({"v": np.array([cell], dtype=object)}, ("v",), ROLES[role], (), gaps=True)["v"][0]


@pytest.mark.parametrize("role", ROLES)
def test_a_cell_means_the_same_from_every_source(role, tmp_path):
    schema = ROLES[role]
    want = np.array([alone(cell, role) for cell in CELLS])
    for name, data in sources(CELLS, tmp_path).items():
        np.testing.assert_array_equal(read(data, schema), want, err_msg=name)
        if open_table(data, ("v",), schema).dealt is not None:
            found = read(data, schema, dealt=True)
            np.testing.assert_array_equal(np.sort(found), np.sort(want), err_msg=f"{name}, dealt")


def test_which_texts_are_numbers_and_which_levels():
    found = [alone(cell, "number") for cell in CELLS]
    np.testing.assert_array_equal(found, [*NUMBERS.values(), *[np.nan] * len(NONE)])
    for cell, code in {"": 1, "nan": 2, "NA": 3, " ": 4, "1": 5, "no": 6, "A": -1, "None": -1}.items():
        assert alone(cell, "texts") == code, cell
    assert alone("", "an empty text") == 0


@pytest.mark.some(3)
@pytest.mark.parametrize("beside", [None, "1", "a", "True", "", "2.5"])
def test_no_cell_of_a_csv_file_depends_on_those_beside_it(beside, tmp_path):
    """Each cell has a column, with another cell in the next line: pandas finds a type for the two together."""
    cells = [*CELLS[:3], "true", "\u0661", "inf", "1_0", "1,5", *NONE[:8], *NONE[14:18]]
    names = [f"v{k}" for k in range(len(cells))]
    below = [] if beside is None else [[beside] * len(cells)]
    for sep, quoting in ((",", standard.QUOTE_MINIMAL), (";", standard.QUOTE_ALL)):
        with (tmp_path / "t.csv").open("w", newline="") as file:
            standard.writer(file, quoting=quoting, delimiter=sep).writerows([names, cells, *below])
        for role in ROLES:
            schema = Schema.declare({n: ("2000-01-01", "2030-01-01") for n in names}, {}, {}) if role == "day" else None
            if schema is None:
                bounds = dict.fromkeys(names, (-1e9, 1e9)) if role == "number" else {}
                schema = Schema.declare(bounds, dict.fromkeys(names, LEVELS.get(role)) if not bounds else {}, {})
            (batch,) = open_table(pr.csv(tmp_path / "t.csv", sep=sep), tuple(names), schema).batches(0)
            found = prepare(batch, names, schema, (), gaps=True)
            for name, cell in zip(names, cells, strict=True):
                want = [alone(c, role) for c in (cell, *([] if beside is None else [beside]))]
                np.testing.assert_array_equal(found[name], want, err_msg=f"{cell!r} as {role}")


def test_an_empty_text_is_no_id_in_any_source(tmp_path):
    schema = Schema.declare({}, {}, {})
    for name, data in sources(["", "u", "u", ""], tmp_path).items():
        ids = [batch["v"] for batch in open_table(data, ("v",), schema, text=("v",)).batches(0)]
        counter = Counter("v", 1)
        found = np.concatenate([counter.excess(part, gaps=True) for part in ids])
        assert found.tolist() == [True, False, True, True], name


def test_a_line_that_is_no_record_holds_no_empty_level(tmp_path):
    schema = Schema.declare({}, {"v": ["", "a"]}, {})
    path = tmp_path / "t.csv"
    path.write_text('k,v\n0,\n0,""\n0,"a\n0,a,a\n0\n0,a\n')
    # a quote that stays open, and too many fields; a field that isn't there is empty
    assert read(path, schema).tolist() == [0, 0, -1, -1, 0, 1]


# --- numbers with a decimal comma ------------------------------------------------------------------------


@pytest.mark.parametrize("beside", [(), ("2,5",), ("odd",), ("",)])
def test_a_decimal_comma_is_read_in_each_cell_alone(beside, tmp_path):
    want = {
        "1,5": 1.5,
        "-,5": -0.5,
        "1": 1,
        "1,5e1": 15,
        "1.5": np.nan,
        "1.000,5": np.nan,
        "1,5,5": np.nan,
        "NA": np.nan,
    }
    for cell, number in want.items():
        data = pr.csv(written(tmp_path / "t.csv", [cell, *beside], sep=";"), sep=";", decimal=",")
        np.testing.assert_array_equal(read(data, ROLES["number"])[0], number, err_msg=cell)
        levels = Schema.declare({}, {"v": [1.5, 15, 1]}, {})
        assert read(data, levels)[0] == {1.5: 0, 15: 1, 1: 2}.get(number, -1)
        assert read(data, Schema.declare({}, {"v": [cell, "x"]}, {}))[0] == 0


@pytest.mark.parametrize("beside", [[], ["2"], ["a", ""]], ids=str)
def test_a_date_written_by_a_format_is_read_in_each_cell_alone(beside, tmp_path):
    schema = Schema.declare({"v": ("2020-01-01", "2022-01-01")}, {}, {})
    days = {"31.12.2020": 18627.0, "1.2.2021": 18659.0, "2020-12-31": np.nan, "31.2.2021": np.nan, "": np.nan}
    for cell, day in (days | {"18627": np.nan, "31.12.2020 12:00": np.nan, "NA": np.nan}).items():
        data = pr.csv(written(tmp_path / "t.csv", [cell, *beside], sep=";"), sep=";", dates="%d.%m.%Y")
        np.testing.assert_array_equal(read(data, schema)[0], day, err_msg=cell)
    with pytest.raises(pr.errors.OptionError, match="none has dates as its bounds"):
        read(data, ROLES["number"])


def test_letters_of_one_byte_are_read_by_their_encoding(tmp_path):
    path = tmp_path / "t.csv"
    for encoding, letter in (("latin-1", "é"), ("cp1252", "€"), ("iso8859-7", "λ")):
        schema = Schema.declare({}, {"v": ["x", letter]}, {})
        path.write_bytes(f"v\n{letter}\nx\n{letter}{letter}\n".encode(encoding))
        assert list(read(pr.csv(path, encoding=encoding), schema)) == [1, 0, -1]
        assert list(read(path, schema)) == [-1, 0, -1]
        path.write_bytes(f"{letter}\nb\n".encode(encoding))
        assert letter in template(path, pr.csv(path, encoding=encoding))
    assert pr.csv(path, encoding="UTF-8") == pr.csv(path)


def test_a_letter_that_ends_a_line_elsewhere_ends_none_in_a_file_of_one_byte_letters(tmp_path, monkeypatch):
    path, schema = tmp_path / "t.csv", Schema.declare({}, {"v": ["x", "a\x85b", "\x0c\x1c"]}, {})
    monkeypatch.setattr("privreg.data.sources.csv.BLOCK", 1)
    monkeypatch.setattr("privreg.data.sources.csv.MOST", 1)
    path.write_bytes("k\x85,v\n0,a\x85b\n0,\x0c\x1c\n0,x\n".encode("latin-1"))
    assert read(pr.csv(path, encoding="latin-1"), schema).tolist() == [1, 2, 0]


WRONG = [{"sep": ";;"}, {"sep": "a"}, {"decimal": "'"}, {"sep": ",", "decimal": ","}, {"dates": "%d.%m."}]
WRONG += [{"dates": 1}, {"dates": "dd.mm.yyyy"}, {"encoding": "utf-16"}, {"encoding": "gbk"}, {"encoding": "none"}]


@pytest.mark.parametrize("how", [*WRONG, {"encoding": None}], ids=str)
def test_marks_that_cannot_be(how):
    with pytest.raises(pr.errors.OptionError, match=r"(sep|decimal|dates|encoding)=.* must be"):
        pr.csv("people.csv", **how)


def test_other_libraries_words_for_files_are_answered():
    for word, said in (("delimiter", "sep="), ("parse_dates", "dates="), ("header", "first line"), ("dtype", "levels")):
        with pytest.raises(pr.errors.UnsupportedArgumentError, match=said):
            pr.csv("people.csv", **{word: None})


# --- front doors -----------------------------------------------------------------------------------------

N = 400
DECLARED = {"bounds": {"x": (-3, 3), "y": (0, 2)}, "levels": {"g": ["a", "", "1"]}}


def people(seed=0):
    rng = np.random.default_rng(seed)
    cells = {
        "x": rng.choice(["1", " 2", "+1", "01", "\u0661", "-.5", "1,5", "NA", "", "true", "0x1"], N),
        "g": rng.choice(["a", "", "1", "1.0", "01", "NA", "b"], N),
        "y": rng.choice(["1", "1e0", "0.5", "", "inf", "True", "1_0"], N),
    }
    return pd.DataFrame({name: pd.Series(values.tolist(), dtype=object) for name, values in cells.items()})


def local(data):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + g", data, mu=2, rows=N, **DECLARED)
    return model.fit(seed=5, order="position", progress=False).params.tolist()


def two_collectors(data):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + g", data, trust="two_collectors", mu=2, **DECLARED)
    return model.fit(seed=5, order="position", progress=False).params.tolist()


def central(data):
    model = pr.PrivateOnlineRegression.from_formula("y ~ x + g", data, trust="central", mu=2, **DECLARED)
    return model.fit(seed=5, progress=False).params.tolist()


def means(data):
    return pr.means.estimate(data, formula="x + y + C(g) ~ 1", mu=1, seed=5, **DECLARED).params.tolist()


def federated(data):
    silos = [data, *(people(seed) for seed in range(1, 4))]
    model = pr.federated.FederatedRegression.from_formula(
        "y ~ x + g", silos, family="huber", mu=2, rounds=2, **DECLARED
    )
    return model.fit(seed=5, progress=False).params.tolist()


@pytest.mark.some(3)
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("door", [local, two_collectors, central, means, federated])
def test_every_front_door_reads_the_same_cells(door, tmp_path):
    frame = people()
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_csv(tmp_path / "s.csv", index=False, sep=";")
    frame.to_parquet(tmp_path / "t.parquet")
    table = pa.Table.from_pandas(frame)
    want = door(frame)
    given = [
        tmp_path / "t.csv",
        pr.csv(tmp_path / "s.csv", sep=";"),
        tmp_path / "t.parquet",
        table,
        pl.from_arrow(table),
    ]
    for data in given:
        assert door(data) == want


def test_new_rows_are_read_as_those_of_a_fit():
    frame = people()
    res = pr.PrivateOnlineRegression.from_formula("y ~ x + g", frame, mu=None, **DECLARED).fit(progress=False)
    texts = pd.DataFrame({"x": [" 2", "+1", "01", "\u0661", "true"], "g": ["", "1.0", "01", "a", "1"]})
    values = pd.DataFrame({"x": [2.0, 1, 1, 1, 1], "g": ["", "1", "1", "a", "1"]})
    want = np.asarray(res.predict(values))
    for new in (texts, texts.to_dict("list"), texts.astype("string")):
        np.testing.assert_array_equal(np.asarray(res.predict(new)), want)


# --- Arrow's types ---------------------------------------------------------------------------------------

TEXTS = [pa.string(), pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()]
WHOLE = [pa.int8(), pa.uint8(), pa.int16(), pa.int32(), pa.int64(), pa.uint64()]
REAL = [pa.float16(), pa.float32(), pa.float64(), pa.decimal128(9, 2), pa.decimal128(38, 2), pa.decimal256(50, 2)]


def arrows():
    """One column of every type that holds texts or numbers: 1, 2, a missing value, 3."""
    made = {str(kind): pa.array(["1", "2", None, "3"], kind) for kind in TEXTS}
    made |= {str(kind): pa.array([1, 2, None, 3], kind) for kind in WHOLE}
    made |= {str(kind): pa.array([1.0, 2.0, None, 3.0]).cast(kind) for kind in REAL}
    made["bytes of one width"] = pa.array([b"1", b"2", None, b"3"], pa.binary(1))
    codes = pa.array([0, 1, None, 2], pa.int8())
    for kind in (pa.string(), pa.string_view(), pa.binary(), pa.int64(), pa.float64()):
        values = pa.array(["1", "2", "3"], kind) if kind in TEXTS else pa.array([1, 2, 3], kind)
        made[f"codes of {kind}"] = pa.DictionaryArray.from_arrays(codes, values)
    for kind in ("string", "int64"):
        made[f"runs of {kind}"] = compute.run_end_encode(made[kind])
    return made


@pytest.mark.parametrize("kind", arrows())
@pytest.mark.parametrize("role", ["number", "factor"])
def test_every_type_of_arrows_that_holds_texts_or_numbers_is_read(kind, role, tmp_path):
    schema = ROLES["number"] if role == "number" else Schema.declare({}, {"v": ["1", "2", "3"]}, {})
    want = [1, 2, np.nan, 3] if role == "number" else [0, 1, -1, 2]
    table = pa.table({"v": arrows()[kind]})
    pyarrow.feather.write_feather(table, tmp_path / "t.feather")
    for data in (table, pads.dataset(tmp_path / "t.feather", format="feather"), pads.dataset(table)):
        np.testing.assert_array_equal(read(data, schema), want)
    np.testing.assert_array_equal(np.sort(read(table, schema, dealt=True)), np.sort(want))


def test_an_id_of_bytes_that_are_no_text_is_not_read():
    known = pa.array([b"0" * 16], pa.binary(16))
    table = pa.table({"v": pa.ExtensionArray.from_storage(pa.uuid(), known)}) if hasattr(pa, "uuid") else None
    if table is not None:
        with pytest.raises(pr.errors.DataError, match="of another kind"):
            read(table, ROLES["number"])
