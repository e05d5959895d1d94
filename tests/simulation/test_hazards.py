"""Hazards at the front door: piecewise exponential fits, their curves, records that can't be used, refusals."""

from __future__ import annotations

import math
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.optimize import brentq
from scipy.stats import norm

import privreg as pr
from privreg.audit import reports
from privreg.collector.aggregate import common, report
from privreg.collector.aggregate.common import bend
from privreg.collector.aggregate.report import steps
from privreg.errors import (
    FormulaError,
    InferenceError,
    OptionError,
    ReliabilityWarning,
    SchemaError,
    UnsupportedArgumentError,
)
from privreg.families.hazards import LEAST, ending, followed, longest
from privreg.fits.aggregate import _far_followed, plan_of
from privreg.fits.plan import order_of, to_user
from privreg.fits.settings import FitOptions
from privreg.planning.power import _assumed
from privreg.privacy.budget import Budget
from privreg.protocol import codes
from privreg.protocol.sums import SHARES, distance2, farthest
from privreg.simulation.streaming.stream import begin

pytestmark = pytest.mark.usefixtures("few_draws")
FIT = pr.PrivateOnlineRegression.from_formula
CUTS = [6, 12, 24]
FORMULA = "Surv(months, end, [6, 12, 24]) ~ age + C(arm)"
BASE = np.log([0.03, 0.05, 0.02])
SLOPES = np.array([0.5, 0.6])  # of (age - 60)/20 and arm b
HOW = {
    "bounds": {"age": (40, 80)},
    "levels": {"arm": ["a", "b"], "end": ["censored", "died"]},
    "trust": "central",
    "mu": None,
}


def people(
    seed: int,
    n: int = 2_000,
    causes: tuple[str, ...] = ("died",),
    late: bool = False,
    base: np.ndarray = BASE,
    slopes: np.ndarray = SLOPES,
) -> pd.DataFrame:
    """Times at piecewise constant hazards, proportional by age and arm, censored at exponential times."""
    rng = np.random.default_rng(seed)
    out = pd.DataFrame({"age": rng.uniform(40, 80, n), "arm": rng.choice(["a", "b"], n, p=[0.6, 0.4])})
    risk = np.exp(slopes[0] * (out["age"] - 60) / 20 + slopes[1] * (out["arm"] == "b")).to_numpy()
    left, time = rng.exponential(size=n) / risk, np.full(n, 30.0)
    for a, b, hazard in zip([0, 6, 12], CUTS, np.exp(base), strict=True):
        here = (left >= 0) & (left < hazard * (b - a))
        time[here] = a + left[here] / hazard
        left = np.where(here, -1.0, left - hazard * (b - a))
    censored = rng.exponential(25, n)
    out["months"] = np.minimum(time, censored)
    out["end"] = np.where(time <= censored, rng.choice(causes, n), "censored")
    out["start"] = rng.uniform(0, 8, n) if late else 0.0
    return out


