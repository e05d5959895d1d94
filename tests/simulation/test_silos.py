"""Fits of silos that keep their rows: what they find, whose noise is in what, and what they refuse."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from scipy.stats import chi2

import privreg as pr
from privreg.cli.app import main
from privreg.collector.aggregate.chain import full
from privreg.collector.aggregate.report import steps
from privreg.collector.design import begin
from privreg.data.sources.open import Silos
from privreg.errors import BudgetError, DataError, OptionError, PrivregError, SchemaError
from privreg.errors import UnsupportedArgumentError as Unsupported
from privreg.fits import aggregate
from privreg.privacy.ledger import LEDGER
from privreg.protocol import lattice
from privreg.simulation.aggregate import CuratorRun, by_group, keys_of, least
from privreg.simulation.streaming import checkpoint
from privreg.simulation.streaming.encoding import Block, Encoder
from tests.simulation.test_curator import FAR, HOW, MORE, PLAIN, SOURCES, bits, rows

SIZES = {"north": 1_500, "south": 900, "west": 600}
GIVEN = {**HOW, "trust": "silos"}


@cache
def silos(seed: int = 1) -> dict[str, pd.DataFrame]:
    ends = np.cumsum([0, *SIZES.values()])
    return {
        name: rows(seed)[a:b].reset_index(drop=True)
        for name, (a, b) in zip(SIZES, itertools.pairwise(ends), strict=True)
    }


def model(data: object = None, formula: str = "y ~ x + g", **more: object) -> pr.PrivateOnlineRegression:
    return pr.PrivateOnlineRegression.from_formula(formula, silos() if data is None else data, **{**GIVEN, **more})


def together(data: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(data.values(), ignore_index=True)


@pytest.fixture(scope="module")
def fitted() -> pr.PrivateResults:
    return model().fit(seed=5)


# --- estimates --------------------------------------------------------------------------------------------------


@pytest.mark.some(1)
@pytest.mark.parametrize("name", PLAIN)
def test_with_a_large_budget_it_is_statsmodels_fit_of_all_rows(name: str) -> None:
    response, given, fit = PLAIN[name]
    formula = f"{response} ~ x + g"
    res, plain = model(None, formula, mu=1_000, **given).fit(seed=3), fit(formula, rows())
    names = [n.replace("C(g)", "g") for n in res.params.index]
    assert np.abs((res.params.to_numpy() - plain.params[names].to_numpy()) / plain.bse[names].to_numpy()).max() < 0.1
    assert not res.privacy.doubts


@pytest.mark.thorough
def test_without_privacy_it_is_the_curators_fit_of_the_same_rows() -> None:
    for formula, family in (("y ~ x + g", "huber"), ("b ~ x + g", "logistic")):
        here = model(None, formula, family=family, mu=None).fit()
        there = model(rows(), formula, family=family, mu=None, trust="central").fit()
        np.testing.assert_allclose(here.params, there.params, rtol=0, atol=1e-6)
        np.testing.assert_allclose(here.bse, there.bse, rtol=0.01)  # variances are within silos


@pytest.mark.some(1)
@pytest.mark.parametrize("name", MORE)
def test_every_family_and_option_goes_all_the_way(name: str, tmp_path: Path) -> None:
    data = {key: part.assign(who=np.arange(len(part)) // 3) for key, part in silos().items()}
    given = dict(MORE[name])
    made = model(data, **given)
    res = made.fit(seed=5)
    assert np.isfinite(res.params).all(axis=None)
    assert (res.bse > 0).all(axis=None)
    assert "north" in str(res.summary())
    assert made.plan().rows == 3_000 // (3 if given.get("k_max") else 1)
    res.save(tmp_path / "fit.privreg")
    assert bits(pr.load(tmp_path / "fit.privreg")) == bits(res)


def test_silos_may_be_covariates_and_clusters() -> None:
    shifted = {name: part.assign(y=part["y"] + 0.5 * (name == "south")) for name, part in silos().items()}
    plain = smf.rlm("y ~ x + C(silo)", together({n: p.assign(silo=n) for n, p in shifted.items()})).fit()
    res = model(shifted, "y ~ x + C(silo)").fit(seed=5)
    np.testing.assert_array_less(np.abs(res.params - plain.params[res.params.index]), 3.5 * res.bse)
    parts = {f"s{k:02}": rows()[150 * k : 150 * k + 150] for k in range(20)}
    clustered = model(parts, cluster="silo", mu=8).fit(seed=5)
    assert "20 random groups" in str(clustered.summary()) or "groups" in str(clustered.summary())
    assert (clustered.bse > 0).all()


@pytest.mark.thorough
def test_a_level_that_one_silo_alone_has_is_estimated() -> None:
    data = dict(silos())
    data["south"], data["west"] = (data[s].assign(g=data[s]["g"].replace("b", "a")) for s in ("south", "west"))
    plain = smf.rlm("y ~ x + g", together(data)).fit()
    res = model(data).fit(seed=5)
    assert abs(res.params["g[T.b]"] - plain.params["g[T.b]"]) < 3.5 * res.bse["g[T.b]"]


# --- sources ----------------------------------------------------------------------------------------------------


def test_a_path_may_come_before_rows_and_one_path_is_of_one_silo() -> None:
    parts = Silos({"north": "rows.csv", "south": silos()["south"].astype({"g": "string"})}).parts
    assert list(parts) == ["north", "south"]
    with pytest.raises(DataError, match="are the same data"):
        Silos({"north": "rows.csv", "south": Path("rows.csv")})


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", SOURCES)
def test_each_silo_may_hold_its_rows_in_another_way(
    kind: str, fitted: pr.PrivateResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.simulation.test_curator.rows", lambda: silos()["south"])
    assert bits(model({**silos(), "south": SOURCES[kind](tmp_path)}).fit(seed=5)) == bits(fitted)


@pytest.mark.thorough
def test_a_fit_that_stops_between_rounds_ends_in_the_same_bits(
    fitted: pr.PrivateResults, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = {name: tmp_path / f"{name}.parquet" for name in SIZES}
    for name, part in silos().items():
        part.to_parquet(paths[name])
    original, done = checkpoint._write, []

    def stopped(*given: object, **more: object) -> None:
        original(*given, **more)
        done.append(1)
        if len(done) == 4:
            raise KeyboardInterrupt

    with monkeypatch.context() as m:
        m.setattr(checkpoint, "_write", stopped)
        with pytest.raises(KeyboardInterrupt):
            model(paths).fit(seed=5, checkpoint=tmp_path / "kept.privreg")
    assert bits(model(paths).fit(seed=5, checkpoint=tmp_path / "kept.privreg")) == bits(fitted)


# --- privacy ----------------------------------------------------------------------------------------------------


def played(monkeypatch: pytest.MonkeyPatch, data: object = None, seed: int = 5, **given: object) -> tuple:
    """A fit's run, and the exact sums of its rounds, each of shape (silos, numbers)."""
    runs, exact = list[CuratorRun](), list[np.ndarray]()
    original = CuratorRun._released

    def recorded(self: CuratorRun, sums: np.ndarray, counts: np.ndarray) -> None:
        runs.append(self)
        exact.append(sums.sum(axis=1))
        original(self, sums, counts)

    with monkeypatch.context() as m:
        m.setattr(CuratorRun, "_released", recorded)
        model(data, **given).fit(seed=seed)
    return runs[-1], exact


