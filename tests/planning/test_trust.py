"""Plans under each trust model."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from scipy.stats import poisson

import privreg as pr
from benchmarks import planning
from privreg.data.participants import Participants
from privreg.errors import BudgetError, DataError, InferenceError, OptionError, UnsupportedArgumentError
from privreg.planning.precision import FittedPrecision, fit_of, plain_errors

pytestmark = pytest.mark.usefixtures("shared_rehearsals")
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
STUDY = {"bounds": {"x": (0, 1), "y": (0, 5)}, "scale": 1.0}


@pytest.fixture(autouse=True)
def further_cases(request: pytest.FixtureRequest) -> None:
    """Further cases, run by themselves, have as many fits as users get."""
    if request.node.get_closest_marker("thorough") is not None:
        request.getfixturevalue("usual_fits")


@pytest.fixture
def two() -> pr.planning.StudyPlan:
    return pr.plan("y ~ x", mu=1, width=0.5, coef="x", trust="two_collectors", **STUDY)


@pytest.mark.thorough
def test_two_collectors_need_a_hundredth_of_the_people_of_local_reports(two) -> None:
    local = pr.plan("y ~ x", mu=1, width=0.5, coef="x", **STUDY)
    assert two.n < local.n / 10
    assert "two collectors" in " ".join(str(two).split())
    assert "two collectors" not in str(local)


@pytest.mark.thorough
def test_the_planned_width_is_that_of_fits(two) -> None:
    """Widths of ten fits scatter by some 12% at this size, their mean by 4%, and the plan's own median as much."""
    found = two.check(10, seed=3, progress=False)
    assert found.loc["x", "ratio"] == pytest.approx(1.0, abs=5 * math.hypot(0.04, found.loc["x", "ratio_se"]))


@pytest.mark.thorough
def test_all_three_trust_models_are_compared_in_one_table(two) -> None:
    found = two.compare_trust()
    table = found.table
    assert table.index.tolist() == ["local", "two_collectors", "central", "no privacy"]
    assert table.loc["two_collectors", "people"] == two.n
    assert table["people"].is_monotonic_decreasing  # who trusts more needs fewer people
    assert table["people"].is_unique
    assert (table["width"] <= 0.5 * 1.001).all()
    assert "people needed" in str(found)
    assert "<table" in found.as_html()
    # without privacy: the usual formula, and what Huber's loss costs with normal errors
    normal = (2 * 1.959964 * 1.0 / (0.5 * math.sqrt(1 / 12))) ** 2 / 0.95
    assert table.loc["no privacy", "people"] == pytest.approx(normal, rel=0.03)


@pytest.mark.thorough
@pytest.mark.usefixtures("one_fit")
def test_silos_are_planned_by_their_records_beside_the_others() -> None:
    plan = pr.plan("y ~ x + C(silo)", mu=1, trust="silos", silos={"north": 2_000, "south": 500}, **STUDY)
    assert plan.n == 2_500
    text = " ".join(str(plan).split())
    assert "2 silos of 500 to 2,000" in text
    assert "sqrt(q) times the budget" in text
    assert "people than two collectors do: the interval of x is" in text
    assert "C(silo)[T.south]" in plan.table().index
    table = plan.compare_trust().table
    assert table.index.tolist() == ["local", "two_collectors", "silos", "central", "no privacy"]
    widths = table["width"].to_dict()
    assert widths["local"] > widths["two_collectors"] > widths["silos"]
    # 2,500 rows lose little to noise: fits that are tried vary by a few hundredths
    assert widths["silos"] > 0.95 * widths["central"] > 0.9 * widths["no privacy"]


