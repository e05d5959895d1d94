"""What a response can be: a number, 0/1, or declared levels; and the exposure beside it."""

import json
import pickle

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.data.sources.open import open_arrays
from privreg.doors.loading import upgraded
from privreg.errors import DataError, FormulaError, OptionError, PrivacyLeakWarning, SchemaError
from privreg.families.family import from_json
from privreg.formula.batches import read_arrays
from privreg.formula.describe import complete, design_from_json
from privreg.formula.design import array_design, formula_design
from privreg.formula.language.parse import private_columns, read_formula
from privreg.schema.declarations import MOST_LEVELS, RESPONSE_KINDS, Schema
from tests.designs import FUNCTIONS, SCHEMA, frame
from tests.wrong import ANSWER, INSIDE, WORD, cases, check_refusal

GRADES = ["low", "mid", "high"]
X = Schema.declare({"x1": (0, 1)}, {"g": GRADES})
MANY = [f"{WORD}-{i}" for i in range(MOST_LEVELS + 1)]
AREA = Schema.declare({"x1": (0, 1), "y": (0, 9), "offset": (-1, 1), "exposure": (0.5, 4)}, {"g": GRADES})
TOWNS = Schema.declare({"y": (0, 9), "age": (0, 99), "t": (0.5, 4), "o": (-1, 1), "zero": (0, 4)}, SCHEMA.levels)


# --- counts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", ["y", "I(y)"])
def test_responses_that_are_no_counts_are_clamped_or_kept_and_told_to_nobody(response):
    data = pd.DataFrame({"y": [-3.0, 0.5, 2.7, 25.0], "age": [20.0, 30.0, 40.0, 50.0]})
    public = {"family": pr.Poisson(20), "mu": 1, "bounds": {"age": (0, 99), "y": (0, 20)}}
    stream = pr.PrivateOnlineRegression.from_formula(f"{response} ~ age", None, **public).start()
    np.testing.assert_array_equal(stream._encoder.encode(data).y, [0.0, 0.5, 2.7, 20.0])
    assert stream.update(data).nobs == 4


# --- levels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("response", ["region", "C(region)", 'Q("region")', "C(region, Sum)"])
def test_levels_are_coded_in_their_declared_order(response):
    data = frame()
    design = formula_design(f"{response} ~ age", SCHEMA, kind="levels")
    want = [SCHEMA.levels["region"].index(v) for v in data["region"]]
    got = design.encode(data).endog
    np.testing.assert_array_equal(got, want)
    assert got.dtype == np.float64
    assert design.endog_limits == (0.0, 2.0)
    assert design.endog_levels == ("north", "east", "south")
    assert design.endog_bare is None


def test_levels_of_a_response_that_is_0_or_1():
    for name, levels in (("smoker", ("no", "yes")), ("member", (False, True))):
        for kind in ("binary", "levels"):
            design = formula_design(f"{name} ~ age", SCHEMA, kind=kind)
            assert design.endog_levels == levels
            assert design.endog_limits == (0.0, 1.0)
            np.testing.assert_array_equal(
                design.encode(frame()).endog, [levels.index(v) for v in frame()[name].tolist()]
            )
    for formula in ("won ~ age", "I(smoker == 'yes') ~ age"):
        assert formula_design(formula, SCHEMA, kind="binary").endog_levels is None
    assert formula_design("y ~ age", SCHEMA).endog_levels is None


@pytest.mark.parametrize(
    "endog",
    [
        ["high", "low", "mid"],
        np.array(["high", "low", "mid"]),
        pd.Series(["high", "low", "mid"], name="g", index=[7, 8, 9]),
        pd.Series(pd.Categorical(["high", "low", "mid"], categories=["unused", "high", "mid", "low"])),
        pd.DataFrame({"g": ["high", "low", "mid"]}),
    ],
)
def test_arrays_take_levels_for_the_response(endog):
    held = read_arrays(endog, np.zeros((3, 1)), None, ["x1"], "g")
    design = array_design(held.names, held.endog_name, X, kind="levels")
    batches = open_arrays((held.endog, held.exog, None, None)).batches(0)
    np.testing.assert_array_equal(design.encode(next(batches)).endog, [2, 0, 1])
    assert (design.endog_levels, design.endog_limits, design.endog_bare) == (tuple(GRADES), (0.0, 2.0), None)
    assert held.numeric("levels") == held.numeric("binary") == ["x1"]
    assert held.numeric("number") == ["x1", "g"]


