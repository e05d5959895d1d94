"""What new users run into: each message names what to write, in the words of the place where it is read."""

import ast
import io
import pickle
import re
import threading
import time
import tomllib
from contextlib import nullcontext
from functools import cache
from pathlib import Path

import numba
import numpy as np
import pandas as pd
import pytest

import privreg as pr
import privreg_field
from privreg import errors
from privreg.cli import app
from privreg.data.sources.csv import _count_lines, open_csv
from privreg.data.sources.source import Wanted
from privreg.errors import (
    BudgetError,
    DataError,
    FormulaError,
    InferenceError,
    NotPrivateError,
    OptionError,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.options.running import COMPILING, progress_bar, waiting
from privreg.options.spelling import in_shell, in_study
from privreg.options.table import DOORS, accepted, of_verb
from privreg.options.unknown import OPTIONS
from privreg.privacy.ledger import UNSET
from privreg.results.results import PrivateResults
from privreg.tables.diagnostics import CODES
from privreg_field.study.declaring import declared
from tests.databases import sqlite
from tests.wrong import results

N = 4000
BOX = {"age": (18, 90), "y": (0, 100)}
LEVELS = {"g": ["no", "yes"]}


@cache
def people():
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"age": rng.uniform(18, 90, N), "g": rng.choice(["no", "yes"], N)})
    data["y"] = 20 + 0.5 * data["age"] + rng.normal(0, 3, N)
    data["sick"] = (rng.uniform(size=N) < 0.4).astype(float)
    return data.assign(weight=70.0)


def regression(formula="y ~ age + g", data=None, **options):
    given = {"mu": 2, "bounds": BOX, "levels": LEVELS, **options}
    return pr.PrivateOnlineRegression.from_formula(formula, people() if data is None else data, **given)


def means(formula="age + C(g) ~ 1", data=None, **options):
    given = {"mu": 2, "bounds": BOX, "levels": LEVELS, **options}
    return pr.means.PrivateMeans.from_formula(formula, people() if data is None else data, **given)


def curator(formula="y ~ age + g", data=None, **options):
    given = {"epsilon": 1, "delta": 1e-6, "bounds": BOX, "levels": LEVELS, **options}
    return pr.central.Regression.from_formula(formula, people() if data is None else data, **given)


def silos(formula="sick ~ age", **options):
    data = people()
    given = {"mu": 2, "bounds": BOX, **options}
    return pr.federated.FederatedRegression.from_formula(formula, [data[:2000], data[2000:]], **given)


def plan(formula="y ~ age + g", **options):
    return pr.plan(formula, **{"mu": 2, "n": 10_000, "bounds": BOX, "levels": LEVELS, **options})


@cache
def fitted():
    return regression(mu=1).fit(seed=1, progress=False)


# --- levels, formulas, budgets ----------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("make", [regression, means, curator])
@pytest.mark.parametrize("found", [" yes", "SECRET-LEVEL"])
def test_spaces_in_levels_are_hinted_at_whatever_the_data_hold(make, found):
    data = people().assign(g=people()["g"].where(people()["g"] == "no", found)).copy()
    with pytest.raises(SchemaError) as caught:
        make(data=data, missing="raise").fit(seed=1, progress=False)
    said = str(caught.value)
    assert "among its declared levels ['no', 'yes']" in said
    assert "' yes' with a space is not 'yes'" in said
    assert "SECRET" not in said
    with pytest.raises(SchemaError) as other:
        make(data=data.assign(g="other"), missing="raise").fit(seed=1, progress=False)
    assert said == str(other.value)


@pytest.mark.some(2)
@pytest.mark.parametrize("make", [regression, curator])
@pytest.mark.parametrize("found", [" yes", "SECRET-LEVEL"])
def test_of_undeclared_levels_nothing_is_told_but_what_reports_tell(make, found):
    data = people().assign(g=people()["g"].where(people()["g"] == "no", found)).copy()
    res = make(data=data).fit(seed=1, progress=False)
    others = data.assign(g=data["g"].replace(found, "other")).copy()  # other people, for the ledger
    other = make(data=others).fit(seed=1, progress=False)
    assert str(res.summary()) == str(other.summary())
    assert "SECRET" not in str(res.summary())
    if make is regression:
        (note,) = (n for n in res.privacy.notes if "sent noise only" in n)
        assert "declared levels" in note


def test_spaces_in_declared_levels_are_seen():
    with pytest.raises(SchemaError, match=r"\['no', ' yes'\]"):
        regression(levels={"g": ["no", " yes"]}, missing="raise").fit(progress=False)


@pytest.mark.parametrize("make", [regression, curator, silos, plan])
@pytest.mark.parametrize("formula", ["y = age", "y == age", "y <- age"])
def test_an_equation_is_told_its_tilde(make, formula):
    with pytest.raises(FormulaError, match="has no '~'; write 'y ~ age'"):
        make(formula)


def test_an_equation_of_means_is_told_its_tilde():
    with pytest.raises(FormulaError, match="write 'age ~ 1'"):
        means("age = 1")


@pytest.mark.parametrize("formula", ["y ~ bs(x, df=3)", "y", "I(a == 1)", "a <= 2", "f(x, k=1)", "= x", "x ="])
def test_what_is_no_equation_is_not_taken_for_one(formula):
    assert errors.equation(formula) is None


@pytest.mark.parametrize("make", [regression, means, plan, silos])
@pytest.mark.parametrize("mu", [0, -1, float("nan"), 1e13])
def test_a_wrong_budget_is_told_what_is_allowed_and_usual(make, mu):
    with pytest.raises(BudgetError, match=r"1e-12 to 1e12 \(or None for a fit without privacy\); 0.5 to 2 is usual"):
        make(mu=mu)


