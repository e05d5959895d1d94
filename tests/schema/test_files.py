"""Declarations in files: read as they are meant, refused where they aren't clear, written whole, compared with data."""

import json
import math

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import privreg as pr
from privreg import datasets
from privreg.cli.app import main
from privreg.data.inspect import described, mismatches, template
from privreg.datasets import examples
from privreg.errors import (
    DataError,
    MissingExtraError,
    OptionError,
    PrivregError,
    SavedFileError,
    SchemaError,
)

FULL = pr.Schema.declare(
    {"age": (18, 65), "pay": (0, 1e100), "free": (-math.inf, math.inf), "no": (0, 0.1)},
    {"smoker": ["no", "yes"], "code": ["012", "12:30", "1e5", "null", "~", ""], "n": [1, 2.5], "flag": [False, True]},
    {"free": (0.1, 3), "x1": (1e-7, 2), ("x1", "free"): -0.25},
)
TEXT = """
bounds:
  age: [18, 65]
  pay: [0, 1e5]
levels:
  smoker: ["no", "yes"]
  clinic: [3, 1, 2.5, -1]
  flag: [false, true]
  region: [north, south, 'on']
moments:
  x1: [0, 1]
  x2: [5, 2]
correlations:
  - [x2, x1, 0.9]
"""


def file(tmp_path, text, name="schema.yaml"):
    path = tmp_path / name
    path.write_text(text)
    return path


def read(tmp_path, text, name="schema.yaml"):
    return pr.Schema.from_file(file(tmp_path, text, name))


# --- reading and writing -----------------------------------------------------------------------------------


def test_a_file_says_what_the_arguments_say(tmp_path):
    want = pr.Schema.declare(
        {"age": (18, 65), "pay": (0, 1e5)},
        {
            "smoker": ["no", "yes"],
            "clinic": [3, 1, 2.5, -1],
            "flag": [False, True],
            "region": ["north", "south", "on"],
        },
        {"x1": (0, 1), "x2": (5, 2), ("x1", "x2"): 0.9},
    )
    found = read(tmp_path, TEXT)
    assert found == want
    assert [type(v) for v in found.levels["clinic"]] == [int, int, float, int]
    assert pr.Schema.from_file(str(tmp_path / "schema.yaml")) == want


@pytest.mark.parametrize("name", ["s.yaml", "s.yml", "s.json"])
@pytest.mark.parametrize("schema", [FULL, pr.Schema.declare(), pr.Schema.declare(**datasets.us_insurance_schema())])
def test_what_is_written_is_read_back(name, schema, tmp_path):
    schema.to_file(tmp_path / name)
    back = pr.Schema.from_file(tmp_path / name)
    assert back == schema
    assert [list(map(type, v)) for v in back.levels.values()] == [list(map(type, v)) for v in schema.levels.values()]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "s.yaml"
    FULL.to_file(path)
    monkeypatch.setattr("os.fsync", lambda _: (_ for _ in ()).throw(OSError(28, "no space left")))
    with pytest.raises(SavedFileError, match="no space left"):
        pr.Schema.declare({"a": (0, 1)}).to_file(path)
    assert pr.Schema.from_file(path) == FULL
    assert [p.name for p in tmp_path.iterdir()] == ["s.yaml"]