def test_each_silos_own_sum_has_the_noise_of_the_claim_and_half_of_it_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Squared noise over its variance follows χ², silo by silo: none relies on the noise of another."""
    squares, numbers, products = np.zeros(3), 0, np.zeros((3, 3))
    for seed in range(3):
        run, exact = played(monkeypatch, seed=seed)
        for progress, batch, sums in zip(run.chain.history, run.chain.batches, exact, strict=False):
            noise = (batch.total - sums) / steps(run.plan, progress.state).sd
            squares += np.square(noise).sum(axis=1)
            products += noise @ noise.T
            numbers += noise.shape[1]
    low, high = chi2.ppf([1e-6, 1 - 1e-6], numbers)
    assert (low < squares).all()
    assert (squares < high).all()
    assert (squares / 4.0 < low).all()
    unlike = products[np.triu_indices(3, 1)] / np.sqrt(numbers)
    assert (np.abs(unlike) < 5.0).all()


@pytest.mark.parametrize(("response", "given"), [("y", {}), ("b", {"family": "logistic", "mu": 0.7})])
def test_neighbours_in_any_silo_move_its_own_sums_by_no_more_than_the_budget(
    response: str, given: dict[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In fractions: squared distances over variances of the silo's own noise add up to mu² at most."""
    formula = f"{response} ~ x + g"
    run, _ = played(monkeypatch, formula=formula, **given)
    spec = model(None, formula, **given)._spec
    _, order = aggregate.plan_of(spec, 3_000, silos=tuple(SIZES.values()))
    ends = Encoder(spec, order, None, by_column=False).encode(
        {**pd.DataFrame(FAR), "silo": pd.Categorical(["north"] * len(FAR), list(SIZES))}, clamped=True
    )
    whole = dict.fromkeys(itertools.combinations(range(len(FAR)), 2), Fraction(0))
    for progress in run.chain.history[:-1]:
        state = progress.state
        each = [Block(ends.y[i : i + 1], ends.x[i : i + 1], clamped=ends.clamped[i : i + 1])
                for i in range(len(FAR))]  # fmt: skip
        sums = [by_group(run.plan, state, one, None)[0][0] for one in each]
        noise = 4 ** steps(run.plan, state).bits
        for a, b in whole:
            whole[a, b] += Fraction(sum(int(v) ** 2 for v in sums[a] - sums[b]), noise)
    mu = Fraction(str(given.get("mu", 1)))
    assert mu**2 / 16 < max(whole.values()) <= mu**2


