"""The front door of fits with two collectors: what it fits, says, saves and refuses."""

from __future__ import annotations

import itertools
import math
import pickle
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf

import privreg as pr
from privreg.audit.reports import trials
from privreg.collector.aggregate import report
from privreg.collector.aggregate.report import steps
from privreg.collector.aggregate.rounds import begin
from privreg.errors import (
    BudgetError,
    InferenceError,
    OptionError,
    ReliabilityWarning,
    StreamError,
    UnsupportedArgumentError,
)
from privreg.fits.aggregate import plan_of
from privreg.privacy.budget import Budget
from privreg.privacy.noise import derived_key
from tests.kinds import KINDS

N = 6_000
HOW = {
    "bounds": {"x": (-4, 4), "z": (0, 10), "y": (-6, 9)},
    "levels": {"g": ["a", "b", "c"]},
    "mu": 1,
    "trust": "two_collectors",
}
FIT = pr.PrivateOnlineRegression.from_formula


def rows(seed: int, n: int = N) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"x": rng.normal(0, 1, n), "g": rng.choice(["a", "b", "c"], n), "z": rng.uniform(0, 10, n)})
    out["y"] = 1 + 0.5 * out["x"] - 0.3 * (out["g"] == "b") + 0.2 * out["z"] + rng.normal(0, 1, n)
    out["b"] = (out["y"] > 2).astype(int)
    return out


def model(data: object = None, formula: str = "y ~ x + g + z", **more: object) -> pr.PrivateOnlineRegression:
    return FIT(formula, data, **{**HOW, **more})


@pytest.fixture(scope="module")
def fitted():
    return model(rows(1)).fit(seed=5)


@pytest.mark.thorough
def test_it_finds_what_statsmodels_finds_on_the_same_rows(fitted) -> None:
    plain = smf.rlm("y ~ x + g + z", rows(1)).fit()
    apart = (fitted.params - plain.params.reindex(fitted.params.index)) / fitted.bse
    assert np.abs(apart).max() < 4.0
    assert (fitted.bse / plain.bse.reindex(fitted.bse.index)).max() < 2.0


def test_a_model_without_any_bounds_is_fitted() -> None:
    """Nothing can be clamped, and records still say whether they can be used."""
    res = FIT("b ~ g", rows(2), family="logistic", levels={"g": ["a", "b", "c"]}, mu=1, trust="two_collectors").fit()
    assert res.rounds["role"].tolist()[0] == "clamping"
    assert np.isfinite(res.bse).all()


@pytest.mark.thorough
def test_results_answer_as_those_of_local_fits(fitted, tmp_path: Path) -> None:
    assert fitted.nobs == N
    assert fitted.rounds["role"].tolist()[-1] == "main"
    assert fitted.rounds["records"].sum() == N
    assert fitted.wald_test_terms().table.shape[0] == 4
    assert len(fitted.t_test_pairwise("g").result_frame) == 3
    new = rows(77, 5)
    assert np.isfinite(fitted.get_prediction(new).summary_frame()).all().all()
    assert fitted.trajectory()["n"].max() == N
    target = tmp_path / "fit.privreg"
    fitted.save(target)
    loaded = pr.load(target)
    pd.testing.assert_series_equal(loaded.params, fitted.params)
    assert loaded.privacy.guarantee == fitted.privacy.guarantee
    pd.testing.assert_series_equal(loaded.estimand(rows(8)), fitted.estimand(rows(8)))


@pytest.mark.thorough
def test_the_estimand_is_statsmodels_own_on_the_same_public_rows(fitted) -> None:
    """Weights bind for fewer than 1% of the records, so that the root is RLM's to a small part of its error."""
    public = rows(9, 40_000)
    plain = smf.rlm("y ~ x + g + z", public).fit()
    apart = (fitted.estimand(public) - plain.params.reindex(fitted.params.index)) / plain.bse
    assert np.abs(apart).max() < 0.5


def test_the_statement_has_three_guarantees() -> None:
    said = str(model(rows(21)).fit().privacy)
    assert "1-GDP" in said
    assert "against either collector" in said
    assert "count for nothing, and neither collector sees which" in " ".join(said.split())
    assert "noise only" not in said
    assert "0.7072-GDP" in said
    assert "no guarantee" in said
    assert "two collectors" in said


