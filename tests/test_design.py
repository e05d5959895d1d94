from __future__ import annotations

import decimal
import itertools
import json
import pickle
import time
import traceback

import numpy as np
import pandas as pd
import patsy
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.arrays import ArrayDesign, array_design
from privreg.columns import learn_levels, learn_moments
from privreg.design import Design, design_from_json, formula_design
from privreg.errors import (
    DataError,
    FormulaError,
    OptionError,
    PrivacyLeakError,
    PrivregError,
    SavedFileError,
    SchemaError,
)
from privreg.formula import rowwise
from privreg.schema import Schema

LEVELS = {
    "smoker": ("no", "yes"),
    "region": ("north", "east", "south"),
    "children": (0, 1, 2, 3),
    "member": (False, True),
}
BOUNDS = {
    "y": (0.5, 100),
    "age": (18, 65),
    "bmi": (18, 50),
    "z": (-2, 3),
    "my col": (0, 1),
    "np": (0, 1),
    "year": (1990, 2020),
}
SCHEMA = Schema.declare(BOUNDS, LEVELS)
SENTINEL = 987654.321


def frame(n: int = 400, seed: int = 3) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    data = {name: rng.uniform(low, high, n) for name, (low, high) in BOUNDS.items()}
    for name, levels in LEVELS.items():
        data[name] = np.array(levels, dtype=object)[rng.integers(0, len(levels), n)]
    return pd.DataFrame(data)


def for_patsy(data: pd.DataFrame) -> pd.DataFrame:
    coded = {name: pd.Categorical(data[name], categories=list(levels)) for name, levels in LEVELS.items()}
    return data.drop(columns="np").assign(**coded)  # patsy would take it for the module


def ramp(x):
    return np.maximum(x - 30, 0)


def minus_mean(x):
    return x - x.mean()


def scalar_mean(x):
    return x.mean()


RIGHT_SIDES = [
    "1",
    "age",
    "age + bmi - 1",
    "smoker",
    "smoker - 1",
    "smoker + region + children + member",
    "0 + smoker + region",
    "0 + age + region",
    "smoker*region",
    "smoker:region",
    "0 + smoker:region",
    "age*smoker",
    "age:smoker",
    "(age + bmi + smoker)**2",
    "age + age:region + smoker:region:bmi",
    "children/smoker",
    "I(age**2) + age + I(age**3 / 1000)",
    "np.log(age) + numpy.sqrt(bmi)",
    "np.exp(z) + np.sin(z) + np.tanh(z)",
    "np.where(age > 40, z, -1) + np.clip(bmi, 20, 30)",
    "np.maximum(age, 40) + np.power(z, 3) + np.hypot(age, bmi)",
    "I(age > 40) + I((age > 30) & ~(bmi < 25))",
    "np.round(age, 1) + np.floor(bmi / 5)",
    "I(smoker == 'yes') + I(region != 'south') + I(children == 2)",
    "C(region, Treatment('south')) + C(children, Treatment(2))",
    "C(region, Sum) + age",
    "C(region, Sum(omit='north'))",
    "C(children, Poly) + C(smoker, Helmert)",
    "C(children, Diff):age + C(region, contrast=Helmert)",
    "C(children, Poly(scores=[0, 1, 2, 5]))",
    "bs(age, knots=[30, 50], lower_bound=18, upper_bound=65)",
    "bs(age, knots=[40], degree=2, lower_bound=18, upper_bound=65, include_intercept=True) - 1",
    "cr(age, knots=[30, 40, 50], lower_bound=18, upper_bound=65) - 1",
    "cc(bmi, knots=[25, 35], lower_bound=18, upper_bound=50) - 1",
    "smoker:bs(age, knots=[40], degree=1, lower_bound=18, upper_bound=65)",
    'Q("my col") + age',
    "year + I(year**2)",
]


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
FUNCTIONS = {"ramp": rowwise(ramp)}
MIXED_DESIGN = formula_design(MIXED.replace("age*smoker", "smoker"), SCHEMA, functions=FUNCTIONS, offset="year")


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
        for binary in (True, False):
            design = formula_design("I(z > 0) ~ age", SCHEMA, binary=binary)
            np.testing.assert_array_equal(design.encode(data).endog, np.asarray(y)[:, -1])
            assert design.endog_limits == (0.0, 1.0)

    @pytest.mark.parametrize("name", ["smoker", "C(smoker)", "member", "I(smoker == 'yes')"])
    def test_two_level_factor(self, name):
        data = frame()
        want = data["member"] if name == "member" else data["smoker"] == "yes"
        design = formula_design(f"{name} ~ age", SCHEMA, binary=True)
        np.testing.assert_array_equal(design.encode(data).endog, want.to_numpy(float))

    def test_undeclared_binary_column(self):
        design = formula_design("won ~ age", SCHEMA, binary=True)
        assert design.endog_limits == (0.0, 1.0)
        data = frame(2)
        for values in ([True, False], [1, 0], [1.0, 0.0], np.array([True, False], dtype=object)):
            np.testing.assert_array_equal(design.encode(data.assign(won=values)).endog, [1, 0])
        with pytest.raises(DataError, match="other than 0 and 1"):
            design.encode(data.assign(won=[0.5, 1]))

    @pytest.mark.parametrize(
        ("formula", "binary", "piece"),
        [
            ("smoker ~ age", False, "is a factor"),
            ("region ~ age", True, "3 declared levels"),
            ("y ~ age", True, "0 or 1"),
            ("bs(y, knots=[50], lower_bound=0, upper_bound=100) ~ age", False, "it must have one"),
            ("np.log(z) ~ age", False, "not finite"),
        ],
    )
    def test_refused(self, formula, binary, piece):
        with pytest.raises(FormulaError, match=piece):
            formula_design(formula, SCHEMA, binary=binary)

    def test_unbounded(self):
        schema = Schema.declare({"x": (0, 1)}, None, {"w": (0, 1)})
        assert formula_design("w ~ x", schema).endog_limits == (-np.inf, np.inf)
        assert formula_design("I(2 * w) ~ x", schema).endog_limits == (-np.inf, np.inf)


