"""Rows that can't be used: sent as noise, refused, or left out."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privreg.data.sources.open import open_table
from privreg.errors import DataError, OptionError, SchemaError
from privreg.formula.design import array_design, formula_design
from privreg.formula.language.rowwise import rowwise
from privreg.options.table import find
from privreg.schema.declarations import Schema
from tests.wrong import ANSWER, INSIDE, OUTSIDE, WORD, cases, check_refusal

SCHEMA = Schema.declare(
    {"y": (0, 50_000), "a": (1, 40_000), "o": (-1, 1), "t": (0.5, 4)}, {"g": ["u", "v"], "k": [0, 1, 2]}, {"m": (0, 1)}
)
FORMULA = "y ~ a + np.log(a) + g + m + k:m"
N = 30
MISSING = find("local.formula", "missing").choices
GAPS = (3, 7, 12, 20, 21, 25, 29)


def positive(x):
    """A function that can't cope with anything but positive numbers."""
    if not (x > 0).all():
        raise ValueError(x)
    return np.sqrt(x)


def spiked(x):
    """A function that can't cope with one number, and tells it."""
    if (x == 25.5).any():
        raise ValueError(f"found {x}")
    return np.sqrt(np.abs(x))


FUNCTIONS = {"positive": rowwise(positive), "spiked": rowwise(spiked)}


def rows(seed=1):
    rng = np.random.default_rng(seed)
    data = {c: rng.uniform(*SCHEMA.bounds[c], N) for c in SCHEMA.bounds}
    data |= {"g": rng.choice(["u", "v"], N), "k": rng.integers(0, 3, N), "m": rng.normal(size=N)}
    return pd.DataFrame(data)


def with_gaps(seed=1):
    """The rows, each of the columns missing in one of them."""
    data = rows(seed).astype({"g": object, "k": object})
    for column, i in zip(("y", "a", "o", "t", "g", "k", "m"), GAPS, strict=True):
        data.loc[i, column] = None
    return data


def design(formula=FORMULA, **more):
    return formula_design(formula, SCHEMA, offset="o", exposure="t", **more)


COMPLETE = ~np.isin(np.arange(N), GAPS)


def check_both(encode, want, mute=GAPS[:1]):
    """Both ways of encoding rows with gaps give what the complete rows give.

    Those of which the response alone is missing, `mute`, keep their covariates and offset beside it.
    """
    dropped, noise = encode("drop"), encode("noise")
    np.testing.assert_array_equal(dropped.kept, COMPLETE)
    assert noise.kept is None
    covered = COMPLETE | np.isin(np.arange(N), mute)
    for got, sent, expected, there in zip(dropped[:3], noise[:3], want[:3], (COMPLETE, covered, covered), strict=True):
        if expected is None:
            assert got is sent is None
            continue
        np.testing.assert_array_equal(got, expected[COMPLETE])
        np.testing.assert_array_equal(sent[there], expected[there])
        assert np.isnan(sent[~there]).all()
    assert noise.exog.flags.c_contiguous
    assert dropped.exog.flags.c_contiguous


# --- formulas --------------------------------------------------------------------------------------------


def test_rows_with_gaps_are_dropped_or_nan():
    d = design()
    check_both(lambda how: d.encode(with_gaps(), missing=how), d.encode(rows()))


FORMS = {
    "pandas' own types": lambda data: data.astype(
        {"y": "Float64", "a": "Float64", "k": "Int64", "g": "string", "m": "Float64"}
    ),
    "categories": lambda data: data.assign(g=pd.Categorical(data["g"], ["v", "w", "u"]), k=pd.Categorical(data["k"])),
    "floats": lambda data: data.astype({"k": float}),
    "objects": lambda data: data.astype(object).where(data.notna(), None),
    "objects with NA": lambda data: data.astype(object).where(data.notna(), pd.NA),
    "lists": lambda data: {c: data[c].tolist() for c in data},
    "lists with NaN": lambda data: {c: [np.nan if pd.isna(v) else v for v in data[c]] for c in data},
}


@pytest.mark.some(1)
@pytest.mark.parametrize("form", FORMS)
def test_whatever_stands_for_a_missing_value(form):
    d, data = design(), FORMS[form](with_gaps())
    check_both(lambda how: d.encode(data, missing=how), d.encode(rows()))
    source = open_table(data, d.columns, SCHEMA)
    check_both(lambda how: d.encode(next(source.batches(0)), missing=how), d.encode(rows()))


