"""What a design refuses, from public probe rows or from the data, and that no value is quoted."""

from __future__ import annotations

import time

import numpy as np
import pandas as pd
import pytest

from privreg.errors import DataError, FormulaError, OptionError, PrivacyLeakError, SchemaError
from privreg.formula.design import formula_design
from privreg.formula.language.rowwise import rowwise
from privreg.schema.declarations import Schema
from tests.designs import FUNCTIONS, LEVELS, SCHEMA, SENTINEL, fails, frame, ramp, shown


def minus_mean(x):
    return x - x.mean()


def scalar_mean(x):
    return x.mean()


class TestPublicChecks:
    @pytest.mark.parametrize("term", ["np.log(z)", "1/my", "I(1 / z)", "I(1 / (age - 30))", "np.sqrt(z):smoker"])
    def test_not_finite_inside_the_bounds(self, term):
        term = term.replace("1/my", "I(1 / Q('my col'))")
        with pytest.raises(
            FormulaError, match="not finite, or can't be computed, somewhere inside the declared"
        ) as caught:
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

    @pytest.mark.some(1)
    @pytest.mark.parametrize("least", [2, 3, 13, 600, 1024, 2049, 4096])
    @pytest.mark.parametrize("most", [4096, 10**6])
    def test_functions_that_mix_rows_of_some_lengths_only(self, least, most):
        def bad(x):
            return x - x.mean() if least <= len(x) <= most else x

        for formula in ("y ~ f(age)", "y ~ np.exp(f(z))", "f(y) ~ age"):
            with pytest.raises(PrivacyLeakError, match="is not row by row"):
                formula_design(formula, SCHEMA, functions={"f": rowwise(bad)})

    @pytest.mark.parametrize("length", [2**k for k in range(13)])
    def test_functions_that_answer_one_length_in_another_way(self, length):
        with pytest.raises(PrivacyLeakError, match="is not row by row"):
            formula_design("y ~ f(z)", SCHEMA, functions={"f": rowwise(lambda x: x + (len(x) == length))})

    def test_functions_that_give_something_else_the_next_time(self):
        calls = []

        def bad(x):
            calls.append(len(x))
            return x + len(calls)

        with pytest.raises(PrivacyLeakError, match="is not row by row"):
            formula_design("y ~ f(age)", SCHEMA, functions={"f": rowwise(bad)})

    def test_functions_never_see_more_rows_than_was_checked(self):
        seen = set()

        def f(x):
            seen.add(len(x))
            return x - x.mean() if len(x) > 8000 else x**2

        design = formula_design("f(y) ~ f(age)", SCHEMA, functions={"f": rowwise(f)})
        lengths = seen.copy()
        assert lengths == {2**k for k in range(13)}
        data = frame(20_000)
        for n in (1, 2, 4095, 4096, 4097, 12_345, 20_000):
            got = design.encode(data.iloc[:n])
            np.testing.assert_array_equal(got.exog[:, 1], data["age"].iloc[:n] ** 2)
            np.testing.assert_array_equal(got.endog, data["y"].iloc[:n] ** 2)
            np.testing.assert_array_equal(design.encode_new(data.iloc[:n])[0], got.exog)
        assert seen == lengths

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

    def test_a_function_may_hand_out_the_same_array(self):
        kept = np.empty(4096)

        def f(x):
            return np.multiply(x, 2, out=kept[: len(x)])

        data = frame(9000)
        got = formula_design("y ~ f(age)", SCHEMA, functions={"f": rowwise(f)}).encode(data).exog
        np.testing.assert_array_equal(got[:, 1], 2 * data["age"])

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


def poison(**columns: object) -> pd.DataFrame:
    data = frame(4)
    for name, values in columns.items():
        data[name.replace("my_col", "my col")] = pd.Series(values, dtype=object if name in LEVELS else None)
    return data


NO_NUMBER = "'age' has a value that is missing, infinite or no number"
NOT_COMPUTED = "is not finite, or can't be computed, for a row"
EVERY = [0, 1, 2, 3]
BAD_DATA = [
    ("age", {"age": [SENTINEL, np.nan, 1, 2]}, [1], DataError, NO_NUMBER),
    ("age", {"age": [SENTINEL, np.inf, 1, 2]}, [1], DataError, NO_NUMBER),
    ("age", {"age": [SENTINEL, None, 1, 2]}, [1], DataError, NO_NUMBER),
    ("age", {"age": ["SECRETLEVEL", "b", "c", "d"]}, EVERY, DataError, NO_NUMBER),
    ("age", {"age": [SENTINEL, "SECRETLEVEL", 2, 3]}, [1], DataError, NO_NUMBER),
    ("age", {"age": [SENTINEL * 1j, 1, 2, 3]}, [0], DataError, NO_NUMBER),
    ("age", {"age": pd.to_datetime(["2020-01-01"] * 4)}, EVERY, DataError, NO_NUMBER),
    ("smoker", {"smoker": ["no", "SECRETLEVEL", "no", "yes"]}, [1], SchemaError, "not among its declared levels"),
    ("smoker", {"smoker": ["no", SENTINEL, "no", "yes"]}, [1], SchemaError, "not among its declared levels"),
    ("smoker", {"smoker": ["no", None, "SECRETLEVEL", "yes"]}, [1, 2], DataError, "'smoker' has a missing value"),
    ("smoker", {"smoker": ["no", ["SECRETLEVEL"], "no", "yes"]}, [1], SchemaError, "not among its declared levels"),
    ("region*smoker", {"region": ["SECRETLEVEL"] * 4}, EVERY, SchemaError, "'region' has a value"),
    ("fails(z)", {"z": [1, 2, 2.5, 1]}, [2], DataError, f"'fails(z)' {NOT_COMPUTED}"),
    ("holes(z)", {"z": [1, 2, 2.5, 1]}, [2], DataError, f"'holes(z)' {NOT_COMPUTED}"),
]


