"""Survival curves by group: arithmetic without noise, sensitivity, intervals, tests, marks and messages."""

import math
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text
from scipy.stats import binom
from statsmodels.duration.survfunc import CumIncidenceRight, SurvfuncRight, survdiff

import privreg as pr
from privreg.data.columns import prepare
from privreg.errors import FormulaError, InferenceError, OptionError, ReliabilityWarning, SchemaError
from privreg.means import device
from privreg.means.results.survival import SurvivalCurves
from privreg.privacy.ledger import LEDGER

pytestmark = pytest.mark.usefixtures("few_draws")
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


@pytest.mark.some(1)
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


def test_without_noise_tests_are_log_rank_tests():
    data = people(effect=0.1)
    made, seen = curves(data, mu=None), ended(data)
    statistic, p = survdiff(seen["time"], seen["event"], seen["arm"])
    test = made.test()
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
    assert f"not reached by the last cut point, {CUTS[-1]:g}" in repr(made.quantile(0.999))


@pytest.mark.thorough
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


@pytest.mark.thorough
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
    step, cell = 1e-6, (1, 0, 2, 1)
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
    scale = float(plan.scales[0])
    assert item.size == 2 * (len(cuts) + 1) * 2 + 1  # cells, and one of those who have no value
    assert plan.scales.tolist() == [scale] * item.size
    assert plan.sd >= np.sqrt(2.0) * np.rint(scale) / 1.0


def test_any_row_of_someone_who_enters_late_is_in_one_cell():
    """Whatever it holds; and noise of a cell is that of one histogram."""
    times = [np.nan, -np.inf, -1.0, 0.0, 6.0, np.nextafter(6.0, 7.0), 36.0, 36.5, 1e308, np.inf]
    rows = pd.MultiIndex.from_product([times, times, [0, 1, 2, np.nan], ["old", "new", None]])
    data = rows.to_frame(index=False, name=["start", "time", "event", "arm"])
    formula = f"Surv(start, time, event, {CUTS}) ~ C(arm)"
    model = pr.means.PrivateMeans.from_formula(formula, data, mu=1, trust="central", levels=LEVELS)
    (plan,), spec = model.plans, model._spec
    (item,) = plan.items
    assert item.size == 2 * (len(CUTS) + 2) * (len(CUTS) + 1) * 2 + 1
    assert plan.sd >= np.sqrt(2.0) * np.rint(plan.scales[0])
    raw = prepare(data, spec.columns, spec.schema, (), gaps=True)
    (cell,) = device.inside(spec.terms, raw, False)
    assert cell.shape == (len(data),)
    assert set(cell) <= set(range(item.size))
    sound = data["arm"].notna() & data["event"].isin([0, 1]) & (data["start"] >= 0) & (data["start"] < data["time"])
    assert (cell[~sound] == item.size - 1).all()
    assert (cell[sound & (data["time"] < 72.0)] < item.size - 1).all()


@pytest.mark.thorough
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


@pytest.mark.thorough
def test_points_of_few_events_or_few_at_risk_are_marked():
    few = people(300, effect=0.0).assign(event=lambda d: np.where(np.arange(300) < 20, d["event"], 0))
    with pytest.warns(pr.errors.ReliabilityWarning, match="the curves at"):
        made = curves(few, mu=20, seed=2)
    assert not made.frame()["reliable"].iloc[0]
    assert {note.code for note in made.notes} == {"answers", "rounded"}  # nearly all leave without an event
    assert "†" in str(made)
    with pytest.warns(pr.errors.ReliabilityWarning):
        lost = curves(people(200).assign(time=6), mu=0.5, seed=2)  # nobody is at risk after the first cut point
    assert not lost.frame()["reliable"].iloc[-1]
    assert curves(people(), mu=1, seed=2).frame()["reliable"].all()


