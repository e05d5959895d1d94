"""``privreg means``: what it prints, what it writes, and what it refuses."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg import datasets
from privreg.cli.app import main

FORMULA = "age + bmi + C(smoker) ~ 1"
PUBLIC = ["--bounds", "age=18:65", "bmi=18:50", "--levels", "smoker=no,yes"]


@pytest.fixture(scope="module")
def people(tmp_path_factory):
    return datasets.write("us_insurance", tmp_path_factory.mktemp("cli") / "people.csv", 3000, progress=False)


@pytest.fixture
def run(people, capsys):
    def go(*more, formula=FORMULA, data=None, budget=("--epsilon", "1")):
        status = main(["means", formula, str(data or people), *budget, *PUBLIC, *map(str, more)])
        return status, *capsys.readouterr()

    return go


@pytest.mark.thorough
def test_it_prints_what_python_prints(run, people):
    status, out, err = run("--seed", 1)
    options = {"bounds": {"age": (18, 65), "bmi": (18, 50)}, "levels": {"smoker": ["no", "yes"]}}
    res = pr.means.estimate(people, FORMULA, epsilon=1, seed=1, progress=False, **options)
    assert (status, err) == (0, "")
    assert out.split("Guarantee:")[0] == res.summary().as_text().split("Guarantee:")[0]


@pytest.mark.thorough
def test_it_writes_every_kind_of_file(run, tmp_path):
    files = [
        tmp_path / f"means{kind}" for kind in (".txt", ".md", ".docx", ".html", ".tex", ".csv", ".json", ".privreg")
    ]
    status, out, err = run("--quiet", *[w for f in files for w in ("--out", f)], "--level", 0.9)
    assert (status, out, err) == (0, "", "")
    table = pd.read_csv(tmp_path / "means.csv")
    told = json.loads((tmp_path / "means.json").read_text())
    assert table["term"].tolist() == ["age", "bmi", "smoker[no]", "smoker[yes]"]
    assert [e["estimate"] for e in told["estimates"]] == pytest.approx(table["estimate"].tolist())
    again = pr.load(tmp_path / "means.privreg").tidy(alpha=0.1)
    assert again["conf_low"].tolist() == pytest.approx(table["conf_low"].tolist())
    assert "[0.05" in (tmp_path / "means.txt").read_text()
    assert "<table" in (tmp_path / "means.html").read_text()
    assert r"\toprule" in (tmp_path / "means.tex").read_text()


SURVIVAL = "Surv(time, event, [20, 40, 60]) ~ C(arm)"


@pytest.mark.parametrize("beside", ["", "cut(time, 4) + "])
def test_survival_prints_curves_and_no_cells(beside, tmp_path, capsys):
    rng = np.random.default_rng(1)
    time, arm = rng.exponential(50, 5000), rng.choice(["a", "b"], 5000)
    people = pd.DataFrame({"time": np.minimum(time, 80), "event": (time <= 80).astype(int), "arm": arm})
    people.to_csv(tmp_path / "people.csv", index=False)
    formula = beside + SURVIVAL.replace("C(arm)", "1") if beside else SURVIVAL
    out = [tmp_path / f"curves{kind}" for kind in (".csv", ".json", ".privreg")]
    given = ["--mu", "1", "--trust", "central", "--levels", "arm=a,b", "--bounds", "time=0:120", "--seed", "1"]
    assert (
        main(["means", formula, str(tmp_path / "people.csv"), *given, *(w for f in out for w in ("--out", f"{f}"))])
        == 0
    )
    printed, err = capsys.readouterr()
    assert err == ""
    assert "survival" in printed
    assert "event[1]" not in printed
    assert ("time[0 to 30]" in printed) == bool(beside)
    curves = pr.load(out[2]).survival()
    assert str(curves).split("\n5,000 records")[0].splitlines()[-1] in printed
    told = json.loads(out[1].read_text())
    if not beside:
        assert pd.read_csv(out[0])["survival"].tolist() == pytest.approx(curves.frame()["survival"].tolist())
        assert told["curves"][0]["survival"] == pytest.approx(curves.frame()["survival"].iloc[0])
    assert main(["show", str(out[2])]) == 0
    assert "event[1]" not in capsys.readouterr().out


def test_a_formula_and_a_file_are_needed(capsys):
    assert main(["means", "age"]) == 2
    assert "arguments are required: DATA" in capsys.readouterr().err


def test_subgroups_have_their_own_lines(people, capsys):
    words = ["means", "age", str(people), "--epsilon", "2", *PUBLIC, "--by", "smoker", "--by-budget", "no=0.5"]
    assert main(words) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:1] for line in lines[-2:]] == [["no"], ["yes"]]
    assert main([*words, "--by-budget", "no=0.5"]) == 2
    assert "twice" in capsys.readouterr().err


@pytest.mark.some(3)
@pytest.mark.parametrize(
    ("more", "words"),
    [
        (["--epsilon", "0"], "epsilon"),
        (["--mu", "1"], "exactly one budget"),
        (["--m", "9"], "from 1 to d = 5, the items there are, counting for every number whether there is one"),
        (["--m", "9", "--missing", "raise"], "from 1 to d = 3"),
        (["--mechanism", "piecewize"], "Did you mean 'piecewise'"),
        (["--level", "2"], "--level"),
        (["--out", "x.pdf"], "suffix"),
        (["--out", "/nowhere/x.csv"], "folder"),
        (["--quiet"], "--out"),
        (["--by-budget", "north"], "GROUP=NUMBER"),
        (["--epsilonn", "1"], "--epsilon"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(run, more, words):
    status, out, err = run(*more)
    assert (status, out) == (2, "")
    assert words in err
    assert err.count("\n") == 1


def test_help_answers_without_the_packages(capsys):
    assert main(["means", "--help"]) == 0
    assert "--by-budget" in capsys.readouterr().out


@pytest.mark.some(1)
@pytest.mark.parametrize("verb", ["fit", "means"])
@pytest.mark.parametrize("trust", ["local", "two_collectors"])
def test_a_run_of_unusable_records_does_not_exit_as_done(tmp_path, monkeypatch, capsys, verb, trust):
    """As R and statsmodels fail without a complete record; the note it goes by is learned from reports."""
    monkeypatch.chdir(tmp_path)
    Path("gone.csv").write_text("x,y\n" + 5_000 * ",0.5\n")
    Path("there.csv").write_text("x,y\n" + "".join(f"{k % 100},{k % 7}\n" for k in range(5_000)))
    formula = "y ~ x" if verb == "fit" else "x ~ 1"
    public = [
        "--bounds",
        "x=0:100",
        *(["y=0:7"] if verb == "fit" else []),
        "--mu",
        "4",
        "--seed",
        "1",
        "--trust",
        trust,
    ]
    assert main([verb, formula, "there.csv", *public]) == 0
    assert main([verb, formula, "gone.csv", *public, "--out", "gone.privreg"]) == 3
    _, err = capsys.readouterr()
    assert "most records seem to have sent noise only" in err
    assert main(["show", "gone.privreg"]) == 0
