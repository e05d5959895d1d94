"""Designs from formulas: agreement with patsy, batches, responses, copies."""

from __future__ import annotations

import decimal
import itertools
import json
import pickle

import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.data.columns import learn_levels, learn_moments
from privreg.errors import DataError, FormulaError, PrivacyLeakError, SavedFileError, SchemaError
from privreg.formula.describe import design_from_json
from privreg.formula.design import Design, formula_design
from privreg.formula.language.rowwise import rowwise
from privreg.schema.declarations import Schema
from tests.designs import FUNCTIONS, RIGHT_SIDES, SCHEMA, SENTINEL, fails, for_patsy, frame, shown


@pytest.mark.some(1)
@pytest.mark.parametrize("right", RIGHT_SIDES)
def test_agrees_with_patsy(right):
    data = frame()
    design = formula_design(f"y ~ {right}", SCHEMA)
    numpy = np  # noqa: F841 - patsy looks the name up here
    y, x = patsy.dmatrices(f"y ~ {right}", for_patsy(data))
    got = design.encode(data)
    assert design.names == tuple(x.design_info.column_names)
    np.testing.assert_array_equal(got.exog, np.asarray(x))
    np.testing.assert_array_equal(got.endog, np.asarray(y)[:, 0])
    assert got.offset is None
    assert got.exog.flags.c_contiguous
    assert got.exog.dtype == np.float64
    np.testing.assert_array_equal(design.encode_exog(data), got.exog)
    assert np.linalg.matrix_rank(design.probe / np.abs(design.probe).max(axis=0)) == len(design.names)


MIXED = (
    "np.log(y) ~ age*smoker + C(region, Sum) + np.sin(z) + np.exp(z) + I(z**3) + ramp(bmi)"
    " + bs(age, knots=[40], degree=2, lower_bound=18, upper_bound=65):member"
    " + z:cr(bmi, knots=[20, 30], lower_bound=18, upper_bound=50)"
    " + year:cc(z, knots=[0, 1], lower_bound=-2, upper_bound=3)"
)
MIXED_DESIGN = formula_design(MIXED.replace("age*smoker", "smoker"), SCHEMA, functions=FUNCTIONS, offset="year")


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(cuts=st.lists(st.integers(0, 60), max_size=6), n=st.integers(1, 60), seed=st.integers(0, 9))
def test_any_batch_split_gives_the_same_bits(cuts, n, seed):
    data = frame(n, seed)
    data["age"] *= np.linspace(0.5, 1.5, n)  # some are clamped
    whole = MIXED_DESIGN.encode(data)
    edges = sorted({0, n, *(c for c in cuts if c < n)})
    parts = [MIXED_DESIGN.encode(data.iloc[a:b]) for a, b in itertools.pairwise(edges)]
    for i in range(3):
        np.testing.assert_array_equal(np.concatenate([p[i] for p in parts]), whole[i])


@pytest.mark.thorough
def test_row_by_row_gives_the_same_bits():
    data = frame(25)
    whole = MIXED_DESIGN.encode(data)
    for i in range(25):
        one = MIXED_DESIGN.encode(data.iloc[i : i + 1])
        np.testing.assert_array_equal(one.exog[0], whole.exog[i])
        assert one.endog[0] == whole.endog[i]


def test_an_empty_batch_is_fine():
    got = MIXED_DESIGN.encode(frame(5).iloc[:0])
    assert got.exog.shape == (0, len(MIXED_DESIGN.names))


def test_numbers_are_clamped_for_fitting_and_not_for_prediction():
    data = frame(3).assign(age=[0.0, 40.0, 500.0], y=[-1.0, 5.0, 1e9])
    design = formula_design("y ~ age + I(age**2)", SCHEMA)
    got = design.encode(data)
    np.testing.assert_array_equal(got.exog[:, 1], [18, 40, 65])
    np.testing.assert_array_equal(got.exog[:, 2], [18**2, 40**2, 65**2])
    np.testing.assert_array_equal(got.endog, [0.5, 5, 100])
    np.testing.assert_array_equal(design.encode_exog(data)[:, 1], [0, 40, 500])
    np.testing.assert_array_equal(design.encode_exog(data, clamp=True), got.exog)
    np.testing.assert_array_equal(design.encode_exog({"age": [20, 30]})[:, 2], [400, 900])
    assert design.encode_exog(pd.DataFrame({"age": [20.0]})).shape == (1, 3)