def test_a_tiny_budget_that_is_divided_names_the_division():
    for make in (means, silos):
        with pytest.raises(BudgetError, match="so must each column's or round's share of it"):
            make(mu=UNSET, epsilon=1e-12)


@pytest.mark.parametrize("make", [regression, means, curator])
def test_bounds_without_a_span_that_can_be_computed_with(make):
    with pytest.raises(SchemaError, match=r"bounds\['age'\] = \(0, 4.94066e-324\) span less than 1e-100"):
        make(bounds={**BOX, "age": (0, 5e-324)})
    with pytest.raises(SchemaError, match="sd > 0, 1e-100 at least"):
        regression(bounds={"y": (0, 100)}, moments={"age": (0, 5e-324)})


def test_a_federated_fit_of_a_number_names_the_family():
    with pytest.raises(FormulaError, match="family='huber'"):
        silos("y ~ age")


# --- hints name options that are there --------------------------------------------------------------------


@pytest.mark.parametrize("make", [curator, silos, plan])
@pytest.mark.parametrize("formula", ["sick ~ weight", "sick ~ C(weight)", "sick ~ C(age)"])
def test_undeclared_columns_are_told_options_that_the_call_has(make, formula):
    with pytest.raises(SchemaError) as caught:
        make(formula, family="logistic")
    assert "scaling" not in str(caught.value)
    assert "allow_leak" not in str(caught.value)


KNOWN = {
    "plan": (plan, accepted("plan.formula")),
    "means": (means, accepted("means.formula")),
    "silos": (silos, accepted("silos.formula")),
}
ELSEWHERE = {name for o in OPTIONS for name in o.names}
ELSEWHERE |= {name for door in DOORS if door.startswith("local") for name in accepted(door)}


@pytest.mark.some(1)
@pytest.mark.parametrize("where", KNOWN)
def test_unknown_options_are_never_answered_by_options_that_are_not_there(where):
    make, known = KNOWN[where]
    for name in sorted(ELSEWHERE - {*known, "schema"}):
        with pytest.raises(UnsupportedArgumentError) as caught:
            make(**{name: 1})
        said = str(caught.value)
        if "is an option of PrivateOnlineRegression" in said or "not known" in said:
            continue  # a list of what is there
        for option in ELSEWHERE - set(known) - {"seed", "progress", name}:
            assert f" {option}=" not in said.replace("family=Huber(c=1.345, scale=2500)", ""), said


def test_options_of_the_fit_of_another_front_door():
    with pytest.raises(
        UnsupportedArgumentError, match=r"lanes= is an option of PrivateOnlineRegression, of its fit\(\)"
    ):
        silos().fit(lanes=8)
    with pytest.raises(UnsupportedArgumentError, match="mu= belongs to the model"):
        silos().fit(mu=1)
    with pytest.raises(UnsupportedArgumentError, match="rounds= and local_steps="):
        silos(epochs=3)


# --- attributes of other libraries ------------------------------------------------------------------------

TYPED = """coef_ coefficients std_err pvalue confint ci vcov sigma r_squared rsquared rsquared_adj r2 rmse mse
logLik AIC BIC llf aic resid residuals fitted_values fittedvalues df_residual formula data odds_ratio scale
epsilon delta budget n mu cov_type converged update augment hatvalues get_margeff f_test emmeans glht""".split()  # noqa: SIM905


@pytest.mark.thorough
def test_names_that_users_of_other_libraries_type_work_or_are_explained():
    res, bare = fitted(), []
    for name in TYPED:
        with pytest.raises(AttributeError) as caught:
            getattr(res, name)
        bare += [name] if "have no attribute" in str(caught.value) else []
    assert bare == []


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("coef_", "it is called params."),
        ("std_err", "it is called bse."),
        ("confint", r"it is called conf_int\(\)."),
        ("epsilon", "it is called privacy."),
        ("formula", "neither the model nor rows"),
        ("converged", "one pass"),
        ("df_resid", "no residual degrees of freedom"),
        ("parms", "did you mean 'params'?"),
    ],
)
def test_names_of_what_there_is(name, said):
    with pytest.raises(AttributeError, match=said):
        getattr(fitted(), name)


def test_no_results_suggest_what_they_lack():
    released = curator().fit(tuning="published", seed=1, progress=False)
    with pytest.raises(NotPrivateError, match=r"evaluate\(public_test\)") as caught:
        _ = released.rsquared
    assert "measures=" not in str(caught.value)
    rounds = silos(rounds=2).fit(seed=1, progress=False)
    with pytest.raises(NotPrivateError, match="needs standard errors"):
        _ = rounds.std_err
    with pytest.raises(NotPrivateError) as caught:
        _ = rounds.rsquared
    assert "measures=" not in str(caught.value)
    shares = means().fit(seed=1, progress=False)
    with pytest.raises(AttributeError, match="it is called params"):
        _ = shares.coef_


# --- files ------------------------------------------------------------------------------------------------


SUFFIXES = ("pdf", "csv", "html", "tex", "png", "svg", "xlsx", "txt", "parquet", "json", "pkl", "docx")


@pytest.mark.some(1)
@pytest.mark.parametrize("suffix", SUFFIXES)
def test_results_are_not_saved_under_another_programs_suffix(suffix, tmp_path):
    with pytest.raises(UnsupportedArgumentError, match=rf"not \.{suffix}; name it .privreg; "):
        results().save(tmp_path / f"r.{suffix}")
    with pytest.raises(UnsupportedArgumentError, match=r"name it \.privreg\.$"):
        regression(data=None).start().save(tmp_path / f"s.{suffix}")
    assert list(tmp_path.iterdir()) == []


