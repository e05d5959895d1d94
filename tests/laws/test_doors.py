"""What users give in another form than was asked for: read where it is plain what is meant, else named, everywhere."""

import bz2
import datetime
import gzip
import io
import lzma
import zipfile
from decimal import Decimal
from fractions import Fraction
from functools import cache

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import privreg as pr
from privreg.cli.app import main
from privreg.errors import (
    DataError,
    FormulaError,
    NotPrivateError,
    PrivregWarning,
    SchemaError,
    UnsupportedArgumentError,
)

FIT = pr.PrivateOnlineRegression.from_formula
BOUNDS = {"x": (0, 10), "y": (-5, 12)}
LEVELS = {"g": ["a", "b"], "h": ["u", "v"], "k": [1, 2]}
TRUST = ("local", "two_collectors", "central")


def people(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.uniform(0, 10, n), **{c: rng.choice(v, n) for c, v in LEVELS.items()}})
    return out.assign(y=1 + 0.5 * out["x"] + 0.5 * (out["g"] == "b") * (out["h"] == "v") + rng.standard_normal(n))


@cache
def fitted(formula="y ~ x + g", trust="two_collectors"):
    return FIT(formula, people(), mu=4, bounds=BOUNDS, levels=LEVELS, trust=trust).fit(progress=False)


# --- files -----------------------------------------------------------------------------------------------


def text(sep=",", first=""):
    return (first + people(50).to_csv(index=False, sep=sep)).encode()


def zipped(data):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as file:
        file.writestr("people.csv", data)
    return out.getvalue()


def arrow(write):
    out = pa.BufferOutputStream()
    write(pa.Table.from_pandas(people(50)), out)
    return out.getvalue().to_pybytes()


WRONG = {
    "semicolons": (text(";"), r"pr.csv\(path, sep=';'\), and decimal=',' too if its numbers have decimal commas"),
    "comment": (text(first="# made by a tool\n"), "its first line begins with '#' or 'sep='"),
    "comment with commas": (text(first="# made by a tool, today\n"), "its first line begins with '#' or 'sep='"),
    "hint": (text(";", "sep=;\n"), "its first line begins with '#' or 'sep='"),
    "hint of commas": (text(first="SEP=,\n"), "its first line begins with '#' or 'sep='"),
    "gzip": (gzip.compress(text()), r"is no text, but compressed \(.csv.gz"),
    "bzip2": (bz2.compress(text()), r"is no text, but compressed \(.csv.gz"),
    "xz": (lzma.compress(text()), r"is no text, but compressed \(.csv.gz"),
    "zip": (zipped(text()), r"is no text, but compressed \(.csv.gz"),
    "parquet": (arrow(parquet.write_table), "of Parquet"),
    "feather": (arrow(lambda rows, out: feather.write_feather(rows, out, compression="uncompressed")), "or an Arrow"),
    "Latin-1": ("x,y,größe\n1,2,3\n".encode("latin-1"), "Latin-1 or UTF-16"),
}


@pytest.mark.parametrize("name", WRONG)
def test_files_that_are_written_otherwise_say_how_at_every_door(name, tmp_path, capsys):
    data, said = WRONG[name]
    path = tmp_path / "people.csv"
    path.write_bytes(data)
    counted = {"local": {}, "two_collectors": {"rows": 50}, "central": {}}
    doors = [
        lambda t=t: FIT("y ~ x", path, mu=1, bounds=BOUNDS, trust=t, **counted[t]).fit(progress=False) for t in TRUST
    ]
    doors += [lambda t=t: pr.means.estimate(path, ["x", "y"], mu=1, bounds=BOUNDS, trust=t) for t in TRUST]
    doors += [lambda: fitted().estimand(path), lambda: fitted().evaluate(path)]
    for door in doors:
        with pytest.raises(DataError, match=said):
            door()
    for verb in (["fit", "y ~ x"], ["means", "x + y ~ 1"]):
        assert main([*verb, str(path), "--mu", "1", "--bounds", "x=0:10", "y=-5:12"]) == 2
    err = capsys.readouterr().err
    assert err.count("people.csv") == 2
    if name == "semicolons":
        assert "--sep" in err


