"""The command line: what it prints, what it writes, and what it refuses."""

from __future__ import annotations

import gzip
import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

import privreg as pr
from privreg import datasets
from privreg.base import archive
from privreg.cli.app import VERBS, main
from privreg.cli.values import levels, pairs
from privreg.errors import SchemaError
from privreg.options.table import accepted, of_verb

SENTINEL = "sentinel7319"
FORMULA = "charges ~ age + bmi + smoker"
PUBLIC = ["--bounds", "age=18:65", "bmi=18:50", "--bounds", "charges=0:35000", "--levels", "smoker=no,yes"]
TERMS = ["Intercept", "smoker[T.yes]", "age", "bmi"]


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cli") / "people.csv"
    return datasets.write("us_insurance", path, 3000, progress=False)


@pytest.fixture
def fit(people: Path, capsys: pytest.CaptureFixture[str]):
    """Run ``privreg fit`` with further options; return status, standard output and standard error."""

    def run(*more: object, formula: str = FORMULA, data: Path | None = None, mu: bool = True):
        budget = ["--mu", "1", "--scale", "2500"] if mu else []
        status = main(["fit", formula, str(data or people), *budget, *PUBLIC, *map(str, more)])
        return status, *capsys.readouterr()

    return run


def one_line(err: str) -> str:
    assert err.startswith("privreg: error: ")
    assert err.endswith("\n")
    assert err.count("\n") == 1
    assert "Traceback" not in err
    assert SENTINEL not in err
    return err


def exactly(path: Path) -> pd.DataFrame:
    """Read a table without the rounding that some versions of pandas' reader do."""
    table = pd.read_csv(path, dtype=str)
    kinds = {c: float for c in table.columns} | {"term": str}
    table["reliable"] = table["reliable"] == "True"
    return table.astype(kinds | {"reliable": bool})


def beside_few(err: str) -> str:
    """Standard error but for the warning that so few people are not to be relied on."""
    said = [line for line in err.splitlines(keepends=True) if line.startswith("privreg: warning: don't rely on")]
    assert len(said) <= 1
    return err.replace("".join(said), "")


# --- fit --------------------------------------------------------------------------------------------------


def test_fit_prints_the_summary_with_its_privacy_block(fit):
    status, out, err = fit("--seed", 1)
    assert (status, beside_few(err)) == (0, "")
    assert "few records at this budget" in err
    assert all(term in out for term in TERMS)
    assert "1-GDP" in out
    assert "3,000" in out


@pytest.mark.thorough
def test_every_kind_of_file(fit, tmp_path):
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "txt", "tex", "csv", "json", "privreg")}
    outs = [word for path in files.values() for word in ("--out", path)]
    status, out, err = fit(*outs, "--seed", 1, "--level", 0.9)
    assert (status, beside_few(err)) == (0, "")

    assert files["txt"].read_text("utf-8") == out.replace("More: --details; privacy statement: in report.json\n", "")
    page = files["html"].read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert page.count("<html") == page.count("<body") == 1
    assert '<meta charset="utf-8">' in page
    assert not re.search(r"(src|href)\s*=|@import|url\(", page), "a page must not need another file"
    assert "tabular" in files["tex"].read_text("utf-8")

    loaded = pr.load(files["privreg"])
    table = loaded.tidy(alpha=0.1)
    pd.testing.assert_frame_equal(exactly(files["csv"]), table)
    document = json.loads(files["json"].read_text("utf-8"))
    assert pd.DataFrame(document["coefficients"])["conf_low"].tolist() == table["conf_low"].tolist()
    assert document["reliable"] is False
    assert [row["reliable"] for row in document["coefficients"]] == table["reliable"].tolist() == [False] * 4
    assert document["level"] == 0.9
    assert document["privacy"]["budget"]["mu"] == 1.0
    assert "1-GDP" in document["privacy"]["statement"]["Guarantee"]
    assert any("seed" in note for note in document["privacy"]["notes"])
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in files.values()}


