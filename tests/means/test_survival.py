"""Survival curves by group: arithmetic without noise, sensitivity, intervals, tests, marks and messages."""

import re

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom
from statsmodels.duration.survfunc import CumIncidenceRight, SurvfuncRight, survdiff

import privreg as pr
from privreg.errors import FormulaError, InferenceError, OptionError, SchemaError
from privreg.means.results.survival import SurvivalCurves
from privreg.privacy.ledger import LEDGER

TRUSTS = ["local", "two_collectors", "central"]
CUTS = [6, 12, 18, 24, 30, 36]
FORMULA = f"Surv(time, event, {CUTS}) ~ C(arm)"
LEVELS = {"arm": ["old", "new"]}
PUBLIC = {"levels": LEVELS, "progress": False}


def people(n=4000, seed=0, effect=0.4, causes=1):
    """Times and ends of following at multiples of 6."""
    rng = np.random.default_rng(seed)
    new = rng.uniform(size=n) < 0.5
    time = 6 * np.ceil(rng.exponential(30 * np.exp(effect * new)) / 6)
    until = 6 * np.ceil(rng.uniform(6, 60, n) / 6)
    cause = rng.integers(1, causes + 1, n)
    event = np.where(time <= until, cause, 0)
    return pd.DataFrame({"time": np.minimum(time, until), "event": event, "arm": np.where(new, "new", "old")})


def curves(data, formula=FORMULA, **options):
    return pr.survival(data, formula, **{"trust": "central", "mu": 1, "method": "kaplan_meier", **PUBLIC, **options})


def ended(data):
    """Rows as they are seen from the last cut point: who is followed longer is censored after it."""
    return data.assign(event=np.where(data["time"] > CUTS[-1], 0, data["event"]))


@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_without_noise_curves_are_kaplan_and_meiers(trust):
    data = people()
    found = curves(data, trust=trust, mu=None).frame().set_index(["arm", "time"])
    for arm, part in data.groupby("arm"):
        theirs = SurvfuncRight(part["time"], part["event"])
        at = np.searchsorted(theirs.surv_times, CUTS)
        mine = found.loc[arm]
        np.testing.assert_allclose(mine["survival"], theirs.surv_prob[at], atol=1e-5)
        np.testing.assert_allclose(mine["std_error"], theirs.surv_prob_se[at], rtol=1e-4)
        np.testing.assert_allclose(mine["at_risk"], theirs.n_risk[at], rtol=1e-5)
        np.testing.assert_allclose(mine["events"], theirs.n_events[at], rtol=1e-4)


def test_without_noise_tests_are_the_log_rank_and_gehans_tests():
    data = people(effect=0.1)
    made, seen = curves(data, mu=None), ended(data)
    for ours, theirs in (("logrank", None), ("wilcoxon", "gb")):
        statistic, p = survdiff(seen["time"], seen["event"], seen["arm"], weight_type=theirs)
        test = made.test(ours)
        assert (test.statistic, test.pvalue) == (pytest.approx(statistic, rel=1e-4), pytest.approx(p, rel=1e-3))
        assert test.df == 1
    assert made.test().frame["observed"].sum() == pytest.approx(made.test().frame["expected"].sum())
    assert made.test().frame.loc["old", "observed"] == pytest.approx(
        seen.query("arm == 'old'")["event"].sum(), rel=1e-4
    )


def test_without_noise_incidence_of_causes_is_aalen_and_johansens():
    data = people(causes=2)
    formula, levels = FORMULA, {"arm": ["old", "new"], "event": [0, 1, 2]}
    made = curves(data, formula, mu=None, levels=levels)
    assert made.causes == ("1", "2")
    for k, cause in enumerate((1, 2)):
        found = made.cumulative_incidence(cause).set_index(["arm", "time"])
        for arm, part in data.groupby("arm"):
            theirs = CumIncidenceRight(part["time"], part["event"])
            at = np.searchsorted(theirs.times, CUTS)
            np.testing.assert_allclose(found.loc[arm]["incidence"], theirs.cinc[k][at], atol=1e-5)
    whole = made.frame()["survival"] + sum(made.cumulative_incidence(c)["incidence"] for c in (1, 2))
    np.testing.assert_allclose(whole, 1.0)