def test_headers_that_begin_so_are_headers(tmp_path):
    """A column may be called #id, or PAR1."""
    people(500).rename(columns={"k": "PAR1", "h": "#h"}).to_csv(tmp_path / "p.csv", index=False)
    names = ["PAR1", "#h", "x", "y"]
    people(500).rename(columns={"k": "PAR1", "h": "#h"})[names].to_csv(tmp_path / "q.csv", index=False)
    for path in ("p.csv", "q.csv"):
        assert FIT("y ~ x", tmp_path / path, mu=1, bounds=BOUNDS, rows=500).fit(progress=False).nobs == 500


def test_means_of_dates_that_begin_with_the_day_are_those_of_iso_dates(tmp_path):
    days = pd.date_range("2024-01-01", "2024-12-30").repeat(3)
    iso = pd.DataFrame({"day": days, "x": np.linspace(0, 10, len(days))})
    german = iso.assign(day=iso["day"].dt.strftime("%d.%m.%Y"), x=iso["x"].map("{:.6f}".format).str.replace(".", ","))
    german.to_csv(tmp_path / "german.csv", sep=";", index=False)
    bounds = {"day": ("2024-01-01", "2024-12-31"), "x": (0, 10)}
    read = pr.csv(tmp_path / "german.csv", sep=";", decimal=",", dates="%d.%m.%Y")
    for trust in TRUST:
        one, two = (pr.means.estimate(d, ["day", "x"], mu=None, bounds=bounds, trust=trust) for d in (iso, read))
        np.testing.assert_allclose(one.params, two.params, rtol=1e-6)


@pytest.mark.parametrize("trust", TRUST)
@pytest.mark.filterwarnings("ignore::privreg.errors.PrivregWarning")
def test_marks_of_thousands_are_named_where_numbers_can_not_be_read(trust):
    data = people(3000).assign(x="1,234.5")
    found = pr.means.estimate(data, ["x"], mu=4, bounds={"x": (0, 10_000)}, trust=trust)
    assert "without marks of thousands" in " ".join(str(found.privacy).split())
    if trust != "central":
        fit = FIT("y ~ x", data, mu=4, bounds=BOUNDS | {"x": (0, 10_000)}, trust=trust).fit(progress=False)
        assert "without marks of thousands" in " ".join(str(fit.privacy).split())


# --- ids, declarations, rows -----------------------------------------------------------------------------


@pytest.mark.parametrize("trust", ["local", "two_collectors"])
@pytest.mark.parametrize("ids", [np.nan, 1.5, None])
def test_ids_that_can_not_be_read_are_named(trust, ids):
    model = {"mu": 1, "bounds": BOUNDS, "id": "who", "k_max": 2, "trust": trust}
    with pytest.raises(DataError, match=r"People are told apart by id='who', which holds texts or whole numbers"):
        FIT("y ~ x", people().assign(who=ids), **model).fit(progress=False)


PAIRS = {
    "list": [0, 10],
    "Decimal": (Decimal(0), Decimal("10.0")),
    "Fraction": (Fraction(0), Fraction(20, 2)),
    "Series": pd.Series([0, 10], index=["low", "high"]),
    "Series of Decimals": pd.Series([Decimal(0), Decimal(10)]),
    "array": np.array([0.0, 10.0]),
    "Index": pd.Index([0, 10]),
    "scalars of NumPy": (np.float32(0), np.int8(10)),
}


@pytest.mark.parametrize("name", PAIRS)
def test_bounds_and_moments_are_two_numbers_of_any_kind(name):
    assert pr.Schema.declare(bounds={"x": PAIRS[name]}).bounds["x"] == (0.0, 10.0)
    assert pr.Schema.declare(moments={"x": PAIRS[name]}).moments["x"] == (0.0, 10.0)
    assert FIT("y ~ x", None, mu=1, bounds={"x": PAIRS[name], "y": (-5, 12)}) is not None
    assert pr.plan("y ~ x", n=10**5, mu=1, bounds={"x": PAIRS[name], "y": (-5, 12)}).n == 10**5


