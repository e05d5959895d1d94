"""Public rows that are refused: the class of each error, what it names, and that no value of the rows stands in it."""

import numpy as np
import pandas as pd
import pytest

from privreg.cli.app import main
from privreg.errors import DataError, NotPrivateError, OptionError, UnsupportedArgumentError
from tests.wrong import ANSWER, BOX, INSIDE, OUTSIDE, WORD, by_arrays, by_formula, check_refusal, csv, rows

N = 80


def public(**columns):
    """Rows with sentinels, more than are needed."""
    return pd.concat([rows()] * 2, ignore_index=True).assign(**columns)


def one(column, value):
    """Rows with one wrong cell."""
    values = public()[column].tolist()
    values[N] = value
    return public(**{column: pd.Series(values, dtype=object)})


def fitted():
    data = public()
    by_formula(data=data).fit(progress=False)
    return data


def given(covariates, how=None, **options):
    return by_formula(**options).fit(progress=False, covariates=covariates, **(how or {}))


REFUSED = [
    (lambda _: given("people.csv"), OptionError, "covariates is of type str", "DataFrame"),
    (lambda _: given(public().to_numpy()), OptionError, "covariates is of type ndarray", "DataFrame"),
    (lambda _: given(public().to_dict("list")), OptionError, "covariates is of type dict", "DataFrame"),
    (lambda _: given(public()["a"]), OptionError, "covariates is of type Series", "DataFrame"),
    (lambda _: given(public(), {"tuning": "published"}), OptionError, "covariates= goes with tuning='efficient'"),
    (lambda _: given(public(), private="response"), OptionError, "private='response'", "leave it out"),
    (lambda _: given(public(), formula="y ~ 1"), OptionError, "'y ~ 1', which has none", "leave it out"),
    (lambda _: given(public().drop(columns="b")), DataError, "covariates has no column 'b'"),
    (lambda _: given(pd.concat([public(), public()[["b"]]], axis=1)), DataError, "'b' occurs more than once"),
    (lambda _: given(public().head(N - 1)), DataError, "79 rows", "4 columns needs 80 or more"),
    (lambda _: given(one("a", np.nan)), DataError, "rows whose 'a' is missing", "covariates.dropna()"),
    (lambda _: given(one("a", np.inf)), DataError, "rows whose 'a' is missing, no number"),
    (lambda _: given(one("b", WORD)), DataError, "rows whose 'b' is missing, no number"),
    (lambda _: given(one("g", WORD)), DataError, "rows whose 'g' is", "not among the declared levels"),
    (lambda _: given(one("g", None)), DataError, "rows whose 'g' is missing"),
    (lambda _: given(public(a=INSIDE)), DataError, "the same 'a' in all rows"),
    (lambda _: given(public(g="u")), DataError, "the same 'g[T.v]' in all rows"),
    (lambda _: given(public(b=public()["a"].clip(0, 40_000) / 40_000)), DataError, "determine each other"),
    (
        lambda _: given(public(a=-INSIDE), formula="y ~ b + np.log(a)", scaling="private", bounds={"y": BOX["y"]}),
        DataError,
        "a term of the formula is not finite",
    ),
    (lambda _: given(fitted()), NotPrivateError, "fitted privately in this process", "covariates="),
    (lambda _: by_arrays().fit(covariates=public()[["a"]]), DataError, "covariates has no column 'b'"),
    (lambda _: by_arrays().fit(covariates=(ANSWER, OUTSIDE)), OptionError, "covariates is of type tuple"),
    (lambda _: by_formula().plan(covariates=public().head(3)), DataError, "3 rows"),
    (lambda _: by_formula().start(covariates=public().head(3)), DataError, "3 rows"),
    (lambda _: by_formula(covariates=public()), UnsupportedArgumentError, "covariates= belongs to fit()"),
]


@pytest.mark.some(13)
@pytest.mark.parametrize("case", REFUSED, ids=[str(k) for k in range(len(REFUSED))])
def test_rows_are_refused_without_a_word_of_what_they_hold(case, tmp_path):
    call, error, *pieces = case
    check_refusal(call, error, pieces, tmp_path)


def test_the_command_line_reads_a_file_and_refuses_the_people_s_own(tmp_path, capsys):
    people, other = csv(tmp_path, public().to_csv(index=False)), tmp_path / "public.csv"
    public().drop(columns="y").to_csv(other, index=False)
    call = ["fit", "y ~ a + b + g", str(people), "--mu", "1", "--scale", "4000", "--levels", "g=u,v", "--bounds"]
    call += [f"{name}={low}:{high}" for name, (low, high) in BOX.items()]
    assert main([*call, "--covariates", str(other), "--seed", "1", "--details"]) == 0
    assert "public rows (120)" in capsys.readouterr().out
    assert main([*call, "--covariates", str(people)]) != 0
    assert "--covariates is for other rows" in capsys.readouterr().err