def split(data: pd.DataFrame, cause: str | None = None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Responses, covariates, log exposures and person of rows of intervals, with a constant first."""
    y, x, offset, who = [], [], [], []
    for j, (a, b) in enumerate(zip([0, 6, 12], CUTS, strict=True)):
        at_risk = np.minimum(data["months"], b) - np.maximum(data["start"], a)
        here = data[at_risk > 0]
        event = (here["end"] != "censored") if cause is None else here["end"] == cause
        y.append(event & (here["months"] > a) & (here["months"] <= b))
        dummies = np.tile([float(j == 1), float(j == 2)], (len(here), 1))
        x.append(np.column_stack([np.ones(len(here)), dummies, here["arm"] == "b", here["age"]]).astype(float))
        offset.append(np.log(at_risk[at_risk > 0]))
        who.append(here.index.to_numpy())
    return np.concatenate(y).astype(float), np.vstack(x), np.concatenate(offset), np.concatenate(who)


def poisson(data: pd.DataFrame, cause: str | None = None) -> object:
    """statsmodels' Poisson fit of split rows, with the sandwich by person."""
    y, x, offset, who = split(data, cause)
    by = {"groups": who, "use_correction": False}
    model = sm.GLM(y, x, family=sm.families.Poisson(), offset=offset)
    return model.fit(tol=1e-13, cov_type="cluster", cov_kwds=by)


@pytest.fixture(scope="module")
def exact() -> pr.results.results.PrivateResults:
    return FIT(FORMULA, people(1), **HOW).fit(progress=False)


def assert_same(res: object, twin: object) -> None:
    assert np.abs(res.params.to_numpy() - twin.params).max() < 1e-5
    off = res.cov_params().to_numpy() - np.asarray(twin.cov_params())
    assert np.abs(off).max() < 1e-5
    assert np.abs(off / np.outer(twin.bse, twin.bse)).max() < 1e-4


@pytest.mark.thorough
def test_without_noise_it_is_the_poisson_fit_of_split_rows_with_the_sandwich_by_person(exact) -> None:
    twin = poisson(people(1))
    assert exact.params.index.tolist()[:3] == ["Intercept", "C(interval)[T.(6, 12]]", "C(interval)[T.(12, 24]]"]
    assert_same(exact, twin)
    ratios = exact.tidy(exponentiate=True)["estimate"].to_numpy()
    assert np.abs(ratios - np.exp(twin.params)).max() < 1e-5


@pytest.mark.thorough
def test_people_who_enter_late_and_competing_causes_are_at_risk_as_long_as_they_are_seen() -> None:
    data = people(2, causes=("died", "moved"), late=True)
    levels = {"levels": {**HOW["levels"], "end": ["censored", "died", "moved"]}}
    for cause in (None, "died", "moved"):
        by = "" if cause is None else f", cause='{cause}'"
        formula = f"Surv(start, months, end, [6, 12, 24]{by}) ~ age + C(arm)"
        res = FIT(formula, data, **{**HOW, **levels}).fit(progress=False)
        assert_same(res, poisson(data[data["months"] > data["start"]], cause))
        assert res.model.formula == FIT(formula, **{**HOW, **levels}).formula == formula


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["central", "two_collectors"])
@pytest.mark.parametrize("empty", [0, 1, 2])
def test_an_interval_without_events_is_marked_and_as_a_rule_what_does_not_depend_on_it_is_not(
    trust, empty, tmp_path
) -> None:
    """Equation (41) of each level, the first ones too; the first interval's hazard is in all contrasts with it."""
    depends, marked, known = {0: [0, 1, 2], 1: [1], 2: [2]}[empty], [], []
    for seed in range(12 if trust == "central" else 3):
        data = people(40 + seed, 4_000)
        a, b = [0, *CUTS][empty : empty + 2]
        none = (data["months"] > a) & (data["months"] <= b)
        data.loc[none, "end"] = "censored"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ReliabilityWarning)
            res = FIT(FORMULA, data, **{**HOW, "mu": 1, "trust": trust}).fit(progress=False, seed=seed)
        marked.append(~res.tidy()["reliable"].to_numpy())
        lines = res.hazards({"age": [60.0], "arm": ["a"]}).frame()
        assert not lines["reliable"][empty]  # its hazard
        rows = np.eye(3, 5)  # of the baseline hazards; only the empty interval's is unknown
        rows[1:, 0] = 1.0
        known.append(np.concatenate([res.t_test(rows).summary_frame()["reliable"], lines["reliable"]]))
    res.save(tmp_path / "fit.privreg")
    assert (pr.load(tmp_path / "fit.privreg").t_test(rows).summary_frame()["reliable"] == known[-1][:3]).all()
    shares = np.mean(marked, axis=0)
    assert (shares[depends] == 1.0).all()
    assert not np.array(known)[:, empty].any()
    others = [j for j in range(3) if j != empty]
    if trust == "central":
        assert np.mean(np.array(known)[:, others]) >= 0.65  # of 30 fits 78, 78 and 93%
        assert np.mean(np.array(known)[:, 5]) >= 0.5 or empty == 2  # survival by the last interval
    if trust == "central":  # the steps of two collectors to nowhere hide more
        assert shares[[j for j in range(5) if j not in depends]].max() <= 0.5


def test_levels_that_come_first_and_cells_of_factors_are_among_what_may_be_predicted_perfectly() -> None:
    how = {"bounds": {"x": (0, 9)}, "levels": {"g": list("abc"), "h": [0, 1]}, "mu": 1, "trust": "central"}
    for formula, cells in (("h ~ x + C(g)", 3), ("h ~ C(g) * C(arm) + x", 6)):
        spec = FIT(formula, family="logistic", **{**how, "levels": {**how["levels"], "arm": ["u", "v"]}})._spec
        plan, order = plan_of(spec, 1_000)
        values = np.concatenate(plan.cells) @ spec.units.probe_inside(spec.design.probe)[:, order].T
        assert len(values) == cells
        assert values == pytest.approx(np.round(values))
        assert values.sum(axis=0) == pytest.approx(1.0)  # each row is in one cell


@pytest.mark.thorough
@pytest.mark.parametrize("curved", [False, True])
def test_a_number_whose_log_hazard_is_no_line_in_it_is_marked_as_it_goes_with_follow_up(curved) -> None:
    """Equation (67): many have few nodes and few many; curved hazards are those of a logarithm."""
    rng, n = np.random.default_rng(7), 20_000
    nodes = np.minimum(rng.gamma(1.0, 4.0, n), 35.0)
    rate = 0.03 * np.exp(1.1 * np.log1p(nodes) - 1.5 if curved else 0.09 * nodes)
    time, until = rng.exponential(1.0 / rate), rng.uniform(5.0, 40.0, n)
    data = pd.DataFrame({"months": np.minimum(time, until), "end": (time <= until).astype(int), "nodes": nodes})
    how = {"bounds": {"nodes": (0, 35)}, "trust": "central"}
    formula = "Surv(months, end, [6, 12, 24]) ~ nodes"
    res = FIT(formula, data, mu=1, **how).fit(progress=False, seed=1)
    (whole,) = FIT(formula, data, mu=None, **how).fit(progress=False).params[-1:]
    marked = ~res.tidy().set_index("term")["reliable"]["nodes"]
    assert marked == curved == any(note.code == "followed" for note in res.privacy.notes)
    assert (abs(res.params["nodes"] - whole) > 2.0 * res.bse["nodes"]) == curved