@pytest.mark.parametrize(
    "wrong",
    [pd.Series([0, 10, 1]), pd.Series(["a", "b"]), np.eye(2), {0, 10}, (Decimal("sNaN"), 1), (Decimal("NaN"), 1), "01"],
)
def test_what_is_no_pair_is_refused(wrong):
    with pytest.raises(SchemaError, match=r"bounds\['x'\]"):
        pr.Schema.declare(bounds={"x": wrong})


ROWS = {
    "scalar": {"x": [1.0, 2.0, 4.0], "g": "a"},
    "scalar first": {"g": "a", "x": np.array([1.0, 2.0, 4.0])},
    "scalar of NumPy": {"x": [1.0, 2.0, 4.0], "g": np.str_("a")},
    "Arrow": pa.table({"x": [9.0, 1.0, 2.0, 4.0, 8.0], "g": ["b", "a", "a", "a", "b"]}).slice(1, 3),
    "batch of Arrow": pa.table({"x": [9.0, 1.0, 2.0, 4.0], "g": list("baaa")}).to_batches()[0].slice(1, 3),
    "categories of Arrow": pa.table(
        {"x": [9.0, 1.0, 2.0, 4.0], "g": pa.array(list("baaa")).dictionary_encode()}
    ).slice(1, 3),
}  # fmt: skip


@pytest.mark.parametrize("name", ROWS)
def test_new_rows_may_repeat_a_value_and_be_of_arrow(name):
    res, plain = fitted(), pd.DataFrame({"x": [1.0, 2.0, 4.0], "g": list("aaa")})
    np.testing.assert_array_equal(res.predict(ROWS[name]), res.predict(plain))
    one, two = (res.get_prediction(rows).summary_frame() for rows in (ROWS[name], plain))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", [list, tuple, iter])
def test_rows_one_by_one_are_called_so(kind):
    """Nothing tells whether such rows were fitted."""
    data = people(50).to_dict("records")
    counted = {"local": {}, "two_collectors": {"rows": 50}, "central": {}}
    doors = [
        lambda t=t: FIT("y ~ x", kind(data), mu=1, bounds=BOUNDS, trust=t, **counted[t]).fit(progress=False)
        for t in TRUST
    ]
    doors += [lambda t=t: pr.means.estimate(kind(data), ["x"], mu=1, bounds=BOUNDS, trust=t) for t in TRUST]
    doors += [lambda: fitted().estimand(kind(data)), lambda: fitted().evaluate(kind(data))]
    for door in doors:
        with pytest.raises((DataError, NotPrivateError), match=r"a dict of single values is one row|pd\.DataFrame"):
            door()
    with pytest.raises(DataError, match=r"a dict of single values is one row\. .*pd\.DataFrame"):
        doors[0]()
    for call in (fitted().predict, FIT("y ~ x", None, mu=1, bounds=BOUNDS, rows=10**5).start().update):
        with pytest.raises((DataError, UnsupportedArgumentError, NotPrivateError), match=r"pd\.DataFrame"):
            call(kind(data))


@pytest.mark.parametrize("rows", [{"x": [1, 2, 3], "g": ["a", "b"]}, {"x": [1, 2], "g": ["a"]}])
def test_columns_of_unlike_length_are_refused(rows):
    with pytest.raises(DataError, match="differ in length"):
        fitted().predict(rows)


@pytest.mark.parametrize(
    "value", [np.datetime64("2024-02-01"), np.float64(3.0), np.int8(3), pd.Timestamp("2024-02-01")]
)
def test_a_single_value_of_any_kind_is_no_table_that_was_fitted(value):
    data = people().assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(3000) % 300, "D"))
    days = {"day": ("2024-01-01", "2024-12-31")}
    res = FIT("y ~ x + day", data, mu=4, bounds=BOUNDS | days, trust="two_collectors").fit(progress=False)
    dated = isinstance(value, np.datetime64 | pd.Timestamp)
    rows = {"x": [1.0, 2.0], "day": value} if dated else {"x": value, "day": ["2024-02-01"]}
    assert np.isfinite(res.predict(rows)).all()


