"""Declarations that data carry in attrs: used where nothing is declared, named as the source, never learned."""

import json
import pickle

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import privreg as pr
from privreg.cli.app import main
from privreg.data.sources.open import completed
from privreg.errors import DataError, PrivacyLeakWarning, SchemaError
from privreg.schema.declarations import Schema
from tests.results.test_summary import flat

N = 3_000
FORMULA = "y ~ a + g"
CARRIED = {"bounds": {"a": [-1, 1], "y": [-5, 5], "other": [0, 1]}, "levels": {"g": ["u", "v"], "unused": ["0", "1"]}}
GIVEN = {"bounds": {"a": (-1, 1), "y": (-5, 5)}, "levels": {"g": ["u", "v"]}}
SOURCE = ("Public: declarations", "carried by the data, attrs['privreg']")


def rows(n=N, seed=0, carried=CARRIED):
    rng = np.random.default_rng(seed)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, n), "g": rng.choice(["u", "v"], n)})
    data = data.assign(y=data["a"] + rng.normal(0, 0.3, n), z=(data["a"] > 0).astype(float))
    if carried is not None:
        data.attrs["privreg"] = carried
    return data


def fit(data, formula=FORMULA, **more):
    how = {} if "trust" in more else {"order": "position"}
    return pr.PrivateOnlineRegression.from_formula(formula, data, mu=2, **more).fit(seed=1, progress=False, **how)


def sourced(res):
    return [row for row in res.privacy.rows() if row[0] == SOURCE[0]]


# --- the shipped data --------------------------------------------------------------------------------------

SHIPPED = {
    "us_insurance": (lambda: pr.datasets.us_insurance(200), pr.datasets.us_insurance_schema()),
    "us_insurance in integers": (
        lambda: pr.datasets.us_insurance(200, coding="integers"),
        pr.datasets.us_insurance_schema("integers"),
    ),
    "ride_sharing": (lambda: pr.datasets.ride_sharing(200), pr.datasets.ride_sharing_schema()),
    "randhie": (pr.datasets.randhie, pr.datasets.randhie_schema()),
}


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_data_carry_their_public_schema_as_plain_json(name):
    make, public = SHIPPED[name]
    data = make()
    carried = data.attrs["privreg"]
    assert json.loads(json.dumps(carried)) == carried
    want = Schema.declare(**public)
    got = completed(Schema(), data, data.columns)
    assert (got.bounds, got.levels) == (want.bounds, want.levels)
    assert set(got.carried) == set(data.columns)