@pytest.mark.parametrize("rates", [BASE, BASE[::-1]])
def test_fits_start_at_each_interval_s_own_hazard(rates) -> None:
    """Equation (57), without noise."""
    data = people(50, 20_000, base=rates)
    stream = begin(FIT(FORMULA, **HOW)._spec, FitOptions(), None, 1, len(data))
    stream.update(data)
    stream._results()
    plan, first = stream._run.plan, next(p.state for p in stream._run.chain.history if p.state.role == "approach")
    rows = np.tile(np.append(1.0, np.zeros(plan.d - 1)), (3, 1))
    rows[:, list(plan.levels)] = np.where(np.eye(3)[:, 1:] > 0.0, plan.highs[1], plan.lows[1])
    time, ends = data["months"].to_numpy()[:, None], np.array(CUTS)
    at_risk = np.clip(np.minimum(time, ends) - [0, 6, 12], 0.0, None)
    died = (data["end"] == "died").to_numpy()[:, None] & (at_risk > 0.0) & (time <= ends)
    hazard = died.sum(axis=0) / at_risk.sum(axis=0)
    assert rows @ first.rows.T @ first.theta == pytest.approx(np.log(hazard), abs=0.01)


@pytest.mark.thorough
def test_effects_may_change_between_intervals_and_one_interval_is_a_constant_hazard() -> None:
    data = people(3)
    y, x, offset, _ = split(data)
    more = np.column_stack([x, x[:, 3] * x[:, 1], x[:, 3] * x[:, 2]])
    twin = sm.GLM(y, more, family=sm.families.Poisson(), offset=offset).fit(tol=1e-13)
    res = FIT("Surv(months, end, [6, 12, 24]) ~ age + C(arm) * C(interval)", data, **HOW).fit(progress=False)
    order = ["Intercept", *res.params.index[1:3], "C(arm)[T.b]", "age", *[n for n in res.params.index if ":" in n]]
    assert np.abs(res.params[order].to_numpy() - twin.params).max() < 1e-5
    alone = FIT("Surv(months, end, [24]) ~ 1", data, **HOW).fit(progress=False)
    time, died = np.minimum(data["months"], 24), (data["end"] == "died") & (data["months"] <= 24)
    assert alone.params.to_numpy() == pytest.approx([np.log(died.sum() / time.sum())], abs=1e-6)


def test_survival_curves_and_their_limits_follow_from_hazards(exact, tmp_path: Path) -> None:
    new = pd.DataFrame({"age": [50, 70], "arm": ["a", "b"]}, index=["young", "old"])
    b, cov = exact.params.to_numpy(), exact.cov_params().to_numpy()
    x = np.array([[1, 0, 0, 1, 70], [1, 1, 0, 1, 70], [1, 0, 1, 1, 70]], dtype=float)
    each = np.exp(x @ b) * [6, 6, 12]
    upto = np.cumsum(each)
    assert exact.predict(new).columns.tolist() == CUTS
    assert exact.predict(new).loc["old"].to_numpy() == pytest.approx(np.exp(-upto), rel=1e-9)
    assert exact.predict(new, which="linear").loc["old"].to_numpy() == pytest.approx(x @ b, rel=1e-9)
    table = exact.get_prediction(new).frame().iloc[3:]
    step = 1e-6 * np.eye(5)
    slopes = [(np.log(np.cumsum(np.exp(x @ (b + s)) * [6, 6, 12])) - np.log(upto)) / 1e-6 for s in step]
    se = np.sqrt(np.diag(np.array(slopes).T @ cov @ slopes))
    assert table["survival_low"].to_numpy() == pytest.approx(np.exp(-upto * np.exp(norm.ppf(0.975) * se)), rel=1e-4)
    assert (table["band_low"] < table["survival_low"]).all()
    assert (table["band_high"] > table["survival_high"]).all()
    assert table["conf_low"].to_numpy() == pytest.approx(
        np.exp(x @ b - norm.ppf(0.975) * np.sqrt(np.diag(x @ cov @ x.T))), rel=1e-9
    )
    baseline = exact.hazards().frame()
    assert baseline["hazard"].to_numpy() == pytest.approx(np.exp(b[0] + np.array([0.0, b[1], b[2]])))
    assert "row old" in str(exact.hazards(new))
    exact.save(tmp_path / "fit.privreg")
    pd.testing.assert_frame_equal(pr.load(tmp_path / "fit.privreg").predict(new), exact.predict(new))
    ax = exact.hazards(new).plot()
    assert [line.get_label() for line in ax.lines] == ["young", "old"]
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(exact.predict(new).loc["young", 24])