@pytest.mark.parametrize("kind", ["whole", "slice", "chunks", "nulls elsewhere"])
def test_estimands_of_arrow_tables_and_their_slices_are_those_of_frames(kind):
    rows = people(400, seed=9)
    before = pd.concat([people(50, seed=8), rows, people(50, seed=7)], ignore_index=True)
    table = {
        "whole": lambda: pa.Table.from_pandas(rows),
        "slice": lambda: pa.Table.from_pandas(before).slice(50, 400),
        "chunks": lambda: pa.concat_tables(
            [pa.Table.from_pandas(rows[:150]), pa.Table.from_pandas(before).slice(200, 250)]
        ),
        "nulls elsewhere": lambda: pa.Table.from_pandas(before.where(pd.Series(before.index != 3))).slice(50, 400),
    }[kind]()
    np.testing.assert_allclose(fitted().estimand(table), fitted().estimand(rows), atol=1e-9)


# --- dates -----------------------------------------------------------------------------------------------

DAYS = ["2024-01-01", "2024-02-01"]
AS = {
    "text": DAYS,
    "timestamps": list(pd.to_datetime(DAYS)),
    "column of times": pd.Series(pd.to_datetime(DAYS)),
    "dates": [datetime.date(2024, 1, 1), datetime.date(2024, 2, 1)],
    "times of NumPy": np.array(DAYS, dtype="datetime64[s]"),
    "categories": pd.Categorical(pd.to_datetime(DAYS)),
}


@pytest.mark.some
@pytest.mark.parametrize("kind", AS)
@pytest.mark.parametrize("trust", TRUST)
def test_levels_that_are_dates_are_found_however_a_column_holds_them(kind, trust):
    data = people().assign(day=np.resize(DAYS, 3000))
    data["y"] += 2.0 * (data["day"] == DAYS[1])
    held = data.assign(day=pd.Series(AS[kind]).take(np.resize([0, 1], 3000)).to_numpy())
    given = {"mu": None, "bounds": BOUNDS, "levels": {"day": DAYS}, "trust": trust}
    fits = [FIT("y ~ day + x", d, **given).fit(seed=1, progress=False) for d in (data, held)]
    np.testing.assert_array_equal(fits[0].params, fits[1].params)
    new = {"x": [1.0, 1.0], "day": AS[kind]}
    np.testing.assert_array_equal(fits[0].predict(new), fits[0].predict({"x": [1.0, 1.0], "day": DAYS}))
    shares = [pr.means.estimate(d, "C(day) ~ 1", mu=None, levels={"day": DAYS}, trust=trust) for d in (data, held)]
    np.testing.assert_array_equal(shares[0].params, shares[1].params)


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ({"x": ["2024-01-01"], "g": ["a"], "day": ["2024-03-01"]}, "x: not a number"),
        ({"x": [1], "g": ["c"], "day": ["2024-03-01"]}, "g: not a declared level"),
        ({"x": [1], "g": ["a"], "day": ["01.03.2024"]}, "day: not a date such as 2020-12-31"),
        ({"x": ["?"], "g": ["c"], "day": ["?"]}, "declared level"),
    ],
)
def test_new_values_that_can_not_be_read_are_called_what_they_are_not(rows, said):
    data = people().assign(day=pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(3000) % 300, "D"))
    bounds = BOUNDS | {"day": ("2024-01-01", "2024-12-31")}
    res = FIT("y ~ x + g + day", data, mu=4, bounds=bounds, levels=LEVELS, trust="two_collectors").fit(progress=False)
    with pytest.warns(PrivregWarning, match=said):
        assert np.isnan(res.predict(rows)).all()


