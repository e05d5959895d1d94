"""Plans, and plans played with reports that are lost, late or in any order."""

import json

import numpy as np
import pandas as pd
import pytest

import privreg as pr
from privreg.collector import rounds as collector
from privreg.collector.design import Batch
from privreg.collector.estimation import estimate
from privreg.errors import BudgetError, DataError, InferenceError, OptionError, UnsupportedArgumentError
from privreg.simulation.rounds import RoundsRun
from privreg.simulation.simulate import FieldRun
from privreg.simulation.streaming.stream import begin

BOUNDS = {"a": (-4, 4), "b": (-4, 4), "y": (-8, 10)}
N = 30_000


@pytest.fixture(scope="module")
def few_rounds():
    """As many rounds as users get."""


def people(n=N, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, n))
    return pd.DataFrame({"a": a, "b": b, "y": 1 + a + b + 0.5 * rng.standard_normal(n)})


def model(data, **more):
    budget = {} if "epsilon" in more else {"mu": 4}
    return pr.PrivateOnlineRegression.from_formula("y ~ a + b", data, **{"bounds": BOUNDS, **budget, **more})


def field(made, rows, *, late=0, dropout=0.0, seed=1, key=True):
    """A run in the field, and its rows, encoded."""
    plan = made.plan()
    stream = begin(plan.spec, plan.asked, None, seed, plan.rows)
    run = stream._run
    assert isinstance(run, RoundsRun)
    run.key = run.key if key else None
    return FieldRun(run, b"k" * 32, dropout, late), stream._encoder.encode(rows, clamped=True)


# --- plans -----------------------------------------------------------------------------------------------------


def test_a_plan_tells_all_that_is_public_before_anybody_reports():
    plan = model(people(), missing="noise").plan(rounds=12)
    table = plan.rounds
    assert table["role"].tolist() == ["moments"] * 4 + ["pilot"] * 4 + ["clamping"] + ["main"] * 5
    assert table.loc[~table["optional"], "records"].sum() == plan.rows == N
    assert (plan.groups, plan.mu, plan.noise_sd) == (16, 4.0, pytest.approx(0.5, rel=1e-9))
    assert "4-GDP" in plan.guarantee
    assert max(map(len, repr(plan).split("\n"))) <= 80
    for text in (repr(plan), plan._repr_html_()):
        assert all(word in text for word in ("y ~ a + b", "-8 to 10", "4-GDP", "10-14", "sd 0.5"))


def test_a_plan_is_plain_json_and_the_same_for_equal_declarations():
    made, start = {"mu": 1, "family": pr.Quantile(0.9)}, {"a": 1.0, "b": 0, "Intercept": 0}
    given = {"rounds": 10, "start_params": start}
    one, other = (model(people(seed=s), **made).plan(**given) for s in (1, 2))
    told = one.to_dict()
    assert json.loads(json.dumps(told)) == told == other.to_dict()
    assert (told["rows"], told["groups"], told["options"]["rounds"]) == (N, 16, 10)
    assert told["design"]["schema"]["bounds"]["y"] == [-8.0, 10.0]
    assert told["options"]["start_params"] == start


def test_a_plan_can_not_be_changed_and_holds_no_row():
    plan = model(people()).plan()
    with pytest.raises(AttributeError):
        plan.rows = 3
    assert not any(isinstance(v, pd.DataFrame | np.ndarray) for v in vars(plan).values())


def test_a_plan_of_a_stream_of_unknown_length_says_how_rounds_grow():
    made = model(iter([people()]))
    plan = made.plan()
    assert plan.rows is None
    assert plan.rounds["records"].isna().tolist() == (plan.rounds["role"] == "main").tolist()
    assert "a quarter of those before" in repr(plan)
    assert made.plan(50_000).rows == 50_000


def test_a_plan_of_one_chain_has_no_rounds():
    plan = model(people()).plan(tuning="published")
    assert plan.rounds.empty
    assert plan.groups == 1
    assert json.dumps(plan.to_dict())
    with pytest.raises(OptionError, match="published"):
        pr.simulate(plan, people())


@pytest.mark.parametrize("rounds", [9, 101, 12.5, "ten", True])
def test_numbers_of_rounds_that_make_no_schedule_are_refused(rounds):
    with pytest.raises(OptionError, match="10 to 100"):
        model(people()).plan(rounds=rounds)


def test_rounds_are_of_fits_whose_length_is_known():
    with pytest.raises(OptionError, match="rows="):
        model(iter([people()])).fit(rounds=12)
    with pytest.raises(OptionError, match="published"):
        model(people()).fit(rounds=12, tuning="published")