def test_any_other_suffix_is_taken(tmp_path):
    for name in ("r.privreg", "r", "r.2024"):
        results().save(tmp_path / name)
        assert pr.load(tmp_path / name).nobs == results().nobs


# --- the shell --------------------------------------------------------------------------------------------


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    people().to_csv("people.csv", index=False)

    def go(*arguments):
        status = app.main([str(a) for a in arguments])
        return status, capsys.readouterr().err

    return go


FIT = ("fit", "y ~ age", "people.csv")
ALL = ("--mu", "1", "--bounds", "age=18:90", "y=0:100")
GAP = ("fit", "y ~ gap", "gap.csv", "--mu", 1, "--bounds", "y=0:100", "gap=0:1")
SLIPS = {
    "swapped": (("fit", "people.csv", "y ~ age", *ALL), 'data second: privreg fit "y ~ age" people.csv'),
    "swapped means": (("means", "people.csv", "age ~ 1", *ALL), "the formula comes first and the data second"),
    "file in a plan": (("plan", "people.csv", "--mu", 1, "--n", 1000), "is no formula"),
    "no quotes": (("fit", "y", "~", "age", "people.csv", *ALL), "a formula with blanks goes in quotes"),
    "files": (("fit", "y ~ age", "a.csv", "b.csv", *ALL), "DATA is one file or folder, of silos north=north.csv,"),
    "an equation": (("fit", "y = age", "people.csv", *ALL), "write 'y ~ age'"),
    "blanks": ((*FIT, "--mu", 1, "--bounds", "age", 18, 90), "declarations have none: --bounds age=18:65"),
    "blanks, colon": ((*FIT, "--mu", 1, "--bounds", "age", "18:90"), "declarations have none: --bounds age=18:65"),
    "a blank": ((*FIT, "--mu", 1, "--bounds", "age=18", 90), "declarations have none: --bounds age=18:65"),
    "a negative": ((*FIT, "--mu", 1, "--bounds", "t", -5, 5), "declarations have none: --bounds age=18:65"),
    "later": ((*FIT, "--mu", 1, "--bounds", "y=0:100", "age", 18, 90), "declarations have none: --bounds age=18:65"),
    "comma": ((*FIT, "--mu", 1, "--bounds", "age=18,90"), "must read NAME=LOW:HIGH, without blanks"),
    "dash": ((*FIT, "--mu", 1, "--bounds", "y=0:9", "age=18-90"), "such as --bounds age=18:65"),
    "levels": ((*FIT, *ALL, "--levels", "g", "no", "yes"), "--levels g=a,b"),
    "mu 0": ((*FIT, "--mu", 0, "--bounds", "age=18:90"), "--mu 0 must be a positive number"),
    "no privacy": ((*FIT, "--mu", 0, "--bounds", "age=18:90"), "(or --no-privacy for a fit without privacy)"),
    "missing": ((*FIT, *ALL, "--missing", "nois"), "--missing nois is not known"),
    "undeclared": ((*FIT, "--mu", 1, "--bounds", "y=0:100"), "give --bounds age=LOW:HIGH, or --scaling private"),
    "undeclared in a plan": (("plan", "y ~ age", "--mu", 1, "--n", 99, "--bounds", "y=0:1"), "--bounds age=LOW:HIGH;"),
    "gap": ((*GAP, "--missing", "raise"), "fits and means let them send noise by --missing noise, their default"),
}


@pytest.mark.thorough
def test_a_gap_is_no_slip_at_the_shell(run):
    people().assign(gap=[np.nan, *np.linspace(0, 1, N - 1)]).to_csv("gap.csv", index=False)
    status, err = run(*GAP)
    assert (status, [line for line in err.splitlines() if "warning: don't rely on" not in line]) == (0, [])


@pytest.mark.some(1)
@pytest.mark.parametrize("slip", SLIPS)
def test_slips_at_the_shell(run, slip):
    arguments, said = SLIPS[slip]
    people().assign(gap=np.nan).to_csv("gap.csv", index=False)
    status, err = run(*arguments)
    assert status == app.FAILED
    assert said in err
    assert err.count("\n") == 1
    assert re.search(r"[a-z_]+=['\"\d{]", re.sub(r"--\w+ \S+|'[^']*'", "", err)) is None  # no Python left


@pytest.mark.parametrize(
    ("message", "shell"),
    [
        ("mechanism='foo' is not known", "--mechanism foo is not known"),
        ("give levels={'g': ['no', 'yes']} too", "give --levels g=no,yes too"),
        ("bounds['age'] = (90, 18) is empty", "--bounds age=90:18 is empty"),
        ("as in family=Poisson(y_max=20)", "as in --family poisson --y-max 20"),
        ("family=Quantile(0.9)", "--family quantile --tau 0.9"),
        ("this is Huber(c='auto', scale='auto')", "this is Huber(c='auto', scale='auto')"),
        ('allow_leak=("levels", "scale").', "--allow-leak levels scale."),
        ("declare a larger mu_max", "declare a larger --mu-max"),
        ("alpha must be above 1/2", "alpha must be above 1/2 (here: --step-exponent)"),
        ("the term 'rows=5' is wrong", "the term 'rows=5' is wrong"),
        ("tidy(exponent=1) knots=[1]", "tidy(exponent=1) knots=[1]"),
        ("see --help for mu=1", "see --help for mu=1"),
    ],
)
def test_words_of_the_shell(message, shell):
    assert in_shell(message, "fit") == shell