@pytest.mark.thorough
@pytest.mark.usefixtures("one_fit", "unmarked")
def test_more_silos_of_the_same_people_need_more() -> None:
    equal = pr.plan("y ~ x", mu=1, trust="silos", silos=3, width=0.5, coef="x", **STUDY)
    assert equal.table().loc["x", "width"] <= 0.5 * 1.001
    many = pr.plan("y ~ x", mu=1, trust="silos", silos=30, n=3_000, **STUDY)
    assert "30 silos of 100" in " ".join(str(many).split())
    assert "silos need more people than two collectors do" in " ".join(str(many).split())
    alone = pr.plan("y ~ x", mu=1, trust="silos", silos=1, n=3_000, **STUDY)
    assert "silos need no more people than two collectors do" in " ".join(str(alone).split())
    assert many.table().loc["x", "std_error"] > alone.table().loc["x", "std_error"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"trust": "silos"}, "the records that each silo holds"),
        ({"silos": 3}, "go with trust='silos'"),
        ({"trust": "silos", "silos": [2, 3], "n": 5}, "leave n= out"),
        ({"trust": "silos", "silos": []}, "one silo or more"),
        ({"trust": "silos", "silos": [0, 3]}, "silos=0 must be"),
        ({"trust": "silos", "silos": [2.5]}, "silos=2.5 must be"),
        ({"trust": "silos", "silos": "3"}, "silos='3' must be"),
        ({"trust": "silos", "silos": 0, "n": 5}, "silos=0 must be"),
        ({"trust": "silos", "silos": {1: 2}}, "by its name, a text"),
        ({"trust": "silos", "silos": float("nan")}, "silos=nan must be"),
    ],
)
def test_records_of_silos_are_refused_by_name(given: dict[str, object], words: str) -> None:
    with pytest.raises(OptionError, match=words):
        pr.plan("y ~ x", mu=1, **STUDY, **given)


def test_a_budget_that_no_sum_can_keep_leaves_the_line_empty() -> None:
    plan = pr.plan("y ~ x", epsilon=1, n=5_000, **STUDY)
    found = plan.compare_trust()
    table = found.table
    assert pd.isna(table.loc["two_collectors", "people"])
    assert any(note.startswith("two_collectors: ") and "pure epsilon" in note for note in found.notes)
    assert table.loc["local", "people"] == 5_000
    with pytest.raises(BudgetError, match="pure epsilon"):
        pr.plan("y ~ x", epsilon=1, n=5_000, trust="two_collectors", **STUDY)


def test_a_curator_has_a_plan_of_its_own() -> None:
    plan = pr.plan("y ~ x", mu=1, n=8_000, trust="central", **STUDY)
    table = plan.table()
    assert np.isfinite(table["width"]).all()
    assert table.loc["x", "std_error"] > 1.0 / math.sqrt(8_000 / 12)  # not below least squares'
    few = pr.plan("y ~ x", mu=1, n=100, trust="central", **STUDY)
    assert any(note.code == "unreliable" for note in few.notes)


@pytest.mark.thorough
def test_no_privacy_is_statsmodels_own_fit() -> None:
    plan = pr.plan("b ~ x", mu=1, n=4_000, trust="two_collectors", family="logistic", bounds={"x": (0, 1)})
    x = sm.add_constant(np.random.default_rng(0).uniform(0, 1, 40_000))
    info = x.T @ x / 4 / len(x)  # of coefficients 0
    expected = math.sqrt(np.linalg.inv(info)[1, 1] / 4_000)
    assert plan.compare_trust().table.loc["no privacy", "std_error"] == pytest.approx(expected, rel=0.03)


def test_what_two_collectors_cannot_do_is_refused_by_name() -> None:
    with pytest.raises(UnsupportedArgumentError, match="SmoothedHinge"):
        pr.plan("b ~ x", mu=1, n=1_000, trust="two_collectors", family="hinge", bounds={"x": (0, 1)})


@pytest.mark.thorough
def test_several_levels_are_planned_beside_statsmodels() -> None:
    levels = {"g": ["a", "b", "c"]}
    given = {"mu": 1, "n": 1_000, "family": "multinomial", "bounds": {"x": (0, 1)}, "levels": levels}
    plan = pr.plan("g ~ x", trust="two_collectors", **given)
    x = sm.add_constant(np.random.default_rng(0).uniform(size=(20_000, 1)))
    info = np.kron(np.array([[2, -1], [-1, 2]]) / 9, x.T @ x / len(x))  # of coefficients 0
    expected = np.sqrt(np.diag(np.linalg.inv(info)) / 1_000)
    plain = plain_errors(plan.spec, plan.assumed)
    assert plain is not None
    assert plain / math.sqrt(1_000) == pytest.approx(expected, rel=0.05)
    ratios = plan.table()["std_error"].to_numpy() / expected
    assert ratios.min() > 1.0
    assert ratios.max() < 3.0


ASKED = {"wide": {"width": 5.0}, "narrow": {"width": 0.4}, "effect": {"effect": 0.5, "power": 0.9}}