@pytest.mark.thorough
@pytest.mark.parametrize("tuning", ["efficient", "published"])
def test_the_command_gives_the_numbers_of_the_python_call(fit, people, tmp_path, tuning):
    pace = {
        "published": {"lanes": 1, "alpha": 0.7, "step": 2, "batch_size": 2},
        "efficient": {"lanes": 8, "threads": 2},
    }[tuning]
    called = {"alpha": "step-exponent", "batch_size": "batch-size"}
    more = [word for name, value in pace.items() for word in (f"--{called.get(name, name)}", value)]
    fit("--seed", 5, "--out", tmp_path / "t.csv", "--quiet", "--tuning", tuning, *more)
    model = pr.PrivateOnlineRegression.from_formula(
        FORMULA,
        people,
        family=pr.Huber(scale=2500),
        mu=1,
        bounds={"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)},
        levels={"smoker": ["no", "yes"]},
    )
    res = model.fit(seed=5, tuning=tuning, **pace)
    assert len(res.methods) == 1
    pd.testing.assert_frame_equal(exactly(tmp_path / "t.csv"), res.tidy())


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("budget", "printed"),
    [
        (["--epsilon", "1", "--delta", "1e-6"], "(1, 1e-06)-DP"),
        (["--rho", "0.5"], "0.5-zCDP"),
        (["--no-privacy"], "NONE"),
        (["--no-privacy", "--tuning", "published"], "NONE"),
    ],
)
def test_budgets(fit, budget, printed):
    status, out, _ = fit(*budget, "--details", mu=False)
    assert status == 0
    assert printed in " ".join(out.split())


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("tuning", "methods", "word"),
    [
        ("efficient", "between_lanes,random_scaling", "between groups"),
        ("published", "plug_in,random_scaling", "plug-in"),
    ],
)
def test_logistic_with_odds_ratios_and_several_methods(people, tmp_path, capsys, tuning, methods, word):
    frame = pd.read_csv(people).assign(ill=lambda d: (d["charges"] > 17_000).astype(int))
    frame.to_csv(tmp_path / "ill.csv", index=False)
    table, report = tmp_path / "odds.csv", tmp_path / "odds.html"
    command = ["fit", "ill ~ age + C(children)", str(tmp_path / "ill.csv"), "--family", "logistic", "--mu", "2"]
    command += ["--bounds", "age=18:65", "--levels", "children=0,1,2,3,4,5", "--inference", methods]
    assert main([*command, "--tuning", tuning, "--exponentiate", "--out", str(table), "--out", str(report)]) == 0
    out = capsys.readouterr().out
    assert "exp(estimate)" in out
    assert "exp(estimate)" in report.read_text("utf-8")
    odds = pd.read_csv(table)
    assert (odds["estimate"] > 0).all()
    assert "C(children)[T.5]" in odds["term"].tolist()
    assert word in out


def test_offset_moments_published_tuning_and_no_inference(fit):
    status, out, _ = fit(
        "--moments",
        "children=2.5:1.7",
        "--offset",
        "children",
        "--tuning",
        "published",
        "--inference",
        "none",
        "--details",
    )
    assert status == 0
    assert "published" in out


@pytest.mark.thorough
def test_private_scaling_and_whitened_weights(people, capsys):
    command = ["fit", "charges ~ age + bmi", str(people), "--mu", "10", "--scaling", "private"]
    assert main([*command, "--score-weights", "whitened", "--details"]) == 0
    out, err = capsys.readouterr()
    assert beside_few(err) == ""
    assert "covariates uncorrelated, variance 1" in " ".join(out.split())
    assert "bounds" not in out


