"""A response of yes and no in words, for which no levels are declared."""

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import SchemaError

HOW = {"family": "logistic", "mu": 4, "trust": "two_collectors", "bounds": {"x": (0, 1)}}


@pytest.fixture
def rows() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    return pd.DataFrame({"x": rng.random(2000), "ill": rng.choice(["yes", "no"], 2000)})


def test_a_type_that_holds_no_numbers_is_refused_before_anything_is_spent(rows, tmp_path) -> None:
    pa = pytest.importorskip("pyarrow")
    rows.to_parquet(tmp_path / "rows.parquet")
    table = pa.Table.from_pandas(rows)
    coded = table.set_column(1, "ill", table["ill"].dictionary_encode())
    for data in (table, coded, tmp_path / "rows.parquet", rows.assign(ill=rows["ill"].astype("category"))):
        with pytest.raises(SchemaError, match=r"levels=\{'ill': \[\.\.\.\]\}"):
            pr.PrivateOnlineRegression.from_formula("ill ~ x", data, **HOW)
    declared = pr.PrivateOnlineRegression.from_formula("ill ~ x", table, levels={"ill": ["no", "yes"]}, **HOW)
    assert declared.fit(progress=False).nobs == 2000


@pytest.mark.thorough
def test_a_column_of_pandas_is_fitted_and_a_note_says_what_it_was_read_as(rows) -> None:
    """Whether a column is one of texts depends on each cell, so that a refusal would tell about one."""
    with pytest.warns(pr.errors.ReliabilityWarning):
        res = pr.PrivateOnlineRegression.from_formula("ill ~ x", rows, **HOW).fit(progress=False)
    assert "ill was read as 0 and 1" in " ".join(str(res.summary(details=True)).split())
    numbers = rows.assign(ill=(rows["ill"] == "yes").astype(int))
    right = pr.PrivateOnlineRegression.from_formula("ill ~ x", numbers, **HOW).fit(progress=False)
    assert "was read as" not in str(right.summary(details=True))
