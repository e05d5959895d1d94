"""Public scaling: private scales, declared correlations, and the map between the user's units and internal ones."""

from __future__ import annotations

import itertools
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.app import VERBS, main, parsers, spread
from privreg.doors.loading import upgraded
from privreg.errors import DataError, FormulaError, OptionError, SchemaError
from privreg.formula.describe import design_from_json
from privreg.formula.design import array_design, formula_design
from privreg.formula.language.rowwise import rowwise
from privreg.formula.units import public_units
from privreg.schema.declarations import Schema
from tests.helpers import BOUNDS, NAMES, array_model, people

LEVELS = {"g": ["u", "v", "w"]}
SECRET = 31415.926535


def model(formula="y ~ x + z", data=None, **options):
    given = {"mu": 1, "scaling": "private", "family": pr.Huber(scale=1.0), **options}
    return pr.PrivateOnlineRegression.from_formula(formula, data, **given)


def schema(private=(), **declared):
    return Schema.declare(**declared, private=private)


def units(formula, known, *, binary=False, **more):
    design = formula_design(formula, known, kind="binary" if binary else "number", **more)
    return design, public_units(design, scale_response=not binary)


def inside(some, x):
    out = np.array(x, dtype=np.float64, order="C")
    some.rows_inside(out)
    return out


# --- the option --------------------------------------------------------------------------------------------


def test_columns_that_are_not_declared_get_a_private_scale():
    made = model("y ~ x + np.log(z) + b + m + C(g)", bounds={"b": (0, 2)}, moments={"m": (5, 2)}, levels=LEVELS)
    assert made.schema.private == ("y", "x", "z")
    assert made.schema.numeric() == ("b", "m", "y", "x", "z")
    assert made.schema.bounds == {"b": (0.0, 2.0)}
    assert made.exog_names == ["Intercept", "C(g)[T.v]", "C(g)[T.w]", "x", "np.log(z)", "b", "m"]
    assert made._spec.design.endog_limits == (-math.inf, math.inf)
    assert made._spec.units.unscaled.tolist() == [False, False, False, True, True, False, False]
    assert made._spec.units.y_unscaled


def test_nothing_is_private_if_all_is_declared_or_by_default():
    bounds = {"y": (0, 1), "x": (0, 1), "z": (0, 1)}
    for scaling in ("public", "private"):
        made = model(bounds=bounds, scaling=scaling)
        assert made.schema.private == ()
        assert not made._spec.units.unscaled.any()
        assert not made._spec.units.y_unscaled
    assert pr.PrivateOnlineRegression.from_formula("y ~ x", None, mu=1, bounds=bounds).schema.private == ()


def test_binary_response_is_not_private():
    made = model("won ~ x", family="logistic")
    assert made.schema.private == ("x",)
    assert not made._spec.units.y_unscaled
    assert array_model(binary=True, bounds=None, scaling="private").schema.private == ("a", "b", "c")


def test_arrays():
    made = array_model(bounds={"a": (-1, 1)}, scaling="private")
    assert made.schema.private == ("b", "c", "y")
    assert made._spec.units.unscaled.tolist() == [False, False, True, True]
    assert made._spec.units.y_unscaled
    x, y = people(50)
    x[:, 2] *= 1e6
    got = made._spec.design.encode((1e9 * y, x))
    np.testing.assert_array_equal(got.exog[:, 2], x[:, 2])
    np.testing.assert_array_equal(got.endog, 1e9 * y)
    assert array_model(scaling="private").schema.private == ()


def test_a_private_column_is_not_clamped_and_a_row_needs_finite_numbers():
    design = model("y ~ x + np.log(z) + b", bounds={"b": (0, 1)})._spec.design
    rows = pd.DataFrame({"y": [-1e9, 2, 3], "x": [1e12, -5, 0], "z": [1e-3, 2, 1e8], "b": [-1, 0.5, 9]})
    got = design.encode(rows)
    np.testing.assert_array_equal(got.endog, rows["y"])
    np.testing.assert_array_equal(got.exog, np.column_stack([np.ones(3), rows["x"], np.log(rows["z"]), [0, 0.5, 1]]))
    for column, value, said in (
        ("x", np.nan, "'x' has a value that is missing, infinite or no number"),
        ("y", np.inf, "'y' has a value that is missing, infinite or no number"),
        ("x", "SECRET", "'x' has a value that is missing, infinite or no number"),
        ("z", -SECRET, r"'np.log\(z\)' is not finite, or can't be computed, for a row"),
    ):
        wrong = rows.assign(**{column: pd.Series([value, 1.0, 1.0], dtype=object if value == "SECRET" else None)})
        sent = design.encode(wrong, "noise")
        np.testing.assert_array_equal(np.isnan(sent.endog), [True, False, False])
        np.testing.assert_array_equal(np.isnan(sent.exog).all(axis=1), [column != "y", False, False])
        assert np.isfinite(sent.exog[1:]).all()
        with pytest.raises(DataError, match=said) as caught:
            design.encode(wrong)
        assert "SECRET" not in str(caught.value)
        assert "31415" not in str(caught.value)


