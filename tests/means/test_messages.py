"""What a user of means may get wrong, and what is said."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import BudgetError, DataError, FormulaError, OptionError, SchemaError, UnsupportedArgumentError

DATA = pd.DataFrame({"age": np.linspace(20, 60, 50), "bmi": np.linspace(20, 40, 50), "smoker": ["no", "yes"] * 25})
GOOD = {
    "columns": "age + bmi + C(smoker) ~ 1",
    "epsilon": 1,
    "bounds": {"age": (18, 65), "bmi": (18, 50)},
    "levels": {"smoker": ["no", "yes"]},
    "progress": False,
}


def run(**changes):
    options = {k: v for k, v in {**GOOD, **changes}.items() if v is not ...}
    return pr.means.estimate(options.pop("data", DATA), options.pop("columns"), **options)


def test_the_good_one_runs():
    assert len(run(seed=1).params) == 4  # who is asked what is drawn, and so few may leave an item without answers


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"columns": "age + bni ~ 1"}, DataError, "Did you mean 'bmi'"),
        ({"data": DATA.assign(height=1.0), "columns": "age + height ~ 1"}, SchemaError, "no public range"),
        ({"columns": None}, OptionError, "say what to estimate"),
        ({"formula": "age ~ 1"}, OptionError, "say what to estimate"),
        ({"columns": "age ~ bmi"}, FormulaError, "no covariates"),
        ({"columns": "age + np.mean(bmi) ~ 1"}, FormulaError, "not a column"),
        ({"columns": "age * bmi ~ 1"}, FormulaError, "not a column"),
        ({"columns": "age + age"}, FormulaError, "twice"),
        ({"columns": "C(age):C(bmi) ~ 1"}, SchemaError, r"C\(age\) needs public levels"),
        ({"columns": "C(age) * C(bmi) ~ 1"}, FormulaError, r"two-way tables as C\(smoker\):C\(region\)"),
        ({"columns": "age +"}, FormulaError, "can't be read"),
        ({"columns": ""}, FormulaError, "can't be read"),
        ({"columns": []}, FormulaError, "one or more"),
        ({"columns": 3}, FormulaError, "list of names"),
        ({"columns": ["age", "age"]}, FormulaError, "twice"),
        ({"levels": ...}, SchemaError, "needs public levels"),
        ({"columns": ["smoker"], "levels": ...}, SchemaError, "levels="),
        ({"bounds": {"age": (18, 65)}}, SchemaError, "'bmi' has no public range"),
        ({"bounds": {"age": (18, 18), "bmi": (18, 50)}}, SchemaError, "leave one value"),
        ({"bounds": {"age": (65, 18), "bmi": (18, 50)}}, SchemaError, "empty"),
        ({"epsilon": 0}, BudgetError, "epsilon"),
        ({"epsilon": -1}, BudgetError, "epsilon"),
        ({"epsilon": ...}, BudgetError, "exactly one"),
        ({"mu": 1}, BudgetError, "exactly one"),
        ({"m": 6}, OptionError, "from 1 to d = 5, the items there are, counting for every number whether there is one"),
        ({"m": 0}, OptionError, "from 1 to d = 5"),
        ({"m": 4, "missing": "raise"}, OptionError, "from 1 to d = 3"),
        ({"m": 1.5}, OptionError, "whole number"),
        ({"mechanism": "laplac"}, OptionError, "Did you mean 'laplace'"),
        ({"mechanism": "gaussian"}, OptionError, "add delta="),
        ({"frequencies": "gaussian"}, OptionError, "add delta="),
        ({"frequencies": "grrr"}, OptionError, "Did you mean 'grr'"),
        ({"mechanism": "square_wave_biased", "frequencies": "histogram"}, OptionError, "biased bits"),
        ({"mechanism": "privunit", "m": 1}, OptionError, "whole record"),
        ({"mechanism": "privunit", "frequencies": "oue"}, OptionError, "leave frequencies= out"),
        ({"missing": "ignore"}, OptionError, "missing="),
        ({"epsilonn": 1}, UnsupportedArgumentError, "Did you mean 'epsilon'"),
        ({"family": "huber"}, UnsupportedArgumentError, "is an option of PrivateOnlineRegression"),
        ({"seed": -1}, OptionError, "seed="),
        ({"progress": "yes"}, OptionError, "progress="),
        ({"data": DATA.assign(region="a"), "by": "region"}, SchemaError, "public levels"),
        ({"by": 3}, OptionError, "name of a column"),
        ({"by": "smoker"}, SchemaError, "nothing about it"),
        ({"by_budget": {"no": 1}}, OptionError, "by='column'"),
        ({"columns": ["age"], "by": "smoker", "by_budget": {"nein": 1}}, OptionError, "no subgroup"),
        ({"columns": ["age"], "by": "smoker", "by_budget": {"no": 2}}, BudgetError, "at most the model's budget"),
        ({"columns": ["age"], "by": "smoker", "by_budget": {"no": 0}}, BudgetError, "above 0"),
        ({"columns": ["age"], "by": "smoker", "by_budget": 1}, OptionError, "mapping"),
        (
            {"by": "smoker", "by_bounds": {"no": {"age": (0, 30)}}},
            UnsupportedArgumentError,
            "estimate them by themselves",
        ),
        ({"max_per_id": 2}, OptionError, "id="),
        ({"id": "age"}, SchemaError, "column of the model"),
        ({"data": DATA.drop(columns="bmi")}, DataError, "'bmi' is missing"),
        ({"data": DATA.iloc[:0]}, DataError, "2 or more"),
        ({"data": 3}, UnsupportedArgumentError, "can't be read"),
        ({"data": "nowhere.csv"}, DataError, "nowhere.csv"),
    ],
)
def test_what_is_wrong_is_said(changes, error, words):
    with pytest.raises(error, match=words):
        run(**changes)


@pytest.mark.parametrize(
    ("column", "value", "error", "words"),
    [
        ("age", np.nan, DataError, "'age' has a value that is missing, infinite or no number"),
        ("age", np.inf, DataError, "'age' has a value that is missing, infinite or no number"),
        ("age", "old", DataError, "'age' has a value that is missing, infinite or no number"),
        ("smoker", None, DataError, "'smoker' has a missing value"),
        ("smoker", "Yes", SchemaError, "'smoker' has a value that is not among its declared levels"),
    ],
)
def test_values_that_cant_be_used_are_refused_if_asked_and_else_like_missing_ones(column, value, error, words):
    bad, gone = (DATA.assign(**{column: [v, *DATA[column][1:]]}) for v in (value, None))
    for data in (bad, DATA.assign(**{column: value})):
        with pytest.raises(error, match=words) as caught:
            run(data=data, missing="raise")
        assert all(word not in str(caught.value) for word in ("old", "'Yes'"))
    got, want = (run(data=data, epsilon=10, seed=1) for data in (bad, gone))
    assert got.params.tolist() == want.params.tolist()
    assert got.privacy.notes == want.privacy.notes


def test_a_missing_subgroup_is_refused():
    data = DATA.assign(smoker=[None, *DATA["smoker"][1:]])
    with pytest.raises(DataError, match="missing or not declared"):
        run(data=data, columns=["age"], by="smoker", missing="noise")


def test_too_many_levels_are_refused():
    with pytest.raises(OptionError, match="at most 2,000"):
        run(columns=["smoker"], levels={"smoker": list(range(2001))})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"n": 1}, OptionError, "n="),
        ({"n": "many"}, OptionError, "n="),
        ({"m": 3}, OptionError, "at most d=1"),
        ({"d": 0}, OptionError, "d="),
        ({"mechanisms": ["pieces"]}, OptionError, "mechanisms="),
        ({"mechanisms": "piecewise"}, OptionError, "list"),
        ({"bounds": (1, 0)}, OptionError, "low < high"),
        ({"bounds": 3}, OptionError, "pair"),
        ({"tolerance": 0}, OptionError, "tolerance"),
        ({"values": []}, DataError, "one or more"),
        ({"values": [np.nan]}, DataError, "finite"),
        ({"values": ["a"]}, DataError, "numbers"),
        ({"weights": [1.0]}, DataError, "as many"),
        ({"epsilon": None, "mu": None}, OptionError, "needs a budget"),
        ({"epsilon": None}, BudgetError, "exactly one"),
    ],
)
def test_the_benchmark_says_what_is_wrong(changes, error, words):
    options = {"values": [0.1, 0.4], "n": 100, "bounds": (0, 1), "epsilon": 1, **changes}
    with pytest.raises(error, match=words):
        pr.means.benchmark(options.pop("values"), **options)


def test_the_benchmark_refuses_rows_that_were_fitted():
    rows = DATA[["age"]].copy()
    run(data=rows, columns=["age"])
    with pytest.raises(pr.errors.NotPrivateError, match="public rows"):
        pr.means.benchmark(rows, n=100, bounds=(18, 65), epsilon=1)


@pytest.mark.parametrize(
    ("x", "sd", "words"),
    [([1.0], [1.0, 2.0], "one length"), ([np.nan], [1.0], "finite"), ([1.0], [-1.0], "not negative")],
)
def test_shrinking_wants_finite_arrays(x, sd, words):
    with pytest.raises(OptionError, match=words):
        pr.means.shrink(x, sd)
    with pytest.raises(OptionError, match="Did you mean 'sure'"):
        pr.means.shrink([1.0], [1.0], "sur")