ONLY_IN_PYTHON = {"families/family.py", "families/users.py", "privacy/budget.py", "results/statement.py"}
"""Files with an error that no command line and no study's file meets: custom(), from_formula(), shuffled()."""


@cache
def _raised():
    """Texts of all errors that are raised, with something for what is filled in, and their files."""

    def text(node):
        if isinstance(node, ast.JoinedStr):
            return "".join(v.value if isinstance(v, ast.Constant) else _filled(v) for v in node.values)
        if isinstance(node, ast.BinOp):
            return text(node.left) + text(node.right)
        return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""

    def _filled(value):
        return "'x'" if value.conversion == ord("r") else "Huber" if "name" in ast.dump(value) else "1"

    def statements(path):
        found = [ast.parse(path.read_text("utf-8"))]
        for node in found:
            found += [
                s for part in ("body", "orelse", "finalbody", "handlers", "cases") for s in getattr(node, part, ())
            ]
        return found

    return {
        (path.relative_to(root).as_posix(), text(node.exc.args[0]))
        for root in (Path(pr.__file__).parent, Path(privreg_field.__file__).parent)
        for path in root.rglob("*.py")
        for node in statements(path)
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args
    }


@pytest.mark.thorough
@pytest.mark.parametrize("door", ["fit", "means", "plan", "schema", "show", "study"])
def test_no_error_of_the_package_names_an_option_of_a_door_as_python_has_it(door):
    found = _raised()
    assert len(found) > 800
    names = "|".join(o.name for o in of_verb(door) if not o.kind.startswith("word"))
    python = re.compile(rf"(?<![\w'\"(.-])(?:{names})(?:=(?!=)|\[['\"])|\((?:low, high|mean, sd)\)")
    said = {(path, in_study(text) if door == "study" else in_shell(text, door)) for path, text in found}
    assert {(path, text) for path, text in said if python.search(text) and path not in ONLY_IN_PYTHON} == set()


@pytest.mark.parametrize("verb", ["fit", "means", "study"])
def test_no_note_names_an_option_of_a_verb_as_python_has_it(verb):
    names = "|".join(o.name for o in of_verb(verb) if not o.kind.startswith("word"))
    python = re.compile(rf"(?<![\w'\"(.-])(?:{names})(?:=(?!=)|\[['\"])")
    texts = [t for code in CODES.values() for t in ([code.text] if isinstance(code.text, str) else code.text.values())]
    texts = [re.sub(r"\{.*?\}+", "1", text.replace("{{", "{").replace("}}", "}")) for text in texts]
    said = {text: in_study(text) if verb == "study" else in_shell(text, verb) for text in texts}
    assert sum(python.search(text) is not None for text in said) > 10
    assert [text for text, shell in said.items() if python.search(re.sub(r"\w+\([^()]*\)", "", shell))] == []


@pytest.mark.thorough
def test_notes_of_few_records_name_other_trust_models(run, capsys):
    people().iloc[:1000].to_csv("people.csv", index=False)
    assert run(*FIT, *ALL, "--quiet", "--out", "few.txt")[0] == 0
    assert app.main(["plan", "y ~ age", "--n", "500", *ALL]) == 0
    for text in (Path("few.txt").read_text("utf-8"), capsys.readouterr().out):
        assert "with --trust two_collectors far fewer are enough" in " ".join(text.split())
    said = regression("y ~ age", people().iloc[:1000], mu=1).fit(seed=1, progress=False).summary().as_text()
    plan = pr.plan("y ~ age", n=500, mu=1, bounds=BOX)
    pure = pr.plan("y ~ age", n=500, epsilon=1, bounds=BOX), pr.plan("y ~ age - 1", n=500, mu=1, bounds=BOX)
    assert all("so few records" in str(one) and "trust=" not in str(one) for one in pure)
    alone = regression("sick ~ age", people().iloc[:1000], mu=1, family="hinge", levels={"sick": [0, 1]})
    said_alone = alone.fit(seed=1, progress=False).summary().as_text()
    assert "records are few" in said_alone
    assert "trust=" not in said_alone
    for text in (said, str(plan)):
        assert "with trust='two_collectors' far fewer are enough" in " ".join(text.split())


def test_keys_of_a_studys_file_are_options_of_the_table():
    own = {o.name for o in of_verb("study") if not o.families} | {"correlations"}
    assert own == {*declared._MODEL, *declared.PLAN, *declared._SCHEMA}


@pytest.mark.parametrize(
    ("message", "file"),
    [
        ("rows=0 must be 1 or more", "rows: 0 must be 1 or more"),
        ("bounds['age'] = (70, 18) is empty; write (low, high)", "bounds: {age: [70, 18]} is empty; write [low, high]"),
        ("levels['g'] has 1 level(s)", "levels of 'g' has 1 level(s)"),
        ("levels={'g': [...]} or bounds={'x': (0, 1)}", "levels: {g: [A, B]} or bounds: {x: [0, 1]}"),
        ('give x, or scaling="private" to learn it', "give x, or scaling: private to learn it"),
        ('levels; to take it from the data, allow_leak=("levels",).', "levels."),
        ("Use C(g). If 'g' is a person, give it as id=.", "Use C(g)."),
        ("write family=Poisson(y_max=20)", "write family: {poisson: {y_max: 20}}"),
        ("mu=0 must be positive (or None for no privacy)", "mu: 0 must be positive"),
        ("widths go with it. Give scale= if it is known", "widths go with it"),
        ("np.log, and functions marked with pr.rowwise(f).", "np.log."),
        ("the term 'rows=5' is wrong", "the term 'rows=5' is wrong"),
    ],
)
def test_words_of_a_studys_file(message, file):
    assert in_study(message) == file


