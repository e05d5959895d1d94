"""Fits of a trusted curator: what they find, keep, cost and refuse, whatever the rows come from."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import statsmodels.api as sm
import statsmodels.formula.api as smf
from scipy.stats import chi2

import privreg as pr
from privreg.cli.app import main
from privreg.collector.aggregate.chain import full
from privreg.collector.aggregate.report import steps
from privreg.collector.design import begin
from privreg.errors import (
    BudgetError,
    DataError,
    InferenceError,
    OptionError,
    PrivregError,
    SavedFileError,
    UnsupportedArgumentError,
)
from privreg.fits import aggregate
from privreg.privacy.ledger import LEDGER
from privreg.protocol import codes, lattice
from privreg.protocol.sums import SHARES, distance2
from privreg.simulation import aggregate as simulated
from privreg.simulation.aggregate import CuratorRun, by_group, evenly, least
from privreg.simulation.streaming import checkpoint
from privreg.simulation.streaming.encoding import Block
from privreg.simulation.streaming.stream import Stream
from tests.databases import sqlite

N = 3_000
HOW = {
    "bounds": {"x": (-1, 1), "y": (-5, 6), "w": (0, 2), "o": (-1, 1), "e": (0.5, 2)},
    "levels": {"g": ["a", "b", "c"], "k": list(range(40))},
    "mu": 1,
    "trust": "central",
}
FIT = pr.PrivateOnlineRegression.from_formula
COUNTS = pr.Poisson(y_max=12)


@cache
def rows(seed: int = 1, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.uniform(-1, 1, n), "g": rng.choice(["a", "b", "c"], n), "k": rng.integers(0, 40, n)})
    out["w"], out["o"], out["e"] = rng.uniform(0.2, 2, n), rng.uniform(-1, 1, n), rng.uniform(0.5, 2, n)
    eta = 0.3 + out["x"] + 0.5 * (out["g"] == "b")
    out["y"] = np.clip(eta + out["o"] + rng.standard_t(4, n) / 2, -5, 6)
    out["b"] = (rng.random(n) < 1 / (1 + np.exp(-eta - out["o"]))).astype(int)
    out["c"] = np.minimum(rng.poisson(out["e"] * np.exp(eta / 2)), 12)
    return out


def model(data: object = None, formula: str = "y ~ x + g", **more: object) -> pr.PrivateOnlineRegression:
    return FIT(formula, rows() if data is None else data, **{**HOW, **more})


def bits(res: pr.PrivateResults) -> bytes:
    return res.params.to_numpy().tobytes() + res.cov_params().to_numpy().tobytes()


@pytest.fixture(scope="module")
def fitted() -> pr.PrivateResults:
    return model().fit(seed=5)


@pytest.fixture(scope="module")
def parquet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    rows().to_parquet(path, row_group_size=700)
    return path


# --- estimates --------------------------------------------------------------------------------------------------

FORMULA = "{} ~ x + g"
PLAIN: dict[str, tuple[str, dict[str, object], Callable[[str, pd.DataFrame], object]]] = {
    "huber": ("y", {}, lambda f, d: smf.rlm(f, d).fit()),
    "median": ("y", {"family": pr.Quantile(0.5)}, lambda f, d: smf.quantreg(f, d).fit(q=0.5)),
    "logistic": ("b", {"family": "logistic"}, lambda f, d: smf.logit(f, d).fit(disp=0)),
    "counts": ("c", {"family": COUNTS}, lambda f, d: smf.poisson(f, d).fit(disp=0)),
    "offset": ("y", {"offset": "o"}, lambda f, d: smf.rlm(f, d.assign(y=d["y"] - d["o"])).fit()),
    "offset of log-odds": (
        "b",
        {"family": "logistic", "offset": "o"},
        lambda f, d: smf.glm(f, d, family=sm.families.Binomial(), offset=d["o"]).fit(),
    ),
    "exposure": (
        "c",
        {"family": COUNTS, "exposure": "e"},
        lambda f, d: smf.glm(f, d, family=sm.families.Poisson(), exposure=d["e"]).fit(),
    ),
    "weights": (
        "b",
        {"family": "logistic", "weights": "w"},
        lambda f, d: smf.glm(f, d, family=sm.families.Binomial(), freq_weights=d["w"]).fit(),
    ),
    "likelihood": (
        "b",
        {"family": "logistic", "score_weights": "likelihood"},
        lambda f, d: smf.logit(f, d).fit(disp=0),
    ),
    "likelihood of counts": (
        "c",
        {"family": COUNTS, "score_weights": "likelihood"},
        lambda f, d: smf.poisson(f, d).fit(disp=0),
    ),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", PLAIN)
def test_with_a_large_budget_it_is_statsmodels_fit(name: str) -> None:
    response, given, fit = PLAIN[name]
    formula = FORMULA.format(response)
    res, plain = model(None, formula, mu=1_000, **given).fit(seed=3), fit(formula, rows())
    names = [n.replace("C(g)", "g") for n in res.params.index]
    error = plain.bse[names].to_numpy()
    assert np.abs((res.params.to_numpy() - plain.params[names].to_numpy()) / error).max() < 0.1
    assert not res.privacy.doubts


REAL = {
    "any affair": ("fair", "any ~ age + yrs_married + religious + rate_marriage", "logistic", smf.logit),
    "any visit": ("randhie", "any ~ lncoins + idp + disea + physlm", "logistic", smf.logit),
    "visits": ("randhie", "mdvis ~ lncoins + idp + disea + physlm", pr.Poisson(y_max=77), smf.poisson),
    "affairs": ("fair", "affairs ~ age + yrs_married", "huber", smf.rlm),
}


@pytest.mark.some(1)
@pytest.mark.parametrize("name", REAL)
def test_on_real_data_too(name: str) -> None:
    which, formula, family, plain = REAL[name]
    data = getattr(sm.datasets, which).load_pandas().data
    bounds = {c: (float(data[c].min()), float(data[c].max())) for c in data}
    data["any"] = (data["affairs" if which == "fair" else "mdvis"] > 0).astype(int)
    res = FIT(formula, data, family=family, bounds=bounds, mu=1_000, trust="central").fit(seed=3)
    found = plain(formula, data).fit(**{} if plain is smf.rlm else {"disp": 0})
    assert np.abs((res.params - found.params) / found.bse).max() < 0.1


@pytest.mark.thorough
def test_without_privacy_rounds_go_on_until_nothing_moves() -> None:
    res, plain = model(None, "b ~ x + g", family="logistic", mu=None).fit(), smf.logit("b ~ x + g", rows()).fit(disp=0)
    np.testing.assert_allclose(res.params.to_numpy(), plain.params.to_numpy(), rtol=0, atol=1e-5)
    assert res.rounds["moved"].iloc[-1] < 1e-5
    assert "NOT private" in str(res.summary())


@pytest.mark.thorough
def test_estimates_are_near_the_truth_at_a_usual_budget(fitted: pr.PrivateResults) -> None:
    plain = smf.rlm("y ~ x + g", rows()).fit()
    assert (np.abs(fitted.params.to_numpy() - plain.params.to_numpy()) / fitted.bse.to_numpy()).max() < 3.0
    assert (fitted.bse.to_numpy() / plain.bse.to_numpy()).max() < 1.3


MORE = {
    "expectile": {"family": pr.Expectile(0.3)},
    "squared": {"family": pr.Squared()},
    "smoothed hinge": {"formula": "b ~ x", "family": pr.SmoothedHinge()},
    "levels": {"formula": "g ~ x", "family": "multinomial"},
    "custom": {"family": pr.families.custom("mine", lambda eta, y: max(-1.0, min(1.0, eta - y)), 1.0, slope=1.0)},
    "clusters": {"cluster": "k"},
    "one row of each": {"id": "who"},
    "persons": {"id": "who", "k_max": 3},
    "mean of persons": {"id": "who", "k_max": 3, "per_person": "mean"},
    "within": {"formula": "y ~ x | who", "k_max": 3},
    "changes": {"formula": "y ~ x | diff(who)", "k_max": 3},
    "weighted persons": {"id": "who", "k_max": 3, "weights": "w"},
}


@pytest.mark.thorough
@pytest.mark.parametrize("name", MORE)
def test_every_family_and_option_goes_all_the_way(name: str, tmp_path: Path) -> None:
    data = rows().assign(who=np.arange(N) // 3)
    given = dict(MORE[name])
    made = model(data, **given)
    res = made.fit(seed=5)
    assert np.isfinite(res.params).all(axis=None)
    assert (res.bse > 0).all(axis=None)
    assert "curator" in str(res.summary(details=True))
    assert res.trajectory()["n"].nunique() == 1
    assert made.plan().rows == len(data) // (3 if given.get("k_max") else 1)
    res.save(tmp_path / "fit.privreg")
    assert bits(pr.load(tmp_path / "fit.privreg")) == bits(res)
    if name not in {"custom", "within", "changes"}:
        assert np.isfinite(res.estimand(data)).all(axis=None)


@pytest.mark.thorough
def test_clusters_have_sums_of_their_own_in_the_last_round_alone() -> None:
    res = model(cluster="k").fit(seed=5)
    groups = res.rounds["records"] < N
    assert groups.sum() == 20
    assert groups[groups].index.min() == len(groups) - 20
    assert res.rounds["records"][groups].sum() == N
    assert "20 random groups" in str(res.summary())


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("family", [pr.Quantile(0.9), pr.Huber(), pr.Logistic()])
def test_few_rows_and_many_measures_leave_main_rounds_a_budget(family: pr.families.Family) -> None:
    """Early rounds at their largest cost 80% of what measures leave, not of the whole budget."""
    n, rng = least(3, 1.0), np.random.default_rng(1)
    data = pd.DataFrame(rng.uniform(-1, 1, (n, 2)) ** 3, columns=["a", "b"])
    y = data.sum(axis=1) + 0.3 * rng.standard_t(2, n)
    data = data.assign(y=y > 0 if family.kind == "binary" else y.clip(-20, 20))
    bounds = {"a": (-1, 1), "b": (-1, 1)} | ({} if family.kind == "binary" else {"y": (-20, 20)})
    for seed in range(3):
        fitted = pr.PrivateOnlineRegression.from_formula(
            "y ~ a + b", data, family=family, bounds=bounds, trust="central", mu=1
        ).fit(measures=0.49, seed=seed, progress=False)
        assert fitted.rounds["role"].iloc[-2:].tolist() == ["main", "measures"]


def test_measures_cost_a_share_of_the_budget() -> None:
    res = model(None, "b ~ x + g", family="logistic").fit(measures=0.1, seed=5)
    assert res.rounds["role"].iloc[-1] == "measures"
    assert (res.rounds["records"] == N).all()
    assert "for 0.1 of mu²" in str(res.privacy)
    assert "10% for measures" in str(res.privacy)
    accuracy = res.fit_measures.set_index("measure").loc["accuracy"]
    plain = model(None, "b ~ x + g", family="logistic", mu=None).fit(measures=0.1, seed=5)
    truth = plain.fit_measures.set_index("measure").loc["accuracy", "estimate"]
    assert abs(accuracy["estimate"] - truth) < 4.0 * accuracy["std_error"]


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
def test_an_earlier_fits_target_is_taken_over(trust: str) -> None:
    first = model(rows(2), trust=trust).fit()
    later = model(rows(3)).fit(like=first)
    kept, found = first._fit.equation, later._fit.equation
    np.testing.assert_allclose(found.caps, np.broadcast_to(kept.caps[-1], found.caps.shape), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.c, kept.c[-1])
    assert not {"directions", "lengths"} & set(later.rounds["role"])  # which would change it
    with pytest.raises(OptionError, match="of the same trust"):
        model().fit(like=model(rows(4), trust="local").fit())


# --- sources ----------------------------------------------------------------------------------------------------


def _query() -> object:
    database = sqlite()
    rows().to_sql("people", database)
    return pr.sql("SELECT * FROM people", database)


SOURCES: dict[str, Callable[[Path], object]] = {
    "frame": lambda _: rows().copy(),
    "mapping": lambda _: {name: rows()[name].to_numpy() for name in rows()},
    "frames": lambda _: [rows()[:7], rows()[7:1000], rows()[1000:]],
    "generator": lambda _: (rows()[k : k + 311] for k in range(0, N, 311)),
    "parquet": lambda folder: _written(rows().to_parquet, folder / "rows.parquet"),
    "csv": lambda folder: _written(rows().to_csv, folder / "rows.csv"),
    "query": lambda _: _query(),
    "polars": lambda _: pl.from_pandas(rows()),
    "lazy": lambda _: pl.from_pandas(rows()).lazy(),
    "arrow": lambda _: pa.Table.from_pandas(rows()),
    "reader": lambda _: pa.Table.from_pandas(rows()).to_reader(500),
    "duckdb": lambda _: duckdb.from_arrow(pa.Table.from_pandas(rows())),
}


def _written(write: Callable[..., None], path: Path) -> Path:
    write(path, index=False)
    return path


@pytest.mark.some(1)
@pytest.mark.parametrize("kind", SOURCES)
def test_equal_rows_give_equal_bits_whatever_they_come_from(
    kind: str, fitted: pr.PrivateResults, tmp_path: Path
) -> None:
    assert bits(model(SOURCES[kind](tmp_path)).fit(seed=5)) == bits(fitted)


@pytest.mark.thorough
def test_arrays_are_taken_and_the_other_name_is_the_same() -> None:
    x = np.column_stack([np.ones(N), rows()["x"]])
    given = {"exog_names": ["const", "x"], "bounds": {"x": (-1, 1), "y": (-5, 6)}, "mu": 1}
    here = pr.PrivateOnlineRegression(rows()["y"], x, trust="central", **given).fit(seed=5)
    there = pr.central.Regression(rows()["y"], x, **given).fit(seed=5)
    assert bits(here) == bits(there) == bits(pr.central.Regression.from_formula(
        "y ~ x", rows(), bounds=given["bounds"], mu=1).fit(seed=5))  # fmt: skip
    with pytest.raises(OptionError, match="choose one of 'central'"):
        pr.central.Regression(rows()["y"], x, trust="local", **given)


@pytest.mark.thorough
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_that_are_too_many_are_read_again_in_each_round(
    threads: int, fitted: pr.PrivateResults, parquet: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    passes = []
    again = Stream._again
    monkeypatch.setattr(Stream, "_again", lambda *given: passes.append(1) or again(*given))
    assert bits(model(parquet).fit(seed=5, threads=threads)) == bits(fitted)
    assert not passes
    monkeypatch.setattr(simulated, "HELD", 10_000)
    res = model(parquet).fit(seed=5, threads=threads)
    assert bits(res) == bits(fitted)
    assert len(passes) == len(res.rounds)


@pytest.mark.parametrize("kind", ["frame", "generator", "query", "reader"])
def test_rows_that_cannot_be_read_again_are_refused_if_they_are_too_many(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(simulated, "HELD", 10_000)
    made, before = model(SOURCES[kind](tmp_path)), LEDGER.spent(rows())
    with pytest.raises(UnsupportedArgumentError, match="write them to Parquet files"):
        made.fit()
    assert LEDGER.spent(rows()) == before


def test_files_that_change_between_rounds_are_refused(parquet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "HELD", 10_000)
    original, played = CuratorRun._released, []

    def released(self: CuratorRun, *given: object) -> None:
        original(self, *given)
        played.append(1)
        if len(played) == 3:
            os.utime(parquet)

    monkeypatch.setattr(CuratorRun, "_released", released)
    with pytest.raises(DataError, match="changed"):
        model(parquet).fit()
    assert len(played) == 3


def test_a_query_is_executed_once() -> None:
    database, asked = sqlite(), list[str]()
    rows().to_sql("people", database)
    database.set_trace_callback(asked.append)
    model(pr.sql("SELECT * FROM people WHERE rowid > 0", database)).fit()
    assert sum("rowid > 0" in one and "1 = 0" not in one for one in asked) == 1  # beside its columns


@pytest.mark.parametrize("given", [{"k_max": 2}, {}], ids=["k_max", "first row"])
def test_a_person_has_the_same_rows_in_all_passes(
    given: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows().assign(who=np.arange(N) // 3)
    data.to_parquet(path := tmp_path / "rows.parquet")
    held = model(data, id="who", **given).fit(seed=5)
    monkeypatch.setattr(simulated, "HELD", 10_000)
    assert bits(model(path, id="who", **given).fit(seed=5)) == bits(held)
    lost = data.assign(y=np.where(np.arange(N) % 3 < (given.get("k_max", 1)), data["y"], 6.0))  # rows that never count
    monkeypatch.undo()
    assert bits(model(lost, id="who", **given).fit(seed=5)) == bits(held)


def test_switches_of_a_record_move_a_rounded_sum_by_no_more_than_the_noise_is_for() -> None:
    """However many others are in the block: the sum of their fractions must not add a step to each number."""
    bounds = {f"x{k}": (0.0, 1.0) for k in range(6)} | {"y": (0.0, 1.0)}
    made = pr.PrivateOnlineRegression.from_formula(
        "y ~ " + " + ".join(list(bounds)[:-1]), None, bounds=bounds, mu=1, trust="central"
    )
    plan, _ = aggregate.plan_of(made._spec, 20_000)
    state = begin(full, plan).progress.state
    assert state.role == "clamping"
    radius = steps(plan, state).radius
    for many in range(1, 60):
        y, x = np.full(many, 0.5), np.ones((many, plan.d))
        flags = np.ones((many, plan.bounded), dtype=np.bool_)
        whole = simulated.rounded(plan, state, Block(y, x, None, None, clamped=flags))
        y[0] = np.nan
        less = simulated.rounded(plan, state, Block(y, x, None, None, clamped=flags))
        assert sum(int(v) ** 2 for v in whole - less) <= radius**2


def test_blocks_are_cut_evenly_however_rows_come() -> None:
    x = np.arange(1_000.0)
    for parts in ([1_000], [1, 999], [400, 0, 350, 250], [10] * 100):
        ends = np.cumsum([0, *parts])
        blocks = [Block(x[a:b], x[a:b, None], None, None) for a, b in itertools.pairwise(ends)]
        made = list(evenly(blocks, 300))
        assert [len(one.y) for one in made] == [300, 300, 300, 100]
        np.testing.assert_array_equal(np.concatenate([one.y for one in made]), x)


# --- checkpoints ------------------------------------------------------------------------------------------------

KILLED = """
    import os, signal, sys
    import privreg as pr
    from privreg.simulation.streaming import checkpoint
    from tests.simulation.test_curator import model
    write, done = checkpoint._write, []
    def after(stream, *given, **more):
        if len(done) == {at} and {before}:
            os.kill(os.getpid(), signal.SIGKILL)
        write(stream, *given, **more)
        done.append(1)
        if len(done) > {at}:
            os.kill(os.getpid(), signal.SIGKILL)
    checkpoint._write = after
    model({path!r}).fit(seed=5, progress=False, checkpoint={kept!r})