def test_what_is_of_one_response_a_record_is_refused(exact) -> None:
    new = pd.DataFrame({"age": [50], "arm": ["a"]})
    calls = exact.evaluate, exact.estimand
    for call in calls:
        with pytest.raises(InferenceError, match="this fit has hazards"):
            call(new)
    with pytest.raises(InferenceError, match="has no hazards"):
        FIT("age ~ 1", people(4), bounds={"age": (40, 80)}, mu=None, trust="central").fit(progress=False).hazards()


def test_records_that_cannot_be_used_count_for_nothing_and_make_nothing_fail() -> None:
    data = people(5, 1_200)
    broken = data.astype({"end": object}).copy()
    bad = {"months": [np.nan, -1.0, 0.0, np.inf, 3.0], "end": ["died", "died", "died", "died", "lost"]}
    for column, values in bad.items():
        broken.loc[broken.index[:5], column] = values
    a, b = (FIT(FORMULA, d, **HOW).fit(progress=False).params for d in (broken, data.iloc[5:]))
    assert np.abs(a - b).max() < 1e-6
    late = data.assign(start=np.where(np.arange(len(data)) < 5, data["months"] + 1.0, 0.0))
    formula = FORMULA.replace("Surv(", "Surv(start, ")
    assert np.abs(FIT(formula, late, **HOW).fit(progress=False).params - b).max() < 1e-6


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["central", "two_collectors", "silos"])
def test_noised_fits_are_near_the_truth_and_say_what_they_estimate(trust: str) -> None:
    data = people(6, 12_000)
    given = {"a": data[:5_000], "b": data[5_000:]} if trust == "silos" else data
    res = FIT(FORMULA, given, **{**HOW, "trust": trust, "mu": 2}).fit(progress=False, seed=1)
    truth = np.array([BASE[0] - 3 * SLOPES[0], *(BASE[1:] - BASE[0]), SLOPES[1], SLOPES[0] / 20])
    assert np.abs((res.params.to_numpy() - truth) / res.bse.to_numpy()).max() < 4.0
    assert (res.bse.to_numpy() < 2.0 * poisson(data).bse).all()
    said = " ".join(str(res.summary(details=True)).split())
    assert "log hazard ratios of people followed until their cumulative hazard reaches" in said
    assert res.privacy.total_mu == 2.0
    if trust != "silos":  # whose records weigh by their sizes
        events, sd = next((m.estimate, m.std_error) for m in res._fit.measures if m.name == "events")
        assert abs(events - ((data["end"] == "died") & (data["months"] <= 24)).sum()) < 4.0 * sd
        assert f"{events:,.0f} ± {sd:,.0f} events (learned)" in said
        assert res.glance()["events"].item() == events


@pytest.mark.thorough
def test_files_and_streams_give_the_bits_of_rows_in_memory(tmp_path: Path) -> None:
    data = people(7, 1_500)
    data.to_csv(tmp_path / "people.csv", index=False)
    data.to_parquet(tmp_path / "people.parquet")
    how = {**HOW, "mu": 1, "trust": "two_collectors"}
    usual = FIT(FORMULA, data, **how).fit(seed=1, order="position", progress=False).params
    for source in (tmp_path / "people.csv", {c: data[c].to_numpy() for c in data}):
        fit = FIT(FORMULA, source, rows=len(data), **how).fit(seed=1, order="position", progress=False)
        pd.testing.assert_series_equal(fit.params, usual)
    stream = FIT(FORMULA, rows=len(data), **how).start(seed=1)
    for part in np.array_split(np.arange(len(data)), 3):
        stream.update(data.iloc[part])
    pd.testing.assert_series_equal(stream.results().params, usual)
    central = [FIT(FORMULA, d, **{**HOW, "mu": 1}).fit(seed=1, progress=False).params for d in (data, data.copy())]
    pd.testing.assert_series_equal(*central)


