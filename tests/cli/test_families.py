"""The command line: families and their options, budgets, mechanisms, and the people behind the rows."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import VERBS, main, parsers, spread
from privreg.cli.values import OWN, budget, family, given
from privreg.families import FAMILIES

N = 3000
BOUNDS = {"age": (18, 65), "years": (0.5, 5), "income": (0, 200)}
LEVELS = {"smoker": ["no", "yes"], "travel": ["car", "bus", "bicycle"], "size": [1, 2, 3]}
PUBLIC = ["--bounds", *(f"{c}={low}:{high}" for c, (low, high) in BOUNDS.items())]
PUBLIC += ["--levels", *(f"{c}={','.join(map(str, v))}" for c, v in LEVELS.items())]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    "more", [["--family", "cox"], ["--family", "CoxPH"], ["--event", "died"], ["--time", "months"]]
)
@pytest.mark.parametrize(
    "verb", [["fit", "months ~ age", "x.csv"], ["plan", "months ~ age"], ["means", "months ~ 1", "x.csv"]]
)
def test_times_until_an_event_are_written_into_the_formula(verb, more, capsys):
    assert main([*verb, "--mu", "1", *more]) == 2
    assert ("Surv(time, event, [6, 12, 24]) ~ x" in capsys.readouterr().err) == (
        verb[0] != "means" or more[0] != "--family"
    )


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(4)
    age = rng.uniform(18, 65, N)
    years = rng.uniform(0.5, 5, N)
    frame = pd.DataFrame(
        {
            "age": age,
            "years": years,
            "income": np.clip(rng.gamma(3, 15, N) + age, 0, 200),
            "smoker": rng.choice(LEVELS["smoker"], N),
            "travel": rng.choice(LEVELS["travel"], N),
            "size": rng.integers(1, 4, N),
            "visits": rng.poisson(0.5 * years),
            "person": np.arange(N) // 2,
            "budget": rng.uniform(0.5, 1, N),
        }
    )
    path = tmp_path_factory.mktemp("families") / "people.csv"
    frame.to_csv(path, index=False)
    return path


@pytest.fixture
def fit(people: Path, capsys: pytest.CaptureFixture[str]):
    """Run ``privreg fit``; return status, standard output and standard error."""

    def run(formula: str, *more: object, budget: tuple[object, ...] = ("--mu", 1)):
        status = main(["fit", formula, str(people), *PUBLIC, *map(str, (*budget, *more))])
        return status, *capsys.readouterr()

    return run


@pytest.fixture
def model(people: Path):
    """The Python call with the same declarations."""

    def make(formula: str, **options: object) -> pr.PrivateOnlineRegression:
        given = {"mu": 1, **options} if not {"epsilon", "rho"} & set(options) else options
        return pr.PrivateOnlineRegression.from_formula(formula, people, bounds=BOUNDS, levels=LEVELS, **given)

    return make


def refused(result, *said: str) -> str:
    status, out, err = result
    assert (status, out) == (2, "")
    assert err.startswith("privreg: error: ")
    assert err.count("\n") == 1
    assert [s for s in said if s not in err] == [], err
    return err


# --- the same numbers as the Python call ------------------------------------------------------------------

SAME = {
    "huber": ("income ~ age", ["--c", 1, "--scale", 30], {"family": pr.Huber(1.0, 30.0)}),
    "expectile": (
        "income ~ age",
        ["--family", "expectile", "--tau", 0.8, "--scale", 30],
        {"family": pr.Expectile(0.8, scale=30.0)},
    ),
    "quantile of one variable": (
        "income ~ 1",
        ["--family", "quantile", "--tau", 0.9],
        {"family": pr.Quantile(0.9)},
    ),
    "median": ("income ~ age", ["--family", "quantile"], {"family": pr.Quantile()}),
    "logistic": ("smoker ~ age", ["--family", "logistic"], {"family": pr.Logistic()}),
    "multinomial": ("travel ~ age", ["--family", "multinomial"], {"family": pr.Multinomial()}),
    "multinomial of numbers": ("size ~ age", ["--family", "multinomial"], {"family": pr.Multinomial()}),
    "poisson with exposure": (
        "visits ~ age",
        ["--family", "poisson", "--y-max", 8, "--exposure", "years"],
        {"family": pr.Poisson(8), "exposure": "years"},
    ),
    "robust poisson": (
        "visits ~ age",
        ["--family", "poisson", "--y-max", 8, "--c", 1.5],
        {"family": pr.Poisson(8, c=1.5)},
    ),
    "hinge": ("smoker ~ age", ["--family", "Hinge"], {"family": pr.Hinge()}),
    "smoothed hinge": (
        "smoker ~ age",
        ["--family", "smoothed-hinge", "--width", 0.5],
        {"family": pr.SmoothedHinge(0.5)},
    ),
    "smoothed hinge by its other name": (
        "smoker ~ age",
        ["--family", "smoothed_hinge"],
        {"family": pr.SmoothedHinge()},
    ),
    "squared": ("income ~ age", ["--family", "squared"], {"family": pr.Squared()}),
    "people": (
        "income ~ age",
        ["--id", "person", "--max-per-id", 2, "--missing", "noise"],
        {"id": "person", "max_per_id": 2, "missing": "noise"},
    ),
    "response": ("income ~ age", ["--private", "response"], {"private": "response"}),
    "laplace": ("income ~ age", ["--mechanism", "laplace"], {"mechanism": "laplace"}),
}


def said(err: str) -> list[str]:
    """What stands on stderr but the warning that so few people are not to be relied on."""
    return [line for line in err.splitlines() if "warning: don't rely on" not in line]


@pytest.mark.thorough
@pytest.mark.some(5)
@pytest.mark.parametrize("case", SAME)
def test_the_command_gives_the_numbers_of_the_python_call(fit, model, tmp_path, case):
    formula, more, options = SAME[case]
    status, out, err = fit(formula, *more, "--seed", 3, "--out", tmp_path / "t.csv", "--out", tmp_path / "t.json")
    assert (status, said(err)) == (0, [])
    want = model(formula, **options).fit(seed=3, progress=False)
    table = want.tidy()
    got = pd.read_csv(tmp_path / "t.csv")
    assert list(got) == list(table)
    for column in table:
        if table[column].dtype.kind == "f":
            np.testing.assert_allclose(got[column], table[column], rtol=1e-12)
        else:
            assert got[column].astype(str).tolist() == table[column].astype(str).tolist()
    document = json.loads((tmp_path / "t.json").read_text("utf-8"))
    assert document["family"] == repr(want.family)
    assert [list(row) for row in document["coefficients"]] == [list(table)] * len(table)
    assert [row["estimate"] for row in document["coefficients"]] == table["estimate"].tolist()
    assert re.sub(r"Releases:.*?\n\S", "", out, flags=re.S)[:300] == str(want.summary().as_text())[:300]


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("budget", "options", "printed"),
    [
        (["--epsilon", 1], {"epsilon": 1.0}, "1-DP, pure"),
        (["--epsilon", 1, "--delta", "1e-6"], {"epsilon": 1.0, "delta": 1e-6}, "(1, 1e-06)-DP"),
        (["--mu", "budget", "--mu-max", 1], {"mu": "budget", "mu_max": 1.0}, "1-GDP"),
    ],
)
def test_budgets(fit, model, tmp_path, budget, options, printed):
    status, out, err = fit("income ~ age", "--seed", 3, "--details", "--out", tmp_path / "t.csv", budget=budget)
    assert (status, said(err)) == (0, [])
    assert printed in " ".join(out.split())
    want = model("income ~ age", **options).fit(seed=3, progress=False).tidy()
    np.testing.assert_allclose(pd.read_csv(tmp_path / "t.csv")["estimate"], want["estimate"], rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("travel ~ age + smoker", ["--family", "multinomial"]),
        ("size ~ age", ["--family", "multinomial"]),
        ("visits ~ age", ["--family", "poisson", "--y-max", 8]),
        ("income ~ 1", ["--family", "quantile"]),
    ],
)
def test_every_kind_of_file(fit, tmp_path, formula, more):
    files = {kind: tmp_path / f"report.{kind}" for kind in ("html", "txt", "tex", "csv", "json", "privreg")}
    outs = [word for path in files.values() for word in ("--out", path)]
    status, out, err = fit(formula, *more, *outs)
    assert (status, said(err)) == (0, [])
    assert files["txt"].read_text("utf-8") == out.replace("More: --details; privacy statement: in report.json\n", "")
    assert "tabular" in files["tex"].read_text("utf-8")
    assert "<table" in files["html"].read_text("utf-8")
    loaded = pr.load(files["privreg"]).tidy()
    rows = json.loads(files["json"].read_text("utf-8"))["coefficients"]
    assert rows == json.loads(json.dumps(loaded.to_dict("records")))
    assert len(pd.read_csv(files["csv"])) == len(rows)


@pytest.mark.thorough
def test_measures_of_fit_are_printed_with_what_they_cost(fit):
    status, out, _ = fit("income ~ age", "--measures", 0.2)
    assert status == 0
    assert "Released: R²:" in out
    assert "instead of a score" in " ".join(out.split())
    refused(fit("income ~ age", "--measures", 0.9), "--measures 0.9 must be a number in (0, 0.5)")


def test_a_joint_scale_is_of_the_published_chain(fit):
    status, out, _ = fit("income ~ age", "--c", 1.345, "--scale", "joint", "--tuning", "published")
    assert status == 0
    assert "estimated jointly" in out
    refused(fit("income ~ age", "--scale", "joint"), "give --tuning published to fit or start with --trust local")


@pytest.mark.thorough
def test_a_multinomial_table_has_a_column_of_levels(fit, tmp_path):
    status, out, _ = fit("travel ~ age", "--family", "multinomial", "--exponentiate", "--out", tmp_path / "t.csv",
                         "--out", tmp_path / "t.html")  # fmt: skip
    assert status == 0
    table = pd.read_csv(tmp_path / "t.csv")
    assert table["level"].tolist() == ["bus", "bus", "bicycle", "bicycle"]
    assert table["term"].tolist() == ["Intercept", "age"] * 2
    assert (table["estimate"] > 0).all()
    assert "exp(estimate)" in out
    assert "exp(estimate)" in (tmp_path / "t.html").read_text("utf-8")


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("visits ~ age", ["--family", "poisson", "--y-max", 8]),
        ("np.log(income + 1) ~ age", ["--family", "quantile"]),
        ("np.log(income + 1) ~ age", []),
    ],
)
def test_exponentiate(fit, formula, more):
    status, out, _ = fit(formula, *more, "--exponentiate")
    assert status == 0
    assert "exp(estimate)" in out


# --- refusals ---------------------------------------------------------------------------------------------

REFUSALS = {
    "tau of huber": (["--tau", 0.5], ["--tau", "--family expectile or --family quantile", "not to --family huber"]),
    "y_max of huber": (["--y-max", 5], ["--y-max belongs to --family poisson"]),
    "width of hinge": (["--family", "hinge", "--width", 1], ["--width belongs to --family smoothed_hinge"]),
    "c of quantile": (["--family", "quantile", "--c", 1], ["--c belongs to --family huber or --family expectile"]),
    "scale of squared": (["--family", "squared", "--scale", 1], ["--scale belongs to"]),
    "poisson without y_max": (["--family", "poisson"], ["--y-max 20"]),
    "poisson with c alone": (["--family", "poisson", "--c", 1.5], ["--y-max 20"]),
    "counts without y_max": (["--family", "negative_binomial"], ["--y-max 20"]),
    "tobit without limits": (["--family", "tobit"], ["--family tobit needs a limit", "--low 0, --high 9"]),
    "tobit's limits swapped": (["--family", "tobit", "--low", 5, "--high", 1], ["--low 5.0, --high 1.0: give a limit"]),
    "no such family": (["--family", "hubber"], ["--family='hubber'", "Did you mean 'huber'?"]),
    "another library's name": (["--family", "binomial"], ["Did you mean 'logistic'?"]),
    "tau out of range": (["--family", "quantile", "--tau", 90], ["--tau 90", "(0, 1)"]),
    "width zero": (["--family", "smoothed-hinge", "--width", 0], ["--width 0", "positive"]),
    "y_max zero": (["--family", "poisson", "--y-max", 0], ["--y-max 0", "largest count"]),
    "c of poisson": (["--family", "poisson", "--y-max", 8, "--c", 20], ["--c 20", "0.5 to 10"]),
    "exp of a line": (
        ["--exponentiate"],
        ["error: --exponentiate is for", "rate ratios of Poisson()", "this is Huber("],
    ),
    "exp of a quantile": (["--family", "quantile", "--exponentiate"], ["--exponentiate", "this is Quantile(0.5)"]),
    "mechanism": (["--mechanism", "gausian"], ["Did you mean 'gaussian'?"]),
    "mechanism of another name": (["--mechanism", "rr"], ["Did you mean 'randomized_response'?"]),
    "private": (["--private", "label"], ["Did you mean 'response'?"]),
    "missing": (["--missing", "none"], ["Did you mean 'noise'?"]),
    "max_per_id alone": (["--max-per-id", 2], ["--max-per-id 2", "--id person"]),
    "max_per_id zero": (["--id", "person", "--max-per-id", 0], ["--max-per-id 0", "1 or more"]),
    "id a covariate": (["--id", "age"], ["--id age", "column of the model too"]),
    "mu_max alone": (["--mu-max", 2], ["--mu column"]),
    "exposure undeclared": (["--exposure", "visits"], ["--exposure visits", "--bounds visits=LOW:HIGH"]),
    "multinomial of a number": (["--family", "multinomial"], ["models levels", "--levels income=A,B"]),
}


@pytest.mark.parametrize("case", REFUSALS)
def test_refusals_are_one_line_that_names_the_fix(fit, case):
    more, said = REFUSALS[case]
    refused(fit("income ~ age", *more), *said)


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (["--mu", "budget"], ["--mu budget names a column", "--mu-max 1"]),
        (["--mu", 1, "--delta", 1e-6], ["got mu and epsilon/delta", "--epsilon 1.0, --delta 1e-6"]),
        (["--mu", 1, "--epsilon", 1], ["got --mu and --epsilon"]),
        (["--epsilon", 1, "--mu-max", 1], ["--mu-max", "--mu column"]),
        (["--mu", "budgets", "--mu-max", 1], ["budgets"]),
        (["--mu", "budget", "--mu-max", 0.8], ["above --mu-max 0.8", "a larger --mu-max"]),
        (["--mu", "age", "--mu-max", 100], ["--mu age is a column of the model too"]),
        (["--mu", "nan"], ["--mu nan", "positive"]),
        (["--epsilon", 1e13], ["1e-12 to 1e12"]),
        ([], ["got none", "--epsilon 1 alone for pure"]),
    ],
)
def test_refused_budgets(fit, budget, said):
    refused(fit("income ~ age", budget=budget), *said)


def test_nothing_is_spent_on_a_fit_that_is_refused(fit, tmp_path, monkeypatch):
    monkeypatch.setattr(pr.PrivateOnlineRegression, "fit", lambda *_, **__: pytest.fail("fitted"))
    refused(fit("smoker ~ age", "--family", "smoothed-hinge", "--exponentiate"), "--exponentiate", "hyperplane")
    refused(fit("income ~ age", "--family", "squared", "--exponentiate"), "--exponentiate", "this is Squared()")


# --- help -------------------------------------------------------------------------------------------------


def test_families_and_their_options_are_those_of_the_package():
    import inspect

    assert set(OWN) == set(FAMILIES)
    for name, make in FAMILIES.items():
        assert set(OWN[name]) == set(inspect.signature(make).parameters)


@pytest.mark.thorough
def test_help_has_groups_and_examples_that_parse(capsys):
    assert main(["fit", "--help"]) == 0
    out = capsys.readouterr().out
    assert "\nmechanism:\n" in out
    assert "\npeople:\n" in out
    for name in FAMILIES:
        assert name in out
    assert max(map(len, out.splitlines())) <= 100
    examples = out[out.index("examples:") : out.index("how levels are read")].replace("\\\n", " ")
    commands = [shlex.split(line)[1:] for line in examples.splitlines() if line.startswith("  privreg")]
    assert len(commands) == 9
    for words in commands:
        a = parsers(VERBS, {})[0].parse_args(spread(words))
        assert budget(a)
        assert family(a)[0] in FAMILIES
        assert "missing" not in given(a, "local.formula")  # it is the default