def test_shares_that_noise_has_moved_beyond_0_or_1_are_shown_within_and_between_their_limits():
    moved = 0
    for seed in range(4):
        made = curves(people(100), mu=0.3, seed=seed)
        table, raw = made.frame(), made._curves.values.ravel()
        np.testing.assert_array_equal(table["survival"], np.clip(raw, 0.0, 1.0))
        assert (table["survival"].between(table["conf_low"], table["conf_high"]) | np.isnan(raw)).all()
        moved += int(((raw < 0.0) | (raw > 1.0)).sum())
    assert moved


def test_a_test_of_groups_of_whom_noise_hides_who_is_at_risk_everywhere_says_nothing():
    data = people(30)
    for seed in range(40):
        made = curves(data, mu=0.1, seed=seed)
        if np.isnan(made._counted(made.shares)[0]).any(axis=0).all():
            break
    else:
        pytest.fail("no such seed")
    found = made.test()
    assert math.isnan(found.pvalue)
    assert found.frame.isna().all(axis=None)
    assert "answers" in {note.code for note in found.notes}
    assert "p-value nan" in str(found)
    assert curves(people(), seed=seed).test().pvalue < 0.05


@pytest.mark.thorough
def test_a_time_below_0_is_of_no_use_and_one_of_0_is_of_the_first_class():
    data, n = people(), 400
    negative = data.assign(time=np.where(np.arange(len(data)) < n, -data["time"], data["time"]))
    for given in ({}, {"bounds": {"time": (0, 200)}}):
        left, all_of = curves(data[n:], mu=None, **given), curves(negative, mu=None, **given)
        np.testing.assert_allclose(all_of.frame()["survival"], left.frame()["survival"], rtol=1e-6)  # of rounded sums
        assert all_of._lost.share == pytest.approx(n / len(data))
    zero = data.assign(time=np.where(np.arange(len(data)) < n, 0.0, data["time"]))
    first = data.assign(time=np.where(np.arange(len(data)) < n, CUTS[0], data["time"]))
    np.testing.assert_array_equal(curves(zero, mu=None).frame(), curves(first, mu=None).frame())