class TestPublicChecks:
    @pytest.mark.parametrize("term", ["np.log(z)", "1/my", "I(1 / z)", "I(1 / (age - 30))", "np.sqrt(z):smoker"])
    def test_not_finite_inside_the_bounds(self, term):
        term = term.replace("1/my", "I(1 / Q('my col'))")
        with pytest.raises(FormulaError, match="not finite somewhere inside the declared bounds") as caught:
            formula_design(f"y ~ age + {term}", SCHEMA)
        assert term.split("(")[0] in str(caught.value)

    @pytest.mark.parametrize(
        ("rhs", "involved"),
        [
            ("age + I(2 * age)", ["age", "I(2 * age)"]),
            ("age + bmi + I(age + bmi + 1)", ["Intercept", "age", "bmi"]),
            ("age + I(age > 900)", ["I(age > 900)[T.True]"]),
            ("smoker + I(smoker == 'yes')", ["smoker[T.yes]"]),
            ("cr(age, knots=[30], lower_bound=18, upper_bound=65)", ["Intercept"]),
        ],
    )
    def test_dependent_columns(self, rhs, involved):
        with pytest.raises(FormulaError, match="linearly dependent") as caught:
            formula_design(f"y ~ {rhs} + z", SCHEMA)
        assert all(repr(name) in str(caught.value) for name in involved)
        assert "'z'" not in str(caught.value)

    def test_zero_width_bound_beside_an_intercept(self):
        schema = Schema.declare({"y": (0, 1), "x": (2, 2)})
        with pytest.raises(FormulaError, match="'Intercept', 'x'"):
            formula_design("y ~ x", schema)
        design = formula_design("y ~ 0 + x", schema)
        np.testing.assert_allclose(design.constant, [0.5])

    @pytest.mark.parametrize("bad", [minus_mean, scalar_mean, np.cumsum, np.sort, lambda x: x[::-1]])
    def test_functions_that_mix_rows(self, bad):
        with pytest.raises(PrivacyLeakError, match=r"'f\(age\)' is not row by row"):
            formula_design("y ~ f(age)", SCHEMA, functions={"f": rowwise(bad)})
        with pytest.raises(PrivacyLeakError, match=r"f\(y\)"):
            formula_design("f(y) ~ age", SCHEMA, functions={"f": rowwise(bad)})

    @pytest.mark.parametrize(
        "bad",
        [lambda x: x.no_such, lambda x: np.full(len(x), "a"), lambda x: x.__iadd__(1), lambda x: x > 3 > x],
    )
    def test_functions_that_fail(self, bad):
        with pytest.raises(FormulaError, match=r"f\(age\)"):
            formula_design("y ~ f(age)", SCHEMA, functions={"f": rowwise(bad)})

    def test_marked_functions(self):
        def both(x):
            return np.column_stack([x, x**2])

        def risk(s):
            return np.where(s == "yes", 2.0, 0.0)

        marked = {"both": rowwise(both), "risk": rowwise(risk), "ramp": rowwise(ramp)}
        design = formula_design("y ~ both(z) + risk(smoker) + I(2 * ramp(age))", SCHEMA, functions=marked)
        assert design.names == ("Intercept", "both(z)[0]", "both(z)[1]", "risk(smoker)", "I(2 * ramp(age))")
        data = frame()
        got = design.encode(data).exog
        np.testing.assert_array_equal(got[:, 3], 2.0 * (data["smoker"] == "yes"))
        np.testing.assert_array_equal(got[:, 2], data["z"] ** 2)

    def test_the_check_is_quick(self):
        formula = "y ~ np.log(age) + np.sqrt(bmi) + ramp(age) + I(z**2) + np.exp(z)"
        times = []
        for _ in range(4):
            begin = time.perf_counter()
            formula_design(formula, SCHEMA, functions=FUNCTIONS)
            times.append(time.perf_counter() - begin)
        assert min(times) < 0.3  # about 0.02 on an idle machine

    def test_many_cells_have_full_rank(self):
        levels = {"f": [f"a{i}" for i in range(20)], "g": [f"b{i}" for i in range(20)]}
        design = formula_design("y ~ f*g + x:f", Schema.declare({"y": (0, 1), "x": (0, 1)}, levels))
        assert len(design.names) == 420

    def test_constant(self):
        assert formula_design("y ~ age + smoker", SCHEMA).constant.tolist() == [1, 0, 0]
        dummies = formula_design("y ~ 0 + region + smoker + age", SCHEMA)
        np.testing.assert_array_equal(dummies.constant, [1, 1, 1, 0, 0])
        spline = "bs(age, knots=[40], lower_bound=18, upper_bound=65, include_intercept=True)"
        design = formula_design(f"y ~ {spline} - 1", SCHEMA)
        np.testing.assert_allclose(design.probe @ design.constant, 1, atol=1e-9)
        assert formula_design("y ~ 0 + age + bmi", SCHEMA).constant is None

    def test_probe_stays_in_the_box_and_reaches_its_ends(self):
        design = formula_design("y ~ age + year", SCHEMA)
        assert design.probe[:, 1].min() == 18
        assert design.probe[:, 1].max() == 65
        assert 512 <= len(design.probe) <= 1024
        np.testing.assert_array_equal(design.probe, formula_design("y ~ age + year", SCHEMA).probe)

    def test_callers_names_are_never_seen(self):
        np = None  # noqa: F841
        design = formula_design("y ~ np.log(age) + Q('np')", SCHEMA)
        data = frame()
        import numpy

        numpy.testing.assert_array_equal(design.encode(data).exog[:, 1], numpy.log(data["age"]))
        numpy.testing.assert_array_equal(design.encode(data).exog[:, 2], data["np"])


