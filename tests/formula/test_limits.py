"""How much a formula may ask for: each number that it writes at its limit and one beyond; splines against patsy's."""

import itertools
import time

import numpy as np
import patsy
import pytest

from privreg.errors import FormulaError, PrivregError
from privreg.formula.design import formula_design
from privreg.formula.language import parse
from privreg.formula.language.parse import LONGEST, NESTED, read
from privreg.formula.trees.compile import compile_trees
from privreg.formula.trees.evaluate import Program, problem, trees
from privreg.means.terms import read_formula
from privreg.protocol.codes import DEEPEST, HIGHEST, MOST_COLUMNS, MOST_KNOTS
from privreg.schema.declarations import Schema
from privreg_field.wire import trees as devices

NAMES = [f"x{k}" for k in range(70)]
LEVELS = {"g": list(range(MOST_COLUMNS)), "more": list(range(MOST_COLUMNS + 1)), "two": ["a", "b"]}
SCHEMA = Schema.declare({"y": (0, 1), "x": (0, 10), **{n: (0, 1) for n in NAMES}}, LEVELS)
BOUNDS = "lower_bound=0, upper_bound=10"


def spline(count, what="bs", **more):
    knots = [10 * (k + 1) / (count + 1) for k in range(count)]
    return f"{what}(x, knots={knots}, {BOUNDS}{''.join(f', {k}={v}' for k, v in more.items())})"


def chain(count, sign=" + "):
    return sign.join(itertools.islice(map(":".join, itertools.combinations(NAMES, 2)), count))


CASES = {
    "degree": (lambda n: f"bs(x, knots=[5], {BOUNDS}, degree={n})", 5, "degree=6; a degree is a whole number from 0"),
    "knots of bs": (spline, MOST_KNOTS - 8, "193 knots; give at most 192"),
    "knots of a step": (lambda n: spline(n, degree=0), MOST_KNOTS - 2, "199 knots; give at most 198"),
    "knots of cr": (lambda n: spline(n, "cr"), MOST_KNOTS - 2, "199 knots; give at most 198"),
    "knots of cc": (lambda n: spline(n, "cc"), MOST_KNOTS - 2, "199 knots; give at most 198"),
    "a sum in I()": (lambda n: f"I({' + '.join(['x'] * (n - 1))})", DEEPEST, "more than 48 parts inside each"),
    "signs": (lambda n: f"I({'-' * (n - 2)}x)", DEEPEST, "more than 48 parts inside each other"),
    "decimals": (lambda n: f"np.round(x, {n})", 22, "whole decimals from -22 to 22"),
    "decimals before": (lambda n: f"np.round(x, -{n})", 22, "whole decimals from -22 to 22"),
    "a constant": (lambda n: f"I(x * {2**n})", 60, "beyond 2^60"),
    "an exponent": (lambda n: f"I(x ** {2**n})", 60, "beyond 2^60"),
    "terms of a sum": (lambda n: chain(n, "+"), MOST_COLUMNS - 1, "more than 2,000 columns"),
    "terms within a product": (lambda n: f"x * ({chain(n - 1)})", NESTED, "more than 250 operators inside each other"),
    "terms left out": (lambda n: f"x - {chain(n - 1, ' - ')}", NESTED, "more than 250 operators inside each other"),
    "terms of a power": (lambda n: f"({'+'.join(NAMES[:n])})**2", 62, "more than 2,000 terms"),
    "terms of a product": (lambda n: "*".join(NAMES[:n]), 10, "more than 2,000 terms"),
    "characters": (lambda n: "x" + " " * (n - 5), LONGEST, "more than 16,384 characters"),
}  # fmt: skip


