"""Wrong data and files: which error, what it tells, and that it quotes no data."""

from decimal import Decimal
from functools import cache

import numpy as np
import pandas as pd
import pytest

from privreg.errors import DataError, PrivregError, SchemaError
from tests.wrong import (
    INSIDE,
    RAGGED,
    WORD,
    N,
    assert_says_nothing,
    by_arrays,
    by_formula,
    cell,
    check_refusal,
    check_silence,
    csv,
    rows,
    table,
)

NO_NUMBER = "has a value that is missing, infinite or no number"
UNUSABLE = {
    "NaN in a number": (
        lambda _, **how: by_formula(data=cell("a", np.nan), **how),
        DataError,
        [f"'a' {NO_NUMBER}", "drop or fill", "missing='noise'"],
    ),
    "inf in a number": (
        lambda _, **how: by_formula(data=cell("b", np.inf), **how),
        DataError,
        [f"'b' {NO_NUMBER}", "missing='noise'"],
    ),
    "NaN in the response": (
        lambda _, **how: by_formula(data=cell("y", np.nan), **how),
        DataError,
        [f"'y' {NO_NUMBER}"],
    ),
    "missing level": (
        lambda _, **how: by_formula(data=cell("g", None), **how),
        DataError,
        ["'g' has a missing value", "missing='noise'"],
    ),
    "level not declared": (
        lambda _, **how: by_formula(data=cell("g", WORD), **how),
        SchemaError,
        ["not among its declared levels ['u', 'v']", "correct levels= or the data", "missing='noise'"],
    ),
    "no level at all": (
        lambda _, **how: by_formula(data=cell("g", [1, 2]), **how),
        SchemaError,
        ["'g' has a value that is not among its declared levels ['u', 'v']"],
    ),
    "text in a number": (
        lambda _, **how: by_formula(data=cell("a", WORD), **how),
        DataError,
        [f"'a' {NO_NUMBER}", "convert it", "levels={'a'"],
    ),
    "dates in a number": (
        lambda _, **how: by_formula(data=rows(a=pd.Timestamp("2020-01-01")), **how),
        DataError,
        [f"'a' {NO_NUMBER}"],
    ),
    "logistic response 2": (
        lambda _, **how: by_formula("z ~ a", data=rows(z=[0, 1, 2] * 20), family="logistic", **how),
        DataError,
        ["'z' has a value other than 0 and 1", "two levels"],
    ),
    "ragged column": (
        lambda _, **how: by_formula(data={**rows().to_dict("list"), "a": RAGGED * (N // 2)}, **how),
        DataError,
        [f"'a' {NO_NUMBER}"],
    ),
    "column of lists": (
        lambda _, **how: by_formula(data={**rows().to_dict("list"), "a": RAGGED[:1] * N}, **how),
        DataError,
        [f"'a' {NO_NUMBER}"],
    ),
    "endog ragged": (lambda _, **how: by_arrays(endog=RAGGED * (N // 2), **how), DataError, [f"'y' {NO_NUMBER}"]),
    "array with NaN": (
        lambda _, **how: by_arrays(exog=np.full((N, 3), np.nan), **how),
        DataError,
        [f"'const' {NO_NUMBER}"],
    ),
    "array of texts": (
        lambda _, **how: by_arrays(exog=np.full((N, 3), WORD), **how),
        DataError,
        [f"'const' {NO_NUMBER}", "convert it"],
    ),
    "frame with a text column": (
        lambda _, **how: by_arrays(exog=rows()[["a", "b", "name"]], exog_names=["const", "a", "b"], **how),
        DataError,
        [f"'b' {NO_NUMBER}"],
    ),
    "line with too many fields": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(f"1,1,u,5,6,{WORD},{INSIDE}\n")), **how),
        DataError,
        [f"'y' {NO_NUMBER}"],
    ),
    "every line too long": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(header="a,b,g,y,unused")), **how),
        DataError,
        [f"'y' {NO_NUMBER}"],
    ),
    "open quote": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(f'1,"{WORD},{INSIDE}\n')), **how),
        DataError,
        [f"'y' {NO_NUMBER}"],
    ),
    "line cut off": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(f"{INSIDE},0.5,u")), **how),
        DataError,
        [f"'y' {NO_NUMBER}"],
    ),
    "bad encoding": (
        lambda tmp, **how: by_formula(data=csv(tmp, table().encode() + b"1,1,\xff\xfe,5,6,x\n"), **how),
        SchemaError,
        ["'g' has a value that is not among"],
    ),
    "level not declared in the file": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(f"1,1,{WORD},5,6,x\n")), **how),
        SchemaError,
        ["'g' has a value that is not among its declared levels ['u', 'v']"],
    ),
    "text in a number in the file": (
        lambda tmp, **how: by_formula(data=csv(tmp, table(f"{WORD},1,u,5,6,x\n")), **how),
        DataError,
        [f"'a' {NO_NUMBER}"],
    ),
}
"""Records that can't be used: errors for who asks for them by missing='raise'."""