@pytest.mark.thorough
@pytest.mark.parametrize("rounds", [10, 12, 20, 100])
def test_a_fit_holds_as_many_rounds_as_asked(rounds):
    res = model(people()).fit(rounds=rounds, seed=1, progress=False)
    assert (res.rounds["role"] == "main").sum() == rounds - 7
    assert res.rounds["records"].sum() == N
    assert np.abs((res.params - 1) / res.bse).max() < 5


@pytest.mark.thorough
def test_a_saved_stream_keeps_its_rounds(tmp_path):
    made = model(None, rows=N)
    stream = made.start(rounds=12, seed=3).update(people().iloc[:20_000])
    whole = made.start(rounds=12, seed=3).update(people().iloc[:20_000])
    stream.save(tmp_path / "s.privreg")
    again = pr.load(tmp_path / "s.privreg").update(people().iloc[20_000:]).results()
    assert (again.rounds["role"] == "main").sum() == 5
    whole.results()  # which closes open pieces, as saving does
    assert again.params.equals(whole.update(people().iloc[20_000:]).results().params)


# --- as a fit --------------------------------------------------------------------------------------------------


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("more", [{}, {"private": "response"}, {"epsilon": 4.0}])
def test_where_all_reports_arrive_in_order_it_is_the_fit(more):
    made = model(people(), **more)
    fit = made.fit(order="position", seed=5, progress=False)
    res = pr.simulate(made.plan(), people(), order="position", seed=5)
    assert res.params.equals(fit.params)
    assert res.bse.equals(fit.bse)
    pd.testing.assert_frame_equal(res.rounds, fit.rounds)


@pytest.mark.thorough
def test_neither_chunks_nor_threads_change_what_becomes_of_a_report():
    made, rows = model(people()), people()
    whole, _ = field(made, rows, late=3, dropout=0.2)
    parts, encoded = field(made, rows, late=3, dropout=0.2)
    whole.advance(encoded.y, encoded.x, clamped=encoded.clamped)
    for at in np.array_split(np.arange(N), [7, 5000, 5001, 20_011]):
        parts.advance(encoded.y[at], encoded.x[at], clamped=encoded.clamped[at])
    one, other = (estimate.estimate(run.plan, run.held().progress) for run in (whole, parts))
    assert (one.theta == other.theta).all()
    assert whole.came == parts.came


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("more", "how"),
    [
        ({}, {"dropout": 0.4}),
        ({}, {"late": 4}),
        ({"private": "response"}, {"dropout": 0.3, "late": 2}),
        ({"epsilon": 6.0}, {"dropout": 0.3, "late": 2}),
        ({"family": pr.Quantile(0.5)}, {"dropout": 0.3, "late": 2}),
        ({"scaling": "private", "bounds": None}, {"dropout": 0.3, "late": 2}),
        ({"family": "squared", "mu": None}, {"dropout": 0.3, "late": 2}),
    ],
)
def test_lost_and_late_reports_leave_estimates_that_intervals_hold(more, how):
    res = pr.simulate(model(people(), **more).plan(), people(), seed=2, **how)
    assert np.abs((res.params - 1) / res.bse).max() < 4.5
    assert res.rounds["records"].sum() == N
    assert res.rounds["reports"].sum() == res.nobs


@pytest.mark.thorough
def test_many_coefficients_can_be_played():
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"g": rng.integers(0, 100, 40_000).astype(str), "y": rng.standard_normal(40_000)})
    levels = {"g": [str(i) for i in range(100)]}
    made = pr.PrivateOnlineRegression.from_formula("y ~ g", rows, mu=None, bounds={"y": (-5, 5)}, levels=levels)
    res = pr.simulate(made.plan(), rows, dropout=0.2, late=2, seed=1)
    assert res.rounds["role"].tolist()[-13:] == ["main"] * 13
    assert np.abs(res.params / res.bse).max() < 6  # of 100


def test_lost_reports_are_counted_by_round_and_independent_of_what_they_hold():
    rows = people()
    res = pr.simulate(model(rows).plan(), rows, dropout=0.3, seed=1)
    share = res.rounds["reports"] / res.rounds["records"]
    assert (np.abs(share - 0.7) < 5 * np.sqrt(0.21 / res.rounds["records"])).all()
    assert abs(res.nobs - 0.7 * N) < 5 * np.sqrt(0.21 * N)
    assert "0.3 of the reports lost" in str(res.summary(details=True))


@pytest.mark.thorough
def test_measures_of_fit_know_how_many_have_told_them():
    rows = people(60_000)
    plan = model(rows).plan(measures=0.2)
    all_, some = (pr.simulate(plan, rows, seed=1, dropout=d, late=3).fit_measures for d in (0.0, 0.5))
    assert np.allclose(some["std_error"] / all_["std_error"], np.sqrt(2), rtol=0.1)
    assert np.abs((some["estimate"] - all_["estimate"]) / some["std_error"]).max() < 5


