"""Dates as bounds: columns of dates are read as days since 1970-01-01, from every source, each cell by itself."""

import datetime
import re
import sqlite3
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.cli.values import pairs
from privreg.data.cells import read_numbers
from privreg.data.inspect import described, mismatches, template
from privreg.errors import DataError, PrivregWarning, SchemaError
from privreg.schema.declarations import day_of, days_of_times, iso
from privreg_field.study.declaring.plan import _column

DATES, DAYS = ("2020-01-01", "2020-12-31"), (18_262, 18_627)
N = 3_000


def read_days(raw):
    return read_numbers(raw, dates=True)


def rows():
    """Days as numbers with some that are missing or beyond the bounds, the same as times, and as texts."""
    rng = np.random.default_rng(3)
    days = rng.integers(*DAYS, N).astype(float)
    days[::50], days[3], days[4] = np.nan, 40_000, -7_000
    y = 1 + 0.01 * (np.nan_to_num(days, nan=18_400) - 18_262) + rng.normal(size=N)
    numbers = pd.DataFrame({"day": days, "y": y})
    times = numbers.assign(day=pd.to_datetime(days, unit="D"))
    texts = times.assign(day=times["day"].dt.strftime("%Y-%m-%d"))
    texts.loc[7, "day"], times.loc[7, "day"], numbers.loc[7, "day"] = "soon", pd.NaT, np.nan
    return numbers, times, texts


def model(data, days=DATES, formula="y ~ day", **more):
    bounds = {"day": days, "y": (-5, 12)}
    return pr.PrivateOnlineRegression.from_formula(formula, data, family="huber", mu=1, bounds=bounds, **more)


def fitted(data, days=DATES, **more):
    return model(data, days, **more).fit(seed=1, tuning="published", progress=False).params.tolist()


@pytest.mark.parametrize(
    "of", [str, np.datetime64, pd.Timestamp, datetime.date.fromisoformat, datetime.datetime.fromisoformat]
)
def test_dates_of_every_library_are_bounds(of):
    schema = pr.Schema.declare(bounds={"day": tuple(map(of, DATES)), "x": (0, 1)})
    assert schema.bounds == {"day": DAYS, "x": (0, 1)}
    assert schema.dates == ("day",)
    assert pr.Schema.from_json(schema.to_json()) == schema


@pytest.mark.parametrize(
    ("bounds", "said"),
    [
        (("2020-01-01", 3), "two that exist"),
        (("2020-01-01", "2020-02-30"), "two that exist"),
        ((np.datetime64("2020-01-01"), np.datetime64("NaT", "D")), "two that exist"),
        (("2020-02-01", "2020-01-01"), r"\(2020-02-01, 2020-01-01\) is empty"),
        (("soon", "later"), "must be a pair of numbers"),
    ],
)
def test_dates_that_are_no_bounds(bounds, said):
    with pytest.raises(SchemaError, match=said):
        pr.Schema.declare(bounds={"day": bounds})


def test_moments_of_dates_are_days():
    with pytest.raises(SchemaError, match="count days since 1970-01-01"):
        pr.Schema.declare(moments={"day": (np.datetime64("2020-06-01"), 100)})
    assert pr.Schema.declare({"day": DATES}, moments={"day": (18_400, 100)}).dates == ("day",)


def test_numbers_of_dates_are_those_of_r():
    assert [day_of(t) for t in ("1970-01-01", "2020-01-01", "1969-12-31", "2020-01-01T12:00")] == [
        0,
        18262,
        -1,
        18262.5,
    ]
    assert day_of("2020-01-01 00:00:00+02:00") == day_of("2019-12-31T22:00Z")
    assert [day_of(v) for v in ("20200101", "2020-13-01", "yesterday", None, 3, pd.NaT)] == [None] * 6
    assert [iso(v) for v in (0.0, 18262.5, 1e9)] == ["1970-01-01", "2020-01-01T12:00:00", "1e+09"]


@pytest.mark.parametrize("unit", ["D", "h", "m", "s", "ms", "us", "ns", "M", "Y", "W", "2D"])
def test_every_unit_of_numpy(unit):
    days = np.array(["2020-01-01", "NaT", "1969-12-25"], dtype=f"datetime64[{unit}]")
    want = days.astype("datetime64[D]").astype(float)
    np.testing.assert_array_equal(read_days(days), np.where(np.isnat(days), np.nan, want))