@pytest.mark.thorough
def test_the_readmes_first_call_needs_no_declarations():
    people = pr.datasets.us_insurance(20_000)
    formula = "charges ~ age + bmi + smoker"
    res = pr.PrivateOnlineRegression.from_formula(formula, people, family=pr.Huber(), mu=1).fit(seed=1, progress=False)
    declared = {
        "bounds": {"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)},
        "levels": {"smoker": ["no", "yes"]},
    }
    same = pr.PrivateOnlineRegression.from_formula(formula, people, mu=1, **declared).fit(seed=1, progress=False)
    np.testing.assert_array_equal(res.params, same.params)
    np.testing.assert_array_equal(res.bse, same.bse)
    assert sourced(res) == [SOURCE]
    assert sourced(same) == []
    for text in (
        str(res.summary(details=True)),
        res.summary(details=True).as_html(),
        res.summary(details=True).as_latex(),
    ):
        assert "carried by the data" in flat(text)


# --- what is used, and what goes before it -----------------------------------------------------------------


@pytest.mark.thorough
def test_a_declaration_given_beside_wins_column_by_column():
    data = rows()
    for more in ({"bounds": {"a": (-2, 2)}}, {"schema": Schema.declare({"a": (-2, 2)})}):
        model = pr.PrivateOnlineRegression.from_formula(FORMULA, data, mu=2, **more)
        assert model.schema.bounds == {"a": (-2, 2), "y": (-5, 5)}
        assert model.schema.carried == ("y", "g")
        res = model.fit(seed=1, progress=False)
        assert sourced(res) == [(SOURCE[0], f"of y, g: {SOURCE[1]}")]
    # moments alone say that a column is not clamped, and so it isn't
    model = pr.PrivateOnlineRegression.from_formula(FORMULA, data, mu=2, moments={"a": (0, 0.6)})
    assert "a" not in model.schema.bounds
    # a factor by the one and a number by the other
    model = pr.PrivateOnlineRegression.from_formula("y ~ C(a)", data, mu=2, levels={"a": [0, 1]})
    assert model.schema.levels == {"a": (0, 1)}
    model = pr.PrivateOnlineRegression.from_formula("y ~ g", data, mu=2, bounds={"g": (0, 1)})
    assert model.schema.bounds["g"] == (0, 1)


def test_everything_declared_looks_at_no_attrs():
    model = pr.PrivateOnlineRegression.from_formula(FORMULA, rows(carried="nonsense"), mu=2, **GIVEN)
    assert model.schema.carried == ()


@pytest.mark.thorough
def test_options_that_say_where_scales_come_from_go_before():
    bare, carrying = rows(carried=None), rows()
    levels = {"levels": GIVEN["levels"]}
    private = fit(carrying, scaling="private")
    np.testing.assert_array_equal(private.params, fit(bare, scaling="private", **levels).params)
    assert sourced(private) == [(SOURCE[0], f"of g: {SOURCE[1]}")]
    with pytest.warns(PrivacyLeakWarning):
        leaky = fit(carrying, allow_leak=("levels", "scale"))
    with pytest.warns(PrivacyLeakWarning):
        same = fit(bare, allow_leak=("levels", "scale"))
    np.testing.assert_array_equal(leaky.params, same.params)
    assert sourced(leaky) == []
    with pytest.warns(PrivacyLeakWarning):
        assert sourced(fit(carrying, allow_leak="scale")) == [(SOURCE[0], f"of g: {SOURCE[1]}")]


def test_a_family_of_counts_goes_before():
    data = pr.datasets.randhie()
    model = pr.PrivateOnlineRegression.from_formula("mdvis ~ idp", data, family=pr.Poisson(y_max=20), mu=2)
    assert model.schema.bounds["mdvis"] == (0, 20)


def test_moments_and_correlations_are_carried():
    data = rows(carried=None)
    data["b"] = data["a"] ** 2
    free = {"moments": {"a": [0, 0.6], "b": [0.3, 0.3]}, "correlations": [["b", "a", 0.25], ["a", "a2", 0.1]]}
    data.attrs["privreg"] = {"bounds": {"y": [-5, 5]}, **free, "moments": {**free["moments"], "a2": [0, 1]}}
    model = pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, mu=2)
    assert model.schema.correlations == {("a", "b"): 0.25}
    assert model.schema.moments == {"a": (0, 0.6), "b": (0.3, 0.3)}


def test_a_whole_schema_of_json_may_be_carried():
    whole = Schema.declare(**GIVEN).to_json()
    assert completed(Schema(), rows(carried=whole), ["a", "g"]).carried == ("a", "g")
    leaked = {**whole, "leaked": ["levels"], "leaked_columns": ["g"]}
    with pytest.raises(SchemaError, match=r"attrs\['privreg'\] of the data: there is no key 'leaked'"):
        completed(Schema(), rows(carried=leaked), ["a"])


@pytest.mark.parametrize(
    ("carried", "piece"),
    [
        ("nonsense", "it holds a str"),
        (None, "it holds a NoneType"),
        ({"bound": {}}, "Did you mean 'bounds'?"),
        ({"bounds": {"a": [1, 0]}}, "bounds['a'] = (1, 0) is empty"),
        ({"bounds": {"a": 3}}, "bounds['a'] is a int"),
        ({"bounds": ["a"]}, "bounds must be a mapping"),
        ({"levels": {"g": "uv"}}, "levels['g'] must be a list"),
        ({"levels": {"g": ["u", "u"]}}, "names a level twice"),
        ({"bounds": {"g": [0, 1]}, "levels": {"g": ["u", "v"]}}, "keep one"),
        ({"moments": {"a": [0, -1]}}, "sd > 0"),
    ],
)
def test_malformed_declarations_are_refused_by_name(carried, piece):
    data = rows(carried=None)
    data.attrs["privreg"] = carried
    with pytest.raises(SchemaError) as caught:
        fit(data)
    assert piece in str(caught.value)
    assert "attrs['privreg'] of the data" in str(caught.value)
    assert caught.value.__context__ is None