@pytest.mark.parametrize(
    ("formula", "more", "error", "words"),
    [
        (FORMULA, {"trust": "local", "mu": 1}, UnsupportedArgumentError, "not for trust='local': at mu = 1 .* people"),
        (FORMULA + " - 1", {}, FormulaError, "needs an intercept"),
        (FORMULA + " + months", {"bounds": {"age": (40, 80), "months": (0, 30)}}, FormulaError, "both sides"),
        ("Surv(months, end) ~ age", {}, FormulaError, r"write Surv\(time, event"),
        ("Surv(months, end, [6, 2]) ~ age", {}, FormulaError, "rising positive"),
        ("Surv(months, end, []) ~ age", {}, FormulaError, "rising positive"),
        ("Surv(end, end, [6]) ~ age", {}, FormulaError, "a column for each"),
        ("Surv(months, end, [6], cause='lost') ~ age", {}, SchemaError, "cause= may be one"),
        ("Surv(months, end, [6], cause='x') ~ age", {"levels": {"arm": ["a", "b"]}}, SchemaError, "cause= may be one"),
        ("Surv(end, months, [6]) ~ age", {}, SchemaError, r"takes times, .* write Surv\(time, event"),
        (
            "Surv(months, end, [6]) ~ age",
            {"bounds": {"age": (40, 80), "end": (0, 30)}, "levels": {}},
            SchemaError,
            "has no bounds",
        ),
        (FORMULA, {"family": "logistic"}, UnsupportedArgumentError, "family= doesn't go with Surv"),
        (FORMULA, {"id": "arm", "k_max": 2}, UnsupportedArgumentError, "id= doesn't go with Surv"),
        (FORMULA, {"exposure": "months"}, UnsupportedArgumentError, "exposure= doesn't go with Surv"),
        (FORMULA, {"missing": "raise"}, UnsupportedArgumentError, "missing= doesn't go"),
        (FORMULA, {"private": "response"}, UnsupportedArgumentError, "is for trust='local'"),
    ],
)
def test_what_does_not_go_with_times_is_refused_on_public_grounds(formula, more, error, words) -> None:
    for data in (people(8, 200), None):
        with pytest.raises(error, match=words):
            FIT(formula, data, **{**HOW, **more})


@pytest.mark.parametrize("end", [1 + 2e-9, 1 + 3e-16])
def test_cut_points_that_are_close_have_labels_of_their_own(end) -> None:
    model = FIT(f"Surv(months, end, [1, {end!r}, 24]) ~ age", None, **HOW)
    assert len(set(model.exog_names)) == 4


def test_measures_and_a_column_called_interval_are_refused() -> None:
    with pytest.raises(OptionError, match="measures="):
        FIT(FORMULA, people(9), **HOW).fit(measures=0.1, progress=False)
    data = people(9, 200).assign(interval=1.0)
    with pytest.raises(FormulaError, match="have a column 'interval'"):
        FIT(FORMULA + " + age:C(interval)", data, **HOW)
    FIT(FORMULA, data, **HOW)
    assert FIT(FORMULA.replace("[6, 12, 24]", "c(6, 12, 24)"), **HOW).formula == FORMULA  # as R writes it


def at_risk(n: int, truth: float) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Logarithms of cumulative hazards of n people by interval, events, whether at risk, and relative risks.

    Events come `truth` times as often in the second interval as these hazards say.
    """
    rng = np.random.default_rng(10)
    risk, width = rng.lognormal(0.0, 0.7, n), np.array([1.0, 0.5, 2.0])
    stated = risk[:, None] * np.array([0.3, 0.9, 0.4]) * width
    hazard = stated * np.array([1.0, truth, 1.0])
    upto = np.cumsum(hazard, axis=1)
    left = rng.exponential(size=n)
    event = (left[:, None] <= upto) & (left[:, None] > upto - hazard)
    part = np.clip((left[:, None] - (upto - hazard)) / hazard, 0.0, 1.0)
    return np.log(np.where(part > 0.0, stated * part, 1.0)), event.astype(float), part > 0.0, risk


@pytest.mark.parametrize("most", [0.8, 2.0, 3.5, 7.0])
def test_people_followed_until_a_public_cumulative_hazard_have_a_mean_score_of_0_at_the_truth(most) -> None:
    """Equation (54): a stopping time, and weights, known from covariates and the public state."""
    eta, event, usable, risk = at_risk(200_000, 1.0)
    score, slope = followed(eta, event, usable, most)
    total, (largest, steepest) = score.sum(axis=1), farthest(most)
    known = {0.8: (1.64**0.5, 0.8), 2.0: (1.0, 1.125), 3.5: (2.5, 4.5**2 / 8.0), 7.0: (6.0, 7.5)}
    assert (largest, steepest) == pytest.approx(known[most])
    assert total.min() >= -1.0
    assert total.max() <= min(most, largest) + 1e-12
    assert np.square(score).sum(axis=1).max() <= largest**2 + 1e-12
    assert slope.min() >= 0.0
    assert slope.sum(axis=1).max() <= steepest + 1e-12
    for by in (np.ones(len(risk)), risk, event.shape[1] * (risk > 1.0)):
        mean = total * by
        assert abs(mean.mean()) < 4.0 * mean.std() / np.sqrt(len(risk))
    whole, _ = followed(eta, event, usable, np.inf)
    np.testing.assert_allclose(whole, np.where(usable, np.exp(eta), 0.0) - event, rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("truth", [0.3, 1.0, 4.0])
@pytest.mark.parametrize("most", [2.0, 3.5, 7.0])
def test_slopes_of_longer_follow_up_are_those_of_scores_whatever_the_model(most, truth) -> None:
    """Equation (54): of all that intervals have in common, by each interval's coefficient; of each if it is right."""
    eta, event, usable, _ = at_risk(100_000, truth)
    slope, by = followed(eta, event, usable, most)[1], []
    for step in 1e-6 * np.eye(3):
        up, down = (followed(eta + sign * step, event, usable, most)[0] for sign in (1.0, -1.0))
        by.append((up - down) / 2e-6)
    off = np.abs(slope - np.array([one.sum(axis=1) for one in by]).T)
    assert np.quantile(off, 0.999) < 1e-6  # one in a thousand is nearer to a kink
    ended = np.abs(slope[:, 2] - by[2][:, 2])  # a shift of the last interval moves no other one's score
    assert np.quantile(ended, 0.999) < 1e-6
    if truth == 1.0:
        each, here = np.array(by).mean(axis=1), slope.mean(axis=0)
        error = 4.0 * np.array(by).std(axis=1) / np.sqrt(len(eta))
        assert (np.abs(each - np.diag(here)) < error + 1e-9).all()