def test_levels_taken_from_the_data_go_with_private_scales():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({"y": rng.normal(size=50), "x": rng.normal(size=50), "g": rng.choice(["u", "v"], 50)})
    with pytest.warns(pr.errors.PrivacyLeakWarning, match="levels of g"):
        made = model("y ~ x + g", data, allow_leak="levels")
    assert made.schema.private == ("y", "x")
    assert made.schema.leaked_columns == ("g",)


REFUSED = {
    "unknown": (lambda: model(scaling="privat"), OptionError, ["scaling='privat'", "Did you mean 'private'?"]),
    "none": (lambda: model(scaling=None), OptionError, ["scaling=None", "'public', 'private'"]),
    "a column": (lambda: model(scaling=pd.Series([SECRET])), OptionError, ["scaling=<Series>", "'public', 'private'"]),
    "arrays": (lambda: array_model(scaling="learn"), OptionError, ["scaling='learn'"]),
    "with the raw scale": (lambda: model(allow_leak="scale"), OptionError, ['scaling="private"', "keep one"]),
    "with the raw scale, arrays": (
        lambda: array_model(scaling="private", allow_leak=("scale",)),
        OptionError,
        ['allow_leak="scale"', "keep one"],
    ),
    "public": (
        lambda: model(scaling="public", bounds={"y": (0, 1)}),
        SchemaError,
        ["'x' is not declared", "bounds={'x'", 'scaling="private"', "levels={'x'", "Also undeclared: 'z'"],
    ),
    "public arrays": (
        lambda: array_model(bounds={**BOUNDS}),
        SchemaError,
        ["'y' is not declared", 'scaling="private"'],
    ),
    "factor": (
        lambda: model("y ~ x + C(g) + I(h == 'a')"),
        SchemaError,
        ["'g', 'h' in 'y ~ x + C(g) + I(h == 'a')'".replace("'y", '"y').replace(")'", ')"'), "levels={'g': [...]}"],
    ),
    "factor response": (lambda: model("C(y) ~ x"), SchemaError, ["'y' in 'C(y) ~ x' is used as a factor"]),
    "offset": (
        lambda: model(offset="t"),
        SchemaError,
        ["offset='t'", "'t' is not declared", "bounds={'t'", 'must be declared with scaling="private" too'],
    ),
    "offset that is a covariate": (
        lambda: model("y ~ x", offset="x"),
        SchemaError,
        ["offset='x'", "is not declared (declared: none).", 'must be declared with scaling="private" too'],
    ),
    "offset of arrays": (
        lambda: array_model(scaling="private", offset=np.ones(2000)),
        SchemaError,
        ["offset='offset'", "bounds={'offset'", 'must be declared with scaling="private" too'],
    ),
    "transformed binary response": (
        lambda: model("I(y > 3) ~ x", family="logistic"),
        SchemaError,
        ["'y' is not declared", "bounds={'y': (low, high)}; if a factor"],
    ),
    "infinite in the box": (
        lambda: model("y ~ np.log(x - 30)"),
        FormulaError,
        ["'np.log(x - 30)' is not finite", "no bounds of 'x'", "values from 1 to 2", "bounds={'x': (low, high)}"],
    ),
    "infinite response": (
        lambda: model("np.log(y - 30) ~ x"),
        FormulaError,
        ["'np.log(y - 30)' is not finite", "no bounds of 'y'", "values from 1 to 2"],
    ),
    "spline": (
        lambda: model("y ~ bs(x, knots=[40], lower_bound=18, upper_bound=65)"),
        FormulaError,
        [
            "'bs(x, knots=[40], lower_bound=18, upper_bound=65)' is not finite, or can't be computed, somewhere inside",
            "no bounds of 'x'",
            "bounds={'x': (low, high)}",
        ],
    ),
    "dependent": (
        lambda: model("y ~ x + I(2 * x) + z"),
        FormulaError,
        ["'x', 'I(2 * x)'", "linearly dependent", "no bounds of 'x', 'z'"],
    ),
    "bounds without a scale": (
        lambda: model(bounds={"x": (-np.inf, np.inf)}),
        SchemaError,
        ["without a scale", 'leave it out with scaling="private"'],
    ),
}