def test_what_nobody_declared_is_told_as_before():
    with pytest.raises(SchemaError, match="column 'z' is not declared"):
        fit(rows(), "y ~ a + z")
    with pytest.raises(SchemaError, match="column 'y' is not declared"):
        fit(rows(carried=None))


def test_nothing_is_learned_into_attrs():
    data = rows()
    before = json.dumps(data.attrs)
    with pytest.warns(PrivacyLeakWarning):
        fit(data, allow_leak=("levels", "scale"))
    fit(data)
    assert json.dumps(data.attrs) == before
    bare = rows(carried=None)
    fit(bare, **GIVEN)
    assert bare.attrs == {}


SLICES = {
    "head": lambda d: d.head(2000),
    "sample": lambda d: d.sample(frac=1, random_state=1),
    "query": lambda d: d.query("a > -0.9"),
    "columns": lambda d: d[["y", "a", "g"]],
    "copy": lambda d: d.copy(),
    "assign": lambda d: d.assign(extra=1),
    "pickle": lambda d: pickle.loads(pickle.dumps(d)),
    "concat": lambda d: pd.concat([d.head(1500), d.tail(1500)]),
    "merge": lambda d: d.merge(d[["a"]], on="a"),
}


@pytest.mark.thorough
@pytest.mark.parametrize("how", SLICES)
def test_pandas_keeps_them(how):
    assert sourced(fit(SLICES[how](rows()))) == [SOURCE]


# --- where they are read from ------------------------------------------------------------------------------


