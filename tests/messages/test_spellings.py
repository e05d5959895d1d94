"""Names, formulas and options as they are read and said elsewhere, one by one."""

import ast

import pytest

from privreg.cli.app import spread
from privreg.cli.values import levels
from privreg.formula.language.spelling import as_labelled, spelt_here
from privreg.formula.persons import without_effect, without_survival
from privreg.options.spelling import in_shell, in_study


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ("log(age)", "write np.log(age)"),
        ("offset(bmi)", "leave it out of the formula and give offset='bmi' beside it"),
        ("offset(log(t))", "leave it out of the formula and give exposure='t' beside it, whose logarithm is added"),
        ("exposure(t)", "leave it out of the formula and give exposure='t' beside it"),
        ("pow(age, 3)", "write I(age**3)"),
        ("interaction(a, b)", "write a:b"),
        ("relevel(g)", "write C(g, Treatment('level')), or name that level first in levels="),
        ("relevel(g, ref='v')", "write C(g, Treatment('v')), or name that level first in levels="),
        ("shift(age)", None),
    ],
)
def test_calls_of_other_languages(code, said):
    assert spelt_here(ast.parse(code, mode="eval").body, {"log": (1, 1)}) == said


def test_columns_are_named_as_the_data_name_them():
    assert as_labelled("y ~ \u00b5x + n", ["y", "\u00b5x", "n"]) == "y ~ Q('\u00b5x') + n"


def test_parts_of_formulas_about_persons():
    assert without_effect("y ~ x | diff(who)") == ("y ~ x", ("differences", "who"))
    assert without_effect("y ~ I((x > 1) | (x < 0))") == ("y ~ I((x > 1) | (x < 0))", None)
    assert without_survival("Surv(months, died, [6, 12]) ~ age")[0] == "Surv ~ C(interval) + age"
    assert without_survival("Surv(months, died, [6]) ~ age")[0] == "Surv ~ age"


def test_words_of_the_shell():
    assert spread(["--bounds", "x=0:1", "y=0:2", "people.csv"]) == ["--bounds=x=0:1", "--bounds=y=0:2", "people.csv"]
    given = levels(["clinic=1,2", "smoker=no,yes", 'maker="Smith, Inc.",other'])
    assert given == {"clinic": [1, 2], "smoker": ["no", "yes"], "maker": ["Smith, Inc.", "other"]}


def test_options_as_the_shell_and_a_study_spell_them():
    assert in_shell("missing='nois' is not known", "fit") == "--missing nois is not known"
    advice = "give bounds={'age': (low, high)} or levels={'age': [...]}"
    assert in_shell(advice, "fit") == "give --bounds age=LOW:HIGH or --levels age=A,B"
    said = "rows: 0 must be a number; give bounds: {age: [low, high]} or levels: {age: [A, B]}."
    assert in_study(f"rows=0 must be a number; {advice}, or id='who'.") == said
    scale = "scale: -1 must be positive; write family: {huber: {scale: 300}}."
    assert in_study("scale=-1 must be positive; write family=Huber(scale=300).") == scale