# --- tables of other libraries, batch by batch ------------------------------------------------------------


def _tables():
    pa = pytest.importorskip("pyarrow")
    table = pa.Table.from_pandas(people())
    out = {"table": table, "batch": table.to_batches()[0], "cut": pa.concat_tables([table[:1500], table[1500:]])}
    coded = table.set_column(table.column_names.index("g"), "g", table["g"].dictionary_encode())
    try:
        import polars
    except ImportError:
        return {**out, "codes": coded}
    return {**out, "codes": coded, "polars": polars.from_arrow(table)}


@pytest.mark.thorough
def test_streams_take_tables_as_fits_do():
    def streamed(batch):
        stream = regression(data=None, rows=N).start(seed=1)
        return stream.update(batch).results().params

    def shares(batch):
        stream = means().start(seed=1)
        stream.update(batch)
        return stream.results().params

    def fitted(whole, some):
        return regression(data=[whole, some]).fit(seed=1, progress=False).params

    expected = streamed(people()), shares(people()), fitted(people(), people()[:100])
    for table in _tables().values():
        found = streamed(table), shares(table), fitted(table, table.slice(0, 100))
        for one, other in zip(found, expected, strict=True):
            pd.testing.assert_series_equal(one, other)


def test_a_table_of_a_stream_that_lacks_a_column_is_refused_whole():
    stream = regression(data=None).start(seed=1)
    with pytest.raises(DataError, match="'age' is missing"):
        stream.update(_tables()["table"].drop(["age"]))
    assert stream.nobs == 0
    stream.update(_tables()["table"].slice(0, 0))
    assert stream.nobs == 0


# --- what results look like -------------------------------------------------------------------------------


def _shown():
    res, new = fitted(), pd.DataFrame(people()[["age", "g"]].iloc[:9].to_dict("list"))  # a copy shares its texts
    rounds = silos(rounds=2)
    multinomial = regression("g ~ age", family="multinomial").fit(seed=1, progress=False)
    return {
        "t test": res.t_test("age = 0"),
        "wald test": res.wald_test("age = 0, g[T.yes] = 0"),
        "predictions": res.get_prediction(new),
        "classes": multinomial.get_prediction(new),
        "results": res,
        "summary": res.summary(),
        "statement": res.privacy,
        "statement of a curator": curator().fit(seed=1, progress=False).privacy,
        "statement of silos": rounds.fit(seed=1, progress=False).privacy,
        "statement of means": means().fit(seed=1, progress=False).privacy,
        "means": means().fit(seed=1, progress=False),
        "plan": plan(),
        "comparison": pr.compare([res]),
    }


@pytest.mark.thorough
def test_every_result_has_text_html_and_pickles():
    for name, thing in _shown().items():
        text = repr(thing)
        assert str(thing) == text, name
        assert max(map(len, text.splitlines())) <= (90 if name == "effects" else 80), name
        assert "..." not in text, name
        html = thing._repr_html_()
        assert html.startswith("<"), name
        assert repr(pickle.loads(pickle.dumps(thing))) == text, name
    assert repr(rounds_plan := silos(rounds=2).plan).startswith("<federated plan: 'sick ~ age'")
    assert len(repr(rounds_plan)) < 200


@pytest.mark.thorough
def test_a_wald_test_names_its_own_law():
    res = regression().fit(inference=("between_lanes", "random_scaling", "plug_in"), seed=1, progress=False)
    lanes = int(res.wald_test("age = 0").law.split()[4])
    assert res.wald_test("age = 0").law == f"F with 1 and {lanes} degrees of freedom"
    both = res.wald_test("age = 0, g[T.yes] = 0")
    assert both.law == f"{2 * lanes}/{lanes - 1} times F with 2 and {lanes - 1} degrees of freedom (Hotelling)"
    from scipy.stats import f

    assert both.pvalue == pytest.approx(f.sf(both.statistic * (lanes - 1) / (2 * lanes), 2, lanes - 1))
    assert res.wald_test("age = 0", method="plug_in").law == "χ² with 1 degree of freedom"
    assert res.wald_test("age = 0, g[T.yes] = 0", method="random_scaling").law == "random scaling of 2 restrictions"
    assert both.law in both._repr_html_()


def test_the_band_of_the_way_names_its_method():
    pytest.importorskip("matplotlib")
    import matplotlib.pyplot as plt

    res = regression().fit(inference=("between_lanes", "sandwich"), seed=1, progress=False)
    pd.testing.assert_frame_equal(res.trajectory(method="sandwich"), res.trajectory())
    with pytest.raises(InferenceError, match="this one has that of sandwich, not of between_lanes"):
        res.trajectory(method="between_lanes")
    with pytest.raises(InferenceError, match="that of anytime if it was asked for"):
        res.plot_trajectory(method="plug_in")
    with pytest.raises(OptionError, match="'anytime'"):
        res.trajectory(method="any")
    axes = res.plot_trajectory("age")
    words = " ".join(t.get_text() for t in axes.figure.findobj(plt.Text))
    assert "by sandwich, pointwise" in words.replace("\n", " ")
    plt.close("all")