def shown(error: BaseException) -> str:
    assert error.__cause__ is None
    assert error.__suppress_context__ or error.__context__ is None
    return "".join(traceback.format_exception(error))


def poison(**columns: object) -> pd.DataFrame:
    data = frame(4)
    for name, values in columns.items():
        data[name.replace("my_col", "my col")] = pd.Series(values, dtype=object if name in LEVELS else None)
    return data


BAD_DATA = [
    ("age", {"age": [SENTINEL, np.nan, 1, 2]}, DataError, "'age' has a missing or infinite"),
    ("age", {"age": [SENTINEL, np.inf, 1, 2]}, DataError, "'age' has a missing or infinite"),
    ("age", {"age": [SENTINEL, None, 1, 2]}, DataError, "'age' has a missing or infinite"),
    ("age", {"age": ["SECRETLEVEL", "b", "c", "d"]}, DataError, "'age' must hold numbers"),
    ("age", {"age": ["987654.321", "2", "3", "4"]}, DataError, "'age' must hold numbers"),
    ("age", {"age": [SENTINEL, "SECRETLEVEL", 2, 3]}, DataError, "'age' must hold numbers"),
    ("age", {"age": [SENTINEL * 1j, 1, 2, 3]}, DataError, "'age' must hold numbers"),
    ("age", {"age": pd.to_datetime(["2020-01-01"] * 4)}, DataError, "'age' must hold numbers"),
    ("smoker", {"smoker": ["no", "SECRETLEVEL", "no", "yes"]}, SchemaError, "not among its declared levels"),
    ("smoker", {"smoker": ["no", SENTINEL, "no", "yes"]}, SchemaError, "not among its declared levels"),
    ("smoker", {"smoker": ["no", None, "SECRETLEVEL", "yes"]}, DataError, "'smoker' has a missing value"),
    ("smoker", {"smoker": ["no", ["SECRETLEVEL"], "no", "yes"]}, DataError, "'smoker' holds something"),
    ("region*smoker", {"region": ["SECRETLEVEL"] * 4}, SchemaError, "'region' has a value"),
    ("fails(z)", {"z": [1, 2, 2.5, 1]}, DataError, "'fails(z)' can't be computed"),
    ("holes(z)", {"z": [1, 2, 2.5, 1]}, DataError, "'holes(z)' is not finite"),
]