def test_restricted_means_and_quantiles_follow_from_the_curve():
    made = curves(people(), mu=None)
    curve = made.frame()["survival"].to_numpy().reshape(2, -1)
    area = np.column_stack([np.ones(2), curve[:, :-1]]) @ np.diff([0, *CUTS])
    means = made.rmst()
    assert means.index.tolist() == ["old", "new", "new - old"]
    np.testing.assert_allclose(means["rmst"], [*area, area[1] - area[0]])
    assert means["std_error"].iloc[2] == pytest.approx(np.hypot(*means["std_error"][:2]), rel=0.02)  # other people
    assert made.rmst(12)["rmst"].iloc[0] == pytest.approx(6 + 6 * curve[0, 0])
    median = made.quantile()
    assert median["estimate"].tolist() == [CUTS[int(np.flatnonzero(line <= 0.5)[0])] for line in curve]
    assert (median["conf_low"] <= median["estimate"]).all()
    assert np.isnan(made.quantile(0.999)["estimate"]).all()


def test_a_life_table_has_those_who_are_censored_at_risk_for_half_the_time():
    rng = np.random.default_rng(3)
    time, until = rng.exponential(30, 200_000), rng.uniform(6, 60, 200_000)
    data = pd.DataFrame({"time": np.minimum(time, until), "event": (time <= until).astype(int)})
    rough, life = (
        curves(data, f"Surv(time, event, {CUTS})", mu=None, method=method).frame()["survival"]
        for method in ("kaplan_meier", "life_table")
    )
    true = np.exp(-np.array(CUTS) / 30)
    assert np.abs(life - true).max() < 0.006  # hazards of a fifth in each class leave some 0.004
    assert np.abs(rough - true).max() > 0.02


@pytest.mark.parametrize("shape", [0.3, 0.6, 1.0, 2.0])
def test_life_tables_have_the_areas_of_weibulls_distributions(shape):
    """Without censoring and noise; straight lines are off by 1% at 0.6."""
    cuts, n = [*range(6, 49, 6)], 1_000_000
    time = 60 * (-np.log1p(-(np.arange(n) + 0.5) / n)) ** (1 / shape)
    data = pd.DataFrame({"time": time, "event": 1})
    made = curves(data, f"Surv(time, event, {cuts})", mu=None, method="life_table")
    fine = np.linspace(0, 48, 480_001)
    assert made.rmst()["rmst"].iloc[0] == pytest.approx(np.trapezoid(np.exp(-((fine / 60) ** shape)), fine), rel=2e-5)
    assert made.rmst(6)["rmst"].iloc[0] == pytest.approx(3 + 3 * made.frame()["survival"].iloc[0])


def test_derivatives_are_those_of_small_changes():
    made = curves(people(), trust="central", seed=1)
    step, cell = 1e-6, (1, 2, 1)
    moved = made.shares.copy()
    moved[cell] += step
    at = np.ravel_multi_index(cell, made.shares.shape)
    slope = made._curves.slopes[:, at].reshape(2, -1)
    np.testing.assert_allclose(
        (made._survival(moved) - made._survival(made.shares)) / step, slope, rtol=1e-4, atol=1e-8
    )


@pytest.mark.parametrize("trust", ["two_collectors", "central"])
@pytest.mark.parametrize("cuts", [CUTS, list(range(1, 60))])
def test_a_person_moves_one_cell_however_many_cut_points_there_are(trust, cuts):
    """Noise of a cell is that of one histogram: two cells differ, by one each, between neighbours."""
    model = pr.means.PrivateMeans.from_formula(
        f"Surv(time, event, {cuts}) ~ C(arm)", people(), mu=1, trust=trust, levels=LEVELS
    )
    (plan,) = model.plans
    (item,) = plan.items
    scale = float(plan.sums.scales[0])
    assert item.size == 2 * (len(cuts) + 1) * 2 + 1  # cells, and one of those who have no value
    assert plan.sums.scales.tolist() == [scale] * item.size
    assert plan.sums.sd >= np.sqrt(2.0) * np.rint(scale) / 1.0