@pytest.mark.parametrize("more", [{}, {"id": "who", "max_per_id": 2}], ids=["rows", "persons"])
@pytest.mark.parametrize("missing", ["noise", "raise", "drop"])
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_time_below_0_is_in_the_report_as_any_other_is(trust, missing, more):
    """Whatever is done about missing values: a code beyond the last would make a fit fail, or a report empty."""
    data = people(600).assign(who=np.arange(600) // 2, age=1.0)
    data.loc[5, "time"] = -5.0
    formula = f"age + Surv(time, event, {CUTS}) ~ 1"
    given = {"bounds": {"age": (0, 2)}, "trust": trust, "missing": missing, **more}
    try:
        model = pr.means.PrivateMeans.from_formula(formula, data, mu=None, **given)
    except OptionError:  # on public grounds
        assert trust != "local"
        assert missing == "drop" or more
        return
    spec = model._spec
    raw = prepare(data, spec.columns, spec.schema, (), gaps=True)
    values = device.inside(spec.terms, raw, False)
    for plan in spec.plans:
        sizes = {item.term: item.size for item in plan.items if item.kind == "factor"}
        assert all(values[term].max() < size for term, size in sizes.items())
    made = model.fit(seed=1).survival()
    assert made.shares.sum() == pytest.approx(1.0, abs=1e-6)
    str(pr.means.PrivateMeans.from_formula(formula, data, mu=1, **given).fit(seed=1).survival())


def test_cut_points_below_0_are_none():
    with pytest.raises(SchemaError, match="rising cut points"):
        curves(people(), "Surv(time, event, [-6, 12]) ~ C(arm)", bounds={"time": (-10, 100)})


def test_events_that_are_coded_otherwise_take_curves_and_tests_back():
    otherwise = people().assign(event=lambda d: d["event"] + 1)
    with pytest.warns(pr.errors.ReliabilityWarning):
        made = curves(otherwise, seed=1)
    for shown in (made, made.test()):
        assert any(n.code == "nonresponse" and "levels={'event': [1, 2]}" in n for n in shown.notes)
    assert not made.frame()["reliable"].any()
    coded = curves(otherwise, seed=1, levels={**PUBLIC["levels"], "event": [1, 2]})
    assert coded.frame()["reliable"].all()
    assert not curves(people(), seed=1)._lost.sure


def entering(n=4000, seed=0, step=6.0):
    """People of whom only those are seen who had no event before they enter, up to 24 after time 0; on a grid."""
    rng = np.random.default_rng(seed)
    time, start = rng.exponential(30, 3 * n), np.maximum(rng.uniform(-12, 24, 3 * n), 0.0)
    until = start + rng.uniform(0, 40, 3 * n)
    if step:
        time, start, until = (step * np.ceil(x / step) for x in (time, start, until))
    kept = np.flatnonzero((time > start) & (until > start))[:n]
    time, start, until = time[kept], start[kept], until[kept]
    event = (time <= until).astype(int)
    return pd.DataFrame({"start": start, "time": np.minimum(time, until), "event": event})


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_curves_of_people_who_enter_late_have_them_at_risk_from_then_on(trust):
    data = entering()
    found = curves(data, f"Surv(start, time, event, {CUTS}) ~ 1", trust=trust, mu=None, levels={}).frame()
    theirs = SurvfuncRight(data["time"], data["event"], entry=data["start"])
    at = np.searchsorted(theirs.surv_times, CUTS)
    np.testing.assert_allclose(found["survival"], theirs.surv_prob[at], atol=1e-5)
    np.testing.assert_allclose(found["at_risk"], theirs.n_risk[at], rtol=1e-5)
    np.testing.assert_allclose(found["std_error"], theirs.surv_prob_se[at], rtol=0.02)  # Greenwood's is of fixed risks
    assert np.abs(curves(data, f"Surv(time, event, {CUTS}) ~ 1", mu=None, levels={}).frame()["survival"]
                  - found["survival"]).max() > 0.05  # fmt: skip


@pytest.mark.thorough
def test_groups_of_people_who_enter_late_are_tested_and_kept(tmp_path):
    data = entering().assign(arm=np.tile(["old", "new"], 2000))
    formula = f"Surv(start, time, event, {CUTS}) ~ C(arm)"
    made = curves(data, formula, mu=None)
    statistic, _ = survdiff(*(ended(data)[c] for c in ("time", "event", "arm")), entry=data["start"])
    assert made.test().statistic == pytest.approx(statistic, rel=1e-3)
    res = pr.means.PrivateMeans.from_formula(formula, data, mu=1, trust="central", levels=LEVELS).fit(seed=1)
    assert dict(res.header)["Formula"] == f"Surv(start, time, event, {CUTS}) ~ C(arm)"
    res.save(tmp_path / "res.privreg")
    pd.testing.assert_frame_equal(pr.load(tmp_path / "res.privreg").survival().frame(), res.survival().frame())
    z = (res.survival(method="kaplan_meier").frame()["survival"] - made.frame()["survival"]) / made.frame()["std_error"]
    assert (np.abs(z) < 4).all()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_a_life_table_is_marked_where_many_enter_between_far_cut_points():
    """Of people who enter evenly, E for each at risk, a cumulative hazard L is off by L² E/12."""
    rng, n = np.random.default_rng(3), 20_000
    start = np.where(np.arange(n) < n // 4, 0.0, rng.uniform(0.0, 12.0, n))

    def table(step, start):
        data = pd.DataFrame({"start": start, "time": start + lives, "event": 1})
        return curves(data, f"Surv(start, time, event, {[*range(step, 25, step)]}) ~ 1", mu=None, method="life_table")

    lives = rng.exponential(15.0, n)
    far, near, together = table(12, start), table(1, start), table(12, np.zeros(n))
    off = (far.frame()["survival"] - np.exp(-np.array([12, 24]) / 15)) / far.frame()["std_error"]
    assert (off < -3.0).all()
    assert [note.code for note in far.notes] == ["between"]
    assert not far.frame()["reliable"].any()
    for found in (near, together):  # where all enter together, and nobody is censored, a life table is exact
        assert not found.notes
        assert found.frame()["reliable"].all()


@pytest.mark.thorough
def test_a_life_table_has_those_who_enter_at_risk_for_half_the_time():
    data = entering(200_000, step=0)
    formula, cuts = f"Surv(start, time, event, {[*range(3, 37, 3)]}) ~ 1", np.arange(3, 37, 3)
    found = curves(data, formula, mu=None, levels={}, method="life_table").frame()["survival"]
    assert np.abs(found - np.exp(-cuts / 30)).max() < 0.006


@pytest.mark.parametrize(
    "change", [{"start": 6.0, "time": 6.0}, {"start": 7.0, "time": 6.0}, {"start": -1.0}, {"start": np.nan}]
)
def test_times_that_no_one_can_have_are_no_values(change):
    data = entering(8000)
    data.loc[::4, list(change)] = list(change.values())
    found = curves(data, f"Surv(start, time, event, {CUTS}) ~ 1", mu=None, levels={})
    kept = curves(data.drop(index=data.index[::4]), f"Surv(start, time, event, {CUTS}) ~ 1", mu=None, levels={})
    np.testing.assert_allclose(found.frame()["survival"], kept.frame()["survival"], atol=1e-5)
    assert found.people == pytest.approx(6000, rel=1e-4)


@pytest.mark.some(1)
@pytest.mark.parametrize("time", [20, "6", True, np.nan, 0.0, 6.5])
def test_a_restricted_mean_until_another_time_names_the_cut_points(time):
    with pytest.raises(OptionError, match=re.escape(f"must be one of the cut points {', '.join(map(str, CUTS))};")):
        curves(people(2000), mu=None).rmst(time)


def censored(n, cuts, seed=None):
    """Life table of exponential times, and true survival; censoring is uniform, in months 6 to 48.

    Without a seed both are in as many equal steps.
    """
    if seed is None:
        steps = (np.arange(round(np.sqrt(n))) + 0.5) / round(np.sqrt(n))
        u, v = map(np.ravel, np.meshgrid(steps, steps))
    else:
        u, v = np.random.default_rng(seed).uniform(size=(2, n))
    time, until = -20 * np.log(u), 6 + 42 * v
    data = pd.DataFrame({"time": np.minimum(time, until), "event": (time <= until).astype(int)})
    made = curves(data, f"Surv(time, event, {cuts}) ~ 1", mu=None, levels={}, method="life_table")
    return made, np.exp(-np.array(cuts) / 20)


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("cuts", [[6, 12, 36], [12, 24, 36], [36], [3, 6, 9, 12, 18, 24, 36], [*range(1, 37)]])
def test_life_tables_are_marked_where_classes_are_so_wide_that_they_are_off(cuts):
    """By how much they are off is seen in records without chance; marks are those of 5,000 people, or of more."""
    exact, true = censored(1_000_000, cuts)
    off = (exact.frame()["survival"] - true).to_numpy()
    for made in (censored(100_000, cuts, 1)[0], censored(5_000, cuts, 1)[0]):
        moved = np.abs(off) / made.frame()["std_error"]
        assert not made.frame()["reliable"][moved > 0.5].any()
    if cuts == [6, 12, 36]:
        assert off[-1] == pytest.approx(0.0357, abs=0.002)  # 0.20 in place of 0.165
        assert {n.code for n in made.notes} == {"between"}
        assert not made.rmst()["reliable"].iloc[0]
        assert made.quantile(0.2)["reliable"].iloc[0]
        assert not made.quantile(0.75)["reliable"].iloc[0]
        assert made.rmst(6)["reliable"].iloc[0]
    if len(cuts) == 36:
        assert made.frame()["reliable"].all()


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("trust", TRUSTS)
@pytest.mark.parametrize("event", [0, 1])
def test_limits_reach_the_end_where_noise_may_hide_that_nobody_has_an_event_or_that_all_have(trust, event):
    """At the first cut point, after which nobody is at risk if all have an event."""
    data = pd.DataFrame({"time": 6 if event else np.tile([6, 12, 18, 24], 500), "event": event}, index=range(2000))
    drawn = [curves(data, f"Surv(time, event, {CUTS}) ~ 1", trust=trust, seed=s, levels={}).frame() for s in range(20)]
    first = pd.DataFrame([table.iloc[0] for table in drawn])
    for kind in ("conf", "band"):
        held = (first[f"{kind}_low"] <= 1 - event) & (1 - event <= first[f"{kind}_high"])
        assert held.sum() >= binom.ppf(1e-5, 20, 0.95)


def test_curves_have_the_statement_of_their_release():
    res = pr.means.PrivateMeans.from_formula(FORMULA, people(), mu=1, trust="central", levels=LEVELS).fit(seed=1)
    assert res.survival().privacy == res.privacy
    assert res.survival().privacy.short in str(res.survival())


def test_an_event_that_is_0_or_1_may_be_declared_by_bounds():
    data, formula = people(600), "Surv(time, event, [2, 5, 10]) ~ 1"
    given = {"mu": None, "trust": "central", "bounds": {"time": (0, 40)}}
    plain = pr.survival(data, formula, **given, levels={"event": [0, 1]}).frame()
    bounded = pr.survival(data, formula, **given | {"bounds": {"time": (0, 40), "event": (0, 1)}}).frame()
    pd.testing.assert_frame_equal(plain, bounded)


@pytest.mark.thorough
def test_unusable_rows_are_left_out_and_counted():
    data = people(8000)
    data.loc[::4, "time"] = np.nan
    found, exact = curves(data, mu=None), curves(data.dropna(), mu=None)
    np.testing.assert_allclose(found.frame()["survival"], exact.frame()["survival"], atol=1e-5)
    assert found.people == pytest.approx(6000, rel=1e-4)
    assert found.test().statistic == pytest.approx(exact.test().statistic, rel=1e-2)


def test_a_cut_point_may_be_at_the_upper_bound_whoever_is_followed_for_longer():
    wide, narrow = (curves(people(), mu=None, bounds={"time": (0, high)}).frame() for high in (72, 36))
    pd.testing.assert_frame_equal(wide, narrow)


def test_times_at_a_cut_point_belong_before_it_and_later_ones_beyond():
    data = pd.DataFrame({"time": [6, 6, 6.0001, 36, 36.0001, 500], "event": [1, 1, 1, 1, 1, 1]})
    data = pd.concat([data] * 500, ignore_index=True)
    found = curves(data, f"Surv(time, event, {CUTS})", mu=None).frame()
    np.testing.assert_allclose(found["events"], [1000, 500, 0, 0, 0, 500], atol=0.1)
    np.testing.assert_allclose(found["at_risk"], [3000, 2000, 1500, 1500, 1500, 1500], atol=0.1)


REFUSED = {
    "cuts fall": ("Surv(time, event, [12, 6]) ~ C(arm)", {}, SchemaError, "rising cut points"),
    "no cuts": ("Surv(time, event, []) ~ C(arm)", {}, SchemaError, "no public range"),
    "late entry by a factor": ("Surv(arm, time, event, [6]) ~ 1", {}, SchemaError, "times that are numbers"),
    "late entry without cuts": ("Surv(start, time, event) ~ 1", {}, FormulaError, "public times at which"),
    "four columns": ("Surv(start, time, t2, event, [6]) ~ 1", {}, FormulaError, "public times at which"),
    "start is the group": ("Surv(start, time, event, [6]) ~ C(start)", {}, SchemaError, "different columns"),
    "cuts are left out": ("Surv(time, event) ~ C(arm)", {}, FormulaError, r"Surv\(time, event, \[30, 60, 90\]\)"),
    "a word as a cut": ("Surv(time, event, [late]) ~ C(arm)", {}, FormulaError, "not a column"),
    "last cut beyond the bound": (FORMULA, {"bounds": {"time": (0, 35)}}, SchemaError, "within the bounds of 'time'"),
    "two factors": (f"Surv(time, event, {CUTS}) ~ C(arm) + C(sex)", {}, FormulaError, "one factor"),
    "a covariate of a mean": ("time ~ C(arm)", {"bounds": {"time": (0, 60)}}, FormulaError, "no covariates"),
    "two times": (f"Surv(time, event, {CUTS}) + Surv(t2, event, {CUTS}) ~ 1", {}, FormulaError, "more than one Surv"),
    "group without levels": (FORMULA, {"levels": {}}, SchemaError, "levels"),
    "event with bounds": (FORMULA, {"bounds": {"event": (0, 2)}}, SchemaError, "levels"),
    "entries and times are too many": (
        f"Surv(start, time, event, {[*range(1, 60)]}) ~ 1",
        {},
        OptionError,
        "at most 2,000",
    ),
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
    assert "Kaplan-Meier" in str(made)  # without a test
    assert made.rmst().columns.tolist() == ["rmst", "std_error", "conf_low", "conf_high", "reliable"]  # no differences
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


def hidden():
    """Curves of so few people that noise leaves nobody at risk in one group."""
    data = people(30)
    return pr.means.survival(data, FORMULA, mu=0.3, trust="central", levels=LEVELS, progress=False, seed=2)


def test_where_noise_leaves_nobody_at_risk_other_groups_have_their_means_and_it_is_said_until_when_all_have():
    with pytest.warns(pr.errors.ReliabilityWarning):
        made = hidden()
    known = made.frame().dropna().groupby("arm")["time"].max().reindex(made.term.groups)
    found = made.rmst()
    gone = [name for name in made.term.groups if known[name] != made.term.cuts[-1]]
    assert len(gone) == 1
    (other,) = set(made.term.groups) - set(gone)
    assert np.isfinite(found.loc[other, ["rmst", "std_error"]].astype(float)).all()
    assert found.loc[gone[0], ["rmst", "std_error"]].isna().all()
    last = known[gone[0]]
    assert f"all curves are known until {last:g}, the largest time" in found.attrs["note"]
    assert found.loc[other, "rmst"] == made.term.cuts[-1]  # where noise made the curve longer than that
    shorter = made.rmst(last)
    assert shorter.notna()["rmst"].all()
    assert (shorter["conf_low"].iloc[:2] >= 0.0).all()
    assert (shorter["conf_high"] <= last).all()
    assert shorter["conf_low"].iloc[2] >= -last
    assert "note" not in made.rmst(last).attrs


def test_numbers_of_people_are_not_shown_below_0_and_curves_say_what_all_releases_cost():
    with pytest.warns(pr.errors.ReliabilityWarning):
        made = hidden()
    frame = made.frame()
    assert (frame["events"] < 0).any()
    rows = [line.replace("†", "").split() for line in str(made).splitlines() if line[:1].isdigit()]
    assert min(float(row[2]) for row in rows if len(row) == 7) == 0.0
    assert "shown as 0" in str(made)
    test = made.test()
    assert ("shown as 0" in str(test)) == (test.frame < 0).any(axis=None)
    data = people(2000)
    for k in (1, 2):
        made = pr.means.survival(data, FORMULA, mu=3, trust="central", levels=LEVELS, progress=False)
        assert (f"in all {k} releases, this one 3-GDP" in " ".join(str(made).split())) == (k > 1)
    ax = made.plot()
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("time", "survival")
    written = " ".join(text.get_text() for text in ax.figure.findobj(Text))
    assert "in all 2 releases" in " ".join(written.split())


@pytest.mark.some(1)
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
@pytest.mark.parametrize("mu", [None, 1])
@pytest.mark.parametrize(
    ("trust", "missing"), [*((t, m) for t in TRUSTS for m in ("raise", "noise")), ("local", "drop")]
)
def test_who_enters_too_late_counts_for_nothing_whatever_becomes_of_missing_values(trust, missing, mu):
    data = people(600).assign(start=0.0)
    data.loc[[5, 7], "start"] = 99.0
    how = {"mu": mu, "missing": missing, "trust": trust, "seed": 1}
    found = curves(data, formula := f"Surv(start, time, event, {CUTS}) ~ C(arm)", **how)
    if mu is None:
        alone = curves(data.drop(index=[5, 7]), formula, **how)
        np.testing.assert_allclose(found.frame()["survival"], alone.frame()["survival"], rtol=1e-9)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::privreg.errors.ReliabilityWarning")
def test_where_noise_leaves_nobody_nothing_is_tested():
    found = next(c for seed in range(60) if np.isnan((c := curves(people(300), mu=0.004, seed=seed)).shares).all())
    test = found.test()
    assert np.isnan([test.statistic, test.pvalue]).all()
    assert "p-value nan" in test.words


@pytest.mark.some(1)
@pytest.mark.parametrize("trust", TRUSTS)
def test_records_of_no_use_are_said_where_curves_are_shown(trust):
    rng = np.random.default_rng(3)
    rows = pd.DataFrame({"time": rng.exponential(5.0, 4_000), "arm": rng.choice(["a", "b", "c"], 4_000), "event": 1})
    how = {"mu": 4, "trust": trust, "seed": 1, "progress": False, "missing": "noise"}
    whole = pr.survival(rows, "Surv(time, event, [2, 4]) ~ C(arm)", levels={"arm": ["a", "b", "c"]}, **how)
    assert "Unusable" not in str(whole)
    part = pr.survival(rows, "Surv(time, event, [2, 4]) ~ C(arm)", levels={"arm": ["a", "b"]}, **how)
    assert "Unusable: 3" in str(part)
    coded = pr.survival(rows.assign(event=1 + (rows["time"] > 3)), "Surv(time, event, [2, 4]) ~ 1", **how)
    assert "an event is 0 or 1, or one of its levels=, the first of which is censoring (levels=" in " ".join(
        str(coded).split()
    )


def test_a_first_class_whose_hazards_rise_and_at_whose_end_censoring_begins_is_wide():
    """Weibull's hazards of shape 2, and censoring from time 20 on: the life table is 0.6 standard errors too low."""
    rng, n = np.random.default_rng(1), 10_000
    time, until = 60 * rng.weibull(2.0, n), rng.uniform(20, 100, n)
    data = pd.DataFrame({"time": np.minimum(time, until), "event": (time <= until).astype(int)})
    how = {"levels": {}, "method": "life_table", "seed": 1}
    with pytest.warns(ReliabilityWarning):
        far = curves(data, "Surv(time, event, [24, 48]) ~ 1", **how)
    assert not far.frame()["reliable"].any()
    near = curves(data, f"Surv(time, event, {[*range(6, 49, 6)]}) ~ 1", **how)
    assert near.frame()["reliable"].all()


def test_options_that_there_are_not_are_refused_by_the_function_that_was_called():
    with pytest.raises(pr.errors.UnsupportedArgumentError, match=r"^survival\(\) has no 'mthod'. Did you mean 'me"):
        curves(people(), mthod="life_table")
    with pytest.raises(pr.errors.UnsupportedArgumentError, match=r"^estimate\(\) has no 'mthod'"):
        pr.means.estimate(people(), ["time"], mu=1, mthod="life_table")