def states(n: int = 1_500) -> list[tuple[object, object]]:
    """Plan and state of each round of a curator's fit."""
    stream = begin(FIT(FORMULA, **{**HOW, "mu": 1})._spec, FitOptions(), None, 1, n)
    stream.update(people(11, n))
    stream._results()
    return [(stream._run.plan, p.state) for p in stream._run.chain.history if p.state.role != "over"]


def test_no_two_reports_are_farther_from_each_other_than_is_proved_and_some_nearly_are() -> None:
    """Equations (56) and (57), on rows as far out as they can be, and farther."""
    rng, m, seen = np.random.default_rng(12), 1_500, {}
    asked = [pair for pair in states() if pair[1].role in {"location", "moments", "approach", "main"}]
    plan, main = asked[-1]
    for plan, state in [*asked, *((plan, main._replace(most=most)) for most in (2.0, 3.0, 8.0))]:
        x = rng.choice([0.0, 1.0], (m, 1, plan.d)) * plan.highs + rng.choice([0.0, 1.0], (m, 1, plan.d)) * plan.lows
        x = np.repeat(np.clip(x, plan.lows, plan.highs), 3, axis=1)
        x[:, :, 0], x[:, :, list(plan.levels)] = 1.0, np.eye(3)[:, 1:]
        offset = rng.choice([-20.0, -3.0, 0.0, 1.0, 3.0, 8.0], (m, 3)) + np.log(plan.persons.widths)
        last = rng.integers(0, 3, m)
        y = np.where(np.arange(3) < last[:, None], 0.0, np.nan)
        y[np.arange(m), last] = rng.choice([0.0, 1.0], m)
        y[:40] = np.nan  # nobody who can be used
        weight = rng.choice([0.0, 0.5, 1.0], m, p=[0.1, 0.1, 0.8])
        made = report.vectors(plan, state, y, x, offset, None, weight)
        wild = report.vectors(plan, state, 1e3 * y, 1e6 * x, offset + 400.0, None, 2.0 * weight)
        made = np.vstack([made, wild])
        assert np.square(made).sum(axis=1).max() <= 1.0 + 1e-12
        square = np.square(made).sum(axis=1)
        apart = float((square[:, None] + square - 2.0 * made @ made.T).max())
        most = float(plan.distance2(state.role, state))
        assert apart <= most + 1e-9
        seen[state.role] = max(seen.get(state.role, 0.0), apart / most)
    assert seen["location"] > 0.7
    assert seen["main"] > 0.4


def test_audits_try_pairs_as_far_from_each_other_as_bounds_let_them_be() -> None:
    """Equation (56): a cumulative hazard of 0, B or between them, one with an event, or both."""
    for formula in (FORMULA, "Surv(months, end, [6, 12, 24]) ~ 1"):
        stream = begin(FIT(formula, **{**HOW, "mu": 1, "trust": "two_collectors"})._spec, FitOptions(), None, 1, 3_000)
        stream.update(people(11, 3_000))
        trials = list(reports.trials(stream._results().privacy.mechanics, Budget.declare(1.0)))
        farthest = {t.report: t.distance for t in reversed(trials)}
        assert max(farthest.values()) <= 1.0 + 1e-9
        assert min(farthest[f"sum, {role}"] for role in ("clamping", "location", "moments")) > 0.9
    plan = stream._run.plan
    state = next(p.state for p in stream._run.chain.history if p.state.role == "main")
    x = np.tile(np.append(1.0, np.zeros(plan.d - 1)), (3, 1))
    x[:, list(plan.levels)] = np.where(np.eye(3)[:, 1:] > 0.0, plan.highs[1], plan.lows[1])
    rows = math.sqrt(3.0) * np.linalg.inv(x).T  # intervals as far apart as they can be, each as long as L
    for most, least in ((1.0, 0.95), (2.0, 0.92), (4.0, 0.79)):
        state = state._replace(most=most, longest=math.sqrt(3.0), rows=rows, theta=np.zeros(plan.d))
        ends, made = [np.array(v) for v in _far_followed(plan, state).values()], steps(plan, state)
        far = max(float(np.linalg.norm(a - b)) for a in ends for b in ends) / (made.sd * plan.mu)
        assert least < far <= 1.0


