"""Fits over parts of a stream: the same bits wherever and however often a part is worked on, and honest intervals."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.errors import DataError, InferenceError, OptionError, SchemaError
from privreg.privacy.ledger import Release
from privreg.protocol.plans import Lanes
from privreg.simulation import partitions
from privreg.simulation.partitions import Key, Part, Span, cut, fit_parts, in_turn
from privreg.simulation.settings import FitOptions
from privreg.simulation.staged import lanes
from privreg.simulation.staged.pipeline import Pipeline

N, FILES = 120_000, 4
PUBLIC = {"mu": 1, "bounds": {"a": (-1, 1), "b": (-1, 1), "y": (-4, 4)}}
TRUTH = np.array([0.5, 1.0, -1.0])


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """CSV files, and how many rows each has."""
    rng = np.random.default_rng(1)
    data = pd.DataFrame({"a": rng.uniform(-1, 1, N), "b": rng.uniform(-1, 1, N)})
    data["y"] = TRUTH[0] + data["a"] - data["b"] + rng.normal(0, 0.5, N)
    folder, out = tmp_path_factory.mktemp("parts"), []
    for i in range(FILES):
        path = folder / f"part{i}.csv"
        data.iloc[i * N // FILES : (i + 1) * N // FILES].to_csv(path, index=False)
        out.append(Span(str(path), 0, N // FILES))
    return out


def model(**more):
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", None, **{**PUBLIC, **more})


def fitted(files, each=in_turn, seed=3, parts=None, missing="noise", **how):
    chosen = FitOptions(**{"inference": ("between_lanes", "random_scaling"), **how})
    stream = fit_parts(model(missing=missing)._spec, chosen, None, seed, cut(files) if parts is None else parts, each)
    return stream._results(Release(0, 1.0))


def bits(res):
    return res.params.to_numpy().tobytes() + b"".join(
        res.cov_params(method=m).to_numpy().tobytes() for m in res.methods
    )


# --- parts -------------------------------------------------------------------------------------------------


def test_few_files_are_cut_evenly_and_many_are_left_whole():
    assert [p.spans for p in cut([Span("x", 0, 10)])] == [
        (Span("x", a, b - a),) for a, b in zip([0, 1, 2, 3, 5, 6, 7, 8], [1, 2, 3, 5, 6, 7, 8, 10], strict=True)
    ]
    many = [Span(str(i), 0, 5) for i in range(9)] + [Span("none", 0, 0)]
    assert cut(many) == [Part((Span(str(i), 0, 5),)) for i in range(9)]
    assert sum(p.rows for p in cut([Span("a", 0, 100), Span("b", 0, 7), Span("c", 0, 1)])) == 108


def test_what_a_lead_leaves_of_a_part_goes_to_the_next_if_it_is_little():
    parts = [Part((Span(c, 0, 10),)) for c in "abc"]
    assert partitions._after(parts, 0) == parts
    assert partitions._after(parts, 4) == [Part((Span("a", 4, 6),)), *parts[1:]]
    assert partitions._after(parts, 6) == [Part((Span("a", 6, 4), Span("b", 0, 10))), parts[2]]
    assert partitions._after(parts, 10) == parts[1:]
    assert partitions._after(parts, 29) == [Part((Span("c", 9, 1),))]
    assert Part((Span("a", 6, 4), Span("b", 0, 10))).after(5) == Part((Span("b", 1, 9),))


# --- Law 2: the same bits ----------------------------------------------------------------------------------


def test_everybody_is_counted_once_and_the_estimate_is_right(files):
    res = fitted(files)
    assert res.nobs == N
    assert (np.abs(res.params - TRUTH) < 5 * res.bse).all()
    assert res.trajectory()["n"].max() == N
    assert "lanes" in res.summary().as_text()
    one_stream = pr.PrivateOnlineRegression.from_formula(
        "y ~ a + b", pd.concat([pd.read_csv(f.path) for f in files]), **PUBLIC
    ).fit(progress=False)
    ratio = res.bse / one_stream.bse
    assert ((ratio > 0.4) & (ratio < 2.5)).all()


def backwards(function, given):
    return [function(*some) for some in reversed(given)][::-1]


def twice(function, given):
    for some in given:
        function(*some)
    return [function(*some) for some in given]


def elsewhere(function, given):
    """As if on another machine: all that is sent is sent as bytes."""
    return [pickle.loads(pickle.dumps(function(*pickle.loads(pickle.dumps(some))))) for some in given]


def test_no_part_s_lanes_are_in_the_estimate_twice(files):
    run = fit_parts(model()._spec, FitOptions(), None, 3, cut(files), in_turn)._run
    _, *own = run.groups()
    batch = run.start.schedule.batch
    assert len(own) == run.start.schedule.lanes
    assert len({g.estimate.tobytes() for g in own}) == len(own)
    assert run.at - len(own) * batch < sum(g.people for g in own) <= run.at


@pytest.mark.parametrize("each", [backwards, twice, elsewhere])
def test_order_repetition_and_place_change_no_bit(files, each):
    assert bits(fitted(files, each)) == bits(fitted(files))


def test_without_a_seed_the_noise_is_fresh(files):
    assert bits(fitted(files, seed=None)) != bits(fitted(files, seed=None))


def test_no_two_segments_have_the_same_key_and_a_part_that_is_done_again_has_its_own(files):
    keys = []

    def noted(function, given):
        keys.extend(k.value for some in given for k in some if isinstance(k, Key))
        return in_turn(function, given)

    fitted(files, noted, seed=None)
    assert len(keys) == len(set(keys)) >= 1 + 3 * 6


def test_noise_is_each_person_s_own(files, monkeypatch):
    # the rows of noise that all stages and segments use, by their bytes: none twice
    seen, original = [], Pipeline.used

    def used(self, rows):
        if self.noise is not None:
            seen.append(self.noise.peek()[:rows].copy())
        original(self, rows)

    monkeypatch.setattr(Pipeline, "used", used)
    fitted(files, seed=None)
    rows = [row.tobytes() for block in seen for row in block]
    assert len(rows) == N
    assert len(set(rows)) == N


# --- what is sent ------------------------------------------------------------------------------------------


def test_tasks_hold_no_rows_and_print_no_keys(files):
    told = []

    def noted(function, given):
        told.extend(given)
        return in_turn(function, given)

    fitted(files, noted, seed=None)
    raw = pd.read_csv(files[0][0])
    for some in told:
        said = repr(some)
        assert not any(k.value.hex() in said or repr(k.value) in said for k in some if isinstance(k, Key))
        assert "Key()" in said
        assert not any(isinstance(v, pd.DataFrame) for v in some)
        assert not hasattr(some[0].spec, "_source")
    # nor does any number of the state equal a number of a row
    numbers = {float(v) for s in told for a in s if isinstance(a, dict) for x in a.values() for v in np.ravel(x)}
    assert not numbers & set(raw["y"])
    assert not numbers & set(raw["a"])


def test_errors_of_workers_quote_no_row(files, tmp_path, monkeypatch):
    bad = tmp_path / "bad.csv"
    text = (tmp_path / files[0][0]).read_text().splitlines()
    text[20_000] = "0.1,secret-cell,0.3"
    bad.write_text("\n".join(text) + "\n")
    spans = [Span(str(bad), 0, 30_000), *files[1:]]
    with pytest.raises(DataError, match="column 'b' has a value that is missing, infinite or no number") as caught:
        fitted(spans, missing="raise")
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__context__ is None or caught.value.__suppress_context__

    def fail(*_, **__):
        raise ValueError("secret-cell")

    monkeypatch.setattr("privreg.simulation.stream.Stream._update_all", fail)
    with pytest.raises(DataError, match=r"could not be worked on \(ValueError; its text is withheld") as caught:
        fitted(files)
    assert "secret" not in "".join(map(str, (caught.value, caught.value.__context__, caught.value.__cause__)))


def test_a_row_that_cannot_be_used_sends_noise_wherever_its_part_is_worked_on(files, tmp_path):
    lines = Path(files[0].path).read_text().splitlines()
    both = []
    for row in ("0.1,secret-cell,0.3", ",,"):
        bad = tmp_path / f"{len(both)}.csv"
        bad.write_text("\n".join([*lines[:20_000], row, *lines[20_001:]]) + "\n")
        both.append(fitted([Span(str(bad), 0, 30_000), *files[1:]]))
    assert both[0].nobs == N
    assert bits(both[0]) == bits(both[1])
    assert bits(both[0]) != bits(fitted(files))


def test_a_file_that_has_changed_is_named(files, tmp_path):
    short = tmp_path / "short.csv"
    short.write_text("".join(Path(files[1][0]).read_text().splitlines(keepends=True)[:10_000]))
    with pytest.raises(DataError, match=r"short\.csv' is not what it was when the fit began"):
        fitted([files[0], Span(str(short), 0, N // FILES), *files[2:]])
    path = Path(files[1].path)
    seen = files[1]._replace(mark=(path.stat().st_size, path.stat().st_mtime_ns + 1))
    with pytest.raises(DataError, match=r"part1\.csv' is not what it was when the fit began"):
        fitted([files[0], seen, *files[2:]])
    other = tmp_path / "other.csv"
    pd.read_csv(files[1][0]).rename(columns={"b": "bb"}).to_csv(other, index=False)
    with pytest.raises((DataError, SchemaError), match=r"other\.csv"):
        fitted([files[0], Span(str(other), 0, N // FILES), *files[2:]])


# --- what is refused ---------------------------------------------------------------------------------------


def test_parts_that_are_too_small_are_refused_with_the_reason(files):
    small = [Part((Span(files[0][0], 300 * i, 300),)) for i in range(100)]
    with pytest.raises(
        InferenceError, match=r"100 parts of 30,000 people leave .* a lane, and intervals need .* nearly"
    ):
        fitted(files, parts=small)


@pytest.mark.parametrize(
    ("more", "how", "error", "message"),
    [
        ({}, {"tuning": "published", "inference": "auto"}, OptionError, "is a single chain"),
        ({}, {"inference": "batch_means"}, InferenceError, "batch_means needs one path"),
        ({}, {"inference": ("between_lanes", "anytime")}, InferenceError, "anytime needs one path"),
        ({"missing": "drop"}, {}, OptionError, "missing='drop' can't be used with parts"),
        ({}, {"measures": 0.1}, OptionError, "measures= takes the last people of one stream"),
        ({"id": "who"}, {}, OptionError, "id= counts a person's rows"),
    ],
)
def test_what_parts_cannot_do(files, more, how, error, message):
    with pytest.raises(error, match=message):
        fit_parts(model(**more)._spec, FitOptions(**how), None, 1, cut(files), in_turn)


ALIKE = ("origin", "functional")

# --- merging -----------------------------------------------------------------------------------------------


def test_merging_is_associative_and_adds_up_what_the_lanes_hold():
    rng = np.random.default_rng(2)

    def part(k):
        return Lanes(
            **{
                name: np.arange(k) if name == "updates" else rng.standard_normal((3,) if name in ALIKE else (k, 3))
                for name in Lanes._fields
            }
        )

    one, two, three = part(2), part(1), part(3)
    two, three = (p._replace(origin=one.origin, functional=one.functional) for p in (two, three))
    left = lanes.merged([lanes.merged([one, two]), three])
    right = lanes.merged([one, lanes.merged([two, three])])
    for name in Lanes._fields:
        assert getattr(left, name).tobytes() == getattr(right, name).tobytes()
    assert left.theta.shape == (6, 3)
    for name in ALIKE:
        np.testing.assert_array_equal(getattr(left, name), getattr(one, name))


def test_parts_of_designs_with_many_coefficients(tmp_path):
    rng = np.random.default_rng(3)
    p, n = 110, 60_000
    names = [f"x{j}" for j in range(p)]
    data = pd.DataFrame(rng.uniform(-1, 1, (n, p)), columns=names)
    data["y"] = data[names[:3]].sum(axis=1) + rng.normal(0, 0.5, n)
    data.to_parquet(tmp_path / "wide.parquet", row_group_size=5_000)
    wide = pr.PrivateOnlineRegression.from_formula(
        "y ~ " + " + ".join(names), None, mu=1000, bounds=dict.fromkeys(names, (-1, 1)) | {"y": (-6, 6)}
    )
    chosen = FitOptions(inference=("between_lanes", "random_scaling"))
    stream = fit_parts(wide._spec, chosen, None, 1, cut([Span(str(tmp_path / "wide.parquet"), 0, n)]), in_turn)
    res = stream._results(Release(0, 1.0))
    assert res.nobs == n
    truth = np.r_[0.0, np.ones(3), np.zeros(p - 3)]
    for method in res.methods:
        z = (res.params - truth) / res.using(method).bse
        assert (np.abs(z) < 8).all()
        assert 0.3 < np.sqrt((z**2).mean()) < 2.0
