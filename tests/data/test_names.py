"""Names that are one name to Python, which reads them in the normal form NFKC, find their column."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import privreg as pr
from privreg.errors import DataError
from privreg.federated import FederatedRegression
from privreg.formula.language.spelling import as_labelled

PAIRS = {
    "micro and Greek": ("\u00b5x", "\u03bcx"),
    "ligature": ("\ufb01t", "fit"),
    "accents": ("\u00e9", "e\u0301"),
    "units": ("\u00c5", "\u212b"),
}
SPELLINGS = [(pair[i], pair[j], pair[k]) for pair in PAIRS.values() for i in (0, 1) for j in (0, 1) for k in (0, 1)]


def rows(column, n=300):
    x = np.random.default_rng(0).uniform(-1, 1, n)
    return pd.DataFrame({column: x, "y": x, "b": (x > 0) * 1.0})


def model(data, name, key, formula="y ~ {} + I({}**2)", **more):
    given = {"mu": None, "bounds": {key: (-1, 1), "y": (-1, 1)}, **more}
    return pr.PrivateOnlineRegression.from_formula(formula.format(name, name), data, **given)


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "column", "key"), SPELLINGS)
def test_formula_data_and_declarations_may_spell_a_name_differently(name, column, key, tmp_path):
    data = rows(column)
    data.to_csv(tmp_path / "rows.csv", index=False)
    data.to_parquet(tmp_path / "rows.parquet")
    tables = (data, dict(data), pl.from_pandas(data), pa.Table.from_pandas(data))
    names = [model(table, name, key).exog_names for table in tables]
    names += [model(tmp_path / f"rows.{kind}", name, key).exog_names for kind in ("csv", "parquet")]
    names.append(model(data, name, key, trust="central").exog_names)
    names.append(
        FederatedRegression.from_formula(
            f"b ~ {name} + I({name}**2)", [data, data + 0], mu=1, bounds={key: (-1, 1)}
        ).exog_names
    )
    assert names == [names[0]] * len(names)
    means = pr.means.PrivateMeans.from_formula(f"{name} ~ 1", data, mu=1, bounds={key: (-1, 1)})
    assert means.schema.bounds == {column: (-1, 1)}


@pytest.mark.some(1)
@pytest.mark.parametrize(("name", "column"), PAIRS.values())
def test_predictions_find_it_under_any_spelling(name, column):
    res = model(rows(column), name, name).fit(progress=False)
    for new in ({name: [0.5]}, {column: [0.5]}, pd.DataFrame({name: [0.5]})):
        np.testing.assert_array_equal(res.predict(new), res.predict({column: [0.5]}))


@pytest.mark.parametrize(("one", "other"), PAIRS.values())
def test_columns_that_are_one_name_to_python_are_refused(one, other):
    data = rows(one).assign(**{other: 0.0})
    for name in (one, other):
        with pytest.raises(DataError, match="one name to Python"):
            model(data, name, name)
    with pytest.raises(DataError, match="declared twice"):
        model(rows(one), one, one, bounds={one: (-1, 1), other: (-1, 1), "y": (-1, 1)})
    model(data, "b", "b")  # which names neither


def test_texts_and_other_names_stay_as_they_are():
    labels = ["y", "\u00b5", "g", "n", 5]
    for text in (
        "y ~ n + C(g, Treatment('\u00b5'))",
        'y ~ I(g == "\u00b5") + Q("n")',
        "y ~ np.log(n):g",
        "y ~ x\u00b2",
    ):
        assert as_labelled(text, labels) == text
    assert as_labelled("y ~ Q('\u03bc')", labels) == "y ~ Q('\u00b5')"
    assert as_labelled({"\u03bc": 1, ("y", "n"): 2}, labels) == {"\u00b5": 1, ("y", "n"): 2}
    assert as_labelled(None, labels) is None