def test_personal_budgets_count_by_their_weights():
    rows = people().assign(m=np.where(np.arange(N) % 2, 4.0, 2.0))
    made = model(rows, mu="m", mu_max=4.0)
    res = pr.simulate(made.plan(), rows, dropout=0.3, late=2, seed=1)
    share = res.rounds["reports"].sum() / N
    assert abs(share - 0.7 * 0.625) < 0.02
    assert np.abs((res.params - 1) / res.bse).max() < 4.5


# --- the collector ---------------------------------------------------------------------------------------------


@pytest.mark.thorough
def test_late_reports_are_as_good_as_early_ones():
    made, rows = model(people()), people()
    run, encoded = field(made, rows)
    run.advance(encoded.y, encoded.x, clamped=encoded.clamped)
    plan, whole = run.plan, run.held().progress
    number = whole.main[3].state.number
    seen = {s.state.number: s for s in whole.scored}[number]
    part = Batch(0, 0.25 * seen.score, 0.25 * seen.weight)
    less = [s._replace(weight=0.75 * s.weight, score=0.75 * s.score) if s is seen else s for s in whole.scored]
    again = collector.late(whole._replace(scored=tuple(less)), number, part)
    one, other = (estimate.estimate(plan, progress) for progress in (whole, again))
    assert np.allclose(one.theta, other.theta, rtol=1e-12)
    assert np.allclose(one.cov, other.cov, rtol=1e-10)
    assert collector.late(whole, number, part._replace(people=5)).held[number] == whole.held[number] + 5


def test_a_late_joint_report_enters_the_mean_of_its_numbers():
    run, encoded = field(model(people()), people())
    run.advance(encoded.y[:8000], encoded.x[:8000], clamped=encoded.clamped[:8000])
    seen = next(s for s in run.progress.scored if s.state.role == "pilot")
    told = np.full((1, 1, run.plan.size + 1), 30.0)
    progress = collector.late(run.progress, seen.state.number, Batch(0, told, np.full((1, 1), 100.0)))
    after = next(s for s in progress.scored if s.state.number == seen.state.number)
    weight = float(seen.weight.sum())
    assert after.number == pytest.approx((seen.number * weight + 30.0 / seen.state.kappa) / (weight + 100.0))
    assert float(after.weight.sum()) == weight + 100.0


def test_what_came_late_is_summed_as_it_was_noised(monkeypatch):
    run, encoded = field(model(people(), mu=1), people(), late=2)
    kept, original = {}, FieldRun.close

    def noted(self, *part):
        original(self, *part)
        kept[self.progress.state.number] = self.weight.copy(), self.total.copy()

    monkeypatch.setattr(FieldRun, "close", noted)
    run.advance(encoded.y, encoded.x, clamped=encoded.clamped)
    main = run.held().progress.main
    assert len(main) > 5
    for seen in main:
        weight, total = kept[seen.state.number]
        np.testing.assert_allclose(seen.weight, weight.sum(axis=0))
        np.testing.assert_allclose(seen.score, total.sum(axis=0), rtol=1e-9, atol=1e-9)


def test_a_report_is_in_the_sums_of_one_arrival_only():
    made, rows = model(people(), mu=None), people()
    late, encoded = field(made, rows, late=3)
    plain, _ = field(made, rows)
    first = next(k for k, r in enumerate(plain.plan.rounds) if r.role == "main")
    before = 0
    while len(plain.progress.held) < first + 1:
        before += plain.size
        here = slice(before - plain.size, before)
        plain.advance(encoded.y[here], encoded.x[here], clamped=encoded.clamped[here])
    here = slice(0, before - 1)  # one less, so that the round is open
    late.advance(encoded.y[here], encoded.x[here], clamped=encoded.clamped[here])
    late.close()
    assert late.weight.shape[0] == 4
    assert late.reports.weight.sum() == plain.chain.batches[-1].weight.sum() - 1
    shares = late.weight.sum(axis=(1, 2)) / late.weight.sum()
    assert (np.abs(shares - 0.25) < 5 * np.sqrt(0.1875 / late.weight.sum())).all()
    apart = np.abs(late.reports.total.sum(axis=0) - plain.chain.batches[-1].total.sum(axis=0))
    assert apart.max() < 1.01  # the last record's score, of length 1 at most