@pytest.mark.thorough
def test_rows_set_the_rounds_and_are_counted_by_default(people, tmp_path, capsys):
    """Told of more people than come, the fit ends before its main rounds or even its estimates begin, and says so."""
    for more in ([], ["--rows", "3000"]):
        assert main(["fit", FORMULA, str(people), "--mu", "1", "--seed", "1", "--details", *more, *PUBLIC]) == 0
    out, err = capsys.readouterr()
    first, second = out.split("Private Online Regression Results")[1:]
    assert first.split("Guarantee:")[0] == second.split("Guarantee:")[0]
    public = [text.partition("Public: ")[2].partition("All of the")[0] for text in (first, second)]
    assert public[0] == public[1] != ""
    assert err.count("don't rely on") == err.count("\n") == 2
    assert main(["fit", FORMULA, str(people), "--mu", "1", "--rows", "12000", *PUBLIC]) == 0
    out, err = capsys.readouterr()
    assert "no intervals yet: main rounds begin after" in out
    assert "std err" not in out
    assert "don't rely on the estimates of" in err
    assert err.count("\n") == 1
    assert main(["fit", FORMULA, str(people), "--mu", "0.5", "--rows", "3000000", *PUBLIC]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "records set the scales, and 3,000 have reported" in one_line(err)


def test_an_opt_out_warns_in_one_line_and_is_printed(people, capsys):
    command = ["fit", "charges ~ age + smoker", str(people), "--mu", "1", "--allow-leak", "scale", "levels"]
    assert main(command) == 0
    out, err = capsys.readouterr()
    lines = beside_few(err).splitlines()
    assert len(lines) == 2
    assert all(line.startswith("privreg: warning: ") for line in lines)
    assert "--allow-leak: " in out


@pytest.mark.thorough
def test_declarations_may_come_before_the_file(people, capsys):
    for words in ([*PUBLIC, FORMULA, str(people)], [FORMULA, *PUBLIC, str(people)], [FORMULA, str(people), *PUBLIC]):
        assert main(["fit", "--mu", "1", *words]) == 0, capsys.readouterr().err


@pytest.mark.thorough
def test_quiet_prints_nothing(fit, tmp_path):
    assert fit("--quiet", "--out", tmp_path / "t.csv") == (0, "", "")


# --- refusals ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--out", "report.pdf"], ".html"),
        (["--out", "no-such-folder/report.html"], "folder"),
        (["--quiet"], "--out"),
        (["--rho", "1"], "--mu and --rho"),
        (["--level", "95"], "--level"),
        (["--tuning", "published", "--step-exponent", "1.5"], "--step-exponent"),
        (["--tuning", "published", "--step-exponent", "0.3"], "--step-exponent"),
        (["--bounds", "age"], "NAME=LOW:HIGH"),
        (["--bounds", "--levels", "x=a,b"], "--bounds"),
        (["--moments"], "--moments"),
        (["--bounds", "age=18:65"], "twice"),
        (["--levels", "smoker=no,yes"], "twice"),
        (["--levels", "x=a,,b"], "empty"),
        (["--tuning", "efficent"], "'efficient'"),
        (["--inference", "bootstrap"], "random_scaling"),
        (["--family", "logistic"], "--scale"),
        (["--score-weights", "none"], "unit"),
        (["--bound", "age=1:2"], "--bounds"),
        (["--mu", "one"], "--mu"),
        (["--mu", "-1"], "positive"),
        (["--out", "a.pdf"], ".docx"),
        (["--tuning", "published", "--batch-size", "0"], "--batch-size 0"),
        (["--lanes", "0"], "lanes"),
        (["--lanes", "2"], "a power of two from 8 to 64"),
        (["--threads", "0"], "threads"),
        (["--inference", "plug_in_central"], "--tuning published"),
        (["--tuning", "published", "--inference", "between_lanes"], "--tuning efficient"),
        (["--score-weights", "published"], "--tuning published"),
        (["--scaling", "secret"], "'private'"),
        (["--scaling", "private", "--allow-leak", "scale"], "keep one"),
        (["--allow-leak", "all"], "levels"),
    ],
)
def test_refusals_are_one_line_that_names_the_fix(fit, more, said):
    status, out, err = fit(*more)
    assert (status, out) == (2, "")
    assert said in one_line(err)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["fti"], "'fit'"),
        (["fit"], "FORMULA"),
        (["--versoin"], "--version"),
        (["fit", "y ~ x", "none.csv", "--mu", "1", "--bounds", "x=0:1", "y=0:1"], "no file"),
        (["fit", "y ~ x", "none.csv"], "--mu 1"),
        (
            ["fit", "y ~ x", "none.csv", "--bounds", "x=2020-01-01", "2020-12-31"],
            "declarations have none: --bounds age=18:65",
        ),
        (["fit", "y ~ x", "none.csv", "--mu", "1", "--bounds", "x=0:1 y=0:1"], "holds several declarations"),
        (["fit", "y ~ x", "none.csv", "--mu", "1", "--bounds", "x=0:1,y=0:1"], "holds several declarations"),
        (["fit", "y ~ x", "none.csv", "--mu", "1", "--bounds", "x:18:90", "y=0:1"], "must read NAME=LOW:HIGH"),
        (["fit", "y ~ x", "none.csv", "--bounds", "y=0:1", "x=0", "1"], "declarations have none: --bounds"),
        (["fit", "y ~ x", "none.csv", "--mu", "1"], "--bounds"),
        (["fit", "y ~ x.mean()", "none.csv", "--mu", "1", "--bounds", "x=0:1", "y=0:1"], "x.mean()"),
        (["data", "us-insurence", "people.csv"], "'us-insurance'"),
        (["plan", "y ~ x", "--mu", "1", "--width", "x=20,30"], "--width: 'x' has several numbers"),
        (["plan", "y ~ x", "--mu", "1", "--params", "x=1:2"], "--params: 'x=1:2' must read NAME=B"),
        (["plan", "y ~ x", "--mu", "1", "--level", "95"], "--level 95.0 must be in (0, 1)"),
        (["data", "us-insurance", "people.csv", "--rows", "0"], "rows"),
        (["data", "us-insurance", "no-such-folder/people.csv"], "can't write"),
    ],
)
def test_more_refusals(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert said in one_line(err)
    assert list(tmp_path.iterdir()) == []


def test_the_data_are_never_overwritten_by_a_report(fit, people):
    before = people.read_bytes()
    status, _, err = fit("--out", people.parent / "." / people.name)
    assert status == 2
    assert "overwrite" in one_line(err)
    assert people.read_bytes() == before


def said(err: str) -> list[str]:
    """What stands on stderr but that few people came."""
    return [line for line in err.splitlines() if "warning: don't rely on" not in line]


@pytest.mark.some(2)
@pytest.mark.parametrize("column", ["age", "smoker", "charges"])
@pytest.mark.parametrize("leak", [[], ["--allow-leak", "levels"]])
def test_no_value_of_a_row_reaches_the_terminal_and_old_files_stay(fit, people, tmp_path, column, leak):
    frame = pd.read_csv(people).astype({column: object})
    frame.loc[1500, column] = SENTINEL
    bad, report = tmp_path / "bad.csv", tmp_path / "report.html"
    frame.to_csv(bad, index=False)
    report.write_text("old")
    status, out, err = fit("--out", report, "--missing", "raise", *leak, data=bad)
    assert (status, out) == (2, "")
    assert column in one_line(err)
    assert report.read_text() == "old"
    status, out, err = fit("--out", report, "--seed", 1, *leak, data=bad)
    assert (status, said(err)) == (0, [])
    assert "3,000" in out
    page = report.read_text("utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert SENTINEL not in out + page
    assert {p.name for p in tmp_path.iterdir()} == {"bad.csv", "report.html"}


def test_a_broken_file_is_named_without_its_cells(fit, people, tmp_path):
    bad = tmp_path / "bad.csv.gz"
    bad.write_bytes(gzip.compress(people.read_bytes().replace(b"\n", f" {SENTINEL}\n".encode(), 1))[:-40])
    status, out, err = fit(data=bad)
    assert (status, out) == (2, "")
    assert "bad.csv.gz" in one_line(err)


def test_an_open_quote_in_a_file_tells_no_cell(fit, people, tmp_path):
    bad = tmp_path / "bad.csv"
    lines = people.read_text().splitlines()
    lines[20] = f'"{SENTINEL}{lines[20]}'
    bad.write_text("\n".join(lines))
    status, out, err = fit("--seed", 1, data=bad)
    assert (status, said(err)) == (0, [])
    assert SENTINEL not in out
    status, out, err = fit("--missing", "raise", data=bad)
    assert (status, out) == (2, "")
    assert "column 'age'" in one_line(err) or "column 'charges'" in err


def test_the_text_of_an_unexpected_exception_is_withheld(fit, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError(SENTINEL)

    monkeypatch.setattr(pr.PrivateOnlineRegression, "fit", fail)
    status, out, err = fit()
    assert (status, out) == (70, "")
    assert "RuntimeError" in one_line(err)


def test_one_file_that_cannot_be_written_costs_neither_the_others_nor_the_summary(fit, tmp_path, monkeypatch):
    opened = os.open

    def full(path: object, *more: int, **others: object) -> int:
        if ".a.csv." in str(path):
            raise OSError(28, "No space left on device")
        return opened(path, *more, **others)

    monkeypatch.setattr(archive.os, "open", full)
    status, out, err = fit("--out", tmp_path / "a.csv", "--out", tmp_path / "b.json")
    assert status == 2
    assert "a.csv" in one_line(beside_few(err))
    assert "1-GDP" in out
    assert (tmp_path / "b.json").exists()


# --- interruptions ----------------------------------------------------------------------------------------


def interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_an_interrupted_fit_leaves_files_as_they_were(fit, tmp_path, monkeypatch):
    from privreg.simulation.streaming.stream import Stream

    report = tmp_path / "report.html"
    report.write_text("old")
    monkeypatch.setattr(Stream, "_take", interrupt)
    status, out, err = fit("--out", report)
    assert (status, out) == (130, "")
    assert err.count("\n") == 1
    assert report.read_text() == "old"


def test_an_interrupted_data_set_leaves_the_old_file(tmp_path, monkeypatch, capsys):
    target = tmp_path / "rides.csv"
    target.write_text("old")
    monkeypatch.setattr(pd.DataFrame, "to_csv", interrupt)
    assert main(["data", "ride-sharing", str(target), "--rows", "100"]) == 130
    assert target.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["rides.csv"]
    assert "Traceback" not in capsys.readouterr().err


# --- declarations -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("no,yes", ["no", "yes"]),
        ("0,1,-2", [0, 1, -2]),
        ("0.5,1", [0.5, 1.0]),
        ("1e3,.5", [1000.0, 0.5]),
        ("True,False", [True, False]),
        ("false,true", [False, True]),
        ("01,02", [1, 2]),
        ("nan,inf", ["nan", "inf"]),
        ("1,2,other", ["1", "2", "other"]),
        ("Blue collar, White collar", ["Blue collar", "White collar"]),
        ('"1","2"', [1, 2]),
        ('"Smith, A.",other', ["Smith, A.", "other"]),
        ('"say ""no""",b=c', ['say "no"', "b=c"]),
        ("<30,30+", ["<30", "30+"]),
    ],
)
def test_levels_rule(text, expected):
    got = levels([f"x={text}"])["x"]
    assert got == expected
    assert [type(v) for v in got] == [type(v) for v in expected]


@pytest.mark.parametrize("text", ["x", "=a,b", "x=", "x=a,", "x=,a", 'x="a', 'x=a"b"', 'x="a"b'])
def test_malformed_levels(text):
    with pytest.raises(SchemaError, match="--levels"):
        levels([text])


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("cells", "declared"),
    [
        (["1", "2"], "1,2"),
        (["01", "02"], "01,02"),
        (["True", "False"], "false,true"),
        (["0.5", "1.0"], "0.5,1"),
        (["1", "other"], "1,other"),
    ],
)
def test_declared_levels_match_the_cells_of_a_csv(cells, declared, tmp_path, capsys):
    path = tmp_path / "d.csv"
    path.write_text("y,g\n" + "\n".join(f"{i % 7},{cells[i % 2]}" for i in range(2000)))
    command = ["fit", "y ~ C(g)", str(path), "--mu", "10", "--bounds", "y=0:6", "--levels", f"g={declared}"]
    assert main(command) == 0, capsys.readouterr().err


