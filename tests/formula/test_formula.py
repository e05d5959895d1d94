from __future__ import annotations

import pickle
import traceback

import numpy as np
import pytest

from privreg.errors import FormulaError, PrivacyLeakError, SchemaError, nearest
from privreg.formula import describe
from privreg.formula.language.parse import (
    Rowwise,
    check_formula,
    collect_rowwise,
    read_formula,
)
from privreg.formula.language.rowwise import rowwise
from privreg.schema.declarations import Schema

SCHEMA = Schema.declare(
    bounds={"y": (0, 100), "age": (18, 65), "bmi": (18, 50), "np": (0, 1), "my col": (0, 1), "scale": (0, 1)},
    levels={"smoker": ["no", "yes"], "region": ["n", "e", "s"], "children": [0, 1, 2]},
)


def hinge(x):
    return np.maximum(x - 30, 0)


FUNCTIONS = {"hinge": rowwise(hinge)}


def check(rhs: str, lhs: str = "y"):
    return check_formula(f"{lhs} ~ {rhs}", SCHEMA, FUNCTIONS)


LEAKS = {
    "age.mean()": "calling age.mean",
    "I(age - age.mean())": "calling age.mean",
    "age.values": "the attribute .values",
    "center(age)": "public numbers",
    "standardize(age)": "public numbers",
    "scale(age)": "public numbers",
    "pd.qcut(age, 4)": "public points",
    "np.mean(age)": "all rows at once",
    "np.cumsum(age)": "mixes rows",
    "np.max(age)": "all rows at once",
    "np.maximum.accumulate(age)": "np.maximum.accumulate",
    "np.random.normal(age)": "np.random.normal",
    "age.shift(1)": "mixes rows",
    "age[0]": "picking rows",
    "age[::-1]": "picking rows",
    "I([age][0])": "picking rows",
    "I((lambda x: x)(age))": "not a plain name",
    "I([v for v in age])": "ListComp",
    "I(f'{age}')": "JoinedStr",
    "I(age if True else bmi)": "IfExp",
    "I((z := age))": "NamedExpr",
    "bs(age, df=4)": "by the data",
    "bs(age, 4)": "by the data",
    "bs(age, knots=[30])": "by the data",
    "bs(age, knots=[age], lower_bound=18, upper_bound=65)": "not written as a number",
    "bs(age, knots=age, lower_bound=18, upper_bound=65)": "not a list of numbers",
    "bs(age, knots=[30], lower_bound=18, upper_bound=65, df=5)": "by the data",
    "cr(age, df=3)": "by the data",
    "cr(age, knots=[30], lower_bound=18, upper_bound=65, constraints='center')": "by the data",
    "te(cr(age, df=3), cr(bmi, df=3))": "product of bs",
    "len(age)": "all rows at once",
    "eval('age')": "calling eval",
    "age.__class__": "the attribute .__class__",
    "__import__('os')": "calling __import__",
    "I(__builtins__)": "the name '__builtins__'",
    "np.log(age, out=bmi)": "keyword argument",
    "np.log(age, bmi)": "2 arguments",
    "np.where(age)": "1 arguments",
    "np.where(*age)": "1 arguments",
    "I(18 < age < 30)": "chained comparison",
    "I(age > 20 and bmi > 20)": "'and' / 'or'",
    "I(not age)": "'not'",
    "I(age in bmi)": "'in' or 'is'",
    "I(age + 9**9**9)": "power of two constants",
    "I(smoker < 'yes')": "ordering the levels",
    "C(smoker, age)": "a contrast other than",
    "C(age > 3)": "anything but a column",
    "C(smoker, Treatment(reference=age))": "this argument",
    "C(region, Poly(scores=age))": "scores that are not a list",
    "I(C(smoker))": "inside another expression",
    "Q(age)": "column name in quotes",
    "Q('age').mean()": "calling Q('age').mean",
    "hinge(age, k=2)": "keyword argument",
    "unmarked(age)": "calling unmarked",
    "I(age + 'a')": "the constant 'a'",
    "I(age * 1j)": "the constant 1j",
}


@pytest.mark.parametrize("term", LEAKS)
def test_leaking_terms_are_refused_and_named(term):
    with pytest.raises(PrivacyLeakError) as caught:
        check(term)
    text = str(caught.value)
    assert LEAKS[term] in text
    assert "formula term" in text
    assert "Allowed are" in text
    head = term.split("(")[0].split("[")[0]
    assert head in text


@pytest.mark.parametrize("side", ["lhs", "rhs"])
def test_leaks_are_refused_on_either_side(side):
    formula = "np.mean(y) ~ age" if side == "lhs" else "y ~ age + bmi:np.mean(age)"
    with pytest.raises(PrivacyLeakError, match=r"np\.mean"):
        check_formula(formula, SCHEMA, {})