@pytest.mark.some(4)
@pytest.mark.parametrize(("make", "error", "pieces"), UNUSABLE.values(), ids=UNUSABLE)
def test_records_that_cant_be_used_are_refused_if_asked_and_else_send_noise(make, error, pieces, tmp_path):
    check_refusal(lambda tmp: make(tmp, missing="raise").fit(progress=False), error, pieces, tmp_path)
    check_silence(lambda: make(tmp_path).fit(progress=True, seed=1))


class Odd:
    """What no table holds, and whose own code quotes itself."""

    def fail(self, *_):
        raise ValueError(WORD)

    __hash__ = __float__ = __str__ = __bool__ = __len__ = fail


WRONG_CELLS = [
    *(None, np.nan, np.inf, WORD, b"x", 1j, (), [1], {}, object(), pd.NaT, pd.Timestamp(0)),
    *(Odd(), Decimal("sNaN"), 10**5000, "9" * 5000, "\ud800", np.ones(2), pd.Interval(0, 1)),
]


def fit_with(column, value):
    return check_silence(lambda: by_formula(data=cell(column, value)).fit(progress=True, seed=1))


@cache
def without(column):
    return fit_with(column, None)


@pytest.mark.some(2)
@pytest.mark.parametrize("place", ["response", "number", "factor"])
@pytest.mark.parametrize("value", WRONG_CELLS, ids=range(len(WRONG_CELLS)))
def test_any_wrong_cell_is_refused_if_asked_and_else_like_one_that_is_missing(place, value):
    column = {"response": "y", "number": "a", "factor": "g"}[place]
    with pytest.raises(PrivregError) as caught:
        by_formula(data=cell(column, value), missing="raise").fit(progress=False)
    assert repr(column) in str(caught.value)
    assert_says_nothing(caught.value)
    assert fit_with(column, value) == without(column)


STRANGE = ["\ud800", 10**5000, np.datetime64("NaT", "s"), [1], np.zeros(1, [("f", float)])[0]]


@pytest.mark.some(1)
@pytest.mark.parametrize("column", ["y", "a", "g", "who"])
@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_columns_that_numpy_and_pandas_hold_in_other_ways_fail_no_fit(column, value):
    """A list's array takes the type of its cells, and pandas' texts must be Unicode."""
    data = rows(who=range(N)).to_dict("list")
    for cells in ([value] * N, [*data[column][1:], value]):
        for held in (cells, np.fromiter(cells, dtype=object, count=N)):
            made = by_formula(data={**data, column: held}, id="who")
            check_silence(lambda m=made: m.fit(tuning="published", progress=False, seed=1))


@pytest.mark.thorough
@pytest.mark.parametrize("missing", ["noise", "raise", "drop"])
def test_a_number_as_text_is_that_number(missing):
    got, want = (
        by_formula(data=cell("a", v), missing=missing).fit(progress=False, seed=1) for v in (str(INSIDE), INSIDE)
    )
    assert got.params.tolist() == want.params.tolist()


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", [ValueError, OSError, pd.errors.ParserError, UnicodeError, MemoryError, KeyError])
def test_what_a_library_says_about_a_file_is_not_passed_on(kind, tmp_path, monkeypatch):
    def quoting(*_args, **_more):
        raise kind(WORD, INSIDE)

    path = csv(tmp_path, table())
    monkeypatch.setattr("pyarrow.csv.read_csv", quoting)
    with pytest.raises(DataError, match=r"people\.csv: it can't be read to its end") as caught:
        by_formula(data=path).fit()
    assert_says_nothing(caught.value)


@pytest.mark.some(2)
@pytest.mark.parametrize("missing", ["noise", "raise"])
@pytest.mark.parametrize("place", ["privreg.data.cells._each_number", "privreg.data.columns.factorized"])
def test_what_a_library_says_about_a_column_is_not_passed_on(place, missing, monkeypatch):
    def quoting(*_args, **_more):
        raise ValueError(WORD, INSIDE)

    data = by_formula(data=rows(a=pd.array(rows()["a"], dtype="Float64")), missing=missing)
    monkeypatch.setattr(place, quoting)
    with pytest.raises(DataError, match=r"column '[ag]' can't be read") as caught:
        data.fit(progress=False)
    assert_says_nothing(caught.value)