def test_bounds_take_negative_infinite_and_odd_names():
    read = pairs("--bounds", ["x=-4:4", "y=-inf:inf", "a=b=1e3:2.5e4"], "NAME=LOW:HIGH")
    assert read == {"x": (-4.0, 4.0), "y": (float("-inf"), float("inf")), "a=b": (1000.0, 25000.0)}


@pytest.mark.parametrize("text", ["x", "x=", "x=1", "x=1:2:3", "x=a:b", "=1:2", "people.csv"])
def test_malformed_bounds(text):
    with pytest.raises(SchemaError, match="NAME=LOW:HIGH"):
        pairs("--bounds", [text], "NAME=LOW:HIGH")


# --- data, help, ways to start ----------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("name", ["us-insurance", "ride-sharing"])
def test_data_prints_provenance_and_a_command_that_works(name, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["data", name, "--rows", "2000", "some rows.csv", "--seed", "3"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert "reconstruction" in out
    assert len(pd.read_csv("some rows.csv")) == 2000
    words = shlex.split(out[out.index("privreg fit") :].replace("\\\n", " "))
    assert main([*words[1:], "--seed", "3"]) == 0  # noise alone marks all of some fits, and the exit status says so
    assert "region" not in out


def test_a_plan_for_a_sample_lists_the_effects_that_tests_find(capsys):
    arguments = ["plan", "y ~ x", "--mu", "1", "--scale", "1", "--bounds", "x=0:1", "y=-3:3", "--n", "5000"]
    assert main([*arguments, "--power", "0.8"]) == 0
    row = capsys.readouterr().out.strip().splitlines()[-1].split()
    found = pr.plan("y ~ x", mu=1, n=5000, scale=1, bounds={"x": (0, 1), "y": (-3, 3)}).table(power=0.8)
    assert row[0] == "x"
    assert float(row[-1]) == pytest.approx(found.loc["x", "detectable"], abs=5e-4)


def test_help_has_examples(capsys):
    for arguments in (
        [],
        ["--help"],
        ["fit", "--help"],
        ["data", "--help"],
        ["plan", "--help"],
        ["means", "--help"],
        ["schema", "--help"],
    ):
        assert main(arguments) == 0
        out = capsys.readouterr().out
        assert "examples:\n  privreg " in out
        assert ("Surv(start, stop, event, [...])" in out) == (arguments == ["fit", "--help"])


REACHES = {
    "fit": ("local.formula", "local.fit"),
    "means": ("means.formula", "means.fit"),
    "plan": ("plan.formula",),
    **dict.fromkeys(("data", "schema"), ()),
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_in_its_help_and_reaches_its_front_door(verb, capsys):
    assert main([verb, "--help"]) == 0
    out = capsys.readouterr().out
    for option in of_verb(verb):
        assert (option.metavar if option.kind.startswith("word") else f"  {option.spelt}") in out
        assert not option.doors or [d for d in REACHES[verb] if accepted(d).get(option.name) is option], option.name


@pytest.mark.parametrize("verb", VERBS)
def test_help_speaks_of_what_the_verb_takes_in_the_shells_words(verb, capsys):
    main([verb, "--help"])
    out = capsys.readouterr().out
    taken = {option.metavar for option in of_verb(verb) if option.kind.startswith("word")}
    for option in of_verb(verb):
        assert not re.search(r"\b[a-z]\w*=(?![\w:])", option.help), option.name  # Python's way of naming an option
        assert "DATA" not in option.help or "DATA" in taken, option.name
        assert set(re.findall(r"--[a-z-]+[a-z]", option.help)) <= {o.spelt for o in of_verb(verb)}, option.name
    words = {"plan": ["dispersion", "events", "mean", "silos if"], "means": ["sums of answers", "1.41 mu"]}
    assert [word for word in words.get(verb, []) if word not in " ".join(out.split())] == []


@pytest.mark.parametrize(("typed", "near"), [("--frob", ""), ("--bound", "--bounds"), ("--mumax", "--mu-max")])
def test_an_option_that_is_near_is_guessed_and_no_other(typed, near, capsys):
    assert main(["fit", "y ~ x", "people.csv", typed, "1"]) == 2
    assert ("Did you mean" in (said := capsys.readouterr().err)) == bool(near)
    assert f"there is no option {typed}." in said
    assert near in said


@pytest.mark.thorough
def test_help_imports_nothing_heavy():
    code = "import sys; from privreg.cli.app import main; main(['fit', '--help']); print(sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = done.stdout.splitlines()[-1]
    assert [m for m in ("numpy", "pandas", "numba", "patsy", "scipy") if f"'{m}'" in loaded] == []


def test_python_dash_m_and_a_reader_that_has_gone(tmp_path):
    start = [sys.executable, "-m", "privreg"]
    done = subprocess.run([*start, "--version"], capture_output=True, text=True, check=True)
    assert done.stdout == f"privreg {pr.__version__}\n"
    read, write = os.pipe()
    os.close(read)
    command = [*start, "data", "us-insurance", "--rows", "50", str(tmp_path / "people.csv")]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (141, "")


# --- what the README says ---------------------------------------------------------------------------------

README = Path(__file__).resolve().parents[2] / "README.md"


@pytest.mark.parametrize("marker", ["run", "test"])
def test_readme_commands_are_one_line_each(marker):
    text = README.read_text("utf-8")
    assert text.count(f"<!-- newcomer: {marker} -->") == 1
    assert re.search(rf"^<!-- newcomer: {marker} -->\n```bash\n[^\n]+\n```\n", text, re.M)


@pytest.mark.thorough
def test_readme_fit_runs_on_fewer_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    line = next(s for s in README.read_text("utf-8").splitlines() if "&& .venv/bin/privreg fit" in s)
    commands = [shlex.split(part)[1:] for part in line.split(" && ") if ".venv/bin/privreg" in part]
    assert [c[0] for c in commands] == ["data", "fit"]
    assert main([word.replace("1000000", "2000") for word in commands[0]]) == 0
    assert main(commands[1]) == 0, capsys.readouterr().err
    assert "std err" in capsys.readouterr().out


@pytest.mark.thorough
def test_a_fit_is_kept_on_the_way(fit, tmp_path):
    kept = tmp_path / "run.privreg"
    status, out, _ = fit("--checkpoint", kept, "--checkpoint-rows", 1000)
    assert status == 0
    assert "age" in out
    assert not kept.exists()
    status, _, err = fit("--checkpoint-rows", 1000)
    assert status == 2
    assert "--checkpoint-rows is for fits with a checkpoint; give --checkpoint run.privreg too" in one_line(err)


@pytest.mark.parametrize("verb", ["fit", "means"])
def test_a_level_that_leaves_nothing_is_refused_before_anybody_reports(verb, tmp_path, capsys):
    path = tmp_path / "people.csv"
    path.write_text("x,y\n" + "0.5,1\n" * 50)
    formula = "y ~ x" if verb == "fit" else "x + y ~ 1"
    out = tmp_path / "out.txt"
    call = [verb, formula, str(path), "--mu", "1", "--bounds", "x=0:1", "y=0:2", "--out", str(out)]
    assert main([*call, "--level", "0.9999999999999"]) == 2
    said = capsys.readouterr().err
    assert "--level 0.9999999999999 must be a number in (0, 1)" in said
    assert not out.exists()


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("files", "where"),
    [
        ([], "in FILE.json, if --out FILE.json is given"),
        (["a.txt", "a.json"], "in a.json"),
        (["a.privreg"], "privreg.load('a.privreg').privacy"),
    ],
)
def test_the_shell_is_told_where_the_privacy_statement_is(fit, tmp_path, files, where):
    _, out, _ = fit(*(part for name in files for part in ("--out", tmp_path / name)))
    assert f"privacy statement: {where}" in " ".join(out.split())
    assert "res.privacy" not in "".join((tmp_path / f).read_text() for f in files if f.endswith(".txt"))


@pytest.mark.thorough
def test_a_file_with_other_marks_is_read_as_it_says(people, tmp_path, capsys):
    """The same rows with commas, with semicolons and decimal commas, and with tabs."""
    frame = pd.read_csv(people)
    frame.to_csv(tmp_path / "people.csv", index=False)  # which no other test has fitted
    frame.to_csv(tmp_path / "marks.csv", index=False, sep=";", decimal=",")
    frame.to_csv(tmp_path / "tabs.tsv", index=False, sep="\t")
    said = []
    files = (
        [tmp_path / "people.csv"],
        [tmp_path / "marks.csv", "--sep", ";", "--decimal", ","],
        [tmp_path / "tabs.tsv", "--sep", "tab"],
    )
    for file in files:
        words = ["fit", FORMULA, *map(str, file), "--mu", "1", *PUBLIC, "--seed", "1"]
        assert main(words) == 0
        means = ["means", "bmi ~ 1", *map(str, file), "--mu", "1", "--bounds", "bmi=18:50", "--seed", "1"]
        assert main(means) == 0
        said.append(re.sub(r"(people|marks)\.csv|tabs\.tsv", "", capsys.readouterr().out))
    assert said[1] == said[2] == said[0]
    assert main(["fit", FORMULA, str(tmp_path / "marks.csv"), "--mu", "1", *PUBLIC]) == 2
    assert "at the shell --sep and --decimal" in one_line(capsys.readouterr().err)


def test_a_level_with_an_equals_sign_is_quoted():
    assert levels(['g="1=a",b']) == {"g": ["1=a", "b"]}
    with pytest.raises(SchemaError, match="has two '='; write a first level that has one in quotes"):
        levels(["g=1=a,b"])


@pytest.mark.some(1)
@pytest.mark.parametrize("quiet", [False, True])
def test_levels_that_match_no_record_are_said_on_standard_error(tmp_path, capsys, quiet):
    data = pd.DataFrame({"x": [0.25, 0.75] * 5_000, "g": ["A", "A", "B", "B"] * 2_500, "y": [0.1, 0.9] * 5_000})
    data.to_csv(tmp_path / "people.csv", index=False)
    out = tmp_path / "fit.csv"
    asked = ["--mu", "1", "--bounds", "x=0:1", "y=0:1", "--out", str(out), *(["--quiet"] if quiet else [])]
    command = ["fit", "y ~ x + g", str(tmp_path / "people.csv"), *asked]
    assert main([*command, "--levels", "g=a,b"]) == 3  # as R and statsmodels stop without a complete record
    assert "most records seem to have sent noise only" in capsys.readouterr().err
    assert not exactly(out)["reliable"].any()
    assert main([*command, "--levels", "g=A,B"]) == 0
    assert "noise only" not in capsys.readouterr().err