@pytest.mark.parametrize(("call", "error", "pieces"), REFUSED.values(), ids=REFUSED)
def test_refusals(call, error, pieces):
    with pytest.raises(error) as caught:
        call()
    assert type(caught.value) is error
    assert [p for p in pieces if p not in str(caught.value)] == [], str(caught.value)
    assert "31415" not in str(caught.value)


# --- the schema --------------------------------------------------------------------------------------------


def test_schema_of_a_private_column():
    known = schema(("x",), bounds={"a": (0, 4)}, levels=LEVELS)
    assert known.limits("x") == (-math.inf, math.inf)
    assert known.reference("x") == (1.0, 2.0)
    assert known.scale("x") == (0.0, 1.0)
    assert known.numeric() == ("a", "x")
    assert known.declares("x")
    assert known.is_number("x")
    assert not known.is_declared_number("x")
    for declared in ({"bounds": {"x": (0, 1)}}, {"moments": {"x": (0, 1)}}, {"levels": {"x": [1, 2]}}):
        with pytest.raises(SchemaError, match=r"'x' can't be declared and have a scale that is learned privately"):
            schema(("x",), **declared)
    with pytest.raises(SchemaError, match="named twice"):
        schema(("x", "x"))


MIXED = "np.log(y) ~ x*b + np.log(z) + C(g) + m + x:m + n"
DECLARED = schema(
    ("y", "x", "z"),
    bounds={"b": (0, 4), "t": (0, 1)},
    levels=LEVELS,
    moments={"m": (5, 2), "n": (1, 3), ("n", "m"): 0.9},
)


def test_json_and_pickle_round_trips():
    doc = json.loads(json.dumps(DECLARED.to_json()))
    assert doc["private"] == ["y", "x", "z"]
    assert doc["correlations"] == [["m", "n", 0.9]]
    assert Schema.from_json(doc) == DECLARED
    assert pickle.loads(pickle.dumps(DECLARED)) == DECLARED
    design, some = units(MIXED, DECLARED, offset="t")
    for copy in (pickle.loads(pickle.dumps(design)), design_from_json(json.loads(json.dumps(design.to_json())))):
        assert copy == design
        assert (copy.sources, copy.bare, copy.endog_bare) == (design.sources, design.bare, design.endog_bare)
        again = public_units(copy, scale_response=True)
        np.testing.assert_array_equal(again.matrix, some.matrix)
        np.testing.assert_array_equal(again.unscaled, some.unscaled)
    built = model(data=pd.DataFrame({"y": range(9), "x": range(9), "z": range(9)}))
    assert pickle.loads(pickle.dumps(built)).schema.private == ("y", "x", "z")


def test_a_schema_of_the_first_version_loads():
    known = schema(bounds={"a": (0, 4)}, moments={"m": (5, 2)})
    doc = known.to_json()
    del doc["private"], doc["correlations"]
    design = {"schema": doc, "response": "number"}
    new = upgraded({"kind": "results", "design": design, "family": {}})
    assert Schema.from_json(new["design"]["schema"]) == known


def test_a_damaged_schema_is_refused():
    doc = DECLARED.to_json()
    for change in ({"private": ["b"]}, {"correlations": [["m", "n", 1.5]]}, {"correlations": [["m", "b", 0.5]]}):
        with pytest.raises(SchemaError):
            Schema.from_json({**doc, **change})


# --- what columns are made from ----------------------------------------------------------------------------


def test_sources_of_design_columns():
    known = schema(("x", "xx"), bounds={"b": (1, 2), "my x": (0, 1), "y": (0, 1)}, levels=LEVELS)
    design = formula_design('I(y + 1) ~ x:b + np.hypot(xx, b) + C(g, Sum):x + Q("my x") + b', known)
    made = dict(zip(design.names, design.sources, strict=True))
    assert made == {
        "Intercept": (),
        "x:b": ("x", "b"),
        "C(g, Sum)[mean]:x": ("g", "x"),
        "C(g, Sum)[S.u]:x": ("g", "x"),
        "C(g, Sum)[S.v]:x": ("g", "x"),
        "np.hypot(xx, b)": ("xx", "b"),
        'Q("my x")': ("my x",),
        "b": ("b",),
    }
    bare = dict(zip(design.names, design.bare, strict=True))
    assert {k: v for k, v in bare.items() if v is not None} == {'Q("my x")': "my x", "b": "b"}
    assert design.endog_sources == ("y",)
    assert design.endog_bare is None
    assert formula_design("y ~ x", known).endog_bare == "y"
    arrays = array_design(["const", "x", "b"], "y", known)
    assert arrays.sources == ((), ("x",), ("b",))
    assert arrays.bare == (None, "x", "b")
    assert (arrays.endog_sources, arrays.endog_bare) == (("y",), "y")