UNUSABLE = {
    "infinite": {"y": np.inf, "a": -np.inf, "o": np.inf, "t": -np.inf, "m": np.inf},
    "text": {"y": "a lot", "a": "", "o": "1_0", "t": "1e999", "g": "w", "k": "two", "m": "0x1"},
    "half a character": dict.fromkeys("yaotgkm", "\ud800"),
    "not declared": {"y": None, "a": None, "o": None, "t": None, "g": "U", "k": 3, "m": None},
    "no cells": {"y": [1], "a": {2: 3}, "o": (), "t": 1j, "g": ["u"], "k": object(), "m": pd.Timestamp("2020-01-01")},
    "too large": dict.fromkeys("yaotgkm", 10**400),
}


@pytest.mark.some(3)
@pytest.mark.parametrize("name", UNUSABLE)
def test_whatever_cannot_be_used_is_like_a_missing_value(name):
    d, data = design(), with_gaps().astype(object)
    for column, i in zip("yaotgkm", GAPS, strict=True):
        data.at[i, column] = UNUSABLE[name].get(column)
    columns = {c: data[c].to_numpy(dtype=object) for c in data}
    for table in (data, columns, {c: data[c].tolist() for c in data}):
        source = open_table(table, d.columns, SCHEMA)
        (batch,) = source.batches(0)
        check_both(lambda how, batch=batch: d.encode(batch, missing=how), d.encode(rows()))


@pytest.mark.some(2)
@pytest.mark.parametrize("wrong", [1j, np.complex64(2 + 1j), np.timedelta64(1, "s"), np.datetime64("2020-01-01"), b"x"])
def test_one_cell_that_is_no_number_does_not_spoil_the_others(wrong):
    """Libraries make one type of a list: here one that no number has."""
    schema = Schema.declare({"y": (0, 9)}, {"k": [1, 2, 3]})
    cells = [1, wrong, 3]
    for form in (list, np.array, pd.Series, lambda v: pd.Series(v).array):
        if form is np.array and isinstance(wrong, np.timedelta64 | bytes):
            continue  # NumPy has lost the numbers before we see them
        for kind in ("y", "k"):
            source = open_table({"y": [1.0] * 3, "k": [1] * 3} | {kind: form(cells)}, ("y", "k"), schema)
            (batch,) = source.batches(0)
            got = formula_design("y ~ C(k)", schema).encode(batch, "noise")
            np.testing.assert_array_equal(np.isnan(got.endog), [False, True, False])


def test_a_cell_is_read_whatever_the_type_of_its_column():
    d, data = design(), rows()
    texts = data.astype({"k": object}).map(str)
    np.testing.assert_array_equal(d.encode(texts).exog, d.encode(data).exog)
    np.testing.assert_array_equal(d.encode(texts).endog, d.encode(data).endog)


def test_blank_fields_of_a_file(tmp_path):
    path = tmp_path / "people.csv"
    d, data = design(), with_gaps()
    data.to_csv(path, index=False)
    assert ",," in path.read_text()
    source = open_table(path, d.columns, SCHEMA)
    want = d.encode(next(open_table(path, d.columns, SCHEMA).batches(0)), missing="drop")
    check_both(lambda how: d.encode(next(source.batches(0)), missing=how), d.encode(rows()))
    assert len(want.endog) == COMPLETE.sum()


def test_only_the_columns_that_are_read_count():
    d = formula_design("y ~ m", SCHEMA)
    data = with_gaps()
    dropped = d.encode(data, missing="drop")
    np.testing.assert_array_equal(np.flatnonzero(~dropped.kept), [GAPS[0], GAPS[6]])
    assert dropped.offset is None
    for how in MISSING:
        encoded = d.encode(rows(), missing=how)
        assert encoded.kept is None
        np.testing.assert_array_equal(encoded.exog, d.encode(rows()).exog)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["number", "binary", "levels"])
def test_responses_of_every_kind(kind):
    response = {"number": "np.log(1 + y)", "binary": "g", "levels": "k"}[kind]
    d = formula_design(f"{response} ~ a + m", SCHEMA, kind=kind)
    data = with_gaps()
    data.loc[list(GAPS), ["y", "g", "k"]] = None
    mute = [i for i in GAPS if not data.loc[i, ["a", "m"]].isna().any()]
    check_both(lambda how: d.encode(data, missing=how), d.encode(rows()), mute)
    with pytest.raises(DataError, match="missing"):
        d.encode(data)