@pytest.mark.thorough
def test_a_model_of_arrays_takes_levels_for_its_response():
    rng = np.random.default_rng(1)
    x = np.column_stack([np.ones(3000), rng.uniform(-1, 1, 3000)])
    y = np.where(rng.uniform(size=3000) < 1 / (1 + np.exp(-2 * x[:, 1])), "yes", "no")
    given = {"exog_names": ["const", "a"], "bounds": {"a": (-1, 1)}, "family": "logistic", "mu": None}
    named = pr.PrivateOnlineRegression(y, x, levels={"y": ["no", "yes"]}, **given).fit(progress=False)
    coded = pr.PrivateOnlineRegression((y == "yes") * 1.0, x, **given).fit(progress=False)
    np.testing.assert_array_equal(named.params, coded.params)


def test_a_response_of_levels_has_no_private_scale():
    schema = Schema.declare({}, {"g": GRADES})
    assert private_columns(read_formula("g ~ a + b", {}), schema, "levels") == ("a", "b")
    assert private_columns(read_formula("g ~ a", {}), Schema.declare(), "levels") == ("a",)  # refused by the design
    assert private_columns(read_formula("g ~ a", {}), Schema.declare(), "binary") == ("a",)
    assert private_columns(read_formula("g ~ a", {}), Schema.declare()) == ("g", "a")


def test_levels_of_a_coded_response_can_be_leaked():
    data = pd.DataFrame({"g": [3, 1, 2, 1], "x": [0.0, 1, 2, 3]})
    schema = Schema.declare({"x": (0, 3)})
    with pytest.warns(PrivacyLeakWarning, match="levels of g"):
        full = complete(schema, data, read_formula("g ~ x", {}), None, ("levels",), "levels")
    assert full.levels["g"] == (1, 2, 3)
    assert formula_design("g ~ x", full, kind="levels").endog_levels == (1, 2, 3)
    with pytest.warns(PrivacyLeakWarning, match="mean and sd of x"):
        full = complete(
            Schema.declare({}, {"g": [1, 2, 3]}), data, read_formula("g ~ x", {}), None, ("scale",), "levels"
        )
    assert list(full.moments) == ["x"]


# --- equality and files ----------------------------------------------------------------------------------


def designs():
    yield formula_design("region ~ age + ramp(bmi)", SCHEMA, functions=FUNCTIONS, offset="z", kind="levels")
    yield formula_design("smoker ~ age", SCHEMA, kind="binary")
    yield formula_design("y ~ age", TOWNS, offset="o", exposure="t")
    yield array_design(["const", "x1"], "g", AREA, kind="levels")
    yield array_design(["const", "x1"], "won", AREA, kind="binary", offset=True)
    yield array_design(["const", "x1"], "y", AREA, offset=True, exposure=True)


def test_designs_come_back_from_pickles_and_files():
    for design in designs():
        doc = json.loads(json.dumps(design.to_json()))
        assert doc["response"] == design.kind
        assert "binary" not in doc
        for copy in (pickle.loads(pickle.dumps(design)), design_from_json(doc, FUNCTIONS)):
            assert copy == design
            assert hash(copy) == hash(design)
            assert (copy.kind, copy.exposure) == (design.kind, design.exposure)
            assert (copy.endog_levels, copy.endog_limits) == (design.endog_levels, design.endog_limits)


def test_files_of_the_first_version_are_read():
    for design in designs():
        doc = design.to_json()
        kind = doc.pop("response")
        if kind == "levels" or doc.pop("exposure"):
            continue
        old = {"kind": "results", "design": {**doc, "binary": kind == "binary"}, "family": ["Huber", "auto", "auto"]}
        new = upgraded(json.loads(json.dumps(old)))
        assert design_from_json(new["design"], FUNCTIONS) == design
        assert from_json(new["family"]) == pr.Huber()


def test_the_kind_makes_designs_differ():
    a, b = (formula_design("I(z > 0) ~ age", SCHEMA, kind=kind) for kind in ("binary", "number"))
    assert a != b
    assert array_design(["x1"], "g", Schema.declare({"x1": (0, 1)}, {"g": [0, 1]}), kind="levels") != array_design(
        ["x1"], "g", Schema.declare({"x1": (0, 1)}, {"g": [0, 1]}), kind="binary"
    )
    assert formula_design("y ~ age", TOWNS, exposure="t") != formula_design("y ~ age", TOWNS)
    assert RESPONSE_KINDS == ("number", "binary", "levels")


# --- exposure --------------------------------------------------------------------------------------------