"""


@pytest.mark.some(1)
@pytest.mark.parametrize(("at", "before"), [(4, True), (0, False), (2, False), (7, True), (6, False)])
def test_a_fit_that_is_killed_between_rounds_ends_in_the_same_bits(
    at: int, before: bool, fitted: pr.PrivateResults, parquet: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept.privreg"
    code = textwrap.dedent(KILLED).format(at=at, before=before, path=str(parquet), kept=str(kept))
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert kept.exists()
    drawn = []
    original = CuratorRun._released
    monkeypatch.setattr(CuratorRun, "_released", lambda self, *given: drawn.append(1) or original(self, *given))
    res = model(parquet).fit(seed=5, progress=False, checkpoint=kept)
    assert bits(res) == bits(fitted)
    assert len(drawn) == len(res.rounds) - max(at - before, 0)  # what was released isn't drawn again
    assert not kept.exists()


def test_a_checkpoint_goes_with_persons_and_is_refused_on_other_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = rows().assign(who=np.arange(N) // 3)
    data.to_parquet(path := tmp_path / "rows.parquet")
    made, kept = model(path, id="who", k_max=2), tmp_path / "kept.privreg"
    whole = bits(made.fit(seed=5))
    write = checkpoint._write

    def stopped(stream: Stream, *given: object, **more: object) -> None:
        write(stream, *given, **more)
        if stream._run.noised:
            raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(checkpoint, "_write", stopped)
        with pytest.raises(KeyboardInterrupt, match="the same call goes on"):
            made.fit(seed=5, checkpoint=kept)
    assert bits(made.fit(seed=5, checkpoint=kept)) == whole
    with monkeypatch.context() as m:
        m.setattr(checkpoint, "_write", stopped)
        with pytest.raises(KeyboardInterrupt):
            made.fit(seed=5, checkpoint=kept)
    with pytest.raises(UnsupportedArgumentError, match="remove the checkpoint"):
        made.fit(seed=5, checkpoint=kept, mended=True)
    data.assign(y=0.0).to_parquet(path)
    with pytest.raises(SavedFileError, match="put back the files"):
        model(path, id="who", k_max=2).fit(seed=5, checkpoint=kept)
    with pytest.raises(UnsupportedArgumentError, match="give its path"):
        model().fit(checkpoint=tmp_path / "other.privreg")


# --- privacy ----------------------------------------------------------------------------------------------------


def released(
    data: pd.DataFrame, monkeypatch: pytest.MonkeyPatch, seed: int = 5, **given: object
) -> tuple[CuratorRun, list]:
    """A fit's run, and the exact sums of its rounds."""
    runs, exact = list[CuratorRun](), list[np.ndarray]()
    original = CuratorRun._released

    def recorded(self: CuratorRun, sums: np.ndarray, counts: np.ndarray) -> None:
        runs.append(self)
        exact.append(sums.sum(axis=(0, 1)))
        original(self, sums, counts)

    with monkeypatch.context() as m:
        m.setattr(CuratorRun, "_released", recorded)
        model(data, **given).fit(seed=seed)
    return runs[-1], exact