def test_what_was_learned_from_rows_is_no_declaration(tmp_path):
    data = pd.DataFrame({"x": np.linspace(0, 1, 99), "y": np.linspace(0, 1, 99)})
    with pytest.warns(pr.PrivacyLeakWarning):
        leaked = pr.PrivateOnlineRegression.from_formula(
            "y ~ x", data, mu=1, bounds={"y": (0, 1)}, allow_leak="scale"
        ).schema
    with pytest.raises(SchemaError, match=r"'x' were taken from the rows"):
        leaked.to_file(tmp_path / "s.json")
    with pytest.raises(SchemaError, match=r"'x' were taken from the rows"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", data, mu=1, schema=leaked)
    assert not list(tmp_path.iterdir())


WRONG = {
    "no mapping": ("- 1", "it holds a list"),
    "another key": ("bound: {}", "there is no key 'bound'.* Did you mean 'bounds'"),
    "bounds of one": ("bounds: {age: [1]}", r"bounds\['age'\] is a list of 1; it must be a pair"),
    "bounds of words": ("bounds: {age: [low, 3]}", r"bounds\['age'\] is \('low', 3\)"),
    "bounds the wrong way": ("bounds: {age: [3, 1]}", r"bounds\['age'\] = \(3, 1\) is empty"),
    "bounds not filled in": ("bounds:\n  age: []", r"bounds\['age'\] is empty; fill it in"),
    "level not filled in": ("levels:\n  g:", r"levels\['g'\] is empty; fill it in"),
    "levels a text": ("levels: {g: abc}", r"levels\['g'\] must be a list"),
    "levels twice": ("levels: {g: [a, a]}", r"levels\['g'\] names a level twice"),
    "a kind twice": ("bounds: {g: [0, 1]}\nlevels: {g: [a, b]}", "'g' declared as a factor .* and as a number"),
    "a section twice": ("bounds: {a: [0, 1]}\nbounds: {b: [0, 1]}", "line 2: the key 'bounds' of the file is given tw"),
    "a column twice": ("bounds:\n  a: [0, 1]\n  a: [0, 2]", "line 3: the key 'a' of bounds is given twice"),
    "a column's name no text": ("bounds:\n  no: [0, 1]", "line 2: a key of bounds is read as no string; quote it"),
    "a column's name a number": ("bounds:\n  1: [0, 1]", "line 2: a key of bounds is read as no string"),
    "merged": ("bounds:\n  <<: {a: [0, 1]}", "line 2: a key of bounds is read as no string"),
    "no and yes": ("levels: {smoker: [no, yes]}", r"levels\['smoker'\] has the unquoted level 'no'.*quote it, \"no\""),
    "on": ("levels: {smoker: [a, On]}", "unquoted level 'On'"),
    "octal": ("levels: {code: [010, 011]}", "unquoted level '010'"),
    "base 60": ("levels: {code: [12:30, 12:31]}", "unquoted level '12:30'"),
    "underscores": ("levels: {code: [1_000, 2]}", "unquoted level '1_000'"),
    "a number that is a text": ("levels: {code: [1e5, 2]}", "unquoted level '1e5'"),
    "a date": ("levels: {code: [2020-01-01, a]}", "unquoted level '2020-01-01'"),
    "null": ("levels: {code: [null, a]}", "unquoted level 'null'"),
    "not YAML": ("bounds: [", "not readable as YAML at line"),
    "correlation": ("moments: {a: [0, 1]}\ncorrelations: {a: 1}", r"must be a list of \[column, column, correlation\]"),
    "correlation of one": ("correlations: [[a, 0.5]]", "must be a list of"),
    "correlation twice": ("correlations: [[a, b, 0.5], [b, a, 0.5]]", "has 'b' and 'a' twice"),
    "correlation of nothing": ("correlations: [[a, b, 0.5]]", "correlation of 'a', which has no moments"),
}


CORRELATED = "moments: {a: [0, 1], b: [0, 1]}\ncorrelations: [[a, b, N]]"
ODD = ["065", "-010", "+07", "1:30", "1:30:00", "1:30.5", "0x1F", "0b101", "1_000", "1_0.5", "0o17_", "018", "09.5"]


@pytest.mark.parametrize("number", ODD)
@pytest.mark.parametrize("where", ["bounds: {a: [-99, N]}", "moments:\n  a: [N, 9999]", CORRELATED])
def test_numbers_that_yaml_reads_otherwise_are_refused(number, where, tmp_path):
    with pytest.raises(
        SchemaError, match=r"^schema\.yaml: (line \d: YAML takes|.* it must be a pair of n|.* is a number above)"
    ):
        read(tmp_path, where.replace("N", number))


@pytest.mark.parametrize("number", ["0", "-1", "+5", "65.", ".5", "0.5", "1e3", "1.5e+3", "-0.25", "120"])
def test_numbers_in_decimal_are_what_they_look_like(number, tmp_path):
    found = read(tmp_path, f"bounds: {{a: [-99, {number}]}}\nmoments: {{b: [{number}, 1]}}")
    assert found.bounds["a"][1] == found.moments["b"][0] == float(number)


@pytest.mark.parametrize("what", WRONG)
def test_wrong_files_are_told_by_file_and_key(what, tmp_path):
    text, match = WRONG[what]
    with pytest.raises(SchemaError, match=rf"^schema\.yaml: (?s:.*){match}") as caught:
        read(tmp_path, text)
    assert caught.value.__cause__ is None
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("text", "match"),
    [
        ('{"bounds": {"a": [0, 1], "a": [0, 2]}}', "the key 'a' is given twice"),
        ('{"bounds": {"a": [0, "many"]}}', r"bounds\['a'\]"),
        ('{"bounds": {"a": [0, NaN]}}', r"bounds\['a'\]"),
        ("{", "not readable as JSON"),
        ("[" * 100_000, "not readable as JSON"),
        ('{"levels": {"g": [[1], [2]]}}', r"levels\['g'\]: levels are strings"),
    ],
)
def test_wrong_json(text, match, tmp_path):
    with pytest.raises(SchemaError, match=rf"^s\.json: {match}"):
        read(tmp_path, text, "s.json")


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "text",
    [
        "!!python/object/apply:os.system ['touch ran']",
        "bounds: !!python/object/apply:os.system ['touch ran']",
        "bounds: {a: !!python/name:os.system }",
        "levels: {a: [!!python/object/apply:os.system ['touch ran'], b]}",
        "bounds: &a {b: *a}",
        "a: &a [x, x]\nb: &b [*a, *a]\nlevels: {c: [*b, *b]}",
        "[" * 2_000,
    ],
)
def test_nothing_is_executed_or_expanded(text, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SchemaError, match=r"^schema\.yaml: "):
        read(tmp_path, text)
    assert not (tmp_path / "ran").exists()