def test_the_log_of_the_exposure_is_added_to_the_offset():
    rows = {"y": [1, 2, 3], "age": [1, 2, 3], "t": [1.0, 9.0, 0.0], "o": [0.5, 0.25, -3.0]}
    both = formula_design("y ~ age", TOWNS, offset="o", exposure="t")
    alone = formula_design("y ~ age", TOWNS, exposure="t")
    log = np.log([1.0, 4.0, 0.5])  # clamped
    np.testing.assert_array_equal(both.encode(rows).offset, log + np.array([0.5, 0.25, -1]))
    np.testing.assert_array_equal(alone.encode(rows).offset, log)
    assert both.columns == ("y", "age", "o", "t")
    x, offset = alone.encode_new({"age": [5.0], "t": [8.0]})
    assert (x[0, 1], offset[0]) == (5, np.log(8))
    np.testing.assert_array_equal(both.encode_new({"age": [5.0], "o": [7], "t": [2]})[1], [7 + np.log(2)])


def test_the_exposure_of_arrays():
    y, x, o, e = np.array([1.0, 2]), np.array([[0.5], [1]]), np.array([0.25, -9]), np.array([9.0, 1])
    both = array_design(["x1"], "y", AREA, offset=True, exposure=True)
    alone = array_design(["x1"], "y", AREA, exposure=True)
    assert (both.exposure, both.offset, alone.offset) == ("exposure", "offset", None)
    assert both.columns == ("y", "x1", "offset", "exposure")
    np.testing.assert_array_equal(both.encode((y, x, o, e)).offset, [0.25 + np.log(4), -1])
    np.testing.assert_array_equal(alone.encode((y, x, None, e)).offset, [np.log(4), 0])
    np.testing.assert_array_equal(both.encode_new((x, o, e))[1], o + np.log(e))
    np.testing.assert_array_equal(alone.encode_new((x, None, e))[1], np.log(e))
    held = read_arrays(y, x, o, ["x1"], "y", exposure=e)
    batch = next(open_arrays(held[2:]).batches(0))
    np.testing.assert_array_equal(both.encode(batch).offset, both.encode((y, x, o, e)).offset)


# --- wrong calls -----------------------------------------------------------------------------------------


def formula(text, kind="number", schema=SCHEMA, **more):
    return lambda _: formula_design(text, schema, kind=kind, **more)


def arrays(endog, kind="levels", schema=AREA, **more):
    return lambda _: array_design(["x1"], endog, schema, kind=kind, **more)


def batch(*given, **design):
    return lambda _: array_design(["x1"], "y", AREA, **design).encode(given)