def fails(x):
    if (x == 2.5).any():
        raise ValueError(f"SECRETLEVEL {SENTINEL} {x}")
    return x


def holes(x):
    return np.where(x == 2.5, np.nan, x)


TRICKY = {"fails": rowwise(fails), "holes": rowwise(holes)}


@pytest.mark.parametrize(("term", "columns", "kind", "piece"), BAD_DATA)
def test_no_value_leaks_into_an_error(term, columns, kind, piece):
    design = formula_design(f"y ~ bmi + {term}", SCHEMA, functions=TRICKY)
    data = poison(**columns).assign(secret="SECRETLEVEL")
    for call in (design.encode, design.encode_exog):
        with pytest.raises(kind) as caught:
            call(data)
        text = shown(caught.value)
        assert piece in text
        assert "SECRETLEVEL" not in text
        assert "987654" not in text


def test_no_value_leaks_from_the_response():
    data = frame(4).assign(won=[0, 1, SENTINEL, 1])
    for formula, binary, changed in (
        ("won ~ age", True, data),
        ("fails(z) ~ age", False, data.assign(z=[1, 2, 2.5, 1])),
        ("holes(z) ~ age", False, data.assign(z=[1, 2, 2.5, 1])),
        ("smoker ~ age", True, data.assign(smoker="SECRETLEVEL")),
    ):
        design = formula_design(formula, SCHEMA, functions=TRICKY, binary=binary)
        with pytest.raises((DataError, SchemaError)) as caught:
            design.encode(changed)
        assert "987654" not in shown(caught.value)
        assert "SECRETLEVEL" not in shown(caught.value)


def test_prediction_outside_a_spline_is_refused_without_the_value():
    design = formula_design("y ~ bs(age, knots=[40], lower_bound=18, upper_bound=65)", SCHEMA)
    with pytest.raises(DataError, match="can't be computed") as caught:
        design.encode_exog({"age": [SENTINEL]})
    assert "987654" not in shown(caught.value)
    design.encode(frame(3).assign(age=SENTINEL))  # clamped for fitting


def test_missing_column_and_other_frames():
    design = formula_design("y ~ age", SCHEMA)
    with pytest.raises(DataError, match="'age' is missing from the data, which have 3 columns") as caught:
        design.encode(pd.DataFrame({"y": [SENTINEL], "ages": [1], "other": ["SECRETLEVEL"]}))
    assert "Did you mean 'ages'?" in str(caught.value)
    assert "987654" not in shown(caught.value)
    with pytest.raises(DataError, match="more than once"):
        design.encode(pd.DataFrame([[1, 2, 3]], columns=["y", "age", "age"]))
    with pytest.raises(DataError, match="got list"):
        design.encode([1, 2])
    with pytest.raises(DataError, match="differ in length"):
        design.encode({"y": [1, 2, 3], "age": [20.0]})
    with pytest.raises(OptionError, match="'raise'"):
        design.encode(frame(2), missing="mean")


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
        Design.from_json(doc)
    with pytest.raises(PrivacyLeakError):
        Design.from_json({**doc, "formula": "y ~ __import__('os').getcwd()"}, FUNCTIONS)
    with pytest.raises(SavedFileError, match="damaged"):
        Design.from_json({**doc, "names": ["a"]}, FUNCTIONS)
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


