"""One row through a plan's design: answers read, operations as NumPy has them, and what has nothing to report."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.interpolate import BSpline, CubicSpline

from privreg_field.device.report import design
from privreg_field.device.report.design import read, row_of, unread, value_of
from privreg_field.wire import trees
from privreg_field.wire.study import Cell
from privreg_field.wire.trees import Column
from tests.studies import CLAMPING, COLUMNS, const, hexed, study_plan

NUMBERS = (0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, 7.25, -7.25, 1e300, -1e300, 1e-300, 5e-324)
NUMBERS = (*NUMBERS, math.inf, -math.inf, math.nan, 709.0, 710.0, -1e9)
TWO = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": np.divide,
    "mod": np.remainder,
    "floordiv": np.floor_divide,
    "pow": np.power,
    "min": np.minimum,
    "max": np.maximum,
    "and": np.logical_and,
    "or": np.logical_or,
}
ONE = {
    "log": np.log,
    "log1p": np.log1p,
    "exp": np.exp,
    "sqrt": np.sqrt,
    "abs": np.absolute,
    "round": np.rint,
    "not": np.logical_not,
}
COMPARE = {
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
X, Y = (Column(n, (), -math.inf, math.inf, "?") for n in "xy")


def of(tree, **values):
    return value_of(tree, {"x": X, "y": Y}, values)


def same(got, expected):
    """The same number; of log, exp and pow up to their last bits."""
    with np.errstate(over="ignore"):
        near = np.isclose(got, expected, rtol=4e-16, atol=0.0)
    return (math.isnan(got) and math.isnan(expected)) or got == expected or bool(near)


@pytest.mark.some(1)
@pytest.mark.parametrize("name", TWO)
def test_operations_of_two_are_numpys(name):
    for a, b in itertools.product(NUMBERS, NUMBERS):
        with np.errstate(all="ignore"):
            expected = float(TWO[name](np.float64(a), np.float64(b)))
        assert same(of([name, ["col", "x"], ["col", "y"]], x=a, y=b), expected), (a, b)


@pytest.mark.parametrize("name", ONE)
def test_operations_of_one_are_numpys(name):
    for a in NUMBERS:
        with np.errstate(all="ignore"):
            expected = float(ONE[name](np.float64(a)))
        assert same(of([name, ["col", "x"]], x=a), expected), a


@pytest.mark.parametrize("name", COMPARE)
def test_comparisons_are_numpys(name):
    for a, b in itertools.product(NUMBERS, NUMBERS):
        assert of(["cmp", name, ["col", "x"], ["col", "y"]], x=a, y=b) == float(COMPARE[name](a, b))


def test_every_operation_of_the_protocol_is_known():
    done = {*ONE, *TWO, "cmp", "const", "col", "level", "where", "bspline", "cr"}
    assert done == set(trees.OPERATIONS)
    assert set(COMPARE) == set(trees.COMPARE)


def test_choices_and_constants():
    tree = ["where", ["cmp", "gt", ["col", "x"], const(2)], const(5), ["log", const(-1)]]
    assert of(tree, x=3.0) == 5.0  # what isn't chosen is computed, and forgotten
    assert math.isnan(of(tree, x=1.0))
    assert of(["where", ["col", "x"], const(1), const(0)], x=math.nan) == 1.0


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 5), st.lists(st.integers(1, 9), max_size=4), st.floats(-0.5, 10.5))
def test_splines_are_those_of_scipy(degree, inner, x):
    knots = [0.0] * (degree + 1) + sorted(map(float, set(inner))) + [10.0] * (degree + 1)
    count = len(knots) - degree - 1
    got = [of(["bspline", ["col", "x"], degree, [hexed(k) for k in knots], i], x=x) for i in range(count)]
    if not 0.0 <= x <= 10.0:
        assert all(map(math.isnan, got))
        return
    expected = BSpline(np.array(knots), np.eye(count), degree)(x)
    np.testing.assert_allclose(got, expected, rtol=1e-12, atol=1e-14)
    assert sum(got) == pytest.approx(1.0)


def test_cubic_splines_are_those_of_scipy():
    knots, values = [0.0, 1.0, 2.5, 4.0, 7.0], [0.3, -1.0, 0.5, 2.0, 0.0]
    spline = CubicSpline(knots, values, bc_type="natural")
    parts = [[hexed(v) for v in some] for some in (knots, values, spline(knots, 2))]
    for x in (0.0, 0.3, 1.0, 2.4, 2.5, 6.9, 7.0):
        assert of(["cr", ["col", "x"], *parts], x=x) == pytest.approx(float(spline(x)), abs=1e-12)
    assert math.isnan(of(["cr", ["col", "x"], *parts], x=7.01))
    assert math.isnan(of(["cr", ["col", "x"], *parts], x=math.nan))


# --- answers -------------------------------------------------------------------------------------------------

AGE, SHIFT, ILL, VISITS = COLUMNS[0], COLUMNS[2], COLUMNS[4], COLUMNS[5]
CODED = Column("coded", (1, 2, "x"), -math.inf, math.inf, "?")


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("column", "answer", "expected"),
    [
        (AGE, 41, 41.0),
        (AGE, 41.5, 41.5),
        (AGE, 3, 18.0),
        (AGE, 10**400, None),
        (AGE, 1e308, 90.0),
        (AGE, -(10**30), 18.0),
        (AGE, math.inf, None),
        (AGE, math.nan, None),
        (AGE, "41", 41.0),
        (AGE, "4.15e1", 41.5),
        (AGE, "1e400", None),
        (AGE, "4_1", None),
        (AGE, "nan", None),
        (AGE, "0x30", None),
        (AGE, "41 ", None),
        (AGE, "٤١", None),
        (AGE, True, 18.0),
        (VISITS, True, 1.0),
        (VISITS, False, 0.0),
        (AGE, None, None),
        (AGE, [41], None),
        (SHIFT, "night", 1.0),
        (SHIFT, "Night", None),
        (SHIFT, 1, None),
        (SHIFT, None, None),
        (SHIFT, ["night"], None),
        (ILL, True, 1.0),
        (ILL, False, 0.0),
        (ILL, "true", 1.0),
        (ILL, 1, None),
        (CODED, 2, 1.0),
        (CODED, 2.0, 1.0),
        (CODED, "2", 1.0),
        (CODED, 2.5, None),
        (CODED, math.nan, None),
        (CODED, math.inf, None),
        (CODED, "x", 2.0),
        (CODED, True, None),
    ],
)
def test_answers_are_read_or_missing(column, answer, expected):
    assert read(column, answer) == expected


GOOD = {"age": 41, "bmi": 24.5, "shift": "night", "hours": 7, "unasked": "?"}


def test_a_row_is_in_internal_units():
    row = row_of(study_plan(), GOOD)
    assert row.x == [1.0, 1.0, 0.0, (41 - 54) / 36, (41 * 24.5 - 2385) / 2115]
    assert (row.y, row.offset) == ((7 - 12) / 12, 0.0)


def test_columns_that_the_design_uses_are_named():
    plan = study_plan()
    assert [c.name for c in plan.used] == ["age", "bmi", "shift", "hours"]
    assert unread(plan, {"age": 41, "shift": "never"}) == ["bmi", "shift", "hours"]
    assert unread(plan, {**GOOD, "ill": None}) == []
    assert [c.name for c in study_plan(offset=["col", "visits"]).used][-1] == "visits"


@pytest.mark.parametrize("name", ["age", "bmi", "shift", "hours"])
def test_whoever_lacks_a_column_has_nothing_to_report(name):
    row = row_of(study_plan(), {**GOOD, name: None})
    assert all(map(math.isnan, (*row.x, row.y, row.offset)))
    assert len(row.x) == 5


@pytest.mark.parametrize(
    "tree", [["log", ["sub", ["col", "age"], const(41)]], ["div", const(1), ["sub", ["col", "age"], const(41)]]]
)
def test_what_is_not_finite_leaves_nothing_to_report(tree):
    plan = study_plan(design=(*study_plan().design, Cell("odd", tree, 0.0, 1.0)))
    assert math.isnan(row_of(plan, GOOD).x[0])
    assert math.isfinite(row_of(plan, {**GOOD, "age": 42}).x[0])
    assert math.isnan(row_of(study_plan(offset=tree), GOOD).x[0])


def test_a_column_that_only_a_choice_hides_still_counts_as_missing():
    tree = ["where", ["cmp", "gt", ["col", "age"], const(0)], const(1), ["col", "visits"]]
    plan = study_plan(design=(Cell("c", tree, 0.0, 1.0),))
    assert math.isnan(row_of(plan, GOOD).y)
    assert row_of(plan, {**GOOD, "visits": 3}).x == [1.0]


def test_mixed_columns_are_sums_in_order():
    mix = (
        (1.0, 0.0, 0.0, 0.0, 0.0),
        (0.5, 2.0, 0.0, 0.0, 0.0),
        *(tuple(float(j == k) for k in range(5)) for j in (2, 3, 4)),
    )
    plain = row_of(study_plan(), GOOD).x
    assert row_of(study_plan(mix=mix), GOOD).x == [1.0, 0.5 + 2.0, *plain[2:]]


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from([c.name for c in COLUMNS]),
        st.one_of(st.none(), st.booleans(), st.text(), st.integers(), st.floats(), st.lists(st.none())),
    )
)
def test_no_answer_raises(answers):
    row = row_of(study_plan(offset=["pow", ["col", "bmi"], ["col", "visits"]]), answers)
    assert len(row.x) == 5
    assert len({math.isfinite(v) for v in (*row.x, row.y, row.offset)}) == 1
    assert design.unread(study_plan(), answers) is not None


# --- clamping ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "told"),
    [
        ({}, (0.0, 0.0)),
        ({"hours": 24, "bmi": 15.0}, (0.0, 0.0)),  # at their bounds
        ({"hours": 24.5}, (1.0, 0.0)),
        ({"hours": "-0.5", "bmi": "50.01"}, (1.0, 1.0)),
        ({"bmi": 1e300}, (0.0, 1.0)),
        ({"bmi": 10**400}, (0.0, 0.0)),  # can't be read: nothing to report
        ({"hours": 99, "bmi": None}, (0.0, 0.0)),
        ({"hours": 99, "age": "old"}, (0.0, 0.0)),
        ({"hours": 99, "shift": "late"}, (0.0, 0.0)),
    ],
)
def test_a_device_tells_what_bounds_clamp_of_rows_it_can_use(answers, told):
    plan = study_plan(clamping=CLAMPING)
    row = row_of(plan, {**GOOD, **answers})
    assert row.clamped == told
    assert row[:3] == row_of(study_plan(), {**GOOD, **answers})[:3] or math.isnan(row.y)
    assert row_of(study_plan(), {**GOOD, **answers}).clamped == ()


def test_a_column_that_the_design_does_not_use_can_be_asked_about():
    plan = study_plan(clamping=("visits",))
    assert [row_of(plan, {**GOOD, "visits": v}).clamped for v in (3, 99, None)] == [(0.0,), (1.0,), (0.0,)]


class Odd:
    def item(self):
        raise RuntimeError


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        (np.int64(41), 41.0), (np.float32(41.5), 41.5), (np.array(41), 41.0), (np.array([1, 2]), None), (Odd(), None),
        ("1" * 64, 90.0), ("1" * 65, None), ("1" * 100_000 + "x", None), pytest.param(10**5000, None, id="long"),
    ],
)  # fmt: skip
def test_odd_answers_are_numbers_or_none_and_never_a_failure(answer, value):
    age = next(c for c in COLUMNS if c.name == "age")
    assert read(age, answer) == value
    assert read(next(c for c in COLUMNS if c.name == "shift"), answer) is None