def test_budgets_of_rounds_add_up_to_mu_and_states_follow_from_published_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = played(monkeypatch)
    assert Fraction(999, 1000) < sum(Fraction(repr(p.state.mu)) ** 2 for p in run.chain.history[:-1]) <= 1
    assert lattice.composed([lattice.fraction_of(p.state.mu) for p in run.chain.history[:-1]], lattice.fraction_of(1.0))
    known = begin(full, run.plan)
    for batch, state in zip(run.chain.batches, run.chain.history[1:], strict=True):
        known = known.closed(batch)
        assert known.progress.state.theta.tobytes() == state.state.theta.tobytes()


def test_a_silos_sum_depends_on_its_rows_and_key_and_published_states_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    run, _ = played(monkeypatch)
    changed = {**silos(), "west": silos()["west"].assign(y=99.0)}
    other, _ = played(monkeypatch, changed)
    np.testing.assert_array_equal(run.chain.batches[0].total[:2], other.chain.batches[0].total[:2])
    assert (run.chain.batches[0].total[2] != other.chain.batches[0].total[2]).any()
    whole, keys = b"k" * 32, []
    for name in SIZES:
        keys.append(keys_of(whole, (name,)))
        assert keys[-1] != whole
    assert keys_of(whole, tuple(SIZES)) == b"".join(keys)
    assert len(set(keys)) == 3


def test_a_silos_size_says_what_its_records_weigh() -> None:
    """Equation (48): the weighted sum of all silos has mean weight 1, and large silos have more of it."""
    plan, _ = aggregate.plan_of(model()._spec, 3_000, silos=tuple(SIZES.values()))
    weights, sizes = plan.noise.weights, np.array(list(SIZES.values()))
    assert weights @ sizes == pytest.approx(3_000)
    assert (np.diff(weights) < 0).all()
    np.testing.assert_allclose(
        weights, weights[0] * (sizes / (sizes + plan.noise.crowd)) * (1_500 + plan.noise.crowd) / 1_500
    )
    assert plan.noise.adders == pytest.approx(float(weights @ weights))
    gone = plan.noise._replace(came=(1_500, 0, 600))
    assert gone.weights[1] == 0.0
    assert gone.adders == pytest.approx(float(np.square(gone.weights).sum()))


@pytest.mark.thorough
def test_a_silo_that_drops_out_widens_intervals_and_moves_the_target_to_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run, _ = played(monkeypatch, mu=None)
    known = begin(full, run.plan)
    for batch in run.chain.batches:
        silent = batch._replace(total=batch.total.copy(), weight=np.array([1_500, 0, 600]), people=2_100)
        silent.total[1] = 0
        known = known.closed(silent)
    from privreg.collector.aggregate.estimate import estimate

    gone, whole = estimate(run.plan, known.progress), estimate(run.plan, run.progress)
    assert gone is not None
    assert whole is not None
    assert np.isfinite(gone.theta).all()
    assert (gone.theta != whole.theta).any()