@pytest.mark.some(8)
@pytest.mark.parametrize("what", CASES)
def test_each_number_is_read_at_its_limit_and_refused_one_beyond(what):
    write, most, why = CASES[what]
    parse.read_formula(f"y ~ {write(most)}", {})
    begin = time.process_time()
    with pytest.raises(FormulaError, match=why.replace("(", r"\(").replace("^", r"\^")) as got:
        parse.read_formula(f"y ~ {write(most + 1)}", {})
    assert time.process_time() - begin < 2.0
    assert "formula" in str(got.value) or "term" in str(got.value)


LARGE = f"0x{'f' * 5000}"


@pytest.mark.parametrize(
    "term",
    [LARGE, f"I(x * {LARGE})", f"C(g, Treatment({LARGE}))", f"C(g, contr.treatment({LARGE}))", f"x.rank({LARGE})",
     f"offset({LARGE})", f"poly(x, {LARGE})", f"x ^ {LARGE}", f"x**{LARGE}", f"x[{LARGE}]", f"I(f'{{{LARGE}}}')"],
)  # fmt: skip
def test_numbers_that_python_does_not_write_again_are_refused(term):
    for what in (f"y ~ {term}", f"{term} ~ x"):
        with pytest.raises(PrivregError):
            parse.read_formula(what, {})
    with pytest.raises(PrivregError):
        read_formula(f"{term} ~ 1")


@pytest.mark.parametrize("term", ["-" * 900 + "x", "x" + ".a" * 900, "x" + "(0)" * 900, "not " * 900 + "x"])
def test_means_have_no_deep_terms_but_long_sums(term):
    with pytest.raises(FormulaError, match="more than 48 parts inside each other"):
        read_formula(f"{term} ~ 1")
    assert read_formula("+".join(f"x{k}" for k in range(300)))[-1].columns == ("x299",)


def test_columns_are_counted_before_they_are_made():
    schema = Schema.declare({"y": (0, 1)}, {"a": list(range(40)), "b": list(range(8)), "c": list(range(51))})
    too_many = "more than 2,000 columns, levels of factors counted"
    begin = time.process_time()
    assert len(formula_design("y ~ a*b", schema).names) == 320
    for formula, own in (("y ~ a*c", schema), ("y ~ more", SCHEMA), ("y ~ g:more:two", SCHEMA)):
        with pytest.raises(FormulaError, match=too_many):
            formula_design(formula, own)
    assert time.process_time() - begin < 20.0
    many = Schema.declare({"y": (0, 1)}, {f"f{k}": ["a", "b"] for k in range(40)})
    wide = [":".join(f"f{(j + 3 * k) % 40}" for j in range(10)) for k in range(30)]
    for terms in (":".join(many.levels), " + ".join(wide), "*".join([*many.levels][:11])):
        with pytest.raises(FormulaError, match=r"more than 2,000 (columns, levels|terms)"):
            parse.check_formula(f"y ~ {terms}", many, {})
    assert parse.check_formula(f"y ~ {'*'.join([*many.levels][:10])}", many, {})  # 1,024
    assert time.process_time() - begin < 20.0


NUMBERS = [
    "1e999",
    "-1e999",
    "10**100",
    "1" + "0" * 100,
    "1" + "0" * 400,
    "1" + "0" * 5000,
    "1e300",
    "1e-999",
    "1e400j",
]
PLACES = [
    "I(x * {})", "I(x ** {})", "I(x > {})", "np.power(x, {})", "np.round(x, {})", "np.where(x > 1, {}, 2)",
    "bs(x, knots=[{}], lower_bound=0, upper_bound=10)", "bs(x, knots=[5], lower_bound=0, upper_bound={})",
    "bs(x, knots=[5], lower_bound=0, upper_bound=10, degree={})", "cr(x, knots=[5], lower_bound={}, upper_bound=10)",
    "(x + x1)**{}", "x + {}", "C(two, Treatment({}))", "I(two == {})", "C(g, Poly([{}]))", "np.log({}) + x", "Q('{}')",
]  # fmt: skip