def parquet(tmp_path):
    rows().to_parquet(tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def folder(tmp_path):
    (tmp_path / "parts").mkdir()
    rows(N, 0).iloc[:1000].to_parquet(tmp_path / "parts" / "part-1.parquet")
    rows(N, 0, None).iloc[1000:].to_parquet(tmp_path / "parts" / "part-2.parquet")  # carries nothing
    return tmp_path / "parts"


def feather(tmp_path):
    pyarrow.feather.write_feather(rows(), tmp_path / "rows.feather")
    return pyarrow.dataset.dataset(tmp_path / "rows.feather", format="feather")


SOURCES = {
    "Parquet": parquet,
    "Parquet as text": lambda tmp: str(parquet(tmp)),
    "list of files": lambda tmp: [parquet(tmp)],
    "folder": folder,
    "Feather": feather,
    "read again": lambda tmp: pd.read_parquet(parquet(tmp)),
    "Arrow": lambda tmp: pa.Table.from_pandas(rows()),
    "Arrow from Parquet": lambda tmp: pq.read_table(parquet(tmp)),
    "Arrow dataset": lambda tmp: pyarrow.dataset.dataset(parquet(tmp)),
    "list of frames": lambda tmp: [rows().iloc[:1000], rows().iloc[1000:]],
}


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", SOURCES)
def test_every_source_that_keeps_attrs_is_read(kind, tmp_path):
    res = fit(SOURCES[kind](tmp_path), rows=N)
    assert sourced(res) == [SOURCE]
    np.testing.assert_array_equal(res.params, fit(rows()).params)


def test_dask_stands_for_its_files(tmp_path):
    dd = pytest.importorskip("dask.dataframe")
    frame = dd.read_parquet(parquet(tmp_path))
    assert completed(Schema(), frame, ["a", "g"]).carried == ("a", "g")


def test_what_carries_nothing_is_as_before(tmp_path):
    rows().to_csv(tmp_path / "rows.csv", index=False)
    columns = {name: values.to_numpy() for name, values in rows().items()}
    for data in (tmp_path / "rows.csv", columns, iter([rows()]), "select * from rows", "x" * 5000):
        with pytest.raises(SchemaError, match="'y' is not declared"):
            fit(data)
    with pytest.raises(SchemaError, match="'a' is not declared"):
        pr.PrivateOnlineRegression(rows()["y"], rows()[["a"]], mu=2)  # np.log(y) would keep its attrs, not its bounds


def test_files_that_are_no_files_are_told_as_such(tmp_path):
    with pytest.raises(DataError, match="there is no file"):
        fit(tmp_path / "none.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"SECRET")
    with pytest.raises(DataError, match="not a readable Parquet file") as caught:
        fit(tmp_path / "bad.parquet")
    assert "SECRET" not in str(caught.value)
    table = pa.Table.from_pandas(rows()).replace_schema_metadata({b"PANDAS_ATTRS": b"{SECRET"})
    pq.write_table(table, tmp_path / "odd.parquet")
    with pytest.raises(SchemaError, match=r"odd\.parquet: its attrs are not readable") as caught:
        fit(tmp_path / "odd.parquet")
    assert "SECRET" not in str(caught.value)
    rows(carried={"bounds": {"a": [1, 0]}}).to_parquet(tmp_path / "empty.parquet")
    with pytest.raises(SchemaError, match=r"attrs\['privreg'\] of empty\.parquet: bounds\['a'\]"):
        fit(tmp_path / "empty.parquet")


@pytest.mark.thorough
def test_those_that_carry_something_must_agree():
    other = rows(carried={**CARRIED, "bounds": {**CARRIED["bounds"], "a": [-2, 2]}})
    with pytest.raises(SchemaError, match=r"attrs\['privreg'\] of item 3 declares other .* than that of item 1"):
        fit([rows(), rows(carried=None), other])
    # columns that the model doesn't need, and those that are declared beside, may differ
    unused = rows(carried={**CARRIED, "bounds": {**CARRIED["bounds"], "other": [5, 6]}})
    assert sourced(fit([rows(), unused])) == [SOURCE]
    assert sourced(fit([rows(), other], bounds={"a": (-1, 1)}))


# --- other front doors -------------------------------------------------------------------------------------


def test_means_use_them():
    res = pr.means.estimate(rows(), "a + C(g) ~ 1", mu=2, seed=1)
    assert sourced(res) == [SOURCE]
    same = pr.means.estimate(rows(carried=None), "a + C(g) ~ 1", mu=2, seed=1, **GIVEN)
    np.testing.assert_array_equal(res.params, same.params)
    assert sourced(same) == []
    assert sourced(pr.means.estimate(rows(), ["a"], mu=2, by="g")) == [SOURCE]
    with pytest.raises(SchemaError, match=r"C\(a\) needs public levels"):
        pr.means.estimate(rows(), "C(a) ~ 1", mu=2)


@pytest.mark.thorough
def test_a_trusted_curator_uses_them():
    res = fit(rows(), trust="central")
    assert sourced(res) == [SOURCE]
    np.testing.assert_array_equal(res.params, fit(rows(carried=None), trust="central", **GIVEN).params)
    model = pr.central.Regression.from_formula(FORMULA, rows(), mu=2)
    assert model.schema.carried == ("y", "a", "g")


def test_silos_must_agree():
    silos = [rows(50, seed) for seed in range(6)]
    options = {"mu": 5, "rounds": 2}
    model = pr.federated.FederatedRegression.from_formula("z ~ a + g", silos, **options)
    res = model.fit(seed=1, progress=False)
    assert SOURCE in res.privacy.rows()
    bare = [silo.copy() for silo in silos]
    for silo in bare:
        silo.attrs = {}
    given = {"bounds": {"a": (-1, 1)}, "levels": {"g": ["u", "v"]}}
    same = pr.federated.FederatedRegression.from_formula("z ~ a + g", bare, **given, **options)
    np.testing.assert_array_equal(res.params, same.fit(seed=1, progress=False).params)
    silos[3].attrs["privreg"] = {**CARRIED, "levels": {"g": ["v", "u"]}}
    with pytest.raises(SchemaError, match="item 4"):
        pr.federated.FederatedRegression.from_formula("z ~ a + g", silos, **options)


@pytest.mark.thorough
def test_a_plan_uses_those_of_its_covariates():
    public = rows(500)
    found = pr.plan(FORMULA, n=100_000, mu=1, scale=0.3, covariates=public)
    same = pr.plan(FORMULA, n=100_000, mu=1, scale=0.3, covariates=rows(500, carried=None), **GIVEN)
    pd.testing.assert_frame_equal(found.table(), same.table())


# --- saved and resumed -------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_source_is_kept_by_files_and_streams(tmp_path):
    res = fit(rows())
    res.save(tmp_path / "res.privreg")
    assert sourced(pr.load(tmp_path / "res.privreg")) == [SOURCE]
    model = pr.PrivateOnlineRegression.from_formula(FORMULA, rows(), mu=2, rows=N)
    stream = model.start(seed=1).update(rows().head(1500))
    stream.save(tmp_path / "stream.privreg")
    again = pr.load(tmp_path / "stream.privreg").update(rows().tail(1500))
    assert sourced(again.results()) == [SOURCE]
    assert "carried" not in Schema.declare(**GIVEN).to_json()


# --- the command line --------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_the_command_fits_its_own_parquet_file_without_declarations(tmp_path, capsys):
    path = str(tmp_path / "people.parquet")
    assert main(["data", "us-insurance", path, "--rows", "6000"]) == 0
    said = capsys.readouterr().out
    assert "carries its public bounds and levels" in said
    assert "--bounds" not in said
    carried = pd.read_parquet(path).attrs
    assert carried == pr.datasets.us_insurance(1).attrs
    assert main(["fit", "charges ~ age + bmi + smoker", path, "--mu", "1", "--details"]) == 0
    assert "carried by the data" in flat(capsys.readouterr().out)
    assert main(["means", "age + C(smoker) ~ 1", path, "--mu", "1", "--details"]) == 0
    assert "carried by the data" in flat(capsys.readouterr().out)
    path = str(tmp_path / "people.csv")
    assert main(["data", "us-insurance", path, "--rows", "100"]) == 0
    said = capsys.readouterr().out
    assert "carries" not in said
    assert "--bounds" in said


# --- truth values by Arrow's types -----------------------------------------------------------------------


def truths(n=400, missing=False):
    rng = np.random.default_rng(0)
    b = [None if missing and i == 7 else bool(v) for i, v in enumerate(rng.integers(0, 2, n))]
    return pa.table({"a": rng.uniform(-1, 1, n), "b": pa.array(b, pa.bool_()), "y": rng.uniform(-1, 1, n)})


def written(table, tmp_path):
    pq.write_table(table, tmp_path / "people.parquet")
    return tmp_path / "people.parquet"


ARROWS = {
    "table": lambda t, _: t,
    "batch": lambda t, _: t.to_batches()[0],
    "dataset": lambda t, _: pyarrow.dataset.dataset(t),
    "list": lambda t, _: [t, t.slice(0, 10)],
    "file": written,
}
DECLARED = {"bounds": {"a": (-1, 1), "y": (-1, 1)}}


def model_of(data, formula="y ~ a + b", **more):
    return pr.PrivateOnlineRegression.from_formula(formula, data, mu=2, **DECLARED, **more)


@pytest.mark.some(4)
@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("form", ARROWS)
def test_undeclared_truth_values_of_arrow_have_the_levels_false_and_true(form, missing, tmp_path):
    data = ARROWS[form](truths(missing=missing), tmp_path)
    assert model_of(data).exog_names == ["Intercept", "b[T.True]", "a"]
    own = model_of(data, levels={"b": [True, False]})
    assert own.exog_names == ["Intercept", "b[T.False]", "a"]  # the user's own declaration goes first


@pytest.mark.thorough
def test_a_fit_of_undeclared_truth_values_is_that_of_declared_ones():
    data = truths(4_000, missing=True)
    found = [
        model_of(data, **how).fit(seed=1, progress=False, order="position").params.to_numpy()
        for how in ({}, {"levels": {"b": [False, True]}})
    ]
    np.testing.assert_array_equal(*found)


def test_a_response_of_truth_values_stays_the_yes_or_no_that_it_was():
    assert model_of(truths(), "b ~ a", family="logistic")._spec.design.endog_levels is None


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("kind", [None, pd.ArrowDtype])
def test_truth_values_of_pandas_are_refused_in_the_same_words_whatever_is_missing(kind, missing):
    data = truths(missing=missing).to_pandas(types_mapper=kind)
    with pytest.raises(SchemaError, match=r"column 'b' is not declared .*levels=\{'b': \[...\]\}"):
        model_of(data)


def test_types_of_several_tables_must_all_say_so():
    other = truths()
    other = other.set_column(1, "b", other["b"].cast(pa.int8()))
    with pytest.raises(SchemaError, match="column 'b' is not declared"):
        model_of([truths(), other])