@pytest.mark.thorough
@pytest.mark.usefixtures("one_fit")
@pytest.mark.parametrize("mu", [0.4, 1])
@pytest.mark.parametrize("trust", ["local", "two_collectors", "silos", "central"])
@pytest.mark.parametrize("asked", ASKED)
def test_a_plan_for_the_people_that_are_needed_says_what_the_plan_that_found_them_says(
    asked: str, trust: str, mu: float
) -> None:
    how = {"trust": trust, **({"silos": 2} if trust == "silos" else {}), **STUDY}
    found = pr.plan("y ~ x", mu=mu, coef="x", **ASKED[asked], **how)
    given = pr.plan("y ~ x", mu=mu, coef="x", n=found.n, **ASKED[asked], **how)
    bare = pr.plan("y ~ x", mu=mu, n=found.n, **how)
    assert given.reliable == found.reliable <= found.n
    pd.testing.assert_frame_equal(given.table(), found.table())
    pd.testing.assert_series_equal(bare.table()["std_error"], found.table()["std_error"])
    first, again, plain = (
        {note for note in plan.notes if note.code not in {"raised", "power", "collectors"}}
        for plan in (found, given, bare)
    )
    assert first == again == plain
    budget = pr.plan("y ~ x", coef="x", n=found.n, **ASKED[asked], **how)
    spent = pr.plan("y ~ x", mu=budget.mu, coef="x", n=found.n, **ASKED[asked], **how)
    pd.testing.assert_frame_equal(spent.table(), budget.table())
    assert "missed" not in {note.code for plan in (given, budget, spent) for note in plan.notes}
    if found.n == found.needed:
        fewer = pr.plan("y ~ x", mu=mu, coef="x", n=int(0.97 * found.n), **ASKED[asked], **how)
        assert "missed" in {note.code for note in fewer.notes}


@pytest.mark.thorough
def test_a_budget_whose_fits_need_more_people_than_are_usually_tried_has_a_plan() -> None:
    plan = pr.plan("y ~ x", trust="central", mu=0.002, width=0.5, coef="x", **STUDY)
    assert 32_000 < plan._precision.fewest <= plan.n < 10**6
    assert plan.table().loc["x", "width"] <= 0.5
    assert plan.reliable < 10**13 or f"up to {plan._precision.most:,} made-up people" in " ".join(str(plan).split())


@pytest.mark.thorough
@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_fewer_people_are_never_planned_to_be_more_precise_or_reliable_than_more(trust: str) -> None:
    """Below what fits were tried of, errors were once taken to fall like those of sampling alone."""
    plan = pr.plan("y ~ x", mu=1, width=5, coef="x", trust=trust, **STUDY)
    tried = [plan._precision.std_errors(n) * math.sqrt(n) for n in (62, 125, 250, 500, 4_000)]
    assert all((few >= more).all() for few, more in itertools.pairwise(tried))
    assert not plan._precision.reliable(40, ())
    assert plan.n >= plan.reliable > 62  # fewer than the fewest that fits were tried of


FAMILIES = {
    "huber": {"family": "huber", "bounds": {"x": (0, 1), "y": (0, 10)}},
    "squared": {"family": pr.Squared(), "bounds": {"x": (0, 1), "y": (0, 10)}},
    "logistic": {"family": "logistic", "bounds": {"x": (0, 1)}, "levels": {"y": [0, 1]}},
    "poisson": {"family": pr.Poisson(y_max=9), "bounds": {"x": (0, 1)}},
    "multinomial": {"family": "multinomial", "bounds": {"x": (0, 1)}, "levels": {"y": ["a", "b", "c"]}},
}


@pytest.mark.thorough
@pytest.mark.parametrize("family", list(FAMILIES))
@pytest.mark.parametrize("trust", ["two_collectors", "central", "local"])
def test_a_plan_has_standard_errors_where_a_fit_of_as_many_has_and_calls_none_reliable_that_is_refused(
    trust: str, family: str
) -> None:
    declared = {"trust": trust, "mu": 1, **FAMILIES[family]}
    first = pr.plan("y ~ x", n=500, **declared)
    fewest = getattr(first._precision, "fewest", 63)
    assert first.reliable >= fewest
    for n in (fewest - 1, fewest, 4 * fewest):
        plan = pr.plan("y ~ x", n=n, **declared)
        rng = np.random.default_rng(n)
        try:
            fitted = np.isfinite(fit_of(plan.spec, plan.assumed, n, rng, n)[0].tidy()["std_error"]).all()
        except (DataError, InferenceError):
            fitted = False
        finite = bool(np.isfinite(plan.table()["std_error"]).all())
        assert finite == fitted or n < 63  # of so few no fit is tried
        assert finite or plan.n < plan.reliable