FAR = [
    {"x": x, "g": g, **y}
    for x in (-1.0, 1.0)
    for g in ("a", "b", "c", None)
    for y in ({"y": -5.0, "b": 0, "c": 0}, {"y": 6.0, "b": 1, "c": 12})
]
"""Rows as far out as declarations allow, and some that can't be used."""


@pytest.mark.parametrize(
    ("response", "given"),
    [("y", {}), ("b", {"family": "logistic"}), ("c", {"family": COUNTS}), ("b", {"family": "logistic", "mu": 0.37})],
)
def test_sums_of_neighbours_are_as_far_apart_as_the_budget_allows(
    response: str, given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In fractions: the sum over rounds of squared distances over variances of noise is mu² at most."""
    run, _ = released(rows(), monkeypatch, formula=f"{response} ~ x + g", **given)
    spec = model(None, f"{response} ~ x + g", **given)._spec
    _, order = aggregate.plan_of(spec, N)
    from privreg.simulation.streaming.encoding import Encoder

    ends = Encoder(spec, order, None, by_column=False).encode(pd.DataFrame(FAR), clamped=True)
    whole = dict.fromkeys(itertools.combinations(range(len(FAR)), 2), Fraction(0))
    for progress in run.chain.history[:-1]:
        state = progress.state
        blocks = [Block(ends.y[i : i + 1], ends.x[i : i + 1], clamped=ends.clamped[i : i + 1])
                  for i in range(len(FAR))]  # fmt: skip
        sums = [by_group(run.plan, state, one, None)[0][0] for one in blocks]
        noise = steps(run.plan, state).bits
        for a, b in whole:
            apart = sum(int(v) ** 2 for v in sums[a] - sums[b])
            assert apart <= lattice.fraction_of(state.mu).p ** 2 * Fraction(
                4**noise, lattice.fraction_of(state.mu).q ** 2
            )
            whole[a, b] += Fraction(apart, 4**noise)
    mu = Fraction(str(HOW["mu"] if "mu" not in given else given["mu"]))
    assert Fraction(0) < max(whole.values()) <= mu**2
    assert max(whole.values()) > mu**2 / 16  # neighbours that nearly use it up, so that a tenth of the noise is caught


def test_rows_of_one_block_are_rounded_together_and_one_row_moves_one_block() -> None:
    run = CuratorRun(aggregate.plan_of(model()._spec, N)[0], None)
    assert lattice.composed([lattice.fraction_of(0.6), lattice.fraction_of(0.8)], lattice.fraction_of(1.0))
    assert not lattice.composed([lattice.fraction_of(0.6), lattice.fraction_of(0.800001)], lattice.fraction_of(1.0))
    assert run.plan.noise.again


@pytest.mark.parametrize("budget", [{"mu": 0.7}, {"mu": UNSET, "epsilon": 1, "delta": 1e-6}, {"mu": UNSET, "rho": 0.1}]
                         if (UNSET := pr.privacy.ledger.UNSET) else [])  # fmt: skip
def test_budgets_of_rounds_add_up_to_that_of_the_fit(
    budget: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, _ = released(rows(), monkeypatch, **budget)
    whole = sum(Fraction(repr(p.state.mu)) ** 2 for p in run.chain.history[:-1])
    asked = model(**budget)._spec.budget.mu
    assert Fraction(asked) ** 2 * Fraction(999, 1000) < whole <= Fraction(asked) ** 2


def test_noise_is_that_of_the_claim_and_half_of_it_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all rounds of several fits: squared noise over its variance follows χ²."""
    squares, numbers = 0.0, 0
    for seed in range(3):
        run, exact = released(rows(), monkeypatch, seed=seed)
        for progress, batch, sums in zip(run.chain.history, run.chain.batches, exact, strict=False):
            sd = steps(run.plan, progress.state).sd
            squares += float((((batch.total - sums) / sd) ** 2).sum())
            numbers += len(sums)
    low, high = chi2.ppf([1e-6, 1 - 1e-6], numbers)
    assert low < squares < high
    assert squares / 4.0 < low


def test_the_audit_passes_and_catches_half_the_noise(fitted: pr.PrivateResults) -> None:
    claim = model(rows(11)).fit().privacy
    seen = claim.verify()
    assert seen.passed
    assert (seen.table["distance"] <= 1.0).all()
    assert seen.table["report"].iloc[0] == "all sums"
    less = replace(claim, mechanics=tuple({**m, "sd": m["sd"] / 2} for m in claim.mechanics))
    assert not less.verify().passed


@pytest.mark.thorough
def test_states_follow_from_published_sums_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace one row: each later state is what the new sums make of it, and no row has another way into it."""
    run, exact = released(rows(), monkeypatch)
    other, changed = released(rows().assign(y=rows()["y"].where(rows().index != 7, 6.0)), monkeypatch)
    for one in (run, other):
        known = begin(full, one.plan)
        for batch, state in zip(one.chain.batches, one.chain.history[1:], strict=True):
            known = known.closed(batch)
            assert known.progress.state.theta.tobytes() == state.state.theta.tobytes()
            assert known.progress.state.mu == state.state.mu
    first = next(k for k, (a, b) in enumerate(zip(exact, changed, strict=False)) if (a != b).any())
    assert run.chain.batches[first].total.tolist() != other.chain.batches[first].total.tolist()
    assert run.chain.history[first].state.theta.tobytes() == other.chain.history[first].state.theta.tobytes()

    def later(one: CuratorRun) -> list[tuple[object, ...]]:
        states = [p.state for p in one.chain.history[first + 1 :]]
        return [(s.rows.tobytes(), s.theta.tobytes(), s.scale, s.y_centre) for s in states]

    assert all(a != b for a, b in zip(later(run), later(other), strict=False))


def test_the_release_is_entered_once_before_the_first_sum_and_few_rows_cost_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    data, spent = pd.DataFrame({name: rows()[name].to_numpy().copy() for name in "xy"}), []
    original = CuratorRun._released
    monkeypatch.setattr(
        CuratorRun, "_released", lambda self, *given: spent.append(LEDGER.spent(data)) or original(self, *given)
    )
    model(data, "y ~ x").fit()
    assert spent == [pytest.approx(1.0)] * len(spent)
    assert LEDGER.spent(data) == pytest.approx(1.0)
    few = data[:100].copy()
    assert [least(d, 1.0) for d in (2, 4)] == [146, 314]
    with pytest.raises(DataError, match="100 rows are too few for 2 coefficients at mu = 1: 146 or more"):
        model(few, "y ~ x").fit()
    assert LEDGER.spent(few) == 0.0


def test_few_rows_are_refused_before_any_is_read_where_their_number_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    read = []
    monkeypatch.setattr(Stream, "read", lambda self, source: read.append(1) or iter([]))
    with pytest.raises(DataError, match="314 or more"):
        model(rows()[:200]).fit()
    assert not read
    with pytest.raises(DataError, match="314 or more"):
        model(iter([rows()[:200]])).fit()
    assert read


def test_the_statement_tells_whom_one_trusts_and_what_rounds_cost() -> None:
    res = model(rows(12)).fit()
    text = " ".join(str(res.privacy).split())
    for words in (
        "1-GDP, hence",
        "one person's whole record, in all rounds",
        "whoever runs this sees all rows; only the noised sums are private",
        "sum(mu_k²) <= mu²",
        "of mu²",
        "which of two possible records was among them",
        "release 1 from these data",
    ):
        assert words in text
    for words in ("collector", "no extra budget", "device"):
        assert words not in text
    assert res.privacy.short == "1-GDP, central"
    assert "rounds, each of all records" in str(res.summary(details=True))


# --- refusals ---------------------------------------------------------------------------------------------------

MODELS: list[tuple[dict[str, object], type[PrivregError], str]] = [
    ({"epsilon": 1, "mu": pr.privacy.ledger.UNSET}, BudgetError, "can't keep pure epsilon"),
    ({"mu": 1e-5}, BudgetError, "mu=0.0001 or more"),
    ({"mu": "w", "mu_max": 1}, UnsupportedArgumentError, "personal budgets is for trust='local'"),
    ({"mechanism": "laplace"}, UnsupportedArgumentError, "is for trust='local'"),
    ({"private": "response"}, UnsupportedArgumentError, "is for trust='local'"),
    ({"score_weights": "unit"}, UnsupportedArgumentError, "is for trust='local'"),
    ({"missing": "drop"}, OptionError, "number of records"),
    ({"id": "k", "max_per_id": 2}, UnsupportedArgumentError, "give k_max="),
    ({"rows": 100}, UnsupportedArgumentError, "a curator counts the rows"),
    ({"cluster": "k", "levels": {"g": ["a", "b", "c"], "k": [1, 2]}}, OptionError, "16 are the fewest"),
]
FITS: list[tuple[dict[str, object], dict[str, object], type[PrivregError], str]] = [
    ({"formula": "y ~ x - 1"}, {}, UnsupportedArgumentError, "needs an intercept"),
    ({"formula": "b ~ x", "family": "hinge"}, {}, UnsupportedArgumentError, r"fit\(tuning='published'\)"),
    ({"formula": "y ~ x", "family": "q_norm"}, {}, UnsupportedArgumentError, r"fit\(tuning='published'\)"),
    ({"formula": "c ~ x", "family": pr.Poisson(y_max=9, c=1.5)}, {}, UnsupportedArgumentError, "needs no c"),
    ({}, {"rounds": 30}, OptionError, "the rounds follow from"),
    ({}, {"covariates": rows(30)}, OptionError, "the rounds follow from"),
    ({}, {"alpha": 0.6}, OptionError, "the rounds follow from"),
    ({}, {"start_params": [0.0] * 4}, OptionError, "second moments give the start"),
    ({}, {"client": "local"}, UnsupportedArgumentError, "with a curator sums are made in this process"),
    ({}, {"inference": "between_lanes"}, InferenceError, "leave it out"),
    ({"cluster": "k"}, {"inference": "sandwich"}, InferenceError, "leave inference="),
    ({"cluster": "k"}, {"measures": 0.1}, OptionError, "leave it out"),
    ({}, {"tuning": "fast"}, OptionError, "'efficient', 'published'"),
    *(
        ({}, {name: value}, UnsupportedArgumentError, rf"{name}= belongs to .*tuning='published'.*leave it out")
        for name, value in {"lanes": 8, "order": "full", "step": 0.1, "batch_size": 5, "epochs": 3, "radius": 2.0,
                            "average": 1.0, "perturbation": "output"}.items()
    ),
    *(
        ({}, {"tuning": "published", name: value}, UnsupportedArgumentError, "is not of the published descent")
        for name, value in {"inference": "sandwich", "measures": 0.1, "rounds": 30, "threads": 2, "alpha": 0.6,
                            "checkpoint": "kept"}.items()
    ),
]  # fmt: skip


@pytest.mark.parametrize(("given", "error", "words"), MODELS)
def test_models_are_refused_by_their_declarations(given: dict[str, object], error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        model(**given)


@pytest.mark.parametrize(("given", "options", "error", "words"), FITS)
def test_fits_are_refused_by_their_options_and_cost_nothing(
    given: dict[str, object], options: dict[str, object], error: type, words: str
) -> None:
    made, before = model(**given), LEDGER.spent(rows())
    with pytest.raises(error, match=words):
        made.fit(**options)
    assert LEDGER.spent(rows()) == before


def test_options_of_the_descent_are_of_no_other_fit() -> None:
    with pytest.raises(UnsupportedArgumentError, match=r"radius= belongs to .* there is one pass"):
        model(trust="two_collectors").fit(radius=2.0)


def test_it_has_no_start_and_the_message_names_what_has() -> None:
    for made in (model(), FIT("y ~ x", None, bounds=HOW["bounds"], mu=1, trust="central")):
        with pytest.raises(UnsupportedArgumentError, match=r"use fit\(\), or trust='two_collectors' for a stream"):
            made.start()
    with pytest.raises(OptionError, match=r"fit\(\) takes it"):
        model().plan(tuning="published")


@pytest.mark.thorough
def test_the_published_descent_is_a_tuning_of_it() -> None:
    given = {"epochs": 20, "seed": 5, "progress": False}
    res = model().fit(tuning="published", **given)
    assert type(res) is pr.central.CentralResults
    other = model(None, "y ~ x - 1", family="absolute").fit(tuning="published", perturbation="output", lanes=1)
    assert other.params.index.tolist() == ["x"]
    assert res.privacy.short == "1-GDP (seeded), central"


# --- plans and the shell ----------------------------------------------------------------------------------------


def test_a_plan_lists_rounds_and_is_simulated(fitted: pr.PrivateResults) -> None:
    plan = model().plan()
    table = plan.rounds
    assert (table["records"] == N).all()
    assert table["role"].iloc[-1] == "main"
    assert "in all rounds" in plan.guarantee
    costs = float(distance2("main", SHARES["cornered, again"], codes.HUBER, 0, 1, scaled=True))
    costs /= table["noise_sd"].iloc[-1] ** 2
    assert 0.5 < costs < 1.0
    assert plan.to_dict()["rounds"]
    assert bits(pr.simulate(plan, rows(), order="position", seed=5)) == bits(fitted)


SHELL = [
    [],
    ["--measures", "0.1"],
    ["--id", "who", "--k-max", "3"],
    ["--weights", "w"],
    ["--cluster", "k"],
    ["--offset", "o"],
    ["--score-weights", "likelihood"],
    ["--inference", "none"],
    ["--threads", "2"],
    ["--tuning", "published"],
]


@pytest.mark.some(1)
@pytest.mark.parametrize("options", SHELL, ids=" ".join)
def test_the_shell_has_it_with_every_option(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    rows().assign(who=np.arange(N) // 3).to_csv(tmp_path / "rows.csv", index=False)
    bounds = [f"{name}={low}:{high}" for name, (low, high) in HOW["bounds"].items()]
    levels = ["g=a,b,c", "k=" + ",".join(map(str, range(40)))]
    kept = [] if "published" in options else ["--checkpoint", str(tmp_path / "kept.privreg")]
    given = ["y ~ x + g", str(tmp_path / "rows.csv"), "--mu", "1", "--trust", "central", *options, *kept]
    code = main(["fit", *given, "--bounds", *bounds, "--levels", *levels, "--out", str(tmp_path / "fit.privreg")])
    assert code == 0, capsys.readouterr().err
    assert "curator" in capsys.readouterr().out
    assert np.isfinite(pr.load(tmp_path / "fit.privreg").params).all()
    assert list(tmp_path.glob("kept*")) == []