def test_terms_are_computed_for_complete_rows_only():
    d = formula_design("positive(1 + y) ~ positive(a) + m", SCHEMA, functions=FUNCTIONS)
    data = with_gaps()
    data.loc[list(GAPS), ["a", "y"]] = None
    check_both(lambda how: d.encode(data, missing=how), d.encode(rows()), mute=())


@pytest.mark.parametrize(
    ("formula", "column"),
    [("y ~ g + spiked(a) + m", "a"), ("y ~ I(1 / (m - 25.5)) + np.log(a)", "m"), ("spiked(y) ~ a + m", "y")],
)
def test_rows_of_which_a_term_cannot_be_computed_are_like_rows_with_gaps(formula, column):
    d = formula_design(formula, SCHEMA, functions=FUNCTIONS)
    data = rows()
    data.loc[list(GAPS), column] = 25.5
    check_both(lambda how: d.encode(data, missing=how), d.encode(rows()), GAPS if column == "y" else ())
    with pytest.raises(DataError, match="is not finite, or can't be computed,"):
        d.encode(data)


def test_rows_that_all_have_gaps_and_no_rows():
    d = formula_design("np.log(1 + y) ~ positive(a) + g", SCHEMA, functions=FUNCTIONS)
    gone = rows().assign(a=np.nan)
    dropped, noise = (d.encode(gone, missing=how) for how in ("drop", "noise"))
    assert dropped.endog.shape == (0,)
    assert dropped.exog.shape == (0, 3)
    assert not dropped.kept.any()
    assert np.isnan(noise.exog).all()
    assert noise.exog.shape == (N, 3)
    for how in MISSING:
        empty = d.encode(rows().head(0), missing=how)
        assert (empty.exog.shape, empty.kept) == ((0, 3), None)


@pytest.mark.thorough
@settings(max_examples=25, deadline=None)
@given(cut=st.integers(0, N), how=st.sampled_from(["drop", "noise"]))
def test_batches_do_not_matter(cut, how):
    d, data = DESIGN, with_gaps()
    whole = d.encode(data, missing=how)
    parts = [d.encode(data.iloc[s], missing=how) for s in (slice(None, cut), slice(cut, None))]
    for j in range(3):
        np.testing.assert_array_equal(np.concatenate([p[j] for p in parts]), whole[j])


DESIGN = design()


# --- arrays ----------------------------------------------------------------------------------------------

BOX = Schema.declare(
    {"x1": (0, 1), "x2": (0, 1), "y": (0, 1), "offset": (-1, 1), "exposure": (0.5, 4)}, {"g": ["u", "v", "w"]}
)


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", ["number", "binary", "levels"])
def test_arrays(kind):
    rng = np.random.default_rng(2)
    x, o, e = rng.uniform(size=(N, 3)), rng.uniform(-1, 1, N), rng.uniform(0.5, 4, N)
    y = {"number": o.clip(0), "binary": (o > 0) * 1.0, "levels": rng.choice(["u", "v", "w"], N).astype(object)}[kind]
    d = array_design(
        ["const", "x1", "x2"], "g" if kind == "levels" else "y", BOX, kind=kind, offset=True, exposure=True
    )
    want = d.encode((y, x, o, e))
    y, x, o, e = y.copy(), x.copy(), o.copy(), e.copy()
    for i, gap in zip(GAPS, ("y", "x", "o", "e", "x", "y", "x"), strict=True):
        {"y": y, "x": x[:, 1], "o": o, "e": e}[gap][i] = np.nan
    mute = [GAPS[0], GAPS[5]]
    check_both(lambda how: d.encode((y, x, o, e), missing=how), want, mute)
    lists = y.tolist(), pd.DataFrame(x).astype("Float64"), pd.Series(o), e.tolist()
    check_both(lambda how: d.encode(lists, missing=how), want, mute)
    for gap in (None, "", "a lot", "\ud800", np.inf, 1j, [2]):  # nor is anything else that is no finite number
        objects = x.astype(object)
        for i in np.flatnonzero(np.isnan(x[:, 1])):
            objects[i, 1] = gap
        check_both(lambda how, objects=objects: d.encode((y, objects, o, e), missing=how), want, mute)