def test_no_guarantee_is_claimed_for_a_seed_or_beside_what_was_taken_from_the_rows() -> None:
    seeded = model(rows(22)).fit(seed=1).privacy
    for words in (seeded.guarantee, seeded.everybody_else):
        assert words.startswith("NONE as run, because of seed=; with secret noise")
    took = replace(seeded, seeded=False, leaked=("levels",))
    for words in (took.guarantee, took.everybody_else):
        assert words.endswith("except for levels, taken from the raw data without any privacy")
    none = model(rows(23), mu=None).fit().privacy
    assert "GDP" not in str(none)
    assert "the sums carry no noise" in str(none.notes[0])


@pytest.mark.parametrize("formula", ["c ~ x", "y ~ x"])
def test_no_value_of_a_record_makes_a_warning(formula: str) -> None:
    """Means that underflow beside a count, and offsets whose square overflows."""
    data = rows(24, 600).assign(c=1, o=0.0)
    data["y"] *= 1e-80
    data.loc[::10, "o"] = -1e99
    bounds = {**HOW["bounds"], "y": (-6e-80, 9e-80), "c": (0, 15), "o": (-1e99, 1e99)}
    family = pr.Poisson(y_max=15) if formula[0] == "c" else "huber"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ReliabilityWarning)
        assert model(data, formula, family=family, offset="o", bounds=bounds).fit().nobs == 600


def test_noise_that_isnt_small_beside_the_modulus_is_refused() -> None:
    """Whole numbers of 64 bits can't hold it; what they can't hold is one and the same number, and hides nobody."""
    with pytest.raises(BudgetError, match="give a larger one"):
        model(rows(25), mu=5e-10)
    data = rows(25, 600)
    for seed in range(8):  # variances are sums of squares: none below 0 by rounding
        assert (model(data, mu=1e-9).fit(seed=seed).bse > 0.0).all()


def test_the_release_is_entered_before_the_first_report() -> None:
    data = rows(31)
    model(data).fit()
    pr.limit_spending(1.2)
    try:
        with pytest.raises(BudgetError):
            model(data).fit()
    finally:
        pr.limit_spending(None)
    assert model(data).fit().privacy.release.total_mu == pytest.approx(math.sqrt(2.0))


@pytest.mark.thorough
def test_a_seed_gives_the_same_bits_whatever_threads_and_batches() -> None:
    data = rows(41)
    first = model(data).fit(seed=2, threads=1, order="position").params
    second = model(data).fit(seed=2, threads=2, order="position").params
    stream = model(rows=N).start(seed=2)
    for a in range(0, N, 700):
        stream.update(data.iloc[a : a + 700])
    assert (first == second).all()
    assert (stream.results().params == first).all()
    assert "NOT PRIVATE AS RUN" in str(model(data).fit(seed=2).summary())


@pytest.mark.thorough
def test_a_stream_goes_on_and_results_close_a_batch(tmp_path: Path) -> None:
    data, more = rows(51), rows(52, 900)
    stream = model(rows=N).start(seed=3)
    stream.update(data)
    before = stream.results()
    assert stream.results().params.equals(before.params)  # nobody came: no further batch
    stream.update(more)
    after = stream.results()
    assert after.rounds["role"].tolist()[-2:] == ["main", "main"]
    assert after.nobs == N + 900
    target = tmp_path / "stream.privreg"
    stream.save(target)
    assert pr.load(target).results().params.equals(after.params)


def test_an_open_early_round_has_no_results_and_is_never_stored(tmp_path: Path) -> None:
    stream = model(rows=N).start()
    stream.update(rows(61, 300))
    with pytest.raises(InferenceError, match="early rounds"):
        stream.results()
    with pytest.raises(StreamError, match="more records, which end it"):
        stream.save(tmp_path / "early.privreg")
    with pytest.raises(TypeError, match="secret key"):
        pickle.dumps(stream._run)


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        ({"mu": pr.privacy.ledger.UNSET, "epsilon": 1.0}, BudgetError, "pure epsilon"),
        ({"mechanism": "laplace"}, UnsupportedArgumentError, "Gaussian"),
        ({"private": "response"}, UnsupportedArgumentError, "private="),
        ({"score_weights": "unit"}, UnsupportedArgumentError, "score_weights"),
        ({"id": "p", "max_per_id": 2}, UnsupportedArgumentError, "one report"),
        ({"bounds": {"x": (-4, 4)}, "scaling": "private"}, UnsupportedArgumentError, "needs public bounds"),
    ],
)
def test_what_belongs_to_local_reports_is_refused_by_the_model(given: dict, error: type, words: str) -> None:
    with pytest.raises(error, match=words):
        model(rows(71).assign(p=1), **given)