class TestArrays:
    schema = Schema.declare({"x1": (-1, 1), "x2": (0, 10), "y": (0, 5), "offset": (0, 2)})

    def test_encode(self):
        design = array_design(["const", "x1", "x2"], "y", self.schema, offset=True)
        x = np.array([[7.0, -3, 5], [0.0, 0.5, 50]])
        got = design.encode((np.array([9.0, 1]), x, np.array([3, 1])))
        np.testing.assert_array_equal(got.exog, [[1, -1, 5], [1, 0.5, 10]])
        np.testing.assert_array_equal(got.endog, [5, 1])
        np.testing.assert_array_equal(got.offset, [2, 1])
        np.testing.assert_array_equal(design.encode_exog(x), [[1, -3, 5], [1, 0.5, 50]])
        np.testing.assert_array_equal(design.encode_exog(x.astype(int) > 0)[:, 0], [1, 1])
        assert x[0, 0] == 7
        assert design.names == ("const", "x1", "x2")
        assert design.constant.tolist() == [1, 0, 0]
        assert design.endog_limits == (0, 5)
        assert design.columns == ("y", "const", "x1", "x2", "offset")
        assert array_design(["x1", "x2"], "y", self.schema).constant is None

    def test_declared_constant_with_another_value(self):
        schema = Schema.declare({"x": (0, 1), "k": (2, 2), "y": (0, 1)})
        design = array_design(["x", "k"], "y", schema)
        np.testing.assert_allclose(design.constant, [0, 0.5])
        np.testing.assert_array_equal(design.encode_exog(np.array([[0.5, 9]])), [[0.5, 2]])
        with pytest.raises(FormulaError, match="'const', 'k'"):
            array_design(["const", "x", "k"], "y", schema)

    def test_binary(self):
        design = array_design(["x1"], "won", self.schema, binary=True)
        x = np.zeros((2, 1))
        np.testing.assert_array_equal(design.encode((np.array([True, False]), x)).endog, [1, 0])
        np.testing.assert_array_equal(design.encode((np.array([[1], [0]]), x)).endog, [1, 0])
        with pytest.raises(DataError, match="other than 0 and 1"):
            design.encode((np.array([SENTINEL, 0]), x))
        coded = array_design(["x1"], "s", Schema.declare({"x1": (0, 1)}, {"s": ["no", "yes"]}), binary=True)
        np.testing.assert_array_equal(coded.encode((np.array(["yes", "no"]), x)).endog, [1, 0])

    def test_refused(self):
        for names, endog, kwargs, piece in (
            (["x1", "nope"], "y", {}, "'nope' is not declared"),
            (["x1"], "z", {}, "'z' is not declared"),
            (["x1", "x1"], "y", {}, "must be given and differ"),
            (["x1"], "y", {"binary": True}, "0 or 1"),
        ):
            with pytest.raises(SchemaError, match=piece):
                array_design(names, endog, self.schema, **kwargs)
        with pytest.raises(SchemaError, match="use a formula"):
            array_design(["smoker"], "y", SCHEMA)
        with pytest.raises(SchemaError, match="3 declared levels"):
            array_design(["age"], "region", SCHEMA, binary=True)

    @pytest.mark.parametrize(
        ("y", "x", "o", "piece"),
        [
            ([1.0, SENTINEL], [[1.0, np.nan], [SENTINEL, 2]], None, "'x2' has a missing"),
            ([1.0, np.nan], [[1.0, SENTINEL], [1, 2]], None, "'y' has a missing"),
            ([1.0, 2], [[1.0, SENTINEL, 3]], None, "2 columns"),
            ([1.0, 2, SENTINEL], [[1.0, 2], [3, 4]], None, "differ in their number of rows"),
            ([1.0, 2], [["SECRETLEVEL", 2], [3, 4]], None, "must hold numbers"),
            ([[1.0, 2]], [[1.0, 2]], None, "one-dimensional"),
            ([1.0], [[1.0, 2]], [1.0], "offset"),
        ],
    )
    def test_bad_arrays(self, y, x, o, piece):
        design = array_design(["x1", "x2"], "y", self.schema)
        with pytest.raises(PrivregError, match=piece) as caught:
            design.encode((np.array(y), np.array(x), o))
        assert "987654" not in shown(caught.value)
        assert "SECRETLEVEL" not in shown(caught.value)

    def test_pickle_and_json(self):
        design = array_design(["const", "x1"], "y", self.schema, offset=True)
        copies = [
            pickle.loads(pickle.dumps(design)),
            design_from_json(json.loads(json.dumps(design.to_json()))),
        ]
        for copy in copies:
            assert isinstance(copy, ArrayDesign)
            assert copy == design
            assert hash(copy) == hash(design)
            np.testing.assert_array_equal(copy.probe, design.probe)
        assert design != array_design(["const", "x1"], "y", self.schema)

    @settings(max_examples=15, deadline=None)
    @given(cut=st.integers(0, 20), seed=st.integers(0, 99))
    def test_batches(self, cut, seed):
        rng = np.random.default_rng(seed)
        design = array_design(["const", "x1", "x2"], "y", self.schema)
        y, x = rng.normal(size=20) * 5, rng.normal(size=(20, 3)) * 5
        whole = design.encode((y, x))
        parts = [design.encode((y[s], x[s])) for s in (slice(None, cut), slice(cut, None))]
        np.testing.assert_array_equal(np.concatenate([p.exog for p in parts]), whole.exog)