@pytest.mark.usefixtures("usual_fits", "unmarked")
def test_precision_of_very_many_people_is_finite_and_positive() -> None:
    """Where errors fell faster than noise does among the fits tried, no variance becomes negative beyond them."""
    each = FittedPrecision(pr.plan("y ~ x", mu=1, n=500, trust="central", **STUDY).spec, None)
    each._known.update({5: np.array([3.0, 1.0]), 6: np.array([1.0, 1.0])})
    errors = np.array([each.std_errors(n) for n in (1e5, 1e8, 1e12)])
    assert (errors > 0.0).all()
    assert (np.diff(errors, axis=0) < 0.0).all()


@pytest.mark.thorough
@pytest.mark.parametrize(("trust", "mu"), [("central", 1), ("two_collectors", 0.1)])
def test_contours_have_lines_only_where_there_are_standard_errors(trust: str, mu: float) -> None:
    plan = pr.plan("y ~ x", mu=mu, n=3_000, trust=trust, **STUDY)
    drawn = plan.plot()
    assert "mean width" in drawn.get_title(loc="left")
    table, _ = plan._nearby([3_000], [0.3 * mu, mu], "x", pure=False)
    assert trust == "central" or table.loc[3_000, mu] < table.loc[3_000, 0.3 * mu]  # it was once as good


@pytest.mark.thorough
def test_each_line_of_the_comparison_that_has_no_numbers_or_misleads_has_a_note() -> None:
    found = pr.plan("y ~ x", mu=1, n=100, **STUDY).compare_trust("Intercept")
    assert found.title.endswith("precision of Intercept")
    words = " ".join(str(found).split())
    assert math.isinf(found.table.loc["central", "std_error"])
    assert "inf" not in str(found).split("[1]")[0]
    assert "central: don't rely on intervals with so few records: " in words


@pytest.mark.thorough
def test_the_comparison_shows_a_coefficient_that_exists(two) -> None:
    with pytest.raises(OptionError, match="no coefficient"):
        two.compare_trust("w")


@pytest.mark.thorough
def test_families_are_compared_where_the_question_can_be_asked_of_several() -> None:
    counts = {"mu": 1, "trust": "local", "bounds": {"x": (-1, 1)}, "params": {"Intercept": math.log(2.0)}}
    found = pr.plan("y ~ x", n=1_000_000, family=pr.Poisson(60), **counts).compare_families()
    plain, robust = (float(v) for v in found.table["std_error"])
    assert found.table.index.tolist() == ["Poisson(y_max=60)", "Poisson(y_max=60, c=1.5)"]
    assert (found.table["people"] == 1_000_000).all()
    # the slopes of mean scores, of which noise is made an error: m/(y_max - m) and sqrt(m) Cov(psi, r)/(c + |a|)
    y = np.arange(200.0)
    r = (y - 2.0) / math.sqrt(2.0)
    psi, chance = np.clip(r, -1.5, 1.5), poisson.pmf(y, 2.0)
    steep = math.sqrt(2.0) * float(chance @ (psi * r)) / (1.5 + abs(float(chance @ psi)))
    assert plain / robust == pytest.approx(steep / (2.0 / 58.0), rel=0.25)  # what both spend on other rounds differs
    numbers = pr.plan("y ~ x", mu=1, n=100_000, **STUDY).compare_families("x")
    assert numbers.table.index.tolist() == [
        repr(f) for f in (pr.Huber(), pr.Huber(1.345), pr.Expectile(0.5), pr.Squared())
    ]
    assert "Squared()" in str(numbers)
    with pytest.raises(OptionError, match="numbers and counts"):
        pr.plan("y ~ x", mu=1, n=1_000, family="logistic", bounds={"x": (0, 1)}).compare_families()