@pytest.mark.parametrize("trust", TRUSTS)
def test_noised_curves_are_near_kept_and_shown(trust, tmp_path):
    n, data = (40_000, people(40_000)) if trust == "local" else (4000, people())
    mu = 3 if trust == "local" else 1
    res = pr.means.PrivateMeans.from_formula(FORMULA, data, mu=mu, trust=trust, levels=LEVELS).fit(seed=1)
    assert LEDGER.spent(data) == pytest.approx(mu, rel=1e-6)
    made = res.survival(method="kaplan_meier")
    table, exact = made.frame(), curves(data, mu=None).frame()
    z = (table["survival"] - exact["survival"]) / table["std_error"]
    assert (np.abs(z) < 4).all()
    assert (table["band_low"] <= table["conf_low"]).all()
    assert (table["conf_high"] <= table["band_high"]).all()
    res.save(tmp_path / "res.privreg")
    back = pr.load(tmp_path / "res.privreg")
    assert str(back.survival(method="kaplan_meier")) == str(made)
    pd.testing.assert_frame_equal(back.survival().frame(), res.survival().frame())
    assert str(res.model if hasattr(res, "model") else dict(res.header)["Formula"]).endswith("~ C(arm)")
    for text in (made.as_text(), made.as_html(), made.as_latex(), made.as_markdown()):
        assert "Kaplan-Meier estimates of time" in text
        assert f"{n:,} records" in text
    assert max(map(len, made.as_text().splitlines())) <= 80
    made.save(tmp_path / "curves.docx")
    axes = made.plot(title="two arms")
    assert [line.get_label() for line in axes.get_lines()][:2] == ["old", "new"]


def test_points_of_few_events_or_few_at_risk_are_marked():
    few = people(300, effect=0.0).assign(event=lambda d: np.where(np.arange(300) < 20, d["event"], 0))
    with pytest.warns(pr.errors.ReliabilityWarning, match="the curves at"):
        made = curves(few, mu=20, seed=2)
    assert not made.frame()["reliable"].iloc[0]
    assert {note.code for note in made.notes} == {"answers"}
    assert "†" in str(made)
    with pytest.warns(pr.errors.ReliabilityWarning):
        lost = curves(people(200).assign(time=6), mu=0.5, seed=2)  # nobody is at risk after the first cut point
    assert not lost.frame()["reliable"].iloc[-1]
    assert curves(people(), mu=1, seed=2).frame()["reliable"].all()


def test_an_event_that_is_0_or_1_may_be_declared_by_bounds():
    data, formula = people(600), "Surv(time, event, [2, 5, 10]) ~ 1"
    given = {"mu": None, "trust": "central", "bounds": {"time": (0, 40)}}
    plain = pr.survival(data, formula, **given, levels={"event": [0, 1]}).frame()
    bounded = pr.survival(data, formula, **given | {"bounds": {"time": (0, 40), "event": (0, 1)}}).frame()
    pd.testing.assert_frame_equal(plain, bounded)


def test_unusable_rows_are_left_out_and_counted():
    data = people(8000)
    data.loc[::4, "time"] = np.nan
    found, exact = curves(data, mu=None), curves(data.dropna(), mu=None)
    np.testing.assert_allclose(found.frame()["survival"], exact.frame()["survival"], atol=1e-5)
    assert found.people == pytest.approx(6000, rel=1e-4)
    assert found.test().statistic == pytest.approx(exact.test().statistic, rel=1e-2)