def holes(x):
    return np.where(x == 2.5, np.nan, x)


TRICKY = {"fails": rowwise(fails), "holes": rowwise(holes)}


@pytest.mark.parametrize(("term", "columns", "_rows", "kind", "piece"), BAD_DATA)
def test_no_value_leaks_into_an_error(term, columns, _rows, kind, piece):
    design = formula_design(f"y ~ bmi + {term}", SCHEMA, functions=TRICKY)
    data = poison(**columns).assign(secret="SECRETLEVEL")
    for call in (design.encode, design.encode_exog):
        with pytest.raises(kind) as caught:
            call(data)
        text = shown(caught.value)
        assert piece in text
        assert "SECRETLEVEL" not in text
        assert "987654" not in text


@pytest.mark.some(1)
@pytest.mark.parametrize(("term", "columns", "rows", "_kind", "_piece"), BAD_DATA)
def test_rows_that_cant_be_used_spoil_themselves_alone(term, columns, rows, _kind, _piece):
    design = formula_design(f"y ~ bmi + {term}", SCHEMA, functions=TRICKY)
    data, good = poison(**columns), np.setdiff1d(EVERY, rows)
    noise, drop = design.encode(data, "noise"), design.encode(data, "drop")
    assert np.isnan(noise.endog[rows]).all()
    assert np.isnan(noise.exog[rows]).all()
    np.testing.assert_array_equal(np.flatnonzero(drop.kept), good)
    if len(good):
        want = design.encode(data.iloc[good])
        for got in ((noise.endog[good], noise.exog[good]), (drop.endog, drop.exog)):
            np.testing.assert_array_equal(got[0], want.endog)
            np.testing.assert_array_equal(got[1], want.exog)


def test_numbers_as_texts_are_those_numbers():
    design = formula_design("y ~ bmi + age", SCHEMA)
    texts, numbers = poison(age=["987654.321", "20", " 3e1 ", "40"]), poison(age=[SENTINEL, 20, 30, 40])
    np.testing.assert_array_equal(design.encode(texts).exog, design.encode(numbers).exog)


def test_no_value_leaks_from_the_response():
    data = frame(4).assign(won=[0, 1, SENTINEL, 1])
    for formula, kind, changed, bad in (
        ("won ~ age", "binary", data, [2]),
        ("fails(z) ~ age", "number", data.assign(z=[1, 2, 2.5, 1]), [2]),
        ("holes(z) ~ age", "number", data.assign(z=[1, 2, 2.5, 1]), [2]),
        ("smoker ~ age", "binary", data.assign(smoker="SECRETLEVEL"), EVERY),
    ):
        design = formula_design(formula, SCHEMA, functions=TRICKY, kind=kind)
        with pytest.raises((DataError, SchemaError)) as caught:
            design.encode(changed)
        assert "987654" not in shown(caught.value)
        assert "SECRETLEVEL" not in shown(caught.value)
        noise = design.encode(changed, "noise")
        np.testing.assert_array_equal(np.flatnonzero(np.isnan(noise.endog)), bad)
        np.testing.assert_array_equal(noise.exog, design.encode_exog(changed, clamp=True))  # may be public


def test_prediction_outside_a_spline_is_refused_without_the_value():
    design = formula_design("y ~ bs(age, knots=[40], lower_bound=18, upper_bound=65)", SCHEMA)
    with pytest.raises(DataError, match="can't be computed") as caught:
        design.encode_exog({"age": [SENTINEL]})
    assert "987654" not in shown(caught.value)
    design.encode(frame(3).assign(age=SENTINEL))  # clamped for fitting


def test_missing_column_and_other_frames():
    design = formula_design("y ~ age", SCHEMA)
    with pytest.raises(DataError, match="'age' is missing from the data, which have 3 columns") as caught:
        design.encode(pd.DataFrame({"y": [SENTINEL], "Age": [1], "other": ["SECRETLEVEL"]}))
    assert "Did you mean 'Age'?" in str(caught.value)
    assert "987654" not in shown(caught.value)
    with pytest.raises(DataError, match="more than once"):
        design.encode(pd.DataFrame([[1, 2, 3]], columns=["y", "age", "age"]))
    with pytest.raises(DataError, match="got list"):
        design.encode([1, 2])
    with pytest.raises(DataError, match="differ in length"):
        design.encode({"y": [1, 2, 3], "age": [20.0]})
    with pytest.raises(OptionError, match="'raise'"):
        design.encode(frame(2), missing="mean")