def test_sparse_columns_are_read_as_dense_ones():
    numbers, times, _ = rows()
    sparse = times.assign(day=pd.arrays.SparseArray(times["day"]))
    assert fitted(sparse) == fitted(times) == fitted(numbers, DAYS)
    assert np.isnan(read_numbers(sparse["day"])).all()


def test_a_date_is_read_from_each_cell_alone():
    cells = ["2020-01-01", b"2020-01-01", datetime.date(2020, 1, 1), pd.Timestamp("2020-01-01"), 18_262, "18262"]
    cells += [np.datetime64("2020-01-01"), " 2020-01-01 ", "2020-01-01T00:00:00Z"]
    bad = ["2020-02-30", "soon", "", None, pd.NaT, np.nan, np.inf, "inf", datetime.time(3), [1], "\ud800"]
    held = np.fromiter([*cells, *bad], dtype=object, count=len(cells) + len(bad))
    want = [18_262.0] * len(cells) + [np.nan] * len(bad)
    np.testing.assert_array_equal(read_days(held), want)
    for k, number in enumerate(want):
        np.testing.assert_array_equal(read_days(held[k : k + 1]), [number])
    np.testing.assert_array_equal(read_days(pd.Series(["2020-01-01", None], dtype="category")), [18_262, np.nan])