def test_the_release_is_entered_once_for_each_silos_people(monkeypatch: pytest.MonkeyPatch) -> None:
    data = {name: part[["x", "y"]].copy() for name, part in silos(2).items()}
    spent = []
    original = CuratorRun._released
    monkeypatch.setattr(
        CuratorRun,
        "_released",
        lambda self, *given: spent.append([LEDGER.spent(d) for d in data.values()]) or original(self, *given),
    )
    model(data, "y ~ x").fit()
    assert spent == [[pytest.approx(1.0)] * 3] * len(spent)
    assert [LEDGER.spent(d) for d in data.values()] == [pytest.approx(1.0)] * 3
    model({"north": data["north"]}, "y ~ x").fit()
    assert LEDGER.spent(data["north"]) == pytest.approx(2**0.5)
    assert LEDGER.spent(data["south"]) == pytest.approx(1.0)


def test_a_person_in_two_silos_is_two_people_of_one_id() -> None:
    data = {name: part.assign(who=np.arange(len(part))) for name, part in silos().items()}
    ids = model(data, id="who", k_max=2).fit(seed=5)
    assert ids.nobs == 3_000  # and not the ids that differ


def test_the_statement_tells_against_whom_people_are_protected(fitted: pr.PrivateResults) -> None:
    text = " ".join(f"{model().fit().privacy} {fitted.summary(details=True)}".split())
    for words in (
        "1-GDP",
        "against everybody outside the person's silo",
        "A person's own silo sees their record",
        "sqrt(q) times mu",
        "north 1,500, south 900, west 600",
        "3 silos: ",
    ):
        assert words in text
    assert fitted.privacy.short == "1-GDP (seeded), silos"
    assert model(rows(13).pipe(lambda d: {"a": d[:1500], "b": d[1500:]})).fit().privacy.verify().passed


# --- refusals ---------------------------------------------------------------------------------------------------