@pytest.mark.some(5)
@pytest.mark.parametrize("place", PLACES)
def test_whatever_number_is_written_a_formula_is_read_or_refused_by_an_error_of_ours(place):
    schema = Schema.declare({"y": (0, 1), "x": (0, 10), "x1": (0, 1)}, {"g": list(range(4)), "two": ["a", "b"]})
    for number in NUMBERS:
        begin = time.process_time()
        try:
            design = formula_design(f"y ~ {place.format(number)}", schema)
        except PrivregError as e:
            assert "Traceback" not in str(e)  # noqa: PT017 - any of ours will do
        else:
            assert np.isfinite(design.probe).all()
        assert time.process_time() - begin < 3.0


def test_parts_without_columns_that_are_no_finite_numbers_are_refused():
    for part in ("1 / 0", "np.log(-1)", "np.log(0)", "0 / 0", "np.exp(1000)", "np.sqrt(-2)", "5 % 0", "np.arccosh(0)"):
        for formula in (
            f"y ~ I(x + {part})",
            f"y ~ np.where(x > 11, {part}, x)",
            f"I(y + {part}) ~ x",
            f"y ~ I(x > {part})",
        ):
            with pytest.raises(FormulaError, match="is not a finite number; write one"):
                formula_design(formula, SCHEMA)


@pytest.mark.parametrize(
    ("term", "why"),
    [
        (f"bs(x, knots=[5], {BOUNDS}, degree=22)", "degree=22; a degree is a whole number from 0 to 5"),
        (f"bs(x, knots=[5], {BOUNDS}, degree=-1)", "degree=-1"),
        (f"bs(x, knots=[5], {BOUNDS}, degree=2.5)", "degree=2.5"),
        (f"bs(x, knots=[11], {BOUNDS})", "bounds that don't hold its knots"),
        ("bs(x, knots=[5], lower_bound=5, upper_bound=5)", "bounds that don't hold its knots"),
        (f"cr(x, knots=[], {BOUNDS})", "no knot between its bounds"),
        (f"cc(x, knots=[0, 5], {BOUNDS})", "or one on them"),
        (f"cr(x, knots=[1e-320, 5], {BOUNDS})", "knots that are too near each other"),
        (f"cc(x, knots=[1e-320, 5], {BOUNDS})", "knots that are too near each other"),
    ],
)
def test_splines_that_no_device_computes_are_refused(term, why):
    with pytest.raises(FormulaError, match=why):
        formula_design(f"y ~ {term}", SCHEMA)


# --- splines -------------------------------------------------------------------------------------------------


INNER = {
    "none": [],
    "one": [5.0],
    "three": [2.0, 5.0, 7.5],
    "twice": [5.0, 5.0],
    "often": [3.0, 5.0, 5.0, 5.0, 5.0],
    "on the lower bound": [0.0, 5.0],
    "on the upper bound": [5.0, 10.0],
    "on both, often": [0.0, 0.0, 4.0, 10.0, 10.0, 10.0],
    "near": [1.0, 1.0 + 1e-12, 9.0],
}


def values(knots):
    some = np.random.default_rng(3).uniform(0, 10, 300)
    return np.concatenate(
        [some, knots, [0.0, 10.0], np.nextafter([0.0, *knots], 10), np.nextafter([10.0, *knots], 0)]
    ).clip(0, 10)


@pytest.mark.some(18)
@pytest.mark.parametrize("degree", range(HIGHEST + 1))
@pytest.mark.parametrize("inner", INNER)
def test_b_splines_are_patsy_s_to_the_last_bit(inner, degree):
    given = {"knots": INNER[inner], "lower_bound": 0, "upper_bound": 10, "degree": degree, "include_intercept": True}
    assert problem("bs", given) is None
    x = values(INNER[inner])
    want = np.asarray(patsy.bs(x, **given))
    found = Program(trees("bs", ["col", "x"], given), SCHEMA)({"x": x})
    np.testing.assert_array_equal(np.column_stack(found), want)