def test_files_that_are_no_schema(tmp_path, monkeypatch):
    with pytest.raises(SchemaError, match="there is no schema"):
        pr.Schema.from_file(tmp_path / "none.yaml")
    with pytest.raises(SchemaError, match=r"'people.csv' is no schema by its suffix"):
        pr.Schema.from_file(file(tmp_path, "age\n31415\n", "people.csv"))
    with pytest.raises(SchemaError, match="larger than any schema"):
        read(tmp_path, "#" * (1 << 20) + "\n")
    with pytest.raises(SchemaError, match="or the path of a file, got dict"):
        pr.PrivateOnlineRegression.from_formula("y ~ x", None, mu=1, schema={"age": (1, 2)})
    (tmp_path / "latin.yaml").write_bytes(b"\xe9")
    with pytest.raises(SchemaError, match="a text file in UTF-8"):
        pr.Schema.from_file(tmp_path / "latin.yaml")
    with pytest.raises(SchemaError, match=r"name it \.yaml"):
        FULL.to_file(tmp_path / "s.txt")
    monkeypatch.setitem(__import__("sys").modules, "yaml", None)
    with pytest.raises(MissingExtraError, match=r'needs yaml.*pip install "\.\[yaml\]"'):
        read(tmp_path, TEXT)
    assert pr.Schema.from_file(file(tmp_path, '{"bounds": {"a": [0, "inf"]}, "moments": {"a": [0, 1]}}'.replace(
        "0, \"inf\"", '"-inf", "inf"'), "s.json")).bounds == {"a": (-math.inf, math.inf)}  # fmt: skip


# --- beside declarations in Python -------------------------------------------------------------------------


def declared(schema, formula="age ~ x1 + x2 + smoker", **more):
    return pr.PrivateOnlineRegression.from_formula(formula, None, mu=1, schema=schema, **more).schema