@pytest.mark.parametrize(
    "given",
    [
        *({"lanes": 8}, {"tuning": "published"}, {"rounds": 30}, {"start_params": np.zeros(5)}),
        *({"rounds": 5}, {"lanes": np.zeros(3)}),  # out of range where they belong, which is no matter here
    ],
    ids=str,
)
def test_what_belongs_to_local_fits_is_refused_by_name(given: dict) -> None:
    with pytest.raises(OptionError, match=f"{next(iter(given))}= belongs to trust='local'"):
        model(rows(81)).fit(**given)


OWN = KINDS["custom"].family
STEEP = pr.families.custom("own", lambda eta, y: math.tanh(eta - y), 1.0, slope=1.0)


@pytest.mark.parametrize(
    ("family", "words"), [("hinge", r"SmoothedHinge\(\), Logistic\(\)"), (OWN, r"custom\(\.\.\., slope=\)")], ids=str
)
def test_a_score_without_slopes_is_refused_by_the_model(family: object, words: str) -> None:
    """It once failed in the midst of the rounds, by a ValueError, with the budget entered."""
    people = rows(85)
    with pytest.raises(UnsupportedArgumentError, match=words):
        model(people, ("b" if family == "hinge" else "y") + " ~ x + z", family=family)
    assert "release 1 " in str(model(people, "y ~ x").fit(seed=1).privacy)


def test_reports_of_too_many_numbers_are_refused_by_name() -> None:
    """A share holds 64 KB; of 5 levels and 24 columns it would have 6,096 numbers."""
    levels = {"w": [f"w{k}" for k in range(5)], "k": [f"k{k}" for k in range(24)]}
    given = {"family": "multinomial", "bounds": {}, "rows": 10_000}
    with pytest.raises(UnsupportedArgumentError, match="merge levels of the response"):
        model(None, "w ~ k", levels=levels, **given)
    plan = model(None, "w ~ k", levels={**levels, "k": levels["k"][:23]}, **given).plan()
    assert plan.rounds["numbers"].max() == 5_612


def test_a_refused_option_says_why_two_collectors_have_no_use_for_it() -> None:
    with pytest.raises(OptionError, match="the rounds follow"):
        model(rows(86)).fit(rounds=30)


def test_other_intervals_streams_of_unknown_length_and_clusters_are_refused() -> None:
    with pytest.raises(InferenceError, match="sandwich"):
        model(rows(82)).fit(inference="batch_means")
    with pytest.raises(OptionError, match="rows="):
        model(iter([rows(83)])).fit()
    with pytest.raises(UnsupportedArgumentError, match="client="):
        model(rows(84)).fit(client="local")


FAMILIES = ["huber", pr.Huber(1.345, scale=1.0), "squared", pr.Quantile(0.5), pr.Expectile(0.7), STEEP, "logistic"]


@pytest.mark.some(1)
@pytest.mark.parametrize("family", FAMILIES, ids=str)
def test_every_family_of_one_predictor_is_fitted(family: object) -> None:
    binary = family == "logistic"
    res = model(rows(91), "b ~ x + z" if binary else "y ~ x + z", family=family).fit(seed=4)
    assert (res.params[["x", "z"]] > 0).all()
    marks = {note.code for note in res.privacy.doubts if not res.tidy()["reliable"].all()}
    assert marks <= ({"weights"} if family == "squared" else set())  # of larger noise fewer rows count whole
    moved = res.params - res.estimand(rows(92, 20_000))
    assert np.abs(moved / res.bse).max() < 4.5