@pytest.mark.parametrize("what", ["cr", "cc"])
@pytest.mark.parametrize("inner", ["one", "three", "twice", "near"])
def test_cubic_splines_are_patsy_s_to_the_last_bit(what, inner):
    given = {"knots": INNER[inner], "lower_bound": 0, "upper_bound": 10}
    x = np.concatenate([values(INNER[inner]), [-7.0, 23.5, 10.25]])
    want = np.asarray(getattr(patsy, what)(x, **given))
    made = trees(what, ["col", "x"], given)
    beyond = Program([[what, *tree[1:]] for tree in made], SCHEMA)({"x": x}, beyond=True)
    np.testing.assert_array_equal(np.column_stack(beyond), want)
    found = np.column_stack(Program(made, SCHEMA)({"x": x}))
    np.testing.assert_array_equal(found[:-3], want[:-3])
    assert np.isnan(found[-3:]).all()


@pytest.mark.some(2)
@pytest.mark.parametrize("degree", range(HIGHEST + 1))
def test_devices_compute_the_same_splines(degree):
    from privreg_field.device.report.design import value_of

    for inner in INNER.values():
        given = {"knots": inner, "lower_bound": 0, "upper_bound": 10, "degree": degree, "include_intercept": True}
        x = values(inner)[-40:]
        for tree in trees("bs", ["col", "x"], given):
            (found,) = Program([tree], SCHEMA)({"x": x})
            assert [value_of(tree, {}, {"x": v}) for v in x.tolist()] == found.tolist()


def test_a_spline_of_what_depends_on_a_factor_alone():
    term = "bs(np.where(two == 'a', 2.0, 7.0), knots=[5], lower_bound=0, upper_bound=10, degree=1)"
    (tree, *_) = compile_trees(formula_design(f"y ~ {term}:x - 1", SCHEMA)).exog
    (found,) = Program([tree], SCHEMA)({"two": np.array([0, 1]), "x": np.array([1.0, 1.0])})
    np.testing.assert_allclose(found, [0.4, 0.6], rtol=1e-15)


# --- what devices take ---------------------------------------------------------------------------------------


@pytest.mark.some(2)
@pytest.mark.parametrize("contrast", ["Treatment", "Sum", "Helmert", "Poly", "Diff"])
def test_contrasts_of_many_levels_are_no_deep_trees(contrast):
    levels = [f"l{k}" for k in range(60)]
    design = formula_design(f"y ~ C(h, {contrast})", Schema.declare({"y": (0, 1)}, {"h": levels}))
    column = {"h": devices.Column("h", tuple(levels), 0.0, 0.0, "")}
    assert sum(devices.check(tree, column, "a column") for tree in compile_trees(design).exog) > 0


def test_a_response_of_many_levels_is_no_deep_tree():
    levels = [f"l{k}" for k in range(50)]
    schema = Schema.declare({"x": (0, 1)}, {"h": levels})
    tree = compile_trees(formula_design("h ~ x", schema, kind="levels")).endog
    devices.check(tree, {"h": devices.Column("h", tuple(levels), 0.0, 0.0, "")}, "the response")
    (found,) = Program([tree], schema)({"h": np.arange(50)})
    assert found.tolist() == list(range(50))


PARTS = ["a", "b", "a:b", "b*c", "0", "1", "(a+b)", "(a - 1)", "(0 + c)"]


@pytest.mark.thorough
@pytest.mark.parametrize("signs", ["+++", "++-", "+-+", "-++", "--+"])
def test_sums_are_read_as_patsy_reads_them(signs):
    for parts in itertools.product(PARTS, PARTS[::2], PARTS[1::2], ["c", "1"]):
        formula = f"y ~ {parts[0]}{''.join(f' {s} {p}' for s, p in zip(signs, parts[1:], strict=True))}"
        assert read(formula)[0].describe() == patsy.ModelDesc.from_formula(formula).describe(), formula