def test_results_along_one_stream_are_one_release():
    stream = regression(mu=1, data=None, rows=N).start(seed=1)
    early = stream.update(people()[:3000]).results()
    late = stream.update(people()[3000:]).results()
    assert pr.compare([early, late]).total_mu == 1.0
    assert "One release: 1-GDP per person." in str(pr.compare([early, late]))
    other = regression(mu=1, data=None, rows=N).start(seed=1).update(people()).results()
    assert pr.compare([late, other]).total_mu == pytest.approx(np.sqrt(2))
    both = pr.compare([late, late.using("sandwich"), fitted()])
    assert both.total_mu == pytest.approx(np.sqrt(2))
    assert "Composed over these 2 releases" in str(both)


def test_results_of_a_loaded_stream_count_apart(tmp_path):
    stream = regression(mu=1, data=None, rows=N).start(seed=1).update(people())
    before = stream.results()
    stream.save(tmp_path / "s.privreg")
    assert pr.compare([before, pr.load(tmp_path / "s.privreg").results()]).total_mu == pytest.approx(np.sqrt(2))


# --- notes ------------------------------------------------------------------------------------------------


def _notes(n, mu, covariates, seed=1, **options):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({f"x{j}": rng.uniform(0, 10, n) for j in range(covariates)})
    data["g"] = rng.choice(["a", "b", "c"], n)
    data["h"] = (rng.uniform(size=n) < 1 / (1 + np.exp(1 - 0.3 * data["x0"]))).astype(float)
    formula = f"h ~ {' + '.join(data.columns[: covariates + 1])}"
    given = {"bounds": {f"x{j}": (0, 10) for j in range(covariates)}, "levels": {"g": ["a", "b", "c"]}, **options}
    model = pr.PrivateOnlineRegression.from_formula(formula, data, mu=mu, family="logistic", **given)
    return model.fit(seed=seed, progress=False).privacy.notes


@pytest.mark.some(1)
@pytest.mark.parametrize(("n", "mu", "covariates"), [(5000, 0.5, 10), (20_000, 0.5, 3), (50_000, 1, 10)])
def test_notes_of_a_logistic_fit_say_a_thing_once(n, mu, covariates):
    notes = _notes(n, mu, covariates)
    doubts = [note for note in notes if note.startswith("don't rely on")]
    assert len(doubts) == len({note.partition(":")[2][:25] for note in doubts})
    assert sum("least frequent value" in note for note in doubts) <= 1
    assert any("records are few" in note or "seem so strong" in note for note in doubts)
    wanted = [note for note in doubts if "fewer than about" in note]
    for note in wanted:  # two digits: the rest would be noise
        number = note.partition("fewer than about ")[2].split(" ")[0].rstrip(",").replace(",", "")
        assert float(number) == float(f"{float(number):.2g}")


@pytest.mark.thorough
def test_wide_bounds_of_several_columns_are_one_note():
    notes = _notes(50_000, 2, 3, bounds={f"x{j}": (0, 300) for j in range(3)})
    wide = [note for note in notes if "times the learned sd" in note]
    assert len(wide) == 1
    assert "the bounds of x0, x1 and x2 span" in wide[0]
    assert "np.log1p(x)" in wide[0]
    assert len(wide[0]) < 450
    assert "scaling=" not in wide[0]


@pytest.mark.some(1)
@pytest.mark.usefixtures("usual_rounds")
@pytest.mark.parametrize("seed", [17, 20, 25])  # the learned scale is as large as if there was noise only
def test_a_response_that_is_even_over_its_range_is_not_taken_for_noise(seed):
    data = pd.DataFrame({"y": np.arange(2000) % 7, "g": np.where(np.arange(2000) % 2, "2", "1")})
    given = {"mu": 10, "bounds": {"y": (0, 6)}, "levels": {"g": ["1", "2"]}}
    model = pr.PrivateOnlineRegression.from_formula("y ~ C(g)", data, **given)
    notes = model.fit(seed=seed, progress=False).privacy.notes
    assert not any("most records sent noise only" in n for n in notes)


@pytest.mark.thorough
@pytest.mark.parametrize(("family", "response"), [("huber", "y"), ("squared", "y"), ("logistic", "sick")])
def test_rows_that_are_mostly_silent_are_noted(family, response):
    rng = np.random.default_rng(1)
    n = 40_000
    data = pd.DataFrame({"age": rng.uniform(18, 90, n), "person": rng.integers(0, 600, n)})
    data["y"] = 20 + 0.5 * data["age"] + rng.normal(0, 3, n)
    data["sick"] = (rng.uniform(size=n) < 0.5).astype(float)
    given = {"mu": 2, "bounds": BOX, "family": family, "id": "person"}
    model = pr.PrivateOnlineRegression.from_formula(f"{response} ~ age", data, **given)
    said = [n for n in model.fit(seed=1, progress=False).privacy.notes if "sent noise only" in n]
    assert any("or a row beyond max_per_id" in n or "more rows than max_per_id" in n for n in said)
    data["person"] = np.arange(n)
    model = pr.PrivateOnlineRegression.from_formula(f"{response} ~ age", data, **given)
    assert not any("sent noise only" in n for n in model.fit(seed=1, progress=False).privacy.notes)


# --- compiling --------------------------------------------------------------------------------------------


def _compile():
    numba.njit(lambda x: x + 1)(1)


def test_compiling_is_told_where_a_bar_shows(capsys):
    with progress_bar(10, True) as bar:
        _compile()
        assert bar.desc == "privreg"
    assert COMPILING in capsys.readouterr().err
    with progress_bar(10, True):
        pass
    assert COMPILING not in capsys.readouterr().err


@pytest.mark.some(1)
@pytest.mark.parametrize("progress", [None, False])
def test_compiling_is_silent_in_scripts(progress, capsys):
    with progress_bar(10, progress):
        _compile()
    assert capsys.readouterr().err == ""