# --- questions to results --------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["t_test", "wald_test"])
def test_a_restriction_on_a_term_of_several_levels_names_their_coefficients(method):
    data = people().assign(c=np.resize(list("uvw"), 3000))
    res = FIT("c ~ x", data, mu=4, bounds=BOUNDS, levels={"c": list("uvw")}, family="multinomial").fit(progress=False)
    with pytest.raises(FormulaError, match="Coefficients of this fit are v:Intercept, v:x, w:Intercept, w:x"):
        getattr(res, method)("x = 0")


IV = ["y ~ 1 | x ~ k", "y ~ x | g | x ~ k", "y ~ 1 + [x ~ k]", "y ~ x | g ~ h + k"]


@pytest.mark.parametrize("formula", IV)
def test_instruments_are_said_not_to_be_supported(formula, tmp_path, capsys):
    given = {"mu": 1, "bounds": BOUNDS, "levels": LEVELS}
    doors = [lambda t=t: FIT(formula, people(), **given, trust=t) for t in TRUST]
    doors += [lambda t=t: FIT(formula, people(), **given, trust=t, k_max=3, id="h") for t in TRUST[:2]]
    doors += [lambda k=k: pr.plan(formula, n=1000, **given, k_max=k) for k in (None, 3)]
    for door in doors:
        with pytest.raises(FormulaError, match=r"instruments.* not supported"):
            door()
    people(50).to_csv(tmp_path / "p.csv", index=False)
    assert main(["fit", formula, str(tmp_path / "p.csv"), "--mu", "1", "--bounds", "x=0:10", "y=-5:12"]) == 2
    assert "not supported" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["vcov", "cov_type", "cov_kwds", "clusters", "vcov_cluster", "groups"])
def test_who_asks_for_clusters_as_elsewhere_is_told_of_cluster(name):
    model = FIT("y ~ x", people(), mu=1, bounds=BOUNDS)
    for door in (model.fit, lambda **kw: FIT("y ~ x", people(), mu=1, bounds=BOUNDS, **kw)):
        with pytest.raises(UnsupportedArgumentError, match=r"cluster='school', levels=\{'school'"):
            door(**{name: "cluster"})


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("y ~ C(k) + x", "y ~ k + x", ["C(k)[T.2]"]),
        ("y ~ k + x", "y ~ C(k) + x", ["k[T.2]"]),
        ("y ~ C(g)*h", "y ~ g*C(h)", ["C(g)[T.b]", "h[T.v]", "C(g)[T.b]:h[T.v]"]),
        ("y ~ C(g):x", "y ~ g:x", ["C(g)[a]:x", "C(g)[b]:x"]),
    ],
)
def test_a_factor_has_one_row_however_it_is_written(one, two, same):
    a, b = fitted(one), fitted(two)
    frame = pr.compare(a, b).frame()
    assert set(same) <= set(frame.index)
    assert len(frame) == len(a.params) == len(b.params)
    assert frame.notna().all(axis=None)
    np.testing.assert_array_equal(frame["(1)", "estimate"].to_numpy(), a.params.to_numpy())
    assert sorted(frame["(2)", "estimate"]) == sorted(b.params)
    assert str(pr.compare(a, b)).count(same[0].partition("[")[0] + "[") >= 1


def test_fits_that_are_pooled_or_nested_know_a_factor_however_it_is_written():
    given = {"mu": 4, "bounds": BOUNDS, "levels": LEVELS, "trust": "two_collectors"}
    fits = [
        FIT(f, people(seed=s), **given).fit(progress=False)
        for s, f in enumerate(["y ~ C(k) + x", "y ~ k + x", "y ~ C(k) + x"])
    ]
    for asked in ("k[T.2]", "C(k)[T.2]", "k"):
        assert "C(k)[T.2]" in str(pr.meta_analysis(fits, terms=asked))
        assert "C(k)[T.2]" in str(pr.shrink(fits, terms=asked))
    large = fitted("y ~ k + x + g")
    assert pr.anova(fitted("y ~ C(k) + x"), large).pvalue == pr.anova(fitted("y ~ k + x"), large).pvalue