def test_times_at_a_cut_point_belong_before_it_and_later_ones_beyond():
    data = pd.DataFrame({"time": [6, 6, 6.0001, 36, 36.0001, 500], "event": [1, 1, 1, 1, 1, 1]})
    data = pd.concat([data] * 500, ignore_index=True)
    found = curves(data, f"Surv(time, event, {CUTS})", mu=None).frame()
    np.testing.assert_allclose(found["events"], [1000, 500, 0, 0, 0, 500], atol=0.1)
    np.testing.assert_allclose(found["at_risk"], [3000, 2000, 1500, 1500, 1500, 1500], atol=0.1)


REFUSED = {
    "cuts fall": ("Surv(time, event, [12, 6]) ~ C(arm)", {}, SchemaError, "rising cut points"),
    "no cuts": ("Surv(time, event, []) ~ C(arm)", {}, SchemaError, "no public range"),
    "late entry": ("Surv(start, time, event, [6]) ~ 1", {}, FormulaError, "public times at which"),
    "cuts are left out": ("Surv(time, event) ~ C(arm)", {}, FormulaError, r"Surv\(time, event, \[30, 60, 90\]\)"),
    "a word as a cut": ("Surv(time, event, [late]) ~ C(arm)", {}, FormulaError, "not a column"),
    "last cut at the bound": (FORMULA, {"bounds": {"time": (0, 36)}}, SchemaError, "followed beyond the last"),
    "two factors": (f"Surv(time, event, {CUTS}) ~ C(arm) + C(sex)", {}, FormulaError, "one factor"),
    "a covariate of a mean": ("time ~ C(arm)", {"bounds": {"time": (0, 60)}}, FormulaError, "no covariates"),
    "two times": (f"Surv(time, event, {CUTS}) + Surv(t2, event, {CUTS}) ~ 1", {}, FormulaError, "more than one Surv"),
    "group without levels": (FORMULA, {"levels": {}}, SchemaError, "levels"),
    "event with bounds": (FORMULA, {"bounds": {"event": (0, 2)}}, SchemaError, "levels"),
    "one column for two": (f"Surv(time, time, {CUTS}) ~ C(arm)", {}, SchemaError, "different columns"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_say_what_to_write(case):
    formula, options, error, words = REFUSED[case]
    data = people().assign(start=0.0, sex="f", t2=1.0)
    with pytest.raises(error, match=words):
        curves(data, formula, **options)
    assert LEDGER.spent(data) == 0.0


def test_results_without_curves_or_groups_say_so():
    res = pr.means.estimate(people(), "C(arm)", mu=1, trust="central", **PUBLIC)
    with pytest.raises(InferenceError, match=re.escape("Surv(time, event, [30, 60, 90])")):
        res.survival()
    made = curves(people(), f"Surv(time, event, {CUTS})")
    for call in (made.test, lambda: made.rmst(7), lambda: made.quantile(1.0), lambda: made.cumulative_incidence("3")):
        with pytest.raises(OptionError):
            call()
    assert isinstance(made, SurvivalCurves)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("trust", "n", "mu"), [("central", 1000, 1), ("two_collectors", 1000, 1), ("local", 20_000, 2)]
)
def test_intervals_hold_and_tests_keep_their_level(trust, n, mu):
    """Exact binomial limits of 1e-4 in all; `benchmarks.survival` has more cases."""
    runs, true = 400, np.exp(-np.array(CUTS) / 30)
    held, p = [], []
    for s in range(runs):
        made = curves(people(n, s, effect=0.0), trust=trust, mu=mu, seed=s)
        table = made.frame()
        inside = ((table["band_low"] <= np.tile(true, 2)) & (np.tile(true, 2) <= table["band_high"])).to_numpy()
        held += inside.reshape(2, -1).all(axis=1).tolist()
        p.append(made.test().pvalue)
    assert sum(held) >= binom.ppf(1e-5, len(held), 0.95)
    low, high = binom.ppf([1e-5, 1 - 1e-5], runs, 0.05)
    assert low <= (np.array(p) < 0.05).sum() <= high