ONES = np.ones(2)
COLUMN = np.ones((2, 1))
RESPONSES = {
    "number for levels": (
        formula("y ~ age", "levels"),
        FormulaError,
        ["'y' is declared as a number", "levels={'y': [...]} in place of bounds"],
    ),
    "undeclared levels": (
        formula("won ~ age", "levels"),
        SchemaError,
        ["'won' has no declared levels", "give levels={'won': [...]}", "in order"],
    ),
    "undeclared levels and another": (
        formula("won ~ height", "levels"),
        SchemaError,
        ["levels={'won': [...]}", "Also undeclared: 'height'"],
    ),
    "private scale for levels": (
        formula("won ~ age", "levels", Schema.declare({"age": (0, 1)}, private=("won",))),
        SchemaError,
        ["'won' has no declared levels"],
    ),
    "transformed levels": (
        formula("np.log(y) ~ age", "levels"),
        FormulaError,
        ["'np.log(y)' is computed", "write 'y ~ ...'", "levels={'y': [...]}"],
    ),
    "comparison for levels": (
        formula("I(region == 'north') ~ age", "levels"),
        FormulaError,
        ["is computed", "write 'region ~ ...'"],
    ),
    "too many levels": (
        formula("g ~ age", "levels", Schema.declare({"age": (0, 1)}, {"g": MANY})),
        SchemaError,
        ["'g' has more than 50 levels", "join rare levels"],
    ),
    "one level": (
        lambda _: Schema.declare({}, {"g": ["only"]}),
        SchemaError,
        ["levels['g'] has 1 level(s)", "at least two"],
    ),
    "factor for a number": (
        formula("smoker ~ age"),
        FormulaError,
        ["'smoker' is a factor with 2 declared levels", "needs a number", "bounds={'smoker': (low, high)}", "logistic"],
    ),
    "three levels for 0/1": (
        formula("region ~ age", "binary"),
        FormulaError,
        ["3 declared levels", "a binary family needs two", "Join levels"],
    ),
    "unknown kind": (formula("y ~ age", "binaries"), OptionError, ["kind='binaries'", "'levels'", "Did you mean"]),
    "a level that is not declared": (
        lambda _: formula_design("region ~ age", SCHEMA, kind="levels").encode(frame(3).assign(region=WORD)),
        SchemaError,
        ["'region' has a value that is not among its declared levels"],
    ),
}
ARRAYS = {
    "number for levels": (arrays("y"), SchemaError, ["'y' is declared as a number", "levels={'y': [...]}"]),
    "undeclared levels": (arrays("z"), SchemaError, ["'z' has no declared levels", "levels={'z': [...]}"]),
    "factor for a number": (arrays("g", "number"), SchemaError, ["'g' is a factor with 3", "bounds={'g'"]),
    "three levels for 0/1": (arrays("g", "binary"), SchemaError, ["3 declared levels", "needs two"]),
    "too many levels": (
        arrays("g", schema=Schema.declare({"x1": (0, 1)}, {"g": MANY})),
        SchemaError,
        ["more than 50 levels"],
    ),
    "levels of a covariate": (
        lambda _: array_design(["g"], "y", Schema.declare({}, {"g": GRADES, "y": [0, 1]})),
        SchemaError,
        ["'g' of an array is a number, but levels= declares it"],
    ),
    "a level that is not declared": (
        lambda _: array_design(["x1"], "g", X, kind="levels").encode((["low", WORD], COLUMN)),
        SchemaError,
        ["'g' has a value that is not among"],
    ),
    "unknown kind": (arrays("y", "level"), OptionError, ["kind='level'", "Did you mean 'levels'?"]),
}
EXPOSURES = {
    "undeclared": (
        formula("y ~ age", exposure="t"),
        SchemaError,
        ["exposure='t'", "positive bounds", "bounds={'t': (low, high)} with 0 < low"],
    ),
    "not positive": (formula("y ~ age", schema=TOWNS, exposure="zero"), SchemaError, ["from 0 to 4", "0 < low"]),
    "a factor": (formula("y ~ age", exposure="smoker"), SchemaError, ["numeric column", "levels= declares it"]),
    "moments only": (
        formula("y ~ age", schema=Schema.declare({"y": (0, 1), "age": (0, 1)}, {}, {"t": (5, 1)}), exposure="t"),
        SchemaError,
        ["moments alone don't bound it"],
    ),
    "the response": (formula("y ~ age", exposure="y"), SchemaError, ["exposure='y' is the response too"]),
    "the offset": (
        formula("y ~ age", schema=TOWNS, offset="t", exposure="t"),
        SchemaError,
        ["exposure='t' is the offset too"],
    ),
    "of arrays, undeclared": (arrays("g", schema=X, exposure=True), SchemaError, ["exposure='exposure'", "0 < low"]),
    "of arrays, left out": (
        batch(ONES, COLUMN, exposure=True),
        DataError,
        ["only if it was declared with them", "(endog, exog, None, exposure)"],
    ),
    "of arrays, not declared": (
        batch(ONES, COLUMN, None, ONES),
        DataError,
        ["only if it was declared with them", "(endog, exog)"],
    ),
    "of arrays, another length": (batch(ONES, COLUMN, None, np.ones(3), exposure=True), DataError, ["differ in"]),
    "of arrays, five parts": (
        batch(ONES, COLUMN, ONES, ONES, ONES),
        DataError,
        ["(endog, exog)", "of 5"],
    ),
    "of new rows, not positive": (
        lambda _: formula_design("y ~ age", TOWNS, exposure="t").encode_new({"age": [1.0], "t": [-INSIDE]}),
        DataError,
        ["the exposure 't' must be positive"],
    ),
    "of new rows, too many": (
        lambda _: formula_design("y ~ age", TOWNS, exposure="t").encode_new({"age": [1.0], "t": [ANSWER, INSIDE]}),
        DataError,
        ["the new rows are 1 but 't' has 2"],
    ),
    "of new arrays, offset not declared": (
        lambda _: array_design(["x1"], "y", AREA, exposure=True).encode_new((COLUMN, ONES)),
        DataError,
        ["new rows of this model are (exog, None, exposure)"],
    ),
    "of new arrays, none": (
        lambda _: array_design(["x1"], "y", AREA, offset=True, exposure=True).encode_new(COLUMN),
        DataError,
        ["new rows of this model are (exog, offset, exposure)"],
    ),
    "of new arrays, no exposure": (
        lambda _: array_design(["x1"], "y", AREA, offset=True, exposure=True).encode_new((COLUMN, ONES)),
        DataError,
        ["new rows of this model are (exog, offset, exposure)"],
    ),
}


@pytest.mark.parametrize(("call", "error", "pieces"), cases(responses=RESPONSES, arrays=ARRAYS, exposures=EXPOSURES))
def test_wrong_calls(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)