def test_arguments_take_precedence_column_by_column(tmp_path):
    path = file(tmp_path, TEXT)
    assert declared(path) == declared(pr.Schema.from_file(path)) == pr.Schema.from_file(path)
    found = declared(
        str(path),
        bounds={"age": (0, 100), "x1": (-4, 4)},
        levels={"smoker": ["yes", "no"]},
        moments={"x2": (0, 3), ("x1", "x2"): 0.5},
    )
    base = pr.Schema.from_file(path)
    assert found.bounds == {**base.bounds, "age": (0, 100), "x1": (-4, 4)}
    assert found.levels == {**base.levels, "smoker": ("yes", "no")}
    assert found.moments == {"x1": (0, 1), "x2": (0, 3)}
    assert found.correlations == {("x1", "x2"): 0.5}


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({"levels": {"age": ["a", "b"]}}, "'age' is a number in the schema and a factor in levels="),
        ({"levels": {"x1": ["a", "b"]}}, "'x1' is a number in the schema and a factor in levels="),
        ({"bounds": {"smoker": (0, 1)}}, "'smoker' is a factor in the schema and a number in bounds="),
        ({"moments": {"smoker": (0, 1)}}, "'smoker' is a factor in the schema and a number in moments="),
        ({"bounds": {"age": (3, 1)}}, r"^bounds\['age'\] = \(3, 1\) is empty"),
    ],
)
def test_kinds_that_contradict_each_other(given, match, tmp_path):
    with pytest.raises(SchemaError, match=match):
        declared(file(tmp_path, TEXT), **given)


@pytest.mark.thorough
def test_a_fit_by_a_file_is_the_fit_by_arguments(tmp_path):
    data, public = datasets.us_insurance(3000), datasets.us_insurance_schema()
    pr.Schema.declare(**public).to_file(tmp_path / "schema.yaml")

    def fit(**given):
        made = pr.PrivateOnlineRegression.from_formula("charges ~ age + bmi + smoker", data, mu=1, **given)
        return made.fit(seed=1, progress=False).params.to_numpy().tobytes()

    assert fit(schema=tmp_path / "schema.yaml") == fit(**public)


# --- the command line --------------------------------------------------------------------------------------


def run(capsys, *words):
    status = main([str(w) for w in words])
    return status, *capsys.readouterr()


@pytest.fixture
def folder(tmp_path):
    data = datasets.us_insurance(2000)
    data.to_parquet(tmp_path / "people.parquet")
    data.to_csv(tmp_path / "people.csv", index=False)
    pr.Schema.declare(**datasets.us_insurance_schema()).to_file(tmp_path / "schema.yaml")
    return tmp_path


@pytest.mark.thorough
def test_fit_takes_a_schema(folder, capsys):
    given = ("fit", "charges ~ age + smoker", folder / "people.parquet", "--mu", 1, "--seed", 1)
    words = ("--bounds", "age=18:65", "charges=0:35000", "--levels", "smoker=no,yes")
    for out, said in (("a.csv", ("--schema", folder / "schema.yaml")), ("b.csv", words)):
        assert run(capsys, *given, *said, "--out", folder / out, "--quiet")[0] == 0
    assert (folder / "a.csv").read_bytes() == (folder / "b.csv").read_bytes()
    wider = ("--bounds", "age=0:100", "charges=0:35000", "--levels", "smoker=no,yes")
    for out, said in (("c.csv", ("--schema", folder / "schema.yaml", "--bounds", "age=0:100")), ("d.csv", wider)):
        assert run(capsys, *given, *said, "--out", folder / out, "--quiet")[0] == 0
    assert (folder / "a.csv").read_bytes() != (folder / "c.csv").read_bytes() == (folder / "d.csv").read_bytes()
    status, _, err = run(capsys, *given, "--schema", folder / "schema.yaml", "--out", folder / "schema.yaml")
    assert status == 2
    assert "suffix" in err


def test_check_finds_nothing_wrong_with_what_fits(folder, capsys):
    for name, looked in (("people.parquet", "names and types"), ("people.csv", "a CSV file has no types")):
        status, out, err = run(capsys, "schema", "check", folder / name, folder / "schema.yaml")
        assert (status, err) == (0, "")
        assert "nothing found" in out
        assert looked in out
        assert "no row." in out