def test_a_name_inside_another_is_not_that_column():
    """'x' stands inside 'max' and 'np.exp(b)': with moments it has no limits, and they have."""
    known = schema(bounds={"max": (0, 1), "b": (0, 1), "y": (0, 1)}, moments={"x": (0, 1)})
    _, some = units("y ~ max + np.exp(b)", known)
    assert some.reach == pytest.approx(math.sqrt(3))
    known = schema(("x",), bounds={"max": (0, 1), "b": (0, 1), "y": (0, 1)})
    _, some = units("y ~ max + np.exp(b) + x", known)
    assert some.unscaled.tolist() == [False, False, False, True]


# --- units -------------------------------------------------------------------------------------------------


def test_units_of_a_mix_of_columns():
    design, some = units(MIXED, DECLARED)
    at = {name: j for j, name in enumerate(design.names)}
    unscaled = ["x", "x:b", "np.log(z)", "x:m"]
    assert [n for n, flag in zip(design.names, some.unscaled, strict=True) if flag] == sorted(unscaled, key=at.get)
    assert some.unscaled.dtype == np.bool_
    assert some.y_unscaled
    assert (some.y_centre, some.y_scale) == (0.0, 1.0)
    assert some.reach == math.inf
    for name in unscaled:
        j = at[name]
        assert (some.centre[j], some.scale[j]) == (0.0, 1.0)
        np.testing.assert_array_equal(some.mix[j], np.eye(len(at))[j])
        np.testing.assert_array_equal(some.mix[:, j], np.eye(len(at))[j])
    assert (some.centre[at["b"]], some.scale[at["b"]]) == (2.0, 2.0)
    assert (some.centre[at["m"]], some.scale[at["m"]]) == (5.0, 2.0)
    assert (some.centre[at["C(g)[T.v]"]], some.scale[at["C(g)[T.v]"]]) == (0.5, 0.5)


def test_unscaled_columns_stay_out_of_the_orthogonal_map():
    """Over a year's box x and x² are crowded; a private column beside them must change nothing about that."""
    known = schema(("z",), bounds={"year": (1990, 2020), "y": (0, 1)})
    right = "year + I(year**2)"
    _, alone = units(f"y ~ {right}", known)
    design, some = units(f"y ~ {right} + z + I(z**2) + z:year", known)
    assert alone.mix is not None
    public = [j for j, made_of in enumerate(design.sources) if "z" not in made_of]
    private = [j for j in range(len(design.names)) if j not in public]
    assert [design.names[j] for j in private] == ["z", "I(z ** 2)", "z:year"]
    want = np.eye(len(design.names))
    want[np.ix_(public, public)] = some.mix[np.ix_(public, public)]
    np.testing.assert_array_equal(some.mix, want)
    block = inside(some, design.probe)[:, public]
    gram = block.T @ block
    np.testing.assert_allclose(gram - np.diag(np.diag(gram)), 0, atol=1e-7 * gram.max())
    # z's powers over its stand-in box are crowded too; that says nothing
    _, lonely = units("y ~ z + I(z**2) + I(z**3)", known)
    assert lonely.mix is None