@pytest.mark.thorough
@pytest.mark.usefixtures("usual_rounds")
@pytest.mark.usefixtures("usual_fits")
def test_the_table_of_the_readme_is_what_a_plan_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("privreg.planning.precision.PAIRS", 4)  # as users have it
    public = {"bounds": {"age": (18, 65), "bmi": (18, 50), "charges": (0, 35_000)}, "levels": {"smoker": ["no", "yes"]}}
    how = {"mu": 1, "width": {"age": 20}, "scale": 2500, "trust": "two_collectors"}
    people = pr.plan("charges ~ age + bmi + smoker", **how, **public).compare_trust().table["people"]
    assert people.is_monotonic_decreasing
    two = pr.plan("charges ~ age + bmi + smoker", **{**how, "trust": "silos"}, silos=2, **public).n
    root = Path(__file__).resolve().parents[2]
    for page, (name, n) in itertools.product(("README.md", "docs/index.md"), people.items()):
        lines = (root / page).read_text("utf-8").split("\n")
        if name != "no privacy":
            (line,) = [line for line in lines if line.startswith("|") and f'`"{name}"`' in line]
            assert f"| {n:,} |" in line
        assert f"| {two:,} in two |" in "\n".join(lines)


@pytest.mark.thorough
def test_a_plan_whose_fits_are_always_marked_names_no_number_of_people() -> None:
    """A level of one person in 500: all fits that are tried mark it."""
    study = {"mu": 0.05, "scale": 1.0, "bounds": {"y": (0, 5)}, "levels": {"g": ["a", "b"]}, "trust": "two_collectors"}
    for asked in ({"n": 2_000}, {"width": 1.0}):
        plan = pr.plan("y ~ g", shares={"g": (0.998, 0.002)}, **study, **asked)
        said = " ".join(str(plan).split())
        assert "ost fits of up to 32,000 made-up people" in said
        assert "10,000,000,000" not in said


@pytest.mark.thorough
def test_assumed_residuals_of_a_person_are_as_alike_as_is_said() -> None:
    asked = {"bounds": {"y": (-60, 80), "x": (-4, 4)}, "scale": 2.0, "n": 500, "mu": 50}
    plan = pr.plan("y ~ x", **asked)
    with pytest.raises(OptionError, match="goes with k_max="):
        pr.plan("y ~ x", icc=0.5, **asked)
    people = Participants.declare(id="who", k_max=3)
    spec, rng = replace(plan.spec, people=people), np.random.default_rng(1)
    x = np.zeros((30_000, 2))
    y = replace(plan.assumed, icc=0.7).responses(spec, x, np.full(30_000, 2.0), rng).reshape(-1, 3)
    assert np.corrcoef(y.T)[0, 1:] == pytest.approx([0.7, 0.7], abs=5.0 * 0.51 / 100.0)  # se (1 − ρ²)/√n
    assert y.std() == pytest.approx(2.0, rel=0.03)
    assert "3 rows each" in dict(replace(plan.assumed, icc=0.7).words(spec))["people"]
    of_rows = replace(plan, spec=spec)
    assert "\n500 people, 3 rows each (" in str(of_rows)
    assert "\n500 people, 3 rows each, are needed (" in str(replace(of_rows, asked="people"))
    assert [str(n) for n in of_rows.notes if n.code == "rows_assumed"] == [
        "records are people here, with 3 rows each. Where people have fewer, noise makes standard errors up to about "
        "3/m times as large, with m the mean number of rows that count"
    ]
    changes = replace(of_rows, spec=replace(spec, people=replace(people, effect=("who", "within"))))
    assert any("2/(m - 1) times" in str(n) for n in changes.notes)
    assert "rows_assumed" not in {n.code for n in plan.notes}