@pytest.mark.parametrize("dtype", [object, "str", "category"])
def test_factors_have_the_declared_levels_whatever_the_dtype(dtype):
    data = frame(50)
    want = formula_design("y ~ region*smoker", SCHEMA)
    plain = want.encode(data).exog
    # a category dtype in another order, with unused categories, is not a declaration
    data["region"] = data["region"].astype(dtype)
    if dtype == "category":
        data["region"] = data["region"].cat.set_categories(["unused", "south", "east", "north"])
    np.testing.assert_array_equal(want.encode(data).exog, plain)


def test_numeric_dtypes():
    design = formula_design("y ~ age", SCHEMA)
    wanted = [20.0, 30.0]
    for values in (
        np.array([20, 30], dtype=np.int8),
        np.array([20, 30], dtype=np.float32),
        pd.array([20, 30], dtype="Int64"),
        pd.array([20.0, 30.0], dtype="Float64"),
        np.array([20, 30.0], dtype=object),
        np.array([decimal.Decimal(20), decimal.Decimal(30)], dtype=object),
        pd.Categorical([20, 30]),
    ):
        got = design.encode_exog(pd.DataFrame({"age": values}))
        np.testing.assert_array_equal(got[:, 1], wanted)


class TestResponse:
    def test_transformation_and_its_range(self):
        design = formula_design("np.log(y) ~ age", SCHEMA)
        np.testing.assert_array_equal(design.encode(frame()).endog, np.log(frame()["y"]))
        assert design.endog_limits == (np.log(0.5), np.log(100))
        assert design.endog_name == "np.log(y)"
        assert formula_design("y ~ age", SCHEMA).endog_limits == (0.5, 100.0)
        bumpy = formula_design("I((z - 0.1234) ** 2) ~ age", SCHEMA)
        assert bumpy.endog_limits[0] < 1e-5
        assert bumpy.encode(frame(2000)).endog.min() >= bumpy.endog_limits[0]

    def test_boolean_expression_is_the_last_of_patsys_two_columns(self):
        data = frame()
        y, _ = patsy.dmatrices("I(z > 0) ~ age", data)
        for kind in ("binary", "number"):
            design = formula_design("I(z > 0) ~ age", SCHEMA, kind=kind)
            np.testing.assert_array_equal(design.encode(data).endog, np.asarray(y)[:, -1])
            assert design.endog_limits == (0.0, 1.0)

    @pytest.mark.parametrize("name", ["smoker", "C(smoker)", "member", "I(smoker == 'yes')"])
    def test_two_level_factor(self, name):
        data = frame()
        want = data["member"] if name == "member" else data["smoker"] == "yes"
        design = formula_design(f"{name} ~ age", SCHEMA, kind="binary")
        np.testing.assert_array_equal(design.encode(data).endog, want.to_numpy(float))

    def test_undeclared_binary_column(self):
        design = formula_design("won ~ age", SCHEMA, kind="binary")
        assert design.endog_limits == (0.0, 1.0)
        data = frame(2)
        for values in ([True, False], [1, 0], [1.0, 0.0], np.array([True, False], dtype=object)):
            np.testing.assert_array_equal(design.encode(data.assign(won=values)).endog, [1, 0])
        with pytest.raises(DataError, match="other than 0 and 1"):
            design.encode(data.assign(won=[0.5, 1]))

    @pytest.mark.parametrize(
        ("formula", "kind", "piece"),
        [
            ("smoker ~ age", "number", "is a factor"),
            ("region ~ age", "binary", "3 declared levels"),
            ("y ~ age", "binary", "0 or 1"),
            ("bs(y, knots=[50], lower_bound=0, upper_bound=100) ~ age", "number", "it must have one"),
            ("np.log(z) ~ age", "number", "not finite"),
        ],
    )
    def test_refused(self, formula, kind, piece):
        with pytest.raises(FormulaError, match=piece):
            formula_design(formula, SCHEMA, kind=kind)

    def test_unbounded(self):
        schema = Schema.declare({"x": (0, 1)}, None, {"w": (0, 1)})
        assert formula_design("w ~ x", schema).endog_limits == (-np.inf, np.inf)
        assert formula_design("I(2 * w) ~ x", schema).endog_limits == (-np.inf, np.inf)