@pytest.mark.parametrize(
    ("formula", "piece"),
    [
        ("y ~ age +", "y ~ age +"),
        ("y ~ (age", "can't be read"),
        ("y ~ 2*age", "can't be read"),
        ("y ~ I(age +)", "not a Python expression"),
        ("~ age", "no response"),
        ("age", "no response"),
        ("y ~ 0", "nothing on the right"),
        ("y ~ age - age - 1", "nothing on the right"),
        ("y + age ~ bmi", "left-hand side"),
        ("y:age ~ bmi", "left-hand side"),
        ("1 ~ bmi", "left-hand side"),
        ("I(3) ~ bmi", "names no column"),
        ("y ~ I(3)", "names no column"),
        ("y ~ age + y", "both sides"),
        ("np.log(y) ~ age + I(y > 3)", "both sides"),
        ("y ~ np", 'Q("np")'),
        ("y ~ hinge", "name of a function"),
        ("y ~ C(smoker, levels=['no'])", "levels="),
        ("y ~ C(smoker, Treatment('maybe'))", "not a declared level"),
        ("y ~ I(smoker == 'maybe')", "not a declared level"),
    ],
)
def test_bad_formulas(formula, piece):
    with pytest.raises(FormulaError) as caught:
        check_formula(formula, SCHEMA, FUNCTIONS)
    assert piece in str(caught.value)
    shown = "".join(traceback.format_exception(caught.value))
    assert "patsy" not in shown
    assert caught.value.__cause__ is None


def test_formula_must_be_text():
    with pytest.raises(FormulaError, match="got list"):
        check_formula(["y"], SCHEMA, {})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("term", "pieces"),
    [
        ("agee", ["'agee' is not declared", "Did you mean 'age'?", "bounds={'agee'"]),
        ("charges", ["'charges' is not declared", "If it is a number or a date"]),
        ("Q('no such')", ["'no such' is not declared", "'smoker'"]),
        ("C(age)", ["'age' as a factor", "levels={'age'"]),
        ("np.log(smoker)", ["'smoker' as a number", "bounds={'smoker'"]),
        ("I(smoker * 2)", ["'smoker' as a number"]),
        ("I(age == 'a')", ["'age' as a factor"]),
    ],
)
def test_missing_declarations(term, pieces):
    with pytest.raises(SchemaError) as caught:
        check(term)
    assert all(piece in str(caught.value) for piece in pieces)
    # options of a fit of people's reports are named to such fits only
    assert "scaling" not in str(caught.value)
    assert "allow_leak" not in str(caught.value)
    with pytest.raises(SchemaError) as caught:
        check_formula(f"y ~ {term}", SCHEMA, {}, reports=True)
    assert all(piece in str(caught.value) for piece in pieces)
    assert ('scaling="private"' in str(caught.value)) == ("not declared" in str(caught.value))
    assert ("allow_leak" in str(caught.value)) == ("as a number" not in str(caught.value))


@pytest.mark.parametrize(
    "rhs",
    [
        "1",
        "age + bmi - 1",
        "(age + bmi + smoker)**2",
        "age*smoker + age:region",
        "I(age**2) + I(-age) + I(age // 7 % 3)",
        "np.log(age) + numpy.log1p(bmi) + np.clip(age, 20, 60) + np.where(age > 30, 1, bmi)",
        "np.round(age, 1) + np.arctan2(age, bmi)",
        "I((age > 20) & ~(bmi < 30) | (age == 3))",
        "I(2 * np.pi * age / 12)",
        "I(smoker == 'yes') + I(region != 's') + I(children == 2)",
        "C(region) + C(smoker, Treatment('yes')) + C(children, Treatment(1))",
        "C(region, Sum) + C(children, Poly(scores=[0, 1, 4])) + C(smoker, contrast=Helmert)",
        "bs(age, knots=[30, 50], degree=2, lower_bound=18, upper_bound=65, include_intercept=True)",
        "cr(np.log(age), knots=(3.4,), lower_bound=2, upper_bound=5) + cc(bmi, knots=[30], lower_bound=18, "
        "upper_bound=50)",
        'Q("np") + Q("my col") + np.log(age)',
        "scale",
        "hinge(age) + I(hinge(bmi) * 2) + hinge(smoker)",
    ],
)
def test_allowed_formulas(rhs):
    parsed = check(rhs, "np.log(y)")
    assert parsed.response == "np.log(y)"
    assert parsed.response_columns == ("y",)


def test_columns_come_in_order_of_appearance():
    parsed = check("np.log(bmi) + smoker:age + bmi + hinge(age)")
    assert parsed.exog_columns == ("bmi", "smoker", "age")
    assert dict(parsed.functions) == FUNCTIONS
    assert parsed.plain["smoker"] == "smoker"
    assert parsed.reads["hinge(age)"] == ("age",)


def test_needed_columns_work_without_declarations():
    formula = "np.log(cost) ~ a + C(b) + I(c == 'x') + Q('d e')"
    parsed = read_formula(formula, {})
    assert parsed.response_columns == ("cost",)
    assert parsed.exog_columns == ("a", "b", "c", "d e")
    assert parsed.coded == ("b", "c")
    with pytest.raises(PrivacyLeakError):
        read_formula("y ~ a.mean()", {})