@pytest.mark.thorough
def test_a_plan_knows_rows_of_a_person_and_how_alike_they_are() -> None:
    """Three rows tell more than one; alike ones tell less of the intercept, and no less of changes."""
    asked = {"bounds": {"y": (-6, 8), "x": (-4, 4)}, "scale": 1.0, "n": 3_000, "mu": 4, "trust": "two_collectors"}
    one = pr.plan("y ~ x", **asked).table()["std_error"]
    three = pr.plan("y ~ x", k_max=3, **asked).table()["std_error"]
    alike = pr.plan("y ~ x", k_max=3, icc=0.9, **asked).table()["std_error"]
    within = pr.plan("y ~ x | person", k_max=3, icc=0.9, **asked)
    assert (three < 0.8 * one).all()
    assert alike["Intercept"] > 1.3 * three["Intercept"]
    assert alike["x"] < 1.2 * three["x"]
    assert within.table()["std_error"]["x"] < alike["x"]
    said = " ".join(str(within).split())
    assert "y ~ x | person" in said
    assert "3 rows each, covariates drawn anew for each row, residuals correlated by 0.9" in said
    assert not within.compare_trust().table["people"].isna().any()


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("formula", "more"),
    [
        ("y ~ x | person", {"k_max": 3, "icc": 0.5}),
        ("y ~ x", {"k_max": 3, "icc": 0.9}),
        ("y ~ x", {"k_max": 3}),
        ("y ~ x | diff(person)", {"k_max": 3, "icc": 0.5}),
        ("d ~ x | person", {"k_max": 2, "family": "logistic", "scale": None}),
        ("y ~ x", {"k_max": 3, "mu": None, "epsilon": 6}),
        ("y ~ x", {"k_max": 3, "trust": "central"}),
    ],
)
def test_plans_of_several_rows_are_as_wide_as_fits(formula: str, more: dict[str, object]) -> None:
    """Mean widths of 8 fits; their standard error is 1 to 4%, as `check` has it, and plans may be some 10% off."""
    asked = {"bounds": {"y": (-6, 8), "x": (-4, 4), "d": (0, 1)}, "scale": 1.0, "n": 20_000, "mu": 4}
    asked = {k: v for k, v in {**asked, **more}.items() if v is not None}
    plan = pr.plan(formula, **asked)
    found = plan.check(8, seed=1, progress=False)
    assert (np.abs(found["ratio"] - 1.0) < 0.1 + 4.0 * found["ratio_se"]).all()
    assert plan.reliable < 20_000


def test_local_plans_know_people_rows_correlation_and_power() -> None:
    asked = {"bounds": {"y": (-6, 8), "x": (-4, 4)}, "scale": 1.0, "mu": 1, "effect": 0.02, "coef": "x"}
    one = pr.plan("y ~ x", **asked)
    alone, alike = (pr.plan("y ~ x | person", k_max=5, icc=icc, **asked) for icc in (0.0, 0.9))
    assert alike.n < 0.5 * alone.n
    assert one.table()["power"]["x"] == pytest.approx(0.8, abs=0.02)
    assert alike.table()["power"]["x"] == pytest.approx(0.8, abs=0.02)
    many = pr.plan("y ~ x | person", k_max=6, icc=0.5, **asked)
    assert "no fit lets intervals be relied on" in " ".join(str(many).split())
    assert "k_max=5" in " ".join(str(many).split())
    assert not many.reliable < np.inf


def test_standard_errors_of_plans_with_a_pilots_numbers_are_those_of_fits_of_real_data() -> None:
    """By the stored table: ten data sets, four sizes, a curator and two collectors."""
    found = pd.read_csv(RESULTS / "planning.csv", comment="#")
    facts = found[found["known"] == "facts"]
    assert facts.groupby("trust")["design"].nunique().to_dict() == {"central": 10, "two_collectors": 10}
    sure = facts[(facts["marked"] < 50.0) & np.isfinite(facts["ratio"])]
    within = sure["ratio"].between(0.8, 1.25).groupby([sure["trust"], sure["n"]]).mean()
    few = within.index.get_level_values("n") == 1_000
    assert (within[~few] == 1.0).all()
    assert (within[few] > 0.75).all()  # half of them are marked
    rows = found[(found["known"] == "rows") & (found["marked"] < 50.0)]
    assert (rows["ratio"].between(0.8, 1.25)).mean() >= 0.98
    assert ((found["marked"] > 50.0) == found["expected"]).mean() >= 0.95


@pytest.mark.thorough
@pytest.mark.some(1)
@pytest.mark.parametrize("trust", ["two_collectors", "central"])
def test_a_plan_with_a_pilots_numbers_is_near_fits_of_its_data(trust: str) -> None:
    n, name = 4_000, "births"
    plan = planning.planned(name, trust, n, "facts")
    seen = np.array(planning.cell(trust, name, n, 4)).reshape(4, 2, -1)
    ratio = np.median(seen[:, 0], axis=0) / plan.table()["std_error"].to_numpy()
    assert ((ratio > 0.75) & (ratio < 1.33)).all()
    marked = seen[:, 1].mean(axis=0)  # a row that most fits mark is marked in one of four at least, in 15 of 16 cases
    assert (marked < 1.0).all() if plan.n >= plan.reliable else (marked > 0.0).any()