def test_sums_of_every_arrival_have_the_noise_of_their_own_reports():
    made, rows = model(people(), mu=1), people()
    noised, encoded = field(made, rows, late=3, dropout=0.3)
    bare, _ = field(made, rows, late=3, dropout=0.3)
    first = sum(r.people for r in noised.plan.rounds if r.people > 0 and not r.optional)
    for run in (noised, bare):
        run.advance(encoded.y[:first], encoded.x[:first], clamped=encoded.clamped[:first])
    bare.chain, bare.key = noised.chain, None  # the same state, without noise
    bare._begin()
    rest = slice(first, first + noised.size - 1)
    for run in (noised, bare):
        run.advance(encoded.y[rest], encoded.x[rest], clamped=encoded.clamped[rest])
        run.close()
    assert (noised.weight == bare.weight).all()
    some = noised.weight > 0
    noise = ((noised.total - bare.total)[some] / np.sqrt(noised.weight[some])[:, None] / noised.plan.sd("main")).ravel()
    assert noise.size > 1000
    assert abs(noise.mean()) < 4.5 / np.sqrt(noise.size)
    assert abs((noise**2).mean() - 1) < 4.5 * np.sqrt(2 / noise.size)
    assert len(np.unique(noise)) == noise.size  # nothing is drawn twice


# --- order -----------------------------------------------------------------------------------------------------


def test_random_slots_do_not_depend_on_where_records_lie():
    rows = people().sort_values("y", ignore_index=True)
    made = model(rows)
    res = pr.simulate(made.plan(), rows, seed=1)
    assert np.abs((res.params - 1) / res.bse).max() < 4.5
    lying = pr.simulate(made.plan(), rows, order="position", seed=1)
    assert np.abs((lying.params - 1) / lying.bse).max() > 4.5


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["frame", "mapping", "parquet", "csv"])
def test_rows_of_any_kind_can_be_played(kind, tmp_path):
    rows, path = people(), tmp_path / f"rows.{kind}"
    if kind == "parquet":
        rows.to_parquet(path, row_group_size=500)
    elif kind == "csv":
        rows.to_csv(path, index=False)
    given = {"frame": rows, "mapping": dict(rows)}.get(kind, path)
    plan = model(rows).plan()
    if kind == "csv":
        with pytest.raises(UnsupportedArgumentError, match="order='position'"):
            pr.simulate(plan, given)
    order = "position" if kind == "csv" else "random"
    res = pr.simulate(plan, given, order=order, seed=1)
    assert res.nobs == N
    assert np.abs((res.params - 1) / res.bse).max() < 5


def test_array_models_can_be_played():
    rows = people()
    x, y = np.column_stack([np.ones(N), rows["a"], rows["b"]]), rows["y"].to_numpy()
    names = ["const", "a", "b"]
    made = pr.PrivateOnlineRegression(y, x, exog_names=names, mu=4, bounds=BOUNDS, endog_name="y")
    res = pr.simulate(made.plan(), (y, x), dropout=0.2, seed=1)
    assert np.abs((res.params - 1) / res.bse).max() < 5
    with pytest.raises(DataError, match="tuple"):
        pr.simulate(made.plan(), rows)


# --- options and the ledger ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ({"dropout": 1.0}, "below 1"),
        ({"dropout": "a third"}, "below 1"),
        ({"dropout": -0.1}, "below 1"),
        ({"late": 1.5}, "whole number"),
        ({"late": -1}, "whole number"),
        ({"late": True}, "whole number"),
        ({"order": "sorted"}, "'random', 'position'"),
    ],
)
def test_what_can_not_be_is_refused(how, text):
    with pytest.raises(OptionError, match=text):
        pr.simulate(model(people()).plan(), people(), **how)


def test_a_model_is_no_plan():
    with pytest.raises(OptionError, match=r"model\.plan\(\)"):
        pr.simulate(model(people()), people())


def test_playing_a_plan_is_a_release():
    rows = people()
    plan = model(rows).plan()
    first, second = (pr.simulate(plan, rows) for _ in range(2))
    assert (first.privacy.release.number, second.privacy.release.number) == (1, 2)
    assert not first.params.equals(second.params)
    pr.limit_spending(6.0)
    try:
        with pytest.raises(BudgetError):
            pr.simulate(plan, rows)
    finally:
        pr.limit_spending(None)


@pytest.mark.some(1)
@pytest.mark.parametrize("order", ["random", "position"])
def test_windows_are_of_rows_in_their_order(order):
    rows = people()
    res = pr.simulate(model(None, rows=N).plan(), rows, order=order, seed=1)
    if order == "position":
        assert len(res.windows(by=N / 3).frame) > 3
    else:
        with pytest.raises(InferenceError, match="in the order in which they came"):
            res.windows(by=N / 3)