class Terminal(io.StringIO):
    """A screen that a person looks at."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(("seconds", "said"), [(0.0, False), (1.3, True)])
def test_what_takes_more_than_a_second_is_seen_at_a_terminal(seconds, said, monkeypatch, capsys):
    monkeypatch.setattr("sys.stderr", screen := Terminal())
    with waiting("planning"):
        time.sleep(seconds)
    assert ("privreg: planning, 00:0" in screen.getvalue()) is said
    assert "waits" not in {t.name for t in threading.enumerate()}
    monkeypatch.undo()
    with waiting("planning"):
        time.sleep(seconds)
    assert capsys.readouterr().err == ""


@pytest.mark.thorough
@pytest.mark.usefixtures("one_fit", "unmarked")
@pytest.mark.parametrize("ask", ["plan", "print", "compare_trust"])
def test_slow_plans_are_seen(ask, monkeypatch):
    seen = []
    found = plan()
    for module in ("power", "plan"):
        monkeypatch.setattr(f"privreg.planning.{module}.waiting", lambda what: seen.append(what) or nullcontext())
    {"plan": plan, "print": lambda: str(found), "compare_trust": found.compare_trust}[ask]()
    assert seen
    assert set(seen) == {"rehearsing fits of made-up people"}


# --- queries and files ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "-- a; b\n select 1;",
        "/* x; */ WITH a AS (SELECT ';') SELECT * FROM a ;",
        "(SELECT 1)",
        "FROM people",
    ],
)
def test_queries(query):
    assert "SQL query" in repr(pr.sql(query, sqlite()))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("DROP TABLE people", "no query"),
        ("DELETE FROM people -- SELECT", "no query"),
        ("/* SELECT */ UPDATE people SET y = 1", "no query"),
        ("SELECT 1; DROP TABLE people", "more than one statement"),
        ("SELECT 1) x; DROP TABLE people; --", "more than one statement"),
    ],
)
def test_statements_are_not_queries(query, said):
    with pytest.raises(UnsupportedArgumentError, match=said) as caught:
        pr.sql(query, sqlite())
    assert "people SET" not in str(caught.value)


def test_duckdb_runs_queries_only():
    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    connection.execute(
        "CREATE TABLE people AS SELECT 20.0 + range % 60 AS age, 1.0 * (range % 90) AS y FROM range(3000)"
    )
    deleting = pr.sql("WITH a AS (SELECT 1) DELETE FROM people", connection)
    with pytest.raises(DataError, match="not one query that selects rows"):
        regression("y ~ age", deleting)
    assert connection.execute("SELECT count(*) FROM people").fetchall() == [(3000,)]
    assert regression("y ~ age", pr.sql("FROM people", connection), rows=3000).fit(progress=False).nobs == 3000


def _column(path, skip=0):
    schema = pr.Schema.declare(bounds={"y": (0, 9)})
    parts = [np.asarray(b["y"], dtype=float) for b in open_csv(path, Wanted(("y",), schema)).batches(skip)]
    return np.concatenate([np.empty(0), *parts])


@pytest.mark.thorough
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
@pytest.mark.parametrize("quoted", [False, True])
def test_blank_lines_of_a_single_column_are_missing_values(tmp_path, newline, quoted):
    rng = np.random.default_rng(2)
    path = tmp_path / "one.csv"
    cells = ["", "1", "2.5", "NA", *(['""', '"3"'] if quoted else [])]
    for _ in range(12):
        lines = [str(c) for c in rng.choice(cells, rng.integers(0, 7))]
        ended = bool(rng.integers(0, 2))
        path.write_bytes((newline.join(["y", *lines]) + newline * ended).encode())
        if not ended and lines and lines[-1] == "":
            lines = lines[:-1]  # the file ends with the line before
        plain = [c.strip('"') for c in lines]
        expected = np.array([np.nan if c in {"", "NA"} else float(c) for c in plain])
        for skip in range(len(expected) + 1):
            np.testing.assert_array_equal(_column(path, skip), expected[skip:])
        assert _count_lines(path) == len(expected)


def test_blank_lines_between_rows_of_several_columns_are_none(tmp_path):
    path = tmp_path / "two.csv"
    path.write_text("y,z\n1,2\n\n3,4\n\n")
    np.testing.assert_array_equal(_column(path), [1.0, 3.0])
    assert _count_lines(path) == 2


@pytest.mark.thorough
def test_missing_people_of_a_single_column_are_counted(tmp_path):
    path = tmp_path / "one.csv"
    values = people()["y"].map(str).tolist()
    values[5::10] = [""] * len(values[5::10])
    path.write_text("\n".join(["y", *values]) + "\n")
    model = pr.PrivateOnlineRegression.from_formula("y ~ 1", path, mu=2, bounds={"y": (0, 100)})
    assert model.fit(seed=1, progress=False).nobs == N
    model = pr.PrivateOnlineRegression.from_formula("y ~ 1", path, mu=2, bounds={"y": (0, 100)}, missing="raise")
    with pytest.raises(DataError, match="'y' has a value that is missing"):
        model.fit(progress=False)


# --- documentation ----------------------------------------------------------------------------------------


def test_documents_say_what_predictions_and_rows_are():
    assert "own\n" not in PrivateResults.predict.__doc__.split("Notes")[0]
    assert "without noise" in PrivateResults.predict.__doc__
    assert "person-year" in pr.datasets.randhie.__doc__
    assert "max_per_id=5" in pr.datasets.randhie.__doc__


def test_no_document_prints_a_wide_frame():
    root = Path(pr.__file__).parents[1]
    wide = {"check", "fit_measures", "summary_frame", "frame"}
    for path in [root / "README.md", *root.glob("docs/**/*.md"), *root.glob("vignettes/*.md")]:
        for line in path.read_text("utf-8").splitlines():
            if not line.strip().startswith("print("):
                continue
            try:
                call = ast.parse(line.strip(), mode="eval").body
            except SyntaxError:
                continue
            for given in call.args:
                last = given.func if isinstance(given, ast.Call) else given
                assert getattr(last, "attr", "") not in wide, f"{path.name}: {line}"


def test_a_string_in_place_of_the_response_is_not_shown_again():
    """It may be a formula, or somebody's answer."""
    with pytest.raises(errors.DataError, match="from_formula") as told:
        pr.PrivateOnlineRegression("secret answer", np.ones((3, 1)), mu=1)
    assert "secret" not in str(told.value)