class Spy(dict):
    def __init__(self, *args):
        super().__init__(*args)
        self.read = []

    def __getitem__(self, key):
        self.read.append(key)
        return super().__getitem__(key)


def test_only_the_named_columns_are_read():
    design = formula_design("y ~ age + region + np.log(bmi)", SCHEMA, offset="year")
    assert design.columns == ("y", "age", "region", "bmi", "year")
    spy = Spy({name: frame(3)[name].to_numpy() for name in frame(3)})
    design.encode(spy)
    assert sorted(spy.read) == sorted(design.columns)
    spy.read.clear()
    design.encode_exog(spy)
    assert sorted(spy.read) == ["age", "bmi", "region"]


def test_offset():
    design = formula_design("y ~ age", SCHEMA, offset="z")
    got = design.encode(frame(3).assign(z=[-10.0, 1.5, 10.0]))
    np.testing.assert_array_equal(got.offset, [-2, 1.5, 3])
    for name in ("nope", "smoker", "y"):
        with pytest.raises(SchemaError, match=f"offset='{name}'"):
            formula_design("y ~ age", SCHEMA, offset=name)


def test_pickle_equality_and_json():
    formula = "np.log(y) ~ C(region, Sum)*age + ramp(bmi) + children"
    design = formula_design(formula, SCHEMA, functions={**FUNCTIONS, "unused": rowwise(fails)}, offset="z")
    assert set(design.functions) == {"ramp"}
    data = frame(20)
    doc = json.loads(json.dumps(design.to_json()))
    for copy in (pickle.loads(pickle.dumps(design)), design_from_json(doc, FUNCTIONS)):
        assert isinstance(copy, Design)
        assert copy == design
        assert hash(copy) == hash(design)
        for a, b in zip(copy.encode(data), design.encode(data), strict=True):
            np.testing.assert_array_equal(a, b)
    assert formula_design("y ~ age", SCHEMA) != formula_design("y ~ age", SCHEMA, offset="z")
    assert "array" not in repr(design)
    with pytest.raises(SavedFileError, match=r"pr\.rowwise"):
        design_from_json(doc)
    with pytest.raises(PrivacyLeakError):
        design_from_json({**doc, "formula": "y ~ __import__('os').getcwd()"}, FUNCTIONS)
    with pytest.raises(SavedFileError, match="damaged"):
        design_from_json({**doc, "names": ["a"]}, FUNCTIONS)
    with pytest.raises(SavedFileError, match="kind"):
        design_from_json({**doc, "kind": "other"})


def test_learning_opt_outs():
    data = frame(200)
    assert learn_levels(data, "region") == ("east", "north", "south")
    assert learn_levels(data, "children") == (0, 1, 2, 3)
    mean, sd = learn_moments(data, "age")
    assert mean == pytest.approx(data["age"].mean())
    assert sd == pytest.approx(data["age"].std(ddof=0))
    mixed = pd.DataFrame({"a": ["SECRETLEVEL", SENTINEL], "b": [None, "SECRETLEVEL"], "c": [SENTINEL] * 2})
    for learn, name in (
        (learn_levels, "a"),
        (learn_levels, "b"),
        (learn_moments, "a"),
        (learn_moments, "c"),
    ):
        with pytest.raises(DataError) as caught:
            learn(mixed, name)
        assert "SECRETLEVEL" not in shown(caught.value)
        assert "987654" not in shown(caught.value)