@pytest.mark.thorough
def test_without_privacy_it_is_the_estimator_without_noise() -> None:
    data = rows(95, 3_000)
    plain = smf.rlm("y ~ x + z", data).fit()
    res = model(data, "y ~ x + z", mu=None).fit()
    assert "NOT PRIVATE" in str(res.summary())
    assert np.abs((res.params - plain.params.reindex(res.params.index)) / plain.bse).max() < 1.0


def test_a_record_that_cannot_be_used_changes_nothing_but_its_own_report() -> None:
    data = rows(97)
    data.loc[::10, "x"] = np.nan
    data.loc[1::10, "g"] = "elsewhere"
    res = model(data).fit(seed=1)
    assert res.nobs == N
    assert np.abs(res.params["z"] - 0.2) < 5 * res.bse["z"]


@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_offsets_make_no_distance_smaller(trust: str) -> None:
    """Of logistic scores it is smaller where coefficients are, but for an offset or several rows of a person."""
    data = rows(97).assign(o=0.5, who=np.arange(N) // 2)
    for more, smaller in (({}, True), ({"offset": "o"}, False), ({"id": "who", "k_max": 2}, False)):
        bounds = {**HOW["bounds"], **({"o": (0.0, 1.0)} if "offset" in more else {})}
        made = model(data, "b ~ x + z", family="logistic", bounds=bounds, trust=trust, **more)
        plan, _ = plan_of(made._spec, N)
        state = begin(plan).state._replace(role="main", theta=np.zeros(plan.size))
        assert (plan.distance2("main", state) < plan.distance2("main")) == smaller
        assert (plan.distance2("main") == 4) == ("k_max" in more)


def test_the_audit_sees_a_collector_that_adds_half_the_noise() -> None:
    res = model(rows(98)).fit(seed=1)
    assert res.privacy.verify(n=4_000).passed
    for m in res.privacy.mechanics:
        m["sd"] *= 0.5
    lower = []
    for trial in trials(res.privacy.mechanics, Budget.declare(1.0)):
        lower.append(trial.distance)
    assert max(lower) > 1.5
    assert not res.privacy.verify(n=4_000).passed


def test_the_audit_runs_the_code_that_adds_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    res = model(rows(98)).fit(seed=1)
    right = report.with_noise
    monkeypatch.setattr(report, "with_noise", lambda exact, sd, drawn: right(exact, 0.5 * sd, drawn))
    assert not res.privacy.verify(n=4_000).passed


def test_results_after_each_person_are_sums_of_one_person_with_noise_of_their_own() -> None:
    stream = model(rows=N).start()
    stream.update(rows(99))
    stream.results()
    for k in range(3):
        stream.update(rows(100 + k, 1))
        found = stream.results()
        assert np.isfinite(found.bse).all()
        assert stream.results().params.equals(found.params)
    run = stream._run
    totals = [b.total for b in run.chain.batches[-3:]]
    assert [b.people for b in run.chain.batches[-3:]] == [1, 1, 1]
    sd = steps(run.plan, "main").sd
    for a, b in itertools.combinations(totals, 2):
        assert np.std(a - b) > sd  # twice that if their noise is of their own, none if it is one and the same


@pytest.mark.parametrize("place", ["total", "noised"])
def test_an_interrupted_batch_is_never_added_to_or_published_again(monkeypatch, tmp_path: Path, place: str) -> None:
    def cut_off(*_: object) -> None:
        raise KeyboardInterrupt

    stream = model(rows=N).start()
    with monkeypatch.context() as patch:
        patch.setattr(f"privreg.simulation.aggregate.{place}", cut_off)
        with pytest.raises(KeyboardInterrupt):
            stream.update(rows(26, 1_000))
    for call in (lambda: stream.update(rows(27, 10)), stream.results, lambda: stream.save(tmp_path / "s.privreg")):
        with pytest.raises(StreamError, match="interrupted"):
            call()
    assert not list(tmp_path.iterdir())


def test_no_report_is_farther_from_another_than_its_noise_is_made_for(fitted) -> None:
    for trial in trials(fitted.privacy.mechanics, Budget.declare(1.0)):
        assert trial.distance <= 1.0 + 1e-9


@pytest.mark.thorough
def test_a_plan_lists_the_rounds_that_a_fit_holds(fitted) -> None:
    plan = model(rows(1)).plan()
    table = plan.rounds
    held = fitted.rounds
    assert set(held["role"]) <= set(table["role"])
    for role in ("clamping", "location"):
        planned = table.loc[table["role"] == role, "records"].item()
        assert planned == held.loc[held["role"] == role, "records"].item()
    assert "against either collector" in " ".join(repr(plan).split())
    assert pr.simulate(plan, rows(99)).nobs == N


def test_nobody_sees_a_raw_sum_in_what_is_printed() -> None:
    stream = model(rows=N).start()
    stream.update(rows(11, 50))
    assert "without noise" in repr(stream._run.raw)
    with pytest.raises(TypeError):
        pickle.dumps(stream._run.raw)


def test_each_collector_and_each_batch_has_noise_of_its_own() -> None:
    """Nobody's report is anything but zero here, so that a published sum is noise alone."""
    nothing = rows(12).assign(x=np.nan)
    stream = model(rows=N).start()
    stream.update(nothing)
    run = stream._run
    run.close()
    sums = [b.total / steps(run.plan, p.state).sd for b, p in zip(run.chain.batches, run.chain.history, strict=False)]
    drawn = np.concatenate(sums)
    assert drawn.std() == pytest.approx(math.sqrt(2.0), rel=5 / math.sqrt(2 * len(drawn)))
    for a, b in itertools.combinations(sums, 2):
        k = min(len(a), len(b))
        assert not np.isclose(a[:k], b[:k]).any()


@pytest.mark.thorough
def test_bounds_that_clamp_many_are_noted_and_mark_what_they_bias() -> None:
    res = model(rows(13), bounds={**HOW["bounds"], "y": (-6, 2)}).fit(seed=1)
    assert not res.tidy()["reliable"].any()
    assert "bounds of y clamp" in str(res.summary())
    assert "counted, with noise, among" in " ".join(str(res.privacy).split())


def test_records_that_could_not_be_used_are_estimated() -> None:
    data = rows(14)
    data.loc[data.index[::2], "g"] = "elsewhere"
    said = model(data).fit(seed=1)
    (note,) = (note for note in said.privacy.notes if note.code == "unusable")
    assert "counted for nothing" in str(note)
    assert "Unusable" in str(said.summary())


def test_a_key_whose_noise_is_published_is_forgotten() -> None:
    """Else whoever takes the key of a stream's file could take the noise off its published sums."""
    stream = model(rows=N).start()
    first = stream._run.key
    stream.update(rows(15, 1_000))
    assert stream._run.key not in {first, None}
    for _ in stream._run.chain.batches:
        first = derived_key(first, "following")
    assert stream._run.key == first


# --- several levels, measures ------------------------------------------------------------------------------------

CHOICE = {"levels": {**HOW["levels"], "w": ["u", "v", "w"]}, "family": "multinomial"}


def chosen(seed: int, n: int = N) -> pd.DataFrame:
    rng, out = np.random.default_rng(seed), rows(seed, n)
    eta = np.column_stack([np.zeros(n), 0.3 + 0.6 * out["x"], 0.1 - 0.5 * out["x"] - 0.5 * (out["g"] == "b")])
    return out.assign(w=np.array(["u", "v", "w"])[(eta + rng.gumbel(size=eta.shape)).argmax(axis=1)])


@pytest.fixture(scope="module")
def levels():
    return model(chosen(3), "w ~ x + g", **CHOICE).fit(seed=2)


def test_several_levels_are_fitted_as_statsmodels_fits_them(levels) -> None:
    people = chosen(3)
    plain = smf.mnlogit("c ~ x + g", people.assign(c=people["w"].map({"u": 0, "v": 1, "w": 2}))).fit(disp=0)
    theirs, errors = (t.loc[levels.params.index].to_numpy() for t in (plain.params, plain.bse))
    assert levels.params.columns.tolist() == ["v", "w"]
    assert np.abs((levels.params.to_numpy() - theirs) / levels.bse.to_numpy()).max() < 4.0
    assert (levels.bse.to_numpy() / errors).max() < 2.0
    apart = (levels.estimand(people).to_numpy() - theirs) / errors  # weights bind for few
    assert np.abs(apart).max() < 0.3


@pytest.mark.thorough
def test_results_of_several_levels_are_those_of_local_fits(levels, tmp_path: Path) -> None:
    local = model(chosen(4), "w ~ x + g", **{**CHOICE, "trust": "local"}).fit(seed=2)
    assert levels.params.index.equals(local.params.index)
    assert levels.cov_params().index.equals(local.cov_params().index)
    assert levels.conf_int().index.equals(local.conf_int().index)
    assert levels.tidy()["term"].equals(local.tidy()["term"])
    new = chosen(77, 5)
    shares = levels.predict(new)
    assert shares.columns.tolist() == ["u", "v", "w"]
    assert shares.sum(axis=1).to_numpy() == pytest.approx(np.ones(5))
    assert levels.wald_test_terms().table.index.tolist() == local.wald_test_terms().table.index.tolist()
    assert np.isfinite(levels.t_test("v:x = w:x").pvalue)
    assert "baseline w=u" in str(levels.summary())
    assert "balanced" not in str(levels.summary())
    assert pr.compare([levels, local]).to_markdown()
    target = tmp_path / "levels.privreg"
    levels.save(target)
    loaded = pr.load(target)
    pd.testing.assert_frame_equal(loaded.params, levels.params)
    pd.testing.assert_frame_equal(loaded.estimand(chosen(8)), levels.estimand(chosen(8)))
    for trial in trials(levels.privacy.mechanics, Budget.declare(1.0)):
        assert trial.distance <= 1.0 + 1e-9


@pytest.mark.thorough
def test_two_levels_are_a_logistic_fit() -> None:
    people = rows(5).assign(w=lambda d: np.where(d["b"] == 1, "v", "u"))
    two = {**CHOICE, "levels": {**HOW["levels"], "w": ["u", "v"]}}
    both = [model(people, "w ~ x", **{**two, "family": f}).fit(seed=1).params for f in ("multinomial", "logistic")]
    assert both[0].to_numpy().ravel() == pytest.approx(both[1].to_numpy())


@pytest.mark.thorough
def test_a_smoothed_hinge_is_fitted() -> None:
    res = model(rows(91), "b ~ x + z", family=pr.SmoothedHinge()).fit(seed=4)
    moved = res.params - res.estimand(rows(92, 20_000))
    assert np.abs(moved / res.bse).max() < 4.5


MEASURED = {
    "huber": "y ~ x + z",
    "squared": "y ~ x + z",
    "quantile": "y ~ x + z",
    "logistic": "b ~ x + z",
    "smoothed_hinge": "b ~ x + z",
    "multinomial": "w ~ x + g",
}


@pytest.mark.some(2)
@pytest.mark.parametrize("family", MEASURED)
def test_measures_are_those_of_the_last_records_and_have_their_standard_errors(family: str) -> None:
    people = chosen(6)
    given = {**CHOICE, "family": family}
    exact = model(people, MEASURED[family], **given, **{"mu": None}).fit(measures=0.3, order="position", threads=1)
    noisy = model(people, MEASURED[family], **given).fit(measures=0.3, seed=3, order="position", threads=1)
    right = exact.evaluate(people.iloc[-int(0.3 * N) :].copy()).set_index("measure")["value"]
    table = exact.fit_measures.set_index("measure")
    for name in set(table.index) & set(right.index):
        assert table["estimate"][name] == pytest.approx(right[name], abs=0.02)  # clipped at three sd
    both = noisy.fit_measures.set_index("measure")
    apart = (both["estimate"] - table["estimate"]) / both["std_error"]
    assert np.abs(apart).max() < 4.0
    assert (both["std_error"] > table["std_error"]).all()
    assert noisy.rounds["role"].tolist()[-2:] == ["main", "measures"]
    assert noisy.rounds["records"].tolist()[-1] == int(0.3 * N)
    assert f"from {int(0.3 * N):,} records instead of a score" in " ".join(str(noisy.privacy).split())
    planned = model(people, MEASURED[family], **given).plan(measures=0.3).rounds
    assert planned["role"].tolist()[-1] == "measures"
    assert planned["records"].sum() - planned.loc[planned["optional"], "records"].sum() == N
    for trial in trials(noisy.privacy.mechanics, Budget.declare(1.0)):
        assert trial.distance <= 1.0 + 1e-9


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["two_collectors", "central", "local"])
@pytest.mark.parametrize("family", ["squared", "huber", "fixed"])
def test_shares_of_variance_are_those_of_public_records_without_noise(family: str, trust: str) -> None:
    people = chosen(16, 20_000)
    given: dict[str, Any] = {**CHOICE, "family": pr.Huber(1.345, scale=1.0) if family == "fixed" else family}
    res = model(people, "y ~ x + z", **given, **{"mu": None, "trust": trust}).fit(measures=0.3, seed=1)
    right = res.evaluate(people.copy()).set_index("measure")["value"]
    table = res.fit_measures.set_index("measure")
    for name, public in (("R²", right["R²"]), ("residual sd", math.sqrt(right["mean squared error"]))):
        assert table["estimate"][name] == pytest.approx(public, abs=0.005 + 4.0 * table["std_error"][name])
        assert table["std_error"][name] < 0.01