@pytest.mark.thorough
def test_offset_and_exposure_are_in_the_header_and_in_the_grid():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"g": rng.choice(["u", "v"], 400), "t": rng.uniform(1, 2, 400), "y": rng.poisson(1.0, 400)})
    family = pr.families.Poisson(y_max=9)
    public = {"bounds": {"t": (0.5, 3), "a": (0, 1)}, "levels": {"g": ["u", "v"]}, "mu": 2}
    model = pr.PrivateOnlineRegression.from_formula("y ~ g", rows, family=family, exposure="t", **public)
    res = model.fit(progress=False)
    for said in (str(res.summary(details=True)), repr(model.plan())):
        assert re.search(r"Exposure: +log\(t\)", said)
    assert res.reference_grid()["t"].tolist() == [1.0, 1.0]
    with pytest.raises(OptionError, match=r"goes with Poisson\(\).*give offset="):
        pr.PrivateOnlineRegression.from_formula("a ~ g", None, exposure="t", **public)


def test_levels_of_quantiles_are_compared():
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"a": rng.uniform(0, 1, 400), "y": rng.uniform(0, 1, 400)})
    public = {"bounds": {"a": (0, 1), "y": (0, 1)}, "mu": 2}
    levels = [pr.families.Quantile(tau) for tau in (0.1, 0.9)]
    models = [pr.PrivateOnlineRegression.from_formula("y ~ a", rows, family=f, **public) for f in levels]
    fits = [model.fit(progress=False) for model in models]
    assert re.search(r"Family +Quantile\(0\.1\) +Quantile\(0\.9\)", str(pr.compare(*fits)))


def test_a_stream_says_that_its_results_have_it():
    stream = pr.PrivateOnlineRegression.from_formula("y ~ a", None, bounds={"a": (0, 1), "y": (0, 1)}, mu=1).start()
    with pytest.raises(AttributeError, match=r"stream.results\(\).summary"):
        stream.summary()
    with pytest.raises(AttributeError, match=r"see dir\(stream\)"):
        stream.nothing_of_the_kind()
    with pytest.raises(DataError, match="a dict of single values is one row"):
        stream.update({"a": 0.5, "y": 1})


def test_rows_without_a_column_are_not_played():
    model = pr.PrivateOnlineRegression.from_formula("y ~ a", None, bounds={"a": (0, 1), "y": (0, 1)}, mu=1, rows=100)
    with pytest.raises(DataError, match="column 'a' is missing"):
        pr.simulate(model.plan(), pd.DataFrame({"y": [0.5] * 100}))


# --- words ------------------------------------------------------------------------------------------------

JARGON = re.compile(
    r"whiten|\bapproach|\bpsd\b|lattice|\blanes?\b(?!=)|\bstates?\b|zeros\b|the last of|seen to have less",
    re.IGNORECASE,
)
"""Words of the engine, of files and of wires; the glossary explains those that are names of options."""


@pytest.mark.some(2)
@pytest.mark.parametrize("trust", ["central", "two_collectors", "local"])
@pytest.mark.parametrize("options", [{}, {"score_weights": "likelihood"}, {"family": "logistic"}], ids=str)
def test_readers_of_results_meet_no_word_of_the_engine(trust, options):
    formula = "sick ~ age + g" if "family" in options else "y ~ age + g"
    model = regression(formula, mu=1, trust=trust, **options)
    res = model.fit(seed=1, progress=False)
    shown = [res.summary(details=True), res.privacy, model.plan(), res.rounds, res.tidy(), res.anova()]
    assert [found for view in shown for found in JARGON.findall(str(view))] == []


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["central", "local"])
def test_readers_of_other_methods_meet_none_either(trust):
    methods = {"inference": ["random_scaling", "between_lanes"]} if trust == "local" else {"tuning": "published"}
    res = regression(mu=1, trust=trust).fit(seed=1, progress=False, **methods)
    assert JARGON.findall(f"{res.summary(details=True)}{res.privacy}") == []


@pytest.mark.parametrize("file", ["tables/notes.toml", "results/settings.toml", "cli/help.toml"])
def test_no_text_that_readers_may_meet_has_one(file):
    def texts(held):
        inside = held.values() if isinstance(held, dict) else held if isinstance(held, list) else ()
        return [held] if isinstance(held, str) else [text for one in inside for text in texts(one)]

    found = texts(tomllib.loads((Path(pr.__file__).parent / file).read_text("utf-8")))
    assert len(found) > 20
    assert [text for text in found if JARGON.search(re.sub(r"{.*?}", "", text))] == []


def test_the_words_would_be_found():
    assert JARGON.findall("z the whitened covariates; 4 lanes; fit with lanes=8, of this statement") == [
        "whiten",
        "lanes",
    ]