def test_frames_mappings_and_streams():
    numbers, times, texts = rows()
    want = fitted(numbers, DAYS)
    zoned = times.assign(day=times["day"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    dates = times.assign(day=times["day"].dt.date.astype(object))
    mapping = {"day": times["day"].to_numpy().astype("datetime64[D]"), "y": times["y"].to_numpy()}
    for data in (times, texts, zoned, dates, mapping, numbers):
        assert fitted(data) == want
    parts = [times[:1_000], texts[1_000:]]
    assert fitted(parts, rows=N) == want


@pytest.mark.thorough
def test_files_and_queries(tmp_path):
    numbers, times, texts = rows()
    quoted = texts.assign(day='"' + texts["day"].fillna("") + '"')
    want = fitted(numbers, DAYS)
    for name, data in {"times": times, "texts": texts}.items():
        data.to_csv(tmp_path / f"{name}.csv", index=False)
        data.to_parquet(tmp_path / f"{name}.parquet")
        assert fitted(str(tmp_path / f"{name}.csv"), rows=N) == want
        assert fitted(str(tmp_path / f"{name}.parquet")) == want
    quoted.to_csv(tmp_path / "quoted.csv", index=False, quoting=3)
    assert fitted(str(tmp_path / "quoted.csv"), rows=N) == want
    connection = sqlite3.connect(":memory:")
    texts.to_sql("people", connection, index=False)
    assert fitted(pr.sql("SELECT * FROM people", connection), rows=N) == want
    connection.close()


@pytest.mark.thorough
def test_arrow_types():
    pa = pytest.importorskip("pyarrow")
    numbers, times, _ = rows()
    want, table = fitted(numbers, DAYS), pa.Table.from_pandas(times)
    types = [pa.date32(), pa.date64(), pa.timestamp("s"), pa.timestamp("ns", "Europe/Berlin")]
    for type_ in types:
        assert fitted(table.set_column(0, "day", table["day"].cast(type_))) == want
    polars = pytest.importorskip("polars")
    assert fitted(polars.from_arrow(table)) == want
    hours = pa.array([datetime.time(3), None], pa.time64("us"))  # of no day
    assert np.isnan(read_days(hours.to_pandas())).all()


def test_files_of_dates_under_bounds_of_numbers_are_refused_by_their_type(tmp_path):
    _, times, _ = rows()
    times.to_parquet(tmp_path / "times.parquet")
    arrow = pytest.importorskip("pyarrow").Table.from_pandas(times)
    for data in (arrow, str(tmp_path / "times.parquet")):
        with pytest.raises(DataError, match="'day' holds dates and is declared a number; give two dates as bounds="):
            model(data, DAYS).fit(progress=False)


def test_frames_of_dates_under_bounds_of_numbers_send_noise_and_say_why():
    """One cell that is no date makes objects of a frame's column: its type must not decide whether a fit fails."""
    times = pd.concat([rows()[1]] * 20, ignore_index=True)
    objects = times.astype({"day": object})
    objects.loc[5, "day"] = "x"
    for data in (times, {c: times[c].to_numpy() for c in times}, objects):
        res = model(data, DAYS).fit(progress=False)
        assert "dates have dates as bounds" in " ".join(str(res.summary()).split())


@pytest.mark.some(1)
@pytest.mark.parametrize("cell", [pd.NaT, pd.Timestamp("2300-01-01"), pd.Timestamp("1700-01-01")])
def test_no_date_makes_a_fit_fail(cell):
    _, times, _ = rows()
    times = times.astype({"day": "datetime64[s]"})  # of nanoseconds, as of pandas before 3, none lasts so long
    times.loc[5, "day"] = cell
    assert np.isfinite(fitted(times)).all()


def test_no_date_of_arrow_makes_a_fit_fail():
    """Of a year that Python has not: in a column that pandas holds as Arrow does, and in a dictionary of dates."""
    pa = pytest.importorskip("pyarrow")
    _, times, _ = rows()
    days = pa.array([18_300] * (len(times) - 1) + [4_000_000], pa.int32()).cast(pa.date32())
    frame = times.assign(day=pd.arrays.ArrowExtensionArray(days))
    table = pa.Table.from_pandas(times)
    for data in (frame, table.set_column(0, "day", days.dictionary_encode())):
        assert np.isfinite(fitted(data)).all()


def test_times_of_another_machine_and_days_beyond_the_calendar():
    assert days_of_times(np.array(["2020-01-01"], ">M8[s]")).tolist() == [18_262.0]
    for days in (("-0044-03-15", "2020-12-31"), ("2020-01-01", "20001-01-01")):
        with pytest.raises(SchemaError, match="years 1 to 9999"):
            model(rows()[1], tuple(map(np.datetime64, days)))


def test_a_message_for_the_holder_of_the_rows():
    with pytest.raises(DataError, match="'day' has a value that is missing or no date; write it as 2020-12-31"):
        model(rows()[1], missing="raise").fit(progress=False)


@pytest.mark.thorough
def test_the_summary_tells_the_unit():
    res = model(rows()[1]).fit(progress=False)
    said = "bounds 2020-01-01 to 2020-12-31; read as days since 1970-01-01, so coefficients are per day"
    assert dict(res.privacy.declared)["day"] == said
    assert "so coefficients are per day" in str(res.summary(details=True))
    res = model(rows()[1].assign(x=1.0), formula="day ~ y").fit(progress=False)
    assert "so coefficients are in days" in str(res.summary(details=True))


@pytest.mark.thorough
def test_public_rows_have_dates_too(tmp_path):
    _, times, _ = rows()
    res = model(times).fit(seed=1, progress=False)
    new = pd.DataFrame({"day": pd.to_datetime(["2020-03-01", "2020-06-01"])})
    line = res.params["Intercept"] + res.params["day"] * np.array([18_322.0, 18_414.0])
    for given in (new, new.astype(str), {"day": ["2020-03-01", "2020-06-01"]}, {"day": [18_322, 18_414]}):
        np.testing.assert_allclose(res.predict(given), line)
    res.save(tmp_path / "res.npz")
    np.testing.assert_allclose(pr.load(tmp_path / "res.npz").predict(new), line)
    with pytest.warns(PrivregWarning, match=r"day \(2020-01-01 to 2020-12-31\)"):
        res.predict({"day": ["2022-01-01"]})
    assert abs(res.estimand(times.dropna().iloc[10:])["day"] - 0.01) < 0.005


@pytest.mark.some(1)
@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_schema_files(tmp_path, suffix):
    numbers, times, _ = rows()
    schema = pr.Schema.declare({"day": DATES, "y": (-5, 12)})
    schema.to_file(tmp_path / f"s.{suffix}")
    assert pr.Schema.from_file(tmp_path / f"s.{suffix}") == schema
    res = pr.PrivateOnlineRegression.from_formula(
        "y ~ day", times, family="huber", mu=1, schema=tmp_path / f"s.{suffix}", bounds={"y": (-5, 12)}
    ).fit(seed=1, tuning="published", progress=False)
    assert res.params.tolist() == fitted(numbers, DAYS)


def test_a_skeleton_has_dates_among_its_bounds(tmp_path):
    rows()[1].to_parquet(tmp_path / "times.parquet")
    text = template(tmp_path / "times.parquet")
    assert text.count("bounds:") == 1
    (tmp_path / "s.yaml").write_text(re.sub(r"\[\]  # (\[[^]]*\]).*", r"\1", text).replace("lowest, highest", "-5, 12"))
    assert pr.Schema.from_file(tmp_path / "s.yaml").dates == ("day",)
    (file,) = described(tmp_path / "times.parquet")
    assert mismatches(pr.Schema.from_file(tmp_path / "s.yaml"), file) == []
    (said,) = mismatches(pr.Schema.declare({"day": DAYS, "y": (-5, 12)}), file)
    assert "give dates as bounds" in said


@pytest.mark.thorough
def test_other_front_doors_read_dates():
    numbers, times, _ = rows()
    bounds = [{"day": days, "y": (-5, 12)} for days in (DAYS, DATES)]
    for made in (pr.central.Regression, pr.federated.FederatedRegression):
        found = []
        for data, own in zip((numbers, times), bounds, strict=True):
            held = [data[:1_500], data[1_500:]] if made is pr.federated.FederatedRegression else data
            how = {"family": "squared"} if made is pr.federated.FederatedRegression else {"family": "huber"}
            model = made.from_formula("y ~ day", held, mu=1, bounds=own, **how)
            found.append(model.fit(seed=1, progress=False).params.tolist())
        assert found[0] == found[1]


def test_yaml_may_leave_quotes_out(tmp_path):
    (tmp_path / "s.yaml").write_text("bounds:\n  day: [2020-01-01, 2020-12-31]\n")
    assert pr.Schema.from_file(tmp_path / "s.yaml").dates == ("day",)


def test_declarations_that_data_carry():
    numbers, times, _ = rows()
    times.attrs["privreg"] = pr.Schema.declare({"day": DATES, "y": (-5, 12)}).to_json()
    res = pr.PrivateOnlineRegression.from_formula("y ~ day", times, family="huber", mu=1)
    assert res.fit(seed=1, tuning="published", progress=False).params.tolist() == fitted(numbers, DAYS)


def test_the_command_line_reads_dates():
    assert pairs("--bounds", ["day=2020-01-01:2020-12-31", "x=0:1"], "") == {"day": DATES, "x": (0.0, 1.0)}
    times = ("2020-01-01T08:00", "2020-12-31T18:30:15")
    assert pairs("--bounds", [f"day={':'.join(times)}"], "") == {"day": times}
    for said in ("day=2020-01-01..2020-12-31", "day=2020-01-01,2020-12-31", "day=01.01.2020:31.12.2020"):
        with pytest.raises(SchemaError, match=r"such as --bounds day=2020-01-01:2020-12-31\."):
            pairs("--bounds", [said], "NAME=LOW:HIGH")
    with pytest.raises(SchemaError, match="must read"):
        pairs("--moments", ["day=2020-01-01:2020-12-31"], "NAME=MEAN:SD")


@pytest.mark.thorough
def test_plans_means_and_simulated_rows():
    bounds = {"day": DATES, "y": (-5, 12)}
    plan = pr.plan("y ~ day", bounds=bounds, family="huber", mu=1, n=20_000, scale=1)
    assert "day uniform on 2020-01-01 to 2020-12-31" in str(plan)
    _, times, _ = rows()
    res = pr.means.estimate(times, "day ~ 1", mu=1, bounds={"day": DATES}, progress=False)
    assert DAYS[0] - 100 < res.params.iloc[0] < DAYS[1] + 100
    assert "bounds 2020-01-01 to 2020-12-31; read as days since 1970-01-01" in str(dict(res.privacy.declared)["day"])


def test_where_dates_are_not_read():
    schema = pr.Schema.declare({"day": DATES})
    with pytest.raises(SchemaError, match="which devices don't read; ask for a number"):
        _column("day", schema, SimpleNamespace(questions={"day": "When?"}, choices={}, languages={}))
    with pytest.raises(SchemaError, match="arrays hold numbers; use from_formula"):
        pr.PrivateOnlineRegression([1.0, 2.0], pd.DataFrame({"day": [1, 2]}), mu=1, bounds={"day": DATES, "y": (0, 1)})