def test_the_users_arrays_are_left_alone():
    d = array_design(["x1", "x2"], "y", BOX, offset=True)
    y, x, o = np.full(4, 0.5), np.full((4, 2), 0.5), np.full(4, 0.5)
    x[1, 0] = np.nan
    held = y.copy(), x.copy(), o.copy()
    for how in ("drop", "noise"):
        encoded = d.encode((y, x, o), missing=how)
        for part in encoded[:3]:
            part[:] = 9
    for now, before in zip((y, x, o), held, strict=True):
        np.testing.assert_array_equal(now, before)


# --- wrong calls -----------------------------------------------------------------------------------------


def of(how, formula=FORMULA):
    """Encode rows with gaps."""

    def call(_):
        data = with_gaps()
        data.loc[5, "a"] = INSIDE
        return formula_design(formula, SCHEMA, functions=FUNCTIONS, offset="o").encode(data, missing=how)

    return call


def of_whole(how, formula=FORMULA, **cells):
    """The same of rows without gaps."""

    def call(_):
        data = rows()
        for column, value in cells.items():
            data[column] = data[column].astype(object)
            data.loc[0, column] = value
        return formula_design(formula, SCHEMA, functions=FUNCTIONS, offset="o").encode(data, missing=how)

    return call


def of_arrays(how, *given):
    return lambda _: array_design(["x1", "x2"], "y", BOX).encode(given, missing=how)


Y = np.array([0.5, np.nan, 0.5])
BAD = np.array([[0.5, INSIDE], [np.nan, OUTSIDE], [ANSWER, np.inf]])
REFUSED = {
    "raise": (of("raise"), DataError, ["'y' has a value that is missing, infinite or no number", "missing='noise'"]),
    "raise, a factor": (of("raise", "y ~ g"), DataError, ["'y' has a value that is missing"]),
    "a factor alone": (of_whole("raise", "y ~ g", g=None), DataError, ["'g' has a missing value", "missing='noise'"]),
    "infinite": (of_whole("raise", a=np.inf), DataError, ["'a' has a value that is missing, infinite or no number"]),
    "infinite offset": (of_whole("raise", o=-np.inf), DataError, ["'o' has a value that is missing, infinite"]),
    "text among numbers": (of_whole("raise", a=WORD), DataError, ["'a' has a value", "convert it, declare levels="]),
    "undeclared level": (
        of_whole("raise", g=WORD),
        SchemaError,
        ["'g' has a value that is not among its declared levels", "letter by letter", "missing='noise'"],
    ),
    "undeclared number": (of_whole("raise", k=OUTSIDE), SchemaError, ["'k' has a value that is not among"]),
    "a term": (
        of_whole("raise", "y ~ I(1 / (m - 25.5))", m=25.5),
        DataError,
        ["'I(1 / (m - 25.5))' is not finite, or can't be computed, for a row", "declare tighter bounds"],
    ),
    "a function that raises": (
        of_whole("raise", "y ~ spiked(a)", a=25.5),
        DataError,
        ["'spiked(a)' is not finite, or can't be computed"],
    ),
    "a response": (
        of_whole("raise", "spiked(y) ~ a", y=25.5),
        DataError,
        ["the response 'spiked(y)' is not finite, or can't be computed"],
    ),
    "unknown": (of("ignore"), OptionError, ["missing='ignore'", "'noise', 'raise', 'drop'"]),
    "rows by mistake": (of([INSIDE]), OptionError, ["missing=<list>"]),
    "array": (of_arrays("raise", Y, BAD), DataError, ["'y' has a value that is missing"]),
    "array, infinite": (of_arrays("raise", Y[[0, 2]], BAD[[0, 2]]), DataError, ["'x2' has a value that is missing"]),
    "array, text": (of_arrays("raise", Y[[0, 2]], [[WORD, 1], [1, 2]]), DataError, ["'x1' has a value"]),
    "array, infinite response": (of_arrays("raise", [np.inf, 1.0], np.ones((2, 2))), DataError, ["'y' has a value"]),
    "array, lengths": (of_arrays("noise", Y, BAD[:2]), DataError, ["differ in their number of rows"]),
    "array, unknown": (of_arrays("mean", Y, BAD), OptionError, ["missing='mean'"]),
}


@pytest.mark.some(1)
@pytest.mark.parametrize(("call", "error", "pieces"), cases(missing=REFUSED))
def test_wrong_calls(call, error, pieces, tmp_path):
    check_refusal(call, error, pieces, tmp_path)