def test_the_bound_of_two_scores_and_slopes_is_the_largest_of_its_parts() -> None:
    p1, p2, p3, *_ = SHARES["followed"]
    most = float(distance2("main", SHARES["followed"], codes.HAZARDS, 3, 1, None, scaled=False))
    x, other, u = np.meshgrid(np.linspace(0, 1, 101), np.linspace(0, 1, 101), np.linspace(-1, 1, 101))
    scores = p1 * (x**2 + other**2 + 2 * x * other * u) + p3 * (x**4 + other**4 - 2 * x**2 * other**2 * u**2)
    assert scores.max() + 2 * p2 == pytest.approx(most)
    assert p1 + p2 + p3 <= 1.0
    assert distance2("main", (0.3, 0.3, 0.4, 0.0, 0.0), codes.HAZARDS, 3, 1, None, scaled=False) == 4


def test_people_are_followed_longer_the_less_noise_there_is() -> None:
    """Equation (55)."""
    found = [longest(0.5, noise) for noise in (1.0, 0.1, 0.01, 1e-4)]
    assert LEAST <= found[0] < found[1] < found[2] < found[3]
    assert longest(0.05, 0.01) < longest(0.5, 0.01)


@pytest.mark.parametrize(("share", "most"), [(0.3, 2.6), (0.9, 4.5), (0.05, 2.0), (0.5, 1.9)])
def test_a_part_of_slopes_may_change_as_people_are_followed_for_another_time(share: float, most: float) -> None:
    """Equation (68), of drawn people whose log hazards are normal and who are all followed to one time."""
    rng = np.random.default_rng(6)
    hazard, left = np.exp(rng.normal(size=400_000)), rng.exponential(size=400_000)
    end = brentq(lambda t: float(np.mean(left < t * hazard)) - share, 1e-4, 100.0)
    at_risk = np.minimum(np.minimum(left, hazard * end), most)
    expected = 0.5 * most * np.maximum(at_risk - (most - 2.0), 0.0).sum() / at_risk.sum() if most >= 2.0 else 0.0
    assert ending(share, most) == pytest.approx(expected, rel=0.03)


def test_late_intervals_alone_are_marked_where_nearly_everybody_has_had_the_event_before() -> None:
    """Their slopes change along a long step, as people are followed for another time at another state."""
    data = people(3, 20_000, base=BASE + 1.6)
    stream = begin(
        FIT(FORMULA, data, **{**HOW, "trust": "two_collectors", "mu": 1})._spec, FitOptions(), None, 3, 20_000
    )
    stream.update(data)
    with pytest.warns(ReliabilityWarning):
        table = stream.results().tidy().set_index("term")
    assert table["reliable"].to_dict() == {term: "(12, 24]" not in term for term in table.index}


def test_two_collectors_main_rounds_are_asked_near_large_ratios() -> None:
    """Steps of approach follow slopes on their way, by levels and within bounds; straight ones end farther off."""
    ratios, off = np.array([1.0, 2.0]), []
    for seed in range(4):
        data = people(seed, 20_000, base=BASE - 1.6, slopes=ratios)
        spec = FIT(FORMULA, data, **{**HOW, "trust": "two_collectors", "mu": 1})._spec
        stream = begin(spec, FitOptions(), None, seed, 20_000)
        stream.update(data)
        table, state = stream.results().tidy(), stream._run.progress.seen[-1].state
        there = to_user(spec, order_of(spec, factors=False)[0]) @ state.rows.T @ state.theta
        off.append((there - table["estimate"].to_numpy())[-2:] * [1.0, 20.0])  # of the arm and twenty years
        assert table["reliable"].all()
    assert np.abs(np.mean(off, axis=0)).max() < 0.25


def test_an_early_round_of_a_curator_may_be_off_along_one_number_alone(monkeypatch) -> None:
    """Equation (32): all of ½ a ‖δ‖² may lie there, as the start knows no slopes."""
    seen = []
    monkeypatch.setattr(common, "bend", lambda *given: seen.append(given) or bend(*given))
    stream = begin(FIT(FORMULA, **{**HOW, "mu": 1})._spec, FitOptions(), None, 1, 3_000)
    stream.update(people(11, 3_000))
    stream.results()
    rounds, curved = seen[-1]
    theta = rounds.last.theta + 0.1
    off = np.square(rounds.places - theta).sum(axis=1)
    expected = (0.5 * curved.level * off / (rounds.c * rounds.plan.rules.bend)) ** 2
    assert bend(rounds, curved).variances(theta, rounds.c) == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.usefixtures("one_fit", "unmarked")