def test_check_tells_names_and_types_and_nothing_of_the_rows(tmp_path, capsys):
    secret = "SECRET-31415"
    data = pd.DataFrame(
        {
            "x1": [secret] * 9,
            "Age": 31415.0,
            "g": 31415,
            "h": secret,
            "when": pd.Timestamp("2031-04-15"),
            "flag": True,
            "y": 31415.0,
            secret: 1.0,
        }
    )
    schema = file(
        tmp_path,
        """
        bounds: {x1: [0, 1], age: [18, 65], when: [0, 1], flag: [0, 1], y: [0, 1]}
        levels: {g: [a, b], h: [1, 2]}
        """,
    )
    data.to_parquet(tmp_path / "p.parquet")
    pq.write_table(pa.Table.from_pandas(data), tmp_path / "arrow.parquet")
    for name in ("p.parquet", "arrow.parquet"):
        status, out, err = run(capsys, "schema", "check", tmp_path / name, schema)
        assert (status, err) == (2, "")
        lines = [line.partition(": ")[2] for line in out.splitlines() if line.startswith("  ")]
        assert len(lines) == 5
        assert "5 mismatches" in out
        assert "column 'g' is of type number and its declared levels are texts" in lines[0]
        assert "column 'h' is of type text and its declared levels are not; quote them" in lines[1]
        assert "column 'x1' is of type text and is declared a number" in lines[2]
        assert "column 'age' is missing" in lines[3]
        assert "Did you mean 'Age'" in lines[3]
        assert "column 'when' is of type date and its bounds are numbers; give dates as bounds" in lines[4]
        assert "31415" not in out.replace(str(tmp_path), "")
    status, out, _ = run(capsys, "schema", "check", tmp_path / "p.parquet", schema, "--formula", "y ~ flag + z")
    assert status == 2
    assert "1 mismatch\n" in out
    assert "column 'z' is missing" in out


def test_check_says_the_same_whatever_the_rows_are(tmp_path, capsys):
    schema = file(tmp_path, "bounds: {x: [0, 1]}\nlevels: {g: [a, b]}")
    told = set()
    for x, g in ((0.5, "a"), (1e9, "other"), (np.nan, None)):
        table = pa.table({"x": pa.array([x] * 9, pa.float64()), "g": pa.array([g] * 9, pa.string())})
        pq.write_table(table, tmp_path / "p.parquet")
        told.add(run(capsys, "schema", "check", tmp_path / "p.parquet", schema))
    assert len(told) == 1


def test_every_file_of_a_folder_is_checked(tmp_path):
    (tmp_path / "d").mkdir()
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "d" / "a.parquet")
    pd.DataFrame({"x": ["1.0"]}).to_parquet(tmp_path / "d" / "b.parquet")
    schema = pr.Schema.declare({"x": (0, 1)})
    assert [len(mismatches(schema, f)) for f in described(tmp_path / "d")] == [0, 1]


def test_a_template_is_filled_in(folder, capsys):
    out = folder / "new.yaml"
    status, said, _ = run(capsys, "schema", "template", folder / "people.parquet", "--out", out)
    assert status == 0
    assert "fill in" in said
    with pytest.raises(SchemaError, match=r"^new\.yaml: bounds\['age'\] is empty; fill it in"):
        pr.Schema.from_file(out)
    text = out.read_text()
    for name, (low, high) in datasets.us_insurance_schema()["bounds"].items():
        text = text.replace(f'"{name}": []', f'"{name}": [{low}, {high}]')
    for name, levels in datasets.us_insurance_schema()["levels"].items():
        text = text.replace(f'"{name}": []', f'"{name}": {json.dumps(levels)}')
    out.write_text(text)
    assert pr.Schema.from_file(out) == pr.Schema.from_file(folder / "schema.yaml")
    assert run(capsys, "schema", "template", folder / "people.parquet", "--out", out)[0] == 2  # it may be filled in
    assert run(capsys, "schema", "template", folder / "people.parquet")[1].startswith("# Public declarations")


