from __future__ import annotations

import io
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmarks.papers import store
from privreg import datasets
from privreg.datasets import examples
from privreg.errors import DataError, OptionError
from privreg.schema.declarations import Schema

ROOT = Path(__file__).parents[2]
SAMPLE = {"us_insurance": datasets.us_insurance, "ride_sharing": datasets.ride_sharing}
BLOCK = examples.BLOCK


def standardised_ols(frame: pd.DataFrame, slopes: list[str], response: str, train: int) -> tuple[np.ndarray, float]:
    z = frame[[*slopes, response]].to_numpy(float)
    z = (z - z.mean(axis=0)) / z.std(axis=0)
    x, y = z[:, :-1], z[:, -1]
    beta = np.linalg.lstsq(x[:train], y[:train], rcond=None)[0]
    test = y[train:] - x[train:] @ beta
    return beta, float(np.mean(test**2)) if len(test) else math.nan


def published_gap(n: int) -> tuple[np.ndarray, np.ndarray, float]:
    table = store.printed("xsjkh_table3")
    frame = datasets.us_insurance(n, coding="integers")
    beta, mse = standardised_ols(frame, table["coefficients"], "charges", n * 8 // 10)
    printed = np.array(table["OLS"])
    return beta - printed, printed, mse - table["test_mse"]["OLS"]


@pytest.mark.thorough
@pytest.mark.reference
def test_integer_coding_reproduces_the_published_ols():
    n = 200_000
    gap, printed, mse_gap = published_gap(n)
    # Both sides are samples: 0.8 n rows here, 800,000 there. A standardised slope has the regression's
    # variance 0.0607 / rows plus at most beta^2 / rows from the two sds; 0.00005 is the printing.
    se = np.sqrt((0.0607 + printed**2) * (1 / (0.8 * n) + 1 / 800_000))
    assert np.all(np.abs(gap) < 4 * se + 0.00005)
    # the mean of squared near-normal residuals, relative variance 2 / rows, and of its denominator
    mse_se = 0.0607 * math.sqrt(2 * (1 / (0.2 * n) + 1 / 200_000) + 1 / n + 1 / 1_000_000)
    assert abs(mse_gap) < 4 * mse_se + 0.00005


@pytest.mark.thorough
@pytest.mark.reference
def test_a_million_rows_are_as_close_to_the_published_ols_as_claimed():
    table = store.printed("xsjkh_table3")
    frame = datasets.us_insurance(1_000_000, coding="integers")
    beta, _ = standardised_ols(frame, table["coefficients"], "charges", len(frame))
    assert np.abs(beta - table["OLS"]).max() < 0.0007


@pytest.mark.reference
def test_another_order_of_levels_would_not_reproduce_it():
    # guards the test above: swapping two levels of exercise moves its slope far outside the tolerance
    table = store.printed("xsjkh_table3")
    frame = datasets.us_insurance(200_000, coding="integers")
    frame["exercise_frequency"] = frame["exercise_frequency"].replace({1: 2, 2: 1})
    beta, _ = standardised_ols(frame, table["coefficients"], "charges", len(frame))
    at = table["coefficients"].index("exercise_frequency")
    assert abs(beta[at] - table["OLS"][at]) > 0.02


@pytest.mark.thorough
def test_us_insurance_formula_is_the_documented_one():
    frame = datasets.us_insurance(100_000)
    factors = ["smoker", "gender", *[c for c in frame if str(frame[c].dtype) == "category"]]
    factors = list(dict.fromkeys(factors))
    dummies = pd.get_dummies(frame[factors], drop_first=True, dtype=float)
    x = pd.concat([pd.Series(1.0, frame.index, name="const"), frame[["age", "bmi", "children"]], dummies], axis=1)
    beta, rss, *_ = np.linalg.lstsq(x.to_numpy(float), frame["charges"].to_numpy(), rcond=None)
    truth = {
        "const": 3000.0,
        "age": 20.0,
        "bmi": 50.0,
        "children": 200.0,
        "gender_male": 1000.0,
        "smoker_yes": 5000.0,
        "exercise_frequency_Occasionally": 1000.0,
        "exercise_frequency_Rarely": 500.0,
        "exercise_frequency_Frequently": 2000.0,
        "occupation_Unemployed": -500.0,
        "occupation_Blue collar": 1000.0,
        "occupation_White collar": 1500.0,
        "coverage_level_Standard": 2000.0,
        "coverage_level_Premium": 5000.0,
    }
    for who in ("medical_history", "family_medical_history"):
        truth |= {
            f"{who}_High blood pressure": 1000.0,
            f"{who}_Diabetes": 2000.0,
            f"{who}_Heart disease": 5000.0,
        }
    expected = np.array([truth.get(name, 0.0) for name in x])
    sd = math.sqrt(float(rss[0]) / (len(x) - x.shape[1]))
    se = 430.0 * np.sqrt(np.diag(np.linalg.inv(x.T.to_numpy() @ x.to_numpy())))
    assert len(truth) == x.shape[1] - 3  # the three region columns have no effect
    assert np.all(np.abs(beta - expected) < 4.5 * se)
    assert abs(sd - 430.0) < 4.5 * 430.0 / math.sqrt(2 * len(x))


@pytest.mark.thorough
def test_us_insurance_marginals():
    n = 200_000
    frame = datasets.us_insurance(n)
    uniform = {"age": range(18, 66), "children": range(6)} | datasets.us_insurance_schema()["levels"]
    for name, values in uniform.items():
        share = frame[name].value_counts(normalize=True).reindex(list(values)).to_numpy(float)
        p = 1 / len(values)
        assert len(share) == frame[name].nunique()
        assert np.all(np.abs(share - p) < 5 * math.sqrt(p * (1 - p) / n)), name
    bmi = frame["bmi"]
    assert abs(bmi.mean() - 34) < 5 * 32 / math.sqrt(12 * n)
    assert abs(bmi.var() - 32**2 / 12) < 5 * 32**2 * math.sqrt(1 / 180 / n)  # fourth moments of a uniform
    numbers = datasets.us_insurance(n, coding="integers").drop(columns="charges").corr().to_numpy()
    assert np.abs(numbers[np.triu_indices_from(numbers, 1)]).max() < 5 / math.sqrt(n)


def test_ride_sharing_fare_depends_on_distance_and_duration_only():
    frame = datasets.ride_sharing(50_000)
    x = frame.drop(columns="fare")
    z = np.column_stack([np.ones(len(x)), x.to_numpy(float)])
    beta, rss, *_ = np.linalg.lstsq(z, frame["fare"].to_numpy(), rcond=None)
    scale = np.sqrt(np.diag(np.linalg.inv(z.T @ z)))
    truth = dict.fromkeys(["const", *x], 0.0) | {"const": 5.0, "distance": 1.2, "duration": 0.25}
    assert np.all(np.abs(beta - np.array(list(truth.values()))) < 4.5 * scale)
    assert abs(math.sqrt(float(rss[0]) / len(x)) - 1) < 4.5 / math.sqrt(2 * len(x))
    assert abs(np.corrcoef(x["distance"], x["duration"])[0, 1] - 0.587) < 0.02


@pytest.mark.some(1)
@pytest.mark.parametrize("name", SAMPLE)
def test_same_seed_same_rows_and_another_seed_other_rows(name):
    make = SAMPLE[name]
    pd.testing.assert_frame_equal(make(500, seed=1), make(500, seed=1))
    assert not make(500, seed=1).equals(make(500, seed=2))


@pytest.mark.some(1)
@pytest.mark.parametrize("name", SAMPLE)
def test_a_shorter_draw_is_the_beginning_of_a_longer_one(name):
    make = SAMPLE[name]
    long = make(BLOCK + 10)
    for n in (7, BLOCK, BLOCK + 1):
        assert make(n).equals(long.iloc[:n])  # assert_frame_equal takes seconds for factors
    assert not long.iloc[:10].reset_index(drop=True).equals(long.iloc[BLOCK:].reset_index(drop=True))


def test_codings_are_the_same_people():
    labels, integers = datasets.us_insurance(2000), datasets.us_insurance(2000, coding="integers")
    for name, levels in datasets.us_insurance_schema()["levels"].items():
        assert list(labels[name].cat.categories) == levels
        assert np.array_equal(labels[name].cat.codes, integers[name])
    for name in ("age", "bmi", "children", "charges"):
        pd.testing.assert_series_equal(labels[name], integers[name])


@pytest.mark.parametrize("name", SAMPLE)
def test_reconstructions_are_labelled(name):
    assert SAMPLE[name](3).attrs["provenance"].startswith("reconstruction:")


@pytest.mark.parametrize(
    ("frame", "schema"),
    [
        (datasets.us_insurance(100_000), datasets.us_insurance_schema()),
        (datasets.us_insurance(100_000, coding="integers"), datasets.us_insurance_schema("integers")),
        (datasets.ride_sharing(), datasets.ride_sharing_schema()),
    ],
    ids=["us_insurance", "us_insurance-integers", "ride_sharing"],
)
def test_schemas_are_accepted_and_hold_every_row(frame, schema):
    declared = Schema.declare(**schema)
    assert set(declared.bounds) | set(declared.levels) == set(frame)
    for name, (low, high) in declared.bounds.items():
        assert frame[name].between(low, high).all(), name
    for name, levels in declared.levels.items():
        assert set(frame[name].unique()) == set(levels), name


def test_declared_charges_leave_room_for_the_formula():
    low = 3000 + 20 * 18 + 50 * 18 - 500
    high = 3000 + 20 * 65 + 1000 + 50 * 50 + 200 * 5 + 5000 + 2 * 5000 + 2000 + 1500 + 5000
    bound = datasets.us_insurance_schema()["bounds"]["charges"]
    assert (low, high) == (3760, 32_300)
    assert bound[0] < low - 6 * 430
    assert high + 6 * 430 < bound[1]


@pytest.mark.thorough
def test_randhie_is_the_bundled_data_and_its_schema_names_every_column():
    frame = datasets.randhie()
    declared = Schema.declare(**datasets.randhie_schema())
    assert frame.shape == (20_190, 10)
    assert {*declared.bounds, *declared.levels} == set(frame)
    assert frame.attrs["provenance"].startswith("real records")
    frame["mdvis"] = -1
    assert (datasets.randhie()["mdvis"] >= 0).all()  # a copy each time
    for name, (low, high) in declared.bounds.items():
        column = datasets.randhie()[name]
        assert column.between(low, high).all(), name
    for name in set(frame) - {"physlm"}:  # what is 0 or 1 is declared by levels
        assert (datasets.randhie()[name].isin([0, 1]).all()) == (declared.levels.get(name) == (0, 1)), name


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("name", SAMPLE)
def test_csv_and_dataframe_agree_row_by_row(name, tmp_path):
    n = BLOCK + 100
    path = datasets.write(name.replace("_", "-"), tmp_path / "people.csv", n, seed=3, progress=False)
    frame = SAMPLE[name](n, seed=3)
    for column in frame.select_dtypes("category"):
        frame[column] = frame[column].astype(str)
    read = pd.read_csv(path)
    pd.testing.assert_frame_equal(read, frame, check_exact=True)
    assert [p.name for p in tmp_path.iterdir()] == ["people.csv"]


@pytest.mark.parametrize("name", SAMPLE)
def test_committed_samples_are_what_write_csv_makes(name, tmp_path):
    path = datasets.write(name, tmp_path / "sample.csv", 2000)
    assert path.read_bytes() == (ROOT / "data" / f"{name}_sample.csv").read_bytes()


@pytest.mark.thorough
@pytest.mark.parametrize("wrong", [RuntimeError("stop"), KeyboardInterrupt()], ids=["error", "interrupt"])
@pytest.mark.parametrize("before", [None, "kept"], ids=["absent", "present"])
def test_a_failed_write_leaves_the_target_as_it_was(wrong, before, tmp_path, monkeypatch):
    target = tmp_path / "people.csv"
    if before is not None:
        target.write_text(before)
    inner, seen = examples.frame_of, []

    def fail_on_the_second(*args, **kwargs):
        seen.append([p.stat().st_size for p in tmp_path.glob(".people.csv.*.part")])
        if len(seen) == 2:
            raise wrong
        return inner(*args, **kwargs)

    monkeypatch.setattr(examples, "frame_of", fail_on_the_second)
    with pytest.raises(type(wrong)):
        datasets.write("us_insurance", target, BLOCK + 1, progress=False)
    assert len(seen) == 2
    assert len(seen[1]) == 1  # the first block had gone to the temporary file
    assert [p.name for p in tmp_path.iterdir()] == ([] if before is None else ["people.csv"])
    if before is not None:
        assert target.read_text() == before


class _Stream(io.StringIO):
    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.mark.parametrize(
    ("terminal", "progress", "shown"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_progress_shows_on_a_terminal_only(terminal, progress, shown, tmp_path, monkeypatch):
    stream = _Stream(terminal)
    monkeypatch.setattr("sys.stderr", stream)
    datasets.write("ride_sharing", tmp_path / "rides.csv", 10, progress=progress)
    assert bool(stream.getvalue()) == shown


@pytest.mark.parametrize("n", [0, -1, 2.5, "10", True, None])
@pytest.mark.parametrize("make", [datasets.us_insurance, datasets.ride_sharing])
def test_bad_row_counts_are_refused(make, n):
    with pytest.raises(OptionError, match="whole number, 1 or more"):
        make(n)


@pytest.mark.parametrize("seed", [-1, 0.5, "a", None])
def test_bad_seeds_are_refused(seed):
    with pytest.raises(OptionError, match="whole number, 0 or more"):
        datasets.us_insurance(5, seed=seed)


def test_numpy_integers_are_whole_numbers():
    assert datasets.ride_sharing(np.int64(4), seed=np.uint8(1)).equals(datasets.ride_sharing(4, seed=1))


def test_unknown_options_list_the_choices():
    with pytest.raises(OptionError, match=r"'labels', 'integers'.*mean 'integers'"):
        datasets.us_insurance(5, coding="integer")
    with pytest.raises(OptionError, match="coding"):
        datasets.us_insurance_schema("codes")


@pytest.mark.parametrize("name", ["us-insurence", "", None, 3])
def test_write_csv_refuses_unknown_names_and_writes_nothing(name, tmp_path):
    with pytest.raises(OptionError, match="'us_insurance', 'ride_sharing'"):
        datasets.write(name, tmp_path / "x.csv", 5)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("bad", [{"rows": 0}, {"rows": 5, "seed": -2}])
def test_write_csv_refuses_bad_counts_and_writes_nothing(bad, tmp_path):
    with pytest.raises(OptionError, match="whole number"):
        datasets.write("ride_sharing", tmp_path / "x.csv", **bad)
    assert not list(tmp_path.iterdir())


def test_write_csv_says_where_it_can_not_write(tmp_path):
    with pytest.raises(DataError, match="is a folder"):
        datasets.write("ride_sharing", tmp_path, 5)
    with pytest.raises(DataError, match="can't write"):
        datasets.write("ride_sharing", tmp_path / "missing" / "x.csv", 5)
    assert not list(tmp_path.iterdir())