def test_who_measures_a_fit_sends_no_score_and_who_has_nothing_to_tell_changes_no_measure() -> None:
    people = rows(7)
    last = people.index[-int(0.2 * N) :]
    plain = model(people, "y ~ x + z", mu=None).fit(measures=0.2, order="position")
    moved = people.copy()
    moved.loc[last, "y"] = 9.0
    other = model(moved, "y ~ x + z", mu=None).fit(measures=0.2, order="position")
    pd.testing.assert_series_equal(plain.params, other.params)
    pd.testing.assert_series_equal(plain.bse, other.bse)
    assert plain.tidy()["reliable"].all()
    gone = people.copy()
    gone.loc[last[::2], "x"] = np.nan
    streams = [model(None, "y ~ x + z", mu=None, rows=N).start(measures=0.2) for _ in range(2)]
    given = (gone, people.drop(last[::2]))
    a, b = (one.update(table).results().fit_measures for one, table in zip(streams, given, strict=True))
    assert a["estimate"].to_numpy() == pytest.approx(b["estimate"].to_numpy(), rel=1e-5)
    assert a["std_error"].to_numpy() == pytest.approx(b["std_error"].to_numpy(), rel=1e-3)


@pytest.mark.thorough
def test_a_stream_with_measures_goes_on_and_resumes(tmp_path: Path) -> None:
    data = rows(8)
    stream = model(rows=N).start(seed=3, measures=0.2)
    stream.update(data.iloc[:4_000])
    with pytest.raises(InferenceError, match="no measures of fit yet"):
        stream.results().fit_measures  # noqa: B018
    target = tmp_path / "stream.privreg"
    stream.save(target)
    again = pr.load(target)
    for one in (stream, again):
        one.update(data.iloc[4_000:5_500])
        one.results()
        one.update(data.iloc[5_500:])
    first, second = stream.results(), again.results()
    pd.testing.assert_frame_equal(first.fit_measures, second.fit_measures)
    assert first.rounds["role"].tolist()[-4:] == ["main", "main", "measures", "measures"]
    assert first.rounds["records"].tolist()[-1] + first.rounds["records"].tolist()[-2] == int(0.2 * N)


def test_measures_of_a_score_of_ones_own_are_refused() -> None:
    with pytest.raises(OptionError, match="measures= knows none"):
        model(rows(86), "y ~ x", family=STEEP).fit(measures=0.1)


@pytest.mark.statistical
@pytest.mark.parametrize("family", ["huber", "logistic", "multinomial"])
def test_intervals_of_measures_hold(family: str) -> None:
    """Their t-ratios about what all other records say, of 300 fits, have variance 1 to 4 standard errors."""
    far = []
    for run in range(300):
        people = chosen(1_000 + run, 3_000)
        res = model(people, MEASURED[family], **{**CHOICE, "family": family}).fit(measures=0.3, seed=run)
        table, true = res.fit_measures, res.evaluate(chosen(5, 60_000)).set_index("measure")["value"]
        name = "R²" if family == "huber" else "accuracy"
        one = table.set_index("measure").loc[name]
        far.append((one["estimate"] - true[name]) / one["std_error"])
    assert np.var(far) == pytest.approx(1.0, abs=4.0 * math.sqrt(2.0 / 300))