WRONG: dict[str, tuple[object, dict[str, object], type[PrivregError], str]] = {
    "one table": (rows(), {}, DataError, "a mapping of silos' names"),
    "a list": ([rows()], {}, DataError, "a mapping of silos' names"),
    "one table twice": ({"west": (one := rows()), "south": one}, {}, DataError, "'west' and 'south' are the same"),
    "one file twice": ({"north": "a.csv", "south": "a.csv"}, {}, DataError, "'north' and 'south' are the same"),
    "no silo": ({}, {}, DataError, "a mapping of silos' names"),
    "no data": (3, {}, DataError, "a mapping of silos' names"),
    "a number for a name": ({1: rows()}, {}, DataError, "a mapping of silos' names"),
    "an empty name": ({" ": rows()}, {}, DataError, "a mapping of silos' names"),
    "no rows in a silo": ({"north": rows(), "south": rows()[:0]}, {}, DataError, "south"),
    "a missing column": ({"north": rows(), "south": rows().drop(columns="x")}, {}, DataError, "silo 'south': .*'x'"),
    "no file": ({"north": "nowhere.parquet"}, {}, DataError, "silo 'north'"),
    "too few rows": ({"north": rows()[:200], "south": rows()[200:300]}, {}, DataError, "300 rows in 2 silos"),
    "a column of its own": (
        {"north": rows().assign(silo=1)}, {"formula": "y ~ x + C(silo)"}, DataError, "has a column 'silo'"
    ),
    "other levels of silos": (
        None, {"formula": "y ~ x + C(silo)", "levels": {"silo": ["north", "east"]}}, SchemaError, "levels of 'silo'"
    ),
    "a silo as a number": (
        None, {"formula": "y ~ x + silo", "bounds": {**HOW["bounds"], "silo": (0, 1)}}, SchemaError, "levels of 'silo'"
    ),
    "a dataset of no silo": (None, {"dataset": {"east": "survey"}}, OptionError, "no silo of the data"),
    "another trust": (None, {"trust": "two_collectors"}, Unsupported, "is data by silo: .* trust='silos'"),
    "pure budget": (None, {"mu": pr.privacy.ledger.UNSET, "epsilon": 1}, BudgetError, "can't keep pure epsilon"),
    "a tiny budget": (None, {"mu": 1e-5}, BudgetError, "mu=0.0001 or more"),
    "personal budgets": (None, {"mu": "w", "mu_max": 1}, Unsupported, "is for trust='local'"),
    "laplace": (None, {"mechanism": "laplace"}, Unsupported, "is for trust='local'"),
    "responses alone": (None, {"private": "response"}, Unsupported, "is for trust='local'"),
    "dropped records": (None, {"missing": "drop"}, OptionError, "number of records, which is public with silos"),
    "rows": (None, {"rows": 100}, Unsupported, "each silo counts the rows"),
    "leaks": (None, {"allow_leak": "scale"}, Unsupported, "which silos keep"),
    "few silos as clusters": (None, {"cluster": "silo"}, OptionError, "16 are the fewest"),
    "no intercept": (None, {"formula": "y ~ x - 1"}, Unsupported, "needs an intercept"),
    "hinge": (None, {"formula": "b ~ x", "family": "hinge"}, Unsupported, "trust='local'"),
    "a descent's loss": (None, {"formula": "y ~ x", "family": "q_norm"}, PrivregError, "q_norm"),
    "learned from rows": (None, {"formula": "y ~ center(x)"}, PrivregError, "center"),
    "no such column": (None, {"formula": "y ~ zz"}, DataError, "'zz' is missing"),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_bad_inputs_are_refused_by_name_and_cost_nothing(name: str) -> None:
    data, given, error, words = WRONG[name]
    with pytest.raises(error, match=words) as found:
        model(data, **given).fit()
    assert "silos" in words or not any(f"{v:.6f}" in str(found.value) for v in rows()["y"][:50])
    for part in silos().values() if data is None else ():
        LEDGER.spent(part)


FITS: dict[str, tuple[dict[str, object], type[PrivregError], str]] = {
    "rounds": ({"rounds": 30}, OptionError, "the rounds follow from"),
    "alpha": ({"alpha": 0.6}, OptionError, "the rounds follow from"),
    "published": ({"tuning": "published"}, PrivregError, "tuning"),
    "inference": ({"inference": "between_lanes"}, PrivregError, "leave it out"),
    "start": ({"start_params": [0.0] * 4}, OptionError, "second moments give the start"),
    "order": ({"order": "position"}, Unsupported, "order="),
    "step": ({"step": 0.5}, Unsupported, "step="),
    "batches": ({"batch_size": 64}, Unsupported, "batch_size="),
    "lanes": ({"lanes": 8}, PrivregError, "lanes="),
    "descent": ({"epochs": 3}, PrivregError, "epochs="),
}


@pytest.mark.parametrize("name", FITS)
def test_fits_are_refused_by_their_options_and_cost_nothing(name: str) -> None:
    options, error, words = FITS[name]
    before = [LEDGER.spent(part) for part in silos().values()]
    with pytest.raises(error, match=words):
        model().fit(**options)
    assert [LEDGER.spent(part) for part in silos().values()] == before


def test_it_is_of_formulas_and_has_no_start() -> None:
    with pytest.raises(Unsupported, match="use fit"):
        model().start()
    with pytest.raises(Unsupported, match="is for formulas"):
        pr.PrivateOnlineRegression(rows()["y"], rows()[["x"]], trust="silos", mu=1, bounds=HOW["bounds"])
    assert least(4, 1.0, 4) == 2 * least(4, 1.0) - 1  # rounded up: with the root of their number


# --- plans and the shell ----------------------------------------------------------------------------------------


def test_a_plan_lists_rounds_and_is_simulated(fitted: pr.PrivateResults) -> None:
    plan = model().plan()
    assert (plan.rounds["records"] == 3_000).all()
    assert "against everybody outside the person's silo" in " ".join(str(plan).split())
    assert plan.to_dict()["rounds"]


@pytest.mark.some(1)
@pytest.mark.parametrize("options", [[], ["--measures", "0.1"], ["--weights", "w"], ["--sep", ","]], ids=" ".join)
def test_the_shell_takes_a_file_of_each_silo(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    for name, part in silos().items():
        part.to_csv(tmp_path / f"{name}.csv", index=False)
    files = ",".join(f"{name}={tmp_path / name}.csv" for name in SIZES)
    given = ["--mu", "1", "--trust", "silos", "--bounds", "x=-1:1", "y=-5:6", "w=0:2", "--levels", "g=a,b,c", *options]
    assert main(["fit", "y ~ x + g", files, *given, "--out", str(tmp_path / "fit.privreg")]) == 0
    assert "north 1,500, south 900, west 600" in " ".join(capsys.readouterr().out.split())
    assert np.isfinite(pr.load(tmp_path / "fit.privreg").params).all()
    for wrong in (str(tmp_path / "north.csv"), f"{files},north={tmp_path}/south.csv", "north="):
        assert main(["fit", "y ~ x + g", wrong, *given]) == 2
        assert "north=north.csv,south=south.csv" in capsys.readouterr().err