def test_plans_are_for_hazard_ratios_and_say_how_many_events_there_are() -> None:
    how = {**HOW, "mu": 1}
    found = pr.plan(FORMULA, effect={"C(arm)[T.b]": np.log(1.35)}, **how)
    assert found.table().loc["C(arm)[T.b]", "power"] == pytest.approx(0.8, abs=0.03)
    said = " ".join(str(found).split())
    events = int(said.partition(" events")[0].rpartition(" ")[2].replace(",", ""))
    assert events == pytest.approx(0.5 * found.n, rel=0.1)
    schoenfeld = 4.0 * (norm.ppf(0.975) + norm.ppf(0.8)) ** 2 / np.log(1.35) ** 2  # events without noise
    assert schoenfeld < events < 4.0 * schoenfeld
    rare = pr.plan(FORMULA, n=found.n, params={"Intercept": -6.0}, **how)
    assert rare.table().loc["C(arm)[T.b]", "std_error"] > found.table().loc["C(arm)[T.b]", "std_error"]
    late = pr.plan(FORMULA.replace("Surv(", "Surv(start, "), n=found.n, **how)
    assert "from time 0 on, as a plan has late entry by rows of a pilot alone" in " ".join(str(late).split())
    with pytest.raises(UnsupportedArgumentError, match="family= doesn't go with"):
        pr.plan(FORMULA, n=1_000, family="poisson", **how)


@pytest.mark.usefixtures("unmarked")
def test_plans_take_times_and_censoring_from_a_pilot_and_are_near_fits_of_such_people() -> None:
    def seen(seed: int, n: int) -> pd.DataFrame:  # censored early, so that three in ten have an event
        data, until = people(seed, n), np.random.default_rng([seed, 1]).exponential(9, n)
        gone = until < data["months"]
        return data.assign(months=np.minimum(data["months"], until), end=data["end"].mask(gone, "censored"))

    pilot, how = seen(20, 3_000), {**HOW, "mu": 1}
    share = ((pilot["end"] == "died") & (pilot["months"] <= 24)).mean()
    plan = pr.plan(FORMULA, n=2_500, pilot=pilot, **how)
    fits = [FIT(FORMULA, seen(30 + k, 2_500), **how).fit(progress=False, seed=k).tidy() for k in range(8)]
    own = np.median([fit["std_error"] for fit in fits], axis=0)
    assert np.abs(plan.table()["std_error"] / own - 1.0).max() < 0.25
    theta = plan.assumed.params
    assert theta == pytest.approx(FIT(FORMULA, pilot, **HOW).fit(progress=False).params.to_numpy(), abs=1e-5)
    assert plan.assumed.events(plan.spec) == pytest.approx(share, abs=0.02)
    for given, params, words, events in (
        (pilot, theta, "censored as in the pilot", pytest.approx(share, abs=0.02)),
        (
            {"events": 0.3},
            None,
            "everybody followed until 24, as pilot= says nothing of censoring, 30% with",
            pytest.approx(0.3, abs=0.002),
        ),
        ({"events": 0.3}, theta, "censored at a constant rate", pytest.approx(0.3, abs=0.002)),
    ):
        assumed = _assumed(plan.spec, None, params, None, None, given)
        assert assumed.events(plan.spec) == events
        assert words in str(assumed.words(plan.spec))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"pilot": {"events": 1.2}}, "share of people with an event"),
        ({"pilot": {"events": 0.9}, "params": {"Intercept": -5.0}}, "nobody is censored"),
        ({"formula": "age ~ arm", "pilot": {"events": 0.5}}, "which is of Surv"),
    ],
)
def test_shares_of_events_that_cannot_be_are_refused(given, words) -> None:
    with pytest.raises(OptionError, match=words):
        pr.plan(**{"formula": FORMULA, "n": 2_000, **HOW, "mu": 1, **given})


@pytest.mark.some(16)
@pytest.mark.parametrize("column", ["age", "arm", "months", "end", "start"])
@pytest.mark.parametrize(
    "cell", ["\ud800", "SECRET", b"\xff", [1], {}, 1j, pd.NaT, 10**400, np.inf], ids=lambda cell: type(cell).__name__
)
def test_no_cell_of_one_person_makes_a_fit_fail(column, cell):
    pd.testing.assert_series_equal(with_cell(column, cell), without_cell(column))


def with_cell(column, value):
    rows = people(3, 600).astype(object)
    rows[column] = pd.Series([*rows[column][:7], value, *rows[column][8:]], dtype=object)
    formula = FORMULA.replace("months", "start, months")
    return FIT(formula, rows, **{**HOW, "mu": 1.0}).fit(seed=1, progress=False).params


@cache
def without_cell(column):
    """Beside all cases of a column."""
    return with_cell(column, None)