@pytest.mark.parametrize(
    "formula", [MIXED, "y ~ 0 + x + z + b", "m ~ x + b", "y ~ b + m + n", "b ~ 0 + C(g) + x + m + n", "m ~ 0 + x + n"]
)
def test_round_trip_of_coefficients_and_predictions(formula):
    design, some = units(formula, DECLARED)
    rng = np.random.default_rng(5)
    theta = rng.normal(size=len(design.names))
    params = some.params_outside(theta)
    np.testing.assert_allclose(some.params_inside(params), theta, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(some.matrix @ theta + some.shift, params)
    rows = design.probe
    predicted = rows @ params
    np.testing.assert_allclose(
        some.response_inside(predicted), inside(some, rows) @ theta, rtol=1e-9, atol=1e-9 * np.abs(predicted).max()
    )


def test_arrays_round_trip():
    known = schema(("b", "y"), bounds={"a": (0, 4)}, moments={"m": (5, 2)})
    some = public_units(array_design(["const", "a", "b", "m"], "y", known), scale_response=True)
    x = np.column_stack([np.ones(9), np.arange(9.0), np.arange(9.0) ** 2, np.arange(9.0) - 3])
    got = inside(some, x)
    np.testing.assert_array_equal(got[:, 2], x[:, 2])
    theta = np.array([1.0, 2, -3, 4])
    np.testing.assert_allclose(x @ some.params_outside(theta), got @ theta)
    assert some.unscaled.tolist() == [False, False, True, False]
    assert some.reach == math.inf


def test_response():
    known = schema(("x", "z"), bounds={"b": (0, 4)}, moments={"m": (5, 2)})
    for formula, unscaled in (
        ("z ~ x", True),
        ("np.log(z) ~ x", True),
        ("I(z - b) ~ x", True),
        ("b ~ x", False),
        ("I(z > 1) ~ x", False),  # 0 or 1, whatever z
        ("m ~ x", False),
    ):
        design, some = units(formula, known)
        assert some.y_unscaled == unscaled, formula
        assert (some.y_centre, some.y_scale) == {"b": (2, 2), "m": (5, 2), "I(z > 1)": (0.5, 0.5)}.get(
            design.endog_name, (0, 1)
        )
    with pytest.raises(SchemaError, match=r'no public range.*scaling="private"'):
        units("np.log(m) ~ x", known)
    _, some = units('Q("my y") ~ x', schema(("x",), moments={"my y": (5, 2)}))
    assert (some.y_centre, some.y_scale) == (5, 2)


# --- designs beyond the box that stands for a private scale -------------------------------------------------


@pytest.mark.parametrize(
    "right",
    [
        "np.log(x)",
        "I(1 / x)",
        "np.sqrt(x) + x",
        "I(x > 40)",
        "x + np.maximum(x - 30, 0)",
        "x + ramp(x)",
        "np.clip(x, 20, 30) + np.log(x)",
        "I(x > 400) + np.exp(x)",
        "I(x > 0) + I((x > 0.3) & (x < 0.5))",
        "x*C(g) + x:z + I(x**2) + I((x - 40) / 12):z",
    ],
)
def test_terms_of_a_private_column(right):
    known = schema(("x", "z", "y"), levels=LEVELS)
    functions = {"ramp": rowwise(lambda x: np.maximum(x - 50, 0))}
    design, some = units(f"y ~ {right}", known, functions=functions)
    assert design.constant.tolist() == [1.0] + [0.0] * (len(design.names) - 1)
    assert np.isfinite(design.probe).all()
    assert [n for n, u in zip(design.names, some.unscaled, strict=True) if not u] == [
        n for n in design.names if n == "Intercept" or (n.startswith("C(g)[T.") and ":" not in n)
    ]


def test_no_constant_is_found_on_the_box_that_stands_for_a_private_scale():
    known = schema(("x",), bounds={"y": (0, 1), "b": (0, 1)})
    design, some = units("y ~ 0 + np.sign(x) + x + b", known)
    np.testing.assert_array_equal(design.probe[:, 0], 1.0)
    assert design.constant is None
    assert some.y_centre == 0.0
    dummies = formula_design("y ~ 0 + C(g) + x", schema(("x",), bounds={"y": (0, 1)}, levels=LEVELS))
    assert dummies.constant.tolist() == [1, 1, 1, 0]
    assert array_design(["x"], "y", known).constant is None


# --- correlations ------------------------------------------------------------------------------------------

MOMENTS = {"a": (3.0, 2.0), "b": (-1.0, 0.5), "c": (0.0, 10.0)}
RHO = {("b", "a"): 0.9, ("c", "b"): -0.7, ("a", "c"): -0.5}
WHOLE = np.array([[1, 0.9, -0.5], [0.9, 1, -0.7], [-0.5, -0.7, 1]])


def test_correlations_are_kept_once_in_alphabetical_order():
    known = schema(moments={**RHO, **MOMENTS})
    assert known.moments == MOMENTS
    assert list(known.correlations.items()) == [(("a", "b"), 0.9), (("a", "c"), -0.5), (("b", "c"), -0.7)]
    assert schema(moments=known.as_given()[2]) == known
    np.testing.assert_array_equal(known.correlation_matrix(["a", "b", "c"]), WHOLE)
    np.testing.assert_array_equal(known.correlation_matrix(["c", "x", "a"]), [[1, 0, -0.5], [0, 1, 0], [-0.5, 0, 1]])
    assert known.numeric() == ("a", "b", "c")


WRONG = {
    "unknown": ({("a", "x"): 0.5}, ["moments['a', 'x']", "of 'x', which has no moments", "moments={'x': (mean, sd)}"]),
    "itself": ({("a", "a"): 0.5}, ["moments['a', 'a']", "with itself", "name two columns"]),
    "twice": ({("a", "b"): 0.5, ("b", "a"): 0.5}, ["moments['a', 'b'] is given twice", "keep one"]),
    "one": ({("a", "b"): 1}, ["moments['a', 'b'] is 1", "above -1 and below 1", "leave one out"]),
    "minus one": ({("b", "a"): -1.0}, ["moments['a', 'b'] is -1.0"]),
    "NaN": ({("a", "b"): np.nan}, ["is nan", "a number above -1"]),
    "boolean": ({("a", "b"): True}, ["is True", "a number above -1"]),
    "text": ({("a", "b"): "0.5"}, ["is '0.5'", "a number above -1"]),
    "pair": ({("a", "b"): (0, 1)}, ["is <tuple>"]),
    "column": ({("a", "b"): pd.Series([SECRET])}, ["is <Series>"]),
    "array": ({("a", "b"): np.array([SECRET, 1.0])}, ["is <ndarray>"]),
    "not positive definite": (
        {("a", "b"): 0.9, ("b", "c"): 0.9},
        ["correlations of 'a', 'b', 'c' can't hold together", "counts as 0", "declare every pair"],
    ),
    "nearly one": ({("a", "b"): 1 - 1e-12}, ["correlations of 'a', 'b' can't hold together"]),
    "three names": ({("a", "b", "c"): 0.5}, ["moments has the key <tuple>", "a correlation's key is a pair"]),
    "a number in the pair": ({("a", 1): 0.5}, ["moments has the key <tuple>"]),
}


@pytest.mark.parametrize(("pairs", "pieces"), WRONG.values(), ids=WRONG)
def test_wrong_correlations(pairs, pieces):
    for call in (
        lambda: schema(moments={**MOMENTS, **pairs}),
        lambda: array_model(bounds={"y": (-4, 4)}, moments={**MOMENTS, **pairs}),
    ):
        with pytest.raises(SchemaError) as caught:
            call()
        assert [p for p in pieces if p not in str(caught.value)] == [], str(caught.value)
        assert "31415" not in str(caught.value)


def test_pairs_are_for_moments_only():
    for given in ({"bounds": {("a", "b"): (0, 1)}}, {"levels": {("a", "b"): [0, 1]}}):
        with pytest.raises(SchemaError, match=r"has the key <tuple>; column names are strings\.$"):
            schema(**given)


def simulated(n, names, seed=0):
    """Rows whose sample moments are exactly the declared ones, by the given order of names."""
    rng = np.random.default_rng(seed)
    normal = rng.normal(size=(n, len(names)))
    normal -= normal.mean(axis=0)
    normal = normal @ np.linalg.inv(np.linalg.cholesky(normal.T @ normal / n)).T
    at = [list(MOMENTS).index(name) for name in names]
    mean, sd = np.array([MOMENTS[name] for name in names]).T
    return mean + sd * (normal @ np.linalg.cholesky(WHOLE[np.ix_(at, at)]).T)


@pytest.mark.parametrize("names", list(itertools.permutations("abc")))
def test_declared_correlations_are_gone_inside(names):
    known = schema(moments={**MOMENTS, **RHO}, bounds={"y": (0, 1), "k": (0, 1)})
    x = simulated(500, names)
    design, some = units(f"y ~ k + {' + '.join(names)}", known)
    rows = design.encode_exog(pd.DataFrame(x, columns=list(names)).assign(k=0.5))
    got = inside(some, rows)
    np.testing.assert_allclose(np.cov(got[:, 2:].T, bias=True), np.eye(3), atol=1e-9)
    np.testing.assert_allclose(got[:, 2:].mean(axis=0), 0, atol=1e-9)
    np.testing.assert_array_equal(got[:, 0], 1)
    np.testing.assert_array_equal(got[:, 1], 0)
    np.testing.assert_array_equal(some.mix, np.tril(some.mix))
    assert some.reach == math.inf
    arrays = array_design(["const", "k", *names], "y", known)
    np.testing.assert_array_equal(public_units(arrays, scale_response=True).mix, some.mix)


def test_without_a_constant_second_moments_are_the_identity():
    known = schema(moments={**MOMENTS, **RHO}, bounds={"y": (0, 1)})
    design, some = units("y ~ 0 + a + b + c", known)
    got = inside(some, simulated(500, "abc"))
    assert design.constant is None
    np.testing.assert_allclose(got.T @ got / 500, np.eye(3), atol=1e-9)


def test_correlations_of_columns_that_are_not_bare_change_nothing():
    known = schema(moments={**MOMENTS, **RHO}, bounds={"y": (0, 1), "k": (0, 1)})
    for right in ("a + np.exp(b / 9) + k", "a + k", "np.tanh(a) + np.tanh(b)"):
        _, some = units(f"y ~ {right}", known)
        _, plain = units(f"y ~ {right}", schema(moments=MOMENTS, bounds={"y": (0, 1), "k": (0, 1)}))
        assert some.mix is None
        np.testing.assert_array_equal(some.matrix, plain.matrix)
    _, some = units("y ~ a + k + b", known)
    assert some.mix[3].tolist() == pytest.approx([0, -0.9 / math.sqrt(0.19), 0, 1 / math.sqrt(0.19)])
    np.testing.assert_array_equal(some.mix[:3], np.eye(4)[:3])


def test_quoted_names_and_private_columns_beside_correlated_ones():
    moments = {"my a": (3, 2), "b": (-1, 0.5), ("b", "my a"): 0.9}
    design, some = units('y ~ z + Q("my a") + z:b + b', schema(("z", "y"), moments=moments))
    assert design.names == ("Intercept", "z", 'Q("my a")', "z:b", "b")
    assert some.unscaled.tolist() == [False, True, False, True, False]
    x = simulated(300, "ab")
    z = np.random.default_rng(1).normal(size=300)
    rows = design.encode_exog(pd.DataFrame({"my a": x[:, 0], "b": x[:, 1], "z": 50 * z}))
    got = inside(some, rows)
    np.testing.assert_array_equal(got[:, [1, 3]], rows[:, [1, 3]])
    np.testing.assert_allclose(np.cov(got[:, [2, 4]].T, bias=True), np.eye(2), atol=1e-9)


def test_crowded_terms_beside_correlated_ones():
    """a and b stay what their correlation makes of them; a², crowded beside a, is made orthogonal to what precedes."""
    moments = {"a": (50, 5), "b": (0, 1), ("a", "b"): 0.6}
    known = schema(moments=moments, bounds={"y": (0, 1)})
    design, some = units("y ~ a + b + I(a**2)", known)
    at = {name: j for j, name in enumerate(design.names)}
    want = np.zeros((2, 4))
    want[0, at["a"]], want[1, [at["a"], at["b"]]] = 1, [-0.6 / 0.8, 1 / 0.8]
    np.testing.assert_allclose(some.mix[[at["a"], at["b"]]], want, atol=1e-12)
    block = inside(some, design.probe)
    assert abs(np.corrcoef(block[:, at["a"]], block[:, at["I(a ** 2)"]])[0, 1]) < 1e-9
    np.testing.assert_array_equal(some.mix, np.tril(some.mix))


def test_reach_of_correlated_columns_with_bounds():
    """Corners of the box are the farthest: the bound is that of the triangle inequality, above each of them."""
    bounds = {"a": (-5, 11), "b": (-3, 1), "c": (-40, 40), "y": (0, 1)}
    known = schema(moments={**MOMENTS, **RHO}, bounds=bounds)
    design, some = units("y ~ a + b + c", known)
    norms = np.linalg.norm(inside(some, design.probe), axis=1)
    assert norms.max() <= some.reach * (1 + 1e-12) < 3 * norms.max()
    half = schema(moments={**MOMENTS, ("a", "c"): 0.5}, bounds={k: bounds[k] for k in "aby"})
    assert units("y ~ a + b + c", half)[1].reach == math.inf
    assert math.isfinite(units("y ~ a + b", half)[1].reach)


def test_the_opt_out_keeps_correlations():
    x, _ = people(100)
    moments = {"a": (0, 0.6), "b": (0, 0.6), ("a", "b"): 0.1}
    with pytest.warns(pr.errors.PrivacyLeakWarning):
        made = array_model(100, bounds=None, moments=moments, allow_leak="scale")
    assert made.schema.correlations == {("a", "b"): 0.1}
    assert NAMES == ["const", "a", "b", "c"]
    data = pd.DataFrame(x, columns=NAMES).assign(g=np.where(x[:, 1] > 0, "u", "v"))
    with pytest.warns(pr.errors.PrivacyLeakWarning):
        made = model("c ~ a + b + g", data, moments=moments, allow_leak=("levels", "scale"), scaling="public")
    assert made.schema.correlations == {("a", "b"): 0.1}
    assert made.schema.levels == {"g": ("u", "v")}


# --- the command line --------------------------------------------------------------------------------------


def parsed(*more):
    top, _ = parsers(VERBS, {})
    return top.parse_args(spread(["fit", "y ~ x", "people.csv", "--mu", "1", *more]))


def test_options_are_parsed():
    a = parsed("--scaling", "private", "--lanes", "16", "--threads", "2", "--batch-size", "50")
    assert (a.scaling, a.lanes, a.threads, a.batch_size) == ("private", 16, 2, 50)
    a = parsed()
    assert (a.scaling, a.lanes, a.threads, a.batch_size) == ("public", None, None, None)


def test_options_reach_the_model_and_the_fit(monkeypatch, capsys):
    seen = {}

    class Stop(OptionError):
        pass

    class Stub:
        def fit(self, **options):
            seen.update(options)
            raise Stop("seen")

    def build(*_, **options):
        seen.update(options)
        return Stub()

    monkeypatch.setattr(pr.PrivateOnlineRegression, "from_formula", build)
    command = ["fit", "y ~ x", "people.csv", "--mu", "1"]
    assert main([*command, "--scaling", "private", "--lanes", "16", "--threads", "2", "--batch-size", "50"]) == 2
    assert {k: seen[k] for k in ("scaling", "lanes", "threads", "batch_size")} == {
        "scaling": "private",
        "lanes": 16,
        "threads": 2,
        "batch_size": 50,
    }
    seen.clear()
    assert main(command) == 2
    assert not {"scaling", "lanes", "threads", "batch_size"} & set(seen)  # the front doors' own defaults
    capsys.readouterr()


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--scaling", "privat"], "'private'"),
        (["--scaling", "private", "--allow-leak", "scale"], "keep one"),
        (["--scaling"], "--scaling"),
        (["--lanes", "many"], "--lanes"),
        (["--threads", "2.5"], "--threads"),
        (["--scalling", "private"], "--scaling"),
        ([], "--scaling private"),
        (["--scaling", "private", "--offset", "t"], "must be declared"),
    ],
)
def test_refusals_of_the_command(more, said, capsys, tmp_path):
    path = tmp_path / "people.csv"
    path.write_text("y,x,t\n" + "\n".join(f"{i},{i % 7},0" for i in range(50)))
    assert main(["fit", "y ~ x", str(path), "--mu", "1", *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("privreg: error: ")
    assert err.count("\n") == 1
    assert said in err


def test_help_shows_them_with_an_example(capsys):
    assert main(["fit", "--help"]) == 0
    out = capsys.readouterr().out
    assert all(option in out for option in ("--scaling S", "--lanes K", "--threads T", "--batch-size B"))
    example = next(line for line in out.splitlines() if "--scaling private" in line and "privreg fit" in line)
    assert "--bounds" not in example


def test_a_column_off_its_middle_beside_a_constant_mixes_no_factors():
    """np.log of a number with wide bounds is far from the middle of its range: factors must stay of two values."""
    model = pr.PrivateOnlineRegression.from_formula(
        "y ~ age + np.log(income) + sex + region",
        None,
        mu=1,
        bounds={"age": (18, 90), "income": (1000, 300_000), "y": (0, 80)},
        levels={"sex": ["f", "m"], "region": ["n", "s", "e", "w"]},
    )
    units, probe = model._spec.units, model._spec.design.probe
    assert units.mix is None
    assert int((units.gaps(probe) > 0).sum()) == 4
    crowded = pr.PrivateOnlineRegression.from_formula(
        "y ~ age + I(age**2) + I(age**3)", None, mu=1, bounds={"age": (18, 90), "y": (0, 80)}
    )
    assert crowded._spec.units.mix is not None


@pytest.mark.parametrize(
    "right", ["age + I(age**2) + I(age**3) + income + sex + region", "age * sex + income + region"]
)
def test_powers_and_interactions_leave_factors_and_others_as_they_are(right):
    """Crowded columns give way to those of two values, whose shares are learned, and to columns on their own."""
    made = pr.PrivateOnlineRegression.from_formula(
        f"y ~ {right}",
        None,
        mu=1,
        bounds={"age": (18, 90), "income": (0, 1), "y": (0, 80)},
        levels={"sex": ["f", "m"], "region": ["n", "s", "e", "w"]},
    )._spec
    units, probe, names = made.units, made.design.probe, made.design.names
    assert int((units.gaps(probe) > 0).sum()) == 4
    for j, name in enumerate(names):
        if name == "income" or ("[" in name and ":" not in name):
            np.testing.assert_array_equal(units.mix[j], np.eye(len(names))[j])
    rows = units.probe_inside(probe)[:, 1:]
    assert np.linalg.cond(np.corrcoef(rows.T)) < 30 < np.linalg.cond(np.corrcoef(probe[:, 1:].T))
    assert np.abs(rows).max() < 1 + 1e-9


def test_levels_without_a_reference_have_a_constant_inside():
    made = pr.PrivateOnlineRegression.from_formula(
        "y ~ 0 + g + x", None, mu=1, bounds={"x": (0, 1), "y": (0, 1)}, levels={"g": ["a", "b", "c"]}
    )._spec
    assert made.units.constant_column(made.design.probe) == 0
    theta = np.array([1.0, 2.0, 3.0, 4.0])
    x = made.design.probe
    inside = made.units.probe_inside(x) @ made.units.params_inside(theta)
    np.testing.assert_allclose(made.units.y_scale * inside + made.units.y_centre, x @ theta, atol=1e-12)