def test_a_template_of_a_csv_file_has_every_column_and_no_value(tmp_path, capsys):
    path = tmp_path / "people.csv"
    path.write_text('Alter in Jahren;g;"Größe (cm)"\n41;secret;170,5\n')
    text = template(path, pr.csv(path, sep=";"))
    assert [text.count(f'  "{name}": []') for name in ("Alter in Jahren", "g", "Größe (cm)")] == [2, 2, 2]
    assert run(capsys, "schema", "template", path, "--sep", ";")[1] == text
    path.write_text('Alter in Jahren;g;"Größe (cm)"\n')  # nothing but the header is read
    assert template(path, pr.csv(path, sep=";")) == text
    with pytest.raises(DataError, match="separated by semicolons"):
        template(path)
    for first in ("41,yes\n", "a,,b\n"):
        path.write_text(first + "42,no,x\n")
        with pytest.raises(DataError, match="its first line looks like a row") as caught:
            template(path)
        assert "41" not in str(caught.value)


@pytest.mark.parametrize(
    "words", [["chek", "d"], ["check", "d"], ["template", "d", "s"], ["template", "d", "--formula", "y ~ x"]]
)
def test_wrong_words(words, capsys):
    status, out, err = run(capsys, "schema", *words)
    assert (status, out) == (2, "")
    assert err.startswith("privreg: error: ")


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["people.parquet", "people.pq", "people.csv"])
def test_data_writes_by_the_suffix_with_its_schema(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    status, out, _ = run(capsys, "data", "us-insurance", name, "--rows", 3000, "--schema", "schema.yaml")
    assert status == 0
    assert f"{name} --mu 1 \\\n      --schema schema.yaml" in out
    assert pr.Schema.from_file("schema.yaml") == pr.Schema.declare(**datasets.us_insurance_schema())
    assert sorted(p.name for p in tmp_path.iterdir()) == [name, "schema.yaml"]
    assert run(capsys, "schema", "check", name, "schema.yaml")[0] == 0
    formula = ("charges ~ age + smoker", name, "--mu", 1, "--schema", "schema.yaml")
    assert run(capsys, "fit", *formula)[0] == 0


def test_parquet_holds_the_rows_of_the_frame_a_block_a_group(tmp_path, monkeypatch):
    monkeypatch.setattr(examples, "BLOCK", 1000)
    path = datasets.write("us-insurance", tmp_path / "p.parquet", 2500, seed=3, progress=False)
    frame = datasets.us_insurance(2500, seed=3)
    found = pd.read_parquet(path)
    for column in frame:
        assert found[column].tolist() == frame[column].tolist()
    assert pq.read_metadata(path).num_row_groups == 3
    assert pr.PrivateOnlineRegression.from_formula(
        "charges ~ age", path, mu=1, schema=pr.Schema.declare(**datasets.us_insurance_schema())
    )._expected() == 2500  # fmt: skip


def test_a_failed_parquet_leaves_the_target_as_it_was(tmp_path, monkeypatch):
    target = tmp_path / "p.parquet"
    target.write_text("kept")
    monkeypatch.setattr(examples, "BLOCK", 1000)
    inner, seen = examples.frame_of, []

    def fail_on_the_second(*args, **kwargs):
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return inner(*args, **kwargs)

    monkeypatch.setattr(examples, "frame_of", fail_on_the_second)
    with pytest.raises(KeyboardInterrupt):
        datasets.write("us_insurance", target, 2000, progress=False)
    assert target.read_text() == "kept"
    assert [p.name for p in tmp_path.iterdir()] == ["p.parquet"]


def test_data_refuses_other_files(tmp_path, capsys):
    for words in (["p.feather"], ["p.csv", "--schema", "s.txt"], ["s.yaml", "--schema", "s.yaml"]):
        status, _, err = run(capsys, "data", "us-insurance", *[tmp_path / w if "." in w else w for w in words])
        assert status == 2
        assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())
    assert issubclass(OptionError, PrivregError)


def test_levels_come_from_an_index_a_categorical_or_its_dtype():
    order = ["hi", "lo"]
    given = {
        "index": pd.Index(order),
        "values": pd.Categorical(["lo", "hi", "lo"], categories=order),
        "dtype": pd.CategoricalDtype(order),
    }
    assert pr.Schema.declare(levels=given).levels == dict.fromkeys(given, ("hi", "lo"))
