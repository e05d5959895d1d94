"""Expression trees: what patsy computes, told in a closed list of operations."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import patsy
import pytest

from privreg.errors import FormulaError
from privreg.formula.design import array_design, formula_design
from privreg.formula.language.allowlist import NUMPY_FUNCTIONS
from privreg.formula.trees.compile import compile_trees
from privreg.formula.trees.evaluate import Program
from privreg.schema.declarations import Schema
from privreg_field.wire.trees import OPERATIONS
from tests.designs import FUNCTIONS, LEVELS, RIGHT_SIDES, SCHEMA, for_patsy, frame

CLOSED = frozenset(OPERATIONS)  # what devices take
MORE = [
    "I(-age) + I(2 * z - 3) + I(z**3) + I(bmi**1.5) + I(age**0.5) + I(age**-1)",
    "I(+z) + I(age / 7 // 1) + I(age % 7)",
    "I(2 ** z) + I(age ** (z / 4)) + np.square(z) + np.reciprocal(age) + np.power(age, 2) + np.float_power(age, 0.5)",
    "I((age > 30) * z) + I((age > 30) + 0.5)",
    "I(2 * (age > 30) - 3 * (z > 0) + 1) + I((z > 0) / 2)",
    "I((age > 30) + (z > 0)) + I((bmi > 30) * (z > 1))",
    "I(~(age > 30) | ((z <= 0) & (bmi != 30)))",
    "I(np.logical_and(z, age > 40)) + I(np.logical_or(age > 60, z > 2.5)) + I(np.logical_xor(z > 0, age > 40))",
    "np.where(smoker == 'yes', z, age) + np.where(z > 0, 1, 0) + np.where(z > 1, 1, 0.5)",
    "np.where(age - 40, np.log(np.maximum(z, 0.1)), 7)",
    "I((region == 'east') * age) + I((children == 3) * 2 + (member == True))",
    "np.minimum(age, bmi) + np.fmin(z, 0) + np.fmax(z, 1) + np.clip(age, 30, bmi + 20)",
    "np.round(age, 1) + np.round(age * 100, -2) + np.rint(bmi) + np.round(z * 10)",
    "np.sign(z) + np.copysign(age, z) + np.floor(age) + np.ceil(bmi / 3) + np.trunc(z * 3)",
    "np.fmod(z, 0.7) + np.mod(z, 0.7) + np.floor_divide(age, 3) + np.remainder(bmi, 4)",
    "np.log2(age) + np.log10(bmi) + np.exp2(z) + np.expm1(z) + np.log1p(age) + np.cbrt(z)",
    "np.sinh(z) + np.arcsinh(age) + np.cosh(age / 30) + np.tanh(z / 2) + np.arctanh(z / 4)",
    "np.arccosh(age) + np.logaddexp(z, age / 9) + np.logaddexp2(z, bmi) + np.hypot(age, bmi)",
    "np.deg2rad(age) + np.degrees(z) + np.abs(z) + np.fabs(z - 1)",
    "I(np.pi * age + np.e + (3 - 1) / 7 * z)",
    "I(age > 30):region + I(z > 0):I(bmi > 30) + smoker:I(z > 1) - 1",
    "region:children + region:children:age",
    "C(region, Sum):C(children, Poly):z",
    "bs(np.log(age), knots=[3.2, 3.9], lower_bound=2.8, upper_bound=4.2)",
    "cr(z, knots=[0, 1], lower_bound=-2, upper_bound=3):smoker - 1",
    "cc(age, knots=[30, 50], lower_bound=18, upper_bound=65):cc(z, knots=[1], lower_bound=-2, upper_bound=3)",
    'I(Q("my col") * 2) + I(Q("my col") > 0.5)',
]
"""Formulas with every operation that a tree has."""

OTHERS = [
    "np.sin(z) + np.cos(age) + np.arctan2(z, age) + np.arctan(z)",
    "np.exp(z) + np.sin(z) + np.tanh(z)",
    *(
        f"{term} + z"
        for term in (
            "np.sqrt(age > 30)",
            "I(np.sqrt(z > 0) * bmi)",
            "np.arctan2(z > 0, 2)",
            "I((2 * (age > 30) + 1) // 2)",
            "I((2 * (age > 30) + 1) ** 2)",
            "I(2 ** (3 * (z > 0)))",
            "I(~(2 * (age > 30)))",
            "I((3 * (z > 0)) & 5)",
            "I((2 * (z > 0)) | 1)",
            "np.negative(2 * (age > 30))",
            "np.power(2 * (age > 30), 2)",
            "np.minimum(100000000000000000 * (z > 0), 3)",
            "I(100000000000000000 * (age > 30) * 10)",
            "np.round(2 * (age > 30), 1)",
            "np.abs(np.sqrt(z > 0))",
            "I(-np.sqrt(z > 0))",
            "I(np.sqrt(z > 1) ** 2)",
            "np.where(z > 0, np.sqrt(age > 30), 1)",
            "I(np.sqrt(age > 30) > 0.5)",
            "np.logical_or(np.sqrt(z > 0), z > 1)",
        )
    ),
]
"""With functions that no device has, and types that no device computes with."""


DEVICES = [right for right in [*RIGHT_SIDES, *MORE] if "sin(z)" not in right]


def prepared(data):
    out = {name: data[name].to_numpy() for name in data if name not in LEVELS}
    codes = {n: pd.Categorical(data[n], categories=list(levels)).codes for n, levels in LEVELS.items()}
    return out | {n: c.astype(np.intp) for n, c in codes.items()}


def computed(trees, rows):
    n = len(next(iter(rows.values())))
    trees = json.loads(json.dumps(trees))  # as they are sent
    return np.column_stack([np.broadcast_to(v, n) for v in Program(trees, SCHEMA)(rows)])


def operations(tree):
    if not isinstance(tree, list) or not tree or not isinstance(tree[0], str) or tree[0] not in CLOSED | {"numpy"}:
        return set()
    return {tree[0]}.union(*map(operations, tree[1:]))


def trees_here(design):
    """Terms that this process computes by trees; factors that stand for themselves are looked up."""
    return [part for part in design.encoder.parts if part.coding is None]


def by_patsy(right, data):
    numpy = np  # noqa: F841 - patsy looks the name up here
    return np.asarray(patsy.dmatrix(right, for_patsy(data)))


@pytest.mark.some(10)
@pytest.mark.parametrize("right", [*RIGHT_SIDES, *MORE, *OTHERS])
def test_trees_compute_what_patsy_does_to_the_last_bit(right):
    data = frame()
    design = formula_design(f"y ~ {right}", SCHEMA)
    want = by_patsy(right, data)
    for term in trees_here(design):
        np.testing.assert_array_equal(computed(term.trees, prepared(data)), want[:, term.place], err_msg=term.name)
    np.testing.assert_array_equal(design.encode(data).exog, want)


@pytest.mark.some(3)
@pytest.mark.parametrize("right", DEVICES)
def test_a_device_s_operations_are_a_closed_list_and_agree(right):
    data = frame()
    trees = compile_trees(formula_design(f"y ~ {right}", SCHEMA))
    assert set().union(*map(operations, trees.exog)) <= CLOSED
    np.testing.assert_allclose(computed(trees.exog, prepared(data)), by_patsy(right, data), rtol=1e-12, atol=1e-14)


@pytest.mark.thorough
def test_every_operation_is_met():
    met = set()
    for right in DEVICES:
        met |= set().union(*map(operations, compile_trees(formula_design(f"y ~ {right}", SCHEMA)).exog))
    assert met == CLOSED


WITHOUT = {"sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2"}


@pytest.mark.some(24)
@pytest.mark.parametrize("name", sorted(NUMPY_FUNCTIONS))
def test_each_function_of_the_allow_list_is_written_or_named(name):
    data = frame()
    own = {"clip": "age, 20, 40", "where": "z > 0, age, bmi", "round": "age, 1", "trunc": "z", "logical_not": "z > 0"}
    positive = name.startswith("log") or name in {"sqrt", "reciprocal", "power", "float_power", "arccosh"}
    conditions = name.startswith("logical") or name.endswith("equal") or name.startswith(("less", "greater"))
    usual = {1: "age", 2: "age, z"} if positive else {1: "z / 4", 2: "z, 1" if conditions else "z, bmi"}
    arguments = own.get(name) or usual[getattr(np, name).nin]
    if name in {"logical_and", "logical_or", "logical_xor"}:
        arguments = "z > 0, age > 40"
    right = f"np.{name}({arguments})"
    design = formula_design(f"y ~ {right}", SCHEMA)
    (_, term) = trees_here(design)
    want = by_patsy(right, data)[:, term.place]
    np.testing.assert_array_equal(computed(term.trees, prepared(data)), want)
    if name in WITHOUT:
        with pytest.raises(FormulaError, match=rf"'np\.{name}\(.*np\.{name}\(\) is not among a device's"):
            compile_trees(design)
    else:
        found = computed(compile_trees(design).exog[1:], prepared(data))
        np.testing.assert_allclose(found, want, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    ("right", "term", "why"),
    [
        ("age + ramp(bmi)", "ramp(bmi)", r"it calls the function ramp\(\)"),
        ("age:ramp(bmi) + z", "age:ramp(bmi)", r"it calls the function ramp\(\)"),
        ("z + np.sin(age)", "np.sin(age)", r"np\.sin\(\) is not among a device's functions"),
        ("np.sqrt(age > 30) + z", "np.sqrt(age > 30)", "whole numbers or truth values"),
        ("I((age > 30) ** (z > 0)) + z", "I((age > 30) ** (z > 0))", "arithmetic of two conditions"),
        ("np.power(2 * (age > 30), 2) + z", "np.power(2 * (age > 30), 2)", "whole numbers or truth values"),
        ("I((2 * (age > 30) + 1) // 2) + z", "I((2 * (age > 30) + 1) // 2)", "whole numbers other than"),
    ],
)
def test_what_cannot_be_written_is_named(right, term, why):
    design = formula_design(f"y ~ {right}", SCHEMA, functions=FUNCTIONS)
    with pytest.raises(FormulaError, match=why) as caught:
        compile_trees(design)
    assert repr(term) in str(caught.value)
    assert "Write it with" in str(caught.value)


def test_responses_are_within_their_range():
    data = frame()
    rows = prepared(data)
    design = formula_design("np.log(y) ~ age", SCHEMA)
    trees = compile_trees(design)
    np.testing.assert_array_equal(computed([trees.endog], rows)[:, 0], design.encode(data).endog)
    low, high = design.endog_limits
    far = computed([trees.endog], {**rows, "y": np.full(400, 1e9)})
    assert (far == high).all()
    assert trees.endog == ["min", ["max", ["log", ["col", "y"]], ["const", low.hex()]], ["const", high.hex()]]


def test_a_response_of_levels_is_their_number():
    data = frame()
    for kind, name in (("levels", "region"), ("binary", "smoker"), ("levels", "children")):
        design = formula_design(f"{name} ~ age", SCHEMA, kind=kind)
        found = computed([compile_trees(design).endog], prepared(data))[:, 0]
        np.testing.assert_array_equal(found, design.encode(data).endog)


def test_a_binary_response_that_is_something_else_is_no_number():
    design = formula_design("done ~ age", SCHEMA, kind="binary")
    trees = compile_trees(design)
    rows = {"done": np.array([0.0, 1.0, 0.5, -1.0, np.inf, 1.0 + 1e-15]), "age": np.full(6, 20.0)}
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(computed([trees.endog], rows)[:, 0], [0, 1, *[np.nan] * 4])


def test_offset_and_exposure():
    trees = compile_trees(formula_design("y ~ age", SCHEMA, offset="z"))
    assert trees.offset == ["col", "z"]
    trees = compile_trees(formula_design("y ~ age", SCHEMA, offset="z", exposure="year"))
    assert trees.offset == ["add", ["col", "z"], ["log", ["col", "year"]]]
    assert compile_trees(formula_design("y ~ age", SCHEMA)).offset is None


def test_designs_of_arrays():
    schema = Schema.declare({"a": (0, 1), "b": (2, 2), "y": (0, 9), "offset": (0, 1)}, {})
    trees = compile_trees(array_design(("a", "b"), "y", schema, offset=True))
    assert trees.exog == (["col", "a"], ["const", (2.0).hex()])
    assert trees.endog == ["col", "y"]
    assert trees.offset == ["col", "offset"]


@pytest.mark.parametrize("spline", ["bs", "cr", "cc"])
def test_a_spline_beyond_its_knots_is_not_finite(spline):
    data = frame()
    term = f"{spline}(age, knots=[30, 50], lower_bound=18, upper_bound=65)"
    trees = compile_trees(formula_design(f"y ~ {term} - 1", SCHEMA)).exog
    age = np.array([17.999, 18.0, 65.0, 65.001, np.nan])
    found = computed(trees, {**prepared(data.iloc[:5]), "age": age})
    assert np.isfinite(found).all(axis=1).tolist() == [False, True, True, False, False]


@pytest.mark.filterwarnings("ignore:levels")
def test_labels_are_told_apart_by_type():
    schema = Schema.declare({"y": (0, 1)}, {"g": [1, "1", 2.5]})
    trees = [["level", "g", label] for label in (1, "1", 2.5, 1.0, 7)]
    found = Program(trees, schema)({"g": np.array([0, 1, 2])})
    assert [np.broadcast_to(v, 3).tolist() for v in found[:3]] == np.eye(3, dtype=bool).tolist()
    assert not found[3].any()
    assert not found[4].any()


def test_shared_parts_are_computed_once(monkeypatch):
    from privreg.formula.trees import evaluate

    made, real = [], evaluate._computed

    def counted(op, given, args, **how):
        made.append(op)
        return real(op, given, args, **how)

    monkeypatch.setattr(evaluate, "_computed", counted)
    log = ["log", ["col", "age"]]
    trees = [log, ["mul", log, log], ["add", ["mul", log, log], ["const", (1.0).hex()]], ["level", "smoker", "yes"]]
    program = Program(trees, SCHEMA)
    assert made == []
    program(prepared(frame()))
    assert sorted(made) == ["add", "const", "log", "mul"]


def test_constants_are_exact():
    design = formula_design("y ~ I(age * 0.1) + I(z + 1e-300)", SCHEMA)
    text = json.dumps(compile_trees(design).exog)
    assert (0.1).hex() in text
    assert (1e-300).hex() in text


def test_a_row_whose_term_is_not_finite_has_nothing_to_report():
    # no probe row meets the pole
    schema = Schema.declare({"y": (0, 1), "x": (0, 5), "w": (0, 1)}, {"g": ["a", "b"]})
    design = formula_design("y ~ g + I(1 / (np.abs(x - 3.7) + np.abs(w - 0.55)))", schema)
    data = {"y": [0.5, 0.5, 0.5, 0.5], "x": [1, 3.7, 3.7, 2], "w": [1, 0.55, 0.5, np.nan], "g": ["a", "b", "b", "b"]}
    got = design.encode(data, "noise")
    spoilt = np.array([False, True, False, True])
    np.testing.assert_array_equal(np.isnan(got.endog), spoilt)
    np.testing.assert_array_equal(np.isnan(got.exog).all(axis=1), spoilt)
    np.testing.assert_array_equal(np.isnan(got.exog).any(axis=1), spoilt)
    assert design.encode(data, "drop").exog.shape == (2, 3)


WIDE = [
    "big",
    "C(big, Sum)",
    "0 + big",
    "big:smoker + age",
    "smoker*region*children",
    "C(children, Poly):region:member",
]


@pytest.mark.some(1)
@pytest.mark.parametrize("right", WIDE)
@pytest.mark.parametrize("spoil", [False, True])
def test_looked_up_columns_are_patsy_s_and_come_scaled_to_the_last_bit(right, spoil):
    levels = [str(k) for k in range(150)]
    schema = Schema.declare({"y": (0.5, 100), "age": (18, 65)}, {**LEVELS, "big": levels})
    data = frame(600).assign(big=np.random.default_rng(1).permutation(levels * 4))
    design = formula_design(f"y ~ {right}", schema)
    coded = for_patsy(data).assign(big=pd.Categorical(data["big"], categories=levels))
    want = np.array(patsy.dmatrix(right, coded))
    if spoil:
        data = data.astype({"big": object})
        data.loc[::7, ["big", "smoker", "region"]] = None
        gone = np.arange(600) % 7 == 0 if {"big", "smoker", "region"} & set(design.columns) else np.zeros(600, bool)
        want[gone] = np.nan
    np.testing.assert_array_equal(design.encode(data, "noise").exog, want)
    p = len(design.names)
    centre, scale = np.linspace(-0.3, 0.4, p), np.linspace(0.1, 7.0, p)
    scaled = design.scaled(centre, scale)
    np.testing.assert_array_equal(scaled.encode(data, "noise").exog, (want - centre) / scale)
    order = np.random.default_rng(2).permutation(p)
    found = scaled.ordered(order).encode(data, "noise").exog
    np.testing.assert_array_equal(found, ((want - centre) / scale)[:, order])
    assert found.flags.f_contiguous


@pytest.mark.parametrize("spline", ["cr", "cc"])
def test_predictions_go_on_beyond_a_spline_s_knots_as_patsy_has_them(spline):
    term = f"{spline}(age, knots=[30, 50], lower_bound=18, upper_bound=65) - 1"
    design = formula_design(f"y ~ {term}", SCHEMA)
    data = pd.DataFrame({"age": [0.0, 17.0, 18.0, 40.0, 65.0, 70.0, 200.0]})
    np.testing.assert_array_equal(design.encode_exog(data), np.asarray(patsy.dmatrix(term, data)))
    narrow = term.replace("65", "60")
    with pytest.raises(FormulaError, match="is not finite, or can't be computed, somewhere inside the declared bounds"):
        formula_design(f"y ~ {narrow}", SCHEMA)


def test_a_design_tells_its_trees():
    design = formula_design("y ~ age", SCHEMA)
    assert design.trees() == compile_trees(design)
    assert design.trees().exog == (["const", (1.0).hex()], ["col", "age"])