def test_only_a_bare_binary_response_may_be_undeclared():
    assert check_formula("z ~ age", SCHEMA, {}, kind="binary").response == "z"
    with pytest.raises(SchemaError, match="'z' is not declared"):
        check_formula("z ~ age", SCHEMA, {})
    with pytest.raises(SchemaError, match="'z' is not declared"):
        check_formula("I(z > 0) ~ age", SCHEMA, {}, kind="binary")


@pytest.mark.parametrize(
    ("got", "choices", "near"),
    [
        ("charges", ["age", "bmi"], None),  # as difflib has it, "charges" is near "age"
        ("agee", ["age", "bmi"], "age"),
        ("AGE", ["age"], "age"),
        ("bim", ["age", "bmi"], "bmi"),
        ("x2", ["x1"], None),
        ("rating", ["driver_rating", "distance"], "driver_rating"),
        ("eff", ["published", "efficient"], "efficient"),
        ("of", ["cutoff", "of_it"], None),
    ],
)
def test_only_a_near_name_is_offered(got, choices, near):
    assert nearest(got, choices) == near


def test_a_column_that_is_far_from_all_gets_no_hint():
    with pytest.raises(SchemaError) as caught:
        check("charges")
    assert "Did you mean" not in str(caught.value)


def test_collect_rowwise_takes_called_marked_names_only():
    local = {"hinge": rowwise(hinge), "age": rowwise(hinge), "plain": hinge, "C": rowwise(hinge)}
    outer = {"other": rowwise(hinge), "hinge": 3}
    found = collect_rowwise("y ~ hinge(age) + plain(bmi) + C(smoker) + I(other(bmi))", [local, outer])
    assert set(found) == {"hinge", "other"}
    assert found["hinge"] is local["hinge"]


def test_rowwise_value():
    marked = rowwise(hinge)
    assert isinstance(marked, Rowwise)
    assert marked.name == "hinge"
    assert rowwise(marked) is marked
    assert pickle.loads(pickle.dumps(marked)) == marked
    np.testing.assert_array_equal(marked(np.array([20.0, 31.0])), [0.0, 1.0])
    np.testing.assert_array_equal(marked([20.0, 31.0]), [0.0, 1.0])
    assert marked(np.empty(0)).shape == (0,)
    assert marked(31.0) == 1.0
    both = rowwise(lambda x, times: np.column_stack([x, times * x]))
    np.testing.assert_array_equal(both(np.arange(5000), 3)[-1], [4999, 3 * 4999])
    with pytest.raises(FormulaError, match="arrays of different lengths"):
        both(np.arange(3), np.arange(2))
    for bad in (np.mean, lambda x: x[:-1], lambda x: np.ones((len(x), 1 + len(x)))):
        with pytest.raises(PrivacyLeakError, match="for each row of its arrays"):
            rowwise(bad)(np.arange(5.0))
    with pytest.raises(FormulaError, match="takes a function"):
        rowwise(3)  # type: ignore[arg-type]


def test_all_undeclared_columns_are_named_at_once():
    schema = Schema.declare(bounds={"age": (18, 65)})
    with pytest.raises(SchemaError, match=r"column 'y' is not declared.*Also undeclared: 'bmi', 'smoker'\.") as caught:
        check_formula("y ~ age + bmi + C(smoker)", schema, {})
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None
    with pytest.raises(SchemaError) as caught:
        check_formula("y ~ age", schema, {})
    assert "Also" not in str(caught.value)


@pytest.mark.parametrize("formula", ["y ~ x**2", "y ~ z + np.log(x)**3", "y ~ (x)**2 + z", "y ~ (x + z**2)**2"])
def test_a_power_of_one_column_is_refused_with_what_to_write(formula):
    with pytest.raises(FormulaError, match=r"crossed with itself.*I\(.*\*\*[23]\)"):
        check_formula(formula, None, {})


@pytest.mark.parametrize(
    ("formula", "told"),
    [
        ("`blood pressure` ~ x", r'Q\("blood pressure"\)'),
        ("y ~ age at visit", r'Q\("age at visit"\)'),
        ("y ~ (x - 40) / 10", r"arithmetic goes into I\(\)"),
    ],
)
def test_names_with_spaces_and_arithmetic_are_told_how_to_be_written(formula, told):
    with pytest.raises(FormulaError, match=told):
        check_formula(formula, None, {})


def test_powers_of_several_columns_cross_them():
    crossed = check_formula("y ~ (x + z)**2 + I(x**2)", None, {})
    assert set(crossed.exog_columns) == {"x", "z"}


def test_callers_whose_folder_begins_with_the_packages_name_are_callers() -> None:
    """A package beside this one, privreg_extras, has functions of its own."""
    made: dict[str, object] = {"__name__": "privreg_extras.tools"}
    exec("def scopes(f):\n    mine = f()\n    return mine", made)
    found = made["scopes"](describe.callers_scopes)
    assert "f" in found[0]
